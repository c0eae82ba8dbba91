"""All uses that this package makes of undocumented parts of PyTorch.

PyTorch has no public function for these purposes.  Each use is wrapped in one function
here.  `tests/frameworks/test_torch_internals.py` compares the result of each with a
known one, so that the tests find a release of PyTorch that renames or changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree


def transformed() -> bool:
    """Whether a transform of torch.func (grad, jvp, vmap, ...) is running."""
    return bool(torch._C._functorch.maybe_current_level())


def forward_modes() -> int:
    """The number of nested forward-mode transforms that are running."""
    levels = torch._C._functorch.get_interpreter_stack() or ()
    kinds = [level.key() for level in levels]
    return kinds.count(torch._C._functorch.TransformType.Jvp)


def recorded() -> bool:
    """Whether make_fx or jit.trace records the operations that run."""
    return torch.jit.is_tracing() or get_proxy_mode() is not None


def intercepted() -> bool:
    """Whether a dispatch mode, or jit.trace, intercepts PyTorch's operations."""
    return torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack() > 0


def is_fake(tensor: Any) -> bool:
    """Whether a tensor has a shape and a type but no values."""
    return bool(tensor.is_meta) or isinstance(tensor, FakeTensor)


def in_dual_level() -> bool:
    """Whether a context of forward mode, torch.autograd.forward_ad, is open."""
    return forward_ad._current_level >= 0


def is_batch_of_gradients(tensor: Any) -> bool:
    """Whether a tensor is a batch made by autograd's option is_grads_batched."""
    return bool(torch._C._functorch.is_legacy_batchedtensor(tensor))


def flatten(state: Any) -> tuple[list[Any], Any]:
    """The leaves of nested tuples, and their form."""
    return _pytree.tree_flatten(state)


def unflatten(leaves: Any, form: Any) -> Any:
    """Leaves in the nested tuples that they came from."""
    return _pytree.tree_unflatten(leaves, form)


def while_loop(
    going: Callable[..., Any], step: Callable[..., Any], state: Any
) -> tuple[Any, ...]:
    """A loop that torch.compile keeps as one node of its graph."""
    from torch._higher_order_ops import while_loop as loop

    return loop(going, step, state)
