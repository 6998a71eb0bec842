"""What semantics §5 and §7 say of branches, by a naive model that reads along.

It believes the journal about what has happened, and works out by itself where each branch stands, what it sees, what a
join is to merge, and what is to be undone next (P1, P3, P4, P10–P12, P15, P18, P27, P30, P31).
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import msgspec

from bext_workflow.core.work import left_in_place
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.event import (
    AttemptCleared,
    AttemptRenewed,
    AttemptStarted,
    BranchSettled,
    CompensationStarted,
    Event,
    IncidentOpened,
    IncidentResolved,
    JoinDecided,
    JoinOpened,
    LosersUndoStarted,
    RunCancelled,
    RunCompensated,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunPaused,
    RunReopened,
    RunResumed,
    SignalReceived,
    StepCompensated,
    StepCompleted,
    StepFailed,
    StopRequested,
    UndoSkipped,
    WaitEnded,
    WaitOpened,
)
from bext_workflow.model.fork import Fork, OnConflict
from bext_workflow.model.json import Json, JsonObject, dumps
from bext_workflow.model.names import END
from bext_workflow.model.status import Action, Call, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from bext_workflow.model.wait import WaitFor
from tests.unit.core.parallel_simulator import Called, Record, Weather
from tests.unit.core.support import RUN_ID

Entry: TypeAlias = tuple[int, str, int]
"""(branch, step, visit)."""


class Line(msgspec.Struct):
    """A branch: what it sees, what it has set since its fork, where it belongs and where it stands."""

    context: JsonObject
    group: int | None = None
    place: str = ""
    item: Json = None
    index: int | None = None
    written: JsonObject = {}
    step: str = ""
    visit: int = 0
    lost: bool = False


class Meeting(msgspec.Struct):
    """A fork whose branches have not met: `begun` of them have begun, and nobody needs those that are `lost`."""

    parent: int
    members: list[int]
    at: str
    forking: StepDefinition
    arrived: list[int]
    lost: set[int]
    begun: int = 0

    @property
    def need(self) -> int:
        wanted = "all" if self.forking.join is None else self.forking.join.need
        if wanted == "all":
            return len(self.members)
        return 1 if wanted == "any" else min(len(self.members), wanted)


class Waiting(msgspec.Struct):
    """A wait for the signal, since event `opened`; its time is over at `due` (ms), `for_ms` after it began."""

    opened: int
    due: int | None
    for_ms: int | None


class Done(msgspec.Struct):
    """A visit that completed, or that may have acted (`own`), and what it had set."""

    entry: Entry
    updates: JsonObject
    own: bool = False


class Model:
    """Reads a run from its first event to its last; raises `AssertionError` where a promise is broken."""

    def __init__(self, run: Record) -> None:
        self.run = run
        self.definition = run.script.plan.definition
        self.times = [at for _, at in run.world.events]
        self.seq = 0
        self.lines: dict[int, Line] = {}
        self.meetings: dict[int, Meeting] = {}
        self.next_branch = 1
        self.entries: Counter[str] = Counter()
        self.completed: set[Entry] = set()
        self.undone: set[Entry] = set()
        self.list: list[Done] = []
        self.own: list[Done] = []
        self.skipped: list[Done] = []
        self.opened: set[int] = set()
        self.losers_of: int | None = None
        self.failed: set[int] = set()
        self.waits: dict[int, Waiting] = {}
        self.stalled: dict[int, Waiting] = {}
        self.signals: list[SignalReceived] = []
        self.stopped = self.paused = self.compensating = self.pivoted = False
        self.answer: str = ""

    def read(self) -> None:
        for happened in self.run.timeline:
            if isinstance(happened, Called):
                self._called(happened)
            else:
                self.seq += 1
                self._event(happened)
        self._ended()

    # Calls

    def _called(self, called: Called) -> None:
        if called.call is Call.STEP:
            line = self.lines[called.branch]
            held = self.stopped or self.paused or self.compensating or line.lost
            assert not held, "a step begins that may not"
            assert (called.step, called.visit) == (line.step, line.visit)
            assert (called.branch, called.step, called.visit) not in self.completed, "P1"
            self._shown(called, line, line.context)
        elif called.call is Call.UNDO:
            done = self._next_undo()
            assert (called.step, called.visit) == done.entry[1:], "P10: not the newest"
            line = self.lines[done.entry[0]]
            self._shown(called, line, line.context | done.updates, ":compensate")

    def _shown(self, called: Called, line: Line, context: JsonObject, suffix: str = "") -> None:
        """The snapshot: the key, the branch's own context (for an undo with the visit's updates over it), the item."""
        number = "" if called.visit == 1 else f"#{called.visit}"
        assert called.key == f"{RUN_ID}:{called.step}{line.place}{number}{suffix}"
        assert called.context == context
        assert (called.item, called.index) == (line.item, line.index)

    def _next_undo(self) -> Done:
        """P10: the newest of all, or of the losers that are being undone."""
        if self.compensating:
            return self.list[-1]
        assert self.losers_of is not None, "an undo in a run that goes forward"
        lost = self.meetings[self.losers_of].lost
        return next(done for done in reversed(self.list) if done.entry[0] in lost)

    # Events

    def _event(self, event: Event) -> None:
        match event:
            case RunCreated():
                self.lines[0] = Line(context=dict(event.context.value))
                self._enter(0, self.definition.first)
            case StepCompleted():
                self._step_completed(event)
            case WaitOpened():
                self._waits(event.branch, event.wait)
            case WaitEnded():
                self._wait_ended(event)
            case StepFailed():
                self._stalls(event.branch)
                self.failed.add(event.branch)
                self._may_have_acted(event)
            case BranchSettled():
                self._stalls(event.branch)
                self.failed.discard(event.branch)
                self._may_have_acted(event)
            case SignalReceived(late=False):
                self.signals.append(event)
            case JoinDecided():
                self._decided(self.meetings[event.group])
            case LosersUndoStarted():
                assert self.meetings[event.group].lost
                self.losers_of = event.group
                self._list_own()
            case JoinOpened():
                self._join_opened(event)
            case StepCompensated() | UndoSkipped():
                self._off_the_list(event)
            case _:
                self._of_the_run(event)

    def _of_the_run(self, event: Event) -> None:
        match event:
            case StopRequested():
                self.stopped = True
                self.paused = self.paused and event.kind is StopKind.FAILURE
            case CompensationStarted():
                self.compensating = True
                self._list_own()
            case RunPaused():
                self.paused = True
            case RunResumed():
                self.paused = False
            case RunReopened(undo=False):
                self._reopened(event)
            case IncidentOpened(kind=IncidentKind.STUCK_AFTER_PIVOT):
                self._stalls(event.branch)
                self.failed.add(event.branch)
            case AttemptRenewed(call=Call.STEP):
                self._waits_again(event.branch)
            case IncidentResolved():
                self._answered(event)
            case RunCompleted() | RunCompensated() | RunFailed() | RunCancelled():
                self.paused = False
            case _:
                pass

    def _step_completed(self, event: StepCompleted) -> None:
        entry, line = (event.branch, event.step, event.visit), self.lines[event.branch]
        assert entry not in self.completed, "P1: a visit completes twice"
        assert (event.step, event.visit) == (line.step, line.visit)
        self.completed.add(entry)
        self.list.append(Done(entry, event.updates.value))
        self.pivoted = self.pivoted or self.definition.by_name[event.step].pivot
        self._set(line, event.updates.value)
        if event.wait is None:
            self._go_on(event.branch, event.next, event.fork)
        elif not line.lost:
            self._waits(event.branch, event.wait)
        if self.stopped:
            self._stalls(event.branch)

    def _waits(self, branch: int, wait: WaitFor) -> None:
        if wait.signal is not None:
            self.waits[branch] = Waiting(self.seq, wait.due_at, wait.for_ms)

    def _waits_again(self, branch: int) -> None:
        """The whole time once more."""
        if branch in self.stalled:
            for_ms = self.stalled.pop(branch).for_ms
            due = None if for_ms is None else self.times[self.seq - 1] + for_ms
            self.waits[branch] = Waiting(self.seq, due, for_ms)

    def _stalls(self, branch: int) -> None:
        """It waits for its signal no longer, and will again if the run is taken up."""
        if branch in self.waits:
            self.stalled[branch] = self.waits.pop(branch)

    def _wait_ended(self, event: WaitEnded) -> None:
        line = self.lines[event.branch]
        if event.how is WaitEnd.SIGNAL:
            assert not self.stopped
            assert not line.lost, "P30: the wait of a loser takes a signal"
            first = self.signals.pop(0)
            assert event.signal == first.act, "P27: not the oldest signal"
            assert self.waits[event.branch].opened == min(self._queue(first.accepted_at)), "P27: not the first wait"
        if event.how is WaitEnd.STOP:
            self._stalls(event.branch)
            return
        self.waits.pop(event.branch, None)
        self.stalled.pop(event.branch, None)
        self.failed.discard(event.branch)
        if event.completes:
            self.list.append(Done((event.branch, event.step, event.visit), {}))
        self._set(line, event.updates.value)
        self._go_on(event.branch, event.next, event.fork)

    def _queue(self, accepted_at: int) -> list[int]:
        """When the waits were opened that had not lost to their timers as the signal came."""
        waits = (wait for branch, wait in self.waits.items() if not self.lines[branch].lost)
        return [wait.opened for wait in waits if wait.due is None or wait.due > accepted_at]

    def _set(self, line: Line, updates: JsonObject) -> None:
        line.context = line.context | updates
        line.written = line.written | updates

    def _go_on(self, branch: int, next_: str, fork: Fork | None) -> None:
        line = self.lines[branch]
        if line.lost:
            return
        if fork is not None:
            self._forked(branch, next_, fork)
        elif line.group is not None and next_ in (END, self.meetings[line.group].at):
            self.meetings[line.group].arrived.append(branch)
            if not self.stopped:
                self._begin_items(self.meetings[line.group])
        elif next_ != END:
            self._enter(branch, next_)

    def _enter(self, branch: int, step: str) -> None:
        line = self.lines[branch]
        self.entries[step + line.place] += 1
        line.step, line.visit = step, self.entries[step + line.place]

    def _forked(self, parent: int, at: str, fork: Fork) -> None:
        above = self.lines[parent]
        forking = self.definition.by_name[above.step]
        count = len(fork.into) if fork.items is None else fork.items
        members = list(range(self.next_branch, self.next_branch + count))
        self.next_branch += count
        meeting = self.meetings[self.seq] = Meeting(parent, members, at, forking, [], set())
        for number, member in enumerate(members):
            line = self.lines[member] = Line(above.context, self.seq, above.place, above.item, above.index)
            if forking.map is not None:
                line.place += f"[{number}]"
                line.item, line.index = above.context[forking.map.over][number], number
            else:
                self._enter(member, fork.into[number])
        self._begin_items(meeting)

    def _begin_items(self, meeting: Meeting) -> None:
        """In a map, as many as there is room for."""
        map_ = meeting.forking.map
        if map_ is None or self.lines[meeting.parent].lost:
            return
        while meeting.begun < min(len(meeting.members), len(meeting.arrived) + map_.max_concurrency):
            self._enter(meeting.members[meeting.begun], map_.at)
            meeting.begun += 1

    # Joins

    def _decided(self, meeting: Meeting) -> None:
        assert len(meeting.arrived) == meeting.need, "P30"
        assert not meeting.lost, "P30: a join is decided once"
        assert not self.stopped
        self._lose(meeting, set(meeting.members) - set(meeting.arrived))

    def _lose(self, decided: Meeting, lost: set[int]) -> None:
        decided.lost |= lost
        for branch in lost:
            self.lines[branch].lost = True
        for meeting in self.meetings.values():
            if meeting.parent in lost:
                self._lose(decided, set(meeting.members))

    def _join_opened(self, event: JoinOpened) -> None:
        assert event.group not in self.opened, "P30: a join opens twice"
        assert not self.stopped, "a join opens under a stop"
        self.opened.add(event.group)
        meeting = self.meetings.pop(event.group)
        assert (len(meeting.arrived), event.next) == (meeting.need, meeting.at), "P30"
        assert not [done for done in self.list if done.entry[0] in meeting.lost], "a loser's visit is left"
        assert not meeting.lost & self.waits.keys(), "P30: a loser waits on"
        self.meetings = {id_: other for id_, other in self.meetings.items() if other.parent not in meeting.lost}
        self.losers_of = self.losers_of if self.losers_of in self.meetings else None
        self._merged(event.updates.value, meeting)
        self.failed.discard(meeting.parent)
        self._set(self.lines[meeting.parent], event.updates.value)
        self._go_on(meeting.parent, event.next, None)

    def _merged(self, updates: JsonObject, meeting: Meeting) -> None:
        """P31, and `collect`: in the order that the fork named, or of the items."""
        parts = [self.lines[member].written for member in meeting.members if member in meeting.arrived]
        map_, join = meeting.forking.map, meeting.forking.join
        wanted: JsonObject = {} if map_ is None or map_.collect is None else {map_.collect: parts}
        if map_ is None:
            wanted = {key: value for part in parts for key, value in part.items()}
            last = join is not None and join.on_conflict is OnConflict.LAST
            by_hand = meeting.parent in self.failed  # past a pivot a person says what counts
            if by_hand:
                wanted |= updates
            assert last or by_hand or not _conflict(parts), "P31: two values for one key, and no rule"
        assert dumps(updates) == dumps(wanted)

    # Undo

    def _may_have_acted(self, event: StepFailed | BranchSettled) -> None:
        """P12: an undo of what did not complete has a reason, in the definition or in a person's word."""
        if not event.own:
            return
        entry = (event.branch, event.step, event.visit)
        assert entry not in self.completed
        assert self.definition.by_name[event.step].compensate_on_failure or self.answer == Action.FAIL_UNDO
        self.own.append(Done(entry, {}, own=True))

    def _list_own(self) -> None:
        self.list += self.own
        self.own = []

    def _off_the_list(self, event: StepCompensated | UndoSkipped) -> None:
        done = self._next_undo()
        assert done.entry == (event.branch, event.step, event.visit), "P10"
        self.list = [other for other in self.list if other is not done]
        if isinstance(event, UndoSkipped):
            self.skipped.append(done)
        if not done.own:
            assert done.entry not in self.undone, "P11"
            self.undone.add(done.entry)

    # People

    def _answered(self, event: IncidentResolved) -> None:
        self.answer = event.action
        if event.kind is IncidentKind.STUCK_AFTER_PIVOT:
            self.stopped = False
        if event.kind in (IncidentKind.COMPENSATION_FAILED, IncidentKind.POISON) and event.action == Action.CLOSE:
            self.losers_of = None

    def _reopened(self, event: RunReopened) -> None:
        """The failed and the stopped go on where they stood; what is left behind and may have acted is to be undone."""
        self.stopped = False
        if event.step is not None:
            self._list_own()
            self.meetings.clear()
            self.waits.clear()
            self._enter(0, event.step)
        else:
            self._taken_up(event.new_visit)
        self.failed.clear()
        self.stalled.clear()

    def _taken_up(self, new_visit: bool) -> None:
        parents = {meeting.parent for meeting in self.meetings.values()}
        anew = self.failed - parents if new_visit else set[int]()
        for branch in anew:
            self._enter(branch, self.lines[branch].step)
        self.list += [own for own in self.own if own.entry[0] in anew]
        self.own = [own for own in self.own if self.lines[own.entry[0]].lost]
        for branch in self.stalled.keys() - anew:
            if not self.lines[branch].lost:
                self._waits_again(branch)
        for meeting in self.meetings.values():
            self._begin_items(meeting)

    # The end

    def _ended(self) -> None:
        """Every completed visit has been undone once, or is left in place, or the run went well."""
        state = self.run.state
        done = [*self.list, *self.own]
        left = Counter(one.entry[1] for one in done if not self.definition.by_name[one.entry[1]].hosted)
        left += Counter(one.entry[1] for one in self.skipped)
        match state.status:
            case WorkflowStatus.FAILED | WorkflowStatus.CANCELLED:
                assert left == Counter(left_in_place(state))
            case WorkflowStatus.COMPENSATED:
                assert not left, "P15"
            case _:
                assert state.status is WorkflowStatus.COMPLETED
                assert self.pivoted or not self.stopped, "P18"
                assert (self.meetings, self.own, self.skipped) == ({}, [], [])
                assert state.context.to_dict() == self.lines[0].context


