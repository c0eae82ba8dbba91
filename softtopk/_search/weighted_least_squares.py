r"""Weighted least-squares fit of a matrix by sums :math:`a_i+b_j`.

For weights :math:`W\ge0`, an m x n matrix, the fit of G minimises
:math:`\sum W_{ij}(G_{ij}-a_i-b_j)^2`.  Its equations are those of the weighted
bipartite graph,

.. math:: D_ra+Wb=(W\circ G)1,\qquad W^\top a+D_cb=(W\circ G)^\top1,

where the diagonal matrices :math:`D_r` and :math:`D_c` have the sums of the rows and of
the columns of W.  Eliminating a leaves the n equations
:math:`(D_c-W^\top D_r^{-1}W)\,b=\dots`.  Scaled by :math:`D_c^{-1/2}` on both sides,
their matrix has the eigenvalues :math:`1-\sigma^2`, with :math:`\sigma` the singular
values of :math:`D_r^{-1/2}WD_c^{-1/2}`.  For each connected component of the graph one
eigenvalue is 0, because a constant can be moved from a to b without changing the fit.
The diagonal is raised by more than the rounding error of sums of m terms, so that the
matrix can be inverted; the fit and the residual do not depend on the constant.  Derived
in *training/balance*.
"""

from __future__ import annotations

import math
from typing import Any

from .._rows.namespace import namespace


class AdditiveFit:
    """The fit with weights ``(..., m, n)``, where m >= n, for every array library."""

    def __init__(self, W: Any) -> None:
        xp = self.xp = namespace(W)
        self.W = W
        rows, columns = W.sum(-1), W.sum(-2)
        self.rows = xp.where(rows > 0, rows, 1)
        self.root = xp.sqrt(xp.where(columns > 0, columns, 1))
        A = W / xp.sqrt(self.rows)[..., None] / self.root[..., None, :]
        identity = xp.eye(W.shape[-1], like=W)
        raised = 1 + 4 * math.sqrt(W.shape[-2]) * xp.finfo(W.dtype).eps
        self.matrix = raised * identity - A.swapaxes(-1, -2) @ A

    def reduced(self, y: Any) -> Any:
        """The solution b of (D_c - W^T D_r^-1 W) b = y."""
        scaled = (y / self.root)[..., None]
        return self.xp.linalg.solve(self.matrix, scaled)[..., 0] / self.root

    def residual_and_fit(
        self, g: Any, rows: Any = 0, columns: Any = 0
    ) -> tuple[Any, Any, Any]:
        """The residual g - W (a + b), and a and b.

        They are such that the residual has the sums `rows` and `columns`; for sums of 0
        and g = W G they are the fit of G.  A second fit removes the rounding error of
        the first.
        """
        a, b = 0, 0
        for _ in range(2):
            mean = (g.sum(-1) - rows) / self.rows
            residual = g - self.W * mean[..., None]
            more = self.reduced(residual.sum(-2) - columns)
            mean = mean - (self.W @ more[..., None])[..., 0] / self.rows
            g = g - self.W * (mean[..., None] + more[..., None, :])
            a, b = a + mean, b + more
        return g, a, b
