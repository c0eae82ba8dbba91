r"""Shares at k = 1, from the few scores near the largest.

With :math:`b=\alpha-1` the shares of entmax are
:math:`[m^b-b\,(x_{(1)}-x_i)]_+^{1/b}` for the largest share m: only scores within
:math:`1/b` of the largest can have one.  They are softmax at b = 0 and sparsemax at
b = 1.  Derived in *distributions/entmax*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._rows import Array, distances, row_dot

_EPS = 2.0**-52
_HUGE = 1e300  # times a distance of 0 it is 0, times any other one at least 1
_SHORT = 512  # rows up to this length are sorted where that gives the threshold
# In a row at least this long, the threshold of a sample of the row first excludes the
# scores that cannot have a share.  _LONG is for alpha >= 2.  For alpha < 2 only longer
# rows gain by it: there many scores have a share, so that few are excluded, or else
# the row is solved quickly without a sample.
_LONG, _VERY_LONG = 1 << 13, 1 << 17
_PART = 64  # the sample has 1/64 of the row, but at least _SHORT scores
_HANDFUL = 64  # up to this many scores, a loop over Python floats is quicker than NumPy
_LIMIT = 400
_PATIENCE = 12  # steps after which every other one bisects


def entmax_shares(x: Array, b: float | Array, tau: float = 1.0) -> tuple[Array, Array]:
    r"""Shares of entmax with :math:`\alpha=1+b`, and the largest of each row.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    b : float or (R,) float64 array
        At least 0.
    tau : float

    Returns
    -------
    p : (R, n) array
    m : (R,) float64 array
    """
    if not isinstance(b, np.ndarray):
        return _entmax_one(x, b, tau)
    p, m = np.empty_like(x), np.empty(len(x))
    # Where alpha has a closed power, it is exact and faster.
    special = np.where((b == 0) | (b == 0.5) | (b == 1), b, np.nan)
    for value in np.unique(special):
        part = np.isnan(special) if np.isnan(value) else special == value
        step = b[part] if np.isnan(value) else float(value)
        p[part], m[part] = _entmax_one(x[part], step, tau)
    return p, m


def _entmax_one(x: Array, b: float | Array, tau: float) -> tuple[Array, Array]:
    """`entmax_shares` where b is a number, or an array without 0."""
    if not isinstance(b, np.ndarray) and b == 0:
        p = softmax_shares(x, tau)
        return p, p.max(axis=-1).astype(np.float64)
    steep = not isinstance(b, np.ndarray) and b >= 1
    if x.shape[1] < (_LONG if steep else _VERY_LONG):
        return _entmax_near(x, b, tau, _SHORT)
    p, m = np.zeros_like(x), np.empty(len(x))
    for i in range(len(x)):
        row, power = x[i : i + 1], b[i : i + 1] if isinstance(b, np.ndarray) else b
        index, most = _candidates(row, power, tau)
        # If the sample has excluded at least 3/4 of the row, sorting the rest is
        # quicker than Newton's steps; otherwise Newton's steps are quicker.
        short = x.shape[1] // 4
        found = _entmax_near(row[:, index], power, tau, short, most)
        p[i, index], m[i : i + 1] = found
    return p, m


def _candidates(x: Array, b: float | Array, tau: float) -> tuple[Array, float | Array]:
    """The places in a long row ``(1, n)`` that may have a share, and a bound of those.

    With fewer scores the threshold is lower.  So what is below that of a part of the
    row has no share, and what is above it has at most the share counted from there.
    """
    near, most = x[0] >= _cut(x, b, tau), 1.0
    few = max(_SHORT, x.size // _PART)
    if np.count_nonzero(near) > few:
        some = np.ascontiguousarray(x[:, :: -(-x.size // few)])
        top = some.max(axis=-1).astype(np.float64)
        if top > -np.inf:
            largest = _entmax_one(some, b, tau)[1]
            with np.errstate(over="ignore"):
                reach = tau / b * np.minimum(largest, 1) ** b * (1 + 1e-6)
                near &= x[0] >= (top - reach).astype(x.dtype)
                # Not from the cut, which is rounded to the grid of the scores.
                above = x.max(axis=-1).astype(np.float64) - top + reach
                most = np.minimum(above / tau * b * (1 + 1e-6), 1) ** (1 / b)
    return np.flatnonzero(near), most


def _cut(x: Array, b: float | Array, tau: float) -> Array:
    """The score of each row below which no other has a share."""
    with np.errstate(over="ignore"):
        # Rounding is monotone: no score above the exact cut is left out.
        return (x.max(axis=-1) - tau / b).astype(x.dtype)


def _entmax_near(
    x: Array, b: float | Array, tau: float, short: int, most: float | Array = 1.0
) -> tuple[Array, Array]:
    """`entmax_shares` from the scores near the largest; by sorting up to `short`.

    No share exceeds `most`.
    """
    R, n = x.shape
    if n <= short and not isinstance(b, np.ndarray) and b in (0.5, 1):
        return _entmax_short(x, b, tau)
    index = np.flatnonzero(x >= _cut(x, b, tau)[:, None])
    starts = np.searchsorted(index, np.arange(R) * n)
    counts = np.diff(starts, append=index.size)
    d = x.reshape(-1)[index].astype(np.float64)
    near = _Near(d, starts, counts, b, np.full(R, most))
    with np.errstate(all="ignore"):
        distances(d, near.spread(x.max(axis=-1).astype(np.float64)), tau, d)
        m = near.solve()
        values = near.balanced(m)
    p = np.zeros(x.shape, x.dtype)
    p.reshape(-1)[index] = values
    return p, m


def _entmax_short(x: Array, b: float, tau: float) -> tuple[Array, Array]:
    """`entmax_shares` for b = 1 and b = 1/2 from the sorted scores.

    With the j largest scores alone the threshold is the root of a linear or quadratic
    equation.  Its sums are cumulative; one Newton step over the row, whose sums are
    pairwise, takes their rounding away.
    """
    with np.errstate(over="ignore"):
        z = x.astype(np.float64)
        distances(z, z.max(axis=-1, keepdims=True), tau, z)
    if b != 1:
        z *= b
    np.maximum(z, -1, out=z)
    order = np.sort(z, axis=-1)[:, ::-1]
    j = np.arange(1, z.shape[1] + 1)
    mean = np.add.accumulate(order, axis=-1)
    if b == 1:
        mean -= 1
        mean /= j
        t = mean.max(axis=-1, keepdims=True)
        base = np.maximum(z - t, 0)
        count = (base > 0).sum(axis=-1, keepdims=True)
        t += (base.sum(axis=-1, keepdims=True) - 1) / count
    else:
        mean /= j
        root = (1 - np.add.accumulate(order * order, axis=-1)) / j + mean * mean
        np.sqrt(np.maximum(root, 0, out=root), out=root)
        np.subtract(mean, root, out=root)
        last = (root <= order).sum(axis=-1) - 1
        t = root[np.arange(len(x)), last][:, None]
        base = np.maximum(z - t, 0)
        t += (row_dot(base, base)[:, None] - 1) / (2 * base.sum(axis=-1, keepdims=True))
    z -= np.maximum(t, -1, out=t)
    p = np.maximum(z, 0, out=z)
    if b != 1:
        p *= p
    return p.astype(x.dtype, copy=False), p.max(axis=-1)


def entmax_row(x: Array, tau: float) -> Array | None:
    """`entmax_shares` of one row ``(n,)`` for b = 1/2, from a few numbers.

    A score is above the threshold if the scores that are not below it, counted from
    it, have shares of less than 1 in all.  None if many scores are near the largest, if
    none is finite, or near the end of the range.
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
    """The scores near the largest of their row, one row after the other.

    Attributes
    ----------
    d : (N,) array
        Distances to the largest score, at most 0.
    starts, counts : (R,) int arrays
        Where each row begins, and its length.
    b : float or (R,) array
        alpha - 1, above 0.
    most : (R,) array
        Bounds of the shares.
    """

    d: Array
    starts: Array
    counts: Array
    b: float | Array
    most: Array

    def spread(self, column: Any) -> Any:
        """One number of each row, repeated for its entries."""
        if not isinstance(column, np.ndarray) or len(column) == 1:
            return column
        return np.repeat(column, self.counts)

    def shares(self, m: Array) -> tuple[Array, Array]:
        """Shares where the largest of each row is m, and their derivatives by m."""
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
        r"""By how much the shares exceed 1 at m, the next m, and the shares.

        With u = m^b the b-th power of the sum S is nearly linear in u: linear for
        b = 1, and in the limit b = 0 in log u.  Newton's step is that of
        :math:`S(u)^b=1`.
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
        """Shares at the solution m.

        For b > 1 a share near its start can change by much more than an ulp of m
        does: a fraction of an ulp makes them sum to 1.
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
        """For b <= 1: S^b is convex in u, and Newton's steps from above fall to 1."""
        near, rows, m = self, np.arange(len(self.counts)), self.most
        result = m.copy()
        # The last step may be as long as 2^-28 if Newton's error after it is of the
        # order of its square.  That holds for b <= 1/2; for larger b the shares
        # u^(1/b) have no bounded second derivative, and the step itself must be small.
        tight = 4 * _EPS if np.max(self.b) > 0.5 else 2.0**-28
        for _ in range(_LIMIT):
            _, step, p = near.excess(m)
            step = np.minimum(step, m)
            result[rows] = step
            moving = m - step > tight * m
            if not moving.any():
                break
            near, rows, m = near._shrink(moving, p > 0, rows, step)
        return result

    def _enclose(self) -> Array:
        """For b > 1: Newton's steps within a bracket.

        S has a vertical tangent where a share starts: there steps may be tiny far
        from the root, so only the excess or the bracket ends the search.
        """
        low, high = 1 / self.counts, self.most.copy()
        near, rows, m = self, np.arange(len(self.counts)), high
        result = m.copy()
        for count in range(_LIMIT):
            excess, step, p = near.excess(m)
            low[rows] = np.where(excess <= 0, m, low[rows])
            high[rows] = np.where(excess >= 0, m, high[rows])
            left, right = low[rows], high[rows]
            inside = (step > left) & (step < right)
            if count > _PATIENCE and count % 2:
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
        """Leave out rows at rest, and the useless half of the entries of a row.

        What happens to a row depends on that row alone, so that its result is the
        same in any batch.
        """
        long = self.counts > _SHORT
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
        """Some of the rows, where b is an array."""
        keep, counts = self.spread(part), self.counts[part]
        b = np.asarray(self.b)[part]
        starts = np.cumsum(counts) - counts
        return _Near(self.d[keep], starts, counts, b, self.most[part])


