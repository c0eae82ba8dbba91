"""Each curve against the 50-digit reference, and the identities that bind its parts."""

import copy
import math
import pickle

import numpy as np
import oracle
import pytest
from mpmath import mp, mpf
from rows import has_potential

import softtopk as stk
from softtopk import curves
from softtopk._curve_base import Reflected
from softtopk._search.numpy_sums import scheme_of
from softtopk.curves import (
    CLIP,
    EXP,
    LAPLACE,
    NAMED,
    SIGMOID,
    Curve,
    entmax,
)

ALPHAS = (1.001, 1.05, 1.25, 1.5, 1.75, 2.0)
CURVES = [*NAMED.values(), *map(entmax, ALPHAS)]
GRID = np.concatenate([np.linspace(-4, 4, 65), [-30.0, 30.0, -1e-9, 1e-9, -300.0]])
EXTREME = np.array(
    [-np.inf, -1e308, -800.0, -5e-324, 0.0, 5e-324, 800.0, 1e308, np.inf]
)
EPS = np.finfo(float).eps

named = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
integrated = pytest.mark.parametrize(
    "curve", [*filter(has_potential, CURVES)], ids=lambda c: c.name
)


def reference(curve):
    if isinstance(curve, curves.Entmax):
        return oracle.curve("entmax", curve.alpha)
    return oracle.curve(curve.name)


def condition(curve):
    """How many roundings reach a value: entmax takes a power of at most 1 / b = 2, or
    the exponential of a logarithm."""
    return 8 if isinstance(curve, curves.Entmax) else 4


class Bare(Curve):
    """The Laplace curve from value and slope alone."""

    name = "bare"

    def value(self, t):
        return LAPLACE.value(t)

    def slope(self, t):
        return LAPLACE.slope(t)


@pytest.mark.parametrize(
    "curve", [c for c in CURVES if c.noise is not None], ids=lambda c: c.name
)
def test_noise_is_the_law_with_this_slope_reflected(curve):
    _, slope = reference(curve)
    with mp.workdps(30):
        low, high = (min(max(end, -400), 60) for end in curve.support)
        breaks = sorted({low, high, *(b for b in (-60, -9, 0, 9) if low < b < high)})
        moments = [mp.quad(lambda t, i=i: slope(t) * t**i, breaks) for i in range(3)]
    assert float(moments[0]) == pytest.approx(1, rel=1e-9)
    mean, spread = curve.noise
    assert mean == pytest.approx(-float(moments[1]), rel=1e-9, abs=1e-12)
    variance = float(moments[2] - moments[1] ** 2)
    assert spread == pytest.approx(math.sqrt(variance), rel=1e-9)


@named
def test_value_complement_and_slope_match_the_reference(curve):
    f, slope = reference(curve)
    bound = condition(curve) * EPS
    with mp.workdps(50):
        for t in GRID:
            exact = f(mpf(t))
            assert abs(mpf(float(curve.value(t))) - exact) <= bound
            assert abs(mpf(float(curve.complement(t))) - (1 - exact)) <= bound
            if t not in curve.support:  # where the slope may jump
                assert abs(mpf(float(curve.slope(t))) - slope(mpf(t))) <= bound


@pytest.mark.parametrize("curve", [EXP, LAPLACE, SIGMOID], ids=lambda c: c.name)
def test_small_values_keep_their_digits(curve):
    f, _ = reference(curve)
    with mp.workdps(400):
        for t in (-1.0, -37.5, -200.0, -690.0):
            for value, exact in (
                (curve.value(t), f(mpf(t))),
                (curve.reflected().complement(-t), f(mpf(t))),
            ):
                assert abs(mpf(float(value)) / exact - 1) <= 4 * EPS


@pytest.mark.parametrize("curve", [LAPLACE, SIGMOID], ids=lambda c: c.name)
def test_a_symmetric_curve_is_its_own_dual(curve):
    np.testing.assert_array_equal(curve.complement(GRID), curve.value(-GRID))


