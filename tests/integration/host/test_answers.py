"""What people answer: each kind of incident, with a live host and with none, and `retry` (semantics §5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bext_workflow.errors import BextError, Conflict, NotFound, UsageError, WorkflowError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.json import Json, loads
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.plugin.registry import Registry
from bext_workflow.ports import telemetry as names
from bext_workflow.ports.store import LeaseLost
from bext_workflow.service.protocols import ResolveRequest, RetryRequest
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import (
    NOTE,
    Calls,
    Desk,
    Hosted,
    desk,
    hosting,
    jumping,
    opened,
    saga,
    step,
    workflow,
)
from tests.unit.host.support import within

DONE, NOT_DONE, FAIL, FAIL_UNDO = Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO
JAMMED = WorkflowError("jammed")
ONCE = RetryPolicy(max_attempts=1, on_exhausted=OnExhausted.INCIDENT)
RETRY = StepOutcome.Retry(reason="503")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A run that comes to an incident by its scripts; a person's answer; what follows.

    `calls` are the hook calls that follow the answer.
    """

    kind: IncidentKind
    steps: tuple[StepDefinition | str, ...]
    scripts: dict[str, list[object]]
    action: Action
    calls: list[str]
    status: WorkflowStatus
    updates: dict[str, Json] = {}
    left: list[str] = []
    notifies: bool = False

    def definition(self) -> WorkflowDefinition:
        return workflow(*self.steps)

    def played(self) -> Calls:
        return Calls({call: list(script) for call, script in self.scripts.items()})


def in_doubt(action: Action, calls: list[str], status: WorkflowStatus, **more: Json) -> Case:
    """`pay` raised after it may have acted."""
    return Case(
        kind=IncidentKind.IN_DOUBT,
        steps=("pack", step("pay", idempotent=False), "ship"),
        scripts={"pay": [KeyError("?")]},
        action=action,
        calls=calls,
        status=status,
        **more,
    )


def undo_in_doubt(action: Action, calls: list[str], status: WorkflowStatus, **more: Json) -> Case:
    """The undo of `pay` must not be repeated, and raised."""
    return Case(
        kind=IncidentKind.IN_DOUBT,
        steps=("pack", step("pay", undo_idempotent=False), "ship"),
        scripts={"ship": [JAMMED], "undo_pay": [KeyError("?")]},
        action=action,
        calls=calls,
        status=status,
        **more,
    )


def undo_failed(action: Action, calls: list[str], status: WorkflowStatus, **more: Json) -> Case:
    return Case(
        kind=IncidentKind.COMPENSATION_FAILED,
        steps=("pack", "pay", "ship"),
        scripts={"ship": [StepOutcome.Fail("lost", True)], "undo_pay": [JAMMED]},
        action=action,
        calls=calls,
        status=status,
        **more,
    )


def exhausted(action: Action, calls: list[str], status: WorkflowStatus, **more: Json) -> Case:
    return Case(
        kind=IncidentKind.EXHAUSTED,
        steps=("pack", step("pay", retries=ONCE), "ship"),
        scripts={"pay": [RETRY]},
        action=action,
        calls=calls,
        status=status,
        **more,
    )


def stuck(action: Action, calls: list[str], status: WorkflowStatus, **more: Json) -> Case:
    return Case(
        kind=IncidentKind.STUCK_AFTER_PIVOT,
        steps=("pack", step("pay", pivot=True), "ship"),
        scripts={"ship": [JAMMED]},
        action=action,
        calls=calls,
        status=status,
        **more,
    )


def untold(action: Action, calls: list[str]) -> Case:
    """`on_workflow_complete` raised each time."""
    return Case(
        kind=IncidentKind.COMPLETION_FAILED,
        steps=("pack",),
        scripts={"complete": [KeyError("?")] * 3},
        action=action,
        calls=calls,
        status=WorkflowStatus.COMPLETED,
        notifies=True,
    )


COMPLETED, COMPENSATED, FAILED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.FAILED

