"""What a run waits for, in words, and the lines to type about it."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.faces.cli.cells import moment
from bext_workflow.faces.cli.context import Session
from bext_workflow.model.view import RunView, WaitView


def awaited(signal: str | None, due_at: str | None) -> str:
    """`for signal approved, until 11-30 21:52:07`."""
    what = [] if signal is None else [f"for signal {signal}"]
    until = [] if due_at is None else [f"until {moment(due_at).text}"]
    return ", ".join([*what, *until])


def words(wait: WaitView) -> str:
    """What the wait is for, where, since when."""
    step = f"{wait.step} #{wait.visit}" if wait.visit > 1 else wait.step
    if wait.approval is not None:
        until = awaited(None, wait.due_at)
        return f"at {step} for a decision{', ' if until else ''}{until}, since {moment(wait.opened_at).text}"
    return f"at {step} {awaited(wait.signal, wait.due_at)}, since {moment(wait.opened_at).text}"


def commands(run: RunView, wait: WaitView, session: Session) -> Iterator[tuple[str, str]]:
    """What ends the wait, and the line to type; nothing does but time if it has no signal."""
    if wait.approval is not None:
        yield "say yes", session.command("approvals", "approve", wait.approval, "--comment", "…")
        yield "say no", session.command("approvals", "reject", wait.approval, "--comment", "…")
    elif wait.signal is not None:
        yield "send it", session.command("runs", "signal", run.run_id, wait.signal, "--payload", "{}")
