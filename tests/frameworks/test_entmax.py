"""Entmax of an order that is an array: against 50 digits, and its derivatives."""

import functools

import numpy as np
import pytest
import torch
from mpmath import mp, mpf

import softtopk as stk
import softtopk.torch as stk_torch

ORDERS = [0.05, 0.4, 0.9, 1 - 1e-9, 1.0, 1 + 1e-9, 1.1, 1.5, 2.0, 2.7]
X = np.array([1.7, 0.4, -0.3, 1.2, -2.0, 0.9])
G = np.cos(np.arange(6.0))


def largest_entropy(alpha):
    """What the entropy of six shares is up to below alpha = 1; 1 from there on."""
    return max(1.0, 6 ** (1 - alpha) / alpha)


def shares(x, alpha):
    """The shares in 50 digits, by bisection."""
    b = mpf(alpha) - 1

    def curve(t):
        if b == 0:
            return mp.exp(t)
        return (1 + b * t) ** (1 / b) if 1 + b * t > 0 else mpf(0)

    x = [mpf(float(v)) for v in x]
    low, high = max(x), max(x) + 40  # (n^-b - 1) / -b, of n = 6, is below that
    for _ in range(220):
        middle = (low + high) / 2
        if sum(curve(v - middle) for v in x) > 1:
            low = middle
        else:
            high = middle
    return [curve(v - low) for v in x]


def slope(f, alpha):
    """The derivative in 50 digits, at alpha = 1 from both sides too."""
    h = mpf(10) ** -12
    return (f(mpf(alpha) + h) - f(mpf(alpha) - h)) / (2 * h)


@pytest.mark.parametrize("alpha", ORDERS)
def test_shares_and_the_derivative_by_alpha_are_those_of_fifty_digits(lib, alpha):
    with mp.workdps(50):
        exact = np.array(shares(X, alpha), float)
        by_alpha = slope(
            lambda a: mp.fdot(map(mpf, map(float, G)), shares(X, a)), alpha
        )

    def total(a):
        return (lib.ops.entmax(lib.array(X), a) * lib.array(G)).sum()

    at = lib.array(alpha)
    assert abs(lib.numpy(lib.ops.entmax(lib.array(X), at)) - exact).max() < 1e-15
    found = float(lib.gradient(total)(at))
    assert found == pytest.approx(float(by_alpha), abs=2e-14)


@pytest.mark.parametrize("alpha", ORDERS)
def test_the_loss_has_the_derivative_by_alpha_of_fifty_digits(lib, alpha):
    def value(a):
        p, b = shares(X, a), mpf(a) - 1
        power = [v * (mp.log(v) if b == 0 else (v**b - 1) / b) for v in p if v > 0]
        gain = sum(v * mpf(float(x)) for v, x in zip(p, X, strict=True))
        return gain - sum(power) / (1 + b) - mpf(float(X[1]))

    with mp.workdps(50):
        exact, by_alpha = float(value(mpf(alpha))), float(slope(value, alpha))

    def loss(a):
        return lib.ops.entmax_loss(lib.array(X), lib.array(1), a)

    size = largest_entropy(alpha)
    assert abs(float(loss(lib.array(alpha))) - exact) <= 1e-15 * size
    found = float(lib.gradient(loss)(lib.array(alpha)))
    assert abs(found - by_alpha) <= 2e-14 * size


def test_an_order_for_each_row_is_numpys(lib):
    n = len(ORDERS)
    x = np.stack([X] * n) + np.sin(np.arange(6.0 * n).reshape(n, 6))
    x[0, 2] = -np.inf
    p = lib.ops.entmax(lib.array(x), lib.array(ORDERS), temperature=0.7)
    assert abs(lib.numpy(p) - stk.entmax(x, ORDERS, temperature=0.7)).max() < 1e-14
    found = lib.ops.entmax(lib.array(x), ORDERS, temperature=0.7)
    assert abs(lib.numpy(found - p)).max() < 1e-15
    target = np.arange(n) % 6
    found = lib.ops.entmax_loss(lib.array(x), lib.array(target), lib.array(ORDERS))
    exact = [
        stk.losses.entmax_loss(row, t, a)
        for row, t, a in zip(x, target, ORDERS, strict=True)
    ]
    sizes = [largest_entropy(alpha) for alpha in ORDERS]
    assert (abs(lib.numpy(found) - exact) / sizes).max() < 4e-15


