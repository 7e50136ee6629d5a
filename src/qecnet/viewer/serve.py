"""Serving until somebody closes it: Ctrl-C, a closed terminal, a request to terminate."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from threading import Thread

import torch
from aiohttp import web

from qecnet.geometry import Mesh, PointCloud
from qecnet.models import Model
from qecnet.viewer.reader import Reader
from qecnet.viewer.reply import Respondent
from qecnet.viewer.server import Viewer, is_loopback

_TRIED = 100


def serve(
    model: Model, first: Mesh | PointCloud | None, host: str, port: int, *, browser: bool, say: Callable[[str], None]
) -> None:
    """Serves the page until a signal says to stop; `say` is told the address.

    Raises:
        OSError: in one sentence, for an address that cannot be taken.
    """
    listening = taken(host, port)
    torch.set_num_threads(1)  # the other core draws
    address = f"http://{_in_address(host)}:{listening.getsockname()[1]}"
    whom = "" if is_loopback(host) else ", also to everybody else who can reach this machine"
    say_where = partial(say, f"{address} shows it{whom}; close it with Ctrl-C.")
    asyncio.run(_serve(Viewer(Respondent(model), first, host, Reader()), listening, address, browser, say_where))


def taken(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes any that is free."""
    try:
        return _bound(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OSError(f"port {port} is in use; {_another(host, port)}") from error
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"{host}:{port}: cannot be served ({reason}); give another --host or --port") from error


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def _another(host: str, port: int) -> str:
    """A port near by that is free, as an option to type."""
    for other in range(port + 1, min(port + 1 + _TRIED, 2**16)):
        try:
            _bound(host, other).close()
        except OSError:
            continue
        return f"try --port {other}"
    return "try --port 0, which takes any that is free"


async def _serve(
    viewer: Viewer, listening: socket.socket, address: str, browser: bool, say_where: Callable[[], None]
) -> None:
    stop = asyncio.Event()
    _stop_at_signals(stop)
    runner = web.AppRunner(viewer.app(), handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        say_where()
        if browser and _can_open():
            # Some browsers are waited for until they are closed.
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        await stop.wait()
    finally:
        await runner.cleanup()


def _stop_at_signals(stop: asyncio.Event) -> None:
    """A signal that whoever started this has chosen to ignore, as nohup does a closed terminal's, is ignored."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None or (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            continue
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:  # Windows, where Ctrl-C ends the loop by an exception
            return


def _can_open() -> bool:
    """Whether there is a screen to open a browser on; the ones for terminals would take this one."""
    if sys.platform in ("win32", "darwin") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _in_address(host: str) -> str:
    """As it stands in an address that this machine's browser can open."""
    if host in ("0.0.0.0", "::", ""):
        return "localhost"
    return f"[{host}]" if ":" in host else host
