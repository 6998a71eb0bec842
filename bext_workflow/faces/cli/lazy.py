"""Groups that know their commands by name and word, and load one only when it is called: `--help` stays fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, TypeAlias

import click

from bext_workflow.faces.cli.options import Command


class Lazy(NamedTuple):
    """A command at `module:attribute` and what a list of commands says of it."""

    target: str
    help: str

    def load(self) -> click.Command:
        module, attribute = self.target.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


_SETTINGS = {"help_option_names": ["-h", "--help"]}

Children: TypeAlias = Mapping[str, "Lazy | LazyGroup"]


class LazyGroup(Command, click.Group):
    """A group over a table of children. `aliases` are further names of its children, not listed."""

    def __init__(
        self,
        name: str,
        *,
        help: str,
        children: Children,
        aliases: Mapping[str, str] | None = None,
        params: list[click.Parameter] | None = None,
    ) -> None:
        super().__init__(name, help=help, params=params, no_args_is_help=True, context_settings=_SETTINGS)
        self.children = children
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.children)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        child = self.children.get(self.aliases.get(cmd_name, cmd_name))
        return child.load() if isinstance(child, Lazy) else child

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=[*self.children, *self.aliases], ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, child.help or "") for name, child in self.children.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
