r"""Checks of the arguments that every operator shares, and the rows it works on.

An operator of this package maps each *row* of scores, a vector :math:`x\in
\mathbb{R}^n` with a budget :math:`k`, to a vector or to a number.  An array of any
shape holds one row along the operator's axes for every index of its other axes; the
entries of a row are in C order, those along the last axis next to each other, and the
order in which a tuple names the axes does not matter.  Here such an array becomes a
C-contiguous matrix of shape ``(R, n)``, and results go back into the shape that the
caller expects.

An entry that `where` leaves out is the score :math:`-\infty`: it gets no mass, and a
row with it has the same solution as the row without it.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[Any]]
Axis = int | tuple[int, ...] | None

LINE = 320
"""The most products that one call of BLAS sums."""

LINE_OF_COUNTS = 10000
"""The same for sums whose rounding does not matter, such as counts."""

# The difference of two numbers can overflow only if one of them is larger than this.
_OVERFLOW_ABOVE = {np.dtype(np.float64): 1e291, np.dtype(np.float32): 1e30}

# All integers up to this size are numbers of the type.
_EXACT_INTEGERS = {np.dtype(np.float64): 2.0**53, np.dtype(np.float32): 2.0**24}


class _NoBudget:
    """The type of NO_BUDGET: torch.compile can ask for it, whatever k is."""


NO_BUDGET: Any = _NoBudget()  # None would hide a budget that its caller forgot
_EMPTY_ARRAY = np.empty(0)
_NUMBERS = "a real number or an array of them"


def quiet() -> np.errstate:
    """The state in which NumPy calculates: underflow and overflow are foreseen.

    Without it, ``np.seterr(all="raise")`` would turn a share of 0 into an error.  It is
    entered where a call enters: in `_linearize.operator`, in the maps of a
    `Linearization`, where PyTorch or Dask hands scores to NumPy, and in the functions
    of the search over chunks.
    """
    return np.errstate(all="ignore")


class NumPyRows(NamedTuple):
    """Checked scores as rows, with all that is needed to restore the caller's shape.

    Attributes
    ----------
    x : (R, n) array, float32 or float64, read-only
        The scores, -inf where `where` leaves an entry out.
    k : (R,) float64 array
        The budget of each row; empty when the operator has none.
    finite_count : (R,) int array
        The number of finite entries of each row.
    shape : tuple of int
        Shape of a result with one entry per score.
    batch : tuple of int
        Shape of a result with one entry per row.
    axes : tuple of int
        The operator's axes, counted from the end (negative) and ascending.
    input_shape : tuple of int
        Shape of the scores as given; differs from `shape` if there are more budgets
        than rows were given.
    empty_rows : (R,) array of bool, optional
        The rows that had no finite entry, where the caller asks for zeros there: here
        their scores are 0 and their budgets 1, which every operator takes, and `expand`
        makes their results 0.
    key : (R, n) array of int, optional
        The scores themselves, where they are integers that floats do not all hold and
        only their order counts; the least integer where `where` leaves an entry out.
    """

    x: Array
    k: Array
    finite_count: Array
    shape: tuple[int, ...]
    batch: tuple[int, ...]
    axes: tuple[int, ...]
    input_shape: tuple[int, ...]
    empty_rows: Array | None = None
    key: Array | None = None

    def expand(self, rows: Array) -> Array:
        """Put ``(R, n)`` rows into the shape of the scores; a scalar for a scalar."""
        if self.empty_rows is not None:
            rows = np.where(self.empty_rows[:, None], rows.dtype.type(0), rows)
        if self.axes == (-1,):
            return rows.reshape(self.shape)
        if not self.axes:
            return rows.reshape(self.shape)[()]
        sizes = [self.shape[axis] for axis in self.axes]
        out = rows.reshape((*self.batch, *sizes))
        return np.moveaxis(out, range(-len(sizes), 0), self.axes)

    def reduce(self, column: Array) -> Any:
        """Put ``(R,)`` numbers into the shape of the scores without the axes."""
        return column.reshape(self.batch)[()]

    def flatten(self, array: ArrayLike, name: str) -> Array:
        """Rows ``(R, n)`` of an array that has, or broadcasts to, `shape`."""
        values = broadcast_as(np, as_real(array, name), self.shape, name)
        return _axes_last(values, self.axes).reshape(self.x.shape)

    def gather(self, array: ArrayLike, name: str) -> Array:
        """The same in the type of the scores."""
        return self.flatten(array, name).astype(self.x.dtype, copy=False)

    def gather_reduced(self, array: ArrayLike, name: str) -> Array:
        """One number for each row of an array that broadcasts to `batch`."""
        values = broadcast_as(np, as_real(array, name), self.batch, name)
        return values.reshape(self.x.shape[:1]).astype(self.x.dtype, copy=False)

    def repeat(
        self, values: Array, name: str, of: str = "x"
    ) -> tuple[NumPyRows, Array]:
        """The rows and a value for each, both repeated as their broadcast needs."""
        if values.ndim == 0:
            return self, _full(self.x.shape[:1], values, values.dtype)
        batch = common_batch(self.batch, values.shape, name, of)
        if name == "k":  # entmax's alpha may broadcast to every row at every alpha
            check_kept(values.shape, self.input_shape, self.axes, batch, of)
        column = np.broadcast_to(values, batch).reshape(-1)
        if batch == self.batch:
            return self, column
        n = self.x.shape[1]

        def repeated(rows: Array) -> Array:
            full = np.broadcast_to(rows.reshape(*self.batch, n), (*batch, n))
            return _read_only(full.reshape(-1, n))

        def of_each(numbers: Array) -> Array:
            return np.broadcast_to(numbers.reshape(self.batch), batch).reshape(-1)

        sizes, empty = [self.shape[axis] for axis in self.axes], self.empty_rows
        rows = self._replace(
            x=repeated(self.x),
            finite_count=of_each(self.finite_count),
            empty_rows=None if empty is None else of_each(empty),
            key=None if self.key is None else repeated(self.key),
            shape=with_axes(batch, self.axes, sizes),
            batch=batch,
        )
        return rows, column


def as_real(array: ArrayLike, name: str) -> Array:
    """A real array as float32 or float64, copied only if its type must change.

    float32 and float64 stay; float16 becomes float32; integers and booleans become
    float64.

    Raises
    ------
    TypeError
        If the values are not real numbers of at most 64 bits.
    """
    return _as_float(as_array(array, name), name)


def as_array(array: ArrayLike, name: str) -> Array:
    """The values, unless a mask would be lost."""
    more = ", and what takes part by `where`"
    return _one_array(array, name, "one array of real numbers", more)


def _one_array(given: Any, name: str, what: str, more: str = "") -> Array:
    """An array of NumPy, or an error if NumPy has none or a mask would be lost.

    It has none of rows of several lengths, and of tensors with gradients or on a GPU.
    """
    try:
        values = np.asarray(given)
    except (RuntimeError, TypeError, ValueError) as error:
        words = f"{name} must be {what}, got {reprlib.repr(given)}"
        if not isinstance(given, (list, tuple)):
            reason = str(error).partition("\n")[0]
            words += f", which NumPy cannot read: {reason}"
        raise TypeError(words) from error
    if values is not given:
        check_unmasked(given, name, more)
    return values


def check_unmasked(values: Any, name: str, more: str = "") -> None:
    """An error for a masked array, of NumPy or of another library."""
    if hasattr(values, "mask") and hasattr(values, "filled"):
        raise TypeError(
            f"{name} must not be a masked array, whose mask would be lost: give its "
            f"data{more}"
        )


def as_mask(where: ArrayLike) -> Array:
    """What takes part, as an array of booleans, or an error that names it."""
    mask = _one_array(where, "where", "one boolean array")
    if mask.dtype != np.bool_:
        raise TypeError(f"where must be boolean, got dtype {mask.dtype}")
    return mask


def _as_float(values: Array, name: str) -> Array:
    """`as_real` of an array of NumPy."""
    if values.dtype == np.float64 or values.dtype == np.float32:
        return values
    if values.dtype.kind == "f" and values.dtype.itemsize <= 4:
        return values.astype(np.float32)  # half precision, or another byte order
    if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8:
        return values.astype(np.float64)
    raise not_real(name, values.dtype)


def not_real(name: str, dtype: Any) -> TypeError:
    """The error for an array of another type than integers, floats and booleans."""
    words = f"{name} must hold real numbers of at most 64 bits, got dtype {dtype}"
    return TypeError(words)


def as_numpy_rows(
    x: ArrayLike,
    k: ArrayLike = NO_BUDGET,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    integer_k: bool = False,
    name: str = "x",
    empty: str = "raise",
    ordinal: bool = False,
) -> NumPyRows:
    """Check scores, budget, axis and mask, and lay the scores out as rows.

    Parameters
    ----------
    x : array_like
        Scores; finite or -inf.  NaN is allowed only where `where` is False.  A scalar
        is one row of one entry.
    k : array_like, optional
        Budget, 0 <= k <= the number of finite entries of its row.  It broadcasts
        against `x` without `axis`; axes that only `k` has come first in the result.
    axis : int, tuple of int, or None
        The axes that hold a row, all of them if None.
    where : array_like of bool, optional
        Entries that take part; broadcasts against `x`.
    integer_k : bool
        Whether the budget must be a whole number.
    name : str
        What an error message calls `x`.
    empty : "raise", "zeros" or "all"
        Whether a row without a finite entry is an error unless its budget is 0, or has
        the result 0 whatever its budget; by "all" a budget above the number of finite
        entries is that number.
    ordinal : bool
        Whether only the order of the scores counts.  Integers that floats do not hold
        are then kept as `NumPyRows.key`; otherwise they are an error if the conversion
        changes the gaps between them.

    Raises
    ------
    TypeError
        If `x` or `k` is not real, `where` not boolean, or `axis` of another type.
    ValueError
        If `axis` is out of range, empty or named twice, `x` holds NaN or +inf, `k` is
        out of range, or shapes do not broadcast.  The message names the argument.
    """
    zeros = check_empty(empty)
    values = as_array(x, name)
    scores = _as_float(values, name)
    in_64_bits = values.dtype.kind in "iu" and values.dtype.itemsize == 8
    key = values if in_64_bits and is_large(scores) else None
    shape = scores.shape
    axes = check_axis(axis, scores.ndim, name)
    batch, n = without_axes(shape, axes), math.prod([shape[axis] for axis in axes])
    if n == 0:
        raise no_entries(name, shape, axis)
    if where is not None:
        mask = broadcast_as(np, as_mask(where), shape, "where")
        scores = np.where(mask, scores, scores.dtype.type(-np.inf))
        if key is not None:
            key = np.where(mask, key, np.iinfo(key.dtype).min)
    flat = _read_only(_axes_last(scores, axes).reshape(math.prod(batch), n))
    count = count_finite(flat, name)
    if key is not None:
        key = _axes_last(key, axes).reshape(flat.shape)
        if not ordinal:
            check_differences(key, flat, name)
            key = None
    nothing = None
    if zeros and not count.all():
        nothing = count == 0
        flat = _read_only(np.where(nothing[:, None], flat.dtype.type(0), flat))
        count = np.where(nothing, n, count)
    rows = NumPyRows(flat, _EMPTY_ARRAY, count, shape, batch, axes, shape, nothing, key)
    if k is NO_BUDGET:
        return rows
    budget = real_numbers(k, "k")
    if integer_k and not zeros:
        check_whole(budget)
    rows, budget = rows.repeat(budget, "k", name)
    if rows.empty_rows is not None:
        budget = np.where(rows.empty_rows, 1, budget)
    if zeros and integer_k:
        check_whole(budget)
    if empty == "all":
        budget = np.minimum(budget, rows.finite_count)
    check_budget(budget, rows.finite_count, name)
    return NumPyRows(rows.x, budget, *rows[2:])


def is_large(scores: Array) -> bool:
    """Whether a score above -inf is as large as integers that its type may not hold."""
    flat, most = scores.reshape(-1), _EXACT_INTEGERS[scores.dtype]
    if flat.dot(flat) <= most * most:  # one sum, and quicker than any bound
        return False
    size = np.abs(flat)
    return bool((size[size < np.inf] >= most).any())


def check_differences(values: Array, scores: Array, name: str) -> None:
    """An error if integers, converted to these scores, have moved among each other.

    The gap between one integer of a row and the next is what decides the result of a
    soft operator.  It may change by a part in 1000.  Entries of -inf take no part.
    """
    on = scores > -np.inf
    least = np.where(on, values, np.iinfo(values.dtype).max).min(axis=-1, keepdims=True)
    given = np.sort(np.where(on, values, least), axis=-1)
    # Modulo 2^64, where the differences of ascending integers of 64 bits are exact.
    differences = np.diff(given.astype(np.uint64), axis=-1).astype(np.float64)
    found = np.diff(given.astype(scores.dtype).astype(np.float64), axis=-1)
    lost = abs(found - differences) > differences / 1000
    if lost.any():
        pair = [given[..., i:][..., : differences.shape[-1]][lost][0] for i in (0, 1)]
        raise ValueError(
            f"{name} must hold integers whose differences {scores.dtype} holds, "
            f"got {pair[0]} and {pair[1]}: subtract what all of them have in common"
        )


def plain_numpy_rows(x: Array, k: Array, finite_count: Array) -> NumPyRows:
    """Rows ``(R, n)`` that are the scores as they are, with values that are known."""
    return NumPyRows(x, k, finite_count, x.shape, x.shape[:1], (-1,), x.shape)


def finite_numpy_rows(
    x: ArrayLike, axis: Axis, where: ArrayLike | None, empty: str = "raise"
) -> NumPyRows:
    """Rows without a budget, with at least one finite entry each.

    Raises
    ------
    TypeError, ValueError
        As in `as_numpy_rows`, and if a row has no finite entry.
    """
    rows = as_numpy_rows(x, axis=axis, where=where, empty=empty)
    check_finite(rows.finite_count, "x")
    return rows


def kth_largest(x: Array, k: Array) -> Array:
    """The ceil(k)-th largest entry of each row, the largest where k = 0."""
    if not len(x):
        return x[:, 0]
    place = np.maximum(np.ceil(k), 1)
    return order_pair(x, place, np.empty_like(x), both=False)[0]


def order_pair(x: Array, k: Any, out: Array, both: bool = True) -> tuple[Any, Any]:
    """The K-th and J-th largest of each row, K = ceil(k) and J = floor(k) + 1.

    If k is whole, they are the k-th score and the next one; otherwise both are the
    ceil(k)-th score.  Unless `both` is true, the second may be -inf, and of integers 0.
    `out` is overwritten with the rows in another order.
    """
    n, first = x.shape[-1], k[0] if k.ndim else k
    K = math.ceil(first)
    if not k.ndim and k <= 1 and (k < 1 or not both):
        upper = np.maximum.reduce(x)
    else:
        out[...] = x
        if k.ndim and np.count_nonzero(k != first):
            out.sort(axis=-1)
            index = n - np.stack([np.ceil(k), np.floor(k) + 1], axis=-1).astype(int)
            pair = np.take_along_axis(out, index, axis=-1)
            return pair[..., 0], pair[..., 1]
        out.partition(n - K, axis=-1)
        upper = out[..., n - K].copy()[()]
    if first < K:
        return upper, upper
    if not both:  # upper may be infinite
        least = -np.inf if x.dtype.kind == "f" else 0
        return upper, _full(upper.shape, least, x.dtype)[()]
    return upper, np.maximum.reduce(out[..., : n - K], axis=-1)


def row_dot(a: Array, b: Array, most: int = LINE) -> Array:
    """The inner product of each pair of rows, ``(..., n) x (..., n) -> (...)``.

    Rows of more than `most` entries are cut into lines, whose sums are added pairwise.
    BLAS accumulates a row in at most 32 partial sums.  Each then has n / 32 rounding
    errors, all of the same sign if entries repeat.  Above `LINE_OF_COUNTS` entries BLAS
    also starts threads, which cost more than they save.
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


