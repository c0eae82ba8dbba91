"""GradTopK: how likely each entry, and each pair, is in a random subset of k."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import Rows, checked
from .._search import subset_law

__all__ = ["grad_topk", "log_partition", "pair_marginals"]


def grad_topk(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """Marginals of the k-subset distribution, the gradient of `log_partition`.

    Parameters
    ----------
    x, temperature, axis, where, empty, check
        As in `soft_topk`.
    k : whole number or array of them
        The size of the subset; it has no derivative.

    Returns
    -------
    array
        p, of the shape and type of `x`, between 0 and 1, with sum k.

    Notes
    -----
    Every entry meets up to 27 nodes of a circle (13 in float32).  The gradient meets
    them again instead of keeping what the forward pass computed.  PyTorch hands scores
    on the CPU to NumPy, which takes a block of rows at a time; elsewhere, and for
    derivatives of second order, an array with a number for each entry and node may
    take up to so many times the memory of `x`, unless a compiler avoids it.
    """
    given = temperature, axis, where, check
    rows = checked(xp, x, k, *given, integer_k=True, empty=empty, solver=True)
    law = law_of(xp, rows)
    return with_fits_of(xp, rows, law, check).expand(xp, law.p)


def log_partition(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""The smoothed sum of the k largest scores, :math:`\tau\log Z_k(x/\tau)`.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array
        One number a row.
    """
    given = temperature, axis, where, check
    rows = checked(xp, x, k, *given, integer_k=True, solver=True)
    if xp.own_rows:
        return rows.reduce(xp, xp.partition(rows)[0])
    law = law_of(xp, rows)
    return with_fits_of(xp, rows, law, check).reduce(xp, sum_of(xp, rows, law)[0])


def pair_marginals(
    xp: Adapter,
    x: Any,
    k: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    """Probabilities that the random k-subset contains both i and j.

    Parameters
    ----------
    x, k, temperature, axis, where, check
        As in `grad_topk`.

    Returns
    -------
    array, (..., n, n)
        With the marginals on the diagonal; the batch comes first.
    """
    rows = checked(xp, x, k, temperature, axis, where, check, integer_k=True)
    law, given = law_of(xp, rows), (rows.x, rows.whole, rows.part, rows.tau)
    P = xp.program(subset_law.pairs, *given, law.a, law.t)
    return xp.astype(rows.spoil(xp, P), rows.dtype)


def subset_sum(xp: Adapter, rows: Rows) -> tuple[Any, Any, Callable[[], Any]]:
    """`log_partition` of rows, its derivative by the scores, and that by tau."""
    if xp.own_rows:
        value, p = xp.partition(rows)
        return value, p, lambda: None
    law = law_of(xp, rows)
    value, entropy = sum_of(xp, rows, law)
    return value, law.p, entropy


def sum_of(xp: Adapter, rows: Rows, law: subset_law.SubsetLaw) -> tuple[Any, Any]:
    """`log_partition` of rows with this law, and its derivative by tau."""
    at = rows.x, rows.whole, rows.part, rows.tau
    *found, u = xp.program(subset_law.partition, *at, law)
    value, fixed = map(xp.detach, found)

    def entropy() -> Any:
        """The derivative by tau; the derivative of that by p is -u."""
        return xp.attach(fixed, {"x": (law.p, lambda: -u)})

    by = {"x": (rows.x, lambda: law.p), "tau": (rows.tau, entropy)}
    return xp.attach(value, by), entropy


def with_fits_of(
    xp: Adapter, rows: Rows, law: subset_law.SubsetLaw, check: bool | None
) -> Rows:
    """The rows, with `in_range` False where values that nobody looked at are not."""
    if xp.own_rows or xp.looks(rows.x, check):
        return rows
    return rows.with_in_range(xp, law.t == law.t)


def law_of(xp: Adapter, rows: Rows) -> subset_law.SubsetLaw:
    """The law of the random subsets of the rows."""
    return subset_law.SubsetLaw(*xp.subset(rows.x, rows.whole, rows.part, rows.tau))
