"""The selection on PyTorch and JAX: against 50 digits, against the core, and itself."""

import functools
import math

import numpy as np
import oracle
import pytest
from mpmath import mp, mpf

import softtopk as stk
from softtopk.curves import NAMED

CURVES = [*NAMED, 1.25, 1.5, 2.0]
EPS = {np.float64: 2.0**-52, np.float32: 2.0**-23}


def curve_of(name):
    return stk.curves.entmax(name) if isinstance(name, float) else name


def reference(x, k, name, tau):
    pair = (
        oracle.curve("entmax", name) if isinstance(name, float) else oracle.curve(name)
    )
    return oracle.solve(x, k, *pair, tau)


def rows():
    """All of one length, which JAX compiles for."""
    rng = np.random.default_rng(5)
    yield rng.standard_normal(12), 3, 1.0
    yield rng.standard_normal(12), 0.3, 0.5
    yield rng.standard_normal(12) * 30, 4.6, 1.0
    yield rng.standard_cauchy(12), 11.5, 2.0
    yield 1e6 + rng.standard_normal(12), 2.5, 0.1
    yield np.repeat([1.0, 0.0, -1.0], 4), 5.5, 0.7
    yield np.append(rng.standard_normal(10), [-np.inf, -np.inf]), 3.25, 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CURVES)
def test_shares_threshold_and_gradient_are_those_of_fifty_digits(lib, name, dtype):
    eps, rng, curve = EPS[dtype], np.random.default_rng(1), curve_of(name)

    def shares(x, k, tau):
        return lib.ops.soft_topk(x, k, curve, temperature=tau)

    for x, k, tau in rows():
        x, tau = x.astype(dtype), float(dtype(tau))
        ref = reference(x, k, name, tau)
        X = lib.array(x)
        p = lib.numpy(lib.ops.soft_topk(X, k, curve, temperature=tau))
        assert p.dtype == dtype
        assert max(abs(p - np.array(ref.p, float))) <= 8 * eps
        t = lib.numpy(lib.ops.threshold(X, k, curve, temperature=tau))
        scale = max(abs(x[np.isfinite(x)]).max(), tau)
        assert abs(float(t) - float(ref.threshold)) <= 16 * eps * scale
        g = rng.standard_normal(len(x)).astype(dtype)
        given = [X, lib.array(k, np.float64), lib.array(tau, dtype)]
        same, (gx, *_) = lib.pull(shares, given, lib.array(g))
        assert max(abs(lib.numpy(same) - np.array(ref.p, float))) <= 8 * eps
        exact = np.array(ref.vjp(g), float)
        reach = 32 * eps * scale / tau if name in ("triangular", 1.25) else 0
        assert max(abs(lib.numpy(gx) - exact)) * tau <= 32 * eps + 4 * reach


@pytest.mark.parametrize("name", CURVES)
def test_derivatives_by_budget_and_temperature(lib, name):
    """Of the shares: w / W, and w (mean of x - x) / tau^2."""

    def shares(x, k, tau):
        return lib.ops.soft_topk(x, k, curve_of(name), temperature=tau)

    for x, k, tau in rows():
        ref = reference(x, k, name, tau)
        with mp.workdps(ref.digits):
            share = ref.shares()
            finite = [mpf(0) if v == -math.inf else mpf(float(v)) for v in x]
            mean = mp.fsum(a * b for a, b in zip(share, finite, strict=True))
            by_tau = [
                a * (mean - b) / ref.temperature**2
                for a, b in zip(ref.w, finite, strict=True)
            ]
            spread = float(max(abs(v - mean) for v in finite)) / tau
        given = [lib.array(v, np.float64) for v in (x, k, tau)]
        still, zero, one = (lib.array(v) for v in (np.zeros(len(x)), 0.0, 1.0))
        dk = lib.numpy(lib.jvp(shares, given, [still, one, zero]))
        dtau = lib.numpy(lib.jvp(shares, given, [still, zero, one]))
        room = 2.0**-40 if name == "triangular" or name == 1.25 else 2.0**-46
        assert max(abs(dk - np.array(share, float))) <= room
        assert (
            max(abs(dtau - np.array(by_tau, float))) <= room * (1 + spread) ** 2 / tau
        )
        g = np.cos(np.arange(len(x)))
        _, by_k, by_tau = lib.vjp(shares, given, lib.array(g))
        assert float(by_k) == pytest.approx(float((dk * g).sum()), abs=1e-12)
        close = 1e-10 * (1 + spread)
        assert float(by_tau) == pytest.approx(float((dtau * g).sum()), abs=close)


