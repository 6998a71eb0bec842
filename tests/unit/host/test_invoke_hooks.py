"""The hooks beside `run_step`: undo, verdicts, completion."""

from __future__ import annotations

import asyncio

import pytest

from bext_workflow.core.input import Continued, Failed, Lost, Parked, Retried
from bext_workflow.errors import WorkflowError
from bext_workflow.model.outcome import NotDone, StepOutcome, Unknown
from tests.unit.host.calling import MAX_BYTES, TIMEOUT_MS, Shaped, Stage, Unlike, Unspeakable, hang, raising
from tests.unit.host.support import within


async def test_an_undo_returns_or_says_why_not(shaped: Shaped) -> None:
    stage = Stage()
    assert await stage.invoker.undo(stage.call(shaped(lambda: None))) is None
    again = await stage.invoker.undo(stage.call(shaped(raising(WorkflowError("503", retryable=True)))))
    assert again == Retried(reason="503")
    failed = await stage.invoker.undo(stage.call(shaped(raising(WorkflowError("jammed")))))
    assert isinstance(failed, Failed)
    for behaviour in (raising(SystemExit(1)), StepOutcome.Continue, lambda: False):
        assert isinstance(await stage.invoker.undo(stage.call(shaped(behaviour))), Lost)


async def never_awaited() -> None:
    """Work that is only promised."""


async def test_a_promised_undo_is_not_a_done_one(shaped: Shaped) -> None:
    stage = Stage()
    end = await stage.invoker.undo(stage.call(shaped(never_awaited)))
    assert isinstance(end, Lost)


async def test_a_promised_completion_is_not_a_delivered_one(shaped: Shaped) -> None:
    """P17"""
    stage = Stage()
    error = await stage.invoker.complete(stage.call(shaped(never_awaited)))
    assert error is not None
    assert "never awaited" in error


async def test_a_completion_returns_or_says_why_not(shaped: Shaped) -> None:
    stage = Stage()
    assert await stage.invoker.complete(stage.call(shaped(lambda: "whatever"))) is None
    for error in (KeyError("x"), SystemExit(1), asyncio.CancelledError(), WorkflowError("no")):
        assert await stage.invoker.complete(stage.call(shaped(raising(error))))


@pytest.mark.parametrize(
    ("returned", "answer"),
    [
        (NotDone(), NotDone()),
        (Unknown(), Unknown()),
        (StepOutcome.Continue(), Continued()),
        (StepOutcome.Retry(5, "later"), Retried(reason="later", after_ms=5)),
        (StepOutcome.Fail("no", True), Failed(reason="no", compensate=True)),
        (StepOutcome.Wait(for_ms=1), Parked(for_ms=1)),
        (StepOutcome.Wait(), Unknown()),
        (StepOutcome.Continue({"a": float("nan")}), Unknown()),
        (StepOutcome.Continue({"a": Unlike("b")}), Unknown()),
        (NotDone, Unknown()),
        (None, Unknown()),
        (True, Unknown()),
    ],
)
async def test_a_verdict_that_is_none_is_unknown(shaped: Shaped, returned: object, answer: object) -> None:
    stage = Stage()
    assert await stage.invoker.verify(stage.call(shaped(lambda: returned)), max_bytes=MAX_BYTES) == answer


async def test_a_verdict_that_raises_or_hangs_is_unknown(shaped: Shaped) -> None:
    stage = Stage()
    for error in (KeyError("x"), SystemExit(1), asyncio.CancelledError(), Unspeakable(), WorkflowError("no")):
        assert await stage.invoker.verify(stage.call(shaped(raising(error))), max_bytes=MAX_BYTES) == Unknown()
    began = asyncio.Event()
    async with within(), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(stage.invoker.verify(stage.call(hang(began)), max_bytes=MAX_BYTES))
        await began.wait()
        stage.clock.advance(TIMEOUT_MS)
    assert task.result() == Unknown()
