"""One call of a plugin and the word that comes of it, whatever the plugin does (P43). The table of semantics §2."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
import pytest

from bext_workflow.core.input import Continued, End, Failed, Lost, Retried
from bext_workflow.errors import WorkflowError
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.invoke import Call, Handle, Interrupted, Invoker
from bext_workflow.host.threads import Threads
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import NotDone, StepOutcome, Unknown
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.hooks import Hook
from bext_workflow.testing.clock import FakeClock
from tests.unit.host.support import DEADLINE_S, Recorder, within

Behaviour: TypeAlias = Callable[[], object]

TIMEOUT_MS = 5_000
MAX_BYTES = 1_000


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.threads = Threads(4, Recorder(), most_leaked=99, too_many=lambda: None)
        self.invoker = Invoker(Deadlines(self.clock), self.threads)
        self.late: list[tuple[object, BaseException | None]] = []
        self.told = asyncio.Event()

    def call(self, function: Callable[..., object], *, timeout_ms: int = TIMEOUT_MS) -> Call:
        run = WorkflowRun(
            run_id="r-1",
            workflow="order",
            version=1,
            status=WorkflowStatus.RUNNING,
            context={},
            step="pack",
            attempt=1,
            visit=1,
            idempotency_key="r-1:pack",
        )

        def on_late(result: object, error: BaseException | None) -> None:
            self.late.append((result, error))
            self.told.set()

        hook = Hook(function, inspect.iscoroutinefunction(function))
        return Call(plugin="shop", hook=hook, run=run, timeout_ms=timeout_ms, handle=Handle(), on_late=on_late)

    async def step(self, function: Callable[..., object]) -> End:
        async with within():
            return await self.invoker.step(self.call(function), max_bytes=MAX_BYTES)


@pytest.fixture(params=["async", "sync"])
def shaped(request: pytest.FixtureRequest) -> Callable[[Behaviour], Callable[..., object]]:
    """Makes a hook of a behaviour: `async def`, which the loop runs, or plain `def`, which a thread does."""

    def shape(behaviour: Behaviour) -> Callable[..., object]:
        async def in_the_loop(*_: object) -> object:
            await asyncio.sleep(0)
            return behaviour()

        def in_a_thread(*_: object) -> object:
            return behaviour()

        return in_the_loop if request.param == "async" else in_a_thread

    return shape


Shaped: TypeAlias = Callable[[Behaviour], Callable[..., object]]


def odd(value: Json) -> Json:
    """For a field whose declared type is only the plugin's promise."""
    return value


def _given(outcome: object) -> object:
    return outcome


def raising(error: BaseException) -> Behaviour:
    def behaviour() -> object:
        raise error

    return behaviour


class Unspeakable(Exception):
    """Nobody can say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")

    def __repr__(self) -> str:
        raise SystemExit("no words at all")


class Forgetful(WorkflowError):
    """A definite failure by somebody who forgot the base class."""

    def __init__(self, code: int) -> None:
        self.code = code


# Definite ends


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
    assert "test_invoke.py" in (end.traceback or "")
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
        end = await Stage().step(shaped(partial(_given, outcome)))
        assert isinstance(end, Failed | Retried)
        end.reason.encode()
        assert "\0" not in end.reason


class Unlike(str):
    """Raises whenever it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("do not compare me")

    def __hash__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "returned None, not an outcome"),
        ({"context_updates": {}}, "returned {'context_updates': {}}, which is not a StepOutcome"),
        ("continue", "which is not a StepOutcome"),
        (StepOutcome.Continue, "which is not a StepOutcome"),
        (StepOutcome(), "which is not a StepOutcome"),
        (NotDone(), "which is not a StepOutcome"),
        (StepOutcome.Wait(signal="paid"), "Wait is not supported yet"),
        (StepOutcome.Continue(next=["a", "b"]), "forks are not supported yet"),
        (StepOutcome.Continue(odd([("a", 1)])), "context_updates is [('a', 1)], not a dict"),
        (StepOutcome.Continue(odd(None)), "context_updates is None, not a dict"),
        (StepOutcome.Continue(next=odd(7)), "Continue.next is 7, not the name of a step"),
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


# Values that JSON cannot carry (P46)


def cyclic() -> Json:
    value: Json = {}
    value["self"] = value
    return value


def deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


