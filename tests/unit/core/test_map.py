"""Maps (semantics §7): one branch an item, so many at a time; what they see, gather, and what their undo sees."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from bext_workflow.core.decide import decide
from bext_workflow.core.input import Finished, Late, Lost
from bext_workflow.core.state import State
from bext_workflow.core.work import Execute, work
from bext_workflow.errors import Conflict
from bext_workflow.model.event import ActIgnored, EvidenceAttached, JoinOpened, StepCompleted, StepFailed
from bext_workflow.model.json import Json
from bext_workflow.model.run import newest_first
from bext_workflow.model.status import Action, Call, WorkflowStatus
from tests.unit.core.parallel_support import Branches, fork, maps, sets, to
from tests.unit.core.support import NO, NO_AND_LEAVE, RAISED, asks, charge, done, parked, plan, step


def parcels(*items: Json, most: int = 10, collect: str | None = None, **fields: Json) -> Branches:
    """A run that has mapped `ship` over these items; they meet before `pack`."""
    steps = (maps("list", "parcels", "ship", "pack", most=most, collect=collect), to("ship", "pack", **fields))
    run = Branches(plan(*steps, step("pack")))
    run.does("list", done(parcels=list(items)))
    return run


def test_one_branch_an_item() -> None:
    """§7: `run.item`, `run.index`, keys with the index path."""
    run = parcels("x", {"to": "Rome"})
    assert run.callable == ["ship[0]", "ship[1]"]
    shown = run.shown("ship[1]")
    assert (shown.item, shown.index, shown.idempotency_key) == ({"to": "Rome"}, 1, "r-1:ship[1]")
    assert run.last(StepCompleted).fork is not None


def test_an_item_is_the_plugins_own_copy() -> None:
    run = parcels({"to": "Rome"})
    run.shown("ship[0]").item["to"] = "Oslo"
    assert run.shown("ship[0]").item == {"to": "Rome"}


def test_elsewhere_there_is_no_item() -> None:
    run = parcels("x")
    assert (run.does("ship[0]"), run.shown("pack").item, run.shown("pack").index) == (run.kinds[-2:], None, None)


@pytest.mark.parametrize("where", ["context", "updates", "before"])
def test_what_the_map_goes_over(where: str) -> None:
    """A key of the context: set at the start, by the step that maps, or newly by it."""
    run = Branches(
        plan(maps("list", "parcels", "ship", "pack"), to("ship", "pack"), step("pack")),
        context={} if where == "updates" else {"parcels": [1, 2]},
    )
    run.does("list", done() if where == "context" else done(parcels=[3]))
    assert len(run.standing) == (2 if where == "context" else 1)


@pytest.mark.parametrize(("value", "is_a"), [(None, "NoneType"), ({"a": 1}, "dict"), ("abc", "str"), (3, "int")])
def test_what_is_no_list_fails_the_step(value: Json, is_a: str) -> None:
    """§2: as any other outcome that the host cannot follow."""
    run = Branches(plan(maps("list", "parcels", "ship", "pack"), to("ship", "pack"), step("pack")))
    run.does("list", sets(parcels=value))
    assert run.last(StepFailed).reason == f"step 'list' maps over 'parcels', which is {is_a}, not a list"
    assert run.status() is WorkflowStatus.COMPENSATED


def test_a_step_that_maps_chooses_no_next() -> None:
    run = Branches(plan(maps("list", "parcels", "ship", "pack"), to("ship", "pack"), step("pack")))
    run.does("list", done("pack", parcels=[1]))
    assert run.last(StepFailed).reason == "step 'list' is a map: it chooses no next"


@pytest.mark.parametrize(("collect", "context"), [("shipped", {"parcels": [], "shipped": []}), (None, {"parcels": []})])
def test_an_empty_map_is_done_at_once(collect: str | None, context: Json) -> None:
    """§7: with an empty list gathered."""
    run = parcels(collect=collect)
    assert run.kinds[-2:] == ["step_completed", "join_opened"]
    assert run.standing == ["pack"]
    assert run.context == context


def test_gathered_in_the_order_of_the_items() -> None:
    """§7: `collect`, whatever the order of completion; the branches' updates do not merge (P31)."""
    run = parcels("x", "y", "z", collect="shipped")
    for at in (2, 0, 1):
        run.does(f"ship[{at}]", done(label=f"l-{at}", same="key"))
    shipped = [{"label": f"l-{at}", "same": "key"} for at in range(3)]
    assert run.context == {"parcels": ["x", "y", "z"], "shipped": shipped}


