"""Arguments as rows along the last axis, and results back in the caller's shape."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._rows import Budget


class Rows(NamedTuple):
    """Scores with the operator's axes flattened into the last one.

    Attributes
    ----------
    x : (..., n) array
        In the type that is calculated with; -inf where an entry takes no part.
    whole, part : (...) arrays
        The budget k, as an integer and what k exceeds it by.
    tau : () or (...) array
        The temperature.
    axes, sizes : tuples of int
        The axes, counted from the end, and their lengths.
    dtype : the type of the results
    """

    x: Any
    whole: Any
    part: Any
    tau: Any
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: Any

    def expand(self, xp: Any, p: Any) -> Any:
        """Put (..., n) results into the shape of the scores."""
        tail = tuple(range(-len(self.axes), 0))
        if len(tail) > 1:
            p = xp.reshape(p, (*p.shape[:-1], *self.sizes))
        if self.axes != tail:
            p = xp.moveaxis(p, tail, self.axes)
        return xp.astype(p, self.dtype)

    def reduce(self, xp: Any, value: Any) -> Any:
        """Numbers a row, which have the shape already, in the type of the results."""
        return xp.astype(value, self.dtype)


def flat(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The given axes flattened into the last one."""
    if axes == (-1,):
        return x
    tail = tuple(range(-len(axes), 0))
    if axes != tail:
        x = xp.moveaxis(x, axes, tail)
    if len(axes) > 1:
        x = xp.reshape(x, (*x.shape[: -len(axes)], -1))
    return x


def as_rows(
    xp: Any,
    x: Any,
    k: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    name: str = "x",
    numbers: bool = False,
) -> Rows:
    """Check types and shapes, which need no look at the values.

    With `numbers` a budget and a temperature that are numbers stay what they are.
    """
    x = xp.asarray(x)
    x, dtype = xp.floating(x, name)
    axes = _axes(axis, x.ndim, name)
    sizes = tuple([x.shape[i] for i in axes])
    if 0 in sizes:
        raise ValueError(
            f"{name} must have at least one entry along its axis, got {tuple(x.shape)}"
        )
    if where is not None:
        mask = xp.asarray(where, like=x)
        if mask.dtype != xp.bool_:
            raise TypeError(f"where must be boolean, got {mask.dtype}")
        x = xp.where(_fit(xp, mask, tuple(x.shape), "where"), x, -math.inf)
    x = flat(xp, x, axes)
    numbers = numbers and type(k) in (int, float) and abs(k) < 2**31
    if numbers and _fits(xp, temperature, x):
        return Rows(x, k, 0.0, temperature, axes, sizes, dtype)
    batch = tuple(x.shape[:-1])
    whole, part = split(xp, k, x)
    if whole.ndim:
        try:
            batch = tuple(xp.broadcast_shapes(batch, tuple(whole.shape)))
        except (ValueError, RuntimeError):
            raise ValueError(
                f"k must broadcast against {name} without its axis, shape {batch}, "
                f"got shape {tuple(whole.shape)}"
            ) from None
    tau = _temperature(xp, temperature, x)
    if tau.ndim:
        tau = _fit(xp, tau, batch, "temperature")
    if batch != tuple(x.shape[:-1]):
        x = xp.broadcast_to(x, (*batch, x.shape[-1]))
    whole, part = (xp.broadcast_to(v, batch) for v in (whole, part))
    return Rows(x, whole, part, tau, axes, sizes, dtype)


def split(xp: Any, k: Any, x: Any) -> tuple[Any, Any]:
    """The budget as an integer and the rest, each with a value a row or one.

    The derivative by k goes through the rest: rounding down has none.
    """
    if type(k) in (int, float):  # what a compiler can follow
        fits = abs(k) < 2**31
        floor = math.floor(k) if fits else -1
        return xp.integers(floor, x), xp.numbers(k - floor if fits else 0.0, x)
    if not xp.is_array(k):
        given = np.asarray(k)
        if given.dtype.kind not in "iuf":
            raise TypeError(f"k must be a real number or an array of them, got {k!r}")
        floor = np.floor(given)
        # An integer that no row holds stands for a budget out of range.
        whole = np.where(np.isfinite(floor), np.clip(floor, -1, 2**31 - 1), -1)
        part = np.where(np.isfinite(given), given - floor, np.nan)
        return xp.integers(whole.astype(np.int64), x), xp.numbers(part, x)
    if not xp.is_real(k):
        raise TypeError(f"k must hold real numbers, got {k.dtype}")
    if not xp.is_floating(k):
        whole = xp.replicate(k, x)
        return whole, 0 * xp.astype(whole, x.dtype)
    k = xp.replicate(k, x)
    floor = xp.detach(xp.floor(k))
    whole = xp.integers(xp.where(abs(floor) < 2.0**31, floor, -1), x)
    return whole, xp.astype(k - floor, x.dtype)


