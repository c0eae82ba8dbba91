"""Autograd functions of a budget with costs."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from .._rules import costs_rule
from .._search import costs_search
from .torch_autograd import as_rows_of, batched, followed, tangents_of


class Spend(Function):
    """From scores, a budget, costs and tau to p, a and t; a is a constant."""

    @staticmethod
    def forward(
        options: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        return costs_search.spent(options, x, whole, part, c, tau)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.options, x, _, _, c, tau = inputs
        _, a, t = output
        ctx.mark_non_differentiable(a)
        ctx.save_for_backward(x, c, a, t, tau)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        gx, gk, gc, gtau = costs_rule.pull_costs(ctx.options, ctx.saved_tensors, gp, gt)
        return None, gx, None, gk, gc, gtau

    @staticmethod
    def vmap(info: Any, in_dims: Any, options: Any, *given: Any) -> tuple[Any, Any]:
        x, whole, part, c, tau = batched(info, in_dims[1:], given)
        whole, part, tau = as_rows_of(x[..., 0], [whole, part, tau])
        kind = Spend if torch.compiler.is_compiling() else EagerSpend
        return kind.apply(options, x, whole, part, c, tau), (0, 0, 0)


class EagerSpend(Spend):
    """`Spend` with forward mode, for calls that torch.compile does not trace.

    It makes no zeros for outputs without a gradient.
    """

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
        point = ctx.saved_tensors
        values = point[0], point[3], point[1], point[4]
        given = tangents_of(values, (tangents[1], *tangents[3:]))
        dp, dt = costs_rule.push_costs(ctx.options, point, *given)
        return dp, None, dt
