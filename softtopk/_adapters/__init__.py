"""What NumPy, PyTorch and JAX offer to the operators; `softtopk._contract` lists it."""
