"""Rows out of range on JAX: what holds their values and what makes them NaN."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def _spoilt(x: Any, in_range: Any, value: bool) -> Any:
    return jnp.where(in_range if value else in_range | (x == 0), x, jnp.nan)


_spoil_p = Primitive("spoil")
_spoil_p.def_impl(_spoilt)
_spoil_p.def_abstract_eval(lambda x, in_range, value: x)
mlir.register_lowering(_spoil_p, mlir.lower_fun(_spoilt, multiple_results=False))


def _push(primals: Any, tangents: Any, value: bool) -> tuple[Any, Any]:
    (x, in_range), (dx, _) = primals, tangents
    out = _spoil_p.bind(x, in_range, value=value)
    if isinstance(dx, ad.Zero):
        return out, ad.Zero.from_primal_value(out)
    return out, _spoil_p.bind(dx, in_range, value=False)


def _pull(ct: Any, x: Any, in_range: Any, value: bool) -> tuple[Any, None]:
    zero = isinstance(ct, ad.Zero)
    return (ct if zero else _spoil_p.bind(ct, in_range, value=False)), None


def _map(args: Any, axes: Any, value: bool) -> tuple[Any, int]:
    size = next(a.shape[i] for a, i in zip(args, axes, strict=True) if i is not None)
    x, in_range = (
        jnp.broadcast_to(a, (size, *a.shape)) if i is None else jnp.moveaxis(a, i, 0)
        for a, i in zip(args, axes, strict=True)
    )
    return _spoil_p.bind(x, in_range, value=value), 0


ad.primitive_jvps[_spoil_p] = _push
ad.primitive_transposes[_spoil_p] = _pull
batching.primitive_batchers[_spoil_p] = _map


def spoil(x: Any, in_range: Any, value: bool = False) -> Any:
    """x where it is in range, and elsewhere NaN.

    With ``value=False``, x is a tangent or a gradient, and a 0 of it stays 0; with
    ``value=True``, zeros become NaN, too.  For derivatives the map counts as linear in
    x, and is its own transpose.
    """
    return _spoil_p.bind(x, jnp.broadcast_to(in_range, x.shape), value=value)


def _hold(x: Any, in_range: Any) -> Any:
    """x where it is in range, and elsewhere 0, with the derivative of x everywhere."""
    return jnp.where(in_range, x, 0)


hold = jax.custom_jvp(_hold)
hold.defjvps(lambda dx, _, x, in_range: dx, None)
