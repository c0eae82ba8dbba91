"""Cells that run in the page: see ``book/_live`` and ``tools/live.py``.

Where ``tools/live.py`` has prepared the interpreter, a page with code cells gets the
script that offers to run them, and the build gets the interpreter, with the package as
it is in the checkout. Nothing of that is loaded before a reader asks for it. Where
nothing has been prepared, a page stays as it is.

A notebook whose code imports a framework cannot run in a page: no framework runs there.
Its page says so.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from claims.checks import code_cells
from docutils import nodes
from IPython.lib import pretty
from sphinx.application import Sphinx
from sphinx.config import Config

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX", "dask": "Dask"}
SCRIPT, STYLE = "live.js", "live.css"  # in _static


def script(name: str, text: str, part: int = 0, parts: int = 1) -> str:
    """A piece of a file, in base64, as a script that hands it to the page."""
    return f'softtopkLive.take({json.dumps(name)}, {part}, {parts}, "{text}");\n'


def wheel(root: Path) -> bytes:
    """The package as it is in the checkout; the same bytes for the same files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((root / "softtopk").rglob("*.py")):
            archive.writestr(
                zipfile.ZipInfo(path.relative_to(root).as_posix()),
                path.read_bytes(),
                zipfile.ZIP_DEFLATED,
            )
    return data.getvalue()


def own_files(root: Path) -> dict[str, bytes]:
    """What the interpreter needs of the book's own, by its name there."""
    live = root / "book" / "_live"
    names = ("cells.py", "worker.js", "pyodide-lock.json")
    files = {name: (live / name).read_bytes() for name in names}
    files["peers.json"] = (root / "benchmarks" / "peers.json").read_bytes()
    files["pretty.py"] = Path(pretty.__file__).read_bytes()
    files["softtopk.whl"] = wheel(root)
    return files


def frameworks(code: str) -> list[str]:
    """The frameworks that a piece of code imports.

    >>> frameworks("import numpy as np\\nimport softtopk.torch as stk")
    ['PyTorch']
    >>> frameworks("from jax import numpy\\nimport torch.nn")
    ['JAX', 'PyTorch']
    """
    found = set()
    for node in ast.walk(ast.parse(code)):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        for module in modules:
            first = module.removeprefix("softtopk.").partition(".")[0]
            found |= {FRAMEWORKS[first]} if first in FRAMEWORKS else set()
    return sorted(found)


def prepared(app: Sphinx) -> Path | None:
    """The folder of what ``tools/live.py`` has made, if it is there."""
    folder = Path(app.srcdir, app.config.live_folder)
    return folder if folder.is_dir() else None


def _measure(app: Sphinx, config: Config) -> None:
    """What the first run loads, without the book's own files, which are small.

    It is a setting of Sphinx, which writes every page again when a setting changes, as
    this one does after the first ``make live``.
    """
    if folder := prepared(app):
        files = folder.glob("*.*.js")
        size = sum(path.stat().st_size for path in files) / 1e6
        config.live_megabytes = str(round(size))


def _place(app: Sphinx, error: Exception | None) -> None:
    target = Path(app.outdir, "_static", "live")
    shutil.rmtree(target, ignore_errors=True)
    folder = prepared(app)
    if error or folder is None or app.builder.format != "html":
        return
    shutil.copytree(folder, target)
    files = own_files(Path(app.srcdir))
    made = [
        script(name, base64.b64encode(data).decode()) for name, data in files.items()
    ]
    (target / "book.0.js").write_text("".join(made), encoding="utf8")
    # A worker that pages share has the address of a file.
    (target / "worker.js").write_bytes(files["worker.js"])
    sizes = {path.name: path.stat().st_size for path in sorted(target.glob("*.*.js"))}
    index = f"softtopkLive.index({json.dumps(sizes)});\n"
    (target / "index.js").write_text(index, encoding="utf8")


def _offer(
    app: Sphinx, pagename: str, template: str, context: Any, doctree: Any
) -> None:
    if doctree is None or prepared(app) is None or app.builder.format != "html":
        return
    if not any(code_cells(doctree)):
        return
    found = needs(doctree)
    app.add_css_file(STYLE)
    said = {
        "data-needs": " and ".join(found),
        "data-megabytes": app.config.live_megabytes,
    }
    app.add_js_file(SCRIPT, defer="defer", **said)


def needs(doctree: nodes.document) -> list[str]:
    """The frameworks that the code of a page imports."""
    texts = [cell.astext() for cell in code_cells(doctree)]
    return sorted({name for text in texts for name in _imports(text)})


def _imports(text: str) -> list[str]:
    try:
        return frameworks(text)
    except SyntaxError:  # an output, or code of another language
        return []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_config_value("live_folder", "_build/live/assets", "html", str)
    app.add_config_value("live_megabytes", "", "html", str)
    app.connect("config-inited", _measure)
    app.connect("html-page-context", _offer)
    app.connect("build-finished", _place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
