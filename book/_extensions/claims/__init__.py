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

``{claim-defects}`` directive
    The defects that several claims share. The ledger is refused if two claims with one
    defect have different verdicts.

``{claim-inventory}`` directive
    How many paragraphs each source has, from ``inventory.yml`` beside the claims, and
    how many of them are in claims. A claim that no paragraph names is a warning.

``{post-section}``, ``{post-sections}``
    Where the sections of a source are treated and what was mended: see ``sections``.

A code cell tagged ``claim-A45`` becomes the target ``check-A45``. Its call
``verify.claim("A45", "holds")`` must name the verdict that the file holds. An unknown
claim, a wrong verdict or a check that does not exist is a warning, so a build with
``-W`` fails.

``ledger`` and ``inventory`` read the files, ``cells`` a cell, and none needs Sphinx;
``domain`` knows what is where, ``text``, ``directives`` and ``output`` write it,
``checks`` compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

from sphinx.application import Sphinx

from .checks import mark_checks, name_readers, rewrite_ledger
from .directives import (
    ClaimDirective,
    ClaimRole,
    CountRole,
    CountsDirective,
    DefectsDirective,
    InventoryDirective,
    LedgerDirective,
    SourcesDirective,
)
from .domain import ClaimDomain, load
from .output import add_nodes
from .sections import (
    PostSectionDirective,
    PostSectionsDirective,
    name_sections,
    resolve,
)


def version(*files: Path) -> int:
    """A number for the state of an extension: an edit makes Sphinx read all again."""
    return crc32(b"".join(file.read_bytes() for file in sorted(files)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_config_value("claims_file", "book/claims.yml", "env")
    app.add_domain(ClaimDomain)
    app.add_role("claim", ClaimRole())
    app.add_role("claim-counts", CountRole())
    app.add_directive("claim", ClaimDirective)
    app.add_directive("claim-ledger", LedgerDirective)
    app.add_directive("claim-counts", CountsDirective)
    app.add_directive("claim-defects", DefectsDirective)
    app.add_directive("claim-inventory", InventoryDirective)
    app.add_directive("claim-sources", SourcesDirective)
    app.add_directive("post-section", PostSectionDirective)
    app.add_directive("post-sections", PostSectionsDirective)
    add_nodes(app)
    app.connect("builder-inited", load)
    app.connect("doctree-read", mark_checks)
    app.connect("doctree-read", name_sections)
    app.connect("env-updated", rewrite_ledger)
    app.connect("doctree-resolved", name_readers)
    app.connect("doctree-resolved", resolve)
    return {
        "env_version": version(*Path(__file__).parent.glob("*.py")),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
