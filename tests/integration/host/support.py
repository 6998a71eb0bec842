"""A host in a test: plugins made of functions, a real SQLite store that can be rigged, and ways to wait for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from bext_workflow.host.clock import SystemChance, SystemClock
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.model.access import person
from bext_workflow.model.definition import StepDefinition, WorkflowDefinition
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, WorkflowStatus
from bext_workflow.model.view import EventView, IncidentView, RunView
from bext_workflow.plugin.hooks import Hook
from bext_workflow.plugin.registry import Plugin, Registry, serving
from bext_workflow.ports.clock import Chance, Clock
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine, StoreEngine
from bext_workflow.service.protocols import Acknowledged, CancelRequest, ResolveRequest, RetryRequest, StartRequest
from bext_workflow.service.service import Service
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.stage import FixedChance
from tests.integration.host.rigged import RiggedStore
from tests.unit.host.support import Recorder, within

CONTEXT_BYTES = 100_000
NOTE = "looked it up"


# Plugins


def step(name: str, **fields: Json) -> StepDefinition:
    return StepDefinition(name=name, **fields)


def workflow(*definitions: StepDefinition | str, id_: str = "order", version: int = 1) -> WorkflowDefinition:
    return WorkflowDefinition(
        id=id_,
        version=version,
        steps=tuple(StepDefinition(name=one) if isinstance(one, str) else one for one in definitions),
    )


def plugin(
    run_step: Callable[..., object],
    *definitions: WorkflowDefinition,
    name: str = "shop",
    compensate_step: Callable[..., object] | None = None,
    verify_step: Callable[..., object] | None = None,
    on_workflow_complete: Callable[..., object] | None = None,
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None,
) -> Plugin:
    """A plugin as the registry hands it to the host, of these functions."""
    return Plugin(
        name=name,
        distribution=f"acme-{name}",
        version="1.0",
        entry_point=name,
        hooks=frozenset(),
        definitions=definitions or (workflow("pack", "ship"),),
        run_step=_hook(run_step),
        compensate_step=None if compensate_step is None else _hook(compensate_step),
        verify_step=None if verify_step is None else _hook(verify_step),
        on_workflow_complete=None if on_workflow_complete is None else _hook(on_workflow_complete),
        lifespan=lifespan,
    )


def registry(*plugins: Plugin) -> Registry:
    return serving(plugins)


def _hook(function: Callable[..., object]) -> Hook:
    return Hook(function, inspect.iscoroutinefunction(function))


class Calls:
    """Hooks that note every call, and answer it by its step's script; without one: `Continue`, and a return.

    A script is a list of answers: outcomes, exceptions to raise, functions of the run (they may be async).
    """

    def __init__(
        self, scripts: Mapping[str, list[object]] | None = None, *, clock: Clock | None = None, **more: list[object]
    ) -> None:
        self._clock = clock
        self._scripts = dict(scripts or {}) | more
        self._noted = asyncio.Event()
        self.runs: list[WorkflowRun] = []
        self.made: list[str] = []
        self.at: list[int] = []

    async def run_step(self, run: WorkflowRun, step_name: str) -> object:
        return await self._answer(run, step_name, StepOutcome.Continue())

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> object:
        return await self._answer(run, f"undo_{step_name}", None)

    async def verify_step(self, run: WorkflowRun, step_name: str) -> object:
        return await self._answer(run, f"verify_{step_name}", None)

    async def on_workflow_complete(self, run: WorkflowRun) -> object:
        return await self._answer(run, "complete", None)

    def of(self, call: str) -> list[WorkflowRun]:
        """The snapshots that the calls of that name were given."""
        return [run for run, made in zip(self.runs, self.made, strict=True) if made == call]

    async def until(self, call: str, times: int = 1) -> None:
        """Waits until that call has been made so often."""
        async with within():
            while self.made.count(call) < times:
                self._noted.clear()
                await self._noted.wait()

    async def _answer(self, run: WorkflowRun, call: str, otherwise: object) -> object:
        self.runs.append(run)
        self.made.append(call)
        self.at.append(self._clock.now() if self._clock is not None else 0)
        self._noted.set()
        script = self._scripts.get(call, [])
        answer = script.pop(0) if script else otherwise
        if isinstance(answer, BaseException):
            raise answer
        if not callable(answer) or isinstance(answer, type):
            return answer
        given = answer(run)
        return await given if inspect.isawaitable(given) else given


def saga(calls: Calls, *definitions: WorkflowDefinition, verifies: bool = False, notifies: bool = False) -> Registry:
    """One plugin of these calls, with undo."""
    return registry(
        plugin(
            calls.run_step,
            *definitions,
            compensate_step=calls.compensate_step,
            verify_step=calls.verify_step if verifies else None,
            on_workflow_complete=calls.on_workflow_complete if notifies else None,
        )
    )


# Hosts


class Desk:
    """The service over a store, as a person stands before it, with or without a host in this process."""

    def __init__(self, store: RiggedStore, served: Registry, engine: Engine, clock: Clock, chance: Chance) -> None:
        self.store = store
        self.clock = clock
        self.service = Service(
            store=store,
            engine=engine,
            catalog=Catalog(served),
            clock=clock,
            chance=chance,
            context_bytes=CONTEXT_BYTES,
            who=lambda: person("ann"),
        )

    async def start(
        self,
        workflow: str = "order",
        *,
        version: int | None = None,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
        **context: Json,
    ) -> str:
        """The id of a new run, or of the one that has the key."""
        request = StartRequest(workflow=workflow, version=version, context=context, tags=dict(tags or {}), key=key)
        return (await self.service.start(request)).run.run_id

    async def get(self, run_id: str) -> RunView:
        return await self.service.get(run_id)

    async def status(self, run_id: str) -> WorkflowStatus:
        return (await self.store.find(run_id))[0].status

    async def settled(self, run_id: str) -> RunView:
        """The run once it stands still, with what has been asked of it done."""
        async with within():
            return await self.service.result(run_id, wait_ms=600_000)

    async def reaches(self, run_id: str, *wanted: WorkflowStatus) -> RunView:
        """The run once it has one of these statuses."""

        async def there() -> bool:
            return await self.status(run_id) in wanted

        await self.store.until(there)
        return await self.get(run_id)

    async def journal(self, run_id: str) -> list[EventView]:
        return list((await self.service.events(run_id, limit=500)).items)

    async def kinds(self, run_id: str) -> list[str]:
        return [event.kind for event in await self.journal(run_id)]

    async def until_kind(self, run_id: str, kind: str, times: int = 1) -> None:
        """Waits until the journal holds so many events of that kind."""

        async def there() -> bool:
            return (await self.kinds(run_id)).count(kind) >= times

        await self.store.until(there)

    async def quiet(self) -> None:
        """Gives the host every chance to do what it must not: many rounds of the loop, and of the disk."""
        for _ in range(5):
            await self.store.ping()
            for _ in range(20):
                await asyncio.sleep(0)

    async def passed_on(self, run_id: str) -> None:
        """Waits until the dispatcher has told the run's driver of the acts in its inbox."""
        (run,) = await self.store.find(run_id)
        self.store.loads.clear()

        async def there() -> bool:
            return run.rid in self.store.loads

        await self.store.until(there)

    async def incident(self, run_id: str) -> IncidentView:
        """The run's one open incident."""
        (incident,) = (await self.service.incidents(run_id=run_id)).items
        return incident

    async def cancel(self, run_id: str, *, compensate: bool = True, now: bool = False) -> Acknowledged:
        return await self.service.cancel(run_id, CancelRequest(reason="ordered twice", compensate=compensate, now=now))

    async def retry(self, run_id: str, *, step: str | None = None, new_visit: bool = False) -> Acknowledged:
        return await self.service.retry(run_id, RetryRequest(reason=NOTE, step=step, new_visit=new_visit))

    async def resolve(
        self, run_id: str, action: Action, *, next: str | None = None, updates: JsonObject | None = None
    ) -> Acknowledged:
        incident = await self.incident(run_id)
        request = ResolveRequest(action=action, note=NOTE, next=next, context_updates=updates or {})
        return await self.service.resolve(incident.id, request)


