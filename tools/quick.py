"""Check style and types, and run the tests of what changed, in about a minute.

Usage: python tools/quick.py [--base main] [--seconds 45] [FILE ...]

What changed is what differs from ``--base``, committed or not, or the files that are
named. A module is seen by its doctests and by the tests that are named after it; a
notebook by a run of it, by the guards and by its wrong definitions; a file of
``benchmarks`` by a run of the notebooks that read it; the ledger by the guards. After
``--seconds`` the tests are stopped. What was not run to its end is said, and so is
every changed file that no test here looks at: `make test` and `make frameworks` run
all.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from nearest import nearest

ROOT = Path(__file__).resolve().parents[1]
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"
TRAINING = ("book/training/", "book/recipes/")
SHARED = {"_adapters", "_operators", "_rows", "_rules", "_search"}
"""Folders of the package that PyTorch and JAX share with NumPy."""

NBVAL = ("--nbval", "--nbval-kernel-name=warm", "--nbval-cell-timeout=120")
LEDGERS = {
    "book/claims.yml": ("test_book.py", "test_inventory.py", "test_formal.py"),
    "book/inventory.yml": ("test_inventory.py",),
    "book/formal.yml": ("test_formal.py",),
}


class Look(NamedTuple):
    """A run of pytest: in the frameworks' environment or the core's, and of what."""

    frameworks: bool
    arguments: tuple[str, ...]


def changed(base: str) -> list[str]:
    """The files that differ from where this branch left the other, or are new."""

    def git(*command: str) -> list[str]:
        run = subprocess.run(
            ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return run.stdout.splitlines()

    (start,) = git("merge-base", "HEAD", base)
    found = git("diff", "--name-only", start)
    found += git("ls-files", "--others", "--exclude-standard")
    return sorted(name for name in set(found) if (ROOT / name).is_file())


def looks(name: str) -> Iterator[Look]:
    """The tests that look at a file, the nearest first."""
    path = Path(name)
    if path.name.startswith("test_") and path.parts[0] == "tests":
        if path.parts[1] != "browser":
            yield Look(path.parts[1] == "frameworks", (name,))
    elif path.suffix == ".py" and path.parts[0] == "softtopk":
        needs = any(word in name for word in ("torch", "jax", "dask", "_kernels"))
        yield Look(needs, (name,))
        for file in nearest(name):
            yield Look(file.startswith("tests/frameworks/"), (file,))
        if path.parts[1] in SHARED:
            yield Look(True, ("tests/frameworks/test_behaviour.py",))
    elif path.suffix == ".ipynb":
        yield Look(name.startswith(TRAINING), (*NBVAL, name))
        yield Look(False, ("tests/book/test_book.py", "-k", path.stem))
        if (ROOT / "tests/book/definitions" / f"{definitions(name)}.yml").exists():
            words = ("tests/book/test_definitions.py", "-k", definitions(name))
            yield Look(False, words)
    elif path.suffix == ".md" and path.parts[0] == "book":
        yield Look(False, ("tests/book/test_book.py", "-k", path.stem))
    elif name in LEDGERS:
        for file in LEDGERS[name]:
            yield Look(False, (f"tests/book/{file}",))
    elif name.startswith(("book/_extensions/", "tools/")):
        for file in nearest(path.stem):
            if file.startswith("tests/book/"):
                yield Look(False, (file,))
        if name.startswith("book/_extensions/"):
            yield Look(False, ("tests/book/test_extensions.py",))
    elif path.parts[0] == "benchmarks":
        for notebook in sorted(ROOT.glob("book/*/*.ipynb")):
            if f"../../{name}" in notebook.read_text("utf8"):
                reader = notebook.relative_to(ROOT).as_posix()
                yield Look(reader.startswith(TRAINING), (*NBVAL, reader))
    elif name.startswith(".github/") or name in ("Makefile", "README.md"):
        yield Look(False, ("tests/book/test_github.py",))


def definitions(name: str) -> str:
    """What the file of a notebook's wrong definitions is called.

    >>> definitions("book/selection/laplace.ipynb")
    'selection-laplace'
    """
    path = Path(name)
    return f"{path.parent.name}-{path.stem}"


def run(look: Look, seconds: float) -> bool | None:
    """Run some tests; whether all passed, or None if that takes longer."""
    python = str(FRAMEWORKS) if look.frameworks else sys.executable
    print("\n$ pytest", *look.arguments, flush=True)
    command = [python, "-m", "pytest", "-q", *look.arguments]
    try:
        code = subprocess.run(command, cwd=ROOT, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return None
    return code in (0, 5)  # 5: the file has no test, such as a module without doctests


def lint() -> bool:
    """Ruff on everything, and mypy; whether both are content."""
    commands = [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)]
    codes = [
        subprocess.run([sys.executable, "-m", *each], cwd=ROOT).returncode
        for each in commands
    ]
    return not any(codes)


def main() -> int:
    """Look at what changed; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--base", default="main")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("files", nargs="*", help="instead of what differs")
    options = parser.parse_args()
    names = options.files or changed(options.base)
    plans = {name: list(looks(name)) for name in names}
    good = lint()
    # The nearest tests of every file come before the second of any.
    turns = zip_longest(*plans.values())
    order = [look for turn in turns for look in turn if look is not None]
    end = time.monotonic() + options.seconds
    left = []
    for look in dict.fromkeys(order):
        missing = look.frameworks and not FRAMEWORKS.exists()
        seconds = end - time.monotonic()
        passed = None if missing or seconds < 0 else run(look, seconds)
        if passed is None:
            left.append(look)
        good &= passed is not False
    for look in left:
        print("not run to the end:", *look.arguments)
    for name, plan in plans.items():
        if not plan:
            print("no test here looks at", name)
    if not names:
        print(f"nothing differs from {options.base}")
    print("green, as far as this went" if good else "red")
    return int(not good)


if __name__ == "__main__":
    assert find_spec("pytest"), "run it as `make quick`"
    sys.exit(main())
