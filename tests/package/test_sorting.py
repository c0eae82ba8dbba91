"""Soft permutations, sorts and ranks against 50 digits, the theorems, and bad input.

Bounds: eps is the machine epsilon of the result.  Entries of the permutation may be
off by 4 eps, as differences of two shares; a sorted score by 4 eps times the distances
of the scores from it, and its own rounding; a rank by 4 n eps.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import oracle
import pytest
from mpmath import mp, mpf
from rows import tail

import softtopk as stk
from softtopk import linearize, soft_permutation, soft_rank, soft_sort

CURVES = sorted(oracle.CURVES)
DTYPES = (np.float64, np.float32)
every = pytest.mark.parametrize("name", CURVES)
both = pytest.mark.parametrize("dtype", DTYPES)
operators = pytest.mark.parametrize(
    "operator", [soft_permutation, soft_sort, soft_rank], ids=lambda f: f.__name__
)


@pytest.fixture(autouse=True)
def digits():
    """What is made of the reference's numbers has as many digits as they."""
    with mp.workdps(oracle.DIGITS):
        yield


def nested(x, name, tau=1.0):
    """p(0), ..., p(n) of one row of floats, exact to 40 digits."""
    f, slope = oracle.curve(name)
    inner = [oracle.solve(x, j, f, slope, tau) for j in range(1, len(x))]
    n = len(x)
    return [[mpf(0)] * n, *(found.p for found in inner), [mpf(1)] * n], inner


def permutation(x, name, tau=1.0):
    p, _ = nested(x, name, tau)
    return [[b - a for a, b in zip(u, v, strict=True)] for u, v in pairwise(p)]


def ranks(P):
    n = len(P)
    return [mp.fsum((j + 1) * P[j][i] for j in range(n)) for i in range(n)]


def ordered(P, x):
    return [
        mp.fsum(mpf(float(a)) * b for a, b in zip(x, row, strict=True)) for row in P
    ]


def off(found, exact):
    """Absolute errors, as floats."""
    pairs = zip(np.ravel(found), exact, strict=True)
    return np.array([float(abs(mpf(float(a)) - b)) for a, b in pairs])


def rows(dtype):
    """Rows of many scales, with ties, and with an offset."""
    rng = np.random.default_rng(5)
    for n, scale, offset in [
        (1, 1.0, 0.0),
        (2, 1.0, 0.0),
        (5, 1e-3, 0.0),
        (5, 1.0, 1e6),
        (9, 10.0, 0.0),
        (9, 1e3, -1e5),
        (16, 1.0, 0.0),
    ]:
        yield (rng.normal(size=n) * scale + offset).astype(dtype)
    yield np.array([1, 0, 1, 2, 0, 1, -3], dtype)


@every
@both
def test_values_meet_their_bounds(name, dtype):
    eps = float(np.finfo(dtype).eps)
    for x in rows(dtype):
        n, P = len(x), permutation(x, name)
        found = soft_permutation(x, curve=name)
        assert found.dtype == dtype and found.shape == (n, n)
        assert off(found, flat(P)).max() <= 4 * eps
        y = soft_sort(x, name)
        assert y.dtype == dtype
        away = np.abs(x.astype(float) - y[:, None].astype(float)).sum(axis=1)
        assert (off(y, ordered(P, x)) <= eps * (4 * away + np.abs(y))).all()
        r = soft_rank(x, name)
        assert r.dtype == dtype
        assert off(r, ranks(P)).max() <= 4 * n * eps


@every
@both
def test_the_permutation_is_doubly_stochastic_and_holds_the_selections(name, dtype):
    eps = float(np.finfo(dtype).eps)
    x = np.random.default_rng(1).normal(size=(3, 40)).astype(dtype) * 3
    P = soft_permutation(x, curve=name)
    assert (P >= 0).all()
    for axis in (-1, -2):
        sums = P.sum(axis=axis, dtype=float)
        np.testing.assert_allclose(sums, 1, 0, 4 * 40 * eps)
    for k in (1, 7, 39):
        p = stk.soft_topk(x, k, name)
        np.testing.assert_allclose(P[:, :k].sum(axis=1), p, 0, 40 * eps)
        np.testing.assert_array_equal(soft_permutation(x, k, name), P[:, :k])


@every
@both
def test_no_share_of_a_place_is_negative(name, dtype):
    rng = np.random.default_rng(0)
    for n, scale in ((40, 10.0), (200, 5.0), (9, 100.0)):
        x = (rng.normal(size=(20, n)) * scale).astype(dtype)
        assert soft_permutation(x, curve=name).min() >= 0


