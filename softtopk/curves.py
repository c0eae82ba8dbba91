r"""Curves: the functions that turn a score's distance to the threshold into its share.

A *curve* is a continuous, nondecreasing :math:`f:\mathbb{R}\to[0,1]` with limits 0
and 1.  With scores :math:`x` and a budget :math:`k` it defines

.. math:: \sum_i f(x_i-\lambda)=k, \qquad p=f(x-\lambda).

A curve brings its *slope* :math:`f'`, its *inverse*, its *potential* :math:`F`
(:math:`F'=f`, :math:`F(-\infty)=0`) and its *regulariser* :math:`\varphi`
(:math:`\varphi'=f^{-1}`, :math:`\varphi(0)=0`), which are convex conjugates:
:math:`\varphi(p)=pt-F(t)` at :math:`p=f(t)`.

==============  =========================================  ======================
name            :math:`f(t)`                               :math:`f'` in terms of p
==============  =========================================  ======================
``exp``         :math:`\min(1,e^t)`                        :math:`p` where p < 1
``laplace``     :math:`e^t/2`, then :math:`1-e^{-t}/2`     :math:`\min(p,1-p)`
``sigmoid``     :math:`1/(1+e^{-t})`                       :math:`p(1-p)`
``clip``        :math:`\min(1,\max(0,t))`                  1 where 0 < p < 1
``triangular``  cdf of the triangular density on [-1, 1]   :math:`\sqrt{2\min(p,1-p)}`
``entmax(a)``   :math:`[1+(a-1)t]_+^{1/(a-1)}`, at most 1  :math:`p^{2-a}` where p < 1
==============  =========================================  ======================

Derived in *selection/threshold* (every curve), *selection/exponential*,
*selection/sigmoid*, *selection/laplace* and *selection/derivatives*.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._namespace import choose, floats, loop, namespace
from ._rows import Array, real_number

__all__ = [
    "CLIP",
    "EXP",
    "LAPLACE",
    "NAMED",
    "SIGMOID",
    "TRIANGULAR",
    "Curve",
    "Entmax",
    "entmax",
    "resolve",
]


class Curve:
    r"""A curve f; subclass it and define `value` and `slope` to make your own.

    `value` must be continuous and nondecreasing with limits 0 and 1, also at
    ``t = +-inf``; its slope may jump or vanish.  Everything else has a default:
    `complement` (define it if :math:`1-f` can be small where f is not exactly 1),
    `inverse` (by bisection), `slope_of_p`, and `regulariser` from `potential`.
    Only `potential` has none.

    Attributes
    ----------
    name : str
        What error messages and `repr` call it.
    support : (float, float)
        Where f reaches 0 and 1: f = 0 up to the first number and f = 1 from the
        second one on; infinite where a limit is not reached.
    needs_sum : bool
        Whether `step` asks for the sum S.
    noise : (float, float) or None
        Mean and standard deviation of the law with cdf 1 - f(-t), if known.  The
        solver then starts near the threshold.
    bend : float
        A c with :math:`f'\le\sqrt c\,\min(f,1-f)` and :math:`|f''|\le
        c\min(f,1-f)`, if there is one: then a step that is short enough is the last,
        without another look.  Proved in *computing/cost* for Newton's step and that
        of the named curves; not for a `step` of one's own.

    Examples
    --------
    The normal distribution function has no closed threshold; no matter:

    >>> import math, numpy as np, softtopk as stk
    >>> class Gauss(stk.curves.Curve):
    ...     name = "gauss"
    ...     def value(self, t):
    ...         return 0.5 * np.vectorize(math.erfc)(-np.asarray(t) / math.sqrt(2))
    ...     def complement(self, t):
    ...         return self.value(-np.asarray(t))
    ...     def slope(self, t):
    ...         return np.exp(-0.5 * np.square(t)) / math.sqrt(2 * math.pi)
    >>> stk.soft_topk([2.0, 1.0, 0.0, -1.0], 2, Gauss()).round(4).tolist()
    [0.9332, 0.6915, 0.3085, 0.0668]
    """

    name: str = "user"
    support: tuple[float, float] = (-math.inf, math.inf)
    needs_sum: bool = False
    noise: tuple[float, float] | None = None
    bend: float = math.inf

    def value(self, t: ArrayLike) -> Array:
        """f(t)."""
        raise NotImplementedError(f"{self!r} must define value(t)")

    def slope(self, t: ArrayLike) -> Array:
        """f'(t); at a kink one of the two slopes."""
        raise NotImplementedError(f"{self!r} must define slope(t)")

    def complement(self, t: ArrayLike) -> Array:
        """1 - f(t), without cancellation where the curve defines it."""
        return 1 - self.value(t)

    def log_slope(self, t: ArrayLike) -> Array:
        """log f'(t), also where f' underflows if the curve defines it."""
        xp, slope = floats(self.slope(t), "slope")
        return _log(xp, slope)

    def inverse(self, p: ArrayLike) -> Array:
        """A t with f(t) = p; the ends of `support` at p = 0 and p = 1.

        Raises
        ------
        ValueError
            If an entry of p lies outside [0, 1].
        """
        return _bisect(self, _shares(p)[1])

    def slope_of_p(self, p: ArrayLike) -> Array:
        """f' as a function of p = f(t)."""
        return self.slope(self.inverse(p))

    def potential(self, t: ArrayLike) -> Array:
        r"""F(t), the integral of f from :math:`-\infty` to t."""
        raise NotImplementedError(f"{self!r} does not define potential(t)")

    def regulariser(self, p: ArrayLike) -> Array:
        r""":math:`\varphi(p)`, the integral of the inverse from 0 to p."""
        xp, shares = _shares(p)
        t = self.inverse(shares)
        reach = 700.0 if t.dtype.itemsize == 8 else 80.0
        finite = xp.clip(t, -reach, reach)
        return shares * finite - self.potential(finite)

    def gap(self, t: ArrayLike, p: ArrayLike) -> Array:
        r""":math:`F(t)+\varphi(p)-pt\ge0`, which is 0 where p = f(t).

        Without cancellation where the curve defines it.  Here t is finite.
        """
        (_, at), (_, shares) = floats(t, "t"), _shares(p)
        return self.potential(at) + self.regulariser(shares) - shares * at

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """How far the threshold ought to rise, from sums over a row at the present one.

        The shares sum to `excess` too much.  P sums those up to 1/2, C what the others
        lack to 1, W the slopes, and S the shares below 1 if `needs_sum`.
        This step is Newton's; a curve with a better model of its sum has its own.
        """
        return excess / W

    def reflected(self) -> Curve:
        """The dual curve 1 - f(-t): it selects from -x what f does not from x."""
        return _Reflected(self)

    def scaled(self, c: float) -> Curve:
        """f(c t) for c > 0, the curve at temperature 1/c."""
        return _Affine(self, real_number(c, "c", above=0), 0.0)

    def shifted(self, c: float) -> Curve:
        """f(t - c), which moves the threshold by -c and selects the same."""
        return _Affine(self, 1.0, -real_number(c, "c"))

    @property
    def centre(self) -> float:
        """The middle of the support, or its only end, or 0."""
        low, high = self.support
        if math.isfinite(low) and math.isfinite(high):
            return 0.5 * low + 0.5 * high
        end = high if math.isfinite(high) else low
        return end if math.isfinite(end) else 0.0

    def __repr__(self) -> str:
        return f"<curve {self.name}>"


