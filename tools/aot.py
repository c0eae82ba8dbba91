"""Compile the kernels of a selection for accelerators that need not be there.

    python tools/aot.py [--target sm_90] [--curve laplace] [--dtype fp32] [--rows 128]

Triton compiles for any target with the assembler of its own wheel.  A line for each
kernel says how many registers a thread takes, how many bytes of them are spilled to
memory (each spill is paid in every pass), and how many instructions the kernel has; for
NVIDIA also how many the longest loop has, which is a pass of the search.  The tests
(`tests/frameworks/test_kernels_compiled.py`) assert registers and spills.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from softtopk._kernels import torch_launch as kernels
from softtopk._kernels.triton_select import pull_kernel, select_kernel
from softtopk.curves import entmax as entmax_curve
from softtopk.curves import resolve

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
DTYPES = {
    "fp32": torch.float32,
    "fp64": torch.float64,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
NAMES = {kind: name for name, kind in DTYPES.items()}
BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


class Usage(NamedTuple):
    """What a compiled kernel takes.

    Attributes
    ----------
    registers : int
        A thread's.
    spilled : int
        Bytes of memory that a thread keeps what does not fit its registers in.
    instructions, loop : int
        All of them, and those of the longest loop (0 where it is not known).
    """

    registers: int
    spilled: int
    instructions: int
    loop: int


def compiled(forward: bool, curve: str, dtype: str, n: int, target: str) -> Usage:
    """The forward or the backward kernel as `softtopk.torch` launches it for rows n."""
    kind = DTYPES[dtype]
    number = "*" + NAMES[kernels.WORKING_TYPE[kind]]
    known = entmax_curve(float(curve[6:])) if curve[:6] == "entmax" else resolve(curve)
    kernel = select_kernel if forward else pull_kernel
    rows = dict.fromkeys(("X", "OUT", "G", "GX"), f"*{dtype}")
    rows |= dict.fromkeys(("PART", "TAU", "A", "T", "GK", "GTAU", "SUMMED"), number)
    rows |= {"WHOLE": "*i64", "part": "fp64", "temperature": "fp64"}
    constants = kernels.constants(known, forward)
    among = 64 if n < 100_000 else 1, n % 16 == 0, TARGETS[target].warp_size
    tile = kernels.tiles(n, kind, constants["FLAT"], *among)._asdict()
    warps = tile.pop("num_warps")
    constants |= tile | {"LAST": kernels.SUMS if tile["S"] > 1 else 0}
    # As float64 rows need them: a budget and a temperature a row.
    constants |= {"TAU_ROWS": True} | ({"K_ROWS": True} if forward else {})
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name in constants else rows.get(name, "i32")
        for name in names
    }
    aligned = [i for i, name in enumerate(names) if signature[name][0] == "*"]
    aligned += [names.index(name) for name in ("n", "stride") if n % 16 == 0]
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={(names.index(name),): v for name, v in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": warps, "enable_fp_fusion": False}
    found = triton.compile(source, target=TARGETS[target], options=options)
    if target.startswith("gfx"):
        return _of_amd(found.asm["amdgcn"])
    return _of_nvidia(found.asm["cubin"])


def _of_amd(text: str) -> Usage:
    def entry(name: str) -> int:
        return int(re.search(rf"\.{name}:\s+(\d+)", text)[1])

    ends = text.index("s_endpgm")
    count = len(re.findall(r"^\s+[vsdgb]\w+_\w+", text[:ends], re.MULTILINE))
    spilled = entry("private_segment_fixed_size")
    return Usage(entry("vgpr_count"), spilled, count, 0)


def _of_nvidia(cubin: bytes) -> Usage:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)

        def ask(*command: str) -> str:
            line = [str(BIN / command[0]), *command[1:], str(path)]
            return subprocess.run(
                line, capture_output=True, text=True, check=True
            ).stdout

        usage, text = ask("cuobjdump", "-res-usage"), ask("nvdisasm", "-c")
    registers = int(re.search(r"REG:(\d+)", usage)[1])
    stack = int(re.search(r"STACK:(\d+)", usage)[1])
    count, labels, loop = 0, {}, 0
    for line in text.splitlines():
        if label := re.match(r"^(\.L\w+):", line):
            labels[label[1]] = count
        if not (found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line)):
            continue
        jump = re.search(r"BRA.*?`\((\.L\w+)\)", found[1])
        if jump and jump[1] in labels:
            loop = max(loop, count + 1 - labels[jump[1]])
        count += 1
    return Usage(registers, stack, count, loop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", nargs="+", default=list(TARGETS), choices=TARGETS)
    parser.add_argument("--curve", nargs="+", default=["laplace", "entmax1.5"])
    parser.add_argument("--dtype", nargs="+", default=["fp32"], choices=DTYPES)
    parser.add_argument("--rows", nargs="+", type=int, default=[64, 128, 4096, 50000])
    given = parser.parse_args()
    os.environ.pop("TRITON_INTERPRET", None)
    print("target  curve       type  entries  kernel    registers  spilled  all  loop")
    for target in given.target:
        for curve in given.curve:
            for dtype in given.dtype:
                for n in given.rows:
                    for forward in (True, False):
                        use = compiled(forward, curve, dtype, n, target)
                        name = "forward" if forward else "backward"
                        print(
                            f"{target:7s} {curve:11s} {dtype:5s} {n:7d}  {name:8s}"
                            f"{use.registers:10d} {use.spilled:8d}"
                            f"{use.instructions:7d} {use.loop:5d}",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
