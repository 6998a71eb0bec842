"""Acts in the inbox: their text, and what follows when a driver takes them (semantics §11)."""

from __future__ import annotations

from typing import get_args

import pytest

from bext_workflow.core.inbox import read_act, take, write_act
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
from bext_workflow.model.event import ActIgnored, Event, StopRequested
from bext_workflow.model.status import Action, Call, WorkflowStatus
from bext_workflow.ports.store import InboxRow
from tests.unit.core.support import NOON, Saga, charge, document, done, plan, step

ACTS: list[ActInput] = [
    Cancel(act=3, by="ann", reason="ordered twice"),
    Cancel(act=3, by="ann", reason="", compensate=False, now=True),
    Reopen(act=3, by="ann", reason="mended"),
    Reopen(act=3, by="ann", reason="mended", step="pay", new_visit=True),
    Resolve(act=3, by="ann", incident="i-1", action=Action.NOT_DONE, note="looked it up"),
    Resolve(
        act=3,
        by="ann",
        incident="i-1",
        action=Action.DONE,
        note="ä",
        updates=document({"n": 1.0, "deep": [None, {"x": -0.0}]}),
        next="ship",
        undo_data={"id": 2**63 - 1},
    ),
    Late(act=3, call=Call.UNDO, step="pay", visit=2, attempt=4, evidence={"returned": "ok"}),
    Signalled(act=3, by="ann", at=NOON, name="go"),
    Signalled(act=3, by="ann", at=NOON, name="go", payload={"deep": [None, {"ä": -0.0}]}, id="s-1"),
    Answered(act=3, by="ann", at=NOON, key="r-1:ask", payload={"n": 1.0}),
    Answered(act=3, by="ann", at=NOON, key="r-1:ask", approved=False, comment="too dear"),
    ChildEnd(act=3, key="r-1:ship", run_id="r-2", ending=1, status=WorkflowStatus.COMPLETED, result=document({"n": 1})),
    ChildEnd(act=3, key="r-1:ship", run_id="r-2", ending=2, status=WorkflowStatus.FAILED, failure="no", left=True),
    ParentUndo(act=3, by="ann", reason="undone"),
    Pause(act=3, by="ann", reason="have a look"),
    Resume(act=3, by="ann", reason="looked"),
]


def row(act: ActInput, n: int = 3) -> InboxRow:
    kind, data = write_act(act)
    return InboxRow(n=n, at=NOON, kind=kind, by="" if isinstance(act, Late | ChildEnd) else act.by, data=data)


def test_every_act_stands_above() -> None:
    """So that a new one cannot be forgotten."""
    assert {type(act) for act in ACTS} == set(get_args(ActInput))


@pytest.mark.parametrize("act", ACTS)
def test_an_act_reads_back_as_it_was_written(act: ActInput) -> None:
    """P18, P9, P26: what was asked for is what the driver carries out; number, name and time stand beside the text."""
    assert read_act(row(act)) == act


def test_an_act_of_a_later_version_is_not_guessed_at() -> None:
    """A driver that does not know an act must not pass it over."""
    with pytest.raises(ValueError, match="unknown kind 'teleport'"):
        read_act(InboxRow(n=1, at=NOON, kind="teleport", by="ann", data=b"{}"))


def taken(saga: Saga, *rows: InboxRow) -> list[Event]:
    decision = take(saga.state, rows, now=NOON)
    assert decision.state.inbox == max((r.n for r in rows), default=saga.state.inbox)
    assert decision.state.seq == saga.state.seq + len(decision.events)
    return decision.events


def test_acts_are_taken_in_order_and_once() -> None:
    """§11: those that the state has seen are left out; each moves the inbox number."""
    saga = Saga(plan(step("a"), step("b"))).run(done())
    first = Cancel(act=1, by="ann", reason="")
    hurry = Cancel(act=2, by="bob", reason="", now=True)
    assert [type(event) for event in taken(saga, row(first, 1), row(hurry, 2))] == [StopRequested, StopRequested]
    saga.cancel()
    assert taken(saga, row(first, 1)) == []
    assert [type(event) for event in taken(saga, row(first, 1), row(hurry, 2))] == [StopRequested]


def test_an_act_that_lost_its_point_is_noted_and_the_next_one_counts() -> None:
    """P18: nothing that was acknowledged vanishes; the journal says why it made no difference."""
    saga = Saga(plan(charge()))
    answer = Resolve(act=1, by="ann", incident="gone", action=Action.DONE, note="")
    ignored, stop = taken(saga, row(answer, 1), row(Cancel(act=2, by="ann", reason=""), 2))
    assert isinstance(ignored, ActIgnored)
    assert (ignored.act, ignored.kind, ignored.reason) == (1, "resolve", "incident gone is not open")
    assert isinstance(stop, StopRequested)


def test_an_act_on_an_ended_run_is_noted_too() -> None:
    """P9, P18: it changes no status."""
    saga = Saga(plan(step("a"))).run(done())
    (event,) = taken(saga, row(Cancel(act=1, by="ann", reason=""), 1))
    assert isinstance(event, ActIgnored)
    assert "COMPLETED" in event.reason
    assert saga.status() is WorkflowStatus.COMPLETED
