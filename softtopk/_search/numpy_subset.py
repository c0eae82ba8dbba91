"""The tilted law of a row on NumPy, as derived in `softtopk.subset`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._rows.numpy_rows import Array, NumPyRows, divide, kth_largest, of_part
from .subset_law import plan

_LONGEST_IN_BLOCKS = 4096
"""Rows up to this length are solved in blocks, longer ones one by one."""

_BLOCK_ENTRIES = 65536  # so few that a few arrays of this size fit the cache
_FACTOR = 1 / 128  # an entry of larger variance is multiplied into phi as a factor
_RUN = 1024  # entries that one call of vecdot sums
_LARGEST_EXPONENT = {"d": 690.0, "f": 70.0}  # |x - anchor| at most, under exp


@dataclass
class _Nodes:
    """Nodes t_l = 2 pi l / N, l = 1..M, of every row, and the weights there.

    Every field has shape ``(M, R)``.  A row that needs fewer nodes than another of its
    block has weight 0 at the rest.
    """

    cosine_squared: Array  # cos^2(t/2)
    chord: Array  # c = |e^{it} - 1|^2 = 4 sin^2(t/2)
    sine: Array  # sin t
    weight: Array  # 2 phi(t) e^{-ikt} / (N P(S = k)), complex


@dataclass
class Block:
    """The tilted law of a block of rows, entries along axis 0: arrays ``(n, R)``."""

    pi: Array
    variance: Array
    skew: Array  # 2 pi - 1
    nodes: _Nodes
    chance: Array  # P(S = k), (R,)
    shift: Array  # the tilt: pi = sigmoid(y - shift), y = (x - anchor)/tau; (R,)
    anchor: Array  # the k-th largest score, (R,)
    split: tuple[Array, int] | None  # long row: entries taken node by node, degree

    def spread(self, bare: Array, skewed: Array, power: int = 1) -> Array:
        """``sum_l (bare_l + skew * skewed_l) / d_l^power`` for every entry.

        `bare` and `skewed` have shape ``(M, R)``, the result ``(n, R)``.
        """
        if self.split is None:
            return _spread(self.skew, self.nodes, bare, skewed, power)
        loud, degree = self.split
        # 1/(1-cv)^power = sum_j binom(j+power-1, j) (cv)^j, power in {1, 2}
        j = np.arange(degree)[:, None, None]
        series = (self.nodes.chord**j) * (j + 1 if power == 2 else 1)
        dtype = self.variance.dtype
        a = (series * bare).sum(1).astype(dtype)
        b = (series * skewed).sum(1).astype(dtype)
        out = _horner(b, self.variance)
        out *= self.skew
        out += _horner(a, self.variance)
        out[loud] = _spread(self.skew[loud], self.nodes, bare, skewed, power)
        return out

    def gather(self, values: Array) -> tuple[Array, Array]:
        """``sum_i values_i / d_il`` and ``sum_i values_i skew_i / d_il``, (M, R)."""
        skewed = values * self.skew
        if self.split is None:
            return _gather(self.skew, self.nodes, values, skewed)
        loud, degree = self.split
        a, b = _gather(self.skew[loud], self.nodes, values[loud], skewed[loud])
        values = values.copy()
        values[loud] = 0
        skewed[loud] = 0
        for j in range(degree):
            if j:
                values *= self.variance
                skewed *= self.variance
            power = self.nodes.chord**j
            a += power * values.sum(0)
            b += power * skewed.sum(0)
        return a, b

    @cached_property
    def drift(self) -> Array:
        """p - pi."""
        w = self.nodes.weight
        out = self.spread(-self.nodes.sine * w.imag, self.nodes.chord / 2 * w.real)
        out *= self.variance
        return out

    @property
    def marginals(self) -> Array:
        """p, ``(n, R)``."""
        return np.clip(self.pi + self.drift, 0, 1)

    @cached_property
    def diagonal(self) -> Array:
        """p - sum_l Re w_l z_l^2, which `product` adds on the Jacobian's diagonal."""
        c, s, w = self.nodes.chord, self.nodes.sine, self.nodes.weight
        p = self.marginals
        # d Re zeta^2 = c - 2 c cos^2(t/2)/d and d^2 Im zeta^2 = u c sin t
        square = self.spread(c * w.real, np.zeros_like(c))
        bare = 2 * c * self.nodes.cosine_squared * w.real
        square -= self.spread(bare, c * s * w.imag, power=2)
        square *= self.variance * self.variance
        return p * (1 - p) + self.drift**2 - square

    def product(self, g: Array) -> Array:
        """The Jacobian of the marginals by y times g, both ``(n, R)``."""
        g = g - _dot(self.variance, g) / self.variance.sum(0)
        c, s, w = self.nodes.chord, self.nodes.sine, self.nodes.weight
        bare, skewed = self.gather(self.variance * g)
        image = c / 2 * skewed + 1j * s * bare
        image = w * (image - (w * image).real.sum(0))
        out = self.spread(-s * image.imag, c / 2 * image.real)
        out *= self.variance
        out += self.diagonal * g
        return out

    def pairs(self) -> Array:
        """P(i, j in I), ``(R, n, n)``, with an array of all nodes and entries."""
        c, s, w = self.nodes.chord, self.nodes.sine, self.nodes.weight
        u, v = self.skew.T[:, :, None], self.variance.T[:, :, None]
        c, s, w = c.T[:, None], s.T[:, None], w.T[:, None]
        half = self.nodes.cosine_squared.T[:, None]
        # This is v zeta.  The weights w count each node together with its conjugate.
        zeta = v * (u * c / 2 + 1j * s) / (c / 4 * u * u + half)
        p, drift = self.marginals.T, self.drift.T
        out: Array = ((zeta * w) @ np.swapaxes(zeta, 1, 2)).real
        out -= drift[:, :, None] * drift[:, None]
        out += p[:, :, None] * p[:, None]
        np.maximum(out, 0, out=out)
        n = p.shape[1]
        out[:, range(n), range(n)] = p
        return out


