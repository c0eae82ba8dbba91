"""Distributions: 50-digit references, the entmax package, properties, bad input."""

import math
import warnings
from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from softtopk import curves, linearize, soft_topk
from softtopk._search import numpy_simplex as solver
from softtopk.simplex import (
    entmax,
    log_softmax,
    logsumexp,
    softmax,
    sparse_softmax,
    sparsemax,
    taylor_softmax,
)

EPS = np.finfo(float).eps
MAPS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax,
    "entmax125": partial(entmax, alpha=1.25),
    "entmax3": partial(entmax, alpha=3.0),
    "entmax04": partial(entmax, alpha=0.4),
    "taylor": taylor_softmax,
    "sparse": partial(sparse_softmax, k=1),
}
INVARIANT = [name for name in MAPS if name != "taylor"]

finite = st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, 1.0])
scores = st.lists(finite | st.just(-np.inf), min_size=1, max_size=9).filter(
    lambda x: max(x) > -np.inf
)
alphas = st.sampled_from(
    [0.01, 0.5, 0.9, 1.0, 1.05, 1.3, 1.5, 1.8, 2.0, 2.5, 4.0, 30.0]
)


def reference(x, alpha, tau=1.0):
    """Entmax at 30 digits by bisection on t of sum [b x/tau - t]_+^(1/b) = 1."""
    with mp.workdps(30):
        z = [(mp.mpf(float(v)) - max(map(float, x))) / mp.mpf(tau) for v in x]
        if alpha == 1:
            e = [mp.exp(v) for v in z]
            return [v / mp.fsum(e) for v in e]
        b = mp.mpf(alpha) - 1
        z = [b * v for v in z if b * v > -1]
        # Where shares fall with t (b > 0), or, between -n^-b and -1, grow with it.
        low, high = (mp.mpf(-1), mp.mpf(0)) if b > 0 else (-(len(z) ** -b), mp.mpf(-1))
        for _ in range(100):
            t = (low + high) / 2
            total = mp.fsum((v - t) ** (1 / b) for v in z if v > t)
            low, high = (t, high) if (total > 1) == (b > 0) else (low, t)
        d = [b * (mp.mpf(float(v)) - max(map(float, x))) / mp.mpf(tau) for v in x]
        return [(v - low) ** (1 / b) if v > low else mp.mpf(0) for v in d]


def worst(p, exact):
    return float(max(abs(mp.mpf(float(v)) - e) for v, e in zip(p, exact, strict=True)))


def cases(sizes=(2, 5, 12)):
    rng = np.random.default_rng(7)
    for n in sizes:
        base = {
            "normal": rng.normal(size=n),
            "ties": rng.integers(0, 3, size=n) / 4,
            "equal": np.zeros(n),
            "cauchy": rng.standard_cauchy(size=n),
            "geometric": -(2.0 ** -np.arange(n)),
        }
        for x in base.values():
            for scale, offset in ((1.0, 0.0), (0.01, 1e8), (30.0, -12345.678)):
                yield x * scale + offset


def sparsemax_exact(x):
    """Sparsemax in rational arithmetic: the largest of the candidates is t."""
    x = [Fraction(float(v)) for v in x]
    total, t = Fraction(0), None
    for j, v in enumerate(sorted(x, reverse=True), 1):
        total += v
        t = (total - 1) / j if t is None else max(t, (total - 1) / j)
    return [mp.mpf(p.numerator) / p.denominator for v in x for p in [max(v - t, 0)]]


def entmax15_exact(x):
    """Entmax 1.5 at 40 digits from the quadratic equation of each support."""
    with mp.workdps(40):
        z = [(mp.mpf(float(v)) - max(map(float, x))) / 2 for v in x]
        s1 = s2 = mp.mpf(0)
        for j, v in enumerate(sorted(z, reverse=True), 1):
            s1, s2 = s1 + v, s2 + v * v
            inner = (1 - s2) / j + (s1 / j) ** 2
            candidate = s1 / j - mp.sqrt(max(inner, 0))
            if v < candidate:
                break
            t = candidate
        return [max(v - t, 0) ** 2 for v in z]


