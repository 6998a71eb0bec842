"""Reads that cannot do without their answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports.clock import Clock

T = TypeVar("T")

_PAUSE_MS = 200


async def patiently(clock: Clock, read: Callable[[], Awaitable[T]]) -> T:
    """Asks until the store answers."""
    while True:
        try:
            return await read()
        except StoreUnavailable:
            await clock.sleep(_PAUSE_MS)
