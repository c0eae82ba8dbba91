"""Pieces of text: statements with mathematics, verdicts, links and sources."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from docutils import nodes
from sphinx import addnodes

from .ledger import Claim, Ledger


def xref(typ: str, row: Claim, *children: nodes.Node) -> addnodes.pending_xref:
    link = addnodes.pending_xref(
        "",
        refdomain="claim",
        reftype=typ,
        reftarget=row.id,
        refexplicit=True,
        refwarn=True,
    )
    link += nodes.inline("", "", *children, classes=[f"claim-{typ}-link"])
    return link


def filtered(fields: dict[str, str], *children: nodes.Node) -> addnodes.pending_xref:
    """A link to the ledger that shows the rows with these values alone."""
    link = addnodes.pending_xref(
        "", refdomain="claim", reftype="filter", reftarget=urlencode(fields)
    )
    link += nodes.inline("", "", *children)
    return link


def typeset(text: str, ledger: Ledger) -> list[nodes.Node]:
    """Inline nodes of a text with ``$mathematics$``, ```code``` and ids of claims."""
    parts: list[nodes.Node] = []
    for part in re.split(r"(\$[^$]+\$|`[^`]+`)", text):
        if part[:1] == part[-1:] == "$":
            parts.append(nodes.math(part[1:-1], part[1:-1]))
        elif part[:1] == part[-1:] == "`":
            parts.append(nodes.literal(part[1:-1], part[1:-1]))
        else:
            for place, words in enumerate(ledger.names.split(part)):
                if place % 2:
                    name = nodes.inline(words, words, classes=["claim-id"])
                    parts.append(xref("row", ledger.by_id[words], name))
                elif words:
                    parts.append(nodes.Text(words))
    return parts


def badge(verdict: str) -> nodes.inline:
    """The verdict as a word; the style sheet adds its sign and colour."""
    return nodes.inline(
        verdict, verdict, classes=["claim-badge", f"claim-badge-{verdict}"]
    )


def formal_badge() -> nodes.inline:
    """The mark of what a machine has checked."""
    words = "machine-checked"
    return nodes.inline(words, words, classes=["claim-badge", "claim-badge-formal"])


def row_link(row: Claim) -> addnodes.pending_xref:
    """A link to the row of a claim: its id and its verdict."""
    name = nodes.inline(row.id, row.id, classes=["claim-id"])
    return xref("row", row, name, nodes.Text(" "), badge(row.verdict))


def quoted(text: str) -> list[nodes.Node]:
    """A text as it stands in its source; Chinese is marked for screen readers."""
    parts = re.split(r"([\u3000-\u9fff\uff00-\uffef]+)", text)
    return [
        nodes.inline(part, part, classes=["language-zh-Hans"])
        if place % 2
        else nodes.Text(part)
        for place, part in enumerate(parts)
    ]


def source_link(source: dict[str, str]) -> nodes.Node:
    """The title of a source, linked where it has an address."""
    if "url" not in source:
        return nodes.Text(source["title"])
    return nodes.reference("", source["title"], refuri=source["url"], internal=False)


def covered(text: str, ledger: Ledger) -> list[nodes.Node]:
    """What the statements that a machine has checked say of a theorem or a claim."""
    return [nodes.emphasis("", "Covers: "), *typeset(text, ledger)]


def paragraph(role: str, *children: nodes.Node) -> nodes.paragraph:
    """A paragraph with a class for the style sheet."""
    return nodes.paragraph("", "", *children, classes=[f"claim-{role}"])


def statement_nodes(ledger: Ledger, row: Claim, origin: bool) -> list[nodes.Node]:
    """The paragraphs of a claim: its name, statement and note, and its origin."""
    source = ledger.sources[row.source]
    parts: list[nodes.Node] = []
    if "url" not in source:  # a result of this book: the section is its name
        name = nodes.strong("", "", *typeset(row.section, ledger))
        parts.append(paragraph("name", name))
    parts.append(paragraph("statement", *typeset(row.statement, ledger)))
    if row.note:
        parts.append(paragraph("note", *typeset(row.note, ledger)))
    if row.covers:
        parts.append(paragraph("covers", *covered(row.covers, ledger)))
    if origin and "url" in source:
        place = [nodes.Text(", "), *quoted(row.section)] if row.section else []
        parts.append(paragraph("source", source_link(source), *place))
    return parts
