"""Losses against 50-digit definitions, differences, convexity and bad input."""

from functools import partial

import mpmath as mp
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import has_potential

from softtopk import curves, linearize, soft_topk, threshold, top_k_sum
from softtopk.curves import NAMED
from softtopk.losses import (
    am_softmax_loss,
    cross_entropy,
    entmax_loss,
    potential,
    sparse_softmax_loss,
    sparsemax_loss,
    stop_gradient_loss,
    top_k_loss,
)
from softtopk.simplex import entmax, log_softmax, softmax, sparse_softmax, sparsemax

EPS = np.finfo(float).eps
LOSSES = {
    "cross_entropy": cross_entropy,
    "am_softmax": partial(am_softmax_loss, margin=0.35, temperature=0.5),
    "sparse_softmax": partial(sparse_softmax_loss, k=2),
    "sparsemax": sparsemax_loss,
    "entmax15": entmax_loss,
    "entmax1": partial(entmax_loss, alpha=1.0),
    "entmax3": partial(entmax_loss, alpha=3.0),
    "entmax04": partial(entmax_loss, alpha=0.4),
    "top_k": partial(top_k_loss, k=1),
    "top_k_sigmoid": partial(top_k_loss, k=1, curve="sigmoid", temperature=0.5),
}
NAMES = [name for name in NAMED if has_potential(NAMED[name])]
CURVES = [*NAMES, 1.5, 1.2, 2.0]

wide = st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, 1.0])
rows = st.lists(wide, min_size=2, max_size=7)


def split(loss):
    """Function and keyword arguments, as `linearize` takes them."""
    return getattr(loss, "func", loss), getattr(loss, "keywords", {})


def xlogx(p):
    return p * mp.log(p) if p > 0 else mp.mpf(0)


def F(name, t):
    """The potential, written down anew."""
    over = max(t, mp.mpf(0))
    if name == "exp":
        return mp.exp(min(t, 0)) + over
    if name == "laplace":
        return over + mp.exp(-abs(t)) / 2
    if name == "sigmoid":
        return mp.log1p(mp.exp(-abs(t))) + over
    if name == "clip":
        return min(over, mp.mpf(1)) ** 2 / 2 + max(t - 1, mp.mpf(0))
    if name == "triangular":
        return over + max(1 - abs(t), mp.mpf(0)) ** 3 / 6
    if isinstance(name, str):  # by quadrature
        places = (-30, -3, 0, 3, 30, 1e3, 1e6, 1e9, 1e12, 1e15)
        breaks = [-mp.inf, *(e for e in places if e < t), t]
        return mp.quad(oracle.curve(name)[0], breaks)
    b = mp.mpf(name) - 1
    return max(1 + b * min(t, 0), mp.mpf(0)) ** (1 / b + 1) / (1 + b) + over


def phi(name, p):
    """The regulariser, written down anew."""
    p = mp.mpf(p)
    q = min(p, 1 - p)
    if name == "exp":
        return xlogx(p) - p
    if name == "laplace":
        return xlogx(2 * q) / 2 - q
    if name == "sigmoid":
        return xlogx(p) + xlogx(1 - p)
    if name == "clip":
        return p * p / 2
    if name == "triangular":
        return q * (mp.sqrt(8 * q) / 3 - 1)
    if isinstance(name, str):  # the conjugate of F, at the t with f(t) = p
        low, high = mp.mpf(-1e18), mp.mpf(1e18)
        for _ in range(250):
            t = (low + high) / 2
            low, high = (t, high) if oracle.curve(name)[0](t) < p else (low, t)
        return p * t - F(name, t)
    b = mp.mpf(name) - 1
    return p ** (1 + b) / (b * (1 + b)) - p / b


def exact(name, x, k, target=None, tau=1.0):
    """V(x), or the loss against a target, and sum |p - t| (1 + |u|)."""
    pair = (
        oracle.curve("entmax", name) if isinstance(name, float) else oracle.curve(name)
    )
    found = oracle.solve(x, k, *pair, temperature=tau)
    with mp.workdps(found.digits):
        lam, tau = found.threshold, mp.mpf(tau)
        u = [(mp.mpf(float(v)) - lam) / tau for v in x]
        V = mp.mpf(k) * lam + tau * mp.fsum(F(name, v) for v in u)
        if target is None:
            return V
        t = [mp.mpf(float(v)) for v in target]
        # Against shares whose rounded sum is not k, V is taken at that l.
        inner = mp.fsum(
            F(name, v) + phi(name, s) - s * v for v, s in zip(u, t, strict=True)
        )
        size = mp.fsum(
            abs(p - s) * (1 + abs(v)) for p, s, v in zip(found.p, t, u, strict=True)
        )
        return tau * inner, float(tau * size)


