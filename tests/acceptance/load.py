"""Some orders at once, then some one after another, in this process: `python -m tests.acceptance.load FOLDER`.

It writes a line into the file `acknowledged` of the folder each time that the store says that a batch is durable, so
that a trace of system calls shows what came before; on stdout, how many there were.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from bext_workflow.app.parts import load
from bext_workflow.host.clock import SystemClock
from bext_workflow.host.telemetry import HostTelemetry
from bext_workflow.model.access import person
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Member, Result
from bext_workflow.service.protocols import StartRequest
from bext_workflow.service.service import Service
from bext_workflow.stores.sqlite.store import SqliteStore
from tests.acceptance.saga import ORDER

AT_ONCE = 40
ONE_BY_ONE = 10


class Counted(msgspec.Struct, frozen=True):
    """Batches that were acknowledged, and the members in them."""

    batches: int
    members: int


class _CountingStore(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._acknowledged = os.open(path.with_name("acknowledged"), os.O_CREAT | os.O_WRONLY)
        self.batches = 0
        self.members = 0

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        results = await super().write(batch)
        os.write(self._acknowledged, b"\n")
        self.batches += 1
        self.members += len(batch)
        return results


async def _load(folder: Path) -> Counted:
    parts = load(folder / "bext.config.toml", degraded=False, clock=SystemClock())
    store = _CountingStore(folder / "bext.db")
    parts = msgspec.structs.replace(parts, store=store)
    logger = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    await store.open(migrate=True)
    host = parts.host(HostTelemetry(logger), parts.settings())
    async with host.running():
        service = parts.service(host, who=lambda: person("load"))
        await asyncio.gather(*(_order(service) for _ in range(AT_ONCE)))
        for _ in range(ONE_BY_ONE):
            await _order(service)
    await store.close()
    return Counted(store.batches, store.members)


async def _order(service: Service) -> None:
    started = await service.start(StartRequest(workflow="checkout", context=ORDER))
    run = await service.result(started.run.run_id, wait_ms=20_000)
    if run.status is not WorkflowStatus.COMPLETED:
        raise AssertionError(run)


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(_load(Path(sys.argv[1])))).decode())
