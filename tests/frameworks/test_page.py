"""The pages of the reference: their signatures and the table are true."""

import importlib
import inspect
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "book" / "reference" / "frameworks.md").read_text(encoding="utf8")
HEAD = "| functions | scores | `k` | temperature |"
TABLE = PAGE[PAGE.index(HEAD) :].partition("\n\n")[0]
GROUPS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLE.splitlines()[2:]
]
ROWS = [
    [name, *orders]
    for names, *orders in GROUPS
    for name in re.findall(r"`(\w+)`", names)
]
X = np.array([[1.3, 0.4, -0.2, -0.9, 0.75], [0.3, -1.4, 2.2, 0.1, -0.3]])
WITHOUT_K = {"softmax", "sparsemax", "entmax", "soft_sort", "soft_rank"} | {
    "log_softmax",
    "logsumexp",
    "taylor_softmax",
}
INTEGERS = {"top_k_indices"}  # they have no derivatives
RANDOM = {"sample_shares", "sample_topk", "sample_topk_st", "subset_log_prob"}
"""Which test_sampling differentiates."""
WHOLE = {"grad_topk", "log_partition", "soft_permutation"} | {
    "pair_marginals",
    "sparse_softmax",
}


def operator(lib, name):
    f = getattr(lib.ops, name)
    with_tau = name not in ("top_k", "top_k_sum")

    def at(x, k, tau):
        given = () if name in WITHOUT_K else (2 if name in WHOLE else k,)
        return f(x, *given, **({"temperature": tau} if with_tau else {}))

    return at


@pytest.mark.parametrize("name", ["torch", "jax", "dask"])
def test_the_pages_on_functions_show_what_the_modules_hold(name):
    sys.path.insert(0, str(ROOT / "book" / "_extensions"))
    import signatures

    module = importlib.import_module(f"softtopk.{name}")
    known, _ = signatures.definitions(ROOT / "softtopk" / f"{name}.py")
    assert set(module.__all__) <= known.keys()
    for item in module.__all__:
        found = getattr(module, item)
        given = [
            p.replace(annotation=inspect.Parameter.empty)
            for p in inspect.signature(found).parameters.values()
            if p.kind is not p.VAR_KEYWORD  # the other word for an axis
        ]
        shown = signatures.signature(known[item], known)
        assert shown == str(inspect.Signature(given))


def test_the_table_names_every_operator(lib):
    losses = {name for name in lib.ops.__all__ if name.endswith(("loss", "entropy"))}
    names = {name for name in lib.ops.__all__ if name.islower()}
    named = [row[0] for row in ROWS]
    assert set(named) == names - losses - INTEGERS and len(named) == len({*named})


DRAWN = [row for row in ROWS if row[0] in RANDOM]


def test_the_table_and_what_the_tests_of_drawing_ask():
    """`test_sampling` differentiates what draws, as the table says."""
    zero = {"sample_topk", "sample_shares"}
    assert {row[0] for row in DRAWN} == RANDOM
    for name, scores, k, temperature in DRAWN:
        assert (scores, k) == ("0" if name in zero else "any", "none")
        assert temperature == ("none" if name == "sample_shares" else scores)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row not in DRAWN], ids=lambda row: row[0]
)
def test_each_cell_of_the_table(lib, row):
    """The orders; and `vmap`, a compiled call and 16 bits, as the page says."""
    name, *orders = row
    f = operator(lib, name)
    scores = np.stack([X, X[::-1]]) if name == "balanced_topk" else X
    at = [lib.array(scores), lib.array(2.4), lib.array(0.8)]
    by = {i: order for i, order in enumerate(orders) if order != "none"}
    sizes = [tuple(v.shape) for v in at]
    weights = [np.exp(np.arange(math.prod(s)) / 3).reshape(s) for s in sizes]

    def total(*at):
        out = f(*at)
        return (out * out).sum()

    def weighed(*at):
        """The gradient by everything, in one direction."""
        found = lib.gradient(total, tuple(by))(*at)
        pairs = zip(by, found, strict=True)
        return sum((lib.array(weights[i]) * g).sum() for i, g in pairs)

    # The last derivative but one, and what differences of it say of the last.
    again = "any" in by.values()
    assert not again or set(by.values()) == {"any"}
    both = lib.value_and_gradient(weighed if again else total, tuple(by))
    for (i, order), slope in zip(by.items(), both(*at)[1], strict=True):
        move = 1e-5 * np.cos(np.arange(math.prod(sizes[i]))).reshape(sizes[i])
        ends = [
            float(both(*at[:i], at[i] + s * lib.array(move), *at[i + 1 :])[0])
            for s in (1, -1)
        ]
        slope = (lib.numpy(slope) * move).sum()
        if name != "top_k_st":  # whose derivative is another operator's
            assert slope == pytest.approx((ends[0] - ends[1]) / 2, abs=1e-8)
        assert (abs(slope) > 1e-9) == (order != "0")
    rows = lib.vmap(lambda x: f(x, *at[1:]))(at[0])
    assert abs(lib.numpy(rows) - lib.numpy(f(*at))).max() < 1e-14
    x = lib.cast(at[0], lib.bfloat16)
    assert lib.program(lambda x: f(x, 2, 0.8))(x).dtype == lib.bfloat16
