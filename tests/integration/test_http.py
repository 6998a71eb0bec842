"""The HTTP API and its client over the real thing: host, service, reference plugin, a store in a file, a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
import msgspec
import pytest
from msgspec.structs import replace

from bext_workflow.app.logs import logger_for
from bext_workflow.app.parts import load
from bext_workflow.client import HttpClient
from bext_workflow.errors import BextError, Conflict, InvalidJson, NotFound, StartKeyReused, UsageError
from bext_workflow.faces.http.app import create_http_app
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.service.protocols import CancelRequest, ResolveRequest, RetryRequest, RunQuery, StartRequest
from bext_workflow.service.service import Service
from tests.unit.http_support import API, served

CONFIG = """\
[host.limits]
context_bytes = 4096

[[plugins]]
name = "workflow-pg"

[[plugins.workflows]]
id = "checkout"
version = 1
steps = [
    { name = "reserve_stock", retries = { backoff_ms = 1, max_backoff_ms = 1 } },
    { name = "charge_card" },
    { name = "send_receipt" },
]
"""

ORDER: JsonObject = {
    "order_id": "o-1",
    "sku": "widget",
    "quantity": 2,
    "payment_method": "pm_ok",
    "email": "ada@example.com",
}
JAMMED = {"sku": "jammed", "payment_method": "pm_declined"}
WAIT_MS = 20_000


class Hosted(NamedTuple):
    """A host in this process: the service itself, the client of its socket, and plain requests to it."""

    service: Service
    client: HttpClient
    http: httpx.AsyncClient

    async def order(self, **changes: Json) -> RunView:
        """An order, at its end."""
        started = await self.client.start(StartRequest(workflow="checkout", context={**ORDER, **changes}))
        return await self.client.result(started.run.run_id, wait_ms=WAIT_MS)


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[Hosted]:
    config = folder / "bext.config.toml"
    config.write_text(CONFIG, encoding="utf-8")
    parts = load(config, degraded=False)
    telemetry = HostTelemetry(logger_for("json", -1))
    host = parts.host(telemetry, parts.settings())
    service = parts.service(host, by="anonymous")
    app = create_http_app(
        runs=service,
        operations=service,
        workflows=parts.catalog(),
        schedules=parts.schedules(service, by="anonymous"),
        host=host,
        metrics=lambda: telemetry.exposition().decode(),
    )
    await parts.store.open(migrate=True)
    try:
        async with (
            host.running(),
            served(app) as server,
            HttpClient(server.url) as client,
            httpx.AsyncClient(base_url=server.url, timeout=30) as http,
        ):
            yield Hosted(service, client, http)
            host.drain()
    finally:
        await parts.store.close()


async def test_an_order_from_its_start_to_its_end(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        started = await at.http.post(f"{API}/runs", json={"workflow": "checkout", "context": ORDER, "tags": {"a": "b"}})
        where = started.headers["location"]
        ended = (await at.http.get(f"{where}/result?wait=20s")).json()
        events = (await at.http.get(f"{where}/events?limit=500")).json()

    assert started.status_code == 201
    assert started.headers["bext-driven"] == "true"
    assert ended["status"] == "COMPLETED"
    assert [(step["step"], step["status"]) for step in ended["steps"]] == [
        ("reserve_stock", "completed"),
        ("charge_card", "completed"),
        ("send_receipt", "completed"),
    ]
    assert ended["context"].keys() == {*ORDER, "reservation_id", "charge_id", "receipt_id"}
    assert events["items"][0]["kind"] == "run_created"
    assert [event["seq"] for event in events["items"]] == list(range(1, len(events["items"]) + 1))
    assert events["next_cursor"] is None


async def test_a_decline_rolls_back(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        run = await at.order(payment_method="pm_declined")

    assert run.status == "COMPENSATED"
    assert run.failure is not None
    assert "card declined" in run.failure


async def test_an_incident_is_seen_and_answered(tmp_path: Path) -> None:
    """P13: the operator's retry starts with the undo that failed."""
    async with hosted(tmp_path) as at:
        run = await at.order(**JAMMED)
        assert run.status == "FAILED"
        (incident,) = (await at.client.incidents(run_id=run.run_id)).items
        assert incident.kind is IncidentKind.COMPENSATION_FAILED
        with pytest.raises(Conflict) as refused:
            await at.client.resolve(incident.id, ResolveRequest(action=Action.DONE, note="no"))
        with pytest.raises(UsageError, match="note"):
            await at.client.resolve(incident.id, ResolveRequest(action=Action.RETRY, note=""))

        accepted = await at.client.resolve(incident.id, ResolveRequest(action=Action.RETRY, note="shelf is free"))
        with anyio.fail_after(20):
            while (again := await at.client.result(run.run_id, wait_ms=WAIT_MS)).status == "FAILED":
                pass  # until the host has taken the answer up
        resolved = await at.client.incident(incident.id)

    assert "retry" in str(refused.value)
    assert (accepted.run_id, accepted.driven) == (run.run_id, True)
    assert again.status == "COMPENSATED"
    assert again.failure == run.failure
    assert resolved.resolution is not None
    assert (resolved.resolution.note, resolved.resolution.by) == ("shelf is free", "anonymous")