def curve_of(name):
    return curves.entmax(name) if isinstance(name, float) else name


def subsets(n, k, rng):
    t = np.zeros(n)
    t[rng.permutation(n)[:k]] = 1
    return t


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_top_k_loss_against_50_digits(name, tau):
    """N-25, for targets of whole shares, of any shares, and for the shares themselves.

    The error is what the scores determine: a few eps of sum |p - t| (1 + |u|).
    """
    rng = np.random.default_rng(13)
    for n, k in ((3, 1), (6, 2), (7, 5)):
        for scale in (0.05, 1.0, 20.0):
            x = rng.normal(size=n) * scale
            near = soft_topk(x, k, curve_of(name), temperature=tau)
            other = soft_topk(rng.normal(size=n), k, curve_of(name))
            for target in (subsets(n, k, rng), other, near):
                loss = top_k_loss(x, target, k, curve_of(name), temperature=tau)
                expected, size = exact(name, x, k, target, tau)
                assert loss >= 0
                # Twice differentiable in p off the edges: (8 eps)^2 is of the order
                # of eps^2; at an edge of the power 3/2 it is not.
                slack = 16 * EPS * size + tau * n * (8 * EPS) ** 1.5
                assert abs(loss - expected) <= slack


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("tau", [1.0, 0.1])
def test_potential_against_50_digits_and_its_gradient(name, tau):
    rng = np.random.default_rng(17)
    for n, k in ((3, 1), (6, 2), (5, 2.5)):
        x = rng.normal(size=n) * 3
        lin = linearize(potential, x, k, curve_of(name), temperature=tau)
        size = k * np.max(np.abs(x)) + tau * n
        assert abs(lin.value - exact(name, x, k, tau=tau)) <= 8 * EPS * size
        p = soft_topk(x, k, curve_of(name), temperature=tau)
        assert np.allclose(lin.vjp(1.0), p, rtol=0, atol=8 * EPS)
        assert lin.dk == threshold(x, k, curve_of(name), temperature=tau)


@pytest.mark.parametrize("name", CURVES)
def test_potential_at_the_ends_of_the_budget(name):
    x = [0.5, -1.0, 2.0, -np.inf]
    with mp.workdps(30):
        full = 1.5 - 3 * float(phi(name, 1))
    assert potential(x, 0, curve_of(name)) == 0
    assert potential(x, 3, curve_of(name)) == pytest.approx(full, abs=8 * EPS)
    # and it tends to them
    assert potential(x, 3 - 1e-9, curve_of(name)) == pytest.approx(full, abs=1e-4)
    assert top_k_loss(x, [1, 1, 1, 0], 3, curve_of(name)) == 0
    assert top_k_loss(x, np.zeros(4), 0, curve_of(name)) == 0
    gradient = linearize(top_k_loss, x, [1, 1, 1, 0], 3, curve_of(name)).vjp(1.0)
    assert gradient.tolist() == [0, 0, 0, 0]


@given(rows, st.data())
def test_sigmoid_potential_exceeds_the_top_k_sum_by_an_entropy(x, data):
    """N-11: S_k <= V <= S_k + n H(k/n)."""
    n = len(x)
    k = data.draw(st.integers(1, n - 1))
    q = k / n
    most = -n * (q * np.log(q) + (1 - q) * np.log1p(-q))
    excess = potential(x, k, "sigmoid") - top_k_sum(x, k)
    slack = 8 * n * EPS * (1 + np.max(np.abs(x)))
    assert -slack <= excess <= most + slack
    equal = potential(np.zeros(n), k, "sigmoid")
    assert equal == pytest.approx(most, abs=8 * n * EPS)


