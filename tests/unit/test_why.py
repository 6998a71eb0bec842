"""`why`: a table of states, and the sentences and consequences that a person at 3 a.m. gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from bext_workflow.core.inbox import write_act
from bext_workflow.core.input import Beaten, Begun, Cancel, Finished
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.journal import decode
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.view import WhyView
from bext_workflow.ports.store import InboxRow
from bext_workflow.service.engine import Serving
from bext_workflow.service.sight import Sight
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

AT = "2027-01-15T08:00:00.000Z"
"""Noon of the simulated runs."""

SERVED: list[Serving] = [("checkout", 1, "d")]


def told(
    saga: Saga, *, driven: bool = True, served: list[Serving] | None = SERVED, inbox: tuple[InboxRow, ...] = ()
) -> WhyView:
    journal = [(decode(kind, text), at) for kind, text, at in saga.journal]
    return why(Sight(state=saga.state, journal=journal, driven=driven, now=saga.now), inbox=inbox, served=served)


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


def _has_failed_in_a_branch() -> Saga:
    fork = step("a", next=("b", "c"), join=JoinDefinition(at="d"))
    saga = Saga(plan(fork, step("b", next="d"), step("c", next="d"), step("d"))).run(done())
    saga.give(Finished(branch=1, end=NO_AND_LEAVE))
    saga.settle()
    return saga


def _has_been_closed() -> Saga:
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO)
    saga.answer(Action.CLOSE)
    return saga


def _is_poisonous() -> Saga:
    saga = Saga(plan(step("a")))
    for _ in range(10):
        saga.call_step()
        saga.crash()
    return saga


def _is_to_stop() -> Saga:
    saga = Saga(plan(step("a"), charge())).run(done())
    saga.call_step()
    saga.cancel()
    return saga


CASES: dict[str, tuple[Callable[[], Saga], list[str], list[str]]] = {
    "waits for a signal": (
        _waits_for_a_signal,
        [f"Step ask waits for the signal go since {AT}, at most until 2027-01-15T08:00:00.500Z."],
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
    "runs": (
        lambda: Saga(plan(step("a"))),
        [f"Step a runs, or is about to, since {AT} (attempt 1), and has 60000 ms."],
        [],
    ),
    "beats": (
        _beats,
        [
            f"since {AT} (attempt 1), and has 60000 ms, or 500 ms from its last heartbeat on.",
            f'It said {{"copied":7}} at {AT}.',
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
        [f"ann paused it at {AT}: have a look; nothing new starts."],
        [f"runs resume {RUN_ID} --reason … -> it goes on where it stands"],
    ),
    "is in doubt": (
        lambda: Saga(plan(charge())).run(RAISED),
        [f"A person must decide since {AT}: in doubt at step charge (attempt 1): KeyError: 'order'."],
        [f"--action {action}" for action in ("done", "not_done", "fail", "fail_undo")],
    ),
    "is to stop": (
        _is_to_stop,
        [
            "It is to stop (cancelled by ann: ordered twice): what runs goes on to its end first",
            "then it undoes a.",
            f"Step charge runs since {AT} (attempt 1)",
        ],
        [],
    ),
    "forks": (
        _forks,
        [
            "Step a has forked; 1 of 2 branches have arrived: they meet before d, which needs 2.",
            "Step c runs, or is about to, since",
        ],
        [],
    ),
    "walks back": (
        lambda: Saga(plan(step("a"), step("b"), step("c"))).run(done(), done(), NO),
        [f"It walks back (declined): step b is being undone since {AT} (attempt 1). After it: a."],
        [],
    ),
    "walks back and tries again": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(AGAIN),
        [
            "It walks back (declined): the undo of a failed (503); attempt 2 is at 2027-01-15T08:00:01.000Z",
            "1 of 10 are spent. It is the last one.",
        ],
        ["attempt 2 fails too -> another attempt follows"],
    ),
    "walks back through a child": (_undoes_a_child, ["it waits for its child r-2 to be undone. After it: a."], []),
    "has completed": (lambda: Saga(plan(step("a"))).run(done()), [f"It completed at {AT}."], []),
    "was undone": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(None),
        [f"It was undone as a whole at {AT}: declined."],
        [],
    ),
    "has failed": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO_AND_LEAVE),
        [f"It failed at {AT}: unknown sku. Left in place: a."],
        [
            f"runs cancel {RUN_ID} --reason … -> undoes a",
            f"runs retry {RUN_ID} --reason … -> it is tried again from b",
        ],
    ),
    "has failed in its undo": (
        lambda: Saga(plan(step("a"), step("b"))).run(done(), NO).undo(NO),
        ["It failed", f"A person must decide since {AT}: compensation failed at the undo of step a"],
        ["--action retry", "--action undone", "--action skip", "--action close"],
    ),
    "has not told of its end": (
        lambda: Saga(plan(step("a"), notifies=True)).run(done()).notify("down"),
        ["on_workflow_complete has not been told of COMPLETED yet (attempt 2, at 2027-01-15T08:00:01.000Z)."],
        [],
    ),
    "is bounded as a whole": (
        lambda: Saga(plan(step("a"), timeout_ms=500)),
        ["The whole run has until 2027-01-15T08:00:00.500Z."],
        ["the run's own time is over at 2027-01-15T08:00:00.500Z -> the run stops and compensates"],
    ),
    "is bounded as a whole, past its pivot": (
        lambda: Saga(plan(step("a", pivot=True), step("b"), timeout_ms=500)).run(done()),
        ["The whole run has until"],
        ["the run's own time is over at 2027-01-15T08:00:00.500Z -> a person is asked"],
    ),
    "has failed in a branch": (
        _has_failed_in_a_branch,
        ["It failed", "Left in place: a."],
        [
            f"runs cancel {RUN_ID} --reason … -> undoes a",
            f"runs retry {RUN_ID} --reason … -> it is tried again from b, c",
        ],
    ),
    "has failed and been closed": (
        _has_been_closed,
        ["It failed"],
        [],
    ),
    "is poisonous": (
        _is_poisonous,
        [f"A person must decide since {AT}: poison at step a: 10 hosts in a row"],
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


def test_what_has_not_begun_is_not_told_as_running() -> None:
    text = told(Saga(plan(step("a")), begun=False), driven=False).text
    assert text == f"It was started at {AT} and has not begun. Step a comes first."


def test_what_no_host_holds_is_due_and_does_not_run() -> None:
    text = told(Saga(plan(step("a"))), driven=False).text
    assert text == f"Step a is due since {AT} (attempt 1) and waits for a host to take it up."


def test_an_attempt_whose_host_is_gone_is_told_as_such() -> None:
    saga = Saga(plan(charge()))
    saga.call_step()
    text = told(saga, driven=False).text
    assert text == f"Step charge ran when its host went away (attempt 1, since {AT}); the next host sees to it."


def test_an_undo_that_no_host_holds_is_next_and_does_not_run() -> None:
    text = told(Saga(plan(step("a"), step("b"))).run(done(), NO), driven=False).text
    assert text == "It walks back (declined): step a is next (attempt 1), once a host takes it up. It is the last one."


def test_while_it_is_paused_the_next_attempt_is_not_due() -> None:
    assert told(_is_paused(), driven=False).text.endswith("nothing new starts. Step a is next (attempt 1).")


HOUR_MS = 3_600_000


def _begun_late() -> Saga:
    saga = Saga(plan(step("a")), begun=False)
    saga.now += HOUR_MS
    saga.give(Begun())
    return saga


def _resumed() -> Saga:
    saga = _is_paused()
    saga.now += HOUR_MS
    saga.resume()
    return saga


def _taken_over() -> Saga:
    saga = Saga(plan(step("a")))
    saga.now += HOUR_MS
    return saga.crash()


def _written_down_first() -> Saga:
    saga = Saga(plan(charge("a")))
    saga.now += HOUR_MS
    saga.call_step()
    return saga


def _not_done() -> Saga:
    saga = Saga(plan(charge("a"))).run(RAISED)
    saga.now += HOUR_MS
    saga.answer(Action.NOT_DONE)
    return saga


def _reopened() -> Saga:
    saga = Saga(plan(step("a"))).run(NO_AND_LEAVE)
    saga.now += HOUR_MS
    saga.reopen()
    return saga


def _walks_back() -> Saga:
    return Saga(plan(step("a"), step("b"), step("c"))).run(done(), done())


def _fails_late() -> Saga:
    saga = _walks_back()
    saga.now += HOUR_MS
    return saga.run(NO)


def _undoes_the_next() -> Saga:
    saga = _walks_back().run(NO)
    saga.now += HOUR_MS
    return saga.undo(None)


def _skips_one() -> Saga:
    saga = _walks_back().run(NO).undo(NO)
    saga.now += HOUR_MS
    saga.answer(Action.SKIP)
    return saga


def _undo_is_taken_over() -> Saga:
    saga = _walks_back().run(NO)
    saga.now += HOUR_MS
    return saga.crash()


def _undo_is_tried_again() -> Saga:
    saga = _walks_back().run(NO).undo(NO)
    saga.now += HOUR_MS
    saga.reopen()
    return saga


def _losers_are_undone(after_ms: int = HOUR_MS) -> Saga:
    fork = step("a", next=("b", "c"), join=JoinDefinition(at="z", need="any"))
    rest = (step("b", next="z"), step("c", next="d"), step("d", next="e"), step("e", next="z"), step("z"))
    saga = Saga(plan(fork, *rest)).run(done())
    saga.give(Finished(branch=2, end=done()))
    saga.give(Finished(branch=2, end=done()))
    saga.now += after_ms
    saga.give(Finished(branch=1, end=done()))
    saga.settle()
    return saga


def _losers_undo_goes_on(action: Action) -> Saga:
    saga = _losers_are_undone(after_ms=0).undo(NO)
    saga.now += HOUR_MS
    saga.answer(action)
    return saga


def test_of_the_undo_of_losers_nothing_is_told_that_is_to_come() -> None:
    text = told(_losers_are_undone()).text
    assert "Branches that a join has no need of are undone: step d is being undone since" in text
    assert "last one" not in text


SET_GOING: list[Callable[[], Saga]] = [
    *(_begun_late, _resumed, _taken_over, _written_down_first, _not_done, _reopened),
    _losers_are_undone,
    *(partial(_losers_undo_goes_on, action) for action in (Action.RETRY, Action.SKIP)),
    *(_fails_late, _undoes_the_next, _skips_one, _undo_is_taken_over, _undo_is_tried_again),
]


@pytest.mark.parametrize("build", SET_GOING)
def test_a_call_is_told_since_it_was_set_going(build: Callable[[], Saga]) -> None:
    """Not since the visit began, which may be days ago."""
    assert "since 2027-01-15T09:00:00.000Z" in told(build()).text


def test_nobody_is_there_to_drive_it() -> None:
    assert told(Saga(plan(step("a")), begun=False), driven=False, served=None).text.startswith(
        "No host is there to drive it"
    )


def test_nobody_serves_it() -> None:
    """P36, §10: it says which host it waits for."""
    text = told(Saga(plan(step("a"))), driven=False, served=[("other", 3, "d")]).text
    assert "No live host serves checkout@1: it is left alone until one does. They serve other@3." in text


def test_what_nobody_has_taken_up_is_told() -> None:
    kind, data = write_act(Cancel(act=1, by="ann", reason=""))
    row = InboxRow(n=1, at=NOON, kind=kind, by="ann", data=data)
    text = told(Saga(plan(step("a"))), inbox=(row,)).text
    assert f"ann asked at {AT} for: cancel; no host has taken it up yet." in text


def test_a_run_of_many_branches_tells_of_a_few() -> None:
    names = tuple("bcdefghi")
    fork = step("a", next=names)
    saga = Saga(plan(fork, *(step(name, next="end") for name in names))).run(done())
    text = told(saga).text
    assert text.count("runs, or is about to,") == 4
    assert "There are 9 branches in all." in text


def test_every_answer_of_an_incident_is_told_with_its_meaning() -> None:
    view = told(Saga(plan(charge())).run(RAISED))
    assert view.next[1].then == "it has not happened; call it again"
    assert len(view.next) == len([Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO])