def below_top(x: Array, tau: float) -> Array:
    """(x - max) / tau."""
    with np.errstate(over="ignore"):
        return distances(x, x.max(axis=-1, keepdims=True), tau)


def softmax_shares(x: Array, tau: float, weight: Array | None = None) -> Array:
    """Shares proportional to weight * e^{x/tau}."""
    e = below_top(x, tau)
    with np.errstate(under="ignore"):
        np.exp(e, out=e)
    if weight is not None:
        e *= weight
    e /= e.sum(axis=-1, keepdims=True)
    return e


def log_shares(
    x: Array, tau: float, weight: Array | None = None
) -> tuple[Array, Array]:
    """``log(e^{x_i/tau} / S)`` and ``log S - max(x)/tau``, S the row's weighted sum.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    tau : float
    weight : (R, n) array, optional
        Sums to at least 1 in every row.

    Returns
    -------
    log_p : (R, n) array
        At most 0.
    total : (R,) array
        At least 0, with full relative accuracy.
    """
    d = below_top(x, tau)
    e = np.exp(d)
    if weight is not None:
        e *= weight
    # S = 1 + rest: the largest term would swallow the digits of the others.
    place = x.argmax(axis=-1)[:, None]
    largest = np.take_along_axis(e, place, axis=-1)
    np.put_along_axis(e, place, largest - 1, axis=-1)
    total = np.log1p(np.maximum(e.sum(axis=-1), 0))
    d -= total[:, None]
    return d, total
