"""Perturb-max against 50-digit quadrature, closed forms and its own properties."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softtopk import linearize, perturb
from softtopk.perturb import GUMBEL, LOGISTIC, NORMAL, UNIFORM, Noise, erfc, perturb_max

EPS = np.finfo(float).eps
NOISES = (GUMBEL, LOGISTIC, NORMAL, UNIFORM)
SCORES = [1.0, 0.0, 0.5, -2.0]


def laplace_noise(kinks: tuple[float, ...]) -> Noise:
    """Laplace noise, whose density has a kink at 0, declared or not."""
    return Noise(
        "laplace",
        lambda s: 0.5 + np.sign(s) * (0.5 - 0.5 * np.exp(-np.abs(s))),
        lambda t: float(np.log(2 * t) if t < 0.5 else -np.log(2 - 2 * t)),
        lambda s: 0.5 * np.exp(-np.abs(s)),
        kinks=kinks,
    )


def reference(noise: str, x: list[float], i: int) -> mp.mpf:
    """The integral of the definition, over the noise of entry i, at 30 digits."""
    cdf, density, points = {
        "normal": (mp.ncdf, mp.npdf, [-12, -4, -1, 0, 1, 4, 12]),
        "logistic": (
            lambda s: 1 / (1 + mp.exp(-s)),
            lambda s: 1 / (mp.exp(s / 2) + mp.exp(-s / 2)) ** 2,
            [-60, -20, -5, 0, 5, 20, 60],
        ),
        "uniform": (
            lambda s: min(mp.mpf(1), max(mp.mpf(0), s)),
            lambda s: mp.mpf(1),
            sorted(
                {mp.mpf(0), mp.mpf(1)}
                | {
                    c
                    for c in (mp.mpf(b) + v - x[i] for v in x for b in (0, 1))
                    if 0 < c < 1
                }
            ),
        ),
    }[noise]

    def integrand(e: mp.mpf) -> mp.mpf:
        others = (mp.mpf(x[i]) - v + e for j, v in enumerate(x) if j != i)
        return density(e) * mp.fprod(cdf(s) for s in others)

    with mp.workdps(30):
        return mp.quad(integrand, points)


@pytest.mark.parametrize("noise", ["normal", "logistic", "uniform"])
def test_value_is_the_integral_of_the_definition(noise):
    p, error = perturb_max(SCORES, noise, return_error=True)
    for i in range(len(SCORES)):
        # The nodes' sums round by a few eps; the quadrature says its own error.
        assert abs(p[i] - reference(noise, SCORES, i)) <= error[i] + 8 * EPS


def test_error_estimate_is_not_idle():
    """It tells two noises apart by what their densities demand, and is not zero."""
    error = perturb_max(SCORES, "normal", return_error=True)[1]
    assert error.shape == (4,)
    assert 0 < error.max() < 1e-14


@pytest.mark.parametrize("gap", [1.0, 0.3, 0.013, 1.63])
def test_error_estimate_sees_kinks_that_are_not_declared(gap):
    # P(e_2 - e_1 < d) for two Laplace variables is 1 - (2 + d) exp(-d)/4.
    exact = 1 - (2 + mp.mpf(gap)) * mp.exp(-mp.mpf(gap)) / 4
    for noise, largest in ((laplace_noise(()), 1e-7), (laplace_noise((0.0,)), 1e-13)):
        p, error = perturb_max([gap, 0.0], noise, return_error=True)
        assert abs(p[0] - exact) <= error[0] + 8 * EPS
        assert error[0] <= largest


@pytest.mark.parametrize("x", [[0.33, -0.04, 1.64], [4.21, -4.86, -2.51, -0.4, 2.72]])
def test_error_estimate_sees_slow_convergence_where_the_sum_does_not(x):
    p, error = perturb_max(x, laplace_noise(()), return_error=True)
    off = np.abs(p - perturb_max(x, laplace_noise((0.0,))))
    assert np.all(off <= error + 8 * EPS)
    assert np.max(off) > 2 * abs(1 - p.sum()) + 8 * EPS


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_error_estimate_is_small_for_the_noises_of_the_package(noise):
    x = np.random.default_rng(7).normal(size=(40, 5)) * np.logspace(-1, 1, 40)[:, None]
    for row in x:
        assert np.max(perturb_max(row, noise, return_error=True)[1]) < 1e-13


def test_error_estimate_sees_mass_that_is_missing():
    # Differences of a cdf with corners miss them; the sum of p shows it.
    bare = Noise("bare", UNIFORM.cdf, UNIFORM.quantile)
    p, error = perturb_max(SCORES, bare, return_error=True)
    off = np.abs(p - perturb_max(SCORES, "uniform"))
    assert error[0] > 1e-6
    assert off[0] <= error[0] + off[1:].sum()
    assert perturb_max([0.0, -np.inf], bare, return_error=True)[1][1] == 0


def test_gumbel_noise_gives_softmax():
    x = np.random.default_rng(5).normal(size=(7, 40)) * 6
    e = np.exp(x - x.max(-1, keepdims=True))
    softmax = e / e.sum(-1, keepdims=True)
    assert np.max(np.abs(perturb_max(x, "gumbel") - softmax)) <= 8 * EPS


def test_two_normal_competitors_have_a_closed_form():
    for d in (0.0, 0.3, 2.0, 9.0):
        p = perturb_max([d, 0.0], "normal")
        exact = mp.ncdf(mp.mpf(d) / mp.sqrt(2))
        assert abs(p[0] - exact) <= 8 * EPS


def test_uniform_noise_decides_gaps_of_one():
    p = perturb_max([5.0, 1.0, 0.0], "uniform")
    assert p[0] == pytest.approx(1, abs=4 * EPS)
    assert p[1:].tolist() == [0.0, 0.0]
    # A second score just inside the reach of the noise still has mass.
    assert perturb_max([1.0, 0.5, -9.0], "uniform")[1] == pytest.approx(0.125)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@given(
    st.lists(
        st.floats(-30, 30) | st.sampled_from([0.0, 1.0, -np.inf]), min_size=1
    ).filter(lambda x: max(x) > -np.inf)
)
def test_is_a_distribution_that_keeps_order_and_symmetry(noise, x):
    x = np.array(x[:8])
    p = perturb_max(x, noise)
    slack = 16 * EPS * x.size
    assert np.all((p >= 0) & (p <= 1 + slack))
    assert abs(p.sum() - 1) <= slack
    assert np.all(np.diff(p[np.argsort(x)]) >= -slack)
    assert np.allclose(perturb_max(x[::-1], noise), p[::-1], rtol=0, atol=slack)
    assert np.all(p[x == -np.inf] == 0)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_jacobian_is_a_symmetric_laplacian_and_the_derivative(noise):
    x = np.array([0.9, 0.0, 0.45, 0.2])
    jacobian = linearize(perturb_max, x, noise).jacobian()
    assert np.allclose(jacobian, jacobian.T, rtol=0, atol=8 * EPS)
    assert np.allclose(jacobian.sum(0), 0, rtol=0, atol=8 * EPS)
    off = jacobian[~np.eye(4, dtype=bool)]
    assert np.all(off < 0)
    step = 1e-4
    for j in range(4):
        e = step * np.eye(4)[j]
        near, far = (
            (perturb_max(x + m * e, noise) - perturb_max(x - m * e, noise))
            / (2 * m * step)
            for m in (1, 2)
        )
        # Richardson leaves O(step^4) and rounding of eps/step, the latter larger.
        assert np.max(np.abs((4 * near - far) / 3 - jacobian[:, j])) <= 64 * EPS / step


def test_vjp_is_the_transpose_of_jvp():
    x = np.random.default_rng(1).normal(size=(3, 5))
    lin = linearize(perturb_max, x, "logistic", temperature=0.7)
    g, t = np.random.default_rng(2).normal(size=(2, 3, 5))
    assert np.sum(lin.vjp(g) * t) == pytest.approx(np.sum(g * lin.jvp(t)), abs=1e-14)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_derivative_scales_with_the_tangent(scale):
    lin = linearize(perturb_max, np.linspace(0, 8, 9), "normal", temperature=0.5)
    tangent = np.random.default_rng(4).normal(size=9)
    assert np.array_equal(lin.jvp(scale * tangent), scale * lin.jvp(tangent))
    assert np.array_equal(lin.jvp(np.zeros(9)), np.zeros(9))


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
def test_units_of_the_noise_do_not_matter(scale):
    # A kink that is not declared makes the halving work.
    noise = laplace_noise(())
    scaled = Noise(
        "scaled",
        lambda s: noise.cdf(s / scale),
        lambda t: scale * noise.quantile(t),
        lambda s: noise.density(s / scale) / scale,
    )
    x = np.array([1.3, 0.4, 0.0])
    lin = linearize(perturb_max, x, noise)
    other = linearize(perturb_max, scale * x, scaled)
    assert np.max(np.abs(other.value - lin.value)) <= 8 * EPS
    assert np.max(np.abs(scale * other.jacobian() - lin.jacobian())) <= 8 * EPS


def test_derivative_at_two_scores_has_closed_forms():
    d, tau = 0.6, 0.5
    z = d / tau
    slopes = {
        "gumbel": 1 / (2 * np.cosh(z / 2)) ** 2,
        "normal": np.exp(-z * z / 4) / np.sqrt(4 * np.pi),
        "uniform": 0.0,  # the gap exceeds the reach of the noise
        "logistic": np.exp(z) * ((z - 2) * np.exp(z) + z + 2) / np.expm1(z) ** 3,
    }
    for noise, slope in slopes.items():
        lin = linearize(perturb_max, [d, 0.0], noise, temperature=tau)
        want = slope / tau * np.array([[1, -1], [-1, 1]])
        assert np.max(np.abs(lin.jacobian() - want)) <= 16 * EPS


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_rows_do_not_affect_each_other(noise, monkeypatch):
    x = np.random.default_rng(6).normal(size=(5, 4)) * [[0.1], [1], [5], [1], [0.3]]
    p = perturb_max(x, noise)
    alone = np.array([perturb_max(row, noise) for row in x])
    # Rows share the halving: the finer panels differ by rounding and the tolerance.
    assert np.max(np.abs(p - alone)) <= 16 * EPS
    assert perturb_max(np.zeros((0, 3)), noise).shape == (0, 3)
    tangent = np.random.default_rng(8).normal(size=x.shape)
    change = linearize(perturb_max, x, noise).jvp(tangent)
    monkeypatch.setattr(perturb, "_BLOCK_ENTRIES", 1)  # one row at a time
    assert np.array_equal(perturb_max(x, noise), alone)
    blocked = linearize(perturb_max, x, noise).jvp(tangent)
    assert np.max(np.abs(blocked - change)) <= 16 * EPS * np.max(np.abs(tangent))


def test_axis_mask_temperature_and_dtype():
    x = np.random.default_rng(3).normal(size=(2, 6, 3))
    whole = perturb_max(np.moveaxis(x, 1, -1), "normal")
    assert np.array_equal(perturb_max(x, "normal", axis=1), np.moveaxis(whole, -1, 1))
    mask = np.array([True, True, False, True, True, False])
    masked = perturb_max(x[0].T, "normal", where=mask)
    assert np.all(masked[:, ~mask] == 0)
    few = perturb_max(x[0].T[:, mask], "normal")
    assert np.allclose(masked[:, mask], few, rtol=0, atol=16 * EPS)
    half = perturb_max(2 * x[0], "normal", temperature=2.0)
    assert np.allclose(half, perturb_max(x[0], "normal"), rtol=0, atol=16 * EPS)
    assert perturb_max(x[0].astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("scale", "offset"),
    list(itertools.product([1e-300, 1.0, 1e300], [0.0, 1e8])),
)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_any_scale_and_offset(noise, scale, offset):
    p = perturb_max(np.array([1.0, 0.25, -1.0]) * scale + offset, noise)
    assert p.sum() == pytest.approx(1, abs=32 * EPS)
    assert p[0] >= p[1] >= p[2]


def test_noise_given_by_cdf_and_quantile_alone():
    bare = Noise("bare", LOGISTIC.cdf, LOGISTIC.quantile)
    p = perturb_max(SCORES, bare)
    # Its density is a fourth-order difference: about ten digits.
    assert np.max(np.abs(p - perturb_max(SCORES, "logistic"))) < 1e-9
    assert np.max(np.abs(p - perturb_max(SCORES, "logistic"))) > 0


def test_heavy_tails():
    cauchy = Noise(
        "cauchy",
        lambda s: 0.5 + np.arctan(s) / np.pi,
        lambda t: float(np.tan(np.pi * (t - 0.5))),
        lambda s: 1 / (np.pi * (1 + s * s)),
    )
    p = perturb_max([3.0, 0.0], cauchy)
    # The difference of two Cauchy variables is Cauchy of scale 2.
    assert p[0] == pytest.approx(0.5 + np.arctan(1.5) / np.pi, abs=1e-12)


def test_erfc_to_its_stated_relative_error():
    z = np.linspace(-6, 26, 1601)
    for value, at in zip(erfc(z), z, strict=True):
        exact = mp.erfc(mp.mpf(float(at)))
        assert abs(value - exact) <= 4 * EPS * (1 + at * at) * exact


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"x": [1.0], "noise": "cauchy"},
            ValueError,
            "noise must be a Noise or one of",
        ),
        ({"x": [1.0], "noise": 3}, ValueError, "noise must be"),
        ({"x": [np.nan, 1.0]}, ValueError, "x must be finite or -inf"),
        ({"x": [np.inf, 1.0]}, ValueError, "x must be finite or -inf"),
        ({"x": [-np.inf, -np.inf]}, ValueError, "x must have a finite entry"),
        ({"x": []}, ValueError, "x must have at least one entry"),
        ({"x": ["a"]}, TypeError, "x must hold real numbers"),
        (
            {"x": [1.0], "temperature": 0.0},
            ValueError,
            "temperature must be finite and",
        ),
        ({"x": [1.0], "temperature": "a"}, TypeError, "temperature must be one real"),
        ({"x": [1.0], "axis": 1}, ValueError, "axis must lie in"),
        ({"x": [1.0], "where": [1]}, TypeError, "where must be boolean"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        perturb_max(**arguments)


@pytest.mark.parametrize(
    ("cdf", "quantile", "density", "message"),
    [
        (lambda s: np.full_like(s, 0.5), GUMBEL.quantile, None, "tends to 0 and to 1"),
        (LOGISTIC.cdf, lambda t: 0.0, None, "quantile that is finite and increasing"),
        (LOGISTIC.cdf, lambda t: np.nan, None, "quantile that is finite"),
        (LOGISTIC.cdf, lambda t: -t, None, "quantile that is finite and increasing"),
        (LOGISTIC.cdf, LOGISTIC.quantile, lambda s: s * np.nan, "without NaN"),
    ],
)
def test_what_is_not_a_distribution_is_an_error(cdf, quantile, density, message):
    with pytest.raises(ValueError, match=message):
        perturb_max([1.0, 0.0], Noise("bad", cdf, quantile, density))


def test_the_derivative_stands_a_denormal_temperature():
    rule = linearize(perturb_max, [3.0, 1.0, 0.0, 0.0], temperature=1e-310)
    assert not rule.jvp([1.0, 0.0, 0.0, 0.0]).any()


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_equal_scores_have_equal_probabilities(noise):
    """To the bit: a matrix product may add up its last rows in another order."""
    for n in range(2, 12):
        assert np.ptp(perturb_max(np.zeros(n), noise)) == 0
