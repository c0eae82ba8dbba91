"""Smooth top-k operators: derived, proved, and computed to the last digit."""

from . import curves
from .hard import top_k, top_k_sum
from .linearize import Linearization, linearize
from .threshold import soft_topk, threshold

__all__ = [
    "Linearization",
    "curves",
    "linearize",
    "soft_topk",
    "threshold",
    "top_k",
    "top_k_sum",
]
