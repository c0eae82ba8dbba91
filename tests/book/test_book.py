"""Guards over the book: what its notebooks, claims and links must be.

No guard needs a build. Each is a function from a notebook or a text to a list of
faults, and each is shown here to find the fault that it is for.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

import softtopk

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
CLAIMS = BOOK / "claims.yml"

sys.path.append(str(ROOT / "tools"))

import refresh  # noqa: E402
from claims import cells  # noqa: E402  (refresh has put it on the path)
from slices import defined, plain_code, used  # noqa: E402

NOTEBOOKS = sorted(BOOK.rglob("*.ipynb"))
PAGES = sorted([*NOTEBOOKS, *BOOK.rglob("*.md")])
LEDGER = yaml.load(CLAIMS.read_text(encoding="utf8"), Loader=yaml.CSafeLoader)
ROWS = [*LEDGER["claims"], *LEDGER["results"]]
VERDICTS = {row["id"]: row["verdict"] for row in ROWS}

Notebook = nbformat.NotebookNode


def path_id(path: Path) -> str:
    """Name of a file in a test's id."""
    return path.relative_to(ROOT).as_posix()


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=path_id)
each_page = pytest.mark.parametrize("path", PAGES, ids=path_id)


def read(path: Path) -> Notebook:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def code_cells(notebook: Notebook) -> list[Notebook]:
    """The code cells that hold code."""
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]


def tags(cell: Notebook) -> list[str]:
    """The tags of a cell."""
    return cell.metadata.get("tags", [])


def printed(cell: Notebook) -> str:
    """The stored text of a cell, of every kind."""
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        for kind, data in output.get("data", {}).items():
            if not kind.startswith("image/"):
                parts.append(data if isinstance(data, str) else str(data))
    return "\n".join(parts)


