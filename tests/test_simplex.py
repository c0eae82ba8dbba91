"""Distributions: 50-digit references, the entmax package, properties, bad input."""

from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import softtopk.simplex as simplex
from softtopk import curves, soft_topk
from softtopk.linearize import linearize
from softtopk.simplex import (
    entmax,
    log_softmax,
    logsumexp,
    softmax,
    sparse_softmax,
    sparsemax,
    taylor_softmax,
)

EPS = np.finfo(float).eps
MAPS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax15": entmax,
    "entmax125": partial(entmax, alpha=1.25),
    "entmax3": partial(entmax, alpha=3.0),
    "taylor": taylor_softmax,
    "sparse": partial(sparse_softmax, k=1),
}
INVARIANT = [name for name in MAPS if name != "taylor"]

finite = st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, 1.0])
scores = st.lists(finite | st.just(-np.inf), min_size=1, max_size=9).filter(
    lambda x: max(x) > -np.inf
)
alphas = st.sampled_from([1.0, 1.05, 1.3, 1.5, 1.8, 2.0, 2.5, 4.0, 30.0])


def reference(x, alpha, tau=1.0):
    """Entmax at 40 digits by bisection on t of sum [b x/tau - t]_+^(1/b) = 1."""
    with mp.workdps(40):
        z = [(mp.mpf(float(v)) - max(map(float, x))) / mp.mpf(tau) for v in x]
        if alpha == 1:
            e = [mp.exp(v) for v in z]
            return [v / mp.fsum(e) for v in e]
        b = mp.mpf(alpha) - 1
        z = [b * v for v in z if b * v > -1]
        low, high = mp.mpf(-1), mp.mpf(0)
        for _ in range(140):
            t = (low + high) / 2
            total = mp.fsum((v - t) ** (1 / b) for v in z if v > t)
            low, high = (t, high) if total > 1 else (low, t)
        d = [b * (mp.mpf(float(v)) - max(map(float, x))) / mp.mpf(tau) for v in x]
        return [(v - low) ** (1 / b) if v > low else mp.mpf(0) for v in d]


def worst(p, exact):
    return float(max(abs(mp.mpf(float(v)) - e) for v, e in zip(p, exact, strict=True)))


def cases(sizes=(2, 5, 40)):
    rng = np.random.default_rng(7)
    for n in sizes:
        base = {
            "normal": rng.normal(size=n),
            "ties": rng.integers(0, 3, size=n) / 4,
            "equal": np.zeros(n),
            "cauchy": rng.standard_cauchy(size=n),
            "geometric": -(2.0 ** -np.arange(n)),
        }
        for x in base.values():
            for scale, offset in ((1.0, 0.0), (0.01, 1e8), (30.0, -12345.678)):
                yield x * scale + offset
