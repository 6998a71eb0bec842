"""Waits: what a parked branch waits for, as a definition declares it and as the journal keeps it (semantics §3, §9)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bext_workflow.errors import DefinitionError
from bext_workflow.model.json import JsonObject
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.schema import schema_fault

MAX_SIGNAL_BYTES = 65_536


class NotBy(StrEnum):
    """Who may not decide."""

    STARTER = "starter"


class ApprovalDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A wait that is a person's decision. `by`: who may decide (empty: anybody); `not_by`: who may not, even so.

    If nobody has decided after `remind_ms` (0: never), once a reminder is told. A rejection goes to `on_reject`, else
    the step fails and the run compensates.
    """

    title: str = ""
    by: tuple[str, ...] = ()
    not_by: NotBy | None = None
    remind_ms: int = 0
    on_reject: str | None = None

    def __post_init__(self) -> None:
        if self.not_by is not None and self.not_by not in tuple(NotBy):
            raise DefinitionError(f"approval.not_by is {self.not_by!r}", mend='use "starter"')


class WaitDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that waits: for `signal`, at most `timeout_ms` (0: no bound), whose payload satisfies the `schema`.

    With `approval` it waits for a person's decision, of which the schema is the form. The payload becomes
    `context[into]`, by default under the signal's name. A time-out goes to `on_timeout`, else the step fails and the
    run compensates.
    """

    signal: str
    into: str | None = None
    timeout_ms: int = 0
    on_timeout: str | None = None
    schema: JsonObject | None = None
    approval: ApprovalDefinition | None = None

    @property
    def ways(self) -> tuple[str, ...]:
        """Where the wait may lead but to the step's own next."""
        rejected = self.approval.on_reject if self.approval is not None else None
        return tuple(name for name in (self.on_timeout, rejected) if name is not None)


class WaitFor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open wait. `due_at` (ms) of None: no bound; `for_ms`: the length that a person's retry renews.

    `next`: where the branch goes when the wait is over (None: where the definition says), `on_timeout`: where when its
    time is. `remind_at`: when a reminder is due, `remind_ms` after the wait began. `child`: the run for whose end the
    branch waits; `stopping`: it has been told to stop.
    """

    next: str | tuple[str, ...] | None = None
    signal: str | None = None
    into: str | None = None
    due_at: int | None = None
    for_ms: int | None = None
    on_timeout: str | None = None
    remind_at: int | None = None
    remind_ms: int | None = None
    child: str | None = None
    stopping: bool = False

    @property
    def key(self) -> str | None:
        """The context key that takes the payload."""
        return self.into or self.signal


def wait_fault(wait: WaitDefinition) -> str | None:
    """What is wrong with a declared wait; None if nothing is."""
    if not is_name(wait.signal):
        return f"{wait.signal!r} cannot name a signal: use {NAME_RULE}"
    if wait.timeout_ms < 0:
        return f"wait.timeout_ms is {wait.timeout_ms}: 0 means no bound"
    if wait.on_timeout is not None and wait.timeout_ms == 0:
        return "wait.on_timeout is stated and timeout_ms is not"
    return _approval_fault(wait) or _schema_fault(wait)


def _approval_fault(wait: WaitDefinition) -> str | None:
    approval = wait.approval
    if approval is None:
        return None
    if approval.remind_ms < 0:
        return f"wait.approval.remind_ms is {approval.remind_ms}: 0 means no reminder"
    if 0 < wait.timeout_ms <= approval.remind_ms:
        return f"wait.approval.remind_ms is {approval.remind_ms}, and the time is over after {wait.timeout_ms} ms"
    return None


def _schema_fault(wait: WaitDefinition) -> str | None:
    if wait.schema is None:
        return None
    fault = schema_fault(wait.schema)
    return None if fault is None else f"wait.schema is no JSON Schema: {fault}"