def test_orders_are_mapped(lib):
    x, alpha = lib.array(np.stack([X, X[::-1]])), lib.array([1.2, 1.6])

    def slopes(x, alpha):
        return lib.gradient(lambda a: (lib.ops.entmax(x, a) * lib.array(G)).sum())(
            alpha
        )

    found = lib.numpy(lib.vmap(slopes)(x, alpha))
    exact = [float(slopes(x[i], alpha[i])) for i in range(2)]
    assert found == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize("f", [stk_torch.entmax, stk_torch.entmax_loss])
def test_orders_pass_pytorchs_checks_of_gradients(f):
    x = torch.tensor(np.stack([X] * 3), requires_grad=True)
    target = (torch.tensor([1, 0, 3]),) if f is stk_torch.entmax_loss else ()
    for a in ([0.4, 1.0, 2.2], 1.3):
        alpha = torch.tensor(a, dtype=torch.float64, requires_grad=True)

        def g(x, alpha):
            return f(x, *target, alpha)

        assert torch.autograd.gradcheck(g, (x, alpha))
        assert torch.autograd.gradcheck(g, (x, alpha), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(g, (x, alpha))


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize("name", ["entmax", "entmax_loss"])
def test_an_order_out_of_range_is_refused_in_numpys_words(lib, name):
    target = (lib.array(0),) if name == "entmax_loss" else ()
    for bad in (0.0, -0.5, np.nan, np.inf):
        for given in (bad, lib.array(bad)):
            with pytest.raises(ValueError, match="alpha must be finite and above 0"):
                getattr(lib.ops, name)(lib.array(X), *target, given)
    with pytest.raises(ValueError, match=r"alpha must broadcast to shape \(\), got"):
        getattr(lib.ops, name)(lib.array(X), *target, lib.array([1.5, 2.0]))
    x = lib.array(np.stack([X, X]))
    target = (lib.array([0, 1]),) if target else ()
    found = getattr(lib.ops, name)(x, *target, lib.array([-0.5, 1.5]), check=False)
    assert np.isnan(lib.numpy(found)).reshape(2, -1).all(-1).tolist() == [True, False]


def test_the_order_of_a_module_is_trained():
    layer = stk_torch.Entmax(torch.nn.Parameter(torch.tensor(1.5)))
    (layer(torch.tensor(X, dtype=torch.float32)) ** 2).sum().backward()
    assert layer.alpha.grad > 0
    assert "alpha" in stk_torch.Entmax(torch.tensor(1.5)).state_dict()


def test_orders_compile():
    program = torch.compile(stk_torch.entmax, backend="aot_eager", fullgraph=True)
    x, alpha = torch.tensor(np.stack([X] * 2)), torch.tensor([1.2, 2.0])
    alpha.requires_grad_()
    p = program(x, alpha)
    np.testing.assert_allclose(
        p.detach(), stk_torch.entmax(x, alpha).detach(), 0, 1e-14
    )
    (found,) = torch.autograd.grad((p * torch.tensor(G)).sum(), alpha)
    q = (stk_torch.entmax(x, alpha) * torch.tensor(G)).sum()
    assert torch.allclose(found, torch.autograd.grad(q, alpha)[0])


def test_a_number_below_one_compiles_and_is_mapped(lib):
    x = lib.array(X)
    known = stk.entmax(X, 0.4, temperature=0.7)
    found = lib.vmap(lambda x: lib.ops.entmax(x, 0.4, temperature=0.7))(x[None])
    assert abs(lib.numpy(found)[0] - known).max() < 1e-15
    program = torch.compile(
        lambda x: stk_torch.entmax(x, 0.4, temperature=0.7),
        backend="aot_eager",
        fullgraph=True,
    )
    assert abs(program(torch.tensor(X)).numpy() - known).max() < 1e-15


def test_a_tiny_share_of_a_target_keeps_its_part_of_the_entropy(lib):
    """p^alpha is p e^z with z = (alpha - 1) log p, and this e^z is above the range."""
    alpha, target = 0.01, np.array([1.0, 1e-315, 0.0])
    p = stk.entmax([2.0, 1.0, 0.0], alpha)
    parts = [(sum(q**alpha) - 1) / (alpha * (alpha - 1)) for q in (p, target)]
    known = parts[1] - parts[0] + (p - target) @ [2.0, 1.0, 0.0]
    given = lib.array([2.0, 1.0, 0.0]), lib.array(target)
    if lib.numpy(given[1] * 1.0)[1] > 0:  # XLA takes a subnormal number for 0
        found = float(lib.ops.entmax_loss(*given, alpha))
        assert found == pytest.approx(known, rel=1e-9)
    found = stk.losses.entmax_loss([2.0, 1.0, 0.0], target, alpha)
    assert found == pytest.approx(known, rel=1e-9)


def test_a_target_that_is_infinitely_far_away_costs_infinity(lib):
    """The scores are finite; their distance is above the range of float32."""
    x = lib.array(np.array([[3e38, -3e38, 0.0]], np.float32))
    for alpha in (0.5, 1.0, 1.5, 2.0):
        for target, known in ((0, 0.0), (1, np.inf), (2, np.float32(3e38))):
            given = x, lib.array(np.array([target]))
            found = lib.numpy(lib.ops.entmax_loss(*given, lib.array([alpha])))
            assert found.tolist() == pytest.approx([known], abs=1e-37)


FAR = [[3e38, -3e38, 0.0], [3e38, -3e38, -1.5e38], [0.0, -3.4e38, 1.0]]


def loss_of(x, alpha, target):
    """The loss in 50 digits, below alpha = 1, from shares that are found by bisection.

    In `shares` the threshold is no more exact than the last digit of the scores.
    """
    b, top = mpf(alpha) - 1, max(map(mpf, x))
    y = [mpf(v) - top for v in x]
    low, high = mpf(0), mpf(len(x)) ** -b / -b
    for _ in range(220):
        middle = (low + high) / 2
        above = sum((1 + b * (v - middle)) ** (1 / b) for v in y) > 1
        low, high = (middle, high) if above else (low, middle)
    powers = [(1 + b * (v - low)) ** ((1 + b) / b) for v in y]
    return low + (sum(powers) - 1) / (1 + b) - y[target]


def test_a_distance_that_overflows_keeps_its_part_of_the_loss(lib):
    """A share falls like a power there, and its term of the loss like a smaller one.

    The term is e^(alpha log p), so that the rounding of log p is multiplied by alpha.
    """
    orders, rows = np.float32([0.01, 0.1, 0.3]), np.array(FAR, np.float32)
    targets = rows.argmax(axis=-1)
    with mp.workdps(50):
        at = [
            (functools.partial(loss_of, x.tolist(), target=int(t)), float(order))
            for order in orders
            for x, t in zip(rows, targets, strict=True)
        ]
        exact = np.array([float(f(order)) for f, order in at])
        slopes = np.array([float(slope(f, order)) for f, order in at])
    each = np.repeat(orders, len(rows))
    bound = 2.0**-23 * (4 + 100 * each / (1 - each))
    x, target = lib.array(np.tile(rows, (3, 1))), lib.array(np.tile(targets, 3))
    order = lib.array(each)
    found = lib.numpy(lib.ops.entmax_loss(x, target, order))
    assert (abs(found - exact) <= bound * exact).all()

    def total(x, order):
        return lib.ops.entmax_loss(x, target, order).sum()

    by_x, by_order = lib.vjp(total, [x, order], lib.array(np.float32(1)))
    assert (abs(lib.numpy(by_order) - slopes) <= 4 * bound * abs(slopes)).all()
    p = lib.numpy(lib.ops.entmax(x, order))
    known = p - np.eye(3)[lib.numpy(target)]
    np.testing.assert_allclose(lib.numpy(by_x), known, 0, 1e-7)
    for i, number in enumerate(orders):  # a number takes another way than an array
        here = slice(i * len(rows), (i + 1) * len(rows))
        found = lib.ops.entmax_loss(x[here], target[here], float(number))
        assert (abs(lib.numpy(found) - exact[here]) <= (bound * exact)[here]).all()
    by_x = lib.gradient(lambda x: lib.ops.entmax_loss(x, target, 0.1).sum())(x)
    known = lib.numpy(lib.ops.entmax(x, 0.1)) - np.eye(3)[lib.numpy(target)]
    np.testing.assert_allclose(lib.numpy(by_x), known, 0, 1e-7)
