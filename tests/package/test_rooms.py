"""The package is as its map, `softtopk/README.md`, says."""

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "softtopk"
MAP = (PACKAGE / "README.md").read_text(encoding="utf8")
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}

# From the ground up.  What is not named is public, and stands above all.
FLOORS = [
    {"_contract.py"},
    {"_rows"},
    {"_curve_base.py", "_linearize.py"},
    {"curves.py"},
    {"_search", "_kernels"},
    {"_rules"},
    {"_adapters", "_operators"},
    {"_torch_modules.py"},
]


def room(file):
    return file.partition("/")[0]


def floor(file):
    return next((i for i, f in enumerate(FLOORS) if room(file) in f), len(FLOORS))


def imported(file, text):
    """The files that a file imports, but for those whose types alone it names."""
    folder, types = Path(file).parent, []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            types += node.body
        if isinstance(node, ast.ImportFrom) and node.level and node not in types:
            base = folder if node.level == 1 else folder.parent
            base = base.joinpath(*(node.module or "").split("."))
            for name in [base, *(base / alias.name for alias in node.names)]:
                found = f"{name.as_posix()}.py"
                if found in FILES:
                    yield found


def upward(file, text):
    """The imports of a file that go up, or into a room beside its own."""
    return [
        other
        for other in imported(file, text)
        if floor(other) < len(FLOORS)
        and room(other) != room(file)
        and floor(other) >= floor(file)
    ]


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_file_imports_what_is_below_it(file):
    assert upward(file, FILES[file].read_text(encoding="utf8")) == []


def test_an_import_that_goes_up_is_found():
    text = "from .._adapters.numpy_adapter import Call\nfrom .start import follow"
    assert upward("_search/root.py", text) == ["_adapters/numpy_adapter.py"]
    assert upward("_operators/hard_body.py", text) == ["_adapters/numpy_adapter.py"]
    assert upward("_adapters/jax_adapter.py", text) == []


def test_no_two_files_have_one_name():
    names = Counter(Path(file).name for file in FILES)
    assert {name for name, count in names.items() if count > 1} == {"__init__.py"}


def test_the_files_of_the_map_are_there():
    for name in re.findall(r"`([\w/.]+\.py)`", MAP):
        places = (PACKAGE, PACKAGE.parent)
        there = any((place / name).exists() for place in places)
        assert there or any(Path(file).name == name for file in FILES), name
    for folder in {room(file) for file in FILES if "/" in file}:
        assert f"{folder}/" in MAP


def test_the_map_names_each_file():
    words = re.findall(r"^\| `(\w+)` \|", MAP, re.MULTILINE)
    patterns = re.findall(r"[\w/]*…[\w.]*", MAP)
    for file in FILES:
        named = re.search(rf"(?<!\w){re.escape(Path(file).name)}", MAP)
        named = named or file.removesuffix(".py") in words
        alike = any(fits(pattern, file) for pattern in patterns)
        assert named or alike or file.endswith("__init__.py"), file


def fits(pattern, file):
    """Whether the map's `…` can stand for a part of the name of a file."""
    parts = pattern.removesuffix(".py").split("…")
    return re.search("(^|/)" + r"\w+".join(map(re.escape, parts)) + r"\.py$", file)


def test_a_file_that_the_map_leaves_out_is_found():
    assert fits("_operators/…_body.py", "_operators/hard_body.py")
    assert fits("_adapters/torch_autograd….py", "_adapters/torch_autograd_costs.py")
    assert not fits("…_rule", "_rules/other.py")
    assert not fits("…_body", "_operators/entmax_alpha.py")


def module(file):
    return f"softtopk.{file[:-3].replace('/', '.')}"


BODIES = {
    name: file
    for file in FILES
    if file.endswith("_body.py")
    for name in getattr(importlib.import_module(module(file)), "__all__", ())
}
OPERATORS = {*BODIES}
"""A body and the public file of each library have an operator of one name."""


