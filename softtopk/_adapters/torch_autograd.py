"""Helpers for PyTorch's autograd functions, and those that give a number for a row.

A name with `Eager` is that of a function with forward mode, which torch.compile cannot
trace; one with `Quick` is computed by NumPy, for eager tensors on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from . import torch_internals as internals
from .torch_functions import is_divided


def one_forward_mode() -> None:
    """Raise an error in nested forward mode, where a Function is silently wrong."""
    if internals.forward_modes() > 1:
        raise NotImplementedError(
            "forward mode inside forward mode is not supported by PyTorch's custom "
            "functions: use reverse mode inside (torch.func.hessian does)"
        )


def is_recorded(*inputs: Any) -> bool:
    """Whether autograd records operations on these inputs, in either mode."""
    if internals.in_dual_level():
        return True
    return torch.is_grad_enabled() and any(
        isinstance(v, torch.Tensor) and v.requires_grad for v in inputs
    )


def followed(gx: Any, x: Any) -> Any:
    """The gradient by x; where it is constant, plus a zero that depends on x.

    The zero keeps double backward connected: its result is then 0 and not an error.
    """
    recorded = x.requires_grad and torch.is_grad_enabled()
    if gx is None or gx.requires_grad or not recorded:
        return gx
    return gx + 0 * torch.where(torch.isfinite(x), x, 0)


def is_last(*grads: Any) -> bool:
    """Whether the gradients are plain tensors that nothing records, traces or maps."""
    given = [g for g in grads if g is not None]
    is_batch = internals.is_batch_of_gradients
    return bool(given) and not (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or internals.in_dual_level()
        or internals.transformed()
        or any(type(g) is not torch.Tensor or is_batch(g) for g in given)
    )


def batched(info: Any, in_dims: Any, given: Any) -> list[Any]:
    """Arguments of a vectorised function with the batch first."""

    def batch_first(v: Any, axis: Any) -> Any:
        if v is None:
            return None
        return (
            v.expand(info.batch_size, *v.shape) if axis is None else v.movedim(axis, 0)
        )

    return [batch_first(*pair) for pair in zip(given, in_dims, strict=True)]


def as_rows_of(like: Any, given: list[Any]) -> list[Any]:
    """Numbers for each element of a batch, expanded to numbers for each row."""
    return [
        v.reshape(v.shape + (1,) * (like.ndim - v.ndim)).expand(like.shape)
        for v in given
    ]


class Constant(Function):
    """The result of a search, a number for each row without a derivative."""

    @staticmethod
    def forward(f: Any, *args: Any) -> Any:
        return f(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def vmap(info: Any, in_dims: Any, f: Any, *given: Any) -> tuple[Any, Any]:
        return Constant.apply(f, *batched(info, in_dims[1:], given)), 0


class Spoil(Function):
    """x where it is in range, and elsewhere NaN, except for 0 if this is no value."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, in_range: Any, value: bool) -> Any:
        return torch.where(in_range if value else in_range | (x == 0), x, torch.nan)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None, None]:
        return spoil(g, *ctx.saved_tensors), None, None


class EagerSpoil(Spoil):
    """`Spoil` with forward mode, for calls that torch.compile does not trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Spoil.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def jvp(ctx: Any, dx: Any, *_: Any) -> Any:
        return spoil(dx, *ctx.saved_tensors)


class Hold(Function):
    """x where it is in range, and elsewhere 0, with the derivative of x everywhere."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, in_range: Any) -> Any:
        return torch.where(in_range, x, 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, None]:
        return g, None


class EagerHold(Hold):
    """`Hold` with forward mode, for calls that torch.compile does not trace."""

    @staticmethod
    def jvp(ctx: Any, dx: Any, _: Any) -> Any:
        return dx.clone()


def hold(x: Any, in_range: Any) -> Any:
    """`Hold`, with a condition that may have to be broadcast."""
    if torch.compiler.is_compiling():
        return Hold.apply(x, in_range.expand(x.shape))
    if is_recorded(x):
        return EagerHold.apply(x, in_range.expand(x.shape))
    return Hold.forward(x, in_range)


def spoil(x: Any, in_range: Any, value: bool = False) -> Any:
    """`Spoil`, with a condition that may have to be broadcast."""
    if torch.compiler.is_compiling():
        return Spoil.apply(x, in_range.expand(x.shape), value)
    if is_recorded(x):
        return EagerSpoil.apply(x, in_range.expand(x.shape), value)
    return Spoil.forward(x, in_range, value)


def tangents_of(values: Any, tangents: Any) -> list[Any]:
    """The tangents of values, zeros where there is None."""
    pairs = zip(values, tangents, strict=True)
    return [torch.zeros_like(v) if move is None else move for v, move in pairs]


class Attach(Function):
    """A number for each row, with given derivatives by x, k and tau.

    `forward` names all its arguments: where nothing is recorded, torch.compile counts
    them to see whether the first is a context.
    """

    @staticmethod
    def forward(
        value: Any, x: Any, k: Any, tau: Any, sx: Any, sk: Any, stau: Any
    ) -> Any:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[4:])
        ctx.single = inputs[3] is not None and inputs[3].ndim == 0

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        sx, sk, stau = ctx.saved_tensors
        gx = None if sx is None else g[..., None] * sx
        gk, gtau = (None if slope is None else g * slope for slope in (sk, stau))
        gtau = gtau.sum() if gtau is not None and ctx.single else gtau
        return None, gx, gk, gtau, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> tuple[Any, Any]:
        all_given = batched(info, in_dims, given)
        if all_given[3] is not None:
            all_given[3] = as_rows_of(all_given[0], [all_given[3]])[0]
        kind = Attach if torch.compiler.is_compiling() else EagerAttach
        return kind.apply(*all_given), 0


class EagerAttach(Attach):
    """`Attach` with forward mode, for calls that torch.compile does not trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Attach.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output, *inputs[4:])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        found = Attach.backward(ctx, g)
        if not is_divided(g):
            return found
        # If None were returned for the other inputs, autograd would pass zeros that are
        # plain tensors to the backward functions of DTensor, which expect DTensors.
        rest = [v if v is None else torch.zeros_like(v) for v in ctx.saved_tensors]
        return (*found[:4], *rest)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        value, *slopes = ctx.saved_tensors
        change = torch.zeros_like(value)
        for move, slope, axis in zip(tangents[1:4], slopes, "xk ", strict=True):
            if move is not None and slope is not None:
                part = move * slope
                change = change + (part.sum(-1) if axis == "x" else part)
        return change
