r"""Quick sums of the named curves: what NumPy can do without the curve in each pass.

A scheme keeps of the distances :math:`d=(x-a)/\tau` what makes a pass cheap, often
:math:`V=e^d`, from which the shares at any offset are rational.  t stands for the
sought offset, :math:`p=f(d-\mathrm{offset}(t))`; most schemes take the offset itself.

A scheme has the moments of its rows at t, as `root.sums` defines them, and from them
the next t.  `numpy` searches with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._namespace import choose
from .._rows import WHOLE, Array, row_dot, row_sum
from ..curves import CLIP, EXP, LAPLACE, SIGMOID, TRIANGULAR, Curve, Entmax

# m, P, C and W (and P for S): one number for each row, or one number.
Moments = tuple[Any, Any, Any, Any]

# exp of a larger argument, or products of a few of them, would leave the range.
_REACH = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 80.0}

_SHORT = 2047  # entries that are cheaper to sort than to pass over a few times


class Scheme:
    """How one curve is summed; it owns the memory that the sums work in.

    Attributes
    ----------
    edge : bool
        Whether t stands for where shares start, so that an anchor there serves them.
    free : bool
        Whether any number near the threshold serves as the anchor.
    exact : bool
        Whether a step is exact while m does not change.
    light : bool
        Whether its moments cost no more than a count, for many rows.
    counted : bool
        Whether a small step may leave much, since the slope jumps where m changes.
    tolerance : (float, float)
        The step that is the last one, in float64 and in float32.
    """

    edge = False
    free = True
    exact = False
    light = False
    counted = False
    tolerance = (2.0**-49, 2.0**-20)
    origin = 0.0  # where t is counted from

    def __init__(self, curve: Curve, size: int, dtype: Any) -> None:
        self.curve = curve
        self.tiny = self.tolerance[dtype == np.float32]
        self._memory = np.empty((2, size), dtype)
        self._room = tuple(self._memory)

    def room(self, part: Array) -> tuple[Array, ...]:
        """Two arrays like part; they cost less than new ones."""
        if self._room[0].shape != part.shape:
            self._room = tuple(self._memory[:, : part.size].reshape(2, *part.shape))
        return self._room

    def anchor(self, upper: Any, lower: Any) -> Any:
        """A number near the threshold, from the scores before and after the gap."""
        # Half of the least number is 0.
        return np.minimum(np.maximum(0.5 * upper + 0.5 * lower, lower), upper)

    def place(self, offset: Any) -> Any:
        """The t of an offset."""
        return offset + self.origin

    def offset(self, t: Any) -> Any:
        """The offset that t stands for, which grows with it."""
        return t - self.origin

    def prepare(self, d: Array) -> Array:
        """What to keep of d for all passes, in its place."""
        return d

    def quantile(self, k: Any, n: int) -> Any:
        """The (1 - k/n)-quantile of the curve's noise."""
        return -self.curve.inverse(k / n)

    def start(self, d: Array, k: Any, t: Any) -> Any:
        """The t to begin with, from one that centres the support on the k-th score."""
        mean, spread = self.curve.noise or (0.0, 1.0)
        move = matched(d, self.quantile(k, d.shape[-1]), mean, spread)
        return self.place(self.offset(t) + self.curve.centre + move)

    def moments(self, v: Array, t: Any) -> Moments:
        """m, P, C and W of v = prepare(d)."""
        raise NotImplementedError

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        """Masks of the entries that m counts, of an exact or counted scheme."""
        raise NotImplementedError

    def advance(self, t: Any, k: Any, moments: Moments) -> tuple[Any, Any]:
        """The excess of the shares over k, and the next t."""
        m, P, C, W = moments
        excess = P - C - (k - m)
        return excess, t + self.curve.step(excess, P, C, W, P)

    def select(self, v: Array, t: Any) -> None:
        """Put p = f(d - offset(t)) in the place of v = prepare(d)."""
        raise NotImplementedError


