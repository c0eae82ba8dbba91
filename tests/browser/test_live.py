"""Cells that run in the page: from a folder, with no network, in two browsers.

Every run takes a notebook of each Part in Chromium and one in Firefox; ``LIVE=all``
takes every notebook in both.
"""

from __future__ import annotations

import ast
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
from playwright.sync_api import Browser, Page

from conftest import AXE, ROOT, SITE, settle

BOOK = ROOT / "book"


def needs(path: Path) -> set[str]:
    """The frameworks that the cells of a notebook import."""
    cells = nbformat.read(path, as_version=4).cells
    nodes = [
        node
        for cell in cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
    ]
    names = [
        a.name for node in nodes if isinstance(node, ast.Import) for a in node.names
    ]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {
        framework
        for name in names
        for framework in ("torch", "jax", "dask")
        if framework in name.split(".")[:2]
    }


NEEDS = {
    path.relative_to(BOOK).with_suffix("").as_posix(): needs(path)
    for path in sorted(BOOK.glob("*/*.ipynb"))
}
ALL = [name for name, found in NEEDS.items() if not found]
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
# Seconds after which the first result counts as late. A quiet machine needs ten, and
# the times are printed; the limit finds what hangs.
FIRST_RESULT = float(os.environ.get("FIRST_RESULT", "60"))
PATIENCE = 300_000  # milliseconds, for a busy machine


def click(selector: str) -> str:
    """A script that presses a button and waits until nothing runs."""
    return f"""() => new Promise((resolve) => {{
  document.querySelector("{selector}").click();
  const panel = document.querySelector(".live-panel");
  const [stop] = panel.querySelectorAll("button");
  const look = () => stop.hidden && (watch.disconnect(), resolve());
  const watch = new MutationObserver(look);
  watch.observe(stop, {{ attributes: true }});
}})"""


RUN_ALL = click(".fold-switch button")
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
    opened: Evaluate, run: tuple[str, str], record_property: Callable[[str, str], None]
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
    record_property("took", f"{kind} {name}: {len(shown)} cells in {seconds:.1f} s")


# --- What a reader does ---------------------------------------------------------------

PAGE = "book/distributions/softmax.html"
AXE_LIVE = """async () => {
  const live = [".live-panel", ".live-output", ".live-try", ".cell_input"];
  const include = live.filter((part) => document.querySelector(part));
  include.push(".fold-switch");
  const options = { resultTypes: ["violations"], preload: false };
  const found = await axe.run({ include }, options);
  return found.violations.map(
    (v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(" | ")}`);
}"""
# Buttons that are not whole inside the box of their code, or lie on it.
STRADDLING = """() => [...document.querySelectorAll(".live-tools")]
  .filter((tools) => tools.checkVisibility())
  .filter((tools) => {
    const input = tools.closest(".cell_input");
    const [here, box] = [tools, input].map((node) => node.getBoundingClientRect());
    const code = input.querySelector(".highlight pre").getBoundingClientRect();
    return here.bottom > box.bottom || here.top < code.bottom;
  }).map((tools) => tools.ariaLabel)"""
# How many of the book's outputs of cell 2 are in sight; the sizes of code and editor.
PRINTED = """() => [...document.querySelector("#live-cell-2").closest(".cell")
  .querySelectorAll(".cell_output:not(.live-output)")]
  .filter((node) => node.checkVisibility()).length"""
SIZES = """() => [...document.querySelectorAll(".cm-line, .cell_input .highlight pre")]
  .filter((node) => node.checkVisibility())
  .map((node) => getComputedStyle(node).fontSize)"""
ANSWER = """q = sp.symbols("q", positive=True)
excess = q * (sp.log(1 - q) - sp.log(q)) + sp.log(1 - q)"""


def press(page: Page, name: str) -> None:
    """Press a button by its name."""
    page.get_by_role("button", name=name, exact=True).press("Enter")


def rest(page: Page) -> str:
    """Wait until nothing runs; what the panel says then."""
    page.wait_for_function("() => document.querySelector('.live-panel button').hidden")
    return page.locator(".live-status").inner_text()