# Subtracting the largest score is exact or rounds by half an ulp, a share has at most
# that much slope; the sums that give the threshold round by about one more.
@pytest.mark.parametrize(
    "alpha", [1e-3, 0.2, 0.5, 0.9, 1 - 1e-9, 1.0, 1.05, 1.25, 1.5, 1.75, 2.0, 3.0, 10.0]
)
def test_entmax_against_30_digits(alpha):
    for x in cases():
        exact = reference(x, alpha)
        assert worst(entmax(x, alpha), exact) <= 2 * EPS
        single = x.astype(np.float32)
        p = entmax(single, alpha)
        assert p.dtype == np.float32
        if alpha <= 2:
            error = worst(p, reference(single, alpha))
            assert error <= 2 * np.finfo(np.float32).eps


def test_a_row_from_a_few_numbers():
    """What autograd's single rows take: as exact as the sorted row."""
    for x in cases((1, 2, 12, 64)):
        for row in (x, np.append(x, -np.inf), x.astype(np.float32)):
            p = solver.entmax_row(row, 1.0)
            assert p.dtype == row.dtype
            share = entmax15_exact(row[np.isfinite(row)])
            assert worst(p[: len(share)], share) <= 1.5 * np.finfo(row.dtype).eps
        tau = 0.3
        p = solver.entmax_row(x, tau)
        assert worst(p, reference(x, 1.5, tau)) <= 4 * EPS
    for row in (np.zeros(65), [np.nan, 1.0], [np.inf, 1.0], [-np.inf], [-1e308]):
        assert solver.entmax_row(np.array(row), 1.0) is None


@pytest.mark.parametrize(
    ("alpha", "exact"), [(2.0, sparsemax_exact), (1.5, entmax15_exact)]
)
@pytest.mark.parametrize("n", [512, 513, 2100])
def test_long_rows_against_exact_solutions(alpha, exact, n):
    """On both sides of where the algorithm changes, at narrow and wide supports."""
    rng = np.random.default_rng(n)
    for scale in (1e-4, 0.3):
        x = rng.normal(size=n) * scale
        assert worst(entmax(x, alpha), exact(x)) <= 2 * EPS


@pytest.mark.parametrize("alpha", [2.5, 4.0, 10.0])
def test_a_share_that_has_just_started(alpha):
    """Its power p^(alpha - 1) is far below an ulp of 1, yet the share is right."""
    for missing in 10.0 ** np.arange(-12, 0):
        x = np.array([0.0, -(1 - missing) / (alpha - 1)])
        with mp.workdps(40):
            b = mp.mpf(alpha) - 1
            low, high = mp.mpf(0), mp.mpf(1) / 2
            for _ in range(120):  # on (1 - q)^b - q^b = b (x_1 - x_2)
                q = (low + high) / 2
                far = (1 - q) ** b - q**b > -b * mp.mpf(x[1])
                low, high = (q, high) if far else (low, q)
            p = entmax(x, alpha)
            # The edge of the support lies where m^b, its product with the distance
            # and the sum put it: a few roundings of numbers near 1.
            assert worst(p, [1 - q, q]) <= 8 * EPS
            assert abs(p.sum() - 1) <= EPS


def test_softmax_against_30_digits_in_relative_terms():
    """An exponential of -gap has the relative error of its gap's rounding."""
    for x in cases():
        gap = x.max() - x
        p, log_p, exact = softmax(x), log_softmax(x), reference(x, 1.0)
        second = np.sort(gap)[1]
        for value, log, e, g in zip(p, log_p, exact, gap, strict=True):
            assert abs(value - e) <= 4 * EPS * (1 + g) * e
            slack = EPS * g + 2 * EPS * (1 + second) * (g - log)
            slack += 1e-28  # of the reference
            assert abs(log - mp.log(e)) <= slack


def test_scipy_agrees():
    x = np.random.default_rng(2).normal(size=(5, 4, 6)) * 4
    for axis in (0, 1, -1):
        pairs = (
            (softmax, scipy.special.softmax),
            (log_softmax, scipy.special.log_softmax),
            (logsumexp, scipy.special.logsumexp),
        )
        for ours, theirs in pairs:
            expected = theirs(x, axis=axis)
            assert np.allclose(ours(x, axis=axis), expected, rtol=8 * EPS, atol=8 * EPS)


