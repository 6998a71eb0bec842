"""`/runs`: starting and reading runs, and what a person may do to one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from bext_workflow.faces.http.answer import answer
from bext_workflow.faces.http.longpoll import LongPolls
from bext_workflow.faces.http.openapi import documented, keyed
from bext_workflow.faces.http.reading import read_body, read_query, start_key, tags_of, wait_ms
from bext_workflow.faces.http.shapes import (
    CancelParameters,
    EventsParameters,
    ForkBody,
    HoldBody,
    NoParameters,
    ResultParameters,
    RunsParameters,
    SignalBody,
    StartBody,
)
from bext_workflow.model.access import Right
from bext_workflow.model.view import EventView, Page, RunView, WhyView
from bext_workflow.service.protocols import (
    Acknowledged,
    CancelPlan,
    CancelRequest,
    ForkRequest,
    Operations,
    RetryRequest,
    RunQuery,
    Runs,
    SignalRequest,
    Started,
    StartRequest,
)

REPLAYED = "Idempotency-Replayed"
DRIVEN = "Bext-Driven"
"""Whether a host is there that drives the run: what `Started.driven` says."""


def started_answer(started: Started) -> Response:
    """The answer to a start: 201 for a new run, 200 for that of an earlier start with the same key."""
    headers = {
        "Location": f"/api/v1/runs/{started.run.run_id}",
        DRIVEN: "true" if started.driven else "false",
    }
    if started.created:
        return answer(started.run, 201, headers=headers)
    return answer(started.run, 200, headers={**headers, REPLAYED: "true"})


class RunRoutes:
    """The handlers, over the two protocols that they turn into resources."""

    def __init__(self, runs: Runs, operations: Operations, polls: LongPolls) -> None:
        self._runs = runs
        self._operations = operations
        self._polls = polls

    def router(self) -> APIRouter:
        router = APIRouter(tags=["runs"])
        add = router.add_api_route
        add("/runs", self.start_run, methods=["POST"], **_START)
        add("/runs", self.list_runs, methods=["GET"], **_LIST)
        add("/runs/{run_id}", self.get_run, methods=["GET"], **_GET)
        add("/runs/{run_id}/result", self.get_result, methods=["GET"], **_RESULT)
        add("/runs/{run_id}/events", self.list_events, methods=["GET"], **_EVENTS)
        add("/runs/{run_id}/why", self.why_run, methods=["GET"], **_WHY)
        add("/runs/{run_id}/cancel", self.cancel_run, methods=["POST"], **_CANCEL)
        add("/runs/{run_id}/retry", self.retry_run, methods=["POST"], **_RETRY)
        add("/runs/{run_id}/fork", self.fork_run, methods=["POST"], **_FORK)
        add("/runs/{run_id}/signals/{name}", self.signal_run, methods=["POST"], **_SIGNAL)
        add("/runs/{run_id}/pause", self.pause_run, methods=["POST"], **_PAUSE)
        add("/runs/{run_id}/resume", self.resume_run, methods=["POST"], **_RESUME)
        return router

    async def start_run(self, request: Request) -> Response:
        read_query(request, NoParameters)
        body = await read_body(request, StartBody)
        started = await self._runs.start(
            StartRequest(
                workflow=body.workflow,
                version=body.version,
                context=body.context,
                tags=body.tags,
                key=start_key(request),
            )
        )
        return started_answer(started)

    async def list_runs(self, request: Request) -> Response:
        wanted = read_query(request, RunsParameters)
        query = RunQuery(
            workflow=wanted.workflow,
            version=wanted.version,
            status=wanted.status,
            tags=tags_of(wanted.tag),
            since=wanted.since,
            until=wanted.until,
            incident=wanted.incident,
            limit=wanted.limit,
            cursor=wanted.cursor,
        )
        return answer(await self._runs.list(query))

    async def get_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        return answer(await self._runs.get(run_id))

    async def get_result(self, request: Request, run_id: str) -> Response:
        wait = wait_ms(read_query(request, ResultParameters).wait)
        run = await self._polls.wait(
            lambda: self._runs.result(run_id, wait_ms=wait),
            otherwise=lambda: self._runs.get(run_id),
        )
        return answer(run)

    async def list_events(self, request: Request, run_id: str) -> Response:
        wanted = read_query(request, EventsParameters)
        return answer(await self._runs.events(run_id, after=wanted.after, limit=wanted.limit))

    async def why_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        return answer(await self._runs.why(run_id))

    async def cancel_run(self, request: Request, run_id: str) -> Response:
        wanted = read_query(request, CancelParameters)
        cancel = await read_body(request, CancelRequest)
        if wanted.dry_run:
            return answer(await self._operations.plan_cancel(run_id, cancel))
        return answer(await self._operations.cancel(run_id, cancel), 202)

    async def retry_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        retry = await read_body(request, RetryRequest)
        return answer(await self._operations.retry(run_id, retry), 202)

    async def fork_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        body = await read_body(request, ForkBody)
        fork = ForkRequest(at=body.at, step=body.step, reason=body.reason, key=start_key(request))
        return started_answer(await self._operations.fork(run_id, fork))

    async def signal_run(self, request: Request, run_id: str, name: str) -> Response:
        read_query(request, NoParameters)
        body = await read_body(request, SignalBody)
        signal = SignalRequest(name=name, payload=body.payload, id=body.id)
        return answer(await self._operations.signal(run_id, signal), 202)

    async def pause_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._operations.pause(run_id, reason), 202)

    async def resume_run(self, request: Request, run_id: str) -> Response:
        read_query(request, NoParameters)
        reason = (await read_body(request, HoldBody)).reason
        return answer(await self._operations.resume(run_id, reason), 202)


_START = keyed(
    documented(
        "Start a run",
        RunView,
        needs=Right.START,
        status=201,
        also=[(200, RunView)],
        body=StartBody,
        problems=[404, 410, 413, 415, 422, 503],
    )
)
_LIST = documented("List runs, newest first", Page[RunView], needs=Right.VIEW, query=RunsParameters, problems=[400])
_GET = documented("One run, whole", RunView, needs=Right.VIEW, problems=[404, 409])
_RESULT = documented(
    "Wait until a run has ended, is SUSPENDED or WAITING; at the latest when `wait` is over, answer it as it is",
    RunView,
    needs=Right.VIEW,
    query=ResultParameters,
    problems=[400, 404, 409],
)
_EVENTS = documented(
    "The journal of a run", Page[EventView], needs=Right.VIEW, query=EventsParameters, problems=[400, 404, 409]
)
_WHY = documented(
    "Why a run stands where it does, and what may happen next", WhyView, needs=Right.VIEW, problems=[404, 409]
)
_CANCEL = documented(
    "Cancel a run, or say what that would do",
    Acknowledged,
    needs=Right.OPERATE,
    status=202,
    also=[(200, CancelPlan)],
    query=CancelParameters,
    body=CancelRequest,
    problems=[404, 409, 422],
)
_RETRY = documented(
    "Set a FAILED run going again",
    Acknowledged,
    needs=Right.OPERATE,
    status=202,
    body=RetryRequest,
    problems=[404, 409, 422],
)
_FORK = keyed(
    documented(
        "Begin a new run where an ended one stood, at an event or at a step",
        RunView,
        needs=Right.OPERATE,
        status=201,
        also=[(200, RunView)],
        body=ForkBody,
        problems=[400, 404, 409, 410, 415, 422, 503],
    )
)
_SIGNAL = documented(
    "Send a signal to a run: to the wait that wants it, now or later",
    Acknowledged,
    needs=Right.SIGNAL,
    status=202,
    body=SignalBody,
    problems=[400, 404, 409, 415, 422],
)
_PAUSE = documented(
    "Hold a run: nothing new starts, and what runs goes on to its end",
    Acknowledged,
    needs=Right.OPERATE,
    status=202,
    body=HoldBody,
    problems=[404, 409, 415, 422],
)
_RESUME = documented(
    "Let a paused run go on",
    Acknowledged,
    needs=Right.OPERATE,
    status=202,
    body=HoldBody,
    problems=[404, 409, 415, 422],
)
