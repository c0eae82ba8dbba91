"""Figures as vectors: sharp at any size, and drawn for light and for dark.

The notebooks store their figures as PNG, which a strict comparison of outputs leaves
alone. A run of ``tools/draw.py``, or of nbval (``book/conftest.py``), keeps what they
show as SVG in ``_build/figures``; here each figure on a page takes that form.
A figure that was not drawn, or whose code or data have changed since, or that would be
heavier than `LIMIT`, stays the PNG that it is. The figures of `FRAMEWORKS` need a
framework and minutes of training: they are drawn when their notebooks are refreshed,
and kept in the folder of `TRAINING`.

An SVG stands in the page itself, where its colours can follow the theme: greys change
places, and each colour that the book's curves have keeps a contrast of 3 on both
grounds. Three or more panels side by side become a drawing each, which stand in one row
where there is room, and on a phone in several (see ``tools/vector.py`` and book.css).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from hashlib import sha256
from html import escape
from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any

from claims import version
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

LIMIT = 100_000  # bytes of an SVG
CONTRAST = 3.0
TRAINING = Path("book", "training")
FRAMEWORKS = (TRAINING, Path("book", "recipes"))  # Parts whose notebooks need them
LIGHT, DARK = "#ffffff", "#121212"  # the theme's grounds

# --- What is drawn -------------------------------------------------------------------


def code_of(path: Path) -> str:
    """The code of a notebook, with the data that it names, or that of a program."""
    text = path.read_text(encoding="utf8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    code = [c["source"] for c in cells if c["cell_type"] == "code"]
    named = re.findall(r'"([^"\s]+\.json)"', "\n".join(map("".join, code)))
    data = [file for name in named if (file := path.parent / name).is_file()]
    return "\0".join([json.dumps(code), *(file.read_text("utf8") for file in data)])


def is_training(source: Path) -> bool:
    """Whether a notebook needs the frameworks."""
    folder = source.parent.as_posix()
    return any(folder.endswith(part.as_posix()) for part in FRAMEWORKS)


def digest(root: Path, source: Path) -> str:
    """A name for what decides a figure: its code, its data, the package, the drawing.

    What is kept depends on its own code and data alone, as its notebook's outputs do.
    """
    if is_training(source):
        return sha256(code_of(source).encode()).hexdigest()
    tools = [root / "tools" / name for name in ("draw.py", "vector.py")]
    drawing = [*tools, Path(__file__)]
    package = sorted((root / "softtopk").rglob("*.py"))
    texts = [path.read_text(encoding="utf8") for path in (*drawing, *package)]
    return sha256("\0".join([code_of(source), *texts]).encode()).hexdigest()


def mark(root: Path, source: Path) -> str:
    """The first line of a drawing: what it was drawn from."""
    return f"<!-- {source.relative_to(root).as_posix()} {digest(root, source)} -->\n"


def marked(path: Path) -> str | None:
    """The first line of a drawing that is there."""
    return path.read_text("utf8").partition("\n")[0] + "\n" if path.exists() else None


def current(root: Path, folder: Path) -> dict[str, Path]:
    """The SVG of each figure whose code and data are those it was drawn from."""
    found, known = {}, {}
    for path in sorted(folder.glob("*.svg")):
        line = marked(path) or ""
        if not line.startswith("<!-- "):  # of another time: nothing says of what
            continue
        source = root / line.split()[1]
        if source not in known:
            known[source] = mark(root, source) if source.exists() else None
        if known[source] == line:
            found[path.stem] = path
    return found


# --- Colours -------------------------------------------------------------------------


def channels(colour: str) -> list[int]:
    """Red, green and blue of ``#rrggbb``."""
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [value / 255 for value in channels(colour)]
    red, green, blue = (
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, ground: str) -> float:
    """Contrast of a colour with its ground, from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"))
    21
    """
    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def readable(colour: str, ground: str) -> str:
    """A colour, moved away from its ground until it has enough contrast."""
    towards = 0 if luminance(ground) > 0.5 else 255
    for step in range(101):
        mixed = [round(c + (towards - c) * step / 100) for c in channels(colour)]
        moved = "#" + "".join(f"{value:02x}" for value in mixed)
        if contrast(moved, ground) >= CONTRAST:
            return moved
    raise ValueError(f"no shade of {colour} can be read on {ground}")


