"""The operators that `make peers` puts under oath: how each is called.

Every call takes scores along the last axis, a budget k and a factor t on the softness,
and gives one share for each score. A package's own setting of softness is kept and
multiplied by t; where the scores are divided by a temperature, t is that temperature.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[Any, float, float], Any]


@dataclass(frozen=True)
class Peer:
    """One operator of one package."""

    package: str  # as the index of packages knows it
    name: str
    framework: str  # "torch" or "jax"
    load: Callable[[], Call]
    curve: str | None = None  # the curve that the oracle solves, if it is one
    alpha: float | None = None
    scores: Callable[[np.ndarray], tuple[np.ndarray, float]] | None = None
    returns: str = "shares"  # or "values": the k sorted scores, softened
    only_one: bool = False  # for k = 1 alone
    random: bool = False  # of a seeded draw
    estimate: bool = False  # its derivatives are unbiased estimates
    ours: bool = False

    @property
    def key(self) -> str:
        """Package, framework and name."""
        return f"{self.package} {self.framework} {self.name}"


def _softtopk(framework: str, curve: str) -> Callable[[], Call]:
    def load() -> Call:
        stk = _ours(framework)
        return lambda x, k, t: stk.soft_topk(x, k, curve, temperature=t)

    return load


def _softtopk_one(framework: str, alpha: float) -> Callable[[], Call]:
    def load() -> Call:
        stk = _ours(framework)
        if alpha == 2:
            return lambda x, k, t: stk.sparsemax(x / t)
        return lambda x, k, t: stk.entmax(x / t, alpha=alpha)

    return load


def _ours(framework: str) -> Any:
    if framework == "torch":
        import softtopk.torch as stk
    else:
        import softtopk.jax as stk
    return stk


# --- PyTorch -------------------------------------------------------------------------


def _budget_bisect() -> Call:
    import entmax
    import torch

    def call(x: Any, k: Any, t: float) -> Any:
        if not isinstance(k, (int, float)):
            k = torch.as_tensor(k, dtype=x.dtype)
        return entmax.budget_bisect(x / t, budget=k)

    return call


def _entmax(function: str, **given: float) -> Callable[[], Call]:
    def load() -> Call:
        import entmax

        return lambda x, k, t: getattr(entmax, function)(x / t, **given)

    return load


def _sparsemax() -> Call:
    from sparsemax import Sparsemax

    return lambda x, k, t: _rows(Sparsemax(-1))(x / t)


def _softtorch(method: str) -> Callable[[], Call]:
    def load() -> Call:
        import softtorch

        def call(x: Any, k: float, t: float) -> Any:
            found = softtorch.topk(x, k, softness=0.1 * t, method=method)
            return found[1].sum(-2)

        return call

    return load


def _rows(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For packages that take matrices alone."""
    return lambda x: f(x[None])[0] if x.ndim == 1 else f(x)


def _difftopk(method: str) -> Callable[[], Call]:
    def load() -> Call:
        import difftopk

        sorts = {
            "neuralsort": lambda x, t: difftopk.NeuralSort(tau=t)(x),
            "softsort": lambda x, t: difftopk.SoftSort(tau=t)(-x).transpose(-2, -1),
        }

        def call(x: Any, k: int, t: float) -> Any:
            return _rows(lambda x: sorts[method](x, t)[:, :, -k:].sum(-1))(x)

        return call

    return load


def _network(package: str) -> Callable[[], Call]:
    def load() -> Call:
        import diffsort
        import difftopk

        @functools.lru_cache(maxsize=4)
        def net(n: int, k: int, t: float) -> Any:
            if package == "difftopk":
                return difftopk.DiffTopkNet("bitonic", n, k, steepness=10 / t)
            return diffsort.DiffSortNet("bitonic", n, steepness=10 / t)

        def call(x: Any, k: int, t: float) -> Any:
            f = net(x.shape[-1], k, t)
            return _rows(lambda x: f(x)[1][:, :, -k:].sum(-1))(x)

        return call

    return load


def _relaxit() -> Call:
    import torch
    from relaxit.distributions import GumbelSoftmaxTopK

    def call(x: Any, k: int, t: float) -> Any:
        torch.manual_seed(0)
        tau = torch.tensor(0.1 * t)
        law = GumbelSoftmaxTopK(logits=x, K=torch.tensor(k), tau=tau, hard=False)
        return law.rsample()

    return call


def _cvxpylayers() -> Call:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    @functools.lru_cache(maxsize=4)
    def layer(n: int, k: float) -> Any:
        x, p = cp.Parameter(n), cp.Variable(n)
        cost = cp.Minimize(cp.sum_squares(p) / 2 - x @ p)
        problem = cp.Problem(cost, [cp.sum(p) == k, p >= 0, p <= 1])
        return CvxpyLayer(problem, parameters=[x], variables=[p])

    return lambda x, k, t: layer(x.shape[-1], k)(x / t)[0]


def _torchsort() -> Call:
    import torchsort

    def call(x: Any, k: int, t: float) -> Any:
        rising = _rows(lambda x: torchsort.soft_sort(x, regularization_strength=t))(x)
        return rising[..., -k:]

    return call


def _torchpsort() -> Call:
    import torchpsort

    return lambda x, k, t: _rows(lambda x: torchpsort.soft_topk_values(x, k, tau=t))(x)


# --- JAX -----------------------------------------------------------------------------