@named
def test_inverse_undoes_value(curve):
    p = np.array([1e-12, 1e-3, 0.1, 0.25, 0.5, 0.75, 0.9, 1 - 1e-9])
    # value(inverse(p)) moves by f' (at most 1, times |t| in the exponent) roundings.
    np.testing.assert_allclose(
        curve.value(curve.inverse(p)), p, rtol=0, atol=4 * condition(curve) * EPS
    )
    assert tuple(curve.inverse([0.0, 1.0])) == curve.support


@named
def test_slope_of_p_is_slope(curve):
    low, high = max(curve.support[0], -5), min(curve.support[1], 5)
    t = np.linspace(low, high, 41)[1:-1]
    p = curve.value(t)
    # dp of a few eps moves slope(p) by f''/f' times as much; f'' / f' is at most
    # 1 / slope for the curves whose slope falls to 0 as a root of p.
    slope = curve.slope(t)
    bound = 8 * condition(curve) * EPS / np.maximum(slope, 0.01)
    assert np.all(np.abs(curve.slope_of_p(p) - slope) <= bound)


@named
def test_log_slope_is_the_logarithm_of_the_slope(curve):
    t = np.linspace(-0.45, 0.4, 18)
    with np.errstate(divide="ignore"):
        expected = np.log(curve.slope(t))
    np.testing.assert_allclose(curve.log_slope(t), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("curve", [EXP, LAPLACE, SIGMOID], ids=lambda c: c.name)
def test_log_slope_does_not_underflow(curve):
    assert curve.log_slope(-1e4) == pytest.approx(-1e4, rel=1e-4)


@integrated
@pytest.mark.parametrize("t", [-2.5, -0.7, -0.2, 0.0, 0.3, 0.8, 1.7])
def test_potential_is_the_integral_of_value(curve, t):
    f, _ = reference(curve)
    ends = (e for e in (-1, 0, 1, curve.support[0], curve.support[1]) if e < t)
    breaks = sorted({mpf(-60), *(mpf(e) for e in ends if e > -60), mpf(t)})
    with mp.workdps(30):
        exact = mp.quad(f, [-mp.inf, *breaks])
    assert float(curve.potential(t)) == pytest.approx(float(exact), abs=1e-14)


@integrated
@pytest.mark.parametrize("member", [lambda c: c, Curve.reflected], ids=["", "dual"])
def test_regulariser_and_potential_are_conjugate(curve, member):
    curve = member(curve)
    p = np.array([1e-6, 0.05, 0.3, 0.5, 0.8, 0.999])
    t = curve.inverse(p)
    # F(t) + phi(p) - p t is stationary in t: an inexact inverse does not count.
    base = curve.reflected() if isinstance(curve, Reflected) else curve
    bound = 2 * condition(base) * EPS * (1 + np.abs(t))
    assert np.all(np.abs(curve.regulariser(p) + curve.potential(t) - p * t) <= bound)
    assert float(curve.regulariser(0.0)) == pytest.approx(0.0, abs=1e-15)


@named
def test_nothing_is_nan_or_warns_at_the_ends_of_the_range(curve):
    for member in (curve, curve.reflected(), curve.scaled(3.0), curve.shifted(1.0)):
        for part in (member.value, member.complement, member.slope, member.log_slope):
            assert not np.isnan(part(EXTREME)).any()
        assert member.value(-np.inf) == 0
        assert member.value(np.inf) == 1
        p = np.array([0.0, 5e-324, 1e-300, 0.5, 1 - EPS / 2, 1.0])
        for part in (member.inverse, member.slope_of_p):
            assert not np.isnan(part(p)).any()
        if has_potential(curve):
            assert not np.isnan(member.potential(EXTREME)).any()
            assert not np.isnan(member.regulariser(p)).any()


@named
def test_types_are_kept(curve):
    single = np.array([-0.5, 0.25], np.float32)
    of_t, of_p = [curve.potential], [curve.regulariser]
    if not has_potential(curve):
        of_t, of_p = [], []
    for part in (curve.value, curve.complement, curve.slope, *of_t):
        assert part(single).dtype == np.float32
        assert part([0, 1]).dtype == np.float64
    for part in (curve.inverse, curve.slope_of_p, *of_p):
        assert part(np.array([0.25, 0.75], np.float32)).dtype == np.float32


def test_entmax_spans_exp_and_clip():
    assert entmax(1) is EXP
    assert entmax(1.5) == entmax(1.5)
    assert len({entmax(1.5), entmax(1.5), entmax(1.25)}) == 2
    np.testing.assert_allclose(
        entmax(2).value(GRID), CLIP.shifted(-1).value(GRID), atol=EPS
    )
    near = entmax(1 + 1e-7).value(GRID)
    np.testing.assert_allclose(near, EXP.value(GRID), atol=1e-6)  # O(alpha - 1)


@named
def test_members_of_a_curve(curve):
    dual, wide, late = curve.reflected(), curve.scaled(2.0), curve.shifted(0.75)
    atol = condition(curve) * EPS
    np.testing.assert_array_equal(dual.value(GRID), curve.complement(-GRID))
    np.testing.assert_array_equal(dual.slope(GRID), curve.slope(-GRID))
    assert dual.reflected() is curve
    np.testing.assert_array_equal(wide.value(GRID), curve.value(2 * GRID))
    np.testing.assert_array_equal(wide.slope(GRID), 2 * curve.slope(2 * GRID))
    np.testing.assert_array_equal(late.value(GRID), curve.value(GRID - 0.75))
    p = np.array([0.1, 0.4, 0.7])
    for member in (dual, wide, late):
        np.testing.assert_allclose(member.value(member.inverse(p)), p, atol=4 * atol)
        if not has_potential(curve):
            continue
        h = 1e-6
        low, high = member.potential(0.3 - h), member.potential(0.3 + h)
        assert (high - low) / (2 * h) == pytest.approx(
            float(member.value(0.3)), abs=1e-5
        )
        low, high = member.regulariser(0.4 - h), member.regulariser(0.4 + h)
        slope = (high - low) / (2 * h)
        assert slope == pytest.approx(float(member.inverse(0.4)), abs=1e-5)


def test_the_dual_of_exp():
    t = np.array([-1.0, 0.0, 0.5, 3.0])
    expected = np.maximum(0, 1 - np.exp(-np.maximum(t, 0)))
    np.testing.assert_allclose(EXP.reflected().value(t), expected, atol=EPS)


@pytest.mark.parametrize(
    "curve",
    [LAPLACE, SIGMOID, LAPLACE.scaled(3), SIGMOID.reflected().shifted(2).scaled(0.5)],
    ids=repr,
)
def test_the_bend_bounds_slope_and_curvature(curve):
    t = np.linspace(-40, 40, 200_001)
    f, q = curve.value(t), curve.complement(t)
    slope, step = curve.slope(t), t[1] - t[0]
    least, c = np.minimum(f, q), curve.bend
    assert np.all(slope <= math.sqrt(c) * least * (1 + 1e-12))
    between = np.maximum(least[1:], least[:-1])
    assert np.all(abs(np.diff(slope)) <= c * between * step * (1 + 1e-12) + 1e-15)
    assert (slope / least).max() > 0.99 * math.sqrt(c)


@pytest.mark.parametrize("curve", [EXP, CLIP, entmax(1.5), CLIP.scaled(2)], ids=repr)
def test_a_curve_whose_slope_jumps_has_no_bend(curve):
    assert curve.bend == math.inf


def test_defaults_of_a_user_curve():
    bare = Bare()
    p = np.array([0.0, 1e-9, 0.2, 0.5, 0.9, 1.0])
    np.testing.assert_allclose(
        bare.inverse(p), LAPLACE.inverse(p), rtol=1e-12, atol=EPS
    )
    np.testing.assert_allclose(bare.slope_of_p(p[1:5]), LAPLACE.slope_of_p(p[1:5]))
    np.testing.assert_allclose(bare.complement(GRID), 1 - LAPLACE.value(GRID))
    assert repr(bare) == "<curve bare>"
    with pytest.raises(NotImplementedError, match=r"<curve bare> .* potential\(t\)"):
        bare.potential(0.0)
    for part in ("value", "slope"):
        with pytest.raises(NotImplementedError, match=rf"must define {part}\(t\)"):
            getattr(Curve(), part)(0.0)


class Between(Curve):
    """A curve that by mistake has not the limits 0 and 1."""

    name = "between"

    def __init__(self, low, high):
        self.low, self.high = low, high

    def value(self, t):
        return self.low + (self.high - self.low) * LAPLACE.value(t)

    def slope(self, t):
        return (self.high - self.low) * LAPLACE.slope(t)


@pytest.mark.timeout(20)
def test_a_curve_without_the_limits_is_an_error():
    with pytest.raises(ValueError, match=r"between must be 1 at \+inf.* is 0\.6"):
        Between(0, 0.6).inverse([0.5, 0.7])
    with pytest.raises(ValueError, match=r"between must be 0 at -inf.* is 0\.25"):
        Between(0.25, 1).inverse(0.2)
    assert Between(0, 0.6).inverse(0.3) == pytest.approx(0, abs=EPS)
    with pytest.raises(ValueError, match=r"must be 1 at \+inf"):
        stk.soft_topk([3.0, 1.0, 0.0, -1.0], 3, Between(0, 0.6))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: curves.resolve("gauss"), ValueError, "one of 'exp', 'laplace', 's"),
        (
            lambda: curves.resolve(3),
            TypeError,
            "curve must be a name or a Curve, got 3",
        ),
        (lambda: entmax(0.5), ValueError, r"alpha must lie in \[1, 2\], got 0.5"),
        (lambda: entmax(math.nan), ValueError, r"alpha must lie in \[1, 2\], got nan"),
        (lambda: entmax("2"), TypeError, "alpha must be a real number, got '2'"),
        (lambda: EXP.inverse(1.5), ValueError, r"p must lie in \[0, 1\], got 1.5"),
        (lambda: CLIP.regulariser([-0.1]), ValueError, r"p must lie in .* got -0.1"),
        (lambda: EXP.scaled(0), ValueError, "c must be finite and above 0, got 0"),
        (lambda: EXP.scaled("x"), TypeError, "c must be one real number, got 'x'"),
        (lambda: EXP.shifted(None), TypeError, "c must be one real number, got None"),
        (lambda: EXP.shifted(math.inf), ValueError, "c must be finite, got inf"),
        (lambda: EXP.value("a"), TypeError, "t must hold real numbers"),
    ],
)
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_every_named_curve_is_documented_and_has_a_reference_and_a_colour():
    from softtopk.figures import COLOURS

    assert list(curves.NAMED) == [c.name for c in curves.NAMED.values()]
    for name in curves.NAMED:
        assert f"\n``{name}``" in curves.__doc__
        assert name in oracle.CURVES
        assert name in COLOURS


