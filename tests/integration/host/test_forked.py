"""A new run that begins where an ended one stood (semantics §13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.errors import Conflict, StartKeyReused, UsageError
from bext_workflow.model.event import RunCreated
from bext_workflow.model.json import EMPTY
from bext_workflow.model.origin import ForkedFrom
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.service.protocols import ForkRequest
from bext_workflow.service.starting import NewRun
from tests.integration.host.support import Calls, Hosted, desk, hosting, saga, workflow

ORDER = workflow("pack", "pay", "ship")


async def failed(hosted: Hosted) -> str:
    """A run that was undone because of its last step."""
    run_id = await hosted.start(sku="s", tags={"shop": "north"})
    assert (await hosted.settled(run_id)).status is WorkflowStatus.COMPENSATED
    return run_id


async def test_it_goes_on_from_there_with_keys_of_its_own_and_undoes_only_its_own_steps() -> None:
    no = StepOutcome.Fail("no", compensate=True)
    calls = Calls(pack=[StepOutcome.Continue({"packed": 1})], ship=[no, no])
    async with hosting(saga(calls, ORDER)) as hosted:
        source = await failed(hosted)
        calls.made.clear()
        calls.runs.clear()
        forked = (await hosted.service.fork(source, ForkRequest(step="pay", reason="the bank is back"))).run
        run = await hosted.settled(forked.run_id)
        (audit, *_) = await hosted.store.audit(limit=9)

    assert forked.run_id != source
    assert isinstance(run.forked_from, ForkedFrom)
    assert (run.forked_from.run_id, run.tags) == (source, {"shop": "north"})
    assert run.context == {"sku": "s", "packed": 1}
    assert calls.made == ["pay", "ship", "undo_pay"]
    assert [call.idempotency_key for call in calls.runs[:2]] == [f"{run.run_id}:pay", f"{run.run_id}:ship"]
    assert (audit.name, audit.reason, audit.run_id) == ("run.fork", "the bank is back", run.run_id)


async def test_at_an_event_and_safe_to_repeat() -> None:
    calls = Calls(ship=[StepOutcome.Fail("no", compensate=True)])
    async with hosting(saga(calls, ORDER)) as hosted:
        source = await failed(hosted)
        request = ForkRequest(at=2, key="again")
        first = await hosted.service.fork(source, request)
        second = await hosted.service.fork(source, request)
        assert (first.created, second.created) == (True, False)
        assert first.run.run_id == second.run.run_id
        with pytest.raises(StartKeyReused):
            await hosted.service.fork(source, ForkRequest(at=3, key="again"))
        run = await hosted.settled(first.run.run_id)
    assert run.status is WorkflowStatus.COMPLETED
    assert [one.step for one in run.steps or ()] == ["pay", "ship"]


async def test_a_run_that_has_not_ended_is_not_forked() -> None:
    async with hosting(saga(Calls(pack=[StepOutcome.Wait(signal="go")]))) as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.WAITING)
        with pytest.raises(Conflict, match="WAITING: only one that has ended"):
            await hosted.service.fork(run_id, ForkRequest(at=1))


@pytest.mark.parametrize("request_", [ForkRequest(), ForkRequest(at=1, step="pack")])
async def test_one_of_the_two(request_: ForkRequest) -> None:
    async with hosting(saga(Calls())) as hosted:
        with pytest.raises(UsageError, match="at an event or from a step"):
            await hosted.service.fork("0", request_)


async def test_a_host_that_does_not_serve_the_workflow_leaves_the_fork_alone(tmp_path: Path) -> None:
    """P36: it waits for a host that does."""
    path, calls = tmp_path / "bext.db", Calls(ship=[StepOutcome.Fail("no", compensate=True)])
    async with hosting(saga(calls, ORDER), path) as hosted:
        source = await failed(hosted)
    async with hosting(saga(calls, workflow("dig", id_="garden")), path, concurrency=1) as hosted:
        forked = await hosted.service.fork(source, ForkRequest(step="pay"))
        assert forked.run.status is WorkflowStatus.PENDING
        assert (await hosted.settled(await hosted.start("garden"))).status is WorkflowStatus.COMPLETED
    async with hosting(saga(calls, ORDER), path) as hosted:
        await hosted.reaches(forked.run.run_id, WorkflowStatus.COMPLETED)


async def test_a_run_of_another_graph_than_is_served_is_not_forked(tmp_path: Path) -> None:
    """P49: the next start of the host would be refused over it."""
    path, calls = tmp_path / "bext.db", Calls(ship=[StepOutcome.Fail("no", compensate=True)])
    other = saga(calls, workflow("pack", "weigh", "pay", "ship"))
    async with hosting(saga(calls, ORDER), path) as hosted:
        source = await failed(hosted)
    async with hosting(other, path) as hosted:
        with pytest.raises(Conflict, match="'order' version 1 is served with another graph"):
            await hosted.service.fork(source, ForkRequest(step="pay"))
    async with desk(other, path) as alone:
        with pytest.raises(Conflict, match="'order' version 1 is served with another graph"):
            await alone.service.fork(source, ForkRequest(step="pay"))


async def test_a_repeated_request_has_the_same_answer_whatever_has_become_of_the_run() -> None:
    no = StepOutcome.Fail("no", compensate=False)
    async with hosting(saga(Calls(ship=[no, StepOutcome.Wait(signal="go")]), ORDER)) as hosted:
        source = await hosted.start()
        assert (await hosted.settled(source)).status is WorkflowStatus.FAILED
        request = ForkRequest(step="ship", key="again")
        first = await hosted.service.fork(source, request)
        await hosted.settled(first.run.run_id)
        await hosted.retry(source, new_visit=True)
        await hosted.reaches(source, WorkflowStatus.COMPLETED, WorkflowStatus.WAITING)
        second = await hosted.service.fork(source, request)
        assert (second.created, second.run.run_id) == (False, first.run.run_id)
        for other in (ForkRequest(step="pay", key="again"), ForkRequest(at=1, key="again")):
            with pytest.raises(StartKeyReused, match=f"run {first.run.run_id}, which begins at step 'ship'"):
                await hosted.service.fork(source, other)


async def test_a_host_drives_at_once_only_what_it_serves_to_the_letter() -> None:
    """P49: of hosts that share a store, another one may serve the graph."""
    created = RunCreated(run_id="r-1", workflow="order", version=1, digest="another", context=EMPTY, step="pay")
    new = NewRun(created=created, first_step="pay", at=0, fingerprint="", key_space="")
    async with hosting(saga(Calls(), ORDER)) as hosted:
        written, _ = await hosted.host.create(new)
    assert not written.created.begun
