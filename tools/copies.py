"""Run the notebooks that the built pages offer, as a reader would who has nothing else.

Usage: python tools/copies.py [--fresh] [NAME ...]

Each copy, or those that are named (such as ``selection/problem``), is run in an empty
folder, away from the checkout, and what it prints is compared with what it stores. It
takes the environments of the checkout; a copy whose environment is not there is left
out, and that is said. ``--fresh`` makes new ones: for each list of packages that first
cells ask pip for, an environment that holds these, in their newest releases, and a
kernel. The package itself comes from this checkout.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
from dist import ROOT, environment

COPIES = ROOT / "_build" / "html" / "_sources" / "book"
CORE = ROOT / ".venv" / "bin" / "python"
FRAMEWORKS = ROOT / ".venv-frameworks" / "bin" / "python"
RUNNER = ("ipykernel", "nbval", "pytest")
RUN = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env")


def asked(notebook: nbformat.NotebookNode) -> tuple[tuple[str, ...], ...]:
    """What the first cell wants from pip, with this checkout for the package.

    >>> cell = nbformat.v4.new_markdown_cell('`pip install ".[torch]"` and more.')
    >>> asked(nbformat.v4.new_notebook(cells=[cell])) == (
    ...     (f"softtopk[torch] @ {ROOT.as_uri()}",),
    ... )
    True
    """
    lines = re.findall(r"pip install ([^`\n]+)", notebook.cells[0].source)
    found = []
    for line in lines:
        words = [word for word in shlex.split(line) if word != "--quiet"]
        ours = re.fullmatch(r"(?:\.|softtopk)(\[[\w,]+\])?(?: @ .*)?", words[-1])
        if ours:
            words[-1] = f"softtopk{ours[1] or ''} @ {ROOT.as_uri()}"
        found.append(tuple(words))
    return tuple(found)


def run(path: Path, python: Path, *, ours: bool = False) -> bool:
    """Whether a copy runs in an empty folder and prints what it stores.

    In an environment of the checkout, which may lack the package, it is this one's.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0] = nbformat.v4.new_markdown_cell("Installed.", id="cell-000")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    if ours:
        clean["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(notebook, Path(folder, path.name))
        command = [python, *RUN, "--nbval-cell-timeout=600", path.name]
        done = subprocess.run(command, cwd=folder, env=clean, check=False)
    return done.returncode == 0


def fresh(wanted: tuple[tuple[str, ...], ...], paths: list[Path]) -> list[Path]:
    """The copies that fail in a new environment with what they want."""
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    index = os.environ.get("TORCH_INDEX", "").split()
    with environment() as (_, python):
        for words in (*wanted, RUNNER):
            subprocess.run([python, *pip, *index, *words], check=True)
        return [path for path in paths if not run(path, Path(python))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="in new environments")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    paths = [COPIES / f"{name}.ipynb" for name in given.names]
    paths = paths or sorted(COPIES.rglob("*.ipynb"))
    if not paths:
        raise SystemExit(f"no notebook in {COPIES}: run `make book` first")
    groups: dict[tuple[tuple[str, ...], ...], list[Path]] = {}
    for path in paths:
        wanted = asked(nbformat.read(path, as_version=4))
        groups.setdefault(wanted, []).append(path)
    failed = []
    for wanted, members in groups.items():
        python = FRAMEWORKS if "[training]" in str(wanted) else CORE
        if given.fresh:
            failed += fresh(wanted, members)
        elif python.exists():
            failed += [path for path in members if not run(path, python, ours=True)]
        else:
            names = ", ".join(path.stem for path in members)
            print(f"left out, for there is no {python.relative_to(ROOT)}: {names}")
    for path in failed:
        print(f"{path.relative_to(COPIES)} does not run on its own", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
