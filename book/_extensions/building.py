"""How a build runs: in several processes, and whole in the end.

Sphinx can read and write pages in several processes, but ``jupyter-book build`` does
not ask for it. On Linux, this extension does; ``BOOK_JOBS`` gives their number. The
pages are those of one process.

A build that was stopped half-way leaves pages that were never written, or written in
part, and a search index without them, and the next build would take them for done. So
each build leaves a file when it ends, and where it is missing everything is read and
written again.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain
from sphinx.environment import BuildEnvironment
from sphinx_proof.domain import ProofDomain


def ended(app: Sphinx) -> Path:
    """The file that a build leaves when it ends, in what Sphinx keeps for the next."""
    return Path(app.doctreedir, f".ended-{app.builder.name}")


def jobs() -> int:
    """The number of processes: one for each core, and one that hands out the pages."""
    if given := os.environ.get("BOOK_JOBS"):
        return int(given)
    return len(os.sched_getaffinity(0)) + 1 if sys.platform == "linux" else 1


# Extensions that do not say whether they may read in several processes, and may: one
# changes each page for LaTeX by itself, one numbers the sections of all that were read.
SAFE = ("sphinx_jupyterbook_latex", "sphinx_multitoc_numbering")


class MergedProofs(ProofDomain):
    """The domain of theorems, with what Sphinx asks of it where several processes read.

    The theorems are not in the domain's data: an event of the extension merges them.
    """

    def merge_domaindata(self, docnames: Iterable[str], otherdata: dict) -> None:
        """Nothing is left to do."""


class KeptPages:
    """An environment that reads each page once, for those who only look at it."""

    def __init__(self, env: BuildEnvironment) -> None:
        self.env, self.pages = env, dict[str, nodes.document]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def get_doctree(self, docname: str) -> nodes.document:
        """The page, as the first call has read it."""
        if docname not in self.pages:
            self.pages[docname] = self.env.get_doctree(docname)
        return self.pages[docname]


class QuickNumbers(StandardDomain):
    """References by number. Sphinx reads the whole page that each of them leads to."""

    def _resolve_numref_xref(self, env: BuildEnvironment, *rest: Any) -> Any:
        if not hasattr(self, "kept"):
            self.kept = KeptPages(env)
        return super()._resolve_numref_xref(self.kept, *rest)  # type: ignore[arg-type]


def _declare(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    for name in SAFE:
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True


def _begin(app: Sphinx) -> None:
    app.was_stopped = not ended(app).exists()  # type: ignore[attr-defined]
    ended(app).unlink(missing_ok=True)


def _outdated(app: Sphinx, env: BuildEnvironment, *documents: Any) -> list[str]:
    """Every page, after a build that was stopped."""
    return sorted(env.found_docs) if app.was_stopped else []  # type: ignore[attr-defined]


def _end(app: Sphinx, exception: Exception | None) -> None:
    if exception is None:
        ended(app).touch()
    gc.freeze()  # or the interpreter would go through all pages once more as it ends
    for process in multiprocessing.active_children():
        process.terminate()  # after an error, nobody waits for what it has to say


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.parallel = max(app.parallel, jobs())
    app.setup_extension("sphinx_proof")
    app.add_domain(MergedProofs, override=True)
    app.add_domain(QuickNumbers, override=True)
    gc.set_threshold(100_000, 20, 100)  # pages are large, and few of them are garbage
    app.connect("builder-inited", _begin)
    app.connect("env-before-read-docs", _declare)
    app.connect("env-get-outdated", _outdated)
    app.connect("build-finished", _end, priority=900)  # after what else ends a build
    return {"parallel_read_safe": True, "parallel_write_safe": True}
