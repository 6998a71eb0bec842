"""Removes what is old, by itself and in small batches, so that nobody waits for it."""

from __future__ import annotations

import asyncio

import anyio

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.retention import Pruned, RetentionDays
from bext_workflow.ports.store import Store
from bext_workflow.ports.telemetry import Telemetry

BATCH = 100
_LOOK_S = 60.0
_PAUSE_S = 0.1


class Retention:
    """Looks once a minute. Where hosts share a store, whichever comes first removes, and the others find nothing."""

    def __init__(
        self,
        *,
        store: Store,
        days: RetentionDays,
        clock: Clock,
        telemetry: Telemetry,
        draining: asyncio.Event,
    ) -> None:
        self._store = store
        self._days = days
        self._clock = clock
        self._telemetry = telemetry
        self._draining = draining

    async def run(self) -> None:
        """Removes until it is cancelled; while the host drains, nothing."""
        while True:
            more = False
            try:
                if not self._draining.is_set():
                    more = await self._prune()
            except StoreUnavailable:
                pass  # the dispatcher, which asks far more often, says so
            # Days are at stake: that is no reason for a clock that tests move on to do so.
            await anyio.sleep(_PAUSE_S if more else _LOOK_S)

    async def _prune(self) -> bool:
        """Removes a batch; whether there was one."""
        now = self._clock.now()
        pruned = await self._store.prune(self._days.expired(now), at=now, limit=BATCH)
        if pruned:
            self._report(pruned)
        return bool(pruned)

    def _report(self, pruned: Pruned) -> None:
        for status, count in pruned.runs.items():
            if count:
                self._telemetry.add(names.REMOVED, count, status=status)
        self._telemetry.log(names.RUNS_REMOVED, runs=sum(pruned.runs.values()), start_keys=pruned.start_keys)
