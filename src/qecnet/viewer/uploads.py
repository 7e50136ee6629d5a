"""The memory that uploads take: while they are received, and as shapes that sessions keep."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from qecnet.geometry import Mesh, PointCloud
from qecnet.viewer.limits import Limits


class Budget:
    """A number of bytes that uploads share while they are received and read."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, size: int, seconds: float) -> AsyncIterator[None]:
        """Take `size` bytes of the budget while the context lasts.

        Raises:
            asyncio.TimeoutError: when they are not free within `seconds`.
        """
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: self._free >= size), seconds)
            self._free -= size
        try:
            yield
        finally:
            async with self._changed:
                self._free += size
                self._changed.notify_all()


class UploadStore:
    """The uploaded shapes of all sessions. A session sees its own only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shapes: dict[tuple[str, int], Mesh | PointCloud] = {}
        self._numbers = count(1)

    def add(self, session: str, shape: Mesh | PointCloud) -> int:
        """Store a shape; the session's oldest ones are dropped if they leave no room. → its number

        Raises:
            ValueError: when the other sessions leave no room for it.
        """
        limits, size = self._limits, _bytes(shape)
        own = [key for key in self._shapes if key[0] == session]
        while own and (
            len(own) >= limits.session_uploads
            or self._size(session) + size > limits.session_bytes
            or self._size() + size > limits.stored_bytes
        ):
            del self._shapes[own.pop(0)]
        if self._size() + size > limits.stored_bytes:
            raise ValueError(
                f"{shape.name}: the viewer has no memory left for it; close other pages of the viewer and try again"
            )
        number = next(self._numbers)
        self._shapes[session, number] = shape
        return number

    def get(self, session: str, number: int) -> Mesh | PointCloud:
        """Return a shape of this session."""
        shape = self._shapes.get((session, number))
        if shape is None:
            raise ValueError("this file is no longer in memory (a page keeps its last few uploads); upload it again")
        return shape

    def remove(self, session: str) -> None:
        """Remove everything that a session has uploaded."""
        for key in [key for key in self._shapes if key[0] == session]:
            del self._shapes[key]

    def _size(self, session: str | None = None) -> int:
        return sum(_bytes(shape) for key, shape in self._shapes.items() if session in (None, key[0]))


def _bytes(shape: Mesh | PointCloud) -> int:
    if isinstance(shape, PointCloud):
        return shape.points.nbytes
    return shape.vertices.nbytes + shape.faces.nbytes
