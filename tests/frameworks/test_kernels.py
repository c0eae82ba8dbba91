"""The kernels of the selection against 50 digits, interpreted or on an accelerator.

Triton decides when it is imported whether it interprets: so these tests have a process
of their own, which `make frameworks` starts with TRITON_INTERPRET=1.  With the option
`--device cuda` they run on the accelerator instead.
"""

import copy
import os
import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import oracle
import pytest
import torch
from kernel_rows import (
    CLASSES,
    EPS,
    TAU,
    budgets,
    gradient_errors,
    rows,
    select,
    share_errors,
)
from mpmath import mp, mpf
from rows import SCALES, stress, typed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import softtopk.torch as st
from softtopk import curves
from softtopk._adapters import torch_autograd_selection as rules
from softtopk._kernels import torch_launch as kernels

DEVICE = torch.get_default_device().type  # of the option --device
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs TRITON_INTERPRET=1", allow_module_level=True)
triton = pytest.importorskip("triton")

# The interpreter of an older Triton, such as comes with PyTorch 2.10, takes an array of
# one number for a number, where a loop begins or ends.  NumPy warns of that and refuses
# it since 2.4.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0")
RELEASES = [
    tuple(map(int, module.__version__.split(".")[:2])) for module in (triton, np)
]
loops = pytest.mark.skipif(
    DEVICE == "cpu" and RELEASES[0] < (3, 9) and RELEASES[1] >= (2, 4),
    reason="NumPy 2.4 refuses what this release of Triton interprets a loop with",
)
ALPHAS = (1.01, 1.1, 1.25, 1.4, 1.5, 1.75, 2.0)
NAMED = [curves.NAMED[name] for name in kernels.NAMES]
CURVES = [*NAMED, *map(curves.entmax, ALPHAS)]
FEW = [*NAMED, *map(curves.entmax, (1.25, 1.5))]
named = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
few = pytest.mark.parametrize("curve", FEW, ids=lambda c: c.name)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr(kernels, "ON_CPU", DEVICE == "cpu")


@pytest.fixture
def by_operations(monkeypatch):
    """A function after whose call PyTorch's operations select, on every device."""
    return lambda: monkeypatch.setattr(kernels, "LONGEST", 0)


@pytest.fixture
def looped(monkeypatch):
    """Rows that are read again in each pass."""
    tile = kernels.Tiles(1024, 64, False, 1)
    monkeypatch.setattr(kernels, "tiles", lambda *_: tile)


def reference(curve):
    if isinstance(curve, curves.Entmax):
        return oracle.curve("entmax", curve.alpha)
    return oracle.curve(curve.name)


def check_shares(x, k, curve, worst=4):
    error, off, bound = share_errors(x, k, curve)
    i = error.argmax()
    assert error[i] <= worst, (CLASSES[i % len(CLASSES)], k[i])
    i = (off / bound).argmax()
    assert off[i] <= bound[i], (CLASSES[i % len(CLASSES)], k[i], off[i] / k[i])
    usual = k * x.shape[-1] >= 1e-2
    assert np.all((off <= 16 * k)[usual])


@named
def test_shares_of_every_class_of_rows(curve):
    rng = np.random.default_rng(1)
    for count, n in ((330, 8), (77, 300)):
        x = rows(rng, count, n, np.float32)
        check_shares(x, budgets(rng, x), curve)


@few
@loops
@pytest.mark.usefixtures("looped")
def test_rows_that_do_not_fit_a_tile(curve):
    rng = np.random.default_rng(2)
    x = rows(rng, 55, 200, np.float32)
    check_shares(x, budgets(rng, x), curve)


@pytest.mark.parametrize("curve", [curves.LAPLACE, curves.entmax(1.25)], ids=str)
def test_rows_that_are_not_aligned(curve, monkeypatch):
    """Each thread has entries from several parts of a row; each part counts once."""
    tile = kernels.Tiles(32, 64, True, 1, SPLIT=4)
    monkeypatch.setattr(kernels, "tiles", lambda *_: tile)
    rng = np.random.default_rng(8)
    x = rows(rng, 55, 50, np.float32)
    k = budgets(rng, x)
    check_shares(x, k, curve)
    check_gradients(x, k, curve)


@loops
@pytest.mark.parametrize(
    ("curve", "sums"), [(curves.LAPLACE, 3), (curves.TRIANGULAR, kernels.SUMS)], ids=str
)
def test_rows_that_programs_share(curve, sums, monkeypatch):
    """With 3 sums the last launch takes all passes of a search but the first."""
    monkeypatch.setattr(kernels, "SUMS", sums)
    tile = kernels.Tiles(32, 256, False, 1, 2)
    monkeypatch.setattr(kernels, "tiles", lambda *_: tile)
    rng = np.random.default_rng(6)
    x = rows(rng, 22, 500, np.float32)
    k = budgets(rng, x)
    check_shares(x, k, curve)
    check_gradients(x, k, curve)


