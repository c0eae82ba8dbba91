"""The code that the recipes offer to copy: alone in a new interpreter, and on JAX."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import softtopk.torch as stk

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book" / "recipes"

# What is asked of each recipe, after its cell.
USES = {
    "mixture-of-experts": """
experts = [torch.nn.Linear(8, 3) for _ in range(4)]
layer, x = MixtureOfExperts(8, experts, k=2), torch.randn(10, 8)
layer(x).square().sum().backward()
three = x.reshape(2, 5, 8)
assert layer(three).shape == (2, 5, 3)
layer.step()
assert layer.bias.any() and abs(layer.bias.sum()) < 1e-6
assert (layer.bias * (layer.load - 1) <= 0).all()  # it falls where the load is high
s, kept = layer.router(x), (layer.eval().router(x) + layer.bias).topk(2).indices
g = torch.zeros_like(s).scatter(-1, kept, s.gather(-1, kept).softmax(-1))
every = torch.stack([expert(x) for expert in experts], 1)
assert torch.allclose(layer(x), (g[:, None] @ every)[:, 0], atol=1e-6)
assert torch.allclose(layer.load, kept.flatten().bincount(minlength=4) / 5)
assert torch.allclose(layer(three), layer(x).reshape(2, 5, 3), atol=1e-6)
assert layer(x[:0]).shape == (0, 3)
bias = layer.bias.clone()
assert layer.train()(x[:0]).shape == (0, 3)
layer.step()  # without tokens all rise alike, so that the selection stays
moved = layer.bias - bias
assert torch.allclose(moved, moved[:1]) and layer.bias.isfinite().all()
one = MixtureOfExperts(8, experts, k=1)
one(x).square().sum().backward()
assert (one.router.weight.grad != 0).any()
# Padding is left out as the page says.
same = MixtureOfExperts(8, [torch.nn.Linear(8, 8) for _ in range(4)], k=2)
keep = torch.tensor([[True] * 5, [True, True, False, False, False]])
out = torch.zeros_like(three)
out[keep] = same(three[keep])
assert not out[~keep].any() and same.tokens.sum() == 7 * 2
""",
    "sparse-autoencoder": """
model, x = BatchTopKAutoencoder(6, 20, 3, soft=True), torch.randn(30, 6)
for model.soft in (True, False):
    out, f, s = model(x)
    (out - x).square().sum().backward()
    assert (model.encoder.grad != 0).any(0).all() or not model.soft
    assert (f != 0).all() == model.soft
hard = f
model.soft = True
model.tau.fill_(1e-5)
assert torch.allclose(model(x)[1].relu(), hard, atol=1e-6)
assert torch.allclose(s, (x - model.centre) @ model.encoder + model.shift, atol=1e-6)
assert 0 < f.count_nonzero() <= 90 and model.threshold > 0
assert model.dead(2) == 20 - f.any(0).sum()
model.normalise()
assert torch.allclose(model.decoder.norm(dim=1), torch.ones(20))
_, whole, _ = model.eval()(x)
assert torch.allclose(model(x[:1])[1], whole[:1], atol=1e-6)
# A sequence is its vectors, and the whole batch has one budget.
three = x.reshape(2, 15, 6)
for mode in (True, False):
    out, f, s = model.train(mode)(three)
    assert out.shape == three.shape and f.shape == s.shape == (2, 15, 20)
    assert torch.allclose(f.flatten(0, 1), model(x)[1], atol=1e-6)
# Padding that is left out has no part of the budget.
keep = torch.arange(15) < torch.tensor([[15], [9]])
wanted = model.train()(torch.cat([three[0], three[1, :9]]))
assert all(map(torch.equal, model(three[keep]), wanted))
# The border is that of the hard selection of the whole batch.
kept = stk.top_k(wanted[2].detach(), 3 * 24, dim=None) > 0
assert model.border(wanted[2].detach()) == wanted[2][kept].min()
# Pre-activations are never rounded to 16 bits.
model.soft = False
for mode in (True, False):
    out, f, s = model.train(mode)(x)
    with torch.autocast("cpu", torch.bfloat16):
        short, *same = model(x)
    assert all(map(torch.equal, (f, s), same))
    assert short.dtype == out.dtype == torch.float32
    assert torch.allclose(short, out, atol=0.1)
    short, *near = model(x.bfloat16())
    assert short.dtype == torch.bfloat16 and near[0].dtype == torch.float32
    assert model(x.double())[0].dtype == torch.float64
# It begins at the mean of the data, which is not summed up in 16 bits.
many = 1 + torch.randn(4, 500, 6)
model.begin(many)
assert torch.allclose(model.centre * model.scale, many.mean((0, 1)), atol=1e-6)
model.begin(torch.ones(4, 6))  # all equal: nothing is divided by 0
assert model.scale == 1 and model.centre.isfinite().all()
model.begin(many.bfloat16())
mean = many.bfloat16().float().mean((0, 1)) / model.scale
assert torch.allclose(model.centre, mean, atol=1e-6) and model.centre.requires_grad
# Its scale is measured, and saved beside the threshold that is in its units.
large = BatchTopKAutoencoder(6, 20, 3)
large.load_state_dict(model.state_dict())
large.begin(100 * many.bfloat16().float())
assert abs(large.scale / many.std() - 100) < 1
for mode in (True, False):
    out, f, s = model.train(mode)(many)
    times, *same = large.train(mode)(100 * many)
    assert torch.allclose(times, 100 * out, rtol=1e-4, atol=1e-3)
    assert all(torch.allclose(*both, atol=1e-4) for both in zip((f, s), same))
used = BatchTopKAutoencoder(6, 20, 3).eval()
used.load_state_dict(large.state_dict())
assert all(map(torch.equal, used(100 * many), large(100 * many)))
""",
    "recall-at-k": """
similar = torch.randn(5, 12, requires_grad=True)
relevant = torch.randn(5, 12) > 0.3
try:
    recall_loss(similar, relevant, 4)
except TypeError:
    pass
else:
    raise AssertionError("a temperature that was not measured")
recall_loss(similar, relevant, 4, 1.0).backward()
assert (similar.grad != 0).any(1).all()
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    for tau in (1.0, 1e-3):
        equal = torch.full((5, 12), 0.5, dtype=dtype, requires_grad=True)
        recall_loss(equal, relevant, 4, tau).backward()
        assert equal.grad.isfinite().all() and equal.grad.any()
cold = recall_loss(similar, relevant, 4, tau=1e-6)
assert abs(1 - cold - recall(similar, relevant, 4).mean()) < 1e-6
usual = torch.nn.functional.cross_entropy(similar / 0.1, torch.arange(5))
assert torch.allclose(contrastive(similar, torch.eye(5, 12)), usual)
for dtype in (torch.float16, torch.bfloat16):  # computed in 32 bits
    short = similar.detach().to(dtype)
    for loss in (contrastive, lambda s, r: recall_loss(s, r, 4, 1.0)):
        found = loss(short, relevant)
        assert found.dtype == torch.float32 and found == loss(short.float(), relevant)
    cold = [recall_loss(s, relevant, 4, 1e-3) for s in (short, short.float())]
    assert (cold[0] == cold[1]) == (dtype == torch.bfloat16)  # float16 stays warmer