def row_sum(a: Array) -> Array:
    """The sum of each row; for short rows in half the time of np.add.reduce."""
    n = a.shape[-1]
    return np.add.reduce(a, axis=-1) if n > LINE else row_dot(a, np.ones(n, a.dtype))


@lru_cache(maxsize=256)
def _line(n: int) -> int:
    """The length of the lines of a row of n entries.

    It should divide n and be at most 8 above a multiple of 32, because BLAS adds the
    products beyond such a multiple one after the other.
    """
    return next((i for i in range(LINE, 127, -1) if n % i == 0 and i % 32 <= 8), 256)


def as_column(tau: Any) -> Any:
    """Numbers for each row, or one, in a shape that broadcasts over the entries."""
    return tau[..., None] if getattr(tau, "ndim", 0) else tau


def divide(values: Array, tau: float | Array) -> Array:
    """values / tau in place, also if tau is out of the range of their type."""
    if isinstance(tau, np.ndarray):
        least, most = tau.min(initial=1), tau.max(initial=1)
    elif tau == 1:
        return values
    else:
        least = most = tau
    info = np.finfo(values.dtype)
    dtype = np.float64 if not info.tiny <= least <= most <= info.max else values.dtype
    return np.divide(values, tau, out=values, dtype=dtype, casting="same_kind")


