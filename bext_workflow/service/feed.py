"""What a host has just journaled, for those who watch all of it: the last changes, in order, from memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio
import msgspec

from bext_workflow.model.status import WorkflowStatus

KEPT = 1_000


class Change(msgspec.Struct, frozen=True, gc=False):
    """The `n`-th append of this host: where it left a run. `at` is in ms."""

    n: int
    run_id: str
    workflow: str
    status: WorkflowStatus
    step: str | None
    seq: int
    at: int


class Feed:
    """The last `kept` changes. Who has missed more than these is told so, and looks at the whole again."""

    def __init__(self, kept: int = KEPT) -> None:
        self._changes: deque[Change] = deque(maxlen=kept)
        self._last = 0
        self._news: anyio.Event | None = None

    @property
    def last(self) -> int:
        """The number of the newest change; 0: there was none."""
        return self._last

    def tell(self, *, run_id: str, workflow: str, status: WorkflowStatus, step: str | None, seq: int, at: int) -> None:
        """From the loop that the feed is read on."""
        self._last += 1
        self._changes.append(Change(self._last, run_id, workflow, status, step, seq, at))
        if self._news is not None:
            self._news.set()
            self._news = None

    def since(self, n: int) -> Sequence[Change] | None:
        """The changes after the `n`-th; None if some of them are gone, or were never here."""
        if not self._last - len(self._changes) <= n <= self._last:
            return None
        return [self._changes[place] for place in range(n - self._last, 0)] if n < self._last else []

    async def news(self, n: int) -> None:
        """Returns once there is something after the `n`-th change."""
        while self._last <= n:
            if self._news is None:
                self._news = anyio.Event()
            await self._news.wait()