def exact_hessian(x, k, name, tau, g):
    """Of sum g p, by differences of the exact gradient in 50 digits."""
    h, n = mpf(10) ** -15, len(x)
    f, slope = (
        oracle.curve("entmax", name) if isinstance(name, float) else oracle.curve(name)
    )
    out = np.zeros((n, n))
    with mp.workdps(60):

        def gradient(values):
            scaled = [v / mpf(tau) for v in values]
            t = oracle.root(
                lambda t: mp.fsum(f(v - t) for v in scaled) - mpf(k),
                sorted(scaled, reverse=True)[math.ceil(k) - 1],
                1,
            )
            w = [slope(v - t) for v in scaled]
            mean = mp.fsum(a * b for a, b in zip(w, g, strict=True)) / mp.fsum(w)
            return [a * (b - mean) / mpf(tau) for a, b in zip(w, g, strict=True)]

        base = [mpf(float(v)) for v in x]
        for j in range(n):
            up = [v + h * (i == j) for i, v in enumerate(base)]
            down = [v - h * (i == j) for i, v in enumerate(base)]
            row = zip(gradient(up), gradient(down), strict=True)
            out[j] = [float((a - b) / (2 * h)) for a, b in row]
    return out


@pytest.mark.parametrize(
    "name", ["exp", "laplace", "sigmoid", "clip", "triangular", 1.5]
)
def test_hessians_are_those_of_fifty_digits(lib, name):
    x = np.array([1.3, 0.4, -0.2, -0.9, 0.71])
    g = np.array([1.0, -2.0, 0.5, 3.0, -1.5])

    def loss(v, k):
        p = lib.ops.soft_topk(v, k, curve_of(name), temperature=0.8)
        return (p * lib.array(g)).sum()

    for k in (1.6, 2.5):
        exact = exact_hessian(x, k, name, 0.8, g)
        at = lib.array(x), lib.array(k)
        found = lib.numpy(lib.hessian(loss)(*at))
        twice = lib.numpy(lib.jacobian(lib.jacobian(loss))(*at))
        assert abs(found - exact).max() <= 1e-13 * max(1, abs(exact).max())
        assert abs(twice - exact).max() <= 1e-13 * max(1, abs(exact).max())


def test_third_derivatives_agree_with_differences_of_second(lib):
    x, g = np.array([1.3, 0.4, -0.2, -0.9]), np.array([1.0, -2.0, 0.5, 3.0])

    def loss(v):
        return (lib.ops.soft_topk(v, 1.7, "sigmoid") * lib.array(g)).sum()

    third = lib.numpy(lib.jacobian(lib.jacobian(lib.jacobian(loss)))(lib.array(x)))
    h, j = 1e-5, 2
    up, down = x.copy(), x.copy()
    up[j] += h
    down[j] -= h
    twice = lib.hessian(loss)
    slope = (lib.numpy(twice(lib.array(up))) - lib.numpy(twice(lib.array(down)))) / (
        2 * h
    )
    assert abs(third[..., j] - slope).max() < 1e-9
    assert abs(third - np.swapaxes(third, 0, 2)).max() < 1e-14


def test_mixed_second_derivatives_are_symmetric(lib):
    x = lib.array(np.array([1.3, 0.4, -0.2, -0.9]))
    k, tau = lib.array(1.7, np.float64), lib.array(0.6, np.float64)

    def loss(x, k, tau):
        p = lib.ops.soft_topk(x, k, "laplace", temperature=tau)
        return (p * p).sum() + lib.ops.threshold(x, k, "laplace", temperature=tau)

    def pair(i, j):
        inner = lib.jacobian(loss, i)
        return np.squeeze(lib.numpy(lib.jacobian(inner, j)(x, k, tau)))

    for i in range(3):
        for j in range(i):
            assert np.allclose(pair(i, j), pair(j, i), rtol=0, atol=1e-14)


def test_slopes_that_underflow_still_have_shares(lib):
    x = lib.array(np.array([2000.0, 0.0, -3000.0]))
    dk = lib.jvp(
        lambda k: lib.ops.soft_topk(x, k, "laplace"), [lib.array(1.0)], [lib.array(1.0)]
    )
    assert np.isfinite(lib.numpy(dk)).all()
    assert lib.numpy(dk).sum() == pytest.approx(1)


