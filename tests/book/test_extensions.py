"""The book's Sphinx extensions, on books of two pages."""

from __future__ import annotations

import doctest
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from bs4 import BeautifulSoup
from small_book import checking_notebook, run_sphinx

EXTENSIONS = Path(__file__).resolve().parents[2] / "book" / "_extensions"
sys.path.insert(0, str(EXTENSIONS))

import apilinks  # noqa: E402
import icons  # noqa: E402
import indexing  # noqa: E402
import parts  # noqa: E402
import shortnames  # noqa: E402
import signatures  # noqa: E402
import sources  # noqa: E402
import widths  # noqa: E402
from claims import sections  # noqa: E402
from claims.ledger import read_ledger  # noqa: E402

# Sphinx and MyST-NB use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")

LEDGER = r"""
sources:
  post: {title: A post, url: "https://example.org/post", covers: the text}
  book: {title: This book, covers: results}
claims:
  - id: A1
    source: post
    section: The part (部分)
    statement: The sum is $\sum_i p_i = k$, see N-1.
    verdict: holds
    check: part/chapter
  - id: A2
    source: post
    section: Part
    statement: Each `p` is at most $1$.
    verdict: refuted
    note: At $x=2$ it is $3$.
results:
  - id: N-1
    source: book
    section: Limit
    statement: It exists.
    verdict: proved
"""
INDEX = """
# Index

{claim-counts}`claims` claims, {claim-counts}`refuted` refuted.

```{toctree}
part/chapter
```

```{claim-counts}
```

```{claim-sources}
```

See {claim}`A2`, which the ledger does not call a reader of its own.

```{claim-ledger} claims
```

```{claim-ledger} results
```
"""
CHAPTER = """# Chapter

See {claim}`A2`.

```{claim} A1 A2
```
"""
CHECK = 'with verify.claim("A1", "holds"):\n    assert total == k'


class Book:
    """A built book."""

    def __init__(self, folder: Path, warnings: str) -> None:
        self.folder = folder
        self.warnings = warnings

    def page(self, name: str) -> BeautifulSoup:
        """Parse a built page."""
        text = (self.folder / "html" / f"{name}.html").read_text(encoding="utf8")
        return BeautifulSoup(text, "html.parser")


