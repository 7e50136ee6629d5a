"""Limits on the resources that one client, and all clients together, may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on connections, uploads and time; the page works well within them, a hostile client cannot exceed them.

    Attributes:
        connections, connections_per_address: open TCP connections, and those from one address.
        sessions: open pages (WebSockets).
        header_seconds: to send a request's headers.
        body_seconds: to send an upload.
        send_seconds: to take a response.
        idle_seconds: without a request, after which a session ends.
        request_bytes: of one WebSocket message.
        upload_bytes: of one file.
        receiving_bytes: of all files that are being received and read at the same time.
        waiting_seconds: that an upload waits for its share of `receiving_bytes`.
        session_uploads, session_bytes: shapes that a session keeps in memory; the oldest are dropped.
        stored_bytes: shapes of all sessions together; further uploads are refused.
    """

    connections: int = 128
    connections_per_address: int = 48
    sessions: int = 32
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    send_seconds: float = 30.0
    idle_seconds: float = 1800.0
    request_bytes: int = 2**16
    upload_bytes: int = 64 * 2**20
    receiving_bytes: int = 128 * 2**20
    waiting_seconds: float = 60.0
    session_uploads: int = 8
    session_bytes: int = 192 * 2**20
    stored_bytes: int = 512 * 2**20
