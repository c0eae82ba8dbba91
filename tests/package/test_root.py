"""The search from sums over a row alone: right for every curve, whatever its rows."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import oracle
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp, mpf
from rows import CURVES, NAMES, scores, stress

import softtopk as stk
from softtopk._rows.budget import Budget
from softtopk._search import root
from softtopk._search.start import State, begin, follow, moments
from softtopk.curves import CLIP, EXP, LAPLACE, TRIANGULAR, Curve, entmax, resolve

EPS = 2.0**-52


class Bare(Curve):
    """All that the search needs of a curve; its steps are Newton's."""

    def __init__(self, base):
        self.base, self.name = base, f"bare {base.name}"

    def value(self, t):
        return self.base.value(t)

    def complement(self, t):
        return self.base.complement(t)

    def slope(self, t):
        return self.base.slope(t)


def id_of(value):
    return getattr(value, "name", "")


def itself(curve):
    return curve


stepped = pytest.mark.parametrize("kind", [itself, Bare], ids=["own step", "Newton"])


def budget_of(x, k):
    """k of each row of x."""
    k = np.broadcast_to(np.asarray(k, float), x.shape[:-1])
    whole = np.floor(k)
    return Budget(whole.astype(int), k - whole, np.isfinite(x).sum(axis=-1))


def search(curve, x, k, tau=1.0):
    """Shares, anchors and offsets of rows from sums over them alone."""
    with np.errstate(all="ignore"):
        k = budget_of(x, k)
        a, t = root.solve_rows(curve, x, k, tau, moments(x, k.n))
        return curve.value(root.distances(x, tau, a, t)), a, t


