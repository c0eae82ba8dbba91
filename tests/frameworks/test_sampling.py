"""Random subsets on both libraries: their laws, their generators, their gradients."""

import itertools
import math

import jax
import numpy as np
import pytest
import torch

import softtopk as stk

X = np.array([[2.0, 1.0, 0.5, -1.0, 0.0], [0.0, 0.3, -0.4, 0.1, 0.2]])
DRAWS = 8000


def source(lib, seed):
    if lib.name == "jax":
        return jax.random.key(seed)
    return torch.Generator().manual_seed(seed)


def test_every_subset_comes_as_often_as_its_law_says(lib):
    """Within five standard deviations; a draw without a condition on k is far off."""
    how = {"temperature": 0.7, "draws": DRAWS}
    z = lib.numpy(lib.ops.sample_topk(lib.array(X), 2, source(lib, 1), **how))
    assert z.shape == (DRAWS, 2, 5)
    noise = np.random.default_rng(0).gumbel(size=z.shape)
    other = stk.top_k(X / 0.7 + noise, 2)
    worst = 0
    for row, (i, j) in itertools.product(range(2), itertools.combinations(range(5), 2)):
        pair = (np.arange(5) == i) | (np.arange(5) == j)
        chance = math.exp(stk.subset_log_prob(X[row], pair, temperature=0.7))
        spread = math.sqrt(chance * (1 - chance) / DRAWS)
        found, wrong = ((v[:, row] == pair).all(axis=-1).mean() for v in (z, other))
        assert abs(found - chance) < 5 * spread
        worst = max(worst, abs(wrong - chance) / spread)
    assert worst > 6


def test_a_generator_repeats_its_draws(lib):
    for draw in (
        lambda rng: lib.ops.sample_topk(lib.array(X), 2, rng, draws=20),
        lambda rng: lib.ops.sample_shares(
            lib.array(np.full((2, 6), 0.5)), rng, draws=9
        ),
    ):
        one = lib.numpy(draw(source(lib, 3)))
        assert (one == lib.numpy(draw(source(lib, 3)))).all()
        assert (one == lib.numpy(draw(3))).all()  # a seed
        assert not (one == lib.numpy(draw(source(lib, 4)))).all()
        with pytest.raises(TypeError, match="rng must be a"):
            draw(np.random.default_rng(0))


def test_shares_become_hard_without_bias(lib):
    p = stk.soft_topk(X, 2)
    z = lib.numpy(lib.ops.sample_shares(lib.array(p), source(lib, 5), draws=DRAWS))
    assert (z.sum(axis=-1) == 2).all()
    assert (abs(z.mean(axis=0) - p) <= 5 * np.sqrt(p * (1 - p) / DRAWS) + 1e-12).all()


def test_straight_through_is_a_draw_with_the_gradient_of_its_mean(lib):
    g, rng = np.cos(np.arange(30.0)).reshape(3, 2, 5), source(lib, 2)

    def total(x, tau):
        z = lib.ops.sample_topk_st(x, 2, rng, temperature=tau, draws=3)
        return (z * lib.array(g)).sum()

    at = lib.array(X), lib.array(0.8)
    rng = source(lib, 2)
    z = lib.numpy(lib.ops.sample_topk_st(at[0], 2, rng, temperature=0.8, draws=3))
    assert abs(z - z.round()).max() < 1e-15
    rng = source(lib, 2)
    hard = lib.ops.sample_topk(at[0], 2, rng, temperature=0.8, draws=3)
    assert (lib.numpy(hard) == z.round()).all()
    by_x, by_tau = map(lib.numpy, lib.gradient(total, (0, 1))(*at))
    mean, h = g.sum(axis=0), 1e-6
    exact = stk.linearize(stk.grad_topk, X, 2, temperature=0.8).vjp(mean)
    assert abs(by_x - exact).max() < 1e-14
    ends = [
        (stk.grad_topk(X, 2, temperature=0.8 + s * h) * mean).sum() for s in (1, -1)
    ]
    assert by_tau == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)


def test_log_probabilities_have_derivatives(lib):
    z = np.array([[1.0, 0, 1, 0, 0], [0, 1, 1, 1, 0]])
    g, h = np.array([1.3, -0.4]), 1e-6
    move = np.sin(np.arange(10.0)).reshape(2, 5)

    def total(x, tau=1.0):
        found = lib.ops.subset_log_prob(x, lib.array(z), temperature=tau)
        return (found * lib.array(g)).sum()

    def exact(x, tau=1.0):
        return stk.linearize(stk.subset_log_prob, x, z, temperature=tau)

    assert float(total(lib.array(X))) == pytest.approx(g @ exact(X).value, abs=1e-14)
    at = [lib.array(X)], [lib.array(move)]
    gradient, product = map(lib.numpy, lib.push(lib.gradient(total), *at))
    assert abs(gradient - exact(X).vjp(g)).max() < 1e-14
    slope = (exact(X + h * move).vjp(g) - exact(X - h * move).vjp(g)) / (2 * h)
    assert abs(product - slope).max() < 1e-8
    by_tau = lib.gradient(total, 1)(lib.array(X), lib.array(0.7))
    ends = [g @ exact(X, 0.7 + s * h).value for s in (1, -1)]
    assert float(by_tau) == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)


def test_errors_and_rows_that_nobody_looked_at(lib):
    x, ops = lib.array(X), lib.ops
    with pytest.raises(ValueError, match=r"k must lie in \[0, 5\]"):
        ops.sample_topk(x, 6, source(lib, 0), check=True)
    with pytest.raises(ValueError, match=r"p must hold shares in \[0, 1\], got 2"):
        ops.sample_shares(x, source(lib, 0), check=True)
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        ops.sample_topk(x, 2, source(lib, 0), draws=0)
    with pytest.raises(ValueError, match="subset must hold 1 for its entries"):
        ops.subset_log_prob(x, x, check=True)
    z = lib.numpy(ops.sample_topk(x, lib.array([2.0, 7.0]), 0, check=False))
    assert np.isnan(z[1]).all()
    assert z[0].sum() == 2
    z = lib.numpy(
        ops.sample_shares(lib.array([[0.5, 0.5], [3.0, 0.5]]), 0, check=False)
    )
    assert np.isnan(z[1]).all()
    assert z[0].sum() == 1
