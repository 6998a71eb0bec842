"""One call of a plugin's hook, as the tests of its ends make it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeAlias

from bext_workflow.core.input import End
from bext_workflow.errors import WorkflowError
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.invoke import Call, Handle, Invoker
from bext_workflow.host.threads import Threads
from bext_workflow.model.json import Json
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.plugin.hooks import Hook
from bext_workflow.testing.clock import FakeClock
from tests.unit.host.support import Recorder, within

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


def in_the_loop(behaviour: Behaviour) -> Callable[..., object]:
    """The behaviour as an `async def` hook."""

    async def hook(*_: object) -> object:
        await asyncio.sleep(0)
        return behaviour()

    return hook


def in_a_thread(behaviour: Behaviour) -> Callable[..., object]:
    """The behaviour as a plain hook."""

    def hook(*_: object) -> object:
        return behaviour()

    return hook


Shaped: TypeAlias = Callable[[Behaviour], Callable[..., object]]


def odd(value: Json) -> Json:
    """For a field whose declared type is only the plugin's promise."""
    return value


def given(outcome: object) -> object:
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


class Unlike(str):
    """Raises whenever it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("do not compare me")

    def __hash__(self) -> int:
        return 1


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
