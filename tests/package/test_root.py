"""The search from sums over a row alone, for every curve."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import scores

import softtopk as stk
from softtopk.curves import Curve


class Cauchy(Curve):
    """Heavy tails: brackets are wide."""

    name = "cauchy"

    def value(self, t):
        t = np.asarray(t)
        return np.arctan2(1, -t) / np.pi

    def slope(self, t):
        return 1 / (np.pi * (1 + np.square(t)))


class Gauss(Curve):
    """Counts how often it is asked."""

    name = "gauss"
    asked = 0

    def value(self, t):
        self.asked += 1
        return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))

    def complement(self, t):
        return self.value(-np.asarray(t))

    def slope(self, t):
        return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)

    def inverse(self, p):
        return np.vectorize(NormalDist().inv_cdf)(p)


def test_a_curve_that_names_its_noise_is_solved_from_near():
    x = np.random.default_rng(6).normal(size=400)
    plain, named = Gauss(), Gauss()
    named.noise = (0.0, 1.0)  # and so a mean of 5 and a deviation of 20:
    for k in (4, 40.5, 200):
        np.testing.assert_allclose(
            stk.soft_topk(x, k, named.scaled(0.05).shifted(-5.0)),
            stk.soft_topk(x, k, plain.scaled(0.05).shifted(-5.0)),
            rtol=0,
            atol=1e-14,
        )
    assert named.asked < plain.asked


class Stairs(Curve):
    """Slope that jumps, and a flat part in the middle: lambda is not unique."""

    name = "stairs"
    support = (-2.0, 2.0)

    def value(self, t):
        return np.interp(t, [-2, -1, 1, 2], [0, 0.5, 0.5, 1])

    def slope(self, t):
        size = np.abs(t)
        return 0.5 * ((size > 1) & (size < 2))


class Lopsided(Curve):
    """Fast below, slow above, centred far from 0."""

    name = "lopsided"

    def value(self, t):
        return np.exp(-np.exp(-(np.clip(t, -600, 600) - 30)))

    def slope(self, t):
        t = np.clip(t, -600, 600) - 30
        return np.exp(-t - np.exp(-t))


@pytest.mark.parametrize(
    "curve",
    [
        Cauchy(),
        Stairs(),
        Lopsided(),
        stk.curves.EXP.reflected(),
        stk.curves.LAPLACE.scaled(3.0),
        stk.curves.CLIP.shifted(-5.0),
    ],
    ids=lambda c: c.name,
)
@given(data=st.data())
def test_any_curve_is_solved(curve, data):
    x = data.draw(scores(np.float64, st.floats(-1e3, 1e3), least=2))
    k = data.draw(st.integers(1, len(x) - 1) | st.floats(0.01, len(x) - 0.01))
    p = stk.soft_topk(x, k, curve)
    assert np.all((p >= 0) & (p <= 1))
    # The values of these curves carry a few eps each, of 1 and not of themselves.
    assert abs(p.sum() - k) <= 16 * len(x) * np.finfo(float).eps


class Roots(Curve):
    """Newton's steps go back and forth across the steep middle for ever."""

    name = "roots"
    support = (-1.0, 3.0)

    def value(self, t):
        low, high = np.clip(-t, 0, 1), np.clip(t, 0, 3)
        return 0.5 - 0.5 * np.sqrt(low) + 0.5 * np.sqrt(high / 3)

    def slope(self, t):
        size = np.where(t < 0, 1, 3) * np.maximum(np.abs(t), 1e-12)
        return np.where((t > -1) & (t < 3), 0.25 / np.sqrt(size), 0)


def test_steps_that_do_not_settle_give_way_to_bisection():
    x = np.array([[0.0, -10.0, -20.0], [-30.0, 5.0, -10.0]])
    for k in (0.5005, 0.501, 1.4995):
        p = stk.soft_topk(x, k, Roots())
        # f' is about 500 at the root, and so often counts the rounding of x - lambda.
        np.testing.assert_allclose(p.sum(axis=-1), k, rtol=0, atol=500 * 16 * 2.0**-52)
        np.testing.assert_array_equal(stk.soft_topk(x[1], k, Roots()), p[1])


class Timid(Curve):
    """A slope that is far too large, so that every step is far too short."""

    name = "timid"

    def value(self, t):
        return stk.curves.SIGMOID.value(t)

    def slope(self, t):
        return 50 * stk.curves.SIGMOID.slope(t)


def test_rows_ask_for_their_own_brackets_after_others_are_done():
    x = np.array([1.0, 0.0, -1.0])
    k = np.array([1.5, 1.5, 0.01, 2.995])  # the first two are done at the start
    p = stk.soft_topk(x, k, Timid())
    exact = stk.soft_topk(x, k, "sigmoid")
    # A last step of 8 eps (1 + |t|) leaves 50 times as much, and here f' < 0.007.
    np.testing.assert_allclose(p, exact, rtol=0, atol=32 * np.finfo(float).eps)
