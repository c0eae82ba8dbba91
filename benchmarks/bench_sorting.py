"""Time and memory of soft ranks and their gradients, beside other packages' ranks.

All operators are measured in one process, in turns, by the time of the processor.  A
time is the median of some rounds, divided by that of NumPy's argsort of the same row in
the same rounds.  The memory is what a call of NumPy holds at its peak.  The operators
are not the same mathematics:

softtopk            the mean place under nested threshold selections
isotonic            the projection onto the permutahedron, by SciPy
torchsort           the same projection, with a derivative
LapSum              the sum of f((x_i - x_l) / alpha) over all other l
diffsort            the mean place of a differentiable sorting network

An operator is left out where its package is missing, and for rows longer than it can
take: LapSum's gradient compares all pairs of scores, and diffsort forms matrices.

With `--accuracy`, each operator is compared with its own definition instead, which is
evaluated in extended precision and O(n^2) or more: the worst error of a rank in units
of n eps, on a normal row and on rows with ties, heavy tails, clusters and an offset.

    python benchmarks/bench_sorting.py [--sizes 100 1000 ...] [--json FILE] [--accuracy]
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import softtopk as stk

TAU = 0.1
SIZES = (10, 100, 1000, 4000, 100_000, 1_000_000)
Call = Callable[[], Any]
Wide = np.longdouble


def ours(X: Any, G: Any) -> Iterator[tuple[str, Call, Call | None, int]]:
    """NumPy's, of both curves, and those of the frameworks that are installed."""
    for curve in ("laplace", "exp"):
        given = {"curve": curve, "temperature": TAU}
        yield (
            f"softtopk, {curve}",
            lambda given=given: stk.soft_rank(X, **given),
            lambda given=given: stk.linearize(stk.soft_rank, X, **given).vjp(G),
            10**9,
        )
    try:
        import torch

        import softtopk.torch as stk_torch

        torch.set_num_threads(1)
        yield *torch_calls("softtopk, PyTorch", X, G, stk_torch.soft_rank), 10**9
    except ImportError:
        pass
    try:
        import jax

        import softtopk.jax as stk_jax

        jax.config.update("jax_cpu_enable_async_dispatch", False)
        jax.config.update("jax_enable_x64", True)
        rank = jax.jit(lambda x: stk_jax.soft_rank(x, temperature=TAU))
        slope = jax.jit(jax.grad(lambda x: (rank(x) * G).sum()))
        x = jax.numpy.asarray(X)
        yield (
            "softtopk, JAX compiled",
            lambda: rank(x).block_until_ready(),
            lambda: slope(x).block_until_ready(),
            10**9,
        )
    except ImportError:
        pass


def torch_calls(name: str, X: Any, G: Any, rank: Any) -> tuple[str, Call, Call]:
    """Value and gradient of a rank of PyTorch."""
    import torch

    x, g = torch.from_numpy(X).requires_grad_(), torch.from_numpy(G)

    def operator(x: Any) -> Any:
        return rank(x, temperature=TAU)

    return (
        name,
        lambda: operator(x.detach()),
        lambda: torch.autograd.grad((operator(x) * g).sum(), x),
    )


def peers(X: Any, G: Any) -> Iterator[tuple[str, Call, Call | None, int]]:
    """The other packages that are installed, with the longest row for each."""
    from scipy.optimize import isotonic_regression

    def projection() -> Any:
        out, places = np.empty_like(X), np.arange(X.shape[1], 0, -1.0)
        for row, into in zip(X, out, strict=True):
            order = np.argsort(-row)
            s = row[order] / TAU
            into[order] = s - isotonic_regression(s - places, increasing=False).x
        return out

    yield "isotonic (SciPy)", projection, None, 10**9
    try:
        import torch
        import torchsort

        def ascending(x: Any, temperature: float) -> Any:
            return torchsort.soft_rank(-x, regularization_strength=temperature)

        yield *torch_calls("torchsort", X, G, ascending), 10**9
    except ImportError:
        pass
    try:
        import laprank
        import torch

        def calls() -> tuple[Call, Call]:
            x, g = torch.from_numpy(X), torch.from_numpy(G)
            return (
                lambda: laprank.forward(x, TAU),
                lambda: laprank.vjp(x, g, TAU),
            )

        yield "LapSum", *calls(), 4000
    except ImportError:
        pass
    try:
        import torch
        from diffsort import DiffSortNet

        n = X.shape[1]
        if n <= 100:
            net = DiffSortNet("odd_even", n, steepness=1 / TAU, distribution="logistic")
            places = torch.arange(1.0, n + 1, dtype=torch.float64).flip(0)

            def rank(x: Any, temperature: float) -> Any:
                return net(x)[1] @ places

            yield *torch_calls("diffsort", X, G, rank), 100
    except ImportError:
        pass


