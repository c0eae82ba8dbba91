"""The reference itself against closed forms that need no solver."""

import numpy as np
import oracle
import pytest
from mpmath import mp, mpf

X = [1.5, -0.25, 0.75, 1.5, -3.0]


def test_exp_with_one_is_softmax():
    f, slope = oracle.curve("exp")
    found = oracle.solve(X, 1, f, slope)
    with mp.workdps(50):
        total = mp.fsum(mp.exp(mpf(v)) for v in X)
        assert abs(found.threshold - mp.log(total)) < mpf(10) ** -38
        for p, v in zip(found.p, X, strict=True):
            assert abs(p - mp.exp(mpf(v)) / total) < mpf(10) ** -38
        jacobian = [
            [a * ((i == j) - b) for j, b in enumerate(found.p)]
            for i, a in enumerate(found.p)
        ]
        for j in range(len(X)):
            column = found.vjp(np.eye(len(X))[j])
            for i in range(len(X)):
                assert abs(column[i] - jacobian[i][j]) < mpf(10) ** -38


@pytest.mark.parametrize("name", ["laplace", "sigmoid", "triangular"])
def test_a_symmetric_curve_halves_a_pair(name):
    found = oracle.solve([2.0, 0.0], 1, *oracle.curve(name), temperature=1.5)
    assert abs(found.threshold - 1) < mpf(10) ** -38


def test_clip_is_linear_between_breakpoints():
    found = oracle.solve([0.5, 0.25, 0.0], 1, *oracle.curve("clip"))
    # sum (x - l) = 0.75 - 3 l = 1
    with mp.workdps(50):
        assert abs(found.threshold + mpf(1) / 12) < mpf(10) ** -38


def test_entmax_two_is_clip_shifted():
    one = oracle.solve(X, 2.5, *oracle.curve("entmax", 2.0))
    two = oracle.solve(X, 2.5, *oracle.curve("clip"))
    for p, q in zip(one.p, two.p, strict=True):
        assert abs(p - q) < mpf(10) ** -38


def test_a_wide_gap_is_resolved():
    found = oracle.solve([200.0, 0.0, -1.0], 1, *oracle.curve("laplace"))
    with mp.workdps(200):
        # e^-(200 - l) = e^-l (1 + 1/e)
        exact = 100 + mp.log(1 + mp.exp(-1)) / 2
        assert abs(found.threshold - exact) < mpf(10) ** -38


@pytest.mark.parametrize("name", list(oracle.CURVES))
def test_slopes_are_derivatives(name):
    f, slope = oracle.curve(name)
    for t in (-0.875, -0.375, 0.375, 0.875, 1.5):
        assert abs(mp.diff(f, mpf(t)) - slope(mpf(t))) < mpf(10) ** -8
