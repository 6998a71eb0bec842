"""`db status|migrate|copy|prune|backup`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command

if TYPE_CHECKING:
    from bext_workflow.service.wiring import StoreBackup, StoreCopy, StorePruned, StoreStatus, Target

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


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only tell how much it would be.")
@click.pass_obj
def prune(session: Session, dry_run: bool) -> None:
    """Remove what is older than the config keeps it.

    Runs that have ended go with their sub-workflows, as [host.retention] says, and start keys of runs that are gone, as
    start_keys_days says. A host does this by itself, in small batches.
    """
    target = session.local_target("db prune")

    async def pruned() -> StorePruned:
        return await session.wiring.prune_store(target, dry_run=dry_run)

    done = session.run(pruned)
    session.output.show(
        done,
        lambda screen: screen.fields(
            [("store", Cell(done.store)), ("dry run", Cell("yes" if done.dry_run else "no"))]
            + [(status, Cell(str(count))) for status, count in done.runs.items()]
            + [("start keys", Cell(str(done.start_keys)))]
        ),
    )


@click.command(cls=Command)
@click.argument("to", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def backup(session: Session, to: Path) -> None:
    """Write a copy of the whole store into a new file, while hosts go on.

    It is of one moment, and is there whole or not at all. For a store in PostgreSQL this says which of its tools does
    that.
    """
    target = session.local_target("db backup")

    async def written() -> StoreBackup:
        return await session.wiring.back_up_store(target, to)

    done = session.run(written)
    session.output.show(
        done,
        lambda screen: screen.fields(
            [("store", Cell(done.store)), ("to", Cell(done.to, "bold")), ("bytes", Cell(str(done.bytes)))]
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
