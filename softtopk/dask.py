"""The operators on Dask arrays: no chunk moves, and only a few numbers of each travel.

>>> import dask.array as da
>>> import softtopk.dask as stk
>>> x = da.arange(1_000_000, chunks=250_000) / 1e5
>>> p = stk.soft_topk(x, k=1000)  # computes the threshold; the shares are lazy
>>> round(float(p.sum().compute()), 6)
1000.0

A call looks for the threshold of each row before it returns, in two to four passes over
the chunks (one for softmax and its logarithm; a few rows take more with entmax and an
alpha close to 1, or with a curve of one's own).  Each pass is one graph for all rows,
which reads each chunk once: the progress bar is ``dask.diagnostics.ProgressBar``, or
the dashboard of a cluster.  Results with an entry for each score are lazy, and read the
chunks once more when they are computed.  `persist` scores that would otherwise be
loaded or calculated anew each time.

The threads, processes and machines of a scheduler make no difference to any bit, as
the numbers of the chunks are added in the order of the chunks.  A scheduler may give a
chunk to an idle worker if that seems quicker; with the setting
``distributed.scheduler.work-stealing`` at False none ever moves.  Few large chunks are
best: scheduling one takes milliseconds, calculating with it a few nanoseconds an
entry.

What is missing here: costs, with which entries cross the threshold at speeds of their
own, so that no interval of scores holds those near it: a trial with five thresholds a
pass took four or five passes at best, and twenty at low temperatures; GradTopK and its
relatives, whose recurrences run along the whole row; sorting and ranking, where each
score of a row has a threshold of its own; and losses, which are a few lines with
`threshold` and `logsumexp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import ArrayLike

from ._rows.adapter_rows import Asked
from ._rows.budget import Budget
from ._rows.numpy_rows import (
    Array,
    Axis,
    as_array,
    as_mask,
    broadcast_as,
    check_axis,
    check_budget,
    check_count,
    check_empty,
    check_finite,
    check_kept,
    check_per,
    check_temperature,
    check_ties,
    check_unmasked,
    check_whole,
    check_width,
    common_batch,
    is_large,
    is_number,
    no_entries,
    not_real,
    positive_numbers,
    quiet,
    real_numbers,
)
from ._search import (
    chunk_entries,
    chunk_order,
    chunk_pass,
    chunk_search,
    chunk_sums,
    root,
)
from .curves import CLIP, EXP, Curve, resolve
from .curves import entmax as entmax_curve

__all__ = [
    "Linearization",
    "entmax",
    "linearize",
    "log_softmax",
    "logsumexp",
    "soft_topk",
    "softmax",
    "sparsemax",
    "threshold",
    "top_k",
    "top_k_indices",
    "top_k_sum",
]


def soft_topk(
    x: Any,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: Any = None,
    cost: None = None,
    per: str = "entry",
    empty: str = "raise",
) -> Any:
    """Smooth top-k selection: lazy shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : dask array
        Scores, finite or -inf, of any chunks, also of unknown sizes.
    k : array_like
        Budget, real; one for all or an array that broadcasts against `x` without
        `axis`.  It is computed if it is a Dask array.
    curve : str or Curve
        As in the core.
    temperature : float
        Above 0.
    axis : int, tuple of int, or None
        The axis along which the shares sum to k; several do together, None means all.
    where : dask array of bool, optional
        Entries that take part; the others get share 0.
    cost : None
        Budgets with costs are not supported on Dask arrays; anything else raises
        NotImplementedError.
    per : "entry" or "cost"
        As in the core; without costs it has no meaning.
    empty : "raise", "zeros" or "all"
        What a row is without an entry that takes part: by "raise" its budget must be 0,
        by "zeros" its shares are 0 whatever its budget is.  By "all" a row with fewer
        entries than its budget gives all of them.

    Returns
    -------
    dask array
        p, of the shape, chunks and type of `x`, or of its broadcast against `k`
        (float32 if `x` is float16, float64 if it holds no floats).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.
    NotImplementedError
        If there are costs.

    Notes
    -----
    The threshold is computed before this returns, the shares when they are asked for.
    The passes are described in `softtopk._search.chunk_search`.
    """
    asked = Asked(x, k, curve, temperature, axis, where, cost, per, empty)
    return _point(asked).shares()


def threshold(
    x: Any,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: Any = None,
    cost: None = None,
    per: str = "entry",
) -> Any:
    """The threshold of `soft_topk`, computed.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per
        As in `soft_topk`.

    Returns
    -------
    NumPy array or float
        One number a row, float64; +inf where k = 0, -inf where k takes all finite
        entries.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        As in `soft_topk`.
    """
    asked = Asked(x, k, curve, temperature, axis, where, cost, per)
    return _point(asked).thresholds()


def softmax(
    x: Any,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: Any = None,
    empty: str = "raise",
) -> Any:
    """Softmax: lazy shares that sum to 1.

    Parameters
    ----------
    x, temperature, axis, where, empty
        As in `soft_topk`.

    Returns
    -------
    dask array
        Of the shape, chunks and type of `x`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    One pass finds the largest score of each row and the sum of the exponentials.
    """
    asked = Asked(x, 1, EXP, temperature, axis, where, empty=empty)
    return _softmax_rows(asked).lazy(_softmax)


def log_softmax(
    x: Any, *, temperature: float = 1.0, axis: Axis = -1, where: Any = None
) -> Any:
    """Logarithm of `softmax`, also where a share would underflow; lazy.

    Parameters
    ----------
    x, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    dask array
        Of the shape, chunks and type of `x`; -inf for entries that take no part.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.
    """
    asked = Asked(x, 1, EXP, temperature, axis, where)
    return _softmax_rows(asked).lazy(_log_softmax)


def logsumexp(
    x: Any, *, temperature: float = 1.0, axis: Axis = -1, where: Any = None
) -> Any:
    """The smooth maximum, temperature times the logarithm of a sum of exponentials.

    Parameters
    ----------
    x, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    NumPy array or float
        One number a row, computed, of the type of `x`.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.
    """
    asked = Asked(x, 1, EXP, temperature, axis, where)
    return _softmax_rows(asked).logarithm()


def sparsemax(
    x: Any,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: Any = None,
    empty: str = "raise",
) -> Any:
    """Sparsemax, the point of the simplex nearest to the scores: lazy shares.

    Parameters
    ----------
    x, temperature, axis, where, empty
        As in `soft_topk`.

    Returns
    -------
    dask array
        Of the shape, chunks and type of `x`.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.
    """
    asked = Asked(x, 1, CLIP, temperature, axis, where, empty=empty, needs_finite=True)
    return _point(asked).shares()


def entmax(
    x: Any,
    alpha: float = 1.5,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: Any = None,
    empty: str = "raise",
) -> Any:
    """Entmax: a distribution that is sparse for alpha above 1; lazy shares.

    Parameters
    ----------
    x, temperature, axis, where, empty
        As in `soft_topk`.
    alpha : float
        From 1 to 2: softmax at 1, `sparsemax` at 2.

    Returns
    -------
    dask array
        Of the shape, chunks and type of `x`.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.
    NotImplementedError
        If alpha is an array or outside [1, 2], where the package has no curve for it.
    """
    curve = _entmax_of(alpha)
    asked = Asked(x, 1, curve, temperature, axis, where, empty=empty, needs_finite=True)
    if curve is EXP:
        return _softmax_rows(asked).lazy(_softmax)
    return _point(asked).shares()


def top_k(
    x: Any,
    k: ArrayLike,
    axis: Axis = -1,
    where: Any = None,
    *,
    ties: str = "share",
    cost: None = None,
    per: str = "entry",
    empty: str = "raise",
) -> Any:
    """Indicator of the k largest scores, lazy; ties at the k-th place share equally.

    Parameters
    ----------
    x, k, axis, where, cost, per, empty
        As in `soft_topk`.
    ties : "share" or "first"
        As in the core.  "first" takes a pass more, and one axis.

    Returns
    -------
    dask array
        Of the shape, chunks and type of `x`; it sums to k.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.
    NotImplementedError
        If there are costs, or ties="first" is asked for along several axes.
    """
    share = check_ties(ties)
    asked = Asked(x, k, EXP, 1.0, axis, where, cost, per, empty, integer_k=not share)
    return _ranked(asked).indicator(share)


def top_k_sum(x: Any, k: ArrayLike, axis: Axis = -1, where: Any = None) -> Any:
    """Sum of the k largest scores, computed; linear in k between whole ones.

    Parameters
    ----------
    x, k, axis, where
        As in `soft_topk`.

    Returns
    -------
    NumPy array or float
        One number a row, of the type of `x`.

    Raises
    ------
    TypeError, ValueError
        As in `top_k`.
    """
    return _ranked(Asked(x, k, EXP, axis=axis, where=where)).sums()


def top_k_indices(
    x: Any,
    k: ArrayLike,
    axis: Axis = -1,
    where: Any = None,
    *,
    largest: bool = True,
    width: int | None = None,
    empty: str = "raise",
) -> Any:
    """The indices of the k largest scores, the largest first; computed.

    Parameters
    ----------
    x, axis, where, empty
        As in `soft_topk`; `axis` is one axis, or there is one chunk in all.
    k : int or array_like of whole numbers
        How many; one for all, or one a row.
    largest : bool
        Whether to take the largest scores; else the smallest, the smallest first.
    width : int, optional
        The length of the result, by default k, or the largest k of all rows.

    Returns
    -------
    NumPy array of int
        As in the core.  The k scores of every row are collected in one place.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.
    NotImplementedError
        If there are several axes.
    """
    k = np.asarray(k) if hasattr(k, "dask") else k
    many = isinstance(k, (list, tuple)) or getattr(k, "ndim", 0) > 0
    number = None if many else check_count(k)
    given = k if number is None else number
    asked = Asked(x, given, EXP, axis=axis, where=where, empty=empty, integer_k=True)
    found = _ranked(asked, largest)
    most = int(found.k.max(initial=0)) if number is None else number
    return found.top_indices(most if width is None else check_width(width, most))


class Linearization:
    """An operator's value at a point and its derivative there.

    Obtained from `linearize`.

    Attributes
    ----------
    value : dask array or NumPy array
        The operator at the point, as it returns it.
    dk : dask array, NumPy array or None
        The derivative of `value` by the budget of its row.
    """

    def __init__(
        self,
        value: Any,
        dk: Any,
        push: Callable[[Any], Any],
        pull: Callable[[Any], Any],
    ) -> None:
        self.value, self.dk, self.push, self.pull = value, dk, push, pull

    def jvp(self, tangent: Any) -> Any:
        """The change of the value along a change of the scores, a lazy Dask array.

        Parameters
        ----------
        tangent : array_like
            Of the shape of the scores, or broadcasting to it.
        """
        return self.push(tangent)

    def vjp(self, cotangent: Any) -> Any:
        """The gradient by the scores of ``sum(cotangent * value)``, lazy.

        Parameters
        ----------
        cotangent : array_like
            Of the shape of `value`, or broadcasting to it.
        """
        return self.pull(cotangent)


def linearize(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Linearization:
    """Value and derivative of an operator at a point.

    Parameters
    ----------
    operator : callable
        `soft_topk`, `threshold`, `sparsemax` or `entmax` of this module, `softmax`,
        `log_softmax` or `logsumexp`.
    *args, **kwargs
        Its arguments, the scores first.

    Returns
    -------
    Linearization
        With ``value``, ``jvp(tangent)``, ``vjp(cotangent)`` and ``dk``.

    Raises
    ------
    TypeError
        If the operator is another.
    NotImplementedError
        If a threshold is the middle of an interval, or rows were repeated for an array
        of budgets.

    Notes
    -----
    A pass more than the operator, for the sums of the slopes.  The products are lazy,
    and take a pass for the sums with the tangent and one for the result.
    """
    if operator in (soft_topk, threshold):
        given = {"curve": "laplace"} | _by_name(operator, args, kwargs)
        return _point(Asked(**given)).linearized(operator is threshold)
    if operator in (softmax, log_softmax, logsumexp):
        given = _by_name(operator, args, kwargs)
        return _softmax_rows(Asked(**given, curve=EXP)).linearized(operator)
    if operator in (sparsemax, entmax):
        given = _by_name(operator, args, kwargs)
        curve = CLIP if operator is sparsemax else _entmax_of(given.pop("alpha", 1.5))
        asked = Asked(**given, k=1, curve=curve, needs_finite=True)
        if curve is EXP:
            return _softmax_rows(asked).linearized(softmax)
        found = _point(asked).linearized(False)
        found.dk = None  # the budget is 1
        return found
    known = "entmax, log_softmax, logsumexp, soft_topk, softmax, sparsemax, threshold"
    raise TypeError(
        f"operator must be one with a derivative on Dask arrays ({known}), "
        f"got {operator!r}"
    )


# Arguments ----------------------------------------------------------------------------


def _by_name(operator: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of an operator by their names, as far as they are given."""
    return signature(operator).bind(*args, **kwargs).arguments


