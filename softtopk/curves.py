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

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._rows import WHOLE, Array, as_real, row_dot

__all__ = [
    "CLIP",
    "EXP",
    "LAPLACE",
    "SIGMOID",
    "TRIANGULAR",
    "Curve",
    "Entmax",
    "entmax",
    "resolve",
]

# exp of a larger argument, or products of a few of them, would leave the range.
_REACH = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 80.0}

_SHORT = 2047  # entries that are cheaper to sort than to pass over a few times

# One number for each line, or one number.
Moments = tuple[Any, Any, Any, Any]

# Two arrays to work in, of the shape of the rows; they cost less than new ones.
Room = tuple[Array, Array]


class Curve:
    r"""A curve f; subclass it and define `value` and `slope` to make your own.

    `value` must be continuous and nondecreasing with limits 0 and 1, also at
    ``t = +-inf``; its slope may jump or vanish.  Everything else has a default:
    `complement` (define it if :math:`1-f` can be small where f is not exactly 1),
    `inverse` (by bisection), `slope_of_p`, and `regulariser` from `potential`.
    Only `potential` has none.

    Attributes
    ----------
    name : str
        What error messages and `repr` call it.
    support : (float, float)
        Where f reaches 0 and 1: f = 0 up to the first number and f = 1 from the
        second one on; infinite where a limit is not reached.
    origin : float
        Where the solver counts offsets from.  At the end of the support where f
        reaches 0, small shares keep their digits.
    noise : (float, float) or None
        Mean and standard deviation of the law with cdf 1 - f(-t), if known.  The
        solver then starts near the threshold.

    Examples
    --------
    The normal distribution function has no closed threshold; no matter:

    >>> import math, numpy as np, softtopk as stk
    >>> class Gauss(stk.curves.Curve):
    ...     name = "gauss"
    ...     def value(self, t):
    ...         return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))
    ...     def complement(self, t):
    ...         return self.value(-np.asarray(t))
    ...     def slope(self, t):
    ...         return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)
    >>> stk.soft_topk([2.0, 1.0, 0.0, -1.0], 2, Gauss()).round(4).tolist()
    [0.9332, 0.6915, 0.3085, 0.0668]
    """

    name: str = "user"
    support: tuple[float, float] = (-math.inf, math.inf)
    origin: float = 0.0
    noise: tuple[float, float] | None = None

    def value(self, t: ArrayLike) -> Array:
        """f(t)."""
        raise NotImplementedError(f"{self!r} must define value(t)")

    def slope(self, t: ArrayLike) -> Array:
        """f'(t); at a kink one of the two slopes."""
        raise NotImplementedError(f"{self!r} must define slope(t)")

    def complement(self, t: ArrayLike) -> Array:
        """1 - f(t), without cancellation where the curve defines it."""
        return 1 - self.value(t)

    def log_slope(self, t: ArrayLike) -> Array:
        """log f'(t), also where f' underflows if the curve defines it."""
        with np.errstate(divide="ignore"):
            return np.log(self.slope(t))

    def inverse(self, p: ArrayLike) -> Array:
        """A t with f(t) = p; the ends of `support` at p = 0 and p = 1.

        Raises
        ------
        ValueError
            If an entry of p lies outside [0, 1].
        """
        return _bisect(self, _as_share(p))

    def slope_of_p(self, p: ArrayLike) -> Array:
        """f' as a function of p = f(t)."""
        return self.slope(self.inverse(p))

    def potential(self, t: ArrayLike) -> Array:
        r"""F(t), the integral of f from :math:`-\infty` to t."""
        raise NotImplementedError(f"{self!r} does not define potential(t)")

    def regulariser(self, p: ArrayLike) -> Array:
        r""":math:`\varphi(p)`, the integral of the inverse from 0 to p."""
        t = self.inverse(p)
        finite = np.clip(t, -_REACH[t.dtype], _REACH[t.dtype])
        return as_real(p, "p") * finite - self.potential(finite)

    def reflected(self) -> Curve:
        """The dual curve 1 - f(-t): it selects from -x what f does not from x."""
        return _Reflected(self)

    def scaled(self, c: float) -> Curve:
        """f(c t) for c > 0, the curve at temperature 1/c."""
        return _Affine(self, _number(c), 0.0)

    def shifted(self, c: float) -> Curve:
        """f(t - c), which moves the threshold by -c and selects the same."""
        return _Affine(self, 1.0, -_number(c))

    def __repr__(self) -> str:
        return f"<curve {self.name}>"

    # What the solver asks.  The lines of d hold (x - anchor) / temperature, and t
    # stands for the sought offset in the same units, p = f(d - offset(t)): one for each
    # line, or one number for all.

    # Whether, counted from the k-th score, t >= 0 and what an entry up to that score
    # adds to the moments is fixed.
    monotone: ClassVar[bool] = False
    # Whether any number near the threshold serves as the anchor.
    free: ClassVar[bool] = False
    tolerance: ClassVar[dict[np.dtype[np.floating], float]] = {
        np.dtype(np.float64): 2.0**-49,
        np.dtype(np.float32): 2.0**-20,
    }

    def anchor(self, upper: Any, lower: Any) -> Any:
        """A number near the threshold, from the scores before and after the gap.

        A curve that reaches 1 but not 0 keeps it just above the K-th score, one that
        reaches 0 but not 1 just below the J-th; else it lies between them.
        """
        zero, one = map(math.isfinite, self.support)
        if one and not zero:
            return upper
        if zero and not one:
            return lower
        return 0.5 * upper + 0.5 * lower

    def place(self, offset: Any) -> Any:
        """The t of an offset."""
        return offset + self.origin

    def offset(self, t: Any) -> Any:
        """The offset that t stands for, which grows with it."""
        return t - self.origin

    def prepare(self, d: Array) -> Array:
        """What to keep of d for all evaluations; may overwrite it."""
        return d

    def start(self, d: Array, k: Any, t: Any) -> Any:
        """The t to begin with, from one that centres the support on the k-th score."""
        if self.noise is None:
            return t
        quantile = self._quantile(k, d.shape[-1])
        step = self.centre + matched(d, quantile, *self.noise)[0]
        return self.place(self.offset(t) + step)

    @property
    def centre(self) -> float:
        """The middle of the support, or its only end, or 0."""
        low, high = self.support
        if math.isfinite(low) and math.isfinite(high):
            return 0.5 * low + 0.5 * high
        end = high if math.isfinite(high) else low
        return end if math.isfinite(end) else 0.0

    def _quantile(self, k: Any, n: int) -> Any:
        """The (1 - k/n)-quantile of the noise."""
        return -self.inverse(k / n)

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        """Sums over each row of v = prepare(d): (m, P, C, W).

        m counts the entries nearer to 1 than to 0, P sums the shares of the others,
        C sums what those m lack to 1, and W sums the slopes.  So the shares sum to
        ``m + P - C``, and no information is lost where nearly all of them are 0 or 1.
        """
        u = self._distance(v, t)
        p, q = self.value(u), self.complement(u)
        high = (p > q).astype(v.dtype)
        low = 1 - high
        W = self.slope(u).sum(axis=-1)
        return row_dot(high, high), row_dot(p, low), row_dot(q, high), W

    # Whether a step of `advance` is exact while m does not change, and whether a last
    # step asks for a look at m, since the slope may jump where m changes.
    exact: ClassVar[bool] = False
    counted: ClassVar[bool] = False

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        """Masks of the entries that m counts."""
        raise NotImplementedError

    def advance(self, t: Any, moments: Moments, k: Any) -> tuple[Any, Any]:
        """The excess of the shares over k, and the next t: here Newton's."""
        m, P, C, W = moments
        excess = P - C - (k - m)
        noise = 2 * np.finfo(np.asarray(P).dtype).eps * (P + C)
        excess = np.where(np.abs(excess) > noise, excess, 0)
        return excess, t + np.where(excess == 0, 0, excess / W)

    def select(self, v: Array, t: Any, work: Room) -> Array:
        """p = f(d - offset(t)) from v = prepare(d); may overwrite it."""
        return self.value(self._distance(v, t))

    def _distance(self, d: Array, t: Any) -> Array:
        u = d - column(t, d)
        u += d.dtype.type(self.origin)
        return u


