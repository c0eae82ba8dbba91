r"""What makes the search of `root` quick on NumPy.

Rows are solved in blocks that fit the cache, and a long row in parts of that size.  The
anchor is an order statistic.  The distances from it are computed once, and a scheme
sums them (see `numpy_sums`).  The thresholds of a single row are scalars, because NumPy
is slower with arrays of one.  The bracket from order statistics is computed only when a
step leaves the bracket that the passes so far have found, or when the search takes more
than a few passes.

Three shortcuts are for long rows only.  The first t is found from a sample of the row.
The k-th score of the sample serves as the anchor if the threshold turns out to be near
it.  And if only few entries have terms that can change with the threshold, later passes
sum only those.  A curve without a scheme, such as one of the user's, goes to
`root.solve_rows`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._rows.budget import Budget
from .._rows.namespace import choose
from .._rows.numpy_rows import (
    LINE_OF_COUNTS,
    Array,
    NumPyRows,
    as_column,
    divide,
    numpy_distances,
    of_part,
    order_pair,
    row_dot,
    row_sum,
)
from ..curves import Curve
from . import root
from .numpy_sums import Scheme, ShareSums, column, scheme_of
from .start import Search, bracket, moments, narrowed

_BLOCK_BYTES = 1 << 20  # of short rows, or of a stretch of a long one
_ALONE = 10_000  # a row longer than this has a block of its own
_LONG_ROW = 1 << 15  # rows of at least this length start from a sample of their scores
_SAMPLE = 1024  # about this many entries are in the sample

_FEW_DIVISOR = 8
"""At most 1/8 of a row is "few": then later passes sum only these entries."""

_LARGEST_DEVIATION = 8.0
"""Largest root mean square of a sample, in temperatures, for its anchor."""

# The search counts m after a step to see whether the step is the last: then m has not
# changed.  It does not count, and goes on, after a step that changes the sum of the
# shares by 2 min(k, 1) or more.  Nearly always such a step changes m.  If it does not,
# the sums before it may be so large that their rounding error would remain in t.
_CROSSED = 2


class Solution(NamedTuple):
    """Shares and thresholds of rows: ``lambda = anchor + temperature * offset``.

    Attributes
    ----------
    p : (R, n) array
    anchor, offset : (R,) float64 arrays
        The offset is +inf where k = 0 and -inf where k takes all finite entries.
    """

    p: Array
    anchor: Array
    offset: Array


def solve(
    curve: Curve,
    rows: NumPyRows,
    tau: float | Array = 1.0,
    scheme: type[Scheme] | None = None,
) -> Solution:
    """Solve rows of `as_numpy_rows` with a budget, at one temperature or one a row.

    A caller that has asked for the curve's scheme hands it on.
    """
    x, k, finite_count = rows.x, rows.k, rows.finite_count
    R, n = x.shape
    found = Solution(np.empty_like(x), np.empty(R), np.empty(R))
    some = k > 0
    inner = some & (k < finite_count)
    if np.count_nonzero(inner) < R:
        found.p[...] = some[:, None] & (x > -np.inf)
        found.anchor[:], found.offset[:] = 0, np.where(some, -np.inf, np.inf)
        rest = rows._replace(x=x[inner], k=k[inner], finite_count=finite_count[inner])
        if len(rest.k):
            found.p[inner], found.anchor[inner], found.offset[inner] = solve(
                curve, rest, of_part(tau, inner), scheme
            )
        return found
    most = _BLOCK_BYTES // x.itemsize
    size = 1 if n > _ALONE else max(1, min(R, most // n))
    scheme = scheme or scheme_of(curve)
    made = scheme(curve, min(size * n, most), x.dtype) if scheme else None
    for i in range(0, R, size):
        part = i if min(size, R - i) == 1 and made else slice(i, i + size)
        given = x[part], k[part], finite_count[part], of_part(tau, part), found.p[part]
        answer = _Block(made, *given).solve() if made else _by_root(curve, *given)
        found.anchor[part], found.offset[part] = answer
    if np.count_nonzero(finite_count < n):
        np.multiply(found.p, x > -np.inf, out=found.p)
    return found


def _by_root(
    curve: Curve, x: Array, k: Array, finite_count: Array, tau: float | Array, p: Array
) -> tuple[Array, Array]:
    """Anchors and offsets by `root.solve_rows` in float64; p gets the shares."""
    x = x.astype(np.float64)
    whole = np.floor(k)
    budget = Budget(whole.astype(np.int64), k - whole, finite_count)

    split = partial(root.neighbours_of, x, x)
    row_moments = narrowed(split, budget, tau, moments(x, finite_count), True)
    a, t = root.solve_rows(curve, x, budget, tau, row_moments)
    p[...] = curve.value(root.distances(x, tau, a, t))
    return a, t


class _Block:
    """Rows ``(r, n)`` that are solved together, or one row ``(n,)``.

    The array p, which gets the shares, holds the distances during the search.
    """

    def __init__(
        self, scheme: Scheme, x: Array, k: Any, finite_count: Any, tau: Any, p: Array
    ) -> None:
        self.scheme, self.x, self.k, self.finite_count = scheme, x, k, finite_count
        self.tau, self.p, self.n = tau, p, x.shape[-1]
        self.reaches_zero, self.reaches_one = map(math.isfinite, scheme.curve.support)
        self.single = x.ndim == 1

    def solve(self) -> tuple[Any, Any]:
        """Anchors and offsets; the shares are written to p."""
        scheme, p = self.scheme, self.p
        t = self._from_sample() if self.single and self.n >= _LONG_ROW else None
        if t is None:
            self._order()
            self.anchor = scheme.anchor(*self.pair)
            t = self._anchored()
        if scheme.edge:
            # Each share is computed from (x - anchor) / tau - t.  If |t| is large, the
            # rounding of this difference is large compared with a small share, and over
            # many small shares the errors add up.  A row whose sum misses k because of
            # that is solved again with the point where shares start as its anchor.
            eps = np.finfo(p.dtype).eps
            off = abs(row_sum(p) - self.k) > 16 * eps * self.k
            if _some(off):
                edge = (self.anchor + self.tau * t).astype(p.dtype)
                self._order()
                self.anchor = choose(off, edge, self.anchor)
                t = self._anchored()
        return self.anchor, scheme.offset(t)

    def _order(self) -> None:
        """Find the K-th and J-th largest score; p is used to partition the rows."""
        self.pair = order_pair(
            self.x, self.k, self.p, self.reaches_zero or not self.reaches_one
        )

    def _distances(self) -> Array:
        """(x - anchor) / tau, written to p."""
        anchor, tau = column(self.anchor, self.x), as_column(self.tau)
        return numpy_distances(self.x, anchor, tau, self.p)

    def _anchored(self) -> Any:
        """t for the anchors that are set; the shares are written to p."""
        d = self._distances()
        t, settled = self._start(d)
        sums = _Sums(self.scheme, self.scheme.prepare(d), self.k)
        if not self.single or not settled:
            few = self._narrow(sums) if self.single and self.n > _ALONE else sums
            t = _offsets(few, t, self._bracket, settled)
        sums.write_shares(t)
        return t

    def _start(self, d: Array) -> tuple[Any, Any]:
        """The first t, and whether it is the threshold already.

        If the curve reaches 0 and 1, the first t is the one at which the middle of the
        gap between the K-th and the J-th entry of d lies at the curve's centre.  If the
        gap is at least as wide as the support, every share is 0 or 1 there, the
        thresholds are an interval, and this t is its middle.
        """
        scheme, (low, high) = self.scheme, self.scheme.curve.support
        t, settled = np.float64(scheme.at_offset(-scheme.curve.centre)), False
        if self.reaches_zero and self.reaches_one:
            above, below = self._ends()
            t = scheme.at_offset(0.5 * above + 0.5 * below - scheme.curve.centre)
            settled = above - below >= high - low
        k = self.k
        if self.single and self.n > _ALONE:  # a sample gives as good a first t
            d = d[:: self.n // (2 * _SAMPLE)]
            k = k * (len(d) / self.n)
        return choose(settled, t, scheme.start(d, k, t)), settled

    def _ends(self) -> tuple[Any, Any]:
        """The K-th and J-th largest distance, finite."""
        reach = float(np.finfo(self.x.dtype).max) / 8
        # The difference of score and anchor may overflow, the difference of their
        # halves does not.
        half = np.float64(0.5)
        away = [half * end - half * self.anchor for end in self.pair]
        above, below = (2 * (v / self.tau) for v in away)
        return np.minimum(above, reach), np.maximum(below, -reach)

    def _bracket(self) -> tuple[Any, Any]:
        """Bounds of t, widened for rounding."""
        low, high = bracket(self.scheme.curve, *self._ends(), self.k, self.n)
        return self.scheme.at_offset(low), self.scheme.at_offset(high)

    def _narrow(self, sums: _Sums) -> _Sums:
        """Sums over the entries of a long row whose terms vary with t, if few.

        For a curve that reaches 0 and 1, the K-th entry has a positive share and the
        J-th a share below 1, unless the gap between them is wider than the support.  So
        an entry that lies below the K-th by at least the width of the support has the
        share 0 at the threshold, and one that lies above the J-th by as much has the
        share 1.  Their sums are added as constants.

        The curve that reaches 1 only is `exp`, with V = e^d and S as in `_ExpSums`.
        There t >= 0, since the anchor is the K-th score.  So an entry up to the anchor
        (V <= 1 <= e^t) never gets the share 1, and its V is added to S once for all.
        """
        scheme, v, (low, high) = self.scheme, sums.v, self.scheme.curve.support
        many = _FEW_DIVISOR * self.k > self.n
        if not self.reaches_one or (many and not self.reaches_zero):
            return sums
        if not self.reaches_zero:
            return _Sums(scheme, v[v > 1], self.k, (0, *sums(np.float64(0))[1:]))
        reach = 1.25 * (high - low)  # more than the width, for rounding
        above, below = self._ends()
        above, below = above + reach, below - reach
        near = (v > below) & (v < above)
        if _FEW_DIVISOR * np.count_nonzero(near) > self.n:
            return sums
        at = scheme.at_offset(below - low)
        sums_of_one = scheme.sums(np.full(1, above, v.dtype), at)
        fixed = np.count_nonzero(v >= above) * np.array(sums_of_one, np.float64)
        return _Sums(scheme, v[near], self.k, fixed)

    def _from_sample(self) -> Any:
        """`_anchored` for a long row whose scores lie near each other, else None.

        Finding the k-th score takes longer than a pass, and it serves only as the
        anchor.  The threshold may be log(n) temperatures away from it, or the width of
        the support.  So the k-th score of a sample serves as well, if the threshold
        turns out to be hardly farther than that from it.
        """
        scheme, k, n = self.scheme, self.k, self.n
        low, high = scheme.curve.support
        few = min(k, self.finite_count - k) <= 2 * (n // _SAMPLE)
        sample = self.x[:: n // _SAMPLE]
        sample = sample[sample > -np.inf]
        ends = self.reaches_zero or self.reaches_one
        if not scheme.any_anchor or (few and ends) or not sample.size:
            return None
        budget = k * (sample.size / self.finite_count)
        index = sample.size - math.ceil(budget)
        self.anchor = np.partition(sample, index)[index]
        sample = divide(sample - self.anchor, self.tau)
        if not sample.dot(sample) <= _LARGEST_DEVIATION**2 * sample.size:
            return None
        t = scheme.at_offset(np.float64(-scheme.curve.centre))
        t = scheme.start(sample, budget, t)
        t = _offsets(_Sums(scheme, scheme.prepare(sample.copy()), budget), t)
        sums = _Sums(scheme, scheme.prepare(self._distances()), k)
        t = _offsets(sums, t)
        offset, width = scheme.offset(t), high - low
        if not abs(offset) <= min(math.log(n), 1 + width):
            return None
        # If no entry of the sample has a share between 0 and 1, the thresholds may be
        # an interval, of which the K-th and J-th score give the middle.
        inner = np.abs(sample - offset - scheme.curve.centre) < 0.49 * width
        if width < math.inf and np.count_nonzero(inner) == 0:
            return None
        sums.write_shares(t)
        return t


def _offsets(sums: _Sums, t: Any, bracket: Any = None, done: Any = False) -> Any:
    """The t of every row of a block, or of a single row, from the first t.

    `bracket` is a function that returns bounds of t.  It is called only if the search
    needs them; without it the result is then NaN.
    """
    single, found, bounds = not isinstance(t, np.ndarray), t, None
    row: Any = () if single else np.arange(len(t))
    at = Search(t, -np.inf, np.inf)
    for count in range(root.LIMIT):
        here = sums(at.t)
        excess, step = sums.scheme.advance(at.t, sums.k, here)
        last = sums.last(at.t, step, here)
        if single and last:
            return step
        at = root.narrow(at, excess)
        new, halve = root.decide(at, excess, step, count)
        ask = (halve | (count > root.PATIENCE)) & (new.width == np.inf)
        if _some(ask) and _some(ask := ask & ~(done | last)):
            if bracket is None:
                return np.nan
            bounds = bounds or bracket()
            low, high = (choose(ask, end[row], np.nan) for end in bounds)
            at = at._replace(low=np.fmax(at.low, low), high=np.fmin(at.high, high))
            new, _ = root.decide(at, excess, step, count)
        still = new.t == at.t
        if single:
            if still:
                return new.t
            at = new
            continue
        at = Search(np.where(done, at.t, np.where(last, step, new.t)), *new[1:])
        done = done | last | still
        if 2 * np.count_nonzero(done) >= len(done):
            found[row] = at.t
            if done.all():
                break
            # At least half of the rows are done: the others go on without them.
            row = row[~done]
            sums = _Sums(sums.scheme, sums.v[~done], sums.k[~done])
            at = Search(*(field[~done] for field in at))
            done = done[~done]
    return found


class _Sums:
    """The scheme's sums of each row of v, plus constant sums that are given.

    A long row is summed in parts that fit the cache.
    """

    def __init__(self, scheme: Scheme, v: Array, k: Any, *fixed: Any) -> None:
        self.scheme, self.v, self.k, self.fixed = scheme, v, k, fixed
        self.unit = choose(k < 1, k, 1.0)
        step = _BLOCK_BYTES // v.itemsize
        cut = v.ndim == 1 and v.size > step
        self.parts = [v[i : i + step] for i in range(0, v.size, step)] if cut else [v]
        self.direct = not (cut or fixed)

    def __call__(self, t: Any) -> ShareSums:
        if self.direct:
            return self.scheme.sums(self.v, t)
        sums = [*self.fixed, *(self.scheme.sums(part, t) for part in self.parts)]
        m, P, C, W = (sum(terms, np.float64(0)) for terms in zip(*sums, strict=True))
        return m, P, C, W

    def write_shares(self, t: Any) -> None:
        """Write the shares over v."""
        for part in self.parts:
            self.scheme.write_shares(part, t)

    def last(self, t: Any, step: Any, sums: ShareSums) -> Any:
        """Whether a step is the last: it is small, or exact and leaves m unchanged.

        A small step is not the last if it passes a point where the slope jumps (in a
        counted scheme, where m changes) and is not 16 times smaller still: if the slope
        is many times as steep there, the right step is as many times shorter.

        `step` is the new t.  A step of an exact scheme is not the last if the new |t|
        is much smaller than the old one, or if the step changes the sum of the shares
        by much more than the budget.  In these cases the rounding errors of t and of
        the sums would remain in the result.  In a block, a `light` scheme makes one
        more pass instead.
        """
        scheme, move, W = self.scheme, abs(step - t), sums[3]
        unit = self.unit
        if scheme.edge:  # else W is at most k
            unit = np.minimum(unit, self.k / W)
        size = scheme.tiny * (unit + abs(t))
        sure = ask = move <= size
        if scheme.exact and not (scheme.light and self.v.ndim > 1):
            few = move * W < _CROSSED * self.unit
            ask = few & (abs(t) <= 2 * (unit + abs(step)))
        elif not scheme.counted:
            return sure
        if scheme.counted:
            sure = 16 * move <= size
        ask = ask & ~sure
        if _some(ask):
            ask = ask & (self.count(step) == sums[0])
        return sure | ask

    def count(self, t: Any) -> Any:
        """m alone, without the other sums, for an exact or counted scheme."""
        m = sum(sums[0] for sums in self.fixed)
        masks = (mask for part in self.parts for mask in self.scheme.past(part, t))
        if not isinstance(t, np.ndarray):
            return m + sum(map(np.count_nonzero, masks))
        dtype = self.v.dtype  # np.count_nonzero is slower along an axis
        counted = (mask.astype(dtype) for mask in masks)
        return sum(row_dot(w, w, LINE_OF_COUNTS) for w in counted)


def _some(truth: Any) -> Any:
    """Whether any is true.  np.any would take as long as a pass over a short row."""
    return np.count_nonzero(truth) if isinstance(truth, np.ndarray) else truth
