"""The first minutes on an accelerator: what works there, how exact and how fast.

    python tools/accelerator [STAGE ...]

Needs a checkout of the repository, and a Python whose PyTorch drives the accelerator of
this machine; nothing is installed.  Every stage is a process with a limit of its own.
One that hangs or crashes leaves the others their time, and all together take less than
ten minutes.  What a stage prints goes to a file in the folder $OUT, by default
_build/accelerator, and the end of it here.  The figures of all stages go to
benchmarks/accelerator.json.

DRY=1 runs every stage on the CPU with Triton's interpreter, on a few small cases.  It
shows that the program works, and nothing about a device.  Such a run, and one that
finds no accelerator, leaves benchmarks/accelerator.json as it is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORE = ROOT / "benchmarks" / "accelerator.json"
TESTS = "tests/frameworks"
SUITES = ("selection", "entmax", "losses", "hard", "subset", "balance", "simplex")
WORKERS = min(10, os.cpu_count() or 1)
WIDTH = 120
"""The longest line that is shown."""

SHOWN = 12_000
"""The most characters that all stages together may print."""


class Stage(NamedTuple):
    """A process: its seconds, the characters of its output to show, and its command."""

    name: str
    seconds: int
    shown: int
    command: tuple[str, ...]


def pytest(*arguments: str) -> tuple[str, ...]:
    """Tests without the project's settings of pytest.

    They ask for a release that need not be there, and make an error of every warning,
    which other releases of the frameworks have more of.
    """
    options = ["-q", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider"]
    options += ["-c", os.devnull, f"--rootdir={ROOT}"]
    if find_spec("pytest_timeout"):
        options.append("--timeout=100")
    if find_spec("xdist") and WORKERS > 2:
        options += ["-n", str(WORKERS), "--dist", "worksteal"]
    return (sys.executable, "-m", "pytest", *options, *arguments)


def stages(dry: bool) -> list[Stage]:
    """All stages in their order, the most important first."""

    def own(name: str) -> tuple[str, ...]:
        return sys.executable, str(HERE / f"{name}.py")

    device = ("--device", "cpu" if dry else "cuda")
    few = ("-k", "out_of_range_are and laplace") if dry else ()
    some = ("--collect-only",) if dry else ()
    suites = (f"{TESTS}/test_{name}.py" for name in SUITES)
    return [
        Stage("environment", 40, 1000, own("environment")),
        Stage("check", 150, 3000, own("check")),
        Stage("kernels", 120, 1600, pytest(f"{TESTS}/test_kernels.py", *device, *few)),
        Stage("times", 110, 3400, own("times")),
        Stage("jax", 60, 1000, own("on_jax")),
        Stage("suites", 90, 1400, pytest(*suites, *device, *some, "-k", "not jax")),
    ]


def environment(name: str, dry: bool, out: Path) -> dict[str, str]:
    """The variables of a stage's process."""
    paths = [HERE, ROOT, ROOT / "tests" / "package", ROOT / "tests" / "frameworks"]
    given = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OUT": str(out),
        "DRY": "1" if dry else "",
        "TRITON_CACHE_DIR": str(out / "triton"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    if name in ("kernels", "suites"):  # the tests of PyTorch alone
        given["JAX_PLATFORMS"] = "cpu"
    if dry and name != "suites":
        given["TRITON_INTERPRET"] = "1"
    return given


def run(stage: Stage, variables: dict[str, str], out: Path) -> tuple[int, float]:
    """The exit status of a stage, -1 if it ran out of time, and its seconds."""
    start = time.monotonic()
    with (out / f"{stage.name}.log").open("w") as log:
        process = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to end the processes that it starts, too
        )
        try:
            status = process.wait(stage.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = -1
    return status, time.monotonic() - start


def tail(text: str, most: int) -> str:
    """The last whole lines of at most so many characters, each cut at `WIDTH`."""
    shown: list[str] = []
    for line in reversed(text.splitlines()):
        line = line.rstrip()[:WIDTH]
        if not line or re.search(r"Warning: |^ +warnings", line):
            continue
        if sum(map(len, shown)) + len(shown) + len(line) > most:
            break
        shown.insert(0, line)
    return "\n".join(shown)


def main() -> int:
    dry, wanted = bool(os.environ.get("DRY")), sys.argv[1:]
    out = Path(os.environ.get("OUT") or ROOT / "_build" / "accelerator").resolve()
    out.mkdir(parents=True, exist_ok=True)
    known = stages(dry)
    if unknown := set(wanted) - {stage.name for stage in known}:
        names = ", ".join(stage.name for stage in known)
        print(f"There is no stage {', '.join(sorted(unknown))}; there are {names}.")
        return 2
    began, bad, found = time.monotonic(), [], {}
    for stage in known:
        if wanted and stage.name not in wanted:
            continue
        figures = out / f"{stage.name}.json"
        figures.unlink(missing_ok=True)
        status, seconds = run(stage, environment(stage.name, dry, out), out)
        text = (out / f"{stage.name}.log").read_text(errors="replace")
        said = "took too long" if status == -1 else f"status {status}"
        print(f"== {stage.name}: {said}, {seconds:.0f} s")
        print(tail(text, stage.shown), flush=True)
        if status:
            bad.append(stage.name)
        own = json.loads(figures.read_text()) if figures.is_file() else {}
        own |= {"status": status, "seconds": round(seconds, 1)}
        if stage.command[1:3] == ("-m", "pytest") and text.strip():
            own["tests"] = text.strip().splitlines()[-1].strip("= ")[:WIDTH]
        found[stage.name] = own
        if stage.name == "environment" and status:
            break  # nothing else can work
    nothing = dry or "environment" in bad  # of an accelerator
    store = out / STORE.name if nothing else STORE
    kept = json.loads(store.read_text()) if store.is_file() else {}
    store.write_text(json.dumps(kept | found, indent=1) + "\n")
    total = time.monotonic() - began
    print(f"== {total:.0f} s; figures in {store.name}, the rest in {out.name}")
    print(f"== failed: {', '.join(bad) or 'nothing'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
