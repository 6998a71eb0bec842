"""Many waiting runs beside a few that run: what a saga costs does not grow with them (semantics §8)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.status import WorkflowStatus
from bext_workflow.ports.store import Index
from bext_workflow.service.protocols import SignalRequest
from bext_workflow.stores import SqliteStore
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.contract.base import committed, creation
from tests.integration.host.support import SETTINGS, Calls, Hosted, hosting, saga, workflow
from tests.integration.host.waiting_support import DAY, let_pass
from tests.unit.host.support import within

FEW, MANY = 100, 10_000
LOOKS = 6
"""Statements of the dispatcher's looks: two wake-ups that come at once are one look, or two."""


async def populate(store: SqliteStore, count: int, now: int) -> None:
    """Rows of runs of the served workflow that wait, half of them for a signal, half for a far timer."""
    for_signal = Index(status=WorkflowStatus.WAITING, step="b", wake_at=None, started_at=now)
    for_timer = replace(for_signal, wake_at=now + DAY)
    for first in range(0, count, 500):
        creates = (replace(creation(n, owner=None), workflow="order") for n in range(first, first + 500))
        await committed(store, *(replace(one, index=(for_signal, for_timer)[n % 2]) for n, one in enumerate(creates)))


class Meter:
    """Counts the statements of a store, by their first word, and the steps that SQLite takes for them."""

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        self.steps = 0

    async def attach(self, store: SqliteStore) -> None:
        for worker in (store._writer, store._reader):
            await store._call(worker, self._listen)

    def _listen(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(lambda statement: self.statements.update([statement.split()[0]]))
        connection.set_progress_handler(self._tick, 10)

    def _tick(self) -> int:
        self.steps += 1
        return 0


async def saga_beside(path: Path, count: int) -> Meter:
    """What one saga costs that waits in the middle and is signalled, and one poll after it."""
    clock = FakeClock()
    calls = Calls(b=[StepOutcome.Wait(signal="go")])
    async with hosting(saga(calls, workflow("a", "b", "c")), path, clock=clock) as hosted:
        await populate(hosted.store, count, clock.now())
        meter = Meter()
        await meter.attach(hosted.store)
        run_id = await hosted.start()
        await hosted.settled(run_id)
        await hosted.service.signal(run_id, SignalRequest(name="go"))
        await hosted.reaches(run_id, WorkflowStatus.COMPLETED)
        await polled(hosted, clock)
    return meter


async def polled(hosted: Hosted, clock: FakeClock) -> None:
    await let_pass(hosted, clock, SETTINGS.poll_ms)
    await hosted.quiet()


async def test_ten_thousand_waiting_runs_do_not_make_a_saga_dearer(tmp_path: Path) -> None:
    """§8, architecture "Commit path": no more statements, and the same work in each."""
    few = await saga_beside(tmp_path / "few.db", FEW)
    many = await saga_beside(tmp_path / "many.db", MANY)
    assert many.statements["INSERT"] == few.statements["INSERT"]
    assert many.statements.total() <= few.statements.total() + LOOKS
    assert few.steps > 20
    assert many.steps < few.steps * 1.2 + 20


async def test_waiting_runs_are_nowhere_but_in_the_store(tmp_path: Path) -> None:
    """§8: a start among them finds nothing to drive, and no driver is left from those that have parked."""
    clock = FakeClock()
    calls = Calls(b=[StepOutcome.Wait(signal="go") for _ in range(50)])
    served = saga(calls, workflow("a", "b"))
    async with hosting(served, tmp_path / "bext.db", clock=clock) as hosted:
        runs = [await hosted.start() for _ in range(50)]
        async with within():
            await hosted.host.idle()
        assert (hosted.host._dispatcher.active, len(hosted.host.settlements._waiting)) == (0, 0)
        assert [await hosted.status(run_id) for run_id in runs] == [WorkflowStatus.WAITING] * 50
    async with hosting(served, tmp_path / "bext.db", clock=clock) as hosted:
        await hosted.quiet()
        assert hosted.host._dispatcher.active == 0
        await hosted.service.signal(runs[7], SignalRequest(name="go"))
        await hosted.reaches(runs[7], WorkflowStatus.COMPLETED)
        assert hosted.telemetry.all("run_claimed") == [{"run_id": runs[7], "workflow": "order", "orphan": False}]