CASES = {
    "in doubt, done": in_doubt(DONE, ["ship"], COMPLETED, updates={"charge": "ch-1"}),
    "in doubt, not done": in_doubt(NOT_DONE, ["pay", "ship"], COMPLETED),
    "in doubt, fail": in_doubt(FAIL, ["undo_pack"], COMPENSATED),
    "in doubt, fail undo": in_doubt(FAIL_UNDO, ["undo_pay", "undo_pack"], COMPENSATED),
    "undo in doubt, done": undo_in_doubt(DONE, ["undo_pack"], COMPENSATED),
    "undo in doubt, not done": undo_in_doubt(NOT_DONE, ["undo_pay", "undo_pack"], COMPENSATED),
    "undo in doubt, fail": undo_in_doubt(FAIL, [], FAILED, left=["pack", "pay"]),
    "undo failed, retry": undo_failed(Action.RETRY, ["undo_pay", "undo_pack"], COMPENSATED),
    "undo failed, undone": undo_failed(Action.UNDONE, ["undo_pack"], COMPENSATED),
    "undo failed, skip": undo_failed(Action.SKIP, ["undo_pack"], FAILED, left=["pay"]),
    "undo failed, close": undo_failed(Action.CLOSE, [], FAILED, left=["pack", "pay"]),
    "exhausted, retry": exhausted(Action.RETRY, ["pay", "ship"], COMPLETED),
    "exhausted, done": exhausted(DONE, ["ship"], COMPLETED, updates={"charge": "ch-1"}),
    "exhausted, fail": exhausted(FAIL, ["undo_pack"], COMPENSATED),
    "exhausted, close": exhausted(Action.CLOSE, [], FAILED, left=["pack"]),
    "stuck, retry": stuck(Action.RETRY, ["ship"], COMPLETED),
    "stuck, done": stuck(DONE, [], COMPLETED),
    "stuck, close": stuck(Action.CLOSE, [], FAILED, left=["pack", "pay"]),
    "untold, retry": untold(Action.RETRY, ["complete"]),
    "untold, close": untold(Action.CLOSE, []),
}

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


async def brought_to_its_incident(case: Case, hosted: Hosted) -> str:
    run_id = await hosted.start()
    await hosted.until_kind(run_id, "incident_opened")
    incident = await hosted.incident(run_id)
    assert incident.kind is case.kind
    assert hosted.telemetry.value(names.INCIDENTS_OPEN, kind=case.kind) == 1
    return run_id


async def check_what_follows(case: Case, hosted: Hosted, run_id: str, calls: Calls, before: int) -> None:
    await hosted.until_kind(run_id, "incident_resolved")
    run = await hosted.reaches(run_id, case.status)
    if case.notifies:
        await hosted.until_kind(run_id, "completion_settled")
    await hosted.quiet()
    assert calls.made[before:] == case.calls
    assert (run.left_in_place, run.context) == (case.left, case.updates)
    resolved = (await hosted.service.incidents(run_id=run_id, open_only=False)).items
    answered = next(incident for incident in resolved if incident.kind is case.kind and incident.resolution)
    assert answered.resolution is not None
    assert (answered.resolution.action, answered.resolution.note, answered.resolution.by) == (case.action, NOTE, "ann")


@cases
async def test_an_answer_to_a_live_host_is_carried_out(case: Case) -> None:
    calls = case.played()
    async with jumping(saga(calls, case.definition(), notifies=case.notifies), FakeClock()) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
        before = len(calls.made)
        assert (await hosted.resolve(run_id, case.action, updates=case.updates)).driven
        await check_what_follows(case, hosted, run_id, calls, before)
        still_open = (await hosted.service.incidents(run_id=run_id)).items
        for kind in IncidentKind:
            count = sum(incident.kind is kind for incident in still_open)
            assert hosted.telemetry.value(names.INCIDENTS_OPEN, kind=kind) == count


@cases
async def test_an_answer_while_no_host_is_there_waits_in_the_inbox(case: Case, tmp_path: Path) -> None:
    """Semantics §11: durable and audited when it is acknowledged; the next host carries it out."""
    calls, path, clock = case.played(), tmp_path / "bext.db", FakeClock()
    served = saga(calls, case.definition(), notifies=case.notifies)
    async with jumping(served, clock, path) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
    before = len(calls.made)
    async with desk(served, path, clock=clock) as alone:
        status = await alone.status(run_id)
        assert not (await alone.resolve(run_id, case.action, updates=case.updates)).driven
        assert await alone.status(run_id) is status
        (audited,) = await alone.store.audit(limit=10)
        assert (audited.name, audited.by, audited.run_id, audited.reason) == ("incident.resolve", "ann", run_id, NOTE)
        told = loads(audited.data)
        assert (told["before"]["status"], told["asked"]["action"]) == (status, case.action)
        assert told["after"]["status"] in set(WorkflowStatus)
        with pytest.raises(Conflict, match="not open"):
            await alone.resolve(run_id, case.action)
    async with jumping(served, clock, path) as hosted:
        await check_what_follows(case, hosted, run_id, calls, before)


async def test_an_answer_outlives_the_host_that_had_claimed_the_run_for_it(tmp_path: Path) -> None:
    """The next host finds nothing due in a run that has FAILED, but the answer is there."""
    case, path = CASES["undo failed, retry"], tmp_path / "bext.db"
    calls = case.played()
    served = saga(calls, case.definition())
    async with hosting(served, path) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
    async with desk(served, path) as alone:
        await alone.resolve(run_id, case.action)
    async with opened(path) as store:
        store.refuse = lambda _: LeaseLost()
        async with hosting(served, store=store) as hosted:
            await hosted.telemetry.heard(names.LEASE_LOST)
            hosted.dies()
    async with hosting(served, path) as hosted:
        await hosted.reaches(run_id, case.status)
        assert "recovered" in await hosted.kinds(run_id)


