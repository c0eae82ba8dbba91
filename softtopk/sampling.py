r"""Random subsets: of k entries, or with given probabilities for each entry.

`sample_topk` draws a subset S of k entries with the law behind `grad_topk`,

.. math:: P(S)\propto\exp\Bigl(\sum_{i\in S}x_i/\tau\Bigr),\qquad
          P(i\in S)=\operatorname{GradTopK}(x/\tau)_i,

and `subset_log_prob` gives its probability.  `sample_shares` draws subsets in which
each entry has a given probability, such as the shares of `soft_topk`: their mean is the
soft selection.  *selection/subsets* derives both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import Call, differentiable
from ._linearize import Differentiable, operator
from ._operators import sampling_body as shared
from ._rows.numpy_rows import Array, Axis, quiet

__all__ = ["sample_shares", "sample_topk", "subset_log_prob"]


@quiet()
def sample_topk(
    x: ArrayLike,
    k: ArrayLike,
    rng: np.random.Generator | int,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
    draws: int | None = None,
    empty: str = "raise",
) -> Array:
    r"""Random subsets of k entries, :math:`P(S)\propto\exp\sum_{i\in S}x_i/\tau`.

    Parameters
    ----------
    x, k, temperature, axis, where, empty
        As in `grad_topk`, whose shares are the probabilities that an entry is drawn.
    rng : numpy.random.Generator or int
        Where the random numbers come from; an integer is a seed.  The same generator in
        the same state gives the same subsets.
    draws : int, optional
        How many subsets to draw for each row, along a new first axis; without it one
        for each row, and no such axis.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `x`, or of its broadcast against `k`.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type or is out of range; the message names it.

    See Also
    --------
    subset_log_prob : the logarithm of the probability of a subset.
    sample_shares : subsets with any given shares.

    Notes
    -----
    O(nk) operations and memory for each row, and O(n log n) more for each further draw.
    The probabilities are exact up to the rounding of n operations, and resolved to
    2^-53 by the random numbers.

    References
    ----------
    *selection/subsets*; X.-H. Chen, A. P. Dempster, J. S. Liu, "Weighted finite
    population sampling to maximize entropy", Biometrika 1994.

    Examples
    --------
    >>> import softtopk as stk
    >>> x = [2.0, 1.0, 0.0, -1.0]
    >>> stk.sample_topk(x, 2, rng=1).tolist()
    [1.0, 1.0, 0.0, 0.0]
    >>> means = stk.sample_topk(x, 2, rng=0, draws=10000).mean(axis=0)
    >>> bool(abs(means - stk.grad_topk(x, 2)).max() < 0.02)
    True
    """
    given: dict[str, Any] = {"axis": axis, "where": where, "empty": empty}
    given |= {"temperature": temperature, "draws": draws}
    return Call().run(shared.sample_topk, x, k, rng, **given)


@quiet()
def sample_shares(
    p: ArrayLike,
    rng: np.random.Generator | int,
    *,
    axis: Axis = -1,
    draws: int | None = None,
) -> Array:
    """Random subsets that contain each entry with the probability that it is given.

    It makes a soft selection hard without bias: the mean of what is returned is p.

    Parameters
    ----------
    p : array_like
        Shares in [0, 1], such as those of `soft_topk`.
    rng, draws
        As in `sample_topk`.
    axis : int, tuple of int, or None
        The axis of the shares; several hold one row together, None means all.

    Returns
    -------
    array
        1 for the entries that are drawn, 0 for the others, of the shape and type of
        `p`.  In a row whose shares sum to k, up to rounding, exactly k entries are 1;
        else as many as one of the two whole numbers beside the sum.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type or is out of range; the message names it.

    See Also
    --------
    sample_topk : subsets of the law whose shares are those of `grad_topk`.

    Notes
    -----
    O(n) operations for each draw: pivotal sampling as a tournament.  Two entries of a
    row are drawn together at most as often as if they were independent, so that a sum
    of the selected values of one sign varies no more than with independent entries.

    References
    ----------
    *selection/subsets*; J.-C. Deville, Y. Tille, "Unequal probability sampling without
    replacement through a splitting method", Biometrika 1998.

    Examples
    --------
    >>> import softtopk as stk
    >>> p = stk.soft_topk([3.0, 1.0, 0.0, 0.0], 2)
    >>> hard = stk.sample_shares(p, rng=0, draws=20000)
    >>> hard[0].tolist(), set(hard.sum(axis=-1).tolist())
    ([1.0, 0.0, 1.0, 0.0], {2.0})
    >>> bool(abs(hard.mean(axis=0) - p).max() < 0.02)
    True
    """
    return Call().run(shared.sample_shares, p, rng, axis=axis, draws=draws)


@operator
def subset_log_prob(
    x: ArrayLike,
    subset: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Differentiable[Any]:
    r"""The log-probability of subsets under the law of `sample_topk`.

    :math:`\log P(S)=\sum_{i\in S}x_i/\tau-\log Z_k(x/\tau)` for the number k of entries
    of S.

    Parameters
    ----------
    x, temperature, axis, where
        As in `grad_topk`.
    subset : array_like
        1 or True for the entries of the subset, 0 or False for the others, of the shape
        of `x`.

    Returns
    -------
    float or array
        One number for each row; -inf for a subset with an entry that takes no part.
        Gradient: the subset less `grad_topk`, over the temperature.

    Raises
    ------
    TypeError, ValueError
        If an argument has a wrong type or is out of range; the message names it.

    Notes
    -----
    O(n) time.  The error is a few eps times the size of the scores selected, over the
    temperature, plus k.  The score-function estimator of the gradient of a mean of f is
    f(S) times the gradient of this function: unbiased, whatever f is.

    References
    ----------
    *selection/subsets*.

    Examples
    --------
    Four equal scores have six pairs.

    >>> import math
    >>> import softtopk as stk
    >>> found = stk.subset_log_prob([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 1])
    >>> math.isclose(found, -math.log(6))
    True
    """
    how: dict[str, Any] = {"temperature": temperature, "axis": axis, "where": where}
    return differentiable(shared.subset_log_prob, x, subset, **how)
