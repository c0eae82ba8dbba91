"""Autograd functions of random subsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd import Function

from .._rows.namespace import namespace
from .._rows.numpy_rows import quiet
from .._rules import subset_rule
from .._search import numpy_for_libraries, polynomials, subset_law
from . import numpy_functions
from . import torch_internals as internals
from .torch_autograd import as_rows_of, batched, is_last, tangents_of


class Subset(Function):
    """From x, k and tau to the fields of `subset_law.SubsetLaw`: p, and constants."""

    @staticmethod
    def forward(x: Any, whole: Any, part: Any, tau: Any) -> tuple[Any, ...]:
        return tuple(subset_law.solved_law(namespace(x), x, whole, part, tau))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:3])

    @staticmethod
    def backward(ctx: Any, g: Any, *_: Any) -> tuple[Any, ...]:
        return _subset_pull(ctx.saved_tensors, g)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *given: Any) -> tuple[Any, Any]:
        x, *rest = batched(info, in_dims, given)
        kind = Subset if torch.compiler.is_compiling() else EagerSubset
        return kind.apply(x, *as_rows_of(x[..., 0], rest)), (0, 0, 0, 0)


def _subset_pull(at: Any, g: Any) -> tuple[Any, ...]:
    """The gradients of `Subset`, which may be differentiated again."""
    x, whole, part, tau, *shift = at
    tilt = subset_law.tilted(namespace(x), x, whole, part, tau, shift)
    gx, gtau = subset_rule.pull_subset(namespace(x), tilt, g)
    return gx, None, None, gtau if tau.ndim else gtau.sum()


class EagerSubset(Subset):
    """`Subset` with forward mode, for calls that torch.compile does not trace."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Subset.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs, *output[1:3])

    @staticmethod
    def jvp(ctx: Any, *moves: Any) -> Any:
        x, whole, part, tau, *shift = ctx.saved_tensors
        tilt = subset_law.tilted(namespace(x), x, whole, part, tau, shift)
        dx, dtau = tangents_of((x, tau), moves[::3])
        change = subset_rule.push_subset(namespace(x), tilt, dx, dtau)
        return change, None, None, None


class QuickSubset(Function):
    """`Subset` by NumPy, for tensors on the CPU that nothing traces or maps."""

    @staticmethod
    def forward(ctx: Any, x: Any, whole: Any, part: Any, tau: Any) -> Any:
        given = x, whole, part, tau
        values = (v.numpy(force=True) for v in given)
        by_numpy = numpy_for_libraries.marginals_by_numpy(*values)
        if by_numpy is None:  # a row is out of range
            ctx.blocks, law = None, subset_law.solved_law(namespace(x), *given)
        else:
            fields, ctx.blocks = by_numpy
            law = subset_law.SubsetLaw(*map(torch.from_numpy, fields))
        if not any(ctx.needs_input_grad) and not internals.in_dual_level():
            ctx.blocks = None
        ctx.mark_non_differentiable(*law[1:])
        ctx.set_materialize_grads(False)
        at = *given, *law[1:3]
        ctx.save_for_backward(*at)
        ctx.save_for_forward(*at)
        return tuple(law)

    @staticmethod
    def backward(ctx: Any, g: Any, *_: Any) -> tuple[Any, ...]:
        at, blocks = ctx.saved_tensors, ctx.blocks
        if g is None:
            return None, None, None, None
        if blocks is None or not is_last(g):
            return _subset_pull(at, g)
        values = (v.numpy(force=True) for v in (at[0], at[3], *at[4:], g))
        found = subset_rule.pull_subset_on_numpy(blocks, *values)
        gx, gtau = map(torch.from_numpy, found)
        return gx, None, None, gtau if at[3].ndim else gtau.sum()

    jvp = EagerSubset.jvp


class QuickQuotient(Function):
    """`polynomials` by NumPy, for tensors on the CPU that nothing traces or maps.

    From x, own and tau to `log`, `some` and the slopes, which are None where nothing is
    recorded.
    """

    @staticmethod
    def forward(ctx: Any, k: int, *given: Any) -> Any:
        ctx.k, xp = k, numpy_functions.ADAPTER
        x, own, tau = (v.numpy(force=True) for v in given)
        with quiet():
            at = polynomials.solved_quotient(xp, k, x, own, tau)
            slopes = None
            if any(ctx.needs_input_grad):
                slopes = torch.from_numpy(polynomials.quotient_slopes(xp, k, x, at))
        # Of a single row they are numbers of NumPy.
        log, some = (torch.from_numpy(np.asarray(v)) for v in (at.log, at.some))
        ctx.mark_non_differentiable(some)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*given)
        return log, some, slopes

    @staticmethod
    def backward(ctx: Any, by_log: Any, _: Any, by_slopes: Any) -> tuple[Any, ...]:
        given = ctx.saved_tensors
        if by_log is None and by_slopes is None:
            return None, None, None, None
        # Only derivatives of second and higher order come here: `losses` attaches the
        # first derivative to its result.
        followed = torch.is_grad_enabled()
        with torch.enable_grad():
            if not followed:
                given = [v.detach().requires_grad_() for v in given]
            asked = [v for v in given if v.requires_grad]
            xp = namespace(given[0])
            at = polynomials.solved_quotient(xp, ctx.k, *given)
            found = polynomials.quotient_slopes(xp, ctx.k, given[0], at)
            pairs = [(at.log, by_log), (found, by_slopes)]
            values, grads = zip(*(p for p in pairs if p[1] is not None), strict=True)
            more = {"create_graph": followed, "allow_unused": True}
            each = iter(torch.autograd.grad(values, asked, grads, **more))
        return None, *(next(each) if v.requires_grad else None for v in given)
