"""Two budgets against 50 digits, linear programming, theory, and bad input."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import numpy as np
import oracle_balance as oracle
import pytest
from mpmath import mpf
from oracle_balance import off, skewed
from rows import has_heavy_tails, has_potential
from scipy.optimize import linprog

import softtopk as stk
from softtopk import balanced_topk
from softtopk.curves import NAMED

NAMES = tuple(NAMED)
every = pytest.mark.parametrize("name", NAMES)
integrated = pytest.mark.parametrize(
    "name", [name for name in NAMES if has_potential(NAMED[name])]
)
smooth = pytest.mark.parametrize("name", ["exp", "laplace", "sigmoid"])
TEMPERATURES = (1.0, 0.3, 0.1)


@smooth
@pytest.mark.parametrize("tau", TEMPERATURES)
@pytest.mark.parametrize(("m", "n", "k"), [(8, 4, 2), (64, 16, 4), (16, 64, 8.5)])
def test_budgets_are_met_to_twelve_digits(name, tau, m, n, k):
    for seed in range(3):
        P = balanced_topk(skewed(m, n, seed), k, curve=name, temperature=tau)
        assert P.min() >= 0 and P.max() <= 1
        assert off(P, k, m * k / n) < 1e-13


@smooth
@pytest.mark.parametrize("tau", TEMPERATURES)
def test_shares_and_products_meet_50_digits(name, tau):
    S = skewed(5, 4, 3)
    k, c = np.array([1.0, 2.0, 1.5, 0.5, 1.0]), np.array([2.0, 0.5, 2.5, 1.0])
    exact = oracle.solve(S, k, c, name, tau)
    lin = stk.linearize(balanced_topk, S, k, c, curve=name, temperature=tau)
    assert distance(lin.value, exact.p) < 1e-13
    rng = np.random.default_rng(1)
    for _ in range(3):
        G = rng.normal(size=S.shape)
        expected = exact.product(G)
        size = float(max(abs(v) for row in expected for v in row))
        for apply in (lin.vjp, lin.jvp):
            assert distance(apply(G), expected) < 1e-12 * size


def distance(found, exact):
    pairs = zip(found.ravel(), (v for row in exact for v in row), strict=True)
    return max(float(abs(mpf(float(a)) - b)) for a, b in pairs)


@integrated
@pytest.mark.parametrize("tau", [3.0, 1.0, 0.1, 0.03])
def test_no_other_shares_with_these_sums_are_better(name, tau):
    S, curve = skewed(9, 6, 5), stk.curves.resolve(name)

    def objective(P):
        return (S * P).sum() - tau * curve.regulariser(P).sum()

    P = balanced_topk(S, 2, curve=name, temperature=tau)
    assert off(P, 2, 3) < 1e-12
    others = [balanced_topk(T, 2, temperature=0.1) for T in (-S, skewed(9, 6, 6))]
    for Q in others:
        assert objective(P) > objective(Q)
        for share in (1e-1, 1e-2, 1e-3):
            assert objective(P) > objective(P + share * (Q - P)) - 1e-13


@integrated
def test_the_limit_is_linear_programming(name):
    """The value is within temperature times the regulariser's range of the best."""
    curve = stk.curves.resolve(name)
    widest = np.ptp(curve.regulariser(np.linspace(0, 1, 1001)))
    for m, n, k in ((6, 6, 1), (8, 4, 2), (9, 3, 1)):
        S = skewed(m, n, m)
        c = np.full(n, m * k / n)
        best = -linear(S, np.full(m, k), c).fun
        losses = []
        for tau in (0.3, 0.1, 0.03):
            P = balanced_topk(S, k, curve=name, temperature=tau)
            losses.append(best - (S * P).sum())
            assert -1e-10 <= losses[-1] <= tau * m * n * widest
        assert all(b <= a + 1e-12 for a, b in pairwise(losses))
        assert losses[-1] < 0.05 * abs(best)


