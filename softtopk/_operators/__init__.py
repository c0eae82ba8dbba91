"""The bodies of the operators, written once for NumPy, PyTorch and JAX.

An adapter (of `softtopk._adapters`) is the first argument of every operator here.  It
names its library's functions and says how the library searches and differentiates:
`softtopk._contract` lists its members.  The public functions of the package hand it on:
on NumPy those of `softtopk` and `softtopk.losses`, elsewhere those of `softtopk.torch`
and `softtopk.jax`, which `tools/frameworks_modules.py` writes.

- ``select(curve, rows, check)`` returns shares and thresholds.  The search over sums is
  `selection_search.solved`, with the derivatives of `selection_rule`; NumPy has a
  quicker search.
- ``attach(value, by)`` is a number for each row whose derivatives are given.  NumPy
  keeps them for `linearize`.

Some operators have a body of their own on NumPy too, where it is quicker: those of
`hard.py`, `simplex.py` and `subset.py`, and part of those of `sorting.py`.
"""
