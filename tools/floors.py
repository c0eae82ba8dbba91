"""The oldest releases that pyproject.toml allows, as constraints for pip.

Usage: python tools/floors.py [EXTRA ...] > floors.txt

NumPy's, and those of the extras that are named: ``pip install -c floors.txt`` then
installs what a user with old packages has, and the tests say whether it is enough.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def floor(requirement: str) -> str:
    """The oldest release that a requirement allows.

    >>> floor("dask[array]>=2025.1"), floor("a>=1.0.4.post1,<2")
    ('dask==2025.1', 'a==1.0.4.post1')
    """
    found = re.fullmatch(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)(?:,.*)?", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} names no oldest release (name>=release)")
    return f"{found[1]}=={found[2]}"


def main() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(r for e in sys.argv[1:] for r in extras[e])]
    print("\n".join(map(floor, wanted)))


if __name__ == "__main__":
    main()
