"""Sorts and ranks of tensors on the CPU by NumPy, in double precision, and autograd.

`Torch.arrange` in `torch_adapter` comes here only if the values may be looked at.  For
a call that is compiled, mapped or in forward mode it has its own rules instead.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.autograd import Function

from .. import curves as curves
from .._contract import Adapter
from .._rows.numpy_rows import quiet
from .._rules.sorting_rule import SortedRows
from .numpy_functions import ADAPTER
from .torch_autograd import is_last, is_recorded
from .torch_functions import Arrays


def arrange(what: str, curve: curves.Curve, x: Any, tau: Any) -> Any:
    """The sort or the ranks of rows whose values have been checked."""
    if is_recorded(x, tau):
        return Arrange.apply(what, curve, x, tau)
    return _tensor(_of(_sorted_on_numpy(curve, x, tau), what), x)


def _of(rows: SortedRows, what: str, *given: Any) -> Any:
    """A member of sorted rows, without NumPy's warnings."""
    with quiet():
        return getattr(rows, what)(*given)


def _sorted_on_numpy(curve: curves.Curve, x: Any, tau: Any) -> SortedRows:
    """Rows (R, n) of NumPy."""
    tau = tau.numpy(force=True).astype(float)
    tau = tau.reshape(-1) if tau.ndim else tau
    with quiet():
        return SortedRows(ADAPTER, curve, _flat_rows(x), tau)


def _flat_rows(x: Any) -> Any:
    rows = x.numpy(force=True).astype(float)
    return rows.reshape(-1, rows.shape[-1])


def _tensor(rows: Any, like: Any) -> Any:
    return torch.from_numpy(rows).to(like.dtype).reshape(like.shape)


class Arrange(Function):
    """The sort or the ranks.

    NumPy computes a gradient that is not differentiated again, PyTorch any other.
    """

    @staticmethod
    def forward(ctx: Any, what: str, curve: curves.Curve, x: Any, tau: Any) -> Any:
        ctx.what, ctx.curve, ctx.rows = what, curve, _sorted_on_numpy(curve, x, tau)
        ctx.save_for_backward(x, tau)
        return _tensor(_of(ctx.rows, what), x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        (x, tau), needs = ctx.saved_tensors, ctx.needs_input_grad[2:]
        if is_last(g):
            return None, None, *_by_numpy(ctx, g, x, tau)
        at = SortedRows(cast(Adapter, Arrays), ctx.curve, x.detach(), tau.detach())
        with torch.enable_grad():
            moved = getattr(at, f"moved_{ctx.what}")(x, tau)
            asked = [v for v, need in zip((x, tau), needs, strict=True) if need]
            found = iter(torch.autograd.grad(moved, asked, g, create_graph=True))
        return None, None, *(next(found) if need else None for need in needs)


def _by_numpy(ctx: Any, g: Any, x: Any, tau: Any) -> Any:
    rows, g = ctx.rows, _flat_rows(g)
    by_x, by_tau = ctx.needs_input_grad[2:]
    gx = gtau = None
    if by_x:
        pull = "by_places" if ctx.what == "sort" else "by_ranks"
        gx = _tensor(_of(rows, pull, g), x)
    if by_tau:
        total = (g * _of(rows, f"{ctx.what}_by_tau")).sum(axis=-1)
        total = total.reshape(tau.shape) if tau.ndim else total.sum()
        gtau = torch.as_tensor(total, dtype=tau.dtype)
    return gx, gtau
