r"""The threshold from sums over a row alone, for every curve and array library.

A pass at the pair (a, t), :math:`\lambda=a+\tau t`, takes :math:`u=(x-a)/\tau-t` and
sums over each row: m entries with shares above 1/2, P the shares of the others, C what
the m lack to 1, and W the slopes.  The excess :math:`P-C-(k-m)` says on which side
of the root t is, and the curve proposes a step.  The search takes it where it stays
inside the bracket, and halves the bracket where it does not or where, after a few
passes, neither the bracket nor the excess has halved: so it ends whatever the curve.

The anchor a follows the iterates, and t holds what rounding takes from a: an offset or
a scale common to all scores costs no accuracy, and no order statistic is needed.  Where
the search begins: `start`.
"""

from __future__ import annotations

import math
from typing import Any

from .._namespace import choose, loop, namespace, tally
from .._rows import Budget
from ..curves import Curve
from .quick import quick
from .start import Search, State, begin, moments

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
    passes the bracket itself must halve, every other time.
    """
    _, low, high, before, width = search
    size, room = abs(excess), high - low
    halve = ~((low < proposal) & (proposal < high))
    if not isinstance(count, int) or count > PATIENCE:
        slow = (2 * size > before) | ((count > 4 * PATIENCE) & (count % 2 == 0))
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
    xp = namespace(u)
    p, q, w = curve.value(u), curve.complement(u), curve.slope(u)
    high = p > q
    parts = (xp.where(high, 0, p), xp.where(high, q, 0), xp.where(xp.isfinite(u), w, 0))
    P, C, W = (xp.sum(part, axis=-1) for part in parts)
    S = P
    if curve.needs_sum:
        S = xp.sum(xp.where(u <= curve.support[1], p, 0), axis=-1)
    return tally(high, u), P, C, W, S


def distances(x: Any, tau: Any, a: Any, t: Any) -> Any:
    """(x - lambda) / tau of every entry; tau is a number or has one a row."""
    return (x - a[..., None]) / _column(tau) - t[..., None]


def rebase(a: Any, t: Any, tau: Any) -> tuple[Any, Any]:
    """The same threshold, with the rounded sum as anchor and the rest in t, exactly."""
    move = tau * t
    total = a + move
    moved = total - a
    return total, ((a - (total - moved)) + (move - moved)) / tau


def advance(
    curve: Curve, k: Budget, tau: Any, row: tuple[Any, ...], at: State, count: Any
) -> State:
    """The step that follows from the sums over the rows at `at`.

    A row is done where its excess is rounding: 2 eps of what was summed, or 8 where the
    step is rounding too; and where the step is so short that a smooth curve leaves no
    more than that after it (derived in *computing/cost*).  For a curve that reaches 0
    and 1 what is summed may vanish: there an excess of a fraction of eps is rounding,
    and after some passes what half an ulp of a u near an end that is not 0 changes.
    """
    m, P, C, W, S = row
    xp, (a, search, done) = namespace(P), at
    t, eps = search.t, xp.finfo(P.dtype).eps
    few = xp.minimum(k.without(0), k.rest)
    scale = xp.clip(few, None, 1)
    excess, noise = (P - C) - k.without(m), eps * (P + C)
    floor = 0 * noise
    if ends(curve):
        low, high = (0.5 * min(abs(end), 1) for end in curve.support)
        size = low * (P > 0) + high * (C > 0)
        floor = eps * (scale / 16 + choose(count > PATIENCE, size * W, 0))
    excess = xp.where(abs(excess) <= 2 * noise + floor, 0, excess)
    proposal = t + xp.where(excess == 0, 0, curve.step(excess, P, C, W, S))
    search = narrow(search, excess)
    proposal = xp.where(leads_back(search, excess, proposal), math.nan, proposal)
    found, halve = decide(search, excess, proposal, count)
    move = abs(found.t - t)
    size = move / xp.minimum(scale, few / W)
    rounding = (size <= 2 * eps) & (abs(excess) <= 8 * noise) | (size <= eps / 8)
    settled = (excess == 0) | rounding
    t = xp.where(done | settled, t, found.t)
    done = done | settled | ~halve & (curve.bend * move * move <= 2 * eps)
    b, rest = rebase(a, t, tau)
    shift = t - rest
    slack = 2 * eps * abs(shift)  # for the rounding of a shift that is long
    low, high = found.low - shift - slack, found.high - shift + slack
    return State(b, found._replace(t=rest, low=low, high=high), done)


def solve(
    curve: Curve, x: Any, k: Budget, tau: Any, plain: bool = False, free: Any = True
) -> tuple[Any, Any]:
    """Anchors and offsets of rows ``(..., n)`` with 0 < k < n finite entries each.

    Shares and slopes are those at `distances`.  Rows that are not `free` may hold
    anything, and find nothing.
    """

    def going(count: Any, at: State) -> Any:
        return (count < LIMIT) & ~at.done.all()

    def step(count: Any, at: State) -> tuple[Any, State]:
        row = sums(curve, distances(x, tau, at.anchor, at.search.t))
        return count + 1, advance(curve, k, tau, row, at, count)

    start = begin(curve, k, tau, moments(x, k.n, plain))
    if free is not True:
        start = start._replace(done=~free)
    _, at = loop(going, step, (0, start))
    a, t = at.anchor, at.search.t
    if not ends(curve):
        return a, t
    return settled(
        curve, k, tau, a, t, gap_of(x, distances(x, tau, a, t) > curve.centre)
    )


def gap_of(x: Any, above: Any) -> tuple[Any, Any, Any]:
    """How many scores are above the threshold, the least of them, the next one."""
    xp = namespace(x)
    least = xp.min(xp.where(above, x, math.inf), axis=-1)
    most = xp.max(xp.where(above, -math.inf, x), axis=-1)
    return tally(above, x), least, most


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
