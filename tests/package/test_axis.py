"""Every operator along one axis, several or all, against rows made by hand."""

import numpy as np
import pytest

import softtopk as stk
from softtopk import losses
from softtopk._linearize import _BODIES

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 2, 4))
WHERE = RNG.random(X.shape) < 0.8
CLASSES = np.array([5, 9])  # where X takes part, as (3, 4) entries in C order
WHERE[1, 0, 1] = WHERE[2, 1, 1] = True
K, ALPHA = np.array([2, 3]), np.array([1.5, 2.0])

# name: the operator, and its arguments for the two rows of X with axes (0, 2)
OPERATORS = {
    "top_k": (stk.top_k, {"k": K}),
    "top_k_indices": (stk.top_k_indices, {"k": 2}),
    "top_k_sum": (stk.top_k_sum, {"k": K}),
    "soft_topk": (stk.soft_topk, {"k": K + 0.5}),
    "threshold": (stk.threshold, {"k": K + 0.5, "curve": "exp"}),
    "grad_topk": (stk.grad_topk, {"k": K}),
    "log_partition": (stk.log_partition, {"k": K}),
    "pair_marginals": (stk.pair_marginals, {"k": K}),
    "soft_permutation": (stk.soft_permutation, {"curve": "exp"}),
    "soft_sort": (stk.soft_sort, {"curve": "sigmoid"}),
    "soft_rank": (stk.soft_rank, {"temperature": 0.5}),
    "softmax": (stk.softmax, {"temperature": 0.5}),
    "log_softmax": (stk.log_softmax, {}),
    "logsumexp": (stk.logsumexp, {}),
    "entmax": (stk.entmax, {"alpha": ALPHA}),
    "sparsemax": (stk.sparsemax, {}),
    "taylor_softmax": (stk.taylor_softmax, {}),
    "sparse_softmax": (stk.sparse_softmax, {"k": K}),
    "perturb_max": (stk.perturb_max, {"noise": "logistic"}),
    "cross_entropy": (losses.cross_entropy, {"target": CLASSES}),
    "am_softmax_loss": (losses.am_softmax_loss, {"target": CLASSES, "margin": 0.1}),
    "sparse_softmax_loss": (losses.sparse_softmax_loss, {"target": CLASSES, "k": K}),
    "entmax_loss": (losses.entmax_loss, {"target": CLASSES}),
    "sparsemax_loss": (losses.sparsemax_loss, {"target": CLASSES}),
    "in_top_k_loss": (losses.in_top_k_loss, {"target": CLASSES, "k": K}),
    "potential": (losses.potential, {"k": K}),
    "top_k_loss": (losses.top_k_loss, {"target": CLASSES, "curve": "exp"}),
    "stop_gradient_loss": (losses.stop_gradient_loss, {"target": CLASSES}),
}
VALUE_ONLY = {"top_k", "top_k_indices", "top_k_sum", "pair_marginals"}
MATRICES = {"pair_marginals", "soft_permutation"}
SHAPES = {"pair_marginals": (1, 1), "soft_permutation": (1, 1), "top_k_indices": (1,)}
"""Results of one entry that are arrays."""
every = pytest.mark.parametrize("name", OPERATORS)
differentiable = pytest.mark.parametrize("name", sorted({*OPERATORS} - VALUE_ONLY))


def rows_of(array):
    """Axes (0, 2) of an array like X as rows."""
    return np.moveaxis(array, 1, 0).reshape(2, 12)


def back(rows):
    """The inverse of `rows_of`; what has no row's entries stays."""
    if rows.shape != (2, 12):
        return rows
    return np.moveaxis(rows.reshape(2, 3, 4), 0, 1)


def test_the_table_is_complete():
    known = {body.__name__ for body in _BODIES if "softtopk" in body.__module__}
    known -= {"balanced_topk", "subset_log_prob"}  # test_balance and test_sampling
    assert known == {*OPERATORS} - VALUE_ONLY
    functions = {name for name in stk.__all__ if callable(getattr(stk, name))}
    others = {"Linearization", "Noise", "linearize", "balanced_topk"}
    others |= {"sample_shares", "sample_topk", "subset_log_prob"}
    assert functions - others <= {*OPERATORS}


