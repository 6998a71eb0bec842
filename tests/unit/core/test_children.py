"""Sub-workflows in the core: a child is what other runs tell of it (semantics §5, §7)."""

from __future__ import annotations

from typing import Literal

import pytest

from bext_workflow.core.children import nothing_left
from bext_workflow.core.input import ChildCalled, ChildUndoing, End, Finished
from bext_workflow.core.lineage import result_of
from bext_workflow.core.work import CallChild, Compensate, Execute, StopChild, TellParent, UndoChild, wake_at, work
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, StepCompleted, StepFailed
from bext_workflow.model.fork import JoinDefinition, MapDefinition
from bext_workflow.model.origin import Parent
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.unit.core.support import (
    CHILD_ID,
    NO,
    NO_AND_LEAVE,
    NOON,
    RAISED,
    RUN_ID,
    Saga,
    calls,
    done,
    plan,
    step,
)

COMPLETED, COMPENSATED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED
FAILED, CANCELLED = WorkflowStatus.FAILED, WorkflowStatus.CANCELLED

ABOVE = Parent(run_id="r-0", root="r-0", step="order", visit=1)


def ordered(*, undoes: bool = True, pivot: bool = False) -> Saga:
    """It has paid and waits for its child; `thank` would come after it."""
    saga = Saga(plan(step("pay", pivot=pivot), calls(), step("thank"), undoes=undoes)).run(done(paid=True))
    saga.call_child()
    return saga


def child(*, parent: Parent | None = ABOVE, pivot: bool = False) -> Saga:
    return Saga(plan(step("pick"), step("post", pivot=pivot)), context={"sku": "s", "n": 1}, parent=parent)


# Forward


def test_the_childs_key_is_the_visits() -> None:
    """§6, §7: the same after every crash."""
    saga = Saga(plan(step("pay"), calls())).run(done()).crash()
    assert saga.due(CallChild) == CallChild(branch=0, step="ship", visit=1, key=f"{RUN_ID}:ship", find=False)


def test_a_run_that_waits_for_its_child_is_running_and_nothing_is_due() -> None:
    """§7: a RUNNING row."""
    saga = ordered()
    assert (saga.status(), wake_at(saga.state), saga.idle()) == (WorkflowStatus.RUNNING, None, True)


def test_the_result_comes_under_the_name_of_the_step() -> None:
    saga = ordered()
    saga.child_ends(COMPLETED, parcel="p-1")
    assert saga.state.context.to_dict() == {"paid": True, "ship": {"parcel": "p-1"}}
    assert saga.due(Execute).step == "thank"


def test_a_child_gives_what_it_has_set_and_not_what_it_was_given() -> None:
    """`1` and `true` are not the same value; what was set to what it was is no result."""
    saga = child().run(done(sku="s", n=True), done(parcel="p-1"))
    assert result_of(saga.state).value == {"n": True, "parcel": "p-1"}


@pytest.mark.parametrize("status", [COMPENSATED, FAILED, CANCELLED])
def test_any_other_end_fails_the_step_with_undo(status: WorkflowStatus) -> None:
    """§7: `Fail{compensate: true}`."""
    saga = ordered()
    saga.child_ends(status)
    failed = saga.last(StepFailed)
    assert (failed.step, failed.compensate, failed.own) == ("ship", True, False)
    assert saga.state.failure == f"the child {CHILD_ID} ended {status}: no"
    assert saga.due(Compensate).step == "pay"


def test_what_the_child_left_in_place_is_undone_first() -> None:
    """§7: the walk back begins in the child."""
    saga = ordered()
    saga.child_ends(FAILED, left=True)
    assert saga.due(UndoChild).run_id == CHILD_ID
    assert saga.to_undo == ["ship", "pay"]


