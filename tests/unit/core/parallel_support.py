"""Runs with branches, driven by hand: a branch is called by where it stands, `ship[3]`, and does what the test says."""

from __future__ import annotations

from typing import TypeVar

from bext_workflow.core.input import (
    Continued,
    End,
    Failed,
    Finished,
    Intended,
    Lost,
    Opened,
    Resolve,
    Retried,
    Settled,
    TimerDue,
    Undone,
)
from bext_workflow.core.state import Branch, Incident, Plan
from bext_workflow.core.work import Compensate, Execute, Fire, Open, Settle, work
from bext_workflow.host import snapshot
from bext_workflow.model.definition import StepDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition, Need, OnConflict
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.run import WorkflowRun, newest_first
from bext_workflow.model.status import Action, Call
from tests.unit.core.support import Saga, document, done

D = TypeVar("D", Compensate, Execute, Fire, Open, Settle)

DONE = done()


def fork(
    name: str, *into: str, at: str | None = None, need: Need = "all", last: bool = False, **fields: Json
) -> StepDefinition:
    """A step that forks into these, to meet before `at`; without it they do not meet."""
    on_conflict = OnConflict.LAST if last else OnConflict.FAIL
    join = None if at is None else JoinDefinition(at=at, need=need, on_conflict=on_conflict)
    return StepDefinition(name=name, next=into, join=join, **fields)


def maps(
    name: str, over: str, at: str, join: str, *, most: int = 10, collect: str | None = None, **fields: Json
) -> StepDefinition:
    """A step that maps: a branch at `at` for each item, to meet before `join`."""
    map_ = MapDefinition(over=over, at=at, join=join, max_concurrency=most, collect=collect)
    return StepDefinition(name=name, map=map_, **fields)


def to(name: str, next_: str, **fields: Json) -> StepDefinition:
    """A step that goes on at `next_`."""
    return StepDefinition(name=name, next=next_, **fields)


def sets(**updates: Json) -> Continued:
    """An outcome with these updates, whatever the names of the keys."""
    return Continued(updates=document(updates))


def chooses(*names: str, undo_data: Json = None, **updates: Json) -> Continued:
    """An outcome that forks into these steps."""
    return Continued(updates=document(updates), next=names, undo_data=undo_data)


class Branches(Saga):
    """A run whose branches are named by where they stand. Until its call has ended, a branch does not settle."""

    def __init__(self, plan: Plan, *, begun: bool = True, context: Json = None) -> None:
        super().__init__(plan, begun=begun, context=context)
        self.running: set[int] = set()

    # What happened

    @property
    def standing(self) -> list[str]:
        """Where the branches stand that have something to do or to wait for, in the order in which they began."""
        return [_name(branch) for branch in self.state.branches if branch.live]

    def at(self, name: str) -> Branch:
        (branch,) = [branch for branch in self.state.branches if _name(branch) == name]
        return branch

    @property
    def pending(self) -> list[str]:
        """What is to be undone, in that order, with the places in maps."""
        return [entry.step + entry.place for entry in newest_first(self.state.pending)]

    @property
    def context(self) -> JsonObject:
        """The context of the run itself."""
        return self.state.context.to_dict()

    def due_at(self, name: str) -> Execute:
        """The call that is due for the branch that stands there."""
        branch = self.at(name)
        (action,) = [one for one in self._of(Execute) if one.branch == branch.id]
        return action

    @property
    def callable(self) -> list[str]:
        """Where a step may be called now."""
        return [_name(self.state.branch(action.branch)) for action in self._of(Execute)]

    def shown(self, name: str) -> WorkflowRun:
        """What `run_step` is given there."""
        return snapshot.of(self.state, self.due_at(name))

    def shown_to_undo(self) -> WorkflowRun:
        """What `compensate_step` is given next."""
        (action,) = self._of(Compensate)
        return snapshot.of(self.state, action)

    def incident_at(self, step: str) -> Incident:
        (incident,) = [incident for incident in self.state.incidents if incident.step == step]
        return incident

    # What a host does

    def starts(self, *names: str) -> Branches:
        """Makes these calls, with their intents."""
        for name in names:
            action = self.due_at(name)
            if action.intend:
                self.give(Intended(call=Call.STEP, branch=action.branch))
            self.running.add(action.branch)
        return self

    def ends(self, name: str, end: End = DONE) -> list[str]:
        """The call that was made there has ended."""
        branch = self.at(name).id
        self.running.remove(branch)
        return self.give(Finished(branch=branch, end=end))

    def does(self, name: str, end: End = DONE) -> list[str]:
        """Makes the call, which ends so."""
        return self.starts(name).ends(name, end)

    def all_do(self, *names: str) -> Branches:
        """One after the other, each with its own name and key set: `{"ship[3]": "done"}`."""
        for name in names:
            self.does(name, sets(**{name: "done"}))
        return self

    def opens(self, name: str) -> list[str]:
        """The host comes to a step of its own there."""
        branch = self.at(name)
        assert branch.id in [action.branch for action in self._of(Open)]
        return self.give(Opened(branch=branch.id))

    def fires(self, name: str) -> list[str]:
        """The time of the wait there has come."""
        branch = self.at(name)
        assert branch.id in [action.branch for action in self._of(Fire)]
        return self.give(TimerDue(branch=branch.id))

    def crash(self, times: int = 1) -> Branches:
        self.running.clear()
        super().crash(times)
        return self

    def settles(self) -> list[str]:
        """All branches that have nothing running end; where they stood."""
        settled = []
        while actions := [action for action in self._of(Settle) if action.branch not in self.running]:
            settled.append(_name(self.state.branch(actions[0].branch)))
            self.give(Settled(branch=actions[0].branch))
        return settled

    def undo_next(self, end: Retried | Failed | Lost | None = None) -> str:
        """One undo; what was undone, with its place."""
        (action,) = self._of(Compensate)
        run = snapshot.of(self.state, action)
        place = snapshot.place_of(self.state, action)
        if action.intend:
            self.give(Intended(call=Call.UNDO))
        self.give(Undone(end))
        return run.step + place

    def undoes(self) -> list[str]:
        """Undoes what is due to be undone, until nothing is."""
        undone = []
        while self._of(Compensate):
            undone.append(self.undo_next())
        return undone

    def answers(self, step: str, action: Action, next_: str | None = None, **updates: Json) -> list[str]:
        """A person answers the incident of that step."""
        self.acts += 1
        return self.give(
            Resolve(
                act=self.acts,
                by="ann",
                incident=self.incident_at(step).id,
                action=action,
                note="looked it up",
                updates=document(updates),
                next=next_,
            )
        )

    def _of(self, form: type[D]) -> list[D]:
        return [action for action in work(self.state, self.now) if isinstance(action, form)]


def _name(branch: Branch) -> str:
    return branch.step + branch.place
