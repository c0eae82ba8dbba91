"""The adapter of PyTorch: its functions, and which rule takes which tensors."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch

from .. import curves as curves
from .._contract import Adapter, SelectMethod
from .._kernels import torch_launch as kernels
from .._rows.namespace import register
from .._rules.sorting_rule import SortedRows
from .._search.numpy_sums import scheme_of
from . import torch_autograd as autograd
from . import torch_autograd_balance, torch_autograd_costs, torch_autograd_subset
from . import torch_autograd_selection as selection
from . import torch_internals as internals
from . import torch_sorting_on_numpy as sorting_on_numpy
from .torch_functions import PLAIN, Arrays, is_divided


class Torch(Arrays):
    """What the operators ask of an array library."""

    @staticmethod
    def constant(f: Any, *args: Any) -> Any:
        """`program` for a search; a Function under vmap, which cannot trace loops."""
        if internals.transformed() and not torch.compiler.is_compiling():
            return autograd.Constant.apply(partial(f, Torch), *args)
        return f(Torch, *args)

    @staticmethod
    def select(curve: curves.Curve, rows: Any, check: Any, shares: bool = False) -> Any:
        at = x, _, part, tau = rows[:4]
        if torch.compiler.is_compiling():
            kind = selection.SelectShares if shares else selection.Select
            return kind.apply(curve, *at)
        method = rows.select_method or Torch.select_method(x, curve, check)
        many = isinstance(tau, torch.Tensor) and tau.ndim
        if method.scheme is not None and not many:
            if autograd.is_recorded(x, part, tau):
                return selection.QuickSelect.apply(curve, *at, method.scheme)
            return selection.select_on_numpy(curve, at, method.scheme)[0]
        autograd.one_forward_mode()
        options = selection.SelectOptions(curve, Torch.looks(x, check))
        return selection.EagerSelect.apply(options, *at)

    hold, spoil = staticmethod(autograd.hold), staticmethod(autograd.spoil)

    @staticmethod
    def simplex(x: Any, curve: curves.Entmax, tau: float) -> Any:
        if autograd.is_recorded(x):
            return selection.QuickSimplex.apply(x, curve, tau)
        # No derivative is recorded: without a Function this takes a fifth less time.
        return selection.simplex(x, curve, tau)

    @staticmethod
    def arrange(
        what: str, curve: curves.Curve, x: Any, tau: Any, check: bool | None
    ) -> Any:
        scheme = Torch.select_method(x, curve, check).scheme
        if scheme and not internals.in_dual_level():
            return sorting_on_numpy.arrange(what, curve, x, tau)
        at = SortedRows(ADAPTER, curve, x.detach(), tau.detach())
        value = getattr(at, what)()
        eager = not (internals.transformed() or torch.compiler.is_compiling())
        if eager and not autograd.is_recorded(x, tau):
            return value
        # The value is the accurate one, and the derivatives are those of `moved`.
        moved = getattr(at, f"moved_{what}")(x, tau)
        return value + (moved - moved.detach())

    @staticmethod
    def spend(options: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch_autograd_costs.Spend.apply(options, x, whole, part, c, tau)
        autograd.one_forward_mode()
        return torch_autograd_costs.EagerSpend.apply(options, x, whole, part, c, tau)

    @staticmethod
    def subset(x: Any, whole: Any, part: Any, tau: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch_autograd_subset.Subset.apply(x, whole, part, tau)
        if not tau.ndim and Torch.select_method(x, curves.SIGMOID, None).scheme:
            return torch_autograd_subset.QuickSubset.apply(x, whole, part, tau)
        autograd.one_forward_mode()
        return torch_autograd_subset.EagerSubset.apply(x, whole, part, tau)

    @staticmethod
    def quotient(k: int, x: Any, own: Any, tau: Any) -> Any:
        scheme = Torch.select_method(x, curves.SIGMOID, None).scheme
        if scheme and not internals.in_dual_level():
            return torch_autograd_subset.QuickQuotient.apply(k, x, own, tau)
        return None

    @staticmethod
    def balance(options: Any, x: Any, k: Any, c: Any, tau: Any) -> Any:
        if is_divided(x):
            raise NotImplementedError(
                "balanced_topk takes no DTensor: PyTorch solves no divided systems; "
                "gather the scores (full_tensor), or give each process its matrices"
            )
        if torch.compiler.is_compiling():
            return torch_autograd_balance.Balance.apply(options, x, k, c, tau)[0]
        autograd.one_forward_mode()
        return torch_autograd_balance.EagerBalance.apply(options, x, k, c, tau)[0]

    @staticmethod
    def number(value: Any) -> Any:
        """A Python float for a tensor of one float that needs no derivative."""
        if not isinstance(value, torch.Tensor) or value.ndim:
            return value
        if autograd.is_recorded(value) or type(value) not in PLAIN or not value.is_cpu:
            return value
        return value.item() if value.is_floating_point() else value

    @staticmethod
    def select_method(x: Any, curve: curves.Curve, check: bool | None) -> SelectMethod:
        """By NumPy's sums, with their scheme, by a kernel, or by PyTorch's operations.

        A kernel takes scores of 16 bits without conversion, and Python numbers as the
        budget and the temperature.
        """
        looks, on_device = Torch.looks(x, check), kernels.ON_CPU or not x.is_cpu
        fused = on_device and selection.is_fused(curve, x)
        if looks or not fused:
            known = not looks or fused or not x.is_cpu or type(x) not in PLAIN
            if known or internals.intercepted():
                return SelectMethod()
            scheme = scheme_of(curve)
            return SelectMethod(numbers=scheme is not None, scheme=scheme)
        if torch.compiler.is_compiling():
            return SelectMethod(raw=True)
        if internals.transformed() or internals.in_dual_level():
            return SelectMethod()
        return SelectMethod(numbers=True, raw=True)

    @staticmethod
    def in_working_type(x: Any) -> Any:
        """A tensor of the type in which x is calculated with, on the device of x."""
        kind = kernels.WORKING_TYPE[x.dtype]
        return x if x.dtype == kind else x.new_empty((), dtype=kind)

    @staticmethod
    def attach(value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        compiled = torch.compiler.is_compiling()
        kind = autograd.Attach if compiled else autograd.EagerAttach
        none: tuple[Any, Any] = (None, lambda: None)
        pairs = [by.get(name, none) for name in ("x", "k", "tau")]
        if not (compiled or internals.transformed()):
            # A slope that nothing asks for may take as long as the value.
            pairs = [p if autograd.is_recorded(p[0]) else none for p in pairs]
            if all(pair is none for pair in pairs):
                return value
        inputs, slopes = [v for v, _ in pairs], [slope() for _, slope in pairs]
        return kind.apply(value, *inputs, *slopes)


register(torch.Tensor, Torch, first=True)

ADAPTER = cast(Adapter, Torch)  # a class, whose members the tests compare
