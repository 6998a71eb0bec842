"""The journal's events: every kind of fact of a run.

A run *is* its events, in order; the state is their fold. An event is a fact in the past tense and holds deltas only.
Its row is (kind, data): `data` is the compact JSON of the struct's fields, defaults left out. `branch` names the line
of progress, `visit` and `attempt` count from 1, instants (`_at`) are ms since the epoch on the store's clock.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bext_workflow.model.fork import Fork
from bext_workflow.model.json import EMPTY, Document, Json
from bext_workflow.model.names import END
from bext_workflow.model.origin import ForkedFrom, Parent
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from bext_workflow.model.wait import WaitFor


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of all events."""


class RunCreated(Fact, frozen=True, kw_only=True):
    """A start was accepted. `begun` says that the host that took it drives it at once (no PENDING).

    `children`: the version and the digest of each workflow that a step of this one may run, fixed here. `parent`: the
    run that this one is a child of. `policy` names what held besides the graph. `step`: where it begins, if not at the
    first one, as that run stood which it was `forked_from`.
    """

    run_id: str
    workflow: str
    version: int
    digest: str
    context: Document
    tags: dict[str, str] = {}
    key: str | None = None
    by: str = ""
    begun: bool = False
    children: dict[str, tuple[int, str]] = {}
    parent: Parent | None = None
    policy: str = ""
    step: str | None = None
    forked_from: ForkedFrom | None = None


class RunStarted(Fact, frozen=True, kw_only=True):
    """A driver took up a run that was PENDING."""


class AttemptStarted(Fact, frozen=True, kw_only=True):
    """The intent, durable before the call: of steps that are not idempotent, of later attempts, of suspects."""

    call: Call = Call.STEP
    branch: int = 0
    step: str = ""
    visit: int = 0
    attempt: int


class HeartbeatRecorded(Fact, frozen=True, kw_only=True):
    """How far an attempt has come, in the plugin's words: the next attempt can read it."""

    branch: int = 0
    step: str
    visit: int
    attempt: int
    detail: Json


class AttemptFailed(Fact, frozen=True, kw_only=True):
    """An attempt ended and another one follows at `retry_at`. `unknown`: it may have acted."""

    call: Call = Call.STEP
    branch: int = 0
    step: str = ""
    visit: int = 0
    attempt: int
    reason: str
    retry_at: int
    unknown: bool = False
    traceback: str | None = None


class AttemptLost(Fact, frozen=True, kw_only=True):
    """An attempt that must not be repeated blindly ended unknown: it is in doubt. `crashed`: its host died."""

    call: Call = Call.STEP
    branch: int = 0
    step: str
    visit: int
    attempt: int
    reason: str
    crashed: bool = False
    evidence: Json = None
    traceback: str | None = None


class AttemptCleared(Fact, frozen=True, kw_only=True):
    """It is known that the attempt in doubt did not act: the same attempt is made again."""

    call: Call = Call.STEP
    branch: int = 0
    step: str
    visit: int
    attempt: int


class StepCompleted(Fact, frozen=True, kw_only=True):
    """The checkpoint: the visit is done, its updates are in the context; the branch goes on at `next`.

    Before that it `wait`s, or `fork`s and stands still until its branches have met.
    """

    branch: int = 0
    step: str
    visit: int
    attempt: int
    updates: Document = EMPTY
    next: str = END
    undo_data: Json = None
    wait: WaitFor | None = None
    fork: Fork | None = None


class StepFailed(Fact, frozen=True, kw_only=True):
    """The visit failed for good. `own`: an attempt of it may have acted, and its own undo is to run first."""

    branch: int = 0
    step: str
    visit: int
    attempt: int
    reason: str
    compensate: bool
    own: bool = False
    traceback: str | None = None


class StopRequested(Fact, frozen=True, kw_only=True):
    """The run shall end early. `act` is the inbox number of a person's request, 0 when the run's own time is over."""

    act: int = 0
    kind: StopKind = StopKind.CANCEL
    by: str
    reason: str
    compensate: bool = True
    now: bool = False


class RunTimedOut(Fact, frozen=True, kw_only=True):
    """The run's own `timeout_ms` has passed."""


