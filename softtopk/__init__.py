"""Smooth top-k operators: derived, proved, and computed to a few rounding errors."""

from . import curves, losses
from ._linearize import Linearization, linearize
from .balance import balanced_topk
from .hard import top_k, top_k_indices, top_k_sum
from .perturb import Noise, perturb_max
from .sampling import sample_shares, sample_topk, subset_log_prob
from .selection import soft_topk, threshold
from .simplex import (
    entmax,
    log_softmax,
    logsumexp,
    softmax,
    sparse_softmax,
    sparsemax,
    taylor_softmax,
)
from .sorting import soft_permutation, soft_rank, soft_sort
from .subset import grad_topk, log_partition, pair_marginals

__version__ = "0.2.0.dev0"

__all__ = [
    "Linearization",
    "Noise",
    "balanced_topk",
    "curves",
    "entmax",
    "grad_topk",
    "linearize",
    "log_partition",
    "log_softmax",
    "logsumexp",
    "losses",
    "pair_marginals",
    "perturb_max",
    "sample_shares",
    "sample_topk",
    "soft_permutation",
    "soft_rank",
    "soft_sort",
    "soft_topk",
    "softmax",
    "sparse_softmax",
    "sparsemax",
    "subset_log_prob",
    "taylor_softmax",
    "threshold",
    "top_k",
    "top_k_indices",
    "top_k_sum",
]
