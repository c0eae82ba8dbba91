"""The selection of many scores by some workers, from memory and from files.

Writes ``benchmarks/scale.json``, which the chapter on scale compares with its model of
the cost: for every run the passes over the scores, the processor time that the workers
and the scheduler spent on them, the time on the clock, the bytes that left the workers
(for another worker, or for the scheduler, which collects the results), the largest
memory of a worker, and by how much the shares miss their budget.  Beside it stand the
times of as many plain sums of the scores, and of NumPy's selection from memory.
Times are in seconds, the least of some repeats: the clock's depends on what else the
machine does, the processor's hardly.

    python benchmarks/bench_scale.py [--repeats 3] [--scores 2e8] [--beside FOLDER]
    python benchmarks/bench_scale.py --files --scores 1e9

The folder is a checkout of another version, whose threshold is measured as well.  The
files are deleted at the end; those of 1e9 scores take 13 GB.  What is stored and not
measured again stays, also of files with other numbers of scores; with ``--files``
nothing but files is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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

import softtopk
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
PIECE = 10_000_000  # scores in a chunk of the files, at most


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
    # Of an older version that is measured beside this one.
    owner, name = (
        (stk, "_gathered") if hasattr(stk, "_gathered") else (stk._DaskRows, "run")
    )
    made, run = [], getattr(owner, name)

    def counted(*given: Any, **how: Any) -> Any:
        made.append(name)
        return run(*given, **how)

    setattr(owner, name, counted)
    try:
        call()
    finally:
        setattr(owner, name, run)
    return len(made)


def _sent(dask_worker: Any) -> int:
    """The bytes on the wire: Dask takes an array of objects to be its pointers."""
    return sum(entry["compressed"] for entry in dask_worker.transfer_outgoing_log)


def _peak() -> int:
    """The largest memory of this process, not of the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def on_workers(n: int, workers: int, chunks: int, repeats: int) -> dict[str, Any]:
    """The threshold, the shares and the k largest scores of one array in memory."""
    # Stealing would move whole chunks to another worker.
    dask.config.set({"distributed.scheduler.work-stealing": False})
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
        plain = least(lambda: x.sum().compute(), repeats, client)
        sent, peak = (client.run(f).values() for f in (_sent, _peak))
        return {
            "scores": n,
            "workers": workers,
            "chunks": chunks,
            "rounds": rounds[0],
            "threshold": threshold,
            "shares": shares,
            "sum": plain,
            "sent": sum(sent),
            "peak": max(peak),
            "error": abs(total / k - 1),
        }


def machine() -> str:
    """The processor, its cores and the memory."""
    name, memory = platform.processor() or platform.machine(), 0
    about = Path("/proc/cpuinfo")
    if about.exists():
        lines = about.read_text().splitlines()
        name = next((v.split(": ")[1] for v in lines if "model name" in v), name)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{name}, {os.cpu_count()} cores, {memory / 2**30:.0f} GiB"


def store(folder: Path, n: int) -> dict[str, Callable[[], da.Array]]:
    """Write the scores to files of three kinds, and how each is opened."""
    import dask.dataframe as frames

    pieces = pieces_of(n)
    rng, size = np.random.default_rng(0), n // pieces
    mapped = np.lib.format.open_memmap(
        folder / "x.npy", mode="w+", dtype=np.float32, shape=(n,)
    )
    for i in range(0, n, size):
        mapped[i : i + size] = rng.standard_normal(size, dtype=np.float32)
    mapped.flush()

    def load(block_info: Any) -> np.ndarray:
        ((start, stop),) = block_info[None]["array-location"]
        return np.load(folder / "x.npy", mmap_mode="r")[start:stop]

    x = da.map_blocks(load, chunks=((size,) * pieces,), dtype=np.float32)
    with dask.config.set(scheduler="synchronous"):
        x.to_zarr(folder / "x.zarr")
        frame = frames.from_dask_array(x[:, None], columns=["score"])
        frame.to_parquet(folder / "x.parquet", write_index=False)
    return {
        "npy": lambda: x,
        "zarr": lambda: da.from_zarr(folder / "x.zarr"),
        "parquet": lambda: frames.read_parquet(folder / "x.parquet")[
            "score"
        ].to_dask_array(),
    }


