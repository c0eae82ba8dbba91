"""The adapter of NumPy: its rows, the quick solver, and what `linearize` needs.

NumPy records no derivatives.  So the adapter of one call of an operator is a `Call`,
which keeps the rows, the solution and the slopes that the operator attaches to its
result; `linearize` builds the derivative from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._linearize import Differentiable, Linearization
from .._rows import numpy_rows as core
from .._rows.adapter_rows import Asked
from .._rows.numpy_rows import NO_BUDGET, Array, of_part, real_numbers, temperatures_of
from .._rules.sorting_rule import SortedRows
from .._search import costs_search
from .._search.numpy_balance import on_matrix
from .._search.numpy_search import solve
from .._search.numpy_simplex import entmax_shares, log_shares
from .._search.numpy_subset import numpy_partition
from ..curves import CLIP, EXP, Curve, Entmax
from .numpy_derivatives import CostPoint, Point
from .numpy_functions import ADAPTER, NumPy

ONE = np.int64(1)
"""The budget 1 of a distribution (entmax), which has a search of its own."""


class CallRows(NamedTuple):
    """Checked scores as the rows ``(R, n)`` that the operators ask for.

    Attributes
    ----------
    given : `NumPyRows`
    x : (R, n) array
        The scores in the type used for computing.
    whole : (R,) array, or `ONE` for rows without a budget
        The budget.  Other libraries keep its integer part here and the rest in `part`.
    tau : float64
    scale : float
        The power of 2 by which the scores and the temperature were multiplied.
    """

    given: core.NumPyRows
    x: Array
    whole: Any
    tau: Any
    scale: float
    part: Any = np.float64(0)

    def batch(self) -> tuple[int, ...]:
        """Shape of a result with one entry per row."""
        return self.given.batch

    def shape(self) -> tuple[int, ...]:
        """Shape of a result with one entry per score."""
        return self.given.shape

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes, counted from the end."""
        return self.given.axes

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(self.given.shape[axis] for axis in self.given.axes)

    @property
    def dtype(self) -> Any:
        """The type of the results."""
        return self.given.x.dtype

    @property
    def key(self) -> Any:
        """The scores as integers, where floats do not hold them and order counts."""
        return self.given.key

    def flatten(self, xp: Any, array: Any, name: str) -> Array:
        """Rows of an array of the shape of the scores."""
        return self.given.flatten(array, name)

    def column(self, xp: Any, values: Any) -> Array:
        """One number for each row."""
        return np.broadcast_to(values, self.given.batch).reshape(-1)

    def spoil(self, xp: Any, values: Any) -> Any:
        """The values: those of all rows have been checked."""
        return values

    def spoilt(self) -> CallRows:
        """The rows."""
        return self

    def expand(self, xp: Any, p: Array) -> Array:
        """Rows in the shape of the scores."""
        return self.given.expand(p.astype(self.given.x.dtype, copy=False))

    def repeated(self, times: int) -> CallRows:
        """Rows that expand ``(times, R, n)`` results, several for each row."""
        given = self.given
        shape, batch = (times, *given.shape), (times, *given.batch)
        return self._replace(given=given._replace(shape=shape, batch=batch))

    def reduce(self, xp: Any, value: Array) -> Any:
        """Numbers a row in the shape of the scores without the axes."""
        value = value / self.scale
        return self.given.reduce(value.astype(self.given.x.dtype, copy=False))

    def total(self, xp: Any, value: Array, count: Any) -> Any:
        """The sum over the rows divided by a count, which the call keeps."""
        xp.count = float(count)
        return (value.sum() / (count * self.scale)).astype(self.given.x.dtype)


