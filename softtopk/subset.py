r"""GradTopK: the marginals of the k-subset distribution, in linear time.

DOCSTRING
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, Rows, as_rows, check_temperature
from .linearize import Linearization, differentiable

_SHORT = 4096  # rows up to this length are solved in blocks, longer ones alone
_BLOCK = 65536  # entries of a block: a few arrays of this size stay in cache
_FACTOR = 1 / 128  # variance from which an entry enters phi as a factor
_REACH = {"d": 690.0, "f": 70.0}  # largest |x - anchor| that exp is asked for


@dataclass
class _Nodes:
    """Points t_l = 2 pi l / N, l = 1..M, of every row, and the weights there.

    Every field has shape ``(M, R)``.  Row r has M[r] <= M points of its own; the rest
    are t = 0 with weight 0.
    """

    half: Array  # cos^2(t/2)
    chord: Array  # c = |e^{it} - 1|^2 = 4 sin^2(t/2)
    sine: Array  # sin t
    weight: Array  # 2 phi(t) e^{-ikt} / (N P(S = k)), complex


@dataclass
class _Block:
    """The tilted law of a block of rows, entries along axis 0: arrays ``(n, R)``."""

    pi: Array
    variance: Array
    skew: Array  # 2 pi - 1
    nodes: _Nodes
    chance: Array  # P(S = k), (R,)
    shift: Array  # the tilt: pi = sigmoid(y - shift), (R,)
    split: tuple[Array, int] | None  # long row: entries taken node by node, degree

    def spread(self, plain: Array, skewed: Array, power: int = 1) -> Array:
        """``sum_l (plain_l + skew * skewed_l) / d_l^power`` for every entry.

        `plain` and `skewed` have shape ``(M, R)``, the result ``(n, R)``.
        """
        if self.split is None:
            return _spread(self.skew, self.nodes, plain, skewed, power)
        loud, degree = self.split
        # 1/(1-cv)^power = sum_j binom(j+power-1, j) (cv)^j, power in {1, 2}
        j = np.arange(degree)[:, None, None]
        series = (self.nodes.chord**j) * (j + 1 if power == 2 else 1)
        dtype = self.variance.dtype
        a = (series * plain).sum(1).astype(dtype)
        b = (series * skewed).sum(1).astype(dtype)
        out = _horner(b, self.variance)
        out *= self.skew
        out += _horner(a, self.variance)
        out[loud] = _spread(
            self.skew[loud], self.nodes, plain, skewed, power
        )
        return out

    def gather(self, values: Array) -> tuple[Array, Array]:
        """``sum_i values_i / d_il`` and ``sum_i values_i skew_i / d_il``, (M, R)."""
        skewed = values * self.skew
        if self.split is None:
            return _gather(self.skew, self.nodes, values, skewed)
        loud, degree = self.split
        a, b = _gather(
            self.skew[loud],
            self.nodes,
            values[loud],
            skewed[loud],
        )
        values = values.copy()
        values[loud] = 0
        skewed[loud] = 0
        for j in range(degree):
            if j:
                values *= self.variance
                skewed *= self.variance
            power = self.nodes.chord**j
            a += power * values.sum(0, dtype=values.dtype)
            b += power * skewed.sum(0, dtype=values.dtype)
        return a, b

    @cached_property
    def marginals(self) -> Array:
        """p, by p - pi = v sum_l Re w_l zeta_l."""
        w = self.nodes.weight
        p = self.spread(-self.nodes.sine * w.imag, self.nodes.chord / 2 * w.real)
        p *= self.variance
        p += self.pi
        return np.clip(p, 0, 1, out=p)

    @cached_property
    def diagonal(self) -> Array:
        """p - sum_l Re w_l z_l^2: what the sum over nodes lacks on the diagonal."""
        w, c = self.nodes.weight, self.nodes.chord
        p = self.marginals
        square = self.spread(c * w.real, np.zeros_like(c))
        square -= self.spread(
            2 * c * self.nodes.half * w.real, -c * self.nodes.sine * w.imag, power=2
        )
        square *= self.variance
        square *= self.variance
        out = p - self.pi
        out *= out
        out += p * (1 - p)
        out -= square
        return out

    def product(self, g: Array) -> Array:
        """The Jacobian of the marginals by y times g."""
        total = self.variance.sum(0)
        mean = np.einsum("ij,ij->j", self.variance, g) / total
        g = g - mean
        c, s, w = self.nodes.chord, self.nodes.sine, self.nodes.weight
        plain, skewed = self.gather(self.variance * g)
        image = c / 2 * skewed + 1j * s * plain
        image = w * (image - (w * image).real.sum(0))
        out = self.spread(-s * image.imag, c / 2 * image.real)
        out *= self.variance
        out += self.diagonal * g
        return out


def _spread(
    u: Array, nodes: _Nodes, plain: Array, skewed: Array, power: int
) -> Array:
    dtype = u.dtype
    scale = (4 / nodes.chord) ** power
    a, b = np.zeros_like(u), np.zeros_like(u)
    term = np.empty_like(u)
    for d, x, y in zip(
        _factors(u, nodes),
        (scale * plain).astype(dtype),
        (scale * skewed).astype(dtype),
        strict=True,
    ):
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
        a[i] = np.einsum("ij,ij->j", values, d)
        b[i] = np.einsum("ij,ij->j", skewed, d)
    return scale * a, scale * b


def _factors(u: Array, nodes: _Nodes) -> Iterator[Array]:
    """4 d_l / c_l = u^2 + cot^2(t_l/2) node by node, in one array that is reused.

    A sum of positive terms: 1 - c v itself cancels where v = 1/4 and t is near pi.
    """
    square = u * u
    d = np.empty_like(u)
    for cot in (4 * nodes.half / nodes.chord).astype(u.dtype):
        yield np.add(square, cot, out=d)


def _horner(coefficients: Array, v: Array) -> Array:
    out = np.full_like(v, coefficients[-1])
    for a in coefficients[-2::-1]:
        out *= v
        out += a
    return out


def _solve(x: Array, k: Array, count: Array, temperature: float) -> _Block:
    """The tilted law of rows ``(R, n)`` with 0 < k < count."""
    y, _ = _centred(x, k, temperature)
    return _law(y, k, count)


def _centred(x: Array, k: Array, temperature: float) -> tuple[Array, Array]:
    """(x - a) / temperature as ``(n, R)``, a the k-th largest entry of its row."""
    n = x.shape[1]
    place = n - k.astype(np.intp)
    if (place == place[0]).all():
        anchor = np.partition(x, place[0], axis=-1)[:, place[0]]
    else:
        anchor = np.take_along_axis(np.sort(x, axis=-1), place[:, None], -1)[:, 0]
    y = np.empty((n, x.shape[0]), x.dtype)
    with np.errstate(over="ignore"):
        np.subtract(x.T, anchor, out=y)
        if temperature != 1.0:
            tiny = np.finfo(x.dtype).tiny
            if tiny < temperature < 1 / tiny:
                y /= temperature
            else:
                y = (y.astype(np.float64) / temperature).astype(x.dtype)
    return y, anchor


def _law(y: Array, k: Array, count: Array) -> _Block:
    dtype = y.dtype
    reach = _REACH[dtype.char]
    odds = np.clip(y, -reach, reach)
    np.negative(odds, out=odds)
    np.exp(odds, out=odds)  # e^{-y}
    shift, pi, odds = _tilt(odds, k, count)
    rest = odds
    rest *= pi  # 1 - pi, to full relative accuracy
    # entries below the reach, -inf among them, are never selected
    pi -= pi.dtype.type(1) / (1 + np.exp(dtype.type(reach)) * np.exp(shift).astype(dtype))
    np.maximum(pi, 0, out=pi)
    variance = pi * rest
    skew = pi - rest
    nodes, chance, split = _weights(pi, rest, variance, skew, k, count)
    return _Block(pi, variance, skew, nodes, chance, shift, split)


def _tilt(odds: Array, k: Array, count: Array) -> tuple[Array, Array, Array]:
    """shift with sum sigmoid(y - shift) close to k - 1/2, from odds = e^{-y}.

    Returns shift ``(R,)``, pi and (1 - pi)/pi.
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
        spread = total - np.einsum("ij,ij->j", pi, pi)
        error = total - target
        done = np.abs(error) <= np.maximum(slack, 0.02 * np.sqrt(np.abs(spread)))
        if done.all():
            break
        low = np.where(error > 0, np.maximum(low, shift), low)
        high = np.where(error < 0, np.minimum(high, shift), high)
        with np.errstate(all="ignore"):
            slope = spread * count / (total * (count - total))
            move = shift + (np.log(total / (count - total)) - goal) / slope
        inside = (move > low) & (move < high) & (step % 8 != 7)
        shift = np.where(done, shift, np.where(inside, move, (low + high) / 2))
    return shift, pi, scaled