def numpy_distances(
    x: Array, a: Any, tau: float | Array, out: Array | None = None
) -> Array:
    """(x - a) / tau, also if x - a overflows; a and tau broadcast against x."""
    if not np.count_nonzero(abs(a) > _OVERFLOW_ABOVE[x.dtype]):
        return divide(np.subtract(x, a, out=out), tau)
    d = divide(np.subtract(0.5 * x, 0.5 * a, out=out), tau)
    return np.multiply(2, d, out=d)


def real_number(
    value: Any, name: str, *, least: float = -math.inf, above: float = -math.inf
) -> float:
    """One finite number within its bounds, as a Python float.

    Raises
    ------
    TypeError, ValueError
        If it is not; the message names the argument and what is allowed.
    """
    # The usual case does without NumPy, so that a compiler can trace it.
    given = value
    if type(value) not in (int, float):
        given = _one_array(value, name, "one real number")
    if type(given) is int and abs(given) > 2**1000:  # float() would overflow
        given = np.asarray(given)
    if isinstance(given, np.ndarray) and (given.ndim or given.dtype.kind not in "iuf"):
        raise TypeError(f"{name} must be one real number, got {reprlib.repr(value)}")
    number = float(given)
    if abs(number) < math.inf and number >= least and number > above:
        return number
    bound = f" and at least {least:g}" if least > -math.inf else ""
    bound += f" and above {above:g}" if above > -math.inf else ""
    raise ValueError(f"{name} must be finite{bound}, got {number}")


