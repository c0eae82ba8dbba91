"""Two budgets on PyTorch and JAX: 50 digits, the core, every derivative, bad input.

What nobody looks at (``check=False``) is what a compiler or an accelerator runs.
"""

import warnings

import jax
import numpy as np
import oracle_balance as oracle
import pytest
import torch
from mpmath import mpf
from oracle_balance import off, skewed

import softtopk as stk
import softtopk.jax
import softtopk.torch
from softtopk._search.weighted_least_squares import AdditiveFit
from softtopk.curves import NAMED

TAUS = np.array([1.0, 0.3, 0.1])
K, C = np.array([1.0, 2.0, 1.5, 0.5, 1.0]), np.array([2.0, 0.5, 2.5, 1.0])
G = np.cos(np.arange(20.0)).reshape(5, 4)
both = pytest.mark.parametrize("check", [None, False])


def distance(found, exact):
    pairs = zip(found.ravel(), (v for row in exact for v in row), strict=True)
    return max(float(abs(mpf(float(a)) - b)) for a, b in pairs)


def of(lib, name="sigmoid", **given):
    """Shares by scores, budgets (columns up to a factor) and temperature."""

    def f(S, k, w, tau):
        c = w * (k.sum() / w.sum())
        return lib.ops.balanced_topk(S, k, c, name, temperature=tau, **given)

    return f


def point(lib, tau=0.6):
    return [lib.array(v, np.float64) for v in (skewed(5, 4, 3), K, C, tau)]


@pytest.mark.parametrize("name", ["exp", "laplace", "sigmoid"])
def test_budgets_shares_and_gradients_meet_50_digits(lib, name):
    S = skewed(5, 4, 3)
    exact = [oracle.solve(S, K, C, name, tau) for tau in TAUS]
    X, tau = lib.array(np.stack([S] * 3)), lib.array(TAUS)

    def f(X, **check):
        return lib.ops.balanced_topk(X, K, C, name, temperature=tau, **check)

    traced, (gx,) = lib.pull(
        lambda X: f(X, check=False), [X], lib.array(np.stack([G] * 3))
    )
    for P in map(lib.numpy, (f(X), traced)):
        assert off(P, K, C) < 1e-13
        assert max(map(distance, P, (one.p for one in exact))) < 1e-13
    for found, one in zip(lib.numpy(gx), exact, strict=True):
        expected = one.product(G)
        size = float(max(abs(v) for row in expected for v in row))
        assert distance(found, expected) < 1e-12 * size


def test_derivatives_by_scores_budgets_and_temperature(lib):
    """By differences of the core; forward mode is the transpose of reverse mode."""
    at, h, rng = point(lib), 1e-6, np.random.default_rng(1)
    back = [lib.numpy(v) for v in lib.vjp(of(lib), at, lib.array(G))]
    moves = [rng.normal(size=v.shape) for v in back]

    def core(*ends):
        S, k, w, tau = ends
        return stk.balanced_topk(S, k, w * (k.sum() / w.sum()), temperature=float(tau))

    here = [lib.numpy(v) for v in at]
    total = 0
    for i, move in enumerate(moves):
        ends = [
            core(*here[:i], here[i] + s * h * move, *here[i + 1 :]) for s in (1, -1)
        ]
        slope = (G * (ends[0] - ends[1])).sum() / (2 * h)
        assert (back[i] * move).sum() == pytest.approx(slope, abs=1e-8)
        total += (back[i] * move).sum()
    dP = lib.numpy(lib.jvp(of(lib), at, [lib.array(v) for v in moves]))
    assert (G * dP).sum() == pytest.approx(total, abs=1e-12)
    # budgets change as they are told to
    dk, dw = moves[1:3]
    dc = dw * (K.sum() / C.sum()) + C * (dk.sum() - dw.sum()) / C.sum()
    assert abs(dP.sum(axis=1) - dk).max() < 1e-13
    assert abs(dP.sum(axis=0) - dc).max() < 1e-13


def test_second_derivatives_by_everything(lib):
    """Of sum G P^2: a Hessian product, by differences of the gradient."""

    def gradient(*at):
        def loss(*at):
            P = of(lib)(*at)
            return (lib.array(G) * P * P).sum()

        return lib.gradient(loss, (0, 1, 2, 3))(*at)

    rng, h = np.random.default_rng(2), 1e-5
    at = point(lib)
    moves = [lib.array(rng.normal(size=tuple(v.shape))) for v in at]
    pairs = list(zip(at, moves, strict=True))
    product = lib.jvp(gradient, at, moves)
    ends = [
        lib.push(gradient, [v + s * h * move for v, move in pairs], moves)[0]
        for s in (1, -1)
    ]
    for found, up, down in zip(product, *ends, strict=True):
        slope = (lib.numpy(up) - lib.numpy(down)) / (2 * h)
        assert abs(lib.numpy(found) - slope).max() < 1e-7


