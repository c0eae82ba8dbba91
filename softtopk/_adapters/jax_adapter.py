"""The adapter of JAX: its functions, its loop, and its rules of differentiation."""

from __future__ import annotations

import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from .. import curves as curves
from .._contract import Adapter
from .._rows.adapter_rows import check_values
from .._rows.namespace import hypot, register
from .._rows.numpy_rows import not_real
from .._rules import balance_rule, costs_rule, selection_rule, subset_rule
from .._rules.sorting_rule import SortedRows
from .._search import (
    balance_search,
    costs_search,
    numpy_for_libraries,
    selection_search,
    subset_law,
)
from . import jax_out_of_range
from .base_adapter import Base, unseen

# Before 0.10, JAX fails to transpose a loop whose body is rematerialised.
_LOOPS = jax.__version_info__ >= (0, 10)
_SCANNED_FOR_MASK = 1 << 14
"""Arrays of at least this many entries are worth a pass that checks for -inf."""

_SUMMED_IN_TURN = 1 << 21
"""In arrays of at least this many entries, each sum waits for the one before."""


def _at_least(size: Any, bound: int) -> bool:
    """Whether a size is known and at least `bound`.

    The size of a symbolic shape is not known.  The answer affects only the time that a
    program takes, and its results only up to rounding.
    """
    return isinstance(size, int) and size >= bound


@jax.custom_jvp
def _log1p(x: Any) -> Any:
    """log(1 + x) by Kahan's formula, because XLA's log1p has errors of up to 128 ulp.

    XLA would simplify (1 + x) - 1 to x and so remove the correction.  It does not
    simplify |1 + x| - 1.
    """
    w = 1 + x
    inner = (w != 1) & (w > 0) & (w < jnp.inf)
    quotient = jnp.log(w) * (x / jnp.where(inner, jnp.abs(w) - 1, 1))
    return jnp.where(inner, quotient, jnp.where(w == 1, x, jnp.log(w)))


_log1p.defjvps(lambda dx, _, x: dx / (1 + x))


@jax.custom_jvp
def _centred_softmax(x: Any) -> Any:
    """Softmax without the pass of jax.nn.softmax for the largest entry, which is 0."""
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


@_centred_softmax.defjvp
def _centred_softmax_rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
    p, (dx,) = _centred_softmax(*primals), tangents
    return p, p * (dx - (p * dx).sum(-1, keepdims=True))


@functools.lru_cache(maxsize=64)
def _kept(f: Any, *first: Any) -> Any:
    """A partial function, the same object each time: `jit` compares them as objects."""
    return functools.partial(f, *first)


