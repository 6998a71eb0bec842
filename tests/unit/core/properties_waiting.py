"""The promises about waits, signals, pauses and the run's own time, as predicates over a simulated run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec

from bext_workflow.core.inbox import read_act
from bext_workflow.core.input import Signalled
from bext_workflow.model.event import (
    ActIgnored,
    AttemptFailed,
    AttemptRenewed,
    AttemptStarted,
    CompensationStarted,
    Event,
    IncidentOpened,
    IncidentResolved,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    RunTimedOut,
    SignalReceived,
    StepCompleted,
    StepFailed,
    StopRequested,
    WaitEnded,
    WaitOpened,
)
from bext_workflow.model.status import Call, IncidentKind, StopKind, WaitEnd
from bext_workflow.model.wait import WaitFor
from tests.unit.core.simulator import Called, Record

ENDS = RunCompleted | RunCompensated | RunFailed | RunCancelled


class Parking(msgspec.Struct):
    """What an onlooker knows of the wait that the only branch is at. `held`: a person is to decide about it."""

    step: str
    visit: int
    wait: WaitFor
    due: int | None
    held: bool = False


class Onlooker:
    """Reads a journal and keeps book of the wait that is open and of the signals that no wait has taken."""

    def __init__(self) -> None:
        self.open: Parking | None = None
        self.kept: dict[str, list[int]] = defaultdict(list)
        self.closed = False
        """Under a stop, undone or ended: nothing but a person sets the run going again."""

    def sees(self, event: Event, at: int) -> None:
        match event:
            case StepCompleted(wait=WaitFor() as wait):
                self.open = Parking(event.step, event.visit, wait, wait.due_at)
            case WaitOpened():
                self.open = Parking(event.step, event.visit, event.wait, event.wait.due_at)
            case WaitEnded():
                self.open = None
                for queue in self.kept.values():
                    queue[:] = [act for act in queue if act != event.signal]
            case StepFailed():
                self.open = None
            case SignalReceived(late=False):
                self.kept[event.name].append(event.act)
            case IncidentOpened(kind=IncidentKind.STUCK_AFTER_PIVOT):
                if self.open is not None:
                    self.open.held = True
            case AttemptRenewed(call=Call.STEP) | RunReopened(undo=False):
                self._renew(event, at)
            case _:
                pass
        self._close_or_reopen(event)

    def _renew(self, event: AttemptRenewed | RunReopened, at: int) -> None:
        if isinstance(event, RunReopened) and (event.step is not None or event.new_visit):
            self.open = None
        if self.open is not None:
            for_ms = self.open.wait.for_ms
            self.open.held, self.open.due = False, None if for_ms is None else at + for_ms

    def _close_or_reopen(self, event: Event) -> None:
        match event:
            case StopRequested() | CompensationStarted():
                self.closed = True
            case RunCompleted() | RunCompensated() | RunFailed() | RunCancelled():
                self.closed = True
            case RunReopened(undo=False) | IncidentResolved(kind=IncidentKind.STUCK_AFTER_PIVOT):
                self.closed = False
            case _:
                pass

    def wanted(self) -> str | None:
        """The signal that would end the open wait."""
        waits = self.open is not None and not self.open.held and not self.closed
        return self.open.wait.signal if self.open is not None and waits else None


def _watched(run: Record) -> Iterator[tuple[Onlooker, Event, int]]:
    """Each event with what was known before it."""
    onlooker = Onlooker()
    for event, at in run.moments:
        yield onlooker, event, at
        onlooker.sees(event, at)


def p21_no_timer_is_early_and_a_wait_ends_once(run: Record) -> None:
    for before, event, at in _watched(run):
        match event:
            case WaitEnded():
                assert before.open is not None
                assert (before.open.step, before.open.visit) == (event.step, event.visit)
                if event.how is WaitEnd.TIMER:
                    assert before.open.due is not None
                    assert at >= before.open.due
            case StepFailed() if before.open is not None:
                assert before.open.due is not None
                assert at >= before.open.due
            case WaitOpened():
                assert before.open is None
            case _:
                pass


def p26_p27_signals_are_taken_once_and_in_order_by_the_wait_that_wants_them(run: Record) -> None:
    """Whenever the run waits for a name and a signal of it is there, the oldest one ends the wait in that decision."""
    taken = set()
    previous = False
    for before, event, _ in _watched(run):
        wanted = before.wanted()
        there = before.kept[wanted] if wanted is not None else []
        if there:
            assert isinstance(event, WaitEnded)
            assert (event.how, event.signal) == (WaitEnd.SIGNAL, there[0])
        if isinstance(event, WaitEnded):
            assert (event.how is WaitEnd.SIGNAL) == bool(there)
            assert event.signal not in taken
            taken |= {event.signal} - {None}
        previous = bool(there)
    assert not previous or run.state.status.terminal
    kept = sorted(act for queue in before.kept.values() for act in queue)
    assert kept == [signal.act for signal in run.state.signals]


def p26_p29_every_accepted_signal_is_listed_once_as_it_was_sent(run: Record) -> None:
    """Or noted as a repeat; and none is accepted by a run that takes none any more."""
    listed = {event.act: event for event in run.events if isinstance(event, SignalReceived)}
    ignored = {event.act for event in run.events if isinstance(event, ActIgnored) and event.kind == "signal"}
    ids: set[str] = set()
    for row in run.world.inbox:
        act = read_act(row)
        if not isinstance(act, Signalled):
            assert row.n not in listed
        elif act.id in ids:
            assert row.n in ignored
        else:
            told = listed[row.n]
            sent = act.name, act.payload, act.id, row.at
            assert (told.name, told.payload, told.id, told.accepted_at) == sent
            ids |= {act.id} if act.id is not None else set()
    for before, event, _ in _watched(run):
        match event:
            case SignalReceived():
                assert not before.closed
            case WaitEnded(signal=int(act_number)):
                assert list(event.updates.value.values()) == [listed[act_number].payload]
            case _:
                pass


def p28_signal_and_timer_are_decided_by_the_time_of_acceptance(run: Record) -> None:
    late: set[int] = set()
    for before, event, _ in _watched(run):
        match event:
            case SignalReceived():
                due = before.open.due if before.open is not None and before.wanted() == event.name else None
                assert event.late == (due is not None and due <= event.accepted_at)
                late |= {event.act} if event.late else set()
            case WaitEnded():
                assert event.signal not in late
            case _:
                pass


def nothing_starts_in_a_pause(run: Record) -> None:
    """Semantics §4; the call that runs when the pause comes goes on to its end."""
    paused = False
    for happened in run.timeline:
        match happened:
            case RunPaused():
                paused = True
            case RunResumed() | StopRequested() | RunCompleted() | RunCompensated() | RunFailed() | RunCancelled():
                paused = False
            case Called(call=Call.STEP | Call.UNDO) | AttemptStarted(call=Call.STEP | Call.UNDO):
                assert not paused
            case WaitOpened() | RunStarted() | RunTimedOut() | WaitEnded(how=WaitEnd.TIMER):
                assert not paused
            case _:
                pass


def what_the_host_does_is_never_called(run: Record) -> None:
    """Semantics §7."""
    hosted = {step.name for step in run.script.plan.definition.steps if step.hosted}
    assert not hosted & {called.step for called in run.calls}


def the_runs_own_time_stops_it_once_and_not_early(run: Record) -> None:
    """Semantics §5; nothing new starts forward after it, and the walk back ignores it."""
    bound = run.world.plan.definition.timeout_ms
    started: int | None = None
    over = undoing = False
    times = iter(run.moments)
    for happened in run.timeline:
        at = happened.at if isinstance(happened, Called) else next(times)[1]
        match happened:
            case RunCreated(begun=True) | RunStarted() | RunReopened(undo=False):
                started, over, undoing = at, False, False
            case CompensationStarted():
                undoing = True
            case RunTimedOut():
                assert started is not None
                assert at >= started + bound
                assert not over
                assert not undoing
                over = True
            case Called(call=Call.STEP) if bound and started is not None and at >= started + bound:
                assert over
            case _:
                pass


def a_time_out_is_a_stop_that_compensates_or_a_question(run: Record) -> None:
    """Semantics §5; past a pivot, for whatever is not held by another question."""
    for before, after in pairwise(run.events):
        if isinstance(before, RunTimedOut):
            stopped = isinstance(after, StopRequested) and after.kind is StopKind.TIMEOUT and after.compensate
            asked = isinstance(after, IncidentOpened) and after.kind is IncidentKind.STUCK_AFTER_PIVOT
            assert stopped or asked or run.state.pivoted


def no_retry_begins_after_max_elapsed_ms(run: Record) -> None:
    """Semantics §3: from the checkpoint that entered the visit, or from a person's retry."""
    steps = run.world.plan.definition.by_name
    entered = 0
    for event, at in run.moments:
        match event:
            case RunCreated() | RunStarted() | StepCompleted() | WaitEnded() | RunReopened():
                entered = at
            case AttemptRenewed(call=Call.STEP):
                entered = at
            case AttemptFailed(call=Call.STEP):
                bound = steps[event.step].retries.max_elapsed_ms
                assert not bound or event.retry_at - entered <= bound
            case _:
                pass


WAITING: list[Callable[[Record], None]] = [
    p21_no_timer_is_early_and_a_wait_ends_once,
    p26_p27_signals_are_taken_once_and_in_order_by_the_wait_that_wants_them,
    p26_p29_every_accepted_signal_is_listed_once_as_it_was_sent,
    p28_signal_and_timer_are_decided_by_the_time_of_acceptance,
    nothing_starts_in_a_pause,
    what_the_host_does_is_never_called,
    the_runs_own_time_stops_it_once_and_not_early,
    a_time_out_is_a_stop_that_compensates_or_a_question,
    no_retry_begins_after_max_elapsed_ms,
]
