r"""The hard top-k selection and the top-k sum, the limits at temperature 0.

With :math:`x_{(1)}\ge\dots\ge x_{(n)}`, a of them above :math:`x_{(K)}`, K = ceil(k),
and b equal to it,

.. math:: T_k(x)_i = 1,\ \frac{k-a}{b},\ 0 \quad\text{for}\quad
          x_i >,\ =,\ < x_{(K)},
   \qquad S_k(x)=\min_l\Bigl[kl+\sum_i(x_i-l)_+\Bigr]=\sum_i x_iT_k(x)_i .

Tied scores share what is left equally: it is what every curve and GradTopK tend to.
Derived in *selection/threshold*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._rows import Array, Axis, Rows, as_rows, kth_largest

__all__ = ["top_k", "top_k_sum"]


def top_k(
    x: ArrayLike, k: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None
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

    Returns
    -------
    array
        Of the shape of `x`, or of its broadcast against `k`; sums to k along `axis`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row for one k, O(n log n) for an array of different ones.

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
    """
    rows = as_rows(x, k, axis=axis, where=where)
    pivot = _pivot(rows)
    above = rows.x > pivot
    tied = rows.x == pivot
    left = rows.k - above.sum(axis=-1)
    share = (left / np.maximum(tied.sum(axis=-1), 1)).astype(rows.x.dtype)
    out = tied * share[:, None]
    out += above
    return rows.expand(out)


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
    rows = as_rows(x, k, axis=axis, where=where)
    pivot = _pivot(rows)
    above = rows.x > pivot
    finite = np.where(rows.k[:, None] > 0, pivot, 0)
    left = rows.k - above.sum(axis=-1)
    sums = np.where(above, rows.x, 0).sum(axis=-1) + left * finite[:, 0]
    return rows.reduce(sums.astype(rows.x.dtype))


def _pivot(rows: Rows) -> Array:
    """The ceil(k)-th largest score of each row, as a column; +inf where k = 0."""
    pivot = np.where(rows.k > 0, kth_largest(rows.x, rows.k), np.inf)
    return pivot.astype(rows.x.dtype)[:, None]
