"""Plain-`def` hooks: they run in worker threads and never block the loop.

A thread cannot be killed. One that outlives its time-out is counted as leaked; while it is known to run, no other
attempt and no undo of the same visit is made (semantics §6).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeAlias

import anyio
from anyio import to_thread

from bext_workflow.ports import telemetry as names
from bext_workflow.ports.telemetry import Telemetry

Visit: TypeAlias = tuple[str, str, int]
"""(run id, step, visit): what may not be called twice at a time."""

OnLate: TypeAlias = Callable[[object, BaseException | None], None]
"""Told, on the loop, what an abandoned call came to: its result, or what it raised."""


class Threads:
    """A bounded pool, and the record of the calls that outlived their time-out."""

    def __init__(self, size: int, telemetry: Telemetry, *, most_leaked: int, too_many: Callable[[], None]) -> None:
        """`too_many` is called when `most_leaked` calls run on that nobody waits for."""
        self._slots = anyio.CapacityLimiter(size)
        self._unbounded = anyio.CapacityLimiter(float("inf"))
        self._telemetry = telemetry
        self._most_leaked = most_leaked
        self._too_many = too_many
        self._leaked: dict[Visit, asyncio.Event] = {}
        self._watchers: dict[Visit, list[Callable[[], None]]] = {}

    @property
    def slots(self) -> anyio.CapacityLimiter:
        """Held by a caller around all of a call, so that waiting for a thread is no part of an attempt."""
        return self._slots

    @property
    def leaked(self) -> int:
        """How many calls run on that nobody waits for."""
        return len(self._leaked)

    async def run(self, visit: Visit, on_late: OnLate, call: Callable[..., object], *arguments: object) -> object:
        """The result of `call` in a thread. Cancelled, the call goes on by itself and `on_late` hears of its end."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        gate = _Gate()

        def work() -> tuple[object, BaseException | None]:
            result: object = None
            error: BaseException | None = None
            if not gate.enter():
                return result, error
            try:
                result = call(*arguments)
            except BaseException as raised:
                error = raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._ended, visit, ended, on_late, result, error)
            return result, error

        try:
            result, error = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._unbounded)
        except asyncio.CancelledError:
            if gate.abandon() and not ended.is_set():
                self._leak(visit, ended)
            raise
        if error is not None:
            # Here and not through the future: a GeneratorExit that a future throws closes whoever awaits it.
            raise error
        return result

    def busy(self, visit: Visit) -> bool:
        """Whether an earlier call for the visit is known to run still."""
        return visit in self._leaked

    def when_quiet(self, visit: Visit, callback: Callable[[], None]) -> None:
        """Calls back on the loop once the visit's earlier call has ended."""
        self._watchers.setdefault(visit, []).append(callback)

    def _ended(
        self, visit: Visit, ended: asyncio.Event, on_late: OnLate, result: object, error: BaseException | None
    ) -> None:
        ended.set()
        if self._leaked.get(visit) is ended:
            del self._leaked[visit]
            self._telemetry.add(names.THREADS_LEAKED, -1)
            on_late(result, error)
            for callback in self._watchers.pop(visit, ()):
                callback()

    def _leak(self, visit: Visit, ended: asyncio.Event) -> None:
        self._leaked[visit] = ended
        run_id, step, number = visit
        self._telemetry.add(names.THREADS_LEAKED, 1)
        self._telemetry.log(names.THREAD_LEAKED, run_id=run_id, step=step, visit=number, leaked=self.leaked)
        if self.leaked >= self._most_leaked:
            self._too_many()


class _Gate:
    """Settles, between the loop and the thread, whether an abandoned call has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = False
        self._abandoned = False

    def enter(self) -> bool:
        """The thread is about to call; false: nobody wants it any more."""
        with self._lock:
            self._entered = not self._abandoned
            return self._entered

    def abandon(self) -> bool:
        """The loop gives up; true: the call has begun."""
        with self._lock:
            self._abandoned = True
            return self._entered
