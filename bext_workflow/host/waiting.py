"""Callers that wait for a run to end, or to stand still until somebody acts."""

from __future__ import annotations

import asyncio

from bext_workflow.model.status import WorkflowStatus


class Settlements:
    """Futures by run id; each is told once, by the driver that made the status durable."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[WorkflowStatus]]] = {}

    def moved(self, run_id: str, status: WorkflowStatus) -> None:
        """The run has ended or stands still."""
        for future in self._waiting.pop(run_id, ()):
            if not future.done():
                future.set_result(status)

    def next(self, run_id: str) -> asyncio.Future[WorkflowStatus]:
        """The status that the run stands still or ends with next. Ask before looking at the run, to miss nothing."""
        future: asyncio.Future[WorkflowStatus] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, []).append(future)
        return future

    def forget(self, run_id: str, future: asyncio.Future[WorkflowStatus]) -> None:
        """The caller waits no longer."""
        waiting = self._waiting.get(run_id, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(run_id, None)
