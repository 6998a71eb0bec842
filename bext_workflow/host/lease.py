"""The right to drive (semantics §11): which host this process is, until when it may begin work, and what follows.

Where hosts share a store the right is a lease. A host trusts it for less than its length, counted from before it asked,
on a clock that never jumps: by the time that another may take its runs, it has begun nothing for a while (P34). A lease
that has run out is another host's business: what comes back is a new host, with a new id, that drives nothing yet.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial

import anyio
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.patience import patiently
from bext_workflow.host.seat import take_seat
from bext_workflow.host.trouble import Trouble
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.ports.store import HostRow, Store
from bext_workflow.ports.telemetry import Telemetry

_RENEWALS = 3
"""How often the lease is renewed in its length, so that one that fails is not the end of it."""

_MARGIN = 0.1
"""The share of the length that is not relied on: between asking whether it holds and a call there is a moment."""

_PAUSE_MS = 200


class Lease:
    """One host's, over one store. `lost` is called when it has run out, `held` when it holds again."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        trouble: Trouble,
        *,
        lost: Callable[[], None],
        held: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._telemetry = telemetry
        self._trouble = trouble
        self._lost = lost
        self._held = held
        self._row: HostRow | None = None
        self._trusted_until = -math.inf
        self._again = asyncio.Event()
        self.host_id = chance.new_id()

    @property
    def holds(self) -> bool:
        """Whether work may begin now."""
        return self._clock.monotonic() < self._trusted_until

    async def until_held(self) -> None:
        """Returns when work may begin; if the lease is lost, whoever waits here is ended."""
        while not self.holds:
            self._again.clear()
            await self._again.wait()

    async def take(self, row: HostRow) -> None:
        """Joins the store. Raises `StoreBusy`."""
        asked = self._clock.monotonic()
        await take_seat(self._store, row, self._clock, self._telemetry)
        self._row = row
        self._trust(asked, row)

    async def keep(self) -> None:
        """Renews it in time, until it is cancelled; where one host drives alone there is nothing to renew."""
        row = self._row
        if row is None or not self._store.profile.shared:
            return
        every_ms = row.lease_ms / _RENEWALS
        while True:
            asked = self._clock.monotonic()
            renewed = await self._renew(row, every_ms)
            if renewed is False:
                row = await self._come_back(row)
            elif renewed:
                self._trust(asked, row)
            passed_ms = (self._clock.monotonic() - asked) * 1000
            await self._clock.sleep(_PAUSE_MS if renewed is None else max(0, every_ms - passed_ms))

    async def _renew(self, row: HostRow, within_ms: float) -> bool | None:
        """None: nobody knows, ask again."""
        try:
            with anyio.move_on_after(within_ms / 1000):
                renewed = await self._store.renew(row.host_id)
                self._trouble.over("lease")
                return renewed
        except StoreUnavailable as error:
            self._trouble.met("lease", error)
        return None

    async def _come_back(self, row: HostRow) -> HostRow:
        self._trusted_until = -math.inf
        self._telemetry.log(names.HOST_LEASE_LOST, host_id=row.host_id)
        self._lost()
        row = replace(row, host_id=self._chance.new_id(), started_at=self._clock.now())
        self.host_id = row.host_id
        asked = self._clock.monotonic()
        await patiently(self._clock, partial(self._store.join, row))
        self._trust(asked, row)
        return row

    def _trust(self, asked: float, row: HostRow) -> None:
        """`asked`: when the store was asked, in seconds of the monotonic clock."""
        before = self.holds
        shared = self._store.profile.shared
        self._trusted_until = asked + row.lease_ms * (1 - _MARGIN) / 1000 if shared else math.inf
        self._again.set()
        if not before:
            self._held()
