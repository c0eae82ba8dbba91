"""How long *Which one to use* is, and how much code a phone must scroll sideways."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from test_weight import CHAPTERS

from conftest import settle

CHOOSING = 3 * 900 + 280  # pixels: three screens, and what is above and below the text
SIDEWAYS = 4  # open blocks of code in the whole book that do not fit a phone

HEIGHT = "() => document.querySelector('main').scrollHeight"
WIDE = """() => {
  const open = [...document.querySelectorAll("article .cell_input pre")].filter(
    (pre) => pre.checkVisibility());
  const wide = open.filter((pre) => pre.scrollWidth > pre.clientWidth + 1);
  return [wide.length, open.length];
}"""


@pytest.fixture(scope="module")
def measures(base: str, browser: Browser) -> dict[str, tuple[int, int, int]]:
    """Of each chapter: its height, and its blocks of code, too wide and all."""
    found = {}
    for name in CHAPTERS:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(60_000)
        page.goto(base + name)
        settle(page)
        height = page.evaluate(HEIGHT)
        page.set_viewport_size({"width": 390, "height": 844})
        found[name] = (height, *page.evaluate(WIDE))
        page.close()
    return found


def test_which_one_to_use_is_a_short_page(
    measures: dict[str, tuple[int, int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    heights = {name: height for name, (height, _, _) in measures.items()}
    with capsys.disabled():
        print("\nHeights at 1440 px:")
        for name, height in sorted(heights.items(), key=lambda pair: -pair[1]):
            print(f"  {height:6d} {name}")
    assert heights["book/practice/choosing.html"] <= CHOOSING


def test_tables_of_results_fit_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(base + "book/practice/evidence.html")
    settle(page)
    wide = """() => [...document.querySelectorAll(".cell_output table")].filter(
      (one) => one.scrollWidth > one.closest(".cell_output").clientWidth).length"""
    assert page.locator(".cell_output table").count() > 3
    assert page.evaluate(wide) == 0
    page.close()


def test_code_fits_a_phone(
    measures: dict[str, tuple[int, int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    wide = sum(wide for _, wide, _ in measures.values())
    every = sum(every for _, _, every in measures.values())
    with capsys.disabled():
        print(f"\nOpen blocks of code that scroll at 390 px: {wide} of {every}")
    assert every > 0
    assert wide <= SIDEWAYS
