r"""Checks of the arguments that every operator shares, and the rows it works on.

An operator of this package maps each *row* of scores, a vector :math:`x\in
\mathbb{R}^n` with a budget :math:`k`, to a vector or to a number.  An array of any
shape holds one row along `axis` for every index of its other axes.  Here such an
array becomes a C-contiguous matrix of shape ``(R, n)``, and results go back into the
shape that the caller expects.

An entry that `where` leaves out is the score :math:`-\infty`: it gets no mass, and a
row with it has the same solution as the row without it.
"""

from __future__ import annotations

import math
import reprlib
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[Any]]

LINE = 320
"""The most products to sum in one go."""

WHOLE = 10000
"""The same where rounding does not matter."""

_NO_BUDGET: Any = object()  # None would hide a budget that its caller forgot


class Rows(NamedTuple):
    """Checked scores as rows, with what it takes to go back to the caller's shape.

    Attributes
    ----------
    x : (R, n) array, float32 or float64, read-only
        The scores, -inf where `where` leaves an entry out.
    k : (R,) float64 array
        The budget of each row; empty when the operator has none.
    finite : (R,) int array
        The finite entries of each row.
    shape : tuple of int
        Shape of a result with one entry per score.
    axis : int
        The operator's axis, counted from the end (negative).
    input_shape : tuple of int
        Shape of the scores as given; differs from `shape` if `k` has more axes.
    """

    x: Array
    k: Array
    finite: Array
    shape: tuple[int, ...]
    axis: int
    input_shape: tuple[int, ...]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of a result with one entry per row."""
        return _without(self.shape, self.axis)

    def expand(self, rows: Array) -> Array:
        """Put ``(R, n)`` rows into the shape of the scores."""
        if self.axis == -1:
            return rows.reshape(self.shape)
        out = rows.reshape(*self.batch_shape, rows.shape[-1])
        return np.moveaxis(out, -1, self.axis)

    def reduce(self, column: Array) -> Any:
        """Put ``(R,)`` numbers into the shape of the scores without the axis."""
        return column.reshape(self.batch_shape)[()]

    def gather(self, array: ArrayLike, name: str) -> Array:
        """Rows ``(R, n)`` of an array that has, or broadcasts to, `shape`."""
        values = _broadcast(as_real(array, name), self.shape, name)
        if self.axis != -1:
            values = np.moveaxis(values, self.axis, -1)
        values = values.reshape(self.x.shape)
        return values.astype(self.x.dtype, copy=False)

    def gather_reduced(self, array: ArrayLike, name: str) -> Array:
        """One number for each row of an array that broadcasts to `batch_shape`."""
        values = _broadcast(as_real(array, name), self.batch_shape, name)
        return values.reshape(self.x.shape[:1]).astype(self.x.dtype, copy=False)


def as_real(array: ArrayLike, name: str) -> Array:
    """A real array as float32 or float64, copied only if its type must change.

    float32 and float64 stay; float16 becomes float32; integers and booleans become
    float64.

    Raises
    ------
    TypeError
        If the values are not real numbers of at most 64 bits.
    """
    values = np.asarray(array)
    if values is not array and hasattr(array, "mask") and hasattr(array, "filled"):
        raise TypeError(
            f"{name} must not be a masked array, whose mask would be lost: give its "
            "data, and what takes part by `where`"
        )
    if values.dtype == np.float64 or values.dtype == np.float32:
        return values
    if values.dtype.kind == "f" and values.dtype.itemsize <= 4:
        return values.astype(np.float32)  # half precision, or another byte order
    if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8:
        return values.astype(np.float64)
    raise TypeError(
        f"{name} must hold real numbers of at most 64 bits, got dtype {values.dtype}"
    )


def as_rows(
    x: ArrayLike,
    k: ArrayLike = _NO_BUDGET,
    *,
    axis: int = -1,
    where: ArrayLike | None = None,
    integer_k: bool = False,
    name: str = "x",
) -> Rows:
    """Check scores, budget, axis and mask, and lay the scores out as rows.

    Parameters
    ----------
    x : array_like
        Scores; finite or -inf.  NaN is allowed only where `where` is False.
    k : array_like, optional
        Budget, 0 <= k <= the number of finite entries of its row.  It broadcasts
        against `x` without `axis`; axes that only `k` has come first in the result.
    axis : int
        The axis along which the operator works.
    where : array_like of bool, optional
        Entries that take part; broadcasts against `x`.
    integer_k : bool
        Whether the budget must be a whole number.
    name : str
        What an error message calls `x`.

    Raises
    ------
    TypeError
        If `x` or `k` is not real, `where` not boolean, or `axis` not an integer.
    ValueError
        If `axis` is out of range or empty, `x` holds NaN or +inf, `k` is out of
        range, or shapes do not broadcast.  The message names the argument.
    """
    scores = as_real(x, name)
    axis = _check_axis(axis, scores.ndim, name)
    if scores.shape[axis] == 0:
        raise ValueError(
            f"{name} must have at least one entry along axis {axis}, "
            f"got shape {scores.shape}"
        )
    input_shape = scores.shape
    if where is not None:
        mask = np.asarray(where)
        if mask.dtype != np.bool_:
            raise TypeError(f"where must be boolean, got dtype {mask.dtype}")
        mask = _broadcast(mask, input_shape, "where")
        scores = np.where(mask, scores, scores.dtype.type(-np.inf))
    if k is _NO_BUDGET:
        shape = input_shape
    else:
        budget, batch = _check_k(k, _without(input_shape, axis), integer_k, name)
        shape = _with(batch, axis, input_shape[axis])
        if shape != input_shape:
            scores = np.broadcast_to(scores, shape)
    if axis != -1:
        scores = np.moveaxis(scores, axis, -1)
    R, n = math.prod(scores.shape[:-1]), scores.shape[-1]
    rows = np.ascontiguousarray(scores).reshape(R, n)
    count = _count_finite(rows, name)
    if k is _NO_BUDGET:
        budget = np.empty(0)
    else:
        budget = budget.reshape(R)
        _check_budget(budget, count, name)
    rows = rows.view()
    rows.flags.writeable = False
    return Rows(rows, budget, count, shape, axis, input_shape)


def row_dot(a: Array, b: Array, most: int = LINE) -> Array:
    """The inner product of each pair of rows, ``(..., n) x (..., n) -> (...)``.

    Rows of more than `most` entries are cut in lines, whose sums are added in pairs.
    BLAS adds to 32 sums or fewer in turn, and n / 32 roundings all go the same way if
    entries repeat.  It also starts threads above `WHOLE`, at more cost than gain.
    """
    n = a.shape[-1]
    if n <= most:
        return a.dot(b) if a.ndim == 1 else np.vecdot(a, b)
    length = _line(n)
    full = n - n % length
    split = (*a.shape[:-1], full // length, length)
    lines = np.vecdot(a[..., :full].reshape(split), b[..., :full].reshape(split))
    head = np.add.reduce(lines, axis=-1)
    return head if full == n else head + np.vecdot(a[..., full:], b[..., full:])


@lru_cache(maxsize=256)
def _line(n: int) -> int:
    """The length of the lines of a row: it should divide n and have a rest of 32s.

    What BLAS leaves over of a line, up to 31 products, it adds one after the other.
    """
    return next((i for i in range(LINE, 127, -1) if n % i == 0 and i % 32 <= 8), 256)


def divide(values: Array, tau: float) -> Array:
    """values / tau in place, also where tau leaves the range of their type."""
    if tau == 1:
        return values
    info = np.finfo(values.dtype)
    wide = np.float64 if not info.tiny <= tau <= info.max else values.dtype
    return np.divide(values, tau, out=values, dtype=wide, casting="same_kind")


def check_temperature(temperature: float) -> float:
    """A temperature as a Python float.

    Raises
    ------
    TypeError, ValueError
        If it is not one finite number above 0.
    """
    value = np.asarray(temperature)
    if value.ndim or value.dtype.kind not in "iuf":
        raise TypeError(f"temperature must be one real number, got {temperature!r}")
    number = float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"temperature must be finite and above 0, got {number}")
    return number


def _check_axis(axis: int, ndim: int, name: str) -> int:
    """The axis counted from the end."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis must be an integer, got {axis!r}")
    if ndim == 0:
        raise ValueError(f"{name} must have at least one axis, got a scalar")
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"axis must lie in [{-ndim}, {ndim - 1}] for {name} with {ndim} axes, "
            f"got {axis}"
        )
    return int(axis) if axis < 0 else int(axis) - ndim


