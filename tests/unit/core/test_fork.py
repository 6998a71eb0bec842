"""Forks (semantics §7): what branches see, where they go, under which keys, and how a run with branches ends."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bext_workflow.core.input import Continued, Lost
from bext_workflow.core.work import Execute, work
from bext_workflow.model.event import JoinOpened, RunCompleted, StepCompleted, StepFailed, WaitEnded, WaitOpened
from bext_workflow.model.fork import Fork
from bext_workflow.model.json import Json
from bext_workflow.model.status import Action, Call, WorkflowStatus
from tests.unit.core.parallel_support import Branches, chooses, fork, to
from tests.unit.core.support import AGAIN, asks, charge, done, naps, parked, plan, step, tries

SHOP = (fork("start", "pick", "bill", at="pack"), to("pick", "pack"), to("bill", "pack"), step("pack"))


def forked(**updates: Json) -> Branches:
    """A run whose first step has forked."""
    run = Branches(plan(*SHOP), context={"order": 7})
    run.does("start", done(**updates))
    return run


def test_a_declared_fork_begins_every_branch() -> None:
    """§7: `next` names several."""
    run = forked()
    assert run.standing == ["pick", "bill"]
    assert run.callable == ["pick", "bill"]
    assert run.last(StepCompleted).fork == Fork(into=("pick", "bill"))
    assert run.status() is WorkflowStatus.RUNNING


@pytest.mark.parametrize(
    ("chosen", "standing"),
    [
        (("pick", "bill"), ["pick", "bill"]),
        (("bill", "pick"), ["bill", "pick"]),
        (("bill",), ["bill"]),
    ],
)
def test_an_outcome_may_choose_its_branches(chosen: tuple[str, ...], standing: list[str]) -> None:
    """§7: a dynamic fork too, in the order that the outcome names them. One name is no fork."""
    run = Branches(plan(*SHOP))
    run.does("start", chooses(*chosen))
    assert run.standing == standing
    run.all_do(*standing)
    assert run.standing == ["pack"]
    run.does("pack")
    assert run.status() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize(
    ("chosen", "fault"),
    [
        (("pick", "pick"), "may not fork into ['pick', 'pick']"),
        (("pick", "end"), "may not fork into ['pick', 'end']"),
        ((), "may not fork into []"),
        (("pick", "nowhere"), "may not go to 'nowhere'"),
    ],
)
def test_a_fork_that_may_not_be_chosen_fails_the_step(chosen: tuple[str, ...], fault: str) -> None:
    """§3, §7: a permanent failure, of which nothing is visible."""
    run = Branches(plan(*SHOP))
    run.does("start", Continued(next=chosen))
    assert run.status() is WorkflowStatus.COMPENSATED
    assert run.last(StepFailed).reason.startswith(f"step 'start' {fault}")


def test_a_branch_sees_the_fork_and_its_own_updates() -> None:
    """§7: not those of its siblings, before the join."""
    run = forked(stock=3)
    assert dict(run.shown("pick").context) == {"order": 7, "stock": 3}
    run.does("pick", done(picked=1))
    run.does("bill", done(billed=2))
    assert dict(run.shown("pack").context) == {"order": 7, "stock": 3, "picked": 1, "billed": 2}


def test_a_later_step_of_a_branch_sees_what_the_branch_has_set() -> None:
    steps = (fork("a", "b", "x", at="z"), to("b", "c"), to("c", "z"), to("x", "z"), step("z"))
    run = Branches(plan(*steps))
    run.does("a")
    run.does("b", done(key="of b"))
    run.does("x", done(other="of x"))
    assert dict(run.shown("c").context) == {"key": "of b"}
    run.does("c", done(key="of c"))
    assert run.context == {"key": "of c", "other": "of x"}


def test_two_branches_at_one_step_have_keys_of_their_own() -> None:
    """§6: `visit` counts the entries over the whole run, whatever branch they are of."""
    steps = (fork("a", "b", "c", at="z"), to("b", "tell"), to("c", "tell"), to("tell", "z"), step("z"))
    run = Branches(plan(*steps))
    run.does("a")
    run.does("b")
    run.does("c")
    calls = [action for action in work(run.state, run.now) if isinstance(action, Execute)]
    assert [(call.visit, call.key) for call in calls] == [(1, "r-1:tell"), (2, "r-1:tell#2")]


def test_without_a_join_the_run_ends_when_all_its_branches_have() -> None:
    """§7: a branch that ends counts as arrived; what they have set is in the run's context."""
    run = Branches(plan(fork("a", "b", "c"), to("b", "end"), to("c", "d"), to("d", "end")))
    run.does("a")
    run.does("b", done(b=1))
    run.does("c")
    assert run.status() is WorkflowStatus.RUNNING
    assert run.does("d", done(d=2)) == ["step_completed", "join_opened", "run_completed"]
    assert run.context == {"b": 1, "d": 2}
    assert not run.state.branches


