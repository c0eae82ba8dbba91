"""Draw the picture of the landing page: hard top-k melts as the temperature rises.

Usage: python tools/picture.py, which writes book/_static/melting.png. The pages show it
as SVG, which ``tools/draw.py`` makes of the same figure.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

import numpy as np
from matplotlib.figure import Figure

import softtopk as stk
from softtopk import figures

TARGET = Path(__file__).resolve().parent.parent / "book" / "_static" / "melting.png"
SCORES = np.linspace(-2, 2, 41)
GRID = np.linspace(-2, 2, 1601)
K = 12
LABEL = 13  # points: read on a phone, too
TEMPERATURES = np.geomspace(0.02, 3, 28)


def picture() -> Figure:
    """The figure."""
    fig, ax = figures.figure(height=3.2)
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.92, TEMPERATURES.size))
    for temperature, colour in zip(TEMPERATURES[::-1], colours[::-1], strict=True):
        level = stk.threshold(SCORES, K, "laplace", temperature=temperature)
        share = stk.curves.LAPLACE.value((GRID - level) / temperature)
        ax.plot(GRID, share, color=colour, lw=1.8, alpha=0.9)
    hard = stk.top_k(SCORES, K)
    ax.plot(SCORES, hard, "o", color=figures.COLOURS["hard"], ms=5, zorder=5)
    ax.axhline(K / SCORES.size, color="#999999", lw=1, ls=(0, (2, 3)))
    ax.annotate("hard top-k", (0.78, 0.97), fontsize=LABEL, ha="right")
    ax.annotate(
        "$k/n$", (-1.95, K / SCORES.size + 0.04), fontsize=LABEL, color="#666666"
    )
    ax.set_xlabel("score $x_i$", fontsize=LABEL)
    ax.set_ylabel("selected share $p_i$", fontsize=LABEL)
    ax.set_xticks(np.arange(-2, 3), labels=["−2", "−1", "0", "1", "2"])
    ax.tick_params(labelsize=LABEL)
    ax.set_xlim(-2.05, 2.05)
    norm = mpl.colors.LogNorm(TEMPERATURES[0], TEMPERATURES[-1])
    bar = fig.colorbar(
        mpl.cm.ScalarMappable(norm, mpl.colors.ListedColormap(colours)), ax=ax, pad=0.02
    )
    bar.set_label(r"temperature $\tau$", fontsize=LABEL)
    ax.set_yticks([0, 0.5, 1])
    bar.set_ticks([0.02, 0.1, 0.5, 3], labels=["0.02", "0.1", "0.5", "3"])
    bar.ax.tick_params(labelsize=LABEL)
    bar.minorticks_off()
    return fig


if __name__ == "__main__":
    picture().savefig(TARGET, dpi=150, metadata={"Software": None})
