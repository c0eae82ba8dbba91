"""Softmax and its relatives over an adapter, as in `softtopk.simplex`."""

from __future__ import annotations

import math
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import (
    Asked,
    Rows,
    as_adapter_rows,
    check_values,
    finite_rows,
    scores,
    truncated_rows,
)
from .._rows.numpy_rows import as_column, check_integer, real_number, real_numbers
from .._search.numpy_simplex import below_top
from ..curves import CLIP, Entmax
from . import entmax_alpha as _entmax
from .hard_body import hard

__all__ = [
    "entmax",
    "log_softmax",
    "logsumexp",
    "softmax",
    "sparse_softmax",
    "sparsemax",
    "taylor_softmax",
]

_MAX_ORDER = 100  # 1/order! and the powers next to it stay in the range of float64
_SPARSEMAX = Entmax(2.0)


def softmax(
    xp: Adapter,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Softmax of x / temperature, which has masks here.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `soft_topk`.
    empty : "raise", "zeros" or "all"
        What a row is without an entry that takes part, because `where` leaves all of
        them out or all scores are -inf: out of range (see `check`), or by "zeros" and
        "all" a row whose shares and their derivatives are 0.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    rows = finite_rows(xp, x, temperature, axis, where, check, empty=empty)
    return rows.expand(xp, xp.softmax(logits(xp, rows.x, rows.tau)))


def sparsemax(
    xp: Adapter,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Sparsemax, the point of the simplex nearest to x / temperature.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    return _simplex(xp, x, _SPARSEMAX, temperature, axis, where, check, empty)


def entmax(
    xp: Adapter,
    x: Any,
    alpha: Any = 1.5,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Entmax: `softmax` at alpha = 1, `sparsemax` at 2, and all above 0.

    Parameters
    ----------
    alpha : number or array
        Above 0.  An array of this library has a derivative; it is one number, or one a
        row: it broadcasts to the shape of `x` without `axis`.
    x, temperature, axis, where, empty, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.

    Notes
    -----
    For an array, and for a number below 1, the shares and their derivatives, by `alpha`
    too, are right to some 100 units in the last place, up to the third order.  Close to
    alpha = 1 no digits are lost.  Below 1 every share is above 0 and falls like a power
    of the distance to the largest score.
    """
    number = type(alpha) in (int, float)
    if not (number or xp.is_array(alpha)) and real_numbers(alpha, "alpha").ndim:
        alpha = xp.asarray(real_numbers(alpha, "alpha"), like=xp.asarray(x))
    if not xp.is_array(alpha):
        alpha = real_number(alpha, "alpha", above=0)
    if xp.is_array(alpha) or alpha < 1:  # there is a curve to search with from 1 on
        rows = finite_rows(xp, x, temperature, axis, where, check, empty=empty)
        alpha, rows = _entmax.checked_alpha(xp, alpha, rows, check)
        y = logits(xp, rows.x, rows.tau)
        return rows.expand(xp, _entmax.entmax_law(xp, rows, y, alpha - 1).p)
    if alpha > 1:
        curve = Entmax(alpha)
        return _simplex(xp, x, curve, temperature, axis, where, check, empty)
    given = {"axis": axis, "where": where, "empty": empty, "check": check}
    return softmax(xp, x, temperature=temperature, **given)


def log_softmax(
    xp: Adapter,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Logarithm of `softmax`, also where a share would underflow or round to 1.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        Of the shape and type of `x`; -inf for entries that take no part, which have
        the derivative 0.
    """
    rows = finite_rows(xp, x, temperature, axis, where, check)
    u, total = _log_total(xp, rows)
    out = u == -math.inf
    value = xp.where(out, 0, u) - total[..., None]
    # If a row has no finite entry, all of its results are NaN.
    rest = xp.where(total == total, xp.zeros_like(total) - math.inf, math.nan)
    return rows.expand(xp, xp.where(out, rest[..., None], value))


def logsumexp(
    xp: Adapter,
    x: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""The smooth maximum :math:`\tau\log\sum_je^{x_j/\tau}`; its gradient is softmax.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        One number a row, in the units of the scores.
    """
    rows = finite_rows(xp, x, temperature, axis, where, check)
    _, total = _log_total(xp, rows)
    return rows.reduce(xp, xp.detach(xp.max(rows.x, axis=-1)) + rows.tau * total)


def taylor_softmax(
    xp: Adapter,
    x: Any,
    order: int = 2,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Softmax with a Taylor polynomial of even order in place of the exponential.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.
    order : int
        Even, from 2 to 100.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    order = check_order(order)
    rows = finite_rows(xp, x, temperature, axis, where, check, empty=empty)
    on = rows.x != -math.inf
    y, tau = xp.where(on, rows.x, 0), rows.tau[..., None]
    # The shares are f / sum f, so f may be multiplied by any number common to its row.
    # Here f is a multiple of T_j(x / tau) for j = `order`, with the Taylor polynomial
    # T_j(u) = sum_{i <= j} u^i / i!.  Let M be the largest of tau and all |x| of the
    # row, y = x / M and r = tau / M.  The recursion, from f_0 = s_0 = 1,
    #     d_j = max(1, j r),  s_j = s_{j-1} / d_j,  f_j = y^j s_j + (j r / d_j) f_{j-1},
    # has the solution f_j = j! r^j s_j T_j(x / tau).  Since |y|, s_j and j r / d_j are
    # at most 1, f_j is at most j + 1, and nothing overflows.
    M = xp.detach(xp.maximum(xp.max(abs(y), axis=-1)[..., None], tau))
    small = xp.where(M > 2.0**63, xp.full_like(M, 2.0**-64), 1)  # 1 / M may underflow
    y, r = (small * y) / (small * M), (small * tau) / (small * M)
    f, power, scale = xp.ones_like(y), xp.ones_like(y), xp.ones_like(M)
    for j in range(1, order + 1):
        d = xp.clip(j * xp.detach(r), 1, None)
        scale, power = scale / d, power * y
        f = power * scale + (j * r / d) * f
    f = xp.where(on, f, 0)
    return rows.expand(xp, f / xp.sum(f, axis=-1)[..., None])


def sparse_softmax(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Softmax over the k largest scores; the others get share 0.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.
    k : whole number or array of them
        At least 1.  It has no derivative, nor has the choice of the k scores.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    rows = truncated_rows(xp, x, k, temperature, axis, where, check, empty=empty)
    e = xp.detach(hard(xp, rows, k, check)) * xp.exp(logits(xp, rows.x, rows.tau))
    return rows.expand(xp, e / xp.sum(e, axis=-1)[..., None])


def _log_total(xp: Adapter, rows: Rows) -> tuple[Any, Any]:
    """u = (x - max) / tau, and log sum e^u.

    The largest exponential is 1.  Added to it, small terms would lose their digits, so
    the sum r is that of the other terms, and the result is log1p(r).
    """
    u = logits(xp, rows.x, rows.tau)
    e = xp.exp(u)
    best = xp.indices(u.shape[-1], u) == xp.argmax(xp.detach(rows.x))[..., None]
    r = xp.sum(xp.where(best, e - 1, e), axis=-1)
    finite = xp.max(rows.x, axis=-1) > -math.inf
    return u, xp.where(finite, xp.log1p(r), math.nan)


def _simplex(xp: Adapter, x: Any, entmax: Entmax, *given: Any) -> Any:
    """Entmax with alpha > 1."""
    x = scores(xp, x, "x")
    temperature, axis, where, check, empty = given
    curve = CLIP if entmax.b == 1 else entmax
    asked = Asked(x, 1, None, temperature, axis, where, empty=empty, check=check)
    method = xp.select_method(x, curve, check)
    quick = method.numbers and not method.raw
    if quick:
        rows = as_adapter_rows(xp, asked, method)
        z, tau = rows.x, rows.tau
        # The library differentiates the division by a temperature that is still an
        # array.  The derivative of an infinite quotient would be NaN, so rows with one
        # are left to `select`.
        if xp.is_array(tau) and check_values(
            xp, xp.detach(z), None, tau, needs_finite=True
        ):
            z, tau = logits(xp, z, tau), 1.0
        if not xp.is_array(tau):
            return rows.expand(xp, xp.simplex(z, entmax, tau))
    elif xp.looks(x, check) and not method.raw:
        rows = finite_rows(xp, x, *given[:-1], empty=empty)
    else:  # `select` makes a row without a finite entry NaN
        rows = as_adapter_rows(xp, asked, method)
    p, _, _ = xp.select(curve, rows, check if quick else False, True)
    return rows.expand(xp, p)


def logits(xp: Adapter, x: Any, tau: Any) -> Any:
    """(x - max) / tau, with a finite derivative by tau also for rows with -inf.

    The rows have been checked, or are held: no score is +inf or NaN.
    """
    if not xp.has_derivatives:  # on NumPy
        return below_top(x, tau)
    top = xp.detach(xp.max(x, axis=-1))[..., None]
    on = x > -math.inf
    z = xp.where(on, x - top, 0) / as_column(tau)
    return xp.where(on, z, -math.inf)


def check_order(order: int) -> int:
    check_integer(order, "order", "an integer")
    if order % 2 or not 2 <= order <= _MAX_ORDER:
        raise ValueError(
            f"order must be even and lie in [2, {_MAX_ORDER}] (a Taylor polynomial of "
            f"odd order has a root), got {order}"
        )
    return int(order)
