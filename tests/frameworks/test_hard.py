"""What a dispatch takes: exactly k entries of a row, and their indices in order."""

import numpy as np
import pytest

import softtopk as stk

RNG = np.random.default_rng(5)
TIED = RNG.integers(-2, 3, (50, 9)).astype(float)
TIED[TIED == -2] = -0.0  # which equals 0
MASK = RNG.random(TIED.shape) < 0.8


def order_of(x):
    """Places by descending score, then by place: sorted by Python."""
    return np.array([sorted(range(len(r)), key=lambda i: (-r[i], i)) for r in x])


@pytest.mark.parametrize(("k", "short"), [(0, False), (4, False), (4, True)])
def test_the_first_of_equal_scores_are_selected(lib, k, short):
    x = lib.cast(lib.array(TIED), lib.bfloat16) if short else lib.array(TIED)
    expected = np.zeros(TIED.shape)
    np.put_along_axis(expected, order_of(TIED)[:, :k], 1, axis=-1)
    assert (stk.top_k(TIED, k, ties="first") == expected).all()
    budgets = lib.array(np.full(50, k))
    for f in (lib.ops.top_k, lib.ops.top_k_st):
        for budget in (k, budgets):
            found = f(x, budget, ties="first")
            assert found.dtype == x.dtype
            assert (lib.numpy(found) == expected).all()
    shared = lib.numpy(lib.ops.top_k(x, k))
    assert abs(shared - stk.top_k(TIED, k)).max() <= (2.0**-9 if short else 0)
    assert k in (0, 9) or ((shared > 0) & (shared < 1)).any()


def test_each_row_has_a_budget_and_a_mask(lib):
    k = np.minimum(RNG.integers(0, 9, 50), MASK.sum(-1))
    found = lib.ops.top_k(
        lib.array(TIED), lib.array(k), where=lib.array(MASK), ties="first"
    )
    found = lib.numpy(found)
    assert (found.sum(-1) == k).all()
    assert (found == stk.top_k(TIED, k, where=MASK, ties="first")).all()
    order = order_of(np.where(MASK, TIED, -np.inf))
    for row, places, count in zip(found, order, k, strict=True):
        assert set(np.flatnonzero(row)) == set(places[:count])


def test_the_first_of_several_axes_in_c_order(lib):
    x = np.array([[1.0, 2.0, 1.0], [1.0, 0.0, 1.0]])
    for axis, expected in [
        (None, [[1, 1, 1], [0, 0, 0]]),
        (0, [[1, 1, 1], [0, 0, 0]]),
        ((1, 0), [[1, 1, 1], [0, 0, 0]]),
    ]:
        found = lib.ops.top_k(
            lib.array(x), 1 if axis == 0 else 3, axis=axis, ties="first"
        )
        assert lib.numpy(found).tolist() == expected


def test_ties_that_go_to_the_first_ask_for_a_whole_number(lib):
    x = lib.array(TIED)
    for f in (lib.ops.top_k, lib.ops.top_k_st):
        with pytest.raises(ValueError, match=r"k must be a whole number, got 1\.5"):
            f(x, 1.5, ties="first")
        with pytest.raises(ValueError, match="ties must be 'share' or 'first', got 3"):
            f(x, 1, ties=3)
        unseen = lib.numpy(f(x, 1.5, ties="first", check=False))
        assert np.isnan(unseen).all()


def test_a_straight_through_selection_has_the_soft_gradient(lib):
    x, g = lib.array(TIED), lib.array(np.sin(np.arange(450.0)).reshape(50, 9))
    one = lib.vjp(lambda x: lib.ops.top_k_st(x, 3, ties="first"), [x], g)
    two = lib.vjp(lambda x: lib.ops.soft_topk(x, 3), [x], g)
    assert (lib.numpy(one[0]) == lib.numpy(two[0])).all()
    assert abs(lib.numpy(one[0])).max() > 0.01


@pytest.mark.parametrize("k", [0, 4])
def test_indices_descend_by_score_and_ascend_among_equals(lib, k):
    expected = order_of(TIED)[:, :k]
    assert (stk.top_k_indices(TIED, k) == expected).all()
    for x in (lib.array(TIED), lib.cast(lib.array(TIED), lib.bfloat16)):
        found = lib.numpy(lib.ops.top_k_indices(x, k))
        assert found.dtype.kind == "i"
        assert found.shape == (50, k)
        assert (found == expected).all()
    program = lib.program(lambda x: lib.ops.top_k_indices(x, k))
    assert (lib.numpy(program(lib.array(TIED))) == expected).all()


def test_indices_of_entries_that_take_part(lib):
    x, mask = lib.array(TIED), lib.array(MASK)
    k = int(MASK.sum(-1).min())
    expected = order_of(np.where(MASK, TIED, -np.inf))[:, :k]
    assert (stk.top_k_indices(TIED, k, where=MASK) == expected).all()
    found = lib.numpy(lib.ops.top_k_indices(x, k, where=mask))
    assert (found == expected).all()
    with pytest.raises(ValueError, match=r"k must lie in \[0, 2\].*got 3"):
        lib.ops.top_k_indices(lib.array([1.0, -np.inf, 2.0]), 3)
    with pytest.raises(ValueError, match=r"k must lie in \[0, 3\].*got 4"):
        lib.ops.top_k_indices(lib.array([1.0, 0.0, 2.0]), 4)


def test_unseen_rows_with_too_few_entries_point_outside(lib):
    x = lib.array([[1.0, -np.inf, 2.0], [np.nan, 1.0, 2.0], [5.0, 4.0, 6.0]])
    for k in (1, 5):
        found = lib.numpy(lib.ops.top_k_indices(x, k, check=False))
        rows = [[2, 0, 3, 3, 3], [3] * 5, [2, 0, 1, 3, 3]]
        assert found.tolist() == [row[:k] for row in rows]


def test_indices_stand_in_place_of_the_axis(lib):
    x = RNG.normal(size=(2, 5, 3))
    found = lib.numpy(lib.ops.top_k_indices(lib.array(x), 2, axis=1))
    assert found.shape == (2, 2, 3)
    top = np.take_along_axis(x, found, axis=1)
    assert (top == -np.sort(-x, axis=1)[:, :2]).all()
    assert (found == stk.top_k_indices(x, 2, axis=1)).all()
    for axis, shape in [(None, (4,)), ((0, 2), (5, 4))]:
        found = lib.numpy(lib.ops.top_k_indices(lib.array(x), 4, axis=axis))
        assert found.shape == shape
        assert (found == stk.top_k_indices(x, 4, axis=axis)).all()
    flat = stk.top_k_indices(x, 4, axis=None)
    assert (x.ravel()[flat] == -np.sort(-x.ravel())[:4]).all()


def test_gathered_weights_carry_the_gradient(lib):
    x = RNG.normal(size=(6, 8))
    index = lib.ops.top_k_indices(lib.array(x), 2)
    kept = lib.numpy(lib.ops.top_k(lib.array(x), 2, ties="first"))

    def gathered(x):
        return (lib.gather(lib.ops.soft_topk(x, 2), index) ** 2).sum()

    def masked(x):
        return ((lib.ops.soft_topk(x, 2) * lib.array(kept)) ** 2).sum()

    found, expected = (lib.gradient(f)(lib.array(x)) for f in (gathered, masked))
    assert abs(lib.numpy(found) - lib.numpy(expected)).max() < 1e-15
    assert abs(lib.numpy(found)).max() > 0.01
