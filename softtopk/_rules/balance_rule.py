r"""Derivatives of shares with budgets of rows and columns, on every array library.

With :math:`u=(S-\alpha-\beta)/\tau` the shares are f(u), and the budgets are sums of
the weights :math:`W=f'(u)` times

.. math:: du_{ij}=\frac{dS_{ij}-u_{ij}\,d\tau-a_i-b_j}\tau,\qquad
          \begin{pmatrix}D_r&W\\W^\top&D_c\end{pmatrix}
          \begin{pmatrix}a\\b\end{pmatrix}
          =\begin{pmatrix}\sum_jW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dk_i\\
          \sum_iW_{ij}(dS_{ij}-u_{ij}\,d\tau)-\tau\,dc_j\end{pmatrix}.

So a derivative needs only u and the temperature, and `push_balance` and `pull_balance`
are functions of them.  Since u is an output with a derivative by the same rule, they
can be differentiated again.  An entry whose share is forced has u = -inf (share 0) or
+inf (share 1), and u is NaN in a matrix whose budgets are not met.  Derived in
*training/balance*.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rows.namespace import namespace
from .._rows.numpy_rows import as_column
from .._search.balance_search import slopes_of, unforced
from .._search.weighted_least_squares import AdditiveFit
from ..curves import Curve


def push_balance(
    curve: Curve, dS: Any, dk: Any, dc: Any, dtau: Any, u: Any, tau: Any
) -> tuple[Any, Any]:
    """The tangents of the shares and of u."""
    good, u = _good(u)
    W, scale = slopes_of(curve, u), as_column(tau)
    u = unforced(u)
    G = dS - u * _matrix(dtau)
    residual, a, b = AdditiveFit(W).residual_and_fit(W * G, scale * dk, scale * dc)
    du = (G - a[..., None] - b[..., None, :]) / _matrix(tau)
    xp = namespace(u)
    dp, du = residual / _matrix(tau), xp.where(W > 0, du, 0)
    return (dp if good is None else xp.spoil(dp, good)), du


def pull_balance(curve: Curve, gp: Any, gu: Any, u: Any, tau: Any) -> tuple[Any, ...]:
    """The gradients by S, k, columns and tau, from those by the shares and by u."""
    good, u = _good(u)
    gp = gp if good is None else namespace(u).spoil(gp, good)
    W = slopes_of(curve, u)
    g = W * gp + namespace(u).where(W > 0, gu, 0)
    residual, gk, gc = AdditiveFit(W).residual_and_fit(g)
    gS = residual / _matrix(tau)
    gtau = -(gS * unforced(u)).sum((-2, -1))
    return gS, gk, gc, gtau if tau.ndim else gtau.sum()


def _good(u: Any) -> tuple[Any, Any]:
    """Where u is not NaN, as all of it is in a matrix out of range; and u, 0 there.

    On NumPy there is no such matrix.
    """
    xp = namespace(u)
    if xp is np:
        return None, u
    good = u == u
    return good, xp.where(good, u, 0)


def _matrix(tau: Any) -> Any:
    """The temperature in a shape that broadcasts over the matrices."""
    return tau[..., None, None] if tau.ndim else tau