def test_the_hessians_of_both_libraries_agree():
    g = G[:3, :3]

    def loss(ops, g, S):
        P = ops.balanced_topk(S, 1.5, curve="laplace", temperature=0.7)
        return (g * P * P).sum()

    S = skewed(3, 3, 1)
    one = torch.func.hessian(lambda S: loss(softtopk.torch, torch.tensor(g), S))
    two = jax.jit(jax.hessian(lambda S: loss(softtopk.jax, g, S)))
    H = one(torch.tensor(S)).cpu().numpy().reshape(9, 9)
    assert abs(H - np.asarray(two(S)).reshape(9, 9)).max() < 1e-13
    assert abs(H - H.T).max() < 1e-14 and abs(H).max() > 0.1


@pytest.mark.parametrize(
    ("name", "check"),
    [("exp", None), ("laplace", None), ("sigmoid", None), ("sigmoid", False)],
)
def test_gradients_of_first_and_second_order_check(name, check):
    class Lib:
        ops = softtopk.torch

    at = [
        torch.tensor(v, dtype=torch.double).requires_grad_()
        for v in (skewed(4, 3, 3), K[:4], C[:3], 0.6)
    ]
    f = of(Lib, name, check=check)
    ways = {"check_batched_grad": True, "check_forward_ad": True}
    assert torch.autograd.gradcheck(f, at, **ways)
    assert torch.autograd.gradgradcheck(f, at)


@pytest.mark.parametrize("name", NAMED)
def test_the_search_is_the_cores(name):
    """Also cold, where a curve is flat and the graph of its weights falls apart."""
    for m, n, k in ((8, 4, 2), (16, 64, 8.5), (64, 16, 4), (24, 24, 1)):
        S = np.stack([skewed(m, n, seed) for seed in range(4)])
        taus = 1.0, 0.1, 0.03, 0.01
        shares = softtopk.torch.balanced_topk(
            torch.tensor(S)[:, None].expand(-1, len(taus), -1, -1),
            k,
            curve=name,
            temperature=torch.tensor(taus, dtype=torch.double),
            check=False,
        )
        for tau, P in zip(taus, shares.cpu().numpy().swapaxes(0, 1), strict=True):
            assert off(P, k, m * k / n) < 1e-14 * (20 + 2 / tau)
            core = stk.balanced_topk(S, k, curve=name, temperature=tau)
            assert abs(P - core).max() < 2e-12 / tau


def test_float32_ends_and_meets_its_budgets(lib):
    for m, n, k in ((64, 16, 4), (24, 24, 1)):
        S = np.stack([skewed(m, n, seed) for seed in range(4)]).astype(np.float32)
        for tau in (1.0, 0.1, 0.01):
            for check in (None, False):
                P = lib.ops.balanced_topk(lib.array(S), k, temperature=tau, check=check)
                P = lib.numpy(P)
                assert P.dtype == np.float32
                assert off(P, k, m * k / n) < 2e-5 + 2e-6 / tau


def test_sixteen_bits_are_solved_in_float32_and_rounded_once(lib):
    x = lib.cast(lib.array(skewed(12, 5)), lib.bfloat16)
    P = lib.ops.balanced_topk(x, 2, temperature=0.5)
    assert P.dtype == lib.bfloat16
    wide = lib.ops.balanced_topk(lib.array(lib.numpy(x)), 2, temperature=0.5)
    assert (lib.numpy(P) == lib.numpy(lib.cast(wide, lib.bfloat16))).all()


@both
def test_masks(lib, check):
    rng = np.random.default_rng(3)
    S, where = skewed(12, 5), rng.random((12, 5)) < 0.7
    where[:, 0] = True
    k = np.where(where.sum(axis=1) > 1, 1.0, 0.5)
    c = stk.soft_topk(rng.normal(size=S.shape), k, "sigmoid", where=where).sum(axis=0)

    def f(x, **given):
        return lib.ops.balanced_topk(x, k, c, temperature=0.5, check=check, **given)

    hidden = lib.array(np.where(where, S, -np.inf))
    P = lib.numpy(f(lib.array(S), where=lib.array(where)))
    assert (P == lib.numpy(f(hidden))).all() and (P[~where] == 0).all()
    assert off(P, k, c) < 1e-12
    core = stk.linearize(stk.balanced_topk, S, k, c, temperature=0.5, where=where)
    assert abs(P - core.value).max() < 1e-14
    g = np.sin(np.arange(60.0)).reshape(12, 5)
    if check is None:
        (gx,) = lib.vjp(f, [hidden], lib.array(g))
        assert abs(lib.numpy(gx) - core.vjp(g)).max() < 1e-13


