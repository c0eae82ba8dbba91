"""Soft permutations, sorts and ranks: values, derivatives to second order, edges."""

import numpy as np
import pytest

import softtopk as stk

NAMES = ("soft_permutation", "soft_sort", "soft_rank")
X = np.random.default_rng(8).standard_normal((3, 6))
MASKED = np.where(X < np.array([[-9.0], [0.0], [9.0]]), -np.inf, X)
EPS = np.finfo(float).eps
each = pytest.mark.parametrize("name", NAMES)


@each
@pytest.mark.parametrize("curve", ["laplace", "exp", "clip"])
def test_values_and_derivatives_are_the_cores(lib, name, curve):
    core, own = getattr(stk, name), getattr(lib.ops, name)
    settings = {"curve": curve, "temperature": 0.7}
    lin = stk.linearize(core, X, **settings)
    value = lib.numpy(own(lib.array(X), **settings))
    assert abs(value - lin.value).max() < 4e-15
    g = np.cos(np.arange(value.size)).reshape(value.shape)

    def total(x):
        return (own(x, **settings) * lib.array(g)).sum()

    direction, h = np.sin(np.arange(18.0)).reshape(3, 6), 1e-6
    gradient, twice = lib.push(
        lib.gradient(total), [lib.array(X)], [lib.array(direction)]
    )
    assert abs(lib.numpy(gradient) - lin.vjp(g)).max() < 2e-14
    up, down = (
        stk.linearize(core, X + s * h * direction, **settings).vjp(g) for s in (1, -1)
    )
    assert abs(lib.numpy(twice) - (up - down) / (2 * h)).max() < 2e-8


@each
def test_entries_that_take_no_part_have_no_place(lib, name):
    core, own = getattr(stk, name), getattr(lib.ops, name)
    value = lib.numpy(own(lib.array(MASKED)))
    expected = core(MASKED)
    assert (np.isfinite(value) == np.isfinite(expected)).all()
    gap = np.where(np.isfinite(value), value, 0) - np.where(
        np.isfinite(expected), expected, 0
    )
    assert abs(gap).max() < 4e-15
    mask = lib.array(np.isfinite(MASKED))
    assert (lib.numpy(own(lib.array(X), where=mask)) == value).all()

    def total(x):
        out = own(lib.where(mask, x, 0 * x), where=mask)
        return lib.where(abs(out) < 1e9, out, 0 * out).sum()

    assert np.isfinite(lib.numpy(lib.gradient(total)(lib.array(X)))).all()


