"""What the host says in logs and metrics: what a person must see, once, and nothing of quiet progress."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.ports import telemetry as names
from bext_workflow.testing.clock import FakeClock
from tests.integration.host.support import Calls, Hosted, hosting, jumping, saga, step, workflow

PAY = workflow("pack", step("pay", idempotent=False))


def open_incidents(hosted: Hosted) -> dict[str, float]:
    values = {kind.value: hosted.telemetry.value(names.INCIDENTS_OPEN, kind=kind) for kind in IncidentKind}
    return {kind: value for kind, value in values.items() if value}


async def test_an_incident_is_one_error_event_with_its_fields_and_moves_the_gauge() -> None:
    calls = Calls(pay=[KeyError("?")])
    async with hosting(saga(calls, PAY)) as hosted:
        run = await hosted.settled(await hosted.start())
        incident = await hosted.incident(run.run_id)
        assert hosted.telemetry.all(names.INCIDENT_OPENED) == [
            {
                "run_id": run.run_id,
                "workflow": "order",
                "incident": incident.id,
                "kind": "in_doubt",
                "step": "pay",
                "attempt": 1,
                "reason": "raised KeyError('?')",
            }
        ]
        assert names.LOG_LEVELS[names.INCIDENT_OPENED] == "error"
        assert open_incidents(hosted) == {"in_doubt": 1}
        await hosted.resolve(run.run_id, Action.FAIL)
        await hosted.reaches(run.run_id, WorkflowStatus.COMPENSATED)
        assert open_incidents(hosted) == {}
        assert len(hosted.telemetry.all(names.INCIDENT_OPENED)) == 1


async def test_a_host_that_comes_up_knows_the_incidents_that_are_open(tmp_path: Path) -> None:
    calls, path = Calls(pay=[KeyError("?")] * 2), tmp_path / "bext.db"
    async with hosting(saga(calls, PAY), path) as hosted:
        run = await hosted.settled(await hosted.start())
        await hosted.settled(await hosted.start())
    async with hosting(saga(calls, PAY), path) as hosted:
        assert open_incidents(hosted) == {"in_doubt": 2}
        assert hosted.telemetry.all(names.INCIDENT_OPENED) == []
        await hosted.resolve(run.run_id, Action.DONE)
        await hosted.reaches(run.run_id, WorkflowStatus.COMPLETED)
        assert open_incidents(hosted) == {"in_doubt": 1}


async def test_things_left_in_place_are_one_error_event_and_a_count() -> None:
    """Semantics §3: no incident, and nothing is said where nothing was left."""
    calls = Calls(pack=[StepOutcome.Continue(), StepOutcome.Fail("no", False)], ship=[StepOutcome.Fail("lost", False)])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert hosted.telemetry.all(names.LEFT_IN_PLACE) == [
            {"run_id": run.run_id, "workflow": "order", "steps": ["pack"], "reason": "lost"}
        ]
        assert names.LOG_LEVELS[names.LEFT_IN_PLACE] == "error"
        assert (await hosted.service.incidents(run_id=run.run_id)).items == []
        nothing_left = await hosted.settled(await hosted.start())
        assert (nothing_left.status, nothing_left.left_in_place) == (WorkflowStatus.FAILED, [])
        assert hosted.telemetry.value(names.RUNS_LEFT_IN_PLACE) == 1
        assert len(hosted.telemetry.all(names.LEFT_IN_PLACE)) == 1


async def test_a_failing_undo_is_said_as_its_incident_and_not_twice() -> None:
    calls = Calls(ship=[StepOutcome.Fail("lost", True)], undo_pack=[KeyError("?")])
    async with hosting(saga(calls)) as hosted:
        run = await hosted.settled(await hosted.start())
        assert (run.status, run.left_in_place) == (WorkflowStatus.FAILED, ["pack"])
        assert len(hosted.telemetry.all(names.INCIDENT_OPENED)) == 1
        assert hosted.telemetry.all(names.LEFT_IN_PLACE) == []


async def test_quiet_progress_says_nothing() -> None:
    """No log event a step, a retry, or an undo: they are in the journal."""
    calls = Calls(ship=[StepOutcome.Retry(after_ms=0), StepOutcome.Fail("no", True)])
    async with hosting(saga(calls, workflow("pack", "ship"))) as hosted:
        for _ in range(3):
            await hosted.settled(await hosted.start())
        assert [event for event, _ in hosted.telemetry.events] == [names.HOST_STARTED]


async def test_a_claim_and_a_recovery_are_said_with_the_run(tmp_path: Path) -> None:
    calls, path, clock = Calls(pack=[StepOutcome.Retry(after_ms=900)]), tmp_path / "bext.db", FakeClock()
    async with hosting(saga(calls), path, clock=clock) as hosted:
        run_id = await hosted.start()
        await hosted.until_kind(run_id, "attempt_failed")
        hosted.dies()
    async with jumping(saga(calls), clock, path) as hosted:
        await hosted.settled(run_id)
        assert hosted.telemetry.all(names.RUN_CLAIMED) == [{"run_id": run_id, "workflow": "order", "orphan": True}]
        assert hosted.telemetry.all(names.RUN_RECOVERED) == [{"run_id": run_id, "workflow": "order", "recoveries": 1}]


# The telemetry that is shipped


@pytest.fixture
def logger() -> CapturingLogger:
    return CapturingLogger()


@pytest.fixture
def telemetry(logger: CapturingLogger) -> HostTelemetry:
    return HostTelemetry(
        structlog.wrap_logger(logger, processors=[], wrapper_class=structlog.make_filtering_bound_logger(0))
    )


def test_each_event_is_logged_at_the_level_of_its_table(telemetry: HostTelemetry, logger: CapturingLogger) -> None:
    for event in names.LOG_LEVELS:
        telemetry.log(event, run_id="r-1")
    logged = [(call.kwargs["event"], call.method_name, call.kwargs["run_id"]) for call in logger.calls]
    assert logged == [(event, level, "r-1") for event, level in names.LOG_LEVELS.items()]


def test_every_metric_of_the_table_is_exposed_and_moves(telemetry: HostTelemetry) -> None:
    for name, (form, labels) in names.METRICS.items():
        given = dict.fromkeys(labels, "in_doubt")
        assert telemetry.value(name, **given) == 0
        telemetry.add(name, 2, **given)
        if form == "gauge":
            telemetry.add(name, -1, **given)
        assert telemetry.value(name, **given) == (1 if form == "gauge" else 2)
        assert f"# TYPE {name} {form}" in telemetry.exposition().decode()


def test_two_hosts_in_one_process_count_for_themselves(telemetry: HostTelemetry) -> None:
    other = HostTelemetry(structlog.get_logger())
    telemetry.add(names.RESULTS_DISCARDED)
    assert (telemetry.value(names.RESULTS_DISCARDED), other.value(names.RESULTS_DISCARDED)) == (1, 0)
