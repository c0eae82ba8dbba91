"""What the book gives to the world: addresses, previews, and the files of a host."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from small_book import run_sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))
sys.path.insert(0, str(ROOT / "tests"))

import publish  # noqa: E402
import standalone  # noqa: E402
import versions  # noqa: E402
from addresses import Host  # noqa: E402
from versions import SETTINGS, setting  # noqa: E402

# Sphinx and its theme use what their own dependencies have deprecated.
pytestmark = pytest.mark.filterwarnings("default")

REPOSITORY = "https://github.com/owner/name"
SITE = "https://owner.github.io/name"
INDEX = """# The first & only

A choice of $k$ scores in $\\Delta_k$, softened by $\\tau>0$. It "moves".

Not this.

```{toctree}
part/chapter
```

![A dot](dot.png)
"""
CHAPTER = """---
myst:
  html_meta:
    description: Given in the "front matter".
---
# Chapter

A paragraph.
"""
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine sets is not part of the test."""
    for name in SETTINGS:
        monkeypatch.delenv(name.upper(), raising=False)


class Site:
    """A built book."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, name: str) -> str:
        """The content of a file."""
        return (self.folder / name).read_text(encoding="utf8")

    def page(self, name: str) -> BeautifulSoup:
        """A parsed page."""
        return BeautifulSoup(self.text(name), "html.parser")

    def description(self, name: str) -> list[str]:
        """Every description of a page."""
        found = self.page(name).select('meta[name="description"]')
        return [tag["content"] for tag in found]

    def preview(self, name: str) -> dict[str, str]:
        """The Open Graph properties of a page."""
        found = self.page(name).select('meta[property^="og:"]')
        return {tag["property"]: tag["content"] for tag in found}


def build(folder: Path, **settings: str) -> Site:
    """A book of two pages with the book's theme."""
    source = folder / "source"
    (source / "part").mkdir(parents=True, exist_ok=True)
    (source / "index.md").write_text(INDEX)
    (source / "part" / "chapter.md").write_text(CHAPTER)
    (source / "dot.png").write_bytes(DOT)
    common = {
        "extensions": ["myst_nb", "sphinx.ext.githubpages", "parts", "publish"],
        "html_title": "The book",
        "myst_enable_extensions": ["dollarmath"],
        "html_theme": "sphinx_book_theme",
        "html_theme_options": {"navbar_persistent": []},
        "templates_path": [str(ROOT / "book" / "_templates")],
    }
    run_sphinx(source, folder / "html", common | settings, freshenv=True)
    return Site(folder / "html")


@pytest.fixture(scope="module")
def plain_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The book with every setting empty."""
    return build(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def public_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The book with every setting filled in."""
    folder = tmp_path_factory.mktemp("public")
    pdf = folder / "source" / "made" / "book.pdf"
    pdf.parent.mkdir(parents=True)
    pdf.write_bytes(b"%PDF-")
    return build(
        folder,
        publish_repository=REPOSITORY,
        publish_site=SITE,
        publish_pdf="made/book.pdf",
    )


FIRST = "A choice of k scores in Δ_k, softened by τ>0. It “moves”."
GIVEN = 'Given in the "front matter".'


@pytest.mark.parametrize("module", [publish, versions])
def test_doctests_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_description_is_the_first_paragraph(plain_site: Site) -> None:
    assert plain_site.description("index.html") == [FIRST]


def test_the_front_matter_describes_first(plain_site: Site) -> None:
    assert plain_site.description("part/chapter.html") == [GIVEN]


def test_without_addresses_nothing_points_outside(plain_site: Site) -> None:
    for name in ("index.html", "part/chapter.html"):
        page = plain_site.page(name)
        assert page.select('link[rel="canonical"]') == []
        assert plain_site.preview(name) == {}
        assert page.select(".article-header-buttons a[href^=http]") == []
        assert page.select('a[href$=".pdf"]') == []
    for name in ("sitemap.xml", "robots.txt", "404.html"):
        assert not (plain_site.folder / name).exists()


def test_pages_are_no_source_of_another_generator(plain_site: Site) -> None:
    assert (plain_site.folder / ".nojekyll").is_file()


def test_the_repository_brings_its_buttons(public_site: Site) -> None:
    links = public_site.page("part/chapter.html").select(".article-header-buttons a")
    addresses = [link["href"] for link in links]
    assert REPOSITORY in addresses
    ref = setting("publish_ref")
    assert f"{REPOSITORY}/blob/{ref}/part/chapter.md?plain=1" in addresses
    assert any(a.startswith(f"{REPOSITORY}/issues/new?") for a in addresses)


def test_the_site_brings_canonical_links(public_site: Site) -> None:
    (link,) = public_site.page("part/chapter.html").select('link[rel="canonical"]')
    assert link["href"] == f"{SITE}/part/chapter.html"


