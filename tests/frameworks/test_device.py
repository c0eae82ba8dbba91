"""What depends on where PyTorch's tensors are: what is checked, copied and waited for.

Tensors of the device meta, which have no values, stand here for those of a device: what
the host copies there is the same.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import softtopk.torch as stk
from softtopk import curves
from softtopk._adapters import torch_functions, torch_internals
from softtopk._adapters.torch_functions import Arrays

DEVICE = torch.get_default_device().type  # of the option --device


class Copies(TorchDispatchMode):
    """The operations that take something from one device to another, and all types."""

    def __init__(self):
        super().__init__()
        self.names, self.types = [], set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            places = {
                v.device.type for v in (*args, out) if isinstance(v, torch.Tensor)
            }
            if len(places) > 1:
                self.names.append(function._schema.name.split("::")[1])
            if out.is_meta:
                self.types.add(out.dtype)
        return out


NUMBERS = {
    "a number": lambda: 2.5,
    "NumPy's number": lambda: np.float64(2.5),
    "NumPy's array": lambda: np.array(2.5),
    "a tensor": lambda: torch.tensor(2.5, device="cpu"),
    "a tensor of 64 bits": lambda: torch.tensor(2.5, device="cpu").double(),
}


def everywhere(x, k):
    """A call for each way in which a number gets into an operator."""
    yield stk.soft_topk(x, k, temperature=k)
    yield stk.soft_topk(x, k, cost=torch.ones_like(x))
    yield stk.soft_topk(x, 1, empty="zeros", temperature=k)
    yield stk.threshold(x, k)
    yield stk.potential(x, k, temperature=k)
    yield stk.softmax(x, temperature=k)
    yield stk.entmax(x, k)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_filled_in_and_not_copied_to_the_device(name):
    """The host would wait for a copy, and no CUDA graph could hold it."""
    k, x = NUMBERS[name](), torch.empty(3, 8, device="meta")
    with Copies() as copies:
        for found in everywhere(x, k):
            assert found.is_meta
    assert copies.names == []


def test_a_number_that_is_trained_on_the_cpu_is_copied():
    """With its derivative, for which the host has to wait anyway."""
    k, x = torch.tensor(2.5, requires_grad=True), torch.empty(3, 8, device="meta")
    if DEVICE != "cpu":
        k = torch.tensor(2.5, device="cpu", requires_grad=True)
    with Copies() as copies:
        found = stk.soft_topk(x, k)
    assert copies.names == ["_to_copy"]
    assert found.requires_grad


def test_no_float64_is_made_on_a_device_that_has_none(monkeypatch):
    monkeypatch.setattr(torch_functions, "SINGLE", {"meta"})
    x = torch.empty(3, 8, device="meta", dtype=torch.float32)
    given = [
        *(make() for make in NUMBERS.values()),
        [1.0, 2.5, 3.0],
        np.arange(3) + 0.5,
    ]
    shares = np.full((3, 8), 0.125)
    with Copies() as copies:
        for k in given:
            stk.soft_topk(x, k, temperature=k)
        stk.soft_topk(x, 2, cost=np.ones(8))
        stk.cross_entropy(x, shares)
    assert torch.float64 not in copies.types
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert Arrays.traced([1.0, 2.5], x).dtype == torch.float32
    monkeypatch.setattr(torch_functions, "SINGLE", set())
    assert Arrays.traced([1.0, 2.5], x).dtype == torch.float64


def test_a_compiled_loop_has_its_numbers_on_the_device(monkeypatch):
    """A number on the CPU would be copied there in every pass."""
    places = []

    def once(going, step, state):
        places.extend(v.device.type for v in state)
        return step(*state)

    monkeypatch.setattr(torch_internals, "while_loop", once)
    state = (0, (torch.ones(3, device="meta"), True), torch.ones(3, device="meta"))
    out = torch_functions._compiled_loop(None, lambda *state: state, state)
    assert places == ["meta"] * 4
    assert out[0].dtype == torch.int64 and out[1][1].dtype == torch.bool


def test_a_row_out_of_range_is_nan_where_nobody_looks():
    """By default on a device, and on the CPU if the call asks for it."""
    x, k = torch.randn(3, 8), torch.tensor([2.0, 9, 2])
    x[2, 1] = torch.nan
    found = stk.soft_topk(x, k, check=False if DEVICE == "cpu" else None)
    assert found.isnan().all(-1).tolist() == [False, True, True]
    assert found.isnan().any(-1).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="x must be finite or -inf"):
        stk.soft_topk(x, k, check=True)


class Captured:
    """What the loop asks of its state while a CUDA graph records it."""

    is_cuda = True


def test_a_search_without_a_kernel_says_that_no_graph_holds_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(NotImplementedError, match="a CUDA graph cannot hold a search"):
        Arrays.loop(None, None, (Captured(),))


class Waits(TorchDispatchMode):
    """How often the host asks for a value, for which it waits on a device."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_a_search_without_a_kernel_makes_the_host_wait_three_times(monkeypatch):
    """Once for rows whose distances overflow, and before and after four passes."""
    elsewhere = SimpleNamespace(
        is_cuda=False, is_meta=False, device=SimpleNamespace(type="elsewhere")
    )
    monkeypatch.setattr(torch_functions, "leaf", lambda state: elsewhere)
    x = torch.tensor(np.random.default_rng(0).standard_normal((50, 40)))
    with Waits() as waits, torch.no_grad():
        stk.soft_topk(x, 3, curves.LAPLACE.shifted(0.5), check=False)
    assert waits.count == 3
