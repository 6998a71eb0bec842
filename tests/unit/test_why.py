"""`why`: a table of states, and the sentences and consequences that a person at 3 a.m. gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bext_workflow.core.inbox import write_act
from bext_workflow.core.input import Beaten, Cancel, Finished
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.journal import decode
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.view import WhyView
from bext_workflow.ports.store import InboxRow
from bext_workflow.service.engine import Serving
from bext_workflow.service.why import why
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    RUN_ID,
    Saga,
    approves,
    asks,
    calls,
    charge,
    done,
    naps,
    parked,
    plan,
    step,
    tries,
)

SERVED: list[Serving] = [("checkout", 1, "d")]


def told(saga: Saga, *, served: list[Serving] | None = SERVED, inbox: tuple[InboxRow, ...] = ()) -> WhyView:
    journal = [(decode(kind, text), at) for kind, text, at in saga.journal]
    return why(saga.state, journal, inbox=inbox, served=served, now=saga.now)


def _waits_for_a_signal() -> Saga:
    saga = Saga(plan(asks(timeout_ms=500, on_timeout="late"), step("b", next="end"), step("late")))
    saga.open()
    return saga.wait(5)


def _waits_for_a_decision() -> Saga:
    saga = Saga(plan(approves(), step("b")))
    saga.open()
    return saga


def _beats() -> Saga:
    saga = Saga(plan(step("a", heartbeat_ms=500)))
    for copied in (6, 7):
        saga.give(Beaten(branch=0, step="a", visit=1, detail={"copied": copied}))
    return saga


def _sleeps() -> Saga:
    saga = Saga(plan(naps(), step("b")))
    saga.open()
    return saga


def _has_a_child() -> Saga:
    saga = Saga(plan(calls()))
    saga.call_child()
    return saga


def _undoes_a_child() -> Saga:
    saga = _has_a_child_and_more()
    saga.undo_child()
    return saga


def _has_a_child_and_more() -> Saga:
    saga = Saga(plan(step("a"), calls(), step("b"))).run(done())
    saga.call_child()
    saga.child_ends(WorkflowStatus.COMPLETED)
    return saga.run(NO)


def _is_paused() -> Saga:
    saga = Saga(plan(step("a")))
    saga.pause()
    return saga


def _forks() -> Saga:
    fork = step("a", next=("b", "c"), join=JoinDefinition(at="d"))
    saga = Saga(plan(fork, step("b", next="d"), step("c", next="d"), step("d"))).run(done())
    saga.give(Finished(branch=1, end=done()))
    return saga


def _is_poisonous() -> Saga:
    saga = Saga(plan(step("a")))
    for _ in range(10):
        saga.call_step()
        saga.crash()
    return saga


def _is_to_stop() -> Saga:
    saga = Saga(plan(charge()))
    saga.call_step()
    saga.cancel()
    return saga


CASES: dict[str, tuple[Callable[[], Saga], list[str], list[str]]] = {
    "waits for a signal": (
        _waits_for_a_signal,
        ["Step ask waits for the signal go since 2027-01-15T08:00:00.000Z, at most until 2027-01-15T08:00:00.500Z."],
        [
            f"runs signal {RUN_ID} go -> it goes on at b",
            "the time is over at 2027-01-15T08:00:00.500Z -> it goes on at late",
        ],
    ),
    "waits in an outcome, for a signal that compensates when it is late": (
        lambda: Saga(plan(step("a"))).run(parked("paid", for_ms=9)),
        ["Step a waits for the signal paid"],
        [
            f"runs signal {RUN_ID} paid -> the run ends",
            "the time is over at 2027-01-15T08:00:00.009Z -> the run compensates",
        ],
    ),
    "waits for a decision": (
        _waits_for_a_decision,
        ["Step ask waits for a decision since"],
        [f"approvals approve {RUN_ID}:ask -> it goes on at b", f"approvals reject {RUN_ID}:ask -> the run compensates"],
    ),
    "sleeps": (
        _sleeps,
        ["Step nap waits for its time"],
        ["the time is over at 2027-01-15T08:00:00.500Z -> it goes on at b"],
    ),
    "has a child": (_has_a_child, ["Step ship waits for the end of its child r-2"], []),
    "runs": (lambda: Saga(plan(step("a"))), ["Step a is running or about to (attempt 1), and has 60000 ms."], []),
    "beats": (
        _beats,
        [
            "Step a is running or about to (attempt 1), and has 60000 ms, or 500 ms from its last heartbeat on.",
            'It said {"copied":7} at 2027-01-15T08:00:00.000Z.',
        ],
        [],
    ),
    "retries": (
        lambda: Saga(plan(step("a"))).run(AGAIN),
        ["Step a failed (503); attempt 2 is at 2027-01-15T08:00:01.000Z, 1 of 3 are spent."],
        ["attempt 2 fails too -> another attempt follows"],
    ),
    "retries for the last time": (
        lambda: Saga(plan(step("a", retries=tries(2)))).run(AGAIN),
        ["1 of 2 are spent"],
        ["attempt 2 fails too -> the run compensates"],
    ),
    "is paused": (
        _is_paused,
        ["ann paused it at 2027-01-15T08:00:00.000Z: have a look; nothing new starts."],
        ["runs resume -> it goes on where it stands"],
    ),
    "is in doubt": (
        lambda: Saga(plan(charge())).run(RAISED),
        ["A person must decide: in doubt at step charge (attempt 1): KeyError: 'order'."],
        [f"--action {action}" for action in ("done", "not_done", "fail", "fail_undo")],
    ),
    "is to stop": (_is_to_stop, ["It is to stop (cancelled by ann: ordered twice)", "Step charge is running"], []),
    "forks": (
        _forks,
        ["Step a has forked; 1 of 2 branches have arrived: they meet before d, which needs 2.", "Step c is running"],
        [],
    ),
    "walks back": (
        lambda: Saga(plan(step("a"), step("b"), step("c"))).run(done(), done(), NO),
        ["It walks back (declined): step b is being undone (attempt 1), then a."],
        [],
    ),
    "walks back and tries again": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(AGAIN),
        ["It walks back (declined): the undo of a failed, attempt 2 is at 2027-01-15T08:00:01.000Z"],
        [],
    ),
    "walks back through a child": (_undoes_a_child, ["it waits for its child r-2 to be undone, then a."], []),
    "has completed": (lambda: Saga(plan(step("a"))).run(done()), ["It completed at 2027-01-15T08:00:00.000Z."], []),
    "was undone": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(None),
        ["It failed and was undone, whole at 2027-01-15T08:00:00.000Z: declined."],
        [],
    ),
    "has failed": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO_AND_LEAVE),
        ["It failed at 2027-01-15T08:00:00.000Z: unknown sku. Left in place: a."],
        ["runs cancel -> undoes a", "runs retry -> step b is tried again"],
    ),
    "has failed in its undo": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO),
        ["It failed", "A person must decide: compensation failed at the undo of step a"],
        ["--action retry", "--action undone", "--action skip", "--action close"],
    ),
    "has not told of its end": (
        lambda: Saga(plan(step("a"), notifies=True)).run(done()).notify("down"),
        ["on_workflow_complete has not been told of COMPLETED yet (attempt 2, at 2027-01-15T08:00:01.000Z)."],
        [],
    ),
    "is poisonous": (
        _is_poisonous,
        ["A person must decide: poison at step a"],
        ["--action retry", "--action cancel"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_state_is_told_with_what_may_follow(case: str) -> None:
    build, sentences, follows = CASES[case]
    view = told(build())
    for sentence in sentences:
        assert sentence in view.text
    given = [f"{one.on} -> {one.then}" for one in view.next]
    assert len(given) == len(follows)
    for one, wanted in zip(given, follows, strict=True):
        assert wanted in one


def test_nobody_is_there_to_drive_it() -> None:
    assert told(Saga(plan(step("a")), begun=False), served=None).text.startswith("No host is there to drive it")


def test_nobody_serves_it() -> None:
    """P36, §10: it says which host it waits for."""
    text = told(Saga(plan(step("a"))), served=[("other", 3, "d")]).text
    assert "No live host serves checkout@1: it is left alone until one does. They serve other@3." in text


def test_what_nobody_has_taken_up_is_told() -> None:
    kind, data = write_act(Cancel(act=1, by="ann", reason=""))
    row = InboxRow(n=1, at=NOON, kind=kind, by="ann", data=data)
    text = told(Saga(plan(step("a"))), inbox=(row,)).text
    assert "ann asked at 2027-01-15T08:00:00.000Z for: cancel; no host has taken it up yet." in text


def test_a_run_of_many_branches_tells_of_a_few() -> None:
    names = tuple("bcdefghi")
    fork = step("a", next=names)
    saga = Saga(plan(fork, *(step(name, next="end") for name in names))).run(done())
    text = told(saga).text
    assert text.count("is running or about to") == 4
    assert "There are 9 branches in all." in text


def test_every_answer_of_an_incident_is_told_with_its_meaning() -> None:
    view = told(Saga(plan(charge())).run(RAISED))
    assert view.next[1].then == "it has not happened; call it again"
    assert len(view.next) == len([Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO])
