"""Build what a release publishes, check it, install it and use it.

Usage: python tools/dist.py build [FOLDER]
       python tools/dist.py try FILE [EXTRA ...] [--tests] [--frameworks]
       python tools/dist.py tag TAG
       python tools/dist.py notes

build
    Writes the sdist and the wheel of the package into FOLDER (``dist``), twice, from
    two copies of the files that Git tracks, and refuses them unless both builds have
    the same bytes, hold what they should hold and pass twine's check. The wheel is
    built from the sdist. ``PUBLISH_REPOSITORY`` and ``PUBLISH_SITE``, if they are set,
    become the project's links, as they do in the book (``_config.yml``).
try
    Installs FILE, a wheel or an sdist, with its extras in a new environment outside of
    the checkout, and uses each of them. With ``--tests`` the tests of the package and
    its doctests run there too, and with ``--frameworks`` those of the frameworks, which
    need the extras torch, jax and dask and take several times as long.
tag
    Fails unless TAG, with its leading v, is the version that the sources declare and
    the changelog has a dated section for it.
notes
    Prints the section of the changelog that belongs to the version.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book" / "_extensions"))

from versions import tag, version  # noqa: E402

BESIDE = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
PINS = "requirements-frameworks.txt"  # constraints of the environments that try a file
NEEDED = ("symbolic", "figures")  # extras that the tests of the package import
RUNNER = ("pytest", "pytest-xdist", "hypothesis", "scipy")
# What a test needs of the checkout that no installed package has.
OF_THE_CHECKOUT = (
    "test_rooms.py",
    "test_wheel.py",
    "test_kernels_compiled.py",
    "test_page.py",
    "test_training.py",
    "test_recipes.py",
    "test_labels.py",
    "test_language.py",
    "test_autoencoder.py",
)

# --- What the sources say ------------------------------------------------------------


def section(changelog: str, wanted: str) -> str:
    """The text under the dated heading of one version.

    >>> text = "## [1.0] - 2026-01-02\\n\\n- b\\n\\n## [0.9] - 2025-01-02\\n"
    >>> section(text, "1.0")
    '- b'
    """
    heading = rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise ValueError(f"CHANGELOG.md has no dated section [{wanted}] with text")
    return found[1].strip()


def links(repository: str, site: str) -> dict[str, str]:
    """The addresses that PyPI shows beside the project.

    >>> list(links("https://example.org/a/b", ""))
    ['Repository', 'Issues', 'Changelog']
    >>> links("", "https://a.example.org/b")
    {'Documentation': 'https://a.example.org/b'}
    """
    for name, address in (("REPOSITORY", repository), ("SITE", site)):
        if address and not (
            urlsplit(address).scheme == "https" and urlsplit(address).netloc
        ):
            raise ValueError(f"PUBLISH_{name}={address!r} is no address with https://")
    found = {"Documentation": site} if site else {}
    if repository:
        found |= {
            "Repository": repository,
            "Issues": f"{repository}/issues",
            "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        }
    return found


def page(target: str, site: str) -> str:
    """The published page of a chapter, of a Part or of a place in one, if it has one.

    >>> page("book/training/loop.ipynb#a", "https://b"), page("book/training", "https://b")
    ('https://b/book/training/loop.html#a', 'https://b/book/training/part.html')
    >>> page("CHANGELOG.md", "https://b"), page("book/training", "")
    ('', '')
    """
    found = re.fullmatch(r"(book/[\w/-]+?)(/?|\.md|\.ipynb)(#.*)?", target)
    if not site or found is None:
        return ""
    name = found[1] if found[2].startswith(".") else f"{found[1]}/part"
    there = any((ROOT / f"{name}{end}").is_file() for end in (".md", ".ipynb"))
    return f"{site}/{name}.html{found[3] or ''}" if there else ""


def readme(text: str, repository: str, ref: str, site: str = "") -> str:
    """The README as PyPI can show it, where no path leads into the repository.

    A link to a chapter leads to its published page, any other to the repository, at
    `ref`; where there are none, its words remain, and a picture goes. The package is
    installed from the registry, instead of a clone.

    >>> readme("[a](b.md) ![c](d.png) [e](https://f)", "https://g/h", "v1")
    '[a](https://g/h/blob/v1/b.md) ![c](https://g/h/raw/v1/d.png) [e](https://f)'
    >>> readme("[a](b.md) ![c](d.png) [e](https://f)", "", "v1")
    'a  [e](https://f)'
    >>> readme('pip install ".[torch]"         # a comment', "", "v1")
    'pip install "softtopk[torch]"  # a comment'
    """
    install = r'pip install ("?)\.((?:\[\w+\])?"?) {7}'
    text = re.sub(install, r"pip install \1softtopk\2", text)
    text = text.replace("# in a clone of this repository; ", "# ")

    def replace(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if urlsplit(target).scheme or target.startswith("#"):
            return link[0]
        if address := page(target, site):
            return f"[{words}]({address})"
        if not repository:
            return "" if mark else words
        kind = "raw" if mark else "blob"
        return f"{mark}[{words}]({repository}/{kind}/{ref}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", replace, text)


# --- Building ------------------------------------------------------------------------


def tracked() -> list[str]:
    """The files of the package that Git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "softtopk"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf8",
    )
    return sorted(name for name in listed.stdout.split("\0") if name)


