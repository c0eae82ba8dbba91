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
an entry that takes no part (-inf, or left out by `where`) is an error, and so is a row
without an entry that takes part, unless nothing is to be selected from it.  The losses
of a batch come back one for each row, or as their mean or sum by `reduction`; rows
whose class index is `ignore_index` do not count.  Their gradient comes through
`softtopk.linearize`.

Derived in *distributions/softmax*, *distributions/relatives*,
*distributions/losses*, *selection/family*, *selection/losses* and
*selection/subsets*.
"""

# The shares in these gradients can be differentiated any number of times.  So no
# library differentiates through the sums of a loss.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._contract import Adapter
from .._rows.adapter_rows import (
    FAR_SHARE,
    Rows,
    as_given,
    checked,
    finite_rows,
    scores,
    truncated_rows,
)
from .._rows.namespace import is_nan
from .._rows.numpy_rows import (
    as_column,
    as_real,
    check_unmasked,
    real_number,
    without_axes,
)
from .._search import polynomials
from .._search.root import distances
from ..curves import CLIP, EXP, Curve, Entmax, resolve
from .entmax_alpha import checked_alpha, entmax_law, entropy
from .hard_body import hard
from .selection_body import of_checked
from .simplex_body import logits
from .subset_body import subset_sum

__all__ = [
    "am_softmax_loss",
    "cross_entropy",
    "entmax_loss",
    "in_top_k_loss",
    "potential",
    "sparse_softmax_loss",
    "sparsemax_loss",
    "stop_gradient_loss",
    "top_k_loss",
]

_ORDERS = {1.0: EXP, 1.5: Entmax(1.5), 2.0: CLIP}
"""The curves of entmax that need not be made anew for each call."""


def cross_entropy(
    xp: Adapter,
    x: Any,
    target: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""Cross entropy :math:`-\sum_it_i\log p_i` of a target and ``softmax(x)``.

    Parameters
    ----------
    x : array
        Scores, finite or -inf, with at least one finite entry in every row.
    target : array
        Class indices of the shape of `x` without `axis`, or shares of the shape of
        `x` that sum to 1.
    axis : int, tuple of int, or None
        The axis of the classes; of several a class index counts the entries in C order,
        None means all.
    where : array of bool, optional
        Entries that take part.
    ignore_index : int, optional
        A class index, of any value, that marks a row which does not count: its loss and
        its gradient are 0.  PyTorch's is -100; here none is, unless it is given.  For
        class indices only.
    reduction : "none", "mean" or "sum"
        One loss for each row, or their mean or sum over all rows.  The mean is over the
        rows that count; without one it is NaN, with gradient 0, as in PyTorch.
    check
        As in `soft_topk`.

    Returns
    -------
    array
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
    rows = finite_rows(xp, x, 1.0, axis, where, check)
    t, end = _target(xp, rows, x, target, check, ignore_index, reduction)
    return _log_loss(xp, rows, t, end, rows.x, rows.tau)


def am_softmax_loss(
    xp: Adapter,
    scores: Any,
    target: Any,
    margin: float,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""Cross entropy that wants the target's score ahead by a margin.

    :math:`-\log p_t` for the softmax of :math:`(x-m\,\mathrm{onehot}(t))/\tau`.

    Parameters
    ----------
    scores : array
        As in `cross_entropy`; often cosines, in [-1, 1].
    target : array of int
        Class indices, of the shape of `scores` without `axis`.
    margin : float
        m, at least 0, in the units of the scores.
    temperature : number or array
        :math:`\tau>0`, one for all or one a row.
    axis, where, ignore_index, reduction, check
        As in `cross_entropy`.

    Returns
    -------
    array
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
    margin = real_number(margin, "margin", least=0)
    rows = finite_rows(xp, scores, temperature, axis, where, check, "scores")
    how = ignore_index, reduction
    t, end = _target(xp, rows, scores, target, check, *how, shares=False)
    return _log_loss(xp, rows, t, end, rows.x - margin * t, rows.tau)


def sparse_softmax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    k: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""The loss :math:`\log\sum_{i\in\Omega_k}e^{x_i}-x\cdot t` of sparse softmax.

    :math:`\Omega_k` holds the k largest scores.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction, check
        As in `cross_entropy`.
    k : whole number or array of them
        At least 1 and at most the number of finite entries; an array broadcasts against
        `x` without `axis`.  It has no derivative.

    Returns
    -------
    array
        One loss for each row; at least 0.  It is :math:`-\log p_t` with
        ``p = sparse_softmax(x, k)`` if the target is among the k largest and the next
        score is smaller, and goes on as a continuous convex function where it is not
        and :math:`p_t=0`.

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
    rows = truncated_rows(xp, x, k, 1.0, axis, where, check)
    how = ignore_index, reduction
    t, end = _target(xp, rows, x, target, check, *how, total=1 + 0 * rows.whole)
    weight = xp.detach(hard(xp, rows, k, check))
    return _log_loss(xp, rows, t, end, rows.x, rows.tau, weight)


def entmax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    alpha: Any = 1.5,
    *,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""The Fenchel-Young loss of entmax; its gradient is entmax minus target.

    :math:`\max_p[p\cdot x+H_\alpha(p)]-t\cdot x-H_\alpha(t)`, with
    :math:`H_\alpha(p)=(1-\sum_ip_i^\alpha)/(\alpha(\alpha-1))`.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction, check
        As in `cross_entropy`.
    alpha : number
        Above 0.  At 1 the loss is the relative entropy of the target and softmax: for
        one class, `cross_entropy`.  On PyTorch and JAX also an array, which has a
        derivative, as in `entmax`; the error of the loss is then a few units in the
        last place of the scores, as for a number below 1.

    Returns
    -------
    array
        One loss for each row; at least 0, and 0 only where entmax equals the target:
        for one class, where it leads by :math:`1/(\alpha-1)`; up to :math:`\alpha=1`
        at no lead.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    Cost and accuracy of the shares as in `entmax`; the loss is a minimum over the
    threshold, so the threshold's rounding does not reach it at first order.  Below
    :math:`\alpha=1` the error grows like :math:`1/\alpha`, as the entropy does.

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
    array = xp.is_array(alpha) and xp.has_derivatives
    alpha = alpha if array else real_number(alpha, "alpha", above=0)
    rows = finite_rows(xp, x, 1.0, axis, where, check)
    if array or (alpha < 1 and xp.has_derivatives):
        alpha, rows = checked_alpha(xp, alpha, rows, check)
        goal, end = _target(xp, rows, x, target, check, ignore_index, reduction)
        return _order_loss(xp, rows, alpha, goal, end)
    curve = _ORDERS.get(alpha) or Entmax(alpha)
    goal, end = _target(xp, rows, x, target, check, ignore_index, reduction)
    return _gap_loss(xp, curve, rows, goal, end, check)


def sparsemax_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    *,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""The Fenchel-Young loss of sparsemax; its gradient is sparsemax minus target.

    For one class it is
    :math:`\tfrac12-x_t+\tfrac12\sum_{i\in S}(x_i^2-\lambda^2)`, with the threshold
    :math:`p=[x-\lambda]_+` and the support S.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction, check
        As in `cross_entropy`.

    Returns
    -------
    array
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
    given: dict[str, Any] = {"axis": axis, "where": where, "check": check}
    given |= {"ignore_index": ignore_index, "reduction": reduction}
    return entmax_loss(xp, x, target, 2.0, **given)


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

    :math:`V(x)=\min_l[kl+\tau\sum_iF((x_i-l)/\tau)]`: convex, with gradient
    ``soft_topk(x, k)`` and derivative by k the threshold; that by the temperature, on
    PyTorch and JAX, is :math:`-\sum\varphi(p_i)`.  Without the curve, with
    :math:`[x_i-l]_+` for its smooth form, the minimum is the top-k sum.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, check
        As in `soft_topk`.

    Returns
    -------
    array
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
    curve = resolve(curve)
    rows = checked(xp, x, k, temperature, axis, where, check)
    p, a, t, finite_t, off, u = _solved(xp, curve, rows, check)
    tau, part = xp.detach(rows.tau), xp.detach(rows.part)
    q = xp.astype(rows.whole, part.dtype) + part
    large = 2.0**63
    near, x = abs(u) < large, xp.detach(rows.x)
    v = xp.where(near, u, 0)
    area = xp.sum(xp.where(near, curve.potential(v), 0), axis=-1)
    # For a large u the potential, the integral of f up to u, equals u after rounding.
    # The sum of these u could overflow, so tau u = x - lambda is summed instead, and
    # lambda is added as often as it is subtracted.
    # If these are all that the budget selects, their sum is the result, however far
    # away the threshold is.
    over = u >= large
    rest = q - xp.astype(xp.sum(over, axis=-1), q.dtype)
    sum_over = xp.sum(xp.where(over, x, 0), axis=-1)
    value = rest * a + tau * (rest * off + area) + sum_over
    all_finite = xp.looks(rows.x, check) and bool(finite_t.all())
    entropy_of_all = 0 if all_finite else -q * curve.regulariser(xp.ones_like(a))
    if not all_finite:
        held = xp.sum(xp.where(p > 0, x, 0), axis=-1)
        full = xp.where(t == -math.inf, held + tau * entropy_of_all, 0)
        value = xp.where(is_nan(t), math.nan, xp.where(finite_t, value, full))

    def entropy() -> Any:
        """The derivative by the temperature, with a derivative by x attached."""
        inner = area - xp.sum(xp.where(near, xp.detach(p) * v, 0), axis=-1)
        inner = xp.where(t == -math.inf, entropy_of_all, xp.where(finite_t, inner, 0))
        return xp.attach(inner, {"x": (p, lambda: -v)})

    by = {"x": (rows.x, lambda: p), "k": (rows.part, lambda: a + rows.tau * t)}
    return _loss(xp, rows, value, {**by, "tau": (rows.tau, entropy)})


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
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""The Fenchel-Young loss of a smooth top-k selection.

    :math:`V(x)-x\cdot t+\tau\sum_i\varphi(t_i)` with the curve's `potential` V and
    regulariser :math:`\varphi`; its gradient is ``soft_topk(x, k) - t``.

    Parameters
    ----------
    x : array
        Scores, finite or -inf.
    target : array
        Shares in [0, 1] of the shape of `x` that sum to k, such as the indicator of k
        right answers; for k = 1 also class indices of the shape of `x` without `axis`.
    k, curve, temperature, axis, where, check
        As in `soft_topk`.
    ignore_index, reduction
        As in `cross_entropy`.

    Returns
    -------
    array
        One loss for each row, in the units of the scores, of the shape of `x` without
        `axis`; at least 0, and 0 only where the selection equals the target.  On
        PyTorch and JAX it has derivatives by `x` and `temperature`.

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
    curve = resolve(curve)
    rows = checked(xp, x, k, temperature, axis, where, check)
    goal, end = _target(xp, rows, x, target, check, ignore_index, reduction)
    return _gap_loss(xp, curve, rows, goal, end, check)


def in_top_k_loss(
    xp: Adapter,
    x: Any,
    target: Any,
    k: Any = 5,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""A loss for "the class is among the first k": top-5 accuracy, for example.

    :math:`-\log p_y` with ``p = grad_topk(x, k, temperature=temperature)``, the
    probability that the random k-subset contains the class y; for k = 1 and temperature
    1 it is `cross_entropy`.

    Parameters
    ----------
    x : array
        Scores, finite or -inf.
    target : array of int
        Class indices, of the shape of `x` without `axis`.
    k : whole number or array of them
        At least 1 and at most the number of finite entries; an array broadcasts against
        `x` without `axis`.  It has no derivative.
    temperature : number or array
        :math:`\tau>0`, one for all or one a row.  As it falls, :math:`\tau` times
        the loss approaches how far the score of the class is below the k-th largest of
        the others, and 0 if it is above it.
    axis, where, ignore_index, reduction, check
        As in `cross_entropy`.

    Returns
    -------
    array
        One loss for each row, in nats, of the shape of `x` without `axis`; at least 0,
        and 0 where k takes all entries.  Gradient: :math:`(p-q)/\tau`, with q the
        shares of the subsets that contain the class.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    top_k_loss : for k right classes in a row.

    Notes
    -----
    Which loss for top-5 accuracy?  Take `cross_entropy` first.  On both tasks of the
    recipe *top-5* this loss was behind it; take it only where it is ahead on held-out
    rows of your own.

    O(nk) for k up to 8, about three times the time of `cross_entropy` at k = 5, as long
    as the numbers of subsets fit: in float32 :math:`k\log n<44`, which at n = 1000
    holds up to k = 6.  For larger k, or k given row by row, the cost of `grad_topk`
    twice.  The loss is
    :math:`\log(1+e^c)`, where :math:`\tau c` is the smoothed k-th largest of the other
    scores, :math:`\tau\log(e_k/e_{k-1})`, less the score of the class; a loss near 0
    keeps its digits.  For those k the error of c is a few units of
    :math:`\varepsilon(1+d)`, d the distance in temperatures from the class to the k-th
    largest other score plus the mean distance of the entries that decide, whatever the
    size of the scores is (*computing/marginals*).  For k of 2 and more the loss is
    not convex: a convex loss that is near 0 wherever the class is among the first two
    is near 0 everywhere.  Where the k likeliest classes are likelier than the others,
    scores along which the mean loss falls to its infimum rank them first in the end; a
    minimum need not exist.

    References
    ----------
    *selection/subsets*; L. Berrada, A. Zisserman, M. P. Kumar, "Smooth loss
    functions for deep top-k classification", ICLR 2018: their loss without a margin.

    Examples
    --------
    >>> from softtopk.losses import in_top_k_loss
    >>> x = [[9.0, 8.0, 7.0, 0.0], [9.0, 8.0, 7.0, 0.0]]
    >>> in_top_k_loss(x, [2, 3], 3).round(4).tolist()
    [0.0009, 6.5938]
    >>> in_top_k_loss(x, [2, 3], 1).round(4).tolist()
    [2.4077, 9.4077]
    """
    rows = truncated_rows(xp, x, k, temperature, axis, where, check)
    how = ignore_index, reduction
    given = {"shares": False, "total": 1 + 0 * rows.whole}
    t, end = _target(xp, rows, x, target, check, *how, **given)
    chosen = t > 0
    own = xp.sum(xp.where(chosen, rows.x, 0), axis=-1)
    others = xp.where(chosen, -math.inf, rows.x)
    quick = polynomials.applies(xp, k, others)
    logit = _by_polynomials if quick else _by_sums
    c, slope, by_tau = logit(xp, rows, k, t, own, others)
    fixed = xp.detach(c)
    value = xp.clip(fixed, 0, None) + xp.log1p(xp.exp(-abs(fixed)))
    by = {
        "x": (rows.x, lambda: (xp.sigmoid(c) / rows.tau)[..., None] * slope()),
        "tau": (rows.tau, lambda: xp.sigmoid(c) * by_tau()),
    }
    return _loss(xp, rows, value, by, end)


