"""A wrong definition of an operator turns the checks of its chapter red.

Each chapter that defines an operator has a file in `definitions/` with two or three
wrong definitions of it. The notebook is run with each of them in place of its own. All
open cells must still run, because a wrong definition that stops the derivation shows
nothing about the checks. Each cell that checks a claim must then fail with an
AssertionError under at least one of the wrong definitions. The cells that do not, since
their claim is about something else or holds for every curve, are listed in the file
with the reason.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "book" / "_extensions"), str(ROOT / "tools")]

from claims import cells  # noqa: E402
from slices import defined, plain_code, used  # noqa: E402

FOLDER = Path(__file__).parent / "definitions"
LIMIT = 60.0  # seconds that a cell may take; a wrong definition may never converge

# The chapters that define an operator or its curve.
OPERATORS = (
    "distributions/softmax",
    "distributions/relatives",
    "distributions/perturb-max",
    "distributions/sparsemax",
    "distributions/entmax",
    "selection/problem",
    "selection/iterations",
    "selection/gradient",
    "selection/marginals",
    "selection/threshold",
    "selection/exponential",
    "selection/sigmoid",
    "selection/laplace",
    "selection/sparse",
    "selection/family",
    "selection/sorting",
    "selection/hard",
    "training/balance",
)

Notebook = nbformat.NotebookNode
CLAIM, OPEN, OTHER = "claim", "open", "other"


@dataclass
class Step:
    """A code cell: its place, its code, what kind it is and which claims it checks."""

    number: int
    source: str
    kind: str
    claims: list[str]
    needs: set[str] = field(default_factory=set)
    gives: set[str] = field(default_factory=set)


def steps(notebook: Notebook) -> list[Step]:
    """The code cells of a notebook, in order.

    A cell is open if its page shows it as part of the derivation. The cells of a
    solution are not: they check an answer, and may fail under a wrong definition.
    """
    found = []
    in_solution = False
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            gates = re.findall(r"`{3,}\{solution-(start|end)\}", cell.source)
            in_solution = gates[-1] == "start" if gates else in_solution
            continue
        if not cell.source.strip():
            continue
        number += 1
        tags = cell.metadata.get("tags", [])
        kind = cells.kind(tags)
        if kind == "claim":
            kind = CLAIM
        elif kind in (None, "imports", "helpers") and not in_solution:
            kind = OPEN
        else:
            kind = OTHER
        tree = plain_code(cell)
        source = re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE)
        step = Step(number, source, kind, cells.tagged(tags))
        step.needs, step.gives = used(tree), defined(tree)
        found.append(step)
    return found


def in_place(plan: list[Step], old: str, new: str) -> list[Step]:
    """The steps with a text of one cell replaced; the text occurs exactly once."""
    counts = {step.number: step.source.count(old) for step in plan}
    places = [step for step in plan if counts[step.number]]
    if sum(counts.values()) != 1 or places[0].kind != OPEN:
        raise ValueError(f"not once in an open cell: {old!r} is in {counts}")
    return [
        Step(s.number, s.source.replace(old, new), s.kind, s.claims, s.needs, s.gives)
        for s in plan
    ]


def affected(plan: list[Step], changed: int) -> set[int]:
    """The steps that a change of one of them can reach: those that build upon it.

    Their order does not matter, because a function may call one of a later cell.
    """
    names: set[str] = set()
    reached = {changed}
    while True:
        for step in plan:
            if step.number in reached:
                names |= step.gives
        more = {step.number for step in plan if step.needs & names} - reached
        if not more:
            return reached
        reached |= more


def needed(plan: list[Step], wanted: set[int]) -> list[Step]:
    """The steps to run: the wanted ones, and what those build upon."""
    kept = set(wanted)
    while True:
        names = {name for s in plan if s.number in kept for name in s.needs}
        before = [s for s in plan if s.number < max(wanted, default=0)]
        more = {s.number for s in before if s.gives & names} - kept
        if not more:
            return [step for step in plan if step.number in kept]
        kept |= more


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def ring(*_: Any) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(plan: list[Step], folder: Path) -> dict[int, BaseException]:
    """Run the steps in one namespace; what each failing step raised."""
    raised: dict[int, BaseException] = {}
    names: dict[str, Any] = {"__name__": "__main__", "display": print}
    home = Path.cwd()
    os.chdir(folder)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            mpl.rc_context({"backend": "agg"}),
        ):
            warnings.simplefilter("ignore")
            for step in plan:
                code = compile(step.source, f"cell {step.number}", "exec")
                try:
                    with limited(LIMIT):
                        exec(code, names)
                except Exception as error:
                    raised[step.number] = error
    finally:
        os.chdir(home)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    return raised


def faults(notebook: Notebook, told: dict[str, Any], folder: Path) -> list[str]:
    """What is wrong with a chapter's checks, or with the file on them."""
    plan = steps(notebook)
    others = {} if told.get("others") is None else told["others"]
    by_claim = {name: s.number for s in plan if s.kind == CLAIM for name in s.claims}
    found = [
        f"others: no cell checks {name}" for name in others if name not in by_claim
    ]
    found += [f"others: {name} has no reason" for name in others if not others[name]]
    if len(told["wrong"]) < 2:
        found.append("fewer than two wrong definitions")
    excused = {by_claim[name] for name in others if name in by_claim}
    left = {step.number for step in plan if step.kind == CLAIM}
    crashed: dict[int, str] = {}
    for wrong in told["wrong"]:
        changed = in_place(plan, wrong["replace"], wrong["with"])
        place = next(a for a, b in zip(plan, changed, strict=True) if a != b)
        reached = affected(changed, place.number)
        checked = {s.number for s in plan if s.kind == OPEN or s.number in left}
        raised = run(needed(changed, reached & checked), folder)
        for step in plan:
            error = raised.get(step.number)
            if error is None:
                continue
            how = f"{type(error).__name__}: {error}"[:200]
            if step.kind == OPEN:
                found.append(f"{wrong['name']}: open cell {step.number} raises {how}")
            elif step.number in left and isinstance(error, AssertionError):
                left.discard(step.number)
                if step.number in excused:
                    found.append(
                        f"{step.claims} is excused, but fails: {wrong['name']}"
                    )
            else:
                crashed[step.number] = f" (under {wrong['name']} it raises {how})"
    for step in plan:
        if step.number in left - excused:
            found.append(
                f"cell {step.number}, {', '.join(step.claims)}: passes under every "
                f"wrong definition{crashed.get(step.number, '')}"
            )
    return found