def stage(folder: Path, environment: Mapping[str, str]) -> None:
    """A copy of what is published, with its addresses filled in."""
    for name in (*tracked(), *BESIDE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    repository, site = (
        environment.get(f"PUBLISH_{name}", "").rstrip("/")
        for name in ("REPOSITORY", "SITE")
    )
    ref = tag(version()) or "main"
    first = folder / "README.md"
    text = readme(first.read_text(encoding="utf8"), repository, ref, site)
    first.write_text(text, encoding="utf8", newline="\n")
    if found := links(repository, site):
        lines = "".join(f'{name} = "{address}"\n' for name, address in found.items())
        project = folder / "pyproject.toml"
        text = project.read_text(encoding="utf8") + f"\n[project.urls]\n{lines}"
        tomllib.loads(text)
        project.write_text(text, encoding="utf8", newline="\n")


def built(environment: Mapping[str, str]) -> dict[str, bytes]:
    """The bytes of the sdist and of the wheel that comes from it, by name."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf8",
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "dist")
        stage(source, environment)
        subprocess.run(
            [
                *(sys.executable, "-m", "build", "--no-isolation"),
                *("--outdir", str(target), str(source)),
            ],
            env={**environment, "SOURCE_DATE_EPOCH": commit.stdout.strip()},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return {path.name: path.read_bytes() for path in sorted(target.iterdir())}


def contents(path: Path) -> set[str]:
    """The files in an sdist, without its folder, or in a wheel."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def expected(path: Path) -> set[str]:
    """The files that an sdist or a wheel of this checkout holds."""
    if path.suffix != ".whl":
        return {*tracked(), *BESIDE, "PKG-INFO"}
    about = f"softtopk-{version()}.dist-info"
    names = ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE")
    return {*tracked(), *(f"{about}/{name}" for name in names)}


def build(folder: Path) -> None:
    """Both files, checked, in a folder."""
    first, second = built(os.environ), built(os.environ)
    if first != second:
        raise SystemExit(f"two builds differ: {sorted(first)}")
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("softtopk-*.whl"), *folder.glob("softtopk-*.tar.gz")]:
        old.unlink()
    for name, data in first.items():
        (folder / name).write_bytes(data)
        found, wanted = contents(folder / name), expected(folder / name)
        if found != wanted:
            raise SystemExit(f"{name} differs from the sources in {found ^ wanted}")
    files = [folder / name for name in first]
    subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files],
        check=True,
    )
    for path in files:
        print(sha256(path.read_bytes()).hexdigest(), path)


# --- Installing and using ------------------------------------------------------------


@contextmanager
def environment() -> Iterator[tuple[Path, str]]:
    """A folder, and the interpreter of a new environment in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        yield folder, str(folder / "env" / inside)


def attempt(path: Path, extras: list[str], tests: list[str]) -> None:
    """Install a file in a new environment and use it there."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean |= {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    wanted = list(dict.fromkeys([*(NEEDED if tests else ()), *extras]))
    with environment() as (folder, python):

        def run(*arguments: str | Path) -> None:
            subprocess.run([python, *arguments], cwd=folder, env=clean, check=True)

        chosen = f"[{','.join(wanted)}]" if wanted else ""
        run(
            *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *os.environ.get("TORCH_INDEX", "").split(),
            *("--constraint", ROOT / PINS),
            f"softtopk{chosen} @ {path.resolve().as_uri()}",
            *(RUNNER if tests else ()),
            *(["distributed"] if "frameworks" in tests else []),
        )
        run("-m", "pip", "check")
        shutil.copy(ROOT / "tools" / "use.py", folder)
        run("use.py", "--from", folder / "env", *wanted)
        if tests:
            tested(folder, tests, run)


def tested(folder: Path, tests: list[str], run: Callable[..., None]) -> None:
    """Run folders of the checkout's tests away from the checkout."""
    skip = shutil.ignore_patterns("__pycache__", *OF_THE_CHECKOUT)
    for name in {"package", *tests}:  # the frameworks' tests use the package's oracle
        shutil.copytree(ROOT / "tests" / name, folder / "tests" / name, ignore=skip)
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "conftest.py").write_text(
        "import pathlib, sys, softtopk\n"
        "assert pathlib.Path(softtopk.__file__).is_relative_to(sys.prefix)\n",
        encoding="utf8",
    )
    jobs = os.environ.get("JOBS", "2")
    pytest = ("-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal")
    for name in tests:
        run(*pytest, f"tests/{name}")
    run(*pytest, "--doctest-ignore-import-errors", "--pyargs", "softtopk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument(
        "folder", type=Path, nargs="?", default=ROOT / "dist"
    )
    one = commands.add_parser("try")
    one.add_argument("file", type=Path)
    one.add_argument("extras", nargs="*")
    for name, folder in (("--tests", "package"), ("--frameworks", "frameworks")):
        one.add_argument(name, dest="tests", action="append_const", const=folder)
    commands.add_parser("tag").add_argument("tag")
    commands.add_parser("notes")
    given = parser.parse_args()
    if given.command == "build":
        build(given.folder)
    elif given.command == "try":
        attempt(given.file, given.extras, given.tests or [])
    else:
        if given.command == "tag" and given.tag != tag(version()):
            raise SystemExit(f"the tag {given.tag} is not v{version()} of the sources")
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
        notes = section(text, version())
        if given.command == "notes":
            print(notes)


if __name__ == "__main__":
    main()
