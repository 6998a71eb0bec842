"""`workflows list|show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.arguments import REFERENCE
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.lookup import missing
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.policy import policy_of
from bext_workflow.faces.cli.values import WorkflowRef
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import JsonObject
from bext_workflow.model.view import PluginView, WorkflowView
from bext_workflow.service.wiring import Reached

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen

_COLUMNS = ("workflow", "plugin", "steps", "description")


@click.command("list", cls=Command)
@click.pass_obj
def list_workflows(session: Session) -> None:
    """List the workflows that can be started."""
    workflows, plugins = session.ask(_look)
    session.output.show_list(
        workflows,
        lambda screen: screen.table(_COLUMNS, map(_row, workflows), flexible=("steps", "description")),
    )
    if unusable := [plugin.name for plugin in plugins if plugin.error is not None]:
        session.output.note(
            f"plugins that cannot be used: {', '.join(unusable)}; see `{session.command('plugins', 'list')}`"
        )


async def _look(reached: Reached) -> tuple[Sequence[WorkflowView], Sequence[PluginView]]:
    return await reached.workflows.workflows(), await reached.workflows.plugins()


@click.command(cls=Command)
@click.argument("workflow", type=REFERENCE, metavar="WORKFLOW[@VERSION]")
@click.pass_obj
def show(session: Session, workflow: WorkflowRef) -> None:
    """Show a workflow and its steps; without a version, the highest."""
    found = _pick(session.ask(lambda reached: reached.workflows.workflows()), workflow)
    session.output.show(found, lambda screen: _draw(screen, found))


def _pick(workflows: Sequence[WorkflowView], wanted: WorkflowRef) -> WorkflowView:
    versions = [found for found in workflows if found.id == wanted.id and wanted.version in (None, found.version)]
    if not versions:
        name = wanted.id if wanted.version is None else f"{wanted.id}@{wanted.version}"
        raise missing("workflow", name, [_name(found) for found in workflows])
    return max(versions, key=lambda found: found.version)


def _name(workflow: WorkflowView) -> str:
    return f"{workflow.id}@{workflow.version}"


def _row(workflow: WorkflowView) -> tuple[Cell, ...]:
    return (
        Cell(_name(workflow)),
        Cell(workflow.plugin),
        cells.listed(step["name"] for step in workflow.steps),
        cells.text(workflow.description),
    )


def _draw(screen: Screen, workflow: WorkflowView) -> None:
    screen.fields(
        [
            ("workflow", Cell(_name(workflow), "bold")),
            ("plugin", Cell(workflow.plugin)),
            ("digest", Cell(workflow.digest)),
            ("longest run", Cell(cells.duration(workflow.timeout_ms)) if workflow.timeout_ms else cells.NOTHING),
            ("description", cells.text(workflow.description)),
        ]
    )
    screen.heading("Steps")
    screen.table(("step", "policy"), map(_step_row, workflow.steps))


def _step_row(view: JsonObject) -> tuple[Cell, ...]:
    step = msgspec.convert(view, StepDefinition)
    said = [f"“{step.description}”"] if step.description else []
    return Cell(step.name), Cell("; ".join([*said, policy_of(step)]))
