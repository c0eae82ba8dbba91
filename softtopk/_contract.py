"""The interface of an adapter: all that the operators, searches and losses call.

An adapter is a class whose members are called without an instance.  Arrays have the
batch first and the entries of a row along the last axis, ``(..., n)``; an array with
one number for each row is ``(...)``.  Arrays may be traced (under jit, vmap or a
compiler).  So an operator must not read a value, a truth value or a length that depends
on values unless `looks` returns True; then it may call ``bool`` or `to_numpy`.  Besides
these members the operators use of an array only arithmetic, comparison, ``~ & |``,
indexing by ``...``, ``None`` and slices, ``ndim``, ``shape``, ``dtype``,
``dtype.itemsize``, ``reshape``, ``swapaxes``, ``sum``, ``all`` and ``any``.

An adapter derives from `_adapters.base_adapter.Base`, which has a default for every
member that most libraries need not offer, and no operator asks whether a member is
there.  The adapters in `tests/frameworks/test_contract.py` have these members only.

`softtopk._rows.namespace` finds the adapter of an array for the curves and the search,
which take no adapter as an argument: `register` it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # so that rows, on which the curves build, can name an adapter
    from .curves import Curve, Entmax

ONLY_IF = {
    "own_rows": ("rows", "cost_rows", "partition"),
    "in_memory": ("blocks", "runs"),
    "select_method": ("simplex",),
}
"""An adapter has the members on the right exactly if it overrides the one on the left.

That is, if it sets `own_rows` or `in_memory` to True, or defines `select_method`.

