"""Rows of every class that has troubled a threshold solver, with their budgets.

And how far off the kernels are on them: in eps, and as a multiple of eps times what is
summed.
"""

import numpy as np
import torch

import softtopk as stk
from softtopk import curves
from softtopk._adapters import torch_adapter as _registers_tensors  # noqa: F401
from softtopk._kernels import torch_launch as kernels
from softtopk._rules import selection_rule

EPS = {np.float32: 2.0**-23, np.float64: 2.0**-52}
TAU = float(np.float32(0.7))

CLASSES = (
    "normal",
    "ties",
    "outlier",
    "constant",
    "cauchy",
    "uniform",
    "masked",
    "offset",
    "plateaus",
    "far below",
    "two values",
)


def rows(rng, count, n, dtype):
    """(count, n) scores, row by row of the next class, at scales from 1e-6 to 1e6."""
    out = np.empty((count, n))
    for i in range(count):
        kind = CLASSES[i % len(CLASSES)]
        x = rng.normal(size=n)
        if kind == "ties":
            x = np.round(2 * x) / 2
        elif kind in ("outlier", "far below"):
            x[rng.integers(n)] = 1e4 if kind == "outlier" else -1e4
        elif kind == "constant":
            x[:] = 0.7
        elif kind == "cauchy":
            x = rng.standard_cauchy(size=n)
        elif kind == "uniform":
            x = rng.uniform(size=n)
        elif kind == "offset":
            x += 1000
        elif kind == "plateaus":
            x = np.arange(n) // 3 * 1.0
        elif kind == "two values":
            x = 50.0 * (rng.uniform(size=n) < 0.3)
        out[i] = x * 10 ** rng.uniform(-6, 6)
        if kind == "masked":
            out[i, rng.uniform(size=n) < 0.4] = -np.inf
            out[i, :2] = 1, 0
    return out.astype(dtype)


def budgets(rng, x):
    """A budget a row: whole, real, next to the ends, far below 1."""
    most = np.isfinite(x).sum(-1)
    kinds = np.arange(len(x)) // len(CLASSES) % 5
    real = rng.uniform(size=len(x))
    return np.select(
        [kinds == 0, kinds == 1, kinds == 2, kinds == 3],
        [
            1 + np.floor(real * (most - 1)),
            real * most,
            np.where(real < 0.5, 1, most - 1),
            np.where(real < 0.5, 0.3, most - 0.3),
        ],
        10.0 ** (-6 * real),
    ).astype(x.dtype)


def select(x, k, curve):
    """Shares, anchors and offsets of NumPy's rows, and the budgets that were used."""
    whole = np.floor(k)
    part = (k - whole).astype(x.dtype)
    given = torch.tensor(whole).long(), torch.tensor(part)
    tau = torch.full((len(x),), TAU, dtype=given[1].dtype)
    found = kernels.select(
        torch.tensor(x), *given, tau, 0.0, 1.0, *kernels.named(curve)
    )
    return found, whole + part.astype(float)


def share_errors(x, k, curve):
    """The error of each row's shares against the core in float64, and of their sum.

    The third part is the bound of the sum, in eps too.  The core's is 16 k.  Shares of
    e^-20, as in a row of which a millionth of an entry is selected, add what half an
    ulp of the exponent changes, in three roundings of it.
    """
    (p, _, _), k = select(x, k, curve)
    p, eps = p.cpu().numpy(), EPS[x.dtype.type]
    exact = stk.soft_topk(x.astype(float), k, curve, temperature=TAU)
    error = np.abs(p - exact).max(-1) / eps
    off = np.abs(exact.sum(-1) - k - (exact - p).sum(-1)) / eps
    depth = 1.5 * np.sum(exact * -np.log(np.maximum(exact, 1e-300)), -1)
    return error, off, 16 * k + (depth if curve.support[1] != 1 else 0)


def exact_pull(x, g, a, t, curve):
    """The gradients at the same thresholds in float64, and what rounding may change.

    The third part is by how much each slope changes, relative to itself, where its u
    moves by an ulp: rows whose slopes all underflow, or start vertically, show it.
    """
    x, g, a, t = (v.double() for v in (x, g, a, t))
    point = x, a, t, torch.full_like(a, TAU)
    found = selection_rule.slopes(curve, point, False)
    u = found.view.u
    if isinstance(curve, curves.Entmax):
        steep = (1 - curve.b) / (1 + curve.b * u).clip(1e-30)
    else:
        steep = torch.ones_like(u) * (curve.support[0] == -np.inf)
    shown = torch.where(found.s > 0, steep * (1 + abs(u)), 0)
    return selection_rule.pull_selection(curve, point, False, g, None), found, shown


def gradient_errors(x, k, curve, seed=0):
    """The errors of the gradients by x, k and tau, over eps times what is summed."""
    (_, a, t), _ = select(x, k, curve)
    rng, eps = np.random.default_rng(seed), EPS[x.dtype.type]
    x, g = torch.tensor(x), torch.tensor(rng.normal(size=x.shape).astype(x.dtype))
    tau = torch.full((len(x),), TAU, dtype=a.dtype)
    found = kernels.pull(x, g, a, t, tau, 1.0, *kernels.named(curve))
    exact, slopes, shown = exact_pull(x, g, a, t, curve)
    # Next to a kink an ulp decides which of two slopes an entry has.
    sure = abs(slopes.view.u - curve.support[1]).amin(-1) > 8 * eps
    sure = (sure | (curve.support[1] == np.inf)) & torch.isfinite(t)
    by_x, by_k, by_tau = (
        (v.double() - w).abs()[sure] / eps for v, w in zip(found, exact, strict=True)
    )
    size = (g.double().abs() + exact[1].abs()[:, None])[sure]
    w, s, shown = slopes.w[sure], slopes.s[sure], 1 + shown[sure]
    far, most = slopes.view.d[sure].abs(), size.amax(-1)
    summed = most[:, None]
    if 0.5 < getattr(curve, "b", 0) < 1:
        # A slope that rises vertically shows the last bit of the threshold: what it
        # changes by where u moves by half an ulp to each side, from 0 at the end.
        u = slopes.view.u[sure]
        half = 0.5 * eps * (1 + abs(u))
        change = curve.slope(u + half) - curve.slope(u - half)
        summed = summed * (w + change.clip(0) / eps)
    tiny = 1e-30
    return (
        (by_x * TAU / (summed + tiny)).amax(-1).cpu().numpy(),
        (by_k / (most * (s * shown).sum(-1).clip(1))).cpu().numpy(),
        (by_tau * TAU / ((w * size * shown * far).sum(-1) + tiny)).cpu().numpy(),
    )
