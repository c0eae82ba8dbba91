r"""The named curves for the kernels: their sums over a row, and their derivatives.

A kernel computes an entry's distance from the *origin* :math:`u_0` of its curve,
:math:`z=u-u_0` with :math:`u=(x-\lambda)/\tau`.  The origin is 0 unless the curve is 0
up to a finite point.  The share of an entry just above that point is a power of its
distance to the point, and computing this distance from :math:`u` would cancel most of
its digits.  So the origin is that point, and the shares of a row with :math:`k\ll1` are
as accurate as all others (*computing/search*; the solver for NumPy does the same in its
`edge` schemes).

Each curve has five functions, of which three are of a tile z of R rows with B entries
each.  `c` has one number for each row, which only the curve of entmax with alpha < 3/2
uses, and `b` is alpha - 1.

- ``sums(z, c, b)``: m, P, C and W of each row, as `root.sums` defines them: the number
  m of shares above 1/2 (for exp, entmax and the clip: equal to 1), the sum P of the
  other shares, the sum C of 1 - p over the m entries, and the sum W of the slopes.
- ``value(z, c, b)``: the shares.
- ``weight(z, c, b)``: the slope :math:`f'(u)`, or its logarithm if slopes may
  underflow.

The other two are of one number for each row.

- ``step(excess, P, C, W, b)``: the proposed change of the threshold (`Curve.step`).
- ``inverse(p, b)``: the distance u at which the share is p; the search starts with it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import triton
import triton.language as tl

INF = tl.constexpr(float("inf"))

# Whether several sums of a row are computed in one reduction, for which the warps that
# share the row synchronise only once.  Triton's interpreter would call the function
# that combines two entries once for each entry, so it reduces each sum by itself.
FUSE = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1")


@triton.jit
def log1p(y):
    """log(1 + y), which is log v + (y - (v - 1)) / v for the rounded sum v = 1 + y.

    The result is NaN for y <= -1.
    """
    v = 1 + y
    return tl.log(v) + (y - (v - 1)) / v


@triton.jit
def expm1(y):
    """e^y - 1; near 0 by seven terms of the series, with a relative error of 2^-31."""
    series = 1 + y * (1 / 6) * (1 + y * (1 / 7))
    series = 1 + y * (1 / 4) * (1 + y * (1 / 5) * series)
    series = y * (1 + y * (1 / 2) * (1 + y * (1 / 3) * series))
    return tl.where(tl.abs(y) < 0.0625, series, tl.exp(y) - 1)


@triton.jit
def _add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def _add3(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def _add4(a0, a1, a2, a3, b0, b1, b2, b3):
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3


@triton.jit
def sum2(a, b):
    if FUSE:
        return tl.reduce((a, b), 1, _add2)
    return tl.sum(a, 1), tl.sum(b, 1)


@triton.jit
def sum3(a, b, c):
    if FUSE:
        return tl.reduce((a, b, c), 1, _add3)
    return tl.sum(a, 1), tl.sum(b, 1), tl.sum(c, 1)


@triton.jit
def sum4(a, b, c, d):
    if FUSE:
        return tl.reduce((a, b, c, d), 1, _add4)
    return tl.sum(a, 1), tl.sum(b, 1), tl.sum(c, 1), tl.sum(d, 1)


# f(u) = min(1, e^u).  See selection/exponential in the book.


@triton.jit
def exp_sums(z, c, b: tl.constexpr):
    in_m = z > 0
    P, m = sum2(tl.where(in_m, 0.0, tl.exp(z)), in_m.to(z.dtype))
    return m, P, 0 * P, P


@triton.jit
def exp_value(z, c, b: tl.constexpr):
    return tl.exp(tl.minimum(z, 0.0))


@triton.jit
def exp_step(excess, P, C, W, b: tl.constexpr):
    """The step after which the sum W of the shares below 1 is W e^-step = W - excess.

    Derived in selection/exponential.
    """
    return -log1p(-excess / W)


@triton.jit
def exp_weight(z, c, b: tl.constexpr):
    """log f' = u up to 0."""
    return tl.where(z <= 0, z, -INF)


