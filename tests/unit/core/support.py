"""A run in a test: inputs go through `decide`, events through the journal's text, time is what the test says."""

from __future__ import annotations

from typing import TypeVar

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import evolve, fold, initial
from bext_workflow.core.inbox import take, write_act
from bext_workflow.core.input import (
    Answered,
    Begun,
    Cancel,
    ChildCalled,
    ChildEnd,
    ChildStopped,
    ChildUndoing,
    Continued,
    End,
    Expired,
    Failed,
    Finished,
    Input,
    Intended,
    Lost,
    Notified,
    Opened,
    ParentUndo,
    Parked,
    Pause,
    Recovered,
    ReminderDue,
    Reopen,
    Resolve,
    Resume,
    Retried,
    Settled,
    Signalled,
    TimerDue,
    Told,
    Undone,
)
from bext_workflow.core.state import Branch, Incident, Plan, State
from bext_workflow.core.waiting import refuse_answer, refuse_signal
from bext_workflow.core.work import Action as Due
from bext_workflow.core.work import (
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
    left_in_place,
    wake_at,
    work,
)
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.event import Event, RunCreated
from bext_workflow.model.journal import decode, encode, kind_of
from bext_workflow.model.json import EMPTY, Document, Json, dumps
from bext_workflow.model.origin import Parent
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Action, Call, WorkflowStatus
from bext_workflow.model.wait import ApprovalDefinition, WaitDefinition, WaitFor
from bext_workflow.ports.store import InboxRow

RUN_ID, CHILD_ID = "r-1", "r-2"
NOON = 1_800_000_000_000

D = TypeVar("D", bound=Due)
E = TypeVar("E", bound=Event)

TIMED_OUT = Lost(reason="timed out", errors=frozenset({"builtins.TimeoutError"}))
RAISED = Lost(reason="KeyError: 'order'", errors=frozenset({"builtins.KeyError"}), evidence={"raised": "KeyError"})
AGAIN = Retried(reason="503")
NO = Failed(reason="declined", compensate=True)
NO_AND_LEAVE = Failed(reason="unknown sku", compensate=False)


def document(value: Json) -> Document:
    return Document(dumps(value), value) if value else EMPTY


def done(next_: str | None = None, *, undo_data: Json = None, **updates: Json) -> Continued:
    """An attempt that returned `Continue` with these updates."""
    return Continued(updates=document(updates), next=next_, undo_data=undo_data)


def parked(signal: str | None = None, *, undo_data: Json = None, updates: Json = None, **fields: Json) -> Parked:
    """An attempt that returned `Wait`; `fields` are for_ms, until (ms), into, next, on_timeout."""
    return Parked(signal=signal, updates=document(updates), undo_data=undo_data, **fields)


def step(name: str, **fields: Json) -> StepDefinition:
    return StepDefinition(name=name, **fields)


def charge(name: str = "charge", **fields: Json) -> StepDefinition:
    """A step that must not be repeated blindly."""
    return StepDefinition(name=name, idempotent=False, **fields)


def asks(name: str = "ask", signal: str = "go", *, branches: tuple[str, ...] = (), **fields: Json) -> StepDefinition:
    """A step that the host does: it waits for a signal; `fields` are into, timeout_ms, on_timeout."""
    return StepDefinition(name=name, branches=branches, wait=WaitDefinition(signal=signal, **fields))


def approves(name: str = "ask", signal: str = "go", **fields: Json) -> StepDefinition:
    """A step that waits for a decision; `fields` are its, the wait's (into, timeout_ms, on_timeout) and the `next`."""
    of_wait = {key: fields.pop(key) for key in ("into", "timeout_ms", "on_timeout") if key in fields}
    next_ = fields.pop("next", None)
    wait = WaitDefinition(signal=signal, approval=ApprovalDefinition(**fields), **of_wait)
    return StepDefinition(name=name, next=next_, wait=wait)


def calls(name: str = "ship", workflow: str = "shipping", **fields: Json) -> StepDefinition:
    """A step that is a run of another workflow."""
    return StepDefinition(name=name, workflow=workflow, **fields)


def naps(name: str = "nap", ms: int = 500, **fields: Json) -> StepDefinition:
    """A step that the host does: it sleeps."""
    return StepDefinition(name=name, sleep_ms=ms, **fields)


def tries(attempts: int, on_exhausted: OnExhausted = OnExhausted.COMPENSATE, **fields: Json) -> RetryPolicy:
    return RetryPolicy(max_attempts=attempts, on_exhausted=on_exhausted, **fields)


def plan(
    *steps: StepDefinition, undoes: bool = True, verifies: bool = False, notifies: bool = False, timeout_ms: int = 0
) -> Plan:
    definition = WorkflowDefinition(id="checkout", steps=steps, timeout_ms=timeout_ms)
    return Plan(definition=definition, undoes=undoes, verifies=verifies, notifies=notifies)


