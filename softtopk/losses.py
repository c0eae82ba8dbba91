r"""Losses of scores against a target, whose gradient is *shares minus target*.

For a curve f with potential F and regulariser :math:`\varphi` (see
`softtopk.curves`) the *potential* of a row and its Fenchel-Young loss against shares
t that sum to k are

.. math:: V(x)=\min_l\Bigl[kl+\tau\sum_iF\bigl(\tfrac{x_i-l}\tau\bigr)\Bigr],\qquad
          L(x,t)=V(x)-x\cdot t+\tau\sum_i\varphi(t_i)\ge0,

with :math:`\nabla V=p` and :math:`\nabla_xL=p-t`.  At the threshold the loss is a sum
over the entries of gaps that are not negative,

.. math:: L=\tau\sum_i\Bigl[F(u_i)+\varphi(t_i)-t_iu_i\Bigr],\qquad
          u_i=\frac{x_i-\lambda}\tau,

and that is how it is computed, each gap of a named curve or entmax in a form without
cancellation: a loss is never below 0, and one near 0 has an error of a few units in the
last place of :math:`\sum_i|p_i-t_i|(1+|u_i|)`, as far as the scores determine it.

A target is an array of class indices, of the shape of the scores without `axis`, or
an array of shares, of the shape of the scores.  A class index or a share above 0 at
an entry that takes no part (-inf, or left out by `where`) is an error.  The losses of
a batch come back one for each row; their gradient through `softtopk.linearize`.

Derived in *distributions/softmax*, *distributions/relatives*,
*distributions/sparsemax*, *distributions/entmax* and *selection/family*.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._operator import Differentiable, Linearization, operator
from ._rows import (
    Array,
    Axis,
    Rows,
    as_rows,
    check_temperature,
    finite_rows,
    real_number,
    truncated_rows,
    without,
)
from ._solve import Solution, solve
from ._solve.entmax import entmax_shares
from .curves import CLIP, EXP, Curve, Entmax, resolve
from .hard import top_k, top_k_sum
from .simplex import log_shares

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


@operator
def cross_entropy(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""Cross entropy :math:`-\sum_it_i\log p_i` of a target and ``softmax(x)``.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf, with at least one finite entry in every row.
    target : array_like
        Class indices of the shape of `x` without `axis`, or shares of the shape of
        `x` that sum to 1.
    axis : int, tuple of int, or None
        The axis of the classes; of several a class index counts the entries in C order,
        None means all.
    where : array_like of bool, optional
        Entries that take part.

    Returns
    -------
    array or scalar
        One loss for each row, in nats, of the shape of `x` without `axis`; at least
        0.  Gradient: softmax minus target.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row.  For one class the loss is :math:`(x_{(1)}-x_t)+\log(1+r)`, r what
    the entries other than the largest weigh beside it: both terms are at least 0 and
    have full relative accuracy, at any margin.

    References
    ----------
    Claims B17 to B19; J. Su (2024), https://spaces.ac.cn/archives/10145.

    Examples
    --------
    >>> from softtopk.losses import cross_entropy
    >>> cross_entropy([[2.0, 1.0], [60.0, 0.0]], [1, 0]).tolist()
    [1.3132616875182228, 8.75651076269652e-27]
    >>> import softtopk as stk
    >>> stk.linearize(cross_entropy, [2.0, 1.0], 1).vjp(1.0).round(4).tolist()
    [0.7311, -0.7311]
    """
    rows = finite_rows(x, axis, where)
    t = _target(rows, target)
    log_p, _ = log_shares(_double(rows.x), 1.0)
    return _loss(rows, -_sum_where(t, log_p), lambda: np.exp(log_p) - t)


