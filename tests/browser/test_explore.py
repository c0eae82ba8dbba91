"""The explorable figures, driven as a reader would, against the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, Page

import softtopk as stk
from softtopk import figures

PAGE = "book/practice/explore.html"
# The page shows four significant digits.
SHOWN = 6e-4


def open_page(browser: Browser, address: str, **options: object) -> Page:
    page = browser.new_page(**options)
    page.set_default_timeout(60_000)
    page.route("**/tex-chtml.js", lambda route: route.abort())  # saves seconds
    page.goto(address, wait_until="domcontentloaded")
    page.locator("softtopk-explorer .explore-plot, .explore-said").first.wait_for()
    return page


@pytest.fixture
def explorer(base: str, browser: Browser) -> Iterator[Page]:
    page = open_page(browser, base + PAGE)
    yield page
    page.close()


# Address and table at one moment; `page.url` hears of a replaced address too late.
SEEN = """() => {
  const cells = document.querySelectorAll("softtopk-explorer tbody td:nth-child(3)");
  return [location.hash.slice(1), [...cells].map((cell) => cell.textContent)];
}"""


def state(page: Page) -> dict[str, Any]:
    address, cells = page.evaluate(SEEN)
    fields = parse_qs(address)
    return {
        "x": [float(v) for v in fields["x"][0].split(",")],
        "k": float(fields["k"][0]),
        "tau": float(fields["tau"][0]),
        "curve": fields["curve"][0],
        "p": [float(text.replace("−", "-")) for text in cells],
    }


def moves_beyond(page: Page, score: int, value: float, sign: int) -> None:
    """Wait until a dragged score is past a value: moves arrive a frame at a time."""
    page.wait_for_function(
        """([score, value, sign]) => {
          const x = new URLSearchParams(location.hash.slice(1)).get("x").split(",");
          return sign * (x[score] - value) > 0;
        }""",
        arg=[score, value, sign],
    )


def agrees(page: Page) -> None:
    at = state(page)
    if at["curve"] == "gradtopk":
        p = stk.grad_topk(at["x"], int(at["k"] + 0.5), temperature=at["tau"])
    else:
        curve = stk.curves.entmax(1.5) if at["curve"] == "entmax15" else at["curve"]
        p = stk.soft_topk(at["x"], at["k"], curve, temperature=at["tau"])
    assert at["p"] == pytest.approx(p.tolist(), abs=SHOWN)


def test_first_view_is_what_the_package_computes(explorer: Page) -> None:
    first = state(explorer)
    assert first["x"] == list(figures.ROUTER)
    assert first["k"] == 2
    agrees(explorer)
    numbers = explorer.locator("softtopk-explorer tbody")
    assert not numbers.is_visible()
    explorer.get_by_text("The numbers").click()
    assert numbers.is_visible()


def test_sliders_move_the_selection(explorer: Page) -> None:
    before = state(explorer)["p"]
    k = explorer.get_by_label("k", exact=True)
    k.focus()
    for _ in range(10):
        explorer.keyboard.press("ArrowRight")
    after = state(explorer)
    assert after["k"] == pytest.approx(2.5)
    assert all(a < b for a, b in zip(before, after["p"], strict=True))
    agrees(explorer)
    explorer.get_by_label("τ", exact=True).fill("-1.5")
    assert state(explorer)["tau"] == pytest.approx(0.032)
    agrees(explorer)


@pytest.mark.parametrize(
    "name",
    ["exp", "laplace", "sigmoid", "clip", "triangular", "entmax15", "gradtopk"],
)
def test_every_operator(explorer: Page, name: str) -> None:
    explorer.get_by_label("operator").select_option(name)
    agrees(explorer)


def test_the_jacobian_has_a_scale(explorer: Page) -> None:
    scale = explorer.locator("softtopk-explorer .explore-scale")
    for name in ("laplace", "clip"):
        explorer.get_by_label("operator").select_option(name)
        at = state(explorer)
        lin = stk.linearize(
            stk.soft_topk, at["x"], at["k"], name, temperature=at["tau"]
        )
        words = scale.locator("text").all_text_contents()
        low, zero, high = (float(word.replace("−", "-")) for word in words)
        assert high == pytest.approx(abs(lin.jacobian()).max(), abs=SHOWN)
        assert (low, zero) == (-high, 0)
        assert scale.get_attribute("aria-label").endswith(", ".join(words))
    explorer.get_by_label("k", exact=True).fill("0")  # nothing is selected
    assert scale.locator("text").all_text_contents() == ["0"]


def test_new_scores_are_those_of_the_address(explorer: Page) -> None:
    explorer.get_by_role("button", name="New scores").click()
    agrees(explorer)
    shown = explorer.locator("softtopk-explorer tbody td:nth-child(2)")
    table = [float(text.replace("−", "-")) for text in shown.all_text_contents()]
    assert table == state(explorer)["x"]


def test_scores_move_by_keyboard_and_pointer(explorer: Page) -> None:
    handle = explorer.get_by_role("slider", name="score 3")
    start = state(explorer)["x"][2]
    handle.focus()
    explorer.keyboard.press("ArrowRight")
    assert state(explorer)["x"][2] == pytest.approx(start + 0.05)
    box = handle.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    explorer.mouse.move(*middle)
    explorer.mouse.down()
    explorer.mouse.move(middle[0] + 80, middle[1])
    explorer.mouse.up()
    moves_beyond(explorer, 2, start + 0.3, +1)
    agrees(explorer)


def test_a_finger_drags_a_score(base: str, browser: Browser) -> None:
    page = open_page(
        browser,
        base + PAGE,
        viewport={"width": 390, "height": 844},
        has_touch=True,
    )
    handle = page.get_by_role("slider", name="score 1")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 24  # a fingertip
    before = state(page)["x"][0]
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    session = page.context.new_cdp_session(page)
    for kind, shift in (("touchStart", 0), ("touchMove", -30), ("touchMove", -60)):
        points = [{"x": at["x"] + shift, "y": at["y"]}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    moves_beyond(page, 0, before - 0.3, -1)
    agrees(page)
    page.close()


def test_a_shared_address_restores_the_view(base: str, browser: Browser) -> None:
    page = open_page(browser, f"{base}{PAGE}#x=2,2,0,-1&k=1.5&tau=0.25&curve=clip")
    at = state(page)
    del at["p"]
    assert at == {"x": [2, 2, 0, -1], "k": 1.5, "tau": 0.25, "curve": "clip"}
    agrees(page)
    page.evaluate("() => { location.hash = '#x=1,0&k=1&tau=1&curve=sigmoid' }")
    page.wait_for_function(
        "() => document.querySelectorAll('softtopk-explorer tbody tr').length === 2"
    )
    agrees(page)
    page.close()


@pytest.mark.parametrize(
    "wrong",
    [
        "#x=1",
        "#x=9,1&k=1",
        "#x=1,0&k=7",
        "#x=1,0&tau=0",
        "#x=a,b",
        "#x=2,1&k=1&curve=toString",
        "#top",
    ],
)
def test_a_wrong_address_shows_the_first_view(
    base: str, browser: Browser, wrong: str
) -> None:
    page = open_page(browser, base + PAGE + wrong)
    assert len(state(page)["p"]) == 8
    agrees(page)
    page.close()


@pytest.mark.parametrize(
    ("page_name", "element", "label", "value", "word"),
    [
        ("selection/threshold", "count", "λ", "2.24", "is the threshold"),
        ("selection/threshold", "count", "λ", "1", "raise λ"),
        ("selection/threshold", "count", "λ", "3", "lower λ"),
        ("selection/exponential", "segments", "k", "1", "m = 0"),
        ("selection/laplace", "half", "x₁", "0.6", "the same"),
        ("selection/laplace", "half", "x₁", "3", "above one half"),
        ("computing/threshold", "newton", "λ₀", "2", "converges"),
        ("computing/threshold", "newton", "λ₀", "3", "diverges"),
        ("selection/gradient", "subset", "k", "3", "sum to 3.000"),
    ],
)
def test_lessons_say_what_they_show(
    base: str,
    browser: Browser,
    page_name: str,
    element: str,
    label: str,
    value: str,
    word: str,
) -> None:
    page = open_page(browser, f"{base}book/{page_name}.html")
    lesson = page.locator(f"softtopk-{element}")
    assert lesson.locator("svg").count() >= 1
    lesson.get_by_label(label, exact=True).fill(value)
    assert word in lesson.locator(".explore-said").inner_text()
    page.close()


def test_the_count_of_each_curve_meets_the_threshold(
    base: str, browser: Browser
) -> None:
    page = open_page(browser, f"{base}book/selection/threshold.html")
    lesson = page.locator("softtopk-count")
    for name in ("sigmoid", "laplace", "exp", "clip"):
        lesson.get_by_label("curve").select_option(name)
        level = float(stk.threshold(figures.ROUTER, 2, name))
        lesson.get_by_label("λ", exact=True).fill(f"{level:.2f}")
        assert "is the threshold" in lesson.locator(".explore-said").inner_text()
        lesson.get_by_label("λ", exact=True).fill(f"{level + 0.05:.2f}")
        assert "lower λ" in lesson.locator(".explore-said").inner_text()
    page.close()


def test_no_square_hides_the_name_of_the_threshold(explorer: Page) -> None:
    apart = """() => {
      const box = (node) => node.getBoundingClientRect();
      const name = box(document.querySelector("softtopk-explorer .explore-lambda"));
      const squares = [...document.querySelectorAll("softtopk-explorer .explore-hard")];
      return squares.map(box).every((square) => square.top > name.bottom - 4
        || square.left > name.right || square.right < name.left);
    }"""
    assert explorer.locator("softtopk-explorer .explore-hard").count() == 8
    assert explorer.evaluate(apart)


def test_the_words_of_the_plot_can_be_read_on_a_phone(
    base: str, browser: Browser
) -> None:
    page = open_page(browser, base + PAGE, viewport={"width": 390, "height": 844})
    sizes = page.eval_on_selector_all(
        ".explore-plot text",
        """all => all.map((text) => {
          const svg = text.ownerSVGElement;
          const unit = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          return unit * parseFloat(getComputedStyle(text).fontSize);
        })""",
    )
    assert len(sizes) > 10
    assert min(sizes) >= 11
    assert "arrow keys" in page.locator("article section > p").first.inner_text()
    page.close()


def test_nothing_stands_between_the_numbers_and_the_jacobian_on_a_phone(
    base: str, browser: Browser
) -> None:
    page = open_page(browser, base + PAGE, viewport={"width": 390, "height": 844})
    gap = """() => {
      const box = (name) => document.querySelector(name).getBoundingClientRect();
      return box(".explore-matrix").top - box(".explore-readouts").bottom;
    }"""
    assert 0 < page.evaluate(gap) < 40
    page.close()
