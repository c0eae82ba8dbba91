"""What a release publishes: the package, all of it, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

import softtopk

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "softtopk"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
sys.path.insert(0, str(ROOT / "tools"))

import dist  # noqa: E402

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf8")
DATED = re.findall(r"^## \[(\S+)\] - (20\S+)$", CHANGELOG, re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]


@pytest.fixture(scope="module")
def files():
    """The names of the package's files, as they are in the checkout."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("wheel")
    for name in (*files, *dist.BESIDE):
        (root / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / "source" / name)
    command = [*PIP, "wheel", "--no-deps", "--wheel-dir", root, root / "source"]
    subprocess.run(command, check=True)
    (found,) = root.glob("*.whl")
    return found


# --- Contents ------------------------------------------------------------------------


def test_the_wheel_holds_every_file_of_the_package(wheel, files):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == files
    assert names == dist.contents(wheel)


def test_what_is_published_is_the_package_alone(files):
    about = f"softtopk-{softtopk.__version__}.dist-info/"
    assert {n for n in dist.expected(Path("a.whl")) if n.startswith(about)} == {
        about + name for name in ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE")
    }
    sdist = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    for name, beside in (("a.tar.gz", sdist), ("a.whl", set())):
        assert {
            n for n in dist.expected(Path(name)) if not n.startswith(about)
        } == beside | set(dist.tracked())
    assert set(dist.tracked()) <= files


def test_contents_are_read_from_the_files(tmp_path):
    (tmp_path / "a-1").mkdir()
    (tmp_path / "a-1" / "b.txt").write_text("b")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a-1" / "b.txt", "a-1/b.txt")
    assert dist.contents(tmp_path / "a.tar.gz") == {"b.txt"}


def test_every_operator_works_from_the_wheel_on_numpy_alone(wheel, tmp_path):
    subprocess.run(
        [*PIP, "install", "--no-deps", "--target", tmp_path, wheel], check=True
    )
    packages = Path(np.__file__).parents[1]
    # Without site there is no way from here to the checkout.
    start = (
        "import runpy, sys\n"
        "use, wheel, numpy = sys.argv[1:]\n"
        "sys.path[:0] = [wheel, numpy]\n"
        "sys.argv = [use, '--from', wheel]\n"
        "runpy.run_path(use, run_name='__main__')\n"
    )
    command = [sys.executable, "-I", "-S", "-c", start]
    subprocess.run(
        [*command, ROOT / "tools" / "use.py", tmp_path, packages], check=True
    )


def test_the_wheel_says_what_the_sources_say(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("/METADATA")]
        text = archive.read(name).decode("utf8")
    assert f"\nVersion: {softtopk.__version__}\n" in text
    assert "\nLicense-Expression: BSD-3-Clause\n" in text
    assert "\nRequires-Dist: numpy>=" in text


