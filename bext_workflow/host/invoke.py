"""One call of a plugin's hook, and what its end means (semantics §2).

A call has a time-out, and a handle by which it can be interrupted. Whatever the plugin does, exactly one `End` comes
out; only the cancellation of the driver itself passes through.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback as tracebacks
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec

import bext_workflow.host
from bext_workflow.core.input import Answer, End, Failed, Lost, Retried
from bext_workflow.errors import InvalidJson, WorkflowError
from bext_workflow.host.deadlines import Deadline, Deadlines
from bext_workflow.host.pulse import Pulse
from bext_workflow.host.reading import read_outcome, read_verdict
from bext_workflow.host.text import describe, plain
from bext_workflow.host.threads import OnLate, Threads, Visit
from bext_workflow.host.told import CompleteEnd, ProcessEnded, StepEnd, UndoEnd, VerifyEnd
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
    """The attempt's time is over; it says which."""


class Handle:
    """A call that can be ended from outside, once, with the reason that it is to report."""

    __slots__ = ("_over", "_pending", "_task", "ended_by")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._pending = False
        self._over = False
        self.ended_by: Exception | None = None

    def attach(self) -> None:
        """The call begins. Raises the reason if it was ended before that."""
        if self.ended_by is not None:
            raise self.ended_by
        self._task = asyncio.current_task()

    def detach(self) -> bool:
        """The call is over; true if cancellations are left on its task that are not this handle's."""
        self._over = True
        task, self._task = self._task, None
        return task is not None and task.cancelling() > 0

    def end(self, reason: Exception) -> None:
        """Ends the call, begun or not; does nothing if it is over or is being ended already."""
        if self._over or self.ended_by is not None:
            return
        self.ended_by = reason
        if self._task is not None:
            self._pending = True
            self._task.cancel()

    def take_back(self) -> bool:
        """Takes this handle's own cancellation off the task, once; true if there was one."""
        if not self._pending or self._task is None:
            return False
        self._pending = False
        self._task.uncancel()
        return True


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is called, for whom, and for how long (`timeout_ms` of 0: no bound). `place`: of the branch, in maps.

    `pulse` takes its heartbeats, if it may send some.
    """

    plugin: str
    hook: Hook
    run: WorkflowRun
    timeout_ms: int
    handle: Handle
    on_late: OnLate
    place: str = ""
    pulse: Pulse | None = None

    @property
    def visit(self) -> Visit:
        return self.run.run_id, self.run.step + self.place, self.run.visit

    def refused(self, why: str, returned: object) -> Lost:
        """The end of an attempt whose updates are not taken."""
        where = f"plugin {self.plugin!r}, workflow {self.run.workflow!r}, step {self.run.step!r}"
        return Lost(reason=f"{where}: refused: {plain(why)}", evidence={"returned": describe(returned)})


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
        if isinstance(result, StepEnd):
            return result.end
        try:
            return read_outcome(result, max_bytes=max_bytes)
        except InvalidJson as error:
            return call.refused(str(error), result)
        except Exception as error:
            return _read_error(error, call)

    async def undo(self, call: Call) -> Retried | Failed | Lost | None:
        """One attempt of `compensate_step`; None: it returned."""
        try:
            result = await self._call(call, call.run, call.run.step)
        except BaseException as error:
            return _read_error(error, call)
        if isinstance(result, UndoEnd):
            return result.end
        return None if result is None else Lost(reason=f"compensate_step returned {describe(result)}, not None")

    async def verify(self, call: Call, *, max_bytes: int) -> Answer:
        """What `verify_step` says of an attempt in doubt; raising, hanging and nonsense are `Unknown`."""
        try:
            result = await self._call(call, call.run, call.run.step)
            return result.answer if isinstance(result, VerifyEnd) else read_verdict(result, max_bytes=max_bytes)
        except BaseException as error:
            _read_error(error, call)
            return Unknown()

    async def complete(self, call: Call) -> str | None:
        """One call of `on_workflow_complete`; its error in words, None if it returned."""
        try:
            result = await self._call(call, call.run)
        except BaseException as error:
            return _read_error(error, call).reason
        return result.error if isinstance(result, CompleteEnd) else None

    async def _call(self, call: Call, *arguments: object) -> object:
        """Awaits the hook under the time-out. A cancel that the plugin swallowed is taken back: its word counts."""
        handle = call.handle
        handle.attach()
        bound = self._bound(call)
        try:
            if not call.hook.is_async:
                work = partial(_called, call.hook.call)
                return await self._threads.run(call.visit, call.on_late, work, *arguments)
            result = call.hook.call(*arguments)
            return _no_coroutine(await result if inspect.isawaitable(result) else result)
        except asyncio.CancelledError:
            if handle.take_back() and handle.ended_by is not None and not _cancelled_by_host():
                raise handle.ended_by from None
            raise
        finally:
            if bound is not None:
                bound.cancel()
            if handle.detach() and not _cancelled_by_host():
                await _shake_off()

    def _bound(self, call: Call) -> Deadline | Pulse | None:
        """Ends the call once its time is over, which heartbeats put off."""
        if call.pulse is not None:
            call.pulse.begin(call.timeout_ms, lambda reason: call.handle.end(AttemptTimedOut(reason)))
            return call.pulse
        return self._deadlines.arm(call.timeout_ms, partial(_time_out, call)) if call.timeout_ms else None


def _time_out(call: Call) -> None:
    call.handle.end(AttemptTimedOut(f"the attempt took longer than timeout_ms = {call.timeout_ms}"))


def _called(hook: Callable[..., object], *arguments: object) -> object:
    return _no_coroutine(hook(*arguments))


def _no_coroutine(result: object) -> object:
    """Raises `TypeError` for work that a hook has only promised: nobody would ever do it."""
    if not inspect.iscoroutine(result):
        return result
    result.close()
    raise TypeError("the hook returned a coroutine that was never awaited: write it as `async def`, and await inside")


async def _shake_off() -> None:
    """Takes cancellations off the task that are not the host's: one that the plugin swallowed, or one of its own.

    Left there, they would look like the end of the host at the next wait of the driver.
    """
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def _read_error(error: BaseException, call: Call) -> Retried | Failed | Lost:
    """What a raised exception means. Re-raises a cancellation that is the host's own."""
    if isinstance(error, asyncio.CancelledError) and _cancelled_by_host():
        raise error
    try:
        return _meaning(error, call)
    except Exception as second:
        reason = f"raised a {type(error).__name__} that cannot be read: {describe(second)}"
        return Lost(reason=reason, errors=error_names(error))


