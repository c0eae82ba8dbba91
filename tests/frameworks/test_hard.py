"""What a dispatch takes: exactly k entries of a row, and their indices in order."""

import jax
import numpy as np
import pytest

import softtopk as stk
import softtopk.jax

try:
    from jax import enable_x64
except ImportError:  # JAX 0.5
    from jax.experimental import enable_x64

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


@pytest.mark.usefixtures("looked")
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


@pytest.mark.usefixtures("looked")
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


def integers(dtype, low):
    """Rows of 6 integers next to each other, some equal, at an end of their type."""
    info, steps = np.iinfo(dtype), RNG.integers(0, 5, (20, 6)).astype(dtype)
    return dtype(info.min) + steps if low else dtype(info.max) - steps


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integers_are_ordered_as_integers(lib, dtype, low):
    """None of these differences is one of float32, or for 64 bits of float64."""
    x = integers(dtype, low)
    mask = RNG.random(x.shape) < 0.7
    mask[:, :2] = True
    for on, where in ((np.full(x.shape, True), None), (mask, lib.array(mask))):
        keys = x.astype(object) - x[:, :1].astype(object)
        keys = np.where(on, keys, -9).astype(int)
        expected = np.zeros(x.shape)
        np.put_along_axis(expected, order_of(keys)[:, :2], 1, axis=-1)
        shared = stk.top_k(keys.astype(float), 2, where=on)
        core = {"where": None if where is None else on}
        assert (stk.top_k_indices(x, 2, **core) == order_of(keys)[:, :2]).all()
        assert (stk.top_k(x, 2, **core, ties="first") == expected).all()
        assert (stk.top_k(x, 2, **core) == shared).all()
        for check in (None, False):
            given = {"where": where, "check": check}
            found = lib.ops.top_k_indices(lib.array(x), 2, **given)
            assert (lib.numpy(found) == order_of(keys)[:, :2]).all()
            for operator in (lib.ops.top_k, lib.ops.top_k_st):
                found = operator(lib.array(x), 2, **given, ties="first")
                assert (lib.numpy(found) == expected).all()
                many = lib.array(np.full(20, 2))
                found = operator(lib.array(x), many, **given)
                assert abs(lib.numpy(found) - shared).max() <= 1e-7


def test_integers_are_ordered_along_several_axes_and_for_several_budgets(lib):
    x = np.array([[0, 1, 2], [5, 4, 3]]) + 2**62
    k = np.array([[0, 1], [2, 6]])
    expected = stk.top_k(x - 2**62, k, axis=(0, 1))
    found = lib.ops.top_k(lib.array(x), lib.array(k), axis=(0, 1))
    assert (lib.numpy(found) == expected).all()
    assert (stk.top_k(x, k, axis=(0, 1)) == expected).all()
    found = lib.numpy(lib.ops.top_k_indices(lib.array(x.T), 3, axis=(0, 1)))
    assert found.tolist() == [1, 3, 5]


def test_the_sum_adds_the_largest_integers(lib):
    x = np.array([[2**62, 2**62 + 1, -(2**62), -(2**62) + 1]])
    for k, sums in ((0, 0.0), (2, 2.0**63), (3.5, 2.0**63 - 1.5 * 2.0**62)):
        assert stk.top_k_sum(x, k) == [sums]
        assert lib.numpy(lib.ops.top_k_sum(lib.array(x), k)) == [sums]


SOFT = {
    **dict.fromkeys(["soft_topk", "threshold", "grad_topk", "log_partition"], (1,)),
    **dict.fromkeys(["softmax", "entmax", "sparsemax", "logsumexp", "soft_sort"], ()),
}


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize("name", SOFT)
def test_a_soft_operator_says_that_it_loses_the_gaps_of_integers(lib, name):
    """The gap between two that take part; that to a distant one is only rounded."""
    near, far = np.array([2**62, 2**62 + 100, 0]), np.array([2**62 + 1, -(2**62), 0])
    args, own = SOFT[name], getattr(lib.ops, name)
    floats = "float32" if lib.name == "torch" else "float64"
    said = "x must hold integers whose differences {} holds, got 4611686018427387904"
    with pytest.raises(ValueError, match=said.format("float64")):
        getattr(stk, name)(near, *args)
    with pytest.raises(ValueError, match=said.format(floats)):
        own(lib.array(near), *args)
    found, expected = own(lib.array(far), *args), getattr(stk, name)(far, *args)
    if name != "threshold":  # of these scores, many thresholds are right
        np.testing.assert_allclose(lib.numpy(found), expected, rtol=1e-6, atol=1e-12)
    own(lib.array(near), *args, check=False)
    own(lib.array(near), *args, where=lib.array([False, True, True]))


def test_jax_refuses_integers_that_it_would_wrap():
    """Without its 64 bits JAX takes NumPy's integers modulo 2^32."""
    with enable_x64(False):
        x = np.array([2**24, 2**24 + 1, 5])
        assert softtopk.jax.top_k_indices(x, 1).tolist() == [1]
        assert jax.jit(lambda x: softtopk.jax.top_k(x, 1))(x).tolist() == [0, 1, 0]
        for bad in (np.array([2**40, 5]), [2**40, 5], np.uint64(2**32)):
            with pytest.raises(ValueError, match="x must hold integers that the"):
                softtopk.jax.top_k(bad, 1)


def test_indices_of_ragged_rows_and_of_the_smallest(lib):
    x = np.array([[2.0, 5.0, 1.0, 5.0], [0.0, 1.0, 3.0, 1.0], [4.0, -np.inf, 2.0, 1.0]])
    k = np.array([1, 4, 2])
    mask = np.arange(4) < 2
    for given, more in (
        (k, {}),
        (k, {"width": 6}),
        (2, {"largest": False}),
        (k - 1, {"largest": False}),
        (3, {"where": mask, "empty": "all"}),
        (2, {"where": mask & ~mask, "empty": "zeros"}),
    ):
        own = {v: lib.array(w) if v == "where" else w for v, w in more.items()}
        budget = lib.array(given) if isinstance(given, np.ndarray) else given
        expected = stk.top_k_indices(x, given, **more)
        found = lib.numpy(lib.ops.top_k_indices(lib.array(x), budget, **own))
        assert (found == expected).all()
        width = more.get("width", expected.shape[-1])
        unseen = lib.ops.top_k_indices(
            lib.array(x), budget, **(own | {"width": width}), check=False
        )
        assert (lib.numpy(unseen) == expected).all()
    big = lib.array(np.array([2**62 + 1, 2**62, -(2**62), 2**62 + 2]))
    assert lib.numpy(lib.ops.top_k_indices(big, 3, largest=False)).tolist() == [2, 1, 0]
    whole = lib.ops.top_k_indices(lib.array(x), lib.array(k), check=False)
    assert whole.shape == (3, 4)
