"""The first mention of one of the package's functions on a page links to its entry.

Chapters name functions as code, such as ``soft_topk`` or ``stk.soft_topk``. A link for
each mention would be hundreds of stops for the keyboard, so only the first one becomes
a link, and none where the text already links the function.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from docutils import nodes
from sphinx.application import Sphinx

# No class: a post calls a function of its own GradTopK.
CALL = re.compile(r"(?:stk\.|softtopk\.)?([a-z_][\w.]*?)(?:\(.*\))?")
# Where the names are looked up, in this order.
MODULES = ("softtopk", "softtopk.torch")


def meant(text: str, objects: Collection[str]) -> str | None:
    """The full name of what a piece of code names, if the package describes it.

    >>> objects = {"softtopk.f", "softtopk.torch.g", "softtopk.losses.h"}
    >>> meant("stk.f(x, k=2)", objects), meant("g", objects), meant("losses.h", objects)
    ('softtopk.f', 'softtopk.torch.g', 'softtopk.losses.h')
    >>> meant("f + 1", objects), meant("x", objects)
    (None, None)
    """
    found = CALL.fullmatch(text)
    names = [f"{module}.{found[1]}" for module in MODULES] if found else []
    return next((name for name in names if name in objects), None)


def _is_prose(node: nodes.Node) -> bool:
    """Whether a node stands in text of ours, outside of links, titles and claims."""
    other = (nodes.reference, nodes.title, nodes.caption, nodes.term, nodes.field_list)
    parent = node.parent
    while parent is not None:
        classes = parent.get("classes", []) if isinstance(parent, nodes.Element) else []
        if isinstance(parent, other) or any(
            c.startswith(("claim", "fold")) for c in classes
        ):
            return False
        parent = parent.parent
    return True


def _link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    objects = app.env.domains["py"].objects
    linked = {
        node["reftitle"]
        for node in doctree.findall(nodes.reference)
        if "reftitle" in node
    }
    for code in list(doctree.findall(nodes.literal)):
        name = meant(code.astext(), objects)
        if name is None or name in linked or not _is_prose(code):
            continue
        entry = objects[name]
        if entry.docname == docname:
            continue
        linked.add(name)
        address = app.builder.get_relative_uri(docname, entry.docname)
        address = f"{address}#{entry.node_id}"
        link = nodes.reference("", "", internal=True, refuri=address, reftitle=name)
        code.replace_self(link)
        link += code


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
