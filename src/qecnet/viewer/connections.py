"""Connections are counted before aiohttp sees them, and closed when they send no request in time."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from qecnet.viewer.limits import Limits

_REFUSAL_SECONDS = 2.0


class Gate:
    """Lets connections in up to the limits, in total and for each address; the rest get the status 503."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadlines: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def admit(self, server: web.Server, transport: asyncio.Transport) -> asyncio.Protocol | None:
        """Return the protocol that serves a new connection, or None where there are too many."""
        others = [handler.transport for handler in server.connections if handler.transport is not None]
        address = _address(transport)
        same = sum(_address(other) == address for other in others)
        if len(others) >= self._limits.connections or same >= self._limits.connections_per_address:
            return None
        deadline = asyncio.get_running_loop().call_later(self._limits.header_seconds, self._expire, transport)
        self._deadlines[transport] = deadline
        return server()

    def note_request(self, request: web.Request) -> None:
        """Stop the timer of a connection whose headers are complete; aiohttp limits the time after that."""
        if deadline := self._deadlines.pop(request.transport, None):  # type: ignore[arg-type]
            deadline.cancel()

    def _expire(self, transport: asyncio.Transport) -> None:
        del self._deadlines[transport]
        transport.abort()


class _NewConnection(asyncio.Protocol):
    """Hands a connection to aiohttp, or refuses it."""

    def __init__(self, gate: Gate, server: web.Server) -> None:
        self._gate, self._server = gate, server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        handler = self._gate.admit(self._server, transport)
        if handler is None:
            asyncio.get_running_loop().call_later(_REFUSAL_SECONDS, transport.abort)
        else:
            transport.set_protocol(handler)
            handler.connection_made(transport)

    def data_received(self, _: bytes) -> None:
        """Answer after the first bytes: closing with bytes unread would reset the connection, and lose the answer."""
        body = json.dumps({"error": "the viewer has too many open connections; close other pages and try again"})
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self._transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        self._transport.close()


@asynccontextmanager
async def listen(app: web.Application, gate: Gate, listening: socket.socket, limits: Limits) -> AsyncIterator[None]:
    """Serve an app on a socket, behind the gate, while the context lasts."""
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, shutdown_timeout=1.0, keepalive_timeout=limits.header_seconds
    )
    await runner.setup()
    http = runner.server
    assert http is not None
    try:
        accepting = await asyncio.get_running_loop().create_server(lambda: _NewConnection(gate, http), sock=listening)
        try:
            yield
        finally:
            accepting.close()
    finally:
        await runner.cleanup()


def _address(transport: asyncio.BaseTransport) -> Any:
    peer = transport.get_extra_info("peername")
    return peer[0] if peer else None
