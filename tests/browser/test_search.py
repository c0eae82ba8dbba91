"""The search page finds what a reader would type: names, claims, functions."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("A45", "reference/claims.html#A45"),
        ("N-12", "reference/claims.html#N-12"),
        ("Ogryczak", "selection/problem.html"),
        ("log-Newton", "reference/glossary.html"),
        ("Gumbel-max", "reference/glossary.html"),
        ("cocoercivity", "selection/rates.html"),
        ("grad_topk", "reference/api.html#softtopk.grad_topk"),
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
