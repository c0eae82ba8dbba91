"""Whether the operators are right on the device.

In order: every kind of tile against the core in float64 (and some rows against 50
digits), scores of 16 bits, every operator with kernels and without beside the CPU, rows
out of range, shapes of one entry and of more than 2^31, calls that make the host wait,
CUDA graphs and streams.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from os import cpu_count
from typing import Any

import numpy as np
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
from softtopk import curves
from softtopk._kernels import torch_launch as kernels

torch.set_default_device(DEVICE)

# Rows and entries, one for each kind of tile that `kernels.tiles` chooses, and lengths
# that no power of 2 divides.
SHAPES = (
    *((1100, 8), (330, 50), (330, 128), (110, 300), (44, 1500), (33, 4001)),
    *((22, 16000), (44, 20000), (2, 70000)),
)
LIMITS = {"shares": 4, "sums": 1, "x": 2, "k": 4, "tau": 10}
"""In eps, and for the sums as a multiple of their bound: those of test_kernels.py."""

SECONDS = 85
"""After so long, no other tile is begun."""

Job = tuple[str, int, int, str, float]


def curve_of(name: str, alpha: float) -> curves.Curve:
    return curves.entmax(alpha) if name == "entmax" else curves.NAMED[name]


# --- Tiles ---------------------------------------------------------------------------


def jobs() -> list[Job]:
    """Types, shapes and curves, the most important first."""
    named = [(name, 1.0) for name in kernels.NAMES]
    entmax = [("entmax", alpha) for alpha in (1.5, 1.25, 1.1, 1.75, 2.0)]
    few, shapes = [("laplace", 1.0), ("triangular", 1.0), *entmax[:2]], SHAPES
    if DRY:
        named, entmax, few, shapes = named[:1], [], few[:1], ((22, 8), (11, 30))
    found = []
    for dtype in ("float32", "float64"):
        for i, (rows, n) in enumerate(shapes):
            every = i < 4 and dtype == "float32"
            for curve in dict.fromkeys(few + (named + entmax if every else [])):
                found.append((dtype, rows, n, *curve))
    return sorted(found, key=lambda job: (job[3:] not in few, job[0] == "float64"))


def tile(job: Job) -> dict[str, float]:
    """The errors of one kind of tile, and the seconds with those of compiling."""
    import kernel_rows

    dtype, rows, n, *name = job
    curve, start = curve_of(*name), time.perf_counter()
    with kernels_here():
        rng = np.random.default_rng(n)
        x = kernel_rows.rows(rng, rows, n, getattr(np, dtype))
        k = kernel_rows.budgets(rng, x)
        error, off, bound = kernel_rows.share_errors(x, k, curve)
        pulled = kernel_rows.gradient_errors(x, k, curve)
    values = dict(zip(LIMITS, (error, off / bound, *pulled), strict=True))
    worst = {key: float(np.max(v)) if len(v) else 0.0 for key, v in values.items()}
    return worst | {"seconds": time.perf_counter() - start}


def digits(n: int) -> float:
    """The error of a row's shares against 50 digits, in eps of float32."""
    import oracle

    rng = np.random.default_rng(n)
    x, k = rng.normal(size=n).astype(np.float32), 2.5
    with kernels_here():
        p = st.soft_topk(torch.tensor(x[None]), k, check=False)[0].cpu().numpy()
    exact = oracle.solve(x, k, *oracle.curve("laplace"), 1.0)
    return max(abs(float(v - w)) for v, w in zip(p, exact.p, strict=True)) / 2.0**-23


