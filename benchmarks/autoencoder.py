"""Sparse autoencoders with four selections, on the activations of a language model.

Does it matter with which selection a sparse autoencoder was trained?  The recipe of the
book tries this on generated vectors.  This program trains autoencoders on activations
of a small language model that has read real text, and stores every run in
``benchmarks/autoencoder.json``.  What follows was written down before the first of
these runs.

    python benchmarks/autoencoder.py            every run of the plan that is missing
    python benchmarks/autoencoder.py --status   what is stored, and what is left
    python benchmarks/autoencoder.py --try "BatchTopK" --steps 100   a run for yourself

It prints how far it is, and keeps a checkpoint in ``_build/language`` every hundred
steps: started again after an interruption, it goes on from the last hundred steps, with
the same numbers as without the interruption.  To start from it for a model of your own,
replace `language_model`, `before` and `after`.

The activations
    The language model is the run "dense, active size" with seed 0 of `language.py`,
    trained anew here in about four minutes.  A dense model is taken because no router
    stands behind the activations: what the model loses when they are replaced is the
    error of the autoencoder, and not that of bytes which meet other experts.  The
    activations are the 128 numbers in the residual stream after the second of four
    blocks.  From them their mean is subtracted, and the rest is divided by one number,
    so that a coordinate has variance 1 on average.  524288 bytes of the training text
    give the vectors to learn from, and 131072 bytes of the held-out text, the same as
    in `language.py`, those to test with.

The autoencoder
    That of the recipe: 1024 features, of which a byte gets k = 16 on average; features
    of length 1; an encoder that begins as the transpose of the decoder.

The training
    600 steps of Adam with 512 vectors each, drawn from all, in float32 on one thread.
    The loss is the mean squared error.  The rate of 0.003 falls to 0 in the last fifth
    of the steps.  Of 0.001 and 0.003 it was the one that left less of the variance
    unexplained after 1000 steps of "BatchTopK", with a seed that counts nowhere else.
    A seed gives all selections the same initial weights and, step by step, the same
    vectors.  The size was chosen so that the plan takes about ten minutes of one
    processor core: a step takes about 0.03 s, and a test six seconds.

The selections (as the recipe has them)
    TopK                the 16 largest pre-activations of each vector
    BatchTopK           the 16 * 512 largest of the whole batch (`dim=None`)
    straight-through    like BatchTopK; its selection has the derivative of a soft one,
                        whose temperature is the deviation of the pre-activations
    soft, then hard     `soft_topk` over the whole batch for half of the steps, while
                        the temperature falls from the deviation of the pre-activations
                        to 0.03 of it; then BatchTopK
    Each of them once without and once with the usual auxiliary loss, of strength 1/32:
    the 64 largest pre-activations of those features that no vector of the last 50
    batches has used explain what the others leave over.  Three seeds: 4 * 2 * 3 = 24
    runs.  All seeds without the auxiliary loss come first.

In use
    After the training every autoencoder selects hard.  "TopK" keeps the 16 largest of a
    vector.  The other three, whose selection in training depends on the whole batch,
    keep what is at least one number, the running mean of the smallest pre-activation
    that was kept in training.

What is measured
    bits         bits per byte of the language model on the held-out bytes, when the
                 activations of all bytes are replaced by their reconstruction
    recovered    the same as the share (ablated - bits) / (ablated - original), where
                 "original" are the bits with the activations themselves, and "ablated"
                 those with zeros in their place
    unexplained  squared error of the reconstruction over the variance of the held-out
                 activations
    dead         features, of 1024, that are active for none of the held-out bytes
    active       features of a held-out byte: mean and standard deviation
    seconds      of processor for a step of training, the median of the run; they are
                 compared roughly, because other programs use the machine meanwhile

What is compared
    With d the three differences, seed by seed, in bits, and likewise in the share that
    is unexplained and in dead features:
    1. each selection minus "BatchTopK", all without the auxiliary loss (three);
    2. the same with the auxiliary loss (three);
    3. each selection with the auxiliary loss minus the same without it (four).
    The spread of a comparison is the root of the mean, over its selections, of the
    variance of d.  A difference counts if the three d have one sign and their mean is
    more than two spreads.  (By Student's distribution, with the level 5 % divided by
    the number of selections, 1.9 spreads would do for one measure, and 2.4 for all
    three together.)  A difference that does not count may still not be zero.  One that
    counts and is below 0.01 bits, 0.005 of the variance or 10 features is called small.
    Where the measures disagree, the bits decide which selection is called better.

What would be concluded
    - If no difference of 1 counts in bits: at this size the selection does not matter
      for the model that is explained, and the advice remains a hard one.
    - If "TopK" is better than "BatchTopK": one budget for the batch, with one threshold
      in use, costs something here, and the recipe says so.  If it is worse: by how
      much.
    - If a selection with a soft derivative is better: by how much, and at how many
      times the processor time of a step; the recipe then names it.  If it is worse, the
      recipe says so.
    - If one of them leaves fewer features dead without better bits: it is a remedy for
      dead features alone.
    - If "BatchTopK" leaves fewer than 10 features dead without the auxiliary loss: from
      the transposed start nothing needs to be done against dead features here.
    - If the auxiliary loss leaves fewer dead (3): the recipe, which does not measure
      it, names the number, and what it does to the bits.
    - If the mean of the active features differs from 16 by more than 1.6 for a
      selection with a threshold: that threshold does not keep the budget in use.
    - If "BatchTopK" recovers less than 0.9: the autoencoders are too poor for their
      differences to say much.
    What it cannot show: what holds for larger models, other layers, more features,
    other k or longer training; another encoder's start; what each selection reaches
    with a rate or a temperature of its own; whether the features mean something; nor
    what another language model would give, because all runs read the same one.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import language
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import softtopk.torch as stk

TARGET = Path(__file__).with_name("autoencoder.json")
KEPT = language.KEPT  # checkpoints

# The activations.
MODEL = "dense, active size"
AFTER = 2  # blocks
WINDOWS, HELD = 4096, 1024  # of text, each of CONTEXT bytes

# The autoencoder and its training.
FEATURES, K = 1024, 16
STEPS, BATCH = 600, 512
EVERY = 100  # steps, then a checkpoint
RATE, FALLING = 3e-3, 0.2  # of Adam; the last part of the steps, in which it falls
SOFT_PART, COLDEST = 0.5, 0.03  # of the steps; the temperature at their end
STRENGTH, SILENT, AUXILIARY = 1 / 32, 50, 64  # of the auxiliary loss: batches, features

SELECTIONS = ["TopK", "BatchTopK", "straight-through", "soft, then hard"]
SEEDS = language.SEEDS

ABOUT = {  # stored with the runs
    "text": language.ABOUT["text"],
    "model": [MODEL, AFTER, WINDOWS, HELD],
    "size": [FEATURES, K],
    "training": [STEPS, BATCH, RATE, FALLING, SOFT_PART, COLDEST],
    "auxiliary": [STRENGTH, SILENT, AUXILIARY],
}


def plan() -> list[dict[str, Any]]:
    """All runs in their order: all selections with one seed, then with the next."""
    return [
        {"selection": selection, "auxiliary": auxiliary, "seed": seed}
        for auxiliary in (False, True)
        for seed in range(SEEDS)
        for selection in SELECTIONS
    ]


# ------------------------------------------------------------------ the activations


def language_model(train: torch.Tensor) -> language.Run:
    """The run of `language.py` whose activations are read, trained or from its file."""
    run = language.Run(MODEL, load_loss=False, seed=0)
    path = KEPT / "autoencoder-model.pt"
    run.resume(path)
    while (t := len(run.losses)) < language.STEPS:
        run.step(train)
        if (t + 1) % EVERY == 0:
            run.save(path)
            report(run, t + 1, language.STEPS, "bits per byte")
    return run


def before(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The activations after the first blocks, for windows of bytes."""
    h = model.byte(x)
    for block in model.blocks[:AFTER]:
        h = block(h)
    return h