_Logit = tuple[Any, Callable[[], Any], Callable[[], Any]]
"""log of (1 - p) / p for the share p of a class, and its slopes by x / tau and tau.

Where the logarithm is -inf, the slopes by x / tau have no meaning.
"""


def _by_polynomials(
    xp: Adapter, rows: Rows, k: int, t: Any, own: Any, others: Any
) -> _Logit:
    """The logit of a class among few, by one pass over the other scores."""
    tau = rows.tau
    log, _, slopes = polynomials.quotient(xp, k, others, own, tau)
    found: list[Any] = []  # torch.compile cannot trace functools.cache

    def once() -> Any:
        if not found:
            found.append(slopes())
        return found[0]

    def by_tau() -> Any:
        away = rows.x - own[..., None]
        moved = xp.where(xp.isfinite(away), once() * away, 0)
        return -xp.sum(moved, axis=-1) / (tau * tau)

    return log, lambda: once() - t, by_tau


def _by_sums(xp: Adapter, rows: Rows, k: Any, t: Any, own: Any, others: Any) -> _Logit:
    """The logit of a class among any number, from two sums over subsets."""
    tau = rows.tau
    others = others - own[..., None]
    # What is so far above the class is in every subset, and would hide the others.
    sure = others > 2.0**63 * as_column(tau)
    first = xp.sum(sure, axis=-1)
    first = xp.where(first < rows.whole, first, 0)
    others = xp.where(sure & (first > 0)[..., None], -math.inf, others)
    size = rows.whole - first
    all_fit = size > xp.sum(others > -math.inf, axis=-1)
    # The k-th largest of the others, smoothed, less the score of the class.
    sizes = xp.where(all_fit, 0, size), size - 1
    sums = [subset_sum(xp, rows._replace(x=others, whole=v)) for v in sizes]
    (upper, p, entropy), (lower, q, rest) = sums
    c = xp.where(all_fit, -math.inf, (upper - lower) / tau)

    def by_x() -> Any:
        return xp.where(all_fit[..., None], 0, p - q - t)

    def by_tau() -> Any:
        slope = (entropy() - rest() - xp.where(all_fit, 0, c)) / tau
        return xp.where(all_fit, 0, slope)

    return c, by_x, by_tau


