r"""Random subsets: of k entries with the law behind `grad_topk`, or with given shares.

**Subsets of k.**  With coins of the chances :math:`\pi_i=\sigma(x_i/\tau-\lambda)` the
set of those that show heads, given that there are k, has the law
:math:`P(S)\propto\exp\sum_{i\in S}x_i/\tau`, whatever :math:`\lambda` is.  The laws of
the numbers of heads among the entries, pairs, pairs of pairs and so on form a tree, in
which a node is the product of its two children.  A draw walks down: a node with j heads
gives its first child i of them with probability
:math:`P(\text{first}=i)\,P(\text{second}=j-i)/P(\text{both}=j)`.  All nodes of a level
are drawn at once.

**Given shares.**  Two entries with the shares a and b play: for a + b < 1 one of them,
the first with probability a / (a + b), goes on with a + b, and the other is left out;
else one, the first with probability (1 - b) / (2 - a - b), is selected, and the other
goes on with a + b - 1.  The entries play in a tournament (pivotal sampling).

*selection/subsets* derives both.
"""

from __future__ import annotations

import math
from typing import Any

from .._contract import Adapter
from .._rows.adapter_rows import (
    Rows,
    as_given,
    checked,
    finite_rows,
    scores,
    word_for,
)
from .._rows.numpy_rows import as_column, check_axis, check_integer
from .._search.polynomials import products, with_k
from .._search.root import distances
from ..curves import SIGMOID
from .selection_body import of_checked
from .subset_body import law_of, subset_sum

__all__ = ["sample_shares", "sample_topk", "sample_topk_st", "subset_log_prob"]


