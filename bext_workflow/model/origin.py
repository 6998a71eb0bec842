"""How a run knows the runs that it comes from: its parent (semantics §7), and the one it was forked from (§13)."""

from __future__ import annotations

import msgspec

MAX_NESTED = 16
"""How deep runs may be nested: a workflow that calls itself comes to an end."""


class Parent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run that started this one, for which of its visits.

    `depth`: how many runs are above this one; `root`: the id of the topmost of them, which is nobody's child.
    """

    run_id: str
    root: str
    step: str
    visit: int
    depth: int = 1


class ForkedFrom(msgspec.Struct, frozen=True, kw_only=True):
    """The run, and the number of its event, at which this one begins."""

    run_id: str
    seq: int
