"""Heartbeats: they move the end of an attempt, and say to the next one how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from bext_workflow.core.input import Beaten
from bext_workflow.core.work import Execute
from bext_workflow.errors import DefinitionError
from bext_workflow.host.deadlines import Deadline, Deadlines
from bext_workflow.model.json import Document, Json, detach
from bext_workflow.model.run import Beat
from bext_workflow.ports.clock import Clock

MAX_DETAIL_BYTES = 4_096
RECORD_EVERY_MS = 1_000
"""A detail is written at most so often: the last one counts."""


class Bound:
    """The time of one call. Extending it costs nothing: it is looked at again when the time has come."""

    def __init__(self, clock: Clock, deadlines: Deadlines, end: Callable[[], None]) -> None:
        self._clock = clock
        self._deadlines = deadlines
        self._end = end
        self._until = 0.0
        self._deadline: Deadline | None = None

    def start(self, timeout_ms: int) -> None:
        """The call begins; 0: it has no bound."""
        if timeout_ms:
            self._until = self._now() + timeout_ms
            self._deadline = self._deadlines.arm(timeout_ms, self._look)

    def extend(self, ms: int) -> None:
        """The call has so long from now on, at least."""
        self._until = max(self._until, self._now() + ms)

    def stop(self) -> None:
        """The call is over."""
        if self._deadline is not None:
            self._deadline.cancel()

    def _look(self) -> None:
        left = self._until - self._now()
        if left > 0:
            self._deadline = self._deadlines.arm(left, self._look)
        else:
            self._end()

    def _now(self) -> float:
        return self._clock.monotonic() * 1000


class _Unwritten(msgspec.Struct):
    """What an attempt said last and the journal does not know; it may be written at `due_at` (ms)."""

    beaten: Beaten
    due_at: int


class Beats:
    """The heartbeats of one run's attempts, on their way into its journal. `ring` wakes whoever writes them."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._unwritten: dict[str, _Unwritten] = {}
        self._written_at: dict[str, int] = {}

    def due(self, now: int) -> Beaten | None:
        """One that may be written now."""
        for key, one in self._unwritten.items():
            if one.due_at <= now:
                return self.take(key)
        return None

    def next_at(self) -> int | None:
        """When one may be written next."""
        return min((one.due_at for one in self._unwritten.values()), default=None)

    def take(self, key: str) -> Beaten | None:
        """What the call with that key said last and nobody has written."""
        one = self._unwritten.pop(key, None)
        if one is None:
            return None
        self._written_at[key] = self._clock.now()
        return one.beaten

    def of(self, action: Execute, alive: Callable[[], bool]) -> Callable[[Json], None]:
        """Takes the details of one attempt, as long as it is `alive`; on the event loop."""
        said: Json = None

        def take(detail: Json) -> None:
            nonlocal said
            if detail is None or detail == said or not alive():
                return
            said = detail
            due_at = self._written_at.get(action.key, 0) + RECORD_EVERY_MS
            beaten = Beaten(branch=action.branch, step=action.step, visit=action.visit, detail=detail)
            self._unwritten[action.key] = _Unwritten(beaten, due_at)
            self._ring()

        return take


def unstated(step: str) -> Beat:
    """For a step that states no `heartbeat_ms`."""

    def refuse(_: Json) -> None:
        raise DefinitionError(f"step {step!r} has no heartbeat_ms", mend="state it, so that a heartbeat has a meaning")

    return refuse


def stated(heartbeat_ms: int, extend: Callable[[int], None], take: Callable[[Json], None] | None) -> Beat:
    """For one call of a step that does: checks the detail where it is said, and goes on on the event loop."""
    loop = asyncio.get_running_loop()

    def arrived(detail: Json) -> None:
        extend(heartbeat_ms)
        if take is not None:
            take(detail)

    def beat(detail: Json) -> None:
        document: Document = detach({"detail": detail}, max_bytes=MAX_DETAIL_BYTES, what="the detail of a heartbeat")
        with suppress(RuntimeError):  # the loop is closed: the host is gone, and nobody listens
            loop.call_soon_threadsafe(arrived, document.value["detail"])

    return beat
