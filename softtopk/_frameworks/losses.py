"""The losses over the namespace: a value, and the derivatives that it is given.

The gradient of every loss is shares minus target, and the shares have derivatives of
any order; so a loss needs no differentiation of its own, and none happens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._rows import as_real, real_number, without
from ..curves import EXP, Curve, Entmax, resolve
from .contract import Adapter
from .operators import finite_rows, hard, look, truncated_rows
from .rows import Rows, as_rows, flat
from .selection import View, view
from .simplex import logits

__all__ = [
    "am_softmax_loss",
    "cross_entropy",
    "entmax_loss",
    "potential",
    "sparse_softmax_loss",
    "sparsemax_loss",
    "stop_gradient_loss",
    "top_k_loss",
]


def cross_entropy(
    xp: Adapter,
    x: Any,
    target: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Cross entropy of a target and the softmax of x.

    Parameters
    ----------
    x, axis, where, check
        As in `soft_topk`.
    target : array
        Class indices, integers of the shape of `x` without `axis`, or shares of the
        shape of `x` that sum to 1.

    Returns
    -------
    array
        One loss a row, at least 0, with full relative accuracy near 0.
    """
    rows = finite_rows(xp, x, 1.0, axis, where, check)
    t = _target(xp, rows, x, target, check)
    return _log_loss(xp, rows, t, rows.x, rows.tau)


