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

With `cost` the shares spend the budget instead, :math:`\sum_ic_ip_i=K`, and are

.. math:: p_i=f\Bigl(\frac{x_i-\lambda c_i}{\tau}\Bigr)\quad\text{or}\quad
          p_i=f\Bigl(\frac{x_i-\lambda}{\tau}\Bigr),

as scores are what an entry is worth, or a unit of its cost
(`softtopk._search.costs_search`).

The solver (`softtopk._search`) keeps :math:`\lambda=a+\tau t` as an anchor a and an
offset t, so that an offset common to all scores costs no accuracy.  Derived in
*selection/threshold*, *computing/threshold* and *selection/derivatives*.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import Call
from ._linearize import Differentiable, operator
from ._operators import selection_body
from ._rows.adapter_rows import Asked
from ._rows.numpy_rows import Array, Axis
from .curves import Curve

__all__ = ["soft_topk", "threshold"]


@operator
def soft_topk(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    per: str = "entry",
    empty: str = "raise",
) -> Differentiable[Array]:
    r"""Smooth top-k selection: shares in [0, 1] that sum to k.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.  An entry of -inf gets share 0.
    k : array_like
        Budget, a real number or an array that broadcasts against `x` without
        `axis`: for scores of shape (B, n) one of shape (B,), not (B, 1).
        0 <= k <= the number of finite entries.  At 0 and at that number the shares
        are exactly 0 and 1.
    curve : str or Curve
        A name in `softtopk.curves.NAMED`, such as "laplace" or "exp", or a curve from
        `softtopk.curves`, or one of your own.
    temperature : array_like
        :math:`\tau>0`, one for all or one a row (an array that broadcasts to the
        shape of the result without `axis`); as it falls the shares approach `top_k`.
    axis : int, tuple of int, or None
        The axis along which the shares sum to k; several do together, None means all.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.
    cost : array_like, optional
        What each entry costs, finite and above 0: it broadcasts to the shape of `x`.
        The shares then spend the budget: :math:`\sum_ic_ip_i=k`, for any k from 0 to
        the sum of the costs of the finite entries.
    per : "entry" or "cost"
        What a score is the worth of, where there are costs.  By "entry" it is that of
        an entry, and :math:`p_i=f((x_i-\lambda c_i)/\tau)`: an entry is selected if it
        is worth more than its price.  By "cost" it is that of a unit of cost, and
        :math:`p_i=f((x_i-\lambda)/\tau)`: a larger score gets a larger share whatever
        it costs, and an entry of cost 3 is three entries of cost 1.  Both have the
        units of the temperature, which costs do not change.
    empty : "raise", "zeros" or "all"
        What a row is that has fewer entries than places.  By "raise" it is an error, by
        "all" all its entries are selected: a budget above their number, or above the
        sum of their costs, is lowered to it.  By "zeros" it is an error too, except
        that a row without any entry that takes part (because `where` leaves all of them
        out or all scores are -inf) has the shares 0 whatever its budget is; by "all" it
        has them as well.  The derivatives are 0 then.

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
    1e-34) are not resolved.  Equal scores of a row get equal shares, and a larger score
    never a smaller share by more than two units in the last place: NumPy's exponential
    may fall by one between neighbouring scores (in float32, on some processors), and
    scaled, one unit may become two.

    With costs the search is that of `softtopk._search.costs_search`: ten to a hundred
    passes, each of some dozen operations an entry.  Scores, costs and budget are taken
    as the exact numbers that they are; with :math:`\omega_i=f'(u_i)` at
    :math:`u_i=(x_i-\lambda s_i)/\tau` the error of a share is at most

    .. math:: 4\varepsilon\Bigl[1+\omega_i|u_i|+\frac{s_i\omega_i}
              {\sum_jc_js_j\omega_j}\sum_jc_j\bigl(\min(p_j,1-p_j)+\omega_j|u_j|\bigr)
              \Bigr]

    whatever the costs (and eps squared times what cancels, such as
    :math:`x_i/\tau`).  By "cost" that is a few eps, times the mean of :math:`|u_j|`.
    For values whose noise is per unit of cost give ``x / cost`` by "cost": the
    division rounds, which the shares feel as a change of x by half an ulp.

    References
    ----------
    Claims A34a to A42, https://spaces.ac.cn/archives/10373.

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

    Three parts that cost 1, 2 and 4, and 5 to spend:

    >>> p = stk.soft_topk([2.0, 2.0, 3.0], 5, cost=[1.0, 2.0, 4.0], temperature=0.1)
    >>> p.round(4).tolist()
    [1.0, 0.9966, 0.5017]
    """
    call = Call()
    asked = Asked(x, k, curve, temperature, axis, where, cost, per, empty)
    value = call.run(selection_body.shares_of, asked)
    return value, lambda: call.solved.derivative(value)


@operator
def threshold(
    x: ArrayLike,
    k: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    per: str = "entry",
) -> Differentiable[Any]:
    r"""The threshold :math:`\lambda` of `soft_topk`, in the units of the scores.

    Parameters
    ----------
    x, k, curve, temperature, axis, where, cost, per
        As in `soft_topk`.

    Returns
    -------
    array or scalar
        One number per row, of the shape of `x` without `axis`, or of its broadcast
        against `k`: the rounded sum of anchor and offset.  With costs it is the price
        of a unit of cost, which by "entry" has the units of the scores over those of
        the costs.  Where :math:`\lambda` is not
        unique, the middle of its interval if the curve reaches 0 and 1 and the gap
        after the k-th score exceeds its width times the temperature; some point of the
        interval for a curve that is flat in between.  At k = 0 it is +inf, and -inf
        where k takes all finite entries.  The middle has its own derivatives by the
        scores; by `k`, in which it jumps, the derivative is 0, and that of an infinite
        threshold is 0 by everything.

    Raises
    ------
    TypeError, ValueError
        As in `soft_topk`.

    Notes
    -----
    O(n) per row, the cost of `soft_topk`.

    References
    ----------
    Claims A34a to A42, results N-1, N-5 and N-6.

    Examples
    --------
    >>> import softtopk as stk
    >>> float(stk.threshold([5.0, 0.0], 1, "clip"))
    2.0
    >>> round(float(stk.threshold([1.0, 0.0], 1, "exp")), 6)  # log(1 + e)
    1.313262
    """
    call, asked = Call(), Asked(x, k, curve, temperature, axis, where, cost, per)
    value = call.run(selection_body.threshold_of, asked)
    return value, lambda: call.solved.of_threshold(value)
