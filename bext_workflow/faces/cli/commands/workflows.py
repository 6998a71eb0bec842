"""`workflows list|show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.arguments import REFERENCE
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.lookup import missing
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.values import WorkflowRef
from bext_workflow.model.json import JsonObject
from bext_workflow.model.view import WorkflowView

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen


@click.command("list", cls=Command)
@click.pass_obj
def list_workflows(session: Session) -> None:
    """List the workflows that can be started."""
    workflows = session.ask(lambda reached: reached.workflows.workflows())
    session.output.show_list(
        workflows,
        lambda screen: screen.table(("workflow", "plugin", "steps", "description"), map(_row, workflows)),
    )


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
    screen.table(("step", "waits", "policy"), map(_step_row, workflow.steps))


def _step_row(step: JsonObject) -> tuple[Cell, ...]:
    """What the host waits for, and whatever else a step says beside its name, in the config's own words."""
    said = (f"{name}={_brief(value)}" for name, value in step.items() if name not in ("name", "wait", "sleep_ms"))
    return Cell(step["name"]), cells.text(_waits(step)), Cell("  ".join(said))


def _waits(step: JsonObject) -> str:
    """`for signal approved, at most 3d, then remind`."""
    if step.get("sleep_ms"):
        return f"for {cells.duration(step['sleep_ms'])}"
    wait = step.get("wait") or {}
    parts = [f"for signal {wait['signal']}"] if wait else []
    if wait.get("into"):
        parts.append(f"into {wait['into']}")
    if wait.get("timeout_ms"):
        parts.append(f"at most {cells.duration(wait['timeout_ms'])}")
    if wait.get("on_timeout"):
        parts.append(f"then {wait['on_timeout']}")
    return ", ".join(parts)


def _brief(value: object) -> str:
    match value:
        case dict():
            return "{" + " ".join(f"{name}={_brief(inner)}" for name, inner in value.items()) + "}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
