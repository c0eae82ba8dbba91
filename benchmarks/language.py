"""Mixtures of experts with seven gates, in a language model of bytes on real text.

Does it matter with which gate the router of a mixture of experts was trained?  This
program trains small transformers that predict the next byte of Python source files, and
stores every run in ``benchmarks/language.json``.  What follows was written down before
the first of these runs.

    python benchmarks/language.py             every run of the plan that is not stored
    python benchmarks/language.py --status    what is stored, and what is left
    python benchmarks/language.py --try "balanced" --steps 100     a run for yourself

It prints how far it is, draws the losses into ``_build/language/losses.png`` every
hundred steps, and keeps a checkpoint there: started again after an interruption, it
goes on from the last hundred steps, with the same numbers as without the interruption.
To start from it for a text of your own, replace `text`.

The text
    The Python files of SymPy 1.14.0 without its tests, as they are in the wheel, which
    is the same for every system: 16 million bytes, whose digest is checked.  One file
    in twenty, chosen by a digest of its name, is held out.

The model
    Four layers of width 128, windows of 128 bytes, four heads of attention with linear
    penalties of the distance in place of positions (ALiBi).  In every layer a mixture
    of 8 experts with 128 hidden units each, of which a byte gets k = 2: 1.4 million
    parameters, of which 0.6 million take part for a byte.

The training
    1500 steps of AdamW with 1024 bytes each, all in float32 on one thread.  A seed
    gives all gates the same initial weights and, step by step, the same bytes.  The
    size was chosen so that the plan takes about five hours of one processor core: on
    the machine of the first runs a step took about 0.16 s with a hard gate, 0.3 s where
    all experts are computed, and 0.4 s with `balanced_topk`.  Steps of 2048 bytes cost
    nearly twice as much, so that half as many would have been left.  The learning rate
    rises to 0.002 in 50 steps and falls by a cosine to a tenth.  Of 0.002 and 0.005 it
    was the better one for the dense model of the active size, in 150 steps with a seed
    that counts nowhere else.

The gates (rates and temperatures are those of the recipe and of the chapter on routers)
    hard renormalised   softmax of the two selected scores
    hard undivided      softmax of all scores, at the two selected
    straight-through    like the first; its selection has the derivative of a soft one
    soft, then hard     soft for 30 % of the steps, while the temperature falls from the
                        deviation of the scores to a tenth of it; then like the first
    balanced            like the first, with a bias that moves along the load error
    balanced_topk       shares with a fair sum for each expert, all experts computed;
                        the temperature falls as above, over all steps
    expert choice       each expert selects a quarter of the tokens of the batch by
                        their softmax values (a selection along `dim=0`), which are the
                        gates
    Each of them once without and once with the usual load loss, of strength 0.01.  Two
    dense models are the frame: one network of 256 hidden units in each layer, as many
    as a byte meets in the mixture, and one of 1024, as many as the mixture has.
    Three seeds: (7 + 7 + 2) * 3 = 48 runs.  All seeds without the load loss come first.

In use
    After the training every model selects hard, each byte for itself: the two largest
    of score plus bias.  The bias is 0 for the first four gates.  For `balanced_topk`
    and "expert choice", whose selection depends on all tokens of a batch, also on later
    ones, it is the running mean of the negative thresholds of the experts.

What is measured
    bits      bits per byte on 1024 held-out windows, of the model in use
    training  the same with the selection of the training, for `balanced_topk` and
              "expert choice", where it is another; it knows bytes that come later
    load      of each expert in use on these windows, over the fair load
    dead      experts with less than a twentieth of the fair load, of 32
    seconds   of processor for a step of training, the median of the run; only those of
              one machine are compared, and roughly, because others use it meanwhile

What is compared
    With d the three differences, seed by seed, in bits:
    1. each gate minus "hard renormalised", both without the load loss (six gates);
    2. the same with the load loss (six);
    3. each gate with the load loss minus the same gate without it (seven);
    4. "hard renormalised" without the load loss minus each of the dense models.
    The spread of a comparison is the root of the mean, over its gates, of the variance
    of d.  A difference counts if the three d have one sign and their mean is more than
    two spreads.  (By Student's distribution, with the level 5 % divided by the number
    of gates, 1.8 spreads would do.)  A difference that does not count may still not be
    zero.  One that counts and is below 0.01 bits is called small.

What would be concluded
    - If no difference of 1 counts: at this size the gate does not matter for the bits,
      and the advice remains the cheapest, hard renormalised.
    - If a gate that computes all experts is better: by how much, and at how many times
      the processor time of a step; *Which one to use* then names it for k = 2 too.
    - If a gate is worse, those of this package included: *Which one to use* says so.
    - If "balanced" or `balanced_topk` evens the load without better bits: balancing is
      for the load, not for the bits.
    - If no expert is dead under "hard renormalised" without the load loss: from a level
      start, nothing needs to be done against dead experts at this size.
    - If 3 counts for no gate: the load loss costs and gains nothing in bits.
    - If "hard renormalised" is not better than the dense model of the same active size:
      the mixture itself gains nothing here, and the comparison of gates says little.
    What it cannot show: what holds for larger models, longer training, k = 1, more
    experts, other text or an uneven start; nor what each gate reaches with a learning
    rate of its own, because all have the same one.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import softtopk.torch as stk

TARGET = Path(__file__).with_name("language.json")
KEPT = Path(__file__).parents[1] / "_build" / "language"  # checkpoints and the plot

# The text: the Python files of one pinned package, without its tests.
PACKAGE, VERSION = "sympy", "1.14.0"
DIGEST = "cf3f8aff0ca7e399e99a76a75ab5cbd0cd4496bffdf01d9b6177821c2f0e115e"

# The model and the training.
WIDTH, LAYERS, HEADS, CONTEXT = 128, 4, 4, 128
EXPERTS, CHOSEN, HIDDEN = 8, 2, 128  # HIDDEN units in every expert
STEPS, BATCH = 1500, 8  # BATCH windows of CONTEXT bytes in a step
EVERY = 100  # steps, then a checkpoint and a look at some held-out text
RATE, WARM_UP = 2e-3, 50  # of AdamW; then a cosine down to a tenth
STRENGTH = 0.01  # of the load loss
SOFT_PART = 0.3  # of the steps, for the gate "soft, then hard"

GATES = [
    "hard renormalised",
    "hard undivided",
    "straight-through",
    "soft, then hard",
    "balanced",
    "balanced_topk",
    "expert choice",
]
DENSE = {"dense, active size": CHOSEN, "dense, total size": EXPERTS}
SEEDS = 3

ABOUT = {  # stored with the runs
    "text": f"{PACKAGE} {VERSION}",
    "sha256": DIGEST,
    "size": [LAYERS, WIDTH, CONTEXT, EXPERTS, CHOSEN, HIDDEN],
    "training": [STEPS, BATCH, RATE, WARM_UP, STRENGTH, SOFT_PART],
}


def plan() -> list[dict[str, Any]]:
    """All runs in their order: all gates with one seed, then with the next."""
    return [
        {"gate": gate, "load_loss": load_loss, "seed": seed}
        for load_loss in (False, True)
        for seed in range(SEEDS)
        for gate in ([*GATES] if load_loss else [*GATES, *DENSE])
    ]


# ------------------------------------------------------------------------- the text


def text() -> tuple[torch.Tensor, torch.Tensor]:
    """The bytes to train on and the bytes held out: one file in twenty, by its name."""
    package = importlib.metadata.distribution(PACKAGE)
    if package.version != VERSION:
        raise SystemExit(f"{PACKAGE} is {package.version}, and has to be {VERSION}")
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    whole = hashlib.sha256()
    for file in sorted(package.files or [], key=str):
        if file.suffix != ".py" or {"tests", "benchmarks"} & set(file.parts):
            continue
        data = Path(str(file.locate())).read_bytes()
        whole.update(str(file).encode() + b"\0" + data)
        chance = int.from_bytes(hashlib.sha256(str(file).encode()).digest()[:4], "big")
        parts[chance % 20 == 0].append(data)
    if whole.hexdigest() != DIGEST:
        raise SystemExit(f"the files of {PACKAGE} differ: {whole.hexdigest()}")
    train, held = (np.frombuffer(b"".join(part), np.uint8).copy() for part in parts)
    return torch.from_numpy(train), torch.from_numpy(held)


def windows(data: torch.Tensor, count: int, key: list[int]) -> torch.Tensor:
    """So many windows of CONTEXT + 1 bytes, at places that `key` alone decides."""
    start = np.random.default_rng(key).integers(len(data) - CONTEXT, size=(count, 1))
    return data[torch.from_numpy(start + np.arange(CONTEXT + 1))].long()


# ------------------------------------------------------------------------ the model


def network(hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, hidden), nn.GELU(), nn.Linear(hidden, WIDTH))


class MixtureOfExperts(nn.Module):
    """The layer of the recipe, with the seven gates that are compared."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(network(HIDDEN) for _ in range(EXPERTS))
        self.register_buffer("bias", torch.zeros(EXPERTS))
        self.gate, self.soft, self.factor = gate, False, 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        s = self.router(tokens)
        q, all_computed = self.selection(s)
        g = q * s.softmax(-1)
        if self.gate not in ("hard undivided", "expert choice"):
            g = g / g.sum(-1, keepdim=True)
        self.load = (
            self.chosen(s.detach()).mean(0) * EXPERTS / CHOSEN
        )  # 1 where it is fair
        self.load_loss = (self.load * s.softmax(-1).mean(0)).sum()
        if self.training:
            self.balance(s.detach())
        mix = self.mix_all if all_computed else self.dispatch
        return mix(tokens, g).view_as(x)

    def selection(self, s: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """The share of each expert, and whether all experts have to be computed."""
        if self.training and self.soft:
            return stk.soft_topk(s, CHOSEN, temperature=self.temperature(s)), True
        if self.training and self.gate == "straight-through":
            return stk.top_k_st(s, CHOSEN), True
        if self.training and self.gate == "balanced_topk":
            return stk.balanced_topk(s, CHOSEN, temperature=self.temperature(s)), True
        if self.training and self.gate == "expert choice":  # across the tokens
            return stk.top_k(
                s.log_softmax(-1), self.places(s), dim=0, ties="first"
            ), False
        return self.chosen(s), False

    def chosen(self, s: torch.Tensor) -> torch.Tensor:
        """1 at the two experts that a token gets in use, 0 elsewhere."""
        return stk.top_k(s + self.bias, CHOSEN, ties="first")

    def temperature(self, s: torch.Tensor) -> torch.Tensor:
        return self.factor * s.detach().std(-1).mean()

    @staticmethod
    def places(s: torch.Tensor) -> int:
        """The fair load: how many tokens an expert takes."""
        return len(s) * CHOSEN // EXPERTS

    def balance(self, s: torch.Tensor) -> None:
        """The bias, with which each token selects by itself once training is over."""
        if self.gate == "balanced":  # a step along the load error
            self.bias += (1 - self.load) / EXPERTS
        elif self.gate == "balanced_topk":  # the rule by thresholds, averaged
            given: Any = {"curve": "sigmoid", "temperature": self.temperature(s)}
            a = stk.threshold(s + self.bias, CHOSEN, **given)[:, None]
            column = stk.threshold(s - a, self.places(s), dim=0, **given)
            self.bias += 0.05 * (-column - self.bias)
        elif self.gate == "expert choice":
            last = s.log_softmax(-1).topk(self.places(s), dim=0).values[-1]
            self.bias += 0.05 * (-last - self.bias)

    def mix_all(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """The sum of gate times output; every expert sees every token."""
        every = torch.stack([expert(x) for expert in self.experts], 1)
        return (g[:, None] @ every)[:, 0]

    def dispatch(self, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """The same where most gates are 0; an expert sees its own tokens alone."""
        parts = []
        for i, expert in enumerate(self.experts):
            token = g[:, i].nonzero()[:, 0]
            parts.append((token, g[token, i, None] * expert(x[token])))
        token, value = (torch.cat(part) for part in zip(*parts, strict=True))
        return torch.zeros_like(x).index_add(0, token, value)


class Block(nn.Module):
    """Attention to the bytes before, then a mixture of experts or one network."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        back = torch.arange(CONTEXT)[:, None] - torch.arange(CONTEXT)
        slope = 4.0 ** -torch.arange(HEADS)[:, None, None]
        bias = (-slope * back).masked_fill(back < 0, -math.inf)  # ALiBi
        self.register_buffer("distance", bias, persistent=False)  # of two bytes
        dense = gate in DENSE
        self.mlp = network(DENSE[gate] * HIDDEN) if dense else MixtureOfExperts(gate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, attn_mask=self.distance)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    """A transformer that predicts the next byte; `gate` as in GATES or DENSE."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.byte = nn.Embedding(256, WIDTH)
        self.blocks = nn.ModuleList(Block(gate) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.byte.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.byte(x)
        for block in self.blocks:
            h = block(h)
        return self.norm(h) @ self.byte.weight.T

    def mixtures(self) -> list[MixtureOfExperts]:
        return [m for m in self.modules() if isinstance(m, MixtureOfExperts)]


def loss_of(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy of a byte, in nats."""
    return cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


# --------------------------------------------------------------------- the training


def learning_rate(t: int) -> float:
    if t < WARM_UP:
        return RATE * (t + 1) / WARM_UP
    return RATE * (0.55 + 0.45 * math.cos(math.pi * (t - WARM_UP) / (STEPS - WARM_UP)))


def set_schedules(model: Model, gate: str, t: int) -> None:
    """Which gate the step t has, and the factor of its temperature."""
    soft_steps = SOFT_PART * STEPS if gate == "soft, then hard" else STEPS
    for layer in model.mixtures():
        layer.soft = gate == "soft, then hard" and t < soft_steps
        layer.factor = 0.1 ** (t / soft_steps)


class Run:
    """One run: the model, its optimiser, and what has been measured so far."""

    def __init__(self, gate: str, load_loss: bool, seed: int) -> None:
        torch.manual_seed(seed)
        self.gate, self.load_loss, self.seed = gate, load_loss, seed
        self.model = Model(gate)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), weight_decay=0.1)
        self.losses: list[float] = []  # bits per byte, of every step
        self.held: list[tuple[int, float]] = []  # of some held-out text
        self.seconds: list[float] = []  # of processor, of every step

    @property
    def name(self) -> str:
        return f"{self.gate}{' + load loss' * self.load_loss}, seed {self.seed}"

    @property
    def checkpoint(self) -> Path:
        return KEPT / f"{self.name.replace(', ', ' ').replace(' ', '-')}.pt"

    def step(self, train: torch.Tensor) -> None:
        began, t = time.process_time(), len(self.losses)
        set_schedules(self.model.train(), self.gate, t)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(t)
        loss = loss_of(self.model, windows(train, BATCH, [self.seed, t]))
        self.losses.append(loss.item() / math.log(2))
        if self.load_loss:
            loss = loss + STRENGTH * sum(m.load_loss for m in self.model.mixtures())
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.seconds.append(time.process_time() - began)

    @torch.no_grad()
    def test(
        self, held: torch.Tensor, count: int, in_use: bool = True
    ) -> tuple[float, list[list[float]]]:
        """Bits per byte, and the loads of each layer's experts, of the model in use."""
        self.model.train(not in_use)
        total, loads = 0.0, []
        for batch in windows(held, count, [2026]).split(64):
            total += loss_of(self.model, batch).item() * len(batch) / math.log(2)
            loads.append([m.load for m in self.model.mixtures()])
        mean = [torch.stack(layer).mean(0) for layer in zip(*loads, strict=True)]
        return total / count, [[round(v, 4) for v in m.tolist()] for m in mean]

    def save(self, path: Path) -> None:
        state = {n: v for n, v in vars(self).items() if n not in ("model", "optimiser")}
        state |= {n: getattr(self, n).state_dict() for n in ("model", "optimiser")}
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> None:
        """Goes on from the checkpoint of this run, if there is one."""
        if not path.exists():
            return
        state = torch.load(path, weights_only=True)
        for n in ("model", "optimiser"):
            getattr(self, n).load_state_dict(state.pop(n))
        vars(self).update(state)

    def result(self, held: torch.Tensor) -> dict[str, Any]:
        bits, load = self.test(held, 1024)
        other = self.gate in ("balanced_topk", "expert choice")
        training = self.test(held, 1024, in_use=False)[0] if other else bits
        tens = np.reshape(self.losses, (-1, 10)).mean(1)
        return {
            "gate": self.gate,
            "load_loss": self.load_loss,
            "seed": self.seed,
            "bits": round(bits, 5),
            "training": round(training, 5),
            "load": load,
            "seconds": round(float(np.median(self.seconds)), 4),
            "seconds_all": round(sum(self.seconds)),
            "held": [(t, round(v, 4)) for t, v in self.held],
            "losses": [round(v, 4) for v in tens.tolist()],
            "first": [round(v, 6) for v in self.losses[:10]],
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "torch": torch.__version__,
            "processor": processor(),
        }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            v.split(":")[1].strip() for v in lines if v.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.machine()


def draw(run: Run, stored: list[dict[str, Any]], path: Path) -> None:
    """The losses of the stored runs in grey, and of this one."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(7, 4))
    for old in stored:
        ax.plot(10 * np.arange(1, len(old["losses"]) + 1), old["losses"], "0.8", lw=0.7)
    tens = np.reshape(run.losses[: len(run.losses) // 10 * 10], (-1, 10)).mean(1)
    ax.plot(10 * np.arange(1, len(tens) + 1), tens, "k", lw=1, label=run.name)
    ax.plot(*zip(*run.held, strict=True), "o", color="#D55E00", label="held out")
    ax.set(xlabel="step", ylabel="bits per byte", ylim=(1.5, 6))
    ax.legend()
    fig.savefig(path)
    plt.close(fig)


def train(
    run: Run,
    data: tuple[torch.Tensor, torch.Tensor],
    stored: list[dict[str, Any]],
    steps: int = STEPS,
) -> None:
    """The rest of a run, with progress, checkpoints and the plot."""
    run.resume(run.checkpoint)
    while (t := len(run.losses)) < steps:
        run.step(data[0])
        if (t + 1) % EVERY == 0:
            run.held.append((t + 1, run.test(data[1], 128)[0]))
            run.save(run.checkpoint)
            draw(run, stored, KEPT / "losses.png")
            recent = np.mean(run.losses[-EVERY:])
            print(
                f"{time.strftime('%H:%M')}  {run.name}: step {t + 1} of {steps}, "
                f"{recent:.3f} bits per byte, held out {run.held[-1][1]:.3f}, "
                f"{np.median(run.seconds):.2f} s a step",
                flush=True,
            )


# ----------------------------------------------------------------- the stored runs


def read(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What a file holds, whose runs have to be those of this plan."""
    if not path.exists():
        return {"about": about, "runs": []}
    stored = json.loads(path.read_text())
    if stored["about"] != about:
        raise SystemExit(f"{path.name} holds runs of another plan: {stored['about']}")
    return stored


def write(path: Path, runs: list[dict[str, Any]], **facts: Any) -> None:
    """Writes all runs, each on a line of its own, so that a new one is a new line."""
    head = "".join(f'"{name}": {json.dumps(fact)},\n' for name, fact in facts.items())
    lines = ",\n".join(json.dumps(run) for run in runs)
    new = path.with_suffix(".new")
    new.write_text(f'{{{head}"runs": [\n{lines}\n]}}\n')
    new.replace(path)


def load() -> list[dict[str, Any]]:
    return read(TARGET, ABOUT)["runs"]


def store(runs: list[dict[str, Any]]) -> None:
    write(TARGET, runs, about=ABOUT)


def missing(
    planned: list[dict[str, Any]], runs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Those of the planned runs that are not among the runs."""
    return [
        wanted
        for wanted in planned
        if not any(wanted.items() <= run.items() for run in runs)
    ]


def left(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of the plan is not stored yet."""
    return missing(plan(), runs)


# --------------------------------------------------------------------- the analysis

FIRST = "hard renormalised"
COMPARISONS = {
    "gates without the load loss": [((g, False), (FIRST, False)) for g in GATES[1:]],
    "gates with the load loss": [((g, True), (FIRST, True)) for g in GATES[1:]],
    "with the load loss minus without": [((g, True), (g, False)) for g in GATES],
    "minus dense models": [((FIRST, False), (name, False)) for name in DENSE],
}


def compare(
    runs: list[dict[str, Any]], pairs: list[tuple[tuple[str, bool], ...]]
) -> tuple[list[list[float]], float | None, list[str]]:
    """`differences` of the bits."""
    bits = {(r["gate"], r["load_loss"], r["seed"]): r["bits"] for r in runs}
    return differences(bits, pairs, small=0.01)


def differences(
    values: dict[tuple[Any, ...], float],
    pairs: list[tuple[tuple[str, bool], ...]],
    small: float,
) -> tuple[list[list[float]], float | None, list[str]]:
    """For each pair the differences, seed by seed; their spread; the verdicts.

    The keys of the values are those in the pairs with a seed behind.  As long as a run
    is missing, the spread is None and every verdict is "open".
    """
    found = [
        [
            values[*one, seed] - values[*two, seed]
            for seed in range(SEEDS)
            if (*one, seed) in values and (*two, seed) in values
        ]
        for one, two in pairs
    ]
    if min(len(d) for d in found) < SEEDS:
        return found, None, ["open"] * len(pairs)
    spread = math.sqrt(np.mean([np.var(d, ddof=1) for d in found]))
    return found, spread, [verdict(d, spread, small) for d in found]


def verdict(d: list[float], spread: float, small: float) -> str:
    """What the plan says of three differences: less is better."""
    mean = np.mean(d)
    one_sign = min(d) > 0 or max(d) < 0
    if not one_sign or abs(mean) <= 2 * spread:
        return "does not count"
    return ("worse" if mean > 0 else "better") + ", but small" * bool(abs(mean) < small)


def dead(run: dict[str, Any]) -> int:
    """How many experts of all layers get less than a twentieth of the fair load."""
    return int((np.array(run["load"]) < 0.05).sum())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--try", dest="gate", choices=[*GATES, *DENSE])
    parser.add_argument("--load-loss", action="store_true")
    parser.add_argument("--seed", type=int, default=99)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args(arguments)
    if given.status:
        print(f"{len(load())} of {len(plan())} runs are stored; left:")
        for wanted in left(load()):
            print("  ", wanted)
        for title, pairs in COMPARISONS.items():
            print(title)
            for (one, two), d, said in zip(
                pairs, *compare(load(), pairs)[::2], strict=True
            ):
                numbers = " ".join(f"{v:+.4f}" for v in d)
                print(f"   {one[0]} minus {two[0]}: {numbers}  {said}")
        return
    torch.set_num_threads(1)
    data = text()
    if given.gate:  # stored nowhere
        run = Run(given.gate, given.load_loss, given.seed)
        train(run, data, load(), given.steps)
        print(run.test(data[1], 1024))
        return
    while wanted := left(load()):
        run = Run(**wanted[0])
        train(run, data, load())
        store([*load(), run.result(data[1])])
        run.checkpoint.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
