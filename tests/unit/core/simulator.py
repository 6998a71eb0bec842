"""A host, a plugin, a person and a clock in one small world, driven by a seed, with the real `decide` and `work`.

The host of the simulation does what a host does: it makes the events of a decision durable (as text, in a list), then
acts. It may die before or after each commit, and before or after the effect of each call; another one then folds the
journal. `properties.py` holds what has happened against the promises.

Replay a seed: `python -m tests.unit.core.simulator SEED calm|storm|wild`
"""

from __future__ import annotations

import sys
from enum import Enum
from random import Random

import msgspec
from msgspec.structs import replace

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import fold, initial
from bext_workflow.core.inbox import take, write_act
from bext_workflow.core.input import (
    ActInput,
    Cancel,
    Continued,
    End,
    Finished,
    Input,
    Intended,
    Lost,
    Notified,
    Parked,
    Pause,
    Recovered,
    Reopen,
    Resolve,
    Resume,
    Signalled,
    Undone,
    Verified,
)
from bext_workflow.core.state import Incident, Phase, State
from bext_workflow.core.waiting import refuse_signal
from bext_workflow.core.work import Action as Due
from bext_workflow.core.work import (
    Begin,
    CallChild,
    Compensate,
    Execute,
    Expire,
    Fire,
    Notify,
    Open,
    Remind,
    Settle,
    StopChild,
    TellParent,
    UndoChild,
    Verify,
    wake_at,
    work,
)
from bext_workflow.errors import Conflict
from bext_workflow.model.event import Event, RunCreated
from bext_workflow.model.journal import decode, encode, kind_of
from bext_workflow.model.json import EMPTY, Json
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.status import Action, Call, IncidentKind
from bext_workflow.ports.store import InboxRow
from tests.unit.core.script import SIGNALS, Script
from tests.unit.core.simulated import INTERRUPTED, HostDied, last_word, move_of, timeline_of
from tests.unit.core.support import NOON, RUN_ID


class Weather(Enum):
    """What may go wrong, as probabilities and budgets."""

    CALM = (0.0, 0, 0.0)
    STORM = (0.12, 6, 0.0)
    WILD = (0.06, 60, 0.08)

    def __init__(self, deaths: float, most_deaths: int, acts: float) -> None:
        self.deaths = deaths
        self.most_deaths = most_deaths
        self.acts = acts


class Called(msgspec.Struct):
    """One call of the plugin, made when the journal had `seq` events. `told`: its end became durable."""

    call: Call
    step: str
    visit: int
    attempt: int
    key: str
    seq: int
    at: int
    end: End | None = None
    acted: bool = False
    told: bool = False

    @property
    def unknown(self) -> bool:
        """Whether the host could not know what the call had done."""
        return not self.told or isinstance(self.end, Lost)


