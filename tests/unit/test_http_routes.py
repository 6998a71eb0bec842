from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from bext_workflow.errors import Gone
from bext_workflow.model.json import JsonObject
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.service.protocols import (
    CancelRequest,
    CompleteRequest,
    DecideRequest,
    ResolveRequest,
    RetryRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
from tests.unit.http_support import API, NOW, TOKEN, MemoryService, app_over, body_of, requests_to, run_view


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture
async def http(service: MemoryService) -> AsyncIterator[httpx.AsyncClient]:
    async with requests_to(app_over(service)) as client:
        yield client


ORDER: JsonObject = {"workflow": "checkout", "version": 1, "context": {"sku": "tea"}, "tags": {"shop": "north"}}


async def test_a_start_answers_201_with_the_run_and_where_it_is(
    http: httpx.AsyncClient, service: MemoryService
) -> None:
    response = await http.post(f"{API}/runs", json=ORDER, headers={"Idempotency-Key": "order-1"})

    assert response.status_code == 201
    assert response.headers["location"] == f"{API}/runs/r-1"
    assert response.headers["bext-driven"] == "true"
    assert "idempotency-replayed" not in response.headers
    run = body_of(response)
    assert (run["run_id"], run["key"], run["context"], run["tags"]) == (
        "r-1",
        "order-1",
        ORDER["context"],
        ORDER["tags"],
    )
    assert service.asked == [
        (
            "start",
            StartRequest(workflow="checkout", version=1, context={"sku": "tea"}, tags={"shop": "north"}, key="order-1"),
        )
    ]
    assert body_of(await http.get(response.headers["location"])) == run


async def test_a_start_needs_the_workflow_alone(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.post(f"{API}/runs", json={"workflow": "checkout"})

    assert response.status_code == 201
    assert service.asked == [("start", StartRequest(workflow="checkout"))]


async def test_the_same_key_and_body_answer_the_same_run_as_a_replay(http: httpx.AsyncClient) -> None:
    first = await http.post(f"{API}/runs", json=ORDER, headers={"Idempotency-Key": "order-1"})

    again = await http.post(f"{API}/runs", json=ORDER, headers={"Idempotency-Key": "order-1"})

    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert again.content == first.content


async def test_the_same_key_with_another_body_is_a_problem_422(http: httpx.AsyncClient) -> None:
    await http.post(f"{API}/runs", json=ORDER, headers={"Idempotency-Key": "order-1"})

    other = await http.post(f"{API}/runs", json={**ORDER, "context": {}}, headers={"Idempotency-Key": "order-1"})

    assert other.status_code == 422
    assert body_of(other)["type"] == "urn:bext:problem:start-key-reused"


async def test_a_key_whose_run_was_removed_is_a_problem_410(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.fault = Gone("the run of this key was removed")

    response = await http.post(f"{API}/runs", json=ORDER, headers={"Idempotency-Key": "order-1"})

    assert response.status_code == 410
    assert body_of(response)["type"] == "urn:bext:problem:gone"


async def test_a_key_is_utf8_text(http: httpx.AsyncClient, service: MemoryService) -> None:
    await http.post(f"{API}/runs", json=ORDER, headers=[(b"Idempotency-Key", "süß-1".encode())])

    (_, asked) = service.asked[0]
    assert isinstance(asked, StartRequest)
    assert asked.key == "süß-1"


@pytest.mark.parametrize("values", [[b""], [b"\xff"], [b"one", b"two"]])
async def test_a_key_that_is_none_is_refused(
    http: httpx.AsyncClient, service: MemoryService, values: list[bytes]
) -> None:
    response = await http.post(f"{API}/runs", json=ORDER, headers=[(b"Idempotency-Key", value) for value in values])

    assert response.status_code == 400
    assert "Idempotency-Key" in body_of(response)["detail"]
    assert service.asked == []


async def test_a_start_that_nothing_drives_says_so(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.driven = False

    response = await http.post(f"{API}/runs", json=ORDER)

    assert response.headers["bext-driven"] == "false"


EXTREMES: JsonObject = {
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "beyond_double": 2**53 + 1,
    "whole_float": 1.0,
    "negative_zero": -0.0,
    "tenth": 0.1,
    "z": None,
    "a": "Ω 🜚",
}


async def test_a_context_comes_back_equal_and_type_equal_in_order(http: httpx.AsyncClient) -> None:
    """P47: integers beyond 2^53, int against float, -0.0, key order."""
    response = await http.post(f"{API}/runs", json={"workflow": "checkout", "context": EXTREMES})

    context = body_of(response)["context"]
    assert repr(list(context.items())) == repr(list(EXTREMES.items()))


async def test_a_list_hands_its_filters_on(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.get(
        f"{API}/runs?workflow=checkout&version=2&status=FAILED&status=SUSPENDED&tag=shop=north&tag=q=a=b"
        "&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z&incident=in_doubt&limit=7&cursor=here"
    )

    assert response.status_code == 200
    assert body_of(response) == {"items": [], "next_cursor": "more"}
    assert service.asked == [
        (
            "list",
            RunQuery(
                workflow="checkout",
                version=2,
                status=(WorkflowStatus.FAILED, WorkflowStatus.SUSPENDED),
                tags={"shop": "north", "q": "a=b"},
                since="2026-01-01T00:00:00Z",
                until="2026-02-01T00:00:00Z",
                incident=IncidentKind.IN_DOUBT,
                limit=7,
                cursor="here",
            ),
        )
    ]


async def test_a_list_without_filters_asks_for_a_default_page(http: httpx.AsyncClient, service: MemoryService) -> None:
    await http.get(f"{API}/runs")

    assert service.asked == [("list", RunQuery())]


async def test_events_go_on_after_the_cursor(http: httpx.AsyncClient, service: MemoryService) -> None:
    first = body_of(await http.get(f"{API}/runs/r-1/events?limit=2"))

    second = body_of(await http.get(f"{API}/runs/r-1/events?limit=2&after={first['next_cursor']}"))

    assert [event["seq"] for event in first["items"] + second["items"]] == [1, 2, 3, 4]
    assert service.asked == [("events", ("r-1", 0, 2)), ("events", ("r-1", 2, 2))]


@pytest.mark.parametrize(
    ("wait", "wait_ms"),
    [("", 0), ("?wait=250ms", 250), ("?wait=30s", 30_000), ("?wait=1m", 60_000), ("?wait=2h", 60_000)],
)
async def test_a_result_waits_as_long_as_asked_and_at_most_a_minute(
    http: httpx.AsyncClient, service: MemoryService, wait: str, wait_ms: int
) -> None:
    service.add(run_view("r-1", status=WorkflowStatus.COMPLETED))

    response = await http.get(f"{API}/runs/r-1/result{wait}")

    assert body_of(response)["status"] == "COMPLETED"
    assert service.asked[0] == ("result", ("r-1", wait_ms))


@pytest.mark.parametrize("wait", ["30", "s", "-1s", "1.5s", "1 s", "٣s", "1d", "1000000000s"])
async def test_a_wait_of_another_form_is_refused(http: httpx.AsyncClient, wait: str) -> None:
    response = await http.get(f"{API}/runs/r-1/result", params={"wait": wait})

    assert response.status_code == 400
    assert "30s" in body_of(response)["mend"]


async def test_a_cancel_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.add(run_view("r-1"))

    response = await http.post(f"{API}/runs/r-1/cancel", json={"reason": "typo", "compensate": False, "now": True})

    assert response.status_code == 202
    assert body_of(response) == {"run_id": "r-1", "act": "cancel", "driven": True}
    assert service.asked == [("cancel", ("r-1", CancelRequest(reason="typo", compensate=False, now=True)))]


async def test_a_cancel_needs_no_body(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.add(run_view("r-1"))

    response = await http.post(f"{API}/runs/r-1/cancel")

    assert response.status_code == 202
    assert service.asked == [("cancel", ("r-1", CancelRequest()))]


async def test_a_dry_run_answers_the_plan_and_cancels_nothing(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.post(f"{API}/runs/r-1/cancel?dry_run=true", json={"reason": "typo"})

    assert response.status_code == 200
    assert body_of(response)["undo"] == ["reserve_stock"]
    assert service.asked == [("plan_cancel", ("r-1", CancelRequest(reason="typo")))]


async def test_a_cancel_that_the_state_forbids_is_409_with_the_reason(
    http: httpx.AsyncClient, service: MemoryService
) -> None:
    """P18: a cancel that lost the race says so, with the final status."""
    service.add(run_view("r-1", status=WorkflowStatus.COMPLETED))

    response = await http.post(f"{API}/runs/r-1/cancel")

    assert response.status_code == 409
    assert body_of(response)["detail"] == "the run is COMPLETED and cannot be cancelled"


async def test_a_retry_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.post(
        f"{API}/runs/r-1/retry", json={"reason": "card is fixed", "step": "a", "new_visit": True}
    )

    assert response.status_code == 202
    assert service.asked == [("retry", ("r-1", RetryRequest(reason="card is fixed", step="a", new_visit=True)))]


async def test_a_signal_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.add(run_view("r-1"))

    response = await http.post(f"{API}/runs/r-1/signals/app.roved_1", json={"payload": EXTREMES, "id": "s-1"})

    assert response.status_code == 202
    assert body_of(response) == {"run_id": "r-1", "act": "signal", "driven": True}
    (signal,) = service.signals
    assert service.asked == [("signal", ("r-1", signal))]
    assert (signal.name, signal.id, repr(signal.payload)) == ("app.roved_1", "s-1", repr(EXTREMES))


async def test_a_signal_needs_no_body_and_its_payload_is_any_json(
    http: httpx.AsyncClient, service: MemoryService
) -> None:
    service.add(run_view("r-1"))

    for body in (None, {"payload": None}, {"payload": [1, "a"]}, {"payload": "yes"}):
        assert (await http.post(f"{API}/runs/r-1/signals/approved", json=body)).status_code == 202
    assert service.signals == [
        SignalRequest(name="approved"),
        SignalRequest(name="approved"),
        SignalRequest(name="approved", payload=[1, "a"]),
        SignalRequest(name="approved", payload="yes"),
    ]


@pytest.mark.parametrize("act", ["pause", "resume"])
async def test_a_hold_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService, act: str) -> None:
    service.add(run_view("r-1"))

    response = await http.post(f"{API}/runs/r-1/{act}", json={"reason": "audit"})

    assert response.status_code == 202
    assert body_of(response) == {"run_id": "r-1", "act": act, "driven": True}
    assert (await http.post(f"{API}/runs/r-1/{act}")).status_code == 202
    assert service.asked == [(act, ("r-1", "audit")), (act, ("r-1", ""))]


@pytest.mark.parametrize("act", ["signals/approved", "pause", "resume"])
async def test_a_run_that_has_ended_answers_409_with_the_reason(
    http: httpx.AsyncClient, service: MemoryService, act: str
) -> None:
    """P29: what the face shows of it."""
    service.add(run_view("r-1", status=WorkflowStatus.COMPENSATED))

    response = await http.post(f"{API}/runs/r-1/{act}", json={})

    assert response.status_code == 409
    assert body_of(response)["detail"].startswith("the run is COMPENSATED: ")


@pytest.mark.parametrize(
    ("act", "body", "pointer"),
    [
        ("signals/approved", {"payloads": 1}, "#/payloads"),
        ("signals/approved", {"id": 5}, "#/id"),
        ("pause", {"note": "x"}, "#/note"),
        ("resume", {"reason": None}, "#/reason"),
    ],
)
async def test_what_is_no_signal_or_hold_is_named(
    http: httpx.AsyncClient, service: MemoryService, act: str, body: JsonObject, pointer: str
) -> None:
    response = await http.post(f"{API}/runs/r-1/{act}", json=body)

    assert response.status_code == 422
    assert [fault["pointer"] for fault in body_of(response)["errors"]] == [pointer]
    assert service.asked == []


async def test_a_run_shows_its_waits_and_signals(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.add(run_view("r-1"))

    run = body_of(await http.get(f"{API}/runs/r-1"))

    wait = {"step": "approve", "visit": 1, "signal": "approved", "due_at": NOW, "opened_at": NOW, "approval": None}
    assert run["waits"] == [wait]
    assert run["signals"] == [
        {"name": "early", "id": None, "at": NOW, "state": "kept", "payload": {"n": 2**60, "f": 1.0}}
    ]


async def test_a_run_says_why_it_stands_where_it_does(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.add(run_view("r-1"))
    body = body_of(await http.get(f"{API}/runs/r-1/why"))
    assert body == {
        "run_id": "r-1",
        "status": "RUNNING",
        "text": "It waits.",
        "next": [{"on": "runs signal r-1 approved", "then": "it goes on at pay"}],
    }


async def test_approvals_are_listed_and_show_no_token(http: httpx.AsyncClient, service: MemoryService) -> None:
    body = body_of(await http.get(f"{API}/approvals?run_id=r-1&open_only=false&limit=3&cursor=c"))
    assert [item["title"] for item in body["items"]] == ["May it cost that much?"]
    assert not any("token" in key for item in body["items"] for key in item)
    assert service.asked == [("approvals", ("r-1", False, 3, "c"))]


async def test_a_wait_is_completed_by_its_token_once(http: httpx.AsyncClient, service: MemoryService) -> None:
    answer = {"approved": True, "comment": "as agreed", "payload": {"budget": 12}}
    response = await http.post(f"{API}/waits/{TOKEN}/complete", json=answer)
    assert (response.status_code, body_of(response)["act"]) == (202, "answer")
    assert service.asked == [
        ("complete", (TOKEN, CompleteRequest(payload={"budget": 12}, approved=True, comment="as agreed")))
    ]
    assert (await http.post(f"{API}/waits/used-up/complete", json={})).status_code == 410


async def test_a_decision_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.post(f"{API}/approvals/r-1:ask[3]/decide", json={"approved": False, "comment": "no budget"})
    assert (response.status_code, body_of(response)["act"]) == (202, "answer")
    assert service.asked == [("decide", ("r-1:ask[3]", DecideRequest(approved=False, comment="no budget")))]
    assert (await http.post(f"{API}/approvals/r-1:ask[3]/decide", json={})).status_code == 422


async def test_incidents_are_listed_open_ones_first_by_default(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.get(f"{API}/incidents")
    await http.get(f"{API}/incidents?run_id=r-1&open_only=false&limit=3&cursor=c")

    assert body_of(response)["items"][0]["evidence"] == {"charge": 2**60}
    assert service.asked == [("incidents", (None, True, 50, None)), ("incidents", ("r-1", False, 3, "c"))]


async def test_an_incident_is_answered_with_its_actions(http: httpx.AsyncClient) -> None:
    assert body_of(await http.get(f"{API}/incidents/i-1"))["actions"] == ["done", "not_done", "fail", "fail_undo"]


async def test_a_resolution_is_acknowledged_with_202(http: httpx.AsyncClient, service: MemoryService) -> None:
    answer: JsonObject = {
        "action": "done",
        "note": "seen",
        "context_updates": {"c": 1},
        "next": "end",
        "undo_data": [1],
    }

    response = await http.post(f"{API}/incidents/i-1/resolve", json=answer)

    assert response.status_code == 202
    assert service.asked[0] == (
        "resolve",
        ("i-1", ResolveRequest(action=Action.DONE, note="seen", context_updates={"c": 1}, next="end", undo_data=[1])),
    )


async def test_an_action_that_does_not_fit_is_409_with_those_that_do(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{API}/incidents/i-1/resolve", json={"action": "skip", "note": "no"})

    assert response.status_code == 409
    assert body_of(response)["mend"] == "one of done, not_done, fail, fail_undo"


async def test_workflows_and_plugins_are_lists_of_one_page(http: httpx.AsyncClient) -> None:
    workflows, plugins = body_of(await http.get(f"{API}/workflows")), body_of(await http.get(f"{API}/plugins"))

    assert [view["version"] for view in workflows["items"]] == [1, 10, 2]
    assert [view["name"] for view in plugins["items"]] == ["shop"]
    assert workflows["next_cursor"] is None
    assert plugins["next_cursor"] is None


@pytest.mark.parametrize(("query", "version"), [("", 10), ("?version=2", 2)])
async def test_a_workflow_is_its_highest_version_unless_one_is_named(
    http: httpx.AsyncClient, query: str, version: int
) -> None:
    assert body_of(await http.get(f"{API}/workflows/checkout{query}"))["version"] == version


@pytest.mark.parametrize("path", ["nothing", "checkout?version=3"])
async def test_a_workflow_or_version_that_is_not_served_is_404(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.get(f"{API}/workflows/{path}")).status_code == 404


async def test_an_id_reaches_the_service_as_it_was_written(http: httpx.AsyncClient, service: MemoryService) -> None:
    await http.get(f"{API}/runs/{quote('Ω 1')}")

    assert service.asked == [("get", "Ω 1")]


async def test_livez_asks_nobody(http: httpx.AsyncClient, service: MemoryService) -> None:
    service.fault = RuntimeError("the store is gone")

    response = await http.get("/livez")

    assert response.status_code == 200
    assert service.asked == []


async def test_readyz_is_red_with_the_reasons(http: httpx.AsyncClient, service: MemoryService) -> None:
    """P38, P39: what the face shows of them."""
    assert (await http.get("/readyz")).status_code == 200
    service.reasons = ["the disk is full"]

    response = await http.get("/readyz")

    assert response.status_code == 503
    assert body_of(response) == {"ready": False, "reasons": ["the disk is full"]}


async def test_metrics_are_prometheus_text(http: httpx.AsyncClient) -> None:
    response = await http.get("/metrics")

    assert response.text == "bext_up 1\n"
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_no_answer_is_to_be_kept_or_guessed_at(http: httpx.AsyncClient) -> None:
    for path in (f"{API}/runs", f"{API}/runs/none", "/readyz", "/nowhere"):
        response = await http.get(path)
        assert response.headers["cache-control"] == "no-store", path
        assert response.headers["x-content-type-options"] == "nosniff", path
