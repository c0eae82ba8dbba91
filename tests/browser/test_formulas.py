"""Formulas that break by the width they get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from conftest import settle

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

# Set a formula in a paragraph of its own; for each of its rows, how many lines it has.
LINES = """async (tex) => {
  const box = document.createElement("div");
  box.className = "math";
  box.append(tex);
  document.querySelector("article section").append(box);
  await MathJax.typesetPromise([box]);
  const math = box.querySelector("mjx-math");
  const rows = [...math.querySelectorAll("mjx-mtr")];
  const lines = (row) => {
    const pieces = [...row.querySelectorAll("mjx-piece")];
    const sides = pieces.map((piece) => piece.getBoundingClientRect());
    return 1 + sides.filter(({ left }, i) => i && left < sides[i - 1].right - 1).length;
  };
  const found = (rows.length ? rows : [math]).map(lines);
  const sides = box.getBoundingClientRect();
  const wide = [math, ...math.querySelectorAll("mjx-piece")].some(
    (part) => part.getBoundingClientRect().right > sides.right + 1);
  box.remove();
  return wide ? "too wide" : found;
}"""
SUM = "p_{10}+p_{11}+p_{12}+p_{13}"  # a phone has room for one, a desk for two
CHAIN = rf"\begin{{aligned}}V&={SUM}\\&\quad+{SUM}\\&\le1\end{{aligned}}"
SYSTEM = rf"\begin{{aligned}}V&={SUM},\\W&={SUM}.\end{{aligned}}"
FRACTION = r"\frac{a_1a_2a_3a_4a_5a_6a_7a_8}{b}"
WORDS = rf"V={FRACTION}\quad\text{{or}}\quad{FRACTION}"
CASES = (
    rf"f(t)=\begin{{cases}}{FRACTION},&t>0,\\{FRACTION}{FRACTION},&t\le0\end{{cases}}"
)
BRACKETS = r"f=\left(" + "+".join(f"a_{{{i}}}" for i in range(12)) + r"\right)"


@pytest.fixture
def page(base: str, browser: Browser) -> Iterator[Page]:
    """A short page."""
    page = browser.new_page()
    page.goto(base + "book/notation.html")
    settle(page)
    yield page
    page.close()


@pytest.mark.parametrize(
    ("tex", "desk", "phone"),
    [
        pytest.param(r"\(a+b=c+d\)", [1], [1], id="a short formula stays whole"),
        pytest.param(rf"\[f={SUM}={SUM}\]", [1], [2], id="an equation"),
        pytest.param(rf"\[{CHAIN}\]", [1], [2], id="rows that are one equation"),
        pytest.param(rf"\[{SYSTEM}\]", [1, 1], [1, 1], id="rows of their own"),
        pytest.param(rf"\[{WORDS}\]", [1], [2], id="words between wide spaces"),
        pytest.param(rf"\[{BRACKETS}\]", [1], [2], id="brackets"),
        pytest.param(rf"\({BRACKETS}\)", [1], [2], id="brackets in the text"),
    ],
)
def test_a_formula_breaks_by_its_width(
    page: Page, tex: str, desk: list[int], phone: list[int]
) -> None:
    page.set_viewport_size(DESK)
    assert page.evaluate(LINES, tex) == desk
    page.set_viewport_size(PHONE)
    assert page.evaluate(LINES, tex) == phone


def test_the_first_line_of_an_equation_begins_at_the_left(page: Page) -> None:
    page.set_viewport_size(PHONE)
    assert (
        page.evaluate(
            """async (tex) => {
          const box = document.createElement("div");
          box.className = "math";
          box.append(tex);
          document.querySelector("article section").append(box);
          await MathJax.typesetPromise([box]);
          const first = box.querySelector("mjx-piece").getBoundingClientRect();
          return first.left - box.getBoundingClientRect().left;
        }""",
            rf"\[\begin{{split}}{CASES}\end{{split}}\]",
        )
        < 20
    )


def test_a_line_of_text_ends_with_a_relation_and_an_equation_begins_with_it(
    page: Page,
) -> None:
    sides = """async (tex) => {
      const box = document.createElement("p");
      box.append(tex);
      document.querySelector("article section").append(box);
      await MathJax.typesetPromise([box]);
      const isRelation = (node) => node.innerHTML.includes("mjx-c3D");
      const pieces = [...box.querySelectorAll("mjx-piece")];
      box.remove();
      return [
        pieces.slice(0, -1).every((piece) => isRelation(piece.lastElementChild)),
        pieces.slice(1).every((piece) => isRelation(piece.firstElementChild)),
      ];
    }"""
    tex = f"{SUM}={SUM}={SUM}={SUM}"
    assert page.evaluate(sides, rf"\({tex}\)") == [True, False]
    assert page.evaluate(sides, rf"\[{tex}\]") == [False, True]


NORM = r"\|q_1-y_1\|^2"
BAR = r"|p_{10}-q_{10}|"


@pytest.mark.parametrize(
    ("tex", "marks"),
    [
        pytest.param(rf"{NORM}+2{NORM}+3{NORM}+4{NORM}", "2225 2016", id="norms"),
        pytest.param(rf"{BAR}+{BAR}+{BAR}+{BAR}", "7C", id="absolute values"),
        pytest.param(r"(a-b+c)^2-(d-e+f)^2-(g-h+i)^2-(j-k+l)^2", "28 29", id="powers"),
        pytest.param(
            r"\bigl(\operatorname{diag}(c)-\tfrac{cc'}{C}\bigr)(y_{10}-x_{10})(z_{1}-x_{1})",
            "28 29",
            id="factors",
        ),
    ],
)
def test_no_line_begins_in_what_belongs_together(
    page: Page, tex: str, marks: str
) -> None:
    """Each piece holds both of a pair, and there is more than one piece."""
    page.set_viewport_size(PHONE)
    held = page.evaluate(
        """async ([tex, marks]) => {
          const box = document.createElement("div");
          box.className = "math";
          box.append("\\\\[" + tex + "\\\\]");
          document.querySelector("article section").append(box);
          await MathJax.typesetPromise([box]);
          const one = marks.split(" ").map((mark) => `.mjx-c${mark}`).join();
          const pieces = [...box.querySelectorAll("mjx-piece")];
          return pieces.map((piece) => piece.querySelectorAll(one).length);
        }""",
        [tex, marks],
    )
    assert len(held) > 1
    assert all(number % 2 == 0 for number in held)
    assert sum(held) > 0
