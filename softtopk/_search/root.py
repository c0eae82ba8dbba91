r"""The threshold from sums over a row alone, for every curve and array library.

A pass at the pair (a, t), :math:`\lambda=a+\tau t`, computes :math:`u=(x-a)/\tau-t` and
four sums over each row: m, the number of entries whose share is above 1/2 (for the
clip, equal to 1); P, the sum of the shares of the others; C, the sum of 1 - p over the
m entries; and W, the sum of the slopes.  The sign of the excess :math:`P-C-(k-m)` says
on which side of the root t is, and the curve proposes a step.  The search takes the
step if it stays inside the bracket.  Otherwise it halves the bracket, and it does so
too if, after a few passes, neither the bracket nor the excess has halved.  So it ends
for every curve.

From the first iterate on, the anchor a is the rounded threshold of the last pass, and t
is the rounding error of a.  Therefore an offset or a scale common to all scores costs
no accuracy, nor do a few scores that are far from all others, and no order statistic is
needed.  The bracket and the first guess are in `start`.
"""

from __future__ import annotations

import math
from typing import Any

from .._rows.budget import Budget
from .._rows.namespace import after, choose, loop, namespace, tally
from .._rows.numpy_rows import as_column
from ..curves import Curve
from .curve_sums import fused_sums, in_turn, total
from .start import Moments, Search, State, begin, follow, rebase

PATIENCE = 5
"""After so many passes, each must halve the bracket or the excess."""

LIMIT = 2500
"""Passes at most.  No search reaches it: halving exhausts the floats' range sooner."""


def narrow(search: Search, excess: Any) -> Search:
    """The bracket after a pass: the root is above t if the excess is positive."""
    low = choose(excess >= 0, search.t, search.low)
    high = choose(excess <= 0, search.t, search.high)
    return Search(search.t, low, high, search.excess, search.width)


def decide(
    search: Search, excess: Any, proposal: Any, count: Any
) -> tuple[Search, Any]:
    """The next state of the search, and whether it halved the bracket instead.

    In an exponential tail a step makes the excess only 2.7 times smaller, and hundreds
    of steps may follow.  So after 4 `PATIENCE` passes every other pass halves the
    bracket, unless the last pass has made the excess 16 times or the bracket 2 times
    smaller.
    """
    _, low, high, before, width = search
    size, room = abs(excess), high - low
    halve = ~((low < proposal) & (proposal < high))
    if not isinstance(count, int) or count > PATIENCE:
        late = (count > 4 * PATIENCE) & (count & 1 == 0)
        slow = (2 * size > before) | (late & (16 * size > before))
        halve = halve | (slow & (2 * room > width) & (count > PATIENCE))
    t = choose(halve, 0.5 * low + 0.5 * high, proposal)
    return Search(t, low, high, size, room), halve


def leads_back(search: Search, excess: Any, proposal: Any) -> Any:
    """Whether a step leads to the other end of the bracket, up to rounding.

    If the slope jumps between two points, Newton's steps can alternate between them for
    ever.  The bracket does not stop that by itself, because its ends are widened by
    their rounding error and lie just beyond the two points.
    """
    _, low, high, *_ = search
    remaining = choose(excess > 0, high - proposal, proposal - low)
    eps = namespace(remaining).finfo(remaining.dtype).eps
    return remaining <= 8 * eps * (high - low)


def sums(curve: Curve, u: Any) -> tuple[Any, Any, Any, Any, Any]:
    """m, P, C, W and S of each row of distances, ``(..., n) -> (...)``.

    S is the sum of the shares below 1 for a curve whose step needs it, and else P.
    """
    named = fused_sums(curve)
    if named:
        return named(u)

    def values(u: Any) -> tuple[Any, Any, Any, Any]:
        p, q = curve.value(u), curve.complement(u)
        return u, p > q, p, q

    P, C, W, m, *rest = in_turn(
        u,
        values,
        lambda u, high, p, q: total(high, 0, p),
        lambda u, high, p, q: total(high, q, 0),
        lambda u, high, p, q: total(namespace(u).isfinite(u), curve.slope(u), 0),
        lambda u, high, p, q: tally(high, u),
        *[lambda u, high, p, q: total(u <= curve.support[1], p, 0)] * curve.needs_sum,
    )
    return m, P, C, W, rest[0] if rest else P


def distances(x: Any, tau: Any, a: Any, t: Any) -> Any:
    """(x - lambda) / tau of every entry; tau is a number, or has one for each row."""
    return (x - a[..., None]) / as_column(tau) - t[..., None]


