"""The same call on NumPy, PyTorch and JAX has the same outcome, on every operator."""

import functools
import inspect
import itertools
import re
import warnings

import numpy as np
import pytest
from test_axis import OPERATORS, SHAPES

import softtopk as stk
from softtopk import losses

X = np.random.default_rng(0).normal(size=(3, 2, 4))
ONES = {"k": 1, "alpha": 1.5, "target": 0}


MISSING = {"perturb_max"}  # on NumPy alone; the page on the frameworks says why
COMMON = [name for name in OPERATORS if name not in MISSING]


@pytest.mark.parametrize("name", sorted(MISSING))
def test_what_is_missing_is_missing(lib, name):
    assert not hasattr(lib.ops, name)


def options_of(lib, name, **given):
    options = {key: given.get(key, v) for key, v in OPERATORS[name][1].items()}
    return {
        key: lib.array(v) if isinstance(v, np.ndarray) else v
        for key, v in options.items()
    }


@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize("axis", [-1, 0, None, ()])
def test_a_scalar_gives_a_scalar(lib, name, axis):
    operator, options = getattr(lib.ops, name), options_of(lib, name, **ONES)
    found = operator(lib.array(0.5), **options, axis=axis)
    shape = SHAPES.get(name, ())
    assert found.shape == shape
    expected = operator(lib.array([0.5]), **options)
    np.testing.assert_array_equal(lib.numpy(found), lib.numpy(expected).reshape(shape))


@pytest.mark.parametrize("name", COMMON)
def test_without_axes_each_entry_is_a_row(lib, name):
    options = options_of(lib, name, **(ONES | {"target": np.zeros(X.shape, int)}))
    operator = getattr(lib.ops, name)
    found = operator(lib.array(X), **options, axis=())
    expected = lib.numpy(operator(lib.array(X[..., None]), **options))
    np.testing.assert_array_equal(lib.numpy(found), expected.reshape(found.shape))


# What each operator is called with, and every misuse and edge of each argument.  The
# outcome on NumPy, a value or an error with its words, is that on every library.
INF, NAN = np.inf, np.nan
Y = np.array([[0.3, -1.2, 2.0, 0.7], [1.5, 0.1, -0.4, 0.2]])


class Array:
    """Values that each library is given as its own array."""

    def __init__(self, values, dtype=None):
        self.values = np.asarray(values, dtype)

    def __repr__(self):
        return f"Array({self.values.tolist()}, {self.values.dtype})"


def with_entry(value):
    y = Y.copy()
    y[1, 2] = value
    return Array(y)


def masked(*rows):
    mask = np.ones(Y.shape, bool)
    mask[list(rows)] = False
    return Array(mask)