def test_the_site_brings_previews(public_site: Site) -> None:
    assert public_site.preview("index.html") == {
        "og:type": "website",
        "og:site_name": "The book",
        "og:title": "The first & only",
        "og:description": FIRST,
        "og:url": f"{SITE}/index.html",
        "og:image": f"{SITE}/_images/dot.png",
        "og:image:alt": "A dot",
    }
    chapter = public_site.preview("part/chapter.html")
    assert chapter["og:description"] == GIVEN
    assert "og:image" not in chapter


def test_the_site_map_lists_the_pages(public_site: Site) -> None:
    tree = ET.fromstring(public_site.text("sitemap.xml"))
    space = {"s": "http://www.sitemaps.org/schemas/sitemap/0.9"}
    pages = [entry.text for entry in tree.findall("s:url/s:loc", space)]
    assert pages == [f"{SITE}/index.html", f"{SITE}/part/chapter.html"]
    assert f"Sitemap: {SITE}/sitemap.xml" in public_site.text("robots.txt")


def test_a_missing_page_leads_home_from_any_depth(public_site: Site) -> None:
    page = public_site.page("404.html")
    addresses = [tag["href"] for tag in page.select("[href]")]
    assert addresses
    assert set(addresses) == {f"{SITE}/"}
    assert page.form["action"] == f"{SITE}/search.html"
    assert page.form.input["name"] == "q"
    assert page.select("script, link, img") == []


def test_the_pdf_is_linked_and_there(public_site: Site) -> None:
    (link,) = public_site.page("part/chapter.html").select('a[href$=".pdf"]')
    assert link["href"] == "../book.pdf"
    assert (public_site.folder / "book.pdf").read_bytes() == b"%PDF-"


def test_what_no_page_asks_for_is_left_out(plain_site: Site) -> None:
    names = [path.name for path in plain_site.folder.rglob("*")]
    assert "fontawesome.js" not in names
    assert [n for n in names if n.endswith((".map", ".ttf"))] == []
    assert "fontawesome.js" not in plain_site.text("index.html")
    scripts = [s.get("src", "") for s in plain_site.page("index.html").select("script")]
    assert not any("searchindex.js" in script for script in scripts)
    assert "searchindex.js" in plain_site.text("search.html")


def test_files_of_an_earlier_setting_go(tmp_path: Path) -> None:
    build(tmp_path, publish_site=SITE)
    assert (tmp_path / "html" / "404.html").exists()
    build(tmp_path)
    assert not (tmp_path / "html" / "404.html").exists()