class PolicyChanged(Fact, frozen=True, kw_only=True):
    """Other policy holds from the next attempt on: `changes` says in words what has moved. The graph stays."""

    policy: str
    changes: tuple[str, ...] = ()


class RunPaused(Fact, frozen=True, kw_only=True):
    """A person holds the run: nothing new starts."""

    act: int
    by: str
    reason: str


class RunResumed(Fact, frozen=True, kw_only=True):
    """A person lets the run go on."""

    act: int
    by: str
    reason: str


class BranchSettled(Fact, frozen=True, kw_only=True):
    """The branch has ended without completing its visit: under a stop, or as a loser. `own`: as in `StepFailed`.

    `attempt`: the last one that was made.
    """

    branch: int = 0
    step: str
    visit: int
    attempt: int = 0
    reason: str = ""
    own: bool = False
    traceback: str | None = None


class CompensationStarted(Fact, frozen=True, kw_only=True):
    """The walk back begins; durable before the first undo."""

    reason: str


class WaitOpened(Fact, frozen=True, kw_only=True):
    """A step of the host's own begins to wait; the branch is parked."""

    branch: int = 0
    step: str
    visit: int
    wait: WaitFor


class WaitEnded(Fact, frozen=True, kw_only=True):
    """The branch waits no longer: by the signal that was act `signal`, by its timer, by a person's word, or by a stop.

    `completes`: the waiting was the step's own work, which is done with this.
    """

    branch: int = 0
    step: str
    visit: int
    how: WaitEnd
    signal: int | None = None
    updates: Document = EMPTY
    next: str = END
    fork: Fork | None = None
    completes: bool = False


class AnswerReceived(Fact, frozen=True, kw_only=True):
    """What was sent to the wait of one visit, and to no other, was taken from the inbox.

    `key` is the visit's. `approved`: a decision, with the `comment` of who made it; `payload` is then the form. `late`:
    it lost to the timer of the wait (semantics §9).
    """

    act: int
    key: str
    by: str
    accepted_at: int = 0
    payload: Json = None
    approved: bool | None = None
    comment: str = ""
    late: bool = False


class AnswerTaken(Fact, frozen=True, kw_only=True):
    """The wait has its answer."""

    key: str


class WaitReminded(Fact, frozen=True, kw_only=True):
    """Nobody has decided for so long that a reminder was due."""

    branch: int = 0
    step: str
    visit: int


class ChildStarted(Fact, frozen=True, kw_only=True):
    """The branch waits for the end of a run of its own: its child."""

    branch: int = 0
    step: str
    visit: int
    run_id: str


class ChildEnded(Fact, frozen=True, kw_only=True):
    """The child has ended for the `ending`-th time, and told so by the act."""

    act: int
    run_id: str
    ending: int
    status: WorkflowStatus


class ChildStopAsked(Fact, frozen=True, kw_only=True):
    """The child was told to stop; the branch settles when it has."""

    branch: int = 0
    step: str
    visit: int
    run_id: str


class ChildUndoAsked(Fact, frozen=True, kw_only=True):
    """The child was told to undo what it has done; the walk back goes on when it has."""

    branch: int = 0
    step: str
    visit: int
    run_id: str


class ParentTold(Fact, frozen=True, kw_only=True):
    """The parent has the news of this run's `ending`-th end in its inbox."""

    ending: int


class UndoRequested(Fact, frozen=True, kw_only=True):
    """The parent walks back, and so this run, which had ended, does too."""

    act: int
    by: str
    reason: str


class JoinDecided(Fact, frozen=True, kw_only=True):
    """Enough branches of the fork have arrived; the others are losers: they settle and are undone."""

    group: int


class LosersUndoStarted(Fact, frozen=True, kw_only=True):
    """The losers have settled; what they had done is undone, newest first."""

    group: int


class JoinOpened(Fact, frozen=True, kw_only=True):
    """The branches of the fork have met: what they set is in the context, and their line goes on at `next`."""

    group: int
    updates: Document = EMPTY
    next: str


class SignalReceived(Fact, frozen=True, kw_only=True):
    """A signal was taken from the inbox. `late`: it lost to the timer of the wait that wanted it (semantics §9)."""

    act: int
    name: str
    by: str
    accepted_at: int = 0
    payload: Json = None
    id: str | None = None
    late: bool = False


