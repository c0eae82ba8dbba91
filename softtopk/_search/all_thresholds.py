r"""All thresholds of a row by one sort and a few linear recurrences.

The sorts and ranks of `sorting` need the thresholds of a row at the budgets 1, ...,
n - 1.  For a curve with exponential tails, :math:`f(t)=\alpha e^t` below 0 and
:math:`1-\beta e^{-t}` above, with :math:`\alpha+\beta=1`, they take O(n) operations
once the scores are sorted.  These curves are ``laplace`` (1/2, 1/2) and ``exp`` (1, 0).

Scores stand in descending order, :math:`x_0\ge x_1\ge\dots`, in units of the
temperature:

- Let :math:`H_i=\sum_{l\le i}e^{x_i-x_l}` and :math:`L_i=\sum_{l\ge i}e^{x_l-x_i}`.
  With the threshold at :math:`x_i` the shares sum to
  :math:`g_i=i+\alpha L_i-\beta(H_i-1)`.
- Threshold j lies below the :math:`a_j=\#\{i:g_i<j\}` largest scores.  Budgets are
  whole numbers, so the numbers :math:`\lfloor g_i\rfloor` are counted.
- Let d be the integer :math:`a_j-j`.  What the scores below have, X, and what the
  scores above lack, Y, satisfy :math:`Y-X=d` and :math:`XY=\alpha\beta
  L_{a_j}H_{a_j-1}e^{x_{a_j}-x_{a_j-1}}`.  The sum of the slopes is X + Y.

Each sum is a recurrence :math:`y_i=a_iy_{i-1}+v_i` with :math:`0\le a_i\le1`, and
nothing is subtracted from it.  Derived in *computing/ranks*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._contract import Adapter
from .._rows.numpy_rows import as_column
from ..curves import EXP, LAPLACE, Curve

FAR = 1e5
"""A distance beyond which an exponential is 0, also after a product with it."""

NEAR = math.log(2)
"""The distance up to which a decay d is kept as d - 1."""

_POINTS = 16
"""How many points a block of a long line has."""

_LONGEST_UNCUT_ROW = 128
"""Rows of at most this length are not cut into blocks: that would take them longer."""

_LONGEST_UNCUT_ENDS = 64
"""Lines of at most this many ends of blocks are not cut again."""


def is_exponential(curve: Curve) -> bool:
    """Whether all thresholds of a row are found at once."""
    return curve is LAPLACE or curve is EXP


def once(f: Callable[[Any], Any]) -> Any:
    """A property whose value is kept; torch.compile cannot trace cached_property."""
    name = f.__name__

    def get(self: Any) -> Any:
        if name not in self.kept:
            self.kept[name] = f(self)
        return self.kept[name]

    return property(get, doc=f.__doc__)


def _gaps_between(xp: Adapter, here: Any, there: Any, tau: Any) -> Any:
    """Those of points, each given by a score and an offset in units of tau."""

    def distance(x: Any, y: Any, *offsets: Any) -> Any:
        away = (x - y) / tau
        if offsets:
            away = away + (offsets[0] - offsets[1])
        away = abs(away)
        return xp.where(away < FAR, away, FAR)  # infinities and NaN are FAR

    pairs = zip(here, there, strict=True)
    return xp.entrywise(distance, *(p for pair in pairs for p in pair))


def terms_of(xp: Adapter, away: Any) -> tuple[Any, Any]:
    """c and s with e^-away = c (1 + s), so that s is -1/2 at least.

    The decay of neighbours at a high temperature is close to 1 and would be rounded by
    much more than its difference s from 1.  Here c is exactly 1 and s is accurate.  In
    y = z + (v + s z), with z = c times the sum before, only the last addition rounds a
    number as large as y.
    """
    near = xp.clip(away, None, NEAR)
    return xp.exp(near - away), xp.expm1(-near)


def _over_doubles(xp: Adapter, points: list[Any], tau: Any, n: int) -> list[Any]:
    """The terms over 1, 2, 4, ... of n points along the last axis."""
    steps, size = [], 1
    while size < n:
        ends = [p[..., :-size] for p in points], [p[..., size:] for p in points]
        steps.append(terms_of(xp, _gaps_between(xp, *ends, tau)))
        size *= 2
    return steps


def _doubled(steps: list[Any], n: int) -> list[Any]:
    """The terms over 1, 2, 4, ... of n points, as products of those over one point."""
    size = 1
    while 2 * size < n:
        c, s = steps[-1]
        before, after = (..., slice(-size)), (..., slice(size, None))
        if s is not None:
            s = s[before] + (s[after] + s[before] * s[after])
        steps.append((c[before] * c[after], s))
        size *= 2
    return steps


class Blocks:
    """The blocks of a long line, and the decays within them and between them.

    The decays between blocks come from the positions, so that the rounding errors of
    the decays of all points between do not add up.

    Parameters
    ----------
    points : list of arrays (..., n)
        Scores and, optionally, offsets in units of the temperature.
    ways : booleans
        The directions in which sums are wanted: True is from the end to the start, so
        that "before" means "after".
    """

    def __init__(self, xp: Adapter, points: list[Any], tau: Any, ways: Any) -> None:
        self.xp, self.n = xp, points[0].shape[-1]
        tau = as_column(tau)
        at = [self._cut(p) for p in points]

        def terms(here: Any, there: Any) -> tuple[Any, Any]:
            return terms_of(xp, _gaps_between(xp, here, there, tau))

        first = terms([p[..., :-1] for p in at], [p[..., 1:] for p in at])
        self.steps = _doubled([first], _POINTS)
        self.ends = {back: [p[..., 0 if back else -1] for p in at] for back in ways}
        self.across = {
            back: terms(
                [self._beyond(p, back)[..., None] for p in self.ends[back]],
                [p[..., :-1, :] if back else p[..., 1:, :] for p in at],
            )
            for back in ways
        }

    @staticmethod
    def _beyond(ends: Any, back: bool) -> Any:
        """The values at the ends of the blocks before those that have one."""
        return ends[..., 1:] if back else ends[..., :-1]

    def _cut(self, v: Any) -> Any:
        """A line cut into blocks, and filled up with zeros."""
        xp, rest = self.xp, -v.shape[-1] % _POINTS
        if rest:
            v = xp.concat([v, xp.zeros_like(v[..., :rest])], axis=-1)
        return xp.reshape(v, (*v.shape[:-1], v.shape[-1] // _POINTS, _POINTS))

    def inner(self, v: Any, back: bool) -> tuple[Any, Any]:
        """The sums within each block, and those over whole blocks."""
        y = self.xp.recur(self.steps, self._cut(v), back)
        return y, y[..., 0 if back else -1]

    def outer(self, y: Any, before: Any, back: bool) -> Any:
        """These sums with what the blocks before add; `before` are sums of blocks."""
        c, s = self.across[back]
        more = c * self._beyond(before, back)[..., None]
        if back:
            inner = more + (y[..., :-1, :] + s * more)
            y = self.xp.concat([inner, y[..., -1:, :]], axis=-2)
        else:
            inner = more + (y[..., 1:, :] + s * more)
            y = self.xp.concat([y[..., :1, :], inner], axis=-2)
        y = self.xp.reshape(y, (*y.shape[:-2], y.shape[-2] * _POINTS))
        return y[..., : self.n]


class _Line:
    """Points along a line, for the sums over the points up to each point."""

    def __init__(
        self, xp: Adapter, points: list[Any], tau: Any, ways: Any, row: Any = None
    ) -> None:
        """`row` calculates the decays between neighbours, for a line of a whole row."""
        self.xp, n = xp, points[0].shape[-1]
        self.blocks: Any = None
        whole = n <= (_LONGEST_UNCUT_ROW if row else _LONGEST_UNCUT_ENDS)
        if whole and row:
            self.steps = _doubled([(row(), None)], n)
            return
        if xp.in_memory:
            self.blocks = xp.blocks(points, tau, ways, whole)
        elif whole:
            self.steps = _over_doubles(xp, points, tau, n)
            return
        else:
            self.blocks = Blocks(xp, points, tau, ways)
        ends = self.blocks.ends
        self.ends = {back: _Line(xp, ends[back], tau, (back,)) for back in ends}

    def sums(self, v: Any, back: bool, *own: bool) -> Any:
        """For each point the sum of v over it and those before, times the decays.

        A line of NumPy that is cut can leave out the point itself, if `own` is False.
        """
        if self.blocks is None:
            return self.xp.recur(self.steps, v, back)
        inner, ends = self.blocks.inner(v, back, *own)
        if not self.ends:
            return inner
        return self.blocks.outer(inner, self.ends[back].sums(ends, back), back)


class Both:
    """Sums over the points before and over those after each point of a row.

    Parameters
    ----------
    points : list of arrays (..., n)
        Descending scores and, optionally, offsets in units of the temperature.
    none : (..., 1) array
        Zeros.
    """

    def __init__(self, xp: Adapter, points: list[Any], tau: Any, none: Any) -> None:
        self.xp, self._points, self._tau, self._none = xp, points, tau, none
        self.kept: dict[str, Any] = {}
        self._line = _Line(xp, points, tau, (False, True), lambda: self.decay)

    @once
    def decay(self) -> Any:
        """The decays between neighbours."""
        here, there = (
            [p[..., :-1] for p in self._points],
            [p[..., 1:] for p in self._points],
        )
        return self.xp.exp(-_gaps_between(self.xp, here, there, self._tau))

    def sums(self, v: Any, back: bool) -> Any:
        """The sums of v over the points up to each, or from it on."""
        return self._line.sums(v, back)

    def others(self, v: Any, back: bool) -> Any:
        """The sums of v over the points before each, or after it."""
        if self.xp.in_memory and self._line.blocks:
            return self._line.sums(v, back, False)
        before = slice(1, None) if back else slice(-1)
        return self.onwards(self.decay * self.sums(v, back)[..., before], back)

    def onwards(self, steps: Any, back: bool) -> Any:
        """What arrives at each point from the point before, or from that after."""
        ends = [steps, self._none] if back else [self._none, steps]
        return self.xp.concat(ends, axis=-1)

    def __call__(self, before: Any, after: Any) -> tuple[Any, Any]:
        """The sums of `before` over points up to each, and of `after` from it on."""
        return self.sums(before, False), self.sums(after, True)


class Thresholds:
    """The thresholds of rows at the budgets 1, ..., n - 1, as constants.

    An index k counts budgets from 0, so that the budget is j = k + 1; the place k of
    the sorted order lies between the thresholds k - 1 and k.

    Attributes
    ----------
    permutation : (..., n) integers
        The scores in descending order.
    x, tau
        The scores in this order and the temperature (..., 1), both times `scale`.
    taken : (..., n) booleans
        The scores that are not -inf, which come first.
    higher, lower : (..., n) arrays
        The sums over the scores above and below each score of the decays to it.
    place : (..., n) integers
        The number of thresholds at or above each score.
    a : (..., n - 1) integers
        The number of scores above each threshold.
    high, low : (..., n - 1) arrays
        Slopes at the scores next to the threshold above and below it, or 0.
    W : (..., n - 1) array
        The sum of all slopes of each threshold.
    left : (..., n - 1) booleans
        Whether a threshold is measured from the score above it or from the one below.
    points : list of two (..., n - 1) arrays
        These scores, and the distances of the thresholds from them in units of tau,
        negative below.
    """

    def __init__(self, xp: Adapter, curve: Curve, x: Any, tau: Any) -> None:
        self.xp, self.n = xp, x.shape[-1]
        self.kept: dict[str, Any] = {}
        if self.n == 1:  # a second score that takes no part: there is a threshold
            x = xp.concat([x, xp.zeros_like(x) - math.inf], axis=-1)
        n = x.shape[-1]
        self.alpha, self.beta = (1.0, 0.0) if curve is EXP else (0.5, 0.5)
        self.tau = as_column(tau)
        x, self.permutation = xp.descending(x)
        self.taken = taken = x > -math.inf
        # Whether all scores take part, if values may be read.
        self.full = xp.in_memory and bool(taken[..., -1].all())
        if self.full:
            self.count = xp.integers(taken[..., -1:], x) * n
        else:
            self.count = xp.sum(xp.integers(taken, x), axis=-1)[..., None]
        self.last = xp.clip(self.count - 1, 0, None)
        self._in_range(x)
        # The recurrences over the scores, and the sum of the shares at each of them.
        self.one = xp.astype(taken, x.dtype)
        self.i = i = xp.indices(n, x)[None, :] if x.ndim > 1 else xp.indices(n, x)
        self.over_scores = Both(xp, [self.x], self.tau, self.none)
        self.lower = self.over_scores.others(self.one, True)
        falls = x[..., 1:] < x[..., :-1]
        self._first = None  # of equal scores
        if not (self.full and falls.all()):
            falls = xp.concat([taken[..., :1], falls], axis=-1)
            self._first = xp.running_max(xp.where(falls, i, 0))

        def level(i: Any, taken: Any, lower: Any, *higher: Any) -> Any:
            rise = self.alpha * (1 + lower)
            if higher:
                rise = rise - self.beta * higher[0]
            place = i + xp.integers(xp.floor(self.only(taken, rise)), x)
            return self.only(taken, xp.minimum(place, self.last), n - 1)

        sums = (self.lower, self.higher) if self.beta else (self.lower,)
        place = self.shared(xp.entrywise(level, i, taken, *sums))
        self.place = place = xp.running_max(place)
        self._between_scores(place)

    def only(self, condition: Any, value: Any, other: Any = 0) -> Any:
        """The value where a score takes part or a threshold exists."""
        return value if self.full else self.xp.where(condition, value, other)

    def shared(self, v: Any) -> Any:
        """The values with one for equal scores, that of the first of them."""
        return v if self._first is None else self.xp.take(v, self._first)

    def _in_range(self, x: Any) -> None:
        """Scale scores near the end of the range, so that no difference overflows."""
        xp, info = self.xp, self.xp.finfo(x.dtype)
        ends = xp.concat([x[..., :1], xp.take(x, self.last)], axis=-1)
        far = self.only(ends > -math.inf, abs(ends)) > float(info.max) / 4
        far = far[..., :1] | far[..., 1:]
        self.x, self.scale = x, 1.0
        if xp.in_memory and not far.any():
            return
        self.scale = xp.where(far, xp.zeros_like(ends[..., :1]) + 0.5, 1)
        self.x, least = x * self.scale, float(info.tiny) * float(info.eps)
        tau = self.scale * self.tau
        self.tau = xp.where(tau > least, tau, least)

    def _between_scores(self, place: Any) -> None:
        xp, x, n = self.xp, self.x, self.x.shape[-1]
        self.a = a = xp.cumsum(xp.scatter(None, place, n))[..., :-1]
        # There are as many thresholds as scores after the first.
        j, self.valid = self.i[..., 1:], self.taken[..., 1:]
        least = float(xp.finfo(x.dtype).tiny)

        def one_sided(a: Any, j: Any, valid: Any) -> tuple[Any, Any]:
            # The scores below have all of the budget that those above leave.
            remaining = self.only(valid, xp.astype(j - a, x.dtype), 1)
            L = 1 + self.only(valid, xp.take(self.lower, xp.clip(a, None, n - 1)), 1)
            return self.only(valid, remaining / L), remaining

        def two_sided(a: Any, j: Any, valid: Any) -> tuple[Any, Any, Any]:
            above, below = self.beside_threshold(a)
            H, L = 1 + xp.take(self.higher, above), 1 + xp.take(self.lower, below)
            d = xp.astype(a - j, x.dtype)
            # Roots of Y - X = d and X Y = half^2; the larger one subtracts nothing.
            left, e = d >= 0, 0.5 * abs(d)
            half = xp.sqrt((self.alpha * L) * (self.beta * H)) * xp.exp(
                -0.5 * self.gaps(a)
            )
            root = xp.sqrt(e * e + half * half)
            large = e + xp.maximum(root, half)  # the squares may be below all numbers
            small = half * (half / (large + least))
            X, Y = xp.where(left, small, large), xp.where(left, large, small)
            return self.only(valid, X / L), X + Y, self.only(valid, Y / H)

        law = two_sided if self.beta else one_sided
        self.low, self.W, *high = xp.entrywise(law, a, j, self.valid)
        if high:
            self.kept["high"] = high[0]

    @once
    def left(self) -> Any:
        """Whether each threshold is measured from the score above it."""
        return self.a >= self.i[..., 1:] if self.beta else self.a < 0

    @once
    def points(self) -> list[Any]:
        """The scores next to the thresholds, and the distances from them."""
        xp, least = self.xp, float(self.xp.finfo(self.x.dtype).tiny)

        def found(a: Any, j: Any, left: Any, valid: Any, low: Any, *high: Any) -> Any:
            slope, D = low / self.alpha, self.gaps(a)
            if high:
                slope = xp.where(left, high[0] / self.beta, slope)
            # The distance to the nearer neighbour comes from a logarithm.
            near = -xp.log(self.only(valid, slope, 1) + least)
            level = (D > 1e2) & (a == j)  # free of the exponential, which may be 0
            if high and (not xp.in_memory or level.any()):
                above, below = self.beside_threshold(a)
                H, L = 1 + xp.take(self.higher, above), 1 + xp.take(self.lower, below)
                near = xp.where(level, 0.5 * (D + xp.log(H / L)), near)
            near = xp.minimum(xp.clip(near, 0, None), D)
            return self.only(valid, xp.where(left, -near, near))

        given = self.a, self.i[..., 1:], self.left, self.valid, self.low
        away = xp.entrywise(found, *given, *((self.high,) if self.beta else ()))
        at = xp.take(self.x, xp.clip(self.anchor, None, self.x.shape[-1] - 1))
        return [self.only(self.valid, at, -math.inf), away]

    @once
    def over_thresholds(self) -> Both:
        """The recurrences over the thresholds."""
        return Both(self.xp, self.points, self.tau, self.none)

    @once
    def higher(self) -> Any:
        """The sums over the higher scores of the decays to each score."""
        return self.over_scores.others(self.one, False)

    @once
    def H(self) -> Any:
        """The sums over scores of the decays to each score, from above."""
        return self.one + self.higher

    @once
    def L(self) -> Any:
        """The sums over scores of the decays to each score, from below."""
        return self.one + self.lower

    @once
    def high(self) -> Any:
        """Slopes at the scores above thresholds, which the curve exp has not."""
        return self.xp.zeros_like(self.low)

    @once
    def gap(self) -> Any:
        """The distances between neighbouring scores."""
        return self.xp.entrywise(self.apart, self.x[..., :-1], self.x[..., 1:])

    @once
    def none(self) -> Any:
        """A column of zeros."""
        return self.xp.zeros_like(self.x[..., :1])

    @once
    def all_gaps(self) -> Any:
        """These distances between two infinite ones."""
        far = self.none + FAR
        return self.xp.concat([far, self.gap, far], axis=-1)

    def gaps(self, a: Any) -> Any:
        """The distance of the two scores at the gap under the a largest ones."""
        return self.xp.take(self.all_gaps, a)

    @once
    def next_slopes(self) -> tuple[Any, Any]:
        """The slopes at each score of the next thresholds above and below."""
        xp, last = self.xp, self.x.shape[-1] - 1

        def found(x: Any, place: Any, taken: Any) -> Any:
            above, below = self.beside(place)
            under = xp.take(self.x, xp.clip(xp.take(self.a, above), None, last))
            E = xp.take(self.low, above) * xp.exp((x - under) / self.tau)
            E = self.only(taken, xp.where(place > 0, E, 0))
            if not self.beta:
                return E, xp.zeros_like(E)
            over = xp.take(self.x, xp.clip(xp.take(self.a, below) - 1, 0, None))
            e = xp.take(self.high, below) * xp.exp((over - x) / self.tau)
            return E, self.only(taken, xp.where(place < self.last, e, 0))

        sides: tuple[Any, Any] = xp.entrywise(found, self.x, self.place, self.taken)
        return sides

    @once
    def nearest_thresholds(self) -> tuple[Any, Any]:
        """Distances from each score to the next threshold above and below."""
        xp, left, away = self.xp, self.left, self.points[1]
        D = self.gaps(self.a)
        lo = xp.where(left, xp.clip(D + away, 0, None), away)
        hi = xp.where(left, -away, xp.clip(D - away, 0, None))
        over, under = self.around(self.x, self.x)
        above, below = self.beside(self.place)
        up = xp.take(lo, above) + self.apart(xp.take(under, above), self.x)
        down = xp.take(hi, below) + self.apart(self.x, xp.take(over, below))
        up = xp.where((self.place > 0) & self.taken, up, FAR)
        return up, xp.where((self.place < self.last) & self.taken, down, FAR)

    @once
    def anchor(self) -> Any:
        """The score above or below, from which each threshold is measured."""
        return self.a - self.xp.integers(self.left, self.x)

    def around(self, before: Any, after: Any) -> tuple[Any, Any]:
        """Values at the scores above and below each threshold."""
        above, below = self.neighbours
        return self.xp.take(before, above), self.xp.take(after, below)

    def beside(self, place: Any) -> tuple[Any, Any]:
        """Indices of the thresholds above and below a score, if there are any."""
        most, above = self.x.shape[-1] - 2, place - 1
        if not self.full or self.x.shape[0] > 1:
            # In one whole row NumPy counts -1 from the end, and E is 0 there.
            above = self.xp.clip(above, 0, None)
        return above, self.xp.clip(place, None, most)

    @once
    def neighbours(self) -> tuple[Any, Any]:
        """Indices of the scores above and below each threshold, if there are any."""
        return self.beside_threshold(self.a)

    def beside_threshold(self, a: Any) -> tuple[Any, Any]:
        """Indices of the scores above and below thresholds, if there are any."""
        xp = self.xp
        return xp.clip(a - 1, 0, None), xp.clip(a, None, self.x.shape[-1] - 1)

    def apart(self, upper: Any, lower: Any) -> Any:
        """Distances of scores in units of tau, at most FAR."""
        away = (upper - lower) / self.tau
        if self.full:
            return self.xp.minimum(away, FAR)
        return self.xp.where(abs(away) < FAR, away, FAR)
