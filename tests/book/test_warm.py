"""A kernel that is forked from a process with the packages is like any other."""

import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import warm


@pytest.fixture(scope="module")
def serving() -> Iterator[None]:
    with warm.serving(["sympy", "no_such_module"]):
        yield


@pytest.fixture
def kernel(serving: None, tmp_path: Path) -> Iterator[Any]:
    manager, client = start_new_kernel(kernel_name="warm", cwd=str(tmp_path))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def printed(client: Any, code: str) -> str:
    found = []

    def keep(message: dict[str, Any]) -> None:
        found.append(message["content"].get("text", ""))

    client.execute_interactive(code, timeout=60, output_hook=keep)
    return "".join(found).strip()


def test_it_has_the_packages_and_runs_where_it_is_asked_to(
    kernel: Any, tmp_path: Path
) -> None:
    _, client = kernel
    code = "import os, sys; print(os.getcwd(), 'sympy' in sys.modules, 'sp' in dir())"
    assert printed(client, code) == f"{tmp_path} True False"
    path = "print([p for p in sys.path if p.endswith('tools')], sys.argv[0])"
    assert printed(client, path) == "[] ipykernel_launcher"


def test_two_kernels_share_no_names(kernel: Any) -> None:
    printed(kernel[1], "import sympy; sympy.seen = 1")
    manager, client = start_new_kernel(kernel_name="warm")
    try:
        code = "import sympy; print(hasattr(sympy, 'seen'))"
        assert printed(client, code) == "False"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


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
    for _ in range(100):
        if not Path(f"/proc/{number}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{number}").exists()


def test_a_kernel_that_dies_is_seen_to_be_dead(kernel: Any) -> None:
    manager, client = kernel
    client.execute("import os; os._exit(3)")
    for _ in range(100):
        if not manager.is_alive():
            return
        time.sleep(0.1)
    pytest.fail("the manager takes it for alive")


def test_without_a_server_it_is_an_ordinary_kernel(
    serving: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARM_KERNELS")
    manager, client = start_new_kernel(kernel_name="warm")
    try:
        assert printed(client, "import sys; print('sympy' in sys.modules)") == "False"
    except queue.Empty:
        pytest.fail("it does not answer")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
