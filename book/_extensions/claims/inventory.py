"""The inventory: every paragraph of the sources, and the claims that hold it.

The evidence that the ledger is complete. ``faults`` compares the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from .ledger import Ledger


@dataclass(frozen=True)
class Paragraph:
    """One paragraph: what it says, and its claims or the reason why it has none.

    `asks` are the results that answer what the paragraph leaves open.
    """

    source: str
    section: str
    number: int
    says: str
    documents: tuple[str, ...]
    claims: tuple[str, ...]
    none: str
    asks: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.source}, {self.section}, paragraph {self.number}"


@dataclass(frozen=True)
class Inventory:
    """The content of ``inventory.yml``."""

    documents: dict[str, str]
    reasons: dict[str, str]
    paragraphs: tuple[Paragraph, ...]


def read_inventory(path: Path) -> Inventory:
    """Read ``inventory.yml``."""
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    paragraphs = tuple(
        Paragraph(
            source=part["source"],
            section=part["section"],
            number=item["number"],
            says=item["says"],
            documents=tuple(item.get("in", part["in"]).split()),
            claims=tuple(item.get("claims", "").split()),
            none=item.get("none", ""),
            asks=tuple(item.get("asks", "").split()),
        )
        for part in data["sections"]
        for item in part["paragraphs"]
    )
    return Inventory(data["documents"], data["reasons"], paragraphs)


def faults(inventory: Inventory, ledger: Ledger) -> Iterator[str]:
    """Where inventory and ledger differ, and what the inventory lacks itself."""
    claims = {row.id: row for row in ledger.claims}
    results = {row.id for row in ledger.results}
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    numbers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in inventory.paragraphs:
        numbers[at.source, at.section].append(at.number)
        if bool(at.claims) == bool(at.none):
            yield f"{at.place}: claims, or a reason why there are none"
        if at.none and at.none not in inventory.reasons:
            yield f"{at.place}: unknown reason {at.none!r}"
        for name in sorted({*at.documents} - {*inventory.documents}):
            yield f"{at.place}: unknown document {name!r}"
        for name in sorted({*at.asks} - results):
            yield f"{at.place}: unknown result {name}"
        for name in at.claims:
            places[name].add((at.source, at.section))
            if name not in claims:
                yield f"{at.place}: unknown claim {name}"
    for name, row in claims.items():
        if (row.source, row.section) not in places[name]:
            yield f"{name}: no paragraph of {row.source}, {row.section} names it"
    for (source, section), found in numbers.items():
        if found != list(range(1, len(found) + 1)):
            yield f"{source}, {section}: the paragraphs are numbered {found}"
