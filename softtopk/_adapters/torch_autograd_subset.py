"""Autograd functions of random subsets, budgets with costs, and rows and columns."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from .._rows.namespace import namespace
from .._rules import costs_rule
from .._search import balance_search, subset_law
from . import torch_internals as internals
from .torch_autograd import as_rows_of, batched, followed, is_last
from .torch_functions import Arrays


class Subset(Function):
    """From x, k and tau to the fields of `subset.Found`: p, and constants."""

    @staticmethod
    def forward(x: Any, whole: Any, part: Any, tau: Any) -> tuple[Any, ...]:
        return tuple(subset_law.found(namespace(x), x, whole, part, tau))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:3])

    @staticmethod
    def backward(ctx: Any, g: Any, *_: Any) -> tuple[Any, ...]:
        return _subset_pull(ctx.saved_tensors, g)

    @staticmethod
    def vmap(info: Any, places: Any, *given: Any) -> tuple[Any, Any]:
        x, *rest = batched(info, places, given)
        kind = Subset if torch.compiler.is_compiling() else EagerSubset
        return kind.apply(x, *as_rows_of(x[..., 0], rest)), (0, 0, 0, 0)


def _subset_pull(at: Any, g: Any) -> tuple[Any, ...]:
    """The gradients of `Subset`, which may be differentiated again."""
    x, whole, part, tau, *shift = at
    tilt = subset_law.tilted(namespace(x), x, whole, part, tau, shift)
    gx, gtau = subset_law.pull(
        namespace(x), tilt, subset_law.circled(namespace(x), tilt), g
    )
    return gx, None, None, gtau if tau.ndim else gtau.sum()


class EagerSubset(Subset):
    """Also in forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Subset.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs, *output[1:3])

    @staticmethod
    def jvp(ctx: Any, *moves: Any) -> Any:
        x, whole, part, tau, *shift = ctx.saved_tensors
        tilt = subset_law.tilted(namespace(x), x, whole, part, tau, shift)
        dx, dtau = (
            torch.zeros_like(v) if move is None else move
            for v, move in ((x, moves[0]), (tau, moves[3]))
        )
        change = subset_law.scaled(namespace(x), tilt, dx, dtau)
        circle = subset_law.circled(namespace(x), tilt)
        return subset_law.product(namespace(x), tilt, circle, change), None, None, None


class QuickSubset(Function):
    """The solver for NumPy, for tensors on the CPU that nothing traces or maps."""

    @staticmethod
    def forward(ctx: Any, x: Any, whole: Any, part: Any, tau: Any) -> Any:
        given = x, whole, part, tau
        law = subset_law.on_numpy(*(v.numpy(force=True) for v in given))
        if law is None:  # a row is out of range
            ctx.blocks, found = None, subset_law.found(namespace(x), *given)
        else:
            values, ctx.blocks = law
            found = subset_law.Found(*map(torch.from_numpy, values))
        if not any(ctx.needs_input_grad) and not internals.in_dual_level():
            ctx.blocks = None
        ctx.mark_non_differentiable(*found[1:])
        ctx.set_materialize_grads(False)
        at = *given, *found[1:3]
        ctx.save_for_backward(*at)
        ctx.save_for_forward(*at)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, g: Any, *_: Any) -> tuple[Any, ...]:
        at, blocks = ctx.saved_tensors, ctx.blocks
        if g is None:
            return None, None, None, None
        if blocks is None or not is_last(g):
            return _subset_pull(at, g)
        found = subset_law.pull_on_numpy(
            blocks, *(v.numpy(force=True) for v in (at[0], at[3], *at[4:], g))
        )
        gx, gtau = map(torch.from_numpy, found)
        return gx, None, None, gtau if at[3].ndim else gtau.sum()

    jvp = EagerSubset.jvp


class Spend(Function):
    """From scores, a budget, costs and tau to p, a and t; a is a constant."""

    @staticmethod
    def forward(
        call: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        return costs_rule.solved(call, x, whole, part, c, tau)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, x, _, _, c, tau = inputs
        _, a, t = output
        ctx.mark_non_differentiable(a)
        ctx.save_for_backward(x, c, a, t, tau)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        gx, gk, gc, gtau = costs_rule.pull(ctx.call, ctx.saved_tensors, gp, gt)
        return None, gx, None, gk, gc, gtau

    @staticmethod
    def vmap(info: Any, places: Any, call: Any, *given: Any) -> tuple[Any, Any]:
        x, whole, part, c, tau = batched(info, places[1:], given)
        whole, part, tau = as_rows_of(x[..., 0], [whole, part, tau])
        kind = Spend if torch.compiler.is_compiling() else EagerSpend
        return kind.apply(call, x, whole, part, c, tau), (0, 0, 0)


class EagerSpend(Spend):
    """`Spend` with forward mode, and no zeros for outputs without a gradient."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Spend.setup_context(ctx, inputs, output)
        ctx.set_materialize_grads(False)
        ctx.save_for_forward(inputs[1], inputs[4], *output[1:], inputs[5])

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        none, gx, *rest = Spend.backward(ctx, gp, _, gt)
        return none, followed(gx, ctx.saved_tensors[0]), *rest

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, Any, Any]:
        at = ctx.saved_tensors
        moves = zip(
            (at[0], at[3], at[1], at[4]), (tangents[1], *tangents[3:]), strict=True
        )
        given = (torch.zeros_like(v) if dv is None else dv for v, dv in moves)
        dp, dt = costs_rule.push(ctx.call, at, *given)
        return dp, None, dt


def _exact(f: Any, *args: Any) -> Any:
    """f(*args) without autocast, which would use 16 bits for products of matrices."""
    with torch.autocast(args[-1].device.type, enabled=False):
        return f(*args)


class Balance(Function):
    """From scores, budgets and tau to the shares and the distances u."""

    @staticmethod
    def forward(call: Any, x: Any, k: Any, c: Any, tau: Any) -> tuple[Any, Any]:
        if call.look:
            given = (v.detach().cpu().numpy() for v in (x, k, c, tau))
            u = Arrays.numbers(balance_search.on_numpy(call, *given), x)
        else:
            u = _exact(balance_search.solved, call, x, k, c, tau)
        return balance_search.shares(call.curve, u), u

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.curve = inputs[0].curve
        ctx.save_for_backward(output[1], inputs[4])

    @staticmethod
    def backward(ctx: Any, gp: Any, gu: Any) -> tuple[Any, ...]:
        return None, *_exact(balance_search.pull, ctx.curve, gp, gu, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, places: Any, call: Any, *given: Any) -> tuple[Any, Any]:
        x, k, c, tau = batched(info, places[1:], given)
        (tau,) = as_rows_of(x[..., 0, 0], [tau])
        kind = Balance if torch.compiler.is_compiling() else EagerBalance
        return kind.apply(call, x, k, c, tau), (0, 0)


class EagerBalance(Balance):
    """Also in forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Balance.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output[1], inputs[4])

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, Any]:
        u, tau = ctx.saved_tensors
        likes = (u, u[..., 0], u[..., 0, :], tau)
        moves = [
            torch.zeros_like(v) if dv is None else dv
            for v, dv in zip(likes, tangents, strict=True)
        ]
        return _exact(balance_search.push, ctx.curve, *moves, u, tau)
