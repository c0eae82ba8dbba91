"""What an operator is asked, and what it answered: NumPy in, numbers out.

`shares(x, k, t)` is the operator on NumPy arrays, t a factor on its softness.  The
checks know no framework, so that a wrong operator of three lines can be tried on them.
An answer is a number (an error, in the units that the check names) or a word: the type
of the error that was raised, or "nan".
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "package"))

import oracle

Shares = Callable[[np.ndarray, float, float], np.ndarray]
Answer = float | str

# A row of eight scores without ties, and two budgets: the point of the derivatives.
POINT = np.array([1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6])
WEIGHTS = np.array([0.3, -1.0, 0.7, 0.2, -0.5, 0.9, 0.4, -0.8])
DIRECTION = np.array([0.5, 0.1, -0.7, 0.9, 0.3, -0.2, -0.6, 0.8])


def grid(only_one: bool) -> Iterator[tuple[np.ndarray, int]]:
    """Rows of many sizes, scales, offsets and ties, with their budgets."""
    rng = np.random.default_rng(13)
    for n in (5, 40, 300):
        gauss, ties = rng.standard_normal(n), rng.integers(0, 4, n).astype(float)
        rows = [gauss * scale for scale in (1e-3, 1.0, 100.0, 1e4)]
        rows += [gauss + 1e6, ties, np.full(n, 0.5)]
        for x in rows:
            for k in (1,) if only_one else (1, max(2, n // 4), n - 1):
                yield x, k


def attempt(call: Callable[[], Any]) -> Any:
    """What a call gives, or the name of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def _largest(values: Any) -> float:
    return float(np.max(values, initial=0.0))


def faults(p: np.ndarray, x: np.ndarray, k: float) -> dict[str, float]:
    """How far one answer is from shares: budget, interval, order, ties."""
    order = np.argsort(x, kind="stable")
    rising, falls = x[order], -np.diff(p[order])
    tied = np.diff(rising) == 0
    return {
        "sum": abs(math.fsum(p) - k) / k,
        "range": max(_largest(p - 1), _largest(-p)),
        "order": _largest(falls[~tied]),
        "ties": _largest(np.abs(falls[tied])),
    }


def promises(
    shares: Shares, only_one: bool, reference: Callable[..., np.ndarray] | None
) -> dict[str, Any]:
    """The worst of every fault on the grid, and of the error if there is a judge."""
    worst: dict[str, Any] = dict.fromkeys(("sum", "range", "order", "ties"), 0.0)
    if reference:
        worst["error"] = 0.0
    worst |= {"cases": 0, "nan": 0, "raised": 0}
    for x, k in grid(only_one):
        worst["cases"] += 1
        p = attempt(lambda x=x, k=k: shares(x, k, 1.0))
        if isinstance(p, str):
            worst["raised"] += 1
            worst["raises"] = p
            continue
        if not np.isfinite(p).all():
            worst["nan"] += 1
            continue
        found = faults(p, x, k)
        if reference:
            found["error"] = _largest(np.abs(p - reference(x, k)))
        for name, value in found.items():
            worst[name] = max(worst[name], value)
    return worst


def oracle_of(
    curve: str, alpha: float | None, scores: Callable | None
) -> Callable[..., np.ndarray]:
    """The shares to fifty digits, rounded once."""

    def reference(x: np.ndarray, k: float) -> np.ndarray:
        x, temperature = scores(x) if scores else (x, 1.0)
        return _solved(curve, alpha, tuple(map(float, x)), k, temperature)

    return reference


@functools.cache
def _solved(
    curve: str, alpha: float | None, x: tuple, k: float, temperature: float
) -> np.ndarray:
    found = oracle.solve(x, k, *oracle.curve(curve, alpha), temperature)
    return np.array([float(v) for v in found.p])


def masks(shares: Shares, k: int, random: bool = False) -> Answer:
    """Largest error beside scores of -inf: 0 there, the rest as if they were gone.

    A draw for fewer scores is another draw: of a random answer only the zeros count.
    """
    x = np.concatenate([POINT, [-np.inf, -np.inf]])[[0, 8, 1, 2, 3, 4, 9, 5, 6, 7]]
    kept = np.isfinite(x)

    def error() -> Answer:
        p = shares(x, k, 1.0)
        if not np.isfinite(p).all():
            return "nan"
        if random:
            return _largest(np.abs(p[~kept]))
        rest = shares(x[kept], k, 1.0)
        return max(_largest(np.abs(p[~kept])), _largest(np.abs(p[kept] - rest)))

    return attempt(error)


def real_budget(shares: Shares) -> Answer:
    """Distance of the sum from the budget 2.5."""
    return attempt(lambda: _finite(abs(math.fsum(shares(POINT, 2.5, 1.0)) - 2.5)))


def row_budgets(shares: Shares) -> Answer:
    """Error of a batch with a budget for each row, against the rows by themselves."""

    def error(k: np.ndarray) -> Answer:
        p = shares(np.stack([POINT, POINT[::-1]]), k, 1.0)
        alone = [shares(POINT, 1, 1.0), shares(POINT[::-1], 3, 1.0)]
        return _finite(_largest(np.abs(p - np.stack(alone))))

    column = attempt(lambda: error(np.array([[1], [3]])))
    return attempt(lambda: error(np.array([1, 3]))) if _bad(column) else column


def _bad(answer: Answer) -> bool:
    return isinstance(answer, str) or answer > 1e-3


def _finite(value: float) -> Answer:
    return value if math.isfinite(value) else "nan"


def limit(shares: Shares, k: int, returns: str = "shares") -> Answer:
    """Distance from the hard top-k with a thousandth of the softness."""
    order = np.argsort(-POINT)
    hard = np.zeros(8)
    hard[order[:k]] = 1

    def error() -> Answer:
        p = shares(POINT, k, 1e-3)
        if returns == "values":
            return _finite(_largest(np.abs(np.sort(p) - np.sort(POINT)[-k:])))
        return _finite(_largest(np.abs(p - hard)))

    return attempt(error)


# --- Derivatives ---------------------------------------------------------------------
# The scalar s(x) = (g·p(x))²/2 has a curvature even where p is linear.

STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


def directional(f: Callable, x: np.ndarray, v: np.ndarray, h: float) -> Any:
    """f' v by a difference of fourth order."""
    return sum(c * f(x + i * h * v) for i, c in STENCIL) / h


def derivatives(p: Callable[[np.ndarray], np.ndarray], h: float) -> dict[str, Any]:
    """Gradient and curvature of s, and J v, by differences of the values alone."""

    def s(x: np.ndarray) -> float:
        y = p(x)
        return float(np.dot(WEIGHTS[: len(y)], y)) ** 2 / 2

    def gradient(x: np.ndarray) -> np.ndarray:
        return np.array([directional(s, x, e, h) for e in np.eye(len(x))])

    return {
        "first": gradient(POINT),
        "second": directional(gradient, POINT, DIRECTION, h),
        "forward": directional(p, POINT, DIRECTION, h),
    }


def against(found: Any, wanted: np.ndarray) -> Answer:
    """Error relative to the largest entry, or the word that came instead."""
    if isinstance(found, str):
        return found
    if not np.isfinite(found).all():
        return "nan"
    return _largest(np.abs(found - wanted)) / max(_largest(np.abs(wanted)), 1e-3)
