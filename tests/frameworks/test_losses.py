"""GradTopK, the hard selection, the losses: values, derivatives to second order."""

import numpy as np
import oracle_subset
import pytest
import torch

import softtopk as stk
import softtopk.torch

X = np.random.default_rng(6).standard_normal((4, 9)) * 1.5
ONE = np.array([2, 0, 8, 3])
SHARES = np.eye(9)[[1, 5, 0, 7]] * 0.25 + 0.75 * np.eye(9)[[2, 2, 2, 8]]
PAIR = np.eye(9)[[1, 5, 0, 7]] + np.eye(9)[[2, 3, 4, 8]]

# Name, arguments after the scores, keywords.
LOSSES = [
    ("cross_entropy", (ONE,), {}),
    ("cross_entropy", (SHARES,), {}),
    ("am_softmax_loss", (ONE, 0.3), {"temperature": 0.5}),
    ("sparse_softmax_loss", (ONE, 4), {}),
    ("entmax_loss", (ONE,), {}),
    ("entmax_loss", (SHARES, 1.25), {}),
    ("entmax_loss", (SHARES, 0.6), {}),
    ("entmax_loss", (ONE, 1.0), {}),
    ("sparsemax_loss", (SHARES,), {}),
    ("top_k_loss", (PAIR, 2), {"temperature": 0.7}),
    ("top_k_loss", (PAIR, 2, "clip"), {}),
    ("top_k_loss", (PAIR, 2, "sigmoid"), {}),
    ("top_k_loss", (ONE,), {}),
    ("in_top_k_loss", (ONE, 3), {"temperature": 0.7}),
    ("in_top_k_loss", (ONE, 9), {}),
    ("stop_gradient_loss", (PAIR, 2, "laplace"), {}),
    ("potential", (2.5, "exp"), {"temperature": 0.7}),
    ("potential", (2.5, "triangular"), {}),
    ("potential", (2.5, "clip"), {}),
]


@pytest.mark.parametrize(("name", "given", "settings"), LOSSES)
def test_losses_and_their_derivatives_are_the_cores(lib, name, given, settings):
    core, own = getattr(stk.losses, name), getattr(lib.ops, name)
    given_own = [lib.array(v) if isinstance(v, np.ndarray) else v for v in given]
    lin = stk.linearize(core, X, *given, **settings)
    value = lib.numpy(own(lib.array(X), *given_own, **settings))
    assert abs(value - lin.value).max() < 1e-14

    def total(x):
        return own(x, *given_own, **settings).sum()

    direction, h = np.sin(np.arange(36.0)).reshape(4, 9), 1e-6
    gradient, product = lib.push(
        lib.gradient(total), [lib.array(X)], [lib.array(direction)]
    )
    assert abs(lib.numpy(gradient) - lin.vjp(np.ones(4))).max() < 4e-15
    up = stk.linearize(core, X + h * direction, *given, **settings).vjp(np.ones(4))
    down = stk.linearize(core, X - h * direction, *given, **settings).vjp(np.ones(4))
    assert abs(lib.numpy(product) - (up - down) / (2 * h)).max() < 1e-8


def test_a_class_among_few_of_many(lib):
    """With entries outside of the largest, whose sums come from powers."""
    x, y = 2 * np.sin(np.arange(240.0) ** 2).reshape(4, 60), np.array([3, 59, 0, 20])
    move, h = np.cos(np.arange(240.0)).reshape(4, 60), 1e-6

    def exact(x):
        loss = stk.losses.in_top_k_loss
        return stk.linearize(loss, x, y, 3, temperature=0.5).vjp(np.ones(4))

    def total(x):
        return lib.ops.in_top_k_loss(x, lib.array(y), 3, temperature=0.5).sum()

    at = [lib.array(x)], [lib.array(move)]
    gradient, product = map(lib.numpy, lib.push(lib.gradient(total), *at))
    assert abs(gradient - exact(x)).max() < 4e-15
    slope = (exact(x + h * move) - exact(x - h * move)) / (2 * h)
    assert abs(product - slope).max() < 1e-8


