"""Folds in a browser: the keyboard, links that lead into one, the switch, and paper."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from conftest import AXE, AXE_RUN, MOVED, SITE, settle

CHAPTERS = [
    path
    for path in sorted((SITE / "book").glob("*/*.html"))
    if '<details class="fold fold-claim' in path.read_text(encoding="utf8")
]
CHAPTER = max(CHAPTERS, key=lambda path: path.stat().st_size)
NAME = CHAPTER.relative_to(SITE).as_posix()
ANCHOR = re.findall(
    r'<details class="fold[^>]* id="(check-[^"]+)"', CHAPTER.read_text()
)
OPEN = "() => document.querySelectorAll('details.fold[open]').length"
ALL = "() => document.querySelectorAll('details.fold').length"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A reader who has been nowhere yet."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(60_000)
    yield context
    context.close()


def visit(context: BrowserContext, address: str, *, quick: bool = True) -> Page:
    """A page of the book; without its formulas it is quick."""
    page = context.new_page()
    if quick:
        page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(address)
    return page


def is_open(page: Page, anchor: str) -> bool:
    return page.evaluate("id => document.getElementById(id).open", anchor)


def in_sight(page: Page, anchor: str) -> bool:
    top = page.locator(f"#{anchor}").bounding_box()["y"]
    return 0 <= top < 900


def test_all_is_folded_at_first(context: BrowserContext, base: str) -> None:
    page = visit(context, base + NAME)
    assert page.evaluate(ALL) > 5
    assert page.evaluate(OPEN) == 0


def test_a_link_opens_the_fold_that_it_leads_to(
    context: BrowserContext, base: str
) -> None:
    last = ANCHOR[-1]
    page = visit(context, f"{base}{NAME}#{last}")
    page.wait_for_function(OPEN)
    assert is_open(page, last)
    assert page.evaluate(OPEN) == 1
    assert in_sight(page, last)
    page.evaluate("name => { location.hash = name }", ANCHOR[0])
    page.wait_for_function("id => document.getElementById(id).open", arg=ANCHOR[0])
    # And once more, with no change of the address.
    page.locator(f"#{ANCHOR[0]} > summary").click()
    assert not is_open(page, ANCHOR[0])
    page.evaluate(
        """name => {
          const link = document.createElement("a");
          link.href = `#${name}`;
          document.querySelector("article").append(link);
          link.click();
        }""",
        ANCHOR[0],
    )
    assert is_open(page, ANCHOR[0])


def test_the_ledger_leads_into_a_fold(context: BrowserContext, base: str) -> None:
    page = visit(context, f"{base}book/reference/claims.html")
    link = page.locator(f"a[href$='{CHAPTER.name}#{ANCHOR[0]}']").first
    link.click()
    page.wait_for_url(f"**/{CHAPTER.name}#{ANCHOR[0]}")
    page.wait_for_function("id => document.getElementById(id)?.open", arg=ANCHOR[0])
    assert in_sight(page, ANCHOR[0])


def test_the_keyboard_opens_and_closes(context: BrowserContext, base: str) -> None:
    page = visit(context, base + NAME)
    fold = page.locator("details.fold").first
    inside = "fold => fold.contains(document.activeElement)"
    fold.locator("summary").focus()
    page.keyboard.press("Tab")  # past what is folded
    assert not fold.evaluate(inside)
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert fold.evaluate("e => e.open")
    fold.locator("summary").focus()
    page.keyboard.press("Space")
    assert not fold.evaluate("e => e.open")


def test_code_that_scrolls_can_be_scrolled_once_it_is_open(
    context: BrowserContext, base: str
) -> None:
    page = visit(context, base + NAME)
    page.set_viewport_size({"width": 600, "height": 844})  # narrower, code wraps
    page.get_by_role("switch").press("Space")
    # A single pixel may be rounding, of which the theme's script makes a stop.
    page.wait_for_function(
        """() => {
          const more = (e) => e.scrollWidth - e.clientWidth;
          const blocks = [...document.querySelectorAll(".fold .cell_input pre")]
            .filter((e) => more(e) !== 1);
          const wide = blocks.filter((e) => more(e) > 1);
          return wide.length > 5 && blocks.every(
            (e) => (e.tabIndex === 0) === wide.includes(e)
          );
        }"""
    )


def test_folded_code_is_no_stop_of_the_tab_key(
    context: BrowserContext, base: str
) -> None:
    page = visit(context, base + NAME)
    page.locator(".copybtn").first.wait_for(state="attached")
    stops = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll(".cell .copybtn")];
          return [all.filter((b) => b.checkVisibility()).length, all.length];
        }"""
    )
    cells = page.locator(".cell_input:not(details *, .live-trial)").count()
    assert stops[0] == cells
    assert stops[1] >= page.evaluate(ALL)


def test_one_switch_opens_all_and_is_remembered(
    context: BrowserContext, base: str
) -> None:
    page = visit(context, base + NAME)
    switch = page.get_by_role("switch", name="Show all code and checks")
    assert not switch.is_checked()
    switch.press("Space")
    assert page.evaluate(OPEN) == page.evaluate(ALL)
    other = CHAPTERS[0] if CHAPTERS[0] != CHAPTER else CHAPTERS[1]
    page.goto(base + other.relative_to(SITE).as_posix())
    assert page.get_by_role("switch").is_checked()
    assert page.evaluate(OPEN) == page.evaluate(ALL)
    page.get_by_role("switch").press("Space")
    assert page.evaluate(OPEN) == 0
    page.goto(base + NAME)
    assert page.evaluate(OPEN) == 0