def _conflict(parts: list[JsonObject]) -> bool:
    seen: dict[str, bytes] = {}
    return any(seen.setdefault(key, dumps(value)) != dumps(value) for part in parts for key, value in part.items())


def branches_keep_the_rules(run: Record) -> None:
    """P1, P10–P12, P15, P18, P27, P30, P31."""
    Model(run).read()


def one_crash_repeats_what_was_in_flight(run: Record) -> None:
    """P3: an attempt is called again only after a death, or a word that it had not acted; always with the same key.

    Or where a person has closed the undo of a loser, and the whole run is undone after all.
    """
    cleared = Counter((e.step, e.visit, e.attempt) for e in run.events if isinstance(e, AttemptCleared))
    calls = Counter((called.key, called.attempt) for called in run.calls)
    closed = Counter(e.kind for e in run.events if isinstance(e, IncidentResolved) and e.action == Action.CLOSE)
    untold = Counter((called.key, called.attempt) for called in run.calls if not called.told)
    for called in run.calls:
        at = (called.key, called.attempt)
        again = closed[IncidentKind.COMPENSATION_FAILED] + closed[IncidentKind.POISON]
        again *= called.call is Call.UNDO
        assert calls[at] <= 1 + untold[at] + cleared[called.step, called.visit, called.attempt] + again
    if not run.world.deaths:
        assert not untold


