"""The explorable of the entmax chapter, moved with the keyboard."""

from __future__ import annotations

from playwright.sync_api import Browser


def test_alpha_sets_the_support(base: str, browser: Browser) -> None:
    page = browser.new_page()
    page.set_default_timeout(10_000)
    page.route("**/tex-chtml.js", lambda route: route.abort())  # saves seconds
    page.goto(f"{base}book/distributions/entmax.html", wait_until="domcontentloaded")
    lesson = page.locator("softtopk-entmax")
    alpha = lesson.get_by_label("α", exact=True)
    alpha.wait_for()
    said = lesson.locator(".explore-said")
    assert "4 of 8" in said.inner_text()
    alpha.press("End")
    assert "2 of 8" in said.inner_text()
    assert alpha.get_attribute("aria-valuetext") == "2.00"
    alpha.press("Home")
    assert "8 of 8" in said.inner_text()
    name = lesson.get_by_role("img").get_attribute("aria-label")
    assert name is not None
    assert name.startswith("The shares of eight scores: 0.1047")
    page.close()
