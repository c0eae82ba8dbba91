"""The code that the Part on training shows in tabs: it runs, and does what is said."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from oracle_balance import off

BOOK = Path(__file__).parents[2] / "book" / "training"


def tabs(name):
    """The code of each library on a page, in order."""
    cells = json.loads((BOOK / f"{name}.ipynb").read_text(encoding="utf8"))["cells"]
    text = "\n\n".join(
        "".join(c["source"]) for c in cells if c["cell_type"] == "markdown"
    )
    found = {}
    for title, body in re.findall(r"(?ms)^````\{tab-item\} (\w+)\n(.*?)^````$", text):
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```", body)
        found[title] = found.get(title, "") + "\n".join(blocks)
    return found


@pytest.mark.parametrize("library", ["PyTorch", "JAX"])
def test_the_loop(library):
    names = {}
    exec(tabs("loop")[library], names)
    assert np.asarray(names["picked"]).tolist() == [1] * 4 + [0] * 16
    hard = np.asarray(names["h"].detach() if library == "PyTorch" else names["h"])
    assert set(hard.ravel().tolist()) == {0, 1}
    slope = names["s"].grad if library == "PyTorch" else names["slope"]
    assert slope is None or np.isfinite(np.asarray(slope)).all()
    shares = np.asarray(names["p"])
    assert shares.sum(-1) == pytest.approx([2, 2, 1], abs=1e-5)
    assert (shares[1, 5:] == 0).all()


def test_the_deviation_and_the_gap_of_masked_rows():
    """The blocks of the fold, after those of the tabs, with 8, 5 and 1 entries."""
    cells = json.loads((BOOK / "loop.ipynb").read_text(encoding="utf8"))["cells"]
    (text,) = [t for c in cells if "loop-masks)=" in (t := "".join(c["source"]))]
    fold, names = text.partition(":{dropdown}")[2], {}
    exec(tabs("loop")["PyTorch"], names)
    for block in re.findall(r"(?ms)^```python\n(.*?)^```", fold):
        exec(block, names)
    s = names["s"].detach()
    whole, five = s[0].std(), s[1, :5].std()
    assert float(names["tau0"]) == pytest.approx(float((whole + five) / 2), rel=1e-6)
    gaps = [row.sort(descending=True).values for row in (s[0], s[1, :5])]
    ratio = min(float(row[1] - row[2]) for row in gaps) / float(names["tau"])
    assert float(names["logged"]) == pytest.approx(ratio, rel=1e-5)
    names["s"] = s * 0
    exec(re.findall(r"(?ms)^```python\n(.*?)^```", fold)[0], names)
    assert names["tau0"] == 1


@pytest.mark.parametrize("library", ["PyTorch", "JAX"])
def test_a_line_fits_a_phone(library):
    assert max(map(len, tabs("loop")[library].splitlines())) <= 60


@pytest.mark.parametrize("library", ["PyTorch", "JAX"])
def test_two_budgets(library):
    names = {}
    text = tabs("balance")[library]
    exec(text, names)
    P, slope = (
        np.asarray(v.detach() if library == "PyTorch" else v)
        for v in (names["P"], names["slope"])
    )
    assert off(P, 2, 6) < 1e-5
    for axis in (0, 1):
        assert abs(slope.sum(axis=axis)).max() < 1e-5 < abs(slope).max()
    assert max(map(len, text.splitlines())) <= 60
