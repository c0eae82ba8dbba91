"""The selection of many scores by some workers, and by one that reads them in pieces.

Writes ``benchmarks/scale.json``, which the chapter on scale compares with its model of
the cost: for every run the rounds over the scores, the processor time that the workers
and the scheduler spent on them, the time on the clock, the bytes that left the workers
(for another worker, or for the scheduler, which collects the results), the largest
memory of a worker, and by how much the shares miss their budget.
Times are in seconds, the least of some repeats: the clock's depends on what else the
machine does, the processor's hardly.

    python benchmarks/bench_scale.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import softtopk.dask as stk

TARGET = Path(__file__).with_name("scale.json")
SPARSE = 1000  # one score in so many is selected

SETTINGS = {
    "distributed.scheduler.work-stealing": False,
    # Dask has a worker give free memory back at once, and then every intermediate
    # result finds its pages anew: several times the work of a sum.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": 1 << 27,
        "MALLOC_MMAP_THRESHOLD_": 1 << 25,
        "OMP_NUM_THREADS": 1,
    },
}

# Scores, workers and chunks of the runs on Dask.
RUNS = [
    (n, workers, chunks)
    for workers in (1, 2)
    for n, chunks in (
        (2_000_000, 20),
        (20_000_000, 20),
        (20_000_000, 200),
        (200_000_000, 20),
    )
]
READ, PIECES = 1_000_000_000, 50  # scores on disk, and the pieces that are read


def least(
    call: Callable[[], Any], repeats: int, client: Client | None = None
) -> dict[str, float]:
    """The least times of some calls: of the clock, of this process, of the workers."""

    def now() -> np.ndarray:
        others = client.run(time.process_time).values() if client else ()
        return np.array([time.perf_counter(), time.process_time(), sum(others)])

    times = []
    for _ in range(repeats):
        start = now()
        call()
        times.append(now() - start)
    clock, here, there = np.min(times, axis=0).round(3).tolist()
    return {"clock": clock, "here": here} | ({"workers": there} if client else {})


def rounds_of(call: Callable[[], Any]) -> int:
    """How often a call goes over all scores."""
    made, gathered = [], stk._gathered

    def counted(*given: Any) -> Any:
        made.append(given)
        return gathered(*given)

    stk._gathered = counted
    try:
        call()
    finally:
        stk._gathered = gathered
    return len(made)


def _sent(dask_worker: Any) -> int:
    return sum(entry["total"] for entry in dask_worker.transfer_outgoing_log)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_workers(n: int, workers: int, chunks: int, repeats: int) -> dict[str, Any]:
    """The threshold, the shares and the k largest scores of one array in memory."""
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        draw = da.random.default_rng(0).standard_normal
        x = draw(n, dtype=np.float32, chunks=n // chunks).persist()
        wait(x)
        k = n // SPARSE
        rounds: list[int] = []
        threshold = least(
            lambda: rounds.append(rounds_of(lambda: stk.threshold(x, k))),
            repeats,
            client,
        )
        p = stk.soft_topk(x, k)
        shares = least(lambda: wait(p.persist()), 1, client)  # then it is there
        total = float(p.sum(dtype=np.float64).compute())
        sent, peak = (client.run(f).values() for f in (_sent, _peak))
        return {
            "scores": n,
            "workers": workers,
            "chunks": chunks,
            "rounds": rounds[0],
            "threshold": threshold,
            "shares": shares,
            "sent": sum(sent),
            "peak": max(peak),
            "error": abs(total / k - 1),
        }


def store(path: Path) -> None:
    """Write the scores to a file, piece by piece."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for _ in range(PIECES):
            rng.standard_normal(READ // PIECES, dtype=np.float32).tofile(file)


def read(path: Path) -> da.Array:
    """The scores of a file: a piece is read when it is needed, each time again."""
    size = READ // PIECES

    def load(block_info: Any) -> np.ndarray:
        start = block_info[None]["array-location"][0][0]
        return np.fromfile(path, np.float32, size, offset=4 * start)

    return da.map_blocks(load, chunks=((size,) * PIECES,), dtype=np.float32)


def out_of_core(path: Path) -> dict[str, Any]:
    """The threshold of a file, in one process that holds one piece at a time."""
    x, k = read(path), READ // SPARSE
    with dask.config.set(scheduler="synchronous"):
        rounds: list[int] = []
        took = least(lambda: rounds.append(rounds_of(lambda: stk.threshold(x, k))), 1)
        total = float(stk.soft_topk(x, k).sum(dtype=np.float64).compute())
    return {
        "scores": READ,
        "chunks": PIECES,
        "rounds": rounds[0],
        "threshold": took,
        "file": 4 * READ,
        "peak": _peak(),
        "error": abs(total / k - 1),
    }


def local_sort(repeats: int) -> dict[str, Any]:
    """What one core takes to sort, beside one round of sums over as many scores."""
    x = np.random.default_rng(0).standard_normal(20_000_000, dtype=np.float32)
    return {"scores": x.size, "sort": least(lambda: np.sort(x), repeats)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--file", type=Path, help="measure this file of scores only")
    options = parser.parse_args()
    if options.file:
        print(json.dumps(out_of_core(options.file)))
        return
    found: dict[str, Any] = {"workers": []}
    with dask.config.set(SETTINGS):
        for run in RUNS:
            found["workers"].append(on_workers(*run, options.repeats))
            print(found["workers"][-1], flush=True)
    found["sort"] = local_sort(options.repeats)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scores")
        store(path)
        again = [sys.executable, __file__, "--file", str(path)]
        found["disk"] = json.loads(subprocess.check_output(again))
    print(found["sort"], found["disk"], flush=True)
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
