"""Put the books of earlier releases beside the newest, as they were published.

Usage: python tools/beside.py SITE RELEASES

SITE is the folder of the built pages, and RELEASES holds a folder for each release,
called after its tag, with the archive of its book (``softtopk-book.zip``). Each goes to
a folder of SITE with the name of the tag, and ``versions.html`` lists all of them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_extensions"))  # before tools/live.py

from publish import versions_page  # noqa: E402
from versions import setting, version  # noqa: E402

TAG = re.compile(r"v\d+(\.\d+)*")
ARCHIVE = "softtopk-book.zip"


def order(tag: str) -> list[int]:
    """A key by which the newest release comes last.

    >>> sorted(["v0.10.0", "v0.9.0"], key=order)
    ['v0.9.0', 'v0.10.0']
    """
    return [int(part) for part in tag[1:].split(".")]


def unpack(archive: Path, target: Path) -> None:
    """The pages of an archive, without the folder around them."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(archive, folder)
        (pages,) = Path(folder).glob("**/genindex.html")
        shutil.copytree(pages.parent, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("releases", type=Path)
    given = parser.parse_args()
    found = {path.parent.name: path for path in given.releases.glob(f"*/{ARCHIVE}")}
    tags = sorted(filter(TAG.fullmatch, found), key=order, reverse=True)
    for tag in tags:
        unpack(found[tag], given.site / tag)
    text = versions_page(setting("publish_site"), version(), tags)
    (given.site / "versions.html").write_text(text, encoding="utf8")
    print(f"beside {version()}: {' '.join(tags) or 'none'}")


if __name__ == "__main__":
    main()
