"""The search of a selection, and which rows have no threshold to search for."""

from __future__ import annotations

import math
from typing import Any

from .._rows.adapter_rows import temperature_in_range
from .._rows.budget import Budget
from .._rows.namespace import is_nan, namespace
from ..curves import Curve
from . import root
from .start import Moments, counted_moments, narrowed


def selected(
    curve: Curve, x: Any, whole: Any, part: Any, tau: Any, regular: bool
) -> tuple[Any, Any, Any]:
    """Shares, anchors and offsets; `regular` if `check_values` found all rows so."""
    n, row_moments = counted_moments(x)
    return solved(curve, x, Budget(whole, part, n), tau, row_moments, regular)


def solved(
    curve: Curve,
    x: Any,
    k: Budget,
    tau: Any,
    row_moments: Moments,
    regular: bool = False,
) -> tuple[Any, Any, Any]:
    """`selected` for rows with these moments.

    The offset, and so the threshold, is +inf if k = 0 and -inf if k = n.  The results
    of a row out of range are NaN.  If the distance of a score to the threshold
    overflows, its share is 0 or 1, unless the temperature is above the root of the
    largest float: then the row is NaN.
    """
    if regular:
        a, t = root.solve_rows(curve, x, k, tau, row_moments)
        return curve.value(root.distances(x, tau, a, t)), a, t
    xp = namespace(x)
    k_float, rest = k.without(0), k.rest()
    in_range = rows_in_range(k, tau, row_moments)
    inner = in_range & (k_float > 0) & (rest > 0)
    a, t = searched(curve, x, k, tau, row_moments, inner)
    outer = xp.where(k_float == 0, xp.full_like(t, math.inf), -math.inf)
    t = xp.where(in_range, xp.where(inner, t, outer), math.nan)
    a = xp.where(inner, a, 0)
    return shares_at(curve, x, a, t, tau), a, t


def rows_in_range(k: Budget, tau: Any, row_moments: Moments) -> Any:
    """Whether the scores, the budget and the temperature of each row are in range."""
    in_range = (row_moments.top < math.inf) & (row_moments.mean == row_moments.mean)
    in_range = in_range & temperature_in_range(tau)
    return in_range & (k.part >= 0) & (k.whole >= 0) & (k.rest() >= 0)


def searched(
    curve: Curve, x: Any, k: Budget, tau: Any, row_moments: Moments, inner: Any
) -> tuple[Any, Any]:
    """Anchors and offsets of the `inner` rows; those of the others may be anything.

    The offset is NaN if the distance of a score to the threshold overflows.
    """
    xp = namespace(x)

    def split(middle: Any) -> Any:
        return root.neighbours_of(x, x, middle)

    row_moments = narrowed(split, k, tau, row_moments, inner)
    a, t = root.solve_rows(curve, x, k, tau, row_moments, inner)
    near = xp.maximum(row_moments.top - a, a - row_moments.least) < math.inf
    return a, xp.where(near, t, math.nan)


def shares_at(curve: Curve, x: Any, a: Any, t: Any, tau: Any) -> Any:
    """The shares at a and t: all 0 where t is +inf, 1 where it is -inf, or NaN."""
    xp, bad = namespace(x), is_nan(t)
    finite_t = xp.isfinite(t)
    p = curve.value(root.distances(x, tau, a, xp.where(finite_t, t, 0)))
    all_or_none = xp.where(bad, t, xp.where(t < 0, xp.ones_like(t), 0))
    p = xp.where(finite_t[..., None], p, all_or_none[..., None])
    return xp.where(x > -math.inf, p, xp.where(bad, t, 0)[..., None])
