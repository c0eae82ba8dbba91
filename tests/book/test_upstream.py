"""The patches for other projects apply to what is pinned, and mend what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sphinx_proof
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "upstream").glob("*.patch"))
PACKAGES = Path(sphinx_proof.__file__).parents[1]
README = (ROOT / "upstream" / "README.md").read_text(encoding="utf8")
PAGE = """# Title

```{prf:theorem}
One.
```

```{prf:proof}
Obvious.
```

```{prf:theorem}
Two.
```

```{prf:proof}
Obvious.
```

```{exercise}
:label: one
Show it.
```

```{exercise}
:label: two
Show it.
```

```{solution} one
So.
```

```{solution-start} two
```

So.

```{solution-end}
```
"""
CONF = """
extensions = ["myst_parser", "sphinx_proof", "sphinx_exercise"]
html_theme = "sphinx_book_theme"
"""


def patched(folder: Path) -> Path:
    """Copies of the packages, with every patch."""
    names = {
        re.search(r"^\+\+\+ b/(\w+)/", patch.read_text(), re.MULTILINE)[1]
        for patch in PATCHES
    }
    for name in names:
        shutil.copytree(PACKAGES / name, folder / name)
    for patch in PATCHES:
        command = ["git", "apply", "--whitespace=nowarn", patch]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def built(folder: Path, packages: Path | None) -> BeautifulSoup:
    """The page, built with the packages that stand in a folder."""
    source = folder / "source"
    source.mkdir()
    (source / "index.md").write_text(PAGE)
    (source / "conf.py").write_text(CONF)
    command = [sys.executable, "-m", "sphinx", "-q", source, folder / "html"]
    more = {"PYTHONPATH": str(packages)} if packages else {}
    subprocess.run(command, env=os.environ | more, check=True, capture_output=True)
    text = (folder / "html" / "index.html").read_text(encoding="utf8")
    return BeautifulSoup(text, "html.parser")


def twice(page: BeautifulSoup) -> set[str]:
    """The ids that several elements of a page have."""
    counts = Counter(tag["id"] for tag in page.select("[id]"))
    return {name for name, count in counts.items() if count > 1}


@pytest.mark.parametrize("mended", [False, True])
def test_the_patches_mend_the_page(tmp_path: Path, mended: bool) -> None:
    packages = patched(tmp_path / "packages") if mended else None
    page = built(tmp_path, packages)
    shared = {"proof", "proof-content", "exercise-content", "solution-content"}
    assert twice(page) == (set() if mended else shared)
    (link,) = page.select("a.btn-download-source-button")
    assert ("download" in link.attrs) == mended
    assert ("target" in link.attrs) != mended
    assert len(page.select("div.proof")) == 4
    if packages is None:
        packages = PACKAGES
    script = packages / "sphinx_book_theme" / "assets" / "scripts" / "index.js"
    assert ("event.detail > 0" in script.read_text()) == mended


def test_the_list_names_each_patch_and_its_release() -> None:
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8")
    rows = re.findall(r"^\| `([\w-]+\.patch)` \| (\S+) (\S+) \|", README, re.MULTILINE)
    assert [name for name, *_ in sorted(rows)] == [patch.name for patch in PATCHES]
    for _, package, release in rows:
        assert f"\n{package}=={release}\n" in pins
    for name in re.findall(r"`(book/[\w/.]+)`", README):
        assert (ROOT / name).is_file()