def am_softmax_loss(
    xp: Adapter,
    scores: Any,
    target: Any,
    margin: float,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Cross entropy that wants the target's score ahead by a margin.

    Parameters
    ----------
    scores, temperature, axis, where, check
        As in `soft_topk`.
    target : array of int
        Class indices, of the shape of `scores` without `axis`.
    margin : float
        At least 0, in the units of the scores.

    Returns
    -------
    array
        One loss a row, at least 0.
    """
    margin = real_number(margin, "margin", least=0)
    rows = finite_rows(xp, scores, temperature, axis, where, check, "scores")
    t = _target(xp, rows, scores, target, check, shares=False)
    return _log_loss(xp, rows, t, rows.x - margin * t, rows.tau)


def sparse_softmax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The logarithm of the k largest exponentials' sum, less the target's score.

    Parameters
    ----------
    x, target, axis, where, check
        As in `cross_entropy`.
    k : whole number
        At least 1.

    Returns
    -------
    array
        One loss a row, at least 0.
    """
    rows = truncated_rows(xp, x, k, 1.0, axis, where, check)
    t = _target(xp, rows, x, target, check, total=1 + 0 * rows.whole)
    return _log_loss(xp, rows, t, rows.x, rows.tau, xp.detach(hard(xp, rows, k)))


def entmax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    alpha: float = 1.5,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The Fenchel-Young loss of entmax; its gradient is entmax minus target.

    Parameters
    ----------
    x, target, axis, where, check
        As in `cross_entropy`.
    alpha : float
        At least 1.

    Returns
    -------
    array
        One loss a row, at least 0.
    """
    alpha = real_number(alpha, "alpha", least=1)
    rows = finite_rows(xp, x, 1.0, axis, where, check)
    curve = Entmax(alpha) if alpha > 1 else EXP
    return _gap_loss(xp, curve, rows, _target(xp, rows, x, target, check))


def sparsemax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The Fenchel-Young loss of sparsemax; its gradient is sparsemax minus target.

    Parameters
    ----------
    x, target, axis, where, check
        As in `cross_entropy`.

    Returns
    -------
    array
        One loss a row, at least 0.
    """
    return entmax_loss(xp, x, target, 2.0, axis=axis, where=where, check=check)


def potential(
    xp: Adapter,
    x: Any,
    k: Any,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""The potential V of a curve, a smooth sum of the k largest scores.

    Its derivatives are `soft_topk` by x, `threshold` by k, and
    :math:`-\sum\varphi(p_i)` by the temperature.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, check
        As in `soft_topk`.

    Returns
    -------
    array
        One number a row, in the units of the scores.
    """
    curve = resolve(curve)
    rows = _looked(xp, x, k, temperature, axis, where, check)
    p, a, t, at = _solved(xp, curve, rows)
    u, free = xp.detach(at.u), xp.isfinite(t)
    q, off = xp.detach(rows.whole + rows.part), xp.where(free, xp.detach(t), 0)
    area = xp.sum(at.only(curve.potential(u)), axis=-1)
    tau = xp.detach(rows.tau)
    held = xp.where(p > 0, xp.detach(rows.x), 0)
    whole = curve.regulariser(xp.ones_like(a))
    entropy = xp.where(free, area - xp.sum(at.only(xp.detach(p) * u), axis=-1), 0)
    entropy = xp.where(t == -math.inf, -q * whole, entropy)
    full = xp.where(t == -math.inf, xp.sum(held, axis=-1) + tau * entropy, 0)
    value = xp.where(free, q * a + tau * (q * off + area), full)
    value = xp.where(t != t, math.nan, value)
    entropy = xp.attach(entropy, {"x": (p, -u)})
    by = {"x": (rows.x, p), "k": (rows.part, a + rows.tau * t)}
    by["tau"] = (rows.tau, entropy)
    return rows.reduce(xp, xp.attach(value, by))


def top_k_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    k: Any = 1,
    curve: str | Curve = "laplace",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """The Fenchel-Young loss of a smooth top-k selection.

    Parameters
    ----------
    target : array
        Shares in [0, 1] of the shape of `x` that sum to k; for k = 1 also class
        indices.
    x, k, curve, temperature, axis, where, check
        As in `soft_topk`.  The loss has derivatives by `x` and `temperature`.

    Returns
    -------
    array
        One loss a row, in the units of the scores, at least 0.
    """
    curve = resolve(curve)
    rows = _looked(xp, x, k, temperature, axis, where, check)
    return _gap_loss(xp, curve, rows, _target(xp, rows, x, target, check))


def _gap_loss(xp: Adapter, curve: Curve, rows: Rows, goal: Any) -> Any:
    """The sum of the gaps of each row, whose values have been looked at."""
    p, _, t, at = _solved(xp, curve, rows)
    free, u = xp.isfinite(t), xp.detach(at.u)
    gap = curve.gap(u, goal)
    gap = at.only(xp.clip(gap, 0, None), xp.where(goal > 0, math.inf, 0))
    # With nothing or everything to select there is nothing to lose.
    total = xp.where(free, xp.sum(gap, axis=-1), xp.where(t != t, t, 0))
    rest = xp.where(free[..., None], p - goal, xp.where((t != t)[..., None], p, 0))
    slope = total - xp.where(free, xp.sum(xp.detach(rest) * u, axis=-1), 0)
    slope = xp.attach(slope, {"x": (p, -u)})
    by = {"x": (rows.x, rest), "tau": (rows.tau, slope)}
    return rows.reduce(xp, xp.attach(xp.detach(rows.tau) * total, by))


def stop_gradient_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    k: Any = 1,
    curve: str | Curve = "exp",
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """A number whose gradient is `soft_topk` minus target, for any curve.

    Parameters
    ----------
    x, target, k, curve, temperature, axis, where, check
        As in `top_k_loss`.

    Returns
    -------
    array
        One number a row, of any sign: only its gradient has a meaning.
    """
    rows = _looked(xp, x, k, temperature, axis, where, check)
    goal = _target(xp, rows, x, target, check)
    p, _, _, _ = _solved(xp, resolve(curve), rows)
    gradient, scores = p - goal, xp.detach(rows.x)
    top = xp.max(scores, axis=-1)[..., None]
    height = xp.where(xp.isfinite(scores), scores - top, 0)
    value = xp.sum(xp.detach(gradient) * height, axis=-1)
    return rows.reduce(xp, xp.attach(value, {"x": (rows.x, gradient)}))


def _looked(
    xp: Adapter, x: Any, k: Any, temperature: Any, axis: Any, where: Any, check: Any
) -> Rows:
    rows = as_rows(xp, x, k, temperature, axis, where)
    look(xp, rows, check)
    return rows


def _solved(xp: Adapter, curve: Curve, rows: Rows) -> tuple[Any, Any, Any, View]:
    """p, a, t, and where the entries stand, without a derivative."""
    p, a, t = xp.select(curve, rows.x, rows.whole, rows.part, rows.tau, False)
    x, anchor, offset, tau = map(xp.detach, (rows.x, a, t, rows.tau))
    return p, a, t, view(x, anchor, offset, tau, plain=False)


def _log_loss(
    xp: Adapter, rows: Rows, t: Any, z: Any, tau: Any, weight: Any = None
) -> Any:
    """-log of the target's share of the (weighted) exponentials of z / tau.

    It is what the target lacks to the largest score plus log(1 + r), r what the others
    weigh beside that one: both are at least 0.
    """
    u = logits(xp, z, tau)
    e = xp.exp(u) if weight is None else weight * xp.exp(u)
    p = e / xp.sum(e, axis=-1)[..., None]
    fixed, others = xp.detach(u), xp.detach(e)
    best = xp.places(z.shape[-1], z) == xp.argmax(fixed)[..., None]
    r = xp.sum(xp.where(best, others - 1, others), axis=-1)
    value = xp.sum(xp.where(t > 0, -t * fixed, 0), axis=-1) + xp.log1p(r)
    inner = xp.where(xp.isfinite(fixed), u, 0)
    scale = tau[..., None] if tau.ndim else tau
    by = {"x": (rows.x, (p - t) / scale)}
    by["tau"] = (tau, xp.sum((t - p) * inner, axis=-1) / tau)
    return rows.reduce(xp, xp.attach(value, by))


def _target(
    xp: Adapter,
    rows: Rows,
    x: Any,
    target: Any,
    check: bool | None,
    *,
    shares: bool = True,
    total: Any = None,
) -> Any:
    """The target as shares (..., n) that sum to a budget, by default to that of x."""
    looks, target = xp.looks(rows.x, check), xp.asarray(target, like=rows.x)
    if not (xp.is_real(target) or target.dtype == xp.bool_):
        as_real(xp.to_numpy(target), "target")
    whole, part = (rows.whole, rows.part) if total is None else (total, 0 * rows.part)
    n, batch = rows.x.shape[-1], tuple(rows.x.shape[:-1])
    shape = tuple(xp.asarray(x).shape)
    reduced = without(shape, rows.axes)
    integers = xp.is_real(target) and not xp.is_floating(target)
    if integers and tuple(target.shape) in (batch, reduced):
        many = (whole != 1) | (part != 0)
        if looks and bool(many.any()):
            raise ValueError(
                f"target must hold shares where k is not 1, got class indices and "
                f"k = {_first(xp, many, xp.astype(whole, part.dtype) + part)}"
            )
        bad = (target < 0) | (target >= n)
        if looks and bool(bad.any()):
            raise ValueError(
                f"target must hold class indices in [0, {n - 1}], "
                f"got {_first(xp, bad, target)}"
            )
        t = xp.astype(xp.places(n, rows.x) == target[..., None], rows.x.dtype)
    elif shares and tuple(target.shape) in (shape, rows.shape):
        t = flat(xp, xp.astype(target, rows.x.dtype), rows.axes)
        bad = ~((t >= 0) & (t <= 1))
        if looks and bool(bad.any()):
            raise ValueError(
                f"target must hold shares in [0, 1], got {_first(xp, bad, t)}"
            )
        sums = xp.sum(t, axis=-1)
        # Shares that were rounded to float32 are accepted.
        off = abs(sums - (whole + part)) > n * 2.0**-23
        if looks and bool(off.any()):
            k = xp.astype(whole, part.dtype) + part
            raise ValueError(
                f"target must sum to {_first(xp, off, k):g} in every row, "
                f"got {_first(xp, off, sums):g}"
            )
    else:
        kinds = f"class indices of shape {reduced}"
        if shares:
            kinds += f" or shares of shape {shape}"
        raise ValueError(
            f"target must hold {kinds}, got shape {tuple(target.shape)} of dtype "
            f"{target.dtype}"
        )
    t = xp.detach(xp.broadcast_to(t, (*batch, n)))
    if looks and bool(((t > 0) & (rows.x == -math.inf)).any()):
        raise ValueError("target must be 0 where x takes no part (-inf or where=False)")
    return t


def _first(xp: Adapter, bad: Any, values: Any) -> Any:
    """The first of the values that are bad."""
    where, values = np.broadcast_arrays(xp.to_numpy(bad), xp.to_numpy(values))
    return values[where][0]
