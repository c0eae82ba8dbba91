r"""The hard top-k selection and the top-k sum, the limits at temperature 0.

With :math:`x_{(1)}\ge\dots\ge x_{(n)}`, a of them above :math:`x_{(K)}`, K = ceil(k),
and b equal to it,

.. math:: T_k(x)_i = 1,\ \frac{k-a}{b},\ 0 \quad\text{for}\quad
          x_i >,\ =,\ < x_{(K)},
   \qquad S_k(x)=\min_l\Bigl[kl+\sum_i(x_i-l)_+\Bigr]=\sum_i x_iT_k(x)_i .

Tied scores share what is left equally: it is what every curve and GradTopK tend to.
Where exactly k entries are to be selected, the first of the tied scores are.
Derived in *selection/threshold*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import Call
from ._operators import hard_body
from ._rows.numpy_rows import (
    Array,
    Axis,
    NumPyRows,
    as_numpy_rows,
    check_count,
    check_per,
    check_ties,
    check_width,
    is_number,
    kth_largest,
    quiet,
)

__all__ = ["top_k", "top_k_indices", "top_k_sum"]


@quiet()
def top_k(
    x: ArrayLike,
    k: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    *,
    ties: str = "share",
    cost: ArrayLike | None = None,
    per: str = "entry",
    empty: str = "raise",
) -> Array:
    """Indicator of the k largest scores; ties at the k-th place share equally.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.
    k : array_like
        Real budget, 0 <= k <= the number of finite entries; broadcasts against `x`
        without `axis`.
    axis : int, tuple of int, or None
        The axis along which to select; several select together, None means all.
    where : array_like of bool, optional
        Entries that take part; the others get 0.
    ties : "share" or "first"
        What equal scores at the k-th place get.  By "share" each gets the same part of
        what is left.  By "first" the first of them, in C order, get 1 and the others 0,
        so that exactly k entries are 1; k must then be a whole number.
    cost, per
        As in `soft_topk`.  With costs the entries are taken in the order of ``x /
        cost``, or of `x` if it is given per unit of cost, until the budget is spent,
        and the last of them gets what is left: Dantzig's solution of the continuous
        knapsack, of which no other is worth more.  k is any number up to the sum of the
        costs.  By "share" tied entries get equal shares, by "first" at most one entry
        has a share between 0 and 1.
    empty : "raise", "zeros" or "all"
        As in `soft_topk`.

    Returns
    -------
    array
        Of the shape of `x`, or of its broadcast against `k`; sums to k along `axis`,
        with costs as weights.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row for one k, O(n log n) for an array of different ones, and with costs.
    Costs are summed exactly; entries are tied if their x / cost rounds to the same
    float.

    References
    ----------
    Claims A03 and D01, *selection/problem*.

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.top_k([5.0, 1.0, 3.0, 4.0], 2).tolist()
    [1.0, 0.0, 0.0, 1.0]
    >>> stk.top_k([5.0, 1.0, 1.0, 1.0], 2.5).tolist()
    [1.0, 0.5, 0.5, 0.5]
    >>> stk.top_k([5.0, 1.0, 1.0, 1.0], 2, ties="first").tolist()
    [1.0, 1.0, 0.0, 0.0]
    >>> stk.top_k([2.0, 2.0, 3.0], 5, cost=[1.0, 2.0, 4.0]).tolist()
    [1.0, 1.0, 0.5]
    """
    share_ties = check_ties(ties)
    if cost is not None:
        given = {"axis": axis, "where": where, "ties": ties, "cost": cost, "per": per}
        return Call().run(hard_body.top_k, x, k, **given, empty=empty)
    check_per(per)
    integer_k = not share_ties
    rows = as_numpy_rows(
        x, k, axis=axis, where=where, empty=empty, integer_k=integer_k, ordinal=True
    )
    above, tied, _ = _compared(rows)
    remaining = rows.k - np.add.reduce(above, axis=-1)
    if not share_ties:
        tied &= np.cumsum(tied, axis=-1) <= remaining[:, None]
        return rows.expand((above | tied).astype(rows.x.dtype))
    share = remaining / np.maximum(np.add.reduce(tied, axis=-1), 1)
    out = tied * share.astype(rows.x.dtype, copy=False)[:, None]
    out += above
    return rows.expand(out)


@quiet()
def top_k_indices(
    x: ArrayLike,
    k: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    *,
    largest: bool = True,
    width: int | None = None,
    empty: str = "raise",
) -> Array:
    """The indices of the k largest scores, the largest first.

    It is what a dispatch takes, such as that of a mixture of experts: the numbers of
    the k selected entries of each row.  What they count with is gathered beside it.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.
    k : int or array_like of whole numbers
        How many, from 0 to the number of finite entries of a row; one for all, or one a
        row.
    axis : int, tuple of int, or None
        The axis along which to select.
    where : array_like of bool, optional
        Entries that take part; the others are never selected.
    largest : bool
        Whether to take the largest scores; else the smallest, the smallest first.
    width : int, optional
        The length of the result, by default k, or the largest k of all rows.
    empty : "raise", "zeros" or "all"
        As in `soft_topk`: by "all" a row with fewer entries than k gives all of them.

    Returns
    -------
    array of int
        Of the shape of `x` with `width` in place of the length of `axis`, as
        `numpy.take_along_axis` asks for.  Of several axes an index counts the entries
        in C order, and the k indices stand along a last axis of their own, in place of
        these axes.  In each row the scores at the indices descend, and among equal
        scores the indices ascend: they are the indices of the ones of
        ``top_k(x, k, ties="first")``.  A row with fewer of them than `width` is filled
        up with its length n, at which there is no entry: ``index < n`` is the mask of
        what it has.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, for example if a row has fewer than k entries
        that take part; the message names it.

    See Also
    --------
    top_k : the same as an indicator.

    Notes
    -----
    O(n log n) per row.

    Examples
    --------
    >>> import numpy as np
    >>> import softtopk as stk
    >>> x = np.array([[2.0, 5.0, 1.0, 5.0], [0.0, 1.0, 3.0, 1.0]])
    >>> index = stk.top_k_indices(x, 2)
    >>> index.tolist()
    [[1, 3], [2, 1]]
    >>> weights = np.take_along_axis(stk.soft_topk(x, 2), index, axis=-1)
    >>> weights.round(4).tolist()
    [[0.9077, 0.9077], [0.9254, 0.4538]]
    >>> stk.top_k_indices(x, [1, 3]).tolist()
    [[1, 4, 4], [2, 1, 3]]
    >>> stk.top_k_indices(x, 1, largest=False).tolist()
    [[2], [0]]
    """
    many = not is_number(k)
    number = 0 if many else check_count(k)
    rows = as_numpy_rows(
        x, k, axis=axis, where=where, integer_k=many, empty=empty, ordinal=True
    )
    n, scores = rows.x.shape[-1], rows.x
    most = int(rows.k.max(initial=0)) if many else number
    width = most if width is None else check_width(width, most)
    if rows.key is None:
        turned = -scores if largest else np.where(scores > -np.inf, scores, np.inf)
        index = np.argsort(turned, axis=-1, kind="stable")[:, :width]
    else:  # ~ turns the order of integers round without an overflow
        key = ~rows.key if largest else rows.key
        index = np.lexsort((key, scores == -np.inf), axis=-1)[:, :width]
    if many or width > number or empty != "raise":  # a row may have fewer
        empty_rows, count = rows.empty_rows, rows.k
        count = count if empty_rows is None else np.where(empty_rows, 0, count)
        found, index = index, np.full((len(index), width), n)
        index[:, : found.shape[-1]] = found
        index[np.arange(width) >= count[:, None]] = n
    index = index.reshape(*rows.batch, width)
    if rows.axes == (-1,) or len(rows.axes) != 1:
        return index
    return np.moveaxis(index, -1, rows.axes[0])


@quiet()
def top_k_sum(
    x: ArrayLike, k: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None
) -> Any:
    """Sum of the k largest scores, for real k linear between whole ones.

    Parameters
    ----------
    x, k, axis, where
        As in `top_k`.

    Returns
    -------
    array or scalar
        One number per row, of the shape of `x` without `axis`, or of its broadcast
        against `k`.

    Raises
    ------
    TypeError, ValueError
        As in `top_k`.

    Notes
    -----
    The cost of `top_k`.

    References
    ----------
    Claims C11 to C15, *selection/problem*.

    Examples
    --------
    >>> import softtopk as stk
    >>> float(stk.top_k_sum([5.0, 1.0, 3.0, 4.0], 2))
    9.0
    >>> float(stk.top_k_sum([5.0, 1.0, 3.0, 4.0], 2.5))
    10.5
    """
    rows = as_numpy_rows(x, k, axis=axis, where=where, ordinal=True)
    above, _, pivot = _compared(rows)
    finite = np.where(rows.k[:, None] > 0, pivot, 0)
    remaining = rows.k - above.sum(axis=-1)
    sums = np.where(above, rows.x, 0).sum(axis=-1) + remaining * finite[:, 0]
    return rows.reduce(sums.astype(rows.x.dtype))


def _compared(rows: NumPyRows) -> tuple[Array, Array, Array]:
    """Which scores are above the ceil(k)-th largest of their row, and which equal it.

    The third result is that score, as a column.  Where k = 0, no score is above it and
    none equals it.
    """
    some, key = rows.k > 0, rows.x if rows.key is None else rows.key
    pivot = kth_largest(key, rows.k)
    if rows.key is None:
        pivot = np.where(some, pivot, np.inf).astype(key.dtype, copy=False)[:, None]
        return key > pivot, key == pivot, pivot
    pivot = pivot[:, None]
    tied = (key == pivot) & some[:, None] & (rows.x > -np.inf)
    return (key > pivot) & some[:, None], tied, pivot.astype(rows.x.dtype)