def linear(S, k, c):
    """The best assignment, by SciPy."""
    m, n = S.shape
    sums = np.vstack([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
    return linprog(-S.ravel(), A_eq=sums, b_eq=np.r_[k, c], bounds=(0, 1))


def test_low_temperatures_give_the_best_assignment():
    for seed in range(5):
        S = skewed(8, 4, seed)
        best = linear(S, np.full(8, 2), np.full(4, 4.0))
        for name in ("laplace", "sigmoid", "clip"):
            P = balanced_topk(S, 2, curve=name, temperature=1e-3)
            assert abs(P - best.x.reshape(8, 4)).max() < 1e-6


def test_without_a_cap_that_binds_exp_is_sinkhorn():
    S = skewed(12, 6)
    P = balanced_topk(S, 1, curve="exp", temperature=2.0)
    assert P.max() < 1
    Q = np.exp(S / 2)
    for _ in range(300):
        Q /= Q.sum(axis=1, keepdims=True)
        Q /= Q.sum(axis=0, keepdims=True) / 2
    np.testing.assert_allclose(P, Q, rtol=1e-12)


@every
def test_one_column_budget_that_does_not_bind_changes_nothing(name):
    """The loads of soft_topk itself ask for no second threshold."""
    S = skewed(20, 5)
    p = stk.soft_topk(S, 2, name, temperature=0.7)
    P = balanced_topk(S, 2, p.sum(axis=0), name, temperature=0.7)
    np.testing.assert_allclose(P, p, atol=1e-13)


@smooth
def test_the_derivative_is_that_of_the_shares(name):
    S = skewed(7, 5, 4)
    lin = stk.linearize(balanced_topk, S, 2, curve=name, temperature=0.5)
    rng = np.random.default_rng(0)
    T, G = rng.normal(size=(2, *S.shape))
    h = 1e-5
    ends = [
        balanced_topk(S + s * h * T, 2, curve=name, temperature=0.5) for s in (1, -1)
    ]
    slope = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(lin.jvp(T), slope, atol=1e-8)
    assert abs((G * lin.jvp(T)).sum() - (lin.vjp(G) * T).sum()) < 1e-13
    J = lin.jacobian()
    assert J.shape == (35, 35)
    np.testing.assert_allclose(J @ T.ravel(), lin.jvp(T).ravel(), atol=1e-13)
    # sums stay, and what a row or a column has in common does not matter
    for axis in (0, 1):
        np.testing.assert_allclose(lin.jvp(T).sum(axis=axis), 0, atol=1e-13)
    common = rng.normal(size=(7, 1)) + rng.normal(size=5)
    np.testing.assert_allclose(lin.jvp(common), 0, atol=1e-13)


@every
def test_a_graph_in_parts_has_a_derivative(name):
    """Two blocks that share no entry: the null space is of dimension two."""
    S = np.full((6, 4), -np.inf)
    S[:3, :2], S[3:, 2:] = skewed(3, 2, 1), skewed(3, 2, 2)
    c = [1.0, 2.0, 1.5, 1.5]
    lin = stk.linearize(balanced_topk, S, 1, c, name, temperature=0.8)
    parts = [
        stk.linearize(
            balanced_topk, S[rows, columns], 1, c[columns], name, temperature=0.8
        )
        for rows, columns in ((slice(3), slice(2)), (slice(3, 6), slice(2, 4)))
    ]
    G = np.random.default_rng(2).normal(size=S.shape)
    expected = np.zeros_like(S)
    expected[:3, :2] = parts[0].vjp(G[:3, :2])
    expected[3:, 2:] = parts[1].vjp(G[3:, 2:])
    np.testing.assert_allclose(lin.vjp(G), expected, atol=1e-12)
    assert (lin.value[:3, 2:] == 0).all()


def test_flat_shares_have_no_derivative():
    """The shares of a cold clip are 0 and 1: all weights vanish."""
    S = np.array([[3.0, 0.0], [0.0, 3.0], [4.0, 0.0], [0.0, 4.0]])
    lin = stk.linearize(balanced_topk, S, 1, curve="clip", temperature=0.1)
    np.testing.assert_array_equal(lin.value, S > 0)
    np.testing.assert_array_equal(lin.vjp(S), 0 * S)


@every
def test_masks(name):
    rng = np.random.default_rng(3)
    S, where = skewed(12, 5), rng.random((12, 5)) < 0.7
    where[:, 0] = True
    k = np.where(where.sum(axis=1) > 1, 1.0, 0.5)
    c = stk.soft_topk(rng.normal(size=S.shape), k, "sigmoid", where=where).sum(axis=0)
    P = balanced_topk(S, k, c, name, temperature=0.5, where=where)
    assert (P[~where] == 0).all()
    assert off(P, k, c) < 1e-12
    np.testing.assert_array_equal(
        P, balanced_topk(np.where(where, S, -np.inf), k, c, name, temperature=0.5)
    )
    lin = stk.linearize(balanced_topk, S, k, c, name, temperature=0.5, where=where)
    assert (lin.vjp(S)[~where] == 0).all()


def test_budgets_that_leave_no_choice():
    S = skewed(4, 3)
    P = balanced_topk(S, [3, 0, 1, 0], [1, 1, 2])
    np.testing.assert_array_equal(P, [[1, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(balanced_topk(S, 3), np.ones((4, 3)))
    np.testing.assert_array_equal(balanced_topk(S, 0), np.zeros((4, 3)))
    lin = stk.linearize(balanced_topk, S, [3, 0, 1, 0], [1, 1, 2])
    np.testing.assert_array_equal(lin.vjp(S), np.zeros((4, 3)))
    # three rows that fill the two columns they may use
    where = np.ones((6, 4), bool)
    where[:3, 2:] = False
    P = balanced_topk(skewed(6, 4), [2, 2, 2, 1, 1, 0], [3, 3, 1, 1], where=where)
    np.testing.assert_array_equal(P[:3], np.repeat([[1.0, 1, 0, 0]], 3, axis=0))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not has_heavy_tails(NAMED[name])]
)
def test_a_budget_that_is_just_met_is_met(name):
    """Half of the rows fill their columns: the thresholds run off.

    Under tails that fall like a power they would have to run 10^6 temperatures.
    """
    S = skewed(40, 10)
    S[:20, 5:] = -np.inf
    k, c = np.repeat([2.0, 1.0], 20), np.repeat([8.0, 4.0], 5)
    P = balanced_topk(S, k, c, name, temperature=0.5)
    assert off(P, k, c) < 1e-12
    assert P[20:, :5].max() < 1e-12


@every
@pytest.mark.parametrize("room", [7.9, 7.5])
def test_budgets_that_do_not_fit(name, room):
    S = skewed(40, 10)
    S[:20, 5:] = -np.inf
    k, c = np.repeat([2.0, 1.0], 20), np.repeat([room, 12 - room], 5)
    with pytest.raises(ValueError, match=f"20 of the rows need 40, .* {5 * room:g}$"):
        balanced_topk(S, k, c, name, temperature=0.5)


def test_whole_budgets_fit_where_no_set_of_rows_asks_for_too_much():
    """All 32 sets of five rows, random masks."""
    rng, verdicts = np.random.default_rng(1), []
    for _ in range(200):
        part = rng.random((5, 4)) < 0.6
        part[np.arange(5), rng.integers(0, 4, 5)] = True
        k = rng.integers(1, 3, 5).clip(max=part.sum(axis=1))
        c = np.bincount(rng.integers(0, 4, k.sum()), minlength=4)
        if (c > part.sum(axis=0)).any():
            continue
        fits = all(
            k[rows].sum() <= np.minimum(c, part[rows].sum(axis=0)).sum()
            for rows in np.array(list(product([False, True], repeat=5)))
        )
        verdicts.append(fits)
        S = rng.normal(size=(5, 4))
        if fits:
            P = balanced_topk(S, k, c, where=part)
            np.testing.assert_allclose(P.sum(axis=1), k, rtol=1e-12)
            np.testing.assert_allclose(P.sum(axis=0), c, atol=1e-12)
        else:
            with pytest.raises(ValueError, match="no shares in"):
                balanced_topk(S, k, c, where=part)
    assert min(verdicts.count(True), verdicts.count(False)) > 10


def test_no_mask_is_needed_for_budgets_not_to_fit():
    match = "1 of the rows need 1.9, and the columns can give them 1.1"
    with pytest.raises(ValueError, match=match):
        balanced_topk(np.zeros((2, 2)), [1.9, 0.1], [1.9, 0.1])
    with pytest.raises(ValueError, match="both 0 and 1"):
        balanced_topk(np.zeros((3, 2)), [2, 0, 0], [0, 2])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"columns": [1, 1, 1]}, ValueError, "same sum, got 4 and 3"),
        ({"columns": [5, -1, 0]}, ValueError, r"columns must lie in \[0, 4\]"),
        ({"columns": [1, 1]}, ValueError, r"columns must broadcast to shape \(3,\)"),
        ({"k": [1, 1]}, ValueError, r"k must broadcast to shape \(4,\)"),
        ({"k": 4}, ValueError, r"k must lie in \[0, 3\]"),
        ({"k": "all"}, TypeError, "k must be a real number"),
        ({"k": np.nan}, ValueError, "k must lie in"),
        ({"axes": 0}, TypeError, "axes must be two integers"),
        ({"axes": (0, 0)}, ValueError, "twice"),
        ({"axes": (0, 2)}, ValueError, r"axis must lie in"),
        ({"curve": "step"}, ValueError, "curve must be one of"),
        ({"temperature": 0.0}, ValueError, "temperature must be finite and above 0"),
        ({"rounds": 0}, ValueError, "rounds must be finite and at least 1"),
        ({"S": [[np.nan] * 3] * 4}, ValueError, "S must be finite or -inf"),
        ({"S": [1.0, 2.0]}, ValueError, "axis must lie in"),
    ],
)
def test_bad_arguments(options, error, match):
    given = {"S": skewed(4, 3), "k": 1} | options
    with pytest.raises(error, match=match):
        balanced_topk(given.pop("S"), given.pop("k"), **given)


