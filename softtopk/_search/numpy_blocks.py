"""Sums by decays over the blocks of a long line, in parts that stay in the cache.

The points of a block lie along the first axis, so that each step of the recurrence is
one operation on all blocks of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._rows.numpy_rows import Array
from .all_thresholds import NEAR

_PART = 1 << 15
"""The points of a part."""

Terms = tuple[Array | None, Array]
"""The numbers c and s of `terms_of`; None stands for c = 1."""


class FoldedBlocks:
    """As `all_thresholds.Blocks`, for NumPy.

    Parameters
    ----------
    terms : function
        `all_thresholds.terms_of` of distances.
    """

    def __init__(
        self,
        terms: Callable[..., Any],
        points: list[Array],
        tau: Any,
        size: int,
        ways: Sequence[bool],
    ) -> None:
        self.rows, self.n = points[0].shape
        self.size, self.many = size, -(-self.n // size)
        self.step = max(1, _PART // (self.rows * size))
        last = np.minimum(np.arange(1, self.many + 1) * size, self.n) - 1
        first = np.arange(self.many) * size
        self.ends = {
            back: [p.take(first if back else last, axis=1) for p in points]
            for back in ways
        }
        self.inside: list[Terms] = []
        self.across: dict[bool, list[Terms]] = {back: [] for back in ways}

        def decays(here: list[Array], there: list[Array]) -> Terms:
            away = (here[0] - there[0]) / tau
            if len(here) > 1:
                away += here[1] - there[1]
            np.fabs(away, out=away)
            if away.max() <= NEAR:
                return None, np.expm1(np.negative(away, out=away), out=away)
            return terms(away)

        for a in range(0, self.many, self.step):
            at = [self._fold(p, a, "edge") for p in points]
            self.inside.append(decays([p[:-1] for p in at], [p[1:] for p in at]))
            for back in ways:
                ends = [self._beyond(p, a, back) for p in self.ends[back]]
                self.across[back].append(decays(ends, at))

    def _beyond(self, ends: Array, a: int, back: bool) -> Array:
        """The values at the ends of the blocks before those of a part, or after."""
        i = np.arange(a, min(a + self.step, self.many)) + (1 if back else -1)
        return ends.take(np.clip(i, 0, self.many - 1), axis=1)

    def _fold(self, v: Array, a: int, fill: Any) -> Array:
        """The values in a part, (size, rows, blocks)."""
        v = v[:, a * self.size : (a + self.step) * self.size]
        rest = -v.shape[1] % self.size
        if rest:
            v = np.pad(v, ((0, 0), (0, rest)), fill)
        v = np.moveaxis(v.reshape(self.rows, -1, self.size), -1, 0)
        return np.array(v, order="C")

    def inner(self, v: Array, back: bool) -> tuple[list[Array], Array]:
        """The sums within each block, and those over whole blocks."""
        parts, ends = [], np.empty((self.rows, self.many), v.dtype)
        for a, (rest, less) in zip(self._starts(), self.inside, strict=True):
            y = self._fold(v, a, "constant")
            more = np.empty_like(y[0])
            for t in range(self.size - 1):
                # A gap has the number of the point above it.
                here, there, gap = (-t - 1, -t - 2, -t - 1) if back else (t, t + 1, t)
                before = y[here] if rest is None else rest[gap] * y[here]
                np.multiply(less[gap], before, out=more)
                y[there] += more
                y[there] += before
            ends[:, a : a + self.step] = y[0 if back else -1]
            parts.append(y)
        return parts, ends

    def outer(self, parts: list[Array], before: Array, back: bool) -> Array:
        """These sums with what the blocks before add; `before` are sums of blocks."""
        out = np.empty((self.rows, self.many, self.size), before.dtype)
        before = before.copy()
        nothing = self.many - 1 if back else 0
        given = zip(self._starts(), parts, self.across[back], strict=True)
        for a, y, (rest, less) in given:
            sums = self._beyond(before, a, back)
            if a <= nothing < a + self.step:
                sums[:, nothing - a] = 0
            more = sums if rest is None else rest * sums
            y += less * more
            y += more
            out[:, a : a + self.step] = np.moveaxis(y, 0, -1)
        return out.reshape(self.rows, -1)[:, : self.n]

    def _starts(self) -> range:
        return range(0, self.many, self.step)
