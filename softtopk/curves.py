r"""Curves: the functions that turn a score's distance to the threshold into its share.

A *curve* is a continuous, nondecreasing :math:`f:\mathbb{R}\to[0,1]` with limits 0
and 1.  With scores :math:`x` and a budget :math:`k` it defines

.. math:: \sum_i f(x_i-\lambda)=k, \qquad p=f(x-\lambda).

A curve brings its *slope* :math:`f'`, its *inverse*, its *potential* :math:`F`
(:math:`F'=f`, :math:`F(-\infty)=0`) and its *regulariser* :math:`\varphi`
(:math:`\varphi'=f^{-1}`, :math:`\varphi(0)=0`), which are convex conjugates:
:math:`\varphi(p)=pt-F(t)` at :math:`p=f(t)`.

==============  =========================================  ======================
name            :math:`f(t)`                               :math:`f'` in terms of p
==============  =========================================  ======================
``exp``         :math:`\min(1,e^t)`                        :math:`p` where p < 1
``laplace``     :math:`e^t/2`, then :math:`1-e^{-t}/2`     :math:`\min(p,1-p)`
``sigmoid``     :math:`1/(1+e^{-t})`                       :math:`p(1-p)`
``clip``        :math:`\min(1,\max(0,t))`                  1 where 0 < p < 1
``triangular``  cdf of the triangular density on [-1, 1]   :math:`\sqrt{2\min(p,1-p)}`
``entmax(a)``   :math:`[1+(a-1)t]_+^{1/(a-1)}`, at most 1  :math:`p^{2-a}` where p < 1
==============  =========================================  ======================

Derived in *selection/threshold* (every curve), *selection/exponential*,
*selection/sigmoid*, *selection/laplace* and *selection/derivatives*.
"""

# A curve is defined here, and that is enough for every operator on every library.  The
# formulas of those with a name stand in these files besides, and nowhere else:
#
# file                          curves           why
# ----------------------------  ---------------  ---------------------------------------
# _search/numpy_sums.py         all              a selection on NumPy with the functions
#                                                below takes 3 to 25 times as long
# _search/curve_sums.py         all but entmax   the other libraries; for a long row the
#                                                functions below take up to 3 times as
#                                                long, and a compiler stores more arrays
# _search/numpy_simplex.py      entmax           k = 1 looks at the few scores that can
#                                                have a share, and loses no digits
# _search/all_thresholds.py     exp, laplace     all thresholds of a row in O(n)
# _kernels/triton_curves.py     all              a kernel calls no Python
# tests/package/oracle.py       all              the tests' own definitions, 50 digits
# book/_static/explore          some             the same in a browser, without Python

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._curve_base import Curve, checked_shares, kept, log, log1m, xlogx
from ._rows.namespace import choose, clip, floats, namespace
from ._rows.numpy_rows import Array

__all__ = [
    "CLIP",
    "EXP",
    "LAPLACE",
    "NAMED",
    "SIGMOID",
    "TRIANGULAR",
    "Curve",
    "Entmax",
    "entmax",
    "resolve",
]


