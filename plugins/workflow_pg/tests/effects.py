"""A plugin that writes down every call, in one file for all hosts. It is copied out of the repo and installed there.

Workflow `errand`: three steps, each with an undo. Its context says what happens: `fails` names the step that gives up,
`gate` the one that waits for the file `open`; `work_ms` is what a call takes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path

from bext_workflow import StepDefinition, StepOutcome, WorkflowDefinition, WorkflowRun, hookimpl
from bext_workflow.model.json import Json
from bext_workflow.plugin.hookspecs import HostInfo

STEPS = ("pack", "pay", "ship")
CALLS = "calls.jsonl"
GATE = "open"
POLL_S = 0.005


class Effects:
    def __init__(self) -> None:
        self._folder = Path()

    @hookimpl
    def name(self) -> str:
        return "effects"

    @hookimpl
    def configure(self, config: Mapping[str, Json], host: HostInfo) -> None:
        del config
        self._folder = host.data_dir

    @hookimpl
    def definitions(self) -> list[WorkflowDefinition]:
        steps = tuple(StepDefinition(name=name, compensate_on_failure=False) for name in STEPS)
        return [WorkflowDefinition(id="errand", version=1, steps=steps)]

    @hookimpl
    async def run_step(self, run: WorkflowRun, step_name: str) -> StepOutcome:
        self._note(run, "begin")
        try:
            await self._work(run, step_name)
        finally:
            self._note(run, "end")
        if run.context.get("fails") == step_name:
            return StepOutcome.Fail("it gives up", compensate=True)
        return StepOutcome.Continue({step_name: run.attempt})

    @hookimpl
    async def compensate_step(self, run: WorkflowRun, step_name: str) -> None:
        del step_name
        self._note(run, "begin")
        self._note(run, "end")

    async def _work(self, run: WorkflowRun, step_name: str) -> None:
        work_ms = run.context.get("work_ms", 0)
        assert isinstance(work_ms, int)
        await asyncio.sleep(work_ms / 1000)
        # A file is what another process can make.
        while run.context.get("gate") == step_name and not (self._folder / GATE).exists():  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    def _note(self, run: WorkflowRun, what: str) -> None:
        """One write to a file that is only ever appended to: lines of several hosts stand in the order of time."""
        key = run.idempotency_key.removeprefix(run.run_id)
        line = json.dumps({"host": os.getpid(), "run": run.run_id, "key": key, "what": what})
        calls = os.open(self._folder / CALLS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(calls, f"{line}\n".encode())
        finally:
            os.close(calls)


plugin = Effects()