def _spread(u: Array, nodes: _Nodes, bare: Array, skewed: Array, power: int) -> Array:
    dtype = u.dtype
    scale = (4 / nodes.chord) ** power
    a, b = np.zeros_like(u), np.zeros_like(u)
    term = np.empty_like(u)
    terms = (scale * bare).astype(dtype), (scale * skewed).astype(dtype)
    for d, x, y in zip(_factors(u, nodes), *terms, strict=True):
        if power == 2:
            d *= d
        a += np.divide(x, d, out=term)
        b += np.divide(y, d, out=term)
    b *= u
    a += b
    return a


def _gather(
    u: Array, nodes: _Nodes, values: Array, skewed: Array
) -> tuple[Array, Array]:
    scale = 4 / nodes.chord
    a, b = np.empty(scale.shape), np.empty(scale.shape)
    for i, d in enumerate(_factors(u, nodes)):
        np.reciprocal(d, out=d)
        a[i] = _dot(values, d)
        b[i] = _dot(skewed, d)
    return scale * a, scale * b


def _factors(u: Array, nodes: _Nodes) -> Iterator[Array]:
    """4 d_l / c_l = u^2 + cot^2(t_l/2) node by node, in one array that is reused.

    Both terms are positive.  The direct form d = 1 - c v would cancel where v is near
    1/4 and t near pi.
    """
    square = u * u
    d = np.empty_like(u)
    for cot in (4 * nodes.cosine_squared / nodes.chord).astype(u.dtype):
        yield np.add(square, cot, out=d)


def _dot(a: Array, b: Array) -> Array:
    """Sum of a b over axis 0; a long axis is summed in runs, for less rounding."""
    n, width = a.shape
    if width > 1 or n < 2 * _RUN:
        return np.einsum("ij,ij->j", a, b)
    cut = n // _RUN * _RUN
    runs = np.vecdot(a[:cut].reshape(-1, _RUN), b[:cut].reshape(-1, _RUN))
    return (runs.sum() + np.vecdot(a[cut:, 0], b[cut:, 0])).reshape(1)


def _horner(coefficients: Array, v: Array) -> Array:
    out = np.full_like(v, coefficients[-1])
    for a in coefficients[-2::-1]:
        out *= v
        out += a
    return out