def _temperature(xp: Any, temperature: Any, x: Any) -> Any:
    if xp.is_array(temperature):
        return xp.astype(xp.replicate(temperature, x), x.dtype)
    if _fits(xp, temperature, x):
        return xp.numbers(temperature, x)
    value = np.asarray(temperature)
    if value.dtype.kind not in "iuf":
        raise TypeError(f"temperature must be a real number, got {temperature!r}")
    if not np.all((value > 0) & (value < np.inf)):
        raise ValueError(f"temperature must be finite and above 0, got {temperature}")
    tiny = float(xp.finfo(x.dtype).tiny)
    if not np.all((value >= tiny) & (value <= 1 / tiny)):
        raise ValueError(
            f"temperature must lie in the range of {x.dtype}, got {temperature}"
        )
    return xp.numbers(value, x)


def _fits(xp: Any, temperature: Any, x: Any) -> bool:
    """Whether a temperature is a number in the range of the scores' type."""
    if type(temperature) not in (int, float):
        return False
    if temperature == 1:
        return True
    tiny = float(xp.finfo(x.dtype).tiny)
    return tiny <= temperature <= 1 / tiny


def _axes(axis: Any, ndim: int, name: str) -> tuple[int, ...]:
    """The axes counted from the end, in ascending order."""
    if type(axis) is int and -ndim <= axis < 0:  # most calls, quickly
        return (axis,)
    if ndim == 0:
        raise ValueError(f"{name} must have at least one axis, got a scalar")
    if axis is None:
        return tuple(range(-ndim, 0))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    for i in given:
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)):
            raise TypeError(f"axis must be an integer, a tuple or None, got {axis!r}")
        if not -ndim <= i < ndim:
            raise ValueError(
                f"axis must lie in [{-ndim}, {ndim - 1}] for {name} with {ndim} axes, "
                f"got {i}"
            )
    axes = sorted({int(i) if i < 0 else int(i) - ndim for i in given})
    if len(axes) != len(given) or not axes:
        raise ValueError(f"axis must name different axes, at least one, got {axis!r}")
    return tuple(axes)


def _fit(xp: Any, array: Any, shape: tuple[int, ...], name: str) -> Any:
    if tuple(array.shape) == shape:
        return array
    try:
        return xp.broadcast_to(array, shape)
    except (ValueError, RuntimeError):
        raise ValueError(
            f"{name} must broadcast to shape {shape}, got shape {tuple(array.shape)}"
        ) from None


def verify(xp: Any, x: Any, k: Budget, tau: Any, name: str = "x") -> bool:
    """Raise as the core does for values out of range; whether no row is special.

    A special row has an entry of -inf or scores whose difference overflows, or nothing
    or everything to select.
    """
    top, least = xp.max(x), xp.min(x)
    if not bool((x < math.inf).all()):  # XLA's extremes of a long row leave NaN out
        worst = xp.sum(xp.where(x < math.inf, 0 * x, x))  # nan, or +inf
        raise ValueError(
            f"{name} must be finite or -inf wherever it takes part, got {float(worst)}"
        )
    if not bool(((tau > 0) & (tau < math.inf)).all()):
        raise ValueError("temperature must be finite and above 0")
    if not bool(((k.whole >= 0) & (k.rest >= 0) & (k.part >= 0)).all()):
        raise ValueError(
            "k must lie in [0, m], where m is the number of finite entries of "
            f"{name} in the row"
        )
    inner = (k.without(0) > 0) & (k.rest > 0)
    return bool(top - least < math.inf) and bool(inner.all())
