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


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("mixture of experts", "recipes/mixture-of-experts.html"),
        ("sparse autoencoder", "recipes/sparse-autoencoder.html"),
        ("recall", "recipes/recall-at-k.html"),
        ("top-5", "recipes/top-5.html"),
        ("learning to rank", "recipes/ranking.html"),
        ("learned budget", "recipes/learned-budget.html"),
        ("annealing", "recipes/annealing.html"),
    ],
)
def test_a_recipe_is_among_the_first_three(
    base: str, browser: Browser, words: str, page: str
) -> None:
    tab = browser.new_page()
    tab.goto(f"{base}search.html?q={words}")
    tab.wait_for_function(
        "() => Search.status?.innerText.startsWith('Search finished')"
    )
    links = tab.locator("#search-results > ul > li > a, #search-results > li > a")
    first = [link.get_attribute("href") or "" for link in links.all()[:3]]
    tab.close()
    assert any(page in href for href in first), first


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


WORDS = ["cocoercivity", "threshold", "entropy", "hypergeometric"]


@pytest.mark.parametrize("results", WORDS, indirect=True)
def test_results_are_whole_words_and_set_formulas(results: Page) -> None:
    assert results.locator("#search-results mjx-container").count() > 0
    assert results.locator("#search-results mjx-merror").count() == 0
    text = results.locator("#search-results").inner_text()
    assert "\\" not in text
    results.evaluate(AXE)
    assert results.evaluate(AXE_RUN) == []
    assert results.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


JACOBIAN = "The Jacobian of softmax: how fast the shares move and when they stop"


@pytest.mark.parametrize("results", ["cocoercivity"], indirect=True)
def test_a_theorem_is_named_and_stated(results: Page) -> None:
    theorem = said(results, f"{JACOBIAN} > Cocoercivity")
    assert re.match(r"Corollary \d+\.\d+ \(Cocoercivity\) Let", theorem)
    assert "Lipschitz at once" in said(results, "Glossary > cocoercivity")
    section = re.compile(r"^[\d.]+ Lipschitz constants$")
    results.locator(".search-place", has_text=section).click()
    results.wait_for_url("**/smoothness.html#lipschitz-constants")
    assert results.locator("section#lipschitz-constants").count() == 1


# Porter's stem of it, "entropi", is in no text.
@pytest.mark.parametrize("results", ["entropy"], indirect=True)
def test_a_word_is_found_by_itself_and_not_its_stem(results: Page) -> None:
    title = "Softmax: from scores to probabilities"
    assert "entropy" in said(results, title).lower()


THRESHOLD = "The threshold construction: a smooth top-k from any curve"


@pytest.mark.parametrize("results", ["threshold"], indirect=True)
def test_a_page_on_the_words_comes_first(results: Page) -> None:
    found = titles(results)
    assert found[0] == THRESHOLD
    assert found[1] == "Finding the threshold"  # it builds on the first one
    assert said(results, THRESHOLD).startswith("The hard top-")


@pytest.mark.parametrize("results", ["sigmoid newton"], indirect=True)
def test_the_word_that_the_title_lacks_decides(results: Page) -> None:
    title = "When the sigmoid’s threshold has a formula"
    assert "newton" in said(results, title).lower()


@pytest.mark.parametrize("results", ["linspace"], indirect=True)
def test_code_is_shown_where_no_prose_has_the_word(results: Page) -> None:
    assert "np.linspace(" in said(results, THRESHOLD)
    assert results.locator("#search-results .context > code").count() > 0


SPARSEMAX = "Sparsemax: probabilities that can be exactly zero"
FIRST = [
    ("sparsemax", SPARSEMAX),
    ("sparsemax jacobian", SPARSEMAX),
    ("jacobian sparsemax", SPARSEMAX),
    (
        "straight through",
        "In your training loop: temperature, hard forward pass, masks, precision",
    ),
    ("sigmoid gradient", "The sigmoid curve: a gradient for every score"),
    (
        "laplace gradient",
        "The Laplace curve: a closed form and a continuous derivative",
    ),
    ("pytorch", "PyTorch, JAX and Dask"),
    ("mixture of experts", "Training the router of a mixture of experts"),
    ("load balancing", "Load balancing: keeping every expert busy"),
]