def test_a_child_that_ends_before_its_start_is_recorded() -> None:
    """The act comes first, and what the driver knows of the start changes nothing any more."""
    saga = Saga(plan(calls(), step("thank")))
    action = saga.due(CallChild)
    assert saga.child_ends(COMPLETED) == ["child_ended", "child_started", "step_completed"]
    assert saga.give(ChildCalled(branch=0, key=action.key, run_id=CHILD_ID)) == []
    assert saga.due(Execute).step == "thank"


def test_an_end_that_is_told_twice_counts_once() -> None:
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.child_ends(COMPLETED)
    assert saga.last(ActIgnored).reason == "this end of the child is known already"
    assert len([done for done in saga.all(StepCompleted) if done.step == "ship"]) == 1


def test_the_end_of_a_child_of_another_visit_moves_nothing() -> None:
    saga = ordered()
    assert saga.child_ends(COMPLETED, key=f"{RUN_ID}:ship#2", run_id="r-9") == ["child_ended"]
    assert saga.idle()


def test_each_item_of_a_map_has_a_child_of_its_own() -> None:
    """§6: the place is in the key."""
    each = step("split", map=MapDefinition(over="parcels", at="ship", join="pack", collect="sent"))
    saga = Saga(plan(each, calls(next="pack"), step("pack")), context={"parcels": ["a", "b"]}).run(done())
    keys = [action.key for action in work(saga.state, NOON) if isinstance(action, CallChild)]
    assert keys == [f"{RUN_ID}:ship[0]", f"{RUN_ID}:ship[1]"]
    for branch, key in enumerate(keys, 1):
        saga.give(ChildCalled(branch=branch, key=key, run_id=f"child-{branch}"))
    saga.child_ends(COMPLETED, key=keys[1], run_id="child-2", parcel="p-2")
    saga.child_ends(COMPLETED, key=keys[0], run_id="child-1", parcel="p-1")
    assert saga.state.context.get("sent") == [{"ship": {"parcel": "p-1"}}, {"ship": {"parcel": "p-2"}}]


# Undo


@pytest.mark.parametrize("undoes", [True, False])
def test_the_undo_of_the_step_is_the_childs(undoes: bool) -> None:
    """§7: the walk waits for it, also where the plugin of the parent has no undo at all."""
    saga = ordered(undoes=undoes)
    saga.child_ends(COMPLETED)
    saga.run(NO)
    assert saga.undo_child() == ["child_undo_asked"]
    assert (saga.status(), saga.idle(), wake_at(saga.state)) == (WorkflowStatus.COMPENSATING, True, None)
    saga.child_ends(COMPENSATED, ending=2)
    if undoes:
        saga.undo(None)
    assert saga.status() is COMPENSATED


def test_after_a_crash_the_walk_still_waits_for_the_child() -> None:
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.run(NO)
    saga.undo_child()
    saga.crash()
    assert saga.idle()
    saga.child_ends(COMPENSATED, ending=2)
    assert saga.due(Compensate).step == "pay"


def test_a_child_that_has_nothing_to_undo_any_more_is_passed() -> None:
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.run(NO)
    saga.undo_child(undone=True)
    assert saga.due(Compensate).step == "pay"


def test_a_child_that_refuses_is_compensation_failed() -> None:
    """§7: past its pivot, or closed."""
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.run(NO)
    saga.undo_child(refused="a pivot step of it has completed")
    assert (saga.status(), saga.incident.kind) == (FAILED, IncidentKind.COMPENSATION_FAILED)
    saga.answer(Action.UNDONE)
    assert saga.due(Compensate).step == "pay"


def test_a_child_whose_undo_fails_is_asked_again_by_a_retry() -> None:
    """P13."""
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.run(NO)
    saga.undo_child()
    saga.child_ends(FAILED, ending=2, left=True)
    assert (saga.status(), saga.incident.kind) == (FAILED, IncidentKind.COMPENSATION_FAILED)
    saga.child_ends(COMPENSATED, ending=3)  # the child has been mended; the parent's incident is still a person's
    assert saga.status() is FAILED
    saga.answer(Action.RETRY)
    saga.undo_child(undone=True)
    assert saga.due(Compensate).step == "pay"