def _kept(name: str, default: float | tuple[float, ...] | None = None) -> Any:
    """An attribute of a curve that holds a number, a tuple of them, or None, as text.

    ``torch.compile(dynamic=True)`` makes an input of the graph, a symbol, of every
    float that it reads from an attribute, and from 2.15 on the loops of PyTorch refuse
    to take such symbols from their surroundings.  Text stays a constant, and so does
    the number that it spells.
    """
    slot, text = f"_{name}_as_text", _spelt(default)

    def get(self: Any) -> Any:
        held = getattr(self, slot, text)
        if held is None:
            return None
        return float(held) if isinstance(held, str) else tuple(map(float, held))

    def put(self: Any, value: float | tuple[float, ...] | None) -> None:
        setattr(self, slot, _spelt(value))

    return property(get, put)


def _spelt(value: float | tuple[float, ...] | None) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple([repr(float(v)) for v in value])
    return repr(float(value))


class _Exp(Curve):
    name = "exp"
    support = _kept("support", (-math.inf, 0.0))
    noise = _kept("noise", (1.0, 1.0))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(xp.clip(t, None, 0))

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0 - xp.expm1(xp.clip(t, None, 0))

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(xp.clip(t, None, 0)) * (t <= 0)

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where(t <= 0, t, -math.inf)

    def inverse(self, p: Any) -> Array:
        xp, p = _shares(p)
        return _log(xp, p)

    def slope_of_p(self, p: Any) -> Array:
        _, p = _shares(p)
        return p * (p < 1)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.exp(xp.clip(t, None, 0)) + xp.clip(t, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = _shares(p)
        return _xlogx(xp, p) - p

    def gap(self, t: Any, p: Any) -> Array:
        return _power_gap(self, 0.0, t, p)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        # The sum of the shares below 1, which is W, falls to W e^-step while no entry
        # comes to 1.  This is no number where as many as k shares are 1.
        return -namespace(W).log1p(-excess / W)


class _TwoSided(Curve):
    """A curve with f(-t) = 1 - f(t) that is rational in e^t."""

    bend = _kept("bend", 1.0)

    def complement(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return self.value(-t)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """The step of the model ``P y - C / y = P - C - excess``, ``y = e^(-g step)``.

        It has the right value and, with ``g = W / (P + C)``, the right slope; it is
        exact where the tails are exponential, far from 0 or with one slope between.
        """
        xp, D = namespace(P), P - C - excess
        root = abs(D) + xp.hypot(D, 2 * xp.sqrt(P) * xp.sqrt(C))
        y = choose(D >= 0, root / (2 * P), 2 * C / root)
        return -xp.log(y) * (P + C) / W


class _Laplace(_TwoSided):
    name = "laplace"
    noise = _kept("noise", (0.0, math.sqrt(2)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = 0.5 * xp.exp(-abs(t))
        return xp.where(t < 0, q, 1 - q)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0.5 * xp.exp(-abs(t))

    def log_slope(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return -abs(t) - math.log(2)

    def inverse(self, p: Any) -> Array:
        xp, p = _shares(p)
        low = p < 0.5
        t = _log(xp, 2 * xp.where(low, p, 1 - p))
        return xp.where(low, t, -t)

    def slope_of_p(self, p: Any) -> Array:
        xp, p = _shares(p)
        return xp.where(p < 0.5, p, 1 - p)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.clip(t, 0, None) + 0.5 * xp.exp(-abs(t))

    def regulariser(self, p: Any) -> Array:
        xp, p = _shares(p)
        q = self.slope_of_p(p)
        return 0.5 * _xlogx(xp, 2 * q) - q

    def gap(self, t: Any, p: Any) -> Array:
        xp, t, p, up = _folded(t, p)
        below = EXP.gap(xp.clip(t, None, 0) - math.log(2), p)
        return below + up * (0.5 - p) + 0.5 * (xp.expm1(-up) + up)


class _Sigmoid(_TwoSided):
    name = "sigmoid"
    noise = _kept("noise", (0.0, math.pi / math.sqrt(3)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = xp.exp(-abs(t))
        return xp.where(t < 0, q, xp.ones_like(q)) / (1 + q)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = xp.exp(-abs(t))
        return q / (1 + q) ** 2

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return -abs(t) - 2 * xp.log1p(xp.exp(-abs(t)))

    def inverse(self, p: Any) -> Array:
        xp, p = _shares(p)
        return _log(xp, p) - _log1m(xp, p)

    def slope_of_p(self, p: Any) -> Array:
        _, p = _shares(p)
        return p * (1 - p)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.clip(t, 0, None) + xp.log1p(xp.exp(-abs(t)))

    def regulariser(self, p: Any) -> Array:
        xp, p = _shares(p)
        return _xlogx(xp, p) + _xlogx(xp, 1 - p)

    def gap(self, t: Any, p: Any) -> Array:
        # The relative entropy of the laws (p, 1 - p) and (f, 1 - f).
        _, t = floats(t, "t")
        _, p = _shares(p)
        yes, no = EXP.gap(-self.potential(-t), p), EXP.gap(-self.potential(t), 1 - p)
        return yes + no


class _Clip(Curve):
    name = "clip"
    support = _kept("support", (0.0, 1.0))
    noise = _kept("noise", (-0.5, 1 / math.sqrt(12)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.clip(t, 0, 1)

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.clip(1 - t, 0, 1)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where((t > 0) & (t < 1), xp.ones_like(t), xp.zeros_like(t))

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.where((t > 0) & (t < 1), xp.zeros_like(t), -math.inf)

    def inverse(self, p: Any) -> Array:
        _, p = _shares(p)
        return p + 0

    def slope_of_p(self, p: Any) -> Array:
        return self.slope(_shares(p)[1])

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return 0.5 * xp.clip(t, 0, 1) ** 2 + xp.clip(t - 1, 0, None)

    def regulariser(self, p: Any) -> Array:
        _, p = _shares(p)
        return 0.5 * p**2

    def gap(self, t: Any, p: Any) -> Array:
        _, t = floats(t, "t")
        _, p = _shares(p)
        q = self.value(t)
        return (q - p) * (0.5 * (q - p) + (t - q))


class _Triangular(Curve):
    name = "triangular"
    support = _kept("support", (-1.0, 1.0))
    noise = _kept("noise", (0.0, 1 / math.sqrt(6)))

    def value(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        q = 0.5 * self.slope(t) ** 2
        return xp.where(t < 0, q, 1 - q)

    def complement(self, t: Any) -> Array:
        _, t = floats(t, "t")
        return self.value(-t)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return xp.clip(1 - abs(t), 0, None)

    def inverse(self, p: Any) -> Array:
        xp, p = _shares(p)
        distance = 1 - self.slope_of_p(p)
        return xp.where(p < 0.5, -distance, distance)

    def slope_of_p(self, p: Any) -> Array:
        xp, p = _shares(p)
        return xp.sqrt(2 * xp.where(p < 0.5, p, 1 - p))

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return self.slope(t) ** 3 / 6 + xp.clip(t, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = _shares(p)
        q = xp.where(p < 0.5, p, 1 - p)
        return q * (xp.sqrt(8 * q) / 3 - 1)

    def gap(self, t: Any, p: Any) -> Array:
        # With s = sqrt(2 p) and r the slope at f <= 1/2: f = r^2 / 2.
        xp, t, p, up = _folded(t, p)
        s, r = xp.sqrt(2 * p), self.slope(xp.clip(t, None, 0))
        inner = xp.clip(up, None, 1)
        return (
            (s - r) ** 2 * (2 * s + r) / 6
            + p * xp.clip(-1 - t, 0, None)
            + inner * (0.5 - p + inner * (0.5 - inner / 6))
            + (up - inner) * (1 - p)
        )

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """The step of the model ``P (1 - v)^2 - C (1 + v)^2 = P - C - excess``.

        With ``v = step W / (2 P + 2 C)`` its slope is right; it is exact where the
        entries of either half are at one place, and where there is one entry.
        """
        A = P + C
        bent = 1 - (P - C) / A * (excess / A)
        return 2 * (excess / W) / (1 + (0.5 * bent + 0.5 * abs(bent)) ** 0.5)


class Entmax(Curve):
    r"""The curve :math:`\min(1,[1+(\alpha-1)t]_+^{1/(\alpha-1)})`; see `entmax`."""

    needs_sum = True
    alpha, b = _kept("alpha"), _kept("b")
    support, noise = _kept("support"), _kept("noise")

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.name = f"entmax({alpha:g})"
        self.b = b = alpha - 1
        self.support = (-1 / b, 0.0)
        self.noise = (1 / alpha, 1 / (alpha * math.sqrt(1 + 2 * b)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entmax) and other.alpha == self.alpha

    def __hash__(self) -> int:
        return hash((Entmax, self.alpha))

    def _raised(self, t: Any, exponent: float) -> Array:
        """[1 + b t]_+ ** exponent, at most 1."""
        xp, t = floats(t, "t")
        z = xp.clip(self.b * t, -1, 0)
        if self.b >= 0.5:
            return (1 + z) ** exponent
        # 1 + b t would lose the digits that a large exponent needs.
        return xp.exp(exponent * _log1m(xp, -z))

    def value(self, t: Any) -> Array:
        return self._raised(t, 1 / self.b)

    def complement(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        z = xp.clip(-self.b * t, 0, 1)
        if self.b == 0.5:
            return z * (2 - z)  # 1 - (1 - z)^2
        return 0 - xp.expm1(_log1m(xp, z) / self.b)

    def slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = (t > self.support[0]) & (t <= 0)
        return xp.where(inner, self._raised(xp.where(inner, t, 0), 1 / self.b - 1), 0)

    def log_slope(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = (t > self.support[0]) & (t <= 0)
        z = self.b * xp.where(inner, t, 0)
        return xp.where(inner, (1 / self.b - 1) * _log1m(xp, -z), -math.inf)

    def inverse(self, p: Any) -> Array:
        xp, p = _shares(p)
        return xp.expm1(self.b * _log(xp, p)) / self.b

    def slope_of_p(self, p: Any) -> Array:
        xp, p = _shares(p)
        inner = (p > 0) & (p < 1)
        return xp.where(inner, xp.where(inner, p, 1) ** (1 - self.b), 0)

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        return self._raised(t, 1 / self.b + 1) / self.alpha + xp.clip(t, 0, None)

    def regulariser(self, p: Any) -> Array:
        _, p = _shares(p)
        return p * (self.inverse(p) - 1) / self.alpha

    def gap(self, t: Any, p: Any) -> Array:
        return _power_gap(self, self.b, t, p)

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        # The b-th power of S is nearly linear in the threshold: it is linear for b = 1
        # and, in the limit b = 0, after taking logarithms.
        xp = namespace(S)
        return -xp.expm1(self.b * xp.log1p(-excess / S)) / self.b * (S / W)


class _Reflected(Curve):
    support, noise, bend = _kept("support"), _kept("noise"), _kept("bend")

    def __init__(self, base: Curve) -> None:
        self._base = base
        self.name = f"{base.name}.reflected()"
        low, high = base.support
        self.support = (-high, -low)
        if base.noise is not None:
            self.noise = (-base.noise[0], base.noise[1])
        self.bend = base.bend

    def value(self, t: Any) -> Array:
        return self._base.complement(-floats(t, "t")[1])

    def complement(self, t: Any) -> Array:
        return self._base.value(-floats(t, "t")[1])

    def slope(self, t: Any) -> Array:
        return self._base.slope(-floats(t, "t")[1])

    def log_slope(self, t: Any) -> Array:
        return self._base.log_slope(-floats(t, "t")[1])

    def inverse(self, p: Any) -> Array:
        return -self._base.inverse(1 - _shares(p)[1])

    def slope_of_p(self, p: Any) -> Array:
        return self._base.slope_of_p(1 - _shares(p)[1])

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = xp.clip(t, max(self.support[0], -1e300), None)
        whole = self._base.regulariser(xp.ones_like(t))
        return xp.clip(self._base.potential(-inner) + inner + whole, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = _shares(p)
        whole = self._base.regulariser(xp.ones_like(p))
        return self._base.regulariser(1 - p) - whole

    def gap(self, t: Any, p: Any) -> Array:
        return self._base.gap(-floats(t, "t")[1], 1 - _shares(p)[1])

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        if self._base.needs_sum:  # of shares that are not 0
            return excess / W
        return -self._base.step(-excess, C, P, W, S)

    def reflected(self) -> Curve:
        return self._base


class _Affine(Curve):
    """f(c t + s)."""

    support, noise, bend = _kept("support"), _kept("noise"), _kept("bend")
    _c, _s = _kept("c"), _kept("s")

    def __init__(self, base: Curve, c: float, s: float) -> None:
        self._base, self._c, self._s = base, c, s
        self.name = f"{base.name}({c:g} t + {s:g})"
        low, high = base.support
        self.support = ((low - s) / c, (high - s) / c)
        self.needs_sum, self.bend = base.needs_sum, base.bend * c * c
        if base.noise is not None:
            self.noise = ((base.noise[0] + s) / c, base.noise[1] / c)

    def _inner(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        reach = 1e300 / self._c if t.dtype.itemsize == 8 else 1e37 / self._c
        return self._c * xp.clip(t, -reach, reach) + self._s

    def value(self, t: Any) -> Array:
        return self._base.value(self._inner(t))

    def complement(self, t: Any) -> Array:
        return self._base.complement(self._inner(t))

    def slope(self, t: Any) -> Array:
        return self._c * self._base.slope(self._inner(t))

    def log_slope(self, t: Any) -> Array:
        return math.log(self._c) + self._base.log_slope(self._inner(t))

    def inverse(self, p: Any) -> Array:
        return (self._base.inverse(p) - self._s) / self._c

    def slope_of_p(self, p: Any) -> Array:
        return self._c * self._base.slope_of_p(p)

    def potential(self, t: Any) -> Array:
        return self._base.potential(self._inner(t)) / self._c

    def regulariser(self, p: Any) -> Array:
        _, p = _shares(p)
        return (self._base.regulariser(p) - self._s * p) / self._c

    def gap(self, t: Any, p: Any) -> Array:
        return self._base.gap(self._inner(t), p) / self._c

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        return self._base.step(excess, P, C, W / self._c, S) / self._c


EXP: Curve = _Exp()
LAPLACE: Curve = _Laplace()
SIGMOID: Curve = _Sigmoid()
CLIP: Curve = _Clip()
TRIANGULAR: Curve = _Triangular()

NAMED = {c.name: c for c in (EXP, LAPLACE, SIGMOID, CLIP, TRIANGULAR)}
"""The curves that a name stands for.

What depends on which curves there are, such as the tests and the figures' colours, is
taken from here.
"""


def entmax(alpha: float) -> Curve:
    r"""The curve of entmax: from `EXP` (alpha = 1) to `CLIP` shifted (alpha = 2).

    With :math:`b=\alpha-1` it is :math:`f(t)=\min(1,[1+bt]_+^{1/b})`; its k = 1 case
    is :math:`\alpha`-entmax.  Above 3/2 its slope rises vertically where shares start:
    there derivatives show the last bit of the threshold.

    Parameters
    ----------
    alpha : float
        From 1 to 2.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a real number in [1, 2].

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.curves.entmax(1.5).value([-2.0, -1.0, 0.0, 1.0]).tolist()
    [0.0, 0.25, 1.0, 1.0]
    """
    if isinstance(alpha, bool) or not isinstance(
        alpha, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"alpha must be a real number, got {alpha!r}")
    alpha = float(alpha)
    if not 1 <= alpha <= 2:
        raise ValueError(f"alpha must lie in [1, 2], got {alpha}")
    if alpha == 1:
        return EXP
    return Entmax(alpha)


def resolve(curve: str | Curve) -> Curve:
    """The curve that a name stands for; a `Curve` stands for itself.

    Raises
    ------
    TypeError, ValueError
        If `curve` is neither, or is not a known name.
    """
    if isinstance(curve, Curve):
        return curve
    if not isinstance(curve, str):
        raise TypeError(f"curve must be a name or a Curve, got {curve!r}")
    if curve not in NAMED:
        known = ", ".join(map(repr, NAMED))
        raise ValueError(f"curve must be one of {known} or a Curve, got {curve!r}")
    return NAMED[curve]


def _shares(p: Any) -> tuple[Any, Any]:
    """The namespace, and p; NumPy's within [0, 1]."""
    xp, p = floats(p, "p")
    if xp is np and not np.all((p >= 0) & (p <= 1)):
        bad = np.asarray(p)[~((p >= 0) & (p <= 1))]
        raise ValueError(f"p must lie in [0, 1], got {bad[0]}")
    return xp, p


def _log(xp: Any, p: Any) -> Any:
    """log p, -inf at 0, without a warning or an infinite derivative there."""
    positive = p > 0
    return xp.where(positive, xp.log(xp.where(positive, p, 1)), -math.inf)


def _log1m(xp: Any, p: Any) -> Any:
    """log(1 - p), likewise at 1."""
    below = p < 1
    return xp.where(below, xp.log1p(-xp.where(below, p, 0)), -math.inf)


def _xlogx(xp: Any, p: Any) -> Any:
    return p * xp.log(xp.where(p > 0, p, 1))


def _folded(t: Any, p: Any) -> tuple[Any, Any, Any, Any]:
    """For a curve symmetric about (0, 1/2): the gap at (t, p) is that at p <= 1/2.

    It is the gap at min(t, 0), plus the integral of f - p from 0 to t where t > 0: the
    namespace, t, p, and max(t, 0).
    """
    xp, t = floats(t, "t")
    _, p = _shares(p)
    t, p = xp.where(p > 0.5, -t, t), xp.where(p > 0.5, 1 - p, p)
    return xp, t, p, xp.clip(t, 0, None)


def _power_gap(curve: Curve, b: float, t: Any, p: Any) -> Any:
    r"""The gap of entmax curves, and of ``exp`` as their limit b = 0.

    With v, t within the support, q = f(v) and the inverse g of f it is
    :math:`[p(g(p)-g(q))-(p-q)q^b]/\alpha+(t-v)(q-p)`.
    """
    xp, t = floats(t, "t")
    _, p = _shares(p)
    v = xp.clip(t, *curve.support)
    q, power = curve.value(v), 1 + b * v
    excess = p - q
    close = abs(excess) < 0.5 * q
    log_ratio = xp.log1p(xp.where(close, excess, 0) / xp.where(close, q, 1))
    near = power * xp.expm1(b * log_ratio) / b if b else log_ratio
    far = curve.inverse(xp.where(p > 0, p, 1)) - v
    rise = xp.where(close, near, far)
    bregman = xp.where(p > 0, p * rise, 0) - excess * power
    return bregman / (1 + b) - (t - v) * excess


def _bisect(curve: Curve, p: Any) -> Any:
    """The inverse of a curve from its values, doubling a bracket and halving it."""
    xp = namespace(p)
    inner = xp.where((p > 0) & (p < 1), p, 0.5)
    if xp is np:
        inner = inner.astype(np.float64)

    def outside(low: Any, high: Any) -> Any:
        return ((curve.value(low) > inner) | (curve.value(high) < inner)).any()

    def double(low: Any, high: Any) -> tuple[Any, Any]:
        short, long = curve.value(low) > inner, curve.value(high) < inner
        return xp.where(short, 2 * low, low), xp.where(long, 2 * high, high)

    def wide(low: Any, high: Any) -> Any:
        middle = 0.5 * low + 0.5 * high
        return ((middle != low) & (middle != high)).any()

    def halve(low: Any, high: Any) -> tuple[Any, Any]:
        middle = 0.5 * low + 0.5 * high
        below = curve.value(middle) < inner
        return xp.where(below, middle, low), xp.where(below, high, middle)

    one = xp.ones_like(inner)
    ends = loop(outside, double, (-one, one))
    _, t = loop(wide, halve, ends)
    least, most = curve.support
    t = xp.where(p <= 0, least, xp.where(p >= 1, most, t))
    return t.astype(p.dtype) if xp is np else t
