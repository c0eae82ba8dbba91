"""Draw the book's figures as SVG, for its pages.

Usage: python tools/draw.py [--all] [--training]

Each notebook with a figure that was never drawn, or was drawn from other code, is run;
what its figure cells show goes to ``_build/figures`` as SVG, under the figure's name.
Nothing else is kept: the outputs that the notebooks store are those of
``tools/refresh.py``. ``--all`` draws every figure again.

``--training`` draws those of the Parts that train (``book/training``, ``book/recipes``)
instead, in the frameworks' environment. A build of the book has no framework, so these
drawings are kept with the notebooks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import refresh
from nbclient.exceptions import CellExecutionError

from softtopk.figures import COLOURS

import drawn  # isort: skip  (refresh has put it on the path)

ROOT = refresh.ROOT
TARGET = ROOT / "_build" / "figures"
PICTURE = ROOT / "tools" / "picture.py"

# Labels are set as outlines, which look alike everywhere. A figure is drawn a little
# smaller than the notebook asks and shown at the same width: its words are larger then,
# and can be read on a phone.
SETTINGS = """
import matplotlib as mpl
from matplotlib.figure import Figure
mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "softtopk"})
def _smaller(self, figsize=None, *args, _init=Figure.__init__, **kwargs):
    size = mpl.rcParams["figure.figsize"] if figsize is None else figsize
    _init(self, [0.87 * side for side in size], *args, **kwargs)
Figure.__init__ = _smaller
"""
PANELS = ROOT / "tools" / "panels.py"
INLINE = """
from matplotlib_inline.backend_inline import set_matplotlib_formats
set_matplotlib_formats("svg", metadata={"Date": None})
"""


def figures(notebook: nbformat.NotebookNode) -> dict[str, nbformat.NotebookNode]:
    """The cells that show a figure, by its name."""
    return {
        cell.metadata["mystnb"]["figure"]["name"]: cell
        for cell in notebook.cells
        if "name" in cell.metadata.get("mystnb", {}).get("figure", {})
    }


def draw_notebook(path: Path) -> dict[str, str]:
    """Run a notebook; the SVG of each of its figures."""
    notebook = nbformat.read(path, as_version=4)
    wanted = figures(notebook)
    code = f"%matplotlib inline\n{SETTINGS}{INLINE}\n%run -n {PANELS}"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(code))
    runner = refresh.client(notebook, path)
    runner.execute(env={**os.environ, **refresh.ENVIRONMENT})
    return {
        name: output.data["image/svg+xml"]
        for name, cell in wanted.items()
        for output in cell.outputs
        if "image/svg+xml" in output.get("data", {})
    }


def draw_picture(path: Path) -> dict[str, str]:
    """Run a program that draws one picture; its SVG."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "picture.svg")
        code = f"{SETTINGS}\nimport runpy, sys\nsys.argv = ['', {str(target)!r}]\n"
        code += f"runpy.run_path({str(path)!r}, run_name='__main__')"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
        return {"fig-melting": target.read_text(encoding="utf8")}


def draw(path: Path) -> dict[str, str] | None:
    """The figures of a notebook or program; None when it fails."""
    begin = time.perf_counter()
    try:
        make = draw_notebook if path.suffix == ".ipynb" else draw_picture
        found = make(path)
    except (CellExecutionError, subprocess.CalledProcessError) as error:
        print(f"{path.relative_to(ROOT)}: {error}", flush=True)
        return None
    seconds = time.perf_counter() - begin
    print(f"{path.relative_to(ROOT)}: {len(found)} drawn, {seconds:.1f} s", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="also what is up to date")
    parser.add_argument("--training", action="store_true", help="those that train")
    options = parser.parse_args()
    target = ROOT / drawn.TRAINING / "drawn" if options.training else TARGET
    fresh = {} if options.all else drawn.current(ROOT, target)
    names = {
        path: set(figures(nbformat.read(path, as_version=4)))
        for path in refresh.notebooks()
        if drawn.is_training(path) == options.training
    }
    if not options.training:
        names[PICTURE] = {"fig-melting"}
    stale = [path for path, needed in names.items() if needed - set(fresh)]
    stale.sort(key=lambda path: -path.stat().st_size)  # the longest first
    target.mkdir(parents=True, exist_ok=True)
    index = target / "index.json"
    known = json.loads(index.read_text(encoding="utf8")) if index.exists() else {}
    good = True
    with ThreadPoolExecutor(max_workers=2) as pool:
        for path, found in zip(stale, pool.map(draw, stale), strict=True):
            if found is None:
                good = False
                continue
            mark = [path.relative_to(ROOT).as_posix(), drawn.digest(ROOT, path)]
            for name, svg in found.items():
                text = drawn.in_page(svg, name, COLOURS.values())
                (target / f"{name}.svg").write_text(text, encoding="utf8")
                known[name] = mark
    text = json.dumps(known, indent=1, sort_keys=True) + "\n"
    index.write_text(text, encoding="utf8")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