ILLEGAL: list[tuple[Json, str]] = [
    (float("nan"), "$.order.total: nan"),
    (float("inf"), "$.order.total: inf"),
    (float("-inf"), "$.order.total: -inf"),
    (b"bytes", "$.order.total: bytes"),
    ((1, 2), "$.order.total: a tuple"),
    ({1, 2}, "$.order.total: set"),
    ({1: "a"}, "$.order.total: the key 1 is int"),
    (cyclic(), "$.order.total.self: a cycle"),
    ("\ud800", "$.order.total: the text holds a lone surrogate"),
    ("a\0b", "$.order.total: the text holds a NUL"),
    ({"a\0": 1}, "$.order.total: in a key"),
    (2**63, "$.order.total: the integer 9223372036854775808 is outside"),
    (-(2**63) - 1, "$.order.total: the integer -9223372036854775809 is outside"),
    (10**5000, "$.order.total: the integer of 16610 bits is outside"),
    (deep(201), "nested more than 200 deep"),
    ("x" * MAX_BYTES, "over the limit of 1000"),
    (object(), "$.order.total: object is not a JSON type"),
    (lambda: 1, "$.order.total: function is not a JSON type"),
]


@pytest.mark.parametrize(("value", "reason"), ILLEGAL, ids=[reason for _, reason in ILLEGAL])
async def test_updates_that_json_cannot_carry_are_refused_with_their_path(
    shaped: Shaped, value: Json, reason: str
) -> None:
    """P46"""
    end = await Stage().step(shaped(lambda: StepOutcome.Continue({"order": {"total": value}})))
    assert isinstance(end, Lost)
    assert end.reason.startswith("plugin 'shop', workflow 'order', step 'pack': refused: ")
    assert reason in end.reason


async def test_undo_data_that_json_cannot_carry_is_refused(shaped: Shaped) -> None:
    """P46"""
    for value, reason in ((float("nan"), "$.undo_data: nan"), ("x" * 70_000, "over the limit of 65536")):
        end = await Stage().step(shaped(partial(StepOutcome.Continue, undo_data=value)))
        assert isinstance(end, Lost)
        assert reason in end.reason


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), -0.0, 2**53 + 1, 1.0, deep(198), "𝄞é", {}, [], {"": ""}])
async def test_what_json_can_carry_is_carried_as_it_is(shaped: Shaped, value: Json) -> None:
    """P47"""
    end = await Stage().step(shaped(lambda: StepOutcome.Continue({"v": value})))
    assert isinstance(end, Continued)
    assert repr(end.updates.value) == repr({"v": value})


# Time-outs and interrupts


@asynccontextmanager
async def hanging(stage: Stage, call: Call, began: asyncio.Event) -> AsyncIterator[list[End]]:
    """A call that hangs; its end is in the list once the block is left."""
    ends: list[End] = []

    async def make() -> None:
        ends.append(await stage.invoker.step(call, max_bytes=MAX_BYTES))

    async with within(), asyncio.TaskGroup() as tasks:
        tasks.create_task(make())
        await began.wait()
        yield ends


def hang(began: asyncio.Event, after: Behaviour | None = None) -> Callable[..., Coroutine[object, object, object]]:
    """Hangs; with `after` the cancel is swallowed, and that is done instead."""

    async def hook(*_: object) -> object:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if after is None:
                raise
            return after()
        return None

    return hook


