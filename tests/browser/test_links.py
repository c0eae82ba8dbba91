"""Every address in the built files: those inside lead somewhere, the others are sound.

It needs the build and no browser; nothing is asked of another host. Where the build had
the addresses of a repository and of its pages (``PUBLISH_REPOSITORY``, ``PUBLISH_REF``,
``PUBLISH_SITE``), those that lead there are followed in the checkout and in the build.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from conftest import ROOT, SITE

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "book" / "_extensions"))

from addresses import Host
from versions import setting

HOST = Host(setting("publish_repository"), setting("publish_ref"))
PAGES = setting("publish_site")
FILES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))


@dataclass
class Document(HTMLParser):
    """The targets that a page offers and the addresses that it holds."""

    ids: set[str] = field(default_factory=set)
    addresses: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    language: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, str | None]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Gather what one element offers and asks for."""
        values = {name: value or "" for name, value in attrs}
        alone = {"id": values.get("id")}
        if tag == "meta":  # such as the size of the screen
            alone = {"meta": values.get("name")}
        for kind, name in alone.items():
            if name and (kind, name) in self._seen and not name.startswith("citation"):
                self.twice.append(f"{kind} {name}")
            self._seen.add((kind, name))
        if tag == "html":
            self.language = values.get("lang", "")
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.addresses += [
            values[name]
            for name in ("href", "src", "action", "poster")
            if name in values
        ]
        for part in values.get("srcset", "").split(","):
            self.addresses += part.split()[:1]
        if values.get("http-equiv", "").lower() == "refresh":
            self.addresses.append(values["content"].partition("url=")[2])


def read(text: str) -> Document:
    """Parse a page."""
    document = Document()
    document.feed(text)
    return document


def outside_fault(address: str) -> str | None:
    """What is wrong with the form of an address on another host."""
    parts = urlsplit(address)
    if parts.scheme == "mailto":
        return (
            None if re.fullmatch(r"[^@\s]+@[^@\s]+", parts.path) else "no mail address"
        )
    if parts.scheme not in ("http", "https"):
        return f"scheme {parts.scheme}"
    if not re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", parts.hostname or "", re.I):
        return "no host"
    if re.search(r"[\s<>\"{}|\\^`]", address):
        return "a sign that needs escaping"
    return None


def place(name: str, address: str) -> tuple[str, str] | None:
    """The file and the anchor of the build that an address on a page leads to."""
    inside = PAGES and (address + "/").startswith(f"{PAGES}/")
    if inside:
        name, address = "index.html", address.removeprefix(PAGES).lstrip("/")
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    path = unquote(parts.path)
    target = os.path.normpath(os.path.join(os.path.dirname(name), path))
    return target if path else name, unquote(parts.fragment)


def faults(pages: dict[str, Document], name: str, files: set[str]) -> list[str]:
    """The addresses of a page that lead nowhere."""
    found = []
    for address in pages[name].addresses:
        if address.startswith("data:"):
            continue
        inside = place(name, address)
        if inside is None:
            fault = outside_fault(address)
            if fault is None and HOST.answers(address):
                fault = HOST.fault(address)
            if fault:
                found.append(f"{address}: {fault}")
            continue
        target, anchor = inside
        if target not in files:
            found.append(f"{address}: no file")
        elif anchor and target in pages and anchor not in pages[target].ids:
            found.append(f"{address}: no such place")
    return found


@pytest.fixture(scope="module")
def pages() -> dict[str, Document]:
    """Every built page."""
    assert FILES, f"no page in {SITE}: run `make book` first"
    return {name: read((SITE / name).read_text(encoding="utf8")) for name in FILES}


@pytest.fixture(scope="module")
def files() -> set[str]:
    """Every built file."""
    return {path.relative_to(SITE).as_posix() for path in SITE.rglob("*")}


@pytest.mark.parametrize("name", FILES)
def test_every_address_leads_somewhere(
    pages: dict[str, Document], files: set[str], name: str
) -> None:
    assert faults(pages, name, files) == []


@pytest.mark.parametrize("name", FILES)
def test_a_page_names_nothing_twice(pages: dict[str, Document], name: str) -> None:
    assert pages[name].twice == []


TAKEN = sorted(path.relative_to(SITE) for path in SITE.glob("_sources/**/*.ipynb"))


def test_every_page_of_a_notebook_offers_it(pages: dict[str, Document]) -> None:
    offered = {
        place(name, address)
        for name, page in pages.items()
        for address in page.addresses
        if address.endswith(".ipynb")
    }
    assert TAKEN
    assert {(path.as_posix(), "") for path in TAKEN} <= offered


@pytest.mark.parametrize("path", TAKEN, ids=lambda path: path.stem)
def test_a_notebook_to_take_away_leads_back(
    pages: dict[str, Document], files: set[str], path: Path
) -> None:
    """Its links lead to the pages, and it installs the package of its own book."""
    notebook = nbformat.read(SITE / path, as_version=4)
    nbformat.validate(notebook)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    page = Document()
    page.addresses = re.findall(r"\]\((https?:[^)\s]+)\)", "\n".join(texts))
    assert faults(pages | {"index.html": page}, "index.html", files) == []
    if HOST.repository:
        asked = f'git+{HOST.repository}@{HOST.ref}"'
        assert notebook.cells[0].source.splitlines()[0].endswith(asked)


def test_a_page_says_in_which_language_it_is(pages: dict[str, Document]) -> None:
    named = {name: page.language for name, page in pages.items() if "/_" not in name}
    assert named.pop("book/guide-zh.html") == "zh-Hans"
    named.pop("index.html")  # Jupyter Book's own: it holds nothing but the way on
    assert set(named.values()) == {"en"}


def test_checker_finds_what_stands_twice() -> None:
    page = read('<p id="a"><meta name="viewport"><p id="a"><meta name="viewport">')
    assert page.twice == ["id a", "meta viewport"]


def test_every_style_sheet_finds_its_files() -> None:
    missing = []
    for sheet in SITE.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf8"), flags=re.S)
        for address in re.findall(r"url\(\s*['\"]?([^'\")]+)", text):
            path = urlsplit(address).path
            # The theme names each font twice; the build keeps the first, smaller file.
            if not urlsplit(address).scheme and not path.endswith(".ttf"):
                missing += [] if (sheet.parent / path).is_file() else [(sheet, address)]
    assert missing == []


SOUND = '<p id="a b"><a href="#a%20b">a</a><a href="https://example.org/x">b</a></p>'


def test_checker_passes_a_sound_page() -> None:
    assert faults({"p/a.html": read(SOUND)}, "p/a.html", {"p/a.html"}) == []


@pytest.mark.parametrize(
    "address",
    [
        "b.html",
        "../a.html",
        "#c",
        "a.html#c",
        "https://",
        "https:/example.org",
        "https://example",
        "https://example.org/a b",
        "javascript:void(0)",
        "mailto:nobody",
    ],
)
@pytest.mark.parametrize("tag", ['<a href="{}">', '<img src="{}">'])
def test_checker_finds_the_fault(address: str, tag: str) -> None:
    page = read(SOUND + tag.format(address))
    assert faults({"p/a.html": page}, "p/a.html", {"p/a.html"})
