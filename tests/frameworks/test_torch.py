"""What only PyTorch has: gradcheck, torch.compile, torch.func, modules, DTensor."""

import functools
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch._dynamo import compiled_autograd
from torch.autograd import forward_ad

import softtopk.torch as stk
from softtopk import curves
from softtopk._rules import selection_rule
from softtopk._search import numpy_for_libraries
from softtopk._search.numpy_sums import scheme_of


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
    results, compiled = [], torch.compile(f, fullgraph=True)
    for g in (f, compiled):
        args = [v.clone().requires_grad_() for v in given]
        p = g(*args)
        grads = torch.autograd.grad((p * p).sum(), args)
        results.append((p.detach(), *grads))
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=0, atol=2e-6)
    args[1] = torch.full((4,), 99.0, requires_grad=True)  # the same program again
    assert compiled(*args).isnan().all()


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
    S = scores(2, 3, 4)
    one, two = (
        stk.balanced_topk(S, 1, **{word: (2, 0)}, temperature=0.5)
        for word in ("dims", "axes")
    )
    assert torch.equal(one, two)
    with pytest.raises(TypeError, match="dims and axes are one argument"):
        stk.balanced_topk(S, 1, dims=(2, 0), axes=(2, 0))
    assert "dims : (int, int)" in stk.balanced_topk.__doc__
    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'"):
        stk.balanced_topk(S, 1, dim=0)


def test_check_cannot_look_into_a_transformation():
    with pytest.raises(ValueError, match="check must be None or False"):
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


QUICK = [name for name, curve in curves.NAMED.items() if scheme_of(curve)]


def curve_of(name):
    return curves.entmax(name) if isinstance(name, float) else name


@pytest.fixture
def quick(monkeypatch):
    """How often a search and a derivative are NumPy's."""
    places = {
        "solved_by_numpy": numpy_for_libraries,
        "pull_selection_on_numpy": selection_rule,
    }
    counts = dict.fromkeys(places, 0)

    def counted(name):
        inner = getattr(places[name], name)

        def outer(*args):
            out = inner(*args)
            counts[name] += out is not None
            return out

        monkeypatch.setattr(places[name], name, outer)

    for name in counts:
        counted(name)
    return counts


def rows_of_every_kind():
    """Scores and budgets: near and far, -inf, ties and, last, a plateau."""
    x = scores(6, 12)
    x[2], x[3, 4:], x[4], x[5] = 9 * x[2], -torch.inf, 0.5, 40 * x[5]
    k = torch.tensor([1.0, 3.5, 4, 2.25, 6, 4], dtype=torch.double)
    return x, k


@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold])
@pytest.mark.parametrize("name", [*QUICK, 1.25, 1.5, 2.0])
def test_eager_values_and_gradients_are_numpys_and_those_of_the_sums(
    operator, name, quick
):
    """NumPy's, unless nobody looks or the gradient is to be differentiated again.

    Nor is the gradient of a threshold that is the middle of an interval.
    """
    curve, (x, k) = curve_of(name), rows_of_every_kind()
    close = functools.partial(torch.testing.assert_close, rtol=1e-13, atol=4e-15)
    tau = torch.tensor(0.7, dtype=torch.double)
    for given in [(x, k, tau), (x, 1, 0.7), (x[0], 2.5, 2), (3 * x, 1.0, 1)]:
        given = [
            v.clone().requires_grad_() if isinstance(v, torch.Tensor) else v
            for v in given
        ]

        def f(look=None, given=given):
            x, k, tau = given
            return operator(x, k, curve, temperature=tau, check=look)

        p = stk.soft_topk(*given[:2], curve, temperature=given[2], check=False)
        pulls = int(operator is stk.soft_topk or ((0 < p) & (p < 1)).any(-1).all())
        own, by = f(), [v for v in given if isinstance(v, torch.Tensor)]
        g = torch.cos(torch.arange(own.numel(), dtype=own.dtype)).reshape(own.shape)
        first = torch.autograd.grad(own, by, g)
        assert quick == {"solved_by_numpy": 1, "pull_selection_on_numpy": pulls}
        again = torch.autograd.grad(f(), by, g, create_graph=True)
        assert quick == {"solved_by_numpy": 2, "pull_selection_on_numpy": pulls}
        sums = f(False)
        close(own, sums)
        close(first, again)
        close(first, torch.autograd.grad(sums, by, g))
        assert quick == {"solved_by_numpy": 2, "pull_selection_on_numpy": pulls}
        quick.update(solved_by_numpy=0, pull_selection_on_numpy=0)


