"""Curves, types and rows that several files of tests share."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from softtopk.curves import NAMED, Curve, entmax, resolve

NAMES = tuple(NAMED)
CURVES = [*NAMED.values(), *map(entmax, (1.5, 1.25, 1.05))]
TYPES = (np.float64, np.float32)


def has_potential(curve):
    """Whether a curve defines its integral, which the losses need."""
    return type(curve).potential is not Curve.potential


def tail(curve, distance):
    """The most that a share at this distance from the threshold is from 0 or 1.

    If no score is nearer than this to the middle of the gap around the k-th place, the
    threshold is at least this far either from all scores above the gap or from all
    below it.  What the former lack of 1 and what the latter are above 0 have the same
    sum, because the budget is whole.  So each share is at most n times this off.
    """
    resolved = resolve(curve)
    return float(max(resolved.value(-distance), resolved.complement(distance)))


def has_heavy_tails(curve):
    """Whether the shares fall slower than e^(-t/2), as those of a power do."""
    return tail(curve, 60.0) > np.exp(-30.0)


named = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
typed = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)

# Windows, and macOS on Apple's processors, have no type longer than float64.
LONG = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
long_double = pytest.mark.skipif(
    not LONG, reason="long double has no more digits than float64 on this system"
)


def off_budget(p, k):
    """How far each row of shares is from its sum k, without a rounding that counts.

    The upper half of each share's digits adds up exactly, up to 2^26 shares; what the
    lower halves lose is below one thousandth of a unit in the last place of 1.
    """
    p = np.asarray(p, np.float64)
    upper = np.round(p * 2.0**26) / 2.0**26
    return np.abs((upper.sum(axis=-1) - k) + (p - upper).sum(axis=-1))


# Sizes and signs of every magnitude that a type has, ties, and -inf.
FINITE = {
    dtype: st.floats(
        allow_nan=False, allow_infinity=False, width=np.dtype(dtype).itemsize * 8
    )
    for dtype in TYPES
}
MODEST = st.floats(-40, 40, width=32)
SPECIAL = st.sampled_from([0.0, 1.0, -1.0, 1e8, -(2.0**-149), -np.inf])


def scores(dtype, elements=None, least=1):
    values = FINITE[dtype] | MODEST | SPECIAL if elements is None else elements
    return st.integers(least, 12).flatmap(lambda n: arrays(dtype, n, elements=values))


def budget(data, x):
    """A real or whole budget that the finite entries of x allow."""
    most = int(np.isfinite(x).sum())
    return data.draw(st.integers(0, most) | st.floats(min(most, 1e-3), most))


SCALES = ((1, 0), (50, 0), (1e-3, -12345.678), (1, 1e8), (1e8, 1e8))


def stress(dtype, scales):
    """Rows of every shape that has broken a solver before, with their budgets."""
    rng = np.random.default_rng(3)
    masked = rng.normal(size=9)
    masked[::3] = -np.inf
    bases = {
        "pair": np.array([1.0, 0.0]),
        "gauss": rng.normal(size=9),
        "ties": rng.integers(0, 3, 9).astype(float),
        "equal": np.full(5, 0.7),
        "cauchy": rng.standard_cauchy(9),
        "bimodal": np.repeat([1.0, -1.0], 4) + 1e-3 * rng.normal(size=8),
        "geometric": 2.0 ** -np.arange(12),
        "masked": masked,
        "long": rng.normal(size=40),
    }
    for base in bases.values():
        for scale, shift in scales:
            x = (base * scale + shift).astype(dtype)
            count = int(np.isfinite(x).sum())
            for k in (1, 2.7, count // 2, count - 0.5):
                if 0 < k < count and (len(x) < 40 or k == 2.7):
                    yield x, k
