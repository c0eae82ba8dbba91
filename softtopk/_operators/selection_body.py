"""The smooth selection and its threshold, over an adapter."""

from __future__ import annotations

from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import Asked, Rows, as_adapter_rows
from .._search import costs_search
from ..curves import Curve, resolve
from . import costs_body

__all__ = ["soft_topk", "threshold"]


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
    empty : "raise", "zeros" or "all"
        What a row is that has fewer entries than places.  By "raise" it is out of range
        (see `check`), by "all" all its entries are selected: a budget above their
        number, or above the sum of their costs, is lowered to it.  By "zeros" it is out
        of range too, except that a row without any entry that takes part (because
        `where` leaves all of them out or all scores are -inf) has the shares 0 whatever
        its budget is; by "all" it has them as well.  The derivatives are 0 then.
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
    given = x, k, curve, temperature, axis, where, cost, per, empty, check
    return shares_of(xp, Asked(*given))


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
    given = x, k, curve, temperature, axis, where, cost, per, "raise", check
    return threshold_of(xp, Asked(*given))


def shares_of(xp: Adapter, asked: Asked) -> Any:
    """`soft_topk` of what its call asks for."""
    rows, (p, _, _) = _selected(xp, asked, True)
    return rows.expand(xp, p)


def threshold_of(xp: Adapter, asked: Asked) -> Any:
    """`threshold` of what its call asks for."""
    rows, (_, a, t) = _selected(xp, asked)
    inner = xp.isfinite(t)
    finite = a + rows.tau * xp.where(inner, t, 0)
    return rows.reduce(xp, xp.where(inner, finite, t))


def _selected(
    xp: Adapter, asked: Asked, shares: bool = False
) -> tuple[Any, tuple[Any, Any, Any]]:
    """The rows, and p, a and t of each; of a compiled call with `shares` p alone."""
    curve = resolve(asked.curve)
    if asked.cost is not None:
        rows, c = costs_body.checked_costs(xp, asked)
        options = costs_search.CostsOptions(curve, asked.per)
        return rows, xp.spend(options, rows.x, rows.whole, rows.part, c, rows.tau)
    asked = asked._replace(curve=curve)
    rows = xp.rows(asked) if xp.own_rows else as_adapter_rows(xp, asked)
    return rows, xp.select(curve, rows, asked.check, shares)


def of_checked(
    xp: Adapter, curve: Curve, rows: Rows, check: bool | None, shares: bool = False
) -> Any:
    """`select` for rows from `checked`.

    Their values need no second check.  But if NumPy's solver takes them, `check` is
    passed on: with False, `select` would run the library's own search, which takes
    several times as long for a short row.
    """
    method = xp.select_method(rows.x, curve, check)
    if method.numbers and not method.raw:
        return xp.select(curve, rows._replace(select_method=method), check, shares)
    return xp.select(curve, rows, False, shares)
