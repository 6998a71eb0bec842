"""Connections that are cut at each place where it makes a difference.

The host lives on, and so does its lease: whatever is lost on the way, no call is made twice, none is left out, and the
journal tells each run once.
"""

from __future__ import annotations

from collections import Counter

import pytest

from bext_workflow.errors import StoreUnavailable
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import StartRequest
from bext_workflow_pg.store import connections
from plugins.workflow_pg.tests.proxy import Cut, Loss
from plugins.workflow_pg.tests.wired import wired

pytestmark = [pytest.mark.tier("ci"), pytest.mark.timeout(400)]

MOST_OF_A_NAME = 3
AT_ONCE = (Loss.BEFORE, Loss.AFTER)


@pytest.mark.parametrize(
    ("scene", "named"),
    [
        ("started here", {"create", "advance"}),
        ("started elsewhere", {"claim", "advance", "COMMIT", "load"}),
        ("rolled back", {"create", "advance"}),
        ("signalled", {"create", "advance", "lock_run", "post", "claim", "COMMIT"}),
    ],
)
async def test_a_connection_is_cut_before_and_after_every_statement(
    local_server: str, scene: str, named: set[str]
) -> None:
    """P6: nothing is lost or repeated, whether the database has had the statement or not."""
    async with wired(local_server) as here:
        await here.drive(scene)  # connections are made, and statements prepared
        calm = await here.drive(scene)
        exchanges = Counter(here.proxy.exchanges)
        cuts = [
            Cut(name, nth, loss)
            for name, times in exchanges.items()
            for nth in range(1, min(times, MOST_OF_A_NAME) + 1)
            for loss in AT_ONCE
        ]
        made = Counter[tuple[str, Loss]]()
        for cut in cuts:
            assert await here.drive(scene, cut) == calm, cut
            made[cut.name, cut.loss] += here.proxy.has_cut

        assert {(name, loss) for name in named for loss in AT_ONCE} <= set(+made)
        assert here.errand.repeated() == {}
        assert here.hosted.telemetry.value(names.RESULTS_DISCARDED) == 0
        here.proxy.count()
        assert await here.drive(scene) == calm


async def test_a_start_that_arrives_when_nobody_waits_for_it_is_driven(
    local_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the host gave it up, looked, and found nothing; then it was there. It is the host's, and only the host's."""
    monkeypatch.setattr(connections, "COMMAND_S", 1.0)
    async with wired(local_server) as here:
        await here.drive("started here")
        here.proxy.count(Cut("create", 1, Loss.LATE))
        request = StartRequest(workflow="errand", key="late")
        with pytest.raises(StoreUnavailable):
            await here.hosted.service.start(request)
        await here.hosted.until_green()
        await here.looked(3)
        here.proxy.release.set()
        await here.until_runs(2)
        run_id = await here.hosted.start("errand", key="late")
        await here.desk.ended(run_id)

    assert here.errand.made[run_id] == ["pack", "ship"]
    assert len(here.errand.made) == 2
