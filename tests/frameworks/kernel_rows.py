"""Rows of every class that has troubled a threshold solver, with their budgets."""

import numpy as np

CLASSES = (
    "normal",
    "ties",
    "outlier",
    "constant",
    "cauchy",
    "uniform",
    "masked",
    "offset",
    "plateaus",
    "far below",
    "two values",
)


def rows(rng, count, n, dtype):
    """(count, n) scores, row by row of the next class, at scales from 1e-6 to 1e6."""
    out = np.empty((count, n))
    for i in range(count):
        kind = CLASSES[i % len(CLASSES)]
        x = rng.normal(size=n)
        if kind == "ties":
            x = np.round(2 * x) / 2
        elif kind in ("outlier", "far below"):
            x[rng.integers(n)] = 1e4 if kind == "outlier" else -1e4
        elif kind == "constant":
            x[:] = 0.7
        elif kind == "cauchy":
            x = rng.standard_cauchy(size=n)
        elif kind == "uniform":
            x = rng.uniform(size=n)
        elif kind == "offset":
            x += 1000
        elif kind == "plateaus":
            x = np.arange(n) // 3 * 1.0
        elif kind == "two values":
            x = 50.0 * (rng.uniform(size=n) < 0.3)
        out[i] = x * 10 ** rng.uniform(-6, 6)
        if kind == "masked":
            out[i, rng.uniform(size=n) < 0.4] = -np.inf
            out[i, :2] = 1, 0
    return out.astype(dtype)


def budgets(rng, x):
    """A budget a row: whole, real, next to the ends, far below 1."""
    most = np.isfinite(x).sum(-1)
    kinds = np.arange(len(x)) // len(CLASSES) % 5
    real = rng.uniform(size=len(x))
    return np.select(
        [kinds == 0, kinds == 1, kinds == 2, kinds == 3],
        [
            1 + np.floor(real * (most - 1)),
            real * most,
            np.where(real < 0.5, 1, most - 1),
            np.where(real < 0.5, 0.3, most - 0.3),
        ],
        10.0 ** (-6 * real),
    ).astype(x.dtype)
