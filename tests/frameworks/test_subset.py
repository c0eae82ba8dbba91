"""The gradient of GradTopK keeps little, and is the same by every route."""

import jax
import numpy as np
import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

import softtopk as stk
import softtopk.jax as stk_jax
import softtopk.torch as stk_torch
from softtopk._adapters.torch_adapter import ADAPTER
from softtopk._contract import SelectMethod

RNG = np.random.default_rng(0)
X, G = RNG.standard_normal((2, 64, 40))


def test_eager_torch_keeps_a_few_arrays_of_the_size_of_the_scores():
    kept = []

    def pack(v):
        kept.append(v.nbytes)
        return v

    x = torch.tensor(X, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda v: v):
        p = stk_torch.grad_topk(x, 5)
    assert sum(kept) < 2 * x.nbytes
    (gx,) = torch.autograd.grad(p, x, torch.tensor(G))
    exact = stk.linearize(stk.grad_topk, X, 5).vjp(G)
    np.testing.assert_allclose(gx.cpu().numpy(), exact, 0, 1e-14)


LOOPS = jax.__version_info__ >= (0, 10)


@pytest.mark.skipif(not LOOPS, reason="older JAX cannot transpose the loop")
def test_compiled_jax_stores_no_array_of_points_and_entries_for_the_gradient():
    x = X.astype(np.float32)

    def loss(x):
        return (stk_jax.grad_topk(x, 5) * G.astype(np.float32)).sum()

    program = jax.jit(jax.grad(loss)).lower(x).compile()
    # Differentiated operation by operation it took 240 times the scores.
    assert program.memory_analysis().temp_size_in_bytes < 40 * x.nbytes


def test_compiled_torch_is_told_to_store_the_numbers_of_the_points():
    """Inductor would calculate them for every entry, and store what is to be summed."""
    stored = []

    def backend(graph, inputs):
        for part in graph.modules():
            nodes = part.graph.nodes if hasattr(part, "graph") else []
            stored.extend(n for n in nodes if "as_strided" in str(n.target))
        return graph.forward

    f = torch.compile(
        lambda x: stk_torch.grad_topk(x, 5), fullgraph=True, backend=backend
    )
    x = torch.tensor(X)
    torch.testing.assert_close(f(x), stk_torch.grad_topk(x, 5), rtol=0, atol=1e-14)
    shapes = [tuple(n.meta["example_value"].shape) for n in stored]
    assert shapes.count((64, 27)) == 6 and shapes.count((64, 8, 5)) == 1


def test_the_compiled_gradient_stores_what_it_reads_at_every_point():
    """The gradient reads 2 pi - 1 at every point: not stored, Inductor would store an
    array with a number for each point and entry."""
    graphs = []

    def compiler(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
    )
    f = torch.compile(
        lambda x: stk_torch.grad_topk(x, 5), fullgraph=True, backend=backend
    )
    x = torch.tensor(X, requires_grad=True)
    (gx,) = torch.autograd.grad(f(x), x, torch.tensor(G))
    exact = stk.linearize(stk.grad_topk, X, 5).vjp(G)
    np.testing.assert_allclose(gx.cpu().numpy(), exact, 0, 1e-14)
    nodes = graphs[-1].graph.nodes
    stored = [n.meta["val"].shape for n in nodes if "as_strided" in str(n.target)]
    assert stored.count(x.shape) == 1


