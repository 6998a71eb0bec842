"""`/audit`: who did what, when and why."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from msgspec.structs import asdict

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_query
from bext_workflow.faces.http.shapes import AuditParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import AuditView, Page
from bext_workflow.service.administration import Audit, AuditQuery


class AuditRoutes:
    """The handler."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def router(self) -> APIRouter:
        router = APIRouter(tags=["audit"])
        router.add_api_route("/audit", self.list_audit, methods=["GET"], **_LIST)
        return router

    async def list_audit(self, request: Request) -> Response:
        wanted = AuditQuery(**asdict(read_query(request, AuditParameters)))
        return answer(await self._audit.audit(wanted))


_LIST = documented(
    "What persons and programs have done, newest first or oldest first",
    Page[AuditView],
    needs=Right.VIEW,
    query=AuditParameters,
    problems=[400, 404, 409],
)