def test_a_pdf_that_is_not_built_stops_the_build(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make pdf"):
        build(tmp_path, publish_pdf="made/book.pdf")


# --- As Jupyter Book builds it -------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOC = """
format: jb-book
root: book/notation
chapters:
  - file: book/selection/problem
  - file: book/training/loop
  - file: book/practice/checked
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A few pages, by Jupyter Book, which has settings of its own, and our settings."""
    folder = tmp_path_factory.mktemp("published")
    for name in ("_config.yml", "book", "softtopk", "proofs", "tools"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "_toc.yml").write_text(TOC)
    found = {"PUBLISH_REPOSITORY": REPOSITORY, "PUBLISH_REF": COMMIT}
    given = os.environ | found | {"PUBLISH_SITE": SITE, "PUBLISH_PDF": ""}
    tool = Path(sys.executable).with_name("jupyter-book")
    run = subprocess.run(
        [tool, "build", folder, "-q"],
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return Site(folder / "_build" / "html")


PAGES = ("notation", "selection/problem", "training/loop", "practice/checked")


@pytest.mark.parametrize("name", PAGES)
def test_buttons_lead_to_the_sources_of_the_page(published: Site, name: str) -> None:
    host = Host(REPOSITORY, COMMIT)
    links = published.page(f"book/{name}.html").select(".article-header-buttons a")
    addresses = [link["href"] for link in links if host.answers(link["href"])]
    assert [f"{a}: {fault}" for a in addresses if (fault := host.fault(a))] == []
    (source,) = (a for a in addresses if "/blob/" in a)
    suffix = "ipynb" if "selection" in name or "training" in name else "md"
    path = f"book/{name}.{suffix}"
    assert source == f"{REPOSITORY}/blob/{COMMIT}/{path}?plain=1"
    binder = f"https://mybinder.org/v2/gh/owner/name/{COMMIT}?urlpath=lab/tree/{path}"
    runs = name == "selection/problem"  # Binder lacks what the loop imports
    assert (binder in addresses) == runs
    assert any("mybinder.org" in a for a in addresses) == runs


@pytest.mark.parametrize(
    "address",
    [
        f"{REPOSITORY}/blob/master/README.md",
        f"{REPOSITORY}/blob/{COMMIT}/nothing.md",
        f"{REPOSITORY}/wiki",
        f"{REPOSITORY}/issues/new",
        "https://mybinder.org/v2/gh/owner/name/master?urlpath=lab/tree/README.md",
        f"https://mybinder.org/v2/gh/owner/name/{COMMIT}?urlpath=lab/tree/README",
        f"https://mybinder.org/v2/gh/owner/name/{COMMIT}",
    ],
)
def test_an_address_that_leads_nowhere_is_found(address: str) -> None:
    host = Host(REPOSITORY, COMMIT)
    assert host.answers(address)
    assert host.fault(address)
    sound = address.replace("master", COMMIT).replace("nothing", "README")
    assert "master" not in address or host.fault(sound) is None


def pins(path: Path) -> dict[str, str]:
    """The release of each package that a file of requirements pins."""
    found = re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(), re.MULTILINE)
    return {name.lower().replace("-", "_"): release for name, release in found}


def test_binder_has_what_a_page_with_its_button_needs() -> None:
    """Pinned, and as the book is."""
    folder = ROOT / ".binder"
    book, binder = (pins(path / "requirements.txt") for path in (ROOT, folder))
    assert {"jupyterlab", "jupyterlab_myst", "ipykernel"} <= set(binder)
    assert {n for n in binder if n in book and binder[n] != book[n]} == set()
    text = (folder / "requirements.txt").read_text()
    *lines, last = [line for line in text.splitlines() if line[0] != "#"]
    assert len(binder) == len(lines)
    assert last == f"-e .[{','.join(reversed(standalone.EXTRAS))}]"
    python = (folder / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f"(CPython {python})" in (ROOT / "requirements.txt").read_text()


@pytest.mark.parametrize(
    ("version", "ref"), [("0.2.0", "v0.2.0"), ("0.3.0.dev0", "main")]
)
def test_a_release_is_named_by_its_tag(
    monkeypatch: pytest.MonkeyPatch, version: str, ref: str
) -> None:
    monkeypatch.setattr(versions, "version", lambda: version)
    assert setting("publish_ref") == ref
    monkeypatch.setenv("PUBLISH_REF", COMMIT)
    assert setting("publish_ref") == COMMIT
    assert setting("publish_ref", "v1") == "v1"


# --- Settings ------------------------------------------------------------------------


def configured(**settings: str) -> Config:
    """The configuration after the settings have been read."""
    config = Config(overrides=settings | {"html_theme_options": {}})
    for name in SETTINGS:
        config.add(name, "", "html", str)
    config.add("html_theme_options", {}, "html", dict)
    config.add("html_baseurl", "", "html", str)
    publish._apply_settings(SimpleNamespace(), config)  # type: ignore[arg-type]
    return config


def test_the_environment_fills_an_empty_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PUBLISH_SITE", f"{SITE}/")
    assert configured().html_baseurl == f"{SITE}/"
    other = configured(publish_site="https://example.org/book")
    assert other.html_baseurl == "https://example.org/book/"


def test_a_ref_must_be_one() -> None:
    with pytest.raises(ConfigError, match="no commit or tag"):
        configured(publish_ref="-b main")


@pytest.mark.parametrize("address", ["owner/name", "http://example.org", "https://"])
def test_an_address_must_be_one(address: str) -> None:
    with pytest.raises(ConfigError, match="no address"):
        configured(publish_site=address)


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\lambda", "λ"),
        (r"f'(x_i-\lambda)\le 1", "f'(x_i-λ)≤ 1"),
        (r"\operatorname{ST}_k(x)", "ST_k(x)"),
        (r"\min(1,e^t)", "min(1,e^t)"),
        (r"\mathbb{R}^n", "R^n"),
    ],
)
def test_formulas_become_text(tex: str, text: str) -> None:
    assert publish.formula(tex) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("Short.", "Short."),
        ("It reads:", "It reads."),
        ("One sentence here. And another one here.", "One sentence here."),
        ("Words that go on and on and on and on", "Words that go on and on …"),
    ],
)
def test_descriptions_are_short(text: str, short: str) -> None:
    assert publish.shorten(text, 27) == short


def test_a_footnote_mark_is_no_word() -> None:
    text = nodes.paragraph("", "", nodes.Text("One"), nodes.footnote_reference("", "1"))
    assert publish.plain(text) == "One"


def test_the_book_itself_invents_no_address() -> None:
    config: dict[str, Any] = yaml.safe_load((ROOT / "_config.yml").read_text())
    settings = config["sphinx"]["config"]
    assert {settings[name] for name in SETTINGS} == {""}
    assert "baseurl" not in config["html"]
    assert "repository" not in config
