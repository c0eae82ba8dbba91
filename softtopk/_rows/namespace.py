"""Which functions an array answers to: NumPy's, or those of the library it comes from.

The mathematics of this package is written with functions that NumPy, PyTorch and JAX
call alike: abs, clip, exp, expm1, isfinite, log, log1p, sqrt, sum, where.  An adapter
registers its arrays when it is imported; everything else is NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .numpy_rows import as_real

_LIBRARIES: list[tuple[type, Any]] = []


def register(kind: type, functions: Any, *, first: bool = False) -> None:
    """Let arrays of a type be calculated with by the functions of their library.

    The type of a library whose compiler follows `namespace` is asked about `first`:
    torch.compile accepts no question whether a tensor is a `jax.Array`, since the class
    of that type answers such questions itself.
    """
    _LIBRARIES.insert(0 if first else len(_LIBRARIES), (kind, functions))


def namespace(value: Any) -> Any:
    """The module whose functions take this array."""
    for kind, functions in _LIBRARIES:
        if isinstance(value, kind):
            return functions
    return np


def floats(values: ArrayLike, name: str) -> tuple[Any, Any]:
    """The namespace and the values: what is NumPy's as float32 or float64."""
    xp = namespace(values)
    return xp, as_real(values, name) if xp is np else values


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`; for one truth value by an if.

    NumPy's where takes as long for one number as a pass over a short row.
    """
    if isinstance(condition, (np.bool_, bool)):
        return yes if condition else no
    return namespace(condition).where(condition, yes, no)


def clip(xp: Any, x: Any, least: Any, most: Any) -> Any:
    """clip; on NumPy without np.clip, which takes twice as long for a short row."""
    if xp is not np:
        return xp.clip(x, least, most)
    x = x if least is None else np.maximum(x, least)
    return x if most is None else np.minimum(x, most)


def hypot(a: Any, b: Any) -> Any:
    """hypot from a few simple operations; at most one argument may be infinite.

    For JAX, where it takes a third of jnp.hypot's, and for formats without a hypot.
    """
    xp, a, b = namespace(a), abs(a), abs(b)
    most = xp.maximum(a, b)
    ratio = xp.minimum(a, b) / xp.where(most > 0, most, 1)
    return most * xp.sqrt(1 + ratio * ratio)


def is_nan(x: Any) -> Any:
    """Where x is NaN; without `!=`, which PyTorch 2.11 refuses for a DTensor."""
    return ~(x == x)


def tally(true: Any, like: Any) -> Any:
    """How many of each row are true, exactly.

    In the floats of `like` where these hold all counts: compiled sums of integers take
    up to three times as long.
    """
    xp, n = namespace(true), true.shape[-1]
    if xp is not np and n * xp.finfo(like.dtype).eps <= 2:
        true = xp.astype(true, like.dtype)
    return xp.sum(true, axis=-1)


def after(value: Any, total: Any) -> Any:
    """The value (..., n), made to depend on `total` (...): its sums come after it.

    Otherwise XLA computes the sums in one pass and stores the terms of all of them.
    """
    library = namespace(value)
    return value if library is np else library.after(value, total)


def either(x: Any, unguarded: Callable[..., Any], masked: Callable[..., Any]) -> Any:
    """unguarded(x, top, least) or masked(x), by the `either` of the library's adapter.

    NumPy always calls masked(x): a pass that looks for -inf first would save no time.
    """
    library = namespace(x)
    return masked(x) if library is np else library.either(x, unguarded, masked)


def loop(going: Callable[..., Any], step: Callable[..., Any], state: Any) -> Any:
    """The state after as many steps as `going` asks for."""
    library = namespace(leaf(state))
    if library is not np:
        return library.loop(going, step, state)
    while going(*state):
        state = step(*state)
    return state


def leaf(state: Any) -> Any:
    """The last array of nested tuples."""
    while isinstance(state, tuple):
        state = state[-1]
    return state
