r"""The derivative of the marginals p of random subsets: that of `grad_topk`.

`product` multiplies a vector g by the Jacobian of p by :math:`x/\tau`.  That is the
matrix of the covariances of the entries in the subset, and so symmetric:
:math:`(Jg)_i=\sum_jg_j(P(i,j\in S)-p_ip_j)`.  `push_subset` makes of it the tangent of
p, `pull_subset` the gradients by the scores and the temperature.  `softtopk.subset`
derives the formula, and `softtopk._search.subset_law` says why it reads the scores
twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._contract import Adapter
from .._rows.numpy_rows import as_column, divide, quiet
from .._search.subset_law import Circle, Tilt, circled, drift_of


@quiet()
def pull_subset_on_numpy(
    parts: list[Any], x: Any, tau: Any, a: Any, t: Any, g: Any
) -> tuple[Any, Any]:
    """`pull_subset` of g, from the blocks of `marginals_by_numpy`."""
    gx = np.zeros(x.shape, x.dtype)
    rows, given = (v.reshape(-1, x.shape[-1]) for v in (gx, g))
    for at, block in parts:
        rows[at] = divide(block.product(given[at].T).T, float(tau))
    u = (x - a[..., None]) / tau - t[..., None]
    moved = np.where(gx != 0, u * gx, 0)
    return gx, np.asarray(-moved.sum(axis=-1))


def push_subset(xp: Adapter, tilt: Tilt, dx: Any, dtau: Any) -> Any:
    """The tangent of p.

    In a row out of range the tangent of each entry depends on every tangent that comes
    in.  So the library, which makes tangents of such a row NaN (`spoil`), makes all of
    the row NaN, unless the tangents are 0.
    """
    tau_column, dtau = (as_column(v) for v in (tilt.tau, dtau))
    # The tangent of x / tau, up to a constant of each row that does not change p.
    moved = (xp.where(tilt.on, dx, 0) - tilt.u * dtau) / tau_column
    change = product(xp, tilt, circled(xp, tilt), moved)
    mixed = dx + xp.sum(dx, axis=-1)[..., None] + dtau
    return xp.where(tilt.in_range[..., None], change, mixed)


def pull_subset(xp: Adapter, tilt: Tilt, g: Any) -> tuple[Any, Any]:
    """The gradients by x, and by tau for each row, of g times p: see `push_subset`."""
    tau_column, in_range = as_column(tilt.tau), tilt.in_range
    gx = product(xp, tilt, circled(xp, tilt), g) / tau_column
    gx = xp.where(in_range[..., None], gx, g + xp.sum(g, axis=-1)[..., None])
    return gx, -xp.sum(xp.where(in_range[..., None], tilt.u, 1) * gx, axis=-1)


def product(xp: Adapter, tilt: Tilt, circle: Circle, g: Any) -> Any:
    """The Jacobian of p by x / tau times g."""
    v, skew = tilt.v, xp.stored(tilt.skew)
    total = xp.where(tilt.inner, xp.sum(v, axis=-1), 1)
    g = xp.where(tilt.on, g, 0)
    g = g - (xp.sum(v * g, axis=-1) / total)[..., None]
    chord, sine, sine_squared, cosine_squared, real, imaginary, _ = circle

    def h_and_i(skew: Any, vg: Any, sine_squared: Any, cosine_squared: Any) -> Any:
        weight = vg / (sine_squared * skew * skew + cosine_squared)
        return weight * skew, weight

    h, i = xp.over_entries(h_and_i, [skew, v * g], (sine_squared, cosine_squared))
    h, i = 0.5 * chord * h, sine * i
    h = h - xp.sum(real * h - imaginary * i, axis=-1)[..., None]
    h, i = real * h - imaginary * i, real * i + imaginary * h

    # d Re zeta^2 = c - 2 c cos^2(theta/2) / d, and d^2 Im zeta^2 = skew c sin theta
    def terms(
        skew: Any,
        h: Any,
        i: Any,
        over_d: Any,
        over_square: Any,
        skewed: Any,
        sine_squared: Any,
        cosine_squared: Any,
    ) -> Any:
        d = sine_squared * skew * skew + cosine_squared
        return (h * skew - i) / d, (over_d - (over_square + skewed * skew) / d) / d

    of_squares = (
        chord * real,
        2 * chord * cosine_squared * real,
        chord * sine * imaginary,
    )
    at = [xp.stored(w) for w in (0.5 * chord * h, sine * i, *of_squares)]
    image, square = xp.over_nodes(terms, [skew], (*at, sine_squared, cosine_squared))
    out = v * (image - v * g * square)
    drift = drift_of(xp, tilt, circle)
    p = xp.clip(tilt.pi + drift, 0, 1)
    out = out + (p * (1 - p) + drift * drift) * g
    return xp.where(tilt.on, out, 0)
