r"""Sums and products with their rounding errors, for every array library.

A float is the sum of two *halves* whose products with other halves are exact
(Veltkamp), and the rounding error of a sum is a float (Knuth).  All products here are
exact and only sums are rounded, so a compiler that fuses a product into the following
sum changes nothing.
"""

from __future__ import annotations

from typing import Any

from .._rows.namespace import namespace

Halves = tuple[Any, Any]


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its rounding error: a + b is exactly the sum of both."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def halves(a: Any, bits: int | None = None) -> Halves:
    """a = high + low, exactly; the low half has `bits` bits, by default half of all."""
    if bits is None:
        bits = 27 if a.dtype.itemsize == 8 else 12
    g = (2.0**bits + 1) * a
    high = g - (g - a)
    return high, a - high


def minus_product(x: Any, a: Halves, b: Halves) -> Any:
    """x - a b, with an error of an ulp of the result plus eps^2 (|x| + |a b|)."""
    (a1, a0), (b1, b0) = a, b
    return exact_total([x, -(a1 * b1), -(a1 * b0), -(a0 * b1), -(a0 * b0)], 1)


def exact_total(terms: list[Any], times: int = 2) -> Any:
    """The sum of a few arrays, as if rounded once from `times` + 1 times the digits."""
    terms = list(terms)
    for _ in range(times):
        for i in range(1, len(terms)):
            terms[i], terms[i - 1] = two_sum(terms[i], terms[i - 1])
    rest = terms[0]
    for term in terms[1:-1]:
        rest = rest + term
    return rest + terms[-1]


def summable(c: Any) -> tuple[Any, Any, Any]:
    """Each entry as a sum of three parts that can be added up over any part of a row.

    The first two parts are multiples of a unit so large that their sums have no
    rounding error.  The sum of the third is rounded, but it is less than n^2 eps^2
    times the sum of the row.  (The extraction of Rump, Ogita and Oishi.)
    """
    xp = namespace(c)
    grid = 2 * xp.sum(c, axis=-1)[..., None]
    first = (grid + c) - grid
    rest = c - first
    grid = 4 * xp.sum(abs(rest), axis=-1)[..., None]
    second = (grid + rest) - grid
    return first, second, rest - second
