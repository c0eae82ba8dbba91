r"""Entmax of an order alpha that is an array and has a derivative.

With :math:`b=\alpha-1` and :math:`t_i=x_i/\tau-\lambda` the shares are
:math:`p_i=[1+bt_i]_+^{1/b}=e^{t_ih(bt_i)}`, :math:`h(z)=\log(1+z)/z`, which is analytic
at b = 0.  The threshold solves :math:`\sum_ip_i=1`.  A search finds it without a
derivative; Newton's steps from there have one.  With the error of the start of first
order in a change of the arguments, that of one step is of second order and that of two
of fourth, so that derivatives up to the third are right.  The first is

.. math:: dp_i=w_i\Bigl(\frac{dx_i}\tau-m_i\,d\alpha-\frac1W\sum_jw_j
          \Bigl(\frac{dx_j}\tau-m_j\,d\alpha\Bigr)\Bigr),\qquad
          w_i=p_i^{2-\alpha},\quad W=\sum_jw_j,

with :math:`m_i=\partial_b\,(p_i^b-1)/b`, which is :math:`\tfrac12\log^2p_i` at
:math:`\alpha=1`: an order that moves acts like scores that do.  All of this holds for
:math:`\alpha>0`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._contract import Adapter
from .._rows.adapter_rows import Rows, real_array
from .._rows.namespace import is_nan
from .._rows.numpy_rows import as_column, broadcast_as, positive_numbers

_INVERSE_RADIUS = 4
"""log(1 + z) and its derivatives are summed as a series for |z| up to 1 / this.

