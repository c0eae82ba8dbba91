"""Autograd functions of a selection: by PyTorch's operations, a kernel, or NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd import Function

from .. import curves as curves
from .._kernels import torch_launch as kernels
from .._rows.adapter_rows import check_values
from .._rows.namespace import namespace
from .._rules import selection_rule
from .._search import numpy_for_libraries, selection_search
from . import torch_internals as internals
from .torch_autograd import as_rows_of, batched, followed, is_last, tangents_of
from .torch_functions import PLAIN, Arrays


def is_fused(curve: Any, x: Any) -> bool:
    """Whether a kernel selects from x: a plain tensor, and with values or compiled."""
    if type(x) not in PLAIN or not kernels.takes(curve, x):
        return False
    return torch.compiler.is_compiling() or not (
        internals.is_fake(x) or internals.recorded()
    )


def _selected_rows(
    curve: Any, x: Any, whole: Any, part: Any, tau: Any, regular: bool
) -> Any:
    """Shares, anchors and offsets, by one kernel if there is one for these rows."""
    if not is_fused(curve, x):
        return selection_search.selected(curve, x, whole, part, tau, regular)
    if isinstance(tau, torch.Tensor):
        given = whole, part, tau, 0.0, 1.0
    else:
        given = None, None, None, whole + part, tau
    return kernels.select(x, *given, *kernels.named(curve))


def _gradients(curve: Any, point: Any, regular: bool, gp: Any, gt: Any) -> Any:
    """The gradients, by one kernel if possible.

    The kernel has no derivative of its own and takes no gradient by t.  So a gradient
    that may be differentiated again, or one by the threshold, is that of
    `selection_rule.pull_selection`.
    """
    x, a, t, tau = point
    last = torch.compiler.is_compiling() or is_last(gp)
    if gt is None and gp is not None and last and is_fused(curve, x):
        how = (tau, 1.0) if isinstance(tau, torch.Tensor) else (None, tau)
        gx, gk, gtau = kernels.pull(x, gp, a, t, *how, *kernels.named(curve))
        if how[0] is None:
            return gx, None, None
        return gx, gk, gtau if tau.ndim else gtau.sum()
    numbers, dtype = not isinstance(tau, torch.Tensor), x.dtype
    x, gp = (v if v is None else v.to(a.dtype) for v in (x, gp))
    gx, gk, gtau = selection_rule.pull_selection(
        curve, (x, a, t, _as_tensor(tau, a)), regular, gp, gt
    )
    gx = gx if gx is None else gx.to(dtype)
    return (gx, None, None) if numbers else (gx, gk, gtau)


def _as_tensor(tau: Any, like: Any) -> Any:
    """A temperature as a tensor."""
    return tau if isinstance(tau, torch.Tensor) else Arrays.numbers(tau, like)


def _saved(ctx: Any) -> Any:
    """x, a, t and tau, which may be a number."""
    saved = ctx.saved_tensors
    return saved if len(saved) == 4 else (*saved, ctx.tau)


class Select(Function):
    """From x, k and tau to p, a and t; a is a constant."""

    @staticmethod
    def forward(
        curve: Any, x: Any, whole: Any, part: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        return _selected_rows(curve, x, whole, part, tau, False)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.curve, x, _, _, tau = inputs
        ctx.regular = False
        _, a, t = output
        ctx.mark_non_differentiable(a)
        if isinstance(tau, torch.Tensor):
            ctx.save_for_backward(x, a, t, tau)
        else:
            ctx.tau = tau
            ctx.save_for_backward(x, a, t)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        gx, gk, gtau = _gradients(ctx.curve, _saved(ctx), ctx.regular, gp, gt)
        return None, gx, None, gk, gtau

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, curve_or_options: Any, *given: Any
    ) -> tuple[Any, Any]:
        x, *rest = batched(info, in_dims[1:], given)
        kind = EagerSelect if isinstance(curve_or_options, SelectOptions) else Select
        return kind.apply(curve_or_options, x, *as_rows_of(x[..., 0], rest)), (0, 0, 0)


class SelectShares(Select):
    """`Select` if only p is used.

    A compiled backward pass is not told that t has no gradient, so it is a class of its
    own that leaves the gradient by t out.
    """

    @staticmethod
    def backward(ctx: Any, gp: Any, *_: Any) -> tuple[Any, ...]:
        x, *rest = _saved(ctx)
        if not is_fused(ctx.curve, x):
            # A compiler may compute whatever does not depend on gp in the forward pass
            # already and store it for the backward pass.  Here these would be masks,
            # and storing them takes ten times as long as reading x again.  This line
            # makes x depend on gp, so that all of it stays in the backward pass.
            x = torch.where(gp == gp, x, x)
        gx, gk, gtau = _gradients(ctx.curve, (x, *rest), ctx.regular, gp, None)
        return None, gx, None, gk, gtau


class SelectOptions:
    """A curve, whether to check values, and whether the check found rows regular.

    `forward` writes the last, and `setup_context` reads it.
    """

    def __init__(self, curve: Any, look: bool) -> None:
        self.curve, self.look, self.regular = curve, look, False


class EagerSelect(Select):
    """`Select` with forward mode, for calls that torch.compile does not trace.

    It checks the values, too.
    """

    @staticmethod
    def forward(
        options: Any, x: Any, whole: Any, part: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        if options.look:
            options.regular = check_values(namespace(x), x, (whole, part), tau)
        return _selected_rows(options.curve, x, whole, part, tau, options.regular)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        options, *rest = inputs
        Select.setup_context(ctx, (options.curve, *rest), output)
        ctx.regular = options.regular
        ctx.set_materialize_grads(False)
        tau = (rest[3],) if isinstance(rest[3], torch.Tensor) else ()
        ctx.save_for_forward(rest[0], *output[1:], *tau)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        point = _saved(ctx)  # once: checkpointing may recompute them at each access
        gx, gk, gtau = _gradients(ctx.curve, point, ctx.regular, gp, gt)
        return None, followed(gx, point[0]), None, gk, gtau

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, Any, Any]:
        x, a, t, tau = _saved(ctx)
        dtype, x = x.dtype, x.to(a.dtype)
        point = x, a, t, _as_tensor(tau, a)
        given = tangents_of((x, t, point[3]), (tangents[1], *tangents[3:5]))
        dp, dt = selection_rule.push_selection(ctx.curve, point, ctx.regular, *given)
        return dp.to(dtype), None, dt


class QuickSelect(Function):
    """`Select` by NumPy, for tensors on the CPU that nothing traces or maps.

    It has no `setup_context`, because binding its arguments takes as long as a search.
    """

    @staticmethod
    def forward(
        ctx: Any, curve: Any, x: Any, whole: Any, part: Any, tau: Any, scheme: Any
    ) -> tuple[Any, Any, Any]:
        (p, a, t), ctx.regular = select_on_numpy(curve, (x, whole, part, tau), scheme)
        ctx.curve = curve
        ctx.mark_non_differentiable(a)
        ctx.set_materialize_grads(False)
        point = x, a, t, Arrays.numbers(tau, x)
        ctx.save_for_backward(*point)
        if internals.in_dual_level():  # only then is jvp called
            ctx.save_for_forward(*point)
        return p, a, t

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        point, (_, by_x, _, by_k, by_tau, _) = ctx.saved_tensors, ctx.needs_input_grad
        found = None
        if is_last(gp, gt):
            values = [v if v is None else v.numpy(force=True) for v in (*point, gp, gt)]
            found = selection_rule.pull_selection_on_numpy(ctx.curve, by_tau, *values)
        if found is None:
            found = selection_rule.pull_selection(ctx.curve, point, ctx.regular, gp, gt)
        asked = zip(found, (by_x, by_k, by_tau), strict=True)
        gx, gk, gtau = (_from_numpy(v) if by else None for v, by in asked)
        return None, followed(gx, point[0]), None, gk, gtau, None

    jvp = EagerSelect.jvp


class QuickSimplex(Function):
    """Entmax by NumPy for the same tensors; its derivative needs only the shares."""

    @staticmethod
    def forward(ctx: Any, x: Any, curve: curves.Entmax, tau: float) -> Any:
        p = simplex(x, curve, tau)
        ctx.power = curve.b, tau
        ctx.save_for_backward(p)
        ctx.save_for_forward(p)
        return p

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        (p,) = ctx.saved_tensors
        return selection_rule.simplex_pull(ctx.power, p, g, is_last(g)), None, None

    @staticmethod
    def jvp(ctx: Any, dx: Any, *_: Any) -> Any:
        (p,) = ctx.saved_tensors
        return selection_rule.simplex_pull(ctx.power, p, dx, False)


def simplex(x: Any, curve: curves.Entmax, tau: float) -> Any:
    p = numpy_for_libraries.simplex_by_numpy(x.numpy(force=True), curve, tau)
    return torch.from_numpy(p)


def select_on_numpy(
    curve: curves.Curve, given: tuple[Any, Any, Any, Any], scheme: Any
) -> tuple[Any, bool]:
    """The selection at x, whole, part and tau, and whether all rows are regular."""
    x, whole, part, tau = given
    whole, part = (
        v.numpy(force=True) if isinstance(v, torch.Tensor) else v for v in (whole, part)
    )
    rows = x.numpy(force=True), whole, part, float(tau)
    found, regular = numpy_for_libraries.solved_by_numpy(curve, *rows, scheme)
    return tuple(map(torch.from_numpy, found)), bool(regular)


def _from_numpy(value: Any) -> Any:
    """An array or a number of NumPy as a tensor."""
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.from_numpy(np.asarray(value))
    return value