def stressed():
    """Rows of every kind and scale, and a budget for each of them."""
    rng, size = np.random.default_rng(0), (9, 120)
    masked = rng.normal(size=size)
    masked[:, ::3] = -np.inf
    bases = [
        rng.normal(size=size),
        rng.integers(0, 4, size).astype(float),
        rng.normal(size=size) * np.where(np.arange(120) < 3, 1e4, 1),
        rng.standard_cauchy(size),
        rng.normal(size=size) + 100 * rng.integers(0, 2, size),
        masked,
    ]
    for x in bases:
        n = np.isfinite(x[0]).sum()
        k = np.array([0.25, 1, 2.75, 3, n // 4, n / 4 + 0.125, n - 20, n - 1, n - 0.25])
        for scale, shift in ((1, 0), (1, 1e8), (1e-3, 0), (1e5, 0), (10, -1e8)):
            yield x * scale + shift, k


# --- the results and the costs ------------------------------------------------------


def reflected(curve):
    """The dual of a curve, and how else to solve it."""

    def expected(x, k):
        finite = x > -np.inf
        rest = finite.sum(axis=-1) - k
        q = stk.soft_topk(np.where(finite, -x, 0), rest, curve, where=finite)
        return np.where(finite, 1 - q, 0)

    return curve.reflected(), expected


SAME = [
    *((c, lambda x, k, c=c: stk.soft_topk(x, k, c)) for c in CURVES),
    *map(reflected, (EXP, CLIP, entmax(1.5), entmax(1.25))),
    (LAPLACE.scaled(4), lambda x, k: stk.soft_topk(x, k, temperature=0.25)),
    (CLIP.shifted(0.5), lambda x, k: stk.soft_topk(x, k, "clip")),
    (
        EXP.scaled(0.25).shifted(-2),
        lambda x, k: stk.soft_topk(x, k, "exp", temperature=4),
    ),
]


@stepped
@pytest.mark.parametrize(("curve", "expected"), SAME, ids=id_of)
def test_sums_alone_find_what_the_quick_path_finds(curve, expected, kind):
    for x, k in stressed():
        p, a, t = search(kind(curve), x, k)
        np.testing.assert_allclose(p, expected(x, k), rtol=0, atol=4 * EPS)
        if curve in CURVES:  # the others round a distance of about 1 in every share
            assert np.all(np.abs(p.sum(axis=-1) - k) <= 16 * EPS * k)
        # The pair holds what their sum, rounded, does not.
        assert np.all(np.abs(t) <= EPS / 2 * np.abs(a))


@stepped
@pytest.mark.parametrize(("curve", "expected"), SAME, ids=id_of)
def test_the_mean_may_be_far_from_all_scores(curve, expected, kind):
    """Distances from it are rounded to many units: nothing may be read off them."""
    rng = np.random.default_rng(6)
    for k in (0.5, 1, 2.5, 30, 117.5, 119, 119.5):
        x, k = rng.standard_cauchy((20, 120)) ** 9, np.full(20, k)
        p, _, _ = search(kind(curve), x, k)
        np.testing.assert_allclose(p, expected(x, k), rtol=0, atol=4 * EPS)


@pytest.mark.parametrize(
    ("name", "alpha"),
    [*((n, None) for n in NAMES), *(("entmax", a) for a in (1.5, 1.25, 1.05))],
)
def test_sums_alone_match_the_reference(name, alpha):
    curve = resolve(name) if alpha is None else entmax(alpha)
    for x, k in stress(np.float64, [(1, 0), (50, 1e8)]):
        exact = oracle.solve(x, k, *oracle.curve(name, alpha))
        for kind in (itself, Bare):
            p, a, t = search(kind(curve), x, k)
            error = max(abs(mpf(float(v)) - e) for v, e in zip(p, exact.p, strict=True))
            assert error <= 8 * EPS
            ordered = np.sort(x)[::-1]
            gap = ordered[math.ceil(k) - 1] - ordered[math.floor(k)]
            if gap < 30 and mp.fsum(exact.w) > 0.1:  # else shares do not fix it
                with mp.workdps(exact.digits):
                    pair = mpf(float(a)) + mpf(float(t))
                    assert abs(pair - exact.threshold) <= 32 * EPS * (1 + gap)


@pytest.fixture
def passes(monkeypatch):
    """Grows by one with each pass over the rows."""
    sums, calls = root.sums, []

    def counted(*arguments):
        calls.append(1)
        return sums(*arguments)

    monkeypatch.setattr(root, "sums", counted)
    return calls


@pytest.mark.parametrize(
    ("kind", "mean", "worst"),
    [(itself, 6.5, 90), (Bare, 7.5, 125)],
    ids=["own step", "Newton"],
)
@pytest.mark.parametrize("curve", [curve for curve, _ in SAME], ids=id_of)
def test_few_passes_are_enough(curve, kind, mean, worst, passes):
    rng, searches = np.random.default_rng(0), 0
    for n in (20, 200, 2000):
        for scale in (0.1, 1, 10):
            x = scale * rng.normal(size=n)
            for share in (0.01, 0.1, 0.5, 0.9, 0.99):
                search(kind(curve), x, share * n)
                searches += 1
    assert len(passes) <= mean * searches
    for x, k in stressed():
        passes.clear()
        search(kind(curve), x, k)
        assert len(passes) <= worst


def test_each_row_has_its_own_temperature():
    x = np.random.default_rng(1).normal(size=(3, 50))
    tau = np.array([0.1, 1.0, 30.0])
    p, a, t = search(LAPLACE, x, 5.5, tau)
    for i in range(3):
        alone = search(LAPLACE, x[i], 5.5, tau[i])
        np.testing.assert_array_equal(p[i], alone[0])
        assert (a[i], t[i]) == alone[1:]


# --- what it rests on ---------------------------------------------------------------


@stepped
@pytest.mark.parametrize("curve", [curve for curve, _ in SAME], ids=id_of)
def test_the_bracket_always_holds_the_threshold(curve, kind, monkeypatch):
    seen = 0
    for x, k in stressed():
        states = []
        for name in ("begin", "advance"):
            function = getattr(root, name)

            def watched(*arguments, function=function, states=states):
                states.append(function(*arguments))
                return states[-1]

            monkeypatch.setattr(root, name, watched)
        search(kind(curve), x, k)
        monkeypatch.undo()
        # Distances of about 1 are rounded in every share; a shift makes them so.
        roundings = EPS * (np.minimum(k, 1) if curve in CURVES else x.shape[-1])
        for anchor, at, done in states:
            assert np.all((at.low <= at.t) & (at.t <= at.high) | done)
            for end, sign in ((at.low, 1), (at.high, -1)):
                with np.errstate(all="ignore"):
                    u = root.distances(x, 1.0, anchor, end)
                    m, P, C, _, _ = root.sums(curve, u)
                excess = P - C - budget_of(x, k).without(m)
                noise = 8 * EPS * (P + C) + roundings
                assert np.all((sign * excess >= -noise) | done)
                seen += 1
    assert seen > 100


def test_a_pass_moves_the_end_of_the_bracket_on_its_side():
    at = root.Search(0.5, 0.0, 1.0)
    for excess, low, high in ((2.0, 0.5, 1.0), (-2.0, 0.0, 0.5), (0.0, 0.5, 0.5)):
        found = root.narrow(at, np.float64(excess))
        assert (found.t, found.low, found.high) == (0.5, low, high)


def test_a_step_is_taken_inside_the_bracket_alone():
    at = root.Search(0.5, np.float64(0), np.float64(1))
    for proposal in (0.25, 0.999):
        found, halved = root.decide(at, 1.0, np.float64(proposal), 0)
        assert found.t == proposal and not halved
    for proposal in (0.0, 1.0, -3.0, np.inf, np.nan):
        found, halved = root.decide(at, 1.0, np.float64(proposal), 0)
        assert found.t == 0.5 and halved


def test_a_slow_search_halves_its_bracket():
    late, step = root.PATIENCE + 1, np.float64(0.25)
    slow = root.Search(0.75, np.float64(0), np.float64(1), excess=1.5, width=1.5)
    for at, count, halves in (
        (slow, late, True),
        (slow, root.PATIENCE, False),
        (slow._replace(excess=2.0), late, False),  # the excess has halved
        (slow._replace(width=2.0), late, False),  # the bracket has
        (slow._replace(excess=2.0), 4 * root.PATIENCE + 2, True),
        (slow._replace(excess=2.0), 4 * root.PATIENCE + 3, False),
        (slow._replace(excess=16.0), 4 * root.PATIENCE + 2, False),  # it converges
    ):
        found, halved = root.decide(at, 1.0, step, count)
        assert halved == halves and found.t == (0.5 if halves else step)
        assert (found.excess, found.width) == (1.0, 1.0)


ORDINARY = st.floats(-1e100, 1e100).filter(lambda v: v == 0 or abs(v) > 1e-100)


@given(a=ORDINARY, t=ORDINARY, power=st.integers(-40, 40))
def test_a_moved_anchor_stands_for_the_same_threshold(a, t, power):
    tau = 2.0**power
    b, rest = root.rebase(np.float64(a), np.float64(t), tau)
    assert Fraction(a) + Fraction(tau) * Fraction(t) == Fraction(float(b)) + Fraction(
        tau
    ) * Fraction(float(rest))
    assert abs(tau * rest) <= EPS / 2 * abs(b)


@given(a=ORDINARY, t=ORDINARY, tau=st.floats(1e-3, 1e3))
@example(a=1e19, t=966.7, tau=0.0234)  # tau t / tau is not t
def test_a_moved_bracket_holds_what_it_held(a, t, tau):
    end = np.float64(t)
    at = State(np.float64(a), root.Search(end, end, end), False)
    b, (t, low, high, *_), _ = follow(at, tau)
    if b == a:
        assert t == low == high == end
    level = Fraction(a) + Fraction(tau) * Fraction(float(end))
    low, high = (Fraction(float(b)) + Fraction(tau) * Fraction(v) for v in (low, high))
    assert low <= level <= high


def test_budgets_beyond_single_precision_count_every_entry():
    big = np.array([2**24 + 1, 2**30 + 3])
    part = np.array([0.25, 0], np.float32)
    k = Budget(big, part, big + np.array([3, 5]))
    np.testing.assert_array_equal(k.without(big - 1), [1.25, 1])
    np.testing.assert_array_equal(k.without(0) - (big - 1), [1.25, 1])
    np.testing.assert_array_equal(k.rest(), [2.75, 5])
    np.testing.assert_allclose(k.mean(), (big + part) / k.n, rtol=EPS)


@pytest.mark.parametrize("tau", [1.0, 0.5])
@pytest.mark.parametrize(
    ("curve", "middle"),
    [
        (CLIP, 4.5),
        (CLIP.reflected(), 5.5),
        (CLIP.shifted(2), 2.5),
        (CLIP.scaled(0.5), 4),
        (TRIANGULAR, 5),
    ],
    ids=id_of,
)
def test_a_plateau_gives_its_middle(curve, middle, tau):
    """The first row has one, the second is too close, and the third shares its k."""
    x = np.array([[9.0, 8, 2, 1, -np.inf], [5.5, 5.25, 5, 4.75, 4.5], [9, 2, 2, 2, 1]])
    p, a, t = search(curve, x, 2, tau)
    assert a[0] + tau * t[0] == 5 + tau * (middle - 5)
    np.testing.assert_array_equal(p[0], [1, 1, 0, 0, 0])
    for i in (1, 2):
        assert 0.2 < p[i, 1] < 0.8 and abs(p[i].sum() - 2) <= 4 * EPS


# --- curves of a user ---------------------------------------------------------------


class Cauchy(Curve):
    """Heavy tails: brackets are wide."""

    name = "cauchy"

    def value(self, t):
        t = np.asarray(t)
        return np.arctan2(1, -t) / np.pi

    def slope(self, t):
        return 1 / (np.pi * (1 + np.square(t)))


class Gauss(Curve):
    """Counts how often it is asked."""

    name = "gauss"
    asked = 0

    def value(self, t):
        self.asked += 1
        return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))

    def complement(self, t):
        return self.value(-np.asarray(t))

    def slope(self, t):
        return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)

    def inverse(self, p):
        return np.vectorize(NormalDist().inv_cdf)(p)


