"""The operators as modules of PyTorch, and what functions of `softtopk.torch` share."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from ._adapters.torch_adapter import ADAPTER
from ._adapters.torch_functions import PLAIN
from ._operators import hard_body, selection_body, simplex_body, subset_body
from ._rows.numpy_rows import check_temperature

Value = TypeVar("Value")

_TENSORS = ("k", "temperature", "alpha")
"""Settings that may be tensors, which are saved and moved with the module."""


def refuse_script() -> None:
    """The error of `torch.jit.script`, which follows no search."""
    raise NotImplementedError(
        "torch.jit.script is not supported: use torch.export or torch.compile"
    )


def without_script(functions: Any) -> None:
    """Let `torch.jit.script` raise that error for functions too."""
    for function in functions:
        if not isinstance(function, type):
            function.__prepare_scriptable__ = refuse_script


def one_of(
    word: str, value: Value, default: Value, alias: str, given: dict[str, Value]
) -> Value:
    """What one of two words names; `given` holds what was called by other names.

    Raises
    ------
    TypeError
        If both words are used, or another one.
    """
    if not given:
        return value
    for name in given:
        if name != alias:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    if value != default:
        raise TypeError(f"{word} and {alias} are one argument: give one")
    return given[alias]


class _Module(torch.nn.Module):
    """An operator with its settings, which are attributes that can be assigned to.

    A tensor given as `k`, `temperature` or `alpha` is a buffer, and a Parameter a
    parameter.  A number that is assigned to a buffer fills it, so that the module keeps
    the entries of its `state_dict`.  A number out of range as `temperature` is refused
    where it is given, and not only in the next call.  A conversion to a narrower type,
    such as ``half()``, leaves tensors among the settings as they are.
    """

    operator: Any = None

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._names = tuple(settings)
        for name, value in settings.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "temperature" and type(value) in (int, float):
            check_temperature(value)
        known = self._buffers.get(name) if name in _TENSORS else None
        if known is not None and type(value) in (int, float):
            dtype = torch.result_type(known, value)  # an integer buffer may get 2.5
            value = torch.full_like(known, value, dtype=dtype)
        elif name in _TENSORS and name not in self._parameters and known is None:
            tensor = isinstance(value, torch.Tensor)
            if tensor and not isinstance(value, torch.nn.Parameter):
                self.__dict__.pop(name, None)
                self.register_buffer(name, value)
                return
        super().__setattr__(name, value)

    def __prepare_scriptable__(self) -> Any:
        """What `torch.jit.script` asks for."""
        refuse_script()

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """What moves and converts a module; a setting never gets a narrower type.

        ``bfloat16()`` would turn a budget of 1001 into 1000.
        """
        given = {name: getattr(self, name) for name in _TENSORS if hasattr(self, name)}
        held = {
            name: value.detach()
            for name, value in given.items()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }
        super()._apply(fn, recurse)
        for name, before in held.items():
            after = getattr(self, name)
            if after.dtype.itemsize < before.dtype.itemsize:
                after.data = before.to(after.device)
                if after.grad is not None:
                    after.grad.data = after.grad.to(before.dtype)
        return self

    def forward(self, x: torch.Tensor, **given: Any) -> torch.Tensor:
        """The operator at x; arguments such as `where` and `k` may be given here."""
        settings = {**{name: getattr(self, name) for name in self._names}, **given}
        other = {"axis": settings.pop("axis")} if "axis" in settings else {}
        axis = one_of("dim", settings.pop("dim"), -1, "axis", other)
        return type(self).operator(ADAPTER, x, axis=axis, **settings)

    def extra_repr(self) -> str:
        """The settings that are in force."""
        shown = {name: _shown(getattr(self, name)) for name in self._names}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


def _shown(value: Any) -> str:
    """A setting as `repr` shows it, and a tensor by its kind and its value or shape."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    kind = "Parameter" if isinstance(value, torch.nn.Parameter) else "tensor"
    # Only the value of a plain tensor is read.  That of a subclass may lie on another
    # machine (DTensor), and a fake or meta tensor has none.
    if value.numel() == 1 and type(value) in PLAIN and not value.is_meta:
        return f"{kind}({value.item():g})"
    return f"{kind}(shape={tuple(value.shape)})"


class SoftTopK(_Module):
    """`soft_topk` as a module; its settings are attributes that can be assigned to.

    A tensor given as `k` or `temperature` is a buffer: `to` moves it and `state_dict`
    holds it.  A Parameter is trained.

    >>> import softtopk.torch as stk
    >>> layer = stk.SoftTopK(k=2, curve="exp")
    >>> layer.temperature = 0.1
    >>> layer
    SoftTopK(k=2, curve='exp', temperature=0.1, dim=-1)
    """

    operator: Any = selection_body.soft_topk

    def __init__(
        self, k: Any, curve: Any = "laplace", temperature: Any = 1.0, dim: Any = -1
    ) -> None:
        super().__init__(k=k, curve=curve, temperature=temperature, dim=dim)


class TopKST(SoftTopK):
    """`top_k_st` as a module: hard forward, soft backward."""

    operator = hard_body.top_k_st

    def __init__(
        self,
        k: Any,
        curve: Any = "laplace",
        temperature: Any = 1.0,
        dim: Any = -1,
        ties: str = "share",
    ) -> None:
        given = {"k": k, "curve": curve, "temperature": temperature, "dim": dim}
        _Module.__init__(self, **given, ties=ties)


class Threshold(SoftTopK):
    """`threshold` as a module."""

    operator = selection_body.threshold


class GradTopK(_Module):
    """`grad_topk` as a module."""

    operator = subset_body.grad_topk

    def __init__(self, k: Any, temperature: Any = 1.0, dim: Any = -1) -> None:
        super().__init__(k=k, temperature=temperature, dim=dim)


class Sparsemax(_Module):
    """`sparsemax` as a module."""

    operator = simplex_body.sparsemax

    def __init__(self, temperature: Any = 1.0, dim: Any = -1) -> None:
        super().__init__(temperature=temperature, dim=dim)


class Entmax(_Module):
    """`entmax` as a module."""

    operator = simplex_body.entmax

    def __init__(self, alpha: Any = 1.5, temperature: Any = 1.0, dim: Any = -1) -> None:
        super().__init__(alpha=alpha, temperature=temperature, dim=dim)
