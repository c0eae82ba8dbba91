"""Arguments as rows along the last axis, and results back in the caller's shape."""

from __future__ import annotations

import contextlib
import functools
import math
import reprlib
from typing import Any, NamedTuple

import numpy as np

from .._contract import Adapter, SelectMethod
from .budget import Budget
from .namespace import namespace, tally
from .numpy_rows import (
    NO_BUDGET,
    as_mask,
    as_real,
    broadcast_as,
    check_axis,
    check_budget,
    check_differences,
    check_empty,
    check_finite,
    check_kept,
    check_per,
    check_positive,
    check_temperature,
    check_unmasked,
    check_whole,
    common_batch,
    count_finite,
    is_large,
    is_number,
    no_entries,
    quiet,
    real_numbers,
    with_axes,
)

FAR_SHARE = 2.0**13
"""A score infinitely far from the threshold has a share of at most this times `tiny`.

`tiny` is the least normal number of the type.  The share need not be 0, because the
searches on NumPy clip exponents (`_CLIPPED_DISTANCE` in `_search/numpy_sums.py`).
"""


class Asked(NamedTuple):
    """What a call asks for, as the caller gave it.

    It is put together once, where the call enters, and handed on whole.  The fields are
    the arguments of `soft_topk`, and what an operator asks of its rows.

    Attributes
    ----------
    name : str
        What an error message calls the scores.
    integer_k : bool
        Whether the budget must be a whole number.
    needs_finite : bool
        Whether each row needs a finite entry.
    ordinal : bool
        Whether only the order of the scores counts, so that `Rows.key` may hold
        integers which floats may not hold.
    solver : bool
        Whether the solver finds the rows out of range that nobody looked at.
    """

    x: Any
    k: Any = NO_BUDGET
    curve: Any = None
    temperature: Any = 1.0
    axis: Any = -1
    where: Any = None
    cost: Any = None
    per: str = "entry"
    empty: str = "raise"
    check: bool | None = None
    name: str = "x"
    integer_k: bool = False
    needs_finite: bool = False
    ordinal: bool = False
    solver: bool = False


