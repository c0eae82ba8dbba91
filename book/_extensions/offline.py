"""Serve MathJax from the built pages, so that no page asks another host for it.

The PyPI package ``sphinx-mathjax-offline`` carries MathJax 3.2.2. Its own Sphinx
extension copies 24 MB; a page needs 2 MB of that: one script, the web fonts and the
TeX extensions that MathJax loads on demand. This extension copies those, and the
licence that stands beside this book's style sheet.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.fileutil import copy_asset

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


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.connect("config-inited", _set_path)
    app.connect("build-finished", _copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