def real_numbers(values: ArrayLike, name: str) -> Array:
    """A number or an array of them as float64, whatever they are.

    Raises
    ------
    TypeError
        If they are not real.
    """
    given = _one_array(values, name, _NUMBERS)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be {_NUMBERS}, got {reprlib.repr(values)}")
    return given.astype(np.float64)


def check_temperature(temperature: float) -> float:
    """A temperature, finite and above 0, as a Python float."""
    return real_number(temperature, "temperature", above=0)


def positive_numbers(values: ArrayLike, name: str) -> Array:
    """Numbers as an array, an error unless all of them are finite and above 0."""
    given = real_numbers(values, name)
    for bad in given[~((given > 0) & (given < math.inf))]:
        real_number(bad, name, above=0)
    return given


def temperatures_of(rows: NumPyRows, temperature: ArrayLike) -> float | Array:
    """The temperature of all rows as a Python float, or (R,) temperatures.

    A number stays one: with it the searches are quicker than with an array.

    Raises
    ------
    TypeError, ValueError
        If they are not finite and above 0, or not one for each row.
    """
    if is_number(temperature):
        return check_temperature(temperature)  # type: ignore[arg-type]
    values = positive_numbers(temperature, "temperature")
    return broadcast_as(np, values, rows.batch, "temperature").reshape(-1)