def _entmax_of(alpha: Any) -> Curve:
    """The curve of entmax, an error if there is none."""
    given = positive_numbers(alpha, "alpha")
    if given.ndim or not 1 <= given <= 2:
        raise NotImplementedError(
            f"alpha must be one number from 1 to 2 on Dask arrays, got {alpha!r}"
        )
    return entmax_curve(float(given))


def _for_dask(x: Any) -> bool:
    """Whether an array may stay in its graph or its file, or on its device."""
    if isinstance(x, list | tuple):
        return any(map(dask.is_dask_collection, x))
    typed = isinstance(getattr(x, "dtype", None), np.dtype)
    return dask.is_dask_collection(x) or (typed and not isinstance(x, np.ndarray))


class _DaskRows:
    """What is asked for, checked: scores in chunks, with the axes of a row last.

    `shape`, `axes` and `given` restore their shape.
    """

    def __init__(self, asked: Asked) -> None:
        temperature, where = asked.temperature, asked.where
        if not is_number(temperature):
            raise NotImplementedError(
                "temperature must be one number on Dask arrays, got shape "
                f"{real_numbers(temperature, 'temperature').shape}"
            )
        self.tau = check_temperature(temperature)
        check_empty(asked.empty)
        check_per(asked.per)
        if asked.cost is not None:
            raise NotImplementedError(
                "cost is not supported on Dask arrays, where its search would take up "
                "to twenty passes: use NumPy, PyTorch or JAX, "
                f"got {type(asked.cost).__name__}"
            )
        x = da.asarray(asked.x) if _for_dask(asked.x) else as_array(asked.x, "x")
        if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
            raise not_real("x", x.dtype)
        x = da.asarray(x)
        check_unmasked(x._meta, "x", ", and what takes part by `where`")
        axes = check_axis(asked.axis, x.ndim, "x")
        if 0 in [x.shape[i] for i in axes]:
            raise no_entries("x", x.shape, asked.axis)
        if where is not None:
            where = da.asarray(where if _for_dask(where) else as_mask(where))
            check_unmasked(where._meta, "where")
            if where.dtype != np.bool_:
                raise TypeError(f"where must be boolean, got dtype {where.dtype}")
            where = broadcast_as(da, where, x.shape, "where")
        if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
            x = da.map_blocks(_as_floats, x if where is None else da.where(where, x, 0))
        elif x.dtype.kind != "f":
            x = x.astype(np.float64)
        elif x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float64 if x.dtype.itemsize == 8 else np.float32)
        if where is not None:
            x = da.where(where, x, x.dtype.type(-np.inf))
        self.shape, self.axes, self.given = x.shape, axes, x.shape
        # Without axes every entry is a row.
        x = da.moveaxis(x, axes, range(-len(axes), 0)) if axes else x[..., None]
        batch = x.ndim - max(1, len(axes))
        if any(math.isnan(size) for size in x.shape[:batch]):
            x = x.copy()
            x.compute_chunk_sizes()
            shape = da.moveaxis(x, range(-len(axes), 0), axes).shape
            self.shape = self.given = shape if axes else x.shape[:-1]
        self.lay_out(x, batch)
        self.asked, self.curve = asked, resolve(asked.curve)

    def lay_out(self, x: Any, batch: int) -> None:
        """Take an array with the axes of a row last."""
        self.x, self.batch, self.ndim = x, x.shape[:batch], batch
        self.count = math.prod(self.batch)
        self.grid = x.numblocks[:batch]
        self.many = max(1, math.prod(x.numblocks[batch:]))  # chunks of a row
        ends = [np.cumsum((0, *sizes)) for sizes in x.chunks[:batch]]
        self.starts = [end.tolist() for end in ends]

    def budgets(self) -> Array:
        """The budgets, one for each row; the rows are repeated where that needs it."""
        k = self.asked.k
        given = real_numbers(np.asarray(k) if hasattr(k, "dask") else k, "k")
        batch = common_batch(self.batch, given.shape, "k", "x")
        if self.axes:
            check_kept(given.shape, self.given, self.axes, batch, "x")
        if batch != self.batch:
            shape, chunks = batch + self.x.shape[self.ndim :], self.x.chunks
            before = ((None, ()),) * (len(batch) - self.ndim)  # axes that are new
            own = (*before, *zip(self.batch, chunks, strict=False))
            more = [
                sizes if length == size else (1,) * size
                for size, (length, sizes) in zip(batch, own, strict=True)
            ]
            chunks = (*more, *chunks[self.ndim :])
            self.lay_out(da.broadcast_to(self.x, shape, chunks=chunks), len(batch))
        return np.broadcast_to(given, batch).reshape(-1)

    def run(
        self,
        function: Callable[..., Any],
        *columns: Array,
        active: Array | None = None,
        **how: Any,
    ) -> list[tuple[Array, list[Any]]]:
        """What a function finds of the chunks, in one graph, computed now.

        Returns for each block of rows their indices, and a list with what was found in
        each chunk of these rows.  `columns` have a number, or several, for each row
        that is `active`.  Results with an entry for each score are those of `lazy`.
        """
        rows = np.arange(self.count).reshape(self.batch)
        among = np.full(self.count, -1)  # the active rows
        active = np.arange(self.count) if active is None else active
        among[active] = np.arange(len(active))
        many = list(np.ndindex(*self.x.numblocks[self.ndim :]))
        tasks: dict[Any, Any] = {}
        known: list[Array] = []
        name = f"softtopk-{function.__name__.strip('_')}-{uuid4().hex}"
        for index in np.ndindex(*self.grid):
            own = rows[_rows_of_block(self.starts, index)].reshape(-1)
            on = among[own] >= 0
            if not on.any():
                continue
            which = None if on.all() else np.flatnonzero(on)
            given = [column[among[own[on]]] for column in columns]
            task = partial(_task, self.ndim, which, function, given, how)
            for seed, last in enumerate(many):
                block = self.x.name, *index, *last
                tasks[name, len(known), seed] = task, seed, block
            known.append(own[on])
        if not known:
            return []
        # An array of objects, one of each chunk.
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=[self.x])
        chunks = (1,) * len(known), (1,) * len(many)
        found = da.Array(graph, name, chunks, dtype=object).compute()
        return list(zip(known, found.tolist(), strict=True))

    def expand(self, out: Any) -> Any:
        """A lazy result with an entry for each score, in the shape of the scores."""
        if not self.axes:
            return out[..., 0]
        return da.moveaxis(out, range(-len(self.axes), 0), self.axes)

    def reduce(self, column: Array) -> Any:
        """Numbers, one for each row, in their shape."""
        return column.reshape(self.batch)[()]

    def lazy(
        self,
        function: Callable[..., Array],
        *columns: Array,
        dtype: Any = None,
        of_chunks: Array | None = None,
        **how: Any,
    ) -> Any:
        """A function of each chunk ``(r, m)`` and the numbers of its rows.

        The numbers come with the task: a second array would make of each of its holders
        a candidate for the task, and chunks would move there.  `of_chunks` has one more
        for each row, different in each of its chunks.
        """
        dtype, batch, starts = dtype or self.x.dtype, self.batch, self.starts

        def block(x: Array, block_id: Any = None) -> Array:
            at = _rows_of_block(starts, block_id)
            given = columns
            if of_chunks is not None:
                given = (*columns, of_chunks[:, block_id[-1]])
            own = [column.reshape(batch)[at].reshape(-1) for column in given]
            sizes = x.shape[: len(batch)], x.shape[len(batch) :]
            rows = x.reshape(*map(math.prod, sizes))
            with np.errstate(all="ignore"):  # as the caller's state is not the task's
                found = function(rows, *own, **how)
            return found.reshape(x.shape).astype(dtype, copy=False)

        meta = np.empty((0,) * self.x.ndim, dtype)
        return da.map_blocks(block, self.x, dtype=dtype, meta=meta)

    def gather(self, values: Any, name: str) -> Any:
        """An array that broadcasts to the scores, with the chunks of the rows."""
        values = da.asarray(values if _for_dask(values) else as_array(values, name))
        values = broadcast_as(da, values, self.shape, name)
        if self.axes:
            values = da.moveaxis(values, self.axes, range(-len(self.axes), 0))
        else:
            values = values[..., None]
        return values.rechunk(self.x.chunks)

    def gather_reduced(self, values: Any, name: str) -> Array:
        """One number for each row."""
        given = real_numbers(values, name)
        return broadcast_as(np, given, self.batch, name).reshape(-1)


