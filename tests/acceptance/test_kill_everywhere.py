"""`kill -9` of the host at every point of a run: enumerated, not sampled.

Each run goes through once without a kill, which tells the points. Then, for each of them, a host process kills itself
there with SIGKILL, and the next one has to bring the run to its end.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bext_workflow.model.status import WorkflowStatus
from tests.acceptance.saga import (
    BOUNCED,
    DECLINED,
    JAMMED,
    SUCCESS,
    Model,
    Saga,
    begin,
    call_faults,
    early,
    faults,
    in_doubt_faults,
    model_of,
    story,
)
from tests.acceptance.theatre import Stage, Theatre

SUCCESS_FIRST = [
    pytest.param(SUCCESS, id="success"),
    *(pytest.param(saga, id=saga.name, marks=pytest.mark.tier("ci")) for saga in (DECLINED, BOUNCED, JAMMED)),
]
EACH_PAIR = 4


def drive_once(stages: Theatre, tmp_path: Path, saga: Saga, **more: object) -> Model:
    """The run without a kill: it must end as the text says."""
    trial = begin(tmp_path, "whole", saga)
    told = stages.one(lambda stage: stage.told(trial.life(1, **more)))
    model = model_of(trial, told)
    assert list(faults(trial, model, [told], kills=0)) == []
    return model


def kill_at_each_point(stages: Theatre, tmp_path: Path, saga: Saga, **more: object) -> list[str]:
    """What is wrong after a kill and a restart, for every point of the run at which it is not as it must be."""
    model = drive_once(stages, tmp_path, saga, **more)
    window = model.window()

    def kill(stage: Stage, point: str) -> list[str]:
        trial = begin(tmp_path, str(model.points.index(point)), saga)
        stage.killed(trial.life(1, fatal=point, **more))
        told = stage.told(trial.life(2, **more))
        found = [*early(trial, told), *call_faults(trial, model, kills=1)]
        if point in window:
            found += in_doubt_faults(trial, model, told)
        else:
            found += faults(trial, model, [told], kills=1)
        return [f"{point}: {fault}" for fault in found]

    return [fault for found in stages.each(kill, model.points) for fault in found]


@pytest.mark.parametrize("saga", SUCCESS_FIRST)
def test_a_host_killed_at_any_point_is_made_good_by_the_next(stages: Theatre, tmp_path: Path, saga: Saga) -> None:
    """P1, P2, P3, P4, P11, P16, P50: also while the host starts and while it shuts down."""
    assert kill_at_each_point(stages, tmp_path, saga) == []


@pytest.mark.tier("ci")
@pytest.mark.parametrize("saga", [SUCCESS, BOUNCED], ids=lambda saga: saga.name)
def test_a_run_that_waited_in_the_store_is_made_good_too(stages: Theatre, tmp_path: Path, saga: Saga) -> None:
    """P1, P3, P16: the run is PENDING when the host that dies claims it."""
    assert kill_at_each_point(stages, tmp_path, saga, waits=True) == []


def test_the_points_are_every_commit_and_every_call(stages: Theatre, tmp_path: Path) -> None:
    """What the enumeration enumerates: before and after each commit, before and after each effect."""
    model = drive_once(stages, tmp_path, BOUNCED)

    assert [point for point in model.points if "effect" in point] == [
        f"{when} effect of {what} #1"
        for what in ("reserve_stock", "charge_card", "send_receipt", "undo of charge_card", "undo of reserve_stock")
        for when in ("before", "after")
    ]
    assert [point for point in model.points if point.startswith("before commit")] == [
        "before commit of run_created #1",
        "before commit of step_completed #1",
        "before commit of attempt_started #1",
        "before commit of step_completed #2",
        "before commit of step_failed, compensation_started #1",
        "before commit of step_compensated #1",
        "before commit of step_compensated, run_compensated #1",
    ]
    assert [point.replace("before", "after") for point in model.points if point.startswith("before")] == [
        point for point in model.points if point.startswith("after")
    ]
    assert model.window() == [
        "after commit of attempt_started #1",
        "before effect of charge_card #1",
        "after effect of charge_card #1",
        "before commit of step_completed #2",
    ]


@pytest.mark.tier("ci")
def test_a_host_killed_while_it_drains_is_made_good_too(stages: Theatre, tmp_path: Path) -> None:
    """P50: draining, the host lets the charge end and starts nothing new; a kill at any point of that costs nothing."""
    model = drive_once(stages, tmp_path, SUCCESS)
    drained = begin(tmp_path, "drained", SUCCESS)
    told = stages.one(lambda stage: stage.told(drained.life(1, drains=True)))
    assert told.run.status is WorkflowStatus.RUNNING
    assert [call.key for call in drained.calls()] == [":reserve_stock", ":charge_card"]
    assert "step_completed charge_card 1" in story(told.journal)
    assert told.points[-2:] == ["before leave #1", "after leave #1"]

    def kill(stage: Stage, point: str) -> list[str]:
        trial = begin(tmp_path, f"drained-{told.points.index(point)}", SUCCESS)
        stage.killed(trial.life(1, fatal=point, drains=True))
        after = stage.told(trial.life(2))
        found = [*early(trial, after), *call_faults(trial, model, kills=1)]
        if point in model.window():
            found += in_doubt_faults(trial, model, after)
        else:
            found += faults(trial, model, [after], kills=1)
        return [f"{point}: {fault}" for fault in found]

    assert [fault for found in stages.each(kill, told.points) for fault in found] == []


@pytest.mark.parametrize("saga", SUCCESS_FIRST)
def test_the_end_is_told_at_least_once_however_often_the_host_dies(stages: Theatre, tmp_path: Path, saga: Saga) -> None:
    """P17: after the final status is durable, with one key an ending."""
    model = drive_once(stages, tmp_path, saga, told_of_the_end=True)
    first = model.points.index("before effect of completion hook #1") - 2

    def kill(stage: Stage, point: str) -> list[str]:
        trial = begin(tmp_path, str(model.points.index(point)), saga)
        stage.killed(trial.life(1, fatal=point, told_of_the_end=True))
        told = stage.told(trial.life(2, told_of_the_end=True))
        hooks = [call for call in trial.calls() if "complete#" in call.key]
        found = [*faults(trial, model, [told], kills=1), *early(trial, told)]
        found += [f"{call} was too early" for call in hooks if not call.status.terminal]
        if {call.key for call in hooks} != {call.key for call in model.calls if "complete#" in call.key}:
            found.append(f"the plugin was told {hooks}")
        return [f"{point}: {fault}" for fault in found]

    assert [fault for found in stages.each(kill, model.points[first:]) for fault in found] == []


@pytest.mark.tier("ci")
@pytest.mark.timeout(120)
def test_a_second_kill_while_the_next_host_recovers_changes_nothing(stages: Theatre, tmp_path: Path) -> None:
    """P1, P3, P11, P16 for two crashes: each fourth pair of all that there are, of the saga with the most steps."""
    model = drive_once(stages, tmp_path, BOUNCED)
    window = model.window()

    def recoveries(stage: Stage, point: str) -> list[tuple[str, str]]:
        """The points that a host passes that recovers from a kill at `point`."""
        trial = begin(tmp_path, f"once-{model.points.index(point)}", BOUNCED)
        stage.killed(trial.life(1, fatal=point))
        return [(point, later) for later in stage.told(trial.life(2)).points]

    pairs = [pair for found in stages.each(recoveries, model.points) for pair in found][::EACH_PAIR]

    def kill_twice(stage: Stage, pair: tuple[str, str]) -> list[str]:
        trial = begin(tmp_path, f"twice-{pairs.index(pair)}", BOUNCED)
        stage.killed(trial.life(1, fatal=pair[0]))
        stage.killed(trial.life(2, fatal=pair[1]))
        told = stage.told(trial.life(3))
        found = [*call_faults(trial, model, kills=2)]
        if pair[0] in window or told.run.status is WorkflowStatus.SUSPENDED:
            found += in_doubt_faults(trial, model, told)
        else:
            found += faults(trial, model, [told], kills=2)
        return [f"{pair[0]}, then {pair[1]}: {fault}" for fault in found]

    assert [fault for found in stages.each(kill_twice, pairs) for fault in found] == []
