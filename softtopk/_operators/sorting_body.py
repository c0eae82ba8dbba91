"""Sorting from nested selections on every library, as in `softtopk.sorting`.

Sorts and ranks of the curves with exponential tails, the default among them, are those
of `sorting_rule`, which sorts the scores once.  For other curves, and in
`soft_permutation`, the K selections of a row are K rows of the search, none of which
sorts; their derivatives are those of `soft_topk`.
"""

from __future__ import annotations

import math
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import FAR_SHARE, checked
from .._rows.namespace import is_nan
from .._rows.numpy_rows import NO_BUDGET, check_integer
from .._search.all_thresholds import is_exponential
from ..curves import Curve, resolve
from .selection_body import of_checked

__all__ = ["soft_permutation", "soft_rank", "soft_sort"]


def soft_permutation(
    xp: Adapter,
    x: Any,
    places: int | None = None,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """How much each score belongs to each place of the sorted order.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_topk`.
    places : int, optional
        The first K places, counted from the largest score; all of them by default.

    Returns
    -------
    array, (..., K, n)
        The share of every entry of a row in every place, the batch first.  Places
        beyond the number of entries that take part are empty.

    Notes
    -----
    n K time and memory a row.
    """
    rows, _, p = nested(xp, x, places, curve, temperature, axis, where, check)
    return xp.astype(rows.spoil(xp, _steps(xp, p)), rows.dtype)


def soft_sort(
    xp: Adapter,
    x: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Scores in descending order, smoothly: the product of `soft_permutation` and x.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_permutation`.

    Returns
    -------
    array
        Of the shape and type of `x`.  Places beyond the number of entries that take
        part hold -inf.

    Notes
    -----
    One sort and n more time and memory a row for the curves "laplace" and "exp", n^2
    for all others.
    """
    curve, given = resolve(curve), (temperature, axis, where, check)
    if is_exponential(curve) and not xp.exported():
        return _arranged(xp, "sort", x, curve, *given)
    rows, count, p = nested(xp, x, None, curve, *given)
    half = rows.x / 2  # the difference of two halves does not overflow
    top = xp.detach(xp.max(half, axis=-1))[..., None]
    top = xp.where(top > -math.inf, top, 0)
    # Every row of P sums to 1, so the largest score can be subtracted and added again;
    # if it is huge, the largest of those that have a share of the place.
    P, half = _steps(xp, p), half[..., None, :]
    huge = abs(top) > float(xp.finfo(top.dtype).max) ** 0.5
    own = huge[..., None] & (xp.detach(P) <= _least_share(xp, P)) | ~xp.isfinite(half)
    own = xp.max(xp.where(own, -math.inf, xp.detach(half)), axis=-1)
    top = xp.where(huge & (own > -math.inf), own, top)
    away = xp.where(xp.isfinite(half), half - top[..., None], 0)
    value = 2 * (top + xp.sum(certain(xp, P, away) * away, axis=-1))
    taken = xp.indices(rows.x.shape[-1], rows.x) < count
    return rows.expand(xp, xp.where(taken | is_nan(value), value, -math.inf))


def soft_rank(
    xp: Adapter,
    x: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Smooth ranks, near 1 for the largest score: the mean place of each entry.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_permutation`.

    Returns
    -------
    array
        Of the shape and type of `x`, between 1 and the number of entries that take
        part; an entry without a place has 0.

    Notes
    -----
    One sort and n more time and memory a row for the curves "laplace" and "exp", n^2
    for all others.
    """
    curve, given = resolve(curve), (temperature, axis, where, check)
    if is_exponential(curve) and not xp.exported():
        return _arranged(xp, "ranks", x, curve, *given)
    rows, _, p = nested(xp, x, None, curve, *given)
    # p[j - 1] is the part of an entry that is among the first j places, so 1 minus it
    # is the part at places after the j-th.  The mean place is 1 plus the sum of these
    # parts over j.
    ranks = 1 + xp.sum(1 - p, axis=-2)
    return rows.expand(xp, ranks * xp.astype(rows.x > -math.inf, ranks.dtype))


def _arranged(xp: Adapter, what: str, x: Any, curve: Curve, *given: Any) -> Any:
    """The sort or the ranks of a curve whose thresholds are all found at once."""
    rows = checked(xp, x, NO_BUDGET, *given)
    return rows.expand(xp, xp.arrange(what, curve, rows.x, rows.tau, given[-1]))


def nested(
    xp: Adapter, x: Any, places: int | None, curve: Any, *given: Any
) -> tuple[Any, Any, Any]:
    """The rows, their finite entries, and p(1), ..., p(K) as (..., K, n)."""
    curve = resolve(curve)
    rows = checked(xp, x, NO_BUDGET, *given)
    x, tau = rows.x, rows.tau
    count = xp.sum(xp.isfinite(x), axis=-1)[..., None]
    steps = xp.indices(check_places(places, x.shape[-1]), x) + 1
    whole = xp.integers(xp.minimum(steps, count), x)
    many = xp.broadcast_to(x[..., None, :], (*whole.shape, x.shape[-1]))
    if tau.ndim:
        tau = xp.broadcast_to(tau[..., None], whole.shape)
    part = 0 * xp.astype(whole, x.dtype)
    many = rows._replace(x=many, whole=whole, part=part, tau=tau)
    p, _, _ = of_checked(xp, curve, many, given[-1], True)
    return rows, count, p


def certain(xp: Any, P: Any, away: Any) -> Any:
    """The shares, with 0 for those of places from which an entry is infinitely far.

    There a share is the least that a curve returns, and a product with the distance
    would be anything.
    """
    far = abs(away) > float(xp.finfo(P.dtype).max) ** 0.5
    return xp.where(far & (P <= _least_share(xp, P)), 0, P)


def _least_share(xp: Any, P: Any) -> float:
    return FAR_SHARE * float(xp.finfo(P.dtype).tiny)


def _steps(xp: Adapter, p: Any) -> Any:
    """p(j) - p(j - 1), the rows of P; negative rounding errors are set to 0."""
    steps = xp.concat([p[..., :1, :], p[..., 1:, :] - p[..., :-1, :]], axis=-2)
    fixed = xp.detach(steps)
    return steps + (xp.where(fixed < 0, 0, fixed) - fixed)


def check_places(places: Any, n: int) -> int:
    if places is None:
        return n
    check_integer(places, "places", "an integer or None")
    if not 1 <= places <= n:
        raise ValueError(f"places must lie in [1, {n}], got {places}")
    return int(places)
