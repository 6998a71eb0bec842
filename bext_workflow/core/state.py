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
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.origin import ForkedFrom, Parent
from bext_workflow.model.run import Completed
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WorkflowStatus
from bext_workflow.model.wait import WaitFor


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a run, and which optional hooks its plugin has."""

    definition: WorkflowDefinition
    undoes: bool = True
    verifies: bool = False
    notifies: bool = False

    def step(self, name: str) -> StepDefinition:
        return self.definition.by_name[name]


class Phase(StrEnum):
    """Where a call stands. READY: may be made at `ready_at` (ms; 0: at once, whatever a clock that was set back says).

    STARTED: its intent is durable and it may be running. WAITING is parked. Of branches alone: FORKED stands still till
    its fork's branches have met; FAILED and STOPPED have ended without completing their visit, and are what a person's
    retry takes up again.
    """

    READY = "ready"
    STARTED = "started"
    IN_DOUBT = "in_doubt"
    HELD = "held"
    WAITING = "waiting"
    FORKED = "forked"
    FAILED = "failed"
    STOPPED = "stopped"


class Branch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of progress, at one visit of one step.

    `attempt` runs or runs next; `spent` attempts count against the policy since the visit, or a person's retry, began.
    `recorded`: attempts are written before they are called. `detail`: what its last heartbeat said. `acted`: an earlier
    attempt may have acted. `lost`: how the attempt in doubt was lost. `wait`: what a parked branch waits for, since
    event `wait_opened`.

    A branch of a fork belongs to the group of that id, has a `context` of its own, and remembers what it has `written`
    since the fork. In maps `place` is its index path, such as `[3]` or `[3][0]`, a part of its keys; `index` is the
    last of it, in the map whose group is `item_group`.
    """

    id: int
    step: str
    visit: int
    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0
    recorded: bool = False
    detail: Json = None
    acted: bool = False
    lost: AttemptLost | None = None
    wait: WaitFor | None = None
    wait_opened: int = 0
    entered_at: int = 0
    group: int | None = None
    place: str = ""
    index: int | None = None
    item_group: int | None = None
    context: Layers | None = None
    written: Layers = Layers()

    @property
    def live(self) -> bool:
        """Whether something is yet to come of it by itself, or by an answer to its incident."""
        return self.phase not in _STILL

    @property
    def child(self) -> str | None:
        """The run for whose end the branch waits; it works meanwhile."""
        return self.wait.child if self.phase is Phase.WAITING and self.wait is not None else None


_STILL = frozenset({Phase.FORKED, Phase.FAILED, Phase.STOPPED})