def test_cross_entropy_against_50_digits():
    rng = np.random.default_rng(3)
    for scale in (1e-3, 1.0, 30.0, 300.0):
        x = rng.normal(size=6) * scale
        gap = x.max() - x
        with mp.workdps(300):
            total = mp.log(mp.fsum(mp.exp(mp.mpf(v)) for v in x))
            for t in range(6):
                e = total - mp.mpf(x[t])
                # relative error of the exponential of the nearest gaps
                bound = 4 * EPS * (2 + np.sort(gap)[1]) * e
                assert abs(cross_entropy(x, t) - e) <= bound
            share = softmax(rng.normal(size=6))
            e = mp.fsum(
                mp.mpf(s) * (total - mp.mpf(v)) for s, v in zip(share, x, strict=True)
            )
            assert abs(cross_entropy(x, share) - e) <= 4 * EPS * (2 + scale) * e


def test_small_losses_keep_their_digits():
    with mp.workdps(60):
        small = mp.log1p(mp.exp(-100))
        for loss in (cross_entropy, partial(entmax_loss, alpha=1.0)):
            assert abs(loss([100.0, 0.0], 0) / small - 1) <= 4 * EPS
        # At distance 50 from the threshold exp(-50) varies by 50 eps in an ulp.
        for curve, exact_loss in (
            ("sigmoid", 2 * mp.log1p(mp.exp(-50))),
            ("laplace", mp.exp(-50)),
        ):
            loss = top_k_loss([100.0, 0.0], 0, 1, curve)
            assert abs(loss / exact_loss - 1) <= 50 * EPS


def test_values_of_the_entmax_package():
    """Computed by entmax 1.3 with PyTorch 2.13 in float64 (bisection: 60 steps)."""
    x = [[0.5, -1.25, 2.0, 1.75, 0.0], [1.0, 0.9, 0.8, -0.3, 0.75]]
    stored = {
        2.0: [0.140625, 0.35593749999999996],
        1.5: [0.2765543829198846, 0.6384461688212884],
        1.25: [0.42050532175744004, 0.9159046857785453],
        0.5: [3.8293044759559196, 4.7175633245345745],
    }
    for alpha, expected in stored.items():
        loss = entmax_loss(x, [2, 1], alpha)
        # theirs is a difference of terms of size 2, or 1 / alpha^2
        assert np.max(np.abs(loss - expected)) <= 8 * EPS * max(1, 1 / alpha**2 / 2)
    assert np.array_equal(sparsemax_loss(x, [2, 1]), entmax_loss(x, [2, 1], 2.0))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 1.0, 1.05, 1.25, 1.5, 2.0, 3.0])
def test_entmax_loss_is_its_definition(alpha):
    """p.x + H(p) - t.x - H(t) at 50 digits; at alpha = 1 the relative entropy."""
    rng = np.random.default_rng(19)

    def neg_entropy(p):
        if alpha == 1:
            return mp.fsum(xlogx(mp.mpf(float(v))) for v in p)
        a = mp.mpf(alpha)
        return (mp.fsum(mp.mpf(float(v)) ** a for v in p) - 1) / (a * (a - 1))

    for scale in (0.1, 1.0, 10.0):
        x = rng.normal(size=5) * scale
        for target in (np.eye(5)[2], softmax(rng.normal(size=5)), entmax(x, alpha)):
            p = entmax(x, alpha)
            with mp.workdps(50):
                linear = mp.fsum(
                    (mp.mpf(float(a)) - mp.mpf(float(b))) * mp.mpf(float(v))
                    for a, b, v in zip(p, target, x, strict=True)
                )
                expected = linear - neg_entropy(p) + neg_entropy(target)
            # The definition is stationary in p, up to a multiple of its rounded sum.
            # Below alpha = 1 the entropy is up to n^(1 - alpha) / alpha.
            size = 5 ** (1 - alpha) / alpha if alpha < 1 else 1
            slack = 8 * EPS * (size + 2 * np.max(np.abs(x)) / min(alpha, 1))
            assert abs(entmax_loss(x, target, alpha) - expected) <= slack


def test_sparsemax_loss_has_the_closed_form_of_one_class():
    """B51, B53."""
    x = np.random.default_rng(23).normal(size=(40, 6)) * 2
    target = np.arange(40) % 6
    lam = threshold(x, 1, "clip")
    lam = np.where(sparsemax(x).max(-1) == 1, x.max(-1) - 1, lam)
    support = np.where(x > lam[:, None], x**2 - lam[:, None] ** 2, 0).sum(-1)
    expected = 0.5 - x[np.arange(40), target] + support / 2
    loss = sparsemax_loss(x, target)
    assert np.allclose(loss, expected, rtol=0, atol=EPS * 8 * (1 + np.max(x**2)))
    assert np.all(loss >= 0)


