"""A charge whose end nobody knows: the run stands still, and a person settles it with one of four answers (P4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from tests.acceptance.life import Answer, Life, Told
from tests.acceptance.saga import (
    RETRY_THE_UNDO,
    SAGAS,
    SUCCESS,
    Saga,
    Trial,
    begin,
    charge_faults,
    in_doubt_faults,
    ledger_faults,
    model_of,
    repeated,
)
from tests.acceptance.theatre import Stage, Theatre

ANSWERS = (Action.DONE, Action.NOT_DONE, Action.FAIL, Action.FAIL_UNDO)
ROLLED_BACK = ("refund", "release")


class End(NamedTuple):
    """Where an answer leads. It is true to what has happened, or the ledger cannot add up."""

    status: WorkflowStatus
    effects: tuple[str, ...]
    balanced: bool


def end_of(saga: Saga, action: Action, *, charged: bool) -> End:
    """What the text says of an answer, for a charge that happened or did not."""
    done = ("reserve", "charge") if charged else ("reserve",)
    status = WorkflowStatus.COMPLETED if saga.after_charge == ("send",) else WorkflowStatus.COMPENSATED
    match action:
        case Action.DONE:
            balanced = charged or status is WorkflowStatus.COMPENSATED
            return End(status, (*done, *saga.after_charge), balanced)
        case Action.NOT_DONE if charged:  # the same key has its effect once
            return End(status, (*done, *saga.after_charge), True)
        case Action.NOT_DONE:
            return End(saga.status, saga.effects, True)
        case Action.FAIL:
            return End(WorkflowStatus.COMPENSATED, (*done, "release"), not charged)
        case _:
            return End(WorkflowStatus.COMPENSATED, (*done, *ROLLED_BACK), True)


def end_of_cancelled(action: Action) -> End:
    """The same for a run that is being cancelled and whose card was charged: nothing goes forward any more."""
    refunds = action in (Action.DONE, Action.FAIL_UNDO)
    undone = ROLLED_BACK if refunds else ("release",)
    return End(WorkflowStatus.COMPENSATED, ("reserve", "charge", *undone), refunds)


def answered(trial: Trial, action: Action, number: int) -> Life:
    """A life in which a person gives that answer. Only a charge that is in the ledger has an id to give."""
    charges = [entry.id for entry in trial.books().entries if entry.kind == "charge"]
    updates = {"charge_id": charges[0]} if action is Action.DONE and charges else {}
    answers = {**RETRY_THE_UNDO, IncidentKind.IN_DOUBT: Answer(action=action, updates=updates)}
    return trial.life(number, answers=answers)


def end_faults(trial: Trial, told: Told, end: End) -> Iterator[str]:
    if told.run.status is not end.status or told.run.holds:
        yield f"the run ended {told.run.status} with {told.run.holds}"
    yield from ledger_faults(trial, end.effects, balanced=end.balanced)
    yield from charge_faults(trial, told.journal)
    yield from repeated(trial, told)


def settle_each_way(stage: Stage, trial: Trial, end_of_answer: dict[Action, End]) -> list[str]:
    """Gives each of the answers to a copy of the same run in doubt."""
    found = []
    for action, end in end_of_answer.items():
        copy = trial.copy(action)
        told = stage.told(answered(copy, action, 3))
        found += [f"{action}: {fault}" for fault in end_faults(copy, told, end)]
    return found


@pytest.mark.tier("ci")
@pytest.mark.parametrize("saga", SAGAS, ids=lambda saga: saga.name)
def test_a_kill_while_the_card_is_charged_is_settled_by_each_answer(
    stages: Theatre, tmp_path: Path, saga: Saga
) -> None:
    """P4: each point between the durable intent and the commit of the result, each answer."""
    trial = begin(tmp_path, "whole", saga)
    model = model_of(trial, stages.one(lambda stage: stage.told(trial.life(1))))

    def kill(stage: Stage, point: str) -> list[str]:
        trial = begin(tmp_path, str(model.points.index(point)), saga)
        stage.killed(trial.life(1, fatal=point))
        told = stage.told(trial.life(2))
        charged = "charge" in trial.effects()
        found = [*in_doubt_faults(trial, model, told)]
        found += settle_each_way(stage, trial, {action: end_of(saga, action, charged=charged) for action in ANSWERS})
        return [f"{point}: {fault}" for fault in found]

    assert len(model.window()) >= 3
    assert [fault for found in stages.each(kill, model.window()) for fault in found] == []


@pytest.mark.parametrize(
    ("spoilt", "evidence"),
    [
        ("KeyError", {"raised": "KeyError('charge')"}),
        ("None", {"returned": "None"}),
    ],
)
def test_an_error_or_nothing_after_the_charge_is_in_doubt(
    stages: Theatre, tmp_path: Path, spoilt: str, evidence: dict[str, str]
) -> None:
    """P4, P43: what a bug of the plugin hides is asked of a person, who is shown what was raised or returned."""

    def doubt(stage: Stage) -> list[str]:
        trial = begin(tmp_path, spoilt, SUCCESS)
        told = stage.told(trial.life(1, spoilt=spoilt))
        assert told.run.status is WorkflowStatus.SUSPENDED
        assert [event.data["evidence"] for event in told.journal if event.kind == "incident_opened"] == [evidence]
        assert trial.effects() == ("reserve", "charge")
        again = stage.told(trial.life(2))
        assert again.run.status is WorkflowStatus.SUSPENDED
        return settle_each_way(stage, trial, {action: end_of(SUCCESS, action, charged=True) for action in ANSWERS})

    assert stages.one(doubt) == []


def test_cancel_now_during_the_charge_is_in_doubt(stages: Theatre, tmp_path: Path) -> None:
    """P4, P18: the attempt is given up, its late result is evidence, and nothing goes forward after the answer."""

    def doubt(stage: Stage) -> list[str]:
        trial = begin(tmp_path, "now", SUCCESS)
        told = stage.told(trial.life(1, cancel="now"))
        assert told.run.status is WorkflowStatus.SUSPENDED
        assert [event.kind for event in told.journal if event.kind == "evidence_attached"] == ["evidence_attached"]
        return settle_each_way(stage, trial, {action: end_of_cancelled(action) for action in ANSWERS})

    assert stages.one(doubt) == []


def test_a_plain_cancel_waits_for_the_charge_and_undoes_it(stages: Theatre, tmp_path: Path) -> None:
    """P18: the attempt is never interrupted, its result counts."""
    trial = begin(tmp_path, "plain", SUCCESS)

    told = stages.one(lambda stage: stage.told(trial.life(1, cancel="plain")))

    assert list(end_faults(trial, told, end_of_cancelled(Action.DONE))) == []
    assert [call.key for call in trial.calls()] == [
        ":reserve_stock",
        ":charge_card",
        ":charge_card:compensate",
        ":reserve_stock:compensate",
    ]


@pytest.mark.tier("ci")
@pytest.mark.parametrize("cancel", ["plain", "now"])
def test_a_kill_at_any_point_of_a_cancelled_run_never_lets_it_go_on(
    stages: Theatre, tmp_path: Path, cancel: str
) -> None:
    """P16, P18: an accepted cancel outlives its host; the card that was charged is refunded, once."""
    trial = begin(tmp_path, "whole", SUCCESS)
    points = stages.one(lambda stage: stage.told(trial.life(1, cancel=cancel))).points

    def kill(stage: Stage, point: str) -> list[str]:
        trial = begin(tmp_path, str(points.index(point)), SUCCESS)
        stage.killed(trial.life(1, fatal=point, cancel=cancel))
        told = stage.told(trial.life(2, cancel=cancel))
        charged = "charge" in trial.effects()
        if told.run.status is WorkflowStatus.SUSPENDED:
            told = stage.told(answered(trial, Action.DONE if charged else Action.FAIL, 3))
        cancelled = "stop_requested" in [event.kind for event in told.journal]
        if not cancelled:  # The host died before anybody could cancel: a person has settled it.
            end = end_of(SUCCESS, Action.DONE if charged else Action.FAIL, charged=charged)
        else:
            end = end_of_cancelled(Action.DONE)
            end = end if charged else end._replace(effects=("reserve", "release"))
        return [f"{point}: {fault}" for fault in end_faults(trial, told, end)]

    assert [fault for found in stages.each(kill, points) for fault in found] == []


@pytest.mark.tier("ci")
@pytest.mark.parametrize("action", ANSWERS)
def test_a_kill_at_any_point_after_the_answer_changes_nothing(stages: Theatre, tmp_path: Path, action: Action) -> None:
    """P4, P16: an answer outlives its host, and is carried out once."""
    origin = begin(tmp_path, "origin", SUCCESS)
    stages.one(lambda stage: stage.killed(origin.life(1, fatal="after effect of charge_card #1")))
    stages.one(lambda stage: stage.told(origin.life(2)))
    whole = origin.copy("whole")
    points = stages.one(lambda stage: stage.told(answered(whole, action, 3))).points
    end = end_of(SUCCESS, action, charged=True)

    def kill(stage: Stage, point: str) -> list[str]:
        trial = origin.copy(str(points.index(point)))
        life = answered(trial, action, 3)
        stage.killed(msgspec.structs.replace(life, fatal=point))
        told = stage.told(answered(trial, action, 4))
        return [f"{point}: {fault}" for fault in end_faults(trial, told, end)]

    assert [fault for found in stages.each(kill, points) for fault in found] == []


def test_a_config_that_says_nothing_of_idempotent_leaves_the_plugins_false(stages: Theatre, tmp_path: Path) -> None:
    """P4: an overlay changes only what it states, and what it states must not be looser."""
    trial = begin(tmp_path, "silent", SUCCESS)
    config = trial.folder / "bext.config.toml"
    silent = re.sub(r",\s*idempotent = \w+", "", config.read_text(encoding="utf-8"))
    config.write_text(silent, encoding="utf-8")
    assert "idempotent" not in silent

    stages.one(lambda stage: stage.killed(trial.life(1, fatal="after effect of charge_card #1")))
    told = stages.one(lambda stage: stage.told(trial.life(2)))

    assert told.run.status is WorkflowStatus.SUSPENDED
    assert [call.key for call in trial.calls()] == [":reserve_stock", ":charge_card"]
