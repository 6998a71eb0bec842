"""The orders of the acceptance tests, what must come of each, and whether it did.

Every judgement is made from outside: from the calls that the plugin noted, the ledger on the disk, and the journal.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import EventView
from bext_workflow_pg.books import Books
from bext_workflow_pg.opening import open_ledger_for_reading
from tests.acceptance.life import Answer, Life, Told
from tests.checkout import CONFIG

ORDER: JsonObject = {
    "order_id": "o-1",
    "sku": "widget",
    "quantity": 2,
    "payment_method": "pm_ok",
    "email": "ada@example.com",
}

CHARGE_KEY = ":charge_card"
IN_FORCE = ("reserve", "charge", "send")


class Saga(NamedTuple):
    """An order and what comes of it. `effects` stand in the ledger in this order; so do those `after_charge`.

    `after_charge` is what follows if the card has been charged, whoever says so.
    """

    name: str
    changes: JsonObject
    status: WorkflowStatus
    effects: tuple[str, ...]
    after_charge: tuple[str, ...]

    @property
    def order(self) -> JsonObject:
        return {**ORDER, **self.changes}


ROLLED_BACK = ("refund", "release")
SUCCESS = Saga("success", {}, WorkflowStatus.COMPLETED, ("reserve", "charge", "send"), ("send",))
DECLINED = Saga(
    "declined", {"payment_method": "pm_declined"}, WorkflowStatus.COMPENSATED, ("reserve", "release"), ("send",)
)
BOUNCED = Saga(
    "bounced",
    {"email": "bounce@example.com"},
    WorkflowStatus.COMPENSATED,
    ("reserve", "charge", *ROLLED_BACK),
    ROLLED_BACK,
)
JAMMED = Saga(
    "jammed",
    {"sku": "jammed", "email": "bounce@example.com"},
    WorkflowStatus.COMPENSATED,
    ("reserve", "charge", *ROLLED_BACK),
    ROLLED_BACK,
)
SAGAS = (SUCCESS, DECLINED, BOUNCED, JAMMED)

RETRY_THE_UNDO = {IncidentKind.COMPENSATION_FAILED: Answer(action=Action.RETRY)}


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the plugin. `key` is the idempotency key without the run's id."""

    life: int
    key: str
    attempt: int
    status: WorkflowStatus


class Trial(NamedTuple):
    """A folder with a config, in which some lives are lived over one order."""

    folder: Path
    saga: Saga

    def life(self, number: int, **more: object) -> Life:
        """The `number`-th life over this order; an operator is there who retries the undo that fails."""
        life = Life(folder=str(self.folder), number=number, order=self.saga.order, answers=RETRY_THE_UNDO)
        return msgspec.structs.replace(life, **more)

    def copy(self, name: str) -> Trial:
        """Another trial that goes on from here."""
        folder = self.folder.with_name(f"{self.folder.name}-{name}")
        shutil.copytree(self.folder, folder)
        return Trial(folder, self.saga)

    def calls(self) -> list[Call]:
        noted = self.folder / "calls.jsonl"
        lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
        return [msgspec.json.decode(line, type=Call) for line in lines]

    def books(self) -> Books:
        return asyncio.run(_books(str(self.folder / "ledger.db")))

    def effects(self) -> tuple[str, ...]:
        return tuple(str(entry.kind) for entry in self.books().entries)


async def _books(location: str) -> Books:
    ledger = await open_ledger_for_reading(location)
    try:
        return await ledger.books()
    finally:
        await ledger.close()


def begin(folder: Path, name: str, saga: Saga) -> Trial:
    """A new folder in `folder` for one order."""
    place = folder / f"{saga.name}-{name}"
    place.mkdir()
    (place / "bext.config.toml").write_text(CONFIG, encoding="utf-8")
    return Trial(place, saga)


class Model(NamedTuple):
    """An order that was driven without a kill: its calls, its story, its points, what its context holds at the end."""

    calls: list[Call]
    story: list[str]
    points: list[str]
    context: set[str]

    def window(self) -> list[str]:
        """The points between the durable intent of the charge and the commit of its result."""
        first = self.points.index("after commit of attempt_started #1")
        last = next(n for n, point in enumerate(self.points) if n > first and point.startswith("before commit"))
        return self.points[first : last + 1]


def model_of(trial: Trial, told: Told) -> Model:
    return Model(trial.calls(), story(told.journal), told.points, set(told.run.context or ()))


def story(journal: Sequence[EventView]) -> list[str]:
    """What the journal tells, without ids, times, the deaths of hosts, and when the plugin heard of an end."""
    return [_told(event) for event in journal if event.kind not in ("recovered", "completion_settled")]


