"""Random subsets: their laws against all subsets, and their exact moments."""

import itertools
import math

import numpy as np
import oracle_subset
import pytest

import softtopk as stk

X = np.array([2.0, 1.0, 0.5, -1.0, 0.0])
DRAWS = 20000


def law(x, k, tau=1.0):
    """The subsets of k entries, as indicators, and their probabilities."""
    sets = [set(s) for s in itertools.combinations(range(len(x)), k)]
    found = np.array([[float(i in s) for i in range(len(x))] for s in sets])
    weights = np.exp([sum(x[i] for i in s) / tau for s in sets])
    return found, weights / weights.sum()


def chi_square(drawn, subsets, chances):
    """The statistic in standard deviations from its mean, after Wilson, Hilferty."""
    code = 2.0 ** np.arange(subsets.shape[1])
    names = subsets @ code
    counts = np.array([(drawn @ code == name).sum() for name in names])
    assert counts.sum() == len(drawn)  # no other subset
    expected = len(drawn) * chances
    statistic = ((counts - expected) ** 2 / expected).sum()
    degrees = len(chances) - 1
    at = 2 / (9 * degrees)
    return ((statistic / degrees) ** (1 / 3) - (1 - at)) / math.sqrt(at)


@pytest.mark.parametrize(("k", "tau"), [(1, 1.0), (2, 1.0), (3, 0.6), (4, 3.0)])
def test_every_subset_comes_as_often_as_its_law_says(k, tau):
    drawn = stk.sample_topk(X, k, rng=k, temperature=tau, draws=DRAWS)
    assert abs(chi_square(drawn, *law(X, k, tau))) < 4.5


def test_the_statistic_is_calibrated_and_sees_other_laws():
    subsets, chances = law(X, 2)
    found = [
        chi_square(stk.sample_topk(X, 2, rng=seed, draws=2000), subsets, chances)
        for seed in range(60)
    ]
    assert abs(np.mean(found)) < 4.5 / math.sqrt(60)
    assert abs(np.std(found) - 1) < 4.5 / math.sqrt(120)
    # a law at another temperature, and one without replacement entry by entry
    other = stk.sample_topk(X, 2, rng=0, temperature=1.1, draws=DRAWS)
    assert chi_square(other, subsets, chances) > 6
    noise = np.random.default_rng(0).gumbel(size=(DRAWS, 5))
    assert chi_square(stk.top_k(X + noise, 2), subsets, chances) > 6


def test_the_law_of_a_long_row_has_the_exact_moments():
    """Means are the marginals, means of products the pair marginals."""
    n, k, draws = 40, 7, 40000
    x = np.random.default_rng(1).normal(size=n) * 2
    z = stk.sample_topk(x, k, rng=2, draws=draws)
    assert (z.sum(axis=-1) == k).all()
    p, pairs = stk.grad_topk(x, k), stk.pair_marginals(x, k)
    spread = np.sqrt(p * (1 - p) / draws)
    assert (abs(z.mean(axis=0) - p) <= 5 * spread + 1e-12).all()
    found = z.T @ z / draws
    spread = np.sqrt(pairs * (1 - pairs) / draws)
    assert (abs(found - pairs) <= 5.5 * spread + 1e-3 / draws).all()
    total = (z @ np.arange(n)).var()
    wanted = np.arange(n) @ stk.linearize(stk.grad_topk, x, k).jvp(np.arange(n))
    assert total == pytest.approx(wanted, rel=0.05)


