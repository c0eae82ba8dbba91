"""Budgets with costs on NumPy: shares, threshold, Dantzig's solution, derivatives."""

import math

import numpy as np
import oracle_costs
import pytest
from mpmath import mp, mpf
from rows import CURVES, has_heavy_tails, named, tail
from rows_costs import CALLS, SEED, hunted, reference, worst

import softtopk as stk
from softtopk._search import exact_sums
from softtopk.curves import resolve

PER = pytest.mark.parametrize("per", ["entry", "cost"])
X = np.array([3.0, 1.0, 0.0, 0.5, -2.0])
C = np.array([1.0, 2.0, 0.5, 3.0, 0.25])


@named
def test_shares_are_within_the_proved_bound(curve):
    eps = float(np.finfo(float).eps)
    for x, c, K, tau, per in hunted(float, CALLS, SEED + CURVES.index(curve)):
        p = stk.soft_topk(x, K, curve, temperature=tau, cost=c, per=per)
        told = f"HUNT_SEED={SEED}: {x.tolist()}, {c.tolist()}, {K!r}, {tau}, {per}"
        assert worst(p, x, c, K, curve, tau, per, eps) <= 1, told


@named
@PER
def test_costs_of_one_change_nothing(curve, per):
    rng = np.random.default_rng(3)
    for k in (0.3, 2, 2.5, 5.999):
        x = 3 * rng.standard_normal((4, 6))
        given = {"temperature": 0.4}
        p = stk.soft_topk(x, k, curve, cost=np.ones(6), per=per, **given)
        np.testing.assert_allclose(p, stk.soft_topk(x, k, curve, **given), 0, 2e-15)
        t = stk.threshold(x, k, curve, cost=1, per=per, **given)
        np.testing.assert_allclose(t, stk.threshold(x, k, curve, **given), 0, 2e-14)
        lin = stk.linearize(stk.soft_topk, x, k, curve, cost=1, per=per, **given)
        known = stk.linearize(stk.soft_topk, x, k, curve, **given)
        np.testing.assert_allclose(lin.jacobian(), known.jacobian(), 0, 1e-14)
        np.testing.assert_allclose(lin.dk, known.dk, 0, 1e-14)


@named
def test_a_whole_cost_counts_an_entry_so_many_times(curve):
    """Per unit of cost an entry of cost 3 is three entries of cost 1 with its score."""
    c = np.array([1, 3, 2, 5, 1])
    place = np.repeat(np.arange(5), c)
    for K in (0.5, 4, 7.25, 11.5):
        p = stk.soft_topk(X, K, curve, temperature=0.7, cost=c, per="cost")
        each = stk.soft_topk(X[place], K, curve, temperature=0.7)
        np.testing.assert_allclose(p[place], each, 0, 4e-15)


@named
def test_a_price_common_to_all_moves_the_threshold_alone(curve):
    """x + b c is bought at a price higher by b; in binary nothing of it is rounded."""
    K, b = 3.3, 2.0**20
    p = stk.soft_topk(X, K, curve, cost=C)
    moved = stk.soft_topk(X + b * C, K, curve, cost=C)
    np.testing.assert_allclose(moved, p, 0, 4e-15)
    t = stk.threshold(X, K, curve, cost=C)
    moved = stk.threshold(X + b * C, K, curve, cost=C)
    assert moved - b == pytest.approx(t, abs=2 * np.spacing(b))
    shares = stk.soft_topk(X + b, K, curve, cost=C, per="cost")
    known = stk.soft_topk(X, K, curve, cost=C, per="cost")
    np.testing.assert_allclose(shares, known, 0, 4e-15)


@named
@PER
def test_the_unit_of_costs_is_free(curve, per):
    """Budget and costs in other units, by a power of two, select the same."""
    p = stk.soft_topk(X, 3.3, curve, cost=C, per=per)
    other = stk.soft_topk(X, 3.3 * 2**30, curve, cost=C * 2**30, per=per)
    np.testing.assert_array_equal(other, p)


