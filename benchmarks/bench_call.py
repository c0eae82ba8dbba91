"""What a call costs beside softmax and a hard top-k: time and memory.

Forward and backward together, float32, on the rows of a router, 4096 x 64 with k = 2,
and on the scores of a thousand classes, 256 x 1000 with k = 5. The hard top-k is the
library's own (`torch.topk`, `jax.lax.top_k`, `numpy.argpartition`): the values of the k
largest scores, and their gradient, which scatters. The hard gate is the one that is in
use: the softmax of these values, scattered into a row of zeros.

Time: in every round each call is timed in turn, by the time of the clock, and the ratio
to the softmax and to the top-k of the same round counts; a number is the median of the
rounds. Memory: by how much a call raises the peak of the process above what it held
before, over the size of the scores; measured on rows of a router of 64 MB, so that
nothing else matters, and after a first call. JAX says itself what a compiled program
needs. The result, which is the gradient, is a part of it.

Every library is measured in processes of its own, which find the machine as it is: the
JSON has the load that it was under.

    python benchmarks/bench_call.py [--only NAME ...] [--rounds 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TARGET = Path(__file__).with_name("call.json")
LIBRARIES = ("torch", "jax", "numpy")
SHAPES = {"router": (4096, 64, 2), "classes": (256, 1000, 5)}  # rows, n and k
LARGE = 2**18  # rows of a router, of 64 MB
CURVES = ("laplace", "exp", "triangular")
OPERATORS = ("softmax", "topk", "hard", *CURVES)
Call = Callable[[], Any]


def on_numpy(name: str, k: int) -> Callable[[Any, Any], Any]:
    """The call of NumPy, from scores and a gradient to value and gradient."""
    import softtopk as stk

    def topk(x: Any, g: Any) -> Any:
        kept = np.argpartition(x, -k, axis=-1)[..., -k:]
        back = np.zeros_like(x)
        np.put_along_axis(back, kept, g[..., :k], -1)
        return np.take_along_axis(x, kept, -1), back

    def hard(x: Any, g: Any) -> Any:
        kept = np.argpartition(x, -k, axis=-1)[..., -k:]
        weights = np.take_along_axis(x, kept, -1)
        weights = np.exp(weights - weights.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        gate = np.zeros_like(x)
        np.put_along_axis(gate, kept, weights, -1)
        given = np.take_along_axis(g, kept, -1)
        given = weights * (given - (weights * given).sum(-1, keepdims=True))
        back = np.zeros_like(x)
        np.put_along_axis(back, kept, given, -1)
        return gate, back

    def softmax(x: Any, g: Any) -> Any:
        p = np.exp(x - x.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return p, p * (g - (p * g).sum(-1, keepdims=True))

    def soft(x: Any, g: Any) -> Any:
        found = stk.linearize(stk.soft_topk, x, k, curve=name)
        return found.value, found.vjp(g)

    return {"softmax": softmax, "topk": topk, "hard": hard}.get(name, soft)


def on_torch(name: str, k: int) -> Callable[[Any, Any], Any]:
    """The call of PyTorch, not compiled."""
    import torch

    import softtopk.torch as stk

    def hard(x: Any) -> Any:
        values, kept = x.topk(k)
        return torch.zeros_like(x).scatter(-1, kept, values.softmax(-1))

    named: dict[str, Any] = {
        "softmax": functools.partial(torch.softmax, dim=-1),
        "topk": lambda x: x.topk(k).values,
        "hard": hard,
    }
    f = named.get(name) or functools.partial(stk.soft_topk, k=k, curve=name)

    def call(x: Any, g: Any) -> Any:
        value = f(x)
        return torch.autograd.grad(value, x, g[..., : value.shape[-1]])

    return call


def on_jax(name: str, k: int) -> Callable[[Any, Any], Any]:
    """The call of JAX, compiled."""
    import jax
    import jax.numpy as jnp

    import softtopk.jax as stk

    def hard(x: Any) -> Any:
        values, kept = jax.lax.top_k(x, k)
        rows = jnp.arange(len(x))[:, None]
        return jnp.zeros_like(x).at[rows, kept].set(jax.nn.softmax(values))

    named = {
        "softmax": jax.nn.softmax,
        "topk": lambda x: jax.lax.top_k(x, k)[0],
        "hard": hard,
    }
    f = named.get(name) or functools.partial(stk.soft_topk, k=k, curve=name)

    @jax.jit
    def run(x: Any, g: Any) -> Any:
        value, back = jax.vjp(f, x)
        return value, back(g[..., : value.shape[-1]])[0]

    def call(x: Any, g: Any) -> Any:
        return jax.block_until_ready(run(x, g))

    call.program = run  # type: ignore[attr-defined]
    return call


def calls(library: str, rows: int, n: int, k: int) -> dict[str, Call]:
    """For every operator a call without arguments."""
    rng = np.random.default_rng(0)
    x, g = (rng.standard_normal((rows, n), dtype=np.float32) for _ in range(2))
    if library == "numpy":
        found = {name: on_numpy(name, k) for name in OPERATORS}
        return {name: functools.partial(f, x, g) for name, f in found.items()}
    if library == "jax":
        import jax

        given = jax.device_put(x), jax.device_put(g)
        found = {name: on_jax(name, k) for name in OPERATORS}
    else:
        import torch

        torch.set_num_threads(1)
        given = torch.tensor(x, requires_grad=True), torch.tensor(g)
        found = {name: on_torch(name, k) for name in OPERATORS}
    return {name: functools.partial(f, *given) for name, f in found.items()}


def seconds(call: Call, repeat: int) -> float:
    """The time of one call."""
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def times(library: str, shape: str, rounds: int) -> dict[str, Any]:
    """Milliseconds, and ratios to the softmax and the top-k of the same round."""
    every = calls(library, *SHAPES[shape])
    repeat = {}
    for name, call in every.items():
        call()  # compiles
        call()
        repeat[name] = max(1, min(100, int(0.05 / seconds(call, 1))))
    took = [
        {name: seconds(call, repeat[name]) for name, call in every.items()}
        for _ in range(rounds)
    ]

    def ratio(name: str, other: str) -> float:
        return round(statistics.median(one[name] / one[other] for one in took), 2)

    return {
        name: {
            "ms": round(statistics.median(one[name] for one in took) * 1e3, 3),
            "softmaxes": ratio(name, "softmax"),
            "topks": ratio(name, "topk"),
        }
        for name in OPERATORS
    }


def held(what: str) -> int:
    """What Linux says of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [one for one in lines if one.startswith(f"{what}:")]
    return int(line.split()[1]) * 1024


