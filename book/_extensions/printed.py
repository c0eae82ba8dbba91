"""The printed edition: what the LaTeX builder leaves out of a book like this one.

- A code cell, or any other container, that is a target gets its label.
- A proof is no box with an empty title, but a passage with a rule at its side and a
  square at its end. A link to a theorem leads to the theorem and not to its section.
- A solution is a passage too: the box of the pages would not break within a cell.
- Theorems and exercises have the numbers that they have on the pages.
- A chapter's claims are named in one line: their rows stand once, in the ledger.
- Of a cell that a page folds, a line stays, and the chapter says where the code is.
- Where a page has a figure to move, the paper says where it is.

The commands that it writes are defined in ``book/_latex/softtopk.sty``.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from folds import fold
from sphinx.application import Sphinx
from sphinx_exercise.nodes import solution_node, visit_solution_node
from sphinx_proof.nodes import (
    NODE_TYPES,
    depart_enumerable_node,
    proof_node,
    visit_enumerable_node,
)


def _count_by_chapter(app: Sphinx) -> None:
    # For a book in parts, Jupyter Book makes this 2: right for LaTeX's own counters,
    # and one section too deep for the numbers that Sphinx gives to theorems.
    if app.builder.format == "latex":
        app.config.numfig_secnum_depth = 1


def _complete_doctree(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "latex":
        return
    app.config.numfig_secnum_depth = 2  # the theorems have their numbers by now
    _leave_code_out(app, doctree)
    for container in list(doctree.findall(nodes.container)):
        if container["ids"]:
            place = container.parent.index(container)
            target = nodes.target("", "", ids=container["ids"])
            container.parent.insert(place, target)
    for proof in doctree.findall(proof_node):
        (box,) = proof.children
        proof.children = []
        proof += box.children
        head, rest = proof[0], proof[0][0]
        head[0] = nodes.Text(rest.removeprefix("Proof."))
        head.insert(0, nodes.emphasis("", "Proof."))
        _end_proof(proof)
    for claims in list(doctree.findall(nodes.bullet_list)):
        if "claim-list" in claims["classes"]:
            claims.replace_self(_in_a_line(claims))
    for verdict in doctree.findall(nodes.inline):
        if "claim-badge" in verdict["classes"]:
            verdict["classes"] = ["claim-badge"]  # LaTeX knows one command for all
    for raw in list(doctree.findall(nodes.raw)):
        if raw["format"] == "html" and raw.astext().startswith("<softtopk-"):
            raw.replace_self(_elsewhere(app.config.publish_site, raw))


def _leave_code_out(app: Sphinx, doctree: nodes.document) -> None:
    """Of a folded cell its line stays, where it says something, and one says why."""
    told = set()
    for box in list(doctree.findall(fold)):
        chapter = _docname(box)
        left: list[nodes.Node] = []
        if chapter not in told:
            left.append(_where(app.config.publish_site, chapter))
            told.add(chapter)
        if box["kind"] in ("claim", "check"):
            left += [nodes.target("", "", ids=[name]) for name in box["ids"]]
            left += [_latex("\n\\begin{foldline}")]
            left += [nodes.paragraph("", "", *box[0].children)]
            left += [_latex("\\end{foldline}\n")]
        cell = box.parent
        cell.remove(box)
        parent, place = cell.parent, cell.parent.index(cell)
        figures = list(cell.findall(nodes.figure))
        if figures or not cell.children:  # a figure without its code may float
            parent.remove(cell)
        parent[place:place] = left + figures


def _where(site: str, chapter: str) -> nodes.paragraph:
    """Where the code is that the paper leaves out."""
    words = "The cells that import, draw and check are left out here. They are in "
    line = nodes.paragraph("", words)
    line += nodes.literal("", f"{chapter}.ipynb")
    if site:
        address = f"{site}/{chapter}.html"
        line += nodes.Text(" and in the web edition, at ")
        line += nodes.reference("", address, refuri=address, internal=False)
    line += nodes.Text(".")
    return line


def _docname(node: nodes.Element) -> str:
    """The document of a node: the book is one document here."""
    while "docname" not in node:
        node = node.parent
    return str(node["docname"])


def _latex(command: str) -> nodes.raw:
    return nodes.raw("", command, format="latex")


def _end_proof(proof: nodes.Element) -> None:
    """Put the square where the proof ends, be it in a list."""
    last = proof[-1]
    while isinstance(last, nodes.Element) and not isinstance(last, nodes.TextElement):
        last = last[-1]
    if isinstance(last, nodes.paragraph):
        last += _latex("\\proofend")
    else:  # a display
        last.parent.insert(last.parent.index(last) + 1, _latex("\n\\displayend"))


def _in_a_line(claims: nodes.bullet_list) -> nodes.paragraph:
    """The claims of a chapter by name and verdict, each a link to its row."""
    line = nodes.paragraph()
    for item in claims.children:
        line += [nodes.Text(", ")] if line.children else []
        line += item[0][0]
    line += nodes.Text(".")
    return line


def _elsewhere(site: str, raw: nodes.raw) -> nodes.paragraph:
    """Say where the figure is that moves on a screen only."""
    line = nodes.paragraph("", "This figure moves in the web edition")
    if site:
        address = f"{site}/{_docname(raw)}.html"
        line += nodes.Text(", at ")
        line += nodes.reference("", address, refuri=address, internal=False)
    line += nodes.Text(".")
    return line


def _visit_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\begin{bookproof}\n")


def _depart_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\end{bookproof}\n")


def _visit_theorem(self: Any, node: nodes.Element) -> None:
    self.body.append("\n\\keeplines{9}\\phantomsection")
    visit_enumerable_node(self, node)


def _visit_solution(self: Any, node: solution_node) -> None:
    visit_solution_node(self, node)
    self.body[-1] = "\n\\begin{booksolution}"  # its title follows, in braces


def _depart_solution(self: Any, node: solution_node) -> None:
    self.body.append("\n\\end{booksolution}\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_node(proof_node, override=True, latex=(_visit_proof, _depart_proof))
    app.add_node(
        solution_node, override=True, latex=(_visit_solution, _depart_solution)
    )
    for node in NODE_TYPES.values():
        app.add_node(
            node, override=True, latex=(_visit_theorem, depart_enumerable_node)
        )
    app.connect("builder-inited", _count_by_chapter, priority=900)
    app.connect("doctree-resolved", _complete_doctree)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
