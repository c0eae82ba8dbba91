"""The operators as modules of PyTorch, with their settings."""

from __future__ import annotations

from typing import Any

import torch

from . import operators, simplex
from .torch import ADAPTER
from .words import one_of


class _Module(torch.nn.Module):
    """An operator with its settings."""

    operator: Any = None

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings
        for name in ("k", "temperature"):
            if isinstance(settings.get(name), torch.nn.Parameter):
                self.register_parameter(name, settings.pop(name))

    def forward(self, x: torch.Tensor, **given: Any) -> torch.Tensor:
        """The operator at x; arguments such as `where` and `k` may be given here."""
        settings = self.settings | dict(self.named_parameters()) | given
        other = {"axis": settings.pop("axis")} if "axis" in settings else {}
        axis = one_of("dim", settings.pop("dim"), -1, "axis", other)
        out: torch.Tensor = type(self).operator(ADAPTER, x, axis=axis, **settings)
        return out

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


class SoftTopK(_Module):
    """`soft_topk` as a module; `k` and `temperature` may be parameters to be trained.

    >>> import softtopk.torch as stk
    >>> stk.SoftTopK(k=2, curve="exp")
    SoftTopK(k=2, curve='exp', temperature=1.0, dim=-1)
    """

    operator = operators.soft_topk

    def __init__(
        self, k: Any, curve: Any = "laplace", temperature: Any = 1.0, dim: Any = -1
    ) -> None:
        super().__init__(k=k, curve=curve, temperature=temperature, dim=dim)


class TopKST(SoftTopK):
    """`top_k_st` as a module: hard forward, soft backward."""

    operator = operators.top_k_st

    def __init__(
        self,
        k: Any,
        curve: Any = "laplace",
        temperature: Any = 1.0,
        dim: Any = -1,
        ties: str = "share",
    ) -> None:
        super().__init__(k, curve, temperature, dim)
        self.settings["ties"] = ties


class Threshold(SoftTopK):
    """`threshold` as a module."""

    operator = operators.threshold


class GradTopK(_Module):
    """`grad_topk` as a module."""

    operator = operators.grad_topk

    def __init__(self, k: Any, temperature: Any = 1.0, dim: Any = -1) -> None:
        super().__init__(k=k, temperature=temperature, dim=dim)


class Sparsemax(_Module):
    """`sparsemax` as a module."""

    operator = simplex.sparsemax

    def __init__(self, temperature: Any = 1.0, dim: Any = -1) -> None:
        super().__init__(temperature=temperature, dim=dim)


class Entmax(_Module):
    """`entmax` as a module."""

    operator = simplex.entmax

    def __init__(
        self, alpha: float = 1.5, temperature: Any = 1.0, dim: Any = -1
    ) -> None:
        super().__init__(alpha=alpha, temperature=temperature, dim=dim)
