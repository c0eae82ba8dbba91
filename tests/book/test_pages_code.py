"""The code that the prose pages show: run, and held against the chapters.

A block of Python runs where the libraries that it imports are installed: the operators
on NumPy everywhere, those on PyTorch and JAX in the environment that holds them.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softtopk import figures

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "book/index.md", "book/practice/choosing.md")


def blocks(text: str) -> list[str]:
    """The blocks of Python in a Markdown text."""
    return re.findall(r"(?ms)^```python\n(.*?)^```", text)


def imports(code: str) -> set[str]:
    """The modules that a block imports."""
    return {
        alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def installed(code: str) -> bool:
    """Whether this environment has all that a block imports."""
    roots = {name.partition(".")[0] for name in imports(code)}
    needed = roots | {name.partition(".")[2] for name in imports(code)} - {""}
    return all(importlib.util.find_spec(name) for name in needed)


FOUND = [(page, code) for page in PAGES for code in blocks((ROOT / page).read_text())]
HERE = [(page, code) for page, code in FOUND if installed(code)]


def run(code: str) -> dict[str, Any]:
    """What a block leaves behind; its last line, if it is an expression, as `_`."""
    *head, last = ast.parse(code).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(head, []), "block", "exec"), names)
    if isinstance(last, ast.Expr):
        names["_"] = eval(compile(ast.Expression(last.value), "block", "eval"), names)
    else:
        exec(compile(ast.Module([last], []), "block", "exec"), names)
    return names


def test_every_page_shows_every_library() -> None:
    for page in ("README.md", "book/practice/choosing.md"):
        shown = set().union(*(imports(code) for name, code in FOUND if name == page))
        assert {"softtopk", "softtopk.torch", "softtopk.jax"} <= shown


@pytest.mark.parametrize(("page", "code"), HERE)
def test_the_code_of_a_page_runs(page: str, code: str) -> None:
    names = run(code)
    if "p" in names:
        p = names["p"]
        p = np.asarray(p.detach() if hasattr(p, "detach") else p)  # PyTorch's
        assert p.min() >= 0
        assert p.max() <= 1
        assert p.sum(axis=-1) == pytest.approx(np.full(p.shape[:-1], 2), abs=1e-6)
    if "lin" in names:
        assert np.asarray(names["lin"].jacobian()).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("page", "code"), FOUND)
def test_a_line_of_a_page_fits_a_phone(page: str, code: str) -> None:
    if page.startswith("book/practice"):
        assert max(map(len, code.splitlines())) <= 44


def test_blocks_are_found_and_run() -> None:
    text = "a\n```python\nx = 1\nx + 1\n```\n\n```bash\nls\n```\n"
    (code,) = blocks(text)
    assert run(code)["_"] == 2
    assert imports("import a.b\nimport c as d") == {"a.b", "c"}
    assert installed("import softtopk")
    assert not installed("import softtopk.torch, no_such_library")


def test_the_explorer_opens_with_the_running_example() -> None:
    script = (ROOT / "book/_static/explore/explorer.js").read_text(encoding="utf8")
    start = re.search(r"const START = \{ x: \[(.*?)\], k: (\d)", script)
    assert start is not None
    assert tuple(float(v) for v in start[1].split(",")) == figures.ROUTER
    assert start[2] == "2"
