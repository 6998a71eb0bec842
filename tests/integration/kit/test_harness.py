"""The harness that authors test their plugins with: the real host, no server, no database, no time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bext_workflow import ScheduleDefinition, StepOutcome, WorkflowRun, WorkflowStatus, hookimpl
from bext_workflow.errors import Conflict, PluginError
from bext_workflow.model.status import Action, IncidentKind
from bext_workflow.testing import Harness, hang, harness
from bext_workflow.testing.pytest_plugin import OpenHarness
from tests.integration.kit.shop import DAY_MS, Shop

FAILING = """\
import asyncio
from tests.integration.kit.shop import Shop

def test_a_run(harness):
    async def act():
        async with harness(Shop()) as at:
            await at.run("order")
    asyncio.run(act())
    assert False
"""
WITH_THE_TESTS = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}

COMPLETED, COMPENSATED, FAILED = WorkflowStatus.COMPLETED, WorkflowStatus.COMPENSATED, WorkflowStatus.FAILED
WAITING, SUSPENDED, RUNNING = WorkflowStatus.WAITING, WorkflowStatus.SUSPENDED, WorkflowStatus.RUNNING


async def approved(at: Harness, run_id: str) -> None:
    await at.settle(run_id)
    await at.approve(run_id)


async def test_a_run_by_the_plugin_alone() -> None:
    shop = Shop()
    async with harness(shop, config={"a": 1}) as at:
        asked = await at.run("order", {"sku": "mug"})
        await at.approve(asked.run_id, comment="as agreed", by="ann")
        history = await at.settle(asked.run_id)

    assert (asked.status, history.status) == (WAITING, COMPLETED)
    assert history.done == ["reserve", "ask", "ship"]
    assert history.undone == []
    assert history.statuses == (RUNNING, WAITING, RUNNING, COMPLETED)
    assert history.context["shipped"] is True
    assert history.context["approved"]["by"] == "ann"
    assert history.kinds[0] == "run_created"
    assert shop.config == {"a": 1}
    assert shop.log == ["reserve", "ship", "complete COMPLETED"]


async def test_what_scripts_say_comes_before_the_plugin() -> None:
    shop = Shop()
    async with harness(shop) as at:
        at.script("reserve", [StepOutcome.Retry(reason="busy"), ConnectionError("gone")])
        began = at.clock.now()
        history = await at.run("order")

    assert history.attempts("reserve") == 3
    assert shop.log == ["reserve"]
    assert at.clock.now() - began == 60_000 + 120_000
    assert "busy" in str(history)


async def test_a_script_may_be_a_function_of_the_run_or_hang() -> None:
    """A hanging attempt ends by its time-out, whose 60 s pass at once."""
    seen: list[int] = []

    def look(run: WorkflowRun) -> StepOutcome:
        seen.append(run.attempt)
        return StepOutcome.Continue({"reservation": "r"})

    async with harness(Shop) as at:
        at.script("reserve", [hang, look])
        history = await at.run("order")

    assert (seen, history.status) == ([2], WAITING)


async def test_three_days_pass_at_once() -> None:
    async with harness(Shop()) as at:
        began, started = at.clock.now(), time.monotonic()
        run_id = await at.start("order")
        history = await at.finish(run_id)
        assert at.clock.now() - began == 3 * DAY_MS
        assert time.monotonic() - started < 20

    assert (history.status, history.undone) == (COMPENSATED, ["reserve"])


async def test_time_passes_up_to_where_a_test_says() -> None:
    async with harness(Shop()) as at:
        run_id = (await at.run("order")).run_id
        await at.advance(days=2, hours=23, minutes=59, seconds=59, milliseconds=999)
        assert (await at.settle(run_id)).status is WAITING
        await at.advance(milliseconds=1)
        assert (await at.settle(run_id)).status is COMPENSATED


async def test_a_schedule_starts_runs_where_a_test_wants_it() -> None:
    class Nightly(Shop):
        @hookimpl
        def schedules(self) -> list[ScheduleDefinition]:
            return [ScheduleDefinition(id="nightly", workflow="order", cron="30 2 * * *", context={"sku": "mug"})]

    async with harness(Nightly, scheduled=True) as at:
        await at.advance(days=2)
        runs = await at.histories()
    async with harness(Nightly) as at:
        await at.advance(days=2)
        assert await at.histories() == []

    assert [(run.status, run.context["sku"]) for run in runs] == [(WAITING, "mug")] * len(runs)
    assert runs[0].run.created_at == "2027-01-16T02:30:00.000Z"


async def test_a_no_undoes() -> None:
    shop = Shop()
    async with harness(shop) as at:
        run_id = (await at.run("order")).run_id
        await at.reject(run_id, comment="too dear")
        history = await at.settle(run_id)

    assert history.status is COMPENSATED
    assert shop.log[1:] == [f"undo reserve of {run_id}:reserve", "complete COMPENSATED"]


async def test_a_cancelled_run() -> None:
    async with harness(Shop()) as at:
        run_id = (await at.run("order")).run_id
        await at.cancel(run_id, "ordered twice")
        history = await at.settle(run_id)
        with pytest.raises(Conflict, match="waits for 0 approvals"):
            await at.approve(run_id)

    assert (history.status, history.undone) == (COMPENSATED, ["reserve"])


async def test_a_crash_takes_what_was_not_durable() -> None:
    """What was durable is not done again."""
    shop = Shop()
    async with harness(shop) as at:
        at.script("ship", [hang])
        run_id = await at.start("order")
        await approved(at, run_id)
        await at.advance(seconds=1)
        await at.crash()
        history = await at.settle(run_id)

    assert history.status is COMPLETED
    assert "recovered" in history.kinds
    assert shop.log == ["reserve", "ship", "complete COMPLETED"]


async def test_an_incident_is_answered() -> None:
    async with harness(Shop()) as at:
        at.script_undo("reserve", [RuntimeError("no such reservation")])
        at.script("ship", [StepOutcome.Fail("no van", compensate=True)])
        run_id = await at.start("order")
        await approved(at, run_id)
        failed = await at.settle(run_id)
        await at.resolve(run_id, Action.RETRY)
        history = await at.settle(run_id)

    (incident,) = failed.incidents
    assert (failed.status, incident.kind) == (FAILED, IncidentKind.COMPENSATION_FAILED)
    assert (history.status, history.incidents, history.failure) == (COMPENSATED, (), "no van")


async def test_on_workflow_complete_can_be_made_to_fail() -> None:
    shop = Shop()
    async with harness(shop) as at:
        at.script_complete("order", [RuntimeError("mail is down")])
        history = await at.run("order", {"sku": "none"})
        await at.advance(minutes=1)

    assert history.status is COMPENSATED
    assert shop.log == ["reserve", "complete COMPENSATED"]


async def test_a_script_for_what_is_not_called_is_refused() -> None:
    async with harness(Shop()) as at:
        with pytest.raises(ValueError, match="did you mean 'reserve'"):
            at.script("reserv", [StepOutcome.Continue()])
        with pytest.raises(ValueError, match="nothing is called for 'ask': there are reserve, ship"):
            at.script("ask", [])


async def test_a_wait_without_an_end_is_named() -> None:
    async with harness(Shop()) as at:
        at.script("reserve", [StepOutcome.Wait(signal="paid")])
        run_id = await at.start("order")
        with pytest.raises(AssertionError, match="'reserve' waits for 'paid', and for no end: send it"):
            await at.finish(run_id)
        await at.signal(run_id, "paid", {"cents": 100})
        history = await at.settle(run_id)

    assert history.context["paid"] == {"cents": 100}


async def test_a_plugin_that_the_host_would_refuse_is_refused() -> None:
    class Nothing:
        pass

    with pytest.raises(PluginError, match=r"Nothing.*has no hook name"):
        async with harness(Nothing):
            pytest.fail("it was taken")


async def test_a_plugin_that_does_not_open_says_so() -> None:
    class Shut(Shop):
        @hookimpl
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            self.connect()
            yield

        def connect(self) -> None:
            raise ConnectionError("no warehouse")

    with pytest.raises(PluginError, match="no warehouse"):
        async with harness(Shut):
            pytest.fail("it was opened")


async def test_what_a_test_raises_comes_out_as_it_is() -> None:
    with pytest.raises(AssertionError, match="so it is"):
        async with harness(Shop()):
            raise AssertionError("so it is")


async def test_the_fixture_opens_the_same(harness: OpenHarness) -> None:
    async with harness(Shop()) as at:
        assert (await at.run("order")).status is WAITING


@pytest.mark.tier("ci")
def test_the_fixture_shows_the_journals_of_a_test_that_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(FAILING, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    said = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=WITH_THE_TESTS).stdout
    shown = said.partition("Captured stdout teardown")[2]
    assert re.search(r"order@1 \S+: WAITING\n.*run created", shown), said
    assert "step completed  reserve" in shown
