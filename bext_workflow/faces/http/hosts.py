"""`/hosts` and `/stats`: who drives, and how much there is to do."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_query
from bext_workflow.faces.http.shapes import NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import DriverView, Page, StatsView
from bext_workflow.service.administration import Hosts


class HostRoutes:
    """The handlers. The list is short and whole: it has one page."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def router(self) -> APIRouter:
        router = APIRouter(tags=["hosts"])
        add = router.add_api_route
        add("/hosts", self.list_hosts, methods=["GET"], **_LIST)
        add("/stats", self.get_stats, methods=["GET"], **_STATS)
        return router

    async def list_hosts(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._hosts.hosts())))

    async def get_stats(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(await self._hosts.stats())


_LIST = documented("Every host that is alive", Page[DriverView], needs=Right.VIEW)
_STATS = documented("How many runs are live, and how many incidents open", StatsView, needs=Right.VIEW)
