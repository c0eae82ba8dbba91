"""Figures as SVG, with marks along which a page can cut them.

``tools/draw.py`` and ``book/conftest.py`` load this file in a notebook's kernel, where
each figure that a cell shows is an SVG, too, from then on.

A figure with three or more columns gets a frame without a line around each: the drawing
is cut along it (see ``book/_extensions/drawn.py``), so that a page can stack what
stands side by side. What a figure holds besides its axes, such as a label below all of
them, has a frame of its own.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import matplotlib as mpl
from IPython.core.pylabtools import print_figure
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox, BboxBase

COLUMNS = 3  # with fewer, a figure stays whole
# A figure is drawn a little smaller than the notebook asks and shown at the same width:
# its words are larger then, and can be read on a phone.
ZOOM = 0.87
# Labels are set as outlines, which look alike everywhere.
SETTINGS = {"svg.fonttype": "path", "svg.hashsalt": "softtopk"}


def columns(figure: Figure) -> list[tuple[BboxBase, list[Axes]]]:
    """The axes that stand above each other, with their box, from left to right."""
    found: list[tuple[BboxBase, list[Axes]]] = []
    boxes = [(axes.get_tightbbox(), axes) for axes in figure.axes]
    for box, axes in sorted(
        ((b, a) for b, a in boxes if b), key=lambda each: each[0].x0
    ):
        owners = getattr(axes, "_colorbar_info", {}).get("parents", [])
        beside = len(owners) == 1 and found and owners[0] in found[-1][1]
        if found and (beside or box.x0 < found[-1][0].x1):
            last, members = found.pop()
            found.append((Bbox.union([last, box]), [*members, axes]))
        else:
            found.append((box, [axes]))
    return found


def mark(figure: Figure) -> None:
    """Frame each column of a figure that has been laid out, and what is left."""
    found = columns(figure)
    colour_bars = [all(hasattr(a, "_colorbar_info") for a in axes) for _, axes in found]
    if colour_bars.count(False) < COLUMNS:
        return
    whole = Bbox.union([box for box, _ in found])
    rest: list[tuple[BboxBase, Artist]] = [
        (artist.get_window_extent(), artist)
        for artist in [*figure.texts, *figure.legends]
        if artist.get_visible()
    ]
    if any(box.y0 < whole.y1 and whole.y0 < box.y1 for box, _ in rest):
        return  # a label beside the panels belongs to none of them
    for number, (box, members) in enumerate(found):
        frame(
            figure, Bbox.from_extents(box.x0, whole.y0, box.x1, whole.y1), f"p{number}"
        )
        for place, axes in enumerate(members):
            axes.set_gid(f"in-p{number}-{place}")
    for number, (box, artist) in enumerate(rest):
        side = "above" if box.y0 >= whole.y1 else "below"
        frame(figure, box, f"{side}{number}")
        artist.set_gid(f"in-{side}{number}-0")


def frame(figure: Figure, box: BboxBase, name: str) -> None:
    """A rectangle that shows nothing, named ``panel-`` and the name."""
    inside = figure.transFigure.inverted().transform_bbox(box)
    shape = Rectangle(inside.p0, inside.width, inside.height, fill=False, linewidth=0)
    shape.set(transform=figure.transFigure, in_layout=False, gid=f"panel-{name}")
    figure.add_artist(shape)


def draw(self: Figure, renderer: Any, _draw: Any = Figure.draw) -> None:
    """Draw a figure; the first time lays it out, after which its frames are known."""
    _draw(self, renderer)
    if not any(str(each.get_gid()).startswith("panel-") for each in self.patches):
        mark(self)


def svg(figure: Figure) -> str:
    """A figure as SVG; it stays what it was, so that its PNG does, too."""
    size = figure.get_size_inches()
    state = [
        (axes, axes.viewLim.frozen(), axes.get_position(original=True))
        for axes in figure.axes
    ]
    figure.set_size_inches(ZOOM * size)
    try:
        with mpl.rc_context(SETTINGS), patch.object(Figure, "draw", draw):
            return str(print_figure(figure, fmt="svg", metadata={"Date": None}))
    finally:
        figure.set_size_inches(size)
        for axes, box, place in state:  # what a layout in another size has moved
            axes.viewLim.set(box)
            axes._set_position(place)


def take_over(shell: Any) -> None:
    """Show figures as SVG, too, in an IPython that shows them inline."""
    shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, svg)