def after(model: nn.Module, h: torch.Tensor) -> torch.Tensor:
    """The scores of the next byte, from these activations."""
    for block in model.blocks[AFTER:]:
        h = block(h)
    return model.norm(h) @ model.byte.weight.T


@dataclass
class Activations:
    """Vectors to train on and to test with, scaled, and what replaces them."""

    model: nn.Module
    mean: torch.Tensor
    scale: torch.Tensor
    train: torch.Tensor  # (bytes, 128), scaled
    held: torch.Tensor
    following: torch.Tensor  # the byte that follows each of `held`

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: nn.Module,
        texts: tuple[torch.Tensor, torch.Tensor],
        counts: tuple[int, int] = (WINDOWS, HELD),
    ) -> Activations:
        model = model.eval()
        parts = []
        for text, count, key in zip(texts, counts, (2027, 2026), strict=True):
            batch = language.windows(text, count, [key])
            h = torch.cat([before(model, part[:, :-1]) for part in batch.split(64)])
            parts.append(h.flatten(0, 1))
        mean = parts[0].mean(0)
        scale = (parts[0] - mean).square().mean().sqrt()
        for part in parts:
            part.sub_(mean).div_(scale)
        return cls(model, mean, scale, *parts, batch[:, 1:].flatten())

    @torch.no_grad()
    def bits(self, scaled: torch.Tensor) -> float:
        """Bits per byte of the model with these vectors in place of `held`."""
        h = (scaled * self.scale + self.mean).unflatten(0, (-1, language.CONTEXT))
        total = 0.0
        for part, following in zip(
            h.split(64), self.following.split(64 * language.CONTEXT), strict=True
        ):
            scores = after(self.model, part).flatten(0, 1)
            total += cross_entropy(scores, following, reduction="sum").item()
        return total / len(self.following) / math.log(2)


