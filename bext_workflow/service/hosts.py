"""The hosts that are alive, and how much there is for them to do."""

from __future__ import annotations

from collections.abc import Sequence

from bext_workflow.model.view import DriverView, IncidentCount, LiveCount, StatsView, instant
from bext_workflow.ports.store import HostRow, Store


class HostService:
    """`service.administration.Hosts` over a store."""

    def __init__(self, *, store: Store) -> None:
        self._store = store

    async def hosts(self) -> Sequence[DriverView]:
        return [_view(row) for row in sorted(await self._store.hosts(), key=lambda row: row.started_at)]

    async def stats(self) -> StatsView:
        live: dict[tuple[str, int], int] = {}
        for workflow, version, _, count in await self._store.live_digests():
            live[workflow, version] = live.get((workflow, version), 0) + count
        return StatsView(
            live=[
                LiveCount(workflow=workflow, version=version, runs=runs) for (workflow, version), runs in live.items()
            ],
            incidents=[IncidentCount(kind=kind, open=count) for kind, count in await self._store.open_incidents()],
            hosts=len(await self._store.hosts()),
        )


def _view(row: HostRow) -> DriverView:
    return DriverView(
        host_id=row.host_id,
        hostname=row.hostname,
        pid=row.pid,
        started_at=instant(row.started_at),
        serves=sorted(f"{workflow}@{version}" for workflow, version, _ in row.served),
        only=row.only,
    )
