"""The claims of the sources: one file of facts, rendered wherever the book cites one.

``book/claims.yml`` holds every claim once: its wording, its verdict, and the notebook
that checks it. This extension renders from there:

``{claim}`` directive
    A list of claims, each with its statement, verdict and the way to its check::

        ```{claim} A43 A44 A45
        ```

``{claim}`` role
    A link to the row of one claim: ``{claim}`A45` ``.

``{claim-ledger}`` directive
    The table of all ``claims`` or all ``results``.

``{claim-sources}`` directive
    The list of the sources.

``{claim-counts}`` directive and role
    How many claims there are, by source and verdict; one number in running text.

A code cell tagged ``claim-A45`` becomes the target ``check-A45``. Its call
``verify.claim("A45", "holds")`` must name the verdict that the file holds. An unknown
claim, a wrong verdict or a check that does not exist is a warning, so a build with
``-W`` fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.domains import Domain, ObjType
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)

KINDS = {
    "claims": ("holds", "conditional", "imprecise", "refuted"),
    "results": ("proved", "numeric"),
}
STATES = ("checked", "unchecked")
FEW = 3  # claims that a page lists without a fold
TAG = re.compile(r"claim-(\S+)")
CALL = re.compile(r"""verify\.claim\(\s*["'](\S+?)["']\s*,\s*["'](\w+)["']""")


# --- The facts -----------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One row of the ledger."""

    id: str
    source: str
    section: str
    statement: str
    verdict: str
    note: str = ""
    check: str = ""

    @property
    def state(self) -> str:
        """``checked`` when a notebook cell checks the claim."""
        return "checked" if self.check else "unchecked"

    @property
    def plain(self) -> str:
        """The statement for places that hold no mathematics."""
        return re.sub(r"[$`]", "", self.statement)


@dataclass(frozen=True)
class Ledger:
    """The content of ``claims.yml``."""

    folder: str = ""
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    results: tuple[Claim, ...] = ()

    def __iter__(self) -> Iterator[Claim]:
        yield from self.claims
        yield from self.results

    @cached_property
    def by_id(self) -> dict[str, Claim]:
        """Every claim and result under its id."""
        return {row.id: row for row in self}

    @cached_property
    def names(self) -> re.Pattern[str]:
        """Finds the ids that a text names."""
        ids = "|".join(map(re.escape, sorted(self.by_id, key=len, reverse=True)))
        return re.compile(rf"(?<![\w-])({ids})(?![\w-])")

    def check_document(self, row: Claim) -> str:
        """Document name of the notebook that checks a claim."""
        return f"{self.folder}/{row.check}" if self.folder else row.check


def read_ledger(path: Path, folder: str = "") -> Ledger:
    """Read ``claims.yml``; ``ValueError`` names the row that breaks its format."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows: dict[str, tuple[Claim, ...]] = {}
    seen: set[str] = set()
    for kind, verdicts in KINDS.items():
        items = []
        for item in data[kind]:
            try:
                row = Claim(**{key: str(value) for key, value in item.items()})
            except TypeError as error:
                raise ValueError(f"{kind}, {item.get('id')}: {error}") from error
            if row.verdict not in verdicts:
                raise ValueError(f"{row.id}: verdict {row.verdict!r} not in {verdicts}")
            if row.source not in data["sources"]:
                raise ValueError(f"{row.id}: unknown source {row.source!r}")
            if row.id in seen:
                raise ValueError(f"{row.id}: stands twice")
            seen.add(row.id)
            items.append(row)
        rows[kind] = tuple(items)
    return Ledger(folder=folder, sources=data["sources"], **rows)


def get_ledger(env: BuildEnvironment) -> Ledger:
    """Return the ledger of this build."""
    return env.app.claim_ledger  # type: ignore[attr-defined, no-any-return]


def _load(app: Sphinx) -> None:
    path = Path(app.srcdir) / app.config.claims_file
    folder = Path(app.config.claims_file).parent.as_posix()
    app.claim_ledger = read_ledger(  # type: ignore[attr-defined]
        path, "" if folder == "." else folder
    )


# --- Cross-references ----------------------------------------------------------------


class ClaimDomain(Domain):
    """Knows where each claim has its row, who cites it and which cell checks it."""

    name = "claim"
    label = "Claim"
    object_types = {"row": ObjType("claim", "row")}  # noqa: RUF012
    initial_data = {"rows": {}, "cited": {}, "checks": {}, "seen": None}  # noqa: RUF012
    data_version = 1
    dangling_warnings = {  # noqa: RUF012
        "row": "no page holds the row of claim %(target)s",
        "check": "the notebook named as check of claim %(target)s does not check it",
    }

    def get_type_name(self, kind: ObjType, primary: bool = False) -> str:
        """What the search calls a result: a claim, not a "Claim claim"."""
        return kind.lname

    def clear_doc(self, docname: str) -> None:
        """Forget what a document said."""
        for table in ("rows", "cited", "checks"):
            self.data[table].pop(docname, None)

    def merge_domaindata(self, docnames: Iterable[str], otherdata: dict) -> None:
        """Take over what another process read."""
        for table in ("rows", "cited", "checks"):
            for docname in docnames:
                if docname in otherdata[table]:
                    self.data[table][docname] = otherdata[table][docname]

    def cite(self, claim_id: str) -> None:
        """Note that the current document cites a claim."""
        cited = self.data["cited"].setdefault(self.env.docname, [])
        if claim_id not in cited:
            cited.append(claim_id)

    def citing(self, claim_id: str) -> list[str]:
        """Documents that cite a claim, in reading order."""
        docs = {doc for doc, ids in self.data["cited"].items() if claim_id in ids}
        return [doc for doc in reading_order(self.env) if doc in docs]

    def row_document(self, claim_id: str) -> str | None:
        """Document that holds the row of a claim."""
        for docname, ids in sorted(self.data["rows"].items()):
            if claim_id in ids:
                return docname
        return None

    def resolve_xref(
        self,
        env: BuildEnvironment,
        fromdocname: str,
        builder: Builder,
        typ: str,
        target: str,
        node: addnodes.pending_xref,
        contnode: nodes.Element,
    ) -> nodes.reference | None:
        """Turn a pending reference into a link, or None when there is no target."""
        row = get_ledger(env).by_id.get(target)
        if row is None:
            return None
        if typ == "row":
            docname = self.row_document(target)
            if docname is None:
                return None
            title = f"{row.id} {row.verdict}: {row.plain}"
            return make_refnode(
                builder, fromdocname, docname, target, contnode, title=title
            )
        docname = get_ledger(env).check_document(row)
        anchor = self.data["checks"].get(docname, {}).get(target)
        if anchor is None:
            return None
        if builder.format == "latex":  # one document: a page says where
            label = f"\\pageref*{{\\detokenize{{{docname}:{anchor}}}}}"
            link = nodes.inline("", "check on page\u00a0")
            link += nodes.raw(label, label, format="latex")
        else:
            text = "check on this page"
            if docname != fromdocname:
                text = f"check in “{env.titles[docname].astext()}”"
            link = nodes.inline(text, text)
        return make_refnode(builder, fromdocname, docname, anchor, link)

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """Yield the claims for the search index and the inventory."""
        for docname, ids in sorted(self.data["rows"].items()):
            for claim_id in ids:
                yield claim_id, claim_id, "row", docname, claim_id, 1


def reading_order(env: BuildEnvironment) -> list[str]:
    """Document names in the order of the table of contents."""
    order: list[str] = []

    def walk(docname: str) -> None:
        if docname not in order:
            order.append(docname)
            for child in env.toctree_includes.get(docname, []):
                walk(child)

    walk(env.config.root_doc)
    return order + sorted(env.found_docs - set(order))


def _xref(typ: str, row: Claim, *children: nodes.Node) -> addnodes.pending_xref:
    xref = addnodes.pending_xref(
        "",
        refdomain="claim",
        reftype=typ,
        reftarget=row.id,
        refexplicit=True,
        refwarn=True,
    )
    xref += nodes.inline("", "", *children, classes=[f"claim-{typ}-link"])
    return xref


# --- Pieces of text ------------------------------------------------------------------


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
                    parts.append(_xref("row", ledger.by_id[words], name))
                elif words:
                    parts.append(nodes.Text(words))
    return parts


def badge(verdict: str) -> nodes.inline:
    """The verdict as a word; the style sheet adds its sign and colour."""
    return nodes.inline(
        verdict, verdict, classes=["claim-badge", f"claim-badge-{verdict}"]
    )


def row_link(row: Claim) -> addnodes.pending_xref:
    """A link to the row of a claim: its id and its verdict."""
    name = nodes.inline(row.id, row.id, classes=["claim-id"])
    return _xref("row", row, name, nodes.Text(" "), badge(row.verdict))


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
    if origin and "url" in source:
        place = [nodes.Text(", "), *quoted(row.section)] if row.section else []
        parts.append(paragraph("source", source_link(source), *place))
    return parts


# --- Role and directives -------------------------------------------------------------


class _WithLedger:
    """What the role and the directives share."""

    env: BuildEnvironment

    @property
    def ledger(self) -> Ledger:
        """The ledger; the current document is rebuilt when its file changes."""
        self.env.note_dependency(self.env.config.claims_file)
        return get_ledger(self.env)

    @property
    def domain(self) -> ClaimDomain:
        """The domain of this build."""
        return self.env.get_domain("claim")  # type: ignore[return-value]


class ClaimRole(_WithLedger, SphinxRole):
    """A link to one claim."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the link, or a warning for an unknown id."""
        row = self.ledger.by_id.get(self.text.strip())
        if row is None:
            logger.warning("unknown claim %r", self.text, location=self.get_location())
            return [nodes.literal(self.text, self.text)], []
        self.domain.cite(row.id)
        link = row_link(row)
        self.set_source_info(link)
        return [link], []


class ClaimDirective(_WithLedger, SphinxDirective):
    """A list of claims with statement, verdict and check."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the list; unknown ids are warnings."""
        items = nodes.bullet_list(classes=["claim-list"])
        rows = []
        for claim_id in self.arguments[0].split():
            row = self.ledger.by_id.get(claim_id)
            if row is None:
                logger.warning(
                    "unknown claim %r", claim_id, location=self.get_location()
                )
                continue
            self.domain.cite(row.id)
            rows.append(row)
            items += self.item(row)
        if len(items) <= FEW:
            return [items]
        return [claim_fold("", items, rows=rows)]

    def item(self, row: Claim) -> nodes.list_item:
        """One claim."""
        head = nodes.paragraph(classes=["claim-head"])
        head += row_link(row)
        if row.check:
            head += [nodes.Text(" "), _xref("check", row)]
        for link in head.findall(addnodes.pending_xref):
            self.set_source_info(link)
        item = nodes.list_item("", head, classes=[f"claim-item-{row.verdict}"])
        item += statement_nodes(self.ledger, row, origin=False)
        return item


class claim_fold(nodes.General, nodes.Element):  # noqa: N801
    """A long list of claims, folded behind their ids and verdicts."""


class ledger_table(nodes.General, nodes.Element):  # noqa: N801
    """A table of claims."""


class ledger_row(nodes.Part, nodes.Element):  # noqa: N801
    """A row of that table."""


class ledger_cell(nodes.Part, nodes.Element):  # noqa: N801
    """A cell of that row."""


class claim_readers(nodes.Inline, nodes.Element):  # noqa: N801
    """Stands for the chapters that cite a claim until all are read."""


class LedgerDirective(_WithLedger, SphinxDirective):
    """The table of all claims or of all results."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        kind = directives.choice(self.arguments[0], tuple(KINDS))
        rows = getattr(self.ledger, kind)
        self.domain.data["rows"].setdefault(self.env.docname, []).extend(
            row.id for row in rows
        )
        table = ledger_table("", label=f"All {kind}")
        table += [self.row(row) for row in rows]
        for link in table.findall(addnodes.pending_xref):
            self.set_source_info(link)
        return [table]

    def row(self, row: Claim) -> ledger_row:
        """One claim as a row."""
        data = {
            "data-source": row.source,
            "data-source-title": self.ledger.sources[row.source]["title"],
            "data-verdict": row.verdict,
            "data-state": row.state,
        }
        line = ledger_row("", ids=[row.id], data=data)
        here = nodes.reference("", row.id, refid=row.id, classes=["claim-id"])
        statement = statement_nodes(self.ledger, row, origin=True)
        check = nodes.paragraph()
        check += _xref("check", row) if row.check else nodes.Text("unchecked")
        readers = claim_readers("", claim=row.id)
        head = nodes.paragraph("", "", here, nodes.Text(" "), badge(row.verdict))
        line += ledger_cell("", head, role="rowheader")
        line += ledger_cell("", *statement, role="cell")
        line += ledger_cell("", check, readers, role="cell")
        return line


class SourcesDirective(_WithLedger, SphinxDirective):
    """The list of the sources: title, author, date and what is taken from each."""

    def run(self) -> list[nodes.Node]:
        """Return the list; this book itself is not in it."""
        items = nodes.bullet_list(classes=["claim-sources"])
        for source in self.ledger.sources.values():
            if "url" not in source:
                continue
            line = nodes.paragraph("", "", source_link(source))
            for key in ("original", "author", "date"):
                if key in source:
                    line += [nodes.Text(", "), *quoted(str(source[key]))]
            line += nodes.Text(f": {source['covers']}.")
            items += nodes.list_item("", line)
        return [items]


class CountsDirective(_WithLedger, SphinxDirective):
    """How many claims and results there are, by source and verdict."""

    def run(self) -> list[nodes.Node]:
        """Return one table of the claims and one line on the results."""
        return [self.table(), self.line()]

    def table(self) -> nodes.table:
        """Claims by source and verdict."""
        ledger = self.ledger
        verdicts = KINDS["claims"]
        table = nodes.table(classes=["claim-counts"])
        group = nodes.tgroup(cols=len(verdicts) + 3)
        table += group
        group += [nodes.colspec(colwidth=1) for _ in range(len(verdicts) + 3)]
        head: list[nodes.Node] = [nodes.Text("Source")]
        head += [badge(verdict) for verdict in verdicts]
        head += [nodes.Text("all"), nodes.Text("checked")]
        group += nodes.thead("", _count_row(head))
        body = nodes.tbody()
        group += body
        for key, source in ledger.sources.items():
            rows = [row for row in ledger.claims if row.source == key]
            if rows:
                body += _count_row(_counts(source["title"], rows))
        body += _count_row(_counts("All sources", ledger.claims))
        return table

    def line(self) -> nodes.paragraph:
        """Results by verdict."""
        tally = Counter(row.verdict for row in self.ledger.results)
        line = nodes.paragraph(classes=["claim-counts-results"])
        line += nodes.Text(f"Beyond the sources: {len(self.ledger.results)} results, ")
        for place, verdict in enumerate(KINDS["results"]):
            line += nodes.Text(f"{', ' if place else ''}{tally[verdict]} ")
            line += badge(verdict)
        checked = sum(row.state == "checked" for row in self.ledger.results)
        line += nodes.Text(f", {checked} checked.")
        return line


def _counts(title: str, rows: Iterable[Claim]) -> list[nodes.Node]:
    rows = list(rows)
    tally = Counter(row.verdict for row in rows)
    numbers = [tally[verdict] for verdict in KINDS["claims"]]
    numbers += [len(rows), sum(row.state == "checked" for row in rows)]
    return [nodes.Text(title), *(nodes.Text(str(number)) for number in numbers)]


def _count_row(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", c)) for c in cells))


class CountRole(_WithLedger, SphinxRole):
    """One number: ``claims``, ``results``, a state or a verdict."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number, or a warning for an unknown name."""
        what, ledger = self.text.strip(), self.ledger
        if what in KINDS:
            number = len(getattr(ledger, what))
        elif what in STATES:
            number = sum(row.state == what for row in ledger)
        elif any(what in verdicts for verdicts in KINDS.values()):
            number = sum(row.verdict == what for row in ledger)
        else:
            logger.warning("cannot count %r", what, location=self.get_location())
            return [], []
        return [nodes.Text(str(number))], []


# --- Check cells ---------------------------------------------------------------------


def _mark_checks(app: Sphinx, doctree: nodes.document) -> None:
    """Give each tagged cell its anchor and a link back to the ledger."""
    env, ledger = app.env, get_ledger(app.env)
    checks: dict[str, str] = {}
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code":
            continue
        tags = cell["cell_metadata"].get("tags", [])
        ids = [match[1] for tag in tags if (match := TAG.fullmatch(tag))]
        called = dict(CALL.findall(cell.children[0].astext()))
        for claim_id in sorted(called.keys() - set(ids)):
            logger.warning(
                "cell checks claim %s but lacks the tag", claim_id, location=cell
            )
        rows = []
        for claim_id in ids:
            row = ledger.by_id.get(claim_id)
            if row is None:
                logger.warning("tag of unknown claim %r", claim_id, location=cell)
            elif called.get(claim_id) != row.verdict:
                logger.warning(
                    "claim %s has verdict %r; its cell says %r",
                    claim_id,
                    row.verdict,
                    called.get(claim_id),
                    location=cell,
                )
            else:
                rows.append(row)
        for row in rows:
            if row.id not in checks:
                checks[row.id] = f"check-{row.id}"
                cell["ids"].append(checks[row.id])
        if rows:
            # A sibling, not a child: MyST-NB counts the children of a hidden cell.
            note = nodes.paragraph(classes=["claim-check"])
            note += nodes.Text("Check of ")
            for place, row in enumerate(rows):
                note += [nodes.Text(", ")] if place else []
                note += row_link(row)
            cell.parent.insert(cell.parent.index(cell), note)
    if checks:
        env.get_domain("claim").data["checks"][env.docname] = checks
        env.note_dependency(app.config.claims_file)


def _rewrite_ledger(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Name the ledger pages for writing when a chapter changed what they show."""
    data = env.get_domain("claim").data
    titles = {doc: title.astext() for doc, title in env.titles.items()}
    seen = repr((data["cited"], data["checks"], titles))
    changed, data["seen"] = data["seen"] != seen, seen
    return sorted(data["rows"]) if changed else []


def _name_readers(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """List the chapters that cite each claim, beside the one that checks it."""
    ledger = get_ledger(app.env)
    for node in list(doctree.findall(claim_readers)):
        row = ledger.by_id[node["claim"]]
        line = nodes.paragraph(classes=["claim-readers"])
        for chapter in app.env.get_domain("claim").citing(row.id):
            if row.check and chapter == ledger.check_document(row):
                continue
            line += nodes.Text(", " if len(line) else "cited in ")
            title = app.env.titles[chapter].astext()
            line += make_refnode(
                app.builder, docname, chapter, "", nodes.Text(title), title
            )
        node.replace_self([line] if len(line) else [])


# --- Output --------------------------------------------------------------------------

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
    name = "results" if found else "claims"
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


def _visit_printed_row(self: Any, node: ledger_row) -> None:
    self.body.append("\n\\begin{claimrow}")


def _depart_printed_row(self: Any, node: ledger_row) -> None:
    self.body.append("\n\\end{claimrow}\n")


def _visit_printed_cell(self: Any, node: ledger_cell) -> None:
    place = node.parent.index(node)
    self.body.append(("\\claimhead{", "\\claimstatement ", "\\claimcheck ")[place])


def _depart_printed_cell(self: Any, node: ledger_cell) -> None:
    if node.parent.index(node) == 0:
        self.body.extend(self.hypertarget(name) for name in node.parent["ids"])
        self.body.append("}")


def _nothing(self: Any, node: nodes.Element) -> None:
    """Other formats show the paragraphs of a cell one after the other."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_config_value("claims_file", "book/claims.yml", "env")
    app.add_domain(ClaimDomain)
    app.add_role("claim", ClaimRole())
    app.add_role("claim-counts", CountRole())
    app.add_directive("claim", ClaimDirective)
    app.add_directive("claim-ledger", LedgerDirective)
    app.add_directive("claim-counts", CountsDirective)
    app.add_directive("claim-sources", SourcesDirective)
    plain = (_nothing, _nothing)
    for node, html, latex in (
        (claim_fold, (_visit_fold, _depart_fold), plain),
        (ledger_table, (_visit_table, _depart_table), plain),
        (
            ledger_row,
            (_visit_row, _depart_row),
            (_visit_printed_row, _depart_printed_row),
        ),
        (
            ledger_cell,
            (_visit_cell, _depart_cell),
            (_visit_printed_cell, _depart_printed_cell),
        ),
    ):
        app.add_node(node, html=html, latex=latex, text=plain)
    app.connect("builder-inited", _load)
    app.connect("doctree-read", _mark_checks)
    app.connect("env-updated", _rewrite_ledger)
    app.connect("doctree-resolved", _name_readers)
    return {
        # An edit of this file makes Sphinx read every page again.
        "env_version": crc32(Path(__file__).read_bytes()),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
