"""Eight small experts that read digits, and a router to train with any gate.

Two chapters of the book train this model, the one on routers and the one on load
balancing; the numbers that other pages quote come from here.

The data
    scikit-learn's 1797 digits, images of 64 pixels, in eight random splits of 1000
    images for training and 797 for testing.  All splits are trained side by side: the
    first axis of every array is the split, the second the image, which is the *token*.

The model
    Each expert sees an image through two hidden units, too few to tell ten digits apart
    well, so the experts have to divide the work.  The router is linear, with a trained
    constant for each expert; the argument `ahead` sets those of the first two, which
    makes the start uneven.

The training
    Adam with the rate 0.02, 200 steps of 200 images.  The temperature of a soft
    selection falls from 1 to a tenth, by a constant factor per step.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import softtopk.torch as stk

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)

SPLITS, EXPERTS, HIDDEN = 8, 8, 2
pixels, digit = load_digits(return_X_y=True)
pixels = (pixels - pixels.mean(0)) / 16
order = np.stack(
    [np.random.default_rng(seed).permutation(len(digit)) for seed in range(SPLITS)]
)
x, y = torch.tensor(pixels[order]), torch.tensor(digit[order])


def start(ahead):
    """The weights at the start, the same for every gate."""
    draw = torch.Generator().manual_seed(0)

    def normal(*shape, scale=1.0):
        return scale * torch.randn(SPLITS, *shape, generator=draw)

    weights = {
        "router": normal(64, EXPERTS, scale=1 / 8),
        "favour": torch.zeros(SPLITS, 1, EXPERTS),
        "inner": normal(64, EXPERTS * HIDDEN, scale=1 / 8),
        "outer": normal(EXPERTS * HIDDEN, 10, scale=HIDDEN**-0.5),
        "shift": torch.zeros(SPLITS, EXPERTS, 10),
    }
    weights["favour"][..., :2] = ahead
    return {n: w.requires_grad_() for n, w in weights.items()}


def scores(w, x):
    """The router's scores, of shape (splits, batch, experts)."""
    return x @ w["router"] + w["favour"]


def mixture(w, x, g):
    """Sum over experts of gate times output, of shape (splits, batch, 10)."""
    h = torch.tanh(x @ w["inner"]).unflatten(-1, (EXPERTS, -1))
    gated = (g[..., None] * h).flatten(-2)
    return gated @ w["outer"] + g @ w["shift"]


def selection(kind, s, k, tau):
    """The selection of a gate; tau = 0 selects hard."""
    if kind == "straight-through":
        return stk.top_k_st(s, k)  # the temperature 1, of the backward pass only
    if kind == "soft" and tau:
        return stk.soft_topk(s, k, temperature=tau)
    return stk.top_k(s, k)


def renormalised(g):
    """Gates with the sum 1."""
    return g / g.sum(-1, keepdim=True)


def gate(name, s, k, tau, bias=0, select=selection):
    """The gate with a name such as "hard sigmoid"; the bias is for the selection only.

    "untrained" gives every selected expert the weight 1/k, and the router no gradient.
    """
    kind, _, weight = name.partition(" ")
    p = select(kind, s + bias, k, tau)
    if kind == "untrained":
        return p.detach() / k
    if weight == "unweighted":
        return p / k
    if weight == "sigmoid":
        return p * s.sigmoid()
    g = p * s.softmax(-1)
    return g if weight == "undivided" else renormalised(g)


def error(out, y):
    """Cross entropy: the mean over the batch, summed over the splits."""
    total = cross_entropy(out.flatten(0, 1), y.flatten(), reduction="sum")
    return total / y.shape[1]


def still(b, s, k):
    """The rule that does not move the bias."""
    return b


def train(
    name,
    k,
    ahead=0.0,
    steps=200,
    end=0.1,
    scale=lambda s: 1,
    select=selection,
    extra=lambda s, k: 0,
    before=still,
    after=still,
):
    """The weights and the bias of all splits after the training.

    The temperature falls from 1 to `end`, multiplied by `scale` of the scores. `select`
    takes the place of `selection`, and `extra` is a term that is added to the loss. A
    rule for the bias moves it `before` a batch is routed or `after` it.
    """
    w, pick = start(ahead), torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam(w.values(), lr=0.02)
    b = torch.zeros(SPLITS, 1, EXPERTS)
    for step in range(steps):
        batch = torch.randperm(1000, generator=pick)[:200]
        s = scores(w, x[:, batch])
        b = before(b, s.detach(), k)
        tau = scale(s.detach()) * end ** (step / steps)
        out = mixture(w, x[:, batch], gate(name, s, k, tau, b, select))
        loss = error(out, y[:, batch]) + extra(s, k)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        b = after(b, s.detach(), k)
    return {n: v.detach() for n, v in w.items()}, b


def evaluate(name, k, w, b):
    """The accuracy of each split, and the load of each expert over the fair load.

    Of the test images, with the hard selection.
    """
    s = scores(w, x[:, 1000:])
    out = mixture(w, x[:, 1000:], gate(name, s, k, 0, b))
    right = out.argmax(-1) == y[:, 1000:]
    load = stk.top_k(s + b, k).mean(1) * EXPERTS / k
    return right.double().mean(1).numpy(), load.numpy()
