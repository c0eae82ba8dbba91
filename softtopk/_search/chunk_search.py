r"""Thresholds of rows that lie in chunks, from few passes over the chunks.

A *pass* evaluates the shares' sum F at some thresholds at once, the *nodes*, and
returns the scores that lie in given *windows*, or a sample of them if there are too
many.  The first pass, `survey`, draws a random sample of each row instead.

1. The threshold of the sample is near that of the row.  The nodes of the second pass
   are the thresholds of the sample for budgets up to six of its standard deviations
   apart.  So they bracket the threshold of the row, and the window between them is
   sampled anew.  If few scores can lie between the two thresholds and the curve allows
   step 3 with it, the sample's threshold is the only node, and step 3 follows at once.
2. F at a threshold is nearly a linear function of the same sum over a sample.  So it is
   interpolated as a function of that sum.  If the bracket is short, at most a
   temperature, the cubic through the values and slopes at its ends is accurate to a
   small part of a millionth.  Otherwise only ranks count, and a second sample, of the
   scores between the ends, takes the place of the first.
3. The windows around the nodes of the next pass contain few scores, which are returned
   as they are.  The others remain on one piece of the curve, where the interpolation is
   exact or has an error below rounding: the equation for the threshold is solved.
4. Shares in the tails of the named curves are 0, or known from the sums at the ends of
   the bracket, however wide it is.  So a pass that returns all scores between and
   around its nodes is the last one (`_joined`).
5. If there are too many of them, the sample has many as well, and the bracket is short.
   For a curve whose pieces are no polynomials or exponentials, a fourth pass has so
   many nodes in it that the interpolation between them is as good as exact
   (`_interpolated`).  So no guess has to be near enough.

If only ranks count, let a sample have :math:`q=\sqrt{32n}` scores.  After the second
pass about :math:`2n/\sqrt q` scores lie between the two nodes around the threshold, and
after the third fewer than q, unless a sample's sum is off by six of its standard
deviations.  So four passes are enough, and three if the bracket is short.  Proved in
*training/scale*.  More may be needed by entmax with alpha near 1, whose shares end a
hundred temperatures or more away but are no exponentials, and by a curve of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._rows.budget import Budget
from .._rows.numpy_rows import Array, plain_numpy_rows, quiet
from ..curves import CLIP, EXP, LAPLACE, SIGMOID, TRIANGULAR, Curve, Entmax
from . import costs_search, root
from .chunk_pass import Points, counted
from .chunk_sums import NodeSums, Survey
from .numpy_search import solve
from .numpy_sums import scheme_of

SPREAD = np.array([6.0, 2.0, 0.0, -2.0, -6.0])
"""Budgets of the nodes after a sample, in standard deviations of its sum."""

_FINER = 11  # nodes of the third pass in a wide bracket, where few shares are summed
_DENSE = 21  # nodes of a pass that interpolates between them

# A row's sample has sqrt(32 n) scores, or, if that is more, _ROW_SAMPLE (with many rows
# only _ALL_SAMPLES divided by their number).  A row no longer than that is its own
# sample.
_ROW_SAMPLE = 4096
_ALL_SAMPLES = 1 << 22
_FINE_WIDTH, _FINEST_WIDTH = 2.0**-12, 2.0**-24
"""Temperatures: widths of brackets and windows."""

_AROUND = 8.0  # temperatures around a bracket in which scores are returned
_TAIL = 18.0  # the same for the sigmoid curve: e^-36 is an eighth of eps

_ONE_NODE = 2.0**-4
"""Temperatures: one node is tried if the sample's threshold is so near."""

_SEEN = 8  # scores of a sample: with fewer selected, the next might be anywhere

_NEGLIGIBLE = 40.0
"""Temperatures: e^-40 is an eighth of the rounding error of a share."""

_EDGE = 2.0**-40  # a share this near 0 or 1 may have been rounded away from it
_WIDE = 2.0  # temperatures: in a wider bracket only ranks count
_SMALLEST_SAMPLE = 32  # scores that are too few to be a sample
_PASSES_BEFORE_BISECTION = 8  # passes after which the bracket is divided evenly


def stride(n: int, rows: int) -> float:
    """The number m such that one in m scores of a row is in its first sample."""
    most = _ALL_SAMPLES / max(rows, 1)
    if n <= max(_ROW_SAMPLE, 32) and n * rows <= _ALL_SAMPLES:
        return 1.0
    size = max(math.sqrt(32 * n), min(_ROW_SAMPLE, most))
    return max(1.0, n / size)