def test_too_few_rounds_are_said():
    S = skewed(8, 4)
    with pytest.warns(RuntimeWarning, match=r"took 1 rounds and has columns") as seen:
        P = balanced_topk(S, 2, temperature=0.1, rounds=1)
    assert seen[0].filename == __file__
    np.testing.assert_allclose(P.sum(axis=1), 2, rtol=1e-14)
    said = float(str(seen[0].message).split("up to ")[1].split()[0])
    assert abs(abs(P.sum(axis=0) / 4 - 1).max() - said) < 0.06 * said
    with pytest.warns(RuntimeWarning, match="has k still off"):
        P = balanced_topk(S.T, 4, temperature=0.1, rounds=1)
    np.testing.assert_allclose(P.sum(axis=0), 2, rtol=1e-14)


@pytest.mark.parametrize("axes", [(1, 3), (3, 1), (-1, 0), (2, 0)])
def test_axes_and_batches(axes):
    S = np.random.default_rng(1).normal(size=(3, 5, 4, 6))
    k = np.linspace(0.5, 1.5, S.shape[axes[0]])
    P = balanced_topk(S, k, axes=axes, temperature=0.5)
    front = np.moveaxis(S, axes, (-2, -1))
    expected = [
        balanced_topk(one, k, temperature=0.5)
        for one in front.reshape(-1, *front.shape[-2:])
    ]
    expected = np.moveaxis(np.reshape(expected, front.shape), (-2, -1), axes)
    np.testing.assert_allclose(P, expected, atol=1e-14)
    lin = stk.linearize(balanced_topk, S, k, axes=axes, temperature=0.5)
    pulled = np.moveaxis(lin.vjp(S), axes, (-2, -1))[1, 2]
    alone = stk.linearize(balanced_topk, front[1, 2], k, temperature=0.5)
    np.testing.assert_allclose(pulled, alone.vjp(front[1, 2]), atol=1e-13)