# ------------------------------------------------------------------ the autoencoder


class Autoencoder(nn.Module):
    """The autoencoder of the recipe, with the four selections that are compared."""

    def __init__(self, selection: str) -> None:
        super().__init__()
        directions = torch.randn(FEATURES, language.WIDTH)
        self.decoder = nn.Parameter(directions / directions.norm(dim=1)[:, None])
        self.encoder = nn.Parameter(self.decoder.detach().T.clone())
        self.shift = nn.Parameter(torch.zeros(FEATURES))
        self.centre = nn.Parameter(torch.zeros(language.WIDTH))  # the mean of the data
        self.register_buffer("threshold", torch.tensor(0.0))
        self.register_buffer("silent", torch.zeros(FEATURES))  # batches without use
        self.selection, self.tau = selection, 0.0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The reconstruction, the code and the pre-activations."""
        s = (x - self.centre) @ self.encoder + self.shift
        f = self.code_in_training(s) if self.training else self.code(s)
        return f @ self.decoder + self.centre, f, s

    def code(self, s: torch.Tensor) -> torch.Tensor:
        """In use each vector selects by itself."""
        if self.selection == "TopK":
            return s.relu() * stk.top_k(s, K, ties="first")
        return s.relu() * (s >= self.threshold)

    def code_in_training(self, s: torch.Tensor) -> torch.Tensor:
        fixed, budget = s.detach(), K * len(s)
        if self.selection == "TopK":
            q = stk.top_k(fixed, K)
        elif self.selection == "straight-through":
            q = stk.top_k_st(s, budget, dim=None, temperature=fixed.std())
        else:
            q = stk.top_k(fixed, budget, dim=None)
        kept = q.detach() > 0
        if self.selection != "TopK":
            self.threshold.lerp_(fixed[kept].min(), 0.05)
        self.silent = (self.silent + 1) * ~(kept & (fixed > 0)).any(0)
        if self.selection == "straight-through":
            return s * q
        if self.tau:
            tau = self.tau * fixed.std()
            return s * stk.soft_topk(s, budget, dim=None, temperature=tau)
        return s.relu() * kept

    def dead(self) -> torch.Tensor:
        """Which features no vector of the last batches has used."""
        return self.silent >= SILENT

    def auxiliary_loss(self, s: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        """The error with which the dead features explain what the others leave over."""
        dead = self.dead()
        s = s[:, dead].relu()
        value, place = s.topk(min(AUXILIARY, s.shape[1]))
        f = torch.zeros_like(s).scatter(1, place, value)
        return (f @ self.decoder[dead] - rest.detach()).square().mean()

    @torch.no_grad()
    def normalise(self) -> None:
        self.decoder /= self.decoder.norm(dim=1, keepdim=True)


# --------------------------------------------------------------------- the training


def learning_rate(t: int, rate: float = RATE) -> float:
    return rate * min(1.0, (1 - t / STEPS) / FALLING)


class Run(language.Run):
    """One run: the autoencoder, its optimiser, and what has been measured so far."""

    def __init__(self, selection: str, auxiliary: bool, seed: int) -> None:
        torch.manual_seed(seed)
        self.selection, self.auxiliary, self.seed = selection, auxiliary, seed
        self.model = Autoencoder(selection)
        self.optimiser = torch.optim.Adam(self.model.parameters())
        self.losses: list[float] = []  # mean squared error, of every step
        self.dead: list[tuple[int, int]] = []  # in training, every hundred steps
        self.seconds: list[float] = []  # of processor, of every step

    @property
    def name(self) -> str:
        return f"{self.selection}{' + auxiliary' * self.auxiliary}, seed {self.seed}"

    @property
    def checkpoint(self) -> Path:
        return KEPT / f"autoencoder-{super().checkpoint.name}"

    def step(self, vectors: torch.Tensor) -> None:
        began, t = time.process_time(), len(self.losses)
        model = self.model.train()
        soft = self.selection == "soft, then hard" and t < SOFT_PART * STEPS
        model.tau = COLDEST ** (t / (SOFT_PART * STEPS)) if soft else 0.0
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(t)
        drawn = np.random.default_rng([self.seed, t]).integers(len(vectors), size=BATCH)
        x = vectors[torch.from_numpy(drawn)]
        out, _, s = model(x)
        loss = (out - x).square().mean()
        self.losses.append(loss.item())
        if self.auxiliary and model.dead().any():
            loss = loss + STRENGTH * model.auxiliary_loss(s, x - out)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        model.normalise()
        self.seconds.append(time.process_time() - began)

    @torch.no_grad()
    def test(self, data: Activations) -> dict[str, Any]:
        """What is measured on the held-out bytes, of the autoencoder in use."""
        model, outs, active = self.model.eval(), [], []
        ever = torch.zeros(FEATURES, dtype=torch.bool)
        for x in data.held.split(4096):
            out, f, _ = model(x)
            outs.append(out)
            active.append((f > 0).sum(1).float())
            ever |= (f > 0).any(0)
        out, count = torch.cat(outs), torch.cat(active)
        error = (out - data.held).square().sum()
        variance = (data.held - data.held.mean(0)).square().sum()
        return {
            "bits": round(data.bits(out), 5),
            "unexplained": round((error / variance).item(), 5),
            "dead": int((~ever).sum()),
            "active": [round(count.mean().item(), 3), round(count.std().item(), 3)],
        }

    def result(self, data: Activations) -> dict[str, Any]:
        tens = np.reshape(self.losses, (-1, 10)).mean(1)
        return {
            "selection": self.selection,
            "auxiliary": self.auxiliary,
            "seed": self.seed,
            **self.test(data),
            "threshold": round(self.model.threshold.item(), 4),
            "seconds": round(float(np.median(self.seconds)), 4),
            "seconds_all": round(sum(self.seconds)),
            "dead_in_training": self.dead,
            "losses": [round(v, 4) for v in tens.tolist()],
            "torch": torch.__version__,
            "processor": language.processor(),
        }


def report(run: language.Run, step: int, steps: int, unit: str) -> None:
    print(
        f"{time.strftime('%H:%M')}  {run.name}: step {step} of {steps}, "
        f"{np.mean(run.losses[-EVERY:]):.3f} {unit}, "
        f"{np.median(run.seconds):.3f} s a step",
        flush=True,
    )


def train(run: Run, data: Activations, steps: int = STEPS) -> None:
    """The rest of a run, with progress and checkpoints."""
    run.resume(run.checkpoint)
    while (t := len(run.losses)) < steps:
        run.step(data.train)
        if (t + 1) % EVERY == 0:
            run.dead.append((t + 1, int(run.model.dead().sum())))
            run.save(run.checkpoint)
            report(run, t + 1, steps, f"squared error, {run.dead[-1][1]} dead")


def rehearsal(texts: tuple[torch.Tensor, torch.Tensor]) -> dict[str, list[float]]:
    """The first losses of each selection, on a model that has made five steps.

    It takes seconds instead of minutes and goes through the same code, so that another
    machine can compare its numbers with the stored ones.
    """
    first = language.Run(MODEL, load_loss=False, seed=0)
    for _ in range(5):
        first.step(texts[0])
    data = Activations.of(first.model, texts, (32, 1))
    losses = {"language model": first.losses}
    for selection in SELECTIONS:
        run = Run(selection, auxiliary=False, seed=0)
        for _ in range(5):
            run.step(data.train)
        losses[selection] = run.losses
    return {name: [round(v, 5) for v in values] for name, values in losses.items()}


# ----------------------------------------------------------------- the stored runs


def load() -> dict[str, Any]:
    """What is stored: the facts about the language model, and the runs."""
    return {"model": {}} | language.read(TARGET, ABOUT)


def store(model: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    language.write(TARGET, runs, about=ABOUT, model=model)


def left(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of the plan is not stored yet."""
    return language.missing(plan(), runs)


