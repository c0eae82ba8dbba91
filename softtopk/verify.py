r"""What the chapters assert with: symbolic zeros, 50-digit references, named claims.

Chapters state a claim, derive it, and close with a check cell::

    with verify.claim("A45", "holds"):
        assert verify.is_zero(lhs - rhs)

The block names the claim and the verdict that it establishes; it prints one line
when every assertion in it passes. The functions return values to be asserted on
and never assert by themselves, so a cell always shows what it demands.

Symbolic work is exact (SymPy); numbers are compared at 50 digits (mpmath).

What more than one chapter checks with has its home here too: references, rows of
scores, and copies of programs that another chapter derives. None of it calls the
operators of the package, which the chapters compare with it. This module needs SymPy
and is never imported by the operators.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Dual",
    "amplification",
    "bump",
    "claim",
    "clip_interval",
    "clip_topk",
    "coin_dp",
    "coin_law",
    "coin_table",
    "curve_formulas",
    "distance",
    "elementary",
    "entmax_50",
    "entmax_cases",
    "exact",
    "exact_sparsemax",
    "inclusion",
    "is_zero",
    "joined",
    "laplace_cases",
    "log_dp",
    "log_prefixes",
    "max_error",
    "order_types",
    "precise",
    "recursion",
    "scores_for",
    "separated",
    "share_error",
    "sigmoid_cases",
    "solve_threshold",
    "subset_cases",
    "subset_law",
    "subset_marginals",
    "threshold_cases",
    "uniform_shares",
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


# --- References that several chapters share ------------------------------------------


def distance(p: Sequence[Any], q: Sequence[Any]) -> mp.mpf:
    """The largest difference of two rows of numbers, at 60 digits.

    Where :func:`max_error` takes floats for the first row, both rows are exact or of
    many digits here. The chapters on thresholds and on entmax use it.

    Parameters
    ----------
    p, q : sequences of numbers
        SymPy numbers, mpmath numbers, fractions, floats or ints, equally many.

    Returns
    -------
    mpmath.mpf
        ``max |p - q|``.

    Examples
    --------
    >>> float(distance([Fraction(1, 2), 0.25], [sp.Rational(1, 4), mp.mpf(1) / 4]))
    0.25
    """
    with mp.workdps(60):
        pairs = zip(p, q, strict=True)
        return max(abs(precise(a, 60) - precise(b, 60)) for a, b in pairs)


def share_error(p: ArrayLike, expected: Any) -> float:
    """The largest error of a row of shares; 1 if one of them is not a number.

    It compares methods of which some fail altogether, in the chapters on GradTopK.

    Parameters
    ----------
    p : array_like of floats
        The computed shares.
    expected : sequence of numbers
        As for :func:`max_error`.

    Returns
    -------
    float

    Examples
    --------
    >>> share_error([0.5, 0.5], [1, 0]), share_error([0.5, float("nan")], [1, 0])
    (0.5, 1.0)
    """
    return max_error(p, expected) if np.all(np.isfinite(p)) else 1.0


def curve_formulas(t: sp.Symbol) -> dict[str, list[tuple[sp.Expr, Any]]]:
    r"""The formulas of five curves, each with the point where it starts.

    They are those of *selection/threshold*, for chapters that build upon it.

    Parameters
    ----------
    t : sympy.Symbol
        The real variable of the curves.

    Returns
    -------
    dict of str to list of pairs
        For sigmoid, clip, exp, laplace and triangular: pairs of a formula and its
        start, from :math:`-\infty` upwards.

    Examples
    --------
    >>> curve_formulas(sp.Symbol("t", real=True))["clip"]
    [(0, -oo), (t, 0), (1, 1)]
    """
    zero, one, far = sp.S.Zero, sp.S.One, -sp.oo
    return {
        "sigmoid": [(1 / (1 + sp.exp(-t)), far)],
        "clip": [(zero, far), (t, 0), (one, 1)],
        "exp": [(sp.exp(t), far), (one, 0)],
        "laplace": [(sp.exp(t) / 2, far), (1 - sp.exp(-t) / 2, 0)],
        "triangular": [
            (zero, far),
            ((1 + t) ** 2 / 2, -1),
            (1 - (1 - t) ** 2 / 2, 0),
            (one, 1),
        ],
    }


def joined(pieces: Sequence[tuple[sp.Expr, Any]], t: sp.Symbol) -> sp.Piecewise:
    """One expression: each formula up to the point where the next one starts.

    The chapters *selection/threshold* and *selection/symmetries* make their curves so.

    Parameters
    ----------
    pieces : sequence of pairs
        Formulas with their starts, as :func:`curve_formulas` returns them.
    t : sympy.Symbol
        Their variable.

    Returns
    -------
    sympy.Piecewise

    Examples
    --------
    >>> t = sp.Symbol("t", real=True)
    >>> joined(curve_formulas(t)["clip"], t)
    Piecewise((0, t < 0), (t, t < 1), (1, True))
    """
    starts = [start for _, start in pieces[1:]]
    cases = [(f, t < end) for (f, _), end in zip(pieces, starts, strict=False)]
    return sp.Piecewise(*cases, (pieces[-1][0], True))


def threshold_cases() -> list[tuple[tuple[int, ...], Any]]:
    """Scores with budgets for the checks of the threshold operators.

    They have ties, wide gaps, and budgets that are not integers. The chapters
    *selection/threshold*, *selection/symmetries* and *computing/threshold* run their
    checks on them.

    Returns
    -------
    list of (tuple of int, int or fractions.Fraction)
        The scores, and a budget below their number.

    Examples
    --------
    >>> threshold_cases()[3]
    ((1, 1, 0, 0), Fraction(1, 2))
    """
    rows = ((2, 1, 0), (1, 1, 0, 0), (5, 0), (40, 1, 0, -30), (1, 1, 1, 0, -2))
    budgets = (Fraction(1, 2), 1, Fraction(3, 2), 3)
    return [(x, k) for x in rows for k in budgets if k < len(x)]


def laplace_cases() -> list[tuple[list[float], float]]:
    """Scores with budgets for the checks of the Laplace curve.

    They have ties, wide gaps, and a budget that is not an integer. The chapters
    *selection/laplace* and *computing/closed-forms* run their checks on them.

    Returns
    -------
    list of (list of float, float)
        The scores and the budget.

    Examples
    --------
    >>> laplace_cases()[0]
    ([0.2, 0.1, 0.0], 2)
    """
    return [
        ([0.2, 0.1, 0.0], 2),
        ([0.02, 0.01, 0.0, -34.0], 2),
        ([0.02, 0.01, 0.0, -38.0], 2),
        ([0.0, 0.0, 0.0, 0.0], 2),
        ([float(v) for v in np.log([0.5, 0.3, 0.2])], 1),
        ([3.0, 2.0, 0.0], 2.5),
        ([900.0, 1.0, 0.0, -900.0], 2),
        ([1e-9, 0.0, -1e-9], 1),
        ([5.0, 5.0, 5.0, 1.0, 1.0, -20.0], 4),
    ]


def sigmoid_cases() -> list[tuple[list[int], float]]:
    """Scores with budgets for the checks of the sigmoid's threshold.

    They have ties, an outlier, wide gaps, and a budget that is not an integer. The
    chapters *selection/sigmoid* and *computing/threshold* run their checks on them.

    Returns
    -------
    list of (list of int, float)
        The scores and the budget.

    Examples
    --------
    >>> sigmoid_cases()[0]
    ([3, 1, 0, -2], 1)
    """
    return [
        ([3, 1, 0, -2], 1),
        ([3, 1, 0, -2], 3),
        ([3, 1, 0, -2], 2.5),
        ([0, 0, 0, 0, 0], 2),
        ([4] + [0] * 10, 1),
        ([500, 1, 0, -500], 2),
    ]


def _exact_clip(t: Any) -> Any:
    return min(Fraction(1), max(Fraction(0), t))


def clip_interval(
    x: Sequence[Any], k: Any, curve: Callable[[Any], Any] = _exact_clip
) -> tuple[Fraction, Fraction]:
    r"""All thresholds of the clip curve, exactly.

    Between two neighbouring kinks of the count :math:`\sum_i f(x_i-\lambda)` it is
    linear, so that its solutions follow from its values at the kinks.

    Parameters
    ----------
    x : sequence of numbers
        The scores; what `fractions.Fraction` takes.
    k : int or fractions.Fraction
        The budget, 0 < k < n.
    curve : callable
        The clip, from a fraction to a fraction. The chapters that derive it,
        *selection/threshold* and *selection/sparse*, pass their own.

    Returns
    -------
    (fractions.Fraction, fractions.Fraction)
        The smallest and the largest threshold.

    Examples
    --------
    >>> clip_interval([5, 0], 1)
    (Fraction(0, 1), Fraction(4, 1))
    """
    x = [Fraction(value) for value in x]

    def count(threshold: Fraction) -> Fraction:
        return sum((curve(value - threshold) for value in x), Fraction(0))

    knots = sorted({value - shift for value in x for shift in (0, 1)})
    found = []
    for a, b in itertools.pairwise(knots):
        high, low = count(a), count(b)
        if high >= k >= low:
            found += (
                [a, b] if high == low else [a + (b - a) * (high - k) / (high - low)]
            )
    return min(found), max(found)


def clip_topk(x: Sequence[Any], k: Any) -> list[Fraction]:
    """The shares of the clip operator in exact rational arithmetic.

    The chapters *selection/smoothness* and *selection/rates* check their bounds on
    them.

    Parameters
    ----------
    x : sequence of numbers
        The scores; what `fractions.Fraction` takes, strings included.
    k : int or fractions.Fraction
        The budget, 0 < k < n.

    Returns
    -------
    list of fractions.Fraction

    Examples
    --------
    >>> [str(p) for p in clip_topk(["0.5", "0.25", "-1"], 1)]
    ['5/8', '3/8', '0']
    >>> [str(p) for p in clip_topk([3, 1, 0, 0], 2)]
    ['1', '1', '0', '0']
    """
    x = [Fraction(value) for value in x]
    threshold, _ = clip_interval(x, k)
    return [_exact_clip(value - threshold) for value in x]


def exact_sparsemax(x: Sequence[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """Sparsemax in exact fractions, by trying all supports.

    The chapters *distributions/losses* and *computing/entmax* compare with it.

    Parameters
    ----------
    x : sequence of fractions.Fraction
        The scores, a few of them: every subset is tried.

    Returns
    -------
    threshold : fractions.Fraction
        The only threshold at which the shares sum to 1.
    p : list of fractions.Fraction
        The shares.

    Examples
    --------
    >>> level, p = exact_sparsemax([Fraction(1), Fraction(1, 2), Fraction(1, 4)])
    >>> str(level), [str(q) for q in p]
    ('1/4', ['3/4', '1/4', '0'])
    """

    def shares(level: Fraction) -> list[Fraction]:
        return [max(value - level, Fraction(0)) for value in x]

    sizes = range(1, len(x) + 1)
    supports = [s for size in sizes for s in itertools.combinations(x, size)]
    levels = {(sum(s) - Fraction(1)) / len(s) for s in supports}
    (level,) = {level for level in levels if sum(shares(level)) == 1}
    return level, shares(level)


def entmax_50(x: Sequence[Any], alpha: Any) -> list[mp.mpf]:
    """Entmax at 50 digits, by bisection; softmax for alpha = 1.

    A reference of the chapters on entmax, which shares nothing with the package's
    programs. The curve is not cut off at 1, so that the threshold is unique.

    Parameters
    ----------
    x : sequence of numbers
        The scores.
    alpha : number
        The order, at least 1.

    Returns
    -------
    list of mpmath.mpf
        The shares.

    Examples
    --------
    >>> [float(q) for q in entmax_50([Fraction(8, 5), Fraction(6, 5)], 1.5)]
    [0.64, 0.36]
    """
    with mp.workdps(70):
        b = precise(alpha, 70) - 1

        def curve(t: mp.mpf) -> mp.mpf:
            return mp.exp(t) if b == 0 else max(1 + b * t, mp.mpf(0)) ** (1 / b)

        return solve_threshold(curve, x, 1)[1]


def entmax_cases() -> list[tuple[int, list[Fraction], list[Fraction]]]:
    """Rows of scores whose entmax is known exactly, for alpha = 1 + 1/m.

    The shares are m-th powers of fractions, which sum to 1, and the threshold of x/m is
    0. To each row belong two longer ones: with a score on the border of the support,
    and with two below it. The chapters on entmax and its losses check on them.

    Returns
    -------
    list of (int, list of fractions.Fraction, list of fractions.Fraction)
        The number m, the scores and the shares.

    Examples
    --------
    >>> m, x, p = entmax_cases()[9]
    >>> m, [str(v) for v in x], [str(v) for v in p]
    (2, ['8/5', '6/5'], ['16/25', '9/25'])
    """
    # The last number divides the others; the m-th powers sum to 1: 4^2 + 3^2 = 5^2.
    roots = {
        1: [(2, 1, 3), (4, 2, 1, 7), (1, 1, 2)],
        2: [(4, 3, 5), (2, 2, 1, 3), (6, 3, 2, 7), (1, 1, 1, 1, 2), (1, 1)],
        3: [(5, 4, 3, 6), (8, 6, 1, 9), (1, 1, 1, 1, 1, 1, 1, 1, 2)],
        4: [(315, 272, 120, 30, 353), (1, 1)],
    }
    tails = [[], [Fraction(0)], [Fraction(-1, 7), Fraction(-2)]]  # 0: on the border
    cases = []
    for m, rows in roots.items():
        for (*tops, bottom), tail in itertools.product(rows, tails):
            row = [Fraction(top, bottom) for top in tops]
            x = [m * value for value in row + tail]
            cases.append((m, x, [r**m for r in row] + [Fraction(0)] * len(tail)))
    return cases


def uniform_shares(scores: Sequence[sp.Rational]) -> list[sp.Rational]:
    """Perturb-max with uniform noise on [0, 1], exactly.

    The integrand is piecewise polynomial, so that the shares are fractions. The
    chapters *distributions/perturb-max* and *computing/quadrature* compare with them.

    Parameters
    ----------
    scores : sequence of sympy.Rational

    Returns
    -------
    list of sympy.Rational

    Examples
    --------
    >>> uniform_shares([sp.Rational(1, 2), sp.Integer(0)])
    [7/8, 1/8]
    """
    v = sp.Symbol("v")
    shares = []
    for i, score in enumerate(scores):
        gaps = [score - other for j, other in enumerate(scores) if j != i]
        cuts = {edge - gap for gap in gaps for edge in (0, 1)}
        edges = sorted({sp.S.Zero, sp.S.One, *(cut for cut in cuts if 0 < cut < 1)})
        share = sp.S.Zero
        for low, high in itertools.pairwise(edges):
            middle = (low + high) / 2
            factors = [v + gap for gap in gaps if middle + gap < 1]  # others are 1
            if all(middle + gap > 0 for gap in gaps):  # otherwise a factor is 0
                primitive = sp.Poly(sp.Mul(*factors), v).integrate()
                share += primitive.eval(high) - primitive.eval(low)
        shares.append(share)
    return shares


def separated(x: Sequence[Any], k: int) -> bool:
    """Whether the scores at the places k and k + 1 differ, or k = n.

    For the chapters *selection/problem* and *selection/hard*.

    Parameters
    ----------
    x : sequence of numbers
        The scores.
    k : int
        The budget, 1 <= k <= n.

    Returns
    -------
    bool

    Examples
    --------
    >>> separated([2, 1, 1], 1), separated([2, 1, 1], 2), separated([2, 1, 1], 3)
    (True, False, True)
    """
    s = sorted(x, reverse=True)
    return bool(k == len(x) or s[k - 1] > s[k])


def order_types(
    sizes: Sequence[int] = (1, 2, 3, 4),
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every order type of the given sizes, with every integer budget.

    What depends on the order of the scores alone holds for all scores of these sizes
    if it holds here. The chapters *selection/problem* and *selection/hard* use it.

    Parameters
    ----------
    sizes : sequence of int
        The numbers of scores.

    Yields
    ------
    (tuple of int, int)
        Scores from 0, ..., n - 1, in all ways, and a budget from 1, ..., n.

    Examples
    --------
    >>> list(order_types([1])), len(list(order_types([2])))
    ([((0,), 1)], 8)
    """
    for n in sizes:
        for x in itertools.product(range(n), repeat=n):
            for k in range(1, n + 1):
                yield x, k


