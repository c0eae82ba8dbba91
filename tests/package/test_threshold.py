"""soft_topk and threshold: invariants, the 50-digit reference, derivatives, errors."""

import math
import sys
import warnings
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mpmath import mp, mpf

import softtopk as stk
from softtopk._rows import as_rows
from softtopk._solve import root
from softtopk._solve.numpy import _Narrowed, _Sums, bracket, order_pair, solve
from softtopk._solve.schemes import scheme_of
from softtopk.curves import Curve, entmax, resolve

NAMES = ("exp", "laplace", "sigmoid", "clip", "triangular")
CURVES = [*map(resolve, NAMES), *map(entmax, (1.5, 1.25, 1.05))]
TYPES = (np.float64, np.float32)

named = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
typed = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)

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


def sum_bound(n, k, dtype):
    """n roundings of p to eps / 2 each, and a residual of 16 eps k."""
    return (n + 16 * k) * float(np.finfo(dtype).eps)


# --- invariants over the whole range ------------------------------------------------


@typed
@named
@given(data=st.data())
def test_shares_lie_in_the_unit_interval_sum_to_k_and_keep_the_order(
    curve, dtype, data
):
    x = data.draw(scores(dtype))
    k = budget(data, x)
    tau = data.draw(st.sampled_from([1.0, 1e-3, 1e-300, 1e300, 0.7]))
    before = x.copy()
    p = stk.soft_topk(x, k, curve, temperature=tau)
    assert p.dtype == dtype and p.shape == x.shape
    assert np.array_equal(x, before)
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(p[x == -np.inf] == 0)
    assert abs(p.sum(dtype=float) - k) <= sum_bound(len(x), k, dtype)
    assert np.all(np.diff(p[np.argsort(x)]) >= 0)
    assert all(len(set(p[x == v].tolist())) == 1 for v in set(x.tolist()))


@named
@given(data=st.data())
def test_permuted_scores_give_permuted_shares(curve, data):
    x = data.draw(scores(np.float64))
    k = budget(data, x)
    order = data.draw(st.permutations(range(len(x))))
    p = stk.soft_topk(x, k, curve)
    q = stk.soft_topk(x[order], k, curve)
    np.testing.assert_allclose(q, p[order], rtol=0, atol=16 * np.finfo(float).eps)


@named
@given(data=st.data())
def test_translation_does_not_change_the_shares(curve, data):
    quarters = st.integers(-400, 400).map(lambda i: i / 4)
    x = data.draw(scores(np.float64, quarters))
    k = budget(data, x)
    shift = data.draw(st.sampled_from([2.0**26, -1000.0, 2.0**40]))
    # x + shift is exact, so the problem is the same, and so is every bit.
    np.testing.assert_array_equal(
        stk.soft_topk(x + shift, k, curve), stk.soft_topk(x, k, curve)
    )


@named
@given(data=st.data())
def test_shares_grow_with_k(curve, data):
    x = data.draw(scores(np.float64, MODEST))
    k, more = sorted((budget(data, x), budget(data, x)))
    p, q = stk.soft_topk(x, k, curve), stk.soft_topk(x, more, curve)
    assert np.all(p <= q + 8 * np.finfo(float).eps)


@named
@given(data=st.data())
def test_duality(curve, data):
    x = data.draw(scores(np.float64, MODEST))
    k = data.draw(st.integers(0, 8 * len(x))) / 8  # so that n - k is exact
    p = stk.soft_topk(x, k, curve)
    q = stk.soft_topk(-x, len(x) - k, curve.reflected())
    np.testing.assert_allclose(p, 1 - q, rtol=0, atol=16 * np.finfo(float).eps)


@named
@typed
def test_the_ends_of_k_are_exact(curve, dtype):
    x = np.array([3.0, -np.inf, 1e30, -7.5, 0.0], dtype)
    np.testing.assert_array_equal(stk.soft_topk(x, 0, curve), np.zeros(5))
    np.testing.assert_array_equal(stk.soft_topk(x, 4, curve), [1, 0, 1, 1, 1])
    np.testing.assert_array_equal(stk.soft_topk(x[[0]], 1, curve), [1])
    assert stk.threshold(x, 0, curve) == np.inf
    assert stk.threshold(x, 4, curve) == -np.inf


@named
@typed
@pytest.mark.parametrize("value", [0.0, 1e8, -1e30, 5e-324, -0.7])
def test_constant_scores_share_equally(curve, dtype, value):
    for n in (7, 60_000):
        x = np.full(n, value, dtype)
        # The threshold may lie log(n / k) away, and its rounding goes into the shares.
        bound = (8 if n == 7 else 16) * float(np.finfo(dtype).eps)
        for k in (1, 2, n - 1, 0.5, n - 0.5):
            p = stk.soft_topk(x, k, curve)
            assert len(set(p.tolist())) == 1
            assert p[0] == pytest.approx(k / n, rel=bound)


