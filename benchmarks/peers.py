"""Peers under oath: every operator of peer_list.py on the same grid, stored as data.

Each operator answers in processes of its own: first what it promises (float64, or
float32 where a package takes no other; derivatives against differences of the judge),
then, after all others, memory and time (float32).  Times are the processor's, on one
thread, so that a busy machine counts little, and ratios to the framework's own softmax
of the same scores: medians of paired rounds.

    python benchmarks/peers.py [--only NAME ...] [--skip STAGE] [--missing]
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peer_checks as checks
from peer_list import PEERS, Peer

DATA = Path(__file__).with_name("peers.json")
SHAPES = {"4096 x 128, k = 8": ((4096, 128), 8), "100000, k = 1000": ((100_000,), 1000)}
ROUNDS = 5
LIMIT = 2.0  # seconds of the processor for one call
MEMORY = 8 << 30  # bytes of data that a process may hold
PATIENCE = {"answers": 120, "cost": 60}  # seconds of the processor for one process
FIELDS = ("package", "name", "framework", "curve", "alpha", "returns", "only_one")
FIELDS += ("random", "estimate", "ours")
FORK = multiprocessing.get_context("fork")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
Report = Callable[[dict[str, Any]], None]
SMALL = ("bfloat16", "float16")


class Torch:
    """What the questions ask of PyTorch."""

    def __init__(self, wide: bool) -> None:
        import torch

        self.torch = torch
        torch.set_num_threads(1)
        del wide

    def array(self, x: np.ndarray, dtype: str) -> Any:
        return self.torch.tensor(np.array(x), dtype=getattr(self.torch, dtype))

    def numpy(self, a: Any) -> np.ndarray:
        return a.detach().double().numpy()

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, -1)

    def compiled(self, f: Callable, x: Any) -> Callable:
        return lambda: f(x)

    def cached(self, call: Callable) -> Callable:
        return call

    def quiet(self, f: Callable) -> Callable:
        def run(x: Any) -> Any:
            with self.torch.no_grad():
                return f(x)

        return run

    def gradient(self, s: Callable) -> Callable:
        def run(x: Any) -> Any:
            x = x.detach().requires_grad_()
            return self.torch.autograd.grad(s(x), x)[0]

        return run

    def curvature(self, s: Callable, x: Any, v: Any) -> Any:
        x = x.requires_grad_()
        first = self.torch.autograd.grad(s(x), x, create_graph=True)[0]
        return self.torch.autograd.grad((first * v).sum(), x)[0]

    def forward(self, f: Callable, x: Any, v: Any) -> Any:
        return self.torch.func.jvp(f, (x,), (v,))[1]

    def vmap(self, f: Callable, x: Any) -> Any:
        return self.torch.func.vmap(f, randomness="same")(x)

    def wait(self, a: Any) -> None:
        pass


class _Sized:
    """A call that knows how many bytes it adds."""

    def __init__(self, run: Callable, held: int) -> None:
        self.run, self.held = run, held

    def __call__(self) -> Any:
        return self.run()


class Jax:
    """What the questions ask of JAX."""

    def __init__(self, wide: bool) -> None:
        import jax

        jax.config.update("jax_enable_x64", wide)
        self.jax = jax

    def array(self, x: np.ndarray, dtype: str) -> Any:
        return self.jax.numpy.asarray(x).astype(dtype)

    def numpy(self, a: Any) -> np.ndarray:
        return np.asarray(a.astype("float64"))

    def softmax(self, x: Any) -> Any:
        return self.jax.nn.softmax(x)

    def compiled(self, f: Callable, x: Any) -> Callable:
        run = self.jax.jit(f).lower(x).compile()
        known = run.memory_analysis()
        # XLA knows beforehand what it will hold.
        held = known.temp_size_in_bytes + known.output_size_in_bytes
        return _Sized(lambda: run(x), held)

    def cached(self, call: Callable) -> Callable:
        """Compiled once a budget and softness; a loop alone would be at each call."""
        known: dict[Any, Callable] = {}

        def run(x: Any, k: Any, t: float) -> Any:
            if isinstance(k, np.ndarray):
                return call(x, k, t)
            if (k, t) not in known:
                known[k, t] = self.jax.jit(lambda x: call(x, k, t))
            return known[k, t](x)

        return run

    def quiet(self, f: Callable) -> Callable:
        return f

    def gradient(self, s: Callable) -> Callable:
        return self.jax.grad(s)

    def curvature(self, s: Callable, x: Any, v: Any) -> Any:
        return self.jax.grad(lambda x: (self.jax.grad(s)(x) * v).sum())(x)

    def forward(self, f: Callable, x: Any, v: Any) -> Any:
        return self.jax.jvp(f, (x,), (v,))[1]

    def vmap(self, f: Callable, x: Any) -> Any:
        return self.jax.vmap(f)(x)

    def wait(self, a: Any) -> None:
        self.jax.block_until_ready(a)


FRAMEWORKS = {"torch": Torch, "jax": Jax}


# --- What it promises ----------------------------------------------------------------


def answers(peer: Peer, report: Report) -> None:
    """All that needs no clock."""
    lib, call = FRAMEWORKS[peer.framework](wide=True), peer.load()
    quick = lib.cached(call)

    def shares_in(dtype: str) -> checks.Shares:
        return lambda x, k, t: lib.numpy(quick(lib.array(x, dtype), k, t))

    k = 1 if peer.only_one else 2
    dtype = "float64"
    if isinstance(checks.attempt(lambda: shares_in(dtype)(checks.POINT, k, 1.0)), str):
        dtype = "float32"
    shares = shares_in(dtype)
    found: dict[str, Any] = {"dtype": dtype}
    found["limit"] = checks.limit(shares, k, peer.returns)
    judge = peer.curve and checks.oracle_of(peer.curve, peer.alpha, peer.scores)
    report(found)
    if peer.returns == "shares":
        found["grid"] = checks.promises(shares, peer.only_one, judge)
        found["mask"] = checks.masks(shares, k, peer.random)
        if not peer.only_one:
            found["real k"] = checks.real_budget(shares)
            found["k a row"] = checks.row_budgets(shares)
    report(found)
    found |= slopes(peer, lib, call, judge, shares, dtype)
    report(found)
    found["bits"] = {name: bits(lib, call, k, name, shares) for name in SMALL}
    report(found)


def slopes(
    peer: Peer, lib: Any, call: Callable, judge: Any, shares: Any, dtype: str
) -> dict[str, Any]:
    """First and second derivative, forward mode and vmap."""
    k = 1 if peer.only_one else 2
    x, v = (lib.array(a, dtype) for a in (checks.POINT, checks.DIRECTION))

    def p(x: Any) -> Any:
        return call(x, k, 1.0)

    def s(x: Any) -> Any:
        y = p(x)
        return (y * lib.array(checks.WEIGHTS[: y.shape[-1]], dtype)).sum() ** 2 / 2

    runs = {
        "first": lambda: lib.numpy(lib.gradient(s)(x)),
        "second": lambda: lib.numpy(lib.curvature(s, x, v)),
        "forward": lambda: lib.numpy(lib.forward(p, x, v)),
    }
    got = {name: checks.attempt(run) for name, run in runs.items()}
    if peer.estimate:
        known = {n: "estimate" if not isinstance(a, str) else a for n, a in got.items()}
    else:
        values = (lambda x: judge(x, k)) if judge else (lambda x: shares(x, k, 1.0))
        h = 2.0**-9 if dtype == "float64" or judge else 2.0**-4
        wanted = checks.derivatives(values, h)
        known = {n: checks.against(a, wanted[n]) for n, a in got.items()}
        if not judge and not isinstance(known["second"], str):
            # Values that an iteration found leave two differences little: or its own.
            own = checks.directional(
                lambda a: lib.numpy(lib.gradient(s)(lib.array(a, dtype))),
                checks.POINT,
                checks.DIRECTION,
                h,
            )
            known["second"] = min(known["second"], checks.against(got["second"], own))
    batch = np.stack([checks.POINT, checks.POINT[::-1]])
    alone = np.stack([shares(row, k, 1.0) for row in batch])
    known["vmap"] = checks.against(
        checks.attempt(lambda: lib.numpy(lib.vmap(p, lib.array(batch, dtype)))), alone
    )
    if peer.returns == "shares" and not peer.random:
        known["mask gradient"] = masked_gradient(lib, p, dtype)
    return known


def masked_gradient(lib: Any, p: Callable, dtype: str) -> checks.Answer:
    """Error of the gradient beside a score of -inf, against the row without it."""

    def gradient(x: np.ndarray, g: np.ndarray) -> np.ndarray:
        weights = lib.array(g, dtype)
        run = lib.gradient(lambda x: (p(x) * weights).sum())
        return lib.numpy(run(lib.array(x, dtype)))

    x, g = checks.POINT, checks.WEIGHTS
    alone = checks.attempt(lambda: gradient(x, g))
    if isinstance(alone, str):
        return alone
    found = checks.attempt(lambda: gradient(np.append(x, -np.inf), np.append(g, 1.0)))
    return checks.against(found, np.append(alone, 0.0))


def bits(lib: Any, call: Callable, k: int, dtype: str, shares: Any) -> Any:
    """Error of the answer to 16-bit scores: of shares, and of their sum, over k."""
    rng = np.random.default_rng(16)
    x = lib.numpy(lib.array(rng.standard_normal(1000), dtype))
    k = 10 * k if k > 1 else k

    def error() -> Any:
        p = call(lib.array(x, dtype), k, 1.0)
        returned = str(p.dtype).removeprefix("torch.")
        p, wanted = lib.numpy(p), shares(x, k, 1.0)
        if not np.isfinite(p).all():
            return "nan"
        return {
            "share": float(np.abs(p - wanted).max()),
            "sum": abs(float(p.sum() - wanted.sum())) / k,
            "returns": returned,
        }

    return checks.attempt(error)


# --- What it costs -------------------------------------------------------------------


def cost(peer: Peer, report: Report) -> None:
    """Memory and time, forward and with backward, beside the framework's softmax."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    lib, call = FRAMEWORKS[peer.framework](wide=False), peer.load()
    found: dict[str, Any] = {}
    for shape_name, (shape, k) in reversed(SHAPES.items()):
        k = 1 if peer.only_one else k
        x = lib.array(np.random.default_rng(0).standard_normal(shape), "float32")
        both = zip(
            _calls(lib, lambda x, k=k: call(x, k, 1.0), shape),
            _calls(lib, lib.softmax, shape),
            ("forward", "backward"),
            strict=True,
        )
        for f, softmax, way in both:
            name = f"{way}, {shape_name}"
            run = checks.attempt(lambda f=f, x=x: lib.compiled(f, x))
            if isinstance(run, str):
                found[name] = run
                continue
            base = lib.compiled(softmax, x)
            once = checks.attempt(lambda run=run: peak(lib, run))
            if isinstance(once, str):
                found[name] = once
                continue
            if len(shape) == 1:
                found[f"memory, {way}"] = once[0]
                found[f"softmax's memory, {way}"] = peak(lib, base)[0]
            slow = once[1] > LIMIT
            found[name] = "slow" if slow else ratio(lib, run, base)
            report(found)


