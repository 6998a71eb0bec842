"""A machine that lets anything happen to a run of the core, and compares it with the naive model after each thing.

The store is a journal, an inbox and a fence; a driver is what a host knows, and dies with it.
"""

from __future__ import annotations

from typing import TypeVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import evolve, fold, initial
from bext_workflow.core.inbox import take, write_act
from bext_workflow.core.input import (
    ActInput,
    Cancel,
    Continued,
    End,
    Failed,
    Finished,
    Input,
    Intended,
    Pause,
    Recovered,
    Reopen,
    Resolve,
    Resume,
    Retried,
    Signalled,
    Undone,
)
from bext_workflow.core.state import SUSPECT_AFTER, State
from bext_workflow.core.waiting import refuse_signal
from bext_workflow.core.work import Begin, Compensate, Execute, Expire, Fire, Open, Settle, left_in_place, work
from bext_workflow.errors import Conflict
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.event import (
    AttemptStarted,
    Event,
    RunCreated,
    StepCompensated,
)
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.journal import decode, encode, kind_of
from bext_workflow.model.json import EMPTY
from bext_workflow.model.policy import RetryPolicy
from bext_workflow.model.status import Action, Call
from bext_workflow.model.wait import WaitDefinition
from bext_workflow.ports.store import InboxRow
from tests.unit.core.naive import NAP_MS, PATIENCE_MS, RETRY_MS, Model, Step
from tests.unit.core.simulated import move_of
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, NOON, RAISED, RUN_ID, TIMED_OUT, document, done, plan

T = TypeVar("T")

ENDS: dict[str, End] = {"retry": AGAIN, "fail": NO, "leave": NO_AND_LEAVE, "raised": RAISED, "timeout": TIMED_OUT}
UNDO_ENDS: dict[str, Retried | Failed | None] = {"done": None, "retry": AGAIN, "fail": NO}

OUTCOMES = st.sampled_from(["done", "done", "done", "retry", *ENDS])
RARELY = st.sampled_from([False] * 7 + [True])
"""For what ends most histories."""

