"""Smooth top-k operators: derived, proved, and computed to the last digit."""

from . import curves, iterative
from .hard import top_k, top_k_sum
from .linearize import Linearization, linearize
from .perturb import Noise, perturb_max
from .subset import grad_topk, log_partition, pair_marginals
from .threshold import soft_topk, threshold

__all__ = [
    "Linearization",
    "Noise",
    "curves",
    "grad_topk",
    "iterative",
    "linearize",
    "log_partition",
    "pair_marginals",
    "perturb_max",
    "soft_topk",
    "threshold",
    "top_k",
    "top_k_sum",
]
