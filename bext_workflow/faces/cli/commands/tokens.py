"""`tokens create|list|revoke`."""

from __future__ import annotations

import click

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.arguments import DURATION
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.model.view import TokenState, TokenView
from bext_workflow.service.administration import DEFAULT_EXPIRY_MS, TokenRequest

_COLUMNS = ("token", "state", "may", "roles", "made", "expires")
_STYLES = {TokenState.ACTIVE: "green", TokenState.EXPIRED: "yellow", TokenState.REVOKED: "dim"}

_reason_option = click.option("--reason", default="", help="Why; the audit keeps it.")


@click.command(cls=Command)
@click.argument("name", metavar="NAME")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="SCOPE",
    help="What it may: view, reveal, start:WORKFLOW, signal:WORKFLOW (* is every one), operate, admin. Repeat it.",
)
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="What approvals may call its holder. Repeat it.")
@click.option("--expires", type=DURATION, default=None, help="After how long it is over; without it, 90 days.")
@click.option("--no-expiry", is_flag=True, help="It is good until it is revoked.")
@_reason_option
@click.pass_obj
def create(
    session: Session,
    name: str,
    scopes: tuple[str, ...],
    roles: tuple[str, ...],
    expires: int | None,
    no_expiry: bool,
    reason: str,
) -> None:
    """Make an access token, and show its text: this once.

    The first one puts a guard before the host's API for good. admin holds every other scope.
    """
    if no_expiry and expires is not None:
        raise click.UsageError("--expires and --no-expiry exclude one another")
    lasts = None if no_expiry else DEFAULT_EXPIRY_MS if expires is None else expires
    request = TokenRequest(name=name, scopes=list(scopes), roles=list(roles), expires_in_ms=lasts, reason=reason)
    created = session.ask(lambda reached: reached.tokens.create_token(request))
    session.output.show(
        created,
        lambda screen: screen.fields(
            [
                ("token", Cell(created.token, "bold")),
                ("name", Cell(created.made.name)),
                ("may", cells.listed(created.made.scopes)),
                ("expires", cells.text(created.made.expires_at)),
            ]
        ),
    )
    session.output.note("keep the token now: it is kept nowhere, and cannot be shown again")


@click.command("list", cls=Command)
@click.pass_obj
def list_tokens(session: Session) -> None:
    """List the access tokens, those that are over too, the newest first."""
    tokens = session.ask(lambda reached: reached.tokens.tokens())
    session.output.show_list(tokens, lambda screen: screen.table(_COLUMNS, map(_row, tokens), spare="roles"))


@click.command(cls=Command)
@click.argument("token", metavar="TOKEN")
@_reason_option
@click.pass_obj
def revoke(session: Session, token: str, reason: str) -> None:
    """Make a token good for nothing, within a second. TOKEN is its name, or its id or the beginning of one."""
    revoked = session.ask(lambda reached: reached.tokens.revoke_token(token, reason))
    session.output.show(revoked, lambda screen: screen.say(f"the token {revoked.name} is revoked"))


def _row(token: TokenView) -> tuple[Cell, ...]:
    return (
        Cell(token.name, "bold"),
        Cell(token.state.value, _STYLES[token.state]),
        cells.listed(token.scopes),
        cells.listed(token.roles),
        cells.moment(token.created_at),
        cells.moment(token.expires_at),
    )
