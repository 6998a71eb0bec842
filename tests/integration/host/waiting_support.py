"""Time in the tests of waiting runs: it passes when a test says so, and only once the host would notice."""

from __future__ import annotations

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import RunRow
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Hosted
from tests.unit.host.support import within

HOUR, DAY = 3_600_000, 86_400_000


async def let_pass(hosted: Hosted, clock: FakeClock, ms: int) -> None:
    """Lets time pass once the dispatcher waits for it: what it has computed before then is about the time before."""
    await asleep(hosted)
    clock.advance(ms)


async def asleep(hosted: Hosted) -> None:
    """Waits until the dispatcher waits for its next look."""
    async with within():
        while not vars(hosted.host._dispatcher._wake)["_waiters"]:
            await hosted.store.ping()


async def parked(hosted: Hosted, run_id: str) -> RunRow:
    """The row of a run that waits, and that nobody drives or holds in memory."""
    view = await hosted.settled(run_id)
    assert view.status is WorkflowStatus.WAITING
    async with within():
        await hosted.host.idle()
    assert hosted.host._dispatcher.active == 0
    (row,) = await hosted.store.find(run_id)
    assert (row.status, row.owner) == (WorkflowStatus.WAITING, None)
    return row
