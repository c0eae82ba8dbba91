"""The Parts of the book as folds of the contents, so that the list stays short.

The theme draws the table of contents as captions, each followed by the lists of its
pages: one list for the page about the Part, which has no number, and one for its
chapters. Each caption becomes the line of a fold. The Part of the current page is open.
"""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx


def folded_parts(contents: BeautifulSoup) -> BeautifulSoup:
    """The contents with a fold for each Part.

    >>> lists = '<p class="caption"><span>A</span></p><ul><li>1</li></ul>'
    >>> print(folded_parts(BeautifulSoup(lists, "html.parser")))
    <details class="part"><summary class="caption"><span>A</span></summary>\
<ul><li>1</li></ul></details>
    """
    soup = BeautifulSoup(str(contents), "html.parser")
    part: Tag | None = None
    for node in list(soup.children):
        if not isinstance(node, Tag):
            continue
        if node.name == "p":
            part = soup.new_tag("details", attrs={"class": "part"})
            node.insert_before(part)
            node.name = "summary"
            part.append(node)
        elif part is not None:
            part.append(node)
            if node.select_one("li.current"):
                part["open"] = ""
    return soup


def _add(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    context["folded_parts"] = folded_parts


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("html-page-context", _add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
