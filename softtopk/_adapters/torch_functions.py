"""PyTorch's functions as the contract names them, for plain tensors and DTensors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from .._rows.namespace import hypot, leaf
from .._rows.numpy_rows import not_real
from . import torch_internals as internals
from .base_adapter import Base, unseen

_PASSES = 4
"""Passes between two tests for the end; on an accelerator each test synchronises."""

SINGLE = {"mps"}
"""Devices without float64."""

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The types of a *plain* tensor: it is of no subclass with rules of its own."""


def _whole(out: Any) -> Any:
    """The result of a reduction; that of a DTensor is added up over the devices now.

    So is its gradient: PyTorch 2.10 would take the part of one device for the whole.
    """
    if is_divided(out):
        out = out.redistribute(placements=_everywhere(out))
        if out.requires_grad:
            out.register_hook(_whole)
    return out


def is_divided(x: Any) -> bool:
    """Whether a tensor is a DTensor.

    The type is compared by its name, because its module takes a second to import and
    does not exist where PyTorch was built without torch.distributed.
    """
    return type(x) not in PLAIN and type(x).__name__ == "DTensor"


def _everywhere(like: Any) -> list[Any]:
    """The placements of a tensor that is replicated on every device."""
    from torch.distributed.tensor import Replicate

    return [Replicate()] * like.device_mesh.ndim


def holds_tensors(value: Any) -> bool:
    """Whether a list, or a list in it, has an element that is a tensor of floats."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_tensors, value))
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _widest(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The type, or the widest one that the device has."""
    lacks = device.type in SINGLE and dtype == torch.float64
    return torch.float32 if lacks else dtype


def _on_device(value: Any, device: torch.device) -> Any:
    """A tensor of one number that is on the CPU, on the device.

    By a fill where its derivative is not asked for: a copy would make the host wait for
    the device, which no CUDA graph can hold.
    """
    dtype = _widest(value.dtype, device)
    followed = value.requires_grad or internals.in_dual_level()
    traced = torch.compiler.is_compiling() or internals.transformed()
    unread = internals.is_fake(value) or internals.recorded()
    if followed or traced or unread or type(value) not in PLAIN:
        return value.to(dtype).to(device)
    return torch.full((), value.item(), dtype=dtype, device=device)


def _number(values: Any) -> Any:
    """A number for NumPy's array of one, which would be copied, and not filled in."""
    single = isinstance(values, (np.ndarray, np.generic)) and not values.ndim
    return values.item() if single else values


class _Linalg:
    """`solve` without a test for singular matrices, which would synchronise."""

    @staticmethod
    def solve(A: Any, b: Any) -> Any:
        return torch.linalg.solve_ex(A, b)[0]


