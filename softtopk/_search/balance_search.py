r"""Budgets of rows and columns on every array library: search and derivatives.

With :math:`u=(S-\alpha-\beta)/\tau` the shares are f(u), and the budgets are sums of
the weights :math:`W=f'(u)` times

.. math:: du_{ij}=\frac{dS_{ij}-u_{ij}\,d\tau-a_i-b_j}\tau,\qquad
          \begin{pmatrix}D_r&W\\W^\top&D_c\end{pmatrix}
          \begin{pmatrix}a\\b\end{pmatrix}
          =\begin{pmatrix}\sum_jW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dk_i\\
          \sum_iW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dc_j\end{pmatrix}.

So a derivative needs only u and the temperature, and `push` and `pull` are functions of
them.  Since u is an output with a derivative by the same rule, they can be
differentiated again.  An entry whose share is forced has u = -inf (share 0) or +inf
(share 1), and u is NaN in a matrix whose budgets are not met.  Derived in
*training/balance*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._contract import Adapter
from .._operators.hard_body import checked
from .._rows.adapter_rows import fit, in_range, word_for
from .._rows.namespace import loop, namespace
from .._rows.numpy_rows import NO_BUDGET, Budget, real_number, real_numbers
from .._rules import selection_rule
from ..curves import Curve, resolve
from . import root
from .numpy_balance import Problem, State, balanced_matrix, bounded, problem_of
from .row_column_fit import Additive
from .start import moments

__all__ = ["balanced_topk"]

_COOLING = 4.0  # the search cools down to the temperature in stages of this factor
_NEAR = 1e-1  # relative error of a column at which a higher temperature is done
_STRIDE = 64.0  # the longest step of Newton's, in temperatures
_LENGTHS = 16  # at most so many lengths of a step are tried
_SAME = 4096  # the two totals may differ by this many eps, relatively


def balanced_topk(
    xp: Adapter,
    S: Any,
    k: Any,
    columns: Any = None,
    curve: str | Curve = "sigmoid",
    *,
    temperature: Any = 1.0,
    axes: tuple[int, int] = (-2, -1),
    where: Any = None,
    rounds: int = 100,
    check: bool | None = None,
) -> Any:
    r"""Smooth selection with two budgets: each row takes k, each column its load.

    Parameters
    ----------
    S : array
        Scores, finite or -inf: a matrix for every index of the axes that `axes` does
        not name.  Those of 16 bits are calculated with in float32.
    k : number or array
        What the shares of a row sum to; it broadcasts to one for each row,
        ``(..., m)``.
    columns : array, optional
        What the shares of a column sum to, likewise ``(..., n)``; with the same total
        as `k`, to which it is scaled beyond rounding.  By default equal loads.
    curve, where, check
        As in `soft_topk`.
    temperature : number or array
        Above 0; one for all or one a matrix.
    axes : (int, int)
        The axis that counts the rows and the axis that counts the columns.
    rounds : int
        The most rounds to take.

    Returns
    -------
    array
        P, of the shape and type of `S`, with derivatives by `S`, `k`, `columns` and
        `temperature`.  Those by budgets are along changes that can be met.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no shares in [0, 1] have these sums.

    Warns
    -----
    RuntimeWarning
        If `rounds` are not enough.  Where nobody looks at the values, a matrix whose
        budgets are not met is NaN, whatever the reason.

    Notes
    -----
    A round costs `soft_topk` of the longer side twice and of the other once, and
    :math:`O(mn\min(m,n))` for Newton's step; so does a derivative.
    """
    axes = check_axes(axes, word_for(xp, "axes"))
    simple = type(rounds) is int and rounds >= 1  # what a compiler can follow
    limit = rounds if simple else int(real_number(rounds, "rounds", least=1))
    curve = resolve(curve)
    flat = checked(xp, S, NO_BUDGET, temperature, axes, where, check, "S")
    call = Call(curve, limit, bool(xp.looks(flat.x, check)))
    batch, (low, high) = flat.batch(), flat.sizes
    x = xp.reshape(flat.x, (*flat.x.shape[:-1], low, high))
    ascending = axes[0] % (len(batch) + 2) < axes[1] % (len(batch) + 2)
    m, n = (low, high) if ascending else (high, low)
    first = _budgets(xp, k, (*batch, m), "k", x)
    if columns is None:
        load = first.sum(-1)[..., None] / n
        second = xp.broadcast_to(load, (*load.shape[:-1], n))
    else:
        second = _budgets(xp, columns, (*batch, n), "columns", x)
        if not hasattr(xp, "rows"):  # on NumPy the search compares the totals
            second = second * _ratio(xp, first.sum(-1), second, call)[..., None]
    turned = bool(low < high)  # a size may be a symbol of torch.export
    sides, names = (first, second), ("k", "columns")
    if ascending == turned:
        sides, names = sides[::-1], names[::-1]
    given = x.swapaxes(-1, -2) if turned else x
    p = xp.balance(call._replace(names=names), given, *sides, flat.tau)
    p = p.swapaxes(-1, -2) if turned else p
    return flat.expand(xp, xp.reshape(p, flat.x.shape))


class Call(NamedTuple):
    """The arguments that are not arrays; `names` has that of the longer side first."""

    curve: Curve
    limit: int
    look: bool
    names: tuple[str, str] = ("k", "columns")


def _budgets(
    xp: Adapter, given: Any, shape: tuple[int, ...], name: str, like: Any
) -> Any:
    """One budget for each row, or each column, of every matrix."""
    if xp.is_array(given):
        xp.refuse(given, name)
        if not xp.is_real(given):
            real_numbers(xp.to_numpy(given), name)
        values = xp.astype(given, like.dtype)
    else:
        number = type(given) in (int, float)  # without NumPy, a compiler can trace it
        values = xp.numbers(given if number else real_numbers(given, name), like)
    values = fit(xp, values, shape, name)
    return xp.reshape(values, (*like.shape[:-2], shape[-1]))


def _ratio(xp: Adapter, k: Any, columns: Any, call: Call) -> Any:
    """The factor that makes the columns sum to the rows' total.

    It is NaN if the two totals differ by more than rounding.
    """
    c = columns.sum(-1)
    differs = abs(k - c) > _SAME * xp.finfo(k.dtype).eps * k
    if call.look and bool(differs.any()):
        if bool((columns < 0).any()):
            return xp.ones_like(c)  # the search on NumPy raises the error for it
        i = xp.argmax(xp.astype(differs.reshape(-1), k.dtype))
        k, c = (float(v.reshape(-1)[i]) for v in (k, c))
        raise ValueError(
            f"k and columns must have the same sum, got {k:.17g} and {c:.17g}"
        )
    ratio = xp.where(c > 0, k, 1) / xp.where(c > 0, c, 1)
    return xp.where(differs, math.nan, ratio)


def on_numpy(call: Call, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u by the search on NumPy, which raises the errors and warnings."""
    k, c, tau = (np.asarray(v, np.float64) for v in (k, c, tau))
    c = c * (k.sum(-1) / np.where(c.any(-1), c.sum(-1), 1))[..., None]
    x = np.asarray(x, np.float64)
    u, tau = np.empty(x.shape), np.broadcast_to(tau, x.shape[:-2])
    for i in np.ndindex(x.shape[:-2]):
        one, at = on_matrix(call, x[i], k[i], c[i], float(tau[i]))
        with np.errstate(all="ignore"):
            free = (one.x - at.beta - at.anchor[:, None]) / tau[i] - at.offset[:, None]
        free = np.where(np.isfinite(one.x), free, -np.inf)
        u[i] = np.where(one.known > 0, np.inf, free)
    return u


