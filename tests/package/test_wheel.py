"""The wheel holds all of the package, and the package asks for NumPy alone."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import softtopk

SOURCE = Path(softtopk.__file__).parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

USE = """
import inspect, pathlib, sys
wheel, numpy = sys.argv[1:]
sys.path[:0] = [wheel, numpy]
import numpy
before = set(sys.modules)
import softtopk as stk
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
assert loaded - sys.stdlib_module_names <= {"softtopk", "numpy"}, loaded
known = {"k": 1, "target": [0, 0], "margin": 0.1}
operators = [getattr(module, name) for module in (stk, stk.losses)
             for name in module.__all__ if inspect.isfunction(getattr(module, name))]
operators.remove(stk.linearize)
assert len(operators) > 20
x = [[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]]
for operator in operators:
    given = {name: value for name, value in known.items()
             if name in inspect.signature(operator).parameters}
    assert numpy.isfinite(operator(x, **given)).all(), operator
    if operator not in (stk.top_k, stk.top_k_sum, stk.pair_marginals):
        stk.linearize(operator, x, **given).vjp(1.0)
for module in list(sys.modules.values()):
    if module.__name__.partition(".")[0] == "softtopk":
        assert pathlib.Path(module.__file__).is_relative_to(wheel), module
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    root = tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, root / "source" / "softtopk", ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(SOURCE.parent / name, root / "source")
    command = [*PIP, "wheel", "--no-deps", "--wheel-dir", root, root / "source"]
    subprocess.run(command, check=True)
    (found,) = root.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == files


def test_every_operator_works_from_the_wheel_on_numpy_alone(wheel, tmp_path):
    subprocess.run(
        [*PIP, "install", "--no-deps", "--target", tmp_path, wheel], check=True
    )
    packages = Path(np.__file__).parents[1]
    # Without site there is no way from here to the checkout.
    command = [sys.executable, "-I", "-S", "-c", USE, tmp_path, packages]
    subprocess.run(command, check=True)
