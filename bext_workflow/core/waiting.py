"""Waits, signals and timers (semantics §3, §8, §9). A wait is a row and no memory; one append decides how it ends."""

from __future__ import annotations

from bext_workflow.core import visits
from bext_workflow.core.draft import Draft
from bext_workflow.core.forks import is_loser
from bext_workflow.core.input import Answered, Next, Parked, Signalled
from bext_workflow.core.state import Answer, Branch, Phase, Signal, State, visit_key
from bext_workflow.errors import Conflict, Gone
from bext_workflow.model.event import (
    ActIgnored,
    AnswerReceived,
    AnswerTaken,
    SignalReceived,
    StepCompleted,
    WaitEnded,
    WaitOpened,
    WaitReminded,
)
from bext_workflow.model.json import EMPTY, Document, JsonObject, dumps
from bext_workflow.model.status import WaitEnd
from bext_workflow.model.view import instant
from bext_workflow.model.wait import WaitFor


def open_hosted(draft: Draft, branch: Branch) -> None:
    """A branch has come to a step that the host itself does: it begins to wait."""
    step = draft.state.plan.step(branch.step)
    if step.wait is None:
        wait = WaitFor(due_at=draft.now + step.sleep_ms, for_ms=step.sleep_ms)
    else:
        bound = step.wait.timeout_ms or None
        remind = (step.wait.approval.remind_ms or None) if step.wait.approval is not None else None
        wait = WaitFor(
            signal=step.wait.signal,
            into=step.wait.into,
            due_at=None if bound is None else draft.now + bound,
            for_ms=bound,
            on_timeout=step.wait.on_timeout,
            remind_at=None if remind is None else draft.now + remind,
            remind_ms=remind,
        )
    draft.add(WaitOpened(branch=branch.id, step=branch.step, visit=branch.visit, wait=wait))
    deliver(draft)


def park_fault(draft: Draft, branch: Branch, end: Parked) -> str | None:
    """Why an outcome may not go on from its wait as it says; None if it may."""
    updates = end.updates.value
    fault = visits.next_fault(draft, branch, end.next, updates)
    return fault if end.on_timeout is None else fault or visits.next_fault(draft, branch, end.on_timeout, updates)


def park(draft: Draft, branch: Branch, end: Parked) -> None:
    """The outcome Wait: the step is done, and the branch waits before it goes on."""
    due_at = end.until if end.for_ms is None else draft.now + end.for_ms
    for_ms = None if due_at is None else max(due_at - draft.now, 0)
    wait = WaitFor(
        next=end.next, signal=end.signal, into=end.into, due_at=due_at, for_ms=for_ms, on_timeout=end.on_timeout
    )
    draft.add(
        StepCompleted(
            branch=branch.id,
            step=branch.step,
            visit=branch.visit,
            attempt=branch.attempt,
            updates=end.updates,
            next=visits.where_to(draft, branch, end.next, end.updates.value)[0],
            undo_data=end.undo_data,
            wait=wait,
        )
    )
    if draft.state.branch(branch.id) in _waiting(draft.state):
        deliver(draft)
    else:
        visits.went_on(draft, branch.id)


def signalled(draft: Draft, given: Signalled) -> None:
    """A signal is taken from the inbox, for the wait that was opened first.

    A wait whose time was over when the signal was accepted has lost to its timer, be it that nobody has looked yet.
    """
    if given.id is not None and given.id in draft.state.signal_ids:
        draft.add(ActIgnored(act=given.act, kind="signal", reason="a signal with this id has come already"))
        return
    wanting = [branch for branch in _waiting(draft.state) if _wants(draft.state, branch, given.name)]
    in_time = [branch for branch in wanting if not _due(branch, given.at)]
    draft.add(
        SignalReceived(
            act=given.act,
            name=given.name,
            by=given.by,
            accepted_at=given.at,
            payload=given.payload,
            id=given.id,
            late=bool(wanting) and not in_time,
        )
    )
    if in_time:
        _hand_over(draft, in_time[0], draft.state.signals[-1])


def answer(draft: Draft, given: Answered) -> None:
    """An answer is taken from the inbox, for the wait of its visit, open or not yet.

    As with signals, a wait whose time was over when it was accepted has lost to its timer.
    """
    if given.key in draft.state.answered:
        draft.add(ActIgnored(act=given.act, kind="answer", reason="the wait has had its answer already"))
        return
    branch = _at_visit(draft.state, given.key)
    draft.add(
        AnswerReceived(
            act=given.act,
            key=given.key,
            by=given.by,
            accepted_at=given.at,
            payload=given.payload,
            approved=given.approved,
            comment=given.comment,
            late=branch is not None and _due(branch, given.at),
        )
    )
    deliver(draft)


def deliver(draft: Draft) -> None:
    """Hands what is there to waits that begin: answers to theirs, signals in order, to the wait opened first."""
    for kept in draft.state.answers:
        branch = _at_visit(draft.state, kept.key)
        if branch is not None:
            _hand_over_answer(draft, branch, kept)
    while (found := _match(draft.state)) is not None:
        _hand_over(draft, *found)


def remind(draft: Draft, branch_id: int) -> None:
    """The driver's clock says that a reminder is due."""
    for branch in _waiting(draft.state):
        remind_at = None if branch.wait is None else branch.wait.remind_at
        if branch.id == branch_id and remind_at is not None and remind_at <= draft.now:
            draft.add(WaitReminded(branch=branch.id, step=branch.step, visit=branch.visit))


