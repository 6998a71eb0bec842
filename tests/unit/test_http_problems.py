from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest

from bext_workflow.errors import BextError
from tests.unit.http_support import API, MemoryService, app_over, body_of, each_error, requests_to


@pytest.fixture
def service() -> MemoryService:
    return MemoryService()


@pytest.fixture
async def http(service: MemoryService) -> AsyncIterator[httpx.AsyncClient]:
    async with requests_to(app_over(service)) as client:
        yield client


STATUSES = {
    "error": 500,
    "config-invalid": 500,
    "definition-invalid": 500,
    "plugin-invalid": 500,
    "usage": 400,
    "unauthenticated": 401,
    "not-allowed": 403,
    "not-found": 404,
    "conflict": 409,
    "store-busy": 409,
    "gone": 410,
    "json-invalid": 422,
    "start-key-reused": 422,
    "too-many-requests": 429,
    "unavailable": 503,
    "store-unavailable": 503,
    "not-migrated": 503,
}


def test_every_error_has_a_status() -> None:
    assert {error.slug for error in each_error()} == set(STATUSES)


@pytest.mark.parametrize("error", each_error(), ids=lambda error: error.slug)
async def test_an_error_is_a_problem_with_its_message_and_mend(
    http: httpx.AsyncClient, service: MemoryService, error: BextError
) -> None:
    service.fault = error

    response = await http.get(f"{API}/runs/r-1")

    problem = body_of(response)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.status_code == problem["status"] == STATUSES[error.slug]
    assert problem["type"] == f"urn:bext:problem:{error.slug}"
    assert (problem["detail"], problem["mend"]) == (error.message, error.mend)
    assert problem["title"]
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503))


async def test_a_path_that_is_not_there_is_a_problem_404(http: httpx.AsyncClient) -> None:
    for path in ("/", "/api/v1/run", "/api/v1/runs/", "/docs", "/redoc"):
        response = await http.get(path)
        assert response.status_code == 404, path
        assert body_of(response)["type"] == "urn:bext:problem:not-found"
        assert path in body_of(response)["detail"]


async def test_a_method_that_is_not_there_is_a_problem_405_with_those_that_are(http: httpx.AsyncClient) -> None:
    response = await http.delete(f"{API}/runs/r-1")

    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["allow"] == "GET"


async def test_an_unexpected_error_is_logged_and_told_to_nobody(
    http: httpx.AsyncClient, service: MemoryService, caplog: pytest.LogCaptureFixture
) -> None:
    service.fault = ZeroDivisionError("a secret")

    with caplog.at_level(logging.ERROR):
        response = await http.get(f"{API}/runs/r-1")

    assert response.status_code == 500
    assert body_of(response)["type"] == "urn:bext:problem:unexpected"
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is service.fault


