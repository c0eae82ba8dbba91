"""What `pytest` leaves out where it cannot be imported, and what it begins with."""

from importlib.util import find_spec

import pytest

# `make frameworks` runs these.
FILES = {
    "torch": [
        "torch",
        "_frameworks/torch",
        "_frameworks/torch_arrays",
        "_frameworks/torch_budgets",
        "_frameworks/torch_internals",
        "_frameworks/torch_modules",
        "_frameworks/torch_order",
        "_frameworks/torch_rules",
        "_frameworks/torch_selection",
        "_kernels/torch",
    ],
    "triton": ["_kernels/curves", "_kernels/select"],
    "jax": ["jax", "_frameworks/jax", "_frameworks/jax_rules"],
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
FIRST = ("test_definitions.py", ".ipynb")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: processes that share the rest end together."""

    def rank(item: pytest.Item) -> int:
        ends = (item.path.name.endswith(end) for end in FIRST)
        return next((n for n, found in enumerate(ends) if found), len(FIRST))

    items.sort(key=rank)  # what has the same rank stays in order
