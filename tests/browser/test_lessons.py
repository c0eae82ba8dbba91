"""The explorables of derivatives, rates and GradTopK say what the package computes."""

import math

import numpy as np
import pytest
from playwright.sync_api import Browser
from test_explore import open_page

import softtopk as stk
from softtopk import figures


def said(base: str, browser: Browser, name: str, curve: str, moves: dict) -> str:
    """The sentence of a lesson after a curve is chosen and sliders are moved."""
    page = open_page(browser, f"{base}book/selection/{name[0]}.html")
    lesson = page.locator(f"softtopk-{name[1]}")
    lesson.get_by_label("curve", exact=True).select_option(curve)
    for label, value in moves.items():
        lesson.get_by_label(label, exact=True).fill(value)
    text = lesson.locator(".explore-said").inner_text()
    page.close()
    return text


def shown(value: float) -> str:
    """Four significant digits, as the page writes them."""
    text = f"{value:#.4g}" if value >= 1e-3 else f"{value:.3e}".replace("e-0", "e-")
    return text.replace("-", "−")


@pytest.mark.parametrize("curve", ["laplace", "sigmoid", "triangular"])
def test_a_share_gains_what_the_others_lose(base, browser, curve):
    scores = [*figures.ROUTER[:7], 1.1]
    lin = stk.linearize(stk.soft_topk, scores, 2, curve)
    text = said(base, browser, ("derivatives", "pushes"), curve, {"x₈": "1.1"})
    assert f"gains {shown(lin.jacobian()[7, 7])} " in text
    assert f"lose {shown(lin.jacobian()[7, 7])}:" in text


def test_a_saturated_score_moves_nothing(base, browser):
    text = said(base, browser, ("derivatives", "pushes"), "clip", {"x₈": "4"})
    assert "nothing moves" in text


@pytest.mark.parametrize("curve", ["sigmoid", "laplace", "exp"])
def test_the_error_and_its_leading_term(base, browser, curve):
    tau = 0.05
    shares = stk.soft_topk(figures.ROUTER, 2, curve, temperature=tau)
    error = np.max(np.abs(shares - stk.top_k(figures.ROUTER, 2)))
    leading = {
        "sigmoid": math.exp(-0.15 / tau),
        "laplace": math.exp(-0.15 / tau) / 2,
        "exp": math.exp(-0.3 / tau),
    }[curve]
    moved = {"τ": str(round(math.log10(tau), 2))}  # a step of the slider: 0.05012
    text = said(base, browser, ("rates", "cooling"), curve, moved)
    found = float(text.split("error is ")[1].split(";")[0].replace("−", "-"))
    term = float(text.split("(dashed) is ")[1].rstrip(".").replace("−", "-"))
    assert found == pytest.approx(error, rel=0.02)
    assert term == pytest.approx(leading, rel=0.02)


@pytest.mark.parametrize(("curve", "width"), [("clip", 1), ("triangular", 2)])
def test_exact_curves_become_exact_at_the_gap(base, browser, curve, width):
    border = math.log10(0.3 / width)
    for shift, word in ((-0.02, "exact"), (0.02, "it is zero from")):
        moved = {"τ": f"{round(border + shift, 2):.2f}"}
        assert word in said(base, browser, ("rates", "cooling"), curve, moved)


@pytest.mark.parametrize(("k", "tau"), [("2", 1.0), ("5", 0.5), ("1", 0.2)])
def test_gradtopk_beside_one_threshold(base, browser, k, tau):
    place = f"{math.log10(tau):.2f}"  # a step of the slider
    at = 10 ** float(place)
    page = open_page(browser, f"{base}book/selection/gradient.html")
    lesson = page.locator("softtopk-subset")
    lesson.get_by_label("k", exact=True).fill(k)
    lesson.get_by_label("τ", exact=True).fill(place)
    text = lesson.locator(".explore-said").inner_text()
    page.close()
    p = stk.grad_topk(figures.ROUTER, int(k), temperature=at)
    other = stk.soft_topk(figures.ROUTER, int(k), "sigmoid", temperature=at)
    assert f"The chances {', '.join(f'{share:.3f}' for share in p)} sum" in text
    assert f"differs by at most {shown(np.max(np.abs(p - other)))}." in text
