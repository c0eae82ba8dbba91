"""Break the package in forty places, one at a time, and see which test notices.

Usage: python tools/mutants.py [--seed 40] [--count 40] [--only N ...] [--list]
                               [--expect FILE] [--suites SUITE ...]

A seeded generator draws the places from the code of ``softtopk`` that computes: a
comparison, an operation, a number or a condition each becomes another one. Modules that
a tool writes, docstrings and annotations are left out.

Each change is made in a copy of the checkout, and the suites run there until a test
fails: the core, the frameworks, the kernels, the guards and the notebooks, and before
all of them the files of tests that are named after the module. One line of JSON for
each change goes to standard output, with the test that failed first, or with null where
every suite stayed green.

``--expect`` reads such lines again: each change that a test saw then is shown to that
test first, and has to be seen again, by it or by another. So a suite can be made
smaller, and what it saw before is still seen.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nearest import nearest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / ".venv" / "bin" / "python"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"
TRAINING = ["book/training", "book/recipes"]
NBVAL = ["--nbval", "--nbval-kernel-name=warm", "--nbval-cell-timeout=120"]
XLA = subprocess.run(  # what the Makefile says
    ["make", "--silent", "--eval=xla: ; @echo $(XLA)", "xla"],
    cwd=ROOT,
    check=True,
    capture_output=True,
    text=True,
).stdout.strip()
# What runs a suite, with which environment variables, and what it is called with.
SUITES: dict[str, tuple[Path, dict[str, str], list[str]]] = {
    "core": (CORE, {}, ["tests/package", "softtopk"]),
    "frameworks": (
        FRAMEWORKS,
        {"XLA_FLAGS": XLA},
        ["tests/frameworks", *(f"softtopk/{n}.py" for n in ("torch", "jax", "dask"))],
    ),
    "kernels": (
        FRAMEWORKS,
        {"TRITON_INTERPRET": "1"},
        ["tests/frameworks/test_kernels.py"],
    ),
    "book": (
        CORE,
        {},
        [*NBVAL, *(f"--ignore={n}" for n in TRAINING), "tests/book", "book"],
    ),
    "training": (FRAMEWORKS, {}, [*NBVAL, *TRAINING]),
}
LIMIT = "--timeout=600"  # seconds of a test: a change may make a search endless

OTHER: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


class Change(NamedTuple):
    """A piece of a file, from one place to another, and what stands there instead."""

    path: str
    begin: int
    end: int
    new: str

    def apply(self, text: bytes) -> bytes:
        """The file with the change."""
        return text[: self.begin] + self.new.encode() + text[self.end :]

    def shown(self, text: bytes) -> str:
        """The changed line, without its indentation."""
        line = text[: self.begin].count(b"\n")
        return self.apply(text).decode().split("\n")[line].strip()


def changes(path: str, text: bytes) -> Iterator[Change]:
    """Every change of one module that this program can make.

    >>> found = changes("a.py", b"def f(x: int) -> bool:\\n    return x + 1 < 3\\n")
    >>> [change.new for change in found]
    ['<=', '-', '4', '2']
    """
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    skipped = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns", "decorator_list"):
            part = getattr(node, name, None)
            for each in part if isinstance(part, list) else [part]:
                if each is not None:
                    skipped |= set(ast.walk(each))

    def at(node: ast.expr, *, end: bool = False) -> int:
        row = node.end_lineno or 1 if end else node.lineno
        return starts[row - 1] + (node.end_col_offset or 0 if end else node.col_offset)

    def between(left: ast.expr, right: ast.expr, kind: ast.AST) -> Iterator[Change]:
        old, new = OTHER.get(type(kind), ("", ""))
        begin, end = at(left, end=True), at(right)
        gap = re.sub(rb"#.*", lambda m: b" " * len(m[0]), text[begin:end])
        pattern = rf"\b{old}\b" if old.isalpha() else re.escape(old)
        place = re.search(pattern.replace(" ", r"\s+").encode(), gap) if old else None
        if place:
            yield Change(path, begin + place.start(), begin + place.end(), new)

    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from between(node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.BoolOp):
            yield from between(*node.values[:2], node.op)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            value = node.value
            new = value + 1 if isinstance(value, int) else 1.5 * value or 1.0
            yield Change(path, at(node), at(node, end=True), repr(new))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            begin, end = at(node.test), at(node.test, end=True)
            if text[begin:end] != b"TYPE_CHECKING":
                new = f"not ({text[begin:end].decode()})"
                yield Change(path, begin, end, new)


def draw(seed: int, count: int) -> list[Change]:
    """A sample of all changes, the same for the same seed and the same package."""
    found: list[Change] = []
    for file in sorted((ROOT / "softtopk").rglob("*.py")):
        text = file.read_bytes()
        if not text.startswith(b"# Written by tools/"):
            found += changes(file.relative_to(ROOT).as_posix(), text)
    return random.Random(seed).sample(found, count)


def copy_of_checkout(folder: Path) -> Path:
    """What is tracked, in a folder of its own."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return folder