def _tilted(x: Array, k: Array, count: Array, temperature: float | Array) -> Block:
    """The tilted law of rows ``(R, n)`` with 0 < k < count."""
    anchor, dtype = kth_largest(x, k), x.dtype
    y = np.subtract(x.T, anchor, out=np.empty(x.shape[::-1], dtype))
    y = divide(y, temperature)  # (n, R)
    reach = _LARGEST_EXPONENT[dtype.char]
    odds = np.clip(y, -reach, reach)
    np.negative(odds, out=odds)
    np.exp(odds, out=odds)  # e^{-y}
    shift, pi, odds = _tilt(odds, k, count)
    rest = odds
    rest *= pi  # 1 - pi, to full relative accuracy
    # Above, y was clipped to [-reach, reach], so an entry with y <= -reach, such as a
    # score of -inf, has the positive pi that belongs to y = -reach.  This number is
    # subtracted from every pi, which changes the others by no more than this tiny
    # number.  It is computed by the same operations as in `_tilt`, so it has the same
    # rounding, and the pi of such an entry becomes exactly 0: it is never selected.
    scaled = np.exp(dtype.type(reach)) * np.exp(shift).astype(dtype)
    pi -= dtype.type(1) / (1 + scaled)
    np.maximum(pi, 0, out=pi)
    variance = pi * rest
    skew = pi - rest
    nodes, chance, split = _weights(pi, rest, variance, skew, k, count)
    return Block(pi, variance, skew, nodes, chance, shift, anchor, split)


def _tilt(odds: Array, k: Array, count: Array) -> tuple[Array, Array, Array]:
    """The shift with sum sigmoid(y - shift) close to k - 1/2, from odds = e^{-y}.

    Returns the shift ``(R,)``, pi and (1 - pi)/pi.
    """
    dtype = odds.dtype
    target = k - 0.5
    low = -np.log(2 * k - 1) - 0.01
    high = np.log(2 * (count - k) + 1) + 0.01
    shift = np.zeros(k.shape)
    slack = 1 / 16 + 4 * np.finfo(dtype).eps * k
    goal = np.log(target / (count - target))
    scaled, pi = np.empty_like(odds), np.empty_like(odds)
    for step in range(60):
        np.multiply(odds, np.exp(shift).astype(dtype), out=scaled)
        np.add(scaled, 1, out=pi)
        np.reciprocal(pi, out=pi)
        total = pi.sum(0).astype(np.float64)
        spread = total - _dot(pi, pi)
        error = total - target
        done = np.abs(error) <= np.maximum(slack, 0.02 * np.sqrt(np.abs(spread)))
        if done.all():
            break
        low = np.where(error > 0, np.maximum(low, shift), low)
        high = np.where(error < 0, np.minimum(high, shift), high)
        slope = spread * count / (total * (count - total))
        move = shift + (np.log(total / (count - total)) - goal) / slope
        inside = (move > low) & (move < high) & (step % 8 != 7)
        shift = np.where(done, shift, np.where(inside, move, (low + high) / 2))
    return shift, pi, scaled


class _Circle(NamedTuple):
    """The nodes of every row: t/2, sin t, and the squares of sin and cos of t/2.

    If a row needs fewer nodes than another row of its block, `live` is false at the
    nodes that it does not use.
    """

    node: Array  # l
    live: Array
    N: Array  # the number of nodes on the whole circle, (R,)
    angle: Array
    sine: Array
    sine_squared: Array  # sin^2(t/2)
    cosine_squared: Array  # cos^2(t/2)
    chord: Array


def _circle(N: Array, used: Array, dtype: Any) -> _Circle:
    used = used.astype(int)
    node = np.arange(1, int(used.max()) + 1)[:, None]
    live = node <= used
    angle = np.where(live, node, 1) * (np.pi / N)
    near = angle <= np.pi / 4
    opposite, adjacent = np.sin(angle), np.cos(angle)
    # The smaller of sin^2 and cos^2 is computed as a square, which is accurate, and the
    # larger as 1 minus the smaller.  So their rounded sum is exactly 1.  `_multiply`
    # needs that: a pair of quiet entries (see `_Parts`) has this sum as its factor
    # there, in place of its own, and must not change the product.
    smaller = (np.where(near, opposite, adjacent) ** 2).astype(dtype)
    sine_squared = np.where(near, smaller, 1 - smaller)
    cosine_squared = np.where(near, 1 - smaller, smaller)
    chord, sine = 4 * sine_squared.astype(np.float64), 2 * opposite * adjacent
    return _Circle(node, live, N, angle, sine, sine_squared, cosine_squared, chord)