def on_matrix(call: Call, x: Any, k: Any, c: Any, tau: float) -> tuple[Problem, State]:
    """The problem of one matrix and its solution, by the search on NumPy."""
    one = problem_of(bounded(x, tau), k, c, call.names)
    return one, balanced_matrix(call.curve, one, tau, call.limit, call.names)


class _Thresholds(NamedTuple):
    """The thresholds of rows and columns; the rows are at their budgets."""

    alpha: Any
    beta: Any
    u: Any
    off: Any  # the errors of the columns: their sums minus their budgets
    size: Any  # the sum of the absolute errors, or inf

    def or_(self, other: _Thresholds, better: Any) -> _Thresholds:
        """`other` for the matrices where `better` is true, and self for the rest."""
        pairs = zip(self, other, strict=True)
        return _Thresholds(*(_choose(better, b, a) for a, b in pairs))


class _Search(NamedTuple):
    """Matrices (..., m, n), -inf where a share is known, and their budgets."""

    curve: Curve
    limit: int
    x: Any
    k: Any
    c: Any
    tau: Any
    counts: tuple[Any, Any]
    goal: Any

    def hold(self, z: Any, k: Any, count: Any, heat: Any) -> tuple[Any, Any, Any]:
        """Shares, thresholds and distances of rows at their budgets."""
        xp, tau = namespace(z), (self.tau * heat)[..., None] + 0 * k
        whole = xp.floor(k)
        budget = Budget(xp.integers(whole, z), k - whole, count)
        p, a, t = selection_rule.solved(self.curve, z, budget, tau, moments(z, count))
        return p, xp.where(xp.isfinite(t), a + tau * t, 0), root.distances(z, tau, a, t)

    def rows(self, beta: Any, heat: Any) -> _Thresholds:
        xp, z = namespace(beta), self.x - beta[..., None, :]
        p, alpha, u = self.hold(z, self.k, self.counts[0], heat)
        off = xp.sum(p, axis=-2) - self.c
        size = xp.sum(abs(off), axis=-1)
        size = xp.where(size == size, size, math.inf)
        return _Thresholds(alpha, beta, u, off, size)

    def alternate(self, alpha: Any, heat: Any) -> _Thresholds:
        """The thresholds after the columns, and then the rows, meet their budgets."""
        z = (self.x - alpha[..., None]).swapaxes(-1, -2)
        _, beta, _ = self.hold(z, self.c, self.counts[1], heat)
        return self.rows(beta, heat)

    def newton(self, start: _Thresholds, heat: Any, done: Any) -> _Thresholds:
        """The thresholds after Newton's step, at a length that reduces errors or dual.

        The dual counts where no length reduces the errors, as near a kink of the curve.
        """
        xp, tau = namespace(heat), self.tau * heat
        step = Additive(_slopes(self.curve, start.u)).reduced(start.off)
        longest = xp.max(abs(step), axis=-1) / _STRIDE
        step, zero = tau[..., None] * step, 0 * tau

        def attempt(*given: Any) -> tuple[Any, ...]:
            at, length, low, high, tries, over = given
            new = self.rows(start.beta + length[..., None] * step, heat)
            good = new.size <= (1 - 0.2 * length) * start.size
            ahead = xp.sum(new.off * step, axis=-1) > 0
            at = at.or_(new, ~over & (good | ahead))
            low, high = xp.where(ahead, length, low), xp.where(ahead, high, length)
            middle = xp.sqrt(low * xp.where(high < math.inf, high, 16 * low))
            length = xp.where(low > 0, middle, high / 8)
            return at, length, low, high, tries + 1, over | good | (tries >= _LENGTHS)

        over = done | ~(longest < math.inf)
        length = 1 / xp.clip(longest, 1, None)
        state = start, length, zero, zero + math.inf, zero, over
        return loop(_going, attempt, state)[0]

    def errors(self, at: _Thresholds) -> Any:
        """The largest error of a column relative to its budget."""
        xp = namespace(at.off)
        return xp.max(abs(at.off) / xp.where(self.c > 0, self.c, math.inf), axis=-1)

    def turn(self, *given: Any) -> tuple[Any, ...]:
        """A round: the alternation, which alone would converge, then Newton's step."""
        at, heat, count, done = given
        xp, last = namespace(heat), heat == 1
        new = self.newton(self.alternate(at.alpha, heat), heat, done)
        error = self.errors(new)
        settled = (error <= 16 * self.goal) & ~(new.size < at.size)
        over = last & ((error <= self.goal) | settled) | ~(new.size < math.inf)
        new = new._replace(size=xp.where(last, new.size, math.inf))
        cooler = xp.where(error <= _NEAR, xp.clip(heat / _COOLING, 1, None), heat)
        count = xp.where(done, count, count + 1)
        return new.or_(at, done), cooler, count, done | over | (count >= self.limit)


