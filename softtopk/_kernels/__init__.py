"""The selection in one kernel forward and one backward, in Triton.

``triton_curves`` has the sums and slopes of the named curves, ``triton_select`` the two
kernels, and ``torch_launch`` launches them for the tensors that they can take.  Only
``torch_launch`` is imported by the package, and it imports the others, and Triton with
them, when a tensor on an accelerator asks for it.
"""
