"""The state of a run: the fold of its journal, and nothing else.

A run has branches, each one line of progress that stands at a visit of a step. A sequential run has one. What a state
holds of the future is `plan`: the definition that the run began with, and what its plugin can do.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from bext_workflow.model.context import Layers
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.event import AttemptLost
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a run, and which optional hooks its plugin has."""

    definition: WorkflowDefinition
    undoes: bool = True
    verifies: bool = False
    notifies: bool = False

    def step(self, name: str) -> StepDefinition:
        return self.definition.by_name[name]


class Phase(StrEnum):
    """Where a call stands. READY: may be made at `ready_at`. STARTED: its intent is durable and it may be running."""

    READY = "ready"
    STARTED = "started"
    IN_DOUBT = "in_doubt"
    HELD = "held"
    FAILED = "failed"


class Branch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of progress, at one visit of one step.

    `attempt` runs or runs next; `spent` attempts count against the policy since the visit, or a person's retry, began.
    `recorded`: attempts are written before they are called. `acted`: an earlier attempt may have acted. `lost`: how the
    attempt in doubt was lost.
    """

    id: int
    step: str
    visit: int
    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0
    recorded: bool = False
    acted: bool = False
    lost: AttemptLost | None = None


class Undo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The undo of the newest entry of `State.pending`, while the run compensates; fields as in `Branch`."""

    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0
    recorded: bool = False
    lost: AttemptLost | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The n-th ending of the run, whose `on_workflow_complete` has not returned yet."""

    n: int
    status: WorkflowStatus
    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0


class OwnVisit(msgspec.Struct, frozen=True):
    """A visit that did not complete and may have acted all the same (`compensate_on_failure`)."""

    branch: int
    step: str
    visit: int


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The run shall end early."""

    by: str
    reason: str
    compensate: bool
    now: bool


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """What a person must decide, and about which call."""

    id: str
    kind: IncidentKind
    actions: tuple[Action, ...]
    call: Call
    branch: int
    step: str
    visit: int
    attempt: int
    reason: str


class State(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run, as of event `seq`. `inbox` acts from outside are behind it.

    `pending` are the visits that have not been undone, newest first; `own` are failed visits whose own undo comes
    before those. `visits` counts entries by step. `undo` stays when an undo has failed: the way forward is closed from
    the first one on. `recoveries`: how often in a row a host died over this run. `endings`: how often it has ended;
    `notices`: the endings that the plugin has not been told of yet.
    """

    plan: Plan
    run_id: str
    workflow: str
    version: int
    key: str | None = None
    tags: dict[str, str] = {}
    seq: int = 0
    inbox: int = 0
    status: WorkflowStatus = WorkflowStatus.PENDING
    context: Layers = Layers()
    branches: tuple[Branch, ...] = ()
    visits: Layers = Layers()
    pending: Completed | None = None
    own: tuple[OwnVisit, ...] = ()
    undo: Undo | None = None
    stop: Stop | None = None
    failure: str | None = None
    incidents: tuple[Incident, ...] = ()
    skipped: tuple[str, ...] = ()
    pivoted: bool = False
    recoveries: int = 0
    endings: int = 0
    notices: tuple[Ending, ...] = ()
    created_at: int = 0
    started_at: int | None = None
    updated_at: int = 0
    ended_at: int | None = None

    @property
    def suspect(self) -> bool:
        """Whether this run may be what kills its hosts (semantics §6, poison)."""
        return self.recoveries >= SUSPECT_AFTER

    def branch(self, id_: int) -> Branch:
        """The live branch of that id. Raises `KeyError`."""
        for branch in self.branches:
            if branch.id == id_:
                return branch
        raise KeyError(id_)

    def incident(self, id_: str) -> Incident | None:
        """The open incident of that id."""
        return next((incident for incident in self.incidents if incident.id == id_), None)


SUSPECT_AFTER = 3
POISON_AFTER = 10


def visit_key(run_id: str, step: str, visit: int) -> str:
    """The idempotency key of a visit (semantics §6)."""
    return f"{run_id}:{step}" if visit == 1 else f"{run_id}:{step}#{visit}"


def undo_key(run_id: str, step: str, visit: int) -> str:
    """The idempotency key of a visit's undo."""
    return f"{visit_key(run_id, step, visit)}:compensate"


def ending_key(run_id: str, n: int) -> str:
    """The idempotency key of the n-th ending's `on_workflow_complete`."""
    return f"{run_id}:complete#{n}"
