"""Which tests look at a file: by its name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMON = {"adapter", "adapters", "kernels", "operators", "rules", "search"}
"""Words that name a folder or a kind of module, not a subject."""


def nearest(path: str) -> list[str]:
    """The files of tests that share a word with a module's name.

    >>> "tests/package/test_balance.py" in nearest("softtopk/_search/numpy_balance.py")
    True
    >>> nearest("softtopk/_adapters/torch_autograd_costs.py")[-1]
    'tests/package/test_costs.py'
    """
    words = set(re.findall(r"[a-z]{3,}", path.removeprefix("softtopk/"))) - COMMON
    files = (ROOT / "tests").glob("*/test_*.py")
    names = (file.relative_to(ROOT).as_posix() for file in files)
    return sorted(name for name in names if words & set(Path(name).stem.split("_")))
