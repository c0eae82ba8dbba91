"""How a build runs: the same pages from several processes, and whole after a stop."""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import pytest
from small_book import checking_notebook, notebook_of, printed, run_sphinx
from sphinx.builders import Builder
from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))

# Sphinx and MyST-NB use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")

LEDGER = """
sources:
  post: {title: A post, url: "https://example.org/post", covers: the text}
claims:
  - {id: A1, source: post, section: Part, statement: It is., verdict: holds, check: p0}
results: []
"""
THEOREM = """# Page {n}

```{{prf:theorem}} Of page {n}
:label: thm-{n}
A statement.
```

```{{exercise}}
:label: task-{n}
A task.
```

```{{glossary}}
word {n}
  A word.
```

$$a = {n}$$ (eq-{n})

See {{prf:ref}}`thm-{to}`, {{eq}}`eq-{to}`, {{ref}}`task-{to}` and {{claim}}`A1`.
"""
PAGES = 8
SETTINGS = {
    "extensions": [
        *("myst_nb", "sphinx_proof", "sphinx_exercise", "building", "claims"),
        *("folds", "indexing", "mathematics", "theorems"),
    ],
    "claims_file": "claims.yml",
    "nb_execution_mode": "off",
    "exclude_patterns": ["_build", "jupyter_execute"],
    "myst_enable_extensions": ["dollarmath"],
}


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A book of more pages than Sphinx reads in one process."""
    source = tmp_path / "book"
    source.mkdir()
    (source / "claims.yml").write_text(LEDGER)
    names = "\n".join(f"p{n}" for n in range(PAGES))
    lists = "```{theorem-list}\n```\n\n```{claim-ledger} claims\n```\n"
    (source / "index.md").write_text(
        f"# Index\n\n```{{toctree}}\n:numbered:\n{names}\n```\n\n{lists}"
    )
    for n in range(PAGES):
        text = THEOREM.format(n=n, to=(n + 3) % PAGES)
        check = 'with verify.claim("A1", "holds"):\n    assert 1 + 1 == 2'
        notebook = (
            notebook_of(text, ("print(1)", (), [printed("1\n")]))
            if n
            else checking_notebook(text, check, ("claim-A1",))
        )
        (source / f"p{n}.ipynb").write_text(notebook)
    return source


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a build, but the record of what was built when."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".buildinfo"
    }


def built(book: Path, name: str) -> dict[str, bytes]:
    """A build in a folder of its own."""
    assert run_sphinx(book, book.parent / name / "html", SETTINGS) == ""
    return files(book.parent / name / "html")


def test_several_processes_write_the_pages_of_one(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    read = Builder._read_parallel

    def noted(self: Builder, docnames: list[str], nproc: int) -> None:
        used.append(nproc)
        read(self, docnames, nproc)

    monkeypatch.setattr(Builder, "_read_parallel", noted)
    monkeypatch.setenv("BOOK_JOBS", "1")
    one = built(book, "one")
    assert used == []
    monkeypatch.setenv("BOOK_JOBS", "3")
    several = built(book, "several")
    assert used == [3]
    assert one.keys() == several.keys()
    assert [name for name in one if one[name] != several[name]] == []
    assert b"Theorem 4" in one["p0.html"]


def test_a_build_that_was_stopped_is_made_whole(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOK_JOBS", "1")
    whole = built(book, "whole")
    out = book.parent / "stopped" / "html"

    class Stopped(BaseException):
        """As if the process had been killed."""

    written = []

    def write(self: Builder, docname: str, *rest: object) -> None:
        if len(written) == 3:
            (out / "p0.html").write_text("half a page")
            raise Stopped
        written.append(docname)

    with monkeypatch.context() as patch:
        patch.setattr(
            "sphinx.builders.html.StandaloneHTMLBuilder.write_doc_serialized", write
        )
        with pytest.raises(Stopped):
            run_sphinx(book, out, SETTINGS)
    assert files(out) != whole
    assert built(book, "stopped") == whole


def test_no_process_is_left_when_a_build_fails(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python would wait for them as it ends."""
    monkeypatch.setenv("BOOK_JOBS", "3")
    read = Builder.read_doc

    def slow(self: Builder, docname: str, **options: bool) -> None:
        if docname == "p7":  # of those that are read last
            time.sleep(60)
        read(self, docname, **options)

    def fail(*_: object) -> None:
        raise RuntimeError("what a page says cannot be merged")

    monkeypatch.setattr(Builder, "read_doc", slow)
    monkeypatch.setattr(BuildEnvironment, "merge_info_from", fail)
    with pytest.raises((RuntimeError, KeyError)):
        run_sphinx(book, book.parent / "bad" / "html", SETTINGS)
    for process in multiprocessing.active_children():
        process.join(10)
    assert multiprocessing.active_children() == []
