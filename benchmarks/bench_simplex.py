"""Time of the distributions, and next to the entmax package where that is installed.

Every round times each operator, the yardsticks and its peer on the same array, on one
thread, and the minimum over the rounds counts.  The peer needs PyTorch and entmax; it
is left out without them.

    python benchmarks/bench_simplex.py [--quick]

Columns: ``time / sort (time / softmax)`` with NumPy's sort and a plain softmax of the
same array, then ``time / peer``; for single rows of 100 entries microseconds in place
of the first two.  The scores are normal, of scale 1 (few shares above 0) and 0.01
(nearly all of them).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from bench import QUICK, SHAPES, Call, measure, softmax  # sets the threads first

import numpy as np  # isort: skip

import softtopk.simplex as simplex

try:
    import entmax as peer
    import torch
except ImportError:
    peer = None


def operators(x: np.ndarray) -> Iterator[tuple[str, Call, Call | None]]:
    """(operator, call, the peer's call) for every line of the table."""
    pairs = {
        "softmax": (simplex.softmax, "", {}),
        "log_softmax": (simplex.log_softmax, "", {}),
        "sparsemax": (simplex.sparsemax, "sparsemax", {}),
        "sparsemax k=100": (simplex.sparsemax, "sparsemax", {"k": 100}),
        "entmax 1.5": (simplex.entmax, "entmax15", {}),
        "entmax 1.5 k=100": (simplex.entmax, "entmax15", {"k": 100}),
        "entmax 1.25": (partial(simplex.entmax, alpha=1.25), "entmax_bisect", 1.25),
        "entmax 3": (partial(simplex.entmax, alpha=3.0), "entmax_bisect", 3.0),
        "taylor_softmax": (simplex.taylor_softmax, "", {}),
        "sparse_softmax": (partial(simplex.sparse_softmax, k=10), "", {}),
    }
    for name, (ours, theirs, options) in pairs.items():
        other = None
        if peer and theirs:
            keywords = options if isinstance(options, dict) else {"alpha": options}
            other = partial(getattr(peer, theirs), torch.from_numpy(x), **keywords)
        if other or not name.endswith("k=100"):
            yield name, partial(ours, x), other


def report(shape: str, scale: float, quick: bool) -> None:
    """Print the table of one array."""
    x = np.random.default_rng(0).normal(size=SHAPES[shape]) * scale
    lines = list(operators(x))
    calls: list[Call] = [lambda: np.sort(x, axis=-1), lambda: softmax(x)]
    calls += [call for _, call, _ in lines]
    calls += [other for _, _, other in lines if other]
    rounds = max(3, min(100, int(2e6 / x.size))) // (2 if quick else 1)
    times = measure(calls, rounds)
    (sort, plain), times = times[:2], times[2:]
    peers = iter(times[len(lines) :])
    print(f"\n{shape} scale {scale:g}: sort {sort / x.size * 1e9:.2f} ns/entry")
    for (name, _, other), seconds in zip(lines, times, strict=False):
        cell = f"{seconds / sort:.2f} ({seconds / plain:.2f})"
        if x.size <= 100:
            cell = f"{seconds * 1e6:.0f} us"
        ratio = f"peer {seconds / next(peers):.2f}" if other else ""
        print(f"  {name:18}{cell:18}{ratio}".rstrip())


def main() -> None:
    """Parse the arguments and print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small arrays only")
    arguments = parser.parse_args()
    if peer:
        torch.set_num_threads(1)
    print("time / sort (time / softmax), time / entmax package")
    for shape in QUICK if arguments.quick else SHAPES:
        for scale in (1.0, 0.01):
            report(shape, scale, arguments.quick)


if __name__ == "__main__":
    main()