@given(rows, st.data())
def test_losses_are_not_negative_and_vanish_where_they_should(x, data):
    n = len(x)
    t = data.draw(st.integers(0, n - 1))
    for loss in LOSSES.values():
        value = loss(x, t)
        assert value >= 0 and not np.isnan(value)
    # B52: one-hot and loss 0 once the margin is 1; 1/(alpha - 1) in general
    y = np.zeros(n)
    y[t] = 1.0
    assert sparsemax_loss(y, t) == 0 and entmax_loss(2 * y, t) == 0
    assert sparsemax_loss(0.99 * y, t) > 0 and entmax_loss(1.99 * y, t) > 0
    for name in CURVES:
        p = soft_topk(x, 1, curve_of(name))
        if abs(p.sum() - 1) < 1e-12:
            assert (
                0
                <= top_k_loss(x, p, 1, curve_of(name))
                <= 1e-12 * (1 + np.max(np.abs(np.where(p > 0, x - np.max(x), 0))))
            )


@given(
    st.lists(st.floats(-6, 6), min_size=3, max_size=6),
    st.integers(0, 2**32 - 1),
    st.sampled_from(list(LOSSES)),
)
def test_losses_are_convex_and_lie_above_their_tangents(x, seed, name):
    operator, keywords = split(LOSSES[name])
    x = np.array(x)
    y = x + np.random.default_rng(seed).normal(size=len(x)) * 2
    lin = linearize(operator, x, 1, **keywords)
    assert lin.value == operator(x, 1, **keywords)
    tangent = lin.value + lin.jvp(y - x)
    assert operator(y, 1, **keywords) >= tangent - 64 * EPS * (1 + abs(tangent))


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_the_difference_quotient(name):
    operator, keywords = split(LOSSES[name])
    x = np.array([0.8, 0.1, -0.4, 0.55])
    h = 1e-3
    for target in (0, 2):
        gradient = linearize(operator, x, target, **keywords).vjp(1.0)
        for j in range(4):
            e = h * np.eye(4)[j]

            def central(m, e=e, target=target):
                up = operator(x + m * e, target, **keywords)
                return (up - operator(x - m * e, target, **keywords)) / (2 * m * h)

            quotient = (4 * central(1) - central(2)) / 3
            # Fourth order, and rounding of a loss of size 1 to 8 eps.
            assert gradient[j] == pytest.approx(quotient, abs=1e-10)


def test_gradients_are_shares_minus_target():
    rng = np.random.default_rng(29)
    x = rng.normal(size=(6, 5))
    index = rng.integers(0, 5, size=6)
    onehot = np.eye(5)[index]
    g = rng.normal(size=6)
    pairs = [
        (cross_entropy, {}, softmax(x)),
        (sparse_softmax_loss, {"k": 3}, sparse_softmax(x, 3)),
        (sparsemax_loss, {}, sparsemax(x)),
        (entmax_loss, {"alpha": 1.25}, entmax(x, 1.25)),
        (top_k_loss, {"temperature": 0.5}, soft_topk(x, 1, temperature=0.5)),
        (stop_gradient_loss, {}, softmax(x)),
        (stop_gradient_loss, {"curve": "clip"}, sparsemax(x)),
    ]
    for loss, keywords, p in pairs:
        lin = linearize(loss, x, index, **keywords)
        assert np.allclose(lin.vjp(1.0), p - onehot, rtol=0, atol=8 * EPS)
        assert np.allclose(lin.vjp(g), (p - onehot) * g[:, None], rtol=0, atol=32 * EPS)
        assert np.allclose(lin.jacobian(), p - onehot, rtol=0, atol=8 * EPS)
        shares = linearize(loss, x, onehot, **keywords)
        assert np.array_equal(shares.value, lin.value)
        assert np.array_equal(shares.vjp(g), lin.vjp(g))
    am = linearize(am_softmax_loss, x, index, 0.3, temperature=0.2)
    p = softmax(x - 0.3 * onehot, temperature=0.2)
    assert np.allclose(am.vjp(1.0), (p - onehot) / 0.2, rtol=0, atol=32 * EPS)
    several = rng.permuted(np.tile([1.0, 1.0, 0, 0, 0], (6, 1)), axis=1)
    lin = linearize(top_k_loss, x, several, 2, "triangular")
    expected = soft_topk(x, 2, "triangular") - several
    assert np.allclose(lin.vjp(1.0), expected, rtol=0, atol=8 * EPS)


