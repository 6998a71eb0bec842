"""Branches that fail, stop and are taken up again (semantics §5, "Several branches failing"; §7)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bext_workflow.core.input import Cancel, Expired, Failed, Lost, Settled, TimerDue
from bext_workflow.core.work import Expire, Fire, wakes_after, work
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    AttemptStarted,
    BranchSettled,
    CompensationStarted,
    IncidentResolved,
    JoinOpened,
    RunCancelled,
    StepFailed,
    StopRequested,
    WaitEnded,
)
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from tests.unit.core.parallel_support import Branches, fork, maps, to
from tests.unit.core.support import (
    AGAIN,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    asks,
    charge,
    done,
    naps,
    parked,
    plan,
    step,
    tries,
)


def three(**fields: object) -> Branches:
    """A run that has forked into b, c and d, which meet before z; `fields` are those of c."""
    steps = (fork("a", "b", "c", "d", at="z"), to("b", "z"), replace(to("c", "z"), **fields), to("d", "z"), step("z"))
    run = Branches(plan(*steps))
    run.does("a")
    return run


class TestOrder:
    """P10: the exact reverse of the order in which the checkpoints committed, over all branches."""

    @pytest.mark.parametrize("order", ["bcd", "cbd", "dcb", "bdc"])
    def test_of_completion_whatever_the_fork_named(self, order: str) -> None:
        run = three().starts("b", "c", "d")
        for name in order:
            run.ends(name)
        run.does("z", NO)
        assert run.undoes() == [*reversed(order), "a"]
        assert run.status() is WorkflowStatus.COMPENSATED

    def test_interleaved_lines(self) -> None:
        """Several steps a branch, and visits of a loop among them."""
        steps = (
            fork("a", "b", "c", at="z"),
            to("b", "b2", branches=("b",)),
            to("b2", "z"),
            to("c", "c2"),
            to("c2", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("b", done("b", n=1))
        run.does("c")
        run.does("b", done(n=2))
        run.does("c2")
        run.does("b2")
        run.does("z", NO)
        assert run.undo_next() == "b2"
        assert run.undo_next() == "c2"
        assert dict(run.shown_to_undo().context) == {"n": 2}
        assert run.undo_next() == "b"
        assert run.undo_next() == "c"
        shown = run.shown_to_undo()
        assert (shown.visit, dict(shown.context)) == (1, {"n": 1}), "the visit's own updates, not the latest"

    def test_one_at_a_time(self) -> None:
        run = three()
        run.all_do("b", "c", "d")
        run.does("z", NO)
        assert len(work(run.state, run.now)) == 1

    def test_an_undo_sees_its_branch_as_it_was_last(self) -> None:
        """Not its siblings, also long after the join; the line before the fork sees what was merged."""
        steps = (fork("a", "b", "c", at="z"), to("b", "b2"), to("b2", "z"), to("c", "z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a", done(a=1))
        run.does("c", done(c=1))
        run.does("b", done(b=1))
        run.does("b2", done(b2=1))
        run.does("z", NO)
        run.undo_next()
        assert dict(run.shown_to_undo().context) == {"a": 1, "b": 1, "b2": 1}
        run.undo_next()
        assert dict(run.shown_to_undo().context) == {"a": 1, "c": 1}
        run.undo_next()
        assert dict(run.shown_to_undo().context) == {"a": 1, "b": 1, "b2": 1, "c": 1}

    def test_an_undo_before_the_join_sees_its_branch_too(self) -> None:
        run = three()
        run.does("b", done(b=1))
        run.starts("d")
        run.does("c", NO)
        run.ends("d", done(d=1))
        assert dict(run.shown_to_undo().context) == {"d": 1}
        run.undo_next()
        assert dict(run.shown_to_undo().context) == {"b": 1}


class TestSiblings:
    """A failing branch stops its siblings: §5, Stop."""

    def test_attempts_that_run_go_on_and_count(self) -> None:
        """Continue: completed, so undone. The stop is durable first; nothing new starts after it."""
        run = three().starts("b", "c")
        assert run.ends("c", NO) == ["step_failed", "stop_requested"]
        assert run.callable == []
        assert run.status() is WorkflowStatus.RUNNING
        run.ends("b", done(b=1))
        assert run.settles() == ["d"]
        assert run.undoes() == ["b", "a"]
        assert run.state.failure == "declined"

    def test_what_completes_under_the_stop_goes_nowhere(self) -> None:
        """Not to the next step, not apart, not into a wait; the join does not open."""
        steps = (
            fork("a", "b", "c", "d", "e", at="z"),
            to("b", "b2"),
            to("b2", "z"),
            fork("c", "b2", "z2", at="z"),
            to("z2", "z"),
            to("d", "z"),
            to("e", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("b", "c", "d", "e")
        run.ends("e", NO)
        run.ends("b")
        run.ends("c")
        run.ends("d", parked("go"))
        assert run.undoes() == ["d", "c", "b", "a"]
        assert not run.all(JoinOpened)

    @pytest.mark.parametrize(("end", "own"), [(AGAIN, False), (NO_AND_LEAVE, False), (RAISED, True)])
    def test_attempts_that_did_not_do_it(self, end: Failed, own: bool) -> None:
        """Retry, Fail: not completed. An unknown end: `compensate_on_failure`, and that undo comes first (P12)."""
        run = three(compensate_on_failure=True).starts("b", "c", "d")
        run.ends("d")
        run.ends("b", NO)
        run.ends("c", end)
        assert run.undoes() == (["c", "d", "a"] if own else ["d", "a"])

    def test_several_own_undos(self) -> None:
        """Those of the failed branch and of a stopped one: both before what has completed."""
        steps = (
            fork("a", "b", "c", "d", at="z"),
            *(to(name, "z", compensate_on_failure=True) for name in "bcd"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("b", "c", "d")
        run.ends("b", RAISED)
        run.ends("d")
        run.ends("c", RAISED)
        assert run.undoes() == ["c", "b", "d", "a"]

    def test_retry_waits_and_waits_end_at_once(self) -> None:
        """§5; the signal that comes then is refused (P29)."""
        steps = (
            fork("a", "b", "c", "d", "e", at="z"),
            to("b", "z"),
            to("c", "z", retries=tries(3, backoff_ms=60_000)),
            replace(asks("d"), next="z"),
            naps("e", 60_000, next="z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c", AGAIN)
        run.opens("d")
        run.opens("e")
        run.does("b", NO)
        with pytest.raises(Conflict, match="being undone or stopped"):
            run.signal()
        assert run.settles() == ["c", "d", "e"]
        assert [event.how for event in run.all(WaitEnded)] == [WaitEnd.STOP, WaitEnd.STOP]
        assert run.last(BranchSettled).attempt == 1
        assert run.undoes() == ["a"]
        assert run.now == NOON

    def test_a_sibling_in_doubt_holds_the_walk_back(self) -> None:
        """§5: compensation starts when no in-doubt is open. What settles then is no question of the status (§4)."""
        steps = (fork("a", "b", "c", "d", at="z"), to("b", "z"), charge("c", next="z"), replace(asks("d"), next="z"))
        run = Branches(plan(*steps, step("z")))
        run.does("a")
        run.does("c", Lost(reason="gone"))
        run.opens("d")
        run.does("b", NO)
        assert run.status() is WorkflowStatus.SUSPENDED
        assert run.settles() == ["d"]
        assert not run.all(CompensationStarted)
        run.answers("c", Action.DONE)
        assert run.undoes() == ["c", "a"]

    def test_whether_to_try_a_sibling_again_is_no_question_any_more(self) -> None:
        """An incident `exhausted` of another branch is resolved by the stop."""
        run = three(retries=tries(1, OnExhausted.INCIDENT))
        run.does("c", AGAIN)
        assert run.incident.kind is IncidentKind.EXHAUSTED
        run.does("b", NO)
        assert not run.state.incidents
        assert run.last(IncidentResolved).note == "the run was stopped"
        assert run.settles() == ["c", "d"]
        assert run.undoes() == ["a"]

    def test_the_last_branch_to_fail_needs_no_stop(self) -> None:
        run = three()
        run.all_do("b", "d")
        assert run.does("c", NO) == ["step_failed", "compensation_started"]

    def test_a_branch_within_an_inner_fork_stops_all(self) -> None:
        steps = (
            fork("a", "b", "x", at="z"),
            fork("b", "c", "d", at="z"),
            to("c", "z"),
            to("d", "z"),
            to("x", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("x")
        run.does("b")
        run.does("d", NO)
        assert run.settles() == ["c"], "x runs still"
        run.ends("x")
        assert run.undoes() == ["x", "b", "a"]

    def test_a_settling_of_what_is_over_is_refused(self) -> None:
        run = three()
        run.all_do("b", "c", "d")
        run.does("z", NO)
        with pytest.raises(Conflict):
            run.give(Settled(branch=0))


class TestSeveralFail:
    """§5: any `compensate: true` wins."""

    @pytest.mark.parametrize(
        ("first", "second", "status"),
        [
            (NO_AND_LEAVE, NO_AND_LEAVE, WorkflowStatus.FAILED),
            (NO_AND_LEAVE, NO, WorkflowStatus.COMPENSATED),
            (NO, NO_AND_LEAVE, WorkflowStatus.COMPENSATED),
            (NO, NO, WorkflowStatus.COMPENSATED),
            (NO_AND_LEAVE, RAISED, WorkflowStatus.COMPENSATED),
        ],
    )
    def test_any_that_wants_the_undo_has_it(self, first: Failed, second: Failed, status: WorkflowStatus) -> None:
        run = three().starts("b", "c", "d")
        run.ends("b", first)
        run.ends("d")
        run.ends("c", second)
        run.undoes()
        assert run.status() is status
        assert run.left == (("a", "d") if status is WorkflowStatus.FAILED else ())

    def test_the_first_reason_is_kept(self) -> None:
        """P14, whichever of them wants the undo."""
        run = three().starts("b", "c")
        run.ends("b", NO_AND_LEAVE)
        run.ends("c", NO)
        run.settles()
        assert run.state.failure == "unknown sku"
        assert run.last(CompensationStarted).reason == "unknown sku"

    def test_a_cancel_without_undo_is_not_overruled(self) -> None:
        """A person's word: `--no-compensate`."""
        run = three().starts("b", "c")
        run.cancel(compensate=False)
        run.ends("b", NO)
        run.ends("c")
        run.settles()
        assert (run.status(), run.left) == (WorkflowStatus.CANCELLED, ("a", "c"))


