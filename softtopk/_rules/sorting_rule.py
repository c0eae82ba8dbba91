"""Sorts and ranks at the thresholds of a row, and the products with their derivatives.

Everything is a sum over scores, or over thresholds, with the decays between them.  The
sum of a difference, such as that of two scores, is the recurrence over the differences
of neighbours, so that no digit is lost to what the terms have in common; along a row
that jumps up and down it is a difference of sums.
"""

from __future__ import annotations

import math
from typing import Any

from .._rows.numpy_rows import as_column
from .._search.all_thresholds import FAR, Both, Thresholds, once

_JUMPS = 4
"""How many times its range a row may go up and down to count as smooth."""

_START = 1 << 12
"""So many entries are tested first: often they show that a row is not smooth."""


class SortedRows(Thresholds):
    """The sort and the ranks of rows, and the products with their derivatives."""

    @once
    def others(self) -> tuple[Any, Any]:
        """The sums over the other thresholds of the decays to each.

        From above and from below, and there None for exp, which is constant above 0.
        """
        one, over = self.one[..., 1:], self.over_thresholds
        return over.others(one, False), over.others(one, True) if self.beta else None

    @once
    def steps(self) -> Any:
        """Distances between neighbouring thresholds."""
        xp, (at, offset) = self.xp, self.points

        def step(x: Any, y: Any, a: Any, b: Any) -> Any:
            away = self.apart(x, y) + (a - b)
            return xp.where(away < FAR, xp.clip(away, 0, None), FAR)

        ends = at[..., :-1], at[..., 1:], offset[..., :-1], offset[..., 1:]
        return xp.entrywise(step, *ends)

    def back(self, sorted_values: Any) -> Any:
        """Values in the order of the scores as they were given."""
        return self.xp.restore(sorted_values, self.permutation)[..., : self.n]

    def given(self, t: Any) -> Any:
        """Values for the scores in descending order, 0 for those without a place."""
        return self.only(self.taken, self.xp.take(self.padded(t), self.permutation))

    def padded(self, t: Any) -> Any:
        """Values for a row of one score as those for two."""
        return t if self.n > 1 else self.xp.concat([t, 0 * t], axis=-1)

    def differences(self, over: Both, rise: Any, sums: Any) -> Any:
        """The sums of w_l (v_l - v_i), from both sides.

        `sums` are those of w, and `rise` is v_i - v_{i+1}.
        """
        return over(*self._differences(over, rise, sums))

    def _differences(self, over: Both, rise: Any, sums: Any) -> Any:
        """What each point adds to the sums of the point before, and of that after."""
        ways = zip(sums, (False, True), strict=True)
        return [self._rise(over, rise, v, back) for v, back in ways]

    def _rise(self, over: Both, rise: Any, sums: Any, back: bool) -> Any:
        def step(decay: Any, rise: Any, sums: Any) -> Any:
            return (-decay if back else decay) * rise * sums

        given = over.decay, rise, sums[..., 1:] if back else sums[..., :-1]
        return over.onwards(self.xp.entrywise(step, *given), back)

    def levelled(self, t: Any) -> tuple[Any, Any]:
        """The rows, less their middle value where not smooth; and which are smooth."""
        smooth = self._is_smooth(t)
        rough = None if smooth.all() else self.centred(t)
        return self._either(smooth, t if smooth.any() else None, rough), smooth

    def apart_sums(self, over: Both, t: Any, smooth: Any, rise: Any, sums: Any) -> Any:
        """The sums of t_l - t_i, from both sides.

        `sums` are those of 1 over the other points.  The recurrence of the differences,
        `rise`, loses nothing if t rises or falls along the row.  If t jumps up and
        down, the rounding errors of these jumps add up, and the sums of t itself are
        better, which should not be far from 0.
        """
        found = []
        for count, back in zip(sums, (False, True), strict=True):
            fine = rough = None
            if smooth.any():
                step = over.onwards(-rise if back else rise, back)
                fine = over.sums(step * count, back)
            if not smooth.all():
                rough = self._by_sums(over, t, count, back)
            found.append(self._either(smooth, fine, rough))
        return found

    def _by_sums(self, over: Both, t: Any, count: Any, back: bool) -> Any:
        """The sums of t_l - t_i as those of t, less t_i times those of 1."""
        sums = over.others(t, back)
        return self.xp.entrywise(lambda v, t, count: v - t * count, sums, t, count)

    def _is_smooth(self, t: Any) -> Any:
        """Whether a row goes up and down by a few times its range in all."""
        most = _JUMPS * (t.max(axis=-1) - t.min(axis=-1))
        for part in [t[..., :_START], t] if t.shape[-1] > _START else [t]:
            smooth = abs(part[..., 1:] - part[..., :-1]).sum(axis=-1) <= most
            if not smooth.any():  # the start of the rows may tell
                break
        return smooth[..., None]

    def _either(self, smooth: Any, fine: Any, rough: Any) -> Any:
        if fine is None or rough is None:
            return rough if fine is None else fine
        return self.xp.where(smooth, fine, rough)

    def centred(self, t: Any) -> Any:
        """Values less that of the middle of the row; 0 where there is none."""
        taken = self.taken[..., : t.shape[-1]]
        return self.only(taken, t - self.xp.take(t, self.last // 2))

    def means(self, sums: Any, v: Any, apart: Any) -> Any:
        """v at the anchor of each threshold, and its mean under the slopes, less that.

        `sums` are those of the differences of v, and `apart` gives the difference of v
        between scores.
        """
        xp, n = self.xp, self.x.shape[-1]
        least = float(xp.finfo(v.dtype).tiny)

        def one_sided(a: Any, low: Any) -> tuple[Any, Any]:
            below = xp.clip(a, None, n - 1)
            mean = xp.take(sums[1], below) / (1 + xp.take(self.lower, below))
            return xp.take(v, below), xp.where(low > 0, mean, 0)

        def two_sided(a: Any, left: Any, high: Any, low: Any) -> tuple[Any, Any]:
            above, below = xp.clip(a - 1, 0, None), xp.clip(a, None, n - 1)
            over, under = xp.take(v, above), xp.take(v, below)
            H, L = 1 + xp.take(self.higher, above), 1 + xp.take(self.lower, below)
            upper, lower, at = high * H, low * L, xp.where(left, over, under)
            over = apart(over, at) + xp.take(sums[0], above) / H
            under = apart(under, at) + xp.take(sums[1], below) / L
            return at, (upper * over + lower * under) / (upper + lower + least)

        if self.beta:
            return xp.entrywise(two_sided, self.a, self.left, self.high, self.low)
        return xp.entrywise(one_sided, self.a, self.low)

    @property
    def sides(self) -> tuple[Any, ...]:
        """The slopes of thresholds at the next scores below and, unless 0, above."""
        return (self.low, self.high) if self.beta else (self.low,)

    @once
    def in_gaps(self) -> Any:
        """The function that sums values of thresholds in each of n + 1 gaps."""
        return self.xp.runs(self.a, self.x.shape[-1] + 1)

    def carried(self, values: Any, rise: Any = None, ends: bool = False) -> Any:
        """Sums of values over the thresholds above each score, and of others below it.

        A value counts at the score next to its threshold, times the decay from there.
        With `rise`, the differences v_i - v_{i+1} of a vector, the values are slopes
        times a number less v at that score, and become those less v at each score.
        With `ends` the first value is carried by one exponential of its own.
        """
        xp, x, found = self.xp, self.x, []
        for back, v in zip((False, True), values, strict=False):
            v = self.in_gaps(v)[..., back : x.shape[-1] + back]
            if rise is not None:
                v = v + self._rise(self.over_scores, rise, self.slopes[back], back)
            if not ends:
                found.append(self.over_scores.sums(v, back))
                continue
            # The first may be by far the largest, and many decays would round it more.
            start = self.last if back else 0 * self.last
            first, at = xp.take(v, start), xp.take(x, start)
            if self.full:
                v[..., -1 if back else 0] = 0
            else:
                v = xp.put(v, start, 0)
            v = self.over_scores.sums(v, back)

            def add(x: Any, sums: Any, at: Any = at, first: Any = first) -> tuple[()]:
                sums += first * xp.exp(-abs(self.apart(x, at)))
                return ()

            xp.entrywise(add, x, v)
            found.append(v)
        return found

    @once
    def slopes(self) -> Any:
        """The slopes at each score, summed over the thresholds above and below."""
        if self.xp.in_memory:
            return self.carried(self.sides, ends=True)
        take = self.xp.take
        given = zip(self.next_slopes, self.beside(self.place), self.others, strict=True)
        return [w * (1 + take(v, k)) for w, k, v in given if v is not None]

    def ranks(self) -> Any:
        """The ranks, in the order in which the scores were given."""
        xp, count = self.xp, self.xp.astype(self.count, self.x.dtype)

        def rank(place: Any, above: Any, *below: Any) -> Any:
            out = xp.astype(place + 1, above.dtype) - above
            return xp.minimum(xp.clip(sum(below, out), 1, None), count)

        out = xp.entrywise(rank, self.place, *self.slopes)
        out = xp.running_max(self.shared(out))  # the same for equal scores
        return self.back(self.only(self.taken, out))

    def by_ranks(self, t: Any) -> Any:
        """The product with the Jacobian of the ranks, which is symmetric."""
        return self._by_ranks(self.given(t), _apart, self.scale / self.tau)

    @once
    def finite_x(self) -> Any:
        """The scores, with the last that takes part in place of those that do not."""
        last = self.xp.take(self.x, self.last)
        return self.xp.where(self.taken, self.x, last)

    def ranks_by_tau(self) -> Any:
        """The derivative of the ranks by the temperature."""
        return self._by_ranks(self.finite_x, self.signed, -self.scale / self.tau)

    def _by_ranks(self, t: Any, apart: Any, factor: Any) -> Any:
        """Sums of m_j(t) - t_i over thresholds j, with the slopes times a factor."""
        smooth = self._is_smooth(t)
        fine = self._moves_by_rises(t, smooth, apart) if smooth.any() else None
        moves = self._moves if self.beta else self._moves_below
        rough = None if smooth.all() else moves(self.centred(t))
        out = self.back(self.only(self.taken, self._either(smooth, fine, rough)))
        out *= factor
        return out

    def _moves(self, t: Any) -> Any:
        """These sums as those of m_j(t), less t_i times those of 1."""
        xp, least = self.xp, float(self.xp.finfo(t.dtype).tiny)
        ways = (True, False)[: len(self.sides)]
        sums = [self.over_scores.sums(t, back) for back in ways]

        def means(a: Any, W: Any, *sides: Any) -> tuple[Any, ...]:
            given = zip(sides, sums, self.beside_threshold(a)[::-1], strict=False)
            m = sum(w * xp.take(v, k) for w, v, k in given) / (W + least)
            return tuple([w * m for w in sides])

        moved = self.carried(xp.entrywise(means, self.a, self.W, *self.sides))
        many = len(moved)

        def total(t: Any, *sums: Any) -> Any:
            return sum(sums[:many]) - t * sum(sums[many:])

        return xp.entrywise(total, t, *moved, *self.slopes)

    def _moves_below(self, t: Any) -> Any:
        """These sums for exp, whose slopes are all below the thresholds.

        The next score may have nearly all of W_j, so that m_j - t_i nearly vanishes at
        it.  So its own terms are differences, and only the other scores' are sums of t.
        """
        xp, over = self.xp, self.over_scores
        n, least = self.x.shape[-1], float(xp.finfo(t.dtype).tiny)
        rest = self._by_sums(over, t, self.lower, True)

        def away(a: Any, W: Any, low: Any) -> Any:
            return low * (low * xp.take(rest, xp.clip(a, None, n - 1)) / (W + least))

        values = xp.entrywise(away, self.a, self.W, self.low), self.low
        own, slopes = (self.in_gaps(v)[..., :n] for v in values)
        moved, count = (over.others(v, False) for v in (own + slopes * t, slopes))
        return own + (moved - t * count)

    def _moves_by_rises(self, t: Any, smooth: Any, apart: Any) -> Any:
        """These sums by the differences of neighbours."""
        xp, rise = self.xp, apart(t[..., :-1], t[..., 1:])
        given = self.over_scores, t, smooth, rise, (self.higher, self.lower)
        found = self.means(self.apart_sums(*given), t, apart)

        def away(a: Any, at: Any, rest: Any, *sides: Any) -> tuple[Any, ...]:
            near = zip(sides, self.beside_threshold(a)[::-1], strict=False)
            return tuple([w * (apart(at, xp.take(t, k)) + rest) for w, k in near])

        values = xp.entrywise(away, self.a, *found, *self.sides)
        return sum(self.carried(values, rise))

    @once
    def nearest(self) -> Any:
        """For each place the index of a score near it."""
        xp = self.xp
        anchor = xp.where(self.valid, self.anchor, self.last)
        return xp.concat([anchor, self.last], axis=-1)

    @once
    def new(self) -> Any:
        """The part of the shares below a threshold that its place adds, for each place.

        It is the same for what the scores above the threshold before lack.
        """
        xp = self.xp
        all_ = xp.ones_like(self.x[..., :1])
        return xp.concat([all_, 0 - xp.expm1(-self.steps), all_], axis=-1)

    @once
    def own(self) -> Any:
        """The share of each score in its own place."""
        xp = self.xp
        up, down = self.nearest_thresholds
        own = 0 - self.alpha * xp.expm1(-up) - self.beta * xp.expm1(-down)
        return self.only(self.taken, own)

    def place_sums(self, inner: Any, above: Any, below: Any) -> Any:
        """Sums over the scores of a place, and over those above and below it."""
        xp, none = self.xp, self.none
        out = xp.scatter(self.own * inner, self.place, self.x.shape[-1])
        below = xp.concat([self.low * below, none], axis=-1)
        above = xp.concat([none, self.high * above], axis=-1)
        return out + self.new * (above + below)

    @once
    def total(self) -> Any:
        """The sum of the shares of a place: 1, but for the rounding of all its sums."""
        total = self.place_sums(1, *self.around(self.H, self.L))
        return self.xp.where(total > 0, total, 1)

    def mixed(self, v: Any, sums: Any, apart: Any) -> Any:
        """The means of v over places, less v at the score near each place.

        `apart` gives the difference of v between scores.
        """
        xp = self.xp
        (H, L), (U, V) = self.around(self.H, self.L), self.around(*sums)
        over, under = self.around(v, v)
        near = xp.take(v, self.nearest)
        inner = apart(v, xp.take(near, self.place))
        above = U + H * apart(over, near[..., 1:])
        below = V + L * apart(under, near[..., :-1])
        return self.place_sums(inner, above, below) / self.total

    def signed(self, one: Any, other: Any) -> Any:
        """The difference of scores in units of tau, within FAR."""
        xp = self.xp
        away = (one - other) / self.tau
        away = xp.where(away == away, away, 0)  # of infinities
        return xp.clip(away, -FAR, FAR)

    @once
    def moments(self) -> tuple[Any, Any]:
        """The sums of the distances to the scores above and (negative) below."""
        over, gap = self.over_scores, self.gap
        above = over.onwards(gap, False) * self.higher
        return over(above, over.onwards(-gap, True) * self.lower)

    def sort(self) -> Any:
        """The soft sort; places beyond the number of scores hold -inf."""
        xp = self.xp
        near = xp.take(self.x, self.nearest)
        value = near + self.tau * self.mixed(self.x, self.moments, self.signed)
        ends = xp.take(self.x, self.last), self.x[..., :1]
        value = xp.clip(value, *ends) / self.scale
        taken = xp.indices(self.x.shape[-1], self.x) < self.count
        return xp.where(taken, value, -math.inf)[..., : self.n]

    @once
    def centres(self) -> Any:
        """The means of the scores under the slopes of each threshold, in units of tau.

        Less the score at the anchor.
        """
        return self.means(self.moments, self.x, self.signed)[1]

    def by_sort(self, t: Any) -> Any:
        """The product with the Jacobian of the sort."""
        xp, t = self.xp, self.given(t)
        rise = t[..., :-1] - t[..., 1:]
        given = *self.levelled(t), rise, (self.higher, self.lower)
        sums = self.apart_sums(self.over_scores, *given)
        out = xp.take(t, self.nearest) + self.mixed(t, sums, _apart)
        return self._at_places(out + self._spread(t, rise, sums, _apart))

    def sort_by_tau(self) -> Any:
        """The derivative of the sort by the temperature."""
        sums = self.moments
        return self._at_places(
            -self._spread(self.finite_x, self.gap, sums, self.signed)
        )

    def _at_places(self, out: Any) -> Any:
        """Values at the places that exist, else 0."""
        taken = self.xp.indices(self.x.shape[-1], self.x) < self.count
        return self.xp.where(taken, out, 0)[..., : self.n]

    def _second(self, t: Any, rise: Any, sums: Any) -> Any:
        """The sums of (x_l - x_i) (t_l - t_i), from both sides, in units of tau."""
        xp, (more, less) = self.xp, self.moments
        none, gap, decay = self.none, self.gap, self.over_scores.decay
        smooth = self._is_smooth(t)
        fine = rough = None
        if smooth.any():
            before, after = sums
            first = gap * before[..., :-1] + rise * more[..., :-1]
            first = first + gap * rise * self.H[..., :-1]
            second = gap * rise * self.L[..., 1:]
            second = second - gap * after[..., 1:] - rise * less[..., 1:]
            fine = self.over_scores(
                xp.concat([none, decay * first], axis=-1),
                xp.concat([decay * second, none], axis=-1),
            )
        if not smooth.all():
            t = self.centred(t)
            N = self.differences(self.over_scores, gap, self.over_scores(t, t))
            rough = N[0] - t * more, N[1] - t * less
        if fine is None or rough is None:
            return rough if fine is None else fine
        return tuple([xp.where(smooth, *v) for v in zip(fine, rough, strict=True)])

    def _spread(self, t: Any, rise: Any, sums: Any, apart: Any) -> Any:
        """How the covariances of the scores and t change across each place.

        They are those under the slopes of a threshold, times the sum of the slopes, at
        the threshold below a place less those at the one above it.  The difference is
        formed score by score: all but the scores of the place see both thresholds on
        one side, and their slopes in the ratio e^-step.
        """
        xp, none, x = self.xp, self.none, self.x
        second = self.around(*self._second(t, rise, sums))
        (at, rest), c, left = self.means(sums, t, apart), self.centres, self.left
        across, D = apart(*self.around(t, t)), self.signed(*self.around(x, x))
        firsts = zip(
            (self.high, self.low),
            self.around(self.H, self.L),
            self.around(*sums),
            self.around(*self.moments),
            second,
            (xp.where(left, 0, D), xp.where(left, -D, 0)),
            (xp.where(left, 0, across), xp.where(left, -across, 0)),
            strict=True,
        )
        sides = []
        for weight, S, T, X, Y, u, v in firsts:
            u, v = u - c, v - rest  # from the means
            about = S, T + v * S, X + u * S, Y + u * T + v * X + u * v * S
            sides.append([xp.where(weight > 0, weight * m, 0) for m in about])
        S, T, X, Y = (xp.concat([none, v], axis=-1) for v in sides[0])
        s, r, q, y = (xp.concat([v, none], axis=-1) for v in sides[1])
        Dt = self.between(apart(at[..., :-1], at[..., 1:]), rest)
        out = self.new * (y - Y) + self.kept_part * (
            self.rise * (T + r) + Dt * (X + q) + self.rise * Dt * (S - s)
        )
        inner = 0
        E, e = self.next_slopes
        for slope, k in zip((-E, e), self.beside(self.place), strict=True):
            away = self.signed(x, xp.take(self.points[0], k)) - xp.take(c, k)
            inner = inner + slope * away * (apart(t, xp.take(at, k)) - xp.take(rest, k))
        return out + xp.scatter(self.only(self.taken, inner), self.place, x.shape[-1])

    def between(self, across: Any, rest: Any) -> Any:
        """The fall of a mean from each threshold to the next, at the places between."""
        xp = self.xp
        fall = across + (rest[..., :-1] - rest[..., 1:])
        return xp.concat([self.none, fall, self.none], axis=-1)

    @once
    def rise(self) -> Any:
        """The fall of the centres across each place, 0 for the first and the last."""
        at = self.points[0]
        return self.between(self.signed(at[..., :-1], at[..., 1:]), self.centres)

    @once
    def kept_part(self) -> Any:
        """The ratio of the slopes at the two thresholds of a place, 1 less `new`."""
        kept = self.xp.exp(-self.steps)
        return self.xp.concat([self.none, kept, self.none], axis=-1)

    def by_places(self, g: Any) -> Any:
        """The product with the transpose of that Jacobian.

        A place gives its shares and the differences of the slopes at its thresholds,
        times the distance from the centre, to the scores above and those below it.
        """
        xp, n = self.xp, self.x.shape[-1]
        g = xp.where(xp.indices(n, self.x) < self.count, self.padded(g), 0)
        w, more = g * self.new, g * (self.new + self.kept_part * self.rise)
        over, c, at = self.over_thresholds, self.centres, self.points[0]
        sums = over(w[..., :-1], w[..., 1:])
        before, after = self._differences(over, self.rise[..., 1:-1], sums)
        rest = over(more[..., :-1] - before, more[..., 1:] + after)
        own = xp.take(g, self.place)
        out, sides = self.own * own, self.beside(self.place)
        for slope, k, count, more, sign in zip(
            self.next_slopes, sides, sums, rest, (1, -1), strict=True
        ):
            away = sign * (self.signed(self.x, xp.take(at, k)) - xp.take(c, k))
            out = out + slope * (xp.take(more, k) + away * (xp.take(count, k) - own))
        return self.back(self.only(self.taken, out))

    # The same again as functions of the scores and the temperature, which a library
    # may differentiate any number of times.  All sums, counts and positions above are
    # constants.  What depends on the scores is how far each of them, and each
    # threshold, has moved since: numbers that are 0.

    def moved(self, x: Any, tau: Any) -> tuple[Any, Any]:
        """How far the scores and thresholds moved, in units of the temperature."""
        xp = self.xp
        tau = as_column(tau)
        # Positions from the first of all scores that any sum connects.
        start = xp.concat([self.taken[..., :1], self.gap >= FAR], axis=-1)
        start = xp.running_max(xp.where(start, self.i, 0))
        away = (self.x - xp.take(self.x, start)) / self.tau
        away = xp.where(abs(away) < float(xp.finfo(away.dtype).max) ** 0.5, away, 0)
        z = (self.given(x) - xp.detach(self.given(x))) / tau
        z = xp.where(self.taken, z + away * (xp.detach(tau) / tau - 1), 0)
        one = xp.astype(self.taken, self.x.dtype)
        H, L = self.over_scores(one * xp.exp(-z), one * xp.exp(z))
        H, L = self.around(H, L)
        X, Y = self.low * L, self.high * H
        d = self.a - (xp.indices(self.a.shape[-1], self.x) + 1)
        d = xp.astype(d, self.x.dtype)
        upper, lower = (d > 0) & self.valid, (d < 0) & self.valid
        level = (d == 0) & (X > 0) & (Y > 0)
        large = xp.sqrt(xp.where(upper | lower, d * d + 4 * X * Y, 1))
        large = (large + abs(d)) / 2
        X, Y = xp.where(lower | level, X, 1), xp.where(upper | level, Y, 1)
        up, down = xp.log(large / Y), xp.log(X / large)
        both = (xp.log(X) - xp.log(Y)) / 2
        delta = xp.where(upper, up, xp.where(lower, down, both))
        return z, xp.where(self.valid & (upper | lower | level), delta, 0)

    def moved_ranks(self, x: Any, tau: Any) -> Any:
        """`ranks`, as a function that may be differentiated."""
        xp, (z, delta) = self.xp, self.moved(x, tau)
        one = xp.astype(self.valid, self.x.dtype)
        U, V = self.over_thresholds(one * xp.exp(-delta), one * xp.exp(delta))
        rank = xp.astype(self.place, self.x.dtype) + 1
        above, below = self.beside(self.place)
        E, e = self.next_slopes
        rank = rank - E * xp.exp(z) * xp.take(U, above)
        rank = rank + e * xp.exp(-z) * xp.take(V, below)
        return self.back(self.only(self.taken, rank))

    def moved_sort(self, x: Any, tau: Any) -> Any:
        """`sort`, as a function that may be differentiated, but for entries of -inf."""
        xp, (z, delta) = self.xp, self.moved(x, tau)
        one = xp.astype(self.taken, self.x.dtype)
        up, down = one * xp.exp(-z), one * xp.exp(z)
        x = self.given(x)
        shift = self.scale * xp.where(self.taken, x - xp.detach(x), 0)
        sums = self.over_scores(up, down)
        far = self.differences(self.over_scores, self.gap, sums)
        moved = self.over_scores(up * shift, down * shift)
        (H, L), (M, m), (S, s) = (self.around(*v) for v in (sums, far, moved))
        near = xp.take(self.x, self.nearest)
        over, under = self.around(self.x, self.x)
        H = S + self.tau * (M + H * self.signed(over, near[..., 1:]))
        L = s + self.tau * (m + L * self.signed(under, near[..., :-1]))
        above = self.high * xp.exp(delta) * H
        below = self.low * xp.exp(-delta) * L
        steps = self.steps + delta[..., :-1] - delta[..., 1:]
        all_ = 1 + self.none
        new = xp.concat([all_, 0 - xp.expm1(-steps), all_], axis=-1)
        up, down = (xp.take(delta, k) - z for k in self.beside(self.place))
        own = self.alpha * xp.expm1(-up - self.nearest_thresholds[0])
        own = own + self.beta * xp.expm1(down - self.nearest_thresholds[1])
        inner = self.signed(self.x, xp.take(near, self.place))
        inner = xp.where(self.taken, -own * (shift + self.tau * inner), 0)
        value = near + xp.scatter(inner, self.place, self.x.shape[-1])
        value = value + new * (
            xp.concat([self.none, above], -1) + xp.concat([below, self.none], -1)
        )
        taken = xp.indices(self.x.shape[-1], self.x) < self.count
        return (xp.where(taken, value, 0) / self.scale)[..., : self.n]


def _apart(one: Any, other: Any) -> Any:
    return one - other
