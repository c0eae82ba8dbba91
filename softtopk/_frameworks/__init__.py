"""What the operators on PyTorch and JAX share: one mathematics over the namespace.

An adapter (`torch`, `jax`) names its library's functions and adds a loop and two
primitives with their derivative rules.  It is the first argument of every operator
here; `softtopk.torch` and `softtopk.jax` hand it on, in functions that
`tools/frameworks_modules.py` writes:

- ``select(curve, x, whole, part, tau, check)`` is `selection.solved`, with the rule
  that `selection.push` states forward and `selection.pull` backward;
- ``attach(value, inputs, slopes)`` is a number whose derivatives are given.
"""
