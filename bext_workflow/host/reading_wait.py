"""The outcome Wait, read field by field."""

from __future__ import annotations

from bext_workflow.host.text import describe
from bext_workflow.model.names import NAME_RULE, is_name
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.view import parse_instant

MAX_WAIT_MS = 100 * 366 * 24 * 60 * 60 * 1000
"""A century: longer is a mistake in the units."""


def wait_fault(wait: StepOutcome.Wait) -> str | None:
    """Why this is no wait that the host takes; None if it is one."""
    if wait.signal is None and wait.until is None and wait.for_ms is None:
        return "Wait names neither a signal nor a time: give signal, until or for_ms"
    if wait.until is not None and wait.for_ms is not None:
        return "Wait names until and for_ms: give one of them"
    if wait.on_timeout is not None and (wait.signal is None or (wait.until is None and wait.for_ms is None)):
        return "Wait.on_timeout needs a signal and a time"
    return _field_fault(wait)


def until_ms(wait: StepOutcome.Wait) -> int | None:
    """The instant of `until` in ms."""
    return None if wait.until is None else parse_instant(wait.until)


def _field_fault(wait: StepOutcome.Wait) -> str | None:
    if wait.signal is not None and not (_is_text(wait.signal) and is_name(wait.signal)):
        return f"Wait.signal is {describe(wait.signal)}: use {NAME_RULE}"
    if wait.for_ms is not None and not (type(wait.for_ms) is int and 0 <= wait.for_ms <= MAX_WAIT_MS):
        return f"Wait.for_ms is {describe(wait.for_ms)}, not a number of ms from 0 to a century"
    for name in ("into", "on_timeout"):
        value = getattr(wait, name)
        if value is not None and not _is_text(value):
            return f"Wait.{name} is {describe(value)}, not a text"
    try:
        until_ms(wait)
    except (ValueError, TypeError):
        return f"Wait.until is {describe(wait.until)}, not an RFC 3339 instant with its zone"
    return None


def _is_text(value: object) -> bool:
    """Fields of a struct have the type that the plugin gave them, whatever is declared."""
    return isinstance(value, str)
