"""What only PyTorch has: gradcheck, torch.compile, torch.func, modules, DTensor."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import softtopk.torch as stk
from softtopk import curves


def scores(*shape, seed=0, dtype=torch.double):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


@pytest.mark.parametrize("curve", ["exp", "laplace", "sigmoid", "clip", 1.5])
@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold, stk.potential])
def test_gradients_of_first_and_second_order_check(operator, curve):
    curve = curves.entmax(curve) if isinstance(curve, float) else curve
    x, k, tau = (
        v.requires_grad_()
        for v in (
            scores(3, 7),
            torch.tensor([1.3, 2.6, 4.7], dtype=torch.double),
            torch.tensor(0.7, dtype=torch.double),
        )
    )

    def f(x, k, tau):
        return operator(x, k, curve, temperature=tau)

    assert torch.autograd.gradcheck(
        f,
        (x, k, tau),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert torch.autograd.gradgradcheck(f, (x, k, tau))


@pytest.mark.parametrize("curve", ["laplace", "clip"])
def test_a_compiled_graph_is_whole_and_equal(curve):
    def f(x, k, tau):
        return stk.soft_topk(x, k, curve, temperature=tau)

    given = scores(4, 33, dtype=torch.float32), torch.full((4,), 2.5), torch.tensor(0.5)
    results = []
    for g in (torch.compile(f, fullgraph=True), f):
        args = [v.clone().requires_grad_() for v in given]
        p = g(*args)
        grads = torch.autograd.grad((p * p).sum(), args)
        results.append((p.detach(), *grads))
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=0, atol=2e-6)
    bad = torch.compile(f, fullgraph=True)(given[0], torch.full((4,), 99.0), given[2])
    assert bad.isnan().all()


def test_forward_inside_forward_is_refused():
    def f(x):
        return stk.soft_topk(x, 2).square().sum()

    with pytest.raises(NotImplementedError, match="forward mode inside forward mode"):
        torch.func.jacfwd(torch.func.jacfwd(f))(scores(5))
    inner = torch.func.jacrev(torch.func.jacfwd(f))(scores(5))
    assert torch.allclose(inner, torch.func.hessian(f)(scores(5)), rtol=0, atol=1e-14)


def test_dim_is_axis_and_not_both():
    x = scores(3, 4)
    assert torch.equal(stk.soft_topk(x, 2, dim=0), stk.soft_topk(x, 2, axis=0))
    with pytest.raises(TypeError, match="one argument"):
        stk.soft_topk(x, 2, dim=0, axis=0)
    assert "dim : int" in stk.soft_topk.__doc__


def test_check_cannot_look_into_a_transformation():
    with pytest.raises(ValueError, match="check=True cannot look"):
        torch.func.vmap(lambda x: stk.soft_topk(x, 2, check=True))(scores(3, 4))


def test_modules_train_their_budget():
    x = scores(6, 10)
    k = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.double))
    module = stk.SoftTopK(k, curve="sigmoid", temperature=0.5)
    assert [name for name, _ in module.named_parameters()] == ["k"]
    module(x).sum().backward()
    assert k.grad == pytest.approx(6.0)
    for module, other in [
        (stk.SoftTopK(2), stk.soft_topk(x, 2)),
        (stk.TopKST(2), stk.top_k(x, 2)),
        (stk.Threshold(2), stk.threshold(x, 2)),
        (stk.GradTopK(2), stk.grad_topk(x, 2)),
        (stk.Sparsemax(), stk.sparsemax(x)),
        (stk.Entmax(1.5), stk.entmax(x)),
    ]:
        assert torch.equal(module(x), other)
        assert torch.nn.Sequential(module)(x).shape == other.shape


def test_the_search_over_tensors_is_that_of_numpy():
    """Eager tensors on the CPU take NumPy's quick sums, unless nobody looks."""
    x = scores(50, 80) * 3
    for curve in ("exp", "laplace", "sigmoid", "clip", "triangular"):
        quick = stk.soft_topk(x, 7.5, curve, temperature=0.3)
        sums = stk.soft_topk(x, 7.5, curve, temperature=0.3, check=False)
        assert (quick - sums).abs().max() < 2e-15


def test_a_divided_axis_needs_one_sum_over_the_devices_a_sum(tmp_path):
    program = """
        import sys, torch, torch.distributed as dist
        import softtopk.torch as stk
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        from torch.distributed.tensor.debug import CommDebugMode

        rank = int(sys.argv[1])
        store = f"file://{sys.argv[2]}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        mesh = init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        x = torch.randn(1000, dtype=torch.double)
        divided = distribute_tensor(x, mesh, [Shard(0)])
        for curve in ("exp", "laplace", "sigmoid", "clip"):
            with CommDebugMode() as spy:
                p = stk.soft_topk(divided, 20.5, curve)
            counts = {str(op): n for op, n in spy.get_comm_counts().items()}
            assert all("all_reduce" in op for op in counts), counts
            own = stk.soft_topk(x, 20.5, curve).chunk(2)[rank]
            assert (p.to_local() - own).abs().max() < 4e-15
            print(curve, sum(counts.values()))
        dist.destroy_process_group()
    """
    runs = [
        subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)),
                *(str(rank), str(tmp_path / "store")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for run in runs:
        out, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        assert out.count("\n") == 4