@every
@pytest.mark.parametrize("axis", [(0, 2), (2, 0), (-1, -3), (0, -1)])
def test_several_axes_hold_one_row(name, axis):
    operator, options = OPERATORS[name]
    expected = operator(rows_of(X), **options)
    np.testing.assert_array_equal(operator(X, **options, axis=axis), back(expected))
    expected = operator(rows_of(X), **options, where=rows_of(WHERE))
    found = operator(X, **options, axis=axis, where=WHERE)
    np.testing.assert_array_equal(found, back(expected))


@every
def test_no_axis_means_all(name):
    operator, options = OPERATORS[name]
    options = {
        key: value[0] if isinstance(value, np.ndarray) else value
        for key, value in options.items()
    }
    expected = operator(X.ravel(), **options, where=WHERE.ravel())
    found = operator(X, **options, axis=None, where=WHERE)
    assert np.shape(found) in (X.shape, (), (24, 24), (2,))
    np.testing.assert_array_equal(np.ravel(found), np.ravel(expected))


@differentiable
@pytest.mark.parametrize("axis", [(0, 2), (2, -3)])
def test_derivatives_along_several_axes(name, axis):
    operator, options = OPERATORS[name]
    plain = stk.linearize(operator, rows_of(X), **options, where=rows_of(WHERE))
    lin = stk.linearize(operator, X, **options, axis=axis, where=WHERE)
    np.testing.assert_array_equal(lin.value, back(plain.value))
    tangent = RNG.normal(size=X.shape)
    np.testing.assert_array_equal(lin.jvp(tangent), back(plain.jvp(rows_of(tangent))))
    cotangent = RNG.normal(size=np.shape(lin.value))
    rows = rows_of(cotangent) if cotangent.shape == X.shape else cotangent
    np.testing.assert_array_equal(lin.vjp(cotangent), back(plain.vjp(rows)))
    np.testing.assert_array_equal(lin.jacobian(), plain.jacobian())
    assert (lin.dk is None) == (plain.dk is None)
    if lin.dk is not None:
        np.testing.assert_array_equal(lin.dk, back(plain.dk))


@differentiable
def test_products_along_all_axes_are_those_of_the_jacobian(name):
    operator, options = OPERATORS[name]
    options = {
        key: value[0] if isinstance(value, np.ndarray) else value
        for key, value in options.items()
    }
    lin = stk.linearize(operator, X, **options, axis=None)
    J = lin.jacobian()
    value = (24, 24) if name in MATRICES else (24,) if np.ndim(lin.value) else ()
    assert J.shape == (*value, 24)
    tangent = RNG.normal(size=X.shape)
    found = lin.jvp(tangent)
    assert np.shape(found) == np.shape(lin.value)
    np.testing.assert_allclose(np.ravel(found), np.ravel(J @ tangent.ravel()), 0, 1e-12)
    cotangent = RNG.normal(size=np.shape(lin.value))
    found = lin.vjp(cotangent)
    assert found.shape == X.shape
    expected = np.ravel(cotangent) @ J.reshape(-1, 24)
    np.testing.assert_allclose(found.ravel(), expected, 0, 1e-12)


def test_several_budgets_over_several_axes_collect_their_gradients():
    k = np.array([[1.5], [4.0]])
    lin = stk.linearize(stk.soft_topk, X, k, axis=(0, 2))
    assert lin.value.shape == (2, *X.shape)
    parts = [stk.linearize(stk.soft_topk, X, j, axis=(0, 2)) for j in (1.5, 4.0)]
    np.testing.assert_array_equal(lin.value, [part.value for part in parts])
    g = RNG.normal(size=lin.value.shape)
    expected = sum(part.vjp(h) for part, h in zip(parts, g, strict=True))
    np.testing.assert_allclose(lin.vjp(g), expected, 0, 1e-15)
    alphas = stk.entmax(X, ALPHA[:, None], axis=None)
    assert alphas.shape == (2, 1, *X.shape)
    np.testing.assert_array_equal(alphas[1, 0], stk.entmax(X, 2.0, axis=None))


