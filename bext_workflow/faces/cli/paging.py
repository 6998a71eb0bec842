"""Lists longer than one page of the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from bext_workflow.faces.cli.cells import Cell
from bext_workflow.faces.cli.context import Session
from bext_workflow.model.view import Page
from bext_workflow.service.protocols import MAX_LIMIT

if TYPE_CHECKING:
    from bext_workflow.faces.cli.output import Resource
    from bext_workflow.service.wiring import Reached

T = TypeVar("T", bound="Resource")


def show_pages(
    session: Session,
    fetch: Callable[[Reached, int, str | None], Awaitable[Page[T]]],
    columns: Sequence[str],
    row: Callable[[T], Sequence[Cell]],
    *,
    limit: int | None,
    cursor: str | None = None,
    spare: str | None = None,
    go_on: str = "--cursor",
) -> None:
    """Shows up to `limit` items (None: all) from `cursor` on, by as many `fetch(reached, limit, cursor)` as it takes.

    `go_on` is the option that takes the cursor of the rest; `spare` the column that a narrow table leaves out.
    """

    async def collect(reached: Reached) -> Page[T]:
        items: list[T] = []
        place = cursor
        while True:
            wanted = MAX_LIMIT if limit is None else min(MAX_LIMIT, limit - len(items))
            page = await fetch(reached, wanted, place)
            items += page.items
            place = page.next_cursor
            if place is None or (limit is not None and len(items) >= limit):
                return Page(items=items, next_cursor=place)

    found = session.ask(collect)
    session.output.show_list(
        found.items,
        lambda screen: screen.table(columns, map(row, found.items), spare=spare),
        next_cursor=found.next_cursor,
        go_on=go_on,
    )
