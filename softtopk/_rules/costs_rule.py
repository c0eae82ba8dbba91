r"""A budget with costs: shares, threshold, Dantzig's solution and the derivatives.

With :math:`u_i=(x_i-\lambda s_i)/\tau` and :math:`\sum c_if(u_i)=K` (see
`softtopk._search.costs_search`), the slopes :math:`\omega=f'(u)` and
:math:`\Omega=\sum_ic_is_i\omega_i`, the constraint gives

.. math:: d\lambda&=\frac{\sum_ic_i\omega_i(dx_i-\lambda\,ds_i-u_i\,d\tau)
            +\tau(\sum_ip_i\,dc_i-dK)}\Omega,\\
          dp_i&=\frac{\omega_i}\tau(dx_i-\lambda\,ds_i-u_i\,d\tau-s_i\,d\lambda).

So :math:`\partial p_i/\partial x_j=(\omega_i\delta_{ij}-\omega_is_ic_j\omega_j/
\Omega)/\tau`: symmetric where s = c, and with :math:`s_i=1` after row i is multiplied
by :math:`c_i`.  As without costs the anchor is a constant, the ratios
:math:`\omega/\Omega` come from the logarithms of the slopes, and `push` and `pull` are
written in x, c, t and tau, so that they can be differentiated again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._contract import Adapter
from .._rows.adapter_rows import (
    Rows,
    as_rows,
    check_temperatures,
    fit,
    flat,
    in_range,
    real_array,
)
from .._rows.namespace import is_nan, namespace
from .._rows.numpy_rows import count_finite, real_numbers
from .._search import costs_search, exact_sums, root
from ..curves import Curve


class Call(NamedTuple):
    """What a solution depends on besides arrays."""

    curve: Curve
    per: str


class Spent(NamedTuple):
    """Slopes at a solved row.

    Attributes
    ----------
    d, u, w : (..., n) arrays
        (x - a s) / tau, u = d - t s, and the slopes; all are 0 where a share does not
        depend on the scores.
    p : (..., n) array
        The shares, as a function of u.
    by_x, by_k : (..., n) arrays
        c w / Omega and s w / Omega.
    inverse : (...) array
        1 / Omega, 0 where that overflows.
    lam : (..., n) array
        lambda.  If the threshold is the middle of an interval, it is for each entry the
        threshold at which that entry's share begins to change.
    """

    d: Any
    u: Any
    w: Any
    p: Any
    by_x: Any
    by_k: Any
    inverse: Any
    lam: Any


def check_per(per: str) -> None:
    """Raise an error unless `per` is "entry" or "cost"."""
    if per not in ("entry", "cost"):
        raise ValueError(f"per must be 'entry' or 'cost', got {per!r}")


def checked(
    xp: Adapter,
    x: Any,
    k: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    cost: Any,
    look: bool | None,
    empty: str = "raise",
) -> tuple[Any, Any]:
    """The arguments as rows, and the costs as ``(..., n)``.

    The cost of an entry that takes no part is 1.  The budget is the sum of `whole` and
    `part`, which are both floats.
    """
    if hasattr(xp, "priced"):
        given = temperature, axis, where
        found: tuple[Any, Any] = xp.priced(x, k, *given, cost, empty)
        return found
    given = temperature, axis, where
    rows = as_rows(xp, x, k, *given, parts=split, empty=empty, check=look)
    x, given = rows.x, cost
    if xp.is_array(given):
        given = xp.astype(real_array(xp, given, x, "cost"), x.dtype)
    else:
        given = xp.numbers(real_numbers(given, "cost"), x)
    c = flat(xp, fit(xp, given, rows.shape(), "cost"), rows.axes)
    c = xp.where(x > -math.inf, c, 1)
    if rows.empty is not None:
        c = xp.where(rows.empty[..., None], 1, c)
    if xp.looks(x, look):
        verify(xp, rows._replace(x=xp.detach(x)), xp.detach(c))
    return rows, c


def split(xp: Adapter, k: Any, x: Any) -> tuple[Any, Any]:
    """The budget as a sum of two floats in the type of x; the first is a constant.

    A budget given in float64 is not a float32.  If most of it is spent on entries of
    share 1, the rounding error would be visible in what is left, so both parts are
    kept.
    """
    k = xp.traced(k, x) if hasattr(xp, "traced") else k
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
        whole = xp.where(
            near, exact_sums.halves(xp.where(near, fixed, 0), 29)[0], fixed
        )
    finite = abs(fixed) < math.inf
    return whole, xp.where(finite, k - xp.where(finite, whole, 0), 0)


def verify(xp: Adapter, rows: Rows, c: Any) -> None:
    """Raise the errors of the operators on NumPy for values out of range."""
    x, tau = rows.x, xp.detach(rows.tau)
    whole, part = xp.detach(rows.whole), xp.detach(rows.part)
    if 0 in x.shape:
        return
    fits = bool((x < math.inf).all()) and bool(in_range(tau).all())
    if fits and bool(_fits(namespace(x), x > -math.inf, whole, part, c)[0].all()):
        return
    k = xp.to_numpy(whole).astype(np.float64) + xp.to_numpy(part)
    check_temperatures(xp.to_numpy(tau), tau.dtype, float(xp.finfo(tau.dtype).tiny))
    n, eps = x.shape[-1], float(xp.finfo(x.dtype).eps)
    at = xp.to_numpy(x).reshape(-1, n), xp.to_numpy(c).reshape(-1, n)
    check(*at, np.ravel(k), eps, rows.name)


def check(x: Any, c: Any, k: Any, eps: float, name: str) -> Any:
    """The sum of each row's costs; an error unless costs and budgets are in range."""
    count_finite(x, name)
    on = x > -math.inf
    bad = on & ~((c > 0) & (c < math.inf))
    if bad.any():
        raise ValueError(
            "cost must be finite and above 0 wherever an entry takes part, "
            f"got {float(c[bad][0])}"
        )
    tiny = float(np.finfo(c.dtype).tiny)
    bad = on & ~((c >= tiny) & (c <= 1 / tiny))
    if bad.any():
        raise ValueError(
            f"cost must lie in the range of {c.dtype} wherever an entry takes part, "
            f"got {float(c[bad][0])}"
        )
    sums = [math.fsum(row[used].tolist()) for row, used in zip(c, on, strict=True)]
    for budget, most, row in zip(k, sums, c, strict=True):
        if not 0 <= budget <= most * (1 + len(row) * eps):
            raise ValueError(
                f"k must lie in [0, {most}], where {most} is the sum of the costs of "
                f"the finite entries of {name} in the row, got {budget}"
            )
    return np.asarray(sums)


