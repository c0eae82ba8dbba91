r"""Softmax, its logarithm and its sum, and entmax on NumPy.

With :math:`b=\alpha-1` the shares of entmax are
:math:`[m^b-b\,(x_{(1)}-x_i)]_+^{1/b}`, where m is the largest share.  So for b > 0
only scores within :math:`1/b` of the largest can have a positive share, and entmax is
found from these alone.  It is softmax at b = 0 and sparsemax at b = 1.  Below 0 every
finite score has a share.
Derived in *distributions/entmax* and, for b below 0, *distributions/entmax-orders*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._rows.numpy_rows import Array, as_column, numpy_distances, of_part, row_dot

_EPS = 2.0**-52
_HUGE = 1e300  # finite, so that it gives 0 at the distance 0, and at least 1 elsewhere

_LONGEST_SORTED = 512
"""Rows up to this length are sorted if b is 1/2 or 1 (closed forms)."""

# In a row at least this long, the threshold of a sample of the row first excludes the
# scores that cannot have a share.  _SAMPLED_STEEP is for alpha >= 2.  For alpha < 2
# only longer rows gain by it: there many scores have a share, so that few are excluded,
# or else the row is solved quickly without a sample.
_SAMPLED_STEEP, _SAMPLED_FLAT = 1 << 13, 1 << 17
# Rows longer than _ALWAYS_SORTED are sorted only if all rows together have fewer than
# _UNSORTED_ENTRIES entries.  In 512 rows of 128, Newton's steps take about 0.2 to 0.8
# of the time of the sort, and in 64 or 128 rows 0.4 to 2.5.
_ALWAYS_SORTED, _UNSORTED_ENTRIES = 64, 1 << 16

_SAMPLE_STRIDE = 64
"""One score in so many is in the sample, which has at least _LONGEST_SORTED."""

_HANDFUL = 64  # up to this many scores, a loop over Python floats is quicker than NumPy
_MOST_STEPS = 400
_STEPS_BEFORE_BISECTION = 12  # steps after which every other one bisects


def entmax_shares(
    x: Array, b: float | Array, tau: float | Array = 1.0
) -> tuple[Array, Array]:
    r"""Shares of entmax with :math:`\alpha=1+b`, and the largest of each row.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    b : float or (R,) float64 array
        Above -1.
    tau : float or (R,) float64 array

    Returns
    -------
    p : (R, n) array
    m : (R,) float64 array
    """
    if not isinstance(b, np.ndarray):
        return _entmax_one(x, b, tau)
    p, m = np.empty_like(x), np.empty(len(x))
    # For these values of alpha the power has a closed form, which is exact and faster.
    closed_form = np.where((b == 0) | (b == 0.5) | (b == 1), b, np.nan)
    for value in np.unique(closed_form):
        part = np.isnan(closed_form) if np.isnan(value) else closed_form == value
        step = b[part] if np.isnan(value) else float(value)
        p[part], m[part] = _entmax_one(x[part], step, of_part(tau, part))
    return p, m


def _entmax_one(x: Array, b: float | Array, tau: float | Array) -> tuple[Array, Array]:
    """`entmax_shares` where b is a number, or an array without 0."""
    if not isinstance(b, np.ndarray) and b == 0:
        p = softmax_shares(x, tau)
        return p, p.max(axis=-1).astype(np.float64)
    steep = not isinstance(b, np.ndarray) and b >= 1
    if x.shape[1] < (_SAMPLED_STEEP if steep else _SAMPLED_FLAT):
        return _entmax_near(x, b, tau, _LONGEST_SORTED)
    p, m = np.zeros_like(x), np.empty(len(x))
    for i in range(len(x)):
        own = slice(i, i + 1)
        row, power, own_tau = x[own], of_part(b, own), of_part(tau, own)
        index, most = _candidates(row, power, own_tau)
        # If the sample has excluded at least 3/4 of the row, sorting the rest is
        # quicker than Newton's steps; otherwise Newton's steps are quicker.
        short = x.shape[1] // 4
        p[i, index], m[own] = _entmax_near(row[:, index], power, own_tau, short, most)
    return p, m


def _candidates(
    x: Array, b: float | Array, tau: float | Array
) -> tuple[Array, float | Array]:
    """Where a long row ``(1, n)`` may have positive shares, and a bound of the shares.

    With fewer scores the threshold is lower, so the threshold of a sample of the row is
    a lower bound.  A score below it has the share 0, and a score above it has at most
    the share that it would have at this lower threshold.
    """
    near, most = x[0] >= _cut(x, b, tau), 1.0
    few = max(_LONGEST_SORTED, x.size // _SAMPLE_STRIDE)
    if b > 0 and np.count_nonzero(near) > few:
        some = np.ascontiguousarray(x[:, :: -(-x.size // few)])
        top = some.max(axis=-1).astype(np.float64)
        if top > -np.inf:
            largest = _entmax_one(some, b, tau)[1]
            reach = tau / b * np.minimum(largest, 1) ** b * (1 + 1e-6)
            near &= x[0] >= (top - reach).astype(x.dtype)
            # Not computed from the cut above, which is rounded to the scores' type.
            above = x.max(axis=-1).astype(np.float64) - top + reach
            most = np.minimum(above / tau * b * (1 + 1e-6), 1) ** (1 / b)
    return np.flatnonzero(near), most


def _cut(x: Array, b: float | Array, tau: float | Array) -> Array:
    """The score of each row below which every share is 0."""
    # Rounding is monotone, so a score above the exact cut is not below this one.
    cut = (x.max(axis=-1) - tau / b).astype(x.dtype)
    if (b > 0).all() if isinstance(b, np.ndarray) else b > 0:
        return cut
    return np.where(b < 0, np.finfo(x.dtype).min, cut)  # -inf has no share


def _entmax_near(
    x: Array,
    b: float | Array,
    tau: float | Array,
    short: int,
    most: float | Array = 1.0,
) -> tuple[Array, Array]:
    """`entmax_shares` from the scores near the largest.

    Rows of up to `short` scores are sorted if b is 1/2 or 1, and if there are few of
    them or they are very short.  `most` is an upper bound of the shares.
    """
    R, n = x.shape
    few = n <= _ALWAYS_SORTED or x.size < _UNSORTED_ENTRIES
    if n <= short and few and not isinstance(b, np.ndarray) and b in (0.5, 1):
        return _entmax_short(x, b, tau)
    index = np.flatnonzero(x >= _cut(x, b, tau)[:, None])
    starts = np.searchsorted(index, np.arange(R) * n)
    counts = np.diff(starts, append=index.size)
    d = x.reshape(-1)[index].astype(np.float64)
    near = _Near(d, starts, counts, b, np.full(R, most))
    top = near.spread(x.max(axis=-1).astype(np.float64))
    numpy_distances(d, top, near.spread(tau) if isinstance(tau, np.ndarray) else tau, d)
    m = near.solve()
    values = near.balanced(m)
    p = np.zeros(x.shape, x.dtype)
    p.reshape(-1)[index] = values
    return p, m


def _entmax_short(x: Array, b: float, tau: float | Array) -> tuple[Array, Array]:
    """`entmax_shares` for b = 1 and b = 1/2 from the sorted scores.

    If the j largest scores have positive shares, the threshold is the root of a linear
    (b = 1) or quadratic equation in their cumulative sums.  These sums have a larger
    rounding error than NumPy's pairwise sums, so one Newton step with pairwise sums
    over the row removes it.
    """
    z = x.astype(np.float64)
    numpy_distances(z, z.max(axis=-1, keepdims=True), as_column(tau), z)
    if b != 1:
        z *= b
    np.maximum(z, -1, out=z)
    falling = np.sort(z, axis=-1)[:, ::-1]
    j = np.arange(1, z.shape[1] + 1)
    mean = np.add.accumulate(falling, axis=-1)
    if b == 1:
        mean -= 1
        mean /= j
        t = mean.max(axis=-1, keepdims=True)
        base = np.maximum(z - t, 0)
        count = (base > 0).sum(axis=-1, keepdims=True)
        t += (base.sum(axis=-1, keepdims=True) - 1) / count
    else:
        mean /= j
        root = (1 - np.add.accumulate(falling * falling, axis=-1)) / j + mean * mean
        np.sqrt(np.maximum(root, 0, out=root), out=root)
        np.subtract(mean, root, out=root)
        last = (root <= falling).sum(axis=-1) - 1
        t = root[np.arange(len(x)), last][:, None]
        base = np.maximum(z - t, 0)
        t += (row_dot(base, base)[:, None] - 1) / (2 * base.sum(axis=-1, keepdims=True))
    z -= np.maximum(t, -1, out=t)
    p = np.maximum(z, 0, out=z)
    if b != 1:
        p *= p
    return p.astype(x.dtype, copy=False), p.max(axis=-1)


def entmax_row(x: Array, tau: float) -> Array | None:
    """`entmax_shares` of one row ``(n,)`` for b = 1/2, with Python floats.

    A score v is above the threshold if, with the threshold at v, the shares sum to less
    than 1.  The result is None, and the caller takes another way, if many scores are
    near the largest, if no score is finite, or if the scores are near the end of the
    range of their type.
    """
    top = float(x.max())
    if not abs(top) + tau / 0.5 < 1e38:
        return None
    near = x >= top - tau / 0.5
    if np.count_nonzero(near) > _HANDFUL:
        return None
    d = [(v - top) / tau * 0.5 for v in x[near].tolist()]
    S = Q = 0.0
    above = []
    for v in sorted(d, reverse=True):
        above.append(v)
        count = len(above)
        S += v
        Q += v * v
        if Q + v * (count * v - 2 * S) >= 1:
            above.pop()
            break
    mean = math.fsum(above) / len(above)
    variance = math.fsum([(v - mean) ** 2 for v in above])
    t = mean - math.sqrt((1 - variance) / len(above))
    p = np.zeros_like(x)
    p[near] = [(v - t) ** 2 if v > t else 0.0 for v in d]
    return p


@dataclass
class _Near:
    """The scores near the largest of their row, with the rows concatenated.

    Attributes
    ----------
    d : (N,) array
        Distances to the largest score, at most 0.
    starts, counts : (R,) int arrays
        Where each row begins, and its length.
    b : float or (R,) array
        alpha - 1, above -1 and not 0.
    most : (R,) array
        Bounds of the shares.
    """

    d: Array
    starts: Array
    counts: Array
    b: float | Array
    most: Array

    def spread(self, column: Any) -> Any:
        """One number for each row, repeated for its entries."""
        if not isinstance(column, np.ndarray) or len(column) == 1:
            return column
        return np.repeat(column, self.counts)

    def shares(self, m: Array) -> tuple[Array, Array]:
        """The shares if the largest of each row is m, and their derivatives by m."""
        if not isinstance(self.b, np.ndarray):
            if self.b == 1:
                p = np.maximum(self.d + self.spread(m), 0)
                return p, (p > 0).astype(np.float64)
            if self.b == 0.5:
                root = self.spread(np.sqrt(m))
                base = 0.5 * self.d
                base += root
                np.maximum(base, 0, out=base)
                return base * base, base / root
        scale = np.minimum(self.b * m**-self.b, _HUGE)
        base = self.d * self.spread(scale)
        np.maximum(base, -1, out=base)
        ratio = np.log1p(base)
        ratio /= self.spread(self.b)
        np.exp(ratio, out=ratio)
        base += 1
        slope = np.divide(ratio, base, out=np.zeros_like(base), where=base > 0)
        ratio *= self.spread(m)
        return ratio, slope

    def excess(self, m: Array) -> tuple[Array, Array, Array]:
        r"""The excess S - 1 at m, the next m, and the shares; S is the shares' sum.

        The step is Newton's for :math:`S(u)^b=1` in the variable u = m^b, because S^b
        is nearly linear in u.  For one entry it is u itself, and for b = 1 it is
        piecewise linear.
        """
        p, slope = self.shares(m)
        S = np.add.reduceat(p, self.starts)
        W = np.add.reduceat(slope, self.starts)
        b = self.b
        if not isinstance(b, np.ndarray) and b == 1:
            return S - 1, m - (S - 1) / W, p
        drop = np.expm1(-b * np.log(S)) * S / (m * W)
        return S - 1, m * np.exp(np.log1p(drop) / b), p

    def balanced(self, m: Array) -> Array:
        """The shares at the solution m.

        For b > 1 the slope of a share is unbounded where the share becomes positive, so
        an ulp of m may change a share by much more than an ulp.  One more Newton step,
        by a fraction of an ulp of m, is applied to the shares so that they sum to 1.
        """
        p, slope = self.shares(m)
        if np.any(self.b > 1):
            over = np.add.reduceat(p, self.starts) - 1
            over *= np.asarray(self.b) > 1
            over /= np.add.reduceat(slope, self.starts)
            slope *= self.spread(over)
            p = np.maximum(p - slope, 0)
        return p

    def solve(self) -> Array:
        """The m for which the shares of each row sum to 1."""
        if isinstance(self.b, np.ndarray):
            m, steep = np.empty(len(self.b)), self.b > 1
            for part, method in ((~steep, _Near._fall), (steep, _Near._enclose)):
                if part.any():
                    m[part] = method(self._rows(part))
            return m
        return self._enclose() if self.b > 1 else self._fall()

    def _fall(self) -> Array:
        """m for b <= 1, where Newton's steps from above decrease m.

        S^b is convex in u for b > 0 and concave for b < 0, where u decreases in m.
        """
        near, rows, m = self, np.arange(len(self.counts)), self.most
        result = m.copy()
        # A row is done once a step changes m by at most `tight` times m.  Newton's
        # variable is u = m^b, and a share is (u + b d)^(1/b) where it is positive.  For
        # b <= 1/2 its second derivative by u is bounded: after a step that changes m by
        # a part h of it, the error is at most n h^2 / 2 times m, for n entries (for
        # b < 0 at most of the order of h^2).  So after a step of sqrt(eps / n) it is
        # below rounding.  For b > 1/2 the second derivative is unbounded where the
        # share becomes positive.  Then the error may be far larger, and the step itself
        # must be within a few roundings.
        for _ in range(_MOST_STEPS):
            _, step, p = near.excess(m)
            step = np.minimum(step, m)
            result[rows] = step
            tight = np.minimum(2.0**-28, (_EPS / near.counts) ** 0.5)
            tight = np.where(np.greater(near.b, 0.5), 4 * _EPS, tight)
            moving = m - step > tight * m
            if not moving.any():
                break
            near, rows, m = near._shrink(moving, p > 0, rows, step)
        return result

    def _enclose(self) -> Array:
        """m for b > 1: Newton's steps within a bracket.

        S has a vertical tangent where a share becomes positive.  Near such a point a
        step may be tiny although the root is far, so a short step does not end the
        search.  A vanishing excess or a bracket without a float inside does.
        """
        low, high = 1 / self.counts, self.most.copy()
        near, rows, m = self, np.arange(len(self.counts)), high
        result = m.copy()
        for count in range(_MOST_STEPS):
            excess, step, p = near.excess(m)
            low[rows] = np.where(excess <= 0, m, low[rows])
            high[rows] = np.where(excess >= 0, m, high[rows])
            left, right = low[rows], high[rows]
            inside = (step > left) & (step < right)
            if count > _STEPS_BEFORE_BISECTION and count % 2:
                inside[:] = False
            step = np.where(inside, step, 0.5 * (left + right))
            exact = np.abs(excess) <= _EPS
            moving = ~exact & (right - left > _EPS * right)
            step = result[rows] = np.where(moving, step, np.where(exact, m, right))
            if not moving.any():
                break
            useful = (p > 0) | near.spread(excess < 0)
            near, rows, m = near._shrink(moving, useful, rows, step)
        return result

    def _shrink(
        self, moving: Array, useful: Array, rows: Array, m: Array
    ) -> tuple[_Near, Array, Array]:
        """The rows that are not done, without the entries that are no longer needed.

        Entries are removed from a long row once at least half of them are not `useful`.
        Each decision depends on one row alone, so that the result of a row is the same
        in any batch.
        """
        long = self.counts > _LONGEST_SORTED
        if moving.all() and not long.any():
            return self, rows, m
        fewer = 2 * np.add.reduceat(useful, self.starts, dtype=np.intp) <= self.counts
        fewer &= long
        if moving.all() and not fewer.any():
            return self, rows, m
        keep = (useful | ~self.spread(fewer)) & self.spread(moving)
        counts = np.add.reduceat(keep, self.starts, dtype=np.intp)[moving]
        starts = np.cumsum(counts) - counts
        b = self.b[moving] if isinstance(self.b, np.ndarray) else self.b
        m = m[moving]
        return _Near(self.d[keep], starts, counts, b, m), rows[moving], m

    def _rows(self, part: Array) -> _Near:
        """The rows where `part` is true; b is an array."""
        keep, counts = np.repeat(part, self.counts), self.counts[part]
        b = np.asarray(self.b)[part]
        starts = np.cumsum(counts) - counts
        return _Near(self.d[keep], starts, counts, b, self.most[part])


def below_top(x: Array, tau: float | Array) -> Array:
    """(x - max) / tau."""
    top = np.maximum.reduce(x, axis=-1, keepdims=True)
    return numpy_distances(x, top, as_column(tau))


def softmax_shares(x: Array, tau: float | Array, weight: Array | None = None) -> Array:
    """Shares proportional to weight * e^{x/tau}."""
    e = below_top(x, tau)
    np.exp(e, out=e)
    if weight is not None:
        e *= weight
    e /= np.add.reduce(e, axis=-1, keepdims=True)
    return e


def log_shares(x: Array, tau: float | Array) -> tuple[Array, Array]:
    """``log(e^{x_i/tau} / S)`` and ``log S - max(x)/tau``, S the row's sum.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    tau : float or (R,) float64 array

    Returns
    -------
    log_p : (R, n) array
        At most 0.
    total : (R,) array
        At least 0, with full relative accuracy.
    """
    d = below_top(x, tau)
    e = np.exp(d)
    # log S = log1p(S - 1).  The 1 is one term, e^0 of the largest score: the sum leaves
    # this term out.  If the sum S were rounded first, small terms would lose their
    # digits in it.
    e[np.arange(len(e)), x.argmax(axis=-1)] = 0
    total = np.log1p(np.add.reduce(e, axis=-1))
    d -= total[:, None]
    return d, total
