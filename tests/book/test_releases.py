"""The releases that the pages promise are those of the metadata and of the tests."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from floors import floor  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf8")
PAGE = (ROOT / "book" / "reference" / "frameworks.md").read_text(encoding="utf8")
PINS = (ROOT / "requirements-frameworks.txt").read_text(encoding="utf8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
WEEKLY = yaml.safe_load((ROOT / ".github" / "workflows" / "newest.yml").read_text())
LIBRARIES = {"torch": "PyTorch", "jax": "JAX", "dask": "Dask"}
TESTED = {"every week", "with every change", "by hand"}


def table() -> dict[str, dict[str, list[str]]]:
    """The page's rows: by library and release, when it is tested and what works."""
    start = PAGE.index("| release | tested |")
    found: dict[str, dict[str, list[str]]] = {}
    for line in PAGE[start:].partition("\n\n")[0].splitlines()[2:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        library, _, release = name.partition(" ")
        found.setdefault(library, {})[release] = cells
    return found


def oldest(name: str) -> str:
    """The oldest release that the extra of this name allows."""
    (wanted,) = PROJECT["optional-dependencies"][name]
    return floor(wanted).partition("==")[2]


def matches(release: str, constraint: str) -> bool:
    """Whether a constraint such as torch==2.11.* is one for a release such as 2.11."""
    return constraint.partition("==")[2].removesuffix(".*") == release


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_pages_name_the_oldest_releases_of_the_metadata(name: str) -> None:
    library, least = LIBRARIES[name], oldest(name)
    assert f"{library} {least} or newer" in README
    assert f"{library} {least} or newer" in PAGE
    releases = list(table()[library])
    assert releases[0] == least
    assert releases[-1] == "newest"
    order = [tuple(map(int, release.split("."))) for release in releases[:-1]]
    assert order == sorted(order)


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_release_of_the_table_is_tested_as_it_says(name: str) -> None:
    """The pinned one with every change, the others by the weekly workflow.

    What was run by hand is newer than the pinned one, which the newest of the weekly
    workflow reaches, and the page says what was run.
    """
    (pin,) = re.findall(rf"^{name}==([\d.]+)$", PINS, re.MULTILINE)
    rows = WEEKLY["jobs"]["frameworks"]["strategy"]["matrix"]["include"]
    weekly = [word for r in rows for word in r["releases"].split()]
    assert "oldest" in weekly
    for release, (tested, works) in table()[LIBRARIES[name]].items():
        assert works
        assert tested in TESTED
        if tested == "with every change":
            assert pin == release or pin.startswith(f"{release}.")
        elif tested == "by hand":
            assert [*map(int, release.split("."))] > [*map(int, pin.split(".")[:2])]
            assert f"- *By hand*: with {release}, " in PAGE
        elif release not in (oldest(name), "newest"):
            assert any(
                w.startswith(f"{name}==") and matches(release, w) for w in weekly
            )


def imported(path: Path) -> set[str]:
    """The modules that a file imports before any of its tests runs."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf8")).body:
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module.partition(".")[0])
    return found


def test_the_old_releases_come_with_what_the_tests_import() -> None:
    """One module that is missing ends a run before its first test."""
    own = {path.stem for path in ROOT.glob("tests/*/*.py")} | {"softtopk"}
    own |= {path.stem for path in ROOT.glob("benchmarks/*.py")}
    tests = sorted((ROOT / "tests" / "frameworks").glob("*.py"))
    modules = set().union(*map(imported, tests)) - own - set(sys.stdlib_module_names)
    modules -= {"functorch"}  # of torch
    extras = PROJECT["optional-dependencies"]
    wanted = [
        r for e in ("training", "torch", "jax", "dask", "symbolic") for r in extras[e]
    ]
    wanted += PROJECT["dependencies"]
    brought = " ".join(re.match(r"[\w-]+", r)[0] for r in wanted)
    steps = WEEKLY["jobs"]["frameworks"]["steps"]
    (step,) = (s["run"] for s in steps if "pip install" in s.get("run", ""))
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    (line,) = re.findall(r"--constraint floors\.txt --editable ((?:.*\\\n)+.*)", guide)
    for command in (step, line):
        words = set(re.findall(r"[\w-]+", f"{brought} {command}".replace("-", "_")))
        assert modules - words == set()


# --- What the oldest PyTorch cannot follow -------------------------------------------

# PyTorch never meets these: Triton's language, and what only the other libraries call.
OTHERS = (
    *("_kernels/*", "_adapters/jax_*.py", "_adapters/numpy_*.py", "dask.py"),
    *("_search/numpy_search.py", "_search/numpy_balance.py", "_linearize.py"),
)
TRACED = [
    path
    for path in sorted((ROOT / "softtopk").rglob("*.py"))
    if not any(path.match(f"softtopk/{other}") for other in OTHERS)
]


def unfollowed(text: str) -> list[str]:
    """What PyTorch 2.10 does not trace, or does not do to a DTensor, in a module.

    And what 2.15 takes for a symbol, which its loops refuse, with ``dynamic=True``.
    """
    found, tree = [], ast.parse(text)
    if "loop(" in text:
        for node in tree.body:
            match node:
                case ast.Assign(value=value) if any(
                    isinstance(part, ast.Constant) and isinstance(part.value, float)
                    for part in ast.walk(value)
                ):
                    found.append(f"line {node.lineno}: a float with a name, for a loop")
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("cache")):
                found.append(f"line {node.lineno}: a cache made in a call")
            case ast.Call(func=ast.Name("isinstance"), args=[_, ast.BinOp()]):
                found.append(f"line {node.lineno}: isinstance of a union of types")
            case ast.BinOp(op=ast.BitOr()) if ast.Dict in map(
                type, (node.left, node.right)
            ):
                found.append(f"line {node.lineno}: a union of dictionaries")
            case ast.Compare(ops=[ast.NotEq()], comparators=[right]) if ast.dump(
                node.left
            ) == ast.dump(right):
                found.append(f"line {node.lineno}: x != x, which is_nan says")
            case ast.ClassDef(bases=[ast.Name("NamedTuple")]):
                found += [
                    f"line {item.lineno}: a property of a NamedTuple"
                    for item in node.body
                    if "property"
                    in map(ast.unparse, getattr(item, "decorator_list", []))
                ]
    return found


@pytest.mark.parametrize("path", TRACED, ids=lambda path: path.name)
def test_nothing_is_written_that_the_oldest_pytorch_cannot_follow(path: Path) -> None:
    assert unfollowed(path.read_text(encoding="utf8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(x, int | float)",
        "found = cache(slopes)",
        "NEAR = 2.0**-2\nloop(going, lambda x: NEAR * x, x)",
        "given | {'a': 1}",
        "{'a': 1} | given",
        "t != t",
        "x[0].t != x[0].t",
        "class A(NamedTuple):\n    @property\n    def a(self): ...",
    ],
)
def test_what_it_cannot_follow_is_found(line: str) -> None:
    assert len(unfollowed(line)) == 1
    assert unfollowed("isinstance(x, (int, float)); {**a, 'b': 1}; a | b; x != y") == []