def _fits(xp: Any, on: Any, whole: Any, part: Any, c: Any) -> tuple[Any, Any, Any]:
    """Whether costs and budget of a row are in range, the costs, and K - sum c.

    The returned costs are 0 where an entry takes no part, and 1 in rows out of range.
    A caller who wants all entries passes the rounded sum of the costs as the budget, so
    a budget that exceeds the exact sum by no more than rounding is in range.
    """
    tiny = float(xp.finfo(c.dtype).tiny)
    priced = (c >= tiny) & (c <= 1 / tiny)
    fits = xp.all(priced | ~on, axis=-1)
    c = xp.where(on, xp.where(fits[..., None], c, 1), 0)
    parts = [xp.sum(v, axis=-1) for v in exact_sums.summable(c)]
    left = costs_search.left(whole, part, parts)
    most = c.shape[-1] * xp.finfo(c.dtype).eps * parts[0]
    fits = fits & (whole >= 0) & (left <= most) & (parts[0] < math.inf)
    return fits, c, left


def solved(
    call: Call, x: Any, whole: Any, part: Any, c: Any, tau: Any
) -> tuple[Any, Any, Any]:
    """Shares, anchors and offsets of rows with costs.

    The offset is +inf if the budget is 0 and -inf if all entries are selected.  The
    results of a row out of range are NaN, as are those of a row whose threshold, or a
    distance to it, overflows.
    """
    xp, on = namespace(x), x > -math.inf
    fits, c, left = _fits(xp, on, whole, part, c)
    fits = fits & xp.all((x < math.inf) & (x == x), axis=-1)
    warm = in_range(tau)
    fits = fits & warm
    inner = fits & (whole + part > 0) & (left < 0)
    scale = xp.where(warm, tau, 1)
    safe = xp.where(inner, whole, 0.5), xp.where(inner, part, 0)
    row = costs_search.row(
        xp.where(on & inner[..., None], x, 0),
        xp.where(inner[..., None], c, 1),
        *safe,
        scale,
        call.per,
    )
    a, t = costs_search.solve(call.curve, row, inner)
    outer = xp.where(whole + part > 0, -math.inf, xp.full_like(t, math.inf))
    t = xp.where(fits, xp.where(inner, t, outer), math.nan)
    a = xp.where(inner, a, 0)
    u = row.at(a, xp.where(inner, t, 0))
    near = xp.all(abs(u) < math.inf, axis=-1)
    t = xp.where(near | ~inner, t, math.nan)
    p = call.curve.value(xp.where(abs(u) < math.inf, u, 0))
    all_or_none = xp.where(is_nan(t), t, xp.where(t < 0, xp.ones_like(t), 0))
    p = xp.where((inner & near)[..., None], p, all_or_none[..., None])
    return xp.where(on, p, xp.where(is_nan(t), t, 0)[..., None]), a, t