every = torch.randn(5, 4, requires_grad=True)  # a list of all documents
recall_loss(every, relevant[:, :4], 4, 1.0).backward()
assert not every.grad.any()
try:
    torch.compile(recall_loss, backend="eager")(every, relevant[:, :4], 5, 1.0)
except ValueError:
    pass
else:
    raise AssertionError("a batch with fewer than k documents")
# Documents that no query of the batch has: InfoNCE with more columns.
more = torch.cat([similar, torch.randn(5, 30)], 1)
usual = torch.nn.functional.cross_entropy(more / 0.1, torch.arange(5))
assert torch.allclose(contrastive(more, torch.eye(5, 42)), usual)
# What a mask leaves out has no effect, as if it were dropped from both arrays.
where = torch.tensor([[True] * 12, [True] * 7 + [False] * 5] + [[False] * 12] * 3)
where[2, 1:9], where[3, 5], relevant[:4, 5] = True, True, True
functions = (
    lambda *both, **mask: recall_loss(*both, 4, 0.7, **mask),
    contrastive,
    lambda *both, **mask: recall(*both, 4, **mask).mean(),
)
for function in functions:
    odd = similar.detach().masked_fill(~where, torch.nan).requires_grad_()
    each = zip(odd, relevant, where, strict=True)
    rows = torch.stack([function(*row[:2], where=row[2]) for row in each])
    assert torch.allclose(function(odd, relevant, where=where), rows.mean())
    for i in range(3):
        kept = [v[i, where[i]].detach() for v in (similar, relevant)]
        assert torch.allclose(function(*kept), rows[i], atol=1e-6)
    if rows.requires_grad:
        rows.sum().backward()
        assert odd.grad.isfinite().all() and not odd.grad[~where].any()
        assert odd.grad[:3].any(1).all() and not odd.grad[3:].any()
relevant[0] = False  # without a relevant document: 0 and 1, as the page says
for loss, wanted in ((contrastive, 0), (lambda *both: recall_loss(*both, 4, 1.0), 1)):
    similar.grad = None
    loss(similar, relevant).backward()
    assert similar.grad[1:].any() and not similar.grad[0].any()
    assert loss(similar[:1], relevant[:1]) == wanted
counted = 4 / 5 * recall(similar[1:], relevant[1:], 4)
assert torch.allclose(recall(similar, relevant, 4), counted)
""",
    "top-5": """
scores, y = torch.randn(40, 12, requires_grad=True), torch.randint(12, (40,))
for log in (False, True):
    top_k_error(scores, y, log=log).backward()
    assert (scores.grad.gather(1, y[:, None]) < 0).all()
cold = top_k_error(scores, y, tau=1e-6)
assert abs(1 - cold - top_k_accuracy(scores, y)) < 1e-6
axes = scores.reshape(5, 8, 12), y.reshape(5, 8)  # the classes are on the last one
assert torch.allclose(top_k_error(*axes), top_k_error(scores, y))
keep = torch.arange(40) % 3 > 0
assert top_k_error(scores[keep], y[keep]) > 0
try:
    top_k_error(scores, y.where(keep, -100))
except RuntimeError:
    pass
else:
    raise AssertionError("a class that cross entropy would ignore")
""",
    "ranking": """
scores = torch.randn(3, 4, 9, requires_grad=True)
gains, where = torch.randint(4, (3, 4, 9)).float(), torch.rand(3, 4, 9) < 0.7
where[..., :2], gains[..., 0], gains[..., 1] = True, 3, 0
padded = scores.where(where, 1e30)  # what stands in the padding is without effect
far = gains.clamp(min=1e-6).log(), 100 * gains  # where each loss is smallest
for usual, ideally in zip((softmax_loss, pairwise), far):
    loss = usual(scores, gains, where, scale=3.0)
    for padding in (1e30, torch.inf, torch.nan):
        other = scores.where(where, padding), gains.where(where, padding)
        again = usual(*other, where, scale=3.0)
        assert loss == again
        assert torch.autograd.grad(again, scores)[0].isfinite().all()
    best = usual(ideally, gains, where)
    (slope,) = torch.autograd.grad(loss, scores)
    assert best < loss and (slope[where] != 0).any() and not slope[~where].any()
    none = scores[0].detach().requires_grad_()  # lists of padding, without relevant
    usual(none, gains[0], where[0] & (torch.arange(4) > 0)[:, None]).backward()
    assert none.grad.isfinite().all() and not none.grad[0].any()
    for given in ({}, {"lambdas": False}) if usual is pairwise else ({},):
        assert usual(scores, 0 * gains, where, **given) == 0  # a batch without pairs
one = torch.tensor([[2.0, 1, 0]])  # by hand: two items of gain 0, and one of gain 3
only = torch.tensor([[0.0, 0, 3]]), torch.ones(1, 3) > 0
assert torch.allclose(softmax_loss(one, *only), -one.log_softmax(-1)[0, 2])
places = 1 / torch.tensor([2.0, 3, 4]).log2()
change = places[:2] - places[2]  # of the NDCG, where item and item of gain 3 swap
cost = torch.nn.functional.softplus(torch.tensor([2.0, 1]))
assert torch.allclose(pairwise(one, *only), (change * cost).sum())
assert torch.allclose(pairwise(one, *only, lambdas=False), cost.mean())
loss = ndcg_loss(scores, gains, where)
assert loss == ndcg_loss(padded, gains.where(where, torch.inf), where)
assert abs(loss - ndcg_loss(100 * scores, gains, where)) < 1e-5
loss.backward()
assert (scores.grad != 0).any(-1).all() and not scores.grad[~where].any()
best = ndcg(gains, gains, where)
assert torch.allclose(best, torch.ones(3, 4)) and 0 < loss < 1
cold = ndcg_loss(scores, gains, where, tau=1e-6)
assert abs(1 - cold - ndcg(scores, gains, where).mean()) < 1e-5
for dtype in (torch.float16, torch.bfloat16, torch.float32):  # ties, and only ties
    for tau in (1.0, 1e-3):
        equal = torch.full((4, 9), 0.5, dtype=dtype, requires_grad=True)
        ndcg_loss(equal, gains[0].to(dtype), where[0], tau).backward()
        assert equal.grad.isfinite().all() and equal.grad.any()
for loss in (softmax_loss, pairwise, ndcg_loss):  # 16 bits are computed in 32
    short = scores.detach().bfloat16()
    found = loss(short, gains, where)
    assert found.dtype == torch.float32 and found == loss(short.float(), gains, where)
ties = torch.tensor([1.0, 0, 0])
middle = ndcg_loss(ties, torch.tensor([0.0, 1, 0]), torch.ones(3) > 0, tau=1e-6)
assert abs(middle - (1 - 1 / torch.tensor(3.5).log2())) < 1e-5  # both have place 2.5
# No relevant item, one item, and none: only the one item counts.
few = torch.tensor([[True, True, True], [True, False, False], [False] * 3])
odd = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 0, 0]])
ties = torch.randn(3, 3, requires_grad=True)
ndcg_loss(ties, odd, few).backward()
assert ndcg_loss(ties, odd, few) == 0 and not ties.grad.any()
found = ndcg(ties, odd, few)
assert found.isnan().tolist() == [True, False, True] and found[1] == 1
row = [scores[0, 0], gains[0, 0], where[0, 0]]
both = [torch.stack([a, a, b]) for a, b in zip(row, (row[0], 0 * row[1], row[2]))]
assert torch.allclose(ndcg_loss(*both), ndcg_loss(*row))
""",
    "learned-budget": """
