# Written by tools/frameworks_modules.py from softtopk/_operators.
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

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import differentiable as _differentiable
from ._linearize import Differentiable, operator
from ._operators import losses_body as _losses
from ._rows.numpy_rows import Axis
from .curves import Curve

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


@operator
def am_softmax_loss(
    scores: ArrayLike,
    target: ArrayLike,
    margin: float,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
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
    temperature : number or array
        :math:`\tau>0`, one for all or one a row.
    axis, where, ignore_index, reduction
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
    return _differentiable(
        _losses.am_softmax_loss,
        scores,
        target,
        margin,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def cross_entropy(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
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
    ignore_index : int, optional
        A class index, of any value, that marks a row which does not count: its loss and
        its gradient are 0.  PyTorch's is -100; here none is, unless it is given.  For
        class indices only.
    reduction : "none", "mean" or "sum"
        One loss for each row, or their mean or sum over all rows.  The mean is over the
        rows that count; without one it is NaN, with gradient 0, as in PyTorch.

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
    return _differentiable(
        _losses.cross_entropy,
        x,
        target,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def entmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    alpha: float = 1.5,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Differentiable[Any]:
    r"""The Fenchel-Young loss of entmax; its gradient is entmax minus target.

    :math:`\max_p[p\cdot x+H_\alpha(p)]-t\cdot x-H_\alpha(t)`, with
    :math:`H_\alpha(p)=(1-\sum_ip_i^\alpha)/(\alpha(\alpha-1))`.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction
        As in `cross_entropy`.
    alpha : number
        Above 0.  At 1 the loss is the relative entropy of the target and softmax: for
        one class, `cross_entropy`.  On PyTorch and JAX also an array, which has a
        derivative, as in `entmax`; the error of the loss is then a few units in the
        last place of the scores, as for a number below 1.

    Returns
    -------
    array or scalar
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
    return _differentiable(
        _losses.entmax_loss,
        x,
        target,
        alpha,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def in_top_k_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike = 5,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Differentiable[Any]:
    r"""A loss for "the class is among the first k": top-5 accuracy, for example.

    :math:`-\log p_y` with ``p = grad_topk(x, k, temperature=temperature)``, the
    probability that the random k-subset contains the class y; for k = 1 and temperature
    1 it is `cross_entropy`.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.
    target : array_like of int
        Class indices, of the shape of `x` without `axis`.
    k : whole number or array of them
        At least 1 and at most the number of finite entries; an array broadcasts against
        `x` without `axis`.  It has no derivative.
    temperature : number or array
        :math:`\tau>0`, one for all or one a row.  As it falls, :math:`\tau` times
        the loss approaches how far the score of the class is below the k-th largest of
        the others, and 0 if it is above it.
    axis, where, ignore_index, reduction
        As in `cross_entropy`.

    Returns
    -------
    array or scalar
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
    return _differentiable(
        _losses.in_top_k_loss,
        x,
        target,
        k,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def potential(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The potential V of a curve, a smooth sum of the k largest scores.

    :math:`V(x)=\min_l[kl+\tau\sum_iF((x_i-l)/\tau)]`: convex, with gradient
    ``soft_topk(x, k)`` and derivative by k the threshold; that by the temperature, on
    PyTorch and JAX, is :math:`-\sum\varphi(p_i)`.  Without the curve, with
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
    return _differentiable(
        _losses.potential,
        x,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        scaled=True,
    )


@operator
def sparse_softmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Differentiable[Any]:
    r"""The loss :math:`\log\sum_{i\in\Omega_k}e^{x_i}-x\cdot t` of sparse softmax.

    :math:`\Omega_k` holds the k largest scores.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction
        As in `cross_entropy`.
    k : whole number or array of them
        At least 1 and at most the number of finite entries; an array broadcasts against
        `x` without `axis`.  It has no derivative.

    Returns
    -------
    array or scalar
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
    return _differentiable(
        _losses.sparse_softmax_loss,
        x,
        target,
        k,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def sparsemax_loss(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
) -> Differentiable[Any]:
    r"""The Fenchel-Young loss of sparsemax; its gradient is sparsemax minus target.

    For one class it is
    :math:`\tfrac12-x_t+\tfrac12\sum_{i\in S}(x_i^2-\lambda^2)`, with the threshold
    :math:`p=[x-\lambda]_+` and the support S.

    Parameters
    ----------
    x, target, axis, where, ignore_index, reduction
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
    return _differentiable(
        _losses.sparsemax_loss,
        x,
        target,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def stop_gradient_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike = 1,
    curve: str | Curve = "exp",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
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
    ignore_index, reduction
        As in `cross_entropy`.

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
    return _differentiable(
        _losses.stop_gradient_loss,
        x,
        target,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )


@operator
def top_k_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: ArrayLike = 1,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
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
    ignore_index, reduction
        As in `cross_entropy`.

    Returns
    -------
    array or scalar
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
    return _differentiable(
        _losses.top_k_loss,
        x,
        target,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
    )
