"""A trip: a flight, a room and a mail; and the same with one mistake in it, as authors make them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from bext_workflow import (
    NotDone,
    RetryPolicy,
    StepDefinition,
    StepOutcome,
    WorkflowDefinition,
    WorkflowError,
    WorkflowRun,
    hookimpl,
)
from bext_workflow.model.json import JsonObject
from bext_workflow.plugin.rehearsal import EffectLedger, Rehearsal

TRIP = WorkflowDefinition(
    id="trip",
    steps=(
        StepDefinition(name="flight", compensate_on_failure=True),
        StepDefinition(name="room", idempotent=False, retries=RetryPolicy.none(), compensate_on_failure=True),
        StepDefinition(name="mail", compensate_on_failure=True),
    ),
)

GUESTS: JsonObject = {"guests": [{"name": "Ann"}]}


class Trip:
    """Without a mistake."""

    trip = TRIP

    def __init__(self, ledger: EffectLedger) -> None:
        self.ledger = ledger

    @hookimpl
    def name(self) -> str:
        return "trips"

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return [self.trip]

    @hookimpl
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        do: Callable[[WorkflowRun], StepOutcome] = getattr(self, step_name)
        return do(run)

    @hookimpl
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        undo: Callable[[WorkflowRun], None] = getattr(self, f"undo_{step_name}", lambda _: None)
        undo(run)

    @hookimpl
    async def on_workflow_complete(self, run: WorkflowRun) -> None:
        self.ledger.do("report", run.idempotency_key)

    def flight(self, run: WorkflowRun) -> StepOutcome:
        return StepOutcome.Continue({"flight": self.ledger.do("flight", run.idempotency_key)})

    def undo_flight(self, run: WorkflowRun) -> None:
        self.ledger.undo("flight", run.idempotency_key)

    def room(self, run: WorkflowRun) -> StepOutcome:
        if run.context.get("full"):
            return StepOutcome.Fail("the hotel is full", compensate=True)
        return StepOutcome.Continue({"room": self.ledger.do("room", run.idempotency_key)})

    def undo_room(self, run: WorkflowRun) -> None:
        self.ledger.undo("room", run.idempotency_key)

    def mail(self, run: WorkflowRun) -> StepOutcome:
        self.ledger.do("mail", run.idempotency_key)
        return StepOutcome.Continue()


def rehearsing(plugin: type[Trip]) -> Callable[[str], Rehearsal]:
    """What the prover is given for it."""

    def rehearse(_: str) -> Rehearsal:
        ledger = EffectLedger(stays=("mail",))
        return Rehearsal(
            ledger=ledger, plugin=lambda: plugin(ledger), contexts={"order": GUESTS, "full": {**GUESTS, "full": True}}
        )

    return rehearse


class Verified(Trip):
    """Without a mistake, and it looks what has become of an attempt in doubt."""

    @hookimpl
    def verify_step(self, run: WorkflowRun) -> StepOutcome | NotDone:
        booked = [effect.id for effect in self.ledger.effects if effect.key == run.idempotency_key]
        return StepOutcome.Continue({"room": booked[0]}) if booked else NotDone()


class VerifyBlind(Trip):
    """It says without looking that nothing was done, and the next attempt has another key."""

    def room(self, run: WorkflowRun) -> StepOutcome:
        if run.context.get("full"):
            return super().room(run)
        return StepOutcome.Continue({"room": self.ledger.do("room", uuid4().hex)})

    def undo_room(self, run: WorkflowRun) -> None:
        if "room" in run.context:
            self.ledger.undo("room", run.idempotency_key, of=run.context["room"])

    @hookimpl
    def verify_step(self, run: WorkflowRun) -> NotDone:
        return NotDone()


class Bounded(Trip):
    """Without a mistake, and in a hurry: an attempt that hangs is out of time, and its step too."""

    trip = WorkflowDefinition(
        id="trip",
        steps=(
            StepDefinition(name="flight", compensate_on_failure=True, retries=RetryPolicy(max_elapsed_ms=30_000)),
            *TRIP.steps[1:],
        ),
    )


class UndoMissing(Trip):
    def undo_room(self, run: WorkflowRun) -> None:
        pass


class UndoRepeated(Trip):
    """Each refund is a new one for the hotel."""

    def undo_room(self, run: WorkflowRun) -> None:
        self.ledger.undo("room", uuid4().hex, of=run.idempotency_key.removesuffix(":compensate"))


class KeyIgnored(Trip):
    def flight(self, run: WorkflowRun) -> StepOutcome:
        return StepOutcome.Continue({"flight": self.ledger.do("flight", uuid4().hex)})

    def undo_flight(self, run: WorkflowRun) -> None:
        self.ledger.undo("flight", run.idempotency_key, of=run.context.get("flight"))


class ContextMutated(Trip):
    """The change is lost."""

    def flight(self, run: WorkflowRun) -> StepOutcome:
        run.context["guests"][0]["seat"] = "1A"
        return super().flight(run)


class EffectBeforeRaise(Trip):
    """The room is taken, and then it turns out that the guest list is not good."""

    def room(self, run: WorkflowRun) -> StepOutcome:
        self.ledger.do("room", run.idempotency_key)
        if run.context.get("full"):
            raise WorkflowError("too many guests")
        return StepOutcome.Continue()


class EffectUnsaid(Trip):
    """Nobody has said what becomes of an attempt of which nobody knows whether it has acted."""

    trip = WorkflowDefinition(id="trip", steps=tuple(StepDefinition(name=one.name) for one in TRIP.steps))


class UndoReadsWhatIsNotThere(Trip):
    """The id of a flight whose booking was never confirmed."""

    def undo_flight(self, run: WorkflowRun) -> None:
        self.ledger.undo("flight", run.idempotency_key, of=run.context["flight"])


class WrongCompensationKey(Trip):
    def undo_room(self, run: WorkflowRun) -> None:
        self.ledger.undo("room", run.idempotency_key, of=f"{run.run_id}:rooms")


class ReportRepeated(Trip):
    @hookimpl
    async def on_workflow_complete(self, run: WorkflowRun) -> None:
        self.ledger.do("report", uuid4().hex)


class KeptInMemory(Trip):
    """The plugin is another one after a crash."""

    def __init__(self, ledger: EffectLedger) -> None:
        super().__init__(ledger)
        self.booked: dict[str, str] = {}

    def flight(self, run: WorkflowRun) -> StepOutcome:
        self.booked[run.run_id] = run.idempotency_key
        return super().flight(run)

    def undo_flight(self, run: WorkflowRun) -> None:
        if run.run_id in self.booked:
            super().undo_flight(run)


class UndoneTooSoon(Trip):
    """The mail takes the flight back, and the run goes on."""

    def mail(self, run: WorkflowRun) -> StepOutcome:
        self.ledger.undo("flight", f"{run.run_id}:flight:compensate")
        return super().mail(run)


class FirstAttemptOnly(Trip):
    """What comes again is taken for a mistake."""

    def flight(self, run: WorkflowRun) -> StepOutcome:
        if run.attempt > 1:
            return StepOutcome.Fail("booked already", compensate=True)
        return super().flight(run)


class UndoRefusesNothing(Trip):
    """The undo of what was never done fails."""

    def undo_flight(self, run: WorkflowRun) -> None:
        key = run.idempotency_key.removesuffix(":compensate")
        if all(effect.key != key for effect in self.ledger.effects):
            raise WorkflowError("no such booking")
        super().undo_flight(run)
