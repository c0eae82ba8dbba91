"""The public face of the book: addresses, link previews, and what a host needs.

Four settings, in one place of ``_config.yml``, hold all that is not known before the
book is published. An empty setting takes the environment variable of the same name in
capitals, which is how a workflow says where it publishes:

``publish_repository``
    Address of the repository. It brings the source and issue buttons, and that of
    Binder to the pages whose code runs there.

``publish_ref``
    What the repository calls the sources of this book: a commit, a tag or a branch. The
    source and launch buttons lead there, and a notebook that was taken away installs
    the package from there. By default it is the tag of a release, and ``main`` before.

``publish_site``
    Address of the folder that holds the pages. It brings canonical links, tags for link
    previews, and the files ``sitemap.xml``, ``robots.txt`` and ``404.html``, all of
    which need it; and each page says its version and leads to ``versions.html``, which
    lists the releases that stand beside the newest (``tools/beside.py``).

``publish_pdf``
    The built printed edition, relative to the book's configuration. It is copied beside
    the pages, and every page links to it.

With all of them empty, a page holds no address of its own. A description of each page,
from its first paragraph or from ``html_meta`` in its front matter, is always there.

Extensions that write such things were tried: sphinxext-opengraph leaves TeX in the
descriptions and runs on into the next paragraphs; sphinx-sitemap lists the index, the
search and the page for a missing address, too; and the page of sphinx-notfound-page
needs the style and scripts of the site.

What the theme ships and no page asks for (source maps, fonts in a second format, a
script with two thousand icons) is left out of the build.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from live import needs
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError
from versions import SETTINGS, setting, version

BINDER = "https://mybinder.org"
LENGTH = 200  # characters of a description that search engines and previews show
UNUSED = (
    "_static/**/*.map",
    "_static/**/*.ttf",
    "_static/*webpack-macros.html",  # templates of the theme, not pages
    "_static/scripts/fontawesome.js",  # the style sheet's font shows the same icons
)

# --- Settings ------------------------------------------------------------------------


def _apply_settings(app: Sphinx, config: Config) -> None:
    for name in SETTINGS:
        config[name] = setting(name, config[name])
    for name in ("publish_repository", "publish_site"):
        address = urlsplit(config[name])
        if config[name] and not (address.scheme == "https" and address.netloc):
            raise ConfigError(f"{name}: {config[name]!r} is no address with https://")
    if not re.fullmatch(r"\w[\w./-]*", config.publish_ref):
        raise ConfigError(f"publish_ref: {config.publish_ref!r} is no commit or tag")
    if config.publish_repository:
        config.html_theme_options |= {
            "repository_url": config.publish_repository,
            "repository_branch": config.publish_ref,  # Jupyter Book has one of its own
            "use_repository_button": True,
            "use_source_button": True,
            "use_issues_button": True,
            "launch_buttons": {
                "binderhub_url": BINDER,
                "notebook_interface": "jupyterlab",
            },
        }
    if config.publish_site:
        config.html_baseurl = config.publish_site + "/"
        config.html_theme_options["extra_footer"] = (
            f"Version {version()}; "
            f'<a href="{escape(config.publish_site)}/versions.html">all versions</a>'
        )


def _check_pdf(app: Sphinx) -> None:
    pdf = app.config.publish_pdf
    if pdf and app.builder.format == "html" and not Path(app.srcdir, pdf).is_file():
        raise ConfigError(f"publish_pdf: there is no {pdf}; `make pdf` builds it")


# --- Plain text ----------------------------------------------------------------------

SIGNS = {
    "binom": "binomial ",
    "cdot": "·",
    "dots": "…",
    "ge": "≥",
    "in": "∈",
    "infty": "∞",
    "lambda": "λ",  # Unicode calls it LAMDA
    "le": "≤",
    "mapsto": "↦",
    "ne": "≠",
    "prod": "∏",
    "sum": "∑",
    "times": "×",
    "to": "→",
}
HIDDEN = ("mathbb", "mathrm", "mathsf", "operatorname", "text", "left", "right")


def _sign(match: re.Match[str]) -> str:
    name = match[1]
    if name in SIGNS:
        return SIGNS[name]
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name}")
    except KeyError:
        return "" if name in HIDDEN else name


def formula(tex: str) -> str:
    """A formula as a line of text.

    >>> formula(r"p_i\\in[0,1],\\ \\sum_i f(x_i-\\lambda)=k")
    'p_i∈[0,1], ∑_i f(x_i-λ)=k'
    """
    text = re.sub(r"\\[,;:! ]+", " ", tex)
    text = re.sub(r"\\([a-zA-Z]+)", _sign, text)
    return " ".join(re.sub(r"[{}\\]", "", text).split())


def plain(node: nodes.Node) -> str:
    """The text of a node on one line, with its formulas made readable."""
    if isinstance(node, nodes.math):
        return formula(node.astext())
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.footnote_reference):
        return ""
    return re.sub(r"\s+", " ", "".join(map(plain, node.children)))


def shorten(text: str, length: int = LENGTH) -> str:
    """As many whole sentences as fit, or as many words if that is too little.

    >>> shorten("One and two. Three is longer.", 20)
    'One and two.'
    >>> shorten("One and two are three.", 10)
    'One and …'
    """
    text = text.strip()
    if text.endswith(":"):  # what it announces is not in the text
        text = text[:-1] + "."
    if len(text) <= length:
        return text
    ends = [m.end() for m in re.finditer(r"[.?!](?=\s)", text) if m.end() <= length]
    if ends and ends[-1] > length / 2:
        return text[: ends[-1]]
    return text[: text.rindex(" ", 0, length - 1)] + " …"


def described(doctree: nodes.document) -> str | None:
    """The description that the front matter of a page gives."""
    for node in doctree.findall(nodes.meta):
        if node.get("name") == "description":
            return str(node["content"])
    return None


def summary(doctree: nodes.document) -> str:
    """The first paragraph of a page, shortened."""
    for node in doctree.findall(nodes.paragraph):
        if isinstance(node.parent, nodes.section) and (text := plain(node).strip()):
            return shorten(text)
    return ""


# --- Pages ---------------------------------------------------------------------------


def preview(app: Sphinx, pagename: str, doctree: nodes.document) -> dict[str, str]:
    """The Open Graph properties of a page."""
    root = pagename == app.config.root_doc
    tags = {
        "og:type": "website" if root else "article",
        "og:site_name": app.config.html_title,
        "og:title": plain(app.env.titles[pagename]),
        "og:description": described(doctree) or summary(doctree),
        "og:url": app.config.html_baseurl + app.builder.get_target_uri(pagename),
    }
    folder = app.builder.imagedir  # type: ignore[attr-defined]
    for image in doctree.findall(nodes.image):
        _, inside, name = image["uri"].rpartition(f"{folder}/")
        if inside:
            tags["og:image"] = f"{app.config.html_baseurl}{folder}/{name}"
            if image.get("alt"):
                tags["og:image:alt"] = image["alt"]
            break
    return {name: content for name, content in tags.items() if content}


def _complete_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    if app.config.publish_pdf and "header_buttons" in context:
        context["header_buttons"].append(
            {
                "type": "link",
                "url": context["pathto"](Path(app.config.publish_pdf).name, 1),
                "tooltip": "The book as one PDF",
                "icon": "fas fa-file-pdf",
                "label": "book-pdf-button",
            }
        )
    if doctree is None:
        return
    if needs(doctree):  # Binder has no framework (.binder/requirements.txt)
        context["header_buttons"] = [
            button
            for button in context.get("header_buttons", [])
            if button.get("label") != "launch-buttons"
        ]
    if language := app.env.metadata.get(pagename, {}).get("lang"):
        context["language"] = language
    # docutils adds a line about the size of the screen, which the theme has already.
    context["metatags"] = re.sub(
        '<meta name="viewport"[^>]*>\n?', "", context.get("metatags", "")
    )
    tags = []
    text = summary(doctree)
    if text and described(doctree) is None:
        tags.append(f'<meta name="description" content="{escape(text)}" />')
    if app.config.publish_site:
        tags += [
            f'<meta property="{name}" content="{escape(content)}" />'
            for name, content in preview(app, pagename, doctree).items()
        ]
        tags.append('<meta name="twitter:card" content="summary_large_image" />')
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


# --- Files ---------------------------------------------------------------------------


def sitemap(site: str, pages: list[str]) -> str:
    """List of the pages for search engines."""
    lines = "".join(
        f"  <url><loc>{escape(site + page)}</loc></url>\n" for page in pages
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{lines}</urlset>\n"
    )


def robots(site: str) -> str:
    """Leave to search engines, and where the list of pages is."""
    return f"User-agent: *\nAllow: /\n\nSitemap: {site}sitemap.xml\n"


STYLE = """<style>
      :root { color-scheme: light dark; }
      body { margin: 12vh auto; max-width: 34rem; padding: 0 1.25rem;
        font: 1.1rem/1.6 system-ui, sans-serif; }
      input, button { font: inherit; padding: 0.3rem 0.6rem; max-width: 100%; }
    </style>"""


def alone(title: str, main: str) -> str:
    """A page of the host's, which holds its style: it may be shown at any depth."""
    return f"""<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="robots" content="noindex" />
    <title>{title}</title>
    {STYLE}
  </head>
  <body>
    <main>
{main}
    </main>
  </body>
</html>
"""


