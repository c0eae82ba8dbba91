"""What only JAX has: jit, collectives of the compiled program, the number of passes."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import softtopk as core
import softtopk.jax as stk
from softtopk._rows.budget import Budget
from softtopk._search import root, start


def test_jit_is_equal_and_a_bad_row_is_nan():
    x = np.random.default_rng(0).standard_normal((3, 40))
    k = np.array([1.5, 99.0, -1.0])
    p = np.asarray(jax.jit(lambda x, k: stk.soft_topk(x, k))(x, k))
    assert abs(p[0] - core.soft_topk(x[0], 1.5)).max() < 1e-15
    assert np.isnan(p[1:]).all()
    with pytest.raises(ValueError, match="check must be None or False"):
        jax.jit(lambda x: stk.soft_topk(x, 1, check=True))(x)


def test_forward_inside_forward_is_right():
    x = jnp.array([1.3, 0.4, -0.2, -0.9])
    f = lambda x: (stk.soft_topk(x, 1.7) ** 2).sum()  # noqa: E731
    assert abs(jax.jacfwd(jax.jacfwd(f))(x) - jax.hessian(f)(x)).max() < 1e-15


def test_an_eager_call_looks_at_its_rows_in_one_program(caplog):
    """Each program of a new shape is compiled, which takes longer than a call does."""
    stk.soft_topk(jnp.ones((2, 3)), 1)
    x = jnp.arange(35.0).reshape(5, 7)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        stk.soft_topk(x, 2.5, temperature=0.5)
    compiled = [v for v in caplog.messages if v.startswith("Compiling")]
    assert 2 <= len(compiled) <= 4  # to spread k over the rows, to look, and to solve


MEAN_PASSES = {
    "exp": 4.6,
    "laplace": 4.4,
    "sigmoid": 5.1,
    "clip": 5.2,
    "triangular": 6.8,
    "entmax(1.5)": 6.7,
}


def test_six_passes_are_enough_for_normal_rows(capsys):
    x = np.random.default_rng(9).standard_normal((300, 400))
    ks = (1.0, 8.0, 40.0, 200.5)
    found = {name: passes(name, x, ks).mean() for name in MEAN_PASSES}
    with capsys.disabled():
        print("\n" + ", ".join(f"{name} {mean:.2f}" for name, mean in found.items()))
    assert all(found[name] <= most for name, most in MEAN_PASSES.items())
    assert np.mean(list(found.values())) <= 5.5


def test_no_row_waits_for_what_rounding_withholds():
    """Shares near 1 whose distances are rounded, and steps to and fro over a kink."""
    rng = np.random.default_rng(9)
    assert passes("clip", 0.1 * rng.uniform(-1, 1, (300, 200)), [198.0]).max() <= 12
    kink = [[3.4105027, 2.5672328, 2.3025165, 2.3022053, 1.9217824, -0.5]]
    assert passes("clip", np.array(kink), [1.0]).max() <= 7


def passes(name, x, ks):
    """Of every row and k; a row that has ended is not evaluated any more."""
    (R, n), curves, counts = x.shape, core.curves, []
    curve = curves.entmax(1.5) if "entmax" in name else curves.resolve(name)
    for k in ks:
        budget = Budget(np.full(R, int(k)), np.full(R, k - int(k)), np.full(R, n))
        at = start.begin(curve, budget, 1.0, start.moments(x, budget.n))
        far = abs(curve.inverse(budget.mean()))
        passes = np.full(R, 2)  # the extremes, and the deviation
        with np.errstate(all="ignore"):
            for count in range(100):
                if at.done.all():
                    break
                passes += ~at.done
                row = root.sums(curve, root.distances(x, 1.0, at.anchor, at.search.t))
                at = root.advance(curve, budget, 1.0, row, at, count, far)
        counts.append(passes)
    return np.array(counts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "clip", 1.25, 1.5, 1.75])
def test_no_row_of_a_compiled_search_hangs(name, dtype, monkeypatch):
    """An excess that a compiler rounds otherwise would be halved to the last bit."""
    curve = core.curves.entmax(name) if isinstance(name, float) else name
    x = np.random.default_rng(9).standard_normal((500, 99)).astype(dtype)
    left = searching(monkeypatch, curve, x)
    assert left[-1] == 0 and len(left) <= 12, left


def test_a_step_that_distances_cannot_show_is_the_last(monkeypatch):
    """Few of 50 000 scores: eleven below the threshold float32 has steps of 8 eps."""
    x = np.random.default_rng(0).standard_normal((64, 50_000)).astype(np.float32)
    left = searching(monkeypatch, "exp", x)
    assert left[-1] == 0 and len(left) <= 3, left


def searching(monkeypatch, curve, x):
    """How many rows a compiled search has left after each pass, for k = 1."""
    left, advance = [], root.advance

    def counted(*given):
        at = advance(*given)
        jax.debug.callback(lambda done: left.append(np.sum(~done)), at.done)
        return at

    monkeypatch.setattr(root, "advance", counted)
    jax.jit(lambda x: stk.soft_topk(x, 1, curve))(x).block_until_ready()
    jax.effects_barrier()
    return left


@pytest.mark.parametrize("mapped", [False, True], ids=["rows", "vmap"])
@pytest.mark.parametrize("curve", ["exp", "clip"])
def test_long_rows_pay_for_a_mask_only_if_there_is_one(curve, mapped):
    def one(x):
        return stk.soft_topk(x, 20.5, curve)

    run = jax.vmap(one) if mapped else one
    program = jax.jit(run)
    x = np.random.default_rng(4).standard_normal((3, 1 << 13))
    assert "conditional(" in program.lower(x).compile().as_text()
    some = x.copy()
    some[0, ::3] = some[1, 20:] = -np.inf
    weight = np.random.default_rng(5).standard_normal(x.shape)
    gradient = jax.jit(jax.grad(lambda x, v: (run(x) * v).sum()))
    for given in (x, some[[0, 2]], some):
        wide = np.isfinite(given).sum(-1) >= 20.5
        want = core.linearize(core.soft_topk, given[wide], 20.5, curve)
        v = weight[: len(given)]
        found, slope = np.asarray(program(given)), np.asarray(gradient(given, v))
        assert abs(found[wide] - want.value).max() < 1e-15
        assert abs(slope[wide] - want.vjp(v[wide])).max() < 1e-15
        assert np.isnan(found[~wide]).all()
    some[2, 7] = np.nan
    assert np.isnan(np.asarray(program(some))[2]).all()


@pytest.mark.parametrize("masked", [False, True])
def test_a_long_row_whose_sum_overflows_is_solved(masked):
    x = 20 + np.random.default_rng(4).standard_normal((2, 1 << 13))
    x[1, 5] = -np.inf if masked else 20.0
    tau = 1e304
    p = jax.jit(lambda x: stk.soft_topk(x, 20.5, temperature=tau))(tau * x)
    assert abs(np.asarray(p) - core.soft_topk(x, 20.5)).max() < 1e-14


@pytest.mark.parametrize("back", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("curve", ["exp", "laplace", "sigmoid", "clip", "triangular"])
def test_a_long_row_is_stored_once(curve, back):
    """XLA stores what it sums: not of all sums at the same time."""

    def run(x):
        return stk.soft_topk(x, 8, curve)

    f = jax.grad(lambda x: (run(x) ** 2).sum()) if back else run
    x = jax.ShapeDtypeStruct((64, 1 << 15), jnp.float32)
    used = jax.jit(f).lower(x).compile().memory_analysis().temp_size_in_bytes
    assert used <= (2.1 if back else 1.1) * 4 * x.size


def test_scores_over_eight_devices_travel_as_sums_alone():
    """Forward, gradient and Hessian product of a divided axis: all-reduces only."""
    program = """
        import re
        import jax, jax.numpy as jnp, numpy as np
        jax.config.update("jax_enable_x64", True)
        import softtopk.jax as stk
        from softtopk._adapters import jax_adapter as adapter
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

        assert len(jax.devices()) == 8
        mesh = Mesh(np.array(jax.devices()), "d")
        place = NamedSharding(mesh, P(None, "d"))
        # The last rows are longer: there one sum waits for another, and masked sums for
        # a look whether any score is -inf.
        adapter._SUMMED_IN_TURN = adapter._SCANNED_FOR_MASK = 2000
        other = "all-gather|all-to-all|collective-permute|collective-broadcast"
        for curve, n in (
            ("exp", 800), ("laplace", 800), ("sigmoid", 800), ("clip", 800),
            ("sigmoid", 1600),
        ):
            x = np.random.default_rng(0).standard_normal((2, n))
            v = np.random.default_rng(1).standard_normal((2, n))
            X, V = (jax.device_put(a, place) for a in (x, v))
            def forward(x):
                return stk.soft_topk(x, 20.5, curve)
            def loss(x):
                return (forward(x) ** 2).sum()
            gradient = jax.grad(loss)
            def product(x, v):
                return jax.jvp(gradient, (x,), (v,))[1]
            for f, given, plain in (
                (forward, (X,), (x,)), (gradient, (X,), (x,)), (product, (X, V), (x, v))
            ):
                program = jax.jit(f, in_shardings=place, out_shardings=place)
                compiled = program.lower(*given).compile()
                text = compiled.as_text()
                assert not re.search(other, text), re.search(other, text)
                sums = len(re.findall(r"= [^=]* all-reduce(?:-start)?\\(", text))
                assert sums
                error = abs(np.asarray(compiled(*given)) - np.asarray(f(*plain))).max()
                assert error < 1e-14, error
                print(curve, f.__name__, sums)

        def loads(S):
            return stk.balanced_topk(S, 2, temperature=0.5)

        def slope(S):
            return jax.grad(lambda S: (loads(S) ** 2).sum())(S)

        S, rows = x[0].reshape(400, 4), NamedSharding(mesh, P("d", None))
        divided = jax.device_put(S, rows)
        compiled = jax.jit(slope, in_shardings=rows, out_shardings=rows)
        compiled = compiled.lower(divided).compile()
        assert not re.search(other, compiled.as_text())
        assert abs(np.asarray(compiled(divided)) - slope(jnp.asarray(S))).max() < 1e-13
        print("loads")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={
            **os.environ,
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")
            + " --xla_force_host_platform_device_count=8",
            "PYTHONPATH": str(core.__path__[0] + "/.."),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("\n") == 16
