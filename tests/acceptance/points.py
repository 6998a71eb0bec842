"""The points at which a host process may die, and the parts of a real host that pass them.

A point has a name that says where it is, and a number: how often it has been passed in this process. So a run that goes
through once without a kill tells every point at which it can be killed, and each can be found again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bext_workflow import StepOutcome, WorkflowDefinition, WorkflowRun, hookimpl
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo
from bext_workflow.ports.store import Claimed, HostRow, Judge, Member, Posted, Result
from bext_workflow.stores.sqlite.store import SqliteStore
from bext_workflow_pg.checkout import CheckoutPlugin

CHARGE = "charge_card"


class Points:
    """Counts what is passed, and kills this process at the point `fatal`."""

    def __init__(self, fatal: str | None) -> None:
        self._fatal = fatal
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.passed: list[str] = []

    def passing(self, what: str) -> None:
        with self._lock:  # hooks pass in threads of their own
            self._times[what] += 1
            point = f"{what} #{self._times[what]}"
            self.passed.append(point)
        if point == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedStore(SqliteStore):
    """The embedded store; its process may die just before and just after each of its commits.

    `looked` is set once the host has looked for work, and taken up what there was.
    """

    def __init__(self, path: Path, points: Points) -> None:
        super().__init__(path)
        self._points = points
        self._looked: list[asyncio.Event] = []
        self.looked = asyncio.Event()

    async def next_look(self) -> None:
        """Waits until the host begins to look for acts from outside, so that it has done so before."""
        looked = asyncio.Event()
        self._looked.append(looked)
        await looked.wait()

    async def with_acts(self, owner: str) -> Sequence[int]:
        while self._looked:
            self._looked.pop().set()
        return await super().with_acts(owner)

    async def write(self, batch: Sequence[Member]) -> Sequence[Result]:
        kinds = ", ".join(kind for member in batch for kind, _ in member.events)
        self._points.passing(f"before commit of {kinds or 'the index'}")
        results = await super().write(batch)
        self._points.passing(f"after commit of {kinds or 'the index'}")
        return results

    async def claim(
        self,
        owner: str,
        served: Collection[tuple[str, int]],
        *,
        now: int,
        limit: int,
        only: Collection[str] | None = None,
    ) -> Sequence[Claimed]:
        self._points.passing("before claim")
        claimed = await super().claim(owner, served, now=now, limit=limit, only=only)
        self._points.passing("after claim")
        self.looked.set()
        return claimed

    async def next_wake(
        self, served: Collection[tuple[str, int]], *, only: Collection[str] | None = None
    ) -> int | None:
        wake = await super().next_wake(served, only=only)
        if wake is None:
            self.looked.set()
        return wake

    async def post(self, run_id: str, judge: Judge, *, at: int) -> Posted:
        self._points.passing("before post")
        posted = await super().post(run_id, judge, at=at)
        self._points.passing("after post")
        return posted

    async def join(self, host: HostRow) -> None:
        self._points.passing("before join")
        await super().join(host)
        self._points.passing("after join")

    async def leave(self, host_id: str) -> None:
        self._points.passing("before leave")
        await super().leave(host_id)
        self._points.passing("after leave")

    async def save_definition(self, workflow: str, version: int, digest: str, policy: str, body: bytes) -> None:
        self._points.passing("before definition")
        await super().save_definition(workflow, version, digest, policy, body)
        self._points.passing("after definition")


class WatchedCheckout:
    """The checkout saga over its ledger. Every call is noted in `calls` before it acts.

    Its process may die before the effect of each call and between the effect and the return. Calls are made in threads,
    so that one may outlive its attempt. `charged` is called in the charge's thread once the card is charged; what it
    returns, or raises, is what the host gets.
    """

    def __init__(self, points: Points, calls: Path, life: int, charged: Callable[[StepOutcome], StepOutcome]) -> None:
        self._checkout = CheckoutPlugin()
        self._points = points
        self._calls = calls
        self._life = life
        self._charged = charged

    @hookimpl
    def name(self) -> str:
        return self._checkout.name()

    @hookimpl
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        self._checkout.configure(config, host)

    @hookimpl
    def lifespan(self) -> AbstractAsyncContextManager[None]:
        return self._checkout.lifespan()

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return self._checkout.definitions()

    @hookimpl
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.note(run, step_name)
        outcome = asyncio.run(self._checkout.run_step(run, step_name))
        self._points.passing(f"after effect of {step_name}")
        return self._charged(outcome) if step_name == CHARGE else outcome

    @hookimpl
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        self.note(run, f"undo of {step_name}")
        asyncio.run(self._checkout.compensate_step(run, step_name))
        self._points.passing(f"after effect of undo of {step_name}")

    def note(self, run: WorkflowRun, what: str) -> None:
        """Writes the call down: a killed process loses nothing that it has written."""
        key = run.idempotency_key.removeprefix(run.run_id)
        line = json.dumps({"life": self._life, "key": key, "attempt": run.attempt, "status": run.status})
        with self._calls.open("a", encoding="utf-8") as calls:
            calls.write(f"{line}\n")
        self._points.passing(f"before effect of {what}")


class WatchedToTheEnd(WatchedCheckout):
    """The same, with a hook for the end of a run."""

    @hookimpl
    def on_workflow_complete(self, run: WorkflowRun) -> None:
        self.note(run, "completion hook")
        self._points.passing("after effect of completion hook")
