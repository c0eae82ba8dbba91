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


def test_which_one_to_use_is_a_short_page(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(base + "book/practice/choosing.html")
    settle(page)
    assert page.evaluate(HEIGHT) <= CHOOSING
    page.close()


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
    base: str, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.route("**/tex-chtml.js*", lambda route: route.abort())  # code has no formulas
    found = []
    for name in CHAPTERS:
        page.goto(base + name)
        page.evaluate("async () => { await document.fonts.ready }")
        found.append(page.evaluate(WIDE))
    page.close()
    wide, every = (sum(counts) for counts in zip(*found, strict=True))
    with capsys.disabled():
        print(f"\nOpen blocks of code that scroll at 390 px: {wide} of {every}")
    assert every > 0
    assert wide <= SIDEWAYS