@pytest.mark.parametrize("n", [6, 60])
def test_a_class_among_few_of_a_single_row(lib, n):
    x = 2 * np.sin(np.arange(float(n)) ** 2)
    given, y = lib.array(x), lib.array(np.array(3))
    loss = stk.linearize(stk.losses.in_top_k_loss, x, 3, 2)
    found = lib.ops.in_top_k_loss(given, y, 2)
    assert abs(float(found) - loss.value) < 4e-15
    gradient = lib.gradient(lambda x: lib.ops.in_top_k_loss(x, y, 2))(given)
    assert abs(lib.numpy(gradient) - loss.vjp(1.0)).max() < 4e-15


def test_second_derivatives_in_eager_pytorch():
    """Autograd twice, by scores and temperature, where NumPy gives the first."""
    x = torch.tensor(2 * np.sin(np.arange(120.0) ** 2).reshape(2, 60))
    y, tau = torch.tensor([3, 59]), torch.tensor(0.5, dtype=torch.double)

    def loss(x, tau):
        return softtopk.torch.in_top_k_loss(x, y, 3, temperature=tau)

    given = x.requires_grad_(), tau.requires_grad_()
    assert torch.autograd.gradcheck(loss, given)
    assert torch.autograd.gradgradcheck(loss, given)


def test_losses_near_nothing_keep_their_digits(lib):
    x = lib.array(np.array([60.0, 0.0]))
    loss = float(lib.ops.cross_entropy(x, lib.array(0)))
    assert loss == pytest.approx(
        float(stk.losses.cross_entropy([60.0, 0.0], 0)), rel=1e-14
    )


@pytest.mark.parametrize("name", ["potential", "top_k_loss", "in_top_k_loss"])
def test_the_temperature_of_a_loss_has_derivatives(lib, name):
    core_given = {
        "potential": (2.0, "sigmoid"),
        "top_k_loss": (PAIR, 2, "sigmoid"),
        "in_top_k_loss": (ONE, 2),
    }[name]
    given = [lib.array(v) if isinstance(v, np.ndarray) else v for v in core_given]
    own, core = getattr(lib.ops, name), getattr(stk.losses, name)

    def total(tau):
        return own(lib.array(X), *given, temperature=tau).sum()

    def exact(tau):
        return core(X, *core_given, temperature=tau).sum()

    h, tau = 1e-4, 0.8
    first, second = map(
        float, lib.value_and_gradient(lib.gradient(total))(lib.array(tau))
    )
    assert first == pytest.approx((exact(tau + h) - exact(tau - h)) / (2 * h), abs=1e-6)
    bend = (exact(tau + h) - 2 * exact(tau) + exact(tau - h)) / h**2
    assert second == pytest.approx(bend, abs=1e-4)


def test_grad_topk_is_that_of_fifty_digits(lib):
    x, g, h = X[0], np.cos(np.arange(9.0)), 1e-6

    def marginals(x, k):
        return lib.ops.grad_topk(x, k)

    def value(x, k):
        return lib.ops.log_partition(x, k)

    def gradient(x, k):
        def loss(x):
            return (lib.ops.grad_topk(x, k, temperature=0.5) * lib.array(g)).sum()

        return lib.gradient(loss)(x)

    still = lib.array(np.zeros(()))
    for k in (1, 4, 8):
        at = [lib.array(x), lib.array(float(k))]
        moves = [lib.array(g), still]
        p, product = map(lib.numpy, lib.push(marginals, at, moves))
        exact_p = np.array(oracle_subset.marginals(x, k), float)
        for found in (p, lib.numpy(lib.ops.grad_topk(at[0], k))):
            assert abs(found - exact_p).max() < 2e-15
        exact = np.array(oracle_subset.derivative(x, k, g), float)
        assert abs(product - exact).max() < 4e-15
        found = float(lib.ops.log_partition(at[0], k))
        assert found == pytest.approx(float(oracle_subset.partition(x, k)), abs=4e-15)
        assert abs(lib.numpy(lib.hessian(value)(*at)) @ g - exact).max() < 4e-15
        core = [
            stk.linearize(stk.grad_topk, x + s * h * g, k, temperature=0.5).vjp(g)
            for s in (1, -1)
        ]
        twice = lib.numpy(lib.jvp(gradient, at, moves))
        assert abs(twice - (core[0] - core[1]) / (2 * h)).max() < 1e-7