@PER
def test_masked_entries_take_no_part(per):
    on = np.array([True, False, True, True, False])
    p = stk.soft_topk(X, 2.2, cost=np.where(on, C, np.nan), where=on, per=per)
    np.testing.assert_allclose(
        p[on], stk.soft_topk(X[on], 2.2, cost=C[on], per=per), 0, 1e-15
    )
    assert (p[~on] == 0).all()
    y = np.where(on, X, -np.inf)
    np.testing.assert_array_equal(stk.soft_topk(y, 2.2, cost=C, per=per), p)
    hard = stk.top_k(X, 2.2, cost=np.where(on, C, -1), where=on, per=per)
    np.testing.assert_array_equal(hard[on], stk.top_k(X[on], 2.2, cost=C[on], per=per))


@PER
def test_nothing_everything_and_rows_without_entries(per):
    rows = np.stack([X, X, X, np.full(5, -np.inf)])
    k = [0, C.sum(), 2.0, 0]
    p = stk.soft_topk(rows, k, cost=C, per=per)
    assert (p[0] == 0).all()
    assert (p[1] == 1).all()
    assert (p[3] == 0).all()
    t = stk.threshold(rows, k, cost=C, per=per)
    assert t[0] == np.inf
    assert t[1] == -np.inf
    lin = stk.linearize(stk.threshold, rows, k, cost=C, per=per)
    assert (lin.jacobian()[[0, 1, 3]] == 0).all()
    assert (lin.dk[[0, 1, 3]] == 0).all()
    assert (lin.by_cost.jacobian()[[0, 1, 3]] == 0).all()
    np.testing.assert_array_equal(
        stk.top_k(rows, k, cost=C, per=per)[[0, 1, 3]], p[[0, 1, 3]]
    )
    assert stk.soft_topk(np.empty((0, 5)), 1, cost=C, per=per).shape == (0, 5)
    assert stk.top_k(np.empty((0, 5)), 1, cost=C, per=per).shape == (0, 5)
    assert float(stk.soft_topk(0.3, 1.5, cost=2.0, per=per)) == 0.75
    assert float(stk.top_k(0.3, 1.5, cost=2.0, per=per)) == 0.75


def test_a_sum_of_costs_that_was_rounded_up_is_all():
    c = np.full(10, 0.1, np.float32)
    total = float(c.cumsum(dtype=np.float32)[-1])
    assert total > math.fsum(c.tolist())
    assert (stk.soft_topk(np.arange(10, dtype=np.float32), total, cost=c) == 1).all()
    assert (stk.top_k(np.arange(10, dtype=np.float32), total, cost=c) == 1).all()


def test_axes_and_budgets_of_several_rows():
    rng = np.random.default_rng(0)
    x, c = rng.standard_normal((3, 2, 4)), rng.uniform(0.5, 2, (3, 1, 4))
    p = stk.soft_topk(x, [2.0, 3.0], cost=c, axis=(0, 2))
    for j, K in enumerate([2.0, 3.0]):
        row = stk.soft_topk(x[:, j].ravel(), K, cost=c.ravel()).reshape(3, 4)
        np.testing.assert_allclose(p[:, j], row, 0, 1e-15)
    assert stk.soft_topk(X, [1, 2.5, 3], cost=C).shape == (3, 5)
    hard = stk.top_k(x, [2.0, 3.0], cost=c, axis=(0, 2))
    np.testing.assert_allclose((hard * c).sum(axis=(0, 2)), [2, 3])


def greedy(x, c, K, per):
    """Dantzig's solution, one entry after the other; the places are the order."""
    density = [a / b if per == "entry" else a for a, b in zip(x, c, strict=True)]
    p = [0.0] * len(x)
    for i in sorted(range(len(x)), key=lambda i: -density[i]):
        spent = math.fsum(a * b for a, b in zip(p, c, strict=True))
        p[i] = min(1.0, max(0.0, (K - spent) / c[i]))
    return p


