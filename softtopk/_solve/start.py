r"""Where the search for the threshold begins: a bracket and a guess.

With the largest and the least of the n scores and :math:`q=k/n`,

.. math:: x_{(n)}-f^{-1}(q)\le\lambda\le x_{(1)}-f^{-1}(q),

since all shares are at least q at the one end and at most q at the other.  For
:math:`k\le1` the first share is at most k, so that :math:`\lambda\ge
x_{(1)}-f^{-1}(k)`; for :math:`k\ge n-1` the last lacks at most n - k, so that
:math:`\lambda\le x_{(n)}-f^{-1}(k-n+1)`.  Derived in *selection/threshold*;
the guess, from mean and deviation, in *computing/cost*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._namespace import after, choose, either, namespace, tally
from .._rows import Budget
from ..curves import Curve


class Search(NamedTuple):
    """Where the search of each row stands: one number a row, or one number."""

    t: Any  # the offset to evaluate next
    low: Any  # the root lies between this
    high: Any  # and this
    excess: Any = math.inf  # the size of the last excess
    width: Any = math.inf  # the width of the bracket before


class State(NamedTuple):
    """A search, the anchor that it counts from, and which rows have ended."""

    anchor: Any
    search: Search
    done: Any


class Moments(NamedTuple):
    """Of the finite scores of each row."""

    top: Any
    least: Any
    mean: Any
    deviation: Any


def extremes(x: Any) -> tuple[Any, Any]:
    """The largest score of each row, and the least above -inf."""
    xp = namespace(x)
    return xp.max(x, axis=-1), xp.min(xp.where(x > -math.inf, x, math.inf), axis=-1)


def measured(x: Any) -> tuple[Any, Moments]:
    """How many entries of each row are above -inf, and their moments."""

    def plain(x: Any, top: Any, least: Any) -> tuple[Any, Moments]:
        n = x.shape[-1]
        return n, _moments(top, least, namespace(x).sum(x, axis=-1) / n, x, n)

    def masked(x: Any) -> tuple[Any, Moments]:
        n = tally(x > -math.inf, x)
        return n, moments(x, n)

    return either(x, plain, masked)


def moments(x: Any, n: Any) -> Moments:
    """What the start of a search needs, of rows with n entries above -inf.

    The mean is NaN if an entry is; the extremes need not be: XLA's of a long row leave
    it out.
    """
    xp, length = namespace(x), x.shape[-1]
    top, least = extremes(x)
    x, n = after(x, least), xp.clip(n, 1, None)
    mean = xp.sum(xp.where(x == -math.inf, 0, x / length), axis=-1) / n * length
    return _moments(top, least, mean, x, n, x == -math.inf)


def _moments(
    top: Any, least: Any, mean: Any, x: Any, n: Any, off: Any = None
) -> Moments:
    """The deviation as well, of n entries: all but those that are `off`."""
    xp, size = namespace(x), namespace(x).maximum(top - mean, mean - least)
    d = (x - mean[..., None]) / xp.where(size > 0, size, 1)[..., None]
    squares = d * d if off is None else xp.where(off, 0, d * d)
    return Moments(top, least, mean, size * xp.sqrt(xp.sum(squares, axis=-1) / n))


def rebase(a: Any, t: Any, tau: Any) -> tuple[Any, Any]:
    """The same threshold, with the rounded sum as anchor and the rest in t, exactly."""
    move = tau * t
    total = a + move
    moved = total - a
    return total, ((a - (total - moved)) + (move - moved)) / tau


def follow(at: State, tau: Any) -> State:
    """The same state, counted from its own threshold.

    What is summed at a long offset from the anchor is rounded to units of that length:
    a pass is made, and trusted, where the offset is a rounding error of the anchor.
    """
    search = at.search
    a, t = rebase(at.anchor, search.t, tau)
    shift = (a - at.anchor) / tau
    t = choose(shift == 0, search.t, t)
    slack = 2 * namespace(t).finfo(t.dtype).eps * abs(shift)  # for its rounding
    low, high = search.low - shift - slack, search.high - shift + slack
    return State(a, search._replace(t=t, low=low, high=high), at.done)


def begin(curve: Curve, k: Budget, tau: Any, row: Moments, middle: Any = None) -> State:
    """Where to start from, for rows with 0 < k < n finite entries.

    `middle` is the curve's inverse of k / n, for a caller that has it already: compiled
    programs are shorter if they calculate it once.

    The threshold is the (1 - k/n)-quantile of a score plus the noise of the curve.  If
    the scores are normal, the skewness of the sum is the noise's times ``wide**-3``:
    so much of the way from the normal quantile to the noise's own is gone.
    """
    xp, a, q = namespace(row.mean), row.mean, k.mean
    middle = curve.inverse(q) if middle is None else middle
    mean, deviation = curve.noise or (0.0, 1.0)
    spread = row.deviation / tau / deviation
    wide = xp.hypot(spread, xp.ones_like(spread))
    normal = ((1 - q) ** 0.135 - q**0.135) / 0.1975
    own = -(mean + middle) / deviation
    t = mean + deviation * wide * (normal + (own - normal) / wide**3)
    above, below = (row.top - a) / tau, (row.least - a) / tau
    slack = 2.0**-6 * (1 + abs(middle))
    slack = slack + 4 * xp.finfo(slack.dtype).eps * (abs(above) + abs(below))
    one, rest = k.without(0), k.rest
    # One call of the inverse serves both ends of the bracket, at k where k < 1 and at
    # k - n + 1 where k > n - 1.  Both hold at once only if n = 1, where both are k.
    single, all_but = one < 1, rest < 1
    end = curve.inverse(xp.where(single, one, xp.where(all_but, 1 - rest, q)))
    first = above - xp.where(single, end, curve.support[1])
    last = below - xp.where(all_but, end, curve.support[0])
    first = xp.where(one <= 1, first, -math.inf)
    last = xp.where(rest <= 1, last, math.inf)
    low = xp.maximum(below - middle, first) - slack
    high = xp.minimum(above - middle, last) + slack
    t = xp.where((low < t) & (t < high), t, 0.5 * low + 0.5 * high)
    far = abs(t) + math.inf
    return follow(State(a, Search(t, low, high, far, far), t != t), tau)


def bracket(curve: Curve, above: Any, below: Any, k: Any, n: int) -> tuple[Any, Any]:
    r"""Bounds of the offset from the K-th and J-th largest entry of d.

    :math:`d_{(J)}-f^{-1}(k/J)\le t\le d_{(K)}-f^{-1}((k-K+1)/(n-K+1))`, since f is at
    most 1 above and at least 0 below.  Where f is 1 from b on :math:`t\ge d_{(K)}-b`,
    since below this K entries have a whole share; where it is 0 up to a
    :math:`t\le d_{(J)}-a`.  (Unless the gap between the two exceeds the width b - a:
    then the thresholds are an interval, and no search is needed.)  Widened for
    rounding.
    """
    K, J = np.ceil(k), np.floor(k) + 1
    tiny = np.finfo(np.float64).tiny
    left = curve.inverse(k / J)
    right = curve.inverse(np.maximum((k - K + 1) / (n - K + 1), tiny))
    low = below - left - (1 + 0.5 * np.abs(left))
    high = above - right + (1 + 0.5 * np.abs(right))
    low = np.maximum(low, above - curve.support[1] - 0.01)
    return low, np.minimum(high, below - curve.support[0])
