r"""The threshold of a curve, and the smooth top-k selection that it defines.

For a curve f (see `softtopk.curves`), scores :math:`x\in\mathbb{R}^n`, a temperature
:math:`\tau` and a real budget :math:`0<k<n`,

.. math:: \sum_i f\Bigl(\frac{x_i-\lambda}{\tau}\Bigr)=k,\qquad
          p_i=f\Bigl(\frac{x_i-\lambda}{\tau}\Bigr)

has a solution, and p is the same for every threshold :math:`\lambda` that solves it.
With :math:`w_i=f'((x_i-\lambda)/\tau)` and :math:`W=\sum_i w_i`,

.. math:: \frac{\partial\lambda}{\partial x_j}=\frac{w_j}{W},\quad
          \frac{\partial p_i}{\partial x_j}
            =\frac1\tau\Bigl(w_i\delta_{ij}-\frac{w_iw_j}{W}\Bigr),\quad
          \frac{\partial p_i}{\partial k}=\frac{w_i}{W}.

The solver keeps :math:`\lambda=a+\tau t` as an anchor a among the scores and an
offset t, so that an offset common to all scores costs no accuracy.  It brackets t by
order statistics, lets the curve propose steps, and bisects when a step leaves the
bracket.  Derived in *selection/threshold* and *selection/derivatives*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._operator import Differentiable, Linearization, operator
from ._rows import (
    WHOLE,
    Array,
    Axis,
    Rows,
    as_rows,
    check_temperature,
    divide,
    row_dot,
)
from .curves import Curve, Moments, Room, column, resolve

# One number or an array of one for each row: NumPy's arithmetic is the same.
Number = Any
Bracket = Callable[[], tuple[Number, Number]]

_BLOCK = 1 << 20  # bytes of short rows, or of a long one, to work on at a time
_ALONE = 10_000  # a longer row does not share a block with others
_PATIENCE = 6  # evaluations after which a step must halve the excess
_LONG_ROW = 1 << 15  # entries from which on a sample of them pays
_FEW = 8  # the solver looks at the top alone up to this fraction of a row
_VERY_LONG_ROW = 1 << 17  # entries from which on the sample's own threshold pays
_SAMPLE = 1024  # entries that give the anchor and the offset to start from
_NEAR = 8.0  # temperatures; a sample that lies within them may give the anchor
_CROSSED = 2  # with more entries to be expected in a step, some will be there
_LONG = 32.0  # a step of more temperatures asks for a bracket
_LIMIT = 400


class Solution(NamedTuple):
    """Shares and thresholds of rows: ``lambda = anchor + temperature * offset``.

    Attributes
    ----------
    p : (R, n) array
    anchor, offset : (R,) float64 arrays
        The offset is +inf where k = 0 and -inf where k takes all finite entries.
    """

    p: Array
    anchor: Array
    offset: Array


@operator
def soft_topk(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Smooth top-k selection: shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.  An entry of -inf gets share 0.
    k : array_like
        Budget, a real number or an array that broadcasts against `x` without
        `axis`; 0 <= k <= the number of finite entries.  At 0 and at that number
        the shares are exactly 0 and 1.
    curve : str or Curve
        "exp", "laplace", "sigmoid", "clip", "triangular", or a curve from
        `softtopk.curves`, or one of your own.
    temperature : float
        :math:`\tau>0`; as it falls the shares approach `top_k`.
    axis : int, tuple of int, or None
        The axis along which the shares sum to k; several do together, None means all.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.

    Returns
    -------
    array
        p, of the shape of `x`, or of its broadcast against `k` (float32 if `x` is
        float32 or float16, else float64).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    threshold : the threshold behind it.
    top_k : its limit at temperature 0.

    Notes
    -----
    O(n) per row: one selection of the k-th largest score (of a sample, in a long row),
    one pass of the curve's function, and a few evaluations.  The absolute error of p is
    a few eps, at any scale and offset of the scores; shares below 1e-300 (float32:
    1e-34) are not resolved.

    References
    ----------
    Claims A34 to A42, https://spaces.ac.cn/archives/10373.

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.soft_topk([3.0, 1.0, 0.0, 0.0], 2).round(4).tolist()
    [0.9455, 0.5975, 0.2285, 0.2285]
    >>> stk.soft_topk([3.0, 1.0, 0.0, 0.0], 2, temperature=0.01).round(4).tolist()
    [1.0, 1.0, 0.0, 0.0]
    >>> p = stk.soft_topk([[1.0, 2.0], [3.0, 4.0]], [0.5, 1.5], "exp")
    >>> p.sum(axis=1).round(12).tolist()
    [0.5, 1.5]
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
    value = rows.expand(found.p)

    def derivative() -> Linearization:
        with np.errstate(all="ignore"):
            w, shares = _slopes(curve, rows, found, tau)
        return Linearization.symmetric(
            value, rows, w, tau, shares=shares, dk=rows.expand(shares)
        )

    return value, derivative


@operator
def threshold(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The threshold :math:`\lambda` of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    array or scalar
        One number per row, of the shape of `x` without `axis`, or of its broadcast
        against `k`: the rounded sum of anchor and offset.  Where :math:`\lambda` is not
        unique, the middle of its interval if the curve reaches 0 and 1 and the gap
        after the k-th score exceeds its width times the temperature; some point of the
        interval for a curve that is flat in between.  At k = 0 it is +inf, and -inf
        where k takes all finite entries.

    Raises
    ------
    TypeError, ValueError
        As in `soft_topk`.

    Notes
    -----
    O(n) per row, the cost of `soft_topk`.

    References
    ----------
    Claims A34 to A42, results N-1, N-5 and N-6.

    Examples
    --------
    >>> import softtopk as stk
    >>> float(stk.threshold([5.0, 0.0], 1, "clip"))
    2.0
    >>> round(float(stk.threshold([1.0, 0.0], 1, "exp")), 6)  # log(1 + e)
    1.313262
    """
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
        lam = (found.anchor + tau * found.offset).astype(rows.x.dtype)
    value = rows.reduce(lam)

    def derivative() -> Linearization:
        with np.errstate(all="ignore"):
            w, shares = _slopes(curve, rows, found, tau)
            dk = (-tau / w.sum(axis=-1)).astype(rows.x.dtype)
        return Linearization.gradient(value, rows, shares, dk=rows.reduce(dk))

    return value, derivative