SCORES = [
    *map(with_entry, [NAN, INF, -INF]),
    Array([Y[0], np.full(4, -INF)]),
    Array(np.empty((0, 4))),
    Array(np.empty((2, 0))),
    Array(Y + 1j),
    Array([[3, 1, 2, 0], [0, 1, 5, 2]]),
    Array([[True, False, True, True]] * 2),
    Array(Y[:, :1]),
    Array(np.zeros((2, 4))),
    # Not of a library: rows of two lengths, objects, and another order of the bytes.
    [[0.3, -1.2], [1.5]],
    np.array([[1, None]], object),
    Y.astype(Y.dtype.newbyteorder()),
    np.array([[3, 1, 2]], np.dtype(np.int64).newbyteorder()),
]
RAGGED = [[True], [True, False]]
BAD_NUMBER = ["a", None, 1j, [[]]]
ARGUMENTS = {
    "x": SCORES,
    "axis": [2, -3, 1.0, (1, 1), (0, -2), "a", True, (0, 1), None, 0],
    "where": [
        masked(),
        masked(1),
        Array(np.ones(Y.shape, int)),
        Array(np.ones((3, 4), bool)),
        Array([True, False, True, True]),
        RAGGED,
        np.array([True, None, True, True], object),
    ],
    "temperature": [
        RAGGED,
        *(0, -1.0, NAN, INF, 0.02, *BAD_NUMBER[:3]),
        *([0.5, 2.0], [1, NAN], [0.5, 2.0, 1.0], [[0.5], [2.0]], [True, False]),
        *map(Array, ([0.5, 2.0], [0.5], 0.5, [[0.5], [2.0]])),
    ],
    "k": [
        RAGGED,
        *(NAN, INF, -INF, -1, -0.5, 0, 0.5, 2.5, 4, 4.5, 5, 1e30, "a", None, 1j, True),
        *([1, 2], [1, NAN], [1, 5], [1, 2, 3], [[1], [2]], [1.5, 2]),
        *map(Array, ([1, 2], [1, NAN], [1, 5], [1, 2, 3], [[1], [2]], 2.0, 2)),
        Array([True, False]),
        Array([1j, 2]),
    ],
    "alpha": [RAGGED, 1, 1.0, 2.0, 3.0, 0.5, 0, -0.5, NAN, INF, "a", None, 1j, True],
    "margin": [RAGGED, 0, -1, NAN, INF, "a", None, 1j],
    "target": [
        RAGGED,
        *map(Array, ([0, 4], [-1, 0], [0, 1, 2], [0.0, 1.0], [True, False])),
        *map(Array, (np.full(Y.shape, 0.25), np.full(Y.shape, 0.3))),
        *map(Array, (Y, np.full(Y.shape, NAN), np.zeros((2, 3)), [[0, 1, 0, 0]] * 2)),
    ],
    "curve": ["clip", "nothing", 3, None],
    "reduction": ["none", "mean", "sum", "avg", None, 1],
    "ignore_index": [None, 0, 1, 4, -100, 1.5, "a"],
    "ties": ["first", "share", "last", None, 1],
    "empty": ["raise", "zeros", "nothing", None, 1],
    "places": [1, 4, 0, 5, -1, 1.5, "a", True],
    "order": [4, 3, 0, 2.0, 102, True, "a"],
    "noise": ["uniform", "nothing", 3],
    "rounds": [0, -1, 2.5, "a", NAN],
    "columns": [
        RAGGED,
        [1, 1, 1, 1],
        [0.5, 0.5, 0.5, 0.5],
        [1, 1],
        NAN,
        "a",
        [2, -1, 0, 1],
    ],
    "axes": [(0,), (0, 0), 1, (0, 2), (1, 0)],
    "cost": [
        RAGGED,
        *(2, 0.5, 0, -1.0, NAN, INF, "a", 1j, True, [1, 2, 3, 4], [1, 2, 0, 4]),
        *([1, 2, 3], [[1], [2]], [0.2, 0.2, 0.2, 0.2]),
        *map(Array, ([1, 2, 3, 4], [1, 2, NAN, 4], [1, 2, 3], [[1.0], [2.0]], Y)),
        Array([True, False, True, True]),
        Array([1j, 2, 3, 4]),
        Array(np.ones((2, 2, 4))),
    ],
    "per": ["cost", "entry", "unit", None, 1],
}
WITH_COSTS = {
    "k": [
        -0.5,
        0,
        0.5,
        7.5,
        10,
        10.5,
        NAN,
        INF,
        "a",
        [1, 2.5],
        [1, NAN],
        Array([1, 11]),
    ],
    "x": SCORES,
    "where": [masked(), masked(1), Array([True, False, True, True])],
    "temperature": [0, NAN, 0.02, "a", [0.5, 2.0], Array([0.5, 2.0]), [1.0, -1.0]],
    "per": ["cost", "entry", "unit"],
    "ties": ["first", "share", "last"],
    "axis": [2, (0, 1), None],
}
"""The same of calls that have costs, where budgets and scores are checked anew."""
BASE = {
    **{name: dict(options) for name, (_, options) in OPERATORS.items()},
    "balanced_topk": {"k": 1, "temperature": 0.5},
    "soft_permutation": {"places": 3},
    "taylor_softmax": {"order": 2},
}
NAMES = {
    "k": 2,
    "alpha": 1.5,
    "target": Array([0, 1]),
    "curve": "laplace",
    "temperature": 0.7,
}


