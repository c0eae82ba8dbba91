"""What `pytest` leaves out where it cannot be imported, and what runs beside what."""

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
        "_frameworks/torch_rules",
        "_frameworks/torch_selection",
        "_kernels/torch",
    ],
    "triton": ["_kernels/curves", "_kernels/select"],
    "jax": ["jax", "_frameworks/jax"],
    "dask": ["dask"],
}
collect_ignore = [
    f"softtopk/{file}.py"
    for name, files in FILES.items()
    for file in files
    if not find_spec(name)
]

# Files whose tests need nothing of each other, and take minutes together.
APART = ("test_definitions.py",)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the tests of a file together, and begin with what takes longest.

    With ``--dist loadgroup`` a group of tests runs in one process, as the cells of a
    notebook must. The processes end at the same time if what comes last is short.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.path.name not in APART:
            item.add_marker(pytest.mark.xdist_group(item.path.as_posix()))
    order = [*APART, ".ipynb"]  # the others follow
    names = [[n for n in order if item.path.name.endswith(n)] for item in items]
    ranks = [order.index(found[0]) if found else len(order) for found in names]
    items[:] = [items[i] for i in sorted(range(len(items)), key=ranks.__getitem__)]