def _weights(
    pi: Array, rest: Array, variance: Array, skew: Array, k: Array, count: Array
) -> tuple[_Nodes, Array, tuple[Array, int] | None]:
    n = pi.shape[0]
    dtype = pi.dtype
    eps = float(np.finfo(dtype).eps)
    total = variance.sum(0).astype(np.float64)
    square = np.einsum("ij,ij->j", variance, variance).astype(np.float64)
    points, used = _plan(total, square, k, count, eps)
    depth = int(used.max())
    index = np.arange(1, depth + 1)[:, None]
    live = index <= used
    angle = np.where(live, index, 1) * (np.pi / points)  # t/2
    near = angle <= np.pi / 4
    # the smaller of the two squares is accurate, and their rounded sum is exactly 1
    square = np.where(near, np.sin(angle), np.cos(angle)) ** 2
    half = np.where(near, 1 - square, square)
    far = np.where(near, square, 1 - square)
    chord, sine = 4 * far, np.sin(2 * angle)

    # quiet entries (small variance) enter log phi through power sums of v, the
    # others as factors, in pairs: z_i z_j = e^{it} (half - far u_i u_j
    # + i sine (u_i + u_j)/2)
    loud = None
    if n <= _SHORT:
        edge = _FACTOR
        quiet = _paired(variance) <= edge
        # a pair is quiet if both its entries are
        pairs = quiet.all(0)
        quiet = np.concatenate((pairs, pairs))[:n]
        factor = _paired(skew, -1.0)
    else:
        edge = min(max(float(total[0]) / (n / 32 + 512), _FACTOR), 0.25)
        quiet = variance <= edge
        loud = np.flatnonzero(~quiet)
        factor = _paired(skew[loud], -1.0)
        pairs = np.zeros(factor.shape[1:], bool)
    degree = _degree(float(total.min()), edge, eps)
    selected = np.count_nonzero(quiet & (skew >= 0), axis=0) + (~pairs).sum(0)
    quiet = quiet.astype(dtype)
    lean = np.minimum(pi, rest)
    np.copysign(lean, -skew, out=lean)  # pi - round(pi)
    lean *= quiet
    offset = lean.sum(0).astype(np.float64)
    moments = np.empty((2, degree, k.size))
    power = variance * quiet
    for j in range(degree):
        if j:
            power *= variance
        moments[0, j] = power.sum(0)
        moments[1, j] = np.einsum("ij,ij->j", power, skew)
    turns = np.mod(index * (selected - k), points) / points
    size = np.zeros_like(chord)
    phase = 2 * (angle * offset + np.pi * turns)
    a, b = chord / 2, 2 * angle - sine
    for j in range(1, degree + 1):
        size -= a * (moments[0, j - 1] / j)
        phase += b * moments[1, j - 1]
        b = ((4 * j + 2) * b - 2 * sine * a) / (j + 1)
        a = a * chord
    size = np.exp(size)
    size[~live] = 0
    phi = size * np.cos(phase) + 1j * (size * np.sin(phase))

    plain = factor[0] * factor[1]
    plain[pairs] = -1
    skewed = (factor[0] + factor[1]) / 2
    skewed[pairs] = 0
    z = np.empty(plain.shape, np.result_type(dtype, 1j))
    real = np.empty_like(plain)
    columns = (half.astype(dtype), far.astype(dtype), sine.astype(dtype))
    for i, (h, f, g) in enumerate(zip(*columns, strict=True)):
        np.multiply(plain, f, out=real)
        np.subtract(h, real, out=z.real)
        np.multiply(skewed, g, out=z.imag)
        phi[i] *= np.multiply.reduce(z, axis=0)
    mass = 1 + 2 * phi.real.sum(0)
    nodes = _Nodes(half, chord, sine, 2 * phi / mass)
    return nodes, mass / points, None if loud is None else (loud, degree)


