"""The Linearization of an operator, whatever the operator."""

import inspect
import pickle

import numpy as np
import pytest
from test_axis import OPERATORS

import softtopk as stk
from softtopk._linearize import Differentiable, Linearization, operator
from softtopk._rows.numpy_rows import Array, as_numpy_rows

X = np.random.default_rng(0).normal(size=(2, 3, 4))


BUILT = []


@operator
def square(x, axis: int = -1) -> Differentiable[Array]:
    """x_i times the sum of its row, an operator with an unsymmetric Jacobian."""
    rows = as_numpy_rows(x, axis=axis)
    total = rows.x.sum(axis=-1, keepdims=True)
    value = rows.expand(rows.x * total)

    def derivative():
        BUILT.append(x)
        return Linearization(
            value,
            rows,
            lambda t: t * total + rows.x * t.sum(axis=-1, keepdims=True),
            lambda g: g * total + (g * rows.x).sum(axis=-1, keepdims=True),
        )

    return value, derivative


def test_an_operator_keeps_its_name_and_signature_and_returns_the_value_alone():
    BUILT.clear()
    assert square([1.0, 2.0, 4.0]).tolist() == [7, 14, 28]
    assert not BUILT
    assert square.__name__ == "square"
    assert square.__doc__.startswith("x_i times")
    signature = inspect.signature(square)
    assert list(signature.parameters) == ["x", "axis"]
    assert signature.return_annotation == Array


def test_one_body_gives_value_and_derivative():
    lin = stk.linearize(square, [1.0, 2.0, 4.0])
    assert lin.value.tolist() == [7, 14, 28]
    assert lin.dk is None
    # J = 7 I + x 1^T
    expected = 7 * np.eye(3) + np.array([[1.0], [2.0], [4.0]])
    np.testing.assert_array_equal(lin.jacobian(), expected)
    np.testing.assert_array_equal(lin.jvp([1, 0, 2]), expected @ [1, 0, 2])
    np.testing.assert_array_equal(lin.vjp([1, 0, 2]), expected.T @ [1, 0, 2])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold])
def test_products_agree_with_the_dense_jacobian(operator, axis):
    lin = stk.linearize(operator, X, 1.5, axis=axis)
    reduces = operator is stk.threshold
    rng = np.random.default_rng(1)
    t, g = rng.normal(size=X.shape), rng.normal(size=lin.value.shape)
    np.testing.assert_array_equal(lin.value, operator(X, 1.5, axis=axis))
    J = lin.jacobian()
    n = X.shape[axis]
    assert J.shape == (*np.delete(X.shape, axis), *((n,) if reduces else (n, n)))
    rows = np.moveaxis(t, axis, -1)
    forward = (J * rows).sum(axis=-1) if reduces else (J @ rows[..., None])[..., 0]
    expected = forward if reduces else np.moveaxis(forward, -1, axis)
    np.testing.assert_allclose(lin.jvp(t), expected, atol=1e-14)
    back = (
        J * g[..., None]
        if reduces
        else (np.swapaxes(J, -1, -2) @ np.moveaxis(g, axis, -1)[..., None])[..., 0]
    )
    np.testing.assert_allclose(lin.vjp(g), np.moveaxis(back, -1, axis), atol=1e-14)


def test_scores_used_for_several_budgets_collect_their_gradients():
    x, k = X[0, 0], np.array([0.5, 1.0, 2.5])
    lin = stk.linearize(stk.soft_topk, x, k)
    g = np.random.default_rng(2).normal(size=(3, 4))
    assert lin.value.shape == (3, 4)
    one = [stk.linearize(stk.soft_topk, x, j) for j in k]
    each = [point.vjp(h) for point, h in zip(one, g, strict=True)]
    np.testing.assert_allclose(lin.vjp(g), np.sum(each, axis=0), atol=1e-15)
    t = np.array([1.0, 0.0, -1.0, 2.0])
    ahead = [point.jvp(t) for point in one]
    np.testing.assert_allclose(lin.jvp(t), ahead, atol=1e-15)
    wide = stk.linearize(stk.soft_topk, x[None], k)
    assert wide.vjp(g).shape == (1, 4)


def test_types_follow_the_scores():
    lin = stk.linearize(stk.soft_topk, X.astype(np.float32), 2)
    for part in (lin.value, lin.dk, lin.jvp(X), lin.vjp(X), lin.jacobian()):
        assert part.dtype == np.float32
    lin = stk.linearize(stk.threshold, X.astype(np.float32), 2)
    for part in (lin.value, lin.dk, lin.jvp(X), lin.vjp(1.0), lin.jacobian()):
        assert part.dtype == np.float32


@pytest.mark.parametrize("alpha", [0.5, 1.5, 2.5, np.empty(0)])
def test_no_rows_have_a_derivative_of_no_rows(alpha):
    lin = stk.linearize(stk.entmax, np.empty((0, 5)), alpha)
    assert lin.value.shape == lin.vjp(np.empty((0, 5))).shape == (0, 5)