def _calls(lib: Any, f: Callable, shape: tuple[int, ...]) -> tuple[Callable, Callable]:
    """Forward, and forward with backward, of a weighted sum."""
    rng = np.random.default_rng(1)
    g = lib.array(rng.standard_normal(shape), "float32")

    def s(x: Any) -> Any:
        y = f(x)
        return (y * g[..., : y.shape[-1]]).sum()

    return lib.quiet(f), lib.gradient(s)


def keep(size: int) -> None:
    """Have glibc give back what is freed at once only if it is larger than `size`."""
    libc = ctypes.CDLL(None)
    for setting in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        libc.mallopt(setting, size)


def peak(lib: Any, run: Callable) -> tuple[float, float]:
    """Bytes that one call adds to what the process holds, at most; and its seconds."""
    keep(1 << 16)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = _resident("VmRSS"), time.process_time()
    lib.wait(run())
    seconds = time.process_time() - start
    held = _resident("VmHWM") - before
    return getattr(run, "held", held), seconds


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(w.split()[1]) for w in lines if w.startswith(field))


def ratio(lib: Any, run: Callable, base: Callable) -> float:
    """The median of the ratios of paired rounds, each of several calls of a short."""
    keep(32 << 20)  # as glibc itself would have come to do
    repeat, often = (
        max(1, min(1000, int(0.05 / max(1e-6, _time(lib, f, 2))))) for f in (run, base)
    )
    pairs = [(_time(lib, run, repeat), _time(lib, base, often)) for _ in range(ROUNDS)]
    return statistics.median(a / b for a, b in pairs)


