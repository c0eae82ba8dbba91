"""Rows whose budgets have costs of every kind that may break a solver.

The seed is new in each run and printed with every failure: `HUNT_SEED=... pytest` runs
the same rows again, and `HUNT_CALLS` asks for more of them.
"""

import math
import os
import secrets

import numpy as np
import oracle
import oracle_costs
from mpmath import mpf

SEED = int(os.environ.get("HUNT_SEED") or secrets.randbits(32))
CALLS = int(os.environ.get("HUNT_CALLS") or 40)


def reference(curve):
    if curve.name.startswith("entmax"):
        return oracle.curve("entmax", curve.alpha)
    return oracle.curve(curve.name)


def costs(rng, n):
    """From 1e-6 to 1e6, all equal, one huge, one tiny, small integers, or near 1."""
    unit = np.ones(n)
    unit[rng.integers(n)] = 10.0 ** rng.choice([-6, 6])
    kinds = [
        10 ** rng.uniform(-6, 6, n),
        np.full(n, 10 ** rng.uniform(-6, 6)),
        unit,
        rng.integers(1, 5, n).astype(float),
        rng.uniform(0.5, 2, n),
    ]
    return kinds[rng.integers(len(kinds))]


def scores(rng, c):
    """Level, tied, of equal density, far from 0 by a price, or of any scale."""
    z = rng.standard_normal(len(c))
    price = 10 ** rng.uniform(-3, 3) * rng.choice([-1, 1])
    kinds = [
        z,
        rng.integers(0, 3, len(c)).astype(float),
        price * c,
        z + price * c,
        z * c,
        z * 10 ** rng.uniform(-3, 5),
    ]
    return kinds[rng.integers(len(kinds))]


def budget(rng, x, c, per):
    """Anywhere, near 0, near all, or what the first entries in Dantzig's order cost."""
    total, least = math.fsum(c), float(min(c))
    order = np.argsort(-(x / c if per == "entry" else x), kind="stable")
    kinds = [
        total * rng.uniform(),
        total * 10 ** rng.uniform(-12, -3),
        least * rng.uniform(),
        total - least * rng.uniform(),
        math.fsum(c[order[: rng.integers(1, len(c))]]),
    ]
    return float(kinds[rng.integers(len(kinds))])


def held(K, dtype):
    """The budget as two floats of the type: of a double, a float32 keeps 48 bits.

    The bits that are lost decide on which side of a gap the threshold lies where the
    budget is spent by whole entries up to its last bits. No bound on rounding reaches
    across a gap, and so such a budget is rounded before it is compared.
    """
    whole = dtype(K)
    return float(whole) + float(dtype(K - float(whole)))


def hunted(dtype, number, seed, n=None):
    """(x, c, K, temperature, per) of short rows, with budgets that lie inside."""
    rng = np.random.default_rng([seed, np.dtype(dtype).itemsize])
    for _ in range(number):
        c = costs(rng, n or int(rng.integers(2, 8))).astype(dtype)
        x = scores(rng, c.astype(float)).astype(dtype)
        per = ("entry", "cost")[rng.integers(2)]
        K = held(budget(rng, x.astype(float), c.astype(float), per), dtype)
        tau = float(np.float32(10 ** rng.uniform(-3, 2)))
        if 0 < K < math.fsum(c.astype(float).tolist()):
            yield x, c, K, tau, per


def worst(p, x, c, K, curve, tau, per, eps):
    """The largest error of a share, over what is proved of it."""
    exact = oracle_costs.solve(x, c, K, *reference(curve), tau, per)
    errors = [abs(mpf(float(a)) - b) for a, b in zip(p, exact.p, strict=True)]
    bounds = exact.bound(eps)
    return float(max(a / b for a, b in zip(errors, bounds, strict=True)))
