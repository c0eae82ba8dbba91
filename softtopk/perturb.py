r"""Perturb-max: the probability that a score plus independent noise is the largest.

With independent noise of distribution function :math:`\Phi` and density
:math:`\varphi`, entry i wins with probability

.. math:: p_i=\int \varphi(m-x_i)\prod_{j\ne i}\Phi(m-x_j)\,dm .

The integral runs over the *position m of the maximum* and not over the noise of one
entry, so that all n probabilities share the nodes and the product: with
:math:`h=\varphi/\Phi` and :math:`G(m)=\prod_j\Phi(m-x_j)` it is
:math:`p_i=\int h(m-x_i)\,G(m)\,dm`, at O(n) a node.  The derivative has the same form:
:math:`\partial p_i/\partial x_j=-\int h(m-x_i)h(m-x_j)G(m)\,dm` off the diagonal, and
rows sum to zero.  Gumbel noise has a closed form, softmax.

The quadrature is deterministic: Gauss-Legendre panels, halved until the halves agree
with the whole.  What they differ by is the error estimate, reduced only where the last
halving has shown that the next one gains.  Derived in the chapters
*distributions/perturb-max* and, the quadrature, *computing/quadrature*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._linearize import Differentiable, Linearization, operator
from ._rows.numpy_rows import Array, Axis, check_temperature, finite_numpy_rows

__all__ = ["GUMBEL", "LOGISTIC", "NORMAL", "UNIFORM", "Noise", "perturb_max"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
# A panel is halved until the sum of its halves differs from the whole by at most 1e-12.
# Where the integrand is smooth, a halving divides the error by about 2^20, so the error
# of the halves is then below rounding.  The error estimate is cautious: 2^-6 times the
# last difference, if this is at most 2^-6 times the difference of the halving before.
# Otherwise the estimate is the larger of the two differences.  That happens at a kink
# which the noise does not declare: there the differences fall slowly, and a single one
# may be small by accident.
_TOLERANCE = 1e-12
_GAIN = 2.0**-6
_MAX_DEPTH = 60
_LOSING_GAP = 1e100  # a score this far below is certain to lose; its square is finite
_BLOCK_ENTRIES = 1 << 21  # of an array held at a time: 16 MB


def _normal_cdf(s: Array) -> Array:
    return 0.5 * erfc(-s / math.sqrt(2))


def _normal_log_cdf(s: Array) -> Array:
    tail = 0.5 * erfc(np.abs(s) / math.sqrt(2))
    return np.where(s > 0, np.log1p(-tail), _log(tail))


def erfc(z: ArrayLike) -> Array:
    r"""The complementary error function, by the midpoint rule.

    For :math:`z\ge0`, :math:`\operatorname{erfc}(z)=\frac{2z}{\pi}e^{-z^2}
    \int_0^\infty \frac{e^{-t^2}}{t^2+z^2}\,dt`.  The midpoint rule of step h = 1/2
    errs by the residue at the pole :math:`t=iz`, which is added where the pole lies
    within :math:`\pi/h` of the axis, and by less than :math:`e^{-\pi^2/h^2}<10^{-17}`;
    13 nodes suffice.

    Parameters
    ----------
    z : array_like

    Returns
    -------
    array
        Relative error below a few eps (1 + z^2); subnormal from z = 26.6 on, 0 from
        27.3 on.

    Examples
    --------
    >>> erfc([0.0, 1.0]).round(12).tolist()
    [1.0, 0.15729920705]
    """
    value = np.asarray(z, dtype=float)
    size = np.minimum(np.abs(value), 40.0)
    step = 0.5
    nodes = (np.arange(13) + 0.5) * step
    total = np.zeros_like(size)
    for node in nodes:
        total += math.exp(-node * node) / (node * node + size * size)
    decay = np.where(size < math.pi / step, np.exp(-2 * math.pi * size / step), 0.0)
    tail = 2 * step * size * np.exp(-size * size) / math.pi * total
    tail += 2 * decay / (1 + decay)
    return np.where(value < 0, 2 - tail, tail)


def _log(value: Array) -> Array:
    """log with log(0) = -inf and no warning."""
    with np.errstate(divide="ignore"):
        return np.log(value)


@dataclass(frozen=True)
class Noise:
    r"""A noise distribution for `perturb_max`.

    Parameters
    ----------
    name : str
    cdf : callable
        :math:`\Phi`, vectorised, nondecreasing from 0 to 1.
    quantile : callable
        :math:`\Phi^{-1}` of a float in [0, 1]; finite at 0 or 1 where the support
        ends there.
    density : callable, optional
        :math:`\varphi=\Phi'`, vectorised.  Without it the density is the central
        difference of `cdf`, good to about ten digits where `cdf` is smooth.
    log_cdf : callable, optional
        :math:`\log\Phi`, for accuracy where :math:`\Phi` is near 1 or 0.
    kinks : tuple of float
        Where the density is not smooth: there the quadrature splits its panels.  One
        that is not declared costs accuracy, about 1e-7 for a corner.

    Examples
    --------
    >>> import numpy as np
    >>> laplace = Noise(
    ...     "laplace",
    ...     lambda s: np.where(s < 0, 0.5 * np.exp(s), 1 - 0.5 * np.exp(-np.abs(s))),
    ...     lambda t: np.log(2 * t) if t < 0.5 else -np.log(2 - 2 * t),
    ...     lambda s: 0.5 * np.exp(-np.abs(s)),
    ...     kinks=(0.0,),
    ... )
    >>> perturb_max([1.0, 0.0], laplace).round(6).tolist()
    [0.72409, 0.27591]
    """

    name: str
    cdf: Callable[[Array], Array]
    quantile: Callable[[float], float]
    density: Callable[[Array], Array] | None = None
    log_cdf: Callable[[Array], Array] | None = None
    kinks: tuple[float, ...] = ()

    def log_distribution(self, s: Array) -> Array:
        """log Phi, -inf where Phi is 0."""
        return self.log_cdf(s) if self.log_cdf is not None else _log(self.cdf(s))

    def mass(self, s: Array) -> Array:
        """The density, from the distribution function where none was given."""
        if self.density is not None:
            return self.density(s)
        step = 1e-3 * self.width
        fine, coarse = (
            (self.cdf(s + j * step) - self.cdf(s - j * step)) / (2 * j * step)
            for j in (1, 2)
        )
        return np.maximum((4 * fine - coarse) / 3, 0.0)

    @property
    def width(self) -> float:
        """The interquartile range, the scale of the noise."""
        return float(self.quantile(0.75) - self.quantile(0.25))

    def range(self, n: int) -> list[float]:
        """Panel edges that cover the maximum of n noises, in quantile steps."""
        levels = [1e-12, 1e-6, 1e-3, 0.05, 0.3, 0.7, 0.95, 1 - 1e-3, 1 - 1e-6]
        edges = [float(self.quantile(level)) for level in levels]
        width = self.width
        if not (width > 0 and edges == sorted(edges) and math.isfinite(sum(edges))):
            raise ValueError("noise must have a quantile that is finite and increasing")
        with np.errstate(divide="ignore"):
            low, high = float(self.quantile(0.0)), float(self.quantile(1.0))
        below = self._tail(edges[0], -width, low, lambda s: self.cdf(s) > 1e-18)
        above = self._tail(
            edges[-1], width, high, lambda s: -n * self.log_distribution(s) > 1e-17
        )
        return sorted({*below, *edges, *above})

    @staticmethod
    def _tail(
        start: float, step: float, end: float, beyond: Callable[[Array], Any]
    ) -> list[float]:
        """Edges outward from `start`, at doubling steps, until no mass is beyond."""
        edges = [start]
        while beyond(np.asarray(edges[-1])):
            edges.append(start + step)
            step *= 2
            if (edges[-1] - end) * step >= 0:
                return [*edges[:-1], end]
            if not math.isfinite(step):
                raise ValueError("noise must have a cdf that tends to 0 and to 1")
        return edges


def _unbounded(inner: Callable[[float], float]) -> Callable[[float], float]:
    """The quantile of a noise without bounds, from its formula between 0 and 1."""

    def quantile(t: float) -> float:
        if t <= 0:
            return -math.inf
        return math.inf if t >= 1 else inner(t)

    return quantile


def _exp(s: Array) -> Array:
    """exp without an overflow warning."""
    return np.exp(np.minimum(s, 700.0))


GUMBEL = Noise(
    "gumbel",
    cdf=lambda s: np.exp(-_exp(-s)),
    quantile=_unbounded(lambda t: -math.log(-math.log(t))),
    density=lambda s: np.exp(-s - _exp(-s)),
    log_cdf=lambda s: -_exp(-s),
)
"""Gumbel noise: perturb-max with it is softmax."""

NORMAL = Noise(
    "normal",
    cdf=_normal_cdf,
    quantile=_unbounded(NormalDist().inv_cdf),
    density=lambda s: np.exp(-0.5 * s * s) / math.sqrt(2 * math.pi),
    log_cdf=_normal_log_cdf,
)
"""Standard normal noise."""

UNIFORM = Noise(
    "uniform",
    cdf=lambda s: np.clip(s, 0.0, 1.0),
    quantile=lambda t: t,
    density=lambda s: np.where((s >= 0) & (s <= 1), 1.0, 0.0),
    kinks=(0.0, 1.0),
)
"""Uniform noise on [0, 1]."""

LOGISTIC = Noise(
    "logistic",
    cdf=lambda s: 1 / (1 + _exp(-s)),
    quantile=_unbounded(lambda t: math.log(t / (1 - t))),
    density=lambda s: np.exp(-np.abs(s)) / (1 + np.exp(-np.abs(s))) ** 2,
    log_cdf=lambda s: np.minimum(s, 0.0) - np.log1p(np.exp(-np.abs(s))),
)
"""Logistic noise."""

_BY_NAME = {noise.name: noise for noise in (GUMBEL, LOGISTIC, NORMAL, UNIFORM)}


def _check_noise(noise: str | Noise) -> Noise:
    if isinstance(noise, Noise):
        return noise
    if isinstance(noise, str) and noise in _BY_NAME:
        return _BY_NAME[noise]
    raise ValueError(
        f"noise must be a Noise or one of {', '.join(sorted(_BY_NAME))}, got {noise!r}"
    )


def _edges(noise: Noise, gaps: Array) -> Array:
    """Panel edges, ascending in each row: those of the noise, and every kink."""
    common = np.asarray(noise.range(gaps.shape[1]))
    edges = np.broadcast_to(common, (gaps.shape[0], common.size))
    if not noise.kinks:
        return edges
    kinks = np.subtract.outer(np.asarray(noise.kinks), gaps)
    inside = np.clip(kinks, common[0], common[-1]).swapaxes(0, 1)
    return np.sort(np.hstack([edges, inside.reshape(gaps.shape[0], -1)]), axis=1)


def _hazards(noise: Noise, gaps: Array, s: Array) -> tuple[Array, Array]:
    """h(s + gap) and G(s) at nodes s of shape (R, L): (R, n, L) and (R, L)."""
    takes_part = np.isfinite(gaps)[:, :, None]
    gaps = np.minimum(gaps, _LOSING_GAP)[:, :, None]
    at = np.where(takes_part, gaps, 0.0) + s[:, None, :]
    logs = np.where(takes_part, noise.log_distribution(at), 0.0)
    alive = takes_part & (logs > -math.inf)
    log_mass = _log(np.where(alive, noise.mass(at), 0.0))
    log_hazard = np.where(alive, log_mass - np.where(alive, logs, 0.0), -math.inf)
    return np.exp(np.minimum(log_hazard, 700.0)), np.exp(logs.sum(axis=1))


def _quadrature(
    noise: Noise, gaps: Array, integrand: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Integrate over the position of the maximum; value and error, (R, n) each."""

    def panel(low: Array, high: Array) -> Array:
        half = 0.5 * (high - low)
        hazard, product = _hazards(noise, gaps, low + half * (1 + _NODES))
        part = (integrand(hazard, product) * _WEIGHTS).sum(axis=-1) * half
        if not np.isfinite(part).all():
            raise ValueError("noise must have a cdf and a density without NaN")
        return part

    value = np.zeros_like(gaps)
    error = np.zeros_like(gaps)
    edges = _edges(noise, gaps)[:, :, None]
    stack = [
        (low, high, panel(low, high), 0.0, 0)
        for low, high in itertools.pairwise(edges.swapaxes(0, 1))
        if (low < high).any()
    ]
    while stack:
        low, high, coarse, before, depth = stack.pop()
        middle = 0.5 * (low + high)
        left, right = panel(low, middle), panel(middle, high)
        difference = np.abs(left + right - coarse)
        change = difference.sum(axis=1, keepdims=True)
        size = (np.abs(left) + np.abs(right)).sum(axis=1, keepdims=True)
        # The first panels have no rate of convergence yet: more is asked of them.
        limit = _TOLERANCE if depth else _GAIN * _TOLERANCE
        splits = ((low < middle) & (middle < high)).any()
        small = (change <= limit * np.maximum(size, 1.0)).all()
        if small or not splits or depth == _MAX_DEPTH:
            value += left + right
            gained = change <= _GAIN * before
            error += np.where(gained, _GAIN * difference, np.maximum(change, before))
        else:
            stack += [
                (low, middle, left, change, depth + 1),
                (middle, high, right, change, depth + 1),
            ]
    return value, error