def test_without_collect_nothing_of_the_items_is_kept() -> None:
    run = parcels("x", "y")
    run.does("ship[1]", done(label=1))
    run.does("ship[0]", done(label=0))
    assert run.context == {"parcels": ["x", "y"]}


def test_so_many_at_a_time() -> None:
    """§7: `max_concurrency`; an item that arrives makes room for the next one, in order."""
    run = parcels(*range(5), most=2)
    assert run.callable == ["ship[0]", "ship[1]"]
    run.does("ship[1]")
    assert run.callable == ["ship[0]", "ship[2]"]
    run.starts("ship[0]", "ship[2]")
    run.ends("ship[2]")
    run.ends("ship[0]")
    assert sorted(run.callable) == ["ship[3]", "ship[4]"]
    run.all_do("ship[4]", "ship[3]")
    assert run.standing == ["pack"]


def test_an_item_in_a_retry_wait_or_parked_takes_up_room() -> None:
    run = parcels(*range(3), most=1)
    run.does("ship[0]", parked("go"))
    assert run.callable == []
    run.signal()
    assert run.callable == ["ship[1]"]


def test_items_may_take_several_steps_and_fork() -> None:
    """A branch of an item's branch works on the same item, under a key with its place."""
    steps = (
        maps("list", "parcels", "wrap", "pack", collect="done"),
        fork("wrap", "weigh", "stamp", at="seal"),
        to("weigh", "seal"),
        to("stamp", "seal"),
        to("seal", "pack"),
        step("pack"),
    )
    run = Branches(plan(*steps), context={"parcels": ["x", "y"]})
    run.does("list")
    run.does("wrap[1]")
    shown = run.shown("stamp[1]")
    assert (shown.item, shown.index, shown.idempotency_key) == ("y", 1, "r-1:stamp[1]")
    run.does("stamp[1]", done(stamp=1))
    run.does("weigh[1]", done(weight=2))
    assert dict(run.shown("seal[1]").context) == {"parcels": ["x", "y"], "stamp": 1, "weight": 2}
    run.does("seal[1]")
    run.all_do("wrap[0]", "weigh[0]", "stamp[0]", "seal[0]")
    assert run.context["done"][1] == {"weight": 2, "stamp": 1}


def test_maps_within_maps() -> None:
    """§6: keys with the whole index path; the inner one's item, and its gathering as the outer one's update."""
    steps = (
        maps("orders", "todo", "lines", "bill", collect="all"),
        maps("lines", "lines", "pick", "sum", most=1, collect="picked"),
        to("pick", "sum"),
        to("sum", "bill"),
        step("bill"),
    )
    run = Branches(plan(*steps), context={"todo": ["p", "q"]})
    run.does("orders")
    run.does("lines[1]", done(lines=["a", "b"]))
    run.does("lines[0]", done(lines=[]))
    assert sorted(run.callable) == ["pick[1][0]", "sum[0]"]
    shown = run.shown("pick[1][0]")
    assert (shown.item, shown.index, shown.idempotency_key) == ("a", 0, "r-1:pick[1][0]")
    run.does("pick[1][0]", done(got="A"))
    run.does("pick[1][1]", done(got="B"))
    assert run.shown("sum[1]").item == "q"
    run.does("sum[1]")
    run.does("sum[0]")
    assert run.context["all"] == [
        {"lines": [], "picked": []},
        {"lines": ["a", "b"], "picked": [{"got": "A"}, {"got": "B"}]},
    ]


def test_visits_are_counted_at_their_place() -> None:
    """§6: `visit` counts the entries of this step at this index path over the whole run."""
    steps = (
        maps("list", "parcels", "ship", "pack"),
        to("ship", "pack", branches=("ship",)),
        step("pack", branches=("list",)),
    )
    run = Branches(plan(*steps), context={"parcels": [1, 2]})
    run.does("list")
    run.does("ship[0]", done("ship"))
    assert run.due_at("ship[0]").key == "r-1:ship[0]#2"
    assert run.due_at("ship[1]").key == "r-1:ship[1]"
    run.all_do("ship[0]", "ship[1]")
    run.does("pack", done("list"))
    run.does("list")
    assert run.due_at("ship[0]").key == "r-1:ship[0]#3"
    assert run.due_at("ship[1]").key == "r-1:ship[1]#2"


