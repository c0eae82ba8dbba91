"""The code that the prose pages show: run, and held against the chapters.

A block of Python runs where the libraries that it imports are installed: the operators
on NumPy everywhere, those on PyTorch and JAX in the environment that holds them. A
comment that gives the result of its line has to be right.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import json
import re
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softtopk import figures

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "book/index.md",
    "book/guide-zh.md",
    "book/practice/choosing.md",
    "book/reference/api.md",
    "book/reference/machines.md",
    "book/training/balance.ipynb",
    "book/training/costs.ipynb",
)


def prose(page: str) -> str:
    """The Markdown of a page or of a notebook."""
    text = (ROOT / page).read_text(encoding="utf8")
    if page.endswith(".md"):
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] != "code")


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


FOUND = [(page, code) for page in PAGES for code in blocks(prose(page))]
HERE = [(page, code) for page, code in FOUND if installed(code)]


def array(value: Any) -> Any:
    """A value of any library as an array of NumPy."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def comments(code: str) -> dict[int, str]:
    """The comment on each line that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    found = [t for t in tokens if t.type == tokenize.COMMENT]
    return {t.start[0]: t.string.lstrip("# ") for t in found}


def literal(text: str) -> Any:
    """The number or the sequence of numbers that a text is, or None."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return None
    parts = value if isinstance(value, list | tuple) else [value]
    return value if all(type(v) in (int, float) for v in parts) else None


def result(comment: str, value: Any, names: dict[str, Any]) -> tuple[Any, str] | None:
    """What a comment gives a result of, and the result; None where it gives none.

    It is that of its line, as in `# [0.5, 0.25]`, the sum of each row, as in
    `# sums to 2`, or that of an expression, as in `# p @ cost is 4`.
    """
    if literal(comment) is not None:
        return value, comment
    if found := re.search(r"\bsums? to (\d+)$", comment):
        return array(value).sum(axis=-1), found[1]
    told, _, number = comment.rpartition(" is ")
    if told and literal(number) is not None:
        return eval(told, names), number
    return None


def agrees(value: Any, text: str) -> bool:
    """Whether a value rounds to the digits of a text; whole numbers are exact."""
    numbers = re.findall(r"-?\d+(?:\.(\d+))?", text)
    close = [0.5 * 10.0 ** -len(d) if d else 1e-6 for d in numbers]
    known, found = np.asarray(literal(text), float), array(value)
    if known.ndim and known.shape != found.shape:
        return False
    return bool((abs(found - known) <= np.reshape(close, known.shape) * 1.001).all())


def run(code: str) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """What a block leaves behind, and each comment with a result: whether it is right.

    The last line, if it is an expression, is left as `_`.
    """
    names: dict[str, Any] = {}
    told, notes = [], comments(code)
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            names["_"] = eval(
                compile(ast.Expression(statement.value), "block", "eval"), names
            )
        else:
            exec(compile(ast.Module([statement], []), "block", "exec"), names)
        value = names.get("_")
        if isinstance(statement, ast.Assign):
            (target,) = statement.targets
            value = names.get(target.id) if isinstance(target, ast.Name) else None
        comment = notes.get(statement.end_lineno or 0, "")
        if given := result(comment, value, names):
            told.append((comment, agrees(*given)))
    return names, told


def test_every_page_shows_every_library() -> None:
    for page in ("README.md", "book/practice/choosing.md"):
        shown = set().union(*(imports(code) for name, code in FOUND if name == page))
        assert {"softtopk", "softtopk.torch", "softtopk.jax"} <= shown


@pytest.mark.parametrize(("page", "code"), HERE)
def test_the_code_of_a_page_runs(page: str, code: str) -> None:
    names, told = run(code)
    assert [comment for comment, right in told if not right] == []
    if "p" in names:
        p = array(names["p"])
        assert p.min() >= 0
        assert p.max() <= 1
        if "cost" not in names:
            assert p.sum(axis=-1) == pytest.approx(np.full(p.shape[:-1], 2), abs=1e-6)
    if "lin" in names:
        slope = names["lin"].jacobian()
        moved = names.get("cost", np.ones(len(slope))) @ slope  # of what is spent
        assert moved == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "page", ["README.md", "book/practice/choosing.md", "book/training/costs.ipynb"]
)
def test_a_page_says_what_comes_out(page: str) -> None:
    assert any(run(code)[1] for name, code in HERE if name == page)


@pytest.mark.parametrize(("page", "code"), FOUND)
def test_a_line_of_a_page_fits_a_phone(page: str, code: str) -> None:
    if page.startswith("book/practice"):
        assert max(map(len, code.splitlines())) <= 44


def test_blocks_are_found_and_run() -> None:
    text = "a\n```python\nx = 1\nx + 1\n```\n\n```bash\nls\n```\n"
    (code,) = blocks(text)
    assert run(code)[0]["_"] == 2
    assert imports("import a.b\nimport c as d") == {"a.b", "c"}
    assert installed("import softtopk")
    assert not installed("import softtopk.torch, no_such_library")


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("x  # [1.26, -0.5]", True),
        ("x  # [1.25, -0.5]", False),
        ("x  # [1.26, -0.5, 0]", False),
        ("x  # 1.26", False),
        ("y = x  # [1.26, -0.4]", False),
        ("x.shape  # (2,)", True),
        ("x.shape  # (3,)", False),
        ("2 * x  # sums to 2", False),
        ("x + 0.62  # sums to 2", True),
        ("x  # numbers that sum to 1", False),
        ("y = x  # 2 * y[1] is -1", True),
        ("y = x  # 2 * y[1] is 1", False),
    ],
)
def test_a_wrong_result_is_found(line: str, right: bool) -> None:
    code = f"import numpy\n\nx = numpy.array([1.26, -0.5])  # two numbers\n{line}\n"
    assert run(code)[1] == [(line.partition("# ")[2], right)]


def test_the_explorer_opens_with_the_running_example() -> None:
    script = (ROOT / "book/_static/explore/explorer.js").read_text(encoding="utf8")
    start = re.search(r"const START = \{ x: \[(.*?)\], k: (\d)", script)
    assert start is not None
    assert tuple(float(v) for v in start[1].split(",")) == figures.ROUTER
    assert start[2] == "2"