class Rows(NamedTuple):
    """Scores with the operator's axes flattened into the last one.

    Attributes
    ----------
    x : (..., n) array
        In the type used for computing; -inf where an entry takes no part.
    whole, part : (...) arrays
        The budget k as an integer and the remainder, k = whole + part.
    tau : () or (...) array
        The temperature.
    axes, sizes : tuples of int
        The axes, counted from the end, and their lengths.
    dtype : the type of the results
    name : what an error message calls the scores
    empty_rows : (...) array of bool, optional
        The rows that had no finite entry, where the caller asks for zeros there: here
        their scores are 0 and their budgets 1, which every operator takes, and `expand`
        makes their results 0.
    key : (..., n) array of int, optional
        The scores themselves, if they are integers of a type that the floats of x do
        not all hold; the least integer where an entry takes no part.
    in_range : (...) array of bool, optional
        False for a row that nobody looked at and that is out of range: here it holds
        values that every operator takes, and `expand` and `reduce` make its results
        NaN, and its gradients unless what comes in is 0.
    select_method : SelectMethod, optional
        What the member `select_method` of the adapter answered, for its `select`.
    """

    x: Any
    whole: Any
    part: Any
    tau: Any
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: Any
    name: str = "x"
    empty_rows: Any = None
    key: Any = None
    in_range: Any = None
    select_method: SelectMethod | None = None

    def shape(self) -> tuple[int, ...]:
        """Shape of a result with one entry per score."""
        return with_axes(tuple(self.x.shape[:-1]), self.axes, self.sizes)

    def batch(self) -> tuple[int, ...]:
        """Shape of a result with one entry per row."""
        return tuple(self.x.shape[:-1])

    def flatten(self, xp: Adapter, array: Any, name: str) -> Any:
        """Rows of an array of the shape of the scores, in their type."""
        rows = flat(xp, xp.astype(array, self.x.dtype), self.axes)
        return xp.broadcast_to(rows, self.x.shape)

    def column(self, xp: Adapter, values: Any) -> Any:
        """One number for each row."""
        return xp.broadcast_to(values, self.batch())

    def spoil(self, xp: Adapter, values: Any) -> Any:
        """Results of each row, with NaN for those of a row out of range."""
        if self.in_range is None:
            return values
        full = (..., *(None,) * (values.ndim - self.in_range.ndim))
        return xp.spoil(values, self.in_range[full], True)

    def spoilt(self) -> Rows:
        """The rows without `in_range`, for results that `spoil` has treated already.

        `reduce` and `expand` then leave these results as they are.
        """
        return self._replace(in_range=None)

    def with_in_range(self, xp: Adapter, in_range: Any) -> Rows:
        """The rows, whose field `in_range` is False where the argument is False, too.

        Where a look at values is cheap, as on the CPU, rows that are all in range stay
        as they are: under differentiation the mask would take as long as a small
        operator does.
        """
        if xp.looks(self.x, None) and bool(in_range.all()):
            return self
        return self._replace(
            in_range=in_range if self.in_range is None else in_range & self.in_range
        )

    def harmless(self, xp: Adapter, in_range: Any, tau_in_range: Any = None) -> Rows:
        """`with_in_range`, and rows out of range get values that every operator takes.

        Such a row gets the scores 0 and the budget 1.  Its temperature becomes 1 where
        `tau_in_range`, if given, is False.
        """
        found = self.with_in_range(xp, in_range)
        if found is self:
            return self
        tau = self.tau
        if tau_in_range is not None:
            other = xp.where(tau_in_range, xp.zeros_like(tau), 1)
            tau = xp.hold(tau, tau_in_range) + other
        in_range = found.in_range
        x = xp.hold(self.x, in_range[..., None])
        whole, part = xp.where(in_range, self.whole, 1), xp.hold(self.part, in_range)
        return found._replace(x=x, whole=whole, part=part, tau=tau)

    def expand(self, xp: Adapter, p: Any) -> Any:
        """Put (..., n) results into the shape of the scores."""
        p = self.spoil(xp, p)
        if self.empty_rows is not None:
            p = xp.where(self.empty_rows[..., None], 0, p)
        tail = tuple(range(-len(self.axes), 0))
        if len(tail) != 1:
            p = xp.reshape(p, (*p.shape[:-1], *self.sizes))
        if self.axes != tail:
            p = xp.moveaxis(p, tail, self.axes)
        return xp.astype(p, self.dtype)

    def repeated(self, times: int) -> Rows:
        """Rows that expand ``(times, ..., n)`` results, several for each row."""
        if self.in_range is None:
            return self
        return self._replace(in_range=self.in_range[None])

    def reduce(self, xp: Adapter, value: Any) -> Any:
        """Numbers for each row in the type of the results; their shape is right."""
        return xp.astype(self.spoil(xp, value), self.dtype)

    def total(self, xp: Adapter, value: Any, count: Any) -> Any:
        """The sum over the rows divided by a count, in the type of the results."""
        return xp.astype(xp.sum(value, axis=None) / count, self.dtype)


def flat(xp: Adapter, x: Any, axes: tuple[int, ...]) -> Any:
    """The given axes flattened into the last one; without axes, each entry is a row."""
    if axes == (-1,):
        return x
    tail = tuple(range(-len(axes), 0))
    if axes != tail:
        x = xp.moveaxis(x, axes, tail)
    if not axes:
        return x[..., None]
    if len(axes) > 1:
        n = math.prod(x.shape[-len(axes) :])  # not -1: the batch may be empty
        x = xp.reshape(x, (*x.shape[: -len(axes)], n))
    return x


