"""`why`, of each line of progress: what it does or waits for, since when, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator

from bext_workflow.core.forks import forked_from
from bext_workflow.core.state import Branch, Phase, State, visit_key
from bext_workflow.core.waiting import is_approval
from bext_workflow.model import event as events
from bext_workflow.model.json import Json, dumps
from bext_workflow.model.names import END
from bext_workflow.model.status import Call
from bext_workflow.model.view import Consequence, instant
from bext_workflow.model.wait import WaitFor
from bext_workflow.service.sight import Sight, Told, name_of
from bext_workflow.service.steps import Journal

_BRANCHES_TOLD = 5
_DETAIL_TOLD = 200
"""Characters of a heartbeat's detail."""


def of_branches(sight: Sight) -> Iterator[Told]:
    state = sight.state
    told = 0
    held = {incident.branch for incident in state.incidents if incident.call is Call.STEP}
    for branch in state.branches:
        if branch.id in held or branch.phase in (Phase.FAILED, Phase.STOPPED):
            continue
        if told == _BRANCHES_TOLD:
            yield Told(f"There are {len(state.branches)} branches in all.")
            return
        told += 1
        yield _of_branch(sight, branch)


def _of_branch(sight: Sight, branch: Branch) -> Told:
    state = sight.state
    match branch.phase:
        case Phase.WAITING if branch.wait is not None:
            return _of_wait(state, branch, branch.wait, instant(sight.journal[branch.wait_opened - 1][1]))
        case Phase.FORKED:
            return _of_fork(state, branch)
        case Phase.READY if branch.ready_at > sight.now:
            return _of_retry(sight, branch)
        case Phase.READY | Phase.STARTED:
            return Told(_attempted(sight, branch))
        case Phase.IN_DOUBT:
            return Told(f"{name_of(branch)} may have acted or not (attempt {branch.attempt}); verify_step is asked.")
        case _:
            return Told(f"{name_of(branch)} is held.")


def _attempted(sight: Sight, branch: Branch) -> str:
    step, name = sight.state.plan.step(branch.step), name_of(branch)
    if step.hosted:
        return f"{name} is about to begin."
    since = instant(_due_since(sight, branch))
    if not sight.driven and branch.phase is Phase.STARTED:
        return (
            f"{name} ran when its host went away (attempt {branch.attempt}, since {since}); the next host sees to it."
        )
    if not sight.driven and sight.state.paused:
        return f"{name} is next (attempt {branch.attempt})."
    if not sight.driven:
        return f"{name} is due since {since} (attempt {branch.attempt}) and waits for a host to take it up."
    runs = "runs" if branch.phase is Phase.STARTED else "runs, or is about to,"
    bound = f", and has {step.timeout_ms} ms" if step.timeout_ms else ""
    more = f", or {step.heartbeat_ms} ms from its last heartbeat on" if step.timeout_ms and step.heartbeat_ms else ""
    beats = _beats(sight.journal, branch)
    said = next((f" It said {_short(beat.detail)} at {instant(at)}." for beat, at in beats), "")
    return f"{name} {runs} since {since} (attempt {branch.attempt}){bound}{more}.{said}"


def _due_since(sight: Sight, branch: Branch) -> int:
    """When the attempt that is due became so: with the visit, at the end of a wait, or by what set it going again."""

    def sets_going(event: events.Event) -> bool:
        match event:
            case events.AttemptStarted(call=Call.STEP, branch=branch.id):
                return True
            case events.AttemptCleared(call=Call.STEP, branch=branch.id):
                return True
            case events.RunResumed() | events.Recovered():
                return True
            case _:
                return False

    return max(branch.entered_at, branch.ready_at, sight.last(sets_going))


def _of_retry(sight: Sight, branch: Branch) -> Told:
    most = sight.state.plan.step(branch.step).retries.max_attempts
    then = _when_spent(sight.state, branch) if branch.spent + 1 >= most else "another attempt follows"
    return Told(
        f"{name_of(branch)} failed{sight.because(Call.STEP, branch)}; attempt {branch.attempt} is at "
        f"{instant(branch.ready_at)}, {branch.spent} of {most} are spent.",
        (Consequence(on=f"attempt {branch.attempt} fails too", then=then),),
    )


def _of_wait(state: State, branch: Branch, wait: WaitFor, since: str) -> Told:
    name = name_of(branch)
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
        return Told(f"{name_of(branch)} has forked.")
    meet = "they end by themselves" if group.at == END else f"they meet before {group.at}, which needs {group.need}"
    arrived = f"{len(group.arrived)} of {len(group.members)} branches have arrived"
    return Told(f"{name_of(branch)} has forked; {arrived}: {meet}.")


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
