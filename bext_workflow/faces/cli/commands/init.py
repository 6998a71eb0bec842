"""`init`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen


@click.command(cls=Command)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.pass_obj
def init(session: Session, folder: Path) -> None:
    """Write a config, a plugin package and a test, ready to run, and say what to do next.

    Into DIR, or here. A file that is there already is never overwritten.
    """
    written = [str(path) for path in session.wiring.scaffold(folder)]
    following = list(_following(session, folder))
    session.output.show(
        {"folder": str(folder), "files": written, "next": [line for _, line in following]},
        lambda screen: _draw(screen, written, following),
    )


def _following(session: Session, folder: Path) -> Iterator[tuple[str, str]]:
    """What each further line does, and the line to type where `init` was typed."""
    installer = ["pip"] if find_spec("pip") is not None else ["uv", "pip"]
    session.settings.config = None if folder == Path() else folder / "bext.config.toml"
    session.settings.url = None
    yield (
        "install the plugin where the host runs, so that your changes to it count",
        shlex.join([*installer, "install", "-e", str(folder)]),
    )
    yield "see whether all fits together", session.command("check")
    yield "serve it", session.command("serve")
    yield "start a run, in another terminal", session.command("runs", "start", "order", "--wait")


def _draw(screen: Screen, written: Sequence[str], following: Sequence[tuple[str, str]]) -> None:
    screen.table(("written",), ((Cell(path),) for path in written))
    screen.heading("What to do next")
    screen.commands(following)
