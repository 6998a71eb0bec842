"""`plugins list|show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bext_workflow.faces.cli import cells
from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.faces.cli.lookup import missing
from bext_workflow.faces.cli.options import Command
from bext_workflow.model.view import PluginView

if TYPE_CHECKING:
    from bext_workflow.faces.cli.screen import Screen


@click.command("list", cls=Command)
@click.pass_obj
def list_plugins(session: Session) -> None:
    """List the plugins that the config names."""
    plugins = session.ask(lambda reached: reached.workflows.plugins())
    session.output.show_list(plugins, lambda screen: _draw(screen, plugins))


@click.command(cls=Command)
@click.argument("name")
@click.pass_obj
def show(session: Session, name: str) -> None:
    """Show a plugin."""
    plugins = session.ask(lambda reached: reached.workflows.plugins())
    plugin = next((plugin for plugin in plugins if plugin.name == name), None)
    if plugin is None:
        raise missing("plugin", name, [plugin.name for plugin in plugins])
    session.output.show(
        plugin,
        lambda screen: screen.fields(
            [
                ("plugin", Cell(plugin.name, "bold")),
                ("distribution", cells.text(plugin.distribution)),
                ("isolation", cells.text(plugin.isolation)),
                ("version", cells.text(plugin.version)),
                ("hooks", cells.listed(plugin.hooks)),
                ("workflows", cells.listed(plugin.workflows)),
                *([("error", Cell(plugin.error, "red"))] if plugin.error is not None else []),
            ]
        ),
    )


def _draw(screen: Screen, plugins: Sequence[PluginView]) -> None:
    screen.table(("plugin", "distribution", "version", "workflows"), map(_row, plugins))
    for plugin in plugins:
        if plugin.error is not None:
            screen.heading(f"{plugin.name} cannot be used")
            screen.say(plugin.error, "red")


def _row(plugin: PluginView) -> tuple[Cell, ...]:
    return (
        Cell(plugin.name),
        cells.text(plugin.distribution),
        cells.text(plugin.version),
        cells.listed(plugin.workflows),
    )
