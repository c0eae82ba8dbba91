"""What compilers make of `soft_topk`: PyTorch's time, and JAX's lines by their origin.

Each time is that of the processor, in a fresh process with an empty cache and one
compiling process, so that other work on the machine counts little: Python's share
(tracing, Inductor) and the C++ compiler's.

    python benchmarks/bench_compile.py torch|jax
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

CURVES = ("laplace", "exp", "sigmoid", "clip", "triangular")
PARTS = {
    "counts and moments": (
        "counted_moments",
        "moments",
        "_moments_but",
        "extremes",
        "unguarded",
    ),
    "bracket and guess": ("begin", "narrowed", "solve_rows"),
    "sums of a pass": ("sums", "in_turn", "total", "tally"),
    "step of the curve": ("step",),
    "when to step, halve or stop": ("advance", "narrow", "decide", "leads_back"),
    "anchor": ("follow", "rebase"),
    "shares": ("shares_at", "distances"),
    "rows out of range, or with nothing to select": (
        "solved",
        "searched",
        "rows_in_range",
    ),
    "middle of a gap": ("neighbours_of", "middle_threshold"),
}
"""The parts of the program, by the functions whose lines they are."""


def torch_time(curve: str, mode: str) -> None:
    """Print what the first call takes; `curve` may be "softmax", for comparison."""
    import torch

    import softtopk.torch as stk

    def operator(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) if curve == "softmax" else stk.soft_topk(x, 8, curve)

    x, compiled = torch.randn(64, 128), torch.compile(operator, fullgraph=True)
    x.requires_grad_(mode == "with backward")
    start = os.times()
    out = compiled(x)
    if x.requires_grad:
        torch.autograd.grad(out, x, torch.ones_like(out))
    end = os.times()
    mine, children = (end[i] + end[i + 1] - start[i] - start[i + 1] for i in (0, 2))
    files = list(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.main.cpp"))
    print(f"| {curve} | {mode} | {mine:.1f} | {children:.1f} | {len(files)} |")


def torch_table() -> None:
    """Run `torch_time` in fresh processes."""
    print("| | | Python, s | C++, s | C++ programs |\n| --- | --- | --- | --- | --- |")
    for curve in ("softmax", *CURVES):
        for mode in ("forward", "with backward"):
            with tempfile.TemporaryDirectory() as folder:
                given = {
                    "TORCHINDUCTOR_CACHE_DIR": folder,
                    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
                    "TORCHINDUCTOR_COMPILE_THREADS": "1",
                }
                command = [sys.executable, "-W", "ignore", __file__, curve, mode]
                subprocess.run(command, env=os.environ | given, check=True)


@cache
def functions(file: str) -> list[tuple[int, int, str]]:
    """First line, last line and name of the functions of a file, inner ones last."""
    found = [
        (node.lineno, node.end_lineno or 0, node.name)
        for node in ast.walk(ast.parse(Path(file).read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    return sorted(found)


def frames(name: str, places: dict[str, str]) -> list[str]:
    """The functions of this package that a location of a program lies in."""
    text = places.get(name, "")
    file = re.match(r'"([^"]*/softtopk/[^"]*)":(\d+)', text)
    if file:
        line = int(file[2])
        inside = [f for a, b, f in functions(file[1]) if a <= line <= b]
        return inside[::-1]
    return [f for inner in re.findall(r"#loc\d+", text) for f in frames(inner, places)]


def jax_lines(curve: str) -> Counter[str]:
    """How many lines of the forward pass come from which part."""
    import jax

    import softtopk.jax as stk

    x = jax.ShapeDtypeStruct((64, 128), "float32")
    lowered = jax.jit(lambda x: stk.soft_topk(x, 8, curve)).lower(x)
    text, found = lowered.as_text(debug_info=True), Counter[str]()
    places = dict(re.findall(r"^(#loc\d+) = loc\((.*)\)$", text, re.M))
    part_of = {f: part for part, names in PARTS.items() for f in names}
    for line in text.splitlines():
        if not line.startswith("#loc"):
            at = re.search(r"loc\((#loc\d+)\)$", line)
            inside = frames(at[1], places) if at else []
            parts = [part_of[f] for f in inside if f in part_of]
            found[parts[0] if parts else "functions, loops and branches"] += 1
    found["in all"] = len(lowered.as_text().splitlines())
    return found


def jax_table() -> None:
    """Print the lines of every curve."""
    found = {curve: jax_lines(curve) for curve in CURVES}
    print("| part |", " | ".join(CURVES), "|\n| --- |" + " --- |" * len(CURVES))
    for part in (*PARTS, "functions, loops and branches", "in all"):
        print(f"| {part} |", " | ".join(str(found[c][part]) for c in CURVES), "|")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        torch_time(*sys.argv[1:])
    else:
        {"torch": torch_table, "jax": jax_table}[sys.argv[1]]()