def _order_loss(xp: Adapter, rows: Rows, alpha: Any, goal: Any, end: _End) -> Any:
    r"""The loss of entmax of order alpha, from its shares.

    With b = alpha - 1 and the terms :math:`e_i=p_i(p_i^b-1)/b=p_i(y_i-s)` of the
    entropy, the potential is :math:`s+(b\sum_ie_i+\sum_ip_i-1)/\alpha`, of which the
    threshold s is a stationary point.  No share is multiplied by its score, so that
    nothing is lost where a share underflows or a distance overflows.
    """
    y = logits(xp, rows.x, rows.tau)
    law = entmax_law(xp, rows, y, alpha - 1)
    log_goal = xp.where(goal > 0, xp.log(xp.where(goal > 0, goal, 1)), -math.inf)

    def sums(p: Any, log: Any) -> tuple[Any, Any]:
        """The sum of the entropy's terms, and its derivative by alpha at fixed p."""
        value, slope = entropy(xp, p, log, alpha)
        return xp.sum(value, axis=-1), xp.sum(slope, axis=-1)

    def by_alpha() -> Any:
        pairs = zip(sums(goal, log_goal), sums(law.p, law.log), strict=True)
        value, slope = (one - other for one, other in pairs)
        return (slope - value / alpha) / alpha

    p, log, s = (xp.detach(v) for v in law)
    ours, b = sums(p, log)[0], alpha - 1
    value = s + (b * ours + (xp.sum(p, axis=-1) - 1)) / alpha
    # A finite score may be infinitely far away; a target there costs infinity.
    height = xp.where(rows.x > -math.inf, xp.detach(y), 0)
    linear = xp.sum(xp.where(goal > 0, goal * height, 0), axis=-1)
    value = xp.detach(value + sums(goal, log_goal)[0] / alpha - linear)
    by = {"x": (rows.x, lambda: law.p - goal), "tau": (alpha, by_alpha)}
    return _loss(xp, rows, xp.clip(value, 0, None), by, end)