def test_the_end_that_comes_before_the_undo_is_recorded_counts() -> None:
    saga = ordered()
    saga.child_ends(COMPLETED)
    saga.run(NO)
    action = saga.due(UndoChild)
    saga.child_ends(COMPENSATED, ending=2)
    assert saga.due(Compensate).step == "pay"
    assert saga.give(ChildUndoing(run_id=action.run_id, undone=True)) == []
    assert saga.to_undo == ["pay"]


def test_a_loser_that_is_a_child_is_undone_before_the_join_opens() -> None:
    """§7: `any` undoes its losers, and their children."""
    race = step("a", next=("ship", "b"), join=JoinDefinition(at="c", need="any"))
    saga = Saga(plan(race, calls(next="d"), step("b", next="c"), step("d", next="c"), step("c"))).run(done())
    saga.give(ChildCalled(branch=1, key=f"{RUN_ID}:ship", run_id=CHILD_ID))
    saga.child_ends(COMPLETED)  # that branch goes on, to a step that is slower than the other branch
    saga.give(Finished(branch=2, end=done()))
    saga.settle()
    saga.undo_child()
    assert saga.status() is WorkflowStatus.RUNNING
    saga.child_ends(COMPENSATED, ending=2)
    assert saga.due(Execute).step == "c"


def test_an_end_before_the_undo_is_asked_for_is_no_failed_undo() -> None:
    """§7: a person has taken the child forward meanwhile; it has completed, and can be undone."""
    saga = ordered()
    saga.child_ends(FAILED, left=True)
    assert saga.child_ends(COMPLETED, ending=2) == ["child_ended"]
    saga.undo_child()
    saga.child_ends(COMPENSATED, ending=3)
    assert saga.due(Compensate).step == "pay"


def raced(need: Literal["all", "any"] = "all") -> Saga:
    """A child on one branch, `b` on the other."""
    race = step("a", next=("ship", "b"), join=JoinDefinition(at="c", need=need))
    saga = Saga(plan(race, calls(next="c"), step("b", next="c"), step("c"))).run(done())
    saga.give(ChildCalled(branch=1, key=f"{RUN_ID}:ship", run_id=CHILD_ID))
    return saga


def test_a_loser_whose_child_still_runs_has_it_stopped_and_undone() -> None:
    """§7: the join opens when the child has ended."""
    saga = raced("any")
    saga.give(Finished(branch=2, end=done()))
    assert saga.stop_child() == StopChild(branch=1, run_id=CHILD_ID, compensate=True, now=False)
    assert (saga.idle(), saga.status()) == (True, WorkflowStatus.RUNNING)
    saga.child_ends(COMPENSATED)
    assert (saga.due(Execute).step, saga.to_undo) == ("c", ["b", "a"])


def test_a_loser_whose_child_completes_all_the_same_is_undone_before_the_join_opens() -> None:
    saga = raced("any")
    saga.give(Finished(branch=2, end=done()))
    saga.stop_child()
    saga.child_ends(COMPLETED)
    saga.undo_child()
    assert saga.idle()
    saga.child_ends(COMPENSATED, ending=2)
    assert (saga.due(Execute).step, saga.to_undo) == ("c", ["b", "a"])


def test_a_losers_child_that_cannot_be_undone_is_a_persons() -> None:
    """§7: a failing undo of a loser suspends the run."""
    saga = raced("any")
    saga.give(Finished(branch=2, end=done()))
    saga.stop_child()
    saga.child_ends(FAILED, left=True)
    saga.undo_child(refused="no way back")
    assert (saga.status(), saga.incident.kind) == (WorkflowStatus.SUSPENDED, IncidentKind.COMPENSATION_FAILED)
    saga.answer(Action.RETRY)
    saga.undo_child(undone=True)
    assert saga.due(Execute).step == "c"


