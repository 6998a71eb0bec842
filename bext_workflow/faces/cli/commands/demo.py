"""`demo`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from bext_workflow.faces.cli.context import Session, to_type
from bext_workflow.faces.cli.demo import orders
from bext_workflow.faces.cli.demo.board import COLUMNS, Board
from bext_workflow.faces.cli.demo.host import running
from bext_workflow.faces.cli.demo.play import order_all, watch
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.run_card import answers
from bext_workflow.faces.cli.screen import Screen, Show
from bext_workflow.model.view import IncidentView
from bext_workflow.service.wiring import Target

LEDGER = "bext_workflow_pg"
"""The reference plugin's module; run as a program it shows the balance of a ledger."""


@click.command(cls=Command)
@click.option("--crash", is_flag=True, help="Kill the host in the middle, and start it again.")
@click.pass_obj
def demo(session: Session, crash: bool) -> Exit:
    """See the checkout saga at work, in a folder of its own.

    A host is started there and given orders of every kind: such that go well, that are retried, that are rolled back.
    The folder stays, for you to look into.
    """
    folder = Path(tempfile.mkdtemp(prefix="bext-demo-"))
    config = folder / "bext.config.toml"
    config.write_text(orders.CONFIG, encoding="utf-8")
    session.output.note(f"the demo's host runs in {folder}")
    end = session.run(partial(_play, session, folder, crash=crash))
    if _as_json(session):
        session.output.show_list([line.run for line in end.board.lines], lambda screen: None)
    else:
        session.settings.config, session.settings.url = config, None  # where the lines act that are shown to be typed
        _sum_up(Screen(sys.stdout), end, folder, session)
    return Exit.UNEXPECTED if end.board.surprises else Exit.OK


class _End(NamedTuple):
    """What is left when all runs have ended."""

    board: Board
    incidents: Sequence[IncidentView]


def _as_json(session: Session) -> bool:
    """Only on demand: the demo is for people, whatever its output is."""
    return session.settings.output in {"json", "jsonl"}


async def _play(session: Session, folder: Path, *, crash: bool) -> _End:
    async with running(folder) as host, session.wiring.reach(Target(url=host.url)) as reached:
        board = await order_all(reached.runs)
        if _as_json(session):
            await watch(reached.runs, board, host, lambda: None, crash=crash)
        else:
            with Screen(sys.stdout).live() as show:
                draw = partial(_draw, board, show)
                await watch(reached.runs, board, host, draw, crash=crash)
        page = await reached.operations.incidents()
        return _End(board, page.items)


def _draw(board: Board, show: Show) -> None:
    show(COLUMNS, board.rows(), board.headline)


def _sum_up(screen: Screen, end: _End, folder: Path, session: Session) -> None:
    screen.heading(end.board.totals())
    for line in end.board.surprises:
        screen.say(f"{line.order.shows}: {line.run.status}, where {line.order.ends} was due", "red")
    screen.heading("What to try next")
    screen.commands(
        [
            ("list the runs", session.command("runs", "list")),
            ("show the ledger's balance", to_type("python", "-m", LEDGER, str(folder / "ledger.db"))),
            ("start the host again", session.command("serve")),
        ]
    )
    for incident in end.incidents:
        screen.heading(f"A person must decide about {incident.step}: {incident.reason}")
        screen.commands(answers(incident, session))