def test_a_linearization_is_frozen_and_leaves_its_arguments_alone():
    x, g = X.copy(), X.copy()
    lin = stk.linearize(stk.soft_topk, x, 2)
    first = lin.vjp(g)
    np.testing.assert_array_equal(lin.vjp(g), first)
    np.testing.assert_array_equal(g, X)
    np.testing.assert_array_equal(x, X)
    with pytest.raises(AttributeError):
        lin.value = None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: stk.linearize(stk.top_k, [1.0], 1), TypeError, "soft_topk.*top_k"),
        (lambda: stk.linearize(print, [1.0]), TypeError, "operator must be one with"),
        (
            lambda: stk.linearize(stk.soft_topk, [1.0, 2.0], 1).vjp([1.0, 2.0, 3.0]),
            ValueError,
            r"cotangent must broadcast to shape \(2,\), got shape \(3,\)",
        ),
        (
            lambda: stk.linearize(stk.soft_topk, [1.0, 2.0], 1).jvp(["a", "b"]),
            TypeError,
            "tangent must hold real numbers",
        ),
        (lambda: stk.linearize(stk.soft_topk, [np.nan], 1), ValueError, "x must be"),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


Z = np.random.default_rng(4).normal(size=(3, 5))
LINEARIZED = {
    "soft_topk": (stk.soft_topk, (2,), {}),
    "costs": (stk.soft_topk, (2,), {"cost": [1.0, 2.0, 1.0, 0.5, 1.0]}),
    "threshold": (stk.threshold, (2, "clip"), {}),
    "softmax": (stk.softmax, (), {}),
    "log_softmax": (stk.log_softmax, (), {}),
    "logsumexp": (stk.logsumexp, (), {}),
    "sparsemax": (stk.sparsemax, (), {}),
    "entmax": (stk.entmax, (1.3,), {}),
    "taylor_softmax": (stk.taylor_softmax, (2,), {}),
    "sparse_softmax": (stk.sparse_softmax, (2,), {}),
    "grad_topk": (stk.grad_topk, (2,), {}),
    "log_partition": (stk.log_partition, (2,), {}),
    "balanced_topk": (stk.balanced_topk, (2,), {}),
    "soft_permutation": (stk.soft_permutation, (), {}),
    "soft_sort": (stk.soft_sort, (), {}),
    "soft_rank": (stk.soft_rank, (), {}),
    "perturb_max": (stk.perturb_max, (), {}),
    "potential": (stk.losses.potential, (2,), {}),
    "cross_entropy": (stk.losses.cross_entropy, ([0, 1, 2],), {"reduction": "mean"}),
    "top_k_loss": (stk.losses.top_k_loss, ([0, 1, 2],), {}),
}


@pytest.mark.parametrize("name", LINEARIZED)
def test_a_linearization_keeps_its_results_apart_and_can_be_sent(name):
    """Writing into a result, or into the scores, leaves the derivative as it was."""
    operator, args, given = LINEARIZED[name]
    x = Z.copy()
    lin = stk.linearize(operator, x, *args, **given)
    sent = pickle.dumps(lin)
    parts = [lin] if lin.by_cost is None else [lin, lin.by_cost]
    g = np.cos(np.arange(np.size(lin.value))).reshape(np.shape(lin.value))
    before = [part.vjp(g) for part in parts]
    changes = [part.jvp(before[i]) for i, part in enumerate(parts)]
    values = [np.array(part.value) for part in parts]
    for part in parts:
        for result in (part.value, part.dk):
            if isinstance(result, np.ndarray):
                result[...] = 7.0
    x[...] = 1.0
    for back in (sent, pickle.dumps(lin)):
        again = pickle.loads(back)
        others = [again] if lin.by_cost is None else [again, again.by_cost]
        for other, value, slope in zip(others, values, before, strict=True):
            assert np.array_equal(other.value, value)
            assert np.array_equal(other.vjp(g), slope)
    for part, slope, change in zip(parts, before, changes, strict=True):
        assert np.array_equal(part.vjp(g), slope)
        assert np.array_equal(part.jvp(slope), change)
    if lin.by_cost is not None:
        alone = pickle.loads(pickle.dumps(lin.by_cost))
        assert np.array_equal(alone.vjp(g), before[1])


EXTREME = {
    "ordinary": np.random.default_rng(0).normal(size=(3, 4)),
    "wide": np.array([[3.0, 2.0, 1.0, -800.0], [-1e3, 0.1, 900.0, 0.25]]),
    "extreme": np.array([[1e-300, 5e-324, 0.0, 1e200], [1.0, -np.inf, 2.0, 3.0]]),
    "single": np.array([[1e-30, 60.0, 1e20, -1e20]], np.float32),
}


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_no_state_of_numpy_makes_an_operator_fail(name):
    """An underflow is foreseen; and the caller's state is as it was."""
    f = getattr(stk, name, None) or getattr(stk.losses, name)
    taken = inspect.signature(f).parameters
    for x in EXTREME.values():
        for tau in (1.0, 1e-3):
            given = dict(OPERATORS[name][1])
            if "target" in given:
                given["target"] = np.arange(len(x)) % 2 * 2
            if "temperature" in taken:
                given["temperature"] = tau
            weight = np.where(np.isfinite(x), x, 0)
            expected = outcome_of(f, x, given, weight)
            with np.errstate(all="raise"):
                before = np.geterr()
                found = outcome_of(f, x, given, weight)
                assert np.geterr() == before
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)


def outcome_of(f, x, given, weight):
    """The value and the products of its derivative, or the words of an error."""
    try:
        value = f(x, **given)
        lin = stk.linearize(f, x, **given)
    except (TypeError, ValueError) as error:
        return [str(error)]
    return [*np.atleast_1d(value), lin.jvp(weight), lin.vjp(np.ones(np.shape(value)))]
