"""Sorts and ranks at the thresholds of a row, and the products with their derivatives.

Everything is a sum over scores, or over thresholds, with the decays between them.  The
sum of a difference, such as that of two scores, is the recurrence over the differences
of neighbours.  So no digit is lost to what the terms have in common.
"""

from __future__ import annotations

import math
from typing import Any

from .._search.all_thresholds import FAR, Both, Thresholds, once

_JUMPS = 4
"""How many times its range a row may go up and down to count as smooth."""


class Order(Thresholds):
    """The sort and the ranks of rows, and the products with their derivatives."""

    @once
    def none(self) -> Any:
        """A column of zeros."""
        return self.xp.zeros_like(self.x[..., :1])

    @once
    def ones(self) -> tuple[Any, Any]:
        """The sums over thresholds of the decays to each, from above and from below."""
        one = self.xp.astype(self.valid, self.x.dtype)
        return self.over_thresholds(one, one)

    @once
    def steps(self) -> Any:
        """Distances between neighbouring thresholds."""
        xp, (at, offset) = self.xp, self.points

        def step(x: Any, y: Any, a: Any, b: Any) -> Any:
            away = self.apart(x, y) + (a - b)
            return xp.where(away < FAR, xp.clip(away, 0, None), FAR)

        ends = at[..., :-1], at[..., 1:], offset[..., :-1], offset[..., 1:]
        return xp.parts(step, *ends)

    def back(self, sorted_values: Any) -> Any:
        """Values in the order of the scores as they were given."""
        out = self.xp.scatter(sorted_values, self.order, self.x.shape[-1])
        return out[..., : self.n]

    def given(self, t: Any) -> Any:
        """Values for the scores in descending order, 0 for those without a place."""
        return self.only(self.taken, self.xp.take(self.padded(t), self.order))

    def padded(self, t: Any) -> Any:
        """Values for a row of one score as those for two."""
        return t if self.n > 1 else self.xp.concat([t, 0 * t], axis=-1)

    def differences(self, over: Both, rise: Any, sums: Any) -> Any:
        """The sums of w_l (v_l - v_i), from both sides.

        `sums` are those of w, and `rise` is v_i - v_{i+1}.
        """
        xp, (before, after) = self.xp, sums

        def steps(decay: Any, rise: Any, before: Any, after: Any) -> tuple[Any, Any]:
            step = decay * rise
            return step * before, -step * after

        given = over.decay, rise, before[..., :-1], after[..., 1:]
        first, second = xp.parts(steps, *given)
        none = xp.zeros_like(before[..., :1])
        return over(
            xp.concat([none, first], axis=-1), xp.concat([second, none], axis=-1)
        )

    def apart_sums(self, over: Both, t: Any, rise: Any, sums: Any) -> tuple[Any, Any]:
        """The sums of t_l - t_i, from both sides; `sums` are those of 1.

        The recurrence of the differences `rise` loses nothing if t rises or falls along
        the row.  If t jumps up and down, the rounding errors of these jumps add up, and
        the sums of t itself are better.
        """
        smooth = self._is_smooth(t, rise)
        fine = rough = None
        if smooth.any():
            fine = self.differences(over, rise, sums)
        if not smooth.all():
            t = self.centred(t)
            # Without the term of the point itself, which is 0.
            (N, n), (H, L) = over(t, t), sums
            before = over.decay * (N[..., :-1] - t[..., 1:] * H[..., :-1])
            after = over.decay * (n[..., 1:] - t[..., :-1] * L[..., 1:])
            before = self.xp.concat([self.none, before], axis=-1)
            rough = before, self.xp.concat([after, self.none], axis=-1)
        return self._either(smooth, fine, rough)

    def _is_smooth(self, t: Any, rise: Any) -> Any:
        """Whether a row goes up and down by a few times its range in all."""
        span = t.max(axis=-1) - t.min(axis=-1)
        return (abs(rise).sum(axis=-1) <= _JUMPS * span)[..., None]

    def _either(self, smooth: Any, fine: Any, rough: Any) -> Any:
        if fine is None or rough is None:
            return rough if fine is None else fine
        pairs = zip(fine, rough, strict=True)
        return tuple([self.xp.where(smooth, a, b) for a, b in pairs])

    def centred(self, t: Any) -> Any:
        """Values less that of the middle of the row; 0 where there is none."""
        taken = self.taken[..., : t.shape[-1]]
        return self.only(taken, t - self.xp.take(t, self.last // 2))

    def around(self, before: Any, after: Any) -> tuple[Any, Any]:
        """Sums at the scores above and below each threshold."""
        above, below = self.neighbours
        return self.xp.take(before, above), self.xp.take(after, below)

    def means(self, sums: Any, across: Any) -> Any:
        """The means of v under the slopes of each threshold, less v at its anchor.

        `sums` are those of the differences of v, and `across` is the difference of v
        between the scores above and below a threshold.
        """
        xp = self.xp

        def mean(
            H: Any,
            L: Any,
            U: Any,
            V: Any,
            across: Any,
            left: Any,
            upper: Any,
            lower: Any,
        ) -> Any:
            above, below = U / xp.where(H > 0, H, 1), V / xp.where(L > 0, L, 1)
            above = above + xp.where(left, 0, across)
            below = below - xp.where(left, across, 0)
            return upper * above + lower * below

        given = *self.around(self.H, self.L), *self.around(*sums), across
        return xp.parts(mean, *given, self.left, self.upper, self.lower)

    def ranks(self) -> Any:
        """The ranks, in the order in which the scores were given."""
        xp, (U, V) = self.xp, self.ones

        count = xp.astype(self.count, self.x.dtype)

        def rank(place: Any, E: Any, e: Any) -> Any:
            above, below = self.beside(place)
            out = xp.astype(place, E.dtype) + 1 - E * xp.take(U, above)
            out = out + e * xp.take(V, below)
            return xp.minimum(xp.clip(out, 1, None), count)

        out = xp.parts(rank, self.place, self.E, self.e)
        out = xp.running_max(self.shared(out))  # the same for equal scores
        return self.back(self.only(self.taken, out))

    def by_ranks(self, t: Any) -> Any:
        """The product with the Jacobian of the ranks, which is symmetric."""
        return self._by_ranks(self.given(t), _apart) * (self.scale / self.tau)

    def ranks_by_tau(self) -> Any:
        """The derivative of the ranks by the temperature."""
        return -self._by_ranks(self.x, self.signed) * (self.scale / self.tau)

    def _by_ranks(self, t: Any, apart: Any) -> Any:
        """The sums of m_j(t) - t_i over thresholds j, with the slopes as weights."""
        xp = self.xp
        rise = apart(t[..., :-1], t[..., 1:])
        sums = self.apart_sums(self.over_scores, t, rise, (self.H, self.L))
        rest = self.means(sums, apart(*self.around(t, t)))
        at = xp.take(t, xp.clip(self.anchor, None, self.last))
        rise = apart(at[..., :-1], at[..., 1:]) + (rest[..., :-1] - rest[..., 1:])
        Q, q = self.apart_sums(self.over_thresholds, at + rest, rise, self.ones)
        U, V = self.ones

        def total(t: Any, place: Any, E: Any, e: Any) -> Any:
            out, (above, below) = 0, self.beside(place)
            for slope, k, count, sums in ((E, above, U, Q), (e, below, V, q)):
                away = apart(xp.take(at, k), t) + xp.take(rest, k)
                out = out + slope * (away * xp.take(count, k) + xp.take(sums, k))
            return out

        out = xp.parts(total, t, self.place, self.E, self.e)
        return self.back(self.only(self.taken, out))

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
        own = 0 - self.alpha * xp.expm1(-self.up) - self.beta * xp.expm1(-self.down)
        return self.only(self.taken, own)

    def places(self, inner: Any, above: Any, below: Any) -> Any:
        """Sums over the scores of a place, and over those above and below it."""
        xp, none = self.xp, self.none
        out = xp.scatter(self.own * inner, self.place, self.x.shape[-1])
        below = xp.concat([self.low * below, none], axis=-1)
        above = xp.concat([none, self.high * above], axis=-1)
        return out + self.new * (above + below)

    @once
    def total(self) -> Any:
        """The sum of the shares of a place: 1, but for the rounding of all its sums."""
        total = self.places(1, *self.around(self.H, self.L))
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
        return self.places(inner, above, below) / self.total

    def signed(self, one: Any, other: Any) -> Any:
        """The difference of scores in units of tau, within FAR."""
        xp = self.xp
        away = (one - other) / self.tau
        away = xp.where(away == away, away, 0)  # of infinities
        return xp.clip(away, -FAR, FAR)

    @once
    def moments(self) -> tuple[Any, Any]:
        """The sums of the distances to the scores above and (negative) below."""
        sums = self.H, self.L
        return self.differences(self.over_scores, self.gap, sums)

    def sort(self) -> Any:
        """The soft sort; places beyond the number of scores hold -inf."""
        xp = self.xp
        near = xp.take(self.x, self.nearest)
        value = near + self.tau * self.mixed(self.x, self.moments, self.signed)
        ends = xp.take(self.x, self.last), self.x[..., :1]
        value = xp.clip(value, *ends) / self.scale
        taken = xp.places(self.x.shape[-1], self.x) < self.count
        return xp.where(taken, value, -math.inf)[..., : self.n]

    @once
    def centres(self) -> Any:
        """The means of the scores under the slopes of each threshold, in units of tau.

        Less the score at the anchor.
        """
        over, under = self.around(self.x, self.x)
        return self.means(self.moments, self.signed(over, under))

    def by_sort(self, t: Any) -> Any:
        """The product with the Jacobian of the sort."""
        t = self.given(t)
        rise = t[..., :-1] - t[..., 1:]
        sums = self.apart_sums(self.over_scores, t, rise, (self.H, self.L))
        mixed = self.xp.take(t, self.nearest) + self.mixed(t, sums, _apart)
        return self._at_places(mixed, self._spread(t, rise, sums, _apart))

    def sort_by_tau(self) -> Any:
        """The derivative of the sort by the temperature."""
        spread = self._spread(self.x, self.gap, self.moments, self.signed)
        return -self._at_places(0, spread)

    def _at_places(self, mixed: Any, spread: Any) -> Any:
        """The derivative at each place, from the covariances at its two thresholds."""
        xp, none = self.xp, self.none
        out = mixed + xp.concat([spread, none], -1) - xp.concat([none, spread], -1)
        taken = xp.places(self.x.shape[-1], self.x) < self.count
        return xp.where(taken, out, 0)[..., : self.n]

    def _second(self, t: Any, rise: Any, sums: Any) -> tuple[Any, Any]:
        """The sums of (x_l - x_i) (t_l - t_i), from both sides, in units of tau."""
        xp, (before, after), (more, less) = self.xp, sums, self.moments
        none, gap, decay = self.none, self.gap, self.over_scores.decay
        smooth = self._is_smooth(t, rise)
        fine = rough = None
        if smooth.any():
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
        return self._either(smooth, fine, rough)

    def _spread(self, t: Any, rise: Any, sums: Any, apart: Any) -> Any:
        """The covariances of the scores and t under the slopes, times their sums."""
        xp, second_moments = self.xp, self._second(t, rise, sums)
        across = apart(*self.around(t, t))
        rest = self.means(sums, across)
        D = self.signed(*self.around(self.x, self.x))
        (H, L), (U, V) = self.around(self.H, self.L), self.around(*sums)
        (M, m), (R, r) = self.around(*self.moments), self.around(*second_moments)
        left, c = self.left, self.centres
        out = 0
        for weight, S, T, X, Y, u, v in (
            (self.high, H, U, M, R, xp.where(left, 0, D), xp.where(left, 0, across)),
            (self.low, L, V, m, r, xp.where(left, -D, 0), xp.where(left, -across, 0)),
        ):
            u, v = u - c, v - rest  # from the means
            total = Y + u * T + v * X + u * v * S
            out = out + xp.where(weight > 0, weight * total, 0)
        return out

    def by_places(self, g: Any) -> Any:
        """The product with the transpose of that Jacobian."""
        xp, g = self.xp, self.padded(g)
        h = xp.where(self.valid, g[..., :-1] - g[..., 1:], 0)
        U, V = sums = self.over_thresholds(h, h)
        fresh = self.valid * self.new[..., :-1], self.valid * self.new[..., 1:]
        above, below = g[..., :-1] * fresh[0], g[..., 1:] * fresh[1]
        shares = self.over_thresholds(above, below)
        c = self.centres
        at = xp.take(self.x, self.anchor)
        rise = self.signed(at[..., :-1], at[..., 1:]) + (c[..., :-1] - c[..., 1:])
        Q, q = self.differences(self.over_thresholds, rise, sums)
        out = self.own * xp.take(g, self.place)
        above, below = self.beside(self.place)
        for slope, k, count, moments, share in (
            (self.E, above, U, Q, shares[0]),
            (self.e, below, V, q, shares[1]),
        ):
            away = self.signed(self.x, xp.take(at, k)) - xp.take(c, k)
            part = away * xp.take(count, k) - xp.take(moments, k)
            out = out + slope * (part + xp.take(share, k))
        return self.back(self.only(self.taken, out))

    # The same again as functions of the scores and the temperature, which a library
    # may differentiate any number of times.  All sums, counts and positions above are
    # constants.  What depends on the scores is how far each of them, and each
    # threshold, has moved since: numbers that are 0.

    def moved(self, x: Any, tau: Any) -> tuple[Any, Any]:
        """How far the scores and thresholds moved, in units of the temperature."""
        xp = self.xp
        tau = tau[..., None] if tau.ndim else tau
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
        d = self.a - (xp.places(self.a.shape[-1], self.x) + 1)
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
        rank = rank - self.E * xp.exp(z) * xp.take(U, above)
        rank = rank + self.e * xp.exp(-z) * xp.take(V, below)
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
        own = self.alpha * xp.expm1(-up - self.up)
        own = own + self.beta * xp.expm1(down - self.down)
        inner = self.signed(self.x, xp.take(near, self.place))
        inner = xp.where(self.taken, -own * (shift + self.tau * inner), 0)
        value = near + xp.scatter(inner, self.place, self.x.shape[-1])
        value = value + new * (
            xp.concat([self.none, above], -1) + xp.concat([below, self.none], -1)
        )
        taken = xp.places(self.x.shape[-1], self.x) < self.count
        return (xp.where(taken, value, 0) / self.scale)[..., : self.n]


def _apart(one: Any, other: Any) -> Any:
    return one - other