layer, x = LearnedTopK(10, 4), torch.ones(7, 10)
assert abs(layer.k() - 4) < 1e-5
layer.scores.data = torch.randn(10)
(2 * layer.k() - layer(x).sum(1).mean()).backward()
assert layer.logit.grad > 0  # the price, 2, is above the gain, 1
assert layer.logit.shape == (1,)  # as `fully_shard` asks
assert (layer.eval()(x).sum(1) == 4).all() and layer(x).unique().tolist() == [0, 1]
layer.scores.data[:] = 0  # all equal: the first
assert layer(x)[0].tolist() == [1] * 4 + [0] * 6
layer.logit.data[:] = -9  # no budget
assert not layer(x).any()
""",
    "annealing": """
annealing, scores = Annealing(50), torch.randn(9, 6)
taus = [annealing(t, scores, 2) for t in range(50)]
assert abs(taus[0] / scores.std(-1).mean() - 1) < 1e-5
assert all(type(tau) is torch.Tensor and tau.ndim == 0 for tau in taus)
assert [row[0] for row in annealing.log] == [0, 10, 20, 30, 40, 49]
assert annealing.resolved() and not Annealing(50).resolved()
assert abs(taus[0] / annealing(50, scores, 2) - 100) < 1e-3
cold = Annealing(50, start=1e-6, end=1e-6)
assert [(cold(t, scores, 2), cold.resolved())[1] for t in (0, 10)] == [False, True]
late = Annealing(50, start=1e-6, end=1e-6)  # goes on after an interruption
assert [(late(t, scores, 2), late.resolved())[1] for t in (20, 30)] == [False, True]
assert Annealing(50)(0, torch.zeros(3, 6), 2) == 1
""",
}


def cells(name):
    """The cells of a recipe."""
    return json.loads((BOOK / f"{name}.ipynb").read_text(encoding="utf8"))["cells"]


# What is asked of the second cell of the recipe for a mixture of experts.
SOFT = """
experts = [torch.nn.Linear(8, 3) for _ in range(4)]
layer, x = SoftMixtureOfExperts(8, experts, k=2), torch.randn(10, 8)
layer(x).square().sum().backward()
assert (layer.router.weight.grad != 0).any(1).all() and not layer.bias.any()
for factor, learning in ((100.0, 4), (1e-4, 2)):  # all experts learn, and k of them
    layer.factor.fill_(factor)
    layer(x)
    layer.step()
    assert layer.learning == learning and abs(layer.load.mean() - 1) < 1e-6
    assert not layer.bias.any()  # it moves only while the gate is hard
layer.soft = False
plain = MixtureOfExperts(8, experts, k=2)
plain.load_state_dict(layer.state_dict(), strict=False)
for one in (layer, plain):
    one(x)
    one.step()
assert layer.bias.any() and torch.equal(layer.bias, plain.bias)
assert torch.equal(layer(x), plain(x))  # in training and in evaluation
assert torch.equal(layer.eval()(x), plain.eval()(x))
# Soft for k = 1: the hard layer that it becomes has outputs of the same size.
first = SoftMixtureOfExperts(8, experts, k=1)
first.factor.fill_(1e-4)
assert torch.allclose(first(x), first.eval()(x), atol=1e-6)
plain = MixtureOfExperts(8, experts, k=1, renormalise=True).eval()
plain.load_state_dict(first.state_dict(), strict=False)
assert torch.equal(plain(x), first(x))
# Scores are never rounded to 16 bits, neither under autocast nor in a cast model.
seen = []
first.router.register_forward_hook(lambda module, given, s: seen.append(s.dtype))
with torch.autocast("cpu", torch.bfloat16):
    assert {first.train(mode)(x).dtype for mode in (True, False)} == {torch.float32}
first.bfloat16().router.float()
first.bias = first.bias.float()
both = {first.train(mode)(x.bfloat16()).dtype for mode in (True, False)}
assert both == {torch.bfloat16} and {*seen} == {torch.float32}
# Equal scores have a temperature.
fresh = [torch.nn.Linear(8, 3) for _ in range(4)]
same = SoftMixtureOfExperts(8, fresh, k=2)
torch.nn.init.zeros_(same.router.weight)
torch.nn.init.zeros_(same.router.bias)
assert same(x.reshape(2, 5, 8)).isfinite().all() and same.learning == 4
"""


def to_copy(name):
    """The cell below the heading that says so."""
    found = cells(name)
    text = ["".join(cell["source"]) for cell in found]
    heading = next(i for i, s in enumerate(text) if "## The code to copy" in s)
    code = next(i for i in range(heading, len(found)) if "outputs" in found[i])
    assert not found[code]["metadata"].get("tags")  # it is open
    return text[code]


def with_soft_gate():
    """The layer to copy, and the open cell that adds the soft gate to it."""
    found = cells("mixture-of-experts")
    (cell,) = [c for c in found if "\nclass SoftMix" in "".join(c["source"])]
    assert "outputs" in cell and not cell["metadata"].get("tags")
    return f"{to_copy('mixture-of-experts')}\n\n{''.join(cell['source'])}"


def blocks(name, part):
    """The blocks of code in a recipe's text that hold a part."""
    texts = ["".join(c["source"]) for c in cells(name) if c["cell_type"] == "markdown"]
    found = re.findall(r"(?ms)^```python\n(.*?)^```", "\n\n".join(texts))
    return [code for code in found if part in code]


def in_jax(name):
    """The blocks of JAX."""
    return blocks(name, "import jax")


