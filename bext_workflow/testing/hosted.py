"""A workflow on a real host, under a clock that jumps: three days pass in a millisecond."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bext_workflow.errors import Conflict
from bext_workflow.model.access import person
from bext_workflow.model.json import Json, JsonObject
from bext_workflow.model.status import Action, Call, WorkflowStatus
from bext_workflow.model.view import RunView
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.plugin.registry import load_given, serving
from bext_workflow.service.approvals import ApprovalService
from bext_workflow.service.catalog import Catalog
from bext_workflow.service.protocols import (
    MAX_LIMIT,
    CancelRequest,
    DecideRequest,
    ResolveRequest,
    RunQuery,
    SignalRequest,
    StartRequest,
)
from bext_workflow.service.service import Service
from bext_workflow.testing.clock import FakeClock
from bext_workflow.testing.history import History, history_of
from bext_workflow.testing.scripts import Scripts
from bext_workflow.testing.stage import DEADLINE_S, Stage, StageStore, stage

BY = "tester"
"""Who acts, where a test does not say."""

_CONTEXT_BYTES = 1_048_576


class Harness:
    """Runs workflows as a host does. Time stands still but for the calls that say that they wait."""

    def __init__(self, on: Stage, scripts: Scripts) -> None:
        self._stage = on
        self._scripts = scripts

    @property
    def clock(self) -> FakeClock:
        return self._stage.clock

    @property
    def service(self) -> Service:
        """Everything that can be asked of a host."""
        return self._service(BY)

    def _service(self, by: str) -> Service:
        return Service(
            store=self._stage.store,
            engine=self._stage.host,
            catalog=Catalog(self._stage.registry),
            clock=self.clock,
            chance=self._stage.chance,
            context_bytes=_CONTEXT_BYTES,
            who=partial(person, by),
        )

    # What the plugin is made to say

    def script(self, step: str, answers: Iterable[object]) -> None:
        """The next calls of `run_step` for that step get these answers; those after them go to the plugin.

        An answer is an outcome, an exception to raise, or a function of the run, plain or async. Raises `ValueError`
        for a step that is not called.
        """
        self._scripts.add(Call.STEP, step, answers)

    def script_undo(self, step: str, answers: Iterable[object]) -> None:
        """The same for `compensate_step`: None, or an exception to raise."""
        self._scripts.add(Call.UNDO, step, answers)

    def script_complete(self, workflow: str, answers: Iterable[object]) -> None:
        """The same for `on_workflow_complete`."""
        self._scripts.add(Call.COMPLETE, workflow, answers)

    # Runs

    async def start(
        self,
        workflow: str,
        context: Mapping[str, Json] | None = None,
        *,
        version: int | None = None,
        key: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Starts a run and returns its id; it goes on while a later call waits."""
        request = StartRequest(
            workflow=workflow, version=version, context=dict(context or {}), tags=dict(tags or {}), key=key
        )
        return (await self.service.start(request)).run.run_id

    async def run(self, workflow: str, context: Mapping[str, Json] | None = None) -> History:
        """`start` and `settle`."""
        return await self.settle(await self.start(workflow, context))

    async def settle(self, run_id: str) -> History:
        """Waits until the run has ended, is SUSPENDED or WAITING, with all that was asked of it done.

        Waits between attempts pass; a wait for a signal, an approval or a time does not.
        """
        return await self._passing(run_id, partial(self._still, run_id))

    async def finish(self, run_id: str) -> History:
        """Waits until the run has ended or is SUSPENDED: a wait that nobody answers runs out of time.

        Raises `AssertionError` for one that has no end.
        """
        return await self._passing(run_id, partial(self._finished, run_id))

    async def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> None:
        """Lets so much time pass, and does what comes due meanwhile."""
        passes = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        with self._stage.passing(), anyio.fail_after(DEADLINE_S):
            await self.clock.sleep(passes / timedelta(milliseconds=1))
            await self.clock.sleep(0)  # fires when nobody has anything left to do

    async def crash(self) -> None:
        """The host is gone, with all that it has not made durable; another one takes over, as after a restart."""
        await self._stage.crash()
        await self._stage.enter()

    async def history(self, run_id: str) -> History:
        """The run as it stands."""
        service = self.service
        run = await service.get(run_id)
        (row,) = await self._stage.store.find(run.run_id, limit=1)
        plan, _ = await self._stage.host.plans.plan_for(row)
        loaded = await self._stage.store.load(row.rid)
        incidents = await service.incidents(run_id=run.run_id)
        return history_of(plan, loaded.events, run, incidents.items)

    async def histories(self) -> list[History]:
        """Every run, in the order in which they were started: by the test, by a schedule, or by another run."""
        runs = (await self.service.list(RunQuery(limit=MAX_LIMIT))).items
        return [await self.history(run.run_id) for run in reversed(runs)]

    # What is done to a run from outside

    async def signal(self, run_id: str, name: str, payload: Json = None, *, id: str | None = None) -> None:
        """Raises what the host raises: `Conflict` for a run that takes none, `InvalidJson` for another shape."""
        await self.service.signal(run_id, SignalRequest(name=name, payload=payload, id=id))

    async def approve(self, run_id: str, *, form: Json = None, comment: str = "", by: str = BY) -> None:
        """Says yes to the one approval that the run waits for. Raises `Conflict` where there is none, or several."""
        await self._decide(run_id, DecideRequest(approved=True, comment=comment, form=form), by)

    async def reject(self, run_id: str, *, comment: str = "", by: str = BY) -> None:
        """Says no to it."""
        await self._decide(run_id, DecideRequest(approved=False, comment=comment), by)

    async def cancel(self, run_id: str, reason: str = "", *, compensate: bool = True, now: bool = False) -> None:
        await self.service.cancel(run_id, CancelRequest(reason=reason, compensate=compensate, now=now))

    async def resolve(
        self,
        run_id: str,
        action: Action,
        note: str = "as the test says",
        *,
        context_updates: JsonObject | None = None,
        next: str | None = None,
        undo_data: Json = None,
    ) -> None:
        """Answers the run's one open incident."""
        incidents = (await self.service.incidents(run_id=run_id)).items
        if len(incidents) != 1:
            raise Conflict(f"the run has {len(incidents)} open incidents", mend="answer one by `service.resolve`")
        request = ResolveRequest(
            action=action, note=note, context_updates=context_updates or {}, next=next, undo_data=undo_data
        )
        await self.service.resolve(incidents[0].id, request)

    async def _decide(self, run_id: str, request: DecideRequest, by: str) -> None:
        service = ApprovalService(
            store=self._stage.store, service=self._service(by), clock=self.clock, who=partial(person, by)
        )
        asked = (await service.approvals(run_id=run_id)).items
        if len(asked) != 1:
            raise Conflict(f"the run waits for {len(asked)} approvals", mend="`settle` it first")
        await service.decide(asked[0].id, request)

    # Waiting

    async def _passing(self, run_id: str, until: Callable[[], Awaitable[RunView]]) -> History:
        with self._stage.passing():
            try:
                with anyio.fail_after(DEADLINE_S):
                    await until()
            except TimeoutError:
                raise AssertionError(f"it goes on and on:\n{await self.history(run_id)}") from None
        return await self.history(run_id)

    async def _still(self, run_id: str) -> RunView:
        (row,) = await self._stage.store.find(run_id, limit=1)
        await self._stage.store.until(partial(self._stage.store.stands_still, row.rid))
        return await self.service.get(run_id)

    async def _finished(self, run_id: str) -> RunView:
        while True:
            since = self._stage.store.writes
            run = await self._still(run_id)
            if run.status is not WorkflowStatus.WAITING:
                return run
            for wait in run.waits or []:
                if wait.due_at is None:
                    raise AssertionError(f"{wait.step!r} waits for {wait.signal!r}, and for no end: send it")
            await self._stage.store.written_since(since)


@asynccontextmanager
async def harness(
    *plugins: object, config: JsonObject | None = None, scheduled: bool = False
) -> AsyncIterator[Harness]:
    """A host that serves these plugins (objects, classes or modules with hooks) over a store in memory.

    With `scheduled` the schedules of the plugins start runs while time passes. `config` is handed to each plugin's
    `configure` hook; its `data_dir` is a folder that is gone afterwards. Raises `PluginError` for what the host would
    refuse.
    """
    with TemporaryDirectory(prefix="bext-harness-") as folder:
        clock = FakeClock()
        info = HostInfo(data_dir=Path(folder), store="sqlite::memory:")
        scripts = Scripts(clock)
        loaded = [scripts.laid_over(load_given(plugin, info, config=config)) for plugin in plugins]
        async with stage(serving(loaded, scheduled=scheduled), StageStore(clock=clock)) as on:
            yield Harness(on, scripts)
