"""Where each claim has its row, who cites it, and which cell checks it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.domains import Domain, ObjType
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from .ledger import Ledger, read_ledger


def get_ledger(env: BuildEnvironment) -> Ledger:
    """Return the ledger of this build."""
    return env.app.claim_ledger  # type: ignore[attr-defined, no-any-return]


def load(app: Sphinx) -> None:
    path = Path(app.srcdir) / app.config.claims_file
    folder = Path(app.config.claims_file).parent.as_posix()
    app.claim_ledger = read_ledger(  # type: ignore[attr-defined]
        path, "" if folder == "." else folder
    )


class ClaimDomain(Domain):
    """Knows where each claim has its row, who cites it and which cell checks it."""

    name = "claim"
    label = "Claim"
    object_types = {"row": ObjType("claim", "row")}  # noqa: RUF012
    initial_data = {  # noqa: RUF012
        "rows": {},
        "cited": {},
        "checks": {},
        "sections": {},
        "seen": None,
    }
    data_version = 2
    dangling_warnings = {  # noqa: RUF012
        "row": "no page holds the row of claim %(target)s",
        "check": "the notebook named as check of claim %(target)s does not check it",
    }

    def get_type_name(self, kind: ObjType, primary: bool = False) -> str:
        """What the search calls a result: a claim, not a "Claim claim"."""
        return kind.lname

    def clear_doc(self, docname: str) -> None:
        """Forget what a document said."""
        for table in ("rows", "cited", "checks", "sections"):
            self.data[table].pop(docname, None)

    def merge_domaindata(self, docnames: Iterable[str], otherdata: dict) -> None:
        """Take over what another process read."""
        for table in ("rows", "cited", "checks", "sections"):
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
    ) -> nodes.Element | None:
        """Turn a pending reference into a link, or None when there is no target."""
        if typ == "filter":
            if builder.format != "html":
                return contnode  # paper cannot filter: the number stands without a link
            if not any(self.data["rows"].values()):
                return None
            docname = next(name for name, ids in self.data["rows"].items() if ids)
            address = builder.get_relative_uri(fromdocname, docname)
            return nodes.reference("", "", contnode, refuri=f"{address}?{target}")
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
