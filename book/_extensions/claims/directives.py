"""The roles and directives, and the nodes that they leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from .domain import ClaimDomain, get_ledger
from .inventory import faults, read_inventory
from .ledger import KINDS, STATES, Claim, Ledger, defects
from .text import (
    badge,
    filtered,
    formal_badge,
    quoted,
    row_link,
    source_link,
    statement_nodes,
    typeset,
    xref,
)

logger = logging.getLogger(__name__)


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
        return [claim_fold("", items, rows=rows)] if rows else []

    def item(self, row: Claim) -> nodes.list_item:
        """One claim."""
        head = nodes.paragraph(classes=["claim-head"])
        head += row_link(row)
        if row.check:
            head += [nodes.Text(" "), xref("check", row)]
        if row.formal:
            head += [nodes.Text(" "), formal_badge()]
        for link in head.findall(addnodes.pending_xref):
            self.set_source_info(link)
        item = nodes.list_item("", head, classes=[f"claim-item-{row.verdict}"])
        item += statement_nodes(self.ledger, row, origin=False)
        return item


class claim_fold(nodes.General, nodes.Element):  # noqa: N801
    """A list of claims, folded behind their ids and verdicts."""


class ledger_table(nodes.General, nodes.Element):  # noqa: N801
    """A table of claims."""


class ledger_row(nodes.Part, nodes.Element):  # noqa: N801
    """A row of that table."""


class ledger_cell(nodes.Part, nodes.Element):  # noqa: N801
    """A cell of that row."""


class claim_readers(nodes.Inline, nodes.Element):  # noqa: N801
    """Stands for the chapters that cite a claim until all are read."""


class formal_names(nodes.Inline, nodes.Element):  # noqa: N801
    """Stands for links to the statements that a machine has checked of a claim."""


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
            "data-proof": row.proof,
        }
        if "url" in self.ledger.sources[row.source]:
            data["data-section"] = row.section
        line = ledger_row("", ids=[row.id], data=data)
        here = nodes.reference("", row.id, refid=row.id, classes=["claim-id"])
        statement = statement_nodes(self.ledger, row, origin=True)
        check = nodes.paragraph()
        check += xref("check", row) if row.check else nodes.Text("unchecked")
        readers = claim_readers("", claim=row.id)
        head = nodes.paragraph("", "", here, nodes.Text(" "), badge(row.verdict))
        line += ledger_cell("", head, role="rowheader")
        line += ledger_cell("", *statement, role="cell")
        cell = ledger_cell("", check, readers, role="cell")
        if row.formal:
            cell += formal_names("", names=row.formal_names)
        line += cell
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
        head: list[nodes.Node] = [nodes.Text("Source")]
        head += [badge(verdict) for verdict in verdicts]
        head += [nodes.Text("all"), nodes.Text("checked")]
        lines = []
        for key, source in ledger.sources.items():
            rows = [row for row in ledger.claims if row.source == key]
            if rows:
                lines.append(_counts(source["title"], rows, source=key))
        lines.append(_counts("All sources", ledger.claims))
        return _count_table(head, lines)

    def line(self) -> nodes.paragraph:
        """Results by verdict."""
        tally = Counter(row.verdict for row in self.ledger.results)
        line = nodes.paragraph(classes=["claim-counts-results"])
        line += nodes.Text("Results of this book's own, beyond the sources: ")
        shown = [verdict for verdict in KINDS["results"] if tally[verdict]]
        for place, verdict in enumerate(shown):
            line += nodes.Text(f"{' and ' if place else ''}{tally[verdict]} ")
            line += badge(verdict)
        checked = sum(row.state == "checked" for row in self.ledger.results)
        told = (
            f"of which {checked} are"
            if checked < sum(tally.values())
            else "all of them"
        )
        line += nodes.Text(f", {told} checked by code.")
        return line


def _counts(title: str, rows: Iterable[Claim], **fixed: str) -> list[nodes.Node]:
    """A line of the table; each number of a verdict leads to the rows it counts."""
    rows = list(rows)
    tally = Counter(row.verdict for row in rows)
    cells: list[nodes.Node] = [nodes.Text(title)]
    for verdict in KINDS["claims"]:
        number = nodes.Text(str(tally[verdict]))
        shown = {**fixed, "verdict": verdict}
        cells.append(filtered(shown, number) if tally[verdict] else number)
    numbers = (len(rows), sum(row.state == "checked" for row in rows))
    return [*cells, *(nodes.Text(str(number)) for number in numbers)]


class DefectsDirective(_WithLedger, SphinxDirective):
    """The defects that several claims share, each with its verdict and its claims."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        table = nodes.table(classes=["claim-defects"])
        group = nodes.tgroup(cols=3)
        table += group
        group += [nodes.colspec(colwidth=width) for width in (5, 2, 5)]
        heads = [nodes.Text(name) for name in ("Defect", "Verdict", "Claims")]
        group += nodes.thead("", _count_row(list(heads)))
        body = nodes.tbody()
        group += body
        for name, rows in defects(self.ledger.claims).items():
            names = nodes.paragraph()
            for place, row in enumerate(rows):
                names += [nodes.Text(", ")] if place else []
                link = nodes.inline(row.id, row.id, classes=["claim-id"])
                names += xref("row", row, link)
            for found in names.findall(addnodes.pending_xref):
                self.set_source_info(found)
            body += nodes.row(
                "",
                nodes.entry("", nodes.paragraph("", "", *typeset(name, self.ledger))),
                nodes.entry("", nodes.paragraph("", "", badge(rows[0].verdict))),
                nodes.entry("", names),
            )
        return [table]


class InventoryDirective(_WithLedger, SphinxDirective):
    """How many paragraphs each source has, and how many of them have claims."""

    def run(self) -> list[nodes.Node]:
        """Return the table; what does not agree with the ledger is a warning."""
        path = Path(self.env.srcdir, self.env.config.claims_file)
        path = path.with_name("inventory.yml")
        self.env.note_dependency(str(path))
        inventory = read_inventory(path)
        for fault in faults(inventory, self.ledger):
            logger.warning("inventory: %s", fault, location=self.get_location())
        heads = ("Source", "paragraphs", "with claims", *inventory.reasons)
        tallies = {key: Counter[str]() for key in self.ledger.sources}
        for at in inventory.paragraphs:
            tallies[at.source][at.none] += 1
        named = [(self.ledger.sources[key]["title"], t) for key, t in tallies.items()]
        named.append(("All sources", sum(tallies.values(), Counter())))
        lines = [
            [title, tally.total(), tally[""], *(tally[r] for r in inventory.reasons)]
            for title, tally in named
            if tally
        ]
        text = [[nodes.Text(str(cell)) for cell in line] for line in lines]
        return [_count_table([nodes.Text(head) for head in heads], text)]


def _count_table(
    head: list[nodes.Node], lines: Iterable[list[nodes.Node]]
) -> nodes.table:
    table = nodes.table(classes=["claim-counts"])
    group = nodes.tgroup(cols=len(head))
    table += group
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _count_row(head))
    group += nodes.tbody("", *(_count_row(line) for line in lines))
    return table


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