def _integrate(
    noise: Noise, gaps: Array, integrand: Callable[[slice, Array, Array], Array]
) -> tuple[Array, Array]:
    """Integrate for every row, in blocks of bounded memory."""
    value, error = np.zeros_like(gaps), np.zeros_like(gaps)
    block = max(1, _BLOCK_ENTRIES // (gaps.shape[1] * _NODES.size))
    for start in range(0, gaps.shape[0], block):
        part = slice(start, start + block)
        own = partial(integrand, part)
        value[part], error[part] = _quadrature(noise, gaps[part], own)
    return value, error


def _probabilities(noise: Noise, gaps: Array) -> tuple[Array, Array]:
    return _integrate(noise, gaps, lambda _, hazard, product: hazard * product[:, None])


@operator
def perturb_max(
    x: ArrayLike,
    noise: str | Noise = "normal",
    *,
    temperature: float = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    return_error: bool = False,
) -> Differentiable[Any]:
    r"""Probability that each score, with independent noise added, is the largest.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf, any shape; units are those of the noise times
        `temperature`.
    noise : {"normal", "gumbel", "logistic", "uniform"} or Noise
        The distribution of the noise; ``"gumbel"`` gives softmax.
    temperature : float
        The noise is multiplied by it.
    axis : int, tuple of int, or None
        The axis that holds the competitors; several do together, None means all.
    where : array_like of bool, optional
        Entries that compete; the others get 0.
    return_error : bool
        Whether to return the quadrature's error estimate too.

    Returns
    -------
    p : array
        Of the shape of `x`; sums to 1 along `axis` up to the quadrature's error.
    error : array
        Only with `return_error`: an estimate from above of the absolute error of the
        quadrature, which includes the distance of the sum from 1 (rounding, about
        1e-15, comes on top).

    Raises
    ------
    TypeError
        If an argument has a wrong type.
    ValueError
        If `x` holds NaN, +inf or a row of only -inf, if the noise is unknown or its
        functions are not those of a continuous distribution, or if the temperature
        is not positive.

    Notes
    -----
    O(n) a node; some hundreds of nodes for smooth noise, some tens for each kink of
    the density in each score.  The derivative is available through
    `softtopk.linearize`.

    References
    ----------
    Claims B32 to B38; J. Su (2024), https://spaces.ac.cn/archives/10145.

    Examples
    --------
    >>> perturb_max([1.0, 0.0], "normal").round(6).tolist()
    [0.76025, 0.23975]
    >>> perturb_max([1.0, 0.0], "gumbel").round(6).tolist()
    [0.731059, 0.268941]
    """
    chosen, tau = _check_noise(noise), check_temperature(temperature)
    rows = finite_numpy_rows(x, axis, where)
    x = rows.x.astype(np.float64)
    # How far each score lies below the largest of its row, in units of the noise.
    gaps = (np.max(x, axis=1, keepdims=True) - x) / tau
    found, error = _probabilities(chosen, gaps)
    p = rows.expand(found.astype(rows.x.dtype))

    def product(tangent: Array) -> Array:
        # Scaled to one width of the noise, so that the tolerance fits any tangent.
        change = tangent.astype(np.float64)
        unit = np.max(np.abs(change), axis=1, keepdims=True) / chosen.width
        change = np.divide(change, unit, out=np.zeros_like(change), where=unit > 0)

        def integrand(part: slice, hazard: Array, joint: Array) -> Array:
            t = change[part, :, None]
            total = hazard.sum(axis=1, keepdims=True)
            mixed = (hazard * t).sum(axis=1, keepdims=True)
            return hazard * (t * total - mixed) * joint[:, None]

        total = _integrate(chosen, gaps, integrand)[0] * unit
        return (total / tau).astype(rows.x.dtype)

    value: Any = p
    if return_error:
        # What is missing from 1 is an error that no halving would have seen; an entry
        # may miss more, where another's error has the opposite sign.
        missing = np.abs(1 - found.sum(axis=1, keepdims=True))
        error = np.where(np.isfinite(gaps), error + 2 * missing, 0.0)
        value = p, rows.expand(error)
    return value, lambda: Linearization(p, rows, product, product)
