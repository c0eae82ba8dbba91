"""A Jupyter kernel that does not have to import the packages.

A kernel that runs a chapter needs two seconds to import SymPy, Matplotlib and itself,
and one that trains six: a fifth of the time that CI gives the notebooks. Here one
process imports them and each kernel is forked from it, so that it starts at once.
A forked kernel has a namespace of its own, and nothing of the book is imported before.

    python warm.py serve SOCKET MODULE ...    imports the modules, and forks on demand
    python warm.py CONNECTION_FILE            the kernel, as `kernel.json` starts it

The kernel finds the server by the variable WARM_KERNELS, the socket's path. Without
it the kernel imports everything itself, as any other. The server runs on Linux alone:
elsewhere a process that has imported such packages may not be forked.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock


@contextlib.contextmanager
def serving(modules: list[str]) -> Iterator[None]:
    """Let Jupyter find the kernel `warm`, and it a server that imports the modules."""
    names = {"JUPYTER_PATH": str(Path(__file__).with_name("jupyter"))}
    if sys.platform != "linux":
        with mock.patch.dict(os.environ, names):
            yield
        return
    with tempfile.TemporaryDirectory() as folder:
        names["WARM_KERNELS"] = f"{folder}/socket"
        command = [sys.executable, __file__, "serve", names["WARM_KERNELS"], *modules]
        # Matplotlib reads this when it is imported, and a kernel sets it.
        inline = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
        with (
            subprocess.Popen(
                command, env=os.environ | inline, stdout=subprocess.PIPE
            ) as server,
            mock.patch.dict(os.environ, names),
        ):
            assert server.stdout is not None
            try:
                if server.stdout.readline() != b"ready\n":
                    raise RuntimeError(f"the server of kernels ended: {command}")
                yield
            finally:
                server.kill()


def manager(**given: Any) -> Any:
    """A manager of kernels that speak through files of their own.

    Through ports, two kernels that start at once can be given the same one, and the
    second dies.
    """
    jupyter = importlib.import_module("jupyter_client.manager")
    if "WARM_KERNELS" in os.environ:
        folder = Path(os.environ["WARM_KERNELS"]).parent
        given |= {"transport": "ipc", "ip": str(folder / uuid.uuid4().hex)}
    return jupyter.KernelManager(**given)


def serve(path: str, modules: list[str]) -> None:
    """Import the modules, then fork a kernel for each one that asks."""
    for module in ["ipykernel.kernelapp", *modules]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # what is imported is shared: no kernel looks through it for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a kernel ended
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        while True:
            asking, _ = server.accept()
            if os.fork() == 0:
                server.close()
                become(asking)
                os._exit(0)
            asking.close()


def become(asking: socket.socket) -> None:
    """Turn this process into the kernel that somebody asks for."""
    text, files, _, _ = socket.recv_fds(asking, 1 << 16, 3)
    while not text.endswith(b"\n"):
        text += asking.recv(1 << 16)
    asked = json.loads(text)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    os.environ["JPY_PARENT_PID"] = str(os.getppid())  # it ends with the server
    asking.sendall(f"{os.getpid()}\n".encode())

    def end_with_it() -> None:
        asking.recv(1)
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()
    sys.path[:] = asked["path"]
    sys.argv = ["ipykernel_launcher", "-f", asked["connection"]]
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()


def ask(path: str, connection: str) -> None:
    """Have a kernel forked, hand interrupts on to it, and end when it ends."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        asked = {
            "connection": connection,
            "folder": os.getcwd(),
            "variables": dict(os.environ),
            "path": sys.path[1:],  # without the folder of this file
        }
        socket.send_fds(server, [f"{json.dumps(asked)}\n".encode()], [0, 1, 2])
        kernel = int(server.makefile().readline())
        signal.signal(signal.SIGINT, lambda *_: os.kill(kernel, signal.SIGINT))
        server.recv(1)  # nothing is sent: it returns when the kernel has gone


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3:])
    elif "WARM_KERNELS" in os.environ:
        ask(os.environ["WARM_KERNELS"], sys.argv[1])
    else:
        del sys.path[0]
        sys.argv[1:] = ["-f", sys.argv[1]]
        importlib.import_module("ipykernel.kernelapp").launch_new_instance()
