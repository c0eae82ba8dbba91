"""The selection on Dask: against the core, lazy, and without any chunk moving."""

import os
import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
from dask.diagnostics import ProgressBar
from distributed import Client, LocalCluster, wait
from test_behaviour import ARGUMENTS, outcome

import softtopk as core
import softtopk.dask as stk

CURVES = [*core.curves.NAMED, core.curves.entmax(1.5)]
SCORES = int(float(os.environ.get("SOFTTOPK_DASK_SCORES", "2e8")))


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_shares_and_threshold_are_the_cores(curve):
    x = np.random.default_rng(0).standard_normal((6, 1000))
    x[0, :3] = -np.inf
    rows = da.from_array(x, chunks=(2, 300))
    for k, tau in [(1, 1.0), (3.5, 0.01), ([0, 1, 1000, 3, 900.2, 7], 0.3)]:
        p = stk.soft_topk(rows, k, curve, temperature=tau)
        assert p.chunks == rows.chunks
        exact = core.soft_topk(x, k, curve, temperature=tau)
        assert abs(p.compute() - exact).max() < 4e-15
        t = stk.threshold(rows, k, curve, temperature=tau)
        assert np.allclose(
            t, core.threshold(x, k, curve, temperature=tau), rtol=0, atol=4e-15
        )


@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold])
def test_costs_are_refused(operator):
    with pytest.raises(NotImplementedError, match="cost is not supported on Dask"):
        operator(da.zeros((2, 4), chunks=2), 1, cost=np.ones(4))


def test_other_axes_masks_and_types():
    x = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    rows, mask = da.from_array(x, chunks=(7, 2)), x > -1
    p = stk.soft_topk(rows, 3, axis=0, where=da.from_array(mask, chunks=(7, 2)))
    assert p.dtype == np.float32 and p.chunks == rows.chunks
    exact = core.soft_topk(x, 3, axis=0, where=mask)
    assert abs(p.compute() - exact).max() < 4e-7


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_a_chunk_is_calculated_with_in_parts(curve):
    """Long rows in parts of their own, and many rows that end within one."""
    rng = np.random.default_rng(1)
    for shape in ((2, 20_001), (3, 10_000, 5)):
        x = rng.standard_normal(shape) * 2 + 5
        x[0, ..., : shape[-1] // 2], x[1] = -np.inf, x[1] * 1e3
        rows = da.from_array(x, chunks=(2, *shape[1:]))
        for tau in (0.7, 1e-4):
            found = stk.soft_topk(rows, 2, curve, temperature=tau).compute()
            exact = core.soft_topk(x, 2, curve, temperature=tau)
            assert abs(found - exact).max() < 1e-15


def test_moments_are_those_of_all_parts():
    x = np.random.default_rng(3).standard_normal((3, 40_000))
    x[1, 10_000:], x[2] = -np.inf, np.linspace(0, 50, 40_000)
    n, found = stk._moments(da.from_array(x, chunks=(2, 20_000)))
    assert n.tolist() == [40_000, 10_000, 40_000]
    for i in range(3):
        row = x[i, : n[i]]
        exact = row.max(), row.min(), row.mean(), row.std()
        assert np.allclose([m[i] for m in found[:4]], exact, rtol=1e-14, atol=1e-15)
    assert found.far is None


def test_the_gap_of_a_plateau_is_found_over_all_parts():
    x = np.where(np.arange(40_000) % 4, 0.0, 7.0)
    rows = da.from_array(x, chunks=20_000)
    assert stk.threshold(rows, 10_000, "clip") == core.threshold(x, 10_000, "clip") == 3


def test_the_memory_of_a_round_is_that_of_its_parts():
    x = np.random.default_rng(2).standard_normal((1, 2_000_000), dtype=np.float32)
    at, clip = np.zeros(1), core.curves.CLIP
    for measure in (
        lambda: stk._chunk_moments(x),
        lambda: stk._sums(x, at, at, clip, 1.0),
        lambda: stk._gap(x, at, at, 1.0, clip.centre),
    ):
        tracemalloc.start()
        measure()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < x.nbytes / 8


def test_bad_input_raises():
    x = da.from_array(np.array([1.0, np.nan]), chunks=1)
    with pytest.raises(ValueError, match="x must be finite"):
        stk.threshold(x, 1)
    with pytest.raises(ValueError, match="k must lie in"):
        stk.threshold(da.arange(5.0, chunks=2), 6)


def test_rounds_show_the_progress_bar_of_dask(capsys):
    with ProgressBar(minimum=0):
        stk.threshold(da.arange(1000.0, chunks=100), 10)
    assert "100% Completed" in capsys.readouterr().out


def _sent(dask_worker):
    return sum(entry["total"] for entry in dask_worker.transfer_outgoing_log)


def test_no_chunk_moves_between_workers():
    """2e8 scores of float32: what workers send each other is at most a megabyte."""
    n, k = SCORES, SCORES // 1000
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        x = da.random.default_rng(0).standard_normal(
            n, dtype=np.float32, chunks=n // 20
        )
        x = x.persist()
        wait(x)
        p = stk.soft_topk(x, k)
        total = float(p.sum(dtype=np.float64).compute())
        assert abs(total / k - 1) < 1e-6
        assert sum(client.run(_sent).values()) <= 2**20


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
    (TypeError, "axis must be one integer", {"axis": None}),
    (TypeError, "axis must be one integer", {"axis": (0, 1)}),
    (ValueError, r"axis must lie in \[-2, 1\] for x with 2 axes", {"axis": 5}),
    (ValueError, "k must have one number for each row", {"k": np.ones((4, 1))}),
    (ValueError, "k must have one number or one for each", {"k": np.ones((2, 4))}),
    (TypeError, "k must be a real number", {"k": "two"}),
    (ValueError, r"k must lie in \[0, 6\], where 6 is", {"k": 7}),
    (TypeError, "x must hold real numbers", {"x": X + 1j}),
    (ValueError, "x must be finite or -inf", {"x": X * np.nan}),
]


@pytest.mark.parametrize(("kind", "words", "given"), REFUSED)
def test_what_is_refused_is_named(kind, words, given):
    for operator in (stk.soft_topk, stk.threshold):
        with pytest.raises(kind, match=words):
            operator(**({"x": X, "k": 1} | given))


@pytest.mark.parametrize("name", ["soft_topk", "threshold"])
@pytest.mark.parametrize("argument", ["x", "where", "temperature", "k", "curve"])
def test_a_call_has_the_outcome_that_it_has_on_numpy(name, argument):
    """Where entries of x are refused, the message does not show the first of them."""
    for value in ARGUMENTS[argument]:
        known = outcome(core, name, argument, value, np.asarray)
        found = outcome(stk, name, argument, value, da.asarray)
        told = f"{argument}={value!r}"
        if isinstance(known, tuple) and isinstance(known[0], type):
            assert found[0] is known[0], told
            assert known[1].startswith(found[1]), told
        else:
            assert found.shape == known.shape, told
            np.testing.assert_allclose(found, known, atol=1e-14, err_msg=told)


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
