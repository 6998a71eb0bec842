"""`/workflows` and `/plugins`: what is served."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.errors import NotFound
from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented
from bext_workflow.faces.http.reading import read_query
from bext_workflow.faces.http.shapes import NoParameters, WorkflowParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import Page, PluginView, WorkflowView
from bext_workflow.service.protocols import Workflows


class CatalogRoutes:
    """The handlers. The lists are short and whole: they have one page."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows

    def router(self) -> APIRouter:
        router = APIRouter(tags=["catalog"])
        add = router.add_api_route
        add("/workflows", self.list_workflows, methods=["GET"], **_WORKFLOWS)
        add("/workflows/{workflow_id}", self.get_workflow, methods=["GET"], **_WORKFLOW)
        add("/plugins", self.list_plugins, methods=["GET"], **_PLUGINS)
        return router

    async def list_workflows(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._workflows.workflows())))

    async def get_workflow(self, request: Request, workflow_id: str) -> Response:
        version = read_query(request, WorkflowParameters).version
        served = [view for view in await self._workflows.workflows() if view.id == workflow_id]
        wanted = [view for view in served if version in (None, view.version)]
        if not wanted:
            what = f"workflow {workflow_id!r}" if version is None else f"version {version} of workflow {workflow_id!r}"
            raise NotFound(f"no {what} is served", mend="see /api/v1/workflows")
        return answer(max(wanted, key=lambda view: view.version))

    async def list_plugins(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._workflows.plugins())))


_WORKFLOWS = documented("Every workflow and version", Page[WorkflowView], needs=Right.VIEW)
_WORKFLOW = documented(
    "One workflow; the highest version", WorkflowView, needs=Right.VIEW, query=WorkflowParameters, problems=[404]
)
_PLUGINS = documented("Every plugin that the config names", Page[PluginView], needs=Right.VIEW)