def check_gradients(x, k, curve):
    by_x, by_k, by_tau = gradient_errors(x, k, curve)
    assert max(by_x) <= 2
    assert max(by_k) <= 4
    assert max(by_tau) <= 10


@named
def test_gradients_of_every_class_of_rows(curve):
    rng = np.random.default_rng(4)
    for count, n in ((330, 8), (77, 300)):
        x = rows(rng, count, n, np.float32)
        check_gradients(x, budgets(rng, x), curve)


@few
@loops
@pytest.mark.usefixtures("looped")
def test_gradients_of_rows_that_do_not_fit_a_tile(curve):
    rng = np.random.default_rng(5)
    x = rows(rng, 55, 200, np.float32)
    check_gradients(x, budgets(rng, x), curve)


@named
@typed
def test_shares_and_gradients_match_fifty_digits(curve, dtype):
    given = [(x, k) for x, k in stress(dtype, SCALES[:2]) if len(x) < 40]
    x = np.full((len(given), 12), -np.inf, dtype)
    for row, (values, _) in zip(x, given, strict=True):
        row[: len(values)] = values
    (p, a, t), k = select(x, np.array([k for _, k in given], dtype), curve)
    rng, eps = np.random.default_rng(3), EPS[dtype]
    g = rng.normal(size=x.shape).astype(dtype)
    tau = torch.full((len(x),), TAU, dtype=a.dtype)
    at = torch.tensor(x), torch.tensor(g), a, t, tau
    gx, gk, _ = kernels.pull(*at, 1.0, *kernels.named(curve))
    f, slope = reference(curve)
    for i in range(0, len(x), 2):
        exact = oracle.solve(x[i], k[i], f, slope, TAU)
        error = max(abs(mpf(float(v)) - w) for v, w in zip(p[i], exact.p, strict=True))
        assert error <= 4 * eps, (x[i], k[i])
        with mp.workdps(exact.digits):
            W = mp.fsum(exact.w)
            size = 4 * eps * float(abs(g[i]).max())
            if getattr(curve, "b", 0) in (0.75,):
                continue
            for v, w in zip(gx[i], exact.vjp(g[i]), strict=True):
                assert abs(mpf(float(v)) - w) <= size / TAU
            # Next to a kink an ulp decides which of two slopes an entry has.
            end = curve.support[1] + exact.threshold / mpf(TAU)
            at_kink = any(
                abs(mpf(float(v)) / mpf(TAU) - end) < 16 * eps * (1 + abs(end))
                for v in x[i]
                if v > -np.inf and curve.support[1] < np.inf
            )
            if W > 1e-3 and not at_kink:
                both = zip(exact.w, g[i], strict=True)
                mean = mp.fsum(w * mpf(float(v)) for w, v in both) / W
                assert abs(mpf(float(gk[i])) - mean) <= 4 * size


SPECIAL = torch.tensor(
    [
        *([1, 2, 3, -np.inf], [1, 2, 3, 4], [1, 2, 3, 4], [np.nan, 1, 2, 3]),
        *([np.inf, 1, 2, 3], [-np.inf] * 4, [1, 2, 3, 4], [1, 2, 3, 4]),
        *([-np.inf, -np.inf, 5, -np.inf], [3e38, -3e38, 0, 1], [5, 5, 5, 5]),
    ]
)
COUNTS = torch.tensor([3.0, 0, 4, 1, 1, 0, -1, 5, 1, 1, 2])
FAR = 9


def test_a_budget_and_a_temperature_of_each_row(by_operations):
    rng = np.random.default_rng(7)
    x, mask = torch.tensor(rng.normal(size=(40, 9))), torch.tensor(rng.random((40, 9)))
    k, tau = (torch.tensor(rng.uniform(0.1, 1, 40)) for _ in range(2))
    given = x, k, tau
    for v in given:
        v.requires_grad_()

    def found(curve):
        mask_ = mask < 0.7
        mask_[:, 0] = True
        p = st.soft_topk(x, k, curve, temperature=tau, where=mask_, check=False)
        return p, *torch.autograd.grad((p**3).sum(), given)

    own = list(map(found, FEW))
    by_operations()
    for curve, one in zip(FEW, own, strict=True):
        torch.testing.assert_close(one, found(curve), rtol=1e-12, atol=1e-13)