@pytest.mark.parametrize(
    ("loss", "k"),
    [
        (losses.cross_entropy, {}),
        (losses.sparse_softmax_loss, {"k": 3}),
        (losses.entmax_loss, {}),
        (losses.sparsemax_loss, {}),
        (losses.top_k_loss, {"k": 1}),
        (losses.stop_gradient_loss, {"k": 1}),
    ],
)
def test_shares_as_targets_have_the_shape_of_the_scores(loss, k):
    shares = stk.softmax(RNG.normal(size=X.shape), axis=(0, 2))
    expected = loss(rows_of(X), rows_of(shares), **k)
    np.testing.assert_array_equal(loss(X, shares, **k, axis=(0, 2)), expected)
    one_hot = np.zeros((2, 12))
    one_hot[[0, 1], CLASSES] = 1
    np.testing.assert_array_equal(
        loss(X, back(one_hot), **k, axis=(2, 0)), loss(X, CLASSES, **k, axis=(2, 0))
    )


def test_a_class_serves_every_budget_of_its_row():
    loss, k = losses.sparse_softmax_loss, np.array([[2], [5]])
    found = loss(X, CLASSES, k, axis=(0, 2))
    expected = [loss(X, CLASSES, int(j[0]), axis=(0, 2)) for j in k]
    np.testing.assert_array_equal(found, expected)


@differentiable
@pytest.mark.parametrize("axis", [-1, 0, None, ()])
def test_a_scalar_is_an_array_of_one_entry(name, axis):
    operator, options = OPERATORS[name]
    ones = {"k": 1, "alpha": 1.5, "target": 0}
    options = {key: ones.get(key, value) for key, value in options.items()}
    lin = stk.linearize(operator, 0.5, **options, axis=axis)
    plain = stk.linearize(operator, [0.5], **options)
    parts = [(lin.value, plain.value), (lin.vjp(2.0), plain.vjp(2.0))]
    shape = (1, 1) if name in MATRICES else ()
    assert np.shape(lin.value) == np.shape(lin.jvp(2.0)) == shape
    assert np.shape(lin.vjp(2.0)) == ()
    for found, expected in [*parts, (lin.jvp(2.0), plain.jvp(2.0))]:
        np.testing.assert_array_equal(found, np.ravel(expected)[0])
    np.testing.assert_array_equal(lin.jacobian(), plain.jacobian())


@every
def test_without_axes_each_entry_is_a_row(name):
    operator, options = OPERATORS[name]
    ones = {"k": 1, "alpha": 1.5, "target": np.zeros(X.shape, int)}
    options = {key: ones.get(key, value) for key, value in options.items()}
    one_by_one = operator(X[..., None], **options, axis=-1)
    found = operator(X, **options, axis=())
    np.testing.assert_array_equal(found, one_by_one.reshape(found.shape))


@every
@pytest.mark.parametrize("given", [0.5, np.float32(0.5), np.array(0.5), np.array(1)])
def test_a_scalar_gives_a_scalar(name, given):
    """What NumPy's functions return: a scalar of the type of an array's results."""
    operator, options = OPERATORS[name]
    ones = {"k": 1, "alpha": 1.5, "target": 0}
    options = {key: ones.get(key, value) for key, value in options.items()}
    found, plain = operator(given, **options), operator(np.ravel(given), **options)
    if name in SHAPES:
        assert found.shape == SHAPES[name]
    else:
        assert type(found) is plain.dtype.type
    if name not in VALUE_ONLY:
        lin = stk.linearize(operator, given, **options)
        assert type(lin.vjp(1.0)) is plain.dtype.type
        assert name in MATRICES or type(lin.jvp(1.0)) is plain.dtype.type
    k = {"k": np.array([1, 0.5])} if name in ("soft_topk", "threshold") else None
    if k:
        assert operator(given, **(options | k)).shape == (2,)
        assert type(stk.linearize(operator, given, **k).vjp(1.0)) is plain.dtype.type
