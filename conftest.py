"""What `pytest` leaves out where it cannot be imported: `make frameworks` runs it."""

from importlib.util import find_spec

collect_ignore = [
    f"softtopk/{name}.py" for name in ("torch", "jax", "dask") if not find_spec(name)
]
