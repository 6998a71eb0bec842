"""`audit list|export`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypedDict, TypeVar, Unpack

import click
import msgspec
from msgspec.structs import replace

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.arguments import cursor_option, limit_option
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.paging import show_pages
from bext_workflow.faces.cli.values import Parsed, parse_instant
from bext_workflow.model.view import AuditView, Page
from bext_workflow.service.administration import AuditQuery
from bext_workflow.service.protocols import MAX_LIMIT
from bext_workflow.service.wiring import Reached

F = TypeVar("F", bound=Callable[..., object])

_COLUMNS = ("at", "by", "act", "about", "reason")
_INSTANT = Parsed("INSTANT", parse_instant)


class _Filters(TypedDict):
    """The options that are fields of the query as they are."""

    run_id: str | None
    about: str | None
    by: str | None
    act: str | None
    since: str | None
    until: str | None


def _filters(function: F) -> F:
    for option in (
        click.option("--until", type=_INSTANT, help="Only what was done before."),
        click.option("--since", type=_INSTANT, help="Only what was done then or later."),
        click.option("--act", metavar="ACT", help="Only such acts, as run.cancel."),
        click.option("--by", metavar="WHO", help="Only what they did: ada, or token:ci."),
        click.option("--about", metavar="THING", help="Only acts on this: schedule:nightly, token:ci."),
        click.option("--run", "run_id", metavar="RUN", help="Only acts on this run."),
    ):
        function = option(function)
    return function


@click.command("list", cls=Command)
@_filters
@limit_option
@cursor_option
@click.pass_obj
def list_audit(session: Session, limit: int, cursor: str | None, **filters: Unpack[_Filters]) -> None:
    """List what persons and programs have done, newest first."""
    query = AuditQuery(**filters)

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[AuditView]]:
        return reached.audit.audit(replace(query, limit=limit, cursor=cursor))

    show_pages(session, fetch, _COLUMNS, _row, limit=limit, cursor=cursor, spare="reason")


@click.command(cls=Command)
@_filters
@click.pass_obj
def export(session: Session, **filters: Unpack[_Filters]) -> None:
    """Write all of it to stdout, oldest first: one JSON object a line."""
    query = AuditQuery(**filters, oldest_first=True, limit=MAX_LIMIT)

    async def write(reached: Reached) -> None:
        cursor: str | None = None
        while True:
            page = await reached.audit.audit(replace(query, cursor=cursor))
            for act in page.items:
                click.echo(msgspec.json.encode(act))
            cursor = page.next_cursor
            if cursor is None:
                return

    session.ask(write)


def _row(act: AuditView) -> tuple[Cell, ...]:
    about = ", ".join(part for part in (act.run_id, act.about) if part is not None)
    return cells.exact_moment(act.at), Cell(act.by, "bold"), Cell(act.act), cells.text(about), cells.text(act.reason)
