"""What a host and its store agree on, beside the runs themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

LEASE_MS = 15_000
"""How long a host that is not heard of any more keeps its runs, if its config says nothing else."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How a store wants to be used.

    `poll_ms`: how often a host asks it for what no wake-up has told of, if its config says nothing else. `writers`: how
    many calls of `write` it takes at once. `shared`: whether several hosts may drive its runs at once, each as long as
    it renews its lease.
    """

    poll_ms: int
    writers: int = 1
    shared: bool = False


class Schema(msgspec.Struct, frozen=True):
    """The numbers of a store's schema: what it has (0: none yet), and what this code speaks."""

    found: int
    spoken: int


Hear: TypeAlias = Callable[[str | None], None]
"""Quick; never raises. Hears the id of a host whose runs have got acts, or None: something may be due for anybody."""
