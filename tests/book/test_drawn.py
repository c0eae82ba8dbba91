"""Figures as vectors: their colours, their ids, and when a page takes them."""

from __future__ import annotations

import base64
import doctest
import importlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from small_book import notebook_of, run_sphinx, shown
from test_folds import DOT

from softtopk.figures import COLOURS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))
sys.path.append(str(ROOT / "tools"))

import drawn  # noqa: E402
import pictures  # noqa: E402
import vector  # noqa: E402

# Sphinx and MyST-NB use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("name", sorted(COLOURS))
def test_a_curve_can_be_told_from_both_grounds(name: str) -> None:
    for ground in (drawn.LIGHT, drawn.DARK):
        shade = drawn.readable(COLOURS[name], ground)
        assert drawn.contrast(shade, ground) >= drawn.CONTRAST


def test_a_colour_changes_where_it_must_alone() -> None:
    assert drawn.readable("#0072B2", drawn.DARK) == "#0072b2"
    assert drawn.contrast("#56B4E9", drawn.LIGHT) < drawn.CONTRAST
    assert drawn.readable("#56B4E9", drawn.LIGHT) != "#56b4e9"


CODE = """
import sys
import matplotlib as mpl
mpl.use("svg")
mpl.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "a"})
from softtopk import figures
fig, ax = figures.figure()
_ = ax.plot([0, 1.23456], marker="o", color=figures.COLOURS["exp"])
_ = ax.set_xlabel("$x_i$")
fig.savefig(sys.argv[1], metadata={"Date": None})
"""


