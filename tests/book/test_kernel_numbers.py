"""What computing/search says of the kernels is what was measured."""

import ast
import json
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def test_the_chapter_has_the_numbers_of_the_file():
    notebook = nbformat.read(ROOT / "book" / "computing" / "search.ipynb", as_version=4)
    told = {}
    for cell in notebook.cells:
        name, found, value = cell.source.partition(" = {\n")
        if cell.cell_type == "code" and found and name in ("COMPILED", "WORST"):
            told[name] = ast.literal_eval("{\n" + value[: value.index("\n}") + 2])
    stored = json.loads((ROOT / "benchmarks" / "kernels.json").read_text())
    assert told["WORST"] == {
        name: tuple(errors.values()) for name, errors in stored["entmax"].items()
    }
    compiled = {}
    for line in stored["compiled"]:
        warps, n = line["warps"] // line["rows"], line["entries"]
        compiled[n] = warps, n // (32 * warps), line["registers"], line["pass"]
    assert told["COMPILED"] == compiled
    assert stored["rows"] == 5000
    bounds = {"shares": 4, "sums": 16, "x": 2, "k": 4, "tau": 10}
    for errors in stored["curves"].values():
        assert all(errors[name] <= bound for name, bound in bounds.items())
