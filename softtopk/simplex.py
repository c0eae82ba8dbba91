r"""Maps from scores to a probability distribution: softmax and its relatives.

With :math:`b=\alpha-1`, entmax is the maximiser over the simplex of
:math:`p\cdot x+H_\alpha(p)`, :math:`H_\alpha(p)=(1-\sum_ip_i^\alpha)/(\alpha b)`,

.. math:: p_i=\bigl[b x_i-t\bigr]_+^{1/b},\qquad
          p_i=\bigl[m^b-b\,(x_{(1)}-x_i)\bigr]_+^{1/b},

where the second form has the largest share m in place of the threshold t.  Its limit
at :math:`\alpha=1` is softmax, :math:`\alpha=2` is sparsemax.  These are the k = 1
members of `soft_topk` for the curves ``exp``, ``entmax(alpha)`` and ``clip``.  They
are solved here once more, since at k = 1 only scores within :math:`1/b` of the
largest can have a share: a few passes over those few take a small part of the time
that the selection of a k-th score takes.

*Taylor softmax* and *sparse softmax* are not of that form.

Derived in *distributions/softmax*, *distributions/relatives*,
*distributions/sparsemax*, *distributions/entmax* and, for orders below 1,
*distributions/entmax-orders*.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._linearize import Differentiable, Linearization, operator
from ._operators.simplex_body import check_order
from ._rows.numpy_rows import (
    Array,
    Axis,
    NumPyRows,
    as_column,
    as_numpy_rows,
    check_positive,
    divide,
    finite_numpy_rows,
    positive_numbers,
    row_dot,
    temperatures_of,
)
from ._search.numpy_simplex import entmax_shares, log_shares, softmax_shares
from .hard import top_k

__all__ = [
    "entmax",
    "log_softmax",
    "logsumexp",
    "softmax",
    "sparse_softmax",
    "sparsemax",
    "taylor_softmax",
]

_RANGE = 600  # e to this power is far inside the range of float64


@operator
def softmax(
    x: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Softmax, :math:`p_i=e^{x_i/\tau}/\sum_je^{x_j/\tau}`.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.  An entry of -inf gets share 0.
    temperature : array_like
        :math:`\tau>0`, one for all or one a row (an array that broadcasts to the
        shape of the result without `axis`); as it falls the shares approach `top_k`
        with k = 1.
    axis : int, tuple of int, or None
        The axis along which the shares sum to 1; several do together, None means all.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.
    empty : "raise", "zeros" or "all"
        What a row is without an entry that takes part, because `where` leaves all of
        them out or all scores are -inf: an error, or by "zeros" and "all" a row whose
        shares and their derivatives are 0.

    Returns
    -------
    array
        p, of the shape of `x` (float32 if `x` is float32 or float16, else float64).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row.  A share is right to a few units in the last place, times
    :math:`1+(x_{(1)}-x_i)/\tau`.

    References
    ----------
    Claims B01 to B20, D12 to D16; J. Su (2024), https://spaces.ac.cn/archives/10145.

    Examples
    --------
    >>> from softtopk.simplex import softmax
    >>> softmax([2.0, 1.0, 0.0]).round(4).tolist()
    [0.6652, 0.2447, 0.09]
    """
    rows = finite_numpy_rows(x, axis, where, empty=empty)
    tau = temperatures_of(rows, temperature)
    p = softmax_shares(rows.x, tau)
    value = rows.expand(p)
    return value, lambda: Linearization.symmetric(value, rows, p, tau)