def runs_alone(code, folder, *options):
    """Run a program in a new interpreter, which has to end without an error."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_recipe_is_asked():
    assert {path.stem for path in BOOK.glob("*.ipynb")} == set(USES)


PACKAGE = "softtopk.torch"


def modules(code):
    """What a program imports."""
    return {
        alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("name", USES)
def test_a_recipe_needs_the_package_and_torch_alone(name):
    layer = name == "mixture-of-experts"  # whose soft gate alone needs the package
    assert modules(to_copy(name)) == {"torch"} | (set() if layer else {PACKAGE})
    if layer:
        assert modules(with_soft_gate()) == {"torch", PACKAGE}


@pytest.mark.parametrize("name", USES)
def test_a_copied_cell_runs_alone(name, tmp_path):
    code = f"{to_copy(name)}\ntorch.manual_seed(0)\n{USES[name]}"
    runs_alone(code, tmp_path, "-W", "error")


def test_the_soft_gate_runs_below_the_layer(tmp_path):
    code = f"{with_soft_gate()}\ntorch.manual_seed(0)\n{SOFT}"
    runs_alone(code, tmp_path, "-W", "error")


def copied(name, item):
    """What the cell of a recipe defines, or the one with the soft gate."""
    defined = {}
    exec(with_soft_gate() if item.startswith("SoftMix") else to_copy(name), defined)
    return defined[item]


def falling():
    """The classes to copy, and the tensor by which each of them is cooled."""
    torch.manual_seed(0)
    experts = [torch.nn.Linear(6, 6) for _ in range(4)]
    layer = copied("mixture-of-experts", "SoftMixtureOfExperts")(6, experts, 2)
    yield layer, layer.factor
    layer = copied("sparse-autoencoder", "BatchTopKAutoencoder")(6, 20, 3, soft=True)
    yield layer, layer.tau
    layer = copied("learned-budget", "LearnedTopK")(6, 3)
    yield layer, layer.tau


def test_a_temperature_that_falls_compiles_nothing_again():
    x = torch.randn(12, 6)
    for layer, factor in falling():
        torch.compiler.reset()
        counter = CompileCounter()
        compiled = torch.compile(layer, backend=counter)
        compiled(x)  # a layer that counts its tokens has a program for its first ones
        after = []
        for step in range(4):
            factor.fill_(0.5**step)
            compiled(x)
            after.append(counter.frame_count)
        assert after == after[:1] * 4, (type(layer).__name__, after)


def test_the_temperature_of_annealing_compiles_nothing_again():
    torch.compiler.reset()
    counter = CompileCounter()
    annealing = copied("annealing", "Annealing")(40)
    scores = torch.randn(12, 6)

    @torch.compile(backend=counter)
    def step(scores, tau):
        return stk.soft_topk(scores, 2, temperature=tau)

    for t in range(4):
        step(scores, annealing(t, scores, 2))
    assert counter.frame_count == 1


def test_the_temperature_of_annealing_is_that_of_all_processes(monkeypatch):
    """With the two lines of its bullet on several devices."""
    text = "\n".join("".join(cell["source"]) for cell in cells("annealing"))
    (bullet,) = re.findall(r"^- \*\*Several devices\.\*\*.*", text, re.MULTILINE)
    above, *lines = re.findall(r"`([^`]+)`", bullet)[:3]
    code = to_copy("annealing")
    (indent,) = re.findall(rf"^( +){re.escape(above)}$", code, re.MULTILINE)
    defined, other = {}, torch.tensor(3.0)
    exec(code.replace(above, f"\n{indent}".join([above, *lines])), defined)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda one: one.add_(other))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    scores = torch.randn(12, 6)
    wanted = (scores.std(-1).mean() + other) / 2
    torch.testing.assert_close(defined["Annealing"](40)(0, scores, 2), wanted)


SOFT_GATE = "SoftMixtureOfExperts"


def mixture(n, k, width=6, out=5, kind="MixtureOfExperts", **given):
    """The layer to copy, or its subclass, with linear experts."""
    torch.manual_seed(0)
    experts = [torch.nn.Linear(width, out) for _ in range(n)]
    return copied("mixture-of-experts", kind)(width, experts, k, **given)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_dispatch_is_the_sum_over_the_experts(k):
    """In values and gradients, also where an expert has no token."""
    layer = mixture(4, k).double()
    x = torch.randn(12, 6, dtype=torch.double, requires_grad=True)
    g = torch.rand(12, k, dtype=torch.double, requires_grad=True)
    s = torch.randn(12, 4)
    s[:, 2] = -9  # no token
    chosen = s.topk(k).indices
    place = [(g * (chosen == i)).sum(-1, keepdim=True) for i in range(4)]
    wanted = sum(p * expert(x) for p, expert in zip(place, layer.experts, strict=True))
    found = layer.dispatch(x, chosen, g)
    torch.testing.assert_close(found, wanted)
    assert not (chosen == 2).any()
    leaves, onto = (x, g, *layer.experts.parameters()), torch.randn_like(wanted)
    slopes = [torch.autograd.grad(v, leaves, onto) for v in (found, wanted)]
    for one, two in zip(*slopes, strict=True):
        torch.testing.assert_close(one, two)


class Waits(TorchDispatchMode):
    """The operations whose result, or its shape, the program has to wait for."""

    TAGS = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        by_number = function is torch.ops.aten.index.Tensor and not any(
            v.dtype == torch.bool for v in args[1] if v is not None
        )
        if self.TAGS & {*function.tags} and not by_number:
            self.found.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("n", [4, 16])
def test_the_layer_waits_once_however_many_experts_it_has(n, monkeypatch):
    layer, x, lists = mixture(n, 2), torch.randn(12, 6), []
    usual = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda t: lists.append(t) or usual(t))
    with Waits() as waits:
        layer(x).sum().backward()
    assert waits.found == [] and [len(v) for v in lists] == [n]


@pytest.mark.parametrize(("n", "k", "tokens"), [(4, 1, 12), (8, 2, 5), (64, 2, 40)])
def test_an_idle_expert_rises_by_the_rate(n, k, tokens):
    """Whatever the number of experts, k and the batch are."""
    for rate in (None, 0.5):
        layer = mixture(n, k, **({"rate": rate} if rate else {}))
        with torch.no_grad():
            layer.router.bias[:k] += 1e3
        layer(torch.randn(tokens, 6))
        layer.step()
        assert (layer.bias[k:] == (rate or 0.125)).all()
        assert (layer.bias[:k] < 0).all() and layer.bias.sum().abs() < 1e-4


def test_the_temperature_of_the_layer_follows_its_scores():
    """It is the deviation of the biased scores times the factor."""
    layer, x, seen = mixture(8, 2, kind=SOFT_GATE), torch.randn(12, 6), []
    soft = stk.soft_topk
    layer.bias.copy_(torch.randn(8))
    layer.factor.fill_(0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stk, "soft_topk", lambda *a, **b: seen.append(b) or soft(*a, **b))
        layer(x)
    wanted = 0.3 * (layer.router(x) + layer.bias).std(-1).mean()
    torch.testing.assert_close(seen[0]["temperature"], wanted.detach())


def test_the_layer_adds_up_the_loads_of_all_processes(monkeypatch):
    """Two processes with half of the batch each move the bias as one with all of it."""
    x, alone, called = torch.randn(20, 6), mixture(4, 2), []
    alone(x)
    alone.step()
    first, second = mixture(4, 2), mixture(4, 2)
    first(x[:12])
    second(x[12:])

    def add(tokens, group):
        called.append(group)
        tokens += second.tokens

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "all_reduce", add)
    first.step("theirs")
    torch.testing.assert_close(first.load, alone.load)
    torch.testing.assert_close(first.bias, alone.bias)
    first.eval()(x[:12])  # one process may test alone
    assert called == ["theirs"]


def test_the_bias_moves_once_for_all_micro_batches():
    x, whole, parts = torch.randn(24, 6), mixture(4, 2), mixture(4, 2)
    for part in x.split(8):
        parts(part)
    whole(x)
    for layer in (whole, parts):
        assert not layer.bias.any()
        layer.eval()(x[:5])  # a test counts nothing
        layer.train().step()
    assert whole.bias.any()
    torch.testing.assert_close(parts.bias, whole.bias)
    before = whole.bias.clone()
    whole(x[:0])
    whole.step()  # no token is counted twice
    assert (whole.bias - before).std() < 1e-6


def test_a_block_with_the_layer_may_be_checkpointed():
    """What the repeated pass routes is the same, and so is the bias afterwards."""
    x, found = torch.randn(24, 6), []
    for repeat in (False, True):
        layer = mixture(4, 2, out=6)
        block = torch.nn.Sequential(torch.nn.Linear(6, 6), layer, torch.nn.Tanh())
        for _ in range(3):
            layer.zero_grad()
            run = functools.partial(checkpoint, block, use_reentrant=False)
            (run if repeat else block)(x).square().sum().backward()
            layer.step()
        found.append([layer.bias, *(v.grad for v in layer.parameters())])
    assert found[0][0].any()
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two)


def test_what_the_layer_counts_is_no_buffer():
    """DDP overwrites buffers, and a start on the meta device leaves them as noise."""
    with torch.device("meta"):
        layer = mixture(4, 2)
    layer.to_empty(device="cpu").load_state_dict(mixture(4, 2).state_dict())
    assert not {"tokens", "tested"} & {*dict(layer.named_buffers())}
    x, usual = torch.randn(12, 6), mixture(4, 2)
    for one in (layer, usual):
        one(x)
        one.step()
    torch.testing.assert_close(layer.bias, usual.bias)


def test_a_layer_of_16_bits_counts_its_tokens():
    layer = mixture(4, 1).bfloat16()
    layer.router.float()
    layer.bias = layer.bias.float()
    layer(torch.randn(3000, 6, dtype=torch.bfloat16))
    assert layer.tokens.sum() == 3000
    wanted = 1 - layer.tokens / 750
    layer.step()
    torch.testing.assert_close(layer.bias, 0.125 * wanted)


def test_the_layer_gives_its_scores_for_a_load_loss():
    """In the type of the router, with a gradient, and beside the same output."""
    (code,) = blocks("mixture-of-experts", "def load_loss")
    defined = {}
    exec(code, defined)
    layer, x = mixture(4, 2), torch.randn(3, 7, 6)
    layer.bias.copy_(torch.tensor([0.0, 0, 0, 9]))  # each token chooses the last
    for mode in (True, False):
        out, s = layer.train(mode)(x, return_scores=True)
        assert torch.equal(out, layer(x))
        assert torch.equal(s, layer.router(x.view(21, 6)))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x, return_scores=True)[1].dtype == torch.float32
    loss = defined["load_loss"](layer, s)
    one = (s + layer.bias).topk(2).indices.flatten().bincount(minlength=4) / 42
    assert one[3] == 0.5
    torch.testing.assert_close(loss, 4 * (one * s.softmax(-1)).sum(-1).mean())
    loss.backward()
    assert layer.router.bias.grad[3] > 0 and (layer.router.weight.grad != 0).all()
    even = torch.eye(4).repeat(2, 1)  # each is chosen by two tokens
    assert torch.allclose(defined["load_loss"](mixture(4, 1), even), torch.ones(()))
    layer.zero_grad()
    loss = defined["load_loss"](layer, layer(x[:0], return_scores=True)[1])
    assert loss == 0  # without tokens
    loss.backward()
    assert all(v.grad.isfinite().all() for v in layer.router.parameters())


def test_an_evaluation_adds_up_the_loads():
    """Over all batches since it began, and apart from those of the training."""
    layer = mixture(4, 2)
    for x in torch.randn(2, 24, 6):
        chosen = layer.router(x).topk(2).indices
        layer.train()(x[:3])
        layer.eval()
        for part in x.split(8):
            layer(part)
        wanted = chosen.flatten().bincount(minlength=4) / 12
        torch.testing.assert_close(layer.load, wanted)


@pytest.mark.parametrize("k", [1, 2])
def test_the_dispatch_of_jax_is_the_sum_over_the_experts(k):
    """In values and gradients, also where an expert has no token, and compiled."""
    (code,) = in_jax("mixture-of-experts")
    defined = {}
    exec(code, defined)
    rng = np.random.default_rng(0)
    x, g, first, second = (
        jnp.asarray(rng.standard_normal(shape), dtype=jnp.float32)
        for shape in ((12, 6), (12, k), (4, 6, 5), (4, 5, 3))
    )
    s = jnp.asarray(rng.standard_normal((12, 4))).at[:, 2].set(-9)
    chosen = jax.lax.top_k(s, k)[1]
    assert not (chosen == 2).any()

    def wanted(x, g, first, second):
        each = jnp.einsum("nf,efh->neh", x, first)
        each = jnp.einsum("neh,eho->neo", jax.nn.relu(each), second)
        return (g[..., None] * jnp.take_along_axis(each, chosen[..., None], 1)).sum(1)

    def found(x, g, first, second):
        return jax.jit(defined["dispatch"])(x, chosen, g, first, second)

    short = [v.astype(jnp.bfloat16) for v in (x, first, second)]
    with warnings.catch_warnings():  # weights in 32 bits beside experts of 16
        warnings.simplefilter("error")
        assert found(short[0], g, *short[1:]).dtype == jnp.bfloat16
    ends = [jax.vjp(f, x, g, first, second) for f in (found, wanted)]
    for one, two in zip(*((value, *back(value)) for value, back in ends), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def test_the_gate_and_the_bias_of_jax_are_those_of_the_layer():
    (code,) = in_jax("mixture-of-experts")
    defined = {}
    exec(code, defined)
    layer, x = mixture(8, 2), torch.randn(12, 6)
    chosen = layer.router(x).topk(2).indices
    layer(x)
    layer.step()
    s, bias = layer.router(x).detach(), torch.linspace(-1, 1, 8)
    kept, g = defined["gate"](jnp.asarray(s.numpy()), jnp.asarray(bias.numpy()), 2)
    wanted = (s + bias).topk(2).indices
    np.testing.assert_array_equal(kept, wanted)
    weights = s.gather(-1, wanted).softmax(-1)
    np.testing.assert_allclose(g, weights, rtol=0, atol=1e-6)
    found = defined["by_error"](jnp.zeros(8), jnp.asarray(chosen.numpy()))
    np.testing.assert_allclose(found, layer.bias, rtol=0, atol=1e-6)
    for many, wanted in ((0, 0.125), (2**21, 0.125 * (1 - 1024))):  # the first falls
        alike = jnp.zeros((many, 1), dtype=jnp.int32)
        assert defined["by_error"](jnp.zeros(1024), alike)[0] == wanted


def test_the_step_of_jax_moves_the_bias_and_not_by_a_gradient():
    defined = {}
    for code in in_jax("mixture-of-experts"):
        exec(code, defined)
    (code,) = blocks("mixture-of-experts", "has_aux=True")
    rng = np.random.default_rng(0)
    shapes = {"router": (6, 4), "first": (4, 6, 5), "second": (4, 5, 6), "x": (12, 6)}
    drawn = {n: jnp.asarray(rng.standard_normal(s)) for n, s in shapes.items()}
    x = drawn.pop("x")
    bias = jnp.asarray([9.0, 0, 0, 0])  # every token takes the first expert
    defined |= {"model": drawn, "bias": bias, "x": x, "y": 2 * x}
    exec(code, defined)
    assert (defined["chosen"][:, 0] == 0).all()
    moved = defined["bias"] - bias
    assert np.isclose(moved[0], -0.125) and np.isclose(moved.sum(), 0, atol=1e-6)
    slope = defined["slope"]
    assert slope.keys() == drawn.keys() and all(v.any() for v in slope.values())
    less = {n: v - 0.01 * slope[n] for n, v in drawn.items()}
    assert defined["loss"](less, bias, x, 2 * x)[0] < defined["value"]


SHARDED = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

class Kept(LearnedTopK):
    def forward(self, x):
        self.budget = self.k()
        p = stk.soft_topk(self.scores, self.budget, temperature=self.tau, check=False)
        return x * p

store = dist.HashStore()
dist.init_process_group("gloo", rank=0, world_size=1, store=store)
model = torch.nn.Sequential(Kept(10, 4), torch.nn.Linear(10, 4))
mesh = init_device_mesh("cpu", (1,))
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
out = model(torch.ones(3, 10)).square().mean()
(out + 0.1 * model[0].budget).backward()
assert model[0].logit.grad.full_tensor().isfinite().all()
dist.destroy_process_group()
"""