def _rows_of_block(
    starts: list[list[int]], index: tuple[int, ...]
) -> tuple[slice, ...]:
    """The rows of a block, by the index of the block."""
    pairs = zip(starts, index, strict=False)
    return tuple(slice(along[i], along[i + 1]) for along, i in pairs)


def _task(
    batch: int,
    which: Array | None,
    function: Callable[..., Any],
    columns: list[Array],
    how: dict[str, Any],
    seed: int,
    x: Array,
) -> Any:
    """What a function finds of some rows of a chunk."""
    rows = x.reshape(math.prod(x.shape[:batch]), math.prod(x.shape[batch:]))
    rows = rows if which is None else rows[which]
    found = np.empty((1, 1), object)
    with np.errstate(all="ignore"):
        found[0, 0] = function(rows, *columns, seed=seed, **how)
    return found


def _as_floats(x: Array) -> Array:
    """Integers of a chunk as floats, all exact: a gap may lie between two chunks."""
    found = x.astype(np.float64)
    if is_large(found):
        raise ValueError(
            "x must hold integers of at most 2^53 on Dask arrays, got "
            f"{x[abs(found) >= 2.0**53][0]}: subtract what all of them have in common"
        )
    return found


def _surveyed(rows: _DaskRows) -> chunk_sums.Survey:
    """The first pass, over all rows; an error if a score is none."""
    n = math.prod(rows.x.shape[rows.ndim :])
    every = None if math.isnan(n) else chunk_search.stride(int(n), rows.count)
    size = chunk_search.per_chunk(rows.many)
    found = rows.run(chunk_pass.survey, every=every, size=size)
    survey = chunk_sums.of_all_rows(found, chunk_sums.Survey)
    _check_scores(survey.bad)
    return survey


