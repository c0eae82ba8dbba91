"""Distributions and pairs that the core has too: values, derivatives, masks, NaN."""

import numpy as np
import pytest

import softtopk as stk

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 6))
X[1, 2] = -np.inf
MASK = np.array([[True] * 6, [True, False] * 3, [False, True, True] * 2])
OPERATORS = [
    ("log_softmax", {}),
    ("logsumexp", {}),
    ("taylor_softmax", {}),
    ("taylor_softmax", {"order": 20}),
    ("sparse_softmax", {"k": 2}),
    ("sparse_softmax", {"k": [1, 2, 3]}),
    ("entmax", {"alpha": 1.3}),
    ("entmax", {"alpha": 3.0}),
    ("entmax", {"alpha": 0.4}),
]
each = pytest.mark.parametrize(("name", "given"), OPERATORS, ids=str)


@each
@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_values_and_gradients_are_the_cores(lib, name, given, scale):
    core, own = getattr(stk, name), getattr(lib.ops, name)
    mask = lib.array(MASK)

    def at(x):
        return own(x, **given, temperature=0.7, where=mask)

    x = X * scale
    lin = stk.linearize(core, x, **given, temperature=0.7, where=MASK)
    found, finite = lib.numpy(at(lib.array(x))), np.isfinite(lin.value)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    # Beyond alpha = 2 the map is not Lipschitz where a share starts.
    bound = 1e-12 if given.get("alpha", 1) > 2 else 4e-16
    inner = lin.value[finite]
    np.testing.assert_allclose(found[finite], inner, 2 * bound, bound)
    g = np.cos(np.arange(found.size)).reshape(found.shape)
    (gx,) = lib.vjp(at, [lib.array(x)], lib.array(g))
    np.testing.assert_allclose(lib.numpy(gx), lin.vjp(g), 0, 1e4 * bound)


@each
def test_a_row_without_a_number_is_nan_and_no_other(lib, name, given):
    x = np.array([[1.0, 2.0, 0.5], [1.0, np.nan, 0.0], [-np.inf] * 3])
    found = getattr(lib.ops, name)(lib.array(x), **given, check=False)
    found = lib.numpy(found).reshape(3, -1)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1:]).all(axis=-1).all()


@pytest.mark.parametrize("k", [0, 1, 2, 4, [0, 3, 6]])
def test_pairs_are_the_cores(lib, k):
    x = np.where(np.isfinite(X), X, 0) * np.array([[1], [30], [1e5]])
    own = lib.numpy(lib.ops.pair_marginals(lib.array(x), k, temperature=0.7))
    expected = stk.pair_marginals(x, k, temperature=0.7)
    np.testing.assert_allclose(own, expected, 0, 4e-15)


def test_pairs_are_the_second_derivative_of_the_partition_function(lib):
    x, tau = X[0], 0.7
    H = lib.hessian(lambda x: lib.ops.log_partition(x, 2, temperature=tau))(
        lib.array(x)
    )
    P = lib.numpy(lib.ops.pair_marginals(lib.array(x), 2, temperature=tau))
    p = np.diag(P)
    np.testing.assert_allclose(lib.numpy(H) * tau, P - np.outer(p, p), 0, 1e-14)


def test_an_entmax_beyond_two_has_a_loss_that_is_its_own(lib):
    target, alpha = np.array([0, 1, 3]), 3.0
    lin = stk.linearize(stk.losses.entmax_loss, X, target, alpha)

    def total(x):
        return lib.ops.entmax_loss(x, lib.array(target), alpha)

    np.testing.assert_allclose(lib.numpy(total(lib.array(X))), lin.value, 0, 1e-13)
    (gx,) = lib.vjp(total, [lib.array(X)], lib.array(np.ones(3)))
    np.testing.assert_allclose(lib.numpy(gx), lin.vjp(np.ones(3)), 0, 1e-10)


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize("temperature", ["number", "array"])
@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax"])
def test_a_row_without_a_finite_entry_is_named(lib, name, temperature):
    x = X.copy()
    x[2] = -np.inf
    tau = 0.7 if temperature == "number" else lib.array(np.float64(0.7))
    with pytest.raises(ValueError, match="x must have a finite entry in every row"):
        getattr(lib.ops, name)(lib.array(x), temperature=tau)