class _Named(Curve):
    """A curve of which there is one, that of `NAMED`: a copy of it is the same object.

    The quicker searches and the kernels know it by its identity.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve, (self.name,)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class _Exp(_Named):
    name = "exp"
    support = kept("support", (-math.inf, 0.0))
    noise = kept("noise", (1.0, 1.0))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(clip(xp, t, None, 0))

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0 - xp.expm1(clip(xp, t, None, 0))

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(clip(xp, t, None, 0)) * (t <= 0)

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where(t <= 0, t, -math.inf)

    def inverse(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return log(xp, p)

    def slope_of_p(self, p: Any) -> Array:
        _, p = checked_shares(p)
        return p * (p < 1)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(clip(xp, t, None, 0)) + clip(xp, t, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return xlogx(xp, p) - p

    def gap(self, t: Any, p: Any) -> Array:
        return _power_gap(self, 0.0, t, p)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        # The slope of a share below 1 is the share itself, so W is the sum of these
        # shares.  If the threshold moves by `step`, and no share reaches 1 or leaves 1,
        # then this sum becomes W e^-step.  It should become W - excess.  If k or more
        # shares are 1, then W - excess <= 0, and the step is NaN or infinite.
        return -namespace(W).log1p(-excess / W)


class _TwoSided(_Named):
    """A curve with f(-t) = 1 - f(t) that is rational in e^t."""

    bend = kept("bend", 1.0)

    def complement(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return self.value(-t)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """The step of the model ``P y - C / y = P - C - excess``, ``y = e^(-g step)``.

        It has the right value and, with ``g = W / (P + C)``, the right slope; it is
        exact where the tails are exponential, far from 0 or with one slope between.
        """
        xp, D = namespace(P), P - C - excess
        root = abs(D) + xp.hypot(D, 2 * xp.sqrt(P) * xp.sqrt(C))
        y = choose(D >= 0, root / (2 * P), 2 * C / root)
        return -xp.log(y) * (P + C) / W


class _Laplace(_TwoSided):
    name = "laplace"
    noise = kept("noise", (0.0, math.sqrt(2)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = 0.5 * xp.exp(-abs(t))
        return xp.where(t < 0, q, 1 - q)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0.5 * xp.exp(-abs(t))

    def log_slope(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return -abs(t) - math.log(2)

    def inverse(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        low = p < 0.5
        t = log(xp, 2 * xp.where(low, p, 1 - p))
        return xp.where(low, t, -t)

    def slope_of_p(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return xp.where(p < 0.5, p, 1 - p)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return clip(xp, t, 0, None) + 0.5 * xp.exp(-abs(t))

    def regulariser(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        q = self.slope_of_p(p)
        return 0.5 * xlogx(xp, 2 * q) - q

    def gap(self, t: Any, p: Any) -> Array:
        xp, t, p, up = _folded(t, p)
        below = EXP.gap(clip(xp, t, None, 0) - math.log(2), p)
        return below + up * (0.5 - p) + 0.5 * (xp.expm1(-up) + up)


class _Sigmoid(_TwoSided):
    name = "sigmoid"
    noise = kept("noise", (0.0, math.pi / math.sqrt(3)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = xp.exp(-abs(t))
        return xp.where(t < 0, q, xp.ones_like(q)) / (1 + q)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = xp.exp(-abs(t))
        return q / (1 + q) ** 2

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return -abs(t) - 2 * xp.log1p(xp.exp(-abs(t)))

    def inverse(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return log(xp, p) - log1m(xp, p)

    def slope_of_p(self, p: Any) -> Array:
        _, p = checked_shares(p)
        return p * (1 - p)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return clip(xp, t, 0, None) + xp.log1p(xp.exp(-abs(t)))

    def regulariser(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return xlogx(xp, p) + xlogx(xp, 1 - p)

    def gap(self, t: Any, p: Any) -> Array:
        # The relative entropy of the distributions (p, 1 - p) and (f, 1 - f).
        _, t = floats(t, "t")
        _, p = checked_shares(p)
        yes, no = EXP.gap(-self.potential(-t), p), EXP.gap(-self.potential(t), 1 - p)
        return yes + no


class _Clip(_Named):
    name = "clip"
    support = kept("support", (0.0, 1.0))
    noise = kept("noise", (-0.5, 1 / math.sqrt(12)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return clip(xp, t, 0, 1)

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return clip(xp, 1 - t, 0, 1)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where((t > 0) & (t < 1), xp.ones_like(t), xp.zeros_like(t))

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where((t > 0) & (t < 1), xp.zeros_like(t), -math.inf)

    def inverse(self, p: Any) -> Array:
        _, p = checked_shares(p)
        return p + 0

    def slope_of_p(self, p: Any) -> Array:
        return self.slope(checked_shares(p)[1])

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0.5 * clip(xp, t, 0, 1) ** 2 + clip(xp, t - 1, 0, None)

    def regulariser(self, p: Any) -> Array:
        _, p = checked_shares(p)
        return 0.5 * p**2

    def gap(self, t: Any, p: Any) -> Array:
        _, t = floats(t, "t")
        _, p = checked_shares(p)
        q = self.value(t)
        return (q - p) * (0.5 * (q - p) + (t - q))


class _Triangular(_Named):
    name = "triangular"
    support = kept("support", (-1.0, 1.0))
    noise = kept("noise", (0.0, 1 / math.sqrt(6)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = 0.5 * self.slope(t) ** 2
        return xp.where(t < 0, q, 1 - q)

    def complement(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return self.value(-t)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return clip(xp, 1 - abs(t), 0, None)

    def inverse(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        distance = 1 - self.slope_of_p(p)
        return xp.where(p < 0.5, -distance, distance)

    def slope_of_p(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return xp.sqrt(2 * xp.where(p < 0.5, p, 1 - p))

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return self.slope(t) ** 3 / 6 + clip(xp, t, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        q = xp.where(p < 0.5, p, 1 - p)
        return q * (xp.sqrt(8 * q) / 3 - 1)

    def gap(self, t: Any, p: Any) -> Array:
        # With s = sqrt(2 p) and r the slope at f <= 1/2: f = r^2 / 2.
        xp, t, p, up = _folded(t, p)
        s, r = xp.sqrt(2 * p), self.slope(clip(xp, t, None, 0))
        inner = clip(xp, up, None, 1)
        return (
            (s - r) ** 2 * (2 * s + r) / 6
            + p * clip(xp, -1 - t, 0, None)
            + inner * (0.5 - p + inner * (0.5 - inner / 6))
            + (up - inner) * (1 - p)
        )

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """The step of the model ``P (1 - v)^2 - C (1 + v)^2 = P - C - excess``.

        With ``v = step W / (2 P + 2 C)`` its slope is right; it is exact where the
        entries of either half are at one place, and where there is one entry.
        """
        A = P + C
        bent = 1 - (P - C) / A * (excess / A)
        return 2 * (excess / W) / (1 + (0.5 * bent + 0.5 * abs(bent)) ** 0.5)


class Entmax(Curve):
    r"""The curve :math:`\min(1,[1+(\alpha-1)t]_+^{1/(\alpha-1)})`; see `entmax`.

    For alpha < 1 it serves the loss of entmax alone.  It falls like a power of t there,
    and up to alpha = 1/2 its noise has no deviation to start a search from.
    """

    needs_sum = True
    alpha, b = kept("alpha"), kept("b")
    support, noise = kept("support"), kept("noise")

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.name = f"entmax({alpha:g})"
        self.b = b = alpha - 1
        self.support = (-1 / b if b > 0 else -math.inf, 0.0)
        if b > 0:
            self.noise = (1 / alpha, 1 / (alpha * math.sqrt(1 + 2 * b)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entmax) and other.alpha == self.alpha

    def __hash__(self) -> int:
        return hash((Entmax, self.alpha))

    def _raised(self, t: Any, exponent: float) -> Array:
        """[1 + b t]_+ ** exponent, at most 1."""
        xp, t = floats(t, "t")
        if self.b < 0:
            return xp.exp(exponent * xp.log1p(self.b * clip(xp, t, None, 0)))
        z = clip(xp, self.b * t, -1, 0)
        if self.b >= 0.5:
            return (1 + z) ** exponent
        # The power of 1 + b t would multiply the base's rounding error by 1 / b.
        return xp.exp(exponent * log1m(xp, -z))

    def value(self, t: Any) -> Array:
        return self._raised(t, 1 / self.b)

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        z = clip(xp, -self.b * t, 0, 1)
        if self.b == 0.5:
            return z * (2 - z)  # 1 - (1 - z)^2
        return 0 - xp.expm1(log1m(xp, z) / self.b)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = (t > self.support[0]) & (t <= 0)
        return xp.where(inner, self._raised(xp.where(inner, t, 0), 1 / self.b - 1), 0)

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = (t > self.support[0]) & (t <= 0)
        z = self.b * xp.where(inner, t, 0)
        return xp.where(inner, (1 / self.b - 1) * log1m(xp, -z), -math.inf)

    def inverse(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        return xp.expm1(self.b * log(xp, p)) / self.b

    def slope_of_p(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        inner = (p > 0) & (p < 1)
        return xp.where(inner, xp.where(inner, p, 1) ** (1 - self.b), 0)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return self._raised(t, 1 / self.b + 1) / self.alpha + clip(xp, t, 0, None)

    def regulariser(self, p: Any) -> Array:
        _, p = checked_shares(p)
        return p * (self.inverse(p) - 1) / self.alpha

    def gap(self, t: Any, p: Any) -> Array:
        return _power_gap(self, self.b, t, p, self.alpha)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        # The b-th power of S is nearly linear in the threshold: it is linear for b = 1
        # and, in the limit b = 0, after taking logarithms.
        xp, b = namespace(S), self.b
        return -xp.expm1(b * xp.log1p(-excess / S)) / b * (S / W)


EXP: Curve = _Exp()
LAPLACE: Curve = _Laplace()
SIGMOID: Curve = _Sigmoid()
CLIP: Curve = _Clip()
TRIANGULAR: Curve = _Triangular()

NAMED = {c.name: c for c in (EXP, LAPLACE, SIGMOID, CLIP, TRIANGULAR)}
"""The curves that a name stands for.

