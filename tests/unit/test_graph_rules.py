"""What makes a graph of steps unusable, rule by rule, each with its message and its mend (semantics §3, §7, P30)."""

from __future__ import annotations

import pytest

from bext_workflow.errors import DefinitionError
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.fork import JoinDefinition, MapDefinition, Need
from bext_workflow.model.graph_rules import graph_faults
from bext_workflow.model.json import Json
from bext_workflow.model.names import END
from bext_workflow.model.wait import WaitDefinition

Steps = tuple[StepDefinition, ...]


def step(name: str, **fields: Json) -> StepDefinition:
    return StepDefinition(name=name, **fields)


def fork(name: str, *into: str, at: str | None = None, need: Need = "all", **fields: Json) -> StepDefinition:
    join = None if at is None else JoinDefinition(at=at, need=need)
    return step(name, next=into, join=join, **fields)


def maps(name: str, at: str, join: str, most: int = 10, **fields: Json) -> StepDefinition:
    return step(name, map=MapDefinition(over="items", at=at, join=join, max_concurrency=most), **fields)


def to(name: str, next_: str, **fields: Json) -> StepDefinition:
    return step(name, next=next_, **fields)


FORKED: Steps = (fork("a", "b", "c", at="z"), to("b", "z"), to("c", "z"), step("z"))
MAPPED: Steps = (maps("m", "ship", "z"), to("ship", "z"), step("z"))

USABLE: dict[str, Steps] = {
    "a fork and its join": FORKED,
    "a fork without a join": (fork("a", "b", "c"), to("b", END), to("c", END)),
    "a branch that ends counts as arrived": (fork("a", "b", "c", at="z"), to("b", END), to("c", "z"), step("z")),
    "branches that may be chosen": (
        step("a", next="b", branches=("b", "c"), join=JoinDefinition(at="z")),
        to("b", "z"),
        to("c", "z"),
        step("z"),
    ),
    "the join may be the end": (fork("a", "b", "c", at=END), to("b", END), to("c", END)),
    "branches that loop": (fork("a", "b", "c", at="z"), to("b", "z", branches=("b",)), to("c", "z"), step("z")),
    "two branches over one step": (
        fork("a", "b", "c", at="z"),
        to("b", "tell"),
        to("c", "tell"),
        to("tell", "z"),
        step("z"),
    ),
    "a fork within a branch, meeting before": (
        fork("a", "b", "x", at="z"),
        fork("b", "c", "d", at="y"),
        to("c", "y"),
        to("d", "y"),
        to("y", "z"),
        to("x", "z"),
        step("z"),
    ),
    "a fork within a branch, meeting where the outer one does": (
        fork("a", "b", "x", at="z"),
        fork("b", "c", "d", at="z"),
        to("c", "z"),
        to("d", "z"),
        to("x", "z"),
        step("z"),
    ),
    "a loop around a fork": (*FORKED[:3], step("z", branches=("a",), next="end")),
    "a map": MAPPED,
    "a map within a map": (maps("m", "n", "z"), maps("n", "ship", "y"), to("ship", "y"), to("y", "z"), step("z")),
    "a pivot that forks": (fork("a", "b", "c", at="z", pivot=True), *FORKED[1:]),
    "a pivot after the join": (*FORKED[:3], step("z", pivot=True)),
    "need of all that there are": (fork("a", "b", "c", at="z", need=2), *FORKED[1:]),
}


@pytest.mark.parametrize("name", USABLE)
def test_what_is_usable(name: str) -> None:
    assert list(graph_faults(USABLE[name])) == []


