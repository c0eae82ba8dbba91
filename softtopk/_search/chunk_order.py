r"""The score at a place of rows that lie in chunks, from few passes over the chunks.

As in `chunk_search`, the first pass draws a sample.  A pass counts how many scores are
above five nodes and how many are not below them, and returns the scores in the
intervals between, or a sample of them.  The score at the place is a node, or it is
among the scores of one interval; and that is known if all of these were returned.
Every task of a graph is given a seed, also where it draws nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._rows.numpy_rows import Array
from .chunk_pass import Listed, pieces
from .chunk_search import SPREAD
from .chunk_sums import Counts, Survey

NODES = len(SPREAD)


def count(x: Array, nodes: Array, every: Array, most: int, seed: int) -> Counts:
    """A pass over a chunk ``(r, m)``, at nodes in descending order."""
    r, ends = len(x), np.full((len(x), 1), math.inf)
    edges = np.concatenate([ends, nodes, -ends], axis=-1)
    high = np.nextafter(edges[:, :-1], -math.inf)
    low = np.nextafter(edges[:, 1:], math.inf)
    listed = Listed(low, high, every, most, seed, x.dtype)
    above, not_below = np.zeros((2, r, NODES))
    for rows, columns in pieces(x):
        some = x[rows, columns].astype(np.float64)
        listed.add(rows, some)
        for j in range(NODES):
            node = nodes[rows, j : j + 1]
            above[rows, j] += (some > node).sum(axis=-1)
            not_below[rows, j] += ((some >= node) & (some > -math.inf)).sum(axis=-1)
    return Counts(above, not_below, *listed.result())


class PlaceSearch:
    """The search for the scores at the places K >= 1 of rows."""

    def __init__(self, given: Survey, K: Array) -> None:
        self.K, r = K, len(K)
        self.active = np.arange(r)
        self.answer = np.zeros((3, r))
        finite = np.where(np.isfinite(given.sample), given.sample, -np.inf)
        self.sample = -np.sort(-finite)
        s, n = (self.sample > -math.inf).sum(axis=-1), given.n
        if (s == n).all():
            x, rows = self.sample, np.arange(r)
            pivot = x[rows, K.astype(int) - 1]
            above = (x > pivot[:, None]).sum(axis=-1)
            self.answer[:] = pivot, above, (x == pivot[:, None]).sum(axis=-1)
            self.active = self.active[:0]
            return
        self.share = s / n
        q = K / n
        self._spread(self.sample, K * self.share, np.sqrt(s * q * (1 - q)) + 1)

    def _spread(self, x: Array, y: Array, deviation: Array) -> None:
        """Nodes around a place of descending samples."""
        size = (x > -math.inf).sum(axis=-1)
        nodes = []
        for c in -SPREAD:
            index = np.floor(y + c * deviation).astype(np.int64)
            inside = np.clip(index, 0, np.maximum(size - 1, 0))
            node = np.take_along_axis(x, inside[:, None], axis=-1)[:, 0]
            node = np.where(index >= size, -math.inf, node)
            nodes.append(np.where(index < 0, math.inf, node))
        self.nodes = np.stack(nodes, axis=-1)
        edges = np.stack([y + c * deviation for c in -SPREAD], axis=-1)
        edges = np.clip(edges, 0, size[:, None])
        edges = np.concatenate([0 * y[:, None], edges, size[:, None]], axis=-1)
        self.expected = np.diff(edges, axis=-1)

    def most(self) -> int:
        """About so many scores of an interval are returned at most."""
        return max(256, self.sample.shape[1])

    def every(self) -> Array:
        """The number m such that one in m scores of each interval is to be returned."""
        share = self.share[self.active][:, None]
        return np.maximum(1.0, self.expected / share / self.most())

    def learn(self, got: Counts) -> None:
        """Take the rows whose score is known, and place the nodes of the others."""
        active, rows = self.active, np.arange(len(self.active))
        K = self.K[active][:, None]
        hit = (got.above < K) & (K <= got.not_below)
        at_node = hit.argmax(axis=-1)
        known = hit.any(axis=-1)
        node = self.nodes[rows, at_node]
        above, not_below = got.above[rows, at_node], got.not_below[rows, at_node]
        result = np.stack([node, above, not_below - above])
        # Otherwise the interval: all nodes before it have fewer than K scores.
        j = (got.not_below < K).sum(axis=-1)
        before = np.where(j > 0, got.not_below[rows, np.maximum(j - 1, 0)], 0)
        until = np.where(j < NODES, got.above[rows, np.minimum(j, NODES - 1)], np.inf)
        values, times = got.values[rows, j], got.times[rows, j]
        order = np.argsort(-values, axis=-1, kind="stable")
        values, times = (np.take_along_axis(v, order, -1) for v in (values, times))
        rank = K[:, 0] - before
        total = np.cumsum(times, axis=-1)
        complete = ~known & (got.every[rows, j] == 1)
        if values.shape[1]:
            at = np.minimum((total < rank[:, None]).sum(axis=-1), values.shape[1] - 1)
            pivot = values[rows, at][:, None]
            higher = before + (times * (values > pivot)).sum(axis=-1)
            tied = (times * (values == pivot)).sum(axis=-1)
            result = np.where(complete, np.stack([pivot[:, 0], higher, tied]), result)
        done = known | complete
        self.answer[:, active[done]] = result[:, done]
        keep = ~done
        self.active = active[keep]
        if not keep.any():
            return
        size = total[keep, -1]
        span = np.where(np.isfinite(until), until - before, size * got.every[rows, j])[
            keep
        ]
        share = size / np.maximum(span, 1)
        self.share[self.active] = share
        y = rank[keep] * share
        x = np.where(times[keep] > 0, values[keep], -math.inf)
        self._spread(x, y, 0.5 * np.sqrt(size) + 1)


def count_equal(x: Array, pivot: Array, seed: int) -> Array:
    """How many scores of a chunk equal a number."""
    return (x == pivot[:, None]).sum(axis=-1)


def sum_above(x: Array, pivot: Array, seed: int) -> Array:
    """The sum of the scores of a chunk above a number."""
    return np.where(x > pivot[:, None], x, 0).sum(axis=-1, dtype=np.float64)


def candidates(
    x: Array, pivot: Array, remaining: Array, seed: int
) -> tuple[int, list[tuple[Array, Array]]]:
    """The length of a chunk, and the scores above a number with their indices.

    Of the scores that equal it, the first ones, up to a number of them.
    """
    found: list[Any] = []
    for row, bound, more in zip(x, pivot, remaining, strict=True):
        higher, equal = np.flatnonzero(row > bound), np.flatnonzero(row == bound)
        index = np.concatenate([higher, equal[:more]])
        found.append((row[index].astype(np.float64), index))
    return x.shape[1], found
