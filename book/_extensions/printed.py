"""The printed edition: what the LaTeX builder leaves out of a book like this one.

- A code cell, or any other container, that is a target gets its label.
- A proof is no box with an empty title, but a passage with a rule at its side and a
  square at its end. A link to a theorem leads to the theorem and not to its section.
- Theorems and exercises have the numbers that they have on the pages.

The commands that it writes are defined in ``book/_latex/softtopk.sty``.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
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


def _visit_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\begin{bookproof}\n")


def _depart_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\end{bookproof}\n")


def _visit_theorem(self: Any, node: nodes.Element) -> None:
    self.body.append("\n\\par\\phantomsection")
    visit_enumerable_node(self, node)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_node(proof_node, override=True, latex=(_visit_proof, _depart_proof))
    for node in NODE_TYPES.values():
        app.add_node(
            node, override=True, latex=(_visit_theorem, depart_enumerable_node)
        )
    app.connect("builder-inited", _count_by_chapter, priority=900)
    app.connect("doctree-resolved", _complete_doctree)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