def prose(path: Path) -> str:
    """The Markdown of a page or notebook."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf8")
    cells = read(path).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


# --- Notebooks -----------------------------------------------------------------------


def not_executed(notebook: Notebook) -> list[str]:
    """Cells must have run from the first to the last, without error."""
    faults = []
    cells = code_cells(notebook)
    counts = [cell.execution_count for cell in cells]
    if counts != list(range(1, len(cells) + 1)):
        faults.append(f"execution counts are {counts}")
    if not any(cell.outputs for cell in cells):
        faults.append("no cell has an output")
    for number, cell in enumerate(cells, 1):
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                faults.append(f"cell {number} stores an error")
            if output.get("name") == "stderr":
                faults.append(f"cell {number} writes to stderr")
    return faults


VOLATILE = {
    "memory address": r"\b0x[0-9a-fA-F]{6,}",
    "machine path": r"(?<![\w.])/(?:home|Users|usr|tmp|root|work|opt|var)/",
    "timing": r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms|sec|secs|seconds)\b",
    "date": r"\b20\d\d-[01]\d-[0-3]\d\b",
    "version": r"\b\d+\.\d+\.\d+\b",
}


def volatile(notebook: Notebook) -> list[str]:
    """Outputs must be the same on every machine and day."""
    faults = []
    for number, cell in enumerate(code_cells(notebook), 1):
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        if "image/svg+xml" in kinds:
            faults.append(f"cell {number} stores an SVG")
        for name, pattern in VOLATILE.items():
            if found := re.search(pattern, printed(cell)):
                faults.append(f"cell {number} prints a {name}: {found[0]}")
        if cell.source.rstrip().endswith(";"):
            faults.append(f"cell {number} ends with a semicolon, which nbval ignores")
        compared = not {"nbval-skip", "nbval-ignore-output"} & set(tags(cell))
        if not compared and "# Not compared:" not in cell.source:
            faults.append(f"cell {number} is not compared and does not say why")
    return faults


def without_words(notebook: Notebook) -> list[str]:
    """A figure needs a name, a caption and a text for those who cannot see it."""
    faults = []
    for number, cell in enumerate(code_cells(notebook), 1):
        if not any("image/png" in output.get("data", {}) for output in cell.outputs):
            continue
        about = cell.metadata.get("mystnb", {})
        for name, text in (
            ("name", about.get("figure", {}).get("name")),
            ("caption", about.get("figure", {}).get("caption")),
            ("alt", about.get("image", {}).get("alt")),
        ):
            if not (text or "").strip():
                faults.append(f"cell {number}: figure without {name}")
    return faults


def by_place(notebook: Notebook) -> list[str]:
    """Three panels or more stand below each other on a phone: none is the left one."""
    faults = []
    for number, cell in enumerate(code_cells(notebook), 1):
        axes = re.search(r"<Figure size \S+ with (\d+) Axes>", printed(cell))
        about = cell.metadata.get("mystnb", {})
        words = [about.get(k, {}) for k in ("figure", "image")]
        text = " ".join(str(w.get(k, "")) for w in words for k in ("caption", "alt"))
        sides = "(?:left|middle|right)"
        place = re.search(rf"(?i)\bthe {sides}\b(?! of\b)|\b{sides}[,:)]", text)
        if axes and int(axes[1]) >= 3 and place:
            faults.append(f"cell {number} names a panel by its place: {place[0]}")
    return faults


def extra_metadata(notebook: Notebook) -> list[str]:
    """Metadata holds what the book needs and nothing of the machine."""
    faults = []
    if set(notebook.metadata) != {"kernelspec", "language_info"}:
        faults.append(f"notebook metadata {sorted(notebook.metadata)}")
    if notebook.metadata.get("language_info") != {"name": "python"}:
        faults.append("language_info holds more than the name")
    for number, cell in enumerate(notebook.cells):
        if extra := set(cell.metadata) - {"tags", "mystnb"}:
            faults.append(f"cell {number} has metadata {sorted(extra)}")
        if cell.cell_type == "code" and any(o.get("metadata") for o in cell.outputs):
            faults.append(f"cell {number} has output metadata")
    return faults


def unsolved(notebook: Notebook) -> list[str]:
    """An exercise needs a solution, and the solution a cell that checks it."""
    faults: list[str] = []
    asked, checked, solution = set(), {}, ""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            asserts = [n for n in ast.walk(ast.parse(cell.source)) if is_assert(n)]
            if solution and asserts:
                checked[solution] = True
            continue
        for opening, name, heading in re.findall(DIRECTIVE, cell.source):
            if heading:
                faults += [f"the solution of {solution} has no end"] if solution else []
            elif opening == "exercise":
                asked.add(name)
            elif opening == "solution-start":
                solution = name
                checked[solution] = False
            else:
                solution = ""
                if opening == "solution":
                    faults.append(f"the solution of {name} has no room for a cell")
    faults += [f"{name} has no solution" for name in sorted(asked - set(checked))]
    faults += [f"nothing checks {name}" for name in checked if not checked[name]]
    return faults


# A gate has its label after its name, an exercise below its title.  Or a heading.
DIRECTIVE = (
    r"(?m)^(?:`{3,}\{(exercise|solution|solution-start|solution-end)\}"
    r"(?:[^\n]*\n:label:)?[^\S\n]*([\w-]*)|(#)+ )"
)


def is_assert(node: ast.AST) -> bool:
    """Whether a node of a cell's code is an assertion that can fail."""
    return isinstance(node, ast.Assert) and can_fail(node.test)


def can_fail(test: ast.expr) -> bool:
    """Whether an asserted expression says anything about values."""
    if isinstance(test, ast.Tuple):  # always true when it has an entry
        return False
    telling = (ast.Call, ast.Compare, ast.Name)
    return any(isinstance(node, telling) for node in ast.walk(test))


# --- Folds ---


def hidden_names(notebook: Notebook) -> list[str]:
    """No name that an open cell uses was last given its value by a folded one.

    Imports and helpers are folded too. A reader expects the names of imports, and
    `untold_helpers` makes sure that the text introduces the helpers.
    """
    faults = []
    folded: dict[str, int] = {}
    for number, cell in enumerate(code_cells(notebook), 1):
        tree = plain_code(cell)
        if cells.kind(tags(cell)) in (None, "imports", "helpers"):
            for name in sorted(used(tree) & set(folded)):
                faults.append(f"cell {number}: {name} is of cell {folded[name]}")
            for name in defined(tree):
                folded.pop(name, None)
        else:
            folded |= dict.fromkeys(defined(tree), number)
    return faults


