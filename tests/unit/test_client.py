"""The client over the face in this process: a caller cannot tell it from the service itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from bext_workflow.client import HttpClient
from bext_workflow.errors import (
    BextError,
    Conflict,
    Gone,
    InvalidJson,
    NotAllowed,
    NotFound,
    StartKeyReused,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from bext_workflow.faces.http.app import HttpApp, Services, create_http_app
from bext_workflow.model.access import ANONYMOUS
from bext_workflow.model.json import Json
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.webhook import DeliveryState, WebhookEvent
from bext_workflow.service.administration import AuditQuery, DeliveryQuery, TokenRequest, WebhookRequest
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
    WEBHOOK_VIEW,
    MemoryService,
    app_over,
    each_error,
    run_view,
)


@pytest.fixture
def service() -> MemoryService:
    service = MemoryService()
    service.add(run_view("r-1", context={"big": 2**60, "whole": 1.0}))
    return service


@pytest.fixture
async def client(service: MemoryService) -> AsyncIterator[HttpClient]:
    async with client_of(app_over(service)) as client:
        yield client


def client_of(app: HttpApp) -> HttpClient:
    return HttpClient(URL, transport=httpx.ASGITransport(app))


EVERY_QUERY = RunQuery(
    workflow="checkout",
    version=2,
    status=(WorkflowStatus.FAILED, WorkflowStatus.SUSPENDED),
    tags={"shop": "north east", "q": "a=b&c"},
    since="2026-01-01T00:00:00+01:00",
    until="2026-02-01T00:00:00Z",
    incident=IncidentKind.IN_DOUBT,
    limit=7,
    cursor="a/b+c=",
)
RESOLVE = ResolveRequest(action=Action.DONE, note="Ω", context_updates={"n": 2**60}, next="end", undo_data=[1, None])
SIGNAL = SignalRequest(name="app.roved-1", payload={"n": 2**60, "f": 1.0, "é": [None, "Ω"]}, id="süß / 1")

CALLS: dict[str, Callable[[MemoryService | HttpClient], Awaitable[Json]]] = {
    "get": lambda it: it.get("r-1"),
    "list": lambda it: it.list(RunQuery()),
    "list with every filter": lambda it: it.list(EVERY_QUERY),
    "events": lambda it: it.events("r-1"),
    "events after": lambda it: it.events("r-1", after=2, limit=2),
    "result": lambda it: it.result("r-1"),
    "why": lambda it: it.why("r-1"),
    "cancel": lambda it: it.cancel("r-1", CancelRequest(reason="typo", compensate=False, now=True)),
    "plan_cancel": lambda it: it.plan_cancel("r-1", CancelRequest(reason="typo")),
    "retry": lambda it: it.retry("r-1", RetryRequest(reason="fixed", step="a", new_visit=True)),
    "signal": lambda it: it.signal("r-1", SIGNAL),
    "pause": lambda it: it.pause("r-1", "audit Ω"),
    "resume": lambda it: it.resume("r-1", ""),
    "incidents": lambda it: it.incidents(),
    "incidents of a run": lambda it: it.incidents(run_id="r-1", open_only=False, limit=3, cursor="c d"),
    "incident": lambda it: it.incident("i-1"),
    "resolve": lambda it: it.resolve("i-1", RESOLVE),
    "approvals": lambda it: it.approvals(),
    "approvals of a run": lambda it: it.approvals(run_id="r-1", open_only=False, limit=3, cursor="c d"),
    "complete": lambda it: it.complete(TOKEN, CompleteRequest(payload={"n": 2**60}, approved=False, comment="Ω")),
    "workflows": lambda it: it.workflows(),
    "plugins": lambda it: it.plugins(),
    "an id that is no id": lambda it: it.events("Ω?#x%2F y"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_gives_what_the_service_gives_and_asks_the_same(
    client: HttpClient, service: MemoryService, name: str
) -> None:
    """P47 for what the views hold: equal and type-equal."""
    call = CALLS[name]
    expected = await call(service)
    asked, service.asked = service.asked, []

    given = await call(client)

    assert given == expected
    assert repr(given) == repr(expected)
    assert service.asked == asked


async def test_a_fork_is_a_start(client: HttpClient, service: MemoryService) -> None:
    request = ForkRequest(at=3, reason="Ω", key="süß 1")
    first, again = await client.fork("r-1", request), await client.fork("r-1", request)
    assert (first.created, again.created) == (True, False)
    assert service.asked[0] == ("fork", ("r-1", request))


async def test_a_decision_is_handed_on_as_it_is(client: HttpClient, service: MemoryService) -> None:
    request = DecideRequest(approved=True, comment="süß", form={"budget": 2**60})
    await client.decide("r-1:ask[3]#2", request)
    assert service.asked == [("decide", ("r-1:ask[3]#2", request))]


async def test_tokens_are_made_listed_and_revoked(client: HttpClient, service: MemoryService) -> None:
    request = TokenRequest(name="ci", scopes=["start:checkout", "view"], roles=["finance"], expires_in_ms=None)
    made = await client.create_token(request)
    assert (made.token, made.made) == ("bext_text", TOKEN_VIEW)
    assert list(await client.tokens()) == [await client.revoke_token("ci", "lost")] == [TOKEN_VIEW]
    assert service.asked == [("create_token", request), ("tokens", None), ("revoke_token", ("ci", "lost"))]


async def test_the_audit_is_asked_for_what_was_said(client: HttpClient, service: MemoryService) -> None:
    query = AuditQuery(run_id="r-1", by="token:ci", act="run.cancel", since=NOW, oldest_first=True, limit=9, cursor="3")
    page = await client.audit(query)
    await client.audit(AuditQuery())
    assert (page.items, page.next_cursor) == ([AUDIT_VIEW], "7")
    assert service.asked == [("audit", query), ("audit", AuditQuery())]


async def test_webhooks_are_made_listed_removed_and_told_again(client: HttpClient, service: MemoryService) -> None:
    request = WebhookRequest(url="https://hooks.example/", events=[WebhookEvent.RUN_FAILED], workflows=["checkout"])
    made = await client.create_webhook(request)
    assert (made.secret, made.made) == ("whsec_c2VjcmV0", WEBHOOK_VIEW)
    assert list(await client.webhooks()) == [await client.remove_webhook("0193", "moved")]
    query = DeliveryQuery(webhook_id="0193", run_id="r-1", state=DeliveryState.FAILED, limit=3, cursor="c")
    assert (await client.deliveries(query)).items == [await client.redeliver("d-1", "again")] == [DELIVERY_VIEW]
    assert service.asked == [
        ("create_webhook", request),
        ("webhooks", None),
        ("remove_webhook", ("0193", "moved")),
        ("deliveries", query),
        ("redeliver", ("d-1", "again")),
    ]


async def test_hosts_and_what_there_is_to_do(client: HttpClient, service: MemoryService) -> None:
    assert [host.serves for host in await client.hosts()] == [["checkout@1"]]
    assert (await client.stats()).hosts == 1
    assert service.asked == [("hosts", None), ("stats", None)]


async def test_who_is_not_known_is_told_so(client: HttpClient, service: MemoryService) -> None:
    service.callers["t"] = ANONYMOUS
    with pytest.raises(Unauthenticated, match="nobody knows who you are"):
        await client.get("r-1")


async def test_a_token_that_is_used_up_is_gone(client: HttpClient) -> None:
    with pytest.raises(Gone):
        await client.complete("other", CompleteRequest(approved=True))


async def test_a_start_says_whether_it_made_the_run(client: HttpClient, service: MemoryService) -> None:
    request = StartRequest(workflow="checkout", version=3, context={"n": 2**60}, tags={"a": "b"}, key="süß 1")

    first, again = await client.start(request), await client.start(request)

    assert (first.created, again.created) == (True, False)
    assert first.run == again.run == await service.get(first.run.run_id)
    assert service.asked[0] == ("start", request)


@pytest.mark.parametrize("driven", [True, False])
async def test_a_start_says_whether_a_host_drives_it(client: HttpClient, service: MemoryService, driven: bool) -> None:
    service.driven = driven

    assert (await client.start(StartRequest(workflow="checkout"))).driven is driven


async def test_a_start_without_a_key_is_given_one_of_its_own(client: HttpClient) -> None:
    first, second = [await client.start(StartRequest(workflow="checkout")) for _ in range(2)]

    assert first.created
    assert second.created
    assert first.run.key
    assert second.run.key
    assert first.run.key != second.run.key


async def test_the_same_key_with_another_start_is_a_conflict(client: HttpClient) -> None:
    await client.start(StartRequest(workflow="checkout", key="k"))

    with pytest.raises(StartKeyReused, match="belongs to another start"):
        await client.start(StartRequest(workflow="checkout", context={"a": 1}, key="k"))


@pytest.mark.parametrize("key", ["", "two\nlines", " around ", "a\x7fb", "\ud800"])
async def test_a_key_that_no_header_carries_is_refused(client: HttpClient, service: MemoryService, key: str) -> None:
    with pytest.raises(UsageError, match="start key"):
        await client.start(StartRequest(workflow="checkout", key=key))
    assert service.asked == []


@pytest.mark.parametrize("value", [float("nan"), 2**63, b"bytes", (1, 2), {1: 2}, "\ud800", "\0"])
async def test_what_is_no_json_is_refused_before_it_is_sent(
    client: HttpClient, service: MemoryService, value: Json
) -> None:
    """P46: never sent as something else."""
    with pytest.raises(InvalidJson, match=r"^\$\.context\.a"):
        await client.start(StartRequest(workflow="checkout", context={"a": value}))
    assert service.asked == []


@pytest.mark.parametrize("error", each_error(), ids=lambda error: error.slug)
async def test_an_error_arrives_as_the_one_that_was_raised(
    client: HttpClient, service: MemoryService, error: BextError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bext_workflow.client.wire.RETRY_WAITS_S", ())
    service.fault = error

    with pytest.raises(BextError) as caught:
        await client.get("r-1")

    assert type(caught.value) is type(error)
    assert (caught.value.message, caught.value.mend) == (error.message, error.mend)


async def test_an_invalid_value_keeps_its_path(client: HttpClient, service: MemoryService) -> None:
    service.fault = InvalidJson("nan is not a JSON number", path="$.items[3].price", mend="send a number")

    with pytest.raises(InvalidJson) as caught:
        await client.get("r-1")

    assert (caught.value.path, caught.value.reason) == ("$.items[3].price", "nan is not a JSON number")


async def test_problems_of_the_face_alone_are_errors_too(service: MemoryService) -> None:
    app = app_over(service, max_body_bytes=100)
    async with client_of(app) as client:
        with pytest.raises(UsageError, match="over the limit of 100 bytes"):
            await client.start(StartRequest(workflow="checkout", context={"a": "x" * 100}))
    async with HttpClient("http://evil.example", transport=httpx.ASGITransport(app)) as client:
        with pytest.raises(UsageError, match=r"evil\.example"):
            await client.plugins()


async def test_an_unexpected_error_of_the_host_is_one_clear_error(client: HttpClient, service: MemoryService) -> None:
    service.fault = ZeroDivisionError("a secret")

    with pytest.raises(BextError, match="unexpected error") as caught:
        await client.get("r-1")

    assert type(caught.value) is BextError
    assert "secret" not in str(caught.value)


async def test_a_conflict_says_what_is_allowed(client: HttpClient) -> None:
    with pytest.raises(Conflict) as caught:
        await client.resolve("i-1", ResolveRequest(action=Action.SKIP, note="no"))

    assert caught.value.mend == "one of done, not_done, fail, fail_undo"


async def test_a_signal_is_given_an_id_so_that_it_may_be_sent_again(service: MemoryService) -> None:
    """P26: a connection that breaks before the answer neither loses the signal nor sends two."""
    through = httpx.ASGITransport(app_over(service))
    sent: list[bytes] = []

    async def breaks_first(request: httpx.Request) -> httpx.Response:
        sent.append(await request.aread())
        response = await through.handle_async_request(request)
        if len(sent) == 1:
            raise httpx.ReadError("connection reset")
        return response

    async with HttpClient(URL, transport=httpx.MockTransport(breaks_first)) as client:
        await client.signal("r-1", SignalRequest(name="approved"))
        await client.signal("r-1", SignalRequest(name="approved"))

    first, again, other = (signal.id for signal in service.signals)
    assert first == again
    assert first
    assert other not in (None, first)
    assert sent[0] == sent[1]


@pytest.mark.parametrize("act", ["pause", "resume"])
async def test_a_hold_is_never_sent_twice(service: MemoryService, act: str) -> None:
    """The second would be refused, for the first."""
    sent = []

    def breaks(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        raise httpx.ReadError("connection reset")

    async with HttpClient(URL, transport=httpx.MockTransport(breaks)) as client:
        with pytest.raises(Unavailable, match="does not answer") as caught:
            await getattr(client, act)("r-1", "audit")
    assert len(sent) == 1
    assert "look at the run" in caught.value.mend


@pytest.mark.parametrize(
    ("name", "kind"), [("a b", UsageError), ("", UsageError), ("a/b", UsageError), ("..", NotFound)]
)
async def test_what_cannot_name_a_signal_leads_nowhere(
    client: HttpClient, service: MemoryService, name: str, kind: type[BextError]
) -> None:
    with pytest.raises(kind, match="signal"):
        await client.signal("r-1", SignalRequest(name=name))
    assert service.asked == []


@pytest.mark.parametrize("run_id", ["", ".", "..", "../incidents/i-1", "r-1/cancel", "nothing"])
async def test_an_id_of_nothing_leads_nowhere(client: HttpClient, service: MemoryService, run_id: str) -> None:
    with pytest.raises(NotFound, match=f"no run '{run_id}'"):
        await client.get(run_id)
    assert service.asked in ([], [("get", "nothing")])


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:7420",
        "localhost",
        "ftp://host",
        "http://",
        "http:///path",
        "http://h:port",
        "http://h?a=b",
        "h t",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL") as caught:
        HttpClient(url)
    assert "http://HOST:PORT" in caught.value.mend


def test_a_token_that_no_header_carries_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError) as caught:
        HttpClient(URL, "s3cret\n")
    assert "s3cret" not in str(caught.value)


def answering(respond: Callable[[httpx.Request], httpx.Response], token: str | None = None) -> HttpClient:
    return HttpClient(URL, token, transport=httpx.MockTransport(respond))


async def test_a_token_is_sent_as_a_bearer() -> None:
    sent: list[str | None] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"items": []})

    for token in ("t0ken", None):
        async with answering(respond, token) as client:
            await client.plugins()

    assert sent == ["Bearer t0ken", None]


async def test_a_url_may_have_a_path_before_the_api() -> None:
    sent: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(str(request.url))
        return httpx.Response(200, json={"items": []})

    for url in ("https://ops.example/bext", "https://ops.example/bext/"):
        async with HttpClient(url, transport=httpx.MockTransport(respond)) as client:
            await client.plugins()

    assert sent == ["https://ops.example/bext/api/v1/plugins"] * 2


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"status": "fine"}),
        httpx.Response(404, text="<html>"),
        httpx.Response(302, headers={"Location": "/login"}),
        httpx.Response(502, text="bad gateway"),
    ],
    ids=["a page", "other json", "a page 404", "a redirect", "a proxy"],
)
async def test_what_is_no_host_is_named(response: httpx.Response) -> None:
    async with answering(lambda _: response) as client:
        with pytest.raises(Unavailable, match=URL):
            await client.get("r-1")


@pytest.mark.parametrize(
    ("status", "kind"), [(401, NotAllowed), (403, NotAllowed), (404, NotFound), (429, UsageError), (500, BextError)]
)
async def test_a_problem_of_a_type_that_it_does_not_know_goes_by_its_status(status: int, kind: type[BextError]) -> None:
    problem = {"type": "urn:bext:problem:from-the-future", "detail": "no", "mend": "wait"}

    async with answering(lambda _: httpx.Response(status, json=problem)) as client:
        with pytest.raises(BextError) as caught:
            await client.get("r-1")

    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.mend) == ("no", "wait")


async def test_a_long_wait_is_made_of_short_requests() -> None:
    waits: list[str] = []
    statuses = ["RUNNING", "PENDING", "COMPENSATING", "WAITING"]

    def respond(request: httpx.Request) -> httpx.Response:
        waits.append(request.url.params["wait"])
        run = {"run_id": "r", "workflow": "w", "version": 1, "status": statuses[len(waits) - 1], "step": None}
        return httpx.Response(200, json={**run, "created_at": "", "updated_at": ""})

    async with answering(respond) as client:
        run = await client.result("r-1", wait_ms=3_600_000)

    assert run.status == "WAITING"
    assert waits == ["30000ms"] * 4


async def test_a_wait_that_is_over_gives_the_run_as_it_is(client: HttpClient) -> None:
    assert (await client.result("r-1", wait_ms=20)).status == "RUNNING"


async def test_a_face_over_a_client_is_the_face_itself(client: HttpClient, service: MemoryService) -> None:
    """The client is a service like any other: two hops say what one says."""
    app = create_http_app(Services(*(client,) * 10, access=service, host=service), metrics=str)

    async with client_of(app) as twice:
        assert await twice.get("r-1") == await client.get("r-1")
        assert await twice.resolve("i-1", RESOLVE) == await client.resolve("i-1", RESOLVE)
        assert await twice.workflows() == await client.workflows()
        assert await twice.schedules() == await client.schedules()
