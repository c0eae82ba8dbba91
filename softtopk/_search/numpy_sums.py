r"""Quick sums of the named curves: what NumPy can do without the curve in each pass.

A scheme replaces the distances :math:`d=(x-a)/\tau` by a function of them that makes a
pass cheap.  Often this is :math:`V=e^d`, of which the shares are rational functions at
every offset.  The search moves a variable t with :math:`p=f(d-\mathrm{offset}(t))`; in
most schemes t is the offset itself, up to a constant.

A scheme computes the sums of its rows at t, as `root.sums` defines them, and the
next t from them.  The search itself is in `numpy_search`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._rows.namespace import choose
from .._rows.numpy_rows import LINE_OF_COUNTS, Array, row_dot, row_sum
from ..curves import CLIP, EXP, LAPLACE, SIGMOID, TRIANGULAR, Curve, Entmax

# m, P, C and W (and P for S): one number for each row, or one number.
ShareSums = tuple[Any, Any, Any, Any]

# Distances are clipped to this, because exp of a larger argument, or a product of a few
# of these exponentials, would overflow.
_CLIPPED_DISTANCE = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 80.0}


_CHEAPLY_SORTED = 2047
"""Up to this length, sorting a row is cheaper than a few passes over it."""


class Scheme:
    """How one curve is summed; it owns the memory that the sums work in.

    Attributes
    ----------
    edge : bool
        Whether t is the distance from the anchor to the point at which shares become
        positive.  With an anchor at that point, small shares have no cancellation.
    any_anchor : bool
        Whether any number near the threshold may be the anchor.
    exact : bool
        Whether a step leads to the root if m is the same there.
    light : bool
        Whether, in a block of several rows, the sums cost no more than counting m,
        so that counting to save a pass would save nothing.
    counted : bool
        Whether a small step may leave a large error, because the slope jumps where m
        changes.
    tolerance : (float, float)
        A step no longer than this is the last one, in float64 and in float32.
    """

    edge = False
    any_anchor = True
    exact = False
    light = False
    counted = False
    tolerance = (2.0**-49, 2.0**-20)
    origin = 0.0  # t is the offset plus this

    def __init__(self, curve: Curve, size: int, dtype: Any) -> None:
        self.curve = curve
        self.tiny = self.tolerance[dtype == np.float32]
        self._memory = np.empty((2, size), dtype)
        self._room = tuple(self._memory)

    def room(self, part: Array) -> tuple[Array, ...]:
        """Two arrays like part, reused because allocating new ones takes longer."""
        if self._room[0].shape != part.shape:
            self._room = tuple(self._memory[:, : part.size].reshape(2, *part.shape))
        return self._room

    def anchor(self, upper: Any, lower: Any) -> Any:
        """A number near the threshold, from the K-th and the J-th largest score."""
        # The midpoint, held between both: half of the least subnormal number rounds to
        # 0, which may lie outside.
        return np.minimum(np.maximum(0.5 * upper + 0.5 * lower, lower), upper)

    def at_offset(self, offset: Any) -> Any:
        """The t of an offset."""
        return offset + self.origin

    def offset(self, t: Any) -> Any:
        """The offset that belongs to t, an increasing function of t."""
        return t - self.origin

    def prepare(self, d: Array) -> Array:
        """The function of d that every pass reads, written over d."""
        return d

    def quantile(self, k: Any, n: int) -> Any:
        """The (1 - k/n)-quantile of the curve's noise."""
        return -self.curve.inverse(k / n)

    def start(self, d: Array, k: Any, t: Any) -> Any:
        """A first guess, from the t at which the distance of the k-th score is
        `curve.centre`.
        """
        mean, spread = self.curve.noise or (0.0, 1.0)
        move = matched(d, self.quantile(k, d.shape[-1]), mean, spread)
        return self.at_offset(self.offset(t) + self.curve.centre + move)

    def sums(self, v: Array, t: Any) -> ShareSums:
        """m, P, C and W of v = prepare(d)."""
        raise NotImplementedError

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        """Masks of the entries that m counts, for an exact or counted scheme."""
        raise NotImplementedError

    def advance(self, t: Any, k: Any, sums: ShareSums) -> tuple[Any, Any]:
        """The excess of the shares over k, and the next t."""
        m, P, C, W = sums
        excess = P - C - (k - m)
        return excess, t + self.curve.step(excess, P, C, W, P)

    def write_shares(self, v: Array, t: Any) -> None:
        """Put p = f(d - offset(t)) in the place of v = prepare(d)."""
        raise NotImplementedError


