"""The sections of the sources: where each is treated, and what was mended in it.

``{post-section}`` stands below the heading of one section; its argument is the source
and the title as the ledger has them. It links to the chapters that check the section's
claims, counts the verdicts, links to the section's rows in the ledger, and folds the
claims that do not hold as they stand, each with the statement that does::

    ```{post-section} post-10373: Both at once (二者兼之)
    ```

``{post-sections}`` lists all sections of a source in the same way, one after the other.

Each chapter names the sections that it treats, where its *What the sources say* begins
or else at its end, with a link to the place of the section in these pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlencode

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from .directives import ClaimDirective, claim_fold
from .domain import get_ledger
from .inventory import Paragraph, read_inventory
from .ledger import KINDS, Claim, Ledger
from .text import badge, quoted, row_link

logger = logging.getLogger(__name__)
CLOSING = "What the sources say"


class ledger_view(nodes.General, nodes.Inline, nodes.TextElement):  # noqa: N801
    """A link to the ledger that shows the rows of one section alone."""


class chapter_sections(nodes.General, nodes.Inline, nodes.Element):  # noqa: N801
    """Stands for the link to a section until the page that holds it is known."""


def anchor(source: str, section: str) -> str:
    """The id of a section in its page.

    >>> anchor("post-10373", "Both at once (二者兼之)")
    'post-10373-both-at-once'
    """
    name = section.partition(" (")[0]
    return nodes.make_id(f"{source}-{name}")


def rows_of(ledger: Ledger, source: str, section: str) -> list[Claim]:
    """The claims of a section."""
    return [
        row for row in ledger.claims if (row.source, row.section) == (source, section)
    ]


def chapters_of(ledger: Ledger, rows: list[Claim]) -> list[str]:
    """The documents that check some claims, the one with most of them first."""
    found = Counter(ledger.check_document(row) for row in rows if row.check)
    return [name for name, _ in found.most_common()]


class _Sections(ClaimDirective):
    """What the two directives share."""

    def paragraphs(self) -> tuple[Paragraph, ...]:
        """The paragraphs of all sources."""
        path = Path(self.env.srcdir, self.env.config.claims_file)
        path = path.with_name("inventory.yml")
        self.env.note_dependency(str(path))
        return read_inventory(path).paragraphs

    def asked(self, source: str, section: str) -> list[Claim]:
        """The results that answer what a section leaves open."""
        here = (source, section)
        at = [row for row in self.paragraphs() if (row.source, row.section) == here]
        names = dict.fromkeys(name for row in at for name in row.asks)
        return [self.ledger.by_id[name] for name in names if name in self.ledger.by_id]

    def titles(self) -> dict[str, list[str]]:
        """The sections of each source, in its order."""
        found: dict[str, list[str]] = {}
        for at in self.paragraphs():
            sections = found.setdefault(at.source, [])
            if at.section not in sections:
                sections.append(at.section)
        return found

    def told(self, source: str, section: str) -> list[nodes.Node]:
        """Where a section is treated, its verdicts, and its claims that do not hold."""
        rows = rows_of(self.ledger, source, section)
        here = self.domain.data["sections"].setdefault(self.env.docname, [])
        here.append((source, section))
        if not rows:
            text = "This section makes no mathematical claim."
            return [nodes.paragraph("", text)]
        line = nodes.paragraph(classes=["post-section"])
        line += nodes.Text("Treated in ")
        for place, name in enumerate(chapters_of(self.ledger, rows)):
            line += [nodes.Text(", ")] if place else []
            line += self.chapter(name)
        line += nodes.Text(f". {len(rows)} claim{'s' if len(rows) > 1 else ''}: ")
        tally = Counter(row.verdict for row in rows)
        for verdict in KINDS["claims"]:
            if tally[verdict]:
                line += [
                    nodes.Text(f"{tally[verdict]} "),
                    badge(verdict),
                    nodes.Text(" "),
                ]
        query = urlencode({"source": source, "section": section})
        line += [nodes.Text("("), self.view(rows[0], query), nodes.Text(").")]
        if asked := self.asked(source, section):
            line += nodes.Text(" Of its open questions we answer ")
            for place, row in enumerate(asked):
                line += [nodes.Text(", ")] if place else []
                line += row_link(row)
                self.domain.cite(row.id)
            line += nodes.Text(".")
            for link in line.findall(addnodes.pending_xref):
                self.set_source_info(link)
        mended = [row for row in rows if row.verdict != "holds"]
        if not mended:
            return [line]
        items = nodes.bullet_list(classes=["claim-list"])
        for row in mended:
            self.domain.cite(row.id)
            items += self.item(row)
        return [line, claim_fold("", items, rows=mended)]

    def chapter(self, name: str) -> addnodes.pending_xref:
        """A link to a chapter by its title."""
        link = addnodes.pending_xref(
            "",
            nodes.inline("", name),
            refdomain="std",
            reftype="doc",
            reftarget=f"/{name}",
            refexplicit=False,
            refwarn=True,
            refdoc=self.env.docname,
        )
        self.set_source_info(link)
        return link

    def view(self, row: Claim, query: str) -> ledger_view:
        """A link to the rows of a section."""
        return ledger_view("", "see them in the ledger", claim=row.id, query=query)


class PostSectionDirective(_Sections):
    """One section of a source."""

    def run(self) -> list[nodes.Node]:
        """Return what stands below the heading of the section."""
        source, _, section = self.arguments[0].partition(": ")
        if section not in self.titles().get(source, []):
            logger.warning(
                "%r has no section %r", source, section, location=self.get_location()
            )
            return []
        target = nodes.target("", "", ids=[anchor(source, section)])
        return [target, *self.told(source, section)]


class PostSectionsDirective(_Sections):
    """All sections of a source."""

    def run(self) -> list[nodes.Node]:
        """Return a list with an item for each section that makes a claim."""
        source = self.arguments[0].strip()
        items = nodes.bullet_list(classes=["post-sections"])
        for section in self.titles().get(source, []):
            if not rows_of(self.ledger, source, section):
                continue
            name = nodes.strong("", "", *quoted(section))
            item = nodes.list_item("", nodes.paragraph("", "", name))
            item["ids"].append(anchor(source, section))
            item += self.told(source, section)
            items += item
        if not items.children:
            logger.warning("no section of %r", source, location=self.get_location())
        return [items]


# --- What the chapters say -----------------------------------------------------------


def sections_treated(ledger: Ledger, docname: str) -> Iterator[tuple[str, str]]:
    """The sections whose claims a document checks, in the order of the ledger."""
    seen = set()
    for row in ledger.claims:
        place = (row.source, row.section)
        if row.check and ledger.check_document(row) == docname and place not in seen:
            seen.add(place)
            yield place


def name_sections(app: Sphinx, doctree: nodes.document) -> None:
    """Give a chapter the line that names its sections of the sources."""
    ledger = get_ledger(app.env)
    treated = list(sections_treated(ledger, app.env.docname))
    pages = list(doctree.findall(nodes.section))
    if not treated or not pages:
        return
    line = nodes.paragraph(classes=["chapter-sections"])
    line += nodes.Text("This chapter treats these sections of the sources. ")
    for source, places in groupby(treated, key=itemgetter(0)):
        line += nodes.Text(f"{ledger.sources[source]['title'].partition(',')[0]}: ")
        for place, (_, section) in enumerate(places):
            line += [nodes.Text("; ")] if place else []
            line += chapter_sections("", source=source, section=section)
        line += nodes.Text(". ")
    closing = [page for page in pages if page[0].astext() == CLOSING]
    if closing:
        closing[-1].insert(1, line)
    else:
        pages[0] += line


def resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turn what stands for a link into the link, now that every page is read."""
    domain = app.env.get_domain("claim")
    pages = {
        tuple(place): page
        for page, places in domain.data["sections"].items()
        for place in places
    }
    for node in list(doctree.findall(chapter_sections)):
        source, section = node["source"], node["section"]
        page = pages.get((source, section))
        children = quoted(section)
        if page is None:
            node.replace_self(nodes.inline("", "", *children))
            continue
        uri = app.builder.get_relative_uri(docname, page)
        uri += "#" + anchor(source, section)
        link = nodes.reference("", "", *children, refuri=uri, internal=True)
        node.replace_self(link)
    for view in list(doctree.findall(ledger_view)):
        page = domain.row_document(view["claim"])  # type: ignore[attr-defined]
        if page is None:
            view.replace_self(nodes.Text(view.astext()))
            continue
        uri = app.builder.get_relative_uri(docname, page) + "?" + view["query"]
        if app.builder.format != "html":
            view.replace_self(nodes.Text(view.astext()))
            continue
        view.replace_self(nodes.reference("", view.astext(), refuri=uri, internal=True))
