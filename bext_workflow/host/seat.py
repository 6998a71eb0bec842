"""Taking the driver's seat of a store (semantics §11)."""

from __future__ import annotations

from bext_workflow.errors import StoreBusy
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import HostRow, Store
from bext_workflow.ports.telemetry import Telemetry

WAIT_MS = 10_000
"""How long a host waits for a command that drives one run, which is over soon as a rule."""

_LOOK_MS = 50


async def take_seat(store: Store, row: HostRow, clock: Clock, telemetry: Telemetry) -> None:
    """Joins the store. Raises `StoreBusy`: at once if another host of many runs is there, else after `WAIT_MS`."""
    until = clock.monotonic() + WAIT_MS / 1000
    told = False
    while True:
        try:
            await store.join(row)
        except StoreBusy:
            # Nobody listed: whoever sits there is about to say who it is, or has just left.
            holders = await store.hosts()
            if row.only is not None or any(one.only is None for one in holders) or clock.monotonic() >= until:
                raise
            if holders and not told:
                telemetry.log(names.HOST_WAITS, pid=holders[0].pid, run_id=holders[0].only)
                told = True
            await clock.sleep(_LOOK_MS)
        else:
            return
