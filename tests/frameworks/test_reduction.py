"""The mean and the sum of losses, and rows that do not count, as PyTorch has them."""

import numpy as np
import pytest
import torch
from test_axis import OPERATORS

import softtopk as stk
import softtopk.torch
from softtopk import losses

RNG = np.random.default_rng(8)
X = RNG.normal(size=(6, 5))
CLASSES = np.array([3, -100, 0, 4, -100, 1])
KEEP = CLASSES >= 0
MORE = {"am_softmax_loss": {"margin": 0.2}, "sparse_softmax_loss": {"k": 5}}
MORE["in_top_k_loss"] = {"k": 2}
LOSSES = [n for n in OPERATORS if "target" in OPERATORS[n][1]]


def library_of(lib):
    """PyTorch's or JAX's call, and NumPy's."""

    def own(name, x, target, **given):
        return getattr(lib.ops, name)(x, lib.array(target), **given)

    def numpy(name, x, target, **given):
        return getattr(losses, name)(x, target, **given)

    return own, numpy


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_is_that_of_pytorch(lib, reduction):
    given = {"ignore_index": -100, "reduction": reduction}
    for target in (CLASSES, np.full(6, -100)):
        x = torch.tensor(X, requires_grad=True)
        known = torch.nn.functional.cross_entropy(x, torch.tensor(target), **given)
        (slope,) = torch.autograd.grad(known.sum(), x)
        known, slope = known.detach().cpu().numpy(), slope.cpu().numpy()

        def total(x, target=target):
            return library_of(lib)[0]("cross_entropy", x, target, **given).sum()

        found = lib.ops.cross_entropy(lib.array(X), lib.array(target), **given)
        assert found.shape == known.shape
        np.testing.assert_allclose(lib.numpy(found), known, 1e-14, 1e-14)
        found = lib.numpy(lib.gradient(total)(lib.array(X)))
        np.testing.assert_allclose(found, slope, 0, 1e-15)
        lin = stk.linearize(losses.cross_entropy, X, target, **given)
        np.testing.assert_allclose(lin.value, known, 1e-14, 1e-14)
        g = np.ones(lin.value.shape)
        np.testing.assert_allclose(lin.vjp(g), slope, 0, 1e-15)


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_do_not_count_are_left_out(lib, name):
    more = MORE.get(name, {})
    for f, array, numpy in zip(
        library_of(lib), (lib.array, np.asarray), (lib.numpy, np.asarray), strict=True
    ):
        x, given = array(X), {"ignore_index": -100, **more}
        rows = numpy(f(name, array(X[KEEP]), CLASSES[KEEP], **more))
        each = numpy(f(name, x, CLASSES, **given))
        np.testing.assert_allclose(each[KEEP], rows, 0, 1e-14)
        assert (each[~KEEP] == 0).all()
        for reduction, known in (("sum", rows.sum()), ("mean", rows.mean())):
            found = f(name, x, CLASSES, reduction=reduction, **given)
            assert float(found) == pytest.approx(known, abs=1e-14)
            assert found.shape == ()


@pytest.mark.parametrize("name", LOSSES)
def test_the_derivatives_of_the_mean(lib, name):
    given = {"ignore_index": -100, "reduction": "mean", **MORE.get(name, {})}
    rows = {"ignore_index": -100, **MORE.get(name, {})}
    f = getattr(losses, name)
    each = stk.linearize(f, X, CLASSES, **rows)
    mean = stk.linearize(f, X, CLASSES, **given)
    slope = each.vjp(KEEP / KEEP.sum())
    assert (slope[~KEEP] == 0).all()
    np.testing.assert_allclose(mean.vjp(1.0), slope, 0, 1e-16)
    assert mean.jvp(X) == pytest.approx((slope * X).sum(), abs=1e-15)
    np.testing.assert_allclose(mean.jacobian(), slope, 0, 1e-16)

    def total(x):
        return library_of(lib)[0](name, x, CLASSES, **given)

    found = lib.numpy(lib.gradient(total)(lib.array(X)))
    np.testing.assert_allclose(found, slope, 0, 4e-15)


