"""How long the programs are that a compiler gets: they must not grow unnoticed."""

import jax
import jax.numpy as jnp
import pytest

import softtopk.jax as stk

MOST = {"laplace": 760, "exp": 710, "sigmoid": 840, "clip": 795, "triangular": 875}


@pytest.mark.parametrize("curve", MOST)
def test_the_program_of_soft_topk_stays_short(curve):
    x = jnp.zeros((64, 128), jnp.float32)
    program = jax.jit(lambda x: stk.soft_topk(x, 8, curve)).lower(x).as_text()
    assert len(program.splitlines()) <= MOST[curve]