def outcome(module, name, argument, value, array, **more):
    """What a call returns, or the type and the words of its error."""
    operator = getattr(module, name)
    taken = inspect.signature(operator).parameters
    given = {key: NAMES.get(key, v) for key, v in BASE[name].items()} | more
    first = next(iter(taken))
    given[first] = Array(Y)
    words = {"axis": "dim", "axes": "dims"} if "dim" in taken or "dims" in taken else {}
    given[first if argument == "x" else words.get(argument, argument)] = value
    for key, v in given.items():
        given[key] = array(v.values) if isinstance(v, Array) else v
    try:
        found = operator(**given)
    except (TypeError, ValueError) as error:
        text = re.sub(r"\bdim(s?)\b", lambda m: "axes" if m[1] else "axis", str(error))
        return type(error), text.replace("torch.", "").replace("tensor", "array")
    return found


def function_of(name):
    return losses if hasattr(losses, name) else stk


def calls():
    """Each operator with each of its arguments; the first one is called x here."""
    for name in BASE.keys() - MISSING:
        taken = inspect.signature(getattr(function_of(name), name)).parameters
        yield from ((name, key) for key in ARGUMENTS if key == "x" or key in taken)


@pytest.mark.parametrize(("name", "argument"), sorted(calls()))
def test_a_call_has_the_outcome_that_it_has_on_numpy(lib, name, argument):
    compare(lib, name, argument, ARGUMENTS[argument])


@pytest.mark.parametrize("name", ["soft_topk", "threshold", "top_k"])
def test_a_call_with_costs_has_the_outcome_that_it_has_on_numpy(lib, name):
    for argument, values in WITH_COSTS.items():
        taken = inspect.signature(getattr(function_of(name), name)).parameters
        if argument == "x" or argument in taken:
            compare(lib, name, argument, values, cost=[1.0, 2.0, 4.0, 0.5])


SHARES = [
    *("soft_topk", "top_k", "top_k_st", "grad_topk", "softmax", "sparsemax", "entmax"),
    *("taylor_softmax", "sparse_softmax"),
]
"""The operators that say what a row without entries is."""


def test_every_operator_with_shares_says_what_an_empty_row_is(lib):
    taken = {
        name
        for name in lib.ops.__all__
        if "empty" in inspect.signature(getattr(lib.ops, name)).parameters
    }
    assert taken - {"sample_topk", "sample_topk_st", "top_k_indices"} == {*SHARES}


@pytest.mark.parametrize("name", [name for name in SHARES if name != "top_k_st"])
def test_an_empty_row_has_the_outcome_that_it_has_on_numpy(lib, name):
    budgets = [2, 2.5, 9, [1, 9], [9, 1], [1, NAN], [[1, 9], [2, 0]], Array([2, 1.5])]
    cases = {"where": [masked(1), masked(0, 1)], "x": SCORES, "k": budgets}
    cases |= {"axis": [0, None], "alpha": [1, 2.0, 3.0]}
    taken = inspect.signature(getattr(function_of(name), name)).parameters
    mask = {"where": masked(1)}
    for empty in ("raise", "zeros", "all"):
        for argument, values in cases.items():
            if argument == "x" or argument in taken:
                more = mask if argument != "where" else {}
                compare(lib, name, argument, values, **more, empty=empty)
    if "cost" in taken:
        costs = [[1.0, 2.0, 4.0, 0.5], Array([[1.0, 2, 4, 3], [NAN, 0, 1, 1]])]
        for k, empty in itertools.product((2, [1.5, 99]), ("zeros", "all")):
            compare(lib, name, "cost", costs, **mask, k=k, empty=empty)