def test_a_retry_does_not_forget_what_the_child_before_has_left_in_place() -> None:
    """P15: the visit goes on with another child, and the walk back goes through both."""
    saga = raced()
    saga.give(Finished(branch=2, end=NO_AND_LEAVE))
    saga.stop_child()
    saga.child_ends(CANCELLED, left=True)
    assert (saga.status(), saga.left) == (FAILED, ("a", "ship"))
    saga.reopen()
    (action,) = [one for one in work(saga.state, NOON) if isinstance(one, CallChild)]
    assert action.key == f"{RUN_ID}:ship~2"
    saga.give(ChildCalled(branch=1, key=action.key, run_id="r-3"))
    saga.child_ends(COMPLETED, key=action.key, run_id="r-3")
    saga.give(Finished(branch=2, end=NO))
    undone = []
    while saga.to_undo != ["a"]:
        undone.append(saga.due(UndoChild).run_id)
        saga.undo_child(undone=True)
    assert undone == ["r-3", CHILD_ID]


# Stop


@pytest.mark.parametrize(("compensate", "now"), [(True, False), (False, False), (True, True)])
def test_a_stop_is_passed_on_as_it_is(compensate: bool, now: bool) -> None:
    """§5, §7: and nothing settles before the child has."""
    saga = ordered()
    saga.cancel(compensate=compensate, now=now)
    action = saga.stop_child()
    assert (action.run_id, action.compensate, action.now) == (CHILD_ID, compensate, now)
    assert (saga.idle(), wake_at(saga.state)) == (True, None)
    saga.child_ends(COMPENSATED if compensate else CANCELLED)
    assert saga.status() is (WorkflowStatus.COMPENSATING if compensate else CANCELLED)


def test_a_hurried_stop_is_passed_on_again() -> None:
    saga = ordered()
    saga.cancel()
    saga.stop_child()
    saga.cancel(now=True)
    assert saga.due(StopChild).now is True


def test_a_child_that_completes_all_the_same_is_undone() -> None:
    """P18: the cancel lost against its last step."""
    saga = ordered()
    saga.cancel()
    saga.stop_child()
    saga.child_ends(COMPLETED)
    assert (saga.status(), saga.due(UndoChild).run_id) == (WorkflowStatus.COMPENSATING, CHILD_ID)


def test_a_child_that_could_not_be_undone_keeps_the_parent_from_being_compensated() -> None:
    """P15: the walk goes into it, and a person is asked."""
    saga = ordered()
    saga.cancel()
    saga.stop_child()
    saga.child_ends(FAILED, left=True)
    saga.undo_child(refused="an undo of the child has failed")
    assert (saga.status(), saga.incident.kind) == (FAILED, IncidentKind.COMPENSATION_FAILED)


def test_a_child_that_a_crash_left_no_word_of_is_looked_for_before_the_branch_settles() -> None:
    saga = Saga(plan(step("pay"), calls())).run(done())
    saga.cancel()
    action = saga.due(CallChild)
    assert action.find is True
    saga.give(ChildCalled(branch=action.branch, key=action.key, run_id=CHILD_ID))
    assert saga.due(StopChild).run_id == CHILD_ID


def test_past_a_pivot_a_retry_makes_another_child() -> None:
    """§5, §7."""
    saga = ordered(pivot=True)
    saga.child_ends(FAILED)
    assert saga.incident.kind is IncidentKind.STUCK_AFTER_PIVOT
    saga.answer(Action.RETRY)
    assert saga.due(CallChild).key == f"{RUN_ID}:ship~2"
    saga.call_child("r-3")
    saga.child_ends(COMPLETED, key=f"{RUN_ID}:ship~2", run_id="r-3", parcel="p-1")
    assert saga.state.context.get("ship") == {"parcel": "p-1"}


