"""`/schedules`: what starts runs by itself, and what a person may do to it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.openapi import documented, keyed
from bext_workflow.faces.http.reading import read_body, read_query, start_key
from bext_workflow.faces.http.runs import started_answer
from bext_workflow.faces.http.shapes import FiresParameters, HoldBody, NoParameters
from bext_workflow.model.access import Right
from bext_workflow.model.view import FireView, Page, RunView, ScheduleView
from bext_workflow.service.protocols import Schedules, TriggerRequest


class ScheduleRoutes:
    """The handlers. The lists are short and whole: they have one page."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    def router(self) -> APIRouter:
        router = APIRouter(tags=["schedules"])
        add = router.add_api_route
        add("/schedules", self.list_schedules, methods=["GET"], **_LIST)
        add("/schedules/{schedule_id}", self.get_schedule, methods=["GET"], **_GET)
        add("/schedules/{schedule_id}/next", self.list_fires, methods=["GET"], **_NEXT)
        add("/schedules/{schedule_id}/pause", self.pause_schedule, methods=["POST"], **_PAUSE)
        add("/schedules/{schedule_id}/resume", self.resume_schedule, methods=["POST"], **_RESUME)
        add("/schedules/{schedule_id}/trigger", self.trigger_schedule, methods=["POST"], **_TRIGGER)
        return router

    async def list_schedules(self, request: Request) -> Response:
        read_query(request, NoParameters)
        return answer(Page(items=list(await self._schedules.schedules())))

    async def get_schedule(self, request: Request, schedule_id: str) -> Response:
        read_query(request, NoParameters)
        return answer(await self._schedules.schedule(schedule_id))

    async def list_fires(self, request: Request, schedule_id: str) -> Response:
        limit = read_query(request, FiresParameters).limit
        return answer(Page(items=list(await self._schedules.fires(schedule_id, limit=limit))))

    async def pause_schedule(self, request: Request, schedule_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._schedules.pause_schedule(schedule_id, reason))

    async def resume_schedule(self, request: Request, schedule_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._schedules.resume_schedule(schedule_id, reason))

    async def trigger_schedule(self, request: Request, schedule_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        trigger = TriggerRequest(reason=reason, key=start_key(request))
        return started_answer(await self._schedules.trigger_schedule(schedule_id, trigger))


_LIST = documented("Every schedule of the config", Page[ScheduleView], needs=Right.VIEW)
_GET = documented("One schedule", ScheduleView, needs=Right.VIEW, problems=[404])
_NEXT = documented(
    "The next planned instants of a schedule",
    Page[FireView],
    needs=Right.VIEW,
    query=FiresParameters,
    problems=[400, 404],
)
_PAUSE = documented(
    "Let a schedule start nothing", ScheduleView, needs=Right.OPERATE, body=HoldBody, problems=[404, 409, 415, 422]
)
_RESUME = documented(
    "Let a paused schedule go on", ScheduleView, needs=Right.OPERATE, body=HoldBody, problems=[404, 409, 415, 422]
)
_TRIGGER = keyed(
    documented(
        "Start a schedule's run now",
        RunView,
        needs=Right.OPERATE,
        status=201,
        also=[(200, RunView)],
        body=HoldBody,
        problems=[404, 409, 410, 415, 422, 503],
    )
)