def _check_scores(bad: Array) -> None:
    """An error if a row has a score that is none; the others have 0 here."""
    for score in bad[bad != 0]:
        raise ValueError(
            f"x must be finite or -inf wherever it takes part, got {float(score)}"
        )


def _allowed(rows: _DaskRows, k: Array, n: Array) -> Array:
    """The budgets, checked, and as `empty` has them in rows with too few entries."""
    asked, empty = rows.asked, rows.asked.empty
    if asked.needs_finite and empty == "raise":
        check_finite(n, "x")
    if empty != "raise":
        k = np.where(n == 0, 0, k)
    if asked.integer_k:
        check_whole(k)
    if empty == "all":
        k = np.minimum(k, n)
    if not np.all((k >= 0) & (k <= n)):
        check_budget(k, n, "x")
    return k


# The soft selection -------------------------------------------------------------------


@quiet()
def _point(asked: Asked) -> _Point:
    """The rows with their thresholds."""
    rows = _DaskRows(asked)
    before = rows.batch
    budgets = rows.budgets()
    survey = _surveyed(rows)
    a, t = _search(rows, survey, _allowed(rows, budgets, survey.n))
    return _Point(rows, a, t, before != rows.batch)


def _search(
    rows: _DaskRows, survey: chunk_sums.Survey, k: Array
) -> tuple[Array, Array]:
    """Anchors and offsets of the rows."""
    a = np.zeros(rows.count)
    t = np.where(k > 0, -math.inf, math.inf)
    inner = np.flatnonzero((k > 0) & (k < survey.n))
    if not inner.size:
        return a, t
    given = survey.pick(inner)
    whole = np.floor(k[inner])
    budget = Budget(whole.astype(np.int64), k[inner] - whole, given.n)
    short = rows.x.dtype == np.float32
    search = chunk_search.ChunkSearch(rows.curve, given, budget, rows.tau, short)
    function = chunk_pass.sums_at_nodes
    while search.active.size:
        columns = *search.nodes, search.near(), *search.windows()
        how = {"curve": rows.curve, "tau": rows.tau, "precise": search.precise}
        how["most"] = 64 + 4 * search.most() // rows.many
        found = rows.run(function, *columns, active=inner[search.active], **how)
        search.learn(chunk_sums.of_all_rows(found, chunk_sums.NodeSums))
    a[inner], t[inner] = search.answer
    return a, t