def _told(event: EventView) -> str:
    details = [str(event.data[name]) for name in ("step", "attempt", "kind", "action") if name in event.data]
    return " ".join([event.kind, *details])


def faults(trial: Trial, model: Model, lives: Sequence[Told], kills: int) -> Iterator[str]:
    """Why this trial, which has ended after some kills, is not what the text says. `lives`: those that were not killed.

    The run ends as without a kill, and its journal tells the same story (P16). The ledger holds each effect once, an
    undo after what it undoes, and it balances.
    """
    run = lives[-1].run
    if run.status is not trial.saga.status or run.holds:
        yield f"the run ended {run.status} with {run.holds}"
    if (told := story(lives[-1].journal)) != model.story:
        yield f"the journal tells {told}"
    if (context := set(run.context or ())) != model.context:
        yield f"the context holds {context}"
    yield from ledger_faults(trial, trial.saga.effects)
    yield from call_faults(trial, model, kills)
    yield from charge_faults(trial, lives[-1].journal)
    for life in lives:
        yield from repeated(trial, life)


def ledger_faults(trial: Trial, effects: tuple[str, ...], *, balanced: bool = True) -> Iterator[str]:
    """The ledger holds these effects in this order, and it adds up, or does not if it cannot."""
    if trial.effects() != effects:
        yield f"the ledger holds {trial.effects()}"
    if bool(found := trial.books().faults()) is balanced:
        yield f"the ledger's balance: {found or 'it adds up'}"


def call_faults(trial: Trial, model: Model, kills: int) -> Iterator[str]:
    """At most one call more a kill, with the same key and the same attempt number (P3, P11)."""
    wanted = Counter((call.key, call.attempt) for call in model.calls)
    found = Counter((call.key, call.attempt) for call in trial.calls())
    if not found.keys() <= wanted.keys():
        yield f"there were calls of {sorted(found.keys() - wanted.keys())}"
    if (found - wanted).total() > kills:
        yield f"more than {kills} calls were repeated: {dict(found - wanted)}"


def charge_faults(trial: Trial, journal: Sequence[EventView]) -> Iterator[str]:
    """The card is never charged twice before a person says that it was not (P4)."""
    charges = [call.key for call in trial.calls()].count(CHARGE_KEY)
    allowed = 1 + story(journal).count("incident_resolved in_doubt not_done")
    if charges > allowed:
        yield f"the card was charged {charges} times, and {allowed} were allowed"


def in_doubt_faults(trial: Trial, model: Model, told: Told) -> Iterator[str]:
    """Why a run whose host died while its card was charged does not stand still and ask a person (P4)."""
    if told.run.status is not WorkflowStatus.SUSPENDED or not told.run.holds:
        yield f"the run is {told.run.status}, held by {told.run.holds}"
    until_charge = model.story[: model.story.index("attempt_started charge_card 1") + 1]
    lost = ["attempt_lost charge_card 1", "incident_opened charge_card 1 in_doubt"]
    if story(told.journal) != [*until_charge, *lost]:
        yield f"the journal tells {story(told.journal)}"
    yield from charge_faults(trial, told.journal)
    yield from repeated(trial, told)


def repeated(trial: Trial, life: Told) -> Iterator[str]:
    """Calls whose end was durable when the life began, and that were made again (P1, P11)."""
    settled = set(map(_settled_key, life.found))
    for call in trial.calls():
        if call.life >= life.number and call.key in settled:
            yield f"life {call.life} called {call.key} again"


def early(trial: Trial, heir: Told) -> Iterator[str]:
    """Calls of the first life that were made before the end of the call before them was durable (P2).

    `heir`: the life after it, which found what was durable.
    """
    made = [call.key for call in trial.calls() if call.life < heir.number]
    ended = [event for event in heir.found if _ends_a_call(event)]
    if len(made) > len(ended) + 1:
        yield f"calls {made} were made, but only {len(ended)} ends were durable"


def _ends_a_call(event: EventView) -> bool:
    failed_undo = event.kind == "incident_opened" and event.data["kind"] == IncidentKind.COMPENSATION_FAILED
    return failed_undo or _settled_key(event) is not None


def _settled_key(event: EventView) -> str | None:
    """The key of the call whose end this event is, if it must never be made again."""
    match event.kind:
        case "step_completed" | "step_failed":
            return f":{event.data['step']}"
        case "step_compensated":
            return f":{event.data['step']}:compensate"
        case "completion_settled":
            return f":complete#{event.data['ending']}"
        case _:
            return None
