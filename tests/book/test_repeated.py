"""Programs of the chapters that ``softtopk.verify`` repeats for other chapters."""

from __future__ import annotations

import ast
import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softtopk import verify

BOOK = Path(__file__).parents[2] / "book"


def taught(page: str) -> dict[str, Any]:
    """The functions that the code cells of a chapter define."""
    cells = json.loads((BOOK / f"{page}.ipynb").read_text(encoding="utf8"))["cells"]
    names: dict[str, Any] = {"np": np}
    for cell in cells:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            tree.body = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
            exec(compile(tree, page, "exec"), names)
    return names


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("selection/marginals", ["recursion", "log_prefixes", "log_dp"]),
        ("computing/rounding", ["amplification"]),
    ],
)
def test_a_copy_computes_what_its_chapter_does(page: str, names: list[str]) -> None:
    """To the last bit: other chapters measure the errors of these programs."""
    chapter = taught(page)
    for name, (x, k) in product(names, verify.subset_cases()):
        found = getattr(verify, name)(x, k)
        assert np.array_equal(found, chapter[name](x, k), equal_nan=True), name


def test_the_copies_for_coins_compute_what_their_chapter_does() -> None:
    chapter = taught("selection/marginals")
    chances = [Fraction(1, 2), Fraction(1, 3), Fraction(5, 7)]
    assert verify.coin_law(chances) == chapter["coin_law"](chances)
    pi = np.array([0.5, 0.3, 0.9])
    given = pi, 1 - pi, 2
    assert np.array_equal(verify.coin_table(*given), chapter["coin_table"](*given))
