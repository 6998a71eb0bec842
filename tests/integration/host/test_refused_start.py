"""A host that refuses to start lets go of the store, and has neither started nor stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.errors import DefinitionError
from bext_workflow.host.clock import SystemChance, SystemClock
from bext_workflow.host.host import Host
from tests.integration.host.support import SETTINGS, Calls, desk, opened, saga, step, workflow
from tests.unit.host.support import Recorder


@pytest.mark.parametrize(("live", "said"), [(1, "what 1 live run began with"), (2, "what 2 live runs began with")])
async def test_another_graph_under_live_runs_is_refused_and_no_start_is_told(
    tmp_path: Path, live: int, said: str
) -> None:
    """P49"""
    path, telemetry = tmp_path / "bext.db", Recorder()
    async with desk(saga(Calls(), workflow("pack", "ship")), path) as commands:
        for _ in range(live):
            await commands.start()
    changed = saga(Calls(), workflow("pack", step("ship", pivot=True)))
    async with opened(path) as store:
        host = Host(
            store=store,
            registry=changed,
            settings=SETTINGS,
            clock=SystemClock(),
            chance=SystemChance(1),
            telemetry=telemetry,
        )

        with pytest.raises(DefinitionError, match=said):
            async with host.running():
                pytest.fail("it must not run")

        assert list(await store.hosts()) == []
    assert telemetry.events == []
