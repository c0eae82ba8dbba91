"""A selection's times beside a softmax, a hard top-k, a sort and other packages.

For each shape and type: the median time of an eager call, forward and with backward, as
a program sees it; and the time of the device alone, from a CUDA graph of many calls,
without what the host takes to launch them.  Also the seconds of the first call, which
compiles.
"""

from __future__ import annotations

import importlib
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any

import torch
from device import (
    DEVICE,
    DRY,
    failed,
    guarded,
    keep,
    kernels_here,
    late,
    without_kernels,
)

import softtopk.torch as st

Function = Callable[[Any, int], Any]

SHAPES = (
    *((4096, 128), (16384, 64), (4096, 8), (32, 8), (4096, 50), (256, 4096)),
    *((64, 16384), (64, 50_000), (1, 1_000_000)),
)
CALLS, WARM, CAPTURED = 20, 3, 20
SECONDS = 88
"""After so long, nothing else is measured."""

WITHOUT, COMPILED = "without kernels", "compiled"
COMPILED_FOR = (4096, 128)
"""The shape for which torch.compile is tried: it takes long."""


def optional(name: str) -> Any:
    """A module, or None; some packages fail in their own ways where they load."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        print(f"without {name}: {type(error).__name__}")
        return None


def scattered(x: Any, k: int) -> Any:
    values, index = torch.topk(x, k, dim=-1)
    return torch.zeros_like(x).scatter(-1, index, values)


def contenders() -> Iterator[tuple[str, Function]]:
    """What is measured: functions of scores and a budget."""
    yield "softmax", lambda x, k: torch.softmax(x, -1)
    yield "soft_topk", st.soft_topk
    yield "topk, scatter", scattered
    yield "sort", lambda x, k: torch.sort(x, -1).values
    yield "entmax 1.5", lambda x, k: st.entmax(x, 1.5)
    if splash := optional("adasplash"):
        yield "adasplash 1.5", lambda x, k: splash.triton_entmax(x, alpha=1.5)
    if peer := optional("entmax"):
        yield "budget_bisect", lambda x, k: peer.budget_bisect(x, budget=k, dim=-1)
    yield WITHOUT, st.soft_topk
    if not DRY:
        yield COMPILED, torch.compile(lambda x, k: st.soft_topk(x, k), dynamic=False)


def clock(call: Callable[[], Any]) -> float:
    """The median time of a call in microseconds."""
    if DRY:
        start = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - start)
    for _ in range(WARM):
        call()
    found = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        found.append(1e3 * start.elapsed_time(end))
    return statistics.median(found)


def alone(call: Callable[[], Any]) -> float:
    """The time of the device for a call in microseconds; NaN in a dry run."""
    if DRY:
        return math.nan
    from check import captured

    def many() -> None:
        for _ in range(CAPTURED):
            call()

    graph, _ = captured(many)
    return clock(graph.replay) / CAPTURED


def measured(f: Function, x: Any, k: int, graph: bool) -> dict[str, float]:
    """The four times of a function, and the seconds of its first call."""
    g, v = torch.randn_like(x), x.clone().requires_grad_()

    def forward() -> Any:
        with torch.no_grad():
            return f(x, k)

    def both() -> Any:
        return torch.autograd.grad(f(v, k), v, g)

    start = time.perf_counter()
    forward(), both()
    if not DRY:
        torch.cuda.synchronize()
    first = time.perf_counter() - start
    found = {"forward": clock(forward), "both": clock(both)}
    device = [alone(forward), alone(both)] if graph else [math.nan] * 2
    found |= {"device forward": device[0], "device both": device[1], "first": first}
    return found


def compiled(job: tuple[str, int, int, torch.dtype]) -> None:
    """Call a function once, so that its kernels are in Triton's cache."""
    name, rows, n, dtype = job
    f, k = dict(contenders())[name], min(8, n - 1)
    x = torch.randn(rows, n, device=DEVICE).to(dtype).requires_grad_()
    torch.autograd.grad(f(x, k).sum(), x)


def prepare() -> None:
    """Compile the kernels in several processes, which takes most of the time."""
    jobs = [
        (name, *shape, dtype)
        for shape in SHAPES
        for dtype in (torch.float32, torch.bfloat16)
        for name in ("soft_topk", "entmax 1.5")
    ]
    workers = max(1, min(8, (os.cpu_count() or 2) // 2))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(compiled, jobs))


def lines() -> Iterator[dict[str, Any]]:
    """One for each shape, type and function."""
    functions = list(contenders())
    for rows, n in ((8, 16),) if DRY else SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            x = torch.randn(rows, n, device=DEVICE).to(dtype)
            kind, k = str(dtype).removeprefix("torch."), min(8, n - 1)
            for name, f in functions:
                if late(SECONDS):
                    return
                only = (rows, n) == COMPILED_FOR and dtype == torch.float32
                if name == COMPILED and not only:
                    continue
                how = without_kernels() if name == WITHOUT else nullcontext()
                step = f"{name} {rows}x{n} {kind}"
                with how, kernels_here() if name != WITHOUT else nullcontext():
                    found = guarded(step, measured, f, x, k, name != WITHOUT)
                if found:
                    at = {"rows": rows, "n": n, "dtype": kind, "k": k, "name": name}
                    yield at | {key: round(t, 3) for key, t in found.items()}


def ratios(table: list[dict[str, Any]]) -> Iterator[str]:
    """For each shape, the times over softmax's; those of 16 bits in brackets."""
    known = {(e["rows"], e["n"], e["dtype"], e["name"]): e for e in table}
    for rows, n in dict.fromkeys((e["rows"], e["n"]) for e in table):
        shown = []
        for name in dict.fromkeys(e["name"] for e in table if e["name"] != "softmax"):
            parts = []
            for dtype in ("float32", "bfloat16"):
                own = known.get((rows, n, dtype, name))
                soft = known.get((rows, n, dtype, "softmax"))
                if own and soft:
                    by = (
                        "device "
                        if own["device both"] > 0 < soft["device both"]
                        else ""
                    )
                    keys = f"{by}forward", f"{by}both"
                    parts.append("/".join(f"{own[k] / soft[k]:.1f}" for k in keys))
            if parts:
                shown.append(
                    f"{name} {parts[0]}" + "".join(f" ({p})" for p in parts[1:])
                )
        yield f"{rows}x{n}: " + "; ".join(shown)


def main() -> int:
    table: list[dict[str, Any]] = []
    if not DRY:
        guarded("compile", prepare)
    print("us: forward, both; on the device alone forward, both; s of the first call")
    for line in lines():
        table.append(line)
        keep("times", {"lines": table, "failed": failed})  # what there is so far
        numbers = list(line.values())[5:]
        name = (
            f"{line['rows']:6d} x {line['n']:<8d}{line['dtype']:9s}{line['name']:16s}"
        )
        print(name + "".join(f"{t:10.1f}" for t in numbers), flush=True)
    print("times over softmax's, forward/both, float32 (bfloat16):")
    for shown in ratios(table):
        print(shown)
    print(f"failed: {'; '.join(failed) or 'nothing'}"[:400])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
