"""A budget with costs: how its arguments become rows, and Dantzig's solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._contract import Adapter, SelectMethod
from .._rows.adapter_rows import (
    Asked,
    Rows,
    as_adapter_rows,
    check_temperatures,
    flat,
    real_array,
    temperature_in_range,
)
from .._rows.namespace import namespace
from .._rows.numpy_rows import broadcast_as, check_costs, real_numbers
from .._search import exact_sums
from .._search.costs_search import budget_in_range, remaining_budget


def checked_costs(xp: Adapter, asked: Asked) -> tuple[Any, Any]:
    """The arguments as rows, and the costs as ``(..., n)``.

    The cost of an entry that takes no part is 1.  The budget is the sum of `whole` and
    `part`, which are both floats.
    """
    if xp.own_rows:
        return xp.cost_rows(asked)
    rows = as_adapter_rows(xp, asked, SelectMethod(), split_float)
    x, given = rows.x, asked.cost
    if xp.is_array(given):
        given = xp.astype(real_array(xp, given, x, "cost"), x.dtype)
    else:
        given = xp.numbers(real_numbers(given, "cost"), x)
    c = flat(xp, broadcast_as(xp, given, rows.shape(), "cost"), rows.axes)
    c = xp.where(x > -math.inf, c, 1)
    if rows.empty_rows is not None:
        c = xp.where(rows.empty_rows[..., None], 1, c)
    if asked.empty == "all":
        most = xp.sum(xp.where(x > -math.inf, xp.detach(c), 0), axis=-1)
        over = rows.whole + xp.detach(rows.part) > most
        whole, part = xp.where(over, most, rows.whole), xp.where(over, 0, rows.part)
        rows = rows._replace(whole=whole, part=part)
    if xp.looks(x, asked.check):
        verify_costs(xp, rows._replace(x=xp.detach(x)), xp.detach(c))
    return rows, c


def split_float(xp: Adapter, k: Any, x: Any) -> tuple[Any, Any]:
    """The budget as a sum of two floats in the type of x; the first is a constant.

    A budget given in float64 is not a float32.  If most of it is spent on entries of
    share 1, the rounding error would be visible in what is left, so both parts are
    kept.
    """
    k = xp.traced(k, x)
    if type(k) in (int, float):  # without NumPy, so that a compiler can trace it
        if type(k) is int and abs(k) > 2**1000:  # float() would overflow
            k = math.inf if k > 0 else -math.inf
        whole = k = float(k)
        if x.dtype.itemsize < 8 and abs(k) < 2.0**100:
            whole = exact_sums.halves(k, 29)[0]
        part = k - whole if abs(k) < math.inf else 0.0
        return xp.numbers(whole, x), xp.numbers(part, x)
    if not xp.is_array(k):
        k = real_numbers(k, "k")
        whole, part = _two_floats(np, k, k, x)
        return xp.numbers(whole, x), xp.numbers(part, x)
    k = real_array(xp, k, x, "k")
    if not xp.is_floating(k):
        whole = xp.astype(k, x.dtype)
        return whole, xp.astype(k - xp.integers(whole, x), x.dtype)
    return tuple(xp.astype(v, x.dtype) for v in _two_floats(xp, k, xp.detach(k), x))


def _two_floats(xp: Any, k: Any, fixed: Any, x: Any) -> tuple[Any, Any]:
    """k as a constant in the type of x, and the remainder."""
    whole = fixed
    if x.dtype.itemsize < k.dtype.itemsize == 8:
        near = abs(fixed) < 2.0**100
        high, _ = exact_sums.halves(xp.where(near, fixed, 0), 29)
        whole = xp.where(near, high, fixed)
    finite = abs(fixed) < math.inf
    return whole, xp.where(finite, k - xp.where(finite, whole, 0), 0)


def verify_costs(xp: Adapter, rows: Rows, c: Any) -> None:
    """Raise the errors of the operators on NumPy for values out of range."""
    x, tau = rows.x, xp.detach(rows.tau)
    whole, part = xp.detach(rows.whole), xp.detach(rows.part)
    if 0 in x.shape:
        return
    if bool((x < math.inf).all()) and bool(temperature_in_range(tau).all()):
        fits, *_ = budget_in_range(namespace(x), x > -math.inf, whole, part, c)
        if bool(fits.all()):
            return
    k = xp.to_numpy(whole).astype(np.float64) + xp.to_numpy(part)
    check_temperatures(xp.to_numpy(tau), tau.dtype, float(xp.finfo(tau.dtype).tiny))
    n, eps = x.shape[-1], float(xp.finfo(x.dtype).eps)
    at = xp.to_numpy(x).reshape(-1, n), xp.to_numpy(c).reshape(-1, n)
    check_costs(*at, np.ravel(k), eps, rows.name)


def dantzig_shares(xp: Adapter, rows: Any, c: Any, per: str, share_ties: bool) -> Any:
    """Dantzig's solution: shares of 1 in the order of x / c until the budget is spent.

    The costs are summed exactly in that order, so that rounding cannot change the entry
    at which the budget ends.  Densities x / c that round to the same float are tied.
    The scores determine only the order, so the shares have derivatives by the budget
    and the costs but none by the scores.
    """
    x, n, (whole, part) = xp.detach(rows.x), rows.x.shape[-1], (rows.whole, rows.part)
    on = x > -math.inf
    in_range, c, _ = budget_in_range(xp, on, whole, part, c)
    in_range = in_range & xp.all((x < math.inf) & (x == x), axis=-1)
    density = x
    if per == "entry":
        density = xp.where(on, x / xp.where(on, xp.detach(c), 1), -math.inf)
    parts = exact_sums.summable(c)

    permutation = xp.leading(density, n)
    sums = [xp.cumsum(xp.take(v, permutation)) for v in parts]
    rest = remaining_budget(whole[..., None], part[..., None], sums)
    place = xp.clip(xp.sum(rest > 0, axis=-1), None, n - 1)
    pivot = xp.ordered(density, place + 1)[..., None]
    above, tied = density > pivot, (density == pivot) & on
    used = [xp.sum(xp.where(above, v, 0), axis=-1) for v in parts]
    if share_ties:
        cost = xp.sum(xp.where(tied, c, 0), axis=-1)
        share = remaining_budget(whole, part, used) / xp.where(cost > 0, cost, 1)
        share = share[..., None]
    else:
        own = [xp.where(tied, v, 0) for v in parts]
        sums = [v[..., None] + xp.cumsum(w) - w for v, w in zip(used, own, strict=True)]
        share = remaining_budget(whole[..., None], part[..., None], sums)
        share = share / xp.where(on, c, 1)
    share = xp.where(share > 1, 1, xp.where(share > 0, share, 0))
    weight = xp.where(above, 1, xp.where(tied, share, 0))
    return xp.where(in_range[..., None], weight, math.nan)
