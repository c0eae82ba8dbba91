"""Rows out of range on JAX: what holds their values and what makes them NaN."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def _product(x: Any, factor: Any) -> Any:
    return jnp.where(x == 0, 0, x * factor)


_spoil_p = Primitive("spoil")
_spoil_p.def_impl(_product)
_spoil_p.def_abstract_eval(lambda x, factor: x)
mlir.register_lowering(_spoil_p, mlir.lower_fun(_product, multiple_results=False))


def _push(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x, factor), (dx, _) = primals, tangents
    value = _spoil_p.bind(x, factor)
    if isinstance(dx, ad.Zero):
        return value, ad.Zero.from_primal_value(value)
    return value, _spoil_p.bind(dx, factor)


def _pull(ct: Any, x: Any, factor: Any) -> tuple[Any, None]:
    return (ct if isinstance(ct, ad.Zero) else _spoil_p.bind(ct, factor)), None


def _map(args: Any, axes: Any) -> tuple[Any, int]:
    size = next(a.shape[i] for a, i in zip(args, axes, strict=True) if i is not None)
    x, factor = (
        jnp.broadcast_to(a, (size, *a.shape)) if i is None else jnp.moveaxis(a, i, 0)
        for a, i in zip(args, axes, strict=True)
    )
    return _spoil_p.bind(x, factor), 0


ad.primitive_jvps[_spoil_p] = _push
ad.primitive_transposes[_spoil_p] = _pull
batching.primitive_batchers[_spoil_p] = _map


def spoil(x: Any, factor: Any) -> Any:
    """x times factors of 1 and NaN, which are constants; 0 stays 0.

    So does a tangent or a gradient of 0: the product counts as linear in x, and is its
    own transpose.
    """
    factor = jnp.broadcast_to(jnp.asarray(factor, x.dtype), x.shape)
    return _spoil_p.bind(x, factor)


def _hold(x: Any, fits: Any) -> Any:
    """x where it fits, and elsewhere 0, with the derivative of x everywhere."""
    return jnp.where(fits, x, 0)


hold = jax.custom_jvp(_hold)
hold.defjvps(lambda dx, _, x, fits: dx, None)