def solve(curve: Curve, rows: Rows, temperature: float = 1.0) -> Solution:
    """Solve every row.

    Parameters
    ----------
    curve : Curve
    rows : Rows
        From `as_rows`, with a budget.
    temperature : float

    Returns
    -------
    Solution
    """
    x, k = rows.x, rows.k
    if len(x) == 1 and 0 < k[0] < rows.finite[0]:  # without what only a batch needs
        found = Solution(np.empty_like(x), np.empty(1), np.empty(1))
        work = _work(min(x.size, _BLOCK // x.itemsize), x.dtype)
        found.anchor[0], found.offset[0] = _solve_part(
            curve, x[0], k[0], rows.finite[0], temperature, found.p[0], work
        )
        if rows.finite[0] < x.size:
            np.multiply(found.p, x > -np.inf, out=found.p)
        return found
    free = (k > 0) & (k < rows.finite)
    if np.count_nonzero(free) == free.size:
        found = _solve_free(curve, x, k, rows.finite, temperature)
    else:
        found = Solution(
            np.where((k > 0)[:, None], x > -np.inf, False).astype(x.dtype),
            np.zeros(len(x)),
            np.where(k > 0, -np.inf, np.inf),
        )
        part = _solve_free(curve, x[free], k[free], rows.finite[free], temperature)
        found.p[free] = part.p
        found.anchor[free], found.offset[free] = part.anchor, part.offset
    if rows.finite.sum() < x.size:
        np.multiply(found.p, x > -np.inf, out=found.p)
    return found


def _solve_free(curve: Curve, x: Array, k: Array, m: Array, tau: float) -> Solution:
    """Solve rows with 0 < k < m finite entries, some at a time for the cache.

    Long rows and a single one come alone; their thresholds are then plain numbers,
    which cost less than arrays of one.
    """
    R, n = x.shape
    found = Solution(np.empty_like(x), np.empty(R), np.empty(R))
    most = _BLOCK // x.itemsize
    step = 1 if n > _ALONE else max(1, min(R, most // n))
    work = _work(min(step * n, most), x.dtype)
    for i in range(0, R, step):
        part = i if min(step, R - i) == 1 else slice(i, i + step)
        found.anchor[part], found.offset[part] = _solve_part(
            curve, x[part], k[part], m[part], tau, found.p[part], work
        )
    return found


def _solve_part(
    curve: Curve, x: Array, k: Number, m: Number, tau: float, p: Array, work: Room
) -> tuple[Number, Number]:
    """Anchors and offsets of a block ``(r, n)``, or of one row ``(n,)``; fills p.

    All is done in the memory of p and work: fresh memory costs more than a pass.
    """
    n, single = x.shape[-1], x.ndim == 1
    if single and curve.free:
        found = _solve_from_sample(curve, x, k, m, tau, p, work)
        if found is not None:
            return found
    zero, one = map(math.isfinite, curve.support)
    pair = order_pair(x, k, p, one and not zero)
    anchor = curve.anchor(*pair)
    top = None
    if curve.monotone and n > _ALONE and _FEW * k <= n:
        top = curve.prepare(divide(p[n - math.ceil(k) + 1 :] - anchor, tau))
    d = divide(np.subtract(x, column(anchor, x), out=p), tau)

    def ends() -> tuple[Number, Number]:
        """The K-th and J-th largest distance, finite."""
        reach = float(np.finfo(x.dtype).max) / 8
        both = order_pair(x, k, np.empty_like(x)) if one and not zero else pair
        above, below = ((end.astype(np.float64) - anchor) / tau for end in both)
        return np.minimum(above, reach), np.maximum(below, -reach)

    def bracket() -> tuple[Number, Number]:
        return _bracket(curve, *ends(), k, n)

    t, settled = _start(curve, ends)
    if single:
        if top is None and not settled:  # steps on a few cost little
            t = _guess(curve, d, k, m, t, bracket, work)
    else:
        t = np.where(settled, t, curve.start(d, k, t + np.zeros(len(x))))
    v = curve.prepare(d)
    if v is not p:
        p[...] = v
    sums = _Sums(curve, p, work)
    if not single:
        t = _roots(curve, p, k, t, settled, bracket, work)
    elif top is not None:
        few, whole = _Sums(curve, top, work), sums(t)
        narrowed = _Narrowed(few, np.subtract(whole, few(t), dtype=np.float64))
        t = _root(curve, narrowed, k, curve.advance(t, whole, k)[1], bracket, x.dtype)
    elif one and zero and n > _ALONE and not settled:
        t = _root_within(curve, sums, p, k, t, ends(), bracket, work)
    elif not settled:
        t = _root(curve, sums, k, t, bracket, x.dtype)
    sums.select(t)
    return anchor, curve.offset(t)


def _solve_from_sample(
    curve: Curve, x: Array, k: Number, m: Number, tau: float, p: Array, work: Room
) -> tuple[Number, Number] | None:
    """`_solve_part` for a long row of scores that lie near each other, else None.

    The k-th score takes longer than an evaluation, and all it serves for is to count
    from it: the threshold may be log(n) temperatures away, or as far as the support is
    wide.  The k-th score of a sample does as well, if the threshold turns out to be
    hardly farther from it.
    """
    n = x.size
    low, high = curve.support
    if n < _LONG_ROW or (_extreme(k, m, n) and min(-low, high) < math.inf):
        return None
    anchor, sample, part = _sample(x, k, m)
    divide(sample, tau)
    if not sample.size or not sample.dot(sample) <= _NEAR * _NEAR * sample.size:
        return None
    t = curve.place(np.float64(-curve.centre))
    t = _sampled_start(curve, sample, part, t, None, n, work)
    curve.prepare(divide(np.subtract(x, anchor, out=p), tau))
    sums = _Sums(curve, p, work)
    t = _root(curve, sums, k, t, None, x.dtype)
    offset, width = curve.offset(t), high - low
    if not abs(offset) <= min(math.log(n), 1 + width):
        return None
    if width < math.inf:
        # Without a share between 0 and 1 the threshold may be one of many.
        inner = np.abs(sample - offset - curve.centre) < 0.49 * width
        if np.count_nonzero(inner) == 0:
            return None
    sums.select(t)
    return anchor, offset


def order_pair(
    x: Array, k: Number, out: Array, first_only: bool = False
) -> tuple[Number, Number]:
    """The K-th and J-th largest of each row, K = ceil(k) and J = floor(k) + 1.

    For a whole k they are the last score above the gap and the first one below it;
    else they are the same.

    Parameters
    ----------
    x : (..., n) array
    k : (...) array
        0 < k < n.
    out : (..., n) array
        Gets each row in another order, with the K - 1 largest at its end.
    first_only : bool
        Whether the K-th will do, twice.
    """
    n = x.shape[-1]
    out[...] = x
    first = k[0] if k.ndim else k
    if not k.ndim and k <= 1 and (first_only or k < 1):
        upper = np.maximum.reduce(x)
        return upper, upper
    if k.ndim and (k != first).any():
        out.sort(axis=-1)
        place = n - np.stack([np.ceil(k), np.floor(k) + 1], axis=-1).astype(int)
        pair = np.take_along_axis(out, place, axis=-1)
        return pair[..., 0], pair[..., 1]
    K = math.ceil(first)
    out.partition(n - K, axis=-1)
    upper = out[..., n - K].copy()[()]
    if first_only or first != K:
        return upper, upper
    return upper, np.maximum.reduce(out[..., : n - K], axis=-1)


def _bracket(
    curve: Curve, above: Number, below: Number, k: Number, n: int
) -> tuple[Number, Number]:
    r"""Bounds of the offset from the K-th and J-th largest entry of d.

    :math:`d_{(J)}-f^{-1}(k/J)\le t\le d_{(K)}-f^{-1}((k-K+1)/(n-K+1))`, since f is at
    most 1 above and at least 0 below; widened for rounding.
    """
    K, J = np.ceil(k), np.floor(k) + 1
    tiny = np.finfo(np.float64).tiny
    left = curve.inverse(k / J)
    right = curve.inverse(np.maximum((k - K + 1) / (n - K + 1), tiny))
    low = below - left - (1 + 0.5 * np.abs(left))
    high = above - right + (1 + 0.5 * np.abs(right))
    return curve.place(low), curve.place(high)


def _start(
    curve: Curve, ends: Callable[[], tuple[Number, Number]]
) -> tuple[Number, Any]:
    """An offset to start from, and whether it is the threshold.

    If the curve reaches 0 and 1 it splits the gap between the K-th and J-th entry of
    d evenly, so that on a plateau it is the middle of the interval of thresholds.
    """
    low, high = curve.support
    if not (math.isfinite(low) and math.isfinite(high)):
        return curve.place(np.float64(-curve.centre)), False
    above, below = ends()
    t = curve.place(0.5 * above + 0.5 * below - curve.centre)
    return t, above - below >= high - low


def _guess(
    curve: Curve,
    d: Array,
    k: Number,
    m: Number,
    t: Number,
    bracket: Bracket,
    work: Room,
) -> Number:
    """The offset to start a row from: if it is long, that of a sample of it.

    The sample counts from its own k-th score.  What that one misses, its threshold
    misses alike.
    """
    n = d.size
    if n < _LONG_ROW or _extreme(k, m, n):
        return curve.start(d, k, t)
    _, sample, part = _sample(d, k, m)
    if not sample.size:
        return curve.start(d, k, t)
    return _sampled_start(curve, sample, part, t, bracket, n, work)


def _extreme(k: Number, m: Number, n: int) -> bool:
    """Whether so few are to be selected, or left, that a sample has hardly any."""
    return bool(min(k, m - k) <= 2 * (n // _SAMPLE))


def _sample(row: Array, k: Number, m: Number) -> tuple[Number, Array, Number]:
    """A number near the k-th score, a sample counted from there, and its budget.

    The sample is of the m entries that are finite; it may have none of them.
    """
    n = row.size
    sample = row[:: n // _SAMPLE]
    sample = sample.copy() if m == n else sample[sample > -np.inf]
    part = k * (sample.size / m)
    if not sample.size:
        anchor = np.maximum.reduce(row)
    elif not _extreme(k, m, n):
        place = sample.size - math.ceil(part)
        sample.partition(place)
        anchor = sample[place]
    else:
        anchor = (np.maximum if 2 * k < m else np.minimum).reduce(row)
    sample -= anchor
    return anchor, sample, part


def _sampled_start(
    curve: Curve,
    sample: Array,
    k: Number,
    t: Number,
    bracket: Bracket | None,
    n: int,
    work: Room,
) -> Number:
    """The offset that a sample of a row of n entries asks for."""
    t = curve.start(sample, k, t)
    if curve.monotone or n < _VERY_LONG_ROW:
        return t
    sums = _Sums(curve, curve.prepare(sample), work)
    return _root(curve, sums, k, t, bracket, sample.dtype)


def _root(
    curve: Curve,
    sums: _Sums | _Narrowed,
    k: Number,
    t: Number,
    bracket: Bracket | None,
    dtype: Any,
    low: Number = -np.inf,
    high: Number = np.inf,
) -> Number:
    """The offset of one row from the start t: the curve's steps inside a bracket.

    The order statistics give the bracket when a step is long, or leads out of the
    bracket that the excess at earlier offsets gives, or does not halve the excess.
    Without `bracket` the offset is NaN then.
    """
    tolerance = curve.tolerance[dtype]
    before = np.inf
    for count in range(_LIMIT):
        moments = sums(t)
        excess, step = curve.advance(t, moments, k)
        if excess >= 0:
            low = t
        if excess <= 0:
            high = t
        move = abs(step - t)
        size = tolerance * (min(1, k) + abs(t))
        if move <= size and _settles(curve, sums, step, move, size, moments):
            return step
        slow = count > _PATIENCE and 2 * abs(excess) > before
        before = abs(excess)
        halve = slow or not low < step < high
        if high - low == np.inf and (halve or move > _LONG):
            if bracket is None:
                return np.nan
            least, most = bracket()
            low, high = max(low, least), min(high, most)
            halve = slow or not low < step < high
        if halve:
            step = 0.5 * low + 0.5 * high
            if 16 * abs(step - t) <= size:
                return step
        elif (
            curve.exact
            and _steady(t, step, k, moments)
            and sums.count(step) == moments[0]
        ):
            return step
        t = step
    return t


def _settles(
    curve: Curve,
    sums: _Sums | _Narrowed,
    step: Number,
    move: Number,
    size: Number,
    moments: Moments,
) -> Any:
    """Whether a step of at most this size is the last: not if it passes a jump.

    A slope that is many times as steep there would have asked for as much less.
    """
    if not curve.counted:
        return True
    return (16 * move <= size) | (sums.count(step) == moments[0])


def _root_within(
    curve: Curve,
    sums: _Sums,
    d: Array,
    k: Number,
    t: Number,
    ends: tuple[Number, Number],
    bracket: Bracket,
    work: Room,
) -> Number:
    """`_root` for a curve that reaches 0 and 1, from the entries whose shares may vary.

    The threshold has the K-th entry above the lower end of the support and the J-th
    below the upper one.  What lies by the width of the support lower has no share,
    and what lies as much higher has a whole one.
    """
    low, high = curve.support
    reach = 1.25 * (high - low)  # more than the width, for rounding
    above, below = ends[0] + reach, ends[1] - reach
    near = (d > below) & (d < above)
    if _FEW * np.count_nonzero(near) > d.size:
        return _root(curve, sums, k, t, bracket, d.dtype)
    least, most = curve.place(below - low), curve.place(above - high)
    few, whole = d[near], np.full(1, above, d.dtype)
    one = curve.moments(whole, least, (np.empty_like(whole), np.empty_like(whole)))
    others = np.count_nonzero(d >= above) * np.array(one, np.float64)
    narrowed = _Narrowed(_Sums(curve, few, work), others)
    return _root(curve, narrowed, k, t, bracket, d.dtype, least, most)


def _roots(
    curve: Curve,
    v: Array,
    k: Array,
    t: Array,
    settled: Any,
    bracket: Bracket,
    work: Room,
) -> Array:
    """The offsets of the rows of a block, as `_root` finds them one by one."""
    tolerance = curve.tolerance[v.dtype]
    found, row = t, np.arange(len(v))
    low, high = np.full(len(v), -np.inf), np.full(len(v), np.inf)
    before, done = high, np.zeros(len(v), bool) | settled
    bounds, sums = None, _Sums(curve, v, work)
    for count in range(_LIMIT):
        moments = sums(t)
        excess, step = curve.advance(t, moments, k)
        low = np.where(excess >= 0, t, low)
        high = np.where(excess <= 0, t, high)
        move, size = np.abs(step - t), tolerance * (np.minimum(k, 1) + np.abs(t))
        halve = ~((step > low) & (step < high))
        if count > _PATIENCE:
            slow = 2 * np.abs(excess) > before
            halve |= slow
        before = np.abs(excess)
        near = move <= size
        if (near & ~done).any():
            near &= _settles(curve, sums, step, move, size, moments)
        odd = (halve | (move > _LONG)) & ~(done | near)
        if odd.any():
            wide = odd & (high - low == np.inf)
            if wide.any():
                bounds = bracket() if bounds is None else bounds
                low = np.where(wide, np.maximum(low, bounds[0][row]), low)
                high = np.where(wide, np.minimum(high, bounds[1][row]), high)
                halve = ~((step > low) & (step < high))
                if count > _PATIENCE:
                    halve |= slow
            odd &= halve
            step = np.where(odd, 0.5 * low + 0.5 * high, step)
            near |= odd & (16 * np.abs(step - t) <= size)
        if curve.exact and not curve.monotone:  # whose moments cost no more
            steady = _steady(t, step, k, moments) & ~(done | near | odd)
            if steady.any():
                near |= steady & (sums.count(step) == moments[0])
        t = np.where(done, t, step)
        done |= near
        if 2 * np.count_nonzero(done) >= len(done):
            found[row] = t
            if done.all():
                break
            # Rows that are done would only cost time.
            row, v, k, t = row[~done], v[~done], k[~done], t[~done]
            low, high, before = low[~done], high[~done], before[~done]
            done, sums = np.zeros(len(v), bool), _Sums(curve, v, work)
    else:
        found[row] = t
    return found


def _steady(t: Number, step: Number, k: Number, moments: Moments) -> Any:
    """Whether a step is so short that it may well have passed no kink.

    The rounding of a step that leads to a much smaller number would be felt there.
    """
    move = np.abs(step - t)
    fine = np.abs(t) <= 2 * (np.minimum(k, 1) + np.abs(step))
    return fine & (move < 1) & (move * moments[3] < _CROSSED)


class _Sums:
    """The curve's sums over each row; a long one comes in parts for the cache."""

    def __init__(self, curve: Curve, v: Array, work: Room) -> None:
        self.curve = curve
        self.parts = [(part, _room(part, work)) for part in _parts(v)]

    def select(self, t: Number) -> None:
        """Put the shares in the place of v."""
        for part, room in self.parts:
            shares = self.curve.select(part, t, room)
            if shares is not part:
                part[...] = shares

    def __call__(self, t: Number) -> Moments:
        if len(self.parts) == 1:
            part, room = self.parts[0]
            return self.curve.moments(part, t, room)
        moments = (self.curve.moments(part, t, room) for part, room in self.parts)
        m, P, C, W = np.array(list(moments)).sum(axis=0, dtype=np.float64)
        return m, P, C, W

    def count(self, t: Number) -> Number:
        """The first of the moments alone, of an exact curve."""
        masks = (
            mask for part, room in self.parts for mask in self.curve.past(part, t, room)
        )
        if not isinstance(t, np.ndarray):
            return sum(map(np.count_nonzero, masks))
        dtype = self.parts[0][0].dtype  # np.count_nonzero is slower along an axis
        return sum(
            row_dot(high, high, WHOLE) for high in (m.astype(dtype) for m in masks)
        )


class _Narrowed:
    """The same sums from those over a few entries, if the others' never change."""

    def __init__(self, few: _Sums, others: Array) -> None:
        self._few, self._others = few, others

    def __call__(self, t: Number) -> Moments:
        m, P, C, W = self._others + self._few(t)
        return m, P, C, W

    def count(self, t: Number) -> Number:
        """The first of the moments alone."""
        return self._others[0] + self._few.count(t)


def _parts(v: Array) -> list[Array]:
    """Views of v: all of it, or parts of a long row."""
    step = _BLOCK // v.itemsize
    if v.size <= step or v.ndim > 1:
        return [v]
    return [v[i : i + step] for i in range(0, v.size, step)]


def _work(size: int, dtype: Any) -> Room:
    return np.empty(size, dtype), np.empty(size, dtype)


def _room(part: Array, work: Room) -> Room:
    """Two arrays like part, in the memory of work."""
    first, second = work
    if part.shape == first.shape:
        return work
    size, shape = part.size, part.shape
    return first[:size].reshape(shape), second[:size].reshape(shape)


def _slopes(
    curve: Curve, rows: Rows, found: Solution, tau: float
) -> tuple[Array, Array]:
    """w = f' at every entry, and its share w / W of the row's sum.

    Where the slopes underflow the shares come from their logarithms; where all of
    them vanish the shares are 0.
    """
    dtype = rows.x.dtype
    u = rows.x - found.anchor[:, None].astype(dtype)  # exact: a score or a midpoint
    u = divide(u, tau)
    u -= found.offset[:, None].astype(dtype)
    w = curve.slope(u)
    w[~np.isfinite(u)] = 0
    W = w.sum(axis=-1)
    shares = w / np.where(W > 0, W, 1)[:, None]
    faint = W < np.sqrt(np.finfo(dtype).tiny)
    if faint.any():
        log = curve.log_slope(u[faint])
        top = log.max(axis=-1, keepdims=True)
        weight = np.where(top > -np.inf, np.exp(log - top), 0)
        total = weight.sum(axis=-1, keepdims=True)
        shares[faint] = weight / np.where(total > 0, total, 1)
    return w, shares
