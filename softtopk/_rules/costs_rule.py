r"""Derivatives of the shares and the threshold of a budget with costs.

With :math:`u_i=(x_i-\lambda s_i)/\tau` and :math:`\sum c_if(u_i)=K` (see
`softtopk._search.costs_search`), the slopes :math:`\omega=f'(u)` and
:math:`\Omega=\sum_ic_is_i\omega_i`, the constraint gives

.. math:: d\lambda&=\frac{\sum_ic_i\omega_i(dx_i-\lambda\,ds_i-u_i\,d\tau)
            +\tau(\sum_ip_i\,dc_i-dK)}\Omega,\\
          dp_i&=\frac{\omega_i}\tau(dx_i-\lambda\,ds_i-u_i\,d\tau-s_i\,d\lambda).

So :math:`\partial p_i/\partial x_j=(\omega_i\delta_{ij}-\omega_is_ic_j\omega_j/
\Omega)/\tau`: symmetric where s = c, and with :math:`s_i=1` after row i is multiplied
by :math:`c_i`.  As without costs the anchor is a constant, the ratios
:math:`\omega/\Omega` come from the logarithms of the slopes, and `push_costs` and
`pull_costs` are written in x, c, t and tau, so that they can be differentiated
again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._rows.adapter_rows import temperature_in_range
from .._rows.namespace import namespace
from .._rows.numpy_rows import as_column
from .._search import costs_search, exact_sums, root
from .._search.costs_search import CostsOptions
from ..curves import Curve


class CostSlopes(NamedTuple):
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
    reciprocal : (...) array
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
    reciprocal: Any
    lam: Any


def cost_slopes(options: CostsOptions, point: tuple[Any, ...]) -> CostSlopes:
    """The slopes of every entry at the point x, c, a, t, tau."""
    (x, c, a, t, tau), curve = point, options.curve
    xp, finite_t = namespace(x), abs(t) < math.inf
    on = (x > -math.inf) & finite_t[..., None]
    c, x = xp.where(on, c, 0), xp.where(on, x, 0)
    entry = options.per == "entry"
    s = c if entry else xp.where(on, xp.ones_like(c), 0)
    halves = exact_sums.halves(c) if entry else None
    rows = costs_search.RowsWithCosts(x, c, halves, (), 0, 0, tau)
    offset = xp.where(finite_t, t, 0)
    d = xp.where(on, rows.distances(a), 0)
    u = d - rows.entry_offsets(offset)
    w = xp.where(on, curve.slope(u), 0)
    log = xp.where(on, curve.log_slope(u), -math.inf)
    top = xp.max(_fixed(xp, log), axis=-1)
    e = xp.exp(log - xp.where(top > -math.inf, top, 0)[..., None])
    mass = xp.sum(c * s * e, axis=-1)
    e = e / xp.where(mass > 0, mass, 1)[..., None]
    total = xp.sum(c * s * w, axis=-1)
    steep = total > xp.finfo(total.dtype).tiny
    reciprocal = xp.where(steep, 1 / xp.where(steep, total, 1), 0)
    good = xp.where(t == t, 1, _fixed(xp, t))[..., None]  # 1, or NaN in a NaN row
    by_x, by_k, lam = c * e * good, s * e * good, (a + tau * offset)[..., None] + 0 * x
    if root.ends(curve):
        by_x, lam = _of_middle(curve, rows, (a, offset, on), by_x, lam)
    return CostSlopes(d, u, w * good, curve.value(u), by_x, by_k, reciprocal, lam)


def _of_middle(
    curve: Curve,
    rows: costs_search.RowsWithCosts,
    solved: tuple[Any, Any, Any],
    by_x: Any,
    lam: Any,
) -> tuple[Any, Any]:
    """`by_x` and `lam`, corrected where the thresholds are an interval.

    All shares are 0 or 1 there, and the threshold is the interval's middle.  The entry
    above that sets the upper end and the other entry that sets the lower end have the
    derivative 1/2 each, divided evenly among ties.
    """
    xp, (a, t, on) = namespace(by_x), solved
    up, down, above = costs_search.interval(curve, rows, a, t)
    half = 0 * by_x
    for side, ends in ((above, up), (~above, -down)):
        ends = xp.where(side & on, _fixed(xp, ends), math.inf)
        near = side & on & (ends == xp.min(ends, axis=-1)[..., None])
        number = xp.clip(xp.sum(xp.where(near, xp.ones_like(lam), 0), axis=-1), 1, None)
        half = half + xp.where(near, 0.5 / number[..., None], 0)
    s = xp.where(on, rows.c, 1) if rows.halves else 1
    flat = (xp.sum(by_x, axis=-1) == 0)[..., None]
    tau = as_column(rows.tau)
    own = a[..., None] + tau * xp.where(above, up, down)
    return xp.where(flat, half / s, by_x), xp.where(flat & on, own, lam)


def push_costs(
    options: CostsOptions, point: tuple[Any, ...], dx: Any, dk: Any, dc: Any, dtau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of t; `point` holds x, c, a, t and tau."""
    xp, (point, in_range) = namespace(point[0]), _clean(point)
    found, tau = cost_slopes(options, point), point[4]
    on = point[0] > -math.inf
    s = point[1] if options.per == "entry" else 1
    if tau.ndim:
        tau, dtau = tau[..., None], dtau[..., None]
    move = dx - found.d * dtau
    if options.per == "entry":
        move = move - found.lam * dc
    move = xp.where(on, move, 0) / tau
    change = xp.sum(xp.where(on, found.p * dc, 0), axis=-1)
    mean, more = xp.sum(found.by_x * move, axis=-1), dk - change
    dp = found.w * (move - s * mean[..., None]) + found.by_k * more[..., None]
    dt = mean - more * found.reciprocal
    if in_range is None:
        return dp, dt
    return xp.spoil(dp, in_range[..., None]), xp.spoil(dt, in_range)


