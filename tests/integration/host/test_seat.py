"""A host waits for a command that drives one run, and for nobody else (semantics §11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreBusy
from bext_workflow.host.clock import SystemClock
from bext_workflow.host.seat import WAIT_MS, take_seat
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import HostRow
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.contract.base import host, run_id
from tests.integration.host.rigged import RiggedStore
from tests.integration.host.support import Calls, desk, hosting, opened, saga, step, workflow
from tests.unit.host.support import Recorder, within

COMMAND = replace(host("command"), pid=812, only=run_id(7))
"""Drives one run and holds the seat for as long as that takes."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bext.db"


async def test_a_command_that_drives_one_run_is_waited_for_and_named(path: Path) -> None:
    telemetry = Recorder()
    async with opened(path) as store, opened(path) as other, within():
        await other.join(COMMAND)
        taking = asyncio.create_task(take_seat(store, host(), SystemClock(), telemetry))

        assert await telemetry.heard(names.HOST_WAITS) == {"pid": 812, "run_id": run_id(7)}
        assert not taking.done()
        await other.leave("command")
        await taking

        assert list(await other.hosts()) == [host()]
    assert len(telemetry.all(names.HOST_WAITS)) == 1


async def test_a_command_that_takes_too_long_is_not_waited_for_any_longer(path: Path) -> None:
    clock, telemetry = FakeClock(), Recorder()
    store = RiggedStore(path, clock)
    await store.open(migrate=True)
    try:
        async with opened(path) as other, within():
            await other.join(COMMAND)
            taking = asyncio.create_task(take_seat(store, host(), clock, telemetry))
            await telemetry.heard(names.HOST_WAITS)

            clock.advance(WAIT_MS)
            async with clock.autojump():
                with pytest.raises(StoreBusy, match="process 812"):
                    await taking
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("there", "comes"),
    [(host("host-b"), host()), (COMMAND, replace(host(), only=run_id(8)))],
    ids=["a host meets a host", "a command meets a command"],
)
async def test_nobody_else_is_waited_for(path: Path, there: HostRow, comes: HostRow) -> None:
    telemetry = Recorder()
    async with opened(path) as store, opened(path) as other:
        await other.join(there)

        with pytest.raises(StoreBusy, match=f"process {there.pid}"):
            await take_seat(store, comes, FakeClock(), telemetry)

    assert telemetry.events == []


async def test_a_host_of_one_run_says_so_and_promises_nothing_about_other_runs(path: Path) -> None:
    """What a command writes while another one drives its own run is not driven."""
    served = saga(Calls(), workflow(step("hold", wait=WaitDefinition(signal="go"))))
    async with desk(served, path) as commands:
        mine = await commands.start()
        async with hosting(served, path, only=mine):
            (holder,) = await commands.store.hosts()
            assert holder.only == mine
            assert not (await commands.cancel(await commands.start())).driven
        async with hosting(served, path):
            assert (await commands.cancel(await commands.start())).driven
