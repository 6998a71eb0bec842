"""Joins (semantics §7): when they open, what they merge, and what becomes of the branches that come too late."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bext_workflow.core.input import Continued, Failed, Finished, Lost
from bext_workflow.errors import Conflict
from bext_workflow.model.event import (
    BranchSettled,
    CompensationStarted,
    IncidentOpened,
    IncidentResolved,
    JoinDecided,
    JoinOpened,
    LosersUndoStarted,
    RunFailed,
    StepCompleted,
    StopRequested,
    WaitEnded,
)
from bext_workflow.model.fork import Need
from bext_workflow.model.json import Json
from bext_workflow.model.policy import OnExhausted
from bext_workflow.model.status import Action, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from tests.unit.core.parallel_support import Branches, chooses, fork, maps, sets, to
from tests.unit.core.support import AGAIN, NO, NO_AND_LEAVE, RAISED, asks, charge, done, parked, plan, step, tries

DECLINED = Failed(reason="no undo", compensate=True)


def meeting(*, need: Need = "all", last: bool = False) -> Branches:
    """A run that has forked into b, c and d, which meet before z."""
    steps = (fork("a", "b", "c", "d", at="z", need=need, last=last), *(to(name, "z") for name in "bcd"), step("z"))
    run = Branches(plan(*steps))
    run.does("a")
    return run


class TestMerge:
    """P31."""

    @pytest.mark.parametrize("arrivals", ["bcd", "dcb", "cdb"])
    def test_in_the_order_that_the_fork_named(self, arrivals: str) -> None:
        """Whatever the order of arrival: the keys stand in that order too."""
        run = meeting(last=True)
        for name in arrivals:
            run.does(name, sets(**{name: 1, "who": name}))
        assert list(run.context.items()) == [("b", 1), ("who", "d"), ("c", 1), ("d", 1)]

    def test_in_the_order_that_the_outcome_named(self) -> None:
        steps = (fork("a", "b", "c", at="z", last=True), to("b", "z"), to("c", "z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a", chooses("c", "b"))
        run.does("b", done(who="b"))
        run.does("c", done(who="c"))
        assert run.context == {"who": "b"}

    def test_two_values_for_one_key_fail_the_run(self) -> None:
        """Never the last writer: the reason names both branches, and everything is undone."""
        run = meeting()
        run.does("b", done(price=1))
        run.does("c", done(other=1))
        assert run.does("d", done(price=2)) == ["step_completed", "compensation_started"]
        assert run.last(CompensationStarted).reason == (
            "the branches that began at 'b' and 'd' set 'price' to different values: "
            'let them set different keys, or say on_conflict = "last"'
        )
        assert not run.all(JoinOpened)
        assert run.undoes() == ["d", "c", "b", "a"]
        assert run.status() is WorkflowStatus.COMPENSATED

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            (1, 1, True),
            (1, 1.0, False),
            (1, True, False),
            (0, False, False),
            (None, 0, False),
            ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
            ({"a": [1]}, {"a": [True]}, False),
            ([1, 2], [1], False),
        ],
    )
    def test_what_one_value_is(self, one: Json, other: Json, same: bool) -> None:
        """The same JSON, whatever the order of keys; a number is no truth value (P47)."""
        run = meeting()
        run.does("b", done(key=one))
        run.does("c", done(key=other))
        run.does("d")
        assert (run.status() is WorkflowStatus.RUNNING) is same

    def test_what_a_branch_did_not_change_is_no_conflict(self) -> None:
        """What it saw at the fork it has not set; what it set twice counts once."""
        steps = (fork("a", "b", "c", at="z"), to("b", "b2"), to("b2", "z"), to("c", "z"), step("z"))
        run = Branches(plan(*steps), context={"n": 1})
        run.does("a", done(m=1))
        run.does("b", done(n=2))
        run.does("b2", done(n=3))
        run.does("c", done(other=1))
        assert run.context == {"n": 3, "m": 1, "other": 1}

    def test_an_inner_join_is_what_its_line_has_set(self) -> None:
        """A conflict may come from an inner fork, and is one of the outer branches that it belongs to."""
        inner = (fork("b", "d", "e", at="y"), to("d", "y"), to("e", "y"), to("y", "z"))
        run = Branches(plan(fork("a", "b", "c", at="z"), *inner, to("c", "z"), step("z")))
        run.does("a")
        run.does("b")
        run.does("d", done(key=1))
        run.does("e")
        run.does("y")
        run.does("c", done(key=2))
        assert "began at 'b' and 'c' set 'key'" in run.last(CompensationStarted).reason

    def test_a_conflict_of_an_inner_fork_stops_its_siblings_first(self) -> None:
        """§5: compensation starts when every branch has settled."""
        inner = (fork("b", "d", "e", at="y"), to("d", "y"), to("e", "y"), to("y", "z"))
        run = Branches(plan(fork("a", "b", "c", at="z"), *inner, to("c", "z"), step("z")))
        run.does("a")
        run.does("b")
        run.starts("c")
        run.does("d", done(key=1))
        run.does("e", done(key=2))
        assert run.last(StopRequested).kind is StopKind.FAILURE
        run.ends("c")
        assert run.undoes() == ["c", "e", "d", "b", "a"]

    def test_branches_without_a_join_merge_at_the_end(self) -> None:
        """There too a conflict is none that the last writer wins."""
        run = Branches(plan(fork("a", "b", "c"), to("b", "end"), to("c", "end")))
        run.does("a")
        run.does("b", done(key=1))
        run.does("c", done(key=2))
        assert run.undoes() == ["c", "b", "a"]

    def test_past_a_pivot_a_person_says_what_counts(self) -> None:
        """§5: nothing compensates, nothing that has completed runs again (P1); `done` opens the join."""
        steps = (fork("a", "b", "c", at="z", pivot=True), to("b", "z"), to("c", "z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.does("b", done(key=1, b=1))
        run.does("c", done(key=2))
        assert (run.incident.kind, run.incident.actions) == (
            IncidentKind.STUCK_AFTER_PIVOT,
            (Action.DONE, Action.CLOSE),
        )
        assert run.status() is WorkflowStatus.SUSPENDED
        assert run.crash().idle()
        run.answers("a", Action.DONE, key=3)
        assert run.standing == ["z"]
        assert run.context == {"key": 3, "b": 1}

    def test_past_a_pivot_a_person_may_close_what_cannot_be_merged(self) -> None:
        """And a retry of the FAILED run comes to the same question; no step is made twice."""
        steps = (fork("a", "b", "c", at="z", pivot=True), to("b", "z"), to("c", "z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.does("b", done(key=1))
        run.does("c", done(key=2))
        run.answers("a", Action.CLOSE)
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "b", "c"))
        run.reopen()
        assert run.status() is WorkflowStatus.SUSPENDED
        run.answers("a", Action.DONE, key=3)
        assert run.standing == ["z"]


class TestNeed:
    """P30."""

    @pytest.mark.parametrize(("need", "arrivals"), [("any", 1), (1, 1), (2, 2), (3, 3), ("all", 3)])
    def test_the_join_opens_with_the_last_that_it_needs(self, need: Need, arrivals: int) -> None:
        run = meeting(need=need)
        for name in "bcd"[:arrivals]:
            assert not run.all(JoinDecided)
            run.does(name, sets(**{name: 1}))
        assert run.settles() == list("bcd"[arrivals:])
        assert run.standing == ["z"]
        assert run.context == dict.fromkeys("bcd"[:arrivals], 1)
        assert len(run.all(JoinOpened)) == 1

    def test_a_choice_of_fewer_needs_fewer(self) -> None:
        """need = 2 of the two that were chosen is both."""
        run = Branches(plan(fork("a", "b", "c", "d", at="z", need=2), *(to(name, "z") for name in "bcd"), step("z")))
        run.does("a", chooses("d", "c"))
        run.does("d")
        assert not run.all(JoinDecided)
        run.does("c")
        assert run.standing == ["z"]

    def test_what_comes_too_late_is_not_merged(self) -> None:
        """Its attempt runs to its end and counts as completed, and so it is undone; the join then opens once."""
        run = meeting(need="any")
        run.starts("b", "c")
        run.ends("b", done(key="of b"))
        run.ends("c", done(key="of c"))
        assert run.settles() == ["d"]
        assert run.undoes() == ["c"]
        assert run.context == {"key": "of b"}


def race(*, undoes: bool = True, **fields: Json) -> Branches:
    """b has won against c, whose line goes on over c2; c has completed."""
    steps = (
        fork("a", "b", "c", at="z", need="any"),
        to("b", "z"),
        to("c", "c2", **fields),
        to("c2", "z"),
        step("z"),
    )
    run = Branches(plan(*steps, undoes=undoes))
    run.does("a")
    run.does("c", done(c=1, undo_data="of c"))
    return run


def within_a_fork(**fields: Json) -> Branches:
    """A race of b against c and c2, in the line a, beside the line x; `fields` are those of c2."""
    steps = (
        fork("s", "a", "x", at="y"),
        fork("a", "b", "c", at="z", need="any"),
        to("b", "z"),
        to("c", "c2"),
        to("c2", "z", **fields),
        to("z", "y"),
        to("x", "y"),
        step("y"),
    )
    run = Branches(plan(*steps))
    run.does("s")
    return run


class TestLosers:
    """Cancelled and undone before the join opens (semantics §7)."""

    def test_they_are_undone_newest_first_and_then_the_join_opens(self) -> None:
        """P10, P11: of the losers only; the run goes forward all the time."""
        run = race()
        assert run.does("b", done(b=1)) == ["step_completed", "join_decided"]
        assert run.settles() == ["c2"]
        assert run.last(LosersUndoStarted).group == run.last(JoinDecided).group
        assert run.status() is WorkflowStatus.RUNNING
        shown = run.shown_to_undo()
        assert (dict(shown.context), shown.undo_data, shown.status) == ({"c": 1}, "of c", WorkflowStatus.RUNNING)
        assert run.undo_next() == "c"
        assert run.standing == ["z"]
        assert run.context == {"b": 1}
        assert run.pending == ["b", "a"]

    def test_a_running_attempt_of_a_loser_goes_on_to_its_end(self) -> None:
        """§5, stop rules: its result counts, so it is undone; nothing further of it begins."""
        run = race().starts("c2")
        run.does("b")
        assert run.status() is WorkflowStatus.RUNNING
        run.ends("c2", done(c2=1))
        assert run.standing == []
        assert run.undoes() == ["c2", "c"]
        assert run.standing == ["z"]
        assert "c2" not in run.context

    @pytest.mark.parametrize("end", [AGAIN, NO, NO_AND_LEAVE], ids=["Retry", "Fail", "Fail without undo"])
    def test_an_attempt_of_a_loser_that_did_not_do_it_harms_nobody(self, end: Failed) -> None:
        """It has not completed, and the run does not fail for it."""
        run = race().starts("c2")
        run.does("b")
        assert run.ends("c2", end) == ["branch_settled", "losers_undo_started"]
        assert run.undoes() == ["c"]
        assert run.standing == ["z"]

    def test_a_wait_of_a_loser_that_comes_now_is_none(self) -> None:
        """The outcome Wait: the step is done and its branch goes nowhere."""
        run = race().starts("c2")
        run.does("b")
        run.ends("c2", parked("go"))
        assert run.undoes() == ["c2", "c"]
        assert run.standing == ["z"]

    @pytest.mark.parametrize("may_have_acted", [True, False])
    def test_their_own_undo(self, may_have_acted: bool) -> None:
        """P12: `compensate_on_failure`, where an attempt may have acted; it comes first."""
        steps = (
            fork("a", "b", "c", at="z", need="any"),
            to("b", "z"),
            to("c", "c2"),
            to("c2", "z", compensate_on_failure=True),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c")
        run.starts("c2")
        run.does("b")
        run.ends("c2", RAISED if may_have_acted else NO)
        assert run.undoes() == (["c2", "c"] if may_have_acted else ["c"])
        assert run.standing == ["z"]

    def test_their_own_undo_outlasts_a_failure_beside_them(self) -> None:
        """P12: the run is FAILED and taken up again; what the loser may have done is undone before its join opens."""
        run = within_a_fork(compensate_on_failure=True)
        run.starts("x")
        run.all_do("a", "c")
        run.starts("c2", "b")
        run.ends("b")
        run.ends("x", NO_AND_LEAVE)
        run.ends("c2", RAISED)
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("s", "a", "c", "b", "c2"))
        run.reopen()
        assert run.undoes() == ["c2", "c"]
        assert sorted(run.callable) == ["x", "z"]

    def test_a_retry_wait_ends_at_once(self) -> None:
        """Its next attempt has not been made, and never is."""
        steps = (fork("a", "b", "c", at="z", need="any"), to("b", "z"), to("c", "z", retries=tries(3)), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c", AGAIN)
        run.does("b")
        assert run.settles() == ["c"]
        assert run.last(BranchSettled).attempt == 1
        assert run.standing == ["z"]

    def test_a_wait_ends_at_once_and_takes_no_signal(self) -> None:
        """P30: losing waits are cancelled. P26: the signal is for a wait that the run still has."""
        ask = replace(asks("c"), next="z")
        run = Branches(plan(fork("a", "b", "c", at="z", need="any"), to("b", "z"), ask, asks("z", into="word")))
        run.does("a")
        run.opens("c")
        run.does("b")
        run.signal(payload="late for c")
        assert run.settles() == ["c"]
        assert run.last(WaitEnded).how is WaitEnd.STOP
        run.opens("z")
        assert run.context == {"word": "late for c"}

    def test_a_signal_is_taken_while_losers_are_undone(self) -> None:
        """§9: the run goes forward and has not stopped."""
        run = race()
        run.does("b")
        run.settles()
        assert run.signal("anything") == ["signal_received"]

    def test_a_loser_in_doubt_is_asked_about_before_the_join_opens(self) -> None:
        """§5: compensation waits until no in-doubt is open."""
        steps = (fork("a", "b", "c", at="z", need="any"), to("b", "z"), charge("c", next="z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("c")
        run.does("b")
        run.ends("c", Lost(reason="gone"))
        assert run.status() is WorkflowStatus.SUSPENDED
        run.answers("c", Action.DONE, c=1)
        assert run.undoes() == ["c"]
        assert run.context == {}

    @pytest.mark.parametrize(
        ("action", "undone"), [(Action.NOT_DONE, []), (Action.FAIL, []), (Action.FAIL_UNDO, ["c"])]
    )
    def test_the_other_answers_about_a_loser_in_doubt(self, action: Action, undone: list[str]) -> None:
        """`not_done` counts as not completed: it is not called again."""
        steps = (fork("a", "b", "c", at="z", need="any"), to("b", "z"), charge("c", next="z"), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.starts("c")
        run.does("b")
        run.ends("c", Lost(reason="gone"))
        run.answers("c", action)
        assert run.undoes() == undone
        assert run.standing == ["z"]

    def test_whether_to_try_a_loser_again_is_no_question_any_more(self) -> None:
        """An incident `exhausted` is resolved by the decision."""
        policy = tries(1, OnExhausted.INCIDENT)
        steps = (fork("a", "b", "c", at="z", need="any"), to("b", "z"), to("c", "z", retries=policy), step("z"))
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c", AGAIN)
        assert run.incident.kind is IncidentKind.EXHAUSTED
        run.does("b")
        assert not run.state.incidents
        assert run.last(IncidentResolved).by == "host"
        assert run.settles() == ["c"]
        assert run.standing == ["z"]

    def test_nothing_to_undo_opens_the_join_at_once(self) -> None:
        """A plugin without undo, and the host's own waits: they are passed over."""
        run = race(undoes=False)
        run.does("b")
        run.settles()
        assert run.standing == ["z"]
        assert run.pending == ["b", "a"]

    def test_losers_that_have_forked(self) -> None:
        """All that has come of them is undone, in the reverse of its order, and no join of theirs opens."""
        steps = (
            fork("a", "b", "c", at="z", need="any"),
            to("b", "z"),
            fork("c", "d", "e", at="y"),
            to("d", "y"),
            to("e", "y"),
            to("y", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c")
        run.does("d", done(key=1))
        run.starts("e")
        run.does("b")
        run.ends("e", done(key=2))
        assert run.undoes() == ["e", "d", "c"]
        assert [event.next for event in run.all(JoinOpened)] == ["z"]
        assert run.pending == ["b", "a"]

    def test_losers_of_a_race_within_a_loser(self) -> None:
        """The inner undo is under way when the outer join is decided: the rest follows, each once (P11)."""
        steps = (
            fork("a", "b", "c", at="z", need="any"),
            to("b", "z"),
            fork("c", "d", "e", at="z", need="any"),
            to("d", "z"),
            to("e", "e2"),
            to("e2", "z"),
            step("z"),
        )
        run = Branches(plan(*steps))
        run.does("a")
        run.does("c")
        run.does("e")
        run.does("d")
        run.settles()
        assert run.shown_to_undo().step == "e"
        run.does("b")
        assert run.undoes() == ["e", "d", "c"]
        assert [event.next for event in run.all(JoinOpened)] == ["z"]
        assert run.standing == ["z"]

    def test_items_of_a_map_that_have_not_begun_never_do(self) -> None:
        steps = (
            fork("a", "b", "m", at="z", need="any"),
            to("b", "z"),
            maps("m", "items", "ship", "y", most=1),
            to("ship", "y"),
            to("y", "z"),
            step("z"),
        )
        run = Branches(plan(*steps), context={"items": [1, 2, 3]})
        run.does("a")
        run.does("m")
        run.does("ship[0]")
        run.starts("ship[1]")
        run.does("b")
        run.ends("ship[1]")
        assert run.callable == []
        assert run.undoes() == ["ship[1]", "ship[0]", "m"]
        assert run.standing == ["z"]

    def test_undone_losers_are_not_undone_again(self) -> None:
        """P11: when the run later compensates as a whole."""
        run = race()
        run.does("b")
        run.settles()
        run.undoes()
        run.does("z", NO)
        assert run.undoes() == ["b", "a"]

    def test_a_host_dies_while_losers_are_undone(self) -> None:
        """P16: the same undo again, under the same key."""
        run = race()
        run.does("b")
        run.settles()
        run.crash()
        assert run.shown_to_undo().idempotency_key == "r-1:c:compensate"
        assert run.undoes() == ["c"]
        assert run.standing == ["z"]


class TestFailingUndoOfALoser:
    """Suspends the run (semantics §7); the answers are those of the table in semantics §5."""

    def suspended(self) -> Branches:
        run = race()
        run.does("b")
        run.settles()
        run.undo_next(DECLINED)
        assert run.status() is WorkflowStatus.SUSPENDED
        assert (run.incident.kind, run.incident.step) == (IncidentKind.COMPENSATION_FAILED, "c")
        assert run.idle()
        return run

    def test_retry_from_exactly_there(self) -> None:
        run = self.suspended()
        run.answers("c", Action.RETRY)
        assert run.shown_to_undo().attempt == 2
        assert run.undoes() == ["c"]
        assert run.standing == ["z"]

    def test_undone_by_a_person(self) -> None:
        run = self.suspended()
        run.answers("c", Action.UNDONE)
        assert run.standing == ["z"]
        run.does("z")
        assert run.status() is WorkflowStatus.COMPLETED

    def test_skip_goes_on_and_the_run_ends_failed(self) -> None:
        """With it in `left_in_place`; it has come to its end, so there is nothing to retry."""
        run = self.suspended()
        run.answers("c", Action.SKIP)
        run.does("z")
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "b", "z", "c"))
        with pytest.raises(Conflict, match="had come to its end"):
            run.reopen()

    def test_skip_and_a_later_failure(self) -> None:
        """The walk back does not come to it again, and the run is FAILED in the end."""
        run = self.suspended()
        run.answers("c", Action.SKIP)
        run.does("z", NO)
        assert run.undoes() == ["b", "a"]
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("c",))

    def test_close_ends_the_run(self) -> None:
        """FAILED, everything left in place."""
        run = self.suspended()
        assert run.answers("c", Action.CLOSE) == ["incident_resolved", "run_failed"]
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "c", "b"))
        assert run.idle()

    def test_after_close_a_retry_undoes_the_losers_and_opens_the_join(self) -> None:
        """The losers have settled for good: nothing of theirs is called but the undo."""
        run = self.suspended()
        run.answers("c", Action.CLOSE)
        run.reopen()
        assert run.callable == []
        assert run.undoes() == ["c"]
        assert run.standing == ["z"]

    def test_after_close_a_cancel_undoes_everything(self) -> None:
        """P18."""
        run = self.suspended()
        run.answers("c", Action.CLOSE)
        run.cancel()
        assert run.undoes() == ["b", "c", "a"]
        assert run.status() is WorkflowStatus.COMPENSATED

    def test_close_beside_a_branch_that_runs(self) -> None:
        """The others settle first; what completes then is left in place too."""
        run = within_a_fork()
        run.starts("x")
        run.all_do("a", "c", "b")
        run.settles()
        run.undo_next(DECLINED)
        run.answers("c", Action.CLOSE)
        assert run.status() is WorkflowStatus.RUNNING
        run.ends("x")
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("s", "a", "c", "b", "x"))

    def test_while_a_person_is_asked_nothing_new_starts(self) -> None:
        """And what ends meanwhile does not begin the walk back under the open question."""
        run = self.suspended()
        run.cancel()
        assert run.status() is WorkflowStatus.SUSPENDED
        assert run.idle()
        run.answers("c", Action.UNDONE)
        assert run.undoes() == ["b", "a"]
        assert run.status() is WorkflowStatus.COMPENSATED

    def test_what_ends_while_a_person_is_asked_does_not_begin_the_walk_back(self) -> None:
        """One undo at a time: that of the loser is answered first, though every branch has settled by then."""
        run = within_a_fork()
        run.starts("x")
        run.all_do("a", "c", "b")
        run.settles()
        run.undo_next(DECLINED)
        run.cancel()
        run.ends("x")
        assert run.status() is WorkflowStatus.SUSPENDED
        assert not run.all(CompensationStarted)
        run.answers("c", Action.UNDONE)
        assert run.undoes() == ["x", "b", "a", "s"]
        assert run.status() is WorkflowStatus.COMPENSATED

    def test_an_undo_of_a_loser_in_doubt(self) -> None:
        """`undo_idempotent = false`: it is asked about, as in any undo."""
        run = race(undo_idempotent=False)
        run.does("b")
        run.settles()
        run.undo_next(Lost(reason="gone"))
        assert run.incident.kind is IncidentKind.IN_DOUBT
        run.answers("c", Action.DONE)
        assert run.standing == ["z"]

    def test_an_undo_of_a_loser_that_kills_its_hosts(self) -> None:
        """§6, poison: cancel would not end it, so `close` does."""
        run = race()
        run.does("b")
        run.settles()
        for _ in range(12):
            if not run.state.incidents:
                run.call_undo()
                run.crash()
        assert (run.incident.kind, run.incident.actions) == (IncidentKind.POISON, (Action.RETRY, Action.CLOSE))
        run.answers("c", Action.CLOSE)
        assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("a", "c", "b"))


