"""The HTTP API and its client over the real thing: host, service, reference plugin, a store in a file, a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
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
from bext_workflow.errors import (
    BextError,
    Conflict,
    InvalidJson,
    NotAllowed,
    NotFound,
    StartKeyReused,
    Unauthenticated,
    UsageError,
)
from bext_workflow.faces.http.app import Services, create_http_app
from bext_workflow.host.clock import SystemClock
from bext_workflow.host.host import Host
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.access import ANONYMOUS
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.service.administration import TokenRequest
from bext_workflow.service.caller import acting, current
from bext_workflow.service.protocols import (
    CancelRequest,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
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

[[plugins.workflows]]
id = "approval"
timeout_ms = 3600000
steps = [
    { name = "approve", wait = { signal = "approved", into = "decision" } },
    { name = "reserve_stock" },
    { name = "pay", wait = { signal = "approved", into = "second" } },
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
JSON = {"Content-Type": "application/json"}


class Hosted(NamedTuple):
    """A host in this process: the service itself, the client of its socket, and plain requests to it."""

    service: Service
    client: HttpClient
    http: httpx.AsyncClient
    host: Host

    async def order(self, **changes: Json) -> RunView:
        """An order, at its end."""
        started = await self.client.start(StartRequest(workflow="checkout", context={**ORDER, **changes}))
        return await self.client.result(started.run.run_id, wait_ms=WAIT_MS)

    async def approval(self) -> RunView:
        """A run that waits for its first approval."""
        started = await self.client.start(StartRequest(workflow="approval", context=ORDER))
        return await self.client.result(started.run.run_id, wait_ms=WAIT_MS)

    async def until(self, run_id: str, holds: Callable[[RunView], bool]) -> RunView:
        """The run, once the host has taken up what was asked."""
        with anyio.fail_after(20):
            while True:
                run = await self.client.get(run_id)
                if holds(run):
                    return run


@asynccontextmanager
async def hosted(folder: Path, workflows: str = "", *, host_tables: str = "") -> AsyncIterator[Hosted]:
    """`workflows`: further ones of the plugin, as the config has them; `host_tables`: further tables of the host."""
    config = folder / "bext.config.toml"
    config.write_text(host_tables + CONFIG + workflows, encoding="utf-8")
    parts = load(config, degraded=False, clock=SystemClock())
    telemetry = HostTelemetry(logger_for("json", -1))
    host = parts.host(telemetry, parts.settings())
    service = parts.service(host, who=current)
    given = Services(
        runs=service,
        operations=service,
        workflows=parts.catalog(),
        schedules=parts.schedules(service, who=current),
        approvals=parts.approvals(service, who=current),
        tokens=parts.tokens(who=current),
        audit=parts.audit(service),
        webhooks=parts.webhooks(who=current),
        bulk=parts.bulk(service, who=current),
        hosts=parts.hosts(),
        access=parts.access(),
        host=host,
    )
    app = create_http_app(
        given,
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
            yield Hosted(service, client, http, host)
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
            await _fault_of(lambda it: it.signal(run.run_id, SignalRequest(name="approved")), at),
            await _fault_of(lambda it: it.signal(run.run_id, SignalRequest(name="a b")), at),
            await _fault_of(lambda it: it.pause(run.run_id, ""), at),
            await _fault_of(lambda it: it.resume(run.run_id, ""), at),
            await _fault_of(lambda it: it.incident("nothing"), at),
            await _fault_of(lambda it: it.list(RunQuery(since="yesterday")), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="nothing")), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", version=9)), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", key="k" * 201)), at),
            await _fault_of(lambda it: it.start(StartRequest(workflow="checkout", context={"a": "x" * 5000})), at),
        ]

    assert [type(fault) for fault in faults] == [
        *(NotFound, Conflict, Conflict, Conflict, Conflict, UsageError, Conflict, Conflict),
        *(NotFound, UsageError, NotFound, NotFound, UsageError, InvalidJson),
    ]


async def _fault_of(call: Json, at: Hosted) -> BextError:
    """The error of a call, the same straight and over HTTP."""
    with acting(ANONYMOUS), pytest.raises(BextError) as straight:
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


async def test_signals_end_waits_in_their_order(tmp_path: Path) -> None:
    """P26, P27: two of one name, the second one early; a third that nobody wants stays visible."""
    async with hosted(tmp_path) as at:
        run = await at.approval()
        assert run.status == "WAITING"
        assert [(wait.step, wait.signal, wait.due_at) for wait in run.waits or ()] == [("approve", "approved", None)]
        for name, payload in (("other", None), ("approved", EXTREMES), ("approved", {"n": 2})):
            accepted = await at.client.signal(run.run_id, SignalRequest(name=name, payload=payload))
            listed = (await at.client.get(run.run_id)).signals or []
            assert accepted.driven
            assert (listed[-1].name, listed[-1].payload) == (name, payload)
        ended = await at.until(run.run_id, lambda run: run.status.terminal)
        with pytest.raises(Conflict, match="COMPLETED"):
            await at.client.signal(run.run_id, SignalRequest(name="approved"))

    assert ended.status == "COMPLETED"
    assert isinstance(ended.context, dict)
    assert repr(ended.context["decision"]) == repr(EXTREMES)
    assert ended.context["second"] == {"n": 2}
    assert ended.waits == []
    assert [(one.name, one.state) for one in ended.signals or ()] == [
        ("other", "kept"),
        ("approved", "taken"),
        ("approved", "taken"),
    ]


async def test_a_hundred_signals_with_one_id_at_once_are_one(tmp_path: Path) -> None:
    """P26."""
    async with hosted(tmp_path) as at:
        run = await at.approval()
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(at.client.signal, run.run_id, SignalRequest(name="approved", id="s-1"))
        waiting = await at.until(run.run_id, lambda run: [wait.step for wait in run.waits or ()] == ["pay"])

    assert [(one.id, one.state) for one in waiting.signals or ()] == [("s-1", "taken")]


async def test_a_paused_run_takes_signals_and_starts_nothing(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        run = await at.approval()
        await at.client.pause(run.run_id, "audit")
        held = await at.until(run.run_id, lambda run: run.holds == ["paused"])
        await at.client.signal(run.run_id, SignalRequest(name="approved"))
        told = await at.until(run.run_id, lambda run: [one.state for one in run.signals or ()] != ["waiting"])
        await at.client.resume(run.run_id, "audited")
        waiting = await at.until(run.run_id, lambda run: [wait.step for wait in run.waits or ()] == ["pay"])
        events = (await at.client.events(run.run_id)).items

    assert (held.status, told.status, waiting.status) == ("SUSPENDED", "SUSPENDED", "WAITING")
    assert "reserve_stock" not in {step.step for step in told.steps or () if step.ended_at}
    assert waiting.holds == []
    assert [(event.data["by"], event.data["reason"]) for event in events if event.kind.startswith("run_pau")] == [
        ("anonymous", "audit")
    ]


async def test_what_is_no_signal_is_refused_at_the_door(tmp_path: Path) -> None:
    """Semantics §9: payloads are 64 KiB at most."""
    async with hosted(tmp_path) as at:
        run = await at.approval()
        where = f"{API}/runs/{run.run_id}/signals"
        large = await at.http.post(f"{where}/approved", json={"payload": ["x" * 65_536]})
        named = await at.http.post(f"{where}/a%20b", json={})
        beyond = await at.http.post(f"{where}/approved", content=b'{"payload":9223372036854775808}', headers=JSON)
        after = await at.client.get(run.run_id)

    assert [answer.status_code for answer in (large, named, beyond)] == [422, 400, 422]
    assert beyond.json()["errors"][0]["pointer"] == "#/payload"
    assert after.signals == []


async def test_lists_are_without_waits_and_signals(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        await at.approval()
        (listed,) = (await at.client.list(RunQuery(status=(WorkflowStatus.WAITING,)))).items

    assert (listed.waits, listed.signals, listed.holds) == (msgspec.UNSET, msgspec.UNSET, msgspec.UNSET)


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
    assert [(view.id, view.version, view.plugin, view.timeout_ms) for view in workflows] == [
        ("approval", 1, "workflow-pg", 3_600_000),
        ("checkout", 1, "workflow-pg", 0),
    ]
    assert [(view.name, view.distribution) for view in plugins] == [("workflow-pg", "bext-workflow-pg")]


async def test_a_token_may_what_its_scopes_say_and_is_named_in_the_run(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        made = await at.client.create_token(TokenRequest(name="shop", scopes=["start:checkout", "view"]))
        admin = await at.client.create_token(TokenRequest(name="boss", scopes=["admin"]))
        url = str(at.http.base_url)
        await until_refused(at.client)
        async with HttpClient(url, made.token) as shop, HttpClient(url, admin.token) as boss:
            started = await shop.start(StartRequest(workflow="checkout", context=ORDER))
            with pytest.raises(NotAllowed, match="token:shop lacks the scope 'start:approval'"):
                await shop.start(StartRequest(workflow="approval", context=ORDER))
            with pytest.raises(NotAllowed, match="lacks the scope 'signal:"):
                await shop.signal(started.run.run_id, SignalRequest(name="approved"))
            with pytest.raises(NotAllowed, match="lacks the scope 'operate'"):
                await shop.cancel(started.run.run_id, CancelRequest())
            asked = await boss.start(StartRequest(workflow="approval", context=ORDER))
            await boss.pause(asked.run.run_id, "have a look")
            (begun,) = (await boss.events(asked.run.run_id, limit=1)).items
            assert begun.data["by"] == "token:boss"

            await boss.revoke_token("shop", "it leaked")
            assert "'shop' is revoked" in await until_refused(shop)


async def until_refused(client: HttpClient) -> str:
    """What the host says once it has seen what has become of the tokens."""
    with anyio.fail_after(20):
        while True:
            try:
                await client.workflows()
            except Unauthenticated as refused:
                return refused.message


async def test_a_run_is_followed_to_its_end_and_its_changes_are_told(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at, at.http.stream("GET", f"{API}/events/stream") as changes:
        run = await at.order()
        async with at.http.stream("GET", f"{API}/runs/{run.run_id}/events/stream") as stream:
            told = [line.removeprefix("event: ") async for line in stream.aiter_lines() if line.startswith("event: ")]
        journal = [event.kind for event in (await at.client.events(run.run_id)).items]
        assert told == [*journal, "end"]
        assert [event.kind async for event in at.client.follow(run.run_id, after=1)] == journal[1:]

        with anyio.fail_after(20):
            async for line in changes.aiter_lines():
                if line.startswith("data: ") and json.loads(line.removeprefix("data: "))["status"] == "COMPLETED":
                    break


async def test_a_host_tells_who_it_is_and_how_much_there_is_to_do(tmp_path: Path) -> None:
    async with hosted(tmp_path) as at:
        await at.approval()
        await at.order(**JAMMED)
        (driver,) = await at.client.hosts()
        stats = await at.client.stats()

    assert (driver.host_id, driver.serves, driver.only) == (at.host.host_id, ["approval@1", "checkout@1"], None)
    assert [(live.workflow, live.version, live.runs) for live in stats.live] == [("approval", 1, 1)]
    assert [(count.kind, count.open) for count in stats.incidents] == [(IncidentKind.COMPENSATION_FAILED, 1)]
    assert stats.hosts == 1