def test_values_of_the_entmax_package():
    """Computed by entmax 1.3 with PyTorch 2.13 in float64 (bisection: 60 steps)."""
    x = [[0.5, -1.25, 2.0, 1.75, 0.0], [1.0, 0.9, 0.8, -0.3, 0.75]]
    stored = {
        2.0: [
            [0.0, 0.0, 0.625, 0.375, 0.0],
            [0.38749999999999996, 0.2875, 0.1875, 0.0, 0.13749999999999996],
        ],
        1.5: [
            [0.0002802195801903568, 0.0, 0.5878898602671516, 0.4118299201526581, 0.0],
            [
                0.32085424673993845,
                0.2667102491108924,
                0.2175662514818462,
                0.0,
                0.1948692526673231,
            ],
        ],
        1.25: [
            [
                0.05327270416533417,
                3.395216601597551e-06,
                0.5354625133101457,
                0.3953027773219274,
                0.015958609985991107,
            ],
            [
                0.2921374488531727,
                0.2543821813312353,
                0.2204104186415706,
                0.028308725770889373,
                0.20476122540313216,
            ],
        ],
        3.0: [[0.0, 0.0, 0.75, 0.25, 0.0], [0.6, 0.4000000000000001, 0.0, 0.0, 0.0]],
        0.5: [
            [
                0.16120765482969796,
                0.08828161843544999,
                0.3300600214278208,
                0.28731243753652075,
                0.1331382677705105,
            ],
            [
                0.23069183719719982,
                0.21999835101964355,
                0.21003151995667546,
                0.1339780930816454,
                0.20530019874483574,
            ],
        ],
    }
    for alpha, expected in stored.items():
        assert np.max(np.abs(entmax(x, alpha) - expected)) <= 4 * EPS
    assert np.array_equal(sparsemax(x), entmax(x, 2.0))


@pytest.mark.parametrize(
    ("alpha", "curve"),
    [
        (1.0, "exp"),
        (1.5, curves.entmax(1.5)),
        (1.2, curves.entmax(1.2)),
        (2.0, "clip"),
    ],
)
def test_is_the_budget_one_case_of_its_curve(alpha, curve):
    x = np.random.default_rng(8).normal(size=(20, 30)) * 1.5
    difference = entmax(x, alpha) - soft_topk(x, 1, curve)
    # soft_topk promises 8 eps, and eps / (alpha - 1) for a general power.
    bound = 8 if alpha in (1, 2) else 2 + 1 / (alpha - 1)
    assert np.max(np.abs(difference)) <= (bound + 2) * EPS


@given(scores, alphas)
def test_entmax_is_a_distribution(x, alpha):
    p = entmax(x, alpha)
    x = np.array(x)
    assert np.all((p >= 0) & (p <= 1)) and np.all(p[x == -np.inf] == 0)
    # Each share rounds once; m is right to a few ulps and moves all shares.
    assert abs(p.sum() - 1) <= 4 * x.size * EPS
    order = np.argsort(x)
    assert np.all(np.diff(p[order]) >= -EPS)
    assert all(np.ptp(p[x == v]) == 0 for v in x)


@given(
    scores.filter(lambda x: len(x) > 1),
    st.sampled_from([0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0]),
)
def test_grows_sparser_and_more_certain_with_alpha(x, alpha):
    """N-16: the support shrinks and the shares majorise those before."""
    p, q = entmax(x, alpha), entmax(x, alpha + 0.5)
    assert np.all(q[p == 0] == 0)
    sums = np.cumsum(np.sort(q)[::-1]) - np.cumsum(np.sort(p)[::-1])
    assert sums.min() >= -16 * EPS


@pytest.mark.parametrize("name", MAPS)
@settings(max_examples=40)
@given(data=st.data())
def test_batch_axis_mask_and_temperature(name, data):
    operator = MAPS[name]
    n = data.draw(st.integers(1, 6))
    rows = data.draw(
        st.lists(
            st.lists(st.floats(-4, 4), min_size=n, max_size=n), min_size=2, max_size=4
        )
    )
    x = np.array(rows)
    p = operator(x)
    for row, result in zip(x, p, strict=True):
        assert np.array_equal(operator(row), result)
    assert np.array_equal(operator(x.T, axis=0), p.T)
    assert np.array_equal(operator(x[:, None], axis=2), p[:, None])
    assert np.array_equal(operator(2 * x, temperature=2.0), p)
    mask = np.arange(n) != data.draw(st.integers(0, n - 1))
    if mask.any():
        few = operator(x[:, mask])
        masked = operator(np.where(mask, x, np.nan), where=mask)
        assert np.allclose(masked[:, mask], few, rtol=0, atol=4 * EPS)
        assert np.all(masked[:, ~mask] == 0)
    order = data.draw(st.permutations(range(n)))
    assert np.allclose(operator(x[:, order]), p[:, order], rtol=0, atol=4 * EPS)