What depends on which curves there are, such as the tests and the figures' colours, is
taken from here.
"""


def entmax(alpha: float) -> Curve:
    r"""The curve of entmax: from `EXP` (alpha = 1) to `CLIP` shifted (alpha = 2).

    With :math:`b=\alpha-1` it is :math:`f(t)=\min(1,[1+bt]_+^{1/b})`; its k = 1 case
    is :math:`\alpha`-entmax.  Above 3/2 its slope rises vertically where shares start:
    there derivatives show the last bit of the threshold.

    Parameters
    ----------
    alpha : float
        From 1 to 2.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a real number in [1, 2].

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.curves.entmax(1.5).value([-2.0, -1.0, 0.0, 1.0]).tolist()
    [0.0, 0.25, 1.0, 1.0]
    """
    numbers = int, float, np.integer, np.floating
    if isinstance(alpha, bool) or not isinstance(alpha, numbers):
        raise TypeError(f"alpha must be a real number, got {alpha!r}")
    alpha = float(alpha)
    if not 1 <= alpha <= 2:
        raise ValueError(f"alpha must lie in [1, 2], got {alpha}")
    if alpha == 1:
        return EXP
    return Entmax(alpha)


def resolve(curve: str | Curve) -> Curve:
    """The curve that a name stands for; a `Curve` stands for itself.

    Raises
    ------
    TypeError, ValueError
        If `curve` is neither, or is not a known name.
    """
    if isinstance(curve, Curve):
        return curve
    if not isinstance(curve, str):
        raise TypeError(f"curve must be a name or a Curve, got {curve!r}")
    if curve not in NAMED:
        known = ", ".join(map(repr, NAMED))
        raise ValueError(f"curve must be one of {known} or a Curve, got {curve!r}")
    return NAMED[curve]


def _folded(t: Any, p: Any) -> tuple[Any, Any, Any, Any]:
    """The namespace, t, p and max(t, 0), reflected so that p <= 1/2.

    For a curve that is symmetric about (0, 1/2), the gap at (-t, 1 - p) is that at
    (t, p).  With p <= 1/2 it is the gap at min(t, 0), plus the integral of f - p from 0
    to t if t > 0.
    """
    xp, t = floats(t, "t")
    _, p = checked_shares(p)
    t, p = xp.where(p > 0.5, -t, t), xp.where(p > 0.5, 1 - p, p)
    return xp, t, p, clip(xp, t, 0, None)


def _power_gap(curve: Curve, b: float, t: Any, p: Any, alpha: float = 1.0) -> Any:
    r"""The gap of entmax curves, and of ``exp`` as their limit b = 0.

    With v, t within the support, q = f(v) and the inverse g of f it is
    :math:`[p(g(p)-g(q))-(p-q)q^b]/\alpha+(t-v)(q-p)`.
    """
    xp, t = floats(t, "t")
    _, p = checked_shares(p)
    v = clip(xp, t, *curve.support)
    q, power = curve.value(v), 1 + b * v
    excess = p - q
    close = abs(excess) < 0.5 * q
    log_ratio = xp.log1p(xp.where(close, excess, 0) / xp.where(close, q, 1))
    rise_if_close = power * xp.expm1(b * log_ratio) / b if b else log_ratio
    rise_if_not = curve.inverse(xp.where(p > 0, p, 1)) - v
    rise = xp.where(close, rise_if_close, rise_if_not)
    part = xp.where(p > 0, p * rise, 0)
    if b < 0:  # the inverse of a tiny share may overflow, and p^alpha does not
        part = xp.where(close, part, (p**alpha - p) / b - p * v)
    bregman = part - excess * power
    return bregman / alpha - (t - v) * excess
