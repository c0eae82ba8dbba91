"""What a training run meets: cooling, empty batches, bad rows, compilers, devices."""

import copy
import io

import numpy as np
import pytest
import torch

import softtopk.torch as stk

ROWS = np.random.default_rng(0).standard_normal((4, 6))


def scores(dtype=torch.double):
    return torch.tensor(ROWS, dtype=dtype)


def test_a_setting_of_a_module_is_an_attribute():
    layer, x = stk.SoftTopK(2), scores()
    layer.temperature, layer.k, layer.curve, layer.dim = 0.1, 3, "exp", 0
    given = {"curve": "exp", "temperature": 0.1, "dim": 0}
    assert torch.equal(layer(x), stk.soft_topk(x, 3, **given))
    assert repr(layer) == "SoftTopK(k=3, curve='exp', temperature=0.1, dim=0)"
    assert torch.equal(layer(x, k=1), stk.soft_topk(x, 1, **given))
    entmax = stk.Entmax()
    entmax.alpha = 2.0
    assert torch.equal(entmax(x), stk.sparsemax(x))


def test_a_tensor_is_a_buffer_and_a_parameter_is_one():
    k = torch.tensor([1, 2, 3, 4])
    layer = stk.SoftTopK(k, temperature=torch.nn.Parameter(torch.tensor(0.5)))
    assert [*layer.state_dict()] == ["temperature", "k"]
    assert [name for name, _ in layer.named_parameters()] == ["temperature"]
    shown = "k=tensor(shape=(4,)), curve='laplace', temperature=Parameter(0.5), dim=-1"
    assert repr(layer) == f"SoftTopK({shown})"
    layer.to(torch.double).to("meta")
    assert layer.k.is_meta and layer.temperature.is_meta
    assert layer.temperature.dtype == torch.double
    assert "temperature=Parameter(shape=())" in repr(layer)
    with pytest.raises(TypeError, match="Parameter"):
        layer.temperature = 0.1  # an optimizer holds it


@pytest.mark.parametrize("first", [1.0, torch.tensor(1.0, dtype=torch.double)])
def test_a_temperature_becomes_a_buffer_when_a_tensor_is_assigned(first):
    layer, x = stk.Threshold(2, temperature=first), scores()
    layer.temperature = torch.tensor(0.5, dtype=torch.double)
    assert [*layer.state_dict()] == ["temperature"]
    layer.temperature = 0.25
    assert layer.temperature.dtype == torch.double
    assert torch.equal(layer(x), stk.threshold(x, 2, temperature=0.25))
    other = stk.Threshold(2, temperature=torch.tensor(1.0, dtype=torch.double))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer(x))
    layer.temperature = torch.nn.Parameter(torch.tensor(2.0))
    assert [name for name, _ in layer.named_parameters()] == ["temperature"]


def test_a_whole_budget_in_a_buffer_may_be_replaced_by_a_real_one():
    layer, x = stk.SoftTopK(torch.tensor(2)), scores()
    layer.k = 3
    assert layer.k.dtype == torch.int64
    layer.k = 2.5
    assert torch.equal(layer(x), stk.soft_topk(x, 2.5))


def test_a_module_is_copied_and_stored():
    layer, file = stk.SoftTopK(2, temperature=torch.tensor(0.3)), io.BytesIO()
    layer.curve = "clip"
    torch.save(layer, file)
    file.seek(0)
    stored = torch.load(file, weights_only=False)
    for other in (copy.deepcopy(layer), stored):
        assert repr(other) == repr(layer)
        assert torch.equal(other(scores()), layer(scores()))


def test_a_compiled_layer_is_cooled_in_one_graph():
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    layer, x = stk.SoftTopK(2, temperature=torch.tensor(1.0)), scores(torch.float32)
    compiled = torch.compile(layer, fullgraph=True, backend=count)
    for tau in np.geomspace(1, 0.01, 12):
        layer.temperature = float(tau)
        expected = stk.soft_topk(x, 2, temperature=float(tau))
        torch.testing.assert_close(compiled(x), expected, rtol=0, atol=1e-6)
    assert len(graphs) == 1