def test_each_matrix_of_a_batch_has_its_budgets():
    S = np.random.default_rng(1).normal(size=(2, 6, 3))
    k, c = [[1.0], [2.0]], [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]
    P = balanced_topk(S, k, c)
    np.testing.assert_allclose(P.sum(axis=1), c, rtol=1e-13)
    np.testing.assert_allclose(P.sum(axis=2), np.repeat(k, 6, axis=1), rtol=1e-13)


def test_types_and_empty_batches():
    S = skewed(6, 3).astype(np.float32)
    P = balanced_topk(S, 1)
    assert P.dtype == np.float32
    np.testing.assert_array_equal(P, balanced_topk(S.astype(float), 1).astype("f4"))
    assert balanced_topk(np.zeros((0, 3, 2)), 1).shape == (0, 3, 2)
    lin = stk.linearize(balanced_topk, S, 1)
    assert lin.vjp(S).dtype == np.float32


def test_a_curve_of_ones_own():
    class Root(stk.curves.Curve):
        name = "root"

        def value(self, t):
            t = np.asarray(t)
            with np.errstate(invalid="ignore"):
                r = t / np.sqrt(1 + t * t)
            return 0.5 + 0.5 * np.where(np.isinf(t), np.sign(t), r)

        def slope(self, t):
            return 0.5 * (1 + np.square(t)) ** -1.5

    P = balanced_topk(skewed(10, 4), 2, curve=Root(), temperature=0.5)
    assert off(P, 2, 5) < 1e-12


def test_a_share_at_a_kink_is_found():
    """The weight of one entry jumps from 0 to 1 where the budgets are met."""
    S, k = skewed(5, 4, 3), np.array([1.0, 2.0, 1.5, 0.5, 1.0])
    P = balanced_topk(S, k, [2.0, 0.5, 2.5, 1.0], "exp", temperature=0.1)
    assert 1e-7 < 1 - P.max() < 1e-6


@every
def test_low_temperatures_end_quietly(name):
    for tau in (0.03, 0.01, 1e-3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            P = balanced_topk(skewed(64, 16), 4, curve=name, temperature=tau)
        assert off(P, 4, 16) < 1e-15 * (100 + 20 / tau) * 16
