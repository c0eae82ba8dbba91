"""What `pytest` leaves out where it cannot be imported: `make frameworks` runs it."""

from importlib.util import find_spec

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
