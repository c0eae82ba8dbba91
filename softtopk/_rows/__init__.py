"""Arguments, checked and laid out as rows: on NumPy, and over an adapter."""