def test_the_map_names_each_operator_beside_its_word_and_each_search():
    words = {
        name: word
        for word, names in re.findall(r"^\| `(\w+)` \| (.*?) \|", MAP, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    for name, file in BODIES.items():
        word = Path(file).stem.removesuffix("_body")
        assert word == "losses" or words[name] == word, name
    for file in FILES:
        if room(file) == "_search" and not file.endswith("__init__.py"):
            assert f"{Path(file).name}`" in MAP, file


ALIKE = {
    "Linearization": "the public one on NumPy, and the lazy one on Dask",
    "linearize": "the public function on NumPy, and that on Dask",
    "Entmax": "the curve, and the module of `softtopk.torch`, named as its others",
    "spoil": "one member of an adapter, as PyTorch and as JAX have it",
    "hold": "one member of an adapter, as PyTorch and as JAX have it",
    "ADAPTER": "that of each library",
    "LIMIT": "how many rounds a search may take, which a kernel cannot import",
    "PATIENCE": "after how many of them it halves, which a kernel cannot import",
    "Value": "a type variable",
    "Axis": "a type: what `axis` may be on each library",
    "_EPS": "the rounding error of float64",
    "_BLOCK_ENTRIES": "how many entries a block may have, for the arrays of a file",
    "Numbers": "a type: what a number for each row may be on PyTorch and on JAX",
}


def homonyms(texts):
    """The names outside of functions and classes that several files give."""
    found = {}
    for file, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, set()).add(file)
            for target in targets(node):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    found.setdefault(target.id, set()).add(file)
    found.pop("__all__", None)
    return {name: files for name, files in found.items() if len(files) > 1}


def targets(node):
    """What an assignment names."""
    if isinstance(node, ast.Assign):
        return [one for target in node.targets for one in ast.walk(target)]
    return [node.target] if isinstance(node, ast.AnnAssign) else []


TEXTS = {file: path.read_text(encoding="utf8") for file, path in FILES.items()}


def test_one_name_is_one_thing():
    found = homonyms(TEXTS)
    for name in OPERATORS & {*found}:
        found[name] = {
            file
            for file in found[name]
            if "/" in file and not file.endswith("_body.py")
        }
    several = {name: files for name, files in found.items() if files}
    assert {*several} == {*ALIKE}, several


def test_a_homonym_is_found():
    texts = {"a.py": "class Rows: ...\ndef f(): ...", "b.py": "def Rows(): ..."}
    texts["c.py"] = "def f():\n    def g(): ..."
    texts["d.py"] = "class g:\n    def Rows(): ..."
    assert homonyms(texts) == {"Rows": {"a.py", "b.py"}, "f": {"a.py", "c.py"}}


def test_a_homonym_of_an_assignment_is_found():
    texts = {"a.py": "f = jit(g)\nN, _M = 5, 6", "b.py": "def f(): ...\nN: int = 5"}
    texts["c.py"] = "_M = 7\ndef h():\n    N = 8"
    assert homonyms(texts) == {
        "f": {"a.py", "b.py"},
        "N": {"a.py", "b.py"},
        "_M": {"a.py", "c.py"},
    }


def methods(text):
    """The classes of a file, what they derive from, and their methods."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
            yield node.name, bases, names


CONTRACT = "_contract.py"
ADAPTERS = {"Adapter", "Base", "NumPy", "Call", "Arrays", "Torch", "_Jax"}
OF_ROWS = {"spoil"}
"""What a member of the adapter and a method of rows, which calls it, do alike."""


def mistaken(texts, members):
    """Methods of classes that are no adapter with the name of an adapter's member."""
    return {
        (name, method)
        for text in texts.values()
        for name, _, names in methods(text)
        if name not in ADAPTERS
        for method in names & members
    }


def test_a_member_of_an_adapter_is_one_thing():
    found = {name: (bases, names) for name, bases, names in methods(TEXTS[CONTRACT])}
    members = found["Adapter"][1]
    assert {method for _, method in mistaken(TEXTS, members)} == OF_ROWS


def test_a_mistaken_member_is_found():
    texts = {"a.py": "class Row:\n    def hold(self): ...\n    def f(self): ..."}
    texts["b.py"] = "class Base:\n    def hold(self): ..."
    assert mistaken(texts, {"hold"}) == {("Row", "hold")}


SWITCHES = {"bool", "str", "bool | None", "str | None"}


def mixed(texts):
    """Fields that are a switch or a text in one class and not in another."""
    kinds = {}
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            for field in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(field, ast.AnnAssign):
                    switch = ast.unparse(field.annotation) in SWITCHES
                    kinds.setdefault(field.target.id, set()).add(switch)
    return {name for name, found in kinds.items() if len(found) > 1}


def test_a_field_that_is_a_switch_is_one_everywhere():
    assert not mixed(TEXTS)


def test_a_field_that_is_a_switch_and_a_count_is_found():
    texts = {"a.py": "class A:\n    finite: bool\n    n: int"}
    texts["b.py"] = "class B:\n    finite: Array = None\n    n: Array"
    assert mixed(texts) == {"finite"}


def private(texts):
    """The names with an underscore that a file imports from another one."""
    return {
        (file, alias.name)
        for file, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.level and node.module
        for alias in node.names
        if alias.name.startswith("_")
    }


def test_a_private_name_stays_in_its_file():
    assert not private(TEXTS)


def test_an_import_of_a_private_name_is_found():
    texts = {"a.py": "from . import _torch\nfrom .b import _f, g"}
    assert private(texts) == {("a.py", "_f")}
