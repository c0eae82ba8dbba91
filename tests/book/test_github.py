"""The files that GitHub reads: workflows and issue forms, checked without GitHub."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
FORMS = sorted(
    path
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")
    if path.name != "config.yml"
)
README = (ROOT / "README.md").read_text(encoding="utf8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def load(path: Path) -> Any:
    """The content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf8"))


def name_of(path: Path) -> str:
    """Name of a file in a test's id."""
    return path.name


# --- Links ---------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The places of a file that GitHub's links lead to: a heading without its signs."""
    text = path.read_text(encoding="utf8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in found}


def dead_anchors(text: str) -> list[str]:
    """Links of a file in the root into others, to a place that they do not have."""
    links = re.findall(r"\]\(([^)\s:#]+\.(?:md|ipynb))#([^)\s]+)\)", text)
    return [f"{file}#{at}" for file, at in links if at not in anchors(ROOT / file)]


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=name_of)
def test_links_into_other_files_lead_to_a_heading(path: Path) -> None:
    assert dead_anchors(path.read_text(encoding="utf8")) == []


def test_anchor_guard_finds_the_fault() -> None:
    text = "[a](CONTRIBUTING.md#nowhere) [b](README.md#softtopk)"
    assert "CONTRIBUTING.md#nowhere" in dead_anchors(text)


def test_the_ways_of_the_readme_are_there() -> None:
    """With make and without."""
    for name in re.findall(r"^pip install -r (\S+)", README, re.MULTILINE):
        assert (ROOT / name).is_file()
    assert set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE)) <= TARGETS
    recipe = MAKEFILE.partition("\nlab: ")[2].partition("\n\n")[0]
    (chapter,) = re.findall(r"default_url=/lab/tree/(\S+)", recipe)
    assert (ROOT / chapter).is_file()
    lab = (ROOT / ".binder" / "requirements.txt").read_text(encoding="utf8")
    assert "\njupyterlab_myst==" in lab
    assert re.search(r"^\$\(LAB\)/.installed: \.binder/requirements", MAKEFILE, re.M)


# --- Workflows -----------------------------------------------------------------------


def steps_of(workflow: dict[Any, Any]) -> Iterator[dict[str, Any]]:
    """Every step of every job."""
    for job in workflow["jobs"].values():
        yield from job["steps"]


def rows_of(job: dict[str, Any]) -> list[dict[str, str]]:
    """What a job's matrix lists."""
    return job.get("strategy", {}).get("matrix", {}).get("include", [])


def workflow_faults(workflow: dict[Any, Any]) -> list[str]:
    """What GitHub would refuse, or what would fail or be unsafe there."""
    faults = []
    if not {"name", True, "permissions", "jobs"} <= set(workflow):  # YAML: on is true
        faults.append("name, on, permissions or jobs is missing")
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        if not {"runs-on", "timeout-minutes", "steps"} <= set(job):
            faults.append(f"{name}: no runs-on, timeout-minutes or steps")
        needs = job.get("needs", [])
        for other in [needs] if isinstance(needs, str) else needs:
            if other not in jobs:
                faults.append(f"{name}: needs {other}")
        ids = {step["id"] for step in job["steps"] if "id" in step}
        for used in re.findall(r"steps\.(\w+)\.", str(job)):
            if used not in ids:
                faults.append(f"{name}: no step {used}")
        for used in re.findall(r"matrix\.(\w+)", str(job)):
            if not all(used in row for row in rows_of(job)) or not rows_of(job):
                faults.append(f"{name}: no {used} in the matrix")
    for step in steps_of(workflow):
        if ("uses" in step) == ("run" in step):
            faults.append(f"a step is either uses or run: {step}")
        if step.get("uses", "").startswith("./"):
            if not (ROOT / step["uses"] / "action.yml").is_file():
                faults.append(f"{step['uses']}: no such action")
        elif "uses" in step and not re.fullmatch(
            r"[\w-]+/[\w-]+@(v\d+(\.\d+)*|[0-9a-f]{40})", step["uses"]
        ):
            faults.append(f"{step['uses']}: not pinned by its tag")
        faults += run_faults(step.get("run", ""))
    return faults


