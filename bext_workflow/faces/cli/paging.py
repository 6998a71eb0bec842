"""Lists longer than one page of the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bext_workflow.model.view import Page
from bext_workflow.service.protocols import MAX_LIMIT

T = TypeVar("T")


async def collect(
    fetch: Callable[[int, str | None], Awaitable[Page[T]]], *, limit: int | None, cursor: str | None
) -> Page[T]:
    """Up to `limit` items (None: all) from `cursor` on, by as many calls of `fetch(limit, cursor)` as that takes."""
    items: list[T] = []
    while True:
        wanted = MAX_LIMIT if limit is None else min(MAX_LIMIT, limit - len(items))
        page = await fetch(wanted, cursor)
        items += page.items
        cursor = page.next_cursor
        if cursor is None or (limit is not None and len(items) >= limit):
            return Page(items=items, next_cursor=cursor)
