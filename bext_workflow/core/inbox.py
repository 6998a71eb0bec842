"""Acts in the inbox: their text form, and what follows when a driver takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import evolve
from bext_workflow.core.input import ActInput, Cancel, Late, Pause, Reopen, Resolve, Resume, Signalled
from bext_workflow.core.state import State
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, Event
from bext_workflow.model.json import Document, JsonObject, dumps, loads
from bext_workflow.model.status import Action, Call
from bext_workflow.ports.store import InboxRow


def write_act(act: ActInput) -> tuple[str, bytes]:
    """The (kind, data) of an act; its number and who it is by stand beside them."""
    match act:
        case Cancel():
            return "cancel", dumps({"reason": act.reason, "compensate": act.compensate, "now": act.now})
        case Reopen():
            return "retry", dumps({"reason": act.reason, "step": act.step, "new_visit": act.new_visit})
        case Resolve():
            data: JsonObject = {
                "incident": act.incident,
                "action": act.action,
                "note": act.note,
                "updates": act.updates.value,
                "next": act.next,
                "undo_data": act.undo_data,
            }
            return "resolve", dumps(data)
        case Late():
            data = {
                "call": act.call,
                "place": act.place,
                "step": act.step,
                "visit": act.visit,
                "attempt": act.attempt,
                "evidence": act.evidence,
            }
            return "late", dumps(data)
        case Signalled():
            return "signal", dumps({"name": act.name, "payload": act.payload, "id": act.id})
        case Pause():
            return "pause", dumps({"reason": act.reason})
        case Resume():
            return "resume", dumps({"reason": act.reason})
        case _:
            assert_never(act)


def read_act(row: InboxRow) -> ActInput:
    """The act of an inbox row."""
    data = loads(row.data)
    match row.kind:
        case "cancel":
            return Cancel(act=row.n, by=row.by, **data)
        case "retry":
            return Reopen(act=row.n, by=row.by, **data)
        case "resolve":
            updates = data.pop("updates")
            action = Action(data.pop("action"))
            return Resolve(act=row.n, by=row.by, action=action, updates=Document(dumps(updates), updates), **data)
        case "late":
            return Late(act=row.n, call=Call(data.pop("call")), **data)
        case "signal":
            return Signalled(act=row.n, by=row.by, at=row.at, **data)
        case "pause":
            return Pause(act=row.n, by=row.by, **data)
        case "resume":
            return Resume(act=row.n, by=row.by, **data)
        case _:
            raise ValueError(f"the inbox holds an act of an unknown kind {row.kind!r}")


def take(state: State, rows: Iterable[InboxRow], *, now: int, jitter: float = 0.0) -> Decision:
    """What follows the acts that the state has not seen, in order. One that has lost its point is noted as such."""
    events: list[Event] = []
    for row in rows:
        if row.n <= state.inbox:
            continue
        try:
            decision = decide(state, read_act(row), now=now, jitter=jitter)
        except Conflict as conflict:
            ignored = ActIgnored(act=row.n, kind=row.kind, reason=conflict.message)
            decision = Decision([ignored], evolve(state, ignored, now))
        events += decision.events
        state = decision.state
    return Decision(events, state)
