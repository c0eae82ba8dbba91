"""A list of what the book defines and proves, in the order of its chapters.

``{theorem-list}`` stands for it. Each entry has the number and the title that its block
has in its chapter, and links to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from claims.domain import reading_order
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode


class Block(NamedTuple):
    """A numbered block of a page: its kind, its counter, its id, and its title."""

    kind: str
    counter: str
    label: str
    title: list[nodes.Node]


class theorem_list(nodes.General, nodes.Element):  # noqa: N801
    """Where the list will stand, once every page has been read."""


class TheoremListDirective(SphinxDirective):
    """Mark the place of the list."""

    def run(self) -> list[nodes.Node]:
        """Leave a node to be filled."""
        _kept(self.env, "theorem_pages")[self.env.docname] = True
        return [theorem_list()]


def _kept(env: BuildEnvironment, name: str) -> dict[str, Any]:
    """A dictionary by page that the environment stores."""
    if not hasattr(env, name):
        setattr(env, name, {})
    return getattr(env, name)


SHARED = {"proof", "proof-content", "exercise-content", "solution-content"}
"""Ids that sphinx-proof and sphinx-exercise give to every block of a page."""


def _distinguish(app: Sphinx, doctree: nodes.document) -> None:
    """Number the ids that several blocks of a page have: no link leads to these."""
    seen: Counter[str] = Counter()
    for block in doctree.findall(nodes.Element):
        for name in SHARED.intersection(block["ids"]):
            seen[name] += 1
            if seen[name] > 1:
                block["ids"][block["ids"].index(name)] = f"{name}-{seen[name]}"


def _collect(app: Sphinx, doctree: nodes.document) -> None:
    found = [
        Block(
            block["realtype"], block["countertype"], block["label"], block[0].children
        )
        for block in doctree.findall(nodes.Element)
        if "countertype" in block.attributes
    ]
    if found:
        _kept(app.env, "theorem_blocks")[app.env.docname] = found


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    for name in ("theorem_blocks", "theorem_pages"):
        _kept(env, name).pop(docname, None)


def _merge(
    app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
) -> None:
    for name in ("theorem_blocks", "theorem_pages"):
        found = _kept(other, name)
        _kept(env, name).update({d: found[d] for d in docnames if d in found})


def _rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """A list depends on every page."""
    return list(_kept(env, "theorem_pages"))


def _fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    env, blocks = app.env, _kept(app.env, "theorem_blocks")
    for place in list(doctree.findall(theorem_list)):
        parts: list[nodes.Node] = []
        for chapter in reading_order(env):
            if chapter not in blocks:
                continue
            title = nodes.inline("", env.titles[chapter].astext())
            link = make_refnode(app.builder, docname, chapter, None, title)
            parts.append(nodes.rubric("", "", link))
            parts.append(nodes.bullet_list())
            for block in blocks[chapter]:
                numbers = env.toc_fignumbers.get(chapter, {}).get(block.counter, {})
                number = ".".join(map(str, numbers.get(block.label, ())))
                name = nodes.inline("", f"{block.kind.title()} {number}".strip())
                link = make_refnode(app.builder, docname, chapter, block.label, name)
                words = (part.deepcopy() for part in block.title)
                line = nodes.paragraph("", "", link, nodes.Text(" "), *words)
                parts[-1] += nodes.list_item("", line)
        place.replace_self(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_node(theorem_list)
    app.add_directive("theorem-list", TheoremListDirective)
    app.connect("doctree-read", _distinguish)
    app.connect("doctree-read", _collect)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", _rewrite)
    app.connect("doctree-resolved", _fill)
    return {
        # An edit of this file makes Sphinx read every page again.
        "env_version": crc32(Path(__file__).read_bytes()),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
