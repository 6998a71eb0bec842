"""The graphs of the plugin guide do on a host what the guide says of them."""

from __future__ import annotations

import bext_workflow
from bext_workflow import StepOutcome, WorkflowDefinition, WorkflowRun, WorkflowStatus
from bext_workflow.service.protocols import SignalRequest
from tests.docs.pages import DOCS, marked
from tests.integration.host.support import Calls, hosting, saga


def graph(name: str) -> WorkflowDefinition:
    """The definition in the block `graph: name`."""
    names = {public: getattr(bext_workflow, public) for public in bext_workflow.__all__}
    definition = eval(marked(DOCS / "plugin-guide.md", f"graph: {name}"), names)
    assert isinstance(definition, WorkflowDefinition)
    return definition


async def test_a_wait_for_a_person_goes_on_with_the_payload_of_the_signal() -> None:
    calls = Calls()
    async with hosting(saga(calls, graph("purchase"))) as hosted:
        run_id = await hosted.start("purchase")
        waiting = await hosted.reaches(run_id, WorkflowStatus.WAITING)
        assert isinstance(waiting.waits, list)
        assert [wait.signal for wait in waiting.waits] == ["approved"]
        await hosted.service.signal(run_id, SignalRequest(name="approved", payload={"yes": True}, id="mail-4711"))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.made == ["ask_manager", "buy"]
    assert calls.of("buy")[0].context["approved"] == {"yes": True}


async def test_a_fork_meets_at_its_join_with_what_both_branches_have_set() -> None:
    calls = Calls(
        label=[StepOutcome.Continue({"label": "L-1"})],
        invoice=[StepOutcome.Continue({"invoice": "I-1"})],
    )
    async with hosting(saga(calls, graph("parcel"))) as hosted:
        run_id = await hosted.start("parcel")
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.made.count("ship") == 1
    assert dict(calls.of("ship")[0].context) == {"label": "L-1", "invoice": "I-1"}
    assert "label" not in calls.of("invoice")[0].context


async def test_a_map_gathers_what_its_items_have_set_in_their_order() -> None:
    def sent(run: WorkflowRun) -> object:
        return StepOutcome.Continue({"number": f"{run.item}-{run.index}"})

    calls = Calls(send=[sent, sent])
    async with hosting(saga(calls, graph("order"))) as hosted:
        run_id = await hosted.start("order", parcels=["a", "b"])
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert {run.idempotency_key for run in calls.of("send")} == {f"{run_id}:send[0]", f"{run_id}:send[1]"}
    assert dict(calls.of("bill")[0].context) == {"parcels": ["a", "b"], "sent": [{"number": "a-0"}, {"number": "b-1"}]}
