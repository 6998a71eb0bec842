"""A run as a test reads it: what was done, what was undone, and the whole journal in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from bext_workflow.core.evolve import evolve, initial
from bext_workflow.core.state import Plan
from bext_workflow.faces.cli.journal import told
from bext_workflow.model.event import Event, RunCreated, StepCompensated, StepCompleted, WaitEnded
from bext_workflow.model.journal import decode
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.model.view import EventView, IncidentView, RunView, StepView
from bext_workflow.ports.store import EventRow
from bext_workflow.service.views import event_view


class History(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A run and its journal, as of one moment. `str()` tells the journal, a line an event."""

    run: RunView
    journal: tuple[tuple[Event, int], ...]
    events: tuple[EventView, ...]
    incidents: tuple[IncidentView, ...]
    statuses: tuple[WorkflowStatus, ...]

    @property
    def run_id(self) -> str:
        return self.run.run_id

    @property
    def status(self) -> WorkflowStatus:
        return self.run.status

    @property
    def context(self) -> JsonObject:
        """The context, or what is in it so far."""
        return {} if isinstance(self.run.context, msgspec.UnsetType) else self.run.context

    @property
    def failure(self) -> str | None:
        """Why the run failed or was stopped, in the words of the first failure."""
        return self.run.failure

    @property
    def left_in_place(self) -> list[str]:
        return [] if isinstance(self.run.left_in_place, msgspec.UnsetType) else self.run.left_in_place

    @property
    def steps(self) -> list[StepView]:
        """Every visit of a step, in the order in which they were entered."""
        return [] if isinstance(self.run.steps, msgspec.UnsetType) else self.run.steps

    @cached_property
    def done(self) -> list[str]:
        """The steps in the order in which they completed, undone ones too; one entry a visit."""
        return list(_completed(self.journal))

    @cached_property
    def undone(self) -> list[str]:
        """The steps in the order in which they were undone, by their undo or by a person."""
        return [event.step for event, _ in self.journal if isinstance(event, StepCompensated) and not event.no_undo]

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of the journal's events."""
        return [event.kind for event in self.events]

    def attempts(self, step: str, *, visit: int = 1) -> int:
        """How many attempts that visit has taken; 0 for one that the run never came to. In a map: of all items."""
        return sum(view.attempts for view in self.steps if view.step == step and view.visit == visit)

    def __str__(self) -> str:
        head = f"{self.run.workflow}@{self.run.version} {self.run_id}: {self.status}"
        return "\n".join([head, *(f"  {told(event)}" for event in self.events)])


def history_of(plan: Plan, rows: Sequence[EventRow], run: RunView, incidents: Sequence[IncidentView]) -> History:
    """What the rows of a run's whole journal say. `incidents`: those that are open."""
    journal = tuple((decode(row.kind, row.data), row.at) for row in rows)
    return History(
        run=run,
        journal=journal,
        events=tuple(event_view(row) for row in rows),
        incidents=tuple(incidents),
        statuses=tuple(_statuses(plan, journal)),
    )


def _completed(journal: Sequence[tuple[Event, int]]) -> Iterator[str]:
    for event, _ in journal:
        match event:
            case StepCompleted(step=step) | WaitEnded(step=step, completes=True):
                yield step
            case _:
                continue


def _statuses(plan: Plan, journal: Sequence[tuple[Event, int]]) -> Iterator[WorkflowStatus]:
    """Each status that the run had, in order."""
    (created, at), *rest = journal
    if not isinstance(created, RunCreated):
        raise TypeError("a journal begins with run_created")
    state = initial(plan, created, at)
    yield state.status
    for event, event_at in rest:
        before, state = state, evolve(state, event, event_at)
        if state.status is not before.status:
            yield state.status