def untold(notebook: Notebook) -> list[str]:
    """A folded check says in its first line what it checks; no tag is of nothing."""
    faults = []
    for number, cell in enumerate(code_cells(notebook), 1):
        if "check" in tags(cell) and not cells.announced(cell.source):
            faults.append(f"cell {number}: a check begins with a comment")
        known = {*cells.KINDS, "nbval-skip", "nbval-ignore-output", "raises-exception"}
        for tag in set(tags(cell)) - known:
            if not tag.startswith(cells.TAG):
                faults.append(f"cell {number}: unknown tag {tag}")
    return faults


def untold_helpers(notebook: Notebook) -> list[str]:
    """The text names each folded helper before the first open cell that uses it.

    What is folded as imports defines no function and no class.
    """
    faults = []
    folded: set[str] = set()
    named: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            named |= set(re.findall(r"`([A-Za-z_]\w*)", cell.source))
            continue
        tree = plain_code(cell)
        kind = cells.kind(tags(cell))
        if kind == "imports":
            faults += [
                f"{node.name} is defined among the imports"
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
            ]
        elif kind == "helpers":
            folded |= defined(tree)
        elif kind is None:
            faults += [
                f"{name} is used before the text names it"
                for name in sorted(used(tree) & folded - named)
            ]
            folded -= defined(tree)
    return faults


GUARDS = (
    not_executed,
    volatile,
    without_words,
    by_place,
    extra_metadata,
    unsolved,
    hidden_names,
    untold,
    untold_helpers,
)


@each_notebook
def test_notebook_is_valid(path: Path) -> None:
    nbformat.validate(read(path))


@each_notebook
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_notebook_passes(path: Path, guard: Any) -> None:
    assert guard(read(path)) == []


def test_figure_names_are_unique() -> None:
    names = Counter(
        cell.metadata["mystnb"]["figure"]["name"]
        for path in NOTEBOOKS
        for cell in code_cells(read(path))
        if "figure" in cell.metadata.get("mystnb", {})
    )
    assert [name for name, count in names.items() if count > 1] == []


KERNEL = {"name": "python3", "display_name": "Python 3"}


def notebook_of(source: str = "1 + 1", text: str = "2", **cell: Any) -> Notebook:
    """A sound notebook of one cell, to be spoilt."""
    output = nbformat.v4.new_output("stream", name="stdout", text=text)
    fields = {"execution_count": 1, "outputs": [output], "metadata": {}} | cell
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, **fields)],
        metadata={"kernelspec": KERNEL, "language_info": {"name": "python"}},
    )


def image(axes: int = 1, **metadata: Any) -> Notebook:
    """A notebook with a figure."""
    text = f"<Figure size 640x480 with {axes} Axes>"
    data = {"image/png": "iVBORw0KGgo=", "text/plain": text}
    output = nbformat.v4.new_output("display_data", data=data)
    return notebook_of(outputs=[output], metadata=metadata)


def error() -> list[Notebook]:
    """The output of a cell that failed."""
    return [
        nbformat.v4.new_output("error", ename="E", evalue="v", traceback=["E: v"]),
    ]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_guard_passes_a_sound_notebook(guard: Any) -> None:
    assert guard(notebook_of()) == []


def solved(check: str = "assert 1 + 1 == 2", end: str = "solution-end") -> Notebook:
    """A notebook with an exercise, its solution and the check of it."""
    text = "```{exercise}\n:label: ex-a\n```"
    notebook = notebook_of(check)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text))
    text = "```{solution-start} ex-a\n:class: dropdown\n```"
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(text))
    text = f"```{{{end}}}\n```\n\n## Next" if end else "## Next"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    return notebook


def without(notebook: Notebook, index: int) -> Notebook:
    """A notebook that lacks a cell."""
    del notebook.cells[index]
    return notebook


def sequence(*cells: tuple[str, str]) -> Notebook:
    """A notebook of cells: tag (or nothing) and source."""
    notebook = notebook_of()
    notebook.cells = [
        nbformat.v4.new_code_cell(
            source,
            metadata={"tags": [tag]} if tag else {},
            execution_count=number,
            outputs=notebook.cells[0].outputs,
        )
        for number, (tag, source) in enumerate(cells, 1)
    ]
    return notebook


def told(notebook: Notebook, text: str) -> Notebook:
    """A notebook with a text before its second code cell."""
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(text))
    return notebook


