"""The smooth selection on Dask arrays: only sums travel, no chunk moves.

>>> import dask.array as da
>>> import softtopk.dask as stk
>>> x = da.arange(1_000_000, chunks=250_000) / 1e5
>>> p = stk.soft_topk(x, k=1000)  # computes the threshold; the shares are lazy
>>> round(float(p.sum().compute()), 6)
1000.0

The threshold takes a round over the chunks for extremes, mean and deviation, and then
a round a pass of the search, mostly four or five in all.  `persist` scores that would
otherwise be loaded or calculated anew in each.  Every round is an ordinary `compute`:
the progress bar is ``dask.diagnostics.ProgressBar``, or the dashboard of a cluster.
A scheduler may give a chunk to an idle worker if that seems quicker; with the setting
``distributed.scheduler.work-stealing`` at False none ever moves.  Few large chunks are
best: scheduling one takes milliseconds, calculating with it some
ten nanoseconds an entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike

from ._rows.numpy_rows import (
    Array,
    Budget,
    check_axis,
    check_budget,
    check_kept,
    check_temperature,
    check_unmasked,
    is_large,
    real_numbers,
)
from ._search import root
from ._search.start import Moments, begin, narrowed
from .curves import Curve, resolve

__all__ = ["soft_topk", "threshold"]

_PART = 1 << 13
"""Entries of a chunk that are calculated with at a time.

A worker under a nanny gives memory above 64 KiB back at once, and asks for it anew.
"""


def soft_topk(
    x: Any,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: Any = None,
    cost: None = None,
) -> Any:
    """Smooth top-k selection: lazy shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : dask array
        Scores, finite or -inf, of any chunks.
    k : array_like
        Budget, real; one for all or an array that broadcasts against `x` without
        `axis`.
    curve : str or Curve
        As in the core.
    temperature : float
        Above 0.
    axis : int
        The axis along which the shares sum to k.
    where : dask array of bool, optional
        Entries that take part; the others get share 0.
    cost : None
        Budgets with costs are not supported on Dask arrays; anything else raises
        NotImplementedError.

    Returns
    -------
    dask array
        p, of the shape, chunks and type of `x` (float64 if `x` holds no floats).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    The threshold is computed before this returns, the shares when they are asked for.
    """
    _check_cost(cost)
    rows, curve, tau = (
        _rows(x, axis, where),
        resolve(curve),
        check_temperature(temperature),
    )
    a, t = _solve(rows, k, curve, tau)
    kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)

    def shares(x: Array, block_info: Any = None) -> Array:
        rows = x.reshape(-1, x.shape[-1])
        out = np.empty(rows.shape, kind)
        anchor, offset = _of_block(block_info, a, t)
        for place, u in _parts(rows, anchor, offset, tau):
            inner = np.where(np.isfinite(u), u, 0)
            ends = (u == math.inf) & (rows[place] > -math.inf)
            with np.errstate(all="ignore"):  # as the caller's state is not the task's
                out[place] = np.where(np.isfinite(u), curve.value(inner), ends)
        return out.reshape(x.shape)

    p = da.map_blocks(shares, rows, dtype=kind, meta=np.empty((0,) * rows.ndim, kind))
    return da.moveaxis(p, -1, axis)


def threshold(
    x: Any,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: Any = None,
    cost: None = None,
) -> Any:
    """The threshold of `soft_topk`, computed.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost
        As in `soft_topk`.

    Returns
    -------
    NumPy array or float
        One number a row, float64; +inf where k = 0, -inf where k takes all finite
        entries.

    Raises
    ------
    TypeError, ValueError
        As in `soft_topk`.
    """
    tau = check_temperature(temperature)
    _check_cost(cost)
    a, t = _solve(_rows(x, axis, where), k, resolve(curve), tau)
    return (a + tau * t)[()]


def _check_cost(cost: None) -> None:
    if cost is not None:
        raise NotImplementedError(
            "cost is not supported on Dask arrays: use NumPy, PyTorch or JAX, got "
            f"{type(cost).__name__}"
        )


def _rows(x: Any, axis: int, where: Any) -> Any:
    """The scores with the operator's axis last; no chunk is cut or joined."""
    x = da.asarray(x)
    if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise TypeError(
            f"x must hold real numbers of at most 64 bits, got dtype {x.dtype}"
        )
    check_unmasked(x._meta, "x", ", and what takes part by `where`")
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise TypeError(f"axis must be one integer on Dask arrays, got {axis!r}")
    if x.ndim == 0:
        raise ValueError("x must have at least one axis on Dask arrays, got a scalar")
    (axis,) = check_axis(axis, x.ndim, "x")
    if x.shape[axis] == 0:
        raise ValueError(
            f"x must have at least one entry along axis {axis}, got shape {x.shape}"
        )
    if where is not None:
        where = da.asarray(where)
        check_unmasked(where._meta, "where")
        if where.dtype != np.bool_:
            raise TypeError(f"where must be boolean, got dtype {where.dtype}")
        try:
            where = da.broadcast_to(where, x.shape)
        except ValueError:
            raise ValueError(
                f"where must broadcast to shape {x.shape}, got shape {where.shape}"
            ) from None
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        x = da.map_blocks(_as_floats, x if where is None else da.where(where, x, 0))
    if where is not None:
        x = da.where(
            where, x, x.dtype.type(-np.inf) if x.dtype.kind == "f" else -np.inf
        )
    return da.moveaxis(x, axis, -1)