def slopes(call: Call, point: tuple[Any, ...]) -> Spent:
    """The slopes of every entry at the point x, c, a, t, tau."""
    (x, c, a, t, tau), curve = point, call.curve
    xp, free = namespace(x), abs(t) < math.inf
    on = (x > -math.inf) & free[..., None]
    c, x = xp.where(on, c, 0), xp.where(on, x, 0)
    entry = call.per == "entry"
    s = c if entry else xp.where(on, xp.ones_like(c), 0)
    halves = exact_sums.halves(c) if entry else None
    row = costs_search.Row(x, c, halves, (), 0, 0, tau)
    offset = xp.where(free, t, 0)
    d = xp.where(on, row.distances(a), 0)
    u = d - row.priced(offset)
    w = xp.where(on, curve.slope(u), 0)
    log = xp.where(on, curve.log_slope(u), -math.inf)
    top = xp.max(_fixed(xp, log), axis=-1)
    e = xp.exp(log - xp.where(top > -math.inf, top, 0)[..., None])
    mass = xp.sum(c * s * e, axis=-1)
    e = e / xp.where(mass > 0, mass, 1)[..., None]
    total = xp.sum(c * s * w, axis=-1)
    steep = total > xp.finfo(total.dtype).tiny
    inverse = xp.where(steep, 1 / xp.where(steep, total, 1), 0)
    good = xp.where(t == t, 1, _fixed(xp, t))[..., None]  # 1, or NaN in a NaN row
    by_x, by_k, lam = c * e * good, s * e * good, (a + tau * offset)[..., None] + 0 * x
    if root.ends(curve):
        by_x, lam = _of_middle(curve, row, (a, offset, on), by_x, lam)
    return Spent(d, u, w * good, curve.value(u), by_x, by_k, inverse, lam)


def _of_middle(
    curve: Curve, row: costs_search.Row, at: tuple[Any, Any, Any], by_x: Any, lam: Any
) -> tuple[Any, Any]:
    """`by_x` and `lam`, corrected where the thresholds are an interval.

    All shares are 0 or 1 there, and the threshold is the interval's middle.  The entry
    above that sets the upper end and the other entry that sets the lower end have the
    derivative 1/2 each, divided evenly among ties.
    """
    xp, (a, t, on) = namespace(by_x), at
    up, down, above = costs_search.interval(curve, row, a, t)
    half = 0 * by_x
    for side, ends in ((above, up), (~above, -down)):
        ends = xp.where(side & on, _fixed(xp, ends), math.inf)
        near = side & on & (ends == xp.min(ends, axis=-1)[..., None])
        number = xp.clip(xp.sum(xp.where(near, xp.ones_like(lam), 0), axis=-1), 1, None)
        half = half + xp.where(near, 0.5 / number[..., None], 0)
    s = xp.where(on, row.c, 1) if row.halves else 1
    flat = (xp.sum(by_x, axis=-1) == 0)[..., None]
    tau = row.column()
    own = a[..., None] + tau * xp.where(above, up, down)
    return xp.where(flat, half / s, by_x), xp.where(flat & on, own, lam)


