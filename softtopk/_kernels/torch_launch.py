"""The kernels as operations of PyTorch: which tensors they take, and their launch.

An operation here has no derivative of its own.  It stands inside the autograd functions
of `softtopk/_adapters/torch_autograd_selection.py`, whose rules can be differentiated
again: with a derivative registered on the operation itself, `torch.func.grad` would
fail, and a second derivative would leave out the one by the threshold.
"""

from __future__ import annotations

import math
import os
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch

from ..curves import NAMED, Curve, Entmax

ON_CPU = False
"""Whether tensors on the CPU use the kernels: in tests, by Triton's interpreter."""

LONGEST = 1 << 24
"""The most entries of a row that a kernel takes; a longer one goes another way.

A kernel may count entries in float32, which holds every whole number up to this one.
"""

SUMS = 9
"""Launches before the last, if several programs share a row.

Two are for the moments and seven for passes of the search.  In the last launch, which
finishes longer searches, each program sums the whole row by itself.
"""

NAMES = ("exp", "laplace", "sigmoid", "clip", "triangular")
"""Curves with functions in `triton_curves.py`; all others but entmax have no kernel."""

WARP = 64 if torch.version.hip else 32
"""Threads that run in step."""

WORKING_TYPE = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}
"""The type in which a kernel computes, by the type of the rows; no other is taken."""

_HAS_TRITON = find_spec("triton") is not None
ALLOWED = os.environ.get("SOFTTOPK_KERNELS") != "0"
"""False forbids all kernels: SOFTTOPK_KERNELS=0, set before the import."""


def takes(curve: Curve, x: Any) -> bool:
    """Whether the kernels take rows like x, a tensor of no subclass (`PLAIN`)."""
    return (
        _HAS_TRITON
        and ALLOWED
        and (x.is_cuda or ON_CPU)
        and x.dtype in WORKING_TYPE
        and x.ndim > 0
        and 0 < x.shape[-1] <= LONGEST
        and (type(curve) is Entmax or _is_known(curve))
    )


def _is_known(curve: Curve) -> bool:
    return curve.name in NAMES and NAMED[curve.name] is curve


def named(curve: Any) -> tuple[str, float]:
    """The arguments by which the operations know a curve: its name, and alpha."""
    return ("entmax", curve.alpha) if type(curve) is Entmax else (curve.name, 1.0)


def _curve(name: str, alpha: float) -> Curve:
    """The curve for which `named` returns these."""
    return Entmax(alpha) if name == "entmax" else NAMED[name]


class Tiles(NamedTuple):
    """Rows and entries of a program, whether it holds its rows, and its warps.

    The search of a row consists of numbers for the whole row, which every thread of its
    warps computes redundantly.  So a row has few warps, and many rows are in flight at
    once.  Rows that do not fit the registers are read again in each pass.  If rows are
    long and too few to keep the device busy, S programs share each row.  SPLIT is what
    `triton_select._held` needs to know of rows that are not `aligned`.
    """

    R: int
    B: int
    HELD: bool
    num_warps: int
    S: int = 1
    SPLIT: int = 1


