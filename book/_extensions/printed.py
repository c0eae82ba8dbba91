"""The printed edition: what the LaTeX builder leaves out of a book like this one.

- A code cell, or any other container, that is a target gets its label.
- A proof is no box with an empty title, but a passage with a rule at its side and a
  square at its end. A link to a theorem leads to the theorem and not to its section.
- A solution is a passage too: the box of the pages would not break within a cell.
- Theorems and exercises have the numbers that they have on the pages.
- A chapter's claims are named in one line.
- Cells that a page folds are left out, and sections that list what is looked up: the
  ledger's rows, the functions. The paper says so, and links lead to the page at least.
- Where a page has a figure to move, the paper says where it is.
- A part begins with a page that introduces it. That page, and every other page that has
  no number on the web, is a chapter without a number, so that the numbers agree.

The commands that it writes are defined in ``book/_latex/softtopk.sty``.
"""

from __future__ import annotations

from typing import Any

from claims.checks import code_cells
from claims.directives import ledger_table
from docutils import nodes
from folds import fold
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_exercise.nodes import (
    depart_exercise_enumerable_node,
    exercise_enumerable_node,
    solution_node,
    visit_exercise_enumerable_node,
    visit_solution_node,
)
from sphinx_proof.nodes import (
    NODE_TYPES,
    depart_enumerable_node,
    proof_node,
    visit_enumerable_node,
)
from theorems import theorem_list

LEFT_OUT = (
    "The printed edition leaves out the cells that import, draw and check. "
    "Each chapter is a notebook that has them all, and a page of the web edition"
)
CLOSING = (  # sections that end each chapter: the contents need not say so
    "Exercises",
    "Validate against softtopk",
    "What the sources say",
    "Further reading",
)
SHORT = 9  # lines of a cell that stays on one page
Anchor = tuple[str, str]  # a document, and an id in it


def _count_by_chapter(app: Sphinx) -> None:
    # For a book in parts, Jupyter Book makes this 2: right for LaTeX's own counters,
    # and one section too deep for the numbers that Sphinx gives to theorems.
    if app.builder.format == "latex":
        app.config.numfig_secnum_depth = 1


class JoinParts(SphinxPostTransform):
    """A list of chapters without a caption belongs to the part before it."""

    default_priority = 650  # before sphinx_jupyterbook_latex makes parts of captions
    formats = ("latex",)

    def run(self, **options: Any) -> None:
        """Move the chapters of such a list into the list before it."""
        part = None
        for chapters in list(self.document.findall(nodes.compound)):
            if "toctree-wrapper" not in chapters["classes"]:
                continue
            if chapters.get("docname") != self.config.root_doc:
                continue
            if chapters.get("caption") or part is None:
                part = chapters
            else:
                part.extend(chapters.children)
                chapters.parent.remove(chapters)


def _leave_numbers_out(app: Sphinx, doctree: nodes.document) -> None:
    """Give no number to a chapter that has none on the pages."""
    for chapter in doctree.findall(addnodes.start_of_file):
        docname = chapter["docname"]
        if docname in app.env.found_docs and not app.env.toc_secnumbers.get(docname):
            chapter.insert(0, _latex("\n\\setcounter{secnumdepth}{-1}\n"))
            chapter.append(_latex("\n\\setcounter{secnumdepth}{2}\n"))


