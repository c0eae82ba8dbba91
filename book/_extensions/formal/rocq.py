"""What the files of ``proofs/`` state: read as text, so that no Rocq is needed.

``Library`` knows each definition and theorem by its full name, such as
``Selection.threshold_exists``; the text of its statement; the definitions that the
statement is made of; and the theorems that its proof uses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEFINITIONS = ("Definition", "Fixpoint", "Record")
THEOREMS = ("Theorem", "Lemma")
SENTENCE = re.compile(
    rf"^({'|'.join(DEFINITIONS + THEOREMS)}) +([A-Za-z_][\w']*).*?\.(?=\s)", re.M | re.S
)
PROOF = re.compile(r"\s*Proof\..*?(Qed|Defined|Admitted|Abort)\.", re.S)
IMPORT = re.compile(r"^From TopK Require Import ([^.]*)\.", re.M)
WORD = re.compile(r"(?<![\w.'])[A-Za-z_][\w']*")
TAKEN_AS_KNOWN = ("Sums.sum",)  # the sign ∑; the chapter explains it


def without_comments(text: str) -> str:
    """The text with each comment, which may hold another, as spaces of its length."""
    kept, depth, place = list(text), 0, 0
    while place < len(text):
        pair = text[place : place + 2]
        if pair == "(*":
            depth += 1
        if depth:
            for here in (place, place + 1):
                if here < len(text) and text[here] != "\n":
                    kept[here] = " "
        if pair == "*)" and depth:
            depth -= 1
            place += 1
        elif pair == "(*":
            place += 1
        place += 1
    return "".join(kept)


@dataclass(frozen=True)
class Sentence:
    """A definition or a theorem."""

    file: str
    kind: str
    name: str
    text: str
    proof: str
    end: str  # what ends the proof: Qed, or nothing for a definition

    @property
    def full(self) -> str:
        """The name with that of its file."""
        return f"{self.file}.{self.name}"

    @property
    def proved(self) -> bool:
        """Whether this is a theorem with a complete proof."""
        return self.kind in THEOREMS and self.end == "Qed"


class Library:
    """The definitions and theorems of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[str] = [
            line.removesuffix(".v")
            for line in (folder / "_CoqProject").read_text("utf8").split("\n")
            if line.endswith(".v")
        ]
        self.imports: dict[str, list[str]] = {}
        self.sentences: dict[str, Sentence] = {}
        for file in self.files:
            text = without_comments((folder / f"{file}.v").read_text("utf8"))
            found = [name for line in IMPORT.findall(text) for name in line.split()]
            self.imports[file] = found
            for sentence in self._read(file, text):
                self.sentences[sentence.full] = sentence

    @staticmethod
    def _read(file: str, text: str) -> Iterator[Sentence]:
        for match in SENTENCE.finditer(text):
            kind, name = match.groups()
            after = PROOF.match(text, match.end()) if kind in THEOREMS else None
            proof, end = (after[0], after[1]) if after else ("", "")
            lines = (line.rstrip() for line in match[0].split("\n"))
            shown = "\n".join(line for line in lines if line)
            yield Sentence(file, kind, name, shown, proof, end)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each file: the first line of its first comment."""
        found = {}
        for file in self.files:
            first = (self.folder / f"{file}.v").read_text("utf8").partition("\n")[0]
            found[file] = re.sub(r"^\(\*\* \* |\s*\*\)$", "", first)
        return found

    def scope(self, file: str) -> dict[str, Sentence]:
        """What each word means in a file: its own names hide those of its imports."""
        names: dict[str, Sentence] = {}
        for source in [*self.imports[file], file]:
            for sentence in self.sentences.values():
                if sentence.file == source:
                    names[sentence.name] = sentence
        return names

    def _named(self, sentence: Sentence, text: str) -> list[Sentence]:
        scope = self.scope(sentence.file)
        words = dict.fromkeys(WORD.findall(text))
        return [scope[w] for w in words if w in scope and scope[w] != sentence]

    def definitions(self, name: str) -> list[Sentence]:
        """The definitions that a statement is made of, each after those it needs."""
        found: dict[str, Sentence] = {}

        def visit(sentence: Sentence) -> None:
            for other in self._named(sentence, sentence.text):
                known = other.full in found or other.full in TAKEN_AS_KNOWN
                if other.kind in DEFINITIONS and not known:
                    visit(other)
                    found[other.full] = other

        visit(self.sentences[name])
        return list(found.values())

    def shown(self, name: str) -> str:
        """The text of a statement, after the definitions that it is made of."""
        parts = [*self.definitions(name), self.sentences[name]]
        return "\n\n".join(part.text for part in parts)

    def digest(self, name: str) -> str:
        """A number for what a statement says; spaces do not count."""
        words = " ".join(self.shown(name).split())
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def uses(self, name: str, among: set[str]) -> list[str]:
        """The theorems of ``among`` that a proof uses, itself or by a lemma."""
        found: dict[str, None] = {}
        seen: set[str] = set()

        def visit(sentence: Sentence) -> None:
            for other in self._named(sentence, sentence.text + sentence.proof):
                if other.full in seen:
                    continue
                seen.add(other.full)
                if other.full in among:
                    found[other.full] = None
                elif other.kind in THEOREMS:
                    visit(other)

        visit(self.sentences[name])
        found.pop(name, None)
        return sorted(found, key=list(self.sentences).index)