def test_a_claim_is_checked_where_the_output_has_no_tick():
    """As on Windows, where an output that is not a console has its code page."""
    given = os.environ | {"PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, ROOT / "tools" / "use.py", "symbolic"]
    run = subprocess.run(command, capture_output=True, env=given, check=True)
    assert run.stdout.split(b"\n")[0].strip() == b"an identity checked"


# --- The version ---------------------------------------------------------------------


def test_the_version_stands_in_one_place():
    assert dist.version() == softtopk.__version__
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT


def test_the_version_is_the_last_release_or_leads_to_the_next():
    def parts(text):
        return tuple(int(part) for part in text.removesuffix(".dev0").split("."))

    last = DATED[0][0]
    if softtopk.__version__.endswith(".dev0"):
        assert parts(softtopk.__version__) > parts(last)
        coming = softtopk.__version__.removesuffix(".dev0")
        assert f"## [{coming}] - unreleased\n" in CHANGELOG
    else:
        assert softtopk.__version__ == last
        assert "unreleased" not in CHANGELOG
    numbers = [parts(number) for number, _ in DATED]
    assert numbers == sorted(numbers, reverse=True)


def test_a_citation_is_of_the_last_release():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf8")
    number, day = DATED[0]
    assert f"\nversion: {number}\n" in text
    assert f'\ndate-released: "{day}"\n' in text


def test_the_changelog_is_grouped():
    groups = ["Added", "Changed", "Removed", "Fixed"]
    headings = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert len(headings) == len(DATED) + ("unreleased" in CHANGELOG)
    for part in re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^#{3,} (.*)$", part, re.MULTILINE)
        assert found
        assert found == [group for group in groups if group in found]


def test_notes_and_tag_need_a_dated_section():
    assert dist.section(CHANGELOG, DATED[0][0]).startswith("### Added")
    with pytest.raises(ValueError, match=r"no dated section \[0\.0\.0\]"):
        dist.section(CHANGELOG, "0.0.0")
    command = [sys.executable, ROOT / "tools" / "dist.py", "tag", "v0.0.0"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"v0.0.0 is not v{softtopk.__version__}" in run.stderr


def test_tests_that_need_the_checkout_are_left_out_where_there_is_none():
    paths = [*ROOT.glob("tests/package/*.py"), *ROOT.glob("tests/frameworks/*.py")]
    outside = {p.name for p in paths if "parents[2]" in p.read_text(encoding="utf8")}
    assert outside == set(dist.OF_THE_CHECKOUT)
    left = "|".join(Path(name).stem for name in outside)
    for path in paths:
        if path.name not in outside:
            text = path.read_text(encoding="utf8")
            assert not re.search(rf"^(from|import) ({left})\b", text, re.M), path


# --- Addresses -----------------------------------------------------------------------


def test_no_link_of_the_published_readme_leads_nowhere():
    text = (ROOT / "README.md").read_text(encoding="utf8")
    targets = re.compile(r"\]\(([^)\s]+)\)")
    assert any(not target.startswith("https:") for target in targets.findall(text))
    repository, site = "https://example.org/owner/name", "https://example.org/pages"
    for addresses in (("", ""), (repository, ""), ("", site), (repository, site)):
        found = targets.findall(dist.readme(text, addresses[0], "v1", addresses[1]))
        assert found
        assert all(target.startswith(("https://", "#")) for target in found)
        assert addresses[0] or not any(t.startswith(repository) for t in found)
        pages = [t.removeprefix(f"{site}/") for t in found if t.startswith(site)]
        assert bool(pages) == bool(addresses[1])
        for page in pages:
            path = ROOT / page.partition("#")[0]
            assert any(path.with_suffix(s).exists() for s in (".md", ".ipynb"))


def test_the_published_readme_installs_from_the_registry():
    text = (ROOT / "README.md").read_text(encoding="utf8")
    found = dist.readme(text, "", "v1")
    lines = re.findall(r"^pip install (?!-r).*", found, re.MULTILINE)
    names = [line.split("#")[0].split()[-1].strip('"') for line in lines]
    assert names == ["softtopk", "softtopk[torch]"]
    assert len({line.index("#") for line in lines}) == 1
    assert "clone" not in "".join(lines)


def test_addresses_come_from_where_the_book_has_its_own(tmp_path):
    repository, site = "https://example.org/owner/name", "https://owner.example.org"
    given = {"PUBLISH_REPOSITORY": f"{repository}/", "PUBLISH_SITE": site}
    dist.stage(tmp_path, given)
    text = (tmp_path / "pyproject.toml").read_text(encoding="utf8")
    urls = tomllib.loads(text)["project"]["urls"]
    assert urls["Repository"] == repository
    assert urls["Documentation"] == site
    assert f"]({repository}/" in (tmp_path / "README.md").read_text(encoding="utf8")
    assert "urls" not in PROJECT
    with pytest.raises(ValueError, match="PUBLISH_SITE='nowhere' is no address"):
        dist.links("", "nowhere")


# --- The floors ----------------------------------------------------------------------


def test_floors_are_what_the_project_asks_for(tmp_path):
    command = [sys.executable, ROOT / "tools" / "floors.py", "symbolic", "torch"]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ
    )
    lines = run.stdout.split()
    (numpy,) = PROJECT["dependencies"]
    (torch,) = PROJECT["optional-dependencies"]["torch"]
    assert lines[0] == numpy.replace(">=", "==")
    assert lines[-1] == torch.replace(">=", "==")
    assert len(lines) == 2 + len(PROJECT["optional-dependencies"]["symbolic"])