class Steep(stk.curves.Curve):
    """A curve of one's own, with attributes of several kinds."""

    def __init__(self, slope, more=()):
        self.steepness, self.more, self.table = slope, more, np.arange(3.0)

    def value(self, t):
        return stk.curves.SIGMOID.value(self.steepness * np.asarray(t))

    def slope(self, t):
        return self.steepness * stk.curves.SIGMOID.slope(self.steepness * np.asarray(t))


LASTING = {
    **stk.curves.NAMED,
    "entmax": stk.curves.entmax(1.3),
    "reflected": stk.curves.EXP.reflected(),
    "scaled": stk.curves.LAPLACE.scaled(2.0).shifted(1.0),
    "own": Steep(2.0, [1, {"a": 2}]),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_curve_is_equal_to_its_copies_and_to_no_other(name):
    """So a copy has the quick search, and a program compiled for one serves it."""
    curve = LASTING[name]
    copies = [copy.copy(curve), copy.deepcopy(curve), pickle.loads(pickle.dumps(curve))]
    for other in copies:
        assert other == curve and hash(other) == hash(curve)
        assert scheme_of(other) is scheme_of(curve)
        assert name not in stk.curves.NAMED or other is curve
    assert [n for n, other in LASTING.items() if other == curve] == [name]


def test_curves_of_ones_own_are_equal_by_value():
    assert Steep(2.0) == Steep(2.0) != Steep(3.0)
    assert len({Steep(2.0), Steep(2.0), Steep(2.0, (1,))}) == 2
    assert Steep(2.0) != "laplace"
