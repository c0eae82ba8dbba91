"""The index that the search uses.

It is complete also after a build that read few pages. Sphinx takes over from the last
build what it knows of the pages that have not changed, but for their index entries: the
terms of the glossary, for one. They are read again.

It finds Chinese words. Chinese is written without spaces, and Sphinx takes all that
stands between two punctuation marks for one word. So each run of Chinese characters is
indexed with all of its parts of two to four characters.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes, search
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util.index_entries import split_index_msg

CHINESE = re.compile(r"[\u4e00-\u9fff]+")
LENGTHS = (2, 3, 4)  # of the parts of a run of Chinese characters


class SearchBook(SearchEnglish):
    """English words, and the parts of Chinese sentences."""

    def split(self, text: str) -> list[str]:
        """The words of a text.

        >>> SearchBook({}).split("k 是预算。")
        ['k', '是预算', '是预', '预算', '是预算']
        """
        words = super().split(text)
        return words + [
            run[start : start + length]
            for word in words
            for run in CHINESE.findall(word)
            for length in LENGTHS
            for start in range(len(run) - length + 1)
        ]


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
    search.languages["en"] = SearchBook
    app.connect("html-collect-pages", _complete)  # the index is written after this
    return {"parallel_read_safe": True, "parallel_write_safe": True}
