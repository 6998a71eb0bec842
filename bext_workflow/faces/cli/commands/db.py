"""`db status|migrate|copy`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command

if TYPE_CHECKING:
    from bext_workflow.service.wiring import StoreCopy, StoreStatus, Target

_COLOURS = {"ready": "green", "empty": "yellow", "older": "yellow", "newer": "red"}


@click.command(cls=Command)
@click.pass_obj
def status(session: Session) -> None:
    """Show whether the store's schema is the one that this program speaks.

    ready: it is. empty: there are no tables yet. older: `db migrate` brings it up to date. newer: upgrade the program.
    """
    _show(session, "db status", session.wiring.store_status)


@click.command(cls=Command)
@click.pass_obj
def migrate(session: Session) -> None:
    """Bring the store's schema up to date, or make it.

    Several at once do it once; one that is cut off is gone on with by the next.
    """
    _show(session, "db migrate", session.wiring.migrate_store)


@click.command(cls=Command)
@click.option("--to", required=True, metavar="URL", help="The other store, such as postgresql://USER@HOST/DATABASE.")
@click.pass_obj
def copy(session: Session, to: str) -> None:
    """Copy everything into another store, such as from SQLite to PostgreSQL.

    Definitions, live and ended runs, signals, timers, incidents, approvals, schedules, start keys, tokens and the audit
    go over, in one transaction: all of it, or nothing. Stop the hosts first. The tables of the other store are made;
    one that holds something is refused. Then name it in host.store, and serve.
    """
    target = session.local_target("db copy")

    async def copied() -> StoreCopy:
        return await session.wiring.copy_store(target, to)

    done = session.run(copied)
    session.output.show(
        done,
        lambda screen: screen.fields(
            [("store", Cell(done.store)), ("to", Cell(done.to, "bold"))]
            + [(table, Cell(str(count))) for table, count in done.rows.items()]
        ),
    )


def _show(session: Session, what: str, look: Callable[[Target], Awaitable[StoreStatus]]) -> None:
    target = session.local_target(what)

    async def asked() -> StoreStatus:
        return await look(target)

    found = session.run(asked)
    session.output.show(
        found,
        lambda screen: screen.fields(
            [
                ("store", Cell(found.store, "bold")),
                ("schema", Cell(str(found.schema))),
                ("spoken", Cell(str(found.spoken))),
                ("state", Cell(found.state, _COLOURS[found.state])),
            ]
        ),
    )
