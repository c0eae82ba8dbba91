"""The search for budgets of rows and columns, on every library."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._rows.adapter_rows import temperature_in_range
from .._rows.budget import Budget
from .._rows.namespace import loop, namespace
from ..curves import Curve
from . import root, selection_search
from .start import moments
from .weighted_least_squares import AdditiveFit

COOLING = 4
"""The search cools down to the temperature in stages of this factor."""

LONGEST_STEP = 64
"""The longest step of Newton's, in temperatures."""

STEP_LENGTHS = 16
"""At most so many lengths of a step are tried."""

_INVERSE_TOLERANCE = 10
"""A higher temperature is done if no column is off by more than a tenth."""


class BalanceOptions(NamedTuple):
    """The options of a balance; `names` has the name of the longer side first."""

    curve: Curve
    limit: int
    look: bool
    names: tuple[str, str] = ("k", "columns")


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

    def at_budgets(self, z: Any, k: Any, count: Any, heat: Any) -> tuple[Any, Any, Any]:
        """Shares, thresholds and distances of rows at their budgets."""
        xp, tau = namespace(z), (self.tau * heat)[..., None] + 0 * k
        whole = xp.floor(k)
        budget = Budget(xp.integers(whole, z), k - whole, count)
        row_moments = moments(z, xp.astype(count, z.dtype))
        p, a, t = selection_search.solved(self.curve, z, budget, tau, row_moments)
        return p, xp.where(xp.isfinite(t), a + tau * t, 0), root.distances(z, tau, a, t)

    def at_columns(self, beta: Any, heat: Any) -> _Thresholds:
        """The thresholds with these of the columns, and the errors of the columns."""
        xp, z = namespace(beta), self.x - beta[..., None, :]
        p, alpha, u = self.at_budgets(z, self.k, self.counts[0], heat)
        off = xp.sum(p, axis=-2) - self.c
        size = xp.sum(abs(off), axis=-1)
        size = xp.where(size == size, size, math.inf)
        return _Thresholds(alpha, beta, u, off, size)

    def alternate(self, alpha: Any, heat: Any) -> _Thresholds:
        """The thresholds after the columns, and then the rows, meet their budgets."""
        z = (self.x - alpha[..., None]).swapaxes(-1, -2)
        _, beta, _ = self.at_budgets(z, self.c, self.counts[1], heat)
        return self.at_columns(beta, heat)

    def newton(self, start: _Thresholds, heat: Any, done: Any) -> _Thresholds:
        """The thresholds after Newton's step, at a length that reduces errors or dual.

        The dual counts where no length reduces the errors, as near a kink of the curve.
        """
        xp, tau = namespace(heat), self.tau * heat
        step = AdditiveFit(slopes_of(self.curve, start.u)).reduced(start.off)
        longest = xp.max(abs(step), axis=-1) / LONGEST_STEP
        step, zero = tau[..., None] * step, 0 * tau

        def attempt(*given: Any) -> tuple[Any, ...]:
            at, length, low, high, tries, over = given
            new = self.at_columns(start.beta + length[..., None] * step, heat)
            good = new.size <= (1 - 0.2 * length) * start.size
            ahead = xp.sum(new.off * step, axis=-1) > 0
            at = at.or_(new, ~over & (good | ahead))
            low, high = xp.where(ahead, length, low), xp.where(ahead, high, length)
            middle = xp.sqrt(low * xp.where(high < math.inf, high, 16 * low))
            length = xp.where(low > 0, middle, high / 8)
            over = over | good | (tries >= STEP_LENGTHS)
            return at, length, low, high, tries + 1, over

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
        warm = error <= 1 / _INVERSE_TOLERANCE
        cooler = xp.where(warm, xp.clip(heat / COOLING, 1, None), heat)
        count = xp.where(done, count, count + 1)
        return new.or_(at, done), cooler, count, done | over | (count >= self.limit)


def _going(*state: Any) -> Any:
    return ~state[-1].all()