ROWS = np.stack([Y[0] / 4, np.full(4, -INF), Y[1] / 4, Y[1] / 4])
"""An ordinary row, one of -inf, one that `TAKEN` leaves out, and one with a gap."""

TAKEN = np.array([[True] * 4, [True] * 4, [False] * 4, [True, False, True, True]])


@pytest.mark.parametrize("name", [*SHARES, "entmax of an array", "costs"])
def test_an_empty_row_has_zeros_and_its_derivatives_are_zeros(lib, name):
    """Also where values are not looked at: a program of JAX, check=False on torch."""
    given = {"check": False} if lib.name == "torch" else {}
    names = {"entmax of an array": "entmax", "costs": "soft_topk"}
    operator = getattr(lib.ops, names.get(name, name))
    if name == "entmax of an array":
        given["alpha"] = lib.array(1.3)
    elif "k" in inspect.signature(operator).parameters:
        given["k"] = lib.array([2, 2, 9, 1])
    if name == "costs":
        given["cost"] = lib.array(np.where(TAKEN, 1.0, NAN))
    weight, mask = lib.array(np.cos(np.arange(4))), lib.array(TAKEN)

    def shares(x):
        return operator(x, **given, where=mask, empty="zeros")

    def loss(x):
        p = shares(x)
        return ((p + p * p) * weight).sum()

    def twice(x):
        return (lib.gradient(loss)(x) ** 2 * weight).sum()

    x = lib.array(ROWS)
    p, slope, bend = shares(x), lib.gradient(loss)(x), lib.gradient(twice)(x)
    for found in map(lib.numpy, (p, slope, bend)):
        assert (found[1:3] == 0).all() and np.isfinite(found).all()
    p, slope = lib.numpy(p), lib.numpy(slope)
    assert (p[[0, 3]].sum(axis=-1) > 0.99).all()
    assert name == "top_k" or (slope[[0, 3]] != 0).any()


def compare(lib, name, argument, values, **more):
    for value in values:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            known = outcome(
                function_of(name), name, argument, value, np.asarray, **more
            )
            found = outcome(lib.ops, name, argument, value, lib.array, **more)
        told = f"{name}({argument}={value!r})"
        if isinstance(known, tuple) or isinstance(found, tuple):
            assert found == known, told
        else:
            assert found.shape == known.shape, told
            tell = {"err_msg": told, "rtol": 2e-6, "atol": 2e-6}
            np.testing.assert_allclose(lib.numpy(found), known, **tell)


TINY = float(np.finfo(np.float64).tiny)
EDGES = [TINY / 2, 5e-324, 2 / TINY, 0.0, -1.0, NAN, INF]


@pytest.mark.parametrize(
    "name", sorted(name for name, key in calls() if key == "temperature")
)
def test_a_temperature_has_one_outcome_however_it_comes(lib, name):
    """A float, an array without axes, and an array with a number for each row."""
    rows = () if name == "balanced_topk" else (2,)
    call = functools.partial(outcome, lib.ops, name, "temperature")
    for value in EDGES:
        number = call(value, lib.array)
        assert number[0] is ValueError
        assert re.fullmatch(r"temperature must (lie in|be finite and).*", number[1])
        for array in (Array(value), Array(np.full(rows, value))):
            assert call(array, lib.array) == number
    # Where nobody looks, such a row is NaN, and no search goes on for long.
    taus = Array([TINY / 2, 1.0] if rows else TINY / 2)
    found = lib.numpy(call(taus, lib.array, check=False))
    found = found[:1] if rows else found
    assert np.isnan(found).all()


@pytest.mark.parametrize("name", ["soft_topk", "threshold", "top_k"])
def test_a_cost_below_the_normal_range_is_refused(lib, name):
    for cost in (TINY / 2, 2 / TINY):
        given = [1.0, cost, 4.0, 0.5]
        expected = outcome(stk, name, "cost", given, np.asarray)
        assert "cost must lie in the range of float64" in expected[1]
        for value in (given, Array(given)):
            assert outcome(lib.ops, name, "cost", value, lib.array) == expected
        found = outcome(lib.ops, name, "cost", given, lib.array, check=False)
        assert np.isnan(lib.numpy(found)).all()


