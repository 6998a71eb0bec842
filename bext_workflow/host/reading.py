"""What a hook returned, read field by field: structs do not check their fields, and plugins are not trusted to."""

from __future__ import annotations

from bext_workflow.core.input import Answer, Continued, End, Failed, Lost, Next, Parked, Retried
from bext_workflow.errors import InvalidJson
from bext_workflow.host.reading_wait import until_ms, wait_fault
from bext_workflow.host.text import describe, plain
from bext_workflow.model.json import EMPTY, Document, Json, JsonObject, detach
from bext_workflow.model.outcome import NotDone, StepOutcome, Unknown

MAX_RETRY_MS = 24 * 60 * 60 * 1000
MAX_UNDO_DATA_BYTES = 65_536


def read_outcome(result: object, *, max_bytes: int) -> End:
    """The end of an attempt that returned. What is no valid outcome is `Lost`: the step may have acted.

    Raises `InvalidJson` for updates and undo data that cannot be carried.
    """
    fault = _fault(result)
    if fault is not None:
        return Lost(reason=fault, evidence={"returned": describe(result)})
    match result:
        case StepOutcome.Continue():
            return _read_continue(result, max_bytes)
        case StepOutcome.Wait():
            return _read_wait(result, max_bytes)
        case StepOutcome.Retry(after_ms=after_ms, reason=reason):
            return Retried(reason=plain(reason or "the step asked for a retry"), after_ms=after_ms)
        case StepOutcome.Fail(reason=reason, compensate=compensate):
            return Failed(reason=plain(reason), compensate=compensate)
        case _:
            return Lost(reason=f"run_step returned {describe(result)}", evidence={"returned": describe(result)})


def read_verdict(result: object, *, max_bytes: int) -> Answer:
    """The answer of `verify_step`; what is no valid answer is `Unknown`."""
    match result:
        case NotDone():
            return result
        case StepOutcome.Continue() | StepOutcome.Wait() | StepOutcome.Retry() | StepOutcome.Fail():
            try:
                end = read_outcome(result, max_bytes=max_bytes)
            except InvalidJson:
                return Unknown()
            return Unknown() if isinstance(end, Lost) else end
        case _:
            return Unknown()


def _read_continue(result: StepOutcome.Continue, max_bytes: int) -> End:
    updates = detach(result.context_updates, max_bytes=max_bytes, what="context_updates")
    undo_data = _detach_any(result.undo_data)
    return Continued(updates=updates if updates.value else EMPTY, next=_next(result.next), undo_data=undo_data)


def _read_wait(result: StepOutcome.Wait, max_bytes: int) -> End:
    updates = detach(result.context_updates, max_bytes=max_bytes, what="context_updates")
    undo_data = _detach_any(result.undo_data)
    detach({"into": result.into}, max_bytes=max_bytes, what="Wait")
    return Parked(
        updates=updates if updates.value else EMPTY,
        signal=result.signal,
        until=until_ms(result),
        for_ms=result.for_ms,
        into=result.into,
        next=_next(result.next),
        on_timeout=result.on_timeout,
        undo_data=undo_data,
    )


def _detach_any(value: Json) -> Json:
    if value is None:
        return None
    held: JsonObject = {"undo_data": value}
    document: Document = detach(held, max_bytes=MAX_UNDO_DATA_BYTES, what="undo_data")
    return document.value["undo_data"]


def _fault(result: object) -> str | None:
    """Why this is no outcome that the host takes; None if it is one."""
    match result:
        case StepOutcome.Continue(context_updates=updates, next=chosen):
            return _next_fault(chosen) if _is(dict, updates) else f"context_updates is {describe(updates)}, not a dict"
        case StepOutcome.Retry(after_ms=after_ms):
            if after_ms is None or (type(after_ms) is int and 0 <= after_ms <= MAX_RETRY_MS):
                return None
            return f"Retry.after_ms is {describe(after_ms)}, not a number of ms from 0 to 24 hours"
        case StepOutcome.Fail(compensate=compensate):
            return None if _is(bool, compensate) else f"Fail.compensate is {describe(compensate)}, not a bool"
        case StepOutcome.Wait(context_updates=updates):
            fault = None if _is(dict, updates) else f"context_updates is {describe(updates)}, not a dict"
            return fault or wait_fault(result) or _next_fault(result.next)
        case None:
            return "run_step returned None, not an outcome: return StepOutcome.Continue()"
        case _:
            return f"run_step returned {describe(result)}, which is not a StepOutcome"


def _is(form: type, value: object) -> bool:
    """`isinstance`, for fields whose declared type is only the plugin's promise."""
    return isinstance(value, form)


def _next_fault(chosen: object) -> str | None:
    if chosen is None or isinstance(chosen, str):
        return None
    if isinstance(chosen, list | tuple) and all(isinstance(name, str) for name in chosen):
        return None
    return f"next is {describe(chosen)}, not the name of a step, or a list of names"


def _next(chosen: str | list[str] | None) -> Next:
    return tuple(chosen) if isinstance(chosen, list | tuple) else chosen
