"""A kernel that is forked from a process with the packages is like any other."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no kernel is forked")


@pytest.fixture(scope="module")
def serving() -> Iterator[None]:
    with warm.serving(["sympy", "no_such_module"]):
        yield


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Any]:
    manager = warm.manager(kernel_name="warm")
    manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(serving: None, tmp_path: Path) -> Iterator[Any]:
    with started(tmp_path) as both:
        yield both


def printed(client: Any, code: str) -> str:
    found = []

    def keep(message: dict[str, Any]) -> None:
        found.append(message["content"].get("text", ""))

    client.execute_interactive(code, timeout=60, output_hook=keep)
    return "".join(found).strip()


def within_ten_seconds(done: Callable[[], bool]) -> bool:
    for _ in range(100):
        if done():
            return True
        time.sleep(0.1)
    return False


def test_it_has_the_packages_and_runs_where_it_is_asked_to(
    kernel: Any, tmp_path: Path
) -> None:
    _, client = kernel
    code = "import os, sys; print(os.getcwd(), 'sympy' in sys.modules, 'sp' in dir())"
    assert printed(client, code) == f"{tmp_path} True False"
    path = "print([p for p in sys.path if p.endswith('tools')], sys.argv[0])"
    assert printed(client, path) == "[] ipykernel_launcher"


def test_no_kernel_has_a_port_that_another_can_be_given(
    kernel: Any, tmp_path: Path
) -> None:
    manager, _ = kernel
    with started(tmp_path) as (other, _):
        assert manager.transport == other.transport == "ipc"
        assert manager.ip != other.ip


def test_two_kernels_share_no_names(kernel: Any, tmp_path: Path) -> None:
    printed(kernel[1], "import sympy; sympy.seen = 1")
    with started(tmp_path) as (_, other):
        code = "import sympy; print(hasattr(sympy, 'seen'))"
        assert printed(other, code) == "False"


def test_it_is_interrupted_and_stopped(kernel: Any) -> None:
    manager, client = kernel
    number = int(printed(client, "import os; print(os.getpid())"))
    client.execute("import time; time.sleep(60)")
    time.sleep(0.5)
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=30)
    while reply["content"].get("ename") != "KeyboardInterrupt":
        reply = client.get_shell_msg(timeout=30)
    manager.shutdown_kernel(now=True)
    assert within_ten_seconds(lambda: not Path(f"/proc/{number}").exists())


def test_a_kernel_that_dies_is_seen_to_be_dead(kernel: Any) -> None:
    manager, client = kernel
    client.execute("import os; os._exit(3)")
    assert within_ten_seconds(lambda: not manager.is_alive())


def test_without_a_server_it_imports_what_it_needs(
    serving: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WARM_KERNELS")
    with started(tmp_path) as (_, client):
        assert printed(client, "import sys; print('sympy' in sys.modules)") == "False"


def test_a_server_that_does_not_start_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm, "__file__", "/no/such/file.py")
    with (
        pytest.raises(RuntimeError, match="the server of kernels ended"),
        warm.serving([]),
    ):
        pass
