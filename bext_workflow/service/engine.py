"""What the service needs of whoever drives: a host in this process, or nobody."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, TypeAlias

from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.clock import Clock
from bext_workflow.ports.store import Result, Store
from bext_workflow.service.starting import NewRun, create_of

Serving: TypeAlias = tuple[str, int, str]
"""(workflow, version, digest)."""

_POLL_MS = 50


class Engine(Protocol):
    """Takes starts, hears of acts, tells when a run stands still."""

    async def create(self, new: NewRun) -> tuple[NewRun, Result]:
        """Makes the start durable, or says why not; the first is the start as it was written."""

    async def served(self) -> Collection[Serving] | None:
        """What the hosts that are there drive; None: no host is there to carry out what is asked."""

    def wake(self) -> None:
        """An act is in the inbox."""

    async def settled(self, run_id: str, *, wait_ms: int) -> None:
        """Returns when the run has ended or stands still, or after `wait_ms`; perhaps earlier: look, and ask again."""


class StoreEngine:
    """No host in this process: starts and acts are rows, which a host sees within its poll interval."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def create(self, new: NewRun) -> tuple[NewRun, Result]:
        (result,) = await self._store.write([create_of(new, owner=None)])
        return new, result

    async def served(self) -> Collection[Serving] | None:
        hosts = [host for host in await self._store.hosts() if host.only is None]
        return [one for host in hosts for one in host.served] if hosts else None

    def wake(self) -> None:
        """The host, if there is one, is another process: it polls."""

    async def settled(self, run_id: str, *, wait_ms: int) -> None:
        waited = 0
        while waited < wait_ms:
            (row,) = await self._store.find(run_id, limit=1)
            if stands_still(row.status):
                return
            await self._clock.sleep(_POLL_MS)
            waited += _POLL_MS


def stands_still(status: WorkflowStatus) -> bool:
    """Whether only an act from outside, or the passing of time, moves a run of this status."""
    return status.terminal or status in (WorkflowStatus.SUSPENDED, WorkflowStatus.WAITING)