def write(page: Page, label: str, text: str) -> None:
    """Put a text into an editor, by the keyboard, and run it."""
    page.get_by_role("textbox", name=label, exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Shift+Enter")


def shown(page: Page, name: str) -> str:
    """What a cell has shown."""
    return page.locator(f"#live-{name}").inner_text()


def faults(page: Page) -> list[str]:
    """What axe finds in what is there to run cells, in both schemes and two widths."""
    found = []
    for scheme in ("light", "dark"):
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found += page.evaluate(AXE_LIVE)
            wide = "() => document.documentElement.scrollWidth - innerWidth"
            assert page.evaluate(wide) <= 0
    return found


@pytest.fixture
def page(base: str, browser: Browser) -> Iterator[Page]:
    """A chapter, served, as it is before a reader asks for anything."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


def test_a_reader_changes_and_runs_cells(
    page: Page,
    base: str,
    subtests: pytest.Subtests,
    record_property: Callable[[str, str], None],
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(base + PAGE)
    settle(page)
    page.evaluate(AXE)
    with subtests.test("nothing is loaded before a reader asks"):
        assert not [url for url in asked if "/_static/live/" in url]
        names = ("live.js", "live.css")
        assert sum((SITE / "_static" / n).stat().st_size for n in names) <= FIRST_LOAD
        assert sum("/live." in url for url in asked) == len(names)
    with subtests.test("a reader knows before how much a run loads"):
        files = (SITE / "_static" / "live").glob("*.*.js")
        size = sum(path.stat().st_size for path in files) / 1e6
        told = page.locator(".live-size").inner_text()
        assert abs(float(told.split()[1]) - size) <= 1 and told.endswith(" MB")
    with subtests.test("the buttons stand in the box of the code, below it"):
        cut = page.evaluate(STRADDLING)
        assert cut == []
    with subtests.test("axe finds nothing before"):
        assert faults(page) == []
    with subtests.test("the first result comes soon"):
        begin = time.perf_counter()
        press(page, "Run cell 2")
        page.locator("#live-cell-2").wait_for()
        seconds = time.perf_counter() - begin
        record_property("took", f"first result after {seconds:.1f} s")
        assert seconds <= FIRST_RESULT
    with subtests.test("the same result is shown once"):
        rest(page)
        assert [page.evaluate(PRINTED), shown(page, "cell-2") != ""] == [0, True]
    with subtests.test("edited code is as large as the rest"):
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert len(set(page.evaluate(SIZES))) == 1
    with subtests.test("the panel can be closed, and the next run shows it"):
        rest(page)
        assert page.locator(".live-size").count() == 0
        press(page, "Close this panel")
        assert not page.locator(".live-panel").is_visible()
        focused = "() => document.activeElement.ariaLabel"
        assert page.evaluate(focused) == "Run cell 2"
        press(page, "Run cell 2")
        assert rest(page) == "Cell 2 has run"
        assert page.locator(".live-panel").is_visible()
    with subtests.test("who is in an editor is told its keys"):
        keys = page.locator(".live-keys").first
        assert not keys.is_visible()
        page.get_by_role("textbox", name="Code of cell 2", exact=True).focus()
        assert keys.is_visible()
        frame = "e => parseFloat(getComputedStyle(e).outlineWidth)"
        assert page.locator(".live-editor").first.evaluate(frame) >= 2
    with subtests.test("a changed cell shows another result"):
        before = shown(page, "cell-2")
        write(page, "Code of cell 2", "shares = [0.25 / 2]\nshares")
        rest(page)
        assert shown(page, "cell-2") != before
        assert "with your changes" in shown(page, "cell-2")
        assert "[0.125]" in shown(page, "cell-2")
        assert page.evaluate(PRINTED) == 1  # to compare with
    with subtests.test("a change can be undone"):
        press(page, "Undo the changes of cell 2")
        press(page, "Run cell 2")
        rest(page)
        assert shown(page, "cell-2") == before
    with subtests.test("a figure is an image with a text"):
        page.get_by_text("Plot code").first.click()
        press(page, "Run cell 3")
        rest(page)
        image = page.locator("#live-cell-3 img")
        assert image.evaluate("image => image.naturalWidth") > 200
        assert len(image.get_attribute("alt") or "") > 40
    with subtests.test("the arrow keys move among the buttons of a cell"):
        page.get_by_role("button", name="Run cell 5", exact=True).focus()
        page.keyboard.press("ArrowLeft")
        name = "() => document.activeElement.ariaLabel"
        assert page.evaluate(name) == "Edit cell 5"
        page.keyboard.press("ArrowRight")
        assert page.evaluate(name) == "Run cell 5"
        tools = page.locator(".live-tools", has=page.locator(":focus"))
        assert tools.locator("[tabindex='0']").count() == 1
    with subtests.test("a cell above that was left out leaves no old names"):
        write(page, "Code of cell 2", "shares = [0.25 / 2]\nshares")
        rest(page)
        press(page, "Edit cell 5")
        write(page, "Code of cell 5", "shares")
        assert rest(page) == "Cell 5 has run"
        assert "[0.125]" in shown(page, "cell-5")
        press(page, "Undo the changes of cell 5")
    with subtests.test("an error says where it is"):
        write(page, "Code of cell 2", "shares = 1\nshares / 0")
        assert rest(page).startswith(
            "Cell 2 failed: ZeroDivisionError: division by zero"
        )
        assert 'File "cell 2", line 2' in shown(page, "cell-2")
    with subtests.test("an answer is checked"):
        press(page, "Undo the changes of cell 2")
        press(page, "Try Exercise 1.1 here")
        page.get_by_role("textbox", name="Code of your cell of Exercise 1.1").wait_for()
        press(page, "Check your cell of Exercise 1.1")
        assert "says nothing of your answer" in rest(page)
        page.get_by_role("textbox", name="Code of your cell of Exercise 1.1").focus()
        page.keyboard.insert_text(ANSWER)
        press(page, "Check your cell of Exercise 1.1")
        assert rest(page) == "The check passes with your q, excess."
        page.keyboard.press("Tab")
        page.get_by_role("textbox", name="Code of your cell of Exercise 1.1").focus()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(ANSWER.replace("+ sp.log", "- sp.log"))
        press(page, "Check your cell of Exercise 1.1")
        assert rest(page) == "The check fails with your q, excess."
    with subtests.test("axe finds nothing after"):
        assert faults(page) == []
    with subtests.test("a run can be stopped"):
        write(page, "Code of cell 2", "while True:\n    pass")
        page.get_by_text("Running cell 2").wait_for()
        press(page, "Stop")
        assert rest(page).startswith("Stopped.")
        editor = page.get_by_role("textbox", name="Code of cell 2")
        assert "while True" in editor.inner_text()
        write(page, "Code of cell 2", "6 * 7")
        assert rest(page) == "Cell 2 has run"
        assert shown(page, "cell-2").endswith("42")
    with subtests.test("the page can be reset"):
        page.once("dialog", lambda dialog: dialog.dismiss())
        press(page, "Reset the page")
        assert page.get_by_role("textbox", name="Code of cell 2").is_visible()
        page.once("dialog", lambda dialog: dialog.accept())
        press(page, "Reset the page")
        assert page.locator(".live-output, .live-editor").count() == 0
        assert not page.locator(".live-panel").is_visible()
        name = page.evaluate("() => document.activeElement.ariaLabel")
        assert name == "Run all cells of this page"


# --- From page to page ----------------------------------------------------------------

OTHER = "book/selection/problem.html"
RUN_ONE = click("[aria-label='Run cell 2']")
LOADED = """() => performance.getEntriesByType("resource")
  .map((entry) => entry.name)
  .filter((name) => name.includes("/live/"))
  .map((name) => name.split("/").pop())"""
NAME = "() => sessionStorage['softtopk-python']"

# Whether the interpreter of a name has been started; null when it does not answer.
STARTED = """(name) => new Promise((resolve) => {
  const options = { name, extendedLifetime: true };
  const address = new URL("../../_static/live/worker.js", location.href);
  const { port } = new SharedWorker(address, options);
  port.onmessage = ({ data }) => data.kind === "done" && resolve(data.ready);
  setTimeout(() => resolve(null), 30000);
  const paper = URL.createObjectURL(new Blob());
  port.postMessage({ task: "start", id: 1, paper });
})"""


@pytest.fixture(params=["chromium", "firefox"])
def tab(
    request: pytest.FixtureRequest, browser: Browser, tmp_path: Path
) -> Iterator[Any]:
    """A tab of each browser; both go to a page and evaluate what they are asked."""
    if request.param == "firefox":
        with firefox(tmp_path) as one:
            yield one
        return
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    yield page
    page.close()


def test_the_interpreter_survives_a_change_of_page(
    tab: Any, base: str, record_property: Callable[[str, str], None]
) -> None:
    tab.goto(base + PAGE)
    tab.evaluate(RUN_ONE)
    assert "index.js" in tab.evaluate(LOADED)
    tab.goto(base + OTHER)
    begin = time.perf_counter()
    tab.evaluate(RUN_ONE)
    seconds = time.perf_counter() - begin
    assert tab.evaluate(STATUS) == "Cell 2 has run"
    assert set(tab.evaluate(LOADED)) <= {"worker.js", "editor.js"}
    record_property("took", f"first result on the next page after {seconds:.1f} s")


def endless(page: Page, base: str) -> str:
    """Begin a run without an end; the name of the interpreter that has it."""
    page.goto(base + PAGE)
    press(page, "Edit cell 2")
    write(page, "Code of cell 2", "while True:\n    pass")
    page.get_by_text("Running cell 2").wait_for()
    return str(page.evaluate(NAME))


def test_what_is_stopped_ends(page: Page, base: str) -> None:
    name = endless(page, base)
    press(page, "Stop")
    assert rest(page).startswith("Stopped.")
    assert page.evaluate(NAME) is None
    page.wait_for_timeout(2000)
    assert page.evaluate(STARTED, name) is False  # a new one: the old one has ended


def test_a_page_that_is_left_stops_what_it_runs(page: Page, base: str) -> None:
    name = endless(page, base)
    page.goto(base + OTHER)
    assert page.evaluate(NAME) == name
    assert page.evaluate(STARTED, name) is True


def test_without_webassembly_the_page_says_so(page: Page, base: str) -> None:
    page.add_init_script("delete window.WebAssembly")
    page.goto(base + PAGE)
    press(page, "Run all cells of this page")
    words = rest(page)
    assert "no WebAssembly" in words
    assert "download the notebook" in words


@pytest.mark.parametrize("name", [name for name, found in NEEDS.items() if found])
def test_a_page_that_needs_a_framework_says_so(
    page: Page, base: str, name: str
) -> None:
    page.goto(f"{base}book/{name}.html")
    words = page.locator(".live-needs").inner_text()
    for framework in NEEDS[name]:
        assert framework in words.lower()
    assert page.get_by_role("button", name="Run").count() == 0