def test_budgets_masks_and_axes():
    x = np.random.default_rng(3).normal(size=(3, 4, 5))
    k = np.array([0, 3, 1, 2, 5])
    z = stk.sample_topk(x, np.tile(k % 4, (3, 1)), rng=0, axis=1)
    assert z.shape == x.shape
    assert (z.sum(axis=1) == k % 4).all()
    where = np.arange(5) > 1
    z = stk.sample_topk(x, 2, rng=0, where=where, draws=7)
    assert z.shape == (7, 3, 4, 5)
    assert (z[..., :2] == 0).all()
    assert (z.sum(axis=-1) == 2).all()
    assert stk.sample_topk(x, 9, rng=0, axis=(0, 2)).sum(axis=(0, 2)).tolist() == 4 * [
        9
    ]
    assert stk.sample_topk(np.float32(x), 2, rng=0).dtype == np.float32
    far = stk.sample_topk([1e308, -1e308, 0.0, -np.inf], 2, rng=0, draws=50)
    assert (far == [1, 0, 1, 0]).all()
    none = stk.sample_topk(
        [[0.0, 1.0]] * 2, 1, 0, where=[[0 > 1] * 2, [True] * 2], empty="zeros"
    )
    assert none.sum(axis=-1).tolist() == [0, 1]
    assert stk.sample_topk(np.zeros((0, 4)), 2, rng=0).shape == (0, 4)


def test_a_large_budget_of_equal_and_of_steep_scores():
    for x in (np.zeros(3000), -0.01 * np.arange(3000)):
        z = stk.sample_topk(x, 1500, rng=5, draws=20)
        p = stk.grad_topk(x, 1500)
        assert (z.sum(axis=-1) == 1500).all()
        halves = z[:, :1000].sum(axis=-1).mean(), p[:1000].sum()
        assert abs(halves[0] - halves[1]) < 5 * math.sqrt((p * (1 - p)).sum() / 20)


def test_a_seed_and_a_generator_repeat_their_draws():
    p = stk.grad_topk(X, 2)
    for draw in (
        lambda r: stk.sample_topk(X, 2, r, draws=9),
        lambda r: stk.sample_shares(p, r, draws=9),
    ):
        one = draw(np.random.default_rng(7))
        assert (one == draw(7)).all()
        going = np.random.default_rng(7)
        assert (one == draw(going)).all()
        assert not (one == draw(going)).all()


def test_probabilities_of_subsets_against_60_digits():
    for k in range(6):
        subsets, chances = law(X, k)
        x = np.broadcast_to(X, subsets.shape)
        found = stk.subset_log_prob(x, subsets)
        np.testing.assert_allclose(np.exp(found), chances, 1e-14)
    n = 30
    x = 10 * np.random.default_rng(4).normal(size=n)
    z = stk.sample_topk(x, 6, rng=0)
    exact = float(sum(x[z > 0]) - oracle_subset.partition(x, 6))
    assert stk.subset_log_prob(x, z > 0) == pytest.approx(exact, abs=1e-13)
    lin = stk.linearize(stk.subset_log_prob, x, z, temperature=2.0)
    p = np.array(oracle_subset.marginals(x / 2, 6), float)
    np.testing.assert_allclose(lin.vjp(1.0), (z - p) / 2, 0, 1e-14)
    assert stk.subset_log_prob([0.0, -np.inf, 1.0], [1, 1, 0]) == -np.inf


def tournament(p):
    """Probabilities of pairs, from the shares that the two sides of a match have."""
    size = 1 << (len(p) - 1).bit_length()
    share = [*p, *[0.0] * (size - len(p))]
    teams = [({i: 1.0}, {i: 0.0}) for i in range(size)]  # who plays on, who is in
    pairs = np.outer(share, share)
    np.fill_diagonal(pairs, share)
    while len(share) > 1:
        half = len(share) // 2
        share, teams, old = [], [], list(zip(share, teams, strict=True))
        for (a, one), (b, other) in zip(old[:half], old[half:], strict=True):
            both = max(0.0, a + b - 1)
            for i, j in itertools.product(one[0], other[0]):
                pairs[i, j] += one[0][i] * other[0][j] * (both - a * b)
                pairs[j, i] = pairs[i, j]
            c = a + b if a + b < 1 else a + b - 1
            on = (a if a + b < 1 else 1 - b, b if a + b < 1 else 1 - a)
            if a + b >= 1:  # who wins is in, the other goes on
                on = on[1], on[0]
            total = sum(on) or 1.0
            going = {
                i: chance * w / total
                for team, w in zip((one, other), on, strict=True)
                for i, chance in team[0].items()
            }
            share.append(c)
            teams.append((going, {}))
    return pairs[: len(p), : len(p)]


