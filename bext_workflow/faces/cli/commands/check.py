"""`check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.options import Command
from bext_workflow.service.wiring import Report, Severity

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


@click.command(cls=Command)
@click.option("--strict", is_flag=True, help="Take the warnings that may cost money for errors.")
@click.pass_obj
def check(session: Session, strict: bool) -> Exit:
    """Say what can be known before serving.

    The config, the plugins, the steps of every workflow, what can be undone and what cannot, the policies, and the
    live runs against the definitions. The exit code is 3 if there is an error.
    """
    target = session.local_target("check")

    async def look() -> Report:
        return await session.wiring.check(target, strict=strict)

    report = session.run(look)
    session.output.show(report, lambda screen: _draw(screen, report))
    return Exit.INVALID if _count(report, Severity.ERROR) else Exit.OK


def _count(report: Report, severity: Severity) -> int:
    return sum(finding.severity is severity for finding in report.findings)


def _draw(screen: Screen, report: Report) -> None:
    for finding in report.findings:
        head = Cell(finding.severity.value, _STYLES[finding.severity]), Cell(finding.code), Cell(finding.where)
        screen.entry(head, [Cell(finding.message)], [Cell(finding.mend, "dim")])
    screen.say(
        f"{report.config}: {_counted(len(report.plugins), 'plugin')}, {_counted(len(report.workflows), 'workflow')}: "
        f"{_counted(_count(report, Severity.ERROR), 'error')}, {_counted(_count(report, Severity.WARNING), 'warning')}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
