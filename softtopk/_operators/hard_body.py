"""The hard selection, also with soft derivatives, over an adapter."""

from __future__ import annotations

import math
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import Asked, Rows, budget, checked, checked_asked, scores
from .._rows.budget import of_one_type
from .._rows.numpy_rows import check_count, check_ties, check_width
from ..curves import Curve
from . import costs_body
from .selection_body import soft_topk

__all__ = ["top_k", "top_k_indices", "top_k_st", "top_k_sum"]


def top_k_st(
    xp: Adapter,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    ties: str = "share",
    cost: Any = None,
    per: str = "entry",
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """`top_k` forward, the derivatives of `soft_topk` backward: straight-through.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per, empty, check
        As in `soft_topk`.
    ties : "share" or "first"
        As in `top_k`.  In 16 bits equal scores are common: take "first" where each row
        must have exactly k ones.

    Returns
    -------
    array
        Exactly `top_k`, of the shape of `x`.
    """
    x = scores(xp, x, "x")
    given = {"axis": axis, "where": where, "cost": cost, "per": per, "empty": empty}
    # Only the order of integers counts here, and floats may not hold all of them.
    soft = x if xp.is_floating(x) else xp.floating(x, "x")[0]
    p = soft_topk(xp, soft, k, curve, temperature=temperature, check=check, **given)
    # `soft_topk` has checked the values, but not that k is a whole number.
    again = check if ties != "share" else False
    hard = _top_k(xp, xp.detach(x), k, ties, again, earlier=check, **given)
    return xp.detach(hard) + (p - xp.detach(p))


def top_k(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    ties: str = "share",
    cost: Any = None,
    per: str = "entry",
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Indicator of the k largest scores; ties at the k-th place share equally.

    Parameters
    ----------
    x, k, axis, where, empty, check
        As in `soft_topk`.
    cost, per
        As in `soft_topk`.  With costs the entries are taken in the order of ``x /
        cost``, or of `x` if `per` is "cost", until the budget is spent; the last of
        them gets what is left (Dantzig's solution of the continuous knapsack).
    ties : "share" or "first"
        What equal scores at the k-th place get.  By "share" each gets the same part of
        what is left.  By "first" the first of them, in C order, get 1 and the others 0,
        so that exactly k entries are 1; k must then be a whole number.  With costs k
        is any, and one entry at most has a share between 0 and 1.

    Returns
    -------
    array
        Of the shape and type of `x`; sums to k.  Constant in `x` for derivatives; the
        entries at the k-th place have derivatives by `k` and `cost`.

    Notes
    -----
    A selection for one number k; a sort for an array of them, and with costs.
    """
    given = {"axis": axis, "where": where, "cost": cost, "per": per, "empty": empty}
    return _top_k(xp, x, k, ties, check, earlier=check, **given)


def _top_k(
    xp: Adapter,
    x: Any,
    k: Any,
    ties: str,
    check: bool | None,
    *,
    earlier: bool | None,
    axis: Any,
    where: Any,
    cost: Any,
    per: str,
    empty: str,
) -> Any:
    """`top_k` of scores whose values another function may have checked before.

    `check` says whether this function checks them.  `earlier` is the argument `check`
    of the function that did; if no function has checked them, a row out of range
    becomes NaN.
    """
    share_ties = check_ties(ties)
    asked = Asked(x, k, None, 1.0, axis, where, cost, per, empty, check)
    if cost is not None:
        rows, c = costs_body.checked_costs(xp, asked)
        return rows.expand(xp, costs_body.dantzig_shares(xp, rows, c, per, share_ties))
    rows = checked_asked(xp, asked._replace(integer_k=not share_ties, ordinal=True))
    return rows.expand(xp, hard(xp, rows, k, earlier, share_ties))


def top_k_indices(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    largest: bool = True,
    width: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """The indices of the k largest scores, the largest first: what a dispatch takes.

    Parameters
    ----------
    x, axis, where, check
        As in `soft_topk`.
    k : whole number or array of them
        How many, from 0 to the number of finite entries of a row; one for all, or one a
        row.
    largest : bool
        Whether to take the largest scores; else the smallest, the smallest first.
    width : int, optional
        The length of the result, by default k, or the largest k of all rows; where
        nobody looks at values, it is the length of a row for an array of k.
    empty : "raise", "zeros" or "all"
        As in `soft_topk`: by "all" a row with fewer entries than k gives all of them.

    Returns
    -------
    array of int
        Of the shape of `x` with `width` in place of the length of `axis`: ``(..., k)``.
        Of several axes an index counts the entries in C order, and the k indices stand
        along a last axis of their own, in place of these axes.  In each row the scores
        at the indices descend, and among equal scores the indices ascend: they are the
        indices of the ones of ``top_k(x, k, ties="first")``.  A row with fewer of them
        than `width` is filled up with its length n, at which there is no entry:
        ``index < n`` is the mask of what it has.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, for example if a row has fewer than k entries
        that take part; the message names it.  In a row that nobody looked at, an index
        for which there is no entry is the length of the row, which lies outside.

    Notes
    -----
    Integers have no derivative.  What the selected entries count with has one if it is
    gathered from the shares, for example from ``p = soft_topk(x, k)`` by
    ``take_along_dim(p, index, -1)`` in PyTorch and ``take_along_axis(p, index, -1)`` in
    JAX.
    """
    many = isinstance(k, (list, tuple)) or getattr(k, "ndim", 0) > 0
    k = k if many else check_count(k)
    rows = checked(
        xp, x, k, 1.0, axis, where, check, integer_k=many, empty=empty, ordinal=True
    )
    x, n = xp.detach(rows.x), rows.x.shape[-1]
    count = xp.sum(x > -math.inf, axis=-1)
    in_range = xp.all((x < math.inf) & (x == x), axis=-1)
    if rows.empty_rows is not None:
        in_range = in_range & ~rows.empty_rows
    if many:
        in_range = in_range & (rows.whole >= 0) & (rows.part == 0)
        looks = xp.looks(x, check)
        least = int(xp.to_numpy(rows.whole).max(initial=0)) if looks else 0
        most = least if looks else n
    else:
        least = most = k
    width = most if width is None else check_width(width, least)
    count = xp.where(in_range, count, 0)
    count = (xp.minimum(count, rows.whole) if many else count)[..., None]
    index = _leading(xp, x, rows.key, min(width, n), largest)
    if width > n:  # more than any row has: fill up with n
        rest = xp.broadcast_to(xp.indices(width - n, x), (*x.shape[:-1], width - n))
        index = xp.concat([index, rest], axis=-1)
    place = xp.indices(width, x)
    taken = (place < count) & (place < k) if not many else place < count
    index = xp.where(taken, index, n)
    return xp.moveaxis(index, -1, rows.axes[0]) if len(rows.axes) == 1 else index


def top_k_sum(
    xp: Adapter,
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
    rows = checked(xp, x, k, 1.0, axis, where, check, ordinal=True)
    weight = hard(xp, rows, k, check)
    if not xp.looks(rows.x, check):
        in_range = weight[..., 0] == weight[..., 0]
        rows = rows.harmless(xp, in_range)
        weight = xp.where(in_range[..., None], weight, 1)
    used = xp.where(weight > 0, rows.x, 0 * weight)
    used = xp.where(weight != 0, used * weight, weight)
    return rows.reduce(xp, xp.sum(used, axis=-1))


def hard(
    xp: Adapter, rows: Rows, k: Any, check: bool | None, share_ties: bool = True
) -> Any:
    """`top_k` of the rows; NaN in a row out of range whose values were not checked."""
    x, n = rows.x, rows.x.shape[-1]
    key = xp.detach(x if rows.key is None else rows.key)
    given = budget(x, rows.whole, rows.part)
    number = type(k) in (int, float)  # without NumPy, a compiler can trace it
    if number or not (
        xp.is_array(k) or getattr(k, "ndim", 0) > 0 or isinstance(k, (list, tuple))
    ):
        place = k if type(k) is int else math.ceil(k) if abs(k) < math.inf else n
        place = min(max(place, 1), n)
        pivot = xp.largest(key, place)
    else:
        place = xp.clip(rows.whole + xp.integers(rows.part > 0, x), 1, n)
        pivot = xp.ordered(key, place)
    if rows.key is None:
        pivot = xp.where(given.without(0) > 0, pivot, math.inf)[..., None]
        above, tied = x > pivot, x == pivot
    else:  # no integer is infinite
        pivot = pivot[..., None]
        on = (x > -math.inf) & (given.without(0) > 0)[..., None]
        above, tied = on & (key > pivot), on & (key == pivot)
    remaining = given.without(xp.sum(above, axis=-1))
    if share_ties:
        count = xp.clip(xp.sum(tied, axis=-1), 1, None)
        remaining, count = of_one_type(remaining, count)
        share = remaining / count
        weight = xp.where(above, 1, xp.where(tied, share[..., None], 0))
    else:
        count, remaining = of_one_type(xp.cumsum(tied), remaining[..., None])
        taken = above | (tied & (count <= remaining))
        weight = xp.where(taken, xp.ones_like(x), 0)
    if xp.looks(x, check):
        return weight
    in_range = (given.whole >= 0) & (given.rest() >= 0) & (given.part >= 0)
    in_range = in_range & xp.all((x < math.inf) & (x == x), axis=-1)
    in_range = in_range if share_ties else in_range & (given.part == 0)
    return xp.where(in_range[..., None], weight, math.nan)


def _leading(xp: Adapter, x: Any, key: Any, k: int, largest: bool = True) -> Any:
    """The indices of the k largest; with integers as `key`, x is -inf where none is."""
    if not largest:  # ~ turns the order of integers round without an overflow
        x = xp.where(x > -math.inf, -x, -math.inf)
        key = None if key is None else ~key
    if key is None:
        return xp.leading(x, k)
    index = xp.leading(key, x.shape[-1])
    # What takes no part has the least integer as its key, which others may have too.
    on = xp.where(xp.take(x, index) > -math.inf, xp.ones_like(x), 0)
    return xp.take(index, xp.leading(on, k))
