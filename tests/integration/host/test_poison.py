"""A run that kills its hosts: it becomes a suspect, is driven alone, and is suspended at last (semantics §6, P45)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.core.state import POISON_AFTER, SUSPECT_AFTER
from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, Hosted, desk, hosting, plugin, registry, saga, step, workflow

TWO_STEPS = workflow("pack", "ship")


class Killer:
    """Kills the host that calls it, so many times, at that call."""

    def __init__(self, call: str, times: int) -> None:
        self.calls = Calls({call: [self] * times})
        self.hosted: Hosted | None = None

    async def __call__(self, _: WorkflowRun) -> object:
        assert self.hosted is not None
        self.hosted.dies()
        await asyncio.Event().wait()
        return None

    async def lives(self, path: Path, definition: WorkflowDefinition, *, start: bool = False) -> str:
        """A host comes up over the file and is killed by this; returns the run's id."""
        async with hosting(saga(self.calls, definition), path) as hosted:
            self.hosted = hosted
            run_id = await hosted.start() if start else ""
            await hosted.host.drained.wait()
        return run_id


async def killed(killer: Killer, path: Path, times: int, definition: WorkflowDefinition = TWO_STEPS) -> str:
    run_id = await killer.lives(path, definition, start=True)
    for _ in range(times - 1):
        await killer.lives(path, definition)
    return run_id


async def test_from_the_third_death_on_the_attempts_of_the_run_are_recorded(tmp_path: Path) -> None:
    killer, path = Killer("ship", SUSPECT_AFTER), tmp_path / "bext.db"
    run_id = await killed(killer, path, SUSPECT_AFTER)
    async with hosting(saga(killer.calls, TWO_STEPS), path) as hosted:
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        kinds = await hosted.kinds(run_id)
        assert kinds.count("recovered") == SUSPECT_AFTER
        assert kinds[-4:] == ["recovered", "attempt_started", "step_completed", "run_completed"]
        assert kinds.count("attempt_started") == 1
    assert [run.attempt for run in killer.calls.of("ship")] == [1] * (SUSPECT_AFTER + 1)


async def test_a_run_that_has_killed_ten_hosts_is_suspended_and_a_person_decides(tmp_path: Path) -> None:
    """P45"""
    killer, path = Killer("ship", POISON_AFTER), tmp_path / "bext.db"
    run_id = await killed(killer, path, POISON_AFTER)
    async with hosting(saga(killer.calls, TWO_STEPS), path) as hosted:
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        incident = await hosted.incident(run_id)
        assert (incident.kind, incident.step) == (IncidentKind.POISON, "ship")
        assert incident.actions == [Action.RETRY, Action.CANCEL]
        await hosted.quiet()
        assert killer.calls.made.count("ship") == POISON_AFTER
        healthy = await hosted.settled(await hosted.start())
        assert healthy.status is WorkflowStatus.COMPLETED
        await hosted.resolve(run_id, Action.CANCEL)
        assert (await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)).status is WorkflowStatus.COMPENSATED
    assert killer.calls.made.count("undo_pack") == 1


async def test_an_undo_that_kills_its_hosts_can_be_tried_again_or_closed(tmp_path: Path) -> None:
    killer, path = Killer("undo_pack", POISON_AFTER), tmp_path / "bext.db"
    killer.calls._scripts["ship"] = [StepOutcome.Fail("no", True)]
    run_id = await killed(killer, path, POISON_AFTER)
    async with hosting(saga(killer.calls, TWO_STEPS), path) as hosted:
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
        incident = await hosted.incident(run_id)
        assert (incident.kind, incident.actions) == (IncidentKind.POISON, [Action.RETRY, Action.CLOSE])
        await hosted.resolve(run_id, Action.RETRY)
        assert (await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)).failure == "no"


async def test_bystanders_of_a_killer_are_not_blamed(tmp_path: Path) -> None:
    """From the third on only a crash during its own recorded attempt counts.

    The killer is the elder of the two suspects, so it is driven first: the other one is never called again before a
    person is asked about the killer.
    """
    path = tmp_path / "bext.db"
    killer = Killer("ship", POISON_AFTER)
    asleep = asyncio.Event()

    async def sleeps(run: WorkflowRun, step_name: str) -> object:
        await asleep.wait()
        return StepOutcome.Continue()

    served = registry(
        plugin(killer.calls.run_step, TWO_STEPS, name="killer"),
        plugin(sleeps, workflow("sleep", id_="bystander"), name="bystander"),
    )
    clock = FakeClock(1_000)
    async with desk(served, path, clock=clock) as alone:
        killing = await alone.start()
        clock.advance(1)
        bystander = await alone.start("bystander")
    for _ in range(POISON_AFTER):
        async with hosting(served, path) as hosted:
            killer.hosted = hosted
            await hosted.host.drained.wait()
    asleep.set()
    async with hosting(served, path) as hosted:
        assert (await hosted.reaches(killing, WorkflowStatus.SUSPENDED)).status is WorkflowStatus.SUSPENDED
        assert (await hosted.settled(bystander)).status is WorkflowStatus.COMPLETED


async def test_suspects_are_driven_one_at_a_time(tmp_path: Path) -> None:
    """Else nobody could tell which of them it was."""
    path = tmp_path / "bext.db"
    calls = Calls()
    at_once: list[int] = []
    inside = 0
    gate = asyncio.Event()

    async def counted(run: WorkflowRun, step_name: str) -> object:
        nonlocal inside
        calls.made.append(run.run_id)
        inside += 1
        at_once.append(inside)
        try:
            await gate.wait()
            for _ in range(20):
                await asyncio.sleep(0)
        finally:
            inside -= 1
        return StepOutcome.Continue()

    served = registry(plugin(counted, workflow("pack")))
    started: list[str] = []
    for life in range(SUSPECT_AFTER):
        async with hosting(served, path) as hosted:
            started += [await hosted.start() for _ in range(4)] if life == 0 else []
            while inside < len(started):
                await hosted.quiet()
            hosted.dies()
    assert max(at_once) == 4
    at_once.clear()
    gate.set()
    async with hosting(served, path) as hosted:
        for run_id in started:
            assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert (len(at_once), max(at_once)) == (4, 1)


@pytest.mark.parametrize("progress", ["pack", "ship"])
async def test_progress_clears_a_run_of_suspicion(tmp_path: Path, progress: str) -> None:
    """Semantics §6: deaths count in a row, since the last event that is progress."""
    path = tmp_path / "bext.db"
    killer = Killer(progress, POISON_AFTER - 1)
    definition = workflow("pack", "ship", step("tell", idempotent=True))
    run_id = await killed(killer, path, POISON_AFTER - 1, definition)
    killer.calls._scripts["tell"] = [killer] * (POISON_AFTER - 1)
    for _ in range(POISON_AFTER - 1):
        await killer.lives(path, definition)
    async with hosting(saga(killer.calls, definition), path) as hosted:
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
