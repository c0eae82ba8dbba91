"""The base class `Curve`, curves that transform another curve, and helpers."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._rows.namespace import clip, floats, loop, namespace
from ._rows.numpy_rows import Array, real_number


class Curve:
    r"""A curve f; subclass it and define `value` and `slope` to make your own.

    `value` must be continuous and nondecreasing with limits 0 and 1, also at
    ``t = +-inf``; its slope may jump or vanish.  The rest has defaults:
    `complement` (define it if :math:`1-f` can be small where f is not exactly 1),
    `inverse` (by bisection), `slope_of_p`, and `regulariser` from `potential`, which is
    the only one without a default.

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
        without another look.  Proved in *computing/search* for Newton's step and that
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

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class and have equal attributes."""
        if self is other or type(self) is not type(other):
            return self is other
        return _state(self) == _state(other)

    def __hash__(self) -> int:
        return hash((type(self), _state(self)))

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
        return log(xp, slope)

    def inverse(self, p: ArrayLike) -> Array:
        """A t with f(t) = p; the ends of `support` at p = 0 and p = 1.

        Raises
        ------
        ValueError
            If an entry of p lies outside [0, 1].
        """
        return _bisect(self, checked_shares(p)[1])

    def slope_of_p(self, p: ArrayLike) -> Array:
        """f' as a function of p = f(t)."""
        return self.slope(self.inverse(p))

    def potential(self, t: ArrayLike) -> Array:
        r"""F(t), the integral of f from :math:`-\infty` to t."""
        raise NotImplementedError(f"{self!r} does not define potential(t)")

    def regulariser(self, p: ArrayLike) -> Array:
        r""":math:`\varphi(p)`, the integral of the inverse from 0 to p."""
        xp, q = checked_shares(p)
        t = self.inverse(q)
        reach = 700.0 if t.dtype.itemsize == 8 else 80.0
        finite = clip(xp, t, -reach, reach)
        return q * finite - self.potential(finite)

    def gap(self, t: ArrayLike, p: ArrayLike) -> Array:
        r""":math:`F(t)+\varphi(p)-pt\ge0`, which is 0 where p = f(t).

        Without cancellation where the curve defines it.  Here t is finite.
        """
        (_, at), (_, q) = floats(t, "t"), checked_shares(p)
        return self.potential(at) + self.regulariser(q) - q * at

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        """How far the search raises a threshold, in temperatures, from the sums there.

        Parameters
        ----------
        excess : array
            The sum of the shares less the budget.
        P, C : arrays
            The sum of the shares up to 1/2, and of what the others lack to 1.
        W : array
            The sum of the slopes.
        S : array
            The sum of the shares below 1 if `needs_sum`; else it may be anything.

        Returns
        -------
        array
            Newton's step; a curve with a better model of its sum returns another.
        """
        return excess / W

    def reflected(self) -> Curve:
        """The dual curve 1 - f(-t): it selects from -x what f does not from x."""
        return Reflected(self)

    def scaled(self, c: float) -> Curve:
        """f(c t) for c > 0, the curve at temperature 1/c."""
        return Affine(self, real_number(c, "c", above=0), 0.0)

    def shifted(self, c: float) -> Curve:
        """f(t - c), which moves the threshold by -c and selects the same."""
        return Affine(self, 1.0, -real_number(c, "c"))

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


