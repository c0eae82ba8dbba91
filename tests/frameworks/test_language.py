"""The program that trains the language models of the benchmarks."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def language(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import language

    yield language
    del sys.modules["language"]


@pytest.fixture
def data():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 64, 5000, np.uint8))


@pytest.mark.parametrize("gate", ["soft, then hard", "balanced"])
def test_a_run_resumes_where_it_was(language, data, tmp_path, monkeypatch, gate):
    monkeypatch.setattr(language, "BATCH", 1)
    through, stopped = (language.Run(gate, True, 1) for _ in range(2))
    for _ in range(3):
        through.step(data)
    stopped.step(data)
    stopped.save(tmp_path / "checkpoint.pt")
    resumed = language.Run(gate, True, 1)
    resumed.resume(tmp_path / "checkpoint.pt")
    for _ in range(2):
        resumed.step(data)
    assert resumed.losses == through.losses
    assert len(resumed.seconds) == 3
    for one, two in zip(
        through.model.state_dict().values(),
        resumed.model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(one, two)


def test_in_use_a_token_gets_its_two_largest_scores_plus_bias(language):
    torch.manual_seed(0)
    x = torch.randn(64, language.WIDTH)
    for gate in language.GATES:
        layer = language.MixtureOfExperts(gate).eval()
        layer.bias.copy_(torch.linspace(-0.2, 0.2, language.EXPERTS))
        s = layer.router(x)
        q, all_computed = layer.selection(s)
        two = (s + layer.bias).topk(2).indices
        assert torch.equal(q, torch.zeros_like(s).scatter(1, two, 1.0))
        assert not all_computed
        g = q * s.softmax(-1)
        both = layer.mix_all(x, g), layer.dispatch(x, g)
        assert torch.allclose(*both, atol=1e-6)
        assert (layer(x), layer.load.sum())[1] == language.EXPERTS


def test_the_gates_with_fair_loads_have_them(language):
    torch.manual_seed(0)
    s = 2 * torch.randn(64, language.EXPERTS)
    for gate in ("expert choice", "balanced_topk"):
        q, _ = language.MixtureOfExperts(gate).selection(s)
        assert torch.allclose(q.sum(0), torch.full((8,), 16.0), atol=1e-3)


def test_what_is_stored_is_of_the_plan(language):
    runs = language.load()
    wanted = language.plan()
    assert len(wanted) == 48
    assert len(language.left(runs)) == len(wanted) - len(runs)
    assert all(np.isfinite(run["bits"]) for run in runs)


def test_runs_of_another_plan_are_refused(language, monkeypatch, tmp_path):
    target = tmp_path / "language.json"
    monkeypatch.setattr(language, "TARGET", target)
    assert language.load() == []
    language.store([{"gate": "balanced"}])
    assert language.load() == [{"gate": "balanced"}]
    target.write_text(json.dumps({"about": {}, "runs": []}))
    with pytest.raises(SystemExit, match="another plan"):
        language.load()


def test_a_difference_counts_as_the_plan_says(language):
    pairs = language.COMPARISONS["gates without the load loss"]
    added = [0.1, 0.03, 0.001, -0.1, 0.0, 0.005]  # to the first gate's bits
    runs = [
        {
            "gate": gate,
            "load_loss": False,
            "seed": seed,
            "bits": 2 + seed + more + 0.01 * (seed - 1) * (gate == "straight-through"),
        }
        for gate, more in zip(language.GATES, [0.0, *added], strict=True)
        for seed in range(3)
    ]
    found, spread, said = language.compare(runs, pairs)
    assert spread == pytest.approx(0.01 / 6**0.5)  # of one gate in six
    assert np.mean(found, 1) == pytest.approx(added)
    less = "does not count"
    assert said == ["worse", "worse", less, "better", less, less]
    added = language.verdict([0.004, 0.005, 0.006], 0.001, 0.01)
    assert added == "worse, but small"
    assert language.verdict([-0.001, 0.05, 0.06], 0.001, 0.01) == less
    assert language.compare(runs[:-1], pairs)[1:] == (None, ["open"] * 6)


@pytest.mark.parametrize("gate", ["balanced", "balanced_topk", "expert choice"])
def test_the_bias_makes_the_loads_in_use_fair(language, gate):
    torch.manual_seed(0)
    s = torch.randn(512, language.EXPERTS) + torch.linspace(-2, 2, language.EXPERTS)
    layer = language.MixtureOfExperts(gate)
    layer.factor = 0.1
    uneven = layer.chosen(s).mean(0) * 4
    assert uneven.max() > 2 and uneven.min() < 0.2
    for _ in range(150):
        layer.load = layer.chosen(s).mean(0) * 4
        layer.balance(s)
    assert (layer.chosen(s).mean(0) * 4 - 1).abs().max() < 0.2