@pytest.mark.parametrize(
    ("results", "title"), FIRST, indirect=["results"], ids=[words for words, _ in FIRST]
)
def test_the_chapter_named_by_the_words_comes_first(results: Page, title: str) -> None:
    assert titles(results)[0] == title


def test_the_marks_of_a_search_stay_on_the_page_that_it_opened(
    base: str, browser: Browser
) -> None:
    tab = browser.new_page()
    tab.goto(f"{base}search.html?q=cocoercivity")
    tab.locator("#search-results li a").first.click()
    tab.wait_for_load_state()
    tab.locator(".highlighted").first.wait_for()
    tab.goto(f"{base}search.html?q=cocoercivity")
    tab.wait_for_selector("#search-results li a")
    tab.goto(f"{base}book/selection/smoothness.html")
    tab.wait_for_load_state("networkidle")
    assert tab.locator(".highlighted").count() == 0
    tab.close()


def test_a_mark_is_a_word(base: str, browser: Browser) -> None:
    inside = """all => all.filter((mark) => {
      const before = mark.previousSibling?.textContent.at(-1) ?? "";
      const after = mark.nextSibling?.textContent[0] ?? "";
      return /[a-z]/i.test(before) || mark.textContent === "k" && /[a-z]/i.test(after);
    }).map((mark) => mark.parentElement.textContent.slice(0, 80))"""
    tab = browser.new_page()
    tab.goto(f"{base}search.html?q=top-k")
    tab.locator("#search-results .highlighted").first.wait_for()
    tab.wait_for_load_state("networkidle")
    assert tab.locator("#search-results .highlighted", has_text="k").count() > 0
    assert tab.locator("#search-results .highlighted").evaluate_all(inside) == []
    tab.locator("#search-results li a").first.click()
    tab.locator("article .highlighted", has_text="top").first.wait_for()
    assert tab.locator("article .highlighted").evaluate_all(inside) == []
    tab.close()


def test_only_the_text_has_marks(base: str, browser: Browser) -> None:
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    tab.goto(f"{base}book/selection/threshold.html?highlight=threshold")
    tab.locator("article .highlighted").first.wait_for()
    assert tab.locator("nav", has_text="threshold").count() > 0  # there to be marked
    assert tab.locator(".highlighted:not(article *)").count() == 0
    tab.close()


@pytest.mark.parametrize("results", ["temperature"], indirect=True)
def test_pages_that_only_mention_a_word_come_last_and_few(results: Page) -> None:
    seen = results.locator("#search-results li:visible > a").all_inner_texts()
    every = titles(results)
    assert len(seen) < len(every) / 2
    assert "Glossary > temperature" in seen and "Glossary" not in seen
    results.get_by_role("button", name="more pages").press("Enter")
    shown = results.locator("#search-results li:visible > a").count()
    assert shown == len(every) - 1  # the glossary's page is there by its term
    assert results.evaluate("() => document.activeElement.matches('li > a')")


@pytest.mark.parametrize("results", ["threshold", "cocoercivity"], indirect=True)
def test_the_search_says_what_it_counts(results: Page) -> None:
    told = results.evaluate("() => Search.status.innerText")
    rows = results.locator("#search-results li").count()
    # the page of the glossary, for which its terms stand
    rows -= results.locator("li[hidden] > a[href$='/glossary.html']").count()
    assert f"found {rows} place" in told
    assert "page" not in told


def test_the_first_result_is_one_key_away(base: str, browser: Browser) -> None:
    tab = browser.new_page()
    tab.goto(f"{base}search.html?q=cocoercivity")
    tab.wait_for_selector("#search-results p[tabindex]")
    tab.keyboard.press("Tab")
    within = "() => document.activeElement.matches('#search-results li:first-child a')"
    assert tab.evaluate(within)
    tab.close()
