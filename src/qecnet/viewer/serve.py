"""Serves the page until it is stopped: by Ctrl-C, a closed terminal, or a signal to terminate."""

import asyncio
import errno
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from threading import Thread

import torch

from qecnet.geometry import Mesh, PointCloud
from qecnet.models import Model
from qecnet.schema import system_reason
from qecnet.viewer.app import ViewerApp, is_loopback
from qecnet.viewer.connections import listen
from qecnet.viewer.reader import UploadReader
from qecnet.viewer.session import ModelPool


def serve_viewer(
    model: Model, file: Mesh | PointCloud | None, host: str, port: int, *, browser: bool, echo: Callable[[str], None]
) -> None:
    """Serve the page until a signal stops it.

    Args:
        model: whose predictions are shown.
        file: the shape to start with, or None for one of the gallery.
        host: the address to listen on.
        port: the port to listen on; 0 takes a free one.
        browser: whether to open the page in a browser, where there is a display.
        echo: prints the address.

    Raises:
        OSError: when the address cannot be used; one sentence.
    """
    listening = bind(host, port)
    torch.set_num_threads(1)  # leaves cores to the browser
    address = f"http://{_in_url(host)}:{listening.getsockname()[1]}"
    audience = "this machine only" if is_loopback(host) else "everyone who can reach this machine"
    announce = partial(echo, f"Serving at {address} to {audience}; press Ctrl-C to stop.")
    app = ViewerApp(ModelPool(model), file, host, UploadReader())
    asyncio.run(_serve(app, listening, address, browser, announce))


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
            stack.pop_all()
        return listening
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"port {port} is in use; choose another with --port, or a free one with --port 0") from error
        reason = system_reason(error)
        raise OSError(f"{host}:{port}: cannot listen there ({reason}); choose another --host or --port") from error


async def _serve(
    app: ViewerApp, listening: socket.socket, address: str, browser: bool, announce: Callable[[], None]
) -> None:
    stop = asyncio.Event()
    _stop_at_signals(stop)
    async with listen(app.application(), app.gate, listening, app.limits):
        announce()
        if browser and _has_display():
            # `open` waits for some browsers until they are closed.
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        await stop.wait()


def _stop_at_signals(stop: asyncio.Event) -> None:
    """SIGHUP stays ignored where it is, as nohup does."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            continue
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows, where Ctrl-C ends the loop by an exception
            return


def _has_display() -> bool:
    """Whether a browser can open in a window of its own, rather than in this terminal."""
    if sys.platform in ("win32", "darwin") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _in_url(host: str) -> str:
    """The host as this machine's browser can open it."""
    if host in ("0.0.0.0", "::", ""):
        return "localhost"
    return f"[{host}]" if ":" in host else host
