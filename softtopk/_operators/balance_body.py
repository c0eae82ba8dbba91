"""The selection with budgets of rows and columns, over an adapter."""

from __future__ import annotations

import math
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import checked, word_for
from .._rows.numpy_rows import NO_BUDGET, broadcast_as, real_number, real_numbers
from .._search.balance_search import BalanceOptions
from ..curves import Curve, resolve

__all__ = ["balanced_topk"]

_SAME = 4096  # the two totals may differ by this many eps, relatively


def balanced_topk(
    xp: Adapter,
    S: Any,
    k: Any,
    columns: Any = None,
    curve: str | Curve = "sigmoid",
    *,
    temperature: Any = 1.0,
    axes: tuple[int, int] = (-2, -1),
    where: Any = None,
    rounds: int = 100,
    check: bool | None = None,
) -> Any:
    r"""Smooth selection with two budgets: each row takes k, each column its load.

    Parameters
    ----------
    S : array
        Scores, finite or -inf: a matrix for every index of the axes that `axes` does
        not name.  Those of 16 bits are calculated with in float32.
    k : number or array
        What the shares of a row sum to; it broadcasts to one for each row,
        ``(..., m)``.
    columns : array, optional
        What the shares of a column sum to, likewise ``(..., n)``; with the same total
        as `k`, to which it is scaled beyond rounding.  By default equal loads.
    curve, where, check
        As in `soft_topk`.
    temperature : number or array
        Above 0; one for all or one a matrix.
    axes : (int, int)
        The axis that counts the rows and the axis that counts the columns.
    rounds : int
        The most rounds to take.

    Returns
    -------
    array
        P, of the shape and type of `S`, with derivatives by `S`, `k`, `columns` and
        `temperature`.  Those by budgets are along changes that can be met.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or no shares in [0, 1] have these sums.

    Warns
    -----
    RuntimeWarning
        If `rounds` are not enough.  Where nobody looks at the values, a matrix whose
        budgets are not met is NaN, whatever the reason.

    Notes
    -----
    A round costs `soft_topk` of the longer side twice and of the other once, and
    :math:`O(mn\min(m,n))` for Newton's step; so does a derivative.
    """
    axes = check_axes(axes, word_for(xp, "axes"))
    simple = type(rounds) is int and rounds >= 1  # what a compiler can follow
    limit = rounds if simple else int(real_number(rounds, "rounds", least=1))
    curve = resolve(curve)
    flat = checked(xp, S, NO_BUDGET, temperature, axes, where, check, "S")
    options = BalanceOptions(curve, limit, bool(xp.looks(flat.x, check)))
    batch, (low, high) = flat.batch(), flat.sizes
    x = xp.reshape(flat.x, (*flat.x.shape[:-1], low, high))
    ascending = axes[0] % (len(batch) + 2) < axes[1] % (len(batch) + 2)
    m, n = (low, high) if ascending else (high, low)
    first = _side_budgets(xp, k, (*batch, m), "k", x)
    if columns is None:
        load = first.sum(-1)[..., None] / n
        second = xp.broadcast_to(load, (*load.shape[:-1], n))
    else:
        second = _side_budgets(xp, columns, (*batch, n), "columns", x)
        if not xp.own_rows:  # on NumPy the search compares the totals
            second = second * _ratio(xp, first.sum(-1), second, options)[..., None]
    turned = bool(low < high)  # a size may be a symbol of torch.export
    sides, names = (first, second), ("k", "columns")
    if ascending == turned:
        sides, names = sides[::-1], names[::-1]
    given = x.swapaxes(-1, -2) if turned else x
    p = xp.balance(options._replace(names=names), given, *sides, flat.tau)
    p = p.swapaxes(-1, -2) if turned else p
    return flat.expand(xp, xp.reshape(p, flat.x.shape))


def _side_budgets(
    xp: Adapter, given: Any, shape: tuple[int, ...], name: str, like: Any
) -> Any:
    """One budget for each row, or each column, of every matrix."""
    if xp.is_array(given):
        xp.refuse(given, name)
        if not xp.is_real(given):
            real_numbers(xp.to_numpy(given), name)
        values = xp.astype(given, like.dtype)
    else:
        number = type(given) in (int, float)  # without NumPy, a compiler can trace it
        values = xp.numbers(given if number else real_numbers(given, name), like)
    values = broadcast_as(xp, values, shape, name)
    return xp.reshape(values, (*like.shape[:-2], shape[-1]))


def _ratio(xp: Adapter, k: Any, columns: Any, options: BalanceOptions) -> Any:
    """The factor that makes the columns sum to the rows' total.

    It is NaN if the two totals differ by more than rounding.
    """
    c = columns.sum(-1)
    differs = abs(k - c) > _SAME * xp.finfo(k.dtype).eps * k
    if options.look and bool(differs.any()):
        if bool((columns < 0).any()):
            return xp.ones_like(c)  # the search on NumPy raises the error for it
        i = xp.argmax(xp.astype(differs.reshape(-1), k.dtype))
        k, c = (float(v.reshape(-1)[i]) for v in (k, c))
        raise ValueError(
            f"k and columns must have the same sum, got {k:.17g} and {c:.17g}"
        )
    ratio = xp.where(c > 0, k, 1) / xp.where(c > 0, c, 1)
    return xp.where(differs, math.nan, ratio)


def check_axes(axes: Any, word: str = "axes") -> tuple[int, int]:
    if not (isinstance(axes, tuple) and len(axes) == 2):
        raise TypeError(
            f"{word} must be two integers, that of the rows and that of the columns, "
            f"got {axes!r}"
        )
    return axes