class _Point(NamedTuple):
    """Rows with their thresholds, as anchors and offsets."""

    rows: _DaskRows
    a: Array
    t: Array
    repeated: bool

    def shares(self) -> Any:
        """The shares, lazy."""
        how: dict[str, Any] = {"curve": self.rows.curve, "tau": self.rows.tau}
        p = self.rows.lazy(chunk_entries.shares, self.a, self.t, **how)
        return self.rows.expand(p)

    @quiet()
    def thresholds(self) -> Any:
        """The thresholds in the units of the scores."""
        return self.rows.reduce(self.a + self.rows.tau * self.t)

    @quiet()
    def linearized(self, of_threshold: bool) -> Linearization:
        """The derivative of the shares, or of the threshold."""
        if self.repeated:
            raise NotImplementedError(
                "k must be one number or have the shape of x without its axis where a "
                "derivative is asked for on Dask arrays"
            )
        rows, tau, own = self.rows, self.rows.tau, (self.a, self.t)
        how: dict[str, Any] = {"curve": rows.curve, "tau": tau}
        found = rows.run(chunk_entries.sum_slopes, *own, **how)
        W, top, faint = chunk_sums.of_all_rows(found, chunk_sums.SlopeSums)
        finite = np.isfinite(self.t)
        flat = (W == 0) & (top == -math.inf) & finite
        if of_threshold and root.ends(rows.curve) and flat.any():
            raise NotImplementedError(
                "a threshold that is the middle of an interval has no derivative on "
                "Dask arrays: all shares of its row are 0 or 1"
            )
        how["dtype"] = np.float64
        s = rows.lazy(chunk_entries.normalised, *own, W, top, faint, **how)
        if of_threshold:
            dk = np.where(W > 0, -tau / np.where(W > 0, W, 1), 0)
            return _reducing(rows, self.thresholds(), rows.reduce(dk), s)
        w = rows.lazy(chunk_entries.chunk_slopes, *own, **how)
        return _symmetric(rows, self.shares(), rows.expand(s), w, s, tau)


