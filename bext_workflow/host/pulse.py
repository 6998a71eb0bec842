"""The heartbeats of one attempt: they put its end off, and what they say is for the next one (semantics §8).

A plugin may send them from every thread, and as fast as it likes: a heartbeat costs a comparison, and only a detail
that is new wakes the event loop. Nor does it move a deadline: that looks, when it comes, whether it is time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import NoReturn

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.host.deadlines import ROUNDING_MS, Deadline, Deadlines
from bext_workflow.model.json import Document, Json, JsonObject, detach, dumps
from bext_workflow.ports.clock import Clock

MAX_DETAIL_BYTES = 4_096
RECORD_EVERY_MS = 1_000
"""Details of one attempt are written at most so often: each is an append, and the last one counts."""


class Unstated(msgspec.Struct, frozen=True):
    """The heartbeat of a step that states no `heartbeat_ms`."""

    step: str

    def __call__(self, detail: Json) -> NoReturn:
        """Raises `DefinitionError`."""
        raise DefinitionError(
            f"step {self.step!r} has no heartbeat_ms", mend="state it, so that a heartbeat has a meaning"
        )


class Pulse:
    """`beat` is the plugin's, from whatever thread; all else belongs to the event loop."""

    def __init__(self, clock: Clock, deadlines: Deadlines, heartbeat_ms: int, known: Json) -> None:
        """`known`: the detail that the attempt begins with."""
        self._clock = clock
        self._deadlines = deadlines
        self._heartbeat_ms = heartbeat_ms
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._until = 0.0
        self._said = self._written = None if known is None else _document(known)
        self._told = False
        self._tell: Callable[[], None] | None = None
        self._write_from = 0.0
        self._end_timer: Deadline | None = None
        self._turn_timer: Deadline | None = None
        self.over = False
        """The attempt has ended, and nobody listens any more."""

    def beat(self, detail: Json) -> None:
        """See `WorkflowRun.heartbeat`."""
        said = None
        if detail is not None:
            said = detach({"detail": detail}, max_bytes=MAX_DETAIL_BYTES, what="the detail of a heartbeat")
        with self._lock:  # held against `cancel`: as long as the attempt is not over, there is a loop to call
            if self.over:
                return
            self._until = max(self._until, self._now() + self._heartbeat_ms)
            if said is None or said == self._said:
                return
            self._said = said
            if self._tell is not None and not self._told:
                self._told = True
                self._loop.call_soon_threadsafe(self._in_turn)

    # The time of the attempt

    def begin(self, timeout_ms: int, end: Callable[[str], None]) -> None:
        """The attempt begins. `end` is called, with the reason, when its time is over (`timeout_ms` of 0: never)."""
        if not timeout_ms:
            return
        bound = self._now() + timeout_ms

        def look() -> None:
            with self._lock:
                until = max(bound, self._until)
            left_ms = until - self._now()
            if left_ms > ROUNDING_MS:
                self._end_timer = self._deadlines.arm(left_ms, look)
            elif until > bound:
                end(f"the attempt has sent no heartbeat for heartbeat_ms = {self._heartbeat_ms}")
            else:
                end(f"the attempt took longer than timeout_ms = {timeout_ms}")

        self._end_timer = self._deadlines.arm(timeout_ms, look)

    def cancel(self) -> None:
        """The attempt has ended."""
        with self._lock:
            self.over = True
        self._tell = None
        for timer in (self._end_timer, self._turn_timer):
            if timer is not None:
                timer.cancel()

    # What it says

    def when_news(self, tell: Callable[[], None]) -> None:
        """`tell` is called once there is something to write; then not before that is `written`, and a while is over."""
        self._tell = tell

    def news(self) -> Json:
        """What was said last, if it is not written yet. None: there is nothing, and `tell` waits for the next."""
        with self._lock:
            if self._said is None or self._said == self._written:
                self._told = False
                return None
            return self._said.value["detail"]

    def written(self, detail: Json) -> None:
        """The detail is durable; one that is newer by now has its turn later."""
        self._written = _document(detail)
        self._write_from = self._now() + RECORD_EVERY_MS
        if self.news() is not None:
            self._in_turn()

    def _in_turn(self) -> None:
        if self._tell is None:
            return
        wait_ms = self._write_from - self._now()
        if wait_ms > ROUNDING_MS:
            self._turn_timer = self._deadlines.arm(wait_ms, self._in_turn)
        else:
            self._tell()

    def _now(self) -> float:
        """Ms on the clock that never jumps."""
        return self._clock.monotonic() * 1000


def _document(detail: Json) -> Document:
    value: JsonObject = {"detail": detail}
    return Document(dumps(value), value)
