"""The adapter of PyTorch: its functions, its loop, and its rules of differentiation."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch.autograd import Function

from .. import curves as curves
from .._kernels import torch as kernels
from .._namespace import register
from .._solve.schemes import scheme_of
from . import balance as _balance
from . import costs as _costs
from . import selection, subset
from . import torch_internals as internals
from .contract import Adapter
from .rows import verify

_PASSES = 4
"""Passes between two looks at an accelerator, each of which waits for it."""

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors that are numbers in memory."""


def _whole(out: Any) -> Any:
    """The sums of a divided row, added once over the devices."""
    if _is_divided(out):
        return out.redistribute(placements=_everywhere(out))
    return out


def _is_divided(x: Any) -> bool:
    """Whether a tensor is a DTensor.

    Its module takes a second to import and is missing where PyTorch was built without
    torch.distributed, so that the type is known by its name.
    """
    return type(x) not in PLAIN and type(x).__name__ == "DTensor"


def _everywhere(like: Any) -> list[Any]:
    """The placement of a tensor of which every device has a copy."""
    from torch.distributed.tensor import Replicate

    return [Replicate()] * like.device_mesh.ndim


class _Linalg:
    """`solve` without a look at the matrix, which would wait for an accelerator."""

    @staticmethod
    def solve(A: Any, b: Any) -> Any:
        return torch.linalg.solve_ex(A, b)[0]