# The layer by itself, then the rest under a policy of 16 bits.
SHARDED_AUTOENCODER = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

store = dist.HashStore()
dist.init_process_group("gloo", rank=0, world_size=1, store=store)
layer, x = WithLoss(6, 20, 3, soft=True), torch.randn(30, 6)
layer.begin(x)
model = torch.nn.Sequential(torch.nn.Linear(6, 6), layer)
layer.silent.fill_(100)
mesh = init_device_mesh("cpu", (1,))
fully_shard(layer, mesh=mesh)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
fully_shard(model, mesh=mesh, mp_policy=policy)
for layer.soft in (True, False):
    out, f, s, loss = model(x)
    (out.square().mean() + loss).backward()
    assert out.dtype == torch.bfloat16 and f.dtype == s.dtype == torch.float32
    assert layer.encoder.grad.full_tensor().any()
    layer.normalise()
length = layer.decoder.full_tensor().norm(dim=1)
assert torch.allclose(length, torch.ones(20))
assert layer.dead(2) < 20 and model.eval()(x)[1].any()
dist.destroy_process_group()
"""


def test_a_learned_budget_can_be_divided_among_devices(tmp_path):
    """As the recipe says: `logit` has an axis, and `forward` keeps the budget."""
    code = f"{to_copy('learned-budget')}\n{SHARDED}"
    runs_alone(code, tmp_path)


def with_auxiliary_loss():
    """The autoencoder to copy, and the open cell that adds the auxiliary loss to it."""
    text = ["".join(cell["source"]) for cell in cells("sparse-autoencoder")]
    (remedy,) = [source for source in text if "\ndef auxiliary_loss(" in source]
    return f"{to_copy('sparse-autoencoder')}\n\n\n{remedy}\n"


def test_the_loop_of_an_autoencoder_trains():
    (loop,) = blocks("sparse-autoencoder", "steps = 600\n")
    torch.manual_seed(0)
    activations = 3 + 2 * torch.randn(600, 8)
    ends = []
    for steps in ("1", "30"):
        torch.manual_seed(0)
        names = {"activations": activations}
        exec(with_auxiliary_loss() + loop.replace("600", steps, 1), names)
        ends.append(names["loss"])
    assert ends[1] < ends[0]
    model, out = names["model"], names["out"]
    assert names["optimiser"].param_groups[0]["lr"] == pytest.approx(0.003 / 6)
    assert torch.allclose(model.decoder.norm(dim=1), torch.ones(1024))
    assert model.threshold > 0 and not model.training and out.shape == (512, 8)


def test_an_autoencoder_can_be_divided_among_devices(tmp_path):
    """As the recipe says: wrapped before the rest, it computes no scores in 16 bits."""
    (whole,) = blocks("sparse-autoencoder", "class WithLoss")
    runs_alone(f"{with_auxiliary_loss()}{whole}{SHARDED_AUTOENCODER}", tmp_path)


# Two processes, whose vectors use different features.
PARALLEL_AUTOENCODER = """
from torch.multiprocessing import start_processes
from torch.nn.parallel import DistributedDataParallel