class Group(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fork whose branches have not met yet; `id` is the seq of its event, `parent` the branch that forked.

    `members` are the branches in the order that the fork named them, or of the items; those from `begun` on wait for
    room. `arrived`: in order of arrival, with what each has written. They meet before `at` (`END`: they do not), once
    `need` have arrived. `decided`: enough have, and the others are losers that settle and are undone first; `lost` are
    those, with all that have forked from them.
    """

    id: int
    parent: int
    at: str
    need: int
    merge_last: bool
    members: tuple[int, ...]
    begun: int
    into: tuple[str, ...]
    over: str | None = None
    collect: str | None = None
    arrived: tuple[int, ...] = ()
    written: Layers = Layers()
    decided: bool = False
    lost: frozenset[int] = frozenset()


class Undo(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The undo of the newest entry of `State.pending`, while the run compensates; fields as in `Branch`.

    With `group` it is the undo of the newest entry of that group's losers, while the run goes forward.
    """

    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0
    recorded: bool = False
    lost: AttemptLost | None = None
    group: int | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The n-th ending of the run, whose `on_workflow_complete` has not returned yet."""

    n: int
    status: WorkflowStatus
    phase: Phase = Phase.READY
    attempt: int = 1
    spent: int = 0
    ready_at: int = 0


class Report(msgspec.Struct, frozen=True, gc=False):
    """An ending of this run, a child, of which its parent does not know yet."""

    ending: int
    status: WorkflowStatus


class OwnVisit(msgspec.Struct, frozen=True):
    """A visit that did not complete and may have acted all the same (`compensate_on_failure`)."""

    branch: int
    step: str
    visit: int
    place: str = ""
    index: int | None = None
    item: Json = None
    child: str | None = None


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The run shall end early."""

    kind: StopKind
    by: str
    reason: str
    compensate: bool
    now: bool


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that no wait has taken yet; `act` is its inbox number, and so its place in the order."""

    act: int
    name: str
    payload: Json
    at: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to the wait of one visit, which has not begun yet; `at` is when it was accepted (ms)."""

    key: str
    by: str
    at: int
    payload: Json
    approved: bool | None
    comment: str


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
    before those. `visits` counts entries by step and place. `contexts` are the last ones of branches of forks that have
    ended, `places` those of branches of maps, by branch. `answers` are kept for waits that have not begun, `answered`
    are the keys of the visits whose wait has had one. `undo` stays when an undo has failed: the way forward is
    closed from the first one on. `recoveries`: how often in a row a host died over this run. `endings`: how often it
    has ended; `notices`: the endings that the plugin has not been told of yet. The run's own time runs from
    `timed_from` on.

    `versions`: what its children are runs of, (version, digest) by workflow. `child_endings`: how many ends of a child
    are known, by its id. A child has a `parent`, the context that it was `given`, and `reports` that the parent has not
    had yet.
    """

    plan: Plan
    run_id: str
    workflow: str
    version: int
    key: str | None = None
    tags: dict[str, str] = {}
    by: str = ""
    policy: str = ""
    forked_from: ForkedFrom | None = None
    seq: int = 0
    inbox: int = 0
    status: WorkflowStatus = WorkflowStatus.PENDING
    context: Layers = Layers()
    branches: tuple[Branch, ...] = ()
    groups: tuple[Group, ...] = ()
    next_branch: int = 1
    contexts: Layers = Layers()
    places: Layers = Layers()
    visits: Layers = Layers()
    pending: Completed | None = None
    own: tuple[OwnVisit, ...] = ()
    undo: Undo | None = None
    stop: Stop | None = None
    failure: str | None = None
    incidents: tuple[Incident, ...] = ()
    signals: tuple[Signal, ...] = ()
    signal_ids: Layers = Layers()
    answers: tuple[Answer, ...] = ()
    answered: frozenset[str] = frozenset()
    skipped: tuple[str, ...] = ()
    pivoted: bool = False
    timed_from: int | None = None
    timed_out: bool = False
    paused: bool = False
    recoveries: int = 0
    endings: int = 0
    notices: tuple[Ending, ...] = ()
    created_at: int = 0
    started_at: int | None = None
    updated_at: int = 0
    ended_at: int | None = None
    versions: dict[str, tuple[int, str]] = {}
    child_endings: Layers = Layers()
    parent: Parent | None = None
    given: JsonObject = {}
    reports: tuple[Report, ...] = ()

    @property
    def live(self) -> tuple[Branch, ...]:
        """The branches of which something is yet to come."""
        return tuple(branch for branch in self.branches if branch.live)

    @property
    def compensating(self) -> bool:
        """Whether the run as a whole walks back, or stopped half-way in it."""
        return self.undo is not None and self.undo.group is None

    def group(self, id_: int) -> Group:
        """The open group of that id. Raises `KeyError`."""
        for group in self.groups:
            if group.id == id_:
                return group
        raise KeyError(id_)

    def context_of(self, branch_id: int) -> Layers:
        """The latest context of a branch; that of the line that the forks began from is the run's."""
        for branch in self.branches:
            if branch.id == branch_id and branch.context is not None:
                return branch.context
        ended: Layers | None = self.contexts.get(str(branch_id))
        return self.context if ended is None else ended

    @property
    def deadline(self) -> int | None:
        """When the run's own time is over (ms); None: never, or it is over."""
        bound = self.plan.definition.timeout_ms
        if not bound or self.timed_from is None or self.timed_out:
            return None
        return self.timed_from + bound

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

    def incident_of(self, branch: Branch) -> Incident | None:
        """The open incident that stands between the branch and its next call."""
        for incident in self.incidents:
            if incident.call is Call.STEP and incident.branch == branch.id:
                return incident
        return None

    def incident(self, id_: str) -> Incident | None:
        """The open incident of that id."""
        return next((incident for incident in self.incidents if incident.id == id_), None)


ROOT = 0
"""The branch that every run begins with, and that its forks come back to."""

SUSPECT_AFTER = 3
POISON_AFTER = 10


def visit_name(step: str, visit: int, place: str = "") -> str:
    """Names a visit in its run."""
    return f"{step}{place}" if visit == 1 else f"{step}{place}#{visit}"


def visit_key(run_id: str, step: str, visit: int, place: str = "") -> str:
    """The idempotency key of a visit (semantics §6)."""
    return f"{run_id}:{visit_name(step, visit, place)}"


def undo_key(run_id: str, step: str, visit: int, place: str = "") -> str:
    """The idempotency key of a visit's undo."""
    return f"{visit_key(run_id, step, visit, place)}:compensate"


def ending_key(run_id: str, n: int) -> str:
    """The idempotency key of the n-th ending's `on_workflow_complete`."""
    return f"{run_id}:complete#{n}"
