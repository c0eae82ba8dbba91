"""What `make peers` asks finds the faults of operators that are wrong."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import numpy as np
import pytest

import softtopk as stk

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    """A module of the benchmarks."""
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


checks, peers = load("peer_checks"), load("peer_list").PEERS
PAGE = ROOT / "book" / "training" / "peers.ipynb"
DATA = ROOT / "benchmarks" / "peers.json"


def laplace(x: np.ndarray, k: Any, t: float) -> np.ndarray:
    """What passes everything."""
    return stk.soft_topk(x, k if np.ndim(k) == 0 else np.ravel(k), temperature=t)


def softmax(x: np.ndarray, k: float, t: float) -> np.ndarray:
    e = np.exp((x - x.max()) / t)
    return k * e / e.sum()


def first_wins(x: np.ndarray, k: float, t: float) -> np.ndarray:
    return stk.soft_topk(x - 1e-3 * t * np.arange(len(x)), k, temperature=t)


def whole(x: np.ndarray, k: float, t: float) -> np.ndarray:
    return stk.soft_topk(x, int(k), temperature=t)


def first_budget(x: np.ndarray, k: Any, t: float) -> np.ndarray:
    return laplace(x, np.ravel(k)[0], t)


def indexed(x: np.ndarray, k: int, t: float) -> np.ndarray:
    np.sort(x)[-k:]
    return laplace(x, k, t)


def masked_by_zero(x: np.ndarray, k: float, t: float) -> np.ndarray:
    return laplace(np.where(np.isfinite(x), x, 0.0), k, t)


def unmasked(x: np.ndarray, k: float, t: float) -> np.ndarray:
    return laplace(x - np.mean(x), k, t)


def judged(shares: Callable) -> dict[str, Any]:
    """What the grid finds, with the Laplace curve as the judge, on its short rows."""
    return checks.promises(shares, False, lambda x, k: stk.soft_topk(x, k))


def test_a_right_operator_passes() -> None:
    found = judged(laplace)
    assert found["cases"] == 63
    assert max(v for k, v in found.items() if k != "cases") < 1e-14
    assert checks.masks(laplace, 2) < 1e-15
    assert checks.real_budget(laplace) < 1e-14
    assert checks.row_budgets(laplace) < 1e-14
    assert checks.limit(laplace, 2) < 1e-14


@pytest.mark.parametrize(
    ("wrong", "fault", "least"),
    [
        (lambda x, k, t: laplace(x, k, t) * (1 + 1e-7), "sum", 9e-8),
        (softmax, "range", 0.5),
        (lambda x, k, t: laplace(-x, k, t), "order", 0.1),
        (first_wins, "ties", 1e-5),
        (lambda x, k, t: laplace(x, k, 1.01 * t), "error", 1e-4),
        (lambda x, k, t: laplace(x, k, t) + 0 / (x.max() < 1e5), "nan", 9),
        (lambda x, k, t: stk.grad_topk(x, k, axis=len(x)), "raised", 63),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero")
def test_the_grid_catches_a_wrong_operator(
    wrong: Callable, fault: str, least: float
) -> None:
    assert judged(wrong)[fault] >= least


@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_questions_catch_a_wrong_operator() -> None:
    assert checks.masks(masked_by_zero, 2) > 0.01
    assert checks.masks(unmasked, 2) in ("nan", "ValueError")
    assert checks.real_budget(whole) == 0.5
    assert checks.real_budget(indexed) == "TypeError"
    assert checks.row_budgets(first_budget) > 0.1
    assert checks.row_budgets(whole) == "TypeError"
    assert checks.limit(lambda x, k, t: laplace(x, k, 1.0), 2) > 0.1


def test_the_oracle_judges_the_curve() -> None:
    reference = checks.oracle_of("laplace", None, None)
    p = reference(checks.POINT, 2)
    assert np.abs(p - stk.soft_topk(checks.POINT, 2)).max() < 1e-15
    assert np.abs(p - stk.soft_topk(checks.POINT, 2, "sigmoid")).max() > 0.01


def test_differences_catch_a_wrong_derivative() -> None:
    known = checks.derivatives(lambda x: stk.soft_topk(x, 2), 2.0**-9)
    lin = stk.linearize(stk.soft_topk, checks.POINT, 2)
    right = (checks.WEIGHTS @ lin.value) * lin.vjp(checks.WEIGHTS)
    assert checks.against(right, known["first"]) < 1e-10
    assert checks.against(lin.jvp(checks.DIRECTION), known["forward"]) < 1e-10
    w = stk.curves.LAPLACE.slope_of_p(lin.value)
    without_threshold = (checks.WEIGHTS @ lin.value) * w * checks.WEIGHTS
    assert checks.against(without_threshold, known["first"]) > 0.1
    assert checks.against(np.full(8, np.nan), known["first"]) == "nan"
    assert checks.against("RuntimeError", known["first"]) == "RuntimeError"


def test_the_curvature_is_the_slope_of_the_gradient() -> None:
    known = checks.derivatives(lambda x: stk.soft_topk(x, 2, "sigmoid"), 2.0**-9)
    h = 1e-4 * checks.DIRECTION

    def gradient(x: np.ndarray) -> np.ndarray:
        lin = stk.linearize(stk.soft_topk, x, 2, "sigmoid")
        return (checks.WEIGHTS @ lin.value) * lin.vjp(checks.WEIGHTS)

    ahead, behind = gradient(checks.POINT + h), gradient(checks.POINT - h)
    assert checks.against((ahead - behind) / 2e-4, known["second"]) < 1e-6


# --- The page ------------------------------------------------------------------------


def test_every_peer_was_asked() -> None:
    asked = json.loads(DATA.read_text(encoding="utf8"))["peers"]
    assert list(asked) == [peer.key for peer in peers]
    for row in asked.values():
        assert {"answers", "cost"} <= set(row)


def test_the_page_shows_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table is what its cell makes of the data; the page's checks hold."""
    matplotlib.use("Agg")
    monkeypatch.chdir(PAGE.parent)
    names: dict[str, Any] = {}
    tables = 0
    for cell in json.loads(PAGE.read_text(encoding="utf8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        *head, last = "".join(cell["source"]).split("\nfigures.Table(")
        exec("\nfigures.Table(".join(head) if head else last, names)
        if head:
            shown = eval("figures.Table(" + last, names)._repr_markdown_()
            stored = cell["outputs"][0]["data"]["text/markdown"]
            assert shown == (stored if isinstance(stored, str) else "".join(stored))
            tables += 1
    assert tables >= 4


def test_the_page_names_the_versions() -> None:
    cells = json.loads(PAGE.read_text(encoding="utf8"))["cells"]
    prose = "".join("".join(c["source"]) for c in cells if c["cell_type"] != "code")
    data = json.loads(DATA.read_text(encoding="utf8"))
    for package, version in data["versions"].items():
        assert f"{package} {version}" in prose
    assert f"Python {data['python']}" in prose
