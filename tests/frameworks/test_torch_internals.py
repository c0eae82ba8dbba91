"""What the package uses of PyTorch's internals is there, and does the same."""

import re
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import softtopk
from softtopk._adapters import torch_internals as internals

PRIVATE = (
    r"torch\.(?:\w+\.)*_[a-z]\w*|_C\.|_pytree|_higher_order_ops|_ad\._\w+"
    r"|fx\.experimental"
)


def seen(question):
    """A function of one tensor, and the answers to a question asked while it runs."""
    answers = []

    def f(x):
        answers.append(question(x))
        return (x * x).sum()

    return f, answers


def test_a_transform_is_seen():
    x = torch.ones(3)
    assert internals.transformed() is False
    for transform in (torch.func.grad, torch.func.vmap, torch.func.hessian):
        f, answers = seen(lambda _: internals.transformed())
        transform(f)(x)
        assert answers == [True]


def test_forward_modes_are_counted():
    x = torch.ones(3)
    assert internals.forward_modes() == 0
    for transform, count in (
        (torch.func.jacfwd, 1),
        (torch.func.grad, 0),
        (torch.func.hessian, 1),
        (lambda f: torch.func.jacfwd(torch.func.jacfwd(f)), 2),
    ):
        f, answers = seen(lambda _: internals.forward_modes())
        transform(f)(x)
        assert answers == [count]


def test_a_recording_is_seen():
    x = torch.ones(3)
    assert internals.recorded() is False
    f, answers = seen(lambda _: internals.recorded())
    make_fx(f)(x)
    torch.jit.trace(f, x, check_trace=False)
    assert answers == [True, True]
    assert internals.recorded() is False


def test_a_mode_between_operations_and_kernels_is_seen():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            return operation(*args, **(kwargs or {}))

    x = torch.ones(3)
    assert internals.intercepted() is False
    f, answers = seen(lambda _: internals.intercepted())
    with Mode():
        f(x)
    make_fx(f)(x)
    torch.jit.trace(f, x, check_trace=False)
    assert answers == [True, True, True]
    assert internals.intercepted() is False


def test_a_tensor_without_values_is_seen():
    x = torch.ones(3)
    assert internals.is_fake(x) is False
    assert internals.is_fake(x.to("meta")) is True
    assert internals.is_fake(FakeTensorMode().from_tensor(x)) is True


def test_every_question_is_asked_here():
    """So that a function that is added there is not left out here."""
    asked = Path(__file__).read_text(encoding="utf8")
    for name, function in vars(internals).items():
        if getattr(function, "__module__", "") == internals.__name__:
            assert f"internals.{name}(" in asked, name


def test_a_dual_level_is_seen():
    assert internals.in_dual_level() is False
    with forward_ad.dual_level():
        assert internals.in_dual_level() is True
    assert internals.in_dual_level() is False


def test_a_batch_of_gradients_is_seen():
    answers = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            answers.append(internals.is_batch_of_gradients(g))
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = torch.ones(3, requires_grad=True)
    y = Square.apply(x)
    torch.autograd.grad(y, x, torch.ones(3), retain_graph=True)
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    assert answers == [False, True]


def test_nested_tuples_come_back():
    state = (1, (torch.ones(2), (3,)), 4)
    leaves, form = internals.flatten(state)
    assert len(leaves) == 4
    assert internals.unflatten(leaves, form) is not None
    assert internals.unflatten([0, 1, 2, 3], form) == (0, (1, (2,)), 3)


@pytest.mark.filterwarnings("default")
def test_a_loop_is_one_node():
    def f(x):
        return internals.while_loop(
            lambda x: x.sum() < 100, lambda x: (2 * x,), (x.clone(),)
        )[0]

    graphs = []

    def keep(graph, inputs):
        graphs.append(graph.code)
        return graph.forward

    torch.compiler.reset()
    found = torch.compile(f, backend=keep, fullgraph=True)(torch.ones(3))
    assert found.tolist() == [64.0, 64.0, 64.0]
    assert len(graphs) == 1
    assert graphs[0].count("while_loop(") == 1


def test_nothing_else_is_private():
    """In the code; a comment or a docstring may name it."""
    for path in Path(softtopk.__file__).parent.rglob("*.py"):
        if path.name != "torch_internals.py":
            text = path.read_text(encoding="utf8")
            assert re.findall(PRIVATE, text) == [], path
