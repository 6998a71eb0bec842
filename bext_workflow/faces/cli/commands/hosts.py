"""`hosts list`."""

from __future__ import annotations

import click

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.model.view import DriverView

_COLUMNS = ("host", "machine", "pid", "since", "serves")


@click.command("list", cls=Command)
@click.pass_obj
def list_hosts(session: Session) -> None:
    """List the hosts that drive this store.

    A command that drives one run, as `runs start --wait` may, is one too for so long.
    """
    hosts = session.ask(lambda reached: reached.hosts.hosts())
    session.output.show_list(hosts, lambda screen: screen.table(_COLUMNS, map(_row, hosts), spare="serves"))


def _row(host: DriverView) -> tuple[Cell, ...]:
    return (
        Cell(host.host_id, "bold"),
        Cell(host.hostname),
        Cell(str(host.pid)),
        cells.moment(host.started_at),
        cells.listed(host.serves) if host.only is None else Cell(f"run {host.only} alone"),
    )