STEPS = st.lists(
    st.builds(
        Step,
        name=st.just(""),
        kind=st.sampled_from(["plain", "plain", "charge", "ask", "nap", "fork"]),
        tries=st.integers(1, 3),
        own=st.booleans(),
        patient=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def definitions(steps: list[Step]) -> list[StepDefinition]:
    """The steps as the core has them; a fork brings its two sides."""
    found = []
    for number, step in enumerate(steps):
        after = steps[number + 1].name if number + 1 < len(steps) else "end"
        found += _defined(step, after)
    return found


def _defined(step: Step, after: str) -> list[StepDefinition]:
    retries = RetryPolicy(max_attempts=step.tries, backoff_ms=RETRY_MS, backoff_multiplier=1.0, max_backoff_ms=RETRY_MS)
    match step.kind:
        case "ask":
            wait = WaitDefinition(signal="go", timeout_ms=0 if step.patient else PATIENCE_MS)
            return [StepDefinition(name=step.name, wait=wait, next=after)]
        case "nap":
            return [StepDefinition(name=step.name, sleep_ms=NAP_MS, next=after)]
        case "fork":
            sides = tuple(f"{step.name}-{side}" for side in ("l", "r"))
            one = RetryPolicy(max_attempts=1)
            fork = StepDefinition(
                name=step.name,
                retries=retries,
                compensate_on_failure=step.own,
                next=sides,
                join=JoinDefinition(at=after),
            )
            return [fork, *(StepDefinition(name=side, retries=one, next=after) for side in sides)]
        case _:
            return [
                StepDefinition(
                    name=step.name,
                    retries=retries,
                    idempotent=step.kind == "plain",
                    compensate_on_failure=step.own,
                    next=after,
                )
            ]


class Store:
    """What is durable: the journal, read back from its text as it grows, the inbox, the fence."""

    def __init__(self, state: State, created: RunCreated) -> None:
        self.journal: list[tuple[Event, int]] = [(decode(kind_of(created), encode(created)), NOON)]
        self.inbox: list[InboxRow] = []
        self.fence = 1
        self.folded = state

    def append(self, events: list[Event], at: int) -> None:
        for event in events:
            read = decode(kind_of(event), encode(event))
            self.journal.append((read, at))
            self.folded = evolve(self.folded, read, at)


class Driver:
    """What a host knows of the run, and does with it; gone when the host is."""

    def __init__(self, store: Store, state: State) -> None:
        self.store, self.fence, self.state = store, store.fence, state
        self.calls: dict[str, Execute] = {}

    def commit(self, decision: Decision, now: int) -> bool:
        """Whether it held: a stale fence writes nothing."""
        if self.fence != self.store.fence:
            return False
        self.store.append(decision.events, now)
        self.state = decision.state
        return True

    def conclude(self, given: Input, now: int) -> bool:
        return self.commit(decide(self.state, given, now=now), now)


class RunMachine(RuleBasedStateMachine):
    """Anything may happen; the model says what must come of it."""

    @initialize(steps=STEPS)
    def start(self, steps: list[Step]) -> None:
        for number, step in enumerate(steps):
            step.name = f"{step.kind}{number}"
        self.plan = plan(*definitions(steps))
        self.now = NOON
        created = RunCreated(run_id=RUN_ID, workflow="checkout", version=1, digest="d", context=EMPTY, begun=True)
        state = initial(self.plan, created, NOON)
        self.store = Store(state, created)
        self.driver = Driver(self.store, state)
        self.model = Model(steps, NOON)
        self.made: list[tuple[str, int]] = []
        self.sure: set[tuple[str, int]] = set()
        self._moves()

    # Calls

    def _due(self) -> list[Execute]:
        return [
            action
            for action in work(self.driver.state, self.now)
            if isinstance(action, Execute) and action.key not in self.driver.calls
        ]

    @precondition(lambda self: self._due())
    @rule(which=st.integers(0, 9))
    def begin(self, which: int) -> None:
        """A host calls a step; its intent is durable first, where that must be."""
        due = self._due()
        action = due[which % len(due)]
        if action.intend:
            assert self.driver.conclude(Intended(call=Call.STEP, branch=action.branch), self.now)
        assert (action.step, action.visit) not in self.sure, "P1: a step that is done is called again"
        self.driver.calls[action.key] = action
        self._last_key = action.key
        self.made.append((action.step, action.attempt))
        self.model.begins(action.step)

    @precondition(lambda self: self.driver.calls)
    @rule(which=st.integers(0, 9), end=OUTCOMES)
    def finish(self, which: int, end: str) -> None:
        """A call ends."""
        action = self._any_call(which)
        given = ENDS[end] if end in ENDS else Continued(updates=document({action.step: action.attempt}))
        assert self.driver.conclude(Finished(branch=action.branch, end=given), self.now)
        if end == "done":
            self.sure.add((action.step, action.visit))
        self._happened(lambda: self.model.outcome(action.step, end))

    @precondition(lambda self: self._due())
    @rule(which=st.integers(0, 9), end=OUTCOMES)
    def make(self, which: int, end: str) -> None:
        """A call begins, and ends before anything else happens."""
        self.begin(which)
        self.finish(sorted(self.driver.calls).index(self._last_key), end)

    @precondition(lambda self: self._due())
    @rule(which=st.integers(0, 9))
    def succeed(self, which: int) -> None:
        """The same, and it goes well: most things do, or no run would come far."""
        self.make(which, "done")

    @precondition(lambda self: self._undo_is_due())
    @rule(end=st.sampled_from(["done", "done", *UNDO_ENDS]))
    def undo(self, end: str) -> None:
        """An undo is called, and ends."""
        (action,) = (one for one in work(self.driver.state, self.now) if isinstance(one, Compensate))
        if action.intend:
            assert self.driver.conclude(Intended(call=Call.UNDO), self.now)
        assert self.driver.conclude(Undone(UNDO_ENDS[end]), self.now)
        self._happened(lambda: self.model.undo(end))

    # Hosts

    @precondition(lambda self: self._far_from_poison())
    @rule()
    def crash(self) -> None:
        """The host dies with all that it knew; the next one reads the journal."""
        self._take_over()

    @precondition(lambda self: self._far_from_poison() and self.driver.calls)
    @rule(which=st.integers(0, 9))
    def lose_the_lease(self, which: int) -> None:
        """P33: another host drives the run now; what the old one still brings changes nothing."""
        old, action = self.driver, self._any_call(which, keep=True)
        self._take_over()
        before = list(self.store.journal)
        assert not old.conclude(Finished(branch=action.branch, end=done(x=1)), self.now)
        assert self.store.journal == before

    def _take_over(self) -> None:
        self.store.fence += 1
        self.driver = Driver(self.store, fold(self.plan, self.store.journal))
        assert self.driver.conclude(Recovered(host="h", fence=self.store.fence), self.now)
        self.model.crash()
        self._moves()

    # Time

    @rule(ms=st.sampled_from([1, NAP_MS, RETRY_MS, PATIENCE_MS, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.model.now = self.now
        self._happened(self.model.settle)

    # People

    @rule(compensate=st.booleans(), really=RARELY)
    def cancel(self, compensate: bool, really: bool) -> None:
        if not really:
            return
        taken = self._ask(Cancel(act=self._act(), by="ann", reason="", compensate=compensate))
        assert self.model.cancel(compensate=compensate) is taken
        self._moves()

    @rule(name=st.sampled_from("abcdef"), away_ms=st.sampled_from([0, 0, PATIENCE_MS + 1]))
    def signal(self, name: str, away_ms: int) -> None:
        """`away_ms`: so long no host had looked when it came."""
        self.now += away_ms
        self.model.now = self.now
        act = Signalled(act=self._act(), by="ann", at=self.now, name="go", payload=0, id=name)
        known = name in self.model.ids
        taken = known or self._ask(act, signal=True)
        assert self.model.signal(name) is taken
        self._happened(self.model.settle)

    @rule(really=RARELY)
    def pause(self, really: bool) -> None:
        if not really:
            return
        assert self.model.pause() is self._ask(Pause(act=self._act(), by="ann", reason=""))

    @rule()
    def resume(self) -> None:
        taken = self._ask(Resume(act=self._act(), by="ann", reason=""))
        assert self.model.resume() is taken
        self._moves()

    @rule()
    def retry(self) -> None:
        taken = self._ask(Reopen(act=self._act(), by="ann", reason="mended"))
        assert self.model.retry() is taken
        self._moves()

    @precondition(lambda self: self.driver.state.incidents)
    @rule(which=st.integers(0, 99))
    def resolve(self, which: int) -> None:
        incident = self.driver.state.incidents[which % len(self.driver.state.incidents)]
        answers = [action for action in incident.actions if action is not Action.SKIP]
        action = answers[which % len(answers)]
        updates = document({incident.step: -1}) if action is Action.DONE else EMPTY
        act = Resolve(act=self._act(), by="ann", incident=incident.id, action=action, note="looked", updates=updates)
        assert self._ask(act)
        if incident.call is Call.UNDO:
            self.model.answer_undo(action)
        else:
            self.model.answer(incident.step, action)
        self._moves()

    # What must hold

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "driver"):
            return
        state = self.driver.state
        assert state.status == self.model.status
        assert self.store.folded == state
        assert list(left_in_place(state)) == self.model.left
        assert len(state.signals) == self.model.signals, "P26: kept for a wait that may come, and no late one"
        assert sorted(incident.kind for incident in state.incidents) == self._incidents()
        if state.undo is None and not state.status.terminal:
            assert state.context.to_dict() == self.model.context
        assert self._called() == self.model.due_calls()
        undone = [one.step for one, _ in self.store.journal if isinstance(one, StepCompensated) and not one.no_undo]
        assert undone == self.model.undone, "P10, P11: each once, in the reverse order"

    @invariant()
    def a_charge_is_called_again_only_on_a_persons_word(self) -> None:
        """P4: each attempt's intent is durable before it, once."""
        if not hasattr(self, "driver"):
            return
        intents = [
            (event.step, event.attempt)
            for event, _ in self.store.journal
            if isinstance(event, AttemptStarted) and event.call is Call.STEP and event.step.startswith("charge")
        ]
        assert intents == [call for call in self.made if call[0].startswith("charge")]

    # How

    def _far_from_poison(self) -> bool:
        """From the third crash in a row on, attempts are treated in another way; others look at that."""
        return self.driver.state.recoveries < SUSPECT_AFTER - 1

    def _undo_is_due(self) -> bool:
        return any(isinstance(one, Compensate) for one in work(self.driver.state, self.now))

    def _called(self) -> set[tuple[str, str, int]]:
        state = self.driver.state
        called = {(one.step, "step", one.attempt) for one in self.driver.calls.values()}
        for one in work(state, self.now):
            if isinstance(one, Execute):
                called.add((one.step, "step", one.attempt))
            elif isinstance(one, Compensate):
                called.add((one.step, "undo", one.attempt))
        return called

    def _incidents(self) -> list[str]:
        doubts = [line for line in self.model.lines if line.at == "doubt"]
        return sorted(["in_doubt"] * len(doubts) + ["compensation_failed"] * self.model.undo_failed)

    def _any_call(self, which: int, *, keep: bool = False) -> Execute:
        keys = sorted(self.driver.calls)
        key = keys[which % len(keys)]
        return self.driver.calls[key] if keep else self.driver.calls.pop(key)

    def _act(self) -> int:
        return len(self.store.inbox) + 1

    def _ask(self, act: ActInput, *, signal: bool = False) -> bool:
        """At the door the act is judged; accepted, it is durable, and the driver takes it."""
        try:
            if signal:
                refuse_signal(self.driver.state)
            decide(self.driver.state, act, now=self.now)
        except Conflict:
            return False
        kind, data = write_act(act)
        row = InboxRow(n=act.act, at=self.now, kind=kind, by="ann", data=data)
        self.store.inbox.append(row)
        assert self.driver.commit(take(self.driver.state, [row], now=self.now), self.now)
        return True

    def _happened(self, modelled: object) -> None:
        assert callable(modelled)
        modelled()
        self._moves()

    def _moves(self) -> None:
        """What a host does by itself, until nothing of that is due."""
        while True:
            moves = [
                action
                for action in work(self.driver.state, self.now)
                if isinstance(action, Begin | Open | Fire | Expire)
                or (isinstance(action, Settle) and action.branch not in self._busy())
            ]
            if not moves:
                return
            move = moves[0]
            assert isinstance(move, Begin | Open | Fire | Expire | Settle)
            assert self.driver.conclude(move_of(move), self.now)

    def _busy(self) -> set[int]:
        return {action.branch for action in self.driver.calls.values()}
