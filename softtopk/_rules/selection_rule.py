r"""Derivatives of the shares and the threshold of a row by x, k and tau.

With :math:`d=(x-a)/\tau`, :math:`u=d-t`, the slopes :math:`w=f'(u)`, their sum W and
their shares :math:`s=w/W`, the constraint :math:`\sum f(u)=k` gives

.. math:: dt=\sum_is_i\frac{dx_i-d_i\,d\tau}\tau-\frac{dk}W,\qquad
          dp_i=w_i\Bigl(\frac{dx_i-d_i\,d\tau}\tau-\sum_js_j\frac{dx_j-d_j\,d\tau}\tau
          \Bigr)+s_i\,dk.

Here :math:`\lambda=a+\tau t`, and the anchor a is a constant.  The normalised slopes s
are computed from the logarithms of the slopes, so that they exist even if all slopes
underflow.  If all slopes are 0, the derivative of the shares is 0.  The threshold is
then the middle of an interval, and its derivative is 1/2 by the last score above it and
1/2 by the first score below.  `push_selection` and `pull_selection` are functions of x,
t and tau, and t has a derivative by the same rule, so they can be differentiated again.
Derived in *selection/derivatives*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._rows.namespace import namespace
from .._rows.numpy_rows import as_column, divide, quiet, row_dot
from .._search import root
from ..curves import Curve


def simplex_pull(power: tuple[float, float], p: Any, g: Any, last: bool) -> Any:
    """The product of g with the Jacobian of entmax, which is symmetric, at shares p.

    For a tangent g it is therefore the tangent of the shares.

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


def view(x: Any, a: Any, t: Any, tau: Any, regular: bool) -> View:
    """The distances of a solved row, with 0 in the place of all that is not finite."""
    tau = as_column(tau)
    if regular:
        d = (x - a[..., None]) / tau
        return View(True, d, d - t[..., None])
    xp = namespace(x)
    finite_t = xp.isfinite(t)
    on = (x > -math.inf) & finite_t[..., None]  # other rows may hold anything
    d = xp.where(on, x - a[..., None], 0) / tau
    # So far away a share is 0 or 1, and constant as at an infinite distance.
    most = float(xp.finfo(d.dtype).max) ** 0.5
    d = xp.clip(d, -most, most)
    return View(on, d, d - xp.where(finite_t, t, 0)[..., None])


class Slopes(NamedTuple):
    """The slopes w, s = w / W, 1 / W (0 where W vanishes), and the view."""

    w: Any
    s: Any
    reciprocal: Any
    view: View

    def of_threshold(self, curve: Curve) -> Any:
        """The derivative of the threshold by the scores, for a curve with two ends.

        If all shares are 0 or 1, the threshold is the middle between the last score
        above it and the first below.  Each then has the derivative 1/2, divided evenly
        among equal scores.
        """
        xp, u = namespace(self.s), self.view.u
        above, next_to = u > curve.centre, []
        for side, sign in ((above, 1), (~above, -1)):
            distance = self.view.only(xp.where(side, sign * u, math.inf), math.inf)
            nearest = distance == xp.min(distance, axis=-1)[..., None]
            nearest = xp.where(nearest & (distance < math.inf), xp.ones_like(self.s), 0)
            count = xp.clip(xp.sum(nearest, axis=-1), 1, None)
            next_to.append(nearest / count[..., None])
        flat = xp.sum(self.s, axis=-1) == 0
        half = 0.5 * (next_to[0] + next_to[1])
        return xp.where(flat[..., None], half, self.s)


