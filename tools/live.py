"""Prepare what runs the book's cells in its pages, with no network and no server.

Usage: python tools/live.py [SOURCE]

Pyodide, NumPy, SymPy, Matplotlib and their kin go to ``_build/live``, as scripts that a
page can load from a folder, with the editor and every licence beside them. The files
and their SHA-256 are those of ``book/_live/pyodide-lock.json``; those that are there
are not asked for again. SOURCE, or the environment's LIVE_SOURCE, says where they come
from: a folder or an address that holds a release of Pyodide, or a requirement for pip
whose wheel carries the same files. The editor comes from npm, by the lock file in
``book/_live/editor``.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
LIVE = ROOT / "book" / "_live"
TARGET = ROOT / "_build" / "live"
SOURCE = "open-webui==0.12.4"  # Pyodide 314.0.3 and its wheels lie in its wheel
PART = 1_500_000  # bytes of a script: the steps of the progress bar
LIMIT = 40_000_000

sys.path.insert(0, str(ROOT / "book" / "_extensions"))
from live import script  # noqa: E402  (the path is ours to set)

# --- Where the files come from -------------------------------------------------------


@contextmanager
def opened(source: str) -> Any:
    """A function that reads a file of a source by its name."""
    if source.startswith(("http://", "https://")):
        yield lambda name: urlopen(f"{source.rstrip('/')}/{name}").read()
    elif Path(source).is_dir():
        yield lambda name: Path(source, name).read_bytes()
    else:
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            pip += ["--only-binary=:all:", "--python-version=3.12", f"--dest={folder}"]
            subprocess.run([*pip, source], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                known = {Path(name).name: name for name in archive.namelist()}
                yield lambda name: archive.read(known[name])


def wanted() -> dict[str, str]:
    """The name and the SHA-256 of every file."""
    lock = json.loads((LIVE / "pyodide-lock.json").read_text(encoding="utf8"))
    wheels = {row["file_name"]: row["sha256"] for row in lock["packages"].values()}
    return lock["core"] | wheels


def gather(source: str, folder: Path) -> list[Path]:
    """All files, each checked, in a folder that keeps what it has."""
    folder.mkdir(parents=True, exist_ok=True)
    names = wanted()
    missing = [name for name, pin in names.items() if digest(folder / name) != pin]
    if missing:
        with opened(source) as read:
            for name in missing:
                take(folder / name, names[name], read)
    return [folder / name for name in names]


def take(path: Path, pin: str, read: Callable[[str], bytes]) -> None:
    """One file, if it is the one that is pinned."""
    path.write_bytes(read(path.name))
    if digest(path) != pin:
        path.unlink()
        raise SystemExit(f"{path.name} is not the file that is pinned")


def digest(path: Path) -> str:
    """The SHA-256 of a file; empty where there is none."""
    return sha256(path.read_bytes()).hexdigest() if path.exists() else ""


# --- What becomes of them ------------------------------------------------------------


def write(folder: Path, path: Path) -> None:
    """A file as scripts, none larger than a step of the progress bar."""
    data, name = path.read_bytes(), path.name
    if path.suffix not in (".whl", ".zip"):  # those are compressed
        data, name = gzip.compress(data, mtime=0), f"{name}.gz"
    text = base64.b64encode(data).decode()
    for part, start in enumerate(range(0, len(text), PART)):
        code = script(name, text[start : start + PART], part, -(-len(text) // PART))
        (folder / f"{path.name}.{part}.js").write_text(code, encoding="utf8")


def licences(folder: Path, files: list[Path]) -> None:
    """The licences that the files carry, and those of Pyodide."""
    shutil.copytree(LIVE / "licences", folder)
    for path in files:
        if path.suffix != ".whl":
            continue
        place = folder / path.name.partition("-")[0]
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                words = Path(name).name.upper()
                if words.startswith(("LICEN", "COPYING", "NOTICE")):
                    kept = place / name
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    kept.write_bytes(wheel.read(name))


def compiled(files: list[Path], folder: Path) -> list[Path]:
    """The files, with what every page imports compiled: Python starts sooner."""
    program = LIVE / "compile.mjs"
    state = state_of([program, *files])
    mark = folder / "made"
    if not (mark.exists() and mark.read_text() == state):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        subprocess.run([tool("node"), program, files[0].parent, folder], check=True)
        mark.write_text(state)
    made = {path.name: path for path in folder.glob("*.whl")}
    return [made.get(path.name, path) for path in files]


def state_of(paths: list[Path]) -> str:
    """One name for what some files hold."""
    return sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def tool(name: str) -> str:
    """A program of Node.js."""
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"there is no {name}: install Node.js")
    return found


def editor(work: Path, folder: Path) -> None:
    """The editor: CodeMirror in one script, and its licences."""
    npm, made, mark = tool("npm"), work / "editor.js", work / "made"
    state = state_of(sorted((LIVE / "editor").iterdir()))
    if not (mark.exists() and mark.read_text() == state):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(LIVE / "editor", work)
        quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([npm, "ci", *quiet], cwd=work, check=True)
        bundle = [npm, "exec", "--offline", "--", "esbuild", "main.js", "--bundle"]
        bundle += ["--minify", "--format=iife", "--log-level=error"]
        subprocess.run([*bundle, f"--outfile={made}"], cwd=work, check=True)
        mark.write_text(state)
    shutil.copy(made, folder)
    for path in sorted((work / "node_modules").rglob("LICENSE*")):
        package = path.parent.relative_to(work / "node_modules")
        if "esbuild" not in package.parts[0]:  # the tool is in no page
            kept = folder / "licences" / package
            kept.mkdir(parents=True)
            shutil.copy(path, kept)


def main() -> None:
    source = (sys.argv[1:] or [os.environ.get("LIVE_SOURCE") or SOURCE])[0]
    files = gather(source, TARGET / "files")
    with tempfile.TemporaryDirectory(dir=TARGET) as place:
        folder = Path(place, "assets")
        folder.mkdir()
        for path in compiled(files, TARGET / "compiled"):
            write(folder, path)
        licences(folder / "licences", files)
        editor(TARGET / "editor", folder)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > LIMIT:
            raise SystemExit(f"the assets are {size} bytes, and may be {LIMIT} at most")
        shutil.rmtree(TARGET / "assets", ignore_errors=True)
        folder.rename(TARGET / "assets")
    print(
        f"{size / 1e6:.1f} MB in {TARGET / 'assets'}; `make book` takes them from there"
    )


if __name__ == "__main__":
    main()