def as_adapter_rows(
    xp: Adapter,
    asked: Asked,
    select_method: SelectMethod | None = None,
    split_budget: Any = None,
) -> Rows:
    """The arguments as rows, after a check of types and shapes but not of values.

    `select_method` says whether the budget and the temperature stay Python numbers, and
    whether scores of 16 bits keep their type.  By default it is what the adapter
    answers, or neither if the call has no curve.  `split_budget` is the function that
    splits the budget in two, by default `split`.

    If `asked.empty` is "zeros" or "all", `Rows.empty_rows` marks the rows without a
    finite entry.  This needs no check of values, and the derivatives of these rows are
    0.  By "all" a budget above the number of finite entries is lowered to that number;
    a call with costs, which passes `split_budget`, lowers it to the sum of the costs
    itself.

    Integers that floats may not hold are looked at if `asked.check` allows it.  They
    are an error if the conversion changes the gaps between them, unless only the order
    of the scores counts.
    """
    k, name, axis, where = asked.k, asked.name, asked.axis, asked.where
    check_per(asked.per)
    zeros = check_empty(asked.empty)
    given = x = scores(xp, asked.x, name)
    if select_method is None and asked.curve is not None:
        select_method = xp.select_method(x, asked.curve, asked.check)
    method = select_method or SelectMethod()
    numbers, raw = method.numbers, method.raw
    x, dtype = (x, x.dtype) if raw else xp.floating(x, name)
    key, least = (None if x is given else xp.integer_key(given, x.dtype)) or (None, 0)
    like = xp.in_working_type(x) if raw else x
    word = word_for(xp, "axis")
    axes = check_axis(axis, x.ndim, name, word)
    sizes = tuple([x.shape[i] for i in axes])
    if 0 in sizes:
        raise no_entries(name, tuple(x.shape), axis, word)
    if where is not None:
        if not xp.is_array(where):
            check_unmasked(where, "where")
        try:
            mask = xp.asarray(where, like=x)
        except (TypeError, ValueError, RuntimeError):
            as_mask(where)  # in NumPy's words, where it refuses it too
            raise
        mask = xp.replicate(mask, x, "where")
        if mask.dtype != xp.bool_:
            raise TypeError(f"where must be boolean, got dtype {mask.dtype}")
        mask = broadcast_as(xp, mask, tuple(x.shape), "where")
        x = xp.where(mask, x, -math.inf)
        key = None if key is None else xp.where(mask, key, least)
    shape = tuple(x.shape)
    x = flat(xp, x, axes)
    if key is not None:
        key = flat(xp, key, axes)
        if not asked.ordinal:
            if xp.looks(x, asked.check) and is_large(given := xp.to_numpy(x)):
                check_differences(xp.to_numpy(key), given, name)
            key = None
    nothing: Any = xp.all(x == -math.inf, axis=-1) if zeros else None
    if zeros:
        x = xp.where(nothing[..., None], 0, x)
    if numbers and not zeros and type(k) in (int, float) and abs(k) < 2**31:
        tau = xp.number(asked.temperature)
        learned = xp.is_array(tau) and not (tau.ndim or raw)
        if learned or _fits(xp, tau, like):
            tau = _temperature(xp, tau, like) if learned else tau
            found = x, k, 0.0, tau, axes, sizes, dtype, name
            return Rows(*found, key=key, select_method=select_method)
    batch = tuple(x.shape[:-1])
    whole, part = (split_budget or split)(xp, k, like)
    if whole.ndim:
        batch = common_batch(batch, tuple(whole.shape), "k", name, word, xp)
        check_kept(tuple(whole.shape), shape, axes, batch, name)
    tau = _temperature(xp, asked.temperature, like)
    if tau.ndim:
        tau = broadcast_as(xp, tau, batch, "temperature")
    if batch != tuple(x.shape[:-1]):
        full = (*batch, x.shape[-1])
        x = xp.broadcast_to(x, full)
        key = None if key is None else xp.broadcast_to(key, full)
        nothing = xp.broadcast_to(nothing, batch) if zeros else None
    whole, part = (xp.broadcast_to(v, batch) for v in (whole, part))
    if zeros:
        whole, part = xp.where(nothing, 1, whole), xp.where(nothing, 0, part)
    if asked.empty == "all" and split_budget is None:
        count = xp.sum(x > -math.inf, axis=-1)
        over = (xp.astype(whole, x.dtype) + xp.detach(part) > count) | (whole > count)
        over = over | ((whole == count) & (part > 0))
        whole, part = xp.where(over, count, whole), xp.where(over, 0, part)
    found = x, whole, part, tau, axes, sizes, dtype, name
    return Rows(*found, nothing, key, select_method=select_method)