SECRET = ("check", "# It is one.\na = 1\nassert a == 1")
WHOLE = {"figure": {"name": "fig-a", "caption": "A."}, "image": {"alt": "A curve."}}
PLACED = WHOLE | {"figure": {"name": "fig-a", "caption": "In the middle, softmax."}}
SPOILT = [
    (not_executed, notebook_of(execution_count=None)),
    (not_executed, notebook_of(execution_count=2)),
    (not_executed, notebook_of(outputs=[])),
    (not_executed, notebook_of(outputs=error())),
    (
        not_executed,
        notebook_of(
            outputs=[nbformat.v4.new_output("stream", name="stderr", text="warn")]
        ),
    ),
    (volatile, notebook_of(text="<object at 0x7f3a2b1c>")),
    (volatile, notebook_of(text="File " + "/".join(["", "home", "a", "b.py"]))),
    (volatile, notebook_of(text="took 3.2 ms")),
    (volatile, notebook_of(text="2026-11-21")),
    (volatile, notebook_of(text="NumPy 2.4.6")),
    (volatile, notebook_of(source="plt.plot(x);")),
    (volatile, notebook_of(metadata={"tags": ["nbval-skip"]})),
    (volatile, notebook_of(metadata={"tags": ["nbval-ignore-output"]})),
    (
        volatile,
        notebook_of(
            outputs=[
                nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg/>"})
            ]
        ),
    ),
    (without_words, image()),
    (without_words, image(mystnb=WHOLE | {"image": {"alt": " "}})),
    (without_words, image(mystnb=WHOLE | {"figure": {"name": "fig-a"}})),
    (without_words, image(mystnb=WHOLE | {"figure": {"caption": "A."}})),
    (by_place, image(axes=3, mystnb=PLACED)),
    (by_place, image(axes=3, mystnb=WHOLE | {"image": {"alt": "Left, a curve."}})),
    (extra_metadata, notebook_of(metadata={"execution": {"iopub": "now"}})),
    (unsolved, without(solved(), 1)),
    (unsolved, solved(check="1 + 1")),
    (unsolved, solved(check="assert True")),
    (unsolved, solved(end="solution")),
    (unsolved, solved(end="")),
    (hidden_names, sequence(SECRET, ("", "b = a"))),
    (hidden_names, sequence(SECRET, ("", "def f():\n    return a"))),
    (hidden_names, sequence(SECRET, ("", "a = a + 1"))),
    (hidden_names, sequence(SECRET, ("", "a += 1"))),
    (hidden_names, sequence(SECRET, ("", "[a for b in range(2)]"))),
    (hidden_names, sequence(SECRET, ("", "print(f'{a}')"))),
    (hidden_names, sequence(("plot", "for a in [1]:\n    pass"), ("", "a"))),
    (hidden_names, sequence(("claim-A1", "import math as a"), ("", "a.pi"))),
    (hidden_names, sequence(("claim-A1", "def a(): ..."), ("", "a()"))),
    (hidden_names, sequence(("", "a = 1"), ("check", "# b\na = 2"), ("", "a"))),
    (hidden_names, sequence(("claim-A1", "with b as a:\n    pass"), ("", "a"))),
    (untold, sequence(("check", "a = 1"))),
    (untold_helpers, sequence(("imports", "import a\n\ndef f(): ..."))),
    (untold_helpers, sequence(("imports", "class A: ..."))),
    (untold_helpers, sequence(("helpers", "def f(): ..."), ("", "f()"))),
    (untold_helpers, sequence(("helpers", "A = [1]"), ("", "A[0]"))),
    (untold, sequence(("hide-input", "a = 1"))),
]


@pytest.mark.parametrize(("guard", "notebook"), SPOILT)
def test_guard_finds_the_fault(guard: Any, notebook: Notebook) -> None:
    assert guard(notebook)


