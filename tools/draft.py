"""Turn MyST Markdown drafts of chapters into executed notebooks.

Usage: python tools/draft.py PATH/<part>/<name>.md ...

The draft's last two path components name the notebook: it is written to
``book/<part>/<name>.ipynb``, executed, and cleaned as ``make refresh`` does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import refresh


def main(arguments: list[str]) -> int:
    failed = False
    for argument in arguments:
        draft = Path(argument)
        target = refresh.BOOK / draft.parent.name / f"{draft.stem}.ipynb"
        notebook = jupytext.read(draft, fmt="md:myst")
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(refresh.normalise(notebook), target)
        ruff = [sys.executable, "-m", "ruff"]
        subprocess.run([*ruff, "check", "--fix-only", "--quiet", target], check=True)
        subprocess.run([*ruff, "format", "--quiet", target], check=True)
        notebook = nbformat.read(target, as_version=4)
        failed |= not refresh.execute(notebook, target)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
