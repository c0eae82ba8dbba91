"""Write the signatures of the frameworks' modules into their page of the reference.

Run in the frameworks' environment; tests/frameworks/test_page.py keeps the page true.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "book" / "reference" / "frameworks.md"
MARK = "<!-- Below: tools/frameworks_page.py -->\n"
TITLES = {"torch": "PyTorch", "jax": "JAX", "dask": "Dask"}


def listing() -> str:
    """The modules' names, signatures and first lines."""
    parts = [MARK]
    for name, title in TITLES.items():
        module = importlib.import_module(f"softtopk.{name}")
        lines = [f"\n## {title}\n", "```{eval-rst}", f".. py:module:: softtopk.{name}"]
        for item in sorted(module.__all__, key=lambda n: (n[0].isupper(), n)):
            found = getattr(module, item)
            given = [
                p.replace(annotation=inspect.Parameter.empty)
                for p in inspect.signature(found).parameters.values()
                if p.kind is not p.VAR_KEYWORD  # the other word for an axis
            ]
            kind = "class" if inspect.isclass(found) else "function"
            summary = (inspect.getdoc(found) or "").split("\n\n")[0]
            summary = re.sub(
                r"(:math:`[^`]*`)|`([^`]*)`",
                lambda found: found[1] or f"``{found[2]}``",
                " ".join(summary.split()),
            )
            lines += [
                "",
                f".. py:{kind}:: {item}{inspect.Signature(given)}",
                "",
                f"   {summary}",
            ]
        parts.append("\n".join([*lines, "```\n"]))
    return "\n".join(parts)


if __name__ == "__main__":
    text = PAGE.read_text()
    PAGE.write_text(text.split(MARK)[0] + listing())
