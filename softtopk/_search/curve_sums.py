"""The sums of the named curves, in fewer operations than calls of their functions take.

A curve with f(c + t) = 1 - f(c - t) needs one evaluation for each entry, that of
q = min(p, 1 - p).  Each function here computes q, the side of c on which the entry is,
and the sum of the slopes from q.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._rows.namespace import after, namespace, tally
from ..curves import CLIP, EXP, LAPLACE, SIGMOID, TRIANGULAR, Curve

Sums = tuple[Any, Any, Any, Any, Any]
Function = Callable[..., Any]


def in_turn(u: Any, values: Function, *sums: Function) -> list[Any]:
    """Sums over each row; `sums` are functions of what `values` returns for u.

    Where a sum must wait for the one before (`after`), so that XLA does not fuse both
    and materialise the row, the values are rematerialised for it.
    """
    at, found = values(u), []
    for of in sums:
        found.append(of(*at))
        later = after(u, found[-1])
        if later is not u:
            u, at = later, values(later)
    return found


def total(true: Any, yes: Any, no: Any) -> Any:
    """The sum over each row of `yes` where `true`, and of `no` elsewhere."""
    xp = namespace(true)
    return xp.sum(xp.where(true, yes, no), axis=-1)


def _low(high: Any, q: Any) -> Any:
    return total(high, 0, q)


def _high(high: Any, q: Any) -> Any:
    return total(high, q, 0)


def _positive(w: Any) -> Any:
    """The sum of w >= 0, as that of where(w > 0, w, 0).

    Of a bare sum of products such as q q, XLA would materialise the factors.
    """
    return total(w > 0, w, 0)


def _exp_sums(u: Any) -> Sums:
    P, m = in_turn(u, lambda u: (u > 0, namespace(u).exp(u)), _low, tally)
    return m, P, 0 * P, P, P


def _laplace(u: Any) -> Sums:
    def values(u: Any) -> tuple[Any, Any]:
        return u > 0, 0.5 * namespace(u).exp(-abs(u))

    P, C, m = in_turn(u, values, _low, _high, tally)
    return m, P, C, P + C, P


def _sigmoid(u: Any) -> Sums:
    def values(u: Any) -> tuple[Any, Any]:
        return u > 0, 1 / (1 + namespace(u).exp(abs(u)))

    def squares(high: Any, q: Any) -> Any:
        return _positive(q * q)

    P, C, m, Q = in_turn(u, values, _low, _high, tally, squares)
    return m, P, C, P + C - Q, P


def _clip(u: Any) -> Sums:
    """m shares are equal to 1, and W lie between 0 and 1; P is the sum of the latter.

    Summing 1 - p for the shares above 1/2, as the other curves do, would at best halve
    the rounding error.
    """

    def positive(high: Any, u: Any) -> Any:
        return tally(u > 0, u)

    def inner(high: Any, u: Any) -> Any:
        return total(high, 0, namespace(u).clip(u, 0, None))

    P, m, most = in_turn(u, lambda u: (u >= 1, u), inner, tally, positive)
    return m, P, 0 * P, 0 * P + (most - m), P


def _triangular(u: Any) -> Sums:
    def values(u: Any) -> tuple[Any, Any]:
        return u > 0, namespace(u).clip(1 - abs(u), 0, None)

    def half(side: Function) -> Function:
        return lambda high, r: side(high, 0.5 * r * r)

    P, C, m, W = in_turn(
        u, values, half(_low), half(_high), tally, lambda high, r: _positive(r)
    )
    return m, P, C, W, P


_SUMS_OF_CURVES: list[tuple[Curve, Function]] = [
    (EXP, _exp_sums),
    (LAPLACE, _laplace),
    (SIGMOID, _sigmoid),
    (CLIP, _clip),
    (TRIANGULAR, _triangular),
]


def fused_sums(curve: Curve) -> Function | None:
    """The function with the sums of a named curve, or None for another curve."""
    return next((found for known, found in _SUMS_OF_CURVES if known is curve), None)