def is_number(value: Any) -> bool:
    """Whether the value has no axes; rows of several lengths have some."""
    if type(value) in (int, float):
        return True
    return not isinstance(value, (list, tuple)) and np.ndim(value) == 0


def of_part(tau: float | Array, part: Any) -> Any:
    """The temperatures of some rows, or the number that all rows have."""
    return tau[part] if isinstance(tau, np.ndarray) else tau


def check_axis(axis: Axis, ndim: int, name: str, word: str = "axis") -> tuple[int, ...]:
    """The axes counted from the end, ascending; none for a scalar.

    An error message calls the argument by `word`.
    """
    if axis is None:
        return tuple(range(-ndim, 0))
    if type(axis) is int and -ndim <= axis < 0:  # most calls, quickly
        return (axis,)
    given = axis if isinstance(axis, tuple) else (axis,)
    most = max(ndim, 1)  # a scalar is an array of one entry
    axes = []
    for i in given:
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)):
            raise TypeError(
                f"{word} must be an integer, a tuple of integers or None, got {axis!r}"
            )
        if not -most <= i < most:
            raise ValueError(
                f"{word} must lie in [{-most}, {most - 1}] for {name} with {ndim} "
                f"axes, got {axis}"
            )
        axes.append(int(i) if i < 0 else int(i) - most)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{word} must not name an axis of {name} twice, got {axis}")
    return tuple(sorted(axes)) if ndim else ()