def not_found(site: str, title: str) -> str:
    """The page for an address that is no page; its links are whole addresses."""
    site, title = escape(site), escape(title)
    return alone(
        f"No such page &#8212; {title}",
        f"""      <h1>No such page</h1>
      <p>This address leads nowhere in <a href="{site}">{title}</a>. The page may have
        moved: search for it, or begin at the <a href="{site}">first page</a>.</p>
      <form role="search" action="{site}search.html">
        <input type="search" name="q" aria-label="Search the book" />
        <button>Search</button>
      </form>""",
    )


def versions_page(site: str, newest: str, tags: list[str]) -> str:
    """The page that leads to the book of each release, the newest first."""
    items = [f'<li><a href="{escape(site)}/">{newest}</a>, the newest</li>'] + [
        f'<li><a href="{escape(site)}/{tag}/">{tag.removeprefix("v")}</a></li>'
        for tag in tags
    ]
    lines = "\n".join(f"        {item}" for item in items)
    return alone(
        "Versions of the book",
        f"      <h1>Versions of the book</h1>\n      <ul>\n{lines}\n      </ul>",
    )


def _write_files(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.format != "html":
        return
    out, config = Path(app.outdir), app.config
    for pattern in UNUSED:
        for path in out.glob(pattern):
            path.unlink()
    site = config.html_baseurl if config.publish_site else ""
    pages = [app.builder.get_target_uri(doc) for doc in sorted(app.env.found_docs)]
    for name, text in (
        ("sitemap.xml", site and sitemap(site, pages)),
        ("robots.txt", site and robots(site)),
        ("404.html", site and not_found(site, config.html_title)),
        ("versions.html", site and versions_page(config.publish_site, version(), [])),
    ):
        if text:
            (out / name).write_text(text, encoding="utf8")
        else:  # of an earlier build
            (out / name).unlink(missing_ok=True)
    if config.publish_pdf:
        pdf = Path(app.srcdir, config.publish_pdf)
        shutil.copyfile(pdf, out / pdf.name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    for name in SETTINGS:
        app.add_config_value(name, "", "env", str)  # {install} shows one
    # Before the theme reads its options, and after it has made its buttons.
    app.connect("config-inited", _apply_settings, priority=400)
    app.connect("builder-inited", _check_pdf)
    app.connect("html-page-context", _complete_page, priority=600)
    app.connect("build-finished", _write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
