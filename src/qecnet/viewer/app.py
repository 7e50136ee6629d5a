"""The web application: the page's files, one WebSocket for each open page, and uploads."""

import asyncio
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
from qecnet.datasets import FURNITURE_CLASSES
from qecnet.geometry import Mesh, PointCloud
from qecnet.viewer.connections import Gate
from qecnet.viewer.limits import Limits
from qecnet.viewer.reader import MAX_UPLOAD_POINTS, UploadReader
from qecnet.viewer.request import Request, parse_request
from qecnet.viewer.session import VOTING_MODEL, ModelPool, Session
from qecnet.viewer.uploads import Budget, UploadStore
from qecnet.viewer.wire import pack

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PAGE = Path(__file__).parent / "page"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {path.name: path for path in PAGE.iterdir() if path.suffix in _TYPES}
_HEADERS = {
    # Whatever the page contains, a browser loads nothing from another host.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_HEARTBEAT = 30.0
_FULL, _IDLE = 4001, 4002
"""Codes with which a WebSocket is closed on purpose; link.js knows them."""


class ViewerApp:
    """Serves the page to browsers, within `limits`."""

    def __init__(
        self,
        pool: ModelPool,
        file: Mesh | PointCloud | None,
        host: str,
        reader: UploadReader,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.gate = Gate(self.limits)
        self._pool, self._file, self._host, self._reader = pool, file, host, reader
        self._store = UploadStore(self.limits)
        self._receiving = Budget(self.limits.receiving_bytes)
        self._sessions: dict[str, web.WebSocketResponse] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="network")

    def application(self) -> web.Application:
        """Return what aiohttp serves."""
        app = web.Application(middlewares=[self._guard], client_max_size=self.limits.upload_bytes)
        app.router.add_get("/", self._send_file)
        app.router.add_get("/socket", self._open_session)
        app.router.add_post("/upload/{session}", self._upload)
        app.router.add_get("/{name}", self._send_file)
        app.on_shutdown.append(self._close)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse pages of other origins, which can reach this port through the user's browser."""
        self.gate.note_request(request)
        if not self._is_allowed(request):
            raise web.HTTPForbidden(text="This address is not served here.\n")
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _is_allowed(self, request: web.Request) -> bool:
        """Whether the origin is our own page, under an address or this machine's host name; an attacker could make
        other names point to this machine (DNS rebinding)."""
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{request.scheme}://{request.host}":
            return False
        name = (request.host.rpartition(":")[0] or request.host).lower()
        if name == self._host.lower() or is_loopback(name):
            return True
        return not is_loopback(self._host) and (_is_address(name) or name == gethostname().lower())

    async def _send_file(self, request: web.Request) -> web.Response:
        path = _FILES.get(request.match_info.get("name", "index.html"))
        if path is None:
            raise web.HTTPNotFound(text="There is no such page.\n")
        return web.Response(body=path.read_bytes(), content_type=_TYPES[path.suffix], charset="utf-8")

    async def _upload(self, request: web.Request) -> web.Response:
        """Receive a file: its content is the body, its name is in the query."""
        session, limits, size = request.match_info["session"], self.limits, request.content_length
        if session not in self._sessions:
            return _refuse(404, "this page is no longer connected; reload it")
        if size is None:
            return _refuse(411, "the request does not give the size of the file; reload the page")
        if size > limits.upload_bytes:
            return _refuse(413, f"the file is larger than {limits.upload_bytes // 2**20} MB; upload a smaller one")
        try:
            async with self._receiving.reserve(size, limits.waiting_seconds):
                try:
                    data = await asyncio.wait_for(request.read(), limits.body_seconds)
                except asyncio.TimeoutError:
                    return _refuse(408, f"the upload took longer than {limits.body_seconds:g} s; try a smaller file")
                shape = await asyncio.to_thread(self._reader.read, request.query.get("name", ""), data)
                del data
        except asyncio.TimeoutError:
            return _refuse(503, "the viewer is busy with other uploads; try again later")
        except ValueError as error:
            return _refuse(422, str(error))
        if session not in self._sessions:
            return _refuse(404, "this page is no longer connected; reload it")
        try:
            return web.json_response({"upload": self._store.add(session, shape), "name": shape.name})
        except ValueError as error:
            return _refuse(503, str(error))

    async def _open_session(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=_HEARTBEAT, max_msg_size=self.limits.request_bytes)
        await socket.prepare(request)
        if len(self._sessions) >= self.limits.sessions:
            await socket.close(code=_FULL)
            return socket
        key = secrets.token_urlsafe(16)
        self._sessions[key] = socket
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._send(request, socket, pack({"session": self._describe(key)}))
            newest: asyncio.Queue[Request] = asyncio.Queue(1)
            session = Session(key, self._pool, self._store, self._file)
            tasks = [
                asyncio.create_task(asyncio.to_thread(self._reader.start)),
                asyncio.create_task(self._respond(request, socket, session, newest)),
            ]
            await self._receive(request, socket, newest)
        finally:
            for task in tasks:
                task.cancel()
            del self._sessions[key]
            self._store.remove(key)
        return socket

    async def _receive(
        self, request: web.Request, socket: web.WebSocketResponse, newest: asyncio.Queue[Request]
    ) -> None:
        """Put each request into the queue, replacing one that is waiting, until the page is closed or idle."""
        while True:
            try:
                message = await asyncio.wait_for(socket.receive(), self.limits.idle_seconds)
            except asyncio.TimeoutError:
                await socket.close(code=_IDLE)
                return
            if message.type is not WSMsgType.TEXT:
                return
            try:
                parsed = parse_request(message.data)
            except ValueError as error:
                await self._send(request, socket, pack({"error": str(error)}))
                continue
            if newest.full():
                newest.get_nowait()
            newest.put_nowait(parsed)

    async def _respond(
        self, request: web.Request, socket: web.WebSocketResponse, session: Session, newest: asyncio.Queue[Request]
    ) -> None:
        loop = asyncio.get_running_loop()
        while not socket.closed:
            asked = await newest.get()
            try:
                data = await loop.run_in_executor(self._thread, session.respond, asked)
            except ValueError as error:
                data = pack({"id": asked.id, "error": str(error)})
            except Exception as error:
                traceback.print_exception(error)
                sentence = f"the viewer failed ({type(error).__name__}: {error}); see the terminal for details"
                data = pack({"id": asked.id, "error": sentence})
            await self._send(request, socket, data)

    async def _send(self, request: web.Request, socket: web.WebSocketResponse, data: bytes) -> None:
        """Send a message; a client that does not take it in time is disconnected."""
        try:
            await asyncio.wait_for(socket.send_bytes(data), self.limits.send_seconds)
        except (ConnectionError, asyncio.TimeoutError):
            if request.transport is not None:
                request.transport.abort()

    def _describe(self, key: str) -> dict[str, Any]:
        """The first message to a page."""
        model = self._pool.model
        return {
            "key": key,
            "version": __version__,
            "models": [*self._pool.names],
            "voting": VOTING_MODEL,
            "points": model.config.points,
            "gallery": [*FURNITURE_CLASSES],
            "file": None if self._file is None else self._file.name,
            "limits": {"bytes": self.limits.upload_bytes, "points": MAX_UPLOAD_POINTS},
        }

    async def _close(self, _: web.Application) -> None:
        for socket in [*self._sessions.values()]:
            await socket.close(code=1001, message=b"the viewer was stopped")
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._reader.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a name or address."""
    return host == "localhost" or (_is_address(host) and ip_address(host.strip("[]")).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _refuse(status: int, sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=status)
