"""Folded cells: their line, colour and anchor, and what stays in sight."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from small_book import notebook_of, printed, run_sphinx, shown

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))

import folds  # noqa: E402
from claims import cells  # noqa: E402

# Sphinx and MyST-NB use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")

LEDGER = r"""
sources:
  post: {title: A post, url: "https://example.org/post", covers: the text}
claims:
  - {id: A1, source: post, section: Part, statement: 'The sum $\sum_i p_i$ is `k`, see
     A2.', verdict: holds, check: chapter}
  - {id: A2, source: post, section: Part, statement: It is at most one., check: chapter,
     verdict: refuted, note: no}
results: []
"""
INDEX = """# Index

```{toctree}
chapter
```

```{claim-ledger} claims
```
"""
A1 = 'with verify.claim("A1", "holds"):\n    assert total == k'
A2 = 'with verify.claim("A2", "refuted"):\n    assert largest > 1'
DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)


def build(folder: Path, *parts: object) -> tuple[BeautifulSoup, str]:
    """The chapter of a small book, and the warnings of its build."""
    (folder / "index.md").write_text(INDEX)
    (folder / "claims.yml").write_text(LEDGER)
    (folder / "chapter.ipynb").write_text(notebook_of("# Chapter\n\nText.", *parts))
    settings = {
        "extensions": ["myst_nb", "claims", "folds"],
        "claims_file": "claims.yml",
        "nb_execution_mode": "off",
        "myst_enable_extensions": ["dollarmath"],
        "nitpicky": True,
        "html_theme": "basic",
    }
    warnings = run_sphinx(folder, folder / "html", settings)
    text = (folder / "html" / "chapter.html").read_text(encoding="utf8")
    return BeautifulSoup(text, "html.parser"), warnings


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """A chapter with a cell of each kind."""
    two = f"{A1}\n{A2}"
    page, warnings = build(
        tmp_path_factory.mktemp("folds"),
        ("import numpy", ("imports",), []),
        ("def f(): ...", ("helpers",), []),
        ("x = 1\nx", (), [printed("1")]),
        (two, ("claim-A1", "claim-A2"), [printed("✓ A1 checked\n✓ A2 checked\n")]),
        ("# Ties are `kept`.\nassert x", ("check",), [shown("text/latex", "$x^2$")]),
        ("draw(x)", ("plot", "hide-input"), [shown("image/png", DOT)]),
    )
    assert warnings == ""
    return page


def only(page: BeautifulSoup, kind: str) -> Tag:
    (fold,) = page.select(f"details.fold-{kind}")
    return fold


def line(fold: Tag) -> str:
    return " ".join(fold.summary.get_text().split())


def test_an_open_cell_is_not_folded(page: BeautifulSoup) -> None:
    assert len(page.select("details")) == 5
    (cell,) = (c for c in page.select("div.cell") if "x = 1" in c.get_text())
    assert cell.find("details") is None


def test_a_claim_says_what_it_checks(page: BeautifulSoup) -> None:
    fold = only(page, "claim")
    words = r"The sum \(\sum_i p_i\) is k, see A2."
    assert line(fold) == f"✓ A1, A2 checked holds refuted {words}"
    assert fold.summary.select_one(".math")
    assert fold.summary.code.text == "k"
    marks = [mark["class"] for mark in fold.summary.select(".claim-badge")]
    assert marks == [
        ["claim-badge", "claim-badge-holds"],
        ["claim-badge", "claim-badge-refuted"],
    ]
    assert "claim-item-holds" in fold["class"]
    # A link in the line would be out of a screen reader's reach.
    assert fold.summary.find("a") is None
    links = [link["href"] for link in fold.select("p.claim-check a")]
    assert links == ["index.html#A1", "index.html#A2"]
    assert "✓ A2 checked" in fold.select_one(".cell_output").get_text()


def test_each_claim_has_its_anchor_in_sight(page: BeautifulSoup) -> None:
    fold = only(page, "claim")
    assert fold["id"] == "check-A1"
    assert fold.summary.select_one("#check-A2")
    assert len(page.select("[id=check-A1]")) == 1


def test_a_check_says_its_first_line(page: BeautifulSoup) -> None:
    fold = only(page, "check")
    assert line(fold) == "✓ checked: Ties are kept."
    assert "assert" in fold.get_text()


def test_what_is_to_be_seen_stays_in_sight(page: BeautifulSoup) -> None:
    for kind, what in (("plot", "img"), ("check", ".math")):
        fold = only(page, kind)
        assert fold.select_one(what) is None
        cell = fold.find_parent(class_="cell")
        assert cell.select_one(f":scope > .cell_output {what}")


def test_a_figure_stands_above_its_code(page: BeautifulSoup) -> None:
    fold = only(page, "plot")
    assert fold.find_previous_sibling(class_="cell_output").select_one("img")
    assert fold.find_next_sibling() is None
    fold = only(page, "check")
    assert fold.find_next_sibling(class_="cell_output").select_one(".math")


def test_plots_imports_and_helpers_have_a_name(page: BeautifulSoup) -> None:
    assert line(only(page, "plot")) == "Plot code"
    assert line(only(page, "imports")) == "Imports"
    assert line(only(page, "helpers")) == "Helpers"
    spoken = [only(page, kind).summary["aria-label"] for kind in folds.NAMES]
    assert spoken == ["Plot code", "Imports: numpy", "Helpers: f"]
    assert page.select_one("details.hide") is None  # MyST-NB's own


def test_a_page_with_folds_has_one_switch(page: BeautifulSoup, tmp_path: Path) -> None:
    (switch,) = page.select(".fold-switch input[role=switch]")
    assert switch.parent.name == "label"
    assert switch.parent.get_text().strip() == "Show all code and checks"
    assert page.h1.find_next_sibling()["class"] == ["fold-switch"]
    bare, _ = build(tmp_path, ("x = 1", (), []))
    assert bare.select(".fold-switch") == []


def test_a_check_without_words_is_a_warning(tmp_path: Path) -> None:
    _, warnings = build(tmp_path, ("assert x", ("check",), []))
    assert "must be a comment that says what it checks" in warnings


def test_a_wrong_verdict_is_not_folded_away(tmp_path: Path) -> None:
    wrong = A1.replace("holds", "refuted")
    page, warnings = build(tmp_path, (wrong, ("claim-A1",), []))
    assert "claim A1 has verdict 'holds'; its cell says 'refuted'" in warnings
    assert page.select("details") == []


@pytest.mark.parametrize("module", [folds, cells])
def test_examples_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0