def _paired(values: Array, fill: float = 0.0) -> Array:
    """Halves of axis 0 side by side, ``(2, ceil(n/2), R)``."""
    n, width = values.shape
    if n % 2:
        values = np.concatenate((values, np.full((1, width), fill, values.dtype)))
    return values.reshape(2, -1, width)


def _plan(
    total: Array, square: Array, k: Array, count: Array, eps: float
) -> tuple[Array, Array]:
    """N and M of each row from sum v and sum v^2."""
    bound = 2 - np.log(eps) + 0.5 * np.log1p(2 * np.pi * total)
    x = bound / 3 + np.sqrt(bound * bound / 9 + 2 * bound * total)
    for _ in range(4):
        log = np.log1p(x / total)
        x = x - ((total + x) * log - x - bound) / log
    x = np.minimum(x, np.sqrt(bound * count / 2))
    points = np.ceil(x + 0.6 + np.maximum(0.1, 0.02 * np.sqrt(total)))
    points = np.minimum(points, np.maximum(k, count - k) + 1)
    points += points % 2 == 0
    h = 2 * bound / (total + np.sqrt(total * total + 4 * square * bound))
    used = points * np.arccos(np.maximum(1 - h, -1)) / (2 * np.pi)
    return points, np.minimum(np.ceil(used), (points - 1) / 2).astype(int)