async def test_an_async_hook_that_hangs_is_ended_by_its_time_out_and_not_before() -> None:
    stage, began = Stage(), asyncio.Event()
    async with hanging(stage, stage.call(hang(began)), began) as ends:
        stage.clock.advance(TIMEOUT_MS - 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert ends == []
        stage.clock.advance(1)
    assert ends == [Lost(reason="the attempt took longer than timeout_ms = 5000", transient=True)]
    assert stage.late == []


async def test_without_a_time_out_a_call_may_take_for_ever() -> None:
    stage, began = Stage(), asyncio.Event()
    call = stage.call(hang(began), timeout_ms=0)
    async with hanging(stage, call, began) as ends:
        stage.clock.advance(10**9)
        for _ in range(20):
            await asyncio.sleep(0)
        assert ends == []
        call.handle.end(Interrupted())


async def test_a_call_that_a_person_interrupts_ends_unknown_and_is_no_transient_matter() -> None:
    stage, began = Stage(), asyncio.Event()
    call = stage.call(hang(began))
    async with hanging(stage, call, began) as ends:
        call.handle.end(Interrupted())
        call.handle.end(Interrupted())
    assert ends == [Lost(reason="the attempt was interrupted by a person")]


async def test_a_plugin_that_swallows_the_cancel_has_the_last_word() -> None:
    stage, began = Stage(), asyncio.Event()
    call = stage.call(hang(began, after=lambda: StepOutcome.Continue({"a": 1})))
    async with hanging(stage, call, began) as ends:
        stage.clock.advance(TIMEOUT_MS)
    (end,) = ends
    assert isinstance(end, Continued)
    assert end.updates.value == {"a": 1}


async def test_after_a_swallowed_cancel_the_task_is_as_before() -> None:
    """What the driver awaits next is not cancelled."""
    stage, began = Stage(), asyncio.Event()
    async with within(), asyncio.TaskGroup() as tasks:

        async def twice() -> list[End]:
            first = await stage.invoker.step(stage.call(hang(began, StepOutcome.Continue)), max_bytes=MAX_BYTES)
            return [first, await stage.step(lambda *_: StepOutcome.Continue())]

        task = tasks.create_task(twice())
        await began.wait()
        stage.clock.advance(TIMEOUT_MS)
    assert task.result() == [Continued(), Continued()]
    assert task.cancelling() == 0


async def test_a_thread_that_outlives_its_time_out_is_given_up_and_heard_of_later() -> None:
    stage = Stage()
    began, let_go = threading.Event(), threading.Event()

    def hook(*_: object) -> object:
        began.set()
        assert let_go.wait(DEADLINE_S)
        return StepOutcome.Continue()

    ends: list[End] = []

    async def make() -> None:
        ends.append(await stage.step(hook))

    async with within(), asyncio.TaskGroup() as tasks:
        tasks.create_task(make())
        assert await asyncio.to_thread(began.wait, DEADLINE_S)
        stage.clock.advance(TIMEOUT_MS)
    assert ends == [Lost(reason="the attempt took longer than timeout_ms = 5000", transient=True)]
    assert stage.threads.busy(("r-1", "pack", 1))
    let_go.set()
    async with within():
        await stage.told.wait()
    assert stage.late == [(StepOutcome.Continue(), None)]


async def test_the_host_s_own_cancel_passes_through() -> None:
    """Only that one does: it is how a drain cuts off what still runs."""
    stage, began = Stage(), asyncio.Event()
    reached: list[str] = []
    async with within(), anyio.create_task_group() as tasks:

        async def drive() -> None:
            await stage.invoker.step(stage.call(hang(began)), max_bytes=MAX_BYTES)
            reached.append("went on")

        tasks.start_soon(drive)
        await began.wait()
        tasks.cancel_scope.cancel()
    assert reached == []


async def test_a_plugin_that_cancels_its_own_task_ends_its_own_attempt() -> None:
    """P43: it is not taken for the end of the host, now or at the driver's next wait."""
    stage = Stage()

    async def cancels_and_waits(*_: object) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return StepOutcome.Continue()

    async def cancels_and_returns(*_: object) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return StepOutcome.Continue()

    async with within(), asyncio.TaskGroup() as tasks:

        async def drive() -> list[End]:
            ends = [await stage.step(cancels_and_waits), await stage.step(cancels_and_returns)]
            await asyncio.sleep(0)
            return ends

        task = tasks.create_task(drive())
    lost, went_well = task.result()
    assert isinstance(lost, Lost)
    assert "CancelledError" in lost.reason
    assert went_well == Continued()
    assert task.cancelling() == 0


async def test_a_cancellation_that_a_library_left_behind_spoils_no_later_time_out() -> None:
    """Old time-out libraries cancel the task, turn that into TimeoutError and never take the cancel back."""
    stage, began = Stage(), asyncio.Event()

    async def leaves_one_behind(*_: object) -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            raise TimeoutError("read timed out") from None
        return None

    async with within(), asyncio.TaskGroup() as tasks:

        async def drive() -> list[End]:
            first = await stage.step(leaves_one_behind)
            return [first, await stage.invoker.step(stage.call(hang(began)), max_bytes=MAX_BYTES)]

        task = tasks.create_task(drive())
        await began.wait()
        stage.clock.advance(TIMEOUT_MS)
    first, second = task.result()
    assert isinstance(first, Lost)
    assert "builtins.TimeoutError" in first.errors
    assert second == Lost(reason="the attempt took longer than timeout_ms = 5000", transient=True)


# The other hooks


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
        (StepOutcome.Wait(for_ms=1), Unknown()),
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
