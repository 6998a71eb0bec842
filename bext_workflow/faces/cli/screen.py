"""The form for people, on rich. All text passes through here and loses its control characters and markup."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bext_workflow.faces.cli.cells import NOTHING, Cell
from bext_workflow.faces.cli.tables import Grid, rendered
from bext_workflow.faces.cli.text import one_line, plain, wants_colour

_UNBOUNDED = 10_000

Show: TypeAlias = Callable[[Sequence[str], Iterable[Sequence[Cell]], str], None]


class _PlainConsole(Console):
    def on_broken_pipe(self) -> None:
        """Rich would end the process with 1; here it is an error like others, and `problems` knows it."""
        raise BrokenPipeError


class Screen:
    """Tables, fields and lines on one stream. What is no terminal has no width: nothing is folded or cut for it."""

    def __init__(self, stream: TextIO) -> None:
        colour = wants_colour(stream)
        self.console = _PlainConsole(
            file=stream,
            force_terminal=True if colour else None,
            color_system="auto" if colour else None,
            width=None if stream.isatty() or "COLUMNS" in os.environ else _UNBOUNDED,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        *,
        flexible: Collection[str] = (),
        spare: str | None = None,
    ) -> None:
        """A table, if the terminal is wide enough for one; else each row is an entry, whose first cell is never cut.

        Where the line is too short the `flexible` columns (else the last one) are folded, and `spare` is left out.
        """
        whole = Grid(columns, [*rows], flexible or columns[-1:])
        for grid in (whole, *([whole.without(spare)] if spare is not None else [])):
            if grid.fits(self.console.width):
                self.console.print(grid.drawn())
                return
        for first, *others in whole.rows:
            self.entry([first], [cell for cell in others if cell.text not in ("", NOTHING.text)])

    def entry(self, head: Sequence[Cell], *lines: Sequence[Cell]) -> None:
        """A line that is never folded, so that it can be copied, and what belongs to it below."""
        self.console.print(Text("  ").join(map(rendered, head)), soft_wrap=True)
        for line in lines:
            self.console.print(Padding(Text(" · ").join(map(rendered, line)), (0, 0, 0, 2), expand=False))

    def fields(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Names with their values, one a line."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in pairs:
            grid.add_row(name, rendered(cell))
        self.console.print(grid)

    def heading(self, title: str) -> None:
        self.console.print()
        self.console.print(Text(title, style="bold"))

    def say(self, words: str, style: str = "") -> None:
        self.console.print(Text(one_line(words), style=style))

    def block(self, words: str, style: str = "") -> None:
        """Text of several lines, as it is."""
        self.console.print(Text(plain(words), style=style), soft_wrap=True)

    def commands(self, lines: Iterable[tuple[str, str]]) -> None:
        """What a line does, and the line to type: never folded, so that it can be copied."""
        for meaning, line in lines:
            self.console.print(Text(f"  {one_line(meaning)}:", style="dim"))
            self.console.print(Text(f"    {plain(line)}"), soft_wrap=True)

    @contextmanager
    def live(self) -> Iterator[Show]:
        """Hands out a function that draws a table, with a line below it, over the one before.

        The table's first column is the one that is folded.

        Where nothing can be drawn over (a pipe, a dumb terminal) only the last one is written, at the end.
        """
        with Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:

            def show(columns: Sequence[str], rows: Iterable[Sequence[Cell]], below: str) -> None:
                grid = Grid(columns, [*rows], columns[:1])
                live.update(Group(grid.drawn(), Text(one_line(below), style="bold")), refresh=True)

            yield show
