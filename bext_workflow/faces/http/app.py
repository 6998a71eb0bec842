"""The HTTP face, put together: guard, routes, problems."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from importlib.metadata import version
from typing import NamedTuple

from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from bext_workflow.errors import BextError, NotFound
from bext_workflow.faces.http.access import Gate, mount_behind
from bext_workflow.faces.http.approvals import ApprovalRoutes
from bext_workflow.faces.http.audit import AuditRoutes
from bext_workflow.faces.http.bulk import BulkRoutes
from bext_workflow.faces.http.catalog import CatalogRoutes
from bext_workflow.faces.http.guard import Guard
from bext_workflow.faces.http.hosts import HostRoutes
from bext_workflow.faces.http.incidents import IncidentRoutes
from bext_workflow.faces.http.longpoll import LongPolls
from bext_workflow.faces.http.openapi import Described
from bext_workflow.faces.http.probes import ProbeRoutes
from bext_workflow.faces.http.problem import MethodRefused, Unexpected, problem_response
from bext_workflow.faces.http.runs import RunRoutes
from bext_workflow.faces.http.schedules import ScheduleRoutes
from bext_workflow.faces.http.streams import StreamRoutes
from bext_workflow.faces.http.tokens import TokenRoutes
from bext_workflow.faces.http.webhooks import WebhookRoutes
from bext_workflow.service.administration import Access, Audit, Bulk, Hosts, Tokens, Webhooks
from bext_workflow.service.protocols import Approvals, HostView, Operations, Runs, Schedules, Workflows

PREFIX = "/api/v1"
MAX_BODY_BYTES = 1024 * 1024


class HttpApp:
    """The face as an ASGI application. `close` ends the long polls, so that a server can stop."""

    def __init__(self, guard: Guard, polls: LongPolls) -> None:
        self._guard = guard
        self._polls = polls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    def close(self) -> None:
        """Answers every request that waits, and lets none wait any more."""
        self._polls.close()


class Services(NamedTuple):
    """What the face is given."""

    runs: Runs
    operations: Operations
    workflows: Workflows
    schedules: Schedules
    approvals: Approvals
    tokens: Tokens
    audit: Audit
    webhooks: Webhooks
    bulk: Bulk
    hosts: Hosts
    access: Access
    host: HostView


def create_http_app(
    given: Services,
    *,
    metrics: Callable[[], str],
    allowed_hosts: Collection[str] = (),
    max_body_bytes: int = MAX_BODY_BYTES,
) -> HttpApp:
    """The face over what it is given. `allowed_hosts`: what a Host header may name besides loopback, without a port."""
    polls = LongPolls()
    app = described_app(given, polls, metrics=metrics)
    return HttpApp(Guard(app, allowed_hosts=allowed_hosts, max_body_bytes=max_body_bytes), polls)


def described_app(given: Services, polls: LongPolls, *, metrics: Callable[[], str]) -> Described:
    """The routes and their description. Raises `TypeError` for a route that does not say what it needs."""
    resources = (
        BulkRoutes(given.bulk).router(),
        HostRoutes(given.hosts).router(),
        RunRoutes(given.runs, given.operations, polls).router(),
        IncidentRoutes(given.operations).router(),
        CatalogRoutes(given.workflows).router(),
        ScheduleRoutes(given.schedules).router(),
        ApprovalRoutes(given.approvals).router(),
        TokenRoutes(given.tokens).router(),
        AuditRoutes(given.audit).router(),
        WebhookRoutes(given.webhooks).router(),
        StreamRoutes(given.runs, given.host, given.access, polls).router(),
    )
    app = Described(
        title="bext-workflow",
        version=version("bext-workflow"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    mount = partial(mount_behind, app, Gate(given.access))
    for router in resources:
        mount(router, prefix=PREFIX)
    mount(ProbeRoutes(given.host, metrics).router())
    for kind in (BextError, HTTPException, Exception):
        app.add_exception_handler(kind, _on_error)
    return app


async def _on_error(request: Request, error: Exception) -> Response:
    """Every way in which a request can fail. What is unexpected is logged by the guard."""
    match error:
        case BextError():
            return problem_response(error)
        case HTTPException(status_code=404):
            return problem_response(NotFound(f"there is nothing at {request.url.path}", mend="see /openapi.json"))
        case HTTPException(status_code=405, headers=headers):
            refusal = MethodRefused(f"{request.url.path} does not know {request.method}", mend="see the header Allow")
            return problem_response(refusal, headers)
        case _:
            return problem_response(Unexpected("the host met an unexpected error", mend="see the host's log"))