@triton.jit
def exp_inverse(p, b: tl.constexpr):
    return tl.log(p)


# f(u) = e^u / 2 below 0, and f(-u) = 1 - f(u).  See selection/laplace in the book.


@triton.jit
def laplace_sums(z, c, b: tl.constexpr):
    in_m, q = z > 0, 0.5 * tl.exp(-tl.abs(z))
    m, P, C = sum3(in_m.to(z.dtype), tl.where(in_m, 0.0, q), tl.where(in_m, q, 0.0))
    return m, P, C, P + C


@triton.jit
def laplace_value(z, c, b: tl.constexpr):
    q = 0.5 * tl.exp(-tl.abs(z))
    return tl.where(z < 0, q, 1 - q)


@triton.jit
def two_sided_step(excess, P, C, W, b: tl.constexpr):
    """The root of P y - C / y = P - C - excess, y = e^(-step W / (P + C)).

    Derived in computing/search, in the section on the step.
    """
    D, r = P - C - excess, 2 * tl.sqrt(P) * tl.sqrt(C)
    size = tl.maximum(tl.abs(D), r)
    ratio = tl.minimum(tl.abs(D), r) / tl.where(size > 0, size, 1.0)
    root = tl.abs(D) + size * tl.sqrt(1 + ratio * ratio)
    y = tl.where(D >= 0, root / (2 * P), 2 * C / root)
    return -tl.log(y) * (P + C) / W


@triton.jit
def laplace_weight(z, c, b: tl.constexpr):
    """log f' = -|u| - log 2."""
    return -tl.abs(z) - 0.6931471805599453


@triton.jit
def laplace_inverse(p, b: tl.constexpr):
    return tl.where(p < 0.5, tl.log(2 * p), -tl.log(2 * (1 - p)))


# f(u) = 1 / (1 + e^-u).  See selection/sigmoid in the book.


@triton.jit
def sigmoid_sums(z, c, b: tl.constexpr):
    """The slope is q (1 - q), with q = min(p, 1 - p)."""
    in_m, e = z > 0, tl.exp(-tl.abs(z))
    q = e / (1 + e)
    low, high = tl.where(in_m, 0.0, q), tl.where(in_m, q, 0.0)
    m, P, C, Q = sum4(in_m.to(z.dtype), low, high, q * q)
    return m, P, C, P + C - Q


@triton.jit
def sigmoid_value(z, c, b: tl.constexpr):
    e = tl.exp(-tl.abs(z))
    return tl.where(z < 0, e, 1.0) / (1 + e)


@triton.jit
def sigmoid_weight(z, c, b: tl.constexpr):
    """log f' = -|u| - 2 log(1 + e^-|u|)."""
    return -tl.abs(z) - 2 * tl.log(1 + tl.exp(-tl.abs(z)))


@triton.jit
def sigmoid_inverse(p, b: tl.constexpr):
    return tl.log(p) - log1p(-p)


# f(u) = u from 0 to 1.  See selection/family in the book, and for k = 1
# distributions/sparsemax.


@triton.jit
def clip_sums(z, c, b: tl.constexpr):
    """P sums all shares below 1, since a split at 1/2 would gain no accuracy."""
    in_m = z >= 1
    P, m, up = sum3(
        tl.where(in_m, 0.0, tl.maximum(z, 0.0)), in_m.to(z.dtype), (z > 0).to(z.dtype)
    )
    return m, P, 0 * P, up - m


@triton.jit
def clip_value(z, c, b: tl.constexpr):
    return tl.minimum(tl.maximum(z, 0.0), 1.0)


@triton.jit
def newton_step(excess, P, C, W, b: tl.constexpr):
    return excess / W


@triton.jit
def clip_weight(z, c, b: tl.constexpr):
    return ((z > 0) & (z < 1)).to(z.dtype)


@triton.jit
def clip_inverse(p, b: tl.constexpr):
    return p


