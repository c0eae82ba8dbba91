"""Code that a reader need not read: one line each, which one click opens.

A page folds the cells that the tags of ``claims.cells`` name:

claim
    "✓ A66 checked", the verdict, and the first words of the claim.
check
    "✓ checked:" and what the first line of the cell, a comment, says.
plot, imports, helpers
    "Plot code", "Imports" and "Helpers": functions that open cells call, each of which
    the text names before the first call. A screen reader lists them one after the
    other, so each has a longer name for it, which says what its cell holds.

A fold holds the code and its plain output. Formulas that a cell shows stay in sight
below it. A figure stays in sight above it, because a reader wants the figure first and
its code perhaps afterwards. The anchor ``check-A66`` is the fold itself: ``folds.js``
opens it to whoever follows a link there, and gives each page one switch that opens all.
"""

from __future__ import annotations

import ast
import re
from html import escape
from pathlib import Path
from typing import Any

from claims import version
from claims.cells import announced, kind
from claims.checks import code_cells, source_of, tags_of
from claims.domain import get_ledger
from claims.ledger import Claim
from claims.text import badge, row_link
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

ROOM = 96  # characters of a statement, about: a line on a wide screen
PARTS = re.compile(r"(\$[^$]+\$|`[^`]+`)")
NAMES = {"plot": "Plot code", "imports": "Imports", "helpers": "Helpers"}


class fold(nodes.General, nodes.Element):  # noqa: N801
    """What is folded; its first child is the line that stays."""


class fold_line(nodes.General, nodes.TextElement):  # noqa: N801
    """The line of a fold."""


class fold_switch(nodes.General, nodes.Element):  # noqa: N801
    """The switch that opens all folds of a page."""


# --- The line ------------------------------------------------------------------------


def width(part: str) -> int:
    """About how many characters wide a piece of text is when it is set."""
    if part[0] == "$":
        part = re.sub(r"[{}$^_\\ ]", "", re.sub(r"\\[a-zA-Z]+", "x", part))
    return len(part)


def first_words(text: str, room: int = ROOM) -> list[str]:
    r"""The pieces of a text that fit into a line, cut at a word, never in a formula.

    >>> first_words("The sum of $p_i$ is $k$ for every score.", 17)
    ['The sum of ', '$p_i$', ' is', ' …']
    """
    kept: list[str] = []
    for part in filter(None, PARTS.split(text)):
        if width(part) <= room:
            kept.append(part)
            room -= width(part)
            continue
        if not PARTS.fullmatch(part):
            kept.append(part[: room + 1].rpartition(" ")[0])
        return [*kept[:-1], kept[-1].rstrip(), " …"] if kept else ["…"]
    return kept


def pieces(parts: list[str]) -> list[nodes.Node]:
    """Pieces of a text as nodes: formulas, code and words."""
    made: list[nodes.Node] = []
    for part in parts:
        if PARTS.fullmatch(part):
            node = nodes.math if part[0] == "$" else nodes.literal
            made.append(node(part[1:-1], part[1:-1]))
        else:
            made.append(nodes.Text(part))
    return made


def claims_line(rows: list[Claim]) -> fold_line:
    """Which claims are checked, with which verdict, and what the first one says."""
    names = "✓ " + ", ".join(row.id for row in rows) + " checked"
    line = fold_line("", "", nodes.inline("", names, classes=["fold-name"]))
    for verdict in dict.fromkeys(row.verdict for row in rows):
        line += [nodes.Text(" "), badge(verdict)]
    words = pieces(first_words(rows[0].statement))
    line += [nodes.Text(" "), nodes.inline("", "", *words, classes=["fold-words"])]
    return line


def check_line(cell: nodes.container) -> fold_line:
    """What a check without a claim says of itself."""
    text = announced(source_of(cell))
    if not text:
        message = "the first line of a check must be a comment that says what it checks"
        logger.warning(message, location=cell)
    line = fold_line("", "", nodes.inline("", "✓ checked:", classes=["fold-name"]))
    words = pieces(first_words(text, 2 * ROOM))
    line += [nodes.Text(" "), nodes.inline("", "", *words, classes=["fold-words"])]
    return line


