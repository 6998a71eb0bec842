"""Calls in threads: their results, and those that outlive whoever waited for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from bext_workflow.host.threads import Threads, Visit, _Gate
from bext_workflow.ports import telemetry as names
from tests.unit.host.support import DEADLINE_S, Recorder, within

VISIT: Visit = ("r-1", "pack", 1)


class Call:
    """A call that hangs in its thread until it is let go."""

    def __init__(self, result: object = "done") -> None:
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.result = result

    def __call__(self) -> object:
        self.began.set()
        assert self.let_go.wait(DEADLINE_S)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Late:
    """What came too late."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, BaseException | None]] = []
        self.told = asyncio.Event()

    def __call__(self, result: object, error: BaseException | None) -> None:
        self.heard.append((result, error))
        self.told.set()


def made(most_leaked: int = 99, too_many: Callable[[], None] = lambda: None) -> tuple[Threads, Recorder]:
    telemetry = Recorder()
    return Threads(4, telemetry, most_leaked=most_leaked, too_many=too_many), telemetry


async def abandoned(threads: Threads, call: Call, late: Late, visit: Visit = VISIT) -> None:
    """Starts the call, waits until it runs, and gives it up."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(threads.run(visit, late, call))
        assert await asyncio.to_thread(call.began.wait, DEADLINE_S)
        task.cancel()


def ignored(result: object, error: BaseException | None) -> None:
    pytest.fail(f"told of {result!r}, {error!r}")


async def test_the_call_works_in_another_thread_and_its_result_comes_back() -> None:
    threads, _ = made()
    assert await threads.run(VISIT, ignored, threading.get_ident) != threading.get_ident()
    assert await threads.run(VISIT, ignored, lambda *args: args, 1, "b") == (1, "b")


@pytest.mark.parametrize(
    "error", [KeyError("order"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_whatever_the_call_raises_comes_back_to_its_caller(error: BaseException) -> None:
    """P43"""
    threads, telemetry = made()

    def call() -> object:
        raise error

    with pytest.raises(type(error)) as caught:
        await threads.run(VISIT, ignored, call)
    assert caught.value is error
    assert (threads.leaked, telemetry.events) == (0, [])


async def test_a_stop_iteration_does_not_pass_for_a_result() -> None:
    threads, _ = made()

    def call() -> object:
        raise StopIteration("done?")

    with pytest.raises(RuntimeError) as caught:
        await threads.run(VISIT, ignored, call)
    assert isinstance(caught.value.__cause__, StopIteration)


async def test_a_call_that_is_given_up_is_counted_until_it_ends_and_then_heard_of() -> None:
    """P44"""
    threads, telemetry = made()
    call, late, quiet = Call(), Late(), asyncio.Event()
    await abandoned(threads, call, late)
    assert (threads.leaked, threads.busy(VISIT)) == (1, True)
    assert not threads.busy(("r-1", "pack", 2))
    assert telemetry.value(names.THREADS_LEAKED) == 1
    assert telemetry.all(names.THREAD_LEAKED) == [{"run_id": "r-1", "step": "pack", "visit": 1, "leaked": 1}]
    threads.when_quiet(VISIT, quiet.set)
    assert not quiet.is_set()
    call.let_go.set()
    async with within():
        await quiet.wait()
    assert late.heard == [("done", None)]
    assert (threads.leaked, threads.busy(VISIT), telemetry.value(names.THREADS_LEAKED)) == (0, False, 0)


async def test_what_a_call_raises_too_late_is_heard_of_too() -> None:
    threads, _ = made()
    call, late = Call(SystemExit("bye")), Late()
    await abandoned(threads, call, late)
    call.let_go.set()
    async with within():
        await late.told.wait()
    ((result, error),) = late.heard
    assert result is None
    assert isinstance(error, SystemExit)


async def test_too_many_leaked_calls_are_said_once_the_number_is_reached() -> None:
    alarms: list[int] = []
    threads, _ = made(most_leaked=2, too_many=lambda: alarms.append(threads.leaked))
    calls = [Call(), Call()]
    await abandoned(threads, calls[0], Late(), ("r-1", "pack", 1))
    assert alarms == []
    await abandoned(threads, calls[1], Late(), ("r-2", "pack", 1))
    assert alarms == [2]
    for call in calls:
        call.let_go.set()


def test_loop_and_thread_agree_on_whether_a_call_that_was_given_up_has_begun() -> None:
    """One that has not is not made: nobody could take its result, it would act for nothing."""
    given_up_first, begun_first = _Gate(), _Gate()
    assert (given_up_first.abandon(), given_up_first.enter()) == (False, False)
    assert (begun_first.enter(), begun_first.abandon()) == (True, True)
