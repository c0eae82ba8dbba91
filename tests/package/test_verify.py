"""The references that the chapters share agree with one another.

Each is written in its own way, so that a slip in one of them shows here.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from softtopk import curves, verify

TINY = mp.mpf(10) ** -48


def sigmoid(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t))


def test_the_formulas_of_the_curves_are_curves_of_the_package() -> None:
    t = sp.Symbol("t", real=True)
    grid = np.arange(-24, 25) / 8
    for name, pieces in verify.curve_formulas(t).items():
        drawn = sp.lambdify(t, verify.joined(pieces, t))(grid)
        assert np.abs(drawn - curves.resolve(name).value(grid)).max() <= 2.0**-52


def test_the_clip_by_fractions_and_by_bisection() -> None:
    def clip(t: mp.mpf) -> mp.mpf:
        return min(mp.mpf(1), max(mp.mpf(0), t))

    for x, k in verify.threshold_cases():
        p = verify.clip_topk(x, k)
        low, high = verify.clip_interval(x, k)
        ends = [[min(max(v - end, 0), 1) for v in x] for end in (low, high)]
        assert sum(p) == k and ends == [p, p]
        lam, found = verify.solve_threshold(clip, x, sp.sympify(k))
        assert verify.distance(found, p) < TINY
        with mp.workdps(60):
            assert verify.precise(low) - TINY <= lam <= verify.precise(high) + TINY


def test_entmax_by_bisection_and_in_exact_cases() -> None:
    cases = verify.entmax_cases()
    assert {m for m, _, _ in cases} == {1, 2, 3, 4}
    for m, x, p in cases:
        assert sum(p) == 1
        if len(x) > 1:
            found = verify.entmax_50(x, 1 + Fraction(1, m))
            assert verify.distance(found, p) < TINY
        if m == 1:
            assert verify.exact_sparsemax(x)[1] == p


def test_uniform_noise_of_two_scores() -> None:
    for d in (Fraction(v, 4) for v in range(5)):  # by the area of a triangle
        p = verify.uniform_shares([sp.Rational(d), sp.S.Zero])
        assert p == [1 - sp.Rational((1 - d) ** 2) / 2, sp.Rational((1 - d) ** 2) / 2]
    for scores in product((0, sp.Rational(1, 3), sp.Rational(3, 2)), repeat=3):
        assert sum(verify.uniform_shares(list(map(sp.sympify, scores)))) == 1


def test_the_programs_of_gradtopk() -> None:
    for x, k in verify.subset_cases():
        _, wanted = verify.subset_marginals(x, k)
        with mp.workdps(50):
            shares = verify.inclusion([mp.exp(mp.mpf(float(v))) for v in x], k)
        assert verify.distance(shares, wanted) < TINY
        if np.ptp(x) < 60:
            pi, rest = sigmoid(x - x.mean()), sigmoid(x.mean() - x)
            assert verify.share_error(verify.coin_dp(pi, rest, k), wanted) < 1e-12
            assert verify.share_error(verify.log_dp(x, k), wanted) < 1e-12
            if verify.amplification(x, k) < 8:
                assert verify.share_error(verify.recursion(x, k), wanted) < 1e-11
    assert verify.share_error(verify.recursion([40, 0, -1], 2), [1, 0.7, 0.3]) > 0.5


@pytest.mark.parametrize("k", [1, 2, 3])
def test_subsets_and_coins(k: int) -> None:
    weights = [sp.Integer(v) for v in (5, 2, 1)]
    sets, law, z = verify.subset_law(weights, k)
    assert z == verify.elementary(k, weights) and sum(law) == 1
    pairs = list(zip(sets, law, strict=True))
    marginals = [sum(q for chosen, q in pairs if i in chosen) for i in range(3)]
    assert marginals == verify.inclusion(weights, k)
    chances = [w / (1 + w) for w in weights]
    normaliser = sp.prod([1 + w for w in weights])
    assert verify.coin_law(chances)[k] == z / normaliser
    pi = np.array(chances, dtype=float)
    table = verify.coin_table(pi, 1 - pi, 3)
    assert abs(table[-1, k] - float(z / normaliser)) < 1e-15
    logs = verify.log_prefixes(np.log([5.0, 2.0, 1.0]), 3)
    assert abs(np.exp(logs[-1, k]) - float(z)) < 1e-13


def test_order_types_and_ties() -> None:
    types = list(verify.order_types())
    assert len(types) == 1114
    assert sum(verify.separated(x, k) for x, k in types) == 764
    assert verify.bump((2, 1), 0, -1) == [1, 1]


def test_a_dual_number_has_the_derivative_of_its_formula() -> None:
    t = sp.Symbol("t")
    formula = (t * t * 3 + t + 2) / (t + 5) / 2
    a = verify.Dual(sp.Rational(7, 2), 1)
    found = (a * a * 3 + a + 2) / (a + 5) / 2
    assert found.value == formula.subs(t, a.value)
    assert found.slope == formula.diff(t).subs(t, a.value)
