"""Waits, signals and timers (semantics §3, §8, §9). A wait is a row and no memory; one append decides how it ends."""

from __future__ import annotations

from bext_workflow.core import visits
from bext_workflow.core.draft import Draft
from bext_workflow.core.input import Parked, Signalled
from bext_workflow.core.state import Branch, Phase, Signal, State
from bext_workflow.errors import Conflict
from bext_workflow.model.event import SignalReceived, StepCompleted, WaitEnded, WaitOpened
from bext_workflow.model.json import EMPTY, Document, JsonObject, dumps
from bext_workflow.model.status import WaitEnd
from bext_workflow.model.wait import WaitFor


def open_hosted(draft: Draft, branch: Branch) -> None:
    """A branch has come to a step that the host itself does: it begins to wait."""
    step = draft.state.plan.step(branch.step)
    if step.wait is None:
        wait = WaitFor(due_at=draft.now + step.sleep_ms, for_ms=step.sleep_ms)
    else:
        bound = step.wait.timeout_ms or None
        wait = WaitFor(
            signal=step.wait.signal,
            into=step.wait.into,
            due_at=None if bound is None else draft.now + bound,
            for_ms=bound,
            on_timeout=step.wait.on_timeout,
        )
    draft.add(WaitOpened(branch=branch.id, step=branch.step, visit=branch.visit, wait=wait))
    deliver(draft)


def park(draft: Draft, branch: Branch, end: Parked) -> None:
    """The outcome Wait: the step is done, and the branch waits before it goes on."""
    due_at = end.until if end.for_ms is None else draft.now + end.for_ms
    wait = WaitFor(
        next=end.next, signal=end.signal, into=end.into, due_at=due_at, for_ms=end.for_ms, on_timeout=end.on_timeout
    )
    draft.add(
        StepCompleted(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            updates=end.updates,
            undo_data=end.undo_data,
            wait=wait,
        )
    )
    if draft.state.stop is None:
        deliver(draft)
    else:
        visits.went_on(draft, branch.id)


def signalled(draft: Draft, given: Signalled) -> None:
    """A signal is taken from the inbox. A timer that was due when it was accepted has won: the signal is late."""
    lost_to = [branch for branch in _waiting(draft.state) if _wants(branch, given.name) and _due(branch, given.at)]
    draft.add(
        SignalReceived(
            act=given.act,
            name=given.name,
            by=given.by,
            accepted_at=given.at,
            payload=given.payload,
            id=given.id,
            late=bool(lost_to),
        )
    )
    for branch in lost_to:
        fire(draft, branch)
    deliver(draft)


def deliver(draft: Draft) -> None:
    """Hands signals to the waits that want them: in the order of acceptance, to the wait that was opened first."""
    while (found := _match(draft.state)) is not None:
        branch, signal = found
        wait = _wait_of(branch)
        value: JsonObject = {wait.key or signal.name: signal.payload}
        _end(draft, branch, WaitEnd.SIGNAL, signal=signal.act, updates=Document(dumps(value), value))


def fire(draft: Draft, branch: Branch) -> None:
    """The wait's time is over. Does nothing if the branch waits no longer, or its time is yet to come."""
    if branch not in _waiting(draft.state):
        return
    wait = _wait_of(branch)
    if wait.on_timeout is not None:
        _end(draft, branch, WaitEnd.TIMER, late=wait.on_timeout)
    elif wait.signal is None:
        _end(draft, branch, WaitEnd.TIMER)
    else:
        visits.fail_visit(draft, branch, f"signal {wait.signal!r} did not come in time")


def timer_due(draft: Draft, branch_id: int) -> None:
    """The driver's clock says that a wait is due."""
    for branch in _waiting(draft.state):
        if branch.id == branch_id and _due(branch, draft.now):
            fire(draft, branch)


def refuse_signal(state: State) -> None:
    """Raises `Conflict` if the run can take no signal any more (semantics §9, P29)."""
    if state.status.terminal:
        raise Conflict(f"the run is {state.status}: it takes no signals any more")
    if state.undo is not None or state.stop is not None:
        raise Conflict(f"the run is {state.status} and is being undone or stopped: it takes no signals any more")


def _end(
    draft: Draft,
    branch: Branch,
    how: WaitEnd,
    *,
    signal: int | None = None,
    updates: Document = EMPTY,
    late: str | None = None,
) -> None:
    """Ends the wait; `late`: by its `on_timeout`. What its map goes over is looked at only now."""
    fault = visits.next_fault(draft, branch, late or _wait_of(branch).next, updates.value)
    if fault is not None:
        visits.fail_visit(draft, branch, fault)
        return
    next_, fork = visits.where_to(draft, branch, late or _wait_of(branch).next, updates.value)
    draft.add(
        WaitEnded(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            how=how,
            signal=signal,
            updates=updates,
            next=next_,
            fork=fork,
            completes=draft.state.plan.step(branch.step).hosted,
        )
    )
    visits.went_on(draft, branch.id)


def _match(state: State) -> tuple[Branch, Signal] | None:
    if state.stop is not None:
        return None
    for signal in state.signals:
        for branch in _waiting(state):
            if _wants(branch, signal.name):
                return branch, signal
    return None


def _waiting(state: State) -> list[Branch]:
    """The parked branches, in the order in which their waits were opened."""
    parked = [branch for branch in state.branches if branch.phase is Phase.WAITING]
    return sorted(parked, key=lambda branch: branch.wait_opened)


def _wants(branch: Branch, name: str) -> bool:
    return branch.wait is not None and branch.wait.signal == name


def _due(branch: Branch, at: int) -> bool:
    return branch.wait is not None and branch.wait.due_at is not None and branch.wait.due_at <= at


def _wait_of(branch: Branch) -> WaitFor:
    if branch.wait is None:
        raise ValueError(f"branch {branch.id} does not wait")
    return branch.wait