def test_one_budget_and_temperature_a_row(lib):
    x = np.random.default_rng(3).standard_normal((4, 3, 9))
    k = np.array([[0, 1.5, 9], [2, 3, 8.75], [1, 0.01, 4], [5, 6, 7]])
    tau = np.linspace(0.2, 2, 3)
    p = lib.numpy(
        lib.ops.soft_topk(lib.array(x), lib.array(k), temperature=lib.array(tau))
    )
    for i in range(3):
        one = stk.soft_topk(x[:, i], k[:, i], temperature=tau[i])
        assert abs(p[:, i] - one).max() < 1e-15
    assert (p[0, 0] == 0).all() and (p[0, 2] == 1).all()


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (2, 1), None])
def test_axes_are_those_of_the_core(lib, axis):
    x = np.random.default_rng(3).standard_normal((4, 3, 5))
    p = lib.numpy(lib.ops.soft_topk(lib.array(x), 2.5, axis=axis))
    t = lib.numpy(lib.ops.threshold(lib.array(x), 2.5, axis=axis))
    assert abs(p - stk.soft_topk(x, 2.5, axis=axis)).max() < 1e-15
    assert np.allclose(t, stk.threshold(x, 2.5, axis=axis), rtol=0, atol=1e-15)


def test_budgets_with_more_axes_come_first(lib):
    x = np.random.default_rng(3).standard_normal((3, 5))
    k = np.array([[1.0], [2.5]])
    p = lib.ops.soft_topk(lib.array(x), lib.array(k), axis=0)
    one = stk.soft_topk(x, k, axis=0)
    assert tuple(p.shape) == one.shape == (2, 3, 5)
    assert abs(lib.numpy(p) - one).max() < 1e-15


@pytest.mark.parametrize("name", CURVES)
def test_masks_and_minus_infinity_take_no_part(lib, name):
    rng = np.random.default_rng(8)
    x, mask = rng.standard_normal((5, 12)), rng.random((5, 12)) < 0.6
    hidden = np.where(mask, x, -np.inf)
    k = lib.array([0.5, 1.0, 2.0, 3.0, 3.5])
    curve = curve_of(name)
    p = lib.ops.soft_topk(lib.array(x), k, curve, where=lib.array(mask))
    q = lib.ops.soft_topk(lib.array(hidden), k, curve)
    assert (lib.numpy(p) == lib.numpy(q)).all()
    assert (lib.numpy(p)[~mask] == 0).all()
    core = stk.soft_topk(x, lib.numpy(k), curve, where=mask)
    assert abs(lib.numpy(p) - core).max() < 4e-15

    def loss(x, k):
        p = lib.ops.soft_topk(x, k, curve, temperature=0.7)
        return (p * p).sum() + lib.ops.threshold(x, k, curve).sum()

    for grad in lib.vjp(loss, [lib.array(hidden), k], lib.array(1.0)):
        assert np.isfinite(lib.numpy(grad)).all()

    def weighed(v, k):
        return (lib.gradient(loss)(v, k) * lib.array(np.where(mask, x, 0))).sum()

    second = lib.numpy(lib.gradient(weighed)(lib.array(hidden), k))
    assert np.isfinite(second).all() and (second[~mask] == 0).all()


def test_nothing_and_everything_is_exact_and_flat(lib):
    x = np.array([[3.0, 1.0, -2.0], [0.0, 0.0, 5.0], [1.0, -np.inf, 2.0]])
    k = lib.array([0.0, 3.0, 2.0])
    for name in CURVES:
        p = lib.ops.soft_topk(lib.array(x), k, curve_of(name))
        assert lib.numpy(p).tolist() == [[0, 0, 0], [1, 1, 1], [1, 0, 1]]
        t = lib.ops.threshold(lib.array(x), k, curve_of(name))
        assert lib.numpy(t).tolist() == [math.inf, -math.inf, -math.inf]
        for grad in lib.vjp(
            lambda x, k, name=name: lib.ops.soft_topk(x, k, curve_of(name)),
            [lib.array(x), k],
            lib.array(np.ones((3, 3))),
        ):
            assert (lib.numpy(grad) == 0).all()


