"""The passes of a soft selection over one chunk of rows.

The first pass, `survey`, draws a sample; hard selections and softmax begin with it,
too.  Every later pass is a call of `sums_at_nodes`, which sums shares at a few
thresholds and returns the scores in given windows, or a sample of them.  `chunk_sums`
adds up what the chunks tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._rows.numpy_rows import Array, numpy_distances
from ..curves import CLIP, EXP, Curve, Entmax
from . import root
from .chunk_sums import NodeSums, Survey
from .numpy_sums import FlatEntmaxSums, Scheme, column, scheme_of
from .start import rebase

PIECE_BYTES = 1 << 18
"""Bytes of a piece, the scores of a chunk that are calculated with at a time."""

_SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)
# Temperatures within which a scheme's exponentials stay in range, with all digits.
_EXPONENT_RANGE = {np.dtype(np.float64): 300.0, np.dtype(np.float32): 8.0}


class Points(NamedTuple):
    """Thresholds ``a + tau t``, held as pairs: they may be far from each other."""

    a: Array
    t: Array

    def pick(self, index: Any) -> Points:
        """Some of them."""
        return Points(self.a[index], self.t[index])

    def minus(self, other: Points, tau: float) -> Array:
        """The differences in temperatures; infinite where they overflow."""
        return (self.a - other.a) / tau + (self.t - other.t)

    def moved(self, by: Any, tau: float) -> Points:
        """The same plus so many temperatures, with the rounded sum as anchor."""
        return Points(*rebase(self.a, self.t + by, tau))

    def where(self, condition: Array, other: Points) -> Points:
        """These where the condition holds, and the others elsewhere."""
        pairs = zip(self, other, strict=True)
        return Points(*(np.where(condition, own, others) for own, others in pairs))

    def write(self, index: Any, other: Points) -> None:
        """Write others in the place of some of them."""
        self.a[index], self.t[index] = other


def survey(x: Array, *, every: float | None, size: int, seed: int) -> Survey:
    """The first pass over a chunk ``(r, m)``.

    The columns of the sample are drawn one from each `every`; without it, at most
    `size` columns are drawn.
    """
    (r, m), none = x.shape, np.full(len(x), math.inf)
    with np.errstate(all="ignore"):
        top = x.max(axis=-1).astype(np.float64) if m else -none
        least = x.min(axis=-1).astype(np.float64) if m else none
    n, bad = np.full(r, m), np.zeros(r)
    if not (np.isfinite(top).all() and np.isfinite(least).all()):
        n, least, bad = _irregular(x)
        top = np.where(bad != 0, math.inf, top)
    if every is None:
        every = max(1.0, m / size)
    sample = x
    if every > 1:
        drawn = np.arange(math.ceil(m / every), dtype=np.float64)
        drawn += np.random.default_rng((20, seed)).random(len(drawn))
        columns = (drawn * every).astype(np.int64)
        sample = x[:, columns[columns < m]]
    return Survey(n, top, least, bad, sample.astype(np.float64), every, m)


def _irregular(x: Array) -> tuple[Array, Array, Array]:
    """Of each row: how many scores are above -inf, their least, and the first bad."""
    r = len(x)
    n, least, bad = np.zeros(r, np.int64), np.full(r, math.inf), np.zeros(r)
    for rows, columns in pieces(x):
        some = x[rows, columns]
        on = np.isfinite(some)
        n[rows] += on.sum(axis=-1)
        low = np.where(on, some, math.inf).min(axis=-1)
        least[rows] = np.minimum(least[rows], low)
        bad[rows] = np.where(bad[rows] == 0, first_bad(some), bad[rows])
    return n, least, bad


def first_bad(x: Array) -> Array:
    """The first score of each row that is NaN or +inf; 0 if there is none."""
    bad = ~np.isfinite(x) & (x != -math.inf)
    if not np.count_nonzero(bad):
        return np.zeros(len(x))
    first = x[np.arange(len(x)), bad.argmax(axis=-1)]
    return np.where(bad.any(axis=-1), first, 0)


def pieces(x: Array) -> Iterator[tuple[slice, slice]]:
    """The pieces of a chunk: some rows, or a stretch of a long one."""
    r, m = x.shape
    if not m:
        return
    size = PIECE_BYTES // x.itemsize
    height, width = max(1, size // m), min(m, size)
    for i in range(0, r, height):
        for j in range(0, m, width):
            yield slice(i, i + height), slice(j, j + width)


def sums_at_nodes(
    x: Array,
    a: Array,
    t: Array,
    near: Array,
    low: Array,
    high: Array,
    every: Array,
    curve: Curve,
    tau: float,
    most: int,
    precise: bool,
    seed: int,
) -> NodeSums:
    """A pass over a chunk ``(r, m)``.

    Parameters
    ----------
    x : (r, m) array
    a, t : (r, nodes) arrays
        The nodes, as pairs.
    near : (r, 2) array
        Scores below the first or above the second number have the share 0 or 1 at every
        node, up to less than rounding.
    low, high : (r, windows) arrays
        The windows, which lie between the two numbers.
    every : (r, windows) array
        One in `every` scores of a window is returned.
    curve : Curve
    tau : float
    most : int
        The most scores returned for a window of a row.  If there are more, equal ones
        are merged if that halves them; otherwise half of them are dropped at random,
        until they fit.
    precise : bool
        Whether to calculate in double precision whatever the type of the scores is.
    seed : int
    """
    nodes, sums, neighbours = Points(a, t), np.zeros((*a.shape, 4)), None
    if root.ends(curve):
        neighbours = np.tile([0.0, math.inf, -math.inf], (*a.shape, 1))
    listed = Listed(low, high, every, most, seed, x.dtype)
    dtype = np.dtype(np.float64 if precise else x.dtype)
    with np.errstate(all="ignore"):
        size = PIECE_BYTES // x.itemsize
        anchor, offset, scheme, dtype = scheme_at(curve, nodes, tau, dtype, size)
        room = np.empty(size, dtype)

        def add(rows: slice, some: Array) -> None:
            listed.add(rows, some)
            if scheme is not None:
                held = room[: some.size].reshape(some.shape)
                new = _of_scheme(scheme, some, anchor[rows], offset[rows], tau, held)
            else:
                x64 = some.astype(np.float64)
                new = np.empty((len(some), a.shape[1], 4))
                for j in range(a.shape[1]):
                    u = root.distances(x64, tau, a[rows, j], t[rows, j])
                    new[:, j] = np.stack(_sums_of(curve, u), axis=-1)
            sums[rows] += new
            if neighbours is not None:
                _widen(neighbours[rows], new, some, curve, nodes, rows, tau)

        if x.shape[1] < size:
            for rows, columns in pieces(x):
                add(rows, x[rows, columns])
            return NodeSums(sums, neighbours, *listed.result())
        for i in range(len(x)):
            counted_above = 0
            for some, above in _between(x[i], size, near[i]):
                counted_above += above
                if some.size:
                    add(slice(i, i + 1), some[None])
            sums[i, :, 0] += counted_above
            if neighbours is None or np.isnan(neighbours[i, :, 0]).all():
                continue
            lower, upper = _beside(x[i], size, near[i])
            neighbours[i, :, 0] += counted_above
            neighbours[i, :, 1] = np.minimum(neighbours[i, :, 1], lower)
            neighbours[i, :, 2] = np.maximum(neighbours[i, :, 2], upper)
    return NodeSums(sums, neighbours, *listed.result())


def scheme_at(
    curve: Curve, nodes: Points, tau: float, dtype: Any, size: int
) -> tuple[Array, Array, Scheme | None, Any]:
    """One anchor for each row, the offsets of its nodes, and the curve's scheme.

    The scheme works in the type that is given or, where single precision has no digits
    left for an offset, in double precision.  There is none if an offset is so large
    that its exponentials leave the range.
    """
    scheme, middle = scheme_of(curve), nodes.pick((slice(None), nodes.a.shape[1] // 2))
    for used in (np.dtype(dtype), np.dtype(np.float64)):
        anchor, reach = middle.a.astype(used).astype(np.float64), _EXPONENT_RANGE[used]
        t = (nodes.a - anchor[:, None]) / tau + nodes.t
        # `FlatEntmaxSums.at_offset` takes log(1 - b offset): b offset is far below 1.
        if isinstance(curve, Entmax) and scheme is FlatEntmaxSums:
            reach = 0.25 / curve.b
        if scheme and (abs(t) < reach).all():
            return anchor, t, scheme(curve, size, used), used
    return anchor, t, None, used


def _between(x: Array, size: int, near: Array) -> Iterator[tuple[Array, int]]:
    """The scores of a long row between two numbers, and how many more are above both.

    They come in arrays of at most `size`.  Where the most lie between the numbers, all
    are returned, because collecting some of them would take longer.
    """
    low, high = _inward(near[:1], near[1:], x.dtype)
    held: list[Array] = []
    count = above = 0
    for j in range(0, len(x), size):
        some = x[j : j + size]
        on = some >= low
        least = int(np.count_nonzero(on))
        on &= some <= high
        inner = int(np.count_nonzero(on))
        if 2 * inner > len(some):
            yield some, 0
            continue
        if count + inner > size:
            yield np.concatenate(held), above
            held, count, above = [], 0, 0
        above += least - inner
        if inner:
            held.append(some.take(np.flatnonzero(on)))
            count += inner
    yield np.concatenate([x[:0], *held]), above


def _inward(low: Array, high: Array, dtype: Any) -> tuple[Array, Array]:
    """Ends of intervals in another type, not outside of those that are given."""
    up, down = dtype.type(math.inf), dtype.type(-math.inf)
    below, above = low.astype(dtype), high.astype(dtype)
    below = np.where(below < low, np.nextafter(below, up), below)
    return below, np.where(above > high, np.nextafter(above, down), above)


def _widen(
    neighbours: Array,
    sums: Array,
    x: Array,
    curve: Curve,
    nodes: Points,
    rows: slice,
    tau: float,
) -> None:
    """Add the neighbours in a part: NaN where a share is neither 0 nor 1."""
    for j in range(neighbours.shape[1]):
        # Some schemes keep the sum of the shares above 0.
        still = (sums[:, j, 1] <= _SMALLEST_FLOAT * x.shape[1]) & (sums[:, j, 2] == 0)
        neighbours[~still, j] = math.nan
        if not (still & (neighbours[:, j, 0] == neighbours[:, j, 0])).any():
            continue
        x64 = x.astype(np.float64)
        u = root.distances(x64, tau, nodes.a[rows, j], nodes.t[rows, j] + curve.centre)
        m, least, most = root.neighbours_of(x64, u)
        neighbours[:, j, 0] += m
        neighbours[:, j, 1] = np.minimum(neighbours[:, j, 1], least)
        neighbours[:, j, 2] = np.maximum(neighbours[:, j, 2], most)


def _beside(x: Array, size: int, near: Array) -> tuple[float, float]:
    """The least score of a long row above both of two numbers, the largest below."""
    low, high = _inward(near[:1], near[1:], x.dtype)
    least, most = math.inf, -math.inf
    for j in range(0, len(x), size):
        some = x[j : j + size]
        above, below = (np.flatnonzero(on) for on in (some > high, some < low))
        if above.size:
            least = min(least, some.take(above).min())
        if below.size:
            # All of them are not copied.
            part = some if below.size == len(some) else some.take(below)
            most = max(most, part.max())
    return least, most


def _of_scheme(
    scheme: Scheme, x: Array, a: Array, t: Array, tau: float, room: Array
) -> Array:
    """m, P, C and W of x at several offsets from one anchor; `room` is like x."""
    curve, single = scheme.curve, len(x) == 1
    if x.dtype != room.dtype:
        np.copyto(room, x)
        x = room
    x, a, t, room = (x[0], a[0], t[0], room[0]) if single else (x, a, t, room)
    v = scheme.prepare(numpy_distances(x, column(a, x), tau, room))
    found = np.empty((t.shape[-1], 4, *x.shape[:-1]))
    for j in range(t.shape[-1]):
        at = scheme.at_offset(t[..., j])
        m, P, C, W = scheme.sums(v, at)
        if curve is EXP:
            P = W = P * np.exp(-at)
            C = 0 * P
        elif curve is CLIP:  # which counts otherwise
            m, C = C, 0 * P
        elif isinstance(scheme, FlatEntmaxSums):
            W = W * np.exp(scheme.b * at)
        found[j, 0], found[j, 1], found[j, 2], found[j, 3] = m, P, C, W
    return found[None] if single else found.transpose(2, 0, 1)


def _sums_of(curve: Curve, u: Array) -> tuple[Any, ...]:
    """m, P, C and W at distances, where no scheme has them."""
    if not isinstance(curve, Entmax):
        return root.sums(curve, u)[:4]
    p, in_m = curve.value(u), u > 0
    w = np.where(np.isfinite(u), curve.slope(u), 0).sum(axis=-1)
    return in_m.sum(axis=-1), np.where(in_m, 0, p).sum(axis=-1), 0 * w, w


def counted(curve: Curve, u: Array) -> Array:
    """Which scores m counts."""
    if isinstance(curve, Entmax) or curve is EXP:
        return u > 0
    return u >= 1 if curve is CLIP else curve.value(u) > curve.complement(u)


class Listed:
    """The scores of a chunk that lie in the windows of their row."""

    def __init__(
        self, low: Array, high: Array, every: Array, most: int, seed: int, dtype: Any
    ) -> None:
        # In the type of the scores, so that these need no other for the comparison.
        (self.low, self.high), self.most = _inward(low, high, dtype), most
        self.open = np.flatnonzero((self.low <= self.high).any(axis=0)).tolist()
        self.every = np.array(every, np.float64)
        self.rng = np.random.default_rng((22, seed))
        self.held: dict[tuple[int, int], tuple[Array, Array]] = {}

    def add(self, rows: slice, x: Array) -> None:
        """Scores of some rows."""
        for j in self.open:
            on = x >= self.low[rows, j : j + 1]
            on &= x <= self.high[rows, j : j + 1]
            if not np.count_nonzero(on):
                continue
            for i in np.flatnonzero(on.any(axis=-1)):
                self._take(rows.start + int(i), j, x[i][on[i]])

    def _take(self, i: int, j: int, values: Array) -> None:
        """Scores in a window of a row."""
        every = self.every[i, j]
        if every > 1:
            values = values[self.rng.random(len(values)) * every < 1]
        times: Array = np.ones(len(values))
        if (i, j) in self.held:
            old = self.held[i, j]
            values = np.concatenate([old[0], values])
            times = np.concatenate([old[1], times])
        while len(values) > self.most:
            if self.every[i, j] == 1:
                distinct, back = np.unique(values, return_inverse=True)
                if 2 * len(distinct) < len(values):
                    values, times = distinct, np.bincount(back, times)
                    continue
                values = np.repeat(values, times.astype(np.int64))
            keep = self.rng.random(len(values)) < 0.5
            self.every[i, j] *= 2
            values, times = values[keep], np.ones(np.count_nonzero(keep))
        self.held[i, j] = values, times

    def result(self) -> tuple[Array, Array, Array]:
        """Values and times, filled up to the longest; one in `every` scores is here."""
        longest = max((len(values) for values, _ in self.held.values()), default=0)
        shape = (*self.every.shape, longest)
        values, times = np.full(shape, -math.inf), np.zeros(shape)
        for (i, j), (kept, often) in self.held.items():
            values[i, j, : len(kept)], times[i, j, : len(kept)] = kept, often
        return values, times, self.every
