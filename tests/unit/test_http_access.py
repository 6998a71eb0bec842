"""Every route × every scope, and what else stands before a route."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI
from starlette.responses import Response

from bext_workflow.errors import TooManyRequests
from bext_workflow.faces.http.access import Gate, declared, mount_behind, needs_of
from bext_workflow.model.access import BY_WORKFLOW, Caller, Right
from bext_workflow.model.json import JsonObject
from tests.unit.http_support import API, MemoryService, app_over, body_of, requests_to, run_view

SCOPES = [f"{right}:checkout" if right in BY_WORKFLOW else right.value for right in Right]

OPEN = {
    "GET /livez",
    "GET /readyz",
    "GET /openapi.json",
    "POST /api/v1/waits/{token}/complete",
}
"""What needs no token: probes, the description, and what has a token of its own in its path."""


THERE = {
    "run_id": "r-1",
    "incident_id": "i-1",
    "approval_id": "r-1:approve",
    "schedule_id": "nightly",
    "workflow_id": "checkout",
    "token": "ci",
    "name": "approved",
    "webhook_id": "w-1",
    "delivery_id": "d-1",
}
"""What the paths are about."""


@pytest.fixture
def service() -> MemoryService:
    service = MemoryService()
    service.add(run_view("r-1"))
    service.callers = {scope: Caller(by="token:t", scopes=frozenset({scope})) for scope in SCOPES}
    return service


async def described(service: MemoryService) -> dict[str, JsonObject]:
    async with requests_to(app_over(service)) as http:
        paths = body_of(await http.get("/openapi.json"))["paths"]
    return {f"{method.upper()} {path}": paths[path][method] for path in paths for method in paths[path]}


async def test_what_is_open_to_everybody_is_known_by_name(service: MemoryService) -> None:
    routes = await described(service)

    assert {route for route, operation in routes.items() if operation["x-bext-scope"] == "none"} == OPEN
    for route, operation in routes.items():
        assert operation["security"] == ([] if route in OPEN else [{"token": []}])


async def test_every_route_lets_in_whoever_has_its_scope_and_nobody_else(service: MemoryService) -> None:
    """Deny by default: what a scope does not name is refused, and the service is not asked."""
    routes = await described(service)
    tried = 0
    app = app_over(service)
    app.close()  # so that a stream that lets somebody in is over at once
    async with requests_to(app) as http:
        for route, operation in routes.items():
            method, path = route.format_map(THERE).split(" ")
            for scope in [None, "forged", *SCOPES]:
                service.asked.clear()
                headers = {"Authorization": f"Bearer {scope}"} if scope is not None else {}
                response = await http.request(method, path, headers=headers, json=None if method == "GET" else {})
                wanted = operation["x-bext-scope"]
                holds = scope is not None and scope.partition(":")[0] in (wanted, "admin")
                if route in OPEN or holds:
                    assert response.status_code not in (401, 403), (route, scope)
                else:
                    assert response.status_code == (403 if scope in SCOPES else 401), (route, scope)
                    assert service.asked == [], (route, scope)
                tried += 1
    assert tried == len(routes) * (len(SCOPES) + 2)


async def test_changes_need_more_than_view(service: MemoryService) -> None:
    for route, operation in (await described(service)).items():
        if not route.startswith("GET") and route not in OPEN:
            assert operation["x-bext-scope"] in {"start", "signal", "operate", "admin"}, route


@pytest.mark.parametrize("header", ["view", "Basic view", "Bearer", "Bearer  ", "Bearer view x", "Token view"])
async def test_what_is_no_bearer_token(service: MemoryService, header: str) -> None:
    async with requests_to(app_over(service)) as http:
        response = await http.get(f"{API}/runs", headers={"Authorization": header})

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert body_of(response)["type"] == "urn:bext:problem:unauthenticated"


async def test_a_bearer_token_is_taken_whatever_the_case_of_its_scheme(service: MemoryService) -> None:
    async with requests_to(app_over(service)) as http:
        assert (await http.get(f"{API}/runs", headers={"Authorization": "bearer view"})).status_code == 200


async def test_who_asks_too_often_is_told_when_to_ask_again(service: MemoryService) -> None:
    service.fault = TooManyRequests("too often", retry_after_s=7)
    async with requests_to(app_over(service)) as http:
        response = await http.get(f"{API}/runs", headers={"Authorization": "Bearer view"})

    assert (response.status_code, response.headers["retry-after"]) == (429, "7")


def test_a_route_without_a_scope_cannot_be_mounted() -> None:
    async def answer() -> Response:
        return Response()

    router = APIRouter()
    router.add_api_route("/fine", answer, openapi_extra=declared(Right.VIEW))
    mount_behind(FastAPI(), Gate(MemoryService()), router)
    assert needs_of(router.routes[0]) is Right.VIEW

    router.add_api_route("/forgotten", answer)
    with pytest.raises(TypeError, match="forgotten"):
        mount_behind(FastAPI(), Gate(MemoryService()), router)
