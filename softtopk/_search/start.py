r"""The start of the search for the threshold: a bracket and a first guess.

With the largest and the least of the n scores and :math:`q=k/n`,

.. math:: x_{(n)}-f^{-1}(q)\le\lambda\le x_{(1)}-f^{-1}(q),

since all shares are at least q at the lower end and at most q at the upper end.  For
:math:`k\le1` the largest share is at most k, so that :math:`\lambda\ge
x_{(1)}-f^{-1}(k)`.  For :math:`k\ge n-1` the least share is at least k - n + 1, so that
:math:`\lambda\le x_{(n)}-f^{-1}(k-n+1)`.  Both are derived in *selection/threshold*,
and the first guess, from mean and deviation, in *computing/search*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._rows.budget import Budget
from .._rows.namespace import after, choose, either, is_nan, loop, namespace, tally
from ..curves import Curve

_NARROW = 2**12
"""The width in temperatures to which `narrowed` bisects.

An integer: torch.compile turns a float that a loop reads into an input of the graph.
"""


class Search(NamedTuple):
    """The state of the search; a field has a number for each row, or is a scalar."""

    t: Any  # the offset to evaluate next
    low: Any  # the root lies between this
    high: Any  # and this
    excess: Any = math.inf  # the size of the last excess
    width: Any = math.inf  # the width of the bracket before the last pass


class State(NamedTuple):
    """A search, the anchor of its offsets, and which rows have converged."""

    anchor: Any
    search: Search
    done: Any


class Moments(NamedTuple):
    """Of the finite scores of each row.

    In the `overflowing` rows, `narrowed` has put scores around the k-th largest in the
    place of the extremes, and the lower one in that of the mean.
    """

    top: Any
    least: Any
    mean: Any
    deviation: Any
    overflowing: Any = None


def extremes(x: Any) -> tuple[Any, Any]:
    """The largest score of each row, and the least above -inf."""
    xp = namespace(x)
    return xp.max(x, axis=-1), xp.min(xp.where(x > -math.inf, x, math.inf), axis=-1)


def counted_moments(x: Any) -> tuple[Any, Moments]:
    """How many entries of each row are above -inf, and their moments."""

    def unguarded(x: Any, top: Any, least: Any) -> tuple[Any, Moments]:
        n = x.shape[-1]
        return n, _moments_but(top, least, namespace(x).sum(x, axis=-1) / n, x, n)

    def masked(x: Any) -> tuple[Any, Moments]:
        n = tally(x > -math.inf, x)
        return n, moments(x, n)

    return either(x, unguarded, masked)


def moments(x: Any, n: Any) -> Moments:
    """What the start of a search needs to know of rows with n entries above -inf.

    If an entry is NaN, so is the mean.  The extremes need not be, because XLA's
    reductions of a long row ignore NaN.
    """
    xp, length = namespace(x), x.shape[-1]
    top, least = extremes(x)
    x, n = after(x, least), xp.clip(n, 1, None)
    mean = xp.sum(xp.where(x == -math.inf, 0, x / length), axis=-1) / n * length
    return _moments_but(top, least, mean, x, n, x == -math.inf)


def _moments_but(
    top: Any, least: Any, mean: Any, x: Any, n: Any, off: Any = None
) -> Moments:
    """The moments with the deviation, of n entries: all except those that are `off`."""
    xp, size = namespace(x), namespace(x).maximum(top - mean, mean - least)
    d = (x - mean[..., None]) / xp.where(size > 0, size, 1)[..., None]
    squares = d * d if off is None else xp.where(off, 0, d * d)
    return Moments(top, least, mean, size * xp.sqrt(xp.sum(squares, axis=-1) / n))


def narrowed(
    split: Callable[[Any], tuple[Any, Any, Any]],
    k: Budget,
    tau: Any,
    row_moments: Moments,
    inner: Any,
) -> Moments:
    """The moments, for a search in rows whose distances in temperatures overflow.

    There bisection replaces the extremes by two scores around the k-th largest, whose
    distances from the threshold are finite.  An entry whose distance overflows has the
    share 0 or 1, however far it is.  Ordinary rows, and rows that are not `inner`, take
    part in no pass of this search.  `split` is `root.neighbours_of` with a number for
    each row: how many scores are above it, the least of these, and the largest of the
    others.
    """
    top, least, mean, deviation, _ = row_moments
    xp = namespace(mean)

    def step(low: Any, high: Any, going: Any) -> Any:
        # With two equal factors, a compiler may add first, which may overflow.
        middle = 0.625 * low + 0.375 * high
        # Rounding may put it outside of [low, high), where a pass excludes no score.
        middle = xp.maximum(low, xp.where(middle < high, middle, low))
        count, above, below = split(middle)
        enough = k.without(count) <= 0
        low = xp.where(going & enough, above, low)
        high = xp.where(going & ~enough, below, high)
        return low, high, going & (high - low > _NARROW * tau)

    most = float(xp.finfo(mean.dtype).max)
    # Half of the span at least, and all of it at most.
    size = xp.maximum(top - mean, mean - least)
    # A span that overflows itself is at least `most` / tau temperatures wide.
    far_apart = (size > most / 2**11 * tau) | ((size > most / 4) & (tau < most**0.5))
    overflowing = inner & far_apart
    state = least, top, overflowing
    low, high, _ = loop(lambda low, high, going: going.any(), step, state)
    mean = xp.where(overflowing, low, mean)
    deviation = xp.where(overflowing, 0, deviation)
    return Moments(high, low, mean, deviation, overflowing)


def rebase(a: Any, t: Any, tau: Any) -> tuple[Any, Any]:
    """The same threshold a + tau t, with its rounded value as anchor.

    The new t has the rounding error of this sum, exactly (TwoSum), divided by tau.
    """
    move = tau * t
    total = a + move
    moved = total - a
    return total, ((a - (total - moved)) + (move - moved)) / tau


def follow(at: State, tau: Any) -> State:
    """The same state, with the rounded current threshold as anchor.

    The distances u = (x - a) / tau - t are rounded to an ulp of t.  So every pass is
    made at an anchor for which t is only the anchor's rounding error.
    """
    search = at.search
    a, t = rebase(at.anchor, search.t, tau)
    shift = (a - at.anchor) / tau
    t = choose(shift == 0, search.t, t)
    slack = 2 * namespace(t).finfo(t.dtype).eps * abs(shift)  # for the rounding of it
    low, high = search.low - shift - slack, search.high - shift + slack
    return State(a, search._replace(t=t, low=low, high=high), at.done)


def begin(
    curve: Curve, k: Budget, tau: Any, row_moments: Moments, middle: Any = None
) -> State:
    """The state in which to start the search, for rows with 0 < k < n finite entries.

    `middle` is the curve's inverse of k / n.  A caller that has computed it passes it
    on, because a compiled program is shorter if it contains the inverse once.

    The threshold is the (1 - k/n)-quantile of a score plus the noise of the curve.  If
    the scores are normal, the skewness of that sum is the skewness of the noise times
    ``factor**-3``.  So the guess interpolates between the normal quantile and the
    noise's own, with ``factor**-3`` as the weight of the latter.
    """
    xp, a, q = namespace(row_moments.mean), row_moments.mean, k.mean()
    middle = curve.inverse(q) if middle is None else middle
    mean, deviation = curve.noise or (0.0, 1.0)
    spread = row_moments.deviation / tau / deviation
    factor = xp.hypot(spread, xp.ones_like(spread))
    normal = ((1 - q) ** 0.135 - q**0.135) / 0.1975
    own = -(mean + middle) / deviation
    t = mean + deviation * factor * (normal + (own - normal) / factor**3)
    above, below = (row_moments.top - a) / tau, (row_moments.least - a) / tau
    slack = 2.0**-6 * (1 + abs(middle))
    slack = slack + 4 * xp.finfo(slack.dtype).eps * (abs(above) + abs(below))
    k_float, rest = k.without(0), k.rest()
    # One call of the inverse serves both ends of the bracket, at k where k < 1 and at
    # k - n + 1 where k > n - 1.  Both hold at once only if n = 1, where both are k.
    single, all_but = k_float < 1, rest < 1
    end = curve.inverse(xp.where(single, k_float, xp.where(all_but, 1 - rest, q)))
    first = above - xp.where(single, end, curve.support[1])
    last = below - xp.where(all_but, end, curve.support[0])
    first = xp.where(k_float <= 1, first, -math.inf)
    last = xp.where(rest <= 1, last, math.inf)
    low = xp.maximum(below - middle, first) - slack
    high = xp.minimum(above - middle, last) + slack
    if row_moments.overflowing is not None:
        room = float(xp.finfo(slack.dtype).max) ** 0.5
        low = xp.where(row_moments.overflowing, -room, low)
        high = xp.where(row_moments.overflowing, room, high)
    return started(a, t, low, high, tau)


def started(a: Any, t: Any, low: Any, high: Any, tau: Any) -> State:
    """The state with these anchors, first guesses and brackets of the offset."""
    t = namespace(t).where((low < t) & (t < high), t, 0.5 * low + 0.5 * high)
    infinite = abs(t) + math.inf
    return follow(State(a, Search(t, low, high, infinite, infinite), is_nan(t)), tau)


def bracket(curve: Curve, above: Any, below: Any, k: Any, n: int) -> tuple[Any, Any]:
    r"""Bounds of the offset, from the K-th and the J-th largest entry of d.

    These entries are `above` and `below`, with K = ceil(k) and J = floor(k) + 1.
    :math:`d_{(J)}-f^{-1}(k/J)\le t\le d_{(K)}-f^{-1}((k-K+1)/(n-K+1))`, since the
    shares of the entries above are at most 1, and those of the entries below at least
    0.  If f rises from 0 at u to 1 at v, :math:`t\ge d_{(K)}-v`, since for a lower t
    there are K entries with share 1, which use up the budget alone, and
    :math:`t\le d_{(J)}-u` in the same way.  (The last two do not hold if the gap
    between the entries exceeds the width v - u, but then the thresholds are an interval
    and no search is needed.)

    The bounds are widened by 16 roundings in single precision.  The root may lie on a
    bound, as it does for equal scores, and the distances and f^-1 are rounded.  They
    are not widened by more, because at a budget near 0 the root is so high already that
    e^t would overflow there, and with it the sums of `numpy_sums`.
    """
    K, J = np.ceil(k), np.floor(k) + 1
    tiny = np.finfo(np.float64).tiny
    for_low = curve.inverse(k / J)
    for_high = curve.inverse(np.maximum((k - K + 1) / (n - K + 1), tiny))
    eps = 2.0**-20
    one, other = eps * (1 + np.abs(above)), eps * (1 + np.abs(below))
    low = below - for_low - (other + eps * np.abs(for_low))
    high = above - for_high + (one + eps * np.abs(for_high))
    low = np.maximum(low, above - curve.support[1] - one)
    return low, np.minimum(high, below - curve.support[0] + other)
