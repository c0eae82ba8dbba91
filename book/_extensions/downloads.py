"""Notebooks to take away: what a page's download button gives.

The notebooks of the book are MyST Markdown and hold nothing that the book does not
need. A copy for readers, in ``_sources``, has plain Markdown in its place, a first cell
that installs what it needs, the files that it reads, the captions of its figures, and
its checks and plot code hidden, in JupyterLab and in Colab, where the page folds them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from claims.cells import announced, claimed, kind
from claims.domain import get_ledger
from install import requirement
from plain import whole
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinxcontrib.bibtex.domain import BibtexDomain
from standalone import code_of, files, first_cell, moved

CODE = ("py:func", "py:class", "py:meth", "py:mod", "code")


class Words:
    """The words that a page shows for its roles."""

    def __init__(self, app: Sphinx, docname: str) -> None:
        self.app, self.env, self.docname = app, app.env, docname
        self.numbers = numbers(app.env)

    def __call__(self, role: str, text: str) -> str:
        """The words of one role."""
        title, target = self.explicit(text)
        if role == "eq":
            return f"({self.numbers.get(text, text)})"
        if role in ("number", "ref", "prf:ref", "numref"):
            return title or self.numbers.get(target, "")
        if role == "doc":
            return self.page(title, target)
        if role == "claim":
            return self.claim(text)
        if role == "claims":
            return "\n".join(f"- {self.statement(name)}" for name in text.split())
        if role.startswith("cite"):
            return self.works(role, text)
        if role == "install":
            config = self.app.config
            what = requirement(
                config.publish_repository, *text.split(), ref=config.publish_ref
            )
            return f"```bash\npip install {what}\n```"
        if role in CODE:
            return f"`{title or target.removeprefix('~')}`"
        return title or target

    @staticmethod
    def explicit(text: str) -> tuple[str, str]:
        """Title and target of ``title <target>``; without a title, the target."""
        match = re.fullmatch(r"(.*?)\s*<(.*)>", text, re.DOTALL)
        return (match[1], match[2]) if match else ("", text)

    def link(self, words: str, address: str) -> str:
        """A link to a page of the published book, or the words alone."""
        site = self.app.config.publish_site
        return f"[{words}]({site}/{address})" if site else words

    def page(self, title: str, target: str) -> str:
        """The title of a page."""
        name, _ = self.env.relfn2path(target, self.docname)
        name = name.removesuffix(".rst")
        words = title or (
            self.env.titles[name].astext() if name in self.env.titles else target
        )
        return self.link(words if title else f"*{words}*", f"{name}.html")

    def claim(self, name: str) -> str:
        """A claim and its verdict."""
        row = get_ledger(self.env).by_id.get(name)
        if row is None:
            return name
        place = self.env.get_domain("claim").row_document(name)
        words = f"{row.id} ({row.verdict})"
        return self.link(words, f"{place}.html#{row.id}") if place else words

    def statement(self, name: str) -> str:
        """What a claim says."""
        row = get_ledger(self.env).by_id.get(name)
        if row is None:
            return name
        note = f" *{row.note}*" if row.note and "`" not in row.note else ""
        return f"**{self.claim(name)}** {row.statement}{note}"

    def works(self, role: str, text: str) -> str:
        """Authors and years."""
        domain = self.env.domains.get("cite")
        assert domain is None or isinstance(domain, BibtexDomain)
        found = []
        for key in text.replace(" ", "").split(","):
            entry = domain.bibdata.data.entries.get(key) if domain else None
            if entry is None:
                found.append((key, ""))
                continue
            names = [" ".join(person.last_names) for person in entry.persons["author"]]
            who = names[0] + (" et al." if len(names) > 2 else "")
            if len(names) == 2:
                who = " and ".join(names)
            found.append((who, entry.fields.get("year", "")))
        if role == "cite:t":
            return ", ".join(f"{who} [{year}]" for who, year in found)
        return "[" + "; ".join(f"{who}, {year}" for who, year in found) + "]"


def numbers(env: BuildEnvironment) -> dict[str, str]:
    """What the pages call each labelled equation, figure, theorem and exercise."""
    found: dict[str, str] = {}
    kinds = {
        block.label: block.kind.title()
        for blocks in getattr(env, "theorem_blocks", {}).values()
        for block in blocks
    }
    for counters in env.toc_fignumbers.values():
        for counter, labels in counters.items():
            for label, parts in labels.items():
                number = ".".join(map(str, parts))
                name = {"displaymath": "", "figure": "Fig. "}.get(
                    counter, f"{kinds.get(label, counter.title())} "
                )
                found[label.removeprefix("equation-")] = name + number
    return found


# --- The copy ------------------------------------------------------------------------


def for_readers(notebook: nbformat.NotebookNode, words: Words) -> nbformat.NotebookNode:
    """A copy of a notebook as a reader can use it anywhere."""
    code, config = code_of(notebook), words.app.config
    cells = [first_cell(code, config.publish_repository, config.publish_ref)]
    cells += files(code)
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = whole(cell.source, words)
            if not cell.source:
                cells.pop()
        elif cell.cell_type == "code":
            hide(cell)
            cell.source = moved(cell.source)
            if caption := captioned(cell, words):
                cells.append(caption)
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number:03d}"
    notebook.cells = cells
    return notebook


def hide(cell: nbformat.NotebookNode) -> None:
    """Hide the code that a page folds, under the same line."""
    what = kind(cell.metadata.get("tags", []))
    if what not in ("claim", "check", "plot", "helpers"):
        return
    title = {
        "claim": f"✓ {', '.join(claimed(cell.source))} checked",
        "check": f"✓ checked: {announced(cell.source)}",
        "plot": "Plot code",
        "helpers": "Helpers",
    }[what]
    cell.source = f"# @title {title}\n{cell.source}"
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"


def captioned(cell: nbformat.NotebookNode, words: Words) -> Any:
    """The caption of the figure that a cell shows, or None."""
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    if not figure.get("caption"):
        return None
    name = words("number", figure.get("name", ""))
    text = whole(figure["caption"], words)
    return nbformat.v4.new_markdown_cell(f"**{name}** {text}" if name else text)


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    for docname in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(docname))
        target = Path(app.outdir, "_sources", f"{docname}.ipynb")
        if source.suffix != ".ipynb" or not target.parent.is_dir():
            continue
        notebook = nbformat.read(source, as_version=4)
        made = for_readers(notebook, Words(app, docname))
        target.write_text(nbformat.writes(made) + "\n", encoding="utf8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
