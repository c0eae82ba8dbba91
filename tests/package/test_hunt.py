"""Fresh random rows of every kind that has ever broken a threshold solver.

The seed is new in each run and printed with every failure: `HUNT_SEED=... pytest` runs
the same rows again, and `HUNT_CALLS` asks for more of them.  The sum of the shares is
held against the budget without rounding, shares of short rows against 50 digits.
"""

from __future__ import annotations

import os
import secrets
from typing import Any

import numpy as np
import oracle
import pytest
from mpmath import mp
from rows import off_budget

import softtopk as stk
from softtopk.curves import NAMED, entmax

SEED = int(os.environ.get("HUNT_SEED", secrets.randbits(32)))
CALLS = int(os.environ.get("HUNT_CALLS", 60))  # of each kind of row and type

Rng = np.random.Generator


def gauss(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def few_far(sign: int) -> Any:
    """Rows of which a few scores lie far from the others."""

    def rows(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
        x = rng.standard_normal(shape)
        few = rng.integers(1, 1 + min(5, shape[-1]))
        x[..., :few] = sign * 10 ** rng.uniform(0, 8, (*shape[:-1], few))
        return x

    return rows


def clusters(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    apart = 10 ** rng.uniform(0, 6)
    return rng.standard_normal(shape) + apart * rng.integers(0, 2, shape)


def heavy(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_cauchy(shape) ** rng.choice([1, 3])


def ties(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 4, shape).astype(float)


def geometric(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return 2.0 ** -rng.integers(0, 60, shape)


KINDS = {
    "gauss": gauss,
    "few far below": few_far(-1),
    "few far above": few_far(1),
    "two clusters": clusters,
    "heavy tails": heavy,
    "ties": ties,
    "geometric": geometric,
}
CURVES = [
    *NAMED.values(),
    *map(entmax, (1.5, 1.25, 1.05)),
    stk.curves.EXP.reflected(),
    stk.curves.SIGMOID.scaled(2.0).shifted(0.5),
]


def budget(rng: Rng, n: int) -> float:
    """Whole or not, within 3 of 0 or of n twice as often as anywhere."""
    near = rng.integers(1, 4) if rng.random() < 0.5 else 3 * rng.random()
    k = rng.choice([near, n - near, n * rng.random()])
    return float(np.clip(k, 1e-6, n - 1e-6 * rng.random()))


def calls(kind: str, dtype: type, number: int, seed: int) -> Any:
    """(x, k, curve) of one kind: short rows, batches, and long single rows."""
    stream = [seed, list(KINDS).index(kind), np.dtype(dtype).itemsize]
    rng = np.random.default_rng(stream)
    for call in range(number):
        n = int(10 ** rng.uniform(0.31, 5 if call % 20 == 0 else 3))
        shape = (n,) if n > 5000 or rng.random() < 0.5 else (int(rng.integers(2, 6)), n)
        x = (KINDS[kind](rng, shape) * 10 ** rng.uniform(-6, 6)).astype(dtype)
        yield x, budget(rng, n), CURVES[rng.integers(len(CURVES))]


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_sum_to_the_budget_and_keep_the_order(kind, dtype):
    eps = float(np.finfo(dtype).eps)
    for call, (x, k, curve) in enumerate(calls(kind, dtype, CALLS, SEED)):
        p = stk.soft_topk(x, k, curve)
        n, told = x.shape[-1], f"HUNT_SEED={SEED} {kind} {dtype.__name__} {call}"
        told += f": {curve.name}, n={n}, k={k!r}"
        assert np.all((p >= 0) & (p <= 1)), told
        off = off_budget(p, k).max()
        assert off <= 16 * eps * k, told
        rows = np.take_along_axis(p, x.argsort(axis=-1, kind="stable"), axis=-1)
        # A unit in the last place of e^d, by which np.exp may fall, is up to two of p.
        assert np.all(np.diff(rows, axis=-1) >= -2 * np.spacing(rows[..., 1:])), told


def _reference(curve: Any) -> Any:
    name = curve.name
    if name.startswith("entmax"):
        return oracle.curve("entmax", curve.alpha)
    return oracle.curve(name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_short_rows_are_right(kind, dtype):
    eps, seen = float(np.finfo(dtype).eps), 0
    for x, k, curve in calls(kind, dtype, 4 * CALLS, SEED + 1):
        if x.ndim > 1 or x.size > 30 or curve not in CURVES[:8]:
            continue
        exact = oracle.solve(x, k, *_reference(curve))
        error = max(
            abs(mp.mpf(float(a)) - b)
            for a, b in zip(stk.soft_topk(x, k, curve), exact.p, strict=True)
        )
        assert error <= 12 * eps, (SEED, kind, curve.name, x.tolist(), k)
        seen += 1
    assert seen
