"""What a driver waits on: acts that arrive, calls that end, and the time."""

from __future__ import annotations

import asyncio

from bext_workflow.host.deadlines import Deadlines
from bext_workflow.ports.clock import Clock


class Wake:
    """A bell that may be rung at any time; what rings while nobody waits is heard at the next wait."""

    def __init__(self, clock: Clock, deadlines: Deadlines) -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, until: int | None) -> None:
        """Returns once it has been rung, or `until` (ms) has come."""
        deadline = None
        if until is not None:
            deadline = self._deadlines.arm(max(0, until - self._clock.now()), self._rung.set)
        await self._rung.wait()
        self._rung.clear()
        if deadline is not None:
            deadline.cancel()
