"""Solvers of sum f((x - lambda) / tau) = k; `root` is right for every curve."""

from .numpy import Solution, solve

__all__ = ["Solution", "solve"]
