"""The page and the socket behind it: one tab, one socket, one `Tab`; what they ask is answered one after the other."""

from __future__ import annotations

import asyncio
import json
import secrets
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from socket import gethostname
from typing import Any

from aiohttp import WSMsgType, web

from qecnet import __version__
from qecnet.datasets.shapes import CLASSES
from qecnet.geometry import Mesh, PointCloud
from qecnet.viewer.reader import MOST_BYTES, MOST_POINTS, Reader
from qecnet.viewer.reply import Respondent, Tab
from qecnet.viewer.wire import packed
from qecnet.viewer.wish import Wish, read_wish

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGE = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {path.name: path for path in PAGE.iterdir() if path.suffix in _TYPES}
_HEADERS = {
    # Whatever the page may come to contain, no browser would ask another host for it.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_LONGEST_WISH = 2**16


class Viewer:
    """Everything that is served."""

    def __init__(self, respondent: Respondent, first: Mesh | PointCloud | None, host: str, reader: Reader) -> None:
        self._respondent = respondent
        self._first = first
        self._host = host
        self._reader = reader
        self._tabs: dict[str, Tab] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network")
        self._sockets: set[web.WebSocketResponse] = set()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=MOST_BYTES)
        app.router.add_get("/", self._file)
        app.router.add_get("/socket", self._socket)
        app.router.add_post("/upload/{tab}", self._upload)
        app.router.add_get("/{name}", self._file)
        app.on_shutdown.append(self._close)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Other pages in the browser may reach this port, but are neither let in nor answered."""
        if not self._is_ours(request):
            raise web.HTTPForbidden(text="This address is not served here.\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _is_ours(self, request: web.Request) -> bool:
        """A page of another origin is refused, and a name that anybody may have pointed here: an address, or this
        machine's own name, is nobody else's to give."""
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            return False
        name = (request.host.rpartition(":")[0] or request.host).lower()
        if name == self._host.lower() or is_loopback(name):
            return True
        return not is_loopback(self._host) and (_is_address(name) or name == gethostname().lower())

    async def _file(self, request: web.Request) -> web.Response:
        path = _FILES.get(request.match_info.get("name", "index.html"))
        if path is None:
            raise web.HTTPNotFound(text="There is no such page.\n")
        return web.Response(body=path.read_bytes(), content_type=_TYPES[path.suffix], charset="utf-8")

    async def _upload(self, request: web.Request) -> web.Response:
        """The file's bytes are the body, its name is in the query."""
        tab = self._tabs.get(request.match_info["tab"])
        if tab is None:
            return _trouble("this page is no longer connected; reload it", 404)
        name = request.query.get("name", "")
        try:
            data = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _trouble(f"the file is larger than {MOST_BYTES // 2**20} MB; give a smaller one", 413)
        try:
            shape = await asyncio.to_thread(self._reader.read, name, data)
        except ValueError as error:
            return _trouble(str(error), 422)
        return web.json_response({"upload": tab.add(shape), "name": shape.name})

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=300, max_msg_size=_LONGEST_WISH)
        await socket.prepare(request)
        key, tab = secrets.token_urlsafe(16), Tab(self._respondent, self._first)
        self._tabs[key] = tab
        self._sockets.add(socket)
        answering: asyncio.Task[None] | None = None
        starting: asyncio.Task[None] | None = None
        try:
            await socket.send_bytes(packed({"hello": self._hello(key)}, {}))
            starting = asyncio.create_task(asyncio.to_thread(self._reader.start))
            wishes: asyncio.Queue[Wish] = asyncio.Queue()
            answering = asyncio.create_task(self._answer(socket, tab, wishes))
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    try:
                        wishes.put_nowait(read_wish(message.data))
                    except ValueError as error:
                        await socket.send_bytes(packed({"trouble": str(error)}, {}))
        finally:
            for task in (answering, starting):
                if task is not None:
                    task.cancel()
            self._sockets.discard(socket)
            del self._tabs[key]
        return socket

    async def _answer(self, socket: web.WebSocketResponse, tab: Tab, wishes: asyncio.Queue[Wish]) -> None:
        """Answers the newest wish; those that came before it have been overtaken."""
        loop = asyncio.get_running_loop()
        while not socket.closed:
            wish = await wishes.get()
            while not wishes.empty():
                wish = wishes.get_nowait()
            try:
                data = await loop.run_in_executor(self._thread, tab.reply, wish)
            except ValueError as error:
                data = packed({"number": wish.number, "trouble": str(error)}, {})
            except Exception as error:
                # A mistake of ours is told where it can be mended, and the page goes on.
                traceback.print_exception(error)
                sentence = f"something went wrong here ({type(error).__name__}: {error}); the terminal says more"
                data = packed({"number": wish.number, "trouble": sentence}, {})
            try:
                await socket.send_bytes(data)
            except ConnectionError:
                return  # the tab was closed meanwhile

    def _hello(self, key: str) -> dict[str, Any]:
        """What a page is told when it opens."""
        model = self._respondent.model
        return {
            "tab": key,
            "version": __version__,
            "model": model.name,
            "points": model.config.points,
            "features": model.network.config.features is not None,
            "iterations": model.network.config.iterations,
            "gallery": [*CLASSES],
            "file": None if self._first is None else self._first.name,
            "limits": {"bytes": MOST_BYTES, "points": MOST_POINTS},
        }

    async def _close(self, _: web.Application) -> None:
        for socket in [*self._sockets]:
            await socket.close(code=1001, message=b"the viewer was closed")
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._reader.close()


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's alone."""
    return host == "localhost" or (_is_address(host) and ip_address(host.strip("[]")).is_loopback)


def _is_address(host: str) -> bool:
    """Whether it is no name but an address, of either kind."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _trouble(sentence: str, status: int) -> web.Response:
    return web.json_response({"trouble": sentence}, status=status, dumps=json.dumps)
