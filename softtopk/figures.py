r"""The book's figure style, its recurring plots, and the tables that cells print.

The notebooks store figures as PNG on an opaque white ground; the book draws them again
as vector graphics with a light and a dark form. Labels are large enough for a phone.
Most colours are of the Okabe-Ito set, which stays distinct under the common
colour-vision deficiencies; curves also differ in line style, so colour is never the
only cue.

This module needs Matplotlib and is never imported by the operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from .curves import NAMED
from .hard import top_k

__all__ = [
    "CHANGE",
    "COLOURS",
    "DASHES",
    "ROUTER",
    "SERIES",
    "SHADES",
    "Table",
    "bars",
    "experts",
    "figure",
    "style",
]

ROUTER = (1.2, -0.4, 2.5, 0.3, 1.9, -1.1, 0.8, 1.6)
"""The running example: what a router scores eight experts for one token."""

# One rule: a curve has one colour in the whole book, and what is no curve has another.
# A plot therefore names a colour of this file, or types a grey; a guard looks.
COLOURS = {
    "exp": "#0072B2",
    "laplace": "#D55E00",
    "sigmoid": "#009E73",
    "clip": "#CC79A7",
    "triangular": "#8C6D00",
    "gradtopk": "#56B4E9",
    "entmax": "#7B4FB5",
    "softmax": "#0072B2",
    "sparsemax": "#CC79A7",
    "hard": "#333333",
}
DASHES: dict[str, Any] = {
    "exp": "-",
    "laplace": (0, (6, 1.5)),
    "sigmoid": (0, (3, 1)),
    "clip": (0, (1, 1)),
    "triangular": (0, (5, 1, 1, 1)),
    "gradtopk": (0, (3, 1, 1, 1, 1, 1)),
    "entmax": (0, (8, 1.5, 1, 1.5)),
    "hard": "-",
}
CHANGE = {"gain": "#1B3A6B", "loss": "#B2182B"}
"""What rises and what falls when a score moves."""

SERIES = ("#111111", "#E69F00", "#8B1A1A", "#777777", "#0B5351")
"""What is no curve, such as schedules and packages; a plot takes these in turn."""

SHADES = {
    "softmax": ("#08306B", "#2171B5", "#6BAED6", "#9ECAE1"),
    "entmax": ("#7B4FB5", "#B79BDB"),
    "noise": ("#0B5351", "#2E9C97", "#8FD3CE"),
}
"""For several lines of one kind, from dark to light."""

_SPARE = ("#A65628", "#5E7F00", "#8C2D62", "#4D4D9F")
"""For curves that have no colour above, in the order of `NAMED`."""

_UNCOLOURED = [name for name in NAMED if name not in COLOURS]
COLOURS |= dict(zip(_UNCOLOURED, itertools.cycle(_SPARE), strict=False))

_STYLE: dict[str, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,  # no grid line crosses a bar or a curve
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "font.size": 11,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2.0,
    "axes.prop_cycle": plt.cycler(color=SERIES),
}


class Table:
    """Rows under a header: a table of the page where Markdown is rendered, else text.

    Examples
    --------
    >>> from softtopk import figures
    >>> figures.Table(["k", "sum"], [[1, 0.5], [2, 1.5]])
    k  sum
    1  0.5
    2  1.5
    """

    def __init__(self, header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> None:
        self.lines = [[str(entry) for entry in line] for line in (header, *rows)]

    def __repr__(self) -> str:
        return "\n".join("  ".join(line) for line in self.lines)

    def _repr_markdown_(self) -> str:
        head, *rows = self.lines
        lines = [head, ["---"] * len(head), *rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@contextmanager
def style() -> Iterator[None]:
    """The book's Matplotlib settings, for the length of a ``with`` block.

    Examples
    --------
    >>> with style():
    ...     plt.rcParams["axes.grid"]
    True
    """
    with plt.rc_context(_STYLE):
        yield


def figure(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 6.4,
    height: float = 3.4,
    size: float | None = None,
) -> tuple[Figure, Any]:
    """A figure and its axes in the book's style, laid out without overlaps.

    Parameters
    ----------
    rows, columns : int
        The grid of axes.
    width, height : float
        Size in inches; 6.4 wide fills the text column, and stays legible at the
        width of a phone.
    size : float, optional
        The size of all its words in points, in place of the style's 11 and 10. With
        12.5 a phone shows them at 11 pixels.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : Axes or array of Axes
        As ``matplotlib.pyplot.subplots`` gives them.

    Examples
    --------
    >>> fig, ax = figure()
    >>> ax.get_facecolor()
    (1.0, 1.0, 1.0, 1.0)
    >>> plt.close(fig)
    """
    words = "font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize"
    plt.rcParams.update(_STYLE | (dict.fromkeys(words, size) if size else {}))
    return plt.subplots(rows, columns, figsize=(width, height), layout="constrained")


def bars(
    ax: Axes, x: ArrayLike, series: dict[str, ArrayLike], *, label: str = "$p_i$"
) -> None:
    """Draw selection vectors over the same scores, side by side.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    x : array_like, shape (n,)
        The scores; they label the horizontal axis.
    series : dict
        Name to selection vector of shape (n,); names found in `COLOURS` take their
        colour.
    label : str
        The label of the vertical axis.

    Raises
    ------
    ValueError
        If a vector's length differs from that of `x`.

    Examples
    --------
    >>> fig, ax = figure()
    >>> bars(ax, [2.0, 1.0], {"exp": [0.7, 0.3]})
    >>> len(ax.patches)
    2
    >>> plt.close(fig)
    """
    scores = np.asarray(x, dtype=float)
    positions = np.arange(scores.size)
    width = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        heights = np.asarray(values, dtype=float)
        if heights.shape != scores.shape:
            raise ValueError(
                f"series[{name!r}] has shape {heights.shape}, expected {scores.shape}"
            )
        ax.bar(
            positions + (number - (len(series) - 1) / 2) * width,
            heights,
            width,
            label=name,
            color=COLOURS.get(name),
            edgecolor="white",
        )
    ax.set_xticks(positions, [f"{score:g}" for score in scores])
    ax.set_xlabel("score $x_i$")
    ax.set_ylabel(label)
    ax.set_ylim(0, 1.05 * max(1.0, *(np.max(np.asarray(v)) for v in series.values())))
    ax.legend()


def experts(
    selections: dict[str, ArrayLike],
    *,
    k: float | None = None,
    scores: ArrayLike = ROUTER,
) -> tuple[Figure, Any]:
    """The book's recurring picture: what an operator does to the router's scores.

    Each selection gets a panel with a bar for each expert.  Ticks mark the hard
    selection of the k largest scores, to compare with.

    Parameters
    ----------
    selections : dict
        Title to shares of shape (n,); the first word of a title that is found in
        `COLOURS` gives the colour.
    k : float, optional
        The budget of the hard selection; without it no ticks are drawn.
    scores : array_like, shape (n,)
        They stand below the bars.

    Returns
    -------
    figure, axes
        As `figure` gives them, one panel for each selection.

    Raises
    ------
    ValueError
        If a selection has not one share for each score.

    Examples
    --------
    >>> import softtopk as stk
    >>> fig, axes = experts({"laplace": stk.soft_topk(ROUTER, 2, "laplace")}, k=2)
    >>> len(axes[0].patches)
    8
    >>> plt.close(fig)
    """
    x = np.asarray(scores, dtype=float)
    fig, grid = figure(1, len(selections), width=6.4, height=2.4)
    axes = np.atleast_1d(grid)
    # A phone shows one or two panels at 0.89 pixels a point; three it magnifies.
    size = 12.5 if len(selections) < 3 else 11
    places = np.arange(x.size)
    for ax, (title, values) in zip(axes, selections.items(), strict=True):
        shares = np.asarray(values, dtype=float)
        if shares.shape != x.shape:
            raise ValueError(
                f"selections[{title!r}] has shape {shares.shape}, expected {x.shape}"
            )
        ax.bar(places, shares, 0.7, color=COLOURS.get(title.split()[0], SERIES[3]))
        if k is not None:
            hard = top_k(x, k)
            ax.hlines(hard, places - 0.45, places + 0.45, color=COLOURS["hard"])
        ax.set_xticks(places, [f"{score:g}" for score in x])
        ax.tick_params(axis="x", labelsize=12.5 if len(selections) < 3 else 9)
        ax.tick_params(axis="y", labelsize=size)
        if len(selections) > 1:  # no room for eight scores side by side
            ax.tick_params(axis="x", rotation=90)
        ax.set_title(title, fontsize=size if len(title) < 20 else 11)
        ax.set_ylim(min(0, 1.05 * shares.min()), max(1.08, 1.05 * shares.max()))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("share $p_i$", fontsize=size)
    fig.supxlabel("score $x_i$", fontsize=size)
    return fig, axes