@every
def test_long_rows_in_single_precision_meet_those_in_double(name):
    n, eps = 1000, float(np.finfo(np.float32).eps)
    rng = np.random.default_rng(1)
    x, g = (rng.normal(size=n).astype(np.float32) for _ in range(2))
    single, double = (linearize(soft_rank, x.astype(t), name) for t in DTYPES[::-1])
    np.testing.assert_allclose(single.value, double.value, 0, n * eps)
    size = np.abs(double.vjp(g)).max()
    np.testing.assert_allclose(single.vjp(g), double.vjp(g), 0, 16 * size * eps)


def is_log_concave(name):
    """Whether the slope is, on a grid: then the theorem says that the sort descends."""
    _, slope = oracle.curve(name)
    w = [slope(mpf(i) / 8) for i in range(-80, 81)]
    triples = zip(w, w[1:], w[2:], strict=False)
    return all(b * b * (1 + mpf(10) ** -30) >= a * c for a, b, c in triples)


@every
def test_the_sort_descends_and_keeps_the_sum(name):
    descends = is_log_concave(name)
    x = np.random.default_rng(2).normal(size=(50, 12))
    for tau in (0.03, 0.3, 3.0, 300.0):
        y = soft_sort(x, name, temperature=tau)
        assert np.diff(y).max() <= 1e-14 or not descends
        np.testing.assert_allclose(y.sum(axis=-1), x.sum(axis=-1), 0, 1e-13)
        P = soft_permutation(x, curve=name, temperature=tau)
        np.testing.assert_allclose(y, np.einsum("rji,ri->rj", P, x), 0, 1e-13)


@every
def test_ranks_keep_the_order_and_sum_to_that_of_the_places(name):
    x = np.sort(np.random.default_rng(3).normal(size=(50, 12)))[:, ::-1]
    for tau in (0.03, 0.3, 3.0, 300.0):
        r = soft_rank(x, name, temperature=tau)
        assert np.diff(r).min() >= -1e-14
        assert r.min() >= 1 and r.max() <= 12
        np.testing.assert_allclose(r.sum(axis=-1), 78, 0, 1e-12)
        P = soft_permutation(x, curve=name, temperature=tau)
        mean = np.einsum("j,rji->ri", np.arange(1, 13), P)
        np.testing.assert_allclose(r, mean, 0, 1e-12)


@every
def test_equal_scores_share_their_places(name):
    x = np.array([2.0, 0.5, 2.0, 0.5, 0.5, -1.0])
    P = soft_permutation(x, curve=name)
    for same in ([0, 2], [1, 3, 4]):
        assert (P[:, same] == P[:, same[:1]]).all()
        assert np.ptp(soft_rank(x, name)[same]) == 0
    np.testing.assert_allclose(
        soft_permutation(np.zeros(4), curve=name), 0.25, 0, 1e-15
    )
    np.testing.assert_allclose(soft_rank(np.zeros(4), name), 2.5, 0, 1e-15)