class _Exp(Curve):
    name = "exp"
    support = (-math.inf, 0.0)

    def value(self, t: ArrayLike) -> Array:
        return np.exp(np.minimum(as_real(t, "t"), 0))

    def complement(self, t: ArrayLike) -> Array:
        return -np.expm1(np.minimum(as_real(t, "t"), 0))

    def slope(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return np.exp(np.minimum(t, 0)) * (t <= 0)

    def log_slope(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return np.where(t <= 0, t, -np.inf)

    def inverse(self, p: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(_as_share(p))

    def slope_of_p(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return p * (p < 1)

    def potential(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return np.exp(np.minimum(t, 0)) + np.maximum(t, 0)

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return _xlogx(p) - p

    # With E = e^d and u = e^(-t), the excess m + u S - k (m saturated entries, S the
    # sum of E over the others) is concave in u, and (k - m) / S never exceeds the
    # root: Newton's steps in u rise to it and stop when m repeats.  Counted from
    # the K-th largest score, t >= 0 and only what exceeds it can saturate.  Counted
    # from elsewhere, t may be so low that m >= k: then the step is no number, and the
    # solver takes the bracket.

    monotone = True
    free = True
    exact = True
    # A step is 0 once m repeats, and one that is not may leave more than its size.
    tolerance: ClassVar[dict[np.dtype[np.floating], float]] = {
        np.dtype(np.float64): 2.0**-52,
        np.dtype(np.float32): 2.0**-23,
    }
    noise = (1.0, 1.0)

    def prepare(self, d: Array) -> Array:
        return _exp(d)

    def start(self, d: Array, k: Any, t: Any) -> Any:
        if d.ndim > 1 or len(d) > _SHORT:
            n = d.shape[-1]
            t, deviation = matched(d, np.log(n / k), *self.noise)
            # Where scores lie far apart, at a distance of about 2.5 deviations / n,
            # little of the noise's mean is left.
            return np.fmax(t / (1 + 2.5 * deviation / n), 0)
        # The root in u itself, the greatest (k - m) / S over m < k; S holds the
        # anchor's 1, and may be infinite for other m.
        S = np.add.accumulate(np.exp(np.sort(d)), dtype=np.float64)[::-1]
        m = np.arange(math.ceil(k))
        u = np.maximum.reduce((k - m) / S[: len(m)])
        return -np.log(min(u, 1.0))

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        return (v > column(np.exp(t), v),)

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        low = np.less_equal(v, column(np.exp(t), v), out=work[0])
        S = row_dot(v, low)
        return v.shape[-1] - row_dot(low, low, WHOLE), S, S, S

    def advance(self, t: Any, moments: Moments, k: Any) -> tuple[Any, Any]:
        m, S, _, _ = moments
        return m - k + S * np.exp(-t), np.log(S / (k - m))

    def select(self, v: Array, t: Any, work: Room) -> Array:
        v *= column(np.exp(-t), v)
        return v.clip(0, 1, out=v)


class _TwoSided(Curve):
    """A curve with f(-t) = 1 - f(t) that is rational in e^t."""

    free = True

    def complement(self, t: ArrayLike) -> Array:
        return self.value(-as_real(t, "t"))

    def prepare(self, d: Array) -> Array:
        return _exp(d)

    def advance(self, t: Any, moments: Moments, k: Any) -> tuple[Any, Any]:
        """The step of the model ``m + P y - C / y = k``, ``y = e^(-g (t' - t))``.

        It has the right value and, with ``g = W / (P + C)``, the right slope; it is
        exact where the tails are exponential, far from 0 or with one slope between.
        """
        m, P, C, W = moments
        D = k - m
        root = abs(D) + np.hypot(D, 2 * np.sqrt(P) * np.sqrt(C))
        if isinstance(D, np.ndarray):
            y = np.where(D >= 0, root / (2 * P), 2 * C / root)
        else:  # np.where would take as long as a pass over a short row
            y = root / (2 * P) if D >= 0 else 2 * C / root
        return P - C - D, t - np.log(y) * (P + C) / W


class _Laplace(_TwoSided):
    name = "laplace"
    exact = True
    noise = (0.0, math.sqrt(2))

    def _quantile(self, k: Any, n: int) -> Any:
        return np.copysign(np.log(0.5 * n / np.minimum(k, n - k)), 0.5 * n - k)

    def value(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        q = 0.5 * np.exp(-np.abs(t))
        return np.where(t < 0, q, 1 - q)

    def slope(self, t: ArrayLike) -> Array:
        return 0.5 * np.exp(-np.abs(as_real(t, "t")))

    def log_slope(self, t: ArrayLike) -> Array:
        return -np.abs(as_real(t, "t")) - math.log(2)

    def inverse(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        with np.errstate(divide="ignore"):
            return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))

    def slope_of_p(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return np.minimum(p, 1 - p)

    def potential(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return np.maximum(t, 0) + 0.5 * np.exp(-np.abs(t))

    def regulariser(self, p: ArrayLike) -> Array:
        q = self.slope_of_p(p)
        return 0.5 * _xlogx(2 * q) - q

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        s = np.exp(t)
        side, inverse = work
        np.less(v, column(s, v), out=side)
        P = row_dot(v, side) / (2 * s)
        np.subtract(1, side, out=side)
        C = row_dot(np.divide(1, v, out=inverse), side) * (s / 2)
        return row_dot(side, side, WHOLE), P, C, P + C

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        return (v >= column(np.exp(t), v),)

    def select(self, v: Array, t: Any, work: Room) -> Array:
        half = column(0.5 * np.exp(-t), v)
        upper = column(0.5 * np.exp(t), v)
        upper = np.divide(upper, v, out=work[0])
        np.subtract(1, upper, out=upper)
        upper.clip(0.5, 1, out=upper)
        v *= half
        return np.minimum(v, upper, out=v)


class _Sigmoid(_TwoSided):
    name = "sigmoid"
    noise = (0.0, math.pi / math.sqrt(3))
    # The model of `advance` is of third order here: the step after one of this size
    # is below the last bit.
    tolerance: ClassVar[dict[np.dtype[np.floating], float]] = {
        np.dtype(np.float64): 5e-9,
        np.dtype(np.float32): 4e-4,
    }

    def _quantile(self, k: Any, n: int) -> Any:
        return np.log((n - k) / k)

    def value(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        q = np.exp(-np.abs(t))
        return np.where(t < 0, q, 1) / (1 + q)

    def slope(self, t: ArrayLike) -> Array:
        q = np.exp(-np.abs(as_real(t, "t")))
        return q / np.square(1 + q)

    def log_slope(self, t: ArrayLike) -> Array:
        size = np.abs(as_real(t, "t"))
        return -size - 2 * np.log1p(np.exp(-size))

    def inverse(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        with np.errstate(divide="ignore"):
            return np.log(p) - np.log1p(-p)

    def slope_of_p(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return p * (1 - p)

    def potential(self, t: ArrayLike) -> Array:
        return np.logaddexp(0, as_real(t, "t"))

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return _xlogx(p) + _xlogx(1 - p)

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        s = column(np.exp(t), v)
        q, side = work
        _least(v, s, q)
        q /= np.add(v, s, out=side)
        np.greater_equal(v, s, out=side)
        C, m = row_dot(q, side), row_dot(side, side, WHOLE)
        np.subtract(1, side, out=side)
        P = row_dot(q, side)
        return m, P, C, P + C - row_dot(q, q, WHOLE)

    def select(self, v: Array, t: Any, work: Room) -> Array:
        # 1 / (1 + s / v) is monotone in v after rounding; v / (v + s) is not.
        p = np.divide(column(np.exp(t), v), v, out=v)
        p += 1
        return np.divide(1, p, out=p)


class _Clip(Curve):
    name = "clip"
    support = (0.0, 1.0)
    free = True
    counted = True
    exact = True
    noise = (-0.5, 1 / math.sqrt(12))

    def value(self, t: ArrayLike) -> Array:
        return np.clip(as_real(t, "t"), 0, 1)

    def complement(self, t: ArrayLike) -> Array:
        return np.clip(1 - as_real(t, "t"), 0, 1)

    def slope(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return ((t > 0) & (t < 1)).astype(t.dtype)

    def inverse(self, p: ArrayLike) -> Array:
        return _as_share(p) + 0

    def slope_of_p(self, p: ArrayLike) -> Array:
        return self.slope(_as_share(p))

    def potential(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return 0.5 * np.square(np.clip(t, 0, 1)) + np.maximum(t - 1, 0)

    def regulariser(self, p: ArrayLike) -> Array:
        return 0.5 * np.square(_as_share(p))

    def _quantile(self, k: Any, n: int) -> Any:
        return -k / n

    # Between two breakpoints the excess is linear in t.  m counts the entries past
    # either end of the slope; P sums the shares below 1, and the ones stand for C.

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        share, bound = work
        np.subtract(v, column(t, v), out=share)
        share.clip(0, 1, out=share)
        np.floor(share, out=bound)
        ones = row_dot(bound, bound, WHOLE)
        share -= bound
        P = np.add.reduce(share, axis=-1)
        np.ceil(share, out=bound)
        W = row_dot(bound, bound, WHOLE)
        return W + 2 * ones, P, ones, W

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        share = np.subtract(v, column(t, v), out=work[0])
        return share > 0, share >= 1

    def advance(self, t: Any, moments: Moments, k: Any) -> tuple[Any, Any]:
        _, P, ones, W = moments
        excess = P - (k - ones)
        return excess, t + excess / W

    def select(self, v: Array, t: Any, work: Room) -> Array:
        v -= column(t, v)
        return v.clip(0, 1, out=v)


class _Triangular(Curve):
    name = "triangular"
    support = (-1.0, 1.0)
    origin = -1.0
    noise = (0.0, 1 / math.sqrt(6))

    def value(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        q = self.complement(np.abs(t))
        return np.where(t < 0, q, 1 - q)

    def complement(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        q = 0.5 * np.square(np.maximum(1 - np.abs(t), 0))
        return np.where(t < 0, 1 - q, q)

    def slope(self, t: ArrayLike) -> Array:
        return np.maximum(1 - np.abs(as_real(t, "t")), 0)

    def inverse(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return np.copysign(1 - self.slope_of_p(p), p - 0.5)

    def slope_of_p(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return np.sqrt(2 * np.minimum(p, 1 - p))

    def potential(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        return self.slope(t) ** 3 / 6 + np.maximum(t, 0)

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        q = np.minimum(p, 1 - p)
        return q * (np.sqrt(8 * q) / 3 - 1)

    # With z = t + 1, f is z^2 / 2 up to z = 1 and 1 - (2 - z)^2 / 2 from there.

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        z = np.subtract(v, column(t, v), out=work[0])
        high = np.greater(z, 1, out=work[1])
        slope = np.maximum(np.minimum(z, 2 - z), 0)
        q = 0.5 * np.square(slope)
        P, C = row_dot(q, 1 - high), row_dot(q, high)
        return row_dot(high, high, WHOLE), P, C, slope.sum(axis=-1)

    def select(self, v: Array, t: Any, work: Room) -> Array:
        v -= column(t, v)
        upper = 1 - 0.5 * np.square(np.clip(2 - v, 0, 1))
        return np.minimum(0.5 * np.square(np.maximum(v, 0)), upper)


class Entmax(Curve):
    r"""The curve :math:`\min(1,[1+(\alpha-1)t]_+^{1/(\alpha-1)})`; see `entmax`."""

    free = True
    counted = True

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.name = f"entmax({alpha:g})"
        self._b = b = alpha - 1
        self.support = (-1 / b, 0.0)
        self.origin = self.support[0]
        self.noise = (1 / alpha, 1 / (alpha * math.sqrt(1 + 2 * b)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entmax) and other.alpha == self.alpha

    def __hash__(self) -> int:
        return hash((Entmax, self.alpha))

    def _raised(self, t: ArrayLike, exponent: float) -> Array:
        """[1 + b t]_+ ** exponent, at most 1."""
        z = np.clip(self._b * as_real(t, "t"), -1, 0)
        if self._b >= 0.5:
            return _power(1 + z, exponent)
        # 1 + b t would lose the digits that a large exponent needs.
        with np.errstate(divide="ignore"):
            return np.exp(exponent * np.log1p(z))

    def value(self, t: ArrayLike) -> Array:
        return self._raised(t, 1 / self._b)

    def complement(self, t: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            log = np.log1p(np.clip(self._b * as_real(t, "t"), -1, 0)) / self._b
        return -np.expm1(log)

    def slope(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        inner = (t > self.support[0]) & (t <= 0)
        return np.where(inner, self._raised(t, 1 / self._b - 1), 0)

    def inverse(self, p: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            return np.expm1(self._b * np.log(_as_share(p))) / self._b

    def slope_of_p(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return np.where((p > 0) & (p < 1), _power(p, 1 - self._b), 0)

    def potential(self, t: ArrayLike) -> Array:
        rest = np.maximum(as_real(t, "t"), 0)
        return self._raised(t, 1 / self._b + 1) / self.alpha + rest

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return p * (self.inverse(p) - 1) / self.alpha

    # With b = alpha - 1, the b-th power of the unsaturated sum is nearly linear in t
    # (linear for b = 1 and, in the limit b = 0, after taking logarithms).

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        base, low = self._base(v, t, work[0]), work[1]
        np.less_equal(base, 1, out=low)
        base.clip(0, 1, out=base)
        p = _power(base, 1 / self._b)
        if self._b == 0.5:
            W = row_dot(base, low)
        else:
            W = row_dot(np.divide(p, base, out=base, where=base > 0), low)
        S = row_dot(p, low)
        return v.shape[-1] - row_dot(low, low, WHOLE), S, S, W

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        return (self._base(v, t, work[0]) > 1,)

    def advance(self, t: Any, moments: Moments, k: Any) -> tuple[Any, Any]:
        m, S, _, W = moments
        gap = -np.expm1(self._b * np.log((k - m) / S)) / self._b
        # Shares that vanish in rounding only do not make a plateau.
        tiny = np.finfo(np.float64).tiny
        return m - k + np.maximum(S, tiny), self._moved(t, gap * S / W)

    def _moved(self, t: Any, step: Any) -> Any:
        """The t after a step."""
        return t + step

    def select(self, v: Array, t: Any, work: Room) -> Array:
        base = self._base(v, t, v)
        return _power(base.clip(0, 1, out=base), 1 / self._b)

    def _base(self, d: Array, t: Any, out: Array) -> Array:
        """1 + b (d - offset) before it is held within [0, 1]."""
        base = np.subtract(d, column(t, d), out=out)
        base *= self._b
        return base


class _FlatEntmax(Entmax):
    """Entmax with alpha < 3/2, whose slope starts flat.

    A high power of 1 + b (d - offset) would multiply its rounding.  With
    ``e^(-b t) = 1 - b offset``, so that ``e^(-t)`` is the anchor's own share unless it
    exceeds 1, ``p = e^(log1p(b e^(b t) d) / b - t)``.  The anchor is the K-th score,
    whose share is not small: t is, and its rounding goes into every share.
    """

    def anchor(self, upper: Any, lower: Any) -> Any:
        return upper

    def place(self, offset: Any) -> Any:
        least = self._b * offset < 1 - 2.0**-50  # above it rounding takes the digits
        t = -np.log1p(-np.where(least, self._b * offset, 0)) / self._b
        return np.where(least, t, 750.0)[()]  # a share of less than any number

    def offset(self, t: Any) -> Any:
        return -np.expm1(-self._b * t) / self._b

    def moments(self, v: Array, t: Any, work: Room) -> Moments:
        y, low = self._ratio(v, t, work[0]), work[1]
        p = self._logarithm(y, t)
        np.less_equal(p, 0, out=low)
        np.exp(p.clip(-np.inf, 0, out=p), out=p)
        S = row_dot(p, low)
        y += 1
        W = row_dot(np.divide(p, y, out=y, where=y > 0), low)
        return v.shape[-1] - row_dot(low, low, WHOLE), S, S, W

    def past(self, v: Array, t: Any, work: Room) -> tuple[Array, ...]:
        return (self._logarithm(self._ratio(v, t, work[0]), t) > 0,)

    def _moved(self, t: Any, step: Any) -> Any:
        return t - np.log1p(-self._b * step) / self._b

    def select(self, v: Array, t: Any, work: Room) -> Array:
        p = self._logarithm(self._ratio(v, t, v), t)
        return np.exp(p.clip(-np.inf, 0, out=p), out=p)

    def _ratio(self, d: Array, t: Any, out: Array) -> Array:
        """b e^(b t) d, at least -1."""
        y = np.multiply(d, column(self._b * np.exp(self._b * t), d), out=out)
        return y.clip(-1, np.inf, out=y)

    def _logarithm(self, y: Array, t: Any) -> Array:
        """log p where p does not exceed 1."""
        p = np.log1p(y)
        p /= self._b
        p -= column(t, y)
        return p


class _Reflected(Curve):
    def __init__(self, base: Curve) -> None:
        self._base = base
        self.name = f"{base.name}.reflected()"
        low, high = base.support
        self.support = (-high, -low)

    def value(self, t: ArrayLike) -> Array:
        return self._base.complement(-as_real(t, "t"))

    def complement(self, t: ArrayLike) -> Array:
        return self._base.value(-as_real(t, "t"))

    def slope(self, t: ArrayLike) -> Array:
        return self._base.slope(-as_real(t, "t"))

    def log_slope(self, t: ArrayLike) -> Array:
        return self._base.log_slope(-as_real(t, "t"))

    def inverse(self, p: ArrayLike) -> Array:
        return -self._base.inverse(1 - _as_share(p))

    def slope_of_p(self, p: ArrayLike) -> Array:
        return self._base.slope_of_p(1 - _as_share(p))

    def potential(self, t: ArrayLike) -> Array:
        t = as_real(t, "t")
        inner = np.maximum(t, self.support[0] if self.support[0] > -np.inf else -1e300)
        whole = self._base.regulariser(t.dtype.type(1))
        return np.maximum(self._base.potential(-inner) + inner + whole, 0)

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        whole = self._base.regulariser(p.dtype.type(1))
        return self._base.regulariser(1 - p) - whole

    def reflected(self) -> Curve:
        return self._base


def _number(c: float) -> float:
    """The argument of `scaled` and `shifted` as a Python float."""
    value = np.asarray(c)
    if value.ndim or value.dtype.kind not in "iuf":
        raise TypeError(f"c must be one real number, got {c!r}")
    return float(value)


class _Affine(Curve):
    """f(c t + s)."""

    def __init__(self, base: Curve, c: float, s: float) -> None:
        if not 0 < c < math.inf:
            raise ValueError(f"c must be finite and above 0, got {c}")
        if not math.isfinite(s):
            raise ValueError(f"c must be finite, got {-s}")
        self._base, self._c, self._s = base, c, s
        self.name = f"{base.name}({c:g} t + {s:g})"
        low, high = base.support
        self.support = ((low - s) / c, (high - s) / c)

    def _inner(self, t: ArrayLike) -> Array:
        with np.errstate(over="ignore"):
            return self._c * as_real(t, "t") + self._s

    def value(self, t: ArrayLike) -> Array:
        return self._base.value(self._inner(t))

    def complement(self, t: ArrayLike) -> Array:
        return self._base.complement(self._inner(t))

    def slope(self, t: ArrayLike) -> Array:
        return self._c * self._base.slope(self._inner(t))

    def log_slope(self, t: ArrayLike) -> Array:
        return math.log(self._c) + self._base.log_slope(self._inner(t))

    def inverse(self, p: ArrayLike) -> Array:
        return (self._base.inverse(p) - self._s) / self._c

    def slope_of_p(self, p: ArrayLike) -> Array:
        return self._c * self._base.slope_of_p(p)

    def potential(self, t: ArrayLike) -> Array:
        return self._base.potential(self._inner(t)) / self._c

    def regulariser(self, p: ArrayLike) -> Array:
        p = _as_share(p)
        return (self._base.regulariser(p) - self._s * p) / self._c


EXP: Curve = _Exp()
LAPLACE: Curve = _Laplace()
SIGMOID: Curve = _Sigmoid()
CLIP: Curve = _Clip()
TRIANGULAR: Curve = _Triangular()

_NAMED = {c.name: c for c in (EXP, LAPLACE, SIGMOID, CLIP, TRIANGULAR)}


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
    if isinstance(alpha, bool) or not isinstance(
        alpha, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"alpha must be a real number, got {alpha!r}")
    alpha = float(alpha)
    if not 1 <= alpha <= 2:
        raise ValueError(f"alpha must lie in [1, 2], got {alpha}")
    if alpha == 1:
        return EXP
    return Entmax(alpha) if alpha >= 1.5 else _FlatEntmax(alpha)


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
    if curve not in _NAMED:
        known = ", ".join(map(repr, _NAMED))
        raise ValueError(f"curve must be one of {known} or a Curve, got {curve!r}")
    return _NAMED[curve]


def _as_share(p: ArrayLike) -> Array:
    """p as an array within [0, 1]."""
    p = as_real(p, "p")
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"p must lie in [0, 1], got {p[~((p >= 0) & (p <= 1))][0]}")
    return p


def _xlogx(p: Array) -> Array:
    return p * np.log(np.maximum(p, np.finfo(p.dtype).tiny))


def column(t: Any, v: Array) -> Any:
    """t, of the type of v, to calculate with each row of it.

    A mere number stays one: an array of one takes NumPy twice the time.
    """
    if isinstance(t, np.ndarray):
        return t[..., None].astype(v.dtype, copy=False)
    return v.dtype.type(t)


def _least(v: Array, bound: Any, out: Array) -> Array:
    """np.minimum of positive values and a bound, or one for each line."""
    # NumPy's minimum of an array and a mere number takes up to four times as long.
    if isinstance(bound, np.ndarray):
        return np.minimum(v, bound, out=out)
    return v.clip(0, bound, out=out)


def matched(d: Array, quantile: Any, mean: float, spread: float) -> tuple[Any, Any]:
    r"""An offset from the k-th score, near that of the threshold, and the deviation.

    The threshold is the (1 - k/n)-quantile of a random score plus noise with the
    cdf 1 - f(-t), whose own quantile, mean and deviation are given.  Were the scores,
    the noise and their sum laws of one shape, the threshold would lie ``mean +
    (quantile - mean) * (hypot(1, r) - r)`` above the k-th score, with r the
    deviation of the scores over that of the noise.  *selection/threshold*.
    """
    n = d.shape[-1]
    centre = np.add.reduce(d, axis=-1) / n
    deviation = np.sqrt(np.maximum(row_dot(d, d, WHOLE) / n - centre * centre, 0))
    r = deviation / spread
    # Infinite scores make r NaN or infinite: then the k-th score is all we know.
    return mean + (quantile - mean) * np.fmax(1 / (r + np.hypot(r, 1)), 0), deviation


def _exp(d: Array) -> Array:
    """e^d in place, held within the range."""
    reach = _REACH[d.dtype]
    return np.exp(d.clip(-reach, reach, out=d), out=d)


def _power(base: Array, exponent: float) -> Array:
    """base ** exponent for base in [0, 1]."""
    if exponent == 2:
        return np.square(base)
    return np.power(base, exponent)


def _bisect(curve: Curve, p: Array) -> Array:
    """The inverse of a curve from its values, doubling a bracket and halving it."""
    inner = np.where((p > 0) & (p < 1), p, 0.5).astype(np.float64)
    low, high = np.full(p.shape, -1.0), np.full(p.shape, 1.0)
    for _ in range(1000):
        short, long = curve.value(low) > inner, curve.value(high) < inner
        if not (short.any() or long.any()):
            break
        low, high = np.where(short, 2 * low, low), np.where(long, 2 * high, high)
    for _ in range(1100):
        middle = 0.5 * low + 0.5 * high
        if np.all((middle == low) | (middle == high)):
            break
        below = curve.value(middle) < inner
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    least, most = curve.support
    t = np.where(p <= 0, least, np.where(p >= 1, most, high))
    return t.astype(p.dtype)