@both
def test_budgets_that_leave_no_choice_are_exact(lib, check):
    where = np.ones((6, 4), bool)
    where[:3, 2:] = False  # three rows that fill the two columns they may use
    S = np.stack([skewed(6, 4)] * 3)
    k = [[4, 0, 1, 0, 0, 1], [2, 2, 2, 1, 1, 0], [4, 4, 4, 4, 4, 4]]
    c = [[1, 1, 3, 1], [3, 3, 1, 1], [6, 6, 6, 6]]
    mask = np.stack([~where | where, where, ~where | where])
    given = {"where": lib.array(mask), "check": check}

    def f(S):
        return lib.ops.balanced_topk(S, k, c, **given)

    P = lib.numpy(f(lib.array(S)))
    assert (
        P[0] == [[1] * 4, [0] * 4, [0, 0, 1, 0], [0] * 4, [0] * 4, [0, 0, 1, 0]]
    ).all()
    assert (P[1, :3] == [1, 1, 0, 0]).all() and (P[1, 3:, :2] == 0).all()
    assert abs(P[1, 3:].sum(axis=0) - [0, 0, 1, 1]).max() < 1e-14
    assert (P[2] == 1).all()
    if check is None:
        (gx,) = lib.vjp(f, [lib.array(S)], lib.array(np.stack([S[0]] * 3)))
        assert (lib.numpy(gx)[[0, 2]] == 0).all() and abs(lib.numpy(gx)).max() > 0


def test_shares_of_0_and_1_are_flat(lib):
    S = np.array([[3.0, 0.0], [0.0, 3.0], [4.0, 0.0], [0.0, 4.0]])

    def f(S):
        return lib.ops.balanced_topk(S, 1, curve="clip", temperature=0.1)

    assert (lib.numpy(f(lib.array(S))) == (S > 0)).all()
    (gx,) = lib.vjp(f, [lib.array(S)], lib.array(S))
    assert (lib.numpy(gx) == 0).all()


@pytest.mark.usefixtures("looked")
def test_budgets_that_do_not_fit_raise_or_are_nan(lib):
    """Of five matrices the second alone can be met."""
    S = np.stack([skewed(40, 10)] * 5)
    S[0, :20, 5:] = -np.inf
    S[2, 0, 0], S[3, 0, 0] = np.nan, np.inf
    k = np.full((5, 40), 1.2)
    k[0] = np.repeat([2.0, 0.4], 20)
    c = np.full((5, 10), 4.8)
    c[0] = np.repeat([7.5, 2.1], 5)
    c[4] *= 1.01
    messages = ("20 of the rows need 40", None, "S must be", "S must be", "same sum")
    for i, message in enumerate(messages):
        given = [lib.array(v[i]) for v in (S, k, c)]
        if message:
            with pytest.raises(ValueError, match=message):
                lib.ops.balanced_topk(*given)
    P = lib.ops.balanced_topk(*map(lib.array, (S, k, c)), check=False, rounds=25)
    P = lib.numpy(P)
    assert np.isnan(P[[0, 2, 3, 4]]).all()
    assert off(P[1], 1.2, 4.8) < 1e-13
    S = np.zeros((6000, 2))
    S[7, 1] = np.nan
    P = lib.ops.balanced_topk(lib.array(S), 1, check=False, rounds=25)
    assert np.isnan(lib.numpy(P)).all()
    quarters = lib.array([1.9, 0.1])
    P = lib.ops.balanced_topk(
        lib.array(np.zeros((2, 2))), quarters, quarters, check=False, rounds=25
    )
    assert np.isnan(lib.numpy(P)).all()


def test_too_few_rounds_are_said_or_nan(lib):
    S = lib.array(skewed(8, 4))
    match = "took 1 rounds and has columns still off"
    with pytest.warns(RuntimeWarning, match=match) as seen:
        P = lib.ops.balanced_topk(S, 2, temperature=0.1, rounds=1)
    assert [warning.filename for warning in seen] == [__file__]
    assert abs(lib.numpy(P).sum(axis=1) - 2).max() < 1e-14
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        P = lib.ops.balanced_topk(S, 2, temperature=0.1, rounds=1, check=False)
    assert np.isnan(lib.numpy(P)).all()


