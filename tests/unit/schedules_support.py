"""A host with schedules on a clock that stands still, and its store with strings on it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from bext_workflow.errors import StoreUnavailable
from bext_workflow.host.clock import SystemChance
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.model.access import person
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.schedule import SCHEDULED_AT_TAG, ScheduleDefinition
from bext_workflow.model.view import parse_instant
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin, Registry, Scheduled, Served
from bext_workflow.ports.store import LeaseLost, Member, Result, RunFilter, RunRow, ScheduleRow
from bext_workflow.ports.telemetry import LOG_LEVELS, METRICS
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine
from bext_workflow.service.schedules import ScheduleService
from bext_workflow.service.service import Service
from bext_workflow.stores import SqliteStore
from bext_workflow.stores.sqlite.worker import Worker
from bext_workflow.testing.clock import FakeClock

T = TypeVar("T")

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = parse_instant("2027-03-01T12:00:00Z")

_QUIET_ROUNDS = 30
_DEADLINE_S = 30

REPORT = WorkflowDefinition(id="report", steps=(StepDefinition(name="write", timeout_ms=0),))
REPORT_2 = WorkflowDefinition(id="report", version=2, steps=(StepDefinition(name="write", timeout_ms=0),))
BUNDLE = WorkflowDefinition(id="bundle", steps=(StepDefinition(name="inner", workflow="report"),))
OTHER = WorkflowDefinition(id="other", steps=(StepDefinition(name="write", timeout_ms=0),))


class StrungStore(SqliteStore):
    """Counts its calls, can die before or after one of them, and keeps what is asked of single runs to itself."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)
        self.calls = 0
        self.dies_at: int | None = None
        self.after_commit = False
        self.dead = False
        self.hides: dict[str, BaseException | None] = {}
        """Runs that cannot be found: what looking for them raises; None: it never answers."""
        self._in_flight = 0

    async def find(self, prefix: str, *, limit: int = 2) -> Sequence[RunRow]:
        if prefix in self.hides:
            trouble = self.hides[prefix]
            if trouble is not None:
                raise trouble
            await asyncio.Event().wait()
        return await super().find(prefix, limit=limit)

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        if self.dead:
            return [LeaseLost() for _ in batch]
        return await super().write(batch)

    async def ping(self) -> None:
        if not self.dead:
            await super().ping()

    async def quiet(self) -> None:
        """Waits until nothing happens any more: no call under way, and nobody who makes one."""
        async with asyncio.timeout(_DEADLINE_S):
            rounds = 0
            while rounds < _QUIET_ROUNDS:
                await asyncio.sleep(0)
                rounds = 0 if self._in_flight else rounds + 1

    async def _call(self, worker: Worker, job: Callable[[sqlite3.Connection], T]) -> T:
        if self.dead:
            raise StoreUnavailable("its process is dead")
        self.calls += 1
        dies = self.calls == self.dies_at
        if dies and not self.after_commit:
            self._die()
        self._in_flight += 1
        try:
            answer = await super()._call(worker, job)
        finally:
            self._in_flight -= 1
        if dies:
            self._die()
        return answer

    def _die(self) -> None:
        self.dead = True
        raise StoreUnavailable("its process is dead")


class Recorder:
    """`Telemetry` that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self.counts: dict[tuple[str, ...], float] = {}

    def log(self, event: str, **fields: object) -> None:
        assert event in LOG_LEVELS
        self.events.append((event, fields))

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        assert set(labels) == set(METRICS[metric][1])
        key = (metric, *labels.values())
        self.counts[key] = self.counts.get(key, 0) + amount

    def value(self, metric: str, **labels: str) -> float:
        return self.counts.get((metric, *labels.values()), 0)

    def all(self, event: str) -> list[dict[str, object]]:
        """The fields of every event of that name."""
        return [fields for name, fields in self.events if name == event]


class Work:
    """The plugin's one step: it ends at once, or when it is let go."""

    def __init__(self) -> None:
        self.made: list[WorkflowRun] = []
        self._may_end = asyncio.Event()
        self._may_end.set()

    def hold(self) -> None:
        """Runs live on from here."""
        self._may_end.clear()

    def let_go(self) -> None:
        self._may_end.set()

    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.made.append(run)
        await self._may_end.wait()
        return StepOutcome.Continue()


