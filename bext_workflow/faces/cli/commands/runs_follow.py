"""`runs watch`, `runs result`: commands that wait for a run and drive nothing."""

from __future__ import annotations

import click

from bext_workflow.faces.cli import exits, run_card
from bext_workflow.faces.cli.arguments import FOREVER, WaitingCommand, run_argument, wait_option
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.journal import Teller
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.run_card import Card
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.service.wiring import Reached

_LONG_MS = 600_000


@click.command(cls=Command)
@run_argument
@click.pass_obj
def watch(session: Session, run_id: str) -> Exit:
    """Follow a run until it has ended.

    What happens is told on stderr, the run itself comes on stdout in the end. A run that is suspended is followed on:
    someone may answer its incident meanwhile.
    """

    async def follow(reached: Reached) -> Card:
        return await run_card.look(reached, await Teller(reached, run_id, session).until_terminal())

    return _show(session, session.ask(follow))


@click.command(cls=WaitingCommand)
@run_argument
@wait_option("Wait until the run has ended, is suspended or waits; at most so long.")
@click.pass_obj
def result(session: Session, run_id: str, wait: int | None) -> Exit:
    """Show how a run ended; the exit code tells it too.

    0 completed, 10 compensated, 11 failed, 12 cancelled, 13 not ended yet, 14 suspended.
    """

    async def fetch(reached: Reached) -> Card:
        return await run_card.look(reached, await _result(reached, run_id, wait or 0))

    return _show(session, session.ask(fetch))


async def _result(reached: Reached, run_id: str, wait: int) -> RunView:
    if wait != FOREVER:
        return await reached.runs.result(run_id, wait_ms=wait)
    while True:
        run = await reached.runs.result(run_id, wait_ms=_LONG_MS)
        if run.status.terminal or run.status in {WorkflowStatus.SUSPENDED, WorkflowStatus.WAITING}:
            return run


def _show(session: Session, card: Card) -> Exit:
    run_card.show(session, card)
    return exits.of_status(card.run.status)
