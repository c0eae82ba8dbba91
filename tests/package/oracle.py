r"""A slow and independent reference: 50 digits, mpmath, no import from softtopk.

Scores arrive as floats and are taken as the exact numbers they are.  The threshold
is bracketed, found by the Illinois form of regula falsi, and certified by a change of
sign within 40 digits.  Curves and slopes are written down anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mpmath import mp, mpf

DIGITS = 50


def _exp(t):
    return mp.exp(t) if t < 0 else mpf(1)


def _laplace(t):
    return mp.exp(t) / 2 if t < 0 else 1 - mp.exp(-t) / 2


def _sigmoid(t):
    return 1 / (1 + mp.exp(-t))


def _clip(t):
    return min(mpf(1), max(mpf(0), t))


def _triangular(t):
    if t <= -1:
        return mpf(0)
    if t >= 1:
        return mpf(1)
    return (1 + t) ** 2 / 2 if t < 0 else 1 - (1 - t) ** 2 / 2


def _entmax(alpha):
    b = mpf(alpha) - 1

    def f(t):
        if t >= 0:
            return mpf(1)
        return (1 + b * t) ** (1 / b) if 1 + b * t > 0 else mpf(0)

    return f


def _slope_exp(t):
    # At t = 0 the left one: the threshold lies strictly above the ceil(k)-th score,
    # though after a wide gap by less than any number of digits shows.
    return mp.exp(t) if t <= 0 else mpf(0)


def _slope_laplace(t):
    return mp.exp(-abs(t)) / 2


def _slope_sigmoid(t):
    return 1 / (2 * mp.cosh(t / 2)) ** 2


def _slope_clip(t):
    return mpf(1) if 0 < t < 1 else mpf(0)


def _slope_triangular(t):
    return max(mpf(0), 1 - abs(t))


def _slope_entmax(alpha):
    b = mpf(alpha) - 1

    def slope(t):
        return (1 + b * t) ** (1 / b - 1) if -1 < b * t < 0 else mpf(0)

    return slope


CURVES: dict[str, tuple[Callable, Callable]] = {
    "exp": (_exp, _slope_exp),
    "laplace": (_laplace, _slope_laplace),
    "sigmoid": (_sigmoid, _slope_sigmoid),
    "clip": (_clip, _slope_clip),
    "triangular": (_triangular, _slope_triangular),
}


def curve(name: str, alpha: float | None = None) -> tuple[Callable, Callable]:
    """The reference curve and its slope; ``name="entmax"`` takes an alpha."""
    if name == "entmax":
        return _entmax(alpha), _slope_entmax(alpha)
    return CURVES[name]


@dataclass(frozen=True)
class Reference:
    """Threshold (in units of the scores), shares and slopes of one row."""

    threshold: mpf
    p: list
    w: list
    temperature: mpf
    digits: int

    def vjp(self, g) -> list:
        """J^T g with J = (diag(w) - w w^T / W) / temperature."""
        with mp.workdps(self.digits):
            total = mp.fsum(self.w)
            if total == 0:
                return [mpf(0)] * len(self.w)
            g = [mpf(float(v)) for v in g]
            mean = mp.fsum(a * b for a, b in zip(self.w, g, strict=True)) / total
            return [
                a * (b - mean) / self.temperature
                for a, b in zip(self.w, g, strict=True)
            ]

    def shares(self) -> list:
        """w / W."""
        with mp.workdps(self.digits):
            total = mp.fsum(self.w)
            return [a / total for a in self.w]


def solve(x, k, f, slope, temperature=1.0) -> Reference:
    """Solve sum f((x - l) / temperature) = k for one row of floats."""
    values = [float(v) for v in x]
    finite = [v for v in values if v != -math.inf]
    tau = float(temperature)
    size = max(1.0, *(abs(v) / tau for v in finite)) if tau > 1e-300 else 1e308
    digits = DIGITS + math.ceil(math.log10(min(size, 1e308)))
    digits += _gap_digits(finite, k, tau)
    with mp.workdps(digits):
        tau, k = mpf(tau), mpf(float(k))
        scaled = sorted((mpf(v) / tau for v in finite), reverse=True)

        def excess(t):
            return mp.fsum(f(v - t) for v in scaled) - k

        t = root(excess, scaled[math.ceil(k) - 1], 1)
        p, w = [], []
        for v in values:
            u = mpf(v) / tau - t
            p.append(mpf(0) if v == -math.inf else f(u))
            w.append(mpf(0) if v == -math.inf else slope(u))
        return Reference(t * tau, p, w, tau, digits)


def _gap_digits(finite, k, tau):
    """Digits in which a gap after the k-th score hides the excess, at most 100."""
    ordered = sorted(finite, reverse=True)
    upper, lower = ordered[math.ceil(k) - 1], ordered[math.floor(k)]
    return math.ceil(min(230.0, (upper / 2 - lower / 2) / tau) / math.log(10))


def root(excess, start, width):
    """A root of a nonincreasing function, from a guess and the least scale of it."""
    low = high = start
    step = width
    while excess(low) < 0:
        low, step = low - step, 2 * step
    step = width
    while excess(high) > 0:
        high, step = high + step, 2 * step
    at_low, at_high, side = excess(low), excess(high), 0
    if at_low == 0 or at_high == 0:
        return low if at_low == 0 else high
    goal, near = width * mpf(10) ** -40, width * mpf(10) ** -41
    for count in range(4000):
        t = high - at_high * (high - low) / (at_high - at_low)
        if count % 5 == 4:
            t = (low + high) / 2
        value = excess(t)
        if value == 0:
            return t
        if value > 0:
            low, at_low = t, value
            at_high = at_high / 2 if side == 1 else at_high
            side = 1
        else:
            high, at_high = t, value
            at_low = at_low / 2 if side == -1 else at_low
            side = -1
        if high - low < goal:
            return (low + high) / 2
        small = abs(value) < mpf(10) ** -42
        if small and excess(t - near) > 0 > excess(t + near):
            return t
    raise AssertionError("the reference did not converge")
