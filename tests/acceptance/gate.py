"""A plugin whose steps wait for a file: a test decides when they end. It is copied out of the repo and installed there.

Workflow `gate` waits in a coroutine, `thread` in a plain function; both have two steps, of which the first waits.
Beside the store it notes every call in `calls.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

from bext_workflow import StepDefinition, StepOutcome, WorkflowDefinition, WorkflowRun, hookimpl
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo

STEPS = (StepDefinition(name="wait"), StepDefinition(name="after"))
POLL_S = 0.005


class _Gate:
    def __init__(self, name: str) -> None:
        self._name = name
        self._folder = Path()

    @hookimpl
    def name(self) -> str:
        return self._name

    @hookimpl
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        del config
        self._folder = host.data_dir

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        return [WorkflowDefinition(id=self._name, version=1, steps=STEPS)]

    @hookimpl
    def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        del step_name
        self.note(run)

    def note(self, run: WorkflowRun) -> None:
        line = json.dumps({"run": run.run_id, "key": run.idempotency_key, "attempt": run.attempt})
        with (self._folder / "calls.jsonl").open("a", encoding="utf-8") as calls:
            calls.write(f"{line}\n")

    def is_shut(self, step_name: str) -> bool:
        return step_name == "wait" and not (self._folder / "open").exists()


class Gate(_Gate):
    @hookimpl
    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.note(run)
        while self.is_shut(step_name):  # noqa: ASYNC110 — a file is what another process can make
            await asyncio.sleep(POLL_S)
        return StepOutcome.Continue({step_name: run.attempt})


class ThreadGate(_Gate):
    @hookimpl
    def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self.note(run)
        while self.is_shut(step_name):
            time.sleep(POLL_S)
        return StepOutcome.Continue({step_name: run.attempt})


coroutine = Gate("gate")
thread = ThreadGate("thread")
