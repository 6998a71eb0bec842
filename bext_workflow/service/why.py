"""`why`: what a run waits for, since when, what holds it, and what follows on each thing that may happen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from bext_workflow.core.forks import forked_from, undo_target
from bext_workflow.core.lineage import undone_child
from bext_workflow.core.state import Branch, Incident, Phase, State, visit_key
from bext_workflow.core.waiting import is_approval
from bext_workflow.core.work import left_in_place
from bext_workflow.model import event as events
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.json import Json, dumps
from bext_workflow.model.names import END
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import ANSWERS, Call, WorkflowStatus
from bext_workflow.model.view import Consequence, WhyView, instant
from bext_workflow.model.wait import WaitFor
from bext_workflow.ports.store import InboxRow
from bext_workflow.service.engine import Serving
from bext_workflow.service.steps import Journal

_BRANCHES_TOLD = 5
_DETAIL_TOLD = 200
"""Characters of a heartbeat's detail."""


class Told(msgspec.Struct, frozen=True):
    """A sentence, and what may follow."""

    sentence: str
    next: tuple[Consequence, ...] = ()


def why(
    state: State, journal: Journal, *, inbox: Sequence[InboxRow], served: Collection[Serving] | None, now: int
) -> WhyView:
    """The whole answer. `served`: what the hosts that are there drive; None: no host is there."""
    told = [*_of_hosts(state, served), *_of_inbox(inbox), *_of_state(state, journal, now)]
    return WhyView(
        run_id=state.run_id,
        status=state.status,
        text=" ".join(one.sentence for one in told),
        next=[consequence for one in told for consequence in one.next],
    )


def _of_hosts(state: State, served: Collection[Serving] | None) -> Iterator[Told]:
    if state.status.terminal and not state.notices and not state.reports:
        return
    if served is None:
        yield Told("No host is there to drive it: it goes on once `bext-host serve` runs.")
    elif not any((workflow, version) == (state.workflow, state.version) for workflow, version, _ in served):
        others = ", ".join(sorted({f"{workflow}@{version}" for workflow, version, _ in served})) or "nothing"
        mine = f"{state.workflow}@{state.version}"
        yield Told(f"No live host serves {mine}: it is left alone until one does. They serve {others}.")


def _of_inbox(inbox: Sequence[InboxRow]) -> Iterator[Told]:
    for row in inbox:
        yield Told(f"{row.by} asked at {instant(row.at)} for: {row.kind}; no host has taken it up yet.")


def _of_state(state: State, journal: Journal, now: int) -> Iterator[Told]:
    if state.status.terminal:
        yield from _of_end(state)
    elif state.status is WorkflowStatus.PENDING:
        yield Told(f"It was started at {instant(state.created_at)} and has not begun.")
    if state.paused:
        yield _of_pause(journal)
    yield from _of_notices(state, now)
    yield from (_of_incident(incident) for incident in state.incidents)
    if state.status.terminal:
        return
    if state.stop is not None:
        yield Told(f"It is to stop ({state.stop.reason}): what runs goes on to its end first.")
    if state.undo is not None:
        yield from _of_undo(state, now)
    if not state.compensating:
        yield from _of_branches(state, journal, now)


def _of_end(state: State) -> Iterator[Told]:
    ended = "" if state.ended_at is None else f" at {instant(state.ended_at)}"
    because = "" if state.failure is None else f": {state.failure}"
    left = left_in_place(state)
    in_place = f" Left in place: {', '.join(left)}." if left else ""
    match state.status:
        case WorkflowStatus.COMPLETED:
            yield Told(f"It completed{ended}.")
        case WorkflowStatus.COMPENSATED:
            yield Told(f"It failed and was undone, whole{ended}{because}. A new run may be started instead.")
        case WorkflowStatus.CANCELLED:
            yield Told(f"It was cancelled{ended}.{in_place}")
        case _:
            yield Told(f"It failed{ended}{because}.{in_place}", tuple(_after_failure(state, left)))


def _after_failure(state: State, left: Sequence[str]) -> Iterator[Consequence]:
    if state.incidents or state.undo is not None:
        return
    if left:
        yield Consequence(on="runs cancel", then=f"undoes {', '.join(reversed(left))}")
    if state.branches:
        yield Consequence(on="runs retry", then=f"step {state.branches[0].step} is tried again")


