"""Write `softtopk/torch.py`, `jax.py` and `losses.py`: typed functions, one line each.

What an operator does is written once, in `softtopk/_operators`, for any library.  An
editor, `help` and mypy follow functions that stand in a file: so this tool writes them
there, with the types and the words of each library.  It imports no framework.  Of
NumPy's functions it writes the losses.  The docstring of a loss in its body says what
holds on every library, and in the sections `LEFT_OUT` what holds on NumPy alone.

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
taken too.  Eager tensors on the CPU are checked, as on NumPy; compiled or on an
accelerator a row out of range is NaN.  No test of this module has been run on an
accelerator.
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
Outside of transformations values on the CPU are checked, as on NumPy; within
them a row out of range is NaN.  No test of this module has been run on an
accelerator.
"""
''',
}
IMPORTS = {
    "torch": """
from torch import Generator, Tensor

from . import curves as curves
from ._adapters.torch_adapter import ADAPTER as _XP
from ._torch_modules import one_of as _one_of
from ._torch_modules import without_script as _without_script
""",
    "jax": """
from jax import Array
from jax.typing import ArrayLike

from . import curves as curves
from ._adapters.jax_adapter import ADAPTER as _XP
""",
    "losses": """
from numpy.typing import ArrayLike

from ._adapters.numpy_adapter import differentiable as _differentiable
from ._linearize import Differentiable, operator
from ._rows.numpy_rows import Axis
""",
}
ARRAYS = {"torch": "Tensor", "jax": "Array", "losses": "Differentiable[Any]"}
GIVEN = {"torch": "Tensor", "jax": "ArrayLike", "losses": "ArrayLike"}
SOURCES = {"torch": "Generator | int | None", "jax": "Array | int"}
"""What is returned, and what is taken: JAX takes NumPy's arrays too; and what random
numbers come from."""

LEFT_OUT = ("Raises", "Examples")
SCALED = ("potential",)
"""Losses whose scores are scaled, as `Call` says: the others have no large sums."""

CLASSES = {
    "torch": ["Entmax", "GradTopK", "SoftTopK", "Sparsemax", "Threshold", "TopKST"],
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
NUMPY_TYPES = {"k": "ArrayLike", "temperature": "ArrayLike", "alpha": "float"}
TAILS = {
    "torch": ["\n\n_without_script(globals()[name] for name in __all__)\n"],
}
SAME = ("bool", "int", "str", "int | None")
"""Types that an argument has in a body and in every library."""


def operators(library: str) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """The part, the name and the body of every operator of a module, by name."""
    sys.path.insert(0, str(ROOT))
    found = []
    for part in ("losses",) if library == "losses" else PARTS:
        module = importlib.import_module(f"softtopk._operators.{part}_body")
        found += [(name, part, getattr(module, name)) for name in module.__all__]
    for name, part, body in sorted(found, key=lambda item: item[0]):
        yield part, name, body


def docstring(library: str, part: str, body: Callable[..., Any]) -> str:
    """The docstring of a body in the words of one library."""
    text = inspect.getdoc(body) or ""
    if library == "losses":
        text = re.sub(r"\ncheck\n {4}.*|, check$", "", text, flags=re.MULTILINE)
        text = re.sub(r"(?<= : )array\b", "array_like", text)
        return text.replace("-------\narray\n", "-------\narray or scalar\n")
    if part == "losses":
        parts = re.split(r"\n\n(?=[A-Z].*\n---)", text)
        text = "\n\n".join(p for p in parts if not p.startswith(LEFT_OUT))
    for axis, word in WORDS.items() if library == "torch" else ():
        if axis in inspect.signature(body).parameters:
            for mark in ("{} :", "{}, where", "`{}`"):
                text = text.replace(mark.format(axis), mark.format(word))
    return text


def function(library: str, part: str, name: str, body: Callable[..., Any]) -> str:
    """The source of one operator in the words of one library."""
    array, words = ARRAYS[library], WORDS if library == "torch" else {}
    taken = GIVEN[library]
    types = {"where": f"{taken} | None", "cost": f"{taken} | None"} | TYPES
    types |= NUMPY_TYPES if library == "losses" else {"rng": SOURCES[library]}
    given, passed, alias, star = [], [], "", False
    for p in list(inspect.signature(body).parameters.values())[1:]:
        if library == "losses" and p.name == "check":
            continue
        word = words.get(p.name, p.name)
        if p.kind is p.KEYWORD_ONLY and not star:
            given, star = [*given, "*"], True
        default = "" if p.default is p.empty else f" = {p.default!r}"
        default = default.replace("'", '"')
        kind = p.annotation if p.annotation in SAME else types.get(p.name, taken)
        given.append(f"{word}: {kind}{default}")
        value = word
        if word != p.name:
            kind = types[p.name]
            alias = f"**{p.name}: {kind}"
            value = f'_one_of("{word}", {word}, {p.default!r}, "{p.name}", {p.name})'
        passed.append(f"{p.name}={value}" if star else value)
    text = docstring(library, part, body)
    prefix, end = "r" if "\\" in text else "", "\n" if "\n" in text else ""
    text = textwrap.indent(f'{prefix}"""{text}{end}"""', "    ", str.strip)
    head = f"def {name}({', '.join([*given, *([alias] if alias else [])])}) -> {array}:"
    body_name, listed = f"_{part}.{name}", ", ".join(passed)
    if library == "losses":
        scaled = ", scaled=True" if name in SCALED else ""
        call = f"_differentiable({body_name}, {listed}{scaled})"
        return f"@operator\n{head}\n{text}\n    return {call}\n"
    call = f"{body_name}(_XP, {listed})"
    return f"{head}\n{text}\n    found: {array} = {call}\n    return found\n"


def module(library: str) -> str:
    """The source of one library's module, formatted."""
    parts = list(operators(library))
    classes = CLASSES.get(library, [])
    names = [*(name for _, name, _ in parts), *classes]
    listing = "".join(f'    "{name}",\n' for name in sorted(names))
    bodies = sorted({part for part, _, _ in parts})
    imports = [f"from ._operators import {part}_body as _{part}" for part in bodies]
    if classes:
        imports.append(f"from ._torch_modules import {', '.join(classes)}")
    own = library == "losses"
    numbers = f"float | Sequence[float] | NDArray[np.floating] | {GIVEN[library]}"
    aliases = [
        f"Numbers: TypeAlias = {numbers}",
        '"""A number, or one a row."""\n',
        "Axis: TypeAlias = int | tuple[int, ...] | None\n\n",
    ]
    needed = [
        "from collections.abc import Sequence",
        "from typing import TypeAlias",
        "import numpy as np",
        "from numpy.typing import NDArray",
    ]
    if own:
        shared = sys.modules["softtopk._operators.losses_body"]
        head = f'r"""{inspect.getdoc(shared)}\n"""'
        aliases, needed = [], ["from typing import Any"]
    else:
        head = HEADS[library].strip()
    source = "\n".join(
        [
            "# Written by tools/frameworks_modules.py from softtopk/_operators.",
            head,
            "\nfrom __future__ import annotations\n",
            *needed,
            *imports,
            IMPORTS[library].strip(),
            "from .curves import Curve",
            f"\n__all__ = [\n{listing}]\n",
            *aliases,
            "\n\n".join(function(library, *part) for part in parts),
            *TAILS.get(library, []),
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
    sources = {library: module(library) for library in ARRAYS}
    for library, source in sources.items():  # all, before one that is imported changes
        (ROOT / "softtopk" / f"{library}.py").write_text(source)
