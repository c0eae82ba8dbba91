"""Autograd functions of budgets of rows and columns."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from .._rules import balance_rule
from .._search import balance_search, numpy_for_libraries
from .torch_autograd import as_rows_of, batched, tangents_of
from .torch_functions import Arrays


def _exact(f: Any, *args: Any) -> Any:
    """f(*args) without autocast, which would use 16 bits for products of matrices."""
    with torch.autocast(args[-1].device.type, enabled=False):
        return f(*args)


class Balance(Function):
    """From scores, budgets and tau to the shares and the distances u."""

    @staticmethod
    def forward(options: Any, x: Any, k: Any, c: Any, tau: Any) -> tuple[Any, Any]:
        if options.look:
            given = (v.detach().cpu().numpy() for v in (x, k, c, tau))
            u = numpy_for_libraries.balanced_by_numpy(options, *given)
            u = Arrays.numbers(u, x)
        else:
            u = _exact(balance_search.balanced, options, x, k, c, tau)
        return balance_search.balanced_shares(options.curve, u), u

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.curve = inputs[0].curve
        ctx.save_for_backward(output[1], inputs[4])

    @staticmethod
    def backward(ctx: Any, gp: Any, gu: Any) -> tuple[Any, ...]:
        given = ctx.curve, gp, gu, *ctx.saved_tensors
        return None, *_exact(balance_rule.pull_balance, *given)

    @staticmethod
    def vmap(info: Any, in_dims: Any, options: Any, *given: Any) -> tuple[Any, Any]:
        x, k, c, tau = batched(info, in_dims[1:], given)
        (tau,) = as_rows_of(x[..., 0, 0], [tau])
        kind = Balance if torch.compiler.is_compiling() else EagerBalance
        return kind.apply(options, x, k, c, tau), (0, 0)


class EagerBalance(Balance):
    """`Balance` with forward mode, for calls that torch.compile does not trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Balance.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output[1], inputs[4])

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, Any]:
        u, tau = ctx.saved_tensors
        likes = (u, u[..., 0], u[..., 0, :], tau)
        moves = tangents_of(likes, tangents)
        return _exact(balance_rule.push_balance, ctx.curve, *moves, u, tau)