def schedule(
    id_: str = "hourly", cron: str = "0 * * * *", workflow: str = "report", **fields: Json
) -> ScheduleDefinition:
    return ScheduleDefinition(id=id_, workflow=workflow, cron=cron, **fields)


def registry(work: Work, *schedules: ScheduleDefinition) -> Registry:
    plugin = Plugin(
        name="shop",
        distribution="acme-shop",
        version="1",
        entry_point="shop",
        hooks=frozenset(),
        definitions=(REPORT, REPORT_2, OTHER, BUNDLE),
        schedules=schedules,
        run_step=Hook(work.run_step, is_async=True),
    )
    return Registry(
        plugins=(plugin,),
        served={(own.id, own.version): Served(own, plugin) for own in plugin.definitions},
        schedules={one.id: Scheduled(one, plugin.name) for one in schedules},
    )


class Scene:
    """A host that works, its store, its clock, and what was seen of it."""

    def __init__(
        self, host: Host, store: StrungStore, clock: FakeClock, served: Registry, work: Work, telemetry: Recorder
    ) -> None:
        self.host = host
        self.store = store
        self.clock = clock
        self.work = work
        self.telemetry = telemetry
        self.service, self.schedules = services(store, served, host, clock)

    async def passes(self, ms: int) -> None:
        """Time passes at once, and the host does what is due then."""
        self.clock.advance(ms)
        await self.store.quiet()

    async def row(self, schedule_id: str = "hourly") -> ScheduleRow:
        return next(row for row in await self.store.schedules() if row.id == schedule_id)

    async def amend(self, schedule_id: str = "hourly", **fields: Json) -> None:
        """Changes what is kept of the schedule, as a person or a crash would."""
        await self.store.amend_schedule(schedule_id, lambda row: replace(row, **fields), at=self.clock.now())

    async def started(self) -> list[int]:
        """The planned instants that have runs, oldest run first, in ms after NOON."""
        runs = await self.store.runs(RunFilter(), limit=500)
        return [
            parse_instant(run.tags[SCHEDULED_AT_TAG]) - NOON for run in reversed(runs) if SCHEDULED_AT_TAG in run.tags
        ]


SETTINGS = HostSettings(poll_ms=1_000, drain_timeout_ms=0)


@asynccontextmanager
async def hosting(
    *schedules: ScheduleDefinition,
    clock: FakeClock,
    store: StrungStore | None = None,
    work: Work | None = None,
    only: str | None = None,
) -> AsyncIterator[Scene]:
    """A host over these schedules; the store of a former one, or a new one in memory. It has looked around once."""
    work, telemetry = work or Work(), Recorder()
    served = registry(work, *schedules)
    async with opened() if store is None else nullcontext(store) as used:
        host = Host(
            store=used,
            registry=served,
            settings=SETTINGS,
            clock=clock,
            chance=SystemChance(),
            telemetry=telemetry,
            only=only,
        )
        async with host.running():
            await used.quiet()
            yield Scene(host, used, clock, served, work, telemetry)


@asynccontextmanager
async def opened(path: Path | None = None) -> AsyncIterator[StrungStore]:
    """An open store; closing it frees the seat of a host that died."""
    store = StrungStore(path)
    await store.open(migrate=True)
    try:
        yield store
    finally:
        await store.close()


def services(
    store: StrungStore, served: Registry, engine: Engine, clock: FakeClock, *, by: str = "ada"
) -> tuple[Service, ScheduleService]:
    """The service and the schedules, for one who acts as `by`."""
    service = Service(
        store=store,
        engine=engine,
        catalog=Catalog(served),
        clock=clock,
        chance=SystemChance(2),
        context_bytes=10_000,
        who=lambda: person(by),
    )
    return service, ScheduleService(registry=served, store=store, service=service, clock=clock, who=lambda: person(by))