def test_a_branch_that_ends_counts_as_arrived() -> None:
    """§7: in a fork with a join."""
    run = Branches(plan(fork("a", "b", "c", at="z"), to("b", "end"), to("c", "z"), step("z")))
    run.does("a")
    run.does("b")
    run.does("c")
    assert run.standing == ["z"]


def test_forks_within_forks_meet_by_group() -> None:
    """§7: joins are by fork group: the last live branch of all decides nothing."""
    steps = (
        fork("a", "b", "x", at="z"),
        fork("b", "c", "d", at="y"),
        to("c", "y"),
        to("d", "y"),
        to("y", "z"),
        to("x", "z"),
        step("z"),
    )
    run = Branches(plan(*steps))
    run.does("a")
    run.does("x")
    run.does("b", done(b=1))
    run.does("d", done(d=1))
    assert run.standing == ["c"]
    run.does("c", done(c=1))
    assert run.standing == ["y"]
    assert dict(run.shown("y").context) == {"b": 1, "c": 1, "d": 1}
    run.does("y")
    run.does("z")
    assert [event.next for event in run.all(JoinOpened)] == ["y", "z"]
    assert run.context == {"b": 1, "c": 1, "d": 1}


def test_an_inner_fork_may_meet_where_the_outer_one_does() -> None:
    """Both joins open in one decision."""
    steps = (fork("a", "b", "x", at="z"), fork("b", "c", "d", at="z"), to("c", "z"), to("d", "z"), to("x", "z"))
    run = Branches(plan(*steps, step("z")))
    run.does("a")
    run.does("x")
    run.does("b")
    run.does("c")
    assert run.does("d") == ["step_completed", "join_opened", "join_opened"]
    assert run.standing == ["z"]


def test_a_loop_within_a_branch() -> None:
    """Each visit has a key of its own, and `max_visits` bounds it as anywhere."""
    steps = (fork("a", "b", "c", at="z"), to("b", "z", branches=("b",), max_visits=2), to("c", "z"), step("z"))
    run = Branches(plan(*steps))
    run.does("a")
    run.does("b", done("b"))
    assert run.due_at("b").key == "r-1:b#2"
    run.does("b", done("b"))
    assert "max_visits = 2" in run.last(StepFailed).reason
    assert run.settles() == ["c"]
    assert run.undoes() == ["b", "b", "a"]


def test_the_first_visits_of_branches_count_against_max_visits() -> None:
    """A loop around a fork: a branch's step may be bounded more tightly than the step that forks."""
    steps = (fork("a", "b", "c", at="z"), to("b", "z"), to("c", "z", max_visits=1), step("z", branches=("a",)))
    run = Branches(plan(*steps))
    run.does("a")
    run.all_do("b", "c")
    run.does("z", done("a"))
    assert run.does("a")[:2] == ["step_completed", "step_failed"]
    assert run.settles() == ["b"]
    assert run.undoes() == ["a", "z", "c", "b", "a"]


def test_a_loop_around_a_fork_forks_again() -> None:
    """Each fork has its own group, each visit its own key."""
    run = Branches(plan(*SHOP[:-1], step("pack", branches=("start",))))
    run.does("start")
    run.all_do("pick", "bill")
    run.does("pack", done("start"))
    run.does("start")
    assert run.due_at("bill").key == "r-1:bill#2"
    run.all_do("bill", "pick")
    run.does("pack", done("end"))
    assert run.status() is WorkflowStatus.COMPLETED
    assert len({event.group for event in run.all(JoinOpened)}) == 2


