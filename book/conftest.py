"""Look at the figures of a notebook that nbval runs, and keep them.

nbval compares what the cells print and leaves images alone; here the stored pictures
are compared with those of the run (``tools/pictures.py``). If a figure of a notebook
was never drawn as SVG, or was drawn from other code or data, the notebook's kernel
shows its figures as SVG as well, and they are kept in ``_build/figures`` once every
cell has passed, so that no other run draws them.

What trains runs for thousands of steps, and the last digits differ from processor to
processor: its pictures are compared only where EVERY is set.

With ``--nbval-kernel-name=warm`` the kernels are forked from one process that has
imported the packages (``tools/warm.py``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

BOOK = Path(__file__).parent
FRAMEWORKS = ("training", "recipes")  # their drawings are made by `make refresh`
IMPORTED = ["numpy", "sympy", "matplotlib.pyplot", "torch", "jax"]  # where they are


def tool(name: str) -> Any:
    """A module of ``tools``, which not every environment can import."""
    if (tools := str(BOOK.parent / "tools")) not in sys.path:
        sys.path.append(tools)
    return importlib.import_module(name)


def draw() -> Any:
    """What draws figures as SVG."""
    return tool("draw")


def is_cell(item: pytest.Item) -> bool:
    """Whether a test is a cell of a notebook of which the figures are drawn here."""
    return item.path.suffix == ".ipynb" and item.path.parent.name not in FRAMEWORKS


@functools.cache
def warm_kernels(config: pytest.Config) -> None:
    """Start the process that kernels are forked from; it ends with this one."""
    serving = contextlib.ExitStack()
    warm = tool("warm")
    serving.enter_context(warm.serving(IMPORTED))
    nbval = importlib.import_module("nbval.kernel")
    serving.enter_context(mock.patch.object(nbval, "KernelManager", warm.manager))
    config.add_cleanup(serving.close)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: Any) -> Iterator[None]:
    """Before its first cell, tell a notebook's kernel how to show figures."""
    if item.path.suffix == ".ipynb" and item.config.option.nbval_kernel_name == "warm":
        warm_kernels(item.config)
    yield  # starts the kernel
    notebook = item.parent
    if not is_cell(item) or hasattr(notebook, "figures"):
        return
    notebook.figures = {}
    notebook.passed = 0
    notebook.draws = draw().stale(item.path)
    if notebook.draws:
        notebook.skip_compare += ("image/svg+xml",)
        kernel = notebook.kernel
        sent = kernel.kc.execute(draw().KERNEL, silent=True)
        kernel.await_reply(sent, timeout=120)
        kernel.await_idle(sent, timeout=120)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Compare and keep what a cell has shown; after the last cell, store it."""
    yield
    notebook = item.parent
    compared = is_cell(item) or (item.path.suffix == ".ipynb" and "EVERY" in os.environ)
    if compared and item.options["check"]:
        fault = tool("pictures").wrong(item.cell.outputs, item.test_outputs)
        if fault:
            pytest.fail(f"the stored picture is wrong: {fault}")
    if not is_cell(item) or not notebook.draws:
        return
    if name := draw().name_of(item.cell):
        notebook.figures[name] = draw().vector(item.test_outputs)
    notebook.passed += 1
    if notebook.passed == sum(c.cell_type == "code" for c in notebook.nb.cells):
        draw().keep(item.path, notebook.figures)