def test_guard_allows_what_it_should() -> None:
    assert unsolved(solved()) == []
    raises = {"tags": ["raises-exception"]}
    assert not_executed(notebook_of(outputs=error(), metadata=raises)) == []
    assert without_words(image(mystnb=WHOLE)) == []
    assert by_place(image(axes=2, mystnb=PLACED)) == []
    assert by_place(image(axes=3, mystnb=WHOLE)) == []
    for sound in (
        sequence(SECRET, ("", "a = 1"), ("", "b = a")),  # open since
        sequence(SECRET, ("", "a = 2\nb = a")),  # open here
        sequence(SECRET, ("plot", "b = a")),  # folded too
        sequence(("imports", "import a"), ("", "a.b")),
        told(sequence(("helpers", "def f(): ..."), ("", "f()")), "`f(x)` is nothing."),
        sequence(("helpers", "def f(): ..."), ("check", "# It runs.\nf()")),
        sequence(("helpers", "def f(): ..."), ("", "def f(): ..."), ("", "f()")),
        sequence(SECRET, ("", "def f(a):\n    return a")),
        sequence(SECRET, ("", "[a for a in range(2)]")),
        sequence(("check", "# One.\nsum(a for a in [1])"), ("", "f(a)")),
        sequence(SECRET, ("", "for a in [1]:\n    print(a)")),
    ):
        assert hidden_names(sound) == []
        assert untold(sound) == []
        assert untold_helpers(sound) == []
    skipped = {"tags": ["nbval-skip"]}
    assert volatile(notebook_of("# Not compared: random\n1", metadata=skipped)) == []


# What the book held before its checks were folded: a rewrite may move it, not lose it.
# Of the formulas that SymPy prints, a tenth only repeated the sentence above them.
FLOORS = {
    "theorems": 150,
    "proofs": 140,
    "exercises": 51,
    "claims checked": 288,
    "figures": 40,
    "formulas in sight": 105,
}


def content(notebook: Notebook) -> Counter[str]:
    """How much a notebook holds of what a reader comes for."""
    found: Counter[str] = Counter()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            kinds = re.findall(r"(?m)^[`:]{3,}\{(prf:\w+|exercise)\}", cell.source)
            found["proofs"] += kinds.count("prf:proof")
            found["exercises"] += kinds.count("exercise")
            found["theorems"] += len(kinds) - kinds.count("prf:proof")
            found["theorems"] -= kinds.count("exercise")
            continue
        found["claims checked"] += len(cells.tagged(tags(cell)))
        for output in cell.outputs:
            data = output.get("data", {})
            found["figures"] += "image/png" in data
            found["formulas in sight"] += "text/latex" in data
    return found


def test_nothing_is_lost() -> None:
    book = sum((content(read(path)) for path in NOTEBOOKS), Counter())
    assert {name: book[name] for name in FLOORS if book[name] < FLOORS[name]} == {}


def test_content_is_counted() -> None:
    notebook = sequence(SECRET, ("claim-A1", "a"))
    data = {"text/latex": "$a$", "image/png": ""}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data=data)]
    text = "```{prf:lemma}\n```\n````{prf:proof}\n````\n```{exercise}\n```"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text))
    assert content(notebook) == dict.fromkeys(FLOORS, 1)


# --- Claims --------------------------------------------------------------------------


