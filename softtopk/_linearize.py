r"""Operators with a derivative: one body gives the value and, when asked, the map.

At scores :math:`x` an operator :math:`T` has the Jacobian :math:`J_{ij}=\partial
T_i/\partial x_j`.  A `Linearization` holds the value :math:`T(x)` and applies the map
without forming it: :math:`\mathrm{jvp}(t)=Jt` pushes a change of the scores forward,
:math:`\mathrm{vjp}(g)=J^\top g` pulls a gradient back.

The body of an operator returns its value and a function that builds the
`Linearization` from what the body has computed; `operator` makes the public function of
it, which returns the value alone.  This module knows no operator.  Derived in the
chapter *selection/derivatives*.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from ._rows.numpy_rows import (
    Array,
    NumPyRows,
    as_column,
    as_real,
    divide,
    quiet,
    row_dot,
)

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Linearization:
    """An operator's value at a point and its derivative there.

    Obtained from `linearize`; an operator builds it from maps between rows.

    Attributes
    ----------
    value : array
        The operator at the point.
    dk : array or None
        Derivative of `value` with respect to the budget `k` of its row: for
        `soft_topk`, `threshold` and `losses.potential`.
    by_cost : Linearization or None
        The derivative of `value` with respect to the costs, of a call with `cost`: its
        `jvp` takes a change of the costs, and its `vjp` returns an array of their
        shape.  For `soft_topk` and `threshold`.

    Notes
    -----
    This class itself is for operators with one result per score (`soft_topk`) and for
    those with one number per row (`threshold`), whose results lack the operator's
    axes; subclasses are for other shapes of results.  Where `k` has axes that `x`
    lacks, `x` is used for several rows; `vjp` then sums their contributions.
    """

    value: Any
    rows: NumPyRows
    push: Callable[[Array], Array]
    pull: Callable[[Array], Array]
    reduces: bool = False
    dk: Any = None
    by_cost: Linearization | None = None
    call: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __reduce__(self) -> Any:
        """How it is pickled: by the call of `linearize` that it is the result of."""
        return (_repeated, self.call) if self.call else super().__reduce__()

    def kept(self, call: tuple[Any, ...]) -> Linearization:
        """The same, with results of its own: the maps do not see what is written there.

        `call` is the operator and its arguments, and whether this is `by_cost` of it.
        It is called before anybody else has this object, and changes it: a changed copy
        of it would take longer than all the rest.
        """
        vars(self).update(value=_own(self.value), dk=_own(self.dk), call=call)
        if self.by_cost is not None:
            self.by_cost.kept((*call[:3], True))
        return self

    @classmethod
    def symmetric(
        cls,
        value: Array,
        rows: NumPyRows,
        root: Array,
        tau: float | Array,
        *,
        times: int = 1,
        shares: Array | None = None,
        dk: Any = None,
    ) -> Linearization:
        r"""The map :math:`(\operatorname{diag}w-ww^\top/W)/\tau`, W the sum of w.

        Parameters
        ----------
        value : array
        rows : NumPyRows
        root : (R, n) array
            w is its power `times`: that may leave the range where no product does.
        tau : float or (R,) array
        times : int
        shares : (R, n) array, optional
            w / W, if known.
        dk : array, optional
        """
        if shares is None:
            shares = root / np.maximum.reduce(root, axis=-1, keepdims=True)
            shares **= times
            shares /= np.add.reduce(shares, axis=-1, keepdims=True)
        pivot = shares.argmax(axis=-1)[:, None]

        def product(t: Array) -> Array:
            # The tangent is centred at the entry with the largest weight, so that a
            # constant tangent cancels exactly.
            centre = np.take_along_axis(t, pivot, axis=-1)
            t = np.subtract(t, centre, dtype=root.dtype)
            t -= row_dot(shares, t)[:, None]
            for _ in range(times):
                t *= root
            return divide(t, as_column(tau)).astype(rows.x.dtype, copy=False)

        return cls(value, rows, product, product, dk=dk)

    @classmethod
    def gradient(
        cls,
        value: Any,
        rows: NumPyRows,
        gradient: Array,
        dk: Any = None,
        by_cost: Linearization | None = None,
    ) -> Linearization:
        """The map of an operator with one number per row and this gradient (R, n)."""
        gradient = gradient.astype(rows.x.dtype, copy=False)
        return cls(
            value,
            rows,
            lambda t: row_dot(gradient, t),
            lambda g: gradient * g[:, None],
            reduces=True,
            dk=dk,
            by_cost=by_cost,
        )

    def jvp(self, tangent: ArrayLike) -> Any:
        """``J t``: the change of the value along the change `tangent` of the scores.

        Parameters
        ----------
        tangent : array_like
            Of the shape of the scores, or broadcasting to it.

        Returns
        -------
        array
            Of the shape of `value`.
        """
        with quiet():
            out = self.push(self.rows.gather(tangent, "tangent"))
        return self.rows.reduce(out) if self.reduces else self.rows.expand(out)

    def vjp(self, cotangent: ArrayLike) -> Array:
        """``J^T g``: the gradient by the scores of ``sum(cotangent * value)``.

        Parameters
        ----------
        cotangent : array_like
            Of the shape of `value`, or broadcasting to it.

        Returns
        -------
        array
            Of the shape of the scores.
        """
        gather = self.rows.gather_reduced if self.reduces else self.rows.gather
        with quiet():
            out = self.rows.expand(self.pull(gather(cotangent, "cotangent")))
            return _sum_to(out, self.rows.input_shape)

    def jacobian(self) -> Array:
        """The dense Jacobian of every row, n products with unit vectors.

        Returns
        -------
        array
            ``J[..., i, j]``, the derivative of result i by score j of the same row:
            shape ``(..., n, n)``, the batch first.  i and j count the entries of a row
            in C order, as ``ravel`` of its axes in the order they have in `x` does,
            in whatever order a tuple names them.  For an operator with one number per
            row, or one for all rows, ``(..., n)``.
        """
        n = self.rows.x.shape[1]
        columns = []
        for j in range(n):
            unit = np.zeros_like(self.rows.x)
            unit[:, j] = 1
            with quiet():
                columns.append(self.push(unit))
        dense = np.stack(columns, axis=-1)
        if self.rows.empty_rows is not None:
            dense[self.rows.empty_rows] = 0
        return dense.reshape(self.rows.batch + dense.shape[1:])

    def total(self, value: Any, count: float) -> Linearization:
        """That of the sum of the rows' numbers over a count."""
        fields = (self.rows, self.push, self.pull, self.reduces)
        return _Total(value, *fields, weight=1 / count)


