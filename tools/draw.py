"""Draw the book's figures as SVG, for its pages.

Usage: python tools/draw.py [--all] [--training]

A notebook has something to draw if one of its figures was never drawn, or was drawn
from other code or data. Of its cells, those run that its figures need
(``tools/slices.py``), and what they show goes to ``_build/figures`` as SVG, under the
figure's name. ``--all`` draws every figure again. Where nbval has run a notebook,
nothing is left to draw: ``book/conftest.py`` keeps the figures of that run.

``--training`` draws those of the Parts that train (``book/training``, ``book/recipes``)
instead. Their notebooks run whole, in the frameworks' environment. A build of the book
has no framework, so these drawings are kept with the notebooks.
"""

from __future__ import annotations

import argparse
import importlib
import io
import multiprocessing
import os
import re
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import nbformat
import refresh
import slices

from softtopk.figures import CHANGE, COLOURS

import drawn  # isort: skip  (refresh has put it on the path)

ROOT = refresh.ROOT
TARGET = ROOT / "_build" / "figures"
PICTURE = ROOT / "tools" / "picture.py"

# What a kernel runs before a notebook whose figures are to be drawn.
KERNEL = f"""%matplotlib inline
import runpy
runpy.run_path({str(ROOT / "tools" / "vector.py")!r})["take_over"](get_ipython())
del runpy
"""


def name_of(cell: nbformat.NotebookNode) -> str | None:
    """The name of the figure that a cell shows, if it shows one."""
    name: str | None = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
    return name


def stale(path: Path, *, every: bool = False) -> bool:
    """Whether a figure of a notebook or program is of other code or data."""
    if path == PICTURE:
        names = {"fig-melting"}
    else:
        cells = nbformat.read(path, as_version=4).cells
        names = {name for cell in cells if (name := name_of(cell))}
    mark = drawn.mark(ROOT, path)
    fresh = (drawn.marked(target(path) / f"{name}.svg") == mark for name in names)
    return bool(names) and (every or not all(fresh))


def target(path: Path) -> Path:
    """The folder of a notebook's drawings."""
    return ROOT / drawn.TRAINING / "drawn" if drawn.is_training(path) else TARGET


def vector(outputs: list[Any]) -> str:
    """The SVG among the outputs of a cell."""
    found = (output.get("data", {}).get("image/svg+xml") for output in outputs)
    return next(svg for svg in found if svg)


def keep(path: Path, figures: dict[str, str]) -> None:
    """Store the SVG of each figure of a notebook, with what it was drawn from."""
    folder = target(path)
    folder.mkdir(parents=True, exist_ok=True)
    mark = drawn.mark(ROOT, path)
    for name, svg in figures.items():
        named = [*COLOURS.values(), *CHANGE.values()]
        text = mark + drawn.in_page(svg, name, named)
        # Whole or not at all, also where the run is stopped.
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf8")
        part.replace(folder / f"{name}.svg")


def draw_whole(path: Path) -> dict[str, str]:
    """Run a notebook in a kernel; the SVG of each of its figures."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(KERNEL))
    runner = refresh.client(notebook, path)
    runner.execute(env={**os.environ, **refresh.ENVIRONMENT})
    return {
        name: vector(cell.outputs) for cell in notebook.cells if (name := name_of(cell))
    }


def draw_slice(path: Path, *, whole: bool = False) -> dict[str, str]:
    """Run the cells that a notebook's figures need, here; the SVG of each figure.

    Call it in a process of its own: the cells may change the settings of a library.
    """
    import matplotlib.pyplot as plt
    from vector import svg

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    figures = {
        place: name for place, cell in enumerate(cells) if (name := name_of(cell))
    }
    plt.switch_backend("agg")
    plt.show = lambda: None
    os.chdir(path.parent)
    found: dict[str, str] = {}
    names: dict[str, Any] = {"__name__": "__main__", "display": lambda *_, **__: None}
    for place in range(len(cells)) if whole else slices.needed(cells, figures):
        source = re.sub(r"^[%!].*$", "", cells[place].source, flags=re.MULTILINE)
        with warnings.catch_warnings(action="ignore"), redirect_stdout(io.StringIO()):
            exec(compile(source, f"cell {place}", "exec"), names)
        if place in figures:
            found[figures[place]] = svg(plt.gcf())
        plt.close("all")
    return found


def draw_picture(path: Path) -> dict[str, str]:
    """The SVG of the picture that a program draws."""
    from picture import picture
    from vector import svg

    return {"fig-melting": svg(picture())}


def draw(path: Path) -> bool:
    """Draw and keep the figures of a notebook or program; False when it fails."""
    begin = time.perf_counter()
    try:
        if path == PICTURE:
            found = draw_picture(path)
        else:
            found = draw_whole(path) if drawn.is_training(path) else draw_slice(path)
    except Exception as error:
        print(f"{path.relative_to(ROOT)}: {error!r}", flush=True)
        return False
    keep(path, found)
    seconds = time.perf_counter() - begin
    print(f"{path.relative_to(ROOT)}: {len(found)} drawn, {seconds:.1f} s", flush=True)
    return True


def draw_all(paths: list[Path], *, training: bool) -> bool:
    """Draw the figures of notebooks, two at a time, the longest first."""
    paths.sort(key=lambda path: -path.stat().st_size)
    if training:
        with ThreadPoolExecutor(max_workers=2) as pool:
            return all(list(pool.map(draw, paths)))
    # A process for each, forked where that is sound, so that the imports are there.
    kind = "fork" if sys.platform == "linux" else "spawn"
    if paths and kind == "fork":
        for module in ("matplotlib.pyplot", "softtopk.verify"):
            importlib.import_module(module)
    context = multiprocessing.get_context(kind)
    with context.Pool(2, maxtasksperchild=1) as pool:
        return all(list(pool.imap_unordered(draw, paths)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="also what is up to date")
    parser.add_argument("--training", action="store_true", help="those that train")
    options = parser.parse_args()
    paths = [
        path
        for path in [*refresh.notebooks(), PICTURE]
        if drawn.is_training(path) == options.training
        and stale(path, every=options.all)
    ]
    return int(not draw_all(paths, training=options.training))


if __name__ == "__main__":
    sys.exit(main())