def _complete_doctree(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "latex":
        return
    app.config.numfig_secnum_depth = 2  # the theorems have their numbers by now
    site = app.config.publish_site
    gone = _leave_code_out(doctree) | _leave_lists_out(doctree, site)
    _leave_numbers_out(app, doctree)
    _lead_elsewhere(doctree, site, gone)
    _say_what_is_left_out(doctree, site)
    for section in list(doctree.findall(_is_closing)):
        place = section.parent.index(section)
        section.parent.insert(place + 1, _contents_to(1))
        section.parent.insert(place, _contents_to(0))
    for cards in list(doctree.findall(_is_cards)):
        cards.parent.remove(cards)  # doors to the pages: the contents are enough here
    for container in list(doctree.findall(nodes.container)):
        if container["ids"]:
            place = container.parent.index(container)
            target = nodes.target("", "", ids=container["ids"])
            container.parent.insert(place, target)
    for place in list(doctree.findall(_is_place)):
        place.insert(0, nodes.target("", "", ids=place["ids"]))
    for proof in doctree.findall(proof_node):
        (box,) = proof.children
        proof.children = []
        proof += box.children
        head, rest = proof[0], proof[0][0]
        head[0] = nodes.Text(rest.removeprefix("Proof."))
        head.insert(0, nodes.emphasis("", "Proof."))
        _end_proof(proof)
    for cell in code_cells(doctree):
        _close_up(cell)
    for columns in list(doctree.findall(_is_in_columns)):
        box = nodes.container("", columns.deepcopy(), classes=["columns"])
        columns.replace_self(box)
    for claims in list(doctree.findall(nodes.bullet_list)):
        if "claim-list" in claims["classes"]:
            claims.replace_self(_in_a_line(claims))
    for verdict in doctree.findall(nodes.inline):
        if "claim-badge" in verdict["classes"]:
            verdict["classes"] = ["claim-badge"]  # LaTeX knows one command for all
    for raw in list(doctree.findall(nodes.raw)):
        if raw["format"] == "html" and raw.astext().startswith("<softtopk-"):
            words = "This figure moves in the web edition"
            raw.replace_self(_elsewhere(words, site, _docname(raw)))


def _leave_code_out(doctree: nodes.document) -> set[Anchor]:
    """Of a folded cell its figures stay; the anchors that go."""
    gone = set()
    for box in list(doctree.findall(fold)):
        gone |= {(_docname(box), name) for name in box["ids"]}
        cell = box.parent
        cell.remove(box)
        parent, place = cell.parent, cell.parent.index(cell)
        figures = list(cell.findall(nodes.figure))
        if figures or not cell.children:  # a figure without its code may float
            parent.remove(cell)
        parent[place:place] = figures
    return gone


def _leave_lists_out(doctree: nodes.document, site: str) -> set[Anchor]:
    """Of sections that list what is looked up the titles stay; the anchors that go."""
    gone = set()
    for page in list(doctree.findall(addnodes.start_of_file)):
        text, docname = page[0], page["docname"]
        lists = [part for part in text[1:] if _is_list(part)]
        for part in lists:
            text.remove(part)
            gone |= {(docname, name) for each in part.findall() for name in _ids(each)}
        if lists:
            titles = "; ".join(part[0].astext() for part in lists)
            words = f"These sections are in the web edition alone: {titles}"
            text += _elsewhere(words, site, docname)
    return gone


def _is_list(part: nodes.Node) -> bool:
    looked_up = (ledger_table, addnodes.desc)
    return isinstance(part, nodes.section) and any(
        isinstance(node, looked_up) for node in part.findall()
    )


def _is_place(node: nodes.Node) -> bool:
    """Whether links lead to a node that LaTeX gives no label."""
    return isinstance(node, nodes.list_item | nodes.paragraph) and bool(node["ids"])


def _ids(node: nodes.Node) -> list[str]:
    return node["ids"] if isinstance(node, nodes.Element) else []


def _lead_elsewhere(doctree: nodes.document, site: str, gone: set[Anchor]) -> None:
    """A link to an anchor that is gone leads to the web edition, or to its page."""
    for link in doctree.findall(nodes.reference):
        docname, _, name = link.get("refuri", "").removeprefix("%").partition("#")
        if "refid" in link:
            docname, name = _docname(link), link["refid"]
        if (docname, name) in gone:
            link.attributes.pop("refid", None)
            link["refuri"] = f"{site}/{docname}.html#{name}" if site else f"%{docname}"
            link["internal"] = not site


def _say_what_is_left_out(doctree: nodes.document, site: str) -> None:
    """What the paper leaves out, once, after the first page's text."""
    chapter = next(doctree.findall(addnodes.start_of_file))
    while chapter.parent.parent is not doctree:
        chapter = chapter.parent
    line = _elsewhere(LEFT_OUT, site, doctree["docname"])
    chapter.parent.insert(chapter.parent.index(chapter), line)


def _docname(node: nodes.Element) -> str:
    """The document of a node: the book is one document here."""
    while "docname" not in node:
        node = node.parent
    return str(node["docname"])


def _latex(command: str) -> nodes.raw:
    return nodes.raw("", command, format="latex")


def _is_closing(node: nodes.Node) -> bool:
    return isinstance(node, nodes.section) and node[0].astext() in CLOSING


def _contents_to(depth: int) -> nodes.raw:
    """From here on the contents list chapters (0), or sections too (1)."""
    command = rf"\addtocontents{{toc}}{{\protect\setcounter{{tocdepth}}{{{depth}}}}}"
    return _latex(f"\n{command}\n")


def _close_up(cell: nodes.container) -> None:
    """One empty line parts functions as well as two; a short cell is not split."""
    for code in cell[0].findall(nodes.literal_block):
        text = code.astext().replace("\n\n\n", "\n\n")
        code.children, code.rawsource = [], text
        code += nodes.Text(text)
        size = len(text.splitlines())
        if size <= SHORT:
            room = 2 + 3 * size // 4 + 3 * len(cell[1:])  # code is small
            cell.parent.insert(
                cell.parent.index(cell), _latex(f"\n\\keeplines{{{room}}}\n")
            )


def _is_cards(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "sd-row" in node["classes"]


def _is_in_columns(node: nodes.Node) -> bool:
    return isinstance(node, addnodes.glossary | theorem_list)


def _add_pages(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The list of theorems, filled by now, names the page of each."""
    if app.builder.format != "latex":
        return
    for entries in doctree.findall(nodes.bullet_list):
        if "columns" in entries.parent["classes"]:
            for (line,) in entries.children:
                label = line[0]["refuri"].removeprefix("%").replace("#", ":")
                line += _latex(f"\\dotfill\\pageref*{{\\detokenize{{{label}}}}}")


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


def _elsewhere(words: str, site: str, docname: str) -> nodes.paragraph:
    """Say what the web edition has, and at which address."""
    line = nodes.paragraph("", words)
    if site:
        address = f"{site}/{docname}.html"
        line += nodes.Text(", at ")
        line += nodes.reference("", address, refuri=address, internal=False)
    line += nodes.Text(".")
    return line


def _visit_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\begin{bookproof}\n")


def _depart_proof(self: Any, node: proof_node) -> None:
    self.body.append("\n\\end{bookproof}\n")


def _visit_theorem(self: Any, node: nodes.Element) -> None:
    self.body.append("\n\\keeplines{6}\\phantomsection")
    first = len(self.body)
    visit_enumerable_node(self, node)
    # sphinx_proof finds no page where the title has an apostrophe.
    page = f"\\label{{{self.curfilestack[-1]}:"
    self.body[first:] = [s.replace(r"\label{None:", page) for s in self.body[first:]]


def _visit_exercise(self: Any, node: nodes.Element) -> None:
    # The label of references by number follows; those from other pages ask for this.
    self.body.append("\n" + "".join(map(self.hypertarget, node["ids"])))
    visit_exercise_enumerable_node(self, node)


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
    app.add_node(
        exercise_enumerable_node,
        override=True,
        latex=(_visit_exercise, depart_exercise_enumerable_node),
    )
    for node in NODE_TYPES.values():
        app.add_node(
            node, override=True, latex=(_visit_theorem, depart_enumerable_node)
        )
    app.add_post_transform(JoinParts)
    app.connect("builder-inited", _count_by_chapter, priority=900)
    app.connect("doctree-resolved", _complete_doctree)
    app.connect("doctree-resolved", _add_pages, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
