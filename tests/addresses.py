"""Where the addresses of the published book lead, asked of the checkout.

The checkout stands for the repository on its host, and the built files for the pages.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
BINDER = "https://mybinder.org"


@dataclass(frozen=True)
class Host:
    """What answers at the address of the repository, and at Binder."""

    repository: str
    ref: str

    @cached_property
    def files(self) -> set[str]:
        """What Git tracks: all that is there for whoever follows a link."""
        listed = subprocess.run(
            ["git", "ls-files", "-z"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            encoding="utf8",
        )
        return set(listed.stdout.split("\0")) - {""}

    def answers(self, address: str) -> bool:
        """Whether this host is the one to ask."""
        beside = (self.repository, f"{BINDER}/v2/gh/{self.name}")
        return bool(self.repository) and address.startswith(beside)

    @property
    def name(self) -> str:
        """Owner and name of the repository."""
        return urlsplit(self.repository).path.strip("/")

    def fault(self, address: str) -> str | None:
        """What is wrong with an address of this host; None if nothing is."""
        parts = urlsplit(address)
        asked = parse_qs(parts.query)
        path = unquote(parts.path)
        if address.startswith(BINDER):
            ref = path.removeprefix(f"/v2/gh/{self.name}/")
            (tab,) = asked.get("urlpath", [""])
            return self.missing(ref, tab.removeprefix("lab/tree/"))
        rest = path.removeprefix(f"/{self.name}").strip("/")
        if rest in ("", "issues"):
            return None
        kind, _, rest = rest.partition("/")
        if kind == "issues" and rest == "new":
            return None if {"title", "body"} <= set(asked) else "an empty issue"
        if kind in ("blob", "raw"):
            start = f"{self.ref}/"
            ref = self.ref if rest.startswith(start) else rest.partition("/")[0]
            return self.missing(ref, rest.removeprefix(f"{ref}/"))
        return "nothing of this kind is there"

    def missing(self, ref: str, path: str) -> str | None:
        """A file that is not there, at this commit, tag or branch."""
        if ref != self.ref:
            return f"{ref} is not {self.ref}"
        return None if path in self.files else f"no file {path}"