def train(rank):
    address = "file://" + os.path.abspath("store")
    torch.distributed.init_process_group("gloo", address, rank=rank, world_size=2)
    torch.manual_seed(rank)
    model = BatchTopKAutoencoder(6, 20, 1)
    model.begin(torch.randn(30, 6))
    wrapped = DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    threshold, silent = model.threshold.clone(), model.silent.clone()
    for _ in range(3):
        x = (rank + 1) * torch.randn(5, 6)
        out, f, s = wrapped(x)
        used = (f > 0).any(0)
        border = s.detach().flatten().topk(5).values[-1]
        (out - x).square().mean().backward()
        optimiser.step()
        {lines}
        torch.distributed.all_reduce(border)
        torch.distributed.all_reduce(used, torch.distributed.ReduceOp.MAX)
        threshold.lerp_(border / 2, 0.05)
        silent = (silent + 1) * ~used
        assert torch.allclose(model.threshold, threshold)
        assert torch.equal(model.silent, silent)
    for value in model.state_dict().values():
        both = [torch.empty_like(value) for _ in range(2)]
        torch.distributed.all_gather(both, value)
        assert torch.equal(*both)
    torch.distributed.destroy_process_group()

start_processes(train, nprocs=2, start_method="fork")
"""


def test_the_processes_of_an_autoencoder_have_one_threshold(tmp_path):
    (lines,) = blocks("sparse-autoencoder", "get_world_size")
    lines = lines.replace("\n", "\n" + 8 * " ").strip()
    code = "import os\n" + to_copy("sparse-autoencoder")
    runs_alone(code + PARALLEL_AUTOENCODER.replace("{lines}", lines), tmp_path)


# The router by itself, then the rest under a policy of 16 bits.
SHARDED_MIXTURE = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

store = dist.HashStore()
dist.init_process_group("gloo", rank=0, world_size=1, store=store)
layer = SoftMixtureOfExperts(6, [torch.nn.Linear(6, 6) for _ in range(4)], 2)
seen, x = [], torch.randn(30, 6)
layer.router.register_forward_hook(lambda module, given, s: seen.append(s.dtype))
model = torch.nn.Sequential(torch.nn.Linear(6, 6), layer)
mesh = init_device_mesh("cpu", (1,))
fully_shard(layer.router, mesh=mesh)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
fully_shard(model, mesh=mesh, mp_policy=policy)
for layer.soft in (True, False):
    out = model(x)
    out.square().mean().backward()
    layer.step()
    assert out.dtype == torch.bfloat16 and layer.router.weight.grad.full_tensor().any()
assert set(seen) == {torch.float32} and layer.bias.any()
dist.destroy_process_group()
"""


def test_the_layer_can_be_divided_among_devices(tmp_path):
    runs_alone(f"{with_soft_gate()}\n{SHARDED_MIXTURE}", tmp_path)


