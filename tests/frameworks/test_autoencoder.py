"""The program that trains sparse autoencoders on activations of a language model."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def autoencoder(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import autoencoder

    yield autoencoder
    del sys.modules["autoencoder"], sys.modules["language"]


@pytest.fixture
def small(autoencoder, monkeypatch):
    """The program with 64 features, 32 vectors a step and 20 steps."""
    given = {"FEATURES": 64, "K": 4, "BATCH": 32, "STEPS": 20, "SILENT": 3}
    for name, value in given.items():
        monkeypatch.setattr(autoencoder, name, value)
    return autoencoder


@pytest.fixture
def vectors():
    return torch.randn(256, 128, generator=torch.Generator().manual_seed(0))


def activations(autoencoder, windows=2):
    """Those of a language model that has learned nothing, on random bytes."""
    language = autoencoder.language
    torch.manual_seed(0)
    model = language.Model(autoencoder.MODEL)
    text = torch.randint(64, (5000,), dtype=torch.uint8)
    return autoencoder.Activations.of(model, (text, text), (windows, windows)), text


@pytest.mark.parametrize(
    ("selection", "auxiliary"), [("TopK", True), ("soft, then hard", False)]
)
def test_a_run_resumes_where_it_was(small, vectors, tmp_path, selection, auxiliary):
    through, stopped = (small.Run(selection, auxiliary, 1) for _ in range(2))
    for _ in range(12):
        through.step(vectors)
    for _ in range(6):
        stopped.step(vectors)
    stopped.save(tmp_path / "checkpoint.pt")
    resumed = small.Run(selection, auxiliary, 1)
    resumed.resume(tmp_path / "checkpoint.pt")
    for _ in range(6):
        resumed.step(vectors)
    assert resumed.losses == through.losses
    assert len(resumed.seconds) == 12
    for one, two in zip(
        through.model.state_dict().values(),
        resumed.model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(one, two)


def test_a_selection_keeps_what_its_name_says(small, vectors):
    for selection in small.SELECTIONS:
        torch.manual_seed(0)
        model = small.Autoencoder(selection).train()
        _, f, s = model(vectors[:8])
        if selection == "TopK":
            kept = torch.zeros_like(s).scatter(1, s.topk(4).indices, 1.0)
        else:
            border = s.flatten().topk(4 * 8).values[-1]
            kept = (s >= border).float()
            assert model.threshold == pytest.approx(0.05 * border.item())
        assert torch.allclose(f, s * kept)
        assert torch.equal(model.silent == 0, kept.any(0))
        assert 0 < model.silent.sum() < 64


def test_only_soft_derivatives_reach_what_is_not_kept(small, vectors):
    for selection, tau in [*((name, 0.0) for name in small.SELECTIONS), ("soft", 1.0)]:
        torch.manual_seed(0)
        model = small.Autoencoder("BatchTopK" if tau else selection).train()
        model.tau = tau
        s = (vectors @ model.encoder).detach().requires_grad_()
        f = model.code_in_training(s)
        (f @ model.decoder).square().sum().backward()
        beyond = s.grad[f.detach() == 0] if not tau else s.grad[s.detach() < 0]
        assert bool((beyond != 0).any()) == (tau > 0 or selection == "straight-through")


def test_in_use_the_other_vectors_of_the_batch_do_not_matter(small, vectors):
    for selection in small.SELECTIONS:
        run = small.Run(selection, auxiliary=False, seed=1)
        for _ in range(20):
            run.step(vectors)
        model = run.model.eval()
        _, f, s = model(vectors)
        alone = torch.cat([model(row[None])[1] for row in vectors])
        assert torch.allclose(f, alone, atol=1e-5)
        if selection == "TopK":
            assert torch.equal((f > 0).sum(1), torch.full((256,), 4))
        else:
            assert torch.equal(f, s.relu() * (s >= model.threshold))


def test_dead_features_alone_learn_from_the_auxiliary_loss(small, vectors):
    torch.manual_seed(0)
    model = small.Autoencoder("TopK").train()
    out, _, s = model(vectors)
    model.silent[:] = 0
    model.silent[5:9] = 3
    model.auxiliary_loss(s, vectors - out).backward()
    for gradient in (model.decoder.grad, model.encoder.grad.T):
        moved = gradient.any(1)
        assert moved[5:9].all() and not moved[:5].any() and not moved[9:].any()


def recipe():
    """What the recipe offers to copy: its class, and what its folded cell adds."""
    path = BENCHMARKS.parent / "book" / "recipes" / "sparse-autoencoder.ipynb"
    code = [c["source"] for c in json.loads(path.read_text("utf8"))["cells"]]
    names = {}
    for start in ("import torch", "class TopKAutoencoder"):
        (source,) = [lines for lines in code if lines[0].startswith(start)]
        exec("".join(source), names)
    return names


@pytest.mark.parametrize("selection", ["TopK", "BatchTopK"])
def test_the_classes_to_copy_are_those_that_were_measured(small, vectors, selection):
    torch.manual_seed(0)
    model = small.Autoencoder(selection)
    for bias in (model.centre, model.shift):
        torch.nn.init.normal_(bias, std=0.1)
    copy = recipe()[f"{selection}Autoencoder"](128, 64, 4)
    copy.load_state_dict(model.state_dict(), strict=False)
    for mode in (True, True, False):
        found, wanted = (layer.train(mode)(vectors) for layer in (copy, model))
        for one, other in zip(found, wanted, strict=True):
            assert torch.allclose(one, other, atol=1e-6)
        assert copy.threshold == model.threshold
        assert torch.equal(copy.silent, model.silent)
    each = (found[1] > 0).sum(1)
    assert bool((each == 4).all()) == (selection == "TopK")


def test_the_topk_to_copy_refuses_a_soft_phase(vectors):
    model = recipe()["TopKAutoencoder"](128, 64, 4, soft=True)
    for mode in (True, False):
        with pytest.raises(ValueError, match="soft must be False"):
            model.train(mode)(vectors)
    model.soft = False
    model(vectors)


@pytest.mark.parametrize("dead", [5, 40])  # fewer than the loss takes, and more
def test_the_auxiliary_loss_to_copy_is_the_one_that_was_measured(
    small, vectors, dead, monkeypatch
):
    monkeypatch.setattr(small, "AUXILIARY", 8)
    names = recipe()
    model, copy = small.Autoencoder("TopK"), names["TopKAutoencoder"](128, 64, 4)
    copy.load_state_dict(model.state_dict(), strict=False)
    losses = []
    for layer in (model, copy):
        out, _, s = layer.eval()(vectors)
        layer.silent[:] = small.SILENT - 1
        layer.silent[:dead] += 1
        if layer is model:
            losses.append(model.auxiliary_loss(s, vectors - out))
        else:
            given = small.SILENT, small.AUXILIARY
            losses.append(names["auxiliary_loss"](copy, s, vectors - out, *given))
        losses[-1].backward()
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    for name in ("decoder", "encoder", "shift"):
        wanted, found = (layer.get_parameter(name).grad for layer in (model, copy))
        assert wanted.any() and torch.allclose(found, wanted, atol=1e-7), name


def test_without_a_dead_feature_the_auxiliary_loss_to_copy_is_zero(vectors):
    names = recipe()
    model = names["BatchTopKAutoencoder"](128, 64, 4)
    out, _, s = model(vectors[None])
    loss = names["auxiliary_loss"](model, s, vectors[None] - out)
    loss.backward()
    assert loss == 0 and not model.decoder.grad.any()


def test_the_activations_are_scaled_and_give_the_bits_of_the_model(autoencoder):
    data, text = activations(autoencoder)
    assert data.train.mean(0).abs().max() < 1e-5
    assert data.train.square().mean().item() == pytest.approx(1, abs=1e-4)
    batch = autoencoder.language.windows(text, 2, [2026])
    nats = autoencoder.language.loss_of(data.model, batch).item()
    assert data.bits(data.held) == pytest.approx(nats / np.log(2), abs=1e-4)
    assert abs(data.bits(torch.randn_like(data.held)) - nats / np.log(2)) > 1e-3


def test_a_test_measures_the_error_and_what_is_dead(autoencoder):
    data, _ = activations(autoencoder)
    run = autoencoder.Run("BatchTopK", auxiliary=False, seed=0)
    run.model.threshold += 100  # above everything
    found = run.test(data)
    mean = (data.held - data.held.mean(0)).square().sum()
    error = (data.held.square().sum() / mean).item()
    assert found["unexplained"] == pytest.approx(error, abs=1e-4)
    assert found["dead"] == autoencoder.FEATURES
    assert found["active"] == [0.0, 0.0]
    assert found["bits"] == pytest.approx(data.bits(0 * data.held), abs=1e-5)


def test_what_is_stored_is_of_the_plan(autoencoder):
    stored, wanted = autoencoder.load(), autoencoder.plan()
    assert len(wanted) == 24
    assert len(autoencoder.left(stored["runs"])) == 24 - len(stored["runs"])
    for run in stored["runs"]:
        assert len(run["losses"]) * 10 == autoencoder.STEPS
        assert stored["model"]["original"] < run["bits"] < stored["model"]["ablated"]
        assert 0 < run["unexplained"] < 1
        if run["selection"] == "TopK":
            assert run["active"][0] <= autoencoder.K


def test_the_model_is_the_one_that_language_py_stored(autoencoder):
    stored = autoencoder.load()["model"]
    runs = json.loads((BENCHMARKS / "language.json").read_text())["runs"]
    (same,) = [
        run for run in runs if run["gate"] == autoencoder.MODEL and run["seed"] == 0
    ]
    assert stored["original"] == pytest.approx(same["bits"], abs=0.02)
    first = stored["rehearsal"]["language model"]
    assert first == pytest.approx(same["first"][:5], abs=1e-3)


def test_runs_of_another_plan_are_refused(autoencoder, monkeypatch, tmp_path):
    target = tmp_path / "autoencoder.json"
    monkeypatch.setattr(autoencoder, "TARGET", target)
    assert autoencoder.load()["runs"] == []
    autoencoder.store({"original": 2.0}, [{"selection": "TopK"}])
    assert autoencoder.load()["runs"] == [{"selection": "TopK"}]
    assert autoencoder.load()["model"] == {"original": 2.0}
    target.write_text(json.dumps({"about": {}, "runs": []}))
    with pytest.raises(SystemExit, match="another plan"):
        autoencoder.load()


def test_a_difference_counts_as_the_plan_says(autoencoder):
    pairs = autoencoder.COMPARISONS["minus BatchTopK, without the auxiliary loss"]
    added = {"BatchTopK": 0.0, "TopK": 0.1, "straight-through": -0.03}
    runs = [
        {
            "selection": name,
            "auxiliary": False,
            "seed": seed,
            "bits": 2
            + seed
            + added.get(name, 0.01)
            + 0.01 * (seed - 1) * (name == "TopK"),
        }
        for name in autoencoder.SELECTIONS
        for seed in range(3)
    ]
    found, spread, said = autoencoder.compare(runs, pairs)
    assert spread == pytest.approx(0.01 / 3**0.5)  # of one selection in three
    assert np.mean(found, 1) == pytest.approx([0.1, -0.03, 0.01])
    less = "does not count"
    assert said == ["worse", "better", less]
    assert autoencoder.compare(runs[:-1], pairs)[1:] == (None, ["open"] * 3)
    model = {"original": 2.0, "ablated": 6.0}
    assert autoencoder.recovered({"bits": 2.4}, model) == pytest.approx(0.9)
