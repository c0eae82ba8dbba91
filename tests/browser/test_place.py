"""The place of the reader, while formulas change the height of a page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from conftest import settle

PHONE = {"width": 390, "height": 844}
CHAPTER = "book/selection/problem.html"
LEFT = """() => {
  const folds = [...document.querySelectorAll("details.fold")];
  folds[0].open = true;
  const parts = [...document.querySelectorAll("article section > p")].filter(
    (part) => !part.closest(".toggle-hidden"));
  const part = parts[Math.floor(0.8 * parts.length)];
  part.scrollIntoView({ behavior: "instant" });
}"""
TOPS = """() => [...document.querySelectorAll("article section > p")].map(
  (part) => Math.round(part.getBoundingClientRect().top))"""
TOP = "e => e.getBoundingClientRect().top"
OPEN = "() => document.querySelectorAll('article details[open]').length"


def still(page: Page) -> None:
    """Wait until every formula stands and what follows from it is done."""
    settle(page)
    page.wait_for_timeout(500)


def test_the_way_back_leads_to_where_the_reader_was(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(base + CHAPTER)
    still(page)
    page.evaluate(LEFT)
    page.wait_for_timeout(100)
    tops, folds = page.evaluate(TOPS), page.evaluate(OPEN)
    page.goto(base + "genindex.html")
    page.go_back()
    still(page)
    assert page.evaluate(OPEN) == folds
    assert all(
        abs(one - other) <= 2
        for one, other in zip(tops, page.evaluate(TOPS), strict=True)
    )
    page.close()


@pytest.mark.parametrize("moves", [False, True], ids=["still", "scrolls"])
def test_a_row_that_a_link_leads_to_stays_in_sight(
    base: str, browser: Browser, moves: bool
) -> None:
    page = browser.new_page(viewport=PHONE)
    held: list[Any] = []
    page.route("**/tex-chtml.js*", lambda route: held.append(route))
    page.goto(f"{base}book/reference/claims.html#A69", wait_until="commit")
    page.locator("#A69").wait_for()
    page.wait_for_timeout(200)
    if moves:  # who goes elsewhere meanwhile is left there
        # On a busy machine the row may not be in sight yet.
        page.wait_for_function(f"() => ({TOP})(document.querySelector('#A69')) < 300")
        page.mouse.wheel(0, -3000)
        page.wait_for_function(f"() => ({TOP})(document.querySelector('#A69')) > 300")
    for route in held:
        route.continue_()
    still(page)
    top = page.locator("#A69").evaluate(TOP)
    bar = page.locator(".bd-header-article").bounding_box()
    assert bar is not None
    assert (bar["height"] + 60 <= top < 300) is not moves
    page.close()