def test_the_layer_takes_equal_scores():
    """As under a router that begins at zero: a finite gradient, and k in evaluation."""
    layer = mixture(8, 2, kind=SOFT_GATE)
    for weight in layer.router.parameters():
        torch.nn.init.zeros_(weight)
    layer(torch.ones(3, 6))[:, 0].sum().backward()
    slope = layer.router.weight.grad
    assert slope.isfinite().all() and slope.any()
    layer.eval()(torch.ones(3, 6))
    assert layer.load.sort().values.tolist() == [0] * 6 + [4, 4]


@pytest.mark.parametrize("name", ["recall_loss", "contrastive"])
def test_a_masked_loss_of_retrieval_compiles(name):
    """Also with rows that have fewer documents than places, or none."""
    torch.compiler.reset()
    loss, where = copied("recall-at-k", name), torch.rand(5, 9) < 0.7
    where[0], where[1] = torch.arange(9) < 2, False
    given = (torch.randn(5, 9), torch.rand(5, 9) < 0.4, 3)
    given += (0.5, where) if name == "recall_loss" else (where,)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given), loss(*given))


def test_one_line_gives_the_recall_loss_one_temperature():
    """The line of the recipe for retrieval, where it says: above that of `given`."""
    text = "\n".join("".join(cell["source"]) for cell in cells("recall-at-k"))
    (line,) = re.findall(r"`(tau = [^`]+)` above the line of `given`", text)
    code, below = to_copy("recall-at-k"), '    given = {"temperature"'
    assert code.count(below) == 1
    defined, similar = {}, torch.randn(5, 9)
    exec(code.replace(below, f"    {line}\n{below}"), defined)
    relevant = torch.rand(5, 9) < 0.4
    p = stk.soft_topk(similar, 3, temperature=0.5 * similar.std(-1).mean())
    wanted = 1 - ((p * relevant).sum(-1) / relevant.sum(-1).clamp(1, 3)).mean()
    found = defined["recall_loss"](similar, relevant, 3, 0.5)
    torch.testing.assert_close(found, wanted)


def test_the_recall_of_the_numbers_of_an_index_is_that_of_the_page():
    (code,) = blocks("recall-at-k", "ids")
    names = {"wanted": torch.tensor([[3, 1, 6], [5, -1, -1], [-1, -1, -1]]), "k": 2}
    relevant = torch.zeros(3, 7)
    relevant[0, [1, 3, 6]] = relevant[1, 5] = 1
    similar = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
    similar[0, 3] = similar[1, 5] = 9
    names["ids"] = similar.topk(2).indices
    names["ids"][1, 1] = names["ids"][2, 1] = -1  # as an index fills up
    *first, last = code.splitlines()
    exec("\n".join(first), names)
    found = eval(last, names)
    function = copied("recall-at-k", "recall")
    pairs = zip(similar, relevant, strict=True)
    assert found.tolist() == [float(function(*pair, 2)) for pair in pairs]
    assert found[1] == 1 and 0 < found[0]