def test_cross_entropy_is_minus_the_log_of_a_share():
    x = np.random.default_rng(31).normal(size=(3, 7)) * 9
    for t in range(7):
        expected = -log_softmax(x)[:, t]
        assert np.array_equal(cross_entropy(x, np.full(3, t)), expected)


def test_am_softmax_loss_at_log_2_means_the_margin():
    """B21 and its remark: a loss of at most log 2 implies a lead of m."""
    x = np.random.default_rng(37).uniform(-1, 1, size=(500, 3))
    loss = am_softmax_loss(x, np.zeros(500, int), 0.4, temperature=0.1)
    lead = x[:, 0] - x[:, 1:].max(axis=-1)
    assert np.any(loss <= np.log(2)) and np.all(lead[loss <= np.log(2)] >= 0.4)
    assert np.any((lead >= 0.4) & (loss > np.log(2)))
    two = am_softmax_loss([0.9, 0.5], 0, 0.4, temperature=0.05)
    assert two == pytest.approx(np.log(2), abs=32 * EPS)


def test_sparse_softmax_loss_inside_and_outside_the_selection():
    """B27, B28."""
    x = np.array([2.0, 1.0, 0.0, -1.0])
    p = sparse_softmax(x, 2)
    assert sparse_softmax_loss(x, 1, 2) == pytest.approx(-np.log(p[1]), abs=4 * EPS)
    outside = linearize(sparse_softmax_loss, x, 3, 2)
    assert outside.value == pytest.approx(np.logaddexp(2, 1) + 1, abs=8 * EPS)
    assert np.allclose(outside.vjp(1.0), p - np.eye(4)[3], rtol=0, atol=4 * EPS)
    # continuous where the k-th and the next score change order
    a, b = (sparse_softmax_loss([1.0, s * 1e-9, 0.0], 1, 2) for s in (1, -1))
    assert a == pytest.approx(b, abs=3e-9)
    tie = sparse_softmax_loss([1.0, 0.0, 0.0], 1, 2)
    assert tie == pytest.approx(np.log1p(np.e), abs=4 * EPS)
    assert sparse_softmax_loss([0.3] * 3, 0, 1) == 0


def test_stop_gradient_loss_has_any_sign_but_the_right_gradient():
    """B64, B65."""
    lin = linearize(stop_gradient_loss, [0.0, 0.0, 0.0], 0)
    assert lin.value == 0
    assert lin.vjp(3.0) == pytest.approx([-2, 1, 1], abs=4 * EPS)
    assert stop_gradient_loss([2.0, 0.0], 0) < 0 < stop_gradient_loss([0.0, 2.0], 0)
    p = softmax([2.0, 0.0])
    expected = (p - [1, 0]) @ [2.0, 0.0]
    assert stop_gradient_loss([2.0, 0.0], 0) == pytest.approx(expected, abs=8 * EPS)


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=20)
@given(data=st.data())
def test_batch_axis_mask_and_shared_rows(name, data):
    loss = LOSSES[name]
    x = np.array(
        data.draw(
            st.lists(
                st.lists(st.floats(-4, 4), min_size=4, max_size=4),
                min_size=2,
                max_size=3,
            )
        )
    )
    t = np.arange(len(x)) % 2
    value = loss(x, t)
    assert value.shape == (len(x),)
    close = partial(np.allclose, rtol=0, atol=64 * EPS)
    assert close([loss(a, b) for a, b in zip(x, t, strict=True)], value)
    assert np.array_equal(loss(x.T, t, axis=0), value)
    mask = np.array([True, True, False, True])
    masked = loss(np.where(mask, x, np.nan), t, where=mask)
    assert close(masked, loss(x[:, mask], t))
    operator, keywords = split(loss)
    lin = linearize(operator, np.where(mask, x, -np.inf), t, **keywords)
    assert np.all(lin.vjp(1.0)[:, 2] == 0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scores(name, dtype):
    loss = LOSSES[name]
    operator, keywords = split(loss)
    big = float(np.finfo(dtype).max)
    for row in ([big, -big, 0.0], [-big] * 3, [big, big, -np.inf], [1e-30, 0, 1]):
        for t in (0, 1):
            value = loss(np.array(row, dtype), t)
            assert value.dtype == dtype
            assert value >= 0
            gradient = linearize(operator, np.array(row, dtype), t, **keywords)
            assert np.all(np.isfinite(gradient.vjp(1.0)))
    # Below order 1 each of the others leaves the integral of its share from its
    # distance on, and a share is at most (0.6 d)^(-5/3).
    rest = 2 * 1.5 * 0.6 ** (-5 / 3) * big ** (-2 / 3) if name == "entmax04" else 0
    assert loss(np.array([big, -big, 0], dtype), 0) <= rest
    assert loss(np.array([big, -big, 0], dtype), 1) == np.inf  # beyond the range
    assert loss(np.array([1, 0, 2], np.float16), 0).dtype == np.float32


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "cross_entropy", "top_k"])
def test_float32_scores_get_the_float64_loss_rounded(name):
    x = np.random.default_rng(41).normal(size=(9, 5)).astype(np.float32)
    t = np.arange(9) % 5
    expected = LOSSES[name](x.astype(float), t).astype(np.float32)
    assert np.array_equal(LOSSES[name](x, t), expected)