class TestRetry:
    """`retry` of a FAILED run takes up every stopped and failed branch, and the join still opens."""

    def failed(self) -> Branches:
        steps = (
            fork("a", "b", "c", "d", "e", at="z"),
            to("b", "z", retries=tries(3, backoff_ms=1000)),
            to("c", "z"),
            to("d", "d2"),
            to("d2", "z"),
            replace(asks("e", timeout_ms=5_000), next="z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("b", AGAIN)
        run.opens("e")
        run.starts("c", "d")
        run.ends("c", NO_AND_LEAVE)
        run.ends("d", done(d=1))
        assert run.settles() == ["b", "e"]
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "d"))
        run.wait(60_000)
        return run

    def test_each_goes_on_where_it_stood(self) -> None:
        """The same visits and keys; attempt numbers go on, and none is passed over (P20); a wait has its time again."""
        run = self.failed()
        run.reopen()
        assert sorted(run.callable) == ["b", "c", "d2"]
        assert {name: (run.due_at(name).attempt, run.due_at(name).key) for name in run.callable} == {
            "b": (2, "r-1:b"),
            "c": (2, "r-1:c"),
            "d2": (1, "r-1:d2"),
        }
        wait = run.at("e").wait
        assert wait is not None
        assert wait.due_at == run.now + 5_000
        run.all_do("b", "c", "d2")
        run.signal(payload=1)
        assert run.standing == ["z"]
        assert run.context["d"] == 1

    def test_a_new_visit_is_for_what_failed(self) -> None:
        """`--new-visit`: the stopped had not failed, and go on under their keys."""
        run = self.failed()
        run.reopen(new_visit=True)
        assert {name: run.due_at(name).key for name in run.callable} == {
            "b": "r-1:b",
            "c": "r-1:c#2",
            "d2": "r-1:d2",
        }

    def test_signals_that_have_come_wait_for_the_waits_that_begin_again(self) -> None:
        run = self.failed()
        run.reopen()
        run.signal(payload=1)
        assert "e" not in run.standing

    def test_from_a_step_the_whole_run_jumps(self) -> None:
        """`--from`: one line again, all that was done stays listed and is undone if it comes to that."""
        run = self.failed()
        run.reopen("z")
        assert run.standing == ["z"]
        run.does("z", NO)
        assert run.undoes() == ["d", "a"]

    @pytest.mark.parametrize("new_visit", [False, True])
    def test_the_own_undo_of_a_visit_that_goes_on_is_for_its_end_to_say(self, new_visit: bool) -> None:
        """P11: c was stopped and goes on in its visit; it completes in the end, and is undone once."""
        steps = (
            fork("a", "b", "c", at="z"),
            *(to(name, "z", compensate_on_failure=True, retries=tries(1)) for name in "bc"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("b", "c")
        run.ends("b", NO_AND_LEAVE)
        run.ends("c", replace(RAISED, transient=True))
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "c"))
        run.reopen(new_visit=new_visit)
        run.all_do("b", "c")
        run.does("z", NO)
        assert run.undoes() == ["c", "b", "a"]

    def test_a_join_that_was_complete_under_the_stop_opens(self) -> None:
        """Its branches have arrived while a sibling of theirs failed."""
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
        run.does("b")
        run.starts("c", "d", "x")
        run.ends("x", NO_AND_LEAVE)
        run.ends("c")
        run.ends("d")
        run.reopen()
        assert sorted(run.callable) == ["x", "y"]

    def test_a_crash_changes_nothing_of_it(self) -> None:
        run = self.failed()
        run.crash()
        run.reopen()
        assert sorted(run.callable) == ["b", "c", "d2"]


