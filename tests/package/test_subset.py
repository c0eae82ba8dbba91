"""GradTopK against exact references, its invariants, and its bad inputs.

Bounds: eps is the machine epsilon of the result.  p may be off by 8 eps, relatively by
16 eps (1 + |x - lambda|) because x - a is rounded once and exp turns that into a
relative error; products with the Jacobian by 4 eps max|g|.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import oracle_subset as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from mpmath import mp, mpf
from rows import long_double

from softtopk import linearize, verify
from softtopk.subset import grad_topk, log_partition, pair_marginals

EPS = np.finfo(np.float64).eps
DTYPES = (np.float64, np.float32)


def family(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if name == "gauss":
        return rng.standard_normal(n)
    if name == "ties":
        return rng.integers(0, 3, n).astype(float)
    if name == "equal":
        return np.zeros(n)
    if name == "cauchy":
        return rng.standard_cauchy(n)
    if name == "bimodal":
        return np.where(rng.random(n) < 0.3, 4.0, -4.0)
    if name == "geometric":
        return -np.arange(n, dtype=float)
    x = rng.standard_normal(n)
    x[1 : 1 + n // 4] = -np.inf
    return x


FAMILIES = ("gauss", "ties", "equal", "cauchy", "bimodal", "geometric", "masked")


def grid(sizes, scales, offsets):
    rng = np.random.default_rng(7)
    for name, n in itertools.product(FAMILIES, sizes):
        base = family(name, n, rng)
        count = int(np.isfinite(base).sum())
        for scale, offset in itertools.product(scales, offsets):
            x = base * scale + offset
            for k in sorted({1, 2, n // 2, count - 1}):
                if 1 <= k <= count:
                    yield x, k


def errors(p, exact):
    return np.array([float(mpf(float(a)) - b) for a, b in zip(p, exact, strict=True)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_marginals_meet_their_bounds_over_the_stress_grid(dtype):
    eps, floor = float(np.finfo(dtype).eps), 1e-150 if dtype == np.float64 else 1e-18
    sizes = (2, 5, 24) if dtype == np.float64 else (2, 5, 12)
    worst = np.zeros(3)
    for x, k in grid(sizes, (1e-3, 1.0, 10.0, 1e3, 1e6), (0.0, 1e8, -12345.678)):
        x = x.astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            p = grad_topk(x, k)
        assert p.dtype == dtype
        exact = oracle.marginals(x, k)
        error = np.abs(errors(p, exact))
        value = np.array([float(b) for b in exact])
        seen = value > floor
        lam = oracle.centre(x, k) if k < len(x) else x.min()
        gap = 1 + np.abs(x[seen] - lam)
        absolute = error.max() / eps
        relative = float((error[seen] / value[seen] / gap).max()) / eps
        total = abs(float(p.sum(dtype=np.float64)) - k) / (eps * k)
        worst = np.maximum(worst, [absolute, relative, total])
    print(f"\n{dtype.__name__}: abs, rel, sum / eps =", worst.round(2))
    assert worst[0] <= 8
    assert worst[1] <= 16
    assert worst[2] <= 16


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_the_jacobian_meet_their_bound(dtype):
    eps = float(np.finfo(dtype).eps)
    rng = np.random.default_rng(3)
    worst = 0.0
    for x, k in grid((2, 5, 16), (1e-3, 1.0, 10.0, 1e3), (0.0,)):
        x = x.astype(dtype)
        if k == len(x):
            continue
        g = rng.standard_normal(len(x)).astype(dtype)
        lin = linearize(grad_topk, x, k)
        exact = oracle.derivative(x, k, g)
        worst = max(worst, np.abs(errors(lin.vjp(g), exact)).max() / np.abs(g).max())
        assert np.array_equal(lin.vjp(g), lin.jvp(g))
    print(f"\n{dtype.__name__}: J g / (eps max|g|) =", round(worst / eps, 2))
    assert worst <= 4 * eps


@long_double
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 3, 100, 1199])
def test_longer_rows_agree_with_the_positive_recursion(dtype, k):
    rng = np.random.default_rng(k)
    eps = np.finfo(dtype).eps
    for name, scale in (("gauss", 1.0), ("gauss", 6.0), ("ties", 3.0), ("cauchy", 1.0)):
        x = (family(name, 1200, rng) * scale).astype(dtype)
        assert np.abs(grad_topk(x, k) - oracle.long_marginals(x, k)).max() <= 8 * eps


@long_double
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(6000, 1), (6000, 5990), (12000, 30)])
def test_rows_solved_through_power_sums_agree_too(dtype, n, k):
    rng = np.random.default_rng(n + k)
    eps = np.finfo(dtype).eps
    for name, scale in (("gauss", 1.0), ("ties", 4.0), ("bimodal", 1.0)):
        x = (family(name, n, rng) * scale).astype(dtype)
        flip = k > n // 2
        exact = oracle.long_marginals(-x if flip else x, n - k if flip else k)
        exact = 1 - exact if flip else exact
        assert np.abs(grad_topk(x, k) - exact).max() <= 8 * eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_tied_block_below_a_leader_does_not_pile_up_rounding(dtype):
    eps = np.finfo(dtype).eps
    for n, low in ((400, -8.0), (4000, -12.0), (4001, -12.0), (20000, -12.0)):
        x = np.full(n, low, dtype)
        x[0] = 0
        with mp.workdps(40):
            exact = 1 / (1 + (n - 1) * mp.exp(low))
        assert abs(float(mpf(float(grad_topk(x, 1)[0])) - exact)) <= 8 * eps
        # the mirror image: all but one are almost surely selected
        assert abs(float(mpf(float(grad_topk(-x, n - 1)[0])) - (1 - exact))) <= 8 * eps


def test_short_and_long_path_agree_across_their_border():
    rng = np.random.default_rng(5)
    x = rng.standard_normal(4096) * 3
    g = rng.standard_normal(4097)
    for k in (1, 7, 500, 4090):
        # an entry of -inf changes the path, not the law
        padded = np.append(x, -np.inf)
        a, b = grad_topk(x, k), grad_topk(padded, k)
        assert b[-1] == 0
        assert np.abs(a - b[:-1]).max() <= 8 * EPS
        short = linearize(grad_topk, x, k).vjp(g[:-1])
        long = linearize(grad_topk, padded, k).vjp(g)
        assert np.abs(short - long[:-1]).max() <= 8 * EPS * np.abs(g).max()
        assert long[-1] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_partition_is_exact_to_the_size_of_its_terms(dtype):
    eps = float(np.finfo(dtype).eps)
    for x, k in grid((2, 5, 16), (1e-3, 1.0, 10.0, 1e3), (0.0, 1e4)):
        x = x.astype(dtype)
        exact = oracle.partition(x, k)
        size = np.abs(np.sort(x)[-k:].astype(float)).sum() + k * np.log(len(x))
        error = abs(float(mpf(float(log_partition(x, k))) - exact))
        assert error <= 8 * eps * (1 + size)


def test_log_partition_of_a_long_row_follows_the_poisson_binomial_law():
    # equal scores: Z_k = C(n, k)
    for n, k in ((100, 50), (5000, 3), (20000, 12345)):
        exact = mp.log(mp.binomial(n, k))
        assert abs(float(log_partition(np.zeros(n), k) - exact)) <= 4 * EPS * float(
            exact
        )


def test_pair_marginals_equal_the_polynomials_of_the_others():
    for x, k in grid((2, 5, 8), (1.0, 10.0), (0.0,)):
        exact = oracle.pair(x, k)
        out = pair_marginals(x, k)
        for row, reference in zip(out, exact, strict=True):
            assert np.abs(errors(row, reference)).max() <= 8 * EPS
        assert np.array_equal(np.diag(out), np.diag(out))
        assert np.array_equal(np.diag(out), grad_topk(x, k))


def test_the_jacobian_is_the_covariance_of_the_selection():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 7)) * 2
    for k, tau in ((1, 1.0), (3, 0.5), (6, 2.0)):
        p = grad_topk(x, k, temperature=tau)
        both = pair_marginals(x, k, temperature=tau)
        covariance = both - p[:, :, None] * p[:, None, :]
        jacobian = linearize(grad_topk, x, k, temperature=tau).jacobian()
        assert np.abs(jacobian * tau - covariance).max() <= 8 * EPS
        # symmetric, singular along (1, ..., 1), negative off the diagonal
        assert np.abs(jacobian.sum(-1)).max() <= 8 * EPS / tau
        assert (covariance[:, ~np.eye(7, dtype=bool)] < 0).all()
        assert np.linalg.eigvalsh(covariance).max() <= 0.5


def test_the_gradient_of_log_partition_is_grad_topk():
    rng = np.random.default_rng(1)
    x, g = rng.standard_normal((2, 9)), rng.standard_normal(2)
    lin = linearize(log_partition, x, 4, temperature=0.7)
    p = grad_topk(x, 4, temperature=0.7)
    assert np.array_equal(lin.value, log_partition(x, 4, temperature=0.7))
    assert np.array_equal(lin.vjp(g), p * g[:, None])
    t = rng.standard_normal((2, 9))
    assert np.allclose(lin.jvp(t), (p * t).sum(-1), rtol=4 * EPS, atol=4 * EPS)
    # central differences: truncation h^2 f'''/6, rounding eps |f| / h
    h = 1e-5
    ahead = log_partition(x + h * t, 4, temperature=0.7)
    behind = log_partition(x - h * t, 4, temperature=0.7)
    assert np.abs((ahead - behind) / (2 * h) - (p * t).sum(-1)).max() < 1e-9
    # and the second derivative is the Jacobian of grad_topk
    ahead = grad_topk(x + h * t, 4, temperature=0.7)
    behind = grad_topk(x - h * t, 4, temperature=0.7)
    jvp = linearize(grad_topk, x, 4, temperature=0.7).jvp(t)
    assert np.abs((ahead - behind) / (2 * h) - jvp).max() < 1e-9


def recursion(x: np.ndarray, k: int) -> np.ndarray:
    """The recursion of the source, Z_{k,i} = e^{x_i} (Z_{k-1} - Z_{k-1,i})."""
    part = np.exp(x)
    for j in range(2, k + 1):
        part = np.exp(x) * (part.sum() / (j - 1) - part)
    return k * part / part.sum()


@pytest.mark.parametrize(
    ("x", "k"),
    [
        ([40.0, 0.0, -1.0], 2),
        (list(np.linspace(20, -20, 20)), 8),
        (list(np.linspace(3, -3, 60)), 40),
    ],
)
def test_it_is_right_where_the_recursion_of_the_source_is_not(x, k):
    x = np.array(x)
    exact = np.array([float(p) for p in oracle.marginals(x, k)])
    assert not np.abs(recursion(x, k) - exact).max() < 1e-3
    assert np.abs(grad_topk(x, k) - exact).max() <= 8 * EPS


@pytest.mark.parametrize("k", [1, 3, 6])
def test_the_reference_of_the_chapters_is_the_sum_over_subsets(k):
    x = [30.0, 2.5, 2.5, -1.0, -60.0, 0.0]
    subsets = list(itertools.combinations(range(6), k))
    with mp.workdps(80):
        terms = [mp.exp(mp.fsum(x[i] for i in subset)) for subset in subsets]
        total = mp.fsum(terms)
        law = list(zip(subsets, terms, strict=True))
        exact = [mp.fsum(t for s, t in law if i in s) / total for i in range(6)]
        log_z, p = verify.subset_marginals(x, k)
        assert abs(log_z - mp.log(total)) < mpf(10) ** -48 * (1 + abs(log_z))
        for value, right in zip(p, exact, strict=True):
            assert abs(value / right - 1) < mpf(10) ** -50


@pytest.mark.parametrize("scale", [1e3, 1e100, 1e300])
@pytest.mark.parametrize("temperature", [1.0, 1e-300, 5e-324])
def test_the_hard_limit_splits_ties_equally(scale, temperature):
    # a = 1 above, b = 3 tied, k = 2: each tied entry gets (k - a)/b
    x = np.array([3.0, 1.0, 1.0, -2.0, 1.0, -np.inf]) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = grad_topk(x, 2, temperature=temperature)
        value = log_partition(x, 2, temperature=temperature)
        gradient = linearize(grad_topk, x, 2, temperature=temperature).jvp(np.ones(6))
    expected = np.array([1, 1 / 3, 1 / 3, 0, 1 / 3, 0])
    assert np.abs(p - expected).max() <= 4 * EPS
    assert p[1] == p[2] == p[4]
    assert p[3] == p[5] == 0
    assert np.isclose(value, 4 * scale + temperature * np.log(3), rtol=4 * EPS)
    assert not np.isnan(gradient).any()


@pytest.mark.parametrize(("dtype", "tau"), [(np.float64, 5e-324), (np.float32, 1e-60)])
def test_a_temperature_below_the_normal_range_is_the_hard_limit(dtype, tau):
    x = np.array([2e-30, 1e-30, 0.0], dtype)
    tol = 4 * np.finfo(dtype).eps
    assert np.abs(grad_topk(x, 1, temperature=tau) - [1, 0, 0]).max() <= tol
    assert np.abs(grad_topk(0 * x, 1, temperature=tau) - 1 / 3).max() <= tol


def test_k_zero_and_k_full_are_exact():
    x = np.array([[1.0, -2.0, 3.0], [0.0, -np.inf, 0.0]])
    assert np.array_equal(grad_topk(x, 0), np.zeros((2, 3)))
    assert np.array_equal(grad_topk(x, [3, 2]), [[1, 1, 1], [1, 0, 1]])
    assert np.array_equal(log_partition(x, [3, 2]), [2.0, 0.0])
    assert np.array_equal(log_partition(x, 0), [0.0, 0.0])
    lin = linearize(grad_topk, x, [3, 0])
    assert np.array_equal(lin.vjp(np.ones((2, 3))), np.zeros((2, 3)))
    assert np.array_equal(pair_marginals(x[1], 2), [[1, 0, 1], [0, 0, 0], [1, 0, 1]])


def test_rows_axes_masks_and_budgets_are_those_of_single_rows():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 3, 11)) * 4
    k = rng.integers(0, 12, (4, 3))
    p = grad_topk(x, k)
    value = log_partition(x, k)
    g = rng.standard_normal(x.shape)
    vjp = linearize(grad_topk, x, k).vjp(g)
    for i in np.ndindex(4, 3):
        assert np.abs(p[i] - grad_topk(x[i], k[i])).max() <= 8 * EPS
        assert np.isclose(value[i], log_partition(x[i], k[i]), rtol=1e-14)
        single = linearize(grad_topk, x[i], k[i]).vjp(g[i])
        assert np.abs(vjp[i] - single).max() <= 8 * EPS * np.abs(g[i]).max()
    moved = grad_topk(np.moveaxis(x, -1, 1), k, axis=1)
    assert np.array_equal(np.moveaxis(moved, 1, -1), p)

    where = rng.random((4, 3, 11)) < 0.7
    where[..., :2] = True
    p = grad_topk(x, 2, where=where)
    assert (p[~where] == 0).all()
    for i in np.ndindex(4, 3):
        assert np.abs(p[i][where[i]] - grad_topk(x[i][where[i]], 2)).max() <= 8 * EPS
    # one row, several budgets
    assert grad_topk(x[0, 0], [1, 2, 5]).shape == (3, 11)
    assert grad_topk(np.zeros((0, 5)), 2).shape == (0, 5)


def test_many_blocks_give_what_one_row_gives():
    rng = np.random.default_rng(9)
    x = rng.standard_normal((700, 200)) * np.exp(rng.standard_normal((700, 1)))
    k = rng.integers(0, 201, 700)
    p = grad_topk(x, k)
    for i in range(0, 700, 83):
        assert np.abs(p[i] - grad_topk(x[i], k[i])).max() <= 8 * EPS
    assert np.abs(p.sum(-1) - k).max() <= 200 * 8 * EPS


scores = hnp.arrays(
    np.float64,
    st.integers(2, 12),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@st.composite
def problem(draw):
    x = draw(scores)
    scale = draw(st.sampled_from([1e-6, 1e-3, 1.0]))
    return x * scale, draw(st.integers(1, len(x) - 1))


@settings(max_examples=80, deadline=None)
@given(problem(), st.randoms(use_true_random=False))
def test_invariants(case, random):
    x, k = case
    n = len(x)
    p = grad_topk(x, k)
    tol = 16 * EPS
    assert ((p >= 0) & (p <= 1)).all()
    assert abs(p.sum() - k) <= n * tol
    order = np.argsort(x)
    assert (np.diff(p[order]) >= -tol).all()
    assert (p[x == x[0]] == p[0]).all()
    permutation = random.sample(range(n), n)
    assert np.abs(grad_topk(x[permutation], k) - p[permutation]).max() <= tol
    assert np.abs(1 - grad_topk(-x, n - k) - p).max() <= tol
    # adding a power of two that loses no bit of x
    shift = 2.0 ** np.ceil(np.log2(np.abs(x).max() + 1))
    exact = (x + shift) - shift == x
    if exact.all():
        assert np.abs(grad_topk(x + shift, k) - p).max() <= tol
    more = grad_topk(x, k + 1)
    assert (more >= p - tol).all()
    e = np.exp(x - x.max())
    assert np.abs(grad_topk(x, 1) - e / e.sum()).max() <= tol
    top = np.sort(x)[-k:].sum()
    excess = log_partition(x, k) - top
    room = tol * (1 + np.abs(x).sum())
    choose = float(mp.log(mp.binomial(n, k)))
    assert -room <= excess <= choose + room


BAD = [
    ({"x": [1.0, np.nan], "k": 1}, ValueError, "x must be finite or -inf"),
    ({"x": [1.0, np.inf], "k": 1}, ValueError, "x must be finite or -inf"),
    ({"x": [1.0, 2.0], "k": 3}, ValueError, r"k must lie in \[0, 2\]"),
    ({"x": [1.0, 2.0], "k": -1}, ValueError, r"k must lie in \[0, 2\]"),
    ({"x": [1.0, 2.0], "k": 1.5}, ValueError, "k must be a whole number, got 1.5"),
    ({"x": [1.0, 2.0], "k": np.nan}, ValueError, "k must be a whole number"),
    ({"x": [1.0, 2.0], "k": "1"}, TypeError, "k must be a real number"),
    ({"x": [1.0, 2.0], "k": None}, TypeError, "k must be a real number"),
    ({"x": [1.0, -np.inf], "k": 2}, ValueError, r"k must lie in \[0, 1\]"),
    ({"x": [[], []], "k": 0}, ValueError, "x must have at least one entry"),
    ({"x": [1j, 2.0], "k": 1}, TypeError, "x must hold real numbers"),
    ({"x": [1.0, 2.0], "k": 1, "axis": 1}, ValueError, "axis must lie in"),
    ({"x": [1.0, 2.0], "k": 1, "axis": 0.0}, TypeError, "axis must be an integer"),
    ({"x": [1.0, 2.0], "k": [1, 1, 1], "where": [1, 1]}, TypeError, "where must be"),
    (
        {"x": [1.0, 2.0], "k": 1, "where": [False, False]},
        ValueError,
        r"k must lie in \[0, 0\]",
    ),
    ({"x": [1.0, 2.0], "k": 1, "temperature": 0.0}, ValueError, "temperature must be"),
    ({"x": [1.0, 2.0], "k": 1, "temperature": -1}, ValueError, "temperature must be"),
    ({"x": [1.0, 2.0], "k": 1, "temperature": "1"}, TypeError, "temperature must be"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
@pytest.mark.parametrize("operator", [grad_topk, log_partition, pair_marginals])
def test_bad_input_is_named(operator, arguments, error, message):
    arguments = dict(arguments)
    with pytest.raises(error, match=message):
        operator(arguments.pop("x"), arguments.pop("k"), **arguments)


def test_the_input_is_not_written_to_and_types_are_kept():
    x = np.array([3.0, 1.0, 2.0, 0.0])
    x.flags.writeable = False
    before = x.copy()
    out = grad_topk(x, 2)
    out[0] = 7
    assert np.array_equal(x, before)
    assert grad_topk([3, 1, 2], 1).dtype == np.float64
    assert grad_topk(np.float32([3, 1, 2]), 1).dtype == np.float32
    assert log_partition(np.float32([3, 1, 2]), 1).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_derivative_stands_extreme_temperatures(dtype):
    x = np.array([3, 1, 0, 0], dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for temperature in (1e-46, 1e300):
            rule = linearize(grad_topk, x, 2, temperature=temperature)
            change = rule.jvp([1.0, 0.0, 0.0, 0.0])
            assert float(np.abs(change).max()) < 1e-200
        log_partition(x, 2, temperature=1e300)