def test_a_mean_over_several_axes_and_shares(lib):
    x = RNG.normal(size=(2, 3, 4))
    target = np.array([[0, 3, 1, 7], [1, 1, 1, 1]])[0] % 6
    known = losses.cross_entropy(x, target, axis=(0, 1))
    shares = stk.softmax(X)
    for f, array in zip(library_of(lib), (lib.array, np.asarray), strict=True):
        found = f("cross_entropy", array(x), target, axis=(0, 1), reduction="mean")
        assert float(found) == pytest.approx(known.mean(), abs=1e-14)
        found = f("entmax_loss", array(X), shares, reduction="sum")
        assert float(found) == pytest.approx(losses.entmax_loss(X, shares).sum())
        with pytest.raises(ValueError, match="ignore_index applies to class indices"):
            f("entmax_loss", array(X), shares, ignore_index=0)
    lin = stk.linearize(losses.cross_entropy, x, target, axis=(0, 1), reduction="sum")
    each = stk.linearize(losses.cross_entropy, x, target, axis=(0, 1))
    np.testing.assert_array_equal(lin.vjp(1.0), each.vjp(np.ones(4)))
    with pytest.raises(ValueError, match="cotangent must be a number"):
        lin.vjp(np.ones(4))


def test_the_mean_in_sixteen_bits_is_rounded_once(lib):
    x = np.repeat(X[:1], 3000, axis=0)
    short = lib.cast(lib.array(x), lib.bfloat16)
    target = np.zeros(3000, int)
    known = lib.ops.cross_entropy(short[:1], lib.array(target[:1]))
    for reduction, scale in (("mean", 1), ("sum", 3000)):
        found = lib.ops.cross_entropy(short, lib.array(target), reduction=reduction)
        assert found.dtype == lib.bfloat16
        near = scale * float(lib.numpy(known)[0])
        assert float(lib.numpy(found)) == pytest.approx(near, rel=2.0**-7)


def test_no_rows_have_no_mean(lib):
    for f, array in zip(library_of(lib), (lib.array, np.asarray), strict=True):
        x, target = array(np.empty((0, 4))), np.empty(0, int)
        assert np.isnan(float(f("cross_entropy", x, target, reduction="mean")))
        assert float(f("cross_entropy", x, target, reduction="sum")) == 0


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_under_autocast_is_float32_and_its_scaled_gradient_finite(name):
    """As PyTorch's own losses are; GradScaler's first scale is infinite in float16."""
    target, more = torch.tensor(CLASSES.clip(0)), MORE.get(name, {})
    for reduction in ("none", "mean", "sum"):
        x = torch.tensor(X, dtype=torch.float16, requires_grad=True)
        loss = getattr(softtopk.torch, name)
        plain = loss(x.float(), target, **more, reduction=reduction)
        assert loss(x, target, **more, reduction=reduction).dtype == torch.float16
        for kind in (torch.float16, torch.bfloat16):
            with torch.autocast("cpu", kind):
                value = loss(x, target, **more, reduction=reduction)
            assert value.dtype == torch.float32
            torch.testing.assert_close(value, plain, rtol=2e-7, atol=1e-7)
        (2.0**16 * value.mean() / 6).backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["cross_entropy", "entmax_loss"])
def test_sums_and_means_of_16_bits_are_accumulated_in_float32(lib, name):
    """Of 20 000 rows, whose losses add up to no number of float16."""
    x = lib.cast(lib.array(np.full((20_000, 5), 0.5)), lib.float16)
    target, more = lib.array(np.arange(20_000) % 5), MORE.get(name, {})
    loss = getattr(lib.ops, name)
    one = float(lib.numpy(loss(x[:1], target[:1], **more))[0])
    mean = loss(x, target, **more, reduction="mean")
    assert mean.dtype == lib.float16
    assert float(lib.numpy(mean)) == pytest.approx(one, rel=2e-3)
    some = loss(x[:5000], target[:5000], **more, reduction="sum")
    assert float(lib.numpy(some)) == pytest.approx(5000 * one, rel=2e-3)


def test_a_narrower_type_leaves_the_settings_of_a_module():
    k, tau = torch.tensor(1001.0), torch.nn.Parameter(torch.tensor(0.1))
    layer = softtopk.torch.SoftTopK(k, temperature=tau).bfloat16().half()
    assert layer.k == 1001 and layer.k.dtype == torch.float32
    assert layer.temperature is tau and tau == np.float32(0.1)
    assert layer.double().k.dtype == torch.float64
    p = layer(torch.zeros(3000).bfloat16())
    assert p.dtype == torch.bfloat16
    assert layer.to("meta").k.is_meta