class TestCancel:
    """Stop, over several branches (semantics §5)."""

    def test_all_branches_settle_and_everything_is_undone(self) -> None:
        run = three().starts("b", "c")
        run.cancel()
        run.ends("b")
        run.ends("c", AGAIN)
        assert run.settles() == ["d"]
        assert run.undoes() == ["b", "a"]
        assert run.status() is WorkflowStatus.COMPENSATED

    def test_without_undo(self) -> None:
        run = three().starts("b")
        run.cancel(compensate=False)
        run.settles()
        run.ends("b")
        assert (run.status(), run.left) == (WorkflowStatus.CANCELLED, ("a", "b"))
        assert len(run.all(RunCancelled)) == 1

    def test_while_a_failing_branch_stops_the_others_it_is_a_cancel(self) -> None:
        """P18: an accepted cancel ends CANCELLED or COMPENSATED; the first reason stays."""
        run = three().starts("b", "c")
        run.ends("b", NO_AND_LEAVE)
        run.cancel(compensate=False, now=True)
        stop = run.last(StopRequested)
        assert (stop.kind, stop.now, stop.reason) == (StopKind.CANCEL, True, "unknown sku")
        run.ends("c", Lost(reason="interrupted"))
        run.settles()
        assert (run.status(), run.left) == (WorkflowStatus.CANCELLED, ("a",))

    def test_otherwise_than_the_stop_it_is_refused(self) -> None:
        run = three().starts("b", "c")
        run.ends("b", NO)
        with pytest.raises(Conflict, match="already being stopped, with its undo"):
            run.cancel(compensate=False)

    def test_a_crash_under_the_stop(self) -> None:
        """P16, and P12: what may have been running settles, and its own undo runs where its step says so."""
        run = three(compensate_on_failure=True).starts("b", "c")
        run.cancel()
        run.crash()
        assert run.settles() == ["b", "c", "d"]
        assert run.undoes() == ["c", "a"]


