"""Print where the time of a check went: each step, and its slowest tests.

Usage: python tools/times.py [--slowest 50]

The targets of the Makefile leave a report of their tests in ``_build/times``, and
``.ci/run`` the seconds of each step. A test's time holds what was set up for it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(__file__).resolve().parents[1] / "_build" / "times"
STEPS = FOLDER / "steps"  # a name and a number of seconds on each line


def steps(text: str) -> list[tuple[str, float]]:
    """The steps of a run, in order.

    >>> steps("make test 61.5\\nall 70\\n")
    [('make test', 61.5), ('all', 70.0)]
    """
    pairs = (line.rpartition(" ") for line in text.splitlines())
    return [(name, float(seconds)) for name, _, seconds in pairs]


def tests(text: str) -> list[tuple[float, str]]:
    """The seconds of each test of a report, and its name, the slowest first.

    >>> case = '<testcase classname="tests.a" name="test_b" time="{}"/>'
    >>> tests(f"<testsuites>{case.format(1.5)}{case.format(20)}</testsuites>")
    [(20.0, 'tests.a::test_b'), (1.5, 'tests.a::test_b')]
    """
    cases = ElementTree.fromstring(text).iter("testcase")
    return sorted(
        ((float(c.get("time", 0)), f"{c.get('classname')}::{c.get('name')}"))
        for c in cases
    )[::-1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--slowest", type=int, default=50, help="tests of each suite")
    count = parser.parse_args().slowest
    if STEPS.exists():
        print("seconds  step")
        for name, seconds in steps(STEPS.read_text("utf8")):
            print(f"{seconds:7.0f}  {name}")
    for path in sorted(FOLDER.glob("*.xml"), key=lambda path: path.stat().st_mtime):
        found = tests(path.read_text("utf8"))
        total = sum(seconds for seconds, _ in found)
        print(f"\nseconds  {path.stem}: {len(found)} tests, {total:.0f} s together")
        for seconds, name in found[:count]:
            print(f"{seconds:7.1f}  {name}")


if __name__ == "__main__":
    main()