def _as_floats(x: Array) -> Array:
    """Integers of a chunk as floats, all exact: a gap may lie between two chunks."""
    found = x.astype(np.float64)
    if is_large(found):
        raise ValueError(
            "x must hold integers of at most 2^53 on Dask arrays, got "
            f"{x[abs(found) >= 2.0**53][0]}: subtract what all of them have in common"
        )
    return found


def _budgets(k: ArrayLike, shape: tuple[int, ...]) -> Array:
    """One budget for each row of scores of a shape, whose last axis is reduced."""
    batch = shape[:-1]
    if hasattr(k, "dask"):
        k = np.asarray(k)  # a number a row, which is computed
    given = real_numbers(k, "k")
    try:
        wide = np.broadcast_shapes(batch, given.shape)
    except ValueError:
        raise ValueError(
            f"k must broadcast against x without its axis, shape {batch}, "
            f"got shape {given.shape}"
        ) from None
    check_kept(given.shape, shape, (-1,), wide, "k", "x")
    if wide != batch:
        raise ValueError(
            "k must have one number or one for each row of x on Dask arrays, shape "
            f"{batch}, got shape {given.shape}"
        )
    return np.broadcast_to(given, batch)


def _solve(x: Any, k: ArrayLike, curve: Curve, tau: float) -> tuple[Array, Array]:
    """Anchors and offsets of the rows."""
    batch = x.shape[:-1]
    given = _budgets(k, x.shape)
    n, moments = _moments(x)
    if not np.all((given >= 0) & (given <= n)):
        check_budget(given.reshape(-1), n.reshape(-1), "x")
    inner = (given > 0) & (given < n)
    whole = np.floor(given)
    budget = Budget(
        np.where(inner, whole, 0).astype(np.int64),
        np.where(inner, given - whole, 0.5),
        np.where(inner, n, 2),
    )
    with np.errstate(all="ignore"):
        moments = narrowed(
            lambda middle: _split(x, middle, np.zeros(batch), 1.0, 0.0),
            budget,
            tau,
            moments,
            inner,
        )
        start = begin(curve, budget, tau, moments)
        far = abs(curve.inverse(budget.mean()))
    at = start._replace(done=start.done | ~inner)
    for count in range(root.LIMIT):
        if at.done.all():
            break
        row = _gathered(x, _sums, at.anchor, at.search.t, curve, tau)
        with np.errstate(all="ignore"):
            at = root.advance(
                curve,
                budget,
                tau,
                tuple(np.moveaxis(row.sum(axis=-2), -1, 0)),
                at,
                count,
                far,
            )
    a, t = at.anchor, at.search.t
    if math.isfinite(curve.support[0]) and math.isfinite(curve.support[1]):
        gap = _split(x, a, t, tau, curve.centre)
        with np.errstate(all="ignore"):
            a, t = root.settled(curve, budget, tau, a, t, gap)
    outer = np.where(given > 0, -math.inf, math.inf)
    return np.where(inner, a, 0), np.where(inner, t, outer)


def _split(
    x: Any, a: Array, t: Array, tau: float, centre: float
) -> tuple[Array, Array, Array]:
    """`root.gap_of` for the scores at distances above a number from a + tau t."""
    row = _gathered(x, _gap, a, t, tau, centre)
    return row[..., 0].sum(-1), row[..., 1].min(-1), row[..., 2].max(-1)


def _moments(x: Any) -> tuple[Array, Moments]:
    """Finite entries of each row, and their moments, from those of the chunks."""
    with np.errstate(all="ignore"):  # squares of huge scores, which `narrowed` mends
        row = _merged(_gathered(x, _chunk_moments))
    n, bad, top, least, mean, square = np.moveaxis(row, -1, 0)
    if bad.any():
        raise ValueError("x must be finite or -inf wherever it takes part")
    top, least = (np.where(n > 0, end, 0) for end in (top, least))
    return n.astype(np.int64), Moments(top, least, mean, np.sqrt(square))


