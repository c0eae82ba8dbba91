"""The explorables' JavaScript against the package, run in Node.

Node comes with Playwright's wheel, which the browser tests need anyway.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import playwright
import pytest

import softtopk as stk

NODE = Path(playwright.__file__).parent / "driver" / "node"
SCRIPTS = Path(__file__).resolve().parents[2] / "book" / "_static" / "explore"
CURVES = {
    "exp": "exp",
    "laplace": "laplace",
    "sigmoid": "sigmoid",
    "clip": "clip",
    "triangular": "triangular",
    "entmax15": stk.curves.entmax(1.5),
}
# What the explorables promise. Both sides are right to rounding; GradTopK takes the
# logarithms of sums here, which costs it a few hundred units in the last place.
TOLERANCE = 1e-12

SCORES = [
    [3.0, 2.0, 1.5, 0.25, -0.5, -1.0, -2.0, -3.0],
    [1.0, 1.0, 1.0, 0.0, 0.0],
    [2.0, 2.0],
    [0.0, 40.0, -40.0, 39.0],
    [5.0, 0.0, -0.25],
]


def run(call: str, cases: list) -> list:
    """Evaluate a JavaScript expression of `s` (the operators) and `c` (a case)."""
    script = (
        f"const s = require({json.dumps(str(SCRIPTS / 'operators.js'))});"
        "const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        f"console.log(JSON.stringify(cases.map((c) => {call})));"
    )
    done = subprocess.run(
        [NODE, "-e", script],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def cases(budgets: tuple[float, ...]) -> list:
    return [
        [x, k, tau]
        for x in SCORES
        for k in budgets
        if k < len(x)
        for tau in (0.05, 1.0, 7.0)
    ]


def worst(found: list, expected: list) -> float:
    return max(
        float(np.max(np.abs(np.subtract(a, b))))
        for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("name", CURVES)
def test_threshold_operators(name):
    points = cases((0.5, 1, 1.75, 2, 3, 4.5))
    curve = CURVES[name]
    shares = run(f"s.softTopK('{name}', ...c)", points)
    levels = run(f"s.threshold('{name}', ...c)", points)
    matrices = run(f"s.jacobian('{name}', ...c)", points)
    for (x, k, tau), p, level, jacobian in zip(
        points, shares, levels, matrices, strict=True
    ):
        lin = stk.linearize(stk.soft_topk, x, k, curve, temperature=tau)
        assert np.max(np.abs(p - lin.value)) <= TOLERANCE
        assert sum(p) == pytest.approx(k, abs=TOLERANCE)
        expected = stk.threshold(x, k, curve, temperature=tau)
        assert level == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
        if name in ("laplace", "sigmoid", "triangular"):  # the others have kinks
            assert np.max(np.abs(jacobian - lin.jacobian())) <= TOLERANCE / tau


@pytest.mark.parametrize("name", ["exp", "clip", "entmax15"])
def test_jacobians_away_from_kinks(name):
    points = [[[1.3, 0.9, 0.2, -0.4], 1.6, tau] for tau in (0.7, 1.0, 3.0)]
    matrices = run(f"s.jacobian('{name}', ...c)", points)
    for (x, k, tau), jacobian in zip(points, matrices, strict=True):
        lin = stk.linearize(stk.soft_topk, x, k, CURVES[name], temperature=tau)
        assert np.max(np.abs(jacobian - lin.jacobian())) <= TOLERANCE


def test_a_tie_that_saturates_keeps_its_slope():
    (jacobian,) = run("s.jacobian('exp', ...c)", [[[2.2, 0.9, 0.9, -0.3], 3, 0.02]])
    lin = stk.linearize(
        stk.soft_topk, [2.2, 0.9, 0.9, -0.3], 3, "exp", temperature=0.02
    )
    assert lin.jacobian()[1, 2] == pytest.approx(-25)
    assert np.max(np.abs(jacobian - lin.jacobian())) <= 1e-9


def test_grad_topk():
    points = cases((1, 2, 3, 4))
    shares = run("s.gradTopK(...c)", points)
    matrices = run("s.gradJacobian(...c)", points)
    for (x, k, tau), p, jacobian in zip(points, shares, matrices, strict=True):
        lin = stk.linearize(stk.grad_topk, x, k, temperature=tau)
        # The log-domain sums hold terms of the size of the scores.
        slack = TOLERANCE * max(1.0, np.ptp(x) / tau / 100)
        assert np.max(np.abs(p - lin.value)) <= slack
        assert np.max(np.abs(jacobian - lin.jacobian())) <= slack / tau


def test_hard_top_k_and_softmax():
    points = cases((0, 0.5, 1, 2, 2.5, 3))
    hard = run("s.topK(c[0], c[1])", points)
    expected = [stk.top_k(x, k) for x, k, _ in points]
    assert worst(hard, expected) <= TOLERANCE
    soft = run("s.softmax(c[0], c[2])", points)
    assert worst(soft, [stk.softmax(x, temperature=t) for x, _, t in points]) <= (
        TOLERANCE
    )


def test_empty_and_full_budgets():
    assert run("s.softTopK('clip', [1, 0], c, 1)", [0, 2]) == [[0, 0], [1, 1]]
    assert run("s.gradTopK([1, 0], c, 1)", [0, 2]) == [[0, 0], [1, 1]]
    assert run("s.jacobian('clip', [1, 0], c, 1)", [2]) == [[[0, 0], [0, 0]]]