BAD = {
    "x": [with_entry(NAN), with_entry(INF)],
    "temperature": [Array([1.0, v]) for v in (0.0, -1.0, NAN, INF)],
    "k": [Array([2.0, v]) for v in (-1.0, 5.0, NAN, INF)],
}
WHOLE = {"grad_topk", "log_partition", "pair_marginals", "in_top_k_loss"}
WHOLE |= {"sparse_softmax", "sparse_softmax_loss"}


@pytest.mark.parametrize("name", [n for n in COMMON if n != "top_k_indices"])
@pytest.mark.parametrize("lib", ["torch"], indirect=True)
def test_a_bad_row_is_nan_where_nobody_looks(lib, name):
    """Also one whose budget is not whole where it has to be."""
    taken = inspect.signature(getattr(lib.ops, name)).parameters
    for argument, values in BAD.items():
        one = name == "balanced_topk"  # whose matrix is one row
        if argument != "x" and (one or argument not in taken):
            continue
        if argument == "k" and name in WHOLE:
            values = [*values, Array([2.0, 2.5])]
        for value in values:
            found = outcome(lib.ops, name, argument, value, lib.array, check=False)
            bad = np.isnan(lib.numpy(found)[0 if one else 1])
            assert bad.all(), (argument, value)
            assert one or not np.isnan(lib.numpy(found)[0]).any()


HUGE = float(np.finfo(np.float64).max)
MASKED = {
    "one": [[3.0, 2.0, 1.0, -HUGE], [-HUGE, 0.1, 0.2, 0.25]],
    "two": [[3.0, 2.9, -HUGE, -HUGE], [-HUGE, 0.1, 0.2, 0.25]],
    "top": [[HUGE, 2.0, 1.0, 0.5], [0.3, 0.1, HUGE, 0.25]],
}
"""What `finfo.min` is put in the place of, and its counterpart."""

VALUES = {"threshold", "potential", "log_partition", "soft_sort", "logsumexp"}
VALUES |= {"top_k_sum", "stop_gradient_loss", "log_softmax"}
DISTANT = [
    name for name in COMMON if name not in VALUES | {"top_k_indices", "taylor_softmax"}
]


def distant(module, name, x, array, **more):
    """An operator at two rows; its temperature is one at which distances overflow."""
    taken = inspect.signature(getattr(module, name)).parameters
    warm = {"temperature": 0.05} if "temperature" in taken else {}
    return outcome(module, name, "x", Array(x), array, **warm, **more)


@pytest.mark.parametrize("name", DISTANT)
@pytest.mark.parametrize("rows", MASKED)
def test_a_score_whose_distance_overflows_is_infinitely_far(lib, name, rows):
    x = np.array(MASKED[rows])
    near = np.clip(x, -1e4, 1e4)
    expected = distant(function_of(name), name, near, np.asarray)
    far = np.abs(expected) > 1e3  # a loss of what was taken to be infinitely far
    found = [distant(function_of(name), name, x, np.asarray)]
    found += [
        lib.numpy(distant(lib.ops, name, x, lib.array, check=check))
        for check in (None, False)
    ]
    for value in found:
        assert not np.isnan(value).any()
        np.testing.assert_allclose(value[~far], expected[~far], atol=1e-9)