async def test_an_answer_that_an_incident_does_not_take_names_those_that_it_takes() -> None:
    case = CASES["in doubt, done"]
    async with hosting(saga(case.played(), case.definition())) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
        with pytest.raises(Conflict, match="does not answer an incident in_doubt") as caught:
            await hosted.resolve(run_id, Action.SKIP)
        assert caught.value.mend == "use one of: done, not_done, fail, fail_undo"
        assert (await hosted.incident(run_id)).resolved_at is None


async def test_an_answer_needs_a_note_and_an_incident() -> None:
    case = CASES["in doubt, done"]
    async with hosting(saga(case.played(), case.definition())) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
        incident = await hosted.incident(run_id)
        with pytest.raises(UsageError, match="needs a note"):
            await hosted.service.resolve(incident.id, ResolveRequest(action=DONE, note="  "))
        with pytest.raises(NotFound):
            await hosted.service.resolve("ffffffff", ResolveRequest(action=DONE, note=NOTE))
        await hosted.resolve(run_id, DONE)
        await hosted.reaches(run_id, COMPLETED)
        with pytest.raises(Conflict, match="has been resolved already"):
            await hosted.service.resolve(incident.id, ResolveRequest(action=DONE, note=NOTE))


@pytest.mark.parametrize(
    "more", [{"context_updates": {"a": 1}}, {"next": "ship"}, {"undo_data": 7}], ids=["updates", "next", "undo_data"]
)
async def test_what_belongs_to_done_is_refused_with_another_answer(more: dict[str, Json]) -> None:
    """A person who gives updates with `fail` means something that would not happen."""
    case = CASES["in doubt, done"]
    async with hosting(saga(case.played(), case.definition())) as hosted:
        incident = await hosted.incident(await brought_to_its_incident(case, hosted))
        with pytest.raises(UsageError, match="belong to the answer done"):
            await hosted.service.resolve(incident.id, ResolveRequest(action=FAIL, note=NOTE, **more))


async def test_done_chooses_a_next_that_the_step_declares_and_brings_undo_data() -> None:
    steps = (step("pay", idempotent=False, branches=("refuse",)), step("ship", next="end"), step("refuse"))
    calls = Calls(pay=[KeyError("?")], refuse=[StepOutcome.Fail("no", True)])
    async with hosting(saga(calls, workflow(*steps))) as hosted:
        run = await hosted.settled(await hosted.start())
        incident = await hosted.incident(run.run_id)
        with pytest.raises(Conflict, match="may not go to 'pay'"):
            await hosted.service.resolve(incident.id, ResolveRequest(action=DONE, note=NOTE, next="pay"))
        request = ResolveRequest(action=DONE, note=NOTE, next="refuse", undo_data={"charge": 7})
        await hosted.service.resolve(incident.id, request)
        await hosted.reaches(run.run_id, COMPENSATED)
        assert calls.made == ["pay", "refuse", "undo_pay"]
        assert calls.of("undo_pay")[0].undo_data == {"charge": 7}


async def test_two_people_answer_at_once_and_one_of_them_is_told_so() -> None:
    case = CASES["in doubt, not done"]
    calls = case.played()
    async with hosting(saga(calls, case.definition())) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
        answers = await asyncio.gather(
            hosted.resolve(run_id, NOT_DONE), hosted.resolve(run_id, NOT_DONE), return_exceptions=True
        )
        assert sorted(type(answer) is Conflict for answer in answers) == [False, True]
        await hosted.reaches(run_id, COMPLETED)
        assert calls.made == ["pack", "pay", "pay", "ship"]


# Retry


async def test_a_run_that_failed_with_nothing_undone_goes_on_at_the_failed_step() -> None:
    """Semantics §5: the same visit and key, the numbers of attempts go on, the budget is renewed."""
    calls = Calls(ship=[StepOutcome.Fail("closed", False), RETRY])
    definition = workflow("pack", step("ship", retries=RetryPolicy(max_attempts=2, backoff_ms=0)))
    async with hosting(saga(calls, definition)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.left_in_place) == (FAILED, ["pack"])
        await hosted.retry(run.run_id)
        done = await hosted.reaches(run.run_id, COMPLETED)
        assert (done.failure, done.left_in_place) == (None, [])
        assert [made.attempt for made in calls.of("ship")] == [1, 2, 3]
        assert {made.idempotency_key for made in calls.of("ship")} == {f"{run.run_id}:ship"}
        assert calls.made.count("pack") == 1


