"""The judge sees what no host of ours does: a case that was played well is told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from bext_workflow.model.status import Call, WorkflowStatus
from bext_workflow.testing.prover.faults import read_case
from bext_workflow.testing.prover.judge import judge
from bext_workflow.testing.prover.play import play
from bext_workflow.testing.prover.played import Played, Wrong
from bext_workflow.testing.prover.subject import Subject
from tests.integration.kit.planted import Trip, rehearsing


def repeated(played: Played) -> Played:
    """A step is called again after its checkpoint."""
    again = replace(played.calls[0], at=len(played.story) + 1, number=2)
    return replace(played, calls=(*played.calls, again))


def undone_again(played: Played) -> Played:
    """An undo is called again after its checkpoint."""
    undo = next(made for made in played.calls if made.kind is Call.UNDO)
    return replace(played, calls=(*played.calls, replace(undo, at=len(played.story) + 1, number=2)))


def out_of_order(played: Played) -> Played:
    """What completed first is undone first."""
    undone = [event for event in played.durable if event.kind == "step_compensated"]
    others = [event for event in played.durable if event.kind != "step_compensated"]
    return replace(played, durable=(*others, *reversed(undone)))


def not_told(played: Played) -> Played:
    """`on_workflow_complete` is never called."""
    return replace(played, calls=tuple(made for made in played.calls if made.kind is not Call.COMPLETE))


def told_too_soon(played: Played) -> Played:
    """It is called before the ending is durable."""
    calls = (replace(made, at=1) if made.kind is Call.COMPLETE else made for made in played.calls)
    return replace(played, calls=tuple(calls))


def with_status(status: WorkflowStatus) -> Callable[[Played], Played]:
    def told(played: Played) -> Played:
        return replace(played, history=replace(played.history, run=replace(played.history.run, status=status)))

    return told


def stuck(played: Played) -> Played:
    return replace(with_status(WorkflowStatus.RUNNING)(played), stuck=True)


@pytest.mark.parametrize(
    ("otherwise", "wrong"),
    [
        (repeated, Wrong("repeated", "flight", "is called again after its checkpoint")),
        (undone_again, Wrong("repeated", "mail:compensate", "is called again after its checkpoint")),
        (out_of_order, Wrong("order", "", "undone in the order flight, room, mail")),
        (not_told, Wrong("completion", "", "on_workflow_complete is not called for ending 1")),
        (told_too_soon, Wrong("completion", "", "on_workflow_complete is called before ending 1 is durable")),
        (
            with_status(WorkflowStatus.SUSPENDED),
            Wrong("never-ends", "", "the run stays SUSPENDED: nothing sets it going again"),
        ),
        (stuck, Wrong("never-ends", "", "the run is RUNNING, and goes on and on")),
        (with_status(WorkflowStatus.COMPLETED), Wrong("status", "", "it ends COMPLETED in spite of the fault")),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
async def test_what_the_judge_sees(otherwise: Callable[[Played], Played], wrong: Wrong, tmp_path: Path) -> None:
    subject = Subject(plugin=None, workflow="trip", rehearse=rehearsing(Trip), folder=tmp_path)
    baseline = await play(subject, read_case("order"))
    played = await play(subject, read_case("order@mail=cancel"))

    assert list(judge(baseline, baseline)) == []
    assert list(judge(played, baseline)) == []
    assert wrong in list(judge(otherwise(played), baseline))
