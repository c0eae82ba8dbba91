"""The index that the search uses, complete also after a build that read few pages.

Sphinx takes over from the last build what it knows of the pages that have not changed,
but for their index entries: the terms of the glossary, for one. They are read again.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.index_entries import split_index_msg


def entries(doctree: nodes.document) -> list[tuple[str, str, str]]:
    """The index entries of a page: the words, the place, and "main" or nothing."""
    found = {
        (words, target or "", main)
        for node in doctree.findall(addnodes.index)
        for kind, value, target, main, _ in node["entries"]
        for words in split_index_msg(kind, value)
    }
    return sorted(found)


def _complete(app: Sphinx) -> list[Any]:
    known = app.env._search_index_index_entries  # type: ignore[attr-defined]
    if getattr(app.builder, "indexer", None):
        for name in app.env.found_docs - known.keys():
            known[name] = entries(app.env.get_doctree(name))
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("html-collect-pages", _complete)  # the index is written after this
    return {"parallel_read_safe": True, "parallel_write_safe": True}