class _Exp(Scheme):
    # With u = e^-t the excess m + u S - k (m saturated entries, S the sum of V over the
    # others) is concave in u, and (k - m) / S never exceeds the root: Newton's steps in
    # u rise to it and stop when m repeats.  Counted from elsewhere than the K-th score,
    # t may be so low that m >= k: then the step is no number, and the search halves.
    exact = True
    light = True
    # A step is 0 once m repeats, and one that is not may leave more than its size.
    tolerance = (2.0**-52, 2.0**-23)

    def anchor(self, upper: Any, lower: Any) -> Any:
        return upper

    def prepare(self, d: Array) -> Array:
        return _exp(d)

    def start(self, d: Array, k: Any, t: Any) -> Any:
        if d.ndim > 1 or len(d) > _SHORT:
            n = d.shape[-1]
            return np.fmax(matched(d, np.log(n / k), 1.0, 1.0), 0)
        # The root in u itself, the greatest (k - m) / S over m < k; S holds the
        # anchor's 1, and may be infinite for other m.
        S = np.add.accumulate(np.exp(np.sort(d)))[::-1]
        m = np.arange(math.ceil(k))
        u = np.maximum.reduce((k - m) / S[: len(m)])
        return -np.log(u)

    def moments(self, v: Array, t: Any) -> Moments:
        low = np.less_equal(v, column(np.exp(t), v), out=self.room(v)[0])
        S = row_dot(v, low)
        return v.shape[-1] - row_dot(low, low, WHOLE), S, S, S

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (v > column(np.exp(t), v),)

    def advance(self, t: Any, k: Any, moments: Moments) -> tuple[Any, Any]:
        m, S, _, _ = moments
        return m - k + S * np.exp(-t), np.log(S / (k - m))

    def select(self, v: Array, t: Any) -> None:
        v *= column(np.exp(-t), v)
        v.clip(0, 1, out=v)


class _Laplace(Scheme):
    exact = True

    def prepare(self, d: Array) -> Array:
        return _exp(d)

    def quantile(self, k: Any, n: int) -> Any:
        return np.copysign(np.log(0.5 * n / np.minimum(k, n - k)), 0.5 * n - k)

    def moments(self, v: Array, t: Any) -> Moments:
        s = np.exp(t)
        side, inverse = self.room(v)
        np.less(v, column(s, v), out=side)
        P = row_dot(v, side) / (2 * s)
        np.subtract(1, side, out=side)
        C = row_dot(np.divide(1, v, out=inverse), side) * (s / 2)
        return row_dot(side, side, WHOLE), P, C, P + C

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (v >= column(np.exp(t), v),)

    def select(self, v: Array, t: Any) -> None:
        half = column(0.5 * np.exp(-t), v)
        upper = np.divide(column(0.5 * np.exp(t), v), v, out=self.room(v)[0])
        np.subtract(1, upper, out=upper)
        upper.clip(0.5, 1, out=upper)
        v *= half
        np.minimum(v, upper, out=v)


class _Sigmoid(Scheme):
    # The error after a step is about a hundredth of its square or less.
    tolerance = (5e-9, 4e-4)

    def prepare(self, d: Array) -> Array:
        return _exp(d)

    def quantile(self, k: Any, n: int) -> Any:
        return np.log((n - k) / k)

    def moments(self, v: Array, t: Any) -> Moments:
        s = column(np.exp(t), v)
        q, side = self.room(v)
        _least(v, s, q)
        q /= np.add(v, s, out=side)
        np.greater_equal(v, s, out=side)
        C, m = row_dot(q, side), row_dot(side, side, WHOLE)
        np.subtract(1, side, out=side)
        P = row_dot(q, side)
        return m, P, C, P + C - row_dot(q, q, WHOLE)

    def select(self, v: Array, t: Any) -> None:
        # 1 / (1 + s / v) is monotone in v after rounding; v / (v + s) is not.
        np.divide(column(np.exp(t), v), v, out=v)
        v += 1
        np.divide(1, v, out=v)


