"""What comes of a call, whatever the plugin does: the table of semantics §2 (P43)."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from bext_workflow.core.input import Continued, End, Failed, Lost, Retried
from bext_workflow.errors import WorkflowError
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import NotDone, StepOutcome
from tests.unit.host.calling import Forgetful, Shaped, Stage, Unlike, Unspeakable, given, odd, raising


async def test_continue_is_taken_with_all_that_it_carries(shaped: Shaped) -> None:
    end = await Stage().step(shaped(lambda: StepOutcome.Continue({"a": [1, {"b": None}]}, next="ship", undo_data=7)))
    assert isinstance(end, Continued)
    assert (end.updates.value, end.next, end.undo_data) == ({"a": [1, {"b": None}]}, "ship", 7)


async def test_what_a_plugin_keeps_of_its_updates_is_not_what_the_host_has(shaped: Shaped) -> None:
    updates: Json = {"items": [1]}
    end = await Stage().step(shaped(lambda: StepOutcome.Continue(updates)))
    updates["items"].append(2)
    assert isinstance(end, Continued)
    assert end.updates.value == {"items": [1]}


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (StepOutcome.Continue(), Continued()),
        (StepOutcome.Retry(), Retried(reason="the step asked for a retry")),
        (StepOutcome.Retry(after_ms=0, reason="busy"), Retried(reason="busy", after_ms=0)),
        (StepOutcome.Retry(after_ms=86_400_000), Retried(reason="the step asked for a retry", after_ms=86_400_000)),
        (StepOutcome.Fail("declined", True), Failed(reason="declined", compensate=True)),
        (StepOutcome.Fail("unknown sku", False), Failed(reason="unknown sku", compensate=False)),
    ],
)
async def test_an_outcome_is_the_word_of_the_plugin(shaped: Shaped, outcome: object, end: End) -> None:
    assert await Stage().step(shaped(lambda: outcome)) == end


async def test_a_retryable_workflow_error_is_a_retry(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(WorkflowError("503 from the bank", retryable=True))))
    assert end == Retried(reason="503 from the bank")


async def test_a_workflow_error_is_a_failure_with_compensation_and_its_place(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(WorkflowError("no such card"))))
    assert isinstance(end, Failed)
    assert (end.reason, end.compensate) == ("no such card", True)
    assert "calling.py" in (end.traceback or "")
    assert "bext_workflow/host" not in (end.traceback or "")


async def test_step_not_found_is_permanent(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(WorkflowError.step_not_found("pack"))))
    assert isinstance(end, Failed)
    assert end.reason == "step not found: pack"


async def test_a_workflow_error_whose_author_forgot_the_base_class_is_still_definite(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(Forgetful(42))))
    assert isinstance(end, Failed)
    assert end.reason == "42"


# Unknown ends


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KeyError("order"), "builtins.KeyError"),
        (TimeoutError("read"), "builtins.TimeoutError"),
        (ConnectionResetError("peer"), "builtins.ConnectionError"),
        (RecursionError("deep"), "builtins.RecursionError"),
        (MemoryError(), "builtins.MemoryError"),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "builtins.ExceptionGroup"),
        (SystemExit(3), "builtins.SystemExit"),
        (KeyboardInterrupt(), "builtins.KeyboardInterrupt"),
        (GeneratorExit(), "builtins.GeneratorExit"),
        (BaseException("bare"), "builtins.BaseException"),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError"),
        (StopAsyncIteration(), "builtins.StopAsyncIteration"),
    ],
)
async def test_any_other_exception_is_an_unknown_end(shaped: Shaped, error: BaseException, name: str) -> None:
    """Its class hierarchy is kept for `retry_on`, and what was raised for a person to read."""
    end = await Stage().step(shaped(raising(error)))
    assert isinstance(end, Lost)
    assert name in end.errors
    assert type(error).__name__ in end.reason
    assert type(error).__name__ in end.evidence["raised"]
    assert type(error).__name__ in (end.traceback or "")


async def test_a_stop_iteration_is_an_unknown_end(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(StopIteration("not a result"))))
    assert isinstance(end, Lost)
    assert "StopIteration" in end.reason


async def test_an_exception_that_cannot_be_put_into_words_is_one_all_the_same(shaped: Shaped) -> None:
    end = await Stage().step(shaped(raising(Unspeakable())))
    assert isinstance(end, Lost)
    assert "Unspeakable" in end.reason


async def test_text_that_no_store_takes_is_mended_in_reasons(shaped: Shaped) -> None:
    """P46: a lone surrogate, a NUL, a megabyte."""
    end = await Stage().step(shaped(raising(KeyError("\ud800 \0 " + "x" * 1_000_000))))
    assert isinstance(end, Lost)
    end.reason.encode()
    assert "\0" not in end.reason
    assert len(end.reason) < 3_000
    assert len(end.traceback or "") < 9_000


async def test_reasons_of_outcomes_are_mended_too(shaped: Shaped) -> None:
    for outcome in (StepOutcome.Fail("\ud800\0", True), StepOutcome.Retry(reason="\ud800\0")):
        end = await Stage().step(shaped(partial(given, outcome)))
        assert isinstance(end, Failed | Retried)
        end.reason.encode()
        assert "\0" not in end.reason


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "returned None, not an outcome"),
        ({"context_updates": {}}, "returned {'context_updates': {}}, which is not a StepOutcome"),
        ("continue", "which is not a StepOutcome"),
        (StepOutcome.Continue, "which is not a StepOutcome"),
        (StepOutcome(), "which is not a StepOutcome"),
        (NotDone(), "which is not a StepOutcome"),
        (StepOutcome.Wait(), "names neither a signal nor a time"),
        (StepOutcome.Wait(for_ms=1, until="2030-01-01T00:00:00Z"), "names until and for_ms"),
        (StepOutcome.Wait(signal="paid", on_timeout="remind"), "on_timeout needs a signal and a time"),
        (StepOutcome.Wait(signal="not a name"), "Wait.signal is 'not a name'"),
        (StepOutcome.Wait(for_ms=-1), "Wait.for_ms is -1"),
        (StepOutcome.Wait(for_ms=odd("5")), "Wait.for_ms is '5'"),
        (StepOutcome.Wait(until="tomorrow"), "Wait.until is 'tomorrow'"),
        (StepOutcome.Wait(until="2030-01-01T00:00:00"), "not an RFC 3339 instant with its zone"),
        (StepOutcome.Wait(until=odd(7)), "Wait.until is 7"),
        (StepOutcome.Wait(signal="paid", into=odd(7)), "Wait.into is 7"),
        (StepOutcome.Continue(next=odd(["a", 7])), "next is ['a', 7], not the name of a step"),
        (StepOutcome.Continue(odd([("a", 1)])), "context_updates is [('a', 1)], not a dict"),
        (StepOutcome.Continue(odd(None)), "context_updates is None, not a dict"),
        (StepOutcome.Continue(next=odd(7)), "next is 7, not the name of a step"),
        (StepOutcome.Retry(after_ms=-1), "Retry.after_ms is -1"),
        (StepOutcome.Retry(after_ms=86_400_001), "Retry.after_ms is 86400001"),
        (StepOutcome.Retry(after_ms=odd(1.5)), "Retry.after_ms is 1.5"),
        (StepOutcome.Retry(after_ms=odd("5")), "Retry.after_ms is '5'"),
        (StepOutcome.Retry(after_ms=True), "Retry.after_ms is True"),
        (StepOutcome.Fail("no", odd(None)), "Fail.compensate is None, not a bool"),
        (StepOutcome.Fail("no", odd(1)), "Fail.compensate is 1, not a bool"),
        (StepOutcome.Continue({"a": Unlike("b")}), "ZeroDivisionError"),
    ],
)
async def test_what_is_no_outcome_is_an_unknown_end(shaped: Shaped, returned: object, reason: str) -> None:
    end = await Stage().step(shaped(lambda: returned))
    assert isinstance(end, Lost)
    assert reason in end.reason
    assert end.evidence


async def test_a_coroutine_that_nobody_awaited_is_an_unknown_end(shaped: Shaped) -> None:
    """And it is closed: no warning about it comes out of nowhere later."""

    async def never_awaited() -> object:
        return StepOutcome.Continue()

    end = await Stage().step(shaped(never_awaited))
    assert isinstance(end, Lost)
    assert "coroutine that was never awaited" in end.reason
