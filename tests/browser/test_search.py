"""The search page finds what a reader would type: names, claims, functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from conftest import AXE, AXE_RUN


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("A45", "reference/claims.html#A45"),
        ("N-12", "reference/claims.html#N-12"),
        ("Ogryczak", "selection/problem.html"),
        ("log-Newton", "reference/glossary.html"),
        ("Gumbel-max", "reference/glossary.html"),
        ("cocoercivity", "selection/smoothness.html"),
        ("grad_topk", "reference/api.html#softtopk.grad_topk"),
        ("温度", "reference/glossary.html"),
        ("光滑近似", "guide-zh.html"),
        ("稀疏", "guide-zh.html"),
        ("阈值", "reference/glossary.html"),
        ("二者兼之", "reference/post-10373.html"),
    ],
)
def test_search_finds(base: str, browser: Browser, words: str, page: str) -> None:
    tab = browser.new_page()
    tab.goto(f"{base}search.html?q={words}")
    tab.wait_for_selector("#search-results li a")
    links = tab.locator(f'#search-results li a[href*="{page}"]')
    links.first.wait_for()
    assert links.count() > 0
    tab.close()


@pytest.fixture
def results(
    base: str, browser: Browser, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """A telephone that has searched and shows every result with its formulas set."""
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(f"{base}search.html?q={request.param}")
    tab.wait_for_function(
        """() => {
          const items = [...document.querySelectorAll("#search-results li")];
          const waits = (item) => !/\\(.*, in .*\\)$/.test(item.innerText.trim());
          const told = (item) => item.querySelector(".context");
          const math = [...document.querySelectorAll("#search-results .math")];
          return (
            Search.status?.innerText.startsWith("Search finished") &&
            items.every((item) => told(item) || !waits(item)) &&
            math.every((formula) => formula.querySelector("mjx-container"))
          );
        }"""
    )
    yield tab
    tab.close()


def titles(tab: Page) -> list[str]:
    """The results in their order, without the numbers of chapters and sections."""
    links = tab.locator("#search-results li > a").all_inner_texts()
    return [re.sub(r"(^|> )[\d.]+ ", r"\1", text) for text in links]


def said(tab: Page, title: str) -> str:
    """What stands below the result of this title."""
    places = [i for i, text in enumerate(titles(tab)) if text == title]
    assert len(places) == 1, titles(tab)
    item = tab.locator("#search-results li").nth(places[0])
    return item.locator(".context").inner_text()


WORDS = ["cocoercivity", "threshold", "entropy"]


@pytest.mark.parametrize("results", WORDS, indirect=True)
def test_results_are_whole_words_and_set_formulas(results: Page) -> None:
    assert results.locator("#search-results mjx-container").count() > 0
    assert results.locator("#search-results mjx-merror").count() == 0
    text = results.locator("#search-results").inner_text()
    assert "\\" not in text
    results.evaluate(AXE)
    assert results.evaluate(AXE_RUN) == []
    assert results.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
