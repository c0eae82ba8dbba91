"""The checks and the layout that every operator shares."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from rows import long_double

import softtopk as stk
from softtopk._rows.numpy_rows import (
    LINE,
    LINE_OF_COUNTS,
    as_numpy_rows,
    as_real,
    check_temperature,
    kth_largest,
    real_number,
    row_dot,
)

finite = st.floats(-1e6, 1e6)


@given(data=st.data())
def test_expand_undoes_the_layout(data):
    shape = data.draw(array_shapes(min_dims=0, max_dims=4, max_side=4))
    x = data.draw(arrays(float, shape, elements=finite))
    one = st.integers(-len(shape), len(shape) - 1) if shape else st.just(-1)
    several = st.lists(st.sampled_from(range(len(shape))), unique=True).map(tuple)
    axis = data.draw(one | (several if shape else st.just(())) | st.none())
    rows = as_numpy_rows(x, axis=axis)
    n = np.ones(shape).sum(axis=axis).flat[0]
    assert rows.x.shape == (x.size // n, n)
    assert rows.x.flags.c_contiguous
    np.testing.assert_array_equal(rows.expand(rows.x), x)
    np.testing.assert_array_equal(rows.gather(x, "x"), rows.x)
    sums = rows.reduce(rows.x.sum(axis=-1))
    np.testing.assert_allclose(sums, x.sum(axis=axis), rtol=1e-12, atol=1e-6)
    assert np.shape(sums) == rows.batch
    np.testing.assert_array_equal(rows.gather_reduced(sums, "x"), np.ravel(sums))


def test_rows_are_read_only_even_without_a_copy():
    x = np.ones((2, 3))
    rows = as_numpy_rows(x, 1)
    assert np.shares_memory(rows.x, x)
    with pytest.raises(ValueError, match="read-only"):
        rows.x[0, 0] = 5
    x[0, 0] = 5  # the caller's array stays writable


def test_the_budget_broadcasts_both_ways():
    x = np.arange(12.0).reshape(3, 4)
    assert as_numpy_rows(x, 2).k.tolist() == [2, 2, 2]
    assert as_numpy_rows(x, [0, 1, 2]).k.tolist() == [0, 1, 2]
    assert as_numpy_rows(x, [0, 1, 2, 3], axis=0).k.tolist() == [0, 1, 2, 3]
    rows = as_numpy_rows(x, [[1], [2]])
    assert rows.shape == (2, 3, 4)
    assert rows.k.tolist() == [1, 1, 1, 2, 2, 2]
    rows = as_numpy_rows(x, np.ones((2, 1)), axis=0)
    assert rows.shape == (2, 3, 4)
    np.testing.assert_array_equal(rows.expand(rows.x)[1], x)
    assert as_numpy_rows(np.empty((0, 3)), 1).x.shape == (0, 3)


def test_where_turns_entries_into_minus_infinity():
    x = np.array([[1.0, np.nan, np.inf], [2.0, 3.0, 4.0]])
    rows = as_numpy_rows(x, 1, where=[[True, False, False], [True, True, False]])
    assert rows.x.tolist() == [[1, -np.inf, -np.inf], [2, 3, -np.inf]]
    assert rows.finite_count.tolist() == [1, 2]
    assert as_numpy_rows(x[1], 1, where=True).finite_count.tolist() == [3]


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
    ],
)
def test_types(given_type, kept):
    assert as_real(np.ones(2, given_type), "x").dtype == kept


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        ([1j], {}, TypeError, "x must hold real numbers .* dtype complex128"),
        ([None], {}, TypeError, "x must hold real numbers .* dtype object"),
        pytest.param(
            *(np.ones(2, np.longdouble), {}, TypeError, "at most 64 bits, got dtype"),
            marks=long_double,
        ),
        (np.ones((2, 0)), {}, ValueError, r"scores must have at least .* \(2, 0\)"),
        ([1], {"axis": True}, TypeError, "axis must be an integer, a .* got True"),
        ([1], {"axis": [0]}, TypeError, r"axis must be .* a tuple of .* got \[0\]"),
        ([1], {"axis": (0, 0.0)}, TypeError, r"axis must be .* got \(0, 0.0\)"),
        (
            [[1]],
            {"axis": (1, -1)},
            ValueError,
            r"must not .* twice, got \(1, -1\)",
        ),
        (
            [[1]],
            {"axis": (0, 2)},
            ValueError,
            r"axis must lie in \[-2, 1\] .*0, 2\)",
        ),
        (1.0, {"axis": 1}, ValueError, r"axis must lie in \[-1, 0\] .* 0 axes, got 1"),
        (np.ones((2, 0)), {"axis": None}, ValueError, "scores must have .* axis None"),
        ([1], {"axis": -2}, ValueError, r"axis must lie in \[-1, 0\] .* got -2"),
        ([1.0, np.nan], {}, ValueError, "scores must be finite or -inf .* got nan"),
        ([1.0], {"k": 0.5, "integer_k": True}, ValueError, "k must be a whole .* 0.5"),
        ([1.0], {"k": 2}, ValueError, r"k must lie in \[0, 1\].* scores .* got 2.0"),
        ([1.0], {"k": 1j}, TypeError, "k must be a real number .* got 1j"),
        ([1.0], {"k": None}, TypeError, "k must be a real number .* got None"),
        ([1.0], {"where": 1}, TypeError, "where must be boolean, got dtype int64"),
        ([1.0], {"where": [True] * 2}, ValueError, r"where must broadcast to .*\(2,\)"),
    ],
)
def test_errors_name_the_argument(x, options, error, message):
    message = message.replace("x must hold", "scores must hold")
    with pytest.raises(error, match=message):
        as_numpy_rows(x, name="scores", **options)


def test_a_row_over_several_axes_is_in_c_order():
    x = np.arange(24.0).reshape(2, 3, 4)
    expected = np.moveaxis(x, 1, 0).reshape(3, 8)
    for axis in [(0, 2), (2, 0), (-1, 0), (-3, -1)]:
        np.testing.assert_array_equal(as_numpy_rows(x, axis=axis).x, expected)
    np.testing.assert_array_equal(as_numpy_rows(x, axis=None).x, x.reshape(1, 24))
    np.testing.assert_array_equal(as_numpy_rows(x, axis=()).x, x.reshape(24, 1))
    rows = as_numpy_rows(
        x, [[1], [2]], axis=(0, 2)
    )  # two budgets for each of three rows
    assert rows.batch == (2, 3)
    assert rows.shape == (2, 2, 3, 4)
    np.testing.assert_array_equal(rows.expand(rows.x), [x, x])


@pytest.mark.parametrize("axis", [-1, 0, None, ()])
def test_a_scalar_is_one_row_of_one_entry(axis):
    rows = as_numpy_rows(3.0, 0.5, axis=axis)
    assert rows.x.tolist() == [[3.0]]
    assert rows.expand(rows.x).shape == rows.reduce(rows.k).shape == ()
    assert as_numpy_rows(3.0, [0, 1], axis=axis).shape == (2,)


@given(data=st.data())
def test_the_kth_largest_of_each_row(data):
    shape = (data.draw(st.integers(0, 3)), data.draw(st.integers(1, 5)))
    x = data.draw(arrays(float, shape, elements=st.integers(-3, 3).map(float)))
    k = data.draw(arrays(float, shape[:1], elements=st.floats(0, shape[1])))
    expected = [
        sorted(row)[-max(1, int(np.ceil(m)))] for row, m in zip(x, k, strict=True)
    ]
    assert kth_largest(x, k).tolist() == expected


@pytest.mark.parametrize(
    ("value", "bounds", "error", "message"),
    [
        ("1", {}, TypeError, "c must be one real number, got '1'"),
        ([1.0], {}, TypeError, r"c must be one real number, got \[1.0\]"),
        (True, {}, TypeError, "c must be one real number, got True"),
        (-np.inf, {}, ValueError, "c must be finite, got -inf"),
        (np.nan, {"least": 1}, ValueError, "c must be finite and at least 1, got nan"),
        (0.5, {"least": 1}, ValueError, "c must be finite and at least 1, got 0.5"),
        (0, {"above": 0}, ValueError, "c must be finite and above 0, got 0.0"),
    ],
)
def test_one_real_number(value, bounds, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        real_number(value, "c", **bounds)
    assert real_number(np.float32(1), "c", **bounds) == 1


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf])
def test_temperature_must_be_finite_and_positive(value):
    with pytest.raises(ValueError, match="temperature must be finite and above 0"):
        check_temperature(value)
    with pytest.raises(TypeError, match="temperature must be one real number"):
        check_temperature([value])
    assert check_temperature(np.float32(0.5)) == 0.5


SIZES = [
    1,
    31,
    LINE,
    LINE + 1,
    1000,
    9_973,
    LINE_OF_COUNTS,
    LINE_OF_COUNTS + 1,
    50_000,
    3 * LINE_OF_COUNTS + 17,
]


@pytest.mark.parametrize("n", SIZES)
def test_row_dot_in_lines(n):
    rng = np.random.default_rng(n)
    a, b = rng.integers(-9, 9, size=(2, 3, n)).astype(float)
    np.testing.assert_array_equal(row_dot(a, b), (a * b).sum(axis=-1))
    np.testing.assert_array_equal(row_dot(a[0], b[0]), (a[0] * b[0]).sum())
    np.testing.assert_array_equal(row_dot(a, b, LINE_OF_COUNTS), (a * b).sum(axis=-1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", SIZES)
def test_row_dot_does_not_drift_where_entries_repeat(n, dtype):
    for value in np.random.default_rng(0).random(40).astype(dtype):
        exact = n * Fraction(float(value))
        for shape in ((n,), (2, n)):
            found = row_dot(np.full(shape, value), np.ones(shape, dtype)).flat[0]
            # BLAS adds up to 31 left over in turn, each rounded by eps / 2 of a line.
            error = abs(Fraction(float(found)) - exact) / exact
            assert error <= 8 * Fraction(float(np.finfo(dtype).eps))


EMPTY = np.array([[0.5, 1.0, 0.0], [-np.inf] * 3, [2.0, 0.0, 1.0]])
TAKEN = np.array([[True] * 3, [True] * 3, [False] * 3])
SHARES = [
    (stk.soft_topk, {"k": np.array([1, 9, np.nan])}),
    (stk.soft_topk, {"k": np.array([[1.5], [2]]), "cost": np.where(TAKEN, 1, np.nan)}),
    (stk.grad_topk, {"k": np.array([2, 9, 0.5])}),
    (stk.softmax, {}),
    (stk.sparsemax, {}),
    (stk.entmax, {"alpha": np.array([[1.0], [1.5]])}),
    (stk.taylor_softmax, {}),
    (stk.sparse_softmax, {"k": np.array([2, 7, 1])}),
]


@pytest.mark.parametrize(("operator", "given"), SHARES)
def test_a_row_without_entries_may_be_zeros_with_derivatives_of_zero(operator, given):
    found = stk.linearize(operator, EMPTY, **given, where=TAKEN, empty="zeros")
    first = {name: v[..., :1] for name, v in given.items() if name != "cost"}
    alone = stk.linearize(operator, EMPTY[:1], **first)
    g = np.array([1.0, -2.0, 3.0])
    derivatives = [(at.value, at.jvp(g), at.dk) for at in (found, alone)]
    for values, expected in zip(*derivatives, strict=True):
        if values is not None:
            assert (values[..., 1:, :] == 0).all()
            np.testing.assert_allclose(values[..., :1, :], expected, 0, 1e-15)
    np.testing.assert_allclose(found.vjp(g)[:1], alone.vjp(g), 0, 1e-15)
    assert (found.vjp(g)[1:] == 0).all()
    assert (found.jacobian()[..., 1:, :, :] == 0).all()
    if "cost" in given:
        assert (found.by_cost.vjp(g)[1:] == 0).all()
    with pytest.raises(ValueError, match=r"finite|whole"):
        operator(EMPTY, **given, where=TAKEN)


def test_what_an_empty_row_is_has_two_words():
    with pytest.raises(
        ValueError, match="empty must be 'raise', 'zeros' or 'all', got 'no'"
    ):
        stk.softmax(EMPTY, empty="no")
