"""How long *Which one to use* is, and what fits a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from conftest import settle

# Pixels: three screens, what is above and below the text, and costs and curves, for
# which readers went to another page before.
CHOOSING = 3 * 900 + 280 + 270

HEIGHT = "() => document.querySelector('main').scrollHeight"


def test_which_one_to_use_is_a_short_page(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(base + "book/practice/choosing.html")
    settle(page)
    assert page.evaluate(HEIGHT) <= CHOOSING
    page.close()


def test_tables_of_results_fit_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(base + "book/selection/compared.html")
    settle(page)
    wide = """() => [...document.querySelectorAll(".cell_output table")].filter(
      (one) => one.scrollWidth > one.closest(".cell_output").clientWidth).length"""
    assert page.locator(".cell_output table").count() > 1
    assert page.evaluate(wide) == 0
    page.close()


# The labels of a figure: the height of their letters' box in pixels, from how many
# pixels a unit of the drawing takes. Matplotlib writes a size of 10 as "scale(0.1".
LABELS = """(name) => [...document.querySelectorAll(`#${name} svg`)].flatMap((svg) => {
  const unit = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const size = (text) => /scale\\(([\\d.]+)/.exec(text.getAttribute("transform"))[1];
  return [...svg.querySelectorAll("g[transform*='scale(']")].map((text) =>
    100 * unit * parseFloat(size(text)));
})"""


@pytest.mark.parametrize(
    ("page", "figure"),
    [
        pytest.param("threshold", "fig-threshold-experts", id="two panels"),
        pytest.param("family", "fig-family-router", id="three panels"),
        pytest.param("gradient", "fig-gradient-pairs", id="numbers in cells"),
        pytest.param("threshold", "fig-threshold-ties", id="labels of lines"),
    ],
)
def test_the_labels_of_a_figure_can_be_read_on_a_phone(
    base: str, browser: Browser, page: str, figure: str
) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.route("**/tex-chtml.js*", lambda route: route.abort())
    tab.goto(f"{base}book/selection/{page}.html")
    sizes = tab.evaluate(LABELS, figure)
    assert len(sizes) > 20
    assert min(sizes) >= 11
    tab.close()
