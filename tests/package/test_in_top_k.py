"""The loss for a class among the first k, against all subsets in exact numbers."""

import itertools

import mpmath as mp
import numpy as np
import pytest

from softtopk import grad_topk, linearize, pair_marginals, soft_topk, top_k
from softtopk.losses import cross_entropy, in_top_k_loss, top_k_loss

RNG = np.random.default_rng(2)
EPS = 2.0**-52


def exact(x, y, k, tau):
    """-log of the share of subsets that contain y, at 200 digits."""
    with mp.workdps(200):
        u = [mp.mpf(float(v)) / mp.mpf(tau) for v in x]
        subsets = list(itertools.combinations(range(len(x)), k))
        weights = [mp.exp(mp.fsum(u[i] for i in s)) for s in subsets]
        rest = mp.fsum(w for w, s in zip(weights, subsets, strict=True) if y not in s)
        return -mp.log1p(-rest / mp.fsum(weights))


@pytest.mark.parametrize("scale", [1, 10, 100])
@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_losses_against_200_digits(scale, tau):
    for k in (1, 2, 5, 6):
        x = scale * RNG.normal(size=6)
        for y in range(6):
            e = exact(x, y, k, tau)
            found = in_top_k_loss(x, y, k, temperature=tau)
            # The sums that are subtracted are about k scores large.
            assert abs(found - e) <= 16 * EPS * (1 + k * scale / tau) * e + 1e-300


def test_the_gradient_is_the_shares_less_those_given_the_class():
    x = RNG.normal(size=(4, 7))
    y, tau = np.array([0, 6, 2, 3]), 0.5
    for k in (1, 3, 6):
        lin = linearize(in_top_k_loss, x, y, k, temperature=tau)
        p = grad_topk(x, k, temperature=tau)
        rows = np.arange(4)
        given = pair_marginals(x, k, temperature=tau)[rows, y] / p[rows, y][:, None]
        np.testing.assert_allclose(lin.vjp(np.ones(4)), (p - given) / tau, 0, 1e-13)
        np.testing.assert_allclose(lin.value, -np.log(p[rows, y]), 0, 1e-14)
    first = in_top_k_loss(x, y, 1)
    np.testing.assert_allclose(first, cross_entropy(x, y), 1e-14)
    whole = linearize(in_top_k_loss, x, y, 7)
    assert (whole.value == 0).all()
    assert (whole.vjp(np.ones(4)) == 0).all()


def test_as_the_temperature_falls_it_is_what_the_class_lacks():
    x = np.array([4.0, 1.0, 3.0, 0.0])
    for y, lack in enumerate([0.0, 2.0, 0.0, 3.0]):
        found = 1e-3 * in_top_k_loss(x, y, 2, temperature=1e-3)
        assert found == pytest.approx(lack, abs=1e-12)


def test_the_expected_loss_is_least_at_capped_shares_of_the_chances():
    """And so the first k scores are the k likeliest classes."""
    chance = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    x, k = np.log(chance), 2
    for _ in range(500):
        slopes = linearize(in_top_k_loss, np.tile(x, (5, 1)), np.arange(5), k)
        x = x - 2 * slopes.vjp(chance).sum(axis=0)
    p = grad_topk(x, k)
    np.testing.assert_allclose(p, soft_topk(np.log(chance), k, "exp"), 0, 1e-12)
    assert (top_k(x, k) == top_k(chance, k)).all()


def test_it_is_not_convex():
    ends = np.array([[2.0, 0, 0], [0, 2.0, 0]])  # the third class comes second or third
    middle = in_top_k_loss(ends.mean(axis=0), 2, 2, temperature=0.1)
    assert middle > in_top_k_loss(ends, [2, 2], 2, temperature=0.1).mean() + 1


def test_masks_ties_and_classes_out_of_range():
    x = [3.0, 1.0, 2.0, -np.inf]
    found = in_top_k_loss(x, 1, 2)
    assert found == pytest.approx(float(exact(x[:3], 1, 2, 1.0)), rel=1e-14)
    masked = in_top_k_loss([3.0, 1.0, 2.0, 9.0], 1, 2, where=[True, True, True, False])
    assert masked == found
    assert in_top_k_loss(np.zeros(6), 2, 4) == pytest.approx(np.log(1.5), rel=1e-14)
    with pytest.raises(ValueError, match="target must be 0 where x takes no part"):
        in_top_k_loss(x, 3, 2)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        in_top_k_loss(x, 1, 0)
    with pytest.raises(ValueError, match=r"k must lie in \[0, 3\]"):
        in_top_k_loss(x, 1)
    with pytest.raises(ValueError, match="a class among the first k is in_top_k_loss"):
        top_k_loss(x, 1, 2)
