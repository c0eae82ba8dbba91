r"""Sums over the subsets of k entries, by polynomials.

`in_top_k_loss` takes `quotient` for small k, with all that follows.  `sample_topk`
takes `products` alone, at any k, of the chances of its coins: they need no scaling, as
no coefficient exceeds 1.

With weights :math:`\theta_i=e^{(x_i-a)/\tau}` the sum over the k-subsets is
:math:`e_k=[z^k]\prod_i(1+\theta_iz)`.  `solved_quotient` computes
:math:`\log(e_k/e_{k-1})`, and `quotient_slopes` its derivatives by :math:`x/\tau`, the
shares of the k-subsets less those of the (k-1)-subsets.  The anchor a is the k-th
largest score, and a factor with :math:`\theta>1` is divided by :math:`\theta`, which
divides both sums alike.  Then no coefficient exceeds :math:`\binom nk`, and both sums
are at least 1.

The M largest scores, the *loud* ones, are multiplied in pairs, pairs of pairs and so
on: positive numbers only.  The *quiet* others enter through their power sums
:math:`s_j=\sum\theta_i^j` and Newton's identities
:math:`jq_j=\sum_{i=1}^j(-1)^{i-1}q_{j-i}s_i`, k passes over the row.  These subtract; a
rounding error of :math:`q_j` is a few units of
:math:`h_j=[z^j]\prod1/(1-\theta_iz)`, the same sum with plus signs.  So it is
multiplied by at most

.. math:: \frac{[z^k]L(z)\prod_{\text{quiet}}\frac1{1-\theta_iz}}{e_k}
          \le\frac1{1-\beta},\qquad\beta=\frac{k(k-1)}{2(M-k+2)},

which is below 2 for :math:`M\ge k(k+1)`.  *computing/marginals* proves this.
The weight of entry i in :math:`e_k` is :math:`\theta_i` times the sum over the
(k-1)-subsets of the others: for a quiet entry
:math:`\sum_s(-\theta_i)^se_{k-1-s}`, for a loud one a product over the tree without i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .._contract import Adapter
from .._rows.numpy_rows import as_column

_LARGEST_K = 8
"""The largest k that is taken: the products over the loud entries cost O(k^4)."""

_WEIGHTLESS_DISTANCE = 1e4
"""The distance, in temperatures, of an entry that takes no part: its weight is 0."""


class Quotient(NamedTuple):
    """What `quotient_slopes` needs of rows ``(..., n)``.

    Attributes
    ----------
    log : (...) array
        log of e_k / e_{k-1}, where the scores are counted from `own`.
    some : (...) array of bool
        Whether k entries take part.  Elsewhere `log` is -inf.
    middle : (...) array
        The anchor less `own`, in temperatures.
    sums : tuple of (...) arrays
        e_0, ..., e_k.
    quiet : tuple of (...) arrays
        Those of the quiet entries alone.
    weight : (..., n) array, or None
        The weights of the quiet entries, 0 at others.
    index : (..., M) array, or None
        The indices of the loud entries; None if all are.
    levels : tuple of arrays
        The polynomials of the loud entries, of pairs, of pairs of pairs and so on, with
        their coefficients along the last axis.
    """

    log: Any
    some: Any
    middle: Any
    sums: Any
    quiet: Any
    weight: Any
    index: Any
    levels: Any


def applies(xp: Adapter, k: Any, x: Any) -> bool:
    """Whether `solved_quotient` takes rows x with this k."""
    if type(k) is not int or not 0 < k <= min(_LARGEST_K, x.shape[-1] - 1):
        return False
    if xp.is_divided(x):
        return False
    # Products of two coefficients have to stay in the range.
    return 2 * k * math.log(x.shape[-1]) < math.log(float(xp.finfo(x.dtype).max))


def quotient(
    xp: Adapter, k: int, x: Any, own: Any, tau: Any
) -> tuple[Any, Any, Callable[[], Any]]:
    """`log` and `some` of `Quotient`, and what calculates the slopes."""
    found = xp.quotient(k, x, own, tau)
    if found is not None:
        return found[0], found[1], lambda: found[2]
    at = xp.program(with_k(solved_quotient, k), x, own, tau)
    return at.log, at.some, lambda: xp.program(with_k(quotient_slopes, k), x, at)


def with_k(f: Any, k: int) -> Any:
    """f at this k; the adapter of JAX makes equal ones one object."""
    return partial(_called, f, k)


def _called(f: Any, k: int, xp: Adapter, *args: Any) -> Any:
    return f(xp, k, *args)


def solved_quotient(xp: Adapter, k: int, x: Any, own: Any, tau: Any) -> Quotient:
    """The quotient of rows from which the entry with the score `own` is left out."""
    n, m = x.shape[-1], 1 << (k * (k + 1) - 1).bit_length()
    fixed = xp.detach(x)
    index = xp.highest(fixed, m) if n > m else None
    loud = x if index is None else xp.take(x, index)
    a = xp.largest(xp.detach(loud), k)
    some = a > -math.inf
    a = xp.where(some, a, 0)
    sums, levels = products(xp, k, *_linear_factors(xp, loud, a, tau))
    quiet, weight = (xp.ones_like(a),), None
    if index is not None:
        away = xp.put(x - a[..., None], index, -math.inf)
        weight, powers = xp.weights(k, away, tau)
        quiet = _from_powers(xp, powers)
        sums = _times(xp, sums, xp.concat([v[..., None] for v in quiet], axis=-1), k)
    e = tuple([sums[..., j] for j in range(k + 1)])
    e = (*e[: k - 1], *(xp.where(some, v, 1) for v in e[k - 1 :]))
    middle = (a - own) / tau
    log = xp.where(some, xp.log(e[k] / e[k - 1]) + middle, -math.inf)
    return Quotient(log, some, middle, e, quiet, weight, index, levels)


def quotient_slopes(xp: Adapter, k: int, x: Any, at: Quotient) -> Any:
    """The derivatives ``(..., n)`` of `log` by rows x / tau, which sum to 1.

    0 where `some` is false.
    """
    e, q = at.sums, at.quiet
    # where fewer than k take part, all slopes are 0
    upper = xp.where(at.some, 1 / e[k], 0)
    lower = xp.where(at.some, 1 / e[k - 1], 0) if k > 1 else 0 * upper
    others = xp.ones_like(e[0])[..., None, None]
    for level in at.levels[-2::-1]:
        half = level.shape[-2] // 2
        sides = level[..., half:, :], level[..., :half, :]
        others = xp.concat([_times(xp, others, v, k - 1) for v in sides], axis=-2)
    share = 0.0
    for j in range(k):
        # the quiet entries have the k - 1 - j, or k - 2 - j, other places
        weight = q[k - 1 - j] * upper if k - 1 - j < len(q) else 0 * upper
        if 0 <= k - 2 - j < len(q):
            weight = weight - q[k - 2 - j] * lower
        share = share + others[..., j] * weight[..., None]
    share = at.levels[0][..., 1] * share
    if at.index is None:
        return share[..., : x.shape[-1]]
    # Horner's scheme for theta times the sum over s of (-theta)^s (...)
    terms = [e[k - 1 - s] * upper for s in range(k)]
    terms = [t - e[k - 2 - s] * lower for s, t in enumerate(terms[:-1])] + terms[-1:]
    return xp.put(xp.horner(terms, at.weight), at.index, share)


def weights(xp: Adapter, k: int, away: Any, tau: Any) -> tuple[Any, list[Any]]:
    """exp(away / tau), and the sums of its powers 1, ..., k."""
    power = weight = xp.exp(_in_temperatures(xp, away, tau))
    sums = [xp.sum(weight, axis=-1)]
    for _ in range(k - 1):
        power = power * weight
        sums.append(xp.sum(power, axis=-1))
    return weight, sums


def horner(terms: list[Any], weight: Any) -> Any:
    """w (t_0 - w (t_1 - w (t_2 - ...)))."""
    found = terms[-1][..., None]
    for term in terms[-2::-1]:
        found = term[..., None] - weight * found
    return weight * found


def _in_temperatures(xp: Adapter, away: Any, tau: Any) -> Any:
    """Distances over the temperature, also where nothing or too much is away.

    Infinite ones would give the derivative by the temperature NaN.
    """
    tau_column = as_column(tau)
    bound = _WEIGHTLESS_DISTANCE * xp.detach(tau_column)
    return xp.clip(away, -bound, bound) / tau_column


def _linear_factors(xp: Adapter, x: Any, a: Any, tau: Any) -> tuple[Any, Any]:
    """The factors u + v z of entries, with the larger of both coefficients 1."""
    away = _in_temperatures(xp, x - a[..., None], tau)
    top = away > 0
    r = xp.exp(xp.where(top, -away, away))  # at 0 the slope of abs is neither side's
    return xp.where(top, r, 1), xp.where(top, xp.ones_like(r), r)


def products(xp: Adapter, k: int, u: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
    """The product of u + v z over the last axis up to z^k, and the products below."""
    level = xp.concat([u[..., None], v[..., None]], axis=-1)
    m = level.shape[-2]
    short = (1 << max(m - 1, 1).bit_length()) - m
    if short:
        unit = xp.concat([xp.ones_like(u[..., :1]), xp.zeros_like(u[..., :1])], axis=-1)
        level = xp.concat([level, *[unit[..., None, :]] * short], axis=-2)
    levels = [level]
    while level.shape[-2] > 1:
        half = level.shape[-2] // 2
        level = _times(xp, level[..., :half, :], level[..., half:, :], k)
        levels.append(level)
    return level[..., 0, :], tuple(levels)


def _times(xp: Adapter, a: Any, b: Any, k: int) -> Any:
    """The product of polynomials up to z^k, coefficients along the last axis."""
    if a.shape[-1] > b.shape[-1]:
        a, b = b, a
    width = min(a.shape[-1] + b.shape[-1] - 1, k + 1)
    out: Any = None
    for i in range(min(a.shape[-1], width)):
        part = a[..., i : i + 1] * b[..., : min(width - i, b.shape[-1])]
        rest = width - i - part.shape[-1]
        if i == 0:
            none = xp.zeros_like(part)
        ends = ([none[..., :i]] if i else []), ([none[..., :rest]] if rest else [])
        part = xp.concat([*ends[0], part, *ends[1]], axis=-1) if i or rest else part
        out = part if out is None else out + part
    return out


def _from_powers(xp: Adapter, sums: list[Any]) -> tuple[Any, ...]:
    """e_0, ..., e_k of weights with these sums of powers, by Newton's identities."""
    found = [xp.ones_like(sums[0])]
    for j in range(1, len(sums) + 1):
        total: Any = 0.0
        for i in range(1, j + 1):
            term = found[j - i] * sums[i - 1]
            total = total + term if i % 2 else total - term
        found.append(total / j)
    return tuple(found)