class _ExpSums(Scheme):
    # `prepare` computes V = e^d.  With u = e^-t the shares are min(1, u V).  Let m be
    # the number of entries with u V > 1, and S the sum of V over the other entries.
    # Then the excess is m + u S - k.  It is a concave function of u, so its tangents
    # lie above it, and Newton's step, to u = (k - m) / S, never goes beyond the root.
    # So the steps approach the root from one side, and a step after which m is the same
    # has reached it.
    #
    # If the anchor is the K-th largest score, with K = ceil(k), the search starts at
    # t >= 0 and stays there: fewer than K entries have V > 1, so that m < k.  If the
    # anchor is from a sample, m >= k is possible.  Then the step is NaN or infinite,
    # and the search halves the bracket.
    exact = True
    light = True
    # Once m repeats the step is 0.  Any longer step may leave an error that is larger
    # than the step itself, so only a step within rounding ends the search.
    tolerance = (2.0**-52, 2.0**-23)

    def anchor(self, upper: Any, lower: Any) -> Any:
        return upper

    def prepare(self, d: Array) -> Array:
        return _exp_in_place(d)

    def start(self, d: Array, k: Any, t: Any) -> Any:
        if d.ndim > 1 or len(d) > _CHEAPLY_SORTED:
            n = d.shape[-1]
            return np.fmax(matched(d, np.log(n / k), 1.0, 1.0), 0)
        # The root u itself: it is the largest (k - m) / S_m over m < k, with S_m the
        # sum of e^d without its m largest terms.  For m < k that sum contains the
        # anchor's term e^0 = 1, so that no quotient divides by 0.  An S_m that
        # overflows makes its quotient 0, which is never the largest.
        S = np.add.accumulate(np.exp(np.sort(d)))[::-1]
        m = np.arange(math.ceil(k))
        u = np.maximum.reduce((k - m) / S[: len(m)])
        return -np.log(u)

    def sums(self, v: Array, t: Any) -> ShareSums:
        low = np.less_equal(v, column(np.exp(t), v), out=self.room(v)[0])
        S = row_dot(v, low)
        return v.shape[-1] - row_dot(low, low, LINE_OF_COUNTS), S, S, S

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (v > column(np.exp(t), v),)

    def advance(self, t: Any, k: Any, sums: ShareSums) -> tuple[Any, Any]:
        m, S, _, _ = sums
        return m - k + S * np.exp(-t), np.log(S / (k - m))

    def write_shares(self, v: Array, t: Any) -> None:
        v *= column(np.exp(-t), v)
        v.clip(0, 1, out=v)


class _LaplaceSums(Scheme):
    exact = True

    def prepare(self, d: Array) -> Array:
        return _exp_in_place(d)

    def quantile(self, k: Any, n: int) -> Any:
        return np.copysign(np.log(0.5 * n / np.minimum(k, n - k)), 0.5 * n - k)

    def sums(self, v: Array, t: Any) -> ShareSums:
        s = np.exp(t)
        side, reciprocals = self.room(v)
        np.less(v, column(s, v), out=side)
        P = row_dot(v, side) / (2 * s)
        np.subtract(1, side, out=side)
        C = row_dot(np.divide(1, v, out=reciprocals), side) * (s / 2)
        return row_dot(side, side, LINE_OF_COUNTS), P, C, P + C

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (v >= column(np.exp(t), v),)

    def write_shares(self, v: Array, t: Any) -> None:
        half = column(0.5 * np.exp(-t), v)
        upper = np.divide(column(0.5 * np.exp(t), v), v, out=self.room(v)[0])
        np.subtract(1, upper, out=upper)
        upper.clip(0.5, 1, out=upper)
        v *= half
        np.minimum(v, upper, out=v)


