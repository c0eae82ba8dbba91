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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import PIECE, Array, Rows, as_rows, check_temperature, row_dot
from .curves import Curve, Moments, resolve
from .linearize import Linearization, differentiable

# One number or an array of one for each row: NumPy's arithmetic is the same.
Number = Any
Bracket = Callable[[], tuple[Number, Number]]
Sums = Callable[[Number], Moments]

_BLOCK = 1 << 21  # bytes of short rows, or of a long one, to work on at a time
_PATIENCE = 6  # evaluations after which a step must halve the excess
_LONG_ROW = 1 << 17  # entries from which on a sample of them pays
_FEW = 8  # the solver looks at the top alone up to this fraction of a row
_SAMPLE = 4096  # entries that give the offset to start from
_LONG = 32.0  # a step of more temperatures asks for a bracket
_LIMIT = 400


@dataclass(frozen=True)
class Solution:
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


def soft_topk_rule(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Linearization:
    """The derivative of `soft_topk`."""
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
        w, shares = _slopes(curve, rows, found, tau)
    pivot = shares.argmax(axis=-1)[:, None]

    def product(t: Array) -> Array:
        # Centred where most of the weight is, constants cancel exactly.
        with np.errstate(all="ignore"):
            t = t - np.take_along_axis(t, pivot, axis=-1)
            t -= row_dot(shares, t)[:, None]
            t *= w
            return _divide(t, tau)

    return Linearization(
        rows.expand(found.p), rows, product, product, dk=rows.expand(shares)
    )


@differentiable(soft_topk_rule)
def soft_topk(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Array:
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
    axis : int
        The axis along which the shares sum to k.
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

    See Also
    --------
    threshold : the threshold behind it.
    top_k : its limit at temperature 0.

    Notes
    -----
    O(n) per row: one selection of the k-th largest score, one pass of the curve's
    function, and a few evaluations.  p is right to a few units in the last place,
    at any scale and offset of the scores.

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
        return rows.expand(solve(curve, rows, tau).p)


def threshold_rule(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Linearization:
    """The derivative of `threshold`."""
    curve, tau = resolve(curve), check_temperature(temperature)
    rows = as_rows(x, k, axis=axis, where=where)
    with np.errstate(all="ignore"):
        found = solve(curve, rows, tau)
        w, shares = _slopes(curve, rows, found, tau)
        value = (found.anchor + tau * found.offset).astype(rows.x.dtype)
        dk = (-tau / w.sum(axis=-1)).astype(rows.x.dtype)
    return Linearization(
        rows.reduce(value),
        rows,
        lambda t: row_dot(shares, t),
        lambda g: shares * g[:, None],
        reduces=True,
        dk=rows.reduce(dk),
    )


@differentiable(threshold_rule)
def threshold(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Any:
    r"""The threshold :math:`\lambda` of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where
        As in `soft_topk`.

    Returns
    -------
    array or scalar
        One number per row, of the shape of `x` without `axis`: the rounded sum of
        anchor and offset.  Where :math:`\lambda` is not unique (the clip curve when
        the gap after the k-th score exceeds the temperature), the middle of its
        interval.  At k = 0 it is +inf, and -inf where k takes all finite entries.

    Raises
    ------
    TypeError, ValueError
        As in `soft_topk`.

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
        value = (found.anchor + tau * found.offset).astype(rows.x.dtype)
    return rows.reduce(value)


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
    free = (k > 0) & (k < rows.count)
    if np.count_nonzero(free) == free.size:
        found = _solve_free(curve, x, k, temperature)
    else:
        found = Solution(
            np.where((k > 0)[:, None], x > -np.inf, False).astype(x.dtype),
            np.zeros(len(x)),
            np.where(k > 0, -np.inf, np.inf),
        )
        part = _solve_free(curve, x[free], k[free], temperature)
        found.p[free] = part.p
        found.anchor[free], found.offset[free] = part.anchor, part.offset
    if rows.count.sum() < x.size:
        found.p[x == -np.inf] = 0
    return found


def _solve_free(curve: Curve, x: Array, k: Array, tau: float) -> Solution:
    """Solve rows with 0 < k < n: some at a time, so that they stay in the cache.

    Long rows and a single one come alone; their thresholds are then plain numbers,
    which cost less than arrays of one.
    """
    R, n = x.shape
    found = Solution(np.empty_like(x), np.empty(R), np.empty(R))
    most = _BLOCK // x.itemsize
    step = 1 if n > PIECE else max(1, min(R, most // n))
    work = np.empty((2, min(step * n, most)), x.dtype)
    for i in range(0, R, step):
        part = i if min(step, R - i) == 1 else slice(i, i + step)
        found.anchor[part], found.offset[part] = _solve_part(
            curve, x[part], k[part], tau, found.p[part], work
        )
    return found


def _solve_part(
    curve: Curve, x: Array, k: Number, tau: float, p: Array, work: Array
) -> tuple[Number, Number]:
    """Anchors and offsets of a block ``(r, n)``, or of one row ``(n,)``; fills p.

    All is done in the memory of p and work: fresh memory costs more than a pass.  A
    long row starts from the offset that a sample of its entries asks for.
    """
    n = x.shape[-1]
    zero, one = map(math.isfinite, curve.support)
    pair = order_pair(x, k, p, one and not zero)
    anchor = _anchor(curve, *pair)
    few = curve.monotone and n > PIECE and _FEW * k <= n
    if few:
        top = curve.prepare(_divide(p[n - math.ceil(k) + 1 :] - anchor, tau))
    v = curve.prepare(_divide(np.subtract(x, anchor[..., None], out=p), tau))

    def ends() -> tuple[Number, Number]:
        """The K-th and J-th largest distance, finite."""
        reach = float(np.finfo(x.dtype).max) / 8
        both = order_pair(x, k, np.empty_like(x)) if one and not zero else pair
        above, below = ((end.astype(np.float64) - anchor) / tau for end in both)
        return np.minimum(above, reach), np.maximum(below, -reach)

    def bracket() -> tuple[Number, Number]:
        return _bracket(curve, *ends(), k, n)

    sums = _sums(curve, v, work)
    if few:
        sums = _narrowed(sums, _sums(curve, top, work))
    t = np.zeros(x.shape[:-1])[()] + _start(curve, ends)
    if n >= _LONG_ROW and not few and min(k, n - k) > 2 * (n // _SAMPLE):
        sample = np.ascontiguousarray(v[:: n // _SAMPLE])
        size = k * (len(sample) / n)
        t = _root(curve, _sums(curve, sample, work), size, t, bracket, x.dtype)
    else:
        t = curve.start(v, sums, k, t)
    if x.ndim == 1:
        t = _root(curve, sums, k, t, bracket, x.dtype)
    else:
        t = _roots(curve, v, k, t, bracket, work)
    if v is not p:
        p[...] = v
    for part in _parts(p):
        shares = curve.select(part, t, _room(part, work))
        if shares is not part:
            part[...] = shares
    return anchor, t - curve.origin


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
    if k.ndim and (k != first).any():
        out.sort(axis=-1)
        place = n - np.stack([np.ceil(k), np.floor(k) + 1], axis=-1).astype(int)
        pair = np.take_along_axis(out, place, axis=-1)
        return pair[..., 0], pair[..., 1]
    K = math.ceil(first)
    out.partition(n - K, axis=-1)
    upper = out[..., n - K].copy()
    if first_only or first != K:
        return upper, upper
    return upper, out[..., : n - K].max(axis=-1)


def _anchor(curve: Curve, upper: Number, lower: Number) -> Number:
    """A number near the threshold.

    A curve that reaches 1 but not 0 keeps it just above the K-th score, one that
    reaches 0 but not 1 just below the J-th; else it lies between them.
    """
    zero, one = map(math.isfinite, curve.support)
    if one and not zero:
        return upper
    if zero and not one:
        return lower
    half = upper.dtype.type(0.5)
    return half * upper + half * lower


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
    low = below - left - (1 + 0.5 * np.abs(left)) + curve.origin
    high = above - right + (1 + 0.5 * np.abs(right)) + curve.origin
    return low, high


def _start(curve: Curve, ends: Callable[[], tuple[Number, Number]]) -> Number:
    """An offset to start from.

    If the curve reaches 0 and 1 it splits the gap between the K-th and J-th entry of
    d evenly, so that on a plateau the threshold is the middle of its interval.
    """
    low, high = curve.support
    if math.isfinite(low) and math.isfinite(high):
        above, below = ends()
        return 0.5 * above + 0.5 * below - 0.5 * (low + high) + curve.origin
    return curve.origin - next(filter(math.isfinite, (high, low)), 0.0)


def _root(
    curve: Curve, sums: Sums, k: Number, t: Number, bracket: Bracket, dtype: Any
) -> Number:
    """The offset of one row from the start t: the curve's steps inside a bracket.

    The order statistics give the bracket when a step is long, or leads out of the
    bracket that the excess at earlier offsets gives, or does not halve the excess.
    """
    tolerance = curve.tolerance[dtype]
    low, high, before = -np.inf, np.inf, np.inf
    for count in range(_LIMIT):
        excess, step = curve.advance(t, sums(t), k)
        if excess >= 0:
            low = t
        if excess <= 0:
            high = t
        size = tolerance * (1 + abs(t))
        if abs(step - t) <= size:
            return step
        slow = count > _PATIENCE and 2 * abs(excess) > before
        before = abs(excess)
        halve = slow or not low < step < high
        if high - low == np.inf and (halve or abs(step - t) > _LONG):
            least, most = bracket()
            low, high = max(low, least), min(high, most)
            halve = slow or not low < step < high
        if halve:
            step = 0.5 * low + 0.5 * high
            if abs(step - t) <= size:
                return step
        t = step
    return t


def _roots(
    curve: Curve, v: Array, k: Array, t: Array, bracket: Bracket, work: Array
) -> Array:
    """The offsets of the rows of a block, as `_root` finds them one by one."""
    tolerance = curve.tolerance[v.dtype]
    found, row = t, np.arange(len(v))
    low, high = np.full(len(v), -np.inf), np.full(len(v), np.inf)
    before, done = high, np.zeros(len(v), bool)
    bounds, sums = None, _sums(curve, v, work)
    for count in range(_LIMIT):
        excess, step = curve.advance(t, sums(t), k)
        low = np.where(excess >= 0, t, low)
        high = np.where(excess <= 0, t, high)
        move, size = np.abs(step - t), tolerance * (1 + np.abs(t))
        halve = ~((step > low) & (step < high))
        if count > _PATIENCE:
            slow = 2 * np.abs(excess) > before
            halve |= slow
        before = np.abs(excess)
        odd = (halve | (move > _LONG)) & ~(done | (move <= size))
        if odd.any():
            wide = odd & (high - low == np.inf)
            if wide.any():
                bounds = bracket() if bounds is None else bounds
                low = np.where(wide, np.maximum(low, bounds[0][row]), low)
                high = np.where(wide, np.minimum(high, bounds[1][row]), high)
                halve = ~((step > low) & (step < high))
                if count > _PATIENCE:
                    halve |= slow
            step = np.where(odd & halve, 0.5 * low + 0.5 * high, step)
            move = np.abs(step - t)
        t = np.where(done, t, step)
        done |= move <= size
        if 4 * np.count_nonzero(done) >= len(done):
            found[row] = t
            if done.all():
                break
            # Rows that are done would only cost time.
            row, v, k, t = row[~done], v[~done], k[~done], t[~done]
            low, high, before = low[~done], high[~done], before[~done]
            done, sums = np.zeros(len(v), bool), _sums(curve, v, work)
    else:
        found[row] = t
    return found


def _sums(curve: Curve, v: Array, work: Array) -> Sums:
    """The curve's sums over each row; those of a long row are added line by line."""
    if v.shape[-1] <= PIECE:
        room = _room(v, work)
        return lambda t: curve.moments(v, t, room)
    parts = list(_parts(v))
    rooms = [_room(part, work) for part in parts]

    def sums(t: Number) -> Moments:
        total: Any = 0.0
        for part, room in zip(parts, rooms, strict=True):
            lines = np.array(curve.moments(part, t, room))
            total = total + lines.sum(axis=-1, dtype=np.float64)
        m, P, C, W = total
        return m, P, C, W

    return sums


def _narrowed(sums: Sums, few: Sums) -> Sums:
    """The same sums from those over a few entries, if the others' never change."""
    zero = np.float64(0.0)
    others = np.subtract(sums(zero), few(zero), dtype=np.float64)

    def narrowed(t: Number) -> Moments:
        m, P, C, W = others + few(t)
        return m, P, C, W

    return narrowed


def _parts(v: Array) -> Iterator[Array]:
    """Views of v: all of it, or a long row in blocks of lines to be summed at once."""
    n = v.shape[-1]
    if n <= PIECE:
        yield v
        return
    least = -(-n // PIECE)
    # Lines of equal length leave no rest, if n has a divisor that allows them.
    count = next((i for i in range(least, 2 * least) if n % i == 0), least)
    full = n - n % count
    lines = v[:full].reshape(count, -1)
    step = max(1, _BLOCK // lines[0].nbytes)
    for i in range(0, count, step):
        yield lines[i : i + step]
    if full < n:
        yield v[None, full:]


def _room(part: Array, work: Array) -> Array:
    """Two arrays like part, in the memory of work."""
    return work[:, : part.size].reshape(2, *part.shape)


def _divide(d: Array, tau: float) -> Array:
    """d / tau in place, also where tau leaves the range of the type of d."""
    if tau == 1:
        return d
    info = np.finfo(d.dtype)
    wide = np.float64 if not info.tiny <= tau <= info.max else d.dtype
    return np.divide(d, tau, out=d, dtype=wide, casting="same_kind")


def _slopes(
    curve: Curve, rows: Rows, found: Solution, tau: float
) -> tuple[Array, Array]:
    """w = f' at every entry, and its share w / W of the row's sum.

    Where the slopes underflow the shares come from their logarithms; where all of
    them vanish the shares are 0.
    """
    dtype = rows.x.dtype
    u = rows.x - found.anchor[:, None].astype(dtype)  # exact: a score or a midpoint
    u = _divide(u, tau)
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