@pytest.mark.parametrize("name", INVARIANT)
@pytest.mark.parametrize("offset", [2.0**30, -(2.0**40)])
def test_common_offset_costs_nothing(name, offset):
    x = np.random.default_rng(4).integers(-40, 40, size=(9, 7)) / 16.0
    assert np.array_equal(MAPS[name](x + offset), MAPS[name](x))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scores(name, dtype):
    big = float(np.finfo(dtype).max)
    for row in ([big, -big, 0.0], [-big, -big, -big], [big, big, -np.inf], [1e-30, 0]):
        for tau in (1.0, 1e-30, 1e30):
            p = MAPS[name](np.array(row, dtype), temperature=tau)
            assert p.dtype == dtype
            assert abs(float(p.sum(dtype=float)) - 1) <= 8 * np.finfo(dtype).eps
            jacobian = linearize(
                MAPS[name].func if isinstance(MAPS[name], partial) else MAPS[name],
                np.array(row, dtype),
                **getattr(MAPS[name], "keywords", {}),
            ).jacobian()
            assert np.all(np.isfinite(jacobian))
    assert MAPS[name](np.array([1, 0], np.float16)).dtype == np.float32
    assert MAPS[name]([1, 0]).dtype == np.float64


def test_only_infinite_gaps_leave_one():
    assert entmax([1e308, -1e308, -np.inf], 1.01).tolist() == [1.0, 0.0, 0.0]
    assert entmax([0.0, 0.0], 1e6).tolist() == [0.5, 0.5]
    assert entmax([1.0, 0.0], 1e6).tolist() == [1.0, 0.0]
    assert entmax([0.0, -1e308, -np.inf], 0.5).tolist() == [1.0, 0.0, 0.0]


def test_below_order_one_shares_fall_like_a_power():
    """At alpha = 1/2 the inverse roots of the shares differ by half the distance."""
    for small in (0.4, 1e-3, 1e-12, 1e-200):
        with mp.workdps(50):
            q = mp.mpf(small)
            d = 2 * (1 / mp.sqrt(q) - 1 / mp.sqrt(1 - q))
        p = entmax([0.0, -float(d)], 0.5)
        assert abs(p[1] / small - 1) <= 8 * EPS * (1 - np.log(small))
    assert (entmax([0.0, -1e100], 1e-3)[1] > 0) and entmax([0.0, -1e3], 1.0)[1] == 0


def test_array_of_alpha():
    x = np.random.default_rng(5).normal(size=(8, 5))
    x[1, 2] = -np.inf
    alpha = np.array([1.0, 1.2, 1.5, 2.0, 3.0, 1.2, 0.3, 0.8])
    together = entmax(x, alpha)
    for i, a in enumerate(alpha):
        assert np.allclose(together[i], entmax(x[i], a), rtol=0, atol=2 * EPS)
    for a in (0.3, 1.2, 3.0):  # an array of one number
        assert np.array_equal(entmax(x[:1], [a]), entmax(x[:1], a))
    long = np.tile(x[:2], 30_000)
    assert np.array_equal(entmax(long, [1.2, 3.0])[1], entmax(long[1], 3.0))
    wide = entmax(x, alpha[:, None], axis=-1)
    assert wide.shape == (8, 8, 5)
    assert np.array_equal(wide[np.arange(8), np.arange(8)], together)
    lin = linearize(entmax, x[0], alpha)
    assert lin.value.shape == (8, 5) and lin.vjp(np.ones((8, 5))).shape == (5,)


def test_log_softmax_and_logsumexp_keep_digits():
    with mp.workdps(40):
        exact = -mp.log1p(mp.exp(-100))
    assert abs(log_softmax([100.0, 0.0])[0] / exact - 1) <= 4 * EPS
    assert log_softmax([0.0, -np.inf]).tolist() == [0.0, -np.inf]
    assert logsumexp([[0.0, -np.inf], [5.0, 5.0]]).tolist() == [0.0, 5 + np.log(2)]
    # B04, B05: between the maximum and tau log n above it
    x = np.random.default_rng(6).normal(size=(50, 8))
    for tau in (1.0, 0.01):
        excess = logsumexp(x, temperature=tau) - x.max(axis=-1)
        assert np.all((excess >= 0) & (excess <= tau * np.log(8)))