class _SigmoidSums(Scheme):
    # The error after a step is at most about a hundredth of the square of the step, so
    # a step of this length leaves less than rounding does.
    tolerance = (5e-9, 4e-4)

    def prepare(self, d: Array) -> Array:
        return _exp_in_place(d)

    def quantile(self, k: Any, n: int) -> Any:
        return np.log((n - k) / k)

    def sums(self, v: Array, t: Any) -> ShareSums:
        s = column(np.exp(t), v)
        q, side = self.room(v)
        _bounded(v, s, q)
        q /= np.add(v, s, out=side)
        np.greater_equal(v, s, out=side)
        C, m = row_dot(q, side), row_dot(side, side, LINE_OF_COUNTS)
        np.subtract(1, side, out=side)
        P = row_dot(q, side)
        return m, P, C, P + C - row_dot(q, q, LINE_OF_COUNTS)

    def write_shares(self, v: Array, t: Any) -> None:
        # Shares must be in the order of the scores.  1 / (1 + s / v) keeps it, since
        # each of its roundings is monotone; v / (v + s) need not.
        np.divide(column(np.exp(t), v), v, out=v)
        v += 1
        np.divide(1, v, out=v)


class _ClipSums(Scheme):
    # A breakpoint is a t at which a share becomes 0 or 1.  Between two neighbouring
    # breakpoints the excess is linear in t, so a step that passes none leads to the
    # root.  The search sees that from an unchanged m.  Therefore m is here the number
    # of shares above 0 plus the number of shares equal to 1, which changes at every
    # breakpoint.  `sums` returns m, the sum P of the shares below 1, the number of
    # shares equal to 1, and the number W of shares strictly between 0 and 1.  The third
    # of these is C for other schemes, but here the excess, P + ones - k, needs no C.
    edge = True
    exact = True
    counted = True

    def start(self, d: Array, k: Any, t: Any) -> Any:
        return t  # a better first t would cost more than the passes it saves

    def sums(self, v: Array, t: Any) -> ShareSums:
        share, bound = self.room(v)
        np.subtract(v, column(t, v), out=share)
        share.clip(0, 1, out=share)
        np.floor(share, out=bound)
        ones = row_dot(bound, bound, LINE_OF_COUNTS)
        share -= bound
        P = row_sum(share)
        np.ceil(share, out=bound)
        W = row_dot(bound, bound, LINE_OF_COUNTS)
        return W + 2 * ones, P, ones, W

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        share = np.subtract(v, column(t, v), out=self.room(v)[0])
        return share > 0, share >= 1

    def advance(self, t: Any, k: Any, sums: ShareSums) -> tuple[Any, Any]:
        _, P, ones, W = sums
        excess = P - (k - ones)
        return excess, t + excess / W

    def write_shares(self, v: Array, t: Any) -> None:
        v -= column(t, v)
        v.clip(0, 1, out=v)