def _check_k(
    k: ArrayLike, batch: tuple[int, ...], integer_k: bool, name: str
) -> tuple[Array, tuple[int, ...]]:
    """The budget broadcast against the batch, and the batch that both span."""
    if type(k) is int and 0 <= k <= 1 << 53:  # most calls, quickly
        return _filled(batch, k, np.float64), batch
    budget = np.asarray(k)
    if budget.dtype.kind not in "iuf":
        raise TypeError(
            f"k must be a real number or an array of them, got {reprlib.repr(k)}"
        )
    budget = budget.astype(np.float64)
    if integer_k and np.any(budget != np.floor(budget)):
        bad = budget[budget != np.floor(budget)].flat[0]
        raise ValueError(f"k must be a whole number, got {bad}")
    if budget.ndim == 0:
        return _filled(batch, budget, np.float64), batch
    try:
        shape = np.broadcast_shapes(batch, budget.shape)
    except ValueError:
        raise ValueError(
            f"k must broadcast against {name} without its axis, shape {batch}, "
            f"got shape {budget.shape}"
        ) from None
    return np.broadcast_to(budget, shape), shape


def _check_budget(budget: Array, count: Array, name: str) -> None:
    if len(budget) == 1 and 0 <= budget[0] <= count[0]:  # quicker than arrays
        return
    fits = (budget >= 0) & (budget <= count)
    if np.count_nonzero(fits) < fits.size:
        i = int(fits.argmin())
        raise ValueError(
            f"k must lie in [0, {count[i]}], where {count[i]} is the number of finite "
            f"entries of {name} in the row, got {budget[i]}"
        )