@pytest.mark.parametrize("order", [2, 4, 10, 100])
@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
def test_taylor_softmax_against_its_definition(order, scale):
    x = np.random.default_rng(order).normal(size=6) * scale

    def polynomial(v, absolute=False):
        v = abs(mp.mpf(float(v))) if absolute else mp.mpf(float(v))
        return mp.fsum(v**j / mp.factorial(j) for j in range(order + 1))

    with mp.workdps(60):
        f = [polynomial(v) for v in x]
        condition = max(polynomial(v, absolute=True) for v in x) / mp.fsum(f)
        for p, exact in zip(taylor_softmax(x, order), f, strict=True):
            error = abs(p - exact / mp.fsum(f))
            assert error <= 2 * order * EPS * max(condition, 1)


def test_taylor_softmax_has_not_what_softmax_has():
    """B23: neither order nor offsets survive, and the limit is not one-hot."""
    assert taylor_softmax([-3.0, -1.0]) == pytest.approx([5 / 6, 1 / 6], abs=EPS)
    assert taylor_softmax([1.0, 0.0])[0] == pytest.approx(5 / 7, abs=EPS)
    assert taylor_softmax([0.0, -1.0])[0] == pytest.approx(2 / 3, abs=EPS)
    cold = taylor_softmax([2.0, 1.0], temperature=1e-30)
    assert cold == pytest.approx([0.8, 0.2], abs=EPS)


def test_sparse_softmax_is_softmax_of_the_largest():
    x = np.array([0.3, 2.0, -1.0, 1.5, 0.9])
    for k in range(1, 6):
        kept = x >= np.sort(x)[-k]
        expected = softmax(x, where=kept)
        assert np.allclose(sparse_softmax(x, k), expected, rtol=0, atol=2 * EPS)
    assert sparse_softmax(x, [1, 3]).shape == (2, 5)
    shared = sparse_softmax([1.0, 0.0, 0.0, 0.0], 2)
    e = np.e
    assert shared == pytest.approx([e / (e + 1)] + [1 / (3 * e + 3)] * 3, abs=2 * EPS)


def jacobian_exact(name, x):
    """Derivative of the map by central differences of its 60-digit definition."""
    alpha = {"softmax": 1, "sparsemax": 2, "entmax15": 1.5, "entmax125": 1.25}
    alpha["entmax04"] = 0.4
    h = mp.mpf(10) ** -12

    def value(z):
        if name == "taylor":
            f = [1 + v + v * v / 2 for v in z]
            return [v / mp.fsum(f) for v in f]
        if name == "sparse":
            return [mp.mpf(v == max(z)) for v in z]
        a = alpha.get(name, 3)
        if a == 1:
            e = [mp.exp(v) for v in z]
            return [v / mp.fsum(e) for v in e]
        b = mp.mpf(a) - 1
        low, high = (1, 0) if b > 0 else (len(z) ** -b, 1)
        low, high = b * max(z) - low, b * max(z) - high
        for _ in range(150):
            t = (low + high) / 2
            big = mp.fsum((b * v - t) ** (1 / b) for v in z if b * v > t) > 1
            low, high = (t, high) if big == (b > 0) else (low, t)
        return [(b * v - low) ** (1 / b) if b * v > low else mp.mpf(0) for v in z]

    with mp.workdps(50):
        x = [mp.mpf(v) for v in x]
        columns = []
        for j in range(len(x)):
            up, down = (
                value([v + s * h * (i == j) for i, v in enumerate(x)]) for s in (1, -1)
            )
            columns.append(
                [float((a - b) / (2 * h)) for a, b in zip(up, down, strict=True)]
            )
    return np.array(columns).T


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("x", [[0.4, 0.0, 0.3, -0.2], [1.5, 1.3, -2.0, 0.25]])
def test_jacobian_against_50_digits(name, x):
    operator = MAPS[name]
    keywords = getattr(operator, "keywords", {})
    operator = getattr(operator, "func", operator)
    lin = linearize(operator, x, **keywords)
    exact = jacobian_exact(name, x)
    # The difference quotient is right to 1e-24; w and W round a few times.
    assert np.max(np.abs(lin.jacobian() - exact)) <= 16 * EPS
    g, t = np.random.default_rng(1).normal(size=(2, 4))
    assert np.allclose(lin.jvp(t), exact @ t, rtol=0, atol=32 * EPS)
    assert np.allclose(lin.vjp(g), g @ exact, rtol=0, atol=32 * EPS)
    cold = linearize(operator, np.array(x) / 4, temperature=0.25, **keywords)
    assert np.allclose(cold.jacobian(), 4 * exact, rtol=0, atol=64 * EPS)


