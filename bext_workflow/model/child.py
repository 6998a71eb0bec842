"""Sub-workflows: how a child run knows its parent, and what it tells it of its end (semantics §7)."""

from __future__ import annotations

import msgspec

MAX_NESTED = 16
"""How deep runs may be nested: a workflow that calls itself comes to an end."""


class Parent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run that started this one, for which of its visits. `depth`: how many runs are above this one."""

    run_id: str
    step: str
    visit: int
    depth: int = 1
