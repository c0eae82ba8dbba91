"""Short names of pages in cross-references.

A title says what a page is about, for whoever looks for it in the contents: "Evidence:
properties, accuracy and temperatures of the operators". In the middle of a sentence the
part before the colon says which page is meant. A link with words of its own keeps them.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join
from sphinx.util.nodes import clean_astext

KINDS = ("Recipe", "About this Part")  # of pages; their name follows


def short(title: str) -> str:
    """The name of a page in a sentence.

    >>> short("Evidence: properties, accuracy and temperatures of the operators")
    'Evidence'
    >>> short("Recipe: annealing, with a record of gap/τ")
    'annealing'
    >>> short("Notation")
    'Notation'
    """
    name, _, rest = title.partition(": ")
    return rest.partition(", ")[0] if name in KINDS else name


class ShortNames(SphinxPostTransform):
    """Name pages briefly where the author has given a link no words."""

    default_priority = 5  # before the references are resolved

    def run(self, **kwargs: Any) -> None:
        """Give each such link of one page its words."""
        for link in self.document.findall(pending_xref):
            if link["reftype"] != "doc" or link["refexplicit"]:
                continue
            docname = docname_join(link["refdoc"], link["reftarget"])
            if docname not in self.env.titles:
                continue  # Sphinx warns
            name = short(clean_astext(self.env.titles[docname]))
            link["refexplicit"] = True
            link.children = []
            link += nodes.inline(name, name, classes=["doc"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_post_transform(ShortNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