def test_without_the_loop_jax_has_the_same_gradients(monkeypatch):
    def gradient():
        jax.clear_caches()
        return jax.grad(lambda x: (stk_jax.grad_topk(x, 5) * G[:3]).sum())(X[:3])

    expected = gradient()
    monkeypatch.setattr("softtopk._adapters.jax_adapter._LOOPS", False)
    np.testing.assert_allclose(gradient(), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("tau", [0.7, np.linspace(0.3, 2, 8)])
def test_every_route_has_the_same_gradients(tau, monkeypatch):
    x, g = X[:8].copy(), G[:8]
    x[0, 3:] = -np.inf  # nothing left to choose: k takes all
    x[1, 5] = -np.inf
    k = np.array([3, 2, 5, 1, 39, 20, 0, 40])
    at = (
        torch.tensor(x, requires_grad=True),
        torch.tensor(np.asarray(tau), requires_grad=True),
    )

    def gradients():
        p = stk_torch.grad_topk(at[0], torch.tensor(k), temperature=at[1])
        return p, *torch.autograd.grad(p, at, torch.tensor(g))

    quick = gradients()
    monkeypatch.setattr(
        ADAPTER, "select_method", staticmethod(lambda *_: SelectMethod())
    )
    slow = gradients()
    for a, b in zip(quick, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    exact = np.stack(
        [
            stk.linearize(stk.grad_topk, *at[:2], temperature=float(at[2])).vjp(at[3])
            for at in zip(x, k, np.broadcast_to(tau, 8), g, strict=True)
        ]
    )
    np.testing.assert_allclose(quick[1].cpu().numpy(), exact, 0, 1e-13)
    h = 1e-6
    moved = [
        np.stack(
            [
                stk.grad_topk(*at[:2], temperature=float(at[2]) + s * h)
                for at in zip(x, k, np.broadcast_to(tau, 8), strict=True)
            ]
        )
        for s in (1, -1)
    ]
    rows = ((moved[0] - moved[1]) / (2 * h) * g).sum(-1)
    by_tau = rows if np.ndim(tau) else rows.sum()
    np.testing.assert_allclose(quick[2].cpu().numpy(), by_tau, 1e-5, 1e-7)
    np.testing.assert_allclose(
        jax.grad(lambda t: (stk_jax.grad_topk(x, k, temperature=t) * g).sum())(tau),
        by_tau,
        1e-5,
        1e-7,
    )


def test_a_row_that_nobody_looks_at_has_a_gradient_that_is_nan():
    x = torch.tensor(X[:3], requires_grad=True)
    p = stk_torch.grad_topk(x, torch.tensor([2, 41, 3]), check=False)
    (gx,) = torch.autograd.grad(p.sum(), x)
    assert torch.isnan(gx).all(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("operator", [stk_jax.grad_topk, stk_jax.log_partition])
def test_an_empty_row_that_nobody_looks_at_has_a_tangent_that_is_nan(operator):
    x = jax.numpy.array([[-np.inf, -np.inf, -np.inf], [0.1, 0.4, 0.2]])
    move = jax.numpy.array([[1.0, 0.5, 0.2], [0.3, 0.0, 0.2]])
    _, change = jax.jvp(lambda x: operator(x, 1, check=False), (x,), (move,))
    assert np.isnan(change[0]).all() and np.isfinite(change[1]).all()


def test_one_share_of_a_row_that_nobody_looks_at_makes_its_whole_gradient_nan(lib):
    x = lib.array([[np.nan, 1.0, 2.0], [1.0, 3.0, 2.0]])

    def share(x):
        p = lib.ops.grad_topk(x, 1, check=False)
        return p[0, 0] + p[1, 0]

    slope = lib.numpy(lib.gradient(share)(x))
    assert np.isnan(slope[0]).all() and np.isfinite(slope[1]).all()


@pytest.mark.parametrize("operator", ["grad_topk", "log_partition"])
def test_a_tangent_of_the_temperature_is_nan_in_a_row_that_nobody_looks_at(
    lib, operator
):
    x = lib.array([[np.nan, 1.0, 2.0], [1.0, 3.0, 2.0]])

    def by(tau):
        return getattr(lib.ops, operator)(x, 1, temperature=tau, check=False)

    one = lib.array(1.0)
    change = lib.numpy(lib.jvp(by, (one,), (one,)))
    assert np.isnan(change[0]).all() and np.isfinite(change[1]).all()