FAULTS: dict[str, tuple[Steps, str, str]] = {
    "no steps": ((), "it has no steps", "name at least one"),
    "a name twice": (
        (step("a"), step("a")),
        "step 'a' stands twice",
        "step names are unique in a workflow",
    ),
    "an unknown next": (
        (to("a", "b"),),
        "step 'a' goes to 'b', which is not a step",
        "use one of ['a'] or \"end\"",
    ),
    "an unknown branch of a fork": (
        (fork("a", "b", "c"), to("b", END)),
        "step 'a' goes to 'c', which is not a step",
        "use one of ['a', 'b'] or \"end\"",
    ),
    "an unknown join": (
        (fork("a", "b", "c", at="y"), to("b", END), to("c", END)),
        "step 'a' goes to 'y', which is not a step",
        "use one of ['a', 'b', 'c'] or \"end\"",
    ),
    "an unknown step of a map": (
        (maps("m", "ship", "z"), step("z")),
        "step 'm' goes to 'ship', which is not a step",
        "use one of ['m', 'z'] or \"end\"",
    ),
    "fall-through into a branch": (
        (fork("a", "b", "c", at="z"), step("b"), to("c", "z"), step("z")),
        "step 'b' would fall through into 'c', which is only reached by choice",
        "give 'b' a next",
    ),
    "fall-through into a chosen step": (
        (step("a", branches=("c",)), step("b"), step("c")),
        "step 'b' would fall through into 'c', which is only reached by choice",
        "give 'b' a next",
    ),
    "fall-through into the step of a map": (
        (maps("m", "ship", "z"), step("x"), to("ship", "z"), step("z")),
        "step 'x' would fall through into 'ship', which is only reached by choice",
        "give 'x' a next",
    ),
    "fall-through into where a time-out leads": (
        (step("w", wait=WaitDefinition(signal="go", timeout_ms=1, on_timeout="late")), step("late")),
        "step 'w' would fall through into 'late', which is only reached by choice",
        "give 'w' a next",
    ),
    "one step twice": (
        (fork("a", "b", "b", at="z"), to("b", "z"), step("z")),
        "step 'a' forks into one step twice",
        "a fork names each step once",
    ),
    "a list of one": (
        (fork("a", "b"), to("b", END)),
        "step 'a': next is a list of 1",
        "a fork names at least two steps",
    ),
    "an empty list": (
        (step("a", next=()),),
        "step 'a': next is a list of 0",
        "a fork names at least two steps",
    ),
    "a branch that is no step": (
        (fork("a", "b", END), to("b", END)),
        "step 'a' forks into \"end\"",
        "a branch that has nothing to do is left out",
    ),
    "a join without branches": (
        (step("a", join=JoinDefinition(at="z")), step("z")),
        "step 'a' has a join and forks into less than two branches",
        "give next a list, or drop join",
    ),
    "need of none": (
        (fork("a", "b", "c", at="z", need=0), *FORKED[1:]),
        "step 'a': join.need is 0 of 2 branches",
        'use 1 to that, "all" or "any"',
    ),
    "need of more than there are": (
        (fork("a", "b", "c", at="z", need=3), *FORKED[1:]),
        "step 'a': join.need is 3 of 2 branches",
        'use 1 to that, "all" or "any"',
    ),
    "a branch that begins at the join": (
        (fork("a", "b", "z", at="z"), to("b", "z"), step("z")),
        "step 'a' joins at 'z', where one of its branches begins",
        "join at a later step",
    ),
    "a join that is never reached": (
        (fork("a", "b", "c", at="z"), to("b", "b"), to("c", "z"), step("z")),
        "the branch of 'a' that begins at 'b' never comes to the join at 'z'",
        "lead it there by next, or join elsewhere",
    ),
    "an item that never comes to the join": (
        (maps("m", "ship", "z"), to("ship", "ship"), step("z")),
        "the branch of 'm' that begins at 'ship' never comes to the join at 'z'",
        "lead it there by next, or join elsewhere",
    ),
    "a pivot beside branches": (
        (fork("a", "b", "c", at="z"), to("b", "z"), to("c", "z", pivot=True), step("z")),
        "step 'c' is a pivot and runs beside other branches",
        "put the pivot after the join",
    ),
    "a pivot somewhere in a branch that does not meet": (
        (fork("a", "b", "c"), to("b", "d"), step("d", pivot=True, next=END), to("c", END)),
        "step 'd' is a pivot and runs beside other branches",
        "put the pivot after the join",
    ),
    "a pivot on items": (
        (maps("m", "ship", "z"), to("ship", "z", pivot=True), step("z")),
        "step 'ship' is a pivot and runs beside other branches",
        "put the pivot after the join",
    ),
    "a fork within a branch that meets too late": (
        (
            fork("a", "b", "x", at="z"),
            fork("b", "c", "d", at="y"),
            to("c", "z"),
            to("d", "z"),
            to("x", "z"),
            to("z", "y"),
            step("y"),
        ),
        "the branches of 'b' come to 'z', where those of 'a' meet, before they meet",
        "give 'b' a join, there or before it",
    ),
    "a fork within a branch that does not meet": (
        (
            fork("a", "b", "x", at="z"),
            fork("b", "c", "d"),
            to("c", "z"),
            to("d", END),
            to("x", "z"),
            step("z"),
        ),
        "the branches of 'b' come to 'z', where those of 'a' meet, before they meet",
        "give 'b' a join, there or before it",
    ),
    "a map beside next": (
        (maps("m", "ship", "z", next="z"), to("ship", "z"), step("z")),
        "step 'm' states map beside next, join or branches",
        "a map says all of that itself",
    ),
    "a map beside branches": (
        (maps("m", "ship", "z", branches=("z",)), to("ship", "z"), step("z")),
        "step 'm' states map beside next, join or branches",
        "a map says all of that itself",
    ),
    "a map that begins none": (
        (maps("m", "ship", "z", most=0), *MAPPED[1:]),
        "step 'm': map.max_concurrency is 0",
        "at least 1",
    ),
    "a map that meets where it begins": (
        (maps("m", "z", "z"), step("z")),
        "step 'm': map.at and map.join are one step",
        "the items are worked on before they meet",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_not(name: str) -> None:
    """The first fault is the one to be mended first, and the definition is refused with it."""
    steps, fault, mend = FAULTS[name]
    assert next(graph_faults(steps)) == (fault, mend)
    with pytest.raises(DefinitionError) as refused:
        WorkflowDefinition(id="order", steps=steps)
    assert refused.value.message == f"workflow 'order' version 1: {fault}"
    assert refused.value.mend == mend


@pytest.mark.parametrize(
    ("steps", "only"),
    [
        (MAPPED, {"ship"}),
        (FORKED, set()),
        ((maps("m", "ship", "z"), to("ship", "tell"), to("tell", "z"), step("z", next="tell")), {"ship"}),
        ((maps("m", "n", "z"), maps("n", "ship", "y"), to("ship", "y"), to("y", "z"), step("z")), {"n", "ship", "y"}),
    ],
)
def test_the_steps_that_only_work_on_items(steps: Steps, only: set[str]) -> None:
    """A run is not sent there by hand; a step that is reached in another way too may be."""
    assert WorkflowDefinition(id="order", steps=steps).only_on_items == only
