"""The table of ``book/formal.yml``, and what can be wrong with it; needs no Sphinx."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from claims.ledger import Ledger, read_ledger

from .rocq import Library

DIGESTS = "statements.txt"


@dataclass(frozen=True)
class Entry:
    """Statements, the theorem or the chapter they stand beside, and what they cover."""

    formal: tuple[str, ...]
    place: str
    covers: str


@dataclass(frozen=True)
class Formal:
    """What the book says of ``proofs/``."""

    theorems: dict[str, Entry]
    also: tuple[Entry, ...]
    axioms: dict[str, str]
    without_axioms: tuple[str, ...]
    ledger: Ledger

    @property
    def entries(self) -> Iterator[Entry]:
        """Every entry of the table."""
        yield from self.theorems.values()
        yield from self.also

    @property
    def names(self) -> list[str]:
        """Every statement that the book names, once."""
        named = [name for entry in self.entries for name in entry.formal]
        named += [name for row in self.ledger for name in row.formal_names]
        return list(dict.fromkeys(named))

    def faults(self, library: Library) -> list[str]:
        """What does not agree with the files."""
        found = []
        for name in self.names:
            sentence = library.sentences.get(name)
            if sentence is None or sentence.kind != "Theorem":
                found.append(f"{name}: no theorem of proofs/ has this name")
            elif not sentence.proved:
                found.append(f"{name}: its proof does not end in Qed")
        for name in library.sentences:
            stated = library.sentences[name].kind == "Theorem"
            if stated and name not in self.names:
                found.append(f"{name}: a theorem that the book does not name")
        kept = read_digests(library.folder)
        known = [name for name in self.names if name in library.sentences]
        for name in known:
            if kept.get(name) != library.digest(name):
                found.append(
                    f"{name}: its statement is not the one of proofs/{DIGESTS}; if the "
                    "change is meant, run: python tools/proofs.py --accept"
                )
        found += [
            f"{name}: in proofs/{DIGESTS}, but not in the book"
            for name in kept.keys() - set(self.names)
        ]
        return found

    def accept(self, library: Library) -> None:
        """Keep the digest of each statement as it is now."""
        lines = [f"{library.digest(name)} {name}\n" for name in sorted(self.names)]
        (library.folder / DIGESTS).write_text("".join(lines), encoding="utf8")


def read_digests(folder: Path) -> dict[str, str]:
    """The digest of each statement that was accepted."""
    path = folder / DIGESTS
    lines = path.read_text("utf8").split("\n") if path.exists() else []
    parts = (line.partition(" ") for line in lines)
    return {name: digest for digest, _, name in parts if name}


def read_formal(book: Path, ledger: Ledger | None = None) -> Formal:
    """Read the table and the ledger beside it."""
    data = yaml.load((book / "formal.yml").read_text("utf8"), Loader=yaml.CSafeLoader)
    return Formal(
        theorems={
            label: Entry(tuple(item["formal"]), label, item["covers"])
            for label, item in data["theorems"].items()
        },
        also=tuple(
            Entry(tuple(item["formal"]), item["where"], item["covers"])
            for item in data["also"]
        ),
        axioms=data["axioms"],
        without_axioms=tuple(data["without_axioms"]),
        ledger=ledger or read_ledger(book / "claims.yml"),
    )
