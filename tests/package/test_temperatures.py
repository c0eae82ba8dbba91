"""One temperature a row on NumPy: each row is what a call for it alone returns."""

import inspect

import numpy as np
import pytest
from scipy.stats import norm

import softtopk as stk
from softtopk import losses, perturb, simplex, subset
from softtopk._linearize import _BODIES

RNG = np.random.default_rng(5)
SHAPE = 3, 4
X = RNG.normal(size=(*SHAPE, 7))
TAU = np.array([[0.3], [1.0], [2.5]]) * np.array([1.0, 0.1, 4.0, 0.7])
TARGET = np.arange(12).reshape(SHAPE) % 7
SUBSET = np.arange(7) < 3 + np.zeros((*SHAPE, 1))
K = 1.0 + np.arange(12).reshape(SHAPE) % 6
MASK = np.arange(7) != TARGET[..., None]


class Gauss(stk.curves.Curve):
    """A curve for which no quick sums are known."""

    def value(self, u):
        return norm.cdf(u)

    def slope(self, u):
        return norm.pdf(u)


def _cases():
    """Operators of scores and a temperature, with what they may be asked for."""
    for name in stk.curves.NAMED:
        yield f"soft_topk {name}", stk.soft_topk, {"k": 2.5, "curve": name}
    yield "soft_topk of a curve of one's own", stk.soft_topk, {"k": 3, "curve": Gauss()}
    yield "soft_topk where", stk.soft_topk, {"k": K, "where": MASK}
    cost = {"k": 3.0, "cost": np.linspace(0.5, 2, 7)}
    yield "soft_topk cost", stk.soft_topk, cost
    yield "soft_topk per cost", stk.soft_topk, cost | {"per": "cost"}
    yield "threshold", stk.threshold, {"k": K}
    yield "threshold clip", stk.threshold, {"k": 2, "curve": "clip"}
    yield "threshold cost", stk.threshold, cost
    for name in ("softmax", "log_softmax", "logsumexp", "sparsemax", "taylor_softmax"):
        yield name, getattr(simplex, name), {}
    for alpha in (1.0, 1.25, 1.5, 3.0, 1 + 0.25 * K):
        yield f"entmax {np.mean(alpha)}", simplex.entmax, {"alpha": alpha}
    yield "sparse_softmax", simplex.sparse_softmax, {"k": K}
    yield "grad_topk", stk.grad_topk, {"k": K}
    yield "log_partition", stk.log_partition, {"k": K}
    yield "pair_marginals", subset.pair_marginals, {"k": K}
    for curve in ("laplace", "sigmoid"):
        for name in ("soft_sort", "soft_rank"):
            yield f"{name} {curve}", getattr(stk, name), {"curve": curve}
        yield f"soft_permutation {curve}", stk.soft_permutation, {"curve": curve}
    yield "potential", losses.potential, {"k": K}
    target = {"target": TARGET}
    yield "am_softmax_loss", losses.am_softmax_loss, target | {"margin": 0.2}
    yield "in_top_k_loss", losses.in_top_k_loss, target | {"k": 2}
    yield (
        "in_top_k_loss of many",
        losses.in_top_k_loss,
        target | {"k": np.minimum(K, 5)},
    )
    yield "top_k_loss", losses.top_k_loss, target
    yield "stop_gradient_loss", losses.stop_gradient_loss, target
    yield "subset_log_prob", stk.subset_log_prob, {"subset": SUBSET}
    yield "sample_topk", stk.sample_topk, {"k": 3, "rng": 1}
    yield "balanced_topk", stk.balanced_topk, {"k": 2}


CASES = {name: (operator, given) for name, operator, given in _cases()}
ROWS = [name for name in CASES if name not in ("sample_topk", "balanced_topk")]


def _of(given, i):
    """The arguments of one row."""
    own = {key for key in given if np.shape(given[key])[:2] == SHAPE}
    return {key: value[i] if key in own else value for key, value in given.items()}