def _degree(total: float, edge: float, eps: float) -> int:
    for degree in range(1, 64):
        rate = min(4.0, 2 * (degree + 1) / (np.e * total)) * edge
        if rate**degree <= eps / 4:
            return degree
    return 64


def _open(rows: Rows) -> Array:
    """Rows whose marginals are not all 0 or 1."""
    return np.flatnonzero((rows.k > 0) & (rows.k < rows.count))


def _blocks(rows: Rows, temperature: float) -> Iterator[tuple[Array | slice, _Block]]:
    which = _open(rows)
    n = rows.x.shape[1]
    size = max(1, _BLOCK // n) if n <= _SHORT else 1
    for start in range(0, which.size, size):
        part = which[start : start + size]
        if part[-1] - part[0] == part.size - 1:
            part = slice(part[0], part[-1] + 1)
        yield part, _solve(rows.x[part], rows.k[part], rows.count[part], temperature)


def _settled(rows: Rows) -> Array:
    """Marginals with all or nothing selected; the rest is left to fill in."""
    out = np.zeros(rows.x.shape, rows.x.dtype)
    full = np.flatnonzero((rows.k == rows.count) & (rows.k > 0))
    if full.size:
        out[full] = rows.x[full] > -np.inf
    return out


def grad_topk(
    x: ArrayLike,
    k: ArrayLike,
    *,
    temperature: float = 1.0,
    axis: int = -1,
    where: ArrayLike | None = None,
) -> Array:
    rows = as_rows(x, k, axis=axis, where=where, integer_k=True)
    temperature = check_temperature(temperature)
    out = _settled(rows)
    for part, block in _blocks(rows, temperature):
        out[part] = block.marginals.T
    return rows.expand(out)
