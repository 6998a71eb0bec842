"""A plugin for runs with branches: each call is noted by where it stands, `ship[3]`, and may be kept at a gate."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping

from bext_workflow.model.definition import WorkflowDefinition
from bext_workflow.model.outcome import StepOutcome
from bext_workflow.model.run import WorkflowRun
from bext_workflow.plugin.registry import Registry
from tests.integration.host.support import plugin, registry
from tests.unit.host.support import within


class Floor:
    """Hooks whose calls may be held, released and answered one by one; without a word they return at once.

    `answers` are by where a call stands, by its step, or by its undo (`undo_ship`): an outcome, an exception, or a list
    of these. `held`: where, and of which steps, calls wait until they are released.
    """

    def __init__(self, answers: Mapping[str, object] | None = None, *, held: tuple[str, ...] = ()) -> None:
        self._answers = dict(answers or {})
        self.started: list[str] = []
        self.ended: list[str] = []
        self.keys: list[str] = []
        self.undone: list[str] = []
        self.undoing: set[str] = set()
        self.interrupted: list[str] = []
        self.most_at_once = 0
        self._held = set(held)
        self._gates: dict[str, asyncio.Event] = {}
        self._news = asyncio.Event()

    async def run_step(self, run: WorkflowRun, step_name: str) -> object:
        at = place(run)
        self.started.append(at)
        self.keys.append(run.idempotency_key)
        self.most_at_once = max(self.most_at_once, len(self.started) - len(self.ended) - len(self.interrupted))
        await self._stand(at, step_name)
        self.ended.append(at)
        self._news.set()
        answer = self._answer(StepOutcome.Continue({at: "done"}), at, step_name)
        return answer(run) if callable(answer) else answer

    async def compensate_step(self, run: WorkflowRun, step_name: str) -> object:
        self.undone.append(place(run))
        self.undoing.add(f"undo_{place(run)}")
        await self._stand(f"undo_{place(run)}", f"undo_{step_name}")
        return self._answer(None, f"undo_{step_name}")

    async def _stand(self, at: str, name: str) -> None:
        """At the gate, if the call is to be held."""
        self._news.set()
        try:
            if self._held & {at, name}:
                await self._gate(at).wait()
        except asyncio.CancelledError:
            self.interrupted.append(at)
            raise

    def _answer(self, otherwise: object, *names: str) -> object:
        """The answer for the first of these names that has one; of a list the next one, as long as there are any."""
        answer = next((self._answers[name] for name in names if name in self._answers), otherwise)
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else otherwise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def release(self, *places: str) -> None:
        for at in places:
            self._gate(at).set()

    async def until(self, *places: str) -> None:
        """Waits until calls have started there; `undo_left`: of its undo."""
        async with within():
            while set(places) - set(self.started) - self.undoing:
                self._news.clear()
                await self._news.wait()

    async def until_ended(self, *places: str) -> None:
        async with within():
            while set(places) - set(self.ended):
                self._news.clear()
                await self._news.wait()

    def repeated(self) -> dict[str, int]:
        """The keys that were called more than once."""
        return {key: times for key, times in Counter(self.keys).items() if times > 1}

    def _gate(self, at: str) -> asyncio.Event:
        return self._gates.setdefault(at, asyncio.Event())


class Workbench:
    """The same with plain functions, which run in threads; only what is needed of it there.

    `again`: where the first attempt asks for another one, two seconds later.
    """

    def __init__(self, *, held: tuple[str, ...] = (), again: str = "") -> None:
        self.started: list[str] = []
        self.undone: list[str] = []
        self.threads: dict[str, int] = {}
        self._held = set(held)
        self._again = again
        self._gates: dict[str, threading.Event] = {}
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._lock = threading.Lock()

    def run_step(self, run: WorkflowRun, step_name: str) -> object:
        at = place(run)
        with self._lock:
            self.started.append(at)
            self.threads[at] = threading.get_ident()
        self._loop.call_soon_threadsafe(self._news.set)
        if self._held & {at, step_name}:
            assert self._gate(at).wait(10)
        if at == self._again and run.attempt == 1:
            return StepOutcome.Retry(after_ms=2_000, reason="busy")
        return StepOutcome.Continue({at: "done"})

    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        with self._lock:
            self.undone.append(place(run))

    def release(self, *places: str) -> None:
        for at in places:
            self._gate(at).set()

    async def until(self, *places: str) -> None:
        async with within():
            while set(places) - set(self.started):
                self._news.clear()
                await self._news.wait()

    def _gate(self, at: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(at, threading.Event())


def place(run: WorkflowRun) -> str:
    """Where a call stands: its key without the run's id."""
    return run.idempotency_key.removeprefix(f"{run.run_id}:").removesuffix(":compensate")


def of(floor: Floor | Workbench, *definitions: WorkflowDefinition) -> Registry:
    """One plugin of these hooks."""
    return registry(plugin(floor.run_step, *definitions, compensate_step=floor.compensate_step))