class _Jax(Base):
    """What the operators ask of an array library."""

    promotes = True

    abs, atan2, arccos, ceil = jnp.abs, jnp.arctan2, jnp.arccos, jnp.ceil
    cos, exp, expm1, finfo, floor = jnp.cos, jnp.exp, jnp.expm1, jnp.finfo, jnp.floor
    isfinite, log = jnp.isfinite, jnp.log
    maximum, minimum, moveaxis = jnp.maximum, jnp.minimum, jnp.moveaxis
    ones_like, zeros_like, full_like = jnp.ones_like, jnp.zeros_like, jnp.full_like
    remainder, reshape, sigmoid = jnp.remainder, jnp.reshape, jax.nn.sigmoid
    sin, sqrt, bool_ = jnp.sin, jnp.sqrt, jnp.bool_
    sum, max, min, all = jnp.sum, jnp.max, jnp.min, jnp.all
    matrix_transpose = staticmethod(lambda x: jnp.swapaxes(x, -1, -2))
    broadcast_shapes, concat = jnp.broadcast_shapes, jnp.concatenate
    broadcast_to, linalg = jnp.broadcast_to, jnp.linalg
    softmax = staticmethod(jax.jit(_centred_softmax))
    detach = staticmethod(jax.lax.stop_gradient)

    @staticmethod
    def where(condition: Any, yes: Any, no: Any) -> Any:
        """Select without jnp.where, which adds a function for each pair of types."""
        dtype = jnp.result_type(yes, no)
        shape = jnp.broadcast_shapes(*map(jnp.shape, (condition, yes, no)))
        full = (
            jax.lax.full(shape, v, dtype)
            if isinstance(v, int | float)
            else jnp.broadcast_to(jnp.asarray(v, dtype), shape)
            for v in (yes, no)
        )
        return jax.lax.select(jnp.broadcast_to(condition, shape), *full)

    @staticmethod
    def clip(x: Any, least: Any = None, most: Any = None) -> Any:
        """clip without jnp.clip, for the same reason."""
        x = x if least is None else jnp.maximum(x, least)
        return x if most is None else jnp.minimum(x, most)

    hold = staticmethod(jax_out_of_range.hold)
    spoil = staticmethod(jax_out_of_range.spoil)
    hypot, log1p = staticmethod(hypot), staticmethod(_log1p)

    @staticmethod
    def after(value: Any, total: Any) -> Any:
        """The value, after an operation with the total that XLA cannot remove.

        XLA materialises the terms of all sums that do not depend on one another.  If
        each sum depends on the one before, a long row is read again for each instead.
        This takes a quarter to a half of the memory.  For 64 rows of 50 000 it takes a
        third to two thirds of the time, for 4096 rows of 128 up to 1.3 times as long.
        """
        if not _at_least(value.size, _SUMMED_IN_TURN):
            return value
        total = _Jax.astype(total, value.dtype)[..., None]
        return value + jnp.where(total == total, 0, total)

    @staticmethod
    def either(x: Any, unguarded: Any, masked: Any) -> Any:
        """unguarded(x, top, least) for a large array without -inf, else masked(x).

        XLA materialises the masked row before it sums it.  Checking first whether a
        mask is needed halves the time of a long row's first sums.  `unguarded` is open
        to overflow, so it is not called for scores near the end of the range.
        """
        like = jax.eval_shape(masked, x)

        def as_masked(x: Any, *extremes: Any) -> Any:
            return jax.tree.map(
                lambda v, to: jnp.broadcast_to(jnp.asarray(v, to.dtype), to.shape),
                unguarded(x, *extremes),
                like,
            )

        @jax.custom_batching.custom_vmap
        def choice(x: Any) -> Any:
            if not _at_least(x.size, _SCANNED_FOR_MASK):
                return masked(x)
            top, least = x.max(-1), x.min(-1)
            most = jnp.finfo(x.dtype).max / x.shape[-1]
            safe = ((least > -most) & (top < most)).all()
            return jax.lax.cond(safe, as_masked, lambda x, *_: masked(x), x, top, least)

        @choice.def_vmap
        def _rows(size: int, batched: Any, x: Any) -> Any:
            return _Jax.either(x, unguarded, masked), jax.tree.map(lambda _: True, like)

        return choice(x)

    @staticmethod
    def asarray(value: Any, like: Any = None) -> Any:
        array = jnp.asarray(value)
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iu":
            info = jnp.iinfo(array.dtype)  # int32, unless JAX holds 64 bits
            if info.bits < 8 * value.itemsize and value.size:
                for end in (value.min(), value.max()):
                    if not info.min <= end <= info.max:
                        raise OverflowError(f"{end} out of bounds for {array.dtype}")
        return array

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else x.astype(dtype)

    @staticmethod
    def refuse(x: Any, name: str) -> None:
        if x.dtype.itemsize == 1 and jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(
                f"{name} must hold integers or floats of at least 16 bits, got dtype "
                f"{x.dtype}"
            )
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{name} must hold real numbers, got keys of jax.random")

    @staticmethod
    def is_array(value: Any) -> Any:
        return isinstance(value, jax.Array)

    @staticmethod
    def to_numpy(x: Any) -> Any:
        return np.asarray(x)

    @staticmethod
    def is_floating(x: Any) -> Any:
        return jnp.issubdtype(x.dtype, jnp.floating)

    @staticmethod
    def is_real(x: Any) -> Any:
        return any(jnp.issubdtype(x.dtype, v) for v in (jnp.floating, jnp.integer))

    @staticmethod
    def floating(x: Any, name: str) -> tuple[Any, Any]:
        """The scores in the type to calculate with, and the type of the results."""
        if jnp.issubdtype(x.dtype, jnp.complexfloating):
            raise not_real(name, x.dtype)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            x = x.astype(jnp.result_type(float))
        return _Jax.astype(x, jnp.promote_types(x.dtype, jnp.float32)), x.dtype

    @staticmethod
    def integer_key(x: Any, dtype: Any) -> Any:
        if not jnp.issubdtype(x.dtype, jnp.integer):
            return None
        info = jnp.iinfo(x.dtype)
        return None if info.max <= 2 / jnp.finfo(dtype).eps else (x, info.min)

    @staticmethod
    def integers(values: Any, like: Any) -> Any:
        return jnp.asarray(values).astype(jnp.result_type(int))

    @staticmethod
    def numbers(values: Any, like: Any) -> Any:
        return jnp.asarray(values, like.dtype)

    @staticmethod
    def arange(start: int, stop: int, like: Any) -> Any:
        return jnp.arange(start, stop, dtype=like.dtype)

    @staticmethod
    def eye(n: int, like: Any) -> Any:
        return jnp.eye(n, dtype=like.dtype)

    @staticmethod
    def indices(n: int, like: Any) -> Any:
        return jnp.arange(n)

    @staticmethod
    def cumsum(x: Any) -> Any:
        return jnp.cumsum(x, axis=-1)

    @staticmethod
    def argmax(x: Any) -> Any:
        return jnp.argmax(x, axis=-1)

    @staticmethod
    def largest(x: Any, k: int) -> Any:
        return jax.lax.top_k(x, k)[0][..., -1]

    @staticmethod
    def peak(x: Any) -> Any:
        return _Jax.where(x < jnp.inf, x, jnp.inf).max(-1)

    @staticmethod
    def ordered(x: Any, place: Any) -> Any:
        index = x.shape[-1] - place[..., None]
        return jnp.take_along_axis(jnp.sort(x, axis=-1), index, axis=-1)[..., 0]

    @staticmethod
    def leading(x: Any, k: int) -> Any:
        return jax.lax.top_k(jnp.where(x == 0, 0, x), k)[1]  # top_k orders -0 below 0

    @staticmethod
    def uniform(rng: Any, shape: tuple[int, ...], like: Any) -> Any:
        if isinstance(rng, int) and not isinstance(rng, bool):
            rng = jax.random.key(rng)
        elif not isinstance(rng, jax.Array):
            raise TypeError(f"rng must be a key of jax.random or a seed, got {rng!r}")
        return jax.random.uniform(rng, shape, like.dtype)

    @staticmethod
    def highest(x: Any, k: int) -> Any:
        return jax.lax.top_k(x, k)[1]

    @staticmethod
    def take(x: Any, index: Any) -> Any:
        return jnp.take_along_axis(x, index, axis=-1)

    @staticmethod
    def descending(x: Any) -> Any:
        order = jnp.argsort(-x, axis=-1)
        return jnp.take_along_axis(x, order, axis=-1), order

    @staticmethod
    def put(x: Any, index: Any, values: Any) -> Any:
        return jnp.put_along_axis(x, index, values, axis=-1, inplace=False)

    @staticmethod
    def scatter(values: Any, index: Any, n: int) -> Any:
        values = jnp.ones_like(index) if values is None else values
        shape = index.shape[:-1]
        values, index = (v.reshape(-1, v.shape[-1]) for v in (values, index))
        zero = jnp.zeros(n, values.dtype)
        out = jax.vmap(lambda v, i: zero.at[i].add(v))(values, index)
        return out.reshape(*shape, n)

    @staticmethod
    def running_max(x: Any) -> Any:
        return jax.lax.cummax(x, x.ndim - 1)

    @staticmethod
    def looks(x: Any, check: bool | None) -> Any:
        if check is False:
            return False
        # Within a transformation x may be a concrete array, but the result of any
        # operation, on one number too, is a tracer.
        if isinstance(x, jax.core.Tracer) or isinstance(
            jnp.add(np.int32(0), 0), jax.core.Tracer
        ):
            return unseen(check)
        if check is None:
            return all(device.platform == "cpu" for device in x.devices())
        return check

    @staticmethod
    def loop(going: Any, step: Any, state: Any) -> Any:
        like = functools.partial(jax.tree.map, jnp.asarray)
        return jax.lax.while_loop(
            lambda at: going(*at), lambda at: like(step(*at)), like(state)
        )

    @staticmethod
    def program(f: Any, *args: Any) -> Any:
        """f of this namespace and the arguments, compiled as one program."""
        if isinstance(f, functools.partial):
            f = _kept(f.func, *f.args)
        return _jitted_program(f, *args)

    @staticmethod
    def select(curve: curves.Curve, rows: Any, check: Any, shares: bool = False) -> Any:
        x, whole, part, tau = rows[:4]
        regular = False
        if _Jax.looks(x, check):
            regular = check_values(ADAPTER, x, (whole, part), tau)
        return _jitted_select(curve, regular, x, whole, part, tau)

    @staticmethod
    def arrange(
        what: str, curve: curves.Curve, x: Any, tau: Any, check: bool | None
    ) -> Any:
        return _jitted_arrange(what, curve, x, tau)

    @staticmethod
    def spend(options: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any) -> Any:
        return _jitted_spend(options, x, whole, part, c, tau)

    @staticmethod
    def over_nodes(term: Any, entries: Any, numbers: Any) -> Any:
        """The sums in a loop over the nodes.

        Without the loop, XLA would materialise what the sums have in common for all
        nodes at once.  The body is rematerialised in the backward pass, so that the
        derivative does not store it either.
        """

        if not _LOOPS:
            return Base.over_nodes(term, entries, numbers)

        @functools.partial(jax.checkpoint, prevent_cse=False)
        def step(total: Any, column: Any) -> Any:
            terms = term(*entries, *column)
            return tuple(a + b for a, b in zip(total, terms, strict=True)), None

        columns = _columns(numbers)
        like = jax.eval_shape(term, *entries, *(v[0] for v in columns))
        start = tuple(jnp.zeros(v.shape, v.dtype) for v in like)
        return jax.lax.scan(step, start, columns)[0]

    @staticmethod
    def over_entries(term: Any, entries: Any, numbers: Any) -> Any:
        if not _LOOPS:
            return Base.over_entries(term, entries, numbers)

        @functools.partial(jax.checkpoint, prevent_cse=False)
        def sums(column: Any) -> Any:
            return tuple(v.sum(-1) for v in term(*entries, *column))

        found = jax.lax.map(sums, _columns(numbers))
        return tuple(jnp.moveaxis(v, 0, -1) for v in found)

    @staticmethod
    def subset(x: Any, whole: Any, part: Any, tau: Any) -> Any:
        return _jitted_subset(x, whole, part, tau)

    @staticmethod
    def balance(options: Any, x: Any, k: Any, c: Any, tau: Any) -> Any:
        if options.look:  # nothing is traced
            u = numpy_for_libraries.balanced_by_numpy(options, x, k, c, tau)
            return balance_search.balanced_shares(options.curve, _Jax.numbers(u, x))
        return _jitted_balance(options, x, k, c, tau)[0]

    @staticmethod
    def attach(value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        return _attach(
            jax.lax.stop_gradient(value),
            {name: pair[0] for name, pair in by.items()},
            {name: pair[1]() for name, pair in by.items()},
        )


register(jax.Array, _Jax)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _select(
    curve: curves.Curve, regular: bool, x: Any, whole: Any, part: Any, tau: Any
) -> tuple[Any, Any, Any]:
    return selection_search.selected(curve, x, whole, part, tau, regular)


@_select.defjvp
def _select_rule(
    curve: curves.Curve, regular: bool, primals: Any, tangents: Any
) -> tuple[Any, Any]:
    x, _, _, tau = primals
    p, a, t = _select(curve, regular, *primals)
    dx, _, dk, dtau = tangents
    dp, dt = selection_rule.push_selection(curve, (x, a, t, tau), regular, dx, dk, dtau)
    return (p, a, t), (dp, jnp.zeros_like(a), dt)


def _constant_rows(curve: curves.Curve, x: Any, tau: Any) -> SortedRows:
    """The sorted rows as constants."""
    return SortedRows(ADAPTER, curve, _Jax.detach(x), _Jax.detach(tau))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _arrange(what: str, curve: curves.Curve, x: Any, tau: Any) -> Any:
    return getattr(_constant_rows(curve, x, tau), what)()


@_arrange.defjvp
def _arrange_rule(
    what: str, curve: curves.Curve, primals: Any, tangents: Any
) -> tuple[Any, Any]:
    moved = getattr(_constant_rows(curve, *primals), f"moved_{what}")
    # The value of `moved` is not used, and a compiler leaves it out.
    return _arrange(what, curve, *primals), jax.jvp(moved, primals, tangents)[1]


def _columns(numbers: Any) -> Any:
    """Numbers ``(..., M)`` with the nodes moved to the first axis, ``(M, ..., 1)``."""
    return [jnp.moveaxis(v, -1, 0)[..., None] for v in numbers]


@jax.custom_jvp
def _subset(x: Any, whole: Any, part: Any, tau: Any) -> Any:
    return tuple(subset_law.solved_law(ADAPTER, x, whole, part, tau))


@_subset.defjvp
def _subset_rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, whole, part, tau = primals
    p, *rest = _subset(x, whole, part, tau)
    tilt = subset_law.tilted(ADAPTER, x, whole, part, tau, rest[:2])
    dx, _, _, dtau = tangents
    change = subset_rule.push_subset(ADAPTER, tilt, dx, dtau)
    return (p, *rest), (change, *map(jnp.zeros_like, rest))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _spend(options: Any, *given: Any) -> tuple[Any, Any, Any]:
    return costs_search.spent(options, *given)


@_spend.defjvp
def _spend_rule(options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    x, _, _, c, tau = primals
    p, a, t = _spend(options, *primals)
    dx, _, dk, dc, dtau = tangents
    dp, dt = costs_rule.push_costs(options, (x, c, a, t, tau), dx, dk, dc, dtau)
    return (p, a, t), (dp, jnp.zeros_like(a), dt)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _balance_at(options: Any, x: Any, k: Any, c: Any, tau: Any) -> tuple[Any, Any]:
    with jax.default_matmul_precision("highest"):
        u = balance_search.balanced(options, x, k, c, tau)
    return balance_search.balanced_shares(options.curve, u), u


@_balance_at.defjvp
def _balance_rule(options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    p, u = _balance_at(options, *primals)
    given = options.curve, *tangents, u, primals[3]
    with jax.default_matmul_precision("highest"):
        return (p, u), balance_rule.push_balance(*given)


_jitted_program = jax.jit(lambda f, *args: f(_Jax, *args), static_argnums=0)
_jitted_balance = jax.jit(_balance_at, static_argnums=0)
_jitted_spend = jax.jit(_spend, static_argnums=0)
_jitted_subset = jax.jit(_subset)
_jitted_arrange = jax.jit(_arrange, static_argnums=(0, 1))
_jitted_select = jax.jit(_select, static_argnums=(0, 1))


@jax.custom_jvp
def _attach(value: Any, inputs: Any, slopes: Any) -> Any:
    return value


@_attach.defjvp
def _attach_rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
    value, _, slopes = primals
    change = jnp.zeros_like(value)
    for name, slope in slopes.items():
        move = slope * tangents[1][name]
        change = change + (move.sum(-1) if name == "x" else move)
    return _attach(*primals), change  # `_attach` again, for derivatives of this one


ADAPTER = cast(Adapter, _Jax)  # a class, whose members the tests compare
