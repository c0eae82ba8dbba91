"""What the copy of a notebook needs where there is no checkout around it.

Its code says: a framework that it imports, a table of data that it looks for, a file of
``benchmarks`` that it reads.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from install import requirement
from live import frameworks

ROOT = Path(__file__).parents[2]
EXTRAS = ("figures", "symbolic")  # what the notebooks need of the package
TRAINING = ("training",)  # and what those need that import a framework
# Packages of which only the tables are read, without what they depend on; the Makefile
# installs them for the book itself.
DATA = {"ISLP": "islp==0.6.0"}
MEASURED = "../../benchmarks/"  # from a notebook's folder


def code_of(notebook: nbformat.NotebookNode) -> str:
    """The code of a notebook."""
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return "\n".join(cells)


def extras(code: str) -> tuple[str, ...]:
    """The extras of the package that the code needs."""
    return TRAINING if frameworks(code) else EXTRAS


def commands(code: str, repository: str, ref: str) -> list[str]:
    """What to say to pip, before the code runs."""
    wanted = [requirement(repository, *extras(code), ref=ref)]
    wanted += [
        f"--no-deps {package}" for name, package in DATA.items() if f'"{name}"' in code
    ]
    return wanted


def first_cell(code: str, repository: str, ref: str) -> nbformat.NotebookNode:
    """What installs all that the code needs, if it is not there."""
    wanted = commands(code, repository, ref)
    if repository:
        lines = "\n".join(f"%pip install --quiet {what}" for what in wanted)
        return nbformat.v4.new_code_cell(lines)
    said = ", then ".join(f"`pip install {what}`" for what in wanted)
    return nbformat.v4.new_markdown_cell(
        "To run this notebook, install the package in the folder of the project: "
        f"{said}."
    )


def files(code: str) -> list[nbformat.NotebookNode]:
    """A cell for each measured file, which writes it beside the notebook."""
    names = sorted(set(re.findall(rf'"{re.escape(MEASURED)}([\w.-]+)"', code)))
    cells = []
    for name in names:
        text = (ROOT / "benchmarks" / name).read_text(encoding="utf8").rstrip("\n")
        cell = nbformat.v4.new_code_cell(f"%%writefile {name}\n{text}")
        cell.metadata["jupyter"] = {"source_hidden": True}
        cells.append(cell)
    return cells


def moved(source: str) -> str:
    """Code that finds these files beside the notebook.

    >>> moved('Path("../../benchmarks/peers.json").read_text()')
    'Path("peers.json").read_text()'
    """
    return source.replace(f'"{MEASURED}', '"')
