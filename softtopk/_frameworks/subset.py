r"""GradTopK from sums alone: the tilt, and the circle, as in `softtopk.subset`.

The shift s is the sigmoid's threshold at k - 1/2.  Any s gives the same
marginals, so that s and the points of the circle are constants to a derivative:
the marginals, and every derivative of theirs, follow from :math:`\pi=\sigma(x-s)` by
plain differentiation.  An entry with :math:`\pi\ge1/2` enters the phase as
:math:`t-\arg(\pi+(1-\pi)e^{it})`; the whole turns are counted in integers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._solve.subset import plan
from ..curves import SIGMOID
from .contract import Adapter
from .rows import Rows, nan_unless
from .selection import budget

DEPTH = {8: 27, 4: 13}
"""Pairs of points that a row can need, by the bytes of a float."""


class Tilted(NamedTuple):
    """Marginals, and what the partition function and the entropy are made of."""

    p: Any
    on: Any  # entries that can be selected and need not be
    u: Any  # (x - s) / tau, 0 where an entry is not on
    top: Any  # entries above s
    log_chance: Any  # log P(S = k)
    s: Any  # s, and s = a + tau t
    inner: Any  # rows of which some entries are to be selected, not all
    special: Any  # p of every other row
    circle: Any  # pi, v, the weights w and zeta at every point, real and imaginary


def tilted(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any) -> Tilted:
    """The marginals of rows whose budgets are whole."""
    k = budget(x, whole, part)
    good = (tau > 0) & (tau < math.inf)
    fits = xp.all((x < math.inf) & (x == x), axis=-1) & good
    fits = fits & (k.part == 0) & (k.whole >= 0) & (k.rest >= 0)
    x = nan_unless(xp, fits, x)
    inner = fits & (k.whole > 0) & (k.rest > 0)
    n = x.shape[-1]
    whole = xp.where(inner, k.whole, 1)
    count = xp.where(inner, k.n, n + (n == 1))
    scale = xp.where(good, tau, 1)
    fixed = xp.detach(xp.where(inner[..., None], x, 0))
    half = 0.5 * xp.ones_like(fixed[..., 0])
    _, *at = xp.select(SIGMOID, fixed, whole - 1, half, xp.detach(scale), False)
    a, t = map(xp.detach, at)
    wide = scale[..., None] if scale.ndim else scale
    on = xp.isfinite(x) & inner[..., None]
    u = xp.where(on, (xp.where(on, x, 0) - a[..., None]) / wide - t[..., None], 0)
    pi = xp.where(on, xp.sigmoid(u), 0)
    rest = xp.where(on, xp.sigmoid(-u), 1)
    v, skew = pi * rest, pi - rest
    top = on & (u >= 0)
    fixed_v = xp.detach(v)
    total = xp.sum(fixed_v, axis=-1)
    total = xp.where(inner, total, 0.25)
    points, used = plan(
        total,
        xp.sum(fixed_v * fixed_v, axis=-1),
        xp.astype(whole, x.dtype),
        xp.astype(count, x.dtype),
        float(xp.finfo(x.dtype).eps),
    )
    index = xp.arange(1, DEPTH[x.dtype.itemsize] + 1, x)
    live = index <= used[..., None]
    angle = xp.where(live, index, 1) * (math.pi / points[..., None])
    chosen = xp.sum(top, axis=-1)
    turns = xp.integers(index, x) * (chosen - whole)[..., None]
    turns = xp.remainder(turns, xp.integers(points, x)[..., None])
    phase = 2 * math.pi * xp.astype(turns, x.dtype) / points[..., None]
    near, far = xp.cos(angle)[..., None], xp.sin(angle)[..., None]
    sine, chord = 2 * far * near, 4 * far * far
    side, var = skew[..., None, :], v[..., None, :]
    d = far * far * side * side + near * near  # 1 - chord v, without cancellation
    r = xp.where(top, rest, pi)[..., None, :]
    turn = xp.atan2(r * sine, 1 - 0.5 * chord * r)
    phase = phase + xp.sum(xp.where(top[..., None, :], -turn, turn), axis=-1)
    small = chord * var < 0.5
    size = xp.where(
        small,
        xp.log1p(-xp.where(small, chord * var, 0)),
        xp.log(xp.where(small, xp.ones_like(d), d)),
    )
    size = xp.exp(0.5 * xp.sum(size, axis=-1))
    size = xp.where(live, size, 0)
    real, imaginary = size * xp.cos(phase), size * xp.sin(phase)
    mass = 1 + 2 * xp.sum(real, axis=-1)
    real, imaginary = (2 * w / mass[..., None] for w in (real, imaginary))
    # Re w zeta, zeta = (u c / 2 + i sin t) / d
    real, imaginary = real[..., None], imaginary[..., None]
    zeta = 0.5 * chord * side / d, sine / d
    drift = xp.sum((real * (0.5 * chord) * side - imaginary * sine) / d, axis=-2)
    p = xp.clip(pi + v * drift, 0, 1)
    outer = xp.where(fits, xp.where(k.whole > 0, 1.0 + 0 * total, 0), math.nan)
    special = xp.where((x > -math.inf) | ~fits[..., None], outer[..., None], 0)
    s = a + xp.detach(scale) * t
    p = xp.where(inner[..., None], p, special)
    circle = pi, v, (real, imaginary), zeta
    return Tilted(p, on, u, top, xp.log(mass / points), s, inner, special, circle)


def pairs(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any) -> Any:
    r"""The probabilities of every pair of entries, (..., n, n).

    With the points :math:`z_i=\pi_i+v_i\zeta_i` of the circle and their weights w,
    :math:`P_{ij}=\sum_l\operatorname{Re}w_lz_iz_j
    =p_i\pi_j+\pi_ip_j-\pi_i\pi_j+v_iv_j\sum_l\operatorname{Re}w_l\zeta_i\zeta_j`.
    """
    law = tilted(xp, x, whole, part, tau)
    pi, v, (real, imaginary), (a, b) = law.circle
    turned = xp.matrix_transpose(real * a - imaginary * b)
    both = turned @ a - xp.matrix_transpose(real * b + imaginary * a) @ b
    one, other = pi[..., :, None], pi[..., None, :]
    p, q = law.p[..., :, None], law.p[..., None, :]
    inner = law.inner[..., None, None]
    found = p * other + one * q - one * other + v[..., :, None] * v[..., None, :] * both
    found = xp.where(inner, xp.clip(found, 0, 1), p * q)
    same = xp.places(x.shape[-1], x)
    return xp.where(same[:, None] == same, p + 0 * q, found)


def partition(xp: Adapter, rows: Rows, law: Tilted) -> tuple[Any, Any]:
    """tau log Z_k(x / tau), and its derivative by tau: the entropy."""
    tau, top = rows.tau, law.top
    k = budget(rows.x, rows.whole, rows.part)
    soft = xp.where(law.on, xp.log1p(xp.exp(-abs(law.u))), 0)
    soft = xp.sum(soft, axis=-1) + law.log_chance
    chosen = xp.sum(xp.where(top, rows.x, 0), axis=-1)
    lack = xp.astype(k.without(xp.sum(top, axis=-1)), rows.x.dtype)
    value = chosen + lack * law.s + tau * soft
    flat = xp.sum(xp.where(law.special > 0, rows.x, 0), axis=-1)
    flat = xp.where(law.special[..., 0] != law.special[..., 0], math.nan, flat)
    spread = xp.sum(xp.where(top, (1 - law.p) * law.u, -law.p * law.u), axis=-1)
    entropy = xp.where(law.inner, spread + soft, 0)
    return xp.where(law.inner, value, flat), entropy
