"""Operators exported to ONNX and run by ONNX Runtime, with any number of rows.

The export of one operator takes many seconds.  So a search and a sort are exported
here, and everything in the weekly workflow, which sets EVERY.
"""

import inspect
import io
import os

import numpy as np
import onnxruntime
import pytest
import torch

import softtopk.torch as stk

# balanced_topk has a loop inside a loop, which the exporter does not take, and random
# numbers are drawn anew in each run.
OTHERS = {"balanced_topk", "sample_shares", "sample_topk", "sample_topk_st"}
OTHERS |= {"subset_log_prob"}  # of a draw
NAMES = [name for name in stk.__all__ if name.islower() and name not in OTHERS]
CURVES = ["exp", "sigmoid", "clip", "triangular"]
CASES = [(name, {}) for name in NAMES] + [("soft_topk", {"curve": c}) for c in CURVES]
# The exporter of PyTorch 2.10 takes the condition of a loop for a tuple.
LOOPS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11)
KINDS = ["soft_topk", "top_k_indices"]
if not os.environ.get("EVERY"):
    CASES = [(name, {}) for name in KINDS]


class Model(torch.nn.Module):
    """An operator with its numbers; the scores and targets are given in a call."""

    def __init__(self, name, numbers):
        super().__init__()
        self.operator, self.numbers = getattr(stk, name), numbers

    def forward(self, *given):
        return self.operator(*given, **self.numbers)


def arguments(name, rows):
    """Scores, with ties, and a target where there is one; and numbers."""
    taken = inspect.signature(getattr(stk, name)).parameters
    generator = torch.Generator().manual_seed(rows)
    x = torch.randint(-6, 7, (rows, 8), generator=generator) / 4
    given = (x, torch.arange(rows) % 8) if "target" in taken else (x,)
    return given, {"k": 2} if "k" in taken else {}


@pytest.mark.parametrize(("name", "more"), CASES)
@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_an_exported_operator_gives_what_the_operator_gives(name, more):
    given, numbers = arguments(name, 4)
    model = Model(name, numbers | more)
    shapes = {"given": tuple({0: torch.export.Dim.AUTO} for _ in given)}
    program = torch.export.export(model, given, dynamic_shapes=shapes)
    loop = torch.ops.higher_order.while_loop
    if not LOOPS and any(node.target is loop for node in program.graph.nodes):
        pytest.skip("the exporter of PyTorch 2.10 takes no loop")
    file = io.BytesIO()
    torch.onnx.export(program, given, dynamo=True, verbose=False).save(file)
    run = onnxruntime.InferenceSession(file.getvalue())
    inputs = [value.name for value in run.get_inputs()]
    for rows in (4, 7):
        given, _ = arguments(name, rows)
        feed = {at: v.numpy() for at, v in zip(inputs, given, strict=True)}
        found, expected = run.run(None, feed)[0], model(*given).numpy()
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