@PER
def test_top_k_is_dantzigs_solution(per):
    for x, c, K, _, _ in hunted(float, 200, SEED):
        p = stk.top_k(x, K, cost=c, per=per, ties="first")
        bound = 8 * np.finfo(float).eps * (1 + len(x) * c.sum() / c)
        told = f"HUNT_SEED={SEED}: {x.tolist()}, {c.tolist()}, {K!r}"
        assert (abs(p - greedy(x, c, K, per)) <= bound).all(), told
        assert abs(math.fsum((p * c).tolist()) - K) <= 4e-16 * K * len(x), told
        shared = stk.top_k(x, K, cost=c, per=per)
        density = x / c if per == "entry" else x
        for value in set(density.tolist()):
            assert len(set(shared[density == value].tolist())) == 1, told
        assert abs(math.fsum((shared * c).tolist()) - K) <= 4e-16 * K * len(x), told
        # No selection within the budget is worth more, and both are worth the same.
        worth = x if per == "entry" else x * c
        size = 1e-13 * abs(worth).sum()
        assert abs(shared @ worth - p @ worth) <= size, told


def test_a_budget_that_costs_add_up_to_is_met_to_the_last_entry():
    """A sum in the order of the entries would round the small costs away."""
    c = np.array([2.0**53, *[1] * 7])
    x = c * np.arange(8, 0, -1)
    assert c.cumsum()[-1] == c[0]
    for ties in ("share", "first"):
        p = stk.top_k(x, 2.0**53 + 2, cost=c, ties=ties)
        np.testing.assert_array_equal(p, [1, 1, 1, 0, 0, 0, 0, 0])
    for curve in CURVES:
        p = stk.soft_topk(x, 2.0**53 + 2, curve, cost=c, temperature=1e-3)
        near = 1e-15 + len(c) * tail(curve, 500.0)
        np.testing.assert_allclose(p, [1, 1, 1, 0, 0, 0, 0, 0], 0, near)


@named
@PER
def test_cold_shares_are_dantzigs(curve, per):
    x, c = np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 0.5, 4.0])
    x = x * c if per == "entry" else x
    hard = stk.top_k(x, 3.2, cost=c, per=per)
    np.testing.assert_allclose(hard, [1, 1, 0.4, 0], 0, 1e-15)
    soft = stk.soft_topk(x, 3.2, curve, temperature=1e-6, cost=c, per=per)
    # The others are 10^6 temperatures from the threshold; all of what they lack or have
    # may go to the entry that takes part of the budget.
    moved = c.sum() / c.min() * tail(curve, 0.9e6)
    np.testing.assert_allclose(soft, hard, 0, 1e-14 + moved)


@named
@PER
def test_derivatives_match_the_reference(curve, per):
    eps = np.finfo(float).eps
    exact = oracle_costs.solve(X, C, 3.3, *reference(curve), 0.8, per)
    by_x, by_c, (by_k, dt), _ = exact.derivatives()
    given = {"temperature": 0.8, "cost": C, "per": per}
    lin = stk.linearize(stk.soft_topk, X, 3.3, curve, **given)
    J = np.array([[float(v) for v in row] for row, _ in by_x]).T
    np.testing.assert_allclose(lin.jacobian(), J, 0, 16 * eps)
    g = np.random.default_rng(0).standard_normal(5)
    np.testing.assert_allclose(lin.vjp(g), g @ J, 0, 32 * eps)
    np.testing.assert_allclose(lin.dk, [float(v) for v in by_k], 0, 16 * eps)
    of_costs = np.array([[float(v) for v in row] for row, _ in by_c]).T
    np.testing.assert_allclose(lin.by_cost.jacobian(), of_costs, 0, 16 * eps)
    np.testing.assert_allclose(lin.by_cost.vjp(g), g @ of_costs, 0, 32 * eps)
    np.testing.assert_allclose(lin.by_cost.jvp(g), of_costs @ g, 0, 32 * eps)
    lin = stk.linearize(stk.threshold, X, 3.3, curve, **given)
    slope = [float(t) for _, t in by_x]
    np.testing.assert_allclose(lin.jacobian(), slope, 0, 16 * eps)
    assert lin.dk == pytest.approx(float(dt), abs=16 * eps)
    slope = np.array([float(t) for _, t in by_c])
    np.testing.assert_allclose(lin.by_cost.jacobian(), slope, 0, 16 * eps)
    assert lin.by_cost.jvp(g) == pytest.approx(slope @ g, abs=32 * eps)
    np.testing.assert_allclose(lin.by_cost.vjp(2), 2 * slope, 0, 32 * eps)
    # Symmetric in the metric that the definition says.
    metric = C if per == "cost" else np.ones(5)
    weighted = metric[:, None] * J
    np.testing.assert_allclose(weighted, weighted.T, 0, 8 * eps)


