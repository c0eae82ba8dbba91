r"""The threshold of a budget with costs, for every curve and array library.

.. math:: \sum_ic_if(u_i)=K,\qquad u_i=\frac{x_i-\lambda s_i}\tau,

with :math:`s_i=c_i` if a score is the value of an entry, and :math:`s_i=1` if it is the
value for each unit of cost.  The search is that of `root`, with sums in which an entry
has the weight :math:`c_i`.  It starts from a bracket that holds for every curve: with
:math:`q=K/\sum c`,

.. math:: \min_i\frac{x_i-\tau f^{-1}(q)}{s_i}\le\lambda
          \le\max_i\frac{x_i-\tau f^{-1}(q)}{s_i},

since all shares are at least q at the lower end and at most q at the upper end.

Three results suffer from cancellation, and are computed with more digits than the type
has: the differences :math:`x_i-as_i`; the sum of the costs of the entries whose share
is above 1/2; and the budget minus this sum.  All other sums have terms
:math:`c_i\min(p_i,1-p_i)`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._rows.adapter_rows import temperature_in_range
from .._rows.namespace import is_nan, loop, namespace
from .._rows.numpy_rows import as_column
from ..curves import Curve
from . import exact_sums
from .root import LIMIT, decide, ends, leads_back, narrow
from .start import State, follow, rebase, started


class RowsWithCosts(NamedTuple):
    """Rows with costs.

    Attributes
    ----------
    x, c : (..., n) arrays
        Scores and costs; both are 0 where an entry takes no part.
    halves : pair of (..., n) arrays, or None
        The halves of c (`exact_sums.halves`) if a score is the value of an entry, else
        None.
    parts : three (..., n) arrays
        c in parts that can be summed exactly.
    whole, part : (...) arrays
        The budget is their sum.
    tau : () or (...) array, or a number
    """

    x: Any
    c: Any
    halves: Any
    parts: Any
    whole: Any
    part: Any
    tau: Any

    def entry_offsets(self, t: Any) -> Any:
        """s t, with one t for each row."""
        return t[..., None] if self.halves is None else t[..., None] * self.c

    def distances(self, a: Any) -> Any:
        """(x - a s) / tau."""
        a = a[..., None]
        if self.halves is None:
            return (self.x - a) / as_column(self.tau)
        away = exact_sums.minus_product(self.x, exact_sums.halves(a), self.halves)
        return away / as_column(self.tau)

    def at_threshold(self, a: Any, t: Any) -> Any:
        """u = (x - lambda s) / tau at lambda = a + tau t."""
        return self.distances(a) - self.entry_offsets(t)

    def remaining(self, taken: Any) -> Any:
        """The budget minus the costs of the entries where `taken` is true."""
        xp = namespace(taken)
        costs = [xp.sum(xp.where(taken, v, 0), axis=-1) for v in self.parts]
        return remaining_budget(self.whole, self.part, costs)


def remaining_budget(whole: Any, part: Any, costs: Any) -> Any:
    """The budget whole + part minus the costs, which are given as three sums."""
    return exact_sums.exact_total([whole, -costs[0], part, -costs[1], -costs[2]])


def rows_with_costs(
    x: Any, c: Any, whole: Any, part: Any, tau: Any, per: str
) -> RowsWithCosts:
    """Rows of finite scores, with costs that are 0 where an entry takes no part."""
    halves = exact_sums.halves(c) if per == "entry" else None
    return RowsWithCosts(x, c, halves, exact_sums.summable(c), whole, part, tau)


def begin_costs(curve: Curve, rows: RowsWithCosts) -> State:
    """The bracket, and a first guess: Newton's step if all slopes were equal."""
    xp, c, on = namespace(rows.x), rows.c, rows.c > 0
    eps, tiny = (getattr(xp.finfo(c.dtype), v) for v in ("eps", "tiny"))
    s = xp.where(on, c, 1) if rows.halves else xp.ones_like(c)
    weight = xp.sum(c, axis=-1)
    money = xp.sum(c * s, axis=-1)
    a = xp.sum(rows.x * (c / money[..., None]), axis=-1)
    q = xp.clip(rows.whole / weight, tiny, 1 - eps)
    middle = curve.inverse(q)
    d = rows.distances(a)
    slack = (2.0**-6 * (1 + abs(middle)))[..., None] + 8 * eps * abs(d)
    # If the budget is this close to the sum of all costs, q has been rounded and
    # clipped.  The exact 1 - q may be much smaller, and the exact inverse may lie far
    # above `middle`.  So the lower end is moved down by 4 (1 + |middle|).  If 1 - f(u)
    # falls like e^-u, then `middle` is about log(1 / eps), and this is far enough for
    # all 1 - q down to about eps^5.  Where it is not far enough, for a smaller 1 - q or
    # another curve, all shares at the lower end are nevertheless 1 up to rounding.
    full = xp.where(rows.whole >= (1 - 8 * eps) * weight, 4 * (1 + abs(middle)), 0)
    low = (d - middle[..., None] - slack - full[..., None]) / s
    high = (d - middle[..., None] + slack) / s
    low = xp.min(xp.where(on, low, math.inf), axis=-1)
    high = xp.max(xp.where(on, high, -math.inf), axis=-1)
    t = -middle * (weight / money)
    return started(a, t, low, high, rows.tau)