def native(values: Any) -> Any:
    """An array of NumPy in the order of bytes that other libraries take."""
    if isinstance(values, np.ndarray) and not values.dtype.isnative:
        return values.astype(values.dtype.newbyteorder("="))
    return values


def scores(xp: Adapter, x: Any, name: str) -> Any:
    """The scores as an array of the library, or an error that names them."""
    if xp.is_array(x):
        xp.refuse(x, name)
        return x
    check_unmasked(x, name, ", and what takes part by `where`")
    x = native(x)
    try:
        with contextlib.suppress(TypeError, ValueError, RuntimeError):
            return xp.asarray(x)
    except OverflowError as error:
        words = f"{name} must hold integers that the library holds: {error}"
        raise ValueError(words) from None
    with contextlib.suppress(ValueError, RuntimeError):
        as_real(x, name)  # in NumPy's words, where it refuses them too
    raise TypeError(
        f"{name} must be one array of real numbers, got {type(x).__name__} "
        f"{reprlib.repr(x)}"
    )


def as_given(xp: Adapter, values: Any, x: Any, name: str) -> Any:
    """Another array of the library, beside the scores, or an error that names it."""
    try:
        return xp.asarray(native(values), like=x)
    except (TypeError, ValueError, RuntimeError):
        as_real(values, name)  # in NumPy's words, where it refuses them too
        raise


def word_for(xp: Adapter, name: str) -> str:
    """The library's own name of an argument, for error messages."""
    return xp.words.get(name, name)


def split(xp: Adapter, k: Any, x: Any) -> tuple[Any, Any]:
    """The budget as an integer and the remainder, each one number or one for each row.

    Rounding down has no derivative, so the derivative by k is that by the remainder.  A
    budget out of range becomes -1 plus a remainder with the same sum, which may be
    infinite or NaN.
    """
    k = xp.traced(k, x)
    if type(k) in (int, float):  # without NumPy, so that a compiler can trace it
        if type(k) is int and abs(k) > 2**1000:  # float() would overflow
            k = math.inf if k > 0 else -math.inf
        floor = math.floor(k) if abs(k) < 2**31 else -1
        return xp.integers(floor, x), xp.numbers(k - floor, x)
    if not xp.is_array(k):
        given = real_numbers(k, "k")
        floor = np.where(abs(given) < 2.0**31, np.floor(given), -1)
        return xp.integers(floor.astype(np.int64), x), xp.numbers(given - floor, x)
    k = real_array(xp, k, x, "k")
    if not xp.is_floating(k):
        return k, 0 * xp.astype(k, x.dtype)
    floor = xp.detach(xp.floor(k))
    floor = xp.where(abs(floor) < 2.0**31, floor, -1)
    return xp.integers(floor, x), xp.astype(k - floor, x.dtype)


def real_array(xp: Adapter, values: Any, x: Any, name: str) -> Any:
    """An array of real numbers, replicated on every device that holds scores."""
    xp.refuse(values, name)
    if not xp.is_real(values):
        real_numbers(xp.to_numpy(values), name)
    return xp.replicate(values, x, name)


def _temperature(xp: Adapter, temperature: Any, x: Any) -> Any:
    temperature = xp.traced(temperature, x)
    if xp.is_array(temperature):
        return xp.astype(real_array(xp, temperature, x, "temperature"), x.dtype)
    if _fits(xp, temperature, x):
        return xp.numbers(temperature, x)
    if is_number(temperature):
        value = np.asarray(check_temperature(temperature))
    else:
        value = real_numbers(temperature, "temperature")
    check_temperatures(value, x.dtype, float(xp.finfo(x.dtype).tiny))
    return xp.numbers(value, x)


