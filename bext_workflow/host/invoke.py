"""One call of a plugin's hook, and what its end means (semantics §2).

A call has a time-out, and a handle by which it can be interrupted. Whatever the plugin does, exactly one `End` comes
out; only the cancellation of the driver itself passes through.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback as tracebacks
from pathlib import Path

import anyio
import msgspec

import bext_workflow.host
from bext_workflow.core.input import Answer, End, Failed, Lost, Retried
from bext_workflow.errors import WorkflowError
from bext_workflow.host.deadlines import Deadlines
from bext_workflow.host.reading import read_outcome, read_verdict
from bext_workflow.host.text import describe, plain
from bext_workflow.host.threads import OnLate, Threads, Visit
from bext_workflow.model.definition import error_names
from bext_workflow.model.outcome import Unknown
from bext_workflow.model.run import WorkflowRun
from bext_workflow.plugin.hooks import Hook

COMPLETION_TIMEOUT_MS = 60_000
_TRACEBACK_FRAMES = 12
_OUR_FOLDERS = tuple(str(Path(module.__file__ or "").parent) for module in (bext_workflow.host, anyio))


class Interrupted(Exception):
    """A person wants the running attempt to end now (`cancel --now`)."""


class AttemptTimedOut(Exception):
    """The attempt's own time-out passed."""


class Handle:
    """A running call: it can be ended from outside, once, with the reason that it is to report."""

    __slots__ = ("_pending", "_task", "ended_by")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._pending = False
        self.ended_by: Exception | None = None

    def attach(self) -> None:
        self._task = asyncio.current_task()

    def detach(self) -> None:
        self._task = None

    def end(self, reason: Exception) -> None:
        """Ends the call; does nothing if it is not running or is being ended already."""
        if self._task is not None and self.ended_by is None:
            self.ended_by = reason
            self._pending = True
            self._task.cancel()

    def take_back(self) -> bool:
        """Takes this handle's own cancellation off the task, once; true if it was the only one."""
        if not self._pending or self._task is None:
            return False
        self._pending = False
        return self._task.uncancel() == 0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is called, for whom, and for how long (`timeout_ms` of 0: no bound)."""

    hook: Hook
    run: WorkflowRun
    timeout_ms: int
    handle: Handle
    on_late: OnLate

    @property
    def visit(self) -> Visit:
        return self.run.run_id, self.run.step, self.run.visit


class Invoker:
    """Calls hooks and reads their ends."""

    def __init__(self, deadlines: Deadlines, threads: Threads) -> None:
        self._deadlines = deadlines
        self._threads = threads

    async def step(self, call: Call, *, max_bytes: int) -> End:
        """One attempt of `run_step`; its updates may be `max_bytes` of JSON."""
        try:
            result = await self._call(call, call.run, call.run.step)
        except BaseException as error:
            return _read_error(error, call)
        return read_outcome(result, max_bytes=max_bytes)

    async def undo(self, call: Call) -> Retried | Failed | Lost | None:
        """One attempt of `compensate_step`; None: it returned."""
        try:
            result = await self._call(call, call.run, call.run.step)
        except BaseException as error:
            return _read_error(error, call)
        return None if result is None else Lost(reason=f"compensate_step returned {describe(result)}, not None")

    async def verify(self, call: Call, *, max_bytes: int) -> Answer:
        """What `verify_step` says of an attempt in doubt; raising, hanging and nonsense are `Unknown`."""
        try:
            result = await self._call(call, call.run, call.run.step)
        except BaseException as error:
            _read_error(error, call)
            return Unknown()
        return read_verdict(result, max_bytes=max_bytes)

    async def complete(self, call: Call) -> str | None:
        """One call of `on_workflow_complete`; its error in words, None if it returned."""
        try:
            await self._call(call, call.run)
        except BaseException as error:
            return _read_error(error, call).reason
        return None

    async def _call(self, call: Call, *arguments: object) -> object:
        if call.hook.is_async:
            return await self._guarded(call, *arguments)
        async with self._threads.slots:
            return await self._guarded(call, *arguments)

    async def _guarded(self, call: Call, *arguments: object) -> object:
        """Awaits the hook under the time-out. A cancel that the plugin swallowed is taken back: its word counts."""
        handle = call.handle
        handle.attach()
        deadline = None
        if call.timeout_ms:
            deadline = self._deadlines.arm(call.timeout_ms, lambda: handle.end(AttemptTimedOut()))
        try:
            if not call.hook.is_async:
                return await self._threads.run(call.visit, call.on_late, call.hook.call, *arguments)
            result = call.hook.call(*arguments)
            return await result if inspect.isawaitable(result) else result
        except asyncio.CancelledError:
            if handle.take_back() and handle.ended_by is not None:
                raise handle.ended_by from None
            raise
        finally:
            handle.take_back()
            handle.detach()
            if deadline is not None:
                deadline.cancel()


def _read_error(error: BaseException, call: Call) -> Retried | Failed | Lost:
    """What a raised exception means. Re-raises a cancellation that is the host's own."""
    match error:
        case WorkflowError(retryable=True):
            return Retried(reason=plain(error.message))
        case WorkflowError():
            return Failed(reason=plain(error.message), compensate=True, traceback=_traceback(error))
        case AttemptTimedOut():
            return Lost(reason=f"the attempt took longer than timeout_ms = {call.timeout_ms}", transient=True)
        case Interrupted():
            return Lost(reason="the attempt was interrupted by a person")
        case asyncio.CancelledError() if _cancelled_by_host():
            raise error
        case _:
            raised = describe(error)
            return Lost(
                reason=f"raised {raised}",
                errors=error_names(error),
                evidence={"raised": raised},
                traceback=_traceback(error),
            )


def _cancelled_by_host() -> bool:
    """Whether the driver itself is being cancelled: a plugin's own CancelledError leaves no trace on the task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _traceback(error: BaseException) -> str:
    """What was raised and where in the plugin; the frames of the host are left out."""
    told = tracebacks.TracebackException.from_exception(error)
    part: tracebacks.TracebackException | None = told
    while part is not None:
        plugins = [frame for frame in part.stack if not frame.filename.startswith(_OUR_FOLDERS)]
        part.stack = tracebacks.StackSummary.from_list(plugins[-_TRACEBACK_FRAMES:])
        part = part.__cause__ or part.__context__
    return plain("".join(told.format()), most=8_000)
