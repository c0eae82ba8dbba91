"""The searches for thresholds: `root` is right for every curve, on every library.

Files named ``numpy_...`` are for NumPy alone, or for rows that are handed to it.
"""