def test_a_budget_for_each_row_and_a_shared_row():
    x = np.random.default_rng(43).normal(size=5)
    targets = np.array([[1.0, 0, 0, 0, 0], [1, 0, 0, 1, 0]])
    both = linearize(top_k_loss, x, targets, [1, 2], "sigmoid")
    parts = [
        linearize(top_k_loss, x, t, k, "sigmoid")
        for t, k in zip(targets, (1, 2), strict=True)
    ]
    assert np.allclose(both.value, [p.value for p in parts], rtol=0, atol=16 * EPS)
    gradient = sum(p.vjp(1.0) for p in parts)
    assert np.allclose(both.vjp(1.0), gradient, rtol=0, atol=16 * EPS)
    assert sparse_softmax_loss(x, 2, [1, 2, 3]).shape == (3,)
    assert potential(x, [1, 2.5]).shape == (2,)


def test_curves_of_ones_own():
    """A scaled curve has the loss of its temperature, a shifted one the same."""
    x, t = [0.3, -0.2, 1.0, 0.6], [0.0, 0.5, 1.0, 0.5]
    for curve in (curves.SIGMOID, curves.LAPLACE):
        expected = top_k_loss(x, t, 2, curve, temperature=0.5)
        assert top_k_loss(x, t, 2, curve.scaled(2.0)) == pytest.approx(
            expected, abs=32 * EPS
        )
        plain = top_k_loss(x, t, 2, curve)
        assert top_k_loss(x, t, 2, curve.shifted(0.3)) == pytest.approx(
            plain, abs=32 * EPS
        )
        assert top_k_loss(x, t, 2, curve.reflected()) == pytest.approx(
            plain, abs=32 * EPS
        )
        own = soft_topk(x, 2, curve.scaled(2.0))
        assert 0 <= top_k_loss(x, own, 2, curve.scaled(2.0)) <= 32 * EPS


