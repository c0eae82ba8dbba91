r"""GradTopK from sums over rows, by the tilt and the circle of `softtopk.subset`.

The shift s is the sigmoid's threshold at k - 1/2.  The marginals are the same for every
s, so s and the nodes of the circle are treated as constants.  What is left depends on
:math:`\pi=\sigma((x-s)/\tau)` alone.  The derivative of the marginals is the formula in
`softtopk._rules.subset_rule`; `pairs` is differentiated by the library itself.

As in every search, a and t are the anchor and the offset of s, and
:math:`u=(x-s)/\tau`.  The angle t of `softtopk.subset` is :math:`\theta` here, and the
:math:`u_i=2\pi_i-1` of that module is `skew`.

For an entry with :math:`\pi\ge1/2` the factor of the characteristic function is
multiplied by :math:`e^{-i\theta}`, to :math:`(1-\pi+\pi e^{i\theta})e^{-i\theta}`, and
the number of these entries is kept as an integer.  Every factor is then :math:`1+e`
with :math:`e=r(-c/2\pm i\sin\theta)` and :math:`r=\min(\pi,1-\pi)`.  A product of
factors has the same form, :math:`(1+e)(1+f)=1+(e+f+ef)`, in which nothing cancels.
`_GROUP` factors are multiplied before one logarithm is taken of their product.

The product with the Jacobian is the formula that `softtopk.subset` derives.  It needs
one number for each row and node, and it reads the scores twice.  So the forward pass
need not store an array with a number for each entry and node.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._contract import Adapter
from .._rows.adapter_rows import budget, temperature_in_range
from .._rows.budget import Budget
from .._rows.namespace import namespace
from .._rows.numpy_rows import as_column
from ..curves import SIGMOID
from .selection_search import rows_in_range, searched
from .start import counted_moments

DEPTH = {8: 27, 4: 13}
"""The most nodes that a row can need, M of `plan`, by the size of a float in bytes."""

_GROUP = 8
"""Factors of the characteristic function that share a logarithm."""


class SubsetLaw(NamedTuple):
    """The law of the subsets: the marginals ``(..., n)``, and numbers for each row.

    Only the marginals have a derivative; the other fields are constants.
    """

    p: Any
    a: Any  # the shift is a + tau t
    t: Any  # NaN in a row out of range
    log_chance: Any  # log P(S = k)


class Tilt(NamedTuple):
    """Independent entries, each selected with probability `pi`."""

    in_range: Any  # whether the values of a row are in range
    inner: Any  # whether then 0 < k < n: some entries are selected, but not all
    known: Any  # p of the rows that are not inner
    on: Any  # finite entries of inner rows: their marginals are not known beforehand
    u: Any  # (x - s) / tau, 0 where an entry is not on
    above: Any  # entries above s
    lean: Any  # min(pi, 1 - pi), negative where pi >= 1/2
    pi: Any
    v: Any  # pi (1 - pi)
    skew: Any  # 2 pi - 1
    whole: Any
    count: Any
    tau: Any  # 1 where it is out of range
    a: Any
    t: Any  # 0 where a row is not inner


class Circle(NamedTuple):
    """The nodes ``(..., M)`` of each row, of the angles theta, and their weights."""

    chord: Any  # c = 4 sin^2(theta/2)
    sine: Any  # sin theta
    sine_squared: Any  # sin^2(theta/2)
    cosine_squared: Any  # cos^2(theta/2)
    real: Any
    imaginary: Any
    log_chance: Any  # log P(S = k), (...)


def tilted(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any, at: Any) -> Tilt:
    """The tilt of rows with whole budgets, at the a and t of `shift_of`.

    A row out of range is not inner.  It has finite numbers, which mean nothing: the
    callers make its results NaN.
    """
    # From here on the forward pass and the derivatives have the same operations, of
    # which a compiler keeps one copy.
    a, t = map(xp.detach, at)
    k, n, in_range = budget(x, whole, part), x.shape[-1], t == t
    inner = in_range & (k.whole > 0) & (k.rest() > 0)
    whole = xp.where(inner, k.whole, 1)
    count = xp.where(inner, k.n, n + (n == 1))
    a, t = xp.where(inner, a, 0), xp.where(inner, t, 0)
    tau_in_range = temperature_in_range(tau)
    tau = xp.where(tau_in_range, tau, 1)
    tau_column = as_column(tau)
    on = (x > -math.inf) & inner[..., None]
    u = xp.where(on, (xp.where(on, x, 0) - a[..., None]) / tau_column - t[..., None], 0)
    limit = float(xp.finfo(x.dtype).max) ** 0.5
    u = xp.clip(u, -limit, limit)  # it is multiplied by shares, which are 0 or 1 there
    above = on & (u >= 0)
    # Every number of an entry is a short formula of r = min(pi, 1 - pi): compiled code
    # keeps r alone for the gradient and calculates the others again.
    r = xp.where(on, xp.sigmoid(xp.where(above, -u, u)), 0)
    lean = xp.where(above, -r, r)
    r = abs(lean)
    pi, skew = xp.where(above, 1 - r, r), xp.where(above, 1 - 2 * r, 2 * r - 1)
    v = r * (1 - r)
    all_of = (x > -math.inf) & (k.whole > 0)[..., None]
    known = xp.where(all_of | ~in_range[..., None], xp.ones_like(x), 0)
    entries = on, u, above, lean, pi, v, skew
    return Tilt(in_range, inner, known, *entries, whole, count, tau, a, t)


def shift_of(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any) -> tuple[Any, Any]:
    """The shifts a + tau t of rows; t is NaN in a row out of range.

    If a row is in range but the distance of a score to the shift overflows, a is NaN.
    """
    n, row_moments = counted_moments(x)
    k = Budget(whole, part, n)
    in_range = rows_in_range(k, tau, row_moments) & (part == 0)
    inner = in_range & (k.whole > 0) & (k.rest() > 0)
    k = Budget(k.whole - 1, 0.5 * xp.ones_like(row_moments.mean), n)
    a, t = searched(SIGMOID, x, k, tau, row_moments, inner)
    found = inner & (t == t)
    a = xp.where(found, a, xp.where(inner, math.nan, xp.zeros_like(a)))
    return a, xp.where(in_range, xp.where(found, t, 0), math.nan)


def plan(total: Any, square: Any, k: Any, count: Any, eps: float) -> tuple[Any, Any]:
    """How many nodes the circle of each row has, N, and how many are summed, M.

    `total` and `square` are the sums of v and v^2.  Derived in *computing/marginals*.
    """
    xp = namespace(total)
    bound = 2 - math.log(eps) + 0.5 * xp.log1p(2 * math.pi * total)
    x = bound / 3 + xp.sqrt(bound * bound / 9 + 2 * bound * total)
    for _ in range(4):
        log = xp.log1p(x / total)
        x = x - ((total + x) * log - x - bound) / log
    x = xp.minimum(x, xp.sqrt(bound * count / 2))
    N = xp.ceil(x + 0.6 + xp.clip(0.02 * xp.sqrt(total), 0.1, None))
    N = xp.minimum(N, xp.maximum(k, count - k) + 1)
    N = N + 1 - N % 2
    h = 2 * bound / (total + xp.sqrt(total * total + 4 * square * bound))
    used = N * xp.arccos(xp.clip(1 - h, -1, None)) / (2 * math.pi)
    return N, xp.minimum(xp.ceil(used), (N - 1) / 2)


def circled(xp: Adapter, tilt: Tilt) -> Circle:
    """The nodes of the circle and their weights."""
    inner, v, whole = tilt.inner, tilt.v, tilt.whole
    fixed = xp.detach(v)
    N, used = plan(
        xp.where(inner, xp.sum(fixed, axis=-1), 0.25),
        xp.sum(fixed * fixed, axis=-1),
        xp.astype(whole, v.dtype),
        xp.astype(tilt.count, v.dtype),
        float(xp.finfo(v.dtype).eps),
    )
    index = xp.arange(1, DEPTH[v.dtype.itemsize] + 1, v)
    live = index <= used[..., None]
    angle = xp.where(live, index, 1) * (math.pi / N[..., None])
    turns = xp.integers(index, v) * (xp.sum(tilt.above, axis=-1) - whole)[..., None]
    turns = xp.remainder(turns, xp.integers(N, v)[..., None])
    phase = 2 * math.pi * xp.astype(turns, v.dtype) / N[..., None]
    cosine, halved = xp.cos(angle), xp.sin(angle)  # of theta/2, and `sine` is of theta
    sine, chord = xp.stored(2 * halved * cosine), xp.stored(4 * halved * halved)
    log, turn = _logarithm(xp, tilt, chord, sine)
    size = xp.where(live, xp.exp(0.5 * log), 0)
    phase = phase + turn
    real, imaginary = size * xp.cos(phase), size * xp.sin(phase)
    mass = 1 + 2 * xp.sum(real, axis=-1)
    real, imaginary = (2 * w / mass[..., None] for w in (real, imaginary))
    real, imaginary = xp.stored(real), xp.stored(imaginary)
    sine_squared, cosine_squared = map(xp.stored, (halved * halved, cosine * cosine))
    chance = xp.log(mass / N)
    return Circle(chord, sine, sine_squared, cosine_squared, real, imaginary, chance)


def _logarithm(xp: Adapter, tilt: Tilt, chord: Any, sine: Any) -> tuple[Any, Any]:
    """log|phi|^2 and the phase of phi at each node, without the factors e^{i theta}."""
    groups = _groups(xp, tilt.lean)
    side, up = (-0.5 * chord)[..., None], sine[..., None]
    e = f = 0.0
    for lean in groups:
        # The product of the factors so far is 1 + e + i f, and the next factor is
        # 1 + g + i h.  The factors are multiplied one after the other.  So each
        # multiplication reads only e and f, two numbers of the node (side and up) and
        # `lean` of the entry, and Inductor fuses all multiplications into one loop,
        # without a stored array of partial products.
        g, h = side * abs(lean)[..., None, :], up * lean[..., None, :]
        e, f = e + g + (e * g - f * h), f + h + (e * h + f * g)
    small = e > -0.25
    change = xp.where(small, e * (2 + e) + f * f, 0)
    square = xp.where(small, xp.ones_like(e), (1 + e) * (1 + e) + f * f)
    log = xp.sum(xp.log1p(change) + xp.log(square), axis=-1)
    return log, xp.sum(xp.atan2(f, 1 + e), axis=-1)


def _groups(xp: Adapter, lean: Any) -> list[Any]:
    """The entries of each row dealt out to `_GROUP` arrays, with zeros at the end.

    The factors multiplied together are those of neighbouring entries, because these are
    on the same device if rows are divided over devices.
    """
    short = -lean.shape[-1] % _GROUP
    if short:
        none = xp.zeros_like(lean[..., :1])
        lean = xp.concat([lean, *[none] * short], axis=-1)
    shape = (*lean.shape[:-1], lean.shape[-1] // _GROUP, _GROUP)
    # Contiguous arrays, for vectorised loops.
    lean = xp.stored(xp.matrix_transpose(xp.reshape(lean, shape)))
    return [lean[..., i, :] for i in range(_GROUP)]


def marginals(xp: Adapter, tilt: Tilt, circle: Circle) -> Any:
    """The marginals p of every row."""
    p = xp.clip(tilt.pi + drift_of(xp, tilt, circle), 0, 1)
    return xp.where(tilt.inner[..., None], p, tilt.known)


def drift_of(xp: Adapter, tilt: Tilt, circle: Circle) -> Any:
    """p - pi: the sum of v Re w zeta, zeta = (skew c/2 + i sin theta) / d.

    The divisor d = 1 - c v is sin^2(theta/2) skew^2 + cos^2(theta/2), where nothing
    cancels.
    """

    def term(
        skew: Any, skewed: Any, bare: Any, sine_squared: Any, cosine_squared: Any
    ) -> Any:
        image = skewed * skew - bare
        return (image / (sine_squared * skew * skew + cosine_squared),)

    skewed, bare = 0.5 * circle.chord * circle.real, circle.sine * circle.imaginary
    at = skewed, bare, circle.sine_squared, circle.cosine_squared
    return tilt.v * xp.over_nodes(term, [tilt.skew], at)[0]


def solved_law(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any) -> SubsetLaw:
    """The law of rows with whole budgets, at the shift that is found."""
    at = shift_of(xp, *map(xp.detach, (x, whole, part, tau)))
    tilt = tilted(xp, x, whole, part, tau, at)
    circle = circled(xp, tilt)
    return SubsetLaw(marginals(xp, tilt, circle), *at, circle.log_chance)


def pairs(xp: Adapter, x: Any, whole: Any, part: Any, tau: Any, a: Any, t: Any) -> Any:
    r"""The probabilities of every pair of entries, (..., n, n), at a known shift.

    With the values :math:`z_i=\pi_i+v_i\zeta_i` at the nodes and their weights w,
    :math:`P_{ij}=\sum_l\operatorname{Re}w_lz_iz_j
    =p_i\pi_j+\pi_ip_j-\pi_i\pi_j+v_iv_j\sum_l\operatorname{Re}w_l\zeta_i\zeta_j`.
    """
    tilt = tilted(xp, x, whole, part, tau, (a, t))
    circle = circled(xp, tilt)
    p, pi, v = marginals(xp, tilt, circle), tilt.pi, tilt.v
    # Real and imaginary part of zeta.
    skew = tilt.skew[..., None, :]
    d = circle.sine_squared[..., None] * skew * skew + circle.cosine_squared[..., None]
    zeta_real = (0.5 * circle.chord)[..., None] * skew / d
    zeta_imaginary = circle.sine[..., None] / d
    real, imaginary = circle.real[..., None], circle.imaginary[..., None]
    turned = xp.matrix_transpose(real * zeta_real - imaginary * zeta_imaginary)
    both = turned @ zeta_real
    turned = xp.matrix_transpose(real * zeta_imaginary + imaginary * zeta_real)
    both = both - turned @ zeta_imaginary
    pi_i, pi_j = pi[..., :, None], pi[..., None, :]
    p_i, p_j = p[..., :, None], p[..., None, :]
    v_i, v_j = v[..., :, None], v[..., None, :]
    inner = tilt.inner[..., None, None]
    known = p_i * pi_j + pi_i * p_j - pi_i * pi_j + v_i * v_j * both
    known = xp.where(inner, xp.clip(known, 0, 1), p_i * p_j)
    same = xp.indices(x.shape[-1], x)
    return xp.where(same[:, None] == same, p_i + 0 * p_j, known)


def partition(
    xp: Adapter, x: Any, whole: Any, part: Any, tau: Any, law: SubsetLaw
) -> tuple[Any, Any, Any]:
    """tau log Z_k(x / tau), its derivative by tau, the entropy, and u of `Tilt`."""
    tilt = tilted(xp, x, whole, part, tau, (law.a, law.t))
    above, u, p = tilt.above, tilt.u, law.p
    k = budget(x, whole, part)
    soft = xp.where(tilt.on, xp.log1p(xp.exp(-abs(u))), 0)
    soft = xp.sum(soft, axis=-1) + law.log_chance
    chosen = xp.sum(xp.where(above, x, 0), axis=-1)
    lack = xp.astype(k.without(xp.sum(above, axis=-1)), x.dtype)
    value = chosen + lack * (tilt.a + tilt.tau * tilt.t) + tilt.tau * soft
    flat = xp.sum(xp.where(tilt.known > 0, x, 0), axis=-1)
    spread = xp.sum(xp.where(above, (1 - p) * u, -p * u), axis=-1)
    # In a row out of range it is not 0, so that a tangent of tau leaves a mark.
    other = xp.where(tilt.in_range, xp.zeros_like(soft), 1)
    entropy = xp.where(tilt.inner, spread + soft, other)
    return xp.where(tilt.inner, value, flat), entropy, u
