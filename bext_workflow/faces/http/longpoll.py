"""Requests that wait, and their end when the server stops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


class LongPolls:
    """The waits in progress. After `close` nothing waits any more."""

    def __init__(self) -> None:
        self._waiting: set[anyio.CancelScope] = set()
        self._closed = False

    async def wait(self, wanted: Callable[[], Awaitable[T]], otherwise: Callable[[], Awaitable[T]]) -> T:
        """What `wanted` gives, or what `otherwise` gives once the server stops."""
        with anyio.CancelScope() as scope:
            if self._closed:
                scope.cancel()
            self._waiting.add(scope)
            try:
                return await wanted()
            finally:
                self._waiting.discard(scope)
        return await otherwise()

    def close(self) -> None:
        """Ends every wait, now and later."""
        self._closed = True
        for scope in self._waiting:
            scope.cancel()
