"""Execute the book's notebooks and store their outputs, as a fixed point.

Usage: python tools/refresh.py [--check] [NOTEBOOK ...]

Each notebook is run from a fresh kernel. What is written holds nothing that
changes from run to run: no timing, no kernel version, and cell ids that count the
cells. Each cell that checks a claim (``with verify.claim("A45", "holds")``) is
tagged ``claim-A45``, and ``book/claims.yml`` gets the matching ``check:`` line, so
that the claim, its check and the ledger cannot drift apart.

The notebooks of ``book/training`` and ``book/recipes`` run in the frameworks'
environment.

``--check`` writes nothing and fails when a run would change a file.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
sys.path.append(str(BOOK / "_extensions"))

from claims.cells import claimed, with_claims  # noqa: E402
from drawn import is_training  # noqa: E402

CLAIMS = BOOK / "claims.yml"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"
SLOW = 4.0  # seconds; a slower cell is reported

# Kernels write no colour codes and use one BLAS thread. NumPy, its BLAS and the
# frameworks keep to the instructions common to all x86-64 processors that they support:
# a figure that plots rounding errors would otherwise differ from one kind of processor
# to the next.
SIMD = np.show_config(mode="dicts")["SIMD Extensions"]
ENVIRONMENT = {
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(
        [*SIMD.get("found", []), *SIMD.get("not found", [])]
    ),
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
    "PYTHONPATH": str(ROOT),
}


def client(
    notebook: nbformat.NotebookNode, path: Path, **options: Any
) -> NotebookClient:
    """What runs a notebook, in the environment that its folder needs."""
    manager = AsyncKernelManager()
    python = FRAMEWORKS if is_training(path) else sys.executable
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=command, language="python")
    return NotebookClient(
        notebook,
        km=manager,
        timeout=600,
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],
        **options,
    )


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what changes from run to run and derive the claim tags."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.metadata.pop("execution", None)
        cell.metadata.pop("jp-MarkdownHeadingCollapsed", None)
        if cell.cell_type != "code":
            continue
        if tags := with_claims(cell.metadata.pop("tags", []), cell.source):
            cell.metadata["tags"] = tags
        cell.outputs = merged(cell.outputs)
        for output in cell.outputs:
            if "metadata" in output:
                output["metadata"] = {}
    return notebook


def merged(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Outputs with neighbouring pieces of one stream joined: the split is chance."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = kept[-1] if kept else None
        streams = last and output.output_type == last.output_type == "stream"
        if streams and output.name == last.name:
            last.text += output.text
        else:
            kept.append(output)
    return kept


def execute(notebook: nbformat.NotebookNode, path: Path, check: bool = False) -> bool:
    """Run a notebook, store it at `path`; False when it fails (or would change)."""
    started: dict[int, float] = {}
    slow: list[str] = []

    def on_start(cell: nbformat.NotebookNode, cell_index: int) -> None:
        started[cell_index] = time.perf_counter()

    def on_end(
        cell: nbformat.NotebookNode, cell_index: int, execute_reply: object
    ) -> None:
        seconds = time.perf_counter() - started[cell_index]
        if seconds > SLOW:
            slow.append(f"cell {cell_index} took {seconds:.1f} s")

    name = path.relative_to(ROOT)
    runner = client(
        notebook,
        path,
        record_timing=False,
        on_cell_execute=on_start,
        on_cell_executed=on_end,
    )
    begin = time.perf_counter()
    try:
        runner.execute(env={**os.environ, **ENVIRONMENT})
    except CellExecutionError as error:
        print(f"{name}: {error}", flush=True)
        return False
    text = nbformat.writes(normalise(notebook)) + "\n"
    changed = not path.exists() or path.read_text(encoding="utf8") != text
    seconds = time.perf_counter() - begin
    state = "changed" if changed else "unchanged"
    print(f"{name}: {state}, {seconds:.1f} s", *slow, sep="; ", flush=True)
    if check:
        return not changed
    path.write_text(text, encoding="utf8")
    return True


def notebooks() -> list[Path]:
    """Every notebook of the book, sorted."""
    return sorted(BOOK.rglob("*.ipynb"))


def checks() -> dict[str, str]:
    """Map each claim to the first notebook that checks it, below ``book/``."""
    order = {name: number for number, name in enumerate(_toc_order())}
    found: dict[str, str] = {}
    paths = {p.relative_to(BOOK).with_suffix("").as_posix(): p for p in notebooks()}
    for name in sorted(paths, key=lambda n: (order.get(n, len(order)), n)):
        for cell in nbformat.read(paths[name], as_version=4).cells:
            if cell.cell_type == "code":
                for claim in claimed(cell.source):
                    found.setdefault(claim, name)
    return found


def _toc_order() -> list[str]:
    text = (ROOT / "_toc.yml").read_text(encoding="utf8")
    return re.findall(r"file: book/(\S+)", text)


def ledger(text: str, where: dict[str, str]) -> str:
    """The ledger's text with its ``check:`` lines set from `where`."""
    kept = [line for line in text.split("\n") if not line.startswith("    check: ")]
    lines: list[str] = []
    current = None
    for line in [*kept, "  - id: "]:
        starts = re.match(r"  - id: (\S*)", line)
        ends = starts or (line and not line.startswith(" "))
        if ends and current in where:
            tail = []
            while lines and not lines[-1].strip():
                tail.append(lines.pop())
            lines.append(f"    check: {where[current]}")
            lines.extend(tail)
        if ends:
            current = starts.group(1) if starts else None
        lines.append(line)
    return "\n".join(lines[:-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--ledger", action="store_true", help="only claims.yml")
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args()
    good = True
    if not options.ledger:
        paths = [p.resolve() for p in options.paths] or notebooks()
        with ThreadPoolExecutor(max_workers=2) as pool:
            jobs = [
                pool.submit(execute, nbformat.read(p, as_version=4), p, options.check)
                for p in paths
            ]
            good = all(job.result() for job in jobs)
    if CLAIMS.exists():
        before = CLAIMS.read_text(encoding="utf8")
        after = ledger(before, checks())
        if options.check and after != before:
            print("book/claims.yml: check lines are out of date")
            good = False
        elif after != before:
            CLAIMS.write_text(after, encoding="utf8")
            print("book/claims.yml: check lines updated")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
