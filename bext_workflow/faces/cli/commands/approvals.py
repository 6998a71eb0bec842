"""`approvals list|approve|reject`."""

from __future__ import annotations

from collections.abc import Awaitable

import click

from bext_workflow.faces.cli import acts, cells
from bext_workflow.faces.cli.arguments import cursor_option, limit_option
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.faces.cli.paging import show_pages
from bext_workflow.faces.cli.values import Parsed, parse_json
from bext_workflow.model.json import Json
from bext_workflow.model.view import ApprovalView, Page
from bext_workflow.service.protocols import Acknowledged, CompleteRequest, DecideRequest
from bext_workflow.service.wiring import Reached

_COLUMNS = ("approval", "what", "who may", "since", "due", "decided")


@click.command("list", cls=Command)
@click.option("--run", "run_id", metavar="RUN", help="Only those of this run.")
@click.option("--all", "with_closed", is_flag=True, help="Also those that are over.")
@limit_option
@cursor_option
@click.pass_obj
def list_approvals(session: Session, run_id: str | None, with_closed: bool, limit: int, cursor: str | None) -> None:
    """List approvals: what waits for a decision."""

    def fetch(reached: Reached, limit: int, cursor: str | None) -> Awaitable[Page[ApprovalView]]:
        return reached.approvals.approvals(run_id=run_id, open_only=not with_closed, limit=limit, cursor=cursor)

    show_pages(session, fetch, _COLUMNS, _row, limit=limit, cursor=cursor)


_approval_argument = click.argument("approval", metavar="APPROVAL")
_comment_option = click.option("--comment", default="", help="Why; it is kept with the decision.")
_form_option = click.option(
    "--form",
    type=Parsed("JSON|@FILE|-", parse_json),
    help="What the approval asks for: JSON, @ and a file that holds it, or - for stdin.",
)


@click.command(cls=Command)
@_approval_argument
@_comment_option
@_form_option
@click.pass_obj
def approve(session: Session, approval: str, comment: str, form: Json) -> None:
    """Say yes. APPROVAL is an id, or the beginning of one, or the token of the wait."""
    _decide(session, approval, DecideRequest(approved=True, comment=comment, form=form))


@click.command(cls=Command)
@_approval_argument
@_comment_option
@_form_option
@click.pass_obj
def reject(session: Session, approval: str, comment: str, form: Json) -> None:
    """Say no. APPROVAL is an id, or the beginning of one, or the token of the wait."""
    _decide(session, approval, DecideRequest(approved=False, comment=comment, form=form))


def _decide(session: Session, approval: str, request: DecideRequest) -> None:
    async def decide(reached: Reached) -> Acknowledged:
        if _is_token(approval):
            answer = CompleteRequest(payload=request.form, approved=request.approved, comment=request.comment)
            return await reached.approvals.complete(approval, answer)
        return await reached.approvals.decide(approval, request)

    acts.show(session, session.ask(decide))


def _is_token(approval: str) -> bool:
    """A token is two words of base64; an id has the colon of the run's key, and its beginning no dot before that."""
    return "." in approval and ":" not in approval


def _row(approval: ApprovalView) -> tuple[Cell, ...]:
    who = ", ".join(approval.by) or "anybody"
    decided = "" if approval.resolution is None else f"{approval.resolution.how} {approval.resolution.by}".strip()
    return (
        Cell(approval.id),
        Cell(approval.title or f"{approval.workflow}, {approval.step}"),
        Cell(f"{who}, not the starter" if approval.not_by is not None else who),
        cells.moment(approval.opened_at),
        cells.moment(approval.due_at),
        Cell(decided),
    )