def test_a_curve_that_names_its_noise_is_solved_from_near():
    x = np.random.default_rng(6).normal(size=400)
    plain, named = Gauss(), Gauss()
    named.noise = (0.0, 1.0)  # and so a mean of 5 and a deviation of 20:
    for k in (4, 40.5, 200):
        np.testing.assert_allclose(
            stk.soft_topk(x, k, named.scaled(0.05).shifted(-5.0)),
            stk.soft_topk(x, k, plain.scaled(0.05).shifted(-5.0)),
            rtol=0,
            atol=1e-14,
        )
    assert named.asked < plain.asked


class Stairs(Curve):
    """Slope that jumps, and a flat part in the middle: lambda is not unique."""

    name = "stairs"
    support = (-2.0, 2.0)

    def value(self, t):
        return np.interp(t, [-2, -1, 1, 2], [0, 0.5, 0.5, 1])

    def slope(self, t):
        size = np.abs(t)
        return 0.5 * ((size > 1) & (size < 2))


class Lopsided(Curve):
    """Fast below, slow above, centred far from 0."""

    name = "lopsided"

    def value(self, t):
        return np.exp(-np.exp(-(np.clip(t, -600, 600) - 30)))

    def slope(self, t):
        t = np.clip(t, -600, 600) - 30
        return np.exp(-t - np.exp(-t))


