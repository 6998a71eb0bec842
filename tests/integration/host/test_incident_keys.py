"""An incident names the key by which a person finds the effect in question (semantics §6)."""

from __future__ import annotations

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, hosting, jumping, saga, step, workflow

ODD = RuntimeError("it may have acted")


async def test_the_key_is_the_one_that_the_step_was_given() -> None:
    calls = Calls(pack=[ODD])
    async with hosting(saga(calls, workflow(step("pack", idempotent=False)))) as hosted:
        run = await hosted.settled(await hosted.start())
        incident = await hosted.incident(run.run_id)

    (given,) = calls.of("pack")
    assert isinstance(run.steps, list)
    assert incident.idempotency_key == given.idempotency_key == run.steps[0].idempotency_key


async def test_of_an_undo_it_is_the_one_that_the_undo_was_given() -> None:
    calls = Calls(ship=[StepOutcome.Fail(reason="no truck", compensate=True)], undo_pack=[ODD])
    async with hosting(saga(calls, workflow(step("pack", undo_idempotent=False), "ship"))) as hosted:
        incident = await hosted.incident((await hosted.settled(await hosted.start())).run_id)

    (given,) = calls.of("undo_pack")
    assert incident.idempotency_key == given.idempotency_key


async def test_what_is_about_no_step_has_none() -> None:
    calls = Calls(complete=[ODD, ODD, ODD])
    async with jumping(saga(calls, notifies=True), FakeClock()) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "incident_opened")
        incident = await hosted.incident(run_id)

    assert (incident.kind, incident.idempotency_key) == ("completion_failed", None)