`number` and `simplex` are called only if `select_method` says `numbers`, and `simplex`
not for `raw` scores.
"""


class SelectMethod(NamedTuple):
    """How an adapter selects from scores, which decides what their rows hold.

    Attributes
    ----------
    numbers : bool
        Whether a budget and a temperature that are Python numbers may stay so, if the
        rows have one temperature.  This temperature then becomes a Python number too,
        unless it is an array that has a derivative.
    raw : bool
        Whether `select` takes scores of 16 bits without conversion, with the numbers of
        a row `in_working_type`, and makes the results of a row out of range NaN.
    scheme : optional
        How the curve is summed, if the adapter has found this out and its `select` is
        to use it.
    """

    numbers: bool = False
    raw: bool = False
    scheme: Any = None


class Adapter(Protocol):
    """One array library.  A member without a docstring is that of NumPy."""

    words: Any
    """The library's own names of arguments, where they differ from NumPy's."""
    own_rows: Any
    """Whether the adapter makes the rows of a call itself, with all values checked."""
    in_memory: Any
    """Whether values may be read at any time, and reading them costs nothing."""
    has_derivatives: Any
    """Whether the library differentiates; where not, `attach` keeps the slopes."""
    promotes: Any
    """Whether an array of integers becomes floats by itself where it meets floats."""

    # Functions of every entry, differentiable where NumPy's are smooth.
    arccos: Any
    atan2: Any
    """The angle of (y, x), as NumPy's arctan2."""
    ceil: Any
    clip: Any
    """Between a least and a largest value, each a number, an array or None."""
    cos: Any
    exp: Any
    expm1: Any
    """Accurate near 0, also when compiled."""
    floor: Any
    hypot: Any
    """At most one argument is infinite."""
    isfinite: Any
    log: Any
    log1p: Any
    """Accurate near 0, also when compiled."""
    maximum: Any
    minimum: Any
    remainder: Any
    sigmoid: Any
    sin: Any
    sqrt: Any
    where: Any
    """One of the two values may be a number."""

    # Reductions along one axis.  `max` and `min` without an axis, and `sum` with the
    # axis None, reduce over all entries.
    all: Any
    argmax: Any
    cumsum: Any
    """Of booleans, it returns integers."""
    max: Any
    min: Any
    softmax: Any
    """Of rows whose largest entry is 0."""
    sum: Any

    # Shapes and types.
    bool_: Any
    """The type of booleans."""
    broadcast_shapes: Any
    broadcast_to: Any
    concat: Any
    """Arrays joined along an axis."""
    finfo: Any
    full_like: Any
    linalg: Any
    """With `solve`, which does not test whether the matrix is singular."""
    matrix_transpose: Any
    moveaxis: Any
    ones_like: Any
    reshape: Any
    zeros_like: Any

    def arange(self, start: int, stop: int, like: Any) -> Any:
        """Whole numbers in the type and on the device of `like`."""

    def eye(self, n: int, like: Any) -> Any:
        """The identity matrix in the type and on the device of `like`."""

    def indices(self, n: int, like: Any) -> Any:
        """0, ..., n - 1 as integers on the device of `like`."""

    def integers(self, values: Any, like: Any) -> Any:
        """A number or an array as integers on the device of `like`."""

    def numbers(self, values: Any, like: Any) -> Any:
        """A number or an array of any kind in the type and on the device of `like`."""

    def asarray(self, value: Any, like: Any = None) -> Any:
        """An array of this library from one, or from what NumPy would take."""

    def astype(self, x: Any, dtype: Any) -> Any:
        """The array in another type; the array itself if it has that type."""

    def traced(self, values: Any, like: Any) -> Any:
        """An array of this library, where a compiler cannot trace NumPy's arrays."""

    def replicate(self, value: Any, like: Any, name: str = "") -> Any:
        """Numbers for each row, on every device that holds a part of `like`.

        An array that cannot be used there raises an error with its `name`.
        """

    def floating(self, x: Any, name: str) -> tuple[Any, Any]:
        """Scores in the type to calculate with, and the type of the results.

        A TypeError names complex scores.
        """

    def integer_key(self, x: Any, dtype: Any) -> Any:
        """Integers in the order of x, and the least that their type holds.

        None for scores of a type whose numbers floats of this `dtype` all hold.
        """

    def refuse(self, x: Any, name: str) -> None:
        """A TypeError for an array with which the operators cannot calculate."""

    def is_array(self, value: Any) -> bool:
        """Whether a value is an array of this library, traced or not."""

    def is_floating(self, x: Any) -> bool:
        """Whether an array holds floats."""

    def is_real(self, x: Any) -> bool:
        """Whether an array holds integers or floats, and not booleans."""

    def to_numpy(self, x: Any) -> Any:
        """The values of an array for which `looks` is True."""

    def looks(self, x: Any, check: bool | None) -> bool:
        """Whether the values of x may be read, in order to check them.

        `check` is the argument of the operator.  None leaves the choice to the adapter,
        and True raises an error for an array that is traced.
        """

    def hold(self, x: Any, in_range: Any) -> Any:
        """x where it is in range, and elsewhere 0, with the derivative of x everywhere.

        A row out of range becomes NaN in the end, by `spoil`.  So its derivative
        has to reach x, where NaN belongs; and it stays in its row, as `hold` is applied
        to rows and to numbers for each row.
        """

    def spoil(self, x: Any, in_range: Any, value: bool = False) -> Any:
        """x where it is in range, and elsewhere NaN.

        x is a result, if it is a `value`, or else a tangent or a gradient, of which an
        entry of 0 stays 0.  The derivative of `spoil` is `spoil` of the tangent or the
        gradient, never as a `value`: so nothing that has no part in a row out of range
        gets NaN from it.
        """

    def detach(self, x: Any) -> Any:
        """The same values, constant under differentiation."""

    def largest(self, x: Any, k: int) -> Any:
        """The k-th largest entry of each row; k is at least 1."""

    def ordered(self, x: Any, place: Any) -> Any:
        """The k-th largest entry of each row, for k in `place`, ``(...)`` integers."""

    def leading(self, x: Any, k: int) -> Any:
        """The indices of the k largest entries of each row, the largest first.

        Among equal entries the first comes first; k is at most the length of the row.
        """

    def uniform(self, rng: Any, shape: tuple[int, ...], like: Any) -> Any:
        """Random numbers in [0, 1) in the type and on the device of `like`.

        A TypeError names `rng` if they cannot come from it.
        """

    def highest(self, x: Any, k: int) -> Any:
        """The indices of the k largest entries of each row, in any order."""

    def take(self, x: Any, index: Any) -> Any:
        """The entries of each row at these indices, ``(..., m)`` integers."""

    def put(self, x: Any, index: Any, values: Any) -> Any:
        """The rows with these values, or this number, at these different indices."""

    def restore(self, values: Any, permutation: Any) -> Any:
        """The rows with these values at the indices `permutation`, all of them."""

    def scatter(self, values: Any, index: Any, n: int) -> Any:
        """The sums ``(..., n)`` of the values of each row that have the same index.

        Without values, their numbers as integers.
        """

    def running_max(self, x: Any) -> Any:
        """The largest entry up to each entry of a row; it needs no derivative."""

    def descending(self, x: Any) -> Any:
        """The entries of each row, the largest first, and their indices.

        Equal entries come in any order.
        """

    def entrywise(self, f: Callable[..., Any], *arrays: Any) -> Any:
        """f of the arrays, which works entry by entry, in pieces that fit the cache."""

    def recur(self, steps: Any, values: Any, back: bool) -> Any:
        """The sums of values over the points up to each, or from it on, times decays.

        `steps` are the decays over 1, 2, 4, ... points as `all_thresholds.terms_of`, or
        with None for s.
        """

    def runs(self, index: Any, n: int) -> Any:
        """`scatter` to ascending indices, as a function; long runs lose no accuracy."""

    def blocks(self, points: Any, tau: Any, ways: Any, whole: bool) -> Any:
        """The blocks of a line, with the members of `all_thresholds.Blocks`.

        A line that is not cut has no `ends`, and `inner` returns its sums.  It may be
        cut also if it is short enough to be `whole`.
        """

    def loop(
        self, going: Callable[..., Any], step: Callable[..., Any], state: Any
    ) -> Any:
        """The state, nested tuples of arrays, after steps while `going` is true.

        The adapter may make more steps, which leave the state as it is.
        """

    def program(self, f: Callable[..., Any], *args: Any) -> Any:
        """f(adapter, *args), compiled as one program if that is quicker."""

    def attach(self, value: Any, by: dict[str, tuple[Any, Any]]) -> Any:
        """The value ``(...)`` with the derivatives that it is given.

        `by` maps "x", "k" or "tau" to the input and a function that calculates the
        slope by it, which may be differentiated again: ``(..., n)`` by x, ``(...)`` by
        the others.
        """

    def number(self, value: Any) -> Any:
        """A Python float for an array of one float that needs no derivative.

        Any other value is returned as it is.
        """

    def loss_type(self, dtype: Any, like: Any) -> Any:
        """The type in which the library returns a loss of scores of this type."""

    def select_method(self, x: Any, curve: Curve, check: bool | None) -> SelectMethod:
        """How `select` takes these scores."""

    def in_working_type(self, x: Any) -> Any:
        """An array of the type in which `select` computes with raw scores x."""

    def rows(self, asked: Any) -> Any:
        """Rows with checked values, in place of `adapter_rows.checked_asked`."""

    def select(
        self, curve: Curve, rows: Any, check: bool | None, shares: bool = False
    ) -> tuple[Any, Any, Any]:
        """Shares ``(..., n)``, anchors and offsets ``(...)``.

        They are those of `selection_search.selected`, and their derivatives
        `push_selection` and `pull_selection` of `selection_rule`.
        With `shares` the anchors and the offsets need none.
        """

    def exported(self) -> bool:
        """Whether a program is traced for a runtime that lacks some operations."""

    def arrange(
        self, what: str, curve: Curve, x: Any, tau: Any, check: bool | None
    ) -> Any:
        """The "sort" or "ranks" of `sorting_rule.SortedRows`, for exponential curves.

        Its derivatives are those of `moved_sort` and `moved_ranks`.
        """

    def spend(
        self, options: Any, x: Any, whole: Any, part: Any, c: Any, tau: Any
    ) -> tuple[Any, Any, Any]:
        """Shares ``(..., n)``, anchors and offsets ``(...)``: `costs_search.spent`.

        Its derivatives are `push_costs` and `pull_costs` of `costs_rule`.
        """

    def cost_rows(self, asked: Any) -> Any:
        """Checked rows with their costs, in place of `costs_body.checked_costs`."""

    def balance(self, options: Any, x: Any, k: Any, c: Any, tau: Any) -> Any:
        """Shares ``(..., m, n)`` with both budgets, m >= n: `balance_search.balanced`.

        Its derivatives are `push_balance` and `pull_balance` of `balance_rule`.
        """

    def partition(self, rows: Any) -> tuple[Any, Any]:
        """`log_partition` of rows and its derivative by the scores, without `program`.

        In place of `subset_law.solved_law` and `subset_law.partition`.
        """

    def is_divided(self, x: Any) -> bool:
        """Whether devices hold parts of x, and `highest` and `put` do not take it."""

    def quotient(self, k: int, x: Any, own: Any, tau: Any) -> Any:
        """The fields `log` and `some` of `polynomials.Quotient`, and its slopes.

        None if the library has no quicker way than `polynomials.quotient`.
        """

    def weights(self, k: int, away: Any, tau: Any) -> Any:
        """`polynomials.weights`; it may overwrite `away`."""

    def horner(self, terms: list[Any], weight: Any) -> Any:
        """`polynomials.horner`."""

    def over_nodes(self, term: Callable[..., Any], entries: Any, numbers: Any) -> Any:
        """The sums over l of the arrays ``(..., n)`` of term(*entries, *numbers).

        The numbers are ``(..., M)``, and `term` gets those of a node as ``(..., 1)``.
        By default arrays ``(..., M, n)`` are summed.
        """

    def over_entries(self, term: Callable[..., Any], entries: Any, numbers: Any) -> Any:
        """The sums ``(..., M)`` over the entries of the arrays that `term` returns."""

    def constant(self, f: Callable[..., Any], *args: Any) -> Any:
        """`program` for a search, whose result has no derivative.

        The result is one number for each row.  The arrays are rows, and numbers for
        each row, of the same batch.
        """

    def subset(self, x: Any, whole: Any, part: Any, tau: Any) -> Any:
        """The fields of `subset_law.SubsetLaw`, whose p has the derivative of
        `subset_rule.product`.

        By default p is differentiated operation by operation.
        """

    def simplex(self, x: Any, curve: Entmax, tau: float) -> Any:
        """The shares of entmax where `select_method` says `numbers`, and not `raw`."""

    def stored(self, value: Any) -> Any:
        """The value, which a compiler must materialise, not recompute at each use."""

    def peak(self, x: Any) -> Any:
        """The largest entry of each row, which is inf or NaN if one is NaN.

        XLA's maximum of a long row ignores NaN.
        """

    def after(self, value: Any, total: Any) -> Any:
        """The value, calculated after the total: keeps a compiler from fusing both."""

    def either(self, x: Any, unguarded: Any, masked: Any) -> Any:
        """unguarded(x, top, least) where that saves time, and otherwise masked(x).

        `unguarded` is called only if no entry is -inf and no sum over a row overflows.
        """
