"""The operators over the namespace xp of an adapter, which binds it by `adopt`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from ..curves import CLIP, Curve, Entmax, resolve
from ..curves import entmax as entmax_curve
from . import subset
from .rows import Rows, as_rows, verify
from .selection import budget

_SPARSEMAX = Entmax(2.0)
_DIMS = (("axis", "dim"), ("axes", "dims"))
"""The words of this package, and those of PyTorch's users."""


def adopt(
    xp: Any, module: str, operator: Callable[..., Any], dim: bool = False
) -> Callable[..., Any]:
    """The operator on one library's arrays; `dim` takes that word too for an axis."""
    given, text = inspect.signature(operator), inspect.getdoc(operator) or ""
    pairs = [(a, d) for a, d in _DIMS if dim and a in given.parameters]
    words = dict(pairs)
    names = [
        p.replace(name=words.get(p.name, p.name))
        for p in given.parameters.values()
        if p.name != "xp"
    ]

    @functools.wraps(operator)
    def bound(*args: Any, **kwargs: Any) -> Any:
        for axis, word in pairs:
            if word in kwargs:
                if axis in kwargs:
                    raise TypeError(f"{word} and {axis} are one argument: give one")
                kwargs[axis] = kwargs.pop(word)
        return operator(xp, *args, **kwargs)

    for axis, word in pairs:
        for mark in ("{} :", "{}, where", "`{}`"):
            text = text.replace(mark.format(axis), mark.format(word))
    bound.__doc__, bound.__module__ = text, module
    del bound.__wrapped__
    bound.__signature__ = given.replace(parameters=names)  # type: ignore[attr-defined]
    return bound


