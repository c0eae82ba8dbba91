"""The sums over small subsets against 60 digits, and the bound on their rounding."""

import itertools
import math

import numpy as np
import oracle_subset
import pytest

from softtopk import linearize
from softtopk._adapters.numpy_functions import ADAPTER
from softtopk._search import polynomials
from softtopk.losses import in_top_k_loss

EPS = 2.0**-52
RNG = np.random.default_rng(20)


def solved(x, own, k, tau=1.0):
    with np.errstate(all="ignore"):
        at = polynomials.solved_quotient(
            ADAPTER, k, x, np.asarray(own), np.asarray(tau)
        )
        return at.log, polynomials.quotient_slopes(ADAPTER, k, x, at)


def exact(x, k):
    """The quotient, its slopes, the k-th largest score, and what rounding moves."""
    x = np.asarray(x)
    upper, lower = (oracle_subset.marginals(x, j) for j in (k, k - 1))
    slopes = np.array([a - b for a, b in zip(upper, lower, strict=True)], float)
    sums = [oracle_subset.partition(x, j) for j in (k, k - 1)]
    middle = np.sort(x)[-k]
    away = np.where(x > -np.inf, abs(x - middle), 0)
    # an entry's weight has the relative error of its distance, and it moves the
    # quotient by its slope
    spread = float((slopes * away).sum())
    return float(sums[0] - sums[1]), slopes, middle, spread


ROWS = {
    "normal": lambda n: RNG.normal(size=n),
    "wide": lambda n: 30 * RNG.normal(size=n),
    "equal": np.zeros,
    "tied": lambda n: RNG.integers(0, 3, n).astype(float),
    "steps": lambda n: -0.7 * np.arange(n),
    "far": lambda n: np.where(np.arange(n) < 3, 500.0, RNG.normal(size=n)),
    "masked": lambda n: np.where(np.arange(n) % 3 > 0, RNG.normal(size=n), -np.inf),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_quotients_and_slopes_against_60_digits(kind, k):
    """With all entries loud (n = 13) and with quiet ones beside them."""
    for n in (13, 140):
        x = ROWS[kind](n)
        value, wanted, middle, spread = exact(x, k)
        for own in (0.25, -20.0, 20.0):
            log, slopes = solved(x, own, k)
            assert abs(log - (value - own)) <= EPS * (16 + spread + abs(middle - own))
            np.testing.assert_allclose(slopes, wanted, 0, 8 * EPS * (1 + k))
            assert abs(slopes.sum() - 1) <= 16 * EPS


def test_a_quiet_slope_keeps_its_relative_accuracy():
    x = np.concatenate([RNG.normal(size=100), [-30.0, -60.0]])
    _, slopes = solved(x, 0.0, 5)
    _, wanted, _, _ = exact(x, 5)
    np.testing.assert_allclose(slopes[-2:], wanted[-2:], 1e-13, 0)


def sums(weights, k, sign=1):
    """[z^j] of the product of 1 + w z, or of 1 / (1 - w z), for j up to k."""
    found = [1.0] + [0.0] * k
    for w in weights:
        for j in range(k, 0, -1) if sign > 0 else range(1, k + 1):
            found[j] += w * found[j - 1]
    return found


def condition(weights, k, m):
    """How far signs that cancel can multiply a rounding error of the quiet sums."""
    ranked = np.sort(weights)[::-1]
    loud, quiet = sums(ranked[:m], k), sums(ranked[m:], k, -1)
    plain = sums(ranked, k)[k]
    return sum(a * b for a, b in zip(loud, quiet[::-1], strict=True)) / plain


def test_the_loud_entries_bound_the_condition_number():
    for k in range(1, 9):
        m = 1 << (k * (k + 1) - 1).bit_length()
        beta = k * (k - 1) / (2 * (m - k + 2))
        assert beta < 0.5
        for n in (m + 1, 2 * m, 50 * m):
            steep = np.exp(-np.arange(n) * 0.1)
            level = np.ones(n)
            step = np.where(np.arange(n) < m, 1.0, 0.3)
            for weights in (level, steep, step, np.exp(RNG.normal(size=n))):
                assert 1 - 1e-9 <= condition(weights, k, m) <= 1 / (1 - beta) + 1e-9
    # with no more loud entries than places it is larger
    assert condition(np.ones(12), 8, 8) > 20


def test_every_subset_of_a_small_row():
    x, own = RNG.normal(size=(3, 7)), RNG.normal(size=3)
    for k in range(1, 7):
        log, slopes = solved(x, own, k)
        for row in range(3):
            total = [
                sum(
                    math.exp(sum(x[row][i] for i in s))
                    for s in itertools.combinations(range(7), j)
                )
                for j in (k, k - 1)
            ]
            assert log[row] == pytest.approx(
                math.log(total[0] / total[1]) - own[row], abs=1e-13
            )
        assert (slopes > 0).all()


def test_the_loss_does_not_change_where_the_method_does():
    """For nine places the sums over the circle take over; for eight both are there."""
    x, y = RNG.normal(size=(6, 300)) * 2, np.arange(6) * 40
    for k in (1, 5, 8):
        quick = linearize(in_top_k_loss, x, y, k, temperature=0.5)
        other = linearize(in_top_k_loss, x, y, np.full(6, k), temperature=0.5)
        np.testing.assert_allclose(quick.value, other.value, 1e-12)
        one, two = (v.vjp(np.ones(6)) for v in (quick, other))
        np.testing.assert_allclose(one, two, 0, 1e-13)


def test_distances_that_overflow_leave_the_others_alone():
    x = np.concatenate([[1e308, -1e308, -np.inf], RNG.normal(size=60)])
    log, slopes = solved(x, 0.0, 3)
    value, wanted, _, _ = exact(x[3:], 2)  # one place is taken
    assert log == pytest.approx(value, rel=1e-14)
    np.testing.assert_allclose(slopes[3:], wanted, 0, 1e-14)
    assert abs(slopes[:3]).max() <= EPS
    few = np.where(np.arange(64) < 2, 1.0, -np.inf)
    log, slopes = solved(few, 0.0, 3)  # fewer entries than places
    assert log == -np.inf
    assert (slopes == 0).all()