@PER
@pytest.mark.parametrize("operator", [stk.soft_topk, stk.threshold])
def test_the_derivative_by_costs_has_their_shape(operator, per):
    """Costs that several rows share get the sum of what each row says of them."""
    rng = np.random.default_rng(SEED)
    x, on = rng.standard_normal((2, 3, 5)), rng.random((2, 3, 5)) < 0.7
    on[..., 0] = True
    c = rng.uniform(0.5, 2, (3, 1))
    whole = np.broadcast_to(c, x.shape)
    given = {"k": 0.4, "where": on, "per": per}
    lin = stk.linearize(operator, x, cost=c, **given).by_cost
    each = stk.linearize(operator, x, cost=whole, **given).by_cost
    g = rng.standard_normal(lin.value.shape)
    assert (each.vjp(g)[~on] == 0).all()
    summed = each.vjp(g).sum(axis=(0, 2))[:, None]
    np.testing.assert_allclose(lin.vjp(g), summed, 0, 1e-14)
    move = rng.standard_normal(c.shape)
    ends = [operator(x, cost=c + h * move, **given) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(lin.jvp(move), (ends[0] - ends[1]) / 2e-6, 0, 1e-8)
    assert (lin.jvp(move) * g).sum() == pytest.approx((lin.vjp(g) * move).sum())
    # One cost for all, of a column with two axes
    lin = stk.linearize(operator, x, 0.4, axis=(0, 2), cost=1.5, per=per).by_cost
    move = lin.vjp(np.ones_like(lin.value))
    assert np.shape(move) == ()
    assert move == pytest.approx(lin.jvp(1.0).sum())


def test_there_is_no_derivative_by_costs_without_costs():
    assert stk.linearize(stk.soft_topk, X, 2).by_cost is None
    assert stk.linearize(stk.threshold, X, 2).by_cost is None


@pytest.mark.parametrize("gap", [40.0, 1400.0])
def test_a_wide_gap_leaves_the_derivatives_by_the_budget(gap):
    """c_1 w_1 = c_2 w_2 balance the gap; at 1400 they are near the least float."""
    c, log = np.array([1.0, 3.0]), (math.log(3) - gap) / 2
    given = {"cost": c, "per": "cost"}
    lin = stk.linearize(stk.soft_topk, [gap, 0.0], 1, **given)
    np.testing.assert_allclose(lin.dk, [1 / 2, 1 / 6], 1e-13)
    lin = stk.linearize(stk.threshold, [gap, 0.0], 1, **given)
    np.testing.assert_allclose(lin.jacobian(), [1 / 2, 1 / 2], 1e-13)
    assert lin.dk == pytest.approx(-math.exp(-log), rel=1e-12)


@PER
def test_a_budget_of_all_but_a_rounding_has_its_threshold(per):
    K = np.nextafter(4.0, 0)
    t = stk.threshold(np.zeros(4), K, cost=np.ones(4), per=per)
    assert t == pytest.approx(math.log((4 - K) / 2), rel=1e-12)


@PER
def test_the_middle_of_an_interval_of_thresholds(per):
    """K buys the first two entries and nothing else: any price between is right."""
    x, c = np.array([40.0, 24.0, 2.0, 3.0]), np.array([2.0, 4.0, 1.0, 3.0])
    s = c if per == "entry" else np.ones(4)

    def ends(x, s):
        above, below = (x[:2] - 1) / s[:2], x[2:] / s[2:]
        return 0.5 * above.min() + 0.5 * below.max()

    given = {"cost": c, "per": per}
    assert stk.threshold(x, 6, "clip", **given) == pytest.approx(ends(x, s), abs=1e-14)
    lin = stk.linearize(stk.threshold, x, 6, "clip", **given)
    h = 2.0**-10
    slope = [(ends(x + h * e, s) - ends(x - h * e, s)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(lin.jacobian(), slope, 0, 1e-12)
    assert lin.dk == 0


def test_a_curve_of_ones_own():
    class Gauss(stk.curves.Curve):
        def value(self, t):
            return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))

        def complement(self, t):
            return self.value(-np.asarray(t))

        def slope(self, t):
            return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)

    for per in ("entry", "cost"):
        p = stk.soft_topk(X, 3.3, Gauss(), cost=C, per=per)
        assert abs(p @ C - 3.3) <= 4e-15


