"""The operators on Dask: against the core and 50 digits, in few passes, lazy."""

import inspect
import os
import signal
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback
from dask.diagnostics import ProgressBar
from distributed import Client, LocalCluster, wait
from rows import has_heavy_tails
from test_behaviour import ARGUMENTS, BASE, outcome
from test_errors import EPS, curve_of, exact

import softtopk as core
import softtopk.dask as stk
from softtopk._rows.adapter_rows import Asked
from softtopk._rows.budget import Budget
from softtopk._search import chunk_entries, chunk_pass, chunk_search, chunk_sums

CURVES = [*core.curves.NAMED, core.curves.entmax(1.5), core.curves.entmax(1.2)]
SCORES = int(float(os.environ.get("SOFTTOPK_DASK_SCORES", "2e8")))
N = 20_000  # more scores than a sample has


@pytest.fixture(autouse=True)
def alone():
    """One thread: what is small is not worth any other.

    Given as a function, because Dask 2025.1 warns of a name beside a client.
    """
    with dask.config.set(scheduler=dask.get):
        yield


class Passes(Callback):
    """Counts the graphs that are computed."""

    count = 0

    def _start(self, graph):
        self.count += 1


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_shares_and_threshold_are_the_cores(curve):
    x = np.random.default_rng(0).standard_normal((6, N))
    x[0, :3] = -np.inf
    rows = da.from_array(x, chunks=(2, 6000))
    for k, tau in [(1, 1.0), (3.5, 0.01), ([0, 1, N - 3, 3, 900.2, 7], 0.3)]:
        p = stk.soft_topk(rows, k, curve, temperature=tau)
        assert p.chunks == rows.chunks
        known = core.soft_topk(x, k, curve, temperature=tau)
        assert abs(p.compute() - known).max() < 4e-15
        t = stk.threshold(rows, k, curve, temperature=tau)
        known = core.threshold(x, k, curve, temperature=tau)
        # Of tails that fall like a power it may be far away.
        room = 4e-15 * max(1, abs(known[np.isfinite(known)]).max() / 16)
        np.testing.assert_allclose(t, known, rtol=0, atol=room)


def some_of(x):
    """The same scores, in chunks whose sizes Dask does not know."""
    both = np.stack([x, x + 1], axis=-1).reshape(-1)
    keep = da.from_array(np.arange(both.size) % 2 == 0, chunks=5)
    return da.from_array(both, chunks=5)[keep]