@named
@typed
def test_low_temperature_reaches_the_hard_limit_with_ties(curve, dtype):
    x = np.array([5.0, 1.0, 3.0, 3.0, 3.0, -2.0], dtype)
    for k in (1, 2, 3, 4, 5, 2.5, 0.25):
        for tau in (1e-4, 1e-30, 5e-324 if dtype is np.float64 else 1e-38):
            np.testing.assert_allclose(
                stk.soft_topk(x, k, curve, temperature=tau),
                stk.top_k(x, k),
                rtol=0,
                atol=8 * float(np.finfo(dtype).eps),
            )


@named
def test_high_temperature_shares_equally(curve):
    p = stk.soft_topk([5.0, 1.0, 3.0], 2, curve, temperature=1e300)
    np.testing.assert_allclose(p, 2 / 3, rtol=8 * np.finfo(float).eps)


@named
def test_temperature_scales_the_scores(curve):
    x = np.array([3.0, 1.0, 0.5, -2.0, 0.25])
    np.testing.assert_array_equal(
        stk.soft_topk(x, 2, curve, temperature=0.5), stk.soft_topk(2 * x, 2, curve)
    )
    assert stk.threshold(x, 2, curve, temperature=0.5) == pytest.approx(
        stk.threshold(2 * x, 2, curve) / 2, rel=1e-15
    )


def test_scores_at_the_ends_of_the_range():
    big = np.finfo(float).max
    for name in NAMES:
        p = stk.soft_topk([big, -big, 0.0, big], 2, name, temperature=1e-300)
        # The exponential of a distance stops at that of 700.
        np.testing.assert_allclose(p, [1, 0, 0, 1], rtol=0, atol=np.exp(-699))


# --- shapes -------------------------------------------------------------------------


@named
def test_a_row_is_the_same_alone_and_in_a_batch(curve):
    rng = np.random.default_rng(0)
    for n in (1, 2, 37, 300, 9000):
        x = rng.normal(size=(5, n)) * np.array([[1], [10], [1e-3], [1e6], [3]])
        k = np.array([1, n / 2, 0.5, n, n - 0.25])
        batch = stk.soft_topk(x, k, curve)
        lines = [stk.soft_topk(r, j, curve) for r, j in zip(x, k, strict=True)]
        np.testing.assert_array_equal(batch, lines)
        lam = [stk.threshold(r, j, curve) for r, j in zip(x, k, strict=True)]
        np.testing.assert_array_equal(stk.threshold(x, k, curve), lam)


@typed
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_block_stay_the_same_as_others_finish(name, dtype):
    """Rows leave the block one after another; more than one block."""
    rng = np.random.default_rng(7)
    x = rng.standard_cauchy((1500, 400)) * 10.0 ** rng.integers(-3, 4, (1500, 1))
    x = x.astype(dtype)
    for k in (1, 40, 200.5):
        batch = stk.soft_topk(x, k, name)
        for i in range(0, 1500, 150):
            np.testing.assert_array_equal(batch[i], stk.soft_topk(x[i], k, name))


def test_axis_batch_and_broadcast_budget():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 4, 5))
    for axis in (0, 1, 2, -1, -2, -3):
        p = stk.soft_topk(x, 1.5, axis=axis)
        moved = stk.soft_topk(np.moveaxis(x, axis, -1), 1.5)
        np.testing.assert_array_equal(p, np.moveaxis(moved, -1, axis))
        np.testing.assert_allclose(p.sum(axis=axis), 1.5, rtol=1e-14)
        assert stk.threshold(x, 1.5, axis=axis).shape == p.sum(axis=axis).shape
    k = rng.uniform(0, 4, size=(3, 5))
    np.testing.assert_allclose(stk.soft_topk(x, k, axis=1).sum(axis=1), k, rtol=1e-14)
    several = stk.soft_topk(x[0, 0], np.arange(6))
    assert several.shape == (6, 5)
    np.testing.assert_allclose(several.sum(axis=-1), np.arange(6), rtol=1e-14)
    assert stk.soft_topk(np.empty((0, 4)), 2).shape == (0, 4)


def test_fortran_order_strides_and_integers():
    x = np.arange(12).reshape(3, 4)
    expected = stk.soft_topk(x.astype(float), 2)
    assert expected.dtype == np.float64
    np.testing.assert_array_equal(stk.soft_topk(np.asfortranarray(x), 2), expected)
    np.testing.assert_array_equal(stk.soft_topk(x[::-1], 2), expected[::-1])
    np.testing.assert_array_equal(stk.soft_topk(x.tolist(), 2), expected)
    assert stk.soft_topk(x.astype(np.float16), 2).dtype == np.float32