def _softjax(method: str) -> Callable[[], Call]:
    def load() -> Call:
        import softjax

        def call(x: Any, k: float, t: float) -> Any:
            found = softjax.top_k(x, k, softness=0.1 * t, method=method)
            return found[1].sum(-2)

        return call

    return load


def _vectors(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """For packages that take vectors alone."""
    import jax

    return lambda x: f(x) if x.ndim == 1 else jax.vmap(f)(x)


def _box_section() -> Call:
    import jax.numpy as jnp
    from jaxopt.projection import projection_box_section

    def call(x: Any, k: float, t: float) -> Any:
        one = jnp.ones(x.shape[-1], x.dtype)
        ends = (0 * one, one, one, k)
        return _vectors(lambda x: projection_box_section(x, ends))(x / t)

    return call


def _simplex(package: str) -> Callable[[], Call]:
    def load() -> Call:
        if package == "optax":
            from optax.projections import projection_simplex
        else:
            from jaxopt.projection import projection_simplex
        return lambda x, k, t: _vectors(projection_simplex)(x / t)

    return load


def _ott() -> Call:
    from ott.tools.soft_sort import topk_mask

    return lambda x, k, t: topk_mask(x, k=k, epsilon=0.01 * t)


def _ott_scores(x: np.ndarray) -> tuple[np.ndarray, float]:
    """What OTT transports, its default, and half its strength: see claim N-12."""
    x = np.asarray(x, float)
    whitened = (x - x.mean()) / (x.std() + 1e-10)
    return 1 / (1 + np.exp(-whitened)), 0.005


def _perturbed(package: str) -> Callable[[], Call]:
    def load() -> Call:
        import jax
        import jax.numpy as jnp

        key = jax.random.key(0)

        def hard(x: Any, k: int) -> Any:
            chosen = jax.lax.top_k(x, k)[1]
            return jnp.zeros_like(x).at[chosen].set(1)

        def call(x: Any, k: int, t: float) -> Any:
            if package == "jaxopt":
                from jaxopt.perturbations import make_perturbed_argmax

                f = make_perturbed_argmax(lambda x: hard(x, k), sigma=0.1 * t)
                return _vectors(lambda x: f(x, key))(x)
            from optax.perturbations import make_perturbed_fun

            f = make_perturbed_fun(lambda x: hard(x, k), sigma=0.1 * t)
            return _vectors(lambda x: f(key, x))(x)

        return call

    return load


# One solver serves all curves; on JAX two stand for them.
CURVES = {"torch": ("exp", "laplace", "sigmoid", "clip"), "jax": ("laplace", "clip")}
METHODS = ("neuralsort", "softsort", "ot")

PEERS = (
    *(
        Peer("softtopk", f"soft_topk, {c}", f, _softtopk(f, c), curve=c, ours=True)
        for f, curves in CURVES.items()
        for c in curves
    ),
    Peer("entmax", "budget_bisect", "torch", _budget_bisect, curve="clip"),
    Peer("cvxpylayers", "capped simplex", "torch", _cvxpylayers, curve="clip"),
    *(Peer("softtorch", f"topk, {m}", "torch", _softtorch(m)) for m in METHODS),
    *(
        Peer("difftopk", name, "torch", _difftopk(name.lower()))
        for name in ("NeuralSort", "SoftSort")
    ),
    Peer("difftopk", "DiffTopkNet", "torch", _network("difftopk")),
    Peer("diffsort", "DiffSortNet", "torch", _network("diffsort")),
    Peer("relaxit", "GumbelSoftmaxTopK", "torch", _relaxit, random=True),
    Peer("jaxopt", "projection_box_section", "jax", _box_section, curve="clip"),
    Peer("ott-jax", "topk_mask", "jax", _ott, curve="sigmoid", scores=_ott_scores),
    *(Peer("softjax", f"top_k, {m}", "jax", _softjax(m)) for m in METHODS),
    *(
        Peer(p, f, "jax", _perturbed(p), random=True, estimate=True)
        for p, f in (
            ("jaxopt", "make_perturbed_argmax"),
            ("optax", "make_perturbed_fun"),
        )
    ),
    Peer("torchsort", "soft_sort", "torch", _torchsort, returns="values"),
    Peer("torchpsort", "soft_topk_values", "torch", _torchpsort, returns="values"),
    *(
        Peer(
            "softtopk",
            name,
            f,
            _softtopk_one(f, a),
            curve="entmax",
            alpha=a,
            only_one=True,
            ours=True,
        )
        for f in ("torch", "jax")
        for name, a in (("sparsemax", 2.0), ("entmax, 1.5", 1.5))
    ),
    *(
        Peer("entmax", f, "torch", _entmax(f), curve="entmax", alpha=a, only_one=True)
        for f, a in (
            ("sparsemax", 2.0),
            ("sparsemax_bisect", 2.0),
            ("entmax15", 1.5),
            ("entmax_bisect", 1.5),
        )
    ),
    Peer(
        "sparsemax",
        "Sparsemax",
        "torch",
        _sparsemax,
        curve="entmax",
        alpha=2.0,
        only_one=True,
    ),
    *(
        Peer(
            p,
            "projection_simplex",
            "jax",
            _simplex(p),
            curve="entmax",
            alpha=2.0,
            only_one=True,
        )
        for p in ("jaxopt", "optax")
    ),
)