def test_every_operator_with_a_temperature_is_here():
    with_one = [f for f in vars(stk).values() if inspect.isfunction(f)]
    with_one += [getattr(m, n) for m in (losses, simplex, subset) for n in vars(m)]
    names = {
        f.__name__
        for f in with_one
        if inspect.isfunction(f)
        and "temperature" in inspect.signature(f).parameters
        and f in (getattr(m, f.__name__, 0) for m in (stk, losses, simplex, subset))
    }
    inner = {"temperatures_of", "law_blocks", "numpy_partition"}
    tested = {operator.__name__ for operator, _ in CASES.values()}
    assert names - inner == tested | {"perturb_max"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", ROWS)
def test_a_temperature_a_row_is_a_call_a_row(case, dtype):
    operator, given = CASES[case]
    x = X.astype(dtype)
    found = operator(x, temperature=TAU, **given)
    assert found.dtype == dtype
    eps = np.finfo(dtype).eps
    for i in np.ndindex(SHAPE):
        alone = operator(x[i], temperature=float(TAU[i]), **_of(given, i))
        np.testing.assert_allclose(found[i], alone, rtol=16 * eps, atol=4 * eps)


@pytest.mark.parametrize("case", [name for name in ROWS if CASES[name][0] in _BODIES])
def test_its_derivative_is_that_of_the_rows(case):
    operator, given = CASES[case]
    at = stk.linearize(operator, X, temperature=TAU, **given)
    tangent = np.cos(np.arange(X.size)).reshape(X.shape)
    cotangent = np.sin(np.arange(np.size(at.value))).reshape(np.shape(at.value))
    found = at.jvp(tangent), at.vjp(cotangent), at.dk
    for i in np.ndindex(SHAPE):
        more = _of(given, i)
        one = stk.linearize(operator, X[i], temperature=float(TAU[i]), **more)
        alone = one.jvp(tangent[i]), one.vjp(cotangent[i]), one.dk
        for many, single in zip(found, alone, strict=True):
            if single is None:
                assert many is None
            else:
                np.testing.assert_allclose(many[i], single, rtol=1e-12, atol=1e-13)


def test_one_temperature_a_matrix():
    warm = np.array([0.3, 1.0, 2.5])
    at = stk.linearize(stk.balanced_topk, X, 2, temperature=warm)
    for i, tau in enumerate(warm):
        one = stk.linearize(stk.balanced_topk, X[i], 2, temperature=tau)
        np.testing.assert_array_equal(at.value[i], one.value)
        np.testing.assert_array_equal(at.jvp(X)[i], one.jvp(X[i]))


def test_draws_have_the_law_of_their_row():
    x, warm = np.array([2.0, 1.0, 0.0, -1.0]), np.array([0.5, 3.0])
    drawn = stk.sample_topk([x, x], 2, rng=0, temperature=warm, draws=20_000)
    law = stk.grad_topk([x, x], 2, temperature=warm)
    assert abs(law[0] - law[1]).max() > 0.1
    assert abs(drawn.mean(axis=0) - law).max() < 0.015  # four standard deviations


@pytest.mark.parametrize("n", [12_000, 40_000])
@pytest.mark.parametrize("curve", ["laplace", "exp", "clip"])
def test_long_rows(n, curve):
    x, warm = RNG.normal(size=(2, n)), [0.1, 3.0]
    p = stk.soft_topk(x, 50, curve, temperature=warm)
    q, m = (
        simplex.sparsemax(x, temperature=warm),
        stk.grad_topk(x, 50, temperature=warm),
    )
    for i, tau in enumerate(warm):
        assert (p[i] == stk.soft_topk(x[i], 50, curve, temperature=tau)).all()
        assert (q[i] == simplex.sparsemax(x[i], temperature=tau)).all()
        assert (m[i] == stk.grad_topk(x[i], 50, temperature=tau)).all()


@pytest.mark.parametrize("axis", [0, (0, 2), -1])
def test_it_broadcasts_against_the_scores_without_the_axes(axis):
    x = X
    batch = np.sum(x, axis=axis).shape
    warm = RNG.uniform(0.2, 2, batch)
    p = stk.soft_topk(x, 2, temperature=warm, axis=axis)
    whole = np.expand_dims(warm, axis)
    expected = [
        stk.soft_topk(x, 2, temperature=float(tau), axis=axis) for tau in warm.flat
    ]
    for tau, one in zip(warm.flat, expected, strict=True):
        at = np.broadcast_to(whole == tau, x.shape)
        np.testing.assert_allclose(p[at], one[at], rtol=0, atol=1e-15)
    last = stk.soft_topk(X, 2, temperature=[0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(last[:, 1], stk.soft_topk(X[:, 1], 2, temperature=0.2))
    two = stk.soft_topk(X[0, 0], [1.0, 2.0], temperature=[0.5, 2.0])
    np.testing.assert_allclose(two[1], stk.soft_topk(X[0, 0], 2, temperature=2.0))


def test_rows_out_of_the_ordinary():
    x = [[3, 1, 2, 0], [0, 1, 5, 2], [-np.inf] * 4, [1, 2, 3, 4]]
    warm, k = [0.5, 2.0, 1.0, 7.0], [2, 4, 1, 0]
    p = stk.soft_topk(x, k, temperature=warm, empty="zeros")
    assert p[1:].tolist() == [[1] * 4, [0] * 4, [0] * 4]
    assert (p[0] == stk.soft_topk(x[0], 2, temperature=0.5)).all()
    whole = np.array(x[:2], dtype=object).astype(int)
    assert (stk.soft_topk(whole, 2, temperature=warm[:2])[0] == p[0]).all()
    assert stk.soft_topk(np.empty((0, 4)), 2, temperature=[]).shape == (0, 4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_temperatures_at_the_ends_of_the_range(dtype, offset):
    """Neither a quotient nor an offset of the scores costs digits in other rows."""
    x = (np.array([[0.0, 0.5, 2.0, -1.0]] * 5) + offset).astype(dtype)
    warm = [5e-324, 1e-42, 1e-3, 1.0, 1e300]
    found = stk.soft_topk(x, 1.5, temperature=warm)
    simple = simplex.softmax(x, temperature=warm)
    for i, tau in enumerate(warm):
        eps = 4 * np.finfo(dtype).eps
        alone = stk.soft_topk(x[i], 1.5, temperature=tau)
        np.testing.assert_allclose(found[i], alone, rtol=0, atol=eps)
        alone = simplex.softmax(x[i], temperature=tau)
        np.testing.assert_allclose(simple[i], alone, rtol=0, atol=eps)
    assert np.isfinite(found).all()
    assert np.isfinite(simple).all()


def test_a_loss_of_huge_scores_is_scaled_with_its_temperatures():
    warm = np.array([0.1, 1.0, 3.0, 0.5])
    found = losses.potential(2.0**990 * X[0], 2, temperature=2.0**990 * warm)
    plain = losses.potential(X[0], 2, temperature=warm)
    np.testing.assert_allclose(found / 2.0**990, plain, rtol=1e-14)


@pytest.mark.parametrize(
    ("warm", "error", "message"),
    [
        ([1.0, 0.0], ValueError, "temperature must be finite and above 0, got 0.0"),
        ([1.0, np.nan], ValueError, "temperature must be finite and above 0, got nan"),
        ([[1.0], [2.0]], ValueError, r"temperature must broadcast to shape \(2,\), .*"),
        ([1.0] * 3, ValueError, r"temperature must broadcast to shape \(2,\), got .*"),
        (["a", "b"], TypeError, "temperature must be a real number or .*"),
        ([True, True], TypeError, "temperature must be a real number or .*"),
        (
            np.ma.array([1.0, 2.0]),
            TypeError,
            "temperature must not be a masked .*",
        ),
    ],
)
def test_a_bad_one_is_named(warm, error, message):
    for call in (
        lambda: stk.soft_topk(X[0, :2], 2, temperature=warm),
        lambda: stk.soft_topk(X[0, :2], 2, temperature=warm, cost=1.0),
        lambda: simplex.softmax(X[0, :2], temperature=warm),
        lambda: stk.grad_topk(X[0, :2], 2, temperature=warm),
    ):
        with pytest.raises(error, match=f"^{message}$"):
            call()


def test_the_noise_of_perturb_max_has_one():
    with pytest.raises(TypeError, match="temperature must be one real number, got"):
        perturb.perturb_max(X, temperature=TAU)
