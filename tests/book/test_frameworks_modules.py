"""The modules that a tool writes, from operators' bodies, are those it would write."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import frameworks_modules as tool  # noqa: E402

each = pytest.mark.parametrize("library", tool.ARRAYS)


def source(library):
    return (ROOT / "softtopk" / f"{library}.py").read_text()


@each
def test_a_module_is_current(library):
    assert source(library) == tool.module(library), "run tools/frameworks_modules.py"


@each
def test_every_function_has_types_and_says_what_its_parameters_are(library):
    functions = [
        node
        for node in ast.parse(source(library)).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert {f.name for f in functions} == {n for _, n, _ in tool.operators(library)}
    for f in functions:
        text = ast.get_docstring(f)
        given = [*f.args.args, *f.args.kwonlyargs]
        for argument in [*given, f]:
            kind = argument.returns if argument is f else argument.annotation
            assert kind is not None
            assert argument is f or "Any" not in ast.unparse(kind)
        for argument in given:
            assert argument.arg in text.split("Returns")[0], (f.name, argument.arg)
        if f.args.kwarg:  # the other word for an axis
            word = f.args.kwarg.arg
            assert f"{word} :" not in text
            assert f"`{word}`" not in text


def test_only_numpy_has_the_examples_and_no_check():
    texts = {library: source(library) for library in tool.ARRAYS}
    losses = len(list(tool.operators("losses")))
    assert texts["losses"].count("Examples\n") == losses
    assert "check" not in texts["losses"]
    for library in ("torch", "jax"):
        assert "softtopk.losses" not in texts[library]
        assert texts[library].count("    check: bool | None = None") > losses


def test_a_shared_description_is_short() -> None:
    """The book repeats it for each of the parameters that share it."""
    entry = re.compile(r"^ {4}(\w+(?:, \w+){2,})\n((?: {8}.*\n)+)", re.MULTILINE)
    found = {
        f"{path.name}: {names}": " ".join(text.split())
        for path in (ROOT / "softtopk").rglob("*.py")
        for names, text in entry.findall(path.read_text(encoding="utf8"))
    }
    assert len(found) > 20
    long = {where: text for where, text in found.items() if len(text) > 100}
    assert long == {}
