"""What `run_step` may return (semantics §3).

`StepOutcome` is both the type of every outcome and the place where its four forms are found, so that they construct
and match in one manner::

    return StepOutcome.Continue({"reservation_id": "r-1"})

    match outcome:
        case StepOutcome.Continue(context_updates=updates): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from bext_workflow.model.json import Json, JsonObject


class StepOutcome:
    """Base of `Continue`, `Retry`, `Fail` and `Wait`, which are reached as its attributes."""

    __slots__ = ()

    if TYPE_CHECKING:
        Continue: TypeAlias = "_Continue"
        Retry: TypeAlias = "_Retry"
        Fail: TypeAlias = "_Fail"
        Wait: TypeAlias = "_Wait"


class _Continue(msgspec.Struct, StepOutcome, frozen=True):
    """The step is done. `context_updates` merge key by key into the run's context.

    `next` is a step name, a list of names (a fork) or `"end"`; absent, the definition decides. `undo_data` is kept for
    this visit's undo alone.
    """

    context_updates: JsonObject = {}
    next: str | list[str] | None = None
    undo_data: Json = None


class _Retry(msgspec.Struct, StepOutcome, frozen=True):
    """The attempt has not acted and may be made again; `after_ms` (at most 24 h) replaces the policy's wait."""

    after_ms: int | None = None
    reason: str = ""


class _Fail(msgspec.Struct, StepOutcome, frozen=True):
    """The step has not acted and never will. `compensate` undoes the completed steps, else they are left in place."""

    reason: str
    compensate: bool


class _Wait(msgspec.Struct, StepOutcome, frozen=True, kw_only=True):
    """The step is done and the branch parks until a signal, a time, or the first of both."""

    signal: str | None = None
    until: str | None = None
    for_ms: int | None = None
    into: str | None = None
    next: str | list[str] | None = None
    on_timeout: str | None = None
    context_updates: JsonObject = {}
    undo_data: Json = None


Outcome: TypeAlias = _Continue | _Retry | _Fail | _Wait
"""The closed union, for exhaustive matches inside the host."""

for _form in (_Continue, _Retry, _Fail, _Wait):
    _form.__name__ = _form.__name__.removeprefix("_")
    _form.__qualname__ = f"StepOutcome.{_form.__name__}"
    setattr(StepOutcome, _form.__name__, _form)


class NotDone(msgspec.Struct, frozen=True, tag=True):
    """`verify_step` says: the attempt in doubt did not act; it may be made again."""


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """`verify_step` cannot tell; a person must."""


Verdict: TypeAlias = _Continue | _Retry | _Fail | _Wait | NotDone | Unknown