@dataclass(frozen=True)
class _Total(Linearization):
    """The derivative of one number, a multiple of the sum of the rows' numbers."""

    weight: float = 1.0

    def jvp(self, tangent: ArrayLike) -> Any:
        """The change of the number."""
        with quiet():
            return self.weight * super().jvp(tangent).sum()

    def vjp(self, cotangent: ArrayLike) -> Array:
        """The gradient by the scores of the number times a cotangent."""
        g = as_real(cotangent, "cotangent")
        if g.ndim:
            raise ValueError(f"cotangent must be a number, got shape {g.shape}")
        with quiet():
            return super().vjp(self.weight * g)

    def jacobian(self) -> Array:
        """The derivatives by the scores of every row, ``(..., n)``."""
        with quiet():
            return self.weight * super().jacobian()


Derivative = Callable[[], Linearization]
Differentiable = tuple[Value, Derivative]
"""What the body of an operator returns: its value, and what builds its derivative."""

_BODIES: dict[Callable[..., Any], Callable[..., Differentiable[Any]]] = {}


def operator(
    body: Callable[Arguments, Differentiable[Value]],
) -> Callable[Arguments, Value]:
    """The operator with this body: it returns the value, `linearize` the derivative."""

    @functools.wraps(body)
    @quiet()
    def public(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return body(*args, **kwargs)[0]

    value = get_args(get_type_hints(body)["return"])[0]
    signature = inspect.signature(body).replace(return_annotation=value)
    public.__signature__ = signature  # type: ignore[attr-defined]
    _BODIES[public] = body
    return public


@quiet()
def linearize(operator: Callable[..., Any], *args: Any, **kwargs: Any) -> Linearization:
    """Value and derivative of an operator at a point.

    Parameters
    ----------
    operator : callable
        An operator of this package, such as `soft_topk`.
    *args, **kwargs
        Its arguments, the scores first.

    Returns
    -------
    Linearization
        With ``value``, ``jvp(tangent)``, ``vjp(cotangent)``, ``jacobian()`` and, for
        `soft_topk`, `threshold` and `losses.potential`, ``dk``; where a call has costs,
        ``by_cost.jvp``, ``by_cost.vjp`` and ``by_cost.jacobian`` are the same maps for
        them.

    Raises
    ------
    TypeError
        If the operator has no derivative.

    Notes
    -----
    The cost of the operator once; a product is of the order of the operator again, or
    less, and the Jacobian takes n products.

    References
    ----------
    *selection/derivatives*, claims A58 to A62.

    Examples
    --------
    >>> import softtopk as stk
    >>> lin = stk.linearize(stk.soft_topk, [2.0, 1.0, 0.0], 1, curve="exp")
    >>> lin.value.round(4).tolist()
    [0.6652, 0.2447, 0.09]
    >>> lin.vjp([1.0, 0.0, 0.0]).round(4).tolist()
    [0.2227, -0.1628, -0.0599]
    >>> lin.jacobian().shape
    (3, 3)
    """
    body = _BODIES.get(operator)
    if body is None:
        known = ", ".join(sorted(op.__name__ for op in _BODIES))
        raise TypeError(
            f"operator must be one with a derivative ({known}), got {operator!r}"
        )
    # What is written into the arguments later does not move the point.
    args = tuple(map(_own, args))
    kwargs = {key: _own(value) for key, value in kwargs.items()}
    # The call moves generators of random numbers on.
    again = {key: _again(value) for key, value in kwargs.items()}
    call = operator, tuple(map(_again, args)), again, False
    _, derivative = body(*args, **kwargs)
    return derivative().kept(call)


def _own(value: Any) -> Any:
    """A copy of an array or a list; anything else as it is."""
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    return copy.deepcopy(value) if kind is list else value


def _again(value: Any) -> Any:
    """A copy of a generator of random numbers; anything else as it is."""
    if type(value) in (np.ndarray, int, float, str, list, type(None)):
        return value
    drawing = isinstance(value, np.random.Generator | np.random.RandomState)
    return copy.deepcopy(value) if drawing else value


def _repeated(
    operator: Callable[..., Any], args: Any, kwargs: Any, by_cost: bool
) -> Linearization | None:
    """The result of a call of `linearize`, or its derivative by the costs."""
    found = linearize(operator, *args, **kwargs)
    return found.by_cost if by_cost else found


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum an array over the axes along which `shape` was broadcast to it."""
    if array.shape == shape:
        return array
    extra = array.ndim - len(shape)
    pairs = enumerate(shape, extra)
    stretched = [i for i, size in pairs if array.shape[i] != size]
    return array.sum(axis=(*range(extra), *stretched)).reshape(shape)[()]
