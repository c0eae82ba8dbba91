"""The selection in one kernel forward and one backward, in Triton.

``curves`` has the sums and slopes of the named curves, ``select`` the two kernels, and
``torch`` launches them for the tensors that they can take.  Only ``torch`` is imported
by the package, and it imports the others, and Triton with them, when a tensor on an
accelerator asks for it.
"""
