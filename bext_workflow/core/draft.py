"""A decision in the making: the events so far and the state after them."""

from __future__ import annotations

import hashlib
import uuid

from bext_workflow.core.evolve import evolve
from bext_workflow.core.state import State
from bext_workflow.model.event import Event


class Draft:
    """Collects the events of one `decide`, each seen by the rules that come after it. `before`: without any of them."""

    __slots__ = ("before", "events", "jitter", "now", "state")

    def __init__(self, state: State, now: int, jitter: float) -> None:
        self.before = self.state = state
        self.now = now
        self.jitter = jitter
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        self.state = evolve(self.state, event, self.now)
        self.events.append(event)

    def incident_id(self) -> str:
        """A UUIDv7 (RFC 9562, §5.7) that is a function of run, seq and time, since the core draws nothing."""
        seed = hashlib.sha256(f"{self.state.run_id}:{self.state.seq}".encode()).digest()
        number = (self.now & (2**48 - 1)) << 80 | int.from_bytes(seed[:10])
        number = number & ~(0xF << 76) | 0x7 << 76
        number = number & ~(0x3 << 62) | 0x2 << 62
        return str(uuid.UUID(int=number))
