"""`/approvals` and `/waits`: what persons are to decide, and the answers of those who hold a wait's token."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_body, read_query
from bext_workflow.faces.http.shapes import ApprovalsParameters, NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import ApprovalView, Page
from bext_workflow.service.protocols import Acknowledged, Approvals, CompleteRequest, DecideRequest


class ApprovalRoutes:
    """The handlers."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    def router(self) -> APIRouter:
        router = APIRouter(tags=["approvals"])
        add = router.add_api_route
        add("/approvals", self.list_approvals, methods=["GET"], **_LIST)
        add("/approvals/{approval_id}/decide", self.decide_approval, methods=["POST"], **_DECIDE)
        add("/waits/{token}/complete", self.complete_wait, methods=["POST"], **_COMPLETE)
        return router

    async def list_approvals(self, request: Request) -> Response:
        wanted = read_query(request, ApprovalsParameters)
        page = await self._approvals.approvals(
            run_id=wanted.run_id, open_only=wanted.open_only, limit=wanted.limit, cursor=wanted.cursor
        )
        return answer(page)

    async def decide_approval(self, request: Request, approval_id: str) -> Response:
        read_query(request, NoParameters)
        decide = await read_body(request, DecideRequest)
        return answer(await self._approvals.decide(approval_id, decide), 202)

    async def complete_wait(self, request: Request, token: str) -> Response:
        read_query(request, NoParameters)
        complete = await read_body(request, CompleteRequest)
        return answer(await self._approvals.complete(token, complete), 202)


_LIST = documented(
    "List approvals, those of the newest runs first",
    Page[ApprovalView],
    needs=Right.VIEW,
    query=ApprovalsParameters,
    problems=[400],
)
_DECIDE = documented(
    "Decide an approval, as one who may",
    Acknowledged,
    needs=Right.SIGNAL,
    status=202,
    body=DecideRequest,
    problems=[404, 409, 410, 415, 422],
)
_COMPLETE = documented(
    "Answer the wait that the token is for, once",
    Acknowledged,
    needs=None,
    status=202,
    body=CompleteRequest,
    problems=[400, 404, 409, 410, 415, 422],
)
