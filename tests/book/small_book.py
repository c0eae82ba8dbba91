"""Books of a page or two, for the tests of the extensions."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import nbformat
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils


def notebook_of(*cells: str | tuple[str, tuple[str, ...], list[Any]]) -> str:
    """A notebook of texts and of cells of code: source, tags, outputs."""
    made = [
        nbformat.v4.new_markdown_cell(cell, id=f"c{place}")
        if isinstance(cell, str)
        else nbformat.v4.new_code_cell(
            cell[0],
            metadata={"tags": list(cell[1])} if cell[1] else {},
            outputs=[nbformat.from_dict(output) for output in cell[2]],
            id=f"c{place}",
        )
        for place, cell in enumerate(cells)
    ]
    about = {
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
    }
    return nbformat.writes(nbformat.v4.new_notebook(cells=made, metadata=about))


def checking_notebook(text: str, check: str, tags: tuple[str, ...]) -> str:
    """A notebook of some text and a cell that checks a claim."""
    return notebook_of(text, (check, tags, []))


def printed(text: str) -> dict[str, Any]:
    """What a cell prints."""
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(kind: str, content: str) -> dict[str, Any]:
    """What a cell shows, of a MIME type."""
    data = {kind: content, "text/plain": "shown"}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def run_sphinx(source: Path, out: Path, settings: dict[str, Any], **more: Any) -> str:
    """Build a book with the builder that `out` is called after; the warnings."""
    warnings = io.StringIO()
    # Sphinx's own default is one dictionary, which the parsers of all books change.
    settings = {"source_suffix": {".rst": "restructuredtext"}} | settings
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