def both(colour: str, light: bool, dark: bool) -> str:
    """A colour for both themes: greys change places, others stay if they may.

    `light` and `dark` say on which grounds the colour has to be readable.

    >>> both("#ffffff", True, True), both("#0072b2", True, True)
    ('var(--pst-color-background)', '#0072b2')
    >>> both("#333333", False, False), both("#440154", False, True)
    ('light-dark(#333333, #bdbdbd)', 'light-dark(#440154, #7e5089)')
    """
    red, green, blue = channels(colour)
    if colour.lower() == LIGHT:  # the ground itself
        return "var(--pst-color-background)"
    if red == green == blue:
        level = round(0xE8 + (0x12 - 0xE8) * red / 255)
        return f"light-dark({colour}, #{level:02x}{level:02x}{level:02x})"
    shades = [
        readable(colour, ground) if needed else colour.lower()
        for needed, ground in ((light, LIGHT), (dark, DARK))
    ]
    return shades[0] if shades[0] == shades[1] else f"light-dark({', '.join(shades)})"


def recoloured(match: re.Match[str], named: Collection[str]) -> str:
    """A stroke or a fill; a line needs its contrast more than an area does."""
    part, colour = match.groups()
    ours = colour.lower() in named
    return part + both(colour, ours, ours or part.startswith("stroke"))


# --- The drawing ---------------------------------------------------------------------


def in_page(svg: str, name: str, named: Collection[str]) -> str:
    """Matplotlib's SVG as a part of a page: its ids its own, its colours for both."""
    named = {colour.lower() for colour in named}
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]*)"', body)
    assert box is not None
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.S)
    body = re.sub(r"^<svg.*?>|</svg>\s*$|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r"<defs>\s*</defs>", "", body).replace("xlink:href", "href")
    zoom, body = in_panels(body, [float(side) for side in box[1].split()])
    used = list(dict.fromkeys(re.findall(r'(?:href="|url\()#([^")]+)', body)))
    for number, old in enumerate(used):
        new = f"{name}-{number}"
        for form in ('id="{}"', 'href="#{}"', "url(#{})"):
            body = body.replace(form.format(old), form.format(f"\0{new}"))
    body = re.sub(r' id="[^"\0]*"', "", body).replace("\0", "")
    body = re.sub(r' (?:d|x|y|points)="[^"]*"', rounded, body)
    body = re.sub(r"translate\([^)]*\)", rounded, body)
    paint = r"((?:fill|stroke|stop-color): ?)(#[0-9a-fA-F]{6})\b"
    body = re.sub(paint, lambda match: recoloured(match, named), body)
    body = re.sub(r"\s*\n\s*", "\n", body).strip()
    if zoom:
        return f'<div style="--zoom: {zoom:.2f}">\n{body}\n</div>\n'
    return f'<svg viewBox="{box[1]}">\n{body}\n</svg>\n'


WIDEST = 1.7  # words of a panel that is magnified more would be larger than the text's


def in_panels(body: str, box: list[float]) -> tuple[float, str]:
    """Each panel of a drawing as a drawing, and how much larger a phone shows them.

    Two of them take the width of a phone. A drawing without panels stays as it is, and
    its zoom is 0.
    """
    groups = re.findall(r'^  <g id="([^"]*)">\n(.*?)^  </g>\n', body, re.DOTALL | re.M)
    frames = {
        name.removeprefix("panel-"): [float(n) for n in re.findall(r"[-\d.]+", shape)]
        for name, path in groups
        if name.startswith("panel-")
        for shape in re.findall(r' d="([^"]*)"', path)
    }
    if not frames:
        return 0, body
    sides = {name: (min(f[::2]), max(f[::2])) for name, f in frames.items()}
    heights = {name: (min(f[1::2]), max(f[1::2])) for name, f in frames.items()}
    panels = [name for name in frames if re.fullmatch(r"p\d+", name)]
    cuts = [(sides[a][1] + sides[b][0]) / 2 for a, b in pairwise(panels)]
    edges = [box[0], *cuts, box[0] + box[2]]
    sides |= dict(zip(panels, pairwise(edges), strict=True))
    parts = {}
    for name in frames:
        (left, right), (top, bottom) = sides[name], heights[name]
        view = f"{left:.1f} {top - 1:.1f} {right - left:.1f} {bottom - top + 2:.1f}"
        inside = [text for group, text in groups if group.startswith(f"in-{name}-")]
        share = floor(1e4 * (right - left) / box[2]) / 100  # together no more than all
        kind = "" if name in panels else ' class="strip"'
        parts[name] = (
            f'<svg{kind} viewBox="{view}" style="--share: {share:.2f}%">\n'
            + "".join(f"<g>\n{text}</g>\n" for text in inside)
            + "</svg>\n"
        )
    first, rest = body[: body.index("  <g id=")], body[body.rindex("  </g>\n") + 7 :]
    shared = re.findall(r"<defs>.*?</defs>", first + rest, re.DOTALL)
    parts[panels[0]] = parts[panels[0]].replace("<g>", "\n".join([*shared, "<g>"]), 1)
    order = sorted(
        parts, key=lambda name: (not name.startswith("above"), name[0] == "b")
    )
    pairs = [(edges[i + 2] - edges[i]) / box[2] for i in range(0, len(panels) - 1, 2)]
    return min(WIDEST, floor(100 / max(pairs)) / 100), "".join(
        parts[name] for name in order
    )


def rounded(match: re.Match[str]) -> str:
    """Coordinates to a tenth of a point: a sixth of a pixel."""
    return re.sub(
        r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), match[0]
    )