@operator
def am_softmax_loss(
    scores: ArrayLike,
    target: ArrayLike,
    margin: float,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""Cross entropy that wants the target's score ahead by a margin.

    :math:`-\log p_t` for the softmax of :math:`(x-m\,\mathrm{onehot}(t))/\tau`.

    Parameters
    ----------
    scores : array_like
        As in `cross_entropy`; often cosines, in [-1, 1].
    target : array_like of int
        Class indices, of the shape of `scores` without `axis`.
    margin : float
        m, at least 0, in the units of the scores.
    temperature : float
        :math:`\tau>0`.
    axis, where
        As in `cross_entropy`.

    Returns
    -------
    array or scalar
        One loss for each row; at least 0.  Gradient: that softmax minus the target's
        one-hot vector, over :math:`\tau`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row.  A loss of at most log 2 implies that the target leads by m.

    References
    ----------
    Claims B20, B21; F. Wang et al., "Additive margin softmax for face verification",
    IEEE SPL 2018.

    Examples
    --------
    >>> from softtopk.losses import am_softmax_loss
    >>> float(am_softmax_loss([0.9, 0.5], 0, 0.4, temperature=0.05).round(6))
    0.693147
    """
    tau = check_temperature(temperature)
    margin = real_number(margin, "margin", least=0)
    rows = finite_rows(scores, axis, where, "scores")
    t = _target(rows, target, shares=False)
    log_p, _ = log_shares(_double(rows.x) - margin * t, tau)
    return _loss(rows, -_sum_where(t, log_p), lambda: (np.exp(log_p) - t) / tau)


@operator
def sparse_softmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The loss :math:`\log\sum_{i\in\Omega_k}e^{x_i}-x\cdot t` of sparse softmax.

    :math:`\Omega_k` holds the k largest scores.

    Parameters
    ----------
    x, target, axis, where
        As in `cross_entropy`.
    k : array_like
        A whole number, 1 <= k <= the number of finite entries, or an array of them
        that broadcasts against `x` without `axis`.

    Returns
    -------
    array or scalar
        One loss for each row; at least 0.  It is :math:`-\log p_t` with
        ``p = sparse_softmax(x, k)`` if the target is among the k largest and the next
        score is smaller, and goes on
        as a continuous convex function where it is not and :math:`p_t=0`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row for one k.  Gradient: sparse softmax minus target, a subgradient where
    scores tie at the k-th place.

    References
    ----------
    Claims B27, B28.

    Examples
    --------
    >>> from softtopk.losses import sparse_softmax_loss
    >>> sparse_softmax_loss([[2.0, 1.0, 0.0]] * 2, [0, 2], 2).round(4).tolist()
    [0.3133, 2.3133]
    """
    rows = truncated_rows(x, k, axis, where)
    t = _target(rows, target)
    weight = top_k(_double(rows.x), rows.k)
    log_e, _ = log_shares(_double(rows.x), 1.0, weight)
    return _loss(rows, -_sum_where(t, log_e), lambda: weight * np.exp(log_e) - t)


@operator
def entmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    alpha: float = 1.5,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The Fenchel-Young loss of entmax; its gradient is entmax minus target.

    :math:`\max_p[p\cdot x+H_\alpha(p)]-t\cdot x-H_\alpha(t)`, with
    :math:`H_\alpha(p)=(1-\sum_ip_i^\alpha)/(\alpha(\alpha-1))`.

    Parameters
    ----------
    x, target, axis, where
        As in `cross_entropy`.
    alpha : float
        At least 1.  At 1 the loss is the relative entropy of the target and softmax:
        for one class, `cross_entropy`.

    Returns
    -------
    array or scalar
        One loss for each row; at least 0, and 0 only where entmax equals the target:
        for one class, where it leads by :math:`1/(\alpha-1)`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    Cost and accuracy of the shares as in `entmax`; the loss is a minimum over the
    threshold, so the threshold's rounding does not reach it at first order.

    References
    ----------
    Claim B63; M. Blondel, A. Martins, V. Niculae, "Learning with Fenchel-Young losses",
    JMLR 2020.

    Examples
    --------
    >>> from softtopk.losses import entmax_loss
    >>> entmax_loss([[2.0, 1.0, 0.0], [3.0, 1.0, 0.0]], [0, 0]).round(4).tolist()
    [0.0617, 0.0]
    """
    alpha = real_number(alpha, "alpha", least=1)
    return _entmax_loss(finite_rows(x, axis, where), target, alpha)


@operator
def sparsemax_loss(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The Fenchel-Young loss of sparsemax; its gradient is sparsemax minus target.

    For one class it is
    :math:`\tfrac12-x_t+\tfrac12\sum_{i\in S}(x_i^2-\lambda^2)`, with the threshold
    :math:`p=[x-\lambda]_+` and the support S.

    Parameters
    ----------
    x, target, axis, where
        As in `cross_entropy`.

    Returns
    -------
    array or scalar
        One loss for each row; at least 0, and 0 for one class where it leads by 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    entmax_loss : of which this is :math:`\alpha=2`; cost and accuracy as there.

    References
    ----------
    Claims B51 to B53; A. Martins, R. Astudillo, "From softmax to sparsemax", ICML 2016.

    Examples
    --------
    >>> from softtopk.losses import sparsemax_loss
    >>> sparsemax_loss([[0.5, 0.0], [1.0, 0.0], [0.0, 3.0]], [0, 0, 0]).tolist()
    [0.0625, 0.0, 3.0]
    """
    return _entmax_loss(finite_rows(x, axis, where), target, 2.0)


@operator
def potential(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The potential V of a curve, a smooth sum of the k largest scores.

    :math:`V(x)=\min_l[kl+\tau\sum_iF((x_i-l)/\tau)]`: convex, with gradient
    ``soft_topk(x, k)`` and derivative by k the threshold.  Without the curve, with
    :math:`[x_i-l]_+` for its smooth form, the minimum is the top-k sum.

    Parameters
    ----------
    x, k, curve, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    array or scalar
        One number for each row, of the shape of `x` without `axis` or of its broadcast
        against `k`, in the units of the scores.

    Raises
    ------
    TypeError, ValueError
        As in `soft_topk`.
    NotImplementedError
        If the curve does not define `potential`.

    Notes
    -----
    The cost of `soft_topk` and a pass of the curve's potential.

    References
    ----------
    Results N-10, N-11.

    Examples
    --------
    >>> from softtopk.losses import potential
    >>> float(potential([1.0, 1.0], 1, "exp").round(6))  # 1 + log(2), and 2 F(-log 2)
    2.693147
    >>> float(potential([4.0, 2.0, 1.0], 2, "clip").round(6))
    5.0
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    # V(c x) at the temperature c tau is c V(x): sums must not leave the range.
    peak = float(np.abs(rows.x).max(where=rows.x > -np.inf, initial=0))
    c = 2.0**-200 if max(peak, tau) > 2.0**900 else 1.0
    scores, tau = c * _double(rows.x), max(c * tau, 5e-324)
    found, u = _distances(curve, rows._replace(x=scores), tau)
    active = u > -np.inf
    with np.errstate(all="ignore"):
        whole = found.offset == -np.inf
        anchor = np.where(np.isfinite(found.offset), found.anchor, 0)
        offset = np.where(np.isfinite(found.offset), found.offset, 0)
        # The scores are summed where all of them are selected.
        terms = np.where(active, curve.potential(np.where(active, u, 0)), 0)
        value = rows.k * anchor + tau * (rows.k * offset + terms.sum(axis=-1))
        if whole.any():
            full = np.where(scores > -np.inf, scores, 0).sum(axis=-1)
            full -= tau * rows.k * float(curve.regulariser(1.0))
            value = np.where(whole, full, value)
        far = ~np.isfinite(value)
        if far.any():  # so many temperatures apart that these make no difference
            value[far] = top_k_sum(scores[far], rows.k[far])
        threshold = found.anchor / c + tau / c * found.offset
        return _loss(rows, value / c, lambda: found.p, threshold)


@operator
def top_k_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike = 1,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The Fenchel-Young loss of a smooth top-k selection.

    :math:`V(x)-x\cdot t+\tau\sum_i\varphi(t_i)` with the curve's `potential` V and
    regulariser :math:`\varphi`; its gradient is ``soft_topk(x, k) - t``.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.
    target : array_like
        Shares in [0, 1] of the shape of `x` that sum to k, such as the indicator of k
        right answers; for k = 1 also class indices of the shape of `x` without `axis`.
    k, curve, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    array or scalar
        One loss for each row, in the units of the scores, of the shape of `x` without
        `axis`; at least 0, and 0 only where the selection equals the target.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.
    NotImplementedError
        If the curve does not define `potential`.

    Notes
    -----
    The cost of `soft_topk` and of a pass of the curve's functions.  Any curve but
    the named ones and entmax is evaluated as :math:`F(u)+\varphi(t)-tu`, which near 0
    is right to a few units of 1e-16 only.

    References
    ----------
    Result N-25.

    Examples
    --------
    >>> import softtopk as stk
    >>> from softtopk.losses import top_k_loss
    >>> x, target = [3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0]
    >>> float(top_k_loss(x, target, 2).round(4))
    1.8297
    >>> stk.linearize(top_k_loss, x, target, 2).vjp(1.0).round(4).tolist()
    [-0.1116, -0.6967, 0.6967, 0.1116]
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    t = _target(rows, target, rows.k)
    found, u = _distances(curve, rows, tau)
    # With nothing or everything to select there is nothing to lose.
    free = np.isfinite(found.offset)
    value = np.where(free, tau * _total_gap(curve, u, t), 0)
    return _loss(rows, value, lambda: np.where(free[:, None], found.p - t, 0))


@operator
def stop_gradient_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike = 1,
    curve: str | Curve = "exp",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The number :math:`\operatorname{sg}(p-t)\cdot x` with gradient :math:`p-t`.

    The stop-gradient sg keeps p, the shares of `soft_topk`, constant under
    differentiation.  Only the gradient has a meaning; the value has any sign and is
    not a measure of fit.  The other way round, :math:`(p-t)\cdot\operatorname{sg}(x)`
    has the gradient :math:`J\,x`, which vanishes at :math:`x=0`.

    Parameters
    ----------
    x, target, k, curve, temperature, axis, where
        As in `top_k_loss`; with the default curve p is `softmax`.

    Returns
    -------
    array or scalar
        One number for each row, of the shape of `x` without `axis` or of its broadcast
        against `k`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    top_k_loss : the loss with this gradient.

    Notes
    -----
    The cost of `soft_topk`.

    References
    ----------
    Claims B64, B65.

    Examples
    --------
    >>> import softtopk as stk
    >>> from softtopk.losses import stop_gradient_loss
    >>> lin = stk.linearize(stop_gradient_loss, [0.0, 0.0, 0.0], 0)
    >>> float(lin.value), lin.vjp(1.0).round(4).tolist()
    (0.0, [-0.6667, 0.3333, 0.3333])
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    t = _target(rows, target, rows.k)
    found, _ = _distances(curve, rows, tau)
    gradient = found.p - t
    # p - t sums to 0, so the largest score may be taken off.
    top = np.where(rows.finite > 0, rows.x.max(axis=-1), 0)
    with np.errstate(over="ignore"):
        value = _sum_where(gradient, _double(rows.x) - top[:, None])
    return _loss(rows, value, lambda: gradient)


def _loss(
    rows: Rows, value: Array, gradient: Callable[[], Array], dk: Array | None = None
) -> Differentiable[Any]:
    """One number for each row, and its derivative from the gradients ``(R, n)``."""

    def reduce(column: Array) -> Any:
        with np.errstate(over="ignore"):
            return rows.reduce(column.astype(rows.x.dtype))

    out = reduce(value + 0.0)  # no -0

    def derivative() -> Linearization:
        with np.errstate(over="ignore"):
            slope = gradient().astype(rows.x.dtype, copy=False)
        by_k = None if dk is None else reduce(dk)
        return Linearization.gradient(out, rows, slope, by_k)

    return out, derivative


def _entmax_loss(rows: Rows, target: ArrayLike, alpha: float) -> Differentiable[Any]:
    t = _target(rows, target)
    scores = _double(rows.x)
    if alpha == 1:
        curve = EXP
        u, _ = log_shares(scores, 1.0)
        p = np.exp(u)
    else:
        b = alpha - 1
        p, m = entmax_shares(scores, b)
        # The largest score is at the distance where the curve is m.
        if b == 1:
            curve, first = CLIP, m
        else:
            curve = Entmax(alpha)
            first = np.expm1(b * np.log(m)) / b
        with np.errstate(over="ignore"):
            u = scores - scores.max(axis=-1, keepdims=True) + first[:, None]
    return _loss(rows, _total_gap(curve, u, t), lambda: p - t)


def _double(x: Array) -> Array:
    """Scores as float64: a loss is worth the digits that its scores determine."""
    return x.astype(np.float64, copy=False)


def _sum_where(weight: Array, values: Array) -> Array:
    """The rows' sums of weight * values, 0 where the weight is 0."""
    product = np.zeros_like(values)
    np.multiply(weight, values, out=product, where=weight != 0)
    return product.sum(axis=-1)


def _distances(curve: Curve, rows: Rows, tau: float) -> tuple[Solution, Array]:
    """Solution and distances u = (x - lambda)/tau, -inf where x is -inf."""
    rows = rows._replace(x=_double(rows.x))
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
        u = (rows.x - found.anchor[:, None]) / tau - found.offset[:, None]
    u[rows.x == -np.inf] = -np.inf
    return found, u


def _total_gap(curve: Curve, u: Array, t: Array) -> Array:
    """The rows' sums of F(u) + phi(t) - t u."""
    finite = np.isfinite(u)
    with np.errstate(all="ignore"):
        gap = curve.gap(np.where(finite, u, 0), t)
        gap = np.where(finite, gap, np.where(t == (u > 0), 0, np.inf))
        # Each gap is at least 0; what is below is rounding.
        return np.maximum(gap, 0).sum(axis=-1)


def _target(
    rows: Rows, target: ArrayLike, k: Array | None = None, *, shares: bool = True
) -> Array:
    """The target as shares (R, n) of float64 that sum to k, by default to 1."""
    given = np.asarray(target)
    n = rows.x.shape[1]
    batch = without(rows.input_shape, rows.axes)
    budget = np.ones(len(rows.x)) if k is None else k
    if given.shape in (batch, rows.batch) and given.dtype.kind in "iu":
        if (budget != 1).any():
            raise ValueError(
                f"target must hold shares where k is not 1, got class indices and "
                f"k = {budget[budget != 1][0]}"
            )
        index = np.broadcast_to(given, rows.batch).reshape(-1, 1)
        bad = (index < 0) | (index >= n)
        if bad.any():
            raise ValueError(
                f"target must hold class indices in [0, {n - 1}], got {index[bad][0]}"
            )
        t = np.zeros(rows.x.shape)
        np.put_along_axis(t, index.astype(np.intp), 1, axis=-1)
    elif shares and given.shape in (rows.input_shape, rows.shape):
        t = _double(rows.flatten(given, "target"))
        if not ((t >= 0) & (t <= 1)).all():
            bad_share = float(t[~((t >= 0) & (t <= 1))][0])
            raise ValueError(f"target must hold shares in [0, 1], got {bad_share}")
        total = t.sum(axis=-1)
        # Shares that were rounded to float32 are accepted.
        off = np.abs(total - budget) > n * np.finfo(np.float32).eps
        if off.any():
            raise ValueError(
                f"target must sum to {budget[off][0]:g} in every row, "
                f"got {total[off][0]:g}"
            )
    else:
        kinds = f"class indices of shape {batch}"
        if shares:
            kinds += f" or shares of shape {rows.input_shape}"
        raise ValueError(
            f"target must hold {kinds}, got shape {given.shape} of dtype {given.dtype}"
        )
    if (t[rows.x == -np.inf] > 0).any():
        raise ValueError("target must be 0 where x takes no part (-inf or where=False)")
    return t