@pytest.mark.parametrize("axes", [(1, 3), (3, 1), (-1, 0), (2, 0)])
def test_axes_and_batches(axes):
    S = np.random.default_rng(1).normal(size=(3, 5, 4, 6))
    k = np.linspace(0.5, 1.5, S.shape[axes[0]])
    c = np.linspace(1, 2, S.shape[axes[1]])
    c *= k.sum() / c.sum()
    core = stk.balanced_topk(S, k, c, axes=axes, temperature=0.5)
    for check in (None, False):
        P = softtopk.torch.balanced_topk(
            torch.tensor(S), k, c, axes=axes, temperature=0.5, check=check
        )
        assert abs(P.cpu().numpy() - core).max() < 1e-14


def test_vmap_is_the_batch(lib):
    S = np.stack([skewed(5, 4, seed) for seed in range(3)])
    k, c = np.stack([K, K[::-1], 2 * K]), np.stack([C, C[::-1], 2 * C])
    given = [lib.array(v) for v in (S, k, c, TAUS)]

    def one(S, k, c, tau):
        return lib.ops.balanced_topk(S, k, c, temperature=tau)

    P = lib.numpy(lib.vmap(one)(*given))
    for i in range(3):
        core = stk.balanced_topk(S[i], k[i], c[i], temperature=TAUS[i])
        assert abs(P[i] - core).max() < 2e-14


def test_a_compiled_graph_is_whole_and_equal():
    """Without Inductor's code, which takes minutes to write."""

    def f(S, k, tau):
        return softtopk.torch.balanced_topk(S, k, temperature=tau)

    whole = torch.compile(f, fullgraph=True, backend="aot_eager")
    # With a tensor of one double without axes, Dynamo would trace everything twice.
    given = torch.tensor(skewed(6, 4))[None], torch.full((1, 6), 2.0).double()
    given = *given, torch.tensor([0.5]).double()
    results = []
    for g in (f, whole):
        at = [v.clone().requires_grad_() for v in given]
        P = g(*at)
        results.append((P.detach(), *torch.autograd.grad((P * P).sum(), at)))
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=0, atol=1e-13)
    at[1] = (given[1] + 3).requires_grad_()
    assert whole(*at).isnan().all()


def test_autocast_takes_no_bits_from_the_search():
    S = torch.tensor(skewed(24, 8), dtype=torch.float32).requires_grad_()

    def gradient():
        P = softtopk.torch.balanced_topk(S, 2, temperature=0.3, check=False)
        return P, torch.autograd.grad((P * P).sum(), S)[0]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = gradient()
    for one, two in zip(found, gradient(), strict=True):
        assert torch.equal(one, two)


def test_the_systems_are_never_singular():
    """The rounding of long sums is less than what the diagonal is raised by."""
    for m in (2, 16, 256, 4096):
        for seed in range(5):
            W = np.exp(-10 * np.random.default_rng(seed).random((m, min(m, 16))))
            for dtype in (np.float64, np.float32):
                matrix = AdditiveFit(W.astype(dtype)).matrix.astype(np.float64)
                assert np.linalg.eigvalsh(matrix)[0] > np.finfo(dtype).eps


@pytest.mark.usefixtures("looked")
@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"columns": [5, -1, 0]}, ValueError, r"columns must lie in \[0, 4\]"),
        ({"columns": [1, 1]}, ValueError, r"columns must broadcast to shape \(3,\)"),
        ({"columns": [1, 1, 1]}, ValueError, "same sum, got 4 and 3"),
        ({"k": [1, 1]}, ValueError, r"k must broadcast to shape \(4,\)"),
        ({"k": 4}, ValueError, r"k must lie in \[0, 3\]"),
        ({"k": "all"}, TypeError, "k must be a real number"),
        ({"k": np.nan}, ValueError, "k must lie in"),
        ({"axes": 0}, TypeError, "(axes|dims) must be two integers"),
        ({"axes": (0, 0)}, ValueError, "must not name an axis of S twice"),
        ({"axes": (0, 2)}, ValueError, "(axis|dim) must lie in"),
        ({"curve": "step"}, ValueError, "curve must be one of"),
        ({"temperature": 0.0}, ValueError, "temperature must be finite and above 0"),
        ({"rounds": 0}, ValueError, "rounds must be finite and at least 1"),
    ],
)
def test_bad_arguments(lib, options, error, match):
    given = {"k": 1} | options
    with pytest.raises(error, match=match):
        lib.ops.balanced_topk(lib.array(skewed(4, 3)), given.pop("k"), **given)
    minus = lib.array(-1.0)
    with pytest.raises(ValueError, match="temperature must be finite and above 0"):
        lib.ops.balanced_topk(lib.array(skewed(4, 3)), 1, temperature=minus)
