"""What a training run meets: cooling, empty batches, bad rows, compilers, devices."""

import copy
import io
import os
import subprocess
import sys
import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from test_behaviour import BASE, MISSING
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import softtopk
import softtopk.jax as stj
import softtopk.torch as stk
from softtopk import curves

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


@pytest.mark.parametrize("value", [0, -0.5, float("nan"), float("inf")])
def test_a_layer_refuses_a_temperature_where_it_is_given(value):
    with pytest.raises(ValueError, match="temperature must be finite and above 0"):
        stk.SoftTopK(2, temperature=value)
    for held in (0.5, torch.tensor(0.5), torch.nn.Parameter(torch.tensor(0.5))):
        layer = stk.SoftTopK(2, temperature=held)
        with pytest.raises(ValueError, match="temperature must be finite and above 0"):
            layer.temperature = value
        assert torch.as_tensor(layer.temperature).detach() == 0.5


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


SMALL = {"alpha": 1.5, "k": 2}
EMPTY = [name for name in BASE if name not in MISSING]


def empty_call(ops, array, name, **given):
    """An operator of scores alone, and its scores of a batch of none."""
    shape = (0, 3, 5) if name == "balanced_topk" else (3, 0, 5)
    settings = {key: SMALL.get(key, v) for key, v in BASE[name].items()} | given
    if "target" in settings:
        settings["target"] = array(np.zeros(shape[:-1], int))
    for key, v in settings.items():
        if isinstance(v, np.ndarray):
            settings[key] = array(v)
    f = getattr(ops, name)
    return lambda x: f(x, **settings), array(np.empty(shape))


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_batch_has_empty_results_and_gradients(lib, name):
    f, x = empty_call(lib.ops, lib.array, name)  # a gradient is compiled with JAX
    assert 0 in f(x).shape
    if name == "top_k_indices":  # integers, which have no derivative
        return
    _, slope = lib.value_and_gradient(lambda x: (f(x) ** 2).sum())(x)
    assert slope.shape == x.shape
    if lib.name == "torch":
        f, x = empty_call(lib.ops, lib.array, name, check=False)
        assert f(x.requires_grad_()).sum() == 0


COMPILED = ["soft_topk", "top_k", "am_softmax_loss", "entmax_loss", "balanced_topk"]
COMPILED += ["in_top_k_loss"]
if os.environ.get("EVERY"):  # in the weekly workflow
    COMPILED = EMPTY


@pytest.mark.parametrize("name", COMPILED)
def test_an_empty_batch_compiles(name):
    f, x = empty_call(stk, torch.tensor, name)
    torch.compiler.reset()
    p = torch.compile(f, fullgraph=True, backend="eager")(x.requires_grad_())
    assert 0 in p.shape
    if p.requires_grad:
        assert torch.autograd.grad(p.sum(), x)[0].shape == x.shape


@pytest.mark.parametrize("name", ["cross_entropy", "in_top_k_loss", "soft_topk"])
def test_what_records_no_derivative_compiles(name):
    """As in an evaluation; the functions that record one are compiled another way."""
    given = {"cross_entropy": (torch.arange(4),), "soft_topk": (2,)}
    given = given.get(name, (torch.arange(4), 2))
    torch.compiler.reset()
    compiled = torch.compile(getattr(stk, name), fullgraph=True, backend="eager")
    expected = getattr(stk, name)(scores(), *given)
    torch.testing.assert_close(compiled(scores(), *given), expected, rtol=0, atol=1e-13)


def test_an_empty_batch_may_have_its_own_budgets_and_temperatures(lib):
    given = {"k": np.ones((3, 0)), "temperature": np.ones((3, 0))}
    f, x = empty_call(lib.ops, lib.array, "soft_topk", **given)
    assert f(x).shape == x.shape


def test_an_empty_batch_of_several_axes(lib):
    x = np.empty((0, 2, 3))
    for axis in ((-2, -1), (1, 2)):
        assert lib.ops.soft_topk(lib.array(x), 2, axis=axis).shape == x.shape
        assert lib.ops.threshold(lib.array(x), 2, axis=axis).shape == (0,)


@pytest.mark.parametrize("alpha", [1, 1.3])
def test_entmax_compiles(alpha):
    def f(x):
        return stk.entmax(x, alpha)

    torch.compiler.reset()
    found = torch.compile(f, fullgraph=True, backend="eager")(scores())
    torch.testing.assert_close(found, f(scores()), rtol=0, atol=1e-14)