class _Parts(NamedTuple):
    """The entries divided into those of small variance, `quiet`, and the others.

    Quiet entries enter log phi through power sums of v.  The factors z_i of the others
    are multiplied in pairs,
    z_i z_j = e^{it} (cos^2(t/2) - sin^2(t/2) u_i u_j + i sin t (u_i + u_j)/2).
    """

    quiet: Array
    factor: Array  # the skews of the pairs of factors
    pairs: Any  # the pairs whose entries are both quiet: not multiplied as factors
    loud: Array | None  # in a long row, the indices of the entries that are not quiet
    edge: float  # the largest variance of a quiet entry


def _parted(variance: Array, skew: Array, total: Array) -> _Parts:
    n = len(variance)
    if n <= _LONGEST_IN_BLOCKS:
        pairs = np.all(_paired(variance) <= _FACTOR, axis=0)
        quiet = np.concatenate((pairs, pairs))[:n]
        return _Parts(quiet, _paired(skew, -1.0), pairs, None, _FACTOR)
    edge = min(max(float(total[0]) / (n / 32 + 512), _FACTOR), 0.25)
    quiet = variance <= edge
    loud = np.flatnonzero(~quiet)
    factor = _paired(skew[loud], -1.0)
    return _Parts(quiet, factor, np.zeros(factor.shape[1:], bool), loud, edge)


def _weights(
    pi: Array, rest: Array, variance: Array, skew: Array, k: Array, count: Array
) -> tuple[_Nodes, Array, tuple[Array, int] | None]:
    dtype, eps = pi.dtype, float(np.finfo(pi.dtype).eps)
    total = variance.sum(0).astype(np.float64)
    square = _dot(variance, variance).astype(np.float64)
    circle = _circle(*plan(total, square, k, count, eps), dtype)
    parts = _parted(variance, skew, total)
    degree = _degree(float(total.min()), parts.edge, eps)
    chosen = np.count_nonzero(parts.quiet & (skew >= 0), axis=0) + (~parts.pairs).sum(0)
    quiet = parts.quiet.astype(dtype)
    lean = np.minimum(pi, rest)
    np.copysign(lean, -skew, out=lean)  # pi - round(pi)
    lean *= quiet
    offset = lean.sum(0).astype(np.float64)
    moments = _power_sums(variance * quiet, variance, skew, degree)
    phi = _sums_of_logs(circle, moments, offset, chosen - k)
    _multiply(phi, parts, circle)
    mass = 1 + 2 * phi.real.sum(0)
    cosine_squared, loud = circle.cosine_squared.astype(np.float64), parts.loud
    nodes = _Nodes(cosine_squared, circle.chord, circle.sine, 2 * phi / mass)
    return nodes, mass / circle.N, None if loud is None else (loud, degree)


def _power_sums(power: Array, variance: Array, skew: Array, degree: int) -> Array:
    """Sums of v^j and of u v^j over the quiet entries.

    `power` holds their variances, and 0 for the others; it is overwritten.
    """
    moments = np.empty((2, degree, power.shape[1]))
    for j in range(degree):
        if j:
            power *= variance
        moments[0, j] = power.sum(0)
        moments[1, j] = _dot(power, skew)
    return moments


def _sums_of_logs(
    circle: _Circle, moments: Array, offset: Array, turns: Array
) -> Array:
    """The product of the quiet entries' factors and e^{-ikt}, from its logarithm."""
    angle, sine, chord, N = circle.angle, circle.sine, circle.chord, circle.N
    turned = np.mod(circle.node * turns, N) / N
    size = np.zeros_like(chord)
    phase = 2 * (angle * offset + np.pi * turned)
    a, b = chord / 2, 2 * angle - sine
    for j, (even, odd) in enumerate(moments.swapaxes(0, 1), 1):
        size -= a * (even / j)
        phase += b * odd
        b = ((4 * j + 2) * b - 2 * sine * a) / (j + 1)
        a = a * chord
    size = np.exp(size)
    size[~circle.live] = 0
    return size * np.cos(phase) + 1j * (size * np.sin(phase))