def test_a_parameter_and_sixteen_bits_are_numpys_too(quick):
    for x in (
        torch.nn.Parameter(scores(3, 8)),
        scores(3, 8).bfloat16().requires_grad_(),
    ):
        stk.soft_topk(x, 1, "clip").square().sum().backward()
        assert x.grad.dtype == x.dtype and x.grad.abs().max() > 0.01
    assert quick == {"solved_by_numpy": 2, "pull_selection_on_numpy": 2}


SEARCHING = {
    "sparsemax_loss": lambda x, y: stk.sparsemax_loss(x, y),
    "entmax_loss": lambda x, y: stk.entmax_loss(x, y),
    "top_k_loss": lambda x, y: stk.top_k_loss(x, y, 1),
    "stop_gradient_loss": lambda x, y: stk.stop_gradient_loss(x, y, 1),
    "potential": lambda x, y: stk.potential(x, 2),
    "soft_rank": lambda x, y: stk.soft_rank(x, "sigmoid"),
    "soft_sort": lambda x, y: stk.soft_sort(x, "sigmoid"),
}


@pytest.mark.parametrize("name", SEARCHING)
def test_every_eager_operator_that_searches_does_so_by_numpys_solver(name, quick):
    x, y = scores(3, 8).requires_grad_(), torch.tensor([1, 0, 7])
    SEARCHING[name](x, y).sum().backward()
    assert quick["solved_by_numpy"] == 1


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_a_tensor_as_temperature_keeps_entmax_on_numpys_solver(
    alpha, learned, special, monkeypatch
):
    """Also where the temperature has a derivative, which is that of the division."""
    calls, inner = [], numpy_for_libraries.simplex_by_numpy
    monkeypatch.setattr(
        numpy_for_libraries, "simplex_by_numpy", lambda *a: calls.append(1) or inner(*a)
    )
    x, v = scores(3, 8), scores(3, 8, seed=1)
    if special:
        x[0, 2], x[1, 3:] = -torch.inf, -torch.inf
    tau = torch.tensor(0.7, dtype=x.dtype, requires_grad=learned)
    found = []
    for look in (None, False):
        x = x.detach().requires_grad_()
        p = stk.entmax(x, alpha, temperature=tau, check=look)
        by = (x, tau) if learned else (x,)
        first = torch.autograd.grad((p.square() * v).sum(), by, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), by)
        found.append((p, *first, *second))
        # The quotient of -inf has no derivative by tau, so `select` takes these rows.
        assert len(calls) == (not (special and learned))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0])
def test_a_difference_that_overflows_has_a_derivative_by_a_learned_temperature(alpha):
    x = torch.tensor([1e308, -1e308, 0.0], dtype=torch.double, requires_grad=True)
    tau = torch.tensor(1.0, dtype=torch.double, requires_grad=True)
    p = stk.entmax(x, alpha, temperature=tau)
    assert p.tolist() == [1, 0, 0]
    for grad in torch.autograd.grad(p.square().sum(), (x, tau)):
        assert torch.count_nonzero(grad) == 0  # and not NaN


@pytest.mark.parametrize("value", [0.0, -1.0, torch.nan, torch.inf])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, t: stk.entmax(x, temperature=t),
        lambda x, t: stk.soft_topk(x, 2, temperature=t),
    ],
)
def test_a_temperature_out_of_range_is_named(value, learned, call):
    tau = torch.tensor(value, requires_grad=learned)
    with pytest.raises(ValueError, match="temperature must be"):
        call(scores(3, 8), tau)