def first_failure(
    folder: Path, suite: str, jobs: int, only: list[str] | None = None
) -> str | None:
    """The first test of a suite that fails; None where every test passes."""
    python, extra, arguments = SUITES[suite]
    dist = "loadfile" if "--nbval" in arguments else "worksteal"
    spread = ["-n", str(jobs), "--dist", dist]
    if only is not None:
        options = [a for a in arguments if a.startswith("--")]
        arguments, spread = options + only, []
    own = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [str(python), "-m", "pytest", "-xq", "--tb=no", LIMIT, *spread, *arguments],
        cwd=folder,
        env=os.environ | own | extra,
        capture_output=True,
        text=True,
    )
    if run.returncode in (0, 5) or (run.returncode == 4 and only):
        return None  # 4 and 5: the test that saw it before is gone
    found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
    return found[1] if found else " ".join([suite, *run.stdout.split("\n")[-2:]])


def looks(
    change: Change, suites: list[str], whole: list[str]
) -> Iterator[tuple[str, list[str] | None]]:
    """Which tests look at a change, in this order: suites, and files if not all."""
    near = nearest(change.path)
    for suite in suites:
        folders = [a for a in SUITES[suite][2] if a.startswith("tests")]
        files = [n for n in near if any(n.startswith(f) for f in folders)]
        if files:
            yield suite, files
    for suite in whole:
        yield suite, None


def look(
    folder: Path, change: Change, options: argparse.Namespace, known: list[str] | None
) -> tuple[str, str] | None:
    """The suite and the test that see a change."""
    file = folder / change.path
    sound = file.read_bytes()
    file.write_bytes(change.apply(sound))
    first = [(known[0], [known[1]])] if known else []
    try:
        others = looks(change, options.suites, options.whole)
        for suite, only in itertools.chain(first, others):
            if seen := first_failure(folder, suite, options.jobs, only):
                return suite, seen
    finally:
        file.write_bytes(sound)
    return None


def main() -> int:
    """Make the changes and print what saw each; 1 where one is no longer seen."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of changes")
    parser.add_argument("--list", action="store_true", help="show the changes alone")
    parser.add_argument("--suites", nargs="*", default=list(SUITES), choices=SUITES)
    parser.add_argument(
        "--whole", nargs="*", choices=SUITES, help="suites that may run whole (all)"
    )
    parser.add_argument("--expect", type=Path, help="lines of an earlier run")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.whole = options.suites if options.whole is None else options.whole
    before = {}
    if options.expect:
        lines = map(json.loads, options.expect.read_text("utf8").splitlines())
        before = {line["number"]: line for line in lines}
    lost = 0
    with tempfile.TemporaryDirectory() as place:
        folder = copy_of_checkout(Path(place))
        for number, change in enumerate(draw(options.seed, options.count)):
            if options.only and number not in options.only:
                continue
            line = {
                "number": number,
                "path": change.path,
                "line": change.shown((ROOT / change.path).read_bytes()),
            }
            if not options.list:
                old = before.get(number, {}).get("seen")
                seen = look(folder, change, options, old)
                line["seen"] = seen
                lost += bool(old and not seen)
            print(json.dumps(line), flush=True)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
