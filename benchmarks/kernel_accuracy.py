"""How accurate the kernels for accelerators are, and a kernel of another package.

    TRITON_INTERPRET=1 python benchmarks/kernel_accuracy.py

Triton's interpreter runs both on the CPU, in float32, and the core in float64 has the
exact shares.  For each curve the package's kernels take 5000 rows of every class of
`tests/frameworks/kernel_rows.py`.  Entmax for k = 1 is measured beside the kernel of
adasplash (`pip install --no-deps adasplash==0.2.2`).  The worst errors are stored in
benchmarks/kernels.json, which *computing/search* prints.  An accelerator rounds its
exponential less well than NumPy, which the interpreter uses.  The file also has the
registers and the instructions that `tools/aot.py` finds in the compiled kernels.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

import softtopk as stk
from softtopk import curves
from softtopk._kernels import torch_launch as kernels

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "frameworks"))
import kernel_rows  # noqa: E402

SIZES = ((4000, 8), (1000, 300))
ALPHAS = (1.01, 1.1, 1.25, 1.4, 1.5, 1.75, 2.0)
LENGTHS = (128, 1024, 4096, 16384)
WORST = ("shares", "sums", "x", "k", "tau")


def worst_errors(curve: curves.Curve) -> dict[str, float]:
    """Shares in eps; sums over eps k, where k n >= 0.01; gradients in eps of a sum."""
    found: dict[str, list[float]] = {name: [] for name in WORST}
    for count, n in SIZES:
        rng = np.random.default_rng(n)
        x = kernel_rows.rows(rng, count, n, np.float32)
        k = kernel_rows.budgets(rng, x)
        error, off, bound = kernel_rows.share_errors(x, k, curve)
        assert (off <= bound).all()
        usual = k * n >= 1e-2
        by = kernel_rows.gradient_errors(x, k, curve)
        values = (error, (off / k)[usual], *by)
        for name, value in zip(WORST, values, strict=True):
            found[name].append(float(value.max()))
    return {name: round(max(values), 2) for name, values in found.items()}


@triton.jit
def float2int_rd(x: Any) -> Any:
    """Stands for a function of the device's library, which no interpreter has."""
    return tl.floor(x).to(tl.int32)


@triton.jit
def isinf(x: Any) -> Any:
    return tl.abs(x) == float("inf")


def adasplash(x: Any, alpha: float, steps: int) -> Any:
    """Its `triton_entmax`, by default of 2 steps; no block's size is tried out."""
    other = importlib.import_module("adasplash.triton_entmax_v2")
    other.float2int_rd, other.isinf = float2int_rd, isinf
    y, n = torch.zeros_like(x), x.shape[1]
    with np.errstate(all="ignore"):
        other._fwd_entmax[(len(x), 1, 1)](
            x, y, alpha, steps, n, True, False, BLOCK_N=64
        )
    return y


def classes(count: int) -> dict[str, Any]:
    """Rows of 64 scores."""
    x = np.random.default_rng(0).normal(size=(count, 64)).astype(np.float32)
    ties = np.round(2 * x) / 2
    masked = np.where(np.arange(64) % 3 == 1, -np.inf, x)
    return {
        "normal": x,
        "rounded to halves": ties.astype(np.float32),
        "a third masked": masked.astype(np.float32),
        "1000 added": x + np.float32(1000),
    }


def beside(count: int = 40) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, x in classes(count).items():
        for alpha in (1.5, 2.0):
            exact = stk.entmax(x.astype(float), alpha)
            whole = torch.ones(count, dtype=torch.int64), torch.zeros(count)
            given = torch.tensor(x), *whole, None, 0.0, 1.0, "entmax", alpha
            values = {"softtopk": kernels.select(*given)[0]}
            for steps in (2, 20):
                p = adasplash(torch.tensor(x), alpha, steps)
                values[f"adasplash, {steps} steps"] = p
            for package, p in values.items():
                error = np.abs(p.numpy() - exact).max() / 2.0**-23
                found.setdefault(f"{package}, {alpha}", {})[name] = float(
                    f"{error:.2g}"
                )
    return found


def compiled() -> list[dict[str, int]]:
    """Registers of a thread, and instructions of a pass, as compiled for sm_90."""
    command = [sys.executable, str(HERE.parent / "tools" / "aot.py")]
    command += ["--target", "sm_90", "--curve", "laplace", "--rows", *map(str, LENGTHS)]
    given = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    given["PYTHONPATH"] = str(HERE.parent)
    told = subprocess.run(
        command, env=given, capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in told.stdout.splitlines()]
    found = []
    for _, _, _, n, kind, registers, spilled, _, loop in lines[1:]:
        if kind == "forward":
            names = {"entries": n, "registers": registers, "spilled": spilled}
            found.append({k: int(v) for k, v in (names | {"pass": loop}).items()})
    kernels.ON_CPU = False
    for line in found:
        tile = kernels.tiles(line["entries"], torch.float32, False, 64)
        line |= {"rows": tile.R, "warps": tile.num_warps}
    return found


def main() -> None:
    found: dict[str, Any] = {"versions": {"triton": triton.__version__}}
    found["versions"]["adasplash"] = "0.2.2"
    found["compiled"] = compiled()
    kernels.ON_CPU = True
    found["entmax"] = beside()
    print(found, flush=True)
    found |= {"rows": sum(count for count, _ in SIZES), "curves": {}}
    for curve in (*curves.NAMED.values(), *map(curves.entmax, ALPHAS)):
        found["curves"][curve.name] = worst_errors(curve)
        print(curve.name, found["curves"][curve.name], flush=True)
        (HERE / "kernels.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