def _multiply(phi: Array, parts: _Parts, circle: _Circle) -> None:
    """Multiply phi by the pairs of factors, node by node."""
    factor, dtype = parts.factor, circle.cosine_squared.dtype
    product = factor[0] * factor[1]
    product[parts.pairs] = -1
    skewed = (factor[0] + factor[1]) / 2
    skewed[parts.pairs] = 0
    z = np.empty(product.shape, np.result_type(dtype, 1j))
    real = np.empty_like(product)
    squares, sine = (circle.cosine_squared, circle.sine_squared), circle.sine
    for i, (h, f, g) in enumerate(zip(*squares, sine.astype(dtype), strict=True)):
        np.multiply(product, f, out=real)
        np.subtract(h, real, out=z.real)
        np.multiply(skewed, g, out=z.imag)
        phi[i] *= np.multiply.reduce(z, axis=0)


def _paired(values: Array, fill: float = 0.0) -> Array:
    """The two halves of axis 0 stacked, ``(2, ceil(n/2), R)``."""
    n, width = values.shape
    if n % 2:
        values = np.concatenate((values, np.full((1, width), fill, values.dtype)))
    return values.reshape(2, -1, width)


def _degree(total: float, edge: float, eps: float) -> int:
    for degree in range(1, 64):
        rate = min(4.0, 2 * (degree + 1) / (np.e * total)) * edge
        if rate**degree <= eps / 4:
            return degree
    return 64


def law_blocks(
    rows: NumPyRows, temperature: float | Array
) -> Iterator[tuple[Any, Block]]:
    """The rows whose marginals are not all 0 or 1, block by block."""
    which = np.flatnonzero((rows.k > 0) & (rows.k < rows.finite_count))
    n = rows.x.shape[1]
    size = max(1, _BLOCK_ENTRIES // n) if n <= _LONGEST_IN_BLOCKS else 1
    for start in range(0, which.size, size):
        part: Any = which[start : start + size]
        if part[-1] - part[0] == part.size - 1:
            part = slice(part[0], part[-1] + 1)  # a view is cheaper than a copy
        given = rows.x[part], rows.k[part], rows.finite_count[part]
        yield part, _tilted(*given, of_part(temperature, part))


def all_or_none(rows: NumPyRows) -> Array:
    """The marginals of rows with k = 0 or k = n, and 0 for all other rows."""
    out = np.zeros(rows.x.shape, rows.x.dtype)
    full = np.flatnonzero((rows.k == rows.finite_count) & (rows.k > 0))
    if full.size:
        out[full] = rows.x[full] > -np.inf
    return out


def numpy_partition(rows: NumPyRows, temperature: float | Array) -> tuple[Array, Array]:
    """tau log Z_k(x/tau) and the marginals of every row."""
    p = all_or_none(rows)
    out = np.where(p > 0, rows.x, 0).sum(-1, dtype=np.float64)
    for part, block in law_blocks(rows, temperature):
        p[part] = block.marginals.T
        top = block.skew >= 0
        chosen = np.where(top, rows.x[part].T, 0).sum(0, dtype=np.float64)
        smaller = np.minimum(block.pi, np.subtract(1, block.pi))
        soft = -np.log1p(-smaller).sum(0, dtype=np.float64)
        # With s = anchor + tau shift and v = (x - s) / tau, let every entry be selected
        # independently with pi = sigmoid(v), and let S be the number of selected
        # entries.  Then
        #     tau log Z_k = k s + tau (sum softplus(v) + log P(S = k)),
        # with softplus(v) = max(v, 0) + log(1 + e^-|v|).  The sum of k s and all
        # tau max(v, 0) is `chosen`, the sum of the scores with v >= 0, plus `lack`
        # times s.  The sum of all log(1 + e^-|v|) is `soft`.  `chosen` and the anchor
        # may be huge and could overflow if divided by tau, so they keep the units of
        # the scores.
        lack = rows.k[part] - top.sum(0)
        rest = lack * block.shift + soft + np.log(block.chance)
        out[part] = chosen + lack * block.anchor + of_part(temperature, part) * rest
    return out.astype(rows.x.dtype), p
