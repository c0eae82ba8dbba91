"""How the threshold is found on NumPy: starts, passes, brackets, long rows."""

import sys

import numpy as np
import pytest
from rows import CURVES, NAMES, named, off_budget, typed

import softtopk as stk
from softtopk._rows.numpy_rows import as_numpy_rows, order_pair
from softtopk._search import root
from softtopk._search.numpy_search import _Sums, solve
from softtopk._search.numpy_sums import scheme_of
from softtopk._search.start import bracket
from softtopk.curves import LAPLACE, Curve, entmax, resolve


@typed
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_block_stay_the_same_as_others_finish(name, dtype):
    """Rows leave the block one after another; more than one block."""
    rng = np.random.default_rng(7)
    x = rng.standard_cauchy((1500, 400)) * 10.0 ** rng.integers(-3, 4, (1500, 1))
    x = x.astype(dtype)
    for k in (1, 40, 200.5):
        batch = stk.soft_topk(x, k, name)
        for i in range(0, 1500, 150):
            np.testing.assert_array_equal(batch[i], stk.soft_topk(x[i], k, name))


@typed
@pytest.mark.parametrize("rows", [None, 3], ids=["single", "batch"])
def test_few_scores_far_below_most_of_a_row_keep_their_budget(rows, dtype):
    """Nearly all shares of exp are 1, and what is left to sum is small beside k."""
    rng, eps = np.random.default_rng(5), float(np.finfo(dtype).eps)
    for _ in range(500):
        n, few = int(10 ** rng.uniform(2.7, 4.3)), rng.integers(1, 6)
        x = rng.normal(size=(rows or 1, n))
        x[:, :few] = -(10 ** rng.uniform(0, 4, (len(x), few)))
        x = (x * 10 ** rng.uniform(-6, 6)).astype(dtype)
        k = n - 3 * rng.random()
        p = stk.soft_topk(x if rows else x[0], k, "exp")
        off = off_budget(p, k)
        assert np.all(off <= 16 * eps * k)


@pytest.mark.parametrize("curve", ["clip", entmax(1.75)], ids=str)
def test_many_small_shares_far_from_the_k_th_score_keep_their_sum(curve):
    """Counted from there, each would carry the rounding of the same long way."""
    rng, (low, high) = np.random.default_rng(3), resolve(curve).support
    for _ in range(25):
        few = 0.1 * (high - low) * rng.normal(size=rng.integers(1, 4))
        many = np.full(3000, -(high - low) * rng.uniform(0.5, 1.2))
        x = np.concatenate([few, many])
        for k in (1, 1.001, 2.5):
            for p in (stk.soft_topk(x, k, curve), *stk.soft_topk([x, x], k, curve)):
                off = off_budget(p, k)
                assert off <= 16 * np.finfo(float).eps * k


@named
def test_the_bracket_holds_the_threshold(curve):
    for x in ([1.0, 1.0], [0.5, 0.5, 0.5], [9.0, 0.25, 0.0, -1.0], [1.0, 0.75, -20.0]):
        for k in range(1, len(x)):
            with np.errstate(all="ignore"):
                found = solve(curve, as_numpy_rows(x, k))
                ends = np.array(sorted(x)[::-1][k - 1 : k + 1]) - found.anchor[0]
                low, high = bracket(curve, *ends, float(k), len(x))
                if ends[0] - ends[1] >= np.diff(curve.support):
                    continue  # the thresholds are an interval
                assert low < found.offset[0] < high


def test_a_bracket_keeps_thresholds_whose_exponentials_are_in_range():
    """Widened by more than rounding it would hold an e^t that overflows."""
    for n in (2, 3, 8):
        for k in (1e-200, 1e-250):
            p = stk.soft_topk(2.0 ** -np.arange(n), k)
            assert off_budget(p, k) <= 1e-11 * k


def test_a_bound_is_widened_by_its_own_rounding_alone():
    """For exp no J-th score is looked for: its bound stands at the end of the range."""
    row = np.random.default_rng(31).standard_normal(500) * 1e-3
    row[-1] = -1e4
    p = stk.soft_topk([row, row], 499, "exp")
    assert off_budget(p, 499).max() <= 1e-15 * 499


