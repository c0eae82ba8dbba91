"""The ledger is complete: each paragraph of a source is in claims or says why not."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
sys.path.insert(0, str(BOOK / "_extensions"))

from claims.inventory import Inventory, faults, read_inventory  # noqa: E402
from claims.ledger import read_ledger  # noqa: E402

LEDGER = read_ledger(BOOK / "claims.yml")
INVENTORY = read_inventory(BOOK / "inventory.yml")


def without(name: str) -> Inventory:
    """The inventory where no paragraph names a claim."""
    rows = [
        replace(at, claims=tuple(other for other in at.claims if other != name))
        for at in INVENTORY.paragraphs
    ]
    return replace(INVENTORY, paragraphs=tuple(rows))


def changed(**fields: object) -> Inventory:
    """The inventory with another first paragraph."""
    first, *rest = INVENTORY.paragraphs
    first = replace(first, **fields)  # type: ignore[arg-type]
    return replace(INVENTORY, paragraphs=(first, *rest))


def test_every_paragraph_is_in_claims_or_says_why_not() -> None:
    assert list(faults(INVENTORY, LEDGER)) == []


@pytest.mark.parametrize("name", [row.id for row in LEDGER.claims])
def test_a_claim_removed_from_either_side_is_missed(name: str) -> None:
    unnamed = [f for f in faults(without(name), LEDGER) if f.startswith(f"{name}: no ")]
    assert len(unnamed) == 1
    kept = replace(LEDGER, claims=tuple(row for row in LEDGER.claims if row.id != name))
    assert any(f.endswith(f"unknown claim {name}") for f in faults(INVENTORY, kept))


def test_a_paragraph_removed_from_within_a_section_is_missed() -> None:
    rows = INVENTORY.paragraphs
    for place, (at, after) in enumerate(pairwise(rows)):
        if after.number > 1:
            fewer = replace(INVENTORY, paragraphs=rows[:place] + rows[place + 1 :])
            assert any("are numbered" in f for f in faults(fewer, LEDGER)), at.place


def test_faults_of_a_paragraph_are_found() -> None:
    for fields, fault in (
        ({"none": "history"}, "claims, or a reason"),
        ({"claims": (), "none": "boredom"}, "unknown reason 'boredom'"),
        ({"claims": ()}, "claims, or a reason"),
        ({"documents": ("copy", "dream")}, "unknown document 'dream'"),
        ({"claims": ("A01", "A02", "Z99")}, "unknown claim Z99"),
        ({"asks": ("N-30", "A01")}, "unknown result A01"),
        ({"number": 2}, "the paragraphs are numbered [2, 2]"),
        ({"section": "Elsewhere"}, "no paragraph of post-10373, Introduction"),
    ):
        assert any(fault in found for found in faults(changed(**fields), LEDGER))


def test_documents_and_reasons_are_used() -> None:
    named = {name for at in INVENTORY.paragraphs for name in at.documents}
    assert named == {*INVENTORY.documents}
    reasons = {at.none for at in INVENTORY.paragraphs if at.none}
    assert reasons == {*INVENTORY.reasons}


def test_paragraphs_are_told_in_a_line_of_our_own_words() -> None:
    told = [at.says for at in INVENTORY.paragraphs]
    assert max(map(len, told)) <= 140
    assert not [text for text in told if re.search(r"[\u3000-\u9fff$\\]", text)]
    assert len(set(told)) > 0.95 * len(told)
