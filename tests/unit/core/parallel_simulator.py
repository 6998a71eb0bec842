"""A host whose run has branches, a plugin, a person and a clock, driven by a seed, with the real `decide` and `work`.

Calls run side by side and end in any order; between them the host may die with all of them, acts may arrive before a
decision is durable, and time passes. `parallel_properties.py` holds what has happened against the promises.

Replay a seed: `python -m tests.unit.core.parallel_simulator SEED`
"""

from __future__ import annotations

import sys
from enum import Enum
from random import Random
from typing import TypeAlias

import msgspec

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
from bext_workflow.core.state import Incident, State
from bext_workflow.core.work import (
    Action as Due,
)
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
    wakes_after,
    work,
)
from bext_workflow.errors import Conflict
from bext_workflow.host import snapshot
from bext_workflow.model.event import Event, RunCreated
from bext_workflow.model.journal import decode, encode, kind_of
from bext_workflow.model.json import EMPTY, Json, JsonObject
from bext_workflow.model.outcome import NotDone, Unknown
from bext_workflow.model.status import Action, Call, IncidentKind, WorkflowStatus
from bext_workflow.ports.store import InboxRow
from tests.unit.core.parallel_script import SIGNAL, Script
from tests.unit.core.simulated import INTERRUPTED, HostDied, last_word, move_of, timeline_of
from tests.unit.core.support import NOON, RUN_ID

PluginCall: TypeAlias = Execute | Compensate | Verify | Notify


class Weather(Enum):
    """What may go wrong, as probabilities and budgets."""

    CALM = (0.0, 0, 0.0)
    STORM = (0.04, 6, 0.0)
    WILD = (0.03, 8, 0.05)

    def __init__(self, deaths: float, most_deaths: int, acts: float) -> None:
        self.deaths = deaths
        self.most_deaths = most_deaths
        self.acts = acts


class Called(msgspec.Struct):
    """One call of the plugin, begun when the journal had `seq` events; `told`: its end became durable.

    `context`, `item` and `index` are what it was shown.
    """

    call: Call
    branch: int
    step: str
    visit: int
    attempt: int
    key: str
    seq: int
    at: int
    context: JsonObject
    item: Json
    index: int | None
    end: End | None = None
    acted: bool = False
    told: bool = False


class Running(msgspec.Struct):
    """A call that is under way."""

    action: PluginCall
    called: Called | None = None


