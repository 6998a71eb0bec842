"""What `why` looks at, and what it tells: a sentence, and what may follow."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bext_workflow.core.state import Branch, State
from bext_workflow.model import event as events
from bext_workflow.model.status import Call
from bext_workflow.model.view import Consequence
from bext_workflow.service.steps import Journal


class Told(msgspec.Struct, frozen=True):
    """A sentence, and what may follow."""

    sentence: str
    next: tuple[Consequence, ...] = ()


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to see of a run. `driven`: a live host holds it at this moment; `now` in ms."""

    state: State
    journal: Journal
    driven: bool
    now: int

    def last(self, wanted: Callable[[events.Event], bool]) -> int:
        """When an event that is wanted happened last (ms); 0 if none did."""
        return next((at for event, at in reversed(self.journal) if wanted(event)), 0)

    def because(self, call: Call, branch: Branch | None = None) -> str:
        """` (reason)` of the last failed attempt of that kind, of the branch's visit; nothing if there is none."""
        for event, _ in reversed(self.journal):
            if not isinstance(event, events.AttemptFailed) or event.call is not call:
                continue
            if branch is None or (event.branch, event.step, event.visit) == (branch.id, branch.step, branch.visit):
                return f" ({event.reason})"
        return ""


def name_of(branch: Branch) -> str:
    """The step where the branch stands, as a sentence begins."""
    place = branch.place if branch.visit == 1 else f"{branch.place} (visit {branch.visit})"
    return f"Step {branch.step}{place}"
