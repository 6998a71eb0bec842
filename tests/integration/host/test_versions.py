"""Runs and the definitions that they began with (semantics §10; P49)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bext_workflow.errors import DefinitionError
from bext_workflow.model.definition import write_definition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, desk, hosting, jumping, opened, saga, step, workflow

OLD = workflow("pack", step("ship"))
NEW = workflow("pack", step("weigh"), step("ship", idempotent=False))


async def test_other_policy_holds_from_the_next_attempt_on_and_is_journaled_once(tmp_path: Path) -> None:
    """P49, §10: retries are policy; what has moved is told in words, and not again by the host after that."""
    path, calls = tmp_path / "bext.db", Calls(pack=[TimeoutError(), StepOutcome.Wait(signal="go")])
    patient = workflow(step("pack", retries=RetryPolicy(max_attempts=2, backoff_ms=10**8, max_backoff_ms=10**8)))
    quick = workflow(step("pack", retries=RetryPolicy(max_attempts=2, backoff_ms=0, max_backoff_ms=0), timeout_ms=5))
    assert patient.digest == quick.digest
    assert patient.policy != quick.policy
    async with hosting(saga(calls, patient), path) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
    async with hosting(saga(calls, quick), path) as hosted:
        await hosted.service.pause(run_id, "look")  # it is due in a day: an act has it driven
        await hosted.service.resume(run_id, "go on")
        await hosted.until_kind(run_id, "policy_changed")
        (told,) = [event.data for event in await hosted.journal(run_id) if event.kind == "policy_changed"]
    assert told == {
        "policy": quick.policy,
        "changes": [
            "step 'pack': retries.backoff_ms was 100000000; it is 0",
            "step 'pack': retries.max_backoff_ms was 100000000; it is 0",
            "step 'pack': timeout_ms was 60000; it is 5",
        ],
    }
    async with hosting(saga(calls, quick), path) as hosted:
        await hosted.cancel(run_id)
        await hosted.reaches(run_id, WorkflowStatus.CANCELLED)
        assert (await hosted.kinds(run_id)).count("policy_changed") == 1


async def test_a_run_at_rest_hears_of_other_policy_when_it_is_driven_next(tmp_path: Path) -> None:
    path, calls = tmp_path / "bext.db", Calls(pack=[StepOutcome.Wait(signal="go")])
    slow = workflow("pack", step("ship", timeout_ms=7))
    async with hosting(saga(calls, OLD), path) as hosted:
        run_id, ended = await hosted.start(), await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
        await hosted.reaches(ended, WorkflowStatus.COMPLETED)
    async with hosting(saga(calls, slow), path) as hosted:
        await hosted.quiet()
        assert "policy_changed" not in await hosted.kinds(run_id)
        await hosted.service.signal(run_id, SignalRequest(name="go"))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert (await hosted.kinds(run_id)).count("policy_changed") == 1
        assert "policy_changed" not in await hosted.kinds(ended)


async def test_a_run_that_is_reopened_hears_of_other_policy_before_its_next_attempt(tmp_path: Path) -> None:
    """§10: as long as it has ended there is nothing to tell; its next attempt comes after what holds for it."""
    path, calls = tmp_path / "bext.db", Calls(ship=[StepOutcome.Fail("closed", False), StepOutcome.Wait(signal="go")])
    slow = workflow("pack", step("ship", timeout_ms=7))
    async with hosting(saga(calls, OLD), path) as hosted:
        run_id = (await hosted.settled(await hosted.start())).run_id
    async with hosting(saga(calls, slow), path) as hosted:
        await hosted.retry(run_id)
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
        kinds = await hosted.kinds(run_id)
        assert kinds[kinds.index("run_reopened") :] == ["run_reopened", "policy_changed", "step_completed"]


async def test_a_run_that_is_closed_just_then_has_nothing_to_hear_of_other_policy(tmp_path: Path) -> None:
    """The answer comes between the claim and the append that would tell it, and ends the run."""
    path, calls = tmp_path / "bext.db", Calls(pack=[StepOutcome.Retry(reason="503")])
    once = RetryPolicy(max_attempts=1, on_exhausted=OnExhausted.INCIDENT)
    async with hosting(saga(calls, workflow(step("pack", retries=once))), path) as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.SUSPENDED)
    quick = workflow(step("pack", retries=once, timeout_ms=7))
    async with opened(path) as store, hosting(saga(calls, quick), store=store) as hosted:
        store.close_gate()
        await hosted.service.pause(run_id, "look")
        await store.reached()
        await hosted.resolve(run_id, Action.CLOSE)
        store.open_gate()
        await hosted.reaches(run_id, WorkflowStatus.FAILED)
        assert "policy_changed" not in await hosted.kinds(run_id)
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []


async def for_ever(_: WorkflowRun) -> object:
    await asyncio.Event().wait()
    return None


async def test_another_graph_under_the_same_version_is_refused_while_runs_live(tmp_path: Path) -> None:
    """P49: with the difference, and a way out; nothing is driven, nothing is changed."""
    calls, path = Calls(), tmp_path / "bext.db"
    async with desk(saga(calls, OLD), path) as alone:
        run_id = await alone.start()
        await alone.start()
    with pytest.raises(DefinitionError) as caught:
        async with hosting(saga(calls, NEW), path):
            pytest.fail("the host must not come up")
    assert "workflow 'order' version 1 is not what 2 live runs began with" in caught.value.message
    assert "weigh" in caught.value.message
    assert "idempotent" in caught.value.message
    assert "new version" in caught.value.mend
    assert calls.made == []
    async with hosting(saga(calls, OLD), path) as hosted:
        assert (await hosted.reaches(run_id, WorkflowStatus.COMPLETED)).status is WorkflowStatus.COMPLETED


async def test_a_host_that_was_refused_has_given_its_seat_back(tmp_path: Path) -> None:
    calls, path = Calls(), tmp_path / "bext.db"
    async with desk(saga(calls, OLD), path) as alone:
        await alone.start()
        with pytest.raises(DefinitionError):
            async with hosting(saga(calls, NEW), path):
                pytest.fail("the host must not come up")
        assert await alone.store.hosts() == []


async def test_the_new_graph_under_a_new_version_leaves_the_old_runs_on_theirs(tmp_path: Path) -> None:
    path = tmp_path / "bext.db"
    calls = Calls()
    async with desk(saga(calls, OLD), path) as alone:
        old = await alone.start()
    newer = workflow("pack", "weigh", "ship", version=2)
    async with hosting(saga(calls, OLD, newer), path) as hosted:
        new = await hosted.start()
        for run_id in (old, new):
            await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        steps = {run_id: [run.step for run in calls.runs if run.run_id == run_id] for run_id in (old, new)}
        assert steps == {old: ["pack", "ship"], new: ["pack", "weigh", "ship"]}


async def test_once_the_runs_have_ended_the_graph_may_change(tmp_path: Path) -> None:
    path = tmp_path / "bext.db"
    calls = Calls()
    async with hosting(saga(calls, OLD), path) as hosted:
        old = await hosted.start()
        await hosted.settled(old)
    async with hosting(saga(calls, NEW), path) as hosted:
        assert (await hosted.settled(await hosted.start())).status is WorkflowStatus.COMPLETED
        assert (await hosted.get(old)).status is WorkflowStatus.COMPLETED
    assert calls.made == ["pack", "ship", "pack", "weigh", "ship"]


async def test_a_run_that_ended_is_reopened_on_the_definition_that_it_began_with(tmp_path: Path) -> None:
    """P49: though the graph has changed since."""
    path = tmp_path / "bext.db"
    calls = Calls(ship=[StepOutcome.Fail("closed", False)])
    async with hosting(saga(calls, OLD), path) as hosted:
        run = await hosted.settled(await hosted.start())
        assert run.status is WorkflowStatus.FAILED
    async with hosting(saga(calls, NEW), path) as hosted:
        await hosted.retry(run.run_id)
        await hosted.reaches(run.run_id, WorkflowStatus.COMPLETED)
        assert "attempt_started" not in (await hosted.kinds(run.run_id))[-3:]
        assert hosted.telemetry.all(names.DRIVER_CRASHED) == []
    assert calls.made == ["pack", "ship", "ship"]


async def test_a_policy_may_change_under_live_runs_and_holds_from_their_next_attempt(tmp_path: Path) -> None:
    """Semantics §10: retries and time-outs are policy, not graph."""
    path = tmp_path / "bext.db"
    calls = Calls(ship=[StepOutcome.Retry(after_ms=60_000), *[StepOutcome.Retry(after_ms=0)] * 9])
    patient = workflow("pack", step("ship", retries=RetryPolicy(max_attempts=99)))
    strict = workflow("pack", step("ship", retries=RetryPolicy(max_attempts=3)))
    clock = FakeClock()
    async with hosting(saga(calls, patient), path, clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
    async with jumping(saga(calls, strict), clock, path) as hosted:
        run = await hosted.settled(run_id)
        assert run.status is WorkflowStatus.COMPENSATED
        assert [made.attempt for made in calls.of("ship")] == [1, 2, 3]


async def test_a_start_keeps_the_definition_that_it_names() -> None:
    async with hosting(saga(Calls(), OLD)) as hosted:
        run_id = await hosted.start()
        (row,) = await hosted.store.find(run_id)
        assert row.digest == OLD.digest
        assert await hosted.store.definition("order", 1, OLD.digest) is not None


async def test_a_start_from_outside_takes_the_policy_that_the_live_host_drives_by(tmp_path: Path) -> None:
    """§10: a config that is not served yet holds for nothing, whether or not the start names the version."""
    path, calls = tmp_path / "bext.db", Calls()
    edited = workflow("pack", step("ship", timeout_ms=7))
    async with hosting(saga(calls, OLD), path) as hosted, desk(saga(calls, edited), path) as outside:
        for version in (None, 1):
            run_id = await outside.start(version=version)
            await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
            assert "policy_changed" not in await hosted.kinds(run_id)
            assert (await hosted.journal(run_id))[0].data["policy"] == OLD.policy
        assert await hosted.store.definition("order", 1, OLD.digest) == write_definition(OLD)
