r"""Sorting from nested selections: soft permutations, sorts and ranks.

With :math:`p(j)` the smooth top-j selection of `soft_topk`, :math:`p(0)=0` and m the
number of scores that take part,

.. math:: P_{ji}=p_i(j)-p_i(j-1)\ge0,\qquad \sum_iP_{ji}=\sum_jP_{ji}=1,
          \qquad 1\le j\le m,

is a doubly stochastic relaxation of the permutation that sorts the scores from the
largest to the smallest.  Row j is the j-th *place*.  The sort is :math:`Px`, and the
rank of a score the mean :math:`\sum_jjP_{ji}=m-\sum_{j<m}p_i(j)` of its places.

With :math:`J_j=\partial p(j)/\partial x`, of the module `selection`,

.. math:: \partial P_{j\cdot}=J_j-J_{j-1},\qquad
          \partial(Px)_j=P_{j\cdot}+(J_j-J_{j-1})x,\qquad
          \partial r=-\sum_{j<m}J_j .

The K selections of a row are K rows of the solver: O(nK) time and memory.  For the
curves ``laplace`` and ``exp`` the sort and the ranks need no selection: all thresholds
of a row take one sort and O(n) more.  Derived in *selection/sorting* and
*computing/ranks*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import Call
from ._linearize import Differentiable, Linearization, operator
from ._operators import sorting_body as shared
from ._rows.numpy_rows import Array, Axis, as_real, broadcast_as, quiet
from ._search.all_thresholds import is_exponential
from .curves import Curve, resolve

__all__ = ["soft_permutation", "soft_rank", "soft_sort"]


@operator
def soft_permutation(
    x: ArrayLike,
    places: int | None = None,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""How much each score belongs to each place of the sorted order.

    Parameters
    ----------
    x : array_like
        Scores, finite or -inf.
    places : int, optional
        The first K places, counted from the largest score: 1 <= K <= the number of
        entries of a row, which is the default.
    curve, temperature, axis
        As in `soft_topk`.
    where : array_like of bool, optional
        Entries that take part; the others, and those of -inf, have no place.

    Returns
    -------
    array, (..., K, n)
        ``P[..., j, i]``, the share of entry i in place j: the batch comes first, and i
        counts the entries of a row as in `Linearization.jacobian`.  Places beyond the
        number of entries that take part are empty.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    soft_sort : its product with the scores.
    soft_rank : the mean place of each entry.

    Notes
    -----
    O(nK) time and memory per row.  ``P.sum(axis=-1)`` is 1, and so is
    ``P.sum(axis=-2)`` if K = n; ``P[..., :k, :].sum(axis=-2)`` is ``soft_topk(x, k)``.
    No entry is negative, and equal scores have equal columns.  Entries are differences
    of two shares: their absolute error is a few eps, but an entry of that size may have
    no correct digit.

    References
    ----------
    Results N-S1 to N-S6, *selection/sorting*.

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.soft_permutation([1.0, 3.0, 0.0], temperature=0.5).round(3).tolist()
    [[0.064, 0.928, 0.009], [0.754, 0.069, 0.177], [0.182, 0.003, 0.814]]
    >>> stk.soft_permutation([1.0, 3.0, 0.0], 1, "clip").tolist()
    [[0.0, 1.0, 0.0]]
    """
    call, given = Call(), (temperature, axis, where, None)
    P = _numpy_steps(call.run(shared.nested, x, places, curve, *given)[2])
    value = P.reshape(*call.given.batch, *P.shape[1:])

    def derivative() -> Linearization:
        J = _jacobians(call)

        def push(t: Array) -> Array:
            return _numpy_steps(J(_for_each_place(t, P)))

        def pull(g: Array) -> Array:
            following = np.zeros_like(g)
            following[:, :-1] = g[:, 1:]
            return _total(J(g - following))

        return _OfMatrix(value, call.given, push, pull)

    return value, derivative


