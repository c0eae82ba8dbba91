"""The program for the first minutes on an accelerator keeps to its limits."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "tools" / "accelerator" / "__main__.py"


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accelerator", PATH)
    assert spec and spec.loader
    module = sys.modules["accelerator"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_stages_end_in_ten_minutes_and_print_little(program: ModuleType) -> None:
    for dry in (True, False):
        known = program.stages(dry)
        assert sum(stage.seconds for stage in known) < 600
        words = 200 + sum(60 + stage.shown for stage in known)
        assert words <= program.SHOWN
        for stage in known:
            files = [word for word in stage.command if word.endswith(".py")]
            assert files
            assert all((ROOT / file).is_file() for file in files)


def test_the_end_of_a_long_output_is_shown(program: ModuleType) -> None:
    text = "\n".join(f"line {i} {'x' * 200}" for i in range(100)) + "\n\nthe end\n"
    shown = program.tail(text, 1000)
    assert len(shown) <= 1000
    assert shown.endswith("the end")
    assert max(map(len, shown.splitlines())) == program.WIDTH
    assert program.tail("a\nb", 1000) == "a\nb"


def is_running(number: int) -> bool:
    """Whether a process is there, and not only its entry, which its parent reads."""
    try:
        return " Z " not in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False


def test_a_stage_that_hangs_ends_with_all_that_it_started(
    program: ModuleType, tmp_path: Path
) -> None:
    child = "import subprocess, sys, time; " + (
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "print(p.pid, flush=True); time.sleep(60)"
    )
    stage = program.Stage("hangs", 1, 100, (sys.executable, "-c", child))
    start = time.monotonic()
    status, seconds = program.run(stage, dict(os.environ), tmp_path)
    assert (status, seconds < 20) == (-1, True)
    assert time.monotonic() - start < 20
    told = (tmp_path / "hangs.log").read_text()
    if told:  # it had the time to start the other
        while is_running(int(told)):
            assert time.monotonic() - start < 20
            time.sleep(0.05)


def test_a_stage_that_fails_says_so(program: ModuleType, tmp_path: Path) -> None:
    stage = program.Stage(
        "fails", 20, 100, (sys.executable, "-c", "raise SystemExit(3)")
    )
    assert program.run(stage, dict(os.environ), tmp_path)[0] == 3


@pytest.mark.parametrize(
    ("dry", "status", "stored"), [("", 0, True), ("", 1, False), ("1", 0, False)]
)
def test_only_an_accelerator_has_figures_in_the_repository(
    program: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dry: str,
    status: int,
    stored: bool,
) -> None:
    stage = program.Stage("environment", 20, 100, (sys.executable, "-c", "print(1)"))
    monkeypatch.setattr(program, "stages", lambda dry: [stage])
    monkeypatch.setattr(program, "run", lambda *_: (status, 0.1))
    monkeypatch.setattr(program, "STORE", tmp_path / "figures.json")
    monkeypatch.setattr(sys, "argv", ["accelerator"])
    monkeypatch.setenv("DRY", dry)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "environment.log").write_text("a line\n")
    assert program.main() == (status != 0)
    assert (tmp_path / "figures.json").exists() == stored