def build(
    folder: Path,
    ledger: str = LEDGER,
    index: str = INDEX,
    chapter: str = CHAPTER,
    check: str = CHECK,
    tags: tuple[str, ...] = ("claim-A1",),
) -> Book:
    """Write and build a book; what is on disk already stays for Sphinx to reuse."""
    source = folder / "source"
    (source / "part").mkdir(parents=True, exist_ok=True)
    notebook = checking_notebook(chapter, check, tags)
    for path, text in (
        (source / "claims.yml", ledger),
        (source / "index.md", index),
        (source / "part" / "chapter.ipynb", notebook),
    ):
        if not path.exists() or path.read_text(encoding="utf8") != text:
            path.write_text(text, encoding="utf8")
    settings = {
        "extensions": ["myst_nb", "claims", "mathematics"],
        "claims_file": "claims.yml",
        "nb_execution_mode": "off",
        "myst_enable_extensions": ["dollarmath"],
        "nitpicky": True,
        "html_theme": "basic",
    }
    return Book(folder, run_sphinx(source, folder / "html", settings))


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """The sound book."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "0")
        return build(tmp_path_factory.mktemp("book"))


def test_sound_book_has_no_warning(book: Book) -> None:
    assert book.warnings == ""


def test_chapter_lists_its_claims(book: Book) -> None:
    items = book.page("part/chapter").select("ul.claim-list > li")
    first, second = items
    assert first.select_one(".claim-id").text == "A1"
    assert first.select_one(".claim-badge").text == "holds"
    assert first.select_one(".claim-statement .math").text == r"\(\sum_i p_i = k\)"
    assert first.select_one("a:has(.claim-badge)")["href"] == "../index.html#A1"
    assert first.select_one(".claim-head > a:last-child")["href"] == "#check-A1"
    assert second.select_one(".claim-badge").text == "refuted"
    assert second.select_one(".claim-statement code").text == "p"
    assert second.select_one(".claim-note").text == r"At \(x=2\) it is \(3\)."


def test_a_list_of_claims_is_folded(tmp_path: Path) -> None:
    chapter = "# Chapter\n\n```{claim} A1 A2 N-1 A1\n```\n\n```{claim} N-1\n```\n"
    page = build(tmp_path, chapter=chapter).page("part/chapter")
    fold = page.select_one("details.claim-fold")
    words = " ".join(fold.summary.text.split())
    assert words == "4 claims: A1 holds A2 refuted N-1 proved A1 holds"
    assert fold.summary.a is None  # a link inside would be out of reach
    signs = [mark["class"][-1] for mark in fold.summary.select(".claim-badge")]
    assert signs[1:3] == ["claim-badge-refuted", "claim-badge-proved"]
    assert len(fold.select("ul.claim-list > li")) == 4
    short = page.select("ul.claim-list")[1].find_parent("details")
    assert short.summary.text.split() == ["1", "result:", "N-1", "proved"]


def test_role_links_to_the_row(book: Book) -> None:
    link = book.page("part/chapter").find(string="See ").find_next("a")
    assert link["href"] == "../index.html#A2"
    assert link["title"] == "A2 refuted: Each p is at most 1."
    assert link.text == "A2 refuted"


def test_statement_links_the_claims_it_names(book: Book) -> None:
    statement = book.page("index").select_one("#A1 .claim-statement")
    assert statement.select_one("a")["href"] == "#N-1"


def test_check_cell_is_a_target(book: Book) -> None:
    cell = book.page("part/chapter").select_one("#check-A1")
    assert "verify" in cell.text


def test_ledger_rows(book: Book) -> None:
    page = book.page("index")
    rows = page.select("table.claim-ledger tbody tr")
    assert [row["id"] for row in rows] == ["A1", "A2", "N-1"]
    states = [(r["data-source"], r["data-verdict"], r["data-state"]) for r in rows]
    assert states == [
        ("post", "holds", "checked"),
        ("post", "refuted", "unchecked"),
        ("book", "proved", "unchecked"),
    ]
    assert rows[0].select_one("td:last-child a")["href"] == "part/chapter.html#check-A1"
    assert rows[0].select_one("[lang=zh-Hans]").text == "部分"
    assert rows[1].select_one(".claim-readers").text == "cited in Chapter"
    assert rows[1].select_one(".claim-readers a")["href"] == "part/chapter.html"
    assert rows[2].select_one(".claim-name").text == "Limit"
    assert rows[2].select_one(".claim-readers") is None


def test_counts(book: Book) -> None:
    page = book.page("index")
    assert page.find(string=re.compile("^2 claims, 1 refuted")) is not None
    cells = [
        [cell.text for cell in row.select("td")]
        for row in page.select("table.claim-counts tbody tr")
    ]
    assert cells == [
        ["A post", "1", "0", "0", "1", "2", "1"],
        ["All sources", "1", "0", "0", "1", "2", "1"],
    ]
    shown = [a["href"] for a in page.select("table.claim-counts a")]
    own, all_ = (f"{fixed}verdict=" for fixed in ("source=post&", ""))
    kinds = [start + kind for start in (own, all_) for kind in ("holds", "refuted")]
    assert shown == [f"?{query}" for query in kinds]
    line = page.select_one(".claim-counts-results").text
    assert line == (
        "Results of this book’s own, beyond the sources: 1 proved, "
        "of which 0 are checked by code."
    )


def test_sources(book: Book) -> None:
    items = book.page("index").select(".claim-sources li")
    assert [item.text for item in items] == ["A post: the text."]


def test_mathematics_is_served_by_the_book(book: Book) -> None:
    scripts = [s["src"] for s in book.page("index").select("script[src]")]
    assert any(s.partition("?")[0] == "_static/mathjax/tex-chtml.js" for s in scripts)
    assert not [s for s in scripts if "//" in s]
    mathjax = book.folder / "html" / "_static" / "mathjax"
    assert (mathjax / "tex-chtml.js").stat().st_size > 1_000_000
    assert list(mathjax.glob("output/chtml/fonts/woff-v2/*.woff"))
    assert (mathjax / "input/tex/extensions/ams.js").is_file()


def test_punctuation_stays_with_its_formula(tmp_path: Path) -> None:
    text = "# C\n\nA ($x$, $y$) and $z$. The $w$ end, {claim}`A1`.\n"
    page = build(tmp_path, chapter=text).page("part/chapter")
    groups = [group.text for group in page.select(".formula")]
    assert groups == [r"(\(x\),", r"\(y\))", r"\(z\)."]
    assert (
        page.find("p").text == r"A (\(x\), \(y\)) and \(z\). The \(w\) end, A1 holds."
    )


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"chapter": "# C\n\n{claim}`A9`\n"}, "unknown claim 'A9'"),
        ({"chapter": "# C\n\n```{claim} A1 A9\n```\n"}, "unknown claim 'A9'"),
        ({"tags": ("claim-A1", "claim-A9")}, "tag of unknown claim 'A9'"),
        ({"tags": ()}, "cell checks claim A1 but lacks the tag"),
        ({"check": CHECK.replace("holds", "refuted")}, "has verdict 'holds'; its cell"),
        ({"check": "pass"}, "has verdict 'holds'; its cell says None"),
        ({"tags": (), "check": "pass"}, "check of claim A1 does not check it"),
        ({"index": INDEX.replace("`refuted`", "`true`")}, "cannot count 'true'"),
        (
            {"index": INDEX.replace("```{claim-ledger} claims\n```", "")},
            "no page holds the row of claim A1",
        ),
    ],
)
def test_fault_is_a_warning(
    tmp_path: Path, change: dict[str, str], warning: str
) -> None:
    assert warning in build(tmp_path, **change).warnings


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("verdict: holds", "verdict: true-ish", "A1: verdict 'true-ish'"),
        ("id: A2", "id: A1", "A1: stands twice"),
        ("source: book", "source: nobody", "N-1: unknown source 'nobody'"),
        ("note:", "remark:", "A2: .*remark"),
        ("note:", "formal: A.a\n    note:", "A2: formal and covers stand together"),
        ("note:", "covers: All.\n    note:", "A2: formal and covers stand together"),
    ],
)
def test_broken_ledger_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "claims.yml"
    path.write_text(LEDGER.replace(old, new, 1), encoding="utf8")
    with pytest.raises(ValueError, match=message):
        read_ledger(path)


def test_one_defect_has_one_verdict(tmp_path: Path) -> None:
    ledger = LEDGER.replace("verdict: holds", "verdict: holds\n    defect: no base")
    path = tmp_path / "claims.yml"
    path.write_text(ledger, encoding="utf8")
    assert read_ledger(path).by_id["A1"].defect == "no base"
    second = "verdict: refuted\n    defect: no base"
    path.write_text(ledger.replace("verdict: refuted", second), encoding="utf8")
    with pytest.raises(
        ValueError, match=r"one defect, two verdicts \(no base\): A1 holds"
    ):
        read_ledger(path)


def test_defects_are_listed_with_their_claims(tmp_path: Path) -> None:
    ledger = LEDGER.replace("verdict: refuted", "verdict: refuted\n    defect: too $x$")
    book = build(tmp_path, ledger, INDEX + "\n```{claim-defects}\n```\n")
    assert book.warnings == ""
    cells = [cell.text for cell in book.page("index").select("table.claim-defects td")]
    assert cells == [r"too \(x\)", "refuted", "A2"]


def test_ledger_page_follows_a_changed_chapter(tmp_path: Path) -> None:
    build(tmp_path)
    book = build(tmp_path, chapter="# New title\n\n{claim}`A2`\n")
    readers = book.page("index").select_one("#A2 .claim-readers")
    assert readers.text == "cited in New title"
    book = build(tmp_path, chapter="# New title\n")
    assert book.page("index").select_one("#A2 .claim-readers") is None


def test_chapter_follows_a_changed_ledger(tmp_path: Path) -> None:
    build(tmp_path)
    book = build(tmp_path, LEDGER.replace("verdict: holds", "verdict: imprecise", 1))
    badge = book.page("part/chapter").select_one(".claim-list .claim-badge")
    assert badge.text == "imprecise"
    assert "claim A1 has verdict 'imprecise'; its cell says 'holds'" in book.warnings


INVENTORY = """
documents: {page: the page}
reasons: {history: says where an idea comes from}
sections:
  - source: post
    section: The part (部分)
    in: page
    paragraphs:
      - {number: 1, says: A sum, claims: A1}
      - {number: 2, says: A reference, none: history}
  - source: post
    section: Part
    in: page
    paragraphs: [{number: 1, says: A bound, claims: A2}]