def _last(rows: _DaskRows) -> tuple[int, ...]:
    """The axes of a row where they are last."""
    return tuple(range(-max(1, len(rows.axes)), 0))


def _symmetric(
    rows: _DaskRows, value: Any, dk: Any, w: Any, s: Any, tau: float
) -> Linearization:
    """The map w (t - sum s t) / tau."""

    def product(tangent: Any, name: str) -> Any:
        t = rows.gather(tangent, name)
        mean = (s * t).sum(axis=_last(rows), keepdims=True)
        return rows.expand(((w * (t - mean)) / tau).astype(rows.x.dtype))

    return Linearization(
        value,
        dk,
        lambda t: product(t, "tangent"),
        lambda g: product(g, "cotangent"),
    )


def _reducing(rows: _DaskRows, value: Any, dk: Any, s: Any) -> Linearization:
    """The map to one number for each row, with the gradient s."""

    def push(tangent: Any) -> Any:
        return (s * rows.gather(tangent, "tangent")).sum(axis=_last(rows))

    def pull(cotangent: Any) -> Any:
        g = rows.gather_reduced(cotangent, "cotangent").reshape(rows.batch)
        g = da.from_array(g, chunks=rows.x.chunks[: rows.ndim])
        g = g[(..., *(None,) * len(_last(rows)))]
        return rows.expand((s * g).astype(rows.x.dtype))

    return Linearization(value, dk, push, pull)