def test_a_permutation_is_doubly_stochastic_and_has_its_first_places(lib):
    P = lib.numpy(lib.ops.soft_permutation(lib.array(X), temperature=0.3))
    assert P.min() >= 0
    assert abs(P.sum(axis=-1) - 1).max() < 1e-14
    assert abs(P.sum(axis=-2) - 1).max() < 1e-14
    first = lib.numpy(lib.ops.soft_permutation(lib.array(X), 2, temperature=0.3))
    assert abs(first - P[:, :2]).max() < 1e-14
    for bad, error in ((0, ValueError), (7, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="places must"):
            lib.ops.soft_permutation(lib.array(X), bad)


def test_a_permutation_has_no_negative_share(lib):
    """Shares that grow with the budget may fall in rounding, however small they are."""
    x = np.random.default_rng(0).standard_normal((40, 12)) * 30
    P = lib.numpy(lib.ops.soft_permutation(lib.array(x), curve="exp", temperature=0.05))
    assert P.min() == 0


@pytest.mark.usefixtures("looked")
@each
def test_axes_temperatures_and_rows_out_of_range(lib, name):
    core, own = getattr(stk, name), getattr(lib.ops, name)
    cube = np.random.default_rng(9).standard_normal((2, 4, 3))
    for axis in (1, (0, 2), None):
        value = lib.numpy(own(lib.array(cube), axis=axis))
        n = cube.size if axis is None else 6 if axis == (0, 2) else 4
        assert abs(value - core(cube, axis=axis)).max() < 3 * n * EPS
    taus = np.array([0.5, 1.0, 2.0])
    value = lib.numpy(own(lib.array(X), temperature=lib.array(taus)))
    rows = [core(x, temperature=tau) for x, tau in zip(X, taus, strict=True)]
    assert abs(value - np.stack(rows)).max() < 4e-15
    spoilt = X.copy()
    spoilt[1, 2] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        own(lib.array(spoilt))
    value = lib.numpy(own(lib.array(spoilt), check=False))
    assert np.isnan(value[1]).all()
    assert abs(value[::2] - core(X[::2])).max() < 4e-15


def test_a_sort_keeps_what_a_common_offset_leaves(lib):
    x = np.array([3.0, 1.0, 0.0, -2.0])
    value = lib.numpy(lib.ops.soft_sort(lib.array(x + 2.0**30)))
    assert abs(value - 2.0**30 - stk.soft_sort(x)).max() < 4e-7


def test_scores_whose_difference_is_beyond_all_numbers_are_sorted(lib):
    x = np.array([-1e308, 1e308])
    for tau in (1.0, 1e307):
        value = lib.numpy(lib.ops.soft_sort(lib.array(x), temperature=tau))
        exact = stk.soft_sort(x, temperature=tau)
        assert abs(value / exact - 1).max() < 4 * EPS


FAST = pytest.mark.parametrize("curve", ["laplace", "exp"])
RANKS = pytest.mark.parametrize("name", NAMES[1:])


@RANKS
@FAST
def test_rows_that_are_cut_into_blocks_have_the_cores_values_and_slopes(
    lib, name, curve
):
    """In the operations of the library, and with an entry of -inf."""
    x = np.random.default_rng(3).standard_normal((2, 165)).round(2)
    x[0, 5] = -np.inf
    g = np.cos(np.arange(330.0)).reshape(2, 165)
    lin = stk.linearize(getattr(stk, name), x, curve, temperature=0.3)
    mask = np.isfinite(lin.value)

    def total(x):
        value = getattr(lib.ops, name)(x, curve, temperature=0.3, check=False)
        return (lib.where(lib.array(mask), value, 0 * value) * lib.array(g)).sum()

    value = lib.numpy(lib.ops.soft_rank(lib.array(x), curve, temperature=0.3))
    expected = stk.soft_rank(x, curve, temperature=0.3)
    assert abs(value - expected).max() < 4 * 165 * EPS
    slope = lib.numpy(lib.gradient(total)(lib.array(x)))
    wanted = lin.vjp(np.where(mask, g, 0))
    assert abs(slope - wanted).max() < 200 * EPS * max(1, abs(wanted).max())


@pytest.mark.parametrize(
    ("name", "curve"), [("soft_rank", "exp"), ("soft_sort", "laplace")]
)
def test_the_temperature_has_derivatives_to_second_order(lib, name, curve):
    """One temperature or one a row, and both orders of the mixed derivative."""
    g = np.sin(np.arange(18.0)).reshape(3, 6)
    taus, h = np.array([0.4, 0.8, 1.5]), 1e-6

    def total(x, tau):
        value = getattr(lib.ops, name)(x, curve, temperature=tau)
        return (value * lib.array(g)).sum()

    def core(x, taus):
        op = getattr(stk, name)
        return [
            stk.linearize(op, v, curve, temperature=t)
            for v, t in zip(x, taus, strict=True)
        ]

    by_tau = lib.gradient(total, 1)
    slope = lib.numpy(by_tau(lib.array(X), lib.array(taus)))
    up, down = ([lin.value for lin in core(X, taus + s * h)] for s in (1, -1))
    rise = (g * (np.array(up) - np.array(down))).sum(axis=-1) / (2 * h)
    assert abs(slope - rise).max() < 2e-8
    one = lib.numpy(by_tau(lib.array(X), lib.array(0.8)))
    rows = lib.numpy(by_tau(lib.array(X), lib.array(np.full(3, 0.8))))
    assert abs(one - rows.sum()) < 1e-13

    mixed, _ = lib.vjp(by_tau, [lib.array(X), lib.array(taus)], lib.array(np.ones(3)))
    pulls = [
        np.array([lin.vjp(v) for lin, v in zip(core(X, taus + s * h), g, strict=True)])
        for s in (1, -1)
    ]
    assert abs(lib.numpy(mixed) - (pulls[0] - pulls[1]) / (2 * h)).max() < 2e-7


@RANKS
def test_single_precision_and_sixteen_bits_are_rounded_once_or_in_their_type(lib, name):
    x = np.random.default_rng(4).standard_normal((2, 200)).astype(np.float32)
    exact = getattr(stk, name)(x.astype(float), temperature=0.5)
    own = getattr(lib.ops, name)
    size = 200 if name == "soft_rank" else 4
    for check in (None, False):
        value = lib.numpy(own(lib.array(x), temperature=0.5, check=check))
        assert value.dtype == np.float32
        assert abs(value - exact).max() < 2 * size * np.finfo(np.float32).eps
    for dtype, digits in ((lib.bfloat16, 8), (lib.float16, 11)):
        half = lib.cast(lib.array(x), dtype)
        given = lib.numpy(half).astype(float)
        value = own(half, temperature=0.5)
        assert value.dtype == dtype
        exact = getattr(stk, name)(given, temperature=0.5)
        rounded = 2.0**-digits * abs(exact) + 1e-6
        assert (abs(lib.numpy(value).astype(float) - exact) <= rounded).all()


@RANKS
def test_a_map_over_rows_is_a_batch(lib, name):
    own = getattr(lib.ops, name)
    value = lib.vmap(lambda x: own(x, temperature=0.4))(lib.array(X))
    batch = own(lib.array(X), temperature=0.4)
    assert abs(lib.numpy(value) - lib.numpy(batch)).max() < 1e-14


@RANKS
def test_the_slopes_of_a_map_are_those_of_a_batch(lib, name):
    own, g = getattr(lib.ops, name), lib.array(np.cos(np.arange(6.0)))

    def total(x):
        return (own(x, temperature=0.4) * g).sum()

    value = lib.numpy(lib.vmap(lib.gradient(total))(lib.array(X)))
    wanted = [
        stk.linearize(getattr(stk, name), x, temperature=0.4).vjp(lib.numpy(g))
        for x in X
    ]
    assert abs(value - wanted).max() < 1e-14


@RANKS
def test_scores_at_the_end_of_the_range_have_finite_slopes(lib, name):
    huge = np.finfo(float).max
    x = np.array([huge, 1.0, 0.5, -huge, -huge])
    for check in (None, False):

        def total(x, check=check):
            value = getattr(lib.ops, name)(x, check=check)
            return (value * lib.array(np.arange(5.0) / 1e9)).sum()

        value = lib.numpy(getattr(lib.ops, name)(lib.array(x), check=check))
        exact = getattr(stk, name)(x)
        assert abs(value / exact - 1).max() < 1e-14
        slope = lib.numpy(lib.gradient(total)(lib.array(x)))
        wanted = stk.linearize(getattr(stk, name), x).vjp(np.arange(5.0) / 1e9)
        assert abs(slope - wanted).max() < 1e-22


@pytest.mark.parametrize("gap", [100, 180, 250, 900, 1010])
def test_two_clusters_far_apart_in_32_bits(gap):
    jax_stk = pytest.importorskip("softtopk.jax")
    x = np.r_[np.linspace(gap + 1, gap, 20), np.linspace(1, 0, 20)].astype(np.float32)
    wide, eps = x.astype(float), float(np.finfo(np.float32).eps)
    off = abs(np.asarray(jax_stk.soft_sort(x)) - stk.soft_sort(wide))
    assert off.max() < 8 * eps * gap
    off = abs(np.asarray(jax_stk.soft_rank(x)) - stk.soft_rank(wide))
    assert off.max() < 2 * eps * len(x)


@pytest.mark.parametrize("many", [1, 2, 20])
def test_scores_left_out_do_not_change_the_gradient_by_the_temperature(many):
    torch = pytest.importorskip("torch")
    torch_stk = pytest.importorskip("softtopk.torch")
    rng = np.random.default_rng(0)
    x, w = torch.tensor(rng.normal(size=(2, 1, 40)))
    lowered = x.clone()
    lowered[:, :many] = -torch.inf
    for op, of in (
        (torch_stk.soft_rank, slice(many, None)),
        (torch_stk.soft_sort, slice(40 - many)),
    ):
        slopes = []
        for scores, part in ((lowered, of), (x[:, many:], slice(None))):
            tau = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
            found = op(scores, temperature=tau)[:, part]
            slopes.append(torch.autograd.grad((found * w[:, many:]).sum(), tau)[0])
        torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)