def held(source: str) -> str:
    """What a cell without a line of its own holds: its comment, or names in its code.

    >>> held("# The methods\\ndef a(): ..."), held("def a(): ...\\nclass B: ...")
    ('The methods', 'a, B')
    >>> held("import numpy as np\\nfrom softtopk import verify"), held("x = 1")
    ('numpy, verify', 'x')
    """
    if text := announced(source):
        return text
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic
        return ""
    defined, imported, assigned = [], [], []
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.append(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                imported += [alias.name for alias in names]
            case ast.Assign(targets=targets):
                parts = [part for target in targets for part in ast.walk(target)]
                assigned += [part.id for part in parts if isinstance(part, ast.Name)]
    return ", ".join(dict.fromkeys((defined or imported or assigned)[:8]))


def named_line(cell: nodes.container, what: str) -> fold_line:
    """The line of a cell of a kind, with a name of its own for screen readers."""
    line = fold_line("", "", nodes.inline("", NAMES[what], classes=["fold-name"]))
    caption = next(iter(cell.findall(nodes.caption)), None)
    text = announced(source_of(cell))
    if not text and what == "plot" and caption is not None:
        text = "".join(first_words(caption.astext(), ROOM))
    text = text or held(source_of(cell))
    line["label"] = f"{NAMES[what]}: {text}" if text else NAMES[what]
    return line


# --- The cells -----------------------------------------------------------------------


def is_plain(output: nodes.Node) -> bool:
    """Whether an output is text that goes with its code, and nothing to look at."""
    if isinstance(output, nodes.literal_block):
        return True
    return (
        isinstance(output, nodes.container)
        and output.get("nb_element") == "mime_bundle"
        and all(child["mime_type"] == "text/plain" for child in output.children)
    )


def take_plain(cell: nodes.container) -> list[nodes.Node]:
    """The plain outputs of a cell, taken out of it."""
    if not cell.children:
        return []
    last: Any = cell.children[-1]
    if last.get("nb_element") != "cell_code_output":
        return []
    plain = [output for output in last.children if is_plain(output)]
    if len(plain) == len(last.children):
        cell.remove(last)
        return [last]
    last.children = [output for output in last.children if not is_plain(output)]
    box = nodes.container(nb_element="cell_code_output", classes=["cell_output"])
    box += plain
    return [box] if plain else []


def fold_cell(cell: nodes.container, what: str, rows: list[Claim]) -> None:
    """Put the code of a cell, and what belongs to it, into a fold."""
    box = fold("", kind=what, classes=["fold", f"fold-{what}"], ids=cell["ids"])
    box.line, box.source, cell["ids"] = cell.line, cell.source, []
    cell.attributes.pop("hide_mode", None)  # of another fold, MyST-NB's
    if rows:
        box += claims_line(rows)
        box["classes"].append(f"claim-item-{rows[0].verdict}")
        note = nodes.paragraph("", "Check of ", classes=["claim-check"])
        for place, row in enumerate(rows):
            note += [nodes.Text(", ")] if place else []
            note += row_link(row)
        box += note
    elif what == "check":
        box += check_line(cell)
    else:
        box += named_line(cell, what)
    source = cell.children[0]
    cell.remove(source)
    box += source
    if what in ("claim", "check"):
        box += take_plain(cell)
    cell.insert(len(cell.children) if what == "plot" else 0, box)
    cell["classes"].append("folded")


def fold_cells(app: Sphinx, doctree: nodes.document) -> None:
    """Fold the cells of a page, and give it the switch if there are any."""
    found = False
    for cell in code_cells(doctree):
        what = kind(tags_of(cell))
        rows = [get_ledger(app.env).by_id[name] for name in cell.get("claims", [])]
        if what is None or not source_of(cell) or (what == "claim" and not rows):
            continue
        fold_cell(cell, what, rows)
        found = True
    if found:
        page = next(iter(doctree.findall(nodes.section)))
        page.insert(page.first_child_matching_class(nodes.title) + 1, fold_switch())


# --- Output --------------------------------------------------------------------------


def _visit_fold(self: Any, node: fold) -> None:
    # Further anchors stand in the line: a target inside what is closed is out of sight.
    anchor = "".join(f' id="{name}"' for name in node["ids"][:1])
    self.body.append(f'<details class="{" ".join(node["classes"])}"{anchor}>\n')


def _depart_fold(self: Any, node: fold) -> None:
    self.body.append("</details>\n")


def _visit_line(self: Any, node: fold_line) -> None:
    further = "".join(f'<span id="{name}"></span>' for name in node.parent["ids"][1:])
    label = node.get("label")
    name = f' aria-label="{escape(label)}"' if label else ""
    self.body.append(f"<summary{name}>{further}")


def _depart_line(self: Any, node: fold_line) -> None:
    self.body.append("</summary>\n")


def _visit_switch(self: Any, node: fold_switch) -> None:
    self.body.append(
        '<div class="fold-switch"><label><input type="checkbox" role="switch" '
        'autocomplete="off" /> Show all code and checks</label></div>\n'
    )


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other formats show what is folded, and no switch."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    plain = (_nothing, _nothing)
    for node, html in (
        (fold, (_visit_fold, _depart_fold)),
        (fold_line, (_visit_line, _depart_line)),
        (fold_switch, (_visit_switch, _nothing)),
    ):
        app.add_node(node, html=html, latex=plain, text=plain)
    app.connect("doctree-read", fold_cells, priority=600)  # after the claims' anchors
    return {
        "env_version": version(Path(__file__)),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