@named
def test_where_is_the_problem_without_the_others(curve):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 9))
    mask = rng.random((6, 9)) < 0.7
    mask[:, :3] = True
    x[~mask] = np.nan  # what is left out may be anything
    p = stk.soft_topk(x, 2, curve, where=mask)
    assert np.all(p[~mask] == 0)
    for row, keep, q in zip(x, mask, p, strict=True):
        alone = stk.soft_topk(row[keep], 2, curve)
        np.testing.assert_allclose(q[keep], alone, rtol=0, atol=8 * 2.0**-52)


@named
@pytest.mark.parametrize("share", [0.001, 0.3, 0.97])
def test_a_long_row_with_a_mask_is_the_one_without_it(curve, share):
    rng = np.random.default_rng(12)
    x, keep = rng.normal(size=100_000), rng.random(100_000) < share
    for k in (1, 20, int(keep.sum()) // 2, int(keep.sum()) - 1):
        p = stk.soft_topk(x, k, curve, where=keep)
        assert np.all(p[~keep] == 0)
        alone = stk.soft_topk(x[keep], k, curve)
        np.testing.assert_allclose(p[keep], alone, rtol=0, atol=8 * 2.0**-52)


# --- against the reference ----------------------------------------------------------


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
            found = solve(curve, as_rows(x, k))
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
                assert abs(pair - exact.threshold) <= 32 * eps * (1 + gap)
            size = 4 * eps * float(abs(g).max())
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


@named
@pytest.mark.parametrize("n", [40_000, 200_000])
def test_a_sample_that_misleads_does_no_harm(curve, n):
    """What a part of a long row shows decides the way to the solution, not where."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=n)
    stride = n // 1024
    for bulk in (1.0, 30.0, 1000.0):
        far = x.copy()
        far[::stride] -= bulk  # at least the scores that a stride would pick
        far[:: stride + 1] -= bulk
        shuffled = rng.permutation(n)
        for k in (1, 5, n // 10, n // 2, n - 3):
            p = stk.soft_topk(far, k, curve)
            q = stk.soft_topk(far[shuffled], k, curve)
            assert abs(p.sum() - k) <= 16 * 2.0**-52 * k
            np.testing.assert_allclose(p[shuffled], q, rtol=0, atol=6 * 2.0**-52)


@pytest.mark.parametrize("name", NAMES)
def test_long_rows_of_ties_match_each_other(name):
    """The same values, each as often: k scales with the length, p does not change."""
    base = np.repeat([3.0, 2.5, 1.0, 0.0, -np.inf], [2, 8, 30, 60, 5])
    for k in (1, 3, 10, 40, 99.5):
        p = stk.soft_topk(base, k, name)
        for count in (300, 1301):  # more than one line; a sample to start from
            long = stk.soft_topk(np.tile(base, count), k * count, name)
            np.testing.assert_allclose(
                long.reshape(count, -1),
                np.tile(p, (count, 1)),
                rtol=0,
                atol=16 * 2**-52,
            )


@named
@given(data=st.data())
def test_the_shares_are_the_curve_at_the_threshold(curve, data):
    x = data.draw(scores(np.float64, MODEST, least=2))
    k = data.draw(st.floats(0.01, len(x) - 0.01))
    lam = stk.threshold(x, k, curve)
    # x - lambda is rounded in absolute terms, at most 40 eps for these scores.
    np.testing.assert_allclose(
        curve.value(x - lam), stk.soft_topk(x, k, curve), atol=1e-13
    )


def test_clip_takes_the_middle_of_a_plateau():
    assert stk.threshold([5.0, 0.0], 1, "clip") == 2.0
    assert stk.threshold([5.0, 0.0], 1, "clip", temperature=2.0) == 1.5
    assert stk.threshold([5.0, 0.0], 1, "triangular") == 2.5
    # Also in long rows, which start from a part of themselves.
    for n in (30, 30_000, 40_000, 150_000):
        x = np.tile([2.5, 1.0, 0.0, 2.5, 1.0], n // 5)
        assert stk.threshold(x, 2 * n // 5, "clip") == 1.25
        assert stk.threshold(x, 4 * n // 5, "clip", temperature=0.5) == 0.25
        assert stk.threshold(x, 2 * n // 5, "triangular", temperature=0.5) == 1.75
        rows = np.stack([x, x + 0.25])
        lam = stk.threshold(rows, 2 * n // 5, "clip")
        np.testing.assert_array_equal(lam, [1.25, 1.5])


# --- curves of a user ---------------------------------------------------------------


class Cauchy(Curve):
    """Heavy tails: brackets are wide."""

    name = "cauchy"

    def value(self, t):
        t = np.asarray(t)
        return np.arctan2(1, -t) / np.pi

    def slope(self, t):
        return 1 / (np.pi * (1 + np.square(t)))


class Gauss(Curve):
    """Counts how often it is asked."""

    name = "gauss"
    asked = 0

    def value(self, t):
        self.asked += 1
        return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))

    def complement(self, t):
        return self.value(-np.asarray(t))

    def slope(self, t):
        return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)

    def inverse(self, p):
        return np.vectorize(NormalDist().inv_cdf)(p)


def test_a_curve_that_names_its_noise_is_solved_from_near():
    x = np.random.default_rng(6).normal(size=400)
    plain, named = Gauss(), Gauss()
    named.noise = (0.0, 1.0)  # and so a mean of 5 and a deviation of 20:
    for k in (4, 40.5, 200):
        np.testing.assert_allclose(
            stk.soft_topk(x, k, named.scaled(0.05).shifted(-5.0)),
            stk.soft_topk(x, k, plain.scaled(0.05).shifted(-5.0)),
            rtol=0,
            atol=1e-14,
        )
    assert named.asked < plain.asked


class Stairs(Curve):
    """Slope that jumps, and a flat part in the middle: lambda is not unique."""

    name = "stairs"
    support = (-2.0, 2.0)

    def value(self, t):
        return np.interp(t, [-2, -1, 1, 2], [0, 0.5, 0.5, 1])

    def slope(self, t):
        size = np.abs(t)
        return 0.5 * ((size > 1) & (size < 2))


class Lopsided(Curve):
    """Fast below, slow above, centred far from 0."""

    name = "lopsided"

    def value(self, t):
        return np.exp(-np.exp(-(np.clip(t, -600, 600) - 30)))

    def slope(self, t):
        t = np.clip(t, -600, 600) - 30
        return np.exp(-t - np.exp(-t))


@pytest.mark.parametrize(
    "curve",
    [
        Cauchy(),
        Stairs(),
        Lopsided(),
        stk.curves.EXP.reflected(),
        stk.curves.LAPLACE.scaled(3.0),
        stk.curves.CLIP.shifted(-5.0),
    ],
    ids=lambda c: c.name,
)
@given(data=st.data())
def test_any_curve_is_solved(curve, data):
    x = data.draw(scores(np.float64, st.floats(-1e3, 1e3), least=2))
    k = data.draw(st.integers(1, len(x) - 1) | st.floats(0.01, len(x) - 0.01))
    p = stk.soft_topk(x, k, curve)
    assert np.all((p >= 0) & (p <= 1))
    # The values of these curves carry a few eps each, of 1 and not of themselves.
    assert abs(p.sum() - k) <= 16 * len(x) * np.finfo(float).eps


class Roots(Curve):
    """Newton's steps go back and forth across the steep middle for ever."""

    name = "roots"
    support = (-1.0, 3.0)

    def value(self, t):
        low, high = np.clip(-t, 0, 1), np.clip(t, 0, 3)
        return 0.5 - 0.5 * np.sqrt(low) + 0.5 * np.sqrt(high / 3)

    def slope(self, t):
        size = np.where(t < 0, 1, 3) * np.maximum(np.abs(t), 1e-12)
        return np.where((t > -1) & (t < 3), 0.25 / np.sqrt(size), 0)


def test_steps_that_do_not_settle_give_way_to_bisection():
    x = np.array([[0.0, -10.0, -20.0], [-30.0, 5.0, -10.0]])
    for k in (0.5005, 0.501, 1.4995):
        p = stk.soft_topk(x, k, Roots())
        # f' is about 500 at the root, and so often counts the rounding of x - lambda.
        np.testing.assert_allclose(p.sum(axis=-1), k, rtol=0, atol=500 * 16 * 2.0**-52)
        np.testing.assert_array_equal(stk.soft_topk(x[1], k, Roots()), p[1])


class Timid(Curve):
    """A slope that is far too large, so that every step is far too short."""

    name = "timid"

    def value(self, t):
        return stk.curves.SIGMOID.value(t)

    def slope(self, t):
        return 50 * stk.curves.SIGMOID.slope(t)


def test_rows_ask_for_their_own_brackets_after_others_are_done():
    x = np.array([1.0, 0.0, -1.0])
    k = np.array([1.5, 1.5, 0.01, 2.995])  # the first two are done at the start
    p = stk.soft_topk(x, k, Timid())
    exact = stk.soft_topk(x, k, "sigmoid")
    # A last step of 8 eps (1 + |t|) leaves 50 times as much, and here f' < 0.007.
    np.testing.assert_allclose(p, exact, rtol=0, atol=32 * np.finfo(float).eps)


@named
def test_the_bracket_holds_the_threshold(curve):
    for x in ([1.0, 1.0], [0.5, 0.5, 0.5], [9.0, 0.25, 0.0, -1.0], [1.0, 0.75, -20.0]):
        for k in range(1, len(x)):
            with np.errstate(all="ignore"):
                found = solve(curve, as_rows(x, k))
                ends = np.array(sorted(x)[::-1][k - 1 : k + 1]) - found.anchor[0]
                low, high = bracket(curve, *ends, float(k), len(x))
                if ends[0] - ends[1] >= np.diff(curve.support):
                    continue  # the thresholds are an interval
                assert low < found.offset[0] < high


@pytest.mark.parametrize(
    "curve", [*CURVES, stk.curves.EXP.reflected()], ids=lambda c: c.name
)
def test_few_evaluations_are_enough(curve, monkeypatch):
    """Counts, not times: at most 16 on rows that make a plain Newton step fail."""
    rng = np.random.default_rng(6)
    n, calls = 2000, 0
    owner, name = scheme_of(curve) or root, "moments" if scheme_of(curve) else "sums"
    passes = getattr(owner, name)

    def counted(*arguments):
        nonlocal calls
        calls += 1
        return passes(*arguments)

    monkeypatch.setattr(owner, name, counted)
    for x in (
        1e3 * rng.normal(size=n),
        0.01 * rng.normal(size=n),
        rng.standard_cauchy(n),
        rng.integers(0, 3, n),
        2.0 ** -np.arange(n),
        np.repeat([50.0, -50.0], n // 2),
    ):
        for k in (1, 3, n // 10, n // 2, n - 1, 2.7, n - 0.5):
            calls = 0
            stk.soft_topk(x, k, curve)
            assert calls <= (16 if scheme_of(curve) else 32)


@pytest.fixture
def evaluated(monkeypatch):
    """Gets the sizes of what `curve` is evaluated on."""
    sizes = []

    def watch(curve):
        cls = scheme_of(resolve(curve))
        moments = cls.moments

        def counted(self, v, *arguments):
            sizes.append(v.size)
            return moments(self, v, *arguments)

        monkeypatch.setattr(cls, "moments", counted)
        return sizes

    return watch


@pytest.fixture
def searched(monkeypatch):
    """The sizes of what the k-th score is sought in."""
    search, sizes = order_pair, []

    def counted(x, *arguments):
        sizes.append(x.size)
        return search(x, *arguments)

    monkeypatch.setattr(sys.modules[solve.__module__], "order_pair", counted)
    return sizes


@pytest.mark.parametrize(
    ("curve", "most"),
    [
        ("exp", 1),
        ("laplace", 1.5),
        ("sigmoid", 3.5),
        ("clip", 2.5),
        ("triangular", 4),
        (entmax(1.25), 4),
    ],
)
def test_normal_rows_start_near_their_threshold(curve, most, evaluated):
    """On average; with no step to begin with, or none to end with, it is one more."""
    rng, calls = np.random.default_rng(7), evaluated(curve)
    rows = [s * rng.normal(size=n) for s in (0.1, 1, 10) for n in (100, 2000)]
    budgets = [0.01, 0.1, 0.5, 0.99]
    for x in rows:
        for share in budgets:
            stk.soft_topk(x, share * len(x), curve)
    assert len(calls) <= most * len(rows) * len(budgets)


@pytest.mark.parametrize(
    ("curve", "most"), [("exp", 3.6), ("laplace", 2.1), ("sigmoid", 3.6)]
)
def test_rows_of_a_block_start_near_their_threshold(curve, most, evaluated):
    sizes = evaluated(curve)
    x = np.random.default_rng(10).normal(size=(500, 128))
    for k in (12, 64, 100):
        stk.soft_topk(x, k, curve)
    assert sum(sizes) <= most * 3 * x.size


def test_a_sample_of_a_long_row_is_a_start(evaluated):
    rng, sizes, n = np.random.default_rng(9), evaluated("sigmoid"), 140_000
    for scale, rounds in ((1, 3.2), (10, 3.2), (100, 4.2)):
        x = scale * rng.normal(size=n)
        for k in (n // 10, n // 2):
            sizes.clear()
            stk.soft_topk(x, k, "sigmoid")
            assert sum(sizes) <= rounds * n


@pytest.mark.parametrize(
    ("curve", "most", "searches"),
    [
        ("exp", 2.6, 4),
        ("laplace", 2.1, 0),
        ("sigmoid", 3.1, 0),
        ("clip", 1.1, 4),
        (entmax(1.25), 4.7, 4),
    ],
)
def test_long_rows_need_few_evaluations_and_searches(
    curve, most, searches, evaluated, searched
):
    """The k-th score is sought at the ends alone, where a sample tells little."""
    x, sizes = np.random.default_rng(10).normal(size=50_000), evaluated(curve)
    budgets = (1, 3, 5000, 25_000, 49_997, 49_999)
    for k in budgets:
        stk.soft_topk(x, k, curve)
    assert sum(sizes) <= most * x.size * len(budgets)
    assert searched == [x.size] * searches
    # Far apart, the k-th score is sought at once and nothing else is done twice.
    sizes.clear()
    for k in budgets:
        stk.soft_topk(1000 * x, k, curve)
    assert sum(sizes) <= most * x.size * len(budgets)
    assert len(searched) == searches + len(budgets)


@pytest.mark.parametrize(
    ("curve", "most"), [("exp", 2.6), ("laplace", 2.1), ("sigmoid", 3.2), ("clip", 3)]
)
def test_a_mask_costs_a_long_row_nothing(curve, most, evaluated, searched):
    rng, sizes = np.random.default_rng(13), evaluated(curve)
    x = rng.normal(size=(4, 50_000))
    where = rng.random(x.shape) < np.array([0.5, 1.1, 0.5, 0.1])[:, None]
    count = where.sum(axis=-1)
    for share in (0.1, 0.5, 0.9):
        k = np.floor(share * count)
        k[0] = 0
        stk.soft_topk(x, k, curve, where=where)
    assert not searched
    assert sum(sizes) <= most * 9 * x.shape[1]
    p = stk.soft_topk(x, count - 1, curve, where=where)
    np.testing.assert_allclose(p.sum(axis=-1), count - 1, rtol=1e-14)


@pytest.mark.parametrize("size", [(50, 40), (3, 50_000)], ids=["block", "long"])
@pytest.mark.parametrize("curve", ["exp", "laplace", "clip"])
def test_a_last_step_passes_no_entry(curve, size):
    """Entries so dense that a short step passes some: then it is not the last."""
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal(size=size), 1e-3 * rng.normal(size=size)], axis=-1)
    for k in (1, size[1] // 3, size[1], 2 * size[1] - 1):
        p = stk.soft_topk(x, k, curve)
        off = np.abs(p.astype(np.longdouble).sum(axis=-1) - k)
        assert np.all(off <= 16 * np.finfo(float).eps * k)


def test_composed_curves_select_the_same():
    x = np.array([2.0, 1.5, 0.25, -1.0, 0.0])
    base = stk.soft_topk(x, 2, "laplace")
    late = stk.soft_topk(x, 2, stk.curves.LAPLACE.shifted(3.0))
    cold = stk.soft_topk(x, 2, stk.curves.LAPLACE.scaled(2.0), temperature=2.0)
    for p in (late, cold):
        np.testing.assert_allclose(p, base, rtol=0, atol=8 * np.finfo(float).eps)
    assert stk.threshold(x, 2, stk.curves.LAPLACE.shifted(3.0)) == pytest.approx(
        stk.threshold(x, 2, "laplace") - 3
    )


# --- derivatives --------------------------------------------------------------------


@named
def test_jacobian_matches_differences(curve):
    x = np.array([1.3, 0.45, 0.2, -0.15, -0.4])
    lin = stk.linearize(stk.soft_topk, x, 2, curve, temperature=0.8)
    lam = stk.linearize(stk.threshold, x, 2, curve, temperature=0.8)
    h = 1e-5
    for j in range(5):
        step = h * np.eye(5)[j]
        up = stk.soft_topk(x + step, 2, curve, temperature=0.8)
        down = stk.soft_topk(x - step, 2, curve, temperature=0.8)
        # central differences: h^2 / 6 f''' / tau^3 and eps / h
        np.testing.assert_allclose(
            lin.jacobian()[:, j], (up - down) / (2 * h), atol=2e-9
        )
        up = stk.threshold(x + step, 2, curve, temperature=0.8)
        down = stk.threshold(x - step, 2, curve, temperature=0.8)
        assert lam.jacobian()[j] == pytest.approx((up - down) / (2 * h), abs=2e-9)
    up = stk.soft_topk(x, 2 + h, curve, temperature=0.8)
    down = stk.soft_topk(x, 2 - h, curve, temperature=0.8)
    np.testing.assert_allclose(lin.dk, (up - down) / (2 * h), atol=2e-9)
    up = stk.threshold(x, 2 + h, curve, temperature=0.8)
    down = stk.threshold(x, 2 - h, curve, temperature=0.8)
    assert lam.dk == pytest.approx((up - down) / (2 * h), abs=2e-9)


@named
@given(data=st.data())
def test_the_jacobian_is_a_graph_laplacian(curve, data):
    x = data.draw(scores(np.float64))
    k = budget(data, x)
    lin = stk.linearize(stk.soft_topk, x, k, curve)
    J = lin.jacobian()
    assert np.isfinite(J).all()
    np.testing.assert_array_equal(lin.vjp(np.full(len(x), 1e8)), 0)
    atol = 8 * np.finfo(float).eps
    np.testing.assert_allclose(J, J.T, atol=atol)
    assert np.all(J - np.diag(np.diag(J)) <= atol)
    assert np.all(np.diag(J) >= -atol)


def test_the_gradient_of_the_threshold_survives_underflow():
    """f' underflows at 1000 temperatures; its ratio to the sum does not."""
    x = [2000.0, 0.0]
    for name in ("laplace", "sigmoid"):
        lin = stk.linearize(stk.threshold, x, 1, name)
        np.testing.assert_allclose(lin.jacobian(), [0.5, 0.5], rtol=1e-12)
        p = stk.linearize(stk.soft_topk, x, 1, name)
        np.testing.assert_array_equal(p.jacobian(), 0)
        np.testing.assert_allclose(p.dk, [0.5, 0.5], rtol=1e-12)
    np.testing.assert_allclose(
        stk.linearize(stk.threshold, x, 1, "exp").jacobian(), [1, 0]
    )


def test_without_slope_the_jacobian_is_zero():
    lin = stk.linearize(stk.soft_topk, [5.0, 0.0], 1, "clip")
    np.testing.assert_array_equal(lin.jacobian(), 0)
    np.testing.assert_array_equal(lin.dk, 0)
    for k in (0, 2):
        lin = stk.linearize(stk.soft_topk, [5.0, 0.0], k)
        np.testing.assert_array_equal(lin.value, k / 2)
        np.testing.assert_array_equal(lin.jacobian(), 0)


def test_masked_entries_have_no_derivative():
    x = np.array([1.0, -np.inf, 0.5, 0.0, 9.0])
    mask = np.array([True, True, True, True, False])
    lin = stk.linearize(stk.soft_topk, x, 1, where=mask)
    J = lin.jacobian()
    assert np.all(J[[1, 4]] == 0) and np.all(J[:, [1, 4]] == 0)
    inner = stk.linearize(stk.soft_topk, x[[0, 2, 3]], 1).jacobian()
    np.testing.assert_allclose(J[np.ix_([0, 2, 3], [0, 2, 3])], inner, atol=1e-15)


# --- errors -------------------------------------------------------------------------


@pytest.mark.parametrize("function", [stk.soft_topk, stk.threshold])
@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([np.nan, 1], 1), {}, ValueError, "x must be finite or -inf .* got nan"),
        (([np.inf, 1], 1), {}, ValueError, "x must be finite or -inf .* got inf"),
        (([], 0), {}, ValueError, r"x must have at least one entry .* shape \(0,\)"),
        ((["a"], 1), {}, TypeError, "x must hold real numbers .* got dtype <U1"),
        (([1j], 1), {}, TypeError, "x must hold real numbers .* complex128"),
        (([1, 2], 3), {}, ValueError, r"k must lie in \[0, 2\].* got 3.0"),
        (([1, 2], -0.5), {}, ValueError, r"k must lie in \[0, 2\].* got -0.5"),
        (([1, 2], np.nan), {}, ValueError, r"k must lie in \[0, 2\].* got nan"),
        (([1, -np.inf], 2), {}, ValueError, r"k must lie in \[0, 1\].* finite .* 2.0"),
        (([1, 2], "1"), {}, TypeError, "k must be a real number .* got '1'"),
        (([1, 2], True), {}, TypeError, "k must be a real number .* got True"),
        (([1, 2], None), {}, TypeError, "k must be a real number .* got None"),
        (([1, 2], [1, 1]), {}, None, None),
        (
            ([[1, 2]] * 3, [1, 1]),
            {},
            ValueError,
            r"k must broadcast against x .*\(2,\)",
        ),
        (([1, 2], 1, "gauss"), {}, ValueError, "curve must be one of .* got 'gauss'"),
        (([1, 2], 1, 7), {}, TypeError, "curve must be a name or a Curve, got 7"),
        (([1, 2], 1), {"temperature": 0}, ValueError, "temperature must .* got 0.0"),
        (([1, 2], 1), {"temperature": -1}, ValueError, "temperature must .* got -1.0"),
        (([1, 2], 1), {"temperature": np.inf}, ValueError, "temperature .* got inf"),
        (([1, 2], 1), {"temperature": "1"}, TypeError, "temperature must .* got '1'"),
        (([1, 2], 1), {"axis": 1}, ValueError, r"axis must lie in \[-1, 0\] .* got 1"),
        (([1, 2], 1), {"axis": 0.0}, TypeError, "axis must be an integer.* got 0.0"),
        (([1, 2], 1), {"where": [1, 0]}, TypeError, "where must be boolean, got .*int"),
        (([1, 2], 1), {"where": [True] * 3}, ValueError, "where must broadcast to"),
        (([1, 2], 2), {"where": [True, False]}, ValueError, r"k must lie in \[0, 1\]"),
    ],
)
def test_errors_name_the_argument(function, arguments, options, error, message):
    if error is None:
        function(*arguments, **options)
        return
    with pytest.raises(error, match=message):
        function(*arguments, **options)


