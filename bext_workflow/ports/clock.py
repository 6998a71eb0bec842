"""Time and chance, handed in: the core and the host read neither by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that has been asked for."""

    def cancel(self) -> None:
        """Takes it back; harmless after it has fired."""


class Clock(Protocol):
    """Two clocks: the wall, for what is kept, and a monotonic one, for waits inside the process (semantics §8)."""

    def now(self) -> int:
        """Ms since the epoch, UTC, on the store's clock."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Calls back on the event loop once `delay_ms` have passed on the monotonic clock."""

    async def sleep(self, delay_ms: float) -> None:
        """Waits on the monotonic clock."""


class Chance(Protocol):
    """What is drawn: ids and jitter."""

    def new_id(self) -> str:
        """A new UUIDv7."""

    def jitter(self) -> float:
        """Uniform in [0, 1)."""
