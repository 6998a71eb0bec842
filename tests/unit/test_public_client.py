"""`Client`: plain arguments become the requests of the protocols, lists are whole, waits have no bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from bext_workflow.client import (
    Action,
    BulkAct,
    BulkQuery,
    Client,
    Conflict,
    DeliveryState,
    IncidentKind,
    NotFound,
    Unavailable,
    WebhookEvent,
    WorkflowStatus,
)
from bext_workflow.model.view import Page, RunView
from bext_workflow.service.administration import AuditQuery, BulkRequest, DeliveryQuery, TokenRequest, WebhookRequest
from bext_workflow.service.protocols import (
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ForkRequest,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
from tests.unit.http_support import (
    AUDIT_VIEW,
    DELIVERY_VIEW,
    NOW,
    TOKEN,
    TOKEN_VIEW,
    URL,
    MemoryService,
    app_over,
    run_view,
)


class PagedService(MemoryService):
    """Its lists have two pages."""

    async def list(self, query: RunQuery) -> Page[RunView]:
        self._ask("list", query)
        number = 1 if query.cursor is None else 2
        return Page(items=[run_view(f"r-{number}")], next_cursor="more" if number == 1 else None)


@pytest.fixture
def service() -> PagedService:
    service = PagedService()
    service.add(run_view("r-1"))
    return service


@pytest.fixture
async def client(service: PagedService) -> AsyncIterator[Client]:
    async with Client(URL, transport=httpx.ASGITransport(app_over(service))) as client:
        yield client


ACTS: dict[str, tuple[Callable[[Client], Awaitable[object]], tuple[str, object]]] = {
    "start": (
        lambda it: it.start("checkout", {"n": 2**60}, version=1, tags={"a": "b"}, key="k"),
        ("start", StartRequest(workflow="checkout", version=1, context={"n": 2**60}, tags={"a": "b"}, key="k")),
    ),
    "get": (lambda it: it.get("r-1"), ("get", "r-1")),
    "why": (lambda it: it.why("r-1"), ("why", "r-1")),
    "signal": (
        lambda it: it.signal("r-1", "approved", [1.0], id="s"),
        ("signal", ("r-1", SignalRequest(name="approved", payload=[1.0], id="s"))),
    ),
    "cancel": (
        lambda it: it.cancel("r-1", "twice", compensate=False, now=True),
        ("cancel", ("r-1", CancelRequest(reason="twice", compensate=False, now=True))),
    ),
    "plan_cancel": (
        lambda it: it.plan_cancel("r-1", compensate=False),
        ("plan_cancel", ("r-1", CancelRequest(compensate=False))),
    ),
    "retry": (
        lambda it: it.retry("r-1", "mended", step="pay", new_visit=True),
        ("retry", ("r-1", RetryRequest(reason="mended", step="pay", new_visit=True))),
    ),
    "fork": (
        lambda it: it.fork("r-1", step="pay", reason="why", key="k"),
        ("fork", ("r-1", ForkRequest(step="pay", reason="why", key="k"))),
    ),
    "bulk": (
        lambda it: it.bulk(BulkAct.PAUSE, query=BulkQuery(workflow="checkout"), reason="r", dry_run=True),
        ("bulk", (BulkRequest(act=BulkAct.PAUSE, query=BulkQuery(workflow="checkout"), reason="r"), True)),
    ),
    "bulk of a list": (
        lambda it: it.bulk(BulkAct.CANCEL, ("r-1", "r-2")),
        ("bulk", (BulkRequest(act=BulkAct.CANCEL, runs=["r-1", "r-2"]), False)),
    ),
    "pause": (lambda it: it.pause("r-1", "look"), ("pause", ("r-1", "look"))),
    "resume": (lambda it: it.resume("r-1"), ("resume", ("r-1", ""))),
    "incident": (lambda it: it.incident("i-1"), ("incident", "i-1")),
    "resolve": (
        lambda it: it.resolve("i-1", Action.DONE, "seen", context_updates={"c": 1}, next="end", undo_data=7),
        (
            "resolve",
            ("i-1", ResolveRequest(action=Action.DONE, note="seen", context_updates={"c": 1}, next="end", undo_data=7)),
        ),
    ),
    "approve": (
        lambda it: it.approve("r-1:ask", comment="ok", form={"n": 1}),
        ("decide", ("r-1:ask", DecideRequest(approved=True, comment="ok", form={"n": 1}))),
    ),
    "reject": (lambda it: it.reject("r-1:ask"), ("decide", ("r-1:ask", DecideRequest(approved=False)))),
    "complete": (
        lambda it: it.complete(TOKEN, 1, approved=True, comment="c"),
        ("complete", (TOKEN, CompleteRequest(payload=1, approved=True, comment="c"))),
    ),
    "workflows": (lambda it: it.workflows(), ("workflows", None)),
    "hosts": (lambda it: it.hosts(), ("hosts", None)),
    "stats": (lambda it: it.stats(), ("stats", None)),
    "plugins": (lambda it: it.plugins(), ("plugins", None)),
    "schedules": (lambda it: it.schedules(), ("schedules", None)),
    "pause_schedule": (lambda it: it.pause_schedule("nightly", "why"), ("pause_schedule", ("nightly", "why"))),
    "tokens": (lambda it: it.tokens(), ("tokens", None)),
    "create_token": (
        lambda it: it.create_token("ci", ["view"], roles=["ops"], expires_in_ms=None, reason="why"),
        ("create_token", TokenRequest(name="ci", scopes=["view"], roles=["ops"], expires_in_ms=None, reason="why")),
    ),
    "webhooks": (lambda it: it.webhooks(), ("webhooks", None)),
    "create_webhook": (
        lambda it: it.create_webhook("https://h/", events=[WebhookEvent.RUN_FAILED], workflows=["w"], reason="r"),
        (
            "create_webhook",
            WebhookRequest(url="https://h/", events=[WebhookEvent.RUN_FAILED], workflows=["w"], reason="r"),
        ),
    ),
    "remove_webhook": (lambda it: it.remove_webhook("w", "r"), ("remove_webhook", ("w", "r"))),
    "redeliver": (lambda it: it.redeliver("d"), ("redeliver", ("d", ""))),
    "revoke_token": (lambda it: it.revoke_token("ci", "lost"), ("revoke_token", ("ci", "lost"))),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_call_asks_for_what_was_said(client: Client, service: PagedService, act: str) -> None:
    call, wanted = ACTS[act]
    await call(client)
    assert service.asked[0] == wanted


async def test_what_a_call_gives_and_raises(client: Client) -> None:
    started = await client.start("checkout", {"f": 1.0})
    assert (started.created, repr(started.run.context)) == (True, "{'f': 1.0}")
    assert (await client.create_token("ci", ["view"])).made == TOKEN_VIEW
    with pytest.raises(NotFound):
        await client.get("nothing")
    with pytest.raises(Conflict):
        await client.resume_schedule("nightly")


async def test_a_list_is_all_of_it_page_by_page(client: Client, service: PagedService) -> None:
    status = [WorkflowStatus.FAILED]
    found = client.runs(
        workflow="checkout",
        version=1,
        status=status,
        tags={"a": "b"},
        since=NOW,
        until=NOW,
        incident=IncidentKind.IN_DOUBT,
    )
    assert [run.run_id async for run in found] == ["r-1", "r-2"]

    first, second = [asked for _, asked in service.asked]
    assert first == RunQuery(
        workflow="checkout",
        version=1,
        status=(WorkflowStatus.FAILED,),
        tags={"a": "b"},
        since=NOW,
        until=NOW,
        incident=IncidentKind.IN_DOUBT,
        limit=500,
    )
    assert second == RunQuery(**{name: getattr(first, name) for name in first.__struct_fields__} | {"cursor": "more"})


async def test_a_page_that_nobody_needs_is_not_asked_for(client: Client, service: PagedService) -> None:
    async for _ in client.runs():
        break
    assert len(service.asked) == 1


async def test_a_journal_is_read_from_where_it_was_left(client: Client, service: PagedService) -> None:
    assert [event.seq async for event in client.events("r-1", after=2)] == [3, 4, 5]
    assert [asked for _, asked in service.asked] == [("r-1", 2, 500), ("r-1", 5, 500)]


async def test_what_waits_for_a_person_is_listed(client: Client, service: PagedService) -> None:
    assert [one.id async for one in client.incidents(run_id="r-1", open_only=False)] == ["i-1"]
    async for approval in client.approvals(run_id="r-1"):
        assert approval.run_id == "r-1"
        break
    async for act in client.audit(run_id="r-1", by="ada", act="run.cancel", oldest_first=True):
        assert act == AUDIT_VIEW
        break
    async for delivery in client.deliveries(webhook_id="w", run_id="r-1", state=DeliveryState.FAILED):
        assert delivery == DELIVERY_VIEW
        break
    assert service.asked == [
        ("incidents", ("r-1", False, 500, None)),
        ("approvals", ("r-1", True, 500, None)),
        ("audit", AuditQuery(run_id="r-1", by="ada", act="run.cancel", oldest_first=True, limit=500)),
        ("deliveries", DeliveryQuery(webhook_id="w", run_id="r-1", state=DeliveryState.FAILED, limit=500)),
    ]


@pytest.mark.parametrize("ending", [WorkflowStatus.COMPLETED, WorkflowStatus.SUSPENDED, WorkflowStatus.WAITING])
async def test_a_result_is_waited_for_as_long_as_it_takes(ending: WorkflowStatus) -> None:
    waits = []

    def answer(request: httpx.Request) -> httpx.Response:
        waits.append(request.url.params["wait"])
        status = ending if len(waits) == 3 else WorkflowStatus.RUNNING
        view = {"run_id": "r-1", "workflow": "c", "version": 1, "status": status, "step": None}
        return httpx.Response(200, json={**view, "created_at": NOW, "updated_at": NOW})

    async with Client(URL, transport=httpx.MockTransport(answer)) as client:
        run = await client.result("r-1")
        waits.clear()
        bounded = await client.result("r-1", wait_ms=0)

    assert (run.status, bounded.status) == (ending, WorkflowStatus.RUNNING)
    assert waits == ["0ms"]


def stream_of(*seqs: int, last: str = "") -> httpx.Response:
    lines = [
        f'event: step_completed\nid: {seq}\ndata: {{"seq":{seq},"at":"{NOW}","kind":"step_completed","data":{{}}}}\n\n'
        for seq in seqs
    ]
    farewell = f"event: {last}\ndata: {{}}\n\n" if last else ""
    text = "retry: 2000\n\n: ping\n\n" + "".join(lines) + farewell
    return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


async def followed(*answers: httpx.Response | httpx.TransportError) -> tuple[list[int], list[str]]:
    """The events that came by these answers, one after the other, and from where on each was asked for."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["last-event-id"])
        found = answers[min(len(asked), len(answers)) - 1]
        if isinstance(found, httpx.TransportError):
            raise found
        return found

    async with Client(URL, transport=httpx.MockTransport(answer)) as client:
        return [event.seq async for event in client.follow("r-1")], asked


@pytest.fixture
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bext_workflow.client.remote.RETRY_WAITS_S", (0.0, 0.0))


@pytest.mark.usefixtures("_no_waits")
async def test_a_run_is_followed_over_hosts_that_come_and_go() -> None:
    seen, asked = await followed(
        stream_of(1, 2, last="bye"), httpx.ConnectError("refused"), stream_of(3), stream_of(4, last="end")
    )
    assert (seen, asked) == ([1, 2, 3, 4], ["0", "2", "2", "3"])


@pytest.mark.usefixtures("_no_waits")
@pytest.mark.parametrize("answer", [httpx.ConnectError("refused"), stream_of(last="bye")], ids=["nobody", "bye"])
async def test_a_host_that_is_gone_ends_it(answer: httpx.Response | httpx.TransportError) -> None:
    with pytest.raises(Unavailable, match=URL):
        await followed(answer)


async def test_following_what_is_not_there_is_an_error(client: Client) -> None:
    with pytest.raises(NotFound):
        await anext(aiter(client.follow("nothing")))
