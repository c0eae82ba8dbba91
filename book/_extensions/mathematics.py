"""The book's mathematics: served by the book itself, with its punctuation attached.

No page asks another host for MathJax. The PyPI package ``sphinx-mathjax-offline``
carries MathJax 3.2.2; its own Sphinx extension copies 24 MB, of which a page needs 2:
one script, the web fonts and the TeX extensions that MathJax loads on demand. (Their
licence stands in ``_static``.)

A browser may break a line after a formula, even before a full stop. What follows a
formula without a space, or stands before it, is kept on its line.

An inline formula states how much room it will take (see ``widths``). The page keeps it
free until MathJax has come, so that its lines need not break anew (see
``_templates/layout.html``).
"""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from zlib import crc32

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.fileutil import copy_asset
from widths import DROP, LONG, RISE, X_HEIGHT, room

NEEDED = (
    "tex-chtml.js",
    "input/tex/extensions",
    "output/chtml/fonts/woff-v2",
)


def _package_dir() -> Path:
    """Folder of the MathJax files inside the installed package."""
    package = distribution("sphinx-mathjax-offline")
    return Path(str(package.locate_file("sphinx-mathjax-offline/static/mathjax")))


def _set_path(app: Sphinx, config: Config) -> None:
    config.mathjax_path = "mathjax/tex-chtml.js"


def _copy_files(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "mathjax"
    for name in NEEDED:
        source = _package_dir() / name
        folder = target / name if source.is_dir() else target
        copy_asset(str(source), str(folder))


def _keep_together(app: Sphinx, doctree: nodes.document) -> None:
    """Wrap each inline formula with the brackets and points that touch it."""
    for formula in list(doctree.findall(nodes.math)):
        parent, place = formula.parent, formula.parent.index(formula)
        group = nodes.inline("", "", formula.deepcopy(), classes=["formula"])
        if place and isinstance(before := parent[place - 1], nodes.Text):
            rest, opening = re.fullmatch(r"(.*?)([(\[“‘]*)", before, re.DOTALL).groups()
            if opening:
                parent[place - 1] = nodes.Text(rest)
                group.insert(0, nodes.Text(opening))
        if len(parent) > place + 1 and isinstance(
            after := parent[place + 1], nodes.Text
        ):
            closing, rest = re.fullmatch(
                r"([.,;:!?)\]’”，。、；：）》-]*)(.*)", after, re.DOTALL
            ).groups()
            if closing:
                parent[place + 1] = nodes.Text(rest)
                group.append(nodes.Text(closing))
        if len(group) > 1:
            parent[place] = group


def _kept_free(tex: str) -> dict[str, str]:
    """The attribute that states the room of a formula, in ex of the text around it."""
    found = room(tex)
    if found is None or found.signs > LONG:
        return {}  # a long one breaks
    sizes = {"w": found.width}
    if found.above > RISE or found.below > DROP:
        sizes |= {"h": found.above + found.below, "d": found.below}
    told = (f"--{name}:{size / X_HEIGHT:.2f}" for name, size in sizes.items())
    return {"style": ";".join(told)}


def _visit_formula(self: Any, node: nodes.math) -> None:
    """As Sphinx does it, and with the room."""
    tex = node.astext()
    kept = _kept_free(tex)
    self.body.append(
        self.starttag(node, "span", "", CLASS="math notranslate nohighlight", **kept)
    )
    left, right = self.builder.config.mathjax_inline
    self.body.append(f"{left}{self.encode(tex)}{right}</span>")
    raise nodes.SkipNode


def _tell(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    math = app.env.get_domain("math")
    context["has_formulas"] = math.has_equations(pagename)  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.registry.html_inline_math_renderers["mathjax"] = (_visit_formula, None)
    app.connect("config-inited", _set_path)
    app.connect("build-finished", _copy_files)
    app.connect("html-page-context", _tell)
    app.connect("doctree-read", _keep_together)
    return {
        # An edit of this file makes Sphinx read every page again.
        "env_version": crc32(Path(__file__).read_bytes()),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