class StepCompensated(Fact, frozen=True, kw_only=True):
    """One visit is off the list: undone by the plugin, by a person (`by`), or there was nothing to undo (`no_undo`)."""

    branch: int = 0
    step: str
    visit: int
    attempt: int = 0
    no_undo: bool = False
    by: str | None = None


class UndoSkipped(Fact, frozen=True, kw_only=True):
    """A person let a failing undo be: the visit is left in place and the walk goes on."""

    branch: int = 0
    step: str
    visit: int
    by: str


class IncidentOpened(Fact, frozen=True, kw_only=True):
    """Only a person can decide how the run goes on. `unknown`: the attempt that led here may have acted."""

    id: str
    kind: IncidentKind
    actions: tuple[Action, ...]
    call: Call = Call.STEP
    branch: int = 0
    step: str = ""
    visit: int = 0
    attempt: int = 0
    reason: str
    evidence: Json = None
    traceback: str | None = None
    unknown: bool = False


class IncidentResolved(Fact, frozen=True, kw_only=True):
    """A person decided, or the run's own way made the question void."""

    id: str
    kind: IncidentKind
    action: str
    note: str
    by: str
    act: int = 0


class EvidenceAttached(Fact, frozen=True, kw_only=True):
    """What a late result says about the attempt in doubt."""

    act: int
    id: str
    evidence: Json


class RunReopened(Fact, frozen=True, kw_only=True):
    """A person set a FAILED run going again. `step`: from there; `new_visit`: with a new key; `undo`: the walk back."""

    act: int
    by: str
    reason: str
    step: str | None = None
    new_visit: bool = False
    undo: bool = False


class RunCompleted(Fact, frozen=True, kw_only=True):
    """Every branch has ended. `notify`: `on_workflow_complete` is to be called."""

    notify: bool = False


class RunCompensated(Fact, frozen=True, kw_only=True):
    """Every completed visit has been undone."""

    notify: bool = False


class RunFailed(Fact, frozen=True, kw_only=True):
    """The run ended with something wrong; what it has done and not undone is left in place."""

    reason: str
    notify: bool = False


class RunCancelled(Fact, frozen=True, kw_only=True):
    """The run was stopped by a person and nothing was undone."""

    notify: bool = False


class AttemptRenewed(Fact, frozen=True, kw_only=True):
    """A person asked for another attempt: its number goes on, its budget is new."""

    call: Call = Call.STEP
    branch: int = 0


class CompletionSettled(Fact, frozen=True, kw_only=True):
    """`on_workflow_complete` of the n-th ending returned, or a person gave it up (`delivered` is false)."""

    ending: int
    delivered: bool = True


class Recovered(Fact, frozen=True, kw_only=True):
    """A host took over a run whose last owner is gone."""

    host: str
    fence: int


class ActIgnored(Fact, frozen=True, kw_only=True):
    """An act in the inbox that no longer made a difference when the driver came to it."""

    act: int
    kind: str
    reason: str


Event: TypeAlias = (
    RunCreated
    | RunStarted
    | AttemptStarted
    | HeartbeatRecorded
    | AttemptFailed
    | AttemptLost
    | AttemptCleared
    | StepCompleted
    | StepFailed
    | StopRequested
    | RunTimedOut
    | PolicyChanged
    | RunPaused
    | RunResumed
    | BranchSettled
    | CompensationStarted
    | WaitOpened
    | WaitEnded
    | SignalReceived
    | AnswerReceived
    | AnswerTaken
    | WaitReminded
    | ChildStarted
    | ChildEnded
    | ChildStopAsked
    | ChildUndoAsked
    | ParentTold
    | UndoRequested
    | JoinDecided
    | LosersUndoStarted
    | JoinOpened
    | StepCompensated
    | UndoSkipped
    | IncidentOpened
    | IncidentResolved
    | EvidenceAttached
    | RunReopened
    | RunCompleted
    | RunCompensated
    | RunFailed
    | RunCancelled
    | AttemptRenewed
    | CompletionSettled
    | Recovered
    | ActIgnored
)
