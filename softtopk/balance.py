r"""Two budgets: smooth selection with given sums of the rows and of the columns.

Of all :math:`P\in[0,1]^{m\times n}` with row sums k and column sums c,

.. math:: P_{ij}=f\Bigl(\frac{S_{ij}-\alpha_i-\beta_j}{\tau}\Bigr)

is the one with the largest :math:`\sum S_{ij}P_{ij}-\tau\sum\varphi(P_{ij})`: one curve
and two thresholds, which minimise the convex dual

.. math:: D(\alpha,\beta)=\tau\sum_{ij}F\Bigl(\frac{S_{ij}-\alpha_i-\beta_j}{\tau}
          \Bigr)+k\cdot\alpha+c\cdot\beta .

A round holds the rows at their budgets, by the solver of `soft_topk`, and moves
:math:`\beta`: by Newton's step, or where that is of no use, to the columns' own
thresholds (the alternation, which is Sinkhorn's for :math:`f=e^t`).

With the weights :math:`W=f'`, the derivative takes from a change of the scores its
weighted least squares fit by :math:`a_i+b_j`:

.. math:: dP_{ij}=\frac{W_{ij}}\tau\,(dS_{ij}-a_i-b_j),\qquad
          \begin{pmatrix}D_r&W\\W^\top&D_c\end{pmatrix}
          \begin{pmatrix}a\\b\end{pmatrix}
          =\begin{pmatrix}\sum_jW_{ij}\,dS_{ij}\\\sum_iW_{ij}\,dS_{ij}\end{pmatrix}.

The larger side is eliminated; Newton's step has the same matrix.  Derived in
*training/balance*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import Call
from ._linearize import Differentiable, Linearization, operator
from ._operators import balance_body as shared
from ._rows.numpy_rows import Array
from ._search.numpy_balance import balance_slopes
from ._search.weighted_least_squares import AdditiveFit
from .curves import Curve

__all__ = ["balanced_topk"]


@operator
def balanced_topk(
    S: ArrayLike,
    k: ArrayLike,
    columns: ArrayLike | None = None,
    curve: str | Curve = "sigmoid",
    *,
    temperature: ArrayLike = 1.0,
    axes: tuple[int, int] = (-2, -1),
    where: ArrayLike | None = None,
    rounds: int = 100,
) -> Differentiable[Array]:
    r"""Smooth selection with two budgets: each row takes k, each column its load.

    Parameters
    ----------
    S : array_like
        Scores, finite or -inf: a matrix for every index of the axes that `axes` does
        not name.  An entry of -inf gets share 0.
    k : array_like
        What the shares of a row sum to: a real number, or an array that broadcasts to
        one for each row, ``(..., m)``.
    columns : array_like, optional
        What the shares of a column sum to, likewise ``(..., n)``; with the same total
        as `k`.  By default equal loads.
    curve : str or Curve
        As in `soft_topk`.
    temperature : array_like
        :math:`\tau>0`, one for all or one a matrix; as it falls the shares approach
        the best assignment.
    axes : (int, int)
        The axis that counts the rows and the axis that counts the columns.
    where : array_like of bool, optional
        Entries that take part; the others get share 0.
    rounds : int
        The most rounds to take.

    Returns
    -------
    array
        P, of the shape of `S` (float32 if `S` is float32 or float16, else float64).

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no shares in [0, 1] have these sums; the
        message names what is wrong.

    Warns
    -----
    RuntimeWarning
        If `rounds` are not enough.  The shares returned keep the budgets of the longer
        side; the message says how far the others are off.

    See Also
    --------
    soft_topk : one budget.

    Notes
    -----
    A round costs `soft_topk` of all rows and, for m rows and n columns,
    :math:`O(mn\min(m,n))` for Newton's step; the lower the temperature, the more
    rounds.  Both budgets are met to 1e-13 for temperatures from one to a tenth of the
    scores' deviation, and to some eps times the scores' range over the temperature
    below.  Where they can only be met with some shares of exactly 0 or 1,
    thresholds run off and the last digits take more rounds.

    `linearize` has the derivative by the scores; a product costs O(mn), after
    :math:`O(mn\min(m,n))` once.

    References
    ----------
    Results N-T1 to N-T8, *training/balance*.

    Examples
    --------
    >>> import softtopk as stk
    >>> S = [[2.0, 1.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> P = stk.balanced_topk(S, 1, temperature=0.2)
    >>> P.round(2).tolist()
    [[0.27, 0.66, 0.07], [0.66, 0.07, 0.27], [0.07, 0.27, 0.66]]
    >>> P.sum(axis=0).round(12).tolist(), P.sum(axis=1).round(12).tolist()
    ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    """
    call = Call(precise=True)
    given: dict[str, Any] = {"temperature": temperature, "axes": axes, "where": where}
    value = call.run(shared.balanced_topk, S, k, columns, curve, **given, rounds=rounds)

    def derivative() -> Linearization:
        fits = [AdditiveFit(balance_slopes(*at)) for at in call.balanced]
        rows = call.given
        low, high = (rows.shape[axis] for axis in rows.axes)

        def turn(matrices: Array) -> Array:
            """The longer side first, or back."""
            return matrices.swapaxes(1, 2) if low < high else matrices

        def product(t: Array) -> Array:
            changes = turn(t.reshape(-1, low, high).astype(np.float64, copy=False))
            out = np.empty(changes.shape)
            for i, fit in enumerate(fits):
                residual, _, _ = fit.residual_and_fit(fit.W * changes[i])
                out[i] = residual / call.balanced[i][-1]
            return turn(out).astype(rows.x.dtype).reshape(t.shape)

        return Linearization(value, rows, product, product)

    return value, derivative