class Call(NumPy):
    """The adapter of one call, with what `linearize` needs of it.

    Parameters
    ----------
    precise : bool
        Whether to compute in double precision whatever the type of the scores.  The
        losses do, so that they have all digits that their scores determine.
    scaled : bool
        Whether to multiply scores near the end of the range by a power of 2, so that
        sums of them stay in the range.
    """

    def __init__(self, precise: bool = False, scaled: bool = False) -> None:
        self._precise, self._scaled = precise, scaled
        self.given: core.NumPyRows  # what the derivative maps from and to
        self.point: Point
        self.solved: Point | CostPoint  # of a call that may have costs
        self.nested: Array  # the shares of each row at ascending budgets
        self.sorted: SortedRows | None = None  # with all thresholds
        self.balanced: list[tuple[Any, ...]]  # a matrix's arguments of `balance_slopes`
        self.tau: float | Array  # of all rows, or (R,) of them
        self.count: float | None = None  # what a sum over the rows is divided by
        self._cost_shape: tuple[int, ...]
        self._rows: CallRows
        self._by: dict[str, tuple[Any, Callable[[], Array]]]

    def run(self, operator: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The value of an operator over this adapter."""
        return operator(self, *args, **options)

    def rows(self, asked: Asked) -> CallRows:
        """The arguments as rows, with their values checked."""
        core.check_per(asked.per)
        given = core.as_numpy_rows(
            asked.x,
            asked.k,
            axis=asked.axis,
            where=asked.where,
            integer_k=asked.integer_k,
            name=asked.name,
            empty=asked.empty,
            ordinal=asked.ordinal,
        )
        if asked.needs_finite:
            core.check_finite(given.finite_count, asked.name)
        self.given, scores, c = given, given.x, 1.0
        self.tau = temperatures_of(given, asked.temperature)
        if self._precise:
            scores = scores.astype(np.float64, copy=False)
        if self._scaled:
            peak = float(np.abs(scores).max(where=scores > -np.inf, initial=0))
            if max(peak, np.max(self.tau, initial=0)) > 2.0**900:
                c = 2.0**-200
                tau = np.maximum(c * self.tau, 5e-324)
                scores, self.tau = c * scores, tau if tau.ndim else float(tau)
        budget = ONE if asked.k is NO_BUDGET else given.k
        self._rows = CallRows(given, scores, budget, np.float64(self.tau), c)
        return self._rows

    def cost_rows(self, asked: Asked) -> tuple[CallRows, Array]:
        """The arguments with costs as rows in double precision, checked."""
        core.check_per(asked.per)
        given = core.as_numpy_rows(
            asked.x, axis=asked.axis, where=asked.where, empty=asked.empty
        )
        given, budget = given.repeat(real_numbers(asked.k, "k"), "k")
        self.tau = temperatures_of(given, asked.temperature)
        cost = real_numbers(asked.cost, "cost")
        c = given.flatten(cost, "cost")
        if given.empty_rows is not None:
            budget = np.where(given.empty_rows, 1, budget)
            c = np.where(given.empty_rows[:, None], 1, c)
        scores = given.x.astype(np.float64, copy=False)
        if asked.empty == "all":
            most = np.where(scores > -np.inf, c, 0).sum(axis=-1)
            over, budget = budget > most, np.minimum(budget, most)
        eps = float(np.finfo(given.x.dtype).eps)
        # A caller who wants all entries passes the sum of the costs as k.  Summed in
        # the type of the scores, it may exceed the exact sum by its rounding error:
        # `check_costs` accepts that, and the budget is lowered to the exact sum.
        exact = core.check_costs(scores, c, budget, eps, "x")
        budget = np.minimum(budget, exact)
        if asked.empty == "all":
            budget = np.where(over, exact, budget)
        c = np.where(scores > -np.inf, c, 1)
        self.given, self._cost_shape = given._replace(k=budget), cost.shape
        self._rows = CallRows(self.given, scores, budget, np.float64(self.tau), 1.0)
        return self._rows, c

    def spend(
        self, options: Any, x: Array, whole: Any, part: Any, c: Array, tau: Any
    ) -> tuple[Array, Array, Array]:
        """Shares, anchors and offsets of rows with costs, by sums over the rows."""
        p, a, t = costs_search.spent(options, x, whole, part, c, tau)
        point = x, c, a, t, tau
        self.solved = CostPoint(options, self.given, point, self._cost_shape)
        return p, a, t

    def select(self, curve: Curve, asked: CallRows, *_: Any) -> tuple[Array, ...]:
        """Shares, anchors and offsets of rows, or of each at ascending budgets."""
        given, x, whole, tau = self.given, asked.x, asked.whole, self.tau
        if whole is ONE:
            return self._on_simplex(curve, x)
        if x.ndim == 2:
            rows = given._replace(x=x, k=whole)
        else:
            flat = x.reshape(-1, x.shape[-1])
            count = np.repeat(given.finite_count, x.shape[1])
            k = whole.reshape(-1) + 0.0
            rows = given._replace(x=flat, k=k, finite_count=count)
            if isinstance(tau, np.ndarray):
                tau = np.repeat(tau, x.shape[1])
        found = solve(curve, rows, tau)
        self.point = self.solved = Point(curve, rows, found, tau)
        p, batch = found.p.reshape(x.shape), x.shape[:-1]
        if p.ndim == 3:  # shares must grow with the budget; rounding may prevent it
            p = self.nested = np.maximum.accumulate(p, axis=1)
        return p, found.anchor.reshape(batch), found.offset.reshape(batch)

    def arrange(
        self, what: str, curve: Curve, x: Array, tau: Any, check: bool | None
    ) -> Array:
        """Sorts or ranks, in double precision."""
        self.sorted = SortedRows(ADAPTER, curve, x.astype(np.float64, copy=False), tau)
        return getattr(self.sorted, what)()

    def _on_simplex(self, curve: Curve, x: Array) -> tuple[Array, ...]:
        """The same for the budget 1 and entmax at temperature 1.

        The anchor is the largest score.  The offset is -f^-1(m), with m the largest
        share.
        """
        top = x.max(axis=-1)
        if curve is EXP:
            log_p, total = log_shares(x, 1.0)
            return np.exp(log_p), top, total
        b = curve.b if isinstance(curve, Entmax) else 1.0
        p, m = entmax_shares(x, b)
        first = m if curve is CLIP else np.expm1(b * np.log(m)) / b
        return p, top, -first

    def balance(self, options: Any, x: Array, k: Array, c: Array, tau: Any) -> Array:
        """Shares with both budgets, a matrix at a time."""
        p, self.balanced = np.empty(x.shape), []
        for i, given in enumerate(zip(x, k, c, strict=True)):
            own_tau = float(of_part(self.tau, i))
            problem, at = on_matrix(options, *given, own_tau)
            p[i] = at.p + problem.known
            self.balanced.append((options.curve, problem.x, at, own_tau))
        return p

    def partition(self, rows: CallRows) -> tuple[Array, Array]:
        """`log_partition` of rows, and its derivative by the scores."""
        x, finite_count = rows.x, (rows.x > -np.inf).sum(axis=-1)
        given = rows.given._replace(x=x, k=rows.whole, finite_count=finite_count)
        return numpy_partition(given, self.tau)

    def attach(self, value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        """The value; the slopes `by` are kept for `derivative`."""
        self._by = by
        return value

    def derivative(self, value: Any) -> Linearization:
        """The derivative of an operator, from the slopes it attached to its result."""
        by = self._by
        slope = by["x"][1]().astype(self.given.x.dtype, copy=False)
        dk = self._rows.reduce(self, by["k"][1]()) if "k" in by else None
        found = Linearization.gradient(value, self.given, slope, dk)
        return found if self.count is None else found.total(value, self.count)


def differentiable(
    operator: Callable[..., Any], *args: Any, scaled: bool = False, **options: Any
) -> Differentiable[Any]:
    """The value of an operator that attaches its slopes, and its derivative."""
    call = Call(precise=True, scaled=scaled)
    value = call.run(operator, *args, **options)
    return value, lambda: call.derivative(value)