def is_approval(state: State, step: str) -> bool:
    """Whether the step waits for a decision."""
    return step in state.plan.definition.approvals


def fire(draft: Draft, branch: Branch) -> None:
    """The wait's time is over."""
    wait = _wait_of(branch)
    if wait.on_timeout is not None:
        _end(draft, branch, WaitEnd.TIMER, chosen=wait.on_timeout)
    elif wait.signal is None:
        _end(draft, branch, WaitEnd.TIMER)
    else:
        # Either the step is the host's, or it has completed and stands on the list already.
        visits.fail_visit(draft, branch, f"signal {wait.signal!r} did not come in time", own=False)


def timer_due(draft: Draft, branch_id: int) -> None:
    """The driver's clock says that a wait is due."""
    for branch in _waiting(draft.state):
        if branch.id == branch_id and _due(branch, draft.now):
            fire(draft, branch)


def answered(draft: Draft, branch: Branch, updates: Document, next_: Next) -> None:
    """A person says that what the branch waited for is done."""
    _end(draft, branch, WaitEnd.PERSON, chosen=next_, updates=updates)


def refuse_answer(state: State, key: str) -> None:
    """Raises `Gone` if the wait of that visit has had an answer, or is over; `Conflict` as `refuse_signal`."""
    if key in state.answered:
        raise Gone("the wait has had its answer already")
    if _is_over(state, key):
        raise Gone("the wait is over")
    refuse_signal(state)


def refuse_signal(state: State) -> None:
    """Raises `Conflict` if the run can take no signal any more (semantics §9, P29)."""
    if state.status.terminal:
        raise Conflict(f"the run is {state.status}: it takes no signals any more")
    if state.compensating or state.stop is not None:
        raise Conflict(f"the run is {state.status} and is being undone or stopped: it takes no signals any more")


def _end(
    draft: Draft,
    branch: Branch,
    how: WaitEnd,
    *,
    signal: int | None = None,
    updates: Document = EMPTY,
    chosen: Next = None,
) -> None:
    """Ends the wait; `chosen`: where a person, or its `on_timeout`, leads. What its map goes over is looked at now."""
    fault = visits.next_fault(draft, branch, chosen or _wait_of(branch).next, updates.value)
    if fault is not None:
        visits.fail_visit(draft, branch, fault)
        return
    next_, fork = visits.where_to(draft, branch, chosen or _wait_of(branch).next, updates.value)
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


def _hand_over(draft: Draft, branch: Branch, signal: Signal) -> None:
    wait = _wait_of(branch)
    value: JsonObject = {wait.key or signal.name: signal.payload}
    _end(draft, branch, WaitEnd.SIGNAL, signal=signal.act, updates=Document(dumps(value), value))


def _hand_over_answer(draft: Draft, branch: Branch, given: Answer) -> None:
    draft.add(AnswerTaken(key=given.key))
    wait, value = _wait_of(branch), given.payload
    definition = draft.state.plan.step(branch.step).wait
    on_reject = None
    if definition is not None and definition.approval is not None:
        value = {
            "approved": given.approved is True,
            "by": given.by,
            "at": instant(given.at),
            "comment": given.comment,
            "form": given.payload,
        }
        on_reject = None if given.approved else definition.approval.on_reject
        if not given.approved and on_reject is None:
            told = f"rejected by {given.by}" + (f": {given.comment}" if given.comment else "")
            visits.fail_visit(draft, branch, told, own=False)
            return
    updates: JsonObject = {} if wait.key is None else {wait.key: value}
    document = Document(dumps(updates), updates) if updates else EMPTY
    _end(draft, branch, WaitEnd.ANSWER, updates=document, chosen=on_reject)


def _at_visit(state: State, key: str) -> Branch | None:
    """The branch that waits at the visit of that key."""
    return next((branch for branch in _waiting(state) if _key(state, branch) == key), None)


def _is_over(state: State, key: str) -> bool:
    """Whether the visit of that key has been made, and nobody stands at it any more."""
    if any(_key(state, branch) == key and branch.phase is not Phase.FORKED for branch in state.branches):
        return False
    name, _, number = key.removeprefix(f"{state.run_id}:").partition("#")
    made: int = state.visits.get(name, 0)
    return int(number or 1) <= made


def _key(state: State, branch: Branch) -> str:
    return visit_key(state.run_id, branch.step, branch.visit, branch.place)


def _match(state: State) -> tuple[Branch, Signal] | None:
    for signal in state.signals:
        for branch in _waiting(state):
            if _wants(state, branch, signal.name):
                return branch, signal
    return None


def _waiting(state: State) -> list[Branch]:
    """The branches that a signal or a timer can move, in the order in which their waits were opened."""
    if state.stop is not None or state.status.terminal:
        return []
    parked = [branch for branch in state.branches if branch.phase is Phase.WAITING and not is_loser(state, branch)]
    return sorted(parked, key=lambda branch: branch.wait_opened)


def _wants(state: State, branch: Branch, name: str) -> bool:
    """A decision is no signal: whoever may send one may not decide (semantics §9)."""
    return branch.wait is not None and branch.wait.signal == name and not is_approval(state, branch.step)


def _due(branch: Branch, at: int) -> bool:
    return branch.wait is not None and branch.wait.due_at is not None and branch.wait.due_at <= at


def _wait_of(branch: Branch) -> WaitFor:
    if branch.wait is None:
        raise ValueError(f"branch {branch.id} does not wait")
    return branch.wait
