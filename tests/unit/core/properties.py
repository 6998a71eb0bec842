"""The promises P1–P20 as predicates over what the world saw (the calls) and what is durable (the journal)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise

from bext_workflow.core.work import left_in_place
from bext_workflow.model.event import (
    AttemptCleared,
    AttemptFailed,
    AttemptRenewed,
    AttemptStarted,
    BranchSettled,
    CompensationStarted,
    CompletionSettled,
    IncidentOpened,
    IncidentResolved,
    Recovered,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunFailed,
    RunReopened,
    StepCompensated,
    StepCompleted,
    StepFailed,
    StopRequested,
    UndoSkipped,
    WaitEnded,
)
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WorkflowStatus
from tests.unit.core.simulator import Called, Record, Weather

ENDS = RunCompleted | RunCompensated | RunFailed | RunCancelled


def _by_attempt(calls: Iterable[Called]) -> dict[tuple[str, int], list[Called]]:
    grouped: dict[tuple[str, int], list[Called]] = defaultdict(list)
    for called in calls:
        grouped[called.key, called.attempt].append(called)
    return grouped


def _by_key(calls: Iterable[Called]) -> dict[str, list[Called]]:
    grouped: dict[str, list[Called]] = defaultdict(list)
    for called in calls:
        grouped[called.key].append(called)
    return grouped


def p1_a_durable_visit_never_runs_again(run: Record) -> None:
    completed: set[tuple[str, int]] = set()
    for happened in run.timeline:
        match happened:
            case StepCompleted():
                completed.add((happened.step, happened.visit))
            case Called(call=Call.STEP):
                assert (happened.step, happened.visit) not in completed
            case _:
                pass


def p3_a_crash_repeats_at_most_one_attempt_with_the_same_key(run: Record) -> None:
    cleared = Counter(
        (event.call, event.step, event.visit, event.attempt)
        for event in run.events
        if isinstance(event, AttemptCleared)
    )
    repeats = 0
    for calls in _by_attempt(run.calls).values():
        first = calls[0]
        assert all((c.call, c.step, c.visit) == (first.call, first.step, first.visit) for c in calls)
        told_again = cleared[first.call, first.step, first.visit, first.attempt]
        died = sum(not called.told for called in calls)
        assert len(calls) <= 1 + died + told_again
        repeats += max(0, len(calls) - 1 - told_again)
    assert repeats <= run.world.deaths


def p4_what_must_not_be_repeated_is_not_without_a_word(run: Record) -> None:
    """The intent is durable before each call; between an unknown end and the next call somebody has answered."""
    definition = run.script.plan.definition
    for calls in _by_key(run.calls).values():
        first = calls[0]
        step = definition.by_name.get(first.step)
        once = {Call.STEP: step and not step.idempotent, Call.UNDO: step and not step.undo_idempotent}
        if not once.get(first.call):
            continue
        for called in calls:
            intent = run.events[called.seq - 1]
            assert isinstance(intent, AttemptStarted)
            assert (intent.call, intent.step, intent.attempt) == (called.call, called.step, called.attempt)
        for before, after in pairwise(calls):
            between = run.events[before.seq : after.seq]
            if before.unknown:
                assert any(
                    isinstance(e, AttemptCleared | AttemptFailed | StepFailed | IncidentResolved) for e in between
                )
        if run.world.weather is not Weather.WILD:
            assert sum(called.acted for called in calls) <= 1, "a second effect, although all answers were true"


def p8_only_completed_visits_are_in_the_context(run: Record) -> None:
    context: JsonObject = {}
    for event in run.events:
        if isinstance(event, StepCompleted | WaitEnded):
            context |= event.updates.value
    assert run.state.context.to_dict() == context


def p9_a_terminal_status_is_left_by_a_persons_act_only(run: Record) -> None:
    ended = False
    for event in run.events:
        match event:
            case RunCompleted() | RunCompensated() | RunFailed() | RunCancelled():
                ended = True
            case RunReopened() | StopRequested():
                assert not ended or event.by == "ann"
                ended = False
            case (
                StepCompleted()
                | StepFailed()
                | StepCompensated()
                | CompensationStarted()
                | BranchSettled()
                | WaitEnded()
            ):
                assert not ended
            case _:
                pass


def p10_p11_p12_p15_the_walk_back(run: Record) -> None:
    """The list as a stack: exact reverse order, each entry once, nothing but what is on it; empty at the end."""
    stack: list[tuple[str, int]] = []
    own: list[tuple[str, int]] = []
    skipped = False
    for happened in run.timeline:
        match happened:
            case StepCompleted() | WaitEnded(completes=True):
                stack.append((happened.step, happened.visit))
            case StepFailed(own=True) | BranchSettled(own=True):
                own.append((happened.step, happened.visit))
                assert own[-1] not in stack, "it has completed, and is undone with the others"
            case RunReopened(undo=False):
                if happened.step is not None or happened.new_visit:
                    stack += own
                own = []
            case CompensationStarted():
                stack, own = stack + own, []
            case Called(call=Call.UNDO):
                assert (happened.step, happened.visit) == stack[-1]
            case StepCompensated() | UndoSkipped():
                assert (happened.step, happened.visit) == stack.pop()
                skipped = skipped or isinstance(happened, UndoSkipped)
            case RunCompensated():
                assert not stack
                assert not skipped
            case _:
                pass
    if run.state.status in (WorkflowStatus.FAILED, WorkflowStatus.CANCELLED):
        steps = run.script.plan.definition.by_name
        left = Counter(step for step, _ in stack + own if not steps[step].hosted)
        assert Counter(left_in_place(run.state)) >= left


def p12_an_undo_of_what_did_not_complete_has_a_reason(run: Record) -> None:
    """`compensate_on_failure` and an attempt that may have acted, or a person who said `fail_undo`."""
    definition = run.script.plan.definition
    unknown: set[tuple[str, int]] = set()
    crashed = False
    answer = ""
    for happened in run.timeline:
        match happened:
            case Called(call=Call.STEP):
                if happened.unknown or run.script.illegal(happened.step, happened.end):
                    unknown.add((happened.step, happened.visit))
            case Recovered():
                crashed = True
            case StepCompleted() | WaitEnded():
                crashed = False
            case IncidentResolved():
                answer = happened.action
            case StepFailed(own=True) | BranchSettled(own=True):
                may_have_acted = crashed or (happened.step, happened.visit) in unknown
                by_rule = definition.by_name[happened.step].compensate_on_failure and may_have_acted
                assert by_rule or answer == Action.FAIL_UNDO
            case _:
                pass


def p13_a_failing_undo_stops_the_walk(run: Record) -> None:
    for before, after in pairwise(run.events):
        if isinstance(before, IncidentOpened) and before.kind is IncidentKind.COMPENSATION_FAILED:
            assert isinstance(after, RunFailed)
    failed: tuple[str, int] | None = None
    for happened in run.timeline:
        match happened:
            case IncidentOpened(kind=IncidentKind.COMPENSATION_FAILED):
                failed = (happened.step, happened.visit)
            case StepCompensated() | UndoSkipped():
                failed = None
            case Called(call=Call.UNDO) if failed is not None:
                assert (happened.step, happened.visit) == failed
            case _:
                pass


def p14_the_first_reason_stays(run: Record) -> None:
    first: str | None = None
    for event in run.events:
        match event:
            case RunReopened(undo=False):
                first = None
            case StepFailed() | CompensationStarted() | RunFailed():
                first = first or event.reason
            case _:
                pass
    assert run.state.failure == first


def p16_a_crash_folds_to_what_was_known(run: Record) -> None:
    assert run.world.folded() == run.state
    assert run.state.status.terminal


def p17_every_ending_is_told_of(run: Record) -> None:
    endings = sum(isinstance(event, ENDS) for event in run.events)
    settled = [event.ending for event in run.events if isinstance(event, CompletionSettled)]
    assert run.state.endings == endings
    assert settled == (list(range(1, endings + 1)) if run.script.plan.notifies else [])
    called = {called.visit for called in run.calls if called.call is Call.COMPLETE}
    assert called == set(settled)


def p18_an_accepted_cancel_never_ends_completed(run: Record) -> None:
    """Nor FAILED, but by an undo. Unless a pivot had outrun it and a person decided to go on."""
    stopped = undo_failed = False
    for event in run.events:
        match event:
            case StopRequested(kind=StopKind.CANCEL):
                stopped = True
            case RunReopened(undo=False) | IncidentOpened(kind=IncidentKind.STUCK_AFTER_PIVOT):
                stopped = undo_failed = False
            case IncidentOpened(call=Call.UNDO):
                undo_failed = True
            case RunCompleted():
                assert not stopped
            case RunFailed():
                assert undo_failed or not stopped
            case _:
                pass


def p19_no_attempt_is_early(run: Record) -> None:
    due: dict[tuple[Call, str, int], int] = {}
    for happened in run.timeline:
        match happened:
            case AttemptFailed(call=Call.STEP | Call.UNDO):
                due[happened.call, happened.step, happened.visit] = happened.retry_at
            case AttemptRenewed() | RunReopened():
                due.clear()
            case Called(call=Call.STEP | Call.UNDO):
                assert happened.at >= due.get((happened.call, happened.step, happened.visit), 0)
            case _:
                pass


def p20_attempts_are_counted_and_bounded(run: Record) -> None:
    """Numbers go 1, 2, 3 …; their count is bounded by the policy and by each renewal that a person asked for."""
    last: dict[tuple[Call, str, int], int] = {}
    budgets: Counter[tuple[Call, str, int]] = Counter()
    at = (Call.STEP, "", 0)
    for happened in run.timeline:
        match happened:
            case Called(call=Call.STEP | Call.UNDO) | AttemptStarted(call=Call.STEP | Call.UNDO):
                at = (happened.call, happened.step, happened.visit)
                assert happened.attempt - last.get(at, 0) in (0, 1)
                last[at] = happened.attempt
            case IncidentOpened() | StepFailed() if happened.step:
                at = (getattr(happened, "call", Call.STEP), happened.step, happened.visit)
            case AttemptRenewed(call=Call.STEP) | RunReopened(step=None, new_visit=False):
                budgets[at] += 1
            case _:
                pass
    for (call, name, visit), attempts in last.items():
        step = run.script.plan.definition.by_name[name]
        policy = step.retries if call is Call.STEP else step.compensation_retries
        assert attempts <= policy.max_attempts * (1 + budgets[call, name, visit])


PROPERTIES: list[Callable[[Record], None]] = [
    p1_a_durable_visit_never_runs_again,
    p3_a_crash_repeats_at_most_one_attempt_with_the_same_key,
    p4_what_must_not_be_repeated_is_not_without_a_word,
    p8_only_completed_visits_are_in_the_context,
    p9_a_terminal_status_is_left_by_a_persons_act_only,
    p10_p11_p12_p15_the_walk_back,
    p12_an_undo_of_what_did_not_complete_has_a_reason,
    p13_a_failing_undo_stops_the_walk,
    p14_the_first_reason_stays,
    p16_a_crash_folds_to_what_was_known,
    p17_every_ending_is_told_of,
    p18_an_accepted_cancel_never_ends_completed,
    p19_no_attempt_is_early,
    p20_attempts_are_counted_and_bounded,
]
