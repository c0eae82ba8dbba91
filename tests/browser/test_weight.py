"""What a page costs to load, and that it can be read before its formulas are set."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest
from conftest import SITE
from playwright.sync_api import Browser, BrowserContext

PARTS = ("distributions", "selection", "practice")
CHAPTERS = sorted(
    path.relative_to(SITE).as_posix()
    for part in PARTS
    for path in (SITE / "book" / part).glob("*.html")
)
PHONE = {"width": 390, "height": 844}

# Bytes, uncompressed, of everything that a first visit asks for. The book measured
# 2.53 MB and 2.78 MB: a seventh more is a change that somebody should have meant.
MEDIAN = 2_900_000
HEAVIEST = 3_200_000

WEIGHT = """async () => {
  await MathJax.startup.promise;
  await document.fonts.ready;
  const entries = [
    ...performance.getEntriesByType("navigation"),
    ...performance.getEntriesByType("resource"),
  ];
  return entries.map((e) => [e.name, e.decodedBodySize]);
}"""

UNSET = """() => {
  const seen = (e) => e.checkVisibility({ opacityProperty: true }) && e.innerText.trim();
  const prose = "article section > p, article section > div.math";
  const blocks = [...document.querySelectorAll(prose)];
  return {
    blocks: blocks.length,
    hidden: blocks.filter((e) => !seen(e) && !e.closest("details, .toggle-hidden"))
      .filter((e) => e.textContent.trim()).map((e) => e.textContent.slice(0, 60)),
    overflow: document.documentElement.scrollWidth - innerWidth,
    typeset: document.querySelectorAll("mjx-container").length,
  };
}"""


@pytest.fixture(scope="module")
def weights(base: str, browser: Browser) -> dict[str, dict[str, int]]:
    """Size of every file that each chapter asks for."""
    context = browser.new_context()
    found = {}
    for name in CHAPTERS:
        page = context.new_page()
        page.goto(base + name, wait_until="networkidle")
        found[name] = {
            address.removeprefix(base): size for address, size in page.evaluate(WEIGHT)
        }
        page.close()
    context.close()
    return found


def test_chapters_keep_to_their_budget(
    weights: dict[str, dict[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    totals = {name: sum(files.values()) for name, files in weights.items()}
    heaviest = max(totals, key=totals.__getitem__)
    middle = median(totals.values())
    with capsys.disabled():
        print(
            f"\nFirst load, uncompressed: median chapter {middle / 1e6:.2f} MB, "
            f"heaviest {heaviest} {totals[heaviest] / 1e6:.2f} MB"
        )
    assert 0 < middle <= MEDIAN
    assert totals[heaviest] <= HEAVIEST


def test_the_weight_counts_scripts_and_fonts(
    weights: dict[str, dict[str, int]],
) -> None:
    files = weights[CHAPTERS[0]]
    assert files[CHAPTERS[0]] == (SITE / CHAPTERS[0]).stat().st_size
    for ending in ("tex-chtml.js", ".woff", ".woff2", ".css"):
        sizes = [size for name, size in files.items() if name.endswith(ending)]
        sizes += [s for name, s in files.items() if f"{ending}?" in name]
        assert sizes
        assert all(sizes)


@pytest.fixture(scope="module")
def early(browser: Browser) -> Iterator[BrowserContext]:
    """A telephone on which the script of the formulas never arrives."""
    context = browser.new_context(viewport=PHONE)
    context.route("**/tex-chtml.js", lambda route: route.abort())
    yield context
    context.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_text_does_not_wait_for_the_formulas(
    early: BrowserContext, base: str, name: str
) -> None:
    page = early.new_page()
    page.goto(base + name)
    facts: dict[str, Any] = page.evaluate(UNSET)
    page.close()
    assert facts["typeset"] == 0
    assert facts["blocks"] > 0
    assert facts["hidden"] == []
    assert facts["overflow"] <= 0