class _Clip(Scheme):
    # Between two breakpoints the excess is linear in t.  m counts the entries past
    # either end of the slope; P sums the shares below 1, and the ones stand for C.
    edge = True
    exact = True
    counted = True

    def start(self, d: Array, k: Any, t: Any) -> Any:
        return t  # its passes cost less than a better place

    def moments(self, v: Array, t: Any) -> Moments:
        share, bound = self.room(v)
        np.subtract(v, column(t, v), out=share)
        share.clip(0, 1, out=share)
        np.floor(share, out=bound)
        ones = row_dot(bound, bound, WHOLE)
        share -= bound
        P = row_sum(share)
        np.ceil(share, out=bound)
        W = row_dot(bound, bound, WHOLE)
        return W + 2 * ones, P, ones, W

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        share = np.subtract(v, column(t, v), out=self.room(v)[0])
        return share > 0, share >= 1

    def advance(self, t: Any, k: Any, moments: Moments) -> tuple[Any, Any]:
        _, P, ones, W = moments
        excess = P - (k - ones)
        return excess, t + excess / W

    def select(self, v: Array, t: Any) -> None:
        v -= column(t, v)
        v.clip(0, 1, out=v)


class _Triangular(Scheme):
    # With z = d - t, f is z^2 / 2 up to z = 1 and 1 - (2 - z)^2 / 2 from there.
    edge = True
    free = False
    origin = -1.0

    def moments(self, v: Array, t: Any) -> Moments:
        z, high = self.room(v)
        np.subtract(v, column(t, v), out=z)
        np.greater(z, 1, out=high)
        q = 2 - z
        np.minimum(z, q, out=q).clip(0, None, out=q)  # the slope
        W = row_sum(q)
        np.square(q, out=q)
        q *= 0.5
        P = row_dot(q, np.subtract(1, high, out=z))
        return row_dot(high, high, WHOLE), P, row_dot(q, high), W

    def advance(self, t: Any, k: Any, moments: Moments) -> tuple[Any, Any]:
        m, P, C, W = moments
        excess = P - C - (k - m)
        noise = 2 * np.finfo(P.dtype).eps * (P + C)
        step = t + self.curve.step(excess, P, C, W, P)
        still = abs(excess) <= noise
        return choose(still, 0 * excess, excess), choose(still, t, step)

    def select(self, v: Array, t: Any) -> None:
        v -= column(t, v)
        upper = 1 - 0.5 * np.square(np.clip(2 - v, 0, 1))
        np.minimum(0.5 * np.square(np.maximum(v, 0)), upper, out=v)


class _Entmax(Scheme):
    edge = True
    counted = True

    def __init__(self, curve: Entmax, size: int, dtype: Any) -> None:
        super().__init__(curve, size, dtype)
        self.b, self.origin = curve.b, curve.support[0]

    def quantile(self, k: Any, n: int) -> Any:
        return -np.expm1(self.b * np.log(k / n)) / self.b

    def moments(self, v: Array, t: Any) -> Moments:
        base, low = self._base(v, t, self.room(v)[0]), self.room(v)[1]
        np.less_equal(base, 1, out=low)
        base.clip(0, 1, out=base)
        p = _power(base, 1 / self.b)
        if self.b == 0.5:
            W = row_dot(base, low)
        else:
            W = row_dot(np.divide(p, base, out=base, where=base > 0), low)
        return _counted_below(v, low, p, W)

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        # Half the work of base > 1; where rounding tells them apart a pass is added.
        return (v > column(t + 1 / self.b, v),)

    def select(self, v: Array, t: Any) -> None:
        base = self._base(v, t, v)
        v[...] = _power(base.clip(0, 1, out=base), 1 / self.b)

    def _base(self, d: Array, t: Any, out: Array) -> Array:
        """1 + b (d - offset) before it is held within [0, 1]."""
        base = np.subtract(d, column(t, d), out=out)
        base *= self.b
        return base