class World:
    """One run, from its start to its end and beyond."""

    def __init__(self, script: Script, weather: Weather) -> None:
        self.script = script
        self.weather = weather
        self.chance = Random(f"{script.seed} {weather.name}")
        self.now = NOON
        self.deaths = 0
        self.answers = 0
        self.returns = 0
        self.inbox: list[InboxRow] = []
        self.calls: list[Called] = []
        self.asked: dict[tuple[str, int], set[int]] = {}
        """The waits for signals that somebody has heard of, by visit."""
        self.plan = script.hurried if weather is Weather.WILD else script.plan
        begun = self.chance.random() < 0.5
        definition = self.plan.definition
        created = RunCreated(
            run_id=RUN_ID, workflow=definition.id, version=1, digest=definition.digest, context=EMPTY, begun=begun
        )
        self.state = initial(self.plan, created, self.now)
        self.journal = [(kind_of(created), encode(created), self.now)]
        for name, payload in script.early:
            self._signal(name, payload)

    @property
    def events(self) -> list[tuple[Event, int]]:
        return [(decode(kind, text), at) for kind, text, at in self.journal]

    def folded(self) -> State:
        return fold(self.plan, self.events)

    # The host

    def live(self) -> World:
        """Until there is nothing to do, no question is open, and the person has lost interest."""
        for _ in range(2_000):
            try:
                if not self._turn():
                    return self
            except HostDied:
                self._take_over()
        raise AssertionError("the run does not come to an end")

    def _turn(self) -> bool:
        if self.weather.acts and self.chance.random() < self.weather.acts:
            self._meddle()
        due, wake = work(self.state, self.now), wake_at(self.state)
        if self._news():
            self._commit(take(self.state, self._news(), now=self.now, jitter=self.chance.random()))
        elif due:
            self._perform(due[0])
        elif self._answers_a_wait():
            pass
        elif wake is not None:
            assert wake > self.now, "something is due and there is no work"
            self._sleep(wake)
        elif self.state.paused:
            self._post(Resume(act=0, by="ann", reason=""))
        elif self.state.incidents:
            self._answer(self.state.incidents[0])
        else:
            assert self.state.status.terminal, "no work, no question, and no end"
            return self._has_second_thoughts()
        return True

    def _sleep(self, wake: int) -> None:
        """Until the run has work, or somewhat longer; in wild weather somebody may act at any time before or after."""
        if self.weather is Weather.WILD:
            self.now = max(self.now, wake - self.chance.choice([0, 0, 5]))
            if self.chance.random() < 0.7:
                self._meddle()
            wake += self.chance.choice([0, 0, 7])
        self.now = max(self.now, wake)

    def _take_over(self) -> None:
        self.deaths += 1
        self.state = self.folded()
        if self.weather is Weather.WILD:
            self.now += self.chance.choice([0, 0, 40, 600])
        while True:
            try:
                return self._conclude(Recovered(host=f"h-{self.deaths}", fence=self.deaths))
            except HostDied:
                self.deaths += 1
                self.state = self.folded()

    def _maybe_die(self) -> None:
        if self.deaths < self.weather.most_deaths and self.chance.random() < self.weather.deaths:
            raise HostDied

    def _conclude(self, given: Input, ended: Called | None = None) -> None:
        self._commit(decide(self.state, given, now=self.now, jitter=self.chance.random()), ended)

    def _commit(self, decision: Decision, ended: Called | None = None) -> None:
        self._maybe_die()
        self.journal += [(kind_of(event), encode(event), self.now) for event in decision.events]
        self.state = decision.state
        if ended is not None:
            ended.told = True
        self._maybe_die()

    def _perform(self, action: Due) -> None:
        match action:
            case CallChild() | StopChild() | UndoChild() | TellParent() | Remind():
                raise AssertionError("no definition that is drawn here has sub-workflows or approvals")
            case Begin() | Settle() | Open() | Fire() | Expire():
                self._conclude(move_of(action))
            case Verify():
                self._verify(action)
            case Execute():
                if action.intend:
                    self._conclude(Intended(call=Call.STEP, branch=action.branch))
                called = self._call(Call.STEP, action.step, action.visit, action.attempt, action.key)
                assert called.end is not None
                self._conclude(Finished(branch=action.branch, end=called.end), called)
            case Compensate():
                if action.intend:
                    self._conclude(Intended(call=Call.UNDO))
                called = self._call(Call.UNDO, action.step, action.visit, action.attempt, action.key)
                assert not isinstance(called.end, Continued | Parked)
                self._conclude(Undone(called.end), called)
            case Notify():
                if action.intend:
                    self._conclude(Intended(call=Call.COMPLETE))
                called = self._call(Call.COMPLETE, "", action.n, action.attempt, action.key)
                self._conclude(Notified(n=action.n, error="no" if called.end else None), called)

    # The plugin

    def _call(self, call: Call, step: str, visit: int, attempt: int, key: str) -> Called:
        """Makes the call; what it did is done, what it said may get lost."""
        scene = self.script.play(call, step, visit, attempt)
        called = Called(call, step, visit, attempt, key, seq=len(self.journal), at=self.now, end=scene.end)
        self.calls.append(called)
        self._maybe_die()
        called.acted = scene.acts
        if self.weather is Weather.WILD and self.script.kills(call, step, visit):
            raise HostDied
        self._maybe_die()
        self.now += self.chance.choice([0, 13])
        if self._interrupted() and call is Call.STEP:
            called.end = INTERRUPTED
        if self.weather is Weather.WILD and isinstance(called.end, Parked) and called.end.for_ms is not None:
            called.end = self._perhaps_until(called.end, called.end.for_ms)
        return called

    def _perhaps_until(self, end: Parked, for_ms: int) -> Parked:
        """The same wait up to an instant, which may have passed."""
        if self.chance.random() < 0.5:
            return end
        return replace(end, for_ms=None, until=self.now + for_ms - self.chance.choice([0, 0, 100]))

    def _interrupted(self) -> bool:
        """A person may act during the call; a `cancel --now` interrupts it."""
        before = self.state.stop
        if self.chance.random() < self.weather.acts:
            self._meddle()
            self._commit(take(self.state, self._news(), now=self.now))
        return self.state.stop is not before and self.state.stop is not None and self.state.stop.now

    def _news(self) -> list[InboxRow]:
        return [row for row in self.inbox if row.n > self.state.inbox]

    def _acted(self, call: Call, step: str, visit: int) -> bool:
        """What the world knows: whether any attempt had its effect."""
        return any((c.call, c.step, c.visit) == (call, step, visit) and c.acted for c in self.calls)

    def _verify(self, action: Verify) -> None:
        self._maybe_die()
        answer: Continued | NotDone | Unknown = NotDone()
        if self.weather is Weather.WILD and self.chance.random() < 0.2:
            answer = Unknown()
        elif self._acted(action.call, action.step, action.visit):
            answer = self.script.told(action.step, action.visit, action.attempt)
        self._interrupted()
        self._conclude(Verified(call=action.call, branch=action.branch, answer=answer))

    # The person

    def _post(self, act: ActInput) -> None:
        """Hands an act in at the door, where the same rules judge it, with what is in the inbox already carried out."""
        state = take(self.state, self._news(), now=self.now).state
        try:
            if isinstance(act, Signalled):
                refuse_signal(state)
            decide(state, act, now=self.now)
        except Conflict:
            return
        kind, data = write_act(act)
        self.inbox.append(InboxRow(n=len(self.inbox) + 1, at=self.now, kind=kind, by="ann", data=data))

    def _signal(self, name: str, payload: Json, id_: str | None = None) -> None:
        self._post(Signalled(act=0, by="ann", at=self.now, name=name, payload=payload, id=id_))

    def _answers_a_wait(self) -> bool:
        """Whether somebody sends the signal that the run waits for, who has not been asked for it before."""
        for branch in self.state.branches:
            wait = branch.wait
            if branch.phase is not Phase.WAITING or wait is None or wait.signal is None or self.state.paused:
                continue
            asked = self.asked.setdefault((branch.step, branch.visit), set())
            if branch.wait_opened in asked:
                continue
            asked.add(branch.wait_opened)
            payload = self.script.answers(branch.step, branch.visit, len(asked), bounded=wait.due_at is not None)
            if payload is not None:
                self._signal(wait.signal, payload)
                return True
        return False

    def _meddle(self) -> None:
        """Does something to the run, whether that makes sense or not."""
        chance = self.chance
        match chance.choice(["cancel", "retry", "pause", "resume", "signal", "signal", "signal"]):
            case "cancel":
                flags = {"compensate": chance.random() < 0.8, "now": chance.random() < 0.4}
                self._post(Cancel(act=0, by="ann", reason="", **flags))
            case "retry":
                step = chance.choice([None, *self.plan.definition.by_name])
                self._post(Reopen(act=0, by="ann", reason="", step=step, new_visit=chance.random() < 0.3))
            case "pause":
                self._post(Pause(act=0, by="ann", reason=""))
            case "resume":
                self._post(Resume(act=0, by="ann", reason=""))
            case _:
                id_ = chance.choice([None, "s-1", "s-2"])
                wanted = [branch.wait.signal for branch in self.state.branches if branch.wait and branch.wait.signal]
                self._signal(chance.choice([*SIGNALS, *wanted * 4]), f"meddled {len(self.inbox)}", id_)

    def _has_second_thoughts(self) -> bool:
        """After the end: whether a person comes back to it, a few times at most."""
        self.returns += 1
        if self.weather is not Weather.WILD or self.returns > 3:
            return False
        self._meddle()
        return True

    def _answer(self, incident: Incident) -> None:
        self.answers += 1
        action = self._true_answer(incident)
        if self.weather is Weather.WILD:
            action = self.chance.choice(incident.actions) if self.answers < 12 else last_word(incident)
        found = Continued()
        if incident.call is Call.STEP:
            found = self.script.told(incident.step, incident.visit, incident.attempt)
        self._post(
            Resolve(
                act=0,
                by="ann",
                incident=incident.id,
                action=action,
                note="looked it up",
                updates=found.updates,
                next=found.next,
                undo_data=found.undo_data,
            )
        )

    def _true_answer(self, incident: Incident) -> Action:
        """Of someone who looks the truth up, and otherwise has the cause mended and says `retry`."""
        if incident.kind is not IncidentKind.IN_DOUBT:
            return Action.RETRY
        if self._acted(incident.call, incident.step, incident.visit):
            return Action.DONE
        scene = self.script.play(incident.call, incident.step, incident.visit, incident.attempt)
        if isinstance(scene.end, Lost) and not scene.acts and not self.script.plan.verifies:
            return Action.FAIL  # the same would happen again
        return Action.NOT_DONE


class Record:
    """What is left of a run that has been lived: its events, and `timeline`, the calls among them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.script = world.script
        self.state = world.state
        self.calls = world.calls
        self.moments = world.events
        self.events = [event for event, _ in self.moments]
        self.timeline: list[Event | Called] = timeline_of(self.events, world.calls)


if __name__ == "__main__":
    shown = World(Script(int(sys.argv[1])), Weather[sys.argv[2].upper()])
    print(shown.plan)
    try:
        shown.live()
    finally:
        print(*Record(shown).timeline, shown.state.status, sep="\n")
