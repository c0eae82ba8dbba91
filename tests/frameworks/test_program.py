"""How long the programs are that a compiler gets: they must not grow unnoticed."""

import jax
import jax.numpy as jnp
import pytest

import softtopk.jax as stk

MOST = {"laplace": 760, "exp": 705, "sigmoid": 835, "clip": 790, "triangular": 875}


@pytest.mark.parametrize("curve", MOST)
def test_the_program_of_soft_topk_stays_short(curve):
    x = jnp.zeros((64, 128), jnp.float32)
    program = jax.jit(lambda x: stk.soft_topk(x, 8, curve)).lower(x).as_text()
    assert len(program.splitlines()) <= MOST[curve]


OTHERS = {
    "softmax": (stk.softmax, 64),
    "sparsemax": (stk.sparsemax, 790),
    "grad_topk": (lambda x: stk.grad_topk(x, 8), 1650),
    "log_partition": (lambda x: stk.log_partition(x, 8), 1825),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_program_of_another_operator_stays_short(name):
    """Each look at whether a row is in range costs some lines."""
    operator, most = OTHERS[name]
    program = jax.jit(operator).lower(jnp.zeros((64, 128), jnp.float32)).as_text()
    assert len(program.splitlines()) <= most
