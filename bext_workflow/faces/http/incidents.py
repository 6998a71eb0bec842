"""`/incidents`: what waits for a person, and the answers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_body, read_query
from bext_workflow.faces.http.shapes import IncidentsParameters, NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import IncidentView, Page
from bext_workflow.service.protocols import Acknowledged, Operations, ResolveRequest


class IncidentRoutes:
    """The handlers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def router(self) -> APIRouter:
        router = APIRouter(tags=["incidents"])
        add = router.add_api_route
        add("/incidents", self.list_incidents, methods=["GET"], **_LIST)
        add("/incidents/{incident_id}", self.get_incident, methods=["GET"], **_GET)
        add("/incidents/{incident_id}/resolve", self.resolve_incident, methods=["POST"], **_RESOLVE)
        return router

    async def list_incidents(self, request: Request) -> Response:
        wanted = read_query(request, IncidentsParameters)
        page = await self._operations.incidents(
            run_id=wanted.run_id, open_only=wanted.open_only, limit=wanted.limit, cursor=wanted.cursor
        )
        return answer(page)

    async def get_incident(self, request: Request, incident_id: str) -> Response:
        read_query(request, NoParameters)
        return answer(await self._operations.incident(incident_id))

    async def resolve_incident(self, request: Request, incident_id: str) -> Response:
        read_query(request, NoParameters)
        resolve = await read_body(request, ResolveRequest)
        return answer(await self._operations.resolve(incident_id, resolve), 202)


_LIST = documented(
    "List incidents, newest first", Page[IncidentView], needs=Right.VIEW, query=IncidentsParameters, problems=[400]
)
_GET = documented("One incident", IncidentView, needs=Right.VIEW, problems=[404])
_RESOLVE = documented(
    "Answer an incident",
    Acknowledged,
    needs=Right.OPERATE,
    status=202,
    body=ResolveRequest,
    problems=[404, 409, 415, 422],
)