def _time(lib: Any, run: Callable, repeat: int) -> float:
    start = time.process_time()
    for _ in range(repeat):
        lib.wait(run())
    return (time.process_time() - start) / repeat


# --- One process for each ------------------------------------------------------------


def ask(peer: Peer, stage: str) -> dict[str, Any]:
    """What a process of its own reports, and how it ended if not by itself."""
    with tempfile.NamedTemporaryFile("r") as file:
        child = FORK.Process(target=_answer, args=(peer, stage, file.name))
        child.start()
        # A limit of the system's own would leave the processor's clock coarse.
        while child.is_alive() and seconds(child.pid) < PATIENCE[stage]:
            child.join(0.5)
        over = child.is_alive()
        child.kill()
        child.join()
        text = file.read()
    found = json.loads(text) if text else {}
    if over:
        return found | {"ended": f"over {PATIENCE[stage]} s"}
    return found | ({"ended": f"exit {child.exitcode}"} if child.exitcode else {})


def seconds(process: int | None) -> float:
    """What a process has used of the processor; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answer(peer: Peer, stage: str, file: str) -> None:
    def report(found: dict[str, Any]) -> None:
        Path(file).write_text(json.dumps(found))

    {"answers": answers, "cost": cost}[stage](peer, report)


def prepare(chosen: list[Peer]) -> None:
    """What all processes share: one thread, and the oracle's answers."""
    os.environ |= {
        "OMP_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false "
        "intra_op_parallelism_threads=1",
    }
    for peer in chosen:
        if peer.curve:
            judge = checks.oracle_of(peer.curve, peer.alpha, peer.scores)
            for x, k in checks.grid(peer.only_one):
                judge(x, k)