def balanced(options: BalanceOptions, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u of matrices (..., m, n), m >= n; NaN where budgets are not met."""
    xp = namespace(x)
    tau = xp.broadcast_to(tau, x.shape[:-2])
    in_range = xp.all(xp.all(x < math.inf, axis=-1), axis=-1)  # false for NaN too
    in_range = in_range & temperature_in_range(tau)
    tau = xp.where(in_range, tau, 1)
    x, k, c = _without_forced(bounded(x, tau), k, c)
    free = xp.isfinite(x)
    counts = xp.sum(free, axis=-1), xp.sum(free, axis=-2)
    least, most = (_least_entry(xp.where(free, v, math.inf)) for v in (x, -x))
    span = xp.clip((-most - least) / tau, 0, None)
    goal = xp.finfo(x.dtype).eps * (32 + span)
    y, zero = xp.where(free, x, -math.inf), xp.zeros_like(tau)
    search = _Search(options.curve, options.limit, y, k, c, tau, counts, goal)
    alpha = xp.sum(xp.where(free, x, 0), axis=-1)
    alpha = alpha / xp.astype(xp.clip(counts[0], 1, None), x.dtype)
    start = _Thresholds(alpha, 0 * c, xp.zeros_like(x), 0 * c, zero + math.inf)
    state = start, xp.clip(span / 4, 1, None), zero, zero > 0
    at = loop(_going, search.turn, state)[0]
    met = in_range & (search.errors(at) <= 16 * goal)
    return _choose(met, xp.where(free, at.u, x), math.nan)


def _without_forced(x: Any, k: Any, c: Any) -> tuple[Any, Any, Any]:
    """The scores with -inf and +inf for forced shares, and the remaining budgets.

    A budget of 0 or of all entries forces the shares of its row or column to be 0 or 1.
    Budgets that cannot be met become NaN.
    """
    xp = namespace(x)
    slack = 8 * xp.finfo(x.dtype).eps * xp.sum(k, axis=-1)[..., None]

    def remaining(x: Any) -> tuple[Any, Any]:
        """The rest of each budget, and the number of free entries minus that rest."""
        free, full = xp.isfinite(x), x == math.inf
        forced, spare = (
            [xp.astype(xp.sum(v, axis=axis), x.dtype) for axis in (-1, -2)]
            for v in (full, free)
        )
        rests = k - forced[0], c - forced[1]
        return rests, (spare[0] - rests[0], spare[1] - rests[1])

    def step(x: Any, _: Any) -> tuple[Any, Any]:
        free = xp.isfinite(x)
        empty, full = (
            free & ((rows <= slack)[..., None] | (columns <= slack)[..., None, :])
            for rows, columns in remaining(x)
        )
        x = xp.where(empty, -math.inf, xp.where(full, math.inf, x))
        return x, ~(empty | full).any()

    x, _ = loop(lambda x, done: ~done, step, (x, ~xp.isfinite(x).any()))
    rests, spare = remaining(x)
    met = [(b >= -slack).all(-1) for b in (*rests, *spare)]
    met = ((met[0] & met[1]) & (met[2] & met[3]))[..., None]
    k, c = (xp.where(met, xp.where(b > slack, b, 0), math.nan) for b in rests)
    return x, k, c


def _least_entry(x: Any) -> Any:
    """The least entry of each matrix."""
    xp = namespace(x)
    return xp.min(xp.min(x, axis=-1), axis=-1)


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    """where with one condition for each matrix."""
    condition = condition.reshape(condition.shape + (1,) * (yes.ndim - condition.ndim))
    return namespace(yes).where(condition, yes, no)


def slopes_of(curve: Curve, u: Any) -> Any:
    """The slopes W; 0 for a forced share."""
    xp = namespace(u)
    return xp.where(xp.isfinite(u), curve.slope(unforced(u)), 0)


def balanced_shares(curve: Curve, u: Any) -> Any:
    """f(u), also at u = -inf and +inf; NaN stays NaN."""
    xp = namespace(u)
    ends = xp.where(u > 0, 1, xp.where(u < 0, 0, u))
    return xp.where(xp.isfinite(u), curve.value(unforced(u)), ends)


def unforced(u: Any) -> Any:
    """u, with 0 for a forced share."""
    xp = namespace(u)
    return xp.where(xp.isfinite(u), u, 0)


def bounded(x: Any, tau: Any) -> Any:
    """Matrices ``(..., m, n)`` with huge scores, such as a mask, brought closer.

    Scores are huge if their size is 2^40 times that of the next smaller one, and that
    many temperatures.  The shares are those of the limit in which they go to infinity,
    from where an exchange of one of them is worth more than all other scores.
    """
    xp, (m, n) = namespace(x), x.shape[-2:]
    if m * n < 2:
        return x
    tau = xp.zeros_like(x[..., 0, 0]) + tau
    on = xp.isfinite(x)
    size = abs(xp.where(on, x, 0))

    def reached(most: Any) -> Any:
        """The largest size without a gap above one that was reached before."""
        limit = (2.0**40 * xp.maximum(most, tau))[..., None, None]
        return xp.max(xp.max(xp.where(size <= limit, size, 0), axis=-1), axis=-1)

    least = xp.min(xp.min(xp.where(on, size, math.inf), axis=-1), axis=-1)
    least = xp.where(least < math.inf, least, 0)
    most, _ = loop(
        lambda most, following: (following > most).any(),
        lambda _, following: (following, reached(following)),
        (least, xp.maximum(least, reached(least))),
    )
    bound = ((m + n) * (2 * most + 2.0**10 * tau))[..., None, None]
    huge = on & (size > most[..., None, None])
    return xp.where(huge, xp.where(x > 0, bound, -bound), x)