def run_faults(script: str) -> list[str]:
    """Commands of the project that do not exist, and text of others in a shell."""
    faults = []
    for words in re.findall(r"^\s*make ([a-z ]+)$", script, re.MULTILINE):
        faults += [f"no make {word}" for word in words.split() if word not in TARGETS]
    for python, path in re.findall(
        r"(?:^|[\s(]|bin/)(python )?((?:tools|\.ci)/[\w./-]+)", script
    ):
        if not (ROOT / path).is_file():
            faults.append(f"no file {path}")
        elif not (python or (ROOT / path).stat().st_mode & 0o100):
            faults.append(f"{path} cannot be run")
    if "${{" in script:
        faults.append("an expression in a script: pass it through env")
    return faults


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_workflow_is_sound(path: Path) -> None:
    assert workflow_faults(load(path)) == []


def test_what_is_kept_between_runs_is_named_after_what_makes_it() -> None:
    """A figure is kept as long as its digest is the same."""
    (path,) = ACTIONS
    steps = load(path)["runs"]["steps"]
    keys = [step["with"] for step in steps if "cache" in step.get("uses", "")]
    kept = {each["path"]: re.findall(r"'([^']+)'", each["key"]) for each in keys}
    for patterns in kept.values():
        assert all(any(ROOT.glob(pattern)) for pattern in patterns)
    assert kept.keys() == {".venv", ".venv-frameworks", "_build/figures", "_build/live"}
    drawing = {"tools/draw.py", "tools/vector.py", "book/_extensions/drawn.py"}
    assert drawing | {"softtopk/**/*.py", "book/**/*.ipynb"} == {
        *kept["_build/figures"]
    }


def test_there_is_a_check_a_weekly_run_and_a_release() -> None:
    workflows = {path.stem: load(path) for path in WORKFLOWS}
    assert {"push", "pull_request"} <= set(workflows["check"][True])
    assert "schedule" in workflows["newest"][True]
    assert workflows["release"][True]["push"] == {"tags": ["v*"]}
    assert "workflow_dispatch" in workflows["release"][True]