def bump(x: Sequence[Any], i: int, step: Any) -> list[Any]:
    """The list of scores with a step added to one entry.

    For difference quotients in *selection/problem*, *selection/hard* and
    *computing/sorting*.

    Parameters
    ----------
    x : sequence of numbers
        The scores.
    i : int
        The place of the entry.
    step : number
        What is added to it.

    Returns
    -------
    list

    Examples
    --------
    >>> bump([3, 2, 1], 1, 10)
    [3, 12, 1]
    """
    return [value + step if j == i else value for j, value in enumerate(x)]


def elementary(k: int, weights: Sequence[Any]) -> Any:
    """The elementary symmetric polynomial, term by term.

    A reference of *computing/marginals* and *computing/rounding*. The chapters that
    derive GradTopK write their own.

    Parameters
    ----------
    k : int
        The degree; the polynomial is 0 for a negative one.
    weights : sequence of numbers or SymPy expressions

    Returns
    -------
    number or SymPy expression
        The sum of the products of k of the weights.

    Examples
    --------
    >>> elementary(2, [5, 2, 1, 1])
    25
    """
    if k < 0:
        return 0
    return sum(math.prod(chosen) for chosen in itertools.combinations(weights, k))


def subset_law(
    weights: Sequence[Any], k: int
) -> tuple[list[tuple[int, ...]], sp.Matrix, Any]:
    """The random k-subset with product weights, exactly.

    The chapters *selection/family* and *selection/neighbours* compute with it.

    Parameters
    ----------
    weights : sequence of SymPy numbers or expressions
    k : int
        The size of the subsets.

    Returns
    -------
    sets : list of tuple of int
        The subsets.
    law : sympy.Matrix
        Their probabilities, as a column.
    z : SymPy number or expression
        The sum of their weights, Z_k.

    Examples
    --------
    >>> sets, law, z = subset_law([sp.Integer(v) for v in (1, 2, 3)], 2)
    >>> sets, list(law), z
    ([(0, 1), (0, 2), (1, 2)], [2/11, 3/11, 6/11], 11)
    """
    sets = list(itertools.combinations(range(len(weights)), k))
    products = [sp.prod([weights[i] for i in chosen]) for chosen in sets]
    total = sum(products)
    return sets, sp.Matrix([product / total for product in products]), total


