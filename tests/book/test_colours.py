"""A curve has one colour in the book, and what is no curve has another.

``softtopk.figures`` is the home of the colours. A cell that draws names one of them, or
types one that nobody takes for a curve's. The captions below the figures set symbols as
formulas, like the text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import nbformat
import pytest

from softtopk import figures

BOOK = Path(__file__).resolve().parents[2] / "book"
NEAR = 50  # told apart at a glance; black and white are 442 apart
# The same operator under the names that it has for k = 1.
SAME = {frozenset(("exp", "softmax")), frozenset(("clip", "sparsemax"))}
SYMBOL = re.compile(r"\b(?:[kmnd]|S) = [\d−]|(?<![\w(*])[λβτε](?![\w₀-₉])|\*[a-z]\*")


def channels(colour: str) -> list[int]:
    """Red, green and blue of ``#rrggbb``."""
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def distance(one: str, other: str) -> float:
    """How far two colours are from each other."""
    pairs = zip(channels(one), channels(other), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def curves() -> dict[str, str]:
    """The colours of the curves; the hard selection is drawn in the grey of marks."""
    return {name: c for name, c in figures.COLOURS.items() if name != "hard"}


def typed(source: str) -> set[str]:
    """The colours that a cell types, without the greys."""
    strings = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    colours = {s for s in strings if re.fullmatch(r"#[0-9A-Fa-f]{6}|C\d|tab:\w+", s)}
    return {c for c in colours if not (c[0] == "#" and len(set(channels(c))) == 1)}


def wrong(source: str) -> list[str]:
    """The typed colours that a reader takes for a curve's."""
    return [
        f"{colour} is {name}'s"
        for colour in sorted(typed(source))
        for name, own in curves().items()
        if colour[0] != "#" or distance(colour, own) < NEAR
    ]


def drawing() -> Iterator[tuple[str, nbformat.NotebookNode]]:
    """The cells that draw, with their place."""
    for path in sorted(BOOK.rglob("*.ipynb")):
        for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
            if "figure" in cell.metadata.get("mystnb", {}):
                yield f"{path.relative_to(BOOK)}, cell {number}", cell


def test_no_figure_types_the_colour_of_a_curve() -> None:
    found = {place: wrong(cell.source) for place, cell in drawing()}
    assert len(found) > 100
    assert {place: names for place, names in found.items() if names} == {}


@pytest.mark.parametrize("colour", ["#0072B2", "#C1440E", "C1", "tab:blue"])
def test_a_curves_colour_is_found(colour: str) -> None:
    assert wrong(f"ax.plot([0, 1], color={colour!r})")
    assert not wrong("ax.plot([0, 1], color='#777777')")


def test_two_curves_have_two_colours() -> None:
    for one, other in combinations(curves(), 2):
        far = distance(figures.COLOURS[one], figures.COLOURS[other])
        assert far == 0 if frozenset((one, other)) in SAME else far >= NEAR, (
            one,
            other,
        )


@pytest.mark.parametrize(
    "colours", [figures.SERIES, figures.CHANGE.values(), figures.SHADES["noise"]]
)
def test_what_is_no_curve_has_no_curves_colour(colours: tuple[str, ...]) -> None:
    for colour in colours:
        assert min(distance(colour, own) for own in curves().values()) >= NEAR, colour


def plain(caption: str) -> list[str]:
    """The symbols of a caption that are not set as formulas."""
    words = re.sub(r"\$[^$]*\$|\{[a-z:]+\}`[^`]*`|`[^`]*`", "", caption)
    return SYMBOL.findall(words)


def test_captions_set_their_symbols() -> None:
    found = {
        place: plain(cell.metadata.mystnb.figure.get("caption", ""))
        for place, cell in drawing()
    }
    assert {place: symbols for place, symbols in found.items() if symbols} == {}


@pytest.mark.parametrize("caption", ["the scores for k = 2", "the threshold λ", "*k*"])
def test_a_plain_symbol_is_found(caption: str) -> None:
    assert plain(caption) and not plain("the threshold $\\lambda$ for $k=2$")
