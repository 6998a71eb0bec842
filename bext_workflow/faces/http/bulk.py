"""`/runs/bulk`: one act on many runs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_body, read_query
from bext_workflow.faces.http.shapes import CancelParameters
from bext_workflow.model.access import Right
from bext_workflow.service.administration import Bulk, BulkAnswer, BulkRequest


class BulkRoutes:
    """The handler."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk

    def router(self) -> APIRouter:
        router = APIRouter(tags=["runs"])
        router.add_api_route("/runs/bulk", self.act_in_bulk, methods=["POST"], **_BULK)
        return router

    async def act_in_bulk(self, request: Request) -> Response:
        dry_run = read_query(request, CancelParameters).dry_run
        return answer(await self._bulk.bulk(await read_body(request, BulkRequest), dry_run=dry_run))


_BULK = documented(
    "Do one act to many runs, or say what that would do; each has its own answer",
    BulkAnswer,
    needs=Right.OPERATE,
    query=CancelParameters,
    body=BulkRequest,
)