def seconds(call: Call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def megabytes(call: Call) -> float:
    """What a call holds at its peak, of memory that NumPy allocates."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def measured(shape: tuple[int, int]) -> dict[str, Any]:
    """The times and the memory of every operator for rows of this shape."""
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=shape), rng.normal(size=shape)
    calls: dict[str, Call] = {"argsort": lambda: np.argsort(X)}
    for name, value, slope, most in (*ours(X, G), *peers(X, G)):
        calls[name] = value
        if slope is not None and shape[1] <= most:
            calls[f"{name}, gradient"] = slope
    for call in calls.values():
        call()
    start, rounds = time.process_time(), []
    while len(rounds) < 3 or (time.process_time() - start < 4 and len(rounds) < 25):
        rounds.append([seconds(call) for call in calls.values()])
    median = np.median(rounds, axis=0)
    out = {
        name: {"argsorts": round(float(v / median[0]), 2), "ms": round(1e3 * v, 3)}
        for name, v in zip(calls, median, strict=True)
    }
    for name, call in calls.items():
        if name.startswith(("argsort", "softtopk, laplace", "softtopk, exp")):
            out[name]["MB"] = round(megabytes(call), 1)
    return out


def nested(x: Any, curve: str) -> Any:
    """The mean place under nested selections, with every threshold by bisection."""

    def share(t: Any) -> Any:
        if curve == "exp":
            return np.exp(np.minimum(t, 0))
        half = np.exp(-abs(t)) / 2
        return np.where(t > 0, 1 - half, half)

    x, ranks = x - x[0], np.full(x.shape, len(x), Wide)
    for j in range(1, len(x)):
        low, high = x.min() - Wide(TAU) * 50, x.max() + Wide(TAU) * 50
        for _ in range(80):
            at = (low + high) / 2
            more = share((x - at) / Wide(TAU)).sum() > j
            low, high = (at, high) if more else (low, at)
        ranks -= share((x - low) / Wide(TAU))
    return ranks


def projected(x: Any) -> Any:
    """The projection of x / tau onto the permutahedron, by pooling neighbours."""
    order = np.argsort(-x)
    s = x[order] / Wide(TAU)
    blocks: list[tuple[Any, int]] = []
    for value in s - np.arange(len(x), 0, -1):
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] <= value:
            (a, m), (b, k) = blocks[-2:]
            blocks[-2:] = [(a + b, m + k)]
            value = (a + b) / (m + k)
    out = np.empty_like(s)
    out[order] = s - np.concatenate([np.full(m, a / m) for a, m in blocks])
    return out


def summed(x: Any) -> Any:
    """The sum of the Laplace law's distribution function over all other scores."""
    t = (x[:, None] - x) / Wide(TAU)
    half = np.exp(-abs(t)) / 2
    return np.where(t > 0, 1 - half, half).sum(axis=-1) - Wide(0.5)


def network(x: Any) -> Any:
    """The mean place in an odd-even network of soft comparisons."""
    P, n = np.eye(len(x), dtype=Wide), len(x)
    for layer in range(n):
        i = np.arange(layer % 2, n - 1, 2)
        a, b = x[i], x[i + 1]
        w = 1 / (1 + np.exp(-(b - a) / Wide(TAU)))
        x, P = x.copy(), P.copy()
        x[i], x[i + 1] = w * a + (1 - w) * b, (1 - w) * a + w * b
        w, A, B = w[:, None], P[i], P[i + 1]
        P[i], P[i + 1] = w * A + (1 - w) * B, (1 - w) * A + w * B
    return np.arange(n, 0, -1) @ P


DEFINED = {
    "softtopk, laplace": lambda x: nested(x, "laplace"),
    "softtopk, exp": lambda x: nested(x, "exp"),
    "softtopk, PyTorch": lambda x: nested(x, "laplace"),
    "softtopk, JAX compiled": lambda x: nested(x, "laplace"),
    "isotonic (SciPy)": projected,
    "torchsort": lambda x: len(x) + 1 - projected(x),
    "LapSum": summed,
    "diffsort": network,
}


def errors(n: int) -> dict[str, list[float]]:
    """The worst error of each operator on each row, in n eps, by its own definition."""
    rng = np.random.default_rng(0)
    rows = [
        rng.normal(size=n),
        rng.normal(size=n).round(1),
        rng.standard_cauchy(n),
        (rng.random(n) < 0.5) + 1e-9 * rng.normal(size=n),
        1000 + rng.normal(size=n),
    ]
    worst: dict[str, list[float]] = {}
    for row in rows:
        X, defined = row[None], {}
        for name, value, *_ in (*ours(X, X), *peers(X, X)):
            law = DEFINED[name]
            if law not in defined:
                defined[law] = law(row.astype(Wide))
            off = abs(np.asarray(value(), Wide)[0] - defined[law]).max()
            off = float(off) / (n * float(np.finfo(float).eps))
            worst.setdefault(name, []).append(float(f"{off:.2g}"))
    return worst


def main() -> None:
    """Print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--accuracy", action="store_true")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if args.json and args.json.exists():
        found = json.loads(args.json.read_text(encoding="utf8"))
    if args.accuracy:
        for n in (10, 100):
            found.setdefault("errors", {})[str(n)] = table = errors(n)
            print(n, table, flush=True)
    else:
        times(args.sizes, found)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf8")


def times(sizes: Any, found: dict[str, Any]) -> None:
    """Print the table, and add it to what was found."""
    for rows, n in [*((1, n) for n in sizes), (64, 128)]:
        found[f"{rows} x {n}"] = table = measured((rows, n))
        print(f"{rows} x {n}")
        for name, v in table.items():
            line = f"{v['argsorts']:>10.2f} argsorts {v['ms']:>10.3f} ms"
            held = f"{v['MB']:>8.1f} MB" if "MB" in v else ""
            print(f"  {name:<38}{line} {held}", flush=True)


if __name__ == "__main__":
    main()