def check_temperatures(values: Any, dtype: Any, tiny: float) -> None:
    """An error unless temperatures lie in the range of a type."""
    good = (values > 0) & (values < np.inf)
    for bad in values[~good].flat:
        check_temperature(bad)
    good = (values >= tiny) & (values <= 1 / tiny)
    for bad in values[~good].flat:
        kind = str(dtype).removeprefix("torch.")
        raise ValueError(f"temperature must lie in the range of {kind}, got {bad}")


def temperature_in_range(tau: Any) -> Any:
    """Whether temperatures are above 0 and in the range of their type.

    Quotients by a number outside of it, or by its reciprocal, have no digits.  NumPy's
    searches take any number above 0.
    """
    xp = namespace(tau)
    if xp is np:
        return (tau > 0) & (tau < math.inf)
    tiny = float(xp.finfo(tau.dtype).tiny)
    return (tau >= tiny) & (tau <= 1 / tiny)


def _fits(xp: Adapter, temperature: Any, x: Any) -> bool:
    """Whether a temperature is a number in the range of the scores' type."""
    if type(temperature) not in (int, float):
        return False
    if temperature == 1:
        return True
    tiny = float(xp.finfo(x.dtype).tiny)
    return tiny <= temperature <= 1 / tiny


def hold_rows_out_of_range(
    xp: Adapter, rows: Rows, limited: bool, asked: Asked
) -> Rows:
    """Rows that nobody looked at, `harmless` where they are out of range."""
    known = type(asked.temperature) in (int, float)  # so it has been looked at
    top = xp.peak(rows.x)
    in_range = abs(top) < math.inf if asked.needs_finite else top < math.inf
    tau_in_range = None if known else temperature_in_range(rows.tau)
    in_range = in_range if known else in_range & tau_in_range
    if limited:
        k = budget(rows.x, rows.whole, rows.part)
        in_range = in_range & (k.whole >= 0) & (k.rest() >= 0) & (k.part >= 0)
        in_range = in_range & (k.part == 0) if asked.integer_k else in_range
    return rows.harmless(xp, in_range, tau_in_range)


def check_values(
    xp: Adapter,
    x: Any,
    given: tuple[Any, Any] | None,
    tau: Any,
    name: str = "x",
    *,
    needs_finite: bool = False,
    integer_k: bool = False,
    look_for_regular: bool = True,
) -> bool:
    """Raise NumPy's errors for values out of range; say whether all rows are regular.

    The budget is the sum of the two parts given, if any.  If `needs_finite`, rows
    without a budget must have a finite entry; if `integer_k`, budgets must be whole
    numbers.  A row is *regular* if it has no entry of -inf, its budget selects neither
    nothing nor all entries, and its scores are not so many temperatures apart that
    their distance may overflow.  Without `look_for_regular` the answer tells nothing,
    and a temperature that has been checked may be None.
    """
    if 0 in x.shape:
        return False
    how = needs_finite, integer_k, look_for_regular
    facts = functools.partial(_in_range_and_regular, *how)
    in_range, regular = xp.program(facts, x, given, tau)
    if not bool(in_range):
        k = None if given is None else _budget_numbers(xp, *given)
        if tau is not None:
            tiny = float(xp.finfo(tau.dtype).tiny)
            check_temperatures(xp.to_numpy(tau), tau.dtype, tiny)
        _raise(xp.to_numpy(x), k, name, needs_finite, integer_k)
    return bool(regular)