@every
@both
def test_cold_is_numpy(name, dtype):
    x = np.random.default_rng(4).normal(size=(20, 9)).astype(dtype)
    tau = float(np.min(np.abs(np.diff(np.sort(x))))) / 1000
    order = np.argsort(-x, axis=-1)
    P = soft_permutation(x, curve=name, temperature=tau)
    # A place is the difference of two shares, or of shares that are not resolved.
    tiny = max(2 * 9 * tail(name, 500.0), 0 if dtype == np.float64 else 1e-34)
    np.testing.assert_allclose(P, np.eye(9)[order], 0, tiny)
    y = soft_sort(x, name, temperature=tau)
    np.testing.assert_allclose(y, np.sort(x)[:, ::-1], 0, 9 * tiny * abs(x).max())
    r = soft_rank(x, name, temperature=tau)
    np.testing.assert_allclose(r, np.argsort(order) + 1, 0, 9 * 9 * tiny)
    tied = soft_permutation([3.0, 1.0, 1.0, 0.0], curve=name, temperature=1e-3)
    limit = [[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(tied, limit, 0, 1e-15 + 2 * 4 * tail(name, 500.0))


def jacobians(x, name):
    """dP, d(Px) and dr by their scores, from the slopes of the reference."""
    n, (_, inner) = len(x), nested(x, name)
    zero = [[mpf(0)] * n for _ in range(n)]
    J = [zero, *([found.vjp(e) for e in np.eye(n)] for found in inner), zero]
    P = permutation(x, name)
    step = [
        [[J[j + 1][i][m] - J[j][i][m] for m in range(n)] for i in range(n)]
        for j in range(n)
    ]
    score = [mpf(float(v)) for v in x]
    sort = [
        [
            P[j][m] + mp.fsum(score[i] * step[j][i][m] for i in range(n))
            for m in range(n)
        ]
        for j in range(n)
    ]
    rank = [
        [-mp.fsum(J[j][i][m] for j in range(n + 1)) for m in range(n)] for i in range(n)
    ]
    return step, sort, rank


def flat(nested):
    return [
        v for part in nested for v in (flat(part) if type(part) is list else [part])
    ]


@every
@both
def test_derivatives_meet_the_reference(name, dtype):
    eps = float(np.finfo(dtype).eps)
    rng = np.random.default_rng(6)
    for n, scale in [(2, 1.0), (5, 0.1), (6, 1.0), (6, 5.0)]:
        x = (rng.normal(size=n) * scale).astype(dtype)
        exact = jacobians(x, name)
        size = max(1.0, float(np.ptp(x)))
        for operator, wanted in zip(
            (soft_permutation, soft_sort, soft_rank), exact, strict=True
        ):
            lin = linearize(operator, x, curve=name)
            np.testing.assert_array_equal(lin.value, operator(x, curve=name))
            J = lin.jacobian()
            assert off(J, flat(wanted)).max() <= 8 * n * size * eps
            dense = J.reshape(-1, n).astype(float)
            t = rng.normal(size=n).astype(dtype)
            g = rng.normal(size=lin.value.shape).astype(dtype)
            bound = {"rtol": 0, "atol": 64 * n * size * eps}
            np.testing.assert_allclose(lin.jvp(t).ravel(), dense @ t, **bound)
            np.testing.assert_allclose(lin.vjp(g), g.ravel() @ dense, **bound)


@pytest.mark.parametrize("name", ["exp", "laplace", "sigmoid", "triangular"])
def test_derivatives_are_the_limits_of_exact_differences(name):
    # scores of few bits, so that the moved ones are floats; the quotients of 50-digit
    # values have an error of the order of h^2
    x = np.array([1.25, -0.5, 0.375, 2.0, 1.0])
    t = np.array([0.5, 1.0, -0.25, 0.75, -1.0])
    h = 2.0**-30
    ahead, behind = (permutation(x + s * h * t, name) for s in (1, -1))
    rise = [
        (a - b) / (2 * mpf(h)) for a, b in zip(flat(ahead), flat(behind), strict=True)
    ]
    found = linearize(soft_permutation, x, curve=name).jvp(t)
    assert off(found, rise).max() < 1e-14
    for operator, value in [
        (soft_sort, lambda P, s: ordered(P, x + s * h * t)),
        (soft_rank, lambda P, s: ranks(P)),
    ]:
        pairs = zip(value(ahead, 1), value(behind, -1), strict=True)
        rise = [(a - b) / (2 * mpf(h)) for a, b in pairs]
        assert off(linearize(operator, x, curve=name).jvp(t), rise).max() < 1e-14


@operators
@every
def test_derivatives_of_shifts_are_those_of_the_limit(operator, name):
    x = np.random.default_rng(8).normal(size=7)
    lin = linearize(operator, x, curve=name, temperature=0.5)
    wanted = 1 if operator is soft_sort else 0
    np.testing.assert_allclose(lin.jvp(np.ones(7)), wanted, 0, 1e-13)
    if operator is soft_sort:  # the sorted scores have the sum of the scores
        np.testing.assert_allclose(lin.vjp(np.ones(7)), 1, 0, 1e-13)


@operators
def test_long_jumps_leave_a_permutation_without_slope(operator):
    x = np.array([1e308, -1e308, 3e307, 0.0])
    with np.errstate(over="raise", invalid="raise"):
        value = operator(x)
    order = [0, 2, 3, 1]
    wanted = {
        soft_permutation: np.eye(4)[order],
        soft_sort: x[order],
        soft_rank: [1.0, 4.0, 2.0, 3.0],
    }[operator]
    scale = 1e308 if operator is soft_sort else 1
    np.testing.assert_allclose(value / scale, np.divide(wanted, scale), 0, 1e-300)
    lin = linearize(operator, x)
    slope = np.eye(4)[order] if operator is soft_sort else np.zeros(4)
    np.testing.assert_allclose(lin.jacobian() - slope, 0, 0, 1e-290)


@every
def test_what_takes_no_part_has_no_place(name):
    rng = np.random.default_rng(9)
    x, where = rng.normal(size=(4, 8)), rng.random((4, 8)) < 0.7
    where[0] = True
    P = soft_permutation(x, curve=name, where=where)
    y, r = soft_sort(x, name, where=where), soft_rank(x, name, where=where)
    g = rng.normal(size=(4, 8))
    for i, mask in enumerate(where):
        part, m = x[i, mask], np.count_nonzero(mask)
        inner = soft_permutation(part, curve=name)
        np.testing.assert_allclose(P[i, :m, mask], inner.T, 0, 1e-15)
        assert not P[i, m:].any() and not P[i, :, ~mask].any()
        np.testing.assert_allclose(y[i, :m], soft_sort(part, name), 0, 1e-14)
        assert (y[i, m:] == -np.inf).all()
        np.testing.assert_allclose(r[i, mask], soft_rank(part, name), 0, 1e-13)
        assert not r[i, ~mask].any()
        lin = linearize(soft_sort, x[i], name, where=mask)
        inner = linearize(soft_sort, part, name)
        np.testing.assert_allclose(lin.vjp(g[i])[mask], inner.vjp(g[i, :m]), 0, 1e-13)
        assert not lin.vjp(g[i])[~mask].any() and not lin.jvp(g[i])[m:].any()
        lin = linearize(soft_rank, x[i], name, where=mask)
        inner = linearize(soft_rank, part, name)
        np.testing.assert_allclose(lin.vjp(g[i])[mask], inner.vjp(g[i, mask]), 0, 1e-12)
        assert not lin.vjp(g[i])[~mask].any()
    hidden = np.where(where, x, -np.inf)
    np.testing.assert_array_equal(soft_permutation(hidden, curve=name), P)
    np.testing.assert_array_equal(soft_sort(hidden, name), y)
    np.testing.assert_array_equal(soft_rank(hidden, name), r)


@operators
def test_a_row_that_takes_no_part_has_no_places(operator):
    x = [[1.0, 2.0], [-np.inf, -np.inf]]
    lin = linearize(operator, x)
    empty = -np.inf if operator is soft_sort else 0
    assert (lin.value[1] == empty).all() and np.isfinite(lin.value[0]).all()
    assert not lin.vjp(1.0)[1].any() and not lin.jvp(1.0)[1].any()


def test_the_shape_has_the_batch_first():
    x = np.random.default_rng(10).normal(size=(2, 5, 3))
    P = soft_permutation(x, 4, axis=1)
    assert P.shape == (2, 3, 4, 5)
    np.testing.assert_array_equal(P[1, 2], soft_permutation(x[1, :, 2], 4))
    lin = linearize(soft_permutation, x, 4, axis=1)
    assert lin.jacobian().shape == (2, 3, 4, 5, 5)
    assert lin.jvp(1.0).shape == P.shape
    g = np.random.default_rng(11).normal(size=(4, 5))
    row = linearize(soft_permutation, x[1, :, 2], 4)
    np.testing.assert_array_equal(lin.vjp(g)[1, :, 2], row.vjp(g))


def test_an_entropy_of_order_three_halves_sorts_too():
    curve = stk.curves.entmax(1.5)
    x = np.array([1.0, 0.3, -0.2, 0.9])
    f, slope = oracle.curve("entmax", 1.5)
    p = [[mpf(0)] * 4]
    p += [oracle.solve(x, j, f, slope).p for j in (1, 2, 3)] + [[mpf(1)] * 4]
    P = [b - a for u, v in pairwise(p) for a, b in zip(u, v, strict=True)]
    assert off(soft_permutation(x, curve=curve), P).max() < 1e-14


@operators
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"x": [1.0, np.nan]}, ValueError, "x must be finite or -inf"),
        ({"x": [1.0, np.inf]}, ValueError, "x must be finite or -inf"),
        ({"x": [1j]}, TypeError, "x must hold real"),
        ({"x": []}, ValueError, "x must have at least one"),
        ({"temperature": 0.0}, ValueError, "temperature"),
        ({"axis": 1}, ValueError, "axis"),
        ({"where": [1, 0]}, TypeError, "where"),
        ({"where": [True] * 3}, ValueError, "where"),
        ({"curve": "bell"}, ValueError, "curve"),
    ],
)
def test_errors_name_the_argument(operator, given, error, message):
    with pytest.raises(error, match=message):
        operator(**{"x": [1.0, 0.0]} | given)


def test_errors_of_places_and_cotangents():
    for places in (0, 3, -1):
        with pytest.raises(ValueError, match=r"places must lie in \[1, 2\]"):
            soft_permutation([1.0, 0.0], places)
    for places in (1.5, True, "1"):
        with pytest.raises(TypeError, match="places must be an integer or None"):
            soft_permutation([1.0, 0.0], places)
    lin = linearize(soft_permutation, [1.0, 0.0, 2.0], 2)
    with pytest.raises(ValueError, match=r"cotangent must broadcast to shape \(2, 3\)"):
        lin.vjp(np.ones((3, 2)))
    with pytest.raises(ValueError, match="tangent must broadcast"):
        lin.jvp(np.ones(2))
