"""`/livez`, `/readyz`, `/metrics`: for what watches the host. None of them waits for anything."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response

from bext_workflow.faces.http.answer import answer, respond
from bext_workflow.faces.http.openapi import documented
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
        add("/livez", self.live, methods=["GET"], summary="Whether the process answers", response_class=Response)
        add("/readyz", self.ready, methods=["GET"], **_READY)
        add("/metrics", self.metrics, methods=["GET"], summary="Prometheus metrics", response_class=Response)
        return router

    async def live(self) -> Response:
        return respond(b'{"live":true}')

    async def ready(self) -> Response:
        readiness = self._host.readiness()
        return answer(readiness, 200 if readiness.ready else 503)

    async def metrics(self) -> Response:
        return respond(self._metrics(), media_type=METRICS_TYPE)


_READY = documented("Whether the host takes work, and why not", Readiness, also=[(503, Readiness)])