class Arrays(Base):
    """The functions of arrays that the contract asks for."""

    words: ClassVar = {"axis": "dim", "axes": "dims"}
    promotes = True

    abs, arccos, ceil, clip = torch.abs, torch.arccos, torch.ceil, torch.clip
    atan2, cos, exp = torch.atan2, torch.cos, torch.exp
    finfo, floor, isfinite = torch.finfo, torch.floor, torch.isfinite
    log, log1p, maximum, minimum = torch.log, torch.log1p, torch.maximum, torch.minimum
    ones_like, zeros_like = torch.ones_like, torch.zeros_like
    full_like, remainder = torch.full_like, torch.remainder
    reshape, moveaxis = torch.reshape, torch.movedim
    sigmoid, sin, sqrt, where = torch.sigmoid, torch.sin, torch.sqrt, torch.where
    matrix_transpose = staticmethod(lambda x: x.mT)
    bool_, broadcast_to = torch.bool, torch.broadcast_to
    broadcast_shapes, linalg = torch.broadcast_shapes, _Linalg

    @staticmethod
    def sum(x: Any, axis: int | None = -1) -> Any:
        return _whole(torch.sum(x, dim=axis))

    @staticmethod
    def hypot(a: Any, b: Any) -> Any:
        # ONNX has no hypot.
        return (hypot if torch.compiler.is_exporting() else torch.hypot)(a, b)

    @staticmethod
    def expm1(x: Any) -> Any:
        if not torch.compiler.is_compiling():
            return torch.expm1(x)
        # Compiled, torch.expm1 would become exp(x) - 1, which cancels near 0.
        near = x > -1
        half = 0.5 * torch.where(near, x, 0)
        product = 2 * torch.exp(half) * torch.sinh(half)
        return torch.where(near, product, torch.exp(x) - 1)

    @staticmethod
    def max(x: Any, axis: int | None = None) -> Any:
        return _whole(torch.amax(x, dim=() if axis is None else axis))

    @staticmethod
    def min(x: Any, axis: int | None = None) -> Any:
        return _whole(torch.amin(x, dim=() if axis is None else axis))

    @staticmethod
    def all(x: Any, axis: int | None = -1) -> Any:
        if is_divided(x):  # since PyTorch 2.15, torch.all would gather all its entries
            return Arrays.sum(~x, axis) == 0
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
            if holds_tensors(value):
                raise TypeError("a list of tensors would lose their derivatives")
            value = torch.as_tensor(value)
            if like is not None:
                value = value.to(_widest(value.dtype, like.device)).to(like.device)
        return value if like is None else Arrays.replicate(value, like)

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else x.to(dtype)

    @staticmethod
    def refuse(x: Any, name: str) -> None:
        if x.is_nested or x.layout != torch.strided:
            kind = "nested" if x.is_nested else "sparse"
            raise TypeError(
                f"{name} must be a dense tensor, got a {kind} one: give it padded, "
                "and what takes part by `where`"
            )
        if x.dtype.itemsize == 1 and x.dtype.is_floating_point:
            raise TypeError(
                f"{name} must hold integers or floats of at least 16 bits, got dtype "
                f"{x.dtype}"
            )

    @staticmethod
    def is_array(value: Any) -> Any:
        return isinstance(value, torch.Tensor)

    @staticmethod
    def to_numpy(x: Any) -> Any:
        """The values; bfloat16, which NumPy lacks, becomes float32."""
        x = _whole(x)
        x = x.full_tensor() if is_divided(x) else x
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
            raise not_real(name, x.dtype)
        if not x.dtype.is_floating_point:
            x = x.to(torch.get_default_dtype())
        return x.to(torch.promote_types(x.dtype, torch.float32)), x.dtype

    @staticmethod
    def loss_type(dtype: Any, like: Any) -> Any:
        """float32 for 16 bits under autocast, as PyTorch returns its own losses.

        The first scale of `GradScaler`, 2^16, is no number of float16.
        """
        if dtype.itemsize == 2 and torch.is_autocast_enabled(like.device.type):
            return torch.float32
        return dtype

    @staticmethod
    def integer_key(x: Any, dtype: Any) -> Any:
        if x.dtype.is_floating_point or x.dtype == torch.bool:
            return None
        info = torch.iinfo(x.dtype)
        if info.max <= 2 / torch.finfo(dtype).eps:
            return None
        # PyTorch sorts no integers of 32 and 64 bits without a sign.
        if x.dtype == torch.uint64:
            x = x.view(torch.int64) ^ torch.iinfo(torch.int64).min
        x = x.to(torch.int64) if x.dtype == torch.uint32 else x
        return x, torch.iinfo(x.dtype).min

    @staticmethod
    def replicate(value: Any, like: Any, name: str = "") -> Any:
        """Numbers for each row, replicated on all devices if `like` is a DTensor.

        A tensor of one number may be on the CPU, as in PyTorch's own operations.
        """
        if name and value.device != like.device:
            if value.ndim or value.device.type != "cpu":
                raise ValueError(
                    f"{name} must be on the device of the scores, {like.device}, or a "
                    f"number, got a tensor of shape {tuple(value.shape)} on "
                    f"{value.device}"
                )
            value = _on_device(value, like.device)
        if is_divided(like) and not is_divided(value):
            from torch.distributed.tensor import DTensor

            return DTensor.from_local(value, like.device_mesh, _everywhere(like))
        return value

    @staticmethod
    def traced(values: Any, like: Any) -> Any:
        """A list of numbers as a tensor, under torch.compile."""
        given = isinstance(values, (list, tuple, np.ndarray))
        if given and torch.compiler.is_compiling():
            kind = _widest(torch.float64, like.device)
            return torch.as_tensor(values, dtype=kind, device=like.device)
        return values

    @staticmethod
    def integers(values: Any, like: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return Arrays.replicate(values.to(torch.int64), like)
        values = _number(values)
        if isinstance(values, int):
            given = torch.full((), values, dtype=torch.int64, device=like.device)
        else:
            given = torch.as_tensor(values, device=like.device)
        return Arrays.replicate(given, like)

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        values = _number(values)
        if isinstance(values, (float, int)):
            given = torch.full((), values, dtype=like.dtype, device=like.device)
        else:
            given = torch.as_tensor(values).to(like.dtype).to(like.device)
        return Arrays.replicate(given, like)

    @staticmethod
    def arange(start: int, stop: int, like: Any) -> Any:
        values = torch.arange(start, stop, dtype=like.dtype, device=like.device)
        return Arrays.replicate(values, like)

    @staticmethod
    def eye(n: int, like: Any) -> Any:
        values = torch.eye(n, dtype=like.dtype, device=like.device)
        return Arrays.replicate(values, like)

    @staticmethod
    def indices(n: int, like: Any) -> Any:
        return Arrays.replicate(torch.arange(n, device=like.device), like)

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
        if not torch.compiler.is_exporting():
            return torch.sort(x, dim=-1, descending=True, stable=True).indices[..., :k]
        # ONNX has no stable sort: the indices of equal entries are sorted in turn.
        n, (found, place) = x.shape[-1], torch.sort(x, dim=-1, descending=True)
        lower = torch.cumsum(found[..., 1:] != found[..., :-1], dim=-1)
        level = torch.nn.functional.pad(lower, (1, 0))
        return torch.sort(level * n + place, dim=-1).values[..., :k] % n

    is_divided = staticmethod(is_divided)

    @staticmethod
    def uniform(rng: Any, shape: tuple[int, ...], like: Any) -> Any:
        if isinstance(rng, int) and not isinstance(rng, bool):
            rng = torch.Generator(like.device).manual_seed(rng)
        elif not (rng is None or isinstance(rng, torch.Generator)):
            raise TypeError(
                f"rng must be a torch.Generator, a seed or None, got {rng!r}"
            )
        return torch.rand(shape, generator=rng, dtype=like.dtype, device=like.device)

    @staticmethod
    def highest(x: Any, k: int) -> Any:
        return torch.topk(x, k, dim=-1, sorted=False).indices

    @staticmethod
    def take(x: Any, index: Any) -> Any:
        return torch.take_along_dim(x, index, -1)

    @staticmethod
    def exported() -> bool:
        return torch.compiler.is_exporting()  # ONNX has no cummax and no cumprod

    @staticmethod
    def descending(x: Any) -> Any:
        found = torch.sort(x, dim=-1, descending=True)
        return found.values, found.indices

    @staticmethod
    def put(x: Any, index: Any, values: Any) -> Any:
        return torch.scatter(x, -1, index, values)

    @staticmethod
    def scatter(values: Any, index: Any, n: int) -> Any:
        values = torch.ones_like(index) if values is None else values
        out = torch.zeros_like(values[..., :1]).expand(*index.shape[:-1], n)
        return out.scatter_add(-1, index, values)

    @staticmethod
    def running_max(x: Any) -> Any:
        return torch.cummax(x.detach(), dim=-1).values

    @staticmethod
    def looks(x: Any, check: bool | None) -> Any:
        if check is False:
            return False
        if torch.compiler.is_compiling() or internals.transformed():
            return unseen(check)
        if internals.is_fake(x) or internals.recorded():
            if check:
                raise ValueError(
                    "check must be None or False for tensors without values, such as "
                    "those on the device meta, and where operations are recorded, "
                    "got True"
                )
            return False
        return x.is_cpu if check is None else check

    @staticmethod
    def loop(going: Any, step: Any, state: Any) -> Any:
        if torch.compiler.is_compiling():
            return _compiled_loop(going, step, state)
        if internals.recorded():
            raise NotImplementedError(
                "make_fx would record as many passes of a search as these scores need: "
                "use torch.export or torch.compile, which keep the loop"
            )
        if leaf(state).is_cuda and torch.cuda.is_current_stream_capturing():
            raise NotImplementedError(
                "a CUDA graph cannot hold a search whose number of passes depends on "
                "the scores: use a call that one of the package's kernels computes"
            )
        if internals.is_fake(leaf(state)):
            return step(*state)  # fake tensors have shapes and types only: one step
        passes = 1 if leaf(state).device.type == "cpu" else _PASSES
        while going(*state):
            for _ in range(passes):
                state = step(*state)
        return state

    @classmethod
    def program(cls, f: Any, *args: Any) -> Any:
        """f of this namespace and the arguments."""
        return f(cls, *args)

    @staticmethod
    def stored(value: Any) -> Any:
        """The value, materialised by Inductor, as it must be for `as_strided`."""
        if not torch.compiler.is_compiling() or is_divided(value):
            return value
        value = value.contiguous()
        return value.as_strided(value.shape, value.stride())

    @staticmethod
    def over_nodes(term: Any, entries: Any, numbers: Any) -> Any:
        """The sums over the nodes, without a stored array of all nodes and entries.

        In eager mode they are added node by node; a compiler fuses the sum.
        """
        if torch.compiler.is_compiling():
            # The arrays in `numbers` are stored with the nodes as the first axis, so
            # that the nodes of a row are not adjacent in memory.  Inductor then
            # vectorises the loop over the entries.  Otherwise it would vectorise the
            # loop over the nodes, which is short (see `DEPTH` in subset_law.py).
            moved = [Arrays.stored(v.movedim(-1, 0)).movedim(0, -1) for v in numbers]
            return Base.over_nodes(term, entries, moved)
        first, *rest = zip(*(v.unbind(-1) for v in numbers), strict=True)
        total = term(*entries, *(v[..., None] for v in first))
        for column in rest:
            terms = term(*entries, *(v[..., None] for v in column))
            total = tuple(a + b for a, b in zip(total, terms, strict=True))
        return total

    @staticmethod
    def over_entries(term: Any, entries: Any, numbers: Any) -> Any:
        """The sums over the entries at each node, without such an array either."""
        if torch.compiler.is_compiling():
            return Base.over_entries(term, entries, numbers)
        sums = [
            [Arrays.sum(v) for v in term(*entries, *(w[..., None] for w in column))]
            for column in zip(*(v.unbind(-1) for v in numbers), strict=True)
        ]
        return tuple(torch.stack(v, dim=-1) for v in zip(*sums, strict=True))


def _contiguous(value: Any) -> Any:
    """A contiguous copy, because the strides of a loop's state may not change."""
    return value.clone(memory_format=torch.contiguous_format)


def _compiled_loop(going: Any, step: Any, state: Any) -> Any:
    """The loop as one node of the graph.

    Its state is a flat list of tensors, none of which shares memory with another.
    """
    start, form = internals.flatten(state)
    # On the device of the others: a number on the CPU would take part in each pass.
    device = leaf(state).device
    start = [
        _contiguous(v)
        if isinstance(v, torch.Tensor)
        else torch.tensor(v, device=device)
        for v in start
    ]

    def body(*flat: Any) -> tuple[Any, ...]:
        out, _ = internals.flatten(step(*internals.unflatten(flat, form)))
        return tuple(map(_contiguous, out))

    def whether(*flat: Any) -> Any:
        return going(*internals.unflatten(flat, form))

    return internals.unflatten(internals.while_loop(whether, body, start), form)