def test_no_warning_even_if_all_are_on():
    x = np.array([1e308, -1e308, 0.0, 5e-324, -np.inf])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for curve in CURVES:
            for tau in (1.0, 1e-300, 1e300):
                stk.soft_topk(x, 2, curve, temperature=tau)
                stk.threshold(x, 1.5, curve, temperature=tau)
                stk.linearize(stk.soft_topk, x, 2, curve, temperature=tau).vjp(x > 0)


@given(x=arrays(np.float64, 6, elements=MODEST))
def test_k_one_of_exp_is_softmax(x):
    assume(np.ptp(x) < 700)
    e = np.exp(x - x.max())
    np.testing.assert_allclose(
        stk.soft_topk(x, 1, "exp"), e / e.sum(), rtol=0, atol=8 * np.finfo(float).eps
    )


# --- where k or a sample leaves little to go by --------------------------------------


STEEP = ["exp", "clip", *map(entmax, (1.25, 1.5, 1.6, 1.75, 1.9))]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("curve", STEEP, ids=str)
def test_a_budget_next_to_the_whole_row_leaves_nobody_out(curve, dtype, single):
    # A last step over a place where the slope jumps leaves more than its own size.
    eps, lack = float(np.finfo(dtype).eps), 1e-9
    rng = np.random.default_rng(11)
    for n in range(2, 12):
        spread = 10 ** rng.uniform(-6, 1, (40, 1))
        x = (rng.standard_normal((40, n)) * spread).astype(dtype)
        k = n - lack * rng.random(40)
        if single:
            p = np.array([stk.soft_topk(x[i], k[i], curve) for i in range(40)])
        else:
            p = stk.soft_topk(x, k, curve)
        assert p.min() >= 1 - lack - 6 * eps


