"""An adapter needs what the contract declares, and nothing else."""

import inspect

import numpy as np
import pytest
import torch

import softtopk as stk
import softtopk.torch as stk_torch
from softtopk._adapters import jax_adapter, torch_adapter
from softtopk._adapters.base_adapter import Base
from softtopk._adapters.numpy_adapter import Call
from softtopk._contract import ONLY_IF, Adapter
from softtopk._operators import (
    balance_body,
    hard_body,
    losses_body,
    sampling_body,
    selection_body,
    simplex_body,
    sorting_body,
    subset_body,
)
from softtopk._rows import namespace

DECLARED = {
    name
    for name in {*Adapter.__annotations__, *vars(Adapter)}
    if not name.startswith("_")
}
DEFAULTS = {name for name in vars(Base) if not name.startswith("_")}
SPECIAL = {name for names in ONLY_IF.values() for name in names}
ADAPTERS = [torch_adapter.ADAPTER, jax_adapter.ADAPTER]
X = np.random.default_rng(0).standard_normal((4, 6))
TARGET = np.array([0, 5, 2, 3])


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda a: a.__name__)
def test_an_adapter_has_the_members_of_the_contract_and_no_other(adapter):
    members = {name for name in dir(adapter) if not name.startswith("_")}
    assert DECLARED - members <= SPECIAL
    assert members - DECLARED <= {"abs"}  # for the curves, as NumPy's


def test_a_member_that_another_asks_for_is_there():
    for asks, names in ONLY_IF.items():
        for adapter in (*ADAPTERS, Call):
            default = inspect.getattr_static(Base, asks)
            asked = inspect.getattr_static(adapter, asks) is not default
            assert {hasattr(adapter, name) for name in names} == {asked}, (
                adapter,
                asks,
            )


@pytest.mark.parametrize("name", sorted(DECLARED & {*vars(Adapter)}))
def test_a_member_with_arguments_is_documented(name):
    assert inspect.getdoc(getattr(Adapter, name))


@pytest.fixture
def toy(monkeypatch):
    """PyTorch's required members alone, and the search over sums in their words."""
    real = torch_adapter.ADAPTER
    members = {
        name: inspect.getattr_static(real, name)
        for name in DECLARED - DEFAULTS - SPECIAL
    }
    toy = type("Toy", (Base,), members)
    libraries = [
        (kind, toy if found is real else found) for kind, found in namespace._LIBRARIES
    ]
    monkeypatch.setattr(namespace, "_LIBRARIES", libraries)
    return toy


CALLS = {
    "soft_topk": ((2.5,), {}),
    "threshold": ((2.5, "clip"), {}),
    "top_k": ((2,), {}),
    "top_k_indices": ((2,), {}),
    "top_k_sum": (([1, 2, 3, 2.5],), {}),
    "grad_topk": ((2,), {}),
    "log_partition": ((2,), {}),
    "pair_marginals": ((2,), {}),
    "softmax": ((), {}),
    "log_softmax": ((), {}),
    "logsumexp": ((), {}),
    "sparsemax": ((), {}),
    "entmax": ((1.3,), {}),
    "taylor_softmax": ((4,), {}),
    "sparse_softmax": ((2,), {}),
    "soft_permutation": ((3,), {}),
    "soft_sort": (("sigmoid",), {}),
    "soft_rank": ((), {}),
    "balanced_topk": ((3,), {"temperature": 0.5}),
    "cross_entropy": ((TARGET,), {}),
    "am_softmax_loss": ((TARGET, 0.1), {}),
    "sparse_softmax_loss": ((TARGET, 6), {}),
    "entmax_loss": ((TARGET,), {}),
    "sparsemax_loss": ((TARGET,), {}),
    "in_top_k_loss": ((TARGET, 2), {}),
    "potential": ((2, "triangular"), {}),
    "top_k_loss": ((TARGET,), {}),
    "stop_gradient_loss": ((TARGET,), {}),
    "subset_log_prob": ((stk.top_k(X, 2),), {}),
}
DRAWS = {
    "sample_topk": (X, (2, 7), {"draws": 3}),
    "sample_topk_st": (X, (2, 7), {}),
    "sample_shares": (stk.soft_topk(X, 2.5), (7,), {"draws": 3}),
}
PARTS = (
    selection_body,
    hard_body,
    subset_body,
    simplex_body,
    sorting_body,
    balance_body,
    losses_body,
    sampling_body,
)


def test_the_calls_are_complete():
    names = {name for part in PARTS for name in part.__all__}
    assert {*CALLS, *DRAWS} == names - {"top_k_st"}


@pytest.mark.parametrize("name", ["soft_topk", "threshold", "top_k"])
def test_the_declared_members_are_enough_for_costs(toy, name):
    part = next(part for part in PARTS if name in part.__all__)
    cost = np.array([1.0, 2.0, 4.0, 0.5, 1.0, 3.0])
    for per in ("entry", "cost"):
        given = {"cost": cost, "per": per}
        found = getattr(part, name)(toy, torch.tensor(X), 2.5, **given, check=False)
        np.testing.assert_allclose(
            found.numpy(), getattr(stk, name)(X, 2.5, **given), 1e-12, 1e-12
        )


@pytest.mark.parametrize("name", CALLS)
def test_the_declared_members_are_enough(toy, name):
    part = next(part for part in PARTS if name in part.__all__)
    args, given = CALLS[name]
    core = getattr(stk, name, None) or getattr(stk.losses, name)
    own = [torch.tensor(v) if isinstance(v, np.ndarray) else v for v in args]
    found = getattr(part, name)(toy, torch.tensor(X), *own, **given, check=False)
    expected = core(X, *args, **given)
    np.testing.assert_allclose(found.numpy(), expected, 1e-12, 1e-12)


@pytest.mark.parametrize("name", DRAWS)
def test_the_declared_members_are_enough_for_draws(toy, name):
    """With a seed they are PyTorch's own; NumPy's generator gives other numbers."""
    x, args, given = DRAWS[name]
    x = torch.tensor(x)
    expected = getattr(stk_torch, name)(x, *args, **given)
    found = getattr(sampling_body, name)(toy, x, *args, **given, check=False)
    assert (found == expected).all() and 0 < found.sum() < found.numel()
