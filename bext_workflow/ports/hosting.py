"""What a host and its store agree on, beside the runs themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What an open store says of itself, for whoever looks for a fault.

    `engine`: what keeps it, with its version. `now`: its own clock (ms); None: it goes by this machine's. `folder`:
    where on this machine its files are, if they are; `bytes`: how large it is. `pooled`: sessions are shared out.
    """

    engine: str
    now: int | None = None
    folder: Path | None = None
    bytes: int = 0
    pooled: bool = False


Hear: TypeAlias = Callable[[str | None], None]
"""Quick; never raises. Hears the id of a host whose runs have got acts, or None: something may be due for anybody."""