def test_an_infinite_threshold_does_not_move(lib):
    x = lib.array(np.array([[3.0, 1.0, -2.0], [1.0, -np.inf, 2.0]]))

    def thresholds(x, k, tau):
        return lib.ops.threshold(x, k, "laplace", temperature=tau)

    at = [x, lib.array(np.array([0.0, 2.0])), lib.array(0.7)]
    value, back = lib.pull(thresholds, at, lib.array(np.array([1.0, 2.0])))
    assert lib.numpy(value).tolist() == [math.inf, -math.inf]
    assert all((lib.numpy(g) == 0).all() for g in back)
    moves = [lib.array(np.ones(tuple(v.shape))) for v in at]
    assert (lib.numpy(lib.jvp(thresholds, at, moves)) == 0).all()


@pytest.mark.parametrize("check", [None, False])
@pytest.mark.parametrize("name", ["clip", "triangular", 1.25, 1.5, 2.0])
def test_a_threshold_that_is_an_interval_moves_as_its_middle(lib, name, check):
    """Half with the last score above it and half with the first below; ties as one."""
    x = np.array([[7.0, 5.0, 0.0, -3.0], [4.0, 4.0, -1.0, -1.0]])
    beside = np.array([[0, 0.5, 0.5, 0], [0.25, 0.25, 0.25, 0.25]])
    k, tau, h = np.array([2.0, 2.0]), 0.8, 1e-6

    def thresholds(x, k, tau):
        curve = curve_of(name)
        return lib.ops.threshold(x, k, curve, temperature=tau, check=check)

    at = [lib.array(v) for v in (x, k, tau)]
    value, (gx, gk, gtau) = lib.pull(thresholds, at, lib.array(np.array([1.0, 2.0])))
    core = stk.threshold(x, k, curve_of(name), temperature=tau)
    assert abs(lib.numpy(value) - core).max() < 1e-14
    ends = [
        stk.threshold(x, k, curve_of(name), temperature=tau + s * h) for s in (1, -1)
    ]
    by_tau = (ends[0] - ends[1]) / (2 * h)
    assert abs(lib.numpy(gx) - beside * [[1], [2]]).max() < 1e-15
    assert (lib.numpy(gk) == 0).all()
    assert float(gtau) == pytest.approx(by_tau @ [1, 2], abs=1e-8)
    moves = [lib.array(v) for v in (np.ones((2, 4)), np.zeros(2), 1.0)]
    assert abs(lib.numpy(lib.jvp(thresholds, at, moves)) - 1 - by_tau).max() < 1e-8

    def last(x, tau):
        return lib.gradient(lambda tau: thresholds(x, at[1], tau).sum())(tau)

    twice = lib.gradient(last, (0, 1))(at[0], at[2])
    assert all(abs(lib.numpy(g)).max() < 1e-13 for g in twice)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_sixteen_bits_are_solved_in_float32_and_rounded_once(lib, kind):
    dtype = getattr(lib, kind)
    x = lib.cast(lib.array(np.random.default_rng(4).standard_normal((8, 300))), dtype)
    wide = lib.numpy(x)
    for name in ("exp", "laplace", "sigmoid", "clip", 1.5):
        p = lib.ops.soft_topk(x, 20, curve_of(name), temperature=0.1)
        assert p.dtype == dtype
        exact = lib.ops.soft_topk(lib.array(wide), 20, curve_of(name), temperature=0.1)
        assert (lib.numpy(p) == lib.numpy(lib.cast(exact, dtype))).all()
        core = stk.soft_topk(wide, 20, curve_of(name), temperature=0.1)
        once = np.spacing(core.astype(np.float32)) * 2.0 ** (
            16 if kind == "bfloat16" else 13
        )
        assert (abs(lib.numpy(p) - core) <= 0.5001 * once + 1e-6).all()
    (gx,) = lib.vjp(lambda x: lib.ops.soft_topk(x, 20), [x], lib.cast(exact, dtype))
    assert gx.dtype == dtype