def tiles(
    n: int,
    dtype: torch.dtype,
    flat: bool,
    rows: int,
    aligned: bool = True,
    warp: int = WARP,
) -> Tiles:
    """The tiles for rows of n entries; `tools/aot.py` prints the registers they take.

    Entmax with alpha < 3/2, whose curve is `flat`, needs more registers.  Rows are
    `aligned` if Triton knows that each begins at a multiple of 16 bytes.
    """
    registers = 2 if dtype == torch.float64 else 1
    B = max(16, 1 << (n - 1).bit_length())
    if ON_CPU:  # the interpreter takes as long for one row as for a thousand
        held = B <= 16384
        B = B if held else 4096
        return Tiles(max(1, (1 << 16) // B), B, held, 1)
    if B * registers <= 128:
        size = 512 // registers
        return Tiles(size // B, B, True, 4, SPLIT=1 if aligned else size // (4 * warp))
    longest = 4096 if flat or registers == 2 else 16384
    for most, warps in ((1024, 1), (2048, 2), (4096, 4), (16384, 8)):
        if B <= longest and B * registers <= most:
            return Tiles(1, B, True, warps)
    S = 128 if rows <= 32 and n > 1 << 16 else 1
    return Tiles(1, 4096 // registers, False, 16, S)


def constants(curve: Curve, forward: bool) -> dict[str, Any]:
    """The compile-time constants of a kernel for a curve: functions and numbers."""
    from .triton_curves import functions

    b = curve.b if isinstance(curve, Entmax) else 0.0
    found = functions("entmax" if b else curve.name, b)
    given: dict[str, Any] = {"b": b, "ORIGIN": found.origin, "FLAT": found.flat}
    if not forward:
        return {**given, "WEIGHT": found.weight, "LOGS": found.logs}
    given |= dict(zip(("LOW", "HIGH"), curve.support, strict=True))
    given |= dict(zip(("MEAN", "DEV"), curve.noise or (0.0, 1.0), strict=True))
    given |= {"SUMS": found.sums, "VALUE": found.value, "INVERSE": found.inverse}
    return {**given, "STEP": found.step, "BEND": float(curve.bend)}


def _launch(kernel: Any, x: Any, sums: int, *given: Any, **names: Any) -> None:
    """Launch a kernel; if programs share a row, launch it once more for each sum.

    Each launch computes one sum over the segments of a row and reads the sums of the
    launches before it.  So no program waits for another, and the host never waits for
    the device.
    """
    rows, n = x.shape
    aligned = x.stride(0) % 16 == 0 and x.data_ptr() % 16 == 0
    tile = tiles(n, x.dtype, names["FLAT"], rows, aligned)
    last = sums if tile.S > 1 else 0
    names |= tile._asdict() | {"LAST": last}
    summed = x.new_empty(4 * last * rows * tile.S, dtype=WORKING_TYPE[x.dtype])
    grid = -(-rows // tile.R), tile.S
    with torch.cuda.device_of(x), np.errstate(all="ignore"):
        for stage in range(last + 1 if rows else 0):
            # `enable_fp_fusion=False` forbids the compiler to turn a product and a sum
            # into one FMA, which adds the product without rounding it first.  TwoSum
            # (in `_moved` and `_plus`) returns the rounding error of a sum exactly only
            # if both terms have been rounded before they are added.
            kernel[grid](
                *given, summed, stage, rows, n, **names, enable_fp_fusion=False
            )


def _as_rows(x: Any) -> Any:
    """(..., n) as rows with contiguous entries."""
    x = x.reshape(-1, x.shape[-1])
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


def _per_row(values: Any, batch: Any) -> Any:
    """One number for each row; with stride 0 if all rows share one number."""
    return values.expand(batch).reshape(-1)


def _like(x: Any) -> Any:
    """The output for shares; float32 in the interpreter, which lacks bfloat16."""
    kind = torch.float32 if ON_CPU and x.dtype == torch.bfloat16 else x.dtype
    return torch.empty(x.shape, dtype=kind, device=x.device)


def _empty_numbers(x: Any) -> Any:
    """An output with one number for each row."""
    return torch.empty(x.shape[:-1], dtype=WORKING_TYPE[x.dtype], device=x.device)


@torch.library.custom_op("softtopk::select", mutates_args=())
def select(
    x: torch.Tensor,
    whole: torch.Tensor | None,
    part: torch.Tensor | None,
    tau: torch.Tensor | None,
    k: float,
    temperature: float,
    curve: str,
    alpha: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Shares, anchors and offsets of rows (..., n), like `selection_search.selected`.

    The budget is k, or one for each row as the sum of two tensors.  The temperature is
    a number or a tensor.
    """
    from .triton_select import select_kernel

    known, batch = _curve(curve, alpha), x.shape[:-1]
    out, a, t = _like(x), _empty_numbers(x), _empty_numbers(x)
    flat = _as_rows(x)
    floor = math.floor(k) if 0 <= k < 2.0**31 else -1
    columns = [None if v is None else _per_row(v, batch) for v in (whole, part, tau)]
    _launch(
        select_kernel,
        *(flat, SUMS, flat, *(flat if v is None else v for v in columns)),
        *(out, a, t, floor, float(k - floor), temperature, flat.stride(0)),
        *(0 if v is None else v.stride(0) for v in columns),
        **constants(known, forward=True),
        K_ROWS=whole is not None,
        TAU_ROWS=tau is not None,
    )
    return out.to(x.dtype), a, t


@select.register_fake
def _(x: Any, *_: Any) -> Any:
    return (
        torch.empty(x.shape, dtype=x.dtype, device=x.device),
        _empty_numbers(x),
        _empty_numbers(x),
    )


@torch.library.custom_op("softtopk::pull", mutates_args=())
def pull(
    x: torch.Tensor,
    g: torch.Tensor,
    a: torch.Tensor,
    t: torch.Tensor,
    tau: torch.Tensor | None,
    temperature: float,
    curve: str,
    alpha: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients by x, and by k and tau for each row, from g by the shares."""
    from .triton_select import pull_kernel

    known = _curve(curve, alpha)
    gx, gk, gtau = _like(x), torch.empty_like(a), torch.empty_like(a)
    flat, g = _as_rows(x), g.reshape(-1, x.shape[-1])
    taus = None if tau is None else _per_row(tau, x.shape[:-1])
    _launch(
        pull_kernel,
        *(flat, 3, flat, g, a.reshape(-1), t.reshape(-1)),
        flat if taus is None else taus,
        *(gx, gk, gtau, temperature, flat.stride(0), *g.stride()),
        0 if taus is None else taus.stride(0),
        **constants(known, forward=False),
        TAU_ROWS=tau is not None,
    )
    return gx.to(x.dtype), gk, gtau


@pull.register_fake
def _(x: Any, g: Any, a: Any, *_: Any) -> Any:
    gx = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return gx, torch.empty_like(a), torch.empty_like(a)