def test_the_undo_of_an_item_sees_what_the_item_saw() -> None:
    """§5: its item, its index, its branch's latest context with the visit's own updates over it, its `undo_data`."""
    steps = (maps("list", "parcels", "ship", "pack"), to("ship", "tell"), to("tell", "pack"), step("pack"))
    run = Branches(plan(*steps), context={"parcels": ["x", {"to": "Rome"}]})
    run.does("list")
    run.does("ship[0]")
    run.does("ship[1]", done(label=1, undo_data="l-1"))
    run.does("tell[1]", done(label=2))
    run.does("tell[0]")
    run.does("pack", NO)
    assert run.undo_next() == "tell[0]"
    assert (run.shown_to_undo().item, run.shown_to_undo().context["label"]) == ({"to": "Rome"}, 2)
    assert run.undo_next() == "tell[1]"
    shown = run.shown_to_undo()
    assert (shown.step, shown.item, shown.index, shown.undo_data) == ("ship", {"to": "Rome"}, 1, "l-1")
    assert dict(shown.context) == {"parcels": ["x", {"to": "Rome"}], "label": 1}
    assert shown.idempotency_key == "r-1:ship[1]:compensate"


def test_the_own_undo_of_an_item_sees_its_item() -> None:
    """§5, `compensate_on_failure`."""
    run = parcels("x", "y", compensate_on_failure=True)
    run.does("ship[0]")
    run.does("ship[1]", RAISED)
    assert (run.shown_to_undo().item, run.shown_to_undo().index) == ("y", 1)
    assert run.undoes() == ["ship[1]", "ship[0]", "list"]


def test_the_one_of_fifty_that_is_released_last_undoes_the_others() -> None:
    """The acceptance of the issue (P10, P11): exactly the 49 others, in the exact reverse order of completion."""
    run = parcels(*range(50), most=50)
    run.starts(*(f"ship[{at}]" for at in range(50)))
    completed = [at for at in (at * 7 % 50 for at in range(50)) if at != 13]
    for at in completed:
        run.ends(f"ship[{at}]")
    run.ends("ship[13]", NO)
    assert run.undoes() == [f"ship[{at}]" for at in reversed(completed)] + ["list"]
    assert run.status() is WorkflowStatus.COMPENSATED


def test_one_that_fails_as_the_tenth_undoes_what_has_completed() -> None:
    """The acceptance of the issue, with `max_concurrency = 5`: the attempts that run go on to their end and count."""
    run = parcels(*range(50), most=5)
    for at in range(9):
        run.does(f"ship[{at}]")
    run.starts("ship[9]", "ship[10]", "ship[11]", "ship[12]", "ship[13]")
    run.ends("ship[10]")
    run.starts("ship[14]")
    run.ends("ship[9]", NO)
    assert run.callable == [], "nothing new starts"
    run.ends("ship[13]")
    run.ends("ship[11]", NO)
    run.ends("ship[14]")
    run.ends("ship[12]")
    completed = [12, 14, 13, 10, *reversed(range(9))]
    assert run.undoes() == [f"ship[{at}]" for at in completed] + ["list"]
    assert run.status() is WorkflowStatus.COMPENSATED


def test_a_retry_takes_up_the_failed_item_and_the_map_goes_on() -> None:
    """§5: `retry` of a FAILED run. Items that had not begun begin, as many at a time as before."""
    run = parcels(*range(6), most=2, collect="done")
    run.starts("ship[0]", "ship[1]")
    run.ends("ship[1]", NO_AND_LEAVE)
    run.ends("ship[0]")
    assert (run.status(), run.left) == (WorkflowStatus.FAILED, ("list", "ship"))
    run.reopen()
    assert sorted(run.callable) == ["ship[1]", "ship[2]"]
    assert (run.due_at("ship[1]").attempt, run.due_at("ship[1]").key) == (2, "r-1:ship[1]")
    run.all_do("ship[1]", "ship[2]", "ship[3]", "ship[4]", "ship[5]")
    assert run.standing == ["pack"]
    assert len(run.context["done"]) == 6


def test_a_map_that_stood_still_beside_a_failure_goes_on_when_that_is_retried() -> None:
    """All of its items that ran have arrived under the stop: without a hand of its own it would never move again."""
    steps = (
        fork("a", "b", "m", at="z"),
        to("b", "z"),
        maps("m", "items", "ship", "y", most=2),
        to("ship", "y"),
        to("y", "z"),
        step("z"),
    )
    run = Branches(plan(*steps), context={"items": [1, 2, 3]})
    run.does("a")
    run.does("m")
    run.starts("b", "ship[0]", "ship[1]")
    run.ends("b", NO_AND_LEAVE)
    run.ends("ship[0]")
    run.ends("ship[1]")
    assert run.status() is WorkflowStatus.FAILED
    run.reopen()
    assert sorted(run.callable) == ["b", "ship[2]"]
    run.all_do("b", "ship[2]", "y")
    assert run.standing == ["z"]


