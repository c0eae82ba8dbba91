"""Cells that run in the page: what the interpreter does, and which pages offer it."""

from __future__ import annotations

import base64
import doctest
import json
import re
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from IPython.lib import pretty
from small_book import notebook_of, run_sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "book" / "_extensions"), str(ROOT / "book" / "_live")]
sys.modules.setdefault("pretty", pretty)  # in a page it is a module of this name

import cells  # noqa: E402
import live  # noqa: E402

Outputs = list[dict[str, Any]]


@pytest.fixture
def shown() -> Outputs:
    return []


@pytest.fixture
def shell(shown: Outputs) -> cells.Shell:
    return cells.Shell(shown.append)


@pytest.mark.parametrize("module", [live, cells])
def test_doctests_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.failed == 0 < found.attempted


def test_a_cell_shows_its_last_expression(shell: cells.Shell, shown: Outputs) -> None:
    assert shell.run("print('a')\nx = 2\nx * 1.5", 0, -1)
    assert [output["output_type"] for output in shown] == [
        *["stream"] * (len(shown) - 1),
        "execute_result",
    ]
    assert "".join(output["text"] for output in shown[:-1]) == "a\n"
    assert shown[-1]["data"] == {"text/plain": "3.0"}


def test_a_formula_shows_in_both_forms(shell: cells.Shell, shown: Outputs) -> None:
    shell.run("import sympy as sp\nsp.sqrt(2)", 0, -1)
    assert shown[0]["data"] == {
        "text/plain": "sqrt(2)",
        "text/latex": r"$\displaystyle \sqrt{2}$",
    }


def test_numbers_of_numpy_say_their_type(shell: cells.Shell, shown: Outputs) -> None:
    shell.run("import numpy as np\n[np.float64(0.5)], np.float64(2)", 0, -1)
    assert shown[0]["data"]["text/plain"] == "([np.float64(0.5)], np.float64(2.0))"


def test_a_figure_shows_once(shell: cells.Shell, shown: Outputs) -> None:
    import matplotlib.pyplot as plt

    before, plt.show = plt.show, lambda: shell.figures()
    try:
        code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(3, 2))\nplt.show()"
        assert shell.run(code, 0, -1)
    finally:
        plt.show = before
    (output,) = shown
    assert base64.b64decode(output["data"]["image/png"]).startswith(b"\x89PNG")
    assert output["data"]["text/plain"] == "<Figure size 300x200 with 0 Axes>"


def test_an_error_begins_in_the_cell(shell: cells.Shell, shown: Outputs) -> None:
    assert not shell.run("def f():\n    return 1 / 0\nf()", 4, -1)
    (output,) = shown
    assert (output["ename"], output["evalue"]) == (
        "ZeroDivisionError",
        "division by zero",
    )
    lines = output["traceback"].splitlines()
    assert lines[1] == '  File "cell 5", line 3, in <module>'
    assert "    return 1 / 0" in lines
    assert "cells.py" not in output["traceback"]


def test_what_is_no_python_says_where(shell: cells.Shell, shown: Outputs) -> None:
    assert not shell.run("x = 1\ny = = 2", 0, -1)
    assert shown[0]["ename"] == "SyntaxError"
    assert "y = = 2" in shown[0]["traceback"]


def test_a_cell_finds_what_the_cell_above_has_left(
    shell: cells.Shell, shown: Outputs
) -> None:
    shell.run("x = 1\ndef f():\n    return g()", 0, -1)
    shell.run("x\n", 1, 0)
    shell.run("x = 5\ndef g():\n    return x\nf()", 2, 1)
    shell.run("x", 1, 0)
    values = [output["data"]["text/plain"] for output in shown]
    assert values == ["1", "5", "1"]


def test_a_check_takes_the_names_of_an_answer(
    shell: cells.Shell, shown: Outputs
) -> None:
    check = ["a = 4\nb = a + 1", "assert b == 5"]
    shell.run("a, other = 4, 0", 7, -1)
    assert shell.check(check, "a, other = 4, 0", 8, 7) == (True, ["a"], ["a", "b"])
    shell.run("a = 3", 7, -1)
    assert shell.check(check, "a = 3", 8, 7) == (False, ["a"], ["a", "b"])
    assert shown[-1]["ename"] == "AssertionError"
    assert shell.check(check, "", 8, -1) == (True, [], ["a", "b"])