@operator
def soft_sort(
    x: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Scores in descending order, smoothly: :math:`Px` of `soft_permutation`.

    Parameters
    ----------
    x, curve, temperature, where
        As in `soft_permutation`.
    axis : int, tuple of int, or None
        The axis to sort along; several are sorted together, in C order, None means all.

    Returns
    -------
    array
        Of the shape of `x`, with places in the place of entries, the largest first.
        Places beyond the number of entries that take part hold -inf, as the scores that
        take no part.

    Raises
    ------
    TypeError, ValueError
        As in `soft_permutation`.

    Notes
    -----
    For the curves "laplace" and "exp" O(n log n) time and O(n) memory per row, for all
    others O(n^2).  The first k results sum to the scores weighted by ``soft_topk(x,
    k)``, all of them to the sum of the scores.  They descend if the logarithm of the
    curve's slope is concave, as it is for the named curves; a curve of your own may not
    have it so.  The error is a few eps times the sum of the distances of the scores
    from the result.

    References
    ----------
    Results N-S2, N-S3 and N-S5, *selection/sorting*, and N-S8, *computing/ranks*.

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.soft_sort([1.0, 3.0, 0.0], temperature=0.5).round(3).tolist()
    [2.847, 0.961, 0.192]
    >>> stk.soft_sort([1.0, 3.0, 0.0], temperature=0.01).round(3).tolist()
    [3.0, 1.0, 0.0]
    """
    if is_exponential(resolve(curve)):
        return _ordered("sort", x, curve, temperature, axis, where)
    call, given = Call(), (temperature, axis, where, None)
    rows, _, p = call.run(shared.nested, x, None, curve, *given)
    P, scores = _numpy_steps(p), rows.x
    half = np.where(scores > -np.inf, scores, 0) / 2
    ordered = np.sort(scores, axis=-1)[:, ::-1]
    near = np.where(ordered > -np.inf, ordered, 0)
    # Halves, whose difference is always finite; from the score that the limit has.
    away = half[:, None] - near[:, :, None] / 2
    if np.abs(half).max(initial=0) > float(np.finfo(half.dtype).max) ** 0.5:
        P = shared.certain(call, P, away)
    value = call.given.expand(ordered + 2 * np.vecdot(P, away))

    def derivative() -> Linearization:
        M = P + 2 * _numpy_steps(_jacobians(call)(_for_each_place(half, P)))
        return Linearization(
            value,
            call.given,
            lambda t: np.vecdot(M, t[:, None]),
            lambda g: np.vecdot(np.swapaxes(M, 1, 2), g[:, None]),
        )

    return value, derivative


@operator
def soft_rank(
    x: ArrayLike,
    curve: str | Curve = "laplace",
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Array]:
    r"""Smooth ranks, near 1 for the largest score: the mean place of each entry.

    Parameters
    ----------
    x, curve, temperature, where
        As in `soft_permutation`.
    axis : int, tuple of int, or None
        The axis to rank along; several are ranked together, None means all.

    Returns
    -------
    array
        :math:`r_i=\sum_jjP_{ji}`, of the shape of `x`, between 1 and the number m of
        entries that take part; they sum to m(m + 1)/2.  An entry without a place has 0.

    Raises
    ------
    TypeError, ValueError
        As in `soft_permutation`.

    Notes
    -----
    For the curves "laplace" and "exp" O(n log n) time and O(n) memory per row, and a
    larger score never has a larger rank; for all others O(n^2), and that holds but for
    rounding.  Equal scores have equal ranks: as the temperature falls, the mean of the
    places that they share.  The absolute error is a few n eps.

    References
    ----------
    Results N-S1, N-S4 and N-S5, *selection/sorting*, and N-S7 to N-S9,
    *computing/ranks*.

    Examples
    --------
    >>> import softtopk as stk
    >>> stk.soft_rank([1.0, 3.0, 0.0], temperature=0.5).round(3).tolist()
    [2.119, 1.075, 2.806]
    >>> stk.soft_rank([1.0, 3.0, 1.0], temperature=0.01).tolist()
    [2.5, 1.0, 2.5]
    """
    if is_exponential(resolve(curve)):
        return _ordered("ranks", x, curve, temperature, axis, where)
    call, given = Call(), {"temperature": temperature, "axis": axis, "where": where}
    value = call.run(shared.soft_rank, x, curve, **given)

    def derivative() -> Linearization:
        J = _jacobians(call)

        def product(t: Array) -> Array:
            return -_total(J(_for_each_place(t, call.nested)))

        return Linearization(value, call.given, product, product)

    return value, derivative


def _ordered(
    what: str, x: ArrayLike, curve: str | Curve, temperature: ArrayLike, *given: Any
) -> Differentiable[Array]:
    """The sort or the ranks of a curve whose thresholds are all found at once."""
    call, (axis, where) = Call(), given
    operator = shared.soft_sort if what == "sort" else shared.soft_rank
    how = {"temperature": temperature, "axis": axis, "where": where}
    value = call.run(operator, x, curve, **how)

    def derivative() -> Linearization:
        rows, dtype = call.sorted, call.given.x.dtype

        def of_rows(product: Callable[[Array], Array]) -> Callable[[Array], Array]:
            wide = np.float64
            return lambda t: product(t.astype(wide, copy=False)).astype(
                dtype, copy=False
            )

        names = ("by_sort", "by_places") if what == "sort" else ("by_ranks",) * 2
        push, pull = (of_rows(getattr(rows, name)) for name in names)
        return Linearization(value, call.given, push, pull)

    return value, derivative


@dataclass(frozen=True)
class _OfMatrix(Linearization):
    """The derivative of an operator with a matrix ``(K, n)`` for each row."""

    def jvp(self, tangent: ArrayLike) -> Any:
        with quiet():
            out = self.push(self.rows.gather(tangent, "tangent"))
        return out.reshape(self.value.shape)

    def vjp(self, cotangent: ArrayLike) -> Array:
        g = as_real(cotangent, "cotangent").astype(self.value.dtype, copy=False)
        g = broadcast_as(np, g, self.value.shape, "cotangent")
        shape = (len(self.rows.x), *self.value.shape[-2:])
        with quiet():
            return self.rows.expand(self.pull(g.reshape(shape)))


def _jacobians(call: Call) -> Callable[[Array], Array]:
    """The map of arrays ``(R, K, n)`` whose j-th rows J_j multiplies."""
    w, shares = call.point.slopes()
    p, rows = call.nested, call.point.rows
    product = Linearization.symmetric(p, rows, w, call.point.tau, shares=shares).push
    return lambda t: product(t.reshape(rows.x.shape)).reshape(p.shape)


def _numpy_steps(nested: Array) -> Array:
    """What each place adds to the places before."""
    steps = nested.copy()
    steps[:, 1:] -= nested[:, :-1]
    return steps


def _total(terms: Array) -> Array:
    """The sum over places; in single precision it would round at each of them."""
    return terms.sum(axis=1, dtype=np.float64).astype(terms.dtype, copy=False)


def _for_each_place(t: Array, like: Array) -> Array:
    """Rows ``(R, n)`` once for each place, as ``(R, K, n)``."""
    return np.broadcast_to(t[:, None], like.shape)
