"""Pages of lists: how many, from where on, and whether there are more."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from bext_workflow.errors import UsageError
from bext_workflow.model.view import Page, parse_instant
from bext_workflow.service.protocols import MAX_LIMIT

T = TypeVar("T")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ID = re.compile(_UUID)
_KEY = re.compile(_UUID + r":[A-Za-z0-9_.\[\]#-]{1,4000}")


def checked_limit(limit: int) -> int:
    """Raises `UsageError` for a page of no size that there is."""
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"the limit is {limit}", mend=f"use 1 to {MAX_LIMIT}")
    return limit


def checked_cursor(cursor: str | None, *, of_keys: bool = False) -> str | None:
    """Cursors are ids: of the last run, or incident, of a page; `of_keys`: the keys of visits."""
    if cursor is not None and (_KEY if of_keys else _ID).fullmatch(cursor) is None:
        raise UsageError(f"the cursor {cursor!r} is not one of this list", mend="give the page's next_cursor as it is")
    return cursor


def checked_instant(instant: str | None, what: str) -> int | None:
    """Ms since the epoch. Raises `UsageError` for what is no instant."""
    if instant is None:
        return None
    try:
        return parse_instant(instant)
    except ValueError:
        mend = "use an RFC 3339 instant with its zone, such as 2026-11-30T12:00:00Z"
        raise UsageError(f"{what} is {instant!r}", mend=mend) from None


def page_of(items: list[T], limit: int, cursor: Callable[[T], str]) -> Page[T]:
    """One more item than `limit` was asked for: it tells that there is a next page, and is not on this one."""
    if len(items) <= limit:
        return Page(items=items)
    return Page(items=items[:limit], next_cursor=cursor(items[limit - 1]))