def test_jacobians_of_log_softmax_and_logsumexp():
    x = np.array([0.5, -np.inf, 0.0, 2.0])
    p = softmax(x, temperature=0.5)
    active = np.isfinite(x)
    expected = (np.eye(4) - p) / 0.5 * active * active[:, None]
    log = linearize(log_softmax, x, temperature=0.5)
    assert np.allclose(log.jacobian(), expected, rtol=0, atol=8 * EPS)
    g = np.array([1.0, 5.0, -2.0, 0.5])
    assert np.allclose(log.vjp(g), g @ expected, rtol=0, atol=16 * EPS)
    total = linearize(logsumexp, x, temperature=0.5)
    assert total.value == logsumexp(x, temperature=0.5)
    assert np.array_equal(total.jacobian(), p)
    assert np.array_equal(total.vjp(2.0), 2 * p)


def test_gradient_of_a_batch_and_of_a_shared_row():
    rng = np.random.default_rng(11)
    x, g = rng.normal(size=(2, 3, 4, 5))
    for operator in (softmax, sparsemax, entmax, taylor_softmax):
        whole = linearize(operator, x, axis=1).vjp(g)
        for i in range(3):
            for j in range(5):
                row = linearize(operator, x[i, :, j]).vjp(g[i, :, j])
                assert np.allclose(row, whole[i, :, j], rtol=0, atol=8 * EPS)
    lin = linearize(sparse_softmax, x[0, :, 0], [1, 2])
    parts = [linearize(sparse_softmax, x[0, :, 0], k).vjp(np.arange(4)) for k in (1, 2)]
    assert np.allclose(lin.vjp(np.arange(4)), sum(parts), rtol=0, atol=4 * EPS)


def test_input_is_left_alone():
    x = np.random.default_rng(0).normal(size=(3, 4))
    before = x.copy()
    for operator in (*MAPS.values(), log_softmax, logsumexp):
        operator(x, temperature=2.0)
    assert np.array_equal(x, before)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.1, 1.5, 2.0, 5.0]))
def test_long_rows_alone_and_in_a_batch_agree_bit_for_bit(seed, alpha):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4, 2500)) * 10.0 ** rng.integers(-3, 2, size=(4, 1))
    whole = entmax(x, alpha)
    for row, p in zip(x, whole, strict=True):
        assert np.array_equal(entmax(row, alpha), p)


def test_short_and_long_algorithms_agree(monkeypatch):
    x = np.random.default_rng(3).normal(size=(40, 300)) * 0.3
    short = {alpha: entmax(x, alpha) for alpha in (1.5, 2.0)}
    monkeypatch.setattr(solver, "_LONGEST_SORTED", 8)
    for alpha, p in short.items():
        assert np.max(np.abs(entmax(x, alpha) - p)) <= 2 * EPS