# Two processes, each with its queries, and documents that it gathers from both.
GATHERED = """
import sys
from datetime import timedelta

import torch.distributed as dist

rank, compiled = int(sys.argv[1]), sys.argv[2] == "compiled"
given = {"rank": rank, "world_size": 2, "timeout": timedelta(seconds=120)}
dist.init_process_group("gloo", init_method=f"file://{STORE}", **given)
torch.manual_seed(0)
x, y = torch.randn(2, 5, 3), torch.randn(2, 5, 4)  # the pairs of both
one, two = torch.randn(3, 6, requires_grad=True), torch.randn(4, 6, requires_grad=True)

def compare(similar, relevant):
    return recall_loss(similar, relevant, 3, 1.0) + contrastive(similar, relevant)

def gathered(x, y):
    query, document = x @ one, y @ two
    {code}
    return compare(similar, relevant)

def slopes(loss):
    return torch.autograd.grad(loss, (one, two))

if compiled:
    gathered = torch.compile(gathered, backend="eager", fullgraph=True)
found = slopes(gathered(x[rank], y[rank]))
query, document = x.flatten(0, 1) @ one, y.flatten(0, 1) @ two
whole = slopes(compare(query @ document.mT, torch.eye(10)))
for mine, wanted in zip(found, whole, strict=True):
    dist.all_reduce(mine)  # as DDP does
    torch.testing.assert_close(mine / 2, wanted)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_documents_of_other_devices_have_their_gradients(way, tmp_path):
    """With the lines of the page, those of the whole batch."""
    if not hasattr(torch.distributed._functional_collectives, "all_gather_single"):
        pytest.skip("the page says that it is of PyTorch 2.13")
    (code,) = blocks("recall-at-k", "all_gather_single")
    head, body = code.split("\n\n")
    lines = body.strip().replace("\n", "\n    ")
    store = f"STORE = {str(tmp_path / 'store')!r}\n"
    program = tmp_path / "gathered.py"
    text = GATHERED.replace("{code}", lines)
    program.write_text(f"{to_copy('recall-at-k')}\n{head}\n{store}{text}")
    both = [
        subprocess.Popen(
            [sys.executable, program, str(rank), way],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for rank in (0, 1)
    ]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors


def test_the_losses_are_those_of_jax():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 9)), rng.integers(9, size=6)
    relevant = rng.random((6, 9)) < 0.4
    gains, where = 2.0 ** rng.integers(4, size=(6, 9)) - 1, rng.random((6, 9)) < 0.7
    gains[0], where[1] = 0, False
    for name, function, target, form in (
        ("top-5", "top_k_error", (y, 3), {}),
        ("top-5", "top_k_error", (y, 3), {"log": True}),
        ("recall-at-k", "recall_loss", (relevant, 3), {"tau": 0.5}),
        ("recall-at-k", "recall_loss", (relevant, 3, 0.5, where), {}),
        ("recall-at-k", "contrastive", (relevant,), {}),
        ("recall-at-k", "contrastive", (relevant, 0.3, where), {}),
        ("recall-at-k", "recall", (relevant[2:], 3), {}),
        ("recall-at-k", "recall", (relevant[2:], 3, where[2:]), {}),
        ("ranking", "ndcg_loss", (gains, where), {}),
        ("ranking", "softmax_loss", (gains, where), {"scale": 3.0}),
        ("ranking", "pairwise", (gains, where), {"scale": 3.0}),
    ):
        (code,) = in_jax(name)
        assert max(map(len, code.splitlines())) <= 60
        ours, theirs = {}, {}
        exec(to_copy(name), ours)
        exec(code, theirs)
        given = x[-len(target[0]) :]
        pairs = (ours, torch.as_tensor), (theirs, jnp.asarray)
        wanted, found = (
            defined[function](array(given), *map(array, target), **form)
            for defined, array in pairs
        )
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax_loss", "pairwise", "ndcg_loss"])
def test_a_ranking_loss_of_jax_has_the_gradient_of_pytorch(name):
    """Also with ties, without a relevant item, and whatever stands in the padding."""
    (code,) = in_jax("ranking")
    ours, theirs = copied("ranking", name), {}
    exec(code, theirs)
    rng = np.random.default_rng(0)
    x, where = rng.normal(size=(2, 6, 9)), rng.random((2, 6, 9)) < 0.7
    gains = 2.0 ** rng.integers(4, size=x.shape) - 1
    gains[0, 0], where[0, 1] = 0, False
    if name != "pairwise":  # which depends on the order of ties
        x[0, 2] = x[0, 2].round()
    for padding, tau in ((0, 0.1), (1e30, 0.3), (np.inf, 0.3), (np.nan, 1.0)):
        given = np.where(where, x, padding)
        relevant = np.where(where, gains, padding)
        scores = torch.tensor(given, requires_grad=True)
        wanted = ours(scores, torch.tensor(relevant), torch.tensor(where), tau)
        wanted.backward()
        gradient = jax.value_and_grad(theirs[name])
        arrays = (jnp.asarray(v) for v in (given, relevant, where))
        loss, slope = gradient(*arrays, tau)
        assert scores.grad.abs().max() > 5e-3
        assert not slope[~where].any() and not slope[0, :2].any()
        np.testing.assert_allclose(loss, wanted.item(), rtol=1e-5)
        np.testing.assert_allclose(slope, scores.grad, rtol=1e-5, atol=1e-7)


def test_the_ranking_loss_of_16_bits_is_computed_in_32_in_jax():
    (code,) = in_jax("ranking")
    defined = {}
    exec(code, defined)
    loss = defined["ndcg_loss"]
    rng = np.random.default_rng(1)
    x, where = rng.normal(size=(6, 9)), rng.random((6, 9)) < 0.7
    x = jnp.asarray(x, jnp.bfloat16)
    gains = jnp.asarray(2.0 ** rng.integers(4, size=x.shape) - 1, jnp.float32)
    found, wanted = (loss(s, gains, where) for s in (x, x.astype(jnp.float32)))
    assert found.dtype == wanted.dtype and found == wanted
    for dtype in (jnp.bfloat16, jnp.float32):  # ties, and only ties
        for tau in (1.0, 1e-3):
            slope = jax.grad(loss)(jnp.full((6, 9), 0.5, dtype), gains, where, tau)
            assert slope.dtype == dtype
            assert jnp.isfinite(slope).all() and slope.any()


def test_what_a_mask_leaves_out_has_no_gradient_in_jax():
    (code,) = in_jax("recall-at-k")
    defined = {}
    exec(code, defined)
    rng = np.random.default_rng(2)
    where = jnp.asarray(rng.random((6, 9)) < 0.7).at[1].set(False)
    x = jnp.where(where, jnp.asarray(rng.normal(size=(6, 9)), jnp.float32), jnp.nan)
    relevant = jnp.asarray(rng.random((6, 9)) < 0.4)
    for dtype in (jnp.float32, jnp.bfloat16):
        slope = jax.grad(defined["contrastive"])(x.astype(dtype), relevant, 0.1, where)
        assert slope.dtype == dtype and jnp.isfinite(slope).all()
        assert slope[where].any() and not slope[~where].any()


def test_a_mask_may_say_which_queries_count():
    """One entry for each is as good as one for each of their documents."""
    rng = np.random.default_rng(0)
    x, relevant = rng.normal(size=(6, 9)), rng.random((6, 9)) < 0.4
    some = np.array([True, True, False, True, False, True])[:, None]
    (code,) = in_jax("recall-at-k")
    for source, array in (
        (to_copy("recall-at-k"), torch.tensor),
        (code, jnp.asarray),
    ):
        defined = {}
        exec(source, defined)
        short, full = (
            defined["recall_loss"](array(x), array(relevant), 3, 0.5, array(where))
            for where in (some, some & np.ones((6, 9), dtype=bool))
        )
        assert float(short) == pytest.approx(float(full), abs=1e-6)


def test_the_step_of_jax_lowers_the_recall_loss():
    rng = np.random.default_rng(0)
    same, left, right = (jnp.asarray(rng.standard_normal((32, 6))) for _ in range(3))
    model = {n: jnp.asarray(rng.standard_normal((6, 4))) for n in ("query", "document")}
    pairs = same + 0.1 * left, same + 0.1 * right
    defined = {"model": model, "query": pairs[0], "document": pairs[1]}
    for code in [*in_jax("recall-at-k"), *blocks("recall-at-k", "jnp.linalg")]:
        exec(code, defined)
    loss, slope = defined["loss"], defined["slope"]
    assert slope.keys() == model.keys() and all(v.any() for v in slope.values())
    better = {n: v - 0.1 * slope[n] for n, v in model.items()}
    assert loss(better, *pairs) < loss(model, *pairs)


def test_the_step_of_pytorch_has_the_gradient_of_jax():
    rng = np.random.default_rng(0)
    shapes = {"query": (6, 4), "document": (6, 4)}
    model = {n: rng.standard_normal(shape) for n, shape in shapes.items()}
    pairs = {n: rng.standard_normal((32, 6)) for n in model}
    theirs = {n: jnp.asarray(v) for n, v in pairs.items()}
    theirs["model"] = {n: jnp.asarray(v) for n, v in model.items()}
    for code in [*in_jax("recall-at-k"), *blocks("recall-at-k", "jnp.linalg")]:
        exec(code, theirs)
    ours = {n: torch.tensor(v) for n, v in pairs.items()}
    ours["model"] = {n: torch.tensor(v, requires_grad=True) for n, v in model.items()}
    exec(to_copy("recall-at-k"), ours)
    (code,) = blocks("recall-at-k", "functional.normalize")
    exec(code, ours)
    for name, weight in ours["model"].items():
        found, wanted = weight.grad.numpy(), np.asarray(theirs["slope"][name])
        assert wanted.any()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_the_top_5_error_of_16_bits_is_computed_in_32_in_jax():
    (code,) = in_jax("top-5")
    defined = {}
    exec(code, defined)
    error = defined["top_k_error"]
    rng = np.random.default_rng(1)
    x, y = jnp.asarray(rng.normal(size=(6, 9)), jnp.bfloat16), rng.integers(9, size=6)
    for log in (False, True):
        found = error(x, y, 3, log=log)
        assert found.dtype == jnp.float32
        assert float(found) == float(error(x.astype(jnp.float32), y, 3, log=log))


def test_the_recall_loss_of_16_bits_is_computed_in_32_in_jax():
    (code,) = in_jax("recall-at-k")
    defined = {}
    exec(code, defined)
    loss = defined["recall_loss"]
    rng = np.random.default_rng(1)
    similar = jnp.asarray(rng.normal(size=(6, 9)), jnp.bfloat16)
    relevant = jnp.asarray(rng.random((6, 9)) < 0.4)
    found = loss(similar, relevant, 3, 1.0)
    assert found.dtype == jnp.float32
    wide = similar.astype(jnp.float32)
    assert float(found) == float(loss(wide, relevant, 3, 1.0))
    with pytest.raises(ValueError, match="fewer than 10"):  # also where it is traced
        jax.jit(functools.partial(loss, k=10, tau=1.0))(similar, relevant)
    for dtype in (jnp.float16, jnp.bfloat16, jnp.float32):  # ties, and only ties
        for tau in (1.0, 1e-3):
            equal = jnp.full((6, 9), 0.5, dtype)
            slope = jax.grad(loss)(equal, relevant, 3, tau)
            assert slope.dtype == dtype
            assert jnp.isfinite(slope).all() and slope.any()
