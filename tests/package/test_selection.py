"""soft_topk and threshold: invariants, shapes, derivatives, errors."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rows import CURVES, MODEST, NAMES, TYPES, budget, named, scores, tail, typed

import softtopk as stk
from softtopk._search.numpy_sums import scheme_of
from softtopk.curves import entmax


def sum_bound(n, k, dtype):
    """n roundings of p to eps / 2 each, and a residual of 16 eps k."""
    return (n + 16 * k) * float(np.finfo(dtype).eps)


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
    # x + shift is exact, so the problem is the same, and so is every bit.  A curve
    # without sums of its own is searched for from the mean, which is rounded.
    room = 0 if scheme_of(curve) else 16 * np.finfo(float).eps
    moved, found = stk.soft_topk(x + shift, k, curve), stk.soft_topk(x, k, curve)
    np.testing.assert_allclose(moved, found, rtol=0, atol=room)


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
                atol=8 * float(np.finfo(dtype).eps) + len(x) * tail(curve, 1 / tau),
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


@given(x=arrays(np.float64, 6, elements=MODEST))
def test_k_one_of_exp_is_softmax(x):
    assume(np.ptp(x) < 700)
    e = np.exp(x - x.max())
    np.testing.assert_allclose(
        stk.soft_topk(x, 1, "exp"), e / e.sum(), rtol=0, atol=8 * np.finfo(float).eps
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


def test_the_middle_of_a_plateau_has_its_own_derivative():
    x, h = np.array([[7.0, 5.0, 0.0, -3.0], [4.0, 4.0, -1.0, -1.0]]), 1e-6
    move = np.array([[0.3, -1, 2, 5], [1, 1, 0.5, 0.5]])  # ties stay ties
    for curve in ("clip", "triangular"):
        lin = stk.linearize(stk.threshold, x, 2, curve)
        up, down = (stk.threshold(x + s * h * move, 2, curve) for s in (1, -1))
        np.testing.assert_allclose(lin.jvp(move), (up - down) / (2 * h), atol=1e-8)
        np.testing.assert_array_equal(lin.dk, 0)
        for k in (0, 4):
            lin = stk.linearize(stk.threshold, x, k, curve)
            np.testing.assert_array_equal(lin.jacobian(), 0)
            np.testing.assert_array_equal(lin.dk, 0)


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


@pytest.mark.parametrize("unit", [2.0**1023, 2.0**-20])
@pytest.mark.parametrize("curve", [*filter(scheme_of, CURVES)], ids=lambda c: c.name)
def test_scores_whose_differences_leave_the_range_are_those_of_their_unit(curve, unit):
    """Without sums of its own, a curve gives them 0 or 1 (`start.narrowed`)."""
    for x in ([-1.2, 1.5, 0.3, 1.6], [1.7, -1.7, -1.7, -1.7], [-1.7, 1.7]):
        for k, tau in ((1, 1.0), (0.5, 0.25), (1.5, 1.0)):
            rows = np.array([x, x[::-1]])
            near = stk.linearize(stk.soft_topk, rows, k, curve, temperature=tau)
            given = {"temperature": tau * unit}
            far = stk.linearize(stk.soft_topk, rows * unit, k, curve, **given)
            alone = stk.soft_topk(rows[0] * unit, k, curve, **given)
            np.testing.assert_allclose(far.value, near.value, rtol=0, atol=4e-16)
            np.testing.assert_array_equal(alone, far.value[0])
            push = far.jvp(rows * 2.0**20) * (unit / 2.0**20)
            np.testing.assert_allclose(push, near.jvp(rows), rtol=0, atol=4e-15)


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
def test_entmax_of_scores_whose_differences_leave_the_range(alpha):
    for x in ([-1.2, 1.5, 0.3, 1.6], [1.7, -1.7, -1.7, -1.7] * 200):
        far = stk.entmax(np.array(x) * 2.0**1023, alpha, temperature=2.0**1023)
        np.testing.assert_allclose(far, stk.entmax(x, alpha), rtol=0, atol=1e-15)


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


@pytest.mark.parametrize("curve", ["laplace", "sigmoid", "clip", "triangular"])
def test_the_least_numbers_keep_their_place(curve):
    """The anchor lies between scores of which one half is 0."""
    for dtype, least in ((np.float32, -1e-45), (np.float64, -5e-324)):
        for x in ([least], [least, least], [least, 2 * least]):
            p = stk.soft_topk(np.array(x, dtype), 0.5, curve, temperature=1e-300)
            assert abs(p.sum() - 0.5) <= np.finfo(dtype).eps