def _meaning(error: BaseException, call: Call) -> Retried | Failed | Lost:
    match error:
        case WorkflowError(retryable=True):
            return Retried(reason=plain(error))
        case WorkflowError():
            return Failed(reason=plain(error), compensate=True, traceback=_traceback(error))
        case AttemptTimedOut():
            return Lost(reason=str(error), transient=True)
        case ProcessEnded():
            return Lost(reason=plain(error), transient=True)
        case Interrupted():
            return Lost(reason="the attempt was interrupted by a person")
        case _:
            raised = describe(error)
            return Lost(
                reason=f"raised {raised}",
                errors=error_names(error),
                evidence={"raised": raised},
                traceback=_traceback(error),
            )


def _cancelled_by_host() -> bool:
    """Whether the driver itself is being cancelled. The host does that by its task groups, a plugin cannot."""
    return anyio.current_effective_deadline() == -math.inf


def _traceback(error: BaseException) -> str:
    """What was raised and where in the plugin; the frames of the host are left out."""
    told = tracebacks.TracebackException.from_exception(error)
    part: tracebacks.TracebackException | None = told
    while part is not None:
        plugins = [frame for frame in part.stack if not frame.filename.startswith(_OUR_FOLDERS)]
        part.stack = tracebacks.StackSummary.from_list(plugins[-_TRACEBACK_FRAMES:])
        part = part.__cause__ or part.__context__
    return plain("".join(told.format()), most=8_000)
