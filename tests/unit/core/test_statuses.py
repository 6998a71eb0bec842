"""Statuses (semantics §4): how they follow from what the run is doing, and which inputs each of them takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from msgspec.structs import replace

from bext_workflow.core.decide import LEGAL, decide
from bext_workflow.core.input import (
    Answered,
    Beaten,
    Begun,
    Cancel,
    ChildCalled,
    ChildEnd,
    ChildStopped,
    ChildUndoing,
    Expired,
    Finished,
    Input,
    Intended,
    Late,
    Notified,
    Opened,
    ParentUndo,
    Pause,
    PolicyMoved,
    Recovered,
    ReminderDue,
    Reopen,
    Resolve,
    Resume,
    Settled,
    Signalled,
    TimerDue,
    Told,
    Undone,
    Verified,
    Withdrawn,
)
from bext_workflow.core.state import Branch, Phase, State
from bext_workflow.core.work import Begin, Execute, wake_at
from bext_workflow.errors import Conflict
from bext_workflow.model.outcome import Unknown
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.model.wait import WaitFor
from tests.unit.core.support import (
    AGAIN,
    CHILD_ID,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    RUN_ID,
    Saga,
    approves,
    asks,
    calls,
    charge,
    done,
    parked,
    plan,
    step,
)

GRID = """
           PENDING RUNNING WAITING SUSPENDED COMPENSATING COMPLETED COMPENSATED FAILED CANCELLED