def _gap_loss(
    xp: Adapter, curve: Curve, rows: Rows, goal: Any, end: _End, check: bool | None
) -> Any:
    """The loss of each row: the sum over its entries of the curve's gap to the goal."""
    p, a, t, finite_t, _, u = _solved(xp, curve, rows, check)
    near = xp.isfinite(u)
    v = xp.where(near, u, 0)
    gap = xp.clip(curve.gap(v, goal), 0, None)  # below 0 only by rounding
    right = xp.where(u > 0, goal == 1, goal == 0)
    end_gap = xp.zeros_like(gap)  # where a distance overflows
    if isinstance(curve, Entmax) and curve.b < 0:  # falls like a power of the distance
        end_gap = _beyond(xp, curve, rows, a)
    gap = xp.where(near, gap, xp.where(right, end_gap, math.inf))
    # With k = 0 or k = n, shares and target are the same and the loss is 0.
    total = xp.where(finite_t, xp.sum(gap, axis=-1), xp.where(is_nan(t), t, 0))

    def rest() -> Any:
        other = xp.where(is_nan(t)[..., None], p, 0)
        return xp.where(finite_t[..., None], p - goal, other)

    def slope() -> Any:
        """The derivative by the temperature, with a derivative by x attached."""
        inner = xp.sum(xp.detach(rest()) * v, axis=-1)
        return xp.attach(total - xp.where(finite_t, inner, 0), {"x": (p, lambda: -v)})

    by = {"x": (rows.x, rest), "tau": (rows.tau, slope)}
    return _loss(xp, rows, xp.detach(rows.tau) * total, by, end)