An integer: torch.compile turns a float that a loop reads into an input of the graph.
"""

_TERMS = 28
"""0.25 to this power is below the rounding of float64."""

_STEPS = 100


def checked_alpha(
    xp: Adapter, alpha: Any, rows: Rows, check: bool | None
) -> tuple[Any, Rows]:
    """alpha, and the rows, which are NaN where alpha is out of range.

    A number has been checked.
    """
    if not xp.is_array(alpha):
        return xp.numbers(alpha, rows.x), rows
    alpha = xp.astype(real_array(xp, alpha, rows.x, "alpha"), rows.x.dtype)
    if alpha.ndim:
        alpha = broadcast_as(xp, alpha, rows.batch(), "alpha")
    if xp.looks(rows.x, check):
        positive_numbers(xp.to_numpy(xp.detach(alpha)), "alpha")
        return alpha, rows
    return alpha, rows.harmless(xp, (alpha > 0) & (alpha < math.inf))


class Law(NamedTuple):
    """The shares of rows, as `entmax_law` finds them.

    Attributes
    ----------
    p, log : (..., n) arrays
        The shares and their logarithms.  In float32 a share underflows where its power
        p^alpha, a term of the entropy, does not; it comes from the logarithm.  Where p
        is 0 because the entry takes no part, the logarithm is -inf.
    s : array
        The threshold minus the largest score, in temperatures.
    """

    p: Any
    log: Any
    s: Any


def entmax_law(xp: Adapter, rows: Rows, y: Any, b: Any) -> Law:
    """The shares of entmax of order 1 + b; y are the `logits` of the rows."""
    b = xp.broadcast_to(b, tuple(y.shape[:-1]))
    tail = _tail(xp, rows, xp.detach(y), b[..., None])
    fixed = (xp.detach(v) for v in (y, tail, b))
    s = xp.detach(xp.constant(_newton_threshold, *fixed))
    for _ in range(2):
        p, _, slope = _value(xp, y, tail, s, b)
        s = s + (xp.sum(p, axis=-1) - 1) / xp.sum(slope, axis=-1)
    p, log, _ = _value(xp, y, tail, s, b)
    return Law(p, log, s)


def _tail(xp: Adapter, rows: Rows, y: Any, b: Any) -> Any:
    """log p of the finite scores whose distance -y overflows, elsewhere -inf.

    Below alpha = 1 a share falls like a power of the distance d, and its term of the
    loss like d^(-alpha / (1 - alpha)): at alpha = 0.1 that is 5e-5 at the end of
    float32.  There 1 + b t is b t up to rounding.
    """
    x, tau = rows.x, rows.tau
    beyond = xp.isfinite(x) & (y == -math.inf) & (b < 0)
    top = xp.detach(xp.max(x, axis=-1))[..., None]
    half = xp.where(beyond, 0.5 * top - 0.5 * xp.where(beyond, x, 0), 1)
    log = xp.log(half) - xp.log(as_column(tau))
    below = xp.where(beyond, b, -1)
    tail = (xp.log(-2 * below) + log) / below
    # All shares of a row out of range are NaN.
    rest = xp.where(y == y, xp.zeros_like(y) - math.inf, math.nan)
    return xp.where(beyond, tail, rest)


def entropy(xp: Adapter, p: Any, log: Any, alpha: Any) -> tuple[Any, Any]:
    r"""The terms of :math:`\sum_ip_i(p_i^b-1)/b`, and their derivatives by b.

    These are :math:`p\log p\,g(z)` and :math:`p\log^2p\,g'(z)` with
    :math:`z=b\log p` and :math:`g(z)=(e^z-1)/z`, both analytic at b = 0.  The
    logarithm is -inf where a share is 0 and has not only underflowed.
    """
    b = (alpha - 1)[..., None]
    log = xp.where(log == -math.inf, 0, log)
    z = b * log
    # Only for b < 0 is z above 1.  There e^z may overflow and p may underflow;
    # p e^z = p^alpha does neither.
    high, outside = z > 1, abs(z) > 1
    rest = xp.where(high, b, 1)
    power = xp.where(high, xp.exp(alpha[..., None] * log), 0)
    near, far = xp.where(outside, 0, z), xp.where(outside, z, 1)
    g, slope = xp.zeros_like(z), xp.zeros_like(z)
    for j in range(_TERMS, -1, -1):
        g = 1 / math.factorial(j + 1) + near * g
        slope = 1 / (math.factorial(j) * (j + 2)) + near * slope
    grown = xp.expm1(xp.where(high, 0, far))
    g = xp.where(outside, grown / far, g)
    slope = xp.where(outside, (far + grown * (far - 1)) / (far * far), slope)
    value = xp.where(high, (power - p) / rest, p * log * g)
    turn = (p + power * (xp.where(high, z, 0) - 1)) / (rest * rest)
    return value, xp.where(high, turn, p * log * log * slope)


def _value(xp: Adapter, y: Any, tail: Any, s: Any, b: Any) -> tuple[Any, Any, Any]:
    """The shares at the threshold s, their logarithms, and their slopes p^(1 - b)."""
    b = b[..., None]
    t = xp.where(xp.isfinite(y), y, 0) - s[..., None]
    near = xp.isfinite(y) & (b * t > -1)
    log = xp.where(near, _log_curve(xp, xp.where(near, t, 0), b), tail)
    on = log != -math.inf
    power = xp.where(on, log, 0)
    p = xp.where(on, xp.exp(power), 0)
    return p, log, xp.where(on, xp.exp((1 - b) * power), 0)


def _log_curve(xp: Adapter, t: Any, b: Any) -> Any:
    """log(1 + b t) / b, by its series in b t while that is small."""
    z = b * t
    far = abs(z) > 1 / _INVERSE_RADIUS
    near = xp.where(far, 0, z)
    series = xp.zeros_like(z)
    for j in range(_TERMS, -1, -1):
        series = (-1) ** j / (j + 1) + near * series
    log = xp.log1p(xp.where(far, z, 0)) / xp.where(far, b, 1)
    return xp.where(far, log, t * series)


def _newton_threshold(xp: Adapter, y: Any, tail: Any, b: Any) -> Any:
    """The threshold minus the largest score, by Newton's steps within a bracket.

    The steps are those for the b-th power of the sum, which is nearly linear in the
    threshold.  The bracket holds because the largest share is between 1/n and 1.
    """
    n = y.shape[-1]
    safe = xp.where(b != 0, b, 1)
    high = xp.where(b != 0, -xp.expm1(-safe * math.log(n)) / safe, math.log(n))
    eps = float(xp.finfo(y.dtype).eps)
    zero = xp.zeros_like(high)

    def going(s: Any, low: Any, high: Any, done: Any, count: Any) -> Any:
        return (~done & (count < _STEPS)).any()

    def step(s: Any, low: Any, high: Any, done: Any, count: Any) -> Any:
        p, _, slope = _value(xp, y, tail, s, b)
        S, W = xp.sum(p, axis=-1), xp.sum(slope, axis=-1)
        S = xp.where(S > 0, S, 1)
        low, high = xp.where(S > 1, s, low), xp.where(S < 1, s, high)
        log = xp.log(S)
        power = xp.where(b != 0, -xp.expm1(-safe * log) / safe, log)
        move = s + power * S / xp.where(W > 0, W, 1)
        inside = (move >= low) & (move <= high)
        move = xp.where(inside, move, 0.5 * (low + high))
        near = ~(abs(S - 1) > 4 * eps) | ~(abs(move - s) > eps * abs(s))
        return xp.where(done, s, move), low, high, done | near, count + 1

    done = is_nan(high)
    return xp.loop(going, step, (zero, zero + 0, high, done, zero + 0))[0]
