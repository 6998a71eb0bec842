"""Time-outs by the thousand: one heap and one timer for all of them.

An attempt's time-out is nearly always taken back, so a deadline costs a push and a mark; marked entries are swept out
once they are the larger part of the heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from bext_workflow.ports.clock import Clock, Timer

_SWEEP_FROM = 64
ROUNDING_MS = 0.001
"""What a time may lose on its way through seconds and back: a deadline that misses its timer by that has passed."""


class Deadline:
    """One callback at one time; `cancel` takes it back."""

    __slots__ = ("_deadlines", "callback", "when")

    def __init__(self, deadlines: Deadlines, when: float, callback: Callable[[], None]) -> None:
        self._deadlines = deadlines
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: Deadline) -> bool:
        return self.when < other.when

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._deadlines.swept_later()


class Deadlines:
    """A heap of deadlines over one timer of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[Deadline] = []
        self._cancelled = 0
        self._timer: Timer | None = None
        self._timer_at = float("inf")

    def arm(self, delay_ms: float, callback: Callable[[], None]) -> Deadline:
        """Calls back on the event loop once `delay_ms` have passed, unless it is cancelled first."""
        deadline = Deadline(self, self._clock.monotonic() * 1000 + delay_ms, callback)
        heapq.heappush(self._heap, deadline)
        if deadline.when < self._timer_at:
            self._set_timer(deadline.when)
        return deadline

    def swept_later(self) -> None:
        """One more entry of the heap is void."""
        self._cancelled += 1
        if self._cancelled > _SWEEP_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [deadline for deadline in self._heap if deadline.callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._clock.call_later(max(0.0, when - self._clock.monotonic() * 1000), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = float("inf")
        now = self._clock.monotonic() * 1000 + ROUNDING_MS
        while self._heap and (self._heap[0].callback is None or self._heap[0].when <= now):
            deadline = heapq.heappop(self._heap)
            if deadline.callback is None:
                self._cancelled -= 1
                continue
            callback, deadline.callback = deadline.callback, None
            callback()
        if self._heap:
            self._set_timer(self._heap[0].when)
