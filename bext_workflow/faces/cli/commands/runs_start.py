"""`runs start`, `runs fork`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from bext_workflow.faces.cli import exits, run_card
from bext_workflow.faces.cli.arguments import (
    REFERENCE,
    WaitingCommand,
    reason_option,
    run_argument,
    wait_bound,
    wait_option,
)
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.exits import Exit
from bext_workflow.faces.cli.journal import Teller
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.run_card import Card
from bext_workflow.faces.cli.values import (
    Assignment,
    Parsed,
    Tag,
    WorkflowRef,
    assigned,
    parse_assignment,
    parse_object,
    parse_tag,
)
from bext_workflow.model.json import JsonObject
from bext_workflow.service.protocols import ForkRequest, Started, StartRequest
from bext_workflow.service.wiring import Reached


@click.command(cls=WaitingCommand)
@click.argument("workflow", type=REFERENCE, metavar="WORKFLOW[@VERSION]")
@click.option(
    "--input",
    "context",
    type=Parsed("JSON|@FILE|-", parse_object),
    default="{}",
    help="The context to start with: JSON, @ and a file that holds it, or - for stdin.",
)
@click.option(
    "--set",
    "assignments",
    type=Parsed("PATH=VALUE", parse_assignment),
    multiple=True,
    help="Set one value of the context; a path like a.b goes inward, a value that is not JSON is a string. Repeatable.",
)
@click.option("--key", help="Makes the start safe to repeat: the same key answers the same run.")
@click.option(
    "--tag", "tags", type=Parsed("NAME=VALUE", parse_tag), multiple=True, help="A tag to find the run by. Repeatable."
)
@wait_option("Wait until the run has ended, is suspended or waits; at most so long. The exit code tells how it went.")
@click.option("--watch", is_flag=True, help="Wait, and tell on stderr what happens.")
@click.pass_obj
def start(
    session: Session,
    workflow: WorkflowRef,
    context: JsonObject,
    assignments: Sequence[Assignment],
    key: str | None,
    tags: Sequence[Tag],
    wait: int | None,
    watch: bool,
) -> Exit:
    """Start a run of a workflow.

    Without a version the highest that is served is taken. The run is durable when the command returns; with --wait or
    --watch it returns when the run has ended, is suspended or waits.
    """
    request = StartRequest(
        workflow=workflow.id,
        version=workflow.version,
        context=assigned(context, assignments),
        tags=dict(tags),
        key=key,
    )
    waits = wait is not None or watch
    card = session.ask(lambda reached: _start(session, reached, request, wait=wait, watch=watch))
    run_card.show(session, card)
    return exits.of_status(card.run.status) if waits else Exit.OK


async def _start(session: Session, reached: Reached, request: StartRequest, *, wait: int | None, watch: bool) -> Card:
    started = await reached.runs.start(request)
    run_id = started.run.run_id
    if not started.created:
        session.output.note(f"the key was used before: this is run {run_id}")
    elif wait is not None or watch:
        session.output.note(f"run {run_id}")
    if wait is None and not watch:
        if not started.driven:
            session.output.note(f"no host drives this store: run `{session.command('serve')}`, or use --wait")
        return Card(started.run)
    if watch:
        run = await Teller(reached, run_id, session).while_driven(wait_ms=wait_bound(wait))
    else:
        run = await reached.drive(run_id, wait_ms=wait_bound(wait))
    return await run_card.look(reached, run)


@click.command(cls=Command)
@run_argument
@click.option("--at", type=int, metavar="SEQ", help="Begin as of the event of this number; `runs events` has them.")
@click.option("--from", "step", metavar="STEP", help="Begin as the run stood when it came to this step last.")
@click.option("--key", help="Makes the fork safe to repeat: the same key gives the same run.")
@reason_option
@click.pass_obj
def fork(session: Session, run_id: str, at: int | None, step: str | None, key: str | None, reason: str) -> None:
    """Begin a new run where an ended one stood.

    It has the context and the position of that moment, and keys of its own. What the old run had done before is never
    undone by the new one.
    """
    request = ForkRequest(at=at, step=step, reason=reason, key=key)

    async def begin(reached: Reached) -> Card:
        started = await reached.operations.fork(run_id, request)
        _note(session, started)
        return Card(started.run)

    run_card.show(session, session.ask(begin))


def _note(session: Session, started: Started) -> None:
    if not started.created:
        session.output.note(f"the key was used before: this is run {started.run.run_id}")
    if not started.driven:
        session.output.note(f"no host drives this store: run `{session.command('serve')}`, and it goes on")
