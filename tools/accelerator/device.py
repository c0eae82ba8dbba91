"""What the stages share: the device, the folder of the figures, and guarded steps."""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DRY = bool(os.environ.get("DRY"))
DEVICE = "cpu" if DRY else "cuda"
OUT = Path(os.environ.get("OUT", "/tmp"))
START = time.perf_counter()

warnings.simplefilter("ignore")
failed: list[str] = []
"""The names of the steps that raised an error."""


def keep(name: str, figures: dict[str, Any]) -> None:
    """Store what a stage has measured so far."""
    (OUT / f"{name}.json").write_text(json.dumps(figures, indent=1))


def late(seconds: float) -> bool:
    """Whether the process has run for so long."""
    return time.perf_counter() - START > seconds


@contextmanager
def kernels_here() -> Iterator[None]:
    """The kernels take tensors on the device: in a dry run, the interpreter does."""
    from softtopk._kernels import torch_launch as kernels

    before, kernels.ON_CPU = kernels.ON_CPU, DRY
    try:
        yield
    finally:
        kernels.ON_CPU = before


@contextmanager
def without_kernels() -> Iterator[None]:
    """PyTorch's operations do the work of the kernels."""
    from softtopk._kernels import torch_launch as kernels

    before, kernels.LONGEST = kernels.LONGEST, 0
    try:
        yield
    finally:
        kernels.LONGEST = before


def guarded(name: str, step: Callable[..., Any], *given: Any) -> Any:
    """The result of a step, or None if it raises an error, which is printed."""
    try:
        return step(*given)
    except Exception as error:
        failed.append(name)
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(at.filename).name}:{at.lineno}"
        print(f"FAILED {name}: {type(error).__name__}: {str(error)[:300]} ({place})")
        with (OUT / "tracebacks.log").open("a") as file:
            traceback.print_exc(file=file)
        return None
