"""What is there: the device, the releases, and a first selection on it."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time

from device import DEVICE, DRY, keep, kernels_here

PACKAGES = (
    "torch",
    "triton",
    "numpy",
    "jax",
    "jaxlib",
    "scipy",
    "mpmath",
    "hypothesis",
)
OPTIONAL = ("pytest", "pytest-xdist", "adasplash", "entmax")


def releases() -> dict[str, str]:
    """The installed releases of what the stages use; "-" for what is missing."""
    found = {"python": platform.python_version()}
    for name in PACKAGES + OPTIONAL:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "-"
    return found


def main() -> int:
    known = releases()
    print("; ".join(f"{name} {release}" for name, release in known.items()))
    import torch

    if not (DRY or torch.cuda.is_available()):
        print("There is no accelerator that PyTorch can use.")
        return 1
    name, more = "the CPU, in a dry run", {}
    if not DRY:
        p = torch.cuda.get_device_properties(0)
        name = p.name
        more = {
            "capability": f"{p.major}.{p.minor}",
            "processors": p.multi_processor_count,
            "memory": f"{p.total_memory >> 30} GiB",
            "cuda": torch.version.cuda or torch.version.hip,
        }
    print(name, more)
    keep("environment", {"device": name, **more, "releases": known})

    import softtopk.torch as st

    start, x = time.perf_counter(), torch.randn(4, 9, device=DEVICE)
    with kernels_here():
        sums = st.soft_topk(x, 2, check=False).sum(-1).tolist()
    seconds = time.perf_counter() - start
    print(f"first selection: sums {sums}, {seconds:.1f} s")
    return any(abs(total - 2) > 1e-5 for total in sums)


if __name__ == "__main__":
    sys.exit(main())