"""


@pytest.mark.parametrize("named", ["A2", "A1"])
def test_inventory_counts_paragraphs_and_misses_claims(
    tmp_path: Path, named: str
) -> None:
    (tmp_path / "source").mkdir()
    text = INVENTORY.replace("claims: A2", f"claims: {named}")
    (tmp_path / "source" / "inventory.yml").write_text(text, encoding="utf8")
    book = build(tmp_path, index=INDEX + "\n```{claim-inventory}\n```\n")
    rows = book.page("index").select("table.claim-counts")[-1].select("tr")
    cells = [[cell.text for cell in row.select("th, td")] for row in rows]
    assert cells == [
        ["Source", "paragraphs", "with claims", "history"],
        ["A post", "3", "2", "1"],
        ["All sources", "3", "2", "1"],
    ]
    missed = "A2: no paragraph of post, Part names it" in book.warnings
    assert missed == (named == "A1")


SECTIONS = """documents: {copy: a copy}
reasons: {notice: none}
sections:
  - source: post
    section: The part (部分)
    in: copy
    paragraphs:
      - {number: 1, says: A sum, claims: A1}
  - source: post
    section: Part
    in: copy
    paragraphs:
      - {number: 1, says: A bound, claims: A2, asks: N-1}
  - source: post
    section: End
    in: copy
    paragraphs:
      - {number: 1, says: Thanks, none: notice}