def no_entries(name: str, shape: Any, axis: Any, word: str = "axis") -> ValueError:
    """The error for rows of length 0."""
    words = (
        f"{name} must have at least one entry along {word} {axis}, got shape {shape}"
    )
    return ValueError(words)


def check_kept(
    shape: tuple[int, ...],
    of: tuple[int, ...],
    axes: tuple[int, ...],
    batch: tuple[int, ...],
    scores: str,
) -> None:
    """Raise an error if budgets of the rows have kept the reduced axes, with length 1.

    Broadcasting would repeat every row: ``(B, 1)`` against ``(B,)`` gives ``(B, B)``.
    `batch` is the broadcast shape.
    """
    rows = without_axes(of, axes)
    if len(shape) != len(of) or not axes or math.prod(batch) <= math.prod(rows):
        return
    kept = [1 if i in axes else size for i, size in enumerate(of, -len(of))]
    if all(m in (1, size) for m, size in zip(shape, kept, strict=True)):
        raise ValueError(
            f"k must have one number for each row of {scores}, shape {rows}, "
            f"without the axes of its entries, got shape {shape}"
        )


def check_whole(budget: Array) -> None:
    """An error unless each budget is a whole number."""
    off = budget != np.floor(budget)
    if np.any(off):
        raise ValueError(f"k must be a whole number, got {budget[off].flat[0]}")


def check_positive(budget: Array) -> None:
    """An error if a budget is 0."""
    if np.any(budget == 0):
        raise ValueError("k must be at least 1, got 0")


def check_ties(ties: str) -> bool:
    """Whether equal scores share; an error if `ties` is not a word that is known."""
    if ties not in ("share", "first"):
        raise ValueError(f"ties must be 'share' or 'first', got {ties!r}")
    return ties == "share"


def check_empty(empty: str) -> bool:
    """Whether rows without entries are 0; an error if `empty` is an unknown word."""
    if empty not in ("raise", "zeros", "all"):
        raise ValueError(f"empty must be 'raise', 'zeros' or 'all', got {empty!r}")
    return empty != "raise"


def common_batch(
    batch: Any, shape: Any, name: str, of: str, word: str = "axis", xp: Any = np
) -> tuple[int, ...]:
    """The shape in which rows and the numbers of an argument broadcast."""
    try:
        return tuple(xp.broadcast_shapes(batch, shape))
    except (ValueError, RuntimeError):
        raise ValueError(
            f"{name} must broadcast against {of} without its {word}, "
            f"shape {batch}, got shape {shape}"
        ) from None


def check_count(k: Any) -> int:
    """The number of entries to select, a Python integer: it is the length of a result.

    Raises
    ------
    TypeError, ValueError
        If it is none, or below 0.
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        shape = getattr(k, "shape", None)
        given = (
            reprlib.repr(k) if shape is None else f"an array of shape {tuple(shape)}"
        )
        raise TypeError(f"k must be one integer, got {given}")
    if k < 0:
        raise ValueError(f"k must be at least 0, got {k}")
    return int(k)


def check_integer(value: Any, name: str, kind: str) -> None:
    """An error, which says what kind it has to be, unless a value is an integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be {kind}, got {value!r}")


def check_width(width: Any, most: int) -> int:
    """The length of a result, an error unless it is an integer and at least `most`."""
    check_integer(width, "width", "one integer or None")
    if width < most:
        raise ValueError(f"width must be at least the largest k, {most}, got {width}")
    return int(width)


def check_finite(count: Array, name: str) -> None:
    """An error if a row has no finite entry."""
    if np.count_nonzero(count) < count.size:
        raise ValueError(f"{name} must have a finite entry in every row, got only -inf")


