"""`plan`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.service.wiring import Change, VersionPlan

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_STYLES = {Change.GRAPH: "bold red", Change.UNSERVED: "yellow", Change.POLICY: "cyan", Change.NEW: "green"}


class _Plan(msgspec.Struct, frozen=True):
    """All of it, as data: `refused` says that `serve` would not start."""

    refused: bool
    versions: list[VersionPlan]


@click.command(cls=Command)
@click.pass_obj
def plan(session: Session) -> Exit:
    """Say what the config means for the live runs, before it is served.

    Other retries, time-outs and words hold from the next attempt on. Another graph under the same version is refused by
    serve while runs of it are live; the exit code is then 3.
    """
    target = session.local_target("plan")

    async def look() -> Sequence[VersionPlan]:
        return await session.wiring.plan(target)

    versions = list(session.run(look))
    whole = _Plan(refused=any(one.change is Change.GRAPH for one in versions), versions=versions)
    session.output.show(whole, lambda screen: _draw(screen, whole))
    return Exit.INVALID if whole.refused else Exit.OK


def _draw(screen: Screen, plan: _Plan) -> None:
    for one in plan.versions:
        head = Cell(f"{one.workflow}@{one.version}", "bold"), Cell(_meaning(one), _STYLES.get(one.change, "dim"))
        screen.entry(head, *([Cell(line)] for line in one.lines))
    screen.say("serve refuses this config" if plan.refused else "serve takes this config")


def _meaning(one: VersionPlan) -> str:
    runs = {0: "no live run", 1: "1 live run"}.get(one.live, f"{one.live} live runs")
    alone = one.live == 1
    match one.change:
        case Change.NONE:
            return f"nothing changes; {runs}"
        case Change.NEW:
            return "new"
        case Change.POLICY:
            takes = "takes this up with its" if alone else "take this up with their"
            return f"{runs} {takes} next attempt" if one.live else "other policy; no live run"
        case Change.GRAPH:
            ended = "it has" if alone else "they have"
            return f"another graph under {runs}: give it a new version, and serve the old one until {ended} ended"
        case Change.UNSERVED:
            return f"{runs} {'waits' if alone else 'wait'} until a host serves this version again"
