"""One number for one experiment: the pages that report the routers agree.

The experiment of *training/router* is reported there and on *Which one to use*, and
*training/load-balancing* goes on with it; the recipe of the mixture of experts repeats
it in fewer splits with its own layer, and quotes the chapter. A gate and a start have
one name on all of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
ROUTER, BALANCING = "training/router.ipynb", "training/load-balancing.ipynb"
BALANCED = {"balanced by error", "balanced by threshold"}
LOSS, LARGE = "load loss", "balanced by error, rate 1.25"
GATES = {"hard renormalised", "hard undivided", "straight-through", "soft", *BALANCED}
COLUMNS = ["level, $k=1$", "level, $k=2$", "uneven, $k=1$", "uneven, $k=2$"]


def text_of(name: str) -> str:
    """The Markdown of a page."""
    if name.endswith(".md"):
        return (BOOK / name).read_text("utf8")
    cells = nbformat.read(BOOK / name, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def printed(name: str) -> str:
    """The stored text of a notebook's cells."""
    cells = nbformat.read(BOOK / name, as_version=4).cells
    return "".join(
        output.get("text", "")
        for cell in cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: their rows, each a list of cells; the head comes first."""
    found = re.findall(r"(?:^\|.*\|\n)+", f"{text}\n", re.MULTILINE)
    rows = [
        [[c.strip(" *") for c in line.strip("|").split("|")] for line in t.splitlines()]
        for t in found
    ]
    return [[row for row in t if not set("".join(row)) <= set("-: ")] for t in rows]


def accuracies(text: str) -> dict[str, dict[str, float]]:
    """The accuracy of each gate at each start, from the table with these columns."""
    (table,) = [t for t in tables(text) if set(COLUMNS) <= set(t[0])]
    places = [table[0].index(name) for name in COLUMNS]
    found = {}
    for row in table[1:]:
        numbers = [row[place] for place in places]
        if all(re.fullmatch(r"[\d.]+|–", n) for n in numbers):
            found[row[0]] = {
                column: float(n) / (1 if "." in n else 100)
                for column, n in zip(COLUMNS, numbers, strict=True)
                if n != "–"  # not measured
            }
    return found


def test_the_router_has_one_number_for_each_gate_and_start() -> None:
    chapter = accuracies(text_of(ROUTER))
    chosen = accuracies(text_of("practice/choosing.md"))
    assert set(chapter) == {*GATES, LOSS, LARGE} and len(chosen) == 5
    assert all(chosen[gate] == chapter[gate] for gate in chosen)


def test_the_table_of_experiments_has_the_numbers_of_the_router() -> None:
    chapter = accuracies(text_of(ROUTER))
    (row,) = re.findall(
        r"\| .*<../training/router>.*", text_of("practice/evidence.ipynb")
    )
    told = re.findall(r"(hard \w+|balanced by error|soft) (\d\d)", row)
    assert len(told) == 4
    for gate, percent in told:
        assert chapter[gate]["uneven, $k=1$"] == float(percent) / 100
    least, most = re.findall(r"(\d\d) to (\d\d) with all gates", row)[0]
    level = {numbers["level, $k=2$"] for numbers in chapter.values()}
    assert (min(level), max(level)) == (int(least) / 100, int(most) / 100)


def advised(text: str) -> dict[str, tuple[str, str]]:
    """For each case of the advice: the gate, and the arguments of the layer."""
    (advice,) = [t for t in tables(text) if t[0][0] == "your case"]
    return {case: (gate, layer) for case, gate, layer in advice[1:]}


def is_among_the_best(
    measured: dict[str, dict[str, float]], budget: str, gate: str
) -> bool:
    """Whether no gate that computes k experts is ahead by more than two points.

    The advice is the same for each start, so that it has to hold for each of them.
    """
    name = "balanced by error" if "balanced by error" in gate else gate
    cheap = [v for n, v in measured.items() if n not in {"soft", "straight-through"}]
    columns = [f"{start}, {budget}" for start in ("level", "uneven")]
    return all(
        measured[name][column] >= max(own[column] for own in cheap) - 0.021
        for column in columns
    )


def test_the_advice_is_what_the_numbers_say() -> None:
    """The accuracies stand once; the advice names gates and the layer."""
    measured, lines = accuracies(text_of(ROUTER)), advised(text_of(BALANCING))
    cases = [case for case in lines if lines[case][0].endswith("balanced by error")]
    assert len(cases) == 2
    for case in cases:
        gate, layer = lines[case]
        budget, best = case.removesuffix(" or more"), dict(measured)
        if "rate" in layer:  # not the default of the layer, 0.125
            assert budget == "$k=1$" and layer.startswith("`k=1, rate=1.25`")
            assert not is_among_the_best(best, budget, gate)
            best["balanced by error"] = measured[LARGE]
        assert is_among_the_best(best, budget, gate)
        assert case.split("$")[1] in layer  # the same k
        assert gate.startswith("hard undivided" if "k=1" in case else "hard renorm")
    for budget in ("$k=1$", "$k=2$"):
        assert not is_among_the_best(measured, budget, "hard undivided")
    assert not is_among_the_best(measured, "$k=1$", "hard renormalised")
    # the other pages give this answer and link to it
    for name in ("practice/choosing.md", "recipes/mixture-of-experts.ipynb"):
        assert "balanced by error" in text_of(name)
        assert "<router-advice>" in text_of(name)
    assert "<router-advice>" in text_of("guide-zh.md")


def test_the_table_of_remedies_has_the_numbers_of_the_router() -> None:
    """From the uneven start, with the hard gate that each budget takes."""
    measured = accuracies(text_of(ROUTER))
    (remedies,) = [t for t in tables(text_of(BALANCING)) if t[0][0] == "remedy"]
    hard = {1: "hard undivided", 2: "hard renormalised"}
    rows = {gate.replace("balanced", "bias"): {1: gate, 2: gate} for gate in BALANCED}
    rows[LOSS] = {1: LOSS, 2: LOSS}
    for name, gates in {
        "nothing": hard,
        "soft gate": {1: "soft", 2: "soft"},
        **rows,
    }.items():
        (row,) = [r for r in remedies if r[0] == name]
        for k, gate in gates.items():
            place = remedies[0].index(f"accuracy, $k={k}$")
            assert float(row[place]) == measured[gate][f"uneven, $k={k}$"]


def test_the_recipe_repeats_the_chapter() -> None:
    name = "recipes/mixture-of-experts.ipynb"
    chapter = accuracies(text_of(ROUTER))
    uneven, level = "uneven, $k=2$", "level, $k=1$"
    # what it prints itself, by budget and gate: first the level start, then the uneven
    lines = re.findall(r"^k=(\d) (.*?) +(0\.\d\d) ±", printed(name), re.MULTILINE)
    own = {(k, gate): float(right) for k, gate, right in lines}
    for budget, gate, of_chapter in (
        ("1", "hard undivided", chapter["hard undivided"][level]),
        ("1", "soft", chapter["soft"][level]),
        ("2", "hard renormalised", chapter["hard renormalised"][uneven]),
        ("2", "balanced", chapter["balanced by error"][uneven]),
        ("2", "soft", chapter["soft"][uneven]),
    ):
        assert abs(own[budget, gate] - of_chapter) < 0.015


def test_a_balanced_gate_is_said_with_its_rate() -> None:
    """For k = 1 a larger rate gains two points: other pages say it or lead there."""
    lines = re.findall(r"^error, k=1 (.*)", printed(BALANCING), re.MULTILINE)
    _, default, large = re.findall(r"(0\.\d\d) \(", lines[0])
    table = accuracies(text_of(ROUTER))["balanced by error"]
    assert float(default) == table["uneven, $k=1$"]
    larger = accuracies(text_of(ROUTER))[LARGE]
    assert float(large) == larger["uneven, $k=1$"] == larger["level, $k=1$"]
    assert f"it has {large} from either start" in text_of(BALANCING)
    for page in ("practice/choosing.md", "recipes/mixture-of-experts.ipynb"):
        assert "<router-rate>" in text_of(page)


@pytest.mark.parametrize(
    "name",
    [
        ROUTER,
        BALANCING,
        "recipes/mixture-of-experts.ipynb",
        "practice/choosing.md",
    ],
)
def test_a_start_and_a_gate_have_one_name(name: str) -> None:
    text = text_of(name) + printed(name) if name.endswith("ipynb") else text_of(name)
    assert "uneven" in text and "undivided" in text
    assert not re.search(r"two ahead|start(?:s|ed)? behind|head start", text)
    assert not re.search(r"[Hh]ard, (?:softmax|renormalised|undivided|bias)", text)
    # a bare "renormalised gate" or "undivided gate" is one of the hard ones
    assert not re.search(r"(?<!hard )(?:renormalised|undivided) gate", text)


def test_the_chinese_guide_names_the_same_gates_starts_and_losses() -> None:
    guide, page = text_of("guide-zh.md"), text_of("practice/choosing.md")
    for name in ("uneven", "level", "in_top_k_loss", "axis=None", "top_k_st"):
        assert name in guide and name in page, name
    assert all(gate in guide for gate in GATES)
    assert all(gate.split(",")[0] in guide for gate in accuracies(page))
    for curve in ("triangular", "exp"):
        assert f'"{curve}"' in guide and f'"{curve}"' in page, curve


CALL = json.loads((BOOK.parent / "benchmarks" / "call.json").read_text())
LIBRARIES = {"PyTorch": "torch", "JAX, compiled": "jax", "NumPy": "numpy"}
SHAPES = {"4096 × 64, $k=2$": "router", "256 × 1000, $k=5$": "classes"}


def short(value: float) -> str:
    """A ratio as a page gives it: a shared machine knows no more than two digits."""
    return f"{value:.2g}"


def costs(text: str) -> dict[str, dict[str, str]]:
    """The table of costs: by library and column."""
    (table,) = [t for t in tables(text) if set(SHAPES) <= set(t[0])]
    return {row[0]: dict(zip(table[0][1:], row[1:], strict=True)) for row in table[1:]}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_costs_are_those_of_the_measurement(library: str) -> None:
    stored = CALL[LIBRARIES[library]]
    row = costs(text_of("practice/choosing.md"))[library]
    for column, shape in SHAPES.items():
        own = stored[shape]["laplace"]
        assert (
            row[column]
            == f"{short(own['topks'])} × top-k, {short(own['softmaxes'])} × softmax"
        )
    held, hard = (
        short(stored["router"][name]["memory"]) for name in ("laplace", "topk")
    )
    assert row["memory"] == f"{held} (top-k {hard})"


SCALE = json.loads((BOOK.parent / "benchmarks" / "scale.json").read_text())
FILES = {"`.npy`": "npy", "Zarr": "zarr", "Parquet": "parquet"}


def test_the_seconds_of_a_billion_scores_are_those_of_the_measurement() -> None:
    page = tables(text_of("reference/machines.md"))
    (table,) = [t for t in page if "as many plain sums" in t[0]]
    runs = {run["kind"]: run for run in SCALE["files"] if run["scores"] == 10**9}
    found = {}
    for name, *_ in table[1:]:
        run = runs[FILES[name]]
        sums = run["rounds"] * run["sum"]["clock"]
        seconds = short(run["threshold"]["clock"]), short(sums)
        found[name] = [name, *(f"{v} s" for v in seconds)]
    assert table[1:] == [found[name] for name in FILES]


TOP5 = json.loads((BOOK.parent / "benchmarks" / "top5.json").read_text())


def test_the_loss_that_is_not_taken_is_said_with_its_numbers() -> None:
    text = text_of("recipes/top-5.ipynb")
    assert "in no seed with wrong labels and in three of eight with the small" in text
    for task, times in (("wrong labels", "none"), ("small model", "three")):
        own = TOP5[task]["in_top_k_loss"]
        assert f"{own['top-5']:.2f} ({task})" in text
        assert own["top-5"] < TOP5[task]["cross entropy"]["top-5"]
        assert own["ahead"] == {"none": 0, "three": 3}[times]
        # the others are those that the page prints
        for name in ("cross entropy", "1 - share, k = 5", "-log share, k = 5"):
            again = f"{TOP5[task][name]['top-5']:.2f}"
            part = printed("recipes/top-5.ipynb").split(task)[1]
            line = next(x for x in part.splitlines() if x.strip().startswith(name))
            assert line.split("±")[1].split()[-1] == again


def test_a_changed_number_is_found() -> None:
    text = text_of("practice/choosing.md")
    wrong = text.replace("| soft | 94 | 95 |", "| soft | 94 | 90 |")
    assert wrong != text and accuracies(wrong) != accuracies(text)
    other = text.replace(" × softmax |", " × softmax, too |", 1)
    assert other != text and costs(other) != costs(text)
