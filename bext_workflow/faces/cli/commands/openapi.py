"""`openapi`."""

from __future__ import annotations

import click
import msgspec

from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command


@click.command(cls=Command)
@click.pass_obj
def openapi(session: Session) -> None:
    """Print the description of the HTTP API, OpenAPI 3.1 as JSON.

    A host serves the same at /openapi.json.
    """
    text = msgspec.json.encode(session.wiring.openapi())
    click.echo(msgspec.json.format(text, indent=2))