def test_a_curve_of_ones_own(lib):
    class Mine(stk.curves.Curve):
        """The Gumbel law; no inverse, no complement."""

        def value(self, t):
            return lib.exp(-lib.exp(-t.clip(-30, 700)))

        def slope(self, t):
            t = t.clip(-30, 700)
            return lib.exp(-lib.exp(-t) - t)

    class Plain(stk.curves.Curve):
        def value(self, t):
            return np.exp(-np.exp(-np.clip(t, -30, 700)))

        def slope(self, t):
            t = np.clip(t, -30, 700)
            return np.exp(-np.exp(-t) - t)

    x, curve = np.random.default_rng(2).standard_normal((6, 30)) * 3, Mine()

    def shares(x, k):
        return lib.ops.soft_topk(x, k, curve)

    for k in (0.5, 4, 29.5):
        p = lib.ops.soft_topk(lib.array(x), k, curve)
        assert abs(lib.numpy(p) - stk.soft_topk(x, k, Plain())).max() < 1e-14
        given = [lib.array(x), lib.array(k, np.float64)]
        gx, _ = lib.vjp(shares, given, lib.array(np.sin(x)))
        core = stk.linearize(stk.soft_topk, x, k, Plain()).vjp(np.sin(x))
        assert abs(lib.numpy(gx) - core).max() < 1e-13


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize(
    ("x", "k", "settings", "message"),
    [
        ([1.0, np.nan], 1, {}, "x must be finite or -inf"),
        ([1.0, np.inf], 1, {}, "x must be finite or -inf"),
        ([1.0, 2.0], 3, {}, "k must lie in"),
        ([1.0, 2.0], -1, {}, "k must lie in"),
        ([1.0, -np.inf], 2, {}, "k must lie in"),
        ([1.0, 2.0], np.nan, {}, "k must lie in"),
        ([1.0, 2.0], 1, {"temperature": 0.0}, "temperature must be finite"),
        ([1.0, 2.0], 1, {"temperature": np.inf}, "temperature must be finite"),
        ([1.0, 2.0], 1, {"axis": 1}, "(axis|dim) must lie in"),
        ([1.0, 2.0], 1, {"curve": "gauss"}, "curve must be one of"),
        ([1.0, 2.0], [1, 1, 1.0], {"where": [True]}, None),
    ],
)
def test_bad_input_raises_as_in_the_core(lib, x, k, settings, message):
    if message is None:
        p = lib.ops.soft_topk(lib.array(x), lib.array(k), where=lib.array([True]))
        assert tuple(p.shape) == (3, 2)
        return
    for kind in (list, lib.array) if not isinstance(k, float) else (list,):
        budget = k if kind is list else lib.array(k)
        with pytest.raises(ValueError, match=message):
            lib.ops.soft_topk(lib.array(x), budget, **settings)
    with pytest.raises(ValueError, match=message):
        stk.soft_topk(np.array(x), k, **settings)


def test_wrong_types_are_named(lib):
    x = lib.array([1.0, 2.0])
    with pytest.raises(TypeError, match="k must"):
        lib.ops.soft_topk(x, "1")
    with pytest.raises(TypeError, match="temperature must"):
        lib.ops.soft_topk(x, 1, temperature="1")
    with pytest.raises(TypeError, match="where must be boolean"):
        lib.ops.soft_topk(x, 1, where=lib.array([1.0, 0.0]))
    with pytest.raises(TypeError, match=r"(axis|dim) must"):
        lib.ops.soft_topk(x, 1, axis=1.0)


def test_a_row_out_of_range_that_nobody_looks_at_is_nan_and_no_other(lib):
    x = np.array([[1.0, 2.0], [1.0, np.nan], [np.inf, 0.0], [1.0, 2.0], [1.0, -np.inf]])
    k = lib.array([1.0, 1.0, 1.0, 3.0, 1.5])
    for name in CURVES:
        p = lib.numpy(lib.ops.soft_topk(lib.array(x), k, curve_of(name), check=False))
        assert np.isfinite(p[0]).all() and np.isnan(p[1:]).all()
    p = lib.numpy(
        lib.ops.soft_topk(lib.array(x), k, temperature=lib.array(-1.0), check=False)
    )
    assert np.isnan(p).all()


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bad_score_is_found_in_a_long_row(lib, dtype):
    """XLA's largest and least of 5000 scores leave a NaN out."""
    x = np.random.default_rng(0).standard_normal((5, 9000)).astype(dtype)
    x[1, 7] = x[2, 7] = np.nan
    x[3, 7], x[2:, 20:40] = np.inf, -np.inf
    fine, given = [True, False, False, False, True], lib.array(x)
    operators = [
        functools.partial(lib.ops.soft_topk, curve=curve_of(c)) for c in CURVES
    ]
    hard = [lib.ops.top_k, lib.ops.top_k_st, lib.ops.threshold]
    for operator in [*operators, *hard]:
        found = lib.numpy(operator(given, 20, check=False)).reshape(5, -1)
        assert np.isfinite(found).all(axis=-1).tolist() == fine
        assert np.isnan(found[1:4]).all()
        for bad in (1, 2, 3):
            with pytest.raises(ValueError, match="x must be finite or -inf"):
                operator(given[bad], 20)


