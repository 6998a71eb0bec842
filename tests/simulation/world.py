"""Some hosts over a real store, a person, and what came of all runs: a simulation by a seed.

A host may die at any commit and in any call, commits and their answers get lost; then another host comes. Whatever
happens, each run must come to the end that its script has in fair weather.

Replay: `python -m tests.simulation.world SEED`
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec

from bext_workflow.errors import BextError, Conflict, StoreUnavailable
from bext_workflow.host.clock import SystemChance, SystemClock
from bext_workflow.host.host import Host, HostSettings
from bext_workflow.model.access import person
from bext_workflow.model.json import Json
from bext_workflow.model.outcome import NotDone, Outcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.model.status import Action, IncidentKind, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.ports.store import Store
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.engine import Engine, StoreEngine
from bext_workflow.service.protocols import CancelRequest, ResolveRequest, SignalRequest, StartRequest
from bext_workflow.service.service import Service
from bext_workflow.stores import SqliteStore
from tests.integration.host.support import plugin, registry
from tests.simulation.script import CHARGE, DEFINITION, SIGNAL, RunScript, Scene, outcome, script_of
from tests.simulation.trouble import CALM, STORM, Odds, Trouble
from tests.unit.host.support import Recorder

DEADLINE_S = 100
MOST_DEATHS = 8
_SETTINGS = HostSettings(poll_ms=20, lease_ms=60_000, drain_timeout_ms=0)
_PAUSE_S = 0.01


class Place(Protocol):
    """Where the runs are. `hosts`: how many may be there at once."""

    hosts: int

    async def open(self) -> Store:
        """As another process opens it."""

    async def bury(self, host_id: str) -> None:
        """The host is dead, and the time of its lease has passed."""


class End(msgspec.Struct, frozen=True):
    """What came of a run."""

    status: WorkflowStatus
    context: dict[str, Json]
    failure: str | None
    left_in_place: list[str]
    incidents: list[str]


class World:
    """One simulation: `ends` by the number of each run."""

    def __init__(self, seed: int, place: Place, odds: Odds) -> None:
        self._seed = seed
        self._place = place
        self._odds = odds
        self._scripts = script_of(seed)
        self._deaths = [""] * MOST_DEATHS
        self._living: list[Service] = []
        self._over = asyncio.Event()
        self.acted: Counter[tuple[str, int]] = Counter()
        """How often each attempt had its effect, by key and number."""
        self.ends: dict[int, End] = {}

    @property
    def died(self) -> int:
        return MOST_DEATHS - len(self._deaths)

    async def live(self) -> World:
        """Until every run has ended."""
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            for number in range(self._place.hosts):
                tasks.create_task(self._keep_a_host(number))
            await self._be_the_person()
            self._over.set()
        return self

    # Hosts

    async def _keep_a_host(self, number: int) -> None:
        """One host after the other, as whoever restarts a process does."""
        life = 0
        while not self._over.is_set():
            life += 1
            trouble = Trouble(Random(f"{self._seed} {number} {life}"), self._odds, self._deaths)
            store = trouble.over(await self._place.open())
            try:
                await self._be_a_host(store, trouble)
            except* StoreUnavailable:
                pass  # it could not start
            finally:
                await store.close()

    async def _be_a_host(self, store: Store, trouble: Trouble) -> None:
        actor = _Actor(self, trouble)
        served = registry(
            plugin(actor.run_step, DEFINITION, compensate_step=actor.compensate_step, verify_step=actor.verify_step)
        )
        clock, chance = SystemClock(), SystemChance()
        host = Host(store=store, registry=served, settings=_SETTINGS, clock=clock, chance=chance, telemetry=Recorder())
        try:
            async with host.running():
                service = _service(store, host, Catalog(served))
                self._living.append(service)
                await _first(trouble.died, self._over)
                self._living.remove(service)
        finally:
            await self._place.bury(host.host_id)

    # The person

    async def _be_the_person(self) -> None:
        chance = Random(f"{self._seed} person")
        store = Trouble(chance, (self._odds[0], 0.0), []).over(await self._place.open())
        desk = _service(store, StoreEngine(store, SystemClock()), Catalog(registry(plugin(_nobody, DEFINITION))))
        try:
            async with asyncio.TaskGroup() as runs:
                for number, script in enumerate(self._scripts):
                    runs.create_task(self._see_through(desk, chance, number, script))
        finally:
            await store.close()

    async def _see_through(self, desk: Service, chance: Random, number: int, script: RunScript) -> None:
        """Starts a run, sends it again until it is acknowledged, answers what it asks, and looks at its end."""
        request = StartRequest(workflow=DEFINITION.id, context={"number": number}, key=f"run-{number}")
        run_id = None
        while run_id is None:
            with suppress(BextError):
                door = chance.choice([desk, *self._living])
                run_id = (await door.start(request)).run.run_id
            await asyncio.sleep(_PAUSE_S)
        while number not in self.ends:
            with suppress(StoreUnavailable):
                run = await desk.get(run_id)
                if run.ended_at is not None:
                    self.ends[number] = await _end_of(desk, run)
                else:
                    await self._look_after(desk, run, script)
            await asyncio.sleep(_PAUSE_S)

    async def _look_after(self, desk: Service, run: RunView, script: RunScript) -> None:
        """Answers what the run waits for or is in doubt about; what was answered before is a conflict."""
        with suppress(Conflict):
            if run.status is WorkflowStatus.WAITING:
                await _answer(desk, run, script)
            for incident_id in run.holds or ():
                incident = await desk.incident(incident_id)
                acted = (incident.idempotency_key, incident.attempt) in self.acted
                in_doubt = incident.kind is IncidentKind.IN_DOUBT
                request = ResolveRequest(
                    action=(Action.DONE if acted else Action.NOT_DONE) if in_doubt else Action.RETRY,
                    note="I looked",
                    context_updates={incident.step: incident.attempt} if in_doubt and acted else {},
                )
                await desk.resolve(incident_id, request)


class _Actor:
    """The plugin of one host: it does what the scripts say, and dies with its host."""

    def __init__(self, world: World, trouble: Trouble) -> None:
        self._world = world
        self._trouble = trouble

    async def run_step(self, run: WorkflowRun, step_name: str) -> Outcome:
        scene = self._scene(run, step_name)
        await self._trouble.passing("before an effect")
        if scene.acts:
            self._world.acted[run.idempotency_key, run.attempt] += 1
        await self._trouble.passing("after an effect")
        if scene is Scene.ACTS_AND_BREAKS:
            raise LookupError("it broke when it had acted")
        return outcome(scene, step_name, run.attempt)

    async def verify_step(self, run: WorkflowRun, step_name: str) -> Outcome | NotDone:
        await self._trouble.passing("before a look")
        if (run.idempotency_key, run.attempt) not in self._world.acted:
            return NotDone()
        return outcome(self._scene(run, step_name), step_name, run.attempt)

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        await self._trouble.passing("before an undo")
        self._script(run).undo(step_name, run.attempt)
        await self._trouble.passing("after an undo")

    def _scene(self, run: WorkflowRun, step: str) -> Scene:
        return self._script(run).scene(step, run.attempt)

    def _script(self, run: WorkflowRun) -> RunScript:
        number = run.context["number"]
        assert isinstance(number, int)
        return self._world._scripts[number]


async def _nobody(run: WorkflowRun, step_name: str) -> None:
    raise AssertionError(f"a desk has called {step_name} of {run.run_id}")


def _service(store: Store, engine: Engine, catalog: Catalog) -> Service:
    return Service(
        store=store,
        engine=engine,
        catalog=catalog,
        clock=SystemClock(),
        chance=SystemChance(),
        context_bytes=100_000,
        who=lambda: person("ann"),
    )


async def _answer(desk: Service, run: RunView, script: RunScript) -> None:
    """Answers a question, or cancels the run because of it; an answer with the same id is given once."""
    for wait in run.waits or ():
        if wait.signal == SIGNAL and script.cancels:
            await desk.cancel(run.run_id, CancelRequest(reason="never mind"))
        elif wait.signal == SIGNAL:
            await desk.signal(run.run_id, SignalRequest(name=SIGNAL, payload="yes", id=wait.step))


async def _end_of(desk: Service, run: RunView) -> End:
    incidents = (await desk.incidents(run_id=run.run_id)).items
    return End(
        run.status,
        dict(run.context or {}),
        run.failure,
        list(run.left_in_place or ()),
        [f"{incident.kind} {incident.step}" for incident in incidents],
    )


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()


class SqlitePlace:
    """A file, which one host drives."""

    hosts = 1

    def __init__(self, folder: Path) -> None:
        self._file = folder / "bext.db"

    async def open(self) -> Store:
        store = SqliteStore(self._file)
        await store.open(migrate=True)
        return store

    async def bury(self, host_id: str) -> None:
        """The kernel does it."""


@contextmanager
def replayable(module: str, seed: int) -> Iterator[None]:
    """Says of a failure how to see it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"replay: python -m {module} {seed}")
        raise


async def fair(seed: int, folder: Path) -> dict[int, End]:
    """The ends that the runs have when nothing happens to them."""
    return (await World(seed, SqlitePlace(folder), CALM).live()).ends


def faults(world: World, fair: dict[int, End]) -> list[str]:
    """Why what came of the runs is not what their scripts say."""
    found = [
        f"run {number} became {end}, and in fair weather {fair[number]}"
        for number, end in world.ends.items()
        if end != fair[number]
    ]
    twice = [key for (key, _), times in world.acted.items() if times > 1 and key.endswith(f":{CHARGE}")]
    return found + [f"{key} acted twice" for key in twice]


async def _replay(seed: int) -> None:
    with tempfile.TemporaryDirectory() as calm, tempfile.TemporaryDirectory() as stormy:
        expected = await fair(seed, Path(calm))
        world = await World(seed, SqlitePlace(Path(stormy)), STORM).live()
    for number, end in sorted(expected.items()):
        print(number, script_of(seed)[number], end, sep="\n  ")
    print(f"{world.died} hosts died", *faults(world, expected), sep="\n")


if __name__ == "__main__":
    asyncio.run(_replay(int(sys.argv[1])))