def pieces_of(n: int) -> int:
    """The number of chunks."""
    return max(50, n // PIECE)


def from_files(n: int) -> list[dict[str, Any]]:
    """The threshold of files, by two workers with a gibibyte of memory each."""
    found, k = [], n // SPARSE
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for kind, opened in store(folder, n).items():
            cluster = LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                memory_limit="1GiB",
                dashboard_address=None,
            )
            with cluster, Client(cluster) as client:
                x = opened()
                rounds: list[int] = []
                plain = least(lambda x=x: x.sum().compute(), 2, client)
                took = least(
                    lambda x=x, rounds=rounds: rounds.append(
                        rounds_of(lambda: stk.threshold(x, k))
                    ),
                    1,
                    client,
                )
                total = float(stk.soft_topk(x, k).sum(dtype=np.float64).compute())
                files = folder / f"x.{kind}"
                parts = [f for f in files.rglob("*") if f.is_file()] or [files]
                found.append(
                    {
                        "kind": kind,
                        "scores": n,
                        "chunks": pieces_of(n),
                        "machine": machine(),
                        "rounds": rounds[0],
                        "threshold": took,
                        "sum": plain,
                        "file": sum(f.stat().st_size for f in parts),
                        "peak": max(client.run(_peak).values()),
                        "error": abs(total / k - 1),
                    }
                )
                print(found[-1], flush=True)
    return found


def in_memory(repeats: int) -> dict[str, Any]:
    """NumPy's selection of scores in memory, and Dask's by one thread."""
    n = 20_000_000
    x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    rows = da.from_array(x, chunks=n // 10)
    with dask.config.set(scheduler="synchronous"):
        return {
            "scores": n,
            "numpy": least(lambda: softtopk.soft_topk(x, n // SPARSE), repeats),
            "dask": least(lambda: stk.soft_topk(rows, n // SPARSE).compute(), repeats),
        }


def local_sort(repeats: int) -> dict[str, Any]:
    """What one core takes to sort, beside one round of sums over as many scores."""
    x = np.random.default_rng(0).standard_normal(20_000_000, dtype=np.float32)
    return {"scores": x.size, "sort": least(lambda: np.sort(x), repeats)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scores", type=float, default=2e8, help="of the files")
    parser.add_argument("--beside", type=Path, help="a checkout of another version")
    parser.add_argument("--run", type=int, nargs=3, help="of RUNS, this one alone")
    parser.add_argument("--files", action="store_true", help="the files alone")
    options = parser.parse_args()
    with dask.config.set(SETTINGS):
        if options.run:
            print(json.dumps(on_workers(*options.run, options.repeats)))
            return
        known = json.loads(TARGET.read_text()) if TARGET.exists() else {}
        n = int(options.scores)
        others = [run for run in known.get("files", []) if run["scores"] != n]
        files = sorted(others + from_files(n), key=lambda run: run["scores"])
        found: dict[str, Any] = {**known, "files": files}
        if not options.files:
            found["workers"] = []
            for run in RUNS:
                found["workers"].append(on_workers(*run, options.repeats))
                print(found["workers"][-1], flush=True)
            found["sort"], found["memory"] = (
                local_sort(options.repeats),
                in_memory(options.repeats),
            )
        if options.beside:
            found["before"] = [beside(options.beside, run) for run in RUNS[-3:]]
    TARGET.write_text(json.dumps(found, indent=1) + "\n")


def beside(folder: Path, run: tuple[int, int, int]) -> dict[str, Any]:
    """A run of another version."""
    command = [sys.executable, __file__, "--repeats", "1", "--run", *map(str, run)]
    path = {**os.environ, "PYTHONPATH": str(folder)}
    lines = subprocess.check_output(command, env=path, text=True).splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    print(found, flush=True)
    return found


if __name__ == "__main__":
    main()