def advance_costs(
    curve: Curve, rows: RowsWithCosts, at: State, count: Any, steep: Any
) -> State:
    """The next state, from the sums over the rows at `at`.

    A row has converged if its excess is no larger than the rounding error of its sums,
    2 eps (P + C), or if the bracket is so narrow that no u can change by more than
    eps / 64.  `steep` is the largest s of the row, by which u changes most.

    An excess that the rounding of the u could explain does not end the search.  If the
    slope jumps nearby, the same excess may come from a threshold that is far off on the
    other side of the jump.
    """
    a, search, done = at
    u, t, xp = rows.at_threshold(a, search.t), search.t, namespace(rows.x)
    eps = xp.finfo(rows.c.dtype).eps
    p, q = curve.value(u), curve.complement(u)
    high, w = p > q, rows.c * curve.slope(u)
    P = xp.sum(xp.where(high, 0, rows.c * p), axis=-1)
    C = xp.sum(xp.where(high, rows.c * q, 0), axis=-1)
    W = xp.sum(w * rows.c if rows.halves else w, axis=-1)
    excess = (P - C) - rows.remaining(high)
    excess = xp.where(abs(excess) <= 2 * eps * (P + C), 0, excess)
    step = excess / W
    if not rows.halves:  # the sums are those of c_i equal entries, as the step assumes
        S = P
        if curve.needs_sum:
            S = xp.sum(xp.where(u <= curve.support[1], rows.c * p, 0), axis=-1)
        step = curve.step(excess, P, C, W, S)
    proposal = t + xp.where(excess == 0, 0, step)
    search = narrow(search, excess)
    proposal = xp.where(leads_back(search, excess, proposal), math.nan, proposal)
    found, _ = decide(search, excess, proposal, count)
    narrowed = (search.high - search.low) * steep <= eps / 64
    settled = (excess == 0) | narrowed | (found.t == t)
    t = xp.where(done | settled, t, found.t)
    return follow(State(a, found._replace(t=t), done | settled), rows.tau)


def solve_costs(curve: Curve, rows: RowsWithCosts, inner: Any) -> tuple[Any, Any]:
    """Anchors and offsets of the `inner` rows, with 0 < K < the sum of the costs."""
    xp = namespace(rows.x)
    steep = xp.max(rows.c, axis=-1) if rows.halves else xp.ones_like(rows.c[..., 0])

    def going(count: Any, at: State) -> Any:
        return (count < LIMIT) & ~at.done.all()

    def step(count: Any, at: State) -> tuple[Any, State]:
        return count + 1, advance_costs(curve, rows, at, count, steep)

    start = begin_costs(curve, rows)
    _, at = loop(going, step, (0, start._replace(done=start.done | ~inner)))
    a, t = at.anchor, at.search.t
    return middle_price(curve, rows, a, t) if ends(curve) else (a, t)


