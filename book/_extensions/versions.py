"""The version of the sources, and what the repository calls it."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def version() -> str:
    """``softtopk.__version__``, read without importing what may not be installed."""
    tree = ast.parse((ROOT / "softtopk/__init__.py").read_text(encoding="utf8"))
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__version__")]):
                return str(ast.literal_eval(node.value))
    raise ValueError("softtopk/__init__.py assigns no __version__")


def tag(version: str) -> str:
    """The tag of a release; a version in development has none.

    >>> tag("0.2.0"), tag("0.3.0.dev0")
    ('v0.2.0', '')
    """
    return "" if "dev" in version else f"v{version}"