CUTS = {
    "one entry a chunk": lambda x: da.from_array(x, chunks=1),
    "empty chunks": lambda x: da.from_array(x, chunks=((0, 5, 0, 4, 3, 0),)),
    "unknown sizes": some_of,
    "uneven chunks along both axes": lambda x: da.from_array(
        np.stack([x, x, x]), chunks=((2, 1), (7, 1, 4))
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", ["laplace", "sigmoid", "exp", "clip", 1.5])
def test_the_search_is_as_good_as_fifty_digits_say(name, cuts, dtype, monkeypatch):
    """Of rows of twelve, of which the sample has about four."""
    monkeypatch.setattr(chunk_search, "stride", lambda n, rows: 3.0)
    monkeypatch.setattr(chunk_search, "per_chunk", lambda chunks: 1)
    for (x, k, tau), answers, scales in exact(name, dtype):
        rows, curve = CUTS[cuts](x), curve_of(name)
        p = stk.soft_topk(rows, k, curve, temperature=tau).compute()
        t = stk.threshold(rows, k, curve, temperature=tau)
        for found, known, scale in zip((p, t), answers, scales, strict=False):
            assert abs(np.asarray(found, float) - known).max() <= 4 * EPS[dtype] * scale


@pytest.mark.parametrize("cuts", CUTS)
def test_the_other_operators_do_not_see_the_chunks(cuts, monkeypatch):
    monkeypatch.setattr(chunk_search, "stride", lambda n, rows: 3.0)
    monkeypatch.setattr(chunk_search, "per_chunk", lambda chunks: 1)
    x = np.random.default_rng(0).integers(-9, 9, 12) / 4
    x[7] = -np.inf
    rows = CUTS[cuts](x)
    for name, *given in (
        *([name] for name in SIMPLEX),
        *(["top_k", k] for k in (0, 1, 4.5, 11)),
        *(["top_k_sum", k] for k in (0, 1, 4.5, 11)),
        ["top_k_indices", 4],
    ):
        found = getattr(stk, name)(rows, *given, axis=-1)
        known = getattr(core, name)(x, *given)
        wide = np.broadcast_to(known, (*rows.shape[:-1], *known.shape))
        np.testing.assert_allclose(np.asarray(found), wide, rtol=1e-15, atol=1e-15)


def kinds(n):
    rng = np.random.default_rng(1)
    x, huge = rng.standard_normal(n), np.finfo(float).max
    return {
        "normal": x,
        "wide": 1e3 * x,
        "wider": 1e6 * x,
        "offset": 1e6 + 1e-3 * x,
        "Cauchy": rng.standard_cauchy(n),
        "of all scales": np.exp(30 * x),
        "ten values": rng.integers(0, 10, n).astype(float),
        "ten values far apart": 1e3 * rng.integers(0, 10, n),
        "one value": np.ones(n),
        "two values": np.where(np.arange(n) % 4, 0.0, 7.0),
        "one at the end of the range": np.where(np.arange(n) == 7, -huge, x),
        "half of them out": np.where(np.arange(n) % 2, x, -np.inf),
    }


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_at_most_four_passes(curve):
    counts = []
    for kind, x in kinds(N).items():
        rows = da.from_array(x, chunks=6000)
        for k in (1, 10.5, 4_000, np.isfinite(x).sum() - 3):
            with Passes() as seen:
                p = stk.soft_topk(rows, k, curve)
            counts.append(seen.count)
            known = core.soft_topk(x, k, curve)
            assert abs(p.compute() - known).max() < 2e-15, (kind, k)
    few = max(counts) <= 4 and np.median(counts) <= 3
    assert few or has_heavy_tails(curve)


def drawn(seed):
    """Rows of many kinds, and the unit of their temperatures."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(N)
    part = rng.choice([0.5, 0.01, 0.001, 0.0005])
    for row in (
        x,
        rng.random(N),
        rng.standard_cauchy(N),
        np.exp(15 * x),
        rng.integers(0, 10, N).astype(float),
        (rng.random(N) < rng.random()).astype(float),
        np.where(rng.random(N) < part, rng.choice([5.0, 100.0, 1e4]), 0) + x,
        np.where(rng.random(N) < 3 / N, 1e6 * rng.standard_normal(N), x),
        np.where(rng.random(N) < 0.5, x, -np.inf),
        np.round(x, 1),
        rng.standard_t(2, N),
        rng.pareto(0.5, N),
        np.where(np.arange(N) == N // 3, rng.choice([-1e30, 1e30]), x),
        np.repeat(x[: N // 100], 100),
        np.where(rng.random(N) < 0.9, 0.0, x),
        np.where(rng.random(N) < 0.3, 1e-6 * x, 1e3 * x),
    ):
        low, high = np.quantile(row[np.isfinite(row)], [0.16, 0.84])
        yield row, (high - low) / 2 or 1.0


@pytest.mark.parametrize(
    "curve", [curve for curve in CURVES if not has_heavy_tails(curve)], ids=str
)
def test_no_row_takes_more_than_four_passes(curve):
    """Of these kinds, at temperatures from 1e-6 to 100 times its spread."""
    rng = np.random.default_rng(14)
    for seed in range(4):
        for kind, (x, spread) in enumerate(drawn(seed)):
            tau, n = spread * 10 ** rng.uniform(-6, 2), np.isfinite(x).sum()
            few = rng.choice([1e-6, 1e-3, 0.5, 1, 2.5, 10.5])
            k = rng.choice([few, n // 100, n // 2, n - few, rng.uniform(0.1, n)])
            x = x.astype(rng.choice(["float32", "float64"]))
            with Passes() as seen:
                stk.threshold(da.from_array(x, chunks=6000), k, curve, temperature=tau)
            assert seen.count <= 4, (seed, kind, tau / spread, k)


def test_an_outlier_that_the_sample_misses_takes_no_pass_more():
    x, spread = [*drawn(104)][7]  # a few scores are a million times as large
    with Passes() as seen:
        stk.threshold(da.from_array(x, chunks=6000), 1, temperature=2.0927 * spread)
    assert seen.count <= 4


def test_equal_scores_that_chunks_merge_meet_a_budget_below_one():
    x = np.repeat(np.random.default_rng(6).standard_normal(N // 100), 100)
    for tau in (0.3, 14.0):
        given = {"k": 0.3, "curve": CURVES[-1], "temperature": tau}
        p = stk.soft_topk(da.from_array(x, chunks=6000), **given).compute()
        assert abs(p - core.soft_topk(x, **given)).max() < 2e-15


def test_a_spread_that_rounding_would_make_negative_is_a_number():
    """Nearly all scores are selected, and one of them is far below the others."""
    x = [*drawn(4)][3][0].astype(np.float32)
    given = chunk_pass.survey(x[None], every=4.9, size=0, seed=0)
    budget = Budget(np.array([N - 1]), np.array([0.9999]), given.n)
    search = chunk_search.ChunkSearch(
        core.curves.LAPLACE, given, budget, 112414.52, True
    )
    assert (np.diff(search.nodes.a + 112414.52 * search.nodes.t) > 0).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_scores_far_from_the_nodes_are_only_counted(curve, dtype, monkeypatch):
    """Long rows: a pass finds what it finds if it sums the shares of all scores."""
    monkeypatch.setattr(chunk_pass, "PIECE_BYTES", 1 << 11)
    curve = core.curves.resolve(curve)
    x = np.random.default_rng(0).standard_normal((1, N)).astype(dtype)
    x[0, :50] = -np.inf
    given = chunk_pass.survey(x, every=5.0, size=0, seed=0)
    for k, tau in ((1, 0.01), (1e-9, 1e-3), (900.5, 0.02), (9_000, 1e-5), (50, 1e-7)):
        whole = np.array([int(k)])
        budget = Budget(whole, k - whole, given.n)
        search = chunk_search.ChunkSearch(
            curve, given, budget, tau, dtype == np.float32
        )
        low, high, every = search.windows()
        near = search.near()
        summed = ((x > near[0, 0]) & (x < near[0, 1])).mean()
        assert summed < 0.5 or has_heavy_tails(curve)
        some, every_one = (
            chunk_pass.sums_at_nodes(
                x, *search.nodes, ends, low, high, every, curve, tau, N, True, 0
            )
            for ends in (near, np.array([[-np.inf, np.inf]]))
        )
        size = 1e-14 * np.maximum(every_one.sums, min(k, 1))
        assert (abs(some.sums - every_one.sums) <= size).all(), (k, tau)
        for one, two in zip(some[1:], every_one[1:], strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("curve", ["exp", "laplace", "sigmoid", "clip"])
def test_usual_rows_take_two_or_three_passes(curve):
    """Two if few scores are near a kink: then the first node is the last."""
    x = np.random.default_rng(0).standard_normal((3, N), dtype=np.float32)
    with Passes() as seen:
        stk.threshold(da.from_array(x, chunks=(2, 6000)), [900, 2000.5, 5000], curve)
    assert seen.count == (2 if curve in ("exp", "laplace") else 3)


def test_a_pass_is_one_graph_for_all_rows_and_reads_each_chunk_once():
    read = []

    def load(block_id):
        read.append(block_id)
        rng = np.random.default_rng(block_id)
        return rng.standard_normal((3, 10_000))

    x = da.map_blocks(load, chunks=((3, 3), (10_000,) * 4), dtype=float)
    read.clear()
    with Passes() as seen:
        stk.threshold(x, [1, 50, 300, 7.5, 2e4, 3e4])
    assert seen.count <= 4
    assert max(map(read.count, read)) <= seen.count


def test_short_rows_take_one_pass():
    x = np.random.default_rng(0).standard_normal((50, 1000))
    with Passes() as seen:
        t = stk.threshold(da.from_array(x, chunks=(20, 300)), 3)
    assert seen.count == 1
    np.testing.assert_array_equal(t, core.threshold(x, 3))


SIMPLEX = ["softmax", "log_softmax", "logsumexp", "sparsemax", "entmax"]


@pytest.mark.parametrize("name", SIMPLEX)
def test_maps_to_the_simplex(name):
    x = 3 * np.random.default_rng(0).standard_normal((3, N))
    x[1, ::2] = -np.inf
    x[2] = 0
    rows = da.from_array(x, chunks=(2, 7000))
    for tau in (0.7, 1e-3):
        with Passes() as seen:
            found = getattr(stk, name)(rows, temperature=tau)
        assert seen.count <= (1 if name in SIMPLEX[:3] else 4)
        known = getattr(core, name)(x, temperature=tau)
        np.testing.assert_allclose(np.asarray(found), known, rtol=1e-13, atol=1e-15)


def test_the_first_of_equal_scores_along_several_axes_of_one_chunk():
    x = np.round(np.random.default_rng(0).standard_normal((2, 3, 4)))
    for axis in (None, (1, 2), (0, 2)):
        found = stk.top_k(da.from_array(x, chunks=-1), 2, axis, ties="first")
        np.testing.assert_array_equal(found, core.top_k(x, 2, axis, ties="first"))


@pytest.mark.parametrize("kind", ["normal", "ten values", "half of them out"])
def test_the_hard_selection(kind):
    x = np.stack([kinds(N)[kind], kinds(N)["two values"]])
    rows = da.from_array(x, chunks=(1, 6000))
    for k in (0, 1, 700, [9000, 3]):
        for ties in ("share", "first"):
            with Passes() as seen:
                p = stk.top_k(rows, k, ties=ties)
            assert seen.count <= 4 + (ties == "first")
            np.testing.assert_array_equal(p, core.top_k(x, k, ties=ties))
        found = stk.top_k_sum(rows, k)
        np.testing.assert_allclose(found, core.top_k_sum(x, k), rtol=1e-13)
        if np.ndim(k) == 0:
            index = stk.top_k_indices(rows, k)
            np.testing.assert_array_equal(index, core.top_k_indices(x, k))
    assert abs(stk.top_k(rows, 3.5).sum(axis=1).compute() - 3.5).max() < 1e-12


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None, (), -2])
def test_any_axes(axis):
    x = np.random.default_rng(0).standard_normal((4, 5, 6))
    rows = da.from_array(x, chunks=(2, 3, 4))
    k = np.random.default_rng(1).uniform(0, 1, core.threshold(x, 0.5, axis=axis).shape)
    for name, given in (("soft_topk", (k,)), ("softmax", ()), ("top_k", (k,))):
        found = getattr(stk, name)(rows, *given, axis=axis)
        known = getattr(core, name)(x, *given, axis=axis)
        np.testing.assert_allclose(found, known, rtol=0, atol=1e-15)


def test_budgets_of_any_shape_repeat_rows():
    x = np.random.default_rng(0).standard_normal((3, N))
    k = np.random.default_rng(1).uniform(0, 100, (2, 3))
    p = stk.soft_topk(da.from_array(x, chunks=(2, 7000)), k)
    assert abs(p.compute() - core.soft_topk(x, k)).max() < 2e-15


def test_rows_without_entries():
    x = np.random.default_rng(0).standard_normal((3, 6))
    x[1] = -np.inf
    rows = da.from_array(x, chunks=(2, 4))
    for name, given in (("soft_topk", (2,)), ("top_k", (2,)), ("softmax", ())):
        found = getattr(stk, name)(rows, *given, empty="zeros")
        known = getattr(core, name)(x, *given, empty="zeros")
        np.testing.assert_allclose(found, known, rtol=0, atol=1e-15)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0, 4)])
def test_no_rows_have_derivatives_of_their_shape(shape):
    x = da.zeros(shape, chunks=2)
    for name in ("soft_topk", "threshold", "softmax"):
        given = () if name == "softmax" else (1,)
        found = stk.linearize(getattr(stk, name), x, *given)
        known = core.linearize(getattr(core, name), np.zeros(shape), *given)
        g = np.zeros(known.value.shape)
        assert np.shape(found.value) == known.value.shape
        assert np.shape(found.vjp(g)) == known.vjp(g).shape
        assert np.shape(found.jvp(x)) == known.jvp(np.zeros(shape)).shape


def test_chunks_of_unknown_sizes():
    x = np.random.default_rng(0).standard_normal(3 * N)
    rows = da.from_array(x, chunks=7000)
    rows = rows[rows > 0]
    with Passes() as seen:
        p = stk.soft_topk(rows, 100)
    assert seen.count <= 4
    assert abs(p.compute() - core.soft_topk(x[x > 0], 100)).max() < 2e-15
    index = stk.top_k_indices(rows, 50)
    np.testing.assert_array_equal(index, core.top_k_indices(x[x > 0], 50))


LINEAR = {
    "soft_topk": (90.5,),
    "threshold": (90.5,),
    "softmax": (),
    "log_softmax": (),
    "logsumexp": (),
    "sparsemax": (),
    "entmax": (1.5,),
}


@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_are_the_cores(name):
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((2, 3, N))
    x[1, :100] = -np.inf
    rows = da.from_array(x, chunks=(2, 7000))
    found = stk.linearize(getattr(stk, name), rows, *LINEAR[name], temperature=0.7)
    known = core.linearize(getattr(core, name), x, *LINEAR[name], temperature=0.7)
    g = t if known.value.ndim == 2 else t[:, 0]
    near = {"rtol": 1e-11, "atol": 1e-14}
    for out in (found.jvp(t), found.vjp(g)):
        assert isinstance(out, da.Array)
    np.testing.assert_allclose(found.value, known.value, **near)
    np.testing.assert_allclose(found.jvp(t), known.jvp(t), **near)
    np.testing.assert_allclose(found.vjp(g), known.vjp(g), **near)
    if known.dk is not None:
        np.testing.assert_allclose(found.dk, known.dk, **near)


def test_slopes_that_underflow_have_a_derivative_by_the_budget():
    x = np.array([2000.0, 1.0, 0.0, 1e4])
    rows = da.from_array(x, chunks=2)
    found, known = (m.linearize(m.soft_topk, y, 2) for m, y in ((stk, rows), (core, x)))
    assert known.dk.max() > 0.4
    np.testing.assert_allclose(found.dk, known.dk, rtol=1e-9)


def test_what_has_no_derivative_is_named():
    x = da.from_array(np.array([5.0, 0.0]), chunks=1)
    with pytest.raises(TypeError, match="operator must be one with a derivative"):
        stk.linearize(stk.top_k, x, 1)
    with pytest.raises(NotImplementedError, match="the middle of an interval"):
        stk.linearize(stk.threshold, x, 1, "clip")
    with pytest.raises(NotImplementedError, match="k must be one number or have"):
        stk.linearize(stk.soft_topk, x, [0.5, 1.5])


@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold, stk.top_k])
def test_costs_are_refused(operator):
    with pytest.raises(NotImplementedError, match="cost is not supported on Dask"):
        operator(da.zeros((2, 4), chunks=2), 1, cost=np.ones(4))
    with pytest.raises(ValueError, match="per must be 'entry' or 'cost'"):
        operator(da.zeros((2, 4), chunks=2), 1, per="unit")


def test_what_the_order_of_chunks_or_a_curve_cannot_give_is_refused():
    x = da.zeros((4, 4), chunks=2)
    for call in (
        lambda: stk.top_k(x, 1, axis=None, ties="first"),
        lambda: stk.top_k_indices(x, 1, axis=None),
    ):
        with pytest.raises(NotImplementedError, match="axis must be one axis for"):
            call()
    for alpha in (0.5, 3.0, [1.5, 2.0]):
        with pytest.raises(NotImplementedError, match="alpha must be one number from"):
            stk.entmax(x, alpha)


def test_other_axes_masks_and_types():
    x = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    rows, mask = da.from_array(x, chunks=(7, 2)), x > -1
    p = stk.soft_topk(rows, 3, axis=0, where=da.from_array(mask, chunks=(7, 2)))
    assert p.dtype == np.float32 and p.chunks == rows.chunks
    known = core.soft_topk(x, 3, axis=0, where=mask)
    assert abs(p.compute() - known).max() < 4e-7


def test_the_survey_is_that_of_all_parts():
    x = np.random.default_rng(3).standard_normal((3, 100_000))
    x[1, 10_000:], x[2, 50_000:] = -np.inf, 9
    parts = [
        chunk_pass.survey(x[:, i : i + 25_000], every=20.0, size=0, seed=i)
        for i in range(0, 100_000, 25_000)
    ]
    found = chunk_sums.Survey.of_chunks(parts)
    assert found.n.tolist() == [100_000, 10_000, 100_000] and not found.bad.any()
    for i in range(3):
        row = x[i, : found.n[i]]
        assert found.top[i] == row.max() and found.least[i] == row.min()
        assert set(found.sample[i]) <= set(x[i])
    assert found.sample.shape == (3, 5000)
    assert abs((found.sample[2] == 9).mean() - 0.5) < 0.001


def test_the_memory_of_a_pass_is_that_of_its_parts():
    x = np.random.default_rng(2).standard_normal((1, 4_000_000), dtype=np.float32)
    clip, at = core.curves.CLIP, np.zeros((1, 5))
    ends = np.full((1, 4), np.inf)

    def measure():
        near = ends[:, :2] * [[-1, 1]]
        given = (at, at, near, -ends, ends, np.full((1, 4), 1e3))
        chunk_pass.sums_at_nodes(x, *given, clip, 1.0, 1000, False, 0)

    for call in (
        lambda: chunk_pass.survey(x, every=1e4, size=0, seed=0),
        lambda: chunk_entries.sum_exponentials(x, 1.0, 0),
        lambda: chunk_entries.sum_slopes(x, at[:, 0], at[:, 0], clip, 1.0, 0),
        measure,
    ):
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < x.nbytes / 4


def test_rounds_show_the_progress_bar_of_dask(capsys):
    with ProgressBar(minimum=0):
        stk.threshold(da.arange(1000.0, chunks=100), 10)
    assert "100% Completed" in capsys.readouterr().out


def bits_of(x):
    """What the operators make of scores, computed."""
    linear = stk.linearize(stk.soft_topk, x, 40)
    lazy = dask.compute(
        linear.value,
        linear.jvp(x),
        stk.soft_topk(x, 9.5, "clip"),
        stk.softmax(x),
        stk.top_k(x, 40.5),
    )
    known = stk.threshold(x, 40), stk.logsumexp(x), stk.top_k_indices(x, 40)
    return b"".join(np.asarray(v).tobytes() for v in (*lazy, *known))


def test_threads_and_processes_make_no_difference_to_any_bit():
    x = da.random.default_rng(0).standard_normal((2, N), chunks=(1, 3000)) * 30
    expected = bits_of(x)
    with dask.config.set(scheduler="threads"):
        assert bits_of(x) == expected
    with (
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
        dask.config.set(scheduler="processes", pool=pool),
    ):
        assert bits_of(x) == expected


class BrokenError(Exception):
    pass


def _broken(block_id):
    if block_id[0] == 3:
        raise BrokenError("this piece cannot be read")
    return np.zeros(100)


def errors_name_what_is_wrong():
    """Of a chunk that raises, and of one with a NaN."""
    x = da.map_blocks(_broken, chunks=((100,) * 5,), dtype=float, meta=np.empty(0))
    with pytest.raises(BrokenError, match="this piece cannot be read"):
        stk.soft_topk(x, 3)
    x = np.zeros(500)
    x[300] = np.nan
    rows = da.from_array(x, chunks=100)
    for operator in (stk.soft_topk, stk.top_k):
        with pytest.raises(ValueError, match=r"x must be finite or -inf.*got nan"):
            operator(rows, 3)
    with pytest.raises(ValueError, match=r"x must be finite or -inf.*got nan"):
        stk.softmax(rows)


def test_a_chunk_that_raises_is_the_error_and_a_nan_is_named():
    errors_name_what_is_wrong()


@pytest.fixture(scope="module")
def workers():
    """Two, each a process with a thread, and no chunk moves to an idle one."""
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _sent(dask_worker):
    return sum(entry["total"] for entry in dask_worker.transfer_outgoing_log)


def test_no_chunk_moves_between_workers(workers):
    """2e8 scores of float32: what workers send each other is at most a megabyte."""
    n, k = SCORES, SCORES // 1000
    with dask.config.set(scheduler=workers):
        rng = da.random.default_rng(0)
        x = rng.standard_normal(n, dtype=np.float32, chunks=n // 20).persist()
        wait(x)
        p = stk.soft_topk(x, k)
        total = float(p.sum(dtype=np.float64).compute())
        assert abs(total / k - 1) < 1e-6
        assert sum(workers.run(_sent).values()) <= 2**20


def test_an_error_on_a_worker_is_the_same(workers):
    with dask.config.set(scheduler=workers):
        errors_name_what_is_wrong()


def _mortal(x, flag):
    """Ends its worker where the flag is there, once."""
    if os.path.exists(flag):
        os.remove(flag)
        os.kill(os.getpid(), signal.SIGKILL)
    return x


# The bits were the same there, too, but its cluster then did not close properly.
@pytest.mark.skipif(
    dask.__version__.startswith("2025.1."),
    reason="Dask 2025.1 did not start a killed worker again beside tornado 6.6",
)
def test_a_killed_worker_changes_no_bit(tmp_path, workers):
    flag = tmp_path / "kill"
    x = da.random.default_rng(0).standard_normal((2, N), chunks=(1, N // 5))
    x = x.map_blocks(_mortal, str(flag), dtype=float, meta=np.empty((0, 0)))
    expected = bits_of(x)
    with dask.config.set(scheduler=workers):
        flag.touch()
        assert bits_of(x) == expected and not flag.exists()
        assert bits_of(x) == expected


# Of Dask's making, with the newest pandas.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_files_of_zarr_and_parquet(tmp_path):
    pytest.importorskip("zarr")
    frames = pytest.importorskip("dask.dataframe")
    x = np.random.default_rng(0).standard_normal(3 * N).astype(np.float32)
    known = core.threshold(x.astype(float), 50)
    rows = da.from_array(x, chunks=7000)
    rows.to_zarr(tmp_path / "x.zarr")
    np.save(tmp_path / "x.npy", x)
    frame = frames.from_dask_array(rows[:, None], columns=["score"])
    frame.to_parquet(tmp_path / "x.parquet")
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for found in (
        da.from_zarr(tmp_path / "x.zarr"),
        da.from_array(mapped, chunks=7000),
        frames.read_parquet(tmp_path / "x.parquet")["score"].to_dask_array(),
    ):
        assert abs(stk.threshold(found, 50) - known) < 1e-6


@pytest.mark.parametrize("name", ["laplace", "exp", "clip"])
def test_a_score_whose_distance_overflows_is_infinitely_far(name):
    huge = np.finfo(float).max
    x = np.array([[-huge, 3.0, 2.0, 1.0], [0.3, huge, 0.1, 0.2], [1.0, 3.0, 0.0, 2.0]])
    for rows in (x, np.where(x == 2, -huge, x)):
        for k in (2, 1.5, [2, 1.5, 2.5]):
            given = {"temperature": 0.1, "curve": name}
            p = stk.soft_topk(da.from_array(rows, chunks=(2, 3)), k, **given)
            expected = core.soft_topk(np.clip(rows, -1e4, 1e4), k, **given)
            np.testing.assert_allclose(p.compute(), expected, atol=1e-13)


X = da.ones((4, 6), chunks=3)
MASKED = da.ma.masked_greater(da.from_array(np.arange(6.0), chunks=3), 3.0)
REFUSED = [
    (TypeError, "x must not be a masked array", {"x": MASKED}),
    (TypeError, "where must not be a masked array", {"where": MASKED > 1}),
    (TypeError, "where must be boolean", {"where": da.full((4, 6), 0.5, chunks=3)}),
    (ValueError, "where must broadcast to", {"where": da.ones((3, 6), dtype=bool)}),
    (TypeError, "axis must be an integer, a tuple", {"axis": 1.0}),
    (ValueError, "axis must not name an axis of x twice", {"axis": (0, 0)}),
    (ValueError, r"axis must lie in \[-2, 1\] for x with 2 axes", {"axis": 5}),
    (ValueError, "k must have one number for each row", {"k": np.ones((4, 1))}),
    (ValueError, "k must broadcast against x without its axis", {"k": np.ones(3)}),
    (TypeError, "k must be a real number", {"k": "two"}),
    (ValueError, r"k must lie in \[0, 6\], where 6 is", {"k": 7}),
    (TypeError, "x must hold real numbers", {"x": X + 1j}),
    (ValueError, "x must be finite or -inf", {"x": X * np.nan}),
]


@pytest.mark.parametrize(("kind", "words", "given"), REFUSED)
def test_what_is_refused_is_named(kind, words, given):
    for operator in (stk.soft_topk, stk.threshold, stk.top_k):
        with pytest.raises(kind, match=words):
            operator(**({"x": X, "k": 1} | given))


def calls():
    """Each operator with each of its arguments, but for those that Dask has not."""
    for name in stk.__all__:
        if name in BASE:
            taken = inspect.signature(getattr(stk, name)).parameters
            known = {*ARGUMENTS} & {*taken, "x"} - {"cost"}
            yield from ((name, argument) for argument in sorted(known))


@pytest.mark.parametrize(("name", "argument"), list(calls()))
def test_a_call_has_the_outcome_that_it_has_on_numpy(name, argument):
    for value in ARGUMENTS[argument]:
        known = outcome(core, name, argument, value, np.asarray)
        told = f"{argument}={value!r}"
        try:
            found = outcome(stk, name, argument, value, da.asarray)
        except NotImplementedError:
            assert argument == "temperature" or (name, argument) in {
                ("entmax", "alpha"),
                ("top_k", "axis"),
                ("top_k_indices", "axis"),
            }, told
            continue
        if isinstance(known, tuple) and isinstance(known[0], type):
            assert found == known, told
        else:
            assert np.shape(found) == np.shape(known), told
            near = {"rtol": 1e-14, "atol": 1e-14}
            np.testing.assert_allclose(found, known, **near, err_msg=told)


def test_integers_that_floats_do_not_hold_are_refused():
    x = np.array([2**60, 2**60 + 1, 5])
    for chunks in (1, 3):
        rows = da.from_array(x, chunks=chunks)
        with pytest.raises(ValueError, match="x must hold integers of at most"):
            stk.soft_topk(rows, 1)
    found = stk.soft_topk(rows, 0.5, where=da.from_array(x < 9))
    np.testing.assert_array_equal(found, [0, 0, 0.5])


def test_a_budget_may_be_a_dask_array():
    x = np.random.default_rng(3).normal(size=(4, 6))
    k = np.array([1.0, 2, 3, 0.5])
    p = stk.soft_topk(da.from_array(x, chunks=3), da.from_array(k))
    np.testing.assert_allclose(p.compute(), core.soft_topk(x, k), atol=1e-14)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("width", [None, 9])
def test_indices_of_rows_of_different_lengths_are_numpys(largest, width):
    x = np.random.default_rng(5).integers(-3, 3, (5, 11)).astype(float)
    x[1, 2:] = -np.inf
    x[4] = -np.inf
    given = {"largest": largest, "width": width, "empty": "all"}
    for k in (3, [0, 4, 7, 1, 2]):
        known = core.top_k_indices(x, k, **given)
        found = stk.top_k_indices(da.from_array(x, chunks=(2, 4)), k, **given)
        np.testing.assert_array_equal(found, known)


def test_a_row_with_fewer_entries_than_its_budget_gives_all_of_them():
    x = np.random.default_rng(6).normal(size=(4, 10))
    x[0, 2:] = -np.inf
    x[3] = -np.inf
    chunks = da.from_array(x, chunks=(3, 4))
    for name in ("soft_topk", "top_k"):
        known = getattr(core, name)(x, 3.5, empty="all")
        found = getattr(stk, name)(chunks, 3.5, empty="all")
        np.testing.assert_allclose(found, known, 1e-12, 1e-12)


def test_a_list_of_lazy_arrays_and_a_table_stay_lazy():
    seen = []

    def read(block):
        seen.append(block.shape)
        return block

    parts = [da.ones(4, chunks=2).map_blocks(read, dtype=float) for _ in range(2)]
    seen.clear()
    rows = stk._DaskRows(Asked(parts, 1, "laplace"))
    assert rows.x.shape == (2, 4) and not seen
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 0.0]}), 1)
    np.testing.assert_allclose(
        stk.soft_topk(frame, 1), core.soft_topk(frame.compute(), 1)
    )
