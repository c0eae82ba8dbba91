"""The two iterations are computed as defined, and fail as the book says."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

from softtopk.iterative import soft_k_max, weighted_softmax_topk

EPS = np.finfo(np.float64).eps


def author(x, k):
    """p += softmax((1 - p)(x - min x)) at 40 digits."""
    with mp.workdps(40):
        x = [mpf(float(t)) for t in x]
        low = min(x)
        p = [mpf(0)] * len(x)
        for _ in range(k):
            e = [mp.exp((1 - q) * (t - low)) for q, t in zip(p, x, strict=True)]
            p = [q + a / mp.fsum(e) for q, a in zip(p, e, strict=True)]
        return np.array([float(q) for q in p])


def weighted(x, k):
    """p += (1 - p) e^x / sum at 40 digits."""
    with mp.workdps(40):
        e = [mp.exp(mpf(float(t))) for t in x]
        p = [mpf(0)] * len(x)
        for _ in range(k):
            w = [(1 - q) * a for q, a in zip(p, e, strict=True)]
            p = [q + a / mp.fsum(w) for q, a in zip(p, w, strict=True)]
        return np.array([float(q) for q in p])


@pytest.mark.parametrize("k", [0, 1, 2, 4, 6])
def test_both_are_the_iterations_of_the_source(k):
    x = np.random.default_rng(k).standard_normal(6)
    # one rounding of (1 - p)(x - min) per step, amplified by x - min <= 4 at most
    assert np.abs(soft_k_max(x, k) - author(x, k)).max() <= 64 * (k + 1) * EPS
    if k <= 2:
        assert np.abs(weighted_softmax_topk(x, k) - weighted(x, k)).max() <= 64 * EPS


@pytest.mark.parametrize("operator", [soft_k_max, weighted_softmax_topk])
def test_one_step_is_softmax_and_the_sum_is_k(operator):
    x = np.random.default_rng(0).standard_normal((3, 5))
    e = np.exp(x)
    assert np.abs(operator(x, 1) - e / e.sum(-1, keepdims=True)).max() <= 8 * EPS
    for k in (0, 1, 2):
        assert np.abs(operator(x, k).sum(-1) - k).max() <= 16 * EPS


def test_the_author_s_iteration_is_not_monotone():
    p = soft_k_max([4.0, 3.0, 0.0], 2)
    assert p[0] < p[1] - 2e-3
    # and it leaves [0, 1]: (M + d, M, 0) tends to (sigmoid(d), 2 - sigmoid(d), 0)
    s = 1 / (1 + np.exp(-0.5))
    assert np.allclose(soft_k_max([200.5, 200.0, 0.0], 2), [s, 2 - s, 0], atol=1e-12)


def test_the_author_s_iteration_tends_to_top_k_only_below_n():
    x = 1000 * np.array([3.0, 2.0, 1.0])
    assert np.allclose(soft_k_max(x, 2), [1, 1, 0], atol=1e-12)
    assert np.allclose(soft_k_max(x, 3), [4 / 3, 4 / 3, 1 / 3], atol=1e-12)


def test_the_weighted_iteration_tends_to_three_halves_and_one_half():
    p = weighted_softmax_topk(14 * np.array([2.0, 1.0, 0.0]), 2)
    assert np.allclose(p, [1.5, 0.5, 0], atol=1e-5)


def test_the_weighted_iteration_has_a_pole_at_three_steps():
    # the normaliser of step 3 changes sign at t = 1.20806 for x = t (2, 1, 0)
    left = weighted_softmax_topk(1.208 * np.array([2.0, 1.0, 0.0]), 3)
    right = weighted_softmax_topk(1.2081 * np.array([2.0, 1.0, 0.0]), 3)
    assert np.abs(left).max() > 100
    assert np.abs(right).max() > 100
    assert np.sign(left[0]) != np.sign(right[0])


def test_weights_that_sum_to_zero_are_an_error_and_no_nan():
    with pytest.raises(ValueError, match="weights of step 2 sum to 0"):
        weighted_softmax_topk([1000.0, 0.0, -1.0], 2)


@pytest.mark.parametrize("operator", [soft_k_max, weighted_softmax_topk])
def test_rows_axes_and_budgets(operator):
    x = np.random.default_rng(1).standard_normal((2, 5, 3))
    k = np.array([[0, 1, 2], [2, 1, 0]])
    p = operator(x, k, axis=1)
    for i, j in np.ndindex(2, 3):
        assert np.abs(p[i, :, j] - operator(x[i, :, j], k[i, j])).max() <= 8 * EPS
    assert operator(np.float32([1, 2, 3]), 2).dtype == np.float32
    assert np.abs(operator(x - 1e3, 2) - operator(x, 2)).max() < 1e-10
    assert np.isfinite(soft_k_max([1e308, 0.0, -1e308], 2)).all()


@pytest.mark.parametrize("operator", [soft_k_max, weighted_softmax_topk])
@pytest.mark.parametrize(
    ("x", "k", "error", "message"),
    [
        ([1.0, -np.inf], 1, ValueError, "x must be finite"),
        ([1.0, np.nan], 1, ValueError, "x must be finite or -inf"),
        ([1.0, 2.0], 3, ValueError, "k must lie in"),
        ([1.0, 2.0], 0.5, ValueError, "k must be a whole number"),
        ([1.0, 2.0], None, TypeError, "k must be a real number"),
    ],
)
def test_bad_input_is_named(operator, x, k, error, message):
    with pytest.raises(error, match=message):
        operator(x, k)
