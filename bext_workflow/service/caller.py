"""Who acts in the request at hand, where one process acts for many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from bext_workflow.model.access import Caller

Who: TypeAlias = Callable[[], Caller]
"""Tells who acts. Asked before a store is handed anything: what is judged in a thread of its own has no request."""

_CURRENT: ContextVar[Caller] = ContextVar("caller")


@contextmanager
def acting(caller: Caller) -> Iterator[None]:
    """Within the block, and the tasks that begin in it, `caller` acts."""
    token = _CURRENT.set(caller)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Caller:
    """Who acts. Raises `LookupError` outside of every `acting`: who has not been let in does nothing."""
    return _CURRENT.get()