def soft_topk(
    xp: Any,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""Smooth top-k selection: shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : array
        Scores, finite or -inf.  Those of 16 bits are calculated with in float32, and
        the result is rounded once.
    k : number or array
        Budget, real, one for all or one a row: it broadcasts against `x` without
        `axis`.  It has a derivative.
    curve : str or Curve
        "exp", "laplace", "sigmoid", "clip", "triangular", or a curve from
        `softtopk.curves`, or one of your own whose `value` and `slope` are written with
        the functions of this library.
    temperature : number or array
        Above 0; one for all or one a row.  It has a derivative.
    axis : int, tuple of int, or None
        The axis or axes along which the shares sum to k; None for all.
    where : array of bool, optional
        Entries that take part; the others get share 0.
    check : bool, optional
        Whether to look at the values and raise for those out of range.  By default on
        the CPU, where that costs little, and outside of transformations.  A row out of
        range that nobody looked at is NaN.

    Returns
    -------
    array
        p, of the shape and type of `x`, or of its broadcast against `k`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    A search of four or five passes over `x` for scores from most laws, each a few sums
    a row: with `x` divided among devices, those sums are all that travels.
    """
    given = (x, k, curve, temperature, axis, where, check)
    rows, (p, _, _) = _selected(xp, *given, shares=True)
    return rows.expand(xp, p)


def threshold(
    xp: Any,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The threshold of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, check
        As in `soft_topk`.

    Returns
    -------
    array
        One number a row; +inf where k = 0, -inf where k takes all finite entries: its
        derivatives are 0 there.

    Notes
    -----
    Where all shares are 0 or 1 the threshold is the middle of an interval, and has the
    derivatives of that middle by `x` and `temperature`; it jumps in `k`, and the
    derivative by `k` is 0.
    """
    rows, (_, a, t) = _selected(xp, x, k, curve, temperature, axis, where, check)
    inner = xp.isfinite(t)
    finite = a + rows.tau * xp.where(inner, t, 0)
    return rows.reduce(xp, xp.where(inner, finite, t))


def top_k_st(
    xp: Any,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """`top_k` forward, the derivatives of `soft_topk` backward: straight-through.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, check
        As in `soft_topk`.

    Returns
    -------
    array
        Exactly `top_k`, of the shape of `x`.
    """
    given = {"axis": axis, "where": where}
    p = soft_topk(xp, x, k, curve, temperature=temperature, check=check, **given)
    hard = top_k(xp, x, k, check=False, **given)
    return xp.detach(hard) + (p - xp.detach(p))


def softmax(
    xp: Any,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Softmax of x / temperature, which has masks here.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `soft_topk`; every row needs a finite entry.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    rows = as_rows(xp, x, 1, temperature, axis, where)
    _look(xp, rows, check)
    return rows.expand(xp, xp.softmax(_logits(xp, rows.x, rows.tau)))


def sparsemax(
    xp: Any,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Sparsemax, the point of the simplex nearest to x / temperature.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    return _simplex(xp, x, _SPARSEMAX, temperature, axis, where, check)


def entmax(
    xp: Any,
    x: Any,
    alpha: float = 1.5,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Entmax: from `softmax` (alpha = 1) to `sparsemax` (alpha = 2).

    Parameters
    ----------
    alpha : float
        From 1 to 2.
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    curve = entmax_curve(alpha)
    if isinstance(curve, Entmax):
        return _simplex(xp, x, curve, temperature, axis, where, check)
    given = {"axis": axis, "where": where, "check": check}
    return softmax(xp, x, temperature=temperature, **given)


def top_k(
    xp: Any,
    x: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Indicator of the k largest scores; ties at the k-th place share equally.

    Parameters
    ----------
    x, k, axis, where, check
        As in `soft_topk`.  A number k is found by a selection, an array by sorting.

    Returns
    -------
    array
        Of the shape and type of `x`; sums to k.  Constant in `x` for derivatives.
    """
    rows = as_rows(xp, x, k, 1.0, axis, where)
    _look(xp, rows, check)
    return rows.expand(xp, _hard(xp, rows, k))


def top_k_sum(
    xp: Any,
    x: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Sum of the k largest scores, linear in k between whole ones.

    Parameters
    ----------
    x, k, axis, where, check
        As in `top_k`.

    Returns
    -------
    array
        One number a row.  Its derivative by `x` is `top_k`, by `k` the next score.
    """
    rows = as_rows(xp, x, k, 1.0, axis, where)
    _look(xp, rows, check)
    weight = _hard(xp, rows, k)
    used = xp.where(weight > 0, rows.x, 0 * weight)
    return rows.reduce(
        xp, xp.sum(xp.where(weight != 0, used * weight, weight), axis=-1)
    )


def grad_topk(
    xp: Any,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Marginals of the k-subset distribution, the gradient of `log_partition`.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `soft_topk`.
    k : whole number or array of them
        The size of the subset; it has no derivative.

    Returns
    -------
    array
        p, of the shape and type of `x`, between 0 and 1, with sum k.

    Notes
    -----
    Every entry meets up to 27 points of a circle (13 in float32) at once: so many times
    the memory of `x`.
    """
    rows = _whole_rows(xp, x, k, temperature, axis, where, check)
    return rows.expand(xp, _tilted(xp, rows).p)


def log_partition(
    xp: Any,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""The smoothed sum of the k largest scores, :math:`\tau\log Z_k(x/\tau)`.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array
        One number a row.
    """
    rows = _whole_rows(xp, x, k, temperature, axis, where, check)
    law = _tilted(xp, rows)
    value, entropy = map(xp.detach, subset.partition(xp, rows, law))
    # By tau the derivative is the entropy, and the entropy's by p is -u.
    entropy = xp.attach(entropy, {"x": (law.p, xp.where(law.on, -law.u, 0))})
    by = {"x": (rows.x, law.p), "tau": (rows.tau, entropy)}
    return rows.reduce(xp, xp.attach(value, by))


def _selected(
    xp: Any,
    x: Any,
    k: Any,
    curve: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    check: Any,
    shares: bool = False,
) -> tuple[Rows, tuple[Any, Any, Any]]:
    """The rows, and p, a and t of each; of a compiled call with `shares` p alone."""
    curve = resolve(curve)
    numbers = xp.is_quick(x, curve, check)
    rows = as_rows(xp, x, k, temperature, axis, where, numbers=numbers)
    found = xp.select(curve, rows.x, rows.whole, rows.part, rows.tau, check, shares)
    return rows, found


def _simplex(
    xp: Any,
    x: Any,
    curve: Entmax,
    temperature: Any,
    axis: Any,
    where: Any,
    check: bool | None,
) -> Any:
    """Entmax with alpha > 1."""
    if xp.is_quick(x, curve, check):
        rows = as_rows(xp, x, 1, temperature, axis, where, numbers=True)
        if not xp.is_array(rows.tau):
            return rows.expand(xp, xp.simplex(rows.x, curve, rows.tau))
    given = {"temperature": temperature, "axis": axis, "where": where, "check": check}
    return soft_topk(xp, x, 1, CLIP if curve.b == 1 else curve, **given)


def _look(xp: Any, rows: Rows, check: bool | None) -> None:
    if xp.looks(rows.x, check):
        verify(xp, rows.x, budget(rows.x, rows.whole, rows.part), rows.tau)


def _whole_rows(
    xp: Any, x: Any, k: Any, temperature: Any, axis: Any, where: Any, check: Any
) -> Rows:
    rows = as_rows(xp, x, k, temperature, axis, where)
    if xp.looks(rows.x, check):
        if not bool((rows.part == 0).all()):
            raise ValueError("k must be a whole number")
        verify(xp, rows.x, budget(rows.x, rows.whole, rows.part), rows.tau)
    return rows


def _tilted(xp: Any, rows: Rows) -> subset.Tilted:
    found: subset.Tilted = xp.program(
        subset.tilted, rows.x, rows.whole, rows.part, rows.tau
    )
    return found


def _logits(xp: Any, x: Any, tau: Any) -> Any:
    """(x - max) / tau, whose derivative by tau exists next to -inf."""
    top = xp.detach(xp.max(x, axis=-1))[..., None]
    on = xp.isfinite(x)
    z = xp.where(on, x - top, 0) / (tau[..., None] if tau.ndim else tau)
    return xp.where(on, z, xp.where(x == -math.inf, x, math.nan))


def _hard(xp: Any, rows: Rows, k: Any) -> Any:
    """`top_k` of the rows."""
    x, n = rows.x, rows.x.shape[-1]
    given = budget(x, rows.whole, rows.part)
    fits = (given.whole >= 0) & (given.rest >= 0) & (given.part >= 0)
    fits = fits & xp.all((x < math.inf) & (x == x), axis=-1)
    if not xp.is_array(k) and getattr(k, "ndim", 0) == 0 and not isinstance(k, list):
        place = min(max(math.ceil(k), 1), n) if math.isfinite(k) else 1
        pivot = xp.largest(xp.detach(x), place)
    else:
        place = xp.clip(rows.whole + (rows.part > 0), 1, n)
        pivot = xp.ordered(xp.detach(x), place)
    pivot = xp.where(given.without(0) > 0, pivot, math.inf)[..., None]
    above, tied = x > pivot, x == pivot
    left = given.without(xp.sum(above, axis=-1))
    share = left / xp.clip(xp.sum(tied, axis=-1), 1, None)
    share = xp.where(fits, share, math.nan)[..., None]
    weight = xp.where(tied | ~fits[..., None], share, 0)
    return xp.where(above & fits[..., None], 1, weight)


__all__ = [
    "entmax",
    "grad_topk",
    "log_partition",
    "soft_topk",
    "softmax",
    "sparsemax",
    "threshold",
    "top_k",
    "top_k_st",
    "top_k_sum",
]