class Saga:
    """Drives a run by hand as a host would. After each decision the journal, read back, must give the same state."""

    def __init__(self, plan: Plan, *, begun: bool = True, context: Json = None, parent: Parent | None = None) -> None:
        self.now = NOON
        self.acts = 0
        created = RunCreated(
            run_id=RUN_ID,
            workflow=plan.definition.id,
            version=plan.definition.version,
            digest=plan.definition.digest,
            context=document(context or {}),
            begun=begun,
            parent=parent,
        )
        self.state = initial(plan, created, self.now)
        self.journal: list[tuple[str, bytes, int]] = [(kind_of(created), encode(created), self.now)]
        self._read_back = self.folded()

    # What happened

    # `status` and `idle` are calls, so that a type checker does not take what held before for what holds now.

    def status(self) -> WorkflowStatus:
        return self.state.status

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.journal]

    @property
    def events(self) -> list[Event]:
        return [decode(kind, text) for kind, text, _ in self.journal]

    def all(self, form: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, form)]

    def last(self, form: type[E]) -> E:
        return self.all(form)[-1]

    @property
    def to_undo(self) -> list[str]:
        """The steps that the run would undo, or is undoing, in that order."""
        return [entry.step for entry in newest_first(self.state.pending)]

    @property
    def left(self) -> tuple[str, ...]:
        return left_in_place(self.state)

    @property
    def incident(self) -> Incident:
        (incident,) = self.state.incidents
        return incident

    @property
    def branch(self) -> Branch:
        (branch,) = self.state.branches
        return branch

    @property
    def waits_for(self) -> WaitFor:
        """What the run is parked for."""
        assert self.branch.wait is not None
        return self.branch.wait

    def folded(self, upto: int | None = None) -> State:
        """The state of the journal's first events, from their text."""
        rows = self.journal[:upto]
        return fold(self.state.plan, [(decode(kind, text), at) for kind, text, at in rows])

    # What a host does

    def give(self, given: Input, *, jitter: float = 0.0) -> list[str]:
        """The kinds of the events that follow."""
        return self._follow(decide(self.state, given, now=self.now, jitter=jitter))

    def take(self, *posted: tuple[int, Cancel | Signalled | Pause | Resume]) -> list[str]:
        """A driver comes, now, to acts that were accepted at those times (ms)."""
        rows = []
        for number, (at, act) in enumerate(posted, self.acts + 1):
            kind, data = write_act(act)
            rows.append(InboxRow(n=number, at=at, kind=kind, by=act.by, data=data))
        self.acts += len(posted)
        return self._follow(take(self.state, rows, now=self.now))

    def _follow(self, decision: Decision) -> list[str]:
        for event in decision.events:
            self.journal.append((kind_of(event), encode(event), self.now))
            self._read_back = evolve(self._read_back, decode(*self.journal[-1][:2]), self.now)
        self.state = decision.state
        assert self._read_back == self.state, "the journal's text and the decision differ"
        return [kind_of(event) for event in decision.events]

    def due(self, form: type[D]) -> D:
        """The one thing that is due, which must be of that form."""
        (action,) = work(self.state, self.now)
        assert isinstance(action, form), action
        return action

    def idle(self) -> bool:
        return not work(self.state, self.now)

    def wait(self, ms: int) -> Saga:
        self.now += ms
        return self

    def begin(self) -> list[str]:
        return self.give(Begun())

    def call_step(self) -> Execute:
        """Makes the call of the step that is due: the intent first, if it must be durable."""
        action = self.due(Execute)
        if action.intend:
            self.give(Intended(call=Call.STEP, branch=action.branch))
        return action

    def finish(self, end: End) -> list[str]:
        """The attempt that was called ended."""
        return self.give(Finished(branch=self.branch.id, end=end))

    def run(self, *ends: End) -> Saga:
        """Runs what is due, one call an end; time is moved to when the call is due."""
        for end in ends:
            self._to_next_call()
            self.call_step()
            self.finish(end)
        return self

    def call_undo(self) -> Compensate:
        action = self.due(Compensate)
        if action.intend:
            self.give(Intended(call=Call.UNDO))
        return action

    def undo_returned(self) -> list[str]:
        """The undo that was called returned."""
        return self.give(Undone())

    def undo(self, *ends: Retried | Failed | Lost | None) -> Saga:
        """One call of `compensate_step` an end; None: it returned."""
        for end in ends:
            self._to_next_call()
            self.call_undo()
            self.give(Undone(end))
        return self

    def undo_all(self) -> list[str]:
        """Undoes all that is pending; returns the steps in the order of the calls."""
        called = []
        while self.status() is WorkflowStatus.COMPENSATING:
            called.append(self.due(Compensate).step)
            self.undo(None)
        return called

    def call_notify(self) -> Notify:
        action = self.due(Notify)
        if action.intend:
            self.give(Intended(call=Call.COMPLETE))
        return action

    def intend(self, call: Call) -> None:
        """Makes the intent of a call durable, where more than one is due."""
        self.give(Intended(call=call))

    def notify(self, *errors: str | None) -> Saga:
        for error in errors:
            self._to_next_call()
            self.give(Notified(n=self.call_notify().n, error=error))
        return self

    def settle(self) -> list[str]:
        return self.give(Settled(branch=self.due(Settle).branch))

    def open(self) -> list[str]:
        """The host comes to a step of its own."""
        return self.give(Opened(branch=self.due(Open).branch))

    def fire(self) -> list[str]:
        """A timer is due."""
        return self.give(TimerDue(branch=self.due(Fire).branch))

    def expire(self) -> list[str]:
        """The run's own time is over, which comes before whatever else is due."""
        assert isinstance(work(self.state, self.now)[0], Expire)
        return self.give(Expired())

    def crash(self, times: int = 1) -> Saga:
        """The host dies and another one takes the run over from its journal."""
        for _ in range(times):
            self.state = self.folded()
            self.give(Recovered(host="h-2", fence=2))
        return self

    # What a person does

    def cancel(self, *, compensate: bool = True, now: bool = False) -> list[str]:
        self.acts += 1
        return self.give(Cancel(act=self.acts, by="ann", reason="ordered twice", compensate=compensate, now=now))

    def signal(
        self, name: str = "go", payload: Json = None, *, id: str | None = None, at: int | None = None
    ) -> list[str]:
        """A signal that is taken from the inbox now. `at`: when it was accepted; the door then judges it now."""
        refuse_signal(self.state)
        self.acts += 1
        at = self.now if at is None else at
        return self.give(Signalled(act=self.acts, by="ann", at=at, name=name, payload=payload, id=id))

    def decide(
        self, approved: bool | None = True, *, key: str = f"{RUN_ID}:ask", at: int | None = None, form: Json = None
    ) -> list[str]:
        """An answer to the wait of one visit is taken from the inbox now; the door judges it now."""
        refuse_answer(self.state, key)
        self.acts += 1
        return self.give(self.answered(approved, key=key, at=at, form=form))

    def answered(
        self, approved: bool | None, *, key: str = f"{RUN_ID}:ask", at: int | None = None, form: Json = None
    ) -> Answered:
        """The last act, as an answer."""
        at = self.now if at is None else at
        comment = "" if approved is None else "as agreed"
        return Answered(act=self.acts, by="ann", at=at, key=key, payload=form, approved=approved, comment=comment)

    def open_branch(self, branch: int) -> list[str]:
        """The host comes to a step of its own in that branch, of several."""
        return self.give(Opened(branch=branch))

    def remind(self) -> list[str]:
        return self.give(ReminderDue(branch=self.due(Remind).branch))

    def pause(self) -> list[str]:
        self.acts += 1
        return self.give(Pause(act=self.acts, by="ann", reason="have a look"))

    def resume(self) -> list[str]:
        self.acts += 1
        return self.give(Resume(act=self.acts, by="ann", reason="looked"))

    def reopen(self, step: str | None = None, *, new_visit: bool = False) -> list[str]:
        self.acts += 1
        return self.give(Reopen(act=self.acts, by="ann", reason="mended", step=step, new_visit=new_visit))

    def answer(self, action: Action, next_: str | None = None, *, undo_data: Json = None, **updates: Json) -> list[str]:
        self.acts += 1
        return self.give(
            Resolve(
                act=self.acts,
                by="ann",
                incident=self.incident.id,
                action=action,
                note="looked it up",
                updates=document(updates),
                next=next_,
                undo_data=undo_data,
            )
        )

    # What a child does

    def call_child(self, run_id: str = CHILD_ID) -> list[str]:
        """Starts the child that is due."""
        action = self.due(CallChild)
        return self.give(ChildCalled(branch=action.branch, key=action.key, run_id=run_id))

    def child_ends(
        self,
        status: WorkflowStatus,
        *,
        key: str = f"{RUN_ID}:ship",
        run_id: str = CHILD_ID,
        ending: int = 1,
        left: bool = False,
        **result: Json,
    ) -> list[str]:
        """A child has told of its end."""
        self.acts += 1
        failure = None if status is WorkflowStatus.COMPLETED else "no"
        return self.give(
            ChildEnd(
                act=self.acts,
                key=key,
                run_id=run_id,
                ending=ending,
                status=status,
                failure=failure,
                result=document(result),
                left=left,
            )
        )

    def stop_child(self) -> StopChild:
        """Tells the child that is due to stop."""
        action = self.due(StopChild)
        self.give(ChildStopped(branch=action.branch, run_id=action.run_id))
        return action

    def undo_child(self, *, undone: bool = False, refused: str | None = None) -> list[str]:
        """Tells the child that is due to undo."""
        return self.give(ChildUndoing(run_id=self.due(UndoChild).run_id, undone=undone, refused=refused))

    def undo_for_parent(self) -> list[str]:
        self.acts += 1
        return self.give(ParentUndo(act=self.acts, by="run:above", reason="its parent is being undone"))

    def tell_parent(self) -> list[str]:
        action = next(one for one in work(self.state, self.now) if isinstance(one, TellParent))
        return self.give(Told(ending=action.ending))

    def _to_next_call(self) -> None:
        self.now = max(self.now, wake_at(self.state) or 0)