@few
def test_rows_out_of_range_are_those_of_the_other_path(curve, by_operations):
    def found():
        x = SPECIAL.clone().requires_grad_()
        p = st.soft_topk(x, COUNTS, curve, check=False)
        return p.detach(), *torch.autograd.grad((p[[0, 1, 2, 8, 9, 10]] ** 2).sum(), x)

    own = found()
    by_operations()
    for one, two in zip(own, found(), strict=True):
        # Where a distance overflows, the operations find the limit.
        assert one[FAR].isnan().all() and two[FAR].isfinite().all()
        one[FAR] = two[FAR]
        torch.testing.assert_close(one, two, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@few
def test_sixteen_bits_are_rounded_once(curve, dtype):
    x = (4 * torch.randn(32, 100)).to(dtype).requires_grad_()
    p = st.soft_topk(x, 9.5, curve, check=False)
    wide = x.detach().float().requires_grad_()
    exact = st.soft_topk(wide, 9.5, curve, check=False)
    assert p.dtype == dtype and torch.equal(p, exact.to(dtype))
    g = torch.randn(32, 100).to(dtype)
    (gx,) = torch.autograd.grad(p, x, g)
    (gw,) = torch.autograd.grad(exact, wide, g.float())
    assert gx.dtype == dtype
    eps, least = torch.finfo(dtype).eps, torch.finfo(dtype).smallest_normal
    torch.testing.assert_close(gx.float(), gw, rtol=eps, atol=eps * least)


class Operations(TorchDispatchMode):
    """The operations on numbers that are dispatched: a view is none."""

    NONE = (
        "detach",
        "new_empty",
        "empty",
        "empty_like",
        "view",
        "expand",
        "reshape",
        "alias",
    )

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function._schema.name.split("::")[1]
        if name not in self.NONE:
            self.names.append(name)
        return function(*args, **(kwargs or {}))


def counted(f):
    with Operations() as operations:
        value = f()
    return value, operations.names


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_selection_is_one_kernel_and_its_gradient_one(dtype):
    x = torch.randn(6, 40).to(dtype).requires_grad_()
    for curve in (*FEW, curves.entmax(1.01)):
        p, forward = counted(lambda c=curve: st.soft_topk(x, 8, c, check=False))
        g = torch.ones_like(p)
        _, backward = counted(lambda p=p, g=g: torch.autograd.grad(p, x, g))
        assert (forward, backward) == (["select"], ["pull"])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_launches_are_all_that_the_operations_do(dtype, monkeypatch):
    launched = []
    monkeypatch.setattr(
        kernels, "_launch", lambda kernel, *_, **__: launched.append(kernel)
    )
    monkeypatch.setattr(kernels, "ON_CPU", False)  # the interpreter rounds no bfloat16
    x, curve = torch.randn(6, 40).to(dtype), kernels.named(curves.LAPLACE)
    select, pull = kernels.select._init_fn, kernels.pull._init_fn
    (_, a, t), forward = counted(lambda: select(x, None, None, None, 8.0, 1.0, *curve))
    _, backward = counted(lambda: pull(x, x, a, t, None, 1.0, *curve))
    assert (len(launched), forward, backward) == (2, [], [])


# Forward and backward; the page on the frameworks states those of masks and budgets.
COUNTED = {
    "sparsemax": (1, 1),
    "entmax": (1, 1),
    "where": (3, 3),
    "k": (9, 2),
    "top_k_st": (45, 1),
    "threshold": (10, 79),
    "potential": (95, 6),
    "entmax_loss": (114, 6),
    "top_k_loss": (131, 6),
}


def test_the_operations_of_the_others_are_these(as_on_a_device):
    x = torch.randn(6, 40, requires_grad=True)
    k = torch.full((6,), 2.5, requires_grad=True)
    mask, y = torch.rand(6, 40) < 0.8, torch.randint(40, (6,))
    one = torch.nn.functional.one_hot(y, 40)
    calls = {
        "sparsemax": partial(st.sparsemax, x, check=False),
        "entmax": partial(st.entmax, x, 1.5, check=False),
        "where": partial(st.soft_topk, x, 8, where=mask, check=False),
        "k": partial(st.soft_topk, x, k, check=False),
        "top_k_st": partial(st.top_k_st, x, 8, check=False),
        "threshold": partial(st.threshold, x, 8, check=False),
        "potential": partial(st.potential, x, 8, check=False),
        "entmax_loss": partial(st.entmax_loss, x, y, 1.5, check=False),
        "top_k_loss": partial(st.top_k_loss, x, one.float(), 1, check=False),
    }
    found = {}
    for name, call in calls.items():
        value, forward = counted(call)
        g = torch.ones_like(value)
        _, back = counted(lambda v=value, g=g: torch.autograd.grad(v, x, g))
        assert "select" in forward
        # The gradient of a threshold or a loss is known from the forward launch.
        shares = name not in ("threshold", "potential") and "loss" not in name
        assert ("pull" in back) == shares, name
        # Reading a number would make the host wait for the device.
        assert not {"_local_scalar_dense", "nonzero", "is_nonzero"} & {*forward, *back}
        found[name] = len(forward), len(back)
    assert found == COUNTED


def calls():
    x = torch.randn(3, 12, dtype=torch.float64, requires_grad=True)
    k = torch.full((3,), 4.5, dtype=torch.float64, requires_grad=True)
    tau = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    return x, k, tau


@few
def test_derivatives_of_every_order(curve):
    def f(x, k, tau):
        return st.soft_topk(x, k, curve, temperature=tau, check=False)

    given = calls()
    assert torch.autograd.gradcheck(f, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, given, fast_mode=True)


def test_transforms(by_operations):
    def f(x):
        return st.soft_topk(x, 3.0, temperature=0.8, check=False)

    def loss(x):
        return f(x).square().sum()

    x = calls()[0].detach()

    def results():
        return (
            torch.func.vmap(f)(x),
            torch.func.grad(loss)(x),
            torch.func.vmap(torch.func.grad(loss))(x),
            torch.func.jvp(f, (x,), (x.sin(),))[1],
            torch.func.hessian(loss)(x[0]),
            torch.func.jvp(f, (x.bfloat16(),), (x.bfloat16(),))[1].double(),
        )

    own = results()
    by_operations()
    for one, two in zip(own, results(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_compiled_forward_and_backward(dtype):
    def f(x, k, tau):
        return (st.soft_topk(2 * x, k, temperature=tau, check=False) ** 2).sum()

    x, k, tau = calls()
    given = x.detach().to(dtype).requires_grad_(), k, tau
    g = torch.compile(f, fullgraph=True, backend="aot_eager")
    for one, two in zip(
        *(torch.autograd.grad(h(*given), given) for h in (f, g)), strict=True
    ):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)


def test_compiled_lengths_and_thresholds():
    f = torch.compile(
        lambda x: st.soft_topk(x, 3.0, check=False),
        fullgraph=True,
        dynamic=True,
        backend="aot_eager",
    )
    for n in (20, 33, 50):
        x = torch.randn(4, n)
        torch.testing.assert_close(f(x), st.soft_topk(x, 3.0, check=False))

    def g(x):
        return st.threshold(x, 3.0, check=False).sum()

    x = calls()[0]
    compiled = torch.compile(g, fullgraph=True, backend="aot_eager")
    one, two = (torch.autograd.grad(h(x), x)[0] for h in (g, compiled))
    torch.testing.assert_close(one, two)


def test_checkpoints_and_autocast():
    x = torch.randn(4, 9, requires_grad=True)

    def f(x):
        return st.soft_topk(x @ x.mT, 2, check=False).float().square().sum()

    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        (one,) = torch.autograd.grad(f(x), x)
        (two,) = torch.autograd.grad(checkpoint(f, x, use_reentrant=False), x)
    torch.testing.assert_close(one, two)


def test_a_named_curve_without_functions_of_its_own_goes_by_the_search(monkeypatch):
    new = curves.LAPLACE.shifted(1.0)
    new.name = "new"
    monkeypatch.setitem(curves.NAMED, "new", new)
    x = torch.randn(2, 9)
    assert not rules.is_fused(new, x)
    torch.testing.assert_close(st.soft_topk(x, 2, "new"), st.soft_topk(x, 2, new))


def test_what_goes_the_other_way():
    x = torch.randn(2, 9)
    named = curves.LAPLACE
    assert rules.is_fused(named, x)
    assert rules.is_fused(copy.deepcopy(named), x)
    assert rules.is_fused(pickle.loads(pickle.dumps(named)), x)
    assert not rules.is_fused(named.shifted(1.0), x)
    assert not rules.is_fused(named, x.to(torch.int64))
    assert not rules.is_fused(named, torch.empty(2, 9, device="meta"))
    assert not kernels.takes(named, torch.empty(1, kernels.LONGEST + 1, device="meta"))
    assert st.soft_topk(torch.empty(0, 9), 2, check=False).shape == (0, 9)


def test_the_kernels_can_be_switched_off(monkeypatch):
    asks = "from softtopk._kernels import torch_launch; print(torch_launch.ALLOWED)"
    for given, allowed in ({}, "True"), ({"SOFTTOPK_KERNELS": "0"}, "False"):
        done = subprocess.run(
            [sys.executable, "-c", asks],
            env={**os.environ, **given},
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == allowed
    x = torch.empty(1, 8)
    assert rules.is_fused(curves.LAPLACE, x)
    monkeypatch.setattr(kernels, "ALLOWED", False)
    assert not rules.is_fused(curves.LAPLACE, x)