def test_a_wait_forks_when_it_is_over() -> None:
    """§3: then `next` as for Continue."""
    run = Branches(plan(*SHOP))
    run.does("start", parked("go"))
    assert run.status() is WorkflowStatus.WAITING
    run.signal(payload="yes")
    assert run.last(WaitEnded).fork == Fork(into=("pick", "bill"))
    assert dict(run.shown("bill").context) == {"go": "yes"}


def test_branches_may_wait_and_sleep() -> None:
    """§4: RUNNING while one has work, else WAITING; each goes on by itself."""
    ask, nap = replace(asks("ask"), next="z"), naps("nap", 500, next="z")
    run = Branches(plan(fork("a", "ask", "nap", "work", at="z"), ask, nap, to("work", "z"), step("z")))
    run.does("a")
    run.opens("ask")
    run.opens("nap")
    assert run.status() is WorkflowStatus.RUNNING
    run.does("work")
    assert run.status() is WorkflowStatus.WAITING
    run.wait(500).fire()
    run.signal(payload=1)
    assert run.standing == ["z"]
    assert run.context == {"go": 1}


def test_a_retry_wait_of_a_branch_leaves_the_others_alone() -> None:
    """§3: its attempts and its time are its own."""
    steps = (SHOP[0], to("pick", "pack", retries=tries(3, backoff_ms=400)), *SHOP[2:])
    run = Branches(plan(*steps))
    run.does("start")
    run.does("pick", AGAIN)
    assert run.callable == ["bill"]
    run.does("bill")
    run.wait(400)
    assert (run.due_at("pick").attempt, run.due_at("pick").intend) == (2, True)


def test_in_doubt_holds_its_branch_and_no_other() -> None:
    """§7: the others run to the join. §4: RUNNING as long as one has work."""
    run = Branches(plan(SHOP[0], charge("pick", next="pack"), *SHOP[2:]))
    run.does("start")
    run.does("pick", Lost(reason="gone"))
    assert run.status() is WorkflowStatus.RUNNING
    run.does("bill")
    assert run.status() is WorkflowStatus.SUSPENDED
    run.answers("pick", Action.DONE, picked=1)
    assert run.standing == ["pack"]
    assert run.context == {"picked": 1}


def test_a_run_with_branches_that_a_host_dies_over_goes_on_with_each() -> None:
    """§6: what may be repeated is due again under its key, the rest is in doubt; what waited waits on."""
    steps = (
        fork("a", "b", "c", "d", "e", at="z"),
        to("b", "z"),
        charge("c", next="z"),
        to("d", "z", retries=tries(2, backoff_ms=900)),
        replace(asks("e"), next="z"),
        step("z"),
    )
    run = Branches(plan(*steps))
    run.does("a")
    run.does("d", AGAIN)
    run.opens("e")
    run.starts("b", "c").crash()
    assert run.due_at("b").attempt == 1
    assert [incident.step for incident in run.state.incidents] == ["c"]
    assert run.callable == ["b"]
    assert run.at("e").wait == run.last(WaitOpened).wait
    run.wait(900)
    assert run.due_at("d").attempt == 2


def test_every_branch_that_must_not_be_repeated_is_asked_about() -> None:
    """§6: two of them in one crash are two incidents, also where `verify_step` may be what kills the hosts."""
    steps = (fork("a", "b", "c", at="z"), charge("b", next="z"), charge("c", next="z"), step("z"))
    run = Branches(plan(*steps, verifies=True))
    run.does("a")
    run.starts("b", "c").crash(times=4)
    assert sorted(incident.step for incident in run.state.incidents) == ["b", "c"]


def test_the_run_is_over_only_once() -> None:
    run = forked()
    run.all_do("pick", "bill", "pack")
    assert len(run.all(RunCompleted)) == 1
    assert run.pending == ["pack", "bill", "pick", "start"]


def test_poison_names_a_branch_that_was_at_work() -> None:
    """§6: not the step at which the line forked."""
    run = forked()
    for _ in range(10):
        run.crash()
        if not run.state.incidents:
            run.starts(*run.callable)
    assert (run.incident.step, run.incident.call) == ("pick", Call.STEP)
