"""Calls that are ended from outside: by their time-out, by a person, by the host (P44)."""

from __future__ import annotations

import asyncio
import threading

import anyio

from bext_workflow.core.input import Continued, End, Lost
from bext_workflow.host.invoke import Interrupted
from bext_workflow.model.outcome import StepOutcome
from tests.unit.host.calling import MAX_BYTES, TIMEOUT_MS, Stage, hang, hanging
from tests.unit.host.support import DEADLINE_S, within


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


async def test_a_thread_that_outlives_its_time_out_isgiven_up_and_heard_of_later() -> None:
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
