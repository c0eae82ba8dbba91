"""The built book, served from this machine, and one Chromium that reaches nothing else.

``BOOK_HTML`` names another build than ``_build/html``.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_HTML", ROOT / "_build" / "html"))

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf8")
AXE_RUN = """async (rules) => {
  const options = { resultTypes: ["violations"], preload: false };
  if (rules) options.rules = rules;
  const found = await axe.run(options);
  return found.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(" | ")}`);
}"""

# MathJax makes its promise when its script runs, which on a busy machine may be well
# after the network has gone quiet.
STARTED = """() => {
  const needed = document.querySelector("script[src*='/mathjax/']");
  return !needed || window.MathJax?.startup?.promise;
}"""


# How far what is in sight has moved since the page was shown, as browsers score it.
# Below 0.1 is good.
MOVED = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) sum += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 500);
})"""


def settle(page: Page) -> None:
    """Wait until every formula stands and every font is there."""
    page.wait_for_function(STARTED)
    page.evaluate("() => window.MathJax?.startup?.promise")
    page.evaluate("async () => { await document.fonts.ready }")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what the tests of running cells measured."""
    reports = terminalreporter.stats.get("passed", [])
    took = [value for r in reports for key, value in r.user_properties if key == "took"]
    if took:
        terminalreporter.section("times")
        terminalreporter.write_line("\n".join(sorted(took)))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it loaded is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book."""
    assert (SITE / "index.html").exists(), f"no book in {SITE}: run `make book` first"
    return SITE


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    """Address of the served build."""
    server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests; the quickest of those that are installed."""
    names = "chromium-headless-shell", "chromium", "google-chrome"
    chromium = next(filter(None, map(shutil.which, names)), None)
    assert chromium, "no Chromium: install it (Debian: apt-get install chromium)"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", offline]
        )
        yield instance
        instance.close()