def _clean(point: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """A point in which rows out of range hold ordinary values, and which rows are not.

    The threshold of a row out of range is NaN.  On NumPy there is none.
    """
    x, c, a, t, tau = point
    xp = namespace(x)
    if xp is np:
        return point, None
    good = t == t
    x, c = xp.where(good[..., None], x, 0), xp.where(good[..., None], c, 1)
    t, tau = xp.where(good, t, 0), xp.where(temperature_in_range(tau), tau, 1)
    return (x, c, a, t, tau), good


def pull_costs(
    options: CostsOptions, point: tuple[Any, ...], gp: Any, gt: Any
) -> tuple[Any, Any, Any, Any]:
    """The gradients by x, k, c and tau, from those by the shares and by t, or None."""
    if gp is None and gt is None:
        return None, None, None, None
    xp, (point, in_range) = namespace(point[0]), _clean(point)
    if in_range is not None:
        gp = gp if gp is None else xp.spoil(gp, in_range[..., None])
        gt = gt if gt is None else xp.spoil(gt, in_range)
    found, tau, c = cost_slopes(options, point), point[4], point[1]
    gx, gk = 0 * found.w, 0 * found.reciprocal
    if gp is not None:
        gk = xp.sum(found.by_k * gp, axis=-1)
        gx = found.w * (gp - c * gk[..., None])
    if gt is not None:
        gx = gx + gt[..., None] * found.by_x
        gk = gk - gt * found.reciprocal
    gx = gx / as_column(tau)
    on = point[0] > -math.inf
    gc = xp.where(on, -gk[..., None] * found.p, 0)
    if options.per == "entry":
        gc = gc - found.lam * gx
    gtau = -xp.sum(gx * found.d, axis=-1)
    return gx, gk, gc, gtau if tau.ndim else gtau.sum()


def _fixed(xp: Any, value: Any) -> Any:
    """The value as a constant, in a library that has derivatives."""
    return value if xp is np else xp.detach(value)
