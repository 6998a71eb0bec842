"""One run, as people see it: what it is, how its steps went, what holds it and what to type about that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from bext_workflow.faces.cli import cells, waiting
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import ANSWERS, Action, Call, WorkflowStatus
from bext_workflow.model.view import PAUSED, IncidentView, RunView, SignalView, StepView
from bext_workflow.service.wiring import Reached

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_SHORT = 120
"""Characters of a payload that are shown; the JSON form has it whole."""

_SETTLED = frozenset({"completed", "compensated", "stopped"})
"""Statuses of steps about which there is no question."""


class Card(msgspec.Struct, frozen=True):
    """A run and its open incidents."""

    run: RunView
    incidents: Sequence[IncidentView] = ()


async def look(reached: Reached, run: RunView) -> Card:
    """The run with what holds it."""
    if run.status is WorkflowStatus.COMPLETED:
        return Card(run)
    page = await reached.operations.incidents(run_id=run.run_id)
    return Card(run, page.items)


def show(session: Session, card: Card) -> None:
    """Writes the run: the resource, or the card."""
    session.output.show(card.run, lambda screen: _draw(screen, card, session))


def answers(incident: IncidentView, session: Session) -> Iterator[tuple[str, str]]:
    """For each answer that the incident takes, what it means and the line to type."""
    for action in incident.actions:
        words = ("incidents", "resolve", incident.id, "--action", action.value, "--note", "…")
        if action is not Action.DONE:
            yield ANSWERS[action], session.command(*words)
        elif incident.call is Call.UNDO:
            yield "it is undone; go on", session.command(*words)
        else:
            yield ANSWERS[action], session.command(*words, "--updates", "{}")


def _draw(screen: Screen, card: Card, session: Session) -> None:
    run = card.run
    screen.fields(_fields(run))
    if run.steps:
        screen.heading("Steps")
        screen.table(("step", "status", "attempts", "ended", "reason"), map(_step_row, run.steps))
    if children := [(_visit(step), Cell(step.child)) for step in run.steps or () if step.child is not None]:
        screen.heading("Sub-workflows")
        screen.fields(children)
    if run.context:
        screen.heading("Context")
        screen.fields(_values(run.context))
    if keys := list(_keys(run)):
        screen.heading("Idempotency keys")
        screen.fields(keys)
    if run.signals:
        screen.heading("Signals")
        screen.table(("signal", "state", "accepted", "id", "payload"), map(_signal_row, run.signals))
    for wait in run.waits or ():
        screen.heading(f"It waits {waiting.words(wait)}")
        screen.commands(waiting.commands(run, wait, session))
    if PAUSED in (run.holds or ()):
        screen.heading("It is paused")
        screen.commands([("let it go on", session.command("runs", "resume", run.run_id, "--reason", "…"))])
    for incident in card.incidents:
        screen.heading(f"Incident {incident.kind.replace('_', ' ')}: {incident.step or 'the run'}")
        screen.say(incident.reason)
        if incident.idempotency_key is not None:
            screen.fields([("key", Cell(incident.idempotency_key))])
        screen.commands(answers(incident, session))
    if run.status is WorkflowStatus.FAILED and run.left_in_place and not card.incidents:
        screen.heading("What it has done is left in place")
        screen.commands([("undo it", session.command("runs", "cancel", run.run_id))])


def _fields(run: RunView) -> Iterator[tuple[str, Cell]]:
    yield "run", Cell(run.run_id, "bold")
    yield "workflow", Cell(f"{run.workflow}@{run.version}")
    yield "status", cells.status(run.status)
    if run.step is not None:
        yield "step", cells.text(run.step)
    if run.failure is not None:
        yield "failure", Cell(run.failure, "red")
    if run.left_in_place:
        yield "left in place", cells.listed(run.left_in_place)
    if run.parent:
        yield "parent", Cell(run.parent)
    if run.forked_from:
        yield "forked from", Cell(f"{run.forked_from.run_id}, event {run.forked_from.seq}")
    if run.key is not None:
        yield "key", cells.text(run.key)
    if run.tags:
        yield "tags", cells.listed(f"{name}={value}" for name, value in run.tags.items())
    yield "created", cells.moment(run.created_at)
    if run.ended_at is not None:
        yield "ended", cells.moment(run.ended_at)


def _keys(run: RunView) -> Iterator[tuple[str, Cell]]:
    """By which a person finds the effects of what is neither done for good nor undone."""
    if run.status in (WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED):
        return
    for step in run.steps or ():
        if step.status not in _SETTLED:
            yield _visit(step), Cell(step.idempotency_key)


def _visit(step: StepView) -> str:
    return f"{step.step} #{step.visit}" if step.visit > 1 else step.step


def _step_row(step: StepView) -> tuple[Cell, ...]:
    reason = step.reason or (f"again at {cells.moment(step.retry_at).text}" if step.retry_at else "")
    return (
        cells.text(_visit(step)),
        cells.step_status(step.status),
        cells.text(step.attempts),
        cells.moment(step.undone_at or step.ended_at),
        Cell(reason),
    )


def _signal_row(signal: SignalView) -> tuple[Cell, ...]:
    payload = msgspec.json.encode(signal.payload).decode()
    return (
        Cell(signal.name),
        cells.signal_state(signal.state),
        cells.moment(signal.at),
        cells.text(signal.id),
        Cell(payload if len(payload) <= _SHORT else f"{payload[:_SHORT]}…"),
    )


def _values(context: JsonObject) -> Iterator[tuple[str, Cell]]:
    for name, value in context.items():
        yield name, Cell(value if isinstance(value, str) else msgspec.json.encode(value).decode())
