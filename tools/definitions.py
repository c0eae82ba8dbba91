"""Change twenty functions that the chapters define, and see which check notices each.

Usage: python tools/definitions.py [--seed 20] [--count 20] [--only N ...] [--list]

A seeded generator draws the places from the functions that the chapters define in open
cells, at most one from a cell: a comparison, an operation, a number or a
condition each becomes another one, as in `tools/mutants.py`. The places that
`tests/book/definitions` changes already are left out, and so are those of `SAME`, where
the change leaves the same function.

The chapter is run with the changed cell, and one line of JSON says which cell failed
first and how: the check of a claim, another check, an open cell that no longer runs, or
a cell that prints another text than the stored one. Where nothing failed it says null,
and the program ends with 1.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import yaml
from mutants import Change, changes

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "book"))

import test_definitions as definitions  # noqa: E402

BOOK = ROOT / "book"
PARTS = ("distributions", "selection", "computing")  # chapters that need no framework
# A change that leaves the same function: where it stands, what it says then, and why it
# does. Another change of the cell is drawn instead.
SAME = {
    ("computing/sorting", f"if len(values) {end}:"): (
        "it only decides from which length on the value is sought by groups of five"
    )
    for end in ("< 5", "<= 6")
}


class Place(NamedTuple):
    """A change of a definition in a cell of a chapter."""

    chapter: str
    cell: int
    change: Change
    line: str


def wanted(source: str) -> list[tuple[int, int]]:
    """The pieces of a cell that define a function."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in ast.parse(source).body:
        named = isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        if (named or isinstance(node, ast.FunctionDef)) and node.end_lineno:
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + (node.end_col_offset or 0)
            found.append((begin, end))
    return found


def changed_already(chapter: str) -> list[str]:
    """The texts that the wrong definitions of a chapter replace."""
    path = definitions.FOLDER / f"{chapter.replace('/', '-')}.yml"
    if not path.exists():
        return []
    return [w["replace"] for w in yaml.safe_load(path.read_text("utf8"))["wrong"]]


def places(chapter: str) -> list[list[Place]]:
    """The changes of each open cell of a chapter that defines a function."""
    notebook = nbformat.read(BOOK / f"{chapter}.ipynb", as_version=4)
    taken, found = changed_already(chapter), []
    for step in definitions.steps(notebook):
        imports = re.match("import|from", step.source)
        if step.kind != definitions.OPEN or imports:
            continue
        if any(text in step.source for text in taken):
            continue
        text = step.source.encode()
        pieces = wanted(step.source)
        found.append(
            [
                Place(chapter, step.number, change, change.shown(text))
                for change in changes(chapter, text)
                if any(b <= change.begin and change.end <= e for b, e in pieces)
            ]
        )
    return [cell for cell in found if cell]


def draw(seed: int, count: int) -> list[Place]:
    """A sample of cells, and of a change in each; the same for the same book."""
    paths = [path for part in PARTS for path in sorted((BOOK / part).glob("*.ipynb"))]
    chapters = [path.relative_to(BOOK).with_suffix("").as_posix() for path in paths]
    cells = [cell for chapter in chapters for cell in places(chapter)]
    drawn = []
    for found in random.Random(seed).sample(cells, count):
        order = random.Random(f"{seed} {found[0].chapter} {found[0].cell}")
        order.shuffle(found)
        drawn.append(next(p for p in found if (p.chapter, p.line) not in SAME))
    return drawn


def prints_another(notebook: nbformat.NotebookNode) -> str | None:
    """The first cell whose output is not the stored one, by the run that compares."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chapter.ipynb"
        nbformat.write(notebook, path)
        command = [sys.executable, "-m", "pytest", "-xq", "--tb=no", "--nbval"]
        command += ["--nbval-current-env", "-p", "no:cacheprovider", str(path)]
        run = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
    found = re.search(r"^FAILED .*::(Cell \d+)", run.stdout, re.MULTILINE)
    return found[1] if found else None


def seen(place: Place) -> dict[str, Any] | None:
    """The first cell that notices a change, and how."""
    path = BOOK / f"{place.chapter}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    plan = definitions.steps(notebook)
    cells = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
    cell, step = cells[place.cell - 1], plan[place.cell - 1]
    cell.source = place.change.apply(cell.source.encode()).decode()
    step.source = place.change.apply(step.source.encode()).decode()
    with contextlib.redirect_stderr(io.StringIO()):
        raised = definitions.run(plan, path.parent)
    kinds = {step.number: step.kind for step in plan}
    claims = {step.number: step.claims for step in plan}
    order = (definitions.CLAIM, definitions.OTHER, definitions.OPEN)
    for kind in order:
        for number, error in raised.items():
            if kinds[number] == kind:
                how = type(error).__name__
                return {"kind": kind, "cell": number, "of": claims[number], "how": how}
    if text := prints_another(notebook):
        return {"kind": "printed", "cell": text}
    return None


def main() -> int:
    """Make the changes and print what noticed each; 1 where nothing did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of changes")
    parser.add_argument("--list", action="store_true", help="show the changes alone")
    options = parser.parse_args()
    unseen = 0
    for number, place in enumerate(draw(options.seed, options.count)):
        if options.only and number not in options.only:
            continue
        line: dict[str, Any] = {
            "number": number,
            "chapter": place.chapter,
            "cell": place.cell,
            "line": place.line,
        }
        if not options.list:
            line["seen"] = seen(place)
            unseen += line["seen"] is None
        print(json.dumps(line, ensure_ascii=False), flush=True)
    return int(unseen > 0)


if __name__ == "__main__":
    sys.exit(main())