@pytest.mark.parametrize("shape", [(7,), (5, 12), (90, 100), (2, 600)])
@pytest.mark.parametrize("alpha", [1.25, 1.5, 1.75, 2.0])
def test_entmax_from_its_shares_is_that_of_the_sums(alpha, shape, monkeypatch):
    """Eager and looked at it is NumPy's, with a derivative that knows p alone."""
    calls, inner = [], numpy_for_libraries.simplex_by_numpy
    monkeypatch.setattr(
        numpy_for_libraries, "simplex_by_numpy", lambda *a: calls.append(1) or inner(*a)
    )
    x, v, w = (scores(*shape, seed=i) for i in range(3))
    x.view(-1)[[1, 2]] = -torch.inf
    x.view(-1)[3] = x.max()
    x.requires_grad_()

    def f(look):
        return stk.entmax(x, alpha, temperature=0.7, check=look)

    close = functools.partial(torch.testing.assert_close, rtol=1e-11, atol=1e-13)
    own, sums = f(None), f(False)
    assert calls == [1]
    close(own, sums)
    firsts, seconds = [], []
    for p in (own, sums):
        loss = (p.square() * v).sum()
        last = torch.autograd.grad(loss, x, retain_graph=True)[0]
        first = torch.autograd.grad(loss, x, create_graph=True)[0]
        close(last, first)
        firsts.append(first)
        seconds.append(torch.autograd.grad(first, x, w)[0])
    close(*firsts)
    close(*seconds)
    with forward_ad.dual_level():
        moving = stk.entmax(forward_ad.make_dual(x.detach(), v), alpha, temperature=0.7)
        tangent = forward_ad.unpack_dual(moving).tangent
        close(tangent, torch.autograd.grad(f(None), x, v)[0])  # it is symmetric
    with torch.no_grad():
        close(f(None), own)
    assert len(calls) == 4


@pytest.mark.parametrize("look", [None, False])
@pytest.mark.parametrize("curve", ["clip", "entmax"])
def test_the_second_derivative_of_a_linear_loss_is_zero(curve, look):
    x = scores(3, 9).requires_grad_()
    with torch.no_grad():
        x[0, 0] = -torch.inf
    p = stk.sparsemax(x, check=look)
    if curve == "clip":
        p = stk.soft_topk(x, 2, "clip", check=look)
    (first,) = torch.autograd.grad(p.select(-1, 1).sum(), x, create_graph=True)
    assert first.abs().max() > 0.1
    assert torch.equal(*torch.autograd.grad(first.sum(), x), torch.zeros_like(x))


def test_entmax_refuses_what_the_core_does():
    for bad, match in [(torch.nan, "finite or -inf"), (-torch.inf, "a finite entry")]:
        with pytest.raises(ValueError, match=match):
            stk.sparsemax(torch.full((2, 3), bad))


def test_slopes_that_underflow_are_left_to_their_logarithms(quick):
    x = torch.tensor([[2000.0, 0.0, -3000.0], [1.0, 0.0, 0.5]], requires_grad=True)
    k = torch.ones(2, requires_grad=True)
    stk.soft_topk(x, k, "laplace").sum().backward()
    assert quick == {"solved_by_numpy": 1, "pull_selection_on_numpy": 0}
    assert torch.allclose(k.grad, torch.ones(2), rtol=0, atol=1e-6)


def test_a_gradient_that_is_mapped_or_pushed_forward_is_not_numpys(quick):
    x, v, G = scores(6), scores(6, seed=1), scores(4, 6, seed=2)
    x.requires_grad_()
    hessian = torch.func.hessian(lambda x: (stk.soft_topk(x, 2) * v).sum())(x)
    p = stk.soft_topk(x, 2)

    def vjp(g):
        return torch.autograd.grad(p, x, g, retain_graph=True)[0]

    rows = torch.stack([vjp(g) for g in G])
    assert quick == {"solved_by_numpy": 1, "pull_selection_on_numpy": 4}
    close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-15)
    close(torch.func.vmap(vjp)(G), rows)
    close(
        torch.autograd.grad(p, x, G, retain_graph=True, is_grads_batched=True)[0], rows
    )
    assert quick == {"solved_by_numpy": 1, "pull_selection_on_numpy": 4}
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(x, G[0])
        loss = (stk.soft_topk(moving, 2) * v).sum()
        pushed = forward_ad.unpack_dual(torch.autograd.grad(loss, moving)[0]).tangent
    close(pushed, hessian @ G[0])
    assert quick == {"solved_by_numpy": 2, "pull_selection_on_numpy": 4}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_what_is_compiled_is_not_numpys(quick):
    """Neither a value, whatever is a number, nor the gradient of an eager value."""

    def f(x):
        return stk.soft_topk(x, 2, temperature=0.5)

    x = scores(3, 7).requires_grad_()
    close = functools.partial(torch.testing.assert_close, rtol=0, atol=4e-16)
    whole = torch.compile(f, fullgraph=True, backend="eager")(x)
    assert quick == {"solved_by_numpy": 0, "pull_selection_on_numpy": 0}
    close(whole, f(x))
    (gradient,) = torch.autograd.grad(f(x).square().sum(), x)
    assert quick == {"solved_by_numpy": 2, "pull_selection_on_numpy": 1}
    with compiled_autograd._enable(torch.compile(backend="eager")):
        f(x).square().sum().backward()
    assert quick == {"solved_by_numpy": 3, "pull_selection_on_numpy": 1}
    close(x.grad, gradient)


