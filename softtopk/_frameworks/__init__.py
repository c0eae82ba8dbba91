"""What the operators on PyTorch and JAX share: one mathematics over the namespace.

An adapter (`softtopk.torch`, `softtopk.jax`) names its library's functions, adds a loop
and two primitives with their derivative rules, and takes every operator from here:

- ``select(curve, x, whole, part, tau, check)`` is `selection.solved`, with the rule
  that `selection.push` states forward and `selection.pull` backward;
- ``attach(value, inputs, slopes)`` is a number whose derivatives are given.
"""