BAD = {
    "nan": {"entry": np.nan},
    "inf": {"entry": np.inf},
    "budget": {"k": np.array([2.0, 9.0, 2.0])},
    "temperature": {"temperature": np.array([1.0, -1.0, 1.0])},
}
UNLOOKED = {
    "soft_topk": BAD,
    "threshold": BAD,
    "top_k_st": BAD,
    "grad_topk": BAD,
    "log_partition": BAD,
    "softmax": ["nan", "inf", "temperature"],
    "log_softmax": ["nan", "temperature"],
    "sparse_softmax": BAD,
    "entmax": ["nan", "temperature"],
    "top_k_sum": ["nan", "budget"],
    "soft_rank": ["nan"],
    "cross_entropy": ["nan"],
    "balanced_topk": ["nan"],
}


@pytest.mark.parametrize("name", UNLOOKED)
def test_the_gradient_of_a_bad_row_is_nan(lib, name):
    """Where nobody looks: torch's check=False, and a program of JAX."""
    rng = np.random.default_rng(1)
    for what in UNLOOKED[name]:
        changes = dict(BAD[what])
        given = BASE.get(name, {"k": 2})
        settings = {key: SMALL.get(key, v) for key, v in given.items()}
        x = rng.standard_normal((3, 4, 6) if name == "balanced_topk" else (3, 6))
        x[(1,) * (x.ndim - 1) + (2,)] = changes.pop("entry", 0.5)
        settings |= changes
        if "target" in settings:
            settings["target"] = np.zeros(3, int)
        for key, v in settings.items():
            if isinstance(v, np.ndarray):
                settings[key] = lib.array(v)
        check = False if lib.name == "torch" else None

        def f(x, settings=settings, check=check):
            p = getattr(lib.ops, name)(x, **settings, check=check)
            return (p * lib.array(np.cos(np.arange(p.shape[-1])))).sum()

        _, slope = lib.value_and_gradient(f)(lib.array(x))
        slope = lib.numpy(slope)
        assert np.isnan(slope[1]).all(), what
        assert np.isfinite(slope[[0, 2]]).all(), what


def test_a_budget_that_changes_is_compiled():
    def f(x, k):
        return stk.top_k(x, k), stk.top_k(x, 2 * len(x), dim=None)

    torch.compiler.reset()
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    for k in (2, 3, 5):
        for x in (scores(), scores()[:3]):
            for found, expected in zip(compiled(x, k), f(x, k), strict=True):
                assert torch.equal(found, expected)


SYMBOLS = {
    **{name: {"k": 2, "curve": name} for name in curves.NAMED},
    "entmax": {"k": 2, "curve": curves.entmax(1.3)},
    "reflected": {"k": 2, "curve": curves.EXP.reflected()},
    "affine": {"k": 2.5, "curve": curves.LAPLACE.scaled(2).shifted(0.5)},
}


@pytest.mark.parametrize("case", SYMBOLS)
def test_sizes_and_numbers_may_be_symbols(case):
    """The numbers of a curve are none: from 2.15 on no loop of torch takes symbols."""

    def f(x, temperature):
        return stk.soft_topk(x, **SYMBOLS[case], temperature=temperature)

    torch.compiler.reset()
    compiled = torch.compile(f, fullgraph=True, dynamic=True, backend="eager")
    for x, tau in ((scores(), 0.5), (scores()[:3, :5], 0.25)):
        torch.testing.assert_close(compiled(x, tau), f(x, tau), rtol=0, atol=1e-13)


def test_distributed_tensors_are_not_imported():
    program = """
        import sys, torch
        before = "torch.distributed.tensor" in sys.modules
        import softtopk.torch
        assert before or "torch.distributed.tensor" not in sys.modules
    """
    run = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    subprocess.run(run, check=True, timeout=120)