def _in_range_and_regular(
    needs_finite: bool,
    integer_k: bool,
    look_for_regular: bool,
    xp: Adapter,
    x: Any,
    given: Any,
    tau: Any,
) -> tuple[Any, Any]:
    """Whether all values are in range, and whether then all rows are regular."""
    # Not from the extremes, because XLA's reductions of a long row ignore NaN.
    in_range = regular = xp.all(x < math.inf, axis=None)
    if tau is not None:
        in_range = in_range & xp.all(temperature_in_range(tau), axis=None)
    if look_for_regular:
        limit = float(xp.finfo(x.dtype).max) ** 0.5
        regular = xp.all((xp.max(x) - xp.min(x)) / tau < limit, axis=None)
    if given is not None:
        k = budget(x, *given)
        fits = (k.whole >= 0) & (k.rest() >= 0) & (k.part >= 0)
        in_range = in_range & xp.all(fits, axis=None)
        in_range = in_range & xp.all(k.part == 0, axis=None) if integer_k else in_range
        if look_for_regular:
            regular = regular & xp.all((k.without(0) > 0) & (k.rest() > 0), axis=None)
    if needs_finite:
        in_range = in_range & xp.all(xp.max(x, axis=-1) > -math.inf, axis=None)
    return in_range, regular


def _budget_numbers(xp: Adapter, whole: Any, part: Any) -> Any:
    """A budget as float64 numbers, whole + part."""
    return xp.to_numpy(whole).astype(np.float64) + xp.to_numpy(part)


@quiet()
def _raise(x: Any, k: Any, name: str, needs_finite: bool, integer_k: bool) -> None:
    """Raise NumPy's error for these values, one of which is out of range."""
    count = count_finite(x.reshape(-1, x.shape[-1]), name)
    if needs_finite:
        check_finite(count, name)
    if k is not None:
        k = np.broadcast_to(k, x.shape[:-1]).reshape(-1)
        if integer_k:
            check_whole(k)
        check_budget(k, count, name)


def checked(
    xp: Adapter,
    x: Any,
    k: Any,
    temperature: Any,
    axis: Any,
    where: Any,
    check: bool | None,
    name: str = "x",
    **more: Any,
) -> Any:
    """The arguments as rows, whose values are checked if they may be looked at.

    The others that `Asked` has may be named.
    """
    given: dict[str, Any] = {"axis": axis, "where": where, "check": check, "name": name}
    return checked_asked(xp, Asked(x, k, None, temperature, **given, **more))


def checked_asked(xp: Adapter, asked: Asked) -> Any:
    """The rows of a call without a curve, checked like those of `checked`."""
    if xp.own_rows:
        return xp.rows(asked)
    none = isinstance(asked.k, type(NO_BUDGET))
    rows = as_adapter_rows(xp, asked._replace(k=1) if none else asked)
    if xp.looks(rows.x, asked.check):
        given = None if none else (rows.whole, rows.part)
        known = type(asked.temperature) in (int, float)  # so it has been looked at
        at = xp.detach(rows.x), given, None if known else rows.tau, asked.name
        how: dict[str, Any] = {"needs_finite": asked.needs_finite}
        how["integer_k"] = asked.integer_k
        check_values(xp, *at, **how, look_for_regular=False)
        return rows
    skipped = asked.ordinal or asked.solver
    return rows if skipped else hold_rows_out_of_range(xp, rows, not none, asked)


def finite_rows(xp: Adapter, x: Any, *given: Any, empty: str = "raise") -> Any:
    """Rows without a budget, with at least one finite entry each."""
    return checked(xp, x, NO_BUDGET, *given, needs_finite=True, empty=empty)


def truncated_rows(
    xp: Adapter, x: Any, k: Any, *given: Any, empty: str = "raise"
) -> Any:
    """Rows with a whole budget of at least 1 each; the last of `given` is `check`."""
    rows = checked(xp, x, k, *given, integer_k=True, empty=empty)
    if not xp.looks(rows.x, given[-1]):
        return rows.harmless(xp, rows.whole > 0)
    if not bool((rows.whole > 0).all()):
        check_positive(xp.to_numpy(rows.whole))
    return rows


def budget(x: Any, whole: Any, part: Any) -> Budget:
    """The budget of rows, with their entries above -inf counted exactly."""
    return Budget(whole, part, tally(x > -math.inf, x))
