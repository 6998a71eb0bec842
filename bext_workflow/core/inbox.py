"""Acts in the inbox: their text form, and what follows when a driver takes them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bext_workflow.core.decide import Decision, decide
from bext_workflow.core.evolve import evolve
from bext_workflow.core.input import (
    ActInput,
    Answered,
    Cancel,
    ChildEnd,
    Late,
    ParentUndo,
    Pause,
    Reopen,
    Resolve,
    Resume,
    Signalled,
)
from bext_workflow.core.state import State
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, Event
from bext_workflow.model.journal import read_document
from bext_workflow.model.json import Document, JsonObject, dumps, loads
from bext_workflow.ports.store import InboxRow

KINDS: dict[type[ActInput], str] = {
    Cancel: "cancel",
    Reopen: "retry",
    Resolve: "resolve",
    Late: "late",
    Signalled: "signal",
    Answered: "answer",
    ChildEnd: "child",
    ParentUndo: "undo",
    Pause: "pause",
    Resume: "resume",
}
"""The inbox's `kind` of each act."""

_FORMS = {kind: form for form, kind in KINDS.items()}
_BESIDE = ("act", "by", "at")
"""What stands in columns of its own."""


def write_act(act: ActInput) -> tuple[str, bytes]:
    """The (kind, data) of an act; its number, who it is by and its instant stand beside them."""
    fields = {name: value for name, value in msgspec.structs.asdict(act).items() if name not in _BESIDE}
    data: JsonObject = {name: value.value if isinstance(value, Document) else value for name, value in fields.items()}
    return KINDS[type(act)], dumps(data)


def read_act(row: InboxRow) -> ActInput:
    """The act of an inbox row. Raises `ValueError` for a kind that this version does not know."""
    if row.kind not in _FORMS:
        raise ValueError(f"the inbox holds an act of an unknown kind {row.kind!r}")
    form = _FORMS[row.kind]
    beside = {"act": row.n, "by": row.by, "at": row.at}
    fields: JsonObject = {name: value for name, value in beside.items() if name in form.__struct_fields__}
    return msgspec.convert(fields | loads(row.data), form, dec_hook=read_document)


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
