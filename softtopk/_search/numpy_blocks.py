"""Sums by decays along a line, for `soft_sort` and `soft_rank` on NumPy.

A line is as in `all_thresholds.Blocks`.  The sums within a block are its product with
the matrix of the decays between all of its points.  If these are near each other, as
nearly all are in a long line at a moderate temperature, the decays are quotients of two
exponentials, and what is left of the matrix is one of zeros and ones.  At a low
temperature a long line is followed from point to point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._rows.numpy_rows import Array, as_column
from .all_thresholds import FAR, NEAR

_SIZE = 16
"""The length of a block."""

_PAIRS = 1 << 14
"""The most pairs of points for which the decays of whole lines are kept."""

_SHORT = 1 << 10
"""Up to so many points, no block is looked at: all have the decays of their pairs."""

_PART = 1 << 15
"""The points of a part of a long line, which stays in the cache."""

_SPAN = 1.0
"""The extent of a block whose decays may be quotients, in units of the temperature."""

_OTHERS = 0.25
"""The part of blocks up to which those of a larger extent are exceptions."""

Positions = Sequence[Array]
"""Scores and, optionally, offsets in units of the temperature."""


def numpy_blocks(points: Positions, tau: Any, ways: Sequence[bool], whole: bool) -> Any:
    """The blocks of lines (rows, n), or whole lines if there are few."""
    rows, n = points[0].shape
    if whole and rows * n * n <= _PAIRS:
        return PairedBlocks(points, tau, n, ways)
    kind = PairedBlocks if rows * n <= _SHORT else FoldedBlocks
    return kind(points, tau, _SIZE, ways)


def _falls(here: Positions, there: Positions, tau: Any) -> Array:
    """How far points are below others, in units of the temperature."""
    away = here[0] - there[0]
    away /= tau
    if len(here) > 1:
        away += here[1] - there[1]
    return away


def _spans(here: Positions, there: Positions, tau: Any) -> Array:
    """The distances between points; infinities and NaN are FAR."""
    away = _falls(here, there, tau)
    return np.fmin(np.absolute(away, out=away), FAR, out=away)


def _decays(here: Positions, there: Positions, tau: Any) -> Array:
    """The decays between points."""
    away = _spans(here, there, tau)
    return np.exp(np.negative(away, out=away), out=away)


def _terms(here: Positions, there: Positions, tau: Any) -> tuple[Array, Array]:
    """The decays between points as those of `all_thresholds.terms_of`."""
    away = _spans(here, there, tau)
    near = np.minimum(away, NEAR)
    return np.exp(near - away), np.expm1(np.negative(near, out=near))


def _pairs(at: Positions, tau: Any) -> Array:
    """The decays within blocks (..., size): row i has those of the points before i."""
    there = [p[..., None, :] for p in at]
    pairs = _decays(there, [p[..., None] for p in at], tau)
    pairs *= np.tri(pairs.shape[-1], k=-1, dtype=pairs.dtype)
    return pairs


def _sums(pairs: Array, v: Array, back: bool) -> Array:
    """The sums within blocks, over the points before each or after it."""
    if back:
        pairs = pairs.swapaxes(-1, -2)
    return (pairs @ v[..., None])[..., 0]


def _before(ends: Array, back: bool) -> Array:
    """The values of the block before each block, or after it; 0 if there is none."""
    out = np.zeros_like(ends)
    if back:
        out[:, :-1] = ends[:, 1:]
    else:
        out[:, 1:] = ends[:, :-1]
    return out


class _Blocks:
    """Lines of n points, cut into blocks of one size.

    Attributes
    ----------
    ends : dict
        For each way the points from which the sums go on: the last one of each block,
        or the first one on the way back.  There are none if the line is not cut.
    tau
        The temperature of blocks, (...) or (rows, 1, 1).
    """

    def __init__(
        self, points: Positions, tau: Any, size: int, ways: Sequence[bool]
    ) -> None:
        (self.rows, self.n), self.size = points[0].shape, size
        self.tau = as_column(tau)
        self.many = -(-self.n // size)
        self.ends: dict[bool, Positions] = {}
        if self.many > 1:
            first = np.arange(0, self.n, size)
            last = np.minimum(first + (size - 1), self.n - 1)
            for back in ways:
                at = first if back else last
                self.ends[back] = [p.take(at, axis=1) for p in points]

    def cut(self, v: Array, edge: bool = False) -> Array:
        """A line, or part of it, as (rows, blocks, size); the last is filled up."""
        rest = -v.shape[1] % self.size
        if rest:
            more = np.zeros_like(v, shape=(self.rows, rest))
            if edge:
                more += v[:, -1:]
            v = np.concatenate((v, more), axis=1)
        return v.reshape(self.rows, -1, self.size)

    def before(self, back: bool) -> Positions:
        """The ends of the block before each block."""
        return [_before(p, back)[..., None] for p in self.ends[back]]

    def line(self, blocks: Array) -> Array:
        """The opposite of `cut`."""
        return blocks.reshape(self.rows, -1)[:, : self.n]


class PairedBlocks(_Blocks):
    """Blocks with the decays between all pairs of their points."""

    def __init__(
        self, points: Positions, tau: Any, size: int, ways: Sequence[bool]
    ) -> None:
        super().__init__(points, tau, size, ways)
        at = [self.cut(p, True) for p in points]
        tau = self.tau
        self.across = {back: _decays(self.before(back), at, tau) for back in self.ends}
        self.pairs = _pairs(at, as_column(tau))

    def inner(self, v: Array, back: bool, own: bool = True) -> tuple[Array, Array]:
        """The sums within each block, and those over whole blocks.

        Without `own`, a sum within a block leaves out the point itself.
        """
        v, end = self.cut(v), 0 if back else -1
        y = _sums(self.pairs, v, back)
        sums = y[..., end] + v[..., end]
        if own:
            y += v
        return y if self.ends else self.line(y), sums

    def outer(self, y: Array, sums: Array, back: bool) -> Array:
        """These sums with what the blocks before add; `sums` are those of blocks."""
        return self.line(y + self.across[back] * _before(sums, back)[..., None])


class FoldedBlocks(_Blocks):
    """Blocks of a long line, in parts."""

    def __init__(
        self, points: Positions, tau: Any, size: int, ways: Sequence[bool]
    ) -> None:
        super().__init__(points, tau, size, ways)
        step = max(1, _PART // (self.rows * size))
        before = {back: self.before(back) for back in self.ends}
        first = [p[:, ::size, None] for p in points]
        join = {back: _terms(v, first, self.tau) for back, v in before.items()}
        ones = np.ones((size, size), points[0].dtype)
        total = {
            (back, own): np.tril(ones, own - 1) if back else np.triu(ones, 1 - own)
            for back in ways
            for own in (False, True)
        }
        # One array of all parts: the system provides a large one in larger pages.
        folds = np.empty((2, self.rows, self.many, size), points[0].dtype)
        self.parts: list[tuple[slice, _NearBlocks | _FarBlocks]] = []
        for a in range(0, self.many, step):
            part = slice(a, min(a + step, self.many))
            at = [self.cut(p[:, a * size : part.stop * size], True) for p in points]
            ends = {back: [p[:, part] for p in v] for back, v in before.items()}
            start = [p[..., :1] for p in at]
            away = _falls(start, at, self.tau)
            # Also of the scores: offsets may be large and of opposite signs.
            scores = _falls(start[:1], [at[0][..., -1:]], self.tau)[..., 0]
            others = ~((away[..., -1] <= _SPAN) & (scores <= _SPAN))
            if others.mean() > _OTHERS:
                self.parts.append((part, _FarBlocks(at, ends, self.tau)))
                continue
            away[others] = 0
            joined = {back: (c[:, part], s[:, part]) for back, (c, s) in join.items()}
            near = _NearBlocks(away, joined, total, folds[:, :, part])
            if others.any():
                near.keep(np.nonzero(others), at, ends, self.tau)
            self.parts.append((part, near))

    def inner(self, v: Array, back: bool, own: bool = True) -> tuple[Array, Array]:
        """As that of `PairedBlocks`; the sums are in units of an exponential."""
        y = np.empty((self.rows, self.many, self.size), v.dtype)
        sums = np.empty((self.rows, self.many), v.dtype)
        for at, part in self.parts:
            block = self.cut(v[:, at.start * self.size : at.stop * self.size])
            sums[:, at] = part.inner(block, back, own, y[:, at])
        return y if self.ends else self.outer(y, 0 * sums, back), sums

    def outer(self, y: Array, sums: Array, back: bool) -> Array:
        """As that of `PairedBlocks`."""
        before = _before(sums, back)[..., None]
        for at, part in self.parts:
            part.outer(y[:, at], before[:, at], back)
        return self.line(y)


class _NearBlocks:
    """Blocks whose points are near each other, with a few others."""

    others: Any = None

    def __init__(self, away: Array, join: Any, total: Any, out: Array) -> None:
        self.join, self.total, (self.rise, self.fall) = join, total, out
        np.exp(away, out=self.rise)
        np.exp(np.negative(away, out=away), out=self.fall)

    def keep(self, others: Any, at: Positions, ends: Any, tau: Any) -> None:
        """The decays of the other blocks, which are at these indices."""
        self.others = others
        if getattr(tau, "ndim", 0):
            tau = tau[others[0], 0]
        at = [p[others] for p in at]
        self.across = {
            back: _decays([p[others] for p in points], at, tau)
            for back, points in ends.items()
        }
        self.pairs = _pairs(at, as_column(tau))

    def inner(self, v: Array, back: bool, own: bool, y: Array) -> Array:
        """The sums within each block, and those over whole blocks.

        Those of near points are in units of an exponential.
        """
        w, end = v * (self.fall if back else self.rise), 0 if back else -1
        np.matmul(w, self.total[back, own], out=y)
        sums = y[..., end] + (0 if own else w[..., end])
        if not back:
            sums *= self.fall[..., -1]
        if self.others:
            v = v[self.others]
            other = _sums(self.pairs, v, back)
            sums[self.others] = other[..., end] + v[..., end]
            y[self.others] = other + v if own else other
        return sums

    def outer(self, y: Array, before: Array, back: bool) -> None:
        """Add what the blocks before add."""
        if self.others:
            other = y[self.others]
            if self.join:
                other += self.across[back] * before[self.others]
        if self.join:
            c, s = self.join[back]
            more = c * before
            more += s * more
            y += more
        y *= self.rise if back else self.fall
        if self.others:
            y[self.others] = other


class _FarBlocks:
    """Blocks that are followed from point to point, all of a part at once."""

    def __init__(self, at: Positions, ends: Any, tau: Any) -> None:
        here, there = ([p[..., s] for p in at] for s in (slice(-1), slice(1, None)))
        terms = _terms(here, there, tau)
        self.rest, self.less = _fold(terms[0]), _fold(terms[1])
        self.across = {back: _decays(v, at, tau) for back, v in ends.items()}

    def inner(self, v: Array, back: bool, own: bool, y: Array) -> Array:
        """The sums within each block, and those over whole blocks."""
        folded = _fold(v)
        others = None if own else np.zeros_like(folded)
        more = np.empty_like(folded[0])
        for t in range(len(folded) - 1):
            # A gap has the number of the point above it.
            here, there, gap = (-t - 1, -t - 2, -t - 1) if back else (t, t + 1, t)
            before = self.rest[gap] * folded[here]
            np.multiply(self.less[gap], before, out=more)
            if others is not None:
                np.add(before, more, out=others[there])
            folded[there] += more
            folded[there] += before
        y[...] = np.moveaxis(folded if others is None else others, 0, -1)
        return folded[0 if back else -1]

    def outer(self, y: Array, before: Array, back: bool) -> None:
        """Add what the blocks before add."""
        if self.across:
            y += before * self.across[back]


def _fold(v: Array) -> Array:
    """With the points of a block along the first axis."""
    return np.array(np.moveaxis(v, -1, 0), order="C")
