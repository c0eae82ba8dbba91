"""How the lists and tables of claims are written."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from .directives import (
    claim_fold,
    formal_names,
    ledger_cell,
    ledger_row,
    ledger_table,
)
from .ledger import KINDS

HEADINGS = ("Claim", "Statement", "Check")


def _visit_fold(self: Any, node: claim_fold) -> None:
    # The verdict is the colour and the sign of the style sheet, and a word for those
    # who see neither.
    marks = " ".join(
        f'<span class="claim-badge claim-badge-{row.verdict}">{row.id}'
        f'<span class="visually-hidden"> {row.verdict}</span></span>'
        for row in node["rows"]
    )
    found = all(row.verdict in KINDS["results"] for row in node["rows"])
    name = "result" if found else "claim"
    name += "s" if len(node["rows"]) > 1 else ""
    self.body.append(
        f'<details class="claim-fold"><summary>{len(node["rows"])} {name}: '
        f"{marks}</summary>\n"
    )


def _depart_fold(self: Any, node: claim_fold) -> None:
    self.body.append("</details>\n")


def _visit_table(self: Any, node: ledger_table) -> None:
    # The roles stay when the style sheet stacks the cells on a narrow screen.
    heads = "".join(
        f'<th scope="col" role="columnheader">{name}</th>' for name in HEADINGS
    )
    self.body.append(
        f'<table class="claim-ledger" role="table" aria-label="{node["label"]}">'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>'
        '<tbody role="rowgroup">\n'
    )


def _depart_table(self: Any, node: ledger_table) -> None:
    self.body.append("</tbody></table>\n")


def _visit_row(self: Any, node: ledger_row) -> None:
    self.body.append(self.starttag(node, "tr", "", role="row", **node["data"]))


def _depart_row(self: Any, node: ledger_row) -> None:
    self.body.append("</tr>\n")


def _visit_cell(self: Any, node: ledger_cell) -> None:
    tag = "th" if node["role"] == "rowheader" else "td"
    scope = {"scope": "row"} if tag == "th" else {}
    self.body.append(self.starttag(node, tag, "", role=node["role"], **scope))


def _depart_cell(self: Any, node: ledger_cell) -> None:
    self.body.append("</th>" if node["role"] == "rowheader" else "</td>")


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other formats show the paragraphs of a cell one after the other."""


def add_nodes(app: Sphinx) -> None:
    """Register the nodes with their writers."""
    plain = (_nothing, _nothing)
    for node, html in (
        (claim_fold, (_visit_fold, _depart_fold)),
        (ledger_table, (_visit_table, _depart_table)),
        (ledger_row, (_visit_row, _depart_row)),
        (ledger_cell, (_visit_cell, _depart_cell)),
        (formal_names, plain),
    ):
        app.add_node(node, html=html, latex=plain, text=plain)