BAD_BODIES = {
    "not json": (b"{", 422, None, "not JSON"),
    "not utf-8": (b'{"workflow": "\xff"}', 422, None, "not JSON"),
    "not an object": (b"[]", 422, None, "not an object"),
    "empty": (b"", 422, None, "not JSON"),
    "no workflow": (b"{}", 422, None, "workflow"),
    "wrong type": (b'{"workflow": 1}', 422, "#/workflow", "`str`"),
    "a version that is none": (b'{"workflow": "w", "version": true}', 422, "#/version", "`bool`"),
    "version zero": (b'{"workflow": "w", "version": 0}', 422, "#/version", ">= 1"),
    "a context that is a list": (b'{"workflow": "w", "context": []}', 422, "#/context", "`object`"),
    "a tag that is a number": (b'{"workflow": "w", "tags": {"a": 1}}', 422, "#/tags", "`str`"),
    "NaN": (b'{"workflow": "w", "context": {"a": NaN}}', 422, "#/context/a", "nan"),
    "infinity": (b'{"workflow": "w", "context": {"a": [1, 1e999]}}', 422, "#/context/a/1", "inf"),
    "2^63": (b'{"workflow": "w", "context": {"a": 9223372036854775808}}', 422, "#/context/a", "2^63"),
    "an enormous integer": (b'{"workflow": "w", "context": {"a": ' + b"9" * 5000 + b"}}", 422, None, "not JSON"),
    "NUL": (b'{"workflow": "w", "context": {"a": "\\u0000"}}', 422, "#/context/a", "NUL"),
    "a lone surrogate": (b'{"workflow": "w", "context": {"a": "\\ud800"}}', 422, "#/context/a", "surrogate"),
    "depth": (b'{"workflow": "w", "context": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}", 422, None, "deep"),
    "a parser bomb": (b"[" * 200_000, 422, None, "deep"),
}


@pytest.mark.parametrize(("text", "status", "pointer", "word"), BAD_BODIES.values(), ids=BAD_BODIES)
async def test_a_body_that_makes_no_start_names_the_place(
    http: httpx.AsyncClient, service: MemoryService, text: bytes, status: int, pointer: str | None, word: str
) -> None:
    """P46: refused at the door, before a parser makes floats of big integers."""
    response = await http.post(f"{API}/runs", content=text, headers={"Content-Type": "application/json"})

    problem = body_of(response)
    assert response.status_code == status, problem
    assert word in problem["detail"]
    if pointer is not None:
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    assert service.asked == []


async def test_an_unknown_field_names_the_nearest_one(http: httpx.AsyncClient, service: MemoryService) -> None:
    response = await http.post(f"{API}/runs", json={"workflow": "checkout", "contxt": {}})

    problem = body_of(response)
    assert response.status_code == 422
    assert problem["errors"] == [{"pointer": "#/contxt", "detail": "unknown field"}]
    assert problem["mend"] == "did you mean 'context'?"
    assert service.asked == []


async def test_a_key_in_the_body_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{API}/runs", json={"workflow": "checkout", "key": "k"})

    assert response.status_code == 422
    assert body_of(response)["mend"] == "known here: workflow, version, context, tags"


async def test_an_unknown_action_names_every_action(http: httpx.AsyncClient) -> None:
    response = await http.post(f"{API}/incidents/i-1/resolve", json={"action": "ignore", "note": ""})

    assert response.status_code == 422
    assert body_of(response)["errors"][0]["pointer"] == "#/action"
    assert body_of(response)["mend"].startswith("one of done, not_done, fail,")


BAD_QUERIES = {
    "limit=0": ("limit", ""),
    "limit=501": ("limit", ""),
    "limit=many": ("limit", ""),
    "limit=1&limit=2": ("limit", "once"),
    "version=0": ("version", ""),
    "version=99999999999999999999": ("version", ""),
    "status=DONE": ("status", "one of PENDING, RUNNING,"),
    "status=RUNNING&status=failed": ("status", "FAILED"),
    "incident=no": ("incident", "one of in_doubt, "),
    "tag=shop": ("tag", "tag=key=value"),
    "tag==north": ("tag", "tag=key=value"),
    "tag=a=1&tag=a=2": ("'a'", ""),
    "workflw=checkout": ("workflw", "'workflow'"),
    "run=1": ("run", ""),
    "cursor=garbled": ("cursor", ""),
    "workflow=a%00b": ("NUL", ""),
}


@pytest.mark.parametrize(("query", "word", "mend"), [(query, *words) for query, words in BAD_QUERIES.items()])
async def test_a_query_that_makes_no_sense_names_the_parameter(
    http: httpx.AsyncClient, query: str, word: str, mend: str
) -> None:
    response = await http.get(f"{API}/runs?{query}")

    problem = body_of(response)
    assert response.status_code == 400, problem
    assert word in problem["detail"]
    assert mend in problem.get("mend", "")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/runs"),
        ("GET", "/runs"),
        ("GET", "/runs/r-1"),
        ("GET", "/runs/r-1/result"),
        ("GET", "/runs/r-1/events"),
        ("POST", "/runs/r-1/cancel"),
        ("POST", "/runs/r-1/retry"),
        ("GET", "/incidents"),
        ("GET", "/incidents/i-1"),
        ("POST", "/incidents/i-1/resolve"),
        ("GET", "/workflows"),
        ("GET", "/workflows/checkout"),
        ("GET", "/plugins"),
    ],
)
async def test_every_route_refuses_parameters_that_it_does_not_know(
    http: httpx.AsyncClient, service: MemoryService, method: str, path: str
) -> None:
    response = await http.request(method, f"{API}{path}?drY_run=true")

    assert response.status_code == 400
    assert "drY_run" in body_of(response)["detail"]
    assert service.asked == []
