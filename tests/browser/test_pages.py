"""Every built page in a real Chromium that can reach nothing but this machine.

Run it after ``make book``, by its own name: ``pytest tests/browser``. Each page is
loaded once, and what has to be true of it is asserted on that visit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from conftest import AXE, AXE_RUN, SITE, settle

SKIP = {"_static", "_sources", "_modules", "_images", "_downloads"}
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if not SKIP & set(path.relative_to(SITE).parts)
    and "http-equiv" not in path.read_text(encoding="utf8")[:400].lower()
)
CLAIMS = "book/reference/claims.html"
DESK = {"width": 1440, "height": 900}
TABLET = {"width": 820, "height": 1180}
PHONE = {"width": 390, "height": 844}
SIZES = (DESK, TABLET, PHONE)  # a page is opened in the first

# What the page says about itself once MathJax is done.
FACTS = """() => {
  const NOT_PROSE = "pre, code, .sig, script, mjx-container";
  const article = document.querySelector("article") ?? document.body;
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  let text = "";
  while (walker.nextNode())
    if (!walker.currentNode.parentElement.closest(NOT_PROSE))
      text += walker.currentNode.data + "\\n";
  const maths = [...article.querySelectorAll("span.math, div.math")];
  return {
    rawTex: text.match(/\\\\[([]|\\$\\$|\\$[^$\\s][^$\\n]*\\$/g) ?? [],
    untypeset: maths.filter((m) => !m.querySelector("mjx-container")).length,
    errors: [...article.querySelectorAll("mjx-merror")].map((e) => e.textContent),
    mute: [...document.images].filter((i) => !i.alt.trim()).map((i) => i.src),
    broken: [...document.images].filter((i) => !i.naturalWidth).map((i) => i.src),
    headings: article.querySelectorAll("h1").length,
    ids: [...document.querySelectorAll("[id]")].map((e) => e.id),
    links: [...document.querySelectorAll("a[href]")].map((a) => a.href),
  };
}"""

# What acts on a click but cannot take the focus, or would take it out of turn. The
# contents are one stop, in which the arrow keys move, and so are the buttons of a cell;
# and whoever uses the keyboard selects code rather than press a button for each block.
UNREACHABLE = """() => {
  const acts = "a[href], button, input, select, summary, [role=button], [role=slider]";
  return [...document.querySelectorAll(acts)]
    .filter((e) => e.checkVisibility() && !e.closest("[inert], [aria-hidden=true]"))
    .filter((e) => e.tabIndex !== 0 && !e.closest("nav.bd-docs-nav, .live-tools"))
    .filter((e) => !e.matches("[type=hidden], .headerlink, .copybtn"))
    .map((e) => e.outerHTML.slice(0, 120));
}"""

# Before axe looks. No colour may be half-way through a fade, and nothing folded. And
# what is alike need not be seen a hundred times, which costs axe a minute per page: a
# formula becomes one box of its size, and what shows no new kind of element goes, be it
# a token of code or a whole block.
STILL = """() => {
  const style = document.createElement("style");
  style.textContent =
    "* { transition: none !important; animation: none !important }";
  document.head.append(style);
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const fold of document.querySelectorAll(".toggle-hidden"))
    fold.classList.remove("toggle-hidden");
  for (const drawing of document.querySelectorAll("svg.drawn, .drawn svg"))
    drawing.replaceChildren(); // an image with a text: nobody hears what is inside
  const formulas = [...document.querySelectorAll("mjx-container")];
  const sizes = formulas.map((f) => [f.scrollWidth, f.scrollHeight]);
  formulas.forEach((formula, i) => {
    const box = document.createElement("span");
    const [width, height] = sizes[i];
    box.style = `display: inline-block; width: ${width}px; height: ${height}px`;
    formula.replaceChildren(box);
  });
  // From the last to the first: an inner block comes before the block around it.
  const seen = new Set();
  const blocks = "section > :not(section), section :is(li, tr), pre *";
  const found = [...document.querySelectorAll(`article :is(${blocks})`)];
  for (const block of found.reverse()) {
    const kinds = [block, ...block.querySelectorAll("*")].map(
      (e) => `${e.tagName} ${e.getAttribute("class")} < ${e.parentElement.className}`,
    );
    const fresh = kinds.some((kind) => !seen.has(kind));
    if (fresh || block.querySelector("[data-kept]")) block.dataset.kept = "";
    else block.remove();
    for (const kind of kinds) seen.add(kind);
  }
}"""
# Formulas in the text that stick out of their column or are cut by it; and boxes that
# scroll, but not by the keyboard.
CUT = """() => {
  const article = document.querySelector("article");
  const all = (selector) =>
    [...(article?.querySelectorAll(selector) ?? [])].filter((e) => e.checkVisibility());
  const words = (e) => e.querySelector("math")?.textContent;
  const inText = "mjx-container:not([display], table *, summary *)";
  const cut = all(inText).filter((formula) => {
    const column = formula.closest("p, li, dd, dt, figcaption, div:not(.formula)");
    const edge = column.getBoundingClientRect().right + 2;
    const math = formula.querySelector("mjx-math");
    const ends = [math, ...math.querySelectorAll("mjx-piece")].flatMap(
      (part) => [...part.getClientRects()].map((box) => box.right));
    return Math.max(...ends) > edge;
  });
  const deaf = all("mjx-container[display], .pst-scrollable-table-container").filter(
    (box) => box.scrollWidth > box.clientWidth + 1 && box.tabIndex !== 0);
  return [...cut.map(words), ...deaf.map((box) => words(box) ?? box.innerText)];
}"""
TWO_FRAMES = (
    "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))"
)


# The one rule of axe that a scheme can break.
COLOURS = """() => Object.fromEntries(axe.getRules().map(
  ({ ruleId }) => [ruleId, { enabled: ruleId === "color-contrast" }]))"""

# Kinds of elements around the article. They are much the same on every page, but their
# width decides which of them are shown.
AROUND = """() => [...new Set([...document.body.querySelectorAll("*")]
  .filter((e) => !e.closest("article, svg, mjx-container"))
  .map((e) => `${e.tagName} ${e.getAttribute("class")} < ${e.parentElement.className}`)
)]"""
KNOWN: set[str] = set()  # kinds that a visit has looked at in every width and scheme


@dataclass
class Visit:
    """What one visit to a page has shown."""

    facts: dict[str, Any] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    violations: dict[str, list[str]] = field(default_factory=dict)
    scheme: dict[str, str] = field(default_factory=dict)
    overflow: dict[int, int] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)


def show(page: Page, scheme: str, size: dict[str, int]) -> None:
    """Look at a page in another scheme and width; its own scripts follow."""
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(
        "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
    )
    page.evaluate(TWO_FRAMES)


def audit(page: Page, visit: Visit) -> None:
    """Have axe look at a page.

    It is looked at whole on a phone, where most has to scroll or is folded away, and
    its colours are looked at in the dark as well: a width changes no colour, and a
    scheme changes nothing else. A page with a kind of element in its frame that no page
    before had is looked at whole in every width and scheme.
    """
    frame = set(page.evaluate(AROUND))
    views = [("light", PHONE, None), ("dark", PHONE, page.evaluate(COLOURS))]
    if not frame <= KNOWN:
        views = [(scheme, size, None) for scheme in ("light", "dark") for size in SIZES]
    for scheme, size, rules in views:
        show(page, scheme, size)
        visit.scheme[scheme] = page.evaluate(
            "() => getComputedStyle(document.body).backgroundColor"
        )
        visit.violations[f"{scheme} at {size['width']} px"] = page.evaluate(
            AXE_RUN, rules
        )
    KNOWN.update(frame)


def look(browser: Browser, base: str, name: str, spoil: str | None = None) -> Visit:
    """Load a page once and gather what the tests ask about.

    `spoil` is a script that puts faults into the page first.
    """
    visit = Visit()
    page = browser.new_page(viewport=DESK, color_scheme="light")
    page.set_default_timeout(60_000)
    page.on("console", lambda m: m.type == "error" and visit.console.append(m.text))
    page.on("pageerror", lambda error: visit.console.append(str(error)))
    page.on("requestfailed", lambda request: visit.failed.append(request.url))
    page.on("response", lambda r: r.status >= 400 and visit.failed.append(r.url))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((base, "data:", "blob:"))
            or visit.outside.append(request.url)
        ),
    )
    page.goto(base + name)
    settle(page)
    if spoil:
        page.evaluate(spoil)
    visit.facts = page.evaluate(FACTS)
    for size in SIZES:  # a scheme changes colours alone
        if size is not DESK:
            show(page, "light", size)
        visit.overflow[size["width"]] = page.evaluate(
            "() => document.documentElement.scrollWidth - innerWidth"
        )
        visit.unreachable += page.evaluate(UNREACHABLE)
        if size is PHONE:
            visit.cut = page.evaluate(CUT)
    page.evaluate(AXE)
    page.evaluate(STILL)
    audit(page, visit)
    page.close()
    return visit


def test_the_book_is_built() -> None:
    assert "book/index.html" in PAGES
    assert CLAIMS in PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page(
    base: str, browser: Browser, name: str, subtests: pytest.Subtests
) -> None:
    """One visit to a page, and what has to be true of it."""
    visit = look(browser, base, name)
    with subtests.test("nothing fails to load"):
        assert visit.failed == []
        assert visit.console == []
    with subtests.test("no request leaves the page"):
        assert visit.outside == []
    with subtests.test("every formula is typeset"):
        assert visit.facts["rawTex"] == []
        assert visit.facts["errors"] == []
        assert visit.facts["untypeset"] == 0
    with subtests.test("images load and have a text"):
        assert visit.facts["mute"] == []
        assert visit.facts["broken"] == []
    with subtests.test("no width scrolls sideways"):
        assert len(visit.overflow) == len(SIZES)
        assert {w: extra for w, extra in visit.overflow.items() if extra > 0} == {}
    with subtests.test("the keyboard reaches what the pointer does"):
        assert visit.unreachable == []
    with subtests.test("nothing of a formula is out of reach on a phone"):
        assert visit.cut == []
    with subtests.test("light and dark differ"):
        assert visit.scheme["light"] != visit.scheme["dark"]
    with subtests.test("axe looks at both schemes"):
        assert {view.split()[0] for view in visit.violations} == {"light", "dark"}
    for view, found in visit.violations.items():
        with subtests.test(f"axe finds nothing serious in {view}"):
            assert found == []


# Faults of seven kinds, each of which one of the checks above is there for.
FAULTS = """async () => {
  const article = document.querySelector("article");
  const add = (html) => article.insertAdjacentHTML("beforeend", html);
  add('<p style="color: light-dark(#000, #333)">Hardly seen in the dark.</p>');
  add('<div class="math">\\\\[x\\\\]</div>');
  add('<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">');
  add('<div style="width: 500px">Wider than a phone.</div>');
  add('<a href="#" tabindex="-1">Out of reach of the keyboard.</a>');
  add('<ul><p>No item of a list.</p></ul>');
  await fetch("no-such-file.txt");
}"""


def test_a_visit_finds_the_faults(base: str, browser: Browser) -> None:
    visit = look(browser, base, "book/notation.html", FAULTS)
    assert [
        view for view, found in visit.violations.items() if "contrast" in str(found)
    ]
    assert not any(
        "contrast" in str(visit.violations[v]) for v in visit.violations if "light" in v
    )
    assert visit.facts["untypeset"] == 1
    assert len(visit.facts["mute"]) == 1
    assert visit.overflow[PHONE["width"]] > 0
    assert any("Out of reach" in found for found in visit.unreachable)
    assert any("list:" in str(found) for found in visit.violations.values())
    assert any("no-such-file" in url for url in visit.failed)


def test_pages_work_from_the_file_system(browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    problems: list[str] = []
    page.on("console", lambda m: m.type == "error" and problems.append(m.text))
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.goto((SITE / "book" / "notation.html").as_uri())
    settle(page)
    assert page.evaluate(FACTS)["untypeset"] == 0
    assert page.locator("mjx-container").count() > 0
    assert problems == []
    page.close()


def test_the_first_proof_of_a_page_looks_like_the_others(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(f"{base}book/selection/threshold.html")
    styles = page.eval_on_selector_all(
        "div.proof[id^='proof']",
        """all => all.map((one) => {
          const { padding, borderColor, backgroundColor } = getComputedStyle(one);
          return [padding, borderColor, backgroundColor].join();
        })""",
    )
    assert page.locator("#proof").count() == 1
    assert len(styles) > 2
    assert len(set(styles)) == 1
    page.close()


# --- The table of claims -------------------------------------------------------------


@pytest.fixture
def claims_page(base: str, browser: Browser) -> Iterator[Page]:
    """The table of claims, opened as a shared view of the refuted ones."""
    page = browser.new_page(viewport=DESK)
    page.route("**/tex-chtml.js", lambda route: route.abort())  # saves seconds
    page.goto(f"{base}{CLAIMS}?verdict=refuted")
    yield page
    page.close()


def shown(page: Page) -> list[str]:
    """Ids of the rows that a reader sees."""
    return page.eval_on_selector_all(
        ".claim-ledger tbody tr",
        "rows => rows.filter(r => r.offsetParent).map(r => r.id)",
    )


def test_the_address_holds_the_filter(claims_page: Page) -> None:
    refuted = shown(claims_page)
    every = claims_page.locator(".claim-ledger tr[data-verdict=refuted]")
    assert 0 < len(refuted) == every.count()

    claims_page.get_by_label("Words or id").fill(refuted[0].lower())
    assert shown(claims_page) == [refuted[0]]  # and no row that mentions it
    assert not claims_page.locator("#results-beyond-the-sources").is_visible()
    address = claims_page.evaluate("() => location.search")
    assert f"words={refuted[0].lower()}" in address
    assert "verdict=refuted" in address
    rows = len(shown(claims_page))
    assert (
        claims_page.locator(".claim-filter output")
        .inner_text()
        .startswith(f"{rows} of ")
    )


def test_show_all_shows_all(claims_page: Page) -> None:
    claims_page.get_by_role("button", name="Show all").press("Enter")
    claims_page.wait_for_function("() => !location.search")
    assert len(shown(claims_page)) == claims_page.locator("tr[data-verdict]").count()


def test_a_link_to_a_hidden_row_shows_it(claims_page: Page) -> None:
    hidden = claims_page.locator("tr[data-verdict=holds]").first
    name = hidden.get_attribute("id")
    assert name not in shown(claims_page)
    claims_page.evaluate("name => { location.hash = name }", name)
    claims_page.wait_for_function(
        "name => !document.getElementById(name).hidden", arg=name
    )
    assert name in shown(claims_page)
    claims_page.wait_for_function("() => !location.search")  # the filter is gone
    assert claims_page.evaluate("() => location.hash") == f"#{name}"
    claims_page.get_by_label("Verdict").select_option("refuted")
    assert claims_page.evaluate("() => location.hash") == ""  # not shown any more


def test_a_filter_offers_a_choice(claims_page: Page) -> None:
    names = claims_page.eval_on_selector_all(
        ".claim-filter select", "all => all.map((one) => one.name)"
    )
    assert "verdict" in names
    for name in names:
        of_all = f"all => new Set(all.map((row) => row.dataset.{name})).size"
        assert claims_page.eval_on_selector_all("tr[data-verdict]", of_all) > 1


def test_the_keyboard_leads_past_the_ledger(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + CLAIMS)
    at = "() => document.activeElement.textContent"
    row = "() => document.activeElement.closest('tr')?.id"
    page.get_by_role("button", name="Show all").focus()
    page.keyboard.press("Tab")
    assert page.evaluate(at).startswith("Skip the table")
    page.keyboard.press("Tab")
    first = page.evaluate(at)
    assert first.startswith("Skip ")
    assert page.evaluate(row) == shown(page)[0]
    page.keyboard.press("Enter")  # to the next section
    assert page.evaluate(at).startswith("Skip ")
    assert page.evaluate(at) != first
    skipped = shown(page).index(page.evaluate(row))
    assert skipped > 1

    # The whole table, from its head; then the next one.
    page.get_by_role("button", name="Skip the table").first.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(at).startswith("Skip the table")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => !document.activeElement.closest('.claim-ledger')")

    # A filter leaves the buttons of what it shows.
    page.get_by_label("Verdict").select_option("refuted")
    buttons = page.locator(".claim-ledger .claim-skip")
    assert 0 < buttons.count() <= len(shown(page))
    assert buttons.evaluate_all("all => all.every((one) => !one.closest('tr').hidden)")
    page.close()


def test_rows_stand_without_scripts(base: str, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{base}{CLAIMS}?verdict=refuted")
    rows = page.locator(".claim-ledger tbody tr")
    assert rows.count() > 0
    assert rows.first.is_visible()
    assert rows.last.is_visible()
    assert page.locator(".claim-filter").count() == 0
    context.close()


def test_what_scrolls_fades_until_its_end_is_in_sight(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{base}book/selection/laplace.html")
    settle(page)
    masked = "e => getComputedStyle(e).maskImage !== 'none'"
    for kind in ("mjx-container[display]", "pre"):
        boxes = page.locator(f".bd-article {kind}.fades[tabindex='0']")
        box = boxes.locator("visible=true").first
        handle = box.element_handle()
        page.wait_for_function(masked, arg=handle)
        box.evaluate("e => { e.scrollLeft = e.scrollWidth }")
        page.wait_for_function(f"e => !({masked})(e)", arg=handle)
    assert not page.locator(".bd-article .math:not([tabindex])").first.evaluate(masked)
    # a fade would hide more than the few pixels that this box lacks
    handle.evaluate("""e => {
      const wide = e.scrollWidth - 8;
      e.style = `width: ${wide}px; min-width: ${wide}px; max-width: none`;
      e.scrollLeft = 0;
    }""")
    page.wait_for_function("e => !e.matches('.fades')", arg=handle)
    assert handle.evaluate("e => e.scrollWidth > e.clientWidth && e.tabIndex === 0")
    assert not handle.evaluate(masked)
    # and a table that is a little too wide is set closer
    tables = page.locator(".bd-article .pst-scrollable-table-container.close")
    assert tables.count() > 0
    assert tables.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)")
    page.close()


def test_panels_side_by_side_stack_on_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(base + "book/practice/field.html")
    settle(page)
    rows = """() => [...document.querySelectorAll(".drawn.panels")].map((figure) => {
      const tops = [...figure.querySelectorAll("svg:not(.strip)")].map(
        (panel) => Math.round(panel.getBoundingClientRect().top));
      return new Set(tops).size;
    })"""
    assert page.evaluate(rows) == [1, 1]
    page.set_viewport_size(PHONE)
    assert page.evaluate(rows) == [2, 2]
    page.close()


def test_the_head_of_a_row_stays_while_a_table_scrolls(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(base + "book/training/peers.html")
    settle(page)
    table = page.locator(".pst-scrollable-table-container[tabindex='0']").first
    ends = """box => {
      box.scrollLeft = box.scrollWidth;
      const { left, right } = box.getBoundingClientRect();
      const [head, ...cells] = box.querySelector("tbody tr").children;
      const seen = cells.at(-1).getBoundingClientRect();
      const { left: from, right: to } = head.getBoundingClientRect();
      return [box.scrollLeft, from - left, to - left, right - seen.right];
    }"""
    scrolled, start, end, rest = table.evaluate(ends)
    assert scrolled > 100
    assert abs(start) < 1
    assert end < PHONE["width"] / 2
    assert abs(rest) < 2
    page.close()


# --- Previews ------------------------------------------------------------------------


def test_a_link_shows_its_target(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    ledger = (SITE / CLAIMS).read_text(encoding="utf8")
    chapter = re.search(r'href="\.\./([\w/-]+\.html)#check-', ledger)
    assert chapter, "no claim has a check"
    page.goto(f"{base}book/{chapter[1]}")
    settle(page)
    page.locator(".claim-fold > summary").first.click()
    link = page.locator(".claim-list a:has(> .claim-row-link)").first
    link.hover()
    preview = page.get_by_role("tooltip")
    preview.wait_for()
    assert link.locator(".claim-id").inner_text() in preview.inner_text()
    page.wait_for_function(
        "box => !box.innerText.includes('\\\\(')", arg=preview.element_handle()
    )
    page.keyboard.press("Escape")
    assert preview.count() == 0
    page.close()


def test_a_preview_of_an_exercise_has_no_button(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(f"{base}book/selection/threshold.html")
    settle(page)
    exercise = page.locator("div.exercise:has(button)").first
    assert exercise.count() == 1  # the button that a copy would have
    address = f"a[href='#{exercise.get_attribute('id')}']:not(.headerlink)"
    page.locator(f"div.solution {address}").first.focus()
    preview = page.get_by_role("tooltip")
    preview.wait_for()
    assert preview.locator("button").count() == 0
    page.close()


def test_a_long_preview_says_that_it_goes_on(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(base + "book/selection/threshold.html")
    settle(page)
    page.add_style_tag(content=".preview { max-height: 5rem !important }")
    page.keyboard.press("Tab")  # from now on the focus is the keyboard's
    page.locator("article p a.reference.internal[href*='#thm']").first.focus()
    preview = page.get_by_role("tooltip")
    preview.wait_for()
    page.wait_for_timeout(200)  # its formulas
    sign = "e => getComputedStyle(e, '::after').content.includes('…')"
    assert preview.evaluate("e => e.scrollHeight > e.clientHeight")
    assert preview.evaluate(sign)
    preview.evaluate("e => { e.scrollTop = e.scrollHeight }")
    page.wait_for_function("() => !document.querySelector('.preview.cut')")
    assert not preview.evaluate(sign)
    page.close()


# The stops of the Tab key before the first paragraph of a page, and in its article.
STOPS = """() => {
  const acts = "a[href], button, input, select, textarea, summary, [tabindex]";
  const stops = [...document.querySelectorAll(acts)].filter(
    (e) => e.tabIndex === 0 && e.checkVisibility({ visibilityProperty: true }));
  const first = document.querySelector("article p");
  const before = (e) => first.compareDocumentPosition(e) & 2; // e precedes it
  const inside = (e) => e.closest("article");
  return [stops.filter(before).length, stops.filter(inside).length];
}"""


def test_the_text_is_a_few_stops_away(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(base + "book/selection/problem.html")
    settle(page)
    page.wait_for_timeout(500)  # the boxes are watched when the formulas stand
    before, inside = page.evaluate(STOPS)
    page.close()
    assert before <= 12
    assert inside <= 120


@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_first_link_skips_to_the_text(
    base: str, browser: Browser, size: dict[str, int]
) -> None:
    page = browser.new_page(viewport=size)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/selection/threshold.html")
    page.wait_for_load_state()
    page.locator("#pst-skip-link a").focus()
    page.keyboard.press("Enter")
    title = page.locator("article h1").first
    assert title.evaluate("e => e.matches(':target > h1')")  # and yet without a mark
    assert title.evaluate("e => getComputedStyle(e).backgroundColor").endswith(" 0)")
    page.keyboard.press("Tab")
    assert page.evaluate("() => Boolean(document.activeElement.closest('article'))")
    before = """() => [...document.querySelectorAll("article :is(a, button, input)")]
      .filter((e) => e.tabIndex === 0 && e.checkVisibility())[0]"""
    first = page.evaluate_handle(before)
    assert first.evaluate("e => e === document.activeElement")
    page.close()


def test_the_arrow_keys_move_in_the_contents(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(base + "book/selection/threshold.html")
    settle(page)
    contents = page.get_by_role("navigation", name="Contents")
    contents.locator("[tabindex='0']").focus()
    focused = "() => document.activeElement.textContent.trim()"
    title = page.locator("article.bd-article h1").inner_text().split(". ", 1)[1]
    assert page.evaluate(focused).endswith(title)
    page.keyboard.press("ArrowDown")
    assert "derivatives" not in page.evaluate(focused)
    page.keyboard.press("Home")
    assert page.evaluate(focused).startswith("Smooth top-k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.tagName") == "SUMMARY"
    assert contents.locator("[tabindex='0']").count() == 1
    page.close()


# Whether a reader sees where the focus is: a frame on the element or on the card around
# it, which no mask and no box around it cuts away.
FRAME = """() => {
  const at = document.activeElement;
  const shown = [at, at.closest(".sd-card")].filter(Boolean).filter((box) => {
    const style = getComputedStyle(box);
    const cut = (part) => getComputedStyle(part).overflow === "hidden";
    const inside = parseFloat(style.outlineOffset) < 0;
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
      && style.maskImage === "none" && (inside || !cut(box.parentElement));
  });
  return shown.length > 0;
}"""
FRAMED = [
    ("book/selection/threshold.html", "details.fold:not([open]) > summary"),
    ("book/index.html", ".sd-card .sd-stretched-link"),
    ("book/selection/threshold.html", ".bd-header-article button.theme-switch-button"),
    ("book/practice/choosing.html", "button.copybtn"),
]


@pytest.mark.parametrize(("name", "selector"), FRAMED)
def test_what_the_keyboard_has_reached_is_framed(
    base: str, browser: Browser, name: str, selector: str
) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(base + name)
    settle(page)
    page.keyboard.press("Tab")  # from now on the focus is the keyboard's
    page.locator(selector).first.focus()
    assert page.evaluate(FRAME)
    page.close()


def test_code_is_copied_by_key_where_there_is_little_of_it(
    base: str, browser: Browser
) -> None:
    stops = """() => [...document.querySelectorAll("button.copybtn")]
      .filter((button) => button.tabIndex === 0).length"""
    page = browser.new_page(viewport=DESK)
    page.goto(base + "book/practice/choosing.html")
    settle(page)
    assert 1 <= page.evaluate(stops) == page.locator("button.copybtn").count()
    page.goto(base + "book/selection/threshold.html")
    settle(page)
    assert page.evaluate(stops) == 0 < page.locator("button.copybtn").count()
    page.close()


def test_the_colour_button_keeps_the_focus_and_says_the_mode(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=DESK)
    page.goto(base + "book/notation.html")
    settle(page)
    named = "() => document.activeElement.ariaLabel"
    page.locator(".theme-switch-button:visible").focus()
    first = page.evaluate(named)
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => ({named})() !== {first!r}")
    mode = page.evaluate("() => document.documentElement.dataset.mode")
    assert page.evaluate(named) == f"Colour mode: {mode}"
    page.close()


def test_the_button_of_the_contents_keeps_the_focus(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=DESK)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/notation.html")
    page.keyboard.press("Tab")  # from now on the focus is the keyboard's
    page.locator(".primary-toggle:visible").focus()
    for _ in range(2):  # shut and open
        page.keyboard.press("Enter")
        page.wait_for_timeout(50)
        page.wait_for_function(
            "() => document.activeElement.matches('.primary-toggle')"
        )
        assert page.evaluate(FRAME)
    page.close()


def test_the_buttons_of_cells_and_solutions_say_what_they_are(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=DESK)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/selection/threshold.html")
    buttons = page.locator(".solution .toggle-button")
    names = buttons.evaluate_all("all => all.map((button) => button.ariaLabel)")
    assert len(set(names)) == len(names) > 1
    assert all(name.startswith("Solution to Exercise ") for name in names)
    tools = page.locator(".live-tools:visible").first
    hint = "e => getComputedStyle(e, '::before').content"
    assert tools.evaluate(hint) == "none"
    page.keyboard.press("Tab")
    tools.locator("[tabindex='0']").focus()
    assert "more buttons" in tools.evaluate(hint)
    page.close()


# The contrast of a text and its ground, both plain colours.
CONTRAST = """(e) => {
  const { color, backgroundColor } = getComputedStyle(e);
  const light = (words) => words.match(/\\d+/g).slice(0, 3)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0.05);
  const [less, more] = [color, backgroundColor].map(light).sort((a, b) => a - b);
  return more / less;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_the_theme_lays_on_a_page_has_its_colours(
    base: str, browser: Browser, scheme: str
) -> None:
    page = browser.new_page(viewport=PHONE, color_scheme=scheme)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/selection/threshold.html")
    # the button that leads up, which shows itself as one scrolls
    assert page.locator("#pst-back-to-top").evaluate(CONTRAST) >= 4.5
    # the strip below the code of a cell, with its buttons
    grounds = """e => [e, e.querySelector("pre")].map(
      (part) => getComputedStyle(part).backgroundColor)"""
    cell, code = page.locator(".cell_input:visible").first.evaluate(grounds)
    assert cell == code
    page.close()


# --- A phone -------------------------------------------------------------------------


def test_the_claims_are_a_few_screens_of_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())  # saves seconds
    page.goto(base + CLAIMS)
    page.locator(".claim-group button").first.wait_for()
    screens = "() => document.documentElement.scrollHeight / innerHeight"
    assert page.evaluate(screens) < 20
    lines = page.locator(".claim-group").all_inner_texts()
    assert shown(page) == [""] * len(lines)
    assert len({line.rsplit(" (", 1)[0] for line in lines}) == len(lines)  # each once
    rows = page.locator(".claim-ledger tr[data-verdict]").count()
    told = page.locator(".claim-filter output").inner_text()
    assert told.startswith(f"{rows} claims and results in {len(lines)} sections")

    group = page.locator(".claim-group button", has_text="Problem statement").first
    group.press("Enter")
    assert group.get_attribute("aria-expanded") == "true"
    held = int(group.inner_text().rsplit("(", 1)[1].rstrip(")"))
    assert len([name for name in shown(page) if name]) == held > 0

    page.get_by_label("Verdict").select_option("refuted")
    refuted = page.locator(".claim-ledger tr[data-verdict=refuted]").count()
    assert len(shown(page)) == refuted > 0  # a filter needs no lines to unfold
    page.close()


