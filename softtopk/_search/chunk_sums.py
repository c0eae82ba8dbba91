"""What chunks tell of rows, and its sum over the chunks, for all that Dask computes.

Each type is what a pass finds of some rows in one chunk; `of_chunks` adds up those of
all chunks of the same rows.  It keeps the order of the chunks, so that the sum does not
depend on which of them was first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._rows.numpy_rows import Array, numpy_distances


class Survey(NamedTuple):
    """What the first pass finds: `chunk_pass.survey`.

    Attributes
    ----------
    n : (r,) array
        Scores above -inf.
    top, least : (r,) arrays
    bad : (r,) array
        The first score that is NaN or +inf; 0 if there is none.
    sample : (r, s) array
    every : float
        One in `every` scores is in the sample.
    size : int
        The length of the rows.
    """

    n: Array
    top: Array
    least: Array
    bad: Array
    sample: Array
    every: float
    size: int

    def pick(self, rows: Array) -> Survey:
        """Of some rows."""
        fields = ("n", "top", "least", "bad", "sample")
        return self._replace(**{name: getattr(self, name)[rows] for name in fields})

    @staticmethod
    def of_chunks(chunks: list[Survey]) -> Survey:
        n = np.sum([chunk.n for chunk in chunks], axis=0)
        top = np.max([chunk.top for chunk in chunks], axis=0)
        least = np.min([chunk.least for chunk in chunks], axis=0)
        size = sum(chunk.size for chunk in chunks)
        every = max(chunk.every for chunk in chunks)
        samples = []
        for i, chunk in enumerate(chunks):
            sample = chunk.sample
            if chunk.every < every:  # chunks of sizes that were unknown
                rng = np.random.default_rng((21, i))
                sample = sample[:, rng.random(sample.shape[1]) < chunk.every / every]
            samples.append(sample)
        sample = np.concatenate(samples, axis=-1)
        return Survey(n, top, least, _first_bad(chunks), sample, every, size)


class NodeSums(NamedTuple):
    """Sums of shares at nodes, and scores in windows: `chunk_pass.sums_at_nodes`.

    Attributes
    ----------
    sums : (r, nodes, 4) array
        m, P, C and W at the nodes, as in `root`.
    neighbours : (r, nodes, 3) array or None
        What `root.neighbours_of` returns, for a curve that reaches 0 and 1; NaN where a
        share is neither.
    values, times : (r, windows, l) arrays
        The scores in each window, and how often each occurs; -inf and 0 fill up.
    every : (r, windows) array
        One in `every` scores of a window is returned: 1 if all are.
    """

    sums: Array
    neighbours: Array | None
    values: Array
    times: Array
    every: Array

    @staticmethod
    def of_chunks(chunks: list[NodeSums]) -> NodeSums:
        sums = np.stack([chunk.sums for chunk in chunks], axis=-1).sum(axis=-1)
        neighbours = chunks[0].neighbours
        if neighbours is not None:
            of_each = np.array([chunk.neighbours for chunk in chunks])
            m, least, most = np.moveaxis(of_each, -1, 0)
            with np.errstate(invalid="ignore"):
                found = m.sum(axis=0), least.min(axis=0), most.max(axis=0)
            neighbours = np.stack(found, axis=-1)
        values, times, every = _in_windows(chunks)
        order = np.argsort(-times, axis=-1, kind="stable")
        order = order[..., : int((times > 0).sum(axis=-1).max(initial=0))]
        values, times = (np.take_along_axis(v, order, -1) for v in (values, times))
        return NodeSums(sums, neighbours, values, times, every)


class Counts(NamedTuple):
    """How many scores are above nodes: `chunk_order.count`.

    Attributes
    ----------
    above, not_below : (r, nodes) arrays
        How many scores are above each node, and how many are not below it.
    values, times, every : arrays
        The scores in the intervals between the nodes, as in `NodeSums`.
    """

    above: Array
    not_below: Array
    values: Array
    times: Array
    every: Array

    @staticmethod
    def of_chunks(chunks: list[Counts]) -> Counts:
        above = np.sum([chunk.above for chunk in chunks], axis=0)
        not_below = np.sum([chunk.not_below for chunk in chunks], axis=0)
        return Counts(above, not_below, *_in_windows(chunks))


class SlopeSums(NamedTuple):
    """Sums of slopes, which may underflow: `chunk_entries.sum_slopes`.

    Attributes
    ----------
    W : (r,) array
        The sum of the slopes.
    top : (r,) array
        The largest logarithm of a slope.
    faint : (r,) array
        The sum of the slopes over the largest one.
    """

    W: Array
    top: Array
    faint: Array

    @staticmethod
    def of_chunks(chunks: list[SlopeSums]) -> SlopeSums:
        top = np.max([chunk.top for chunk in chunks], axis=0)
        base = np.where(top > -math.inf, top, 0)
        faint = sum(chunk.faint * np.exp(chunk.top - base) for chunk in chunks)
        W = np.stack([chunk.W for chunk in chunks], axis=-1).sum(axis=-1)
        return SlopeSums(W, top, np.asarray(faint))


class ExponentialSums(NamedTuple):
    """Sums of exponentials, for a softmax: `chunk_entries.sum_exponentials`.

    Attributes
    ----------
    top : (r,) array
        The largest score.
    rest : (r,) array
        The sum of e^((x - top) / tau) over the other scores.
    bad : (r,) array
        As in `Survey`.
    """

    top: Array
    rest: Array
    bad: Array

    @staticmethod
    def of_chunks(chunks: list[ExponentialSums], tau: float) -> ExponentialSums:
        # The 1 of the largest score of all is left out, and no digit of the others is
        # lost beside it.
        tops = np.stack([chunk.top for chunk in chunks], axis=-1)
        rests = np.stack([chunk.rest for chunk in chunks], axis=-1)
        top, first = tops.max(axis=-1), tops.argmax(axis=-1)
        with np.errstate(all="ignore"):
            scale = np.exp(below_largest(tops, top, tau))
        others = np.arange(tops.shape[-1]) != first[:, None]
        terms = np.where(tops > -math.inf, scale * (rests + others), 0)
        return ExponentialSums(top, terms.sum(axis=-1), _first_bad(chunks))


def below_largest(x: Array, top: Array, tau: float) -> Array:
    """(x - top) / tau in double precision."""
    finite = np.where(top > -math.inf, top, 0)[:, None]
    return numpy_distances(x.astype(np.float64), finite, tau)


def of_all_rows(found: list[tuple[Array, list[Any]]], kind: Any, *args: Any) -> Any:
    """One `kind` of all rows in their order, from what `_DaskRows.run` returns.

    Each row is in one of the blocks of rows, whose chunks `kind.of_chunks` adds up.
    """
    if not found:  # there are no rows
        return kind(*(np.zeros(0) for _ in kind._fields))
    permutation = np.argsort(np.concatenate([rows for rows, _ in found]))
    blocks = [kind.of_chunks(chunks, *args) for _, chunks in found]
    fields = []
    for name, values in zip(kind._fields, zip(*blocks, strict=True), strict=True):
        if not isinstance(values[0], np.ndarray):
            fields.append(values[0])
            continue
        sizes = zip(*(v.shape[1:] for v in values), strict=True)
        width = [max(lengths) for lengths in sizes]
        fill = -np.inf if name in ("sample", "values") else 0
        padded = []
        for v in values:
            room = [(0, w - s) for w, s in zip(width, v.shape[1:], strict=True)]
            padded.append(np.pad(v, [(0, 0), *room], constant_values=fill))
        fields.append(np.concatenate(padded)[permutation])
    return kind(*fields)


def _first_bad(chunks: Any) -> Array:
    """The first score of each row that is NaN or +inf; 0 if there is none."""
    bad: Array = np.zeros(len(chunks[0].bad))
    for chunk in chunks:
        bad = np.where(bad == 0, chunk.bad, bad)
    return bad


def _in_windows(chunks: Any) -> tuple[Array, Array, Array]:
    """The scores in windows, thinned out to the fewest that a chunk has returned."""
    every = np.max([chunk.every for chunk in chunks], axis=0)
    kept = []
    for i, chunk in enumerate(chunks):
        times = chunk.times
        if (chunk.every < every).any():
            rng = np.random.default_rng((23, i))
            share = (chunk.every / every)[..., None]
            times = np.where(rng.random(times.shape) < share, times, 0)
        kept.append((np.where(times > 0, chunk.values, -math.inf), times))
    values, times = (np.concatenate(v, axis=-1) for v in zip(*kept, strict=True))
    return values, times, every
