r"""The derivative of an operator at a point, as a linear map.

At scores :math:`x` an operator :math:`T` has the Jacobian :math:`J_{ij}=\partial
T_i/\partial x_j`.  A `Linearization` holds the value :math:`T(x)` and applies the map
without forming it: :math:`\mathrm{jvp}(t)=Jt` pushes a change of the scores forward,
:math:`\mathrm{vjp}(g)=J^\top g` pulls a gradient back.

An operator registers its rule with `differentiable`; this module knows no operator.
Derived in the chapter *selection/derivatives*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array, Rows

Operator = TypeVar("Operator", bound=Callable[..., Any])

_RULES: dict[Callable[..., Any], Callable[..., Linearization]] = {}


@dataclass(frozen=True)
class Linearization:
    """An operator's value at a point and its derivative there.

    Obtained from `linearize`; a rule builds it from maps between rows.

    Attributes
    ----------
    value : array
        The operator at the point.
    dk : array or None
        Derivative of `value` with respect to the budget `k` of its row: for
        `soft_topk`, `threshold` and `losses.potential`.

    Notes
    -----
    Two kinds of operator exist: those with one result per score (`soft_topk`), and
    those with one number per row (`threshold`), whose results lack the operator's
    axis.  Where `k` has axes that `x` lacks, `x` is used for several rows; `vjp` then
    sums their contributions.
    """

    value: Any
    rows: Rows
    push: Callable[[Array], Array]
    pull: Callable[[Array], Array]
    reduces: bool = False
    dk: Any = None

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
        out = self.rows.expand(self.pull(gather(cotangent, "cotangent")))
        return _sum_to(out, self.rows.input_shape)

    def jacobian(self) -> Array:
        """The dense Jacobian of every row, n products with unit vectors.

        Returns
        -------
        array
            ``J[..., i, j]``, the derivative of result i by score j of the same row:
            shape ``(..., n, n)`` with the batch first and the operator's axis moved
            to the end.  For an operator with one number per row, ``(..., n)``.
        """
        n = self.rows.x.shape[1]
        columns = []
        for j in range(n):
            unit = np.zeros_like(self.rows.x)
            unit[:, j] = 1
            columns.append(self.push(unit))
        dense = np.stack(columns, axis=-1)
        return dense.reshape(self.rows.batch_shape + dense.shape[1:])


def differentiable(
    rule: Callable[..., Linearization],
) -> Callable[[Operator], Operator]:
    """Register `rule` as the derivative of the decorated operator.

    Parameters
    ----------
    rule : callable
        Takes the operator's own arguments and returns a `Linearization`.
    """

    def register(operator: Operator) -> Operator:
        _RULES[operator] = rule
        return operator

    return register


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
        `soft_topk`, `threshold` and `losses.potential`, ``dk``.

    Raises
    ------
    TypeError
        If the operator has no registered derivative.

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
    rule = _RULES.get(operator)
    if rule is None:
        known = ", ".join(sorted(op.__name__ for op in _RULES))
        raise TypeError(
            f"operator must be one with a derivative ({known}), got {operator!r}"
        )
    return rule(*args, **kwargs)


def _sum_to(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum an array over the axes along which `shape` was broadcast to it."""
    if array.shape == shape:
        return array
    extra = array.ndim - len(shape)
    stretched = tuple(
        extra + i for i, size in enumerate(shape) if array.shape[extra + i] != size
    )
    return array.sum(axis=(*range(extra), *stretched)).reshape(shape)