@pytest.mark.parametrize(
    "curve",
    [
        Cauchy(),
        Stairs(),
        Lopsided(),
        stk.curves.EXP.reflected(),
        stk.curves.LAPLACE.scaled(3.0),
        stk.curves.CLIP.shifted(-5.0),
    ],
    ids=lambda c: c.name,
)
@given(data=st.data())
def test_any_curve_is_solved(curve, data):
    x = data.draw(scores(np.float64, st.floats(-1e3, 1e3), least=2))
    k = data.draw(st.integers(1, len(x) - 1) | st.floats(0.01, len(x) - 0.01))
    p = stk.soft_topk(x, k, curve)
    assert np.all((p >= 0) & (p <= 1))
    # The values of these curves carry a few eps each, of 1 and not of themselves.
    assert abs(p.sum() - k) <= 16 * len(x) * np.finfo(float).eps


class Roots(Curve):
    """Newton's steps go back and forth across the steep middle for ever."""

    name = "roots"
    support = (-1.0, 3.0)

    def value(self, t):
        low, high = np.clip(-t, 0, 1), np.clip(t, 0, 3)
        return 0.5 - 0.5 * np.sqrt(low) + 0.5 * np.sqrt(high / 3)

    def slope(self, t):
        size = np.where(t < 0, 1, 3) * np.maximum(np.abs(t), 1e-12)
        return np.where((t > -1) & (t < 3), 0.25 / np.sqrt(size), 0)


