"""Write `softtopk/torch.py` and `softtopk/jax.py`: typed functions, one line each.

What an operator does is written once, in `softtopk/_operators`, for any library.  An
editor, `help` and mypy follow functions that stand in a file: so this tool writes them
there, with the types and the words of each library.  It imports no framework.

    python tools/frameworks_modules.py

tests/book/test_frameworks_modules.py keeps the files current.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARTS = ("balance", "hard", "losses", "sampling", "selection", "simplex", "sorting")
PARTS += ("subset",)
WORDS = {"axis": "dim", "axes": "dims"}
"""The words of this package, and those of PyTorch's users."""

HEADS = {
    "torch": '''
r"""The operators on PyTorch tensors, with derivatives by x, k and temperature.

>>> import torch
>>> import softtopk.torch as stk
>>> x = torch.tensor([3.0, 1.0, 0.0, 0.0], requires_grad=True)
>>> (stk.soft_topk(x, k=2) ** 2).sum().backward()
>>> x.grad.shape
torch.Size([4])

Backward of any order, `torch.func` (grad, vmap, jvp, hessian) and
``torch.compile(fullgraph=True)`` apply.  The word for the axis is `dim`; `axis` is
taken too.  Eager tensors on the CPU are checked, as the core does it; compiled or on an
accelerator a row out of range is NaN.  Nothing here has been run on an accelerator.
"""
''',
    "jax": '''
r"""The operators on JAX arrays, with derivatives of any order by x, k and temperature.

>>> import jax
>>> import softtopk.jax as stk
>>> f = lambda x: (stk.soft_topk(x, 2) ** 2).sum()
>>> jax.hessian(f)(jax.numpy.array([3.0, 1.0, 0.0, 0.0])).shape
(4, 4)

`jit`, `vmap`, `jvp`, `vjp`, `hessian` and any sharding apply: the search is a while
loop over sums along the axis, and scores divided over devices stay where they are.
Outside of transformations values on the CPU are checked, as the core does it; within
them a row out of range is NaN.  Nothing here has been run on an accelerator.
"""
''',
}
IMPORTS = {
    "torch": """
from torch import Generator, Tensor

from . import curves as curves
from ._adapters.torch_adapter import ADAPTER as _XP
from ._operators import balance_body as _balance
from ._operators import hard_body as _hard
from ._operators import losses_body as _losses
from ._operators import sampling_body as _sampling
from ._operators import selection_body as _selection
from ._operators import simplex_body as _simplex
from ._operators import sorting_body as _sorting
from ._operators import subset_body as _subset
from ._torch_modules import (
    Entmax,
    GradTopK,
    SoftTopK,
    Sparsemax,
    Threshold,
    TopKST,
)
from ._torch_modules import one_of as _one_of
from ._torch_modules import without_script as _without_script
from .curves import Curve
""",
    "jax": """
from jax import Array
from jax.typing import ArrayLike

from . import curves as curves
from ._adapters.jax_adapter import ADAPTER as _XP
from ._operators import balance_body as _balance
from ._operators import hard_body as _hard
from ._operators import losses_body as _losses
from ._operators import sampling_body as _sampling
from ._operators import selection_body as _selection
from ._operators import simplex_body as _simplex
from ._operators import sorting_body as _sorting
from ._operators import subset_body as _subset
from .curves import Curve
""",
}
ARRAYS = {"torch": "Tensor", "jax": "Array"}
GIVEN = {"torch": "Tensor", "jax": "ArrayLike"}
SOURCES = {"torch": "Generator | int | None", "jax": "Array | int"}
"""What is returned, and what is taken: JAX takes NumPy's arrays too; and what random
numbers come from."""

CLASSES = {
    "torch": ["Entmax", "GradTopK", "SoftTopK", "Sparsemax", "Threshold", "TopKST"],
    "jax": [],
}
TYPES = {
    "k": "Numbers",
    "columns": "Numbers | None",
    "temperature": "Numbers",
    "alpha": "Numbers",
    "margin": "float",
    "axis": "Axis",
    "axes": "tuple[int, int]",
    "curve": "str | Curve",
    "check": "bool | None",
    "places": "int | None",
    "rounds": "int",
}
TAILS = {
    "torch": ["\n\n_without_script(globals()[name] for name in __all__)\n"],
    "jax": [],
}
PLAIN = ("bool", "int", "str", "int | None")
"""Types that an argument has in a body and in every library."""


