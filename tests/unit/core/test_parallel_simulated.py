"""Simulated runs with branches: random forks, joins, maps and waits; calls that end in any order, crashes, people."""

from __future__ import annotations

from collections import Counter

import pytest

from bext_workflow.model.event import IncidentOpened
from bext_workflow.model.journal import KINDS
from bext_workflow.model.status import IncidentKind, WorkflowStatus
from tests.unit.core.parallel_properties import PROPERTIES
from tests.unit.core.parallel_script import Script
from tests.unit.core.parallel_simulator import Record, World, weather_of
from tests.unit.core.simulated import NOT_SIMULATED

BLOCK = 250


def simulate(seed: int, *, every_prefix: bool = False) -> World:
    """One script in one weather; a failure says how to look at the run alone."""
    world = World(Script(seed), weather_of(seed), every_prefix=every_prefix)
    try:
        run = Record(world.live())
        for holds in PROPERTIES:
            holds(run)
    except Exception as error:
        error.add_note(f"replay: python -m tests.unit.core.parallel_simulator {seed}")
        raise
    return world


@pytest.mark.parametrize("first", range(0, 1_000, BLOCK))
def test_branches_keep_every_promise(first: int) -> None:
    """P1, P3, P4, P10–P12, P15, P16, P18, P20, P27, P30, P31 over 1,000 scripts."""
    for seed in range(first, first + BLOCK):
        simulate(seed)


@pytest.mark.tier("ci")
@pytest.mark.parametrize("first", range(1_000, 23_000, 2_000))
def test_more_branches_keep_every_promise(first: int) -> None:
    """The same over 22,000 more."""
    for seed in range(first, first + 2_000):
        simulate(seed)


def test_every_prefix_of_a_journal_folds_to_what_was_known() -> None:
    """P16, after each append, wherever the branches stand then."""
    for seed in range(60):
        simulate(seed, every_prefix=True)


@pytest.mark.tier("ci")
def test_every_prefix_of_more_journals_folds_to_what_was_known() -> None:
    for seed in range(60, 2_000):
        simulate(seed, every_prefix=True)


def test_the_simulation_goes_everywhere() -> None:
    """So that the promises are not kept by runs to which nothing happens: every event, incident and ending; races."""
    worlds = [World(Script(seed), weather_of(seed)).live() for seed in range(1_000)]
    kinds = Counter(kind for world in worlds for kind, _, _ in world.journal)
    # A result that comes too late needs a thread that outlives its time: the host's tests have those.
    assert kinds.keys() >= set(KINDS.values()) - {"evidence_attached", *NOT_SIMULATED}
    assert min(kinds[kind] for kind in ("join_decided", "losers_undo_started", "join_opened", "branch_settled")) > 50
    events = [event for world in worlds for event, _ in world.events]
    assert {event.kind for event in events if isinstance(event, IncidentOpened)} == set(IncidentKind)
    assert {world.state.status for world in worlds} == {status for status in WorkflowStatus if status.terminal}
    assert sum(world.deaths for world in worlds) > 500
    assert max(world.most_at_once for world in worlds) >= 4