def test_a_definition_gives_way_only_whole() -> None:
    code, used = cells.answered("a, b = 1, 2\nassert b == 2", ["b"])
    assert code == "a, b = 1, 2\nassert b == 2"
    assert used == []


def test_the_wheel_is_the_package_and_always_the_same() -> None:
    data = live.wheel(ROOT)
    assert data == live.wheel(ROOT)
    with zipfile.ZipFile(BytesIO(data)) as archive:
        source = ROOT / "softtopk" / "__init__.py"
        assert archive.read("softtopk/__init__.py") == source.read_bytes()


def test_the_interpreter_gets_what_it_reads() -> None:
    worker = (ROOT / "book" / "_live" / "worker.js").read_text(encoding="utf8")
    for name in live.own_files(ROOT):
        assert name in worker or name == "worker.js"


# --- The pages -----------------------------------------------------------------------


def built(folder: Path, *cells: str) -> str:
    """The page of a notebook with some cells of code."""
    (folder / "book").mkdir()
    (folder / "book" / "_live").symlink_to(ROOT / "book" / "_live")
    (folder / "softtopk").symlink_to(ROOT / "softtopk")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    code = [(cell, (), []) for cell in cells]
    (folder / "index.ipynb").write_text(notebook_of("# Title", *code))
    return build(folder)


def build(folder: Path) -> str:
    """The page, built from what is there, after what was built before."""
    settings = {
        "extensions": ["myst_nb", "live"],
        "nb_execution_mode": "off",
        "exclude_patterns": [
            *("_build", "book", "softtopk", "benchmarks"),
            *("html", "jupyter_execute"),  # of a build before
        ],
    }
    assert run_sphinx(folder, folder / "html", settings) == ""
    return (folder / "html" / "index.html").read_text()


def prepare(folder: Path) -> None:
    """What `make live` leaves, as small as it can be."""
    assets = folder / "_build" / "live" / "assets"
    assets.mkdir(parents=True)
    (assets / "core.0.js").write_text(live.script("core", "AA=="))
    (assets / "editor.js").write_text("")


@pytest.mark.filterwarnings("default")
def test_a_page_offers_to_run_its_cells_when_all_is_there(tmp_path: Path) -> None:
    prepare(tmp_path)
    page = built(tmp_path, "import numpy as np")
    (tag,) = re.findall(r"<script[^>]*live\.js[^>]*>", page)
    assert 'data-needs=""' in tag
    assert "live.css" in page
    target = tmp_path / "html" / "_static" / "live"
    index = (target / "index.js").read_text()
    sizes = json.loads(index[index.index("{") : index.rindex("}") + 1])
    assert sizes == {
        name: (target / name).stat().st_size for name in ("book.0.js", "core.0.js")
    }


@pytest.mark.filterwarnings("default")
def test_a_page_stays_as_it_is_when_nothing_is_there(tmp_path: Path) -> None:
    page = built(tmp_path, "import numpy as np")
    assert "live." not in page
    assert not (tmp_path / "html" / "_static" / "live").exists()


@pytest.mark.filterwarnings("default")
def test_a_page_that_was_built_before_offers_it_too(tmp_path: Path) -> None:
    built(tmp_path, "import numpy as np")
    prepare(tmp_path)
    assert 'data-needs=""' in build(tmp_path)


@pytest.mark.filterwarnings("default")
def test_a_page_names_the_framework_that_it_needs(tmp_path: Path) -> None:
    prepare(tmp_path)
    page = built(tmp_path, "x = 1", "import softtopk.torch as stk\nimport jax")
    assert 'data-needs="JAX and PyTorch"' in page


@pytest.mark.filterwarnings("default")
def test_a_page_without_code_offers_nothing(tmp_path: Path) -> None:
    prepare(tmp_path)
    assert "live." not in built(tmp_path)
