"""One act on many runs, over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable, UsageError
from bext_workflow.model.access import person
from bext_workflow.service.administration import BulkAct, BulkQuery, BulkRequest
from bext_workflow.service.bulk import BulkService
from bext_workflow.service.engine import StoreEngine
from bext_workflow.service.protocols import StartRequest
from bext_workflow.service.service import Service
from bext_workflow.testing.clock import FakeClock
from tests.unit.schedules_support import NOON, StrungStore, Work, opened, registry, schedule, services


class Office:
    """Three runs that no host drives yet; the second is paused."""

    def __init__(self, store: StrungStore, service: Service, run_ids: list[str]) -> None:
        self.store = store
        self.service = service
        self.run_ids = run_ids
        self.bulk = BulkService(service=service, who=lambda: person("ada"))

    async def acts(self) -> list[str]:
        return [row.name for row in await self.store.audit(limit=99)]


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    clock = FakeClock(NOON)
    async with opened() as store:
        service, _ = services(store, registry(Work(), schedule()), StoreEngine(store, clock), clock)
        run_ids = [(await service.start(StartRequest(workflow="report"))).run.run_id for _ in range(3)]
        await service.pause(run_ids[1], "have a look")
        yield Office(store, service, run_ids)


async def test_each_run_has_its_own_answer(office: Office) -> None:
    first, second, _ = office.run_ids
    request = BulkRequest(act=BulkAct.PAUSE, runs=[first, second, "0190f5fe", first], reason="the bank is away")

    answer = await office.bulk.bulk(request)

    assert [(item.run_id, item.done, item.problem) for item in answer.items] == [
        (first, True, None),
        (second, False, "conflict"),
        ("0190f5fe", False, "not-found"),
    ]
    assert "paused" in str(answer.items[1].detail)
    assert (answer.dry_run, answer.next_cursor) == (False, None)
    (audit, _) = await office.store.audit(limit=9)
    assert (audit.name, audit.by, audit.run_id, audit.reason) == ("run.pause", "ada", first, "the bank is away")


@pytest.mark.parametrize("act", BulkAct)
async def test_a_rehearsal_says_the_same_and_does_nothing(office: Office, act: BulkAct) -> None:
    request = BulkRequest(act=act, runs=office.run_ids, reason="because")
    before = await office.acts()

    rehearsed = await office.bulk.bulk(request, dry_run=True)
    assert await office.acts() == before
    done = await office.bulk.bulk(request)

    assert (rehearsed.dry_run, done.dry_run) == (True, False)
    assert rehearsed.items == done.items
    assert len(await office.acts()) == len(before) + sum(item.done for item in done.items)


async def test_the_runs_of_a_query_are_taken_page_by_page(office: Office) -> None:
    query = BulkQuery(workflow="report", limit=2)
    first = await office.bulk.bulk(BulkRequest(act=BulkAct.CANCEL, query=query, reason="all of them"))
    rest = await office.bulk.bulk(
        BulkRequest(act=BulkAct.CANCEL, query=replace(query, cursor=first.next_cursor), reason="all of them")
    )

    assert [item.run_id for item in [*first.items, *rest.items]] == office.run_ids[::-1]
    assert rest.next_cursor is None
    none = await office.bulk.bulk(BulkRequest(act=BulkAct.CANCEL, query=BulkQuery(workflow="other")))
    assert none.items == []


@pytest.mark.parametrize(
    "request_",
    [
        BulkRequest(act=BulkAct.CANCEL),
        BulkRequest(act=BulkAct.CANCEL, runs=[]),
        BulkRequest(act=BulkAct.CANCEL, runs=["r"] * 501),
        BulkRequest(act=BulkAct.CANCEL, runs=["r"], query=BulkQuery()),
        BulkRequest(act=BulkAct.CANCEL, query=BulkQuery(limit=0)),
    ],
)
async def test_what_names_no_runs_is_refused(office: Office, request_: BulkRequest) -> None:
    with pytest.raises(UsageError):
        await office.bulk.bulk(request_)


async def test_a_store_that_is_away_is_no_answer_of_a_run(office: Office) -> None:
    await office.store.close()
    with pytest.raises(StoreUnavailable):
        await office.bulk.bulk(BulkRequest(act=BulkAct.CANCEL, runs=office.run_ids))