@pytest.mark.parametrize("everything", [False, True])
def test_nothing_moves_while_a_page_opens(
    context: BrowserContext, base: str, everything: bool
) -> None:
    page = visit(context, base + NAME)
    if everything:
        page.get_by_role("switch").press("Space")
    # MathJax has come and sets no formula: without it they would be shown as they are
    endless = "MathJax.startup = { promise: new Promise(() => {}) }"
    page.route("**/tex-chtml.js*", lambda route: route.fulfill(body=endless))
    page.reload()
    assert page.evaluate(MOVED) < 0.1


def test_the_line_of_a_fold_keeps_its_height(
    context: BrowserContext, base: str
) -> None:
    page = visit(context, base + NAME, quick=False)
    settle(page)
    heights = """all => all.map(e => [
      e.querySelectorAll(".claim-badge").length, e.getBoundingClientRect().height])"""
    # a phone has up to three lines, or two below a verdict; several may need one more
    for width, most in ((1440, {0: 40, 1: 40, 2: 40}), (390, {0: 84, 1: 84, 2: 110})):
        page.set_viewport_size({"width": width, "height": 900})
        found = page.eval_on_selector_all("details.fold > summary", heights)
        if width == 1440:
            for badges in (0, 1):
                of_kind = [height for number, height in found if number == badges]
                assert max(of_kind) - min(of_kind) < 1
        assert all(height < most[number] for number, height in found)


HIDDEN = """all => all.filter((summary) => {
  const words = document.createRange();
  words.selectNodeContents(summary);
  const { right, bottom } = summary.getBoundingClientRect();
  return [...words.getClientRects()].some(
    (line) => line.width > 8 && (line.left > right || line.top > bottom - 6));
}).length"""


def test_a_phone_says_what_most_folds_hold(context: BrowserContext, base: str) -> None:
    page = visit(context, f"{base}book/training/router.html", quick=False)
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    folds = page.locator("details.fold > summary")
    cut = folds.evaluate_all(HIDDEN)
    assert folds.count() > 12
    assert cut <= 2  # the statement of a claim is long
    tall = "all => all.filter((e) => e.getBoundingClientRect().height > 45).length"
    assert folds.evaluate_all(tall) >= 5  # a second line


WORDLESS = """all => all.filter((badge) => {
  const [line, word] = [badge.closest("summary"), badge].map(
    (part) => part.getBoundingClientRect());
  const size = parseFloat(getComputedStyle(badge).fontSize);
  return size < 10 || word.width < 25 || word.right > line.right - 24;
}).map((badge) => badge.closest("summary").textContent)"""


def test_each_verdict_has_its_word_on_a_phone(
    context: BrowserContext, base: str
) -> None:
    page = visit(context, base + NAME)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator("details.fold > summary .claim-badge").count() > 5
    assert (
        page.eval_on_selector_all("details.fold > summary .claim-badge", WORDLESS) == []
    )


def test_paper_shows_one_line(context: BrowserContext, base: str) -> None:
    page = visit(context, base + NAME)
    page.emulate_media(media="print")
    fold = page.locator(f"#{ANCHOR[0]}")
    assert fold.locator("summary").is_visible()
    assert not fold.locator(".cell_input").is_visible()
    assert not page.locator(".fold-switch").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_closed_folds(
    context: BrowserContext, base: str, scheme: str
) -> None:
    """The visit of every page looks at them open."""
    page = visit(context, base + NAME)
    page.emulate_media(color_scheme=scheme)
    page.evaluate(
        """() => {
          for (const part of document.querySelectorAll("section > *"))
            if (!part.matches("section, h1, h2, .fold-switch, .folded")) part.remove();
        }"""
    )
    page.evaluate(AXE)
    assert page.evaluate(AXE_RUN) == []


def test_each_fold_has_a_name_of_its_own(context: BrowserContext, base: str) -> None:
    page = visit(context, base + NAME)
    spoken = "all => all.map((e) => e.ariaLabel ?? e.textContent.trim())"
    names = page.eval_on_selector_all("details.fold > summary", spoken)
    assert len(set(names)) == len(names) > 10
    seen = page.locator("details.fold > summary[aria-label]")
    assert seen.count() > 2
    pairs = "all => all.map((e) => [e.ariaLabel, e.innerText])"
    for label, words in seen.evaluate_all(pairs):
        assert label.startswith(f"{words.strip()}: ")


SIGN = """all => all.map((summary) => {
  const lines = [summary, ...summary.querySelectorAll(".fold-words")];
  const cut = lines.some((e) =>
    e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 6);
  const sign = getComputedStyle(summary.parentElement, "::after").content;
  return [cut, sign.includes("…")];
})"""


@pytest.mark.parametrize("width", [1000, 390])
def test_what_is_cut_of_a_fold_ends_in_dots(
    context: BrowserContext, base: str, width: int
) -> None:
    page = visit(context, base + NAME, quick=False)
    page.set_viewport_size({"width": width, "height": 900})
    settle(page)
    summaries = page.locator("details.fold > summary")
    page.wait_for_function("() => document.querySelector('summary.cut')")
    page.wait_for_timeout(200)
    found = summaries.evaluate_all(SIGN)
    assert [cut for cut, _ in found] == [dots for _, dots in found]
    assert 0 < sum(cut for cut, _ in found) < len(found)
    page.locator("details.fold:has(> summary.cut) > summary").first.press("Enter")
    page.wait_for_function("() => !document.querySelector('[open] > summary.cut')")