"""
ONE = (
    "```{post-section} post: The part (部分)\n```\n\n```{post-section} post: End\n```\n"
)


def with_sections(folder: Path, index: str) -> Book:
    """A book with an inventory, and an index that names its sections."""
    (folder / "source").mkdir()
    (folder / "source" / "inventory.yml").write_text(SECTIONS, encoding="utf8")
    return build(folder, index=f"{INDEX}\n{index}")


def test_a_section_leads_to_its_chapters_and_back(tmp_path: Path) -> None:
    book = with_sections(tmp_path, ONE)
    assert book.warnings == ""
    page = book.page("index")
    line = page.select_one(".post-section")
    assert line.text == (
        "Treated in Chapter. 1 claim: 1 holds (see them in the ledger)."
    )
    links = [link["href"] for link in line.select("a")]
    query = "source=post&section=The+part+%28%E9%83%A8%E5%88%86%29"
    assert links == ["part/chapter.html", f"?{query}"]
    assert "This section makes no mathematical claim." in page.text
    row = page.select_one("tr#A1")
    assert row["data-section"] == "The part (部分)"
    assert "data-section" not in page.select_one("tr#N-1").attrs
    treated = book.page("part/chapter").select_one(".chapter-sections")
    assert "sources. A post: The part (部分)" in treated.text
    (back,) = treated.select("a")
    assert back["href"] == "../index.html#post-the-part"
    assert back.select_one("[lang=zh-Hans]").text == "部分"
    assert page.select_one("#post-the-part")


def test_all_sections_of_a_source_are_listed(tmp_path: Path) -> None:
    page = with_sections(tmp_path, "```{post-sections} post\n```\n").page("index")
    items = page.select("ul.post-sections > li")
    assert [item.strong.text for item in items] == ["The part (部分)", "Part"]
    assert [item["id"] for item in items] == ["post-the-part", "post-part"]
    assert items[0].select(".claim-list") == []  # everything in it holds
    assert "3" in items[1].select_one(".claim-note").text
    # a section says which of its open questions we answer
    asked = [item.select_one(".post-section").text for item in items]
    assert "open questions" not in asked[0]
    assert asked[1].endswith("Of its open questions we answer N-1 proved.")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("```{post-section} post: Nowhere\n```\n", "'post' has no section 'Nowhere'"),
        ("```{post-sections} none\n```\n", "no section of 'none'"),
    ],
)
def test_an_unknown_section_is_a_warning(
    text: str, warning: str, tmp_path: Path
) -> None:
    assert warning in with_sections(tmp_path, text).warnings


def test_build_is_reproducible(book: Book, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "0")
        again = build(tmp_path)
    for name in ("index", "part/chapter"):
        assert str(book.page(name)) == str(again.page(name))


WORKS = """
@misc{one, author = {Ada Lovelace}, title = {Notes}, year = {1843}}
@misc{two, author = {van der Waerden, B. and E. Noether}, title = {A}, year = {1930}}
@misc{six, author = {A. Bee and C. Dee and E. Eff}, title = {B}, year = {2001a}}
@misc{ten, author = {A. Bee and X. Zed and I. Jay}, title = {C}, year = {%s}}
"""
CITING = """
# Index