def _beyond(xp: Adapter, curve: Entmax, rows: Rows, anchor: Any) -> Any:
    """The gaps of entmax below alpha = 1 to a target of 0, from half the distance."""
    on = rows.x > -math.inf
    half = 0.5 * xp.where(on, rows.x, 0) - 0.5 * xp.detach(anchor)[..., None]
    half = xp.clip(half, None, -1)
    gap = 2.0 ** (curve.alpha / curve.b) * curve.gap(half, xp.zeros_like(half))
    return xp.where(on, gap, 0)


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
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Any:
    r"""The number :math:`\operatorname{sg}(p-t)\cdot x` with gradient :math:`p-t`.

    The stop-gradient sg keeps p, the shares of `soft_topk`, constant under
    differentiation.  Only the gradient has a meaning; the value has any sign and is
    not a measure of fit.  The other way round, :math:`(p-t)\cdot\operatorname{sg}(x)`
    has the gradient :math:`J\,x`, which vanishes at :math:`x=0`.

    Parameters
    ----------
    x, target, k, curve, temperature, axis, where, check
        As in `top_k_loss`; with the default curve p is `softmax`.
    ignore_index, reduction
        As in `cross_entropy`.

    Returns
    -------
    array
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
    curve = resolve(curve)
    rows = checked(xp, x, k, temperature, axis, where, check)
    goal, end = _target(xp, rows, x, target, check, ignore_index, reduction)
    p, _, _ = of_checked(xp, curve, rows, check, True)
    gradient, scores = p - goal, xp.detach(rows.x)
    top = xp.max(scores, axis=-1)[..., None]
    none = FAR_SHARE * float(xp.finfo(top.dtype).tiny)
    height = xp.where(abs(xp.detach(gradient)) > none, scores - top, 0)
    value = xp.sum(xp.detach(gradient) * height, axis=-1)
    return _loss(xp, rows, value, {"x": (rows.x, lambda: gradient)}, end)


class _End(NamedTuple):
    """How the losses of the rows are reduced.

    Attributes
    ----------
    reduction : "none", "mean" or "sum"
    keep : (...) array of bool, or None
        The rows that are not ignored; None if no row is.
    """

    reduction: str = "none"
    keep: Any = None


_EVERY = _End()


def _loss(
    xp: Adapter, rows: Rows, value: Any, by: dict[str, Any], end: _End = _EVERY
) -> Any:
    """The losses with the given slopes attached, reduced as `end` says; never -0."""
    if not xp.own_rows:
        rows = rows._replace(dtype=xp.loss_type(rows.dtype, rows.x))
    value, keep = value + 0.0, end.keep
    if keep is not None:
        pairs = by.items()
        by = {name: (v, _unless_ignored(xp, keep, f)) for name, (v, f) in pairs}
    value = xp.attach(value, by)
    value, rows = rows.spoil(xp, value), rows.spoilt()
    if keep is not None:
        value = xp.where(keep, value, 0)
    if end.reduction == "none":
        return rows.reduce(xp, value)
    if end.reduction == "sum":
        return rows.total(xp, value, 1)
    count = (xp.ones_like(value) > 0 if keep is None else keep).sum()
    mean = rows.total(xp, value, xp.clip(count, 1, None))
    return xp.where(count > 0, mean, math.nan)[()]


def _unless_ignored(
    xp: Adapter, keep: Any, slope: Callable[[], Any]
) -> Callable[[], Any]:
    """The slope, with 0 for the rows that are ignored."""

    def kept() -> Any:
        found = slope()
        on = keep[..., None] if found.ndim > keep.ndim else keep
        return xp.where(on, found, 0)

    return kept


def _solved(
    xp: Adapter, curve: Curve, rows: Rows, check: bool | None
) -> tuple[Any, ...]:
    """The selection of the rows, and what a loss needs of it as constants.

    Returns
    -------
    p, a, t
        Shares, anchors and offsets from the search, with their derivatives.
    finite_t
        Whether the offset of each row is finite.
    offset
        The offset without its derivative, 0 where it is not finite.
    u
        The distances of the scores from the threshold, in temperatures, without their
        derivatives; -inf for an entry that takes no part.
    """
    p, a, t = of_checked(xp, curve, rows, check)
    x, anchor, offset, tau = map(xp.detach, (rows.x, a, t, rows.tau))
    finite_t = xp.isfinite(offset)
    offset = xp.where(finite_t, offset, 0)
    u = distances(x, tau, anchor, offset)
    return p, a, t, finite_t, offset, u


def _log_loss(
    xp: Adapter, rows: Rows, t: Any, end: _End, z: Any, tau: Any, weight: Any = None
) -> Any:
    """-log of the target's share of the (weighted) exponentials of z / tau.

    It is the largest score minus the target's, in temperatures, plus log(1 + r), where
    r is the sum of the other exponentials divided by the largest.  Both terms are at
    least 0, so that they do not cancel.
    """
    u = logits(xp, z, tau)
    e = xp.exp(u) if weight is None else weight * xp.exp(u)
    fixed, others = xp.detach(u), xp.detach(e)
    best = xp.indices(z.shape[-1], z) == xp.argmax(fixed)[..., None]
    r = xp.clip(xp.sum(xp.where(best, others - 1, others), axis=-1), 0, None)
    value = xp.sum(xp.where(t > 0, -t * fixed, 0), axis=-1) + xp.log1p(r)

    def rest() -> Any:
        return e / xp.sum(e, axis=-1)[..., None] - t

    def by_tau() -> Any:
        inner = xp.where(xp.isfinite(fixed), u, 0)
        return -xp.sum(rest() * inner, axis=-1) / tau

    by = {"x": (rows.x, lambda: rest() / as_column(tau)), "tau": (tau, by_tau)}
    return _loss(xp, rows, value, by, end)


def _target(
    xp: Adapter,
    rows: Rows,
    x: Any,
    target: Any,
    check: bool | None,
    ignore_index: int | None,
    reduction: str,
    *,
    shares: bool = True,
    total: Any = None,
) -> tuple[Any, _End]:
    """The target as shares (..., n) with the sum `total`, by default the budget of x.

    The shares of an ignored row are 0.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}"
        )
    ignores = ignore_index is not None
    if ignores and not isinstance(ignore_index, (int, np.integer)):
        raise TypeError(f"ignore_index must be an integer, got {ignore_index!r}")
    if xp.is_array(target):
        xp.refuse(target, "target")
    else:
        check_unmasked(target, "target")
    looks = xp.looks(rows.x, check)
    target = xp.replicate(as_given(xp, target, rows.x, "target"), rows.x, "target")
    if not (xp.is_real(target) or target.dtype == xp.bool_):
        as_real(xp.to_numpy(target), "target")
    whole, part = (rows.whole, rows.part) if total is None else (total, 0 * rows.part)
    n, batch = rows.x.shape[-1], rows.batch()
    shape = tuple(scores(xp, x, "x").shape)
    reduced = without_axes(shape, rows.axes)
    integers = xp.is_real(target) and not xp.is_floating(target)
    if integers and tuple(target.shape) in (batch, reduced):
        many = (whole != 1) | (part != 0)
        if looks and bool(many.any()):
            raise ValueError(
                f"target must hold shares where k is not 1, got class indices and "
                f"k = {_first(xp, many, xp.astype(whole, part.dtype) + part)}; a loss "
                "for a class among the first k is in_top_k_loss"
            )
        target, keep = rows.column(xp, target), None
        if ignores:
            target = xp.integers(target, rows.x)
            keep = target != ignore_index
            target = xp.where(keep, target, 0)
        bad = (target < 0) | (target >= n)
        if looks and bool(bad.any()):
            raise ValueError(
                f"target must hold class indices in [0, {n - 1}], "
                f"got {_first(xp, bad, target)}"
            )
        t = xp.indices(n, rows.x) == target[..., None]
        t = xp.astype(t if keep is None else t & keep[..., None], rows.x.dtype)
    elif ignores:
        raise ValueError(
            "ignore_index applies to class indices, of the type of integers and of "
            f"shape {reduced}, got a target of shape {tuple(target.shape)} and dtype "
            f"{target.dtype}"
        )
    elif shares and tuple(target.shape) in (shape, rows.shape()):
        t, keep = rows.flatten(xp, target, "target"), None
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
    t = xp.detach(t)
    if looks and bool(((t > 0) & (rows.x == -math.inf)).any()):
        raise ValueError("target must be 0 where x takes no part (-inf or where=False)")
    return t, _End(reduction, keep)


def _first(xp: Adapter, bad: Any, values: Any) -> Any:
    """The first of the values that are bad."""
    where, values = np.broadcast_arrays(xp.to_numpy(bad), xp.to_numpy(values))
    return values[where][0]
