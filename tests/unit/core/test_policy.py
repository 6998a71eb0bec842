"""Other policy under a run that is under way: what has happened stays what it was (semantics §10)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bext_workflow.core.evolve import evolve, fold
from bext_workflow.core.state import Plan
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.event import Event
from bext_workflow.model.policy import OnExhausted, RetryPolicy
from tests.unit.core import parallel_script, parallel_simulator, script, simulator

OTHER = RetryPolicy(max_attempts=1, backoff_ms=7, max_backoff_ms=7, on_exhausted=OnExhausted.FAIL)


def test_a_journal_folds_to_the_same_state_under_any_policy() -> None:
    """P49, §10: the fold asks the definition for its graph only; other policy takes a run up as it is."""
    for seed in range(40):
        for weather in simulator.Weather:
            line = simulator.World(script.Script(seed), weather).live()
            _folds_alike(line.state.plan, line.events)
    for seed in range(60):
        world = parallel_simulator.World(parallel_script.Script(seed), parallel_simulator.weather_of(seed)).live()
        _folds_alike(world.state.plan, world.events)


def test_the_other_policy_says_everything_that_is_no_graph_otherwise() -> None:
    """So that the test above leaves nothing out: what is not changed here is graph, or a name."""
    plain = StepDefinition(name="a", timeout_ms=1)
    same = [name for name in plain.__struct_fields__ if getattr(_step(plain), name) == getattr(plain, name)]
    graph = [
        "idempotent",
        "transactional",
        "next",
        "join",
        "map",
        "branches",
        "compensate_on_failure",
        "undo_idempotent",
        "pivot",
    ]
    assert same == ["name", *graph, "wait", "sleep_ms", "workflow"]


def _folds_alike(plan: Plan, journal: Sequence[tuple[Event, int]]) -> None:
    """After each event, not only at the end, where little is left to tell the two apart."""
    other = replace(plan, definition=_other(plan.definition))
    assert other.definition.digest == plan.definition.digest
    assert other.definition.policy != plan.definition.policy
    one, two = fold(plan, journal[:1]), fold(other, journal[:1])
    for event, at in journal[1:]:
        one, two = evolve(one, event, at), evolve(two, event, at)
        assert replace(two, plan=plan) == one


def _other(definition: WorkflowDefinition) -> WorkflowDefinition:
    """The same graph with other words and numbers throughout."""
    steps = tuple(_step(step) for step in definition.steps)
    return replace(definition, steps=steps, description="other", timeout_ms=definition.timeout_ms + 99)


def _step(step: StepDefinition) -> StepDefinition:
    return replace(
        step,
        description="other",
        retries=OTHER,
        retry_on=("Odd",) if step.idempotent else None,
        timeout_ms=step.timeout_ms + 99,
        heartbeat_ms=step.heartbeat_ms + 99,
        compensation_retries=OTHER,
        max_visits=step.max_visits + 99,
        sleep_ms=step.sleep_ms + 99 if step.sleep_ms else 0,
        wait=None if step.wait is None else replace(step.wait, timeout_ms=step.wait.timeout_ms + 99),
    )