def test_a_list_of_tensors_is_refused():
    # The page on the frameworks says that it needs torch.stack, which keeps gradients.
    scores = [torch.tensor(float(i), requires_grad=True) for i in range(4)]
    assert stk.soft_topk(torch.stack(scores), 2).requires_grad
    for given in (scores, [torch.zeros(3), torch.ones(3)]):
        with pytest.raises(TypeError, match="one array of real numbers"):
            stk.soft_topk(given, 1)


def test_a_budget_beyond_the_floats_raises():
    with pytest.raises(ValueError, match="k must lie in"):
        stk.soft_topk(scores(5), 10**400)


def test_a_temperature_out_of_range_raises_whatever_it_is():
    for tau in (0.0, -1.0, torch.inf, torch.nan):
        with pytest.raises(ValueError, match="temperature must be finite"):
            stk.soft_topk(scores(5), 2, temperature=torch.tensor(tau))


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
        try:
            stk.balanced_topk(divided.reshape(250, 4), 1)
        except NotImplementedError as error:
            assert "no DTensor" in str(error)
            print("refused")
        dist.destroy_process_group()
    """
    for out in in_two_processes(program, tmp_path):
        assert out.count("\n") == 5


def in_two_processes(program, folder):
    """What each of two processes prints; they are given their rank and a file."""
    program = ["-W", "ignore", "-c", textwrap.dedent(program)]
    given = [
        [sys.executable, *program, str(rank), f"{folder}/store"] for rank in (0, 1)
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, **pipes) for command in given]
    printed = []
    for run in runs:
        out, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        lines = out.splitlines(keepends=True)  # PyTorch 2.10 itself prints some
        printed.append("".join(v for v in lines if not v.startswith("[Gloo]")))
    return printed


def test_masks_targets_and_losses_of_divided_scores(tmp_path):
    program = """
        import sys, torch, torch.distributed as dist
        import softtopk.torch as stk
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor

        store = f"file://{sys.argv[2]}"
        given = {"rank": int(sys.argv[1]), "world_size": 2}
        dist.init_process_group("gloo", init_method=store, **given)
        mesh = init_device_mesh("cpu", (2,))
        torch.manual_seed(0)
        x, y = torch.randn(6, 8, dtype=torch.double), torch.tensor([0, 1, 2, 3, 0, 1])
        mask = torch.arange(8) < torch.arange(4, 10)[:, None]
        calls = {
            "soft_topk": (2,), "threshold": (2,), "top_k": (2,), "top_k_indices": (2,),
            "top_k_st": (2,), "top_k_sum": (2,), "grad_topk": (2,), "potential": (2,),
            "log_partition": (2,), "softmax": (), "sparsemax": (), "entmax": (1.5,),
            "sparse_softmax": (2,), "cross_entropy": (y,), "am_softmax_loss": (y, 0.3),
            "sparse_softmax_loss": (y, 4), "entmax_loss": (y,), "top_k_loss": (y,),
            "in_top_k_loss": (y, 3), "stop_gradient_loss": (y,),
        }
        shares = "soft_topk", "top_k", "grad_topk", "softmax"
        zeros = {"empty": "zeros"}
        for name, rest in calls.items():
            cases = [(0, mask, {}), (1, mask, {}), (1, None, {})]
            if name in shares:
                cases += [(axis, mask & (y > 0)[:, None], zeros) for axis in (0, 1)]
            for axis, where, more in cases:
                place = [Shard(axis)]
                found = []
                for v in (distribute_tensor(x, mesh, place), x.clone()):
                    v.requires_grad_()
                    p = getattr(stk, name)(v, *rest, where=where, **more)
                    slope = v
                    if p.requires_grad:
                        (slope,) = torch.autograd.grad((p * p).sum(), v)
                    if hasattr(v, "full_tensor"):
                        p, slope = p.full_tensor(), slope.full_tensor()
                    found.append((p, slope))
                for one, two in zip(*found):
                    assert (one - two).abs().max() < 1e-13, (name, axis)
            print(name)
        dist.destroy_process_group()
    """
    for out in in_two_processes(program, tmp_path):
        assert out.count("\n") == 20