MISUSES = {
    "a pytree": ({"x": {"logits": 1.0}}, "x must hold real numbers"),
    "nothing": ({"x": None}, "x must hold real numbers"),
    "words": ({"x": "scores"}, "x must hold real numbers"),
    "tensors": ({"x": [scores()[0], scores()[1]]}, "x must be one array"),
    "a complex type": ({"x": scores(torch.complex128)}, "x must hold real numbers"),
    "a class": ({"k": True}, "k must be a real number"),
    "no number": ({"k": float("nan")}, r"k must lie in \[0, 6\].* got nan"),
    "an axis too far": ({"dim": 2}, r"dim must lie in \[-2, 1\] for x with 2 axes"),
    "a list of axes": ({"dim": [0]}, "dim must be an integer, a tuple"),
    "an axis twice": ({"dim": (1, -1)}, "dim must not name an axis of x twice"),
    "no entries": ({"x": torch.ones(2, 0)}, "one entry along dim -1"),
    "three budgets": ({"k": [1, 2, 3]}, "k must broadcast against x without its dim"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_a_message_of_torch_names_the_argument_and_what_is_allowed(case):
    given, message = MISUSES[case]
    given = {"x": scores(), "k": 2} | given
    for f in (stk.soft_topk, stk.top_k, stk.grad_topk):
        words = message
        if f is stk.grad_topk and case == "no number":
            words = "k must be a whole number, got nan"
        with pytest.raises((TypeError, ValueError), match=words):
            f(given["x"], given["k"], dim=given.get("dim", -1))


def test_the_dims_of_a_matrix_are_named():
    with pytest.raises(TypeError, match="dims must be two integers"):
        stk.balanced_topk(scores(), 1, dims=1)


@pytest.mark.parametrize("values", [ROWS, ROWS.tolist()], ids=["numpy", "list"])
def test_scores_of_numpy_and_lists_are_taken(values):
    given = torch.as_tensor(values)
    for f in (stk.soft_topk, stk.top_k, stk.grad_topk, stk.potential):
        assert torch.equal(f(values, 2), f(given, 2))
    target = torch.zeros(4, dtype=torch.int64)
    assert torch.equal(stk.top_k_loss(values, target), stk.top_k_loss(given, target))


META = ["soft_topk", "threshold", "top_k", "top_k_st", "grad_topk", "log_partition"]


@pytest.mark.parametrize("name", META)
def test_tensors_without_values_have_results_without_values(name):
    f, x = getattr(stk, name), scores()
    found = f(x.to("meta").requires_grad_(), 2)
    assert found.is_meta and found.shape == f(x, 2).shape
    with pytest.raises(ValueError, match=r"check must be .* meta"):
        f(x.to("meta"), 2, check=True)


def test_a_list_of_budgets_compiles():
    def f(x):
        settings = {"temperature": [1.0, 0.5, 2.0, 0.1]}
        return stk.soft_topk(x, [1, 2, 3, 2.5], **settings), stk.top_k(x, [1, 2, 3, 2])

    torch.compiler.reset()
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    for found, expected in zip(compiled(scores()), f(scores()), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_a_check_that_cannot_be_made_is_named(lib):
    program = torch.func.vmap if lib.name == "torch" else __import__("jax").jit
    with pytest.raises(ValueError, match="check must be None or False where values"):
        program(lambda x: lib.ops.soft_topk(x, 2, check=True))(lib.array(ROWS))


def test_a_budget_that_keeps_the_axis_of_the_scores_is_refused(lib):
    x, message = lib.array(ROWS), r"one number for each row of x, shape \(4,\), .*4, 1"
    for ops, kept, at in ((lib.ops, lib.array, x), (softtopk, np.asarray, ROWS)):
        for f in (ops.soft_topk, ops.top_k, ops.grad_topk):
            with pytest.raises(ValueError, match=message):
                f(at, kept(np.full((4, 1), 2)))
            with pytest.raises(ValueError, match=r"\(2, 6\), .* shape \(2, 1, 6\)"):
                f(at.reshape(2, 2, 6), kept(np.full((2, 1, 6), 2)), axis=1)
        # Several budgets for every row, or for the one row that there is, are meant.
        assert ops.soft_topk(at, kept(np.full((3, 4), 2))).shape == (3, 4, 6)
        assert ops.soft_topk(at[0], kept(np.full(3, 2))).shape == (3, 6)
        assert ops.soft_topk(at[:1], kept(np.full((3, 1), 2))).shape == (3, 1, 6)


def test_a_budget_of_one_number_may_be_on_the_cpu():
    """The device "meta" stands for any other one."""
    x, k = scores().to("meta").requires_grad_(), torch.tensor(2.0, requires_grad=True)
    settings = {"temperature": torch.tensor(0.5, requires_grad=True)}
    for f in (stk.soft_topk, stk.threshold, stk.top_k_st, stk.top_k):
        given = settings if f is not stk.top_k else {}
        assert f(x, k, **given).is_meta


@pytest.mark.parametrize("name", ["k", "temperature"])
def test_numbers_a_row_on_another_device_are_named(name):
    for here, there in (("cpu", "meta"), ("meta", "cpu")):
        given = {"k": 2} | {name: torch.ones(4, device=there)}
        message = f"{name} must be on the device of the scores, {here}, .* on {there}"
        with pytest.raises(ValueError, match=message):
            stk.soft_topk(scores().to(here), **given)


@pytest.mark.parametrize("name", ["target", "where"])
def test_targets_and_masks_on_another_device_are_named(name):
    x, target = scores().to("meta"), torch.zeros(4, dtype=torch.int64)
    given = {"target": target.to("meta"), "where": torch.ones(4, 6, device="meta") > 0}
    assert stk.cross_entropy(x, **given).is_meta
    given[name] = given[name].new_zeros(given[name].shape, device="cpu")
    message = f"{name} must be on the device of the scores, meta, .* on cpu"
    with pytest.raises(ValueError, match=message):
        stk.cross_entropy(x, **given)


def test_a_program_of_jax_is_exported_for_any_batch():
    (batch,) = jax.export.symbolic_shape("batch")
    given = jax.ShapeDtypeStruct((batch, 6), jnp.float64)

    def f(x):
        value, slope = jax.value_and_grad(lambda x: (stj.soft_topk(x, 2) ** 2).sum())(x)
        return value, slope, stj.threshold(x, 2), stj.top_k(x, 2)

    program = jax.export.export(jax.jit(f))(given)
    for rows in (1, 4):
        x = ROWS[:rows]
        for found, expected in zip(program.call(x), f(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


SEARCHES = {
    "soft_topk": {"k": 2},
    "threshold": {"k": 2},
    "sparsemax": {},
    "balanced_topk": {"k": 2},
    "soft_rank": {"curve": "sigmoid"},
}


@pytest.mark.filterwarnings("default:.torch.jit.trace. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_not_recorded_with_its_values(name):
    """They would keep the shares of the scores that they are shown."""

    def f(x):
        return getattr(stk, name)(x, **SEARCHES[name])

    for mode in ("real", "fake"):
        with pytest.raises(NotImplementedError, match="make_fx would record"):
            make_fx(f, tracing_mode=mode)(scores())
    with pytest.raises(NotImplementedError, match=r"jit\.trace is not supported"):
        torch.jit.trace(f, scores(), check_trace=False)


@pytest.mark.parametrize("name", ["top_k", "softmax"])
def test_what_needs_no_search_is_recorded(name):
    given = {"k": 2} if name == "top_k" else {}

    def f(x):
        return getattr(stk, name)(x, **given)

    for program in (
        make_fx(f)(scores()),
        make_fx(f, tracing_mode="fake")(scores()),
    ):
        torch.testing.assert_close(program(-scores()), f(-scores()), rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", META)
def test_fake_tensors_have_fake_results(name):
    with FakeTensorMode():
        x = scores().requires_grad_()
        found = getattr(stk, name)(x, 2)
        assert isinstance(found, FakeTensor)
        if found.requires_grad:
            assert torch.autograd.grad(found.sum(), x)[0].shape == x.shape


def test_strict_promotion_may_stay_in_force_around_an_operator():
    x = jnp.asarray(ROWS, jnp.float32)

    def loss(x):
        with jax.numpy_dtype_promotion("standard"):
            p = stj.soft_topk(x, 2)
        return (p * p).sum()

    expected = jax.grad(loss)(x)
    with jax.numpy_dtype_promotion("strict"):
        for slope in (jax.grad(loss), jax.grad(jax.jit(loss))):
            np.testing.assert_allclose(slope(x), expected, rtol=1e-6, atol=1e-7)


def test_a_compiled_operator_moves_nothing_to_the_device():
    x = jnp.asarray(ROWS)
    with jax.transfer_guard("disallow"):
        p = jax.jit(lambda x: stj.soft_topk(x, 2))(x)
    np.testing.assert_allclose(p.sum(axis=-1), 2, rtol=0, atol=1e-14)