def test_log_partition_has_the_entropy_for_its_derivative_by_temperature(lib):
    def total(tau):
        return lib.ops.log_partition(lib.array(X), 3, temperature=tau).sum()

    def exact(tau):
        return stk.log_partition(X, 3, temperature=tau).sum()

    h, tau = 1e-4, 0.8
    first = float(lib.gradient(total)(lib.array(tau)))
    assert first == pytest.approx((exact(tau + h) - exact(tau - h)) / (2 * h), abs=1e-6)


@pytest.mark.usefixtures("looked")
def test_subsets_of_none_of_all_and_with_masks(lib):
    x = np.array([[3.0, 1.0, -2.0], [0.0, 0.0, 5.0], [1.0, -np.inf, 2.0]])
    for k in ([0, 3, 2], [2, 1, 1]):
        p = lib.numpy(lib.ops.grad_topk(lib.array(x), lib.array(k)))
        assert abs(p - stk.grad_topk(x, k)).max() < 1e-15
        value = lib.numpy(lib.ops.log_partition(lib.array(x), lib.array(k)))
        assert abs(value - stk.log_partition(x, k)).max() < 4e-15
    p = lib.ops.grad_topk(lib.array(x), lib.array([4, 1, 3]), check=False)
    assert np.isnan(lib.numpy(p)).any(axis=-1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="k must be a whole number"):
        lib.ops.grad_topk(lib.array(x), 1.5)


def test_hard_selection_is_the_cores(lib):
    x = np.array([[5.0, 1.0, 1.0, 1.0], [3.0, 2.0, -np.inf, 2.0]])
    for k in (0, 1, 2.5, 3, [0, 3], [1.25, 2]):
        budget = lib.array(k) if isinstance(k, list) else k
        p = lib.numpy(lib.ops.top_k(lib.array(x), budget))
        assert abs(p - stk.top_k(x, k)).max() < 1e-15
        value = lib.numpy(lib.ops.top_k_sum(lib.array(x), budget))
        assert abs(value - stk.top_k_sum(x, k)).max() < 1e-15
    (gx,) = lib.vjp(
        lambda x: lib.ops.top_k_sum(x, 2.5), [lib.array(x[0])], lib.array(1.0)
    )
    assert lib.numpy(gx).tolist() == stk.top_k(x[0], 2.5).tolist()


def test_distributions_are_the_cores(lib):
    mask = X > -1
    for name, given in [("softmax", {}), ("sparsemax", {}), ("entmax", {"alpha": 1.2})]:
        own = lib.numpy(getattr(lib.ops, name)(lib.array(X), temperature=0.7, **given))
        assert abs(own - getattr(stk, name)(X, temperature=0.7, **given)).max() < 2e-15
        p = getattr(lib.ops, name)(lib.array(X), where=lib.array(mask), **given)
        assert (lib.numpy(p)[~mask] == 0).all()


@pytest.mark.usefixtures("looked")
def test_bad_targets_raise(lib):
    x = lib.array(X)
    for target, message in [
        (np.array([2, 0, 9, 3]), "class indices in"),
        (SHARES * 2, "target must"),
        (SHARES / 2, "target must sum to"),
        (np.zeros((4, 8)), "target must hold"),
    ]:
        with pytest.raises(ValueError, match=message):
            lib.ops.cross_entropy(x, lib.array(target))
    with pytest.raises(ValueError, match="must hold shares where k is not 1"):
        lib.ops.top_k_loss(x, lib.array(ONE), 2)
