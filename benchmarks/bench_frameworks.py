"""Time on PyTorch and JAX as a ratio to the framework's own softmax of the same scores.

In every round each call is timed next to a softmax; the median of the rounds' ratios
counts.  A round is one of all calls, but compiled PyTorch, which takes them in turn;
there the softmax is compiled too, and a row says what the eager one takes beside it.
Forward, and forward with backward beside softmax with its own.  Peers stand below: what
they compute is not always the same, see the name.  A call that fails, or takes longer
than the limit, says so.  JAX works in the thread that calls it: by default it hands
programs of some thousand operations to another, which takes longer than 100 scores do,
and softmax is not one of them.

    python benchmarks/bench_frameworks.py [--only NAME ...] [--shapes NAME ...]
        [--rounds 5] [--limit 20] [--threads 1] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
import torch

import softtopk.jax as stk_jax
import softtopk.torch as stk_torch

jax.config.update("jax_cpu_enable_async_dispatch", False)

SHAPES = {
    "100": (100,),
    "4096x128": (4096, 128),
    "64x50000": (64, 50_000),
    "1e6": (1_000_000,),
    "1x1e6": (1, 1_000_000),  # a batch of one row, where softmax itself takes longer
}
CURVES = ("exp", "laplace", "sigmoid", "clip")
MODES = ("torch eager", "torch compile", "jax jit")
EAGER = "softmax, eager"
Operator = Callable[[Any], Any]


def budgets(n: int) -> dict[str, int]:
    """k = 1, 8, n/10."""
    return {"k=1": 1, "k=8": 8, "k=n/10": n // 10}


def operators(stk: Any, n: int) -> Iterator[tuple[str, Operator]]:
    """What this package computes."""
    for name, k in budgets(n).items():
        for curve in CURVES:
            yield f"{curve} {name}", functools.partial(stk.soft_topk, k=k, curve=curve)
    yield "sparsemax", stk.sparsemax
    yield "entmax 1.5", functools.partial(stk.entmax, alpha=1.5)


def peers(mode: str, n: int) -> Iterator[tuple[str, Operator]]:
    """What others compute; a package that is not installed is left out."""
    if mode.startswith("torch"):
        try:
            import entmax

            yield "entmax.sparsemax", entmax.sparsemax
            yield "entmax.entmax15", entmax.entmax15
            for name, k in budgets(n).items():
                yield (
                    f"entmax.budget_bisect {name}",
                    functools.partial(entmax.budget_bisect, budget=k),
                )
        except (ImportError, AttributeError) as error:
            print(f"entmax: {error}", file=sys.stderr)
        try:
            import softtorch

            for name, k in budgets(n).items():
                yield (
                    f"softtorch.topk softsort {name}",
                    lambda x, k=k: softtorch.topk(x, k, method="softsort")[0],
                )
        except ImportError as error:
            print(error, file=sys.stderr)
        return
    try:
        import softjax

        for name, k in budgets(n).items():
            yield (
                f"softjax.top_k softsort {name}",
                lambda x, k=k: softjax.top_k(x, k, method="softsort")[0],
            )
    except ImportError as error:
        print(error, file=sys.stderr)
    try:
        import jaxopt

        box = jaxopt.projection.projection_box_section
        simplex = jaxopt.projection.projection_simplex

        def rows(f: Operator) -> Operator:
            return lambda x: f(x) if x.ndim == 1 else jax.vmap(f)(x)

        yield "jaxopt.projection_simplex", rows(simplex)
        for name, k in budgets(n).items():
            ends = (jnp.zeros(n), jnp.ones(n), jnp.ones(n), float(k))
            yield (
                f"jaxopt.projection_box_section (clip) {name}",
                rows(lambda x, ends=ends: box(x, ends, check_feasible=False)),
            )
    except ImportError as error:
        print(error, file=sys.stderr)
    try:
        import optax

        if hasattr(optax, "projections"):
            yield (
                "optax.projection_simplex",
                lambda x: (
                    optax.projections.projection_simplex(x)
                    if x.ndim == 1
                    else jax.vmap(optax.projections.projection_simplex)(x)
                ),
            )
    except ImportError as error:
        print(error, file=sys.stderr)


def calls(mode: str, f: Operator, given: Any, back: bool) -> Callable:
    """A call without arguments that waits for its result."""
    X, G = given
    if mode == "jax jit":
        run = jax.jit(jax.grad(lambda v: _weighed(f(v), G)) if back else f)
        return lambda: jax.block_until_ready(run(X))
    run = torch.compile(f, fullgraph=True) if mode == "torch compile" else f

    def forward() -> Any:
        with torch.no_grad():
            return run(X)

    def both() -> Any:
        given = X.requires_grad_()
        return torch.autograd.grad(_weighed(run(given), G), given)

    return both if back else forward


def _weighed(p: Any, g: Any) -> Any:
    return (p * g).sum() if p.shape == g.shape else p.sum()


def softmax(mode: str) -> Operator:
    """The yardstick."""
    if mode == "jax jit":
        return jax.nn.softmax
    return functools.partial(torch.softmax, dim=-1)


class Cell:
    """A call beside the softmax, and the ratios of the rounds."""

    def __init__(
        self, mode: str, f: Operator, given: Any, back: bool, eager: bool = False
    ) -> None:
        self.ratios: list[float] = []
        self.ended = ""
        try:
            self.base = calls(mode, softmax(mode), given, back)
            self.call = calls("torch eager" if eager else mode, f, given, back)
            self.base()
            self.call()
            start = time.perf_counter()
            self.call()
            self.once = time.perf_counter() - start
        except Exception as error:
            self.ended = f"fails: {type(error).__name__}"

    def round(self, limit: float) -> None:
        """Time both, each several times if it is short."""
        if not self.ended and self.once > limit:
            self.ended = f"> {limit:g} s"
        if not self.ended:
            repeat = max(1, min(50, int(0.02 / max(self.once, 1e-6))))
            base = _time(self.base, max(repeat, 10))
            self.ratios.append(_time(self.call, repeat) / base)

    def __str__(self) -> str:
        return self.ended or f"{statistics.median(self.ratios):.3g}"


def _time(call: Callable, repeat: int) -> float:
    if repeat > 1:
        call()  # what ran before it left its own in the caches
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=MODES, choices=MODES)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    lines = [
        f"torch {torch.__version__}, jax {jax.__version__}, float32, threads of torch: "
        f"{given.threads}; ratios to softmax, medians of {given.rounds} paired rounds.",
        "",
        "| shape | mode | operator | forward | forward and backward |",
        "| --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for shape in given.shapes:
        for mode in given.only:
            rng = np.random.default_rng(0)
            x, g = rng.standard_normal((2, *SHAPES[shape])).astype(np.float32)
            n, stk = x.shape[-1], stk_jax if mode == "jax jit" else stk_torch
            array = jnp.asarray if mode == "jax jit" else torch.tensor
            both = [(array(x), array(g)) for _ in range(2)]  # one takes gradients
            rows: list[tuple[str, list[Cell]]] = []
            plain = [(EAGER, softmax(mode))] * (mode == "torch compile")
            for name, f in [*plain, *operators(stk, n), *peers(mode, n)]:
                cells = []
                for back in (False, True):
                    torch.compiler.reset()  # else it counts them all as one
                    cells.append(Cell(mode, f, both[back], back, name == EAGER))
                    if mode == "torch compile":  # the next reset ends it
                        for _ in range(given.rounds):
                            cells[-1].round(given.limit)
                rows.append((name, cells))
            if mode != "torch compile":
                # What else the machine does for a while meets one round of each alone.
                for _ in range(given.rounds):
                    for _, cells in rows:
                        for cell in cells:
                            cell.round(given.limit)
            for name, cells in rows:
                told = " | ".join(map(str, cells))
                lines.append(f"| {shape} | {mode} | {name} | {told} |")
                print(lines[-1], flush=True)
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
