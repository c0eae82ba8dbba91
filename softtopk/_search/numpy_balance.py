r"""The search on NumPy for budgets of rows and columns, one matrix at a time.

All of it is in double precision.  A round keeps the rows at their budgets, by the
solver of `soft_topk`, and changes the columns' thresholds :math:`\beta`.  It takes
Newton's step; if that does not reduce the errors, it puts the columns at their budgets
and then the rows (the alternation, which is Sinkhorn's for :math:`f=e^t`).
Derived in *training/balance*.
"""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from .._rows.numpy_rows import Array, plain_numpy_rows
from ..curves import Curve
from .balance_search import COOLING, LONGEST_STEP, STEP_LENGTHS, BalanceOptions, bounded
from .numpy_search import Solution, solve
from .weighted_least_squares import AdditiveFit

_EPS = float(np.finfo(np.float64).eps)
_WARM_ROUNDS = 20  # at most so many rounds at each of the higher temperatures

_WARM_TOLERANCE = 1e-2
"""Relative error of a column at which a higher temperature is done."""

_ROUNDS_BEFORE_CHECK = 4
"""After so many rounds, each checks whether the budgets can be met."""

_LACKING = 1e-9  # part of the total by which a set of rows lacks more than rounding
_INFEASIBLE = "no shares in [0, 1] have the sums k and columns: "


class Problem(NamedTuple):
    """One matrix with its budgets, at least as many rows as columns.

    Attributes
    ----------
    x : (m, n) float64 array
        The scores, -inf where a share is known.
    known : (m, n) array
        1 where the budgets force a share to be 1, else 0.
    k, c : (m,), (n,) arrays
        The budgets of the rows and columns, less the known shares.
    """

    x: Array
    known: Array
    k: Array
    c: Array

    def off(self, errors: Array) -> float:
        """The largest error of a column relative to its budget."""
        budget = np.where(self.c > 0, self.c, np.inf)
        return float((np.abs(errors) / budget).max())


class Balanced(NamedTuple):
    """Shares, thresholds of rows (anchor, offset) and columns, and column errors."""

    p: Array
    anchor: Array
    offset: Array
    beta: Array
    off: Array

    @property
    def error(self) -> float:
        """The sum of the columns' absolute errors; inf if one is NaN or infinite."""
        total = float(np.abs(self.off).sum())
        return total if math.isfinite(total) else math.inf


def problem_of(x: Array, k: Array, c: Array, names: tuple[str, str]) -> Problem:
    """The problem, with the forced shares; an error if a budget cannot be met."""
    for axis, (budget, name) in enumerate(zip((k, c), names, strict=True)):
        count = np.isfinite(x).sum(axis=1 - axis)
        feasible = (budget >= 0) & (budget <= count)
        if not feasible.all():
            i = int(feasible.argmin())
            raise ValueError(
                f"{name} must lie in [0, {count[i]}], where {count[i]} is the number "
                f"of finite entries of S in the {'row' if name == 'k' else 'column'}, "
                f"got {budget[i]:g}"
            )
    total = k.sum()
    if abs(total - c.sum()) > 1e-12 * total:
        sums = {names[0]: total, names[1]: c.sum()}
        raise ValueError(
            f"k and columns must have the same sum, got {sums['k']:.17g} and "
            f"{sums['columns']:.17g}"
        )
    return _forced(Problem(x, np.zeros_like(x), k, c))


def _forced(given: Problem) -> Problem:
    """The problem without the shares that are forced to be 0 or 1.

    A budget of 0 forces the shares of its row or column to be 0, and a budget equal to
    the number of entries forces them to be 1.  These entries are removed, with their
    shares subtracted from the budgets, until no budget forces any more.
    """
    x, known, k, c = given
    free = np.isfinite(x)
    slack = 8 * _EPS * k.sum()  # a budget of no more than this is 0 after rounding
    while True:
        rest = free.sum(axis=1) - k, free.sum(axis=0) - c
        empty = free & ((k <= slack)[:, None] | (c <= slack))
        full = free & ((rest[0] <= slack)[:, None] | (rest[1] <= slack))
        lacking = max(-side.min(initial=0) for side in (k, c, *rest))
        if lacking > slack or (empty & full).any():
            raise ValueError(_INFEASIBLE + "some entries would have to be both 0 and 1")
        if not (full.any() or empty.any()):
            remaining = [np.where(side > slack, side, 0) for side in (k, c)]
            return Problem(np.where(free, x, -np.inf), known, *remaining)
        free = free & ~(empty | full)
        k, c, known = k - full.sum(axis=1), c - full.sum(axis=0), known + full


def _check_feasible(problem: Problem, alpha: Array, names: tuple[str, str]) -> None:
    """Raise an error if the rows with the least thresholds need more than there is.

    A set I of rows can get at most min(c_j, |E(I, j)|) from column j, where E(I, j) are
    its entries there that take part.  If the budgets cannot be met, the dual has no
    minimum and the thresholds diverge.  Sorted by their thresholds, the first rows then
    form a set whose budgets exceed the sum of these bounds.
    """
    permutation = np.argsort(alpha, kind="stable")
    count = np.cumsum(np.isfinite(problem.x[permutation]), axis=0)
    most = np.minimum(problem.c, count).sum(axis=1)
    need = np.cumsum(problem.k[permutation])
    i = int((need - most).argmax())
    if need[i] - most[i] > _LACKING * need[-1]:
        side = {"k": "rows", "columns": "columns"}
        ours, theirs = (side[name] for name in names)
        raise ValueError(
            f"{_INFEASIBLE}{i + 1} of the {ours} need {need[i]:.9g}, "
            f"and the {theirs} can give them {most[i]:.9g}"
        )


