"""The entmax of the explorables against the package, run in Node."""

import json
import subprocess
from pathlib import Path

import numpy as np
import playwright
import pytest

import softtopk as stk
from softtopk import figures

NODE = Path(playwright.__file__).parent / "driver" / "node"
SCRIPT = Path(__file__).resolve().parents[2] / "book/_static/explore/operators.js"
# Bisection to the last bit of the threshold; a share is its power 1/(alpha - 1), so
# near alpha = 1 the unit in the last place counts 1/(alpha - 1) times.
TOLERANCE = 1e-15


def run(call: str) -> list:
    """Evaluate a JavaScript expression of `s`, what the script exports."""
    script = (
        f"const s = require({json.dumps(str(SCRIPT))});"
        f"console.log(JSON.stringify({call}));"
    )
    done = subprocess.run(
        [NODE, "-e", script], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "x", [list(figures.ROUTER), [2.0, 0.0], [1.0, 1.0, 1.0], [0.0, 40.0, 39.5]], ids=str
)
def test_every_place_of_the_slider(x: list[float]) -> None:
    alphas = [round(1 + step / 100, 2) for step in range(101)]
    found = run(f"{json.dumps(alphas)}.map((a) => s.entmax({json.dumps(x)}, a))")
    for alpha, shares in zip(alphas, found, strict=True):
        wanted = stk.entmax(x, alpha)
        slack = TOLERANCE * max(1, 4 / max(alpha - 1, 1e-2))
        assert np.max(np.abs(np.subtract(shares, wanted))) <= slack
        assert np.array_equal(np.equal(shares, 0), wanted == 0)


def test_the_support_shrinks() -> None:
    scores = json.dumps(figures.ROUTER)
    rows = run(f"[1, 1.25, 1.5, 2].map((a) => s.entmax({scores}, a))")
    assert [int(np.count_nonzero(row)) for row in rows] == [8, 7, 4, 2]
