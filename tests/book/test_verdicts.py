"""Like cases have like verdicts: the table of the cases, and what looks like one.

A group has a pattern that finds its cases in the ledger. Each entry that it finds is a
case, with the group's verdict and its name as `defect`, or is listed with the reason
why it is none. An open question of a source has no verdict.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
sys.path.insert(0, str(BOOK / "_extensions"))

from claims.inventory import read_inventory  # noqa: E402
from claims.ledger import Claim, Ledger, defects, read_ledger  # noqa: E402

LEDGER = read_ledger(BOOK / "claims.yml")
INVENTORY = read_inventory(BOOK / "inventory.yml")


@dataclass(frozen=True)
class Group:
    """Defects with their verdicts and cases, and what only looks like a case."""

    pattern: str
    notes: bool  # whether the pattern is looked for in the notes too
    cases: dict[tuple[str, str], str]  # the defect and its verdict, and the ids
    others: dict[str, str]  # the reason, and the ids


GROUPS = {
    "exceptions at k = n": Group(
        pattern=r"k=n\b|k<n\b|k\\le n-1|k\\le n-2",
        notes=True,
        cases={
            ("the case $k=n$ is an exception", "conditional"): (
                "A05 A21 A23 A37 A47 A52 A56 C05 C07 D24 D28 D31b"
            )
        },
        others={
            "it holds at k = n too": "A03 A17 D01 D54b",
            "the statement excludes k = n": "C20 D25 D31c",
            "another defect decides, and k = n is mentioned beside it": (
                "A06 A09 A10 A42 A48 A57 A78 B46 C06 C14 D54f"
            ),
        },
    ),
    "only one way, or none": Group(
        pattern=r"can only|only be|cannot|no closed|hardly any closed",
        notes=False,
        cases={
            (
                "another way serves wherever only one is said to",
                "refuted",
            ): "A74 B67",
            (
                "another way serves in some of the cases where only one or none is "
                "said to",
                "imprecise",
            ): "A49 A53 A80 B31 B35 C08",
        },
        others={
            "it is right: there is no other way": "A73 B20 C10",
            "it is a statement on a sum, not on ways": "C02",
            "the reason that it gives decides": "B78",
        },
    ),
    "smooth": Group(
        pattern=r"\bsmooth(?:est|ness)?\b(?! approximation)",
        notes=False,
        cases={
            (
                "the map is called smooth, but its first derivative jumps",
                "refuted",
            ): "A34b D54g",
            (
                "the map is called smooth, but a higher derivative of it jumps",
                "imprecise",
            ): "A63 B54",
        },
        others={
            "the map is smooth": "A34a D53c D54c",
            "it is called not smooth, and is not": "A52 C07",
            "nothing is called smooth that is not": "A79 D24 D47a D48b",
        },
    ),
}


def faults(group: Group, ledger: Ledger) -> Iterator[str]:
    """Cases without the group's verdict, and entries that the table does not know."""
    rows = {row.id: row for row in ledger.claims}
    known: set[str] = set()
    for (defect, verdict), ids in group.cases.items():
        for name in ids.split():
            known.add(name)
            if (rows[name].verdict, rows[name].defect) != (verdict, defect):
                yield f"{name}: {rows[name].verdict}, {rows[name].defect!r}"
    for name in " ".join(group.others.values()).split():
        if name in known:
            yield f"{name}: stands twice in the table"
        known.add(name)
        if rows[name].defect in {defect for defect, _ in group.cases}:
            yield f"{name}: has the defect {rows[name].defect!r}"
    found = {row.id for row in ledger.claims if matches(group, row)}
    yield from (f"{name}: in no list" for name in sorted(found - known))
    yield from (f"{name}: the pattern does not find it" for name in known - found)


def matches(group: Group, row: Claim) -> bool:
    """Whether an entry looks like a case."""
    text = f"{row.statement} {row.note if group.notes else ''}"
    return bool(re.search(group.pattern, text))


@pytest.mark.parametrize("name", GROUPS)
def test_like_cases_have_like_verdicts(name: str) -> None:
    assert list(faults(GROUPS[name], LEDGER)) == []


def test_every_case_with_such_a_defect_is_in_the_table() -> None:
    listed = {d: ids for g in GROUPS.values() for (d, _), ids in g.cases.items()}
    for defect, rows in defects(LEDGER.claims).items():
        if defect in listed:
            assert sorted(row.id for row in rows) == sorted(listed[defect].split())


def changed(name: str, **fields: str) -> Ledger:
    """The ledger with another entry of this name."""
    rows = [replace(r, **fields) if r.id == name else r for r in LEDGER.claims]
    return replace(LEDGER, claims=tuple(rows))


@pytest.mark.parametrize(
    ("group", "ledger", "fault"),
    [
        ("exceptions at k = n", changed("A56", verdict="holds"), "A56: holds"),
        ("exceptions at k = n", changed("C07", defect=""), "C07: conditional, ''"),
        (
            "exceptions at k = n",
            changed("A22", note="For $k<n$ alone."),
            "A22: in no list",
        ),
        ("only one way, or none", changed("B67", verdict="imprecise"), "B67: "),
        ("smooth", changed("A39", statement="It is smooth."), "A39: in no list"),
        ("smooth", changed("A63", statement="It is."), "A63: the pattern does not"),
    ],
)
def test_the_guard_finds_the_fault(group: str, ledger: Ledger, fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(GROUPS[group], ledger))


def test_an_open_question_has_an_answer_and_no_verdict() -> None:
    asked = [name for at in INVENTORY.paragraphs for name in at.asks]
    results = {row.id: row for row in LEDGER.results}
    assert asked
    for name in asked:
        assert "leaves open" in results[name].note
    told = [r.id for r in LEDGER.claims if re.search("leaves? .*open", r.statement)]
    assert told == []
    answers = {name for name, row in results.items() if "leaves open" in row.note}
    assert answers == set(asked)
