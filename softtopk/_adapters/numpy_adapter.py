"""The adapter of NumPy: its functions, the quick solver, and what `linearize` needs.

NumPy records no derivatives.  So the adapter of one call of an operator is a `Call`,
which keeps the rows, the solution and the slopes that the operator attaches to its
result; `linearize` builds the derivative from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from .._contract import Adapter
from .._linearize import Differentiable, Linearization
from .._rows import numpy_rows as core
from .._rows.namespace import clip
from .._rows.numpy_rows import (
    NO_BUDGET,
    Array,
    check_temperature,
    distances,
    real_numbers,
)
from .._rules import costs_rule
from .._rules.sorting_rule import Order
from .._search.balance_search import on_matrix
from .._search.numpy_entmax import entmax_shares, log_shares
from .._search.numpy_search import Solution, solve
from .._search.numpy_subset import partition
from .._search.root import ends
from ..curves import CLIP, EXP, Curve, Entmax


class NumPy:
    """The members of the contract that the operators call on NumPy.

    It lacks those for the search over sums, the maps to the simplex and GradTopK, which
    have quicker implementations for NumPy.
    """

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
    def scatter(values: Any, index: Any, n: int) -> Any:
        if values is not None:
            values = np.broadcast_to(values, index.shape).reshape(-1)
        rows, places = len(index), _of_rows(index, n).reshape(-1)
        return np.bincount(places, values, rows * n).reshape(rows, n)

    @staticmethod
    def cumsum(x: Any) -> Any:
        return np.cumsum(x, axis=-1)

    @staticmethod
    def running_product(x: Any, back: bool) -> Any:
        if back:
            return np.multiply.accumulate(x[..., ::-1], axis=-1)[..., ::-1]
        return np.multiply.accumulate(x, axis=-1)

    @staticmethod
    def running_max(x: Any) -> Any:
        return np.maximum.accumulate(x, axis=-1)

    @staticmethod
    def descending(x: Any) -> Any:
        return np.argsort(-x, axis=-1)  # in a fifth of the time of a stable sort

    @staticmethod
    def parts(f: Any, arrays: Any) -> Any:
        shape = np.broadcast_shapes(*(v.shape for v in arrays))
        if math.prod(shape) <= _PART or (len(shape) == 2 and shape[0] > 1):
            return f(*arrays)
        out: list[Any] = []
        step = max(1, _PART * shape[1] // math.prod(shape))
        for i in range(0, shape[1], step):
            at = slice(None), slice(i, i + step)
            found = f(*(v if v.shape[1] == 1 else v[at] for v in arrays))
            found = found if isinstance(found, tuple) else (found,)
            out = out or [np.empty(shape, v.dtype) for v in found]
            for whole, part in zip(out, found, strict=True):
                whole[at] = part
        return tuple(out) if len(out) > 1 else out[0]

    @staticmethod
    def recur(decays: Any, values: Any, back: bool) -> Any:
        """The recurrence, point by point or over doubled distances."""
        if isinstance(decays, list):
            out, s = values.copy(), 1
            for decay in decays:
                if back:
                    out[..., :-s] += decay * out[..., s:]
                else:
                    out[..., s:] += decay * out[..., :-s]
                s *= 2
            return out
        last, (rows, many, _) = len(decays), values.shape
        out = np.empty((last + 1, rows, many), values.dtype)
        step = max(1, 4 * _PART // (rows * (last + 1)))
        for i in range(0, many, step):
            at = slice(None), slice(i, i + step)
            y, decay = out[:, *at], decays[:, *at]
            y[...] = np.moveaxis(values[at], -1, 0)
            for t in range(last):
                if back:
                    y[last - t - 1] += decay[last - t - 1] * y[last - t]
                else:
                    y[t + 1] += decay[t] * y[t]
        return out

    @staticmethod
    def folded(x: Any) -> Any:
        return np.array(np.moveaxis(x, -1, 0), order="C")

    @staticmethod
    def folded_carry(decays: Any, entry: Any, back: bool) -> Any:
        last = len(decays)
        out = np.empty((last + 1, *entry.shape), entry.dtype)
        out[last if back else 0] = entry
        for t in range(last):
            if back:
                i = last - t - 1
                np.multiply(out[i + 1], decays[i, :, :-1], out=out[i])
            else:
                np.multiply(out[t], decays[t, :, 1:], out=out[t + 1])
        return out

    @staticmethod
    def unfolded(values: Any, decays: Any, before: Any, back: bool) -> Any:
        block, rows, many = values.shape
        out = np.empty((rows, many, block), values.dtype)
        inner = values[..., :-1] if back else values[..., 1:]
        before = before[:, 1:] if back else before[:, :-1]
        step = max(1, 4 * _PART // (rows * block))
        for i in range(0, many, step):
            at = slice(None), slice(i, i + step)
            inner[:, *at] += decays[:, *at] * before[at]
        for i in range(
            0, many, step
        ):  # in parts, so that both layouts stay in the cache
            part = slice(i, i + step)
            out[:, part] = np.moveaxis(values[..., part], 0, -1)
        return out

    @staticmethod
    def accumulate(x: Any) -> Any:
        return np.cumsum(x, axis=-1)

    @staticmethod
    def leading(x: Any, k: int) -> Any:
        return np.argsort(-x, axis=-1, kind="stable")[..., :k]

    @staticmethod
    def places(n: int, like: Any) -> Any:
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

_PART = 1 << 13
"""The entries of a part of an array that stays in the cache."""


def _of_rows(index: Any, n: int) -> Any:
    """Indices into the rows of a matrix as indices into all of its entries."""
    return index if len(index) == 1 else index + n * np.arange(len(index))[:, None]


ONE = np.int64(1)
"""The budget 1 of a distribution (entmax), which has a search of its own."""


class Rows(NamedTuple):
    """Checked scores as the rows ``(R, n)`` that the operators ask for.

    Attributes
    ----------
    given : Rows of the core
    x : (R, n) array
        The scores in the type used for computing.
    whole : (R,) array, or `ONE` for rows without a budget
        The whole budget, including what other libraries keep in `part`.
    tau : float64
    scale : float
        The power of 2 by which the scores and the temperature were multiplied.
    """

    given: core.Rows
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

    def spoilt(self) -> Rows:
        """The rows."""
        return self

    def expand(self, xp: Any, p: Array) -> Array:
        """Rows in the shape of the scores."""
        return self.given.expand(p.astype(self.given.x.dtype, copy=False))

    def reduce(self, xp: Any, value: Array) -> Any:
        """Numbers a row in the shape of the scores without the axes."""
        value = value / self.scale
        return self.given.reduce(value.astype(self.given.x.dtype, copy=False))

    def total(self, xp: Any, value: Array, count: Any) -> Any:
        """The sum over the rows divided by a count, which the call keeps."""
        xp.count = float(count)
        return (value.sum() / (count * self.scale)).astype(self.given.x.dtype)


class Point(NamedTuple):
    """Rows with their solution, at which `soft_topk` is differentiated."""

    curve: Curve
    rows: core.Rows
    found: Solution
    tau: float

    def slopes(self) -> tuple[Array, Array]:
        """The slopes w = f' of every entry, and s = w / W, with W the sum of a row.

        Where the slopes underflow, s is computed from their logarithms.  If all slopes
        of a row are 0, so is s.
        """
        x, (_, anchor, offset) = self.rows.x, self.found
        # The anchor is a score or a midpoint, so this conversion does not round it.
        u = distances(x, anchor[:, None].astype(x.dtype), self.tau)
        u -= offset[:, None].astype(x.dtype)
        w = self.curve.slope(u)
        # So far away a share is 0 or 1, and constant as at an infinite distance.
        w[~(np.abs(u) < float(np.finfo(u.dtype).max) ** 0.5)] = 0
        W = w.sum(axis=-1)
        shares = w / np.where(W > 0, W, 1)[:, None]
        faint = W < np.sqrt(np.finfo(x.dtype).tiny)
        if faint.any():
            log = self.curve.log_slope(u[faint])
            top = log.max(axis=-1, keepdims=True)
            weight = np.where(top > -np.inf, np.exp(log - top), 0)
            total = weight.sum(axis=-1, keepdims=True)
            shares[faint] = weight / np.where(total > 0, total, 1)
        return w, shares

    def derivative(self, value: Array) -> Linearization:
        """That of the shares."""
        with np.errstate(all="ignore"):
            w, shares = self.slopes()
        rows, dk = self.rows, self.rows.expand(shares)
        return Linearization.symmetric(value, rows, w, self.tau, shares=shares, dk=dk)

    def of_threshold(self, value: Any) -> Linearization:
        """That of the thresholds."""
        rows, tau, dtype = self.rows, self.tau, self.rows.x.dtype
        with np.errstate(all="ignore"):
            w, shares = self.slopes()
            W = w.sum(axis=-1)
            still = (W == 0) & (ends(self.curve) | ~np.isfinite(self.found.offset))
            dk = np.where(still, 0, -tau / W).astype(dtype)
            if ends(self.curve):
                shares = self._of_middle(shares)
        return Linearization.gradient(value, rows, shares, dk=rows.reduce(dk))

    def _of_middle(self, shares: Array) -> Array:
        """The derivative of the threshold by the scores, from the normalised slopes.

        If all of these are 0, the threshold is the middle between the smallest score
        above it and the largest below, and the result is that middle's derivative.
        """
        flat = np.isfinite(self.found.offset) & ~shares.any(axis=-1)
        if flat.any():
            x, above = self.rows.x[flat], self.found.p[flat] > 0
            least = np.where(above, x, np.inf).min(axis=-1, keepdims=True)
            most = np.where(above, -np.inf, x).max(axis=-1, keepdims=True)
            beside = [(x == least) & above, (x == most) & ~above]
            shares[flat] = sum(0.5 * v / v.sum(axis=-1, keepdims=True) for v in beside)
        return shares


class SpentPoint(NamedTuple):
    """Rows whose budget has costs, at which `soft_topk` is differentiated.

    `at` holds the scores, costs, anchors, offsets and temperature of the rows in double
    precision, and `cost_shape` is the shape in which the caller gave the costs.
    """

    call: costs_rule.Call
    rows: core.Rows
    at: tuple[Any, ...]
    cost_shape: tuple[int, ...]

    def _push(self, dx: Any, dc: Any) -> Array:
        """The tangent of the shares."""
        none = 0 * self.at[2]  # of the budgets
        with np.errstate(all="ignore"):
            moved = costs_rule.push(self.call, self.at, dx, none, dc, np.float64(0))
        return self._cast(moved[0])

    def _pull(self, by_p: Any, by_t: Any) -> tuple[Array, Array]:
        """The gradients by the scores and by the costs."""
        with np.errstate(all="ignore"):
            gx, _, gc, _ = costs_rule.pull(self.call, self.at, by_p, by_t)
        return self._cast(gx), self._cast(gc)

    def _cast(self, values: Any) -> Array:
        cast: Array = values.astype(self.rows.x.dtype, copy=False)
        return cast

    def derivative(self, value: Array) -> Linearization:
        """That of the shares."""
        with np.errstate(all="ignore"):
            dk = costs_rule.slopes(self.call, self.at).by_k
        by_cost = Linearization(
            value,
            self.rows._replace(input_shape=self.cost_shape),
            lambda dc: self._push(0.0, dc),
            lambda g: self._pull(g, None)[1],
        )
        return Linearization(
            value,
            self.rows,
            lambda dx: self._push(dx, 0.0),
            lambda g: self._pull(g, None)[0],
            dk=self.rows.expand(self._cast(dk)),
            by_cost=by_cost,
        )

    def of_threshold(self, value: Any) -> Linearization:
        """That of the thresholds."""
        tau, rows = self.at[-1], self.rows
        with np.errstate(all="ignore"):
            dk = -tau * costs_rule.slopes(self.call, self.at).inverse
        by_x, by_c = self._pull(None, tau * np.ones(len(rows.x)))
        given = rows._replace(input_shape=self.cost_shape)
        by_cost = Linearization.gradient(value, given, by_c)
        dk = rows.reduce(self._cast(dk))
        return Linearization.gradient(value, rows, by_x, dk=dk, by_cost=by_cost)


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
        self.given: core.Rows  # what the derivative maps from and to
        self.point: Point
        self.solved: Point | SpentPoint  # of a call that may have costs
        self.nested: Array  # the shares of each row at ascending budgets
        self.order: Order | None = None  # of rows whose thresholds are all known
        self.balanced: list[tuple[Any, ...]]  # at what `slopes` of a matrix are
        self.tau: float
        self.count: float | None = None  # of rows whose numbers are added, over it
        self._cost_shape: tuple[int, ...]
        self._rows: Rows
        self._by: dict[str, tuple[Any, Callable[[], Array]]]

    def run(self, operator: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The value of an operator over this adapter."""
        with np.errstate(all="ignore"):
            return operator(self, *args, **options)

    def rows(self, x: Any, k: Any, temperature: Any, finite: bool, **how: Any) -> Rows:
        """The arguments as rows, with their values checked."""
        self.tau, name = check_temperature(temperature), how["name"]
        given = core.as_rows(x, k, **how)
        if finite:
            core.check_finite(given.finite, name)
        self.given, scores, c = given, given.x, 1.0
        if self._precise:
            scores = scores.astype(np.float64, copy=False)
        if self._scaled:
            peak = float(np.abs(scores).max(where=scores > -np.inf, initial=0))
            if max(peak, self.tau) > 2.0**900:
                c = 2.0**-200
                scores, self.tau = c * scores, max(c * self.tau, 5e-324)
        budget = ONE if k is NO_BUDGET else given.k
        self._rows = Rows(given, scores, budget, np.float64(self.tau), c)
        return self._rows

    def priced(
        self,
        x: Any,
        k: Any,
        temperature: Any,
        axis: Any,
        where: Any,
        cost: Any,
        empty: str,
    ) -> tuple[Rows, Array]:
        """The arguments with costs as rows in double precision, checked."""
        self.tau = check_temperature(temperature)
        given = core.as_rows(x, axis=axis, where=where, empty=empty)
        given, budget = given.repeat(real_numbers(k, "k"), "k")
        prices = real_numbers(cost, "cost")
        c = given.flatten(prices, "cost")
        if given.empty is not None:
            budget, c = (
                np.where(given.empty, 1, budget),
                np.where(given.empty[:, None], 1, c),
            )
        scores = given.x.astype(np.float64, copy=False)
        eps = float(np.finfo(given.x.dtype).eps)
        # A caller who wants all entries passes the sum of the costs as k.  Summed in
        # the type of the scores, it may exceed the exact sum by its rounding error:
        # `check` accepts that, and the budget is lowered to the exact sum.
        budget = np.minimum(budget, costs_rule.check(scores, c, budget, eps, "x"))
        c = np.where(scores > -np.inf, c, 1)
        self.given, self._cost_shape = given._replace(k=budget), prices.shape
        self._rows = Rows(self.given, scores, budget, np.float64(self.tau), 1.0)
        return self._rows, c

    def spend(
        self, call: Any, x: Array, whole: Any, part: Any, c: Array, tau: Any
    ) -> tuple[Array, Array, Array]:
        """Shares, anchors and offsets of rows with costs, by sums over the rows."""
        p, a, t = costs_rule.solved(call, x, whole, part, c, tau)
        at = x, c, a, t, tau
        self.solved = SpentPoint(call, self.given, at, self._cost_shape)
        return p, a, t

    def select(self, curve: Curve, x: Array, whole: Any, *_: Any) -> tuple[Array, ...]:
        """Shares, anchors and offsets of rows, or of each at ascending budgets."""
        given = self.given
        if whole is ONE:
            return self._on_simplex(curve, x)
        if x.ndim == 2:
            rows = given._replace(x=x, k=whole)
        else:
            flat = x.reshape(-1, x.shape[-1])
            k, finite = whole.reshape(-1) + 0.0, np.repeat(given.finite, x.shape[1])
            rows = given._replace(x=flat, k=k, finite=finite)
        found = solve(curve, rows, self.tau)
        self.point = self.solved = Point(curve, rows, found, self.tau)
        p, batch = found.p.reshape(x.shape), x.shape[:-1]
        if p.ndim == 3:  # shares must grow with the budget; rounding may prevent it
            p = self.nested = np.maximum.accumulate(p, axis=1)
        return p, found.anchor.reshape(batch), found.offset.reshape(batch)

    def arrange(
        self, what: str, curve: Curve, x: Array, tau: Any, check: bool | None
    ) -> Array:
        """Sorts or ranks, in double precision."""
        self.order = Order(ADAPTER, curve, x.astype(np.float64, copy=False), tau)
        arranged: Array = getattr(self.order, what)()
        return arranged

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

    def balance(self, call: Any, x: Array, k: Array, c: Array, tau: Any) -> Array:
        """Shares with both budgets, a matrix at a time."""
        p, self.balanced = np.empty(x.shape), []
        for i, given in enumerate(zip(x, k, c, strict=True)):
            one, at = on_matrix(call, *given, self.tau)
            p[i] = at.p + one.known
            self.balanced.append((call.curve, one.x, at, self.tau))
        return p

    def partition(self, rows: Rows) -> tuple[Array, Array]:
        """`log_partition` of rows, and its derivative by the scores."""
        x, finite = rows.x, (rows.x > -np.inf).sum(axis=-1)
        given = rows.given._replace(x=x, k=rows.whole, finite=finite)
        return partition(given, self.tau)

    def attach(self, value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        """The value; the slopes `by` are kept for `derivative`."""
        self._by = by
        return value

    def derivative(self, value: Any) -> Linearization:
        """The derivative of an operator, from the slopes it attached to its result."""
        by = self._by
        with np.errstate(all="ignore"):
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