@pytest.mark.parametrize("rows", [1, 3])
def test_a_budget_next_to_a_whole_one_is_met_by_the_clip(rows):
    p = stk.soft_topk(np.full((rows, 2), [1, 0], np.float32), 1 - 1e-9, "clip")
    assert np.abs(p - [1, 0]).max() <= 2.0**-22


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_a_tiny_budget_keeps_its_digits(curve, rows):
    for k in (1e-13, 1e-100):
        for x in ([0.1, 0.7, -0.3], [0.0] * 5):
            p = stk.soft_topk(np.full((rows, len(x)), x), k, curve)
            assert np.allclose(p.sum(axis=-1), k, rtol=1e-12, atol=0)
        assert np.allclose(p, k / 5, rtol=1e-12, atol=0)


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("k", [100, 5000, 16000])
def test_a_mask_may_leave_out_every_sampled_entry(curve, k):
    n = 1 << 15
    where = np.arange(n) % (n >> 10) != 0
    p = stk.soft_topk(np.zeros(n), k, curve, where=where)
    assert np.allclose(p[where], k / where.sum(), rtol=0, atol=8 * 2.0**-52)
    assert not p[~where].any()


def test_a_mask_or_a_byte_order_is_not_lost():
    with pytest.raises(TypeError, match="x must not be a masked array"):
        stk.soft_topk(np.ma.array([3.0, 1, 0], mask=[1, 0, 0]), 1)
    for code, dtype in ((">f2", "f4"), (">f4", "f4"), (">f8", "f8"), ("<f4", "f4")):
        p = stk.soft_topk(np.array([1, 2], code), 1)
        assert p.dtype == np.dtype(dtype)
        assert np.array_equal(p, stk.soft_topk(np.array([1, 2], dtype), 1))