def claim_blocks(source: str) -> Iterator[tuple[str, str, bool]]:
    """Id, verdict and "holds an assertion that can fail" of each claim block."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.With):
            continue
        for item in node.items:
            call = item.context_expr
            if not (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr == "claim"
            ):
                continue
            name, verdict = (ast.literal_eval(argument) for argument in call.args)
            asserts = any(
                isinstance(inner, ast.Assert) and can_fail(inner.test)
                for statement in node.body
                for inner in ast.walk(statement)
            )
            yield name, verdict, asserts


def unsound_claims(notebook: Notebook, verdicts: dict[str, str]) -> list[str]:
    """Tags, calls, verdicts, assertions and printed lines of claims must agree."""
    faults = []
    for number, cell in enumerate(code_cells(notebook), 1):
        tagged = {tag.removeprefix("claim-") for tag in tags(cell) if "claim-" in tag}
        called = set()
        # A magic is no Python, and no cell with one checks a claim.
        if not re.search(r"^[%!]", cell.source, re.MULTILINE):
            for name, verdict, asserts in claim_blocks(cell.source):
                called.add(name)
                if name not in verdicts:
                    faults.append(f"cell {number}: unknown claim {name}")
                elif verdict != verdicts[name]:
                    faults.append(f"cell {number}: {name} is {verdicts[name]}")
                if not asserts:
                    faults.append(f"cell {number}: {name} asserts nothing")
                if f"✓ {name} checked" not in printed(cell).splitlines():
                    faults.append(f"cell {number}: {name} has not printed its line")
        if tagged != called:
            faults.append(f"cell {number}: tags {tagged}, calls {called}")
    return faults


@each_notebook
def test_claims_of_a_notebook_are_sound(path: Path) -> None:
    assert unsound_claims(read(path), VERDICTS) == []


SOUND = 'with verify.claim("A45", "holds"):\n    assert verify.is_zero(a - b)'
TAGGED = {"tags": ["claim-A45"]}


@pytest.mark.parametrize(
    ("source", "text", "metadata"),
    [
        (SOUND, "✓ A45 checked", {}),
        (SOUND, "", TAGGED),
        ("a = 1", "✓ A45 checked", TAGGED),
        (SOUND.replace("holds", "refuted"), "✓ A45 checked", TAGGED),
        (SOUND.replace("A45", "A99"), "✓ A99 checked", {"tags": ["claim-A99"]}),
        (SOUND.replace("verify.is_zero(a - b)", "True"), "✓ A45 checked", TAGGED),
        (SOUND.replace("verify.is_zero(a - b)", "(a, b)"), "✓ A45 checked", TAGGED),
        (SOUND.replace("assert ", ""), "✓ A45 checked", TAGGED),
    ],
)
def test_claim_guard_finds_the_fault(
    source: str, text: str, metadata: dict[str, Any]
) -> None:
    notebook = notebook_of(source, text, metadata=metadata)
    assert unsound_claims(notebook, {"A45": "holds"})


def test_claim_guard_passes_a_sound_cell() -> None:
    notebook = notebook_of(SOUND, "✓ A45 checked", metadata=TAGGED)
    assert unsound_claims(notebook, {"A45": "holds"}) == []


SOURCES = {
    "A": "post-10373",
    "B": "post-10145",
    "C": "post-10373-comments",
    "D": "post-10373-derivations",
    "N-": "book",
}
"""The source of a claim, by how its id begins; `claims.yml` says the same in words."""


def ledger_faults(rows: list[dict[str, Any]]) -> list[str]:
    """Entries that stand twice, state nothing, have no check or the wrong letter."""
    ids = Counter(row["id"] for row in rows)
    faults = [
        f"{name} stands {count} times" for name, count in ids.items() if count > 1
    ]
    for row in rows:
        name = row["id"]
        prefix = re.match(r"N-|[A-Z](?=\d)|", name)[0]  # type: ignore[index]
        if SOURCES.get(prefix) != row["source"]:
            faults.append(f"{name} is of {row['source']}")
        if not row["statement"].strip():
            faults.append(f"{name} states nothing")
        if "check" not in row:
            faults.append(f"{name} has no check")
    return faults


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, "A1 stands 2 times"),
        ({"id": "B1"}, "B1 is of post-10373"),
        ({"id": "AB"}, "AB is of post-10373"),
        ({"id": "A2", "statement": " "}, "A2 states nothing"),
    ],
)
def test_a_faulty_entry_is_named(change: dict[str, str], fault: str) -> None:
    row = {"id": "A1", "source": "post-10373", "statement": "1", "check": "a"}
    assert ledger_faults([row, row | change]) == [fault]
    row.pop("check")
    assert ledger_faults([row]) == ["A1 has no check"]


def test_ledger_is_complete() -> None:
    assert ROWS
    assert ledger_faults(ROWS) == []
    claims = {row["verdict"] for row in LEDGER["claims"]}
    assert claims <= {"holds", "conditional", "imprecise", "refuted"}
    assert {row["verdict"] for row in LEDGER["results"]} <= {"proved", "numeric"}


def test_ledger_explains_each_verdict_but_holds() -> None:
    bare = [r["id"] for r in LEDGER["claims"] if r["verdict"] != "holds"]
    bare = [name for name in bare if not row_of(name).get("note", "").strip()]
    assert bare == []


def row_of(name: str) -> dict[str, str]:
    """The row of a claim."""
    return next(row for row in ROWS if row["id"] == name)


def test_ledger_names_the_checks_that_exist() -> None:
    stated = {row["id"]: row["check"] for row in ROWS if "check" in row}
    assert stated == refresh.checks(), "run `make refresh`"


def cited(text: str) -> set[str]:
    """Ids that a text cites by the directive or the role."""
    lists = re.findall(r"^(?:`{3,}|:{3,})\{claim\}([^\n]*)", text, re.MULTILINE)
    names = {name for line in lists for name in line.split()}
    return names | set(re.findall(r"\{claim\}`([^`]*)`", text))


@each_page
def test_cited_claims_exist(path: Path) -> None:
    assert cited(prose(path)) - set(VERDICTS) == set()


def test_citations_are_found() -> None:
    text = "See {claim}`A1`.\n```{claim} A2 A3\n```\n:::{claim} A4\n:::\n"
    assert cited(text) == {"A1", "A2", "A3", "A4"}


# --- Pages ---------------------------------------------------------------------------


def without_code(text: str) -> str:
    """Markdown without its fenced code; the texts of directives stay."""

    def inside(fence: re.Match[str]) -> str:
        first, _, body = fence[2].partition("\n")
        return without_code(body) if first.startswith("{") else ""

    return re.sub(r"(?ms)^(`{3,})(.*?)^\1$", inside, text)


def bad_headings(text: str) -> list[str]:
    """One title, first of all headings, and no level left out."""
    levels = [len(m) for m in re.findall(r"^(#+) ", without_code(text), re.MULTILINE)]
    faults = []
    if levels.count(1) != 1 or levels[0] != 1:
        faults.append(f"heading levels {levels}")
    for upper, lower in pairwise(levels):
        if lower > upper + 1:
            faults.append(f"level {lower} follows level {upper}")
    return faults


@each_page
def test_headings_are_sane(path: Path) -> None:
    assert bad_headings(prose(path)) == []


@pytest.mark.parametrize("text", ["text", "# A\n# B", "## A\n# B", "# A\n### B"])
def test_heading_guard_finds_the_fault(text: str) -> None:
    assert bad_headings(text)


def test_heading_guard_ignores_code() -> None:
    assert bad_headings("# A\n```python\n# a comment\n```\n## B") == []


def dead_links(text: str, folder: Path) -> list[str]:
    """Links to documents or files that do not exist."""
    text = without_code(text)
    faults = []
    for role in re.findall(r"\{doc\}`([^`]+)`", text):
        target = re.sub(r"^.*<(.*)>$", r"\1", role)
        start = ROOT / target[1:] if target.startswith("/") else folder / target
        if not any(
            start.with_name(start.name + e).is_file() for e in (".md", ".ipynb")
        ):
            faults.append(f"document {target}")
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        if not (folder / target).exists():
            faults.append(f"file {target}")
    return faults


@each_page
def test_links_have_a_target(path: Path) -> None:
    assert dead_links(prose(path), path.parent) == []


@pytest.mark.parametrize(
    "text", ["{doc}`nowhere`", "{doc}`there <../no>`", "[a](no.md)", "[a](no.md#b)"]
)
def test_link_guard_finds_the_fault(text: str) -> None:
    assert dead_links(text, BOOK)


def test_link_guard_passes_sound_links() -> None:
    text = "{doc}`index` {doc}`a <reference/claims>` [b](https://a.b/c) [c](index.md#d)"
    assert dead_links(text, BOOK) == []


def package_names(text: str) -> set[str]:
    """Names of the package that a text uses as ``stk.name``."""
    return set(re.findall(r"\bstk((?:\.[A-Za-z_]\w*)+)", text))


def missing_names(text: str) -> list[str]:
    """Names of the package in a text that do not resolve."""
    faults = []
    for name in sorted(package_names(text)):
        try:
            operator.attrgetter(name[1:])(softtopk)
        except AttributeError:
            faults.append(f"stk{name}")
    return faults


@pytest.mark.parametrize("name", ["book/notation.md", "book/index.md", "README.md"])
def test_names_of_the_package_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf8")
    assert package_names(text)
    assert missing_names(text) == []


def test_name_guard_finds_the_fault() -> None:
    text = "`stk.soft_topk(x, k)`, `stk.curves.GAUSS`, stk.hard_topk."
    assert missing_names(text) == ["stk.curves.GAUSS", "stk.hard_topk"]


def linked_names(text: str) -> set[str]:
    """Names of the package that a text links to its documentation."""
    roles = re.findall(r"\{py:(?:func|class|meth|mod)\}`([^`]+)`", text)
    return {re.sub(r"^.*<(.*)>$", r"\1", role) for role in roles}


@each_page
def test_linked_names_exist(path: Path) -> None:
    names = linked_names(prose(path))
    outside = [name for name in names if not name.startswith("softtopk.")]
    assert outside == []
    text = " ".join(f"stk{name.removeprefix('softtopk')}" for name in names)
    assert missing_names(text) == []


def test_every_page_stands_in_the_contents() -> None:
    contents = (ROOT / "_toc.yml").read_text(encoding="utf8")
    listed = re.findall(r"(?:file|root): (\S+)", contents)
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in PAGES}
    assert sorted(pages) == sorted(listed)


# --- The project's text --------------------------------------------------------------

# Put together here, so that this file does not hold them.
UNFINISHED = (
    "TO" + "DO",
    "FIX" + "ME",
    "X" * 3,
    "place" + "holder",
    "coming " + "soon",
)
MACHINE = r"(?<![\w.])/(?:work|farm|tmp|root)/"
REGISTRY = r"index[-]url|pythonhoste[d]|artifactor[y]|npmjs[.]org"
TEXTS = {".md", ".py", ".yml", ".toml", ".txt", ".js", ".css", ".cff", ".bib", ".ipynb"}
LEAVE = {"_build", "node_modules", "__pycache__"}


def unwanted(text: str) -> list[str]:
    """Words of unfinished work, and names of the machine that it was done on."""
    words = "|".join(UNFINISHED)
    return re.findall(rf"\b(?:{words})\b|{MACHINE}|{REGISTRY}", text)


def project_files() -> list[Path]:
    """The project's own text files."""
    found = [
        path
        for path in ROOT.rglob("*")
        if path.suffix in TEXTS or path.name in {"Makefile", "LICENSE", "run"}
    ]
    inside = [path.relative_to(ROOT) for path in found if path.is_file()]
    return [
        path
        for path in sorted(inside)
        if not LEAVE & set(path.parts)
        and not path.parts[0].endswith(".egg-info")
        and (path.parts[0] == ".ci" or not path.parts[0].startswith("."))
    ]


