"""NumPy's searches for rows of other libraries, given as arrays of 32 or 64 bits.

Eager PyTorch on the CPU uses them all, and eager JAX on the CPU that of a balance.  The
adapters have converted the arrays: see `select_on_numpy` in `torch_autograd_selection`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rows.adapter_rows import check_temperatures
from .._rows.numpy_rows import (
    check_budget,
    check_finite,
    count_finite,
    plain_numpy_rows,
    quiet,
)
from ..curves import CLIP, Curve, Entmax
from .balance_search import BalanceOptions
from .numpy_balance import balanced_distances, on_matrix
from .numpy_search import solve
from .numpy_simplex import entmax_row, entmax_shares
from .numpy_subset import all_or_none, law_blocks

_SEARCHED_LENGTH, _SEARCHED_ENTRIES = 512, 1 << 13
"""Rows of 1.5-entmax and sparsemax up to the first length go to the search of
selections if all rows together have more entries than the second; all others to
`numpy_simplex.py`, with its own limits.
"""


@quiet()
def solved_by_numpy(
    curve: Curve, x: Any, whole: Any, part: Any, tau: float, scheme: Any = None
) -> tuple[tuple[Any, Any, Any], bool]:
    """`selection_search.solved` by the solver for NumPy; whether all rows are regular.

    The budget is one number, or one for each row.  Arguments out of range raise the
    errors of NumPy's functions.
    """
    batch, flat = x.shape[:-1], np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    n, k = count_finite(flat, "x"), np.empty(batch)
    k[...] = whole + part
    k = k.reshape(-1)
    check_budget(k, n, "x")
    tiny = float(np.finfo(x.dtype).tiny)
    if not tiny <= tau <= 1 / tiny:
        check_temperatures(np.asarray(tau), x.dtype, tiny)
    found = solve(curve, plain_numpy_rows(flat, k, n), tau, scheme)
    regular = np.count_nonzero(n == x.shape[-1]) == n.size
    regular = regular and np.count_nonzero(np.isfinite(found.offset)) == n.size
    a, t = (np.asarray(v, x.dtype).reshape(batch) for v in found[1:])
    return (found.p.reshape(x.shape), a, t), regular


@quiet()
def simplex_by_numpy(x: Any, curve: Entmax, tau: float) -> Any:
    """The shares of entmax by the solver for NumPy."""
    b, n = curve.b, x.shape[-1]
    if n <= _SEARCHED_LENGTH and b in (0.5, 1):
        if x.size > _SEARCHED_ENTRIES:
            return solved_by_numpy(CLIP if b == 1 else curve, x, 1, 0.0, tau)[0][0]
        if x.size == n and b == 0.5:
            p = entmax_row(x.reshape(-1), tau)
            if p is not None:
                return p.reshape(x.shape)
    flat = np.ascontiguousarray(x).reshape(-1, n)
    finite_count = count_finite(flat, "x")
    check_finite(finite_count, "x")
    return entmax_shares(flat, b, tau)[0].reshape(x.shape)


@quiet()
def marginals_by_numpy(
    x: Any, whole: Any, part: Any, tau: Any
) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The fields of `subset_law.SubsetLaw`, and the blocks for `pull_subset_on_numpy`.

    All rows have one temperature.  The result is None if a row is out of range.
    """
    batch, n = x.shape[:-1], x.shape[-1]
    flat = np.ascontiguousarray(x).reshape(-1, n)
    k = np.broadcast_to(whole, batch).reshape(-1)
    finite_count = np.count_nonzero(flat > -np.inf, axis=-1)
    tiny = np.finfo(x.dtype).tiny
    in_range = (flat < np.inf).all() and (part == 0).all()
    in_range = in_range and ((k >= 0) & (k <= finite_count)).all()
    if not (in_range and tiny <= tau <= 1 / tiny):
        return None
    rows = plain_numpy_rows(flat, k.astype(float), finite_count)
    p, (a, t, chance) = all_or_none(rows), np.zeros((3, len(flat)), x.dtype)
    parts = list(law_blocks(rows, float(tau)))
    for at, block in parts:
        p[at], a[at], t[at] = block.marginals.T, block.anchor, block.shift
        chance[at] = np.log(block.chance)
    return (p.reshape(x.shape), *(v.reshape(batch) for v in (a, t, chance))), parts


@quiet()
def balanced_by_numpy(options: BalanceOptions, x: Any, k: Any, c: Any, tau: Any) -> Any:
    """u by the search on NumPy, which raises the errors and warnings."""
    k, c, tau = (np.asarray(v, np.float64) for v in (k, c, tau))
    c = c * (k.sum(-1) / np.where(c.any(-1), c.sum(-1), 1))[..., None]
    x = np.asarray(x, np.float64)
    u, tau = np.empty(x.shape), np.broadcast_to(tau, x.shape[:-2])
    for i in np.ndindex(x.shape[:-2]):
        problem, at = on_matrix(options, x[i], k[i], c[i], float(tau[i]))
        distance = balanced_distances(problem.x, at, tau[i])
        distance = np.where(np.isfinite(problem.x), distance, -np.inf)
        u[i] = np.where(problem.known > 0, np.inf, distance)
    return u
