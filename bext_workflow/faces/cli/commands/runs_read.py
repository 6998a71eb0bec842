"""`runs list`, `runs show`, `runs events`, `runs why`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import click
import msgspec

from bext_workflow.faces.cli import cells, journal, run_card
from bext_workflow.faces.cli.arguments import REFERENCE, cursor_option, limit_option, run_argument
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.paging import show_pages
from bext_workflow.faces.cli.run_card import Card
from bext_workflow.faces.cli.values import OneOf, Parsed, Tag, WorkflowRef, parse_instant, parse_tag
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from bext_workflow.model.view import EventView, Page, RunView
from bext_workflow.service.protocols import RunQuery
from bext_workflow.service.wiring import Reached

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_RUN_COLUMNS = ("run", "workflow", "status", "step", "created")
_EVENT_COLUMNS = ("seq", "at", "event", "step", "what")

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

_INSTANT = Parsed("INSTANT", parse_instant)


class _Filters(TypedDict):
    """The options of `runs list` that are fields of the query as they are."""

    status: tuple[WorkflowStatus, ...]
    tags: dict[str, str]
    since: str | None
    until: str | None
    incident: IncidentKind | None


def _as_dict(context: click.Context, option: click.Parameter, tags: Sequence[Tag]) -> dict[str, str]:
    return dict(tags)


@click.command("list", cls=Command)
@click.option("--workflow", type=REFERENCE, metavar="WORKFLOW[@VERSION]", help="Only runs of this workflow.")
@click.option(
    "--status",
    type=OneOf(WorkflowStatus),
    multiple=True,
    help="Only runs in this status. Repeatable.",
)
@click.option(
    "--tag",
    "tags",
    type=Parsed("NAME=VALUE", parse_tag),
    multiple=True,
    callback=_as_dict,
    help="Only runs with this tag. Repeatable.",
)
@click.option("--since", type=_INSTANT, help="Only runs created then or later.")
@click.option("--until", type=_INSTANT, help="Only runs created before.")
@click.option(
    "--incident",
    type=OneOf(IncidentKind),
    help="Only runs with an open incident of this kind.",
)
@limit_option
@cursor_option
@click.pass_obj
def list_runs(
    session: Session, workflow: WorkflowRef | None, limit: int, cursor: str | None, **filters: Unpack[_Filters]
) -> None:
    """List runs, newest first."""
    name, version = workflow or (None, None)
    query = RunQuery(workflow=name, version=version, **filters)

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[RunView]]:
        return reached.runs.list(msgspec.structs.replace(query, limit=limit, cursor=cursor))

    show_pages(session, fetch, _RUN_COLUMNS, _run_row, limit=limit, cursor=cursor, spare="step")


@click.command(cls=Command)
@run_argument
@click.pass_obj
def show(session: Session, run_id: str) -> None:
    """Show a run: its steps, its context, what holds it.

    RUN is the run's id, or as much of its beginning as no other run has.
    """

    async def fetch(reached: Reached) -> Card:
        return await run_card.look(reached, await reached.runs.get(run_id))

    run_card.show(session, session.ask(fetch))


@click.command(cls=Command)
@run_argument
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only events with a higher seq than this.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many; else all.")
@click.pass_obj
def events(session: Session, run_id: str, after: int, limit: int | None) -> None:
    """List the journal of a run, oldest first."""

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[EventView]]:
        return reached.runs.events(run_id, after=int(cursor) if cursor else after, limit=limit)

    show_pages(session, fetch, _EVENT_COLUMNS, _event_row, limit=limit, go_on="--after")


def _run_row(run: RunView) -> tuple[Cell, ...]:
    return (
        Cell(run.run_id),
        Cell(f"{run.workflow}@{run.version}"),
        cells.status(run.status),
        cells.text(run.step),
        cells.moment(run.created_at),
    )


def _event_row(event: EventView) -> tuple[Cell, ...]:
    return (
        cells.text(event.seq),
        cells.exact_moment(event.at),
        Cell(journal.words(event)),
        cells.text(journal.step_of(event)),
        Cell(journal.detail(event)),
    )


@click.command(cls=Command)
@run_argument
@click.pass_obj
def why(session: Session, run_id: str) -> None:
    """Say why a run stands where it does, and what may happen next.

    What it waits for, since when, what holds it; and what follows on each thing that may happen.
    """
    told = session.ask(lambda reached: reached.runs.why(run_id))

    def draw(screen: Screen) -> None:
        screen.say(_in_local_time(told.text))
        if told.next:
            screen.heading("What may happen next")
            screen.commands((_in_local_time(one.then), _in_local_time(one.on)) for one in told.next)

    session.output.show(told, draw)


def _in_local_time(text: str) -> str:
    return _RFC_3339.sub(lambda found: cells.moment(found[0]).text, text)
