"""Results with an entry for each score of a chunk, and the sums that they need."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._rows.numpy_rows import Array, numpy_distances
from ..curves import Curve
from . import root
from .chunk_pass import PART, Points, places, schemed
from .numpy_sums import column


def shares(x: Array, a: Array, t: Array, curve: Curve, tau: float) -> Array:
    """The shares of a chunk ``(r, m)``, in the type of its scores."""
    out = np.empty(x.shape, x.dtype)
    points = Points(a[:, None], t[:, None])
    size = PART // x.itemsize
    anchor, offset, scheme, dtype = schemed(curve, points, tau, x.dtype, size)
    for rows, columns in places(x):
        some = x[rows, columns]
        if scheme is None:
            some = some.astype(np.float64)
            u = root.distances(some, tau, a[rows], t[rows])
            inner = np.where(np.isfinite(u), u, 0)
            ends = (u == math.inf) & (some > -math.inf)
            out[rows, columns] = np.where(np.isfinite(u), curve.value(inner), ends)
            continue
        part = out[rows, columns]
        v = part if x.dtype == dtype else some.astype(dtype)
        at, by, own = anchor[rows], offset[rows, 0], some
        if len(some) == 1:
            v, own, at, by = v[0], some[0], at[0], by[0]
        v = scheme.prepare(numpy_distances(own, column(at, v), tau, v))
        scheme.write_shares(v, scheme.place(by))
        if x.dtype != dtype:
            part[...] = v
        if some.min() == -math.inf:
            part[some == -math.inf] = 0
    return out


def _distances(x: Array, tau: float, a: Array, t: Array) -> tuple[Array, Array]:
    """Distances, 0 where they are infinite or so large that a share is constant."""
    u = root.distances(x.astype(np.float64), tau, a, t)
    near = abs(u) < float(np.finfo(np.float64).max) ** 0.5
    return np.where(near, u, 0), near


def chunk_slopes(x: Array, a: Array, t: Array, curve: Curve, tau: float) -> Array:
    """The slopes f' of a chunk ``(r, m)``."""
    out = np.empty(x.shape)
    for rows, columns in places(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        out[rows, columns] = np.where(near, curve.slope(u), 0)
    return out


class Steepness(NamedTuple):
    """The sum of the slopes; the largest logarithm of one, and the sum beside it."""

    W: Array
    top: Array
    faint: Array


def steepness(
    x: Array, a: Array, t: Array, curve: Curve, tau: float, seed: int
) -> Steepness:
    """The sums of slopes over a chunk ``(r, m)``."""
    parts = [Steepness(np.zeros(len(x)), np.full(len(x), -math.inf), np.zeros(len(x)))]
    for rows, columns in places(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        w = np.where(near, curve.slope(u), 0)
        log = np.where(near, curve.log_slope(u), -math.inf)
        new = [np.zeros(len(x)), np.full(len(x), -math.inf), np.zeros(len(x))]
        top = log.max(axis=-1)
        base = np.where(top > -math.inf, top, 0)[:, None]
        new[0][rows], new[1][rows] = w.sum(axis=-1), top
        new[2][rows] = np.exp(log - base).sum(axis=-1)
        parts = [steepest([*parts, Steepness(*new)])]
    return parts[0]


def steepest(parts: list[Steepness]) -> Steepness:
    """The same of all parts of the same rows, in their order."""
    top = np.max([part.top for part in parts], axis=0)
    base = np.where(top > -math.inf, top, 0)
    faint = sum(part.faint * np.exp(part.top - base) for part in parts)
    W = np.stack([part.W for part in parts], axis=-1).sum(axis=-1)
    return Steepness(W, top, np.asarray(faint))


def normalised(
    x: Array,
    a: Array,
    t: Array,
    W: Array,
    top: Array,
    faint: Array,
    curve: Curve,
    tau: float,
) -> Array:
    """The slopes of a chunk over the sums of their rows, also where these underflow."""
    out = np.empty(x.shape)
    small = (W < np.sqrt(np.finfo(np.float64).tiny))[:, None]
    over = np.where(small[:, 0], 1, W)[:, None]
    under = np.where(faint > 0, faint, 1)[:, None]
    base = np.where(top > -math.inf, top, 0)[:, None]
    for rows, columns in places(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        s = np.where(near, curve.slope(u), 0) / over[rows]
        if small[rows].any():
            log = np.where(near, curve.log_slope(u), -math.inf) - base[rows]
            s = np.where(small[rows], np.exp(log) / under[rows], s)
        out[rows, columns] = s
    return out


class Weight(NamedTuple):
    """The largest score, what the others weigh beside it, and a score that is none."""

    top: Array
    rest: Array
    bad: Array


def below(x: Array, top: Array, tau: float) -> Array:
    """(x - top) / tau in double precision."""
    finite = np.where(top > -math.inf, top, 0)[:, None]
    return numpy_distances(x.astype(np.float64), finite, tau)


def weigh(x: Array, tau: float, seed: int) -> Weight:
    """The sum of the exponentials over a chunk ``(r, m)``, without that of the top."""
    r = len(x)
    none = np.full(r, -math.inf)
    parts = [Weight(none, np.zeros(r), np.zeros(r))]
    for rows, columns in places(x):
        some = x[rows, columns]
        top = some.max(axis=-1).astype(np.float64)
        bad = np.zeros(r)
        wrong = ~np.isfinite(some) & (some != -math.inf)
        if np.count_nonzero(wrong):
            first = some[np.arange(len(some)), wrong.argmax(axis=-1)]
            bad[rows] = np.where(wrong.any(axis=-1), first, 0)
        e = np.exp(below(some, top, tau))
        place = some.argmax(axis=-1)[:, None]
        largest = np.take_along_axis(e, place, axis=-1)
        np.put_along_axis(e, place, largest - 1, axis=-1)
        tops, rest = none.copy(), np.zeros(r)
        tops[rows] = top
        rest[rows] = np.where(top > -math.inf, e.sum(axis=-1), 0)
        parts = [weighed([*parts, Weight(tops, rest, bad)], tau)]
    return parts[0]


def weighed(parts: list[Weight], tau: float) -> Weight:
    """The same of all parts of the same rows, in their order.

    The one that the largest score of all weighs is left out, and no digit of the
    others is lost beside it.
    """
    tops = np.stack([part.top for part in parts], axis=-1)
    rests = np.stack([part.rest for part in parts], axis=-1)
    top, first = tops.max(axis=-1), tops.argmax(axis=-1)
    with np.errstate(all="ignore"):
        scale = np.exp(below(tops, top, tau))
    some = np.arange(tops.shape[-1]) == first[:, None]
    terms = np.where(tops > -math.inf, scale * (rests + ~some), 0)
    bad = np.zeros(len(top))
    for part in parts:
        bad = np.where(bad == 0, part.bad, bad)
    return Weight(top, terms.sum(axis=-1), bad)
