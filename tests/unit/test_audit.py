"""The audit as it is listed, over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from bext_workflow.errors import NotFound, UsageError
from bext_workflow.model.view import AuditView, instant
from bext_workflow.service.administration import AuditQuery
from bext_workflow.service.audit import AuditService
from bext_workflow.service.engine import StoreEngine
from bext_workflow.service.protocols import CancelRequest, StartRequest
from bext_workflow.testing.clock import FakeClock
from tests.unit.schedules_support import NOON, Work, opened, registry, schedule, services

HOURLY = schedule()


@pytest.fixture
async def audit() -> AsyncIterator[AuditService]:
    """A schedule has been paused and let go on, and a run cancelled, a second apart."""
    clock = FakeClock(NOON)
    async with opened() as store:
        service, schedules = services(store, registry(Work(), HOURLY), StoreEngine(store, clock), clock)
        await schedules.pause_schedule("hourly", "the ledger moves")
        clock.advance(1_000)
        await schedules.resume_schedule("hourly", "it has moved")
        clock.advance(1_000)
        started = await service.start(StartRequest(workflow="report"))
        await service.cancel(started.run.run_id, CancelRequest(reason="ordered twice"))
        yield AuditService(store=store, service=service)


async def acts(audit: AuditService, query: AuditQuery) -> list[str]:
    return [act.act for act in (await audit.audit(query)).items]


async def test_an_act_tells_who_what_why_and_what_was_before_and_after(audit: AuditService) -> None:
    cancelled, _, paused = (await audit.audit(AuditQuery())).items

    assert cancelled.run_id is not None
    assert cancelled == AuditView(
        id=cancelled.id,
        at=instant(NOON + 2_000),
        by="ada",
        act="run.cancel",
        run_id=cancelled.run_id,
        about=None,
        reason="ordered twice",
        data={
            "before": {"status": "PENDING"},
            "after": {"status": "PENDING"},
            "asked": {"reason": "ordered twice", "compensate": True, "now": False},
        },
    )
    assert (paused.act, paused.run_id, paused.about) == ("schedule.pause", None, "schedule:hourly")
    assert paused.data == {"before": {"paused": False}, "after": {"paused": True}}


async def test_what_is_asked_for_is_listed(audit: AuditService) -> None:
    newest, *_ = (await audit.audit(AuditQuery())).items

    assert await acts(audit, AuditQuery(run_id=str(newest.run_id)[:30])) == ["run.cancel"]
    assert await acts(audit, AuditQuery(about="schedule:hourly")) == ["schedule.resume", "schedule.pause"]
    assert await acts(audit, AuditQuery(act="schedule.pause", by="ada")) == ["schedule.pause"]
    assert await acts(audit, AuditQuery(by="bob")) == []
    since, until = instant(NOON + 1_000), instant(NOON + 2_000)
    assert await acts(audit, AuditQuery(since=since, until=until)) == ["schedule.resume"]


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_pages_lead_through_the_whole_audit(audit: AuditService, oldest_first: bool) -> None:
    query = AuditQuery(limit=2, oldest_first=oldest_first)
    first = await audit.audit(query)
    rest = await audit.audit(replace(query, cursor=first.next_cursor))

    listed = [act.act for act in [*first.items, *rest.items]]
    everything = ["schedule.pause", "schedule.resume", "run.cancel"]
    assert listed == (everything if oldest_first else everything[::-1])
    assert rest.next_cursor is None


@pytest.mark.parametrize("query", [AuditQuery(cursor="x"), AuditQuery(cursor="9" * 30), AuditQuery(limit=0)])
async def test_what_asks_for_nothing_that_there_is(audit: AuditService, query: AuditQuery) -> None:
    with pytest.raises(UsageError):
        await audit.audit(query)


async def test_a_run_that_is_not_there(audit: AuditService) -> None:
    with pytest.raises(NotFound):
        await audit.audit(AuditQuery(run_id="0190f5fe"))
