"""NumPy's functions as the contract names them."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .._contract import Adapter
from .._rows import numpy_rows as core
from .._rows.namespace import clip
from .._search.numpy_blocks import numpy_blocks
from .._search.numpy_polynomials import numpy_horner, numpy_weights
from .base_adapter import Base


class NumPy(Base):
    """The members of the contract that the operators call on NumPy.

    It lacks those for the search over sums, the maps to the simplex and GradTopK, which
    have quicker implementations for NumPy.
    """

    own_rows = in_memory = True
    has_derivatives = False
    exp, floor, isfinite, log1p = np.exp, np.floor, np.isfinite, np.log1p
    expm1, log, sqrt, maximum = np.expm1, np.log, np.sqrt, np.maximum
    minimum, bool_, finfo = np.minimum, np.dtype(bool), np.finfo
    concat, ones_like = staticmethod(np.concatenate), staticmethod(np.ones_like)
    reshape, where = staticmethod(np.reshape), staticmethod(np.where)
    moveaxis, zeros_like = staticmethod(np.moveaxis), staticmethod(np.zeros_like)

    @staticmethod
    def sum(x: Any, axis: int = -1) -> Any:
        if axis == -1:
            return np.add.reduce(x, axis=axis)
        # Along another axis than the last, NumPy adds the entries one after the other
        # and not in pairs.  In single precision every one of these additions would
        # round, so the sum is accumulated in double precision.
        return np.add.reduce(x, axis=axis, dtype=np.float64).astype(x.dtype)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    @staticmethod
    def max(x: Any, axis: int | None = None) -> Any:
        return np.maximum.reduce(x, axis=axis)

    @staticmethod
    def all(x: Any, axis: int = -1) -> Any:
        return np.logical_and.reduce(x, axis=axis)

    @staticmethod
    def argmax(x: Any) -> Any:
        return x.argmax(axis=-1)

    @staticmethod
    def clip(x: Any, least: Any, most: Any) -> Any:
        return clip(np, x, least, most)

    @staticmethod
    def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
        """A copy, which takes a fraction of the time of np.broadcast_to's view."""
        if x.ndim > len(shape):
            raise ValueError("more axes than the shape has")
        out = np.empty(shape, x.dtype)
        out[...] = x
        return out

    @staticmethod
    def take(x: Any, index: Any) -> Any:
        if x.ndim != 2:
            return np.take_along_axis(x, index, axis=-1)
        return x.reshape(-1).take(_of_rows(index, x.shape[1]))  # a third of its time

    @staticmethod
    def uniform(rng: Any, shape: tuple[int, ...], like: Any) -> Any:
        is_seed = isinstance(rng, (int, np.integer)) and not isinstance(rng, bool)
        if not (is_seed or isinstance(rng, np.random.Generator)):
            raise TypeError(
                f"rng must be a numpy.random.Generator or a seed, got {rng!r}"
            )
        return np.random.default_rng(rng).random(shape, dtype=like.dtype)

    @staticmethod
    def highest(x: Any, k: int) -> Any:
        return np.argpartition(x, -k, axis=-1)[..., -k:]

    @staticmethod
    def program(f: Any, *args: Any) -> Any:
        return f(ADAPTER, *args)

    @staticmethod
    def put(x: Any, index: Any, values: Any) -> Any:
        return _put(x.copy(), index, values)

    @staticmethod
    def restore(values: Any, permutation: Any) -> Any:
        return _put(np.empty_like(values), permutation, values)

    weights, horner = staticmethod(numpy_weights), staticmethod(numpy_horner)

    @staticmethod
    def scatter(values: Any, index: Any, n: int) -> Any:
        if values is not None:
            values = np.broadcast_to(values, index.shape).reshape(-1)
        rows, flat = len(index), _of_rows(index, n).reshape(-1)
        return np.bincount(flat, values, rows * n).reshape(rows, n)

    @staticmethod
    def runs(index: Any, n: int) -> Any:
        flat = _of_rows(index, n).reshape(-1)
        long = np.unique(flat[_IN_TURN:][flat[_IN_TURN:] == flat[:-_IN_TURN]])
        ends = np.searchsorted(flat, [long, long + 1])
        inner = [np.arange(*pair) for pair in ends.T]
        starts = np.cumsum([0, *map(len, inner[:-1])])

        def sums(values: Any) -> Any:
            values, out = values.reshape(-1), np.zeros(len(index) * n, values.dtype)
            np.add.at(out, flat, values)
            if inner:  # in pairs
                out[long] = np.add.reduceat(values[np.concatenate(inner)], starts)
            return out.reshape(-1, n)

        return sums

    @staticmethod
    def cumsum(x: Any) -> Any:
        return np.cumsum(x, axis=-1)

    @staticmethod
    def running_max(x: Any) -> Any:
        if x.size > _CACHED and (x[..., 1:] >= x[..., :-1]).all():
            return x  # in a seventh of the time
        return np.maximum.accumulate(x, axis=-1)

    @staticmethod
    def descending(x: Any) -> Any:
        if x.shape[0] == 1 and x.shape[-1] > _CACHED and x.dtype == np.float64:
            return _descending_by_keys(x)
        order = np.argsort(-x, axis=-1)  # in a fifth of the time of a stable sort
        return NumPy.take(x, order), order

    @staticmethod
    def entrywise(f: Any, *arrays: Any) -> Any:
        shape = np.broadcast_shapes(*(v.shape for v in arrays))
        if math.prod(shape) <= _CACHED or (len(shape) == 2 and shape[0] > 1):
            return f(*arrays)
        out: list[Any] = []
        step = max(1, _CACHED * shape[1] // math.prod(shape))
        for i in range(0, shape[1], step):
            at = slice(None), slice(i, i + step)
            found = f(*(v if v.shape[1] == 1 else v[at] for v in arrays))
            pieces = found if isinstance(found, tuple) else (found,)
            out = out or [np.empty(shape, v.dtype) for v in pieces]
            for full, piece in zip(out, pieces, strict=True):
                full[at] = piece
        return tuple(out) if isinstance(found, tuple) else out[0]

    @staticmethod
    def recur(steps: Any, values: Any, back: bool) -> Any:
        out, size = values.copy(), 1
        for c, s in steps:
            if back:
                more, rest = c * out[..., size:], out[..., :-size]
            else:
                more, rest = c * out[..., :-size], out[..., size:]
            if s is not None:
                rest += s * more
            rest += more
            size *= 2
        return out

    blocks = staticmethod(numpy_blocks)

    @staticmethod
    def leading(x: Any, k: int) -> Any:
        return np.argsort(-x, axis=-1, kind="stable")[..., :k]

    @staticmethod
    def indices(n: int, like: Any) -> Any:
        return np.arange(n)

    @staticmethod
    def integers(values: Any, like: Any) -> Any:
        return np.asarray(values, np.int64)

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        return np.asarray(values, like.dtype)

    @staticmethod
    def asarray(value: Any, like: Any = None) -> Any:
        return np.asarray(value)

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else x.astype(dtype)

    @staticmethod
    def is_array(value: Any) -> bool:
        return isinstance(value, np.ndarray)

    @staticmethod
    def refuse(x: Any, name: str) -> None:
        core.check_unmasked(x, name)

    @staticmethod
    def is_floating(x: Any) -> bool:
        return bool(x.dtype.kind == "f")

    @staticmethod
    def is_real(x: Any) -> bool:
        return x.dtype.kind in "iuf"

    @staticmethod
    def to_numpy(x: Any) -> Any:
        return x

    @staticmethod
    def looks(x: Any, check: bool | None) -> bool:
        return True

    @staticmethod
    def detach(x: Any) -> Any:
        return x

    @staticmethod
    def largest(x: Any, k: int) -> Any:
        return np.partition(x, -k, axis=-1)[..., -k]

    @staticmethod
    def ordered(x: Any, place: Any) -> Any:
        index = x.shape[-1] - place[..., None].astype(int)
        return np.take_along_axis(np.sort(x, axis=-1), index, axis=-1)[..., 0]


ADAPTER = cast(Adapter, NumPy)  # a class, whose members the tests compare

_IN_TURN = 64
"""Up to so many values of one index are added one after the other."""

_CACHED = 1 << 13
"""The entries of a part of an array that stays in the cache."""


def _put(out: Any, index: Any, values: Any) -> Any:
    if out.ndim == 2:  # in half of put_along_axis's time
        out.reshape(-1)[_of_rows(index, out.shape[1])] = values
    else:
        np.put_along_axis(out, index, values, axis=-1)
    return out


def _descending_by_keys(x: Any) -> Any:
    """`descending` of a long row, by a sort: in a quarter of the time of an argsort.

    In the sort the last bits of each number hold its index.  Numbers that differ in
    these bits alone may be out of order: mostly a few neighbours, which are exchanged.
    """
    keys = -x
    np.minimum(keys, np.finfo(x.dtype).max, out=keys)  # an infinity would become NaN
    bits, last = keys.view(np.int64), (1 << x.shape[-1].bit_length()) - 1
    bits &= ~last
    bits |= np.arange(x.shape[-1])
    keys.sort(axis=-1)
    bits &= last
    ordered, order = NumPy.take(x, bits), bits
    wrong = np.flatnonzero(ordered[0, 1:] > ordered[0, :-1])
    if len(wrong):
        first = wrong[np.diff(wrong, prepend=-2) > 1]
        for v in (ordered[0], order[0]):
            v[first], v[first + 1] = v[first + 1], v[first]
        if (ordered[0, 1:] > ordered[0, :-1]).any():
            kind: Any = "stable" if 16 * len(wrong) < x.size else "quicksort"
            again = np.argsort(-ordered, axis=-1, kind=kind)  # quick if few are wrong
            ordered, order = NumPy.take(ordered, again), NumPy.take(order, again)
    return ordered, order


def _of_rows(index: Any, n: int) -> Any:
    """Indices into the rows of a matrix as indices into all of its entries."""
    return index if len(index) == 1 else index + n * np.arange(len(index))[:, None]