def push(
    call: Call, at: tuple[Any, ...], dx: Any, dk: Any, dc: Any, dtau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of t; `at` holds x, c, a, t and tau."""
    xp, (at, fits) = namespace(at[0]), _clean(at)
    found, tau = slopes(call, at), at[4]
    on = at[0] > -math.inf
    s = at[1] if call.per == "entry" else 1
    if tau.ndim:
        tau, dtau = tau[..., None], dtau[..., None]
    move = dx - found.d * dtau
    if call.per == "entry":
        move = move - found.lam * dc
    move = xp.where(on, move, 0) / tau
    spent = xp.sum(xp.where(on, found.p * dc, 0), axis=-1)
    mean, more = xp.sum(found.by_x * move, axis=-1), dk - spent
    dp = found.w * (move - s * mean[..., None]) + found.by_k * more[..., None]
    dt = mean - more * found.inverse
    if fits is None:
        return dp, dt
    return xp.spoil(dp, fits[..., None]), xp.spoil(dt, fits)


def _clean(at: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """A point in which rows out of range hold ordinary values, and which rows are not.

    The threshold of a row out of range is NaN.  On NumPy there is none.
    """
    x, c, a, t, tau = at
    xp = namespace(x)
    if xp is np:
        return at, None
    good = t == t
    x, c = xp.where(good[..., None], x, 0), xp.where(good[..., None], c, 1)
    t, tau = xp.where(good, t, 0), xp.where(in_range(tau), tau, 1)
    return (x, c, a, t, tau), good


def pull(
    call: Call, at: tuple[Any, ...], gp: Any, gt: Any
) -> tuple[Any, Any, Any, Any]:
    """The gradients by x, k, c and tau, from those by the shares and by t, or None."""
    if gp is None and gt is None:
        return None, None, None, None
    xp, (at, fits) = namespace(at[0]), _clean(at)
    if fits is not None:
        gp = gp if gp is None else xp.spoil(gp, fits[..., None])
        gt = gt if gt is None else xp.spoil(gt, fits)
    found, tau, c = slopes(call, at), at[4], at[1]
    gx, gk = 0 * found.w, 0 * found.inverse
    if gp is not None:
        gk = xp.sum(found.by_k * gp, axis=-1)
        gx = found.w * (gp - c * gk[..., None])
    if gt is not None:
        gx = gx + gt[..., None] * found.by_x
        gk = gk - gt * found.inverse
    gx = gx / (tau[..., None] if tau.ndim else tau)
    on = at[0] > -math.inf
    gc = xp.where(on, -gk[..., None] * found.p, 0)
    if call.per == "entry":
        gc = gc - found.lam * gx
    gtau = -xp.sum(gx * found.d, axis=-1)
    return gx, gk, gc, gtau if tau.ndim else gtau.sum()


def hard(xp: Adapter, rows: Any, c: Any, per: str, share_ties: bool) -> Any:
    """Dantzig's solution: shares of 1 in the order of x / c until the budget is spent.

    The costs are summed exactly in that order, so that rounding cannot change the entry
    at which the budget ends.  Densities x / c that round to the same float are tied.
    The scores determine only the order, so the shares have derivatives by the budget
    and the costs but none by the scores.
    """
    x, n, (whole, part) = xp.detach(rows.x), rows.x.shape[-1], (rows.whole, rows.part)
    on = x > -math.inf
    fits, c, _ = _fits(xp, on, whole, part, c)
    fits = fits & xp.all((x < math.inf) & (x == x), axis=-1)
    density = x
    if per == "entry":
        density = xp.where(on, x / xp.where(on, xp.detach(c), 1), -math.inf)
    parts = exact_sums.summable(c)

    order = xp.leading(density, n)
    sums = [xp.accumulate(xp.take(v, order)) for v in parts]
    rest = costs_search.left(whole[..., None], part[..., None], sums)
    place = xp.clip(xp.sum(rest > 0, axis=-1), None, n - 1)
    pivot = xp.ordered(density, place + 1)[..., None]
    above, tied = density > pivot, (density == pivot) & on
    taken = [xp.sum(xp.where(above, v, 0), axis=-1) for v in parts]
    if share_ties:
        cost = xp.sum(xp.where(tied, c, 0), axis=-1)
        share = costs_search.left(whole, part, taken) / xp.where(cost > 0, cost, 1)
        share = share[..., None]
    else:
        own = [xp.where(tied, v, 0) for v in parts]
        sums = [
            v[..., None] + xp.accumulate(w) - w for v, w in zip(taken, own, strict=True)
        ]
        share = costs_search.left(whole[..., None], part[..., None], sums)
        share = share / xp.where(on, c, 1)
    share = xp.where(share > 1, 1, xp.where(share > 0, share, 0))
    weight = xp.where(above, 1, xp.where(tied, share, 0))
    return xp.where(fits[..., None], weight, math.nan)


def _fixed(xp: Any, value: Any) -> Any:
    """The value as a constant, in a library that has derivatives."""
    return xp.detach(value) if hasattr(xp, "detach") else value
