"""`weights` and `horner` of `polynomials` on NumPy, for blocks of rows in turn.

The products of polynomials and their scaling are in `polynomials`, for every library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._rows.numpy_rows import Array

_BLOCK_ENTRIES = 1 << 14  # of a few rows, so that two arrays stay in the cache


def _row_blocks(x: Array) -> Iterator[slice]:
    step = max(1, _BLOCK_ENTRIES // x.shape[1])
    return (slice(i, i + step) for i in range(0, len(x), step))


def numpy_weights(k: int, away: Any, tau: Any) -> tuple[Array, list[Array]]:
    """exp(away / tau), written over `away`, and the sums of its powers 1, ..., k."""
    flat = away.reshape(-1, away.shape[-1])
    scale = np.broadcast_to(tau, away.shape[:-1]).reshape(-1, 1)
    sums = np.empty((k, len(flat)), flat.dtype)
    for part in _row_blocks(flat):
        w = flat[part]
        w /= scale[part]
        np.exp(w, out=w)
        sums[0, part] = w.sum(axis=-1)
        power = w
        for j in range(1, k):
            power = np.multiply(power, w, out=None if j == 1 else power)
            sums[j, part] = power.sum(axis=-1)
    return flat.reshape(away.shape), [v.reshape(away.shape[:-1]) for v in sums]


def numpy_horner(terms: list[Any], weight: Any) -> Array:
    """w (t_0 - w (t_1 - w (t_2 - ...))) for weights ``(..., n)``, terms ``(...)``."""
    flat = weight.reshape(-1, weight.shape[-1])
    given = np.stack([np.broadcast_to(t, weight.shape[:-1]).ravel() for t in terms])
    given = given.astype(flat.dtype, copy=False)[..., None]
    out = np.empty_like(flat)
    for part in _row_blocks(flat):
        w, y = flat[part], out[part]
        y[...] = given[-1, part]
        for term in given[-2::-1]:
            y *= w
            np.subtract(term[part], y, out=y)
        y *= w
    return out.reshape(weight.shape)
