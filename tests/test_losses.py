"""Losses against 50-digit definitions, differences, convexity and bad input."""

from functools import partial

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softtopk import curves, soft_topk, threshold, top_k, top_k_sum
from softtopk.linearize import linearize
from softtopk.losses import (
    am_softmax_loss,
    cross_entropy,
    entmax_loss,
    potential,
    sparse_softmax_loss,
    sparsemax_loss,
    stop_gradient_loss,
    top_k_loss,
)
from softtopk.simplex import entmax, log_softmax, softmax, sparse_softmax, sparsemax

EPS = np.finfo(float).eps
LOSSES = {
    "cross_entropy": cross_entropy,
    "am_softmax": partial(am_softmax_loss, margin=0.35, temperature=0.5),
    "sparse_softmax": partial(sparse_softmax_loss, k=2),
    "sparsemax": sparsemax_loss,
    "entmax15": entmax_loss,
    "entmax1": partial(entmax_loss, alpha=1.0),
    "entmax3": partial(entmax_loss, alpha=3.0),
    "top_k": partial(top_k_loss, k=1),
    "top_k_sigmoid": partial(top_k_loss, k=1, curve="sigmoid", temperature=0.5),
}
CURVES = ["exp", "laplace", "sigmoid", "clip", "triangular", 1.5, 1.2, 2.0, 3.0]

row = st.lists(
    st.floats(-1e300, 1e300) | st.floats(-3, 3) | st.sampled_from([0.0, 1.0]),
    min_size=2,
    max_size=7,
)


def curve_of(name):
    return curves.entmax(name) if isinstance(name, float) else name


def definition(name):
    """Curve, inverse, potential and regulariser, written down anew for mpmath."""
    one, half = mp.mpf(1), mp.mpf(1) / 2

    def xlogx(p):
        return p * mp.log(p) if p else mp.mpf(0)

    def integral(f):  # of the regulariser from the conjugate: p t - F(t), f(t) = p
        return f

    if name == "exp":
        f = lambda t: mp.exp(min(t, 0))  # noqa: E731
        F = lambda t: mp.exp(min(t, 0)) + max(t, 0)  # noqa: E731
        phi = lambda p: xlogx(p) - p  # noqa: E731
    elif name == "sigmoid":
        f = lambda t: 1 / (1 + mp.exp(-t))  # noqa: E731
        F = lambda t: mp.log1p(mp.exp(t))  # noqa: E731
        phi = lambda p: xlogx(p) + xlogx(1 - p)  # noqa: E731
    return f, F, phi
