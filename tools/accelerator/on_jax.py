"""JAX on the device: its shares against NumPy's, and its times beside softmax."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import jax
import numpy as np
from device import DRY, failed, guarded, keep, late

import softtopk as stk
import softtopk.jax as sj

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

SHAPES = ((4096, 128), (16384, 64), (64, 50_000))
SECONDS = 50


def errors(curve: str, n: int, dtype: str) -> dict[str, Any]:
    """The errors of shares and gradients in eps, and the seconds of the first call."""
    rng = np.random.default_rng(n)
    x, k = jnp.asarray(rng.normal(size=(32, n)), dtype), 5.5

    @jax.jit
    def both(x: Any) -> Any:
        p, back = jax.vjp(lambda x: sj.soft_topk(x, k, curve), x)
        return p, back(p)[0]

    start = time.perf_counter()
    p, g = jax.block_until_ready(both(x))
    seconds = time.perf_counter() - start
    exact = stk.linearize(stk.soft_topk, np.asarray(x, float), k, curve)
    pairs = (p, exact.value), (g, exact.vjp(exact.value))
    eps = float(jnp.finfo(dtype).eps)
    off = [float(abs(np.asarray(a, float) - b).max() / eps) for a, b in pairs]
    assert max(off) < 64, off
    return {"shares": off[0], "x": off[1], "first": seconds}


def microseconds(f: Any, x: Any) -> float:
    """The median time of a compiled call."""
    jax.block_until_ready(f(x))
    found = []
    for _ in range(2 if DRY else 20):
        start = time.perf_counter()
        jax.block_until_ready(f(x))
        found.append(1e6 * (time.perf_counter() - start))
    return statistics.median(found)


def main() -> int:
    print("jax", jax.__version__, jax.devices())
    figures: dict[str, Any] = {"devices": str(jax.devices()), "errors": {}, "us": {}}
    for n in (16,) if DRY else (64, 4096):
        for curve in ("laplace",) if DRY else ("laplace", "sigmoid", "clip"):
            for dtype in ("float64", "float32"):
                name = f"{curve} {n} {dtype}"
                if not late(SECONDS):
                    found = guarded(name, errors, curve, n, dtype)
                    figures["errors"][name] = found
                    print(name, found and {k: round(v, 2) for k, v in found.items()})
    functions = {
        "softmax": lambda x: jax.nn.softmax(x),
        "top_k": lambda x: jax.lax.top_k(x, 8)[0],
        "soft_topk": lambda x: sj.soft_topk(x, 8),
        "soft_topk, gradient": jax.grad(lambda x: (sj.soft_topk(x, 8) ** 2).sum()),
    }
    for rows, n in ((4, 16),) if DRY else SHAPES:
        x = jnp.asarray(np.random.default_rng(0).normal(size=(rows, n)), jnp.float32)
        for name, f in functions.items():
            if not late(SECONDS):
                time_ = guarded(f"{name} {rows}x{n}", microseconds, jax.jit(f), x)
                figures["us"][f"{name} {rows}x{n}"] = time_
                print(f"{name} {rows}x{n}: {time_ or 0:.1f} us", flush=True)
            keep("jax", figures | {"failed": failed})
    print(f"failed: {'; '.join(failed) or 'nothing'}"[:300])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