@pytest.mark.parametrize(
    "name", ["soft_sort", "log_partition", "potential", "threshold"]
)
def test_a_distant_score_does_not_spoil_what_is_near(lib, name):
    for rows, x in MASKED.items():
        x, near = np.array(x), np.clip(x, -1e4, 1e4)
        expected = distant(function_of(name), name, near, np.asarray)
        ordinary = np.abs(expected) < 1e3
        for check in (None, False):
            found = lib.numpy(distant(lib.ops, name, x, lib.array, check=check))
            told = {"rtol": 1e-9, "atol": 1e-9, "err_msg": f"{rows} {check}"}
            if rows != "two" or name != "threshold":  # any between the second and -HUGE
                np.testing.assert_allclose(found[ordinary], expected[ordinary], **told)
        core = distant(function_of(name), name, x, np.asarray)
        if rows != "two" or name != "threshold":
            np.testing.assert_allclose(core[ordinary], expected[ordinary], atol=1e-9)


@pytest.mark.parametrize("curve", ["laplace", "sigmoid", "clip", "triangular"])
def test_the_largest_numbers_are_told_apart(lib, curve):
    """Each is infinitely far from its neighbour, however near these floats are."""
    x = np.array([0.5 * HUGE, np.nextafter(HUGE, 0), -HUGE, HUGE, 1.0])
    shares = {1: [0, 0, 0, 1, 0], 1.5: [0, 0.5, 0, 1, 0], 3.25: [1, 1, 0, 1, 0.25]}
    for k, expected in shares.items():
        for tau in (0.05, 1e-300):
            for check in (None, False):
                given = {"temperature": tau, "check": check}
                found = lib.ops.soft_topk(lib.array(x), k, curve, **given)
                np.testing.assert_allclose(lib.numpy(found), expected, atol=1e-9)
            found = stk.soft_topk(x, k, curve, temperature=tau)
            np.testing.assert_allclose(found, expected, atol=1e-9)


GRADIENTS = ["soft_topk", "grad_topk", "entmax", "sparsemax", "soft_sort", "soft_rank"]