def test_a_retry_from_a_step_that_works_on_an_item_is_refused() -> None:
    """§5: `--from` jumps there as a new visit of the run's own line, which has no item."""
    run = parcels("x", most=1)
    run.does("ship[0]", NO_AND_LEAVE)
    with pytest.raises(Conflict, match="step 'ship' works on an item of a map"):
        run.reopen("ship")
    run.reopen("list")
    assert run.callable == ["list"]
    assert run.due_at("list").key == "r-1:list#2"


def test_a_host_dies_over_a_map() -> None:
    """P3, P16: each item in flight is due again under its key, the others are as they were."""
    run = parcels(*range(4), most=3)
    run.does("ship[1]")
    run.starts("ship[0]", "ship[2]").crash()
    assert sorted(run.callable) == ["ship[0]", "ship[2]", "ship[3]"]
    run.all_do("ship[0]", "ship[2]", "ship[3]")
    assert run.standing == ["pack"]


def test_items_wait_for_signals_in_the_order_in_which_they_began_to() -> None:
    """§9: waits for one name in parallel branches share the queue in order of opening."""
    ask = replace(asks("ask"), next="pack")
    steps = (maps("list", "parcels", "ask", "pack", collect="said"), ask, step("pack"))
    run = Branches(plan(*steps), context={"parcels": ["x", "y", "z"]})
    run.signal(payload="early")
    run.does("list")
    run.opens("ask[1]")
    assert run.standing == ["ask[0]", "ask[2]"]
    run.opens("ask[2]")
    run.opens("ask[0]")
    run.signal(payload="second")
    run.signal(payload="third")
    assert run.context["said"] == [{"go": "third"}, {"go": "early"}, {"go": "second"}]


def test_a_late_result_is_evidence_for_its_own_item() -> None:
    """§6: two items are in doubt over the same step, visit and attempt; only their places tell them apart."""
    steps = (maps("list", "parcels", "ship", "pack"), charge("ship", next="pack"), step("pack"))
    run = Branches(plan(*steps), context={"parcels": ["x", "y"]})
    run.does("list")
    run.does("ship[0]", Lost(reason="timed out"))
    run.does("ship[1]", Lost(reason="timed out"))
    of_second = run.state.incidents[1]
    run.acts += 1
    run.give(Late(act=run.acts, call=Call.STEP, place="[1]", step="ship", visit=1, attempt=1, evidence={"late": True}))
    assert run.last(EvidenceAttached).id == of_second.id
    run.acts += 1
    run.give(Late(act=run.acts, call=Call.STEP, place="[2]", step="ship", visit=1, attempt=1, evidence={"late": True}))
    assert run.all(ActIgnored)


def test_an_answer_is_for_its_own_item() -> None:
    steps = (maps("list", "parcels", "ship", "pack", collect="done"), charge("ship", next="pack"), step("pack"))
    run = Branches(plan(*steps), context={"parcels": ["x", "y"]})
    run.does("list")
    run.does("ship[1]", Lost(reason="timed out"))
    run.does("ship[0]", done(n=0))
    run.answers("ship", Action.DONE, n=1)
    assert run.context["done"] == [{"n": 0}, {"n": 1}]


def drive(run: Branches, items: int) -> State:
    """The whole map, without reading the journal back."""
    state = run.state
    made = 0
    while True:
        calls = [action for action in work(state, run.now) if isinstance(action, Execute) and action.step == "ship"]
        if not calls:
            assert made == items
            return state
        for call in calls:
            state = decide(state, Finished(branch=call.branch, end=done(n=made)), now=run.now).state
            made += 1


def test_ten_thousand_items_cost_no_more_each_than_a_thousand() -> None:
    """No cost that grows with the items: ten times as many take ten times as long, with a wide margin for noise."""
    spent = {}
    for items in (1_000, 10_000):
        run = parcels(*range(items), collect="done")
        begun = time.process_time()
        state = drive(run, items)
        spent[items] = time.process_time() - begun
        assert len(state.context.get("done")) == items
        assert sum(1 for _ in newest_first(state.pending)) == items + 1
    assert spent[10_000] < 40 * spent[1_000]


def test_the_join_of_a_map_says_what_it_gathered_once() -> None:
    run = parcels("x", collect="done")
    run.does("ship[0]", done(n=1))
    assert run.last(JoinOpened).updates.value == {"done": [{"n": 1}]}
