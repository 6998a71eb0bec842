"""What can happen to a run: the inputs of `decide`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bext_workflow.model.json import EMPTY, Document, Json
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.status import Action, Call, WorkflowStatus

Next: TypeAlias = str | tuple[str, ...] | None
"""Where an outcome wants to go: one step, several (a fork), or where the definition says."""


class Continued(msgspec.Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The attempt did its work. `next` of None takes the definition's."""

    updates: Document = EMPTY
    next: Next = None
    undo_data: Json = None


class Parked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The attempt did its work and the branch waits before it goes on. `until` is an instant in ms."""

    updates: Document = EMPTY
    signal: str | None = None
    until: int | None = None
    for_ms: int | None = None
    into: str | None = None
    next: Next = None
    on_timeout: str | None = None
    undo_data: Json = None


class Retried(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The attempt has not acted; `after_ms` of None takes the policy's wait."""

    reason: str
    after_ms: int | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The attempt has not acted and no other will."""

    reason: str
    compensate: bool
    traceback: str | None = None


class Lost(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The attempt ended without a valid word: it may have acted. `errors`: names of the exception's classes.

    `transient`: worth another attempt by its nature (an attempt time-out), whatever `errors` say. `evidence`: what it
    returned or raised, for a person to read.
    """

    reason: str
    errors: frozenset[str] = frozenset()
    transient: bool = False
    evidence: Json = None
    traceback: str | None = None


End: TypeAlias = Continued | Parked | Retried | Failed | Lost
"""How an attempt of `run_step` ended."""

Answer: TypeAlias = Continued | Parked | Retried | Failed | NotDone | Unknown
"""What `verify_step` said of an attempt in doubt."""


class Begun(msgspec.Struct, frozen=True):
    """A driver takes up the run."""


class Intended(msgspec.Struct, frozen=True, kw_only=True):
    """A call is about to be made whose intent must be durable first. `branch` counts for steps."""

    call: Call
    branch: int = 0


class Beaten(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt of a branch that is under way said how far it has come."""

    branch: int
    step: str
    visit: int
    detail: Json


class Finished(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt of a branch's step ended. `detail`: what it said last, if that has not been written yet."""

    branch: int
    end: End
    detail: Json = None


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt of a branch is certain not to have acted, by no fault of its own: it is to be made again."""

    branch: int


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """`verify_step` answered for the attempt in doubt of a branch (or of the undo)."""

    call: Call
    branch: int = 0
    answer: Answer


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A branch stands at a step that the host itself does."""

    branch: int


class ChildCalled(msgspec.Struct, frozen=True, kw_only=True):
    """The child with that start key is there: the branch waits for its end."""

    branch: int
    key: str
    run_id: str


class ChildStopped(msgspec.Struct, frozen=True, kw_only=True):
    """The branch's child has been told to stop."""

    branch: int
    run_id: str


class ChildUndoing(msgspec.Struct, frozen=True, kw_only=True):
    """The child has been told to undo what it has done, or need not be (`undone`), or will not (`refused`)."""

    run_id: str
    undone: bool = False
    refused: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The parent has the news of this run's `ending`-th end."""

    ending: int


class TimerDue(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a branch's wait has come."""

    branch: int


class ReminderDue(msgspec.Struct, frozen=True, kw_only=True):
    """Nobody has decided for so long that somebody is to be reminded."""

    branch: int


class Expired(msgspec.Struct, frozen=True):
    """The run's own time is over."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """Under a stop: nothing of this branch is running."""

    branch: int


class Undone(msgspec.Struct, frozen=True, gc=False):
    """An undo returned (`end` of None) or did not: `Retried`, `Failed` or `Lost`."""

    end: Retried | Failed | Lost | None = None


class Notified(msgspec.Struct, frozen=True, kw_only=True):
    """`on_workflow_complete` of ending `n` returned (`error` of None) or raised."""

    n: int
    error: str | None = None


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A host took over the run of an owner that is gone."""

    host: str
    fence: int


class PolicyMoved(msgspec.Struct, frozen=True, kw_only=True):
    """The definition says otherwise than when the run was last driven, in what is no graph."""

    policy: str
    changes: tuple[str, ...]


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was given up ended after all. It comes through the inbox, as acts do."""

    act: int
    call: Call
    place: str = ""
    step: str
    visit: int
    attempt: int
    evidence: Json


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """A person stops the run. `act` is the inbox number."""

    act: int
    by: str
    reason: str
    compensate: bool = True
    now: bool = False


class Reopen(msgspec.Struct, frozen=True, kw_only=True):
    """A person sets a FAILED run going again (`runs retry`)."""

    act: int
    by: str
    reason: str
    step: str | None = None
    new_visit: bool = False


class Resolve(msgspec.Struct, frozen=True, kw_only=True):
    """A person answers an incident."""

    act: int
    by: str
    incident: str
    action: Action
    note: str
    updates: Document = EMPTY
    next: Next = None
    undo_data: Json = None


class Signalled(msgspec.Struct, frozen=True, kw_only=True):
    """A signal for the run, accepted at `at` (ms). Of two with the same `id` the second is ignored."""

    act: int
    by: str
    at: int
    name: str
    payload: Json = None
    id: str | None = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, accepted at `at` (ms), to the wait of the visit with that key, open or not yet.

    `approved` belongs to approvals: the payload is then the form.
    """

    act: int
    by: str
    at: int
    key: str
    payload: Json = None
    approved: bool | None = None
    comment: str = ""


class ChildEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The child with that start key has ended, for the `ending`-th time.

    `result`: what it has set, if it has COMPLETED. `left`: it has left in place what it did.
    """

    act: int
    key: str
    run_id: str
    ending: int
    status: WorkflowStatus
    failure: str | None = None
    result: Document = EMPTY
    left: bool = False


class ParentUndo(msgspec.Struct, frozen=True, kw_only=True):
    """The parent walks back over the step whose child this run is."""

    act: int
    by: str
    reason: str


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A person holds the run."""

    act: int
    by: str
    reason: str


class Resume(msgspec.Struct, frozen=True, kw_only=True):
    """A person lets the run go on."""

    act: int
    by: str
    reason: str


ActInput: TypeAlias = Cancel | Reopen | Resolve | Late | Signalled | Answered | ChildEnd | ParentUndo | Pause | Resume
"""What comes through the inbox."""

Input: TypeAlias = (
    Begun
    | Intended
    | Beaten
    | Finished
    | Withdrawn
    | Verified
    | Opened
    | ChildCalled
    | ChildStopped
    | ChildUndoing
    | Told
    | TimerDue
    | ReminderDue
    | Expired
    | Settled
    | Undone
    | Notified
    | Recovered
    | PolicyMoved
    | ActInput
)
