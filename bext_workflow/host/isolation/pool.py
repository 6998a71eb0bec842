"""The processes of one plugin: lent one by one, started when they are needed, replaced when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial

import anyio

from bext_workflow.errors import PluginError
from bext_workflow.host.isolation import wire
from bext_workflow.host.isolation.child import Child
from bext_workflow.host.pulse import Unstated
from bext_workflow.host.told import CallEnd
from bext_workflow.model.run import WorkflowRun
from bext_workflow.plugin.hooks import Hook

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 30.0


class Pool:
    """Up to `size` processes. Outside of `opened` there is none."""

    def __init__(self, start: wire.Start, size: int) -> None:
        self._start = start
        self._size = size
        self._idle: list[Child] = []
        self._places = anyio.CapacityLimiter(size)
        self._pause_s = 0.0

    def hook(self, name: str) -> Hook:
        """The plugin's hook of that name, called in one of the processes."""

        async def call(*arguments: object) -> object:
            async with self.lent(name) as bound:
                return await _awaited(bound.call(*arguments))

        return Hook(call, is_async=True, room=partial(self.lent, name))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The plugin's lifespan, from the host's side: the first process shows that it starts. Raises `PluginError`."""
        self._idle.append(await Child.start(self._start))
        try:
            yield
        finally:
            idle, self._idle = self._idle, []
            async with anyio.create_task_group() as closing:
                for child in idle:
                    closing.start_soon(child.close)

    @asynccontextmanager
    async def lent(self, name: str) -> AsyncIterator[Hook]:
        """The hook, bound to a process that waits for the call: starting one is no part of an attempt.

        Raises `PluginError`; whoever comes next waits a while before it tries again.
        """
        async with self._places:
            child = await self._taken()
            try:
                yield Hook(partial(_called, child, name), is_async=True)
            finally:
                if child.usable:
                    self._idle.append(child)

    async def _taken(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
        await asyncio.sleep(self._pause_s)
        try:
            child = await Child.start(self._start)
        except PluginError:
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LAST_PAUSE_S)
            raise
        self._pause_s = 0.0
        return child


async def _called(child: Child, name: str, run: WorkflowRun, step_name: str | None = None) -> CallEnd:
    """With the arguments of every hook that is called for a run; the step stands in the run."""
    del step_name
    return await child.call(name, run, beats=not isinstance(run.beat, Unstated))


async def _awaited(result: object) -> object:
    return await result if isinstance(result, Awaitable) else result
