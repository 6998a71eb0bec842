"""Tables for people, as wide as the terminal lets them be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.text import one_line

_GAP = 3
_NARROWEST = 12
"""A column of words is not made narrower than this."""


class Grid(NamedTuple):
    """Rows under the titles of columns. The `flexible` columns hold words, which may be folded."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    flexible: Collection[str]

    def without(self, column: str) -> Grid:
        left_out = self.columns.index(column)
        rows = [[cell for place, cell in enumerate(row) if place != left_out] for row in self.rows]
        return Grid([title for title in self.columns if title != column], rows, self.flexible)

    def fits(self, width: int) -> bool:
        """Whether it can be drawn so narrow without breaking a word that somebody may want to copy."""
        return sum(self._least_widths()) + _GAP * (len(self.columns) - 1) <= width

    def drawn(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for title in self.columns:
            table.add_column(title, no_wrap=title not in self.flexible, overflow="fold")
        for row in self.rows:
            table.add_row(*map(rendered, row))
        return table

    def _least_widths(self) -> Iterator[int]:
        for place, title in enumerate(self.columns):
            width = max(cell_len(one_line(text)) for text in (title, *(row[place].text for row in self.rows)))
            yield min(width, max(_NARROWEST, cell_len(title))) if title in self.flexible else width


def rendered(cell: Cell) -> Text:
    return Text(one_line(cell.text), style=cell.style)
