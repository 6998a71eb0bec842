"""`doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from bext_workflow.errors import Conflict
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.service.health import Diagnosis, Health

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_STYLES = {Health.ERROR: "bold red", Health.WARNING: "yellow", Health.OK: "green"}


@click.command(cls=Command)
@click.option(
    "--bundle",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write what was found into this new file, to be sent to somebody: no secret and no run's context.",
)
@click.pass_obj
def doctor(session: Session, bundle: Path | None) -> Exit:
    """Look at everything that a host rests on.

    Versions, the config, plugins, the store and its schema, clocks, a pooler, disk space, hosts, incidents. The exit
    code is 3 if the config, a plugin or the schema is not as it should be, 6 if something else is not.
    """
    target = session.local_target("doctor")

    async def look() -> Diagnosis:
        return await session.wiring.diagnose(target)

    found = session.run(look)
    if bundle is not None:
        _write(bundle, msgspec.json.format(msgspec.json.encode(found)))
    session.output.show_list(found.checked, lambda screen: _draw(screen, found, bundle))
    broken = {checked.what for checked in found.checked if checked.health is Health.ERROR}
    if not broken:
        return Exit.OK
    return Exit.INVALID if broken & {"config", "plugins", "schema"} else Exit.UNAVAILABLE


def _write(bundle: Path, text: bytes) -> None:
    try:
        descriptor = os.open(bundle, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise Conflict(f"the file {bundle} is there already", mend="give the bundle a name of its own") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(text + b"\n")


def _draw(screen: Screen, found: Diagnosis, bundle: Path | None) -> None:
    for one in found.checked:
        head = Cell(one.health.value, _STYLES[one.health]), Cell(one.what), Cell(one.said)
        screen.entry(head, [Cell(one.mend, "dim")] if one.mend else [])
    if bundle is not None:
        screen.say(f"written to {bundle}")
