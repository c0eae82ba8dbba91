"""The operators over the namespace xp of an adapter, their first argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import Rows, as_rows, scores, screened, verify
from .._rows.numpy_rows import NO_BUDGET, check_count, check_positive, check_ties
from .._rules import costs_rule
from .._rules.selection_rule import budget
from .._search import subset_law
from ..curves import Curve, resolve


def soft_topk(
    xp: Adapter,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    cost: Any = None,
    per: str = "entry",
    empty: str = "raise",
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
        `axis`, so that for scores of shape (B, n) it has the shape (B,), not (B, 1).
        It has a derivative.
    curve : str or Curve
        A name in `softtopk.curves.NAMED`, such as "laplace" or "exp", or a curve from
        `softtopk.curves`, or one of your own whose `value` and `slope` are written with
        the functions of this library.
    temperature : number or array
        Above 0; one for all or one a row.  It has a derivative.
    axis : int, tuple of int, or None
        The axis or axes along which the shares sum to k; None for all.
    where : array of bool, optional
        Entries that take part; the others get share 0.
    cost : array, optional
        What each entry costs, finite and above 0: it broadcasts to the shape of `x`.
        Then the shares spend the budget, :math:`\sum_ic_ip_i=k` for any k from 0 to the
        sum of the costs.  It has a derivative.
    per : "entry" or "cost"
        What a score is the worth of, where there are costs.  By "entry" it is that of
        an entry, :math:`p_i=f((x_i-\lambda c_i)/\tau)`; by "cost" that of a unit of
        cost, :math:`p_i=f((x_i-\lambda)/\tau)`, and a larger score gets a larger share
        whatever its cost.
    empty : "raise" or "zeros"
        What a row is without an entry that takes part, because `where` leaves all of
        them out or all scores are -inf.  By "raise" its budget must be 0, and any other
        is out of range (see `check`).  By "zeros" its shares and their derivatives are
        0 whatever its budget is, also where nobody looks at the values.
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
    a row: with `x` divided among devices, those sums are all that travels.  With costs
    about ten passes, a hundred where costs range over twelve orders of magnitude.
    """
    given = (x, k, curve, temperature, axis, where, check, cost, per)
    rows, (p, _, _) = _selected(xp, *given, shares=True, empty=empty)
    return rows.expand(xp, p)


def threshold(
    xp: Adapter,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    cost: Any = None,
    per: str = "entry",
    check: bool | None = None,
) -> Any:
    """The threshold of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per, check
        As in `soft_topk`.

    Returns
    -------
    array
        One number a row; +inf where k = 0, -inf where k takes all finite entries: its
        derivatives are 0 there.  With costs it is the price of a unit of cost.

    Notes
    -----
    Where all shares are 0 or 1 the threshold is the middle of an interval, and has the
    derivatives of that middle by `x` and `temperature`; it jumps in `k`, and the
    derivative by `k` is 0.
    """
    given = (x, k, curve, temperature, axis, where)
    rows, (_, a, t) = _selected(xp, *given, check, cost, per)
    inner = xp.isfinite(t)
    finite = a + rows.tau * xp.where(inner, t, 0)
    return rows.reduce(xp, xp.where(inner, finite, t))


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
    costs_rule.check_per(per)
    if cost is not None:
        rows, c = costs_rule.checked(xp, x, k, 1.0, axis, where, cost, check, empty)
        return rows.expand(xp, costs_rule.hard(xp, rows, c, per, share_ties))
    given, whole = (1.0, axis, where, check), not share_ties
    rows = checked(xp, x, k, *given, whole=whole, empty=empty, order=True)
    return rows.expand(xp, hard(xp, rows, k, earlier, share_ties))


