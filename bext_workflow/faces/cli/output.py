"""Where a command's words go: data to stdout in the format that was asked for, notes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from bext_workflow.faces.cli.text import inert_json, plain, wants_colour

if TYPE_CHECKING:
    import msgspec

    from bext_workflow.faces.cli.screen import Screen
    from bext_workflow.model.json import JsonObject

    Resource: TypeAlias = msgspec.Struct | JsonObject
    Drawing: TypeAlias = Callable[[Screen], None]


class Output:
    """`fmt` is auto, table, json or jsonl; auto is a table on a terminal, else JSON."""

    def __init__(self, fmt: str, *, quiet: bool) -> None:
        self._format = fmt if fmt != "auto" else "table" if sys.stdout.isatty() else "json"
        self._quiet = quiet

    def show(self, resource: Resource, drawing: Drawing) -> None:
        """Writes one resource; `drawing` is its form for people."""
        match self._format:
            case "table":
                self._draw(drawing)
            case "jsonl":
                self._write(_json(resource))
            case _:
                self._write(_json(resource, indent=2))

    def show_list(
        self,
        items: Sequence[Resource],
        drawing: Drawing,
        *,
        next_cursor: str | None = None,
        go_on: str = "--cursor",
    ) -> None:
        """Writes a list, `{items, next_cursor}` in JSON; in the other formats a note names the option for the rest."""
        match self._format:
            case "json":
                self._write(_json({"items": items, "next_cursor": next_cursor}, indent=2))
                return
            case "table":
                self._draw(drawing if items else lambda screen: screen.say("none"))
            case _:
                for item in items:
                    self._write(_json(item))
        if next_cursor is not None:
            self.note(f"there is more: {go_on} {next_cursor}")

    def note(self, text: str) -> None:
        """Tells something beside the data."""
        if not self._quiet:
            click.echo(plain(text), err=True)

    def warn(self, text: str) -> None:
        """Tells something that must be heard, -q or not."""
        label = click.style("warning:", fg="yellow", bold=True)
        click.echo(f"{label} {plain(text)}", err=True, color=wants_colour(sys.stderr))

    def _draw(self, drawing: Drawing) -> None:
        from bext_workflow.faces.cli.screen import Screen

        drawing(Screen(sys.stdout))

    def _write(self, text: str) -> None:
        click.echo(text.encode())


def _json(resource: object, *, indent: int = -1) -> str:
    import msgspec

    text = msgspec.json.encode(resource)
    return inert_json(msgspec.json.format(text, indent=indent).decode() if indent > 0 else text.decode())
