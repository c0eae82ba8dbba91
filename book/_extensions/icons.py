"""The icons of the pages as a small font.

The theme's font holds 1400 icons in 156 KB, which a phone would load before it can set
a formula. ``book.css`` names the icons that the pages use (``unicode-range``), and this
extension cuts a font with these from the theme's. An icon that is not among them still
comes from the theme's font.
"""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

from fontTools import subset
from sphinx.application import Sphinx

FONT = "theme/pydata_sphinx_theme/static/vendor/fontawesome/webfonts/fa-solid-900.ttf"
STYLE = Path(__file__).parents[1] / "_static" / "book.css"


def named(style: str) -> list[int]:
    """The icons that a style sheet names.

    >>> named("@font-face { unicode-range: U+F002, U+F00D; }")
    [61442, 61453]
    """
    (ranges,) = re.findall(r"unicode-range:([^;]+);", style)
    return [int(code, 16) for code in re.findall(r"U\+([0-9A-F]+)", ranges)]


def cut(target: Path, icons: list[int]) -> None:
    """Write a font of these icons."""
    package = distribution("pydata-sphinx-theme")
    options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True)
    font = subset.load_font(
        str(package.locate_file(f"pydata_sphinx_theme/{FONT}")), options
    )
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=icons)
    chosen.subset(font)
    font["head"].modified = font["head"].created  # each build gives the same file
    subset.save_font(font, str(target), options)


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        icons = named(STYLE.read_text(encoding="utf8"))
        cut(Path(app.outdir) / "_static" / "icons.woff", icons)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