SHARES = {
    "soft": stk.soft_topk([3.0, 1.0, 0.5, 0.2, 0.0, -1.0], 2),
    "half": np.full(8, 0.5),
    "odd": np.array([0.9, 0.8, 0.7, 0.4, 0.2]),
    "part": np.array([0.3, 0.95, 0.4]),  # 1.65 in total
    "sure": np.array([1.0, 0.0, 0.25, 0.75]),
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_are_probabilities_and_pairs_are_those_of_the_matches(name):
    p, draws = SHARES[name], 60000
    z = stk.sample_shares(p, rng=11, draws=draws)
    assert {*z.sum(axis=-1)} <= {math.floor(p.sum() + 1e-9), math.ceil(p.sum() - 1e-9)}
    spread = np.sqrt(p * (1 - p) / draws)
    assert (abs(z.mean(axis=0) - p) <= 5 * spread + 1e-12).all()
    pairs = tournament(list(p))
    spread = np.sqrt(np.maximum(pairs * (1 - pairs), 0) / draws)
    assert (abs(z.T @ z / draws - pairs) <= 5.5 * spread + 1e-9).all()
    off = ~np.eye(len(p), dtype=bool)
    assert (pairs <= np.outer(p, p) + 1e-12)[off].all()
    if abs(p.sum() - round(p.sum())) < 1e-9:
        np.testing.assert_allclose(pairs.sum(axis=1), p * p.sum(), 1e-12)


def test_the_size_is_exact_for_a_long_row():
    x = np.random.default_rng(5).normal(size=(6, 5000))
    for k in (1, 37, 2500):
        p = stk.soft_topk(x, k)
        z = stk.sample_shares(p, rng=0)
        assert (z.sum(axis=-1) == k).all()
        assert not z[p == 0].any()
        assert z[p == 1].all()


def test_a_mean_over_draws_is_the_soft_selection():
    """And its variance is below that of independent draws, for values of one sign."""
    p = stk.soft_topk(np.linspace(2, -2, 12), 4)
    worth = np.linspace(1, 3, 12)
    sums = stk.sample_shares(p, rng=3, draws=40000) @ worth
    single = (worth**2 * p * (1 - p)).sum()
    assert abs(sums.mean() - worth @ p) < 5 * sums.std() / 200
    assert sums.var() < single


def test_errors_name_the_argument():
    for call in (
        lambda **g: stk.sample_topk(X, 2, **g),
        lambda **g: stk.sample_shares([0.5, 0.5], **g),
    ):
        with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
            call(rng=None)
        with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
            call(rng=True)
        with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
            call(rng=0, draws=0)
        with pytest.raises(TypeError, match="draws must be an integer or None"):
            call(rng=0, draws=2.0)
    with pytest.raises(ValueError, match=r"k must lie in \[0, 5\]"):
        stk.sample_topk(X, 6, rng=0)
    with pytest.raises(ValueError, match=r"k must be a whole number, got 1\.5"):
        stk.sample_topk(X, 1.5, rng=0)
    with pytest.raises(ValueError, match=r"p must hold shares in \[0, 1\], got 1.5"):
        stk.sample_shares([0.5, 1.5], rng=0)
    with pytest.raises(ValueError, match="subset must have the shape of x"):
        stk.subset_log_prob(X, [1, 0])
    with pytest.raises(ValueError, match="subset must hold 1 for its entries"):
        stk.subset_log_prob(X, [0.5, 1, 0, 0, 0])
