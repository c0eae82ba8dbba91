"""The cells that check claims: their tags, calls and verdicts agree with the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from .cells import claimed, tagged
from .directives import claim_readers
from .domain import get_ledger
from .ledger import Claim, Ledger

logger = logging.getLogger(__name__)


def code_cells(doctree: nodes.document) -> Iterator[nodes.container]:
    """The code cells of a page."""
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") == "cell_code":
            yield cell


def source_of(cell: nodes.container) -> str:
    """The code of a cell; empty where the page does not show it."""
    first: Any = cell.children[0]
    return first.astext() if first.get("nb_element") == "cell_code_source" else ""


def tags_of(cell: nodes.container) -> list[str]:
    """The tags of a cell."""
    return cell["cell_metadata"].get("tags", [])  # type: ignore[no-any-return]


def rows_of(cell: nodes.container, ledger: Ledger) -> list[Claim]:
    """The claims that a cell checks; what does not agree is a warning."""
    ids, called = tagged(tags_of(cell)), claimed(source_of(cell))
    for name in sorted(called.keys() - set(ids)):
        logger.warning("cell checks claim %s but lacks the tag", name, location=cell)
    rows = []
    for name in ids:
        row = ledger.by_id.get(name)
        if row is None:
            logger.warning("tag of unknown claim %r", name, location=cell)
        elif called.get(name) != row.verdict:
            logger.warning(
                "claim %s has verdict %r; its cell says %r",
                name,
                row.verdict,
                called.get(name),
                location=cell,
            )
        else:
            rows.append(row)
    return rows


def mark_checks(app: Sphinx, doctree: nodes.document) -> None:
    """Give each cell the anchors of the claims that it checks."""
    env, ledger = app.env, get_ledger(app.env)
    checks: dict[str, str] = {}
    for cell in code_cells(doctree):
        for row in rows_of(cell, ledger):
            if row.id not in checks:
                checks[row.id] = f"check-{row.id}"
                cell["ids"].append(checks[row.id])
            cell.setdefault("claims", []).append(row.id)
    if checks:
        env.get_domain("claim").data["checks"][env.docname] = checks
        env.note_dependency(app.config.claims_file)


def rewrite_ledger(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Name the ledger pages for writing when a chapter changed what they show."""
    data = env.get_domain("claim").data
    titles = {doc: title.astext() for doc, title in env.titles.items()}
    seen = repr((data["cited"], data["checks"], titles))
    changed, data["seen"] = data["seen"] != seen, seen
    return sorted(data["rows"]) if changed else []


def name_readers(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """List the other pages that cite each claim, beside the one that checks it."""
    ledger = get_ledger(app.env)
    for node in list(doctree.findall(claim_readers)):
        row = ledger.by_id[node["claim"]]
        line = nodes.paragraph(classes=["claim-readers"])
        for chapter in app.env.get_domain("claim").citing(row.id):
            checked = row.check and chapter == ledger.check_document(row)
            if checked or chapter == docname:
                continue
            line += nodes.Text(", " if len(line) else "cited in ")
            title = app.env.titles[chapter].astext()
            line += make_refnode(
                app.builder, docname, chapter, "", nodes.Text(title), title
            )
        node.replace_self([line] if len(line) else [])