def measured() -> Iterator[tuple[Job, Callable[[], dict[str, float]]]]:
    """Each job with a call for its result; several processes compile at once."""
    every = jobs()
    if DRY:
        for job in every:
            yield job, partial(tile, job)
        return
    workers = max(1, min(8, (cpu_count() or 2) // 2))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(tile, job): job for job in every}
        for future in as_completed(pending):
            yield pending[future], future.result
            if late(SECONDS):
                pool.shutdown(wait=False, cancel_futures=True)
                return


def tiles() -> dict[str, Any]:
    """All kinds of tiles: the worst errors by type and length."""
    worst: dict[str, dict[str, float]] = {}
    slow, count = [], 0
    for (dtype, rows, n, curve, alpha), result in measured():
        name = f"{dtype} {rows}x{n} {curve}{'' if alpha == 1 else alpha}"
        found = guarded(name, result)
        if found is None:
            continue
        count += 1
        slow.append((found.pop("seconds"), name))
        over = [key for key, most in LIMITS.items() if not found[key] <= most]
        if over:
            failed.append(name)
        shown = " ".join(f"{v:.2f}" for v in found.values())
        print("OVER " if over else "ok   ", name, shown, flush=True)
        row = worst.setdefault(f"{dtype} {n}", dict.fromkeys(LIMITS, 0.0))
        row |= {key: max(row[key], found[key], key=_nan_first) for key in LIMITS}
    exact = {
        n: guarded(f"50 digits {n}", digits, n)
        for n in (8, 50, *(() if DRY else (300, 1500)))
    }
    failed.extend(f"50 digits, {n}" for n, v in exact.items() if v and not v <= 4)
    print(f"{count} of {len(jobs())} kinds of tiles; the slowest first calls:")
    print("  ", *(f"{t:.1f} s {name};" for t, name in sorted(slow)[:-4:-1]))
    print("worst errors in eps:", *LIMITS, " (limits", *LIMITS.values(), ")")
    for key, row in worst.items():
        print(f"  {key:16s}", *(f"{v:7.2f}" for v in row.values()))
    print("against 50 digits:", {n: v and round(v, 2) for n, v in exact.items()})
    return {"errors": worst, "digits": exact, "kinds": count}


def _nan_first(value: float) -> float:
    return np.inf if np.isnan(value) else value


# --- Operators -----------------------------------------------------------------------


def sixteen_bits() -> None:
    """Shares and gradients are those of float32, rounded once."""
    for dtype in (torch.bfloat16, torch.float16):
        for n in (100,) if DRY else (100, 5000, 50000):
            torch.manual_seed(0)
            x = (4 * torch.randn(32, n)).to(dtype).requires_grad_()
            wide = x.detach().float().requires_grad_()
            g, info = torch.randn(32, n).to(dtype), torch.finfo(dtype)
            with kernels_here():
                p, q = (st.soft_topk(v, 9.5, check=False) for v in (x, wide))
                (gx,) = torch.autograd.grad(p, x, g)
                (gw,) = torch.autograd.grad(q, wide, g.float())
            assert torch.equal(p, q.to(dtype)), (dtype, n)
            bound = info.eps * (gw.abs() + info.smallest_normal)
            assert ((gx.float() - gw).abs() <= bound).all(), (dtype, n)


def operators() -> dict[str, Callable[[Any, Any], Any]]:
    """Calls with a function that moves a tensor to where x is."""
    rng = np.random.default_rng(0)

    def given(values: Any) -> Any:
        return torch.tensor(values, device="cpu")

    c, k = given(rng.uniform(0.5, 1.5, (6, 40))), given(rng.uniform(1, 6, 6))
    y, mask = given(rng.integers(40, size=6)), given(rng.uniform(size=(6, 40)) < 0.8)
    tau, S = given(0.7).double(), given(rng.normal(size=(2, 6, 8)))
    shifted = curves.LAPLACE.shifted(1.0)
    module = copy.deepcopy(st.SoftTopK(3, temperature=0.5))
    return {
        "soft_topk": lambda to, x: st.soft_topk(x, 3.5),
        "k of each row": lambda to, x: st.soft_topk(x, to(k)),
        "k in a list": lambda to, x: st.soft_topk(x, [1.0, 2, 3, 4, 5, 6.5]),
        "temperature": lambda to, x: st.soft_topk(x, 3, temperature=to(tau)),
        "CPU's temperature": lambda to, x: st.soft_topk(x, 3, temperature=tau),
        "where": lambda to, x: st.soft_topk(x, 3, where=to(mask)),
        "dim 0": lambda to, x: st.soft_topk(x, 2, dim=0),
        "cost": lambda to, x: st.soft_topk(x, 3.5, cost=to(c)),
        "other curve": lambda to, x: st.soft_topk(x, 3, shifted),
        "module": lambda to, x: module(x),
        "threshold": lambda to, x: st.threshold(x, 3),
        "potential": lambda to, x: st.potential(x, 3),
        "top_k_st": lambda to, x: st.top_k_st(x, 3),
        "entmax": lambda to, x: st.entmax(x, 1.5),
        "sparsemax": lambda to, x: st.sparsemax(x),
        "grad_topk": lambda to, x: st.grad_topk(x, 3),
        "pair_marginals": lambda to, x: st.pair_marginals(x, 3),
        "soft_sort": lambda to, x: st.soft_sort(x),
        "soft_rank": lambda to, x: st.soft_rank(x),
        "balanced_topk": lambda to, x: st.balanced_topk(
            to(S) + 0 * x.sum(), 2, temperature=0.5
        ),
        "entmax_loss": lambda to, x: st.entmax_loss(x, to(y)),
        "top_k_loss": lambda to, x: st.top_k_loss(x, to(y), 1),
        "cross_entropy": lambda to, x: st.cross_entropy(x, to(y)),
        "in_top_k_loss": lambda to, x: st.in_top_k_loss(x, to(y), 3),
        "stop_gradient_loss": lambda to, x: st.stop_gradient_loss(x, to(y), 1),
    }


def beside_the_cpu() -> None:
    """Every operator with kernels, and without, has the CPU's results in float64."""
    scores = torch.tensor(np.random.default_rng(1).normal(size=(6, 40)), device="cpu")

    def result(call: Any, place: str) -> tuple[Any, Any]:
        x = scores.to(place).requires_grad_()
        value = call(lambda v: v.to(place), x)
        (g,) = torch.autograd.grad((value * value).sum(), x)
        return value.detach().cpu(), g.cpu()

    def compare(call: Any) -> None:
        with torch.device("cpu"):
            exact = result(call, "cpu")
        for how in (kernels_here, without_kernels):
            with how():
                pairs = zip(exact, result(call, DEVICE), strict=True)
                off = max(float((a - b).abs().max()) for a, b in pairs)
            assert off < 1e-10, f"off by {off:.1e} {how.__name__}"

    known = operators()
    before = len(failed)
    for name, call in known.items():
        guarded(f"operator {name}", compare, call)
    print(
        f"operators: {len(known) - len(failed) + before} of {len(known)} as on the CPU"
    )


def rows_out_of_range() -> None:
    """Rows out of range are NaN, beside rows that are not."""
    x, k = torch.randn(40, 60), torch.full((40,), 4.5)
    inf = torch.inf
    x[3, 5], x[7], x[9, 2], x[11, 1:] = torch.nan, -inf, inf, -inf
    k[13], k[15], k[17], k[19], k[11] = 0, 60, 61, -1, 1
    with kernels_here():
        p = st.soft_topk(x, k, check=False)
    bad = p.isnan().all(-1).nonzero().ravel().tolist()
    assert bad == [3, 7, 9, 17, 19], bad
    assert (p[13] == 0).all() and (p[15] == 1).all() and p[11, 0] == 1


def near(x: Any, k: float) -> None:
    """The shares are those of the CPU in float64."""
    exact = st.soft_topk(x.cpu().double(), k)
    with kernels_here():
        found = st.soft_topk(x, k, check=False).cpu()
    assert found.shape == x.shape
    assert not x.numel() or float((found - exact).abs().max()) < 2e-6, tuple(x.shape)


def shapes() -> None:
    """Sizes of 1, which become constants of a compiled kernel; no rows; slices."""
    for shape in ((1, 1), (1, 50), (50, 1), (1, 3000), (0, 9), (3, 1, 7)):
        near(torch.randn(shape), 1)
    near(torch.randn(40, 101)[:, 1:], 5)  # not aligned to 16 bytes
    near(torch.randn(101, 40).mT, 5)
    if not DRY:
        near(torch.randn(1, 100_000), 1)


# --- The device ----------------------------------------------------------------------


def waits() -> list[str]:
    """The calls that make the host wait for the device."""
    x = torch.randn(64, 200, requires_grad=True)
    k, mask = torch.full((64,), 7.5), torch.rand(64, 200) < 0.8
    y, one = torch.randint(200, (64,)), torch.tensor(8.0, device="cpu")
    calls = {
        "soft_topk": lambda: st.soft_topk(x, 8),
        "k of each row": lambda: st.soft_topk(x, k),
        "k in a list": lambda: st.soft_topk(x, [7.5] * 64),
        "k of NumPy": lambda: st.soft_topk(x, np.float64(7.5)),
        "k on the CPU": lambda: st.soft_topk(x, one),
        "temperature on the CPU": lambda: st.soft_topk(x, 8, temperature=one),
        "where": lambda: st.soft_topk(x, 8, where=mask),
        "threshold": lambda: st.threshold(x, 8),
        "top_k_st": lambda: st.top_k_st(x, 8),
        "entmax": lambda: st.entmax(x, 1.5),
        "potential": lambda: st.potential(x, 8),
        "top_k_loss": lambda: st.top_k_loss(x, y, 1),
        "entmax_loss": lambda: st.entmax_loss(x, y),
        "module": lambda: st.SoftTopK(8)(x),
        "other curve": lambda: st.soft_topk(x, 8, curves.LAPLACE.shifted(1.0)),
    }
    found = []
    for name, call in calls.items():
        torch.autograd.grad(call().sum(), x)  # compiles the kernels
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            torch.autograd.grad(call().sum(), x)
        except RuntimeError:
            found.append(name)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    print("calls that make the host wait:", ", ".join(found) or "none")
    return found


def captured(call: Callable[[], Any]) -> Any:
    """A CUDA graph of a call, and the call's result in it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


def graphs() -> None:
    """A captured selection and its gradient, replayed on other scores."""
    for shape in ((64, 200), (2, 70000)):
        x = torch.randn(shape)

        def both(x: Any = x) -> Any:
            v = x.detach().requires_grad_()
            p = st.soft_topk(v, 8)
            return p.detach(), torch.autograd.grad(p.square().sum(), v)[0]

        graph, result = captured(both)
        x.copy_(torch.randn(shape))
        graph.replay()
        for one, two in zip(result, both(), strict=True):
            assert torch.equal(one, two), shape


def streams() -> None:
    """On a stream of one's own, a selection waits for what is before it there."""
    side, x = torch.cuda.Stream(), torch.randn(4096, 128)
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        y.copy_(x)
        p = st.soft_topk(y, 8)
    side.synchronize()
    assert torch.equal(p, st.soft_topk(x, 8))


def far_entries() -> None:
    """Of more than 2^31 entries, the last rows are those of a small call."""
    for rows, n in ((66_000, 33_000), (17_000_000, 128)):  # 4.4 GB each in bfloat16
        x = torch.zeros(rows, n, dtype=torch.bfloat16)
        x[-64:] = torch.randn(64, n).to(x.dtype)
        with torch.no_grad():
            p = st.soft_topk(x, 8)
        assert torch.equal(p[-64:], st.soft_topk(x[-64:].clone(), 8)), (rows, n)
        del x, p
        torch.cuda.empty_cache()


def main() -> int:
    figures = guarded("tiles", tiles) or {}
    keep("check", figures)
    for step in (sixteen_bits, beside_the_cpu, rows_out_of_range, shapes):
        guarded(step.__name__, step)
    if not DRY:
        figures["waits"] = guarded("waits", waits)
        for step in (graphs, streams, far_entries):
            guarded(step.__name__, step)
    keep("check", figures | {"failed": failed})
    print(f"failed: {'; '.join(failed) or 'nothing'}"[:500])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