def name_of(path: Path) -> str:
    """The chapter that a file of wrong definitions is about."""
    return str(yaml.safe_load(path.read_text(encoding="utf8"))["chapter"])


FILES = sorted(FOLDER.glob("*.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_wrong_definition_turns_the_checks_red(path: Path) -> None:
    told = yaml.safe_load(path.read_text(encoding="utf8"))
    chapter = ROOT / "book" / f"{told['chapter']}.ipynb"
    assert path.stem == told["chapter"].replace("/", "-")
    notebook = nbformat.read(chapter, as_version=4)
    assert faults(notebook, told, chapter.parent) == []


def test_every_operator_has_wrong_definitions() -> None:
    assert set(OPERATORS) <= {name_of(path) for path in FILES}


# --- What the harness finds ----------------------------------------------------------

CHAPTER: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "from contextlib import nullcontext as claim"),
    ((), "curve = lambda t: t"),
    (("claim-A1",), "assert curve(2) == 2"),
    (("claim-A2",), "assert 1 + 1 == 2"),
)
TWICE = {"name": "twice", "replace": "lambda t: t", "with": "lambda t: 2 * t"}
SHIFTED = {"name": "shifted", "replace": "lambda t: t", "with": "lambda t: t + 1"}


def chapter_of(*changes: tuple[int, tuple[tuple[str, ...], str]]) -> Notebook:
    """A small chapter, with some of its cells changed."""
    parts = list(CHAPTER)
    for place, part in changes:
        parts[place:] = [part, *parts[place + 1 :]]
    return nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})
            for tags, source in parts
        ]
    )


def told_of(*wrong: dict[str, str], **others: str) -> dict[str, Any]:
    """A file of wrong definitions."""
    return {"wrong": list(wrong), "others": others}


def test_a_sound_chapter_has_no_fault(tmp_path: Path) -> None:
    told = told_of(TWICE, SHIFTED, A2="It is about numbers.")
    assert faults(chapter_of(), told, tmp_path) == []


@pytest.mark.parametrize(
    ("notebook", "told", "fault"),
    [
        (chapter_of(), told_of(TWICE, SHIFTED), "A2: passes under every"),
        (
            chapter_of(
                (2, (("claim-A1",), "def f(t):\n    return t\nassert f(2) == 2"))
            ),
            told_of(TWICE, SHIFTED, A2="Numbers."),
            "A1: passes under every",
        ),
        (chapter_of(), told_of(TWICE, A2="Numbers."), "fewer than two"),
        (
            chapter_of(),
            told_of(TWICE, SHIFTED, A1="No.", A2="Numbers."),
            "['A1'] is excused, but fails",
        ),
        (chapter_of(), told_of(TWICE, SHIFTED, A2=""), "A2 has no reason"),
        (
            chapter_of(),
            told_of(TWICE, SHIFTED, A2="Numbers.", A9="None."),
            "no cell checks A9",
        ),
        (
            chapter_of((1, ((), "curve = lambda t: t\nassert curve(1) == 1"))),
            told_of(TWICE, SHIFTED, A2="Numbers."),
            "open cell 2 raises AssertionError",
        ),
        (
            chapter_of((2, (("claim-A1",), "if curve(2) != 2:\n    curve[0]"))),
            told_of(TWICE, SHIFTED, A2="Numbers."),
            "it raises TypeError",
        ),
    ],
)
def test_the_harness_finds_the_fault(
    notebook: Notebook, told: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    assert any(fault in found for found in faults(notebook, told, tmp_path))


def test_a_definition_is_replaced_once_and_in_an_open_cell() -> None:
    plan = steps(chapter_of())
    for absent in ("lambda u: u", "1 + 1"):
        with pytest.raises(ValueError, match="not once in an open cell"):
            in_place(plan, absent, "0")


def test_only_what_builds_upon_a_change_is_run_again() -> None:
    plan = steps(
        chapter_of(
            (0, ((), "def twice(t):\n    return 2 * curve(t)")),
            (3, (("claim-A2",), "assert twice(1) == 2")),
            (4, ((), "numbers = [1, 2]")),
            (5, ((), "with open('names') as file:\n    numbers = numbers[:1]")),
            (6, ((), "last = numbers")),
        )
    )
    assert affected(plan, 2) == {1, 2, 3, 4}
    assert [step.number for step in needed(plan, {4})] == [1, 2, 4]
    assert [step.number for step in needed(plan, {7})] == [5, 6, 7]


def test_a_step_that_never_ends_is_stopped() -> None:
    with pytest.raises(TimeoutError), limited(0.1):
        time.sleep(5)