def test_a_budget_of_many_digits_is_named_in_short():
    with pytest.raises(TypeError, match=r"^k must be a real number.{0,80}$"):
        stk.soft_topk([1, 2], 10**400)


COUNTED = [c for c in CURVES if scheme_of(c).exact or scheme_of(c).counted]


@pytest.mark.parametrize("curve", COUNTED, ids=lambda c: c.name)
@typed
def test_a_count_is_the_first_of_the_moments(curve, dtype):
    # Else the solver evaluates once more than it has to, and nobody would notice.
    rng = np.random.default_rng(3)
    d = rng.normal(size=50).astype(dtype)
    scheme = scheme_of(curve)(curve, d.size, dtype)
    v = scheme.prepare(d.copy())
    sums, part = _Sums(scheme, v), _Sums(scheme, v[:20])
    counts = set()
    for offset in np.linspace(-2, 2, 9):
        t = scheme.place(np.float64(offset))
        with np.errstate(divide="ignore"):  # the solver ignores it as well
            whole, some = sums(t), part(t)
            count = sums.count(t)
            narrowed = _Narrowed(part, np.subtract(whole, some, dtype=np.float64))
            assert narrowed.count(t) == narrowed(t)[0] == count == whole[0]
        counts.add(float(count))
    assert len(counts) > 3
