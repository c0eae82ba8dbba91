"""The worst error of every framework against 50 digits, printed as a table.

In units of eps of the type: shares; the threshold, over the largest score or the
temperature; the derivatives of sum(g p) by a score, times the temperature, by k, and by
the temperature, over (1 + distance to the mean of the scores)^2 / temperature.
"""

import functools
import math

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from test_selection import CURVES, EPS, curve_of, reference, rows

import softtopk as stk
import softtopk.dask
import softtopk.jax
import softtopk.torch
from softtopk._rows.namespace import namespace

G = np.cos(np.arange(12.0))
COLUMNS = ("shares", "threshold", "by x", "by k", "by tau")


@functools.cache
def exact(name, dtype):
    """Of every row: the arguments, and what is asked of them in 50 digits."""
    found = []
    for x, k, tau in rows():
        x, k, tau = x.astype(dtype), float(dtype(k)), float(dtype(tau))
        ref = reference(x, k, name, tau)
        with mp.workdps(ref.digits):
            share = ref.shares()
            scores = [mpf(0) if v == -math.inf else mpf(float(v)) for v in x]
            mean = mp.fsum(map(mp.fmul, share, scores))
            g = [mpf(float(v)) for v in G.astype(dtype)]
            slow = [w * (mean - v) for w, v in zip(ref.w, scores, strict=True)]
            by_tau = mp.fsum(map(mp.fmul, g, slow)) / mpf(tau) ** 2
            by_k = mp.fsum(map(mp.fmul, g, share))
            far = float(max(abs(v - mean) for v in scores)) / tau
        answers = [
            np.array(v, float)
            for v in (ref.p, ref.threshold, ref.vjp(G.astype(dtype)), by_k, by_tau)
        ]
        size = max(abs(x[np.isfinite(x)]).max(), tau)
        scales = 1, size, 1 / tau, 1, (1 + far) ** 2 / tau
        found.append(((x, k, tau), answers, scales))
    return found


def torch_eager(curve, x, k, tau, compiled=None):
    at = [torch.tensor(v, dtype=torch.from_numpy(x).dtype) for v in (x, k, tau)]
    # With a tensor of one double without axes, Dynamo would trace everything twice.
    given = [v[None].requires_grad_() for v in at]
    both = compiled or functools.partial(_both, softtopk.torch, curve)
    p, t = both(*given)
    grads = torch.autograd.grad(p, given, torch.tensor(G, dtype=p.dtype)[None])
    return [v.detach().numpy()[0] for v in (p, t, *grads)]


def _both(ops, curve, x, k, tau):
    settings = {"temperature": tau}
    return ops.soft_topk(x, k, curve, **settings), ops.threshold(
        x, k, curve, **settings
    )


_compiled = torch.compile(  # what Inductor makes of it: test_torch
    functools.partial(_both, softtopk.torch, "laplace"),
    fullgraph=True,
    backend="aot_eager",
)


def torch_compile(curve, x, k, tau):
    return torch_eager(curve, x, k, tau, _compiled)


@functools.partial(jax.jit, static_argnums=0)
def _jitted(curve, x, k, tau):
    (p, t), back = jax.vjp(functools.partial(_both, softtopk.jax, curve), x, k, tau)
    return (p, t, *back((jnp.asarray(G, p.dtype), jnp.zeros_like(t))))


def jax_jit(curve, x, k, tau):
    return _jitted(curve, *(jnp.asarray(v, x.dtype) for v in (x, k, tau)))


def dask_lazy(curve, x, k, tau):
    chunks = da.from_array(x, chunks=5)
    p, t = _both(softtopk.dask, curve, chunks, k, tau)
    return p.compute(), t


