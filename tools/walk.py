"""How far a reader follows one row: the calls within the package, and where they lead.

    python tools/walk.py [LIBRARY ...] [--steps]

A row of 64 scores goes through `soft_topk` (Laplace, k = 5) on NumPy, on eager tensors
of PyTorch, on JAX and on Dask, as far as these are installed: once by default, and once
with `axis` and `where`.  Each call is made once before it is followed, so that what is
compiled or imported once does not count.  What is counted:

- calls: functions of the package that are called;
- moves: how often a call stands in another file than the call before it;
- files: how many files these calls stand in;
- loose: how often a function hands one of the things that a call asks for, such as the
  axis or the temperature, to another one as it got it.

With ``--steps`` the calls are listed too, each below the one that makes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "softtopk"
WITHIN = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}
"""Code that is read as a part of its function; Python 3.12 calls some of it no more."""

ASKED = {
    *(
        "x",
        "k",
        "curve",
        "temperature",
        "axis",
        "where",
        "cost",
        "per",
        "empty",
        "check",
    ),
    *("name", "needs_finite", "finite_count", "integer_k", "ordinal", "tau", "whole"),
    "part",
}
"""The things that a call asks for: its arguments, and what is added on the way."""


class Step(NamedTuple):
    """A call: how deep it is, its file and function, and what it was handed on."""

    depth: int
    file: str
    name: str
    loose: tuple[str, ...]


def moves(files: list[str]) -> int:
    """How often the file changes from one call to the next.

    >>> moves(["a.py", "a.py", "b.py", "a.py"])
    2
    """
    return sum(one != other for one, other in pairwise(files))


def arguments(frame: FrameType) -> list[tuple[str, Any]]:
    """The names and values that the parameters of a function have now."""
    code, found = frame.f_code, []
    count = code.co_argcount + code.co_kwonlyargcount
    for name in code.co_varnames[:count]:
        found.append((name, frame.f_locals.get(name)))
    if code.co_flags & 0x04:  # *args
        values = frame.f_locals.get(code.co_varnames[count], ())
        found += [("", value) for value in values]
        count += 1
    if code.co_flags & 0x08:  # **kwargs
        found += [*frame.f_locals.get(code.co_varnames[count], {}).items()]
    return found


def handed_on(given: list[tuple[str, Any]], had: list[tuple[str, Any]]) -> list[str]:
    """The arguments that a caller has as its own: one object, under any name.

    None, truth values and integers are one object wherever they come from, so that for
    them the name has to be the same too.

    >>> row = [1.0]
    >>> had = [("scores", row), ("axis", -1), ("n", 5)]
    >>> handed_on([("x", row), ("axis", -1), ("k", 5)], had)
    ['x', 'axis']
    """
    return [
        name
        for name, value in given
        if name in ASKED
        and any(
            value is other
            and (name == own or not isinstance(value, (type(None), bool, int)))
            for own, other in had
        )
    ]


def follow(call: Callable[[], Any]) -> list[Step]:
    """The calls of the package's functions, in order."""
    steps: list[Step] = []
    known: dict[CodeType, bool] = {}

    def ours(frame: FrameType) -> bool:
        code = frame.f_code
        if code not in known:
            inside = Path(code.co_filename).is_relative_to(PACKAGE)
            known[code] = inside and code.co_name not in WITHIN
        return known[code]

    def callers(frame: FrameType) -> list[FrameType]:
        found, at = [], frame.f_back
        while at is not None:
            found += [at] if ours(at) else []
            at = at.f_back
        return found

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not ours(frame):
            return
        above = callers(frame)
        loose = handed_on(arguments(frame), arguments(above[0])) if above else []
        file = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
        name = frame.f_code.co_qualname
        steps.append(Step(len(above), file, name, tuple(loose)))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return steps


def calls(library: str) -> dict[str, Callable[[], Any]]:
    """The two calls of one library, which return when the shares are there."""
    x = np.random.default_rng(0).standard_normal(64)
    column, where = x[:, None], (np.arange(64) % 4 > 0)[:, None]
    given = {"axis": 0, "where": where}

    def ready(value: Any) -> Any:
        return value

    if library == "numpy":
        import softtopk as stk

    elif library == "torch":
        import torch

        import softtopk.torch as stk

        x, column = torch.from_numpy(x), torch.from_numpy(column)
        given = {"dim": 0, "where": torch.from_numpy(where)}

    elif library == "jax":
        import jax.numpy as jnp

        import softtopk.jax as stk

        x, column, given["where"] = map(jnp.asarray, (x, column, where))

    else:
        import dask
        import dask.array as da

        import softtopk.dask as stk

        x, column = da.from_array(x), da.from_array(column)
        dask.config.set(scheduler="synchronous")

        def ready(value: Any) -> Any:
            return value.compute()

    return {
        "by default": lambda: ready(stk.soft_topk(x, 5)),
        "axis, where": lambda: ready(stk.soft_topk(column, 5, **given)),
    }


LIBRARIES = ("numpy", "torch", "jax", "dask")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY")
    parser.add_argument("--steps", action="store_true", help="list the calls too")
    options = parser.parse_args()
    wanted = options.libraries or LIBRARIES
    if unknown := {*wanted} - {*LIBRARIES}:
        parser.error(f"{', '.join(unknown)}: not one of {', '.join(LIBRARIES)}")
    print(f"{'library':8}{'row':13}{'calls':>6}{'moves':>6}{'files':>6}{'loose':>6}")
    for library in wanted:
        if not find_spec(library):
            print(f"{library:8}not installed")
            continue
        for row, call in calls(library).items():
            call()
            steps = follow(call)
            files = [step.file for step in steps]
            loose = sum(len(step.loose) for step in steps)
            counts = len(steps), moves(files), len({*files}), loose
            print(f"{library:8}{row:13}" + "".join(f"{n:6}" for n in counts))
            for depth, file, name, handed in steps if options.steps else ():
                print(f"  {'. ' * depth}{file}: {name}({', '.join(handed)})")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
