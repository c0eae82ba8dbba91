r"""The reference with costs: 50 digits, mpmath, no import from softtopk.

Solves :math:`\sum c_if((x_i-\lambda s_i)/\tau)=K` for floats that are taken as the
exact numbers they are, and says how far shares may be off: `bound`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mpmath import mp, mpf
from oracle import root

DIGITS = 50


@dataclass(frozen=True)
class Reference:
    """Threshold, shares, slopes and distances of the entries that take part."""

    threshold: mpf
    p: list
    u: list
    x: list
    c: list
    s: list
    tau: mpf
    slope: object
    digits: int
    shares: Callable[[mpf], list]
    """The shares where the budget is larger by a number."""

    def bound(self, eps: float) -> list:
        r"""How far each computed share may be off.

        .. math:: 4\,\varepsilon\Bigl[1+\omega_i|u_i|+\frac{\omega_is_i}\Omega\sum_j
            c_j\bigl(\min(p_j,1-p_j)+\omega_j|u_j|\bigr)\Bigr]

        and eps squared times what cancels: the terms of the distances, and the budget,
        of which a float32 keeps 48 bits.  At a kink the slope is the larger or the
        smaller of those beside it, whichever allows more.

        This is of first order. Where nearly all slopes are 0, as next to a gap that is
        wider than the curve, the last bits of the budget may move the threshold to
        where the slopes are others; then the shares at budgets that differ by these
        bits say how far a share may be off.
        """
        with mp.workdps(self.digits):
            eps = mpf(eps)
            near = [
                [self.slope(u + h * 32 * eps * (1 + abs(u))) for h in (-1, 0, 1)]
                for u in self.u
            ]
            most, least = [max(w) for w in near], [min(w) for w in near]
            rows = list(zip(self.c, self.s, most, self.u, self.p, self.x, strict=True))
            mass = mp.fsum(
                c * s * w for c, s, w in zip(self.c, self.s, least, strict=True)
            )
            felt = mp.fsum(
                c * (min(p, 1 - p) + w * abs(u)) for c, _, w, u, p, _ in rows
            )
            lost = mp.fsum(c * w * (abs(x) / self.tau) for c, _, w, _, _, x in rows)
            out = []
            for _, s, w, u, _, x in rows:
                gain = w * s / mass if mass else mpf(0)
                own = 1 + w * abs(u) + gain * felt
                far = w * abs(x) / self.tau + gain * (lost + mp.fsum(self.c))
                out.append(4 * eps * own + 16 * eps * eps * far)
            bits = eps * eps * mp.fsum(self.c)
            looked = [32 * eps * (1 + abs(u)) / s for _, s, _, u, _, _ in rows]
            if bits >= mass * min(looked):
                moved = [self.shares(sign * bits) for sign in (-1, 1)]
                for i, p in enumerate(self.p):
                    out[i] += max(abs(other[i] - p) for other in moved)
            return out

    def derivatives(self) -> tuple:
        """Those of the shares: the matrices by x and by c, those by K and by tau."""
        with mp.workdps(self.digits):
            n, lam, tau = len(self.p), self.threshold, self.tau
            w = [self.slope(u) for u in self.u]
            entry = self.s is self.c
            mass = mp.fsum(a * b * v for a, b, v in zip(self.c, self.s, w, strict=True))

            def moved(dx, dc, dk, dtau):
                ds = dc if entry else [0] * n
                e = [dx[i] - lam * ds[i] - self.u[i] * dtau for i in range(n)]
                dl = mp.fsum(self.c[i] * w[i] * e[i] for i in range(n))
                dl += tau * (mp.fsum(self.p[i] * dc[i] for i in range(n)) - dk)
                dl = dl / mass if mass else mpf(0)
                return [w[i] * (e[i] - self.s[i] * dl) / tau for i in range(n)], dl

            zero = [mpf(0)] * n
            units = [[mpf(i == j) for i in range(n)] for j in range(n)]
            by_x = [moved(e, zero, 0, 0) for e in units]
            by_c = [moved(zero, e, 0, 0) for e in units]
            return by_x, by_c, moved(zero, zero, 1, 0), moved(zero, zero, 0, 1)


def solve(x, c, K, f, slope, temperature=1.0, per="entry") -> Reference:
    """The entries above -inf of one row of floats, for 0 < K < the sum of the costs."""
    on = [i for i, v in enumerate(x) if v != -math.inf]
    exact = [Fraction(float(x[i])) for i in on], [Fraction(float(c[i])) for i in on]
    unit = exact[1] if per == "entry" else [Fraction(1)] * len(on)
    order = sorted(range(len(on)), key=lambda i: -exact[0][i] / unit[i])
    spent, place = Fraction(0), 0
    while spent + exact[1][order[place]] < Fraction(float(K)):
        spent += exact[1][order[place]]
        place += 1
    pivot = exact[0][order[place]] / unit[order[place]]
    # Digits that cancel in the distances, that costs hide, and that shares fall by.
    tau = Fraction(float(temperature))
    far = max(abs(v - pivot * s) / tau for v, s in zip(exact[0], unit, strict=True))
    size = max(*map(abs, exact[0]), tau) / tau * max(exact[1]) / min(exact[1])
    digits = DIGITS + 2 * len(str(int(size))) + min(240, int(float(min(far, 600)) / 2))
    with mp.workdps(digits):
        values, costs = (
            [mpf(v.numerator) / v.denominator for v in row] for row in exact
        )
        s = costs if per == "entry" else [mpf(1)] * len(on)
        tau, K = mpf(float(temperature)), mpf(float(K))

        def shares(lam):
            return [f((v - lam * w) / tau) for v, w in zip(values, s, strict=True)]

        def threshold(more):
            budget = min(max(K + more, 0), mp.fsum(costs))

            def excess(lam):
                spent = zip(costs, shares(lam), strict=True)
                return mp.fsum(a * b for a, b in spent) - budget

            at = mpf(pivot.numerator) / pivot.denominator
            return root(excess, at, tau / max(s))

        def moved(more):
            return shares(threshold(more))

        lam = threshold(0)
        u = [(v - lam * w) / tau for v, w in zip(values, s, strict=True)]
        p = shares(lam)
        return Reference(lam, p, u, values, costs, s, tau, slope, digits, moved)