def versions() -> dict[str, str]:
    """Of the packages, and of what they stand on."""
    names = [*dict.fromkeys(p.package for p in PEERS), "torch", "jax", "numpy"]
    known = {n: importlib.metadata.version(n) for n in names if n != "softtopk"}
    project = Path(__file__).parents[1] / "pyproject.toml"
    ours = tomllib.loads(project.read_text())["project"]["version"]
    return {"softtopk": ours, **known}


def load() -> float:
    """Processes that wanted a core in the last minute, this one among them."""
    return round(os.getloadavg()[0], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="parts of keys")
    parser.add_argument("--skip", choices=PATIENCE, help="leave out a stage")
    parser.add_argument("--output", type=Path, default=DATA)
    parser.add_argument("--missing", action="store_true", help="what was not asked")
    given = parser.parse_args()
    chosen = [p for p in PEERS if not given.only or any(w in p.key for w in given.only)]
    prepare(chosen if given.skip != "answers" else [])
    old = json.loads(given.output.read_text()) if given.output.exists() else {}
    data = {
        "versions": versions(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rounds": ROUNDS,
        "limit": LIMIT,
        "peers": old.get("peers", {}),
    }
    for stage in PATIENCE:
        if stage == given.skip:
            continue
        # PyTorch is slow to import: once, after JAX, which its children do not meet.
        for peer in sorted(chosen, key=lambda p: p.framework):
            if peer.framework == "torch":
                importlib.import_module("torch")
            if given.missing and stage in data["peers"].get(peer.key, {}):
                continue
            found = ask(peer, stage) | ({"load": load()} if stage == "cost" else {})
            row = data["peers"].setdefault(peer.key, {})
            row |= {name: getattr(peer, name) for name in FIELDS}
            row[stage] = found
            print(stage, peer.key, json.dumps(found), flush=True)
            rows = data["peers"]
            data["peers"] = {p.key: rows[p.key] for p in PEERS if p.key in rows}
            given.output.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