class World:
    """One run, from its start to its end and beyond. `every_prefix`: each prefix of the journal is folded, too."""

    def __init__(self, script: Script, weather: Weather, *, every_prefix: bool = False) -> None:
        self.script = script
        self.weather = weather
        self.every_prefix = every_prefix
        self.chance = Random(f"{script.seed} parallel {weather.name}")
        self.now = NOON
        self.deaths = 0
        self.answers = 0
        self.returns = 0
        self.inbox: list[InboxRow] = []
        self.calls: list[Called] = []
        self.running: dict[str, Running] = {}
        self.most_at_once = 0
        definition = self.script.plan.definition
        created = RunCreated(
            run_id=RUN_ID,
            workflow=definition.id,
            version=1,
            digest=definition.digest,
            context=EMPTY,
            begun=self.chance.random() < 0.5,
        )
        self.state = initial(self.script.plan, created, self.now)
        self.journal = [(kind_of(created), encode(created), self.now)]

    @property
    def events(self) -> list[tuple[Event, int]]:
        return [(decode(kind, text), at) for kind, text, at in self.journal]

    def folded(self) -> State:
        return fold(self.script.plan, self.events)

    # The host

    def live(self) -> World:
        """Until there is nothing to do, no question is open, and the person has lost interest."""
        for _ in range(4_000):
            try:
                if not self._turn():
                    return self
            except HostDied:
                self._take_over()
        raise AssertionError("the run does not come to an end")

    def _turn(self) -> bool:
        """One thing, of all that may happen next."""
        if self.chance.random() < self.weather.acts:
            self._meddle()
        if self._news():
            self._take_acts()
            return True
        due = [action for action in work(self.state, self.now) if not self._must_wait(action)]
        self.most_at_once = max(self.most_at_once, len(self.running))
        if due and (not self.running or self.chance.random() < 0.6):
            self._begin(self.chance.choice(due))
        elif self.running and self.chance.random() < 0.9:
            self._end(self.running.pop(self.chance.choice(list(self.running))))
        else:
            return self._time_passes() or bool(self.running) or self._stands_still()
        return True

    def _must_wait(self, action: Due) -> bool:
        """What the host keeps back while a call runs."""
        match action:
            case Settle():
                return any(getattr(one.action, "branch", None) == action.branch for one in self.running.values())
            case Expire():
                return self.state.pivoted and bool(self.running)
            case Execute() | Compensate() | Verify() | Notify():
                return action.key in self.running
            case _:
                return False

    def _time_passes(self) -> bool:
        wake = wakes_after(self.state, self.now)
        if wake is None:
            return False
        assert wake_at(self.state) is not None
        self.now = wake
        return True

    def _stands_still(self) -> bool:
        """Nothing is due and nothing runs: a person moves the run, or it has ended."""
        if self.state.paused:
            self._post(Resume(act=self._next_act(), by="ann", reason=""))
        elif self.state.incidents:
            self._answer(self.chance.choice(self.state.incidents))
        elif self.state.status is WorkflowStatus.WAITING:
            self._send_signal()
        else:
            assert self.state.status.terminal, f"no work, no question, and {self.state.status}"
            return self._has_second_thoughts()
        return True

    def _take_over(self) -> None:
        while True:
            self.deaths += 1
            self.running.clear()
            self.state = self.folded()
            try:
                self._conclude(Recovered(host=f"h-{self.deaths}", fence=self.deaths))
            except HostDied:
                continue
            return

    def _maybe_die(self) -> None:
        if self.deaths < self.weather.most_deaths and self.chance.random() < self.weather.deaths:
            raise HostDied

    def _conclude(self, given: Input, ended: Called | None = None) -> None:
        """What has happened is decided anew as long as acts come first."""
        while not self._commit(decide(self.state, given, now=self.now, jitter=self.chance.random()), ended):
            self._take_acts()

    def _move(self, given: Input) -> None:
        """A move that is due is dropped when acts come first."""
        self._commit(decide(self.state, given, now=self.now, jitter=self.chance.random()))

    def _commit(self, decision: Decision, ended: Called | None = None) -> bool:
        """Makes it durable; false: acts have arrived that it did not know."""
        self._maybe_die()
        if self.chance.random() < self.weather.acts / 4:
            self._meddle()
        if self._news():
            return False
        self._append(decision)
        if ended is not None:
            ended.told = True
        self._maybe_die()
        return True

    def _take_acts(self) -> None:
        self._append(take(self.state, self._news(), now=self.now, jitter=self.chance.random()))
        if self.state.stop is not None and self.state.stop.now:
            for running in self.running.values():
                if running.called is not None and running.called.call is Call.STEP:
                    running.called.end = INTERRUPTED

    def _append(self, decision: Decision) -> None:
        self.journal += [(kind_of(event), encode(event), self.now) for event in decision.events]
        self.state = decision.state
        if self.every_prefix:
            assert self.folded() == self.state, "the journal's text and the decision differ"

    def _begin(self, action: Due) -> None:
        match action:
            case CallChild() | StopChild() | UndoChild() | TellParent() | Remind():
                raise AssertionError("no definition that is drawn here has sub-workflows or approvals")
            case Begin() | Settle() | Open() | Fire() | Expire():
                self._move(move_of(action))
            case Verify():
                self.running[action.key] = Running(action)
            case Execute() | Compensate() | Notify():
                self._begin_call(action)

    def _begin_call(self, action: Execute | Compensate | Notify) -> None:
        call, branch = Call.COMPLETE, 0
        if isinstance(action, Execute):
            call, branch = Call.STEP, action.branch
        elif isinstance(action, Compensate):
            call = Call.UNDO
        if action.intend and not self._commit(decide(self.state, Intended(call=call, branch=branch), now=self.now)):
            return
        self.running[action.key] = Running(action, self._call(call, action, branch))
        self._maybe_die()

    def _end(self, running: Running) -> None:
        self.now += self.chance.choice([0, 0, 13])
        action, called = running.action, running.called
        if called is not None and called.acted and self.chance.random() < 0.5:
            self._maybe_die()
        match action:
            case Execute():
                assert called is not None
                assert called.end is not None
                self._conclude(Finished(branch=action.branch, end=called.end), called)
            case Compensate():
                assert called is not None
                assert not isinstance(called.end, Continued | Parked)
                self._conclude(Undone(called.end), called)
            case Notify():
                assert called is not None
                self._conclude(Notified(n=action.n, error="no" if called.end else None), called)
            case Verify():
                self._verify(action)

    # The plugin

    def _call(self, call: Call, action: Execute | Compensate | Notify, branch: int) -> Called:
        """Makes the call; what it did is done, what it said may get lost."""
        run = snapshot.of(self.state, action)
        scene = self.script.play(call, run.step, action.key, action.attempt)
        called = Called(
            call=call,
            branch=branch,
            step=run.step,
            visit=run.visit,
            attempt=action.attempt,
            key=action.key,
            seq=len(self.journal),
            at=self.now,
            context=dict(run.context),
            item=run.item,
            index=run.index,
            end=scene.end,
        )
        self.calls.append(called)
        self._maybe_die()
        called.acted = scene.acts
        if self.weather is Weather.WILD and self.script.kills(call, action.key):
            raise HostDied
        return called

    def _news(self) -> list[InboxRow]:
        return [row for row in self.inbox if row.n > self.state.inbox]

    def _acted(self, key: str) -> bool:
        """What the world knows: whether any attempt had its effect."""
        return any(called.key == key and called.acted for called in self.calls)

    def _verify(self, action: Verify) -> None:
        answer: Continued | Parked | NotDone | Unknown = NotDone()
        if self.weather is Weather.WILD and self.chance.random() < 0.2:
            answer = Unknown()
        elif self._acted(action.key):
            answer = self.script.told(action.step, action.key, action.attempt)
        self._conclude(Verified(call=action.call, branch=action.branch, answer=answer))

    # The person

    def _next_act(self) -> int:
        return len(self.inbox) + 1

    def _post(self, act: ActInput) -> bool:
        """Hands an act in at the door, where the same rules judge it."""
        try:
            decide(self.state, act, now=self.now)
        except Conflict:
            return False
        kind, data = write_act(act)
        self.inbox.append(InboxRow(n=self._next_act(), at=self.now, kind=kind, by="ann", data=data))
        return True

    def _send_signal(self) -> None:
        sent = Signalled(act=self._next_act(), by="ann", at=self.now, name=SIGNAL, payload=len(self.inbox))
        assert self._post(sent), "a run that waits takes a signal"

    def _meddle(self) -> None:
        """Does something, whether that makes sense or not."""
        chance, act = self.chance, self._next_act()
        match chance.choice(["cancel", "retry", "pause", "resume", "signal", "signal", "answer"]):
            case "cancel" if chance.random() < 0.5:
                flags = {"compensate": chance.random() < 0.8, "now": chance.random() < 0.4}
                self._post(Cancel(act=act, by="ann", reason="", **flags))
            case "retry":
                step = chance.choice([None, None, *self.script.plan.definition.by_name])
                self._post(Reopen(act=act, by="ann", reason="", step=step, new_visit=chance.random() < 0.3))
            case "pause":
                self._post(Pause(act=act, by="ann", reason=""))
            case "resume":
                self._post(Resume(act=act, by="ann", reason=""))
            case "signal":
                self._post(Signalled(act=act, by="ann", at=self.now, name=SIGNAL, payload=act))
            case "answer" if self.state.incidents:
                self._answer(chance.choice(self.state.incidents))
            case _:
                pass

    def _has_second_thoughts(self) -> bool:
        """After the end: whether a person comes back to it, a few times at most."""
        self.returns += 1
        if self.weather is not Weather.WILD or self.returns > 3:
            return False
        step = self.chance.choice([None, None, None, *self.script.plan.definition.by_name])
        new_visit = self.chance.random() < 0.3
        if not self._post(Reopen(act=self._next_act(), by="ann", reason="", step=step, new_visit=new_visit)):
            self._post(Cancel(act=self._next_act(), by="ann", reason=""))
        return True

    def _answer(self, incident: Incident) -> None:
        self.answers += 1
        action = self._true_answer(incident)
        if self.weather is Weather.WILD:
            action = self.chance.choice(incident.actions) if self.answers < 12 else last_word(incident)
        found: Continued | Parked = Continued()
        if incident.call is Call.STEP and incident.step and not self.script.plan.step(incident.step).hosted:
            found = self.script.told(incident.step, f"{incident.step} by hand", incident.attempt)
        taken = self._post(
            Resolve(
                act=self._next_act(),
                by="ann",
                incident=incident.id,
                action=action,
                note="looked it up",
                updates=found.updates,
                next=found.next,
                undo_data=found.undo_data,
            )
        )
        assert taken, f"{action} is no answer to {incident.kind} after all"

    def _true_answer(self, incident: Incident) -> Action:
        """Of someone who looks the truth up, and otherwise has the cause mended and says `retry`."""
        if incident.kind is not IncidentKind.IN_DOUBT:
            again = Action.RETRY if Action.RETRY in incident.actions else Action.DONE
            return last_word(incident) if self.answers > 40 else again
        of_it = [
            called
            for called in self.calls
            if (called.call, called.step, called.visit) == (incident.call, incident.step, incident.visit)
            and (incident.call is Call.UNDO or called.branch == incident.branch)
        ]
        if any(called.acted for called in of_it):
            return Action.DONE
        return Action.FAIL if incident.call is Call.STEP else Action.DONE


class Record:
    """What is left of a run that has been lived: its events, and `timeline`, the calls among them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.script = world.script
        self.state = world.state
        self.calls = world.calls
        self.events = [event for event, _ in world.events]
        self.timeline: list[Event | Called] = timeline_of(self.events, world.calls)


def weather_of(seed: int) -> Weather:
    return list(Weather)[seed % 3]


if __name__ == "__main__":
    number = int(sys.argv[1])
    shown = World(Script(number), weather_of(number), every_prefix=True)
    for one in shown.script.plan.definition.steps:
        print(one)
    try:
        shown.live()
    finally:
        print(*Record(shown).timeline, shown.state.status, sep="\n")