class Unknown(curves.Curve):
    name = "unknown"

    def value(self, t):
        return curves.SIGMOID.value(t)

    def slope(self, t):
        return curves.SIGMOID.slope(t)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cross_entropy([1.0, 2.0], 2), ValueError, r"in \[0, 1\], got 2"),
        (lambda: cross_entropy([1.0, 2.0], -1), ValueError, "class indices in"),
        (lambda: cross_entropy([1.0, 2.0], 0.5), ValueError, "target must hold class"),
        (lambda: cross_entropy([1.0, 2.0], [0]), ValueError, "target must hold class"),
        (lambda: cross_entropy([1.0, 2.0], [0.5, 0.4]), ValueError, "sum to 1 in"),
        (lambda: cross_entropy([1.0, 2.0], [1.5, -0.5]), ValueError, r"in \[0, 1\]"),
        (lambda: cross_entropy([1.0, 2.0], [np.nan, 1]), ValueError, r"in \[0, 1\]"),
        (lambda: cross_entropy([1.0, 2.0], ["a", "b"]), TypeError, "target must hold"),
        (lambda: cross_entropy([1.0, -np.inf], 1), ValueError, "takes no part"),
        (lambda: cross_entropy([1.0, 2.0], 1, where=[True, False]), ValueError, "part"),
        (lambda: cross_entropy([-np.inf], 0), ValueError, "x must have a finite entry"),
        (lambda: cross_entropy([np.nan], 0), ValueError, "x must be finite or -inf"),
        (lambda: cross_entropy([[1.0]], 0), ValueError, "class indices of shape"),
        (lambda: entmax_loss([1.0], 0, 0), ValueError, "alpha must be finite and abov"),
        (lambda: entmax_loss([1.0], 0, [1, 2]), TypeError, "alpha must be one real"),
        (lambda: am_softmax_loss([1.0], 0, -1), ValueError, "margin must be finite"),
        (lambda: am_softmax_loss([1.0], 0, "a"), TypeError, "margin must be one real"),
        (lambda: am_softmax_loss([1.0], 0, np.nan), ValueError, "margin must be"),
        (lambda: am_softmax_loss([1.0], [1.0], 0.1), ValueError, "class indices of"),
        (
            lambda: am_softmax_loss([1.0], 0, 0.1, temperature=0),
            ValueError,
            "temperature must be",
        ),
        (lambda: sparse_softmax_loss([1.0], 0, 0), ValueError, "k must be at least 1"),
        (lambda: sparse_softmax_loss([1.0], 0, 2), ValueError, "k must lie in"),
        (lambda: top_k_loss([1.0, 2, 3], 0, 2), ValueError, "shares where k is not 1"),
        (lambda: top_k_loss([1.0, 2, 3], [1, 0, 0], 2), ValueError, "must sum to 2"),
        (lambda: top_k_loss([1.0, 2], 0, 1, "gauss"), ValueError, "curve must be"),
        (lambda: potential([1.0, 2], 3), ValueError, "k must lie in"),
        (lambda: potential([1.0, 2], 1, "gauss"), ValueError, "curve must be"),
        (
            lambda: potential([1.0, 2], 1, Unknown()),
            NotImplementedError,
            "does not define potential",
        ),
        (
            lambda: top_k_loss([1.0, 2], 0, 1, Unknown()),
            NotImplementedError,
            "does not define potential",
        ),
        (lambda: stop_gradient_loss([1.0, 2], 5), ValueError, "class indices in"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_scores_of_the_margin_loss_are_named():
    with pytest.raises(ValueError, match=r"^scores must be finite"):
        am_softmax_loss([np.nan, 0.0], 1, 0.3)
    with pytest.raises(ValueError, match=r"^scores must have a finite entry"):
        am_softmax_loss([-np.inf, -np.inf], 1, 0.3)


@pytest.mark.parametrize("curve", NAMES)
def test_the_potential_stands_the_ends_of_the_range(curve):
    x = [1e308, 0.0, -1e308]
    for temperature in (1e-300, 1.0, 1e200):
        for k in (0.4, 1, 2.1, 3):
            value = potential(x, k, curve, temperature=temperature)
            assert np.isclose(value, top_k_sum(x, k), rtol=1e-15, atol=1e290)
    scale = 2.0**1000
    for k in (0.5, 1, 2.5, 4):
        row = np.array([1.0, 0.5, -2.0, 0.0])
        wide = potential(scale * row, k, curve, temperature=scale)
        assert wide == scale * potential(row, k, curve)


def test_no_loss_is_minus_zero():
    for loss in (cross_entropy, entmax_loss, sparsemax_loss):
        value = loss([800.0, 0.0], 0)
        assert value == 0 and not np.signbit(value)


def test_a_distance_that_overflows_keeps_its_part_of_entmaxs_loss():
    """Below alpha = 1 a share falls like a power, and the loss like a smaller one."""
    alpha, x = 0.01, [1.5e308, -1.5e308, 0.0]
    with mp.workdps(50):
        b = mp.mpf(alpha) - 1  # the threshold is at the largest score up to 1e-308
        powers = [(-b * x[0] * d) ** (mp.mpf(alpha) / b) for d in (2, 1)]
        known = float(sum(powers) / alpha)
    assert entmax_loss(x, 0, alpha) == pytest.approx(known, rel=1e-12)
    assert entmax_loss(x, 1, alpha) == np.inf