class _TriangularSums(Scheme):
    # With z = d - t, f is z^2 / 2 up to z = 1 and 1 - (2 - z)^2 / 2 from there.
    edge = True
    any_anchor = False
    origin = -1.0

    def sums(self, v: Array, t: Any) -> ShareSums:
        z, high = self.room(v)
        np.subtract(v, column(t, v), out=z)
        np.greater(z, 1, out=high)
        q = 2 - z
        np.minimum(z, q, out=q).clip(0, None, out=q)  # the slope
        W = row_sum(q)
        np.square(q, out=q)
        q *= 0.5
        P = row_dot(q, np.subtract(1, high, out=z))
        return row_dot(high, high, LINE_OF_COUNTS), P, row_dot(q, high), W

    def advance(self, t: Any, k: Any, sums: ShareSums) -> tuple[Any, Any]:
        m, P, C, W = sums
        excess = P - C - (k - m)
        noise = 2 * np.finfo(P.dtype).eps * (P + C)
        step = t + self.curve.step(excess, P, C, W, P)
        still = abs(excess) <= noise
        return choose(still, 0 * excess, excess), choose(still, t, step)

    def write_shares(self, v: Array, t: Any) -> None:
        v -= column(t, v)
        upper = 1 - 0.5 * np.square(np.clip(2 - v, 0, 1))
        np.minimum(0.5 * np.square(np.maximum(v, 0)), upper, out=v)


class _EntmaxSums(Scheme):
    edge = True
    counted = True

    def __init__(self, curve: Entmax, size: int, dtype: Any) -> None:
        super().__init__(curve, size, dtype)
        self.b, self.origin = curve.b, curve.support[0]

    def quantile(self, k: Any, n: int) -> Any:
        return -np.expm1(self.b * np.log(k / n)) / self.b

    def sums(self, v: Array, t: Any) -> ShareSums:
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
        # This takes half the work of base > 1.  Where the two differ, by rounding, the
        # count differs as well, and the search only makes one more pass.
        return (v > column(t + 1 / self.b, v),)

    def write_shares(self, v: Array, t: Any) -> None:
        base = self._base(v, t, v)
        v[...] = _power(base.clip(0, 1, out=base), 1 / self.b)

    def _base(self, d: Array, t: Any, out: Array) -> Array:
        """The base 1 + b (d - offset) of the power, before it is clipped to [0, 1]."""
        base = np.subtract(d, column(t, d), out=out)
        base *= self.b
        return base


class FlatEntmaxSums(_EntmaxSums):
    """Entmax with alpha < 3/2, whose slope is 0 at the point where shares start.

    The exponent 1/b > 2 multiplies the relative rounding error of the base
    1 + b (d - offset).  So t is defined by ``e^(-b t) = 1 - b offset``, which makes
    ``e^(-t)`` the anchor's own share (if at most 1), and the shares are computed as
    ``p = e^(log1p(b e^(b t) d) / b - t)``.  The rounding error of t enters every share,
    so |t| should be small.  The anchor is the K-th score because its share is not
    small.
    """

    edge = False

    def anchor(self, upper: Any, lower: Any) -> Any:
        return upper

    def at_offset(self, offset: Any) -> Any:
        least = self.b * offset < 1 - 2.0**-50  # above, 1 - b offset has no digits left
        t = -np.log1p(-np.where(least, self.b * offset, 0)) / self.b
        return np.where(least, t, 750.0)[()]  # e^-750 is less than any float

    def offset(self, t: Any) -> Any:
        return -np.expm1(-self.b * t) / self.b

    def sums(self, v: Array, t: Any) -> ShareSums:
        y, low = self._ratio(v, t, self.room(v)[0]), self.room(v)[1]
        p = self._logarithm(y, t)
        np.less_equal(p, 0, out=low)
        np.exp(p.clip(-np.inf, 0, out=p), out=p)
        y += 1
        W = row_dot(np.divide(p, y, out=y, where=y > 0), low)
        return _counted_below(v, low, p, W)

    def past(self, v: Array, t: Any) -> tuple[Array, ...]:
        return (self._logarithm(self._ratio(v, t, self.room(v)[0]), t) > 0,)

    def advance(self, t: Any, k: Any, sums: ShareSums) -> tuple[Any, Any]:
        excess, step = super().advance(0.0, k, sums)
        return excess, t - np.log1p(-self.b * step) / self.b

    def write_shares(self, v: Array, t: Any) -> None:
        p = self._logarithm(self._ratio(v, t, v), t)
        np.exp(p.clip(-np.inf, 0, out=p), out=v)

    def _ratio(self, d: Array, t: Any, out: Array) -> Array:
        """b e^(b t) d, clipped at -1, where the share is 0."""
        y = np.multiply(d, column(self.b * np.exp(self.b * t), d), out=out)
        return y.clip(-1, np.inf, out=y)

    def _logarithm(self, y: Array, t: Any) -> Array:
        """log p; above 0 where the share is 1."""
        p = np.log1p(y)
        p /= self.b
        p -= column(t, y)
        return p


