"""The changes that `tools/definitions.py` draws. Seeing them noticed takes minutes."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

import definitions  # noqa: E402


def test_what_leaves_the_same_function_is_still_a_change_of_its_chapter() -> None:
    for chapter in {chapter for chapter, _ in definitions.SAME}:
        lines = {place.line for cell in definitions.places(chapter) for place in cell}
        left_out = {line for name, line in definitions.SAME if name == chapter}
        assert left_out <= lines


def test_what_is_changed_already_is_left_out() -> None:
    cells = definitions.places("selection/marginals")
    taken = definitions.changed_already("selection/marginals")
    assert cells and taken
    assert not [p for cell in cells for p in cell for text in taken if text in p.line]


def test_functions_alone_are_changed() -> None:
    source = "a = 1\nf = lambda t: t\ndef g(t):\n    return t\n"
    pieces = [source[begin:end] for begin, end in definitions.wanted(source)]
    assert pieces == ["f = lambda t: t", "def g(t):\n    return t"]