def per_chunk(chunks: int) -> int:
    """How many scores of a chunk are in the sample if its length is unknown."""
    return max(64, (1 << 17) // chunks)


class ChunkSearch:
    """The search for the thresholds of rows with 0 < k < n.

    The caller passes over the chunks at `nodes` and `windows` and tells what was found
    to `learn`, until no row is left.
    """

    @quiet()
    def __init__(
        self,
        curve: Curve,
        given: Survey,
        budget: Budget,
        tau: float,
        short: bool = False,
    ) -> None:
        self.nodes: Points
        self.outer: Array
        self.spare: Points | None = None  # from the sample, if the first node fails
        self.short = short  # whether the scores are in single precision
        self.curve, self.tau, self.budget = curve, tau, budget
        self.k = budget.whole + budget.part
        self.count, n = 0, given.n
        self.single, self.first, self.tried = False, False, False
        self.dense = np.zeros(len(n), bool)  # rows whose nodes are Chebyshev's
        self.sample = np.where(np.isfinite(given.sample), given.sample, -math.inf)
        self.s = (self.sample > -math.inf).sum(axis=-1)
        self.n = n
        rows = len(n)
        self.answer = Points(np.zeros(rows), np.zeros(rows))
        self.active = np.arange(rows)
        if (self.s == n).all():
            self.answer = self._solved(self.sample, self.k, self.active)
            self.active = self.active[:0]
            return
        middle = curve.inverse(budget.mean())
        slack = 2.0**-6 * (1 + abs(middle))
        self.low = Points(given.least, -middle - slack)
        self.high = Points(given.top, -middle + slack)
        y = self.k * (self.s / n)
        at = self._solved(self.sample, y, self.active)
        at = self._within(at, self.active)
        p = self._shares(self.sample, at)
        mean = p.sum(-1) / np.maximum(self.s, 1)
        off = np.where(self.sample > -math.inf, p - mean[:, None], 0)
        variance = (off * off).sum(axis=-1)
        change = self._change_by_one(self.sample, p, y)
        # An outlier of which the sample has none may be the score more.
        ends = np.stack([given.top, given.least], axis=-1)
        share = self._shares(ends, at)
        unseen = np.where(2 * y < self.s, share[:, 0], 1 - share[:, 1])
        deviation = np.sqrt(variance + np.maximum(change, unseen) ** 2)
        self._spread(self.active, self.sample, y, deviation)
        self._open(at, y, deviation)

    # What the next pass is to find ---------------------------------------------

    @quiet()
    def windows(self) -> tuple[Array, Array, Array]:
        """Low and high ends, and m, where one in m scores between them is returned.

        If the nodes are close (mode 0), the windows hold the scores that may change
        from one piece of the curve to another.  If they are close and there are few
        scores around all of them (mode 1), one window holds these.  If they are far
        from each other (mode 2), there is a window for each interval between two nodes,
        and some temperatures around it.
        """
        curve, tau, nodes = self.curve, self.tau, self.nodes
        if self.single:
            ends_at = nodes.t + self.outer[:, None] * np.array([[-1.0, 1.0]])
            both = Points(nodes.a + 0 * ends_at, ends_at)
            points = [both.pick((slice(None), j)) for j in (0, 0, 0, 0, 1)]
        else:
            number = nodes.a.shape[1]
            points = [nodes.pick((slice(None), j)) for j in range(number)]
        span = points[-1].minus(points[0], tau)
        kinks = kinks_of(curve)
        ends = (kinks[0], kinks[-1]) if kinks else (0.0, 0.0)
        # Beyond the ends of its support the curve is constant.
        tail = _TAIL if curve is SIGMOID else _AROUND
        reach = [0 if math.isfinite(end) else tail for end in curve.support]
        start = [_outward(at, ends[0] - reach[0], tau, -1) for at in points]
        stop = [_outward(at, ends[1] + reach[1], tau, 1) for at in points]
        count = len(points) - 1
        low, high = np.full((2, len(span), count), [[[math.inf]], [[-math.inf]]])
        for j, kink in enumerate(kinks):
            low[:, j] = _outward(points[0], kink, tau, -1)
            # Shares just above 0 are no smooth function of the threshold.
            more = np.where(self.dense[self.active] & (kink < 0), span, 0)
            high[:, j] = _outward(points[-1], kink + more, tau, 1)
            if j:
                below = np.nextafter(low[:, j], -math.inf)
                high[:, j - 1] = np.minimum(high[:, j - 1], below)
        around = self._expected(start[0], stop[-1])
        self.mode = np.where(span > _WIDE, 2, around <= self.most() / 2)
        self.mode = np.where(self.dense[self.active] | self.single, 0, self.mode)
        joint, apart = (self.mode[:, None] == mode for mode in (1, 2))
        first = np.arange(count) == 0
        low = np.where(joint, np.where(first, start[0][:, None], math.inf), low)
        high = np.where(joint, np.where(first, stop[-1][:, None], -math.inf), high)
        low = np.where(apart, np.stack(start[:-1], axis=-1), low)
        high = np.where(apart, np.stack(stop[1:], axis=-1), high)
        every = np.ones(low.shape)
        for j in range(count):
            size = self._expected(low[:, j], high[:, j])
            every[:, j] = np.maximum(1.0, size / self.most())
        return low, high, every

    @quiet()
    def near(self) -> Array:
        """Between which scores the shares at the nodes are not 0 or 1, two a row.

        The tails of three curves are exponential.  All scores that are farther away
        have together a share, or lack one, that is a small part of a rounding error.
        """
        curve, nodes = self.curve, self.nodes
        lower, upper = curve.support
        reach: Any = math.inf
        if _tailed(curve):
            k = self.budget.pick(self.active)
            few = np.minimum(np.minimum(k.without(0), k.rest()), 1)
            reach = _NEGLIGIBLE + np.log(self.n[self.active] / few)[:, None]
        below = -reach if lower == -math.inf else lower
        above = reach if upper == math.inf else upper
        low = _outward(nodes, below, self.tau, -1).min(axis=-1)
        high = _outward(nodes, above, self.tau, 1).max(axis=-1)
        return np.stack([low, high], axis=-1)

    def _expected(self, low: Array, high: Array) -> Array:
        """How many scores lie in windows, or different ones if many are equal."""
        x = self.sample[self.active]
        on = (x >= low[:, None]) & (x <= high[:, None])
        found = on.sum(axis=-1)
        size = found * (self.n[self.active] / np.maximum(self.s[self.active], 1))
        for i in np.flatnonzero(found >= 4 * _SMALLEST_SAMPLE):
            different = len(np.unique(x[i][on[i]]))
            if 8 * different <= found[i]:
                size[i] = different
        return size

    def most(self) -> int:
        """About so many scores of a row are returned at most."""
        return max(256, self.sample.shape[1])

    # What a pass has found ---------------------------------------------------------

    @property
    def precise(self) -> bool:
        """Whether the next pass is to calculate in double precision in any case."""
        return not self.single and self.count > 0

    @quiet()
    def learn(self, got: NodeSums) -> None:
        """Take the rows that are solved, and place the nodes of the others."""
        self.count += 1
        if self.first:
            self._closer(got)
            return
        if self.single:
            self._finish(got)
            return
        left, nodes, tau = self.active, self.nodes, self.tau
        precise = self.count > 1
        eps = np.finfo(np.float64).eps
        m, P, C, W = np.moveaxis(got.sums, -1, 0)
        k = self.budget.pick((left, None))
        few = np.minimum(k.without(0), k.rest())
        excess = (P - C) - k.without(m)
        noise = 2 * eps * (P + C) + eps / 16 * np.minimum(few, 1)
        # A row whose excess vanishes at a node has its threshold there.
        size = abs(excess) / np.maximum(noise, np.finfo(np.float64).tiny)
        best = size.argmin(axis=-1)
        rows = np.arange(len(left))
        solved = size[rows, best] <= 1
        answer, budget = nodes.pick((rows, best)), self.budget.pick(left)
        if got.neighbours is not None:
            beside = tuple(np.moveaxis(got.neighbours[rows, best], -1, 0))
            settled = root.middle_threshold(self.curve, budget, tau, *answer, beside)
            answer = Points(*settled).where(solved, answer)
        # The bracket: its ends are two neighbours among the nodes, or a former end.
        above = np.logical_and.accumulate(excess > 0, axis=-1).sum(axis=-1)
        number = nodes.a.shape[1]
        inside = (above > 0) & (above < number)
        lower = rows, np.maximum(above - 1, 0)
        upper = rows, np.minimum(above, number - 1)
        old = self.low.pick(left), self.high.pick(left)
        low = nodes.pick(lower).where(above > 0, old[0])
        high = nodes.pick(upper).where(above < number, old[1])
        sums, pairs = (excess, m, P, C, W), ((low, lower), (high, upper))
        ends = [_Bound(at, *(v[index] for v in sums)) for at, index in pairs]
        self.low.write(left, low)
        self.high.write(left, high)
        width = high.minus(low, tau)
        got = self._chosen(got, lower[1])
        # With all scores of the windows the equation is solved, and is exact if the
        # sum of the others is interpolated without an error.
        complete = inside & (got.every[:, 0] == 1)
        by, certain = self._resolved(ends, width, got)
        close = low.moved(by, tau)
        # In modes 1 and 2 the windows hold all scores whose shares are not 0 or 1 (or,
        # in a wide bracket of a curve without ends, not nearly so).  Then the equation
        # is solved for these scores alone.
        on = got.times > 0
        u = np.where(on, root.distances(got.values, tau, *low), -math.inf)
        taken = (counted(self.curve, u) * got.times).sum(axis=-1)
        spent = budget.without(m[lower]) + taken
        alone = complete & (self.mode > 0) & (root.ends(self.curve) | (width > _WIDE))
        alone &= (spent > 0) & (spent < (got.times * on).sum(axis=-1))
        if alone.any():
            spent = np.where(alone, spent, 0.5)
            exact = self._solved(got.values, spent, left, got.times)
            close = exact.where(alone, close)
            # Where all shares are 0 or 1, the next pass finds the ends of the gap.
            p = self._shares(got.values, close)
            inner = ((p > _EDGE) & (p < 1 - _EDGE)).any(axis=-1) & root.ends(self.curve)
            certain = np.where(alone, inner, certain)
        if _tailed(self.curve):
            known = complete & ((self.mode > 0) | (self.curve is not SIGMOID))
            short = self.short and not precise
            exact, good = self._joined(ends, width, got, short)
            certain |= known & good
            close = exact.where(known & good, close)
        if self.dense[left].any():
            exact, good = self._interpolated(excess, W, low, high, got)
            good &= self.dense[left] & complete
            certain |= good
            close = exact.where(good, close)
        accepted = ~solved & ((complete & certain) | (width <= 2.0**-50))
        answer = close.where(accepted, answer)
        solved |= accepted
        self.answer.write(left[solved], answer.pick(solved))
        keep = ~solved
        if not keep.any():
            self.active = left[:0]
            return
        self._place(left, keep, ends, width, inside, complete, close, got)

    def _chosen(self, got: NodeSums, bracket: Array) -> NodeSums:
        """The scores of the windows that matter, as those of one window."""
        r, _, length = got.values.shape
        rows, apart = np.arange(r), self.mode == 2
        joined = [v.reshape(r, -1) for v in (got.values, got.times)]
        if apart.all():
            joined = [v[:, :length] for v in joined]
        window = np.minimum(bracket, got.values.shape[1] - 1)
        for v, own in zip(joined, (got.values, got.times), strict=True):
            # Before v, which may be a view, is changed.
            chosen = own[rows, window][apart]
            v[apart] = 0
            v[apart, :length] = chosen
        joined[0] = np.where(joined[1] > 0, joined[0], -math.inf)
        every = np.where(apart, got.every[rows, window], got.every.max(axis=-1))
        return got._replace(values=joined[0], times=joined[1], every=every[:, None])

    def _resolved(
        self, ends: list[_Bound], width: Array, got: NodeSums
    ) -> tuple[Array, Array]:
        """How far above the lower end the threshold is, and whether that is exact."""
        curve, tau, (low, high) = self.curve, self.tau, ends
        eps = np.finfo(np.float64).eps
        u = root.distances(got.values, tau, *low.node)
        on, times = got.times > 0, got.times
        u = np.where(on, u, -1e9)
        p, w = curve.value(u), np.where(on, curve.slope(u), 0)

        def listed(by: Array) -> tuple[Array, Array]:
            v = u - by[:, None]
            gain = np.where(on, curve.value(v) - p, 0) * times
            return gain.sum(axis=-1), -(np.where(on, curve.slope(v), 0) * times).sum(-1)

        span = np.where(np.isfinite(width), width, 1.0)
        rise, slope = listed(span)
        change = high.excess - low.excess - rise
        first, last = -(low.W - (w * times).sum(-1)), -high.W - slope
        size = low.P + low.C + high.P + high.C
        still = abs(change) <= 4 * eps * size
        first, last = (np.where(abs(v) <= 4 * eps * size, 0, v) for v in (first, last))
        exact = np.full(len(width), _piecewise(curve))
        exponential = curve is EXP or curve is LAPLACE
        below = np.where(u < 0, p, 0) if exponential else 0 * p
        P = low.P - (below * times).sum(axis=-1)
        over = np.where((u >= 0) & on, curve.complement(u), 0) if exponential else 0 * p
        C = low.C - (over * times).sum(axis=-1)
        short = exponential & (width <= 1)
        if curve is EXP:
            C = 0 * C

        def others(by: Array) -> tuple[Array, Array]:
            """The change of the others' sum, and its slope."""
            s = by / span
            cubic = span * (s * (1 - s) ** 2 * first - s * s * (1 - s) * last)
            value = s * s * (3 - 2 * s) * change + cubic
            turn = (6 * s * (1 - s) * change) / span
            turn = turn + (1 - s) * (1 - 3 * s) * first + s * (3 * s - 2) * last
            value, turn = np.where(still, 0, value), np.where(still, 0, turn)
            own = P * np.expm1(-by) - C * np.expm1(by)
            own_turn = -P * np.exp(-by) - C * np.exp(by)
            return np.where(short, own, value), np.where(short, own_turn, turn)

        least, most = np.zeros(len(span)), span.copy()
        by = span * np.clip(low.excess / (low.excess - high.excess), 0, 1)
        by = np.where(np.isfinite(by), by, 0.5 * span)
        for _ in range(100):
            (gain, loss), (own, turn) = listed(by), others(by)
            value, fall = low.excess + own + gain, turn + loss
            least = np.where(value >= 0, by, least)
            most = np.where(value <= 0, by, most)
            step = by - value / fall
            good = (step > least) & (step < most)
            new = np.where(value == 0, by, np.where(good, step, 0.5 * (least + most)))
            near = (abs(new - by) <= eps * 2.0**-3 * (1 + by)).all()
            by = new
            if near:
                break
        certain = exact | short | still
        certain |= (width <= _FINE_WIDTH) & (curve.bend < math.inf)
        certain |= (width <= 4 * _FINEST_WIDTH) & (scheme_of(curve) is not None)
        if root.ends(curve):  # else the thresholds may be an interval
            v = u - by[:, None]
            inner = np.minimum(curve.value(v), curve.complement(v))
            certain &= (np.where(on, inner, 0) > _EDGE).any(axis=-1) | (first < 0)
        return by, certain & (by <= 2) & (listed(by)[1] + others(by)[1] < 0)

    def _joined(
        self, ends: list[_Bound], width: Array, got: NodeSums, short: bool
    ) -> tuple[Points, Array]:
        """The threshold, however wide the bracket is, and whether it is good.

        The windows hold all scores in the bracket, and for the sigmoid curve those
        `_TAIL` temperatures around it.  The sum of the shares of the scores below is
        then :math:`Pe^{-s}` at s temperatures above the lower end, and that of what
        the shares above lack :math:`Ce^{-t}` at t temperatures below the upper end.
        For the sigmoid curve these are the first terms of power series.  With the sum
        Q of the squares of P's terms, the first two are :math:`(P+Q)e^{-s}-Qe^{-2s}`,
        and the third is less than :math:`e^{-36}` of the first, which is below
        rounding.  The squares of both sums follow from the slopes p(1 - p) at the two
        ends: at each, P + C - W is the sum of all squares.

        The number M of the scores above is that of an end without the scores of the
        windows that are above it.  If the two ends disagree on it, or a score is so
        near to an end that the pass may have taken it for one on the other side, the
        answer is not good.
        """
        curve, tau, (low, high) = self.curve, self.tau, ends
        on, times = got.times > 0, got.times
        budget = self.budget.pick(self.active)
        M, P, C, D, near = [], [], [], [], np.zeros(len(width), bool)
        tight = 2.0**-16 if short else 2.0**-40
        for end in ends:
            u = root.distances(got.values, tau, *end.node)
            p, q, in_m = curve.value(u), curve.complement(u), counted(curve, u)
            M.append(end.m - (times * (on & in_m)).sum(axis=-1))
            P.append(end.P - (times * np.where(on & ~in_m, p, 0)).sum(axis=-1))
            C.append(end.C - (times * np.where(on & in_m, q, 0)).sum(axis=-1))
            w = np.where(on & np.isfinite(u), curve.slope(u), 0)
            D.append(P[-1] + C[-1] - (end.W - (times * w).sum(axis=-1)))
            near |= (on & (abs(u) <= tight)).any(axis=-1)
        share = np.exp(-2 * width)
        squares = [
            (a - share * b) / -np.expm1(-4 * width) if curve is SIGMOID else 0 * a
            for a, b in (D, D[::-1])
        ]
        good = (M[0] == M[1]) & ~near & np.isfinite(width)
        # The first solution is the anchor of the second: far from the lower end a
        # distance has too few digits.
        at = low.node.moved(np.where(good, 0.5 * width, 0), tau)

        def value(at: Points, u: Array, s: Array) -> tuple[Array, Array, Array]:
            v, at = u - s[:, None], Points(at.a, at.t + s)
            p, q, in_m = curve.value(v), curve.complement(v), on & counted(curve, v)
            w = np.where(np.isfinite(v), curve.slope(v), 0)
            below, fall = _moved_sum(P[0], squares[0], at.minus(low.node, tau))
            above, rise = _moved_sum(C[1], squares[1], high.node.minus(at, tau))
            below = below + (times * np.where(on & ~in_m, p, 0)).sum(axis=-1)
            above = above + (times * np.where(in_m, q, 0)).sum(axis=-1)
            left = budget.without(M[0] + (times * in_m).sum(axis=-1))
            slope = fall + rise + (times * w).sum(axis=-1)
            return (below - above) - left, slope, below + above

        for _ in range(3):
            least, most = low.node.minus(at, tau), high.node.minus(at, tau)
            u = np.where(on, root.distances(got.values, tau, *at), -math.inf)
            now = partial(value, at, u)
            good &= (now(least)[0] >= 0) & (now(most)[0] <= 0)
            at = at.moved(_root_between(now, least, most, good), tau)
        return at, good & (now(0 * width)[1] > 0)

    def _interpolated(
        self, excess: Array, W: Array, low: Points, high: Points, got: NodeSums
    ) -> tuple[Points, Array]:
        """The threshold by interpolation between Chebyshev's nodes.

        What is interpolated is the sum over the scores that are not in the windows.
        Their shares are analytic functions of the threshold: those of the sigmoid curve
        where its imaginary part is below pi, and those of entmax until they reach 0,
        which is farther away than the nodes are apart.  The nodes are at most one
        temperature apart, so that in an ellipse of Bernstein with the half-axis 2, and
        the parameter 8, the shares grow by less than a factor e^3: the interpolation's
        error is below :math:`8^{-20}e^3<10^{-16}` of them.
        """
        curve, tau, nodes = self.curve, self.tau, self.nodes
        on, times = got.times > 0, got.times
        base = nodes.pick((slice(None), 0))
        u = np.where(on, root.distances(got.values, tau, *base), -math.inf)
        p = curve.value(u)
        offsets = nodes.minus(base.pick((slice(None), None)), tau)

        def listed(s: Array) -> tuple[Array, Array]:
            v = u - s[:, None]
            w = np.where(np.isfinite(v), curve.slope(v), 0)
            change = times * np.where(on, curve.value(v) - p, 0)
            return change.sum(axis=-1), (times * w).sum(axis=-1)

        own = [listed(s) for s in offsets.T]
        sums = excess - np.stack([change for change, _ in own], axis=-1)
        slopes = W - np.stack([w for _, w in own], axis=-1)
        sign = (-1.0) ** np.arange(_DENSE)
        sign[[0, -1]] /= 2

        def value(s: Array) -> tuple[Array, Array, Array]:
            away = s[:, None] - offsets
            at = away == 0
            weight = np.where(at.any(axis=-1)[:, None], at, sign / away)
            weight = weight / weight.sum(axis=-1)[:, None]
            change, slope = listed(s)
            sums_here = (weight * sums).sum(axis=-1) + change
            size = np.maximum(abs(sums).max(axis=-1), abs(sums_here)) * 4
            return sums_here, (weight * slopes).sum(axis=-1) + slope, size

        least, most = low.minus(base, tau), high.minus(base, tau)
        good = np.isfinite(most - least) & (most - least <= 1)
        good &= (value(least)[0] >= 0) & (value(most)[0] <= 0)
        by = _root_between(value, least, most, good)
        return base.moved(by, tau), good & (value(by)[1] > 0)

    def _place(
        self,
        left: Array,
        keep: Array,
        ends: list[_Bound],
        width: Array,
        inside: Array,
        complete: Array,
        close: Points,
        got: NodeSums,
    ) -> None:
        """The nodes of the next pass, of the rows that are kept."""
        tau = self.tau
        self.active = rows = left[keep]
        low, high = (end.pick(keep) for end in ends)
        width, inside, complete = width[keep], inside[keep], complete[keep]
        close, values = close.pick(keep), got.values[keep]
        times = got.times[keep]
        # F is interpolated as a function of y, the sum of the shares of a sample z: the
        # row's first sample or, in a wide bracket, what the windows returned.
        sample = self.sample[rows]
        size = max(sample.shape[1], values.shape[1])
        many = (times > 0).sum(axis=-1) >= _SMALLEST_SAMPLE
        again = inside & (width > _WIDE) & many
        z = np.full((len(rows), size), -math.inf)
        z[:, : sample.shape[1]] = sample
        z[again] = -math.inf
        z[again, : values.shape[1]] = values[again]
        (y, slope), (y1, slope1) = (self._coordinate(z, v.node) for v in (low, high))
        drop, fall = high.excess - low.excess, y1 - y
        turns = [low.W / slope * fall, high.W / slope1 * fall]
        short = width <= _WIDE
        turns = [
            np.where(short & np.isfinite(v), np.clip(v, 3 * drop, 0), drop)
            for v in turns
        ]
        s = _cubic_root(low.excess, high.excess, *turns)
        goal = y + s * fall
        change = self._change_by_one(z, self._shares(z, low.node), goal)
        deviation = 0.5 * np.sqrt(np.maximum(-fall, 0)) + change
        # Outside of all nodes, the sample is trusted for the slope alone.
        count = (z > -math.inf).sum(axis=-1)
        off, base = low.excess, np.where(low.excess < 0, y1, y)
        share = self.s[rows] / self.n[rows]
        goal = np.where(inside, goal, base - off * share)
        deviation = np.where(inside, deviation, 4 * np.sqrt(abs(off) * share) + 4)
        lost = ~((goal > 0) & (goal < count)) & inside
        guess = self._solved(z, np.where(lost, 0.5 * count, goal), rows)
        pairs = zip(low.node, high.node, strict=True)
        guess = Points(*(0.5 * a + 0.5 * b for a, b in pairs)).where(lost, guess)
        guess = self._within(close.where(complete, guess), rows)
        guess = guess.moved(0.0, tau)
        # The next nodes lie close around the guess if it is good (`fine`), otherwise at
        # budgets of the sample (`_spread`).
        fine = complete | (inside & (width <= _WIDE))
        # If the windows held too many scores, the next nodes lie closer together.
        outer = np.minimum(width / 64, 2.0**-6)
        held = times.sum(axis=-1) * got.every[keep, 0]
        room = width * self.most() / (16 * np.maximum(held, 1))
        crowded = ~complete & np.isfinite(room)
        outer = np.where(crowded, np.minimum(outer, room), outer)
        inner = np.where(short, _FINEST_WIDTH, _FINE_WIDTH)
        inner = np.minimum(inner, outer / 64)
        goal = np.where(lost, 0.5 * count, goal)
        dense = (width <= _WIDE) & (self.count > 1) & _analytic(self.curve)
        self.dense = np.zeros(len(self.n), bool)
        self.dense[rows] = dense
        number = len(SPREAD)
        if dense.any() or not fine.all():
            number = _FINER if self.count == 1 else _DENSE
        self._spread(rows, z, goal, deviation, number)
        if number > len(SPREAD):
            self._add_ends(rows)
        power = np.linspace(0, 1, number // 2)
        side = outer[:, None] * (inner / outer)[:, None] ** power
        steps = np.concatenate([-side, 0 * outer[:, None], side[:, ::-1]], axis=-1)
        around = Points(guess.a[:, None] + 0 * steps, guess.t[:, None] + steps)
        self.nodes = around.where(fine[:, None], self.nodes)
        if dense.any():
            self.nodes = self._chebyshev(guess, rows).where(dense[:, None], self.nodes)
        if self.count > _PASSES_BEFORE_BISECTION:
            self.dense[rows] = False
            part = np.array([0.0625, 0.25, 0.5, 0.75, 0.9375])
            pairs = zip(self.low.pick(rows), self.high.pick(rows), strict=True)
            even = [(1 - part) * v[:, None] + part * w[:, None] for v, w in pairs]
            other = (self.count % 2 == 0) | (self.count > 4 * _PASSES_BEFORE_BISECTION)
            self.nodes = Points(*even) if other else self.nodes

        # For some curves the sums at one node near the threshold say enough.  This is
        # tried once, when every row has a good guess.
        sharp = self.curve is SIGMOID and not self.short and (width > _WIDE).any()
        alone = fine.all() and not dense.any() and not self.tried and not sharp
        if alone and _one_node(self.curve):
            self.single, self.outer, self.spare = True, outer, None
            self.nodes = Points(guess.a[:, None], guess.t[:, None])

    def _open(self, at: Points, y: Array, deviation: Array) -> None:
        """One node instead of many, where the sample's threshold is near the rows'.

        If few scores lie where the thresholds can be, it is the last one.
        """
        slope = self._coordinate(self.sample, at)[1]
        error = deviation / slope
        sharp = self.curve is SIGMOID and not self.short
        many = np.minimum(y, self.s - y) >= _SEEN
        if _one_node(self.curve) and not sharp and (many & (error < _ONE_NODE)).all():
            reach = SPREAD[0] * error
            few = (self._around(at, reach) <= self.most() / 2).all()
            self.single, self.first = True, self.curve is SIGMOID or not few
            self.outer = np.full(len(y), -1.0) if self.first else reach
            self.guess, self.spare = (y, slope, error), self.nodes
            self.nodes = Points(at.a[:, None], at.t[:, None])

    def _around(self, at: Points, reach: Any) -> Array:
        """How many scores may lie so near to where the curve has a kink."""
        sizes = []
        for kink in kinks_of(self.curve):
            low = _outward(at, kink - reach, self.tau, -1)
            high = _outward(at, kink + reach, self.tau, 1)
            sizes.append(self._expected(low, high))
        return np.sum(sizes, axis=0)

    def _closer(self, got: NodeSums) -> None:
        """Place the next node, which is meant to be the last, by Newton's step.

        The step excess / W, times the slope of the sample's sum, is a change of that
        sum; the node is the threshold of the sample with the sum so changed.
        """
        at = self.nodes.pick((slice(None), 0))
        m, P, C, W = np.moveaxis(got.sums[:, 0], -1, 0)
        excess, (y, slope, error) = (P - C) - self.budget.without(m), self.guess
        low, high = self.low.pick(self.active), self.high.pick(self.active)
        self.low, self.high = at.where(excess > 0, low), at.where(excess < 0, high)
        near = self._solved(self.sample, y - excess * slope / W, self.active)
        near = self._within(near, self.active).moved(0.0, self.tau)
        # The step leaves a part of the sample's error, squared; and the windows are to
        # hold few enough scores.
        kinks = kinks_of(self.curve)
        crowd: Any = 1.0
        if kinks:
            crowd = np.maximum(self._around(near, _ONE_NODE), 1) / (2 * _ONE_NODE)
        missed = _FINE_WIDTH + 4 * error * error
        self.outer = np.minimum(missed, self.most() / (4 * crowd))
        self.nodes = Points(near.a[:, None], near.t[:, None])
        self.first, self.spare = False, None

    def _finish(self, got: NodeSums) -> None:
        """Take the rows that the sums at one node, near the threshold, are enough for.

        The sum of the scores that stay on one piece of the curve is an exponential, or
        linear in the threshold; for the sigmoid curve the step must be short.
        """
        left, curve, tau = self.active, self.curve, self.tau
        at = self.nodes.pick((slice(None), 0))
        m, P, C, W = np.moveaxis(got.sums[:, 0], -1, 0)
        budget = self.budget.pick(left)
        excess = (P - C) - budget.without(m)
        values, times = (v.reshape(len(left), -1) for v in (got.values, got.times))
        on = times > 0
        u = np.where(on, root.distances(values, tau, *at), -1e9)
        p, in_m = curve.value(u), counted(curve, u)
        step = curve.step(excess, P, C, W, P)
        P = P - (np.where(on & ~in_m, p, 0) * times).sum(axis=-1)
        C = C - (np.where(on & in_m, curve.complement(u), 0) * times).sum(axis=-1)
        W = W - (np.where(on, curve.slope(u), 0) * times).sum(axis=-1)

        def value(by: Array) -> tuple[Array, Array]:
            v = u - by[:, None]
            change = (np.where(on, curve.value(v) - p, 0) * times).sum(axis=-1)
            fall = (np.where(on, curve.slope(v), 0) * times).sum(axis=-1)
            if curve is EXP:
                change, fall = change + P * np.expm1(-by), fall + P * np.exp(-by)
            elif curve is LAPLACE:
                change = change + P * np.expm1(-by) - C * np.expm1(by)
                fall = fall + P * np.exp(-by) + C * np.exp(by)
            else:
                change, fall = change - W * by, fall + W
            return excess + change, fall

        least, most = -self.outer, self.outer.copy()
        accepted = (value(least)[0] >= 0) & (value(most)[0] <= 0)
        by = np.zeros(len(left))
        for _ in range(100):
            now, fall = value(by)
            least, most = np.where(now >= 0, by, least), np.where(now <= 0, by, most)
            step = by + now / fall
            good = (step >= least) & (step <= most)
            new = np.where(now == 0, by, np.where(good, step, 0.5 * (least + most)))
            if (abs(new - by) <= 2.0**-55).all():
                break
            by = new
        accepted &= (got.every == 1).all(axis=-1) & (value(by)[1] > 0)
        if kinks_of(curve):
            interval = (budget.part == 0) & root.ends(curve)
            flat = (P == 0) & (C == 0) & ~((p > _EDGE) & (p < 1 - _EDGE) & on).any(-1)
            accepted &= ~(interval & flat)
        else:
            accepted &= abs(by) <= (4e-4 if self.short else 5e-9)
        answer = at.moved(by, tau)
        self.answer.write(left[accepted], answer.pick(accepted))
        self.single, self.tried = False, True
        self._again(at, excess, step, got, ~accepted)

    def _again(
        self, at: Points, excess: Array, step: Array, got: NodeSums, keep: Array
    ) -> None:
        """Place five nodes around Newton's step from the one that was not enough."""
        self.active, at, step = self.active[keep], at.pick(keep), step[keep]
        rows, excess = self.active, excess[keep]
        for end, tight in ((self.low, excess > 0), (self.high, excess < 0)):
            end.write(rows[tight], at.pick(tight))
        near_by = abs(step) <= self.outer[keep]
        step = np.where(np.isfinite(step), step, 0)
        near = self._within(at.moved(step, self.tau), rows).moved(0.0, self.tau)
        # The windows are to hold few enough scores.
        every = got.every[keep].max(axis=-1)
        held = got.times[keep].sum(axis=(-2, -1)) * every
        outer = np.minimum(self.outer[keep], _FINE_WIDTH * 64)
        outer = np.where(every > 1, outer * self.most() / (8 * held), outer)
        inner = outer / 16
        if not kinks_of(self.curve):  # the step leaves an error of a part of its square
            inner = np.clip(step * step, _FINEST_WIDTH, _FINE_WIDTH / 4)
            outer = np.maximum(outer, 4 * inner)
        around = np.stack([-outer, -inner, 0 * inner, inner, outer], axis=-1)
        self.nodes = Points(near.a[:, None] + 0 * around, near.t[:, None] + around)
        if self.spare is not None:
            self.nodes = self.nodes.where(near_by[:, None], self.spare.pick(keep))

    # Helpers -----------------------------------------------------------------------

    def _solved(
        self, x: Array, y: Array, rows: Array, times: Array | None = None
    ) -> Points:
        """The thresholds of samples for budgets between 0 and their size."""
        if times is not None and (times > 1).any():
            return self._solved_with(x, y, times)
        count = (x > -math.inf).sum(axis=-1)
        reachable = (y > 0) & (y < count)
        k = np.where(reachable, y, 0.5 * count)
        _, *found = solve(self.curve, plain_numpy_rows(x, k, count), self.tau)
        at = Points(*found)
        if reachable.all():
            return at
        other = self.low.pick(rows).where(y >= count, self.high.pick(rows))
        return at.where(reachable & (count > 0), other)

    def _solved_with(self, x: Array, y: Array, times: Array) -> Points:
        """The same for scores that occur several times."""
        x = np.where(times > 0, x, 0)
        rows = costs_search.rows_with_costs(x, times, y, 0 * y, self.tau, "cost")
        inner = (y > 0) & (y < times.sum(-1))
        return Points(*costs_search.solve_costs(self.curve, rows, inner))

    def _within(self, at: Points, rows: Array) -> Points:
        low, high = self.low.pick(rows), self.high.pick(rows)
        at = at.where(at.minus(low, self.tau) > 0, low)
        return at.where(high.minus(at, self.tau) > 0, high)

    def _shares(self, x: Array, at: Points) -> Array:
        p = self.curve.value(root.distances(x, self.tau, *at))
        return np.where(x > -math.inf, p, 0)

    def _change_by_one(self, x: Array, p: Array, y: Array) -> Array:
        """The most by which one score more in the sample could change its sum."""
        most = p.max(axis=-1, initial=0)
        rest = np.where(x > -math.inf, 1 - p, 0).max(axis=-1, initial=0)
        return np.where(2 * y < (x > -math.inf).sum(axis=-1), most, rest)

    def _coordinate(self, x: Array, at: Points) -> tuple[Array, Array]:
        """The sum of the shares of a sample, and of their slopes."""
        u = root.distances(x, self.tau, *at)
        finite = np.isfinite(u)
        w = np.where(finite, self.curve.slope(np.where(finite, u, 0)), 0)
        return self._shares(x, at).sum(axis=-1), w.sum(axis=-1)

    def _chebyshev(self, guess: Points, rows: Array) -> Points:
        """Chebyshev's nodes, ends included, at most a temperature apart.

        They lie closer together if there are many scores near the curve's kinks.
        """
        half = np.full(len(rows), 0.5)
        if kinks_of(self.curve):
            crowd = np.maximum(self._around(guess, 0.5), 1)
            half = np.minimum(half, self.most() / (16 * crowd))
        low = np.maximum(self.low.pick(rows).minus(guess, self.tau), -half)
        high = np.minimum(self.high.pick(rows).minus(guess, self.tau), half)
        part = 0.5 - 0.5 * np.cos(np.pi * np.arange(_DENSE) / (_DENSE - 1))
        steps = low[:, None] + (high - low)[:, None] * part
        return Points(guess.a[:, None] + 0 * steps, guess.t[:, None] + steps)

    def _add_ends(self, rows: Array) -> None:
        """Two nodes as far inside a very wide bracket as shares reach.

        Beyond them the shares of the scores outside of the bracket are 0 or 1.
        """
        both = sum(min(abs(end), 4 * _TAIL) for end in self.curve.support)
        low, high = self.low.pick(rows), self.high.pick(rows)
        far_apart = high.minus(low, self.tau) > 4 * both
        nodes = Points(self.nodes.a.copy(), self.nodes.t.copy())
        for j, end, by in ((1, low, both), (-2, high, -both)):
            nodes.a[:, j] = np.where(far_apart, end.a, nodes.a[:, j])
            nodes.t[:, j] = np.where(far_apart, end.t + by, nodes.t[:, j])
        order = nodes.minus(low.pick((slice(None), None)), self.tau).argsort(axis=-1)
        self.nodes = Points(*(np.take_along_axis(v, order, axis=-1) for v in nodes))

    def _spread(
        self, rows: Array, x: Array, y: Array, deviation: Array, number: int = 5
    ) -> None:
        """Nodes at budgets of a sample around y."""
        nodes, rest = [], (x > -math.inf).sum(axis=-1) - y
        even = np.linspace(1, -1, number)
        many = SPREAD[0] * even * abs(even)
        for c in SPREAD if number == len(SPREAD) else many:
            budget = y + c * deviation
            if abs(c) < SPREAD[0]:  # the outer ones may be the ends of the bracket
                shift = abs(c) * deviation
                if c < 0:
                    budget = np.where(y > 2 * shift, budget, y / (1 + shift / y))
                else:
                    bent = (y + rest) - rest / (1 + shift / rest)
                    budget = np.where(rest > 2 * shift, budget, bent)
            at = self._solved(x, budget, rows)
            nodes.append(self._within(at, rows))
        self.nodes = Points(*(np.stack(v, axis=-1) for v in zip(*nodes, strict=True)))


class _Bound(NamedTuple):
    """An end of the bracket, and the sums there."""

    node: Points
    excess: Array
    m: Array
    P: Array
    C: Array
    W: Array

    def pick(self, keep: Array) -> _Bound:
        """Of some rows."""
        return _Bound(self.node.pick(keep), *(v[keep] for v in self[1:]))


def kinks_of(curve: Curve) -> list[float]:
    """Where a curve changes from one piece to another, ascending, if that is known."""
    if curve is LAPLACE:
        return [0.0]
    ends = {end for end in curve.support if math.isfinite(end)}
    return sorted(ends | {0.0}) if curve is TRIANGULAR else sorted(ends)


def _tailed(curve: Curve) -> bool:
    """Whether the shares are exponential far from the threshold, or all of them."""
    return curve is EXP or curve is LAPLACE or curve is SIGMOID


def _analytic(curve: Curve) -> bool:
    """Whether a pass with Chebyshev's nodes tells the threshold between them."""
    return curve is SIGMOID or (isinstance(curve, Entmax) and not _piecewise(curve))


def _one_node(curve: Curve) -> bool:
    """Whether the sums at one node tell those at the thresholds nearby."""
    return curve is EXP or curve is LAPLACE or curve is CLIP or curve is SIGMOID


def _piecewise(curve: Curve) -> bool:
    """Whether the pieces are polynomials of at most the third degree."""
    known = isinstance(curve, Entmax) and curve.b in (0.5, 1)
    return curve is CLIP or curve is TRIANGULAR or known


def _outward(at: Points, by: Any, tau: float, side: int) -> Array:
    """A score so many temperatures from a threshold, rounded away from it."""
    x = at.a + tau * (at.t + by)
    size = abs(at.a) + tau * (abs(at.t) + abs(by))
    return x + side * 8 * np.finfo(np.float64).eps * size


def _moved_sum(first: Array, squares: Array, s: Array) -> tuple[Array, Array]:
    """A sum of shares, s temperatures farther from the threshold, and its slope.

    `first` is the sum at s = 0, and `squares` the sum of their squares, or 0.
    """
    y = np.exp(-s)
    return y * (first + squares * (1 - y)), y * (first + squares * (1 - 2 * y))


def _root_between(
    value: Callable[[Array], tuple[Array, Array, Array]],
    least: Array,
    most: Array,
    searched: Array,
) -> Array:
    """Where an excess is 0, by Newton's steps for the logarithm of its larger side.

    `value` returns the excess, which falls, its slope, and the sum of its two sides;
    the logarithm of a side is nearly linear in the threshold.  A step that leaves the
    bracket halves it, and from the sixty-fourth on every other one does.  It ends,
    because by then the bracket has no more numbers.
    """
    eps = np.finfo(np.float64).eps
    at = np.clip(np.zeros_like(least), least, most)
    for i in range(64 + 2 * 1100):
        excess, slope, size = value(at)
        least = np.where(excess >= 0, at, least)
        most = np.where(excess <= 0, at, most)
        left = size - abs(excess)
        log = np.copysign(size / slope * np.log(size / left), excess)
        new = at + np.where(left < 0.5 * size, log, excess / slope)
        inner = (new > least) & (new < most) & ((i < 64) | (i % 2 == 0))
        new = np.where(inner, new, 0.5 * least + 0.5 * most)
        new = np.where((excess == 0) | ~searched, at, new)
        if (abs(new - at) <= eps / 8 * (1 + abs(at))).all():
            return new
        at = new
    return at


def _cubic_root(first: Array, last: Array, turn: Array, turn1: Array) -> Array:
    """Where in [0, 1] a decreasing cubic with these values and slopes is 0."""
    low, high = np.zeros_like(first), np.ones_like(first)
    for _ in range(60):
        s = 0.5 * (low + high)
        value = (1 - s) ** 2 * ((1 + 2 * s) * first + s * turn)
        value = value + s * s * ((3 - 2 * s) * last - (1 - s) * turn1)
        low, high = np.where(value > 0, s, low), np.where(value > 0, high, s)
    return 0.5 * (low + high)
