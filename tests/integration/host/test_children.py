"""Sub-workflows: a step that is a run of its own (semantics §5, §7)."""

from __future__ import annotations

from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.service.protocols import SignalRequest
from tests.integration.host.support import Calls, Desk, Hosted, hosting, saga, step, workflow

FAIL = StepOutcome.Fail("no", compensate=True)
LEAVE = StepOutcome.Fail("no", compensate=False)


def shop(*after: StepDefinition | str, **of_child: WorkflowDefinition) -> tuple[WorkflowDefinition, ...]:
    """An order that ships in a run of its own, and what comes after it."""
    shipping = of_child.get("shipping") or workflow("pick", "post", id_="shipping")
    return workflow("pay", step("ship", workflow="shipping"), *after), shipping


async def child_of(hosted: Desk, run_id: str, name: str = "ship") -> RunView:
    run = await hosted.get(run_id)
    assert isinstance(run.steps, list)
    (child,) = [one.child for one in run.steps if one.step == name]
    assert child is not None
    return await hosted.get(child)


def continues(**updates: str) -> StepOutcome.Continue:
    return StepOutcome.Continue(dict(updates))


async def until_child(hosted: Hosted, run_id: str) -> RunView:
    await hosted.until_kind(run_id, "child_started")
    return await child_of(hosted, run_id)


# Forward


async def test_the_result_of_the_child_is_what_it_set_under_the_name_of_the_step() -> None:
    calls = Calls(pay=[continues(paid="yes")], post=[continues(parcel="p-1", sku="other")])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start(sku="s", tags={"shop": "north"})
        run = await hosted.settled(run_id)
        child = await child_of(hosted, run_id)

    assert run.status is WorkflowStatus.COMPLETED
    assert run.context == {"sku": "s", "paid": "yes", "ship": {"sku": "other", "parcel": "p-1"}}
    assert child.context == {"sku": "other", "paid": "yes", "parcel": "p-1"}
    assert (child.parent, child.key, child.tags) == (run_id, f"{run_id}:ship", {"shop": "north"})
    assert calls.made == ["pay", "pick", "post", "thank"]


async def test_a_run_that_waits_for_its_child_runs_and_is_a_row() -> None:
    calls = Calls(pick=[StepOutcome.Wait(signal="picked")])
    async with hosting(saga(calls, *shop())) as hosted:
        run_id = await hosted.start()
        child = await until_child(hosted, run_id)
        await hosted.reaches(child.run_id, WorkflowStatus.WAITING)
        await hosted.host.idle()
        (row,) = await hosted.store.find(run_id)
        assert (row.status, row.owner, row.wake_at) == (WorkflowStatus.RUNNING, None, None)
        await signal(hosted, child.run_id, "picked")
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_a_child_that_fails_fails_its_step_and_the_parent_compensates() -> None:
    calls = Calls(post=[FAIL])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        run = await hosted.settled(run_id)
        child = await child_of(hosted, run_id)

    assert child.status is WorkflowStatus.COMPENSATED
    assert run.status is WorkflowStatus.COMPENSATED
    assert run.failure == f"the child {child.run_id} ended COMPENSATED: no"
    assert calls.made == ["pay", "pick", "post", "undo_pick", "undo_pay"]


async def test_what_a_failed_child_has_left_in_place_is_undone_by_its_parents_walk() -> None:
    calls = Calls(post=[LEAVE])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        run = await hosted.settled(run_id)
        child = await child_of(hosted, run_id)

    assert (run.status, child.status) == (WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATED)
    assert calls.made == ["pay", "pick", "post", "undo_pick", "undo_pay"]


# Backward


async def test_a_child_that_completed_is_undone_in_its_place_of_the_walk() -> None:
    """P10: the reverse order goes through the child."""
    calls = Calls(thank=[FAIL])
    async with hosting(saga(calls, *shop("pack", "thank"))) as hosted:
        run_id = await hosted.start()
        run = await hosted.settled(run_id)
        child = await child_of(hosted, run_id)

    assert (run.status, child.status) == (WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATED)
    assert calls.made[-4:] == ["undo_pack", "undo_post", "undo_pick", "undo_pay"]


