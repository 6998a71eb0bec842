"""Waits: what a parked branch waits for, as a definition declares it and as the journal keeps it (semantics §3, §9)."""

from __future__ import annotations

import msgspec

from bext_workflow.model.names import NAME_RULE, is_name

MAX_SIGNAL_BYTES = 65_536


class WaitDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step that waits: for `signal`, at most `timeout_ms` (0: no bound).

    The payload becomes `context[into]`, by default under the signal's name. A time-out goes to `on_timeout`, else the
    step fails and the run compensates.
    """

    signal: str
    into: str | None = None
    timeout_ms: int = 0
    on_timeout: str | None = None


class WaitFor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An open wait. `due_at` (ms) of None: no bound; `for_ms`: the length that a person's retry renews.

    `next`: where the branch goes when the wait is over (None: where the definition says), `on_timeout`: where when its
    time is. `child`: the run for whose end the branch waits; `stopping`: it has been told to stop.
    """

    next: str | tuple[str, ...] | None = None
    signal: str | None = None
    into: str | None = None
    due_at: int | None = None
    for_ms: int | None = None
    on_timeout: str | None = None
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
    return None