# Softmax ------------------------------------------------------------------------------


class _SoftmaxRows(NamedTuple):
    """Rows with their largest scores and what the others weigh beside these."""

    rows: _DaskRows
    top: Array
    rest: Array

    def lazy(self, function: Callable[..., Array], dtype: Any = None) -> Any:
        """A function of the scores, in their shape."""
        return self.rows.expand(self.own(function, dtype))

    def own(self, function: Callable[..., Array], dtype: Any = None) -> Any:
        """The same with the axes of a row last."""
        how = {"dtype": dtype, "tau": self.rows.tau}
        return self.rows.lazy(function, self.top, self.rest, **how)

    @quiet()
    def logarithm(self) -> Any:
        """The smooth maximum."""
        value = self.top + self.rows.tau * np.log1p(self.rest)
        return self.rows.reduce(value.astype(self.rows.x.dtype))

    @quiet()
    def linearized(self, operator: Callable[..., Any]) -> Linearization:
        """The derivative of one of the operators."""
        rows, tau = self.rows, self.rows.tau
        p = self.own(_softmax, np.float64)
        if operator is logsumexp:
            return _reducing(rows, self.logarithm(), None, p)
        if operator is softmax:
            return _symmetric(rows, self.lazy(_softmax), None, p, p, tau)
        axes = _last(rows)

        def push(tangent: Any) -> Any:
            t = rows.gather(tangent, "tangent")
            out = (t - (p * t).sum(axis=axes, keepdims=True)) / tau
            out = da.where(rows.x > -math.inf, out, 0)
            return rows.expand(out.astype(rows.x.dtype))

        def pull(cotangent: Any) -> Any:
            g = da.where(rows.x > -math.inf, rows.gather(cotangent, "cotangent"), 0)
            out = (g - p * g.sum(axis=axes, keepdims=True)) / tau
            return rows.expand(out.astype(rows.x.dtype))

        return Linearization(self.lazy(_log_softmax), None, push, pull)


@quiet()
def _softmax_rows(asked: Asked) -> _SoftmaxRows:
    """The largest score of each row, and the sum of the others' exponentials."""
    rows = _DaskRows(asked)
    tau = rows.tau
    found = rows.run(chunk_entries.sum_exponentials, tau=tau)
    sums = chunk_sums.of_all_rows(found, chunk_sums.ExponentialSums, tau)
    _check_scores(sums.bad)
    if asked.empty == "raise":
        check_finite(sums.top > -math.inf, "x")
    return _SoftmaxRows(rows, sums.top, sums.rest)


def _softmax(x: Array, top: Array, rest: Array, tau: float) -> Array:
    e = np.exp(chunk_sums.below_largest(x, top, tau)) / (1 + rest)[:, None]
    return np.where(x > -math.inf, e, 0)


def _log_softmax(x: Array, top: Array, rest: Array, tau: float) -> Array:
    d = chunk_sums.below_largest(x, top, tau) - np.log1p(rest)[:, None]
    return np.where(x > -math.inf, d, -math.inf)


