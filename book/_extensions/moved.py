"""Addresses that have been given out stay: ``book/addresses.txt`` lists them.

A page that is moved keeps its line, with an arrow to where it went, and its old address
leads there. Without JavaScript it leads to the top of the page.
"""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ConfigError


def addresses(text: str) -> dict[str, str]:
    """The pages that a file lists, each with where it went.

    >>> addresses("# A comment.\\na/b\\na/c -> b/c\\n")
    {'a/b': '', 'a/c': 'b/c'}
    """
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    parts = (line.partition(" -> ") for line in lines)
    return {page: target for page, _, target in parts}


def page(old: str, new: str) -> str:
    """The page at an old address."""
    there = escape(f"{os.path.relpath(new, os.path.dirname(old) or '.')}.html")
    return f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="robots" content="noindex" />
    <title>This page has moved</title>
    <script>location.replace("{there}" + location.search + location.hash)</script>
    <meta http-equiv="refresh" content="0; url={there}" />
  </head>
  <body>
    <p>This page has moved <a href="{there}">here</a>.</p>
  </body>
</html>
"""


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    listed = Path(app.srcdir, app.config.addresses_file).read_text(encoding="utf8")
    for old, new in addresses(listed).items():
        if new:
            if new not in app.env.found_docs or old in app.env.found_docs:
                raise ConfigError(f"{app.config.addresses_file}: {old} -> {new}")
            target = Path(app.outdir, f"{old}.html")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page(old, new), encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.add_config_value("addresses_file", "book/addresses.txt", "html", str)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
