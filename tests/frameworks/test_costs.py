"""Budgets with costs on PyTorch and JAX: values, derivatives, transformations."""

import jax
import numpy as np
import oracle_costs
import pytest
import torch
from jax.test_util import check_grads
from rows import CURVES, NAMES
from rows_costs import SEED, hunted, reference, worst

import softtopk as stk
import softtopk.jax
import softtopk.torch

PER = pytest.mark.parametrize("per", ["entry", "cost"])
RNG = np.random.default_rng(4)
X = RNG.standard_normal((3, 6))
C = 10 ** RNG.uniform(-1, 1, (3, 6))
K = C.sum(axis=-1) * [0.2, 0.5, 0.9]
TAU = np.array([0.5, 1.0, 2.0])
SMALL = X[:2, :3], C[:2, :3].sum(axis=-1) * [0.3, 0.6], C[:2, :3], TAU[:2]
"""Scores, budgets, costs and temperatures, few enough for second derivatives."""


def call(lib, name, curve, per):
    """The operator as a function of the four arguments that it can be derived by."""

    def f(x, k, c, tau):
        operator = getattr(lib.ops, name)
        return operator(x, k, curve, temperature=tau, cost=c, per=per)

    return f


def given(lib, dtype=float):
    return [lib.array(v, dtype) for v in (X, K, C, TAU)]


@pytest.mark.parametrize("curve", CURVES[::2], ids=lambda c: c.name)
@PER
def test_values_are_those_of_numpy(lib, curve, per):
    for name in ("soft_topk", "threshold"):
        known = [
            getattr(stk, name)(x, k, curve, temperature=t, cost=c, per=per)
            for x, k, c, t in zip(X, K, C, TAU, strict=True)
        ]
        found = lib.numpy(call(lib, name, curve, per)(*given(lib)))
        np.testing.assert_allclose(found, known, 0, 4e-15)


@PER
@pytest.mark.parametrize("ties", ["share", "first"])
def test_top_k_is_that_of_numpy(lib, per, ties):
    tied = np.round(X) * (C if per == "entry" else 1)
    options = {"per": per, "ties": ties}
    known = stk.top_k(tied, K, cost=C, **options)
    at = lib.array(tied), lib.array(K), lib.array(C)
    found = lib.numpy(lib.ops.top_k(at[0], at[1], cost=at[2], **options))
    np.testing.assert_allclose(found, known, 0, 1e-15)


@PER
def test_top_k_st_has_the_gradient_of_the_shares(lib, per):
    soft = call(lib, "soft_topk", "sigmoid", per)
    through = call(lib, "top_k_st", "sigmoid", per)
    x, k, c, tau = given(lib)
    np.testing.assert_allclose(
        lib.numpy(through(x, k, c, tau)), stk.top_k(X, K, cost=C, per=per), 0, 1e-15
    )
    g = lib.array(RNG.standard_normal(X.shape))
    pairs = zip(
        lib.vjp(through, (x, k, c, tau), g),
        lib.vjp(soft, (x, k, c, tau), g),
        strict=True,
    )
    for a, b in pairs:
        np.testing.assert_array_equal(lib.numpy(a), lib.numpy(b))