# The hard selection -------------------------------------------------------------------


class _Ranked(NamedTuple):
    """Rows with the score at the place ceil(k), and how many are above and equal."""

    rows: _DaskRows
    k: Array
    pivot: Array
    above: Array
    tied: Array

    def indicator(self, share: bool) -> Any:
        """`top_k`."""
        rows, remaining = self.rows, self.k - self.above
        if share:
            part = remaining / np.maximum(self.tied, 1)

            def shared(x: Array, pivot: Array, part: Array) -> Array:
                x, pivot = x.astype(np.float64, copy=False), pivot[:, None]
                return (x > pivot) + (x == pivot) * part[:, None]

            return rows.expand(rows.lazy(shared, self.pivot, part))
        self.one_axis("ties='first'")

        def first(x: Array, pivot: Array, left: Array) -> Array:
            x, pivot = x.astype(np.float64, copy=False), pivot[:, None]
            tied = x == pivot
            return (x > pivot) | tied & (np.cumsum(tied, axis=-1) <= left[:, None])

        left = remaining[:, None] - self.before()
        return rows.expand(rows.lazy(first, self.pivot, of_chunks=left))

    def before(self) -> Array:
        """How many equal scores the chunks before each chunk have."""
        parts = self.rows.run(chunk_order.count_equal, self.pivot)
        count = np.zeros((self.rows.count, self.rows.x.numblocks[-1]))
        for own, found in parts:
            count[own] = np.stack(found, axis=-1)
        return np.cumsum(count, axis=-1) - count

    @quiet()
    def sums(self) -> Any:
        """`top_k_sum`."""
        rows = self.rows
        total = np.zeros(rows.count)
        for own, found in rows.run(chunk_order.sum_above, self.pivot):
            total[own] = np.stack(found, axis=-1).sum(axis=-1)
        finite = np.where(self.k > 0, self.pivot, 0)
        total += (self.k - self.above) * finite
        return rows.reduce(total.astype(rows.x.dtype))

    def one_axis(self, what: str) -> None:
        """An error if the entries of a row have no order that the chunks keep."""
        if len(self.rows.axes) > 1 and math.prod(self.rows.x.numblocks) > 1:
            raise NotImplementedError(
                f"axis must be one axis for {what} on Dask arrays, where entries of "
                f"several are not in the order of the chunks, got {self.rows.axes}"
            )

    @quiet()
    def top_indices(self, width: int) -> Any:
        """`top_k_indices`: the length of a row stands where there is no entry."""
        rows = self.rows
        self.one_axis("indices")
        out = np.zeros((rows.count, width), np.int64)
        if width:
            remaining = (self.k - self.above).astype(np.int64)
            for own, found in rows.run(chunk_order.candidates, self.pivot, remaining):
                sizes = [size for size, _ in found]
                starts = np.cumsum((0, *sizes))
                for i, row in enumerate(own):
                    picked = [part[i] for _, part in found]
                    value = np.concatenate([v for v, _ in picked])
                    pairs = zip(picked, starts, strict=False)
                    index = np.concatenate([j + at for (_, j), at in pairs])
                    permutation = np.lexsort((index, -value))
                    some = index[permutation[: int(self.k[row])]]
                    out[row] = starts[-1]
                    out[row, : len(some)] = some
        out = out.reshape(*rows.batch, width)
        return np.moveaxis(out, -1, rows.axes[0]) if len(rows.axes) == 1 else out


@quiet()
def _ranked(asked: Asked, largest: bool = True) -> _Ranked:
    """The score at the place ceil(k) of each row, or of its negative."""
    rows = _DaskRows(asked)
    if not largest:  # an infinity stays what it is: no score, or an error
        rows.x = da.where(abs(rows.x) < math.inf, -rows.x, rows.x)
    budgets = rows.budgets()
    if asked.integer_k and asked.empty == "raise":
        check_whole(budgets)
    survey = _surveyed(rows)
    k = _allowed(rows, budgets, survey.n)
    pivot = np.full(rows.count, math.inf)
    above, tied = np.zeros((2, rows.count))
    positive = np.flatnonzero(k > 0)
    if positive.size:
        given = survey.pick(positive)
        search = chunk_order.PlaceSearch(given, np.ceil(k[positive]))
        while search.active.size:
            columns, left = (search.nodes, search.every()), positive[search.active]
            most = 64 + 4 * search.most() // rows.many
            found = rows.run(chunk_order.count, *columns, active=left, most=most)
            search.learn(chunk_sums.of_all_rows(found, chunk_sums.Counts))
        pivot[positive], above[positive], tied[positive] = search.answer
    return _Ranked(rows, k, pivot, above, tied)
