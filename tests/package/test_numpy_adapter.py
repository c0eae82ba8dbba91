"""NumPy as an adapter: what it declares, and what a call of it keeps and leaves out."""

import numpy as np
import pytest

import softtopk as stk
from softtopk import losses
from softtopk._adapters.numpy_adapter import Call
from softtopk._adapters.numpy_functions import NumPy
from softtopk._contract import Adapter
from softtopk._operators import hard_body, selection_body, simplex_body, sorting_body
from softtopk._operators import losses_body as shared

X = np.random.default_rng(0).normal(size=(3, 5))


def test_its_members_are_those_of_the_contract():
    declared = {*Adapter.__annotations__, *vars(Adapter)}
    own = {"run", "derivative"}  # how a public function calls it
    members = {name for kind in (NumPy, Call) for name in vars(kind)}
    assert {m for m in members - own if not m.startswith("_")} <= declared


@pytest.mark.parametrize(
    ("operator", "expected", "given"),
    [
        (selection_body.soft_topk, stk.soft_topk, (2.5,)),
        (hard_body.top_k, stk.top_k, (2,)),
        (hard_body.top_k, stk.top_k, ([1, 2, 3],)),
        (hard_body.top_k_sum, stk.top_k_sum, (2,)),
        (simplex_body.sparse_softmax, stk.sparse_softmax, (2,)),
        (simplex_body.log_softmax, stk.log_softmax, ()),
        (simplex_body.logsumexp, stk.logsumexp, ()),
        (sorting_body.soft_sort, stk.soft_sort, ()),
        (sorting_body.soft_rank, stk.soft_rank, ()),
    ],
)
def test_a_shared_body_gives_what_the_quick_way_gives(operator, expected, given):
    """Also where NumPy's public function has a quicker way of its own."""
    found = Call().run(operator, X, *given)
    np.testing.assert_allclose(found, expected(X, *given), 0, 1e-14)


def test_a_value_alone_calculates_no_slope():
    asked = []

    class Watched(Call):
        def attach(self, value, by):
            def slope(name, given):
                return lambda: asked.append(name) or given()

            by = {name: (v, slope(name, s)) for name, (v, s) in by.items()}
            return super().attach(value, by)

    call = Watched(precise=True)
    value = call.run(shared.top_k_loss, X, [0, 1, 2])
    np.testing.assert_array_equal(value, losses.top_k_loss(X, [0, 1, 2]))
    assert not asked
    call.derivative(value)
    assert asked == ["x"]