def _of_pause(journal: Journal) -> Told:
    paused = next(((event, at) for event, at in reversed(journal) if isinstance(event, events.RunPaused)), None)
    if paused is None:
        return Told("It is paused.")
    event, at = paused
    because = f": {event.reason}" if event.reason else ""
    resumed = Consequence(on="runs resume", then="it goes on where it stands")
    return Told(f"{event.by} paused it at {instant(at)}{because}; nothing new starts.", (resumed,))


def _of_notices(state: State, now: int) -> Iterator[Told]:
    for notice in state.notices[:1]:
        when = f", at {instant(notice.ready_at)}" if notice.ready_at > now else ""
        yield Told(f"on_workflow_complete has not been told of {notice.status} yet (attempt {notice.attempt}{when}).")
    for report in state.reports[:1]:
        yield Told(f"Its parent does not know yet that it ended {report.status}.")


def _of_incident(incident: Incident) -> Told:
    where = {Call.STEP: "step", Call.UNDO: "the undo of step", Call.COMPLETE: "on_workflow_complete"}[incident.call]
    at = f"{where} {incident.step}".strip()
    answers = tuple(
        Consequence(on=f"incidents resolve {incident.id} --action {action}", then=ANSWERS[action])
        for action in incident.actions
    )
    kind = incident.kind.replace("_", " ")
    return Told(f"A person must decide: {kind} at {at} (attempt {incident.attempt}): {incident.reason}.", answers)


def _of_undo(state: State, now: int) -> Iterator[Told]:
    entry, undo = undo_target(state), state.undo
    if entry is None or undo is None:
        return
    rest = [other.step for other in newest_first(state.pending) if other is not entry] if state.compensating else []
    then = f"then {', '.join(rest)}" if rest else "which is the last one"
    whose = (
        f"It walks back ({state.failure})" if state.compensating else "Branches that a join has no need of are undone"
    )
    child = undone_child(state)
    if any(incident.call is Call.UNDO for incident in state.incidents):
        yield Told(f"{whose}; step {entry.step} is next, {then}.")
    elif undo.phase is Phase.WAITING:
        yield Told(f"{whose}: it waits for its child {child} to be undone, {then}.")
    elif undo.ready_at > now:
        yield Told(
            f"{whose}: the undo of {entry.step} failed, attempt {undo.attempt} is at {instant(undo.ready_at)}, {then}."
        )
    else:
        yield Told(f"{whose}: step {entry.step} is being undone (attempt {undo.attempt}), {then}.")


def _of_branches(state: State, journal: Journal, now: int) -> Iterator[Told]:
    told = 0
    held = {incident.branch for incident in state.incidents if incident.call is Call.STEP}
    for branch in state.branches:
        if branch.id in held or branch.phase in (Phase.FAILED, Phase.STOPPED):
            continue
        if told == _BRANCHES_TOLD:
            yield Told(f"There are {len(state.branches)} branches in all.")
            return
        told += 1
        yield _of_branch(state, branch, journal, now)


def _of_branch(state: State, branch: Branch, journal: Journal, now: int) -> Told:
    step, name = state.plan.step(branch.step), _name(branch)
    match branch.phase:
        case Phase.WAITING if branch.wait is not None:
            return _of_wait(state, branch, branch.wait, instant(journal[branch.wait_opened - 1][1]))
        case Phase.FORKED:
            return _of_fork(state, branch)
        case Phase.READY if branch.ready_at > now:
            return _of_retry(state, branch, journal)
        case Phase.READY | Phase.STARTED:
            return Told(f"{name} is about to begin." if step.hosted else _attempted(step, branch, journal))
        case Phase.IN_DOUBT:
            return Told(f"{name} may have acted or not (attempt {branch.attempt}); verify_step is asked.")
        case _:
            return Told(f"{name} is held.")


def _attempted(step: StepDefinition, branch: Branch, journal: Journal) -> str:
    bound = f", and has {step.timeout_ms} ms" if step.timeout_ms else ""
    more = f", or {step.heartbeat_ms} ms from its last heartbeat on" if step.timeout_ms and step.heartbeat_ms else ""
    said = next((f" It said {_short(beat.detail)} at {instant(at)}." for beat, at in _beats(journal, branch)), "")
    return f"{_name(branch)} is running or about to (attempt {branch.attempt}){bound}{more}.{said}"


