r"""Two budgets over the namespace: the search, and the derivatives by everything.

With :math:`u=(S-\alpha-\beta)/\tau` the shares are f(u), and the budgets are sums of
the weights :math:`W=f'(u)` times

.. math:: du_{ij}=\frac{dS_{ij}-u_{ij}\,d\tau-a_i-b_j}\tau,\qquad
          \begin{pmatrix}D_r&W\\W^\top&D_c\end{pmatrix}
          \begin{pmatrix}a\\b\end{pmatrix}
          =\begin{pmatrix}\sum_jW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dk_i\\
          \sum_iW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dc_j\end{pmatrix}.

So u and the temperature are all that a derivative needs.  `push` and `pull` are written
in them: u is an output, and the rule for it is applied again in derivatives of higher
order.  An entry without a choice has u = -inf (share 0) or +inf (share 1), and NaN
where budgets are not met.  Derived in *training/balance*.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._namespace import loop, namespace
from .._rows import real_number, real_numbers
from .._solve import root
from .._solve.additive import Additive
from ..balance import _balance, _check_axes, _problem
from ..curves import Curve, resolve
from . import selection
from .rows import _fit, as_rows

__all__ = ["balanced_topk"]

_COOLING = 4.0  # the temperatures before the last fall by this factor
_NEAR = 1e-1  # what the columns may be off by there
_STRIDE = 64.0  # temperatures; no step of Newton's is longer
_LENGTHS = 16  # of a step, to try
_SAME = 4096  # eps by which the two totals may differ


def balanced_topk(
    xp: Any,
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
        What the shares of a row sum to; it broadcasts to one for each row, ``(..., m)``.
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
    axes = _check_axes(axes)
    simple = type(rounds) is int and rounds >= 1  # what a compiler can follow
    limit = rounds if simple else int(real_number(rounds, "rounds", least=1))
    flat = as_rows(xp, S, 1, temperature, axes, where, "S")
    call = Call(resolve(curve), limit, bool(xp.looks(flat.x, check)))
    batch, (low, high) = tuple(flat.x.shape[:-1]), flat.sizes
    x = xp.reshape(flat.x, (*batch, low, high))
    ascending = axes[0] % (len(batch) + 2) < axes[1] % (len(batch) + 2)
    m, n = (low, high) if ascending else (high, low)
    first = _budgets(xp, k, (*batch, m), "k", x)
    if columns is None:
        second = xp.broadcast_to(first.sum(-1)[..., None] / n, (*batch, n))
    else:
        second = _budgets(xp, columns, (*batch, n), "columns", x)
        second = second * _ratio(xp, first.sum(-1), second.sum(-1), call)[..., None]
    turned = low < high
    sides, names = (first, second), ("k", "columns")
    if ascending == turned:
        sides, names = sides[::-1], names[::-1]
    given = x.swapaxes(-1, -2) if turned else x
    p = xp.balance(call._replace(names=names), given, *sides, flat.tau)
    p = p.swapaxes(-1, -2) if turned else p
    return flat.expand(xp, xp.reshape(p, (*batch, low * high)))


class Call(NamedTuple):
    """What is not an array: `names` are those of the longer side and of the other."""

    curve: Curve
    limit: int
    look: bool
    names: tuple[str, str] = ("k", "columns")


def _budgets(xp: Any, given: Any, shape: tuple[int, ...], name: str, like: Any) -> Any:
    """One budget for each row, or each column, of every matrix."""
    if xp.is_array(given):
        if not xp.is_real(given):
            raise TypeError(f"{name} must hold real numbers, got {given.dtype}")
        values = xp.astype(xp.replicate(given, like), like.dtype)
    else:
        number = type(given) in (int, float)  # what a compiler can follow
        values = xp.numbers(given if number else real_numbers(given, name), like)
    return _fit(xp, values, shape, name)


def _ratio(xp: Any, k: Any, c: Any, call: Call) -> Any:
    """What scales the columns to the rows' total; NaN beyond rounding."""
    differs = abs(k - c) > _SAME * xp.finfo(k.dtype).eps * k
    if call.look and bool(differs.any()):
        i = xp.argmax(differs.reshape(-1))
        k, c = (float(v.reshape(-1)[i]) for v in (k, c))
        raise ValueError(
            f"k and columns must have the same sum, got {k:.17g} and {c:.17g}"
        )
    ratio = xp.where(c > 0, k, 1) / xp.where(c > 0, c, 1)
    return xp.where(differs, math.nan, ratio)


