"""What a run shows of its waits and signals, at every point of their way (P26, P27, P28; semantics §9)."""

from __future__ import annotations

from bext_workflow.core.inbox import write_act
from bext_workflow.core.input import Cancel, Signalled
from bext_workflow.model.json import Json
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.view import PAUSED, SignalState, SignalView, WaitView, instant
from bext_workflow.ports.store import InboxRow, RunRow
from bext_workflow.service.steps import steps_of
from bext_workflow.service.views import whole
from bext_workflow.service.waits import signals_of, waits_of
from tests.unit.core.support import NOON, RUN_ID, Saga, asks, done, naps, parked, plan, step

LATER = 60_000


def journal(saga: Saga) -> Json:
    return list(zip(saga.events, [at for _, _, at in saga.journal], strict=True))


def waits(saga: Saga) -> list[WaitView]:
    return waits_of(saga.state, journal(saga))


def states(saga: Saga, *inbox: InboxRow) -> list[tuple[str, str]]:
    return [(signal.name, signal.state.value) for signal in signals_of(journal(saga), inbox)]


def steps(saga: Saga) -> dict[str, str]:
    return {f"{view.step}#{view.visit}": view.status for view in steps_of(saga.state, journal(saga))}


def posted(n: int, name: str, payload: Json = None, *, at: int = NOON) -> InboxRow:
    """A signal in the inbox that no host has taken up yet."""
    kind, data = write_act(Signalled(act=n, by="ann", at=at, name=name, payload=payload, id=f"s-{n}"))
    return InboxRow(n=n, at=at, kind=kind, by="ann", data=data)


def shown(saga: Saga, *inbox: InboxRow) -> Json:
    """The whole view; what only the row knows is left out."""
    state = saga.state
    row = RunRow(
        rid=1,
        run_id=RUN_ID,
        workflow=state.workflow,
        version=state.version,
        digest="",
        status=state.status,
        step=None,
        seq=state.seq,
        inbox=0,
        owner=None,
        fence=0,
        wake_at=None,
        key=None,
        tags={},
        failure=None,
        incidents=0,
        created_at=state.created_at,
        started_at=None,
        updated_at=state.updated_at,
        ended_at=None,
    )
    return whole(row, state, journal(saga), inbox)


class TestWaits:
    def test_a_hosted_wait_from_its_opening_to_its_end(self) -> None:
        saga = Saga(plan(asks(timeout_ms=500), step("ship"))).wait(7)
        assert waits(saga) == []
        saga.open()
        assert waits(saga) == [
            WaitView(step="ask", visit=1, signal="go", due_at=instant(NOON + 507), opened_at=instant(NOON + 7))
        ]
        assert steps(saga) == {"ask#1": "waiting"}
        saga.wait(20).signal(payload=True)
        assert waits(saga) == []
        assert steps(saga) == {"ask#1": "completed", "ship#1": "running"}
        (ask, _) = steps_of(saga.state, journal(saga))
        assert (ask.attempts, ask.ended_at) == (0, instant(NOON + 27))

    def test_a_sleep_waits_for_no_signal_and_a_wait_without_a_bound_for_no_time(self) -> None:
        sleeping, asking = Saga(plan(naps())), Saga(plan(asks()))
        sleeping.open()
        asking.open()
        assert [(wait.signal, wait.due_at) for wait in waits(sleeping)] == [(None, instant(NOON + 500))]
        assert [(wait.signal, wait.due_at) for wait in waits(asking)] == [("go", None)]

    def test_a_step_that_returned_wait_is_waiting_until_it_goes_on(self) -> None:
        saga = Saga(plan(step("ask"), step("ship"))).run(parked("go"))
        assert (steps(saga), [wait.step for wait in waits(saga)]) == ({"ask#1": "waiting"}, ["ask"])
        (ask,) = steps_of(saga.state, journal(saga))
        assert ask.attempts == 1
        saga.signal()
        assert steps(saga) == {"ask#1": "completed", "ship#1": "running"}

    def test_the_time_is_over(self) -> None:
        saga = Saga(plan(step("a"), asks(timeout_ms=5))).run(done())
        saga.open()
        saga.wait(5).fire()
        ask = steps_of(saga.state, journal(saga))[1]
        assert (ask.status, ask.attempts, ask.reason) == ("failed", 0, "signal 'go' did not come in time")
        saga.undo_all()
        assert steps(saga) == {"a#1": "compensated", "ask#1": "failed"}

    def test_a_stop_ends_the_wait_of_the_hosts_own_step_and_leaves_the_others_completed(self) -> None:
        hosted, returned = Saga(plan(asks())), Saga(plan(step("ask"), undoes=False)).run(parked("go"))
        hosted.open()
        for saga in (hosted, returned):
            saga.cancel(compensate=False)
            saga.settle()
        assert (waits(hosted), steps(hosted)) == ([], {"ask#1": "stopped"})
        assert (waits(returned), steps(returned)) == ([], {"ask#1": "left_in_place"})

    def test_a_wait_that_is_over_leaves_nothing_in_place(self) -> None:
        saga = Saga(plan(step("a"), naps(), step("b"))).run(done())
        saga.open()
        saga.wait(500).fire()
        saga.cancel(compensate=False)
        saga.settle()
        assert saga.status() is WorkflowStatus.CANCELLED
        assert [entry.step for entry in newest_first(saga.state.pending)] == ["nap", "a"]
        assert shown(saga).left_in_place == ["a"]
        assert steps(saga) == {"a#1": "left_in_place", "nap#1": "completed", "b#1": "stopped"}

    def test_past_a_pivot_it_is_held_and_waits_again_when_a_person_says_so(self) -> None:
        saga = Saga(plan(step("a", pivot=True), asks(timeout_ms=5))).run(done())
        saga.open()
        saga.wait(5).fire()
        assert (waits(saga), steps(saga)["ask#1"]) == ([], "held")
        saga.wait(100).answer(Action.RETRY)
        assert [wait.due_at for wait in waits(saga)] == [instant(NOON + 110)]
        assert steps(saga)["ask#1"] == "waiting"