def test_the_tables_of_claims_are_a_tap_away_on_a_phone(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + CLAIMS)
    page.locator(".claim-group button").first.wait_for()
    for name in ("ledger-claims", "ledger-results"):
        page.evaluate("() => scrollTo(0, 0)")
        link = page.locator(f"article a[href='#{name}']").first
        assert link.bounding_box()["y"] < PHONE["height"]
        link.click()
        page.wait_for_function(f"() => location.hash === '#{name}'")
        group = page.locator(f"section:has(> #{name}, > h2 #{name}), #{name}").last
        assert -5 < group.bounding_box()["y"] < PHONE["height"]
    # and the page explains the verdicts that its rows have
    assert page.locator("tr[data-verdict=numeric]").count() == 0
    assert page.locator("td", has_text="checked at high precision").count() == 0
    page.close()


def test_a_link_to_a_claim_unfolds_it_on_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(f"{base}{CLAIMS}#A45")
    page.locator("#A45").wait_for()
    assert page.locator("#A45").is_visible()
    page.wait_for_timeout(100)  # what a reset of the filter sets off comes after it
    assert page.evaluate("() => location.hash") == "#A45"
    page.close()


WIDE = """() => [...document.querySelectorAll(".pst-scrollable-table-container")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).length"""


@pytest.mark.parametrize(
    ("name", "tables", "most"),
    [
        ("practice/choosing", 3, 0),
        ("training/router", 3, 1),
        ("training/load-balancing", 2, 1),
    ],
)
def test_a_phone_shows_the_last_column_too(
    base: str, browser: Browser, name: str, tables: int, most: int
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{base}book/{name}.html")
    settle(page)
    assert page.locator(".pst-scrollable-table-container").count() >= tables
    page.wait_for_function(f"most => ({WIDE})() <= most", arg=most)
    sizes = (
        "all => Math.min(...all.map((e) => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert page.eval_on_selector_all(".bd-article :is(td, th)", sizes) >= 12
    page.close()


def test_a_table_of_sentences_becomes_cards_on_a_phone(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{base}book/guide-zh.html")
    settle(page)
    cards = page.locator(".pst-scrollable-table-container.cards")
    cards.first.wait_for()
    assert cards.count() == 2  # in columns, a cell of the second would fill a screen
    assert page.evaluate(WIDE) == 0
    said = "e => getComputedStyle(e, '::before').content"
    third = page.locator("td[data-head]").nth(2)
    assert "修正" in third.evaluate(said)
    page.set_viewport_size(DESK)
    page.wait_for_function("() => !document.querySelector('.cards')")
    assert third.evaluate(said) in ("none", "normal")
    page.set_viewport_size(PHONE)
    page.goto(f"{base}book/practice/evidence.html")  # a row would be half a screen
    settle(page)
    page.locator("#all-experiments-of-the-book .cards").wait_for()
    page.close()


def test_the_rows_of_the_releases_are_short_on_a_phone(
    base: str, browser: Browser
) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/reference/frameworks.html")
    page.wait_for_load_state()
    rows = page.locator("#which-releases-work table tbody tr")
    assert rows.count() > 5
    assert max(rows.evaluate_all("all => all.map((e) => e.offsetHeight)")) < 100
    page.close()


# The buttons to copy that lie on a line of their code.
ON_CODE = """() => {
  const buttons = [...document.querySelectorAll("article .highlight > .copybtn")];
  const shown = buttons.filter((button) => button.checkVisibility());
  const meets = (a, b) => a.top < b.bottom && b.top < a.bottom
    && a.left < b.right && b.left < a.right;
  const lies = (button) => {
    const code = document.createRange();
    code.selectNodeContents(button.parentElement.querySelector("pre"));
    const place = button.getBoundingClientRect();
    return [...code.getClientRects()].some((line) => line.width && meets(line, place));
  };
  return [shown.length, shown.filter(lies).length];
}"""


@pytest.mark.parametrize("name", ["recipes/mixture-of-experts", "selection/threshold"])
def test_the_button_to_copy_lies_on_no_code(
    base: str, browser: Browser, name: str
) -> None:
    page = browser.new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(f"{base}book/{name}.html")
    page.locator("article .copybtn:visible").first.wait_for()
    buttons, lying = page.evaluate(ON_CODE)
    assert buttons > 2
    assert lying == 0
    page.close()


def test_code_keeps_its_lines_on_a_phone(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=PHONE)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/recipes/mixture-of-experts.html")
    # as many lines on the screen as in the text, and what is too long scrolls
    lines = """() => [...document.querySelectorAll("article .highlight pre")]
      .filter((pre) => pre.checkVisibility()).map((pre) => {
        const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(pre);
        const around = parseFloat(paddingTop) + parseFloat(paddingBottom);
        const rows = pre.clientHeight - around;
        const text = pre.textContent.replace(/\\n$/, "").split("\\n").length;
        const scrolls = getComputedStyle(pre).overflowX === "auto";
        return [Math.round(rows / parseFloat(lineHeight)), text, scrolls];
      })"""
    found = page.evaluate(lines)
    assert len(found) > 3
    assert [(seen, text) for seen, text, _ in found if seen != text] == []
    assert all(scrolls for *_, scrolls in found)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.close()


# --- Menus ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opener", "size"),
    [("primary-toggle", PHONE), ("secondary-toggle", PHONE), ("search-button", DESK)],
)
def test_escape_gives_the_focus_back_after_a_click(
    base: str, browser: Browser, opener: str, size: dict[str, int]
) -> None:
    page = browser.new_page(viewport=size)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/notation.html")
    page.wait_for_load_state("networkidle")
    button = page.locator(f"button[class*='{opener}']:visible").first
    # as Safari and Firefox on a Mac, where a click focuses no button
    button.evaluate("e => e.addEventListener('mousedown', (v) => v.preventDefault())")
    button.click()
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.querySelector('dialog[open]')")
    focused = "part => document.activeElement.className.includes(part)"
    page.wait_for_function(focused, arg=opener)  # a moment after the dialog is gone
    page.close()


def test_the_contents_say_which_keys_move(base: str, browser: Browser) -> None:
    page = browser.new_page(viewport=DESK)
    page.route("**/tex-chtml.js*", lambda route: route.abort())
    page.goto(base + "book/notation.html")
    hint = page.locator(".contents-keys")
    assert not hint.is_visible()
    page.keyboard.press("Tab")  # from now on the focus is the keyboard's
    page.locator("nav.bd-docs-nav [tabindex='0']").focus()
    assert hint.is_visible()
    page.close()
