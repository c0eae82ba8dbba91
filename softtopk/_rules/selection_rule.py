r"""The shares and the threshold of a row, and their derivatives by x, k and tau.

With :math:`d=(x-a)/\tau`, :math:`u=d-t`, the slopes :math:`w=f'(u)`, their sum W and
their shares :math:`s=w/W`, the constraint :math:`\sum f(u)=k` gives

.. math:: dt=\sum_is_i\frac{dx_i-d_i\,d\tau}\tau-\frac{dk}W,\qquad
          dp_i=w_i\Bigl(\frac{dx_i-d_i\,d\tau}\tau-\sum_js_j\frac{dx_j-d_j\,d\tau}\tau
          \Bigr)+s_i\,dk.

Here :math:`\lambda=a+\tau t`, and the anchor a is a constant.  The normalised slopes s
are computed from the logarithms of the slopes, so that they exist even if all slopes
underflow.  If all slopes are 0, the derivative of the shares is 0.  The threshold is
then the middle of an interval, and its derivative is 1/2 by the last score above it and
1/2 by the first score below.  `push` and `pull` are functions of x, t and tau, and t
has a derivative by the same rule, so they can be differentiated again.  Derived in
*selection/derivatives*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._rows.adapter_rows import check_temperatures, in_range
from .._rows.namespace import is_nan, namespace, tally
from .._rows.numpy_rows import (
    Budget,
    Rows,
    check_budget,
    check_finite,
    count_finite,
    divide,
    row_dot,
)
from .._search import root
from .._search.numpy_entmax import entmax_row, entmax_shares
from .._search.numpy_search import solve
from .._search.start import Moments, measured, narrowed
from ..curves import CLIP, Curve, Entmax

_SHORT, _FEW = 512, 1 << 13
"""Entmax sorts rows up to the first length if all rows together have few entries."""


def budget(x: Any, whole: Any, part: Any) -> Budget:
    """The budget of rows, with their entries above -inf counted exactly."""
    return Budget(whole, part, tally(x > -math.inf, x))


def selected(
    curve: Curve, x: Any, whole: Any, part: Any, tau: Any, plain: bool
) -> tuple[Any, Any, Any]:
    """Shares, anchors and offsets; `plain` where `verify` found no special row."""
    n, row = measured(x)
    return solved(curve, x, Budget(whole, part, n), tau, row, plain)


def solved(
    curve: Curve, x: Any, k: Budget, tau: Any, row: Moments, plain: bool = False
) -> tuple[Any, Any, Any]:
    """`selected` for rows with these moments.

    The offset is +inf if k = 0 and -inf if k = n.  The results of a row out of range
    are NaN.  A score whose distance to the threshold overflows in temperatures has the
    share 0 or 1.  Where it overflows in the units of the scores alone, at a temperature
    near the end of the range, the row is NaN.
    """
    if plain:
        a, t = root.solve(curve, x, k, tau, row)
        return curve.value(root.distances(x, tau, a, t)), a, t
    xp = namespace(x)
    one, rest = k.without(0), k.rest()
    warm = in_range(tau)
    fits = (row.top < math.inf) & (row.mean == row.mean) & warm
    fits = fits & (k.part >= 0) & (k.whole >= 0) & (rest >= 0)
    inner = fits & (one > 0) & (rest > 0)
    safe = Budget(
        xp.where(inner, k.whole, 0),
        xp.where(inner, k.part, 0.5),
        xp.where(inner, k.n, x.shape[-1]),
    )
    scale = xp.where(warm, tau, 1)

    def split(middle: Any) -> Any:
        return root.gap_of(x, x, middle)

    row = narrowed(split, safe, scale, row, inner)
    a, t = root.solve(curve, x, safe, scale, row, inner)
    outer = xp.where(one == 0, xp.full_like(t, math.inf), -math.inf)
    near = xp.maximum(row.top - a, a - row.least) < math.inf
    t = xp.where(fits & (near | ~inner), xp.where(inner, t, outer), math.nan)
    a = xp.where(inner, a, 0)
    return shares(curve, x, a, t, tau), a, t


def shares(curve: Curve, x: Any, a: Any, t: Any, tau: Any) -> Any:
    """The shares at a and t: all 0 where t is +inf, 1 where it is -inf, or NaN."""
    xp, bad = namespace(x), is_nan(t)
    free = xp.isfinite(t)
    p = curve.value(root.distances(x, tau, a, xp.where(free, t, 0)))
    all_or_none = xp.where(bad, t, xp.where(t < 0, xp.ones_like(t), 0))
    p = xp.where(free[..., None], p, all_or_none[..., None])
    return xp.where(x > -math.inf, p, xp.where(bad, t, 0)[..., None])


def on_numpy(
    curve: Curve, x: Any, whole: Any, part: Any, tau: float
) -> tuple[tuple[Any, Any, Any], bool]:
    """`solved` by the solver for NumPy, and whether the rows are plain.

    The budget is one number, or one for each row.  Arguments out of range raise the
    errors of the core.
    """
    batch, flat = x.shape[:-1], np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    n, k = count_finite(flat, "x"), np.empty(batch)
    k[...] = whole + part
    k = k.reshape(-1)
    check_budget(k, n, "x")
    tiny = float(np.finfo(x.dtype).tiny)
    if not tiny <= tau <= 1 / tiny:
        check_temperatures(np.asarray(tau), x.dtype, tiny)
    rows = Rows(flat, k, n, x.shape, batch, (-1,), x.shape)
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
    plain = np.count_nonzero(n == x.shape[-1]) == n.size
    plain = plain and np.count_nonzero(np.isfinite(found.offset)) == n.size
    a, t = (np.asarray(v, x.dtype).reshape(batch) for v in found[1:])
    return (found.p.reshape(x.shape), a, t), plain


def simplex_on_numpy(x: Any, curve: Entmax, tau: float) -> Any:
    """The shares of entmax by the solver for NumPy."""
    b, n = curve.b, x.shape[-1]
    if n <= _SHORT and b in (0.5, 1):
        if x.size > _FEW:
            return on_numpy(CLIP if b == 1 else curve, x, 1, 0.0, tau)[0][0]
        if x.size == n and b == 0.5:
            p = entmax_row(x.reshape(-1), tau)
            if p is not None:
                return p.reshape(x.shape)
    flat = np.ascontiguousarray(x).reshape(-1, n)
    finite = count_finite(flat, "x")
    check_finite(finite, "x")
    return entmax_shares(flat, b, tau)[0].reshape(x.shape)


def simplex_pull(power: tuple[float, float], p: Any, g: Any, last: bool) -> Any:
    """The product of g with the Jacobian of entmax, which is symmetric, at shares p.

    The slopes are p^(1 - b).  If this result may be differentiated again (not `last`),
    they are written so that their own derivative is 0, not NaN, where a share is 0.
    """
    b, tau = power
    if b == 1:
        w = p.sign()
    elif last and b < 1:
        w = p.sqrt() if b == 0.5 else p ** (1 - b)
    else:
        xp, on = namespace(p), p > 0
        w = on * xp.where(on, p, 1) ** (1 - b)
    gx = w * g
    gx = gx - w * (gx.sum(-1, True) / w.sum(-1, True))
    return gx if tau == 1 else gx / tau


class View(NamedTuple):
    """The distances of the entries of a row from its anchor and threshold.

    Attributes
    ----------
    on : (..., n) array of bool, or True
        Entries whose share depends on the scores.
    d, u : (..., n) arrays
        (x - a) / tau and u = d - t; d is 0 where an entry is not `on`.
    """

    on: Any
    d: Any
    u: Any

    def only(self, values: Any, other: Any = 0) -> Any:
        """The values where an entry is `on`, and `other` elsewhere."""
        if self.on is True:
            return values
        return namespace(values).where(self.on, values, other)


def view(x: Any, a: Any, t: Any, tau: Any, plain: bool) -> View:
    """The distances of a solved row, with 0 in the place of all that is not finite."""
    tau = tau[..., None] if tau.ndim else tau
    if plain:
        d = (x - a[..., None]) / tau
        return View(True, d, d - t[..., None])
    xp = namespace(x)
    free = xp.isfinite(t)
    on = (x > -math.inf) & free[..., None]  # other rows may hold anything
    d = xp.where(on, x - a[..., None], 0) / tau
    # So far away a share is 0 or 1, and constant as at an infinite distance.
    most = float(xp.finfo(d.dtype).max) ** 0.5
    d = xp.clip(d, -most, most)
    return View(on, d, d - xp.where(free, t, 0)[..., None])


class Slopes(NamedTuple):
    """The slopes w, s = w / W, 1 / W (0 where W vanishes), and the view."""

    w: Any
    s: Any
    inverse: Any
    at: View

    def of_threshold(self, curve: Curve) -> Any:
        """The derivative of the threshold by the scores, for a curve with two ends.

        If all shares are 0 or 1, the threshold is the middle between the last score
        above it and the first below.  Each then has the derivative 1/2, divided evenly
        among equal scores.
        """
        xp, u = namespace(self.s), self.at.u
        above, next_to = u > curve.centre, []
        for side, sign in ((above, 1), (~above, -1)):
            far = self.at.only(xp.where(side, sign * u, math.inf), math.inf)
            near = far == xp.min(far, axis=-1)[..., None]
            near = xp.where(near & (far < math.inf), xp.ones_like(self.s), 0)
            next_to.append(near / xp.clip(xp.sum(near, axis=-1), 1, None)[..., None])
        flat = xp.sum(self.s, axis=-1) == 0
        half = 0.5 * (next_to[0] + next_to[1])
        return xp.where(flat[..., None], half, self.s)


def slopes(curve: Curve, point: tuple[Any, ...], plain: bool) -> Slopes:
    """The slopes of every entry at its row's threshold."""
    x, a, t, tau = point
    xp, at = namespace(x), view(x, a, t, tau, plain)
    w = at.only(curve.slope(at.u))
    log = at.only(curve.log_slope(at.u), -math.inf)
    top = xp.max(xp.detach(log), axis=-1)
    e = xp.exp(log - xp.where(top > -math.inf, top, 0)[..., None])
    total = xp.sum(e, axis=-1)
    s = e / xp.where(total > 0, total, 1)[..., None]
    W = xp.sum(w, axis=-1)
    if not plain:  # in a bad row, whose t is NaN, `push` and `pull` make it NaN
        good = (t == t)[..., None]
        w, s = xp.where(good, w, 1), xp.where(good, s, 1)
    steep = W > xp.finfo(W.dtype).tiny
    return Slopes(w, s, xp.where(steep, 1 / xp.where(steep, W, 1), 0), at)


