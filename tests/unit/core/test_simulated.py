"""Simulated runs: a random workflow, crashes anywhere, people who meddle; every promise is looked at after each run."""

from __future__ import annotations

from collections import Counter

import pytest

from bext_workflow.model.event import (
    IncidentOpened,
    SignalReceived,
    StopRequested,
    WaitEnded,
)
from bext_workflow.model.journal import KINDS
from bext_workflow.model.status import Call, IncidentKind, StopKind, WaitEnd, WorkflowStatus
from tests.unit.core.properties import PROPERTIES
from tests.unit.core.properties_waiting import WAITING
from tests.unit.core.reference import Expected, Reference
from tests.unit.core.script import Script
from tests.unit.core.simulated import NOT_SIMULATED
from tests.unit.core.simulator import Record, Weather, World

BLOCK = 500


def simulate(seed: int) -> list[World]:
    """One script in three weathers; a failure says how to look at the run alone."""
    script = Script(seed)
    expected = Reference(script).run()
    worlds = []
    for weather in Weather:
        world = World(script, weather)
        try:
            worlds.append(world.live())
            run = Record(world)
            for holds in PROPERTIES + WAITING:
                holds(run)
            _compare(world, expected)
        except Exception as error:
            error.add_note(f"replay: python -m tests.unit.core.simulator {seed} {weather.name.lower()}")
            raise
    return worlds


def _compare(world: World, expected: Expected) -> None:
    """P16: with or without crashes the run comes to what the reference says; without, it makes the very same calls."""
    if world.weather is Weather.WILD:
        return
    assert world.state.status is expected.status
    assert world.state.context.to_dict() == expected.context
    if world.weather is Weather.CALM:
        calls = [(c.call, c.step, c.visit, c.attempt) for c in world.calls if c.call is not Call.COMPLETE]
        assert calls == expected.calls


@pytest.mark.parametrize("first", range(0, 5_000, BLOCK))
def test_runs_keep_every_promise(first: int) -> None:
    """P1, P3, P4, P8–P21, P26–P29 over 5,000 scripts, each calm, with crashes, and with crashes and people."""
    for seed in range(first, first + BLOCK):
        simulate(seed)


@pytest.mark.tier("ci")
@pytest.mark.parametrize("first", range(5_000, 25_000, 2_000))
def test_more_runs_keep_every_promise(first: int) -> None:
    """The same over 20,000 more."""
    for seed in range(first, first + 2_000):
        simulate(seed)


def test_the_simulation_goes_everywhere() -> None:
    """So that the promises are not kept by runs to which nothing happens: every event, incident, ending and death."""
    worlds = [world for seed in range(400) for world in simulate(seed)]
    events = [event for world in worlds for event, _ in world.events]
    elsewhere = {"evidence_attached", "join_decided", "join_opened", "losers_undo_started", *NOT_SIMULATED}
    assert {kind for world in worlds for kind, _, _ in world.journal} >= set(KINDS.values()) - elsewhere
    assert {event.kind for event in events if isinstance(event, IncidentOpened)} == set(IncidentKind)
    assert {event.kind for event in events if isinstance(event, StopRequested)} == set(StopKind) - {StopKind.FAILURE}
    assert {event.how for event in events if isinstance(event, WaitEnded)} == set(WaitEnd) - {WaitEnd.ANSWER}
    assert any(event.late for event in events if isinstance(event, SignalReceived))
    endings = Counter(world.state.status for world in worlds)
    assert {status for status in WorkflowStatus if status.terminal} == set(endings)
    assert min(endings.values()) >= 20
    assert sum(world.deaths for world in worlds) > 1_000
