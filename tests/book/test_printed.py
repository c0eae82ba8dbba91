"""The printed edition's LaTeX: what stays, what goes and what leads where."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_book import notebook_of, printed, run_sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))

# Sphinx and its extensions use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("ignore")

LEDGER = """
sources:
  post: {title: A post, url: "https://example.org/post", covers: the text}
claims:
  - {id: A1, source: post, section: Part, statement: It is so., verdict: holds,
     check: chapter}
results: []
"""
INDEX = """# Book

```{toctree}
:caption: Part
intro
```

```{toctree}
:numbered:
chapter
reference
```
"""
INTRO = """# What this part is for

The verdicts that it counts:

```{claim-counts}
```
"""
REFERENCE = """# Reference

What this holds, and {py:func}`chapter.solve`.

## Verdicts

They are kept; so is {ref}`the exercise <ex-one>`.

## Claims

```{claim-ledger} claims
```

## Functions

```{py:function} chapter.solve(x)
It solves.
```

## Theorems

```{theorem-list}
```
"""
TEXT = """# Chapter

## Section

```{prf:theorem} Name
:label: thm-one

It is so.
```

```{prf:proof}
Obvious, see {prf:ref}`thm-one`.
```

```{prf:proof}
Both:

1. one,
2. two.
```

```{prf:proof}
From left to right

$$a=b$$
```

## What the sources say

```{claim} A1
```

## More

```{exercise}
:label: ex-one

Show it.
```

```{solution-start} ex-one
```

As above, by {py:func}`chapter.solve`.

```{solution-end}
```

<softtopk-figure>
<p>Needs JavaScript.</p>
</softtopk-figure>
"""


@pytest.fixture(scope="module")
def tex(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The LaTeX of the book."""
    folder = tmp_path_factory.mktemp("printed")
    check = 'with verify.claim("A1", "holds"):\n    assert total == k'
    notebook = notebook_of(
        TEXT,
        ("import secret", ("imports",), []),
        (check, ("claim-A1",), [printed("✓ A1 checked")]),
        ("# Ties are kept.\nassert hidden", ("check",), []),
        ("draw(hidden)", ("plot",), [printed("a picture")]),
        ("shown = 1\n\n\nsecond = 2\nsp.solve(shown)", (), [printed("the root")]),
    )
    (folder / "index.md").write_text(INDEX)
    (folder / "intro.md").write_text(INTRO)
    (folder / "chapter.ipynb").write_text(notebook)
    (folder / "reference.md").write_text(REFERENCE)
    (folder / "claims.yml").write_text(LEDGER)
    settings = {
        "extensions": [
            "myst_nb",
            "sphinx_proof",
            "sphinx_exercise",
            "sphinx_jupyterbook_latex",
            "claims",
            "folds",
            "printed",
            "publish",
            "theorems",
        ],
        "jblatex_captions_to_parts": True,
        "claims_file": "claims.yml",
        "publish_site": "https://example.org",
        "nitpicky": True,
        "nb_execution_mode": "off",
        "myst_enable_extensions": ["dollarmath"],
        "latex_documents": [("index", "book.tex", "Book", "Author", "manual")],
    }
    warnings = run_sphinx(folder, folder / "latex", settings)
    assert "WARNING" not in warnings
    return (folder / "latex" / "book.tex").read_text(encoding="utf8")


def environments(tex: str, name: str) -> list[str]:
    return re.findall(rf"\\begin\{{{name}\}}(.*?)\\end\{{{name}\}}", tex, re.S)


def test_a_part_is_one_and_its_first_page_has_no_number(tex: str) -> None:
    assert re.findall(r"\\part\{(.*?)\}", tex) == ["Part"]
    numbered, found = True, {}
    for depth, title in re.findall(r"secnumdepth\}\{(-?\d)\}|\\chapter\{(.*?)\}", tex):
        if title:
            found[title] = numbered
        else:
            numbered = depth != "-1"
    assert found == {
        "What this part is for": False,
        "Chapter": True,
        "Reference": True,
    }


def test_a_proof_is_a_passage_with_an_end(tex: str) -> None:
    plain, listed, display = environments(tex, "bookproof")
    assert re.search(r"\\sphinxstyleemphasis\{Proof\.\}\s+Obvious", plain)
    assert "sphinxadmonition" not in plain
    assert re.search(r"\.\\proofend\s*$", plain)
    assert re.search(r"two\.\\proofend\s*\\end\{enumerate\}", listed)
    assert re.search(r"\\end\{equation\*\}\s*\\displayend\s*$", display)