{cite:p}`one,six`, {cite:t}`two` and {cite:t}`ten`.

```{bibliography}
:style: author_year
```
"""


def cite(folder: Path, year: str) -> tuple[BeautifulSoup, str]:
    """A page that cites four works, and the warnings of its build."""
    folder.mkdir()
    (folder / "index.md").write_text(CITING)
    (folder / "works.bib").write_text(WORKS % year)
    settings = {
        "extensions": ["myst_nb", "sphinxcontrib.bibtex", "citations"],
        "bibtex_bibfiles": ["works.bib"],
        "bibtex_reference_style": "author_year",
    }
    warnings = run_sphinx(folder, folder / "html", settings)
    text = (folder / "html" / "index.html").read_text(encoding="utf8")
    return BeautifulSoup(text, "html.parser"), warnings


def test_works_are_labelled_as_they_are_cited(tmp_path: Path) -> None:
    page, warnings = cite(tmp_path / "book", "2001b")
    assert warnings == ""
    labels = [label.get_text()[1:-1] for label in page.select("div.citation > .label")]
    assert labels == [
        "Bee et al., 2001a",
        "Bee et al., 2001b",
        "Lovelace, 1843",
        "van der Waerden and Noether, 1930",
    ]
    text = page.select_one("p").get_text().replace("\xa0", " ")
    assert text.startswith("[Bee et al., 2001a, Lovelace, 1843], ")
    assert "van der Waerden and Noether [1930]" in text
    assert "Bee et al. [2001b]" in text


def test_works_of_one_label_are_told(tmp_path: Path) -> None:
    _, warnings = cite(tmp_path / "book", "2001a")
    assert "duplicate label" in warnings


def prove(folder: Path, first: str) -> Book:
    """A book of a list and two chapters; `first` is the title of the first theorem."""
    folder.mkdir(exist_ok=True)
    pages = {
        "index": "# Index\n\n```{toctree}\n:numbered:\ntwo\none\nall\n```",
        "all": "# All\n\n```{theorem-list}\n```",
        "one": "# Last\n\n```{prf:lemma}\n:label: lem\nSmall.\n```",
        "two": f"# First\n\n```{{prf:theorem}} {first}\n:label: thm\nLarge.\n```\n\n"
        "```{prf:remark} By the way\nNo label.\n```",
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf8") != text:
            path.write_text(text, encoding="utf8")
    settings = {"extensions": ["myst_nb", "sphinx_proof", "theorems"], "numfig": True}
    return Book(folder, run_sphinx(folder, folder / "html", settings))


def test_theorems_are_listed_by_chapter(tmp_path: Path) -> None:
    book = prove(tmp_path / "book", "It *exists*")
    assert book.warnings == ""
    page = book.page("all")
    heads = [head.get_text() for head in page.select("p.rubric")]
    assert heads == ["First", "Last"]  # as in the table of contents
    lines = [re.sub(r"\s+", " ", line.get_text()) for line in page.select("li p")]
    assert [line.strip() for line in lines] == [
        "Theorem 1.1 (It exists)",
        "Remark 1.1 (By the way)",
        "Lemma 2.1",
    ]
    for link in page.select("li p a"):
        name, _, anchor = link["href"].partition(".html#")
        assert book.page(name).find(id=anchor) is not None
    assert page.select_one("li p em").get_text() == "exists"


def test_the_list_follows_a_changed_chapter(tmp_path: Path) -> None:
    prove(tmp_path / "book", "Old")
    book = prove(tmp_path / "book", "New")
    assert book.page("all").select_one("li p").get_text().endswith("(New)")


# --- The search ----------------------------------------------------------------------


def index_entries(folder: Path) -> dict[str, object]:
    text = (folder / "html" / "searchindex.js").read_text(encoding="utf8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return index["indexentries"]


def test_the_search_keeps_the_terms_of_pages_that_have_not_changed(
    tmp_path: Path,
) -> None:
    pages = {
        "index": "# Book\n\n```{toctree}\nterms\n```\n",
        "terms": "# Terms\n\n```{glossary}\nshare\n  A part.\n```\n",
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf8")
    settings = {"extensions": ["myst_nb", "indexing"]}
    assert run_sphinx(tmp_path, tmp_path / "html", settings) == ""
    first = index_entries(tmp_path)
    assert list(first) == ["share"]
    (tmp_path / "index.md").write_text(pages["index"] + "\nMore.\n", encoding="utf8")
    run_sphinx(tmp_path, tmp_path / "html", settings)
    assert index_entries(tmp_path) == first


def test_a_link_without_words_has_a_short_name(tmp_path: Path) -> None:
    links = "{doc}`chapter`, {doc}`its title <chapter>`, {doc}`recipe`."
    index = f"# Index\n\n{links}\n\n```{{toctree}}\nchapter\nrecipe\n```\n"
    pages = {
        "index": index,
        "chapter": "# Evidence: properties and temperatures\n",
        "recipe": "# Recipe: a learned budget, with k as a parameter\n",
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf8")
    settings = {"extensions": ["myst_parser", "shortnames"], "html_theme": "basic"}
    assert run_sphinx(tmp_path, tmp_path / "html", settings) == ""
    text = (tmp_path / "html" / "index.html").read_text(encoding="utf8")
    page = BeautifulSoup(text, "html.parser")
    found = [link.text for link in page.select(".body p a.reference")]
    assert found == ["Evidence", "its title", "a learned budget"]
    listed = [link.text for link in page.select(".toctree-wrapper a")]
    assert listed[0] == "Evidence: properties and temperatures"


def test_the_first_mention_of_a_function_is_a_link(tmp_path: Path) -> None:
    pages = {
        "index": "# Book\n\n```{toctree}\napi\ntext\n```\n",
        "api": "# `f`\n\n```{eval-rst}\n.. py:function:: softtopk.f(x)\n"
        ".. py:function:: softtopk.g(x)\n```\n",
        "text": "# The function `f`\n\nCall `stk.f(x)`, then `f`, then `other`.\n\n"
        "{py:func}`softtopk.g` is `g`.\n",
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf8")
    settings = {"extensions": ["myst_nb", "apilinks"]}
    assert run_sphinx(tmp_path, tmp_path / "html", settings) == ""
    html = (tmp_path / "html" / "text.html").read_text("utf8")
    page = BeautifulSoup(html, "html.parser")
    links = page.select('[role="main"] a[href^="api.html#"]')
    assert [(link.get_text(), link["href"]) for link in links] == [
        ("stk.f(x)", "api.html#softtopk.f"),
        ("softtopk.g()", "api.html#softtopk.g"),
    ]


@pytest.mark.parametrize(
    "module",
    [
        *(apilinks, icons, indexing, parts, sections, shortnames, signatures, sources),
        widths,
    ],
)
def test_examples_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