def memory(library: str, name: str) -> float:
    """The peak of a call above what was held before, over the size of the scores."""
    _, n, k = SHAPES["router"]
    call = calls(library, LARGE, n, k)[name]
    if library == "jax":  # keeps what it frees, but says what a program needs
        plan = call.func.program.lower(*call.args).compile().memory_analysis()  # type: ignore[attr-defined]
        needed = plan.temp_size_in_bytes + plan.output_size_in_bytes
        return round(needed / (4 * LARGE * n), 2)
    call()
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    kept = call()  # the result is held until its peak is read
    peak = held("VmHWM")
    del kept
    return round((peak - before) / (4 * LARGE * n), 2)


def version(name: str) -> str:
    """The release of a library."""
    return importlib.metadata.version(name)


def child(*given: str) -> Any:
    """What this program answers in a process of its own."""
    told = subprocess.run(
        [sys.executable, __file__, "--child", *given],
        env=os.environ
        | {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",  # one thread
            "MALLOC_MMAP_THRESHOLD_": "65536",  # what is freed leaves the process
            "PYTHONPATH": str(TARGET.parents[1]),
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(told.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=LIBRARIES, choices=LIBRARIES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, default=TARGET)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what, library, *more = given.child
        if what == "times":
            shape, rounds = more
            print(json.dumps(times(library, shape, int(rounds))))
        else:
            print(json.dumps(memory(library, *more)))
        return
    found = json.loads(given.json.read_text()) if given.json.exists() else {}
    found |= {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread a call",
        "versions": {name: version(name) for name in ("numpy", "torch", "jax")},
    }
    for library in given.only:
        load = os.getloadavg()[0]  # 0 where nothing else runs
        rounds = str(given.rounds)
        rows = {shape: child("times", library, shape, rounds) for shape in SHAPES}
        for name, row in rows["router"].items():
            row["memory"] = child("memory", library, name)
        found[library] = rows | {"rounds": given.rounds, "load": round(load, 1)}
        print(library, json.dumps(found[library], indent=1), flush=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