Begun         x       .       .        .          .           .          .         .       .
Intended      .       x       x        x          x           x          x         x       x
Finished      .       x       .        x          .           .          .         .       .
Withdrawn     .       x       .        x          .           .          .         .       .
Beaten        .       x       -        -          -           -          -         -       -
Verified      .       x       .        x          x           .          .         .       .
Opened        .       x       .        .          .           .          .         .       .
ReminderDue   .       x       x        x          .           .          .         .       .
Answered      x       x       x        x          x           x          x         x       x
ChildCalled   .       x       -        -          -           -          -         -       -
ChildStopped  .       x       -        -          -           -          -         -       -
ChildUndoing  .       -       -        -          x           -          -         -       -
ChildEnd      x       x       x        x          x           x          x         x       x
ParentUndo    .       .       .        .          x           x          x         x       x
Told          .       x       x        x          x           x          x         x       x
TimerDue      .       x       x        x          .           .          .         .       .
Expired       .       x       x        x          .           .          .         .       .
Settled       x       x       x        x          .           .          .         .       .
Undone        .       .       .        x          x           .          .         .       .
Notified      .       x       x        x          x           x          x         x       x
Recovered     x       x       x        x          x           x          x         x       x
PolicyMoved   x       x       x        x          x           .          .         .       .
Late          x       x       x        x          x           x          x         x       x
Cancel        x       x       x        x          .           .          .         x       .
Reopen        .       .       .        .          .           .          .         x       .
Resolve       .       x       x        x          x           x          x         x       x
Signalled     x       x       x        x          x           x          x         x       x
Pause         x       x       x        x          x           .          .         .       .
Resume        x       .       .        x          .           .          .         .       .
"""
"""Which input makes sense in which status, written down a second time; `-`: it is taken, and nothing follows."""


def _grid() -> dict[tuple[WorkflowStatus, str], str]:
    head, *rows = (line.split() for line in GRID.strip().splitlines())
    return {
        (WorkflowStatus(status), name): mark for name, *marks in rows for status, mark in zip(head, marks, strict=True)
    }


def _ended_once() -> Saga:
    """RUNNING at its second step, after an ending of which the plugin cannot be told: that incident is open."""
    saga = Saga(plan(step("a"), charge("b"), notifies=True)).run(done(), NO_AND_LEAVE)
    saga.notify("no", "no", "no")
    saga.reopen()
    return saga


def _cancelled() -> Saga:
    saga = _ended_once()
    saga.cancel(compensate=False)
    saga.settle()
    return saga


STATES: dict[WorkflowStatus, Callable[[], State]] = {
    WorkflowStatus.PENDING: lambda: Saga(plan(step("a")), begun=False).state,
    WorkflowStatus.RUNNING: lambda: _ended_once().state,
    WorkflowStatus.WAITING: lambda: _ended_once().run(parked("go", until=NOON)).state,
    WorkflowStatus.SUSPENDED: lambda: _ended_once().run(RAISED).state,
    WorkflowStatus.COMPENSATING: lambda: _ended_once().run(NO).state,
    WorkflowStatus.COMPLETED: lambda: _ended_once().run(done()).state,
    WorkflowStatus.COMPENSATED: lambda: _ended_once().run(NO).undo(None).state,
    WorkflowStatus.FAILED: lambda: _ended_once().run(NO_AND_LEAVE).state,
    WorkflowStatus.CANCELLED: lambda: _cancelled().state,
}


def _paused(saga: Saga) -> State:
    saga.pause()
    return saga.state


def _paused_in_a_call() -> State:
    saga = _ended_once()
    saga.call_step()
    return _paused(saga)


def _stopped(saga: Saga) -> State:
    saga.cancel()
    return saga.state


def _beside(state: State) -> State:
    """The run has a second branch, whose wait is due; made by hand."""
    wait = WaitFor(next="b", due_at=NOON, remind_at=NOON)
    other = Branch(id=1, step="a", visit=2, phase=Phase.WAITING, wait=wait, wait_opened=state.seq)
    return replace(state, branches=(*state.branches, other))


def _asking() -> State:
    saga = Saga(plan(approves(remind_ms=1))).wait(-1)
    saga.open()
    return saga.state


def _with_child() -> Saga:
    saga = Saga(plan(calls(), step("b")))
    saga.call_child()
    return saga


def _undoing_a_child() -> State:
    saga = _with_child()
    saga.child_ends(WorkflowStatus.COMPLETED)
    return saga.run(NO).state


SPECIAL: dict[tuple[WorkflowStatus, str], Callable[[], State]] = {
    (WorkflowStatus.RUNNING, "Opened"): lambda: Saga(plan(asks())).state,
    (WorkflowStatus.RUNNING, "ChildCalled"): lambda: Saga(plan(calls())).state,
    (WorkflowStatus.RUNNING, "ChildStopped"): lambda: _stopped(_with_child()),
    (WorkflowStatus.COMPENSATING, "ChildUndoing"): _undoing_a_child,
    (WorkflowStatus.RUNNING, "ReminderDue"): lambda: _beside(_ended_once().state),
    (WorkflowStatus.WAITING, "ReminderDue"): _asking,
    (WorkflowStatus.SUSPENDED, "ReminderDue"): lambda: _beside(_ended_once().run(RAISED).state),
    (WorkflowStatus.RUNNING, "TimerDue"): lambda: _beside(_ended_once().state),
    (WorkflowStatus.WAITING, "Settled"): lambda: _stopped(_ended_once().run(parked("go"))),
    (WorkflowStatus.SUSPENDED, "Finished"): _paused_in_a_call,
    (WorkflowStatus.SUSPENDED, "Withdrawn"): _paused_in_a_call,
    (WorkflowStatus.SUSPENDED, "Verified"): lambda: _paused(Saga(plan(charge(), verifies=True)).run(RAISED)),
    (WorkflowStatus.SUSPENDED, "TimerDue"): lambda: _beside(_ended_once().run(RAISED).state),
    (WorkflowStatus.SUSPENDED, "Settled"): lambda: _beside(_stopped(_ended_once().run(RAISED))),
    (WorkflowStatus.SUSPENDED, "Undone"): lambda: _paused(_ended_once().run(NO)),
    (WorkflowStatus.SUSPENDED, "Resume"): lambda: _paused(_ended_once()),
    (WorkflowStatus.PENDING, "Resume"): lambda: _paused(Saga(plan(step("a")), begun=False)),
}
"""Where an input makes sense for some runs of a status only."""


def _call(state: State) -> Call:
    match state.status:
        case WorkflowStatus.RUNNING:
            return Call.STEP
        case WorkflowStatus.COMPENSATING:
            return Call.UNDO
        case _:
            return Call.COMPLETE


def _resolve(state: State) -> Resolve:
    kinds = {incident.kind: incident.id for incident in state.incidents}
    incident = kinds.get(IncidentKind.COMPLETION_FAILED, "none")
    return Resolve(act=9, by="ann", incident=incident, action=Action.RETRY, note="it is back")


INPUTS: dict[str, Callable[[State], Input]] = {
    "Begun": lambda _: Begun(),
    "Intended": lambda state: Intended(call=_call(state)),
    "Finished": lambda _: Finished(branch=0, end=done()),
    "Withdrawn": lambda _: Withdrawn(branch=0),
    "Beaten": lambda _: Beaten(branch=0, step="b", visit=1, detail={"copied": 7}),
    "Verified": lambda state: Verified(call=_call(state), answer=Unknown()),
    "Settled": lambda state: Settled(branch=len(state.branches) - 1),
    "Undone": lambda _: Undone(),
    "Notified": lambda _: Notified(n=1),
    "Recovered": lambda _: Recovered(host="h-2", fence=2),
    "PolicyMoved": lambda _: PolicyMoved(policy="p-2", changes=("timeout_ms was 0; it is 5",)),
    "Late": lambda _: Late(act=9, call=Call.STEP, step="b", visit=1, attempt=1, evidence="it was done"),
    "Cancel": lambda _: Cancel(act=9, by="ann", reason="ordered twice"),
    "Reopen": lambda _: Reopen(act=9, by="ann", reason="mended"),
    "Resolve": _resolve,
    "Opened": lambda _: Opened(branch=0),
    "ReminderDue": lambda state: ReminderDue(branch=len(state.branches) - 1),
    "Answered": lambda _: Answered(act=9, by="ann", at=NOON, key=f"{RUN_ID}:b"),
    "ChildCalled": lambda _: ChildCalled(branch=0, key=f"{RUN_ID}:ship", run_id=CHILD_ID),
    "ChildStopped": lambda _: ChildStopped(branch=0, run_id=CHILD_ID),
    "ChildUndoing": lambda _: ChildUndoing(run_id=CHILD_ID),
    "ChildEnd": lambda _: ChildEnd(
        act=9, key=f"{RUN_ID}:ship", run_id=CHILD_ID, ending=1, status=WorkflowStatus.COMPLETED
    ),
    "ParentUndo": lambda _: ParentUndo(act=9, by="run:above", reason="its parent is being undone"),
    "Told": lambda _: Told(ending=1),
    "TimerDue": lambda state: TimerDue(branch=len(state.branches) - 1),
    "Expired": lambda _: Expired(),
    "Signalled": lambda _: Signalled(act=9, by="ann", at=NOON, name="go", payload=1),
    "Pause": lambda _: Pause(act=9, by="ann", reason="have a look"),
    "Resume": lambda _: Resume(act=9, by="ann", reason="looked"),
}


def test_the_grid_has_a_row_for_every_input() -> None:
    """§4: so that a new input is thought through for every status."""
    assert {name for _, name in _grid()} == set(INPUTS) == {form.__name__ for form in LEGAL}


@pytest.mark.parametrize(("status", "name"), list(product(WorkflowStatus, INPUTS)))
def test_every_status_takes_its_inputs_and_refuses_the_others(status: WorkflowStatus, name: str) -> None:
    """§4, P9: an illegal (status × input) pair is refused, with the status in the message; a legal one has events."""
    state = SPECIAL.get((status, name), STATES[status])()
    assert state.status is status
    given = INPUTS[name](state)
    match _grid()[status, name]:
        case "x":
            assert decide(state, given, now=NOON).events
        case "-":
            assert decide(state, given, now=NOON).state is state
        case _:
            with pytest.raises(Conflict, match=str(status)):
                decide(state, given, now=NOON)


@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        ("Cancel", "cancel", WorkflowStatus.COMPLETED),
        ("Reopen", "retry", WorkflowStatus.COMPENSATED),
        ("Resolve", "resolving an incident", WorkflowStatus.PENDING),
        ("Finished", "Finished", WorkflowStatus.CANCELLED),
        ("Pause", "pause", WorkflowStatus.COMPLETED),
        ("Resume", "resume", WorkflowStatus.FAILED),
    ],
)
def test_a_refused_input_is_named_as_its_command_is(name: str, words: str, status: WorkflowStatus) -> None:
    """§4: both status and input stand in the message."""
    state = STATES[status]()
    with pytest.raises(Conflict, match=f"^{words} is not possible while the run is {status}"):
        decide(state, INPUTS[name](state), now=NOON)


def test_a_run_that_nobody_has_taken_up_is_pending() -> None:
    """§4: PENDING has not begun; taking it up makes it RUNNING, durably."""
    saga = Saga(plan(step("a")), begun=False)
    assert (saga.status(), saga.state.started_at) == (WorkflowStatus.PENDING, None)
    saga.due(Begin)
    saga.wait(5).begin()
    assert (saga.status(), saga.state.started_at) == (WorkflowStatus.RUNNING, NOON + 5)
    saga.due(Execute)


def test_a_retry_wait_is_running() -> None:
    """§4: RUNNING if a branch has work or a retry wait."""
    assert Saga(plan(step("a"))).run(AGAIN).status() is WorkflowStatus.RUNNING


def test_a_run_whose_only_branch_is_parked_is_waiting() -> None:
    """§4: nothing has work, nothing holds it."""
    saga = Saga(plan(step("a"))).run(parked("go", for_ms=5))
    assert saga.status() is WorkflowStatus.WAITING
    assert wake_at(saga.state) == NOON + 5


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (lambda: _ended_once().state, WorkflowStatus.RUNNING),
        (lambda: _ended_once().run(RAISED).state, WorkflowStatus.SUSPENDED),
        (lambda: _ended_once().run(parked("go")).state, WorkflowStatus.WAITING),
    ],
)
def test_of_several_branches_work_comes_before_holds_and_holds_before_waits(
    state: Callable[[], State], status: WorkflowStatus
) -> None:
    """§4: "RUNNING if one has work or a retry wait, else SUSPENDED if an incident … holds one, else WAITING"."""
    other = Signalled(act=9, by="ann", at=NOON, name="other")
    assert decide(_beside(state()), other, now=NOON).state.status is status


def test_an_incident_on_the_only_branch_suspends() -> None:
    """§4."""
    saga = Saga(plan(charge())).run(RAISED)
    assert saga.status() is WorkflowStatus.SUSPENDED
    assert wake_at(saga.state) is None


def test_in_doubt_is_running_while_verify_step_is_being_asked() -> None:
    """§4, §6: no incident yet, so nothing holds the branch."""
    saga = Saga(plan(charge(), verifies=True)).run(RAISED)
    assert saga.status() is WorkflowStatus.RUNNING
    assert wake_at(saga.state) is not None


def test_compensating_from_the_start_of_the_walk_suspended_while_an_undo_is_in_doubt() -> None:
    """§4, §5: COMPENSATING is durable before the first undo; then SUSPENDED if an undo is in doubt."""
    saga = Saga(plan(step("a", undo_idempotent=False), step("b"))).run(done(), NO)
    assert saga.status() is WorkflowStatus.COMPENSATING
    saga.undo(RAISED)
    assert saga.status() is WorkflowStatus.SUSPENDED
    saga.answer(Action.NOT_DONE)
    assert saga.status() is WorkflowStatus.COMPENSATING


@pytest.mark.parametrize("status", [WorkflowStatus.RUNNING, WorkflowStatus.COMPENSATING])
def test_an_incident_of_an_earlier_ending_holds_no_live_run(status: WorkflowStatus) -> None:
    """§4: `completion_failed` is about the past; the run goes on."""
    state = STATES[status]()
    assert [incident.kind for incident in state.incidents] == [IncidentKind.COMPLETION_FAILED]
    assert wake_at(state) is not None