@pytest.mark.parametrize(
    "curve", [*CURVES, stk.curves.EXP.reflected()], ids=lambda c: c.name
)
def test_few_evaluations_are_enough(curve, monkeypatch):
    """Counts, not times: at most 16 on rows that make a plain Newton step fail."""
    rng = np.random.default_rng(6)
    n, calls = 2000, 0
    owner, name = scheme_of(curve) or root, "sums"
    passes = getattr(owner, name)

    def counted(*arguments):
        nonlocal calls
        calls += 1
        return passes(*arguments)

    monkeypatch.setattr(owner, name, counted)
    for x in (
        1e3 * rng.normal(size=n),
        0.01 * rng.normal(size=n),
        rng.standard_cauchy(n),
        rng.integers(0, 3, n),
        2.0 ** -np.arange(n),
        np.repeat([50.0, -50.0], n // 2),
    ):
        for k in (1, 3, n // 10, n // 2, n - 1, 2.7, n - 0.5):
            calls = 0
            stk.soft_topk(x, k, curve)
            assert calls <= (16 if scheme_of(curve) else 80)


@pytest.mark.parametrize("size", [(50, 40), (3, 50_000)], ids=["block", "long"])
@pytest.mark.parametrize("curve", ["exp", "laplace", "clip"])
def test_a_last_step_passes_no_entry(curve, size):
    """Entries so dense that a short step passes some: then it is not the last."""
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal(size=size), 1e-3 * rng.normal(size=size)], axis=-1)
    for k in (1, size[1] // 3, size[1], 2 * size[1] - 1):
        p = stk.soft_topk(x, k, curve)
        off = off_budget(p, k)
        assert np.all(off <= 16 * np.finfo(float).eps * k)


COUNTED = [c for c in CURVES if (s := scheme_of(c)) and (s.exact or s.counted)]


@pytest.mark.parametrize("curve", COUNTED, ids=lambda c: c.name)
@typed
def test_a_count_is_the_first_of_the_moments(curve, dtype):
    # Else the solver evaluates once more than it has to, and nobody would notice.
    rng = np.random.default_rng(3)
    d = rng.normal(size=50).astype(dtype)
    scheme = scheme_of(curve)(curve, d.size, dtype)
    v = scheme.prepare(d.copy())
    sums, part = _Sums(scheme, v, 7.0), _Sums(scheme, v[:20], 7.0)
    counts = set()
    for offset in np.linspace(-2, 2, 9):
        t = scheme.at_offset(np.float64(offset))
        with np.errstate(divide="ignore"):  # the solver ignores it as well
            whole, some = sums(t), part(t)
            count = sums.count(t)
            rest = np.subtract(whole, some, dtype=np.float64)
            narrowed = _Sums(scheme, part.v, 7.0, rest)
            assert narrowed.count(t) == narrowed(t)[0] == count == whole[0]
        counts.add(float(count))
    assert len(counts) > 3


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
def test_a_tiny_budget_is_met_from_far_away(curve):
    """A step that is exact on paper loses the digits of a budget far below its sums."""
    rng = np.random.default_rng(7)
    for k in 10.0 ** -np.arange(2, 12):
        for gap in (2, 8, 20):
            x = np.append(rng.normal(size=3), gap)
            assert abs(stk.soft_topk(x, k, curve).sum() / k - 1) <= 4e-15


@pytest.mark.parametrize("seed", range(5))
def test_a_small_step_is_felt_where_many_shares_are_small(seed):
    """100 000 shares of 1e-5 change by thousands of eps for a step of a millionth."""
    x = np.random.default_rng(seed).standard_cauchy(100_000) * 3.35e-6
    p = stk.soft_topk(x.astype(np.float32), 1, entmax(1.9))
    assert abs(p.sum(dtype=np.float64) - 1) <= 16 * np.finfo(np.float32).eps


@pytest.mark.parametrize("rows", [1, 2])
def test_an_exact_step_from_far_keeps_no_rounding_of_its_start(rows):
    """One score far above the others: the start is log(n / 2k) above its threshold."""
    for n, top, k in [(1000, 14, 0.499), (5000, 12, 0.499), (5000, 100, 0.3)]:
        x = np.zeros((rows, n))
        x[:, -1] = top
        total = stk.soft_topk(x, k).sum(axis=-1)
        assert abs(total / k - 1).max() <= 4 * np.finfo(float).eps


# --- how many passes ----------------------------------------------------------------


@pytest.fixture
def evaluated(monkeypatch):
    """Gets the sizes of what `curve` is evaluated on."""
    sizes = []

    def watch(curve):
        cls = scheme_of(resolve(curve))
        sums = cls.sums

        def counted(self, v, *arguments):
            sizes.append(v.size)
            return sums(self, v, *arguments)

        monkeypatch.setattr(cls, "sums", counted)
        return sizes

    return watch


@pytest.fixture
def searched(monkeypatch):
    """The sizes of what the k-th score is sought in."""
    search, sizes = order_pair, []

    def counted(x, *arguments):
        sizes.append(x.size)
        return search(x, *arguments)

    monkeypatch.setattr(sys.modules[solve.__module__], "order_pair", counted)
    return sizes


@pytest.mark.parametrize(
    ("curve", "most"),
    [
        ("exp", 1),
        ("laplace", 1.5),
        ("sigmoid", 3.5),
        ("clip", 2.5),
        ("triangular", 4),
        (entmax(1.25), 4),
    ],
)
def test_normal_rows_start_near_their_threshold(curve, most, evaluated):
    """On average; with no step to begin with, or none to end with, it is one more."""
    rng, calls = np.random.default_rng(7), evaluated(curve)
    rows = [s * rng.normal(size=n) for s in (0.1, 1, 10) for n in (100, 2000)]
    budgets = [0.01, 0.1, 0.5, 0.99]
    for x in rows:
        for share in budgets:
            stk.soft_topk(x, share * len(x), curve)
    assert len(calls) <= most * len(rows) * len(budgets)


@pytest.mark.parametrize(
    ("curve", "most"), [("exp", 3.6), ("laplace", 2.1), ("sigmoid", 3.6)]
)
def test_rows_of_a_block_start_near_their_threshold(curve, most, evaluated):
    sizes = evaluated(curve)
    x = np.random.default_rng(10).normal(size=(500, 128))
    for k in (12, 64, 100):
        stk.soft_topk(x, k, curve)
    assert sum(sizes) <= most * 3 * x.size


@pytest.mark.parametrize(
    ("curve", "most"), [("exp", 1.25), ("laplace", 1.25), ("clip", 2)]
)
def test_entries_are_counted_where_that_may_save_a_pass(curve, most, monkeypatch):
    """A count costs nearly as much: a step over many entries asks for none."""
    cls, sizes = scheme_of(resolve(curve)), []
    past = cls.past

    def counted(self, v, t):
        sizes.append(v.size)
        return past(self, v, t)

    monkeypatch.setattr(cls, "past", counted)
    rng, calls = np.random.default_rng(11), 0
    for n in (2100, 5000):
        for scale in (0.1, 1, 10):
            for share in (0.01, 0.1, 0.5, 0.9):
                stk.soft_topk(scale * rng.normal(size=n), share * n, curve)
                calls += n
    assert sum(sizes) <= most * calls


def test_a_sample_of_a_long_row_is_a_start(evaluated):
    rng, sizes, n = np.random.default_rng(9), evaluated("sigmoid"), 140_000
    for scale, rounds in ((1, 3.2), (10, 3.2), (100, 4.2)):
        x = scale * rng.normal(size=n)
        for k in (n // 10, n // 2):
            sizes.clear()
            stk.soft_topk(x, k, "sigmoid")
            assert sum(sizes) <= rounds * n


@pytest.mark.parametrize(
    ("curve", "most", "searches"),
    [
        ("exp", 2.6, 4),
        ("laplace", 2.1, 0),
        ("sigmoid", 3.1, 0),
        ("clip", 1.1, 4),
        (entmax(1.25), 4.7, 4),
    ],
)
def test_long_rows_need_few_evaluations_and_searches(
    curve, most, searches, evaluated, searched
):
    """The k-th score is sought at the ends alone, where a sample tells little."""
    x, sizes = np.random.default_rng(10).normal(size=50_000), evaluated(curve)
    budgets = (1, 3, 5000, 25_000, 49_997, 49_999)
    for k in budgets:
        stk.soft_topk(x, k, curve)
    assert sum(sizes) <= most * x.size * len(budgets)
    assert searched == [x.size] * searches
    # Far apart, the k-th score is sought at once and nothing else is done twice.
    sizes.clear()
    for k in budgets:
        stk.soft_topk(1000 * x, k, curve)
    assert sum(sizes) <= most * x.size * len(budgets)
    assert len(searched) == searches + len(budgets)


@pytest.mark.parametrize(
    ("curve", "most"), [("exp", 2.6), ("laplace", 2.1), ("sigmoid", 3.2), ("clip", 3)]
)
def test_a_mask_costs_a_long_row_nothing(curve, most, evaluated, searched):
    rng, sizes = np.random.default_rng(13), evaluated(curve)
    x = rng.normal(size=(4, 50_000))
    where = rng.random(x.shape) < np.array([0.5, 1.1, 0.5, 0.1])[:, None]
    count = where.sum(axis=-1)
    for share in (0.1, 0.5, 0.9):
        k = np.floor(share * count)
        k[0] = 0
        stk.soft_topk(x, k, curve, where=where)
    assert not searched
    assert sum(sizes) <= most * 9 * x.shape[1]
    p = stk.soft_topk(x, count - 1, curve, where=where)
    np.testing.assert_allclose(p.sum(axis=-1), count - 1, rtol=1e-14)


# --- long rows ----------------------------------------------------------------------


@named
@pytest.mark.parametrize("n", [40_000, 200_000])
def test_a_sample_that_misleads_does_no_harm(curve, n):
    """What a part of a long row shows decides the way to the solution, not where."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=n)
    stride = n // 1024
    for bulk in (1.0, 30.0, 1000.0):
        far = x.copy()
        far[::stride] -= bulk  # at least the scores that a stride would pick
        far[:: stride + 1] -= bulk
        shuffled = rng.permutation(n)
        for k in (1, 5, n // 10, n // 2, n - 3):
            p = stk.soft_topk(far, k, curve)
            q = stk.soft_topk(far[shuffled], k, curve)
            assert abs(p.sum() - k) <= 16 * 2.0**-52 * k
            np.testing.assert_allclose(p[shuffled], q, rtol=0, atol=6 * 2.0**-52)


@pytest.mark.parametrize("name", NAMES)
def test_long_rows_of_ties_match_each_other(name):
    """The same values, each as often: k scales with the length, p does not change."""
    base = np.repeat([3.0, 2.5, 1.0, 0.0, -np.inf], [2, 8, 30, 60, 5])
    for k in (1, 3, 10, 40, 99.5):
        p = stk.soft_topk(base, k, name)
        for count in (300, 1301):  # more than one line; a sample to start from
            long = stk.soft_topk(np.tile(base, count), k * count, name)
            np.testing.assert_allclose(
                long.reshape(count, -1),
                np.tile(p, (count, 1)),
                rtol=0,
                atol=16 * 2**-52,
            )


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
@pytest.mark.parametrize("k", [100, 5000, 16000])
def test_a_mask_may_leave_out_every_sampled_entry(curve, k):
    n = 1 << 15
    where = np.arange(n) % (n >> 10) != 0
    p = stk.soft_topk(np.zeros(n), k, curve, where=where)
    assert np.allclose(p[where], k / where.sum(), rtol=0, atol=8 * 2.0**-52)
    assert not p[~where].any()


class OwnLaplace(Curve):
    """A curve without a quick sum: the search is the one for all curves."""

    def value(self, t):
        return LAPLACE.value(t)

    def slope(self, t):
        return LAPLACE.slope(t)


@pytest.mark.parametrize("tau", [1.0, 1e-3, 1e-300, 1e300])
def test_distances_that_overflow_are_infinite_for_a_curve_of_ones_own(tau):
    x = np.array([[3.0, -1e308, 1e8, 0.5], [1e308, 1.0, -1e308, 1.0]])
    x = np.vstack([x, [[0.0, 5e-324, 1e150, -np.inf]]])
    for k in (0.3, 1, 1.5, 2.5):
        p = stk.soft_topk(x, k, OwnLaplace(), temperature=tau)
        exact = stk.soft_topk(x, k, "laplace", temperature=tau)
        np.testing.assert_allclose(p, exact, rtol=0, atol=1e-14)
