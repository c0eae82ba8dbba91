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
*distributions/sparsemax* and *distributions/entmax*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._operator import Differentiable, Linearization, operator
from ._rows import (
    Array,
    Axis,
    Rows,
    check_temperature,
    divide,
    finite_rows,
    real_number,
    real_numbers,
    row_dot,
    truncated_rows,
)
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

_MAX_ORDER = 100  # 1/order! and the powers next to it stay in the range of float64
_EPS = 2.0**-52
_RANGE = 600  # e to this power is far inside the range of float64
_HUGE = 1e300  # times a distance of 0 it is 0, times any other one at least 1
_SHORT = 512  # rows up to this length are sorted where that gives the threshold
# Rows from this length on are cut by the threshold of a part of them.  It pays later
# for alpha below 2, whose shares are many or quickly found.
_LONG, _VERY_LONG = 1 << 13, 1 << 17
_PART = 64  # the part of a very long row
_LIMIT = 400
_PATIENCE = 12  # steps after which every other one bisects


@operator
def softmax(
    x: ArrayLike,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Softmax, :math:`p_i=e^{x_i/\tau}/\sum_je^{x_j/\tau}`.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf, with at least one finite entry in every row.  An entry
        of -inf gets share 0.
    temperature : float
        :math:`\tau>0`; as it falls the shares approach `top_k` with k = 1.
    axis : int, tuple of int, or None
        The axis along which the shares sum to 1; several do together, None means all.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.

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
    tau = check_temperature(temperature)
    rows = finite_rows(x, axis, where)
    p = _softmax(rows.x, tau)
    value = rows.expand(p)
    return value, lambda: Linearization.symmetric(value, rows, p, tau)


@operator
def log_softmax(
    x: ArrayLike,
    *,
    temperature: float = 1.0,
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
    tau = check_temperature(temperature)
    rows = finite_rows(x, axis, where)
    log_p, _ = log_shares(rows.x, tau)
    value = rows.expand(log_p)

    def derivative() -> Linearization:
        p, finite = np.exp(log_p), rows.x > -np.inf

        def push(t: Array) -> Array:
            t = np.where(finite, t - row_dot(p, t)[:, None], 0)
            with np.errstate(over="ignore"):
                return divide(t, tau)

        def pull(g: Array) -> Array:
            g = np.where(finite, g, 0)
            g -= p * g.sum(axis=-1, keepdims=True)
            with np.errstate(over="ignore"):
                return divide(g, tau)

        return Linearization(value, rows, push, pull)

    return value, derivative


@operator
def logsumexp(
    x: ArrayLike,
    *,
    temperature: float = 1.0,
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
    tau = check_temperature(temperature)
    rows = finite_rows(x, axis, where)
    total = tau * log_shares(rows.x, tau)[1].astype(np.float64)
    with np.errstate(over="ignore"):
        value = rows.reduce((rows.x.max(axis=-1) + total).astype(rows.x.dtype))
    return value, lambda: Linearization.gradient(value, rows, _softmax(rows.x, tau))


@operator
def entmax(
    x: ArrayLike,
    alpha: ArrayLike = 1.5,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Entmax: a distribution that is sparse for :math:`\alpha>1`.

    The maximiser of :math:`p\cdot x/\tau+(1-\sum_ip_i^\alpha)/(\alpha(\alpha-1))` over
    the simplex; softmax at :math:`\alpha=1` and `sparsemax` at :math:`\alpha=2`.

    Parameters
    ----------
    x : array_like
        As in `softmax`.
    alpha : array_like
        At least 1: a number, or an array that broadcasts against `x` without `axis`.
    temperature, axis, where
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
    O(n) per row for the maximum and the scores within :math:`\tau/(\alpha-1)` of it,
    and O(that number) for each of a few Newton steps.  For :math:`\alpha\le2` a share
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
    tau = check_temperature(temperature)
    return _entmax(*_entmax_rows(x, alpha, axis, where), tau)


@operator
def sparsemax(
    x: ArrayLike,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Sparsemax: the point of the simplex nearest to :math:`x/\tau`.

    Parameters
    ----------
    x, temperature, axis, where
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
    tau = check_temperature(temperature)
    return _entmax(finite_rows(x, axis, where), 1.0, tau)


@operator
def taylor_softmax(
    x: ArrayLike,
    order: int = 2,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
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
    temperature, axis, where
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
    order, tau = _check_order(order), check_temperature(temperature)
    rows = finite_rows(x, axis, where)
    p, v = _taylor(rows.x, order, tau)
    value = rows.expand(p)

    def push(t: Array) -> Array:
        with np.errstate(over="ignore"):
            return divide(v * t - p * row_dot(v, t)[:, None], tau)

    def pull(g: Array) -> Array:
        with np.errstate(over="ignore"):
            return divide(v * (g - row_dot(p, g)[:, None]), tau)

    return value, lambda: Linearization(value, rows, push, pull)


@operator
def sparse_softmax(
    x: ArrayLike,
    k: ArrayLike,
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Softmax over the k largest scores; the others get share 0.

    Parameters
    ----------
    x : array_like
        As in `softmax`.
    k : array_like
        A whole number, 1 <= k <= the number of finite entries, or an array of them
        that broadcasts against `x` without `axis`.
    temperature, axis, where
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
    tau = check_temperature(temperature)
    rows = truncated_rows(x, k, axis, where)
    p = _softmax(rows.x, tau, top_k(rows.x, rows.k))
    value = rows.expand(p)
    return value, lambda: Linearization.symmetric(value, rows, p, tau)


def log_shares(
    x: Array, tau: float, weight: Array | None = None
) -> tuple[Array, Array]:
    """``log(e^{x_i/tau} / S)`` and ``log S - max(x)/tau``, S the row's weighted sum.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    tau : float
    weight : (R, n) array, optional
        Sums to at least 1 in every row.

    Returns
    -------
    log_p : (R, n) array
        At most 0.
    total : (R,) array
        At least 0, with full relative accuracy.
    """
    d = _distances(x, tau)
    e = np.exp(d)
    if weight is not None:
        e *= weight
    # S = 1 + rest: the largest term would swallow the digits of the others.
    place = x.argmax(axis=-1)[:, None]
    largest = np.take_along_axis(e, place, axis=-1)
    np.put_along_axis(e, place, largest - 1, axis=-1)
    total = np.log1p(np.maximum(e.sum(axis=-1), 0))
    d -= total[:, None]
    return d, total


def entmax_shares(x: Array, b: float | Array, tau: float = 1.0) -> tuple[Array, Array]:
    r"""Shares of entmax with :math:`\alpha=1+b`, and the largest of each row.

    Parameters
    ----------
    x : (R, n) array
        Every row has a finite entry.
    b : float or (R,) float64 array
        At least 0.
    tau : float

    Returns
    -------
    p : (R, n) array
    m : (R,) float64 array
    """
    if not isinstance(b, np.ndarray):
        return _entmax_one(x, b, tau)
    p, m = np.empty_like(x), np.empty(len(x))
    # Where alpha has a closed power, it is exact and faster.
    special = np.where((b == 0) | (b == 0.5) | (b == 1), b, np.nan)
    for value in np.unique(special):
        part = np.isnan(special) if np.isnan(value) else special == value
        step = b[part] if np.isnan(value) else float(value)
        p[part], m[part] = _entmax_one(x[part], step, tau)
    return p, m


def _entmax_one(x: Array, b: float | Array, tau: float) -> tuple[Array, Array]:
    """`entmax_shares` where b is a number, or an array without 0."""
    if not isinstance(b, np.ndarray) and b == 0:
        p = _softmax(x, tau)
        return p, p.max(axis=-1).astype(np.float64)
    steep = not isinstance(b, np.ndarray) and b >= 1
    if x.shape[1] < (_LONG if steep else _VERY_LONG):
        return _entmax_near(x, b, tau, _SHORT)
    p, m = np.zeros_like(x), np.empty(len(x))
    for i in range(len(x)):
        row, power = x[i : i + 1], b[i : i + 1] if isinstance(b, np.ndarray) else b
        index, most = _candidates(row, power, tau)
        # Sorting pays where most of the row is out, Newton's steps where it is not.
        short = x.shape[1] // 4
        found = _entmax_near(row[:, index], power, tau, short, most)
        p[i, index], m[i : i + 1] = found
    return p, m


def _candidates(x: Array, b: float | Array, tau: float) -> tuple[Array, float | Array]:
    """The places in a long row ``(1, n)`` that may have a share, and a bound of those.

    With fewer scores the threshold is lower.  So what is below that of a part of the
    row has no share, and what is above it has at most the share counted from there.
    """
    near, most = x[0] >= _cut(x, b, tau), 1.0
    few = max(_SHORT, x.size // _PART)
    if np.count_nonzero(near) > few:
        some = np.ascontiguousarray(x[:, :: -(-x.size // few)])
        top = some.max(axis=-1).astype(np.float64)
        if top > -np.inf:
            largest = _entmax_one(some, b, tau)[1]
            with np.errstate(over="ignore"):
                reach = tau / b * np.minimum(largest, 1) ** b * (1 + 1e-6)
                near &= x[0] >= (top - reach).astype(x.dtype)
                # Not from the cut, which is rounded to the grid of the scores.
                above = x.max(axis=-1).astype(np.float64) - top + reach
                most = np.minimum(above / tau * b * (1 + 1e-6), 1) ** (1 / b)
    return np.flatnonzero(near), most


def _cut(x: Array, b: float | Array, tau: float) -> Array:
    """The score of each row below which no other has a share."""
    with np.errstate(over="ignore"):
        # Rounding is monotone: no score above the exact cut is left out.
        return (x.max(axis=-1) - tau / b).astype(x.dtype)


def _entmax_near(
    x: Array, b: float | Array, tau: float, short: int, most: float | Array = 1.0
) -> tuple[Array, Array]:
    """`entmax_shares` from the scores near the largest; by sorting up to `short`.

    No share exceeds `most`.
    """
    R, n = x.shape
    if n <= short and not isinstance(b, np.ndarray) and b in (0.5, 1):
        return _entmax_short(x, b, tau)
    index = np.flatnonzero(x >= _cut(x, b, tau)[:, None])
    starts = np.searchsorted(index, np.arange(R) * n)
    counts = np.diff(starts, append=index.size)
    d = x.reshape(-1)[index].astype(np.float64)
    near = _Near(d, starts, counts, b, np.full(R, most))
    with np.errstate(all="ignore"):
        d -= near.spread(x.max(axis=-1))
        if tau != 1:
            d /= tau
        m = near.solve()
        values = near.balanced(m)
    p = np.zeros(x.shape, x.dtype)
    p.reshape(-1)[index] = values
    return p, m


def _entmax_short(x: Array, b: float, tau: float) -> tuple[Array, Array]:
    """`entmax_shares` for b = 1 and b = 1/2 from the sorted scores.

    With the j largest scores alone the threshold is the root of a linear or quadratic
    equation.  Its sums are cumulative; one Newton step over the row, whose sums are
    pairwise, takes their rounding away.
    """
    with np.errstate(over="ignore"):
        z = np.subtract(x, x.max(axis=-1, keepdims=True), dtype=np.float64)
        if tau != b:
            z /= tau / b
    np.maximum(z, -1, out=z)
    order = np.sort(z, axis=-1)[:, ::-1]
    j = np.arange(1, z.shape[1] + 1)
    mean = np.cumsum(order, axis=-1)
    if b == 1:
        mean -= 1
        mean /= j
        t = mean.max(axis=-1, keepdims=True)
        base = np.maximum(z - t, 0)
        t += (base.sum(axis=-1, keepdims=True) - 1) / np.count_nonzero(
            base, axis=-1, keepdims=True
        )
    else:
        mean /= j
        root = (1 - np.cumsum(order * order, axis=-1)) / j + mean * mean
        np.sqrt(np.maximum(root, 0, out=root), out=root)
        np.subtract(mean, root, out=root)
        size = (root <= order).sum(axis=-1, keepdims=True)
        t = np.take_along_axis(root, size - 1, axis=-1)
        base = np.maximum(z - t, 0)
        t += (row_dot(base, base)[:, None] - 1) / (2 * base.sum(axis=-1, keepdims=True))
    z -= np.maximum(t, -1, out=t)
    p = np.maximum(z, 0, out=z)
    if b != 1:
        p *= p
    return p.astype(x.dtype, copy=False), p.max(axis=-1)


@dataclass
class _Near:
    """The scores near the largest of their row, one row after the other.

    Attributes
    ----------
    d : (N,) array
        Distances to the largest score, at most 0.
    starts, counts : (R,) int arrays
        Where each row begins, and its length.
    b : float or (R,) array
        alpha - 1, above 0.
    most : (R,) array
        Bounds of the shares.
    """

    d: Array
    starts: Array
    counts: Array
    b: float | Array
    most: Array

    def spread(self, column: Any) -> Any:
        """One number of each row, repeated for its entries."""
        if not isinstance(column, np.ndarray) or len(column) == 1:
            return column
        return np.repeat(column, self.counts)

    def shares(self, m: Array) -> tuple[Array, Array]:
        """Shares where the largest of each row is m, and their derivatives by m."""
        if not isinstance(self.b, np.ndarray):
            if self.b == 1:
                p = np.maximum(self.d + self.spread(m), 0)
                return p, (p > 0).astype(np.float64)
            if self.b == 0.5:
                root = self.spread(np.sqrt(m))
                base = 0.5 * self.d
                base += root
                np.maximum(base, 0, out=base)
                return base * base, base / root
        scale = np.minimum(self.b * m**-self.b, _HUGE)
        base = self.d * self.spread(scale)
        np.maximum(base, -1, out=base)
        ratio = np.log1p(base)
        ratio /= self.spread(self.b)
        np.exp(ratio, out=ratio)
        base += 1
        slope = np.divide(ratio, base, out=np.zeros_like(base), where=base > 0)
        ratio *= self.spread(m)
        return ratio, slope

    def excess(self, m: Array) -> tuple[Array, Array, Array]:
        r"""By how much the shares exceed 1 at m, the next m, and the shares.

        With u = m^b the b-th power of the sum S is nearly linear in u: linear for
        b = 1, and in the limit b = 0 in log u.  Newton's step is that of
        :math:`S(u)^b=1`.
        """
        p, slope = self.shares(m)
        S = np.add.reduceat(p, self.starts)
        W = np.add.reduceat(slope, self.starts)
        b = self.b
        if not isinstance(b, np.ndarray) and b == 1:
            return S - 1, m - (S - 1) / W, p
        drop = np.expm1(-b * np.log(S)) * S / (m * W)
        return S - 1, m * np.exp(np.log1p(drop) / b), p

    def balanced(self, m: Array) -> Array:
        """Shares at the solution m.

        For b > 1 a share near its start can change by much more than an ulp of m
        does: a fraction of an ulp makes them sum to 1.
        """
        p, slope = self.shares(m)
        if np.any(self.b > 1):
            over = np.add.reduceat(p, self.starts) - 1
            over *= np.asarray(self.b) > 1
            over /= np.add.reduceat(slope, self.starts)
            slope *= self.spread(over)
            p = np.maximum(p - slope, 0)
        return p

    def solve(self) -> Array:
        """The m for which the shares of each row sum to 1."""
        if isinstance(self.b, np.ndarray):
            m, steep = np.empty(len(self.b)), self.b > 1
            for part, method in ((~steep, _Near._fall), (steep, _Near._enclose)):
                if part.any():
                    m[part] = method(self._rows(part))
            return m
        return self._enclose() if self.b > 1 else self._fall()

    def _fall(self) -> Array:
        """For b <= 1: S^b is convex in u, and Newton's steps from above fall to 1."""
        near, rows, m = self, np.arange(len(self.counts)), self.most
        result = m.copy()
        # The error after a step is of second order only where p is smooth in u.
        tight = 4 * _EPS if np.max(self.b) > 0.5 else 2.0**-28
        for _ in range(_LIMIT):
            _, step, p = near.excess(m)
            step = np.minimum(step, m)
            result[rows] = step
            moving = m - step > tight * m
            if not moving.any():
                break
            near, rows, m = near._shrink(moving, p > 0, rows, step)
        return result

    def _enclose(self) -> Array:
        """For b > 1: Newton's steps within a bracket.

        S has a vertical tangent where a share starts: there steps may be tiny far
        from the root, so only the excess or the bracket ends the search.
        """
        low, high = 1 / self.counts, self.most.copy()
        near, rows, m = self, np.arange(len(self.counts)), high
        result = m.copy()
        for count in range(_LIMIT):
            excess, step, p = near.excess(m)
            low[rows] = np.where(excess <= 0, m, low[rows])
            high[rows] = np.where(excess >= 0, m, high[rows])
            left, right = low[rows], high[rows]
            inside = (step > left) & (step < right)
            if count > _PATIENCE and count % 2:
                inside[:] = False
            step = np.where(inside, step, 0.5 * (left + right))
            exact = np.abs(excess) <= _EPS
            moving = ~exact & (right - left > _EPS * right)
            step = result[rows] = np.where(moving, step, np.where(exact, m, right))
            if not moving.any():
                break
            useful = (p > 0) | near.spread(excess < 0)
            near, rows, m = near._shrink(moving, useful, rows, step)
        return result

    def _shrink(
        self, moving: Array, useful: Array, rows: Array, m: Array
    ) -> tuple[_Near, Array, Array]:
        """Leave out rows at rest, and the useless half of the entries of a row.

        What happens to a row depends on that row alone, so that its result is the
        same in any batch.
        """
        long = self.counts > _SHORT
        if moving.all() and not long.any():
            return self, rows, m
        fewer = 2 * np.add.reduceat(useful, self.starts, dtype=np.intp) <= self.counts
        fewer &= long
        if moving.all() and not fewer.any():
            return self, rows, m
        keep = (useful | ~self.spread(fewer)) & self.spread(moving)
        counts = np.add.reduceat(keep, self.starts, dtype=np.intp)[moving]
        starts = np.cumsum(counts) - counts
        b = self.b[moving] if isinstance(self.b, np.ndarray) else self.b
        m = m[moving]
        return _Near(self.d[keep], starts, counts, b, m), rows[moving], m

    def _rows(self, part: Array) -> _Near:
        """Some of the rows, where b is an array."""
        keep, counts = self.spread(part), self.counts[part]
        b = np.asarray(self.b)[part]
        starts = np.cumsum(counts) - counts
        return _Near(self.d[keep], starts, counts, b, self.most[part])


def _entmax(rows: Rows, b: float | Array, tau: float) -> Differentiable[Array]:
    """Entmax with alpha = 1 + b, one number or one for each row."""
    p = entmax_shares(rows.x, b, tau)[0]
    value = rows.expand(p)

    def derivative() -> Linearization:
        power = 1 - (b[:, None] if isinstance(b, np.ndarray) else b)
        some, times = p > 0, 1
        if np.min(power) >= 0:
            root = np.power(p, power, out=np.zeros_like(p), where=some)
        else:  # small shares have large weights: as factors, each within the range
            high = power * np.log(p, out=np.zeros(p.shape), where=some)
            times = math.ceil(max(1.0, np.max(high) / _RANGE))
            root = np.exp(high / times, out=np.zeros(p.shape), where=some)
        return Linearization.symmetric(value, rows, root, tau, times=times)

    return value, derivative


def _entmax_rows(
    x: ArrayLike, alpha: ArrayLike, axis: Axis, where: ArrayLike | None
) -> tuple[Rows, float | Array]:
    """Rows and alpha - 1: a number, or one for each row if alpha is an array."""
    values = real_numbers(alpha, "alpha")
    for bad in values[~((values >= 1) & (values < np.inf))]:
        real_number(bad, "alpha", least=1)
    rows = finite_rows(x, axis, where)
    if values.ndim == 0:
        return rows, float(values) - 1
    rows, column = rows.repeat(values, "alpha")
    return rows, column - 1


def _check_order(order: int) -> int:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
        raise TypeError(f"order must be an integer, got {order!r}")
    if order % 2 or not 2 <= order <= _MAX_ORDER:
        raise ValueError(
            f"order must be even and lie in [2, {_MAX_ORDER}] (a Taylor polynomial of "
            f"odd order has a root), got {order}"
        )
    return int(order)


def _distances(x: Array, tau: float) -> Array:
    """(x - max) / tau."""
    with np.errstate(over="ignore"):
        d = x - x.max(axis=-1, keepdims=True)
        if tau != 1:
            divide(d, tau)
    return d


def _softmax(x: Array, tau: float, weight: Array | None = None) -> Array:
    """Shares proportional to weight * e^{x/tau}."""
    e = _distances(x, tau)
    with np.errstate(under="ignore"):
        np.exp(e, out=e)
    if weight is not None:
        e *= weight
    e /= e.sum(axis=-1, keepdims=True)
    return e


def _taylor(x: Array, order: int, tau: float) -> tuple[Array, Array]:
    """The shares f / F and the slopes f' / F, F the sum of f; 0 where x is -inf.

    f is the Taylor polynomial at u = x/tau.  It is multiplied by r^order,
    r = min(1, 1/max|u|), so that no power overflows: f(u) r^order = h(y)
    = sum_j y^j r^(order-j) / j! with y = u r.  That may be less than float32 holds.
    """
    active = x > -np.inf
    y = np.where(active, x, 0).astype(np.float64)
    M = np.maximum(np.abs(y).max(axis=-1, keepdims=True), tau)
    y /= M
    r = tau / M
    f, slope, power = np.zeros_like(y), np.zeros_like(y), np.ones_like(r)
    with np.errstate(under="ignore"):
        for j in range(order, -1, -1):
            slope = slope * y + f
            f = f * y + power / math.factorial(j)
            power = power * r
        slope *= r
        f *= active
        slope *= active
        total = f.sum(axis=-1, keepdims=True)
        return (f / total).astype(x.dtype), (slope / total).astype(x.dtype)
