"""The audit, as it is listed."""

from __future__ import annotations

from bext_workflow.errors import UsageError
from bext_workflow.model.json import loads
from bext_workflow.model.view import AuditView, Page, instant
from bext_workflow.ports.audit import AuditFilter, AuditRow
from bext_workflow.ports.store import Store
from bext_workflow.service.administration import AuditQuery
from bext_workflow.service.paging import checked_instant, checked_limit, page_of
from bext_workflow.service.service import Service


class AuditService:
    """`service.administration.Audit` over a store."""

    def __init__(self, *, store: Store, service: Service) -> None:
        self._store = store
        self._service = service

    async def audit(self, query: AuditQuery) -> Page[AuditView]:
        limit = checked_limit(query.limit)
        place = _checked_place(query.cursor)
        wanted = AuditFilter(
            run_id=None if query.run_id is None else (await self._service.find(query.run_id)).run_id,
            about=query.about,
            by=query.by,
            name=query.act,
            since=checked_instant(query.since, "since"),
            until=checked_instant(query.until, "until"),
        )
        if query.oldest_first:
            rows = await self._store.audit(wanted, limit=limit + 1, after=place or 0)
        else:
            rows = await self._store.audit(wanted, limit=limit + 1, before=place)
        return page_of([_view(row) for row in rows], limit, lambda act: str(act.id))


def _checked_place(cursor: str | None) -> int | None:
    """Cursors are numbers of rows."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise UsageError(f"the cursor {cursor!r} is not one of this list", mend="give the page's next_cursor as it is")
    return int(cursor)


def _view(row: AuditRow) -> AuditView:
    return AuditView(
        id=row.id,
        at=instant(row.at),
        by=row.by,
        act=row.name,
        run_id=row.run_id or None,
        about=row.about or None,
        reason=row.reason,
        data=loads(row.data),
    )