def push(
    curve: Curve, at: tuple[Any, ...], plain: bool, dx: Any, dk: Any, dtau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of t; `at` holds x, a, t and tau."""
    xp, found, tau = namespace(at[0]), slopes(curve, at, plain), at[3]
    w, s, inverse, (_, d, _) = found
    if tau.ndim:
        tau, dtau = tau[..., None], dtau[..., None]
    move = (dx - d * dtau) / tau
    mean = xp.sum(s * move, axis=-1)
    dp = w * (move - mean[..., None]) + s * dk[..., None]
    if root.ends(curve):
        mean = xp.sum(found.of_threshold(curve) * move, axis=-1)
    dt = mean - dk * inverse
    if plain:
        return dp, dt
    fits = at[2] == at[2]
    return xp.spoil(dp, fits[..., None]), xp.spoil(dt, fits)


def pull(
    curve: Curve, at: tuple[Any, ...], plain: bool, gp: Any, gt: Any
) -> tuple[Any, Any, Any]:
    """The gradients by x, k and tau, from those by the shares and by t, or None."""
    if gp is None and gt is None:
        return None, None, None
    xp, found = namespace(at[0]), slopes(curve, at, plain)
    w, s, inverse, (_, d, _) = found
    tau, gx, gk = at[3], 0, 0
    if not plain:
        fits = at[2] == at[2]
        gp = gp if gp is None else xp.spoil(gp, fits[..., None])
        gt = gt if gt is None else xp.spoil(gt, fits)
    if gp is not None:
        gk = xp.sum(s * gp, axis=-1)
        gx = w * (gp - gk[..., None])
    if gt is not None:
        gx = gx + gt[..., None] * (found.of_threshold(curve) if root.ends(curve) else s)
        gk = gk - gt * inverse
    gx = gx / (tau[..., None] if tau.ndim else tau)
    gtau = -xp.sum(gx * d, axis=-1)
    return gx, gk, gtau if tau.ndim else gtau.sum()


def pull_on_numpy(
    curve: Curve, by_tau: bool, x: Any, a: Any, t: Any, tau: Any, gp: Any, gt: Any
) -> tuple[Any, Any, Any] | None:
    """`pull` for a named curve and a single temperature, in fewer operations.

    The result is None if a row needs the logarithms of its slopes, or the derivative of
    the middle of an interval of thresholds.
    """
    a, t, tau = a[..., None], t[..., None], float(tau)
    with np.errstate(all="ignore"):
        u = divide(x - a, tau)
        u -= t
        w = curve.slope(u)
        W = w.sum(axis=-1)
        inverse = 1 / W
        steep = W >= math.sqrt(np.finfo(W.dtype).tiny)
        if np.count_nonzero(steep) < steep.size:
            flat = root.ends(curve) & (W == 0)  # no logarithm of a slope is finite
            if gt is not None or np.count_nonzero(steep | flat) < steep.size:
                return None
            inverse = np.where(flat, 0, inverse)
        mean = 0 * inverse if gp is None else row_dot(w, gp) * inverse
        gk = mean if gt is None else mean - gt * inverse
        gx = divide(w * ((0 if gp is None else gp) - gk[..., None]), tau)
        gtau = -np.where(gx != 0, gx * (u + t), 0).sum() if by_tau else None
    return gx, gk, gtau