def what_must_not_be_repeated_is_not(run: Record) -> None:
    """P4: where all answers are true, there is no second effect of a step, or an undo, that must not be repeated."""
    if run.world.weather is Weather.WILD:
        return
    acted = Counter((called.call, called.step, called.key) for called in run.calls if called.acted)
    for (call, name, _), times in acted.items():
        step = run.script.plan.definition.by_name.get(name)
        once = {Call.STEP: step and not step.idempotent, Call.UNDO: step and not step.undo_idempotent}
        assert times == 1 or not once.get(call)


def no_attempt_is_passed_over(run: Record) -> None:
    """P20: the attempts of a visit are numbered 1, 2, 3 …, whatever stops its branch in between."""
    last: Counter[tuple[Call, int, str, int]] = Counter()
    for happened in run.timeline:
        match happened:
            case Called(call=Call.STEP) | AttemptStarted(call=Call.STEP):
                at = (happened.call, happened.branch, happened.step, happened.visit)
                assert happened.attempt - last[at] in (0, 1)
                last[at] = happened.attempt
            case _:
                pass


def a_fold_gives_the_state(run: Record) -> None:
    """P16."""
    assert run.world.folded() == run.state


PROPERTIES = [
    branches_keep_the_rules,
    one_crash_repeats_what_was_in_flight,
    what_must_not_be_repeated_is_not,
    no_attempt_is_passed_over,
    a_fold_gives_the_state,
]