def advance(
    curve: Curve,
    k: Budget,
    tau: Any,
    row_sums: tuple[Any, ...],
    at: State,
    count: Any,
    common_distance: Any,
) -> State:
    """The next state, from the sums `row_sums` over the rows at `at`.

    A row has converged if its excess is no larger than the rounding error of its sums:
    2 eps (P + C), or 8 eps (P + C) if the step is below the rounding of t as well.  A
    step of at most eps / 8 ends the search whatever the excess is.

    A row takes one last step in two cases.  One is a step so short that the bound of
    the curve's second derivative leaves an excess within that rounding error (derived
    in *computing/search*).  The other is an excess that the rounding of the distances
    can cause: half an ulp of them times W, or times P + C if that is less.  Their size
    is taken as `common_distance` = |f^-1(k/n)|: that of all scores, if they are equal.

    For a curve that reaches 0 and 1, P + C may vanish at the threshold.  So an excess
    of eps / 16 (of as many times k or n - k if these are below 1) is rounding too.
    After `PATIENCE` passes so is the change of the sums by half an ulp of u at an end
    of the support other than 0.
    """
    m, P, C, W, S = row_sums
    xp, (a, search, done) = namespace(P), at
    t, eps = search.t, xp.finfo(P.dtype).eps
    few = xp.minimum(k.without(0), k.rest())
    scale = xp.clip(few, None, 1)
    excess, noise = (P - C) - k.without(m), eps * (P + C)
    small = 2 * noise
    if ends(curve):
        low, high = (0.5 * min(abs(end), 1) for end in curve.support)
        zero = xp.zeros_like(P)
        size = xp.where(P > 0, zero + low, 0) + xp.where(C > 0, zero + high, 0)
        small = small + eps * (scale / 16 + choose(count > PATIENCE, size * W, 0))
    vanishes = abs(excess) <= small
    excess = xp.where(vanishes, 0, excess)
    proposal = t + xp.where(vanishes, 0, curve.step(excess, P, C, W, S))
    search = narrow(search, excess)
    proposal = xp.where(leads_back(search, excess, proposal), math.nan, proposal)
    found, halve = decide(search, excess, proposal, count)
    move = abs(found.t - t)
    size = move / xp.minimum(scale, few / W)
    rounding = (size <= 2 * eps) & (found.excess <= 8 * noise) | (size <= eps / 8)
    settled = vanishes | rounding
    t = xp.where(done | settled, t, found.t)
    unseen = 0.5 * eps * common_distance * xp.minimum(P + C, W)
    last = found.excess <= unseen
    if curve.bend < math.inf:
        last = last | (curve.bend * move * move <= 2 * eps)
    done = done | settled | ~halve & last
    return follow(State(a, found._replace(t=t), done), tau)


def solve_rows(
    curve: Curve, x: Any, k: Budget, tau: Any, row_moments: Moments, inner: Any = True
) -> tuple[Any, Any]:
    """Anchors and offsets of rows ``(..., n)`` with 0 < k < n finite entries each.

    `row_moments` are those of x.  The shares and slopes are those of the curve at
    `distances`.  Rows that are not `inner` are not searched, and may hold anything.
    """

    def going(count: Any, at: State) -> Any:
        return (count < LIMIT) & ~at.done.all()

    def step(count: Any, at: State) -> tuple[Any, State]:
        found = sums(curve, distances(x, tau, at.anchor, at.search.t))
        return count + 1, advance(curve, k, tau, found, at, count, common_distance)

    share = k.mean()
    if inner is not True:
        share = namespace(x).where(inner, share, 0.5)
    middle = curve.inverse(share)
    common_distance = abs(middle)
    start = begin(curve, k, tau, row_moments, middle)
    if inner is not True:
        start = start._replace(done=~inner)
    _, at = loop(going, step, (0, start))
    a, t = at.anchor, at.search.t
    if not ends(curve):
        return a, t
    neighbours = neighbours_of(x, distances(x, tau, a, t) - curve.centre)
    return middle_threshold(curve, k, tau, a, t, neighbours)


def neighbours_of(x: Any, u: Any, end: Any = 0) -> tuple[Any, Any, Any]:
    """How many scores have u > end, the least of these, and the largest of the others.

    `end` is 0, or has a number for each row.
    """
    xp = namespace(x)
    end = as_column(end)
    m = tally(u > end, x)
    u = after(u, m)
    least = xp.min(xp.where(u > end, x, math.inf), axis=-1)
    u = after(u, least)
    return m, least, xp.max(xp.where(u > end, -math.inf, x), axis=-1)


def middle_threshold(
    curve: Curve, k: Budget, tau: Any, a: Any, t: Any, neighbours: tuple[Any, Any, Any]
) -> tuple[Any, Any]:
    """The thresholds; where they are an interval, its middle.

    They are an interval if the curve reaches 0 and 1, k is whole, and the gap between
    the k-th score and the next is at least as wide as the support: then every share is
    0 or 1.  `neighbours` is what `neighbours_of` returns.
    """
    m, least, most = neighbours
    xp, width = namespace(least), curve.support[1] - curve.support[0]
    middle = 0.5 * least + 0.5 * most  # XLA adds the two first, which may overflow
    middle = xp.where(xp.isfinite(middle), middle, least - 0.5 * (least - most))
    # Between two neighbouring floats there is none: the offset holds what is missing.
    missing = 0.5 * ((least - middle) - (middle - most)) / tau
    room = float(xp.finfo(t.dtype).max) ** 0.5
    middle, rest = rebase(middle, xp.clip(missing, -room, room) - curve.centre, tau)
    flat = (k.without(m) == 0) & ((least - most) / tau >= width)
    return xp.where(flat, middle, a), xp.where(flat, rest, t)


def ends(curve: Curve) -> bool:
    """Whether the curve reaches 0 and 1."""
    return math.isfinite(curve.support[0]) and math.isfinite(curve.support[1])