def test_single_precision_is_calculated_with_in_double():
    x, c = X.astype(np.float32), C.astype(np.float32)
    p = stk.soft_topk(x, 3.3, cost=c)
    assert p.dtype == np.float32
    np.testing.assert_array_equal(p, stk.soft_topk(X, 3.3, cost=C).astype(np.float32))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cost": [1, 1, 0, 1, 1]}, "cost must be finite and above 0"),
        ({"cost": [1, 1, -1, 1, 1]}, "got -1.0"),
        ({"cost": [1, 1, np.nan, 1, 1]}, "got nan"),
        ({"cost": [1, 1, np.inf, 1, 1]}, "got inf"),
        ({"cost": np.ones(4)}, r"cost must broadcast to shape \(5,\)"),
        ({"cost": "a"}, "cost must be a real number or an array of them"),
        (
            {"cost": C, "k": 6.76},
            r"k must lie in \[0, 6.75\], where 6.75 is the sum of",
        ),
        ({"cost": C, "k": -0.1}, r"got -0\.1"),
        ({"cost": C, "per": "unit"}, "per must be 'entry' or 'cost', got 'unit'"),
        ({"per": "unit"}, "per must be 'entry' or 'cost', got 'unit'"),
    ],
)
def test_misuse_is_named(given, words):
    given = {"k": 2} | given
    for f in (stk.soft_topk, stk.threshold, stk.top_k):
        with pytest.raises((TypeError, ValueError), match=words):
            f(X, **given)


def test_sums_of_costs_are_exact():
    rng = np.random.default_rng(SEED)
    for dtype, n in ((np.float64, 5000), (np.float32, 40)):
        c = (10 ** rng.uniform(-6, 6, n)).astype(dtype)
        parts, taken = exact_sums.summable(c), rng.random(n) < 0.5
        np.testing.assert_array_equal(sum(v.astype(float) for v in parts), c)
        for part in parts[:2]:
            whole = math.fsum(part[taken].tolist())
            assert float(part[taken].sum()) == whole
            assert float(part[taken][::-1].cumsum(dtype=dtype)[-1]) == whole


def test_products_are_taken_away_exactly():
    rng = np.random.default_rng(SEED)
    for dtype in (np.float64, np.float32):
        a, b = (rng.standard_normal(200).astype(dtype) for _ in "ab")
        near = 1 + float(np.finfo(dtype).eps) * rng.integers(-9, 9, 200)
        x = (a * b * near).astype(dtype)
        found = exact_sums.minus_product(x, exact_sums.halves(a), exact_sums.halves(b))
        for value, *rest in zip(found, x, a, b, strict=True):
            with mp.workdps(60):
                x1, a1, b1 = (mpf(float(v)) for v in rest)
                eps = mpf(float(np.finfo(dtype).eps))
                error = abs(mpf(float(value)) - (x1 - a1 * b1))
                assert error <= eps * abs(x1 - a1 * b1) + 8 * eps * eps * abs(x1)


def test_curves_of_the_bound_have_no_small_share_with_a_smaller_slope():
    """min(p, 1 - p) is at most 2 f': the shares' own rounding cannot grow by costs."""
    for curve in CURVES:
        if has_heavy_tails(curve):  # the bound does not speak of them
            continue
        u = np.linspace(-60, 60, 24001)
        low, high = curve.support
        u = u[(u > max(low, -60)) & (u < high)]
        small = np.minimum(curve.value(u), curve.complement(u))
        assert (small <= 2 * resolve(curve).slope(u) * (1 + 1e-12)).all()
