"""Independent references for the k-subset distribution.

Nothing here comes from softtopk.  `marginals` and `derivative` build elementary
symmetric polynomials from both ends of the row, which adds positive numbers only, with
mpmath at 60 digits.  `long_marginals` does the same for longer rows in long double,
where the polynomials of a tilted law, probabilities, cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mpmath import mp, mpf

mp.dps = 60


def _weights(x: Sequence[float]) -> list[mpf]:
    return [mp.exp(mpf(float(t))) if t > -np.inf else mpf(0) for t in x]


def _prefixes(weights: list[mpf], k: int) -> list[list[mpf]]:
    """e_0..e_k of the first m weights, for m = 0..n."""
    row = [mpf(1)] + [mpf(0)] * k
    rows = [row]
    for w in weights:
        row = [row[0]] + [row[j] + w * row[j - 1] for j in range(1, k + 1)]
        rows.append(row)
    return rows


def partition(x: Sequence[float], k: int) -> mpf:
    """log Z_k."""
    return mp.log(_prefixes(_weights(x), k)[-1][k])


def marginals(x: Sequence[float], k: int) -> list[mpf]:
    """p_i = Z_{k,i} / Z_k."""
    w = _weights(x)
    n = len(w)
    before = _prefixes(w, k)
    after = _prefixes(w[::-1], k)
    total = before[n][k]
    return [
        w[i]
        * mp.fsum(before[i][j] * after[n - 1 - i][k - 1 - j] for j in range(k))
        / total
        for i in range(n)
    ]


def pair(x: Sequence[float], k: int) -> list[list[mpf]]:
    """P(i, j in I) from the polynomials of the other entries."""
    w = _weights(x)
    n = len(w)
    total = _prefixes(w, k)[-1][k]
    single = marginals(x, k)
    out = [[mpf(0)] * n for _ in range(n)]
    for i in range(n):
        out[i][i] = single[i]
        for j in range(i):
            rest = w[:j] + w[j + 1 : i] + w[i + 1 :]
            other = _prefixes(rest, k - 2)[-1][k - 2] if k >= 2 else mpf(0)
            out[i][j] = out[j][i] = w[i] * w[j] * other / total
    return out


def derivative(x: Sequence[float], k: int, g: Sequence[float]) -> list[mpf]:
    """J g by numbers a + b h with h^2 = 0 through the same polynomials."""
    w = _weights(x)
    n = len(w)
    g = [mpf(float(t)) for t in g]
    dual = [(a, a * b) for a, b in zip(w, g, strict=True)]

    def times(a, b):
        return (a[0] * b[0], a[0] * b[1] + a[1] * b[0])

    def add(a, b):
        return (a[0] + b[0], a[1] + b[1])

    def prefixes(ws):
        row = [(mpf(1), mpf(0))] + [(mpf(0), mpf(0))] * k
        rows = [row]
        for a in ws:
            row = [row[0]] + [
                add(row[j], times(a, row[j - 1])) for j in range(1, k + 1)
            ]
            rows.append(row)
        return rows

    before, after = prefixes(dual), prefixes(dual[::-1])
    z, dz = before[n][k]
    out = []
    for i in range(n):
        acc = (mpf(0), mpf(0))
        for j in range(k):
            acc = add(acc, times(before[i][j], after[n - 1 - i][k - 1 - j]))
        a, da = times(dual[i], acc)
        out.append((da * z - a * dz) / (z * z))
    return out


def centre(x: np.ndarray, k: float) -> np.longdouble:
    """lambda with sum sigmoid(x - lambda) = k, by bisection in long double."""
    y = np.asarray(x, np.longdouble)
    finite = y[y > -np.inf]
    span = np.log(np.longdouble(2 * len(y) + 2)) + 1
    low, high = finite.min() - span, finite.max() + span
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(200):
            middle = (low + high) / 2
            if (1 / (1 + np.exp(middle - y))).sum() > k:
                low = middle
            else:
                high = middle
    return (low + high) / 2


def long_marginals(x: np.ndarray, k: int) -> np.ndarray:
    """p in long double for a row of any length, O(n k) time and memory."""
    y = np.asarray(x, np.longdouble)
    with np.errstate(under="ignore", over="ignore"):
        shifted = y - centre(x, k - 0.5)
        p = 1 / (1 + np.exp(-shifted))
        q = 1 / (1 + np.exp(shifted))
        n = len(y)

        def prefixes(order):
            rows = np.zeros((n, k), np.longdouble)
            row = np.zeros(k, np.longdouble)
            row[0] = 1
            for m, i in enumerate(order):
                rows[m] = row
                step = row * q[i]
                step[1:] += row[:-1] * p[i]
                row = step
            return rows

        before = prefixes(range(n))
        after = prefixes(range(n - 1, -1, -1))[::-1, ::-1]
        # P(others = k - 1) of every entry; the sum over entries of p is k
        rest = (before * after).sum(axis=1)
    chosen = p * rest
    return chosen * (k / chosen.sum())