async def test_a_retry_as_a_new_visit_has_a_new_key() -> None:
    calls = Calls(ship=[StepOutcome.Fail("closed", False)])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        await hosted.retry(run.run_id, new_visit=True)
        await hosted.reaches(run.run_id, COMPLETED)
        assert [made.idempotency_key for made in calls.of("ship")] == [f"{run.run_id}:ship", f"{run.run_id}:ship#2"]


async def test_a_retry_from_an_earlier_step_keeps_the_earlier_visits_for_the_undo() -> None:
    calls = Calls(ship=[StepOutcome.Fail("closed", False), StepOutcome.Fail("closed", True)])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        with pytest.raises(Conflict, match="has no step 'wrap'") as caught:
            await hosted.retry(run.run_id, step="wrap")
        assert "pack, ship" in caught.value.mend
        await hosted.retry(run.run_id, step="pack")
        await hosted.reaches(run.run_id, COMPENSATED)
        assert calls.made == ["pack", "ship", "pack", "ship", "undo_pack", "undo_pack"]
        assert [made.visit for made in calls.of("undo_pack")] == [2, 1]


async def test_a_retry_of_a_failed_undo_is_the_answer_to_its_incident_and_needs_a_reason() -> None:
    calls = Calls(ship=[StepOutcome.Fail("lost", True)], undo_pack=[JAMMED])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.failure) == (FAILED, "lost")
        with pytest.raises(UsageError, match="needs a note"):
            await hosted.service.retry(run.run_id, RetryRequest())
        await hosted.retry(run.run_id)
        done = await hosted.reaches(run.run_id, COMPENSATED)
        assert done.failure == "lost"
        assert [made.attempt for made in calls.of("undo_pack")] == [1, 2]
        assert (await hosted.service.incidents(run_id=run.run_id)).items == []


@pytest.mark.parametrize("status", [COMPLETED, COMPENSATED, WorkflowStatus.CANCELLED, WorkflowStatus.RUNNING])
async def test_there_is_no_retry_of_a_run_that_has_not_failed(status: WorkflowStatus) -> None:
    gate = asyncio.Event()

    async def waits(_: WorkflowRun) -> object:
        await gate.wait()
        return StepOutcome.Fail("no", True) if status is COMPENSATED else StepOutcome.Continue()

    calls = Calls(ship=[waits])
    async with hosting(saga(calls)) as hosted:
        run_id = await hosted.start()
        if status is WorkflowStatus.CANCELLED:
            await hosted.cancel(run_id, compensate=False)
        if status is not WorkflowStatus.RUNNING:
            gate.set()
            await hosted.settled(run_id)
        with pytest.raises(Conflict, match=f"retry is not possible while the run is {status}"):
            await hosted.retry(run_id)


async def test_after_close_there_is_no_retry() -> None:
    case = CASES["undo failed, close"]
    async with hosting(saga(case.played(), case.definition())) as hosted:
        run_id = await brought_to_its_incident(case, hosted)
        await hosted.resolve(run_id, Action.CLOSE)
        await hosted.until_kind(run_id, "incident_resolved")
        with pytest.raises(Conflict, match="start a new run") as caught:
            await hosted.retry(run_id)
        assert "FAILED" in caught.value.message


# Acts that no host can carry out yet


@asynccontextmanager
async def two_desks(served: Registry, path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    async with desk(served, path) as one, desk(served, path) as other:
        yield one, other


async def test_acts_on_a_run_that_nobody_drives_are_judged_in_their_order(tmp_path: Path) -> None:
    """What is in the inbox counts as carried out for whoever comes next."""
    calls = Calls(ship=[StepOutcome.Fail("no", False)])
    served, path = saga(calls), tmp_path / "bext.db"
    async with hosting(served, path) as hosted:
        run = await hosted.settled(await hosted.start())
    async with two_desks(served, path) as (one, other):
        await one.retry(run.run_id)
        with pytest.raises(Conflict, match="retry is not possible while the run is RUNNING"):
            await other.retry(run.run_id)
        await other.cancel(run.run_id)
    async with hosting(served, path) as hosted, within():
        await hosted.reaches(run.run_id, COMPENSATED)
        assert calls.made == ["pack", "ship", "undo_pack"]


async def test_an_unknown_or_unclear_run_is_an_error_in_words() -> None:
    async with hosting(saga(Calls())) as hosted:
        first, second = await hosted.start(), await hosted.start()
        shared = "".join(a for a, b in zip(first, second, strict=True) if a == b)[:2]
        for act in (hosted.cancel, hosted.retry, hosted.get):
            with pytest.raises(NotFound, match="no run 'nothing'"):
                await act("nothing")
            with pytest.raises(BextError, match=f"more than one run begins with '{shared}'"):
                await act(shared)
