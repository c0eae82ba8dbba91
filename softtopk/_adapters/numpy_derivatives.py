"""Solved rows, and their derivatives for `linearize`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._linearize import Linearization
from .._rows import numpy_rows as core
from .._rows.numpy_rows import Array, as_column, numpy_distances
from .._rules import costs_rule
from .._search import costs_search
from .._search.numpy_search import Solution
from .._search.root import ends
from ..curves import Curve


class Point(NamedTuple):
    """Rows with their solution, at which `soft_topk` is differentiated."""

    curve: Curve
    rows: core.NumPyRows
    found: Solution
    tau: float | Array

    def slopes(self) -> tuple[Array, Array]:
        """The slopes w = f' of every entry, and s = w / W, with W the sum of a row.

        Where the slopes underflow, s is computed from their logarithms.  If all slopes
        of a row are 0, so is s.
        """
        x, (_, anchor, offset) = self.rows.x, self.found
        # The anchor is a score or a midpoint, so this conversion does not round it.
        a, tau = anchor[:, None].astype(x.dtype), as_column(self.tau)
        u = numpy_distances(x, a, tau)
        u -= offset[:, None].astype(x.dtype)
        w = self.curve.slope(u)
        # So far away a share is 0 or 1, and constant as at an infinite distance.
        w[~(np.abs(u) < float(np.finfo(u.dtype).max) ** 0.5)] = 0
        W = w.sum(axis=-1)
        shares = w / np.where(W > 0, W, 1)[:, None]
        faint = W < np.sqrt(np.finfo(x.dtype).tiny)
        if faint.any():
            log = self.curve.log_slope(u[faint])
            top = log.max(axis=-1, keepdims=True)
            weight = np.where(top > -np.inf, np.exp(log - top), 0)
            total = weight.sum(axis=-1, keepdims=True)
            shares[faint] = weight / np.where(total > 0, total, 1)
        return w, shares

    def derivative(self, value: Array) -> Linearization:
        """That of the shares."""
        w, shares = self.slopes()
        rows, dk = self.rows, self.rows.expand(shares)
        return Linearization.symmetric(value, rows, w, self.tau, shares=shares, dk=dk)

    def of_threshold(self, value: Any) -> Linearization:
        """That of the thresholds."""
        rows, tau, dtype = self.rows, self.tau, self.rows.x.dtype
        w, shares = self.slopes()
        W = w.sum(axis=-1)
        still = (W == 0) & (ends(self.curve) | ~np.isfinite(self.found.offset))
        dk = np.where(still, 0, -tau / W).astype(dtype)
        if ends(self.curve):
            shares = self._of_middle(shares)
        return Linearization.gradient(value, rows, shares, dk=rows.reduce(dk))

    def _of_middle(self, shares: Array) -> Array:
        """The derivative of the threshold by the scores, from the normalised slopes.

        If all of these are 0, the threshold is the middle between the smallest score
        above it and the largest below, and the result is that middle's derivative.
        """
        flat = np.isfinite(self.found.offset) & ~shares.any(axis=-1)
        if flat.any():
            x, above = self.rows.x[flat], self.found.p[flat] > 0
            least = np.where(above, x, np.inf).min(axis=-1, keepdims=True)
            most = np.where(above, -np.inf, x).max(axis=-1, keepdims=True)
            beside = [(x == least) & above, (x == most) & ~above]
            shares[flat] = sum(0.5 * v / v.sum(axis=-1, keepdims=True) for v in beside)
        return shares


class CostPoint(NamedTuple):
    """Rows whose budget has costs, at which `soft_topk` is differentiated.

    `point` holds the scores, costs, anchors, offsets and temperature of the rows in
    double precision, and `cost_shape` is the shape in which the caller gave the costs.
    """

    options: costs_search.CostsOptions
    rows: core.NumPyRows
    point: tuple[Any, ...]
    cost_shape: tuple[int, ...]

    def _push(self, dx: Any, dc: Any) -> Array:
        """The tangent of the shares."""
        dk, dtau = 0 * self.point[2], np.float64(0)
        dp, _ = costs_rule.push_costs(self.options, self.point, dx, dk, dc, dtau)
        return self._cast(dp)

    def _pull(self, by_p: Any, by_t: Any) -> tuple[Array, Array]:
        """The gradients by the scores and by the costs."""
        gx, _, gc, _ = costs_rule.pull_costs(self.options, self.point, by_p, by_t)
        return self._cast(gx), self._cast(gc)

    def _cast(self, values: Any) -> Array:
        return values.astype(self.rows.x.dtype, copy=False)

    def derivative(self, value: Array) -> Linearization:
        """That of the shares."""
        dk = costs_rule.cost_slopes(self.options, self.point).by_k
        by_cost = Linearization(
            value,
            self.rows._replace(input_shape=self.cost_shape),
            lambda dc: self._push(0.0, dc),
            lambda g: self._pull(g, None)[1],
        )
        return Linearization(
            value,
            self.rows,
            lambda dx: self._push(dx, 0.0),
            lambda g: self._pull(g, None)[0],
            dk=self.rows.expand(self._cast(dk)),
            by_cost=by_cost,
        )

    def of_threshold(self, value: Any) -> Linearization:
        """That of the thresholds."""
        tau, rows = self.point[-1], self.rows
        dk = -tau * costs_rule.cost_slopes(self.options, self.point).reciprocal
        by_x, by_c = self._pull(None, tau * np.ones(len(rows.x)))
        given = rows._replace(input_shape=self.cost_shape)
        by_cost = Linearization.gradient(value, given, by_c)
        dk = rows.reduce(self._cast(dk))
        return Linearization.gradient(value, rows, by_x, dk=dk, by_cost=by_cost)
