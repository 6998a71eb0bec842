"""`schedules list|next|pause|resume|trigger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from bext_workflow.faces.cli import cells, exits, run_card
from bext_workflow.faces.cli.arguments import WaitingCommand, wait_bound, wait_option
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.run_card import Card
from bext_workflow.model.view import FireView, ScheduleView
from bext_workflow.service.protocols import DEFAULT_FIRES, TriggerRequest
from bext_workflow.service.wiring import Reached

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

F = TypeVar("F", bound=Callable[..., object])

_COLUMNS = ("schedule", "workflow", "cron", "zone", "next", "last", "became")


def _schedule_argument(function: F) -> F:
    return click.argument("schedule_id", metavar="SCHEDULE")(function)


def _reason_option(function: F) -> F:
    return click.option("--reason", default="", help="Why; the audit keeps it.")(function)


@click.command("list", cls=Command)
@click.pass_obj
def list_schedules(session: Session) -> None:
    """List the schedules of the config, and how they stand."""
    schedules = session.ask(lambda reached: reached.schedules.schedules())
    session.output.show_list(schedules, lambda screen: screen.table(_COLUMNS, map(_row, schedules)))


@click.command("next", cls=Command)
@_schedule_argument
@click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_FIRES, show_default=True, help="How many instants."
)
@click.pass_obj
def next_fires(session: Session, schedule_id: str, limit: int) -> None:
    """Show when a schedule comes round next, paused or not."""
    fires = session.ask(lambda reached: reached.schedules.fires(schedule_id, limit=limit))
    session.output.show_list(fires, lambda screen: screen.table(("in its zone", "here"), map(_fire_row, fires)))


@click.command(cls=Command)
@_schedule_argument
@_reason_option
@click.pass_obj
def pause(session: Session, schedule_id: str, reason: str) -> None:
    """Let a schedule start nothing, until somebody lets it go on."""
    _show(session, session.ask(lambda reached: reached.schedules.pause_schedule(schedule_id, reason)))


@click.command(cls=Command)
@_schedule_argument
@_reason_option
@click.pass_obj
def resume(session: Session, schedule_id: str, reason: str) -> None:
    """Let a paused schedule go on.

    What it missed meanwhile is made up for as its catch_up says: the latest instant, all of them or none.
    """
    _show(session, session.ask(lambda reached: reached.schedules.resume_schedule(schedule_id, reason)))


@click.command(cls=WaitingCommand)
@_schedule_argument
@_reason_option
@click.option("--key", help="Makes it safe to repeat: the same key answers the same run.")
@wait_option("Wait until the run has ended, is suspended or waits; at most so long. The exit code tells how it went.")
@click.pass_obj
def trigger(session: Session, schedule_id: str, reason: str, key: str | None, wait: int | None) -> Exit:
    """Start a run of a schedule now, paused or not.

    While a run of it is live, only a schedule with overlap = "allow" starts another.
    """
    request = TriggerRequest(reason=reason, key=key)
    card = session.ask(lambda reached: _trigger(session, reached, schedule_id, request, wait))
    run_card.show(session, card)
    return Exit.OK if wait is None else exits.of_status(card.run.status)


async def _trigger(
    session: Session, reached: Reached, schedule_id: str, request: TriggerRequest, wait: int | None
) -> Card:
    started = await reached.schedules.trigger_schedule(schedule_id, request)
    run_id = started.run.run_id
    if not started.created:
        session.output.note(f"the key was used before: this is run {run_id}")
    if wait is None:
        if not started.driven:
            session.output.note("no host drives this store: run `bext-host serve`, or use --wait")
        return Card(started.run)
    session.output.note(f"run {run_id}")
    return await run_card.look(reached, await reached.drive(run_id, wait_ms=wait_bound(wait)))


def _show(session: Session, schedule: ScheduleView) -> None:
    session.output.show(schedule, lambda screen: _draw(screen, schedule))


def _draw(screen: Screen, schedule: ScheduleView) -> None:
    screen.fields(
        [
            ("schedule", Cell(schedule.id, "bold")),
            ("workflow", Cell(_workflow(schedule))),
            ("cron", Cell(f"{schedule.cron} {schedule.timezone}")),
            ("next", _next(schedule)),
        ]
    )


def _row(schedule: ScheduleView) -> tuple[Cell, ...]:
    return (
        Cell(schedule.id),
        Cell(_workflow(schedule)),
        Cell(schedule.cron),
        Cell(schedule.timezone),
        _next(schedule),
        cells.moment(schedule.last_slot),
        cells.text(schedule.last_result),
    )


def _fire_row(fire: FireView) -> tuple[Cell, ...]:
    return Cell(fire.local), cells.moment(fire.at)


def _workflow(schedule: ScheduleView) -> str:
    return schedule.workflow if schedule.version is None else f"{schedule.workflow}@{schedule.version}"


def _next(schedule: ScheduleView) -> Cell:
    if schedule.paused:
        return Cell("paused", "bold magenta")
    return cells.moment(schedule.next_at) if schedule.enabled else Cell("not enabled", "dim")