def test_past_a_pivot_the_runs_own_time_waits_for_the_child() -> None:
    """§5: a person is asked once it is known what the child has done; a retry then makes no second one beside it."""
    steps = step("pay", pivot=True), calls(), step("thank")
    saga = Saga(plan(*steps, timeout_ms=1_000)).run(done(paid=True))
    saga.call_child()
    saga.wait(2_000)
    assert (saga.idle(), wake_at(saga.state)) == (True, None)
    saga.child_ends(COMPLETED, parcel="p-1")
    assert saga.state.context.get("ship") == {"parcel": "p-1"}
    saga.expire()
    assert (saga.incident.kind, saga.incident.step) == (IncidentKind.STUCK_AFTER_PIVOT, "thank")
    saga.answer(Action.RETRY)
    assert saga.due(Execute).step == "thank"


def test_a_pause_does_not_hold_what_the_child_tells_and_nothing_new_starts() -> None:
    saga = ordered()
    saga.pause()
    saga.child_ends(COMPLETED, parcel="p-1")
    assert (saga.idle(), saga.state.context.get("ship")) == (True, {"parcel": "p-1"})
    saga.resume()
    assert saga.due(Execute).step == "thank"


def test_past_a_pivot_a_person_may_say_what_the_child_would_have_given() -> None:
    saga = ordered(pivot=True)
    saga.child_ends(FAILED)
    saga.answer(Action.DONE, ship={"parcel": "by hand"})
    assert saga.state.context.get("ship") == {"parcel": "by hand"}
    assert saga.due(Execute).step == "thank"


# The child


def test_a_child_tells_its_parent_of_every_end() -> None:
    """Durable in the child, until the parent has it."""
    saga = child().run(done(), done())
    assert [one for one in work(saga.state, NOON) if isinstance(one, TellParent)] == [
        TellParent(ending=1, status=COMPLETED)
    ]
    assert wake_at(saga.state) == 0
    saga.tell_parent()
    assert (saga.idle(), wake_at(saga.state)) == (True, None)


def test_a_run_without_a_parent_tells_nobody() -> None:
    saga = child(parent=None).run(done(), done())
    assert saga.idle()


@pytest.mark.parametrize("end", [done(), NO_AND_LEAVE])
def test_a_child_that_has_ended_is_undone_for_its_parent(end: End) -> None:
    """§4: a terminal run moves again, for a child, by its parent's compensation."""
    saga = child().run(done(), end)
    saga.tell_parent()
    saga.undo_for_parent()
    assert saga.status() is WorkflowStatus.COMPENSATING
    saga.undo_all()
    assert saga.status() is COMPENSATED
    assert [report.status for report in saga.state.reports][-1] is COMPENSATED


def test_a_child_past_its_pivot_refuses() -> None:
    saga = child(pivot=True).run(done(), done())
    with pytest.raises(Conflict, match="COMPLETED and a pivot step"):
        saga.undo_for_parent()


def test_a_child_with_a_failed_undo_refuses_before_and_after_it_is_closed() -> None:
    saga = child().run(done(), NO).undo(NO)
    with pytest.raises(Conflict, match="an undo of the child has failed"):
        saga.undo_for_parent()
    saga.answer(Action.CLOSE)
    with pytest.raises(Conflict, match="a person has closed its undo"):
        saga.undo_for_parent()


def test_a_child_that_has_not_ended_refuses() -> None:
    saga = Saga(plan(step("pick", idempotent=False)), parent=ABOVE).run(RAISED)
    with pytest.raises(Conflict, match="SUSPENDED: it has not ended"):
        saga.undo_for_parent()


def test_a_child_that_is_being_undone_already_goes_on() -> None:
    saga = child().run(done(), done())
    saga.undo_for_parent()
    assert saga.undo_for_parent() == ["act_ignored"]


def test_what_has_nothing_left_need_not_be_undone() -> None:
    assert nothing_left(child().run(done(), NO).undo(None).state)
    assert nothing_left(child().run(NO_AND_LEAVE).state)
    assert not nothing_left(child().run(done(), NO_AND_LEAVE).state)
    assert not nothing_left(child().run(done(), done()).state)