def _count_finite(rows: Array, name: str) -> Array:
    """Finite entries of each row; an error unless the others are all -inf."""
    if _all_finite(rows.reshape(-1)):
        return _filled(rows.shape[:1], rows.shape[1], np.intp)
    finite = np.isfinite(rows)
    bad = ~finite & (rows != -np.inf)
    if bad.any():
        raise ValueError(
            f"{name} must be finite or -inf wherever it takes part, "
            f"got {float(rows[bad][0])}"
        )
    return finite.sum(axis=-1)


def _all_finite(values: Array) -> bool:
    """Whether a vector is finite; some of it at a time, without fresh memory."""
    mask = np.empty(1 << 16, bool)
    for i in range(0, values.size, mask.size):
        part = values[i : i + mask.size]
        finite = np.isfinite(part, out=mask[: part.size])
        if np.count_nonzero(finite) < part.size:  # quicker than all()
            return False
    return True


def _filled(shape: tuple[int, ...], value: Any, dtype: type) -> Array:
    """np.full, in a fraction of its time for a small array."""
    out: Array = np.empty(shape, dtype)
    out.fill(value)
    return out


def _broadcast(array: Array, shape: tuple[int, ...], name: str) -> Array:
    if array.shape == shape:
        return array
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to shape {shape}, got shape {array.shape}"
        ) from None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """A shape without its (negative) axis."""
    return shape[:axis] + shape[len(shape) + axis + 1 :]


def _with(batch: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    """The inverse of `_without`."""
    place = len(batch) + 1 + axis
    return (*batch[:place], n, *batch[place:])