def top_k_indices(
    xp: Adapter,
    x: Any,
    k: int,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The places of the k largest scores, the largest first: what a dispatch takes.

    Parameters
    ----------
    x, axis, where, check
        As in `soft_topk`.
    k : int
        How many, the same in every row: from 0 to the number of finite entries of a
        row.

    Returns
    -------
    array of int
        Of the shape of `x` with k in place of the length of `axis`: ``(..., k)``.
        Of several axes an index counts the entries in C order, and the k indices stand
        along a last axis of their own, in place of these axes.  In each row the scores
        at the indices descend, and among equal scores the indices ascend: they are the
        places of the ones of ``top_k(x, k, ties="first")``.

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
    k = check_count(k)
    rows = checked(xp, x, k, 1.0, axis, where, check, order=True)
    x, n = xp.detach(rows.x), rows.x.shape[-1]
    count = xp.sum(x > -math.inf, axis=-1)
    fits = xp.all((x < math.inf) & (x == x), axis=-1)
    count = xp.where(fits, count, 0)[..., None]
    index = _leading(xp, x, rows.key, min(k, n))
    if k > n:  # more than any row has, which was not checked: fill up with n
        rest = xp.broadcast_to(xp.places(k - n, x), (*x.shape[:-1], k - n))
        index = xp.concat([index, rest], axis=-1)
    index = xp.where(xp.places(k, x) < count, index, n)
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
    rows = checked(xp, x, k, 1.0, axis, where, check, order=True)
    weight = hard(xp, rows, k, check)
    if not xp.looks(rows.x, check):
        fits = weight[..., 0] == weight[..., 0]
        rows, weight = rows.held(xp, fits), xp.where(fits[..., None], weight, 1)
    used = xp.where(weight > 0, rows.x, 0 * weight)
    return rows.reduce(
        xp, xp.sum(xp.where(weight != 0, used * weight, weight), axis=-1)
    )


def grad_topk(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Marginals of the k-subset distribution, the gradient of `log_partition`.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `soft_topk`.
    k : whole number or array of them
        The size of the subset; it has no derivative.

    Returns
    -------
    array
        p, of the shape and type of `x`, between 0 and 1, with sum k.

    Notes
    -----
    Every entry meets up to 27 points of a circle (13 in float32).  The gradient meets
    them again instead of keeping what the forward pass computed.  PyTorch hands scores
    on the CPU to NumPy, which takes a block of rows at a time; elsewhere, and for
    derivatives of second order, an array with a number for each entry and point may
    take up to so many times the memory of `x`, unless a compiler avoids it.
    """
    given = temperature, axis, where, check
    rows = checked(xp, x, k, *given, whole=True, empty=empty)
    return rows.expand(xp, _drawn(xp, rows).p)


def log_partition(
    xp: Adapter,
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
    rows = checked(xp, x, k, temperature, axis, where, check, whole=True)
    return rows.reduce(xp, subset_sum(xp, rows)[0])


def pair_marginals(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Probabilities that the random k-subset contains both i and j.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array, (..., n, n)
        With the marginals on the diagonal; the batch comes first.
    """
    rows = checked(xp, x, k, temperature, axis, where, check, whole=True)
    law, given = _drawn(xp, rows), (rows.x, rows.whole, rows.part, rows.tau)
    found = xp.program(subset_law.pairs, *given, law.a, law.t)
    return xp.astype(rows.spoil(xp, found), rows.dtype)


def _selected(
    xp: Adapter,
    x: Any,
    k: Any,
    curve: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    check: bool | None,
    cost: Any,
    per: str,
    shares: bool = False,
    empty: str = "raise",
) -> tuple[Any, tuple[Any, Any, Any]]:
    """The rows, and p, a and t of each; of a compiled call with `shares` p alone."""
    curve = resolve(curve)
    costs_rule.check_per(per)
    if cost is not None:
        given = (temperature, axis, where, cost)
        rows, c = costs_rule.checked(xp, x, k, *given, check, empty)
        call = costs_rule.Call(curve, per)
        return rows, xp.spend(call, rows.x, rows.whole, rows.part, c, rows.tau)
    if hasattr(xp, "rows"):
        rows = checked(xp, x, k, temperature, axis, where, check, empty=empty)
    else:
        x = scores(xp, x, "x")
        how = xp.how(x, curve, check) if hasattr(xp, "how") else {}
        rows = as_rows(
            xp, x, k, temperature, axis, where, **how, empty=empty, check=check
        )
    found = xp.select(curve, rows.x, rows.whole, rows.part, rows.tau, check, shares)
    return rows, found


def checked(
    xp: Adapter,
    x: Any,
    k: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    check: bool | None,
    name: str = "x",
    *,
    whole: bool = False,
    finite: bool = False,
    empty: str = "raise",
    order: bool = False,
) -> Any:
    """The arguments as rows, whose values are checked if they may be looked at.

    The budget may have to be `whole`, and each row may need a `finite` entry, unless
    `empty` rows are to be zeros.  With `order`, `Rows.key` may hold integers.
    """
    if hasattr(xp, "rows"):
        how = {"axis": axis, "where": where, "name": name, "empty": empty}
        how |= {"integer_k": whole, "order": order}
        return xp.rows(x, k, temperature, finite, **how)
    none = isinstance(k, type(NO_BUDGET))
    k = 1 if none else k
    how = {"empty": empty, "check": check, "order": order}
    rows = as_rows(xp, x, k, temperature, axis, where, name, **how)
    given = None if none else budget(rows.x, rows.whole, rows.part)
    if xp.looks(rows.x, check):
        at = xp.detach(rows.x), given, rows.tau, name
        verify(xp, *at, finite=finite, whole=whole)
        return rows
    known = type(temperature) in (int, float)
    return rows if order else screened(xp, rows, given, finite, whole, known)


def of_checked(
    xp: Adapter,
    curve: Curve,
    at: tuple[Any, Any, Any, Any],
    check: bool | None,
    shares: bool = False,
) -> Any:
    """`select` at the x, whole, part and tau of rows from `checked`.

    Their values need no second check.  But if NumPy's solver takes them, `check` is
    passed on: with False, `select` would run the library's own search, which takes
    several times as long for a short row.
    """
    quick = hasattr(xp, "is_quick") and xp.is_quick(at[0], curve, check)
    return xp.select(curve, *at, check if quick else False, shares)


def finite_rows(xp: Adapter, x: Any, *given: Any, empty: str = "raise") -> Any:
    """Rows without a budget, with at least one finite entry each."""
    return checked(xp, x, NO_BUDGET, *given, finite=True, empty=empty)


def truncated_rows(
    xp: Adapter, x: Any, k: Any, *given: Any, empty: str = "raise"
) -> Any:
    """Rows with a whole budget of at least 1 each; the last of `given` is `check`."""
    rows = checked(xp, x, k, *given, whole=True, empty=empty)
    if not xp.looks(rows.x, given[-1]):
        return rows.held(xp, rows.whole > 0)
    if not bool((rows.whole > 0).all()):
        check_positive(xp.to_numpy(rows.whole))
    return rows


def subset_sum(xp: Adapter, rows: Rows) -> tuple[Any, Any, Callable[[], Any]]:
    """`log_partition` of rows, its derivative by the scores, and that by tau."""
    if hasattr(xp, "partition"):
        value, p = xp.partition(rows)
        return value, p, lambda: None
    law = _drawn(xp, rows)
    at = rows.x, rows.whole, rows.part, rows.tau
    *found, u = xp.program(subset_law.partition, *at, law)
    value, fixed = map(xp.detach, found)

    def entropy() -> Any:
        """The derivative by tau; the derivative of that by p is -u."""
        return xp.attach(fixed, {"x": (law.p, lambda: -u)})

    by = {"x": (rows.x, lambda: law.p), "tau": (rows.tau, entropy)}
    return xp.attach(value, by), law.p, entropy


def _drawn(xp: Adapter, rows: Rows) -> subset_law.Found:
    """The law of the random subsets of the rows."""
    at = rows.x, rows.whole, rows.part, rows.tau
    if hasattr(xp, "subset"):
        return subset_law.Found(*xp.subset(*at))
    found: subset_law.Found = xp.program(subset_law.found, *at)
    return found


def hard(
    xp: Adapter,
    rows: Rows,
    k: Any,
    check: bool | None,
    share_ties: bool = True,
) -> Any:
    """`top_k` of the rows; NaN in a row out of range whose values were not checked."""
    x, n = rows.x, rows.x.shape[-1]
    key = xp.detach(x if rows.key is None else rows.key)
    given = budget(x, rows.whole, rows.part)
    number = type(k) in (int, float)  # without NumPy, a compiler can trace it
    if number or not (
        xp.is_array(k) or getattr(k, "ndim", 0) > 0 or isinstance(k, (list, tuple))
    ):
        place = k if type(k) is int else math.ceil(k) if abs(k) < math.inf else 1
        place = min(max(place, 1), n)
        pivot = xp.largest(key, place)
    else:
        place = xp.clip(rows.whole + (rows.part > 0), 1, n)
        pivot = xp.ordered(key, place)
    if rows.key is None:
        pivot = xp.where(given.without(0) > 0, pivot, math.inf)[..., None]
        above, tied = x > pivot, x == pivot
    else:  # no integer is infinite
        pivot = pivot[..., None]
        on = (x > -math.inf) & (given.without(0) > 0)[..., None]
        above, tied = on & (key > pivot), on & (key == pivot)
    left = given.without(xp.sum(above, axis=-1))
    if share_ties:
        share = left / xp.clip(xp.sum(tied, axis=-1), 1, None)
        weight = xp.where(above, 1, xp.where(tied, share[..., None], 0))
    else:
        taken = above | (tied & (xp.cumsum(tied) <= left[..., None]))
        weight = xp.where(taken, xp.ones_like(x), 0)
    if xp.looks(x, check):
        return weight
    fits = (given.whole >= 0) & (given.rest() >= 0) & (given.part >= 0)
    fits = fits & xp.all((x < math.inf) & (x == x), axis=-1)
    fits = fits if share_ties else fits & (given.part == 0)
    return xp.where(fits[..., None], weight, math.nan)


def _leading(xp: Adapter, x: Any, key: Any, k: int) -> Any:
    """The places of the k largest; with integers as `key`, x is -inf where none is."""
    if key is None:
        return xp.leading(x, k)
    index = xp.leading(key, x.shape[-1])
    # What takes no part has the least integer as its key, which others may have too.
    on = xp.where(xp.take(x, index) > -math.inf, xp.ones_like(x), 0)
    return xp.take(index, xp.leading(on, k))


__all__ = [
    "grad_topk",
    "log_partition",
    "pair_marginals",
    "soft_topk",
    "threshold",
    "top_k",
    "top_k_indices",
    "top_k_st",
    "top_k_sum",
]
