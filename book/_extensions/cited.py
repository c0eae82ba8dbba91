"""How to cite the book and the package: ``{cite-this}`` renders ``CITATION.cff``.

Its authors, title, version, day and DOI stand there and nowhere else; the address is
that of the published pages, or of the repository (``_config.yml``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAME = "softtopk"


def author(given: dict[str, str]) -> str:
    """A person, or a group whose name stays whole.

    >>> author({"name": "The authors"})
    '{The authors}'
    >>> author({"given-names": "A", "family-names": "B"})
    'B, A'
    """
    if "name" in given:
        return f"{{{given['name']}}}"
    return f"{given['family-names']}, {given['given-names']}"


def bibtex(citation: dict[str, Any], url: str = "") -> str:
    """An entry for BibTeX, of what is known.

    >>> about = {"authors": [{"name": "A"}], "title": "T", "version": "1"}
    >>> print(bibtex(about | {"date-released": "2026-01-02", "doi": "10.1/a"}))
    @software{softtopk,
      author  = {{A}},
      title   = {{T}},
      version = {1},
      year    = {2026},
      doi     = {10.1/a},
    }
    """
    fields = {
        "author": " and ".join(map(author, citation["authors"])),
        "title": f"{{{citation['title']}}}",
        "version": citation["version"],
        "year": str(citation["date-released"])[:4],
        "doi": citation.get("doi", ""),
        "url": citation.get("url", "") or url,
    }
    lines = (f"  {name:7} = {{{text}}},\n" for name, text in fields.items() if text)
    return f"@software{{{NAME},\n{''.join(lines)}}}"


class CiteThis(SphinxDirective):
    """The entry as a block of code."""

    def run(self) -> list[nodes.Node]:
        """Return the block."""
        path = Path(self.env.srcdir, "CITATION.cff")
        self.env.note_dependency(str(path))
        citation = yaml.safe_load(path.read_text(encoding="utf8"))
        config = self.config
        text = bibtex(citation, config.publish_site or config.publish_repository)
        return [nodes.literal_block(text, text, language="bibtex")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_directive("cite-this", CiteThis)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