class _Torch:
    """What the operators ask of an array library."""

    words: ClassVar = {"axis": "dim", "axes": "dims"}

    abs, arccos, ceil, clip = torch.abs, torch.arccos, torch.ceil, torch.clip
    atan2, cos, exp = torch.atan2, torch.cos, torch.exp
    finfo, floor, hypot, isfinite = (
        torch.finfo,
        torch.floor,
        torch.hypot,
        torch.isfinite,
    )
    log, log1p, maximum, minimum = torch.log, torch.log1p, torch.maximum, torch.minimum
    ones_like, zeros_like, full_like = (
        torch.ones_like,
        torch.zeros_like,
        torch.full_like,
    )
    remainder, reshape, moveaxis = torch.remainder, torch.reshape, torch.movedim
    sigmoid, sin, sqrt, where = torch.sigmoid, torch.sin, torch.sqrt, torch.where
    matrix_transpose = staticmethod(lambda x: x.mT)
    bool_, broadcast_to = torch.bool, torch.broadcast_to
    broadcast_shapes, linalg = torch.broadcast_shapes, _Linalg

    @staticmethod
    def sum(x: Any, axis: int | None = -1) -> Any:
        return _whole(torch.sum(x, dim=axis))

    @staticmethod
    def expm1(x: Any) -> Any:
        if not torch.compiler.is_compiling():
            return torch.expm1(x)
        # Compiled it would be exp(x) - 1, without a digit near 0.
        near = x > -1
        half = 0.5 * torch.where(near, x, 0)
        return torch.where(
            near, 2 * torch.exp(half) * torch.sinh(half), torch.exp(x) - 1
        )

    @staticmethod
    def max(x: Any, axis: int | None = None) -> Any:
        return _whole(torch.amax(x, dim=() if axis is None else axis))

    @staticmethod
    def min(x: Any, axis: int | None = None) -> Any:
        return _whole(torch.amin(x, dim=() if axis is None else axis))

    @staticmethod
    def all(x: Any, axis: int | None = -1) -> Any:
        if _is_divided(x):  # of which torch.all gathers the entries, from 2.15 on
            return _Torch.sum(~x, axis) == 0
        return torch.all(x, dim=axis)

    @staticmethod
    def concat(parts: Any, axis: int) -> Any:
        return torch.cat(parts, dim=axis)

    @staticmethod
    def cumsum(x: Any) -> Any:
        return torch.cumsum(x, dim=-1)

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, dim=-1)

    @staticmethod
    def detach(x: Any) -> Any:
        return x.detach()

    @staticmethod
    def asarray(value: Any, like: Any = None) -> Any:
        if not isinstance(value, torch.Tensor):
            device = None if like is None else like.device
            value = torch.as_tensor(value, device=device)
        return value if like is None else _Torch.replicate(value, like)

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else x.to(dtype)

    @staticmethod
    def is_array(value: Any) -> Any:
        return isinstance(value, torch.Tensor)

    @staticmethod
    def to_numpy(x: Any) -> Any:
        """The values, for a message: bfloat16, which NumPy lacks, as float32."""
        x = _whole(x)
        x = x.full_tensor() if _is_divided(x) else x
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)

    @staticmethod
    def is_floating(x: Any) -> Any:
        return x.dtype.is_floating_point

    @staticmethod
    def is_real(x: Any) -> Any:
        return not (x.dtype.is_complex or x.dtype == torch.bool)

    @staticmethod
    def floating(x: Any, name: str) -> tuple[Any, Any]:
        """The scores in the type to calculate with, and the type of the results."""
        if torch.jit.is_tracing():
            raise NotImplementedError(
                "torch.jit.trace is not supported, because it keeps what depends on "
                "the scores as constants: use torch.export or torch.compile"
            )
        if x.dtype in (torch.float32, torch.float64):
            return x, x.dtype
        if x.dtype.is_complex:
            raise TypeError(
                f"{name} must hold real numbers of at most 64 bits, got dtype {x.dtype}"
            )
        if not x.dtype.is_floating_point:
            x = x.to(torch.get_default_dtype())
        return x.to(torch.promote_types(x.dtype, torch.float32)), x.dtype

    @staticmethod
    def replicate(value: Any, like: Any, name: str = "") -> Any:
        """A number a row as every device of a divided row needs it.

        A tensor of one number may come from the CPU, as in PyTorch's own operations.
        """
        if name and value.device != like.device:
            if value.ndim or value.device.type != "cpu":
                raise ValueError(
                    f"{name} must be on the device of the scores, {like.device}, or a "
                    f"number, got a tensor of shape {tuple(value.shape)} on "
                    f"{value.device}"
                )
            value = value.to(like.device)
        if _is_divided(like) and not _is_divided(value):
            from torch.distributed.tensor import DTensor

            return DTensor.from_local(value, like.device_mesh, _everywhere(like))
        return value

    @staticmethod
    def traced(values: Any, like: Any) -> Any:
        """A list of numbers as a tensor, under torch.compile."""
        given = isinstance(values, list | tuple | np.ndarray)
        if given and torch.compiler.is_compiling():
            return torch.as_tensor(values, dtype=torch.float64, device=like.device)
        return values

    @staticmethod
    def integers(values: Any, like: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return _Torch.replicate(values.to(torch.int64), like)
        if isinstance(values, int):
            given = torch.full((), values, dtype=torch.int64, device=like.device)
        else:
            given = torch.as_tensor(values, device=like.device)
        return _Torch.replicate(given, like)

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        if isinstance(values, float | int):
            given = torch.full((), values, dtype=like.dtype, device=like.device)
        else:
            given = torch.as_tensor(values).to(like.dtype).to(like.device)
        return _Torch.replicate(given, like)

    @staticmethod
    def arange(start: int, stop: int, like: Any) -> Any:
        values = torch.arange(start, stop, dtype=like.dtype, device=like.device)
        return _Torch.replicate(values, like)

    @staticmethod
    def eye(n: int, like: Any) -> Any:
        values = torch.eye(n, dtype=like.dtype, device=like.device)
        return _Torch.replicate(values, like)

    @staticmethod
    def places(n: int, like: Any) -> Any:
        return _Torch.replicate(torch.arange(n, device=like.device), like)

    @staticmethod
    def argmax(x: Any) -> Any:
        return torch.argmax(x, dim=-1)

    @staticmethod
    def largest(x: Any, k: int) -> Any:
        return torch.topk(x, k, dim=-1, sorted=True).values[..., -1]

    @staticmethod
    def ordered(x: Any, place: Any) -> Any:
        index = x.shape[-1] - place[..., None]
        return torch.take_along_dim(torch.sort(x, dim=-1).values, index, -1)[..., 0]

    @staticmethod
    def leading(x: Any, k: int) -> Any:
        # torch.topk promises no order among equal entries.
        return torch.sort(x, dim=-1, descending=True, stable=True).indices[..., :k]

    @staticmethod
    def take(x: Any, index: Any) -> Any:
        return torch.take_along_dim(x, index, -1)

    @staticmethod
    def accumulate(x: Any) -> Any:
        return torch.cumsum(x, dim=-1)

    @staticmethod
    def looks(x: Any, check: bool | None) -> Any:
        if torch.compiler.is_compiling() or internals.transformed():
            if check:
                raise ValueError(
                    "check must be None or False where values are traced or compiled: "
                    "they cannot be looked at, got True"
                )
            return False
        if internals.is_fake(x) or internals.recorded():
            if check:
                raise ValueError(
                    "check must be None or False for tensors without values, such as "
                    "those on the device meta, and where operations are recorded, "
                    "got True"
                )
            return False
        return x.device.type == "cpu" if check is None else check

    @staticmethod
    def loop(going: Any, step: Any, state: Any) -> Any:
        if torch.compiler.is_compiling():
            return _compiled_loop(going, step, state)
        if internals.recorded():
            raise NotImplementedError(
                "make_fx would record as many passes of a search as these scores need: "
                "use torch.export or torch.compile, which keep the loop"
            )
        if internals.is_fake(_leaf(state)):
            return step(*state)  # the shapes and types, which are all there is
        passes = 1 if _leaf(state).device.type == "cpu" else _PASSES
        while going(*state):
            for _ in range(passes):
                state = step(*state)
        return state

    @staticmethod
    def program(f: Any, *args: Any) -> Any:
        """f of this namespace and the arguments."""
        return f(_Torch, *args)

    @staticmethod
    def constant(f: Any, *args: Any) -> Any:
        """A search; vmap follows no loop that looks at values."""
        if internals.transformed() and not torch.compiler.is_compiling():
            return _Constant.apply(f, *args)
        return f(_Torch, *args)

    @staticmethod
    def select(
        curve: curves.Curve,
        x: Any,
        whole: Any,
        part: Any,
        tau: Any,
        check: Any,
        shares: bool = False,
    ) -> Any:
        if torch.compiler.is_compiling():
            kind = _SelectShares if shares else _Select
            return kind.apply(curve, x, whole, part, tau)
        numbers = not isinstance(tau, torch.Tensor)
        if _is_fused(curve, x):
            quick = False
        else:
            quick = numbers or (not tau.ndim and _Torch.is_quick(x, curve, check))
        if quick:
            if _is_recorded(x, part, tau):
                return _QuickSelect.apply(curve, x, whole, part, tau)
            return _on_numpy(curve, x, whole, part, tau)[0]
        _one_forward_mode()
        call = _Call(curve, _Torch.looks(x, check))
        return _EagerSelect.apply(call, x, whole, part, tau)

    @staticmethod
    def simplex(x: Any, curve: curves.Entmax, tau: float) -> Any:
        if _is_recorded(x):
            return _QuickSimplex.apply(x, curve, tau)
        return _simplex(x, curve, tau)  # without a Function in a fifth less time

    @staticmethod
    def spend(call: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any) -> Any:
        if torch.compiler.is_compiling():
            return _Spend.apply(call, x, whole, part, c, tau)
        _one_forward_mode()
        return _EagerSpend.apply(call, x, whole, part, c, tau)

    @staticmethod
    def stored(value: Any) -> Any:
        """What Inductor writes to memory, as it does for a view with given strides."""
        if not torch.compiler.is_compiling() or _is_divided(value):
            return value
        value = value.contiguous()
        return value.as_strided(value.shape, value.stride())

    @staticmethod
    def over_points(term: Any, entries: Any, numbers: Any) -> Any:
        """Point by point; a compiler stores no array of points and entries."""
        if torch.compiler.is_compiling():
            entries = [v[..., None, :] for v in entries]
            # With the points of a row far apart, the loop has vectors of entries.
            moved = (_Torch.stored(v.movedim(-1, 0)).movedim(0, -1) for v in numbers)
            terms = term(*entries, *(v[..., None] for v in moved))
            return tuple(v.sum(-2) for v in terms)
        first, *rest = zip(*(v.unbind(-1) for v in numbers), strict=True)
        total = term(*entries, *(v[..., None] for v in first))
        for column in rest:
            terms = term(*entries, *(v[..., None] for v in column))
            total = tuple(a + b for a, b in zip(total, terms, strict=True))
        return total

    @staticmethod
    def over_entries(term: Any, entries: Any, numbers: Any) -> Any:
        """The sums over the entries at each point; likewise without such an array."""
        if torch.compiler.is_compiling():
            entries = [v[..., None, :] for v in entries]
            terms = term(*entries, *(v[..., None] for v in numbers))
            return tuple(v.sum(-1) for v in terms)
        sums = [
            [_Torch.sum(v) for v in term(*entries, *(w[..., None] for w in column))]
            for column in zip(*(v.unbind(-1) for v in numbers), strict=True)
        ]
        return tuple(torch.stack(v, dim=-1) for v in zip(*sums, strict=True))

    @staticmethod
    def subset(x: Any, whole: Any, part: Any, tau: Any) -> Any:
        if torch.compiler.is_compiling():
            return _Subset.apply(x, whole, part, tau)
        if not tau.ndim and _Torch.is_quick(x, curves.SIGMOID, None):
            return _QuickSubset.apply(x, whole, part, tau)
        _one_forward_mode()
        return _EagerSubset.apply(x, whole, part, tau)

    @staticmethod
    def balance(call: Any, x: Any, k: Any, c: Any, tau: Any) -> Any:
        if _is_divided(x):
            raise NotImplementedError(
                "balanced_topk takes no DTensor: PyTorch solves no divided systems; "
                "gather the scores (full_tensor), or give each process its matrices"
            )
        if torch.compiler.is_compiling():
            return _Balance.apply(call, x, k, c, tau)[0]
        _one_forward_mode()
        return _EagerBalance.apply(call, x, k, c, tau)[0]

    @staticmethod
    def is_quick(x: Any, curve: curves.Curve, check: bool | None) -> bool:
        """Whether NumPy may have the values: `select` takes numbers for k and tau."""
        if not _Torch.looks(x, check) or type(x) not in PLAIN or not x.is_cpu:
            return False
        if internals.intercepted() or _is_fused(curve, x):
            return False
        return scheme_of(curve) is not None

    @staticmethod
    def how(x: Any, curve: curves.Curve, check: bool | None) -> dict[str, Any]:
        """How `as_rows` reads scores for `select`.

        A kernel takes their 16 bits as they are and, unless it calculates in float64,
        numbers for the budget and the temperature.
        """
        if not _is_fused(curve, x) or _Torch.looks(x, check):
            return {"numbers": _Torch.is_quick(x, curve, check)}
        if torch.compiler.is_compiling():
            return {"raw": True}
        if internals.transformed() or internals.in_dual_level():
            return {"numbers": False}
        return {"raw": True, "numbers": x.dtype != torch.float64}

    @staticmethod
    def wide(x: Any) -> Any:
        """A tensor of the type and on the device of a row's own numbers."""
        kind = kernels.working(x.dtype)
        return x if x.dtype == kind else x.new_empty((), dtype=kind)

    @staticmethod
    def attach(value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        kind = _Attach if torch.compiler.is_compiling() else _EagerAttach
        pairs = [by.get(name, (None, lambda: None)) for name in ("x", "k", "tau")]
        inputs, slopes = [v for v, _ in pairs], [slope() for _, slope in pairs]
        return kind.apply(value, *inputs, *slopes)


register(torch.Tensor, _Torch, first=True)


def _leaf(state: Any) -> Any:
    while isinstance(state, tuple):
        state = state[-1]
    return state


def _own(value: Any) -> Any:
    """A copy whose strides follow from its shape: those of a loop may not change."""
    return value.clone(memory_format=torch.contiguous_format)


def _compiled_loop(going: Any, step: Any, state: Any) -> Any:
    """The loop as one node of the graph: flat, and no two numbers in one memory."""
    start, form = internals.flatten(state)
    start = [_own(v) if isinstance(v, torch.Tensor) else torch.tensor(v) for v in start]

    def body(*flat: Any) -> tuple[Any, ...]:
        out, _ = internals.flatten(step(*internals.unflatten(flat, form)))
        return tuple(map(_own, out))

    return internals.unflatten(
        internals.while_loop(
            lambda *flat: going(*internals.unflatten(flat, form)), body, start
        ),
        form,
    )


def _one_forward_mode() -> None:
    """Forward mode inside forward mode through a Function is silently wrong."""
    if internals.forward_modes() > 1:
        raise NotImplementedError(
            "forward mode inside forward mode is not supported by PyTorch's custom "
            "functions: use reverse mode inside (torch.func.hessian does)"
        )


class _Constant(Function):
    """A number a row that has no derivative."""

    @staticmethod
    def forward(f: Any, *args: Any) -> Any:
        return f(_Torch, *args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        return (None,) * len(ctx.needs_input_grad)

    @staticmethod
    def vmap(info: Any, places: Any, f: Any, *given: Any) -> tuple[Any, Any]:
        return _Constant.apply(f, *_batched(info, places[1:], given)), 0


def _is_fused(curve: Any, x: Any) -> bool:
    """Whether a kernel selects from x: plain tensors, whose values are in memory."""
    if type(x) not in PLAIN or not kernels.takes(curve, x):
        return False
    return torch.compiler.is_compiling() or not (
        internals.is_fake(x) or internals.recorded()
    )


def _selected(curve: Any, x: Any, whole: Any, part: Any, tau: Any, plain: bool) -> Any:
    """Shares, anchors and offsets, in one kernel where it takes the rows."""
    if not _is_fused(curve, x):
        return selection.selected(curve, x, whole, part, tau, plain)
    if isinstance(tau, torch.Tensor):
        given = whole, part, tau, 0.0, 1.0
    else:
        given = None, None, None, whole + part, tau
    return kernels.select(x, *given, *kernels.named(curve))


def _pull(curve: Any, at: Any, plain: bool, gp: Any, gt: Any) -> Any:
    """The gradients, in one kernel where they are numbers and t has none.

    A derivative of theirs, and one by the threshold, follow from the rules in
    `selection.pull`.
    """
    x, a, t, tau = at
    last = torch.compiler.is_compiling() or _is_last(gp)
    if gt is None and gp is not None and last and _is_fused(curve, x):
        how = (tau, 1.0) if isinstance(tau, torch.Tensor) else (None, tau)
        gx, gk, gtau = kernels.pull(x, gp, a, t, *how, *kernels.named(curve))
        if how[0] is None:
            return gx, None, None
        return gx, gk, gtau if tau.ndim else gtau.sum()
    numbers, dtype = not isinstance(tau, torch.Tensor), x.dtype
    x, gp = (v if v is None else v.to(a.dtype) for v in (x, gp))
    gx, gk, gtau = selection.pull(curve, (x, a, t, _column(tau, a)), plain, gp, gt)
    gx = gx if gx is None else gx.to(dtype)
    return (gx, None, None) if numbers else (gx, gk, gtau)


def _column(tau: Any, like: Any) -> Any:
    """A temperature as a tensor."""
    return tau if isinstance(tau, torch.Tensor) else _Torch.numbers(tau, like)


def _saved(ctx: Any) -> Any:
    """x, a, t and tau, which may be a number."""
    saved = ctx.saved_tensors
    return saved if len(saved) == 4 else (*saved, ctx.tau)


class _Select(Function):
    """x, k, tau to p, a and t; a is a constant."""

    @staticmethod
    def forward(
        curve: Any, x: Any, whole: Any, part: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        return _selected(curve, x, whole, part, tau, False)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.curve, x, _, _, tau = inputs
        ctx.plain = False
        _, a, t = output
        ctx.mark_non_differentiable(a)
        if isinstance(tau, torch.Tensor):
            ctx.save_for_backward(x, a, t, tau)
        else:
            ctx.tau = tau
            ctx.save_for_backward(x, a, t)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        gx, gk, gtau = _pull(ctx.curve, _saved(ctx), ctx.plain, gp, gt)
        return None, gx, None, gk, gtau

    @staticmethod
    def vmap(info: Any, places: Any, curve: Any, *given: Any) -> tuple[Any, Any]:
        x, *rest = _batched(info, places[1:], given)
        kind = _EagerSelect if isinstance(curve, _Call) else _Select
        return kind.apply(curve, x, *_as_rows_of(x[..., 0], rest)), (0, 0, 0)


class _SelectShares(_Select):
    """Where p alone is used; a compiled backward is not told that t has no gradient."""

    @staticmethod
    def backward(ctx: Any, gp: Any, *_: Any) -> tuple[Any, ...]:
        x, *rest = _saved(ctx)
        if not _is_fused(ctx.curve, x):
            # What does not depend on gp may be stored from the forward pass instead:
            # masks, at ten times the time of reading x again.
            x = torch.where(gp == gp, x, x)
        gx, gk, gtau = _pull(ctx.curve, (x, *rest), ctx.plain, gp, None)
        return None, gx, None, gk, gtau


class _Call:
    """A curve, whether to look at values, and whether a look found no special row."""

    def __init__(self, curve: Any, look: bool) -> None:
        self.curve, self.look, self.plain = curve, look, False


class _EagerSelect(_Select):
    """With a look at the values, and forward mode; torch.compile traces neither."""

    @staticmethod
    def forward(
        call: Any, x: Any, whole: Any, part: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        if call.look:
            k = selection.budget(x, whole, part)
            call.plain = verify(ADAPTER, x, k, tau)
        return _selected(call.curve, x, whole, part, tau, call.plain)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        call, *rest = inputs
        _Select.setup_context(ctx, (call.curve, *rest), output)
        ctx.plain = call.plain
        ctx.set_materialize_grads(False)
        tau = (rest[3],) if isinstance(rest[3], torch.Tensor) else ()
        ctx.save_for_forward(rest[0], *output[1:], *tau)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        at = _saved(ctx)  # once: a checkpoint calculates them again for each look
        gx, gk, gtau = _pull(ctx.curve, at, ctx.plain, gp, gt)
        return None, _followed(gx, at[0]), None, gk, gtau

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, Any, Any]:
        x, a, t, tau = _saved(ctx)
        dtype, x = x.dtype, x.to(a.dtype)
        at = x, a, t, _column(tau, a)
        moves = zip((x, t, at[3]), (tangents[1], *tangents[3:]), strict=True)
        given = (torch.zeros_like(v) if dv is None else dv for v, dv in moves)
        dp, dt = selection.push(ctx.curve, at, ctx.plain, *given)
        return dp.to(dtype), None, dt


class _QuickSelect(Function):
    """Tensors on the CPU that nothing traces or maps, by what is quick on NumPy.

    It has no `setup_context`: binding its arguments takes as long as a search.
    """

    @staticmethod
    def forward(
        ctx: Any, curve: Any, x: Any, whole: Any, part: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        (p, a, t), ctx.plain = _on_numpy(curve, x, whole, part, tau)
        ctx.curve = curve
        ctx.mark_non_differentiable(a)
        ctx.set_materialize_grads(False)
        at = x, a, t, _Torch.numbers(tau, x)
        ctx.save_for_backward(*at)
        ctx.save_for_forward(*at)
        return p, a, t

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        at, (_, by_x, _, by_k, by_tau) = ctx.saved_tensors, ctx.needs_input_grad
        found = None
        if _is_last(gp, gt):
            values = [v if v is None else v.numpy(force=True) for v in (*at, gp, gt)]
            found = selection.pull_on_numpy(ctx.curve, by_tau, *values)
        if found is None:
            found = selection.pull(ctx.curve, at, ctx.plain, gp, gt)
        asked = zip(found, (by_x, by_k, by_tau), strict=True)
        gx, gk, gtau = (_tensor(v) if by else None for v, by in asked)
        return None, _followed(gx, at[0]), None, gk, gtau

    jvp = _EagerSelect.jvp


class _Subset(Function):
    """x, k, tau to the law of random subsets: p, and constants."""

    @staticmethod
    def forward(x: Any, whole: Any, part: Any, tau: Any) -> tuple[Any, ...]:
        return tuple(subset.found(ADAPTER, x, whole, part, tau))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:3])

    @staticmethod
    def backward(ctx: Any, g: Any, *_: Any) -> tuple[Any, ...]:
        return _subset_pull(ctx.saved_tensors, g)

    @staticmethod
    def vmap(info: Any, places: Any, *given: Any) -> tuple[Any, Any]:
        x, *rest = _batched(info, places, given)
        kind = _Subset if torch.compiler.is_compiling() else _EagerSubset
        return kind.apply(x, *_as_rows_of(x[..., 0], rest)), (0, 0, 0, 0)


def _subset_pull(at: Any, g: Any) -> tuple[Any, ...]:
    """The gradients of `_Subset`, which may be differentiated again."""
    x, whole, part, tau, *shift = at
    tilt = subset.tilted(ADAPTER, x, whole, part, tau, shift)
    gx, gtau = subset.pull(ADAPTER, tilt, subset.circled(ADAPTER, tilt), g)
    return gx, None, None, gtau if tau.ndim else gtau.sum()


class _EagerSubset(_Subset):
    """Also in forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _Subset.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs, *output[1:3])

    @staticmethod
    def jvp(ctx: Any, *moves: Any) -> Any:
        x, whole, part, tau, *shift = ctx.saved_tensors
        tilt = subset.tilted(ADAPTER, x, whole, part, tau, shift)
        dx, dtau = (
            torch.zeros_like(v) if move is None else move
            for v, move in ((x, moves[0]), (tau, moves[3]))
        )
        change = subset.scaled(ADAPTER, tilt, dx, dtau)
        circle = subset.circled(ADAPTER, tilt)
        return subset.product(ADAPTER, tilt, circle, change), None, None, None


class _QuickSubset(Function):
    """Tensors on the CPU that nothing traces or maps, block by block on NumPy."""

    @staticmethod
    def forward(ctx: Any, x: Any, whole: Any, part: Any, tau: Any) -> Any:
        given = x, whole, part, tau
        law = subset.on_numpy(*(v.numpy(force=True) for v in given))
        if law is None:  # a row is out of range
            ctx.blocks, found = None, subset.found(ADAPTER, *given)
        else:
            values, ctx.blocks = law
            found = subset.Found(*map(torch.from_numpy, values))
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
        if blocks is None or not _is_last(g):
            return _subset_pull(at, g)
        found = subset.pull_on_numpy(
            blocks, *(v.numpy(force=True) for v in (at[0], at[3], *at[4:], g))
        )
        gx, gtau = map(torch.from_numpy, found)
        return gx, None, None, gtau if at[3].ndim else gtau.sum()

    jvp = _EagerSubset.jvp


class _QuickSimplex(Function):
    """Entmax of the same tensors; its derivative needs the shares alone."""

    @staticmethod
    def forward(ctx: Any, x: Any, curve: curves.Entmax, tau: float) -> Any:
        p = _simplex(x, curve, tau)
        ctx.power = curve.b, tau
        ctx.save_for_backward(p)
        ctx.save_for_forward(p)
        return p

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        (p,) = ctx.saved_tensors
        return selection.simplex_pull(ctx.power, p, g, _is_last(g)), None, None

    @staticmethod
    def jvp(ctx: Any, dx: Any, *_: Any) -> Any:
        (p,) = ctx.saved_tensors
        return selection.simplex_pull(ctx.power, p, dx, False)


def _simplex(x: Any, curve: curves.Entmax, tau: float) -> Any:
    return torch.from_numpy(selection.simplex_on_numpy(x.numpy(force=True), curve, tau))


def _on_numpy(
    curve: curves.Curve, x: Any, whole: Any, part: Any, tau: Any
) -> tuple[Any, bool]:
    whole, part = (
        v.numpy(force=True) if isinstance(v, torch.Tensor) else v for v in (whole, part)
    )
    rows = x.numpy(force=True)
    found, plain = selection.on_numpy(curve, rows, whole, part, float(tau))
    return tuple(map(torch.from_numpy, found)), plain


def _is_recorded(*inputs: Any) -> bool:
    """Whether a result of these may have a derivative."""
    if internals.in_dual_level():
        return True
    return torch.is_grad_enabled() and any(
        isinstance(v, torch.Tensor) and v.requires_grad for v in inputs
    )


def _followed(gx: Any, x: Any) -> Any:
    """A gradient by x with one of its own: 0, not none, where slopes are constant."""
    recorded = x.requires_grad and torch.is_grad_enabled()
    if gx is None or gx.requires_grad or not recorded:
        return gx
    return gx + 0 * torch.where(torch.isfinite(x), x, 0)


def _tensor(value: Any) -> Any:
    """An array or a number of NumPy as a tensor."""
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.asarray(value))
    return value


def _is_last(*grads: Any) -> bool:
    """Whether a gradient is numbers alone: nothing records, traces or maps it."""
    given = [g for g in grads if g is not None]
    batched = internals.is_batch_of_gradients
    return bool(given) and not (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or internals.in_dual_level()
        or internals.transformed()
        or any(type(g) is not torch.Tensor or batched(g) for g in given)
    )


def _batched(info: Any, places: Any, given: Any) -> list[Any]:
    """Arguments of a vectorised function with the batch first."""
    return [
        v
        if v is None
        else v.expand(info.batch_size, *v.shape)
        if place is None
        else v.movedim(place, 0)
        for v, place in zip(given, places, strict=True)
    ]


def _as_rows_of(like: Any, given: list[Any]) -> list[Any]:
    """Numbers of a batch as numbers a row."""
    return [
        v.reshape(v.shape + (1,) * (like.ndim - v.ndim)).expand(like.shape)
        for v in given
    ]


class _Attach(Function):
    """A number a row, with its derivatives by x, k and tau as given."""

    @staticmethod
    def forward(value: Any, *_: Any) -> Any:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[4:])
        ctx.single = inputs[3] is not None and inputs[3].ndim == 0

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        sx, sk, stau = ctx.saved_tensors
        gtau = None if stau is None else g * stau
        return (
            None,
            None if sx is None else g[..., None] * sx,
            None if sk is None else g * sk,
            gtau.sum() if gtau is not None and ctx.single else gtau,
            None,
            None,
            None,
        )

    @staticmethod
    def vmap(info: Any, places: Any, *given: Any) -> tuple[Any, Any]:
        batched = _batched(info, places, given)
        if batched[3] is not None:
            batched[3] = _as_rows_of(batched[0], [batched[3]])[0]
        kind = _Attach if torch.compiler.is_compiling() else _EagerAttach
        return kind.apply(*batched), 0


class _EagerAttach(_Attach):
    """Also in forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _Attach.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output, *inputs[4:])

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple[Any, ...]:
        found = _Attach.backward(ctx, g)
        if not _is_divided(g):
            return found
        # Without a gradient DTensor's own functions would be given plain zeros.
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


class _Spend(Function):
    """Scores, a budget, costs and tau to p, a and t; a is a constant."""

    @staticmethod
    def forward(
        call: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        return _costs.solved(call, x, whole, part, c, tau)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, x, _, _, c, tau = inputs
        _, a, t = output
        ctx.mark_non_differentiable(a)
        ctx.save_for_backward(x, c, a, t, tau)

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        gx, gk, gc, gtau = _costs.pull(ctx.call, ctx.saved_tensors, gp, gt)
        return None, gx, None, gk, gc, gtau

    @staticmethod
    def vmap(info: Any, places: Any, call: Any, *given: Any) -> tuple[Any, Any]:
        x, whole, part, c, tau = _batched(info, places[1:], given)
        whole, part, tau = _as_rows_of(x[..., 0], [whole, part, tau])
        kind = _Spend if torch.compiler.is_compiling() else _EagerSpend
        return kind.apply(call, x, whole, part, c, tau), (0, 0, 0)


class _EagerSpend(_Spend):
    """Also in forward mode, and without gradients that nobody asked for."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _Spend.setup_context(ctx, inputs, output)
        ctx.set_materialize_grads(False)
        ctx.save_for_forward(inputs[1], inputs[4], *output[1:], inputs[5])

    @staticmethod
    def backward(ctx: Any, gp: Any, _: Any, gt: Any) -> tuple[Any, ...]:
        none, gx, *rest = _Spend.backward(ctx, gp, _, gt)
        return none, _followed(gx, ctx.saved_tensors[0]), *rest

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, Any, Any]:
        at = ctx.saved_tensors
        moves = zip(
            (at[0], at[3], at[1], at[4]), (tangents[1], *tangents[3:]), strict=True
        )
        given = (torch.zeros_like(v) if dv is None else dv for v, dv in moves)
        dp, dt = _costs.push(ctx.call, at, *given)
        return dp, None, dt


def _exact(f: Any, *args: Any) -> Any:
    """Without autocast, which would take 16 bits for products of matrices."""
    with torch.autocast(args[-1].device.type, enabled=False):
        return f(*args)


class _Balance(Function):
    """Scores, budgets and tau to shares and distances."""

    @staticmethod
    def forward(call: Any, x: Any, k: Any, c: Any, tau: Any) -> tuple[Any, Any]:
        if call.look:
            given = (v.detach().cpu().numpy() for v in (x, k, c, tau))
            u = _Torch.numbers(_balance.on_numpy(call, *given), x)
        else:
            u = _exact(_balance.solved, call, x, k, c, tau)
        return _balance.shares(call.curve, u), u

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.curve = inputs[0].curve
        ctx.save_for_backward(output[1], inputs[4])

    @staticmethod
    def backward(ctx: Any, gp: Any, gu: Any) -> tuple[Any, ...]:
        return None, *_exact(_balance.pull, ctx.curve, gp, gu, *ctx.saved_tensors)

    @staticmethod
    def vmap(info: Any, places: Any, call: Any, *given: Any) -> tuple[Any, Any]:
        x, k, c, tau = _batched(info, places[1:], given)
        (tau,) = _as_rows_of(x[..., 0, 0], [tau])
        kind = _Balance if torch.compiler.is_compiling() else _EagerBalance
        return kind.apply(call, x, k, c, tau), (0, 0)


class _EagerBalance(_Balance):
    """Also in forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _Balance.setup_context(ctx, inputs, output)
        ctx.save_for_forward(output[1], inputs[4])

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, Any]:
        u, tau = ctx.saved_tensors
        likes = (u, u[..., 0], u[..., 0, :], tau)
        moves = [
            torch.zeros_like(v) if dv is None else dv
            for v, dv in zip(likes, tangents, strict=True)
        ]
        return _exact(_balance.push, ctx.curve, *moves, u, tau)


ADAPTER = cast(Adapter, _Torch)  # a class, whose members the tests compare