@pytest.mark.parametrize("alpha", [0.5, 1.25, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("scale", [1e-5, 0.01, 1.0])
def test_a_part_of_a_long_row_leaves_no_share_out(monkeypatch, alpha, scale):
    """A long row is cut at the threshold of every so many of its scores.

    Below alpha = 1 every score has a share, and none may be cut.
    """
    n = 9000 if alpha >= 2 else 140_000
    x = np.random.default_rng(5).normal(size=(5, n)) * scale
    x[1] = np.sort(x[1])
    x[2, ::3] = -np.inf
    x[3, np.arange(n) % 701 > 0] = -np.inf  # and the part has no finite score but one
    stride = 18 if n == 9000 else 65
    others = np.arange(n) % stride > 0  # none of the part, and none has a share
    x[4, others] = x[4, ~others].max() - 0.9 / (alpha - 1)
    for scores in (x, (x + 1e4).astype(np.float32)):
        cut = entmax(scores, alpha)
        with monkeypatch.context() as patch:
            patch.setattr(solver, "_SAMPLED_STEEP", 10 * n)
            patch.setattr(solver, "_SAMPLED_FLAT", 10 * n)
            whole = entmax(scores, alpha)
        eps = np.finfo(scores.dtype).eps
        np.testing.assert_array_equal(cut > 16 * eps, whole > 16 * eps)
        # For alpha = 3 a share is as steep as a square root where it starts.
        bound = 2 * eps if alpha <= 2 else 2 * np.sqrt(eps)
        np.testing.assert_allclose(cut, whole, rtol=0, atol=bound)
        total = cut.sum(axis=1, dtype=float)
        bound = 16 * eps + n * EPS / 2  # one rounding for each term of a plain sum
        np.testing.assert_allclose(total, 1, rtol=0, atol=bound)


BAD = [
    ({"x": [np.nan, 1.0]}, ValueError, "x must be finite or -inf"),
    ({"x": [np.inf, 1.0]}, ValueError, "x must be finite or -inf"),
    ({"x": []}, ValueError, "x must have at least one entry"),
    ({"x": ["a"]}, TypeError, "x must hold real numbers"),
    ({"x": [1j]}, TypeError, "x must hold real numbers"),
    ({"x": [1.0], "temperature": 0.0}, ValueError, "temperature must be finite and"),
    ({"x": [1.0], "temperature": "a"}, TypeError, "temperature must be one real"),
    ({"x": [1.0], "axis": 1}, ValueError, "axis must lie in"),
    ({"x": [1.0], "where": [1]}, TypeError, "where must be boolean"),
    ({"x": [1.0], "where": [True, True]}, ValueError, "where must broadcast"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
@pytest.mark.parametrize("name", [*MAPS, "log", "lse"])
def test_bad_input(name, arguments, error, message):
    operator = {**MAPS, "log": log_softmax, "lse": logsumexp}[name]
    with pytest.raises(error, match=message):
        operator(**arguments)


@pytest.mark.parametrize(
    ("operator", "arguments", "error", "message"),
    [
        (softmax, {"x": [[1.0], [-np.inf]]}, ValueError, "x must have a finite entry"),
        (entmax, {"x": [1.0], "where": [False]}, ValueError, "x must have a finite"),
        (entmax, {"x": [1.0], "alpha": 0}, ValueError, "above 0, got 0.0"),
        (entmax, {"x": [1.0], "alpha": [1, -0.5]}, ValueError, "above 0, got -0.5"),
        (entmax, {"x": [1.0], "alpha": np.nan}, ValueError, "alpha must be finite"),
        (entmax, {"x": [1.0], "alpha": np.inf}, ValueError, "alpha must be finite"),
        (entmax, {"x": [1.0], "alpha": "a"}, TypeError, "alpha must be a real number"),
        (entmax, {"x": [[1.0]], "alpha": [[1], [2]]}, ValueError, None),
        (entmax, {"x": np.ones((2, 3)), "alpha": [1, 1, 1]}, ValueError, "broadcast"),
        (taylor_softmax, {"x": [1.0], "order": 3}, ValueError, "order must be even"),
        (taylor_softmax, {"x": [1.0], "order": 0}, ValueError, "order must be even"),
        (taylor_softmax, {"x": [1.0], "order": 102}, ValueError, "order must be even"),
        (taylor_softmax, {"x": [1.0], "order": 2.0}, TypeError, "order must be an int"),
        (sparse_softmax, {"x": [1.0], "k": 0}, ValueError, "k must be at least 1"),
        (sparse_softmax, {"x": [1.0], "k": 2}, ValueError, r"k must lie in \[0, 1\]"),
        (sparse_softmax, {"x": [1.0], "k": 0.5}, ValueError, "k must be a whole"),
        (sparse_softmax, {"x": [-np.inf], "k": 1}, ValueError, "k must lie in"),
    ],
)
def test_bad_input_of_one(operator, arguments, error, message):
    if message is None:  # a legal broadcast next to the illegal one
        assert operator(**arguments).shape == (2, 1, 1)
        return
    with pytest.raises(error, match=message):
        operator(**arguments)


@pytest.mark.parametrize("alpha", [1.2, 1.5])
def test_many_scores_that_just_have_a_share(alpha):
    """There Newton's steps converge late; an ulp of the threshold is allowed."""
    for missing in 10.0 ** np.arange(-6, 0, 0.5):
        x = np.zeros(100_000)
        x[0] = (1 - missing) / (alpha - 1)
        p = entmax(x, alpha)
        slope = np.sum(p ** (2 - alpha)) / (alpha - 1)
        assert abs(math.fsum(p) - 1) <= EPS * (4 + slope)


def test_a_row_has_the_same_shares_whatever_the_order_of_others():
    for top in np.linspace(2, 3.3, 20):
        x = np.zeros((2, 5000))
        x[:, 0] = top, 1.2
        both = entmax(x, np.array([1.3, 1.8]))
        for row, alpha, p in zip(x, (1.3, 1.8), both, strict=True):
            assert np.array_equal(entmax(row, np.array(alpha)), p)


@pytest.mark.parametrize(
    ("n", "alpha"), [(9000, 2.0), (9000, 3.0), (140_000, 1.5), (140_000, 1.2)]
)
@pytest.mark.parametrize("offset", [1.0, 1e8, 1e15])
def test_long_rows_on_a_coarse_grid_sum_to_one(n, alpha, offset):
    # A support narrower than the distance of neighbouring numbers.
    rng = np.random.default_rng(0)
    step = np.spacing(offset)
    for temperature in (1e-14, 1e-6, 1.0):
        for x in (np.full(n, offset), offset + step * rng.integers(0, 3, n)):
            p = entmax(x, alpha, temperature=temperature)
            assert abs(p.sum() - 1) <= 64 * EPS
            assert p.min() >= 0
            gaps = (x - x.max()) / temperature
            few = np.flatnonzero(gaps > -1 / (alpha - 1))
            assert not np.delete(p, few).any()


def test_taylor_softmax_of_float32_is_that_of_float64():
    for order in (2, 36, 38, 40, 60, 100):
        for x in ([10.0, 9.0], [100.0, 99.0], [1e4, -1e4]):
            single = np.float32(x)
            wide = taylor_softmax(np.float64(x), order)
            assert np.allclose(taylor_softmax(single, order), wide, rtol=2.0**-22)
            slope = linearize(taylor_softmax, np.float64(x), order).jvp([1.0, 0.0])
            rule = linearize(taylor_softmax, single, order).jvp([1.0, 0.0])
            assert np.allclose(rule, slope, rtol=1e-4, atol=1e-12)


def test_derivative_of_entmax_with_small_shares():
    """The weights p^(2 - alpha) are far beyond float32, or float64."""
    x = np.zeros(64)
    x[0] = 0.001
    single = linearize(entmax, x.astype(np.float32), 20).jvp(x)
    assert np.allclose(single, linearize(entmax, x, 20).jvp(x), rtol=1e-4)
    none = linearize(entmax, np.zeros(1000, np.float32), 16).jvp(np.zeros(1000))
    assert not none.any()
    b, d = 199.0, 0.001
    p = entmax([d, 0.0, 0.0], 200.0)
    w = p[0] ** (1 - b)
    change = linearize(entmax, [d, 0.0, 0.0], 200.0).jvp([1.0, 0.0, 0.0])
    assert np.isclose(change[0], w, rtol=1e-12)  # the others' weights are infinite
    assert np.isfinite(change).all()


@pytest.mark.parametrize("operator", [softmax, log_softmax, entmax, taylor_softmax])
def test_an_extreme_temperature_gives_no_warning(operator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for temperature in (1e-300, 1e300):
            for dtype in (np.float32, np.float64):
                rule = linearize(operator, np.zeros(2, dtype), temperature=temperature)
                assert not np.isnan(rule.jvp([1.0, 0.0])).any()
        logsumexp(np.float32([1, 2]), temperature=1e300)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_are_not_sorted_and_have_the_same_shares(alpha, dtype, monkeypatch):
    """From 2^16 entries on, Newton's steps are quicker than the closed form."""
    x = np.random.default_rng(0).normal(size=(512, 128)).astype(dtype)
    few = [entmax(rows, alpha) for rows in np.split(x, 64)]
    monkeypatch.setattr(solver, "_entmax_short", None)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(entmax(x, alpha), np.concatenate(few), 0, 2 * eps)