def test_every_link_has_its_label(tex: str) -> None:
    asked = set(re.findall(r"\\hyperref\[(?:\\detokenize\{)?([^]}]+)", tex))
    given = set(re.findall(r"\\label\{(?:\\detokenize\{)?([^}]+)", tex))
    assert {"chapter:ex-one", "chapter:thm-one"} <= asked
    assert asked <= given


def test_what_is_folded_is_left_out(tex: str) -> None:
    for word in ("secret", "total", "hidden", "draw(", "A1 checked", "Ties are kept."):
        assert word not in tex
    assert "a picture" in tex
    assert tex.count("leaves out the cells that import, draw and check") == 1


def test_a_cell_that_derives_stays(tex: str) -> None:
    code = re.sub(r"\\PYG\{[\w+]+\}|[{}]", "", tex)
    assert "shown = 1\n\nsecond = 2\nsp.solve(shown)\n" in code
    assert "the root" in tex


def test_what_is_looked_up_is_left_out(tex: str) -> None:
    for word in ("Post, Part", "It solves.", r"\section{Claims}", "claim-readers"):
        assert word not in tex
    assert "What this holds" in tex
    assert "They are kept;" in tex
    link = r"\sphinxurl{https://example.org/reference.html}"
    words = "These sections are in the web edition alone: Claims; Functions"
    assert f"{words}, at {link}." in tex


def test_a_link_to_what_is_left_out_leads_to_the_web_edition(tex: str) -> None:
    for name in ("A1", "chapter.solve"):
        address = rf"https://example.org/reference.html\#{name}"
        assert f"\\sphinxhref{{{address}}}" in tex


def test_the_list_of_theorems_names_pages(tex: str) -> None:
    (columns,) = re.findall(
        r"\\begin\{sphinxuseclass\}\{columns\}(.*?)\\end\{sphinxuseclass\}", tex, re.S
    )
    assert r"(Name)\dotfill\pageref*{\detokenize{chapter:thm-one}}" in columns


def test_a_link_to_a_theorem_leads_to_it(tex: str) -> None:
    assert re.search(r"\\phantomsection\s*\\label\{chapter:thm-one\}", tex)


def test_a_chapter_names_its_claims_in_a_line(tex: str) -> None:
    link = r"\\sphinxhref\{https://example.org/reference.html\\#A1\}"
    (line,) = re.findall(rf"\n\{{?{link}.*A1.*\.\n", tex)
    assert "holds" in line


def test_the_contents_leave_out_what_ends_each_chapter(tex: str) -> None:
    depths = re.findall(r"\\setcounter\{tocdepth\}\{(\d)\}|\\section\{(.*?)\}", tex)
    closing = [("0", ""), ("", "What the sources say"), ("1", "")]
    assert depths[:5] == [("", "Section"), *closing, ("", "More")]


def test_a_solution_is_in_no_box(tex: str) -> None:
    (solution,) = environments(tex, "booksolution")
    assert re.match(r"\s*\{Solution to", solution)
    assert "As above," in solution
    assert "sphinxadmonition" not in solution


def test_a_figure_that_moves_has_its_address(tex: str) -> None:
    link = r"\sphinxurl{https://example.org/chapter.html}"
    assert f"This figure moves in the web edition, at {link}" in tex


def test_the_style_defines_what_is_written(tex: str) -> None:
    style = (ROOT / "book" / "_latex" / "softtopk.sty").read_text(encoding="utf8")
    for name in ("bookproof", "booksolution"):
        assert f"\\begin{{{name}}}" in tex
        assert f"\\newenvironment{{{name}}}" in style
    assert r"\newenvironment{sphinxclasscolumns}" in style
    for name in ("keeplines", "proofend", "displayend"):
        assert f"\\{name}" in tex
        assert f"\\newcommand{{\\{name}}}" in style


def test_the_numbers_are_those_of_the_pages(tex: str) -> None:
    assert "{Theorem 1.1 (Name)}" in tex
    assert "numfigreset=1" in tex  # LaTeX's own: figures and equations by chapter


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for tool in ("bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or "")
    run = subprocess.run(
        [tmp_path / "bash", ROOT / "tools" / "pdf.sh"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "latexmk xelatex" in run.stderr
    assert "apt-get install latexmk texlive-xetex" in run.stderr
