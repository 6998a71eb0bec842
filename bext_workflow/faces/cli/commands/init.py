"""`init`."""

from __future__ import annotations

from pathlib import Path

import click

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command


@click.command(cls=Command)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.pass_obj
def init(session: Session, folder: Path) -> None:
    """Write a config, a plugin package and a test, ready to run.

    Into DIR, or here. A file that is there already is never overwritten.
    """
    written = [str(path) for path in session.wiring.scaffold(folder)]
    session.output.show(
        {"folder": str(folder), "files": written},
        lambda screen: screen.table(("written",), ((Cell(path),) for path in written)),
    )