@pytest.mark.parametrize(
    ("framework", "dtype", "names"),
    [
        (torch_eager, np.float64, CURVES),
        (torch_eager, np.float32, CURVES),
        (torch_compile, np.float64, ["laplace"]),
        (jax_jit, np.float64, CURVES),
        (jax_jit, np.float32, CURVES),
        (dask_lazy, np.float64, CURVES),
        (dask_lazy, np.float32, CURVES),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_worst_errors_against_fifty_digits(framework, dtype, names, capsys):
    table = []
    for name in names:
        errors = []
        for given, answers, scales in exact(name, dtype):
            found = framework(curve_of(name), *given)
            errors.append(
                [
                    abs(np.asarray(v, float) - a).max() / (scale * EPS[dtype])
                    for v, a, scale in zip(found, answers, scales, strict=False)
                ]
            )
        table.append([name, *np.max(errors, axis=0)])
    title = f"{framework.__name__}, {dtype.__name__}"
    with capsys.disabled():
        print(f"\n\n{title:24}", *(f"{c:>9}" for c in COLUMNS[: len(table[0]) - 1]))
        for name, *worst in table:
            print(f"{name!s:24}", *(f"{error:9.2g}" for error in worst))
    assert max(max(worst) for _, *worst in table) <= 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_what_a_compiler_makes_of_small_numbers(name, dtype):
    """Inductor's expm1 is exp - 1, and XLA takes (1 + x) - 1 for x."""
    x = np.concatenate([-np.logspace(-9, -0.01, 400), np.logspace(-9, 1.5, 400)])
    x = np.append(x, [-1.0, -0.5, -80.0]).astype(dtype)
    xp = namespace(torch.tensor(x) if name == "torch" else jnp.asarray(x))

    def functions(x):
        return xp.expm1(x), xp.log1p(xp.where(x > -1, x, 0))

    if name == "torch":
        found = torch.compile(functions, fullgraph=True)(torch.tensor(x))
    else:
        found = jax.jit(functions)(jnp.asarray(x))
    with mp.workdps(50):
        for f, values in zip((mp.expm1, mp.log1p), found, strict=True):
            for v, value in zip(x, np.asarray(values), strict=True):
                if f is mp.expm1 or v > -1:
                    exact = f(mpf(float(v)))
                    assert abs(float(value) - exact) <= 3 * EPS[dtype] * abs(exact), v


MASKED = np.ma.array(np.ones((2, 3)), mask=np.eye(2, 3, dtype=bool))
LOST = {
    "x": MASKED,
    "k": np.ma.array([1.0, 2.0], mask=[0, 1]),
    "where": np.ma.array(np.ones((2, 3), bool), mask=np.eye(2, 3, dtype=bool)),
    "cost": MASKED,
    "target": np.ma.array([0, 1], mask=[0, 1]),
    "alpha": np.ma.array(1.5, mask=True),
    "columns": np.ma.array([1.0, 1.0, 0.0], mask=[0, 1, 0]),
    "temperature": np.ma.array(1.5, mask=True),
}


@pytest.mark.parametrize("name", LOST)
def test_no_mask_of_an_argument_is_lost(lib, name):
    operators = {"target": "cross_entropy", "alpha": "entmax"}
    operator = operators.get(
        name, "balanced_topk" if name == "columns" else "soft_topk"
    )
    words = f"{name} must not be a masked array, whose mask would be lost"
    core = getattr(stk, operator, None) or getattr(stk.losses, operator)
    for call, array in ((core, np.asarray), (getattr(lib.ops, operator), lib.array)):
        first = {"S" if name == "columns" else "x": array(np.ones((2, 3)))}
        more = {"k": 1} if "topk" in operator else {}
        with pytest.raises(TypeError, match=words):
            call(**(first | more | {name: LOST[name]}))


def test_a_list_of_tensors_is_refused_and_its_gradient_not_lost():
    one = [torch.tensor(v, requires_grad=True) for v in (1.0, 2.0, 3.0)]
    x = torch.ones(3, 3)
    for name in ("soft_topk", "top_k", "grad_topk", "top_k_st", "top_k_sum"):
        with pytest.raises(TypeError, match="x must be one array of real numbers"):
            getattr(softtopk.torch, name)(one, 2)
    for name in ("softmax", "entmax", "sparsemax", "soft_sort", "logsumexp"):
        with pytest.raises(TypeError, match="x must be one array of real numbers"):
            getattr(softtopk.torch, name)(one)
    for name in ("k", "temperature", "cost"):
        with pytest.raises(TypeError, match=f"{name} must be"):
            softtopk.torch.soft_topk(x, **({"k": 1} | {name: one}))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_no_operator_takes_is_named():
    nested = [torch.ones(2), torch.ones(3)]
    strided = torch.nested.nested_tensor(nested)
    jagged = torch.nested.nested_tensor(nested, layout=torch.jagged)
    keys = jax.random.split(jax.random.key(0), 3)
    x = np.ones((2, 3))
    for name in ("soft_topk", "top_k", "top_k_indices", "grad_topk", "top_k_st"):
        for lib, array, words in (
            (softtopk.torch, strided, "x must be a dense tensor, got a nested one"),
            (softtopk.torch, jagged, "x must be a dense tensor, got a nested one"),
            (softtopk.torch, torch.eye(3).to_sparse(), "dense tensor, got a sparse"),
            (
                softtopk.torch,
                torch.ones(3).to(torch.float8_e5m2),
                "x must hold integers",
            ),
            (
                softtopk.jax,
                jnp.ones(3, jnp.float8_e5m2),
                "x must hold integers or float",
            ),
            (softtopk.jax, keys, "x must hold real numbers, got keys"),
        ):
            with pytest.raises(TypeError, match=words):
                getattr(lib, name)(array, 1)
    with pytest.raises(TypeError, match="k must hold integers or floats of"):
        softtopk.torch.soft_topk(torch.tensor(x), torch.ones(2).to(torch.float8_e5m2))
    with pytest.raises(TypeError, match="temperature must hold real numb"):
        softtopk.jax.soft_topk(jnp.asarray(x), 1, temperature=jax.random.key(0))


def test_a_script_is_refused_in_words_that_help():
    for given in (softtopk.torch.SoftTopK(1), softtopk.torch.soft_topk):
        with pytest.raises(NotImplementedError, match=r"use torch\.export or torch"):
            torch.jit.script(given)