def balanced_matrix(
    curve: Curve, problem: Problem, tau: float, limit: int, names: tuple[str, str]
) -> Balanced:
    """Shares with these budgets, with a start from those at higher temperatures."""
    x = problem.x
    scores = x[np.isfinite(x)]
    if not scores.size:
        return _at(curve, problem, np.zeros(x.shape[1]), tau)
    spread, beta = float(scores.std()), np.zeros(x.shape[1])
    stages = max(0, math.ceil(math.log(max(spread, tau) / tau, COOLING)))
    for stage in range(stages, 0, -1):
        warm = tau * COOLING**stage
        beta, _ = _column_thresholds(
            curve, problem, beta, warm, _WARM_ROUNDS, _WARM_TOLERANCE, names
        )
    goal = _EPS * (32 + float(np.ptp(scores)) / tau)
    beta, off = _column_thresholds(curve, problem, beta, tau, limit, goal, names)
    at = _at(curve, problem, beta, tau)
    if off > 16 * goal:
        _check_feasible(problem, at.anchor + tau * at.offset, names)
        warnings.warn(
            f"balanced_topk took {limit} rounds and has {names[1]} still off by up to "
            f"{off:.1e} of themselves",
            RuntimeWarning,
            stacklevel=_callers_level(),
        )
    return at


def _callers_level() -> int:
    """The `stacklevel` of the line that called the package, for a warning here.

    The number of frames between the two differs from library to library.  The public
    functions may be called by a decorator of NumPy's.
    """
    frame: Any = sys._getframe(1)
    level = own = 0
    while frame is not None:
        level += 1
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module == "softtopk" or (module == "numpy" and own == level - 1):
            own = level
        frame = frame.f_back
    return own + 1


def _column_thresholds(
    curve: Curve,
    problem: Problem,
    beta: Array,
    tau: float,
    limit: int,
    goal: float,
    names: tuple[str, str],
) -> tuple[Array, float]:
    """The columns' thresholds, and the largest relative error of a column there."""
    at = _at(curve, problem, beta, tau)
    for count in range(limit):
        if problem.off(at.off) <= goal:
            break
        alpha = at.anchor + tau * at.offset
        if count > _ROUNDS_BEFORE_CHECK:
            _check_feasible(problem, alpha, names)
        new = _newton(curve, problem, at, tau)
        if new is None:
            new = _alternate(curve, problem, alpha, tau)
            if not new.error < at.error and problem.off(at.off) <= 16 * goal:
                break  # the remaining errors are rounding errors
        at = new
    return at.beta, problem.off(at.off)


def _at(curve: Curve, problem: Problem, beta: Array, tau: float) -> Balanced:
    """The state with all rows at their budgets, for these thresholds of the columns."""
    found = _thresholds(curve, problem.x - beta, problem.k, tau)
    return Balanced(*found, beta, found.p.sum(axis=0) - problem.c)


def _alternate(curve: Curve, problem: Problem, alpha: Array, tau: float) -> Balanced:
    """The state after the columns, and then the rows, are put at their budgets."""
    found = _thresholds(curve, problem.x.T - alpha, problem.c, tau)
    return _at(curve, problem, _without_mean(found.anchor + tau * found.offset), tau)


def _newton(
    curve: Curve, problem: Problem, at: Balanced, tau: float
) -> Balanced | None:
    """The state after Newton's step, shortened or lengthened; None if none is found.

    The first length tried that shrinks the sum of the errors is taken.  If there is
    none, as may happen near a kink of the curve, it is the longest length known to lie
    before the minimum of the dual.  That can be told from its sign: along the step the
    dual is convex, and its slope is minus the inner product of errors and step.
    """
    # weights near 0 may overflow in a quotient
    step = tau * AdditiveFit(balance_slopes(curve, problem.x, at, tau)).reduced(at.off)
    longest = np.abs(step).max()
    if not math.isfinite(longest):
        return None
    length, low, high = min(1.0, LONGEST_STEP * tau / longest), 0.0, math.inf
    before = None
    for _ in range(STEP_LENGTHS):
        new = _at(curve, problem, _without_mean(at.beta + length * step), tau)
        if new.error <= (1 - 0.2 * length) * at.error:
            return new
        if new.off @ step > 0:
            low, before = length, new
        else:
            high = length
        if low == 0:
            length = high / 8
        else:
            length = math.sqrt(low * high) if high < math.inf else 4 * low
    return before


def _thresholds(curve: Curve, x: Array, k: Array, tau: float) -> Solution:
    """`soft_topk` of rows whose scores are finite or -inf."""
    x = np.ascontiguousarray(x)
    count = np.isfinite(x).sum(axis=-1)
    return solve(curve, plain_numpy_rows(x, k, count), tau)


def _without_mean(beta: Array) -> Array:
    """The thresholds minus their mean; 0 for a column that takes no part."""
    taking = np.isfinite(beta)
    return np.where(taking, beta - beta[taking].mean(), 0)


def balance_slopes(curve: Curve, x: Array, at: Balanced, tau: float) -> Array:
    """W, the slope of the curve at every entry."""
    u = balanced_distances(x, at, tau)
    return np.where(np.isfinite(u), curve.slope(u), 0)


def balanced_distances(x: Array, at: Balanced, tau: float) -> Array:
    """The distance of every entry from its thresholds, in temperatures."""
    return (x - at.beta - at.anchor[:, None]) / tau - at.offset[:, None]


def on_matrix(
    options: BalanceOptions, x: Any, k: Any, c: Any, tau: float
) -> tuple[Problem, Balanced]:
    """The problem of one matrix and its solution, by the search on NumPy."""
    problem = problem_of(bounded(x, tau), k, c, options.names)
    given = options.limit, options.names
    return problem, balanced_matrix(options.curve, problem, tau, *given)
