"""Addresses that stay, versions beside each other, and how the book is cited."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup
from small_book import run_sphinx
from sphinx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))
sys.path.append(str(ROOT / "tools"))

import beside as tool  # noqa: E402
import cited  # noqa: E402
import moved  # noqa: E402

# Sphinx and its theme use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")
SITE = "https://owner.github.io/name"
REPOSITORY = "https://github.com/owner/name"


@pytest.mark.parametrize("module", [cited, moved, tool])
def test_examples_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


# --- Addresses -----------------------------------------------------------------------


def pages(toc: Any) -> set[str]:
    """The pages of a table of contents."""
    if isinstance(toc, dict):
        own = {toc[key] for key in ("file", "root") if key in toc}
        return own.union(*map(pages, toc.values()))
    return set().union(*map(pages, toc)) if isinstance(toc, list) else set()


def faults(listed: dict[str, str], there: set[str]) -> list[str]:
    """What is wrong with a list of addresses."""
    lost = [page for page, new in listed.items() if not new and page not in there]
    new = sorted(there - {page for page, new in listed.items() if not new})
    wrong = [page for page, new in listed.items() if new and new not in there]
    return [
        *(f"{page} is gone: say where to (old -> new)" for page in lost),
        *(f"{page} is not listed" for page in new),
        *(f"{page} went where no page is" for page in wrong),
    ]


def test_no_address_of_a_page_is_lost() -> None:
    text = (ROOT / "book" / "addresses.txt").read_text(encoding="utf8")
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    assert faults(moved.addresses(text), pages(toc)) == []


@pytest.mark.parametrize("listed", [{"a": ""}, {"b": ""}, {"a": "c", "b": ""}])
def test_a_lost_address_is_found(listed: dict[str, str]) -> None:
    assert faults(listed, {"a", "b"} - {"a"} if "a" in listed else {"a", "b"})
    assert faults({"a": "b", "b": ""}, {"b"}) == []


def small(folder: Path, listed: str) -> None:
    """A book of two pages, one of which may have moved."""
    (folder / "new").mkdir()
    (folder / "index.md").write_text("# Book\n\n```{toctree}\nnew/page\n```\n")
    (folder / "new" / "page.md").write_text("# Page\n")
    (folder / "addresses.txt").write_text(listed)
    settings = {"extensions": ["myst_parser", "moved"]}
    settings["addresses_file"] = "addresses.txt"
    run_sphinx(folder, folder / "html", settings)


def test_an_old_address_leads_to_the_page(tmp_path: Path) -> None:
    small(tmp_path, "index\nold/page -> new/page\nnew/page\n")
    page = (tmp_path / "html" / "old" / "page.html").read_text(encoding="utf8")
    assert 'content="0; url=../new/page.html"' in page
    assert 'replace("../new/page.html" + location.search + location.hash)' in page
    (link,) = BeautifulSoup(page, "html.parser").select("a")
    assert link["href"] == "../new/page.html"


@pytest.mark.parametrize("line", ["old -> nowhere", "index -> new/page"])
def test_an_address_leads_to_a_page(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        small(tmp_path, f"{line}\n")


# --- Versions ------------------------------------------------------------------------


def test_the_books_of_releases_stand_beside_the_newest(tmp_path: Path) -> None:
    for tag in ("v0.9.0", "v0.10.0", "nightly"):
        folder = tmp_path / "releases" / tag
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / tool.ARCHIVE, "w") as archive:
            archive.writestr("softtopk-book/genindex.html", "index")
            archive.writestr("softtopk-book/book/index.html", f"of {tag}")
    site = tmp_path / "site"
    site.mkdir()
    command = [
        sys.executable,
        ROOT / "tools" / "beside.py",
        site,
        tmp_path / "releases",
    ]
    given = os.environ | {"PUBLISH_SITE": SITE}
    subprocess.run(command, env=given, check=True, capture_output=True)
    assert (site / "v0.9.0" / "book" / "index.html").read_text() == "of v0.9.0"
    text = (site / "versions.html").read_text(encoding="utf8")
    links = [a["href"] for a in BeautifulSoup(text, "html.parser").select("a")]
    assert links == [f"{SITE}/", f"{SITE}/v0.10.0/", f"{SITE}/v0.9.0/"]
    assert not (site / "nightly").exists()


def test_what_a_release_publishes_is_what_is_put_beside() -> None:
    release, check = (
        (ROOT / ".github" / "workflows" / name).read_text(encoding="utf8")
        for name in ("release.yml", "check.yml")
    )
    assert f"zip --quiet --recurse-paths {tool.ARCHIVE} softtopk-book" in release
    assert f"--pattern {tool.ARCHIVE}" in check
    assert "tools/beside.py _build/html releases" in check
    assert check.index("tools/beside.py") < check.index("upload-pages-artifact")


# --- Citing --------------------------------------------------------------------------

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))


def test_the_authors_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf8"))
    names = [
        each.get("name") or f"{each['given-names']} {each['family-names']}"
        for each in CITATION["authors"]
    ]
    assert [each["name"] for each in project["project"]["authors"]] == names
    assert config["author"] == " and ".join(names)


@pytest.mark.parametrize(
    ("known", "url"),
    [
        ({}, None),
        ({"publish_repository": REPOSITORY}, REPOSITORY),
        ({"publish_repository": REPOSITORY, "publish_site": SITE}, SITE),
    ],
)
def test_the_page_says_how_to_cite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, str], url: str
) -> None:
    for name in ("REPOSITORY", "REF", "SITE", "PDF"):
        monkeypatch.delenv(f"PUBLISH_{name}", raising=False)
    (tmp_path / "index.md").write_text("# Book\n\n```{cite-this}\n```\n")
    (tmp_path / "CITATION.cff").write_bytes((ROOT / "CITATION.cff").read_bytes())
    settings = {"extensions": ["myst_parser", "publish", "cited"]} | known
    run_sphinx(tmp_path, tmp_path / "html", settings)
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf8")
    text = BeautifulSoup(page, "html.parser").select_one("pre").get_text()
    assert CITATION["title"] in text
    assert re.findall(r"url +=.*", text) == ([f"url     = {{{url}}},"] if url else [])
    assert "doi" not in text


def test_the_landing_page_says_how_to_cite() -> None:
    assert "```{cite-this}" in (ROOT / "book" / "index.md").read_text(encoding="utf8")