@operator
def log_softmax(
    x: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Logarithm of `softmax`, also where a share would underflow or round to 1.

    Parameters
    ----------
    x, temperature, axis, where
        As in `softmax`.

    Returns
    -------
    array
        Of the shape of `x`; -inf for entries that take no part (their value is
        constant, so their derivative is 0).

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.

    Notes
    -----
    O(n) per row.  The logarithm of the largest share is minus log1p of what the
    others weigh, so it keeps its digits as it tends to 0.

    References
    ----------
    *distributions/softmax*.

    Examples
    --------
    >>> from softtopk.simplex import log_softmax
    >>> log_softmax([50.0, 0.0]).tolist()
    [-1.9287498479639178e-22, -50.0]
    """
    rows = finite_numpy_rows(x, axis, where)
    tau = temperatures_of(rows, temperature)
    log_p, _ = log_shares(rows.x, tau)
    value = rows.expand(log_p)

    def derivative() -> Linearization:
        p, finite = np.exp(log_p), rows.x > -np.inf

        def push(t: Array) -> Array:
            t = np.where(finite, t - row_dot(p, t)[:, None], 0)
            return divide(t, as_column(tau))

        def pull(g: Array) -> Array:
            g = np.where(finite, g, 0)
            g -= p * g.sum(axis=-1, keepdims=True)
            return divide(g, as_column(tau))

        return Linearization(value, rows, push, pull)

    return value, derivative


@operator
def logsumexp(
    x: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The smooth maximum :math:`\tau\log\sum_je^{x_j/\tau}`; its gradient is softmax.

    Parameters
    ----------
    x, temperature, axis, where
        As in `softmax`.

    Returns
    -------
    array or scalar
        One number per row, of the shape of `x` without `axis`, in the units of the
        scores; it exceeds the maximum by at most :math:`\tau\log n`.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`; also a row of only -inf is an error.

    Notes
    -----
    O(n) per row.

    References
    ----------
    Claims B04, B05.

    Examples
    --------
    >>> from softtopk.simplex import logsumexp
    >>> float(logsumexp([1000.0, 1000.0]).round(6))
    1000.693147
    """
    rows = finite_numpy_rows(x, axis, where)
    tau = temperatures_of(rows, temperature)
    total = tau * log_shares(rows.x, tau)[1].astype(np.float64)
    value = rows.reduce((rows.x.max(axis=-1) + total).astype(rows.x.dtype))
    return value, lambda: Linearization.gradient(
        value, rows, softmax_shares(rows.x, tau)
    )


@operator
def entmax(
    x: ArrayLike,
    alpha: ArrayLike = 1.5,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Entmax: a distribution that is sparse for :math:`\alpha>1`.

    The maximiser of :math:`p\cdot x/\tau+(1-\sum_ip_i^\alpha)/(\alpha(\alpha-1))` over
    the simplex; softmax at :math:`\alpha=1` and `sparsemax` at :math:`\alpha=2`.  Below
    1 every share is positive and falls like a power of its distance to the largest.

    Parameters
    ----------
    x : array_like
        As in `softmax`.
    alpha : array_like
        Above 0: a number, or an array that broadcasts against `x` without `axis`.
    temperature, axis, where, empty
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape of `x`, or of its broadcast against `alpha`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n) per row for the maximum and the scores within :math:`\tau/(\alpha-1)` of it
    (all scores up to :math:`\alpha=1`), and O(that number) for each of a few Newton
    steps.  For :math:`\alpha\le2` a share
    is right to a few units of 1e-16.  For :math:`\alpha>2` the map itself is not
    Lipschitz where a share starts: there the shares are right for scores moved by a
    few units in the last place.

    The derivative is :math:`(\operatorname{diag}(w)-ww^\top/W)/\tau` with
    :math:`w_i=p_i^{2-\alpha}` on the support, 0 elsewhere; a score exactly at the
    edge counts as outside.

    References
    ----------
    Claims B54 to B62, D38 to D43, N-16; B. Peters, V. Niculae, A. Martins, "Sparse
    sequence-to-sequence models", ACL 2019.

    Examples
    --------
    >>> from softtopk.simplex import entmax
    >>> entmax([2.0, 1.0, 0.0]).round(4).tolist()
    [0.8307, 0.1693, 0.0]
    >>> entmax([[1.0, 0.0], [1.0, 0.0]], alpha=[1.0, 2.0]).round(4).tolist()
    [[0.7311, 0.2689], [1.0, 0.0]]
    """
    rows, b = _entmax_rows(x, alpha, axis, where, empty)
    return _entmax(rows, b, temperatures_of(rows, temperature))


@operator
def sparsemax(
    x: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Sparsemax: the point of the simplex nearest to :math:`x/\tau`.

    Parameters
    ----------
    x, temperature, axis, where, empty
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape of `x`.

    Raises
    ------
    TypeError, ValueError
        As in `softmax`.

    See Also
    --------
    entmax : of which this is :math:`\alpha=2`; cost and accuracy are stated there.

    Notes
    -----
    The derivative is :math:`(\operatorname{diag}(s)-ss^\top/|s|)/\tau` with the
    support's indicator s.

    References
    ----------
    Claims B39 to B49, D44, D45; A. Martins, R. Astudillo, "From softmax to sparsemax",
    ICML 2016.

    Examples
    --------
    >>> from softtopk.simplex import sparsemax
    >>> sparsemax([1.0, 0.5, -1.0]).tolist()
    [0.75, 0.25, 0.0]
    """
    rows = finite_numpy_rows(x, axis, where, empty=empty)
    return _entmax(rows, 1.0, temperatures_of(rows, temperature))


@operator
def taylor_softmax(
    x: ArrayLike,
    order: int = 2,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Taylor softmax, :math:`p_i=f(x_i/\tau)/\sum_jf(x_j/\tau)`.

    f is the Taylor polynomial of :math:`e^x` at 0 of an even order.  The map neither
    keeps the order of the scores nor ignores a common offset.

    Parameters
    ----------
    x : array_like
        As in `softmax`; an entry of -inf takes no part and gets share 0.
    order : int
        Even, from 2 to 100.
    temperature, axis, where, empty
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape of `x`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    O(n order) per row.  The terms of f alternate for negative scores: the relative
    error of a share is at most about `order` units in the last place, times
    :math:`f(|x_i|/\tau)/f(x_i/\tau)`, which is below 6 for order 2.

    References
    ----------
    Claims B22 to B25; A. de Brebisson, P. Vincent, "An exploration of softmax
    alternatives belonging to the spherical loss family", ICLR 2016.

    Examples
    --------
    >>> from softtopk.simplex import taylor_softmax
    >>> taylor_softmax([1.0, 0.0, -2.0]).tolist()  # 5/2, 1 and 1, of 9/2
    [0.5555555555555556, 0.2222222222222222, 0.2222222222222222]
    """
    order = check_order(order)
    rows = finite_numpy_rows(x, axis, where, empty=empty)
    tau = temperatures_of(rows, temperature)
    p, v = _taylor(rows.x, order, tau)
    value = rows.expand(p)

    def push(t: Array) -> Array:
        return divide(v * t - p * row_dot(v, t)[:, None], as_column(tau))

    def pull(g: Array) -> Array:
        return divide(v * (g - row_dot(p, g)[:, None]), as_column(tau))

    return value, lambda: Linearization(value, rows, push, pull)


@operator
def sparse_softmax(
    x: ArrayLike,
    k: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Softmax over the k largest scores; the others get share 0.

    Parameters
    ----------
    x : array_like
        As in `softmax`.
    k : array_like
        A whole number, 1 <= k <= the number of finite entries, or an array of them
        that broadcasts against `x` without `axis`.
    temperature, axis, where, empty
        As in `softmax`.

    Returns
    -------
    array
        p, of the shape of `x`, or of its broadcast against `k`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    Notes
    -----
    :math:`p_i\propto m_ie^{x_i/\tau}` with :math:`m=` `top_k` (x, k).  Scores that tie
    at the k-th place share the places left there equally, so equal scores get equal
    shares and more than k shares can be above 0.  Whichever tied scores one kept
    instead, the sum of the weights is the same.

    p jumps where the k-th and the next score change order; the derivative is that of
    softmax among the selected, with m held fixed.  O(n) per row for one k.

    References
    ----------
    Claims B26 to B28.

    Examples
    --------
    >>> from softtopk.simplex import sparse_softmax
    >>> sparse_softmax([2.0, 1.0, 0.0], 2).round(4).tolist()
    [0.7311, 0.2689, 0.0]
    >>> sparse_softmax([0.0, 0.0, 0.0, -1.0], 2).round(4).tolist()
    [0.3333, 0.3333, 0.3333, 0.0]
    """
    rows = as_numpy_rows(x, k, axis=axis, where=where, integer_k=True, empty=empty)
    check_positive(rows.k)
    tau = temperatures_of(rows, temperature)
    p = softmax_shares(rows.x, tau, top_k(rows.x, rows.k))
    value = rows.expand(p)
    return value, lambda: Linearization.symmetric(value, rows, p, tau)


def _entmax(
    rows: NumPyRows, b: float | Array, tau: float | Array
) -> Differentiable[Array]:
    """Entmax with alpha = 1 + b, one number or one for each row."""
    p = entmax_shares(rows.x, b, tau)[0]
    value = rows.expand(p)

    def derivative() -> Linearization:
        power = 1 - (b[:, None] if isinstance(b, np.ndarray) else b)
        some, times = p > 0, 1
        if np.minimum.reduce(power, axis=None, initial=0) >= 0:
            root = np.power(p, power, out=np.zeros_like(p), where=some)
        else:  # small shares have large weights: as factors, each within the range
            high = power * np.log(p, out=np.zeros(p.shape), where=some)
            times = math.ceil(max(1.0, np.max(high, initial=0) / _RANGE))
            root = np.exp(high / times, out=np.zeros(p.shape), where=some)
        return Linearization.symmetric(value, rows, root, tau, times=times)

    return value, derivative


def _entmax_rows(
    x: ArrayLike, alpha: ArrayLike, axis: Axis, where: ArrayLike | None, empty: str
) -> tuple[NumPyRows, float | Array]:
    """Rows and alpha - 1: a number, or one for each row if alpha is an array."""
    values = positive_numbers(alpha, "alpha")
    rows = finite_numpy_rows(x, axis, where, empty=empty)
    if values.ndim == 0:
        return rows, float(values) - 1
    rows, column = rows.repeat(values, "alpha")
    return rows, column - 1


def _taylor(x: Array, order: int, tau: float | Array) -> tuple[Array, Array]:
    """The shares f / F and the slopes f' / F, F the sum of f; 0 where x is -inf.

    f is the Taylor polynomial at u = x/tau.  It is multiplied by r^order,
    r = min(1, 1/max|u|), so that no power overflows: f(u) r^order = h(y)
    = sum_j y^j r^(order-j) / j! with y = u r.  That may be less than float32 holds.
    """
    active = x > -np.inf
    y = np.where(active, x, 0).astype(np.float64)
    tau = as_column(tau)
    M = np.maximum.reduce(np.abs(y), axis=-1, keepdims=True)
    M = np.maximum(M, tau)
    y /= M
    r = tau / M
    f, slope, power = np.zeros_like(y), np.zeros_like(y), np.ones_like(r)
    for j in range(order, -1, -1):
        slope = slope * y + f
        f = f * y + power / math.factorial(j)
        power = power * r
    slope *= r
    f *= active
    slope *= active
    total = np.add.reduce(f, axis=-1, keepdims=True)
    return (f / total).astype(x.dtype), (slope / total).astype(x.dtype)
