"""Results with an entry for each score of a chunk, and the passes that they need.

Of a chunk ``(r, m)`` and the numbers of its rows: `shares`, `chunk_slopes` and
`normalised` are arrays like the chunk, lazy in Dask.  `sum_slopes` and
`sum_exponentials` are passes before them, whose sums `chunk_sums` adds up.
"""

from __future__ import annotations

import math

import numpy as np

from .._rows.numpy_rows import Array, numpy_distances
from ..curves import Curve
from . import root
from .chunk_pass import PIECE_BYTES, Points, first_bad, pieces, scheme_at
from .chunk_sums import ExponentialSums, SlopeSums, below_largest
from .numpy_sums import column


def shares(x: Array, a: Array, t: Array, curve: Curve, tau: float) -> Array:
    """The shares of a chunk ``(r, m)``, in the type of its scores."""
    out = np.empty(x.shape, x.dtype)
    points = Points(a[:, None], t[:, None])
    size = PIECE_BYTES // x.itemsize
    anchor, offset, scheme, dtype = scheme_at(curve, points, tau, x.dtype, size)
    for rows, columns in pieces(x):
        some = x[rows, columns]
        if scheme is None:
            some = some.astype(np.float64)
            u = root.distances(some, tau, a[rows], t[rows])
            inner = np.where(np.isfinite(u), u, 0)
            ends = (u == math.inf) & (some > -math.inf)
            out[rows, columns] = np.where(np.isfinite(u), curve.value(inner), ends)
            continue
        own_out = out[rows, columns]
        v = own_out if x.dtype == dtype else some.astype(dtype)
        at, by, own = anchor[rows], offset[rows, 0], some
        if len(some) == 1:
            v, own, at, by = v[0], some[0], at[0], by[0]
        v = scheme.prepare(numpy_distances(own, column(at, v), tau, v))
        scheme.write_shares(v, scheme.at_offset(by))
        if x.dtype != dtype:
            own_out[...] = v
        if some.min() == -math.inf:
            own_out[some == -math.inf] = 0
    return out


def _distances(x: Array, tau: float, a: Array, t: Array) -> tuple[Array, Array]:
    """Distances, 0 where they are infinite or so large that a share is constant."""
    u = root.distances(x.astype(np.float64), tau, a, t)
    near = abs(u) < float(np.finfo(np.float64).max) ** 0.5
    return np.where(near, u, 0), near


def chunk_slopes(x: Array, a: Array, t: Array, curve: Curve, tau: float) -> Array:
    """The slopes f' of a chunk ``(r, m)``."""
    out = np.empty(x.shape)
    for rows, columns in pieces(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        out[rows, columns] = np.where(near, curve.slope(u), 0)
    return out


def sum_slopes(
    x: Array, a: Array, t: Array, curve: Curve, tau: float, seed: int
) -> SlopeSums:
    """The sums of slopes over a chunk ``(r, m)``."""
    zeros, none = np.zeros(len(x)), np.full(len(x), -math.inf)
    total = SlopeSums(zeros, none, zeros)
    for rows, columns in pieces(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        w = np.where(near, curve.slope(u), 0)
        log = np.where(near, curve.log_slope(u), -math.inf)
        new = SlopeSums(zeros.copy(), none.copy(), zeros.copy())
        top = log.max(axis=-1)
        base = np.where(top > -math.inf, top, 0)[:, None]
        new.W[rows], new.top[rows] = w.sum(axis=-1), top
        new.faint[rows] = np.exp(log - base).sum(axis=-1)
        total = SlopeSums.of_chunks([total, new])
    return total


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
    for rows, columns in pieces(x):
        u, near = _distances(x[rows, columns], tau, a[rows], t[rows])
        s = np.where(near, curve.slope(u), 0) / over[rows]
        if small[rows].any():
            log = np.where(near, curve.log_slope(u), -math.inf) - base[rows]
            s = np.where(small[rows], np.exp(log) / under[rows], s)
        out[rows, columns] = s
    return out


def sum_exponentials(x: Array, tau: float, seed: int) -> ExponentialSums:
    """The sum of the exponentials over a chunk ``(r, m)``, without that of the top."""
    r = len(x)
    none = np.full(r, -math.inf)
    total = ExponentialSums(none, np.zeros(r), np.zeros(r))
    for rows, columns in pieces(x):
        some = x[rows, columns]
        top = some.max(axis=-1).astype(np.float64)
        bad = np.zeros(r)
        bad[rows] = first_bad(some)
        e = np.exp(below_largest(some, top, tau))
        index = some.argmax(axis=-1)[:, None]
        largest = np.take_along_axis(e, index, axis=-1)
        np.put_along_axis(e, index, largest - 1, axis=-1)
        tops, rest = none.copy(), np.zeros(r)
        tops[rows] = top
        rest[rows] = np.where(top > -math.inf, e.sum(axis=-1), 0)
        new = ExponentialSums(tops, rest, bad)
        total = ExponentialSums.of_chunks([total, new], tau)
    return total
