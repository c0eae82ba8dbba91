"""Whether two pictures of a figure show the same.

A notebook stores its figures as PNG, which print and GitHub show. Two runs of the same
code may shade single pixels differently, so their bytes say nothing. Other data or
other code changes whole pieces of lines.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

SIDE = 8  # pixels of a block
# The share of black in the mean of a block. Rounding errors can snap a line to the next
# pixel, which changes an eighth; a line of two pixels that is missing, a quarter.
LEAST = 0.13


def opened(png: str) -> Image.Image:
    """A picture in base64."""
    return Image.open(io.BytesIO(base64.b64decode(png)))


def maker(png: str) -> str:
    """The program that wrote a picture, with its release."""
    with opened(png) as image:
        return str(image.info.get("Software", "")).partition(",")[0]


def blocks(png: str) -> np.ndarray:
    """The mean shade, from 0 to 1, of each block; white fills up the last ones."""
    with opened(png) as image:
        shades = np.asarray(image.convert("RGB"), dtype=float) / 255
    rows, columns = (-(-size // SIDE) for size in shades.shape[:2])
    whole = np.ones((rows * SIDE, columns * SIDE, 3))
    whole[: shades.shape[0], : shades.shape[1]] = shades
    return whole.reshape(rows, SIDE, columns, SIDE, 3).mean(axis=(1, 3))


def changed(stored: str, shown: str) -> str:
    """What differs between two pictures, in words; nothing if they show the same.

    A release of the program that draws may draw the same figure a little differently:
    pictures of two releases are not compared.
    """
    if maker(stored) != maker(shown) or stored == shown:
        return ""
    old, new = blocks(stored), blocks(shown)
    if old.shape != new.shape:
        sizes = [image.size for image in map(opened, (stored, shown))]
        return "it is {} by {} pixels and not {} by {}".format(*sizes[0], *sizes[1])
    count = int(np.any(abs(old - new) > LEAST, axis=-1).sum())
    return f"{count} of {old.shape[0] * old.shape[1]} blocks differ" if count else ""


def shown(outputs: Iterable[Any]) -> list[str]:
    """The PNG of each output that has one."""
    found = (output.get("data", {}).get("image/png") for output in outputs)
    return [png for png in found if png]


def wrong(stored: Iterable[Any], made: Iterable[Any]) -> str:
    """What is wrong with the stored outputs of a cell, beside those of a run."""
    before, after = shown(stored), shown(made)
    if len(before) != len(after):
        return f"{len(before)} pictures are stored, and {len(after)} were drawn"
    faults = (changed(old, new) for old, new in zip(before, after, strict=True))
    return "; ".join(fault for fault in faults if fault)
