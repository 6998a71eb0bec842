"""`incidents list|show|resolve`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import click
import msgspec

from bext_workflow.faces.cli import acts, cells
from bext_workflow.faces.cli.arguments import cursor_option, limit_option
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.paging import show_pages
from bext_workflow.faces.cli.run_card import answers
from bext_workflow.faces.cli.values import OneOf, Parsed, parse_json, parse_object
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action
from bext_workflow.model.view import IncidentView, Page
from bext_workflow.service.protocols import ResolveRequest
from bext_workflow.service.wiring import Reached

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_COLUMNS = ("incident", "kind", "step", "workflow", "opened", "reason")


@click.command("list", cls=Command)
@click.option("--run", "run_id", metavar="RUN", help="Only those of this run.")
@click.option("--all", "with_resolved", is_flag=True, help="Also those that have been answered.")
@limit_option
@cursor_option
@click.pass_obj
def list_incidents(session: Session, run_id: str | None, with_resolved: bool, limit: int, cursor: str | None) -> None:
    """List incidents, newest first: what a person must decide."""

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[IncidentView]]:
        return reached.operations.incidents(run_id=run_id, open_only=not with_resolved, limit=limit, cursor=cursor)

    show_pages(session, fetch, _COLUMNS, _row, limit=limit, cursor=cursor)


@click.command(cls=Command)
@click.argument("incident_id", metavar="INCIDENT")
@click.pass_obj
def show(session: Session, incident_id: str) -> None:
    """Show an incident and the answers that it takes."""
    incident = session.ask(lambda reached: reached.operations.incident(incident_id))
    session.output.show(incident, lambda screen: _draw(screen, incident, session))


@click.command(cls=Command)
@click.argument("incident_id", metavar="INCIDENT")
@click.option("--action", type=OneOf(Action), required=True, help="The answer; the incident tells which it takes.")
@click.option("--note", required=True, help="Why; it is kept in the journal.")
@click.option(
    "--updates",
    type=Parsed("JSON|@FILE|-", parse_object),
    default="{}",
    help="For done: what the step would have set in the context.",
)
@click.option("--next", "next_step", metavar="STEP", help="For done: the step that the run goes on with.")
@click.option(
    "--undo-data", type=Parsed("JSON|@FILE|-", parse_json), help="For done: what the step would have kept for its undo."
)
@click.pass_obj
def resolve(
    session: Session,
    incident_id: str,
    action: Action,
    note: str,
    updates: JsonObject,
    next_step: str | None,
    undo_data: Json,
) -> None:
    """Answer an incident."""
    request = ResolveRequest(action=action, note=note, context_updates=updates, next=next_step, undo_data=undo_data)
    acts.show(session, session.ask(lambda reached: reached.operations.resolve(incident_id, request)))


def _row(incident: IncidentView) -> tuple[Cell, ...]:
    return (
        Cell(incident.id),
        Cell(incident.kind.replace("_", " ")),
        cells.text(incident.step),
        Cell(incident.workflow),
        cells.moment(incident.opened_at),
        Cell(incident.reason),
    )


def _draw(screen: Screen, incident: IncidentView, session: Session) -> None:
    screen.fields(
        [
            ("incident", Cell(incident.id, "bold")),
            ("kind", Cell(incident.kind.replace("_", " "))),
            ("run", Cell(incident.run_id)),
            ("workflow", Cell(incident.workflow)),
            ("step", Cell(incident.step or "–")),
            ("call", Cell(f"{incident.call.value}, visit {incident.visit}, attempt {incident.attempt}")),
            ("key", cells.text(incident.idempotency_key)),
            ("reason", Cell(incident.reason, "red")),
            ("opened", cells.moment(incident.opened_at)),
        ]
    )
    if incident.evidence is not None:
        screen.heading("Evidence")
        screen.block(msgspec.json.format(msgspec.json.encode(incident.evidence)).decode())
    if incident.traceback is not None:
        screen.heading("Traceback")
        screen.block(incident.traceback, "dim")
    if incident.resolution is not None:
        answer = incident.resolution
        screen.heading("Answered")
        screen.say(f"{answer.action} by {answer.by}: {answer.note}")
    else:
        screen.heading("Answers")
        screen.commands(answers(incident, session))
