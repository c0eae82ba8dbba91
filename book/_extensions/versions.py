"""What a book is and where it is published: said once, for its pages and the package.

This module needs nothing that has to be installed.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
BRANCH = "main"
# In _config.yml, which says what they mean; publish.py says what they do.
SETTINGS = ("publish_repository", "publish_ref", "publish_site", "publish_pdf")


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


def setting(name: str, given: str = "") -> str:
    """What is `given`, or the environment's, or what holds without either."""
    found = (given or os.environ.get(name.upper(), "")).rstrip("/")
    return found or (tag(version()) or BRANCH if name == "publish_ref" else "")
