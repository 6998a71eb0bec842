"""A clock that stands still until it is told to move."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count

import anyio

START = 1_800_000_000_000
"""2027-01-15T08:00:00Z: where a `FakeClock` begins."""

_STEP_MS = 0.001
"""What a timer waits at least, so that time that is only rounding away is not asked for for ever."""

_QUIET_ROUNDS = 25
"""A host that has not looked at the clock for so many rounds of the event loop waits for time to pass."""


class FakeTimer:
    """A callback that has been asked for. `due` is ms on the monotonic clock."""

    __slots__ = ("_number", "callback", "due")

    def __init__(self, due: float, number: int, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback: Callable[[], None] | None = callback
        self._number = number

    def __lt__(self, other: FakeTimer) -> bool:
        return (self.due, self._number) < (other.due, other._number)

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    """`ports.clock.Clock` for tests: time passes by `advance`, or, in `autojump()`, whenever everybody waits for it.

    `jump_wall` moves the wall clock alone, as an administrator or a leap would.
    """

    def __init__(self, now: int = START) -> None:
        self._wall = now
        self._passed = 0.0
        self._timers: list[FakeTimer] = []
        self._numbers = count()
        self._asked = asyncio.Event()
        self._looks = 0
        self._holders = 0
        self._let_go = asyncio.Event()
        self._let_go.set()

    def now(self) -> int:
        self._looks += 1
        return self._wall + int(self._passed)

    def monotonic(self) -> float:
        self._looks += 1
        return self._passed / 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> FakeTimer:
        self._looks += 1
        timer = FakeTimer(self._passed + max(delay_ms, _STEP_MS), next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        self._asked.set()
        return timer

    async def sleep(self, delay_ms: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(delay_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def advance(self, ms: float) -> None:
        """Lets time pass at once; the timers that come due fire in order, each at its own time."""
        until = self._passed + ms
        while (due := self._next_due()) is not None and due <= until:
            self._fire_next()
        self._passed = max(self._passed, until)

    def jump_wall(self, ms: int) -> None:
        """Sets the wall clock forward, or back; no time passes."""
        self._wall += ms

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block runs, `autojump` waits: for what does not wait on this clock, such as a disk."""
        self._hold()
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def released(self) -> Iterator[None]:
        """While the block runs, inside one that is `held`, `autojump` does not wait for that."""
        self._release()
        try:
            yield
        finally:
            self._hold()

    @asynccontextmanager
    async def autojump(self) -> AsyncIterator[None]:
        """While the block runs, time moves on to the next timer whenever nothing else is left to do.

        Waits for other things than timers must be `held`, or they look like idleness.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._jump_when_quiet, name="autojump")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _hold(self) -> None:
        self._holders += 1
        self._let_go.clear()

    def _release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._let_go.set()

    async def _jump_when_quiet(self) -> None:
        while True:
            await self._let_go.wait()
            await self._asked.wait()
            if not await self._quiet():
                continue
            if self._next_due() is None:
                self._asked.clear()
            else:
                self._fire_next()

    async def _quiet(self) -> bool:
        looks = self._looks
        for _ in range(_QUIET_ROUNDS):
            await asyncio.sleep(0)
            if self._holders or self._looks != looks:
                return False
        return True

    def _next_due(self) -> float | None:
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0].due if self._timers else None

    def _fire_next(self) -> None:
        timer = heapq.heappop(self._timers)
        self._passed = max(self._passed, timer.due)
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()
