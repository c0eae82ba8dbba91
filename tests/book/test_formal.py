"""The statements in ``proofs/``, as the book names and shows them. Needs no Rocq."""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from small_book import run_sphinx

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "book" / "_extensions"))

import formal  # noqa: E402
from formal.rocq import Library, without_comments  # noqa: E402
from formal.statements import read_formal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
LIBRARY = Library(ROOT / "proofs")
FORMAL = read_formal(ROOT / "book")


# --- The files -----------------------------------------------------------------------


def test_every_statement_that_the_book_names_is_proved() -> None:
    assert FORMAL.faults(LIBRARY) == []


def test_nothing_is_left_out_of_a_proof() -> None:
    for path in (ROOT / "proofs").glob("*.v"):
        text = without_comments(path.read_text("utf8"))
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", text)


def test_every_file_is_compiled() -> None:
    files = {path.stem for path in (ROOT / "proofs").glob("*.v")}
    assert files == set(LIBRARY.files)
    for place, file in enumerate(LIBRARY.files):
        assert set(LIBRARY.imports[file]) <= set(LIBRARY.files[:place])


def test_the_pages_count_the_theorems_that_are_checked() -> None:
    count = len(FORMAL.theorems)
    page = (ROOT / "book" / "practice" / "checked.md").read_text("utf8")
    said = (
        f"| {count} theorems and other numbered statements, among them the basic ones"
    )
    assert said in page
    readme = (ROOT / "README.md").read_text("utf8")
    assert f"{count} of them, among them the basic ones," in readme


@pytest.mark.parametrize("name", FORMAL.names)
def test_what_is_shown_is_in_the_file(name: str) -> None:
    text = without_comments(
        (ROOT / "proofs" / f"{name.split('.')[0]}.v").read_text("utf8")
    )
    sentence = LIBRARY.sentences[name]
    words = " ".join(text.split())
    assert " ".join(sentence.text.split()) + " Proof." in words
    assert LIBRARY.shown(name).endswith(sentence.text)


def test_a_statement_comes_with_its_definitions() -> None:
    named = [d.name for d in LIBRARY.definitions("Selection.shares_unique")]
    assert named == ["curve", "threshold", "shares"]
    # the name that a file defines itself hides that of another file
    named = [d.full for d in LIBRARY.definitions("MiddleRule.middle_rule_dual")]
    assert "MiddleRule.dual" in named and "Selection.dual" not in named


def test_a_proof_uses_what_its_lemmas_use() -> None:
    uses = LIBRARY.uses("Selection.thresholds_interval", set(FORMAL.names))
    assert "Selection.threshold_exists" in uses


def test_comments_are_no_text() -> None:
    text = "a (* b (* Qed. *) c\n d *) e"
    assert without_comments(text).split() == ["a", "e"]
    assert without_comments(text).count("\n") == 1


def test_a_digest_ignores_spaces_alone(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "_CoqProject").write_text("A.v\n", "utf8")
        (tmp_path / "A.v").write_text(text, "utf8")
        return Library(tmp_path).digest("A.a")

    text = "Definition two := 2.\nTheorem a : 1 < two.\nProof. lia. Qed.\n"
    assert digest(text) == digest(text.replace("1 <", "1  <\n"))
    assert digest(text) == digest(text.replace("lia", "auto"))
    assert digest(text) != digest(text.replace("1 <", "0 <"))
    assert digest(text) != digest(text.replace(":= 2", ":= 3"))


# --- The guard finds a fault ---------------------------------------------------------

FAULTS = {
    "renamed": ("Theorem threshold_exists ", "Theorem a_threshold ", "no theorem of"),
    "no theorem": ("Theorem shares_sum ", "Lemma shares_sum ", "no theorem of"),
    "not proved": (
        "Proof. intros [l [Hl Hp]]; rewrite <- Hl; now apply sum_ext. Qed.",
        "Proof. Admitted.",
        "does not end in Qed",
    ),
    "hypothesis": (
        "curve f -> shares f n x k p ->\n  forall i, (i < n)%nat -> 0 <= p i",
        "shares f n x k p ->\n  forall i, (i < n)%nat -> 0 <= p i",
        "its statement is not the one",
    ),
    "constant": ("0 <= p i <= 1.", "0 <= p i <= 2.", "its statement is not the one"),
    "definition": (
        "∑_(i < n) f (x i - l) = k.",
        "∑_(i < n) f (x i - l) <= k.",
        "its statement is not the one",
    ),
    "new": (
        "Theorem shares_sum ",
        "Theorem other : 1 = 1.\nProof. reflexivity. Qed.\nTheorem shares_sum ",
        "a theorem that the book does not name",
    ),
    "comment": ("Theorem shares_sum ", "(* *) Theorem shares_sum ", "no theorem of"),
}


@pytest.fixture
def proofs(tmp_path: Path) -> Path:
    """A copy of the files, to be spoilt."""
    return Path(shutil.copytree(ROOT / "proofs", tmp_path / "proofs"))


@pytest.mark.parametrize("fault", FAULTS)
def test_guard_finds_the_fault(proofs: Path, fault: str) -> None:
    old, new, message = FAULTS[fault]
    path = proofs / "Selection.v"
    text = path.read_text("utf8")
    assert old in text
    path.write_text(text.replace(old, new), "utf8")
    assert any(message in found for found in FORMAL.faults(Library(proofs)))


def test_accepting_a_change_keeps_its_digest(proofs: Path) -> None:
    path = proofs / "Selection.v"
    path.write_text(
        path.read_text("utf8").replace("<= p i <= 1.", "<= p i <= 2."), "utf8"
    )
    assert FORMAL.faults(Library(proofs))
    FORMAL.accept(Library(proofs))
    assert FORMAL.faults(Library(proofs)) == []


