r"""Two budgets: smooth selection with given sums of the rows and of the columns.

Of all :math:`P\in[0,1]^{m\times n}` with row sums k and column sums c,

.. math:: P_{ij}=f\Bigl(\frac{S_{ij}-\alpha_i-\beta_j}{\tau}\Bigr)

is the one with the largest :math:`\sum S_{ij}P_{ij}-\tau\sum\varphi(P_{ij})`: one curve
and two thresholds, which minimise the convex dual

.. math:: D(\alpha,\beta)=\tau\sum_{ij}F\Bigl(\frac{S_{ij}-\alpha_i-\beta_j}{\tau}
          \Bigr)+k\cdot\alpha+c\cdot\beta .

A round holds the rows at their budgets, by the solver of `soft_topk`, and moves
:math:`\beta`: by Newton's step, or where that is of no use, to the columns' own
thresholds (the alternation, which is Sinkhorn's for :math:`f=e^t`).

With the weights :math:`W=f'`, the derivative takes from a change of the scores its
weighted least squares fit by :math:`a_i+b_j`:

.. math:: dP_{ij}=\frac{W_{ij}}\tau\,(dS_{ij}-a_i-b_j),\qquad
          \begin{pmatrix}D_r&W\\W^\top&D_c\end{pmatrix}
          \begin{pmatrix}a\\b\end{pmatrix}
          =\begin{pmatrix}\sum_jW_{ij}\,dS_{ij}\\\sum_iW_{ij}\,dS_{ij}\end{pmatrix}.

The larger side is eliminated; Newton's step has the same matrix.  Derived in
*training/balance*.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._operator import Differentiable, Linearization, operator
from ._rows import (
    Array,
    Rows,
    as_rows,
    check_temperature,
    real_number,
    real_numbers,
)
from ._solve import Solution, solve
from ._solve.additive import Additive
from .curves import Curve, resolve

__all__ = ["balanced_topk"]

_EPS = float(np.finfo(np.float64).eps)
_COOLING = 4.0  # the temperatures before the last fall by this factor
_WARM = 20  # rounds at each of them, at most
_NEAR = 1e-2  # what the columns may be off by there
_STRIDE = 64.0  # temperatures; no step of Newton's is longer
_LENGTHS = 16  # of a step, to try
_PATIENCE = 4  # rounds after which to ask whether budgets fit
_SHARE = 1e-9  # of all: what rows need beyond what they can get, by more than rounding
_UNFIT = "no shares in [0, 1] have the sums k and columns: "


class _Problem(NamedTuple):
    """One matrix with its budgets, at least as many rows as columns.

    Attributes
    ----------
    x : (m, n) float64 array
        The scores, -inf where a share is known.
    known : (m, n) array
        The shares that the budgets leave no choice for, else 0.
    k, c : (m,), (n,) arrays
        What is left of the budgets.
    """

    x: Array
    known: Array
    k: Array
    c: Array

    def off(self, errors: Array) -> float:
        """The largest error of a column, as a share of its budget."""
        budget = np.where(self.c > 0, self.c, np.inf)
        return float((np.abs(errors) / budget).max())


class _State(NamedTuple):
    """Shares, the rows' thresholds (anchor, offset), the columns', and their errors."""

    p: Array
    anchor: Array
    offset: Array
    beta: Array
    off: Array

    @property
    def error(self) -> float:
        """What the columns are off by in all, or inf for a step into nowhere."""
        total = float(np.abs(self.off).sum())
        return total if math.isfinite(total) else math.inf


@operator
def balanced_topk(
    S: ArrayLike,
    k: ArrayLike,
    columns: ArrayLike | None = None,
    curve: str | Curve = "sigmoid",
    *,
    temperature: float = 1.0,
    axes: tuple[int, int] = (-2, -1),
    where: ArrayLike | None = None,
    rounds: int = 100,
) -> Differentiable[Array]:
    r"""Smooth selection with two budgets: each row takes k, each column its load.

    Parameters
    ----------
    S : array_like
        Scores, finite or -inf: a matrix for every index of the axes that `axes` does
        not name.  An entry of -inf gets share 0.
    k : array_like
        What the shares of a row sum to: a real number, or an array that broadcasts to
        one for each row, ``(..., m)``.
    columns : array_like, optional
        What the shares of a column sum to, likewise ``(..., n)``; with the same total
        as `k`.  By default equal loads.
    curve : str or Curve
        As in `soft_topk`.
    temperature : float
        :math:`\tau>0`; as it falls the shares approach the best assignment.
    axes : (int, int)
        The axis that counts the rows and the axis that counts the columns.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.
    rounds : int
        The most rounds to take.

    Returns
    -------
    array
        P, of the shape of `S` (float32 if `S` is float32 or float16, else float64).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no shares in [0, 1] have these sums; the
        message names what is wrong.

    Warns
    -----
    RuntimeWarning
        If `rounds` are not enough.  The shares returned keep the budgets of the longer
        side; the message says how far the others are off.

    See Also
    --------
    soft_topk : one budget.

    Notes
    -----
    A round costs `soft_topk` of all rows and, for m rows and n columns,
    :math:`O(mn\min(m,n))` for Newton's step; the lower the temperature, the more
    rounds.  Both budgets are met to 1e-13 for temperatures from one to a tenth of the
    scores' deviation, and to some eps times the scores' range over the temperature
    below.  Where they can only be met with some shares of exactly 0 or 1,
    thresholds run off and the last digits take more rounds.

    `linearize` has the derivative by the scores; a product costs O(mn), after
    :math:`O(mn\min(m,n))` once.

    References
    ----------
    Results N-T1 to N-T8, *training/balance*.

    Examples
    --------
    >>> import softtopk as stk
    >>> S = [[2.0, 1.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> P = stk.balanced_topk(S, 1, temperature=0.2)
    >>> P.round(2).tolist()
    [[0.27, 0.66, 0.07], [0.66, 0.07, 0.27], [0.07, 0.27, 0.66]]
    >>> P.sum(axis=0).round(12).tolist(), P.sum(axis=1).round(12).tolist()
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    limit = int(real_number(rounds, "rounds", least=1))
    rows = as_rows(S, axis=check_axes(axes), where=where, name="S")
    view, (first, second) = _view(rows, axes, k, columns)
    names = first.name, second.name
    pairs = []
    for given in zip(view.apart(rows.x), first.values, second.values, strict=True):
        problem = problem_of(*given, names)
        pairs.append((balanced_matrix(curve, problem, tau, limit, names), problem))
    value = rows.expand(view.together([at.p + one.known for at, one in pairs]))

    def derivative() -> Linearization:
        fits = [Additive(_slopes(curve, one.x, at, tau)) for at, one in pairs]

        def product(t: Array) -> Array:
            given = zip(fits, view.apart(t), strict=True)
            with np.errstate(all="ignore"):
                left = [fit.rest(fit.W * G)[0] for fit, G in given]
                return view.together([one / tau for one in left])

        return Linearization(value, rows, product, product)

    return value, derivative


class _View(NamedTuple):
    """Rows of an operator as matrices, the longer side first."""

    shape: tuple[int, int, int]
    turned: bool
    dtype: Any

    def apart(self, flat: Array) -> Array:
        matrices = flat.reshape(self.shape).astype(np.float64, copy=False)
        return matrices.swapaxes(1, 2) if self.turned else matrices

    def together(self, matrices: list[Array]) -> Array:
        stack = np.stack(matrices) if matrices else np.empty(self.shape)
        if self.turned:
            stack = stack.swapaxes(1, 2)
        count, *sides = self.shape
        return stack.astype(self.dtype).reshape(count, math.prod(sides))


class _Side(NamedTuple):
    """The budgets of the rows or of the columns, (R, m) or (R, n), and their name."""

    values: Array
    name: str


def check_axes(axes: Any) -> tuple[int, int]:
    if not (isinstance(axes, tuple) and len(axes) == 2):
        raise TypeError(
            f"axes must be two integers, that of the rows and that of the columns, "
            f"got {axes!r}"
        )
    return axes


def _view(
    rows: Rows, axes: tuple[int, int], k: ArrayLike, columns: ArrayLike | None
) -> tuple[_View, list[_Side]]:
    """The matrices and their two sides, in the order of the matrices."""
    ndim = len(rows.shape)
    low, high = (rows.shape[axis] for axis in rows.axes)
    ascending = axes[0] % ndim < axes[1] % ndim
    m, n = (low, high) if ascending else (high, low)
    taken = _budgets(k, rows.batch, m, "k")
    if columns is None:
        loads = np.repeat(taken.sum(axis=-1, keepdims=True) / n, n, axis=-1)
    else:
        loads = _budgets(columns, rows.batch, n, "columns")
    sides = [_Side(taken, "k"), _Side(loads, "columns")]
    turned = low < high
    view = _View((len(rows.x), low, high), turned, rows.x.dtype)
    return view, sides if ascending != turned else sides[::-1]


def _budgets(given: ArrayLike, batch: tuple[int, ...], size: int, name: str) -> Array:
    """One budget for each row, or each column, of every matrix."""
    values, shape = real_numbers(given, name), (*batch, size)
    try:
        return np.broadcast_to(values, shape).reshape(-1, size)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to shape {shape}, got shape {values.shape}"
        ) from None


def problem_of(x: Array, k: Array, c: Array, names: tuple[str, str]) -> _Problem:
    """Budgets that fit one by one, and what they leave no choice for."""
    for axis, (budget, name) in enumerate(zip((k, c), names, strict=True)):
        count = np.isfinite(x).sum(axis=1 - axis)
        fits = (budget >= 0) & (budget <= count)
        if not fits.all():
            i = int(fits.argmin())
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
    return _forced(_Problem(x, np.zeros_like(x), k, c))


def _forced(given: _Problem) -> _Problem:
    """Shares of 0 and 1 that a budget of nothing or of everything leaves no choice for.

    Their entries, and what they take from the budgets, are taken out until none is
    left.
    """
    x, known, k, c = given
    free = np.isfinite(x)
    least = 8 * _EPS * k.sum()  # what rounding leaves of a budget
    while True:
        rest = free.sum(axis=1) - k, free.sum(axis=0) - c
        empty = free & ((k <= least)[:, None] | (c <= least))
        full = free & ((rest[0] <= least)[:, None] | (rest[1] <= least))
        lacking = max(-side.min(initial=0) for side in (k, c, *rest))
        if lacking > least or (empty & full).any():
            raise ValueError(_UNFIT + "some entries would have to be both 0 and 1")
        if not (full.any() or empty.any()):
            left = [np.where(side > least, side, 0) for side in (k, c)]
            return _Problem(np.where(free, x, -np.inf), known, *left)
        free = free & ~(empty | full)
        k, c, known = k - full.sum(axis=1), c - full.sum(axis=0), known + full


def _check_fit(problem: _Problem, alpha: Array, names: tuple[str, str]) -> None:
    """An error if the rows with the least thresholds ask for more than there is.

    The columns can give the rows of a set I at most the sum of min(c, |E(I, j)|), E the
    entries that take part.  Where budgets do not fit the dual has no minimum, the
    thresholds run off, and the first rows in their order show such a set.
    """
    order = np.argsort(alpha, kind="stable")
    count = np.cumsum(np.isfinite(problem.x[order]), axis=0)
    most = np.minimum(problem.c, count).sum(axis=1)
    need = np.cumsum(problem.k[order])
    i = int((need - most).argmax())
    if need[i] - most[i] > _SHARE * need[-1]:
        side = {"k": "rows", "columns": "columns"}
        ours, theirs = (side[name] for name in names)
        raise ValueError(
            f"{_UNFIT}{i + 1} of the {ours} need {need[i]:.9g}, "
            f"and the {theirs} can give them {most[i]:.9g}"
        )


def balanced_matrix(
    curve: Curve, problem: _Problem, tau: float, limit: int, names: tuple[str, str]
) -> _State:
    """Shares with these budgets, found from those at higher temperatures."""
    x = problem.x
    scores = x[np.isfinite(x)]
    if not scores.size:
        return _at(curve, problem, np.zeros(x.shape[1]), tau)
    spread, beta = float(scores.std()), np.zeros(x.shape[1])
    stages = max(0, math.ceil(math.log(max(spread, tau) / tau, _COOLING)))
    for stage in range(stages, 0, -1):
        warm = tau * _COOLING**stage
        beta, _ = _search(curve, problem, beta, warm, _WARM, _NEAR, names)
    goal = _EPS * (32 + float(np.ptp(scores)) / tau)
    beta, off = _search(curve, problem, beta, tau, limit, goal, names)
    at = _at(curve, problem, beta, tau)
    if off > 16 * goal:
        _check_fit(problem, at.anchor + tau * at.offset, names)
        warnings.warn(
            f"balanced_topk took {limit} rounds and has {names[1]} still off by up to "
            f"{off:.1e} of themselves",
            RuntimeWarning,
            stacklevel=4,
        )
    return at


def _search(
    curve: Curve,
    problem: _Problem,
    beta: Array,
    tau: float,
    limit: int,
    goal: float,
    names: tuple[str, str],
) -> tuple[Array, float]:
    """The columns' thresholds, and by what share of a budget they are still off."""
    at = _at(curve, problem, beta, tau)
    for count in range(limit):
        if problem.off(at.off) <= goal:
            break
        alpha = at.anchor + tau * at.offset
        if count > _PATIENCE:
            _check_fit(problem, alpha, names)
        new = _newton(curve, problem, at, tau)
        if new is None:
            new = _alternate(curve, problem, alpha, tau)
            if not new.error < at.error and problem.off(at.off) <= 16 * goal:
                break  # rounding is all that is left
        at = new
    return at.beta, problem.off(at.off)


def _at(curve: Curve, problem: _Problem, beta: Array, tau: float) -> _State:
    """The rows at their budgets, given the columns' thresholds."""
    found = _thresholds(curve, problem.x - beta, problem.k, tau)
    return _State(*found, beta, found.p.sum(axis=0) - problem.c)


def _alternate(curve: Curve, problem: _Problem, alpha: Array, tau: float) -> _State:
    """The columns at their budgets, then the rows."""
    found = _thresholds(curve, problem.x.T - alpha, problem.c, tau)
    return _at(curve, problem, _centred(found.anchor + tau * found.offset), tau)


def _newton(curve: Curve, problem: _Problem, at: _State, tau: float) -> _State | None:
    """A step of Newton's, as long as it shrinks the errors; None if there is none.

    Along the step the dual is convex, and its slope is less the product with the
    errors: where no length shrinks them, as near a kink of the curve, the longest one
    is taken that was seen to lie before the minimum.
    """
    with np.errstate(all="ignore"):  # weights that nearly vanish
        step = tau * Additive(_slopes(curve, problem.x, at, tau)).reduced(at.off)
    longest = np.abs(step).max()
    if not math.isfinite(longest):
        return None
    length, low, high = min(1.0, _STRIDE * tau / longest), 0.0, math.inf
    before = None
    for _ in range(_LENGTHS):
        new = _at(curve, problem, _centred(at.beta + length * step), tau)
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
    m, n = x.shape
    with np.errstate(all="ignore"):
        return solve(curve, Rows(x, k, count, (m, n), (m,), (-1,), (m, n)), tau)


def _centred(beta: Array) -> Array:
    """Thresholds less their mean, 0 where a column takes no part."""
    taking = np.isfinite(beta)
    return np.where(taking, beta - beta[taking].mean(), 0)


def _slopes(curve: Curve, x: Array, at: _State, tau: float) -> Array:
    """W, the slope of the curve at every entry."""
    with np.errstate(all="ignore"):
        u = (x - at.beta - at.anchor[:, None]) / tau - at.offset[:, None]
        return np.where(np.isfinite(u), curve.slope(u), 0)