async def test_a_child_past_its_pivot_is_the_parents_compensation_failed() -> None:
    shipping = workflow("pick", step("post", pivot=True), id_="shipping")
    calls = Calls(thank=[FAIL])
    async with hosting(saga(calls, *shop("thank", shipping=shipping))) as hosted:
        run_id = await hosted.start()
        run = await hosted.settled(run_id)
        incident = await hosted.incident(run_id)
        assert run.status is WorkflowStatus.FAILED
        assert (incident.kind, incident.step) == (IncidentKind.COMPENSATION_FAILED, "ship")
        assert "a pivot step of it has completed" in incident.reason
        await hosted.resolve(run_id, Action.SKIP)
        run = await hosted.settled(run_id)

    assert (run.status, run.left_in_place) == (WorkflowStatus.FAILED, ["ship"])
    assert calls.made == ["pay", "pick", "post", "thank", "undo_pay"]


async def test_an_undo_that_fails_in_the_child_is_answered_there_and_tried_again_by_the_parent() -> None:
    """P13: the walk stops in the child, and so in the parent; a person mends it from the inside out."""
    calls = Calls(thank=[FAIL], undo_pick=[KeyError("jammed")])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.FAILED
        child = await child_of(hosted, run_id)
        assert child.status is WorkflowStatus.FAILED
        assert (await hosted.incident(child.run_id)).kind is IncidentKind.COMPENSATION_FAILED
        incident = await hosted.incident(run_id)
        assert child.run_id in incident.reason

        await hosted.resolve(run_id, Action.RETRY)  # too early: the child has not been mended
        assert (await hosted.settled(run_id)).status is WorkflowStatus.FAILED
        assert "resolve" not in calls.made
        await hosted.resolve(child.run_id, Action.RETRY)
        assert (await hosted.settled(child.run_id)).status is WorkflowStatus.COMPENSATED
        await hosted.resolve(run_id, Action.RETRY)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED

    assert calls.made[-4:] == ["undo_post", "undo_pick", "undo_pick", "undo_pay"]


# Stop


async def test_a_cancel_walks_down_into_the_child() -> None:
    calls = Calls(post=[StepOutcome.Wait(signal="posted")])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        child = await until_child(hosted, run_id)
        await hosted.reaches(child.run_id, WorkflowStatus.WAITING)
        await hosted.cancel(run_id)
        run = await hosted.settled(run_id)
        child = await hosted.settled(child.run_id)

    assert (run.status, child.status) == (WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATED)
    assert calls.made == ["pay", "pick", "post", "undo_post", "undo_pick", "undo_pay"]


async def test_a_cancel_without_undo_leaves_in_place_what_the_child_did_too() -> None:
    calls = Calls(post=[StepOutcome.Wait(signal="posted")])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        child = await until_child(hosted, run_id)
        await hosted.reaches(child.run_id, WorkflowStatus.WAITING)
        await hosted.cancel(run_id, compensate=False)
        run = await hosted.settled(run_id)
        child = await hosted.settled(child.run_id)

    assert (run.status, run.left_in_place) == (WorkflowStatus.CANCELLED, ["pay", "ship"])
    assert (child.status, child.left_in_place) == (WorkflowStatus.CANCELLED, ["pick", "post"])
    assert not any(made.startswith("undo") for made in calls.made)


async def test_a_child_that_wins_against_the_cancel_is_undone() -> None:
    """P18: its last step completes although it was to stop; what it did is undone all the same."""
    calls = Calls()
    shipping = workflow("pick", step("post", pivot=True), id_="shipping")
    calls = Calls(thank=[FAIL])
    async with hosting(saga(calls, *shop("thank", shipping=shipping))) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        await hosted.resolve(run_id, Action.UNDONE)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED


async def signal(hosted: Hosted, run_id: str, name: str) -> None:
    await hosted.service.signal(run_id, SignalRequest(name=name))