def _merged(parts: Array) -> Array:
    """(..., parts, 6) to (..., 6): the moments of a row from those of its parts."""
    n, bad, top, least, mean, square = np.moveaxis(parts, -1, 0)
    count = n.sum(axis=-1)
    share = n / np.maximum(count, 1)[..., None]
    middle = (mean * share).sum(axis=-1)
    away = mean - middle[..., None]
    spread = ((square + away * away) * share).sum(axis=-1)
    ends = top.max(axis=-1), least.min(axis=-1)
    return np.stack([count, bad.sum(axis=-1), *ends, middle, spread], axis=-1)


def _chunk_moments(x: Array) -> Array:
    """(R, n) to (R, 6): count, bad entries, extremes, mean, mean square about it."""
    parts = np.empty((len(x), -(-x.shape[1] // _PART), 6))
    for rows, columns in _places(x):
        some = x[rows, columns].astype(np.float64)
        parts[rows, columns.start // _PART] = _part_moments(some)
    return _merged(parts)


def _part_moments(x: Array) -> Array:
    """`_chunk_moments` at once."""
    finite = np.isfinite(x)
    n = finite.sum(axis=-1)
    top = np.where(finite, x, -math.inf).max(axis=-1)
    least = np.where(finite, x, math.inf).min(axis=-1)
    some = np.maximum(n, 1)
    mean = np.where(finite, x, 0).sum(axis=-1) / some
    d = np.where(finite, x - mean[..., None], 0)
    bad = (~finite & (x != -math.inf)).sum(axis=-1)
    return np.stack([n, bad, top, least, mean, np.vecdot(d, d) / some], axis=-1)


def _sums(x: Array, a: Array, t: Array, curve: Curve, tau: float) -> Array:
    """(R, n) to (R, 5): the sums of a chunk."""
    total = np.zeros((len(x), 5))
    for (rows, _), u in _parts(x, a, t, tau):
        total[rows] += np.stack(root.sums(curve, u), axis=-1)
    return total


def _gap(x: Array, a: Array, t: Array, tau: float, centre: float) -> Array:
    """(R, n) to (R, 3): how many scores are above, the least of them, the next."""
    m, least, most = np.zeros(len(x)), *np.full((2, len(x)), [[math.inf], [-math.inf]])
    for place, u in _parts(x, a, t, tau):
        above, rows = u > centre, place[0]
        m[rows] += above.sum(axis=-1)
        high = np.where(above, x[place], math.inf).min(axis=-1)
        low = np.where(above, -math.inf, x[place]).max(axis=-1)
        least[rows] = np.minimum(least[rows], high)
        most[rows] = np.maximum(most[rows], low)
    return np.stack([m, least, most], axis=-1)


def _parts(
    x: Array, a: Array, t: Array, tau: float
) -> Iterator[tuple[tuple[slice, slice], Array]]:
    """A chunk's distances, some at a time: its memory stays near that of the chunk."""
    for rows, columns in _places(x):
        some = x[rows, columns].astype(np.float64)
        with np.errstate(all="ignore"):
            yield (rows, columns), root.distances(some, tau, a[rows], t[rows])


def _places(x: Array) -> Iterator[tuple[slice, slice]]:
    """Some rows of a chunk, or a part of a long one."""
    R, n = x.shape
    height, width = max(1, _PART // n), min(n, _PART)
    for i in range(0, R, height):
        for j in range(0, n, width):
            yield slice(i, i + height), slice(j, j + width)


def _of_block(block_info: Any, *columns: Array) -> list[Array]:
    """The numbers of a block's rows, of numbers a row.

    They come with the task: a second array would make of each of its holders a
    candidate for the task, and chunks would move there.
    """
    place = tuple(slice(*ends) for ends in block_info[0]["array-location"][:-1])
    return [column[place].reshape(-1) for column in columns]


def _gathered(x: Any, measure: Callable[..., Array], *given: Any) -> Array:
    """What is measured of each chunk, (..., chunks along the axis, numbers)."""
    columns = [np.asarray(g) for g in given[:2]]
    rest = given[2:]

    def measured(x: Array, block_info: Any = None) -> Array:
        with np.errstate(all="ignore"):
            rows = x.reshape(-1, x.shape[-1])
            found = measure(rows, *_of_block(block_info, *columns), *rest)
        return found.reshape(*x.shape[:-1], 1, size)

    size = {"_chunk_moments": 6, "_sums": 5, "_gap": 3}[measure.__name__]
    chunks = (*x.chunks[:-1], (1,) * len(x.chunks[-1]), (size,))
    out = da.map_blocks(
        measured,
        x,
        new_axis=x.ndim,
        chunks=chunks,
        dtype=np.float64,
        meta=np.empty((0,) * (x.ndim + 1)),
    )
    return np.asarray(out.compute())
