"""Notebooks to take away, and the line that installs the package."""

from __future__ import annotations

import doctest
import json
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from bs4 import BeautifulSoup
from small_book import notebook_of, printed, run_sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))

import install  # noqa: E402
import plain  # noqa: E402
import standalone  # noqa: E402

sys.path.append(str(ROOT / "tools"))

import copies  # noqa: E402
from versions import setting  # noqa: E402

# Sphinx and MyST-NB use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")

REPOSITORY = "https://github.com/owner/name"
SITE = "https://owner.github.io/name"
REF = setting("publish_ref")
LEDGER = """
sources:
  post: {title: A post, url: "https://example.org/post", covers: the text}
claims:
  - {id: A1, source: post, section: Part, statement: It is $k$., verdict: holds,
     note: Always., check: chapter}
results: []
"""
INDEX = """# Book

```{toctree}
:numbered:
chapter
other
book/training/loop
```

```{install} torch
```

```{claim-ledger} claims
```
"""
TEXT = r"""(top)=
# Chapter

See {doc}`other`, {doc}`that one <other>`, {eq}`eq-one`, {prf:ref}`thm-one`,
{claim}`A1`, {py:func}`softtopk.top_k` and {cite:t}`one`, {cite:p}`one,two`.

$$
a=b
$$ (eq-one)

````{prf:theorem} A *name*
:label: thm-one

It is so.

$$
c=d
$$ (eq-two)
````

````{prf:proof}
Obvious, see {eq}`eq-two`.

```python
x = {1}
```
````

```{claim} A1
```

```{exercise}
:label: ex-one

Show it.
```

```{solution-start} ex-one
:class: dropdown
```

So.

```{solution-end}
```

<softtopk-figure>
<p>Needs JavaScript.</p>
</softtopk-figure>
"""
BIB = """
@misc{one, author = {Ada Lovelace}, title = {Notes}, year = {1843}}
@misc{two, author = {B. Bee and C. Dee and E. Eff}, title = {B}, year = {2001}}
"""
CLAIM = 'with verify.claim("A1", "holds"):\n    assert total == k'


def build(folder: Path, repository: str = "", site: str = "") -> Path:
    """A small book, whose pages stand in the folder that this names."""
    notebook = notebook_of(
        TEXT,
        ("import secret", ("imports",), []),
        (CLAIM, ("claim-A1",), [printed("✓ A1 checked")]),
        ("# Ties are kept.\nassert hidden", ("check",), []),
        ("shown = 1", (), [printed("1")]),
    )
    content = json.loads(notebook)
    figure = {"figure": {"name": "fig-a", "caption": "The {eq}`eq-one`."}}
    content["cells"][-1]["metadata"]["mystnb"] = figure
    (folder / "chapter.ipynb").write_text(json.dumps(content), encoding="utf8")
    (folder / "index.md").write_text(INDEX)
    (folder / "book" / "training").mkdir(parents=True)
    (folder / "book" / "training" / "loop.ipynb").write_text(notebook_of("# Loop"))
    (folder / "other.md").write_text("# Other\n\n```{bibliography}\n```\n")
    (folder / "works.bib").write_text(BIB)
    (folder / "claims.yml").write_text(LEDGER)
    settings = {
        "extensions": [
            "myst_nb",
            "sphinx_proof",
            "sphinx_exercise",
            "sphinxcontrib.bibtex",
            "claims",
            "theorems",
            "folds",
            "install",
            "downloads",
            "publish",
        ],
        "bibtex_bibfiles": ["works.bib"],
        "claims_file": "claims.yml",
        "publish_repository": repository,
        "publish_site": site,
        "nb_execution_mode": "off",
        "numfig": True,
        "math_numfig": True,
        "myst_enable_extensions": ["dollarmath"],
        "html_sourcelink_suffix": "",
        "html_theme": "sphinx_book_theme",
    }
    assert run_sphinx(folder, folder / "html", settings) == ""
    return folder / "html"