def on_numpy(call: Call, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u by the core's search, which raises and warns."""
    k, c, tau = (np.asarray(v, np.float64) for v in (k, c, tau))
    c = c * (k.sum(-1) / np.where(c.any(-1), c.sum(-1), 1))[..., None]
    u, tau = np.empty(x.shape), np.broadcast_to(tau, x.shape[:-2])
    for i in np.ndindex(x.shape[:-2]):
        scores = np.asarray(x[i], np.float64)
        one = _problem(scores, k[i], c[i], call.names)
        at = _balance(call.curve, one, float(tau[i]), call.limit, call.names)
        with np.errstate(all="ignore"):
            free = (one.x - at.beta - at.anchor[:, None]) / tau[i] - at.offset[:, None]
        free = np.where(np.isfinite(one.x), free, -np.inf)
        u[i] = np.where(one.known > 0, np.inf, free)
    return u


class _Thresholds(NamedTuple):
    """Of the rows and the columns, the rows at their budgets."""

    alpha: Any
    beta: Any
    u: Any
    off: Any  # what the columns have too much
    size: Any  # that in all, or inf

    def where(self, better: Any, other: _Thresholds) -> _Thresholds:
        """The other where it is better, matrix by matrix."""
        pairs = zip(self, other, strict=True)
        return _Thresholds(*(_choose(better, b, a) for a, b in pairs))


def solved(call: Call, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u of matrices (..., m, n), m >= n; NaN where budgets are not met.

    A round holds the columns at their budgets, then the rows, and takes a part of
    Newton's step from there where that is of use: the alternation alone would arrive.
    """
    xp, eps = namespace(x), namespace(x).finfo(x.dtype).eps
    tau = xp.broadcast_to(tau, x.shape[:-2])
    fits = _least(-x) > -math.inf
    fits = fits & (tau > 0) & (tau < math.inf)
    tau = xp.where(fits, tau, 1)
    x, k, c = _forced(x, k, c)
    free = xp.isfinite(x)
    y = xp.where(free, x, -math.inf)
    span = -_least(-y) - _least(xp.where(free, x, math.inf))
    span = xp.clip(span / tau, 0, None)
    goal = eps * (32 + span)
    counts = xp.sum(free, axis=-1), xp.sum(free, axis=-2)

    def hold(z: Any, budget: Any, count: Any, heat: Any) -> tuple[Any, Any, Any]:
        """Shares, thresholds and distances of rows at their budgets."""
        t, whole = (tau * heat)[..., None] + 0 * budget, xp.floor(budget)
        given = root.Budget(xp.integers(whole, x), budget - whole, count)
        p, a, offset = selection.solved(call.curve, z, given, t, False)
        level = xp.where(xp.isfinite(offset), a + t * offset, 0)
        return p, level, root.distances(z, t, a, offset)

    def rows(beta: Any, heat: Any) -> _Thresholds:
        p, alpha, u = hold(y - beta[..., None, :], k, counts[0], heat)
        off = xp.sum(p, axis=-2) - c
        size = xp.sum(abs(off), axis=-1)
        size = xp.where(size == size, size, math.inf)
        return _Thresholds(alpha, beta, u, off, size)

    def errors(at: _Thresholds) -> Any:
        """The largest error of a column, as a share of its budget."""
        return xp.max(abs(at.off) / xp.where(c > 0, c, math.inf), axis=-1)

    def newton(turn: _Thresholds, heat: Any, done: Any) -> _Thresholds:
        """A step of Newton's as in the core: the errors shrink, or the dual does."""
        step = (tau * heat)[..., None] * Additive(_slopes(call.curve, turn.u)).reduced(
            turn.off
        )
        longest = xp.max(abs(step), axis=-1) / (_STRIDE * tau * heat)

        def attempt(*given: Any) -> tuple[Any, ...]:
            at, length, low, high, tries, over = given
            new = rows(turn.beta + length[..., None] * step, heat)
            good = new.size <= (1 - 0.2 * length) * turn.size
            ahead = xp.sum(new.off * step, axis=-1) > 0
            at = at.where(~over & (good | ahead), new)
            low, high = xp.where(ahead, length, low), xp.where(ahead, high, length)
            middle = xp.sqrt(low * xp.where(high < math.inf, high, 16 * low))
            length = xp.where(low > 0, middle, high / 8)
            return at, length, low, high, tries + 1, over | good | (tries >= _LENGTHS)

        length = 1 / xp.clip(longest, 1, None)
        state = turn, length, zero, zero + math.inf, zero, done | ~(longest < math.inf)
        return loop(lambda *at: ~at[-1].all(), attempt, state)[0]

    def round_(*given: Any) -> tuple[Any, ...]:
        at, heat, count, done = given
        turned = (y - at.alpha[..., None]).swapaxes(-1, -2)
        turn = rows(hold(turned, c, counts[1], heat)[1], heat)
        new = newton(turn, heat, done)
        error, last = errors(new), heat == 1
        settled = (error <= 16 * goal) & ~(new.size < at.size)
        over = last & ((error <= goal) | settled) | ~(new.size < math.inf)
        count = xp.where(done, count, count + 1)
        over = done | over | (count >= call.limit)
        new = new._replace(size=xp.where(last, new.size, math.inf))
        cooler = xp.clip(heat / _COOLING, 1, None)
        return new.where(done, at), xp.where(error <= _NEAR, cooler, heat), count, over

    zero = xp.zeros_like(tau)
    alpha = xp.sum(xp.where(free, x, 0), axis=-1) / xp.clip(counts[0], 1, None)
    start = _Thresholds(alpha, 0 * c, xp.zeros_like(x), 0 * c, zero + math.inf)
    state = start, xp.clip(span / 4, 1, None), zero, tau != tau
    at = loop(lambda *at: ~at[-1].all(), round_, state)[0]
    fits = fits & (errors(at) <= 16 * goal)
    return _choose(fits, xp.where(free, at.u, x), math.nan)


def _forced(x: Any, k: Any, c: Any) -> tuple[Any, Any, Any]:
    """-inf and +inf for shares of 0 and 1 that budgets leave no choice for.

    And what they leave of the budgets: NaN where that cannot be met.
    """
    xp = namespace(x)
    least = 8 * xp.finfo(x.dtype).eps * xp.sum(k, axis=-1)[..., None]

    def left(x: Any) -> tuple[Any, Any]:
        """What is left of the budgets of rows and columns, and of their entries."""
        free, full = xp.isfinite(x), x == math.inf
        rests = [b - xp.sum(full, axis=i) for b, i in ((k, -1), (c, -2))]
        return rests, [xp.sum(free, axis=i) - b for b, i in zip(rests, (-1, -2))]

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
    k, c = (
        xp.where(fits, xp.where(b > least, b, 0), math.nan) for b in rests
    )
    return x, k, c


def _least(x: Any) -> Any:
    """Of each matrix."""
    xp = namespace(x)
    return xp.min(xp.min(x, axis=-1), axis=-1)


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    """Matrix by matrix."""
    wide = condition.reshape(condition.shape + (1,) * (yes.ndim - condition.ndim))
    return namespace(yes).where(wide, yes, no)


def _slopes(curve: Curve, u: Any) -> Any:
    """W, 0 for shares without a choice."""
    xp = namespace(u)
    on = xp.isfinite(u)
    return xp.where(on, curve.slope(xp.where(on, u, 0)), 0)


def shares(curve: Curve, u: Any) -> Any:
    """f(u)."""
    xp = namespace(u)
    on = xp.isfinite(u)
    ends = xp.where(u > 0, 1, xp.where(u < 0, 0, u))
    return xp.where(on, curve.value(xp.where(on, u, 0)), ends)


def push(
    curve: Curve, at: tuple[Any, Any], dS: Any, dk: Any, dc: Any, dtau: Any
) -> tuple[Any, Any]:
    """The changes of the shares and of u; `at` holds u and tau."""
    u, W, tau = _point(curve, *at)
    G = dS - u * _matrix(dtau)
    scale = tau[..., 0] if tau.ndim else tau
    left, a, b = Additive(W).rest(W * G, scale * dk, scale * dc)
    du = (G - a[..., None] - b[..., None, :]) / tau
    return left / tau, namespace(u).where(W > 0, du, 0)


def pull(
    curve: Curve, at: tuple[Any, Any], gp: Any, gu: Any
) -> tuple[Any, Any, Any, Any]:
    """The gradients by S, k, columns and tau, from those by the shares and by u."""
    u, W, tau = _point(curve, *at)
    g = 0 * W if gp is None else W * gp
    if gu is not None:
        g = g + namespace(u).where(W > 0, gu, 0)
    left, gk, gc = Additive(W).rest(g)
    gS = left / tau
    gtau = -(gS * u).sum((-2, -1))
    return gS, gk, gc, gtau if at[1].ndim else gtau.sum()


def _point(curve: Curve, u: Any, tau: Any) -> tuple[Any, Any, Any]:
    """u where a share has a choice, the slopes, and tau beside a matrix."""
    on = namespace(u).isfinite(u)
    return namespace(u).where(on, u, 0), _slopes(curve, u), _matrix(tau)


def _matrix(tau: Any) -> Any:
    return tau[..., None, None] if tau.ndim else tau
