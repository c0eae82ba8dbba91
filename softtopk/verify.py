r"""What the chapters assert with: symbolic zeros, 50-digit references, named claims.

Chapters state a claim, derive it, and close with a check cell::

    with verify.claim("A45", "holds"):
        assert verify.is_zero(lhs - rhs)

The block names the claim and the verdict that it establishes; it prints one line
when every assertion in it passes. The functions return values to be asserted on
and never assert by themselves, so a cell always shows what it demands.

Symbolic work is exact (SymPy); numbers are compared at 50 digits (mpmath). This
module needs SymPy and is never imported by the operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

__all__ = [
    "claim",
    "exact",
    "is_zero",
    "max_error",
    "precise",
    "solve_threshold",
    "subset_marginals",
]

VERDICTS = ("holds", "conditional", "imprecise", "refuted", "proved", "numeric")
DIGITS = 50


@contextmanager
def claim(name: str, verdict: str) -> Iterator[None]:
    """Name the claim that the assertions of a block establish, with its verdict.

    Parameters
    ----------
    name : str
        The claim's id in the ledger, such as ``"A45"``.
    verdict : str
        One of holds, conditional, imprecise, refuted; proved or numeric for the
        results that go beyond the sources.

    Raises
    ------
    ValueError
        If the verdict is not one of these.
    AssertionError
        Whatever the block raises passes through, and nothing is printed.

    Examples
    --------
    >>> with claim("B01", "holds"):
    ...     assert is_zero(sp.sin(0))
    ✓ B01 checked
    """
    if verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {VERDICTS}, got {verdict!r}")
    yield
    try:
        print(f"✓ {name} checked")
    except UnicodeEncodeError:  # Windows writes to a file or a pipe in its code page
        print(ascii(f"{name} checked")[1:-1])


def is_zero(expression: Any) -> bool:
    """Whether SymPy proves an expression (or every entry of a matrix) to be zero.

    The answer is True only for a proof: the expression reduces to the integer zero
    under expansion, cancellation or simplification, by rules that hold for all values
    that the assumptions of its symbols allow. False means *not proved*.

    Parameters
    ----------
    expression : SymPy expression, matrix, or nested sequence of them
        What ought to vanish identically, under the assumptions of its symbols.

    Returns
    -------
    bool

    Examples
    --------
    >>> x = sp.symbols("x", real=True)
    >>> is_zero(sp.sin(x) ** 2 + sp.cos(x) ** 2 - 1)
    True
    >>> is_zero(x**2 - x), is_zero(sp.log(x**2) - 2 * sp.log(x))  # x may be negative
    (False, False)
    """
    if isinstance(expression, (sp.MatrixBase, sp.NDimArray, list, tuple)):
        return all(is_zero(entry) for entry in expression)
    expression = sp.sympify(expression)
    for reduce in _REDUCTIONS:
        reduced = reduce(expression)
        if reduced == 0:
            return True
        if reduced.is_number and reduced.is_zero is False:
            return False
    return False


def _as_rational_in_exponentials(expression: sp.Expr) -> sp.Expr:
    """Cancel after rewriting hyperbolic functions and products of exponentials."""
    rewritten = sp.expand(expression.rewrite(sp.exp), power_exp=True)
    return sp.cancel(sp.together(rewritten))


_REDUCTIONS: tuple[Callable[[sp.Expr], sp.Expr], ...] = (
    lambda e: e,
    sp.expand,
    lambda e: sp.cancel(sp.together(e)),
    _as_rational_in_exponentials,
    sp.simplify,
    lambda e: sp.simplify(sp.expand_log(sp.logcombine(e))),
    lambda e: sp.radsimp(sp.simplify(e)),
)


def exact(values: Any) -> list[sp.Rational]:
    """The floats of an array as the exact rationals they are.

    Parameters
    ----------
    values : array_like of floats
        Any shape; the result is flat, in C order.

    Returns
    -------
    list of sympy.Rational

    Examples
    --------
    >>> exact([0.5, 0.75])
    [1/2, 3/4]
    """
    flat = np.asarray(values, dtype=float).ravel()
    return [sp.Rational(*float(value).as_integer_ratio()) for value in flat]


def precise(value: Any, digits: int = DIGITS) -> mp.mpf:
    """A SymPy number, float, int or mpf as an mpmath number of `digits` digits."""
    with mp.workdps(digits):
        if isinstance(value, (mp.mpf, int)):
            return +mp.mpf(value)
        if isinstance(value, (float, np.floating)):
            return mp.mpf(float(value))
        if isinstance(value, np.integer):
            return mp.mpf(int(value))
        number = sp.sympify(value)
        if number.is_Rational:
            return mp.mpf(int(number.p)) / int(number.q)
        return mp.mpf(sp.Float(sp.N(number, digits + 5), digits + 5)._mpf_)


def max_error(actual: ArrayLike, expected: Any) -> float:
    """The largest distance between computed floats and exact or 50-digit values.

    Parameters
    ----------
    actual : array_like of floats
        What was computed, any shape.
    expected : nested sequence or matrix of numbers
        SymPy numbers, mpmath numbers, fractions or ints: as many as `actual` has.

    Returns
    -------
    float
        ``max |actual - expected|``, the difference taken at 50 digits; infinite if an
        entry of `actual` is not finite.

    Raises
    ------
    ValueError
        If the numbers of entries differ.

    Examples
    --------
    >>> max_error([0.5, 0.25], [sp.Rational(1, 2), sp.Rational(1, 4)])
    0.0
    >>> max_error([0.5, float("nan")], [sp.Rational(1, 2), sp.Rational(1, 4)])
    inf
    """
    computed = np.asarray(actual, dtype=float).ravel()
    wanted = list(_flatten(expected))
    if len(wanted) != computed.size:
        raise ValueError(
            f"actual has {computed.size} entries, expected has {len(wanted)}"
        )
    if not np.all(np.isfinite(computed)):
        return math.inf
    with mp.workdps(DIGITS):
        gaps = [
            abs(mp.mpf(float(value)) - precise(target))
            for value, target in zip(computed, wanted, strict=True)
        ]
        return float(max(gaps, default=mp.mpf(0)))


def _flatten(values: Any) -> Iterator[Any]:
    if isinstance(values, np.ndarray):
        yield from values.ravel().tolist()
    elif isinstance(values, (sp.MatrixBase, list, tuple, mp.matrix)):
        for value in values:
            yield from _flatten(value)
    else:
        yield values


def solve_threshold(
    curve: Callable[[mp.mpf], mp.mpf],
    x: Sequence[Any],
    k: Any,
    digits: int = DIGITS,
) -> tuple[mp.mpf, list[mp.mpf]]:
    r"""Solve :math:`\sum_i f(x_i-\lambda)=k` by bisection at high precision.

    This is the chapters' reference: it knows the curve only through its values and
    shares nothing with the package's solvers.

    Parameters
    ----------
    curve : callable
        The curve f, from an mpmath number to an mpmath number.
    x : sequence of numbers
        The scores.
    k : number
        The budget, 0 < k < n.
    digits : int
        Significant digits of the result. Sums are formed with 15 more: what hinges on
        shares that are smaller beside the others, as with scores more than about 140
        apart, is lost.

    Returns
    -------
    threshold : mpmath.mpf
        The midpoint of the final bracket.
    p : list of mpmath.mpf
        The values f(x_i - threshold).

    Raises
    ------
    ValueError
        If k is not between 0 and n, both excluded.

    Examples
    --------
    >>> lam, p = solve_threshold(lambda t: 1 / (1 + mp.exp(-t)), [0, 0], 1)
    >>> float(abs(lam)) < 1e-49, [float(q) for q in p]
    (True, [0.5, 0.5])
    """
    with mp.workdps(digits + 15):
        scores = [precise(value, digits + 15) for value in x]
        budget = precise(k, digits + 15)
        if not 0 < budget < len(scores):
            raise ValueError(f"k must lie strictly in (0, {len(scores)}), got {k}")

        def excess(threshold: mp.mpf) -> mp.mpf:
            return mp.fsum(curve(s - threshold) for s in scores) - budget

        width = mp.mpf(1)
        low, high = min(scores) - width, max(scores) + width
        while excess(low) < 0:
            width *= 2
            low -= width
        while excess(high) > 0:
            width *= 2
            high += width
        scale = max(mp.mpf(1), abs(low), abs(high))
        while high - low > scale * mp.mpf(10) ** (-digits - 5):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        threshold = (low + high) / 2
        return threshold, [curve(s - threshold) for s in scores]


def subset_marginals(
    x: Sequence[Any], k: int, digits: int = DIGITS
) -> tuple[mp.mpf, list[mp.mpf]]:
    r"""Compute :math:`\log Z_k` and the shares of GradTopK at high precision.

    A reference for the chapters, which shares nothing with the package's programs: the
    sums over subsets of the scores before and after each entry are built by adding
    one score after the other, so that nothing is subtracted.

    Parameters
    ----------
    x : sequence of numbers
        The scores.
    k : int
        The budget, 1 <= k <= n.
    digits : int
        Significant digits of the result.

    Returns
    -------
    log_z : mpmath.mpf
        The logarithm of the sum over all k-subsets.
    p : list of mpmath.mpf
        The shares :math:`p_i=Z_{k,i}/Z_k`.

    Raises
    ------
    ValueError
        If k is not between 1 and n.

    Examples
    --------
    >>> log_z, p = subset_marginals([0, 0, 0, 0], 2)
    >>> float(mp.exp(log_z)), [float(q) for q in p]
    (6.0, [0.5, 0.5, 0.5, 0.5])
    """
    if not 1 <= k <= len(x):
        raise ValueError(f"k must lie in [1, {len(x)}], got {k}")
    with mp.workdps(digits + 5):
        weights = [mp.exp(precise(value, digits + 5)) for value in x]

        def sums(values: list[mp.mpf]) -> list[list[mp.mpf]]:
            rows = [[mp.mpf(1)] + [mp.mpf(0)] * k]
            for value in values:
                row = rows[-1]
                rows.append(
                    [row[0]] + [row[j] + value * row[j - 1] for j in range(1, k + 1)]
                )
            return rows

        before, after = sums(weights), sums(weights[::-1])[::-1]
        total = before[-1][k]
        p = [
            value * mp.fsum(before[i][j] * after[i + 1][k - 1 - j] for j in range(k))
            for i, value in enumerate(weights)
        ]
        return mp.log(total), [part / total for part in p]