def test_steps_that_do_not_settle_give_way_to_bisection():
    x = np.array([[0.0, -10.0, -20.0], [-30.0, 5.0, -10.0]])
    for k in (0.5005, 0.501, 1.4995):
        p = stk.soft_topk(x, k, Roots())
        # f' is about 500 at the root, and so often counts the rounding of x - lambda.
        np.testing.assert_allclose(p.sum(axis=-1), k, rtol=0, atol=500 * 16 * 2.0**-52)
        np.testing.assert_array_equal(stk.soft_topk(x[1], k, Roots()), p[1])


@pytest.mark.parametrize("curve", CURVES, ids=id_of)
def test_scores_that_are_finite_may_have_a_sum_that_is_not(curve):
    x, tau = 10 + np.random.default_rng(3).normal(size=(3, 100)), 1e306
    p, _, _ = search(curve, tau * x, 7.5, tau)
    assert abs(p - stk.soft_topk(x, 7.5, curve)).max() < 1e-14


@pytest.mark.parametrize("curve", [c for c in CURVES if c.noise is not None], ids=id_of)
def test_normal_rows_start_near_their_threshold(curve):
    """In deviations of the sum of scores and noise; far out its tail is its own."""
    for width in (0.1, 1.0, 10.0):
        x = width * np.random.default_rng(3).normal(size=(1, 2000))
        for k in (2.0, 20, 200.5, 1000, 1900):
            given = budget_of(x, k)
            at = begin(curve, given, 1.0, moments(x, given.n))
            _, a, t = search(curve, x, k)
            off = at.anchor + at.search.t - (a + t)
            near = 1 / 2 if k < 20 else 1 / 7
            assert abs(off) <= near * np.hypot(curve.noise[1], width)


class Timid(Curve):
    """A slope that is far too large, so that every step is far too short."""

    name = "timid"

    def value(self, t):
        return stk.curves.SIGMOID.value(t)

    def slope(self, t):
        return 50 * stk.curves.SIGMOID.slope(t)


def test_rows_ask_for_their_own_brackets_after_others_are_done():
    x = np.array([1.0, 0.0, -1.0])
    k = np.array([1.5, 1.5, 0.01, 2.995])  # the first two are done at the start
    p = stk.soft_topk(x, k, Timid())
    exact = stk.soft_topk(x, k, "sigmoid")
    # A last step of 8 eps (1 + |t|) leaves 50 times as much, and here f' < 0.007.
    np.testing.assert_allclose(p, exact, rtol=0, atol=32 * np.finfo(float).eps)