class TestTimeOut:
    def test_stops_every_branch(self) -> None:
        steps = (fork("a", "b", "c", at="z"), to("b", "z"), replace(asks("c"), next="z"), step("z"))
        run = Branches(plan(*steps, timeout_ms=1_000))
        run.does("a")
        run.opens("c")
        run.starts("b")
        run.wait(1_000).expire()
        run.ends("b")
        assert run.settles() == ["c"]
        assert run.undoes() == ["b", "a"]

    def pivoted(self) -> Branches:
        """Past a pivot, two branches wait."""
        steps = (
            fork("a", "b", "c", at="z", pivot=True),
            to("b", "z", retries=tries(3, backoff_ms=60_000)),
            replace(asks("c"), next="z"),
            step("z"),
        )
        run = Branches(plan(*steps, timeout_ms=1_000))
        run.does("a")
        run.does("b", AGAIN)
        run.opens("c")
        run.wait(1_000).expire()
        return run

    def test_past_a_pivot_a_person_is_asked_about_each_branch(self) -> None:
        """Not about the line that has forked."""
        run = self.pivoted()
        assert [incident.step for incident in run.state.incidents] == ["b", "c"]
        assert run.status() is WorkflowStatus.SUSPENDED
        run.answers("b", Action.RETRY)
        assert run.due_at("b").attempt == 2
        run.does("b", done(b=1))
        run.answers("c", Action.DONE, c=1)
        assert run.standing == ["z"]
        assert run.context == {"b": 1, "c": 1}

    def test_closing_one_closes_all(self) -> None:
        """FAILED, with everything in place; the others settle first."""
        run = self.pivoted()
        run.answers("c", Action.CLOSE)
        assert run.settles() == ["b"]
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a",))
        run.reopen()
        assert run.due_at("b").attempt == 2
        assert run.standing == ["b", "c"]

    def test_closing_one_while_another_runs(self) -> None:
        """Its result counts, and nothing is undone: not even by a failure that asks for it."""
        run = self.pivoted()
        run.answers("b", Action.RETRY)
        run.starts("b")
        run.answers("c", Action.CLOSE)
        assert run.status() is WorkflowStatus.RUNNING
        run.ends("b", NO)
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a",))

    def test_it_is_the_core_that_says_when(self) -> None:
        run = three()
        assert not [action for action in work(run.state, run.now) if isinstance(action, Expire)]
        with pytest.raises(Conflict):
            Branches(plan(step("a")), begun=False).give(Expired())


