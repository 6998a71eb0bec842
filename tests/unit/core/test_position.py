"""Where a run can be forked, and as what (semantics §13)."""

from __future__ import annotations

import pytest

from bext_workflow.core.position import Journal, standing_at, standing_before
from bext_workflow.errors import Conflict
from bext_workflow.model.fork import JoinDefinition
from bext_workflow.model.journal import decode
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, Saga, asks, done, parked, plan, step


def journal_of(saga: Saga) -> Journal:
    return [(decode(kind, text), at) for kind, text, at in saga.journal]


def seq_of(saga: Saga, kind: str) -> int:
    return saga.kinds.index(kind) + 1


def ended() -> Saga:
    """It has looped once, tried again, and failed at its last step."""
    steps = step("a"), step("b", branches=("a",), next="c"), step("c")
    saga = Saga(plan(*steps)).run(done(n=1), done("a", n=2), done(n=3), done(n=4), AGAIN, NO_AND_LEAVE)
    assert saga.status() == "FAILED"
    return saga


@pytest.mark.parametrize(
    ("seq", "at", "context"),
    [(1, "a", {}), (2, "b", {"n": 1}), (3, "a", {"n": 2}), (5, "c", {"n": 4}), (6, "c", {"n": 4}), (7, "c", {"n": 4})],
)
def test_any_moment_of_a_line_will_do(seq: int, at: str, context: dict[str, int]) -> None:
    """Before an attempt, after a failed one, and where it failed for good."""
    saga = ended()
    state = standing_at(saga.state.plan, journal_of(saga), seq)
    assert (state.branches[0].step, state.context.to_dict(), state.seq) == (at, context, seq)


def test_from_a_step_is_its_last_visit() -> None:
    saga = ended()
    state = standing_before(saga.state.plan, journal_of(saga), "a")
    assert (state.seq, state.context.to_dict()) == (3, {"n": 2})


def test_a_wait_of_the_hosts_own_is_waited_anew() -> None:
    saga = Saga(plan(asks(), step("b")))
    saga.open()
    saga.cancel()
    saga.settle()
    assert standing_at(saga.state.plan, journal_of(saga), seq_of(saga, "wait_opened")).branches[0].step == "ask"


def undone() -> tuple[Saga, int]:
    saga = Saga(plan(step("a"), step("b"))).run(done(), NO).undo(None)
    return saga, seq_of(saga, "compensation_started")


def over() -> tuple[Saga, int]:
    saga = Saga(plan(step("a"))).run(done())
    return saga, len(saga.journal)


def apart() -> tuple[Saga, int]:
    fork = step("a", next=("b", "c"), join=JoinDefinition(at="d"))
    saga = Saga(plan(fork, step("b", next="d"), step("c", next="d"), step("d"))).run(done())
    return saga, len(saga.journal)


def parked_after_a_step() -> tuple[Saga, int]:
    saga = Saga(plan(step("a"), step("b"))).run(parked("go"))
    saga.signal("go")
    return saga, seq_of(saga, "step_completed")


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (undone, "it walks back there"),
        (over, "it has come to its end there"),
        (apart, "it has several branches there"),
        (parked_after_a_step, "step 'a' is done there, and waits before it goes on"),
    ],
)
def test_where_no_run_can_begin(case: object, why: str) -> None:
    assert callable(case)
    saga, seq = case()
    with pytest.raises(Conflict, match=why) as refused:
        standing_at(saga.state.plan, journal_of(saga), seq)
    assert "it can at" in refused.value.mend


@pytest.mark.parametrize("seq", [0, -1, 99])
def test_no_such_event(seq: int) -> None:
    saga = ended()
    with pytest.raises(Conflict, match=f"has no event {seq}"):
        standing_at(saga.state.plan, journal_of(saga), seq)


@pytest.mark.parametrize(("name", "why"), [("x", "has no step 'x'"), ("c", "never stood there alone")])
def test_no_such_step(name: str, why: str) -> None:
    saga = Saga(plan(step("a"), step("b"), step("c"))).run(NO)
    with pytest.raises(Conflict, match=why):
        standing_before(saga.state.plan, journal_of(saga), name)