def test_actions_are_pinned_by_commit_and_a_bot_raises_them() -> None:
    for path in [*WORKFLOWS, *ACTIONS]:
        text = path.read_text(encoding="utf8")
        for line in re.findall(r"uses: (?!\./)(.*)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    (update,) = load(GITHUB / "dependabot.yml")["updates"]
    assert update["package-ecosystem"] == "github-actions"


def test_a_job_has_no_permission_that_it_does_not_name() -> None:
    for path in WORKFLOWS:
        workflow = load(path)
        assert workflow["permissions"] == {}
        for name, job in workflow["jobs"].items():
            assert "permissions" in job, name
            checkouts = [s for s in job["steps"] if "checkout@" in s.get("uses", "")]
            for step in checkouts:
                assert step["with"]["persist-credentials"] is False
                assert job["permissions"]["contents"] == "read"


def test_the_package_is_tried_on_all_that_it_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    promised = {f"3.{c[len(prefix) :]}" for c in project["classifiers"] if prefix in c}
    least = min(promised)
    assert project["requires-python"] == f">={least}"
    assert f"Python {least} to {max(promised)}" in README
    (numpy,) = project["dependencies"]
    assert f"NumPy {numpy.removeprefix('numpy>=')} or newer" in README
    # Every week, the newest releases on each Python, and the oldest on the oldest,
    # which they still have a wheel for.
    rows = rows_of(load(GITHUB / "workflows" / "newest.yml")["jobs"]["package"])
    assert {r["python"] for r in rows if r["releases"] == "newest"} == promised
    assert [r["python"] for r in rows if r["releases"] == "oldest"] == [least]
    # A release on each Python and system, a change on the first and last Python.
    tried = load(GITHUB / "workflows" / "release.yml")["jobs"]["wheel"]
    checked = load(GITHUB / "workflows" / "check.yml")["jobs"]["package"]
    for job, pythons in ((tried, promised), (checked, {least, max(promised)})):
        found = {(r["system"].split("-")[0], r["python"]) for r in rows_of(job)}
        systems = ("ubuntu", "macos", "windows")
        assert found == {(s, python) for s in systems for python in pythons}


def test_every_weekly_failure_is_told() -> None:
    jobs = load(GITHUB / "workflows" / "newest.yml")["jobs"]
    assert set(jobs["report"]["needs"]) == set(jobs) - {"report"}
    assert jobs["report"]["if"] == "failure()"
    assert jobs["report"]["permissions"] == {"issues": "write"}


def test_every_copy_is_run_every_week_and_some_with_every_change() -> None:
    weekly = load(GITHUB / "workflows" / "newest.yml")["jobs"]["copies"]["steps"]
    assert any(s.get("run", "").endswith("tools/copies.py --fresh") for s in weekly)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf8").replace("\\\n", "")
    (names,) = re.findall(r"tools/copies\.py (.*)", script)
    paths = [ROOT / "book" / f"{name}.ipynb" for name in names.split()]
    codes = [path.read_text(encoding="utf8") for path in paths]
    for kind in ("import sympy", "../../benchmarks/", "import torch"):
        assert any(kind in code for code in codes)


def writers(workflow: dict[Any, Any]) -> dict[str, dict[str, str]]:
    """The jobs that may change something outside of themselves."""
    return {
        name: job["permissions"]
        for name, job in workflow["jobs"].items()
        if "write" in job["permissions"].values()
    }


def test_only_main_is_published() -> None:
    workflow = load(GITHUB / "workflows" / "check.yml")
    assert list(writers(workflow)) == ["publish"]
    publish = workflow["jobs"]["publish"]
    assert set(publish["needs"]) == set(workflow["jobs"]) - {"publish"}
    assert "refs/heads/main" in publish["if"]


def test_what_is_published_was_tested() -> None:
    """The pages are tested with addresses, and again before they are uploaded."""
    jobs = load(GITHUB / "workflows" / "check.yml")["jobs"]
    addresses = {f"PUBLISH_{name}" for name in ("SITE", "REPOSITORY", "REF")}
    (tested,) = (s for s in jobs["book"]["steps"] if ".ci/run" in s.get("run", ""))
    assert addresses <= set(tested["env"])
    steps = jobs["publish"]["steps"]
    made, links, upload = (
        next(n for n, step in enumerate(steps) if word in str(step))
        for word in ("make live site", "tests/browser/test_links.py", "upload-pages")
    )
    assert made < links < upload
    assert set(steps[made]["env"]) == addresses
    assert steps[made]["env"] == steps[links]["env"]


def test_a_release_needs_a_tag_and_all_that_was_tried() -> None:
    workflow = load(GITHUB / "workflows" / "release.yml")
    jobs = workflow["jobs"]
    assert writers(workflow) == {
        "pypi": {"id-token": "write"},
        "notes": {"contents": "write"},
    }
    for name in writers(workflow):
        assert "github.event_name == 'push'" in jobs[name]["if"]
        assert "github.ref_type == 'tag'" in jobs[name]["if"]
        # What publishes runs no code of the checkout.
        assert not any("checkout@" in s.get("uses", "") for s in jobs[name]["steps"])
    assert set(jobs["pypi"]["needs"]) == set(jobs) - {"pypi", "notes"}
    assert jobs["notes"]["needs"] == "pypi"
    assert "secrets." not in str(workflow)


def sound_workflow() -> dict[Any, Any]:
    """A workflow to be spoilt."""
    steps = [{"uses": "actions/checkout@v5", "id": "code"}, {"run": "make test"}]
    job = {"runs-on": "ubuntu-24.04", "timeout-minutes": 5, "steps": steps}
    return {"name": "w", True: {"push": None}, "permissions": {}, "jobs": {"a": job}}


def test_workflow_check_passes_a_sound_one() -> None:
    assert workflow_faults(sound_workflow()) == []


@pytest.mark.parametrize(
    "step",
    [
        {"uses": "actions/checkout"},
        {"uses": "actions/checkout@main"},
        {"run": "make nothing"},
        {"run": "tools/nothing.sh"},
        {"run": "tools/dist.py build"},
        {"run": "python tools/nothing.py build"},
        {"run": "README.md", "uses": "actions/checkout@v5"},
        {"run": "echo ${{ github.event.issue.title }}"},
        {"run": "echo $A", "env": {"A": "${{ steps.missing.outputs.a }}"}},
        {"run": "echo $A", "env": {"A": "${{ matrix.python }}"}},
    ],
)
def test_workflow_check_finds_the_fault(step: dict[str, Any]) -> None:
    workflow = sound_workflow()
    workflow["jobs"]["a"]["steps"].append(step)
    assert workflow_faults(workflow)


@pytest.mark.parametrize("key", ["name", True, "permissions"])
def test_workflow_check_misses_no_key(key: Any) -> None:
    workflow = sound_workflow()
    del workflow[key]
    assert workflow_faults(workflow)


# --- Issue forms ---------------------------------------------------------------------

FORM_KEYS = {"name", "description", "title", "labels", "assignees", "type", "body"}
ATTRIBUTES = {
    "markdown": ({"value"}, set()),
    "input": ({"label"}, {"description", "value"}),
    "textarea": ({"label"}, {"description", "value", "render"}),
    "dropdown": ({"label", "options"}, {"description", "multiple", "default"}),
    "checkboxes": ({"label", "options"}, {"description"}),
}


def form_faults(form: dict[str, Any]) -> list[str]:
    """What GitHub's rules for issue forms forbid."""
    faults = [f"key {key}" for key in set(form) - FORM_KEYS]
    faults += [
        f"no {key}"
        for key in ("name", "description")
        if not isinstance(form.get(key), str) or not form[key].strip()
    ]
    body = form.get("body") or []
    if not any(element.get("type") != "markdown" for element in body):
        faults.append("no field")
    for element in body:
        faults += element_faults(element)
    for what, names in (
        ("id", [e["id"] for e in body if "id" in e]),
        ("label", [e.get("attributes", {}).get("label") for e in body]),
    ):
        repeated = [n for n, count in Counter(names).items() if n and count > 1]
        faults += [f"{what} {name} stands twice" for name in repeated]
    return faults


def element_faults(element: dict[str, Any]) -> list[str]:
    """The same for one element of a form."""
    kind = element.get("type")
    if kind not in ATTRIBUTES:
        return [f"type {kind}"]
    required, optional = ATTRIBUTES[kind]
    attributes = element.get("attributes", {})
    faults = [f"{kind}: no {key}" for key in required - set(attributes)]
    faults += [f"{kind}: key {key}" for key in set(attributes) - required - optional]
    faults += [
        f"{kind}: key {key}"
        for key in set(element) - {"type", "id", "attributes", "validations"}
    ]
    if kind != "markdown" and not re.fullmatch(r"[\w-]+", str(element.get("id", ""))):
        faults.append(f"{kind}: id {element.get('id')!r}")
    checks = element.get("validations", {})
    if set(checks) - {"required"} or not all(
        isinstance(v, bool) for v in checks.values()
    ):
        faults.append(f"{kind}: validations {checks}")
    if "options" in required:
        options = attributes.get("options") or []
        if kind == "checkboxes":
            options = [option.get("label") for option in options]
        texts = all(isinstance(option, str) and option.strip() for option in options)
        if not options or not texts or len(set(options)) < len(options):
            faults.append(f"{kind}: options {options}")
    return faults


@pytest.mark.parametrize("path", FORMS, ids=name_of)
def test_form_is_sound(path: Path) -> None:
    assert form_faults(load(path)) == []


def test_form_names_are_unique() -> None:
    names = [load(path)["name"] for path in FORMS]
    assert len(set(names)) == len(names) == 2


def test_chooser_is_sound() -> None:
    config = load(GITHUB / "ISSUE_TEMPLATE" / "config.yml")
    assert set(config) <= {"blank_issues_enabled", "contact_links"}
    for link in config["contact_links"]:
        assert set(link) == {"name", "url", "about"}
        assert link["url"].startswith("https://")


def test_an_error_in_the_mathematics_says_where() -> None:
    body = load(GITHUB / "ISSUE_TEMPLATE" / "mathematics.yml")["body"]
    (where,) = [element for element in body if element.get("id") == "where"]
    assert where["validations"]["required"]
    assert "claim" in where["attributes"]["description"]
    assert "equation" in where["attributes"]["description"]


FIELD = {"type": "input", "id": "a", "attributes": {"label": "A"}}
CHOICE = {"type": "dropdown", "id": "b", "attributes": {"label": "B", "options": ["x"]}}


def form_of(*body: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A form."""
    return {"name": "Form", "description": "About.", "body": list(body)} | keys


def test_form_check_passes_a_sound_one() -> None:
    assert form_faults(form_of(FIELD, CHOICE)) == []


@pytest.mark.parametrize(
    "form",
    [
        form_of(FIELD, name=""),
        form_of(FIELD, about="GitHub's older key"),
        form_of({"type": "markdown", "attributes": {"value": "Words."}}),
        form_of(FIELD, FIELD),
        form_of(FIELD, FIELD | {"id": "b"}),
        form_of(FIELD | {"type": "text"}),
        form_of(FIELD | {"id": "a b"}),
        form_of(FIELD | {"attributes": {}}),
        form_of(FIELD | {"validations": {"required": "yes"}}),
        form_of(FIELD | {"required": True}),
        form_of(CHOICE | {"attributes": {"label": "B", "options": []}}),
        form_of(CHOICE | {"attributes": {"label": "B", "options": ["x", "x"]}}),
        form_of(CHOICE | {"attributes": {"label": "B", "options": [True]}}),
    ],
)
def test_form_check_finds_the_fault(form: dict[str, Any]) -> None:
    assert form_faults(form)
