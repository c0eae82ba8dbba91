"""The operators need of a library what the array API standard has, and the contract.

`array_api_strict` has nothing else, and mixes no integers and floats: where it runs an
operator, any library of the standard does, with an adapter like the one below.
"""

from types import SimpleNamespace

import array_api_strict as api
import numpy as np
import pytest
from test_contract import CALLS, PARTS

import softtopk as stk
from softtopk._adapters.base_adapter import Base
from softtopk._rows import namespace
from softtopk._rules.sorting_rule import SortedRows
from softtopk._search import balance_search, costs_search, selection_search

X = np.random.default_rng(0).standard_normal((4, 6))


def as_numpy(x):
    """The values, for what the standard has no function for."""
    return np.asarray(x)


def same(name):
    return staticmethod(getattr(api, name))


class Strict(Base):
    """The required members, over the standard's functions."""

    arccos, atan2, ceil, cos = same("acos"), same("atan2"), same("ceil"), same("cos")
    exp, expm1, floor, hypot = map(same, ("exp", "expm1", "floor", "hypot"))
    isfinite, log, log1p, maximum = map(same, ("isfinite", "log", "log1p", "maximum"))
    minimum, remainder, sin, sqrt = map(same, ("minimum", "remainder", "sin", "sqrt"))
    abs, clip, concat, linalg = same("abs"), same("clip"), same("concat"), api.linalg
    broadcast_shapes = staticmethod(np.broadcast_shapes)
    broadcast_to, full_like = same("broadcast_to"), same("full_like")
    matrix_transpose, moveaxis = same("matrix_transpose"), same("moveaxis")
    ones_like, reshape, zeros_like = map(same, ("ones_like", "reshape", "zeros_like"))
    bool_ = api.bool

    @staticmethod
    def finfo(dtype):
        info = api.finfo(dtype)
        return SimpleNamespace(max=info.max, eps=info.eps, tiny=info.smallest_normal)

    sigmoid = staticmethod(lambda x: 1 / (1 + api.exp(-x)))
    all = staticmethod(lambda x, axis=-1: api.all(x, axis=axis))
    argmax = staticmethod(lambda x: api.argmax(x, axis=-1))
    max = staticmethod(lambda x, axis=None: api.max(x, axis=axis))
    min = staticmethod(lambda x, axis=None: api.min(x, axis=axis))
    cumsum = staticmethod(lambda x: api.cumulative_sum(Strict.counted(x), axis=-1))
    arange = staticmethod(lambda a, b, like: api.arange(a, b, dtype=like.dtype))
    eye = staticmethod(lambda n, like: api.eye(n, dtype=like.dtype))
    indices = staticmethod(lambda n, like: api.arange(n))
    asarray = staticmethod(lambda value, like=None: api.asarray(value))
    astype = staticmethod(lambda x, dtype: api.astype(x, dtype))
    to_numpy, is_array = (
        staticmethod(as_numpy),
        staticmethod(lambda v: isinstance(v, Array)),
    )
    refuse = staticmethod(lambda x, name: None)
    integer_key = staticmethod(lambda x, dtype: None)
    is_floating = staticmethod(lambda x: api.isdtype(x.dtype, "real floating"))
    is_real = staticmethod(lambda x: x.dtype != api.bool)
    looks = staticmethod(lambda x, check: check is not False)
    hold = staticmethod(lambda x, in_range: api.where(in_range, x, 0.0))
    spoil = staticmethod(
        lambda x, in_range, value=False: api.where(in_range, x, np.nan)
    )
    detach = staticmethod(lambda x: x)
    attach = staticmethod(lambda value, by: value)
    take = staticmethod(lambda x, index: api.take_along_axis(x, index, axis=-1))

    @staticmethod
    def descending(x):
        order = api.argsort(x, axis=-1, descending=True)
        return api.take_along_axis(x, order, axis=-1), order

    program = staticmethod(lambda f, *args: f(Strict, *args))

    @staticmethod
    def counted(x):
        return api.astype(x, api.int64) if x.dtype == api.bool else x

    @staticmethod
    def sum(x, axis=-1):
        return api.sum(Strict.counted(x), axis=axis)

    @staticmethod
    def where(condition, yes, no):
        if not (Strict.is_array(yes) or Strict.is_array(no)):
            raise TypeError("the contract allows one number")
        return api.where(condition, yes, no)

    @staticmethod
    def softmax(x):
        e = api.exp(x)
        return e / api.sum(e, axis=-1, keepdims=True)

    @staticmethod
    def integers(values, like):
        return api.astype(api.asarray(values), api.int64)

    @staticmethod
    def numbers(values, like):
        return api.astype(api.asarray(values), like.dtype)

    @staticmethod
    def floating(x, name):
        x = x if Strict.is_floating(x) else api.astype(x, api.float64)
        return x, x.dtype

    @staticmethod
    def largest(x, k):
        return api.sort(x, axis=-1, descending=True)[..., k - 1]

    @staticmethod
    def ordered(x, place):
        found = api.sort(x, axis=-1, descending=True)
        return Strict.take(found, place[..., None] - 1)[..., 0]

    @staticmethod
    def leading(x, k):
        order = api.argsort(x, axis=-1, descending=True, stable=True)
        return order[..., :k]

    @staticmethod
    def running_max(x):
        return api.asarray(np.maximum.accumulate(as_numpy(x), axis=-1))

    @staticmethod
    def scatter(values, index, n):
        found = api.arange(n)[:, None] == index[..., None, :]
        values = Strict.counted(found) if values is None else values[..., None, :]
        return api.sum(api.where(found, values, api.zeros_like(values)), axis=-1)

    @staticmethod
    def put(x, index, values):
        n = x.shape[-1]
        return api.where(
            Strict.scatter(None, index, n) > 0, Strict.scatter(values, index, n), x
        )

    @staticmethod
    def loop(going, step, state):
        while going(*state):
            state = step(*state)
        return state

    @staticmethod
    def select(curve, rows, check, shares=False):
        return selection_search.selected(curve, *rows[:4], False)

    @staticmethod
    def arrange(what, curve, x, tau, check):
        return getattr(SortedRows(Strict, curve, x, tau), what)()

    @staticmethod
    def spend(call, x, whole, part, c, tau):
        return costs_search.spent(call, x, whole, part, c, tau)

    @staticmethod
    def balance(call, x, k, c, tau):
        u = balance_search.balanced(call, x, k, c, tau)
        return balance_search.balanced_shares(call.curve, u)