async def test_the_client_shows_what_the_service_shows(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        done, failed = await at.order(), await at.order(**JAMMED)
        (incident,) = (await at.service.incidents()).items
        for run in (done, failed):
            assert await at.client.get(run.run_id) == await at.service.get(run.run_id) == run
            assert await at.client.events(run.run_id, after=1) == await at.service.events(run.run_id, after=1)
        assert await at.client.list(RunQuery()) == await at.service.list(RunQuery())
        assert await at.client.incident(incident.id) == incident
        assert await at.client.incidents() == await at.service.incidents()


async def test_errors_over_http_are_those_of_the_service(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        run = await at.order()
        faults = [
            await _fault_of(lambda it: it.get("0190f5fe"), at),
            await _fault_of(lambda it: it.cancel(run.run_id, CancelRequest()), at),
            await _fault_of(lambda it: it.plan_cancel(run.run_id, CancelRequest()), at),
            await _fault_of(lambda it: it.retry(run.run_id, RetryRequest()), at),
            await _fault_of(lambda it: it.incident("nothing"), at),
            await _fault_of(lambda it: it.list(RunQuery(since="yesterday")), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="nothing")), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", version=9)), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", key="k" * 201)), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", context={"a": "x" * 5000})), at),
        ]

    kinds = [NotFound, Conflict, Conflict, Conflict, NotFound, UsageError, NotFound, NotFound, UsageError, InvalidJson]
    assert [type(fault) for fault in faults] == kinds


async def _fault_of(call: Json, at: Hosted) -> BextError:
    """The error of a call, the same straight and over HTTP."""
    with pytest.raises(BextError) as straight:
        await call(at.service)
    with pytest.raises(BextError) as remote:
        await call(at.client)
    assert type(remote.value) is type(straight.value)
    assert (remote.value.message, remote.value.mend) == (straight.value.message, straight.value.mend)
    return remote.value


async def test_a_key_starts_one_run_whatever_became_of_it(tmp_path: Path) -> None:
    request = StartRequest(workflow="checkout", context=ORDER, tags={"a": "b"}, key="süß-1")
    async with hosted(tmp_path) as at:
        first = await at.client.start(request)
        ended = await at.client.result(first.run.run_id, wait_ms=WAIT_MS)
        again = await at.client.start(request)
        for other in (replace(request, context={}), replace(request, tags={})):
            with pytest.raises(StartKeyReused):
                await at.client.start(other)

    assert (first.created, again.created) == (True, False)
    assert first.run.run_id == again.run.run_id
    assert again.run == ended
    assert again.run.key == "süß-1"


async def test_a_hundred_starts_with_one_key_at_once_are_one_run(tmp_path: Path) -> None:
    request = StartRequest(workflow="checkout", context=ORDER, key="k")
    run_ids: set[str] = set()
    created = 0

    async with hosted(tmp_path) as at:

        async def start() -> None:
            nonlocal created
            started = await at.client.start(request)
            run_ids.add(started.run.run_id)
            created += started.created

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(start)

    assert len(run_ids) == 1
    assert created == 1


EXTREMES: JsonObject = {
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "odd": 2**53 + 1,
    "one": 1.0,
    "zero": -0.0,
    "é": "Ω",
}


async def test_a_context_reads_back_equal_and_type_equal(tmp_path: Path) -> None:
    """P47 from the request to the file and back."""
    async with hosted(tmp_path) as at:
        run = await at.order(extremes=EXTREMES)
        text = (await at.http.get(f"{API}/runs/{run.run_id}")).text

    assert run.status == "COMPLETED"
    assert isinstance(run.context, dict)
    assert repr(run.context["extremes"]) == repr(EXTREMES)
    assert '"largest":9223372036854775807' in text
    assert '"odd":9007199254740993' in text


async def test_pages_of_runs_follow_one_another_and_filters_hold(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        done = [(await at.order(order_id=f"o-{number}")).run_id for number in range(5)]
        failed = (await at.order(sku="unknown")).run_id
        pages, cursor = [], None
        while True:
            page = await at.client.list(RunQuery(workflow="checkout", limit=2, cursor=cursor))
            pages.append([run.run_id for run in page.items])
            cursor = page.next_cursor
            if cursor is None:
                break
        by_status = await at.client.list(RunQuery(status=(WorkflowStatus.FAILED, WorkflowStatus.CANCELLED)))

    newest_first = [failed, *reversed(done)]
    assert pages == [newest_first[0:2], newest_first[2:4], newest_first[4:6]]
    assert [run.run_id for run in by_status.items] == [failed]
    assert by_status.items[0].context is msgspec.UNSET


async def test_an_id_may_be_shortened(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        run = await at.order()
        same = await at.client.get(run.run_id[:-4])
        await at.order()
        with pytest.raises(Conflict, match="more than one"):
            await at.client.get(run.run_id[:4])

    assert same == run


async def test_the_host_is_ready_and_measured(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        await at.order(**JAMMED)
        ready, metrics = await at.http.get("/readyz"), await at.http.get("/metrics")
        workflows, plugins = await at.client.workflows(), await at.client.plugins()

    assert ready.json() == {"ready": True, "reasons": []}
    assert 'bext_incidents_open{kind="compensation_failed"} 1.0' in metrics.text
    assert [(view.id, view.version, view.plugin) for view in workflows] == [("checkout", 1, "workflow-pg")]
    assert [(view.name, view.distribution) for view in plugins] == [("workflow-pg", "bext-workflow-pg")]
