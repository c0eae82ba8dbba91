"""Statements that a machine has checked, beside the theorems of the book.

``book/formal.yml`` says which statements of ``proofs/`` stand behind which theorem.
Below each of these theorems a fold holds their text, taken from the files, and says
what of the theorem they cover. The chapter on them has two directives:

``{formal-map}``
    Every file and its statements: where the book states them, what they use, and
    their text.

``{formal-axioms}``
    The axioms that a proof may rest on.

A name that ``proofs/`` lacks, and a label that the book lacks, is a warning.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from claims import version
from claims.directives import formal_names
from claims.domain import get_ledger
from claims.text import covered, formal_badge, xref
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from .rocq import Library
from .statements import Entry, Formal, read_formal

logger = logging.getLogger(__name__)
FOLDER = "proofs"


class formal_fold(nodes.General, nodes.Element):  # noqa: N801
    """Statements that are folded; the first child is the line that stays."""


class formal_line(nodes.General, nodes.TextElement):  # noqa: N801
    """The line of such a fold."""


class formal_text(nodes.General, nodes.Element):  # noqa: N801
    """The text of a statement, which print leaves out."""


class State:
    """What one build knows of the proofs."""

    def __init__(self, app: Sphinx) -> None:
        book = (Path(app.srcdir) / app.config.claims_file).parent
        self.sources = [book / "formal.yml"]
        self.library = Library(book.parent / FOLDER)
        self.sources += sorted(self.library.folder.glob("*.v"))
        self.formal: Formal = read_formal(book, get_ledger(app.env))
        for fault in self.formal.faults(self.library):
            logger.warning("proofs: %s", fault)

    def depend(self, env: BuildEnvironment) -> None:
        """The current page is read again when a file changes."""
        for path in self.sources:
            env.note_dependency(str(path))


def get_state(env: BuildEnvironment) -> State:
    """The state of this build."""
    return env.app.formal_state  # type: ignore[attr-defined, no-any-return]


def _load(app: Sphinx) -> None:
    app.formal_state = State(app)  # type: ignore[attr-defined]


def anchor(name: str) -> str:
    """Where the chapter has a statement.

    >>> anchor("Selection.shares_sum")
    'formal-Selection-shares_sum'
    """
    return "formal-" + name.replace(".", "-")


def code(text: str) -> formal_text:
    """The text of a statement, set as code."""
    return formal_text("", nodes.literal_block(text, text, language="coq"))


def fold(state: State, entry: Entry) -> formal_fold:
    """The fold below a theorem."""
    ledger = state.formal.ledger
    line = formal_line("", "", formal_badge(), nodes.Text(" "))
    for place, name in enumerate(entry.formal):
        short = name.partition(".")[2]
        line += [nodes.Text(", " if place else ""), nodes.literal(short, short)]
    covers = nodes.paragraph("", "", *covered(entry.covers, ledger))
    found = formal_fold("", line, covers)
    known = [name for name in entry.formal if name in state.library.sentences]
    shown: dict[str, str] = {}
    for name in known:
        for part in [*state.library.definitions(name), state.library.sentences[name]]:
            shown[part.full] = part.text
    found += code("\n\n".join(shown.values()))
    return found


def _guide(docname: str) -> addnodes.pending_xref:
    """A link to where the book says how a statement is read."""
    words = nodes.inline("", "How to read a statement")
    return addnodes.pending_xref(
        "",
        words,
        refdomain="std",
        reftype="ref",
        reftarget="checked-reading",
        refexplicit=True,
        refdoc=docname,
    )


def _insert(app: Sphinx, doctree: nodes.document) -> None:
    """Put the folds below the theorems of a page."""
    state = get_state(app.env)
    for block in list(doctree.findall(nodes.Element)):
        if (
            "countertype" in block.attributes
            and block["label"] in state.formal.theorems
        ):
            entry = state.formal.theorems[block["label"]]
            place = block.parent.index(block)
            below = fold(state, entry)
            below.children[1].extend([nodes.Text(" "), _guide(app.env.docname)])
            block.parent.insert(place + 1, below)
            _labels(app.env).setdefault(app.env.docname, []).append(entry.place)
            state.depend(app.env)


def _labels(env: BuildEnvironment) -> dict[str, list[str]]:
    if not hasattr(env, "formal_labels"):
        env.formal_labels = {}  # type: ignore[attr-defined]
    return env.formal_labels  # type: ignore[attr-defined, no-any-return]


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _labels(env).pop(docname, None)
    _pages(env).pop(docname, None)


def _merge(
    app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
) -> None:
    found = _labels(other)
    _labels(env).update({name: found[name] for name in docnames if name in found})
    _pages(env).update({name: True for name in docnames if name in _pages(other)})


def _complete(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Warn of theorems of the table that no page has."""
    found = {label for labels in _labels(env).values() for label in labels}
    for label in get_state(env).formal.theorems:
        if label not in found:
            logger.warning("formal.yml: no page has the theorem %r", label)
    return []