@pytest.fixture(scope="module")
def svg(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Matplotlib writes."""
    path = tmp_path_factory.mktemp("svg") / "figure.svg"
    subprocess.run([sys.executable, "-c", CODE, path], check=True, cwd=ROOT)
    return path.read_text(encoding="utf8")


def test_a_drawing_fits_into_a_page(svg: str) -> None:
    text = drawn.in_page(svg, "fig-a", COLOURS.values())
    assert text.startswith("<svg viewBox=")
    assert len(text) < 0.8 * len(svg)
    for word in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "xlink"):
        assert word not in text
    ids = re.findall(r' id="([^"]*)"', text)
    used = re.findall(r'(?:href="|url\()#([^")]+)', text)
    assert ids
    assert len(set(ids)) == len(ids)
    assert set(used) == set(ids)
    assert all(name.startswith("fig-a-") for name in ids)
    assert "fill: var(--pst-color-background)" in text  # it was white
    assert "stroke: #0072b2" in text
    assert "light-dark(#555555" in text
    assert not re.search(r' d="[^"]*\.\d{2}', text)
    assert drawn.in_page(svg, "fig-a", COLOURS.values()) == text


PANELS = """
import runpy
import sys
import matplotlib as mpl
mpl.use("agg")
from softtopk import figures
count = int(sys.argv[2])
shares = {f"exp {name}": [0.25] * 8 for name in range(count)}
fig, axes = figures.experts(shares)
if len(sys.argv) > 3:
    _ = getattr(fig, sys.argv[3])("$x_i$")
text = runpy.run_path("tools/vector.py")["svg"](fig)
open(sys.argv[1], "w", encoding="utf8").write(text)
"""


def panels(folder: Path, count: int, *label: str) -> BeautifulSoup:
    """The picture of the experts with so many panels, as a page has it."""
    path = folder / "figure.svg"
    command = [sys.executable, "-c", PANELS, path, str(count), *label]
    subprocess.run(command, check=True, cwd=ROOT)
    text = drawn.in_page(path.read_text(encoding="utf8"), "fig-a", COLOURS.values())
    assert "panel-" not in text
    return BeautifulSoup(text, "html.parser")


def test_three_panels_become_a_drawing_each(tmp_path: Path) -> None:
    page = panels(tmp_path, 3, "suptitle")
    drawings = page.select("div > svg")
    kinds = [one.get("class") for one in drawings]
    assert kinds == [["strip"], None, None, None, ["strip"]]
    shares = [float(re.findall(r"[\d.]+", one["style"])[0]) for one in drawings]
    assert 99.9 < sum(shares[1:4]) <= 100
    zoom = float(re.findall(r"[\d.]+", page.div["style"])[0])
    assert 99 < zoom * sum(shares[1:3]) <= 100  # two take the width of a phone
    views = [[float(n) for n in one["viewbox"].split()] for one in drawings[1:4]]
    for (left, *_, width, _), (right, *_) in itertools.pairwise(views):
        assert left + width == pytest.approx(right, abs=0.11)
    for one in drawings[1:4]:
        assert len(one.find_all("g", recursive=False)) == 1  # its axes
        assert len(one.select("path")) > 8  # a bar for each expert
    ids = [one["id"] for one in page.select("[id]")]
    used = re.findall(r'(?:href="|url\()#([^")]+)', str(page))
    assert set(used) == set(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("count", "label"), [(2, "suptitle"), (3, "supylabel")])
def test_other_figures_stay_whole(tmp_path: Path, count: int, label: str) -> None:
    assert next(one.name for one in panels(tmp_path, count, label).children) == "svg"


def book(
    folder: Path,
    *,
    code: str = "draw()",
    weight: int = 0,
    page: str = "index",
    drawings: str = "_build/figures",
) -> BeautifulSoup:
    """A page with a figure that was drawn from the code ``draw()``."""
    (folder / drawings).mkdir(parents=True, exist_ok=True)
    (folder / "tools").mkdir(exist_ok=True)
    for name in ("draw.py", "vector.py"):
        (folder / "tools" / name).write_text("")
    source = folder / f"{page}.ipynb"
    for text in ("draw()", code):
        cell = (text, ("plot",), [shown("image/png", DOT)])
        notebook = json.loads(notebook_of("# Title", cell))
        notebook["cells"][1]["metadata"]["mystnb"] = {
            "figure": {"name": "fig-a", "caption": "A."},
            "image": {"alt": "A <curve>."},
        }
        source.write_text(json.dumps(notebook))
        if text == "draw()":
            mark = drawn.mark(folder, source)
    picture = f'<svg viewBox="0 0 1 1"><path d="{"M0 0" * weight}"/></svg>'
    (folder / drawings / "fig-a.svg").write_text(mark + picture)
    settings = {
        "root_doc": page,
        "extensions": ["myst_nb", "drawn"],
        "nb_execution_mode": "off",
        "exclude_patterns": ["_build", "jupyter_execute"],
    }
    assert run_sphinx(folder, folder / "html", settings) == ""
    text = (folder / "html" / f"{page}.html").read_text(encoding="utf8")
    return BeautifulSoup(text, "html.parser")


def test_a_page_takes_the_drawing(tmp_path: Path) -> None:
    page = book(tmp_path)
    drawing = page.select_one("figure#fig-a > svg")
    assert drawing["class"] == ["drawn"]
    assert drawing["role"] == "img"
    assert drawing["aria-label"] == "A <curve>."
    assert page.select("figure img") == []
    # Link previews ask for it.
    (image,) = (tmp_path / "html" / "_images").glob("*.png")
    assert image.read_bytes() == base64.b64decode(DOT)


def test_a_page_that_trains_takes_what_is_kept(tmp_path: Path) -> None:
    kept = {"page": "book/training/loop", "drawings": "book/training/drawn"}
    assert book(tmp_path / "1", **kept).select("figure#fig-a > svg")
    assert not book(tmp_path / "2", code="draw(2)", **kept).select("svg.drawn")


@pytest.mark.parametrize("change", [{"code": "draw(2)"}, {"weight": drawn.LIMIT // 4}])
def test_a_stale_or_heavy_drawing_is_left(
    tmp_path: Path, change: dict[str, object]
) -> None:
    page = book(tmp_path, **change)
    assert page.select("svg.drawn") == []
    assert page.select_one("figure img")["alt"] == "A <curve>."


@pytest.mark.parametrize("part", ["book/training", "book/part"])
def test_other_data_make_a_drawing_stale(tmp_path: Path, part: str) -> None:
    """Those that a cell of the page reads, and no others."""
    source, marks = tmp_path / part / "a.ipynb", []
    for folder in (part, "benchmarks", "tools"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("draw.py", "vector.py"):
        (tmp_path / "tools" / name).write_text("")
    code = 'draw(Path("../../benchmarks/a.json").read_text())'
    source.write_text(notebook_of("# Title", (code, (), [])))
    for mine, other in ((1, 1), (1, 2), (2, 2)):
        for name, value in (("a", mine), ("b", other)):
            (tmp_path / "benchmarks" / f"{name}.json").write_text(f"[{value}]")
        marks.append(drawn.mark(tmp_path, source))
    assert marks[0] == marks[1] != marks[2]


SLICE = """
import json
import sys
from pathlib import Path
sys.path.insert(0, "tools")
import draw
path, whole = Path(sys.argv[1]).resolve(), sys.argv[2] == "whole"
print(json.dumps(draw.draw_slice(path, whole=whole)))
"""


def test_the_cells_that_its_figures_need_draw_what_the_notebook_draws() -> None:
    command = [sys.executable, "-c", SLICE, "book/computing/radicals.ipynb"]
    some, every = (
        subprocess.run([*command, how], check=True, cwd=ROOT, capture_output=True)
        for how in ("slice", "whole")
    )
    assert json.loads(some.stdout) == json.loads(every.stdout) != {}


FIGURE = """import matplotlib.pyplot as plt
fig, ax = plt.subplots()
_ = ax.plot([0, 1])
plt.show()"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one small notebook, of which nothing was drawn as SVG."""
    root = tmp_path_factory.mktemp("checkout")
    path = root / "book" / "part" / "a.ipynb"
    path.parent.mkdir(parents=True)
    notebook = json.loads(notebook_of("# Title", (FIGURE, ("plot",), [])))
    notebook["cells"][1]["metadata"]["mystnb"] = {"figure": {"name": "fig-a"}}
    path.write_text(json.dumps(notebook))
    shutil.copy(ROOT / "book" / "conftest.py", root / "book")
    # Files that Python names anew as soon as they are written are not there for long.
    passing = shutil.ignore_patterns("*.pyc.*")
    for folder in ("tools", "softtopk", "book/_extensions"):
        shutil.copytree(ROOT / folder, root / folder, ignore=passing)
    (root / "book" / "claims.yml").write_text("claims: []\n")
    (root / "_toc.yml").write_text("root: book/part/a\n")
    command = [sys.executable, "tools/refresh.py", path.relative_to(root)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return root


def validated(root: Path) -> subprocess.CompletedProcess[str]:
    """Have nbval run the notebook of a checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "book/part/a.ipynb"],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )


def test_nbval_keeps_the_figures_of_a_run(checkout: Path) -> None:
    run = validated(checkout)
    assert run.returncode == 0, run.stdout
    (figure,) = (checkout / "_build" / "figures").glob("*.svg")
    assert drawn.current(checkout, figure.parent) == {"fig-a": figure}
    drawing = figure.read_text(encoding="utf8").partition("\n")[2]
    assert drawing.startswith("<svg viewBox=")


def test_a_drawing_leaves_the_figure_as_it_was() -> None:
    def png(*, after: bool) -> str:
        made = Figure(figsize=(6.4, 3.2), layout="constrained")
        left, right = made.subplots(1, 2)
        left.plot([0, 3], [0, 1])
        right.plot([0, 1], [0, 3])
        for axes in (left, right):
            axes.set_aspect("equal", adjustable="datalim")
        if after:
            vector.svg(made)
        data = io.BytesIO()
        made.savefig(data, bbox_inches="tight")
        return base64.b64encode(data.getvalue()).decode()

    assert pictures.changed(png(after=False), png(after=True)) == ""


def test_a_wrong_picture_is_seen(checkout: Path, tmp_path: Path) -> None:
    """The stored picture is that of another figure."""
    root = tmp_path / "checkout"
    shutil.copytree(checkout, root)
    path = root / "book" / "part" / "a.ipynb"
    notebook = json.loads(path.read_text())
    (output,) = notebook["cells"][1]["outputs"]
    output["data"]["image/png"] = picture()
    path.write_text(json.dumps(notebook))
    run = validated(root)
    assert run.returncode == 1
    assert "the stored picture is wrong" in run.stdout


def picture(*, moved: float = 0, made: str | None = None, **style: Any) -> str:
    """A line in a frame, as PNG in base64."""
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], [0.2, 0.8], **style)
    axes.axvline(0.3 + moved, color="black")
    data = io.BytesIO()
    figure.savefig(data, metadata={"Software": made} if made else None)
    return base64.b64encode(data.getvalue()).decode()


def test_a_picture_of_the_same_is_the_same() -> None:
    pixel = 1 / 250  # about: the frame is 232 pixels wide
    assert picture(moved=pixel / 3) != picture()
    assert pictures.changed(picture(), picture(moved=pixel / 3)) == ""
    assert pictures.changed(picture(), picture(made="Another", lw=9)) == ""


@pytest.mark.parametrize(
    "style", [{"moved": 0.02}, {"ls": ":"}, {"color": "C1"}, {"visible": False}]
)
def test_a_picture_of_something_else_differs(style: dict[str, Any]) -> None:
    assert "blocks differ" in pictures.changed(picture(), picture(**style))
    stored, made = shown("image/png", picture()), shown("image/png", picture(**style))
    assert pictures.wrong([stored], [made])
    assert pictures.wrong([stored], []) == "1 pictures are stored, and 0 were drawn"


def test_every_picture_is_of_the_release_that_is_pinned() -> None:
    """Those of another are not compared with what a run draws."""
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8")
    (release,) = re.findall(r"^matplotlib==(.*)$", pins, re.MULTILINE)
    frameworks = (ROOT / "requirements-frameworks.txt").read_text(encoding="utf8")
    assert f"\nmatplotlib=={release}\n" in frameworks
    makers = {
        pictures.maker(png)
        for path in (ROOT / "book").rglob("*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf8"))["cells"]
        for png in pictures.shown(cell.get("outputs", []))
    }
    assert makers == {f"Matplotlib version{release}"}


@pytest.mark.parametrize("text", ["", '<svg viewBox="0 0 1 1">\n</svg>\n'])
def test_a_drawing_that_names_no_source_is_left(tmp_path: Path, text: str) -> None:
    (tmp_path / "fig-a.svg").write_text(text)
    assert drawn.current(ROOT, tmp_path) == {}


def test_what_trains_keeps_its_drawings() -> None:
    folder = ROOT / drawn.TRAINING / "drawn"
    wanted = {
        cell["metadata"]["mystnb"]["figure"]["name"]
        for part in drawn.FRAMEWORKS
        for path in (ROOT / part).glob("*.ipynb")
        for cell in json.loads(path.read_text(encoding="utf8"))["cells"]
        if "figure" in cell["metadata"].get("mystnb", {})
    }
    assert set(drawn.current(ROOT, folder)) == wanted, "run `make refresh`"
    assert {path.stem for path in folder.glob("*.svg")} == wanted


def test_examples_hold() -> None:
    sys.path.append(str(ROOT / "tools"))
    names = "drawn", "lines", "mutants", "nearest", "quick", "slices", "times", "walk"
    for name in names:
        found = doctest.testmod(importlib.import_module(name))
        assert found.failed == 0
        assert found.attempted > 0