# --- The pages -----------------------------------------------------------------------


class drawn_image(nodes.image):  # noqa: N801
    """An image with an SVG in its place; link previews still have the image."""


class TakeDrawings(SphinxPostTransform):
    """Put the SVG of each figure where its PNG stands."""

    default_priority = 210  # after MyST-NB has chosen what an output shows
    formats = ("html",)

    def run(self, **options: Any) -> None:
        """Replace the images of one page."""
        drawings = self.app.drawings  # type: ignore[attr-defined]
        for image in list(self.document.findall(nodes.image)):
            figure = image.parent
            names = [*figure["ids"], *figure["names"]]
            path = next((drawings[name] for name in names if name in drawings), None)
            if isinstance(figure, nodes.figure) and path is not None:
                svg = path.read_text(encoding="utf8").partition("\n")[2]
                if len(svg.encode()) <= LIMIT:
                    image.replace_self(drawn_image("", svg=svg, **image.attributes))


def _load(app: Sphinx) -> None:
    root = Path(app.srcdir)
    kept = current(root, root / TRAINING / "drawn")
    made = current(root, root / app.config.drawn_folder)
    app.drawings = kept | made  # type: ignore[attr-defined]


def _changed(app: Sphinx, env: Any, *documents: Any) -> list[str]:
    """The pages with another set of drawings than at the last build."""
    now = {name: path.read_text("utf8") for name, path in app.drawings.items()}  # type: ignore[attr-defined]
    state = version_of(now)
    before, env.drawn_state = getattr(env, "drawn_state", None), state
    return [] if before in (None, state) else sorted(env.found_docs)


def version_of(texts: dict[str, str]) -> str:
    """One name for all drawings."""
    return sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def _visit(self: Any, node: drawn_image) -> None:
    words = escape(node.get("alt", ""))
    kind = "drawn panels" if node["svg"].startswith("<div") else "drawn"
    label = f'class="{kind}" role="img" aria-label="{words}"'
    self.body.append(re.sub(r"^<(svg|div)", rf"<\1 {label}", node["svg"]))


def _depart(self: Any, node: drawn_image) -> None:
    """The visit writes all."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_config_value("drawn_folder", "_build/figures", "html", str)
    app.add_node(drawn_image, html=(_visit, _depart))
    app.add_post_transform(TakeDrawings)
    app.connect("builder-inited", _load)
    app.connect("env-get-outdated", _changed)
    return {
        "env_version": version(Path(__file__)),
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
