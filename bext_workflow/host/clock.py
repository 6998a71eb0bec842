"""The real clock and the real dice."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import uuid_utils

from bext_workflow.ports.clock import Timer


class SystemClock:
    """This machine's wall clock, and the event loop's monotonic one."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)


class SystemChance:
    """UUIDv7 ids, and jitter from a generator of its own."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing

    def new_id(self) -> str:
        return str(uuid_utils.uuid7())

    def jitter(self) -> float:
        return self._random.random()
