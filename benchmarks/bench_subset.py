"""Time and memory of `grad_topk` with its gradient, each library in a fresh process.

The time is that of the processor, so that other work on the machine counts less, the
least of seven calls.  The memory is what a call adds to the resident size of the
process at its peak.

    python benchmarks/bench_subset.py [--modes NAME ...] [--shape 4096 128] [--k 8]
        [--markdown FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MODES = ("numpy", "torch eager", "torch compile", "jax jit")


def calls(mode: str, X: Any, G: Any, k: int) -> tuple[Callable, Callable]:
    """The forward pass, and the forward and backward pass."""
    if mode == "numpy":
        import softtopk as stk

        return (
            lambda: stk.grad_topk(X, k),
            lambda: stk.linearize(stk.grad_topk, X, k).vjp(G),
        )
    if mode.startswith("torch"):
        import torch

        import softtopk.torch as stk_torch

        torch.set_num_threads(1)
        x, g = torch.from_numpy(X).requires_grad_(), torch.from_numpy(G)

        def operator(x: Any) -> Any:
            return stk_torch.grad_topk(x, k)

        if mode.endswith("compile"):
            operator = torch.compile(operator, fullgraph=True)
        return (
            lambda: operator(x.detach()),
            lambda: torch.autograd.grad((operator(x) * g).sum(), x),
        )
    import jax

    import softtopk.jax as stk_jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    forward = jax.jit(lambda x: stk_jax.grad_topk(x, k))
    both = jax.jit(jax.grad(lambda x: (stk_jax.grad_topk(x, k) * G).sum()))
    given = jax.numpy.asarray(X)
    return (
        lambda: jax.block_until_ready(forward(given)),
        lambda: jax.block_until_ready(both(given)),
    )


def resident(key: str) -> float:
    """A size of this process in MB, by its name in /proc."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def least(call: Callable) -> float:
    """Milliseconds."""
    times = []
    for _ in range(7):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def measure(mode: str, shape: tuple[int, ...], k: int) -> str:
    """One row of the table."""
    rng = np.random.default_rng(0)
    X, G = rng.standard_normal((2, *shape)).astype(np.float32)
    forward, both = calls(mode, X, G, k)
    both()
    forward()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    both()
    peak = resident("VmHWM") - before
    return f"| {mode} | {least(forward):.0f} | {least(both):.0f} | {peak:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--shape", nargs="*", type=int, default=(4096, 128))
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--one", choices=MODES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(measure(args.one, tuple(args.shape), args.k))
        return
    shape = "x".join(map(str, args.shape))
    lines = [
        f"`grad_topk`, {shape}, k = {args.k}, float32, one thread.",
        "",
        "| library | forward, ms | forward and backward, ms | memory, MB |",
        "| --- | --- | --- | --- |",
    ]
    for mode in args.modes:
        command = [sys.executable, __file__, "--one", mode, "--k", str(args.k)]
        command += ["--shape", *map(str, args.shape)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        run = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)
        lines.append(run.stdout.decode().splitlines()[-1])
    text = "\n".join(lines) + "\n"
    print(text)
    if args.markdown:
        args.markdown.write_text(text)


if __name__ == "__main__":
    main()