def slopes(curve: Curve, point: tuple[Any, ...], regular: bool) -> Slopes:
    """The slopes of every entry at its row's threshold."""
    x, a, t, tau = point
    xp, seen = namespace(x), view(x, a, t, tau, regular)
    w = seen.only(curve.slope(seen.u))
    log = seen.only(curve.log_slope(seen.u), -math.inf)
    top = xp.max(xp.detach(log), axis=-1)
    e = xp.exp(log - xp.where(top > -math.inf, top, 0)[..., None])
    total = xp.sum(e, axis=-1)
    s = e / xp.where(total > 0, total, 1)[..., None]
    W = xp.sum(w, axis=-1)
    if not regular:
        # Out of range t is NaN, and all slopes would be 0.  With slopes of 1 a tangent
        # or gradient of 0 stays 0.  The others do not, and the callers make them NaN.
        good = (t == t)[..., None]
        w, s = xp.where(good, w, 1), xp.where(good, s, 1)
    steep = W > xp.finfo(W.dtype).tiny
    return Slopes(w, s, xp.where(steep, 1 / xp.where(steep, W, 1), 0), seen)


def push_selection(
    curve: Curve, point: tuple[Any, ...], regular: bool, dx: Any, dk: Any, dtau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of t; `point` holds x, a, t and tau."""
    xp, found, tau = namespace(point[0]), slopes(curve, point, regular), point[3]
    w, s, reciprocal, (_, d, _) = found
    if tau.ndim:
        tau, dtau = tau[..., None], dtau[..., None]
    move = (dx - d * dtau) / tau
    mean = xp.sum(s * move, axis=-1)
    dp = w * (move - mean[..., None]) + s * dk[..., None]
    if root.ends(curve):
        mean = xp.sum(found.of_threshold(curve) * move, axis=-1)
    dt = mean - dk * reciprocal
    if regular:
        return dp, dt
    in_range = point[2] == point[2]
    return xp.spoil(dp, in_range[..., None]), xp.spoil(dt, in_range)


def pull_selection(
    curve: Curve, point: tuple[Any, ...], regular: bool, gp: Any, gt: Any
) -> tuple[Any, Any, Any]:
    """The gradients by x, k and tau, from those by the shares and by t, or None."""
    if gp is None and gt is None:
        return None, None, None
    xp, found = namespace(point[0]), slopes(curve, point, regular)
    w, s, reciprocal, (_, d, _) = found
    tau, gx, gk = point[3], 0, 0
    if not regular:
        in_range = point[2] == point[2]
        gp = gp if gp is None else xp.spoil(gp, in_range[..., None])
        gt = gt if gt is None else xp.spoil(gt, in_range)
    if gp is not None:
        gk = xp.sum(s * gp, axis=-1)
        gx = w * (gp - gk[..., None])
    if gt is not None:
        gx = gx + gt[..., None] * (found.of_threshold(curve) if root.ends(curve) else s)
        gk = gk - gt * reciprocal
    gx = gx / as_column(tau)
    gtau = -xp.sum(gx * d, axis=-1)
    return gx, gk, gtau if tau.ndim else gtau.sum()


@quiet()
def pull_selection_on_numpy(
    curve: Curve, by_tau: bool, x: Any, a: Any, t: Any, tau: Any, gp: Any, gt: Any
) -> tuple[Any, Any, Any] | None:
    """`pull_selection` for a named curve and a single temperature, in fewer operations.

    The result is None if a row needs the logarithms of its slopes, or the derivative of
    the middle of an interval of thresholds.
    """
    a, t, tau = a[..., None], t[..., None], float(tau)
    u = divide(x - a, tau)
    u -= t
    w = curve.slope(u)
    W = w.sum(axis=-1)
    reciprocal = 1 / W
    steep = W >= math.sqrt(np.finfo(W.dtype).tiny)
    if np.count_nonzero(steep) < steep.size:
        flat = root.ends(curve) & (W == 0)  # no logarithm of a slope is finite
        if gt is not None or np.count_nonzero(steep | flat) < steep.size:
            return None
        reciprocal = np.where(flat, 0, reciprocal)
    mean = 0 * reciprocal if gp is None else row_dot(w, gp) * reciprocal
    gk = mean if gt is None else mean - gt * reciprocal
    gx = divide(w * ((0 if gp is None else gp) - gk[..., None]), tau)
    gtau = -np.where(gx != 0, gx * (u + t), 0).sum() if by_tau else None
    return gx, gk, gtau
