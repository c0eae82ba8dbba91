"""Shares, thresholds and derivatives against 50 digits."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from mpmath import mp, mpf
from rows import NAMES, SCALES, stress, typed

import softtopk as stk
from softtopk._rows.numpy_rows import as_numpy_rows
from softtopk._search.numpy_search import solve
from softtopk._search.numpy_sums import scheme_of
from softtopk.curves import Curve, entmax, resolve


@typed
@pytest.mark.parametrize(
    ("curve", "name", "alpha"),
    [
        *((resolve(n), n, None) for n in NAMES),
        *((entmax(alpha), "entmax", alpha) for alpha in (1.001, 1.05, 1.25, 1.5)),
    ],
    ids=lambda v: v.name if isinstance(v, Curve) else "",
)
def test_shares_threshold_and_gradient_match_the_reference(curve, name, alpha, dtype):
    eps = float(np.finfo(dtype).eps)
    rng = np.random.default_rng(4)
    f, slope = oracle.curve(name, alpha)
    # In float32 the offsets would leave little of most rows.
    for x, k in stress(dtype, SCALES if dtype is np.float64 else SCALES[:2]):
        exact = oracle.solve(x, k, f, slope)
        with np.errstate(all="ignore"):
            found = solve(curve, as_numpy_rows(x, k))
        p = [mpf(float(v)) for v in found.p[0]]
        g = rng.normal(size=len(x)).astype(dtype)
        back = stk.linearize(stk.soft_topk, x, k, curve).vjp(g)
        with mp.workdps(exact.digits):
            # Rounding x - anchor costs eps / 2 |x - anchor| f' <= eps / (2 e) and the
            # sums a few eps of what they add up: 8 eps leaves no more room.
            assert max(abs(a - b) for a, b in zip(p, exact.p, strict=True)) <= 8 * eps
            assert abs(mp.fsum(p) - mpf(k)) <= 16 * eps * k
            wide = mp.fsum(exact.w) > mpf(10) ** -20  # else p does not fix lambda
            ordered = np.sort(x)[::-1].astype(float)
            gap = ordered[int(np.ceil(k)) - 1] - ordered[int(np.floor(k))]
            pair = mpf(float(found.anchor[0])) + mpf(float(found.offset[0]))
            if wide:
                # Of tails that fall like a power the slopes say less of the threshold.
                small = mp.fsum(min(a, 1 - a) for a in exact.p)
                unit = max(1, small / (2 * mp.fsum(exact.w)))
                assert abs(pair - exact.threshold) <= 32 * eps * (unit + gap)
            # The threshold of a curve without sums of its own is found in 64 bits, and
            # the derivative rounds it.
            size = 4 * eps * float(abs(g).max())
            size *= 1 if scheme_of(curve) else 1 + abs(exact.threshold)
            for a, b in zip(back, exact.vjp(g), strict=True):
                assert abs(mpf(float(a)) - b) <= size
            if name not in ("exp", "laplace", "sigmoid") or not wide:
                continue
            for a, b, v in zip(p, exact.p, x, strict=True):
                if b > (1e-150 if dtype is np.float64 else 1e-18):
                    far = 1 + abs(mpf(float(v)) - exact.threshold)
                    assert abs(a / b - 1) <= 16 * eps * far


@typed
@pytest.mark.parametrize("alpha", [1.001, 1.05, 1.25])
def test_entmax_with_a_wide_support_spans_a_gap(alpha, dtype):
    """The threshold stays near the k-th score, and so must what it is counted from."""
    for part in (0.1, 0.5, 0.9, 0.99):
        x = np.array([part / (alpha - 1), 0.5, 0.25, 0.0], dtype)
        for k in (1, 0.75, 1.5):
            exact = oracle.solve(x, k, *oracle.curve("entmax", alpha))
            p = stk.soft_topk(x, k, entmax(alpha))
            error = max(abs(mpf(float(a)) - b) for a, b in zip(p, exact.p, strict=True))
            assert error <= 8 * float(np.finfo(dtype).eps)


@pytest.mark.parametrize("alpha", [1.6, 1.75, 1.99, 2.0])
def test_entmax_with_a_steep_start_matches_the_reference(alpha):
    """Its slope rises vertically where shares start: there lambda's last bit shows."""
    eps, f, slope = np.finfo(float).eps, *oracle.curve("entmax", alpha)
    rng = np.random.default_rng(4)
    for x, k in stress(np.float64, SCALES[1:3]):
        if len(x) > 12:
            continue
        exact = oracle.solve(x, k, f, slope)
        p = stk.soft_topk(x, k, entmax(alpha))
        assert max(abs(mpf(float(a)) - b) for a, b in zip(p, exact.p, strict=True)) <= (
            4 * eps
        )
        g = rng.normal(size=len(x))
        back = stk.linearize(stk.soft_topk, x, k, entmax(alpha)).vjp(g)
        moved = []
        for sign in (-1, 1):
            lam = exact.threshold + sign * mpf(eps) * (1 + abs(exact.threshold - x[0]))
            w = [slope(mpf(v) - lam) if v > -np.inf else mpf(0) for v in x.tolist()]
            moved.append(replace(exact, w=w).vjp(g))
        for a, b, *others in zip(back, exact.vjp(g), *moved, strict=True):
            bound = 4 * eps * abs(g).max() + 4 * max(abs(o - b) for o in others)
            assert abs(mpf(float(a)) - b) <= bound


@pytest.mark.parametrize("name", NAMES)
@typed
def test_long_rows_match_a_sorted_sum(name, dtype):
    """More than one line per row: the sum of shares against k in float64."""
    rng = np.random.default_rng(5)
    x = (3 * rng.normal(size=30011)).astype(dtype)
    for k in (1, 300, 15000.5, 30010):
        p = stk.soft_topk(x, k, name)
        # Shares are rounded to nearest: their sum is right to 16 eps k.
        assert abs(p.sum(dtype=float) - k) <= 16 * float(np.finfo(dtype).eps) * k
        lam = stk.threshold(x.astype(float), k, name)
        direct = resolve(name).value(x.astype(float) - lam)
        np.testing.assert_allclose(p, direct, rtol=0, atol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("n", [120, 9_998, 10_000, 40_002, 50_000, 300_000])
@pytest.mark.parametrize("alpha", [None, 1.25, 1.75])
@typed
def test_long_rows_of_two_values_match_the_pair(alpha, dtype, n):
    """Equal entries are rounded alike: a sum that adds them in turn would drift."""
    x = np.tile(np.array([0.0, -0.9, 0.0, -0.9, -0.9, 0.0], dtype), -(-n // 6))[:n]
    half = n // 2
    assert np.count_nonzero(x == 0) == half
    for name in NAMES if alpha is None else ["entmax"]:
        curve = resolve(name) if alpha is None else entmax(alpha)
        for k in (half // 8, half // 2 + 1, half + half // 3):
            exact = oracle.solve(x[:2], k / half, *oracle.curve(name, alpha))
            p = stk.soft_topk(x, k, curve)
            error = max(abs(mpf(float(p[i])) - exact.p[i]) for i in (0, 1))
            assert error <= 8 * float(np.finfo(dtype).eps)
            assert len(set(p.tolist())) == 2
