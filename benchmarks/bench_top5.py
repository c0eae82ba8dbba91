"""Losses for top-5 accuracy on the two tasks of the recipe.

The recipe for top-5 accuracy trains on two small tasks with two forms of a loss of its
own and with cross entropy. This program runs the same code, from the notebook, with
``in_top_k_loss`` too. It stores the means over eight seeds, and in how many of them a
loss is ahead of cross entropy.

    python benchmarks/bench_top5.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import softtopk.torch as stk

TARGET = Path(__file__).with_name("top5.json")
RECIPE = TARGET.parents[1] / "book" / "recipes" / "top-5.ipynb"


def recipe() -> dict[str, Any]:
    """The names that the recipe's cells define, down to its losses."""
    names: dict[str, Any] = {}
    for cell in json.loads(RECIPE.read_text(encoding="utf8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(RECIPE), "exec"), names)
            if "LOSSES" in names:
                break
    names["LOSSES"]["in_top_k_loss"] = lambda s, y: stk.in_top_k_loss(s, y, 5).mean()
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=TARGET)
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = recipe()
    found: dict[str, Any] = {"torch": torch.__version__}
    torch.set_default_dtype(torch.float64)
    tasks = {"wrong labels": (0.3, 0.7, 2000, 10), "small model": (0, 0.3, 2000, 2)}
    for title, (wrong, noise, size, width) in tasks.items():
        x, y = names["task"](wrong, noise, size)
        runs = {n: names["run"](f, x, y, width) for n, f in names["LOSSES"].items()}
        plain = runs["cross entropy"][1]
        found[title] = {
            name: {
                "top-1": round(float(one.mean()), 3),
                "top-5": round(float(five.mean()), 3),
                "ahead": int((five > plain).sum()),
            }
            for name, (one, five) in runs.items()
        }
        print(title, found[title], flush=True)
    given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