Array = type(api.asarray(0.0))


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """The methods of arrays that the contract allows, which the standard lacks."""
    methods = {
        "sum": lambda x, axis=None: Strict.sum(x, axis),
        "all": lambda x, axis=None: Strict.all(x, axis),
        "any": lambda x, axis=None: api.any(x, axis=axis),
        "reshape": lambda x, *shape: api.reshape(
            x, shape[0] if isinstance(shape[0], tuple) else shape
        ),
        "swapaxes": lambda x, a, b: api.matrix_transpose(x),
    }
    for name, method in methods.items():
        monkeypatch.setattr(Array, name, method, raising=False)
    width = property(lambda t: np.dtype(t._np_dtype).itemsize)
    monkeypatch.setattr(type(api.float64), "itemsize", width, raising=False)
    monkeypatch.setattr(
        namespace, "_LIBRARIES", [(Array, Strict), *namespace._LIBRARIES]
    )


@pytest.mark.parametrize("per", ["entry", "cost"])
@pytest.mark.parametrize("name", ["soft_topk", "threshold", "top_k", "top_k_st"])
def test_costs_run_on_the_standard_alone(name, per):
    part = next(part for part in PARTS if name in part.__all__)
    cost = np.array([1.0, 2.0, 4.0, 0.5, 1.0, 3.0])
    given = {"cost": cost, "per": per}
    with np.errstate(all="ignore"):
        found = getattr(part, name)(Strict, api.asarray(X), 2.5, **given)
    expected = getattr(stk, name.removesuffix("_st"))(X, 2.5, **given)
    np.testing.assert_allclose(as_numpy(found), expected, 1e-12, 1e-12)


@pytest.mark.parametrize("name", [*CALLS, "top_k_st"])
def test_an_operator_runs_on_the_standard_alone(name):
    part = next(part for part in PARTS if name in part.__all__)
    args, given = CALLS.get(name, ((2,), {}))
    public = name.removesuffix("_st")  # without derivatives it is `top_k`
    core = getattr(stk, public, None) or getattr(stk.losses, public)
    own = [api.asarray(v) if isinstance(v, np.ndarray) else v for v in args]
    with np.errstate(all="ignore"):  # its arrays are NumPy's, whose operators are quiet
        found = getattr(part, name)(Strict, api.asarray(X), *own, **given)
    np.testing.assert_allclose(as_numpy(found), core(X, *args, **given), 1e-12, 1e-12)
