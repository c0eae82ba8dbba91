"""Time of `balanced_topk` at a router's size, beside `soft_topk` of the same scores.

    python benchmarks/bench_balance.py [--small]

8192 tokens, 256 experts of skewed popularity, k = 8.  For each curve and temperature, a
multiple of the scores' deviation: seconds, the same as a multiple of `soft_topk`, which
is the least that a round can take, how far rows and columns are off, and the largest
load over the mean less one, of `soft_topk` and of `balanced_topk` made hard by `top_k`
of its rows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import softtopk as stk

TEMPERATURES = (1.0, 0.3, 0.1, 0.01)


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Seconds and the result of one call."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def overload(P: np.ndarray, k: int) -> float:
    """The largest load over the mean less one, of the k largest shares of each row."""
    loads = stk.top_k(P, k).sum(axis=0)
    return loads.max() / loads.mean() - 1


def main() -> None:
    """Print a line for every curve and temperature."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="512 x 64")
    m, n, k = (512, 64, 8) if parser.parse_args().small else (8192, 256, 8)
    rng = np.random.default_rng(0)
    S = rng.normal(size=(m, n)) + rng.normal(size=n)
    S /= S.std()
    print(f"{m} x {n}, k = {k}; hard top-k: overload {overload(S, k):.2f}")
    for curve in ("exp", "laplace", "sigmoid"):
        for tau in TEMPERATURES:
            given = {"curve": curve, "temperature": tau}
            one = min(timed(lambda g=given: stk.soft_topk(S, k, **g))[0] for _ in "12")
            seconds, P = timed(lambda g=given: stk.balanced_topk(S, k, **g))
            rows, columns = P.sum(axis=1) / k, P.sum(axis=0) / (m * k / n)
            print(
                f"{curve:8} {tau:<5g} {seconds:6.2f} s = {seconds / one:5.1f} x one, "
                f"rows {abs(rows - 1).max():.0e}, "
                f"columns {abs(columns - 1).max():.0e}, "
                f"overload {overload(P, k):.3f}"
            )
    seconds, lin = timed(
        lambda: stk.linearize(stk.balanced_topk, S, k, temperature=0.1)
    )
    print(f"linearize {seconds:.2f} s, vjp {timed(lambda: lin.vjp(S))[0]:.2f} s")


if __name__ == "__main__":
    main()
