r"""Two iterations for a smooth top-k, kept because the book refutes them.

Both add k distributions over the entries and take mass away from what is already
selected.  With the hard argmax in place of softmax the first one is exact where
:math:`x_{(k)}>x_{(n)}`; with softmax neither is a smooth top-k operator.

- `soft_k_max`: :math:`p\leftarrow p+\mathrm{softmax}((1-p)(x-\min x))`.  Not monotone,
  entries may exceed 1, and for k = n the limit at temperature 0 is wrong.
- `weighted_softmax_topk`: weights :math:`(1-p)e^x`.  The limit for k = 2 and
  distinct scores is (3/2, 1/2, 0, ..., 0); for k >= 3 weights turn negative and the
  sum has poles.

Use `soft_topk` or `grad_topk` instead.  The chapter *selection/iterations* proves what
is said here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, Rows, as_rows


def soft_k_max(x: ArrayLike, k: ArrayLike, *, axis: int = -1) -> Array:
    r"""The iteration of the source: k softmaxes of scores scaled by 1 - p.

    Parameters
    ----------
    x : array_like
        Finite scores.
    k : int or array_like of whole numbers
        Number of steps, 0 <= k <= n.  It broadcasts against `x` without `axis`.
    axis : int
        The axis of the scores.

    Returns
    -------
    array
        p >= 0 with sum k, of the shape of `x`.  It does not keep the order of the
        scores, and its entries can exceed 1.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type or is out of range; the message names it.

    Notes
    -----
    O(n k).  Invariant under translation, since only x - min(x) enters.
    Source: https://spaces.ac.cn/archives/10373, claims A09 to A13.

    Examples
    --------
    The largest score does not get the largest share.

    >>> from softtopk.iterative import soft_k_max
    >>> soft_k_max([4.0, 3.0, 0.0], 2).round(4).tolist()
    [0.9539, 0.9566, 0.0895]
    """
    rows = _finite_rows(x, k, axis)
    with np.errstate(over="ignore"):
        above = rows.x - rows.x.min(axis=-1, keepdims=True)
    above = np.minimum(above, np.finfo(above.dtype).max)
    p = np.zeros_like(rows.x)
    for step in range(int(rows.k.max(initial=0))):
        y = (1 - p) * above
        # 1 - p can be below 0: the largest score need not be the largest y
        with np.errstate(over="ignore"):
            share = np.exp(y - y.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        p += share * (step < rows.k)[:, None]
    return rows.expand(p)


def weighted_softmax_topk(x: ArrayLike, k: ArrayLike, *, axis: int = -1) -> Array:
    r"""The simpler iteration: k times the weights (1 - p) e^x, normalised.

    Parameters
    ----------
    x : array_like
        Finite scores.
    k : int or array_like of whole numbers
        Number of steps, 0 <= k <= n.  It broadcasts against `x` without `axis`.
    axis : int
        The axis of the scores.

    Returns
    -------
    array
        p with sum k, of the shape of `x`.  For k >= 3 entries can be of any size and
        sign.

    Raises
    ------
    TypeError
        If an argument has a wrong type.
    ValueError
        If an argument is out of range, or if the weights of a step sum to 0: at a
        pole of the iteration, or where they all underflow.

    Notes
    -----
    O(n k).  Source: https://spaces.ac.cn/archives/10373, claims A14 and A15.

    Examples
    --------
    The two largest scores do not tend to 1 as the scores grow apart.

    >>> from softtopk.iterative import weighted_softmax_topk
    >>> weighted_softmax_topk([24.0, 12.0, 0.0], 2).round(4).tolist()
    [1.5, 0.5, 0.0]
    """
    rows = _finite_rows(x, k, axis)
    with np.errstate(over="ignore"):
        e = np.exp(rows.x - rows.x.max(axis=-1, keepdims=True))
    p = np.zeros_like(rows.x)
    rest = np.ones_like(rows.x)  # 1 - p, which a subtraction would lose near p = 1
    for step in range(int(rows.k.max(initial=0))):
        active = step < rows.k
        weights = rest * e
        total = weights.sum(axis=-1)
        if (total[active] == 0).any():
            raise ValueError(
                f"k must not lead to a pole of the iteration, but the weights of step "
                f"{step + 1} sum to 0, got k = {rows.k[active][0]:g}"
            )
        total[~active] = 1
        others = _sum_of_others(weights)
        rest = np.where(active[:, None], rest * (others - p * e) / total[:, None], rest)
        p += weights / total[:, None] * active[:, None]
    return rows.expand(p)


def _sum_of_others(weights: Array) -> Array:
    """For each entry the sum of its row without it, free of cancellation."""
    before = np.zeros_like(weights)
    np.cumsum(weights[:, :-1], axis=-1, out=before[:, 1:])
    after = np.zeros_like(weights)
    np.cumsum(weights[:, :0:-1], axis=-1, out=after[:, -2::-1])
    return before + after


def _finite_rows(x: ArrayLike, k: ArrayLike, axis: int) -> Rows:
    rows = as_rows(x, k, axis=axis, integer_k=True)
    if (rows.finite < rows.x.shape[1]).any():
        raise ValueError("x must be finite, got -inf")
    return rows
