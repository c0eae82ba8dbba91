"""The hard selection and the top-k sum against their definitions, in exact numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import softtopk as stk

VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0])


def rows(data, elements=VALUES):
    x = data.draw(
        st.integers(1, 9).flatmap(lambda n: arrays(float, n, elements=elements))
    )
    k = data.draw(st.integers(0, len(x)) | st.floats(0, len(x)))
    return x, k


@given(data=st.data())
def test_top_k_is_one_above_zero_below_and_equal_on_ties(data):
    x, k = rows(data)
    mask = stk.top_k(x, k)
    ordered = sorted(x.tolist(), reverse=True)
    if k == 0:
        assert not mask.any()
        return
    pivot = ordered[int(np.ceil(k)) - 1]
    above, tied = (x > pivot).sum(), (x == pivot).sum()
    share = float((Fraction(k) - int(above)) / int(tied))
    expected = np.where(x > pivot, 1, np.where(x == pivot, share, 0))
    np.testing.assert_allclose(mask, expected, rtol=2.0**-51, atol=0)


@given(data=st.data())
def test_top_k_sum_is_the_minimum_of_ogryczak_and_tamir(data):
    whole = st.integers(-1000, 1000).map(float)
    x, _ = rows(data, whole)
    k = data.draw(st.integers(0, 4 * len(x))) / 4
    # Piecewise linear in l: the minimum is at a score.  Quarters of integers: exact.
    expected = min(k * level + np.maximum(x - level, 0).sum() for level in x)
    assert stk.top_k_sum(x, k) == expected
    assert stk.top_k_sum(x, k) == (x * stk.top_k(x, k)).sum() or np.unique(
        x
    ).size < len(x)


@given(data=st.data())
def test_whole_k_sums_the_largest(data):
    x, _ = rows(data, st.integers(-1000, 1000).map(float))
    for k in range(len(x) + 1):
        assert stk.top_k_sum(x, k) == np.sort(x)[::-1][:k].sum()


@given(data=st.data())
def test_the_first_of_equal_scores_are_selected_in_order(data):
    x, _ = rows(data)
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    for k in range(len(x) + 1):
        assert stk.top_k_indices(x, k).tolist() == order[:k]
        mask = stk.top_k(x, k, ties="first")
        assert set(np.flatnonzero(mask)) == set(order[:k])
        assert set(mask) <= {0, 1}


@pytest.mark.parametrize("k", [1.0, True, "a", None])
def test_how_many_indices_is_one_integer(k):
    with pytest.raises(TypeError, match="k must be one integer, got"):
        stk.top_k_indices([1.0, 2.0], k)


def test_indices_of_ragged_rows_of_the_smallest_and_of_short_rows():
    x = np.array([[2.0, 5.0, 1.0, 5.0], [0.0, 1.0, 3.0, 1.0], [4.0, -np.inf, 2.0, 1.0]])
    k = np.array([1, 4, 2])
    found = stk.top_k_indices(x, k)
    assert found.tolist() == [[1, 4, 4, 4], [2, 1, 3, 0], [0, 2, 4, 4]]
    for row, many, index in zip(x, k, found, strict=True):
        assert index[:many].tolist() == stk.top_k_indices(row, many).tolist()
    assert (stk.top_k_indices(x, k, width=6)[:, 4:] == 4).all()
    assert (stk.top_k_indices(x.T, k, axis=0) == found.T).all()
    least = stk.top_k_indices(x, 2, largest=False)
    assert least.tolist() == [[2, 0], [0, 1], [3, 2]]
    big = np.array([2**62 + 1, 2**62, -(2**63), 2**62 + 2])
    assert stk.top_k_indices(big, 3, largest=False).tolist() == [2, 1, 0]
    where = np.arange(4) < 2
    assert stk.top_k_indices(x, 3, where=where, empty="all").tolist() == [
        [1, 0, 4],
        [1, 0, 4],
        [0, 4, 4],
    ]
    none = stk.top_k_indices(x, 2, where=np.zeros(4, bool), empty="zeros")
    assert (none == 4).all()
    assert stk.top_k_indices(x, np.zeros(3, int)).shape == (3, 0)
    with pytest.raises(ValueError, match="width must be at least the largest k, 4"):
        stk.top_k_indices(x, k, width=3)
    with pytest.raises(ValueError, match="k must be a whole number"):
        stk.top_k_indices(x, [1, 1.5, 2])


def test_indices_need_as_many_entries_that_take_part():
    for row, where in (([1.0, -np.inf], None), ([1.0, 2.0], [True, False])):
        with pytest.raises(ValueError, match=r"k must lie in \[0, 1\].* got 2"):
            stk.top_k_indices(row, 2, where=where)
    with pytest.raises(ValueError, match="k must be at least 0, got -1"):
        stk.top_k_indices([1.0, 2.0], -1)
    with pytest.raises(ValueError, match=r"k must be a whole number, got 1\.5"):
        stk.top_k([1.0, 2.0], 1.5, ties="first")
    with pytest.raises(ValueError, match="ties must be 'share' or 'first', got 'all'"):
        stk.top_k([1.0, 2.0], 1, ties="all")


def test_a_row_that_is_empty_selects_nothing():
    for row in ({"x": [-np.inf] * 2}, {"x": [1.0, 2.0], "where": [False, False]}):
        assert stk.top_k(**row, k=0).tolist() == [0, 0]
        assert stk.soft_topk(**row, k=0).tolist() == [0, 0]
        for f in (stk.top_k, stk.soft_topk, stk.top_k_indices):
            with pytest.raises(ValueError, match=r"k must lie in \[0, 0\]"):
                f(**row, k=1)


def test_shapes_masks_types_and_budgets_of_each_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 5, 4))
    k = rng.integers(0, 6, size=(3, 4))
    np.testing.assert_array_equal(stk.top_k(x, k, axis=1).sum(axis=1), k)
    sums = stk.top_k_sum(x, k, axis=1)
    for i in range(3):
        for j in range(4):
            assert sums[i, j] == pytest.approx(
                np.sort(x[i, :, j])[::-1][: k[i, j]].sum()
            )
    mask = np.array([True, False, True, True])
    np.testing.assert_array_equal(
        stk.top_k([1.0, 9.0, 3.0, 2.0], 2, where=mask), [0, 0, 1, 1]
    )
    assert stk.top_k_sum([1.0, 9.0, 3.0, 2.0], 2, where=mask) == 5
    single = np.array([1, 3, 2], np.float32)
    assert stk.top_k(single, 1.5).dtype == np.float32
    assert stk.top_k_sum(single, 1.5).dtype == np.float32


def test_minus_infinity_is_never_selected():
    x = [-np.inf, 1.0, -np.inf, 0.0]
    np.testing.assert_array_equal(stk.top_k(x, 2), [0, 1, 0, 1])
    np.testing.assert_array_equal(stk.top_k(x, 0), 0)
    assert stk.top_k_sum(x, 1.5) == 1.0
    assert stk.top_k_sum(x, 0) == 0
    with pytest.raises(ValueError, match=r"k must lie in \[0, 2\].* finite .* got 3.0"):
        stk.top_k(x, 3)
    with pytest.raises(ValueError, match="x must be finite or -inf"):
        stk.top_k_sum([np.nan], 1)