def _going(*state: Any) -> Any:
    return ~state[-1].all()


def solved(call: Call, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u of matrices (..., m, n), m >= n; NaN where budgets are not met."""
    xp = namespace(x)
    tau = xp.broadcast_to(tau, x.shape[:-2])
    fits = xp.all(xp.all(x < math.inf, axis=-1), axis=-1)  # false for NaN too
    fits = fits & in_range(tau)
    tau = xp.where(fits, tau, 1)
    x, k, c = _forced(bounded(x, tau), k, c)
    free = xp.isfinite(x)
    counts = xp.sum(free, axis=-1), xp.sum(free, axis=-2)
    span = -_least(xp.where(free, -x, math.inf)) - _least(xp.where(free, x, math.inf))
    span = xp.clip(span / tau, 0, None)
    goal = xp.finfo(x.dtype).eps * (32 + span)
    y, zero = xp.where(free, x, -math.inf), xp.zeros_like(tau)
    search = _Search(call.curve, call.limit, y, k, c, tau, counts, goal)
    alpha = xp.sum(xp.where(free, x, 0), axis=-1) / xp.clip(counts[0], 1, None)
    start = _Thresholds(alpha, 0 * c, xp.zeros_like(x), 0 * c, zero + math.inf)
    state = start, xp.clip(span / 4, 1, None), zero, zero > 0
    at = loop(_going, search.turn, state)[0]
    fits = fits & (search.errors(at) <= 16 * goal)
    return _choose(fits, xp.where(free, at.u, x), math.nan)


def _forced(x: Any, k: Any, c: Any) -> tuple[Any, Any, Any]:
    """The scores with -inf and +inf for forced shares, and the remaining budgets.

    A budget of 0 or of all entries forces the shares of its row or column to be 0 or 1.
    Budgets that cannot be met become NaN.
    """
    xp = namespace(x)
    least = 8 * xp.finfo(x.dtype).eps * xp.sum(k, axis=-1)[..., None]

    def left(x: Any) -> tuple[Any, Any]:
        """The rest of each budget, and the number of free entries minus that rest."""
        free, full = xp.isfinite(x), x == math.inf
        rests = k - xp.sum(full, axis=-1), c - xp.sum(full, axis=-2)
        return rests, (
            xp.sum(free, axis=-1) - rests[0],
            xp.sum(free, axis=-2) - rests[1],
        )

    def step(x: Any, _: Any) -> tuple[Any, Any]:
        free = xp.isfinite(x)
        empty, full = (
            free & ((rows <= least)[..., None] | (columns <= least)[..., None, :])
            for rows, columns in left(x)
        )
        x = xp.where(empty, -math.inf, xp.where(full, math.inf, x))
        return x, ~(empty | full).any()

    x, _ = loop(lambda x, done: ~done, step, (x, ~xp.isfinite(x).any()))
    rests, spare = left(x)
    fits = [(b >= -least).all(-1) for b in (*rests, *spare)]
    fits = ((fits[0] & fits[1]) & (fits[2] & fits[3]))[..., None]
    k, c = (xp.where(fits, xp.where(b > least, b, 0), math.nan) for b in rests)
    return x, k, c


def _least(x: Any) -> Any:
    """The least entry of each matrix."""
    xp = namespace(x)
    return xp.min(xp.min(x, axis=-1), axis=-1)


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    """where with one condition for each matrix."""
    wide = condition.reshape(condition.shape + (1,) * (yes.ndim - condition.ndim))
    return namespace(yes).where(wide, yes, no)


def _slopes(curve: Curve, u: Any) -> Any:
    """The slopes W; 0 for a forced share."""
    xp = namespace(u)
    return xp.where(xp.isfinite(u), curve.slope(_finite(u)), 0)


def shares(curve: Curve, u: Any) -> Any:
    """f(u), also at u = -inf and +inf; NaN stays NaN."""
    xp = namespace(u)
    ends = xp.where(u > 0, 1, xp.where(u < 0, 0, u))
    return xp.where(xp.isfinite(u), curve.value(_finite(u)), ends)


def push(
    curve: Curve, dS: Any, dk: Any, dc: Any, dtau: Any, u: Any, tau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of u."""
    good, u = _good(u)
    W, scale = _slopes(curve, u), tau[..., None] if tau.ndim else tau
    u = _finite(u)
    G = dS - u * _matrix(dtau)
    left, a, b = Additive(W).rest(W * G, scale * dk, scale * dc)
    du = (G - a[..., None] - b[..., None, :]) / _matrix(tau)
    xp = namespace(u)
    dp, du = left / _matrix(tau), xp.where(W > 0, du, 0)
    return (dp if good is None else xp.spoil(dp, good)), du


def pull(curve: Curve, gp: Any, gu: Any, u: Any, tau: Any) -> tuple[Any, ...]:
    """The gradients by S, k, columns and tau, from those by the shares and by u."""
    good, u = _good(u)
    gp = gp if good is None else namespace(u).spoil(gp, good)
    W = _slopes(curve, u)
    g = W * gp + namespace(u).where(W > 0, gu, 0)
    left, gk, gc = Additive(W).rest(g)
    gS = left / _matrix(tau)
    gtau = -(gS * _finite(u)).sum((-2, -1))
    return gS, gk, gc, gtau if tau.ndim else gtau.sum()


def _good(u: Any) -> tuple[Any, Any]:
    """Where u is not NaN, as all of it is in a matrix out of range; and u, 0 there.

    On NumPy there is no such matrix.
    """
    xp = namespace(u)
    if xp is np:
        return None, u
    good = u == u
    return good, xp.where(good, u, 0)


def _finite(u: Any) -> Any:
    """u, with 0 for a forced share."""
    xp = namespace(u)
    return xp.where(xp.isfinite(u), u, 0)


def _matrix(tau: Any) -> Any:
    """The temperature in a shape that broadcasts over the matrices."""
    return tau[..., None, None] if tau.ndim else tau


def check_axes(axes: Any, word: str = "axes") -> tuple[int, int]:
    if not (isinstance(axes, tuple) and len(axes) == 2):
        raise TypeError(
            f"{word} must be two integers, that of the rows and that of the columns, "
            f"got {axes!r}"
        )
    return axes