@PER
@pytest.mark.parametrize("ties", ["share", "first"])
def test_the_last_entry_of_top_k_follows_budget_and_costs(lib, per, ties):
    """It gets (K - c_0 - c_1) / c_2."""
    x, c = np.array([9.0, 8.0, 1.0, 0.0]), np.array([1.0, 2.0, 4.0, 0.5])

    def f(k, c):
        return lib.ops.top_k(lib.array(x), k, cost=c, per=per, ties=ties)

    at = [lib.array(v) for v in (np.float64(4.0), c)]
    gk, gc = lib.vjp(f, at, lib.array(np.array([0.0, 0.0, 1.0, 0.0])))
    np.testing.assert_array_equal(lib.numpy(f(*at)), [1, 1, 0.25, 0])
    assert float(gk) == 0.25
    np.testing.assert_array_equal(lib.numpy(gc), [-0.25, -0.25, -0.0625, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
def test_shares_are_within_the_proved_bound(lib, dtype):
    """All of one length, so that JAX compiles few programs."""
    eps = float(np.finfo(dtype).eps)
    curves = CURVES if lib.name == "torch" else [CURVES[i] for i in (0, 3, 5)]
    rows = hunted(dtype, 120 if lib.name == "torch" else 50, SEED + 7, n=6)
    for i, (x, c, k, tau, per) in enumerate(rows):
        curve = curves[i % len(curves)]
        tau, budget = dtype(tau), k if i % 2 else lib.array(np.float64(k))
        options = {"temperature": lib.array(tau), "cost": lib.array(c), "per": per}
        p = lib.numpy(lib.ops.soft_topk(lib.array(x), budget, curve, **options))
        assert p.dtype == dtype
        told = f"HUNT_SEED={SEED}: {x.tolist()}, {c.tolist()}, {k!r}, {tau}, {per}"
        assert worst(p, x, c, k, curve, tau, per, eps) <= 1, f"{curve.name}: {told}"


@pytest.mark.parametrize(
    ("lib", "name", "per"),
    [("torch", name, per) for name in NAMES for per in ("entry", "cost")]
    # The same formulas, which JAX takes seconds to compile for each curve.
    + [("jax", "laplace", "entry"), ("jax", "clip", "cost")],
    indirect=["lib"],
)
def test_derivatives_match_the_reference(lib, name, per):
    """By scores, budget, cost and temperature, of shares and thresholds."""
    eps = np.finfo(float).eps
    g, h = RNG.standard_normal(X.shape), RNG.standard_normal(3)
    for operator, seed in (("soft_topk", g), ("threshold", h)):
        f = call(lib, operator, name, per)
        back = [lib.numpy(v) for v in lib.vjp(f, given(lib), lib.array(seed))]
        tangents = [RNG.standard_normal(np.shape(v)) for v in (X, K, C, TAU)]
        moved = lib.numpy(lib.jvp(f, given(lib), [lib.array(v) for v in tangents]))
        total = sum((a * b).sum() for a, b in zip(back, tangents, strict=True))
        assert total == pytest.approx((moved * seed).sum(), rel=1e-12)
        for i in range(3):
            curve = stk.curves.resolve(name)
            at = X[i], C[i], K[i], *reference(curve), TAU[i], per
            exact = oracle_costs.solve(*at).derivatives()
            row = seed[i]

            def felt(moves, row=row):
                dp, dt = moves
                if np.ndim(row):
                    return float(
                        sum(float(a) * b for a, b in zip(dp, row, strict=True))
                    )
                return float(dt) * row

            by_x, by_c, by_k, by_tau = exact
            known = [felt(v) for v in by_x], felt(by_k), [felt(v) for v in by_c]
            for found, true in zip(back, (*known, felt(by_tau)), strict=True):
                size = 64 * eps * (1 + np.abs(true).max())
                np.testing.assert_allclose(found[i], true, 0, size)


@pytest.mark.parametrize("curve", ["laplace", "clip", CURVES[5]], ids=str)
@PER
def test_pytorch_derives_twice(curve, per):
    def both(x, k, c, tau):
        options = {"temperature": tau, "cost": c, "per": per}
        p = softtopk.torch.soft_topk(x, k, curve, **options)
        return p, softtopk.torch.threshold(x, k, curve, **options)

    at = [torch.tensor(v, requires_grad=True) for v in SMALL]
    assert torch.autograd.gradcheck(both, at, check_forward_ad=True, atol=1e-6)
    assert torch.autograd.gradgradcheck(both, at, atol=1e-5)


@pytest.mark.parametrize(("curve", "per"), [("sigmoid", "entry"), ("clip", "cost")])
def test_jax_derives_twice(curve, per):
    def both(x, k, c, tau):
        options = {"temperature": tau, "cost": c, "per": per}
        p = softtopk.jax.soft_topk(x, k, curve, **options)
        return p, softtopk.jax.threshold(x, k, curve, **options)

    # The rule is that of forward mode, of which JAX makes the one of reverse mode: a
    # gradient of a gradient passes through both twice.
    at, bounds = list(map(jax.numpy.asarray, SMALL)), {"atol": 1e-4, "rtol": 1e-4}
    check_grads(jax.jit(both), at, 2, modes=["rev"], eps=1e-4, **bounds)


@PER
def test_vmap_has_the_rows(lib, per):
    f = call(lib, "soft_topk", "laplace", per)
    at = given(lib)
    found, known = lib.vmap(f)(*at), f(*at)
    np.testing.assert_allclose(lib.numpy(found), lib.numpy(known), 0, 4e-16)
    options = {"per": per, "temperature": 0.5}
    one = lib.vmap(lambda c: lib.ops.soft_topk(at[0][0], 2.0, cost=c, **options))
    rows = [stk.soft_topk(X[0], 2.0, cost=c, **options) for c in C]
    np.testing.assert_allclose(lib.numpy(one(at[2])), rows, 0, 4e-15)
    hard = lib.vmap(lambda c: lib.ops.top_k(at[0][0], 2.0, cost=c, per=per))
    rows = [stk.top_k(X[0], 2.0, cost=c, per=per) for c in C]
    np.testing.assert_allclose(lib.numpy(hard(at[2])), rows, 0, 1e-15)


@PER
def test_rows_out_of_range_that_nobody_looked_at_are_nan(per):
    bad = C.copy()
    bad[0, 2] = 0
    k = [1.0, C[1].sum() + 1, 2.0]

    @jax.jit
    def f(x, k, c):
        p = softtopk.jax.soft_topk(x, k, cost=c, per=per)
        return p, softtopk.jax.top_k(x, k, cost=c, per=per)

    both = f(X, np.array(k), bad)
    both += tuple(
        v.cpu().numpy()
        for v in (
            g(
                torch.tensor(X),
                torch.tensor(k, dtype=torch.float64),
                cost=torch.tensor(bad),
                per=per,
                check=False,
            )
            for g in (softtopk.torch.soft_topk, softtopk.torch.top_k)
        )
    )
    for p in both:
        assert np.isnan(p[:2]).all()
        np.testing.assert_allclose((np.asarray(p[2]) * C[2]).sum(), 2, 1e-14)
    slope = jax.grad(lambda c: f(X, np.array(k), c)[0].sum())(bad)
    assert np.isnan(np.asarray(slope)[:2]).all()
    assert np.isfinite(np.asarray(slope)[2]).all()


@PER
@pytest.mark.parametrize("name", ["soft_topk", "threshold", "top_k_st"])
def test_masked_entries_have_no_derivative(lib, per, name):
    on = np.array([True, False, True, True, False, True])

    def f(x, c):
        operator = getattr(lib.ops, name)
        return operator(x, 1.5, cost=c, where=lib.array(on), per=per)

    c, seed = np.where(on, C, np.nan), X[:, 0] if name == "threshold" else X
    at = [lib.array(X), lib.array(c)]
    found = [lib.numpy(v) for v in lib.vjp(f, at, lib.array(seed))]
    for v in found:
        assert (v[:, ~on] == 0).all()
    given = {"cost": c, "where": on, "per": per}
    if name == "top_k_st":
        hard = stk.top_k(X, 1.5, **given)
        np.testing.assert_allclose(lib.numpy(f(*at)), hard, 0, 1e-15)
    soft = stk.threshold if name == "threshold" else stk.soft_topk
    lin = stk.linearize(soft, X, 1.5, **given)
    np.testing.assert_allclose(found[0], lin.vjp(seed), 0, 1e-14)
    np.testing.assert_allclose(found[1], lin.by_cost.vjp(seed), 0, 1e-14)


@PER
def test_the_middle_of_an_interval_has_the_derivatives_that_it_has(lib, per):
    x, c = np.array([40.0, 24.0, 2.0, 3.0]), np.array([2.0, 4.0, 1.0, 3.0])

    def middle(x, c, tau):
        s = c if per == "entry" else np.ones(4)
        above, below = (x[:2] - tau) / s[:2], x[2:] / s[2:]
        return 0.5 * above.min() + 0.5 * below.max()

    def f(x, c, tau):
        return lib.ops.threshold(x, 6.0, "clip", cost=c, temperature=tau, per=per)

    at = [x, c, np.float64(1.5)]
    found = lib.vjp(f, [lib.array(v) for v in at], lib.array(np.float64(1)))
    h = 2.0**-12
    for i, slope in enumerate(map(lib.numpy, found)):
        units = np.eye(4) if i < 2 else [np.float64(1)]
        moved = [
            [middle(*at[:i], at[i] + sign * h * e, *at[i + 1 :]) for sign in (1, -1)]
            for e in units
        ]
        known = [(a - b) / (2 * h) for a, b in moved]
        # Of costs the budget is not met by the entries any more, and the price jumps.
        np.testing.assert_allclose(np.atleast_1d(slope), known, 0, 1e-5)


def test_torch_compiles():
    def f(x, k, c):
        p = softtopk.torch.soft_topk(x, k, "sigmoid", cost=c)
        p = p + softtopk.torch.top_k_st(x, 2.0, "sigmoid", cost=c, per="cost")
        return p + softtopk.torch.threshold(x, k, "sigmoid", cost=c)[:, None]

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    at = [torch.tensor(v, requires_grad=True) for v in (X, K, C)]
    torch.testing.assert_close(compiled(*at), f(*at), rtol=0, atol=4e-15)
    g = torch.tensor(RNG.standard_normal(X.shape))
    found, known = (torch.autograd.grad(call(*at), at, g) for call in (compiled, f))
    torch.testing.assert_close(found, known, rtol=0, atol=1e-12)


def test_modules_take_costs():
    layer = softtopk.torch.SoftTopK(k=2.0)
    x, c = torch.tensor(X), torch.tensor(C)
    found, known = layer(x, cost=c), softtopk.torch.soft_topk(x, 2.0, cost=c)
    assert torch.equal(found, known)


def test_sixteen_bits(lib):
    x = lib.cast(lib.array(X, np.float32), lib.bfloat16)
    p = lib.ops.soft_topk(x, 2.0, cost=lib.array(C, np.float32))
    assert p.dtype == lib.bfloat16
    exact = stk.soft_topk(lib.numpy(x), 2.0, cost=C.astype(np.float32))
    np.testing.assert_allclose(lib.numpy(p), exact, 0, 2**-8)
