"""A headless Firefox that reaches nothing but this machine, driven by Marionette.

Marionette is Firefox's own protocol: each message is a line of JSON with its length.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

# Everything but this machine goes to a port that nobody listens on.
PREFERENCES: dict[str, Any] = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.no_proxies_on": "127.0.0.1",
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.type": 1,
    "toolkit.telemetry.server": "",
}


# Seconds: what a script may take, what a page may take to load, and what any answer may
# take. The last is the longest: Firefox itself reports the other two.
SCRIPT, LOAD, ANSWER = 300, 120, 330
FAREWELL = 20  # seconds that Firefox may take to end by itself


class Firefox:
    """One tab."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER)
        self.stream = self.socket.makefile("rb")
        self.count = 0
        self._receive()
        self.ask("NewSession")
        self.ask("SetTimeouts", script=1000 * SCRIPT, pageLoad=1000 * LOAD)

    def close(self) -> None:
        """Let go of the browser."""
        self.stream.close()
        self.socket.close()

    def _receive(self) -> Any:
        length = b""
        while (sign := self.stream.read(1)) != b":":
            length += sign
        return json.loads(self.stream.read(int(length)))

    def ask(self, command: str, **parameters: Any) -> Any:
        """What a command of WebDriver gives."""
        self.count += 1
        body = json.dumps([0, self.count, f"WebDriver:{command}", parameters]).encode()
        self.socket.sendall(b"%d:%b" % (len(body), body))
        _, _, error, result = self._receive()
        assert error is None, error["message"]
        return result

    def goto(self, address: str) -> None:
        """Open a page, and wait until it has loaded."""
        self.ask("Navigate", url=address)

    def evaluate(self, function: str, *arguments: Any) -> Any:
        """What a function of JavaScript gives, once it is there."""
        code = (
            "const done = arguments[arguments.length - 1];"
            "const given = [...arguments].slice(0, -1);"
            f"Promise.resolve().then(() => ({function})(...given)).then("
            "value => done([null, value]), error => done([String(error), null]));"
        )
        script = {"script": code, "args": list(arguments), "sandbox": None}
        error, value = self.ask("ExecuteAsyncScript", **script)["value"]
        assert error is None, error
        return value


@contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    """A Firefox with a profile of its own; it ends with the block."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    assert program, "no Firefox: install it (Debian: apt-get install firefox-esr)"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = {**PREFERENCES, "marionette.port": port}.items()
    text = "".join(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in lines)
    (profile / "user.js").write_text(text, encoding="utf8")
    command = [program, "--headless", "--marionette", "--profile", str(profile)]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            with closing(connected(port)) as tab:
                yield tab
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a browser to end; after a while, stop it and the processes that it started.

    Firefox sometimes hangs while it shuts down, and a plain wait would never end.
    """
    process.terminate()
    try:
        process.wait(FAREWELL)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def connected(port: int, patience: float = 60) -> Firefox:
    """A tab, as soon as the browser answers."""
    end = time.monotonic() + patience
    while True:
        try:
            return Firefox(port)
        except ConnectionRefusedError:
            assert time.monotonic() < end, "Firefox does not answer"
            time.sleep(0.2)