def test_a_branch_that_fails_while_losers_are_undone_waits_for_them() -> None:
    """§5: one undo at a time; then everything else is undone, the losers not again."""
    run = within_a_fork()
    run.starts("x")
    run.all_do("a", "c", "b")
    run.settles()
    run.ends("x", NO)
    assert not run.all(CompensationStarted)
    assert run.undoes() == ["c", "b", "a", "s"]
    assert run.status() is WorkflowStatus.COMPENSATED
    assert not run.all(JoinOpened)


def test_a_loser_that_has_won_elsewhere_completes_once() -> None:
    """P30: the join of need = 2 opens once, though a third has been running."""
    run = meeting(need=2)
    run.starts("b", "c", "d")
    run.ends("d")
    run.ends("b")
    run.ends("c")
    assert run.undoes() == ["c"]
    assert len(run.all(JoinOpened)) == len(run.all(JoinDecided)) == 1
    with pytest.raises(KeyError):
        run.give(Finished(branch=2, end=Continued()))


def test_a_skipped_undo_is_the_reason_of_the_failure() -> None:
    run = TestFailingUndoOfALoser().suspended()
    run.answers("c", Action.SKIP)
    run.does("z")
    assert run.last(RunFailed).reason == "an undo was skipped"
    assert [event.step for event in run.all(StepCompleted)] == ["a", "c", "b", "z"]
    assert len(run.all(IncidentOpened)) == 1