# f(u) = (1 + u)^2 / 2 from -1 to 0, and f(-u) = 1 - f(u).  See selection/family in the
# book.  The origin is -1, so z = u + 1.  The slope is r = max(0, min(z, 2 - z)), and f
# is r^2 / 2 where z <= 1 and 1 - r^2 / 2 where z > 1.


@triton.jit
def triangular_weight(z, c, b: tl.constexpr):
    return tl.maximum(tl.minimum(z, 2 - z), 0.0)


@triton.jit
def triangular_sums(z, c, b: tl.constexpr):
    in_m, r = z > 1, triangular_weight(z, c, b)
    q = 0.5 * r * r
    low, high = tl.where(in_m, 0.0, q), tl.where(in_m, q, 0.0)
    m, P, C, W = sum4(in_m.to(z.dtype), low, high, r)
    return m, P, C, W


@triton.jit
def triangular_value(z, c, b: tl.constexpr):
    r = triangular_weight(z, c, b)
    q = 0.5 * r * r
    return tl.where(z < 1, q, 1 - q)


@triton.jit
def triangular_step(excess, P, C, W, b: tl.constexpr):
    """The root of P (1 - v)^2 - C (1 + v)^2 = P - C - excess, v = step W / 2 (P + C).

    Derived in computing/search, in the section on the step of the triangular curve.
    """
    A = P + C
    bent = 1 - (P - C) / A * (excess / A)
    return 2 * (excess / W) / (1 + tl.sqrt(tl.maximum(bent, 0.0)))


@triton.jit
def triangular_inverse(p, b: tl.constexpr):
    distance = 1 - tl.sqrt(2 * tl.where(p < 0.5, p, 1 - p))
    return tl.where(p < 0.5, -distance, distance)


# The curve of entmax: f(u) = (1 + b u)^(1/b) from -1/b to 0.  See distributions/entmax
# in the book.  For b >= 1/2 the origin is -1/b, so that f = (b z)^(1/b).


@triton.jit
def steep_value(z, c, b: tl.constexpr):
    base = tl.minimum(tl.maximum(b * z, 0.0), 1.0)
    if b == 1.0:
        return base
    if b == 0.5:
        return base * base
    on = base > 0
    return tl.where(on, tl.exp(tl.log(tl.where(on, base, 1.0)) / b), 0.0)


@triton.jit
def steep_weight(z, c, b: tl.constexpr):
    """f' = (b z)^(1/b - 1) where 0 < b z <= 1, and 0 elsewhere."""
    base = b * z
    inner = (base > 0) & (base <= 1)
    if b == 1.0:
        return inner.to(z.dtype)
    if b == 0.5:
        return tl.where(inner, base, 0.0)
    return tl.where(
        inner, tl.exp(tl.log(tl.where(inner, base, 1.0)) * (1 / b - 1)), 0.0
    )


@triton.jit
def steep_sums(z, c, b: tl.constexpr):
    in_m = b * z > 1
    p = steep_value(z, c, b)
    base = tl.maximum(b * z, 0.0)
    if b == 1.0:
        w = (base > 0).to(z.dtype)
    elif b == 0.5:
        w = base
    else:
        w = tl.where(base > 0, p / tl.where(base > 0, base, 1.0), 0.0)
    P, W, m = sum3(tl.where(in_m, 0.0, p), tl.where(in_m, 0.0, w), in_m.to(z.dtype))
    return m, P, 0 * P, W


# The curve of entmax, f(u) = (1 + b u)^(1/b) from -1/b to 0, for b < 1/2.  Its exponent
# 1/b > 2 multiplies the relative rounding error of the base 1 + b u.  So the base is
# not rounded: its logarithm is computed by log1p, which has a small error where the
# argument is small.  It is small near u = 0, where log(1 + b u) is log1p(b u), and near
# an origin u_0 = (c - 1) / b, at which the base is c.  With z = u - u_0 the base is
# c + b z, so that
#     f = c^(1/b) (1 + b z / c)^(1/b).
# An entry takes the form whose point, 0 or u_0, is closer to its u.  Each row has its
# own c.  The kernel for the shares takes c = (1 - 2 b) min(k, 1)^b, so that u_0 = -2 if
# k >= 1.  The kernel for the derivatives takes c = 1, so that u_0 = 0.