class _FlatEntmax(_Entmax):
    """Entmax with alpha < 3/2, whose slope starts flat.

    A high power of 1 + b (d - offset) would multiply its rounding.  With
    ``e^(-b t) = 1 - b offset``, so that ``e^(-t)`` is the anchor's own share unless it
    exceeds 1, ``p = e^(log1p(b e^(b t) d) / b - t)``.  The anchor is the K-th score,
    whose share is not small: t is, and its rounding goes into every share.
    """

    edge = False

    def anchor(self, upper: Any, lower: Any) -> Any:
        return upper

    def place(self, offset: Any) -> Any:
        least = self.b * offset < 1 - 2.0**-50  # above it rounding takes the digits
        t = -np.log1p(-np.where(least, self.b * offset, 0)) / self.b
        return np.where(least, t, 750.0)[()]  # a share of less than any number

    def offset(self, t: Any) -> Any:
        return -np.expm1(-self.b * t) / self.b

    def moments(self, v: Array, t: Any) -> Moments:
        y, low = self._ratio(v, t, self.room(v)[0]), self.room(v)[1]
        p = self._logarithm(y, t)
        np.less_equal(p, 0, out=low)
        np.exp(p.clip(-np.inf, 0, out=p), out=p)
        y += 1
        W = row_dot(np.divide(p, y, out=y, where=y > 0), low)
        return _counted_below(v, low, p, W)

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (self._logarithm(self._ratio(v, t, self.room(v)[0]), t) > 0,)

    def advance(self, t: Any, k: Any, moments: Moments) -> tuple[Any, Any]:
        excess, step = super().advance(0.0, k, moments)
        return excess, t - np.log1p(-self.b * step) / self.b

    def select(self, v: Array, t: Any) -> None:
        p = self._logarithm(self._ratio(v, t, v), t)
        np.exp(p.clip(-np.inf, 0, out=p), out=v)

    def _ratio(self, d: Array, t: Any, out: Array) -> Array:
        """b e^(b t) d, at least -1."""
        y = np.multiply(d, column(self.b * np.exp(self.b * t), d), out=out)
        return y.clip(-1, np.inf, out=y)

    def _logarithm(self, y: Array, t: Any) -> Array:
        """log p where p does not exceed 1."""
        p = np.log1p(y)
        p /= self.b
        p -= column(t, y)
        return p


def _counted_below(v: Array, low: Array, p: Array, W: Any) -> Moments:
    """The moments of shares p of which the ones that `low` marks are below 1.

    Shares that vanish in rounding only do not make a plateau.
    """
    S = np.maximum(row_dot(p, low), np.finfo(np.float64).tiny)
    return v.shape[-1] - row_dot(low, low, WHOLE), S, 0.0, W


_QUICK: dict[Curve, type[Scheme]] = {
    EXP: _Exp,
    LAPLACE: _Laplace,
    SIGMOID: _Sigmoid,
    CLIP: _Clip,
    TRIANGULAR: _Triangular,
}


def scheme_of(curve: Curve) -> type[Scheme] | None:
    """The scheme of a curve that has one."""
    if type(curve) is Entmax:
        return _Entmax if curve.b >= 0.5 else _FlatEntmax
    return _QUICK.get(curve)


def matched(d: Array, quantile: Any, mean: float, spread: float) -> Any:
    r"""An offset from the k-th score, near that of the threshold.

    The threshold is the (1 - k/n)-quantile of a random score plus noise with the
    cdf 1 - f(-t), whose own quantile, mean and deviation are given.  Were the scores,
    the noise and their sum laws of one shape, the threshold would lie ``mean +
    (quantile - mean) * (hypot(1, r) - r)`` above the k-th score, with r the
    deviation of the scores over that of the noise.  *computing/threshold*.
    """
    n = d.shape[-1]
    centre = row_sum(d) / n
    deviation = np.sqrt(np.maximum(row_dot(d, d, WHOLE) / n - centre * centre, 0))
    r = deviation / spread
    # Infinite scores make r NaN or infinite: then the k-th score is all we know.
    return mean + (quantile - mean) * np.fmax(1 / (r + np.hypot(r, 1)), 0)


def column(t: Any, v: Array) -> Any:
    """t, of the type of v, to calculate with each row of it.

    A mere number stays one: an array of one takes NumPy twice the time.
    """
    if isinstance(t, np.ndarray):
        return t[..., None].astype(v.dtype, copy=False)
    return v.dtype.type(t)


def _least(v: Array, bound: Any, out: Array) -> Array:
    """np.minimum of positive values and a bound, or one for each line."""
    # NumPy's minimum of a long array and a mere number takes up to four times as long.
    if isinstance(bound, np.ndarray) or v.size < _SHORT:
        return np.minimum(v, bound, out=out)
    return v.clip(0, bound, out=out)


def _exp(d: Array) -> Array:
    """e^d in place, held within the range."""
    reach = _REACH[d.dtype]
    return np.exp(d.clip(-reach, reach, out=d), out=d)


def _power(base: Array, exponent: float) -> Array:
    """base ** exponent for base in [0, 1]."""
    if exponent == 2:
        return np.square(base)
    return np.power(base, exponent)