# --------------------------------------------------------------------- the analysis

FIRST = "BatchTopK"
OTHERS = [name for name in SELECTIONS if name != FIRST]
COMPARISONS = {
    "minus BatchTopK, without the auxiliary loss": [
        ((name, False), (FIRST, False)) for name in OTHERS
    ],
    "minus BatchTopK, with the auxiliary loss": [
        ((name, True), (FIRST, True)) for name in OTHERS
    ],
    "with the auxiliary loss minus without": [
        ((name, True), (name, False)) for name in SELECTIONS
    ],
}
MEASURES = {"bits": 0.01, "unexplained": 0.005, "dead": 10}  # below that it is small


def compare(
    runs: list[dict[str, Any]],
    pairs: list[tuple[tuple[str, bool], ...]],
    measure: str = "bits",
) -> tuple[list[list[float]], float | None, list[str]]:
    """`language.differences` of a measure."""
    values = {(r["selection"], r["auxiliary"], r["seed"]): r[measure] for r in runs}
    return language.differences(values, pairs, MEASURES[measure])


def recovered(run: dict[str, Any], model: dict[str, Any]) -> float:
    """The share of the bits that the activations save and the reconstruction keeps."""
    return (model["ablated"] - run["bits"]) / (model["ablated"] - model["original"])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--status", action="store_true")
    parser.add_argument("--try", dest="selection", choices=SELECTIONS)
    parser.add_argument("--auxiliary", action="store_true")
    parser.add_argument("--seed", type=int, default=99)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args(arguments)
    stored = load()
    if given.status:
        print(f"{len(stored['runs'])} of {len(plan())} runs are stored; left:")
        for wanted in left(stored["runs"]):
            print("  ", wanted)
        for measure in MEASURES:
            for title, pairs in COMPARISONS.items():
                found, spread, said = compare(stored["runs"], pairs, measure)
                print(f"{measure}, {title}: spread {spread}")
                for (one, _), d, words in zip(pairs, found, said, strict=True):
                    numbers = " ".join(f"{v:+.4g}" for v in d)
                    print(f"   {one[0]}: {numbers}  {words}")
        return
    torch.set_num_threads(1)
    texts = language.text()
    lm = language_model(texts[0])
    data = Activations.of(lm.model, texts)
    if given.selection:  # stored nowhere
        run = Run(given.selection, given.auxiliary, given.seed)
        train(run, data, given.steps)
        print(run.test(data))
        return
    if not stored["model"]:
        stored["model"] = {
            "original": round(data.bits(data.held), 5),
            "ablated": round(data.bits(-data.mean / data.scale + 0 * data.held), 5),
            "scale": round(data.scale.item(), 5),
            "seconds_all": round(sum(lm.seconds)),
            "rehearsal": rehearsal(texts),
            "processor": language.processor(),
        }
        store(stored["model"], [])
    while wanted := left(load()["runs"]):
        run = Run(**wanted[0])
        train(run, data)
        store(stored["model"], [*load()["runs"], run.result(data)])
        run.checkpoint.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