class Hosted(Desk):
    """A host that drives, and the service over it."""

    def __init__(self, host: Host, store: RiggedStore, served: Registry, telemetry: Recorder, chance: Chance) -> None:
        super().__init__(store, served, host, host._clock, chance)
        self.host = host
        self.telemetry = telemetry

    def dies(self) -> None:
        """From here on nothing that this host does reaches the store, as if its process had been killed."""
        self.store.dead = True
        self.host.drain()


SETTINGS = HostSettings(context_bytes=CONTEXT_BYTES, poll_ms=20, drain_timeout_ms=0)

PATIENT = replace(SETTINGS, poll_ms=360_000)
"""A poll is the net under what is due by itself: a long wait on a fake clock need not see thousands of them."""


@asynccontextmanager
async def hosting(
    served: Registry,
    path: Path | None = None,
    *,
    store: RiggedStore | None = None,
    clock: Clock | None = None,
    chance: Chance | None = None,
    settings: HostSettings = SETTINGS,
    concurrency: int | None = None,
    only: str | None = None,
) -> AsyncIterator[Hosted]:
    """A host over a SQLite file, or over one in memory. At the end it drains, with no time for what runs then."""
    clock = clock or SystemClock()
    chance = chance or SystemChance(1)
    telemetry = Recorder()
    async with opened(path) if store is None else _nothing(store) as used:
        host = Host(
            store=used,
            registry=served,
            settings=settings if concurrency is None else replace(settings, concurrency=concurrency),
            clock=clock,
            chance=chance,
            telemetry=telemetry,
            only=only,
        )
        async with host.running():
            yield Hosted(host, used, served, telemetry, chance)


@asynccontextmanager
async def jumping(
    served: Registry, clock: FakeClock, path: Path | None = None, *, jitter: float = 0.0
) -> AsyncIterator[Hosted]:
    """A host whose time passes only when it has nothing else to do, and then up to the next thing to do."""
    async with opened(path) as store, clock.autojump():
        store.clock = clock
        async with hosting(served, store=store, clock=clock, chance=FixedChance(jitter), settings=PATIENT) as hosted:
            yield hosted


@asynccontextmanager
async def opened(path: Path | None = None) -> AsyncIterator[RiggedStore]:
    store = RiggedStore(path)
    await store.open(migrate=True)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def desk(served: Registry, path: Path, *, clock: Clock | None = None) -> AsyncIterator[Desk]:
    """The service straight on the store's file, as a command uses it."""
    async with opened(path) as store:
        clock = clock or SystemClock()
        yield Desk(store, served, StoreEngine(store, clock), clock, SystemChance(2))


@asynccontextmanager
async def _nothing(store: RiggedStore) -> AsyncIterator[RiggedStore]:
    yield store
