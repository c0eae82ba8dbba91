"""Time of each operator as a ratio to NumPy's sort of the same array.

Machines differ and are busy; ratios inside one interleaved run travel better.  Every
round times each operator and the three yardsticks on the same array, and the minimum
over the rounds counts.

    python benchmarks/bench.py [--quick] [--only NAME ...]

Columns: the shape and type; nanoseconds per entry of `np.sort`; `np.partition` and a
plain softmax as ratios to it; then each operator with ``time / sort (time / softmax)``.
For single rows of 100 entries the time itself is shown, in microseconds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import softtopk as stk
from softtopk.simplex import entmax, sparsemax

Call = Callable[[], object]
SHAPES = {
    "100": (100,),
    "1e4": (10_000,),
    "1e6": (1_000_000,),
    "4096x128": (4096, 128),
    "64x50000": (64, 50_000),
}
QUICK = ("100", "1e4", "4096x128")
CURVES = ("exp", "laplace", "sigmoid", "clip", "triangular")


def softmax(x: np.ndarray) -> np.ndarray:
    """The yardstick: three plain passes."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def operators(x: np.ndarray) -> Iterator[tuple[str, str, Call]]:
    """(operator, setting, call) for every line of the table; add new operators here."""
    n = x.shape[-1]
    budgets = {"k=1": 1, "k=10": 10, "k=n/10": n // 10, "k=n/2": n // 2, "k=n-1": n - 1}
    for curve in CURVES:
        for label, k in budgets.items():
            yield curve, label, lambda k=k, curve=curve: stk.soft_topk(x, k, curve)
    half = stk.curves.entmax(1.5)
    yield "entmax(1.5)", "k=n/10", lambda: stk.soft_topk(x, n // 10, half)
    yield "sparsemax", "", lambda: sparsemax(x)
    yield "entmax 1.5", "", lambda: entmax(x, 1.5)
    for label, k in {"k=10": 10, "k=n/10": n // 10}.items():
        yield "grad_topk", label, lambda k=k: stk.grad_topk(x, k)
    yield "top_k", "k=n/10", lambda: stk.top_k(x, n // 10)
    lin = stk.linearize(stk.soft_topk, x, n // 10)
    yield "linearize", "k=n/10", lambda: stk.linearize(stk.soft_topk, x, n // 10)
    yield "vjp", "k=n/10", lambda: lin.vjp(x)


def measure(calls: list[Call], rounds: int) -> list[float]:
    """The least time of each call over interleaved rounds, in seconds."""
    best = [np.inf] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def report(shape: str, dtype: type, only: list[str], quick: bool) -> None:
    """Print the table of one array."""
    x = np.random.default_rng(0).normal(size=SHAPES[shape]).astype(dtype)
    n = x.shape[-1]
    lines = [line for line in operators(x) if not only or line[0] in only]
    yardsticks: list[Call] = [
        lambda: np.sort(x, axis=-1),
        lambda: np.partition(x, n // 2, axis=-1),
        lambda: softmax(x),
    ]
    rounds = max(3, min(200, int(2e6 / x.size))) // (2 if quick else 1)
    times = measure([*yardsticks, *(call for _, _, call in lines)], rounds)
    sort, partition, exponential = times[:3]
    print(
        f"\n{shape} {np.dtype(dtype).name}: sort {sort / x.size * 1e9:.2f} ns/entry, "
        f"partition {partition / sort:.2f}, softmax {exponential / sort:.2f}"
    )
    rows: dict[str, list[str]] = {}
    for (name, label, _), seconds in zip(lines, times[3:], strict=True):
        ratio = f"{seconds / sort:.2f} ({seconds / exponential:.2f})"
        value = f"{seconds * 1e6:.0f} us" if x.size <= 100 else ratio
        rows.setdefault(name, []).append(f"{label} {value}")
    for name, cells in rows.items():
        print(f"  {name:12}" + "  ".join(f"{cell:22}" for cell in cells).rstrip())


def main() -> None:
    """Parse the arguments and print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small arrays only")
    parser.add_argument("--only", nargs="*", default=[], help="operators to time")
    arguments = parser.parse_args()
    print("time / sort (time / softmax)")
    for shape in QUICK if arguments.quick else SHAPES:
        for dtype in (np.float64, np.float32):
            report(shape, dtype, arguments.only, arguments.quick)


if __name__ == "__main__":
    main()
