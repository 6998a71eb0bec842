"""Sub-workflows: a step that is a run of its own (semantics §5, §7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from bext_workflow.errors import Conflict, NotFound
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.origin import MAX_NESTED
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.service.protocols import ForkRequest, RunQuery, SignalRequest
from tests.integration.host.support import CONTEXT_BYTES, Calls, Desk, Hosted, desk, hosting, saga, step, workflow

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


async def test_children_have_children_and_the_walk_goes_through_all_of_them() -> None:
    inner = workflow("label", id_="labelling")
    shipping = workflow("pick", step("print", workflow="labelling"), "post", id_="shipping")
    calls = Calls(thank=[FAIL])
    async with hosting(saga(calls, *shop("thank", shipping=shipping), inner)) as hosted:
        run = await hosted.settled(await hosted.start())

    assert run.status is WorkflowStatus.COMPENSATED
    assert calls.made[-4:] == ["undo_post", "undo_label", "undo_pick", "undo_pay"]


async def test_a_workflow_that_runs_itself_comes_to_an_end() -> None:
    calls = Calls()
    async with hosting(saga(calls, workflow("dig", step("deeper", workflow="order")))) as hosted:
        run_id = await hosted.start()
        run = await hosted.settled(run_id)
        runs = (await hosted.service.list(RunQuery())).items
        deepest = runs[0]

    assert run.status is WorkflowStatus.COMPENSATED
    assert len(runs) == MAX_NESTED + 1
    assert deepest.failure == f"sub-workflow 'order' cannot be started: runs are nested {MAX_NESTED} deep at most"
    assert calls.made == ["dig"] * (MAX_NESTED + 1) + ["undo_dig"] * (MAX_NESTED + 1)


async def test_a_start_is_refused_where_nobody_serves_a_sub_workflow() -> None:
    async with hosting(saga(Calls(), shop()[0])) as hosted:
        with pytest.raises(NotFound, match="no workflow 'shipping' is served"):
            await hosted.start()


async def test_the_version_of_a_child_is_fixed_when_its_parent_starts(tmp_path: Path) -> None:
    """§7: a version that comes later is for later runs."""
    order, shipping = shop()
    later = workflow("send", id_="shipping", version=2)
    calls = Calls(pay=[StepOutcome.Wait(signal="paid")])
    async with hosting(saga(calls, order, shipping), tmp_path / "bext.db") as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
    async with hosting(saga(calls, order, shipping, later), tmp_path / "bext.db") as hosted:
        await signal(hosted, run_id, "paid")
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        assert (await child_of(hosted, run_id)).version == 1
        assert (await child_of(hosted, (await hosted.settled(await hosted.start())).run_id)).version == 2


async def test_a_command_that_drives_one_run_drives_its_children_too(tmp_path: Path) -> None:
    """§11: and no other run."""
    served = saga(Calls(), *shop("thank"))
    async with desk(served, tmp_path / "bext.db") as desked:
        run_id, other = await desked.start(), await desked.start()
    async with hosting(served, tmp_path / "bext.db", only=run_id) as hosted:
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert await hosted.status(other) is WorkflowStatus.PENDING


async def test_a_command_that_comes_back_to_a_run_drives_the_children_that_it_has(tmp_path: Path) -> None:
    """§11: the run itself is not due while its child works, and that while its own does."""
    inner = workflow("label", id_="labelling")
    shipping = workflow("pick", step("print", workflow="labelling"), id_="shipping")
    calls = Calls(label=[StepOutcome.Wait(signal="printed")])
    served = saga(calls, *shop("thank", shipping=shipping), inner)
    async with desk(served, tmp_path / "bext.db") as desked:
        run_id = await desked.start()
    async with hosting(served, tmp_path / "bext.db", only=run_id) as hosted:
        child = await until_child(hosted, run_id)
        await hosted.until_kind(child.run_id, "child_started")
        innermost = await child_of(hosted, child.run_id, "print")
        await hosted.reaches(innermost.run_id, WorkflowStatus.WAITING)
    async with hosting(served, tmp_path / "bext.db", only=run_id) as hosted:
        await signal(hosted, innermost.run_id, "printed")
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED


async def test_what_a_child_gives_counts_in_the_context_of_its_parent() -> None:
    """P46: the step that comes after it may not add what would be too much with it."""
    calls = Calls(
        post=[continues(label="x" * (CONTEXT_BYTES * 2 // 3))], thank=[continues(card="x" * (CONTEXT_BYTES // 2))]
    )
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run = await hosted.settled(await hosted.start())

    assert run.status is WorkflowStatus.COMPENSATED
    assert run.failure is not None
    assert f"over the limit of {CONTEXT_BYTES}" in run.failure


async def test_a_fork_at_a_child_starts_a_child_of_its_own_and_never_undoes_the_first() -> None:
    """§13: new id, new keys."""
    calls = Calls(thank=[continues(), FAIL])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        first = await child_of(hosted, run_id)
        forked = await hosted.service.fork(run_id, ForkRequest(step="ship"))
        run = await hosted.settled(forked.run.run_id)
        second = await child_of(hosted, run.run_id)
        first = await hosted.get(first.run_id)

    assert second.key == f"{run.run_id}:ship"
    assert (run.status, second.status) == (WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATED)
    assert first.status is WorkflowStatus.COMPLETED


async def test_each_item_of_a_map_ships_in_a_run_of_its_own() -> None:
    """P10: the last one fails; those that had shipped are undone, in the reverse order of their ends."""
    order = workflow(
        step("split", map=MapDefinition(over="parcels", at="ship", join="thank", max_concurrency=2)),
        step("ship", workflow="shipping", next="thank"),
        "thank",
    )
    calls = Calls(post=[continues(), continues(), FAIL])
    async with hosting(saga(calls, order, workflow("post", id_="shipping"))) as hosted:
        run = await hosted.settled(await hosted.start(parcels=["a", "b", "c"]))

    assert run.status is WorkflowStatus.COMPENSATED
    assert calls.made.count("undo_post") == 2


async def test_a_retry_past_the_pivot_ships_again_in_another_run() -> None:
    order = workflow(step("pay", pivot=True), step("ship", workflow="shipping"))
    calls = Calls(post=[FAIL])
    async with hosting(saga(calls, order, workflow("post", id_="shipping"))) as hosted:
        run_id = await hosted.start()
        assert (await hosted.settled(run_id)).status is WorkflowStatus.SUSPENDED
        await hosted.resolve(run_id, Action.RETRY)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPLETED
        assert (await child_of(hosted, run_id)).key == f"{run_id}:ship~2"


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


async def test_a_person_may_say_that_a_child_past_its_pivot_is_undone() -> None:
    """P15: the run can end COMPENSATED then."""
    shipping = workflow("pick", step("post", pivot=True), id_="shipping")
    calls = Calls(thank=[FAIL])
    async with hosting(saga(calls, *shop("thank", shipping=shipping))) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        await hosted.resolve(run_id, Action.UNDONE)
        assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED


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


async def test_a_last_step_of_the_child_that_completes_under_the_cancel_is_undone() -> None:
    """P18: it was running when the cancel came, and is not interrupted."""
    posted = asyncio.Event()

    async def post(_: WorkflowRun) -> StepOutcome:
        await posted.wait()
        return StepOutcome.Continue()

    calls = Calls(post=[post])
    async with hosting(saga(calls, *shop("thank"))) as hosted:
        run_id = await hosted.start()
        await calls.until("post")
        child = await child_of(hosted, run_id)
        await hosted.cancel(run_id)
        await hosted.until_kind(run_id, "child_stop_asked")
        posted.set()
        run, child = await hosted.settled(run_id), await hosted.settled(child.run_id)

    assert (run.status, child.status) == (WorkflowStatus.COMPENSATED, WorkflowStatus.COMPENSATED)
    assert calls.made == ["pay", "pick", "post", "undo_post", "undo_pick", "undo_pay"]


async def test_a_branch_that_the_join_has_no_need_of_takes_its_running_child_with_it() -> None:
    """§7: the join opens once the child is undone."""
    order = workflow(
        step("race", next=("ship", "fetch"), join=JoinDefinition(at="thank", need="any")),
        step("ship", workflow="shipping", next="thank"),
        step("fetch", next="thank"),
        "thank",
    )
    picked = asyncio.Event()

    async def fetch(_: WorkflowRun) -> StepOutcome:
        await picked.wait()
        return StepOutcome.Continue()

    calls = Calls(post=[StepOutcome.Wait(signal="posted")], fetch=[fetch])
    async with hosting(saga(calls, order, shop()[1])) as hosted:
        run_id = await hosted.start()
        child = await until_child(hosted, run_id)
        await hosted.reaches(child.run_id, WorkflowStatus.WAITING)
        picked.set()
        run, child = await hosted.settled(run_id), await hosted.settled(child.run_id)

    assert (run.status, child.status) == (WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED)
    assert calls.made[-3:] == ["undo_post", "undo_pick", "thank"]


# Crashes


async def _fails_after_the_child(hosted: Hosted) -> str:
    return await hosted.start(key="k")


async def _is_cancelled_while_the_child_waits(hosted: Hosted) -> str:
    run_id = await hosted.start(key="k")
    child = await until_child(hosted, run_id)
    await hosted.reaches(child.run_id, WorkflowStatus.WAITING, WorkflowStatus.COMPENSATED)
    with suppress(Conflict):  # by the next host it may have been cancelled already
        await hosted.cancel(run_id)
    return run_id


FATES: dict[Callable[[Hosted], Awaitable[str]], dict[str, list[object]]] = {
    _fails_after_the_child: {"thank": [FAIL] * 2},
    _is_cancelled_while_the_child_waits: {"post": [StepOutcome.Wait(signal="posted")] * 2},
}


def _scripted(act: Callable[[Hosted], Awaitable[str]]) -> Calls:
    return Calls({call: [*script] for call, script in FATES[act].items()})


async def _lives(calls: Calls, path: Path, act: Callable[[Hosted], Awaitable[str]], *, dies_at: int) -> int:
    """A host that dies right after its n-th durable write or act. How many there were."""
    count = 0
    async with hosting(saga(calls, *shop("thank")), path) as hosted:

        def durable() -> None:
            nonlocal count
            count += 1
            if count == dies_at:
                hosted.dies()
                over.set()

        over = asyncio.Event()
        hosted.store.durable = durable
        async with anyio.create_task_group() as tasks:

            async def live() -> None:
                run_id = await act(hosted)
                await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
                await hosted.host.idle()
                tasks.cancel_scope.cancel()

            tasks.start_soon(live)
            await over.wait()
            tasks.cancel_scope.cancel()
    return count


@pytest.mark.tier("ci")
@pytest.mark.parametrize("act", FATES)
async def test_after_a_death_at_any_moment_parent_and_child_end_as_without_it(
    act: Callable[[Hosted], Awaitable[str]], tmp_path: Path
) -> None:
    """P1, P3, P11, P16: one child, each step and each undo once, but for the call that the death cut off."""
    moments = await _lives(
        Calls({call: [*script] for call, script in FATES[act].items()}), tmp_path / "whole.db", act, dies_at=0
    )
    assert moments > 8
    for moment in range(1, moments + 1):
        path = tmp_path / f"{moment}.db"
        calls = _scripted(act)
        await _lives(calls, path, act, dies_at=moment)
        async with hosting(saga(calls, *shop("thank")), path) as hosted:
            run_id = await act(hosted)
            await hosted.reaches(run_id, WorkflowStatus.COMPENSATED)
            runs = (await hosted.service.list(RunQuery())).items
            assert [run.status for run in runs] == [WorkflowStatus.COMPENSATED] * 2, moment
            made = Counter(zip(calls.made, (run.idempotency_key for run in calls.runs), strict=True))
            assert len(made) <= len(calls.made) <= len(made) + 1, moment
            undone = [call for call in dict.fromkeys(calls.made) if call.startswith("undo_")]
            done = [call for call in dict.fromkeys(calls.made) if not call.startswith("undo_")]
            assert undone == [f"undo_{call}" for call in reversed(done) if call != "thank"], moment


async def signal(hosted: Hosted, run_id: str, name: str) -> None:
    await hosted.service.signal(run_id, SignalRequest(name=name))