def kept(name: str, default: float | tuple[float, ...] | None = None) -> Any:
    """An attribute of a curve: a number, a tuple of numbers, or None, stored as text.

    ``torch.compile(dynamic=True)`` turns every float that it reads from an attribute
    into a symbolic input of the graph, and since version 2.15 PyTorch's loops do not
    accept such symbols from outside.  A string is a constant to the compiler, and so is
    the number parsed from it.
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


class Reflected(Curve):
    support, noise, bend = kept("support"), kept("noise"), kept("bend")

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
        return -self._base.inverse(1 - checked_shares(p)[1])

    def slope_of_p(self, p: Any) -> Array:
        return self._base.slope_of_p(1 - checked_shares(p)[1])

    def potential(self, t: Any) -> Array:
        xp, t = floats(t, "t")
        inner = clip(xp, t, max(self.support[0], -1e300), None)
        at_one = self._base.regulariser(xp.ones_like(t))
        return clip(xp, self._base.potential(-inner) + inner + at_one, 0, None)

    def regulariser(self, p: Any) -> Array:
        xp, p = checked_shares(p)
        at_one = self._base.regulariser(xp.ones_like(p))
        return self._base.regulariser(1 - p) - at_one

    def gap(self, t: Any, p: Any) -> Array:
        return self._base.gap(-floats(t, "t")[1], 1 - checked_shares(p)[1])

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        if self._base.needs_sum:  # the sum of 1 - p over p > 0, which is not known here
            return excess / W
        return -self._base.step(-excess, C, P, W, S)

    def reflected(self) -> Curve:
        return self._base


class Affine(Curve):
    """f(c t + s)."""

    support, noise, bend = kept("support"), kept("noise"), kept("bend")
    _c, _s = kept("c"), kept("s")

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
        return self._c * clip(xp, t, -reach, reach) + self._s

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
        _, p = checked_shares(p)
        return (self._base.regulariser(p) - self._s * p) / self._c

    def gap(self, t: Any, p: Any) -> Array:
        return self._base.gap(self._inner(t), p) / self._c

    def step(self, excess: Any, P: Any, C: Any, W: Any, S: Any) -> Any:
        return self._base.step(excess, P, C, W / self._c, S) / self._c


def checked_shares(p: Any) -> tuple[Any, Any]:
    """The namespace, and p; an error if p is NumPy's and not within [0, 1]."""
    xp, p = floats(p, "p")
    if xp is np and not ((p >= 0) & (p <= 1)).all():
        bad = np.asarray(p)[~((p >= 0) & (p <= 1))]
        raise ValueError(f"p must lie in [0, 1], got {bad[0]}")
    return xp, p


def _state(value: Any) -> Any:
    """The attributes of an object, or an attribute, as what can be hashed."""
    if isinstance(value, Curve):
        return tuple((name, _state(v)) for name, v in sorted(vars(value).items()))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(map(_state, value))
    if isinstance(value, dict):
        return tuple((repr(key), _state(v)) for key, v in value.items())
    # An array of another library compares entry by entry.
    comparable = isinstance(value, Hashable) and not getattr(value, "shape", ())
    return value if comparable else id(value)


def log(xp: Any, p: Any) -> Any:
    """log p, -inf at 0, without a warning or an infinite derivative there."""
    positive = p > 0
    return xp.where(positive, xp.log(xp.where(positive, p, 1)), -math.inf)


def log1m(xp: Any, p: Any) -> Any:
    """log(1 - p), -inf at 1, without a warning or an infinite derivative there."""
    below = p < 1
    return xp.where(below, xp.log1p(-xp.where(below, p, 0)), -math.inf)


def xlogx(xp: Any, p: Any) -> Any:
    return p * xp.log(xp.where(p > 0, p, 1))


def _bisect(curve: Curve, p: Any) -> Any:
    """The inverse of a curve by bisection, after doubling a bracket until it fits.

    A curve without the limits 0 and 1 is an error on NumPy, and NaN elsewhere.
    """
    xp = namespace(p)
    inner = xp.where((p > 0) & (p < 1), p, 0.5)
    if xp is np:
        inner = inner.astype(np.float64)

    most = float(xp.finfo(inner.dtype).max) / 2

    def short(low: Any, high: Any) -> tuple[Any, Any]:
        return curve.value(low) > inner, curve.value(high) < inner

    def outside(low: Any, high: Any) -> Any:
        below, above = short(low, high)
        return ((below & (low > -most)) | (above & (high < most))).any()

    def double(low: Any, high: Any) -> tuple[Any, Any]:
        below, above = short(low, high)
        return xp.where(below, 2 * low, low), xp.where(above, 2 * high, high)

    def unfinished(low: Any, high: Any) -> Any:
        middle = 0.5 * low + 0.5 * high
        return ((middle != low) & (middle != high)).any()

    def halve(low: Any, high: Any) -> tuple[Any, Any]:
        middle = 0.5 * low + 0.5 * high
        below = curve.value(middle) < inner
        return xp.where(below, middle, low), xp.where(below, high, middle)

    ones = xp.ones_like(inner)
    ends = loop(outside, double, (-ones, ones))
    below, above = short(*ends)
    if xp is np and (below | above).any():
        end = math.inf if above.any() else -math.inf
        limit = float(curve.value(np.asarray(end)))
        raise ValueError(
            f"curve {curve.name} must be {end > 0:d} at {end:+}, its value is {limit}"
        )
    _, t = loop(unfinished, halve, ends)
    t = xp.where(below | above, math.nan, t)
    first, last = curve.support
    t = xp.where(p <= 0, first, xp.where(p >= 1, last, t))
    return t.astype(p.dtype) if xp is np else t
