"""A selection on an accelerator, beside a softmax, a hard top-k and other packages.

    python benchmarks/bench_accelerator.py

Needs the package and a PyTorch that drives the accelerator of this machine; adasplash
and entmax are measured where they can be imported.  Each time is the median of many
calls, measured with events of the device.  The table is printed and stored, with the
device's name, in benchmarks/accelerator.json.  Without an accelerator it says so and
fails.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

SHAPES = ((32, 8), (4096, 128), (16384, 64), (64, 50_000), (1, 1_000_000))
STORE = Path(__file__).with_name("accelerator.json")
CALLS, WARM = 30, 5
WITHOUT = "without kernels"

Function = Callable[[Any], Any]


@cache
def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # some packages fail in their own ways where they load
        print(f"without {name}: {type(error).__name__}: {error}", file=sys.stderr)
        return None


def contenders(k: int) -> Iterator[tuple[str, Function]]:
    """What is measured: functions of scores with the budget k."""
    import torch

    import softtopk.torch as st

    def scattered(x: Any) -> Any:
        values, index = torch.topk(x, k, dim=-1)
        return torch.zeros_like(x).scatter(-1, index, values)

    yield "softmax", lambda x: torch.softmax(x, -1)
    yield "topk, scatter", scattered
    yield "soft_topk", lambda x: st.soft_topk(x, k)
    yield WITHOUT, lambda x: st.soft_topk(x, k)
    if k == 1:
        yield "entmax 1.5", lambda x: st.entmax(x, 1.5)
        if splash := optional("adasplash"):
            yield "adasplash 1.5", lambda x: splash.triton_entmax(x, alpha=1.5)
    if peer := optional("entmax"):
        yield "budget_bisect", lambda x: peer.budget_bisect(x, budget=k, dim=-1)


def milliseconds(call: Callable[[], Any]) -> float:
    """The median time of a call, with what the host takes to launch it."""
    import torch

    for _ in range(WARM):
        call()
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measured(name: str, f: Function, x: Any, backward: bool) -> float | None:
    """The time in milliseconds; None where the function refuses its arguments."""
    import torch

    from softtopk._kernels import torch as kernels

    g = torch.randn_like(x)
    rows = x.clone().requires_grad_(backward)

    def call() -> None:
        p = f(rows)
        if backward:
            torch.autograd.grad(p, rows, g)

    longest = kernels.LONGEST
    kernels.LONGEST = 0 if name == WITHOUT else longest
    try:
        return milliseconds(call)
    except Exception as error:
        print(f"  {name} failed: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    finally:
        kernels.LONGEST = longest


def main() -> int:
    torch = optional("torch")
    if torch is None or not torch.cuda.is_available():
        print("There is no accelerator that PyTorch can use: nothing was measured.")
        return 1
    import triton

    import softtopk

    device = torch.cuda.get_device_name()
    print(f"{device}, torch {torch.__version__}, triton {triton.__version__}")
    print("milliseconds, forward and with backward\n")
    versions = {"torch": torch.__version__, "triton": triton.__version__}
    versions["softtopk"] = softtopk.__version__
    lines: list[dict[str, Any]] = []
    found = {"device": device, "versions": versions, "lines": lines}
    for rows, n in SHAPES:
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(0)
            x = torch.randn(rows, n, device="cuda").to(dtype)
            for k in sorted({1, min(8, n - 1), max(1, n // 10)}):
                for name, f in contenders(k):
                    times = [
                        measured(name, f, x, backward) for backward in (False, True)
                    ]
                    kind = str(dtype).removeprefix("torch.")
                    line = {"rows": rows, "n": n, "dtype": kind, "k": k, "name": name}
                    lines.append(
                        line | dict(zip(("forward", "both"), times, strict=True))
                    )
                    shown = "".join(f"{t:10.4f}" if t else "         -" for t in times)
                    print(f"{rows:6d} x {n:<8d}{kind:9s} k={k:<7d}{name:16s}{shown}")
            STORE.write_text(json.dumps(found, indent=1) + "\n")  # what there is so far
    return 0


if __name__ == "__main__":
    sys.exit(main())
