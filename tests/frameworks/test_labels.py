"""What has names is read as the numbers that it holds, and takes them back."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import softtopk as stk

PAGE = Path(__file__).resolve().parents[2] / "book" / "reference" / "api.md"
VALUES = np.random.default_rng(3).normal(size=(3, 5))


class Named:
    """An array of another library: NumPy knows it by its protocol alone."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


@pytest.mark.parametrize("kind", [Named, pd.DataFrame])
def test_named_scores_are_the_numbers_that_they_hold(kind):
    x, cotangent = kind(VALUES), kind(VALUES[::-1])
    p = stk.soft_topk(x, 2)
    assert type(p) is np.ndarray
    # in the same order in memory, which decides the last bit of an inner product
    assert (p == stk.soft_topk(np.asarray(x), 2)).all()
    lin = stk.linearize(stk.soft_topk, x, 2)
    assert (lin.vjp(cotangent) == lin.vjp(np.asarray(cotangent))).all()
    k, tau = np.array([1, 2, 3]), np.array([0.5, 1.0, 2.0])
    given = {"temperature": pd.Series(tau), "where": kind(VALUES > -1)}
    found = stk.soft_topk(x, pd.Series(k), **given)
    same = stk.soft_topk(np.asarray(x), k, temperature=tau, where=VALUES > -1)
    assert (found == same).all()


def test_groups_of_a_long_table_keep_their_index():
    table = pd.DataFrame(VALUES, list("xyz"), list("abcde"))
    long = table.stack().sample(frac=1, random_state=0)
    shares = long.groupby(level=0).transform(stk.soft_topk, 2)
    assert (shares.index == long.index).all()
    p = stk.soft_topk(table, 2)
    found = shares.unstack().loc[table.index, table.columns]
    np.testing.assert_allclose(found, p, rtol=1e-14)


def test_a_missing_value_is_an_error_unless_it_is_left_out():
    table = pd.DataFrame(np.where(VALUES > -1, VALUES, np.nan))
    with pytest.raises(ValueError, match="x must be finite or -inf"):
        stk.soft_topk(table, 1)
    p = stk.soft_topk(table, 1, where=table.notna())
    assert (p == stk.soft_topk(VALUES, 1, where=VALUES > -1)).all()


def test_the_lines_for_xarray_keep_its_names():
    blocks = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf8"))
    (code,) = [block for block in blocks if "import xarray" in block]
    names = {}
    exec(code, names)
    scores, p, cut, daily = (names[v] for v in ("scores", "p", "cut", "daily"))
    assert p.dims == daily.dims == scores.dims == ("day", "shop", "item")
    assert cut.dims == ("day", "shop")
    assert p["item"].values.tolist() == daily["item"].values.tolist() == list("abcd")
    x = scores.values
    assert (p.values == stk.soft_topk(x, 2)).all()
    assert (cut.values == stk.threshold(x, 2)).all()
    assert (daily.values == stk.soft_topk(x, np.array([[1], [2]]))).all()
    # The line of the text for several axes together.
    axes = scores.get_axis_num(("shop", "item"))
    whole = scores.copy(data=stk.soft_topk(scores, 3, axis=axes))
    assert whole.dims == scores.dims
    np.testing.assert_allclose(whole.sum(("shop", "item")), 3, 1e-14)
    # Of a transposed array the names decide what a row is.
    turned = names["xr"].apply_ufunc(
        stk.soft_topk, scores.T, kwargs={"k": 2}, **names["own"], **names["back"]
    )
    np.testing.assert_allclose(turned.transpose(*scores.dims), p, 1e-14)
