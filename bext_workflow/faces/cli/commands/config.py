"""`config show`."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.options import Command
from bext_workflow.model.json import Json


@click.command(cls=Command)
@click.pass_obj
def show(session: Session) -> None:
    """Show the config in effect: defaults filled in, secrets left out."""
    config = session.wiring.config(session.local_target("config show"))
    session.output.show(config, lambda screen: screen.table(("key", "value"), _rows(config)))


def _rows(node: Json, path: str = "") -> Iterator[tuple[Cell, ...]]:
    """One row a value, under the key path that errors of the config use."""
    match node:
        case dict() if node:
            for name, inner in node.items():
                yield from _rows(inner, f"{path}.{name}" if path else name)
        case list() if any(isinstance(inner, dict) for inner in node):
            for index, inner in enumerate(node):
                yield from _rows(inner, f"{path}[{index}]")
        case _:
            yield Cell(path), Cell(msgspec.json.encode(node).decode())
