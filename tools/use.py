"""Use an installed softtopk: its core on NumPy alone, then the extras that are named.

Usage: python tools/use.py [--from FOLDER] [EXTRA ...]

A check that needs no test runner, for a wheel in an environment of its own. FOLDER is
where the package has to have been imported from, so that a copy of the sources beside
it cannot pass for what was installed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCORES = [[2.0, 1.0, 0.0], [0.0, 1.0, 3.0]]
# `sample_shares` takes shares in place of scores.
SHARES = [[1.0, 0.5, 0.5], [0.25, 0.75, 1.0]]
KNOWN: dict[str, Any] = {
    "k": 1,
    "target": [0, 0],
    "margin": 0.1,
    "rng": 0,
    "subset": [[1, 0, 0], [1, 0, 0]],
}
WITHOUT_DERIVATIVE = (
    *("top_k", "top_k_indices", "top_k_sum", "pair_marginals"),
    *("sample_topk", "sample_shares"),
)


def core() -> None:
    """Every operator and loss, with its derivative, and nothing imported but NumPy."""
    import numpy as np

    before = set(sys.modules)
    import softtopk as stk

    loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
    others = loaded - sys.stdlib_module_names - {"softtopk", "numpy"}
    assert not others, f"import softtopk loads {others}"
    operators = [
        getattr(module, name)
        for module in (stk, stk.losses)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name)) and name != "linearize"
    ]
    assert len(operators) > 20, operators
    for operator in operators:
        wanted = inspect.signature(operator).parameters
        given: dict[str, Any] = {n: v for n, v in KNOWN.items() if n in wanted}
        first = SHARES if "p" in wanted else SCORES
        assert np.isfinite(operator(first, **given)).all(), operator
        if operator.__name__ not in WITHOUT_DERIVATIVE:
            stk.linearize(operator, SCORES, **given).vjp(1.0)
    assert stk.__version__


def symbolic() -> None:
    """A claim that SymPy decides."""
    import sympy as sp

    from softtopk import verify

    t = sp.symbols("t", real=True)
    with verify.claim("an identity", "holds"):
        assert verify.is_zero(sp.cosh(t) ** 2 - sp.sinh(t) ** 2 - 1)


def figures() -> None:
    """A figure, without a display."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    from softtopk import figures, soft_topk

    figure, axes = figures.figure()
    figures.bars(axes, SCORES[0], {"exp": soft_topk(SCORES[0], 1)})
    figure.canvas.draw()
    plt.close(figure)


def torch() -> None:
    """Shares and a gradient of a tensor."""
    import torch

    import softtopk.torch as stk

    x = torch.tensor(SCORES, requires_grad=True)
    p = stk.soft_topk(x, 1, temperature=0.5)
    (p * torch.arange(3.0)).sum().backward()
    assert torch.allclose(p.sum(-1), torch.ones(2))
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def jax() -> None:
    """Shares and a gradient of an array, compiled."""
    import jax
    import jax.numpy as jnp

    import softtopk.jax as stk

    x = jnp.asarray(SCORES)
    slope = jax.jit(jax.grad(lambda x: stk.soft_topk(x, 1)[:, 0].sum()))(x)
    assert abs(stk.soft_topk(x, 1).sum(-1) - 1).max() < 1e-6
    assert abs(slope).sum() > 0


def dask() -> None:
    """Shares of an array in chunks."""
    import dask.array as da
    import numpy as np

    import softtopk
    import softtopk.dask as stk

    x = np.linspace(-1, 1, 12).reshape(2, 6)
    p = stk.soft_topk(da.from_array(x, chunks=(1, 2)), 2).compute()
    assert abs(p - softtopk.soft_topk(x, 2)).max() < 1e-14


EXTRAS: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (symbolic, figures, torch, jax, dask)
}


def main() -> None:
    arguments = sys.argv[1:]
    place = None
    if arguments[:1] == ["--from"]:
        place, arguments = Path(arguments[1]), arguments[2:]
    core()
    for name in arguments:
        EXTRAS[name]()
    for name, module in list(sys.modules.items()):
        if place and name.partition(".")[0] == "softtopk":
            file = Path(str(module.__file__)).resolve()
            assert file.is_relative_to(place.resolve()), f"{file} is not in {place}"
    print("used:", ", ".join(["core", *arguments]))


if __name__ == "__main__":
    main()