@triton.jit
def _flat_log(z, c, b: tl.constexpr):
    """The logarithm of the base, `near`, and whether the base 1 + b u is positive.

    The logarithm is log(1 + b u) where `near` (u is closer to 0 than to u_0), and
    log(1 + b u) - log c elsewhere.
    """
    c = c[:, None]
    u = z - (1 - c) / b
    near = 2 * u > (c - 1) / b
    y = tl.minimum(tl.where(near, b * u, z * (b / c)), tl.where(near, 0.0, INF))
    on = y > -1
    return log1p(tl.where(on, y, 0.0)), near, on


@triton.jit
def flat_value(z, c, b: tl.constexpr):
    log, near, on = _flat_log(z, c, b)
    origin = tl.exp(tl.log(c) / b)[:, None]
    return tl.where(on, tl.exp(log / b) * tl.where(near, 1.0, origin), 0.0)


@triton.jit
def flat_sums(z, c, b: tl.constexpr):
    p = flat_value(z, c, b)
    in_m = z > ((1 - c) / b)[:, None]
    base = c[:, None] + b * z
    some = (p > 0) & (base > 0) & ~in_m
    w = tl.where(some, p / tl.where(some, base, 1.0), 0.0)
    P, W, m = sum3(tl.where(in_m, 0.0, p), w, in_m.to(z.dtype))
    return m, P, 0 * P, W


@triton.jit
def flat_weight(z, c, b: tl.constexpr):
    """log f' = (1/b - 1) log(1 + b u)."""
    log, near, on = _flat_log(z, c, b)
    log += tl.where(near, 0.0, tl.log(c)[:, None])
    inner = on & (z <= ((1 - c) / b)[:, None])
    return tl.where(inner, log * (1 / b - 1), -INF)


@triton.jit
def entmax_step(excess, P, C, W, b: tl.constexpr):
    """Newton's step for the b-th power of the sum P: distributions/entmax."""
    return -expm1(b * log1p(-excess / P)) / b * (P / W)


@triton.jit
def entmax_inverse(p, b: tl.constexpr):
    return expm1(b * tl.log(p)) / b


class Functions(NamedTuple):
    """The device functions of a curve, and its origin."""

    sums: object
    value: object
    inverse: object
    step: object
    weight: object
    logs: bool
    """Whether `weight` is the logarithm of the slope."""
    origin: float = 0.0
    """The origin u_0; for a `flat` curve, each row has an origin of its own."""
    flat: bool = False


_FUNCTIONS = {
    "exp": (exp_sums, exp_value, exp_inverse, exp_step, exp_weight),
    "laplace": (
        *(laplace_sums, laplace_value, laplace_inverse),
        *(two_sided_step, laplace_weight),
    ),
    "sigmoid": (
        *(sigmoid_sums, sigmoid_value, sigmoid_inverse),
        *(two_sided_step, sigmoid_weight),
    ),
    "clip": (clip_sums, clip_value, clip_inverse, newton_step, clip_weight),
    "triangular": (
        *(triangular_sums, triangular_value, triangular_inverse),
        *(triangular_step, triangular_weight),
    ),
    "steep": (steep_sums, steep_value, entmax_inverse, entmax_step, steep_weight),
    "flat": (flat_sums, flat_value, entmax_inverse, entmax_step, flat_weight),
}


def functions(name: str, b: float) -> Functions:
    """The device functions of a named curve, or of entmax with alpha = 1 + b."""
    origin = -1.0 if name == "triangular" else 0.0
    if name == "entmax":
        name, origin = ("steep", -1 / b) if b >= 0.5 else ("flat", -2.0)
    logs = name in ("exp", "laplace", "sigmoid", "flat")
    return Functions(*_FUNCTIONS[name], logs, origin, name == "flat")