def test_a_pivot_that_forks_under_a_stop_leaves_each_branch_to_a_person() -> None:
    """§5: it came too late, and nothing compensates any more."""
    steps = (fork("a", "b", "c", at="z", pivot=True), to("b", "z"), to("c", "z"), step("z"))
    run = Branches(plan(*steps))
    run.starts("a")
    run.cancel()
    run.ends("a")
    assert [(incident.kind, incident.step) for incident in run.state.incidents] == [
        (IncidentKind.STUCK_AFTER_PIVOT, "b"),
        (IncidentKind.STUCK_AFTER_PIVOT, "c"),
    ]
    assert run.idle()
    run.answers("b", Action.RETRY)
    run.does("b")
    run.answers("c", Action.RETRY)
    run.does("c")
    assert run.standing == ["z"]


class TestPause:
    def test_holds_every_branch(self) -> None:
        """§4: attempts that run go on and count; nothing new starts, no wait ends by its time."""
        steps = (fork("a", "b", "c", "d", at="z"), to("b", "z"), to("c", "z"), naps("d", 100, next="z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.opens("d")
        run.starts("b")
        run.pause()
        assert run.status() is WorkflowStatus.SUSPENDED
        run.ends("b", done(b=1))
        assert run.wait(1_000).idle()
        run.resume()
        assert run.callable == ["c"]
        run.does("c")
        run.fire()
        assert run.standing == ["z"]

    def test_holds_what_a_failing_branch_leads_to(self) -> None:
        """A person's hold outlasts the host's stop; the others settle when it is lifted."""
        run = three().starts("b")
        run.pause()
        run.ends("b", NO)
        assert run.status() is WorkflowStatus.SUSPENDED
        assert run.idle()
        run.resume()
        assert run.settles() == ["c", "d"]
        assert run.undoes() == ["a"]

    def test_holds_the_undo_of_losers(self) -> None:
        steps = (fork("a", "b", "c", at="z", need="any"), to("b", "z"), to("c", "c2"), to("c2", "z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c")
        run.starts("b")
        run.pause()
        run.ends("b")
        assert run.idle()
        run.resume()
        run.settles()
        assert run.undoes() == ["c"]


class TestTimes:
    """What wakes a run whose branches wait for different times (semantics §8)."""

    def test_the_next_time_is_the_earliest_of_all_branches(self) -> None:
        steps = (
            fork("a", "b", "c", "d", at="z"),
            to("b", "z", retries=tries(3, backoff_ms=700)),
            naps("c", 300, next="z"),
            to("d", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("b", AGAIN)
        run.opens("c")
        assert wakes_after(run.state, run.now) == NOON + 300, "whatever runs or is due meanwhile"
        run.wait(300)
        run.fires("c")
        assert wakes_after(run.state, run.now) == NOON + 700

    def test_two_timers_at_one_time_fire_once_each(self) -> None:
        """P21."""
        steps = (fork("a", "b", "c", at="z"), naps("b", 300, next="z"), naps("c", 300, next="z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.opens("b")
        run.opens("c")
        run.wait(300)
        assert len(work(run.state, run.now)) == 2
        for action in work(run.state, run.now):
            assert isinstance(action, Fire)
            run.give(TimerDue(branch=action.branch))
        assert run.standing == ["z"]
        assert len(run.all(WaitEnded)) == 2


def test_items_and_branches_stop_alike() -> None:
    """A map within a fork, beside a step that must not be repeated: one stop for all of them."""
    steps = (
        fork("a", "m", "pay", at="z"),
        maps("m", "items", "ship", "y", most=2),
        to("ship", "y"),
        to("y", "z"),
        charge("pay", next="z"),
        step("z"),
    )
    run = Branches(plan(*steps), context={"items": [1, 2, 3]})
    run.does("a")
    run.does("m")
    run.starts("ship[0]", "pay")
    assert run.last(AttemptStarted).step == "pay"
    run.ends("ship[0]", NO)
    assert run.settles() == ["ship[1]"]
    run.ends("pay", done(paid=1))
    assert run.undoes() == ["pay", "m", "a"]
    assert len(run.all(StepFailed)) == 1


def test_an_act_at_the_door_is_judged_by_the_same_rules() -> None:
    """P18: a cancel that has lost to the compensation is told so."""
    run = three()
    run.all_do("b", "d")
    run.does("c", NO)
    with pytest.raises(Conflict, match="COMPENSATING"):
        run.give(Cancel(act=1, by="ann", reason=""))
