"""What `pytest` leaves out where it cannot be imported, and what it begins with."""

from importlib.util import find_spec

import pytest

# `make frameworks` runs these.
FILES = {
    "torch": [
        "torch",
        "_adapters/torch_adapter",
        "_adapters/torch_autograd",
        "_adapters/torch_autograd_balance",
        "_adapters/torch_autograd_costs",
        "_adapters/torch_autograd_selection",
        "_adapters/torch_autograd_subset",
        "_adapters/torch_functions",
        "_adapters/torch_internals",
        "_adapters/torch_sorting_on_numpy",
        "_kernels/torch_launch",
        "_torch_modules",
    ],
    "triton": ["_kernels/triton_curves", "_kernels/triton_select"],
    "jax": ["jax", "_adapters/jax_adapter", "_adapters/jax_out_of_range"],
    "dask": ["dask"],
}
collect_ignore = [
    f"softtopk/{file}.py"
    for name, files in FILES.items()
    for file in files
    if not find_spec(name)
]
# Settings, not modules with doctests; and two of one name.
collect_ignore += ["tests/conftest.py", "book/conftest.py"]

# What takes longest, by the end of its path.  The others follow.
FIRST = ("test_definitions.py", "router.ipynb", "load-balancing.ipynb", ".ipynb")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: processes that share the rest end together."""

    def rank(item: pytest.Item) -> int:
        ends = (item.path.name.endswith(end) for end in FIRST)
        return next((n for n, found in enumerate(ends) if found), len(FIRST))

    items.sort(key=rank)  # what has the same rank stays in order
