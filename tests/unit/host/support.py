"""What the tests of the host share: telemetry that remembers, and deadlines for what must happen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bext_workflow.ports.telemetry import LOG_LEVELS, METRICS

DEADLINE_S = 30
"""What happens at once on a quiet machine; on a busy one it may take a while."""


@asynccontextmanager
async def within(seconds: float = DEADLINE_S) -> AsyncIterator[None]:
    """Fails the test if the block is not through in time."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        pytest.fail(f"it has not happened within {seconds} s")


class Recorder:
    """`Telemetry` that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self._metrics: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._heard = asyncio.Event()

    def log(self, event: str, **fields: object) -> None:
        assert event in LOG_LEVELS
        self.events.append((event, fields))
        self._heard.set()

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        _, names = METRICS[metric]
        assert set(labels) == set(names)
        self._metrics[metric, tuple(sorted(labels.items()))] += int(amount)

    def value(self, metric: str, **labels: str) -> float:
        return self._metrics[metric, tuple(sorted(labels.items()))]

    def all(self, event: str) -> list[dict[str, object]]:
        """The fields of every event of that name."""
        return [fields for name, fields in self.events if name == event]

    async def heard(self, event: str, times: int = 1) -> dict[str, object]:
        """Waits until there are so many events of that name; returns the last one's fields."""
        async with within():
            while len(self.all(event)) < times:
                self._heard.clear()
                await self._heard.wait()
        return self.all(event)[-1]
