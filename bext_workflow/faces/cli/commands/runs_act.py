"""`runs cancel`, `runs retry`, `runs signal`, `runs pause`, `runs resume`."""

from __future__ import annotations

import sys

import click

from bext_workflow.errors import UsageError
from bext_workflow.faces.cli import acts, cells
from bext_workflow.faces.cli.arguments import reason_option, run_argument
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.values import Parsed, parse_json
from bext_workflow.model.json import Json
from bext_workflow.service.protocols import CancelPlan, CancelRequest, RetryRequest, SignalRequest


@click.command(cls=Command)
@run_argument
@reason_option
@click.option("--no-compensate", is_flag=True, help="Undo nothing: what was done is left in place.")
@click.option("--now", is_flag=True, help="Interrupt the running attempt: nobody will know whether it has acted.")
@click.option("--dry-run", is_flag=True, help="Only say what would be undone.")
@click.pass_obj
def cancel(session: Session, run_id: str, reason: str, no_compensate: bool, now: bool, dry_run: bool) -> None:
    """Stop a run and undo what it has done.

    A running attempt goes on to its end first, and its result counts.
    """
    request = CancelRequest(reason=reason, compensate=not no_compensate, now=now)
    if dry_run:
        _show_plan(session, session.ask(lambda reached: reached.operations.plan_cancel(run_id, request)))
        return
    if now:
        _confirm_now(session)
    acts.show(session, session.ask(lambda reached: reached.operations.cancel(run_id, request)))


@click.command(cls=Command)
@run_argument
@reason_option
@click.option(
    "--from", "step", metavar="STEP", help="Go on from this step, as a new visit; else the failed step again."
)
@click.option("--new-visit", is_flag=True, help="Give the failed step a new key.")
@click.pass_obj
def retry(session: Session, run_id: str, reason: str, step: str | None, new_visit: bool) -> None:
    """Set a failed run going again: the failed step, or the failed undo."""
    request = RetryRequest(reason=reason, step=step, new_visit=new_visit)
    acts.show(session, session.ask(lambda reached: reached.operations.retry(run_id, request)))


@click.command(cls=Command)
@run_argument
@click.argument("name", metavar="NAME")
@click.option(
    "--payload",
    type=Parsed("JSON|@FILE|-", parse_json),
    help="What the run is told: JSON, @ and a file that holds it, or - for stdin; else null.",
)
@click.option(
    "--id", "signal_id", metavar="ID", help="Makes it safe to repeat: of two with one id the second is ignored."
)
@click.pass_obj
def signal(session: Session, run_id: str, name: str, payload: Json, signal_id: str | None) -> None:
    """Send a signal to a run: to the wait that wants it, now or later.

    `runs show` tells what a run waits for.
    """
    request = SignalRequest(name=name, payload=payload, id=signal_id)
    acts.show(session, session.ask(lambda reached: reached.operations.signal(run_id, request)))


@click.command(cls=Command)
@run_argument
@reason_option
@click.pass_obj
def pause(session: Session, run_id: str, reason: str) -> None:
    """Hold a run: nothing new starts, until somebody lets it go on.

    A running attempt goes on to its end, signals are accepted, and the time of waits and of the run itself passes.
    """
    acts.show(session, session.ask(lambda reached: reached.operations.pause(run_id, reason)))


@click.command(cls=Command)
@run_argument
@reason_option
@click.pass_obj
def resume(session: Session, run_id: str, reason: str) -> None:
    """Let a paused run go on."""
    acts.show(session, session.ask(lambda reached: reached.operations.resume(run_id, reason)))


def _confirm_now(session: Session) -> None:
    """An interrupted attempt may have acted, or not. Raises `Abort` for a no, `UsageError` if nobody can be asked."""
    session.output.warn("--now interrupts the running attempt: whether it has acted will be unknown")
    if session.settings.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("cancel --now must be confirmed, and there is nobody to ask", mend="add --yes")
    click.confirm("Interrupt it?", abort=True, err=True)


def _show_plan(session: Session, plan: CancelPlan) -> None:
    session.output.show(
        plan,
        lambda screen: screen.fields(
            [
                ("run", cells.text(plan.run_id)),
                ("status", cells.status(plan.status)),
                ("would undo", cells.text(", then ".join(plan.undo))),
                ("would leave in place", cells.listed(plan.left_in_place)),
                ("note", cells.text(plan.note)),
            ]
        ),
    )