def check_budget(budget: Array, count: Array, name: str) -> None:
    """An error unless each budget is at most the number of finite entries."""
    if len(budget) == 1 and 0 <= budget[0] <= count[0]:  # quicker than arrays
        return
    in_range = (budget >= 0) & (budget <= count)
    if np.count_nonzero(in_range) < in_range.size:
        i = int(in_range.argmin())
        raise ValueError(
            f"k must lie in [0, {count[i]}], where {count[i]} is the number of finite "
            f"entries of {name} in the row, got {budget[i]}"
        )


def count_finite(rows: Array, name: str) -> Array:
    """Finite entries of each row; an error unless the others are all -inf."""
    if _all_finite(rows.reshape(-1)):
        return _full(rows.shape[:1], rows.shape[1], np.intp)
    finite = np.isfinite(rows)
    bad = ~finite & (rows != -np.inf)
    if bad.any():
        raise ValueError(
            f"{name} must be finite or -inf wherever it takes part, "
            f"got {float(rows[bad][0])}"
        )
    return finite.sum(axis=-1)


def _all_finite(values: Array) -> bool:
    """Whether a vector is finite, in parts that stay in the cache."""
    for i in range(0, values.size, LINE_OF_COUNTS):
        part = values[i : i + LINE_OF_COUNTS]
        # The sum of squares is one pass without a mask.  It may overflow.
        if not part.dot(part) < math.inf and not np.isfinite(part).all():
            return False
    return True


def _full(shape: tuple[int, ...], value: Any, dtype: Any) -> Array:
    """np.full, in a fraction of its time for a small array."""
    out: Array = np.empty(shape, dtype)
    out.fill(value)
    return out


def _read_only(rows: Array) -> Array:
    """A C-contiguous view, or a copy, that cannot be written to."""
    rows = np.ascontiguousarray(rows).view()
    rows.flags.writeable = False
    return rows


def broadcast_as(xp: Any, array: Any, shape: tuple[int, ...], name: str) -> Any:
    """The array of any library in a shape, or an error that names it."""
    if tuple(array.shape) == shape:
        return array
    try:
        return xp.broadcast_to(array, shape)
    except (ValueError, RuntimeError):
        raise ValueError(
            f"{name} must broadcast to shape {shape}, got shape {tuple(array.shape)}"
        ) from None


def _axes_last(array: Array, axes: tuple[int, ...]) -> Array:
    """A view with the (negative) axes at the end, in their order."""
    if axes == (-1,):
        return array
    return np.moveaxis(array, axes, range(-len(axes), 0))


def without_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its (negative) axes."""
    if axes == (-1,):
        return shape[:-1]
    return tuple(size for i, size in enumerate(shape, -len(shape)) if i not in axes)


def with_axes(
    batch: tuple[int, ...], axes: tuple[int, ...], sizes: Sequence[int]
) -> tuple[int, ...]:
    """The inverse of `without_axes`, for ascending axes of these sizes."""
    shape = list(batch)
    for axis, size in zip(axes, sizes, strict=True):
        shape.insert(len(batch) + len(axes) + axis, size)
    return tuple(shape)


def check_per(per: str) -> None:
    """Raise an error unless `per` is "entry" or "cost"."""
    if per not in ("entry", "cost"):
        raise ValueError(f"per must be 'entry' or 'cost', got {per!r}")


@quiet()
def check_costs(x: Any, c: Any, k: Any, eps: float, name: str) -> Any:
    """The sum of each row's costs; an error unless costs and budgets are in range."""
    count_finite(x, name)
    on = x > -math.inf
    bad = on & ~((c > 0) & (c < math.inf))
    if bad.any():
        raise ValueError(
            "cost must be finite and above 0 wherever an entry takes part, "
            f"got {float(c[bad][0])}"
        )
    tiny = float(np.finfo(c.dtype).tiny)
    bad = on & ~((c >= tiny) & (c <= 1 / tiny))
    if bad.any():
        raise ValueError(
            f"cost must lie in the range of {c.dtype} wherever an entry takes part, "
            f"got {float(c[bad][0])}"
        )
    sums = [math.fsum(row[used].tolist()) for row, used in zip(c, on, strict=True)]
    for budget, most, row in zip(k, sums, c, strict=True):
        if not 0 <= budget <= most * (1 + len(row) * eps):
            raise ValueError(
                f"k must lie in [0, {most}], where {most} is the sum of the costs of "
                f"the finite entries of {name} in the row, got {budget}"
            )
    return np.asarray(sums)