def subset_cases() -> list[tuple[NDArray[np.float64], int]]:
    """Rows of scores with budgets for the checks of GradTopK.

    They have a small and a large spread, scores that dominate, and ties. The chapters
    *selection/marginals*, *computing/marginals* and *computing/rounding* compare their
    programs with :func:`subset_marginals` on them.

    Returns
    -------
    list of (numpy.ndarray, int)
        The scores and the budget.

    Examples
    --------
    >>> len(subset_cases())
    31
    """
    cases = []
    rng = np.random.default_rng(7)
    for n, k, spread in itertools.product(
        (5, 24), (1, 2, 4, 20), (0.01, 1.0, 10.0, 300.0)
    ):
        if k < n:
            cases.append((rng.standard_normal(n) * spread, k))
    return [
        *cases,
        (np.array([40.0, 0.0, -1.0]), 2),
        (np.zeros(9), 4),
        (np.repeat([3.0, 0.0], 6), 5),
    ]


def recursion(x: ArrayLike, k: int) -> NDArray[np.float64]:
    """GradTopK by the subtractive recursion in the log domain, which can fail.

    The chapter *selection/marginals* derives it; *computing/rounding* and
    *selection/compared* measure its errors with this copy.

    Parameters
    ----------
    x : array_like of floats
        The scores.
    k : int
        The budget, 1 <= k <= n.

    Returns
    -------
    numpy.ndarray
        The shares, wrong or not numbers where the subtraction cancels.

    Examples
    --------
    >>> (recursion(np.log([5, 2, 1, 1]), 2) * 25).round(6).tolist()
    [20.0, 14.0, 8.0, 8.0]
    """
    x = np.asarray(x, dtype=float)
    parts, total = x, np.logaddexp.reduce(x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for j in range(2, k + 1):
            parts = x + total + np.log1p(-np.exp(parts - total))
            total = np.logaddexp.reduce(parts) - np.log(j)
        return np.exp(parts - total)


def log_prefixes(scores: ArrayLike, k: int) -> NDArray[np.float64]:
    """The table of log e_j of the first m weights, for all m and j <= k.

    The chapter *selection/marginals* derives it; *computing/rounding* measures its
    errors with this copy.

    Parameters
    ----------
    scores : array_like of floats
        The logarithms of the weights.
    k : int
        The largest degree.

    Returns
    -------
    numpy.ndarray
        Row m and column j hold the logarithm for the first m weights and the degree j.

    Examples
    --------
    >>> np.exp(log_prefixes(np.log([5, 2, 1, 1]), 2))[-1].round(6).tolist()
    [1.0, 9.0, 25.0]
    """
    scores = np.asarray(scores, dtype=float)
    rows = np.full((len(scores) + 1, k + 1), -np.inf)
    rows[:, 0] = 0
    for m, score in enumerate(scores):
        rows[m + 1, 1:] = np.logaddexp(rows[m, 1:], score + rows[m, :-1])
    return rows


def log_dp(x: ArrayLike, k: int) -> NDArray[np.float64]:
    """GradTopK by prefixes and suffixes, in the log domain.

    The chapter *selection/marginals* derives it; *computing/rounding* measures its
    errors with this copy.

    Parameters
    ----------
    x, k
        As in :func:`recursion`.

    Returns
    -------
    numpy.ndarray
        The shares.

    Examples
    --------
    >>> (log_dp(np.log([5, 2, 1, 1]), 2) * 25).round(6).tolist()
    [20.0, 14.0, 8.0, 8.0]
    """
    x = np.asarray(x, dtype=float)
    before, after = log_prefixes(x, k), log_prefixes(x[::-1], k)[::-1]
    others = before[:-1, :k] + after[1:, :k][:, ::-1]
    return np.exp(x + np.logaddexp.reduce(others, axis=1) - before[-1, k])


def amplification(x: ArrayLike, k: int) -> float:
    """The bits that :func:`recursion` can lose at the largest score.

    The chapter *computing/rounding* derives it; *selection/marginals* predicts with
    this copy where the recursion fails.

    Parameters
    ----------
    x, k
        As in :func:`recursion`.

    Returns
    -------
    float
        The logarithm, to the base 2, of the factor by which an error can grow.

    Examples
    --------
    >>> round(amplification([40, 0, -1], 2)), amplification([0, 0, 0], 1)
    (57, 0.0)
    """
    x = np.sort(np.asarray(x, dtype=float))[::-1]
    log_e = np.full(k + 1, -np.inf)  # log e_j of the other scores
    log_e[0] = 0
    for score in x[1:]:
        log_e[1:] = np.logaddexp(log_e[1:], score + log_e[:-1])
    log_odds = x[0] + log_e[: k - 1] - log_e[1:k]
    return float(np.maximum(log_odds, 0).sum() / np.log(2))


def coin_law(chances: Sequence[Any]) -> list[Any]:
    """The law of the number of heads of independent coins.

    The chapter *selection/marginals* derives it; *computing/marginals* and
    *computing/rounding* use this copy.

    Parameters
    ----------
    chances : sequence of numbers or SymPy expressions
        The probability of heads of each coin.

    Returns
    -------
    list
        The probabilities of 0, ..., n heads, of the coins' type.

    Examples
    --------
    >>> [str(mass) for mass in coin_law([Fraction(1, 2), Fraction(1, 3)])]
    ['1/3', '1/2', '1/6']
    """
    law = [chances[0] ** 0]  # 1, of the coins' type
    for chance in chances:
        stay = [mass * (1 - chance) for mass in law] + [0]
        move = [0] + [mass * chance for mass in law]
        law = [u + v for u, v in zip(stay, move, strict=True)]
    return law


def coin_table(pi: ArrayLike, rest: ArrayLike, k: int) -> NDArray[np.float64]:
    """The probabilities of 0 to k heads among the first m coins, for each m.

    The chapters *selection/marginals* and *computing/rounding* compute GradTopK from
    two such tables.

    Parameters
    ----------
    pi : array_like of floats
        The probability of heads of each coin.
    rest : array_like of floats
        ``1 - pi``, without cancellation.
    k : int
        The largest number of heads.

    Returns
    -------
    numpy.ndarray
        Row m and column j hold the probability of j heads among the first m coins.

    Examples
    --------
    >>> coin_table([0.5, 0.25], [0.5, 0.75], 1).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.375, 0.5]]
    """
    pi, rest = np.asarray(pi, dtype=float), np.asarray(rest, dtype=float)
    rows = np.zeros((len(pi) + 1, k + 1))
    rows[0, 0] = 1
    for m in range(len(pi)):
        rows[m + 1] = rest[m] * rows[m]
        rows[m + 1, 1:] += pi[m] * rows[m, :-1]
    return rows


def coin_dp(pi: ArrayLike, rest: ArrayLike, k: int) -> NDArray[np.float64]:
    """GradTopK by prefixes and suffixes of the tilted coins.

    The chapter *selection/marginals* derives it; *computing/rounding* measures its
    errors with this copy.

    Parameters
    ----------
    pi : array_like of floats
        The probability of heads of each coin: the sigmoid of its score, at any tilt.
    rest : array_like of floats
        ``1 - pi``, without cancellation.
    k : int
        The budget, 1 <= k <= n.

    Returns
    -------
    numpy.ndarray
        The shares.

    Examples
    --------
    >>> pi = np.array([5, 2, 1, 1]) / np.array([6, 3, 2, 2])
    >>> (coin_dp(pi, 1 - pi, 2) * 25).round(6).tolist()
    [20.0, 14.0, 8.0, 8.0]
    """
    pi, rest = np.asarray(pi, dtype=float), np.asarray(rest, dtype=float)
    before = coin_table(pi, rest, k)
    after = coin_table(pi[::-1], rest[::-1], k)[::-1]
    others = (before[:-1, :k] * after[1:, :k][:, ::-1]).sum(axis=1)
    return pi * others / before[-1, k]


def inclusion(weights: Sequence[Any], k: int) -> list[Any]:
    """The marginals of the random k-subset, from tables over both sides of each entry.

    It only adds, multiplies and divides, so that the weights may be numbers of any
    kind: fractions, numbers of 50 digits, or numbers that count or differentiate. The
    chapters *computing/cost* and *selection/compared* use it.

    Parameters
    ----------
    weights : sequence of numbers
        The exponentials of the scores.
    k : int
        The budget, 1 <= k <= n.

    Returns
    -------
    list
        The shares of GradTopK, of the weights' type.

    Examples
    --------
    >>> [str(p) for p in inclusion([Fraction(v) for v in (5, 2, 1, 1)], 2)]
    ['4/5', '14/25', '8/25', '8/25']
    """

    def one_side(values: Sequence[Any]) -> list[list[Any]]:
        # Sums over the subsets of size 0 to k - 1 of what comes before each value.
        rows = [[1] + [0] * (k - 1)]
        for value in values:
            last = rows[-1]
            rows.append([1] + [last[j] + value * last[j - 1] for j in range(1, k)])
        return rows

    # What comes after an entry comes before it from the other end.
    before, after = one_side(weights[:-1]), one_side(weights[:0:-1])[::-1]
    parts = [
        value * sum(b[j] * a[k - 1 - j] for j in range(k))
        for value, b, a in zip(weights, before, after, strict=True)
    ]
    total = sum(parts) / k
    return [part / total for part in parts]


def scores_for(n: int, seed: int = 0) -> list[float]:
    """Distinct scores that are the same on every machine.

    For the counts of *computing/cost* and the checks of *selection/compared*.

    Parameters
    ----------
    n : int
        Their number, at most 512.
    seed : int
        Another one gives other scores.

    Returns
    -------
    list of float
        Multiples of 1/64 in [-4, 4).

    Examples
    --------
    >>> len(set(scores_for(64))), scores_for(3) == scores_for(3)
    (64, True)
    """
    return [v / 64 for v in random.Random(seed).sample(range(-64 * 4, 64 * 4), n)]


class Dual:
    """A number with a derivative: automatic differentiation in the forward direction.

    *computing/cost* counts the operations of a derivative with it, and
    *selection/compared* differentiates at 50 digits.

    Parameters
    ----------
    value : number
        Whatever can be added, multiplied and divided.
    slope : number
        Its derivative.

    Examples
    --------
    >>> t = Dual(3, 1)
    >>> square = t * t + 1
    >>> square.value, square.slope
    (10, 6)
    """

    def __init__(self, value: Any, slope: Any = 0.0) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value + other, self.slope)
        return Dual(self.value + other.value, self.slope + other.slope)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value * other, self.slope * other)
        return Dual(
            self.value * other.value,
            self.slope * other.value + self.value * other.slope,
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return Dual(self.value / other, self.slope / other)
        ratio = self.value / other.value
        return Dual(ratio, (self.slope - ratio * other.slope) / other.value)