def test_scores_whose_difference_overflows_are_right(lib):
    """Or NaN at a temperature above the root of the range, and no other row is."""
    x = 1e308 * np.array([[-1.2, 1.5, 0.3, 1.6], [1.7, -1.7, -1.7, -1.7], [0, 0, 0, 0]])
    x[2] = [3.0, 1.0, 0.0, -2.0]
    if getattr(lib.array(x), "is_cuda", False):
        pytest.skip("the kernels make a row NaN if a distance overflows")
    budgets, taus, nans = (1, 1.5), (1.0, 1e5, 1e307), 0
    every = len(taus), len(budgets), len(x)
    k = np.broadcast_to(np.array(budgets)[:, None], every)
    tau = np.broadcast_to(np.array(taus)[:, None, None], every)
    given = [lib.array(v) for v in (np.broadcast_to(x, (*every, 4)), k, tau)]
    hard = [stk.top_k(x[:2], k) for k in budgets]
    for name in CURVES:
        curve = curve_of(name)
        p = lib.ops.soft_topk(*given[:2], curve, temperature=given[2], check=False)
        p = lib.numpy(p)
        for i, k in enumerate(budgets):
            soft = [np.array(reference(v, k, name, 1e307).p, float) for v in x[:2]]
            for found, exact in zip(p[:, i], (hard[i], hard[i], soft), strict=True):
                assert not (abs(found[:2] - exact) > 1e-14).any()
        assert np.isfinite(p[:, :, 2]).all()
        assert np.isfinite(p[:2]).all()
        nans += np.isnan(p[2, :, :2]).all(axis=-1).sum()
    assert nans


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mean_may_be_far_from_all_scores(lib, dtype):
    """Distances from it are rounded to many units: nothing may be read off them."""
    rng, power = np.random.default_rng(6), 9 if dtype == np.float64 else 3
    x = (rng.standard_cauchy((40, 120)) ** power).astype(dtype)
    for name in ("exp", "laplace", "clip", "triangular"):
        for k in (0.5, 1, 30, 119, 119.5):
            exact = stk.soft_topk(x.astype(np.float64), k, name)
            p = lib.numpy(lib.ops.soft_topk(lib.array(x), k, name, check=False))
            assert abs(p - exact).max() <= 4 * EPS[dtype]


def test_a_long_row_is_counted_in_integers(lib):
    """Above 2^24 entries no float32 counts; nearly all of these are selected."""
    n = 2**24 + 5001
    x = np.full(n, 30.0, np.float32)
    x[:2000] = np.linspace(-1, 1, 2000)
    X = lib.array(x)
    for left in (1000.5, 1001.5):  # an odd number of shares above 1/2, and an even one
        p = lib.ops.soft_topk(X, n - left, "laplace", check=False)
        few = lib.numpy(p)[:2000].astype(np.float64).sum()
        assert few == pytest.approx(2000 - left, abs=0.01)


def test_vmap_is_the_batch(lib):
    x = np.random.default_rng(3).standard_normal((4, 2, 9))
    k, tau = np.array([1.0, 2.5, 3.0, 8.0]), np.array([0.5, 1.0, 2.0, 3.0])

    def one(x, k, tau):
        return lib.ops.soft_topk(x, k, "exp", temperature=tau)

    p = lib.numpy(lib.vmap(one)(*map(lib.array, (x, k, tau))))
    batch = one(*map(lib.array, (x, k[:, None], tau[:, None])))
    assert abs(p - lib.numpy(batch)).max() < 1e-15
    grads = lib.vmap(lib.gradient(lambda x: lib.ops.potential(x, 2)))(
        lib.array(x[:, 0])
    )
    assert abs(lib.numpy(grads) - stk.soft_topk(x[:, 0], 2)).max() < 1e-15


def test_straight_through_is_hard_forward_and_soft_backward(lib):
    x = np.random.default_rng(3).standard_normal((4, 9))
    hard = lib.ops.top_k_st(lib.array(x), 3, temperature=0.3)
    assert (lib.numpy(hard) == stk.top_k(x, 3)).all()
    g = lib.array(np.sin(9 * x))
    given = {"temperature": 0.3}
    one = lib.vjp(lambda x: lib.ops.top_k_st(x, 3, **given), [lib.array(x)], g)
    two = lib.vjp(lambda x: lib.ops.soft_topk(x, 3, **given), [lib.array(x)], g)
    assert (lib.numpy(one[0]) == lib.numpy(two[0])).all()
    assert abs(lib.numpy(one[0])).max() > 0.01
