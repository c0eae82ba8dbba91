r"""The threshold from sums over a row alone, for every curve and array library.

A pass at the pair (a, t), :math:`\lambda=a+\tau t`, takes :math:`u=(x-a)/\tau-t` and
sums over each row: m entries with shares above 1/2 (of the clip, with whole shares), P
the shares of the others, C what the m lack to 1, and W the slopes.  The excess
:math:`P-C-(k-m)` says on which side of the root t is, and the curve proposes a step.
The search takes it where it stays inside the bracket, and halves the bracket where it
does not or where, after a few passes, neither the bracket nor the excess has halved: so
it ends whatever the curve.

The anchor a follows the iterates, from the first one on, and t holds what rounding
takes from a: an offset or a scale common to all scores costs no accuracy, nor do a few
scores that are far from all others, and no order statistic is needed.  Where the search
begins: `start`.
"""

from __future__ import annotations

import math
from typing import Any

from .._namespace import after, choose, loop, namespace, tally
from .._rows import Budget
from ..curves import Curve
from .quick import in_turn, quick, total
from .start import Moments, Search, State, begin, follow, rebase

PATIENCE = 5
"""Passes after which the bracket or the excess must halve."""

LIMIT = 2500
"""No search comes here: halving leaves the range of the floats sooner."""


def narrow(search: Search, excess: Any) -> Search:
    """The bracket after a pass: shares that sum to too much ask for a higher t."""
    low = choose(excess >= 0, search.t, search.low)
    high = choose(excess <= 0, search.t, search.high)
    return Search(search.t, low, high, search.excess, search.width)


def decide(
    search: Search, excess: Any, proposal: Any, count: Any
) -> tuple[Search, Any]:
    """The next search, and where it halves the bracket instead of a step.

    Steps may shrink an excess e-fold for as long as the floats reach: after some more
    passes the bracket itself must halve, every other time, unless the excess vanishes
    much faster.
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
    """Whether a step leads across the bracket to its other end, or next to it.

    Newton's steps go to and fro for ever between two such points where the slope jumps
    between them, and the end of a bracket that is kept wide for rounding lies beyond.
    """
    _, low, high, *_ = search
    left = choose(excess > 0, high - proposal, proposal - low)
    return left <= 8 * namespace(left).finfo(left.dtype).eps * (high - low)


def sums(curve: Curve, u: Any) -> tuple[Any, Any, Any, Any, Any]:
    """m, P, C, W and S of each row of distances, ``(..., n) -> (...)``.

    S sums the shares below 1 for a curve whose step asks for it, and is P for others.
    """
    named = quick(curve)
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
    """(x - lambda) / tau of every entry; tau is a number or has one a row."""
    return (x - a[..., None]) / _column(tau) - t[..., None]


def advance(
    curve: Curve,
    k: Budget,
    tau: Any,
    row: tuple[Any, ...],
    at: State,
    count: Any,
    far: Any,
) -> State:
    """The step that follows from the sums over the rows at `at`.

    A row is done where its excess is rounding: 2 eps of what was summed, or 8 where the
    step is rounding too; and where the step is so short that a smooth curve leaves no
    more than that after it (derived in *computing/cost*).  Its step is also the last
    for an excess that half an ulp of `far` makes, the distance at which all shares are
    equal.  For a curve that reaches 0 and 1 what is summed may vanish: there an excess
    of a fraction of eps is rounding, and after some passes what half an ulp of a u near
    an end that is not 0 changes.
    """
    m, P, C, W, S = row
    xp, (a, search, done) = namespace(P), at
    t, eps = search.t, xp.finfo(P.dtype).eps
    few = xp.minimum(k.without(0), k.rest)
    scale = xp.clip(few, None, 1)
    excess, noise = (P - C) - k.without(m), eps * (P + C)
    small = 2 * noise
    if ends(curve):
        low, high = (0.5 * min(abs(end), 1) for end in curve.support)
        size = low * (P > 0) + high * (C > 0)
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
    unseen = 0.5 * eps * far * xp.minimum(P + C, W)
    last = found.excess <= unseen
    if curve.bend < math.inf:
        last = last | (curve.bend * move * move <= 2 * eps)
    done = done | settled | ~halve & last
    return follow(State(a, found._replace(t=t), done), tau)


def solve(
    curve: Curve, x: Any, k: Budget, tau: Any, row: Moments, free: Any = True
) -> tuple[Any, Any]:
    """Anchors and offsets of rows ``(..., n)`` with 0 < k < n finite entries each.

    `row` has the moments of x.  Shares and slopes are those at `distances`.  Rows that
    are not `free` may hold anything, and find nothing.
    """

    def going(count: Any, at: State) -> Any:
        return (count < LIMIT) & ~at.done.all()

    def step(count: Any, at: State) -> tuple[Any, State]:
        found = sums(curve, distances(x, tau, at.anchor, at.search.t))
        return count + 1, advance(curve, k, tau, found, at, count, far)

    middle = curve.inverse(k.mean)
    far = abs(middle)
    start = begin(curve, k, tau, row, middle)
    if free is not True:
        start = start._replace(done=~free)
    _, at = loop(going, step, (0, start))
    a, t = at.anchor, at.search.t
    if not ends(curve):
        return a, t
    gap = gap_of(x, distances(x, tau, a, t) - curve.centre)
    return settled(curve, k, tau, a, t, gap)


def gap_of(x: Any, u: Any) -> tuple[Any, Any, Any]:
    """How many scores of a row have u > 0, the least of them, the next one."""
    xp, m = namespace(x), tally(u > 0, x)
    u = after(u, m)
    least = xp.min(xp.where(u > 0, x, math.inf), axis=-1)
    u = after(u, least)
    return m, least, xp.max(xp.where(u > 0, -math.inf, x), axis=-1)


def settled(
    curve: Curve, k: Budget, tau: Any, a: Any, t: Any, gap: tuple[Any, Any, Any]
) -> tuple[Any, Any]:
    """The middle of the thresholds where the gap after the k-th score is too wide.

    A curve that reaches 0 and 1 has no share between them there, and its thresholds are
    an interval; `gap_of` tells where the row's lies.
    """
    m, least, most = gap
    xp, width = namespace(least), curve.support[1] - curve.support[0]
    middle, rest = rebase(0.5 * least + 0.5 * most, 0 * t - curve.centre, tau)
    flat = (k.without(m) == 0) & ((least - most) / tau >= width)
    return xp.where(flat, middle, a), xp.where(flat, rest, t)


def _column(tau: Any) -> Any:
    """A temperature a row, to divide the row by; one number is as good."""
    return tau[..., None] if getattr(tau, "ndim", 0) else tau


def ends(curve: Curve) -> bool:
    """Whether the curve reaches 0 and 1."""
    return math.isfinite(curve.support[0]) and math.isfinite(curve.support[1])
