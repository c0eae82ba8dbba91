"""Cells that run in the page: from a folder, with no network, in two browsers.

Every run takes a notebook of each Part in Chromium and one in Firefox; ``LIVE=all``
takes every notebook in both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from firefox import firefox
from nbval import plugin
from playwright.sync_api import Browser

from conftest import ROOT, SITE

BOOK = ROOT / "book"
ALL = sorted(
    path.relative_to(BOOK).with_suffix("").as_posix() for path in BOOK.glob("*/*.ipynb")
)
SAMPLE = {
    "chromium": [
        "distributions/softmax-jacobian",
        "selection/problem",
        "computing/sorting",
        "practice/field",
    ],
    "firefox": ["distributions/softmax"],
}
RUNS = [
    (kind, name)
    for kind, sample in SAMPLE.items()
    for name in (ALL if os.environ.get("LIVE") == "all" else sample)
]

# Cells whose text cannot be that of the notebook, by notebook and number, each with its
# reason.
EXCEPTIONS: dict[tuple[str, int], str] = {}

# nbval's own list, without the option that compares images byte for byte.
SKIP = ("metadata", "traceback", "output_type", "name", "execution_count")
SKIP += ("image/png", "image/jpeg")
FIRST_LOAD = 30_000  # bytes that a page may be heavier by before a reader asks
FIRST_RESULT = 20.0  # seconds
PATIENCE = 300_000  # milliseconds, for a busy machine

RUN_ALL = """() => new Promise((resolve) => {
  document.querySelector(".fold-switch button").click();
  const panel = document.querySelector(".live-panel");
  const [stop] = panel.querySelectorAll("button");
  const look = () => stop.hidden && (watch.disconnect(), resolve());
  const watch = new MutationObserver(look);
  watch.observe(stop, { attributes: true });
})"""
OUTPUTS = "() => softtopkLive.cells.map((cell) => cell.outputs.list)"
STATUS = "() => document.querySelector('.live-status').textContent"

Evaluate = Callable[[str], Any]


def address(name: str) -> str:
    """Where a page lies in the folder."""
    return (SITE / "book" / f"{name}.html").as_uri()


def difference(shown: list[Any], stored: list[Any]) -> str:
    """What nbval says of the outputs of a cell; nothing if they agree."""
    judge = SimpleNamespace(
        colors=plugin.nocolors, sanitize=lambda text: text, comparison_traceback=[]
    )
    judge.format_output_compare = partial(plugin.IPyNbCell.format_output_compare, judge)
    made, kept = (
        plugin.coalesce_streams(nbformat.from_dict(o)) for o in (shown, stored)
    )
    good = plugin.IPyNbCell.compare_outputs(judge, made, kept, SKIP)
    return "" if good else "\n".join(judge.comparison_traceback)


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, browser: Browser, tmp_path: Path
) -> Iterator[Evaluate]:
    """A page from the folder in a browser without a network; how to ask it."""
    kind, name = request.param
    if kind == "firefox":
        with firefox(tmp_path) as tab:
            tab.goto(address(name))
            yield tab.evaluate
        return
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address(name))
    yield page.evaluate
    page.close()


@pytest.mark.parametrize(
    ("opened", "run"), [(run, run) for run in RUNS], indirect=["opened"], ids=str
)
def test_a_notebook_runs_whole(
    opened: Evaluate, run: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    kind, name = run
    begin = time.perf_counter()
    opened(RUN_ALL)
    seconds = time.perf_counter() - begin
    assert opened(STATUS) == "All cells have run"
    shown = opened(OUTPUTS)
    notebook = nbformat.read(BOOK / f"{name}.ipynb", as_version=4)
    stored = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert len(shown) == len(stored) > 0
    found = {
        (name, number): difference(*pair)
        for number, pair in enumerate(zip(shown, stored, strict=True), 1)
    }
    wrong = {place: words for place, words in found.items() if words}
    assert wrong.keys() == {place for place in EXCEPTIONS if place[0] == name}, wrong
    with capsys.disabled():
        print(f"\n{kind} {name}: {len(shown)} cells in {seconds:.1f} s")
