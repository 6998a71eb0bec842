"""What a plugin may return as Wait, read field by field at its boundary (semantics §2, §3; P46)."""

from __future__ import annotations

import pytest

from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.model.view import parse_instant
from bext_workflow.testing.clock import START, FakeClock
from tests.integration.host.support import CONTEXT_BYTES, Calls, hosting, saga, step, workflow

DAY = 86_400_000
CENTURY = 100 * 366 * DAY

FAULTY: list[tuple[dict[str, Json], str]] = [
    ({}, "names neither a signal nor a time"),
    ({"until": "2027-01-16T08:00:00Z", "for_ms": 5}, "names until and for_ms"),
    ({"signal": "go", "on_timeout": "b"}, "on_timeout needs a signal and a time"),
    ({"for_ms": 5, "on_timeout": "b"}, "on_timeout needs a signal and a time"),
    ({"signal": "two words"}, "Wait.signal is 'two words'"),
    ({"signal": 7}, "Wait.signal is 7"),
    ({"for_ms": -1}, "Wait.for_ms is -1"),
    ({"for_ms": True}, "Wait.for_ms is True"),
    ({"for_ms": 2.5}, "Wait.for_ms is 2.5"),
    ({"for_ms": CENTURY + 1}, f"Wait.for_ms is {CENTURY + 1}"),
    ({"until": "2027-01-16T08:00:00"}, "Wait.until is '2027-01-16T08:00:00'"),
    ({"until": "tomorrow"}, "Wait.until is 'tomorrow'"),
    ({"until": 5}, "Wait.until is 5"),
    ({"signal": "go", "into": 5}, "Wait.into is 5"),
    ({"signal": "go", "into": "\ud800"}, "lone surrogate"),
    ({"signal": "go", "into": "a\0b"}, "NUL"),
    ({"signal": "go", "for_ms": 5, "on_timeout": ["b"]}, "Wait.on_timeout is ['b']"),
    ({"signal": "go", "for_ms": 5, "on_timeout": "nowhere"}, "may not go to 'nowhere'"),
    ({"signal": "go", "next": "nowhere"}, "may not go to 'nowhere'"),
    ({"signal": "go", "next": 5}, "is 5, not the name of a step"),
    ({"signal": "go", "context_updates": [1]}, "context_updates is [1], not a dict"),
    ({"signal": "go", "context_updates": {"x": float("nan")}}, "$.x"),
    ({"signal": "go", "context_updates": {"x": "y" * CONTEXT_BYTES}}, "bytes of JSON, over the limit"),
    ({"signal": "go", "undo_data": {1, 2}}, "is not a JSON type"),
]


@pytest.mark.parametrize(("fields", "words"), FAULTY, ids=[str(n) for n in range(len(FAULTY))])
async def test_what_is_no_wait_is_an_unknown_end(fields: dict[str, Json], words: str) -> None:
    """§2: a permanent failure that compensates; the reason says what is wrong, and nothing of it is kept."""
    calls = Calls(b=[StepOutcome.Wait(**fields)])
    async with hosting(saga(calls, workflow("a", "b")), clock=FakeClock()) as hosted:
        view = await hosted.settled(await hosted.start())
    assert view.status is WorkflowStatus.COMPENSATED
    assert view.failure is not None
    assert words in view.failure
    assert (view.context, calls.made) == ({}, ["a", "b", "undo_a"])


async def test_of_a_step_that_must_not_be_repeated_it_is_in_doubt() -> None:
    """§2, P4: with what was returned."""
    calls = Calls(pay=[StepOutcome.Wait(for_ms=-1)])
    async with hosting(saga(calls, workflow(step("pay", idempotent=False))), clock=FakeClock()) as hosted:
        run_id = await hosted.start()
        await hosted.settled(run_id)
        incident = await hosted.incident(run_id)
    assert incident.kind is IncidentKind.IN_DOUBT
    assert "Wait" in str(incident.evidence)


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({"for_ms": 2000}, START + 2000),
        ({"for_ms": CENTURY}, START + CENTURY),
        ({"until": "2027-01-16T09:00:00+01:00"}, START + DAY),
        ({"until": "2027-01-16T08:00:00.250Z"}, START + DAY + 250),
        ({"signal": "go", "until": "9999-12-31T23:59:59Z"}, parse_instant("9999-12-31T23:59:59+00:00")),
        ({"signal": "go"}, None),
    ],
)
async def test_a_time_is_kept_to_the_millisecond(fields: dict[str, Json], due: int | None) -> None:
    """§3, §8: UTC, whatever zone it was said in; it survives in the row."""
    calls = Calls(order=[StepOutcome.Wait(**fields)])
    async with hosting(saga(calls, workflow("order")), clock=FakeClock()) as hosted:
        run_id = await hosted.start()
        view = await hosted.settled(run_id)
        (row,) = await hosted.store.find(run_id)
        assert (view.status, row.wake_at) == (WorkflowStatus.WAITING, due)


@pytest.mark.parametrize("until", ["2027-01-14T08:00:00Z", "0001-01-01T00:00:00+14:00"])
async def test_a_time_that_has_passed_means_now(until: str) -> None:
    """§8."""
    calls = Calls(order=[StepOutcome.Wait(until=until)])
    async with hosting(saga(calls, workflow("order", "ship")), clock=FakeClock()) as hosted:
        run_id = await hosted.start()
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
    assert calls.made == ["order", "ship"]


async def test_verify_step_may_say_that_a_step_waits_and_its_updates_are_bounded_too() -> None:
    """§6: an outcome: it happened; what is too large to be one is no answer, and a person is asked."""
    fine = StepOutcome.Wait(signal="go", context_updates={"found": True})
    huge = StepOutcome.Wait(signal="go", context_updates={"x": "y" * (CONTEXT_BYTES - 20)})
    pay = step("pay", idempotent=False)
    for answer, status in ((fine, WorkflowStatus.WAITING), (huge, WorkflowStatus.SUSPENDED)):
        calls = Calls(pay=[KeyError("order")], verify_pay=[answer])
        async with hosting(saga(calls, workflow(pay), verifies=True), clock=FakeClock()) as hosted:
            run_id = await hosted.start(filled="z" * 100)
            await hosted.reaches(run_id, status)