def middle_price(curve: Curve, rows: RowsWithCosts, a: Any, t: Any) -> tuple[Any, Any]:
    """The thresholds; where they are an interval with all shares 0 or 1, its middle.

    The upper end is the first threshold at which the share of an entry above falls
    below 1, the lower end the one at which the share of another entry becomes positive.
    """
    xp = namespace(rows.x)
    up, down, above = interval(curve, rows, a, t)
    up = xp.min(xp.where(above & (rows.c > 0), up, math.inf), axis=-1)
    down = xp.max(xp.where(~above & (rows.c > 0), down, -math.inf), axis=-1)
    flat = (rows.remaining(above) == 0) & (up >= down)
    middle, rest = rebase(a, 0.5 * up + 0.5 * down, rows.tau)
    return xp.where(flat, middle, a), xp.where(flat, rest, t)


def interval(curve: Curve, rows: RowsWithCosts, a: Any, t: Any) -> tuple[Any, Any, Any]:
    """The offsets at which each entry's share reaches 1 and 0, and which are above."""
    xp, d, (least, most) = namespace(rows.x), rows.distances(a), curve.support
    above = d - rows.entry_offsets(t) > curve.centre
    s = xp.where(rows.c > 0, rows.c, 1) if rows.halves else 1
    return (d - most) / s, (d - least) / s, above


class CostsOptions(NamedTuple):
    """What a solution depends on besides arrays: the curve and `per`."""

    curve: Curve
    per: str


def budget_in_range(
    xp: Any, on: Any, whole: Any, part: Any, c: Any
) -> tuple[Any, Any, Any]:
    """Whether costs and budget of a row are in range, the costs, and K - sum c.

    The returned costs are 0 where an entry takes no part, and 1 in rows out of range.
    A caller who wants all entries passes the rounded sum of the costs as the budget, so
    a budget that exceeds the exact sum by no more than rounding is in range.
    """
    tiny = float(xp.finfo(c.dtype).tiny)
    ordinary = (c >= tiny) & (c <= 1 / tiny)
    in_range = xp.all(ordinary | ~on, axis=-1)
    c = xp.where(on, xp.where(in_range[..., None], c, 1), 0)
    parts = [xp.sum(v, axis=-1) for v in exact_sums.summable(c)]
    rest = remaining_budget(whole, part, parts)
    most = c.shape[-1] * xp.finfo(c.dtype).eps * parts[0]
    in_range = in_range & (whole >= 0) & (rest <= most) & (parts[0] < math.inf)
    return in_range, c, rest


def spent(
    options: CostsOptions, x: Any, whole: Any, part: Any, c: Any, tau: Any
) -> tuple[Any, Any, Any]:
    """Shares, anchors and offsets of rows with costs.

    The offset is +inf if the budget is 0 and -inf if all entries are selected.  The
    results of a row out of range are NaN, as are those of a row whose threshold, or a
    distance to it, overflows.
    """
    xp, on = namespace(x), x > -math.inf
    in_range, c, rest = budget_in_range(xp, on, whole, part, c)
    in_range = in_range & xp.all((x < math.inf) & (x == x), axis=-1)
    tau_in_range = temperature_in_range(tau)
    in_range = in_range & tau_in_range
    inner = in_range & (whole + part > 0) & (rest < 0)
    scale = xp.where(tau_in_range, tau, 1)
    safe = xp.where(inner, whole, 0.5), xp.where(inner, part, 0)
    x = xp.where(on & inner[..., None], x, 0)
    c = xp.where(inner[..., None], c, 1)
    given = rows_with_costs(x, c, *safe, scale, options.per)
    a, t = solve_costs(options.curve, given, inner)
    outer = xp.where(whole + part > 0, -math.inf, xp.full_like(t, math.inf))
    t = xp.where(in_range, xp.where(inner, t, outer), math.nan)
    a = xp.where(inner, a, 0)
    u = given.at_threshold(a, xp.where(inner, t, 0))
    near = xp.all(abs(u) < math.inf, axis=-1)
    t = xp.where(near | ~inner, t, math.nan)
    p = options.curve.value(xp.where(abs(u) < math.inf, u, 0))
    all_or_none = xp.where(is_nan(t), t, xp.where(t < 0, xp.ones_like(t), 0))
    p = xp.where((inner & near)[..., None], p, all_or_none[..., None])
    return xp.where(on, p, xp.where(is_nan(t), t, 0)[..., None]), a, t
