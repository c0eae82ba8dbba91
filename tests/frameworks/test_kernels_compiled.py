"""The kernels compiled ahead of time, for accelerators that need not be there."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton interprets in this process", allow_module_level=True)
PATH = Path(__file__).parents[2] / "tools" / "aot.py"


@pytest.fixture(scope="module")
def aot():
    spec = importlib.util.spec_from_file_location("aot", PATH)
    sys.modules["aot"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The limits are those of the pinned release.  An older one, such as comes with PyTorch
# 2.10, spills a little of one kernel, and gives another more registers.
OLD = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)

# The most registers of a thread, of the 255 that there are, and bytes spilled.
CASES = [
    ("sm_80", "laplace", "fp32", 128, 80, 0),
    ("sm_90", "laplace", "bf16", 100, 80, 0),
    ("sm_90", "laplace", "fp32", 8, 64, 0),
    ("sm_90", "laplace", "fp32", 4096, 200 if OLD else 168, 0),
    ("sm_80", "exp", "fp16", 50000, 64, 0),
    ("sm_90", "triangular", "fp32", 1_000_000, 96, 16 if OLD else 0),
    ("sm_90", "laplace", "fp32", 16384, 255, 64),
    ("sm_90", "triangular", "fp64", 4096, 255, 64),
    ("sm_90", "entmax1.25", "fp32", 4096, 255, 64),
    ("gfx942", "laplace", "fp32", 128, 128, 0),
    ("gfx942", "clip", "fp32", 4096, 255, 0),
    ("gfx942", "entmax1.5", "bf16", 50000, 255, 0),
    ("gfx942", "laplace", "fp32", 1_000_000, 128, 0),
]


@pytest.mark.parametrize(("target", "curve", "dtype", "n", "most", "spilled"), CASES)
def test_registers_and_spills(aot, target, curve, dtype, n, most, spilled):
    for forward in (True, False):
        use = aot.compiled(forward, curve, dtype, n, target)
        assert use.registers <= most
        assert use.spilled <= spilled
        if forward and n < 256 and use.loop:
            # A thread has entries of one row: with several, it would repeat the numbers
            # of a row for each, and a pass would take up to a thousand instructions.
            assert use.loop <= 300