class TestSignals:
    def test_one_is_listed_from_its_acknowledgement_on(self) -> None:
        """P26: before a host has taken it up, when it is kept for a wait to come, and when it was taken."""
        saga = Saga(plan(step("a"), asks()))
        assert states(saga, posted(1, "go")) == [("go", "waiting")]
        saga.signal("go", {"n": 1})
        assert states(saga, posted(2, "go")) == [("go", "kept"), ("go", "waiting")]
        saga.run(done())
        saga.open()
        assert states(saga) == [("go", "taken")]

    def test_its_view_is_the_same_on_its_way_but_for_the_state(self) -> None:
        """`at` is when it was accepted, whenever a host came to it."""
        saga = Saga(plan(step("a")))
        (early,) = signals_of(journal(saga), [posted(1, "go", {"n": 2**60})])
        saga.wait(LATER).signal("go", {"n": 2**60}, id="s-1", at=NOON)
        (kept,) = signals_of(journal(saga), [])
        assert early == SignalView(
            name="go", id="s-1", at=instant(NOON), state=SignalState.WAITING, payload={"n": 2**60}
        )
        assert kept == SignalView(name="go", id="s-1", at=instant(NOON), state=SignalState.KEPT, payload={"n": 2**60})

    def test_one_that_nobody_wanted_stays_visible_when_the_run_has_ended(self) -> None:
        """P27."""
        saga = Saga(plan(step("a")))
        saga.signal("other")
        saga.run(done())
        assert saga.status() is WorkflowStatus.COMPLETED
        assert states(saga) == [("other", "kept")]

    def test_one_that_lost_to_the_timer_is_late_for_good(self) -> None:
        """P28: and the next wait for the same name does not take it."""
        ask = step("ask", branches=("ask",))
        saga = Saga(plan(ask, step("ship"))).run(parked("go", for_ms=5, on_timeout="ask"))
        saga.wait(9).signal("go", "old")
        saga.fire()
        saga.run(parked("go"))
        assert (states(saga), [wait.visit for wait in waits(saga)]) == ([("go", "late")], [2])
        saga.signal("go", "new")
        assert states(saga) == [("go", "late"), ("go", "taken")]

    def test_they_stand_in_the_order_of_acceptance(self) -> None:
        """P27."""
        saga = Saga(plan(asks(), asks("again"), step("ship")))
        saga.signal("go", 1)
        saga.signal("other", 2)
        saga.signal("go", 3)
        saga.open()
        assert states(saga, posted(4, "go")) == [
            ("go", "taken"),
            ("other", "kept"),
            ("go", "kept"),
            ("go", "waiting"),
        ]

    def test_other_acts_in_the_inbox_are_no_signals(self) -> None:
        kind, data = write_act(Cancel(act=1, by="ann", reason=""))
        row = InboxRow(n=1, at=NOON, kind=kind, by="ann", data=data)
        assert states(Saga(plan(step("a"))), row) == []


class TestHolds:
    def test_a_paused_run_says_so_beside_its_incidents(self) -> None:
        saga = Saga(plan(step("a", idempotent=False), step("b")))
        saga.call_step()
        saga.crash()
        saga.pause()
        assert shown(saga).holds == [saga.incident.id, PAUSED]
        saga.resume()
        assert shown(saga).holds == [saga.incident.id]

    def test_the_whole_run_holds_waits_and_signals(self) -> None:
        saga = Saga(plan(asks()))
        saga.open()
        view = shown(saga, posted(1, "other"))
        assert ([wait.step for wait in view.waits], [one.name for one in view.signals]) == (["ask"], ["other"])