def _of_retry(state: State, branch: Branch, journal: Journal) -> Told:
    most = state.plan.step(branch.step).retries.max_attempts
    then = _when_spent(state, branch) if branch.spent + 1 >= most else "another attempt follows"
    because = next((event.reason for event in _failures(journal, branch)), "the last attempt failed")
    return Told(
        f"{_name(branch)} failed ({because}); attempt {branch.attempt} is at {instant(branch.ready_at)}, "
        f"{branch.spent} of {most} are spent.",
        (Consequence(on=f"attempt {branch.attempt} fails too", then=then),),
    )


def _of_wait(state: State, branch: Branch, wait: WaitFor, since: str) -> Told:
    name = _name(branch)
    if wait.child is not None:
        asked = " and has told it to stop" if wait.stopping else ""
        return Told(f"{name} waits for the end of its child {wait.child}, since {since}{asked}.")
    ahead = _ahead(wait.next or state.plan.definition.default_next(branch.step))
    what, consequences = _awaited(state, branch, wait, ahead)
    if wait.due_at is not None:
        late = ahead if wait.signal is None else "the run compensates"
        then = _ahead(wait.on_timeout) if wait.on_timeout else late
        consequences.append(Consequence(on=f"the time is over at {instant(wait.due_at)}", then=then))
    until = "" if wait.due_at is None else f", at most until {instant(wait.due_at)}"
    return Told(f"{name} waits for {what} since {since}{until}.", tuple(consequences))


def _awaited(state: State, branch: Branch, wait: WaitFor, ahead: str) -> tuple[str, list[Consequence]]:
    """What the wait is for, and what ends it but its time."""
    declared = state.plan.step(branch.step).wait
    if is_approval(state, branch.step) and declared is not None and declared.approval is not None:
        key = visit_key(state.run_id, branch.step, branch.visit, branch.place)
        on_reject = declared.approval.on_reject
        return "a decision", [
            Consequence(on=f"approvals approve {key}", then=ahead),
            Consequence(on=f"approvals reject {key}", then=_ahead(on_reject) if on_reject else "the run compensates"),
        ]
    if wait.signal is None:
        return "its time", []
    return f"the signal {wait.signal}", [Consequence(on=f"runs signal {state.run_id} {wait.signal}", then=ahead)]


def _of_fork(state: State, branch: Branch) -> Told:
    group = forked_from(state, branch.id)
    if group is None:
        return Told(f"{_name(branch)} has forked.")
    meet = "they end by themselves" if group.at == END else f"they meet before {group.at}, which needs {group.need}"
    arrived = f"{len(group.arrived)} of {len(group.members)} branches have arrived"
    return Told(f"{_name(branch)} has forked; {arrived}: {meet}.")


def _when_spent(state: State, branch: Branch) -> str:
    if state.pivoted:
        return "a person is asked: a pivot step has completed"
    spent = state.plan.step(branch.step).retries.on_exhausted
    return {"compensate": "the run compensates", "fail": "the run fails", "incident": "a person is asked"}[spent]


def _ahead(next_: str | tuple[str, ...]) -> str:
    if isinstance(next_, str):
        return "the run ends" if next_ == END else f"it goes on at {next_}"
    return f"it forks into {', '.join(next_)}"


def _beats(journal: Journal, branch: Branch) -> Iterator[tuple[events.HeartbeatRecorded, int]]:
    """What the attempts of the branch's visit have said, newest first."""
    for event, at in reversed(journal):
        match event:
            case events.HeartbeatRecorded(branch=branch.id, step=branch.step, visit=branch.visit):
                yield event, at
            case _:
                continue


def _short(value: Json) -> str:
    text = dumps(value).decode()
    return text if len(text) <= _DETAIL_TOLD else f"{text[:_DETAIL_TOLD]}…"


def _failures(journal: Journal, branch: Branch) -> Iterator[events.AttemptFailed]:
    """The failed attempts of the branch's visit, newest first."""
    for event, _ in reversed(journal):
        if not isinstance(event, events.AttemptFailed) or event.call is not Call.STEP:
            continue
        if (event.branch, event.step, event.visit) == (branch.id, branch.step, branch.visit):
            yield event


def _name(branch: Branch) -> str:
    place = branch.place if branch.visit == 1 else f"{branch.place} (visit {branch.visit})"
    return f"Step {branch.step}{place}"
