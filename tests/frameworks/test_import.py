"""The core needs NumPy alone; a framework is imported when its module is."""

import subprocess
import sys


def run(program):
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_core_imports_no_framework():
    run(
        "import sys, softtopk\n"
        "known = {'torch', 'jax', 'dask', 'scipy', 'sympy', 'matplotlib'}\n"
        "assert not known & set(sys.modules), known & set(sys.modules)\n"
    )


def test_a_framework_imports_no_other():
    for name in ("torch", "jax", "dask"):
        others = {"torch", "jax", "dask"} - {name}
        run(f"import sys, softtopk.{name}\nassert not {others!r} & set(sys.modules)\n")
