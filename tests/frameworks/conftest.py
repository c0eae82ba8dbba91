"""One harness for both libraries, so that each statement is tested on each of them."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import softtopk.jax
import softtopk.torch

sys.path.insert(0, str(Path(__file__).parents[1] / "package"))
jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)


class Torch:
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
        return (tensor.float() if tensor.dtype.itemsize == 2 else tensor).numpy()

    @staticmethod
    def cast(array, dtype):
        return array.to(dtype)

    @staticmethod
    def vjp(f, args, g):
        args = [a.clone().requires_grad_() for a in args]
        return torch.autograd.grad(f(*args), args, g)

    @staticmethod
    def jvp(f, args, tangents):
        return torch.func.jvp(f, tuple(args), tuple(tangents))[1]

    hessian = staticmethod(torch.func.hessian)
    gradient = staticmethod(torch.func.grad)
    jacobian = staticmethod(torch.func.jacrev)
    vmap = staticmethod(torch.func.vmap)
    exp, where = staticmethod(torch.exp), staticmethod(torch.where)


class Jax:
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

    # Compiled whole: one operation at a time, each would be compiled for its shapes.
    @staticmethod
    def vjp(f, args, g):
        return jax.jit(lambda args, g: jax.vjp(f, *args)[1](g))(tuple(args), g)

    @staticmethod
    def jvp(f, args, tangents):
        return jax.jit(lambda *at: jax.jvp(f, *at)[1])(tuple(args), tuple(tangents))

    @staticmethod
    def hessian(f):
        return jax.jit(jax.hessian(f))

    @staticmethod
    def gradient(f):
        return jax.jit(jax.grad(f))

    @staticmethod
    def jacobian(f, argnums=0):
        return jax.jit(jax.jacrev(f, argnums))

    vmap = staticmethod(jax.vmap)
    exp, where = staticmethod(jnp.exp), staticmethod(jnp.where)


@pytest.fixture(params=[Torch, Jax], ids=lambda lib: lib.name)
def lib(request):
    return request.param


def pytest_configure(config):
    # Of torch's own making, when forward mode or a compiler is first used.
    config.addinivalue_line("filterwarnings", "default::DeprecationWarning:torch")
