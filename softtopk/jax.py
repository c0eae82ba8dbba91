# Written by tools/frameworks_modules.py from softtopk/_operators.
r"""The operators on JAX arrays, with derivatives of any order by x, k and temperature.

>>> import jax
>>> import softtopk.jax as stk
>>> f = lambda x: (stk.soft_topk(x, 2) ** 2).sum()
>>> jax.hessian(f)(jax.numpy.array([3.0, 1.0, 0.0, 0.0])).shape
(4, 4)

`jit`, `vmap`, `jvp`, `vjp`, `hessian` and any sharding apply: the search is a while
loop over sums along the axis, and scores divided over devices stay where they are.
Outside of transformations values on the CPU are checked, as on NumPy; within
them a row out of range is NaN.  No test of this module has been run on an
accelerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from . import curves as curves
from ._adapters.jax_adapter import ADAPTER as _XP
from ._operators import balance_body as _balance
from ._operators import hard_body as _hard
from ._operators import losses_body as _losses
from ._operators import sampling_body as _sampling
from ._operators import selection_body as _selection
from ._operators import simplex_body as _simplex
from ._operators import sorting_body as _sorting
from ._operators import subset_body as _subset
from .curves import Curve

__all__ = [
    "am_softmax_loss",
    "balanced_topk",
    "cross_entropy",
    "entmax",
    "entmax_loss",
    "grad_topk",
    "in_top_k_loss",
    "log_partition",
    "log_softmax",
    "logsumexp",
    "pair_marginals",
    "potential",
    "sample_shares",
    "sample_topk",
    "sample_topk_st",
    "soft_permutation",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    "softmax",
    "sparse_softmax",
    "sparse_softmax_loss",
    "sparsemax",
    "sparsemax_loss",
    "stop_gradient_loss",
    "subset_log_prob",
    "taylor_softmax",
    "threshold",
    "top_k",
    "top_k_indices",
    "top_k_loss",
    "top_k_st",
    "top_k_sum",
]

Numbers: TypeAlias = float | Sequence[float] | NDArray[np.floating] | ArrayLike
"""A number, or one a row."""

Axis: TypeAlias = int | tuple[int, ...] | None


def am_softmax_loss(
    scores: ArrayLike,
    target: ArrayLike,
    margin: float,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    O(n) per row.  A loss of at most log 2 implies that the target leads by m.

    References
    ----------
    Claims B20, B21; F. Wang et al., "Additive margin softmax for face verification",
    IEEE SPL 2018.
    """
    found: Array = _losses.am_softmax_loss(
        _XP,
        scores,
        target,
        margin,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def balanced_topk(
    S: ArrayLike,
    k: Numbers,
    columns: Numbers | None = None,
    curve: str | Curve = "sigmoid",
    *,
    temperature: Numbers = 1.0,
    axes: tuple[int, int] = (-2, -1),
    where: ArrayLike | None = None,
    rounds: int = 100,
    check: bool | None = None,
) -> Array:
    r"""Smooth selection with two budgets: each row takes k, each column its load.

    Parameters
    ----------
    S : array
        Scores, finite or -inf: a matrix for every index of the axes that `axes` does
        not name.  Those of 16 bits are calculated with in float32.
    k : number or array
        What the shares of a row sum to; it broadcasts to one for each row,
        ``(..., m)``.
    columns : array, optional
        What the shares of a column sum to, likewise ``(..., n)``; with the same total
        as `k`, to which it is scaled beyond rounding.  By default equal loads.
    curve, where, check
        As in `soft_topk`.
    temperature : number or array
        Above 0; one for all or one a matrix.
    axes : (int, int)
        The axis that counts the rows and the axis that counts the columns.
    rounds : int
        The most rounds to take.

    Returns
    -------
    array
        P, of the shape and type of `S`, with derivatives by `S`, `k`, `columns` and
        `temperature`.  Those by budgets are along changes that can be met.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no shares in [0, 1] have these sums.

    Warns
    -----
    RuntimeWarning
        If `rounds` are not enough.  Where nobody looks at the values, a matrix whose
        budgets are not met is NaN, whatever the reason.

    Notes
    -----
    A round costs `soft_topk` of the longer side twice and of the other once, and
    :math:`O(mn\min(m,n))` for Newton's step; so does a derivative.
    """
    found: Array = _balance.balanced_topk(
        _XP,
        S,
        k,
        columns,
        curve,
        temperature=temperature,
        axes=axes,
        where=where,
        rounds=rounds,
        check=check,
    )
    return found


def cross_entropy(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    O(n) per row.  For one class the loss is :math:`(x_{(1)}-x_t)+\log(1+r)`, r what
    the entries other than the largest weigh beside it: both terms are at least 0 and
    have full relative accuracy, at any margin.

    References
    ----------
    Claims B17 to B19; J. Su (2024), https://spaces.ac.cn/archives/10145.
    """
    found: Array = _losses.cross_entropy(
        _XP,
        x,
        target,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def entmax(
    x: ArrayLike,
    alpha: Numbers = 1.5,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Entmax: `softmax` at alpha = 1, `sparsemax` at 2, and all above 0.

    Parameters
    ----------
    alpha : number or array
        Above 0.  An array of this library has a derivative; it is one number, or one a
        row: it broadcasts to the shape of `x` without `axis`.
    x, temperature, axis, where, empty, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.

    Notes
    -----
    For an array, and for a number below 1, the shares and their derivatives, by `alpha`
    too, are right to some 100 units in the last place, up to the third order.  Close to
    alpha = 1 no digits are lost.  Below 1 every share is above 0 and falls like a power
    of the distance to the largest score.
    """
    found: Array = _simplex.entmax(
        _XP,
        x,
        alpha,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def entmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    alpha: Numbers = 1.5,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    Cost and accuracy of the shares as in `entmax`; the loss is a minimum over the
    threshold, so the threshold's rounding does not reach it at first order.  Below
    :math:`\alpha=1` the error grows like :math:`1/\alpha`, as the entropy does.

    References
    ----------
    Claim B63; M. Blondel, A. Martins, V. Niculae, "Learning with Fenchel-Young losses",
    JMLR 2020.
    """
    found: Array = _losses.entmax_loss(
        _XP,
        x,
        target,
        alpha,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def grad_topk(
    x: ArrayLike,
    k: Numbers,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Marginals of the k-subset distribution, the gradient of `log_partition`.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `soft_topk`.
    k : whole number or array of them
        The size of the subset; it has no derivative.

    Returns
    -------
    array
        p, of the shape and type of `x`, between 0 and 1, with sum k.

    Notes
    -----
    Every entry meets up to 27 nodes of a circle (13 in float32).  The gradient meets
    them again instead of keeping what the forward pass computed.  PyTorch hands scores
    on the CPU to NumPy, which takes a block of rows at a time; elsewhere, and for
    derivatives of second order, an array with a number for each entry and node may
    take up to so many times the memory of `x`, unless a compiler avoids it.
    """
    found: Array = _subset.grad_topk(
        _XP,
        x,
        k,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def in_top_k_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: Numbers = 5,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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
    """
    found: Array = _losses.in_top_k_loss(
        _XP,
        x,
        target,
        k,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def log_partition(
    x: ArrayLike,
    k: Numbers,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    r"""The smoothed sum of the k largest scores, :math:`\tau\log Z_k(x/\tau)`.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array
        One number a row.
    """
    found: Array = _subset.log_partition(
        _XP, x, k, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def log_softmax(
    x: ArrayLike,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """Logarithm of `softmax`, also where a share would underflow or round to 1.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        Of the shape and type of `x`; -inf for entries that take no part, which have
        the derivative 0.
    """
    found: Array = _simplex.log_softmax(
        _XP, x, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def logsumexp(
    x: ArrayLike,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    r"""The smooth maximum :math:`\tau\log\sum_je^{x_j/\tau}`; its gradient is softmax.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `softmax`.

    Returns
    -------
    array
        One number a row, in the units of the scores.
    """
    found: Array = _simplex.logsumexp(
        _XP, x, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def pair_marginals(
    x: ArrayLike,
    k: Numbers,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """Probabilities that the random k-subset contains both i and j.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array, (..., n, n)
        With the marginals on the diagonal; the batch comes first.
    """
    found: Array = _subset.pair_marginals(
        _XP, x, k, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def potential(
    x: ArrayLike,
    k: Numbers,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    The cost of `soft_topk` and a pass of the curve's potential.

    References
    ----------
    Results N-10, N-11.
    """
    found: Array = _losses.potential(
        _XP, x, k, curve, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def sample_shares(
    p: ArrayLike,
    rng: Array | int,
    *,
    axis: Axis = -1,
    draws: int | None = None,
    check: bool | None = None,
) -> Array:
    """Random subsets that contain each entry with the probability that it is given.

    It makes a soft selection hard without bias: the mean of what is returned is p.

    Parameters
    ----------
    p : array
        Shares in [0, 1], such as those of `soft_topk`.
    rng, draws
        As in `sample_topk`.
    axis : int, tuple of int, or None
        The axis or axes along which the shares belong together; None for all.
    check
        As in `soft_topk`.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `p`; constant under differentiation.  In a row whose shares sum to k, up to
        rounding, exactly k entries are 1; else as many as one of the two whole numbers
        beside the sum.

    Notes
    -----
    O(n) operations, in about log2 n steps one after the other: pivotal sampling as a
    tournament.  Two entries of a row are drawn together at most as often as if they
    were independent.
    """
    found: Array = _sampling.sample_shares(
        _XP, p, rng, axis=axis, draws=draws, check=check
    )
    return found


def sample_topk(
    x: ArrayLike,
    k: Numbers,
    rng: Array | int,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    draws: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    r"""Random subsets of k entries, :math:`P(S)\propto\exp\sum_{i\in S}x_i/\tau`.

    Parameters
    ----------
    x, k, temperature, axis, where, empty, check
        As in `grad_topk`, whose shares are the probabilities that an entry is drawn.
    rng : generator or seed
        Where the random numbers come from: in PyTorch a `torch.Generator` on the device
        of `x`, a seed, or None for PyTorch's own generator; in JAX a key or a seed.
    draws : int, optional
        How many subsets to draw for each row, along a new first axis; without it one
        for each row, and no such axis.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `x`; constant under differentiation.

    Notes
    -----
    O(nk) operations, in about log2 n steps one after the other.  Probabilities are
    exact up to the rounding of n operations, and are resolved by random numbers of the
    type of `x`: to 2^-53, of float32 to 2^-24.
    """
    found: Array = _sampling.sample_topk(
        _XP,
        x,
        k,
        rng,
        temperature=temperature,
        axis=axis,
        where=where,
        draws=draws,
        empty=empty,
        check=check,
    )
    return found


def sample_topk_st(
    x: ArrayLike,
    k: Numbers,
    rng: Array | int,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    draws: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """`sample_topk` forward, the derivatives of its mean `grad_topk` backward.

    Parameters
    ----------
    x, k, rng, temperature, axis, where, draws, empty, check
        As in `sample_topk`.

    Returns
    -------
    array
        Exactly `sample_topk`.

    Notes
    -----
    This is the estimator SIMPLE (Ahmed, Zeng, Niepert, Van den Broeck, ICLR 2023).  The
    gradient of a mean of a linear function of the subset is right; of others it is
    biased, and `subset_log_prob` gives one that is not.
    """
    found: Array = _sampling.sample_topk_st(
        _XP,
        x,
        k,
        rng,
        temperature=temperature,
        axis=axis,
        where=where,
        draws=draws,
        empty=empty,
        check=check,
    )
    return found


def soft_permutation(
    x: ArrayLike,
    places: int | None = None,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """How much each score belongs to each place of the sorted order.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_topk`.
    places : int, optional
        The first K places, counted from the largest score; all of them by default.

    Returns
    -------
    array, (..., K, n)
        The share of every entry of a row in every place, the batch first.  Places
        beyond the number of entries that take part are empty.

    Notes
    -----
    n K time and memory a row.
    """
    found: Array = _sorting.soft_permutation(
        _XP,
        x,
        places,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        check=check,
    )
    return found


def soft_rank(
    x: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """Smooth ranks, near 1 for the largest score: the mean place of each entry.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_permutation`.

    Returns
    -------
    array
        Of the shape and type of `x`, between 1 and the number of entries that take
        part; an entry without a place has 0.

    Notes
    -----
    One sort and n more time and memory a row for the curves "laplace" and "exp", n^2
    for all others.
    """
    found: Array = _sorting.soft_rank(
        _XP, x, curve, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def soft_sort(
    x: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """Scores in descending order, smoothly: the product of `soft_permutation` and x.

    Parameters
    ----------
    x, curve, temperature, axis, where, check
        As in `soft_permutation`.

    Returns
    -------
    array
        Of the shape and type of `x`.  Places beyond the number of entries that take
        part hold -inf.

    Notes
    -----
    One sort and n more time and memory a row for the curves "laplace" and "exp", n^2
    for all others.
    """
    found: Array = _sorting.soft_sort(
        _XP, x, curve, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def soft_topk(
    x: ArrayLike,
    k: Numbers,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    per: str = "entry",
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    r"""Smooth top-k selection: shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : array
        Scores, finite or -inf.  Those of 16 bits are calculated with in float32, and
        the result is rounded once.
    k : number or array
        Budget, real, one for all or one a row: it broadcasts against `x` without
        `axis`, so that for scores of shape (B, n) it has the shape (B,), not (B, 1).
        It has a derivative.
    curve : str or Curve
        A name in `softtopk.curves.NAMED`, such as "laplace" or "exp", or a curve from
        `softtopk.curves`, or one of your own whose `value` and `slope` are written with
        the functions of this library.
    temperature : number or array
        Above 0; one for all or one a row.  It has a derivative.
    axis : int, tuple of int, or None
        The axis or axes along which the shares sum to k; None for all.
    where : array of bool, optional
        Entries that take part; the others get share 0.
    cost : array, optional
        What each entry costs, finite and above 0: it broadcasts to the shape of `x`.
        Then the shares spend the budget, :math:`\sum_ic_ip_i=k` for any k from 0 to the
        sum of the costs.  It has a derivative.
    per : "entry" or "cost"
        What a score is the worth of, where there are costs.  By "entry" it is that of
        an entry, :math:`p_i=f((x_i-\lambda c_i)/\tau)`; by "cost" that of a unit of
        cost, :math:`p_i=f((x_i-\lambda)/\tau)`, and a larger score gets a larger share
        whatever its cost.
    empty : "raise", "zeros" or "all"
        What a row is that has fewer entries than places.  By "raise" it is out of range
        (see `check`), by "all" all its entries are selected: a budget above their
        number, or above the sum of their costs, is lowered to it.  By "zeros" it is out
        of range too, except that a row without any entry that takes part (because
        `where` leaves all of them out or all scores are -inf) has the shares 0 whatever
        its budget is; by "all" it has them as well.  The derivatives are 0 then.
    check : bool, optional
        Whether to look at the values and raise for those out of range.  By default on
        the CPU, where that costs little, and outside of transformations.  A row out of
        range that nobody looked at is NaN.

    Returns
    -------
    array
        p, of the shape and type of `x`, or of its broadcast against `k`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    A search of four or five passes over `x` for scores from most laws, each a few sums
    a row: with `x` divided among devices, those sums are all that travels.  With costs
    about ten passes, a hundred where costs range over twelve orders of magnitude.
    """
    found: Array = _selection.soft_topk(
        _XP,
        x,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        cost=cost,
        per=per,
        empty=empty,
        check=check,
    )
    return found


def softmax(
    x: ArrayLike,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Softmax of x / temperature, which has masks here.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `soft_topk`.
    empty : "raise", "zeros" or "all"
        What a row is without an entry that takes part, because `where` leaves all of
        them out or all scores are -inf: out of range (see `check`), or by "zeros" and
        "all" a row whose shares and their derivatives are 0.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    found: Array = _simplex.softmax(
        _XP,
        x,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def sparse_softmax(
    x: ArrayLike,
    k: Numbers,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Softmax over the k largest scores; the others get share 0.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.
    k : whole number or array of them
        At least 1.  It has no derivative, nor has the choice of the k scores.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    found: Array = _simplex.sparse_softmax(
        _XP,
        x,
        k,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def sparse_softmax_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: Numbers,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    O(n) per row for one k.  Gradient: sparse softmax minus target, a subgradient where
    scores tie at the k-th place.

    References
    ----------
    Claims B27, B28.
    """
    found: Array = _losses.sparse_softmax_loss(
        _XP,
        x,
        target,
        k,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def sparsemax(
    x: ArrayLike,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Sparsemax, the point of the simplex nearest to x / temperature.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    found: Array = _simplex.sparsemax(
        _XP,
        x,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def sparsemax_loss(
    x: ArrayLike,
    target: ArrayLike,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    See Also
    --------
    entmax_loss : of which this is :math:`\alpha=2`; cost and accuracy as there.

    References
    ----------
    Claims B51 to B53; A. Martins, R. Astudillo, "From softmax to sparsemax", ICML 2016.
    """
    found: Array = _losses.sparsemax_loss(
        _XP,
        x,
        target,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def stop_gradient_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: Numbers = 1,
    curve: str | Curve = "exp",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    See Also
    --------
    top_k_loss : the loss with this gradient.

    Notes
    -----
    The cost of `soft_topk`.

    References
    ----------
    Claims B64, B65.
    """
    found: Array = _losses.stop_gradient_loss(
        _XP,
        x,
        target,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def subset_log_prob(
    x: ArrayLike,
    subset: ArrayLike,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    r"""The log-probability of subsets under the law of `sample_topk`.

    :math:`\log P(S)=\sum_{i\in S}x_i/\tau-\log Z_k(x/\tau)` for the number k of entries
    of S.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `grad_topk`.
    subset : array
        1 or True for the entries of the subset, 0 or False for the others, of the shape
        of `x`.

    Returns
    -------
    array
        One number a row, with derivatives by `x` and `temperature`; that by `x` is the
        subset less `grad_topk`, over the temperature.  -inf for a subset with an entry
        that takes no part.

    Notes
    -----
    The score-function estimator of the gradient of a mean of f is the gradient of
    ``f(S) * subset_log_prob(x, S)`` with f(S) constant: unbiased, whatever f is.
    """
    found: Array = _sampling.subset_log_prob(
        _XP, x, subset, temperature=temperature, axis=axis, where=where, check=check
    )
    return found


def taylor_softmax(
    x: ArrayLike,
    order: int = 2,
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Softmax with a Taylor polynomial of even order in place of the exponential.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `softmax`.
    order : int
        Even, from 2 to 100.

    Returns
    -------
    array
        p, of the shape and type of `x`.
    """
    found: Array = _simplex.taylor_softmax(
        _XP,
        x,
        order,
        temperature=temperature,
        axis=axis,
        where=where,
        empty=empty,
        check=check,
    )
    return found


def threshold(
    x: ArrayLike,
    k: Numbers,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    per: str = "entry",
    check: bool | None = None,
) -> Array:
    """The threshold of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per, check
        As in `soft_topk`.

    Returns
    -------
    array
        One number a row; +inf where k = 0, -inf where k takes all finite entries: its
        derivatives are 0 there.  With costs it is the price of a unit of cost.

    Notes
    -----
    Where all shares are 0 or 1 the threshold is the middle of an interval, and has the
    derivatives of that middle by `x` and `temperature`; it jumps in `k`, and the
    derivative by `k` is 0.
    """
    found: Array = _selection.threshold(
        _XP,
        x,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        cost=cost,
        per=per,
        check=check,
    )
    return found


def top_k(
    x: ArrayLike,
    k: Numbers,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ties: str = "share",
    cost: ArrayLike | None = None,
    per: str = "entry",
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """Indicator of the k largest scores; ties at the k-th place share equally.

    Parameters
    ----------
    x, k, axis, where, empty, check
        As in `soft_topk`.
    cost, per
        As in `soft_topk`.  With costs the entries are taken in the order of ``x /
        cost``, or of `x` if `per` is "cost", until the budget is spent; the last of
        them gets what is left (Dantzig's solution of the continuous knapsack).
    ties : "share" or "first"
        What equal scores at the k-th place get.  By "share" each gets the same part of
        what is left.  By "first" the first of them, in C order, get 1 and the others 0,
        so that exactly k entries are 1; k must then be a whole number.  With costs k
        is any, and one entry at most has a share between 0 and 1.

    Returns
    -------
    array
        Of the shape and type of `x`; sums to k.  Constant in `x` for derivatives; the
        entries at the k-th place have derivatives by `k` and `cost`.

    Notes
    -----
    A selection for one number k; a sort for an array of them, and with costs.
    """
    found: Array = _hard.top_k(
        _XP,
        x,
        k,
        axis=axis,
        where=where,
        ties=ties,
        cost=cost,
        per=per,
        empty=empty,
        check=check,
    )
    return found


def top_k_indices(
    x: ArrayLike,
    k: Numbers,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    largest: bool = True,
    width: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """The indices of the k largest scores, the largest first: what a dispatch takes.

    Parameters
    ----------
    x, axis, where, check
        As in `soft_topk`.
    k : whole number or array of them
        How many, from 0 to the number of finite entries of a row; one for all, or one a
        row.
    largest : bool
        Whether to take the largest scores; else the smallest, the smallest first.
    width : int, optional
        The length of the result, by default k, or the largest k of all rows; where
        nobody looks at values, it is the length of a row for an array of k.
    empty : "raise", "zeros" or "all"
        As in `soft_topk`: by "all" a row with fewer entries than k gives all of them.

    Returns
    -------
    array of int
        Of the shape of `x` with `width` in place of the length of `axis`: ``(..., k)``.
        Of several axes an index counts the entries in C order, and the k indices stand
        along a last axis of their own, in place of these axes.  In each row the scores
        at the indices descend, and among equal scores the indices ascend: they are the
        indices of the ones of ``top_k(x, k, ties="first")``.  A row with fewer of them
        than `width` is filled up with its length n, at which there is no entry:
        ``index < n`` is the mask of what it has.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, for example if a row has fewer than k entries
        that take part; the message names it.  In a row that nobody looked at, an index
        for which there is no entry is the length of the row, which lies outside.

    Notes
    -----
    Integers have no derivative.  What the selected entries count with has one if it is
    gathered from the shares, for example from ``p = soft_topk(x, k)`` by
    ``take_along_dim(p, index, -1)`` in PyTorch and ``take_along_axis(p, index, -1)`` in
    JAX.
    """
    found: Array = _hard.top_k_indices(
        _XP,
        x,
        k,
        axis=axis,
        where=where,
        largest=largest,
        width=width,
        empty=empty,
        check=check,
    )
    return found


def top_k_loss(
    x: ArrayLike,
    target: ArrayLike,
    k: Numbers = 1,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ignore_index: int | None = None,
    reduction: str = "none",
    check: bool | None = None,
) -> Array:
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

    Notes
    -----
    The cost of `soft_topk` and of a pass of the curve's functions.  Any curve but
    the named ones and entmax is evaluated as :math:`F(u)+\varphi(t)-tu`, which near 0
    is right to a few units of 1e-16 only.

    References
    ----------
    Result N-25.
    """
    found: Array = _losses.top_k_loss(
        _XP,
        x,
        target,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        ignore_index=ignore_index,
        reduction=reduction,
        check=check,
    )
    return found


def top_k_st(
    x: ArrayLike,
    k: Numbers,
    curve: str | Curve = "laplace",
    *,
    temperature: Numbers = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    ties: str = "share",
    cost: ArrayLike | None = None,
    per: str = "entry",
    empty: str = "raise",
    check: bool | None = None,
) -> Array:
    """`top_k` forward, the derivatives of `soft_topk` backward: straight-through.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per, empty, check
        As in `soft_topk`.
    ties : "share" or "first"
        As in `top_k`.  In 16 bits equal scores are common: take "first" where each row
        must have exactly k ones.

    Returns
    -------
    array
        Exactly `top_k`, of the shape of `x`.
    """
    found: Array = _hard.top_k_st(
        _XP,
        x,
        k,
        curve,
        temperature=temperature,
        axis=axis,
        where=where,
        ties=ties,
        cost=cost,
        per=per,
        empty=empty,
        check=check,
    )
    return found


def top_k_sum(
    x: ArrayLike,
    k: Numbers,
    *,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    check: bool | None = None,
) -> Array:
    """Sum of the k largest scores, linear in k between whole ones.

    Parameters
    ----------
    x, k, axis, where, check
        As in `top_k`.

    Returns
    -------
    array
        One number a row.  Its derivative by `x` is `top_k`, by `k` the next score.
    """
    found: Array = _hard.top_k_sum(_XP, x, k, axis=axis, where=where, check=check)
    return found
