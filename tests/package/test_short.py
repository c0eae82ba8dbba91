"""Rows with fewer entries than places, of which all are taken."""

import numpy as np
import pytest

import softtopk as stk

INF = np.inf
X = np.array([[3.0, 1.0, 2.0, 0.5], [1.0, -INF, 2.0, -INF], [-INF] * 4])
TAKEN = X > -INF
BUDGETED = {
    "soft_topk": {},
    "top_k": {},
    "grad_topk": {},
    "sparse_softmax": {},
    "sample_topk": {"rng": 0},
}


@pytest.mark.parametrize("name", BUDGETED)
def test_a_row_with_too_few_entries_gives_all_of_them(name):
    operator, more = getattr(stk, name), BUDGETED[name]
    count = TAKEN.sum(axis=-1)
    for k in (3, np.array([1, 2, 1]), np.array([4, 9, 7])):
        found = operator(X, k, **more, empty="all")
        lowered = np.where(count > 0, np.minimum(k, count), 1)
        expected = operator(X, lowered, **more, empty="zeros")
        np.testing.assert_array_equal(found, expected)
        assert (found[2] == 0).all()
        if name != "sparse_softmax":
            wanted = np.minimum(k, count)
            np.testing.assert_allclose(found.sum(axis=-1), wanted, 1e-14)
    with pytest.raises(ValueError, match=r"k must lie in \[0, 2\]"):
        operator(X, 3, **more, empty="zeros")
    for k, words in ((-1, "k must"), (np.nan, "k must")):
        with pytest.raises(ValueError, match=words):
            operator(X, k, **more, empty="all")


def test_its_derivatives_are_zero():
    lin = stk.linearize(stk.soft_topk, X, 3, empty="all")
    alone = stk.linearize(stk.soft_topk, X[0], 3)
    np.testing.assert_array_equal(lin.vjp(np.eye(4)[:3])[0], alone.vjp(np.eye(4)[0]))
    assert (lin.vjp(np.ones((3, 4)))[1:] == 0).all()
    assert (lin.dk[1:] == 0).all()


def test_a_mask_and_several_axes():
    x = np.arange(12.0).reshape(3, 4)
    where = x % 3 == 0
    p = stk.soft_topk(x, 7, where=where, axis=None, empty="all")
    assert (p == where).all()
    hard = stk.top_k(x, 2, where=where, ties="first", empty="all")
    assert (hard.sum(axis=-1) == np.minimum(where.sum(axis=-1), 2)).all()
    assert (stk.top_k(x, INF, where=where, empty="all") == where).all()


def test_a_budget_above_the_sum_of_the_costs():
    cost = np.array([1.0, 2.0, 4.0, 0.3])
    for operator in (stk.soft_topk, stk.top_k):
        found = operator(X, 6.9, cost=cost, empty="all")
        np.testing.assert_array_equal(found[1:], [[1, 0, 1, 0], [0] * 4])
        np.testing.assert_array_equal(found[0], operator(X[0], 6.9, cost=cost))
        whole = operator(X, 1e9, cost=cost, empty="all")
        np.testing.assert_allclose(whole, TAKEN, 0, 1e-15)  # a few eps, as costs allow
