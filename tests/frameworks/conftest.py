"""One harness for both libraries, so that each statement is tested on each of them."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import softtopk.jax
import softtopk.torch
from softtopk._adapters.torch_adapter import ADAPTER

sys.path.insert(0, str(Path(__file__).parents[1] / "package"))
jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)


few = functools.lru_cache(maxsize=8)  # the programs of a test, not those of all


class Library:
    """Derivatives without the values."""

    @classmethod
    def vjp(cls, f, args, g):
        return cls.pull(f, args, g)[1]

    @classmethod
    def jvp(cls, f, args, tangents):
        return cls.push(f, args, tangents)[1]


class Torch(Library):
    name, ops, bfloat16, float16 = (
        "torch",
        softtopk.torch,
        torch.bfloat16,
        torch.float16,
    )

    @staticmethod
    def array(values, dtype=None):
        return torch.tensor(np.asarray(values, dtype))

    @staticmethod
    def numpy(tensor):
        tensor = tensor.detach()
        return (tensor.float() if tensor.dtype.itemsize == 2 else tensor).cpu().numpy()

    @staticmethod
    def cast(array, dtype):
        return array.to(dtype)

    @staticmethod
    def gather(array, index):
        return torch.take_along_dim(array, index, -1)

    @staticmethod
    def pull(f, args, g):
        args = [a.clone().requires_grad_() for a in args]
        value = f(*args)
        return value, torch.autograd.grad(value, args, g)

    @staticmethod
    def push(f, args, tangents):
        return torch.func.jvp(f, tuple(args), tuple(tangents))

    @staticmethod
    def value_and_gradient(f, argnums=0):
        both = torch.func.grad_and_value(f, argnums)
        return lambda *args: both(*args)[::-1]

    hessian = staticmethod(torch.func.hessian)
    gradient = staticmethod(torch.func.grad)
    jacobian = staticmethod(torch.func.jacrev)
    vmap = staticmethod(torch.func.vmap)
    program = staticmethod(lambda f: f)  # compiled, where nothing else is quick
    exp, where = staticmethod(torch.exp), staticmethod(torch.where)


class Jax(Library):
    name, ops, bfloat16, float16 = "jax", softtopk.jax, jnp.bfloat16, jnp.float16

    @staticmethod
    def array(values, dtype=None):
        return jnp.asarray(np.asarray(values, dtype))

    @staticmethod
    def numpy(array):
        return np.asarray(
            array.astype(jnp.float32) if array.dtype.itemsize == 2 else array
        )

    @staticmethod
    def cast(array, dtype):
        return array.astype(dtype)

    @staticmethod
    def gather(array, index):
        return jnp.take_along_axis(array, index, -1)

    # Compiled whole: one operation at a time, each would be compiled for its shapes.
    # And once for a function: what changes from call to call is to be an argument.
    @staticmethod
    def pull(f, args, g):
        return _pulled(f)(tuple(args), g)

    @staticmethod
    def vjp(f, args, g):
        return _backward(f)(tuple(args), g)

    @staticmethod
    def push(f, args, tangents):
        return _pushed(f)(tuple(args), tuple(tangents))

    @staticmethod
    @few
    def value_and_gradient(f, argnums=0):
        return jax.jit(jax.value_and_grad(f, argnums))

    @staticmethod
    @few
    def hessian(f):
        return jax.jit(jax.hessian(f))

    @staticmethod
    @few
    def gradient(f, argnums=0):
        return jax.jit(jax.grad(f, argnums))

    @staticmethod
    @few
    def jacobian(f, argnums=0):
        return jax.jit(jax.jacrev(f, argnums))

    @staticmethod
    @few
    def vmap(f):
        return jax.jit(jax.vmap(f))

    program = staticmethod(few(jax.jit))
    exp, where = staticmethod(jnp.exp), staticmethod(jnp.where)


@few
def _pulled(f):
    def both(args, g):
        value, back = jax.vjp(f, *args)
        return value, back(g)

    return jax.jit(both)


@few
def _backward(f):  # no part of a value that the gradient does not need
    return jax.jit(lambda args, g: jax.vjp(f, *args)[1](g))


@few
def _pushed(f):
    return jax.jit(functools.partial(jax.jvp, f))


@pytest.fixture(params=["torch", "jax"])
def lib(request):
    return {"torch": Torch, "jax": Jax}[request.param]


@pytest.fixture
def looked(monkeypatch):
    """PyTorch looks at values by default on every device, as it does on the CPU.

    For tests that expect the errors that then are raised; `test_device.py` says what
    comes of the same rows where nobody looks.
    """
    looks = ADAPTER.looks

    def always(x, check):
        if check is not None:
            return looks(x, check)
        try:
            return looks(x, True)
        except ValueError:  # the values are traced, or there are none
            return False

    monkeypatch.setattr(ADAPTER, "looks", staticmethod(always))


@pytest.fixture
def as_on_a_device(monkeypatch):
    """PyTorch looks at values only if asked to, on the CPU as on an accelerator."""
    looks = ADAPTER.looks
    monkeypatch.setattr(
        ADAPTER, "looks", staticmethod(lambda x, check: bool(check) and looks(x, check))
    )


def pytest_addoption(parser):
    parser.addoption(
        "--device", default="cpu", help="where the tensors of PyTorch are, such as cuda"
    )


def pytest_configure(config):
    device = config.getoption("--device")
    if device != "cpu":
        torch.set_default_device(device)
    # Of torch's own making, when forward mode or a compiler is first used.
    config.addinivalue_line("filterwarnings", "default::DeprecationWarning:torch")
    # Torch calls what it has marked as replaced: torch.jit.script, where forward mode
    # is first used (2.15).
    config.addinivalue_line("filterwarnings", "default::FutureWarning:torch")
