"""Two budgets at 50 digits: mpmath, no import from softtopk.

Rows and columns are alternated with the reference of one budget, and the thresholds of
all rows and columns are then refined together by Newton's method.  The answer is
certified: its sums are the budgets to 40 digits, and shares of this form with these
sums are unique.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import oracle
from mpmath import mp, mpf

ROUNDS = 8


@dataclass(frozen=True)
class Reference:
    """Shares, slopes and temperature of one matrix."""

    p: list
    w: list
    temperature: mpf

    def product(self, G) -> list:
        """J G with J the symmetric derivative, from the full system of m + n."""
        with mp.workdps(oracle.DIGITS):
            m, n = len(self.w), len(self.w[0])
            G = [[mpf(float(g)) for g in row] for row in G]
            weighted = [
                [w * g for w, g in zip(*rows, strict=True)]
                for rows in zip(self.w, G, strict=True)
            ]
            ab = _solve(self.w, _margins(weighted))
            return [
                [
                    self.w[i][j] * (G[i][j] - ab[i] - ab[m + j]) / self.temperature
                    for j in range(n)
                ]
                for i in range(m)
            ]


def solve(S, k, c, name, temperature=1.0) -> Reference:
    """The shares with row sums k and column sums c, of finite floats S."""
    f, slope = oracle.curve(name)
    m, n = len(k), len(c)
    with mp.workdps(oracle.DIGITS):
        tau = mpf(float(temperature))
        S = [[mpf(float(v)) for v in row] for row in S]
        wanted = [mpf(float(v)) for v in (*k, *c)]
        at = [*_alternate(S, k, c, f, slope, tau), mpf(0)]

        def matrix(function, at):
            return [
                [function((S[i][j] - at[i] - at[m + j]) / tau) for j in range(n)]
                for i in range(m)
            ]

        def off(at):
            sums = _margins(matrix(f, at))
            return [a - b for a, b in zip(sums, wanted, strict=True)]

        for _ in range(60):
            errors = off(at)
            size = mp.norm(errors)
            if size < mpf(10) ** -44:
                return Reference(matrix(f, at), matrix(slope, at), tau)
            step = _solve(matrix(slope, at), errors)
            length = tau
            for _ in range(30):
                new = [a + length * b for a, b in zip(at, step, strict=True)]
                if mp.norm(off(new)) < size:
                    break
                length /= 2
            at = new
    raise AssertionError("the reference did not converge")


def _alternate(S, k, c, f, slope, tau):
    """Thresholds of the rows and of all columns but the last, relative to it."""
    beta = [mpf(0)] * len(c)
    for _ in range(ROUNDS):
        alpha = [
            oracle.solve(_floats(row, beta), budget, f, slope, tau).threshold
            for row, budget in zip(S, k, strict=True)
        ]
        beta = [
            oracle.solve(_floats(column, alpha), budget, f, slope, tau).threshold
            for column, budget in zip(zip(*S, strict=True), c, strict=True)
        ]
    return [a + beta[-1] for a in alpha] + [b - beta[-1] for b in beta[:-1]]


def _floats(scores, thresholds):
    return [float(s - t) for s, t in zip(scores, thresholds, strict=True)]


def _margins(matrix):
    rows = [mp.fsum(row) for row in matrix]
    return rows + [mp.fsum(column) for column in zip(*matrix, strict=True)]


def _solve(w, right):
    """The bipartite system, with the last column's unknown held at 0."""
    m, n = len(w), len(w[0])
    A = mp.zeros(m + n - 1)
    for i, total in enumerate(_margins(w)[:-1]):
        A[i, i] = total
    for i in range(m):
        for j in range(n - 1):
            A[i, m + j] = A[m + j, i] = w[i][j]
    return [*mp.lu_solve(A, mp.matrix(right[:-1])), mpf(0)]


def skewed(m, n, seed=0):
    """Scores of m tokens for n experts, some of them popular; deviation 1."""
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(m, n)) + rng.normal(size=n)
    return S / S.std()


def off(P, k, c):
    """The largest error of a row or a column, as a share of its budget."""
    rows, columns = P.sum(axis=-1) / k, P.sum(axis=-2) / c
    return max(abs(rows - 1).max(), abs(columns - 1).max())