def _link_rows(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link the rows of the ledger to the statements in the map."""
    for node in list(doctree.findall(formal_names)):
        line = nodes.paragraph("", "", formal_badge(), classes=["claim-readers"])
        line += nodes.Text(" ")
        for place, name in enumerate(node["names"]):
            line += nodes.Text(", " if place else "")
            short = nodes.literal("", name.partition(".")[2])
            for page in _pages(app.env):
                line += make_refnode(app.builder, docname, page, anchor(name), short)
                break
            else:
                line += short
        node.replace_self(line)


def _pages(env: BuildEnvironment) -> dict[str, bool]:
    """The pages that hold a map."""
    if not hasattr(env, "formal_pages"):
        env.formal_pages = {}  # type: ignore[attr-defined]
    return env.formal_pages  # type: ignore[attr-defined, no-any-return]


class MapDirective(SphinxDirective):
    """Every file and its statements."""

    def run(self) -> list[nodes.Node]:
        """A title, the files that it builds on, and a list, for each file."""
        state = get_state(self.env)
        _pages(self.env)[self.env.docname] = True
        state.depend(self.env)
        self.env.note_dependency(self.env.config.claims_file)
        named = set(state.formal.names)
        parts: list[nodes.Node] = []
        for file, title in state.library.titles.items():
            names = [name for name in state.library.sentences if name in named]
            names = [name for name in names if name.startswith(f"{file}.")]
            parts.append(self.head(state, file, title))
            items = nodes.bullet_list(classes=["formal-map"])
            items += [self.item(state, name, named) for name in names]
            if names:
                parts.append(items)
        return parts

    def head(self, state: State, file: str, title: str) -> nodes.paragraph:
        """The name of a file, its title, and what it builds on."""
        name = nodes.strong()
        for place, part in enumerate(re.split(r"\[(.*?)\]", title)):
            name += nodes.literal(part, part) if place % 2 else nodes.Text(part)
        line = nodes.paragraph(
            "", "", name, classes=["formal-file"], ids=[f"file-{file}"]
        )
        line += [nodes.Text(" ("), nodes.literal(f"{file}.v", f"{file}.v")]
        below = state.library.imports[file]
        line += nodes.Text(", builds on " if below else "")
        for place, other in enumerate(below):
            line += nodes.Text(", " if place else "")
            line += nodes.reference("", other, refid=f"file-{other}", internal=True)
        line += nodes.Text(")")
        return line

    def item(self, state: State, name: str, named: set[str]) -> nodes.list_item:
        """A statement: where the book has it, what it uses, its text."""
        sentence = state.library.sentences[name]
        head = formal_line("", "", nodes.literal(sentence.name, sentence.name))
        line = nodes.paragraph(classes=["formal-places"])
        for entry in state.formal.theorems.values():
            if name in entry.formal:
                line += [
                    nodes.Text(", " if len(line) else ""),
                    self.theorem(entry.place),
                ]
        for entry in state.formal.also:
            if name in entry.formal:
                line += [
                    nodes.Text(", " if len(line) else ""),
                    self.chapter(entry.place),
                ]
        for row in state.formal.ledger:
            if name in row.formal_names:
                number = nodes.inline(row.id, row.id, classes=["claim-id"])
                link = xref("row", row, number)
                self.set_source_info(link)
                line += [nodes.Text(", " if len(line) else ""), link]
        found = formal_fold("", head)
        uses = state.library.uses(name, named)
        if uses:
            text = nodes.paragraph("", "Its proof uses ")
            for place, other in enumerate(uses):
                short = nodes.literal("", other.partition(".")[2])
                text += nodes.Text(", " if place else "")
                text += nodes.reference(
                    "", "", short, refid=anchor(other), internal=True
                )
            text += nodes.Text(".")
            found += text
        found += code(state.library.shown(name))
        return nodes.list_item("", found, line, ids=[anchor(name)])

    def theorem(self, label: str) -> addnodes.pending_xref:
        """A link to a theorem, by its number."""
        link = addnodes.pending_xref(
            "",
            nodes.inline("", label),
            refdomain="prf",
            reftype="ref",
            reftarget=label,
            refexplicit=False,
            refwarn=True,
        )
        self.set_source_info(link)
        return link

    def chapter(self, place: str) -> addnodes.pending_xref:
        """A link to a chapter, by its title."""
        link = addnodes.pending_xref(
            "",
            nodes.inline("", place),
            refdomain="std",
            reftype="doc",
            refdoc=self.env.docname,
            reftarget=f"/{Path(self.env.config.claims_file).parent.as_posix()}/{place}",
            refexplicit=False,
            refwarn=True,
        )
        self.set_source_info(link)
        return link


class AxiomsDirective(SphinxDirective):
    """The axioms that a proof may rest on."""

    def run(self) -> list[nodes.Node]:
        """A list: the name, and what it says."""
        state = get_state(self.env)
        state.depend(self.env)
        items = nodes.bullet_list()
        for name, says in state.formal.axioms.items():
            short = name.partition(".")[2]
            line = nodes.paragraph("", "", nodes.literal(short, short))
            line += nodes.Text(f": {says[0].lower()}{says[1:]}")
            items += nodes.list_item("", line)
        return [items]


def _visit_fold(self: Any, node: formal_fold) -> None:
    self.body.append(self.starttag(node, "details", "\n", CLASS="formal"))


def _depart_fold(self: Any, node: formal_fold) -> None:
    self.body.append("</details>\n")


def _visit_line(self: Any, node: formal_line) -> None:
    self.body.append("<summary>")


def _depart_line(self: Any, node: formal_line) -> None:
    self.body.append("</summary>\n")


def _nothing(self: Any, node: nodes.Element) -> None:
    """The children say it all."""


def _paragraph_end(self: Any, node: nodes.Element) -> None:
    self.body.append("\n\n")


def _skip(self: Any, node: nodes.Element) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.setup_extension("claims")
    app.add_node(
        formal_fold,
        html=(_visit_fold, _depart_fold),
        latex=(_nothing, _nothing),
        text=(_nothing, _nothing),
    )
    app.add_node(
        formal_line,
        html=(_visit_line, _depart_line),
        latex=(_nothing, _paragraph_end),
        text=(_nothing, _nothing),
    )
    app.add_node(
        formal_text,
        html=(_nothing, _nothing),
        latex=(_skip, None),
        text=(_skip, None),
    )
    app.add_directive("formal-map", MapDirective)
    app.add_directive("formal-axioms", AxiomsDirective)
    app.connect("builder-inited", _load, priority=600)  # after the ledger
    app.connect("doctree-read", _insert)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", _complete)
    app.connect("doctree-resolved", _link_rows)
    return {
        "env_version": version(*Path(__file__).parent.glob("*.py")),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
