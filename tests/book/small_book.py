"""Books of a page or two, for the tests of the extensions."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils


def checking_notebook(text: str, check: str, tags: tuple[str, ...]) -> str:
    """A notebook of some text and a cell that checks a claim."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell(text, id="a"),
            nbformat.v4.new_code_cell(check, metadata={"tags": list(tags)}, id="b"),
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
    )
    return nbformat.writes(notebook)


def run_sphinx(source: Path, out: Path, settings: dict[str, Any], **more: Any) -> str:
    """Build a book with the builder that `out` is called after; the warnings."""
    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=out,
            doctreedir=out.parent / "doctrees",
            buildername=out.name,
            status=None,
            warning=warnings,
            confoverrides=settings,
            **more,
        )
        app.build()
    return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
