"""One act on many runs: each is judged and answered by itself, and may be rehearsed first."""

from __future__ import annotations

from collections.abc import Sequence

from bext_workflow.errors import BextError, Unavailable, UsageError
from bext_workflow.service.administration import BulkAct, BulkAnswer, BulkItem, BulkRequest
from bext_workflow.service.builds import Certain, cancel_of, pause_of, reopen_of, resume_of
from bext_workflow.service.caller import Who
from bext_workflow.service.protocols import MAX_LIMIT, CancelRequest, RetryRequest, RunQuery
from bext_workflow.service.service import Service


class BulkService:
    """`service.administration.Bulk` over the service. One run after the other: a host has other things to do, too."""

    def __init__(self, *, service: Service, who: Who) -> None:
        self._service = service
        self._who = who

    async def bulk(self, request: BulkRequest, *, dry_run: bool = False) -> BulkAnswer:
        run_ids, cursor = await self._chosen(request)
        build = _build_of(request, self._who().by)
        items = [await self._done(run_id, request, build, dry_run=dry_run) for run_id in run_ids]
        return BulkAnswer(items=items, dry_run=dry_run, next_cursor=cursor)

    async def _chosen(self, request: BulkRequest) -> tuple[Sequence[str], str | None]:
        if (request.runs is None) is (request.query is None):
            raise UsageError(
                "a bulk act is on runs that are listed, or on those of a query", mend="give one of the two"
            )
        if request.query is None:
            runs = request.runs or []
            if not 1 <= len(runs) <= MAX_LIMIT:
                raise UsageError(f"{len(runs)} runs are listed", mend=f"list 1 to {MAX_LIMIT}")
            return list(dict.fromkeys(runs)), None
        wanted = request.query
        page = await self._service.list(
            RunQuery(
                workflow=wanted.workflow,
                version=wanted.version,
                status=tuple(wanted.status),
                tags=wanted.tags,
                since=wanted.since,
                until=wanted.until,
                incident=wanted.incident,
                limit=wanted.limit,
                cursor=wanted.cursor,
            )
        )
        return [run.run_id for run in page.items], page.next_cursor

    async def _done(self, run_id: str, request: BulkRequest, build: Certain, *, dry_run: bool) -> BulkItem:
        """What became of one run. Raises `Unavailable`: then it is the same for all of them."""
        try:
            row = await self._service.find(run_id)
            if dry_run:
                await self._service.foresee(row, build)
            else:
                await self._service.act_on(row, build, reason=request.reason, act=request.act.value)
        except Unavailable:
            raise
        except BextError as error:
            return BulkItem(run_id=run_id, done=False, problem=error.slug, detail=error.message)
        return BulkItem(run_id=row.run_id, status=row.status, done=True)


def _build_of(request: BulkRequest, by: str) -> Certain:
    match request.act:
        case BulkAct.CANCEL:
            return cancel_of(CancelRequest(reason=request.reason), by)
        case BulkAct.RETRY:
            return reopen_of(RetryRequest(reason=request.reason), by)
        case BulkAct.PAUSE:
            return pause_of(request.reason, by)
        case BulkAct.RESUME:
            return resume_of(request.reason, by)