@pytest.mark.parametrize("path", project_files(), ids=str)
def test_text_is_finished(path: Path) -> None:
    if path.suffix == ".ipynb":
        cells = read(ROOT / path).cells
        text = "\n".join(cell.source for cell in cells)
        text += "\n".join(printed(c) for c in cells if c.cell_type == "code")
    else:
        text = (ROOT / path).read_text(encoding="utf8")
    assert unwanted(text) == []


@pytest.mark.parametrize(
    "word", [*UNFINISHED, "/".join(["", "tmp", "a"]), "--index" + "-url"]
)
def test_text_guard_finds_the_fault(word: str) -> None:
    assert unwanted(f"a {word} b")


@pytest.fixture(scope="module")
def runs() -> list[list[str]]:
    """The words of each command of ``make test frameworks`` that runs notebooks."""
    make = ["make", "--dry-run", "--no-print-directory", "test", "frameworks"]
    own = {"PATH": os.environ["PATH"]}  # not the settings of the make that runs this
    said = subprocess.run(
        make, cwd=ROOT, env=own, check=True, capture_output=True, text=True
    )
    lines = said.stdout.replace("\\\n", " ").splitlines()
    return [line.split() for line in lines if "--nbval " in line]


def test_notebooks_are_run_with_a_time_limit(runs: list[list[str]]) -> None:
    """One that finds a cell that hangs, not a slow machine."""
    for words in runs:
        (limit,) = (w for w in words if w.startswith("--nbval-cell-timeout="))
        assert 60 <= int(limit.partition("=")[2]) <= 600


def test_every_notebook_is_run_once(runs: list[list[str]]) -> None:
    """By ``make test``, or by ``make frameworks`` where it needs a framework."""
    training = ["book/training", "book/recipes"]
    core, rest = ([w for w in words if "book" in w] for words in runs)
    assert core == [*(f"--ignore={folder}" for folder in training), "book"]
    assert rest == training
