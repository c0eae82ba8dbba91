"""The facts: every claim and result, as ``book/claims.yml`` holds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import yaml

KINDS = {
    "claims": ("holds", "conditional", "imprecise", "refuted"),
    "results": ("proved", "numeric"),
}
STATES = ("checked", "unchecked")


@dataclass(frozen=True)
class Claim:
    """One row of the ledger."""

    id: str
    source: str
    section: str
    statement: str
    verdict: str
    note: str = ""
    check: str = ""
    formal: str = ""
    covers: str = ""
    defect: str = ""

    @property
    def state(self) -> str:
        """``checked`` when a notebook cell checks the claim."""
        return "checked" if self.check else "unchecked"

    @property
    def formal_names(self) -> list[str]:
        """The statements of ``proofs/`` that a machine has checked of it."""
        return self.formal.split()

    @property
    def proof(self) -> str:
        """``machine-checked`` when ``proofs/`` states the claim."""
        return "machine-checked" if self.formal else "in the book"

    @property
    def plain(self) -> str:
        """The statement for places that hold no mathematics."""
        return re.sub(r"[$`]", "", self.statement)


@dataclass(frozen=True)
class Ledger:
    """The content of ``claims.yml``."""

    folder: str = ""
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    results: tuple[Claim, ...] = ()

    def __iter__(self) -> Iterator[Claim]:
        yield from self.claims
        yield from self.results

    @cached_property
    def by_id(self) -> dict[str, Claim]:
        """Every claim and result under its id."""
        return {row.id: row for row in self}

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Finds the ids that a text names."""
        ids = "|".join(map(re.escape, sorted(self.by_id, key=len, reverse=True)))
        return re.compile(rf"(?<![\w-])({ids})(?![\w-])")

    def check_document(self, row: Claim) -> str:
        """Document name of the notebook that checks a claim."""
        return f"{self.folder}/{row.check}" if self.folder else row.check


def defects(rows: Iterable[Claim]) -> dict[str, list[Claim]]:
    """The claims that share a defect, by its name."""
    found: dict[str, list[Claim]] = {}
    for row in rows:
        if row.defect:
            found.setdefault(row.defect, []).append(row)
    return found


def read_ledger(path: Path, folder: str = "") -> Ledger:
    """Read ``claims.yml``; ``ValueError`` names the row that breaks its format."""
    data = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    rows: dict[str, tuple[Claim, ...]] = {}
    seen: set[str] = set()
    for kind, verdicts in KINDS.items():
        items = []
        for item in data[kind]:
            try:
                row = Claim(**{key: str(value) for key, value in item.items()})
            except TypeError as error:
                raise ValueError(f"{kind}, {item.get('id')}: {error}") from error
            if row.verdict not in verdicts:
                raise ValueError(f"{row.id}: verdict {row.verdict!r} not in {verdicts}")
            if row.source not in data["sources"]:
                raise ValueError(f"{row.id}: unknown source {row.source!r}")
            if bool(row.formal) != bool(row.covers):
                raise ValueError(f"{row.id}: formal and covers stand together")
            if row.id in seen:
                raise ValueError(f"{row.id}: stands twice")
            seen.add(row.id)
            items.append(row)
        rows[kind] = tuple(items)
    for name, found in defects(rows["claims"]).items():
        if len({row.verdict for row in found}) > 1:
            verdicts = ", ".join(f"{row.id} {row.verdict}" for row in found)
            raise ValueError(f"one defect, two verdicts ({name}): {verdicts}")
    return Ledger(folder=folder, sources=data["sources"], **rows)