def _counted_below(v: Array, low: Array, p: Array, W: Any) -> ShareSums:
    """The sums of shares p; `low` marks the entries that m does not count.

    Their sum P is kept above 0.  If m = k and the shares of all others underflow, P = 0
    would make the excess 0, and the search would end too early.  (Where the thresholds
    are an interval, `_Block._start` has found its middle before.)
    """
    S = np.maximum(row_dot(p, low), np.finfo(np.float64).tiny)
    return v.shape[-1] - row_dot(low, low, LINE_OF_COUNTS), S, 0.0, W


_SCHEMES: dict[Curve, type[Scheme]] = {
    EXP: _ExpSums,
    LAPLACE: _LaplaceSums,
    SIGMOID: _SigmoidSums,
    CLIP: _ClipSums,
    TRIANGULAR: _TriangularSums,
}


def scheme_of(curve: Curve) -> type[Scheme] | None:
    """The scheme of a curve that has one."""
    if type(curve) is Entmax:
        return _EntmaxSums if curve.b >= 0.5 else FlatEntmaxSums
    return _SCHEMES.get(curve)


def matched(d: Array, quantile: Any, mean: float, spread: float) -> Any:
    r"""An offset from the k-th score, near that of the threshold.

    The threshold is the (1 - k/n)-quantile of a random score plus noise with the
    cdf 1 - f(-t).  `quantile`, `mean` and `spread` are those of the noise.  If the
    distributions of the scores, the noise and their sum differed by location and scale
    only, the threshold would lie ``mean + (quantile - mean) * (hypot(1, r) - r)`` above
    the k-th score, with r the deviation of the scores over that of the noise.  Derived
    in *computing/threshold*.
    """
    n = d.shape[-1]
    centre = row_sum(d) / n
    variance = row_dot(d, d, LINE_OF_COUNTS) / n - centre * centre
    deviation = np.sqrt(np.maximum(variance, 0))
    r = deviation / spread
    # Infinite scores make r NaN or infinite.  The scores then tell nothing about the
    # offset, and the result is the mean of the noise.
    return mean + (quantile - mean) * np.fmax(1 / (r + np.hypot(r, 1)), 0)


def column(t: Any, v: Array) -> Any:
    """t in the type of v, in a shape that broadcasts over the rows of v.

    A scalar stays a scalar, because NumPy takes twice as long with an array of one.
    """
    if isinstance(t, np.ndarray):
        return t[..., None].astype(v.dtype, copy=False)
    return v.dtype.type(t)


def _bounded(v: Array, bound: Any, out: Array) -> Array:
    """np.minimum of positive values and a bound, a scalar or one for each row."""
    # With a scalar and a long array, np.minimum takes up to four times as long as clip.
    if isinstance(bound, np.ndarray) or v.size < _CHEAPLY_SORTED:
        return np.minimum(v, bound, out=out)
    return v.clip(0, bound, out=out)


def _exp_in_place(d: Array) -> Array:
    """e^d in place, of d clipped so that nothing overflows."""
    reach = _CLIPPED_DISTANCE[d.dtype]
    return np.exp(d.clip(-reach, reach, out=d), out=d)


def _power(base: Array, exponent: float) -> Array:
    """base ** exponent for base in [0, 1]."""
    if exponent == 2:
        return np.square(base)
    return np.power(base, exponent)
