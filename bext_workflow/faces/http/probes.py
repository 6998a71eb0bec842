"""`/livez`, `/readyz`, `/metrics`: for what watches the host; and the description of the API itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response

from bext_workflow.faces.http.answer import answer, respond
from bext_workflow.faces.http.openapi import documented, documented_text
from bext_workflow.model.access import Right
from bext_workflow.service.protocols import HostView, Readiness

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ProbeRoutes:
    """The handlers; `metrics` gives the text of the Prometheus exposition format."""

    def __init__(self, host: HostView, metrics: Callable[[], str]) -> None:
        self._host = host
        self._metrics = metrics

    def router(self) -> APIRouter:
        router = APIRouter(tags=["probes"])
        add = router.add_api_route
        add("/livez", self.live, methods=["GET"], **_LIVE)
        add("/readyz", self.ready, methods=["GET"], **_READY)
        add("/metrics", self.metrics, methods=["GET"], **_METRICS)
        add("/openapi.json", self.describe, methods=["GET"], **_OPENAPI)
        return router

    async def live(self) -> Response:
        return respond(b'{"live":true}')

    async def ready(self) -> Response:
        readiness = self._host.readiness()
        return answer(readiness, 200 if readiness.ready else 503)

    async def describe(self, request: Request) -> Response:
        described: FastAPI = request.app
        return respond(msgspec.json.encode(described.openapi()))

    async def metrics(self) -> Response:
        return respond(self._metrics(), media_type=METRICS_TYPE)


_LIVE = documented_text("Whether the process answers", "application/json", needs=None)
_METRICS = documented_text("Prometheus metrics", "text/plain", needs=Right.VIEW)
_OPENAPI = documented_text("What this is written in", "application/json", needs=None)
_READY = documented("Whether the host takes work, and why not", Readiness, needs=None, also=[(503, Readiness)])