@pytest.fixture
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine sets is not part of the test."""
    for name in ("REPOSITORY", "REF", "SITE", "PDF"):
        monkeypatch.delenv(f"PUBLISH_{name}", raising=False)


def taken(html: Path, name: str = "chapter") -> list[nbformat.NotebookNode]:
    """The cells of the notebook that a reader takes."""
    notebook = nbformat.read(html / "_sources" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


def test_the_text_is_plain_markdown(tmp_path: Path, no_environment: None) -> None:
    text = taken(build(tmp_path))[1].source
    assert text.startswith("# Chapter\n\nSee *Other*, that one, (1.1), Theorem 1.1,\n")
    assert "A1 (holds), `softtopk.top_k` and Lovelace [1843], " in text
    assert "[Lovelace, 1843; Bee et al., 2001]." in text
    assert "$$\na=b \\tag{1.1}\n$$" in text
    theorem = (
        "> **Theorem 1.1** (A *name*)\n>\n> It is so.\n>\n> $$\n> c=d\n> \\tag{1.2}"
    )
    assert theorem in text
    assert "*Proof.* Obvious, see (1.2).\n\n```python\nx = {1}\n```\n\n∎" in text
    assert "- **A1 (holds)** It is $k$. *Always.*" in text
    assert "> **Exercise 1.1**\n>\n> Show it." in text
    assert "**Solution.**" in text
    assert "*(This figure moves in the web edition.)*" in text
    for sign in ("{doc", "{prf", "(top)=", ":label:", ":class:", "<softtopk"):
        assert sign not in text


def test_what_a_page_folds_is_hidden(tmp_path: Path, no_environment: None) -> None:
    code = [cell for cell in taken(build(tmp_path)) if cell.cell_type == "code"]
    imports, claim, check, shown = code
    for cell, title in (
        (claim, "# @title ✓ A1 checked\nwith"),
        (check, "# @title ✓ checked: Ties are kept.\n#"),
    ):
        assert cell.source.startswith(title)
        assert cell.metadata["jupyter"] == {"source_hidden": True}
        assert cell.metadata["cellView"] == "form"
    for cell in (imports, shown):
        assert "jupyter" not in cell.metadata
    assert claim.outputs[0].text == "✓ A1 checked"


def test_a_figure_keeps_its_caption(tmp_path: Path, no_environment: None) -> None:
    assert taken(build(tmp_path))[-1].source.endswith("The (1.1).")


@pytest.mark.parametrize(
    ("repository", "kind"), [("", "markdown"), (REPOSITORY, "code")]
)
def test_the_first_cell_installs_the_package(
    tmp_path: Path, no_environment: None, repository: str, kind: str
) -> None:
    html = build(tmp_path, repository)
    first = taken(html)[0]
    what = install.requirement(repository, "figures", "symbolic", ref=REF)
    assert first.cell_type == kind
    assert f"install {'--quiet ' if repository else ''}{what}" in first.source
    text = (html / "index.html").read_text(encoding="utf8")
    line = (
        BeautifulSoup(text, "html.parser").select_one("div.highlight-bash").get_text()
    )
    assert line.strip() == f"pip install {install.requirement(repository, 'torch')}"


NOTEBOOKS = sorted((ROOT / "book").rglob("*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
MODULES = {"scikit-learn": "sklearn"}  # where a module is called otherwise


def code_in(path: Path) -> str:
    """The code of a notebook."""
    return standalone.code_of(nbformat.read(path, as_version=4))


def offered(*extras: str) -> set[str]:
    """The modules that the package brings along with its extras."""
    found = {"softtopk", "numpy"}
    for line in (r for e in extras for r in PROJECT["optional-dependencies"][e]):
        name, more = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", line).groups()
        ours = name == "softtopk"
        found |= offered(*more.split(",")) if ours else {MODULES.get(name, name)}
    return found


def imported(code: str) -> set[str]:
    """The modules that code imports, also the code in its texts."""
    found = re.findall(r"^\s*from ([\w.]+) import", code, re.MULTILINE)
    for line in re.findall(r"^\s*import (.+)$", code, re.MULTILINE):
        found += [part.split()[0] for part in line.split(",")]
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_copy_asks_for_all_that_it_needs(path: Path) -> None:
    code = code_in(path)
    cells = standalone.files(code)
    there = {cell.source.split()[1] for cell in cells}
    programs = [cell.source for cell in cells if cell.source.split()[1].endswith(".py")]
    needed = imported("\n".join([code, *programs]))
    needed -= {name.removesuffix(".py") for name in there}
    assert needed <= offered(*standalone.extras(code))
    code = standalone.moved(code)
    assert "../" not in code
    assert '"benchmarks"' not in code
    assert set(re.findall(r'Path\("([^"]+)"', code)) == there
    asked = standalone.commands(code, REPOSITORY, REF)
    assert ("ISLP" in code) == ("--no-deps islp" in asked[-1])


def test_what_trains_installs_the_frameworks() -> None:
    torch = "import softtopk.torch as stk"
    cell = standalone.first_cell(torch, REPOSITORY, REF)
    wanted = install.requirement(REPOSITORY, "training", ref=REF)
    assert cell.source == f"%pip install --quiet {wanted}"
    cell = standalone.first_cell(f'{torch}\nfind_spec("ISLP")', "", REF)
    assert '`pip install ".[training]"`, then `pip install --no-deps' in cell.source


def test_a_package_of_data_is_the_one_of_the_book() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    (pinned,) = re.findall(r"^DATA\s*:= (.*)$", makefile, re.MULTILINE)
    assert pinned.split() == list(standalone.DATA.values())


def test_a_measured_file_comes_along() -> None:
    (cell,) = standalone.files('Path("../../benchmarks/scale.json")')
    first, _, text = cell.source.partition("\n")
    assert first == "%%writefile scale.json"
    measured = (ROOT / "benchmarks" / "scale.json").read_text(encoding="utf8")
    assert json.loads(text) == json.loads(measured)


def test_links_lead_to_the_site(tmp_path: Path, no_environment: None) -> None:
    text = taken(build(tmp_path, site=SITE))[1].source
    assert f"[*Other*]({SITE}/other.html), [that one]({SITE}/other.html)" in text
    assert f"[A1 (holds)]({SITE}/index.html#A1)" in text


def test_the_book_keeps_its_own_notebook(tmp_path: Path, no_environment: None) -> None:
    build(tmp_path)
    assert "@title" not in (tmp_path / "chapter.ipynb").read_text(encoding="utf8")


def words(role: str, text: str) -> str:
    return f"<{role} {text}>"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("```{note} Title\nWords.\n```", "> **Title**\n>\n> Words."),
        (":::{tip}\nWords.\n:::", "> **Tip**\n>\n> Words."),
        ("```{math}\n:label: eq-a\na\n```", "$$\na \\tag{<number eq-a>}\n$$"),
        ("````md\n```{note}\n```\n````", "```md\n```{note}\n```\n```"),
        ("```{install} jax\n```", "<install jax>"),
        ("$$a$$ (eq-a)\n\n$$b$$", "$$a \\tag{<number eq-a>}$$\n\n$$b$$"),
        ("It costs {eq}`eq-a` and `{x}`.", "It costs <eq eq-a> and `{x}`."),
    ],
)
def test_directives_become_markdown(text: str, wanted: str) -> None:
    assert plain.whole(text, words) == wanted


@pytest.mark.parametrize("module", [install, standalone, copies])
def test_examples_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
