"""`why`: what a run waits for, since when, what holds it, and what follows on each thing that may happen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from bext_workflow.core.decide import decide
from bext_workflow.core.forks import undo_target
from bext_workflow.core.input import Cancel, Reopen
from bext_workflow.core.lineage import undone_child
from bext_workflow.core.state import Incident, Phase, State, Stop, Undo
from bext_workflow.core.work import expires_at, left_in_place
from bext_workflow.errors import Conflict
from bext_workflow.model import event as events
from bext_workflow.model.run import Completed, newest_first
from bext_workflow.model.status import ANSWERS, Call, WorkflowStatus
from bext_workflow.model.view import Consequence, WhyView, instant
from bext_workflow.ports.store import InboxRow
from bext_workflow.service.engine import Serving
from bext_workflow.service.sight import Sight, Told, name_of
from bext_workflow.service.why_branches import of_branches


def why(sight: Sight, *, inbox: Sequence[InboxRow] = (), served: Collection[Serving] | None) -> WhyView:
    """The whole answer. `served`: what the hosts that are there drive; None: no host is there."""
    state = sight.state
    told = [*_of_hosts(sight, served), *_of_inbox(inbox), *_of_state(sight)]
    return WhyView(
        run_id=state.run_id,
        status=state.status,
        text=" ".join(one.sentence for one in told),
        next=[consequence for one in told for consequence in one.next],
    )


def _of_hosts(sight: Sight, served: Collection[Serving] | None) -> Iterator[Told]:
    state = sight.state
    if sight.driven or (state.status.terminal and not state.notices and not state.reports):
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


def _of_state(sight: Sight) -> Iterator[Told]:
    state = sight.state
    if state.status.terminal:
        yield from _of_end(sight)
    elif state.status is WorkflowStatus.PENDING:
        first = ", ".join(name_of(branch) for branch in state.branches)
        yield Told(f"It was started at {instant(state.created_at)} and has not begun. {first} comes first.")
    if state.paused:
        yield _of_pause(sight)
    yield from _of_notices(sight)
    yield from (_of_incident(incident, sight) for incident in state.incidents)
    if state.status.terminal:
        return
    if state.stop is not None:
        yield _of_stop(state, state.stop)
    if state.undo is not None:
        yield from _of_undo(sight)
    if not state.compensating and state.status is not WorkflowStatus.PENDING:
        yield from of_branches(sight)
    if (over := expires_at(state)) is not None:
        then = "a person is asked: a pivot step has completed" if state.pivoted else "the run stops and compensates"
        on = f"the run's own time is over at {instant(over)}"
        yield Told(f"The whole run has until {instant(over)}.", (Consequence(on=on, then=then),))


def _of_end(sight: Sight) -> Iterator[Told]:
    state = sight.state
    ended = "" if state.ended_at is None else f" at {instant(state.ended_at)}"
    because = "" if state.failure is None else f": {state.failure}"
    left = left_in_place(state)
    in_place = f" Left in place: {', '.join(left)}." if left else ""
    match state.status:
        case WorkflowStatus.COMPLETED:
            yield Told(f"It completed{ended}.")
        case WorkflowStatus.COMPENSATED:
            yield Told(f"It was undone as a whole{ended}{because}. A new run may be started instead.")
        case WorkflowStatus.CANCELLED:
            yield Told(f"It was cancelled{ended}.{in_place}")
        case _:
            yield Told(f"It failed{ended}{because}.{in_place}", tuple(_after_failure(sight, left)))


def _after_failure(sight: Sight, left: Sequence[str]) -> Iterator[Consequence]:
    """What the rules let a person do; where there is an incident, its answers are what there is to do."""
    state = sight.state
    if state.incidents:
        return
    act = state.inbox + 1
    if _after(sight, Cancel(act=act, by="", reason="")) is not None:
        undone = ", ".join(reversed(left))
        yield Consequence(on=f"runs cancel {state.run_id} --reason …", then=f"undoes {undone}")
    again = _after(sight, Reopen(act=act, by="", reason=""))
    if again is not None:
        steps = ", ".join(dict.fromkeys(branch.step for branch in again.live))
        yield Consequence(on=f"runs retry {state.run_id} --reason …", then=f"it is tried again from {steps}")


def _after(sight: Sight, act: Cancel | Reopen) -> State | None:
    """The run after the act; None if the rules refuse it."""
    try:
        return decide(sight.state, act, now=sight.now).state
    except Conflict:
        return None


def _of_pause(sight: Sight) -> Told:
    resumed = Consequence(on=f"runs resume {sight.state.run_id} --reason …", then="it goes on where it stands")
    paused = next(((event, at) for event, at in reversed(sight.journal) if isinstance(event, events.RunPaused)), None)
    if paused is None:
        return Told("It is paused.", (resumed,))
    event, at = paused
    because = f": {event.reason}" if event.reason else ""
    return Told(f"{event.by} paused it at {instant(at)}{because}; nothing new starts.", (resumed,))


def _of_notices(sight: Sight) -> Iterator[Told]:
    for notice in sight.state.notices[:1]:
        when = f", at {instant(notice.ready_at)}" if notice.ready_at > sight.now else ""
        yield Told(f"on_workflow_complete has not been told of {notice.status} yet (attempt {notice.attempt}{when}).")
    for report in sight.state.reports[:1]:
        yield Told(f"Its parent does not know yet that it ended {report.status}.")


def _of_incident(incident: Incident, sight: Sight) -> Told:
    where = {Call.STEP: "step", Call.UNDO: "the undo of step", Call.COMPLETE: "on_workflow_complete"}[incident.call]
    at = f"{where} {incident.step}".strip()
    answers = tuple(
        Consequence(on=f"incidents resolve {incident.id} --action {action} --note …", then=ANSWERS[action])
        for action in incident.actions
    )
    opened = sight.last(lambda event: isinstance(event, events.IncidentOpened) and event.id == incident.id)
    kind = incident.kind.replace("_", " ")
    # None has been recorded of a call that took its hosts down before they wrote attempts down.
    attempt = f" (attempt {incident.attempt})" if incident.attempt else ""
    return Told(
        f"A person must decide since {instant(opened)}: {kind} at {at}{attempt}: {incident.reason}.",
        answers,
    )


def _of_stop(state: State, stop: Stop) -> Told:
    steps = ", ".join(entry.step for entry in newest_first(state.pending) if not state.plan.step(entry.step).waits)
    first = "what runs goes on to its end first, and counts if it completes"
    if stop.compensate:
        return Told(f"It is to stop ({stop.reason}): {first}; then it undoes {steps or 'what has been done'}.")
    return Told(f"It is to stop ({stop.reason}): {first}; then it ends, and leaves in place {steps or 'what it did'}.")


def _of_undo(sight: Sight) -> Iterator[Told]:
    state = sight.state
    entry, undo = undo_target(state), state.undo
    if entry is None or undo is None:
        return
    if state.compensating:
        rest = ", ".join(other.step for other in newest_first(state.pending) if other is not entry)
        whose = f"It walks back ({state.failure})"
        then = f" After it: {rest}." if rest else " It is the last one."
    else:
        whose, then = "Branches that a join has no need of are undone", ""
    attempt = f"(attempt {undo.attempt})"
    if any(incident.call is Call.UNDO for incident in state.incidents):
        yield Told(f"{whose}: step {entry.step} is next.{then}")
    elif undo.phase is Phase.WAITING:
        yield Told(f"{whose}: it waits for its child {undone_child(state)} to be undone.{then}")
    elif undo.ready_at > sight.now:
        yield _of_undo_again(sight, entry, undo, f"{whose}: the undo of {entry.step} failed", then)
    elif not sight.driven:
        yield Told(f"{whose}: step {entry.step} is next {attempt}, once a host takes it up.{then}")
    else:
        since = instant(max(sight.last(_moves_the_undo), undo.ready_at))
        yield Told(f"{whose}: step {entry.step} is being undone since {since} {attempt}.{then}")


def _of_undo_again(sight: Sight, entry: Completed, undo: Undo, failed: str, then: str) -> Told:
    most = sight.state.plan.step(entry.step).compensation_retries.max_attempts
    spent = "a person is asked, and the rest is as it is till then"
    consequence = spent if undo.spent + 1 >= most else "another attempt follows"
    return Told(
        f"{failed}{sight.because(Call.UNDO)}; attempt {undo.attempt} is at {instant(undo.ready_at)}, "
        f"{undo.spent} of {most} are spent.{then}",
        (Consequence(on=f"attempt {undo.attempt} fails too", then=consequence),),
    )


def _moves_the_undo(event: events.Event) -> bool:
    """Whether an undo may have begun with the event."""
    match event:
        case events.AttemptStarted(call=Call.UNDO) | events.AttemptRenewed(call=Call.UNDO):
            return True
        case events.CompensationStarted() | events.LosersUndoStarted() | events.StepCompensated():
            return True
        case events.UndoSkipped() | events.RunReopened() | events.Recovered():
            return True
        case _:
            return False