@pytest.mark.parametrize("name", [*GRADIENTS, "log_partition", "top_k_st"])
def test_a_distant_score_has_no_derivative_and_spoils_none(lib, name):
    operator = getattr(lib.ops, name)
    taken = inspect.signature(operator).parameters
    given = {"k": 2} if "k" in taken else {}
    weight = lib.array(np.cos(np.arange(4.0)))

    def loss(x, tau):
        value = operator(x, **given, temperature=tau, check=None)
        value = lib.where(abs(value) < 1e3, value, 0)
        return (value * (weight if value.ndim > 1 else 1.0)).sum()

    x = np.array(MASKED["one"])
    tau = lib.array(0.05)
    slopes = lib.gradient(loss, (0, 1))
    found = [lib.numpy(v) for v in slopes(lib.array(x), tau)]
    near = [lib.numpy(v) for v in slopes(lib.array(np.clip(x, -1e3, 1e3)), tau)]
    for one, other in zip(found, near, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


THREE = np.array([[0.3, -1.2, 2.0, 1.7], [0.1, 0.2, 0.3, 0.4], [1.5, 0.1, -0.4, 0.2]])
SPOILING = {
    "x": {},
    "k": {"k": Array([2, 5, 2])},
    "temperature": {"temperature": Array([1.0, -1.0, 1.0])},
    "cost": {"cost": Array(np.ones((3, 4))), "k": Array([2.0, 9.0, 2.0])},
}
SLOPED = [
    ("torch", name)
    for name in COMMON
    if name not in ("top_k", "top_k_indices", "balanced_topk")
]
SLOPED += [("jax", "soft_topk"), ("jax", "grad_topk"), ("jax", "softmax")]
SLOPED += [("jax", "cross_entropy"), ("jax", "top_k_sum"), ("jax", "log_partition")]


@pytest.mark.parametrize(("lib", "name"), SLOPED, indirect=["lib"])
def test_a_bad_row_that_a_loss_leaves_out_has_the_gradient_zero(lib, name):
    """Where nobody looks; a bad row that the loss uses has a gradient that is NaN."""
    operator = getattr(lib.ops, name)
    taken = inspect.signature(operator).parameters
    base = {key: NAMES.get(key, v) for key, v in BASE[name].items()}
    if "target" in base:
        base["target"] = Array([0, 1, 2])
    for argument, more in SPOILING.items():
        if argument != "x" and argument not in taken:
            continue
        given = {
            key: lib.array(v.values) if isinstance(v, Array) else v
            for key, v in (base | more).items()
        }
        x = THREE.copy()
        if argument == "x":
            x[1, 2] = INF

        def loss(x, keep, given=given):
            value = operator(x, **given, check=False).reshape(3, -1)
            value = lib.where(keep[:, None], value, 0)
            return (value * value + value).sum()

        slope = lib.gradient(loss)
        out = lib.numpy(slope(lib.array(x), lib.array([True, False, True])))
        assert (out[1] == 0).all() and np.isfinite(out).all(), argument
        assert (out != 0).any(), argument
        used = lib.numpy(slope(lib.array(x), lib.array([True] * 3)))
        assert np.isnan(used[1]).any(), argument
        np.testing.assert_array_equal(used[[0, 2]], out[[0, 2]])


def test_a_matrix_that_a_loss_leaves_out_has_the_gradient_zero(lib):
    """No shares have these budgets in the first matrix."""
    x = lib.array(np.random.default_rng(0).normal(size=(2, 3, 3)))
    k = lib.array([[4.0, 1, 1], [1, 1, 1]])

    def loss(x, first):
        p = lib.ops.balanced_topk(x, k, temperature=0.5, check=False)
        return (lib.where(first, p[0], 0) ** 2).sum() + (p[1] ** 2).sum()

    slope = lib.gradient(loss)
    out = lib.numpy(slope(x, lib.array(False)))
    assert (out[0] == 0).all() and np.isfinite(out).all() and out[1].any()
    assert np.isnan(lib.numpy(slope(x, lib.array(True)))[0]).all()


def unreadable():
    """What NumPy cannot read, and why."""
    torch = pytest.importorskip("torch")
    x = torch.tensor([3.0, 2.0, 1.0])
    return [
        (x.clone().requires_grad_(), "requires grad"),
        (x.bfloat16(), "BFloat16"),
        (x.to_sparse(), "Sparse"),
        (x.to("meta"), "meta device"),
    ]


@pytest.mark.parametrize("name", ["x", "where", "k", "temperature", "cost"])
def test_a_tensor_that_numpy_cannot_read_is_refused_by_its_argument(name):
    for tensor, why in unreadable():
        words = f"{name} must be .*, which NumPy cannot read: .*{why}"
        with pytest.raises(TypeError, match=words):
            stk.soft_topk(**({"x": np.array([3.0, 2.0, 1.0]), "k": 1, name: tensor}))


def test_a_number_that_numpy_cannot_read_is_refused_with_the_reason():
    torch = pytest.importorskip("torch")
    stk_torch = pytest.importorskip("softtopk.torch")
    scores, margin = torch.zeros(2, 3), torch.tensor(0.5, requires_grad=True)
    words = "margin must be one real number, got .* cannot read: .*requires grad"
    with pytest.raises(TypeError, match=words):
        stk_torch.am_softmax_loss(scores, torch.tensor([0, 1]), margin=margin)


def test_what_dask_derives_names_a_gradient_that_cannot_be_read():
    torch = pytest.importorskip("torch")
    da = pytest.importorskip("dask.array")
    stk_dask = pytest.importorskip("softtopk.dask")
    x = da.from_array(np.array([[3.0, 2.0, 1.0]]), chunks=(1, 3))
    tensor = torch.ones(1, 3, requires_grad=True)
    lin = stk_dask.linearize(stk_dask.soft_topk, x, 1)
    for given, words in ((tensor, "requires grad"), ([[1.0], [1.0, 2.0]], "must be")):
        with pytest.raises(TypeError, match=words):
            lin.vjp(given)
    lin = stk_dask.linearize(stk_dask.threshold, x, 1)
    with pytest.raises(TypeError, match=r"must .*requires grad"):
        lin.vjp(tensor[:, 0])