def test_a_missing_rocq_is_told() -> None:
    script = ROOT / "tools" / "proofs.py"
    done = subprocess.run(
        [sys.executable, str(script)], env={"PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (
        "apt-get install --no-install-recommends coq libcoq-coquelicot" in done.stderr
    )


def test_examples_hold() -> None:
    assert doctest.testmod(formal).failed == 0


# --- The pages -----------------------------------------------------------------------

TABLE = r"""
theorems:
  thm-one:
    formal: [A.a]
    covers: All of it, for $n>0$; see A1.
also:
  - formal: [A.b]
    where: chapter
    covers: Something more.
axioms:
  Classical_Prop.classic: Every statement is true or false.
without_axioms: []
"""
FILE = """(** * Numbers [n] *)
(** Two. *)
Definition two := 2.
Theorem a : 1 < two.
Proof. lia. Qed.
Theorem b : 0 < two.
Proof. apply a. Qed.
"""
LEDGER = """
sources:
  post: {title: A post, url: "https://example.org", covers: text}
  book: {title: This book, covers: results}
claims:
  - {id: A1, source: post, section: S, statement: It is., verdict: holds,
     formal: A.a, covers: All of $n$.}
  - {id: A2, source: post, section: S, statement: It is., verdict: holds}
results: []
"""
INDEX = """# Index

```{toctree}
book/chapter
```

```{claim-ledger} claims
```
"""
CHAPTER = """# Chapter

```{prf:theorem} One
:label: thm-one
One is less than two.
```

```{prf:proof}
Clear.
```

```{formal-map}
```

```{formal-axioms}
```
"""


def build(folder: Path, **files: str) -> tuple[str, Path]:
    """Build a book with one file of proofs; the warnings, and the pages."""
    source = folder / "source"
    texts = {
        "index.md": INDEX,
        "book/chapter.md": CHAPTER,
        "book/claims.yml": LEDGER,
        "book/formal.yml": TABLE,
        "proofs/A.v": FILE,
        "proofs/_CoqProject": "A.v\n",
    } | files
    for name, text in texts.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf8")
    if "proofs/statements.txt" not in files:
        ledger = read_formal(source / "book")
        ledger.accept(Library(source / "proofs"))
    settings = {
        "extensions": ["myst_nb", "sphinx_proof", "claims", "formal"],
        "nb_execution_mode": "off",
        "claims_file": "book/claims.yml",
        "myst_enable_extensions": ["dollarmath"],
        "html_theme": "basic",
    }
    return run_sphinx(source, folder / "html", settings), folder / "html"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """The chapter of a sound book."""
    warnings, folder = build(tmp_path_factory.mktemp("formal"))
    assert warnings == ""
    chapter = (folder / "book" / "chapter.html").read_text("utf8")
    return BeautifulSoup(chapter, "html.parser")


def test_the_fold_stands_below_its_theorem(page: BeautifulSoup) -> None:
    theorem = page.find("div", class_="proof")
    assert theorem is not None
    fold = theorem.find_next_sibling()
    assert fold.name == "details" and "formal" in fold["class"]
    assert fold.summary.get_text(" ", strip=True) == "machine-checked a"
    assert "for \\(n>0\\); see A1" in fold.p.get_text()
    assert fold.pre.get_text().strip() == "Definition two := 2.\n\nTheorem a : 1 < two."


def test_the_map_links_statements_theorems_and_claims(page: BeautifulSoup) -> None:
    first, second = page.select("ul.formal-map > li")
    assert first["id"] == "formal-A-a"
    assert first.summary.get_text() == "a" and not first.summary.find("a")
    assert [a["href"] for a in first.find_all("a")] == [
        "#thm-one",
        "../index.html#A1",
    ]
    assert second.find("a", href="#formal-A-a").get_text() == "a"
    assert "classic: every statement is true or false" in page.get_text()
    title = page.select_one(".formal-file strong")
    assert [title.get_text(), title.code.get_text()] == ["Numbers n", "n"]


def test_the_ledger_marks_what_a_machine_has_checked(tmp_path: Path) -> None:
    warnings, folder = build(tmp_path)
    assert warnings == ""
    index = BeautifulSoup((folder / "index.html").read_text("utf8"), "html.parser")
    first, second = index.select("table.claim-ledger tbody tr")
    assert first["data-proof"] == "machine-checked"
    assert first.find("span", class_="claim-badge-formal")
    assert first.find("a", href="book/chapter.html#formal-A-a")
    assert first.select_one(".claim-covers").text == r"Covers: All of \(n\)."
    assert second["data-proof"] == "in the book"
    assert not second.find("span", class_="claim-badge-formal")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("book/formal.yml", "thm-one", "thm-two", "no page has the theorem 'thm-two'"),
        ("book/formal.yml", "[A.b]", "[A.c]", "A.c: no theorem of proofs/"),
        ("book/claims.yml", "formal: A.a", "formal: A.x", "A.x: no theorem of proofs/"),
        ("proofs/A.v", "Qed.", "Admitted.", "its proof does not end in Qed"),
    ],
)
def test_a_fault_is_a_warning(
    tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    texts = {"book/formal.yml": TABLE, "book/claims.yml": LEDGER, "proofs/A.v": FILE}
    changed = texts[name].replace(old, new)
    assert changed != texts[name]
    (tmp_path / "source" / "proofs").mkdir(parents=True)
    warnings, _ = build(tmp_path, **{name: changed}, **{"proofs/statements.txt": ""})
    assert message in warnings