def operators() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """The part, the name and the body of every operator, by name."""
    sys.path.insert(0, str(ROOT))
    found = []
    for part in PARTS:
        module = importlib.import_module(f"softtopk._operators.{part}_body")
        found += [(name, part, getattr(module, name)) for name in module.__all__]
    for name, part, body in sorted(found, key=lambda item: item[0]):
        yield part, name, body


def function(library: str, part: str, name: str, body: Callable[..., Any]) -> str:
    """The source of one operator in the words of one library."""
    array, words = ARRAYS[library], WORDS if library == "torch" else {}
    taken = GIVEN[library]
    types = {"where": f"{taken} | None", "cost": f"{taken} | None"} | TYPES
    types["rng"] = SOURCES[library]
    given, passed, alias, star = [], [], "", False
    for p in list(inspect.signature(body).parameters.values())[1:]:
        word = words.get(p.name, p.name)
        if p.kind is p.KEYWORD_ONLY and not star:
            given, star = [*given, "*"], True
        default = "" if p.default is p.empty else f" = {p.default!r}"
        default = default.replace("'", '"')
        kind = p.annotation if p.annotation in PLAIN else types.get(p.name, taken)
        given.append(f"{word}: {kind}{default}")
        value = word
        if word != p.name:
            kind = types[p.name]
            alias = f"**{p.name}: {kind}"
            value = f'_one_of("{word}", {word}, {p.default!r}, "{p.name}", {p.name})'
        passed.append(f"{p.name}={value}" if star else value)
    text = inspect.getdoc(body) or ""
    for axis, word in words.items():
        if axis in inspect.signature(body).parameters:
            for mark in ("{} :", "{}, where", "`{}`"):
                text = text.replace(mark.format(axis), mark.format(word))
    prefix = "r" if "\\" in text else ""
    text = textwrap.indent(f'{prefix}"""{text}\n"""', "    ", str.strip)
    if "\n" not in inspect.getdoc(body) or "":
        text = text.replace("\n    " + '"""', '"""')
    listed = ", ".join([*given, *([alias] if alias else [])])
    call = f"_{part}.{name}(_XP, {', '.join(passed)})"
    return (
        f"def {name}({listed}) -> {array}:\n{text}\n"
        f"    found: {array} = {call}\n    return found\n"
    )


def module(library: str) -> str:
    """The source of one library's module, formatted."""
    parts = list(operators())
    numbers = f"float | Sequence[float] | NDArray[np.floating] | {GIVEN[library]}"
    names = [*(name for _, name, _ in parts), *CLASSES[library]]
    listing = "".join(f'    "{name}",\n' for name in sorted(names))
    source = "\n".join(
        [
            "# Written by tools/frameworks_modules.py from softtopk/_operators.",
            HEADS[library].strip(),
            "\nfrom __future__ import annotations\n",
            "from collections.abc import Sequence",
            "from typing import TypeAlias\n",
            "import numpy as np",
            "from numpy.typing import NDArray",
            IMPORTS[library].strip(),
            f"\n__all__ = [\n{listing}]\n",
            f"Numbers: TypeAlias = {numbers}",
            '"""A number, or one a row."""\n',
            "Axis: TypeAlias = int | tuple[int, ...] | None\n\n",
            "\n\n".join(function(library, *part) for part in parts),
            *TAILS[library],
        ]
    )
    for command in (["check", "--select", "I", "--fix-only", "-q"], ["format", "-q"]):
        name = ["--stdin-filename", f"softtopk/{library}.py", "-"]
        ruff = [sys.executable, "-m", "ruff", *command, *name]
        source = subprocess.run(
            ruff, input=source, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return re.sub(r"\n{4,}", "\n\n\n", source)


if __name__ == "__main__":
    for library in ARRAYS:
        (ROOT / "softtopk" / f"{library}.py").write_text(module(library))