def sample_topk(
    xp: Adapter,
    x: Any,
    k: Any,
    rng: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    draws: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    r"""Random subsets of k entries, :math:`P(S)\propto\exp\sum_{i\in S}x_i/\tau`.

    Parameters
    ----------
    x, k, temperature, axis, where, empty, check
        As in `grad_topk`, whose shares are the probabilities that an entry is drawn.
    rng : generator or seed
        Where the random numbers come from: in PyTorch a `torch.Generator` on the device
        of `x`, a seed, or None for PyTorch's own generator; in JAX a key or a seed.
    draws : int, optional
        How many subsets to draw for each row, along a new first axis; without it one
        for each row, and no such axis.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `x`; constant under differentiation.

    Notes
    -----
    O(nk) operations, in about log2 n steps one after the other.  Probabilities are
    exact up to the rounding of n operations, and are resolved by random numbers of the
    type of `x`: to 2^-53, of float32 to 2^-24.
    """
    given = temperature, axis, where, check
    rows = checked(xp, x, k, *given, integer_k=True, empty=empty)
    return _shaped(xp, rows, _subsets(xp, rows, k, rng, draws, check), draws)


def sample_topk_st(
    xp: Adapter,
    x: Any,
    k: Any,
    rng: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    draws: int | None = None,
    empty: str = "raise",
    check: bool | None = None,
) -> Any:
    """`sample_topk` forward, the derivatives of its mean `grad_topk` backward.

    Parameters
    ----------
    x, k, rng, temperature, axis, where, draws, empty, check
        As in `sample_topk`.

    Returns
    -------
    array
        Exactly `sample_topk`.

    Notes
    -----
    This is the estimator SIMPLE (Ahmed, Zeng, Niepert, Van den Broeck, ICLR 2023).  The
    gradient of a mean of a linear function of the subset is right; of others it is
    biased, and `subset_log_prob` gives one that is not.
    """
    given = temperature, axis, where, check
    rows = checked(xp, x, k, *given, integer_k=True, empty=empty)
    hard = xp.detach(_subsets(xp, rows, k, rng, draws, check))
    p = law_of(xp, rows).p
    return _shaped(xp, rows, hard + (p - xp.detach(p)), draws)


def subset_log_prob(
    xp: Adapter,
    x: Any,
    subset: Any,
    *,
    temperature: Any = 1.0,
    axis: Any = -1,
    where: Any = None,
    check: bool | None = None,
) -> Any:
    r"""The log-probability of subsets under the law of `sample_topk`.

    :math:`\log P(S)=\sum_{i\in S}x_i/\tau-\log Z_k(x/\tau)` for the number k of entries
    of S.

    Parameters
    ----------
    x, temperature, axis, where, check
        As in `grad_topk`.
    subset : array
        1 or True for the entries of the subset, 0 or False for the others, of the shape
        of `x`.

    Returns
    -------
    array
        One number a row, with derivatives by `x` and `temperature`; that by `x` is the
        subset less `grad_topk`, over the temperature.  -inf for a subset with an entry
        that takes no part.

    Notes
    -----
    The score-function estimator of the gradient of a mean of f is the gradient of
    ``f(S) * subset_log_prob(x, S)`` with f(S) constant: unbiased, whatever f is.
    """
    x = scores(xp, x, "x")
    if not xp.is_floating(x):
        x = xp.floating(x, "x")[0]
    z = as_given(xp, subset, x, "subset")
    if tuple(z.shape) != tuple(x.shape):
        raise ValueError(
            f"subset must have the shape of x, {tuple(x.shape)}, got {tuple(z.shape)}"
        )
    if z.dtype == xp.bool_:
        z = xp.where(z, xp.ones_like(x), 0)
    if not xp.is_real(z):
        raise TypeError(f"subset must hold 0 and 1, got dtype {z.dtype}")
    if xp.looks(x, check) and not bool(((z == 0) | (z == 1)).all()):
        raise ValueError("subset must hold 1 for its entries and 0 for the others")
    axes = check_axis(axis, x.ndim, "x", word_for(xp, "axis"))
    k = xp.integers(xp.detach(z).sum(axes) if axes else z, x)
    rows = checked(xp, x, k, temperature, axis, where, check, integer_k=True)
    chosen = rows.flatten(xp, z, "subset") > 0
    value, p, entropy = subset_sum(xp, rows)
    inner = xp.detach(xp.sum(xp.where(chosen, rows.x, 0), axis=-1))
    tau = rows.tau
    found = (inner - xp.detach(value)) / xp.detach(tau)

    def by_x() -> Any:
        return xp.where(chosen, 1 - p, -p) / as_column(tau)

    def by_tau() -> Any:
        held = xp.sum(xp.where(chosen & xp.isfinite(rows.x), rows.x, 0), axis=-1)
        return -((held - value) / tau + entropy()) / tau

    by = {"x": (rows.x, by_x), "tau": (tau, by_tau)}
    return rows.reduce(xp, xp.attach(found, by))


def sample_shares(
    xp: Adapter,
    p: Any,
    rng: Any,
    *,
    axis: Any = -1,
    draws: int | None = None,
    check: bool | None = None,
) -> Any:
    """Random subsets that contain each entry with the probability that it is given.

    It makes a soft selection hard without bias: the mean of what is returned is p.

    Parameters
    ----------
    p : array
        Shares in [0, 1], such as those of `soft_topk`.
    rng, draws
        As in `sample_topk`.
    axis : int, tuple of int, or None
        The axis or axes along which the shares belong together; None for all.
    check
        As in `soft_topk`.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `p`; constant under differentiation.  In a row whose shares sum to k, up to
        rounding, exactly k entries are 1; else as many as one of the two whole numbers
        beside the sum.

    Notes
    -----
    O(n) operations, in about log2 n steps one after the other: pivotal sampling as a
    tournament.  Two entries of a row are drawn together at most as often as if they
    were independent.
    """
    rows = finite_rows(xp, p, 1.0, axis, None, check, "p")
    shares = xp.detach(rows.x)
    in_range = (shares >= 0) & (shares <= 1)
    if xp.looks(rows.x, check):
        if not bool(in_range.all()):
            wrong = xp.to_numpy(shares)[~xp.to_numpy(in_range)]
            raise ValueError(f"p must hold shares in [0, 1], got {wrong[0]}")
    else:
        rows = rows.harmless(xp, xp.all(in_range, axis=-1))
        shares = xp.detach(rows.x)
    n = shares.shape[-1]
    lead = _lead(draws)
    size = 1 << (n - 1).bit_length()
    numbers = xp.uniform(rng, (*lead, *shares.shape[:-1], size), shares)
    return _shaped(xp, rows, xp.program(_tournament, shares, numbers), draws)


def _lead(draws: int | None) -> tuple[int, ...]:
    """The first axes of a result; an error unless it is a number of draws, or None."""
    if draws is None:
        return ()
    check_integer(draws, "draws", "an integer or None")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    return (draws,)


def _shaped(xp: Adapter, rows: Rows, drawn: Any, draws: int | None) -> Any:
    """The rows of every draw in the shape of the scores."""
    rows = rows if draws is None else rows.repeated(draws)
    return rows.expand(xp, drawn)


def _subsets(
    xp: Adapter, rows: Rows, k: Any, rng: Any, draws: int | None, check: bool | None
) -> Any:
    """Indicators of subsets, as rows of floats."""
    lead, x, tau = _lead(draws), xp.detach(rows.x), xp.detach(rows.tau)
    n, most = x.shape[-1], rows.x.shape[-1]
    if type(k) is int:
        most = k
    elif xp.looks(rows.x, check) and math.prod(rows.whole.shape):
        most = int(xp.to_numpy(rows.whole).max())
    most = max(1, min(most, n))
    # Any threshold gives the same law.  With this one the number of heads has the mean
    # k, so that no probability that is needed underflows.
    at = rows._replace(x=x, part=0 * rows.part, tau=tau)
    _, a, t = of_checked(xp, SIGMOID, at, check)
    a, t = xp.detach(a), xp.detach(t)
    size = 1 << (n - 1).bit_length()
    numbers = xp.uniform(rng, (*lead, *x.shape[:-1], size), x)
    count = xp.integers(rows.whole, x)
    return xp.program(with_k(_walk, most), x, a, t, tau, count, numbers)


def _walk(
    xp: Adapter, k: int, x: Any, a: Any, t: Any, tau: Any, count: Any, numbers: Any
) -> Any:
    """The subsets that random numbers in [0, 1) select, of at most k entries."""
    away = xp.where(x > -math.inf, distances(x, tau, a, t), -math.inf)
    top = away >= 0
    r = xp.sigmoid(-abs(away))  # the smaller of both chances of a coin, to all digits
    _, levels = products(xp, k, xp.where(top, r, 1 - r), xp.where(top, 1 - r, r))
    many, used = count[..., None], 0
    for level in levels[-2::-1]:
        half = level.shape[-2] // 2
        first, second = level[..., :half, :], level[..., half:, :]
        given = numbers[..., used : used + half]
        part = _split(xp, first, second, many, given)
        many, used = xp.concat([part, many - part], axis=-1), used + half
    many = xp.broadcast_to(many, (*numbers.shape[:-1], many.shape[-1]))
    return xp.astype(many[..., : x.shape[-1]], x.dtype)


def _split(xp: Adapter, first: Any, second: Any, count: Any, number: Any) -> Any:
    """How many of `count` the first of each pair of nodes gets."""
    rest = count[..., None] - xp.indices(first.shape[-1], number)
    inside = (rest >= 0) & (rest < second.shape[-1])
    index = xp.where(inside, rest, 0)
    while index.ndim > second.ndim:
        second = second[None]
    weight = xp.where(inside, first * xp.take(second, index), 0)
    total = xp.cumsum(weight)
    most = total[..., -1:]
    # `total < most` also where the product rounds up: what has no weight is never taken
    return xp.sum((total <= number[..., None] * most) & (total < most), axis=-1)


def _tournament(xp: Adapter, p: Any, numbers: Any) -> Any:
    """The subsets that random numbers in [0, 1) select, by pivotal sampling."""
    n, size, batch = p.shape[-1], numbers.shape[-1], numbers.shape[:-1]
    eps = float(xp.finfo(p.dtype).eps)
    zero = xp.zeros_like(p[..., :1])
    share = xp.concat([p, *[zero] * (size - n)], axis=-1) if size > n else p
    share = xp.broadcast_to(share, (*batch, size))
    player = xp.broadcast_to(xp.indices(size, p), (*batch, size))
    indices, outcomes, used = [], [], 0
    while share.shape[-1] > 1:
        half = share.shape[-1] // 2
        a, b = share[..., :half], share[..., half:]
        one, other = player[..., :half], player[..., half:]
        both = a + b
        low = both < 1
        of = xp.where(low, both, (1 - a) + (1 - b))
        chance = xp.where(low, a, 1 - b) / xp.where(of > 0, of, 1)
        ahead = numbers[..., used : used + half] < chance
        goes_on = low == ahead  # the first one, with what is left undecided
        indices.append(xp.where(goes_on, other, one))
        outcomes.append(xp.where(low, xp.zeros_like(both), 1))
        player = xp.where(goes_on, one, other)
        share = xp.where(low, both, xp.clip(a - (1 - b), 0, None))
        used += half
    # What is a whole number but for rounding is one.
    near = n * eps
    last = xp.where(share > 1 - near, 1, xp.where(share < near, 0, share))
    outcome = xp.where(numbers[..., used : used + 1] < last, xp.ones_like(share), 0)
    indices, outcomes = [*indices, player], [*outcomes, outcome]
    none = xp.zeros_like(numbers)
    found = xp.put(none, xp.concat(indices, axis=-1), xp.concat(outcomes, axis=-1))
    return found[..., :n]
